"""Translates an expression into a formula of matrices, with one rule for each node of the tree.

The labels are fixed beforehand. No value may have more than two other letters. An expression without a form raises NoForm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from einformer.interpreters.latex.matrices.algebra import (
    NoForm,
    Piece,
    Printer,
    Shape,
    along,
    find_common_shape,
    orient,
    product,
)
from einformer.interpreters.latex.matrices.naming import spell_axis
from einformer.language.calls import axis_of, slot_letters
from einformer.language.primitives import primitive
from einformer.language.printer import show
from einformer.language.scope import Scope
from einformer.language.tree import (
    Apply,
    Equation,
    Expression,
    Group,
    Index,
    Name,
    Number,
    Power,
    Product,
    Quotient,
    Sum,
    Tensor,
)
from einformer.language.walk import subexpressions


@dataclass(frozen=True, slots=True)
class Translator:
    """Translates expressions whose sums are written out. The axes `labels` are neither rows nor columns.

    `passed` holds the letters of each layer's head that it carries along. A vector is a column if `columns` is set, or if
    its axis is in `down`, the axes of rows, else a row. A tensor in `taken` is replaced by its definition.
    """

    out: Printer
    scope: Scope
    labels: frozenset[str]
    passed: Mapping[str, frozenset[str]]
    down: frozenset[str] = frozenset()
    taken: Mapping[str, Equation] = field(default_factory=dict)

    def is_label(self, letter: str) -> bool:
        """Returns whether the letter's axis is a label."""
        return axis_of(letter) in self.labels

    # ------------------------------------------------------------------------------------------------------ equations

    def sides(self, equation: Equation) -> tuple[Piece, Piece]:
        """Translates both sides. If one puts labels side by side in a group, the other does too."""
        left, right = equation.left, equation.right
        if isinstance(left, Tensor) and _find_group(left):
            parts = self.concat(left, right)
            return self.translate_group(left), parts
        if isinstance(left, Tensor) and isinstance(right, Tensor) and _find_group(right) and right.name not in self.taken:
            return self.concat(right, left), self.translate_group(right)
        to = self.matrix(left)
        return to, orient(self.out, self.matrix(right), to.shape)

    def translate_group(self, whole: Tensor) -> Piece:
        """Translates `c_{n(ae)}`: a matrix whose columns are those of all heads a. `c_{(ae)n}` is transposed."""
        *labels, last = members = _find_group(whole)
        opened = slot_letters(whole)
        plain = len(opened) == len(whole.slots) - 1 + len(members) and set(members) <= set(opened)
        axes = [str(spell_axis(slot)) for slot in whole.slots if isinstance(slot, Group) or self.is_axis(slot)]
        if not plain or len(axes) > 2 or self.is_label(last) or not all(map(self.is_label, labels)):
            raise NoForm("a group that is no heads side by side")
        return along(self.out, self.out.tensor(whole, *self.find_shape(axes)), f"({''.join(members)})")

    def concat(self, whole: Tensor, part: Expression, cols: str = "") -> Piece:
        """Translates the matrices of all heads side by side, for a group in `whole`."""
        m, side = self.matrix(part), self.translate_group(whole)
        *labels, last = _find_group(whole)
        return self.out.concat(labels, part, orient(self.out, m, (side.rows, last)), cols or side.cols)

    # ---------------------------------------------------------------------------------------------------- expressions

    def matrix(self, e: Expression) -> Piece:
        """Translates e. Raises NoForm."""
        if not self.has_axes(e):
            return self.out.number(e)
        match e:
            case Number() | Name() | Index() | Group():
                raise NoForm(f"{show(e)} is used as a number")
            case Tensor():
                return self.translate_definition(e, self.taken[e.name]) if e.name in self.taken else self.tensor(e)
            case Sum():
                return self.sum(e.terms)
            case Product() | Quotient():
                return product(self.out, self.factors(e))
            case Power():
                return self.power(e)
            case Apply():
                return self.apply(e)
            case _:
                assert_never(e)

    def is_axis(self, e: Expression) -> bool:
        """Returns whether e is an index that is not a label."""
        return isinstance(e, Index) and not self.is_label(e.letter)

    def has_axes(self, e: Expression) -> bool:
        """Returns whether e has more than numbers and labels."""
        return any(isinstance(x, Tensor) or self.is_axis(x) or self.calls(x) for x in subexpressions(e))

    def calls(self, e: Expression) -> bool:
        """Returns whether e calls a layer."""
        return isinstance(e, Apply) and e.name in self.scope.layers

    # -------------------------------------------------------------------------------------------------------- tensors

    def tensor(self, e: Tensor) -> Piece:
        """Translates `q_bsea` with labels b and a: Q, with rows s and columns e. A slot that is looked up makes rows."""
        axes = [slot.letter for slot in e.slots if isinstance(slot, Index) and not self.is_label(slot.letter)]
        others = [slot for slot in e.slots if not isinstance(slot, Index) and self.has_axes(slot)]
        if others:
            return self.translate_lookup(e, axes, others)
        if len(axes) > 2:
            raise NoForm(f"{e.name} has {len(axes)} axes, {', '.join(axes)}")
        if len(set(axes)) < len(axes):
            raise NoForm(f"{e.name} is read along its diagonal")
        return self.out.tensor(e, *self.find_shape(axes))

    def find_shape(self, axes: Sequence[str]) -> Shape:
        """Returns the shape of a tensor with these axes. A vector has the direction of vectors."""
        if len(axes) == 1:
            return (axes[0], "") if self.out.names.style.columns or axis_of(axes[0]) in self.down else ("", axes[0])
        first, second = (*axes, "", "")[:2]
        return first, second

    def translate_lookup(self, e: Tensor, axes: Sequence[str], others: Sequence[Expression]) -> Piece:
        """Translates `E_{x_s d}`: the rows of E that x names."""
        if len(others) > 1 or not isinstance(others[0], Tensor) or e.slots[0] is not others[0] or len(axes) != 1:
            raise NoForm(f"a slot of {e.name} is computed")
        by = self.matrix(others[0])
        if len(by.letters) > 1:
            raise NoForm(f"{e.name} is read at a matrix of numbers")
        return self.out.lookup(e, axes[0], by)

    def translate_definition(self, e: Tensor, by: Equation) -> Piece:
        """Translates the definition of a tensor in its place. A group counts as one letter."""
        left = by.left
        assert isinstance(left, Tensor)
        if e == left and not _find_group(left):
            return orient(self.out, self.matrix(by.right), self.tensor(e).shape)
        apart = [(slot, own) for slot, own in zip(e.slots, left.slots, strict=True) if slot != own]
        if any(not isinstance(own, Group) or not self.is_axis(slot) for slot, own in apart):
            raise NoForm(f"{e.name} is not read as it is defined")
        return self.concat(left, by.right, *(str(spell_axis(slot)) for slot, _ in apart))

    # ------------------------------------------------------------------------------------------------------ arithmetic

    def sum(self, terms: Sequence[Expression]) -> Piece:
        """Translates terms of one shape. A term without an axis is repeated along it."""
        read = [self.matrix(term) for term in terms]
        wanted = find_common_shape(read)
        return self.out.plus([orient(self.out, piece, wanted) for piece in read])

    def factors(self, e: Expression) -> list[Piece]:
        """Translates the factors of a product, or of a quotient, whose last factor divides."""
        match e:
            case Product():
                return [self.matrix(factor) for factor in e.factors]
            case Quotient(numerator, denominator):
                above = self.factors(numerator) if isinstance(numerator, Product) else [self.matrix(numerator)]
                return [*above, self.out.reciprocal(self.matrix(denominator))]
            case _:
                return [self.matrix(e)]

    def total(self, e: Expression, over: Sequence[str]) -> Piece:
        """Translates a product summed over letters: labels by Σ, axes by products of matrices."""
        labels = tuple(letter for letter in over if self.is_label(letter))
        inner = product(self.out, self.factors(e), frozenset(over).difference(labels))
        return self.out.total(labels, inner) if labels else inner

    def power(self, e: Power) -> Piece:
        """Translates each number to a power that is one number."""
        exponent = self.matrix(e.exponent)
        if exponent.letters:
            raise NoForm("an exponent is a matrix")
        return self.out.power(self.matrix(e.base), exponent)

    # ------------------------------------------------------------------------------------------------------ operators

    def apply(self, e: Apply) -> Piece:
        """Translates a layer, an operator over letters, or a function of each number."""
        row = primitive(e.name, bool(e.indices))
        over = tuple(index.letter for index in e.indices)
        if self.calls(e):
            return self.call(e)
        if e.name == "sum" and over:
            return self.total(e.arguments[0], over)
        if row is None or row.kind == "function":
            return self.function(e)
        of = self.matrix(e.arguments[-1])
        if not set(over) <= set(of.letters):
            raise NoForm(f"{e.name} works on {', '.join(over)}, which is no axis of a matrix here")
        return self.keeping(e, over, of) if row.kind == "keeping" else self.reducing(e, over, of)

    def keeping(self, e: Apply, over: tuple[str, ...], of: Piece) -> Piece:
        """Translates `Sm_s'` on each row."""
        if len(over) > 1:
            raise NoForm(f"{e.name} works on two axes")
        first = [self.matrix(argument) for argument in e.arguments[:-1]]
        rows = of if len(of.letters) == 1 else along(self.out, of, over[0])
        return orient(self.out, self.out.by_row(e.name, rows, first), of.shape)

    def reducing(self, e: Apply, over: tuple[str, ...], of: Piece) -> Piece:
        """Translates `mean_d` of each row, or of all."""
        whole = set(over) == set(of.letters)
        return self.out.reduce(e, of if whole else along(self.out, of, over[0]), whole)

    def function(self, e: Apply) -> Piece:
        """Translates the arguments in one shape. Numbers stay numbers."""
        read = [self.matrix(argument) for argument in e.arguments]
        wanted = find_common_shape(read)
        return self.out.function(e.name, [orient(self.out, piece, wanted) if piece.letters else piece for piece in read])

    def call(self, e: Apply) -> Piece:
        """Translates a layer, which works on axes and carries labels along."""
        binding = self.scope.binding(e)
        assert binding is not None
        passed = self.passed[self.scope.layers[e.name].name]
        own = {theirs for ours, theirs in binding.letters.items() if axis_of(ours) not in passed}
        if worked_on := sorted(filter(self.is_label, own)):
            raise NoForm(f"{e.name} works on {', '.join(worked_on)}")
        axes = [letter for letter in self.scope.free(e) if not self.is_label(letter)]
        if len(axes) > 2:
            raise NoForm(f"{e.name} gives {len(axes)} axes, {', '.join(axes)}")
        return self.out.call(e, [self.matrix(argument) for argument in e.arguments], self.find_shape(axes))


def _find_group(tensor: Tensor) -> list[str]:
    group = next((slot for slot in tensor.slots if isinstance(slot, Group)), Group(()))
    return [member.letter if isinstance(member, Index) else "" for member in group.members]
