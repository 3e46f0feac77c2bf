"""What is there to count in a model? Its weights, and what its equations do with their tensors, in letters."""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from einformer.interpreters.count.contraction import Contraction, bounds_of, chosen_of
from einformer.interpreters.count.held import Held, held
from einformer.interpreters.count.visits import Visit, Work, gathers, per_tree, work_of
from einformer.language.calls import axis_of
from einformer.language.scope import factors_of
from einformer.language.tree import Apply, Equation, Expression, Layer, Product, Quotient, Spec, Tensor
from einformer.program.choices import Bound
from einformer.program.orders import Letters
from einformer.program.support import Need
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
    model = work.layers[name]
    visits = tuple(work.visits(work.whole(model)))
    done = (_done(visit, work) for visit in visits)
    return Derived(
        tuple(held(work, model, visits)),
        tuple(itertools.chain.from_iterable(done)),
        next((layer.time.letter for layer in spec.layers if layer.time), ""),
        work.vocabulary,
        _logits(work, model),
    )


def _logits(work: Work, model: Layer) -> tuple[str, ...]:
    """The letters of the output, if one of them numbers tokens."""
    letters = tuple(work.whole(model).scope.free(model.output))
    return letters if work.vocabulary in map(axis_of, letters) else ()


def _done(visit: Visit, work: Work) -> Iterator[Done]:
    """What an equation does, once for each of the branches on layer numbers in it."""
    contractions, softmaxes, read = _Found[Contraction](), _Found[Softmax](), _Found[Gather]()
    layer = visit.flow.layer
    name, routing, fused = work.names[layer.span], work.routings.get(layer.name), work.fused(layer)
    paired = routing.inside(visit.equation) if routing else set[int]()
    for e, need in visit.nodes:
        letters = frozenset(routing.letter if routing and id(e) in paired else ())
        contractions.add(need.cases, _contraction(e, need, visit, letters, fused))
        softmaxes.add(need.cases, _softmax(e, need, visit))
        read.add(need.cases, _gather(e, visit))
    for cases in dict.fromkeys((*contractions, *softmaxes, *read)) or (frozenset[Case](),):
        found = contractions.get(cases, ()), softmaxes.get(cases, ()), read.get(cases, ())
        yield Done(visit.path, name, visit.equation, (*visit.turns, turns_of(visit.loops, cases)), *found)


class _Found(dict[frozenset[Case], tuple[T, ...]], Generic[T]):
    """What was found, by the cases in which it exists."""

    def add(self, cases: frozenset[Case], item: T | None) -> None:
        if item is not None:
            self[cases] = (*self.get(cases, ()), item)


def _contraction(e: Expression, need: Need, visit: Visit, paired: Letters, fused: Container[int]) -> Contraction | None:
    """The contraction that e is: a product under `sum` of two tensors or more."""
    flow, known = visit.flow, visit.flow.known_at[id(visit.equation)]
    if not (isinstance(e, Apply) and e.name == "sum" and isinstance(e.arguments[0], Product | Quotient)):
        return None
    inside, summed = e.arguments[0], frozenset(index.letter for index in e.indices)
    operands = [(factor, letters) for factor in _multiplied(inside, summed, visit) if (letters := visit.letters(factor))]
    if len(operands) < 2:
        return None
    letters = frozenset[str]().union(*(letters for _, letters in operands))
    choices = need.choices | flow.support(inside, known).zero
    return Contraction(
        tuple(letters for _, letters in operands),
        summed,
        tuple(flow.trained(factor, known) for factor, _ in operands),
        chosen_of(choices, letters),
        bounds_of(choices, letters),
        paired,
        id(e) in fused,
    )


def _multiplied(e: Product | Quotient, summed: Letters, visit: Visit) -> tuple[Expression, ...]:
    """The factors of a sum; a denominator that does not have a summed letter divides the whole."""
    factors = factors_of(e)
    return factors[:-1] if isinstance(e, Quotient) and not visit.letters(factors[-1]) & summed else factors


def _softmax(e: Expression, need: Need, visit: Visit) -> Softmax | None:
    """The softmax that e is; it is zero where its argument is -inf."""
    if not (isinstance(e, Apply) and e.name == "Sm"):
        return None
    letters = frozenset(visit.flow.scope.free(e)) | {index.letter for index in e.indices}
    choices = need.choices | visit.flow.support(e, visit.flow.known_at[id(visit.equation)]).zero
    return Softmax(letters, bounds_of(choices, letters))


def _gather(e: Expression, visit: Visit) -> Gather | None:
    """The rows of a table of weights that e reads."""
    if not isinstance(e, Tensor):
        return None
    axes = [axis for tensor, axis in gathers(visit.flow.layer) if tensor is e]
    return Gather(frozenset(visit.flow.scope.free(e)), axes[0]) if axes else None
