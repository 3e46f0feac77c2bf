"""Prints a report: tables and bars, with colours in a terminal."""

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
from einformer.report.contents import LayerSection

_FOLDERS = re.compile(r"(?<=, )\S*/")  # before the name of a file
_PIPED, _BAR, _QUOTED = 120, 20, 400  # columns of a page, of a bar; characters of a text


def show(report: Report, name: str) -> None:
    console = Console(highlight=False) if sys.stdout.isatty() else Console(highlight=False, width=_PIPED, color_system=None)
    console.print()
    console.rule(f"[bold]einformer report[/] [bold cyan]{escape(name)}", align="left", style="cyan")
    console.print(_make_head(report))
    for section in report.sections:
        _show_section(console, section)
    _show_title(console, "Where they go", "at " + _show_inputs(report.inputs))
    console.print(_make_shares(report))
    _show_title(console, "Checks", "each measured just now")
    console.print(_make_verdicts(report))
    if report.reading:
        _show_reading(console, report.reading)
    console.print()


def _show_title(console: Console, title: str, remark: str = "") -> None:
    console.print()
    console.rule(f"[bold]{title}[/]" + (f"  [dim]{escape(remark)}[/]" if remark else ""), align="left", style="dim")


# An origin that several letters share is printed once.
def _make_head(report: Report) -> RenderableType:
    origins = Counter(size.origin for size in report.sizes)
    common = [origin for origin, count in origins.items() if count > 1 and ":" in origin and " " not in origin]
    grid = _make_table("", ">", "", "")
    for size in report.sizes:
        origin = "" if size.origin in common else _FOLDERS.sub("", size.origin)
        grid.add_row(f"[bold cyan]{size.letter}", size.value, escape(size.meaning), f"[dim]{escape(origin)}")
    for letter, number in report.inputs.items():
        grid.add_row(f"[bold cyan]{letter}", f"{number:,}", "", "[dim]of the input")
    lines = [f"[bold]{escape(report.title)}", *(f"[dim]sizes: {escape(origin)}" for origin in common), ""]
    return Group(*lines, grid)


def _show_section(console: Console, section: LayerSection) -> None:
    times = f" × {section.times:,}" if section.times > 1 else ""
    _show_title(console, section.layer + times, ", ".join(filter(None, section.paths)))
    rows = _make_table("", ">", ">", head=("equation", "shape", "FLOPs"))
    for row in section.rows:
        rows.add_row(escape(row.equation), f"[cyan]{_show_shape(row.shape)}", f"{row.flops:,}" if row.flops else "")
    console.print(rows)
    facts = _make_table("", "")
    if section.weights:
        weights = [f"{escape(name)} [cyan]{_show_shape(shape)}[/]" for name, shape in section.weights.items()]
        facts.add_row("[dim]weights", Columns(weights, padding=(0, 2)))
    for what, formula, number in (
        ("parameters", section.parameters_formula, section.parameters),
        ("FLOPs", section.flops_formula, section.flops),
    ):
        if number:
            whole = f"  [dim]{times.strip()} = {number * section.times:,}" if times else ""
            facts.add_row(f"[dim]{what}", f"{formula} = [bold]{number:,}[/]{whole}")
    console.print(facts)


def _make_shares(report: Report) -> RenderableType:
    rows = _make_table("", ">", "", ">", "", head=("layer", "parameters", "", "FLOPs", ""))
    for section in report.sections:
        parameters, flops = section.parameters * section.times, section.flops * section.times
        rows.add_row(
            section.layer,
            f"{parameters:,}",
            _draw_bar(parameters, report.parameters, "cyan"),
            f"{flops:,}",
            _draw_bar(flops, report.flops, "magenta"),
        )
    rows.add_row("[bold]total", f"[bold]{report.parameters:,}", "", f"[bold]{report.flops:,}", "")
    facts = _make_table("", "")
    facts.add_row("[dim]parameters", report.parameters_formula)
    facts.add_row("[dim]FLOPs", report.flops_formula)
    return Group(rows, "", facts)


def _draw_bar(part: int, whole: int, colour: str) -> str:
    share = part / whole if whole else 0
    return f"{share:4.0%} [{colour}]{'█' * round(share * _BAR)}"


def _make_verdicts(report: Report) -> RenderableType:
    rows = _make_table("", "", "")
    for check in report.checks:
        mark = "[green]✓ holds" if check.holds else "[bold red]✗ fails"
        rows.add_row(mark, escape(check.claim), f"[{'dim' if check.holds else 'red'}]{escape(check.detail)}")
    failed = sum(not check.holds for check in report.checks)
    whole = f"[bold red]{failed} of {len(report.checks)} fail" if failed else f"[bold green]all {len(report.checks)} hold"
    return Group(rows, "", f" {whole}")


def _show_reading(console: Console, reading: Reading) -> None:
    guesses = reading.guesses
    _show_title(console, "A text", f"{reading.tokens} tokens, its bytes; {reading.seconds:.1f} s with the start of the weights")
    console.print(Padding(f"[italic]{escape(_join_lines(reading.text))}[/] [bold]…", (0, 1)))
    rows = _make_table("", ">", "")
    most = guesses.likeliest[0][1]
    for token, probability in guesses.likeliest:
        rows.add_row(f"{_show_token(token)}", f"{probability:.3%}", f"[cyan]{'█' * round(probability / most * _BAR)}")
    console.print(rows)
    caption = (
        f"Random weights know no language: the next token has an entropy of {guesses.entropy:.2f} nats, a byte of the text "
        f"costs {guesses.loss:.2f}. Both are {guesses.uniform:.2f} where all tokens are equally likely."
    )
    console.print(Padding(caption, (0, 1)))


def _join_lines(text: str) -> str:
    return " ".join(text.split())[-_QUOTED:]


# A printable byte as itself, any other token by its number.
def _show_token(token: int) -> str:
    return f"token {token}" + (f" [dim]{escape(repr(chr(token)))}[/]" if 32 <= token < 127 else "")


# Columns marked `>` are numbers.
def _make_table(*columns: str, head: Sequence[str] = ()) -> Table:
    rows = Table(box=None, show_header=bool(head), header_style="dim", pad_edge=True, padding=(0, 1))
    for column, title in itertools.zip_longest(columns, head, fillvalue=""):
        rows.add_column(title, justify="right" if column else "left", no_wrap=bool(column))
    return rows


def _show_shape(shape: Sequence[int]) -> str:
    return "×".join(map(str, shape)) or "1"


def _show_inputs(inputs: Mapping[str, int]) -> str:
    return ", ".join(f"{letter} = {size:,}" for letter, size in inputs.items())


# The function that it yields names the next step.
@contextlib.contextmanager
def progress(steps: int) -> Iterator[Callable[[str], None]]:
    console = Console(stderr=True)
    columns = (BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("starting", total=steps, completed=-1)
        yield lambda what: bar.update(task, description=what, advance=1)
