"""Isolates the layer under test: with the layers that it calls, and the axes that it carries along (R7)."""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from einformer.errors import EinformerError, Finding
from einformer.interpreters import reference
from einformer.language import binding
from einformer.language import weights as placed
from einformer.language.body import check_layer
from einformer.language.calls import axis_of, callees, calls, find_weighted, name_instances, slot_letters
from einformer.language.primitives import primitive
from einformer.language.scope import Scope
from einformer.language.sizes import Legend
from einformer.language.specialise import specialise
from einformer.language.tree import (
    Apply,
    Equation,
    Expression,
    Index,
    Layer,
    Loop,
    Name,
    Number,
    Product,
    Quotient,
    Spec,
    Statement,
    Tensor,
)
from einformer.language.walk import children, equations, find_all, loops, map_expressions, rebuild, subexpressions
from einformer.objects import Model, Specification
from einformer.program.causality import check_spec
from einformer.targets import load, parse
from einformer.testing.bare import read_bare

Array = NDArray[np.float64]
Equations = Specification | Model | str | pathlib.Path
CARRIER = "Tested"
_ARGUMENT = "argument"  # no name of a text has a space after it
# Unused or unfelt terms and reads of the future may be the mistake that the test looks for.
_HARMLESS = ("E203", "E206", "E313", "E5")


