"""Lists the contents of a model: the legend with numbers, and each layer with its equations, shapes, weights and counts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from einformer.interpreters.count.table import Instance
from einformer.language import printer
from einformer.language.sizes import Legend
from einformer.language.specialise import specialise
from einformer.language.tree import Equation, Expression, Index, Name, Tensor
from einformer.language.walk import equations, find_all
from einformer.objects import Model
from einformer.report.specimen import Specimen

if TYPE_CHECKING:
    import sympy


Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SizeRow:
    """A letter of the legend, its number, its meaning and its origin."""

    letter: str
    value: str
    meaning: str
    origin: str


@dataclass(frozen=True, slots=True)
class Row:
    """An equation as it is written, the shape of its left side, and its FLOPs."""

    equation: str
    shape: Shape
    flops: int


@dataclass(frozen=True, slots=True)
class LayerSection:
    """A layer at all places with the same sizes: its contents, and the number of its instances."""

    layer: str
    paths: tuple[str, ...]
    times: int
    rows: tuple[Row, ...]
    weights: Mapping[str, Shape]
    parameters: int
    parameters_formula: str
    flops: int
    flops_formula: str


# The sizes of inputs stand apart.
def sizes(model: Model) -> Iterator[SizeRow]:
    for axis in model.spec.written.axes:
        letter = printer.show(axis.size)
        if isinstance(axis.size, Name) and letter not in model.open:
            written = printer.show(axis).partition(": ")[2] if axis.default is not None else str(axis.span)
            value = f"{model.legend.length(axis.letter):,}"
            yield SizeRow(letter, value, axis.comment, model.legend.origins.get(letter, written))
    for scalar in model.spec.written.scalars:
        value = printer.show(scalar).partition(" = ")[2]
        yield SizeRow(scalar.name, value, scalar.comment, model.legend.origins.get(scalar.name, str(scalar.span)))


# Parts of one layer with equal counts are together.
def sections(subject: Specimen) -> tuple[LayerSection, ...]:
    groups: dict[tuple[str, int, int], list[tuple[Instance[int], Instance[sympy.Expr]]]] = {}
    for part, formula in zip(subject.parts, subject.formulas, strict=True):
        groups.setdefault((part.layer, part.parameters_of_one, part.flops // part.times), []).append((part, formula))
    return tuple(_make_section(subject, group) for group in groups.values())


def _make_section(subject: Specimen, group: Sequence[tuple[Instance[int], Instance[sympy.Expr]]]) -> LayerSection:
    part, formula = group[0]
    shapes_of_equations = shapes(subject.model, subject.legend)
    shape_at = {(layer, e.span.line, e.span.text): carried + own for layer, e, own, carried in shapes_of_equations}
    return LayerSection(
        part.layer,
        tuple(same.path for same, _ in group),
        sum(same.times for same, _ in group),
        tuple(Row(e.text, shape_at.get((e.layer, e.line, e.text), ()), e.each) for e in part.equations),
        {
            f"{w.full_path.removeprefix(f'{part.path}.')}_{''.join(w.letters)}": tuple(map(subject.legend.length, w.letters))
            for w in part.weights
        },
        part.parameters_of_one,
        subject.write(formula.parameters_of_one),
        part.flops // part.times,
        subject.write(formula.flops / formula.times),
    )


# The sizes of the slots, then of the axes that the layer carries along. A layer with several sets of carried axes comes once
# for each.
def shapes(model: Model, legend: Legend) -> Iterator[tuple[str, Equation, Shape, Shape]]:
    written = {layer.span: layer for layer in model.spec.tree.layers}
    for layer in specialise(model.spec.tree, model.spec.name).layers:
        own = {e.span: len(_list_slots(e)) for e in equations(written[layer.span].body)}
        for equation in equations(layer.body):
            shape = tuple(_find_length(slot, legend) for slot in _list_slots(equation))
            carried = len(shape) - own[equation.span]
            yield written[layer.span].name, equation, shape[carried:], shape[:carried]


def _list_slots(equation: Equation) -> tuple[Expression, ...]:
    return equation.left.slots if isinstance(equation.left, Tensor) else ()


def _find_length(slot: Expression, legend: Legend) -> int:
    return math.prod(legend.length(x.letter) for x in find_all(Index, slot))
