"""Which axes has a tensor, by letters, and which has what is computed of it? No size is ever known, only whose it is.

An axis is the letters that lie in it, the outermost first: `("d",)`, two after a merge `("a", "e")`, none where its length is
1, and `None` where nothing is known of it. What is not known agrees with everything: a finding is to be right.
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
    """Two axes that cannot be one: a code of the catalogue, what stands there, what is known, what to write instead."""

    def __init__(self, code: str, message: str, facts: Iterable[str] = (), fix: str = "") -> None:
        self.code, self.message, self.facts, self.fix = code, message, tuple(facts), fix
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor: its axes, and the one over which it was normalised, counted from the last (`-1`).

    An `open` one may have more axes before these: something of which nothing is known was added to it.
    """

    shape: Shape
    normalised: int | None = None
    open: bool = False

    def flattened(self, letters: int) -> bool:
        """May one of its axes be several of these letters?"""
        return self.open and None in self.shape and len(self.shape) < letters


def show(shape: Shape) -> str:
    """`(b, s, a·e, 1, …)`."""
    return f"({', '.join(map(show_axis, shape))})"


def show_axis(axis: Axis) -> str:
    """`a·e`; `1` for an axis of length 1 and `…` for one of which nothing is known."""
    return "…" if axis is None else "·".join(map(bare, axis)) or "1"


def bare(letter: str) -> str:
    """The letter alone."""
    return letter.rstrip(_EITHER + SOFT + SECOND)


# ---------------------------------------------------------------------------------------------------------- agreement


def are_kin(one: str, other: str) -> bool:
    """May both letters stand for the same axis: `s` and `t`, `s` and `s2`?"""
    one, other = bare(one), bare(other)
    return one == other or one.rstrip("23456789") == other.rstrip("23456789") or any({one, other} <= each for each in POSITIONS)


def agree(one: Axis, other: Axis) -> bool:
    """Can these be one axis? One that was merged may have got a letter of its own; a part of it is not the whole."""
    if not one or not other or one == other or any(letter.endswith((SOFT, SECOND)) for letter in one + other):
        return True
    if len(one) == len(other) == 1:
        return are_kin(one[0], other[0])
    if len(one) == 1 or len(other) == 1:
        return not set(one) & set(other)
    return set(one) != set(other)


def crossed(one: Shape, other: Shape) -> bool:
    """Does an axis of one stand elsewhere in the other, where a kin of it should be? `(s, t)` beside `(t, s)`."""
    ours, theirs = list(map(show_axis, one)), list(map(show_axis, other))
    pairs = zip(reversed(ours), reversed(theirs), strict=False)
    return any(a != b and a in theirs and b in ours and not {a, b} & {"1", "…"} for a, b in pairs) and not _ambiguous(
        one + other
    )


def _ambiguous(shape: Shape) -> bool:
    return any(letter.endswith(_EITHER) for axis in shape for letter in axis or ())


def check(declared: Shape, found: Shape, name: str) -> None:
    """Has a value the axes that its name says? Raises Disagreement."""
    if merges(declared, found):
        return
    facts = [f"`{name}` says {show(declared)}", f"its value has {show(found)}"]
    if len(declared) != len(found):
        raise Disagreement("E771", f"`{name}` has {len(declared)} letters, its value {_axes(len(found))}", facts)
    wrong = next((k for k, pair in enumerate(zip(declared, found, strict=True)) if _is_long(*pair) or not agree(*pair)), None)
    if wrong is None and not crossed(declared, found):
        return
    if sorted(map(show_axis, declared)) == sorted(map(show_axis, found)):
        there = list(map(show_axis, found))
        order = ", ".join(str(there.index(axis)) for axis in map(show_axis, declared))
        fix = f"`.permute({order})`, or the letters in the order {show(found)}"
        raise Disagreement("E771", f"the axes of `{name}` stand in another order", facts, fix)
    axis = 0 if wrong is None else wrong
    raise Disagreement(
        "E771", f"axis {axis} of `{name}` is {show_axis(found[axis])}, its name says {show_axis(declared[axis])}", facts
    )


def _is_long(declared: Axis, found: Axis) -> bool:
    """Does a name say `1` where the axis is longer, for all that is known?"""
    return declared == ONE and bool(found) and not any(letter.endswith(SOFT) for letter in found or ())


def merges(declared: Shape, found: Shape) -> bool:
    """Does a name spell out axes that are merged? `u_bsae` of `(b, s, a·e)`."""
    return len(found) < len(declared) and None not in found and _parts(declared) == _parts(found)


def spells(found: Shape, declared: Shape) -> bool:
    """Does a name spell out the letters of one axis that is declared whole? `y_bgsih` of `(b, g, s, e)`."""
    more = len(found) - len(declared)
    places = range(len(declared)) if more > 0 else ()
    parts = (found[at : at + more + 1] for at in places)
    rest = (found[:at] + found[at + more + 1 :] == declared[:at] + declared[at + 1 :] for at in places)
    return any(same and declared[at] not in part for at, part, same in zip(places, parts, rest, strict=True))


def _axes(count: int) -> str:
    return f"{count} {'axis' if count == 1 else 'axes'}"


# ------------------------------------------------------------------------------------------------------------- algebra


def together(one: Shape, other: Shape, what: str) -> Shape:
    """The axes of an element-wise function of two: they meet from the last on. Raises Disagreement E773."""
    for left, right in zip(reversed(one), reversed(other), strict=False):
        if not agree(left, right):
            raise _meeting(one, other, left, right, what)
    if crossed(one, other):
        raise Disagreement("E773", f"the axes of {what} cross: {show(one)} meets {show(other)}", fix="transpose one of them")
    longer, shorter = (one, other) if len(one) >= len(other) else (other, one)
    head = longer[: len(longer) - len(shorter)]
    tail = longer[len(head) :]
    pairs = zip(tail, shorter, strict=True)
    return head + tuple(right if left == ONE or (left is None and right != ONE) else left for left, right in pairs)


