"""The command line: read the targets, call one function of the library, show what it says.

What is shown is plain text; in a terminal the same text is coloured (`_COLOURS`) and folded to its width.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import pathlib
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TextIO

from einformer import model
from einformer.errors import EinformerError, Finding, Rule, Source, catalogue, fail
from einformer.interpreters.count.conventions import CONVENTIONS
from einformer.interpreters.count.memory import PRECISIONS
from einformer.interpreters.count.roofline import Bound, devices
from einformer.notation.tokens import MAXIMUM_TEXT

OK, FINDINGS, MISUSE, INTERRUPTED = 0, 1, 2, 130

_ABOUT = "Decoder-only transformers, written once as equations."
_CODES = "exit code: 0 all is well, 1 there are findings, 2 the call was wrong"
_REPORT = """Show the equations, shapes, parameters and FLOPs of every layer; measure them, and what the model computes, with
torch; then run a text through it. A check that fails is a finding: exit code 1."""
_EXAMPLES = """examples:
  einformer report gpt2             a published model: what is in it, measured
  einformer count config.json       where its parameters and FLOPs go
  einformer fit gpt2 --memory 80GB  the largest batch of a training step
  einformer plot gpt2               pictures of FLOPs, memory, and the roofline
  einformer source gpt2             it as a file of PyTorch
  einformer check gpt2              a shipped architecture
  einformer check mine.ein -        a file, and what comes through the pipe
  einformer claims                  published formulas, and whether they hold
  einformer explain E301            the rule behind an error
