"""Translates an expression into a formula of matrices, with one rule for each node of the tree, and names its tensors.

The labels are fixed beforehand. No value may have more than two other letters. An expression without a form raises NoForm.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import reduce
from itertools import combinations
from typing import assert_never

from einformer.interpreters.latex.pages import INFIX, LATEX
from einformer.language import printer, tree
from einformer.language.calls import axis_of, slot_letters
from einformer.language.primitives import COMPARISONS, primitive
from einformer.language.printer import Level, show
from einformer.language.scope import Scope
from einformer.language.sizes import Legend
from einformer.language.tree import Apply, Equation, Expression, Group, Index, Layer, Name, Number, Tensor
from einformer.language.walk import children, equations, subexpressions

Shape = tuple[str, str]


class NoForm(Exception):
    """An expression without a form in matrices. The message says why."""


class Strength(IntEnum):
    """The binding strength of a formula, loosest first. A chain is a product of matrices."""

    SUM, TERM, CHAIN, FACTOR, ATOM = range(5)


@dataclass(frozen=True, slots=True)
class Matrix:
    """A formula: a matrix, a row without the letter of rows, a column without the letter of columns, or a number.

    `turn` makes the transposed formula if a sign after this one does not. `under` is the divisor of a reciprocal. `factors`
    are the numbers in a product of numbers.
    """

    text: str
    rows: str = ""
    cols: str = ""
    level: Strength = Strength.ATOM
    turn: Callable[[], Matrix] | None = None
    under: Matrix | None = None
    factors: tuple[Matrix, ...] = ()

    @property
    def shape(self) -> Shape:
        return self.rows, self.cols

    @property
    def letters(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(letter for letter in self.shape if letter))

    def within(self, least: Strength) -> str:
        return self.text if self.level >= least else LATEX.enclose(self.text)


@dataclass(frozen=True, slots=True)
class Translator:
    """Translates expressions whose sums are written out. The axes `labels` are neither rows nor columns.

    `called` are layers that a document has another name for. `passed` holds the letters of each layer's head that it carries
    along. A vector is a column if `columns` is set, or if its axis is in `down`, the axes of rows, else a row. A tensor in
    `taken` is replaced by its definition.
    """

    names: LayerNames
    called: Mapping[str, str]
    scope: Scope
    labels: frozenset[str]
    passed: Mapping[str, frozenset[str]]
    down: frozenset[str] = frozenset()
    taken: Mapping[str, Equation] = field(default_factory=dict)

    # ------------------------------------------------------------------------------------------------------ equations

    # If one side puts labels side by side in a group, the other does too.
    def sides(self, equation: Equation) -> tuple[Matrix, Matrix]:
        left, right = equation.left, equation.right
        if isinstance(left, Tensor) and _find_group(left):
            parts = self.translate_parts(left, right)
            return self.translate_group(left), parts
        if isinstance(left, Tensor) and isinstance(right, Tensor) and _find_group(right) and right.name not in self.taken:
            return self.translate_parts(right, left), self.translate_group(right)
        to = self.matrix(left)
        return to, self.orient(self.matrix(right), to.shape)

    # `c_{n(ae)}` is a matrix whose columns are those of all heads a; `c_{(ae)n}` is transposed.
    def translate_group(self, whole: Tensor) -> Matrix:
        *labels, last = members = _find_group(whole)
        opened = slot_letters(whole)
        plain = len(opened) == len(whole.slots) - 1 + len(members) and set(members) <= set(opened)
        axes = [str(spell_axis(slot)) for slot in whole.slots if isinstance(slot, Group) or self.is_axis(slot)]
        if not plain or len(axes) > 2 or self.is_label(last) or not all(map(self.is_label, labels)):
            raise NoForm("a group that is not heads side by side")
        return self.along(self.tensor(whole, *self.find_shape(axes)), f"({''.join(members)})")

    # The matrices of all heads stand side by side, for a group in `whole`.
    def translate_parts(self, whole: Tensor, part: Expression, cols: str = "") -> Matrix:
        m, side = self.matrix(part), self.translate_group(whole)
        *labels, last = _find_group(whole)
        return self.concat(labels, part, self.orient(m, (side.rows, last)), cols or side.cols)

    # `Concat(Y_1, …, Y_h)`, if the heads are one label of a tensor.
    def concat(self, labels: Sequence[str], of: Expression, m: Matrix, cols: str) -> Matrix:
        size = self.names.legend.axes[axis_of(labels[0])].size
        one = len(labels) == 1 and isinstance(of, Tensor) and m.text == self.names.letter(of, *m.shape)
        if not (one and isinstance(of, Tensor) and isinstance(size, Name | Number)):
            below = f"_{{{''.join(map(LATEX.symbol, labels))}}}"
            return Matrix(rf"\mathrm{{Concat}}{below}" + _join_arguments([m]), m.rows, cols)
        ends = (Tensor(of.name, tuple(n if slot == Index(labels[0]) else slot for slot in of.slots)) for n in (Number(1), size))
        first, last = (self.names.letter(end, *m.shape) for end in ends)
        return Matrix(f"\\mathrm{{Concat}}({first}, \\dots, {last})", m.rows, cols)

    # ---------------------------------------------------------------------------------------------------- expressions

    def matrix(self, e: Expression) -> Matrix:
        if not self.has_axes(e):
            return self.number(e)
        match e:
            case Number() | Name() | Index() | Group():
                raise NoForm(f"{printer.show(e)} is used as a number")
            case Tensor():
                return self.translate_definition(e, self.taken[e.name]) if e.name in self.taken else self.translate_tensor(e)
            case tree.Sum():
                return self.lift(_write_sum, *self.agree([self.matrix(term) for term in e.terms]))
            case tree.Product() | tree.Quotient():
                return self.multiply(self.factors(e))
            case tree.Power():
                return self.power(e)
            case Apply():
                return self.apply(e)
            case _:
                assert_never(e)

    def is_label(self, letter: str) -> bool:
        return axis_of(letter) in self.labels

    def is_axis(self, e: Expression) -> bool:
        return isinstance(e, Index) and not self.is_label(e.letter)

    def calls(self, e: Expression) -> bool:
        return isinstance(e, Apply) and e.name in self.scope.layers

    def has_axes(self, e: Expression) -> bool:
        return any(isinstance(x, Tensor) or self.is_axis(x) or self.calls(x) for x in subexpressions(e))

    # `sqrt(H)`, `2 ε`.
    def number(self, e: Expression) -> Matrix:
        return Matrix(LATEX.expression(e), level=Strength.__members__.get(printer.level(e).name, Strength.SUM))

    def ones(self, letter: str) -> Matrix:
        return Matrix(r"\mathbf{1}", letter)

    # -------------------------------------------------------------------------------------------------------- tensors

    # `q_bsea` with labels b and a is Q, with rows s and columns e; a slot that is looked up makes rows.
    def translate_tensor(self, e: Tensor) -> Matrix:
        axes = [slot.letter for slot in e.slots if isinstance(slot, Index) and not self.is_label(slot.letter)]
        others = [slot for slot in e.slots if not isinstance(slot, Index) and self.has_axes(slot)]
        if others:
            return self.translate_lookup(e, axes, others)
        if len(axes) > 2:
            raise NoForm(f"{e.name} has {len(axes)} axes, {', '.join(axes)}")
        if len(set(axes)) < len(axes):
            raise NoForm(f"{e.name} is read along its diagonal")
        return self.tensor(e, *self.find_shape(axes))

    # The slots `rows` and `cols` are axes, all others labels.
    def tensor(self, e: Tensor, rows: str = "", cols: str = "", turned: bool = False) -> Matrix:
        text = self.names.letter(e, rows, cols, self.names.style.transpose * turned)
        level, shape = (Strength.FACTOR, (cols, rows)) if turned else (Strength.ATOM, (rows, cols))
        return Matrix(text, *shape, level, lambda: self.tensor(e, rows, cols, not turned))

    # A vector has the direction of vectors.
    def find_shape(self, axes: Sequence[str]) -> Shape:
        if len(axes) == 1:
            return (axes[0], "") if self.names.style.columns or axis_of(axes[0]) in self.down else ("", axes[0])
        first, second = (*axes, "", "")[:2]
        return first, second

    # `E_{x_s d}`: the rows of E that x names.
    def translate_lookup(self, e: Tensor, axes: Sequence[str], others: Sequence[Expression]) -> Matrix:
        if len(others) > 1 or not isinstance(others[0], Tensor) or e.slots[0] is not others[0] or len(axes) != 1:
            raise NoForm(f"a slot of {e.name} is computed")
        by = self.matrix(others[0])
        if len(by.letters) > 1:
            raise NoForm(f"{e.name} is read at a matrix of numbers")
        return self.lookup(e, axes[0], by)

    def lookup(self, e: Tensor, cols: str, by: Matrix) -> Matrix:
        return Matrix(f"{self.names.letter(e, cols, cols)}[{by.text}]", "".join(by.letters), cols)

    # The definition stands in the place of the tensor; a group counts as one letter.
    def translate_definition(self, e: Tensor, by: Equation) -> Matrix:
        left = by.left
        assert isinstance(left, Tensor)
        if e == left and not _find_group(left):
            return self.orient(self.matrix(by.right), self.translate_tensor(e).shape)
        apart = [(slot, own) for slot, own in zip(e.slots, left.slots, strict=True) if slot != own]
        if any(not isinstance(own, Group) or not self.is_axis(slot) for slot, own in apart):
            raise NoForm(f"{e.name} is not read as it is defined")
        return self.translate_parts(left, by.right, *(str(spell_axis(slot)) for slot, _ in apart))

    # --------------------------------------------------------------------------------------------------------- shapes

    # `(A B)^⊤` is `B^⊤ A^⊤`.
    def transpose(self, m: Matrix) -> Matrix:
        if not m.letters:
            return m
        if m.turn:
            return m.turn()
        text = _raise(m.within(Strength.ATOM), self.names.style.transpose)
        return Matrix(text, m.cols, m.rows, Strength.FACTOR, lambda: m)

    def along(self, m: Matrix, letter: str) -> Matrix:
        return m if m.cols == letter else self.transpose(m)

    def down_along(self, m: Matrix, letter: str) -> Matrix:
        return m if m.rows == letter else self.transpose(m)

    # Returns m in the wanted shape: transposed, or repeated by ones along missing letters. Raises NoForm for others.
    def orient(self, m: Matrix, wanted: Shape) -> Matrix:
        if m.shape == wanted:
            return m
        if m.shape == wanted[::-1]:
            return self.transpose(m)
        if others := sorted({*m.letters}.difference(wanted)):
            raise NoForm(f"the letters {', '.join(others)} are on one side only")
        rows, cols = wanted
        column = [self.ones(rows)] if rows and rows not in m.letters else []
        row = [self.transpose(self.ones(cols))] if cols and cols not in m.letters else []
        if not m.letters:
            return self.scale([m], reduce(self.chain, column + row))
        return reduce(self.chain, [*column, self.orient(m, ("", cols) if column else (rows, "")), *row])

    # Pieces take the shape of the first matrix, else of vectors side by side; single `numbers` may stay.
    def agree(self, pieces: Sequence[Matrix], numbers: bool = False) -> list[Matrix]:
        letters = dict.fromkeys(letter for m in pieces for letter in m.letters)
        if len(letters) > 2:
            raise NoForm(f"the letters {', '.join(letters)} are three axes of one number")
        widest, (rows, cols) = max(pieces, key=lambda m: len(m.letters)), (*letters, "", "")[:2]
        wanted = widest.shape if len(widest.letters) == len(letters) else (rows, cols)
        return [m if numbers and not m.letters else self.orient(m, wanted) for m in pieces]

    # An operation on each number, transposed, is the operation on the transposed parts.
    def lift(self, write: Callable[[Sequence[Matrix]], tuple[str, Strength]], *parts: Matrix) -> Matrix:
        text, level = write(parts)
        shape = next((part.shape for part in parts if part.letters), ("", ""))
        return Matrix(text, *shape, level, lambda: self.lift(write, *map(self.transpose, parts)))

    # ------------------------------------------------------------------------------------------------------- products

    # The last factor of a quotient divides.
    def factors(self, e: Expression) -> list[Matrix]:
        match e:
            case tree.Product():
                return [self.matrix(factor) for factor in e.factors]
            case tree.Quotient(numerator, denominator):
                above = self.factors(numerator) if isinstance(numerator, tree.Product) else [self.matrix(numerator)]
                return [*above, self.reciprocal(self.matrix(denominator))]
            case _:
                return [self.matrix(e)]

    def multiply(self, factors: Sequence[Matrix], summed: frozenset[str] = frozenset()) -> Matrix:
        """Prints the product of factors, summed over some letters. Raises NoForm if no order of the factors gives one.

        Numbers come first. The others combine as long as a rule applies. Two that share only a summed letter are a product of
        matrices. Factors with the same letters are multiplied entry by entry. A summed letter of only one factor is summed by
        ones. A vector beside a matrix is a diagonal. The last two vectors are an outer product.
        """
        numbers, rest = [m for m in factors if not m.letters], [m for m in factors if m.letters]
        while step := next(self.find_steps(rest, summed), None):
            used, result = step
            rest = [result if m is used[0] else m for m in rest if m is used[0] or not any(m is other for other in used)]
            numbers, rest = numbers + [m for m in rest if not m.letters], [m for m in rest if m.letters]
        if len(rest) > 1:
            raise NoForm(f"no two of its {len(rest)} factors have a product that is a matrix")
        return self.scale(numbers, *rest)

    def find_steps(self, rest: Sequence[Matrix], summed: frozenset[str]) -> Iterator[tuple[Sequence[Matrix], Matrix]]:
        often = Counter(letter for m in rest for letter in m.letters)
        pairs = [(one, other, set(one.letters) & set(other.letters)) for one, other in combinations(rest, 2)]
        for one, other, shared in pairs:  # `A_ni B_iu` summed over i: `A B`
            if len(shared) == 1 and shared <= summed and often[letter := min(shared)] == 2:
                yield (one, other), self.chain(self.along(one, letter), self.down_along(other, letter))
        for one in rest:  # `A_nu B_nu`: `A ⊙ B`
            same = [m for m in rest if set(m.letters) == set(one.letters)]
            if len(same) > 1:
                yield same, self.lift(_write_entrywise, *(self.orient(m, one.shape) for m in same))
        for one in rest:  # `A_nu` summed over u: `A 1`
            for letter in one.letters:
                if letter in summed and often[letter] == 1:
                    yield (one,), self.chain(self.along(one, letter), self.ones(letter))
        for one, other, shared in pairs:  # `v_n A_nu`: `diag(v) A`; `A_nu v_u`: `A diag(v)`
            vector, m = (one, other) if len(one.letters) == 1 else (other, one)
            if shared and len(vector.letters) == 1:
                chain = [self.diagonal(vector), m] if m.rows == vector.letters[0] else [m, self.diagonal(vector)]
                yield (one, other), reduce(self.chain, chain)
        if len(rest) == 2 and all(len(m.letters) == 1 for m in rest):  # `u_n v_u`: `u v^⊤`
            yield rest, self.chain(self.down_along(rest[0], *rest[0].letters), self.along(rest[1], *rest[1].letters))

    def chain(self, one: Matrix, other: Matrix) -> Matrix:
        text = LATEX.multiply([one.within(Strength.CHAIN), other.within(Strength.CHAIN)])
        turn = lambda: self.chain(self.transpose(other), self.transpose(one))  # noqa: E731
        return Matrix(text, one.rows, other.cols, Strength.CHAIN, turn)

    # A sign comes first, and numbers that divide stand below.
    def scale(self, numbers: Sequence[Matrix], of: Matrix | None = None) -> Matrix:
        numbers = [inner for factor in numbers for inner in factor.factors or (factor,)]
        over = [factor for factor in numbers if not factor.under and factor.text != "1"]
        under = [factor.under for factor in numbers if factor.under]
        if of and not over and not under:
            return of
        first, *others = product = [*over, of] if of else over or [Matrix("1")]
        text, level = first.text, first.level
        if others:
            sign, shown = ("-", others) if text == "-1" else ("", product)
            text, level = sign + LATEX.multiply([factor.within(Strength.FACTOR) for factor in shown]), Strength.TERM
        if under:
            text, level, product = f"\\frac{{{text}}}{{{self.scale(under).text}}}", Strength.FACTOR, []
        if not of:
            return Matrix(text, level=level, factors=tuple(product))
        return Matrix(text, *of.shape, level, lambda: self.scale(numbers, self.transpose(of)))

    def reciprocal(self, m: Matrix) -> Matrix:
        text = _raise(m.within(Strength.ATOM), r"\circ -1")
        return Matrix(text, *m.shape, Strength.FACTOR, lambda: self.reciprocal(self.transpose(m)), m)

    def diagonal(self, vector: Matrix) -> Matrix:
        (letter,) = vector.letters
        text = f"\\operatorname{{diag}}({(vector.under or vector).text})" + "^{-1}" * bool(vector.under)
        level = Strength.FACTOR if vector.under else Strength.ATOM
        return Matrix(text, letter, letter, level, lambda: self.diagonal(vector))

    def total(self, labels: Sequence[str], m: Matrix) -> Matrix:
        sign = f"\\sum_{{{''.join(map(LATEX.symbol, labels))}}} "
        return self.lift(lambda parts: (sign + parts[0].within(Strength.TERM), Strength.TERM), m)

    def power(self, e: tree.Power) -> Matrix:
        exponent = self.matrix(e.exponent)
        if exponent.letters:
            raise NoForm("an exponent is a matrix")
        base = self.matrix(e.base)
        raised = r"\circ " * bool(base.letters) + exponent.text
        return self.lift(lambda parts: (_raise(parts[0].within(Strength.ATOM), raised), Strength.FACTOR), base)

    # ------------------------------------------------------------------------------------------------------ operators

    def apply(self, e: Apply) -> Matrix:
        row, over = primitive(e.name, bool(e.indices)), tuple(index.letter for index in e.indices)
        if self.calls(e):
            return self.translate_call(e)
        if e.name == "sum" and over:
            labels = tuple(letter for letter in over if self.is_label(letter))
            inner = self.multiply(self.factors(e.arguments[0]), frozenset(over).difference(labels))
            return self.total(labels, inner) if labels else inner
        if row is None or row.kind == "function":
            parts = self.agree([self.matrix(argument) for argument in e.arguments], numbers=True)
            return self.lift(lambda parts: _write_function(e.name, parts), *parts)
        of = self.matrix(e.arguments[-1])
        if not set(over) <= set(of.letters):
            raise NoForm(f"{e.name} works on {', '.join(over)}, which is not an axis of a matrix here")
        return self.keep(e, over, of) if row.kind == "keeping" else self.reduce_rows(e, over, of)

    # `Sm_s'` works on each row, or on a vector; the k of `top` stands below.
    def keep(self, e: Apply, over: tuple[str, ...], of: Matrix) -> Matrix:
        if len(over) > 1:
            raise NoForm(f"{e.name} works on two axes")
        first = ", ".join(self.matrix(argument).text for argument in e.arguments[:-1])
        spelled = f"\\mathrm{{{self.names.style.softmax}}}" if e.name == "Sm" else LATEX.operator(e.name, ())
        name, m = spelled + (f"_{{{first}}}" if first else ""), of if len(of.letters) == 1 else self.along(of, over[0])
        by_row = self.lift(lambda parts: (name + _join_arguments(parts), Strength.ATOM), m)
        return self.orient(by_row if len(m.letters) == 1 else Matrix(by_row.text, *m.shape), of.shape)

    # `mean_d` makes a number of each row, or of all; for a whole matrix its letters stand below.
    def reduce_rows(self, e: Apply, over: tuple[str, ...], of: Matrix) -> Matrix:
        whole = set(over) == set(of.letters)
        m = of if whole else self.along(of, over[0])
        below = e.indices if whole and len(of.letters) > 1 else ()
        return Matrix(LATEX.operator(e.name, below) + _join_arguments([m]), "" if whole else m.rows)

    def translate_call(self, e: Apply) -> Matrix:
        binding = self.scope.binding(e)
        assert binding is not None
        passed = self.passed[self.scope.layers[e.name].name]
        own = {theirs for ours, theirs in binding.letters.items() if axis_of(ours) not in passed}
        if worked_on := sorted(filter(self.is_label, own)):
            raise NoForm(f"{e.name} works on {', '.join(worked_on)}")
        axes = [letter for letter in self.scope.free(e) if not self.is_label(letter)]
        if len(axes) > 2:
            raise NoForm(f"{e.name} gives {len(axes)} axes, {', '.join(axes)}")
        return self.call(e, [self.matrix(argument) for argument in e.arguments], self.find_shape(axes))

    def call(self, e: Apply, arguments: Sequence[Matrix], shape: Shape) -> Matrix:
        return Matrix(LATEX.operator(self.layer(e.name), e.indices) + _join_arguments(arguments), *shape)

    def layer(self, name: str) -> str:
        return self.called.get(name, name)


def _write_sum(terms: Sequence[Matrix]) -> tuple[str, Strength]:
    return printer.join_terms(term.within(Strength.TERM) for term in terms), Strength.SUM


# A reciprocal divides.
def _write_entrywise(factors: Sequence[Matrix]) -> tuple[str, Strength]:
    first, *others = factors
    signed = ((r"\oslash", other.under) if other.under else (r"\odot", other) for other in others)
    return " ".join(
        [first.within(Strength.FACTOR), *(f"{sign} {m.within(Strength.FACTOR)}" for sign, m in signed)]
    ), Strength.TERM


# A name before its arguments, or a sign between two.
def _write_function(name: str, arguments: Sequence[Matrix]) -> tuple[str, Strength]:
    level = Strength.SUM if name in COMPARISONS or name in INFIX else Strength.ATOM
    if name in INFIX:
        return f" {INFIX[name]} ".join(argument.within(Strength.FACTOR) for argument in arguments), level
    if name == "sqrt":
        return f"\\sqrt{{{arguments[0].text}}}", level
    return LATEX.operator(name, ()) + _join_arguments(arguments), level


def _join_arguments(of: Iterable[Matrix]) -> str:
    return LATEX.enclose_arguments(", ".join(piece.text for piece in of))


def _raise(text: str, power: str) -> str:
    scripted = not text.endswith(")") and ("^" in text or "'" in text)
    return f"{{{text}}}^{{{power}}}" if scripted else f"{text}^{{{power}}}"


def _find_group(tensor: Tensor) -> list[str]:
    group = next((slot for slot in tensor.slots if isinstance(slot, Group)), Group(()))
    return [member.letter if isinstance(member, Index) else "" for member in group.members]


@dataclass(frozen=True, slots=True)
class MatrixStyle:
    """The style in which a document writes matrices.

    `weight` and `label` give the place of the name of a weight and of the number of a head: `_Q`, `^Q`, `^(q)` with small
    letters, `_i`, `^(i)`. `columns`: vectors are columns. `names` are weights by their sizes, `d d_ff` = `W_1`. `weights`
    is the letter of the weights of attention if they have a line of their own, `attention` the name of the formula of one
    head, `head` the name of its value, `heads` the name of a layer that puts heads side by side.
    """

    weight: str = "_Q"
    label: str = "_i"
    transpose: str = r"\top"
    softmax: str = "softmax"
    columns: bool = False
    weights: str = ""
    attention: str = ""
    head: str = ""
    heads: str = ""
    names: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LayerNames:
    """The names of one layer: its weights with their axes, names by role or by size, tensors that keep a small letter,
    numbers.

    A tensor with the letter of a number is bold.
    """

    style: MatrixStyle
    legend: Legend
    dropped: frozenset[str]  # labels that are not said
    weights: Mapping[str, tuple[str, ...]]
    own: Mapping[str, str]
    small: frozenset[str]
    numbers: frozenset[str]

    # A matrix has a capital letter, and its printed labels.
    def letter(self, e: Tensor, rows: str = "", cols: str = "", turned: str = "") -> str:
        base, scripts = self.base(e.name, bool(rows and cols))
        marks = [*scripts, *self.labels(e, rows, cols)]
        if cut := self._cut(e, rows, cols):
            return add_scripts(base, marks) + cut + (f"^{{{turned}}}" if turned else "")
        if turned and any(place == "^" and text[:1] != "(" for place, text in marks):
            return f"({add_scripts(base, marks)})^{{{turned}}}"
        return add_scripts(base, marks, turned)

    # Labels are slots that are neither rows nor columns nor looked up.
    def labels(self, e: Tensor, rows: str = "", cols: str = "") -> list[tuple[str, str]]:
        labels = [slot for slot in e.slots if spell_axis(slot) not in (rows, cols) and not isinstance(slot, Tensor)]
        printed = [label for label in labels if not (isinstance(label, Index) and label.letter in self.dropped)]
        return [_split_script(self.style.label, _abut(printed))] if printed else []

    # Returns the letter, and the parts of the name below and above.
    def base(self, name: str, whole: bool) -> tuple[str, list[tuple[str, str]]]:
        if name in self.own:
            return self.own[name], []
        letter, below = name.rstrip("'"), name.lower() if "q" in self.style.weight else name
        short = len(letter) == 1 and letter.isascii()
        if short and name in self.weights and letter.isupper():
            return ("W" if whole else "w"), [_split_script(self.style.weight, below)] if letter != "W" else []
        shown = name.upper() if short and whole and name not in self.small else name
        return (rf"\boldsymbol{{{LATEX.symbol(shown)}}}" if shown in self.numbers else LATEX.symbol(shown)), []

    def _cut(self, e: Tensor, rows: str, cols: str) -> str:
        axes = self.weights.get(e.name, ())
        read = [(slot.letter, own) for slot, own in zip(e.slots, axes, strict=False) if isinstance(slot, Index)]
        parts = [":" if axis_of(letter) == own else f"{{:}}{self.size(letter)}" for letter, own in read]
        return f"[{', '.join(parts)}]" if any(axis_of(i) != own and i in (rows, cols) for i, own in read) else ""

    def size(self, letter: str, least: Level = Level.SUM) -> str:
        return LATEX.flat.expression(self.legend.axes[axis_of(letter)].size, least)


# A group is its letters in parentheses; a computed number has no letter.
def spell_axis(slot: Expression) -> str | None:
    match slot:
        case Index(letter):
            return letter
        case Group(members) if all(isinstance(member, Index) for member in members):
            return f"({''.join(member.letter for member in members if isinstance(member, Index))})"
        case _:
            return None


def add_scripts(base: str, scripts: Sequence[tuple[str, str]], turned: str = "") -> str:
    """Prints a letter with its scripts, and the sign that it is `turned`.

    >>> add_scripts("W", [("_", "Q"), ("_", "a")], "T")
    'W_{Q,a}^{T}'
    """
    below, above = (",".join(text for side, text in scripts if side == place and text) for place in "_^")
    letter = base.rstrip("'")
    if primes := (len(base) - len(letter)) * r"\prime" if below or above or turned else "":
        base, above = letter, f"{primes} {above}"
    above = (above + turned).strip()
    return base + (f"_{{{below}}}" if below else "") + (f"^{{{above}}}" if above else "")


def _split_script(place: str, text: str) -> tuple[str, str]:
    return place[0], f"({text})" if "(" in place and text else text


def _abut(labels: Sequence[Expression]) -> str:
    texts = [LATEX.flat.expression(label, Level.SUM) for label in labels]
    plain = all(isinstance(label, Index) for label in labels)
    return ("" if plain and not any("\\" in text for text in texts) else ",").join(texts)


# ---------------------------------------------------------------------------------------------- the names of a layer


def name_tensors(layer: Layer, dropped: frozenset[str], legend: Legend, style: MatrixStyle) -> LayerNames:
    weights = {w.name: tuple(axis_of(i.letter) for i in w.indices) for w in layer.weights if w.kind != "instance"}
    own = _name_by_size(weights, legend, style) | dict(_name_by_role(layer, style))
    inside = [e for equation in equations(layer.body) for e in subexpressions(equation.right)]
    defined = {left.name for left in (*layer.formals, *(equation.left for equation in equations(layer.body)))}
    tensors = (defined | {e.name for e in inside if isinstance(e, Tensor)}) - weights.keys()
    sizes = [e for axis in {axis for axes in weights.values() for axis in axes} for e in subexpressions(legend.axes[axis].size)]
    numbers = frozenset(e.name for e in (*inside, *sizes) if isinstance(e, Name))  # that stand beside the tensors
    used = {*own.values(), *numbers, "W"}
    small = {name for name in tensors if name.upper() in used or name.upper() in tensors - {name}}
    return LayerNames(style, legend, dropped, weights, own, frozenset(small), numbers)


# `W_1` from `d` to `d_ff`, if only one weight has these sizes.
def _name_by_size(weights: Mapping[str, tuple[str, ...]], legend: Legend, style: MatrixStyle) -> dict[str, str]:
    sizes = {name: " ".join(show(legend.axes[axis].size) for axis in axes) for name, axes in weights.items()}
    own = {name: style.names[size] for name, size in sizes.items() if size in style.names}
    return own if all(count == 1 for count in Counter(own.values()).values()) else {}


def _name_by_role(layer: Layer, style: MatrixStyle) -> Iterator[tuple[str, str]]:
    definitions = {line.left.name: line.right for line in equations(layer.body) if line.relation == "="}
    for equation in (line for line in equations(layer.body) if line.relation != "return"):
        if style.weights and isinstance(equation.right, Apply) and equation.right.name == "Sm":
            yield equation.left.name, style.weights
        if style.head and len(getattr(equation.left, "slots", ())) > 2 and is_attention(equation, definitions):
            yield equation.left.name, rf"\mathrm{{{style.head}}}"


# An attention sums a softmax over positions times values; `definitions` may hold the softmax.
def is_attention(equation: Equation, definitions: Mapping[str, Expression]) -> bool:
    right = equation.right
    if not (isinstance(right, Apply) and right.name == "sum" and isinstance(right.arguments[0], tree.Product)):
        return False
    own = {slot.letter for slot in getattr(equation.left, "slots", ()) if isinstance(slot, Index)}
    primed = [index.letter for index in right.indices if axis_of(index.letter) in own - {index.letter}]
    return bool(primed) and any(isinstance(e, Apply) and e.name == "Sm" for e in expand(right, definitions))


# The definitions of the tensors that e reads are part of it, each once.
def expand(e: Expression, definitions: Mapping[str, Expression]) -> Iterator[Expression]:
    waiting, unread = [e], dict(definitions)
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(children(node))
        if isinstance(node, Tensor) and node.name in unread:
            waiting.append(unread.pop(node.name))
