"""Says for which numbers of an index a value is not zero: those that a `top` has chosen, followed through calls."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce

from einformer.language.primitives import CONDITIONS, primitive
from einformer.program import operations as op
from einformer.program.operations import Function, Label, Value
from einformer.program.rewrite import values


@dataclass(frozen=True, slots=True)
class Choice:
    """`top_{T,x}(r_sx)`: of the numbers of x only T are chosen, others for each s. `of` says by which `top`, in which calls."""

    letter: str
    count: Value
    along: frozenset[str]
    of: tuple[Value, ...]

    @property
    def letters(self) -> frozenset[str]:
        """What it speaks of."""
        return self.along | {self.letter}

    def under(self, letters: Mapping[str, str]) -> Choice:
        """The same choice of other letters."""
        return replace(self, letter=letters[self.letter], along=frozenset(letters[each] for each in self.along))


Choices = frozenset[Choice]
NONE: Choices = frozenset()


@dataclass(frozen=True, slots=True)
class Support:
    """Outside which choices a value is zero, or -inf."""

    zero: Choices = NONE
    infinite: Choices = NONE

    def under(self, letters: Mapping[str, str]) -> Support:
        """The same under other letters; a choice is lost where one of its letters is: T for each s are all for no s."""
        zero, infinite = (
            frozenset(choice.under(letters) for choice in some if choice.letters <= letters.keys())
            for some in (self.zero, self.infinite)
        )
        return Support(zero, infinite)

    def meet(self, other: Support) -> Support:
        """What holds of both."""
        return Support(self.zero & other.zero, self.infinite & other.infinite)

    def each(self, change: Callable[[Choice], Choice]) -> Support:
        """The same of other choices."""
        return Support(frozenset(map(change, self.zero)), frozenset(map(change, self.infinite)))


DENSE = Support()


@dataclass(slots=True)
class Choosing:
    """The supports of the values of a program's functions."""

    functions: Mapping[str, Function]
    flows: dict[tuple[str, tuple[Support, ...]], Flow] = field(default_factory=dict)

    def flow(self, name: str, inputs: tuple[Support, ...]) -> Flow:
        """The supports in a function that is given these."""
        if (name, inputs) not in self.flows:
            function = self.functions[name]
            values = (line.value for line in function.inputs)
            self.flows[name, inputs] = Flow(self, dict(zip(values, inputs, strict=True)))
        return self.flows[name, inputs]


@dataclass(slots=True)
class Flow:
    """The supports of the values of one function."""

    choosing: Choosing
    known: dict[Value, Support]

    def support(self, value: Value) -> Support:
        """Outside which choices a value is zero, or -inf; a condition counts as zero where it does not hold."""
        if value not in self.known:
            self.known[value] = self.looked(value)
        return self.known[value]

    def zero(self, values: Iterable[Value]) -> Choices:
        """Outside which choices a product is zero."""
        return NONE.union(*(self.support(value).zero for value in values))

    def looked(self, value: Value) -> Support:
        """The same, by what a value is made of."""
        match value.operation:
            case op.Map("where", arms):
                return _branches([self.support(arm) for arm in arms], arms[2].operation)
            case op.Map("*" | "and", parts):
                return Support(self.zero(parts))
            case op.Map("/", (top, _)):
                return Support(self.support(top).zero)
            case op.Map("+", terms):
                added = [self.support(term) for term in terms]
                zero = reduce(frozenset.__and__, (each.zero for each in added))
                return Support(zero, NONE.union(*(each.infinite for each in added)))
            case op.Map("or", terms):
                return Support(reduce(frozenset.__and__, (self.support(term).zero for term in terms)))
            case op.Map("^", (base, Value(operation=op.Constant(int() | float() as power)))) if power > 0:
                return Support(self.support(base).zero)
            case op.Map("exp", (argument,)):
                return Support(self.support(argument).infinite)
            case op.Map(name, arguments) if name not in CONDITIONS and (row := primitive(name, False)) is not None and row.zero:
                return Support(self.support(arguments[0]).zero)
            case op.Reduce("top", (letter,), argument, (count,)) if not count.axes:
                return Support(frozenset([Choice(letter, count, frozenset(argument.axes) - {letter}, (value,))]))
            case op.Reduce("Sm", _, argument):
                return Support(self.support(argument).infinite)
            case op.Reduce(name, letters, argument) if (row := primitive(name, True)) is not None and row.zero:
                return Support(_without(self.support(argument).zero, letters))
            case op.Contract(letters, factors):
                return Support(_without(self.zero(factors), letters))
            case op.View(argument, old, new):
                return self.support(argument).under(_letters(old, new))
            case op.Gather(argument, labels, numbers):
                new = tuple((n.operation.letter,) if isinstance(n.operation, op.Iota) else () for n in numbers)
                return self.support(argument).under(_letters(labels, new))
            case op.Spread(argument):
                return self.support(argument)
            case op.Call(name, arguments=arguments):
                inputs = tuple(map(self.support, arguments))
                outside = NONE.union(*(each.zero | each.infinite for each in inputs))
                output = self.choosing.flow(name, inputs).support(self.choosing.functions[name].output.value)
                return output.each(lambda each: each if each in outside else replace(each, of=(value, *each.of)))
            case _:
                return DENSE


def _met(value: Value, place: int, given: list[tuple[Support, ...]]) -> Support:
    """What holds of an input in all calls, whatever each of them chooses by."""
    supports = (each[place].each(lambda choice: replace(choice, of=(value,))) for each in given)
    return reduce(Support.meet, supports) if given else DENSE


def _branches(arms: list[Support], last: op.Operation) -> Support:
    """`where(c, y, 0)` is zero outside c, `where(c, y, -inf)` is -inf there."""
    condition, then, otherwise = arms
    zero, infinite = condition.zero | then.zero, condition.zero | then.infinite
    return Support(
        zero if last == op.Constant(0) else zero & otherwise.zero,
        infinite if last == op.Constant(-math.inf) else infinite & otherwise.infinite,
    )


def _letters(old: tuple[Label, ...], new: tuple[Label, ...]) -> dict[str, str]:
    pairs = zip(old, new, strict=True)
    return {before[0]: after[0] for before, after in pairs if len(before) == len(after) == 1}


def _without(choices: Choices, letters: Iterable[str]) -> Choices:
    """What is left of choices inside an operator: all numbers of its own indices enter together."""
    return frozenset(choice for choice in choices if choice.letters.isdisjoint(letters))


def settled(functions: Mapping[str, Function]) -> dict[str, Flow]:
    """The supports in each function, of whose inputs is known what holds in all its calls."""
    choosing, flows = Choosing(functions), dict[str, Flow]()
    given: dict[str, list[tuple[Support, ...]]] = {name: [] for name in functions}
    for name, function in reversed([*functions.items()]):  # callers stand last
        lines = [line.value for line in function.inputs]
        flows[name] = choosing.flow(name, tuple(_met(value, k, given[name]) for k, value in enumerate(lines)))
        for value in values(function):
            if isinstance(value.operation, op.Call):
                given[value.operation.function].append(tuple(map(flows[name].support, value.operation.arguments)))
    return flows