"""

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
_HANG = re.compile(r" *(?:\S.*?  +)?")  # what stands before the prose of a line: its indentation, or a column of a table


class Verdict(NamedTuple):
    """What `check` found of one target."""

    target: str
    layers: list[str]
    findings: tuple[Finding, ...]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 0 where all is well, 1 where there are findings, 2 where it was called wrongly."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a letter that the terminal or the pipe cannot show
    options = _parser().parse_args(arguments)
    run: Callable[[argparse.Namespace], int] = options.run
    try:
        code = run(options)
        sys.stdout.flush()
        return code
    except EinformerError as error:
        if options.json:
            _show_json({"findings": _data(error.findings)})
        else:
            _show(str(error), sys.stderr)
        return _code(error.findings)
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:
        _write_no_more()
        if isinstance(error, BrokenPipeError):
            return OK
        print(f"einformer: {error}", file=sys.stderr)
        return MISUSE


def _write_no_more() -> None:
    """Nobody reads on (`| head -1`), or the disk is full: Python must not try again when it ends."""
    with contextlib.suppress(OSError):  # a stream that is no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


# --------------------------------------------------------------------------------------------------------- commands


def _check(options: argparse.Namespace) -> int:
    verdicts = [_verdict(target) for target in options.targets]
    findings = [finding for verdict in verdicts for finding in verdict.findings]
    if options.json:
        targets = [verdict._asdict() | {"findings": len(verdict.findings)} for verdict in verdicts]
        _show_json({"targets": targets, "findings": _data(findings)})
    else:
        _show("\n\n".join([*map(str, findings), _table(verdicts)]))
    return _code(findings)


def _verdict(target: str) -> Verdict:
    try:
        source = _source(target)
    except EinformerError as error:
        return Verdict(target, [], error.findings)
    spec, findings = model.examine(source)
    return Verdict(source.name, [layer.name for layer in spec.layers], findings)


def _table(verdicts: Sequence[Verdict]) -> str:
    """A row for each target."""
    width = max(len(verdict.target) for verdict in verdicts)
    return "\n".join(f"{verdict.target:{width}}  {_said(verdict)}" for verdict in verdicts)


def _said(verdict: Verdict) -> str:
    count = len(verdict.findings)
    if count:
        return f"{count} finding{'s' * (count > 1)}"
    return f"well formed: {', '.join(verdict.layers)}"


def _latex(options: argparse.Namespace) -> int:
    from einformer.interpreters.latex import latex

    source = _source(options.target)
    specification = model.parse(source.text, source.name)
    names = [layer.name for layer in specification.tree.layers]
    if options.layer and options.layer not in names:
        options.misuse(f"no layer `{options.layer}` in {source.name}; there are {', '.join(names)}")
    text = latex(specification[options.layer].layer) if options.layer else specification.latex()
    if options.json:
        _show_json({"target": source.name, "latex": text})
    else:
        print(text)
    return OK


def _source_file(options: argparse.Namespace) -> int:
    text = model.target(options.target).source(options.plan)
    if options.json:
        _show_json({"target": options.target, "plan": options.plan, "source": text})
    else:
        print(text, end="")
    return OK


def _count(options: argparse.Namespace) -> int:
    found = model.target(options.target)
    inputs = found.inputs(options.batch, options.seq)
    if options.formulas or found.open - inputs.keys():
        return _count_in_letters(options, found)
    from einformer.interpreters.count import table

    summary = found.summary(convention=options.convention, precision=options.dtype, recompute=options.recompute, **inputs)
    bounds = _bounds(options, found, inputs) if options.device else ()
    if options.json:
        head = {"target": options.target, "title": found.spec.title, "inputs": inputs}
        times = (
            {"device": options.device, "seconds_at_least": {bound.work: bound.seconds for bound in bounds}} if bounds else {}
        )
        _show_json(head | summary.data() | times)
    else:
        about = ", ".join([found.spec.title or options.target, *(f"{letter} = {size:,}" for letter, size in inputs.items())])
        rows = _aligned([table.HEAD, *table.rows(summary.parts, "{:,}".format)])
        _show(f"{about}\n\n{rows}\n\n{_columns([*summary.rows(), *(('at least', str(bound)) for bound in bounds)])}")
    return OK


def _bounds(options: argparse.Namespace, found: model.Model, inputs: Mapping[str, int]) -> tuple[Bound, ...]:
    from einformer.report import series

    device, length = devices()[options.device], inputs.get("S", 1)
    return series.bounds(found, options.batch, length, options.dtype, device, options.recompute)


def _count_in_letters(options: argparse.Namespace, found: model.Model) -> int:
    from einformer.interpreters.count import table

    convention, precision = found.chosen(options.convention, options.dtype)
    tree = found.spec.tree
    parts = table.formulas(tree, found.spec.name, found.legend, convention, precision.element, options.recompute)
    rows = list(table.rows(parts, table.written(tree, options.form)))
    if options.json:
        named = [dict(zip(table.NAMES, row, strict=True)) for row in rows]
        about = {"target": options.target, "title": found.spec.title, "inputs": {}, "convention": str(convention)}
        _show_json(about | {"parts": named})
    else:
        counted = _columns([("counted", str(convention))])
        _show(f"{found.spec.title or options.target}\n\n{_aligned([table.HEAD, *rows])}\n\n{counted}")
    return OK


def _fit(options: argparse.Namespace) -> int:
    from einformer.interpreters.count.bisection import BYTES, NUMBERS, quantity
    from einformer.report import fit

    found = model.target(options.target)
    if options.parameters:
        fitted = fit.of_parameters(found, quantity(options.parameters, NUMBERS), options.solve or "D", options.step)
    else:
        fitted = fit.in_memory(
            found,
            quantity(options.memory, BYTES),
            options.solve or "B",
            use="generation" if options.generation else "training",
            precision=options.dtype,
            recompute=options.recompute,
            shards=None,
            **found.inputs(options.batch, options.seq),
        )
    if options.json:
        _show_json({"target": options.target, "title": found.spec.title} | fitted.data())
    else:
        about = [found.spec.title or options.target, *(f"{letter} = {size:,}" for letter, size in fitted.inputs.items())]
        _show(f"{', '.join(about)}\n\n{_columns(list(fitted.rows()))}")
    return OK


def _plot(options: argparse.Namespace) -> int:
    from einformer.report import plot

    path = pathlib.Path(options.out or f"{pathlib.PurePath(options.target).stem or 'model'}.png")
    if path.suffix not in plot.FORMATS:
        options.misuse(f"`{path}` is none of {', '.join(plot.FORMATS)}")
    found = model.target(options.target)
    length = found.inputs(options.batch, options.seq).get("S", 1)
    convention, precision = found.chosen(options.convention, options.dtype)
    device = devices()[options.device]
    plot.plot(
        plot.Subject(options.target, found, options.batch, length, convention, precision, options.recompute, device),
        options.kind,
        path,
    )
    if options.json:
        _show_json({"target": options.target, "kind": options.kind, "file": str(path)})
    else:
        print(path)
    return OK


def _columns(rows: Sequence[tuple[str, str]]) -> str:
    """A heading and what stands under it, in two columns."""
    width = max(len(heading) for heading, _ in rows)
    return "\n".join(f"{heading:{width}}  {text}" for heading, text in rows)


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows in columns, the first to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join([first.ljust(widths[0]), *map(str.rjust, cells, widths[1:])]).rstrip() for first, *cells in rows]
    return "\n".join(lines)


def _listed(rows: Sequence[Sequence[str]]) -> str:
    """Rows in columns, all to the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, cells, widths)).rstrip() for cells in rows)