def _meeting(one: Shape, other: Shape, left: Axis, right: Axis, what: str) -> Disagreement:
    facts = [f"{show(one)} meets {show(other)}, from the last axis on"]
    return Disagreement("E773", f"in {what}, {show_axis(left)} meets {show_axis(right)}", facts)


def product(one: Shape, other: Shape) -> Shape:
    """The axes of `one @ other`. Raises Disagreement E773."""
    left, right = (one if len(one) > 1 else (ONE, *one)), (other if len(other) > 1 else (*other, ONE))
    if not agree(left[-1], right[-2]):
        fix = "transpose the second" if agree(left[-1], right[-1]) else ""
        facts = [f"{show(one)} @ {show(other)}"]
        raise Disagreement(
            "E773", f"in the product, the last axis {show_axis(left[-1])} meets {show_axis(right[-2])}", facts, fix
        )
    rows, columns = left[-2:-1] if len(one) > 1 else (), right[-1:] if len(other) > 1 else ()
    return distinct(together(left[:-2], right[:-2], "the product") + rows + columns)


def distinct(shape: Shape) -> Shape:
    """The same where a letter that stands twice says only which axis it is of, and not which of two positions."""
    twice = {axis for axis in shape if axis and len(axis) == 1 and shape.count(axis) > 1}
    return tuple((f"{bare(axis[0])}{_EITHER}",) if axis and axis in twice else axis for axis in shape)


def contracted(terms: Sequence[Sequence[str]], output: Sequence[str], operands: Sequence[Shape | None]) -> Shape:
    """The axes of an einsum: of its letters, or of the axes that they stand for. Raises Disagreement E772."""
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
    return distinct(tuple(_stands_for(letter, meaning) for letter in output))


def _is_another(letter: str, own: str, meaning: Mapping[str, Axis], named: Sequence[str]) -> bool:
    """Is a letter another index of the axis that `own` stands for, `bse,bsf->bsef` of keys and values? A slip stands once."""
    axis = meaning.get(own) or (own,)
    return (are_kin(axis[0], own) or axis[0].endswith(SECOND)) and named.count(letter) > 1 < named.count(own)


def _assign(term: Sequence[str], shape: Shape, meaning: dict[str, Axis]) -> None:
    if len(term) != len(shape):
        facts = [f"the operand has {show(shape)}"]
        raise Disagreement("E772", f"`{''.join(term)}` has {len(term)} letters, its operand {_axes(len(shape))}", facts)
    for letter, axis in zip(term, shape, strict=True):
        if not agree(meaning.get(letter), axis):
            message = f"`{letter}` of the equation is {show_axis(meaning[letter])} in one operand, {show_axis(axis)} in another"
            raise Disagreement("E772", message, [f"`{''.join(term)}` is {show(shape)}"])
        meaning[letter] = meaning.get(letter) or axis


def _stands_for(letter: str, meaning: Mapping[str, Axis]) -> Axis:
    axis = meaning.get(letter, (letter + SOFT,))
    return (letter,) if axis and len(axis) == 1 and are_kin(axis[0], letter) and not axis[0].endswith(SOFT) else axis


def viewed(shape: Shape, wanted: Sequence[Axis], rest: int | None) -> Shape:
    """The axes of a `view`, where one of them (at `rest`) may be what is left. Raises Disagreement E774."""
    letters = [bare(letter) for axis in shape for letter in (axis or ())]
    if rest is not None and None not in shape and all(each is not None for k, each in enumerate(wanted) if k != rest):
        taken = [bare(letter) for axis in wanted for letter in (axis or ())]
        left = tuple(letter for letter in letters if letter not in taken)
        wanted = [*wanted[:rest], left if set(taken) <= set(letters) else None, *wanted[rest + 1 :]]
    _in_order(shape, wanted)
    return tuple(wanted)


def _in_order(shape: Shape, wanted: Sequence[Axis]) -> None:
    """A view reads numbers in the order in which they lie: what came before an axis comes before it still."""
    before, after = (_parts(axes) for axes in (shape, wanted))
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


def _parts(axes: Iterable[Axis]) -> list[str | None]:
    return [part and bare(part) for axis in axes for part in ((None,) if axis is None else axis)]


def moved(shape: Shape, order: Sequence[int]) -> Shape:
    """The axes in another order."""
    return tuple(shape[k] for k in order)


def swapped(shape: Shape, one: int, other: int) -> Shape:
    """The axes with two of them exchanged."""
    order = list(range(len(shape)))
    order[one], order[other] = order[other], order[one]
    return moved(shape, order)


def reduced(shape: Shape, dims: Iterable[int], keep: bool) -> Shape:
    """The axes that a sum over some of them leaves."""
    gone = {dim % len(shape) for dim in dims}
    return tuple(ONE if k in gone else axis for k, axis in enumerate(shape) if keep or k not in gone)


def weighed(weights: Value, contracted_axis: int) -> None:
    """Are weights summed over the positions over which they add up to 1? Raises Disagreement E775."""
    if weights.normalised is None or weights.normalised == contracted_axis:
        return
    normalised, summed = weights.shape[weights.normalised], weights.shape[contracted_axis]
    if normalised and summed and len(normalised) == len(summed) == 1 and are_kin(normalised[0], summed[0]):
        message = f"the weights add up to 1 over axis {weights.normalised}, but are summed over axis {contracted_axis}"
        raise Disagreement("E775", message, [f"they have {show(weights.shape)}"], f"`softmax(dim={contracted_axis})`")
