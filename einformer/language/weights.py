"""Lists the weights of a layer whose sizes are bound, by path, with their shapes, and names what its equations define."""

from __future__ import annotations

import keyword
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from einformer.errors import EinformerError
from einformer.language.calls import axis_of, calls
from einformer.language.scope import Scope
from einformer.language.sizes import Legend
from einformer.language.tree import Apply, Expression, Layer, Loop, Spec, Statement, Weight
from einformer.language.walk import children


@dataclass(frozen=True, slots=True)
class Placed:
    """A weight at its path; its letters there, which a call may rename."""

    weight: Weight
    shape: tuple[int, ...]
    letters: tuple[str, ...]

    # The part of a rank: over each axis of a mesh, one index of some letters is split.
    def share(self, shares: Iterable[tuple[frozenset[str], int]]) -> Placed:
        shape = list(self.shape)
        for letters, ranks in shares:
            if (place := next((k for k, letter in enumerate(self.letters) if letter in letters), None)) is not None:
                shape[place] //= ranks
        return replace(self, shape=tuple(shape))


# What a module has beside its weights: the names of Python, of `nn.Module`, and of what is built here.
_OF_A_MODULE = (
    "apply bfloat16 buffers children compile cpu cuda double eval float forward half ipu modules mtia parameters to train "
    "training type xpu blocks cache check config cut cuts decode door follow generate initialise layout meet mesh parts "
    "perplexity recipe sharding shares static stream take together KEPT SHARED"
)
TAKEN = frozenset((*keyword.kwlist, *_OF_A_MODULE.split()))


# `z'` is `z_prime`, `to` is `to_`.
def key(name: str) -> str:
    return name.replace("'", "_prime") + "_" * (name in TAKEN)


# Where a body has several such calls, a number follows.
def place(call: Apply, layer: Layer) -> str:
    same = [e for e in calls(layer) if e.name == call.name]
    number = 1 + next(k for k, e in enumerate(same) if e is call)
    return key(call.name) + (f".{number}" if number > 1 else "")


# Ties are read from the weights that they are tied to.
def list_stored(layer: Layer) -> list[Weight]:
    return [w for w in layer.weights if w.kind != "instance" and (w.default is None or w.optional)]


Turns = dict[str, int]  # the numbers of the loops around


# Every weight and buffer of a checked layer and of the layers it calls, by path, in the order of the text. Ties have no entry;
# a branch of `where` that a layer does not take has no weights (R8).
def weights(spec: Spec, layer: Layer, legend: Legend) -> dict[str, Placed]:
    return dict(_place_weights(layer, {layer_.name: layer_ for layer_ in spec.layers}, legend, "", {}))


def _place_weights(
    layer: Layer, layers: Mapping[str, Layer], legend: Legend, path: str, axes: Mapping[str, str]
) -> Iterator[tuple[str, Placed]]:
    for weight in list_stored(layer):
        letters = tuple(axes.get(axis_of(i.letter), i.letter) for i in weight.indices)
        yield f"{path}{key(weight.name)}", Placed(weight, tuple(map(legend.length, letters)), letters)
    scope = Scope.of(layer, layers)
    instances = {weight.name for weight in layer.weights if weight.kind == "instance"}
    for e, turns in _list_applications(layer.body, legend, {}):
        if e.name in instances and (binding := scope.binding(e)) is not None:
            blocks = "".join(f"blocks.{turns[i.letter]}." for i in e.indices if i.letter in turns)
            bound = {axis_of(formal): axes.get(axis_of(actual), actual) for formal, actual in binding.letters.items()}
            yield from _place_weights(scope.layers[e.name], layers, legend, f"{path}{blocks}{key(e.name)}.", {**axes, **bound})


# An instance is called only in some turns of the loops whose letters it carries (R8).
def turns_of(layer: Layer, legend: Legend) -> dict[str, set[tuple[int, ...]]]:
    turns_of_instance = {w.name: set[tuple[int, ...]]() for w in layer.weights if w.kind == "instance"}
    for e, turns in _list_applications(layer.body, legend, {}):
        if e.name in turns_of_instance:
            turns_of_instance[e.name].add(tuple(turns[i.letter] for i in e.indices if i.letter in turns))
    return turns_of_instance


# Loops are unrolled, with the turns of each. Unused branches are left out.
def _list_applications(body: tuple[Statement, ...], legend: Legend, turns: Turns) -> Iterator[tuple[Apply, Turns]]:
    for statement in body:
        if isinstance(statement, Loop):
            for turn in range(int(legend.number(statement.count))):
                yield from _list_applications(statement.body, legend, turns | {statement.index.letter: turn})
        else:
            yield from ((e, turns) for e in _list_existing(statement.right, legend, turns) if isinstance(e, Apply))


# A `where` on numbers of layers has one branch in each turn.
def _list_existing(e: Expression, legend: Legend, turns: Turns) -> Iterator[Expression]:
    yield e
    inside = children(e)
    if isinstance(e, Apply) and e.name == "where":
        with suppress(EinformerError):  # the condition depends on more than the turn: both branches exist
            inside = (e.arguments[1 if legend.number(e.arguments[0], turns) else 2],)
    for child in inside:
        yield from _list_existing(child, legend, turns)
