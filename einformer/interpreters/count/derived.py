"""Derives what there is to count in a model: its weights, and what its equations do with their tensors, in letters."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from einformer.interpreters.count.contraction import Contraction, bounds_of, chosen_of
from einformer.interpreters.count.held import Held, held
from einformer.interpreters.count.visits import Visit, Work, per_tree, rows_of, work_of
from einformer.language.calls import axis_of
from einformer.language.tree import Equation, Spec
from einformer.program.experts import Routing, find_routings
from einformer.program.needs import Bound
from einformer.program.operations import Contract, Map, Reduce, Value
from einformer.program.orders import Letters
from einformer.program.turns import Case, Turns, turns_of

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Softmax:
    """The letters over which a softmax runs, and the bounds between positions outside of which it is zero."""

    letters: Letters
    bounds: tuple[Bound, ...] = ()


@dataclass(frozen=True, slots=True)
class Gather:
    """Rows read from a table of weights: the letters of what is read, and the axis whose numbers select."""

    letters: Letters
    axis: str


@dataclass(frozen=True, slots=True)
class Done:
    """An equation of the layer `layer` at a path, what it does, and the turns: of each call on the way, then its own."""

    path: str
    layer: str
    equation: Equation
    turns: tuple[Turns, ...]
    contractions: tuple[Contraction, ...] = ()
    softmaxes: tuple[Softmax, ...] = ()
    gathers: tuple[Gather, ...] = ()

    @property
    def repeated(self) -> bool:
        """Is it part of a block, in a loop?"""
        return any(turns.letters for turns in self.turns)


@dataclass(frozen=True, slots=True)
class Derived:
    """All that is counted, in the order of the text; `time` and `vocabulary` are axes, "" where there is none.

    `logits` are the letters of the output, if it has a number for each token of the vocabulary.
    """

    held: tuple[Held, ...]
    done: tuple[Done, ...]
    time: str = ""
    vocabulary: str = ""
    logits: tuple[str, ...] = ()


@per_tree
def derive(spec: Spec, name: str) -> Derived:
    """What the layer or model `name` of a checked spec holds and does, its optional weights too."""
    work = work_of(spec, name)
    visits = tuple(work.visits(work.whole(name)))
    routes = find_routings(work.flows)
    done = (_done(visit, work, routes.get(visit.flow.function.name)) for visit in visits)
    return Derived(
        tuple(held(work, name, visits)),
        tuple(itertools.chain.from_iterable(done)),
        next((layer.time.letter for layer in spec.layers if layer.time), ""),
        vocabulary := work.vocabulary,
        _logits(work, name, vocabulary),
    )


def _logits(work: Work, name: str, vocabulary: str) -> tuple[str, ...]:
    """The letters of the output, if one of them numbers tokens."""
    letters = work.flows.functions[name].output.value.axes
    return letters if vocabulary in map(axis_of, letters) else ()


def _done(visit: Visit, work: Work, routing: Routing | None) -> Iterator[Done]:
    """What a line does, once for each of the branches on layer numbers in it."""
    contractions, softmaxes, read = _Found[Contraction](), _Found[Softmax](), _Found[Gather]()
    fused = work.norms(visit.flow.function)[1]
    apart = routing.find_paired() if routing else set[Value]()
    for value in visit.step.values:
        need = visit.needs.get(value)
        if need is None:
            continue
        match value.operation:
            case Contract():
                paired = frozenset([routing.letter] if routing and value in apart else [])
                contractions.add(need.cases, _contraction(value, value.operation, visit, paired, value in fused))
            case Reduce("Sm"):
                softmaxes.add(need.cases, _softmax(value, visit))
            case _ if (rows := rows_of(value, visit.flow.weights)) is not None:
                read.add(need.cases, Gather(visit.letters(value), rows.axis))
    equation, name = visit.step.line.equation, work.names[visit.flow.function.name]
    assert equation is not None
    for cases in dict.fromkeys((*contractions, *softmaxes, *read)) or (frozenset[Case](),):
        found = contractions.get(cases, ()), softmaxes.get(cases, ()), read.get(cases, ())
        yield Done(visit.path, name, equation, (*visit.turns, turns_of(visit.step.loops, cases)), *found)


class _Found(dict[frozenset[Case], tuple[T, ...]], Generic[T]):
    """What was found, by the cases in which it exists."""

    def add(self, cases: frozenset[Case], item: T | None) -> None:
        if item is not None:
            self[cases] = (*self.get(cases, ()), item)


def _contraction(value: Value, operation: Contract, visit: Visit, paired: Letters, fused: bool) -> Contraction | None:
    """The contraction of two tensors or more that a sum of a product is."""
    flow, summed = visit.flow, frozenset(operation.letters)
    operands = [(f, letters) for f in operation.factors if (letters := visit.letters(f)) and not _divides(f, summed)]
    if len(operands) < 2:
        return None
    letters = frozenset[str]().union(*(letters for _, letters in operands))
    choices = visit.needs[value].choices | flow.zero_of(operation.factors)
    return Contraction(
        tuple(letters for _, letters in operands),
        summed,
        tuple(flow.support(factor).trained for factor, _ in operands),
        chosen_of(choices, letters),
        bounds_of(choices, letters),
        paired,
        fused,
    )


def _divides(factor: Value, summed: Letters) -> bool:
    """Does a factor divide the whole, a denominator without a summed letter?"""
    return isinstance(factor.operation, Map) and factor.operation.function == "/" and summed.isdisjoint(factor.axes)


def _softmax(value: Value, visit: Visit) -> Softmax:
    """A softmax is zero where its argument is -inf."""
    choices = visit.needs[value].choices | visit.flow.support(value).zero
    return Softmax(visit.letters(value), bounds_of(choices, visit.letters(value)))
