"""Which weights does a model hold, how often, and what are they: embeddings, experts, parts of a group?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from einformer.interpreters.count.contraction import Chosen, chosen_of
from einformer.interpreters.count.visits import Visit, Work, gathers
from einformer.language.calls import axis_of, callees
from einformer.language.tree import Apply, Group, Index, Layer, Product, Tensor, Weight
from einformer.language.walk import equations, subexpressions
from einformer.program.choices import NO_CHOICE, slots
from einformer.program.orders import Letters
from einformer.program.turns import Site, Turns, below, carried, in_loops, united

Place = tuple[str, str]  # the path of a layer, the name of a weight


@dataclass(frozen=True, slots=True)
class Held:
    """A weight or buffer of the layer at a path, `blocks.{l}.MLP`, and for each call on the way the turns with one more.

    An embedding has a row for each token or position. Of a letter that is `chosen` only so many numbers compute for a token.
    `merged` are the letters of groups for which one of its indices stands, the heads a in the d' of `u_bsd' O_d'd`.
    """

    path: str
    weight: Weight
    turns: tuple[Turns, ...]
    embedding: bool = False
    chosen: tuple[Chosen, ...] = ()
    merged: Letters = frozenset()

    @property
    def place(self) -> Place:
        """Where it is, and its name."""
        return self.path, self.weight.name


def held(work: Work, layer: Layer, visits: Iterable[Visit]) -> Iterator[Held]:
    """The weights of a layer and of its instances, with what the visits say of each."""
    visits = tuple(visits)
    chosen, merged = _chosen(visits), _merged(visits)
    for each in _held(work, layer, "", ()):
        yield replace(each, chosen=chosen.get(each.place, ()), merged=merged.get(each.place, each.merged))


def _held(work: Work, layer: Layer, path: str, turns: tuple[Turns, ...]) -> Iterator[Held]:
    """The weights of a layer, then of its instances; an instance called at several sites is one."""
    numbered = {tensor.name for tensor, _ in gathers(layer)}
    for weight in layer.weights:
        if weight.kind != "instance" and (weight.default is None or weight.optional):
            axes = {axis_of(index.letter) for index in weight.indices}
            yield Held(path, weight, turns, weight.name in numbered or work.vocabulary in axes)
    called = callees(layer, work.layers)
    for (name, letters), sites in _instances(work, layer).items():
        yield from _held(work, called[name], below(path, letters, name), (*turns, Turns(letters, united(sites))))


def _instances(work: Work, layer: Layer) -> dict[tuple[str, tuple[str, ...]], list[Site]]:
    """The instances that a body calls, by name and the loops whose numbers they carry, with the sites of the calls."""
    flow = work.whole(layer)
    names = {weight.name for weight in layer.weights if weight.kind == "instance"}
    sites: dict[tuple[str, tuple[str, ...]], list[Site]] = {}
    for equation, loops in in_loops(layer.body):
        for e, need in flow.expressions(equation, NO_CHOICE):
            if isinstance(e, Apply) and e.name in names:
                sites.setdefault((e.name, carried(e, loops)), []).append(Site(loops, need.cases))
    return sites


def _chosen(visits: Iterable[Visit]) -> dict[Place, tuple[Chosen, ...]]:
    """Of the weights at each path, by name, the letters of which only some numbers are read, wherever they are read."""
    found: dict[Place, tuple[Chosen, ...]] = {}
    for visit in visits:
        for e, need in visit.nodes:
            if isinstance(e, Tensor) and (e.name, True) in visit.flow.weights:
                here = chosen_of(need.choices, frozenset(visit.flow.scope.free(e)))
                before = found.get((visit.path, e.name), here)
                found[visit.path, e.name] = tuple(each for each in here if each in before)
    return found


def _merged(visits: Iterable[Visit]) -> dict[Place, Letters]:
    """Of the weights at each path, by name, the letters of the groups with which they are multiplied."""
    found: dict[Place, Letters] = {}
    for visit in visits:
        groups = _groups(visit.flow.layer)
        for e in (e for e, _ in visit.nodes if isinstance(e, Product)):
            tensors = [factor for factor in e.factors if isinstance(factor, Tensor)]
            read = [(slot, groups.get((tensor.name, k))) for tensor in tensors for k, slot in enumerate(tensor.slots)]
            for tensor in tensors:
                for slot, letters in read:
                    if letters and slot in tensor.slots:
                        place = visit.path, tensor.name
                        found[place] = found.get(place, frozenset()) | letters
    return found


def _groups(layer: Layer) -> dict[tuple[str, int], Letters]:
    """The letters of the groups that a body merges, by tensor and slot."""
    return {
        (equation.left.name, k): frozenset(index.letter for index in subexpressions(slot) if isinstance(index, Index))
        for equation in equations(layer.body)
        for k, slot in enumerate(slots(equation.left))
        if isinstance(slot, Group)
    }
