"""Evaluates a specification in float64 NumPy, by named broadcasting and explicit sums: slowly, and obviously right.

Every value is a `Named` array whose axes carry the names of indices. A product lines its factors up by name and multiplies.
A sum adds over a named axis. A slot is a number by which an axis is read. Nothing is fused, reordered or approximated."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, assert_never

import numpy as np
from numpy.typing import ArrayLike, NDArray

from einformer.errors import fail
from einformer.language import tree
from einformer.language.calls import Binding, axis_of, callees, slot_letters
from einformer.language.primitives import CONSTANTS, PRIMITIVES, Primitive
from einformer.language.scope import Scope
from einformer.language.sizes import Legend
from einformer.language.tree import Apply, Equation, Expression, Group, Index, Layer, Loop, Name, Number, Tensor, Weight
from einformer.language.walk import equations, find_all, loops, subexpressions
from einformer.language.weights import key
from einformer.language.weights import weights as placed

# -------------------------------------------------------------------------------------------- arrays with named axes


Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Named:
    """An array with the name of an index on each axis."""

    dims: tuple[str, ...]
    array: Array

    # Axes that the array lacks have length 1.
    def over(self, dims: Sequence[str]) -> Array:
        own = [dim for dim in dims if dim in self.dims]
        assert len(own) == len(self.dims), (dims, self.dims)
        shape = [self.array.shape[self.dims.index(dim)] if dim in self.dims else 1 for dim in dims]
        return self.array.transpose([self.dims.index(dim) for dim in own]).reshape(shape)


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor as its definition stored it: an axis for each slot, then one for each carried index."""

    axes: tuple[str, ...]  # the letter of the axis that each slot runs over, "" for a group
    carried: tuple[str, ...]
    array: Array


def constant(value: float) -> Named:
    return Named((), np.asarray(value, dtype=np.float64))


def union(*dims: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(dim for some in dims for dim in some))


def lift(f: Callable[..., Array]) -> Callable[..., Named]:
    def apply(*values: Named) -> Named:
        dims = union(*(value.dims for value in values))
        return Named(dims, f(*(value.over(dims) for value in values)))

    return apply


choose = lift(np.where)  # by a condition


# exp x / Σ exp x; zero if every x is -inf (R12).
def softmax(x: Array, axes: tuple[int, ...]) -> Array:
    top = x.max(axis=axes, keepdims=True)
    powers = np.exp(x - np.where(np.isfinite(top), top, 0))
    total = powers.sum(axis=axes, keepdims=True)
    return np.where(total == 0, 0, powers / np.where(total == 0, 1, total))


# log Σ exp x; -inf if every x is.
def log_sum_exp(x: Array, axis: tuple[int, ...]) -> Array:
    top = x.max(axis=axis, keepdims=True)
    shift = np.where(np.isfinite(top), top, 0)
    result: Array = np.log(np.exp(x - shift).sum(axis=axis)) + shift.squeeze(axis)
    return result


def along(f: Callable[[Array, int], Array], x: Array, axes: tuple[int, ...]) -> Array:
    return reduce(f, axes, x)


# Returns True at the `count` largest values. Equal values count at the lower index, row-major for several axes (R3).
def top(x: Array, axes: tuple[int, ...], count: int) -> Array:
    last = range(-len(axes), 0)
    moved = np.moveaxis(x, axes, last)
    flat = moved.reshape(*moved.shape[: x.ndim - len(axes)], -1)
    rank = np.argsort(np.argsort(-flat, kind="stable"), kind="stable")
    return np.moveaxis((rank < count).reshape(moved.shape), last, axes)


# 1 / (1 + exp -x)
def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


# A reducing operator removes the named axes.
def _make_operator(row: Primitive) -> Callable[..., Named]:
    f = _compile_row(row, "x, axis, y=None")

    def apply(value: Named, letters: tuple[str, ...], *counts: int) -> Named:
        axes = tuple(value.dims.index(letter) for letter in letters)
        lost = letters if row.kind == "reducing" else ()
        return Named(tuple(dim for dim in value.dims if dim not in lost), np.asarray(f(value.array, axes, *counts)))

    return apply


def _compile_row(row: Primitive, parameters: str) -> Callable[..., Array]:
    f: Callable[..., Array] = eval(f"lambda {parameters}: {row.numpy}", globals())
    return f


