"""Infers the axes of tensors as letters. Sizes stay unknown: an axis is known only by its letter.

An axis is the tuple of letters that lie in it, the outermost first: `("d",)`, or `("a", "e")` after a merge. It is empty
for length 1, and `None` if nothing is known. An unknown axis agrees with every other: a finding must be right.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

Axis = tuple[str, ...] | None
Shape = tuple[Axis, ...]

ONE: Axis = ()
POSITIONS = (frozenset("st"), frozenset("ST"), frozenset("ij"), frozenset("qk"))  # letters that people use for one axis, twice
_EITHER = "*"  # after a letter: it, or the other one of the same axis
SOFT = "~"  # after a letter that only a pattern or the name of a size gives: people use others there than in their suffixes
SECOND = "'"  # after a letter of which the file says that it is another index, `f is e'`: nobody says where it meets its axis


class Disagreement(Exception):
    """Two axes that cannot be one: a code of the catalogue, a message, facts, and a fix."""

    def __init__(self, code: str, message: str, facts: Iterable[str] = (), fix: str = "") -> None:
        self.code, self.message, self.facts, self.fix = code, message, tuple(facts), fix
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor: its axes, and the axis over which it is normalised, counted from the last (`-1`).

    An `open` tensor may have more axes before these: an unknown tensor was added to it.
    """

    shape: Shape
    normalised: int | None = None
    open: bool = False

    def may_flatten(self, letters: int) -> bool:
        """Returns whether one of its axes may be several of these letters."""
        return self.open and None in self.shape and len(self.shape) < letters


def show(shape: Shape) -> str:
    """Prints a shape: `(b, s, a·e, 1, …)`."""
    return f"({', '.join(map(show_axis, shape))})"


def show_axis(axis: Axis) -> str:
    """Prints an axis: `a·e`, `1` for length 1, `…` if nothing is known."""
    return "…" if axis is None else "·".join(map(strip, axis)) or "1"


def strip(letter: str) -> str:
    """Returns the letter without its marks."""
    return letter.rstrip(_EITHER + SOFT + SECOND)


# ---------------------------------------------------------------------------------------------------------- agreement


def are_kin(one: str, other: str) -> bool:
    """Returns whether two letters may stand for the same axis: `s` and `t`, `s` and `s2`."""
    one, other = strip(one), strip(other)
    return (
        one == other
        or one.rstrip("23456789") == other.rstrip("23456789")
        or any({one, other} <= positions for positions in POSITIONS)
    )


def agree(one: Axis, other: Axis) -> bool:
    """Returns whether two axes can be one. A merged axis may have a letter of its own, and a part of it differs from the
    whole.
    """
    if not one or not other or one == other or any(letter.endswith((SOFT, SECOND)) for letter in one + other):
        return True
    if len(one) == len(other) == 1:
        return are_kin(one[0], other[0])
    if len(one) == 1 or len(other) == 1:
        return not set(one) & set(other)
    return set(one) != set(other)


def are_crossed(one: Shape, other: Shape) -> bool:
    """Returns whether two axes are swapped: `(s, t)` beside `(t, s)`."""
    ours, theirs = list(map(show_axis, one)), list(map(show_axis, other))
    pairs = zip(reversed(ours), reversed(theirs), strict=False)
    return any(a != b and a in theirs and b in ours and not {a, b} & {"1", "…"} for a, b in pairs) and not _ambiguous(
        one + other
    )


def _ambiguous(shape: Shape) -> bool:
    return any(letter.endswith(_EITHER) for axis in shape for letter in axis or ())


def check(declared: Shape, actual: Shape, name: str) -> None:
    """Compares a value with the axes of its name. Raises Disagreement."""
    if merges(declared, actual):
        return
    facts = [f"`{name}` says {show(declared)}", f"its value has {show(actual)}"]
    if len(declared) != len(actual):
        raise Disagreement("E771", f"`{name}` has {len(declared)} letters, its value {_count_axes(len(actual))}", facts)
    wrong = next((k for k, pair in enumerate(zip(declared, actual, strict=True)) if _is_long(*pair) or not agree(*pair)), None)
    if wrong is None and not are_crossed(declared, actual):
        return
    if sorted(map(show_axis, declared)) == sorted(map(show_axis, actual)):
        there = list(map(show_axis, actual))
        order = ", ".join(str(there.index(axis)) for axis in map(show_axis, declared))
        fix = f"`.permute({order})`, or the letters in the order {show(actual)}"
        raise Disagreement("E771", f"the axes of `{name}` stand in another order", facts, fix)
    axis = 0 if wrong is None else wrong
    raise Disagreement(
        "E771", f"axis {axis} of `{name}` is {show_axis(actual[axis])}, its name says {show_axis(declared[axis])}", facts
    )


