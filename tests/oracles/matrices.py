"""Reads the LaTeX of a formula of matrices and computes it in plain NumPy: `@`, `.T`, and no broadcasting.

It shares nothing with the printer but the names in a formula: which text is which tensor, number or call. A vector is a matrix
of one row or one column; two matrices are added or multiplied number by number only if their shapes are the same, so that what
does not fit raises. The reference says what the tensors are, and what an equation in indices makes of them; a call of a layer
is a tensor of random numbers.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import assert_never

import numpy as np

from einformer.interpreters import reference
from einformer.interpreters.latex.formulas import Matrix, Shape, Translator
from einformer.interpreters.latex.matrices import LayerFormulas, MatrixFormula
from einformer.interpreters.latex.pages import INFIX as WRITTEN
from einformer.interpreters.latex.pages import LATEX
from einformer.interpreters.reference import Array, StoredTensor
from einformer.language.calls import axis_of, callees, slot_letters
from einformer.language.scope import Scope
from einformer.language.sizes import Legend
from einformer.language.tree import Apply, Equation, Expression, Group, Index, Layer, Loop, Name, Spec, Statement, Tensor
from einformer.language.walk import equations, loops, map_equations, rebuild, subexpressions
from tests.oracles.primitives import FUNCTIONS, KEEPING, REDUCING

At = dict[str, int]
Value = Callable[[], Array]
Leaf = Callable[["Oracle"], Array]
PLACES = 3  # of the labels of a line: one of all heads, sequences and experts
INFIX = {f" {sign} ": name for name, sign in WRITTEN.items()}
NAMES = {LATEX.operator(name, ()): name for name in (*FUNCTIONS, *KEEPING, *REDUCING)} | {r"\mathrm{softmax}": "Sm"}


@dataclass(frozen=True, slots=True)
class Recorder(Translator):
    """The translator, with a record of what each leaf of a formula stands for. Ones say their length."""

    leaves: dict[str, Leaf] = field(default_factory=dict)
    sums: dict[str, Sequence[str]] = field(default_factory=dict)

    def record(self, piece: Matrix, leaf: Leaf) -> Matrix:
        self.leaves.setdefault(plain(piece.text), leaf)
        return piece

    def number(self, e: Expression) -> Matrix:
        return self.record(Translator.number(self, e), lambda oracle: oracle.scalar(e))

    def tensor(self, e: Tensor, rows: str = "", cols: str = "", turned: bool = False) -> Matrix:
        def leaf(oracle: Oracle) -> Array:
            value = oracle.tensor(e, rows, cols)
            return value.T if turned else value

        return self.record(Translator.tensor(self, e, rows, cols, turned), leaf)

    def ones(self, letter: str) -> Matrix:
        piece = Matrix(rf"\mathbf{{1}}_{{{letter}}}", letter)
        return self.record(piece, lambda oracle: np.ones((oracle.frame.length(letter), 1)))

    def lookup(self, e: Tensor, cols: str, by: Matrix) -> Matrix:
        piece = Translator.lookup(self, e, cols, by)
        self.record(Matrix(piece.text.removesuffix(f"[{by.text}]")), lambda oracle: oracle.tensor(e, ":", cols))
        return piece

    def total(self, labels: Sequence[str], m: Matrix) -> Matrix:
        piece = Translator.total(self, labels, m)
        self.sums[plain(piece.text).partition("} ")[0] + "} "] = labels
        return piece

    def concat(self, labels: Sequence[str], of: Expression, m: Matrix, cols: str) -> Matrix:
        def leaf(oracle: Oracle) -> Array:
            return np.concatenate(oracle.parts(labels, self.value(m, oracle)), axis=1)

        return self.record(Translator.concat(self, labels, of, m, cols), leaf)

    def call(self, e: Apply, arguments: Sequence[Matrix], shape: Shape) -> Matrix:
        def leaf(oracle: Oracle) -> Array:
            for written, read in zip(e.arguments, arguments, strict=True):
                oracle.argument(written, read.shape, self.value(read, oracle))
            return oracle.tensor(oracle.calls[e], *shape)

        return self.record(Translator.call(self, e, arguments, shape), leaf)

    def value(self, piece: Matrix, oracle: Oracle) -> Value:
        """What computes the value of a printed formula."""
        return Reading(plain(piece.text), self, oracle).whole()


def plain(text: str) -> str:
    """A difference as a sum, so that a term is read the same wherever it stands."""
    return text.replace(" - ", " + -")


@dataclass(slots=True)
class Reading:
    """Reads a formula from its LaTeX; what a method returns computes the value of what it has read."""

    text: str
    by: Recorder
    oracle: Oracle
    at: int = 0

    def whole(self) -> Value:
        value = self.sum()
        assert self.at == len(self.text), (self.text, self.text[self.at :])
        return value

    def eat(self, *texts: str) -> str:
        """The text that stands here, if it is one of these: the longest."""
        here = max((text for text in texts if self.text.startswith(text, self.at)), key=len, default="")
        self.at += len(here)
        self.oracle.seen.add(here)
        return here

    def inside(self, close: str, read: Callable[[], Value]) -> Value:
        value = read()
        assert self.eat(close), (close, self.text, self.text[self.at :])
        return value

    def sum(self) -> Value:
        value = self.term()
        while self.eat(" + "):
            value = _of(_plus, value, self.term())
        sign = self.eat(*INFIX)
        return _of(partial(_function, INFIX[sign]), value, self.factor()) if sign else value

    def term(self) -> Value:
        leaf = self.leaf()
        if leaf is None and self.eat("-"):
            inner = self.term()
            return _of(np.negative, inner)
        if leaf is None and (sign := self.eat(*self.by.sums)):
            inner, labels = self.term(), self.by.sums[sign]
            return lambda: np.asarray(np.sum(self.oracle.parts(labels, inner), axis=0))
        value, signs = self.factor(leaf), set[str]()
        while sign := self.sign():
            value = _of(_SIGNS[sign], value, self.factor())
            signs.add(r"\o" * (r"\o" in sign))
        assert len(signs) < 2, f"a product of matrices beside one number by number: {self.text}"
        return value

    def sign(self) -> str:
        """The sign between two factors, which may be a space."""
        return "" if self.text.startswith((" + ", *INFIX), self.at) else self.eat(*_SIGNS)

    def factor(self, leaf: Value | None = None) -> Value:
        value = leaf or self.leaf() or self.atom()
        while sign := self.eat(*_MARKS):
            other = [] if sign.endswith("}") else [self.inside("]" if sign == "[" else "}", self.sum)]
            value = _of(_MARKS[sign], value, *other)
        return value

    def leaf(self) -> Value | None:
        """A tensor, a number, a call."""
        if not (text := self.eat(*self.by.leaves)):
            return None
        leaf = self.by.leaves[text]
        return lambda: leaf(self.oracle)

    def atom(self) -> Value:
        if opened := self.eat("(", r"\left(", "{"):
            return self.inside({"(": ")", "{": "}"}.get(opened, r"\right)"), self.sum)
        if self.eat(r"\frac{"):
            above = self.inside("}{", self.sum)
            return _of(lambda one, other: one / _number(other), above, self.inside("}", self.sum))
        if self.eat(r"\sqrt{"):
            return _of(np.sqrt, self.inside("}", self.sum))
        if self.eat(r"\operatorname{diag}("):
            return _of(lambda vector: np.diag(_vector(vector)), self.inside(")", self.sum))
        if digits := re.compile(r"\d+(\.\d+)?").match(self.text, self.at):
            self.at = digits.end()
            return lambda: np.array([[float(digits[0])]])
        return self.applied()

    def applied(self) -> Value:
        """A name and its arguments; below it, the k of `top` or the letters of a whole matrix."""
        name = NAMES[self.eat(*NAMES)]
        below = list[Value]()
        letters = name in REDUCING and re.compile(r"_\{([^}]*)\}").match(self.text, self.at)
        if letters:
            self.at = letters.end()
        elif self.eat("_{"):
            below = self.listed("}")
        arguments = self.listed(r"\right)" if self.eat("(", r"\!\left(") == r"\!\left(" else ")")
        if name in KEEPING:
            return _of(partial(_by_row, name), *arguments, *below)
        if name in FUNCTIONS and (name not in REDUCING or len(arguments) > 1):
            return _of(partial(_function, name), *arguments)
        return _of(lambda m: REDUCING[name](m.reshape(1, -1) if letters or m.shape[1] == 1 else m), *arguments)

    def listed(self, close: str) -> list[Value]:
        values = [self.sum()]
        while self.eat(", "):
            values.append(self.sum())
        assert self.eat(close), (close, self.text, self.text[self.at :])
        return values


@dataclass
class Oracle:
    """One layer with random tensors: `differences` goes through its lines."""

    spec: Spec
    lines: LayerFormulas
    legend: Legend
    sizes: dict[str, int]  # of axes that its calls give others
    random: np.random.Generator
    seen: set[str] = field(default_factory=set)  # signs that came up
    calls: dict[Expression, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        layer = self.lines.layer
        run = reference.Evaluation(self.legend, {each.name: each for each in self.spec.layers}, {}, None)
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
        self.frame.tensors[tensor.name] = StoredTensor(letters, (), np.asarray(array, dtype=np.float64))

    # ----------------------------------------------------------------------------------------------------- lines

    def differences(self) -> Iterator[tuple[MatrixFormula, float]]:
        """Each line that has a form in matrices, and by how much its two sides differ."""
        yield from self.statements(self.lines.layer.body)

    def statements(self, body: Sequence[Statement]) -> Iterator[tuple[MatrixFormula, float]]:
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

    def equation(self, equation: Equation) -> Iterator[tuple[MatrixFormula, float]]:
        line = self.lines.found.get(id(equation))
        known = replace(equation, right=self.opaque(equation.right))
        assert line is None or line.right is not None or line.why
        if line is None or line.left is None or line.right is None:
            self.frame.equation(known)
            return
        left, right = (self.recorder.value(side, self) for side in (line.left, line.right))
        places = list(self.places(equation, line.left))
        recurrent = any(isinstance(e, Tensor) and e.name == equation.left.name for e in subexpressions(equation.right))
        before = [] if recurrent and equation.relation == "=" else [self.at(place, right) for place in places]
        self.frame.equation(known)
        rights = before or [self.at(place, right) for place in places]
        yield line, max(map(_error, rights, [self.at(place, left) for place in places]))

    @property
    def recorder(self) -> Recorder:
        assert isinstance(self.lines.translator, Recorder)
        return self.lines.translator

    def places(self, equation: Equation, left: Matrix) -> Iterator[At]:
        """Some choices of the labels on the left side."""
        letters = [i for i in slot_letters(equation.left) if i not in left.shape and not ("(" in left.cols and i in left.cols)]
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

    def at(self, place: At, value: Value) -> Array:
        """A value where labels stand at a place."""
        around, self.frame.fixed = self.frame.fixed, self.frame.fixed | place
        result = value()
        self.frame.fixed = around
        return result

    def parts(self, labels: Sequence[str], value: Value) -> list[Array]:
        """The matrix of each label."""
        numbers = itertools.product(*(range(self.frame.length(letter)) for letter in labels))
        return [self.at(dict(zip(labels, each, strict=True)), value) for each in numbers]

    def scalar(self, e: Expression) -> Array:
        return np.asarray(self.frame.value(e).array, dtype=np.float64).reshape(1, 1)

    def tensor(self, e: Tensor, rows: str, cols: str) -> Array:
        """A tensor at its labels, its axes as long as their letters are; before the start of time zero, beyond its end none."""
        stored, places = self.frame.tensor(e), list[int | slice]()
        for slot, size in zip(e.slots, stored.array.shape, strict=True):
            letter = getattr(slot, "letter", "")
            if isinstance(slot, Index) and letter in (rows, cols):
                places.append(slice(0, self.frame.length(letter)))
            elif (rows == ":" and slot is e.slots[0]) or (isinstance(slot, Group) and "(" in rows + cols):
                places.append(slice(None))
            else:
                place = int(self.frame.slot(slot, None).array)
                if not 0 <= place < size:
                    outside = 0 if place < 0 else np.nan
                    return np.full([self.frame.length(each) if each else 1 for each in (rows, cols)], outside)
                places.append(place)
        whole = stored.array[tuple(places)]
        return whole if rows and cols else whole.reshape([-1 if rows else 1, 1 if rows else -1])

    def argument(self, written: Expression, shape: Shape, value: Value) -> None:
        """What a call is given is compared too."""
        known, letters = self.frame.value(self.opaque(written)), [letter for letter in shape if letter]
        assert set(known.dims) == set(letters), (known.dims, letters)
        read = value()
        assert _error(read, known.over(letters).reshape(read.shape)) < 1e-9, (written, shape)


def apart(spec: Spec) -> Spec:
    """The text with names for outputs that are no names of formals too: a page does not print them."""

    def renamed(equation: Equation) -> Equation:
        left = replace(equation.left, name=f"{equation.left.name}0")
        return replace(equation, left=left) if equation.relation == "return" else equation

    layers = (replace(each, output=replace(each.output, name=f"{each.output.name}0")) for each in spec.layers)
    return replace(spec, layers=tuple(replace(each, body=map_equations(each.body, renamed)) for each in layers))


def called_sizes(found: Mapping[str, LayerFormulas], name: str, legend: Legend) -> dict[str, int]:
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


def _error(one: Array, other: Array) -> float:
    """The largest difference, relative to the largest number where that exceeds one; where one is infinite, both are."""
    assert one.shape == other.shape, (one.shape, other.shape)
    equal = (one == other) | (np.isnan(one) & np.isnan(other))
    apart = np.abs(np.where(equal, 0.0, one) - np.where(equal, 0.0, other))
    finite = np.abs(other[np.isfinite(other)])
    return float(apart.max(initial=0.0) / max(1.0, finite.max(initial=0.0)))


def _of(f: Callable[..., Array], *values: Value) -> Value:
    return lambda: np.asarray(f(*(value() for value in values)), dtype=np.float64)


def _plus(one: Array, other: Array) -> Array:
    assert one.shape == other.shape, (one.shape, other.shape)
    return one + other


def _times(one: Array, other: Array) -> Array:
    """A product of matrices, or a number times a matrix."""
    if one.shape[1] == other.shape[0]:
        return one @ other
    assert (1, 1) in (one.shape, other.shape), (one.shape, other.shape)
    return one * other


def _entrywise(one: Array, other: Array) -> Array:
    assert one.shape == other.shape, (one.shape, other.shape)
    return one * other


_SIGNS: dict[str, Callable[..., Array]] = {
    " ": _times,
    r" \, ": _times,
    r" \cdot ": _times,
    r" \odot ": _entrywise,
    r" \oslash ": lambda one, other: _entrywise(one, 1 / other),
}


def _inverse(m: Array) -> Array:
    """One over a number, or over the numbers of a diagonal."""
    return np.diag(1 / np.diagonal(m))


def _number(m: Array) -> float:
    assert m.shape == (1, 1), m.shape
    return float(m[0, 0])


def _vector(of: Array) -> Array:
    assert 1 in of.shape, of.shape
    return of.reshape(-1)


def _function(name: str, *values: Array) -> Array:
    """Of each number; a number beside matrices is the same for all."""
    shapes = {value.shape for value in values} - {(1, 1)}
    assert len(shapes) < 2, (name, shapes)
    return np.asarray(FUNCTIONS[name](*values), dtype=np.float64)


def _by_row(name: str, of: Array, *below: Array) -> Array:
    column, first = of.shape[1] == 1 and of.shape[0] > 1, [int(_number(each)) for each in below]
    return KEEPING[name](of.T, *first).T if column else KEEPING[name](of, *first)


_MARKS: dict[str, Callable[..., Array]] = {
    r"^{\top}": np.transpose,
    "^{-1}": _inverse,
    r"^{\circ ": lambda m, exponent: m ** _number(exponent),
    "^{": lambda number, exponent: np.array([[_number(number) ** _number(exponent)]]),
    "[": lambda m, by: m[_vector(by).astype(int)],
}
SIGNS = {" + ", "-", "(", r"\left(", "{", r"\frac{", r"\sqrt{", r"\operatorname{diag}(", *_SIGNS, *_MARKS}
