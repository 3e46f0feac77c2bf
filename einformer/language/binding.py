"""Gives a specification sizes and scalars in the place of its defaults (R8), and leaves out optional weights (R9)."""

from __future__ import annotations

import difflib
import math
import numbers
import operator
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import SupportsFloat, SupportsIndex

from einformer.errors import fail
from einformer.language.calls import axis_of, slot_letters
from einformer.language.check import check_references
from einformer.language.parser import parse_expression
from einformer.language.primitives import primitive
from einformer.language.sizes import MAXIMUM_NUMBER, MAXIMUM_SIZE, Legend, Value, check_sizes, fail_unbound, try_number
from einformer.language.tree import Apply, Expression, Index, Layer, Name, Number, Product, Quotient, Scalar, Spec, Sum, Tensor
from einformer.language.walk import equations, find_all, loops, map_expressions, rebuild

Given = SupportsIndex | SupportsFloat | str | Sequence[float]  # numbers of NumPy too


# Returns a spec with values for sizes and scalars, and its legend. It must be checked again. A scalar may become a number, a
# list over its index, or a formula as text. `origin` gives the origin of the values in messages, one for all or one for each
# name.
def bind(spec: Spec, values: Mapping[str, Given], origin: str | Mapping[str, str] = "given") -> tuple[Spec, Legend]:
    sizes, scalars = _sort_values(spec, values)
    bound = (
        replace(s, value=_bind_scalar(s, scalars[s.name], spec), note="") if s.name in scalars else s for s in spec.scalars
    )
    spec = replace(spec, scalars=tuple(bound))
    check_references(spec)
    legend = Legend.of(spec, sizes, dict.fromkeys(values, origin) if isinstance(origin, str) else origin)
    check_sizes(legend, sizes)
    _check_lists(spec, legend)
    return spec, legend


# Sizes that are bound, and those that follow from them.
def find_sizes(legend: Legend) -> dict[str, Value]:
    sizes = {name: legend.axis_of_size(name) for name in legend.letters}
    following = {name: try_number(legend.length, axis.letter) for name, axis in sizes.items() if axis}
    return {**{name: value for name, value in following.items() if value is not None}, **legend.values}


def _sort_values(spec: Spec, values: Mapping[str, Given]) -> tuple[dict[str, Value], dict[str, Given]]:
    legend = Legend.of(spec)
    letters, sizes, scalars = legend.letters, dict[str, Value](), dict[str, Given]()
    for name, value in values.items():
        if name in legend.scalars:
            scalars[name] = value
        elif name in letters:
            sizes[name] = _bind_size(name, value)
        else:
            names = sorted(letters | set(legend.scalars))
            close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
            fix = f"`{close[0]}`" if close else f"one of {', '.join(names)}"
            raise fail("E605", f"no size or scalar `{name}` is declared", fix=fix)
    return sizes, scalars


def _bind_size(name: str, given: Given) -> int:
    value = _read_number(given)
    if value is not None and 1 <= value <= MAXIMUM_SIZE and value == int(value):
        return int(value)
    raise fail("E604", f"the size `{name}` cannot be {_show(given)}", fix="a positive whole number")


# A number of Python, or of NumPy or another library; None for anything else, such as a truth value.
def _read_number(value: object) -> int | float | None:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return None
    return operator.index(value) if isinstance(value, numbers.Integral) else float(value)


def _show(value: object) -> str:
    number = _read_number(value)
    many = isinstance(number, int) and abs(number) > MAXIMUM_SIZE
    return "a number of many digits" if many else reprlib.repr(value if number is None else number)


def _bind_scalar(scalar: Scalar, value: Given, spec: Spec) -> Expression | tuple[Number, ...]:
    if isinstance(value, str):
        return parse_expression(value, spec, f"<{scalar.name}>")
    if not isinstance(value, Sequence):
        return _bind_number(scalar, value)
    items: Sequence[object] = value
    if len(scalar.indices) != 1:
        message = f"`{scalar.name}` has {len(scalar.indices)} indices, so it cannot be a list"
        raise fail("E606", message, scalar.span, fix="a number or a formula")
    return tuple(_bind_number(scalar, item) for item in items)


