"""What does a command load before it answers, and does it read anything twice?"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from einformer.architectures import texts
from einformer.errors import Source
from einformer.huggingface import families
from einformer.notes import references, shelf

# ---------------------------------------------------------------------------------------------------------- imports

LIBRARIES = ("torch", "sympy", "numpy", "transformers", "matplotlib", "rich")
LEFT_OUT = {
    "--help": (
        *LIBRARIES,
        "einformer.language",
        "einformer.targets",
        "einformer.notes.documents",
        "einformer.interpreters.latex",
    ),
    "explain E301": (
        *LIBRARIES,
        "einformer.language",
        "einformer.targets",
        "einformer.notes.documents",
        "einformer.interpreters.latex",
    ),
    "lint note.md": (
        *LIBRARIES,
        "einformer.targets",
        "einformer.architectures",
        "einformer.language.check",
        "einformer.notes.names",
    ),
    "check gpt2": (
        *LIBRARIES,
        "einformer.notes.documents",
        "einformer.interpreters.latex",
        "einformer.interpreters.count.rules",
        "einformer.program.keeping",
    ),
    "count gpt2-xl --json --device h100-sxm": LIBRARIES,  # runs in a page, where there are none of them
    "count gpt2-xl --json --generation": LIBRARIES,
    "source gpt2-xl": LIBRARIES,
    "count gpt2 --json": (*LIBRARIES, "einformer.notes.documents", "einformer.interpreters.latex", "einformer.huggingface"),
}


@pytest.mark.parametrize("command", LEFT_OUT)
def test_a_command_loads_only_what_it_needs(command: str, tmp_path: Path) -> None:
    (tmp_path / "note.md").write_text("Let b: B, s: S.\n\n$$y_{bs} = 2 x_{bs}$$\n", encoding="utf-8")
    code = (
        "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); import einformer.cli as c; c.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *command.split()], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    loaded = done.stderr.split()
    assert done.stdout
    assert {"einformer.cli.options", "einformer.errors"} <= set(loaded)
    assert [name for name in loaded for left in LEFT_OUT[command] if name == left or name.startswith(f"{left}.")] == []


def test_the_package_alone_loads_nothing() -> None:
    code = "import sys, einformer; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert [name for name in loaded if name.split(".")[0] in ("einformer", *LIBRARIES)] == ["einformer"]


# ------------------------------------------------------------------------------------------------------- read once


def test_each_table_of_a_family_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Families extend the same tables, and each variant is laid over all of them."""
    read, table = Counter[str](), families._read_table

    def counted(path: Any) -> dict[str, Any]:
        read[path.name] += 1
        return table(path)

    monkeypatch.setattr(families, "_read_table", counted)
    families.family.cache_clear()
    families._read_whole.cache_clear()
    assert all(map(families.architectures, families.families()))
    assert {"every_family.toml", "llama.toml", "rope.toml"} <= read.keys()
    assert set(read.values()) == {1}


def test_a_text_is_checked_once_for_all_of_its_equations(monkeypatch: pytest.MonkeyPatch) -> None:
    checked, elaborate = Counter[str](), texts.elaborate

    def counted(source: Source) -> Any:
        checked[source.name] += 1
        return elaborate(source)

    monkeypatch.setattr(texts, "elaborate", counted)
    shelf.elaborate.cache_clear()
    assert any(each.emitted for each in references.references("S001"))
    assert "minimal.ein" in checked
    assert set(checked.values()) == {1}
