"""Which formula of matrices is an expression of the notation? One rule for each of its nodes.

Which letters are labels is given; of those that are left no value may have more than two. What has no form raises NoForm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from einformer.interpreters.latex.matrices.algebra import NoForm, along, common, letters, oriented, product, shape
from einformer.interpreters.latex.matrices.tree import (
    Call,
    Function,
    Inverse,
    Letter,
    Matrix,
    Plus,
    Raised,
    Reduced,
    Rows,
    RowWise,
    Scalar,
    Shape,
    Summed,
)
from einformer.language.calls import axis_of
from einformer.language.primitives import primitive
from einformer.language.scope import Scope
from einformer.language.tree import (
    Apply,
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
class Reader:
    """Reads expressions whose sums are written out, where the axes `labels` are no rows and no columns.
    `passed` are those of a layer's letters that it carries along although its head has them.

    A vector is a column where `columns` says so, or where its axis is one of `down`, those of rows; else a row.
    """

    scope: Scope
    labels: frozenset[str]
    passed: Mapping[str, frozenset[str]]
    down: frozenset[str] = frozenset()
    columns: bool = False

    def is_label(self, letter: str) -> bool:
        """Is the letter's axis one of the labels?"""
        return axis_of(letter) in self.labels

    def matrix(self, e: Expression) -> Matrix:
        """The form of e. Raises NoForm."""
        if not any(isinstance(x, Tensor) or self.is_axis(x) or self.calls(x) for x in subexpressions(e)):
            return Scalar(e)
        match e:
            case Number() | Name():
                return Scalar(e)
            case Index():
                raise NoForm(f"{e.letter} is used as a number")
            case Group():
                raise NoForm("a group of indices is used as a number")
            case Tensor():
                return self.tensor(e)
            case Sum():
                return self.sum(e.terms)
            case Product() | Quotient():
                return product(self.factors(e), frozenset())
            case Power():
                return self.power(e)
            case Apply():
                return self.apply(e)
            case _:
                assert_never(e)

    def is_axis(self, e: Expression) -> bool:
        """Is e an index that is no label?"""
        return isinstance(e, Index) and not self.is_label(e.letter)

    def calls(self, e: Expression) -> bool:
        """Does e call a layer?"""
        return isinstance(e, Apply) and e.name in self.scope.layers

    # -------------------------------------------------------------------------------------------------------- tensors

    def tensor(self, e: Tensor) -> Matrix:
        """`q_bsea` with labels b and a: Q, with rows s and columns e. A slot that is looked up makes rows."""
        axes = [slot.letter for slot in e.slots if isinstance(slot, Index) and not self.is_label(slot.letter)]
        others = [slot for slot in e.slots if not isinstance(slot, Index) and self.reads(slot)]
        if others:
            return self.looked_up(e, axes, others)
        if len(axes) > 2:
            raise NoForm(f"{e.name} has {len(axes)} axes, {', '.join(axes)}")
        if len(set(axes)) < len(axes):
            raise NoForm(f"{e.name} is read along its diagonal")
        return Letter(e, *self.placed(axes))

    def reads(self, slot: Expression) -> bool:
        """Does a computed slot hold more than labels?"""
        return any(isinstance(x, Tensor) or self.is_axis(x) for x in subexpressions(slot))

    def placed(self, axes: Sequence[str]) -> Shape:
        """The shape of a tensor with these axes: a vector stands as vectors do."""
        if len(axes) == 1:
            return (axes[0], "") if self.columns or axis_of(axes[0]) in self.down else ("", axes[0])
        first, second = (*axes, "", "")[:2]
        return first, second

    def looked_up(self, e: Tensor, axes: Sequence[str], others: Sequence[Expression]) -> Matrix:
        """`E_{x_s d}`: the rows of E that x names."""
        if len(others) > 1 or not isinstance(others[0], Tensor) or e.slots[0] is not others[0] or len(axes) != 1:
            raise NoForm(f"a slot of {e.name} is computed")
        by = self.tensor(others[0])
        if len(letters(by)) > 1:
            raise NoForm(f"{e.name} is read at a matrix of numbers")
        return Rows(Letter(e, "", axes[0]), by)

    # ------------------------------------------------------------------------------------------------------ arithmetic

    def sum(self, terms: Sequence[Expression]) -> Matrix:
        """Terms of one shape; a term that lacks an axis is repeated along it."""
        read = [self.matrix(term) for term in terms]
        wanted = common(read)
        return Plus(tuple(oriented(each, wanted) for each in read))

    def factors(self, e: Expression) -> list[Matrix]:
        """The factors of a product or a quotient, which divides by its last one."""
        match e:
            case Product():
                return [self.matrix(factor) for factor in e.factors]
            case Quotient(numerator, denominator):
                above = self.factors(numerator) if isinstance(numerator, Product) else [self.matrix(numerator)]
                return [*above, Inverse(self.matrix(denominator))]
            case _:
                return [self.matrix(e)]

    def total(self, e: Expression, over: Sequence[str]) -> Matrix:
        """A product summed over letters: labels by Σ, axes by products of matrices."""
        labels = tuple(letter for letter in over if self.is_label(letter))
        inner = product(self.factors(e), frozenset(over) - frozenset(labels))
        return Summed(labels, inner) if labels else inner

    def power(self, e: Power) -> Matrix:
        """Each number to a power that is one number."""
        exponent = self.matrix(e.exponent)
        if letters(exponent):
            raise NoForm("an exponent is a matrix")
        return Raised(self.matrix(e.base), exponent)

    # ------------------------------------------------------------------------------------------------------ operators

    def apply(self, e: Apply) -> Matrix:
        """A layer, an operator over letters, or a function of each number."""
        row = primitive(e.name, bool(e.indices))
        over = tuple(index.letter for index in e.indices)
        if self.calls(e):
            return self.call(e)
        if e.name == "sum" and over:
            return self.total(e.arguments[0], over)
        if row is None or row.kind == "function":
            return self.function(e)
        of = self.matrix(e.arguments[-1])
        if not set(over) <= set(letters(of)):
            raise NoForm(f"{e.name} works on {', '.join(over)}, which is no axis of a matrix here")
        return self.keeping(e, over, of) if row.kind == "keeping" else self.reducing(e, over, of)

    def keeping(self, e: Apply, over: tuple[str, ...], of: Matrix) -> Matrix:
        """`Sm_s'`, on each row."""
        if len(over) > 1:
            raise NoForm(f"{e.name} works on two axes")
        first = tuple(self.matrix(argument) for argument in e.arguments[:-1])
        if len(letters(of)) == 1:
            return RowWise(e.name, of, first)
        return oriented(RowWise(e.name, along(of, over[0]), first), shape(of))

    def reducing(self, e: Apply, over: tuple[str, ...], of: Matrix) -> Matrix:
        """`mean_d`, of each row, or of all."""
        whole = set(over) == set(letters(of))
        return Reduced(e.name, of if whole else along(of, over[0]), whole)

    def function(self, e: Apply) -> Matrix:
        """Its arguments in one shape; numbers stay numbers."""
        read = [self.matrix(argument) for argument in e.arguments]
        wanted = common(read)
        return Function(e.name, tuple(oriented(each, wanted) if letters(each) else each for each in read))

    def call(self, e: Apply) -> Matrix:
        """A layer works on axes; labels are carried along."""
        binding = self.scope.binding(e)
        assert binding is not None
        passed = self.passed[self.scope.layers[e.name].name]
        own = {theirs for ours, theirs in binding.letters.items() if axis_of(ours) not in passed}
        if worked_on := sorted(filter(self.is_label, own)):
            raise NoForm(f"{e.name} works on {', '.join(worked_on)}")
        axes = [letter for letter in self.scope.free(e) if not self.is_label(letter)]
        if len(axes) > 2:
            raise NoForm(f"{e.name} gives {len(axes)} axes, {', '.join(axes)}")
        return Call(e, tuple(self.matrix(argument) for argument in e.arguments), *self.placed(axes))
