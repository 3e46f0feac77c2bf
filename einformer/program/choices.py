"""For which numbers of its letters is a value not zero (R10)? The choices of `top`, and the bounds that a mask sets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce

from einformer.language.calls import axis_of
from einformer.language.tree import Apply, Expression, Index, Name, Tensor
from einformer.program.inequalities import Cases, Factor, Facts, Inequality, Linear, negated, written

Place = str  # a letter in an expression; of a tensor that is defined the number of a slot


@dataclass(frozen=True, slots=True)
class Choice:
    """`top_{T,x}(r_sx)`: of the numbers of x only T are chosen, others for each s. `of` says by which `top`, in which calls."""

    place: Place
    count: Expression
    along: frozenset[Place]
    of: tuple[int, ...]

    @property
    def places(self) -> frozenset[Place]:
        """What it speaks of."""
        return self.along | {self.place}

    def at(self, places: Mapping[Place, Place]) -> Choice:
        """The same choice of other places."""
        return replace(self, place=places[self.place], along=frozenset(places[place] for place in self.along))

    def inside(self, call: Apply) -> Choice:
        """Made in the body of a layer, it is this call's."""
        return replace(self, of=(id(call), *self.of))


@dataclass(frozen=True, slots=True)
class Bound:
    """`s - W < s'`: the `later` of two positions stands at least so many after the `earlier`; here s' after s, 1 - W."""

    later: Place
    earlier: Place
    least: Expression

    @property
    def places(self) -> frozenset[Place]:
        """What it speaks of."""
        return frozenset((self.later, self.earlier))

    def at(self, places: Mapping[Place, Place]) -> Bound:
        """The same bound between other places."""
        return replace(self, later=places[self.later], earlier=places[self.earlier])

    def inside(self, call: Apply) -> Bound:
        """A mask is the same for every call."""
        return self


Choices = frozenset[Choice | Bound]
NO_CHOICE: Choices = frozenset()


@dataclass(frozen=True, slots=True)
class Support:
    """What a value is outside some choices, zero or -inf; and whether it depends on trained weights."""

    zero: Choices = NO_CHOICE
    infinite: Choices = NO_CHOICE
    trained: bool = False

    def each(self, change: Callable[[Choices], Choices]) -> Support:
        """The same of other choices."""
        return replace(self, zero=change(self.zero), infinite=change(self.infinite))

    def meet(self, other: Support) -> Support:
        """What holds of both."""
        return Support(self.zero & other.zero, self.infinite & other.infinite, self.trained or other.trained)


DENSE = Support()
INNER = Support(trained=True)  # what a layer is given inside a model


# ------------------------------------------------------------------------------------------------------------- masks


def bounds(cases: Cases, facts: Facts) -> Choices:
    """What each of these cases says of two positions."""
    told = {inequality: bound for case in cases for inequality in case if (bound := _bound(inequality)) is not None}
    return frozenset(
        bound for inequality, bound in told.items() if all(facts.refutes(case | {negated(inequality)}) for case in cases)
    )


def _bound(inequality: Inequality) -> Bound | None:
    """`s' - s - 3 >= 0`, and nothing of other indices or of data: index numbers are whole."""
    (strict, linear), numbers = (inequality.strict, inequality.linear), dict[str, Factor]()
    rest = Linear.of({m: f for m, f in linear.terms if not any(atom.kind == "index" for atom, _ in m)})
    for monomial, factor in (linear - rest).terms:
        ((atom, power), *more) = monomial
        numbers[atom.name if power == 1 and not more else ""] = factor
    later, earlier = (next((x for x, f in numbers.items() if f * sign > 0), "") for sign in (1, -1))
    if len(numbers) != 2 or not later or axis_of(later) != axis_of(earlier) or numbers[later] + numbers[earlier]:
        return None
    least = rest * Fraction(-1, numbers[later]) + Linear.number(int(strict))
    return None if any(atom.kind == "data" for atom in least.atoms()) else Bound(later, earlier, written(least))


# --------------------------------------------------------------------------------------------------- sets of choices


def union(choices: Iterable[Choices]) -> Choices:
    """What any of these says."""
    return NO_CHOICE.union(*choices)


def shared(choices: Iterable[Choices]) -> Choices:
    """What all of these say."""
    return reduce(frozenset.__and__, choices)


def chosen(choices: Choices, letters: Set[Place]) -> list[Choice]:
    """The choices of these letters; of several for one letter the last is taken, and is always the same."""
    return sorted((choice for choice in choices if isinstance(choice, Choice) and choice.place in letters), key=repr)


def without(choices: Choices, e: Apply) -> Choices:
    """What is left of choices inside an operator: all numbers of its own indices enter together."""
    bound = {index.letter for index in e.indices}
    return frozenset(choice for choice in choices if not bound & choice.places)


def in_call(choices: Choices, call: Apply, outside: Choices) -> Choices:
    """Choices made in the body of a layer are this call's."""
    return frozenset(choice if choice in outside else choice.inside(call) for choice in choices)


def made_by(choices: Choices, maker: int) -> Choices:
    """The same choices as those of one maker, by whatever they were made."""
    return frozenset(replace(choice, of=(maker,)) if isinstance(choice, Choice) else choice for choice in choices)


def by_slot(choices: Choices, tensor: Tensor | Name) -> Choices:
    """Choices of letters as choices of the slots in which they stand."""
    return _moved(choices, {letter: place for place, letter in _letters(tensor).items()})


def by_letter(choices: Choices, tensor: Tensor | Name) -> Choices:
    """The reverse; a slot that holds arithmetic or a group has no letter."""
    return _moved(choices, _letters(tensor))


def _letters(tensor: Tensor | Name) -> dict[Place, Place]:
    return {str(k): slot.letter for k, slot in enumerate(slots(tensor)) if isinstance(slot, Index)}


def _moved(choices: Choices, places: Mapping[Place, Place]) -> Choices:
    """Lost where one of its places is: T for each s are all for no s."""
    return frozenset(choice.at(places) for choice in choices if choice.places <= places.keys())


def slots(tensor: Tensor | Name) -> tuple[Expression, ...]:
    """Those of a tensor; a name has none."""
    return tensor.slots if isinstance(tensor, Tensor) else ()
