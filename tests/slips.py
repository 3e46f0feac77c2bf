"""Which slips can a hand make in an index? One changed, dropped, added or swapped, in one subscript of one equation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from random import Random

from einformer.language.primitives import NAMES
from einformer.language.tree import Apply, Equation, Expression, Group, Index, Loop, Name, Spec, Statement, Tensor
from einformer.language.walk import children, equations, rebuild

KINDS = ("prime", "change", "drop", "add", "swap")
Subscript = tuple[Expression, ...]


@dataclass(frozen=True)
class Slip:
    """A text in which one subscript is another, and where: on a left side, a tensor, an operator, a call or a bare index."""

    kind: str
    place: str
    layer: str
    before: Equation
    after: Equation
    spec: Spec


def slip(spec: Spec, random: Random) -> Slip:
    """A random slip in a parsed text: the kind is drawn first, so that each is equally frequent."""
    while True:
        layer = random.choice(spec.layers)
        equation = random.choice(list(equations(layer.body)))
        kind, sites = random.choice(KINDS), list(_sites(equation))
        if not sites:
            continue
        path, place = random.choice(sites)
        after = _at(equation, path, partial(_slipped, kind=kind, letters=_letters(spec, equation), random=random))
        if after != equation:
            body = _replaced(layer.body, equation, after)
            layers = tuple(replace(layer, body=body) if other is layer else other for other in spec.layers)
            return Slip(kind, place, layer.name, equation, after, replace(spec, layers=layers))


# ------------------------------------------------------------------------------------------------------------- places

Path = tuple[int, ...]  # first 0 for the left side or 1 for the right one, then which child


def _sites(equation: Equation) -> Iterator[tuple[Path, str]]:
    """Where a subscript stands."""
    if isinstance(equation.left, Tensor) and equation.relation != "return":
        yield (0,), "left side"
    yield from _inside(equation.right, (1,))


def _inside(e: Expression, path: Path) -> Iterator[tuple[Path, str]]:
    match e:
        case Tensor():
            yield path, "tensor"
        case Index():
            yield path, "bare index"
        case Apply() if e.name not in NAMES:
            yield path, "call"
        case Apply() if e.indices:
            yield path, "operator"
        case _:
            pass
    for number, child in enumerate(children(e)):
        if not (isinstance(e, Tensor | Group) and not isinstance(child, Tensor)):
            yield from _inside(child, (*path, number))


def _at(equation: Equation, path: Path, f: Callable[[Expression], Expression]) -> Equation:
    """The equation with f applied at a path."""
    if path[0] == 0:
        left = f(equation.left)
        return replace(equation, left=left) if isinstance(left, Tensor | Name) else equation
    return replace(equation, right=_deeper(equation.right, path[1:], f))


def _deeper(e: Expression, path: Path, f: Callable[[Expression], Expression]) -> Expression:
    if not path:
        return f(e)
    numbers = iter(range(len(children(e))))
    return rebuild(e, lambda child: _deeper(child, path[1:], f) if next(numbers) == path[0] else child)


def _replaced(body: tuple[Statement, ...], old: Equation, new: Equation) -> tuple[Statement, ...]:
    return tuple(replace(s, body=_replaced(s.body, old, new)) if isinstance(s, Loop) else new if s is old else s for s in body)


# -------------------------------------------------------------------------------------------------------------- slips


def _letters(spec: Spec, equation: Equation) -> list[str]:
    """The letters of the legend, and the primed ones of the equation."""
    found = {x.letter for e in (equation.left, equation.right) for x in _indices(e)}
    return [axis.letter for axis in spec.axes] + sorted(letter for letter in found if letter.endswith("'"))


def _indices(e: Expression) -> Iterator[Index]:
    if isinstance(e, Index):
        yield e
    for child in (*children(e), *(e.indices if isinstance(e, Apply) else ())):
        yield from _indices(child)


def _slipped(e: Expression, kind: str, letters: list[str], random: Random) -> Expression:
    match e:
        case Index():
            return _changed((e,), kind, letters, random)[0] if kind in ("prime", "change") else e
        case Tensor():
            slots = _changed(e.slots, kind, letters, random)
            return replace(e, slots=slots) if slots else Name(e.name, span=e.span)
        case Apply():
            indices = _changed(e.indices, kind, letters, random)
            return replace(e, indices=tuple(index for index in indices if isinstance(index, Index)))
        case _:
            return e


def _changed(slots: Subscript, kind: str, letters: list[str], random: Random) -> Subscript:
    """A subscript with one slip; the same where there is no room for it."""
    places = list(_places(slots))
    match kind:
        case "prime" if places:
            index, put = random.choice(places)
            other = index.letter[:-1] if index.letter.endswith("'") else index.letter + "'"
            return put(replace(index, letter=other))
        case "change" if places:
            index, put = random.choice(places)
            axis = index.letter.rstrip("'")
            return put(replace(index, letter=random.choice([i for i in letters if i.rstrip("'") != axis] or [index.letter])))
        case "drop" if places:
            return random.choice(list(_dropped(slots)) or [slots])
        case "add":
            at = random.randint(0, len(slots))
            return (*slots[:at], Index(random.choice(letters), span=slots[0].span if slots else Index("?").span), *slots[at:])
        case "swap" if len(places) > 1:
            (first, _), (second, _) = random.sample(places, 2)
            turned = {id(first): second, id(second): first}
            return tuple(_mapped(slot, lambda index: turned.get(id(index), index)) for slot in slots)
        case _:
            return slots


def _places(slots: Subscript) -> Iterator[tuple[Index, Callable[[Index], Subscript]]]:
    """Each index of a subscript, in groups and formulas too, with what puts another in its place."""
    for index in (index for slot in slots for index in _own(slot)):

        def put(new: Index, old: Index = index) -> Subscript:
            return tuple(_mapped(slot, lambda other: new if other is old else other) for slot in slots)

        yield index, put


def _own(slot: Expression) -> Iterator[Index]:
    """The indices of a slot, but for those of a tensor in it, which is a place of its own."""
    if isinstance(slot, Index):
        yield slot
    elif not isinstance(slot, Tensor):
        for child in children(slot):
            yield from _own(child)


def _mapped(slot: Expression, f: Callable[[Index], Index]) -> Expression:
    if isinstance(slot, Index):
        return f(slot)
    return slot if isinstance(slot, Tensor) else rebuild(slot, lambda child: _mapped(child, f))


def _dropped(slots: Subscript) -> Iterator[Subscript]:
    """Without one letter: a slot, or a member of a group."""
    for at, slot in enumerate(slots):
        if isinstance(slot, Index):
            yield (*slots[:at], *slots[at + 1 :])
        elif isinstance(slot, Group):
            for gone in range(len(slot.members)):
                rest = (*slot.members[:gone], *slot.members[gone + 1 :])
                kept = rest[0] if len(rest) == 1 else replace(slot, members=rest)
                yield (*slots[:at], kept, *slots[at + 1 :])


# ----------------------------------------------------------------------------------------------------- the same slip


def is_renaming(slip: Slip) -> bool:
    """Is the equation the same but for the names of indices that it sums or binds, and for the order in an operator?"""
    return _canonical(slip.before) == _canonical(slip.after)


def _canonical(equation: Equation) -> Equation:
    names = {index.letter: index.letter for index in _indices(equation.left)}

    def named(index: Index) -> Index:
        axis = index.letter.rstrip("'")
        return replace(index, letter=names.setdefault(index.letter, f"{axis}{len(names)}"))

    def walked(e: Expression) -> Expression:
        if isinstance(e, Index):
            return named(e)
        e = rebuild(e, walked)
        if not isinstance(e, Apply):
            return e
        return replace(e, indices=tuple(sorted(map(named, e.indices), key=lambda index: index.letter)))

    return replace(equation, right=walked(equation.right))
