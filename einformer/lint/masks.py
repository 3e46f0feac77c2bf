"""Does a mask show the past alone, and a softmax weigh the keys?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeGuard

from einformer.errors import Finding
from einformer.language.calls import axis_of
from einformer.language.tree import Apply, Expression, Index, Number, Tensor
from einformer.language.walk import subexpressions
from einformer.lint.letters import slot_letters
from einformer.lint.sections import Read

_BETWEEN = r"(?:[\s$,;{}()\"]|\\[()]|\\q?quad|\\text)*"
_CONDITION = re.compile(  # what follows `… = 0`: `$ for all $s' > s$`
    rf"{_BETWEEN}(?:for|if|when|whenever|where)\b(?:\s+all|\s+every)?{_BETWEEN}"
    r"(?P<first>[a-z]'*)\s*(?P<sign><|>|≤|≥|\\(?:leq?|geq?|lt|gt)\b)=?\s*(?P<second>[a-z]'*)(?![\w'])"
)
_LESS = ("<", "≤", "\\le", "\\leq", "\\lt")


def masks(read: Read, reads: list[Read], causal: bool) -> Iterator[Finding]:
    """What an equation says of masks and weights against the others of its section; `causal` is what the text says it is."""
    if causal:
        yield from _mask(read, reads)
        yield from _vanishing(read, reads)
    yield from _normalised(read, reads)


def _mask(read: Read, reads: list[Read]) -> Iterator[Finding]:
    """A causal mask lets a position see those up to its own: 0 where s' <= s, -inf where s' > s."""
    if not (isinstance(read.left, Tensor) and isinstance(read.right, Apply) and read.right.name == "where"):
        return
    condition, then, otherwise = read.right.arguments
    if not isinstance(condition, Apply) or condition.name not in ("<", "<=", ">", ">=") or not _is_mask(then, otherwise):
        return
    first, second = condition.arguments
    key = _key(read.left, reads)
    if not (isinstance(first, Index) and isinstance(second, Index) and key in (first.letter, second.letter)):
        return
    key_is_less = (condition.name in ("<", "<=")) == (first.letter == key)
    if axis_of(first.letter) == axis_of(second.letter) and key_is_less != (_number(then) == 0):
        query = second.letter if first.letter == key else first.letter
        message = f"the mask lets `{query}` see the positions `{key}` after it, and hides those before"
        yield Finding("E501", message, condition.span, (), f"0 where `{key} <= {query}`, -inf where `{key} > {query}`")


def _is_mask(then: Expression, otherwise: Expression) -> bool:
    return {_number(then), _number(otherwise)} == {0, float("-inf")}


def _number(e: Expression) -> float | None:
    return e.value if isinstance(e, Number) else None


def _key(mask: Tensor, reads: list[Read]) -> str | None:
    """The index that a softmax around the mask runs over; without one, the only primed index of the mask."""
    for read in reads:
        for x in read.made_of:
            if _is_softmax(x) and mask.name in {y.name for y in subexpressions(x) if isinstance(y, Tensor)}:
                return x.indices[0].letter
    primed = [letter for letter in slot_letters(mask) if letter.endswith("'")]
    return primed[0] if len(primed) == 1 and len(mask.slots) == 2 else None


def _vanishing(read: Read, reads: list[Read]) -> Iterator[Finding]:
    """`w_{ss'} = 0` for `s > s'` hides the past from weights that a softmax over s' made."""
    if not isinstance(read.left, Tensor) or read.right is None or _number(read.right) != 0:
        return
    zero = read.place(read.right.span)
    said = _CONDITION.match(zero.source.text, zero.end)
    made = (other for other in reads if isinstance(other.left, Tensor) and other.left.name == read.left.name)
    keys = {x.indices[0].letter for other in made for x in other.made_of if _is_softmax(x)}
    if said is None or len(keys) != 1 or not keys & {said["first"], said["second"]}:
        return
    first, second = said["first"], said["second"]
    key, query = (first, second) if first in keys else (second, first)
    key_is_less = (said["sign"] in _LESS) == (first == key)
    if key_is_less and key != query and axis_of(key) == axis_of(query):
        message = f"`{read.left.name}` is zero where `{key}` is before `{query}`: it hides the past"
        yield Finding("E501", message, read.left.span, (), f"zero for `{key} > {query}`")


def _is_softmax(x: Expression) -> TypeGuard[Apply]:
    return isinstance(x, Apply) and x.name == "Sm" and len(x.indices) == 1


def _normalised(read: Read, reads: list[Read]) -> Iterator[Finding]:
    """Weights that a softmax normalises over one index are summed over that one, not over its twin."""
    operators = [x for x in read.made_of if _is_softmax(x)]
    if read.defines is None or len(operators) != 1:
        return
    over, letters = operators[0].indices[0], slot_letters(read.defines)
    twins = [letter for letter in letters if axis_of(letter) == axis_of(over.letter) and letter != over.letter]
    if over.letter not in letters or len(twins) != 1:
        return
    for later in reads:
        for x in later.tensors:
            if x.name == read.defines.name and x is not read.left and _sums(later, x, letters, twins[0], over.letter):
                message = f"`Sm` is over `{over.letter}`, but its weights are summed over `{twins[0]}`"
                yield Finding("E312", message, over.span, (), f"`Sm_{twins[0]}`")
                return


def _sums(later: Read, use: Tensor, letters: tuple[str, ...], twin: str, over: str) -> bool:
    """Does the equation sum the slot of `twin`, and keep that of the index that was normalised?"""
    left = slot_letters(later.left) if isinstance(later.left, Tensor) else ()
    here = dict(zip(letters, slot_letters(use), strict=False))
    alike = list(map(axis_of, letters)) == list(map(axis_of, slot_letters(use)))
    return alike and bool(left) and here.get(over) in left and here.get(twin) not in left
