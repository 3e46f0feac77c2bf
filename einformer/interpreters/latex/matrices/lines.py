"""Which lines of a layer have a form in matrices, and which of them are one formula? Each equation becomes a `Line`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from itertools import chain, combinations
from typing import Any

from einformer.interpreters.latex.matrices import labels
from einformer.interpreters.latex.matrices.algebra import NoForm, joined, letters, oriented, shape
from einformer.interpreters.latex.matrices.form import Reader
from einformer.interpreters.latex.matrices.labels import Axes
from einformer.interpreters.latex.matrices.tree import Concat, Letter, Matrix, RowWise, Times, axis, inside
from einformer.language.calls import axis_of, slot_letters
from einformer.language.instances import callees
from einformer.language.scope import Scope
from einformer.language.tree import Equation, Group, Index, Layer, Loop, Spec, Statement, Tensor
from einformer.language.walk import equations, loops, map_equations, subexpressions


@dataclass(frozen=True, slots=True)
class Line:
    """An equation, its sums written out, and its sides in matrices; where there is no right one, `why`."""

    equation: Equation
    left: Matrix | None = None
    right: Matrix | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Lines:
    """The lines of a layer by their equations; equations that another line has taken in are not among them."""

    layer: Layer  # its sums written out
    labels: Axes
    dropped: Axes
    found: Mapping[int, Line]
    head: tuple[Matrix, ...]  # what the layer is given

    def __iter__(self) -> Iterator[Line]:
        return iter(self.found.values())


def forms(spec: Spec, columns: bool = False, keeps: bool = False) -> dict[str, Lines]:
    """The lines of each layer of a checked text, as its author wrote it.

    A line that defines a matrix between positions (scores, weights of attention), or only puts heads side by side, is taken
    into the one line that reads it; not so weights of attention where `keeps` says that they have a name.
    """
    written = {layer.name: layer for layer in spec.layers}
    scopes = {name: _scope(layer, written) for name, layer in written.items()}
    layers = {name: replace(each, body=map_equations(each.body, scopes[name].equation)) for name, each in written.items()}
    passed: dict[str, Axes] = {}
    for layer in layers.values():
        labels.passed(layer, callees(layer, layers), passed)
    return {name: _lines(layer, scopes[name], passed, columns, keeps) for name, layer in layers.items()}


def _scope(layer: Layer, layers: Mapping[str, Layer]) -> Scope:
    return Scope(callees(layer, layers), frozenset(loop.index.letter for loop in loops(layer.body)))


def _lines(layer: Layer, scope: Scope, passed: Mapping[str, Axes], columns: bool, keeps: bool) -> Lines:
    chosen = labels.labels(layer)
    families = labels.families(layer, chosen)
    reader = Reader(scope, chosen, passed, labels.down(layer, families), columns)
    found = {id(each): _line(each, reader, families) for each in equations(layer.body)}
    given = (_line(Equation(formal, "=", formal), reader, families).left for formal in layer.formals)
    head = tuple(each for each in given if each)
    return Lines(layer, chosen, families.dropped, _taken_in(layer.body, found, keeps), head)


# ------------------------------------------------------------------------------------------------------ one equation


def _line(equation: Equation, reader: Reader, families: labels.Families) -> Line:
    """The line with as few labels as it can have, else with one more than the layer's, else none."""
    why = ""
    for choice in _choices(equation, reader.labels, families):
        try:
            left, right = _sides(equation, replace(reader, labels=choice))
        except NoForm as none:
            why = why if choice - reader.labels else str(none)
            continue
        if letters(left) or choice <= reader.labels:
            return Line(equation, left, right)
    try:
        return Line(equation, reader.matrix(equation.left), why=why)
    except NoForm:
        return Line(equation, why=why)


def _choices(equation: Equation, chosen: Axes, families: labels.Families) -> Iterator[Axes]:
    """Which labels an equation may have: few first, those of a pair together, then one more than the layer's."""
    dropped = families.dropped
    present = chain(subexpressions(equation.left), subexpressions(equation.right))
    axes = dict.fromkeys(axis_of(e.letter) for e in present if isinstance(e, Index))
    free = [axis for axis in axes if axis in chosen and axis not in dropped]
    some = [frozenset(each) for n in range(len(free) + 1) for each in combinations(free, n)]
    apart = [each for each in some if any(len(each & pair) == 1 and pair <= axes.keys() for pair in families.paired)]
    order = sorted(some, key=lambda each: (each in apart, len(each - families.said), len(each)))
    yield from (dropped.union(each, chosen - axes.keys()) for each in order)
    yield from (chosen | {axis} for axis in axes if axis not in chosen)


def _sides(equation: Equation, reader: Reader) -> tuple[Matrix, Matrix]:
    """Both sides; where one puts labels side by side in a group, the other one side by side too."""
    left, right = equation.left, equation.right
    if isinstance(left, Tensor) and (group := _group(left, reader)):
        return _merged(left, group, reader.matrix(right), reader)
    if isinstance(right, Tensor) and isinstance(left, Tensor) and (group := _group(right, reader)):
        whole, parts = _merged(right, group, reader.tensor(left), reader)
        return parts, whole
    to = reader.matrix(left)
    return to, oriented(reader.matrix(right), shape(to))