# A name says `1`, and the axis is longer.
def _is_long(declared: Axis, actual: Axis) -> bool:
    return declared == ONE and bool(actual) and not any(letter.endswith(SOFT) for letter in actual or ())


def merges(declared: Shape, actual: Shape) -> bool:
    """Returns whether a name spells out axes that are merged: `u_bsae` for `(b, s, a·e)`."""
    return len(actual) < len(declared) and None not in actual and _letters_of(declared) == _letters_of(actual)


def spells(actual: Shape, declared: Shape) -> bool:
    """Returns whether a name spells out one axis that is declared whole: `y_bgsih` for `(b, g, s, e)`."""
    more = len(actual) - len(declared)
    places = range(len(declared)) if more > 0 else ()
    parts = (actual[place : place + more + 1] for place in places)
    rest = (actual[:place] + actual[place + more + 1 :] == declared[:place] + declared[place + 1 :] for place in places)
    return any(same and declared[place] not in part for place, part, same in zip(places, parts, rest, strict=True))


def _count_axes(count: int) -> str:
    return f"{count} {'axis' if count == 1 else 'axes'}"


# ------------------------------------------------------------------------------------------------------------- algebra


def broadcast(one: Shape, other: Shape, subject: str) -> Shape:
    """Returns the axes of an element-wise function of two tensors, aligned at the last axis. Raises Disagreement E773."""
    for left, right in zip(reversed(one), reversed(other), strict=False):
        if not agree(left, right):
            raise _report_meeting(one, other, left, right, subject)
    if are_crossed(one, other):
        raise Disagreement("E773", f"the axes of {subject} cross: {show(one)} meets {show(other)}", fix="transpose one of them")
    longer, shorter = (one, other) if len(one) >= len(other) else (other, one)
    head = longer[: len(longer) - len(shorter)]
    tail = longer[len(head) :]
    pairs = zip(tail, shorter, strict=True)
    return head + tuple(right if left == ONE or (left is None and right != ONE) else left for left, right in pairs)


def _report_meeting(one: Shape, other: Shape, left: Axis, right: Axis, subject: str) -> Disagreement:
    facts = [f"{show(one)} meets {show(other)}, from the last axis on"]
    return Disagreement("E773", f"in {subject}, {show_axis(left)} meets {show_axis(right)}", facts)


def multiply(one: Shape, other: Shape) -> Shape:
    """Returns the axes of `one @ other`. Raises Disagreement E773."""
    left, right = (one if len(one) > 1 else (ONE, *one)), (other if len(other) > 1 else (*other, ONE))
    if not agree(left[-1], right[-2]):
        fix = "transpose the second" if agree(left[-1], right[-1]) else ""
        facts = [f"{show(one)} @ {show(other)}"]
        raise Disagreement(
            "E773", f"in the product, the last axis {show_axis(left[-1])} meets {show_axis(right[-2])}", facts, fix
        )
    rows, columns = left[-2:-1] if len(one) > 1 else (), right[-1:] if len(other) > 1 else ()
    return drop_positions(broadcast(left[:-2], right[:-2], "the product") + rows + columns)


def drop_positions(shape: Shape) -> Shape:
    """Drops the position from a letter that stands twice: it names its axis, not one of two positions."""
    twice = {axis for axis in shape if axis and len(axis) == 1 and shape.count(axis) > 1}
    return tuple((f"{strip(axis[0])}{_EITHER}",) if axis and axis in twice else axis for axis in shape)


def contract(terms: Sequence[Sequence[str]], output: Sequence[str], operands: Sequence[Shape | None]) -> Shape:
    """Returns the axes of an einsum, by its letters or by the axes that they stand for. Raises Disagreement E772."""
    meaning: dict[str, Axis] = {}
    for term, shape in zip(terms, operands, strict=True):
        if shape is not None:
            _assign(term, shape, meaning)
    named = [letter for term in (*terms, output) for letter in term]
    for letter, axis in list(meaning.items()):
        if axis and len(axis) == 1 and axis[0] in named and not are_kin(axis[0], letter):
            if _is_another(letter, axis[0], meaning, named):
                meaning[letter] = (letter + SOFT,)
                continue
            facts = [f"the equation has a letter `{axis[0]}` too"]
            raise Disagreement("E772", f"`{letter}` of the equation is the axis {axis[0]} of an operand", facts)
    return drop_positions(tuple(_axis_for(letter, meaning) for letter in output))


