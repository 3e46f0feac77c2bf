"""Checks each equation by itself: every index stands on both sides or is summed (R2). No legend is needed.

A formula without a left side keeps every index that nothing in it sums.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from einformer.errors import Finding
from einformer.language.body import find_repeated
from einformer.language.calls import axis_of
from einformer.language.calls import slot_letters as left_letters
from einformer.language.primitives import primitive
from einformer.language.scope import Scope, factors_of
from einformer.language.sizes import Legend
from einformer.language.tree import Apply, Equation, Expression, Group, Index, Name, Product, Quotient, Sum, Tensor
from einformer.language.walk import children, subexpressions
from einformer.lint.notes.signs import OF_AUTHOR

_COMMAND = re.compile(r"\\[A-Za-z]+")
REMARKS = ("E303",)  # two readings: worth saying, and no error in a note


def balance(left: Expression, right: Expression, legend: Legend) -> Iterator[Finding]:
    """Yields the errors of an equation by itself."""
    findings = list(_check_definition(left, right, legend) if is_left(left) else _check_equality(left, right, legend))
    twice = [(x, other) for e, other in ((left, right), (right, left)) for x in subexpressions(e) if _find_repeated(x)]
    doubled = {letter for x, _ in twice for letter in _find_repeated(x)}
    yield from (finding for finding in findings if finding.code != "E301" or finding.message.split("`")[1] not in doubled)
    for x, other in twice:
        yield from _check_diagonal(x, other, legend)
    yield from (*find_empty_sums(left), *find_empty_sums(right))


def _find_repeated(x: Expression) -> set[str]:
    slots = (
        [m for slot in x.slots for m in (slot.members if isinstance(slot, Group) else (slot,))] if isinstance(x, Tensor) else []
    )
    letters = [slot.letter for slot in slots if isinstance(slot, Index)]
    return {letter for letter in letters if letters.count(letter) > 1} if len(set(letters)) < len(letters) else set()


def is_left(e: Expression) -> bool:
    """Returns whether e can be the left side of a definition: a name, with letters and groups of letters."""
    if isinstance(e, Name):
        return True
    return isinstance(e, Tensor) and all(
        isinstance(slot, Index) or (isinstance(slot, Group) and all(isinstance(m, Index) for m in slot.members))
        for slot in e.slots
    )


# If the other side has the index too, a diagonal is meant. Two slots with one index are a trace.
def _check_diagonal(x: Expression, other: Expression, legend: Legend) -> Iterator[Finding]:
    if isinstance(x, Tensor) and len(x.slots) > 2:
        kept = {y.letter for y in subexpressions(other) if isinstance(y, Index)}
        yield from (f for f in find_repeated(x.slots, legend) if f.message.split("`")[1] not in kept)


def find_empty_sums(e: Expression) -> Iterator[Finding]:
    r"""Yields the sums over a letter that their argument never mentions, `\sum_j x_i`, which are wrong under any legend."""
    scope = Scope({})
    for x in subexpressions(e):
        if isinstance(x, Apply) and x.name == "sum" and (empty := _find_empty(x)):
            scope.check_operator(replace(x, indices=tuple(empty)), frozenset(index.letter for index in x.indices))
    yield from scope.findings


# A function of the author may have the letter where no formula shows it, and so may a label: `W^{(j)}`. `\sum_i 1` is n.
def _find_empty(e: Apply) -> list[Index]:
    (argument,) = e.arguments
    letters = _COMMAND.sub(" ", argument.span.text)
    hidden = any(isinstance(x, Apply) and x.name.endswith(OF_AUTHOR) for x in subexpressions(argument))
    return [i for i in e.indices if i.letter not in letters and not hidden and has_index(argument)]


# T_L = e: L ⊢ e and L ⊆ free(e), unless e is a constant, or a tensor at a fixed v: `x_i = δ_iv`.
def _check_definition(left: Expression, right: Expression, legend: Legend) -> Iterator[Finding]:
    assert isinstance(left, Tensor | Name)
    scope = Scope({}, legend=legend)
    if not scope.free(right) or _is_statement(left, right):
        return
    if _has_bare_name(right):  # which may have the indices that the others lack
        scope.elaborate(right, frozenset(left_letters(left)))
        yield from _drop_bare_letters(scope, right)
        return
    if not any(isinstance(x, Tensor) for x in subexpressions(right)):  # a mask, a constant: made of numbers
        left = _restrict_left(left, scope.free(right))
    scope.equation(Equation(left, "=", right, span=left.span))
    yield from (_point_at_letter(finding, left) for finding in _drop_bare_letters(scope, right))


# No definition, but a fact about some elements: a value that is chosen, `w = 2 n_j`, or `G_t = g_i`; elements of one tensor
# that are proportional, `x_{nk} = c x_{nj}`.
def _is_statement(left: Expression, right: Expression) -> bool:
    tensors = [x for x in subexpressions(right) if isinstance(x, Tensor)]
    if isinstance(left, Name):
        letters = Counter(x.letter for tensor in tensors for x in subexpressions(tensor) if isinstance(x, Index))
        return not any(isinstance(x, Apply) and x.indices for x in subexpressions(right)) and set(letters.values()) <= {1}
    if isinstance(left, Tensor) and isinstance(right, Tensor):
        return _is_part(left, right) or not find_free(left) & find_free(right)
    alike = [x for x in tensors if isinstance(left, Tensor) and x.name == left.name and find_free(x) != find_free(left)]
    return isinstance(right, Product) and bool(alike) and all(x in alike or len(x.slots) < 2 for x in tensors)


# A tensor at fixed indices, or `V_{ijab} = V_{ab}`: a tensor that does not depend on all of its indices.
def _is_part(left: Tensor | Name, right: Tensor) -> bool:
    return find_free(left) < find_free(right) or (left.name[0] == right.name[0] and find_free(right) < find_free(left))


def _point_at_letter(finding: Finding, left: Tensor | Name) -> Finding:
    letter = finding.message.split("`")[1]
    indices = [x for x in subexpressions(left) if isinstance(x, Index) and x.letter == letter and finding.span == left.span]
    return replace(finding, span=indices[0].span) if indices else finding


def regroup(left: Expression, right: Expression) -> tuple[Expression, Expression]:
    """Rewrites the notes' `u_{bsd} = y_{bs(ea)}` as `u_{bs(ea)} = y_{bsea}` (R4)."""
    if not (isinstance(left, Tensor) and isinstance(right, Tensor) and all(isinstance(slot, Index) for slot in left.slots)):
        return left, right
    groups = [slot for slot in right.slots if isinstance(slot, Group)]
    merged = [slot for slot in left.slots if slot not in right.slots]
    if len(groups) != 1 or len(merged) != 1 or len(left.slots) != len(right.slots) or merged[0] in groups[0].members:
        return left, right
    slots = [groups[0] if slot is merged[0] else slot for slot in left.slots]
    opened = [member for slot in right.slots for member in (slot.members if isinstance(slot, Group) else (slot,))]
    return replace(left, slots=tuple(slots)), replace(right, slots=tuple(opened))


