"""Runs the commands: each reads its targets, calls one function of the library, and shows the answer."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import pathlib
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import einformer
from einformer.cli import notes
from einformer.cli.options import parser
from einformer.cli.screen import aligned, bar, columns, show, show_json, show_table
from einformer.errors import EinformerError, Finding, Rule, catalogue, fail
from einformer.interpreters.count.devices import devices

if TYPE_CHECKING:
    from einformer.interpreters.count.roofline import Bound
    from einformer.language.binding import Given
    from einformer.objects import Model
    from einformer.report.shipped import Architecture

OK, FINDINGS, MISUSE, INTERRUPTED = 0, 1, 2, 130


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
    options = parser().parse_args(arguments)
    if not options.command:
        return _no_command(options)
    try:
        code = RUN[options.command](options)
        sys.stdout.flush()
        return code
    except EinformerError as error:
        findings = _in_a_shell(error.findings)
        if options.json:
            show_json({"findings": _data(findings)})
        else:
            show("\n\n".join(map(str, findings)), sys.stderr)
        return _code(findings)
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:
        _write_no_more()
        if isinstance(error, BrokenPipeError):
            return OK
        print(f"einformer: {error}", file=sys.stderr)
        return MISUSE


def _in_a_shell(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Findings that say `--set D=…,A=…` for `bind(D=…, A=…)`."""

    def spell(fix: str) -> str:
        return re.sub(r"`bind\(([^)]*)\)`", lambda bind: f"`--set {bind[1].replace(', ', ',')}`", fix)

    return tuple(replace(finding, fix=spell(finding.fix)) for finding in findings)


def _write_no_more() -> None:
    """Nobody reads on (`| head -1`), or the disk is full: Python must not try again when it ends."""
    with contextlib.suppress(OSError):  # a stream that is no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


# --------------------------------------------------------------------------------------------------------- commands


def _check(options: argparse.Namespace) -> int:
    verdicts = [_verdict(target, options.set) for target in options.targets]
    findings = [finding for verdict in verdicts for finding in verdict.findings]
    if options.json:
        targets = [verdict._asdict() | {"findings": len(verdict.findings)} for verdict in verdicts]
        show_json({"targets": targets, "findings": _data(findings)})
    else:
        show("\n\n".join([*map(str, findings), _table(verdicts)]))
    return _code(findings)


def _verdict(target: str, values: Mapping[str, Given]) -> Verdict:
    try:
        layers = _model(target, values).spec.layers
    except EinformerError as error:
        return Verdict("<stdin>" if target == "-" else target, [], _in_a_shell(error.findings))
    return Verdict("<stdin>" if target == "-" else target, layers, ())


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
    from einformer.notes import rendering

    specification = _target(options).spec
    if options.layer and options.layer not in specification.layers:
        options.misuse(f"no layer `{options.layer}` in {options.target}; there are {', '.join(specification.layers)}")
    text = rendering.print_latex(specification.written, options.letters, options.form, options.layer)
    if options.json:
        show_json({"target": options.target, "latex": text})
    else:
        print(text)
    return OK


def _source_file(options: argparse.Namespace) -> int:
    if options.text:
        return _written_out(options)
    plan = options.plan or "fast"
    text = _target(options).source(plan, annotations=options.annotations, check=options.check, ascii=options.ascii)
    if options.json:
        show_json({"target": options.target, "plan": plan, "source": text})
    else:
        print(text, end="")
    return OK


def _written_out(options: argparse.Namespace) -> int:
    """The specification itself, with the layers of the library that it calls."""
    _refuse(options, "with `--text`", "plan", "annotations", "check", "ascii")
    text = str(_target(options).spec)
    if options.json:
        show_json({"target": options.target, "text": text})
    else:
        print(text, end="")
    return OK


def _program(options: argparse.Namespace) -> int:
    from einformer.program.listing import listing
    from einformer.program.lowering import lower

    found = _target(options)
    text = listing(lower(found.spec.tree, found.spec.name, found.legend))
    show_json({"target": options.target, "program": text}) if options.json else print(text)
    return OK


