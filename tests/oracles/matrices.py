"""What does a formula of matrices say? Its value in plain NumPy: `@`, `.T`, and no broadcasting but that of a number.

It shares nothing with the algebra that made the formula. A vector is a matrix of one row or one column; two matrices are added
or multiplied number by number only if their shapes are the same, so that whatever does not fit raises. What the tensors are,
and what an equation in indices makes of them, is said by the reference; a call of a layer is a tensor of random numbers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

import numpy as np

from einformer.interpreters.latex.matrices.lines import Line, Lines
from einformer.interpreters.latex.matrices.tree import (
    Call,
    Concat,
    Diagonal,
    Function,
    Hadamard,
    Inverse,
    Letter,
    Matrix,
    Ones,
    Over,
    Plus,
    Raised,
    Reduced,
    Rows,
    RowWise,
    Scalar,
    Scaled,
    Summed,
    Times,
    Transposed,
)
from einformer.interpreters.reference import frame as reference
from einformer.interpreters.reference.named import Array, Stored
from einformer.language.calls import axis_of, slot_letters
from einformer.language.instances import callees
from einformer.language.scope import Scope
from einformer.language.sizes import Legend
from einformer.language.tree import Apply, Equation, Expression, Group, Index, Layer, Loop, Name, Spec, Statement, Tensor
from einformer.language.walk import equations, loops, rebuild, subexpressions
from tests.oracles.primitives import FUNCTIONS, KEEPING, REDUCING

At = dict[str, int]
PLACES = 3  # of the labels of a line: one of all heads, sequences and experts


@dataclass
class Oracle:
    """One layer with random tensors: `differences` goes through its lines."""

    spec: Spec
    lines: Lines
    legend: Legend
    sizes: dict[str, int]  # of axes that its calls give others
    random: np.random.Generator
    seen: set[str] = field(default_factory=set)  # kinds of nodes
    calls: dict[Expression, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        layer = self.lines.layer
        run = reference.Run(self.legend, {each.name: each for each in self.spec.layers}, {}, None)
        times = frozenset(axis_of(each.time.letter) for each in self.spec.layers if each.time)
        self.frame = reference._Frame(run, layer, "", times, self.sizes, {})
        self.frame.bare |= {layer.output.name} if isinstance(layer.output, Name) else set()
        weights = [Tensor(w.name, w.indices) for w in layer.weights if w.kind != "instance"]
        for tensor in (*layer.formals, *weights):
            self.draw(tensor, tensor.name in selecting(layer))

    def draw(self, tensor: Tensor, whole: bool = False) -> None:
        """Random numbers for a tensor, whole ones for one that stands in slots."""
        letters = tuple(map(axis_of, slot_letters(tensor)))
        shape = [self.frame.length(letter) for letter in letters]
        array = self.random.integers(2, size=shape) if whole else self.random.normal(size=shape)
        self.frame.tensors[tensor.name] = Stored(letters, (), np.asarray(array, dtype=np.float64))

    # ----------------------------------------------------------------------------------------------------- lines

    def differences(self) -> Iterator[tuple[Line, float]]:
        """Each line that has a form in matrices, and by how much its two sides differ."""
        yield from self.statements(self.lines.layer.body)

    def statements(self, body: Sequence[Statement]) -> Iterator[tuple[Line, float]]:
        for statement in body:
            match statement:
                case Equation():
                    yield from self.equation(statement)
                case Loop():
                    for turn in range(2):
                        self.frame.fixed[statement.index.letter] = turn
                        yield from self.statements(statement.body)
                    del self.frame.fixed[statement.index.letter]
                case _:
                    assert_never(statement)

    def equation(self, equation: Equation) -> Iterator[tuple[Line, float]]:
        line = self.lines.found.get(id(equation))
        known = replace(equation, right=self.opaque(equation.right))
        right = line.right if line else None
        places = list(self.places(equation, line.left)) if line and line.left and right else list[At]()
        recurrent = any(isinstance(e, Tensor) and e.name == equation.left.name for e in subexpressions(equation.right))
        assert line is None or line.right is not None or line.why
        before = [] if recurrent and equation.relation == "=" else [self.at(place, right) for place in places]
        self.frame.equation(known)
        if line and line.left and line.right:
            rights = before or [self.at(place, line.right) for place in places]
            lefts = [self.at(place, line.left) for place in places]
            yield line, max(map(_error, rights, lefts))

    def places(self, equation: Equation, left: Matrix) -> Iterator[At]:
        """Some choices of the labels on the left side."""
        axes = [letter for m in _letters(left) for letter in (m.rows, m.cols)]
        labels = [*left.labels] if isinstance(left, Concat) else []
        letters = [i for i in slot_letters(equation.left) if i not in axes and i not in labels]
        letters = [i for i in letters if not any(i in axis for axis in axes if axis.startswith("("))]
        for _ in range(PLACES if letters else 1):
            yield {letter: int(self.random.integers(self.frame.length(letter))) for letter in letters}

    def opaque(self, e: Expression) -> Expression:
        """The expression with a random tensor for each call of a layer."""
        if not (isinstance(e, Apply) and e.name in self.frame.scope.layers):
            return rebuild(e, self.opaque)
        if e not in self.calls:
            letters = tuple(i for i in self.frame.scope.free(e) if i not in self.frame.scope.loops)
            self.calls[e] = Tensor(f"call{len(self.calls)}", tuple(map(Index, letters)))
            self.draw(self.calls[e])
        return self.calls[e]

    # ----------------------------------------------------------------------------------------------------- values

    def at(self, place: At, m: Matrix | None) -> Array:
        """The value of a formula where labels stand at a place."""
        assert m is not None
        around, self.frame.fixed = self.frame.fixed, self.frame.fixed | place
        value = self.value(m)
        self.frame.fixed = around
        return value

    def value(self, m: Matrix) -> Array:
        """The matrix of a formula."""
        self.seen.add(type(m).__name__)
        match m:
            case Scalar():
                return np.array([[self.frame.value(m.value).array]], dtype=np.float64).reshape(1, 1)
            case Letter():
                return self.letter(m)
            case Ones():
                return np.ones((self.frame.length(m.rows), 1))
            case Transposed():
                return self.value(m.of).T
            case Times():
                first, *others = map(self.value, m.factors)
                for other in others:
                    first = first @ other
                return first
            case Scaled():
                return math.prod(self.number(each) for each in m.by) * self.value(m.of)
            case Over():
                return self.value(m.of) / self.number(m.under)
            case Hadamard():
                return _same(np.multiply, *map(self.value, m.factors))
            case Inverse():
                return 1 / self.value(m.of)
            case Diagonal():
                return np.diag(_vector(self.value(m.of)))
            case Plus():
                return _same(np.add, *map(self.value, m.terms))
            case Raised():
                return self.value(m.of) ** self.number(m.exponent)
            case Function():
                return self.function(m)
            case RowWise():
                return self.row_wise(m)
            case Reduced():
                of = self.value(m.of)
                return REDUCING[m.name](of.reshape(1, -1) if m.whole else of)
            case Summed():
                return np.asarray(np.sum(self.parts(m), axis=0))
            case Concat():
                return np.concatenate(self.parts(m), axis=1)
            case Rows():
                matrix = self.letter(replace(m.of, rows=":"))
                return np.asarray(matrix[_vector(self.value(m.by)).astype(int)])
            case Call():
                return self.call(m)
            case _:
                assert_never(m)

    def parts(self, m: Summed | Concat) -> list[Array]:
        """The matrix of each label."""
        numbers = itertools.product(*(range(self.frame.length(letter)) for letter in m.labels))
        return [self.at(dict(zip(m.labels, each, strict=True)), m.of) for each in numbers]

    def number(self, m: Matrix) -> float:
        value = self.value(m)
        assert value.shape == (1, 1), m
        return float(value[0, 0])

    def letter(self, m: Letter) -> Array:
        """A tensor at its labels, its axes as long as their letters are; before the start of time zero, beyond its end none."""
        stored, places = self.frame.tensor(m.of), list[int | slice]()
        for slot, size in zip(m.of.slots, stored.array.shape, strict=True):
            letter = getattr(slot, "letter", "")
            if isinstance(slot, Index) and letter in (m.rows, m.cols):
                places.append(slice(0, self.frame.length(letter)))
            elif (m.rows == ":" and slot is m.of.slots[0]) or (isinstance(slot, Group) and "(" in m.cols):
                places.append(slice(None))
            else:
                place = int(self.frame.slot(slot, None).array)
                if not 0 <= place < size:
                    outside = 0 if place < 0 else np.nan
                    return np.full([self.frame.length(each) if each else 1 for each in (m.rows, m.cols)], outside)
                places.append(place)
        shape = [-1 if m.rows else 1, 1 if m.rows and not m.cols else -1]
        found = stored.array[tuple(places)]
        return found.reshape(found.shape if m.rows and m.cols else shape)

    def function(self, m: Function) -> Array:
        """Of each number; a number beside matrices is the same for all."""
        values = [self.value(each) for each in m.arguments]
        shapes = {value.shape for value in values} - {(1, 1)}
        assert len(shapes) < 2, (m.name, shapes)
        return np.asarray(FUNCTIONS[m.name](*values), dtype=np.float64)

    def row_wise(self, m: RowWise) -> Array:
        of, first = self.value(m.of), [int(self.number(each)) for each in m.first]
        keep: Callable[..., Array] = KEEPING[m.name]
        column = isinstance(m.of, Matrix) and of.shape[1] == 1 and of.shape[0] > 1
        return keep(of.T, *first).T if column else keep(of, *first)

    def call(self, m: Call) -> Array:
        """The random tensor that stands for a call. What it is given is compared too."""
        for written, read in zip(m.call.arguments, m.arguments, strict=True):
            self.argument(written, read)
        return self.letter(Letter(self.calls[m.call], m.rows, m.cols))

    def argument(self, written: Expression, read: Matrix) -> None:
        known = self.frame.value(self.opaque(written))
        letters = [letter for letter in _axes(read) if letter]
        expected = known.over(letters) if set(known.dims) == set(letters) else None
        assert expected is not None, (known.dims, letters)
        found = self.value(read)
        assert _error(found, expected.reshape(found.shape)) < 1e-9, (written, read)


def called_sizes(found: Mapping[str, Lines], name: str, legend: Legend) -> dict[str, int]:
    """The sizes that the axes of a layer have where it is called first."""
    layers = {each: lines.layer for each, lines in found.items()}
    for layer in layers.values():
        scope = Scope(callees(layer, layers), frozenset(loop.index.letter for loop in loops(layer.body)))
        applied = (e for each in equations(layer.body) for e in subexpressions(each.right) if isinstance(e, Apply))
        for e in applied:
            if e.name in scope.layers and scope.layers[e.name].name == name and (binding := scope.binding(e)):
                return {axis_of(inner): legend.length(axis_of(outer)) for inner, outer in binding.letters.items()}
    return {}


def selecting(layer: Layer) -> set[str]:
    """The names of tensors that stand in slots."""
    read = [e for each in equations(layer.body) for e in subexpressions(each.right) if isinstance(e, Tensor)]
    return {slot.name for e in read for slot in e.slots if isinstance(slot, Tensor)}


def _axes(m: Matrix) -> tuple[str, str]:
    from einformer.interpreters.latex.matrices.algebra import shape

    return shape(m)


def _letters(m: Matrix) -> list[Letter]:
    return [m] if isinstance(m, Letter) else [m.of] if isinstance(m, Concat) and isinstance(m.of, Letter) else []


def _vector(of: Array) -> Array:
    assert 1 in of.shape, of.shape
    return of.reshape(-1)


def _same(f: Callable[[Array, Array], Array], first: Array, *others: Array) -> Array:
    for other in others:
        assert first.shape == other.shape, (first.shape, other.shape)
        first = f(first, other)
    return first


def _error(one: Array, other: Array) -> float:
    """The largest difference, relative to the largest number where that exceeds one; where one is infinite, both are."""
    assert one.shape == other.shape, (one.shape, other.shape)
    equal = (one == other) | (np.isnan(one) & np.isnan(other))
    apart = np.abs(np.where(equal, 0.0, one) - np.where(equal, 0.0, other))
    finite = np.abs(other[np.isfinite(other)])
    return float(apart.max(initial=0.0) / max(1.0, finite.max(initial=0.0)))
