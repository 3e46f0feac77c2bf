"""Does what is shipped work where it is installed, and is its surface what the design says?"""

import html
import inspect
import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import assert_type

import pytest
import torch

import einformer
from einformer import objects
from einformer.objects import Model
from tests.few import FEW_TEXTS, few
from tests.shipped import TEXTS

ROOT = Path(__file__).parents[1]
SHIPPED = {".py", ".ein", ".toml", ".lark", ".typed"}


def output(*command: str | Path, cwd: Path = ROOT) -> str:
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    run = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, encoding="utf-8")
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The source archive, and the wheel that is built from it."""
    folder = tmp_path_factory.mktemp("archives")
    output(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return {"sdist": sdist, "wheel": wheel}


@pytest.fixture(scope="module", params=["sdist", "wheel"])
def installed(archives: dict[str, Path], request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripts of an empty environment in which an archive is installed; it borrows the requirements from ours."""
    home = tmp_path_factory.mktemp("installed")
    venv.create(home, with_pip=False, symlinks=os.name != "nt")
    paths = sysconfig.get_paths(scheme="venv", vars={"base": str(home), "platbase": str(home)})
    # A folder named by a .pth comes after the environment's own, and its own .pth files (one names this checkout) are not read.
    Path(paths["purelib"], "borrowed.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    scripts = Path(paths["scripts"])
    pip: list[str | Path] = [sys.executable, "-m", "pip", "--python", scripts / "python", "install", "--no-deps", "--no-index"]
    output(*pip, "--no-build-isolation", archives[request.param])
    return scripts


@pytest.mark.slow
def test_every_file_of_the_package_is_in_both_archives(archives: dict[str, Path]) -> None:
    here = {path.relative_to(ROOT).as_posix() for path in (ROOT / "einformer").rglob("*") if path.suffix in SHIPPED}
    with zipfile.ZipFile(archives["wheel"]) as wheel:
        assert {name for name in wheel.namelist() if name.startswith("einformer/")} == here
    with tarfile.open(archives["sdist"]) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert {name for name in names if name.startswith("einformer/")} == here
    assert {"CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "README.md", "pyproject.toml"} <= names


@pytest.mark.slow
def test_the_installed_version_heads_the_changelog(installed: Path, tmp_path: Path) -> None:
    version = output(installed / "einformer", "--version", cwd=tmp_path).split()[-1]
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(r"^## (\S+)$", changes, re.MULTILINE)[1] == version  # type: ignore[index]


@pytest.mark.slow
def test_the_installed_package_is_imported_from_where_it_was_installed(installed: Path, tmp_path: Path) -> None:
    place = output(installed / "python", "-c", "import einformer; print(einformer.__file__)", cwd=tmp_path)
    assert Path(place).is_relative_to(installed.parent)


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["--help"], ["check", "gpt2"]], ids=" ".join)
def test_the_installed_command_runs_outside_the_checkout(installed: Path, tmp_path: Path, arguments: list[str]) -> None:
    assert output(installed / "einformer", *arguments, cwd=tmp_path)


@pytest.mark.slow
def test_the_installed_plugin_is_found(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "double.ein").write_text("axes\n  d: D\nlayer Double(z_d) -> z_d:\n  return 2 z_d\n", encoding="utf-8")
    said = output(installed / "python", "-m", "pytest", "--einformer-summary", cwd=tmp_path)
    assert "1 passed" in said
    assert "einformer: 1 texts\n" in said


