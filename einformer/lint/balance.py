"""Is each index of one equation on both its sides, or summed? The rules of sums (R2), for equations without a legend.

A side that is a formula has no left to say which indices are wanted: it wants those that nothing in it sums.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from einformer.errors import Finding
from einformer.language.agreement import repeated
from einformer.language.calls import axis_of
from einformer.language.calls import slot_letters as left_letters
from einformer.language.primitives import primitive
from einformer.language.scope import Scope, factors_of
from einformer.language.sizes import Legend
from einformer.language.tree import Apply, Equation, Expression, Group, Index, Name, Product, Quotient, Sum, Tensor
from einformer.language.walk import children, subexpressions

REMARKS = ("E303",)  # two readings: worth saying, and no error in a note


def balance(left: Expression, right: Expression, legend: Legend) -> Iterator[Finding]:
    """What is wrong with an equation by itself."""
    found = list(_defined(left, right, legend) if is_left(left) else _equal(left, right, legend))
    twice = [(x, other) for e, other in ((left, right), (right, left)) for x in subexpressions(e) if _repeats(x)]
    doubled = {letter for x, _ in twice for letter in _repeats(x)}
    yield from (finding for finding in found if finding.code != "E301" or finding.message.split("`")[1] not in doubled)
    for x, other in twice:
        yield from _diagonal(x, other, legend)


def _repeats(x: Expression) -> set[str]:
    """Letters that stand twice on one tensor: a trace sums them."""
    slots = (
        [m for slot in x.slots for m in (slot.members if isinstance(slot, Group) else (slot,))] if isinstance(x, Tensor) else []
    )
    letters = [slot.letter for slot in slots if isinstance(slot, Index)]
    return {letter for letter in letters if letters.count(letter) > 1} if len(set(letters)) < len(letters) else set()


def is_left(e: Expression) -> bool:
    """Can e be the left side of a definition: a name, with letters and groups of letters?"""
    if isinstance(e, Name):
        return True
    return isinstance(e, Tensor) and all(
        isinstance(slot, Index) or (isinstance(slot, Group) and all(isinstance(m, Index) for m in slot.members))
        for slot in e.slots
    )


def _diagonal(x: Expression, other: Expression, legend: Legend) -> Iterator[Finding]:
    """An index twice on one tensor. A diagonal is meant where the other side has the index too, a trace of two slots is one."""
    if isinstance(x, Tensor) and len(x.slots) > 2:
        kept = {y.letter for y in subexpressions(other) if isinstance(y, Index)}
        yield from (f for f in repeated(x.slots, legend) if f.message.split("`")[1] not in kept)


def _defined(left: Expression, right: Expression, legend: Legend) -> Iterator[Finding]:
    """T_L = e: L ⊢ e and L ⊆ free(e), unless e is a constant, or `x_i = δ_iv`, a tensor at some v that is fixed."""
    assert isinstance(left, Tensor | Name)
    scope = Scope({}, legend=legend)
    if not scope.free(right) or _open(right) or (isinstance(right, Tensor) and _is_part(left, right)):
        return
    if not any(isinstance(x, Tensor) for x in subexpressions(right)):  # a mask, a constant: made of numbers
        left = _shared(left, scope.free(right))
    scope.equation(Equation(left, "=", right, span=left.span))
    yield from (_at_letter(finding, left) for finding in _told(scope, right))


def _is_part(left: Tensor | Name, right: Tensor) -> bool:
    """Is it a tensor at some indices that are fixed, or `V_{ijab} = V_{ab}`, one that does not depend on all of its own?"""
    return needed(left) < needed(right) or (left.name[0] == right.name[0] and needed(right) < needed(left))


def _at_letter(finding: Finding, left: Tensor | Name) -> Finding:
    """What is said of a letter of the left side points at the letter."""
    letter = finding.message.split("`")[1]
    found = [x for x in subexpressions(left) if isinstance(x, Index) and x.letter == letter and finding.span == left.span]
    return replace(finding, span=found[0].span) if found else finding


def regrouped(left: Expression, right: Expression) -> tuple[Expression, Expression]:
    """The notes' `u_{bsd} = y_{bs(ea)}` is `u_{bs(ea)} = y_{bsea}` (R4)."""
    if not (isinstance(left, Tensor) and isinstance(right, Tensor) and all(isinstance(slot, Index) for slot in left.slots)):
        return left, right
    groups = [slot for slot in right.slots if isinstance(slot, Group)]
    merged = [slot for slot in left.slots if slot not in right.slots]
    if len(groups) != 1 or len(merged) != 1 or len(left.slots) != len(right.slots) or merged[0] in groups[0].members:
        return left, right
    slots = [groups[0] if slot is merged[0] else slot for slot in left.slots]
    opened = [member for slot in right.slots for member in (slot.members if isinstance(slot, Group) else (slot,))]
    return replace(left, slots=tuple(slots)), replace(right, slots=tuple(opened))