# A letter may be another index of the axis that `own` stands for: `bse,bsf->bsef` for keys and values. A slip stands once.
def _is_another(letter: str, own: str, meaning: Mapping[str, Axis], named: Sequence[str]) -> bool:
    axis = meaning.get(own) or (own,)
    return (are_kin(axis[0], own) or axis[0].endswith(SECOND)) and named.count(letter) > 1 < named.count(own)


def _assign(term: Sequence[str], shape: Shape, meaning: dict[str, Axis]) -> None:
    if len(term) != len(shape):
        facts = [f"the operand has {show(shape)}"]
        raise Disagreement("E772", f"`{''.join(term)}` has {len(term)} letters, its operand {_count_axes(len(shape))}", facts)
    for letter, axis in zip(term, shape, strict=True):
        if not agree(meaning.get(letter), axis):
            message = f"`{letter}` of the equation is {show_axis(meaning[letter])} in one operand, {show_axis(axis)} in another"
            raise Disagreement("E772", message, [f"`{''.join(term)}` is {show(shape)}"])
        meaning[letter] = meaning.get(letter) or axis


def _axis_for(letter: str, meaning: Mapping[str, Axis]) -> Axis:
    axis = meaning.get(letter, (letter + SOFT,))
    return (letter,) if axis and len(axis) == 1 and are_kin(axis[0], letter) and not axis[0].endswith(SOFT) else axis


def view(shape: Shape, wanted: Sequence[Axis], rest: int | None) -> Shape:
    """Returns the axes of a `view`. The axis at `rest` takes the remaining letters. Raises Disagreement E774."""
    letters = [strip(letter) for axis in shape for letter in (axis or ())]
    if rest is not None and None not in shape and all(part is not None for k, part in enumerate(wanted) if k != rest):
        used = [strip(letter) for axis in wanted for letter in (axis or ())]
        left = tuple(letter for letter in letters if letter not in used)
        wanted = [*wanted[:rest], left if set(used) <= set(letters) else None, *wanted[rest + 1 :]]
    _check_order(shape, wanted)
    return tuple(wanted)


# A view reads numbers in memory order, so axes keep their order.
def _check_order(shape: Shape, wanted: Sequence[Axis]) -> None:
    before, after = (_letters_of(axes) for axes in (shape, wanted))
    while before and after and before[0] == after[0] is not None:
        before, after = before[1:], after[1:]
    shared = next((part for part in after if part is not None and part in before), None)
    if shared is None:
        return
    old, new = before[: before.index(shared)], after[: after.index(shared)]
    if bool(old) != bool(new) or (None not in old and None not in new and set(before) == set(after)):
        facts = [f"the tensor has {show(shape)}", f"the view wants {show(tuple(wanted))}"]
        fix = f"a view in which {shared} stands where it stood, then `.transpose(…)`"
        raise Disagreement("E774", f"a view does not move the axis {shared}", facts, fix)


def _letters_of(axes: Iterable[Axis]) -> list[str | None]:
    return [part and strip(part) for axis in axes for part in ((None,) if axis is None else axis)]


def move(shape: Shape, order: Sequence[int]) -> Shape:
    """Returns the axes in another order."""
    return tuple(shape[k] for k in order)


def swap(shape: Shape, one: int, other: int) -> Shape:
    """Returns the axes with two of them exchanged."""
    order = list(range(len(shape)))
    order[one], order[other] = order[other], order[one]
    return move(shape, order)


def reduce(shape: Shape, dims: Iterable[int], keep: bool) -> Shape:
    """Returns the axes that remain after a sum over some of them."""
    gone = {dim % len(shape) for dim in dims}
    return tuple(ONE if k in gone else axis for k, axis in enumerate(shape) if keep or k not in gone)


def check_weights(weights: Value, contracted_axis: int) -> None:
    """Checks that weights are summed over the positions over which they add up to 1. Raises Disagreement E775."""
    if weights.normalised is None or weights.normalised == contracted_axis:
        return
    normalised, summed = weights.shape[weights.normalised], weights.shape[contracted_axis]
    if normalised and summed and len(normalised) == len(summed) == 1 and are_kin(normalised[0], summed[0]):
        message = f"the weights add up to 1 over axis {weights.normalised}, but are summed over axis {contracted_axis}"
        raise Disagreement("E775", message, [f"they have {show(weights.shape)}"], f"`softmax(dim={contracted_axis})`")
