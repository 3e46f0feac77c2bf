"""Do the notebooks run from top to bottom, and do they print the outputs that they are kept with?

`--update-golden` stores the outputs. Their cells assert what they claim.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))
SMALL = 50_000  # bytes
_ERRORS_OF_ROUNDING = re.compile(r"\d+(\.\d+)?e-\d+|\b0\.0\b")


def read(path: Path) -> dict[str, Any]:
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return notebook


def list_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def execute(path: Path, notebook: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """The outputs of each cell: what it prints, and the picture or the formulas that its last line gives."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    return [run(cell, f"{path.name}, {cell['id']}", namespace) for cell in list_cells(notebook)]


def run(cell: dict[str, Any], name: str, namespace: dict[str, object]) -> list[dict[str, Any]]:
    body, last, printed = ast.parse("".join(cell["source"])), None, io.StringIO()
    if isinstance(body.body[-1], ast.Expr):
        last = ast.Expression(body.body.pop().value)  # type: ignore[attr-defined]
    with contextlib.redirect_stdout(printed):
        exec(compile(body, name, "exec"), namespace)
        value = eval(compile(last, name, "eval"), namespace) if last else None
    outputs: list[dict[str, Any]] = []
    if text := printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)})
    for kind, method in (("image/svg+xml", "_repr_svg_"), ("text/latex", "_repr_latex_")):
        if drawn := getattr(value, method, str)():  # sympy has a picture that is None
            data = {kind: drawn.splitlines(keepends=True)}
            outputs.append({"data": data, "metadata": {}, "output_type": "display_data"})
    return outputs


def mask_rounding(outputs: list[list[dict[str, Any]]]) -> str:
    return _ERRORS_OF_ROUNDING.sub("…", json.dumps(outputs, ensure_ascii=False, indent=1, sort_keys=True))


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_what_prints_has_an_output_and_the_file_is_small(path: Path) -> None:
    assert path.stat().st_size < SMALL
    for cell in list_cells(read(path)):
        assert bool(cell["outputs"]) >= ("\nprint(" in f"\n{''.join(cell['source'])}")
        assert cell["execution_count"] is None


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_prints_what_is_stored(path: Path, request: pytest.FixtureRequest) -> None:
    notebook = read(path)
    answers = execute(path, notebook)
    if request.config.getoption("--update-golden"):
        for cell, answer in zip(list_cells(notebook), answers, strict=True):
            cell["outputs"] = answer
        path.write_text(json.dumps(notebook, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    assert mask_rounding(answers) == mask_rounding([cell["outputs"] for cell in list_cells(notebook)])
