"""What does a specification become when sizes and scalars are given (R8)? The same spec with its defaults replaced."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from einformer.errors import EinformerError, fail
from einformer.notation.calls import axis_of
from einformer.notation.check import check
from einformer.notation.parser import parse_expression
from einformer.notation.sizes import Legend, Value
from einformer.notation.tree import Expression, Index, Layer, Name, Number, Scalar, Spec, Tensor

Given = int | float | str | Sequence[float]


def bind(spec: Spec, given: Mapping[str, Given], origin: str | Mapping[str, str] = "given") -> tuple[Spec, Legend]:
    """A checked spec with values for sizes and scalars, and its legend with every size that follows.

    A scalar may become a number, a list over its index, or a formula as text. `origin` says for messages where all the
    values came from, or where each did. Raises EinformerError E602 to E606, E308.
    """
    sizes, scalars = _sorted(spec, given)
    replaced = {s.name: replace(s, value=_value(s, scalars[s.name], spec)) for s in spec.scalars if s.name in scalars}
    spec = replace(spec, scalars=tuple(replaced.get(s.name, s) for s in spec.scalars))
    legend = Legend.of(spec, sizes, dict.fromkeys(given, origin) if isinstance(origin, str) else origin)
    _whole_sizes(legend)
    _lists_fit(spec, legend)
    known = {
        name: legend.length(axis.letter)
        for name in legend.letters()
        if (axis := legend.sized(name)) and _is_bound(legend, axis.letter)
    }
    _, findings = check(spec, values=known | sizes)
    if findings:
        raise EinformerError(findings)
    return spec, legend


def _sorted(spec: Spec, given: Mapping[str, Given]) -> tuple[dict[str, Value], dict[str, Given]]:
    """Which of the values are sizes, which are scalars."""
    legend = Legend.of(spec)
    letters, sizes, scalars = legend.letters(), dict[str, Value](), dict[str, Given]()
    for name, value in given.items():
        if name in legend.scalars:
            scalars[name] = value
        elif name in letters:
            sizes[name] = _size(name, value)
        else:
            known = sorted(letters | set(legend.scalars))
            close = difflib.get_close_matches(name, known, n=1, cutoff=0)
            fact = f"there are {', '.join(known)}"
            raise fail("E605", f"no size or scalar `{name}` is declared", spec.span, [fact], f"`{close[0]}`" if close else "")
    return sizes, scalars


def _size(name: str, value: Given) -> int:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not math.isfinite(value)
        or value < 1
        or value != int(value)
    ):
        raise fail("E604", f"the size `{name}` cannot be {value!r}", fix="a positive whole number")
    return int(value)


def _value(scalar: Scalar, value: Given, spec: Spec) -> Expression | tuple[Number, ...]:
    if isinstance(value, str):
        return parse_expression(value, spec, f"<{scalar.name}>")
    if isinstance(value, bool):
        raise fail("E604", f"the scalar `{scalar.name}` cannot be {value}", scalar.span, fix="a number")
    if isinstance(value, int | float):
        return _number(scalar, value)
    if len(scalar.indices) != 1:
        raise fail(
            "E606",
            f"`{scalar.name}` has {len(scalar.indices)} indices, so it cannot be a list",
            scalar.span,
            fix="a number or a formula",
        )
    return tuple(_number(scalar, item) for item in value)


def _number(scalar: Scalar, value: float) -> Number:
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        raise fail("E604", f"the scalar `{scalar.name}` cannot be {value!r}", scalar.span, fix="a number, a list or a formula")
    return Number(value)


def _is_bound(legend: Legend, letter: str) -> bool:
    """Can the size of this axis be worked out? False while a letter that it needs is not bound."""
    try:
        legend.length(letter)
    except EinformerError as error:
        if error.findings[0].code != "E601":
            raise
        return False
    return True


def _whole_sizes(legend: Legend) -> None:
    """Every size that follows from what is bound is a positive whole number within its bound."""
    for axis in legend.axes.values():
        if not _is_bound(legend, axis.letter) or axis.bound is None:
            continue
        size, bound = legend.length(axis.letter), legend.number(axis.bound)
        if size > bound:
            raise fail("E603", f"the size of `{axis.letter}` is {size}, its bound {bound}", axis.span, fix=f"at most {bound}")


def _lists_fit(spec: Spec, legend: Legend) -> None:
    for scalar in spec.scalars:
        if isinstance(scalar.value, tuple) and len(scalar.value) != legend.length(scalar.indices[0].letter):
            length = legend.length(scalar.indices[0].letter)
            raise fail(
                "E606",
                f"`{scalar.name}` is a list of {len(scalar.value)}, its axis has {length}",
                scalar.span,
                fix=f"{length} values",
            )


def bind_inputs(layer: Layer, legend: Legend, shapes: Sequence[tuple[int, ...]]) -> Legend:
    """The legend with the open sizes that the shapes of a layer's inputs give. Raises EinformerError E701, E603."""
    values, origins = dict(legend.values), dict(legend.origins)
    if len(shapes) != len(layer.formals):
        raise fail("E401", f"`{layer.name}` takes {len(layer.formals)} inputs, here are {len(shapes)}", layer.span)
    for formal, shape in zip(layer.formals, shapes, strict=True):
        if len(shape) != len(formal.slots):
            raise fail("E701", f"the input `{formal.name}` has {len(shape)} axes, not {len(formal.slots)}", formal.span)
        for slot, length in zip(formal.slots, shape, strict=True):
            _fits(Legend(legend.axes, legend.scalars, values, origins), formal, slot, length, values, origins)
    bound = Legend(legend.axes, legend.scalars, values, origins)
    _whole_sizes(bound)
    return bound


def _fits(
    legend: Legend, formal: Tensor, slot: Expression, length: int, values: dict[str, Value], origins: dict[str, str]
) -> None:
    """The length of one axis of an input, against the size of its letter or as that size."""
    assert isinstance(slot, Index)
    axis = legend.axes[axis_of(slot.letter)]
    if isinstance(axis.size, Name) and not _is_bound(legend, axis.letter):
        values[axis.size.name], origins[axis.size.name] = length, f"the input {formal.name}"
    elif legend.length(axis.letter) != length:
        facts = [legend.origin(axis.size.name)] if isinstance(axis.size, Name) else []
        message = f"the input `{formal.name}` has {length} numbers along `{slot.letter}`, not {legend.length(axis.letter)}"
        raise fail("E701", message, formal.span, facts)
