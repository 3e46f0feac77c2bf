"""Runs the command line as users do, and reads what it prints."""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from einformer.cli import main


class Answer(NamedTuple):
    """The exit code of a command, and what it printed."""

    code: int
    out: str
    err: str


def run(*arguments: str) -> Answer:
    """Runs a command."""
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        code = main(arguments)
    return Answer(code, out.getvalue(), err.getvalue())


def read_json(*arguments: str) -> Any:
    """Returns what a command prints with `--json`."""
    return json.loads(run(*arguments, "--json").out)


LETTERS = dict.fromkeys("abcdefghijklmnopqrstuvwxyz", "")  # a legend of all letters
SAME = ("code", "message", "file", "line", "column", "fix")


@dataclass(frozen=True, slots=True)
class Found:
    """A finding as `--json` prints it, with the characters under the caret."""

    code: str
    message: str
    file: str
    line: int
    column: int
    text: str
    facts: tuple[str, ...]
    fix: str


@dataclass(frozen=True, slots=True)
class Linted:
    """The findings in a file, how many equations are read, `""`, or not for a reason, and how many names of Python."""

    findings: tuple[Found, ...]
    counts: Counter[str]
    names: int

    @property
    def codes(self) -> list[str]:
        """The codes of the findings, in the order of the file."""
        return [finding.code for finding in self.findings]


def lint(text: str, name: str = "note.md", legend: Mapping[str, str] | None = None) -> Linted:
    """Lints a text in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path(name).write_text(text, encoding="utf-8", newline="")
        return lint_file(name, legend)


def lint_file(path: str, legend: Mapping[str, str] | None = None) -> Linted:
    """Lints a file."""
    given = ", ".join(f"{letter}: {size}" if size else letter for letter, size in (legend or {}).items())
    data = read_json("lint", path, *(["--legend", given] * bool(given)))
    (file,) = data["files"]
    found = [
        Found(**{name: row[name] for name in SAME}, facts=tuple(row["facts"]), text=_find_text(path, row))
        for row in data["findings"]
    ]
    counts = Counter({"": file["read"]} if file["read"] else {}) + Counter(file["skipped"])
    return Linted(tuple(found), counts, file["names"])


def _find_text(path: str, row: Mapping[str, Any]) -> str:
    lines = _read_text(path, row["file"]).split("\n")[row["line"] - 1 : row["end_line"]]
    lines[-1] = lines[-1][: row["end_column"] - 1]
    return "\n".join(lines)[row["column"] - 1 :]


# The file `n.ipynb:cell 3` is a cell of a notebook.
def _read_text(path: str, file: str) -> str:
    text, (_, _, cell) = Path(path).read_text(encoding="utf-8", errors="replace"), file.partition(":cell ")
    return "".join(json.loads(text)["cells"][int(cell) - 1]["source"]) if cell else text
