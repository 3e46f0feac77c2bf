"""Writes out each implicit sum (R2), and refuses terms that an operator cannot feel (R3).

The rules are those of the language reference, "the scope of a sum": `K ⊢ e`, "e is well scoped where the indices K are
wanted", is `Scope.elaborate(e, K)`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from einformer.errors import EinformerError, Finding
from einformer.language.calls import Binding, Letters, axis_of, bind_call, callees, slot_letters
from einformer.language.primitives import primitive
from einformer.language.printer import expression
from einformer.language.sizes import Legend
from einformer.language.tree import Apply, Equation, Expression, Index, Layer, Number, Product, Quotient, Sum, Tensor
from einformer.language.walk import children, find_all, loops, rebuild, subexpressions

Wanted = frozenset[str]


@dataclass(slots=True)
class Scope:
    """The callable layers by name, the letters of the loops around, and the findings.

    With a `legend`, findings state the sizes of indices.
    """

    layers: Mapping[str, Layer]
    loops: Wanted = frozenset()
    legend: Legend | None = None
    findings: list[Finding] = field(default_factory=list)
    _free: dict[int, tuple[Expression, Letters]] = field(default_factory=dict)
    _told: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, layer: Layer, layers: Mapping[str, Layer]) -> Scope:
        return cls(callees(layer, layers), frozenset(loop.index.letter for loop in loops(layer.body)))

    # ------------------------------------------------------------------------------------------------------- free

    # Free indices are those that nothing inside e consumes, in the order of the text.
    def free(self, e: Expression) -> Letters:
        cached = self._free.get(id(e))
        if cached is None:
            cached = self._free[id(e)] = (e, self._free_of(e))  # e is kept, so that its id stays its own
        return cached[1]

    def _free_of(self, e: Expression) -> Letters:
        match e:
            case Index():
                return {e.letter: None}
            case Apply() if (binding := self.binding(e)) is not None:
                consumed = frozenset().union(*binding.bound)
                carried = {i: None for argument in e.arguments for i in self.free(argument) if i not in consumed}
                return carried | dict.fromkeys(binding.output)
            case Apply() if self.reduces(e):
                bound = {index.letter for index in e.indices}
                return {i: None for argument in e.arguments for i in self.free(argument) if i not in bound}
            case _:
                return {i: None for child in children(e) for i in self.free(child)}

    def binding(self, e: Apply) -> Binding | None:
        layer = self.layers.get(e.name)
        return bind_call(layer, e, [self.free(argument) for argument in e.arguments], self.loops) if layer else None

    def reduces(self, e: Apply) -> bool:
        row = primitive(e.name, bool(e.indices))
        return row is not None and row.kind == "reducing"

    # Returns the indices that e binds in each argument.
    def bound(self, e: Apply) -> tuple[Wanted, ...]:
        binding = self.binding(e)
        if binding is not None:
            return binding.bound
        return (frozenset(index.letter for index in e.indices),) * len(e.arguments)

    # -------------------------------------------------------------------------------------------------- elaborate

    # equation: T_L = e iff L ⊢ e and L ⊆ free(e)
    def equation(self, equation: Equation) -> Equation:
        left = slot_letters(equation.left)
        try:
            free = self.free(equation.right)
            if missing := [letter for letter in left if letter not in free]:
                self.report_missing(equation, missing)
                return equation
            return replace(equation, right=self.elaborate(equation.right, frozenset(left) | self.loops))
        except EinformerError as error:
            self.findings += error.findings
            return equation

    # Other errors of the line may follow from the first letter.
    def report_missing(self, equation: Equation, letters: list[str]) -> None:
        message = f"the left side has {', '.join(f'`{letter}`' for letter in letters)}, the right side never mentions that"
        side = equation.right if equation.relation == "return" else equation.left
        self.report("E302", message, side, f"`{letters[0]}` on the right, or a left side without it", letters[0])

    # Implicit sums are written out where the indices `wanted` are wanted around e.
    def elaborate(self, e: Expression, wanted: Wanted) -> Expression:
        match e:
            case Product() | Quotient():
                return self.elaborate_product(e, wanted)
            case Apply():
                return self.elaborate_application(e, wanted)
            case Index() | Tensor():
                self.check_leaf(e, wanted)
                return e
            case _:
                return rebuild(e, lambda child: self.elaborate(child, wanted))

    # leaf: K ⊢ t iff free(t) ⊆ K
    def check_leaf(self, e: Index | Tensor, wanted: Wanted) -> None:
        for letter in self.free(e):
            if letter not in wanted:
                place = next((x for x in find_all(Index, e) if x.letter == letter), e)
                message = f"`{letter}` occurs once in its product and is not an index of the left side"
                fix = f"`{letter}` on the left, on the factor that it is summed with, or `sum_{letter}`"
                self.report("E301", message, place, fix, letter)

    # product: K ⊢ f₁ … fₙ iff K ∪ Σ ⊢ fⱼ for each j; it means sum_Σ (f₁ … fₙ) `bound` are the indices of an operator directly
    # around it, which have their sum as those of Σ do.
    def elaborate_product(self, e: Product | Quotient, wanted: Wanted, bound: Wanted = frozenset()) -> Expression:
        summed = self.find_summed(e, wanted | bound)
        inside = wanted | bound | frozenset(summed)
        self.check_reading(e, wanted - bound, inside)
        result = self.elaborate_factors(e, inside)
        return Apply("sum", tuple(Index(i, span=e.span) for i in summed), (result,), span=e.span) if summed else result

    # The factors of a numerator belong to the quotient's product: no sum stands on them alone.
    def elaborate_factors(self, e: Product | Quotient, wanted: Wanted) -> Expression:
        if isinstance(e, Product):
            return replace(e, factors=tuple(self.elaborate(f, wanted) for f in e.factors))
        above = e.numerator
        above = self.elaborate_factors(above, wanted) if isinstance(above, Product) else self.elaborate(above, wanted)
        return replace(e, numerator=above, denominator=self.elaborate(e.denominator, wanted))

    # Σ = {i ∉ K : i ∈ free(fⱼ) for two or more j}, in the order of the text.
    def find_summed(self, e: Product | Quotient, wanted: Wanted) -> tuple[str, ...]:
        having = [self.free(f) for f in factors_of(e)]
        letters = {letter: None for letters in having for letter in letters if letter not in wanted}
        return tuple(letter for letter in letters if sum(letter in free for free in having) > 1)

    # apply, bind: I ⊆ free(e), K ∪ I ⊢ e, and I ⊆ K if the operator keeps I; calls alike
    def elaborate_application(self, e: Apply, wanted: Wanted) -> Expression:
        binding = self.binding(e)
        if binding is None:
            self.check_operator(e, wanted)
        else:
            self.check_kept(e, binding.output, wanted)
        if written_out := self.find_product(e):
            product, bound = written_out
            return replace(e, arguments=(self.elaborate_product(product, wanted, bound),))
        pairs = zip(e.arguments, self.bound(e), strict=True)
        return replace(e, arguments=tuple(self.elaborate(argument, wanted | bound) for argument, bound in pairs))

    def find_product(self, e: Expression) -> tuple[Product | Quotient, Wanted] | None:
        if isinstance(e, Apply) and self.reduces(e) and isinstance(e.arguments[-1], Product | Quotient):
            return e.arguments[-1], self.bound(e)[-1]
        return None

    # The argument has the indices, and those that the operator keeps are wanted.
    def check_operator(self, e: Apply, wanted: Wanted) -> None:
        free = self.free(e.arguments[-1])
        for index in e.indices:
            if index.letter not in free:
                have = ", ".join(f"`{letter}`" for letter in free) or "no index"
                message = f"`{e.name}` is over `{index.letter}`, but its argument has {have}"
                self.report("E306", message, index, "an index that the argument has", index.letter)
        if not self.reduces(e):
            self.check_kept(e, tuple(index.letter for index in e.indices if index.letter in free), wanted)

    # I ⊆ K if the operator keeps I.
    def check_kept(self, e: Apply, letters: tuple[str, ...], wanted: Wanted) -> None:
        for letter in letters:
            if letter not in wanted:
                message = f"`{e.name}` leaves `{letter}`, which nothing around it wants"
                self.report("E301", message, e, f"`{letter}` on the left, or a factor to sum it with", letter)

    # ------------------------------------------------------------------------------------------------ one reading

    # Two readings: an index that joins the factors could as well be summed inside one of them.
    def check_reading(self, e: Product | Quotient, wanted: Wanted, inside: Wanted) -> None:
        factors = factors_of(e)
        for factor in factors:
            others = [f for f in factors if f is not factor]
            if letters := [letter for letter in self.free(factor) if self.is_ambiguous(letter, factor, others, wanted, inside)]:
                named = " or ".join(f"`{letter}`" for letter in letters)
                message = f"{named} could be summed inside this factor or outside it: the text has two readings"
                fix = "the inner product on a line of its own, or a prime on the index that it sums"
                self.report("E303", message, factor, fix, letters[-1])
                return

    def is_ambiguous(self, letter: str, factor: Expression, others: list[Expression], wanted: Wanted, inside: Wanted) -> bool:
        if not self.pairs(letter, factor):
            return False
        having = [f for f in others if letter in self.free(f)]
        complete = letter in wanted or len(having) > 1 or (len(having) == 1 and self.pairs(letter, having[0]))
        return bool(having) and complete and self.is_silent(letter, factor, inside)

    def pairs(self, letter: str, e: Expression) -> bool:
        if not children(e) or isinstance(e, Tensor) or letter not in self.free(e):
            return False
        if isinstance(e, Product | Quotient):
            having = [f for f in factors_of(e) if letter in self.free(f)]
            return len(having) > 1 or self.pairs(letter, having[0])
        return all(self.pairs(letter, child) for child, _ in self.list_carrying(letter, e))

    # A silent product inside e, at which `letter` would be summed, sums nothing as it stands.
    def is_silent(self, letter: str, e: Expression, wanted: Wanted, bound: Wanted = frozenset()) -> bool:
        if isinstance(e, Product | Quotient):
            summed = frozenset(self.find_summed(e, wanted | bound)) | bound
            having = [f for f in factors_of(e) if letter in self.free(f)]
            return not summed if len(having) > 1 else self.is_silent(letter, having[0], wanted | summed)
        if written_out := self.find_product(e):
            return self.is_silent(letter, written_out[0], wanted, written_out[1])
        return any(self.is_silent(letter, child, wanted | bound) for child, bound in self.list_carrying(letter, e))

    def list_carrying(self, letter: str, e: Expression) -> list[tuple[Expression, Wanted]]:
        bound = self.bound(e) if isinstance(e, Apply) else (frozenset[str](),) * len(children(e))
        pairs = zip(children(e), bound, strict=True)
        return [(child, bound) for child, bound in pairs if letter in self.free(child) and letter not in bound]

    # An axis is reported once: one slip leaves two indices alone, `s` and `s'`.
    def report(self, code: str, message: str, place: Expression, fix: str, letter: str) -> None:
        axis = axis_of(letter)
        if axis not in self._told:
            self._told.add(axis)
            facts = (self.legend.describe(letter),) if self.legend else ()
            self.findings.append(Finding(code, message, place.span, facts, fix))


# A denominator is a factor of its product.
def factors_of(e: Product | Quotient) -> tuple[Expression, ...]:
    if isinstance(e, Product):
        return e.factors
    return (e.numerator.factors if isinstance(e.numerator, Product) else (e.numerator,)) + (e.denominator,)


Line = Callable[[Tensor], Equation | None]  # that defines a tensor which is read once


# These terms, of this line and of earlier ones, change nothing for an operator around them.
def find_unfelt(e: Expression, scope: Scope, line: Line) -> Iterator[Finding]:
    for x in subexpressions(e):
        row = primitive(x.name, True) if isinstance(x, Apply) and x.indices else None
        if isinstance(x, Apply) and row is not None and row.ignores_shifts and scope.binding(x) is None:
            for term in _find_shifts(x.arguments[-1], {index.letter for index in x.indices}, scope, line):
                yield _report(term, x, scope)


# Through factors without an index of `over`, and past the values that a mask hides.
def _find_shifts(e: Expression, over: set[str], scope: Scope, line: Line) -> Iterator[Expression]:
    match e:
        case Tensor() if (there := line(e)) is not None and over & scope.free(e).keys():
            if len(e.slots) != len(letters := slot_letters(there.left)):  # another finding
                return
            own = dict(zip(e.slots, letters, strict=True))
            over = {own[slot] for slot in own if isinstance(slot, Index) and slot.letter in over}
            parts: tuple[Expression, ...] = (there.right,)
        case Sum() if over & scope.free(e).keys():
            parts = e.terms
        case Product() | Quotient() if over & scope.free(e).keys():
            parts = tuple(factor for factor in factors_of(e) if over & scope.free(factor).keys())
            over_one = isinstance(e, Quotient) and parts and parts[0] is e.denominator
            parts = () if len(parts) != 1 or over_one else parts
        case Apply(name="where", arguments=(_, *branches)) if Number(-math.inf) in branches:
            parts = tuple(branches)
        case _:
            parts = ()
            if not over & scope.free(e).keys() and _may_be_a_slip(e, over, line):
                yield e
    for part in parts:
        yield from _find_shifts(part, over, scope, line)


def _may_be_a_slip(e: Expression, over: set[str], line: Line) -> bool:
    tensors = [*find_all(Tensor, e)]
    lines = [there.right for x in tensors if (there := line(x)) is not None]
    operators = find_all(Apply, e, *lines)
    return bool(tensors) and not any(index.letter in over for x in operators for index in x.indices)


def _report(term: Expression, operator: Apply, scope: Scope) -> Finding:
    letters = [index.letter for index in operator.indices]
    shown, named = f"`{operator.name}_{letters[0]}`", " or ".join(f"`{letter}`" for letter in letters)
    facts = tuple(scope.legend.describe(letter) for letter in letters) if scope.legend else ()
    message = f"this has no {named}, so {shown} is the same without it"
    return Finding("E313", message, term.span, facts, _suggest(term, operator, scope))


# The tensor with the missing prime, else an index that each term has.
def _suggest(term: Expression, operator: Apply, scope: Scope) -> str:
    letters = [index.letter for index in operator.indices]
    for tensor in reversed([*find_all(Tensor, term)]):
        for slot in tensor.slots:
            if isinstance(slot, Index) and (twin := next((i for i in letters if axis_of(i) == axis_of(slot.letter)), "")):
                slots = tuple(replace(slot, letter=twin) if other is slot else other for other in tensor.slots)
                return f"`{expression(replace(tensor, slots=slots))}`, or the text without it"
    argument = operator.arguments[-1]
    free = [scope.free(part) for part in (argument.terms if isinstance(argument, Sum) else (argument,))]
    shared = sorted((letter for letter in free[0] if all(letter in others for others in free)), key=lambda i: "'" not in i)
    other = f"`{operator.name}_{shared[0]}`" if shared and len(free) > 1 else f"`{letters[0]}` in this term"
    return f"{other}, or the text without it"
