"""What does an elaborated text mean, number by number? Loops over scalars in plain Python: slow, and obviously right.

The oracle of the reference: of the package it knows the tree and nothing else. A tensor is a table from the numbers of its
slots to one float; an equation fills the table of its left side; a call runs the layer for the indices that it carries along.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, assert_never

from einformer.language.tree import (
    Apply,
    Equation,
    Expression,
    Group,
    Index,
    Layer,
    Loop,
    Name,
    Number,
    Power,
    Product,
    Quotient,
    Spec,
    Statement,
    Sum,
    Tensor,
    Weight,
)

Numbers = tuple[int, ...]
Table = dict[Numbers, float]
At = Mapping[str, int]  # the number that each index has


def evaluate(
    spec: Spec, name: str, inputs: Sequence[Any], weights: Mapping[str, Any], sizes: Mapping[str, int]
) -> tuple[Numbers, Table]:
    """Shape and numbers of the output of the layer `name`.

    `inputs` and `weights` are arrays, of which only elements are read; `sizes` has every size letter that has no default.
    """
    layer = _layer(spec, name)
    lengths = {axis.letter: _size(spec, axis.letter, sizes) for axis in spec.axes}
    frame = _Frame(spec, layer, "", lengths, sizes, weights)
    for formal, given in zip(layer.formals, inputs, strict=True):
        table = {at: given[at].item() for at in itertools.product(*map(range, given.shape))}
        frame.tensors[formal.name] = _Defined(formal.slots, table)
    output = frame.output()
    return tuple(map(frame.width, layer.output.slots if isinstance(layer.output, Tensor) else ())), output


@dataclass(frozen=True)
class _Defined:
    """A tensor: the slots of its left side, and its numbers."""

    slots: tuple[Expression, ...]
    table: Table


@dataclass
class _Frame:
    """One layer, running: the lengths of its axes, its tensors, the turn of the loop."""

    spec: Spec
    layer: Layer
    path: str
    lengths: Mapping[str, int]
    sizes: Mapping[str, int]
    weights: Mapping[str, Any]
    tensors: dict[str, _Defined] = field(default_factory=dict)
    turn: dict[str, int] = field(default_factory=dict)
    called: dict[tuple[int, tuple[tuple[str, int], ...]], Table] = field(default_factory=dict)

    def output(self) -> Table:
        for weight in self.layer.weights:
            if weight.kind != "instance":
                self.tensors[weight.name] = _Defined(weight.indices, self.weight(weight))
        self.run(self.layer.body)
        return self.tensors[self.layer.output.name].table

    def run(self, body: Sequence[Statement]) -> None:
        for statement in body:
            match statement:
                case Equation():
                    self.equation(statement)
                case Loop(index, count, inner):
                    for number in range(int(self.value(count, {}))):
                        self.turn[index.letter] = number
                        self.run(inner)
                    del self.turn[index.letter]
                case _:
                    assert_never(statement)

    def equation(self, equation: Equation) -> None:
        """Every element of the left side, those of earlier positions before those of later ones."""
        slots = equation.left.slots if isinstance(equation.left, Tensor) else ()
        defined = _Defined(slots, {})
        if equation.relation == "=":
            self.tensors[equation.left.name] = defined  # so that it reads what is there already (R4)
        letters = [letter for slot in slots for letter in _letters(slot)]
        self.called.clear()
        for at in sorted(self.counted(letters), key=lambda at: at.get(_time(self.spec), 0)):
            place = tuple(self.place(slot, at) for slot in slots)
            defined.table[place] = float(self.value(equation.right, self.turn | at))
        self.tensors[equation.left.name] = defined

    def weight(self, weight: Weight) -> Table:
        """As given; else a tie, a default, or zero (R9)."""
        path, letters = self.path + _key(weight.name), [index.letter for index in weight.indices]
        required = weight.default is None and not weight.optional
        if required or (weight.optional and path in self.weights):
            given = self.weights[path]
            return {at: given[at].item() for at in itertools.product(*map(range, given.shape))}
        value = Number(0) if weight.default is None else weight.default
        return {tuple(at.values()): float(self.value(value, at)) for at in self.counted(letters)}

    # ---------------------------------------------------------------------------------------------------- lengths

    def length(self, letter: str) -> int:
        return self.lengths[_axis(letter)]

    def counted(self, letters: Sequence[str]) -> Iterator[dict[str, int]]:
        """Every combination of numbers that these indices can have."""
        for numbers in itertools.product(*(range(self.length(letter)) for letter in letters)):
            yield dict(zip(letters, numbers, strict=True))

    def width(self, slot: Expression) -> int:
        return math.prod(self.length(letter) for letter in _letters(slot))

    def place(self, slot: Expression, at: At) -> int:
        """The number that a slot holds; a group is row-major: `(ae)` is a H + e."""
        if not isinstance(slot, Group):
            number = self.value(slot, at)
            assert number == int(number)
            return int(number)
        total = 0
        for member in slot.members:
            (letter,) = _letters(member)
            total = total * self.length(letter) + self.place(member, at)
        return total

    # ------------------------------------------------------------------------------------------------ expressions

    def value(self, e: Expression, at: At) -> float:
        """The number that e is where its indices are these numbers."""
        match e:
            case Number(value):
                return value
            case Index(letter):
                return at[letter]
            case Name():
                return self.name(e)
            case Tensor():
                return self.read(e, at)
            case Sum(terms):
                return sum(self.value(term, at) for term in terms)
            case Product(factors):
                return math.prod(self.value(factor, at) for factor in factors)
            case Quotient(numerator, denominator):
                return self.value(numerator, at) / self.value(denominator, at)
            case Power(base, exponent):
                return float(self.value(base, at) ** self.value(exponent, at))
            case Apply():
                return self.apply(e, at)
            case Group():
                raise AssertionError("a group stands in a slot")
            case _:
                assert_never(e)

    def name(self, e: Name) -> float:
        if e.name in self.tensors and not self.tensors[e.name].slots:
            return self.tensors[e.name].table[()]
        for axis in self.spec.axes:
            if isinstance(axis.size, Name) and axis.size.name == e.name:
                return self.length(axis.letter)
        for scalar in self.spec.scalars:
            if scalar.name == e.name and not isinstance(scalar.value, tuple):
                return self.value(scalar.value, {})
        return {"π": math.pi, **self.sizes}[e.name]

    def read(self, e: Tensor, at: At) -> float:
        """One element; before the start of time everything is zero (R4)."""
        place = tuple(self.place(slot, at) for slot in e.slots)
        if e.name not in self.tensors:
            return self.scalar(e.name, place)
        defined = self.tensors[e.name]
        for slot, number in zip(defined.slots, place, strict=True):
            if number < 0 and isinstance(slot, Index) and _axis(slot.letter) == _time(self.spec):
                return 0.0
        return defined.table[place]

    def scalar(self, name: str, place: Numbers) -> float:
        scalar = next(scalar for scalar in self.spec.scalars if scalar.name == name)
        if isinstance(scalar.value, tuple):
            return scalar.value[place[0]].value
        return self.value(scalar.value, {index.letter: n for index, n in zip(scalar.indices, place, strict=True)})

    def apply(self, e: Apply, at: At) -> float:
        if self.callee(e) is not None:
            return self.call(e, at)
        if e.name == "where":
            condition, then, otherwise = e.arguments
            return self.value(then if self.value(condition, at) else otherwise, at)
        if e.indices:
            return self.operator(e, [index.letter for index in e.indices], at)
        return _FUNCTIONS[e.name](*(self.value(argument, at) for argument in e.arguments))

    def operator(self, e: Apply, letters: list[str], at: At) -> float:
        """Over every number of the operator's indices; one that keeps them is wanted at one of these."""
        argument = e.arguments[-1]
        values = {tuple(inner.values()): self.value(argument, {**at, **inner}) for inner in self.counted(letters)}
        if e.name in _REDUCING:
            return _REDUCING[e.name](list(values.values()))
        here = tuple(at[letter] for letter in letters)
        match e.name:
            case "Sm":
                powers = {place: math.exp(value) for place, value in values.items()}
                return powers[here] / (sum(powers.values()) or 1)
            case "cumsum" | "cumprod":
                before = [value for place, value in values.items() if all(map(operator.le, place, here))]
                return sum(before) if e.name == "cumsum" else math.prod(before)
            case "top":
                better = [p for p, v in values.items() if v > values[here] or (v == values[here] and p < here)]
                return len(better) < self.value(e.arguments[0], at)
            case _:
                raise AssertionError(e.name)

    # ------------------------------------------------------------------------------------------------------ calls

    def callee(self, e: Apply) -> Layer | None:
        instance = next((w.layer for w in self.layer.weights if w.kind == "instance" and w.name == e.name), e.name)
        return next((layer for layer in self.spec.layers if layer.name == instance), None)

    def call(self, e: Apply, at: At) -> float:
        """The layer, run for these numbers of the indices that it does not know (R7)."""
        layer, letters = self.bind(e)
        bound = {letters[letter] for formal in layer.formals for slot in formal.slots for letter in _letters(slot)}
        carried = tuple((i, at[i]) for i in sorted(self.free(e)) if i not in bound)
        if (id(e), carried) not in self.called:
            self.called[id(e), carried] = self.ran(e, layer, letters, at)
        slots = layer.output.slots if isinstance(layer.output, Tensor) else ()
        inner = {letter: at[letters.get(letter, letter)] for slot in slots for letter in _letters(slot)}
        return self.called[id(e), carried][tuple(inner.values())]

    def ran(self, e: Apply, layer: Layer, letters: Mapping[str, str], at: At) -> Table:
        blocks = "".join(f"blocks.{self.turn[i.letter]}." for i in e.indices if i.letter in self.turn)
        lengths = {**self.lengths, **{_axis(formal): self.length(actual) for formal, actual in letters.items()}}
        frame = _Frame(self.spec, layer, f"{self.path}{blocks}{_key(e.name)}.", lengths, self.sizes, self.weights)
        for formal, argument in zip(layer.formals, e.arguments, strict=True):
            own = [letter for slot in formal.slots for letter in _letters(slot)]
            table = {
                tuple(inner.values()): float(self.value(argument, {**at, **{letters[i]: n for i, n in inner.items()}}))
                for inner in frame.counted(own)
            }
            frame.tensors[formal.name] = _Defined(formal.slots, table)
        return frame.output()

    def bind(self, e: Apply) -> tuple[Layer, dict[str, str]]:
        """The caller's letter for each of the layer's: named in the subscript, else the same, else the only one (R7)."""
        layer = self.callee(e)
        assert layer is not None
        named = [index.letter for index in e.indices if index.letter not in self.turn]
        letters = dict(zip((index.letter for index in layer.indices), named, strict=False))
        for formal, argument in zip(layer.formals, e.arguments, strict=True):
            actual = self.free(argument)
            for letter in (letter for slot in formal.slots for letter in _letters(slot)):
                if letter in letters:
                    continue
                same = [letter] if letter in actual else [i for i in actual if _axis(i) == _axis(letter)]
                (letters[letter],) = [i for i in same if i not in letters.values()]
        return layer, letters

    def free(self, e: Expression) -> set[str]:
        """The indices of e that nothing inside it consumes."""
        match e:
            case Index(letter):
                return {letter}
            case Apply() if self.callee(e) is not None:
                layer, letters = self.bind(e)
                taken = {letters[letter] for formal in layer.formals for slot in formal.slots for letter in _letters(slot)}
                slots = layer.output.slots if isinstance(layer.output, Tensor) else ()
                given = {letters.get(letter, letter) for slot in slots for letter in _letters(slot)}
                return set().union(*map(self.free, e.arguments)) - taken | given
            case Apply():
                bound = {index.letter for index in e.indices} if e.name in _REDUCING else set()
                return set().union(*map(self.free, e.arguments)) - bound
            case _:
                return set().union(*map(self.free, _children(e)))