def _bind_number(scalar: Scalar, given: object) -> Number:
    value = _read_number(given)
    if value is not None and (abs(value) <= MAXIMUM_NUMBER or abs(value) == math.inf):
        return Number(value)
    message = f"the scalar `{scalar.name}` cannot be {_show(given)}"
    raise fail("E604", message, scalar.span, fix="a number, a list or a formula")


def _check_lists(spec: Spec, legend: Legend) -> None:
    for scalar in spec.scalars:
        if isinstance(scalar.value, tuple) and len(scalar.value) != (length := legend.length(scalar.indices[0].letter)):
            message = f"`{scalar.name}` is a list of {len(scalar.value)}, its axis has {length}"
            raise fail("E606", message, scalar.span, [legend.describe(scalar.indices[0].letter)], f"{length} values")


# The legend with sizes that are still open, such as `B` and `S`. Raises EinformerError E601, E603 to E605.
def bind_sizes(spec: Spec, legend: Legend, given: Mapping[str, int]) -> Legend:
    sizes, _ = _sort_values(spec, given)
    still_open = open_sizes(legend)
    if wrong := [name for name in given if name not in still_open]:
        raise fail("E605", f"`{wrong[0]}` is not an open size", fix=" or ".join(f"`{name}`" for name in sorted(still_open)))
    values, origins = {**legend.values, **sizes}, {**legend.origins, **dict.fromkeys(sizes, "given")}
    bound = Legend(legend.axes, legend.scalars, values, origins, legend.inputs | sizes.keys())
    check_sizes(bound, sizes)
    return bound


def open_sizes(legend: Legend) -> set[str]:
    return {x for x in legend.letters - legend.values.keys() if not (axis := legend.axis_of_size(x)) or axis.default is None}


def refuse_unbound(spec: Spec, legend: Legend) -> None:
    names = {x.name: x for x in _find_unbound([Name(s.name) for s in spec.scalars if not s.indices], legend)}
    for layer in spec.layers:
        axes = [legend.axes[axis_of(letter)] for formal in layer.formals for letter in slot_letters(formal)]
        shapes = {axis.size.name for axis in axes if isinstance(axis.size, Name)}  # by the shape of an input
        turning, body = list(loops(layer.body)), [equation.right for equation in equations(layer.body)]
        turns = {loop.index.letter for loop in turning}
        lengths = [legend.axes[axis_of(index.letter)].size for weight in layer.weights for index in weight.indices]
        read = (axis_of(index.letter) for index in find_all(Index, *body))
        body += [legend.axes[letter].size for letter in read if letter not in turns]
        numbers = [*_find_unbound([*lengths, *(loop.count for loop in turning)], legend), *_find_unbound(body, legend, shapes)]
        names |= {x.name: x for x in numbers if x.name not in names}
    if names:
        raise fail_unbound(*sorted(names.values(), key=lambda x: (x.span.start, x.name)))


def _find_unbound(roots: Sequence[Expression], legend: Legend, seen: Iterable[str] = ()) -> list[Name]:
    closed = legend.formulas.keys() | legend.values.keys()
    return [x for x in legend.made_of(roots, seen) if isinstance(x, Name) and x.name in legend.letters - closed]


def size(legend: Legend, letter: str) -> int:
    axis = legend.axis_of_size(letter)
    if axis is None and letter not in legend.values:
        facts = [f"there are {', '.join(sorted(legend.letters))}"]
        raise fail("E601", f"the size `{letter}` is not bound", facts=facts, fix=f"`bind({letter}=…)`, if it is one of them")
    return legend.length(axis.letter) if axis else int(legend.values[letter])


# `S` is the longest that is allowed, or 1024.
def usual_sizes(legend: Legend, batch: int, length: int | None) -> dict[str, int]:
    axis, still_open = legend.axis_of_size("S"), open_sizes(legend)
    bound = try_number(legend.number, axis.bound) if axis is not None and axis.bound is not None else None
    sizes = {"B": batch, "S": min(1024, int(bound or 1024)) if length is None else length}
    return {letter: size for letter, size in sizes.items() if letter in still_open}