# A term that is a bare name may stand for any tensor: `… + ε`.
def _has_bare_name(e: Expression) -> bool:
    return isinstance(e, Sum) and any(isinstance(term, Name) for term in e.terms)


def _restrict_left(left: Tensor | Name, free: dict[str, None]) -> Tensor | Name:
    slots = (
        tuple(slot for slot in left.slots if isinstance(slot, Index) and slot.letter in free)
        if isinstance(left, Tensor)
        else ()
    )
    return Tensor(left.name, slots, span=left.span) if slots else Name(left.name, span=left.span)


# One choice of wanted indices must suit both formulas.
def _check_equality(left: Expression, right: Expression, legend: Legend) -> Iterator[Finding]:
    needs, theirs = find_free(left), find_free(right)
    more = needs ^ theirs
    summed = any(isinstance(x, Sum) and has_index(x) for side in (left, right) for x in subexpressions(side))
    if _is_statement(left, right) or (len(more) == 1 and not summed):  # for each of them: `\sum_j A_{ij} = c`
        return
    if not (has_index(left) and has_index(right)):
        return
    choices = [_check_with(left, right, frozenset(wanted), legend) for wanted in (needs, theirs, needs | theirs)]
    if all(choices):
        yield from min(choices, key=len)


def _check_with(left: Expression, right: Expression, wanted: frozenset[str], legend: Legend) -> list[Finding]:
    findings = list[Finding]()
    for side in (left, right):
        scope = Scope({}, legend=legend)
        scope.elaborate(side, wanted)
        findings += _drop_bare_letters(scope, side)
        if (
            missing := [letter for letter in wanted if letter not in scope.free(side)]
            if has_index(side) and not _has_bare_name(side)
            else []
        ):
            listed = ", ".join(f"`{letter}`" for letter in sorted(missing))
            findings.append(
                Finding(
                    "E302",
                    f"one side has {listed}, the other never mentions that",
                    side.span,
                    (),
                    "the same indices on both sides",
                )
            )
    return findings


