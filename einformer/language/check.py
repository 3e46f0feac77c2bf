"""Checks that a specification is well formed: every name declared once and used, every index, slot and sum as the rules say.

`check` returns the elaborated spec (each sum explicit, each instance named) and all findings. It follows references first,
then examines the legend, then the bodies; a step runs only where the one before it found nothing: one slip, one message.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from einformer.errors import EinformerError, Finding, Span, fail
from einformer.language.body import check_formula, check_layer, find_dropped, find_repeated
from einformer.language.calls import axis_of, called_layers, calls, find_weighted
from einformer.language.parser import MAXIMUM_FINDINGS, resolve_layer
from einformer.language.primitives import CONSTANTS, NAMES
from einformer.language.printer import show
from einformer.language.sizes import Legend, Value, check_sizes
from einformer.language.suggestions import find_look_alikes, report_undeclared, suggest
from einformer.language.tokens import MAXIMUM_HEIGHT
from einformer.language.tree import Apply, Axis, Expression, Index, Layer, Loop, Name, Node, Scalar, Spec, Tensor
from einformer.language.walk import equations, expressions, height, loops, statements, subexpressions

Claims = Callable[[Spec, Legend], tuple[Finding, ...]]

_OF_A_DECLARATION = ("E201", "E204", "E304", "E307", "E308")


# Returns the elaborated spec and every finding in the order of the text. With `values`, groups and axes are compared at bound
# sizes, and `origins` give the origin of each. A correct text is passed to each of the `claims`.
def check(
    spec: Spec,
    values: Mapping[str, Value] | None = None,
    origins: Mapping[str, str] | None = None,
    claims: Claims = lambda spec, legend: (),
) -> tuple[Spec, tuple[Finding, ...]]:
    try:
        check_references(spec)
    except EinformerError as error:
        return spec, error.findings
    legend = Legend.of(spec, values, origins)
    if findings := list(check_declarations(spec, legend)):
        return spec, _sort_findings(findings, spec)
    layers = {layer.name: layer for layer in reversed(spec.layers)}
    weighted = find_weighted(layers)
    checked, idle, unsound = [], list[Finding](), set[str]()
    for layer in spec.layers:
        elaborated_layer, wrong, unneeded = check_layer(layer, layers, legend, weighted, unsound)
        checked.append(elaborated_layer)
        findings += [_place_at_call(finding, layer, spec) for finding in wrong]
        idle += unneeded
        unsound |= {layer.name} if wrong else set()
    elaborated = replace(spec, layers=tuple(checked))
    if not findings:
        unread = [f"{finding.message} ({finding.span})" for finding in idle]  # a mask, perhaps, that the scores lack
        findings = [replace(finding, facts=(*finding.facts, *unread)) for finding in claims(elaborated, legend)]
    if not findings:  # a value that is given may leave what its default was made of unused
        findings = idle or (list(find_unused(spec)) if values is None else [])
    return elaborated, _sort_findings(findings, spec)


def _sort_findings(findings: list[Finding], spec: Spec) -> tuple[Finding, ...]:
    findings.sort(key=lambda finding: (finding.span.source is not spec.span.source, finding.span.start))
    return tuple(_merge_repeated(map(suggest, _merge_repeated(findings)[:MAXIMUM_FINDINGS])))


# ------------------------------------------------------------------------------------------------------------------ references

MAXIMUM_CALLS = 50  # of layers, or of names, of which each refers to the next
MAXIMUM_NODES = 50_000


# Follows calls of layers, and the sizes and scalars of which others are made: they come to an end, and soon (R7, R13). Raises
# EinformerError E207, E507 for a definition that refers to itself, E002 for one that nests too deep or is too large.
def check_references(spec: Spec) -> None:
    legend, layers = Legend.of(spec), {layer.name: layer for layer in reversed(spec.layers)}
    formulas = {name: _refer(_list_named(e, legend), [e], e.span) for name, e in legend.formulas.items()}
    _follow_all(formulas, ("E507", "is defined by itself", "a value that does not need itself"))
    calling = {name: _refer_to_callees(layer, layers) for name, layer in layers.items()}
    sizes = _follow_all(calling, ("E207", "calls itself", "a `for`, or a layer of its own for the inner call"))
    models = [layer for layer in spec.layers if layer.time is not None]
    if models and (nodes := sum(sizes[model.name][0] for model in models)) > MAXIMUM_NODES:
        raise fail("E002", f"with what they call, the models have {nodes:,} parts", models[-1].span, fix="fewer models")


class _Reference(NamedTuple):
    names: Sequence[tuple[str, Span]]  # to which a definition refers
    nodes: int
    height: int
    span: Span


# The nodes and the height behind each name. The code, the message and the fix are those of a circle.
def _follow_all(references: Mapping[str, _Reference], circle: tuple[str, str, str]) -> dict[str, tuple[int, int]]:
    sizes: dict[str, tuple[int, int]] = {}

    def follow(name: str, around: tuple[str, ...]) -> tuple[int, int]:
        if name not in sizes:
            (names, nodes, own, span), high = references[name], 0
            for other, place in names:
                _check_end(other, (*around, name), place, circle)
                inner = follow(other, (*around, name))
                nodes, high = nodes + inner[0], max(high, inner[1])
            if own + high > MAXIMUM_HEIGHT:
                raise fail("E002", f"with what it refers to, `{name}` nests {own + high} deep", span, fix="fewer steps")
            if nodes > MAXIMUM_NODES:
                message = f"with what it refers to, `{name}` has {nodes:,} parts"
                raise fail("E002", message, span, fix="a smaller text, or a `for`")
            sizes[name] = nodes, own + high
        return sizes[name]

    for name in references:
        follow(name, ())
    return sizes


def _check_end(name: str, around: tuple[str, ...], span: Span, circle: tuple[str, str, str]) -> None:
    if name in around:
        path = " → ".join([*around[around.index(name) :], name])
        raise fail(circle[0], f"`{name}` {circle[1]}", span, [path] if path.count("→") > 1 else [], circle[2])
    if len(around) > MAXIMUM_CALLS:
        raise fail("E002", f"more than {MAXIMUM_CALLS} names refer each to the next", span, fix="fewer steps")


def _list_named(e: Expression, legend: Legend) -> list[tuple[str, Span]]:
    return [(x.name, x.span) for x in subexpressions(e) if isinstance(x, Name | Tensor) and x.name in legend.formulas]


def _refer_to_callees(layer: Layer, layers: Mapping[str, Layer]) -> _Reference:
    formulas = [equation.right for equation in equations(layer.body)]
    names = [(callee.name, call.span) for call, callee in called_layers(layer, layers)]
    inner = max((around + isinstance(statement, Loop) for statement, around in statements(layer.body)), default=0)
    return _refer(names, formulas, layer.span, inner)


def _refer(names: Sequence[tuple[str, Span]], formulas: Sequence[Expression], span: Span, loops: int = 0) -> _Reference:
    nodes = sum(1 for formula in formulas for _ in subexpressions(formula))
    return _Reference(names, nodes, loops + max(map(height, formulas), default=0), span)


# A layer of the library is not the reader's text, so its errors point to the first call that leads to it.
def _place_at_call(finding: Finding, layer: Layer, spec: Spec) -> Finding:
    layers = {other.name: other for other in spec.layers}
    for other in (other for other in spec.layers if layer.span.source is not spec.span.source is other.span.source):
        if call := next(
            (call for call, callee in called_layers(other, layers) if layer.name in _find_reached(callee, layers)), None
        ):
            return replace(finding, span=call.span, facts=(*finding.facts, f"`{layer.name}` needs it ({finding.span})"))
    return finding


def _find_reached(layer: Layer, layers: Mapping[str, Layer]) -> set[str]:
    return {layer.name}.union(*(_find_reached(callee, layers) for _, callee in called_layers(layer, layers)))


# A finding about one declaration points to the first place that needs it.
def _merge_repeated(findings: Iterable[Finding]) -> list[Finding]:
    first: dict[tuple[str, str, Span | None], Finding] = {}
    for finding in findings:
        place = None if finding.code in _OF_A_DECLARATION else finding.span
        first.setdefault((finding.code, finding.message, place), finding)
    return list(first.values())


# Callees come first.
def with_library(spec: Spec, library: Spec) -> Spec:
    letters = {axis.letter for axis in spec.axes}
    missing = {layer.name: layer for layer in library.layers}
    for layer in spec.layers:
        missing.pop(layer.name, None)
    added: list[Layer] = []

    def add_callees(layer: Layer) -> None:
        for name in [*(call.name for call in calls(layer)), *(weight.layer for weight in layer.weights)]:
            if callee := missing.pop(name, None):
                add_callees(callee)
                added.append(resolve_layer(callee, letters))

    for layer in spec.layers:
        add_callees(layer)
    return replace(spec, layers=(*added, *spec.layers))


# ------------------------------------------------------------------------------------------------------------------- the legend


def check_declarations(spec: Spec, legend: Legend) -> Iterator[Finding]:
    wrong = list(_check_names(spec, legend))
    try:
        yield from wrong
        if not wrong:
            check_sizes(legend)
    except EinformerError as error:
        yield from error.findings


def _check_names(spec: Spec, legend: Legend) -> Iterator[Finding]:
    yield from _find_twice("axis", ((axis.letter, axis) for axis in spec.axes))
    yield from _find_shared_sizes(spec, legend)
    sizes = {axis.size.name: axis for axis in reversed(spec.axes) if isinstance(axis.size, Name)}
    yield from _find_twice("size or scalar", (*sizes.items(), *((scalar.name, scalar) for scalar in spec.scalars)))
    yield from _find_twice("layer", ((layer.name, layer) for layer in spec.layers))
    for axis in spec.axes:
        for size in (e for e in (axis.size, axis.default, axis.bound) if e is not None):
            yield from check_formula(axis.letter, size, legend)
            yield from _check_size_names(size, legend)
    for scalar in spec.scalars:
        yield from _check_scalar(scalar, legend)
    yield from find_look_alikes(spec)
    yield from _check_times(spec, legend)


# Before the start of its time axis everything is zero (R4), in every layer.
def _check_times(spec: Spec, legend: Legend) -> Iterator[Finding]:
    times = [layer.time for layer in spec.layers if layer.time is not None]
    for time in times[1:]:
        first = times[0]
        if axis_of(time.letter) != axis_of(first.letter):
            message = f"the time axis of this text is `{first.letter}`, here it is `{time.letter}`"
            facts = (f"first in line {first.span.line}", legend.describe(first.letter))
            yield Finding("E509", message, time.span, facts, f"`causal in {first.letter}`, or a text of its own for the model")


def _find_twice(what: str, declared: Iterable[tuple[str, Node]]) -> Iterator[Finding]:
    first: dict[str, Node] = {}
    for name, node in declared:
        earlier = first.setdefault(name, node)
        if earlier is not node:
            fact = f"first in line {earlier.span.line}"
            yield Finding("E202", f"the {what} `{name}` is declared twice", node.span, (fact,), "another letter, or a prime")
        elif name in NAMES or name in CONSTANTS:
            yield Finding("E202", f"`{name}` is a name of the language", node.span, (), "another name")


# Another axis of the same length has its own size, with this size as default.
def _find_shared_sizes(spec: Spec, legend: Legend) -> Iterator[Finding]:
    first: dict[str, Axis] = {}
    for axis in (axis for axis in spec.axes if isinstance(axis.size, Name)):
        name = show(axis.size)
        if (other := first.setdefault(name, axis)) is not axis:
            free = (letter for letter in (axis.letter.upper(), *string.ascii_uppercase) if letter not in legend.letters)
            fix = f"`{axis.letter}: {next(free)} = {name}` for an axis as long"
            facts = (legend.describe(other.letter),)
            yield Finding("E202", f"`{name}` is the size of `{other.letter}` already", axis.size.span, facts, fix)


# A size is one upper-case letter.
def _check_size_names(size: Expression, legend: Legend) -> Iterator[Finding]:
    for e in subexpressions(size):
        if isinstance(e, Name) and e.name in legend.letters and not (len(e.name) == 1 and e.name.isupper()):
            product = f"`{' '.join(e.name)}` for a product, or " if e.name.isalpha() and e.name.isupper() else ""
            message = f"`{e.name}` is not a size: a size is one upper-case letter"
            yield Finding("E204", message, e.span, (), f"{product}`{e.name[0].upper()}`")


# A scalar is a formula of its declared indices, or a list over its only index.
def _check_scalar(scalar: Scalar, legend: Legend) -> Iterator[Finding]:
    unknown = [report_undeclared(index, legend) for index in scalar.indices if legend.axis(index.letter) is None]
    yield from unknown or find_repeated(scalar.indices, legend)
    yield from find_dropped(scalar, legend.scalars, legend)
    if not isinstance(scalar.value, tuple):
        yield from check_formula(scalar.name, scalar.value, legend, scalar.indices)
    elif len(scalar.indices) != 1:
        message = f"`{scalar.name}` is a list, and has {len(scalar.indices)} indices"
        yield Finding("E606", message, scalar.span, (), f"`{scalar.name}_l = [ … ]`, a value for each number of one index")


def find_unused(spec: Spec) -> Iterator[Finding]:
    letters, names = set[str](), set[str]()
    for node in _list_nodes(spec):
        match node:
            case Index():
                letters.add(axis_of(node.letter))
            case Name() | Tensor():
                names.add(node.name)
            case Apply(name="Dr", arguments=(_,)):
                names.add("p")
            case _:
                pass
    letters |= {axis_of(index.letter) for scalar in spec.scalars if scalar.name in names for index in scalar.indices}
    for axis in spec.axes:
        if axis.letter not in letters and not (isinstance(axis.size, Name) and axis.size.name in names):
            yield Finding("E203", f"the axis `{axis.letter}` is never used", axis.span, (), "nothing: delete the line")
    for scalar in spec.scalars:
        if scalar.name not in names:
            yield Finding("E203", f"the scalar `{scalar.name}` is never used", scalar.span, (), "nothing: delete the line")


def _list_nodes(spec: Spec) -> Iterator[Expression]:
    roots = [e for axis in spec.axes for e in (axis.default, axis.bound) if e is not None]
    roots += [axis.size for axis in spec.axes if not isinstance(axis.size, Name)]
    roots += [scalar.value for scalar in spec.scalars if not isinstance(scalar.value, tuple)]
    for layer in spec.layers:
        roots += [*layer.indices, *(loop.index for loop in loops(layer.body)), *expressions(layer)]
    for e in (x for root in roots for x in subexpressions(root)):
        yield e
        if isinstance(e, Apply):
            yield from e.indices