def _count(options: argparse.Namespace) -> int:
    found = _target(options)
    if options.formulas or found.open - {"B", "S"}:
        return _count_in_letters(options, found)
    inputs = _inputs(options, found)
    _fill(options)
    from einformer.interpreters.count import table

    summary = found.summary(convention=options.convention, precision=options.precision, recompute=options.recompute, **inputs)
    bounds = _bounds(options, found, inputs) if options.device else ()
    if options.json:
        head = {"target": options.target, "title": found.spec.title, "inputs": inputs}
        times = (
            {"device": options.device, "seconds_at_least": {bound.work: bound.seconds for bound in bounds}} if bounds else {}
        )
        show_json(head | summary.data() | times)
    else:
        about = ", ".join([found.spec.title or options.target, *(f"{letter} = {size:,}" for letter, size in inputs.items())])
        rows = aligned([table.HEAD, *table.rows(summary.parts, "{:,}".format)])
        show(f"{about}\n\n{rows}\n\n{columns([*summary.rows(), *(('at least', str(bound)) for bound in bounds)])}")
    return OK


def _bounds(options: argparse.Namespace, found: Model, inputs: Mapping[str, int]) -> tuple[Bound, ...]:
    from einformer.report import series

    device, length = devices()[options.device], inputs.get("S", 1)
    return series.bounds(found, options.batch, length, options.precision, device, options.recompute)


def _count_in_letters(options: argparse.Namespace, found: Model) -> int:
    from einformer.interpreters.count import table

    if options.device and not options.formulas:
        found.refuse_missing()  # times are numbers
    _refuse(options, "to formulas" if options.formulas else "while other sizes are open", "batch", "seq", "device")
    _fill(options)
    convention, precision = found.chosen(options.convention, options.precision)
    tree = found.spec.tree
    parts = table.formulas(tree, found.spec.name, found.legend, convention, precision.element, options.recompute)
    write = table.written(tree, options.formulas or "text")
    rows = list(table.rows(parts, write))
    cache, why = table.cached(tree, found.spec.name, found.legend, precision.element, write)
    if options.json:
        named = [dict(zip(table.NAMES, row, strict=True)) for row in rows]
        about = {"target": options.target, "title": found.spec.title, "inputs": {}, "convention": str(convention)}
        show_json(about | {"parts": named, "cache": cache})
    else:
        said = f"bytes: {cache['total']} in all, {cache['per_token']} for a further position of a row" if cache else why
        counted = columns([("cache", said), ("counted", str(convention))])
        show(f"{found.spec.title or options.target}\n\n{aligned([table.HEAD, *rows])}\n\n{counted}")
    return OK


def _fit(options: argparse.Namespace) -> int:
    from einformer.interpreters.count.bisection import BYTES, NUMBERS, quantity
    from einformer.report import fit

    found, training = _target(options), not options.generation
    letter = options.solve or ("D" if options.parameters else "B")
    if options.parameters:
        _refuse(options, "to `--parameters`", "generation", "batch", "seq", "precision", "recompute")
        fitted = fit.of_parameters(found, quantity(options.parameters, NUMBERS), letter, options.step)
    else:
        _refuse(options, "to `--memory`", "step")
        _refuse(options, "to `--generation`", *(() if training else ("recompute",)))
        _refuse(options, f"where {letter} is solved", *(flag for flag, size in _OF_INPUTS.items() if size == letter))
        inputs = _inputs(options, found)
        _fill(options)
        fitted = fit.in_memory(
            found,
            quantity(options.memory, BYTES),
            letter,
            use="training" if training else "generation",
            precision=options.precision,
            recompute=options.recompute,
            shards=None,
            **inputs,
        )
    if options.json:
        show_json({"target": options.target, "title": found.spec.title} | fitted.data())
    else:
        about = [found.spec.title or options.target, *(f"{letter} = {size:,}" for letter, size in fitted.inputs.items())]
        show(f"{', '.join(about)}\n\n{columns(list(fitted.rows()))}")
    return OK