def _report(options: argparse.Namespace) -> int:
    from einformer import report
    from einformer.report import terminal

    text = report.SENTENCE if options.text is None else _text(options.text)
    target = model.target(options.target)
    with terminal.progress(report.STEPS) as step:
        found = report.examine(target, options.batch, options.seq, text, options.seed, step)
    if options.json:
        _show_json(report.data(found))
    else:
        terminal.show(found, options.target)
    return OK if found.holds else FINDINGS


def _generate(options: argparse.Namespace) -> int:
    from einformer import text

    chosen = text.Options(options.tokens, options.temperature, options.top_k, options.top_p, options.seed)
    writer = text.writer(model.target(options.target), pathlib.Path(options.target), options.seed)
    beginning, pieces = _text(options.text), list[str]()
    if not options.json:
        print(beginning, end="", flush=True)
    with _bar(options.tokens) as step:
        for piece in writer.write(beginning, chosen, step):
            pieces.append(piece)
            if not options.json:
                print(piece, end="", flush=True)  # what is printed stays, also when the rest is interrupted
    if options.json:
        _show_json({"target": options.target, "text": beginning, "continuation": "".join(pieces)})
    else:
        print()
    return OK


@contextlib.contextmanager
def _bar(total: int) -> Iterator[Callable[[], object]]:
    """A progress bar in the terminal where the text itself goes elsewhere."""
    if sys.stdout.isatty() or not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("tokens", total=total)
        yield lambda: progress.advance(task)


def _text(given: str) -> str:
    """The content of a file, or else the text itself."""
    return model.read(given).text if os.path.isfile(given) else given


def _claims(options: argparse.Namespace) -> int:
    from einformer.notes import claims

    verdicts = [claims.judge(claim) for claim in claims.claims()]
    if options.json:
        _show_json([verdict.data() for verdict in verdicts])
    else:
        sources = itertools.groupby(verdicts, key=lambda verdict: verdict.claim.source)
        tables = [f"{source}\n\n{_listed(list(claims.rows(group)))}" for source, group in sources]
        _show("\n\n\n".join([*tables, claims.summary(verdicts)]))
    return OK


def _explain(options: argparse.Namespace) -> int:
    rows = catalogue()
    codes = [code.upper() for code in options.codes]
    if unknown := [code for code in codes if code not in rows]:
        options.misuse(f"no code {', '.join(unknown)}; `einformer explain` lists them all")
    chosen = [rows[code] for code in codes] or list(rows.values())
    if options.json:
        fields = ("code", "title", "rule", "why", "bad", "good")
        _show_json([{name: getattr(row, name) for name in fields} for row in chosen])
    else:
        _show("\n\n\n".join(map(_explanation, chosen)) if codes else _titles(chosen))
    return OK


def _titles(rows: Sequence[Rule]) -> str:
    """A line for each code, those of a kind together."""
    kinds = itertools.groupby(rows, key=lambda row: row.code[:2])
    return "\n\n".join("\n".join(f"{row.code}  {row.title}" for row in kind) for _, kind in kinds)