erf = np.vectorize(math.erf, otypes=[np.float64])
FUNCTIONS = {name: lift(_compile_row(row, "x, y=None, z=None")) for (name, over), row in PRIMITIVES.items() if not over}
OPERATORS = {name: _make_operator(row) for (name, over), row in PRIMITIVES.items() if over}


# Values beyond the length of a row are NaN.
def evaluate_rows(evaluate: Callable[..., Array], inputs: Sequence[Array], lengths: Sequence[int]) -> Array:
    rows = [evaluate(*(array[[row], :n] for array in inputs))[0] for row, n in enumerate(lengths)]
    return np.stack([_fill(row, max(lengths)) for row in rows])


def _fill(row: Array, length: int) -> Array:
    after = [(0, length - len(row)), *[(0, 0)] * (row.ndim - 1)]
    return np.pad(row, after, constant_values=np.nan)


# -------------------------------------------------------------------------------------------------------- evaluation


CARRIED = "·"  # marks an index of the caller that a layer carries along and does not know


@dataclass(slots=True)
class Evaluation:
    """The state that all layers of one evaluation share."""

    legend: Legend
    layers: Mapping[str, Layer]
    weights: Mapping[str, ArrayLike]
    trace: dict[str, Array] | None


# Returns the output of the layer or model `name` of a checked spec. `inputs` come in the order of the formals, and `weights` by
# path (`blocks.0.MLP.W`). Each has its axes in the order of its letters. `legend` holds the sizes. Dropout is off. `trace` is
# filled with every tensor by path. Raises EinformerError.
def evaluate(
    spec: tree.Spec,
    name: str,
    inputs: Sequence[ArrayLike],
    weights: Mapping[str, ArrayLike],
    legend: Legend,
    trace: dict[str, Array] | None = None,
) -> Array:
    layers = {layer.name: layer for layer in spec.layers}
    _check_known(weights, placed(spec, layers[name], legend))
    time = next((axis_of(layer.time.letter) for layer in spec.layers if layer.time), "")
    frame = _Frame(Evaluation(legend, layers, weights, trace), layers[name], "", frozenset([time]), {}, {})
    for formal, array in zip(layers[name].formals, inputs, strict=True):
        frame.tensors[formal.name] = StoredTensor(tuple(axis_of(i) for i in slot_letters(formal)), (), np.asarray(array))
    with np.errstate(all="ignore"):
        return frame.output().array


def _check_known(given: Iterable[str], known: Mapping[str, object]) -> None:
    for path in given:
        if path not in known:
            facts = [f"there are {', '.join(f'`{name}`' for name in known) or 'none'}"]
            raise fail("E704", f"there is no weight `{path}`", facts=facts, fix="the weights of `weight_shapes()`")