def _group(tensor: Tensor, reader: Reader) -> Group | None:
    return next((slot for slot in tensor.slots if isinstance(slot, Group)), None)


def _merged(whole: Tensor, group: Group, parts: Matrix, reader: Reader) -> tuple[Letter, Concat]:
    """`c_{n(ae)}`: the matrices of all heads a side by side."""
    members = slot_letters(Tensor("", (group,)))
    axes = [slot.letter for slot in whole.slots if isinstance(slot, Index) and not reader.is_label(slot.letter)]
    plain = len(members) == len(group.members) and all(isinstance(slot, Index | Group) for slot in whole.slots)
    if not plain or len(axes) > 1 or reader.is_label(members[-1]) or not all(map(reader.is_label, members[:-1])):
        raise NoForm("a group that is no heads side by side")
    rows = "".join(axes)
    cols = str(axis(group))
    return Letter(whole, rows, cols), Concat(members[:-1], oriented(parts, (rows, members[-1])), cols)


# ------------------------------------------------------------------------------------------------- lines as one formula


def _taken_in(body: tuple[Statement, ...], found: Mapping[int, Line], keeps: bool) -> dict[int, Line]:
    """The lines with those taken in that only one other reads, in the same turn of a loop."""
    result = dict(found)
    for block in _blocks(body):
        for equation in block:
            into = _into(equation, block, body, result, keeps)
            if into is not None:
                taken, at = result.pop(id(equation)), result[id(into)]
                assert isinstance(taken.left, Letter)
                result[id(into)] = replace(at, right=_replaced(at.right, taken.left, taken.right))
    return result


def _blocks(body: tuple[Statement, ...]) -> Iterator[list[Equation]]:
    """Equations that follow one another in one turn."""
    yield [statement for statement in body if isinstance(statement, Equation)]
    for loop in (statement for statement in body if isinstance(statement, Loop)):
        yield from _blocks(loop.body)


def _into(
    equation: Equation, block: list[Equation], body: tuple[Statement, ...], found: Mapping[int, Line], keeps: bool
) -> Equation | None:
    """The one line that takes this one in."""
    line, name = found[id(equation)], equation.left.name
    if not _is_part(line, keeps) or sum(each.left.name == name for each in equations(body)) > 1:
        return None
    reads = Counter(id(each) for each in equations(body) for e in subexpressions(each.right) if _names(e, name))
    (*once,) = [each for each in block if reads[id(each)] == 1]
    if sum(reads.values()) != 1 or not once or _redefines(block, equation, once[0], found):
        return None
    at = found.get(id(once[0]))
    assert isinstance(line.left, Letter)
    return once[0] if at and at.right and any(_same(x, line.left) for x in inside(at.right)) else None


def _names(e: object, name: str) -> bool:
    return isinstance(e, Tensor) and e.name == name


def _is_part(line: Line, keeps: bool) -> bool:
    """Does a line define a matrix between positions, or put heads side by side?"""
    if not isinstance(line.left, Letter) or line.right is None or line.equation.relation != "=":
        return False
    square = bool(line.left.rows) and axis_of(line.left.rows) == axis_of(line.left.cols)
    weights = any(isinstance(x, RowWise) for x in inside(line.right))
    return isinstance(line.right, Concat) or (square and not (keeps and weights))


def _redefines(block: list[Equation], first: Equation, last: Equation, found: Mapping[int, Line]) -> bool:
    """Is something that the first line reads defined anew before the last?"""
    between = block[block.index(first) + 1 : block.index(last)]
    read = {e.name for e in subexpressions(first.right) if isinstance(e, Tensor)}
    return any(each.left.name in read for each in between)


def _same(m: Matrix, taken: Letter) -> bool:
    """Is m the tensor that a line defines, read at the letters of its left side? A group counts as one letter."""
    if not isinstance(m, Letter) or m.of.name != taken.of.name:
        return False
    group = taken.cols.startswith("(") and bool(m.cols)
    return m.of == taken.of or (group and m.rows == taken.rows and m.labels == taken.labels)


def _replaced(m: Any, taken: Letter, by: Any) -> Any:
    """m with what a line says where it reads what that line defines."""
    if _same(m, taken):
        return replace(by, cols=m.cols) if isinstance(by, Concat) else oriented(by, shape(m))
    changed = {}
    for field in fields(m):
        value = getattr(m, field.name)
        if isinstance(value, tuple):
            changed[field.name] = tuple(_replaced(x, taken, by) if isinstance(x, Matrix) else x for x in value)
        elif isinstance(value, Matrix):
            changed[field.name] = _replaced(value, taken, by)
    result = replace(m, **changed) if changed else m
    return joined(result.factors) if isinstance(result, Times) else result