def _key(name: str) -> str:
    """A name in a path has letters for its primes."""
    return name.replace("'", "_prime")


def _axis(letter: str) -> str:
    return letter.rstrip("'")


def _children(e: Expression) -> tuple[Expression, ...]:
    match e:
        case Number() | Name() | Index():
            return ()
        case Tensor(slots=inner) | Group(members=inner) | Sum(terms=inner) | Product(factors=inner) | Apply(arguments=inner):
            return inner
        case Quotient(first, second) | Power(first, second):
            return (first, second)
        case _:
            assert_never(e)


def _letters(slot: Expression) -> list[str]:
    """The indices in a slot, in the order of the text."""
    return [slot.letter] if isinstance(slot, Index) else [i for child in _children(slot) for i in _letters(child)]


def _layer(spec: Spec, name: str) -> Layer:
    return next(layer for layer in spec.layers if layer.name == name)


def _time(spec: Spec) -> str:
    return next((layer.time.letter for layer in spec.layers if layer.time), "")


def _size(spec: Spec, letter: str, sizes: Mapping[str, int]) -> int:
    """The length of an axis: as bound, else what the legend makes of those that are bound."""
    axis = next(axis for axis in spec.axes if axis.letter == letter)
    return _whole(spec, axis.size, sizes)


def _whole(spec: Spec, e: Expression, sizes: Mapping[str, int]) -> int:
    match e:
        case Number(value=int() as value):
            return value
        case Name(name):
            defaults = {a.size.name: a.default for a in spec.axes if isinstance(a.size, Name) and a.default}
            defaults |= {s.name: s.value for s in spec.scalars if not isinstance(s.value, tuple)}
            return sizes[name] if name in sizes else _whole(spec, defaults[name], sizes)
        case Product(factors):
            return math.prod(_whole(spec, factor, sizes) for factor in factors)
        case Quotient(numerator, denominator):
            whole, rest = divmod(_whole(spec, numerator, sizes), _whole(spec, denominator, sizes))
            assert not rest
            return whole
        case _:
            raise AssertionError(e)


