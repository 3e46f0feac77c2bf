"""Checks that a mask shows only the past, and that a softmax runs over the keys."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeGuard

from einformer.errors import Finding
from einformer.language.calls import axis_of
from einformer.language.tree import Apply, Expression, Index, Number, Tensor
from einformer.language.walk import subexpressions
from einformer.lint.letters import slot_letters
from einformer.lint.sections import Context, Read

_BETWEEN = r"(?:[\s$,;{}()\"]|\\[()]|\\q?quad|\\text)*"
_CONDITION = re.compile(  # the text after `… = 0`: `$ for all $s' > s$`
    rf"{_BETWEEN}(?:for|if|when|whenever|where)\b(?:\s+all|\s+every)?{_BETWEEN}"
    r"(?P<first>[a-z]'*)\s*(?P<sign><|>|≤|≥|\\(?:leq?|geq?|lt|gt)\b)=?\s*(?P<second>[a-z]'*)(?![\w'])"
)
_LESS = ("<", "≤", "\\le", "\\leq", "\\lt")


def check_masks(read: Read, reads: list[Read], known: Context) -> Iterator[Finding]:
    """Yields the errors of masks and weights in an equation, given the others of its section."""
    if known.causal:
        yield from _check_mask(read, reads)
        yield from _check_zeros(read, reads)
    yield from _check_normalised_index(read, reads, known)


def _check_mask(read: Read, reads: list[Read]) -> Iterator[Finding]:
    if not (isinstance(read.left, Tensor) and isinstance(read.right, Apply) and read.right.name == "where"):
        return
    condition, then, otherwise = read.right.arguments
    if not isinstance(condition, Apply) or condition.name not in ("<", "<=", ">", ">=") or not _is_mask(then, otherwise):
        return
    first, second = condition.arguments
    key = _key_of(read.left, reads)
    if not (isinstance(first, Index) and isinstance(second, Index) and key in (first.letter, second.letter)):
        return
    key_is_less = (condition.name in ("<", "<=")) == (first.letter == key)
    if axis_of(first.letter) == axis_of(second.letter) and key_is_less != (_number_of(then) == 0):
        query = second.letter if first.letter == key else first.letter
        message = f"the mask lets `{query}` see the positions `{key}` after it, and hides those before"
        yield Finding("E501", message, condition.span, (), f"0 where `{key} <= {query}`, -inf where `{key} > {query}`")


def _is_mask(then: Expression, otherwise: Expression) -> bool:
    return {_number_of(then), _number_of(otherwise)} == {0, float("-inf")}


def _number_of(e: Expression) -> float | None:
    return e.value if isinstance(e, Number) else None


def _key_of(mask: Tensor, reads: list[Read]) -> str | None:
    for read in reads:
        for x in read.made_of:
            if _is_softmax(x) and mask.name in {y.name for y in subexpressions(x) if isinstance(y, Tensor)}:
                return x.indices[0].letter
    primed = [letter for letter in slot_letters(mask) if letter.endswith("'")]
    return primed[0] if len(primed) == 1 and len(mask.slots) == 2 else None


def _check_zeros(read: Read, reads: list[Read]) -> Iterator[Finding]:
    if not isinstance(read.left, Tensor) or read.right is None or _number_of(read.right) != 0:
        return
    zero = read.place(read.right.span)
    condition = _CONDITION.match(zero.source.text, zero.end)
    definitions = (other for other in reads if isinstance(other.left, Tensor) and other.left.name == read.left.name)
    keys = {x.indices[0].letter for other in definitions for x in other.made_of if _is_softmax(x)}
    if condition is None or len(keys) != 1 or not keys & {condition["first"], condition["second"]}:
        return
    first, second = condition["first"], condition["second"]
    key, query = (first, second) if first in keys else (second, first)
    key_is_less = (condition["sign"] in _LESS) == (first == key)
    if key_is_less and key != query and axis_of(key) == axis_of(query):
        message = f"`{read.left.name}` is zero where `{key}` is before `{query}`: it hides the past"
        yield Finding("E501", message, read.left.span, (), f"zero for `{key} > {query}`")


def _is_softmax(x: Expression) -> TypeGuard[Apply]:
    return isinstance(x, Apply) and x.name == "Sm" and len(x.indices) == 1


# `s` and `s'` are one axis, and so are `s` and `t` if the legend gives them one size.
def _check_normalised_index(read: Read, reads: list[Read], known: Context) -> Iterator[Finding]:
    operators = [x for x in read.made_of if _is_softmax(x)]
    if read.defines is None or len(operators) != 1:
        return
    over, letters = operators[0].indices[0], slot_letters(read.defines)
    twins = [letter for letter in letters if known.are_twins(letter, over.letter) and letter != over.letter]
    if over.letter not in letters or len(twins) != 1:
        return
    for later in reads:
        for x in later.tensors:
            if x.name == read.defines.name and x is not read.left and _sums(later, x, letters, twins[0], over.letter):
                message = f"`Sm` is over `{over.letter}`, but its weights are summed over `{twins[0]}`"
                yield Finding("E312", message, over.span, (), f"`Sm_{twins[0]}`")
                return


def _sums(later: Read, use: Tensor, letters: tuple[str, ...], twin: str, over: str) -> bool:
    left = slot_letters(later.left) if isinstance(later.left, Tensor) else ()
    here = dict(zip(letters, slot_letters(use), strict=False))
    alike = list(map(axis_of, letters)) == list(map(axis_of, slot_letters(use)))
    return alike and bool(left) and here.get(over) in left and here.get(twin) not in left