def _open(e: Expression) -> bool:
    """Has a sum a term that is but a name? It may stand for anything: `… + ε`."""
    return isinstance(e, Sum) and any(isinstance(term, Name) for term in e.terms)


def _shared(left: Tensor | Name, free: dict[str, None]) -> Tensor | Name:
    slots = (
        tuple(slot for slot in left.slots if isinstance(slot, Index) and slot.letter in free)
        if isinstance(left, Tensor)
        else ()
    )
    return Tensor(left.name, slots, span=left.span) if slots else Name(left.name, span=left.span)


def _equal(left: Expression, right: Expression, legend: Legend) -> Iterator[Finding]:
    """Two formulas: some choice of wanted indices must suit both, those that the one needs or those that the other does."""
    needs, theirs = needed(left), needed(right)
    if not (any_index(left) and any_index(right)) and not (needs or theirs):
        return
    if not any_index(right) and any_index(left):
        theirs = needs
    choices = [_scoped(left, right, frozenset(wanted), legend) for wanted in (needs, theirs, needs | theirs)]
    if all(choices):
        yield from min(choices, key=len)


def _scoped(left: Expression, right: Expression, wanted: frozenset[str], legend: Legend) -> list[Finding]:
    found = list[Finding]()
    for side in (left, right):
        scope = Scope({}, legend=legend)
        scope.elaborate(side, wanted)
        found += _told(scope, side)
        if (
            missing := [letter for letter in wanted if letter not in scope.free(side)]
            if any_index(side) and not _open(side)
            else []
        ):
            listed = ", ".join(f"`{letter}`" for letter in sorted(missing))
            found.append(
                Finding(
                    "E302",
                    f"one side has {listed}, the other never mentions that",
                    side.span,
                    (),
                    "the same indices on both sides",
                )
            )
    return found


def _told(scope: Scope, e: Expression) -> Iterator[Finding]:
    """The findings, but for those about a bare letter: it may be a number as well."""
    bare = {x.span for x in bare_letters(e)}
    return (finding for finding in scope.findings if finding.span not in bare)


def bare_letters(e: Expression) -> Iterator[Index]:
    """The letters of e that stand in no subscript."""
    if isinstance(e, Index):
        yield e
    elif not isinstance(e, Tensor):
        for child in children(e):
            yield from bare_letters(child)


def any_index(e: Expression) -> bool:
    """Is there an index in e, on a tensor?"""
    return any(isinstance(x, Tensor) for x in subexpressions(e))


def needed(e: Expression) -> frozenset[str]:
    """The indices that nothing in e sums: they must be wanted around it."""
    match e:
        case Tensor():
            return frozenset(x.letter for x in subexpressions(e) if isinstance(x, Index))
        case Index():
            return frozenset()
        case Product() | Quotient():
            having = [(needed(f), {x.letter for x in subexpressions(f) if isinstance(x, Index)}) for f in factors_of(e)]
            return frozenset(i for own, _ in having for i in own if sum(i in all_of for _, all_of in having) == 1)
        case Apply() if e.indices:
            bound, inside = frozenset(i.letter for i in e.indices), frozenset().union(*map(needed, e.arguments))
            row = primitive(e.name, True)
            return inside - bound if row is not None and row.kind == "reducing" else inside | bound
        case _:
            return frozenset().union(*map(needed, children(e)))


def axes_told(findings: list[Finding]) -> set[str]:
    """The axes of the letters that findings name."""
    words = (word for finding in findings for word in finding.message.split("`")[1::2])
    return {axis_of(word) for word in words if len(word.rstrip("'")) == 1}


__all__ = ["REMARKS", "Sum", "axes_told", "balance", "bare_letters", "is_left", "left_letters", "needed"]