@dataclass(frozen=True, slots=True)
class Subject:
    """A layer by itself. `written` has the layers that it needs, their instances named. `layer` is the one under test."""

    written: Spec
    name: str
    layer: str
    time: Index | None
    legend: Legend
    tree: Spec = field(init=False, compare=False)

    def __post_init__(self) -> None:
        tree, findings = check_spec(self.written, values=binding.find_sizes(self.legend), origins=self.legend.origins)
        if serious := _select_serious(findings):
            raise EinformerError(serious)
        layers = tuple(replace(layer, time=self.time) if layer.name == self.layer else layer for layer in tree.layers)
        object.__setattr__(self, "tree", replace(tree, layers=layers))

    @property
    def head(self) -> Layer:
        return next(layer for layer in self.tree.layers if layer.name == self.layer)

    # The paths of weights begin with the layer, if another carries axes along for it.
    @property
    def prefix(self) -> str:
        return f"{self.name}." if self.layer != self.name else ""

    # The result is None if it is not well formed.
    def vary(self, layer: Layer) -> Spec | None:
        layers = {other.name: other for other in self.written.layers} | {layer.name: layer}
        checked, findings, _ = check_layer(layer, layers, self.legend, find_weighted(layers))
        new = replace(checked, time=self.time) if checked.name == self.layer else checked
        tree = replace(self.tree, layers=tuple(new if other.name == new.name else other for other in self.tree.layers))
        return None if _select_serious(findings) else tree

    # Each call has a layer of its own, whose tensors have the axes that it carries along.
    def separate(self) -> Subject:
        apart = specialise(self.tree, self.layer, apart=True)
        short = replace(apart, layers=tuple(map(_omit_sums, apart.layers)))
        subject = replace(self, written=short)
        return subject if subject.tree.layers == apart.layers else replace(self, written=apart)

    def value(
        self,
        inputs: Mapping[str, ArrayLike],
        weights: Mapping[str, ArrayLike],
        tree: Spec | None = None,
        trace: dict[str, Array] | None = None,
    ) -> Array:
        arrays = [inputs[formal.name] for formal in self.head.formals]
        held = {self.prefix + path: weights[path] for path in self.weights(tree) if path in weights}
        return reference.evaluate(tree or self.tree, self.layer, arrays, held, self.legend, trace)

    # Arguments of functions and operators are not tensors of the text, but may be tensors of its code.
    def list_arguments(self, inputs: Mapping[str, ArrayLike], weights: Mapping[str, ArrayLike]) -> list[Array]:
        layers, trace, places = {layer.name: layer for layer in self.tree.layers}, dict[str, Array](), itertools.count()
        bodies = (_name_arguments(layer.body, Scope.of(layer, layers), places) for layer in layers.values())
        copies = (replace(layer, body=body) for layer, body in zip(layers.values(), bodies, strict=True))
        self.value(inputs, weights, replace(self.tree, layers=tuple(copies)), trace)
        return [array for path, array in trace.items() if path.rpartition(".")[2].startswith(_ARGUMENT)]

    def weights(self, tree: Spec | None = None) -> dict[str, placed.Placed]:
        tree = tree or self.tree
        head = next(layer for layer in tree.layers if layer.name == self.layer)
        return {path.removeprefix(self.prefix): weight for path, weight in placed.weights(tree, head, self.legend).items()}

    def list_originals(self, apart: Subject) -> dict[str, str]:
        names = {layer.span: layer.name for layer in self.written.layers if layer.name != CARRIER}
        names_of_copies = {layer.name: names.get(layer.span, layer.name) for layer in apart.written.layers}
        return names_of_copies | {CARRIER: CARRIER}

    # `blocks.0.MLP` in the trace is the layer that it calls.
    def find_layer(self, path: str) -> Layer:
        layer, layers = self.head, {candidate.name: candidate for candidate in self.tree.layers}
        for part in path.split("."):
            layer = callees(layer, layers).get(part, layer)
        return layer

    # An input that stands in a slot comes with the letter of the axis in which it selects.
    def find_selectors(self) -> dict[str, str]:
        heads = {w.name: w.indices for layer in self.written.layers for w in layer.weights}
        letters = dict[str, str]()
        for e in self._expressions():
            if isinstance(e, Tensor):
                for slot, axis in zip(e.slots, heads.get(e.name, ()), strict=False):
                    if isinstance(slot, Tensor):
                        letters[slot.name] = axis.letter
        return {formal.name: letters[formal.name] for formal in self.head.formals if formal.name in letters}

    # These letters of sizes only count loops.
    def turns(self) -> frozenset[str]:
        counts = {
            loop.count.name for layer in self.written.layers for loop in loops(layer.body) if isinstance(loop.count, Name)
        }
        return frozenset(counts)

    def letters(self) -> list[str]:
        return sorted(binding.open_sizes(self.legend), key=lambda name: (name not in self.find_used(), name))

    def find_used(self) -> set[str]:
        used = {axis_of(x.letter) for e in self._expressions() for x in find_all(Index, e)}
        used |= {i.letter for layer in self.written.layers for w in layer.weights for i in w.indices}
        return {axis.size.name for axis in self.legend.axes.values() if isinstance(axis.size, Name) and axis.letter in used}

    def sizes(self) -> dict[str, int]:
        named = [(axis.size.name, axis.letter) for axis in self.legend.axes.values() if isinstance(axis.size, Name)]
        return {name: self.legend.length(letter) for name, letter in sorted(named) if name in self.find_used()}

    def bind(self, values: Mapping[str, int]) -> Subject:
        return replace(self, legend=binding.bind_sizes(self.written, self.legend, values))

    def _expressions(self) -> Iterator[Expression]:
        for layer in self.written.layers:
            for equation in equations(layer.body):
                yield from subexpressions(equation.right)
                yield from subexpressions(equation.left)


# Sums over indices that two factors share need no operator.
def _omit_sums(layer: Layer) -> Layer:
    return map_expressions(layer, _omit_sum)


def _omit_sum(e: Expression) -> Expression:
    inner = rebuild(e, _omit_sum)
    match inner:
        case Apply(name="sum", arguments=(Product() | Quotient() as argument,)):
            return argument
    return inner


# A body with a line for each argument of a function or of an operator, before the equation in which it stands.
def _name_arguments(body: tuple[Statement, ...], scope: Scope, places: Iterator[int]) -> tuple[Statement, ...]:
    lines = list[Statement]()
    for statement in body:
        if isinstance(statement, Loop):
            lines.append(replace(statement, body=_name_arguments(statement.body, scope, places)))
            continue
        for argument in _list_arguments(statement.right):
            left = Tensor(f"{_ARGUMENT} {next(places)}", tuple(map(Index, scope.free(argument))), span=argument.span)
            lines.append(replace(statement, left=left, relation="=", right=argument))
        lines.append(statement)
    return tuple(lines)