def _explanation(row: Rule) -> str:
    """A row of the catalogue as a person reads it."""
    examples = [f"{label}\n\n{_indented(text)}" for label, text in (("Breaks it:", row.bad), ("Keeps it:", row.good)) if text]
    return "\n\n".join(part for part in (f"{row.code}  {row.title}", row.rule, row.why, *examples) if part)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}".rstrip() for line in text.strip("\n").split("\n"))


# ------------------------------------------------------------------------------------------------------ in, and out


def _source(target: str) -> Source:
    """The text of a target; `-` is what comes through the pipe."""
    if target != "-":
        return model.read(target)
    try:
        with open(sys.stdin.fileno(), encoding="utf-8", newline="", closefd=False) as pipe:
            return Source("<stdin>", pipe.read(MAXIMUM_TEXT + 1))
    except UnicodeDecodeError as error:
        raise fail("E801", f"what comes through the pipe cannot be read: {error}", fix="a text in UTF-8") from error


def _code(findings: Sequence[Finding]) -> int:
    """The exit code; a target that is not there is a wrong call."""
    if any(finding.code.startswith("E8") for finding in findings):
        return MISUSE
    return FINDINGS if findings else OK


def _data(findings: Sequence[Finding]) -> list[dict[str, object]]:
    return [finding.as_data() for finding in findings]


def _show_json(data: object) -> None:
    print(json.dumps(data, ensure_ascii=False, indent=2))


def _show(text: str, to: TextIO | None = None) -> None:
    """Plain text in a pipe; coloured and folded in a terminal."""
    to = to or sys.stdout
    if to.isatty():
        _show_in_terminal(text, to)
    else:
        print(text, file=to)


def _show_in_terminal(text: str, to: TextIO) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(file=to)
    shown = Text("\n".join(_folded(line, min(console.width, _WIDEST)) for line in text.split("\n")))
    for pattern in _COLOURS:
        shown.highlight_regex(re.compile(pattern, re.MULTILINE))
    console.print(shown, soft_wrap=True)


def _folded(line: str, width: int) -> str:
    """Prose in rows of the terminal; an excerpt stays in one, so that its caret points."""
    if len(line) <= width or _EXCERPT.match(line):
        return line
    hang = _HANG.match(line)
    return textwrap.fill(line, width, subsequent_indent=" " * (hang.end() if hang else 0), break_on_hyphens=False)


# ------------------------------------------------------------------------------------------------------- the surface