# A bare letter may be a number as well, so nothing is reported about it, nor about a sum: `find_empty_sums` does.
def _drop_bare_letters(scope: Scope, e: Expression) -> Iterator[Finding]:
    bare = {x.span for x in find_bare_letters(e)} | {x.span for x in _find_inner_letters(e)}
    sums = [x for x in subexpressions(e) if isinstance(x, Apply) and x.name == "sum"]
    bare |= {index.span for x in sums for index in x.indices}
    return (finding for finding in scope.findings if finding.span not in bare)


# In a computed slot, `x_{t + j}`, or in one that a tensor chooses, `p_{y_i}`, a letter may be a number. `t - 1` is a step of t.
def _find_inner_letters(e: Expression) -> Iterator[Index]:
    for tensor in (x for x in subexpressions(e) if isinstance(x, Tensor)):
        for slot in (slot for slot in tensor.slots if not isinstance(slot, Index | Group)):
            letters = [x for x in subexpressions(slot) if isinstance(x, Index)]
            yield from letters if isinstance(slot, Tensor) or len(letters) > 1 else ()


def find_bare_letters(e: Expression) -> Iterator[Index]:
    """Yields the letters of e that do not stand in a subscript."""
    if isinstance(e, Index):
        yield e
    elif not isinstance(e, Tensor):
        for child in children(e):
            yield from find_bare_letters(child)


def has_index(e: Expression) -> bool:
    """Returns whether a tensor in e has an index."""
    return any(isinstance(x, Tensor) for x in subexpressions(e))


def find_free(e: Expression) -> frozenset[str]:
    """Returns the indices that nothing in e sums."""
    match e:
        case Tensor():
            return frozenset(x.letter for x in subexpressions(e) if isinstance(x, Index))
        case Index():
            return frozenset()
        case Product() | Quotient():
            having = [(find_free(f), {x.letter for x in subexpressions(f) if isinstance(x, Index)}) for f in factors_of(e)]
            return frozenset(i for own, _ in having for i in own if sum(i in all_of for _, all_of in having) == 1)
        case Apply() if e.indices:
            bound, inside = frozenset(i.letter for i in e.indices), frozenset().union(*map(find_free, e.arguments))
            row = primitive(e.name, True)
            return inside - bound if row is not None and row.kind == "reducing" else inside | bound
        case _:
            return frozenset().union(*map(find_free, children(e)))


def find_axes(findings: list[Finding]) -> set[str]:
    """Returns the axes of the letters that findings name."""
    words = (word for finding in findings for word in finding.message.split("`")[1::2])
    return {axis_of(word) for word in words if len(word.rstrip("'")) == 1}


__all__ = ["REMARKS", "Sum", "balance", "find_axes", "find_bare_letters", "find_free", "is_left", "left_letters"]