# The legend with the open sizes that the shapes of a layer's inputs give. Raises EinformerError E701, E603.
def bind_inputs(layer: Layer, legend: Legend, shapes: Sequence[tuple[int, ...]]) -> Legend:
    values, origins = dict(legend.values), dict(legend.origins)
    bound = Legend(legend.axes, legend.scalars, values, origins)
    if len(shapes) != len(layer.formals):
        raise fail("E401", f"`{layer.name}` takes {len(layer.formals)} inputs, here are {len(shapes)}", layer.span)
    for formal, shape in zip(layer.formals, shapes, strict=True):
        if len(shape) != len(formal.slots):
            message = f"the input `{formal.name}` has {len(shape)} axes, not {len(formal.slots)}"
            fix = "an array with an axis for each of its letters"
            raise fail("E701", message, formal.span, map(legend.describe, slot_letters(formal)), fix)
        for letter, length in zip(slot_letters(formal), shape, strict=True):
            axis = legend.axes[axis_of(letter)]
            if isinstance(axis.size, Name) and try_number(bound.length, letter) is None:
                values[axis.size.name], origins[axis.size.name] = length, f"the input {formal.name}"
            elif bound.length(letter) != length:
                size = bound.length(letter)
                message = f"the input `{formal.name}` has {length} numbers along `{letter}`, not {size}"
                raise fail("E701", message, formal.span, [bound.describe(letter)], f"{size} numbers along `{letter}`")
    check_sizes(bound)
    return bound


def check_lengths(lengths: Sequence[int], shapes: Sequence[tuple[int, ...]]) -> None:
    for shape in shapes:
        if len(shape) < 2 or len(lengths) != shape[0] or not all(1 <= length <= shape[1] for length in lengths):
            message = f"`lengths` are {_show(list(lengths))}, and an input has the shape {shape}"
            raise fail("E701", message, fix="for each row of a batch how many of its positions it has")


_ZERO = Number(0)


# The checked spec without the weights `Layer.weight`; one with a default is tied to it. Raises EinformerError E605.
def leave_out(spec: Spec, names: Iterable[str]) -> Spec:
    for name in names:
        optional = [f"{layer.name}.{w.name}" for layer in spec.layers for w in layer.weights if w.optional]
        if name not in optional:
            facts = [f"there are {', '.join(optional) or 'none'}"]
            raise fail("E605", f"there is no optional weight `{name}`", spec.span, facts)
        own, _, weight = name.partition(".")
        spec = replace(spec, layers=tuple(_leave_out(x, weight) if x.name == own else x for x in spec.layers))
    return spec


def _leave_out(layer: Layer, name: str) -> Layer:
    tied = {w.name: replace(w, optional=False) for w in layer.weights if w.name == name and w.default is not None}
    weights = (tied.get(w.name, w) for w in layer.weights if w.name != name or w.name in tied)
    layer = replace(layer, weights=tuple(weights))
    return layer if tied else map_expressions(layer, lambda e: _drop_tensor(e, name))


# A tensor that is zero: a sum loses the term, a product is zero.
def _drop_tensor(e: Expression, name: str) -> Expression:
    if isinstance(e, Tensor) and e.name == name:
        return _ZERO
    if isinstance(e, Sum):
        terms = tuple(term for term in (_drop_tensor(term, name) for term in e.terms) if term is not _ZERO)
        return _ZERO if not terms else terms[0] if len(terms) == 1 else replace(e, terms=terms)
    new = rebuild(e, lambda child: _drop_tensor(child, name))
    match new:
        case Product() if any(factor is _ZERO for factor in new.factors):
            return _ZERO
        case Quotient() if new.numerator is _ZERO:
            return _ZERO
        case Apply() if new.arguments[0] is _ZERO and (row := primitive(new.name, bool(new.indices))) and row.zero:
            return _ZERO
        case _:
            return new
