"""Runs the commands: each reads its targets, calls one function of the library, and shows the answer."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import itertools
import math
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
from einformer.cli.screen import align, align_texts, bar, show, show_json, show_table
from einformer.errors import EinformerError, Finding, Rule, catalogue, fail
from einformer.interpreters.count.conventions import read_devices

if TYPE_CHECKING:
    from einformer.interpreters.count.conventions import Work
    from einformer.interpreters.count.roofline import TimeBound
    from einformer.language.binding import Given
    from einformer.objects import Model, Specification
    from einformer.report.fit import Fit
    from einformer.report.shipped import Architecture

OK, FINDINGS, MISUSE, INTERRUPTED = 0, 1, 2, 130


class CheckResult(NamedTuple):
    """The result of `check` for one target."""

    target: str
    layers: list[str]
    findings: tuple[Finding, ...]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command. Returns 0 for success, 1 for findings, 2 for a wrong call."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # the caller has closed it
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a letter that the terminal or the pipe cannot show
    _refuse_unknown(sys.argv[1:] if arguments is None else arguments)
    options = parser().parse_args(arguments)
    if not options.command:
        return _show_help(options)
    try:
        code = RUN[options.command](options)
        sys.stdout.flush()
        return code
    except EinformerError as error:
        findings = _quote_for_shell(error.findings)
        if options.json:
            show_json({"findings": _to_data(findings)})
        else:
            show("\n\n".join(map(str, findings)), sys.stderr)
        return _find_exit_code(findings)
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:
        _write_no_more()
        if isinstance(error, BrokenPipeError):
            return OK
        print(f"einformer: {error}", file=sys.stderr)
        return MISUSE


def _refuse_unknown(words: Sequence[str]) -> None:
    if words and not words[0].startswith("-") and words[0] not in RUN:
        near = difflib.get_close_matches(words[0], RUN, n=1) or [f"report {words[0]}"]
        parser().error(f"no command `{words[0]}`; write `einformer {near[0]}`")


# `--set D=…,A=…` for `bind(D=…, A=…)`
def _quote_for_shell(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    def spell(fix: str) -> str:
        return re.sub(r"`bind\(([^)]*)\)`", lambda bind: f"`--set {bind[1].replace(', ', ',')}`", fix)

    return tuple(replace(finding, fix=spell(finding.fix)) for finding in findings)


# Nobody reads any more (`| head -1`), or the disk is full: Python must not write again when it ends.
def _write_no_more() -> None:
    with contextlib.suppress(OSError):  # a stream that is not a file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


# --------------------------------------------------------------------------------------------------------- commands


def _check(options: argparse.Namespace) -> int:
    verdicts = [_check_target(target, options.set) for target in options.targets]
    findings = [finding for verdict in verdicts for finding in verdict.findings]
    if options.json:
        targets = [verdict._asdict() | {"findings": len(verdict.findings)} for verdict in verdicts]
        show_json({"targets": targets, "findings": _to_data(findings)})
    else:
        show("\n\n".join([*map(str, findings), _show_verdicts(verdicts)]))
    return _find_exit_code(findings)


def _check_target(target: str, values: Mapping[str, Given]) -> CheckResult:
    try:
        layers = _load_model(target, values).spec.layers
    except EinformerError as error:
        return CheckResult("<stdin>" if target == "-" else target, [], _quote_for_shell(error.findings))
    return CheckResult("<stdin>" if target == "-" else target, layers, ())


def _show_verdicts(verdicts: Sequence[CheckResult]) -> str:
    width = max(len(verdict.target) for verdict in verdicts)
    return "\n".join(f"{verdict.target:{width}}  {_describe(verdict)}" for verdict in verdicts)


def _describe(verdict: CheckResult) -> str:
    count = len(verdict.findings)
    if count:
        return f"{count} finding{'s' * (count > 1)}"
    return f"well formed: {', '.join(verdict.layers)}"


def _latex(options: argparse.Namespace) -> int:
    from einformer.notes import rendering

    specification = _read_target(options).spec
    _check_layer(options, specification)
    text = rendering.print_latex(specification.written, options.letters, options.form, options.layer)
    return _print(options, text, latex=text)


def _write_source(options: argparse.Namespace) -> int:
    whole = _read_target(options)
    model = whole.stage(*options.stage) if options.stage else whole
    if options.text:
        _refuse(options, "with `--text`", "plan", "recompute", "annotations", "check", "ascii", "mesh", "shard")
        text = str(model.spec)
        return _write(options, text, text=text)
    _refuse(options, "with `--check`, which annotates too", *["annotations"] * options.check)
    _refuse(options, "without `--shard`", *["mesh"] * (options.shard is None))
    _refuse(options, "without `--mesh`", *["shard"] * (options.mesh is None))
    _refuse(options, "with `--mesh`", *["check"] * (options.mesh is not None))
    plan = options.plan or "fast"
    style = {"annotations": options.annotations, "check": options.check, "ascii": options.ascii}
    text = model.source(
        plan, **style, mesh=options.mesh or "", shard=options.shard or "", recompute=options.recompute or "none"
    )
    return _write(options, text, plan=plan, source=text)


def _write(options: argparse.Namespace, printed: str, **data: str) -> int:
    out = notes.find_out(options, options.target, os.path.join(options.target, "config.json"))
    if not out:
        return _print(options, printed, **data)
    notes.write_whole(out, printed.removesuffix("\n") + "\n")
    return _print(options, str(out), file=str(out))


def _program(options: argparse.Namespace) -> int:
    from einformer.program.listing import list_program
    from einformer.program.lowering import lower

    model = _read_target(options)
    text = list_program(lower(model.spec.tree, model.spec.name, model.legend))
    return _print(options, text, program=text)


def _count(options: argparse.Namespace) -> int:
    model = _read_target(options)
    if options.generation:
        return _count_generation(options, model)
    _refuse(options, "without `--generation`", "context", "cache", "weights")
    if options.formulas or model.open - {"B", "S"}:
        return _count_in_letters(options, model)
    inputs = _read_inputs(options, model)
    _set_defaults(options)
    from einformer.interpreters.count import table

    summary = model.summary(convention=options.convention, precision=options.precision, recompute=options.recompute, **inputs)
    bounds = _find_bounds(options, model, inputs) if options.device else ()
    if options.json:
        head = {"target": options.target, "title": model.spec.title, "inputs": inputs}
        times = (
            {"device": options.device, "seconds_at_least": {bound.work: bound.seconds for bound in bounds}} if bounds else {}
        )
        show_json(head | summary.data() | times)
    else:
        about = ", ".join([model.spec.title or options.target, *(f"{letter} = {size:,}" for letter, size in inputs.items())])
        rows = align([table.HEAD, *table.rows(summary.parts, "{:,}".format)])
        show(f"{about}\n\n{rows}\n\n{align_texts([*summary.rows(), *(('at least', str(bound)) for bound in bounds)])}")
    return OK


def _count_generation(options: argparse.Namespace, model: Model) -> int:
    from einformer.objects import refuse_missing
    from einformer.report import fit, generation

    refuse_missing(model)
    _refuse(options, "to `--generation`", "formulas", "recompute", "convention", *["seq"] * (options.context is not None))
    if options.context is not None:
        options.seq = fit.parse_quantity(options.context, fit.NUMBERS | {"Ki": 1024, "Mi": 1024**2})
    inputs = _read_inputs(options, model)
    _set_defaults(options)
    memory = int(read_devices()[options.device or "h100-sxm"].memory)
    counts = generation.count_generation(model, memory, options.precision, options.cache or "", options.weights or "", **inputs)
    if options.json:
        show_json({"target": options.target, "title": model.spec.title} | counts.data())
    else:
        about = ", ".join([model.spec.title or options.target, *(f"{letter} = {size:,}" for letter, size in inputs.items())])
        show(f"{about}\n\n{align([generation.HEAD, *counts.table()])}\n\n{align_texts(list(counts.rows()))}")
    return OK


def _find_bounds(options: argparse.Namespace, model: Model, inputs: Mapping[str, int]) -> tuple[TimeBound, ...]:
    from einformer.report import series

    device, length = read_devices()[options.device], inputs.get("S", 1)
    return series.bounds(model, options.batch, length, options.precision, device, options.recompute)


def _count_in_letters(options: argparse.Namespace, model: Model) -> int:
    from einformer.interpreters.count import table
    from einformer.interpreters.count.symbols import Symbols
    from einformer.objects import choose_rows, refuse_missing

    if options.device and not options.formulas:
        refuse_missing(model)  # times are numbers
    _refuse(options, "to formulas" if options.formulas else "while other sizes are open", "batch", "seq", "device")
    _set_defaults(options)
    convention, precision = choose_rows(options.convention, options.precision)
    tree = model.spec.tree
    parts = table.count_parts(tree, model.spec.name, Symbols(model.legend), convention, precision.element, options.recompute)
    write = table.choose_writer(tree, options.formulas or "text", options.set)
    rows = list(table.rows(parts, write))
    cache, why = table.write_cache(tree, model.spec.name, model.legend, precision.element, write)
    if options.json:
        named = [dict(zip(table.NAMES, row, strict=True)) for row in rows]
        about = {"target": options.target, "title": model.spec.title, "inputs": {}, "convention": str(convention)}
        show_json(about | {"parts": named, "cache": cache})
    else:
        cache_line = f"bytes: {cache['total']} in all, {cache['per_token']} for a further position of a row" if cache else why
        counted = align_texts([("cache", cache_line), ("counted", str(convention))])
        show(f"{model.spec.title or options.target}\n\n{align([table.HEAD, *rows])}\n\n{counted}")
    return OK


_OF_STEP = ("precision", "recompute", "mesh", "shard", "zero", "microbatches")


def _fit(options: argparse.Namespace) -> int:
    from einformer.report import fit

    answer = _read_target(options)
    letter = options.solve or ("D" if options.parameters else "B")
    _refuse(options, "without `--generation`", *["cache", "weights"] * (not options.generation))
    if letter == "mesh":
        return _fit_mesh(options, answer)
    if options.parameters:
        _refuse(options, "to `--parameters`", "generation", "batch", "seq", *_OF_STEP)
        fitted = fit.of_parameters(answer, fit.parse_quantity(options.parameters, fit.NUMBERS), letter, options.step)
    else:
        fitted = _fit_memory(options, answer, letter)
    if options.json:
        show_json({"target": options.target, "title": answer.spec.title} | fitted.data())
    else:
        about = [answer.spec.title or options.target, *(f"{letter} = {size:,}" for letter, size in fitted.inputs.items())]
        show(f"{', '.join(about)}\n\n{align_texts(list(fitted.rows()))}")
    return OK


# The largest size of a letter for so many bytes.
def _fit_memory(options: argparse.Namespace, answer: Model, letter: str) -> Fit:
    from einformer.report import fit

    training = not options.generation
    _refuse(options, "to `--memory`", "step")
    _refuse(options, "to `--generation`", *(() if training else ("recompute", "zero", "microbatches")))
    _refuse(options, "to a mesh", *["weights"] * (options.mesh is not None))
    _refuse(options, "without `--mesh`", *(("shard", "zero", "microbatches") if options.mesh is None else ()))
    _refuse(options, "without `--shard`", *["mesh"] * (options.shard is None))
    _refuse(options, f"where {letter} is solved", *(flag for flag, size in _OF_INPUTS.items() if size == letter))
    inputs = _read_inputs(options, answer)
    _set_defaults(options)
    return fit.in_memory(
        answer,
        fit.parse_quantity(options.memory, fit.BYTES),
        letter,
        use="training" if training else "generation",
        precision=options.precision,
        recompute=options.recompute,
        mesh=options.mesh or "",
        shard=options.shard or "",
        zero=options.zero or 0,
        microbatches=options.microbatches or 1,
        cache=options.cache or "",
        file=options.weights or "",
        **inputs,
    )


# The smallest mesh for a step.
def _fit_mesh(options: argparse.Namespace, model: Model) -> int:
    from einformer.objects import choose_rows, refuse_missing
    from einformer.report import fit, plans

    _refuse(options, "where the mesh is solved", "mesh", "shard", "zero", "microbatches", "step", "parameters")
    _refuse(options, "to `--generation`", *["recompute"] * options.generation)
    refuse_missing(model)
    limit, inputs = fit.parse_quantity(options.memory, fit.BYTES), _read_inputs(options, model)
    precision, device = choose_rows("exact", options.precision or "bfloat16")[1], read_devices()["h100-sxm"]
    work: Work = "decode" if options.generation else "training"
    step = plans.PricedStep(work, inputs.get("B", 1), inputs.get("S", 1), precision, device)
    step = replace(step, recompute=(options.recompute,)) if options.recompute else step
    plan = plans.find_smallest(model, step, limit)
    if options.json:
        show_json({"target": options.target, "inputs": inputs, "limit": limit, "plan": plan.data()})
    else:
        devices = math.prod(size for _, size in plan.mesh)
        about = [model.spec.title or options.target, *(f"{letter} = {size:,}" for letter, size in inputs.items())]
        show(f"{', '.join(about)}\n{devices} devices of {limit:,} bytes\n")
        show_table([row[:5] for row in (plans.HEAD, *plans.rows([plan]))])
    return OK


def _plan(options: argparse.Namespace) -> int:
    from einformer.objects import choose_rows, refuse_missing
    from einformer.program.sharding import read_mesh
    from einformer.report import plans

    _refuse(options, "without `--mesh`", *["shard"] * (options.mesh is None))
    _refuse(options, "to the work of generation", *["recompute"] * (options.work in ("prefill", "decode")))
    _refuse(options, "to `--json`, which has all plans", *["rows"] * options.json)
    model = _read_target(options)
    refuse_missing(model)
    meshes = [*plans.list_meshes(options.devices)] if options.devices else [dict(read_mesh(options.mesh))]
    devices = options.devices or math.prod(meshes[0].values())
    options.batch = options.batch or (devices if "B" in model.open else None)
    inputs = _read_inputs(options, model)
    precision, device = choose_rows("exact", options.precision or "bfloat16")[1], read_devices()[options.device or "h100-sxm"]
    step = plans.PricedStep(options.work or "training", inputs.get("B", 1), inputs.get("S", 1), precision, device)
    step = replace(step, recompute=(options.recompute,)) if options.recompute else step
    best = plans.list_plans(model, step, meshes, options.shard or "")
    if not best:
        raise fail("E741", f"no map of letters splits {options.target} so", fix="another mesh, or another batch")
    head = {"target": options.target, "title": model.spec.title, "inputs": inputs, "work": step.work, "device": device.title}
    if options.json:
        show_json(head | {"precision": precision.name, "plans": [plan.data() for plan in best]})
        return OK
    about = [model.spec.title or options.target, *(f"{letter} = {size:,}" for letter, size in inputs.items())]
    show(f"{', '.join(about)}\n{step.work} on {devices} x {device.title} in {precision.name}, {len(best)} plans\n")
    show_table([plans.HEAD, *plans.rows(best[: options.rows or 12])])
    show(f"\n{plans.LEGEND}")
    return OK


def _plot(options: argparse.Namespace) -> int:
    from einformer.objects import choose_rows, refuse_missing
    from einformer.report import plot

    path = _choose_path(options, *plot.FORMATS)
    _refuse(options, f"to `--kind {options.kind}`", *_UNREAD.get(options.kind, ()))
    model = _read_target(options)
    refuse_missing(model)
    length = _read_inputs(options, model).get("S", 1)
    _set_defaults(options)
    convention, precision = choose_rows(options.convention, options.precision)
    device = read_devices()[options.device or "h100-sxm"]
    plot.plot(
        plot.PlottedModel(options.target, model, options.batch, length, convention, precision, options.recompute, device),
        options.kind,
        path,
    )
    return _print(options, str(path), kind=options.kind, file=str(path))


def _draw(options: argparse.Namespace) -> int:
    path, model = _choose_path(options, ".svg"), _read_target(options)
    _refuse(options, "to `--masks`", *["layer"] * options.masks)
    if options.layer:
        _check_layer(options, model.spec)
        model = replace(model, spec=model.spec[options.layer])
    if options.mesh or options.shard:
        _refuse(options, "to `--mesh`", "layer", "masks")
        drawing = model.draw_placement(options.mesh or "", options.shard or "", options.width)
    else:
        drawing = model.draw_masks(options.width) if options.masks else model.draw(options.width)
    notes.write_whole(path, drawing)
    return _print(options, str(path), file=str(path))


# The first format is that of a file that has the name of the target.
def _choose_path(options: argparse.Namespace, *formats: str) -> pathlib.Path:
    path = pathlib.Path(options.out or f"{pathlib.PurePath(options.target).stem or 'model'}{formats[0]}")
    if path.suffix not in formats:
        options.misuse(f"`{path}` is none of {', '.join(formats)}")
    if not options.out and path.exists():
        options.misuse(f"`{path}` exists already; `--out {path}` replaces it")
    return path


def _check_layer(options: argparse.Namespace, specification: Specification) -> None:
    if options.layer and options.layer not in specification.layers:
        options.misuse(f"no layer `{options.layer}` in {options.target}; there are {', '.join(specification.layers)}")


def _diff(options: argparse.Namespace) -> int:
    from einformer.cli import differences
    from einformer.report import comparison

    targets = (options.one, options.other)
    one, other = (_load_model(target, options.set) for target in targets)
    open_sizes = one.open | other.open
    _refuse(options, "to these targets", *(flag for flag, size in _OF_INPUTS.items() if size not in open_sizes))
    if open_sizes - {"B", "S"}:
        _refuse(options, "while other sizes are open", "batch", "seq")
    _set_defaults(options)
    compared = comparison.compare(one, other, options.batch, options.seq)
    if options.json:
        show_json({"targets": list(targets)} | compared.data())
    else:
        differences.show(compared, targets)
    return OK


def _list(options: argparse.Namespace) -> int:
    from einformer.report import shipped

    contents = shipped.list_shipped()
    if options.json:
        show_json(contents.data())
    else:
        show_table([("architecture", "attention", "about"), *map(_describe_architecture, contents.architectures)])
        sizes = [(size.name, size.architecture, f"{size.parameters:,}") for size in contents.models]
        show("\n" + align([("model", "architecture", "parameters"), *sizes]))
    return OK


# The `model_type` is printed if it differs from the name of the text.
def _describe_architecture(architecture: Architecture) -> tuple[str, str, str]:
    others = ", ".join(family for family in architecture.families if family != architecture.name)
    return architecture.name, architecture.attention, f"{architecture.about} [{others}]" if others else architecture.about


def _report(options: argparse.Namespace) -> int:
    from einformer import report
    from einformer.objects import refuse_missing
    from einformer.report import terminal

    text = report.SENTENCE if options.text is None else _read_text(options.text)
    target = _read_target(options)
    refuse_missing(target)
    _read_inputs(options, target)
    _set_defaults(options)
    with terminal.progress(report.STEPS) as step:
        examined = report.examine(target, options.batch, options.seq, text, options.seed, step)
    if options.json:
        show_json(report.data(examined))
    else:
        terminal.show(examined, options.target)
    return OK if examined.holds else FINDINGS


def _generate(options: argparse.Namespace) -> int:
    from einformer import text

    if options.temperature == 0:
        _refuse(options, "to `--temperature 0`", "top_k", "top_p")
    if options.set and any(pathlib.Path(options.target).glob("*.safetensors")):
        options.misuse(f"`--set` does not apply to {options.target}, whose weights have its sizes")
    chosen = text.Options(options.tokens, options.temperature, options.top_k, options.top_p, options.seed)
    writer = text.make_writer(_read_target(options), pathlib.Path(options.target), options.seed)
    if writer.random:
        print("einformer: the weights are random, and the tokens are bytes", file=sys.stderr, flush=True)
    text_given, pieces = _read_text(options.text), list[str]()
    beginning = "" if writer.encodes else text_given
    with bar(options.tokens) as step:
        written = writer.write(text_given, chosen, step)
        for piece in itertools.chain([beginning + next(written, "")], written):
            pieces.append(piece)
            if not options.json:
                print(piece, end="", flush=True)  # what is printed stays, also when the rest is interrupted
    if options.json:
        continuation = "".join(pieces).removeprefix(beginning)
        show_json({"target": options.target, "text": text_given, "continuation": continuation})
    else:
        print()
    return OK


def _read_text(text_or_path: str) -> str:
    from einformer.architectures import texts

    return texts.read(text_or_path).text if os.path.isfile(text_or_path) else text_or_path


def _lint(options: argparse.Namespace) -> int:
    from einformer.notes import files, findings, settings

    chosen = settings.find_settings(pathlib.Path.cwd()).with_legend(options.legend)
    checked = list(files.lint(options.files, chosen))
    if options.json and options.format:
        options.misuse("either `--json` or `--format`")
    printed = findings.FORMATS["json" if options.json else options.format or "text"](checked)
    show(printed) if isinstance(printed, str) else show_json(printed)
    return _find_exit_code([finding for result in checked for finding in result.findings])


def _explain(options: argparse.Namespace) -> int:
    from einformer.huggingface import families

    rows = catalogue()
    if types := [name for name in options.names if name in families.families()]:
        if types != options.names:
            options.misuse("either codes or model types")
        tables = {name: families.merge_tables(name) for name in types}
        show_json(tables) if options.json else print("\n".join(map(families.print_table, tables.values())), end="")
        return OK
    codes = [name.upper() for name in options.names]
    if unknown := [code for code in codes if code not in rows]:
        options.misuse(f"no code {', '.join(unknown)}; `einformer explain` lists them all, `einformer list` the model types")
    chosen = [rows[code] for code in codes] or list(rows.values())
    if options.json:
        fields = ("code", "title", "rule", "why", "bad", "good")
        show_json([{name: getattr(row, name) for name in fields} for row in chosen])
    else:
        show("\n\n\n".join(map(_show_rule, chosen)) if codes else _list_titles(chosen))
    return OK


def _list_titles(rows: Sequence[Rule]) -> str:
    kinds = itertools.groupby(rows, key=lambda row: row.code[:2])
    return "\n\n".join("\n".join(f"{row.code}  {row.title}" for row in kind) for _, kind in kinds)


def _show_rule(row: Rule) -> str:
    examples = [f"{label}\n\n{_indent(text)}" for label, text in (("Breaks it:", row.bad), ("Keeps it:", row.good)) if text]
    return "\n\n".join(part for part in (f"{row.code}  {row.title}", row.rule, row.why, *examples) if part)


def _indent(text: str) -> str:
    return "\n".join(f"  {line}".rstrip() for line in text.strip("\n").split("\n"))


# ------------------------------------------------------------------------------------------------------ in, and out


def _print(options: argparse.Namespace, printed: str, **data: str) -> int:
    show_json({"target": options.target} | data) if options.json else print(printed.removesuffix("\n"))
    return OK


_OF_INPUTS = {"batch": "B", "seq": "S"}
_DEFAULTS = {"batch": 1, "precision": "bfloat16", "recompute": "none", "convention": "torch"}
_UNREAD = {  # options that a picture does not read
    "flops": ("seq", "precision", "recompute", "device"),
    "memory": ("seq", "convention"),
    "cache": ("seq", "recompute", "convention", "device"),
    "roofline": ("recompute",),
}


def _read_target(options: argparse.Namespace) -> Model:
    if twice := [flag for flag, size in _OF_INPUTS.items() if hasattr(options, flag) and size in options.set]:
        options.misuse(f"`--set {_OF_INPUTS[twice[0]]}=…`: write `--{twice[0]}`")
    return _load_model(options.target, options.set)


# `-` is a text from the pipe.
def _load_model(target: str, values: Mapping[str, Given]) -> Model:
    return einformer.parse(_read_pipe(), "<stdin>").bind(**values) if target == "-" else einformer.model(target, **values)


# A size that is not open in the model cannot be set.
def _read_inputs(options: argparse.Namespace, model: Model) -> dict[str, int]:
    bound = [flag for flag, size in _OF_INPUTS.items() if size not in model.open]
    _refuse(options, f"to {options.target}, where that size is not open", *bound)
    return model.inputs(1 if options.batch is None else options.batch, options.seq)


# Options that would be ignored are refused.
def _refuse(options: argparse.Namespace, where: str, *names: str) -> None:
    if chosen := [name for name in names if getattr(options, name) not in (None, False)]:
        options.misuse(f"`--{chosen[0].replace('_', '-')}` does not apply {where}")


def _set_defaults(options: argparse.Namespace) -> None:
    for name, value in _DEFAULTS.items():
        if getattr(options, name, value) is None:
            setattr(options, name, value)


def _read_pipe() -> str:
    from einformer.language.tokens import MAXIMUM_TEXT

    try:
        with open(sys.stdin.fileno(), encoding="utf-8", newline="", closefd=False) as pipe:
            return pipe.read(MAXIMUM_TEXT + 1)
    except UnicodeDecodeError as error:
        raise fail("E801", f"what comes through the pipe cannot be read: {error}", fix="a text in UTF-8") from error


# A missing target is a wrong call.
def _find_exit_code(findings: Sequence[Finding]) -> int:
    if any(finding.code.startswith("E8") for finding in findings):
        return MISUSE
    return FINDINGS if findings else OK


def _to_data(findings: Sequence[Finding]) -> list[dict[str, object]]:
    return [finding.as_data() for finding in findings]


def _show_help(options: argparse.Namespace) -> int:
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
    "plan": _plan,
    "plot": _plot,
    "draw": _draw,
    "source": _write_source,
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