# Of a choice no branch: it may have no value where it is not taken.
def _list_arguments(e: Expression) -> Iterator[Expression]:
    chosen = isinstance(e, Apply) and e.name == "where"
    if isinstance(e, Apply) and not chosen and primitive(e.name, bool(e.indices)):
        yield from (argument for argument in e.arguments if not isinstance(argument, Tensor | Name | Index | Number))
    yield from (inner for child in (() if chosen else children(e)) for inner in _list_arguments(child))


# Errors that leave the text without a meaning.
def _select_serious(findings: Iterable[Finding]) -> list[Finding]:
    return [finding for finding in findings if not finding.code.startswith(_HARMLESS)]


def isolate(given: Equations, bind: Mapping[str, binding.Given]) -> Subject:
    spec, origin = _find_specification(given, frozenset(bind))
    written, legend = binding.bind(spec.written, bind, "bind")
    if origin is not None:
        values = {**origin.values, **legend.values}
        legend = replace(legend, values=values, origins={**origin.origins, **legend.origins})
    alone = _select_needed(written, spec.name)
    weighted = find_weighted({layer.name: layer for layer in alone})
    named = tuple(name_instances(layer, weighted)[0] for layer in alone)
    model = next((layer for layer in written.layers if layer.time), None)
    carried = _find_carried(model, named[-1])
    carrier = (_make_carrier(named[-1], carried),) if carried else ()
    layers = (*named, *(name_instances(layer, weighted)[0] for layer in carrier))
    time = model.time if model else None
    earlier = time is not None and any(_reads_earlier(layer, time.letter) for layer in layers)
    plain = [replace(layer, kind="layer", time=None) for layer in layers]
    plain[-1] = replace(plain[-1], kind="model", time=time) if earlier else plain[-1]
    return Subject(replace(written, layers=tuple(plain)), spec.name, layers[-1].name, time, legend)


def _find_specification(given: Equations, names: frozenset[str]) -> tuple[Specification, Legend | None]:
    match given:
        case Model():
            return given.spec, given.legend
        case Specification():
            return given, None
        case str() if "=" in given or "\n" in given:
            whole = any(line.startswith(("layer ", "model ")) for line in given.split("\n"))
            return (parse(given) if whole else read_bare(given, names)), None
        case _:
            return load(given), None


def _select_needed(spec: Spec, name: str) -> tuple[Layer, ...]:
    layers = {layer.name: layer for layer in spec.layers}
    needed, waiting = dict[str, Layer](), [name]
    while waiting:
        layer = layers[waiting.pop()]
        needed[layer.name] = layer
        called = [call.name for call in calls(layer)] + [w.layer for w in layer.weights]
        callees_by_name = callees(layer, layers)
        waiting += [
            callees_by_name[callee].name
            for callee in called
            if callee in callees_by_name and callees_by_name[callee].name not in needed
        ]
    return (*(layer for layer in spec.layers if layer.name in needed and layer.name != name), layers[name])


# A slot counts positions, `S_{b(s - 1)e}`, so the value before the first position matters.
def _reads_earlier(layer: Layer, time: str) -> bool:
    tensors = [e for q in equations(layer.body) for e in find_all(Tensor, q.right)]
    slots = [slot for tensor in tensors for slot in tensor.slots if not isinstance(slot, Index | Tensor)]
    return any(axis_of(x.letter) == time for x in find_all(Index, *slots))


def _find_carried(model: Layer | None, layer: Layer) -> tuple[str, ...]:
    if model is None or model.name == layer.name:
        return ()
    own = {letter for formal in layer.formals for letter in slot_letters(formal)}
    return tuple(letter for letter in slot_letters(model.formals[0]) if letter not in own)


# `Tested(z_bsd) -> z_bsd` for `RMSNorm_d(z_d)`.
def _make_carrier(layer: Layer, carried: tuple[str, ...]) -> Layer:
    extra = tuple(map(Index, carried))
    first, *rest = layer.formals
    formals = (replace(first, slots=(*extra, *first.slots)), *rest)
    output = Tensor(layer.output.name, (*extra, *map(Index, slot_letters(layer.output))), span=layer.span)
    call = Apply(layer.name, layer.indices, formals, span=layer.span)
    body: tuple[Statement, ...] = (Equation(output, "return", call, span=layer.span),)
    return Layer(CARRIER, (), formals, output, (), body, span=layer.span)
