"""Shows differences: lines with signs. A pipe gets carets below the changes, a terminal gets colours."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from einformer.cli.screen import align
from einformer.language.difference import Change, LayerChanges, Marks, rows
from einformer.report.comparison import Comparison, Count

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

_LONGEST = 24  # letters of a value or of a name
_WIDE = 100  # columns in which shares have room
_UNKNOWN = "not to be said in letters"
_SIGNS = (("-", "red"), ("+", "green"))


Rows = list[tuple[str, ...]]


# Numbers come first, in tables, then the changes of the legend and of each layer, then counts in letters.
def show(comparison: Comparison, targets: Sequence[str]) -> None:
    title = "" if comparison.difference else "no difference"
    names = _name_targets(targets)
    tables = [table for table in (_list_values(comparison, names), _list_counts(comparison, names)) if table[1:]]
    parts = [*comparison.difference.parts, *(_compare_formulas(count) for count in comparison.counts if _is_formula(count))]
    if sys.stdout.isatty():
        _show_in_terminal(title, tables, parts)
    else:
        blocks = [title, *map(align, tables), *("\n".join([part.name, *rows(part)]) for part in parts)]
        print("\n\n".join(filter(None, blocks)))


def _list_values(comparison: Comparison, names: Sequence[str]) -> Rows:
    values = comparison.difference.values
    return [("", *names), *((f"{v.name}  {v.about}".strip(), _shorten(v.one), _shorten(v.other)) for v in values)]


def _list_counts(comparison: Comparison, names: Sequence[str]) -> Rows:
    inputs = ", ".join(f"{letter} = {size:,}" for letter, size in comparison.inputs.items())
    return [(inputs, *names, "difference", ""), *(_show_count(count) for count in comparison.counts if not _is_formula(count))]


def _show_count(count: Count) -> tuple[str, ...]:
    cells = (f"{number:,}" if isinstance(number, int) else "–" for number in (count.one, count.other))
    more = f"{count.more:+,}" if count.more else "the same" if count.more == 0 else ""
    share = f"{count.more / count.one:+.1%}" if isinstance(count.one, int) and isinstance(count.more, int) and count.one else ""
    return (count.what, *cells, more, share if count.more else "")


def _is_formula(count: Count) -> bool:
    return isinstance(count.one, str) or isinstance(count.other, str)


# Formulas as changed lines. An equal formula has no sign.
def _compare_formulas(count: Count) -> LayerChanges:
    if count.one == count.other:
        return LayerChanges(f"{count.what}, the same: {count.one}", ())
    more = f", {count.more} more" if count.more else ""
    return LayerChanges(f"{count.what}{more}", (Change(str(count.one or _UNKNOWN), str(count.other or _UNKNOWN)),))


# Files by their names, a config.json by its folder.
def _name_targets(targets: Sequence[str]) -> list[str]:
    paths = [pathlib.PurePath(target) for target in targets]
    short = [path.parent.name if path.name == "config.json" and path.parent.name else path.stem for path in paths]
    chosen = [path.name for path in paths] if short[0] == short[1] else short
    return [_shorten(name) for name in chosen]


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


# ------------------------------------------------------------------------------------------------------ in a terminal


def _show_in_terminal(title: str, tables: Sequence[Rows], parts: Sequence[LayerChanges]) -> None:
    from rich.console import Console, Group
    from rich.text import Text

    console = Console(highlight=False)
    shown = tables if console.width >= _WIDE else [[row[:4] for row in table] for table in tables]
    heads = [Group(Text(part.name, "bold"), *map(_show_change, part.changes)) for part in parts]
    blocks = [*([title] if title else []), *map(_make_table, shown), *heads]
    for k, block in enumerate(blocks):
        console.print(*[""] * bool(k), block, sep="\n")


# The first column folds if there is no room.
def _make_table(cells: Rows) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2, 0, 0))
    for column in range(len(cells[0])):
        table.add_column(justify="right" if column else "left", no_wrap=bool(column))
    for k, row in enumerate(cells):
        table.add_row(*map(Text, row), style="" if k else "bold")
    return table


# Two columns, so that a folded line stays below its text. Changes are in reverse video.
def _show_change(change: Change) -> Table:
    from rich.table import Table

    grid = Table.grid(padding=(0, 1))
    for (sign, colour), text, marks in zip(_SIGNS, (change.one, change.other), change.marks, strict=True):
        if text:
            grid.add_row(_colour(sign, colour, ()), _colour(text, colour, marks))
    return grid


def _colour(text: str, colour: str, marks: Marks) -> Text:
    from rich.text import Text

    line = Text(text, colour)
    for start, end in marks:
        line.stylize(f"bold reverse {colour}", start, end)
    return line
