"""How is a report shown? Tables and bars in colour in a terminal; the same without colours in a pipe."""

from __future__ import annotations

import contextlib
import itertools
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from einformer.report import Reading, Report
from einformer.report.contents import Section

_FOLDERS = re.compile(r"(?<=, )\S*/")  # before the name of a file
_PIPED, _BAR, _QUOTED = 120, 20, 400  # columns of a page, of a bar; characters of a text


def show(report: Report, name: str) -> None:
    """Tables in the terminal, coloured; the same without colours in a pipe."""
    console = Console(highlight=False) if sys.stdout.isatty() else Console(highlight=False, width=_PIPED, color_system=None)
    console.print()
    console.rule(f"[bold]einformer report[/] [bold cyan]{escape(name)}", align="left", style="cyan")
    console.print(_head(report))
    for section in report.sections:
        _show_section(console, section)
    _titled(console, "Where they go", "at " + _at(report.inputs))
    console.print(_shares(report))
    _titled(console, "Checks", "each measured just now")
    console.print(_verdicts(report))
    if report.reading:
        _show_reading(console, report.reading)
    console.print()


def _titled(console: Console, title: str, remark: str = "") -> None:
    console.print()
    console.rule(f"[bold]{title}[/]" + (f"  [dim]{escape(remark)}[/]" if remark else ""), align="left", style="dim")


def _head(report: Report) -> RenderableType:
    """The title, and the letters; an origin that several have in common is said once."""
    origins = Counter(size.origin for size in report.sizes)
    common = [origin for origin, count in origins.items() if count > 1 and ":" in origin and " " not in origin]
    grid = _table("", ">", "", "")
    for size in report.sizes:
        origin = "" if size.origin in common else _FOLDERS.sub("", size.origin)
        grid.add_row(f"[bold cyan]{size.letter}", size.value, escape(size.meaning), f"[dim]{escape(origin)}")
    for letter, number in report.inputs.items():
        grid.add_row(f"[bold cyan]{letter}", f"{number:,}", "", "[dim]of the input")
    lines = [f"[bold]{escape(report.title)}", *(f"[dim]sizes: {escape(origin)}" for origin in common), ""]
    return Group(*lines, grid)


def _show_section(console: Console, section: Section) -> None:
    times = f" × {section.times:,}" if section.times > 1 else ""
    _titled(console, section.layer + times, ", ".join(filter(None, section.paths)))
    rows = _table("", ">", ">", head=("equation", "shape", "FLOPs"))
    for row in section.rows:
        rows.add_row(escape(row.equation), f"[cyan]{_by(row.shape)}", f"{row.flops:,}" if row.flops else "")
    console.print(rows)
    facts = _table("", "")
    if section.weights:
        weights = [f"{escape(name)} [cyan]{_by(shape)}[/]" for name, shape in section.weights.items()]
        facts.add_row("[dim]weights", Columns(weights, padding=(0, 2)))
    for what, formula, number in (
        ("parameters", section.parameters_formula, section.parameters),
        ("FLOPs", section.flops_formula, section.flops),
    ):
        if number:
            whole = f"  [dim]{times.strip()} = {number * section.times:,}" if times else ""
            facts.add_row(f"[dim]{what}", f"{formula} = [bold]{number:,}[/]{whole}")
    console.print(facts)


def _shares(report: Report) -> RenderableType:
    rows = _table("", ">", "", ">", "", head=("layer", "parameters", "", "FLOPs", ""))
    for section in report.sections:
        parameters, flops = section.parameters * section.times, section.flops * section.times
        rows.add_row(
            section.layer,
            f"{parameters:,}",
            _bar(parameters, report.parameters, "cyan"),
            f"{flops:,}",
            _bar(flops, report.flops, "magenta"),
        )
    rows.add_row("[bold]total", f"[bold]{report.parameters:,}", "", f"[bold]{report.flops:,}", "")
    facts = _table("", "")
    facts.add_row("[dim]parameters", report.parameters_formula)
    facts.add_row("[dim]FLOPs", report.flops_formula)
    return Group(rows, "", facts)


def _bar(part: int, whole: int, colour: str) -> str:
    share = part / whole if whole else 0
    return f"{share:4.0%} [{colour}]{'█' * round(share * _BAR)}"


def _verdicts(report: Report) -> RenderableType:
    rows = _table("", "", "")
    for check in report.checks:
        mark = "[green]✓ holds" if check.holds else "[bold red]✗ fails"
        rows.add_row(mark, escape(check.claim), f"[{'dim' if check.holds else 'red'}]{escape(check.detail)}")
    failed = sum(not check.holds for check in report.checks)
    whole = f"[bold red]{failed} of {len(report.checks)} fail" if failed else f"[bold green]all {len(report.checks)} hold"
    return Group(rows, "", f" {whole}")


def _show_reading(console: Console, reading: Reading) -> None:
    guesses = reading.guesses
    _titled(console, "A text", f"{reading.tokens} tokens, its bytes; {reading.seconds:.1f} s with the start of the weights")
    console.print(Padding(f"[italic]{escape(_one_line(reading.text))}[/] [bold]…", (0, 1)))
    rows = _table("", ">", "")
    most = guesses.likeliest[0][1]
    for token, probability in guesses.likeliest:
        rows.add_row(f"{_letter(token)}", f"{probability:.3%}", f"[cyan]{'█' * round(probability / most * _BAR)}")
    console.print(rows)
    said = (
        f"Random weights know no language: the next token has an entropy of {guesses.entropy:.2f} nats, a byte of the text "
        f"costs {guesses.loss:.2f}. Both are {guesses.uniform:.2f} where all tokens are equally likely."
    )
    console.print(Padding(said, (0, 1)))


def _one_line(text: str) -> str:
    return " ".join(text.split())[-_QUOTED:]


def _letter(token: int) -> str:
    """A byte that can be shown as itself, any other token by its number."""
    return f"token {token}" + (f" [dim]{escape(repr(chr(token)))}[/]" if 32 <= token < 127 else "")


def _table(*columns: str, head: Sequence[str] = ()) -> Table:
    """Columns of which those marked `>` are numbers."""
    rows = Table(box=None, show_header=bool(head), header_style="dim", pad_edge=True, padding=(0, 1))
    for column, title in itertools.zip_longest(columns, head, fillvalue=""):
        rows.add_column(title, justify="right" if column else "left", no_wrap=bool(column))
    return rows


def _by(shape: Sequence[int]) -> str:
    return "×".join(map(str, shape)) or "1"


def _at(inputs: Mapping[str, int]) -> str:
    return ", ".join(f"{letter} = {size:,}" for letter, size in inputs.items())


@contextlib.contextmanager
def progress(steps: int) -> Iterator[Callable[[str], None]]:
    """A bar beside the output, gone when the work is done; yields what says which step comes next."""
    console = Console(stderr=True)
    columns = (BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("starting", total=steps, completed=-1)
        yield lambda what: bar.update(task, description=what, advance=1)
