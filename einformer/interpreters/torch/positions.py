"""What becomes of a specialised text when every row has positions of its own, and some layers keep what they computed?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from einformer.language.calls import axis_of, callees, calls, slot_letters
from einformer.language.tree import Apply, Expression, Index, Layer, Name, Spec, Tensor
from einformer.language.walk import children, equations, map_equations, map_expressions, rebuild


def rows_of(model: Layer) -> tuple[str, ...]:
    """The letters of a batch, which stand before the time in the first input that has it."""
    assert model.time is not None
    letters = slot_letters(model.formals[timed(model)])
    return letters[: letters.index(model.time.letter)] if model.time.letter in letters else ()


def timed(model: Layer) -> int:
    """Which input is the first that has positions."""
    return next((k for k, formal in enumerate(model.formals) if model.time in formal.slots), 0)


def with_rows(spec: Spec, time: str, rows: tuple[str, ...]) -> Spec:
    """The text with the batch on every tensor that has positions: `m_ss'` becomes `m_bss'`."""
    return replace(spec, layers=tuple(_with_rows(layer, time, rows) for layer in spec.layers))


def _with_rows(layer: Layer, time: str, rows: tuple[str, ...]) -> Layer:
    tensors = [*layer.formals, layer.output, *(equation.left for equation in equations(layer.body))]
    lacking = {tensor.name for tensor in tensors if lacks(tensor, time, rows)}

    def widened(e: Tensor) -> Tensor:
        return replace(e, slots=(*(Index(row, span=e.span) for row in rows), *e.slots)) if e.name in lacking else e

    def visit(e: Expression) -> Expression:
        e = rebuild(e, visit)
        return widened(e) if isinstance(e, Tensor) else e

    def left(tensor: Tensor | Name) -> Tensor | Name:
        return widened(tensor) if isinstance(tensor, Tensor) else tensor

    layer = map_expressions(layer, visit)
    body = map_equations(layer.body, lambda equation: replace(equation, left=left(equation.left)))
    formals = tuple(widened(formal) for formal in layer.formals)
    return replace(layer, body=body, formals=formals, output=left(layer.output))


def lacks(tensor: Tensor | Name, time: str, rows: tuple[str, ...]) -> bool:
    """Has a tensor positions, but not the batch?"""
    letters = slot_letters(tensor)
    return any(axis_of(letter) == time for letter in letters) and not set(rows) & set(letters)


def numbered(layer: Layer, time: str) -> bool:
    """Does a body use the number of a position, other than to read a tensor of its own there?"""
    own = {tensor.name for tensor in (*layer.formals, *(equation.left for equation in equations(layer.body)))}
    return any(_numbers(equation.right, time, own) for equation in equations(layer.body))


def _numbers(e: Expression, time: str, own: set[str]) -> bool:
    if isinstance(e, Index):
        return axis_of(e.letter) == time
    inside: Iterable[Expression] = children(e)
    if isinstance(e, Tensor) and e.name in own:
        inside = (slot for slot in e.slots if not isinstance(slot, Index))
    return any(_numbers(child, time, own) for child in inside)


def reaching(layers: Mapping[str, Layer], found: Iterable[str]) -> frozenset[str]:
    """These layers, and those that call them, and so on."""
    found = set(found)
    called = {name: {callees(layer, layers)[e.name].name for e in _called(layer, layers)} for name, layer in layers.items()}
    while more := {name for name in called.keys() - found if called[name] & found}:
        found |= more
    return frozenset(found)


def _called(layer: Layer, layers: Mapping[str, Layer]) -> Iterator[Apply]:
    return (e for e in calls(layer) if e.name in callees(layer, layers))