@pytest.mark.slow
@pytest.mark.parametrize("installed", ["wheel"], indirect=True)  # both archives have every file
@pytest.mark.parametrize("path", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_runs_in_the_kernel_of_the_extra(installed: Path, tmp_path: Path, path: Path) -> None:
    """A kernel of the environment where the package is installed, and not of this checkout."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    blank: dict[str, object] = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": []}
    name = "axes\n  d: D\nlayer Double(z_d) -> y_d:\n  return 2 z_d"
    where = f"import einformer; assert einformer.__file__.startswith({str(installed.parent)!r}), einformer.__file__"
    cells = ["%load_ext einformer", f"%%ein twice\n{name}", "assert '2 z_d' in str(twice)", where]
    notebook["cells"] += [blank | {"id": f"more{number}", "source": [cell]} for number, cell in enumerate(cells)]
    (tmp_path / path.name).write_text(json.dumps(notebook), encoding="utf-8")
    output(installed / "python", "-c", "from nbclient.cli import main; main()", path.name, cwd=tmp_path)


def test_importing_einformer_loads_no_heavy_library() -> None:
    loaded = output(sys.executable, "-c", "import einformer, sys; print(*sys.modules)").split()
    assert {"torch", "sympy", "transformers"}.isdisjoint(loaded)


def test_the_public_names_are_few() -> None:
    names = ["EinformerError", "contract", "contracts", "from_huggingface", "load", "model", "parse", "testing"]
    assert dir(einformer) == einformer.__all__ == names
    assert all(hasattr(einformer, name) for name in names)
    for module in (einformer.contracts, einformer.testing):
        assert dir(module) == sorted(module.__all__)


def test_all_public_names(golden: Callable[[str, str], None]) -> None:
    places = {
        "einformer": dir(einformer),
        "einformer.contracts": dir(einformer.contracts),
        "einformer.objects": objects.__all__,
        "einformer.testing": dir(einformer.testing),
        "a specification": [name for name in dir(einformer.load("gpt2")) if not name.startswith("_")],
        "a model": [name for name in dir(einformer.model("gpt2")) if not name.startswith("_")],
    }
    golden("names.txt", "\n\n".join("\n  ".join([place, *sorted(names)]) for place, names in places.items()) + "\n")


def test_what_is_imported_inside_does_not_appear_among_the_public_names() -> None:
    code = "import einformer; einformer.model('gpt2'); print(*dir(einformer), callable(einformer.model))"
    assert output(sys.executable, "-c", code).split() == [*einformer.__all__, "True"]


def test_a_built_module_has_types() -> None:
    """`mypy` reads this test: with `nn.Module` alone a method is a "Tensor not callable"."""
    module = einformer.load("gpt2").bind(D=12, A=3, L=1, V=11, K=8).build().eval()
    x_bs = torch.zeros(1, 2, dtype=torch.long)
    assert_type(module(x_bs), torch.Tensor)
    assert_type(module.generate(x_bs, 3), torch.Tensor)
    assert_type(module.decode(x_bs, cache=module.cache()), torch.Tensor)
    assert_type(module.log_prob(x_bs, x_bs), torch.Tensor)
    assert module.generate(x_bs, 3).shape == (1, 5)


@pytest.mark.parametrize("name", few([*TEXTS, "gpt2-xl"], FEW_TEXTS | {"gpt2-xl"}))
def test_a_specification_and_a_model_are_shown_in_one_line(name: str) -> None:
    model = einformer.model(name)
    for shown in (repr(model), repr(model.spec)):
        assert len(shown) < 200
        assert shown.isprintable()
    assert model.spec.name in repr(model)


def test_a_notebook_shows_equations_and_sizes() -> None:
    model = einformer.model("gpt2")
    assert model._repr_latex_() == model.spec._repr_latex_() == f"$$\n{model.spec.latex()}\n$$"
    assert html.unescape(model.spec._repr_html_()).endswith(model.spec._repr_latex_())
    assert "<td>D</td><td>768</td>" in model._repr_html_()
    assert r"\mathrm{gelutanh}" in model.spec["MLP"]._repr_latex_()
    assert r"\mathrm{GPT2}" not in model.spec["MLP"]._repr_latex_()


def test_bytes_are_those_of_one_precision_where_none_is_given() -> None:
    methods = ("memory", "summary", "saved", "peak", "cache_bytes")
    defaults = {inspect.signature(getattr(Model, method)).parameters["precision"].default for method in methods}
    assert defaults == {"bfloat16"}
    gpt2 = einformer.model("gpt2")
    summary = gpt2.summary(B=1, S=8)
    assert gpt2.memory(B=1, S=8).parameters == summary.weights == 2 * gpt2.num_parameters
    assert summary.cache == (gpt2.cache_bytes(B=1, S=8).per_token, gpt2.cache_bytes(B=1, S=8).total)


@pytest.mark.parametrize("method", ["saved", "peak", "cache_bytes"])
def test_a_precision_is_a_name_of_memory_or_a_dtype(method: str) -> None:
    """The ways to store a training step have the numbers of their dtype; a dtype of torch is its name."""
    gpt2 = einformer.model("gpt2", D=8, A=2, L=1, V=11, K=8)
    count = {precision: getattr(gpt2, method)(precision=precision, B=1, S=4) for precision in ("float16", "float32")}
    for precision, element in (("adam8bit", "float16"), (torch.float16, "float16"), (torch.float32, "float32")):
        assert getattr(gpt2, method)(precision=precision, B=1, S=4) == count[element]
    assert count["float16"] != count["float32"]
    with pytest.raises(einformer.EinformerError, match="E605"):
        getattr(gpt2, method)(precision="int3", B=1, S=4)


def test_each_file_has_a_name_of_its_own() -> None:
    stems = Counter(path.stem for path in (ROOT / "einformer").rglob("*.py") if path.stem != "__init__")
    assert not [stem for stem, count in stems.items() if count > 1]


def test_data_of_the_package_names_no_test() -> None:
    """What is installed knows nothing of the tests, which are not."""
    texts = {
        path: path.read_text(encoding="utf-8") for end in ("toml", "ein") for path in (ROOT / "einformer").rglob(f"*.{end}")
    }
    assert texts
    assert {path.name for path, text in texts.items() if re.search(r"tests?/test_|\btest_\w", text)} == set()