def _variance(values: list[float]) -> float:
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values) / len(values)


def _log_sum_exp(values: list[float]) -> float:
    total = sum(map(math.exp, values))
    return math.log(total) if total else -math.inf


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


_REDUCING: dict[str, Callable[[list[float]], float]] = {
    "sum": sum,
    "mean": lambda values: sum(values) / len(values),
    "var": _variance,
    "max": max,
    "min": min,
    "lse": _log_sum_exp,
}
_FUNCTIONS: dict[str, Callable[..., float]] = {
    "exp": math.exp,
    "log": math.log,
    "log2": math.log2,
    "sin": math.sin,
    "cos": math.cos,
    "tanh": math.tanh,
    "sqrt": math.sqrt,
    "abs": abs,
    "floor": math.floor,
    "ceil": math.ceil,
    "relu": lambda x: x if x > 0 else 0.0,
    "erf": math.erf,
    "gelu": lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2,
    "gelutanh": lambda x: x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2,
    "silu": lambda x: x * _sigmoid(x),
    "sigmoid": _sigmoid,
    "softplus": lambda x: math.log(1 + math.exp(x)),
    "Dr": lambda x, probability=None: x,  # in training only
    "mod": lambda x, y: x % y,
    "min": min,
    "max": max,
    "not": operator.not_,
    "and": lambda x, y: x and y,
    "or": lambda x, y: x or y,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
