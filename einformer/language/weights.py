"""Which weights does a layer have once its sizes are bound: their paths, shapes, and where each was declared?"""

from __future__ import annotations

import keyword
from collections.abc import Iterator
from dataclasses import dataclass

from einformer.errors import EinformerError
from einformer.language.calls import axis_of, callees, calls
from einformer.language.scope import Scope
from einformer.language.sizes import Legend
from einformer.language.tree import Apply, Equation, Expression, Layer, Loop, Spec, Statement, Weight
from einformer.language.walk import children, loops


@dataclass(frozen=True, slots=True)
class Placed:
    """A weight at its path."""

    weight: Weight
    shape: tuple[int, ...]


# What a module has beside its weights: the names of Python, of `nn.Module`, and of what is built here.
_OF_A_MODULE = (
    "apply bfloat16 buffers children compile cpu cuda double eval float forward half ipu modules mtia parameters to train "
    "training type xpu blocks cache decode door follow generate initialise layout parts perplexity recipe static stream "
    "KEPT SHARED"
)
TAKEN = frozenset((*keyword.kwlist, *_OF_A_MODULE.split()))


def key(name: str) -> str:
    """A name as a part of a path, and as a name of Python: `z'` is `z_prime`, `to` is `to_`."""
    return name.replace("'", "_prime") + "_" * (name in TAKEN)


def place(call: Apply, layer: Layer) -> str:
    """What a call keeps lies under the name that it calls; where a body has several such calls, a number follows."""
    same = [e for e in calls(layer) if e.name == call.name]
    number = 1 + next(k for k, e in enumerate(same) if e is call)
    return key(call.name) + (f".{number}" if number > 1 else "")


def versions(layer: Layer) -> dict[int, tuple[str, int]]:
    """A name for what each equation defines, by its id, and how many loops are around it: `z`, then `z_2` in as many loops."""
    count = dict.fromkeys(((formal.name, 0) for formal in layer.formals), 1)
    found: dict[int, tuple[str, int]] = {}
    for equation, depth in _with_depth(layer.body):
        number = count[equation.left.name, depth] = count.get((equation.left.name, depth), 0) + 1
        found[id(equation)] = (equation.left.name + (f"_{number}" if number > 1 else ""), depth)
    return found


def _with_depth(body: tuple[Statement, ...], depth: int = 0) -> Iterator[tuple[Equation, int]]:
    for statement in body:
        if isinstance(statement, Loop):
            yield from _with_depth(statement.body, depth + 1)
        else:
            yield statement, depth


def weights(spec: Spec, layer: Layer, legend: Legend) -> dict[str, Placed]:
    """Every weight and buffer of a checked layer and of the layers it calls, by path, in the order of the text.

    Ties have no entry; a branch of `where` that a layer does not take has no weights (R8).
    """
    layers = {each.name: each for each in spec.layers}
    return dict(_Walk(layers, legend).layer(layer, "", {}))


def called(spec: Spec, name: str, legend: Legend) -> frozenset[str]:
    """A layer and all that it calls, but for what stands in branches that it never takes."""
    walk, found, todo = _Walk({each.name: each for each in spec.layers}, legend), {name}, [name]
    while todo:
        layer = walk.layers[todo.pop()]
        known = callees(layer, walk.layers)
        new = {known[e.name].name for e, _ in walk.applied(layer.body, {}) if e.name in known} - found
        found |= new
        todo += sorted(new)
    return frozenset(found)


def turns_of(layer: Layer, legend: Legend) -> dict[str, set[tuple[int, ...]]]:
    """In which turns of the loops whose letters it carries each instance of a layer is called at all (R8)."""
    found = {w.name: set[tuple[int, ...]]() for w in layer.weights if w.kind == "instance"}
    for e, turns in _Walk({}, legend).applied(layer.body, {}):
        if e.name in found:
            found[e.name].add(tuple(turns[i.letter] for i in e.indices if i.letter in turns))
    return found


class _Walk:
    """Through the calls of a layer, loops unrolled."""

    def __init__(self, layers: dict[str, Layer], legend: Legend) -> None:
        self.layers, self.legend = layers, legend

    def layer(self, layer: Layer, path: str, axes: dict[str, str]) -> Iterator[tuple[str, Placed]]:
        for weight in layer.weights:
            if weight.kind != "instance" and (weight.default is None or weight.optional):
                yield f"{path}{key(weight.name)}", Placed(weight, tuple(self.length(i.letter, axes) for i in weight.indices))
        scope = Scope(callees(layer, self.layers), frozenset(loop.index.letter for loop in loops(layer.body)))
        yield from self.statements(layer.body, layer, scope, path, axes, {})

    def length(self, letter: str, axes: dict[str, str]) -> int:
        return self.legend.length(axes.get(axis_of(letter), letter))

    def statements(
        self, body: tuple[Statement, ...], layer: Layer, scope: Scope, path: str, axes: dict[str, str], turns: dict[str, int]
    ) -> Iterator[tuple[str, Placed]]:
        for statement in body:
            if not isinstance(statement, Loop):
                yield from self.calls(statement.right, layer, scope, path, axes, turns)
                continue
            for turn in range(int(self.legend.number(statement.count))):
                inner = turns | {statement.index.letter: turn}
                yield from self.statements(statement.body, layer, scope, path, axes, inner)

    def applied(self, body: tuple[Statement, ...], turns: dict[str, int]) -> Iterator[tuple[Apply, dict[str, int]]]:
        for statement in body:
            if isinstance(statement, Loop):
                for turn in range(int(self.legend.number(statement.count))):
                    yield from self.applied(statement.body, turns | {statement.index.letter: turn})
            else:
                yield from self.existing(statement.right, turns)

    def existing(self, e: Expression, turns: dict[str, int]) -> Iterator[tuple[Apply, dict[str, int]]]:
        if isinstance(e, Apply):
            yield e, turns
        for child in self.taken(e, turns):
            yield from self.existing(child, turns)

    def calls(
        self, e: Expression, layer: Layer, scope: Scope, path: str, axes: dict[str, str], turns: dict[str, int]
    ) -> Iterator[tuple[str, Placed]]:
        if isinstance(e, Apply) and any(w.kind == "instance" and w.name == e.name for w in layer.weights):
            binding = scope.binding(e)
            assert binding is not None
            blocks = "".join(f"blocks.{turns[i.letter]}." for i in e.indices if i.letter in turns)
            bound = {axis_of(formal): axes.get(axis_of(actual), actual) for formal, actual in binding.letters.items()}
            yield from self.layer(scope.layers[e.name], f"{path}{blocks}{key(e.name)}.", axes | bound)
        for child in self.taken(e, turns):
            yield from self.calls(child, layer, scope, path, axes, turns)

    def taken(self, e: Expression, turns: dict[str, int]) -> tuple[Expression, ...]:
        """The children of e that exist in this turn of the loop: of a `where` on layer numbers one branch."""
        if not (isinstance(e, Apply) and e.name == "where"):
            return children(e)
        try:
            condition = self.legend.number(e.arguments[0], turns)
        except EinformerError:  # it depends on more than the turn: both branches exist
            return children(e)
        return (e.arguments[1 if condition else 2],)
