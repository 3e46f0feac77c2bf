"""Which equations run when a model runs? A walk through its calls, with what is needed of each equation."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from einformer.errors import Span
from einformer.language.calls import axis_of
from einformer.language.sizes import Legend
from einformer.language.specialise import specialise
from einformer.language.tree import Apply, Equation, Expression, Index, Layer, Spec, Tensor
from einformer.language.walk import equations, subexpressions
from einformer.program.choices import DENSE, INNER, NO_CHOICE, Choices
from einformer.program.conditions import turned
from einformer.program.norms import Norm, norms
from einformer.program.orders import Letters
from einformer.program.recurrences import recurrent
from einformer.program.routing import Routing, routings
from einformer.program.support import Flow, Flows, Need
from einformer.program.turns import Loops, Turns, in_loops, inside, turns_of

T = TypeVar("T")
Norms = tuple[dict[int, Norm], set[int]]

MOST_TREES = 64


def per_tree(f: Callable[[Spec, str], T]) -> Callable[[Spec, str], T]:
    """f of the trees asked for last, found again by identity: to hash a whole tree takes longer than to count it."""
    found: dict[tuple[int, str], tuple[Spec, T]] = {}

    @functools.wraps(f)
    def remembered(spec: Spec, name: str) -> T:
        key = id(spec), name
        if key not in found:
            if len(found) >= MOST_TREES:
                del found[next(iter(found))]
            found[key] = spec, f(spec, name)  # as long as the tree is kept, its id is its own
        return found[key][1]

    return remembered


@dataclass(frozen=True, slots=True)
class Visit:
    """An equation on a walk through the calls: what of its right side is needed, and where the walk stands."""

    path: str
    flow: Flow
    equation: Equation
    nodes: tuple[tuple[Expression, Need], ...]
    loops: Loops
    turns: tuple[Turns, ...]  # of the calls on the way

    def letters(self, e: Expression) -> Letters:
        """The letters of what is computed at once: a loop stands at one number; a recurrence computes all anew in each step."""
        step = recurrent(self.equation)
        letters = (*self.flow.scope.free(e), *([step] if step else []))
        return frozenset(letters) - {letter for letter, _ in self.loops}


@per_tree
def work_of(spec: Spec, name: str) -> Work:
    """The work of counting the layer or model `name`."""
    specialised = turned(specialise(spec, name))
    layers = {layer.name: layer for layer in specialised.layers}
    numbered = (axis for layer in layers.values() for tensor, axis in gathers(layer) if _by_tensor(tensor))
    names = {layer.span: layer.name for layer in spec.layers}
    return Work(layers, names, Flows(layers, Legend.of(specialised)), routings(specialised), next(numbered, ""), {})


@dataclass(frozen=True, slots=True)
class Work:
    """A specialised spec, and the names that its author gave."""

    layers: Mapping[str, Layer]
    names: Mapping[Span, str]
    flows: Flows
    routings: Mapping[str, Routing]  # of the layers in which chosen experts alone compute
    vocabulary: str  # the axis that tokens number, that of a slot in which an input stands
    known: dict[str, Norms]  # those of each layer that was asked for

    def norms(self, layer: Layer) -> Norms:
        """The norms of a layer by the id of what they are, and the ids of the equations that they take in."""
        if layer.name not in self.known:
            self.known[layer.name] = norms(layer, self.flows.legend)
        return self.known[layer.name]

    def fused(self, layer: Layer) -> set[int]:
        """What a norm computes by itself, by id: all that is in it, but for what it is the norm of, once."""
        found, within = self.norms(layer)
        inside = {id(e) for q in equations(layer.body) if id(q) in within for e in subexpressions(q.right)}
        for e in (e for q in equations(layer.body) for e in subexpressions(q.right) if id(e) in found):
            own = [*subexpressions(found[id(e)].x)]
            for inner in subexpressions(e):
                if inner in own:
                    own.remove(inner)
                else:
                    inside.add(id(inner))
        return inside

    def whole(self, layer: Layer) -> Flow:
        """The flow through a model whose inputs are constants, or through a layer as it stands inside a model."""
        return self.flows.of(layer, (DENSE if layer.kind == "model" else INNER,) * len(layer.formals))

    def visits(self, flow: Flow, output: Choices = NO_CHOICE, path: str = "", turns: tuple[Turns, ...] = ()) -> Iterator[Visit]:
        """The equations of a body whose output is needed for some choices, each after those of the calls in it."""
        needs = flow.needs(output)
        for equation, loops in in_loops(flow.layer.body):
            nodes = tuple(flow.expressions(equation, needs[id(equation)]))
            for e, need in nodes:
                if isinstance(e, Apply) and e.name in flow.callees:
                    callee, choices = flow.call(e, need, equation)
                    inner = inside(path, e, loops, self.written(e, flow))
                    yield from self.visits(callee, choices, inner, (*turns, turns_of(loops, need.cases)))
            yield Visit(path, flow, equation, nodes, loops, turns)

    def written(self, e: Apply, flow: Flow) -> str:
        """The name of an instance, or else of the layer as the text has it."""
        instances = {weight.name for weight in flow.layer.weights}
        return e.name if e.name in instances else self.names[flow.callees[e.name].span]


def gathers(layer: Layer) -> Iterator[tuple[Tensor, str]]:
    """The weights of a layer that are read by the numbers of another axis or of a tensor, with the axis that these number."""
    weights = {weight.name: weight for weight in layer.weights if weight.kind == "trained"}
    for e in (e for equation in equations(layer.body) for e in subexpressions(equation.right)):
        if isinstance(e, Tensor) and e.name in weights:
            for slot, index in zip(e.slots, weights[e.name].indices, strict=True):
                axis = axis_of(index.letter)
                if isinstance(slot, Tensor) or (isinstance(slot, Index) and axis_of(slot.letter) != axis):
                    yield e, axis


def _by_tensor(e: Tensor) -> bool:
    return any(isinstance(slot, Tensor) for slot in e.slots)
