"""How does a difference look? Lines with their signs: in a pipe with carets below what differs, in a terminal in colour."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from einformer.cli.screen import aligned
from einformer.language.difference import Change, Marks, Part, rows
from einformer.report.comparison import Comparison, Count

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

_LONGEST = 24  # letters of a value or of a name
_WIDE = 100  # columns in which shares have room
_UNKNOWN = "not to be said in letters"
_SIGNS = (("-", "red"), ("+", "green"))


Rows = list[tuple[str, ...]]


def show(found: Comparison, targets: Sequence[str]) -> None:
    """Numbers in tables, then what changed in the legend and in each layer, then what is counted in letters."""
    title = "" if found.difference else "no difference"
    names = _names(targets)
    tables = [table for table in (_values(found, names), _counts(found, names)) if table[1:]]
    parts = [*found.difference.parts, *(_in_letters(count) for count in found.counts if _is_formula(count))]
    if sys.stdout.isatty():
        _show_in_terminal(title, tables, parts)
    else:
        blocks = [title, *map(aligned, tables), *("\n".join([part.name, *rows(part)]) for part in parts)]
        print("\n\n".join(filter(None, blocks)))


def _values(found: Comparison, names: Sequence[str]) -> Rows:
    """Sizes and scalars that differ."""
    values = found.difference.values
    return [("", *names), *((f"{v.name}  {v.about}".strip(), _short(v.one), _short(v.other)) for v in values)]


def _counts(found: Comparison, names: Sequence[str]) -> Rows:
    """What is counted, and how much more the other one takes."""
    inputs = ", ".join(f"{letter} = {size:,}" for letter, size in found.inputs.items())
    return [(inputs, *names, "difference", ""), *(_counted(count) for count in found.counts if not _is_formula(count))]


def _counted(count: Count) -> tuple[str, ...]:
    cells = (f"{number:,}" if isinstance(number, int) else "–" for number in (count.one, count.other))
    more = f"{count.more:+,}" if count.more else "the same" if count.more == 0 else ""
    share = f"{count.more / count.one:+.1%}" if isinstance(count.one, int) and isinstance(count.more, int) and count.one else ""
    return (count.what, *cells, more, share if count.more else "")


def _is_formula(count: Count) -> bool:
    return isinstance(count.one, str) or isinstance(count.other, str)


def _in_letters(count: Count) -> Part:
    """Formulas as lines that changed; one that stayed stands without a sign."""
    if count.one == count.other:
        return Part(f"{count.what}, the same: {count.one}", ())
    more = f", {count.more} more" if count.more else ""
    return Part(f"{count.what}{more}", (Change(str(count.one or _UNKNOWN), str(count.other or _UNKNOWN)),))


def _names(targets: Sequence[str]) -> list[str]:
    """What to call two targets: files by their names, a config.json by its folder."""
    paths = [pathlib.PurePath(target) for target in targets]
    short = [path.parent.name if path.name == "config.json" and path.parent.name else path.stem for path in paths]
    chosen = [path.name for path in paths] if short[0] == short[1] else short
    return [_short(name) for name in chosen]


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


# ------------------------------------------------------------------------------------------------------ in a terminal


def _show_in_terminal(title: str, tables: Sequence[Rows], parts: Sequence[Part]) -> None:
    from rich.console import Console, Group
    from rich.text import Text

    console = Console(highlight=False)
    shown = tables if console.width >= _WIDE else [[row[:4] for row in table] for table in tables]
    heads = [Group(Text(part.name, "bold"), *map(_lines, part.changes)) for part in parts]
    blocks = [*([title] if title else []), *map(_table, shown), *heads]
    for k, block in enumerate(blocks):
        console.print(*[""] * bool(k), block, sep="\n")


def _table(found: Rows) -> Table:
    """Rows under a head; the first column is folded where there is no room."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2, 0, 0))
    for column in range(len(found[0])):
        table.add_column(justify="right" if column else "left", no_wrap=bool(column))
    for k, row in enumerate(found):
        table.add_row(*map(Text, row), style="" if k else "bold")
    return table


def _lines(change: Change) -> Table:
    """A line in two columns, so that what is folded stays below the text; what differs is in reverse."""
    from rich.table import Table

    grid = Table.grid(padding=(0, 1))
    for (sign, colour), text, marks in zip(_SIGNS, (change.one, change.other), change.marks, strict=True):
        if text:
            grid.add_row(_coloured(sign, colour, ()), _coloured(text, colour, marks))
    return grid


def _coloured(text: str, colour: str, marks: Marks) -> Text:
    from rich.text import Text

    line = Text(text, colour)
    for start, end in marks:
        line.stylize(f"bold reverse {colour}", start, end)
    return line
