"""Says which weights a model holds, how often, and what they are: embeddings, experts, parts of a group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from einformer.interpreters.count.contraction import Chosen, chosen_of
from einformer.interpreters.count.visits import Visit, Work
from einformer.language.calls import axis_of
from einformer.language.tree import Weight
from einformer.program import operations as op
from einformer.program.needs import flat
from einformer.program.operations import Contract, Map, Value, View
from einformer.program.orders import Letters
from einformer.program.turns import Site, Turns, below, united

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


def held(work: Work, name: str, visits: Iterable[Visit]) -> Iterator[Held]:
    """The weights of a layer and of its instances, with what the visits say of each."""
    chosen, merged = dict[Place, tuple[Chosen, ...]](), dict[Place, Letters]()
    for visit in visits:
        _choose(visit, chosen)
        _merge(visit, merged)
    for each in _held(work, name, "", (), work.vocabulary):
        yield replace(each, chosen=chosen.get(each.place, ()), merged=merged.get(each.place, each.merged))


def _held(work: Work, name: str, path: str, turns: tuple[Turns, ...], vocabulary: str) -> Iterator[Held]:
    """The weights of a layer, then of its instances; an instance called at several sites is one."""
    numbered = {rows.table for rows in work.tables(name)}
    for weight in work.layers[name].weights:
        if weight.kind != "instance" and (weight.default is None or weight.optional):
            axes = {axis_of(index.letter) for index in weight.indices}
            yield Held(path, weight, turns, weight.name in numbered or vocabulary in axes)
    for call, sites in _instances(work, name).items():
        inner = below(path, call.turns, call.instance)
        yield from _held(work, call.function, inner, (*turns, Turns(call.turns, united(sites))), vocabulary)


def _instances(work: Work, name: str) -> dict[op.Call, list[Site]]:
    """The instances that a body calls, by name and the loops whose numbers they carry, with the sites of the calls."""
    flow, sites = work.whole(name), dict[op.Call, list[Site]]()
    needs = flow.needs()
    for step in flat(flow.body):
        loops = {letter for letter, _ in step.loops}
        for value in step.values:
            match value.operation:
                case op.Call(function, instance, turns) if instance and value in needs:
                    call = op.Call(function, instance, tuple(letter for letter in turns if letter in loops), ())
                    sites.setdefault(call, []).append(Site(step.loops, needs[value].cases))
    return sites


def _choose(visit: Visit, chosen: dict[Place, tuple[Chosen, ...]]) -> None:
    """Of a weight the letters of which only some numbers are read, wherever it is read."""
    read = (operand for value in visit.step.values for operand in value.operands if operand in visit.needs)
    for value in read:
        if isinstance(value.operation, op.Weight) and value.operation.name in visit.flow.weights:
            place = visit.path, value.operation.name
            here = chosen_of(visit.needs[value].choices, frozenset(value.axes))
            chosen[place] = tuple(each for each in here if each in chosen.get(place, here))


def _merge(visit: Visit, merged: dict[Place, Letters]) -> None:
    """The letters of the groups with which weights are multiplied."""
    for value in visit.step.values:
        match value.operation:
            case Contract(_, factors) | Map("*" | "/", factors):
                groups = {letter: letters for factor in factors for letter, letters in _groups(factor)}
                for factor in factors if groups else ():
                    weight = _weight(factor)
                    for letter in groups.keys() & set(factor.axes) if weight else ():
                        place = visit.path, weight
                        merged[place] = merged.get(place, frozenset()) | groups[letter]


def _groups(value: Value) -> Iterator[tuple[str, Letters]]:
    """The letters that stand for groups."""
    if isinstance(value.operation, View):
        for old, new in zip(value.operation.old, value.operation.new, strict=True):
            if len(old) > 1 and len(new) == 1:
                yield new[0], frozenset(old)


def _weight(value: Value) -> str:
    """The weight that is read."""
    match value.operation:
        case op.Weight(name):
            return name
        case View(argument) | op.Gather(argument) | op.Spread(argument):
            return _weight(argument)
        case _:
            return ""
