"""Prints answers: plain text in a pipe, and in a terminal the same text with colours (`_COLOURS`), folded to its width."""

from __future__ import annotations

import contextlib
import json
import math
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import TextIO

from einformer.errors import printable

# What stands out in a terminal: each group of a pattern has the name of a style of rich.
_COLOURS = (
    r"^(?P<bold>(?P<red>E\d{3}) \S.*)$",  # a finding
    r"^  (?P<cyan>\S.*:\d+:\d+)$",  # where it is
    r"^  (?P<dim>\d+ \|)",
    r"^  (?P<dim> +\|)(?P<red> *\^+)$",
    r"^  (?P<dim>rule:)",
    r"^  (?P<green>write:)",
    r"^(?P<bold>\S.*?)  +(?P<green>well formed)(?=: )",
    r"^(?P<bold>\S.*?)  +(?P<red>\d+ findings?)$",
    r"^(?P<bold>E\d{3})  ",  # a row of the catalogue
    r"^(?P<red>Breaks it:)$",
    r"^(?P<green>Keeps it:)$",
)
_WIDEST = 100  # columns of prose
_EXCERPT = re.compile(r" +\d* \|")
_HANG = re.compile(r" *(?:\S.*?  +)?")  # the indentation of a line, or its first column


# A number that JSON lacks is a word: "inf", "-inf" or "nan".
def show_json(data: object) -> None:
    text = json.dumps(_name_infinities(data), ensure_ascii=False, indent=2, allow_nan=False)
    print("\n".join(line if line.isprintable() else _escape_json(line) for line in text.split("\n")))


def _escape_json(line: str) -> str:
    return "".join(letter if letter.isprintable() else json.dumps(letter)[1:-1] for letter in line)


def _name_infinities(data: object) -> object:
    if isinstance(data, dict):
        return {name: _name_infinities(value) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [_name_infinities(value) for value in data]
    return str(data) if isinstance(data, float) and not math.isfinite(data) else data


# Plain text goes to a pipe, coloured and folded text to a terminal. Nothing in the text steers the terminal.
def show(text: str, to: TextIO | None = None) -> None:
    to, text = to or sys.stdout, "\n".join(map(printable, text.split("\n")))
    if to.isatty():
        _show_in_terminal(text, to)
    else:
        print(text, file=to)


def _show_in_terminal(text: str, to: TextIO) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(file=to)
    shown = Text("\n".join(_fold(line, min(console.width, _WIDEST)) for line in text.split("\n")))
    for pattern in _COLOURS:
        shown.highlight_regex(re.compile(pattern, re.MULTILINE))
    console.print(shown, soft_wrap=True)


# Prose folds. An excerpt stays in one line, so that its caret points.
def _fold(line: str, width: int) -> str:
    if len(line) <= width or _EXCERPT.match(line):
        return line
    hang = _HANG.match(line)
    return textwrap.fill(line, width, subsequent_indent=" " * (hang.end() if hang else 0), break_on_hyphens=False)


def align_texts(rows: Sequence[tuple[str, str]]) -> str:
    width = max(len(heading) for heading, _ in rows)
    return "\n".join(f"{heading:{width}}  {text}" for heading, text in rows)


# The first column is to the left, the others to the right.
def align(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join([first.ljust(widths[0]), *map(str.rjust, cells, widths[1:])]).rstrip() for first, *cells in rows]
    return "\n".join(lines)


def align_left(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, cells, widths)).rstrip() for cells in rows)


# In a terminal the head is coloured, and the last column folds.
def show_table(rows: Sequence[Sequence[str]]) -> None:
    rows = [[printable(cell) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        print(align_left(rows))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*rows[0], box=None, header_style="bold", padding=(0, 2, 0, 0))
    for column in table.columns[:-1]:
        column.no_wrap = True
    for name, *cells in rows[1:]:
        table.add_row(Text(name, "cyan"), *map(Text, cells))
    Console(highlight=False).print(table)


# The terminal shows it if the output goes elsewhere.
@contextlib.contextmanager
def bar(total: int) -> Iterator[Callable[[], object]]:
    if sys.stdout.isatty() or not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("tokens", total=total)
        yield lambda: progress.advance(task)