def _parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="einformer", description=_ABOUT, epilog=f"{_EXAMPLES}\n{_CODES}", formatter_class=raw)
    parser.add_argument("--version", action="store_true", help="print the version")
    parser.set_defaults(run=lambda options: _no_command(parser, options), json=False)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")

    def command(name: str, run: Callable[[argparse.Namespace], int], about: str, text: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=about, description=text, epilog=_CODES, formatter_class=raw)
        added.set_defaults(run=run, misuse=added.error)
        return added

    target = "a .ein file, the name of a shipped architecture, or - for what comes through the pipe"
    check = command("check", _check, "is a specification well formed?", "Report every finding of the targets.")
    check.add_argument("targets", nargs="+", metavar="TARGET", help=target)
    latex = command("latex", _latex, "print a specification as LaTeX", "Print the target as LaTeX, which einformer reads back.")
    latex.add_argument("target", metavar="TARGET", help=target)
    latex.add_argument("--layer", metavar="NAME", help="only this layer")
    sized = "a named size (gpt2-xl), a config.json or its folder, a .ein file, or a shipped architecture"
    report = command("report", _report, "what is in a model, and is it what it says?", _REPORT)
    report.add_argument("target", metavar="TARGET", help=sized)
    report.add_argument("--text", metavar="TEXT|FILE", help="what the model reads; its bytes are the tokens")
    report.add_argument("--seed", type=int, default=0, help="of the random weights (0)")
    count = command(
        "count", _count, "where do parameters, FLOPs and bytes go?", "Count what the target takes, by part and in all."
    )
    count.add_argument("target", metavar="TARGET", help=sized)
    count.add_argument("--formulas", action="store_true", help="in letters; so are sizes that the target leaves open")
    count.add_argument("--form", choices=("text", "latex", "python"), default="text", help="of formulas (text)")
    fit = command("fit", _fit, "which size fits?", "The largest size for so much memory, or so many parameters.")
    fit.add_argument("target", metavar="TARGET", help=sized)
    wanted = fit.add_mutually_exclusive_group(required=True)
    wanted.add_argument("--memory", metavar="BYTES", help="of a device: 80GB, 80GiB, 1.5TB")
    wanted.add_argument("--parameters", metavar="NUMBER", help="wanted: 1.3B, 350M")
    fit.add_argument("--solve", metavar="LETTER", help="of the size to be found (B for memory, D for parameters)")
    fit.add_argument("--step", type=int, metavar="N", help="of parameters: only multiples of it (what makes all sizes whole)")
    fit.add_argument("--generation", action="store_true", help="weights and cache, not a training step")
    plot = command("plot", _plot, "how do the counts look?", "Draw FLOPs and memory against S, and the roofline of a device.")
    plot.add_argument("target", metavar="TARGET", help=sized)
    plot.add_argument("--out", metavar="FILE", help="a .png or .svg (the name of the target, .png)")
    plot.add_argument("--kind", choices=("flops", "memory", "roofline", "all"), default="all", help="of picture (all)")
    known = ", ".join(devices())
    plot.add_argument("--device", default="h100-sxm", choices=devices(), metavar="NAME", help=f"one of {known} (h100-sxm)")
    count.add_argument("--device", choices=devices(), metavar="NAME", help=f"how long steps take at least on one of {known}")
    for added in (report, count, fit, plot):
        added.add_argument("--batch", type=int, default=1, metavar="B", help="sequences (1)")
        added.add_argument("--seq", type=int, metavar="S", help="tokens of each (as many as there can be, 1024 at most)")
    kinds = ", ".join(PRECISIONS)
    for added in (count, fit, plot):
        added.add_argument("--dtype", default="bfloat16", choices=PRECISIONS, metavar="NAME", help=f"bytes of numbers: {kinds}")
        added.add_argument(
            "--recompute", choices=("none", "selective", "full"), default="none", help="in a training step (none)"
        )
    names = ", ".join(CONVENTIONS)
    for added in (count, plot):
        added.add_argument("--convention", default="torch", choices=CONVENTIONS, metavar="NAME", help=f"of FLOPs: {names}")
    source = command("source", _source_file, "print a model as PyTorch", "Print a file of PyTorch that runs without einformer.")
    source.add_argument("target", metavar="TARGET", help=sized)
    source.add_argument("--plan", choices=("fast", "notation"), default="fast", help="notation: one einsum for each equation")
    claims = command(
        "claims", _claims, "which published formulas are right?", "Judge every formula that documents print, by the derivation."
    )
    about = "Continue a text: a folder of transformers with its weights and tokenizer, else random weights and bytes."
    generate = command("generate", _generate, "how does a model continue a text?", about)
    generate.add_argument("target", metavar="TARGET", help=sized)
    generate.add_argument("--text", default="Once upon a time", metavar="TEXT|FILE", help="the beginning")
    generate.add_argument("--tokens", type=int, default=64, metavar="N", help="how many follow (64)")
    generate.add_argument("--temperature", type=float, default=0.0, metavar="T", help="0 chooses the likeliest (0)")
    generate.add_argument("--top-k", type=int, metavar="K", help="draw among the K likeliest")
    generate.add_argument("--top-p", type=float, metavar="P", help="draw among the likeliest that hold a share of P")
    generate.add_argument("--seed", type=int, default=0, help="of random weights and draws (0)")
    explain = command(
        "explain", _explain, "what an error code means", "The rule behind a code, a text that breaks it and one that keeps it."
    )
    explain.add_argument("codes", nargs="*", metavar="CODE", help="such as E301; all of them, a line each, where none is given")
    for added in (check, latex, report, count, fit, plot, source, claims, generate, explain):
        added.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _no_command(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    if not options.version:
        parser.print_help(sys.stderr)
        return MISUSE
    from importlib.metadata import version

    print(f"einformer {version('einformer')}")
    return OK
