"""Which examples does a page of the documentation hold, and which text does each stand for?

An example is a fenced block, told by its info string, or a cell of a table with the columns `refused`, `code` and `write`.
A line of an `einformer` block that ends in `# E301` is refused with that code. Equations without a legend stand in the
frame that the language reference shows; what they do not use is left out of it, what they define counts as used.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import runpy
import shlex
import subprocess
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from einformer.cli import main
from einformer.errors import Finding, Source
from tests.refusals import findings_of

ROOT = Path(__file__).parents[1]
# Made of data when the site is built, and tested with it.
DATA = ("errors", "claims", "errata", "equations", "sources", "rosetta", "models", "matrices", "modules", "api", "commands")
MADE = {f"{name}.md" for name in DATA}
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(page for page in (ROOT / "docs").glob("*.md") if page.name not in MADE),
]


def make_page(name: str, script: str = "generate.py") -> str:
    """A page that the site makes of data."""
    return str(runpy.run_path(str(ROOT / "docs" / script))[name]())


_FENCE = re.compile(r"^(?P<fence>`{3,})(?P<info>[^\n`]*)\n(?P<text>.*?)^(?P=fence) *$", re.DOTALL | re.MULTILINE)
_FILE = re.compile(r"[#%] (\w+\.(?:ein|tex|py)):")
_CODE = re.compile(r"# (E\d{3})$")
_BLOCK = re.compile(r"^(?:axes\b.*|scalars\b.*|layer\b.*|model\b.*)\n(?:(?: .*)?\n)*", re.MULTILINE)
_MARK = "  # frame"


@dataclass(frozen=True, slots=True)
class Example:
    """A block of a page: its info string, its text, and where it stands."""

    page: str
    line: int
    info: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}{' refused' if self.refused else ''}"

    @property
    def file(self) -> str:
        """The name that the first line of a whole text gives it, `# head.ein: …` or `% note.tex: …`, or its info string."""
        title = _FILE.match(self.text)
        return title[1] if title else self.info.removeprefix("json ") if self.info.startswith("json ") else ""

    @property
    def refused(self) -> set[tuple[str, str]]:
        """The lines that are refused, with their codes."""
        return {(line.strip(), code[1]) for line in self.text.split("\n") if (code := _CODE.search(line))}

    @property
    def source(self) -> Source:
        """The text itself where it has a legend, else the text in the frame."""
        return (
            Source(self.file or str(self), self.text) if re.search(r"^axes\b", self.text, re.MULTILINE) else framed(self.text)
        )

    def found(self) -> set[tuple[str, str]]:
        """The lines in which something is wrong, with the codes."""
        findings = [finding for finding in findings_of(self.source.text, self.source.name) if not _idle(finding)]
        own = [finding for finding in findings if not _line(finding).endswith(_MARK)]
        return {(_line(finding), finding.code) for finding in own or findings}


def examples(page: Path) -> list[Example]:
    """The blocks of a page and the cells of its tables, in order."""
    text = page.read_text(encoding="utf-8")
    blocks = [Example(page.name, text.count("\n", 0, m.start()) + 1, m["info"], m["text"]) for m in _FENCE.finditer(text)]
    return sorted([*blocks, *_cells(page.name, text)], key=lambda example: example.line)


def _cells(page: str, text: str) -> Iterator[Example]:
    """Of each row `| `q_bse = …` | E301 | … | `q_bse = …` |` the equation that is refused and the one to write."""
    for row in tables(text, {"refused", "code", "write"}):
        for cell, mark in ((row["refused"], f"  # {row['code']}"), (row["write"], "")):
            yield Example(page, int(row["line"]), "einformer", f"{cell.strip('`')}{mark}\n")


def tables(text: str, wanted: set[str]) -> Iterator[dict[str, str]]:
    """The rows of the tables that have these columns, by the name of the column, each with its `line`."""
    columns: list[str] = []
    for number, line in enumerate(text.split("\n"), 1):
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if not cells or not columns:
            columns = cells
        elif wanted <= set(columns) and not cells[0].startswith("---"):
            yield dict(zip(columns, cells, strict=True)) | {"line": str(number)}


def answers(block: Example, folder: Path) -> str:
    """A `console` block as it should be: each command, and what it answers in a folder with the files of its page."""
    for example in examples(next(page for page in PAGES if page.name == block.page)):
        if example.file:
            (folder / example.file).write_text(example.text, encoding="utf-8")
    commands = [line for line in block.text.split("\n") if line.startswith("$ ")]
    return "".join(f"{command}\n{_output(command.removeprefix('$ '), folder)}" for command in commands)


def _output(command: str, folder: Path) -> str:
    """What a command prints, where `einformer` is the one of this environment. Before a pipe it runs in this process."""
    first, pipe, rest = command.partition(" | ")
    words = shlex.split(first) if first.startswith("einformer ") and not set(";<>$&`*") & set(first) else []
    if not words:
        return _run_in_shell(command, folder, "")
    out = io.StringIO()
    aside = io.StringIO() if pipe else out
    with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(aside):
        main(words[1:])
    return aside.getvalue() + _run_in_shell(rest, folder, out.getvalue()) if pipe else out.getvalue()


def _run_in_shell(command: str, folder: Path, text: str) -> str:
    path = os.pathsep.join((sysconfig.get_path("scripts"), os.environ["PATH"]))
    run = subprocess.run(
        command,
        shell=True,
        cwd=folder,
        env=os.environ | {"PATH": path},
        input=text,
        stdout=-1,
        stderr=-2,
        text=True,
        encoding="utf-8",
    )
    return run.stdout


def frame() -> str:
    """The frame of the examples, as the language reference shows it."""
    (found,) = (block.text for page in PAGES for block in examples(page) if block.info == "einformer frame")
    return found


def framed(lines: str) -> Source:
    """The frame around equations: their blocks before its model, its output the last left side, nothing idle."""
    blocks = "".join(match[0].rstrip("\n") + "\n" for match in _BLOCK.finditer(lines))
    body = _BLOCK.sub("", lines).strip("\n").split("\n")
    defined = [line.split(" = ")[0] for line in body if re.match(r"\S+ = ", line)]
    left = re.split(" (?:=|<-)", body[-1].strip())[0]
    legend, model = re.sub("(?<=.)$", _MARK, frame().replace("…", left), flags=re.MULTILINE).split("model ")
    inside = [*body, *(f"{each} <- {each}{_MARK}" for each in defined), f"return {left}{_MARK}"]
    return _busy(f"{legend}{blocks}model {model}" + "".join(f"  {line}\n" for line in inside))


def _line(finding: Finding) -> str:
    return finding.span.source.text.split("\n")[finding.span.line - 1].strip()


def _idle(finding: Finding) -> bool:
    """Is this about something that the frame declares, and nothing uses?"""
    return finding.code in ("E203", "E206") and _line(finding).endswith(_MARK)


def _busy(text: str) -> Source:
    """The text without what its frame declares and nothing uses; one input always stays."""
    while True:
        source = Source("frame.ein", text)
        for idle in reversed([finding for finding in findings_of(source.text, source.name) if _idle(finding)]):
            shorter = _without(text, idle)
            text = text if "()" in shorter else shorter
        if text == source.text:
            return source


def _without(text: str, idle: Finding) -> str:
    """The text without a declaration: an input of the head, else the line."""
    before, after = text[: idle.span.start], text[idle.span.end :]
    start = before.rpartition("\n")
    if start[2].startswith("model"):
        return before.removesuffix(", ") + (after if before.endswith(", ") else after.removeprefix(", "))
    return start[0] + "\n" + after.partition("\n")[2]