@dataclass(slots=True)
class _Frame:
    """An evaluation of one layer: its tensors by name, the sizes that its call gives its axes, and the fixed indices."""

    run: Evaluation
    layer: Layer
    path: str
    times: frozenset[str]  # the axes that run over time: before their start everything is zero
    sizes: dict[str, int]
    fixed: dict[str, int]
    tensors: dict[str, StoredTensor] = field(default_factory=dict)
    scope: Scope = field(init=False)
    bare: set[str] = field(init=False)  # the names of tensors without a subscript

    def __post_init__(self) -> None:
        turns = frozenset(loop.index.letter for loop in loops(self.layer.body))
        self.scope = Scope(callees(self.layer, self.run.layers), turns)
        self.bare = {formal.name for formal in self.layer.formals if not formal.slots}
        self.bare |= {w.name for w in self.layer.weights if w.kind != "instance" and not w.indices}
        self.bare |= {q.left.name for q in equations(self.layer.body) if q.relation != "return" and isinstance(q.left, Name)}

    def output(self) -> Named:
        self.statements(self.layer.body)
        letters = slot_letters(self.layer.output)
        stored = self.tensors[self.layer.output.name]
        return Named((*letters, *stored.carried), stored.array)

    # ------------------------------------------------------------------------------------------------- statements

    def statements(self, body: tuple[tree.Statement, ...]) -> None:
        for statement in body:
            match statement:
                case Equation():
                    self.equation(statement)
                case Loop():
                    for turn in range(self.whole(self.value(statement.count), statement.count)):
                        self.fixed[statement.index.letter] = turn
                        self.statements(statement.body)
                    self.fixed.pop(statement.index.letter, None)
                case _:
                    assert_never(statement)

    def equation(self, equation: Equation) -> None:
        letter = _find_recurrent_index(equation)
        solved = (
            self.store(equation.left, self.value(equation.right)) if letter is None else self.solve_recurrence(equation, letter)
        )
        self.tensors[equation.left.name] = solved
        if self.run.trace is not None:
            turns = "".join(f"blocks.{turn}." for letter, turn in self.fixed.items() if letter in self.scope.loops)
            path = f"{self.path}{turns}{equation.left.name}"
            self.run.trace.pop(path, None)  # in the order in which they get their last values
            self.run.trace[path] = solved.array

    # Solves an equation that reads its own left side at earlier positions, in the order of positions (R4).
    def solve_recurrence(self, equation: Equation, letter: str) -> StoredTensor:
        assert isinstance(equation.left, Tensor)
        slot = next(k for k, s in enumerate(equation.left.slots) if isinstance(s, Index) and s.letter == letter)
        rest = replace(equation.left, slots=equation.left.slots[:slot] + equation.left.slots[slot + 1 :])
        solved = self.store(equation.left, constant(0))
        slices: list[Array] = []
        for position in range(self.length(letter)):
            self.tensors[equation.left.name], self.fixed[letter] = solved, position
            part = self.store(rest, self.value(equation.right))
            slices.append(part.array)
            later = [np.zeros_like(part.array)] * (self.length(letter) - len(slices))
            solved = StoredTensor(solved.axes, part.carried, np.stack([*slices, *later], slot))
        del self.fixed[letter]
        return solved

    # Stores a value under a left side: every letter is an axis, the letters of a group are merged row-major.
    def store(self, left: Tensor | Name, value: Named) -> StoredTensor:
        letters, carried = slot_letters(left), tuple(sorted(dim for dim in value.dims if dim.startswith(CARRIED)))
        dims = (*letters, *carried)
        shape = [self.length(letter) for letter in letters]
        extra = [value.array.shape[value.dims.index(dim)] for dim in carried]
        array = np.broadcast_to(value.over(dims), (*shape, *extra))
        slots = left.slots if isinstance(left, Tensor) else ()
        merged = [math.prod(self.length(letter) for letter in slot_letters(Tensor("", (slot,)))) for slot in slots]
        axes = tuple(axis_of(slot.letter) if isinstance(slot, Index) else "" for slot in slots)
        return StoredTensor(axes, carried, array.reshape((*merged, *extra)))

    # ------------------------------------------------------------------------------------------------ expressions

    # Evaluates e. Where `live` is False the value is not used, and a slot may leave its axis (R8).
    def value(self, e: Expression, live: Named | None = None) -> Named:
        match e:
            case Number():
                return constant(e.value)
            case Name():
                return self.name(e)
            case Index():
                if e.letter in self.fixed:
                    return constant(self.fixed[e.letter])
                return Named((e.letter,), np.arange(self.length(e.letter), dtype=np.float64))
            case Tensor():
                return self.read(self.tensor(e), e, live)
            case Group():
                return self.group(e, live)
            case tree.Sum():
                return reduce(lift(np.add), (self.value(term, live) for term in e.terms))
            case tree.Product():
                return reduce(lift(np.multiply), (self.value(factor, live) for factor in e.factors))
            case tree.Quotient():
                return lift(np.divide)(self.value(e.numerator, live), self.value(e.denominator, live))
            case tree.Power():
                return lift(np.power)(self.value(e.base, live), self.value(e.exponent, live))
            case Apply():
                return self.apply(e, live)
            case _:
                assert_never(e)

    # Returns a tensor without a subscript, else a number: `K` is a size where `K_dea` is a weight (R1).
    def name(self, e: Name) -> Named:
        if e.name in self.bare:
            stored = self.tensor(Tensor(e.name, ()))
            return Named(stored.carried, stored.array)
        return constant(self.number(e))

    # The call gives an axis its size.
    def number(self, e: Expression) -> float:
        if isinstance(e, Name):
            axis, scalar = self.run.legend.axis_of_size(e.name), self.run.legend.scalars.get(e.name)
            if axis is not None:
                return self.length(axis.letter)
            if scalar is not None and not isinstance(scalar.value, tuple):
                return float(self.value(scalar.value).array)
            return CONSTANTS[e.name] if e.name in CONSTANTS else float(self.run.legend.named(e))
        return float(self.value(e).array)

    def whole(self, count: Named, e: Expression) -> int:
        if not (count.array >= 0 and count.array == np.floor(count.array) < np.inf):
            raise fail("E604", f"the count is {float(count.array):g} here", e.span, fix="a whole number")
        return int(count.array)

    def length(self, letter: str) -> int:
        axis = axis_of(letter)
        return self.sizes[axis] if axis in self.sizes else self.run.legend.length(axis)

    # Row-major: `(ae)` is a H + e.
    def group(self, e: Group, live: Named | None) -> Named:
        total = constant(0)
        for member in e.members:
            letter = next(x.letter for x in find_all(Index, member))
            size = constant(self.length(letter))
            total = lift(np.add)(lift(np.multiply)(total, size), self.value(member, live))
        return total

    def tensor(self, e: Tensor) -> StoredTensor:
        if e.name in self.tensors:
            return self.tensors[e.name]
        weight = next((w for w in self.layer.weights if w.name == e.name), None)
        if weight is not None:
            self.tensors[e.name] = self.weight(weight)
            return self.tensors[e.name]
        return self.scalar(e.name)

    # Returns the array that was passed, a tie, or the default or zero for an absent optional weight (R9).
    def weight(self, weight: Weight) -> StoredTensor:
        path, left = f"{self.path}{key(weight.name)}", Tensor(weight.name, weight.indices)
        shape = tuple(self.length(index.letter) for index in weight.indices)
        if weight.default is not None and not (weight.optional and path in self.run.weights):
            return self.store(left, self.anywhere(weight.default))
        if path not in self.run.weights:
            if weight.optional:
                return self.store(left, constant(0))
            message = f"the weight `{path}` of shape {shape} is missing"
            raise fail("E704", message, weight.span, self.sizes_of(weight), f'`weights={{"{path}": …}}`')
        array = np.asarray(self.run.weights[path], dtype=np.float64)
        if array.shape != shape:
            message = f"the weight `{path}` has shape {array.shape}, not {shape}"
            raise fail("E701", message, weight.span, self.sizes_of(weight), f"an array of shape {shape}")
        return StoredTensor(tuple(axis_of(index.letter) for index in weight.indices), (), array)

    def sizes_of(self, weight: Weight) -> Iterator[str]:
        return (self.run.legend.describe(index.letter) for index in weight.indices)

    def scalar(self, name: str) -> StoredTensor:
        scalar = self.run.legend.scalars[name]
        left = Tensor(name, scalar.indices)
        if isinstance(scalar.value, tuple):
            values = np.array([number.value for number in scalar.value], dtype=np.float64)
            return self.store(left, Named((scalar.indices[0].letter,), values))
        return self.store(left, self.anywhere(scalar.value))

    # Expressions of the legend and of weights have no fixed indices.
    def anywhere(self, e: Expression) -> Named:
        around, self.fixed = self.fixed, {}
        value = self.value(e)
        self.fixed = around
        return value

    # ------------------------------------------------------------------------------------------------------ slots

    # Reads each axis of `T_{…}` at the number in its slot. Before the start of time everything is zero (R4).
    def read(self, stored: StoredTensor, e: Tensor, live: Named | None, selects: bool = False) -> Named:
        numbers = [self.slot(slot, live) for slot in e.slots]
        dims = union(*(number.dims for number in numbers))
        past = constant(False)
        places = []
        for slot, axis, number, size in zip(e.slots, stored.axes, numbers, stored.array.shape, strict=False):
            self.check_whole(slot, number, live, e)
            before = Named(number.dims, number.array < 0)
            outside = Named(number.dims, (number.array < 0) | (number.array >= size))
            if axis in self.times and not selects:
                past = lift(np.logical_or)(past, before)
                outside = lift(np.logical_and)(outside, Named(before.dims, ~before.array))
            self.check_inside(outside, live, e, axis, size)
            places.append(np.clip(number.over(dims), 0, max(0, size - 1)).astype(np.int64))
        selected = Named((*dims, *stored.carried), stored.array[tuple(places)] if places else stored.array)
        return choose(past, constant(0), selected) if past.array.any() else selected

    # A tensor in a slot selects, so it must not lie before the start of time.
    def slot(self, slot: Expression, live: Named | None) -> Named:
        if isinstance(slot, Tensor):
            return self.read(self.tensor(slot), slot, live, selects=True)
        return self.value(slot, live)

    def check_whole(self, slot: Expression, number: Named, live: Named | None, e: Tensor) -> None:
        broken = Named(number.dims, number.array != np.floor(number.array))
        if (broken if live is None else lift(np.logical_and)(broken, live)).array.any():
            value = float(number.array[broken.array][0])
            message = f"a slot of `{e.name}` holds {value:g}, which is not a whole number"
            raise fail("E702" if isinstance(slot, Tensor) else "E310", message, slot.span, fix="whole numbers")

    def check_inside(self, outside: Named, live: Named | None, e: Tensor, axis: str, size: int) -> None:
        wrong = outside if live is None else lift(np.logical_and)(outside, live)
        if wrong.array.any():
            what = f"the axis `{axis}`" if axis else "the group"
            raise fail("E309", f"a slot of `{e.name}` leaves {what}, which has {size} numbers", e.span)

    # -------------------------------------------------------------------------------------------------- operators

    def apply(self, e: Apply, live: Named | None) -> Named:
        binding = self.scope.binding(e)
        if binding is not None:
            return self.run_over(frozenset().union(*binding.bound), lambda: self.call(e, binding))
        if e.name == "where":
            return self.where(e, live)
        if e.indices:
            letters = tuple(index.letter for index in e.indices)
            return self.run_over(letters, lambda: self.operator(e, letters, live))
        return FUNCTIONS[e.name](*(self.value(argument, live) for argument in e.arguments))

    def operator(self, e: Apply, letters: tuple[str, ...], live: Named | None) -> Named:
        *counts, argument = (self.value(argument, live) for argument in e.arguments)
        whole = [self.whole(count, written) for count, written in zip(counts, e.arguments, strict=False)]
        return OPERATORS[e.name](self.spread(argument, letters), letters, *whole)

    # The result is read at the place of letters that are fixed here.
    def run_over(self, letters: Iterable[str], f: Callable[[], Named]) -> Named:
        around, self.fixed = self.fixed, {letter: place for letter, place in self.fixed.items() if letter not in letters}
        result = f()
        self.fixed = around
        for letter in around.keys() & set(result.dims):
            axis = result.dims.index(letter)
            result = Named(result.dims[:axis] + result.dims[axis + 1 :], result.array.take(around[letter], axis))
        return result

    # Evaluates only the branch that is used. A condition on numbers alone picks one of them (R8).
    def where(self, e: Apply, live: Named | None) -> Named:
        condition = self.value(e.arguments[0], live)
        if not condition.dims:
            return self.value(e.arguments[1 if condition.array else 2], live)
        unless = Named(condition.dims, ~condition.array)
        both = lift(np.logical_and)
        then = self.value(e.arguments[1], both(live, condition) if live else condition)
        return choose(condition, then, self.value(e.arguments[2], both(live, unless) if live else unless))

    def spread(self, value: Named, letters: tuple[str, ...]) -> Named:
        dims = union(value.dims, letters)
        shape = [value.array.shape[value.dims.index(d)] if d in value.dims else self.length(d) for d in dims]
        return Named(dims, np.broadcast_to(value.over(dims), shape))

    # Evaluates a layer on its own indices. The caller's other indices are carried along (R7).
    def call(self, e: Apply, binding: Binding) -> Named:
        layer = self.scope.layers[e.name]
        turns = "".join(f"blocks.{self.fixed[i.letter]}." for i in e.indices if i.letter in self.scope.loops)
        path = f"{self.path}{turns}{key(e.name)}."
        sizes = {axis_of(formal): self.length(actual) for formal, actual in binding.letters.items()}
        times = {axis_of(formal) for formal, actual in binding.letters.items() if axis_of(actual) in self.times}
        times |= self.times - set(sizes)
        frame = _Frame(self.run, layer, path, frozenset(times), self.sizes | sizes, {})
        for formal, argument in zip(layer.formals, e.arguments, strict=True):
            actual = {binding.letters[letter]: letter for letter in slot_letters(formal)}
            value = self.spread(self.value(argument), tuple(actual))
            inner = Named(tuple(actual.get(dim, CARRIED + dim) for dim in value.dims), value.array)
            frame.tensors[formal.name] = frame.store(formal, inner)
        result = frame.output()
        outer = (dim[1:] if dim.startswith(CARRIED) else binding.letters[dim] for dim in result.dims)
        return Named(tuple(outer), result.array)


def _find_recurrent_index(equation: Equation) -> str | None:
    if equation.relation != "=" or not isinstance(equation.left, Tensor):
        return None
    for e in subexpressions(equation.right):
        if isinstance(e, Tensor) and e.name == equation.left.name:
            for mine, slot in zip(equation.left.slots, e.slots, strict=True):
                if isinstance(mine, Index) and isinstance(slot, tree.Sum) and mine in slot.terms:
                    return mine.letter
    return None
