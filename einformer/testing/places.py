"""Lists the mistakes about places: positions, what a cache holds, which head reads which, and axes that change roles.

The rules change the numbers that indices stand for, and the slots by which tensors are read.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from einformer.language.calls import axis_of, slot_letters
from einformer.language.tree import (
    Apply,
    Axis,
    Equation,
    Expression,
    Index,
    Name,
    Number,
    Product,
    Quotient,
    Sum,
    Tensor,
)
from einformer.language.walk import children, equations, find_all, letters_in, rebuild, subexpressions
from einformer.testing.forms import count_from, exchange, reverse_groups
from einformer.testing.rewrites import Around

Variants = Iterator[Expression]
Change = Callable[[Equation], tuple[Equation, ...]]
ZERO, ONE, MINUS = Number(0), Number(1), Number(-1)
FIRST_PARTS = range(1, 8)  # positions that a cache may get at once


def compare(left: Expression, right: Expression) -> Expression:
    return Apply("<", (), (left, right))


def choose(condition: Expression, shown: Expression, other: Expression) -> Expression:
    return Apply("where", (), (condition, shown, other))


# ---------------------------------------------------------------------------------------------------------- positions


# `s` is `s + 1` wherever it is a number, or chooses a row of a table.
def count_positions_from_one(equation: Equation, around: Around) -> Iterator[tuple[Equation, ...]]:
    for letter in slot_letters(equation.left):
        yield from _renumber(equation, around, letter, Sum((Index(letter), ONE)))


# `s` is `s - 1`. The first position has nothing.
def start_positions_late(equation: Equation, around: Around) -> Iterator[tuple[Equation, ...]]:
    for letter in slot_letters(equation.left):
        earlier = Sum((Index(letter), MINUS))
        for (new,) in _renumber(equation, around, letter, earlier):
            yield (new,)
            yield (_guard(equation, new, compare(ZERO, Index(letter))),)


# `s` is 0, `s - start`, or a neighbour, from the position on at which the output departs.
def count_positions_anew(equation: Equation, around: Around) -> Iterator[tuple[Equation, ...]]:
    if around.start:
        for letter in slot_letters(equation.left):
            index, start = Index(letter), Number(around.start)
            later: list[Expression] = [ZERO, *(Sum((index, step)) for step in (Number(-around.start), ONE, MINUS))]
            for number in later:
                yield from _renumber(equation, around, letter, choose(compare(index, start), index, number))


# A number that is not a plain slot gets a name first.
def _renumber(equation: Equation, around: Around, letter: str, number: Expression) -> Iterator[tuple[Equation, ...]]:
    new = count_from(equation.right, letter, number)
    if new != equation.right:
        yield (replace(equation, right=new),)
    slot = number if isinstance(number, Sum) else Tensor(name_freshly(around), (Index(letter),))
    read = _move_rows(equation.right, letter, slot, around)
    if read != equation.right:
        definitions = () if isinstance(slot, Sum) else (Equation(slot, "=", number, span=equation.span),)
        yield (*definitions, replace(equation, right=read))


def _move_rows(e: Expression, letter: str, slot: Expression, around: Around) -> Expression:
    if isinstance(e, Tensor) and around.is_weight(e.name):
        return replace(e, slots=tuple(slot if old == Index(letter) else old for old in e.slots))
    return rebuild(e, lambda child: _move_rows(child, letter, slot, around))


# Where the condition does not hold, what was changed is 0.
def _guard(equation: Equation, new: Equation, condition: Expression) -> Equation:
    def guard(old: Expression, e: Expression) -> Expression:
        if isinstance(e, Tensor) and old != e:
            return choose(condition, e, ZERO)
        pairs = iter(children(old))
        return rebuild(e, lambda child: guard(next(pairs), child)) if type(old) is type(e) else e

    return replace(new, right=guard(equation.right, new.right))


# The name is a letter if one is free.
def name_freshly(around: Around) -> str:
    used = {e.name for q in equations(around.layer.body) for e in (*subexpressions(q.right), q.left) if isinstance(e, Tensor)}
    for declared in (around.layer.formals, around.layer.weights, around.spec.scalars):
        used |= {x.name for x in declared}
    names = itertools.chain("nrtupxyzhg", (f"n{k}" for k in itertools.count(2)))
    return next(name for name in names if name not in used)


# ------------------------------------------------------------------------------------------------------------- caches


# Keys and values are read one position earlier, before the first of which there is nothing.
def read_earlier(around: Around) -> Iterator[Change]:
    def move(tensor: Tensor, slot: Index) -> Expression:
        return choose(compare(ZERO, slot), _put(tensor, slot, Sum((slot, MINUS))), ZERO)

    return _reread(around, _find_key_slot, move)


# Keys and values are read one position later, as far as they are there: in the first part, then up to the own position.
def read_later(around: Around) -> Iterator[Change]:
    for first in FIRST_PARTS:

        def move(tensor: Tensor, slot: Index, first: int = first) -> Expression:
            last = Apply("max", (), (Index(axis_of(slot.letter)), Number(first - 1)))
            return choose(compare(slot, last), _put(tensor, slot, Sum((slot, ONE))), ZERO)

        yield from _reread(around, _find_key_slot, move)


def _find_key_slot(tensor: Tensor, equation: Equation) -> Index | None:
    own = set(slot_letters(tensor))
    primed = (slot for slot in tensor.slots if isinstance(slot, Index) and slot.letter == axis_of(slot.letter) + "'")
    return next((slot for slot in primed if axis_of(slot.letter) not in own), None)


# Of all tensors together, then of each.
def _reread(
    around: Around,
    find_slot: Callable[[Tensor, Equation], Index | None],
    move: Callable[[Tensor, Index], Expression],
) -> Iterator[Change]:
    names = dict.fromkeys(
        e.name
        for q in equations(around.layer.body)
        for e in subexpressions(q.right)
        if isinstance(e, Tensor) and not around.is_weight(e.name) and find_slot(e, q)
    )
    groups: Iterable[frozenset[str]] = dict.fromkeys([frozenset(names), *(frozenset([name]) for name in names)])
    for group in filter(None, groups):

        def change(equation: Equation, group: frozenset[str] = group) -> tuple[Equation, ...]:
            def walk(e: Expression) -> Expression:
                if isinstance(e, Tensor) and e.name in group and (slot := find_slot(e, equation)):
                    return move(e, slot)
                return rebuild(e, walk)

            return (replace(equation, right=walk(equation.right)),)

        yield change


def _put(tensor: Tensor, slot: Index, new: Expression) -> Tensor:
    return replace(tensor, slots=tuple(new if old == slot else old for old in tensor.slots))


# -------------------------------------------------------------------------------------------------------------- heads


# `repeat` gives 0 1 0 1, where `repeat_interleave` is meant, 0 0 1 1.
def tile_heads(around: Around) -> Iterator[Change]:
    for group, member in _find_grouped(around.spec.axes):
        name, g, j = name_freshly(around), Index(group.letter), Index(member.letter)
        number = Apply("mod", (), (Sum((Product((member.size, g)), j)), group.size))
        definition = Equation(Tensor(name, (g, j)), "=", number, span=around.equation.span)

        def find_slot(tensor: Tensor, equation: Equation, g: Index = g, j: Index = j) -> Index | None:
            beside = j in find_all(Index, equation.right)
            return g if g in tensor.slots and j not in tensor.slots and beside else None

        def move(tensor: Tensor, slot: Index, definition: Equation = definition) -> Expression:
            assert isinstance(definition.left, Tensor)
            return _put(tensor, slot, definition.left)

        for change in _reread(around, find_slot, move):
            yield _define_first(around, definition, change)


# Axes `g: G` and `j: J = A / G`: so many members of each group.
def _find_grouped(axes: tuple[Axis, ...]) -> Iterator[tuple[Axis, Axis]]:
    for group, member in itertools.permutations(axes, 2):
        match member.default or member.size:
            case Quotient(_, denominator) if isinstance(group.size, Name) and group.size in subexpressions(denominator):
                yield group, member


# The definition stands before the first equation that changes.
def _define_first(around: Around, definition: Equation, change: Change) -> Change:
    first = next((q for q in equations(around.layer.body) if change(q) != (q,)), None)
    return lambda equation: (definition, *change(equation)) if equation is first else change(equation)


# Heads attend to heads, where positions attend to positions.
def attend_elsewhere(around: Around) -> Iterator[Change]:
    letters = dict.fromkeys(x.letter for q in equations(around.layer.body) for x in find_all(Index, q.right))
    primed = [letter for letter in letters if letter == axis_of(letter) + "'"]
    for key, other in itertools.product(primed, [letter for letter in letters if letter == axis_of(letter)]):
        if axis_of(key) != other:

            def change(equation: Equation, key: str = key, other: str = other) -> tuple[Equation, ...]:
                right = _exchange_roles(equation.right, key, other)
                left = _exchange_roles(equation.left, key, other)
                assert isinstance(left, Tensor | Name)
                return (replace(equation, left=left, right=right),)

            yield change


# `k_bs'ae` becomes `k_bsa'e`, and `w_bss'a` becomes `w_bsa'a`.
def _exchange_roles(e: Expression, key: str, other: str) -> Expression:
    if isinstance(e, Tensor):
        has_both = {Index(axis_of(key)), Index(key)} <= set(e.slots)
        names = {key: f"{other}'"} if has_both else {key: axis_of(key), other: f"{other}'"}
        return exchange(e, names) if Index(key) in e.slots else e
    if isinstance(e, Apply):
        indices = tuple(Index(f"{other}'") if index.letter == key else index for index in e.indices)
        return replace(e, indices=indices, arguments=tuple(_exchange_roles(child, key, other) for child in e.arguments))
    return rebuild(e, lambda child: _exchange_roles(child, key, other))


# A tensor is read at its last place, its first or its second, where a number chooses one: `y_{b(0)d}`.
def read_another_place(e: Expression, around: Around) -> Variants:
    if isinstance(e, Tensor):
        lefts = [q.left for q in equations(around.layer.body) if isinstance(q.left, Tensor)]
        defined = next((left for left in (*lefts, *around.layer.formals) if left.name == e.name), None)
        for number, slot in enumerate(e.slots if defined and len(defined.slots) == len(e.slots) else ()):
            letter = defined.slots[number] if defined else slot
            if isinstance(slot, Number) and isinstance(letter, Index):
                size = next(axis.size for axis in around.spec.axes if axis.letter == axis_of(letter.letter))
                others = (Sum((size, MINUS)), ZERO, ONE)
                yield from (replace(e, slots=(*e.slots[:number], new, *e.slots[number + 1 :])) for new in others if new != slot)


# --------------------------------------------------------------------------------------------------------------- pairs


# Both members of a pair have one sign: -1 or 1 for `2 i - 1`.
def equate_members(e: Expression, around: Around) -> Variants:
    if isinstance(e, Product):
        pairs = {axis.letter for axis in around.spec.axes if axis.size == Number(2)}
        for factor in e.factors:
            letters = letters_in(factor)
            if isinstance(factor, Sum) and len(letters) == 1 and letters <= pairs:
                (letter,) = letters
                for member in (ZERO, ONE):
                    fixed = count_from(factor, letter, member)
                    yield replace(e, factors=tuple(fixed if other is factor else other for other in e.factors))


# Halves are read, neighbours are written.
def reverse_one_side(equation: Equation, around: Around) -> Iterator[Equation]:
    left, right = reverse_groups(equation.left), reverse_groups(equation.right)
    if isinstance(left, Tensor) and left != equation.left and right != equation.right:
        yield replace(equation, right=right)
        yield replace(equation, left=left)