def _plot(options: argparse.Namespace) -> int:
    from einformer.report import plot

    path = pathlib.Path(options.out or f"{pathlib.PurePath(options.target).stem or 'model'}.png")
    if path.suffix not in plot.FORMATS:
        options.misuse(f"`{path}` is none of {', '.join(plot.FORMATS)}")
    if not options.out and path.exists():
        options.misuse(f"`{path}` exists already; `--out {path}` replaces it")
    _refuse(options, f"to `--kind {options.kind}`", *_UNREAD.get(options.kind, ()))
    found = _target(options)
    found.refuse_missing()
    length = _inputs(options, found).get("S", 1)
    _fill(options)
    convention, precision = found.chosen(options.convention, options.precision)
    device = devices()[options.device or "h100-sxm"]
    plot.plot(
        plot.Subject(options.target, found, options.batch, length, convention, precision, options.recompute, device),
        options.kind,
        path,
    )
    if options.json:
        show_json({"target": options.target, "kind": options.kind, "file": str(path)})
    else:
        print(path)
    return OK


def _diff(options: argparse.Namespace) -> int:
    from einformer.cli import differences
    from einformer.report import comparison

    targets = (options.one, options.other)
    one, other = (_model(target, options.set) for target in targets)
    open_sizes = one.open | other.open
    _refuse(options, "to these targets", *(flag for flag, size in _OF_INPUTS.items() if size not in open_sizes))
    if open_sizes - {"B", "S"}:
        _refuse(options, "while other sizes are open", "batch", "seq")
    _fill(options)
    found = comparison.compare(one, other, options.batch, options.seq)
    if options.json:
        show_json({"targets": list(targets)} | found.data())
    else:
        differences.show(found, targets)
    return OK


def _list(options: argparse.Namespace) -> int:
    from einformer.report import shipped

    found = shipped.shipped()
    if options.json:
        show_json(found.data())
    else:
        show_table([("architecture", "attention", "about"), *map(_shipped, found.architectures)])
        sizes = [(each.name, each.architecture, f"{each.parameters:,}") for each in found.models]
        show("\n" + aligned([("model", "architecture", "parameters"), *sizes]))
    return OK


def _shipped(found: Architecture) -> tuple[str, str, str]:
    """A row of the list; a `model_type` is said where it is not the name of the text."""
    others = ", ".join(family for family in found.families if family != found.name)
    return found.name, found.attention, f"{found.about} [{others}]" if others else found.about


def _report(options: argparse.Namespace) -> int:
    from einformer import report
    from einformer.report import terminal

    text = report.SENTENCE if options.text is None else _text(options.text)
    target = _target(options)
    target.refuse_missing()
    _inputs(options, target)
    _fill(options)
    with terminal.progress(report.STEPS) as step:
        found = report.examine(target, options.batch, options.seq, text, options.seed, step)
    if options.json:
        show_json(report.data(found))
    else:
        terminal.show(found, options.target)
    return OK if found.holds else FINDINGS


def _generate(options: argparse.Namespace) -> int:
    from einformer import text

    if options.temperature == 0:
        _refuse(options, "to `--temperature 0`", "top_k", "top_p")
    if options.set and any(pathlib.Path(options.target).glob("*.safetensors")):
        options.misuse(f"`--set` does not apply to {options.target}, whose weights have its sizes")
    chosen = text.Options(options.tokens, options.temperature, options.top_k, options.top_p, options.seed)
    writer = text.writer(_target(options), pathlib.Path(options.target), options.seed)
    if writer.random:
        print("einformer: the weights are random, and the tokens are bytes", file=sys.stderr, flush=True)
    beginning, pieces = _text(options.text), list[str]()
    if not options.json:
        print(beginning, end="", flush=True)
    with bar(options.tokens) as step:
        for piece in writer.write(beginning, chosen, step):
            pieces.append(piece)
            if not options.json:
                print(piece, end="", flush=True)  # what is printed stays, also when the rest is interrupted
    if options.json:
        show_json({"target": options.target, "text": beginning, "continuation": "".join(pieces)})
    else:
        print()
    return OK


def _text(given: str) -> str:
    """The content of a file, or else the text itself."""
    from einformer.architectures import texts

    return texts.read(given).text if os.path.isfile(given) else given


def _lint(options: argparse.Namespace) -> int:
    from einformer.lint import files, findings, settings

    chosen = settings.find_settings(pathlib.Path.cwd()).with_legend(options.legend)
    checked = list(files.lint(options.files, chosen))
    if options.json and options.format:
        options.misuse("either `--json` or `--format`")
    told = findings.FORMATS["json" if options.json else options.format or "text"](checked)
    show(told) if isinstance(told, str) else show_json(told)
    return _code([finding for each in checked for finding in each.findings])


def _explain(options: argparse.Namespace) -> int:
    rows = catalogue()
    codes = [code.upper() for code in options.codes]
    if unknown := [code for code in codes if code not in rows]:
        options.misuse(f"no code {', '.join(unknown)}; `einformer explain` lists them all")
    chosen = [rows[code] for code in codes] or list(rows.values())
    if options.json:
        fields = ("code", "title", "rule", "why", "bad", "good")
        show_json([{name: getattr(row, name) for name in fields} for row in chosen])
    else:
        show("\n\n\n".join(map(_explanation, chosen)) if codes else _titles(chosen))
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


_OF_INPUTS = {"batch": "B", "seq": "S"}
_DEFAULTS = {"batch": 1, "precision": "bfloat16", "recompute": "none", "convention": "torch"}
_UNREAD = {  # options that a picture does not read
    "flops": ("seq", "precision", "recompute", "device"),
    "memory": ("seq", "convention"),
    "roofline": ("recompute",),
}


def _target(options: argparse.Namespace) -> Model:
    """The model of a target with the sizes and scalars that are set."""
    if twice := [flag for flag, size in _OF_INPUTS.items() if hasattr(options, flag) and size in options.set]:
        options.misuse(f"`--set {_OF_INPUTS[twice[0]]}=…`: write `--{twice[0]}`")
    return _model(options.target, options.set)


def _model(target: str, values: Mapping[str, Given]) -> Model:
    """The model of a target; `-` is a text that comes through the pipe."""
    return einformer.parse(_pipe(), "<stdin>").bind(**values) if target == "-" else einformer.model(target, **values)


def _inputs(options: argparse.Namespace, model: Model) -> dict[str, int]:
    """The sizes of the inputs; one that the model has not open cannot be given."""
    bound = [flag for flag, size in _OF_INPUTS.items() if size not in model.open]
    _refuse(options, f"to {options.target}, where that size is not open", *bound)
    return model.inputs(1 if options.batch is None else options.batch, options.seq)


def _refuse(options: argparse.Namespace, where: str, *names: str) -> None:
    """Refuse options that would be ignored."""
    if given := [name for name in names if getattr(options, name) not in (None, False)]:
        options.misuse(f"`--{given[0].replace('_', '-')}` does not apply {where}")


def _fill(options: argparse.Namespace) -> None:
    """Set options that were not given to their defaults."""
    for name, value in _DEFAULTS.items():
        if getattr(options, name, value) is None:
            setattr(options, name, value)


def _pipe() -> str:
    from einformer.language.tokens import MAXIMUM_TEXT

    try:
        with open(sys.stdin.fileno(), encoding="utf-8", newline="", closefd=False) as pipe:
            return pipe.read(MAXIMUM_TEXT + 1)
    except UnicodeDecodeError as error:
        raise fail("E801", f"what comes through the pipe cannot be read: {error}", fix="a text in UTF-8") from error


def _code(findings: Sequence[Finding]) -> int:
    """The exit code; a target that is not there is a wrong call."""
    if any(finding.code.startswith("E8") for finding in findings):
        return MISUSE
    return FINDINGS if findings else OK


def _data(findings: Sequence[Finding]) -> list[dict[str, object]]:
    return [finding.as_data() for finding in findings]


def _no_command(options: argparse.Namespace) -> int:
    if not options.version:
        parser().print_help(sys.stderr)
        return MISUSE
    from importlib.metadata import version

    print(f"einformer {version('einformer')}")
    return OK


RUN: dict[str, Callable[[argparse.Namespace], int]] = {
    "check": _check,
    "latex": _latex,
    "report": _report,
    "count": _count,
    "fit": _fit,
    "plot": _plot,
    "source": _source_file,
    "program": _program,
    "diff": _diff,
    "list": _list,
    "claims": notes.show_claims,
    "errata": notes.show_errata,
    "notes": notes.show_notes,
    "lint": _lint,
    "run": notes.run,
    "generate": _generate,
    "explain": _explain,
}
