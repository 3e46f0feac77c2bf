"""Checks values against a contract, and explains each violation. Slow, and thorough.

The fast checks are written by `source.py`, which asks this module only for the message. Both must give one verdict.
"""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import Any, assert_never

import numpy as np
import torch
from torch import Tensor

from einformer.contracts.causes import find_cause
from einformer.contracts.dtypes import device, dtypes
from einformer.contracts.scopes import BoundSize
from einformer.contracts.syntax import REST, Anything, Array, Dimension, Each, Fields, Item, ScalarValue, Several, Size
from einformer.errors import EinformerError, Span, fail
from einformer.language.printer import show
from einformer.language.tree import Expression, Name, Number, Product, Quotient, Sum
from einformer.language.walk import find_all

ARRAYS = (Tensor, np.ndarray)
MISSING = object()
_NUMBERS: dict[str, tuple[type, ...]] = {
    "int": (numbers.Integral, torch.SymInt),
    "float": (numbers.Real, torch.SymInt, torch.SymFloat),
    "complex": (numbers.Number,),
    "bool": (bool, torch.SymBool),
    "": (numbers.Number, torch.SymInt, torch.SymFloat, torch.SymBool),
}


@dataclass(frozen=True, slots=True)
class _Axis:
    """An axis whose size is a formula of sizes that are not all known yet."""

    array: Array
    axis: Dimension
    tensor: Any
    number: int | slice
    place: str


class Checker:
    """A binding of sizes. Values are checked one after the other, and the first that does not fit raises."""

    def __init__(self, known: Mapping[str, BoundSize]) -> None:
        self.sizes = dict(known)
        self.later: list[_Axis] = []

    # Checks a value against an item. Raises EinformerError (E720 … E723). `place` is how Python reads the value.
    def see(self, item: Item, value: object, place: str) -> None:
        if item.optional and value is None:
            return
        match item.value:
            case Array():
                self.check_array(item.value, value, place)
            case ScalarValue():
                if not is_scalar(value, item.value):
                    raise _report_kind(item.value, item.value.words, value, place)
            case Size():
                self.check_size(item.value, value, place)
            case Several():
                self.check_several(item.value, value, place)
            case Each():
                if not isinstance(value, tuple | list):
                    raise _report_value("a tuple or a list", item.value.span, value, place)
                for number, member in enumerate(value):
                    self.see(item.value.member, member, f"{place}[{number}]")
            case Fields():
                for member in item.value.members:
                    part = attribute(value, member.key)
                    if part is MISSING and not member.optional:
                        raise _report_value(f"something with `{member.key}`", item.value.span, value, place)
                    self.see(member, None if part is MISSING else part, f"{place}.{member.key}")
            case Anything():
                pass
            case _:
                assert_never(item.value)

    def check_several(self, several: Several, value: object, place: str) -> None:
        wanted = len(several.members)
        if not isinstance(value, tuple | list):
            raise _report_value(f"{'at least ' * several.more}{wanted} values", several.span, value, place)
        if len(value) != wanted and not (several.more and len(value) > wanted):
            raise fail("E723", f"`{place}` holds {len(value)} values, not {wanted}", several.span, fix=several.span.text)
        for number, member in enumerate(several.members):
            self.see(member, value[number], f"{place}[{number}]")

    def check_size(self, size: Size, value: Any, place: str) -> None:
        if isinstance(value, bool) or not isinstance(value, int | torch.SymInt):
            raise _report_kind(size, ("int",), value, place)
        bound = self.sizes.setdefault(size.name, BoundSize(value, f"`{place}`"))
        if bound.size != value:
            facts = [f"`{size.name}` = {bound.size} by {bound.where}"]
            raise fail("E720", f"`{place}` is {value}, not {bound.size}", size.span, facts)

    def check_array(self, array: Array, value: Any, place: str) -> None:
        if not isinstance(value, ARRAYS) or ((allowed := dtypes(array.words)) and value.dtype not in allowed):
            raise _report_kind(array, array.words, value, place)
        if device(array.words) not in ("", getattr(value.device, "type", "cpu")):
            raise _report_kind(array, array.words, value, place)
        if value.ndim != array.rank and not (array.open and value.ndim > array.rank):
            raise self.report_shape(array, array.span, value, place)
        for axis, number, length in align(array, value.shape):
            if isinstance(axis.size, Name):
                bound = self.sizes.setdefault(axis.size.name, BoundSize(length, f"`{place}.shape{_spell_index(number)}`"))
                if bound.size != length:
                    raise self.report_shape(array, axis.span, value, place)
            else:
                self.later.append(_Axis(array, axis, value, number, place))
        self.settle()

    # Compares the formulas whose sizes are known. A product with one unknown factor binds it. At the `last`, raises E725 if a
    # size is still unknown.
    def settle(self, last: bool = False) -> None:
        waiting: list[_Axis] = []
        while len(self.later) != len(waiting):
            waiting, self.later = self.later, []
            for pending in waiting:
                self.solve(pending)
        if last and self.later:
            axis = self.later[0].axis
            missing = ", ".join(f"`{name}`" for name in dict.fromkeys(self.find_unknown(axis.size)))
            fix = "another tensor that has them, `ein.contracts.bind`, or `with ein.contracts.sizes(…):`"
            raise fail("E725", f"nothing says what {missing} in `{axis.written}` is", axis.span, fix=fix)

    # A formula is compared, solved for a single unknown size, or waits.
    def solve(self, pending: _Axis) -> None:
        size, length = pending.axis.size, pending.tensor.shape[pending.number]
        missing = self.find_unknown(size)
        if not missing:
            if evaluate(size, self.sizes) != length:
                raise self.report_shape(pending.array, pending.axis.span, pending.tensor, pending.place)
        elif len(missing) == 1 and isinstance(size, Product) and Name(missing[0]) in size.factors:
            rest = prod(evaluate(factor, self.sizes) for factor in size.factors if factor != Name(missing[0]))
            if rest == length == 0:  # any size would do
                self.later.append(pending)
                return
            if not rest or length % rest:
                raise self.report_shape(pending.array, pending.axis.span, pending.tensor, pending.place)
            where = f"`{pending.place}.shape{_spell_index(pending.number)}`, which is `{pending.axis.written}`"
            self.sizes[missing[0]] = BoundSize(length // rest, where)
        else:
            self.later.append(pending)

    def find_unknown(self, size: Expression) -> list[str]:
        return [e.name for e in find_all(Name, size) if e.name not in self.sizes]

    # A wrong shape has an axis, the wanted sizes, their origins, and a likely cause.
    def report_shape(self, array: Array, span: Span, tensor: Any, place: str) -> EinformerError:
        shape, axes = tuple(tensor.shape), align(array, tensor.shape)
        misfit = next(((axis, length) for axis, _, length in axes if axis.span == span), None)
        wanted = [_evaluate_known(axis, self.sizes) for axis in array.axes]
        named = [
            f"{axis.written} = {want}" if want is not None else axis.written
            for axis, want in zip(array.axes, wanted, strict=True)
        ]
        facts = [f"wanted: {', '.join(named)}", f"found:  {place}.shape = {shape}", *self.origins(array)]
        likely, fix = find_cause(array, tuple(wanted), shape, self.sizes, place)
        facts += [f"likely: {likely}"] * bool(likely)
        if misfit is None:
            message = f"`{place}` has {len(shape)} axes, `{array.span.text}` has {'at least ' * array.open}{array.rank}"
            return fail("E721", message, span, facts, fix)
        want = _evaluate_known(misfit[0], self.sizes)
        rest = f"not {want}" if want is not None else "which the sizes that are known do not divide"
        return fail("E720", f"`{place}` has {misfit[1]} along `{misfit[0].written}`, {rest}", span, facts, fix)

    def origins(self, array: Array) -> list[str]:
        names = dict.fromkeys(e.name for axis in array.axes for e in find_all(Name, axis.size))
        return [f"{name} = {self.sizes[name].size} by {self.sizes[name].where}" for name in names if name in self.sizes]


# `...` takes the rest. Nothing is aligned if the ranks differ.
def align(array: Array, shape: Sequence[int]) -> list[tuple[Dimension, int | slice, Any]]:
    extra = len(shape) - array.rank
    if extra < 0 or (extra and not array.open):
        return []
    placed: list[tuple[Dimension, int | slice, Any]] = []
    position = 0
    for axis in array.axes:
        if axis.size == REST:
            placed.append((axis, slice(position, position + extra), tuple(shape[position : position + extra])))
            position += extra
        else:
            placed.append((axis, position, shape[position]))
            position += 1
    return placed


# A tensor without axes is a number, too.
def is_scalar(value: Any, scalar: ScalarValue) -> bool:
    if isinstance(value, Tensor):
        allowed = dtypes(scalar.words)
        return value.dim() == 0 and (not allowed or value.dtype in allowed) and device(scalar.words) in ("", value.device.type)
    word = next((word for word in scalar.words if word in _NUMBERS), "")
    if (word == "" and scalar.words) or (isinstance(value, bool) and word in ("int", "float", "complex")):
        return False
    return isinstance(value, _NUMBERS[word])


def attribute(value: Any, key: str, default: Any = MISSING) -> Any:
    return value.get(key, default) if isinstance(value, Mapping) else getattr(value, key, default)


def evaluate(size: Expression, sizes: Mapping[str, BoundSize]) -> Any:
    match size:
        case Name():
            return sizes[size.name].size
        case Number():
            return size.value
        case Sum():
            return sum(evaluate(term, sizes) for term in size.terms)
        case Product():
            return prod(evaluate(factor, sizes) for factor in size.factors)
        case Quotient():
            below = evaluate(size.denominator, sizes)
            return Fraction(evaluate(size.numerator, sizes), below) if below else None
    raise AssertionError(show(size))


def _evaluate_known(axis: Dimension, sizes: Mapping[str, BoundSize]) -> Any:
    if all(e.name in sizes for e in find_all(Name, axis.size)):
        return evaluate(axis.size, sizes)
    return None


def _spell_index(number: int | slice) -> str:
    return f"[{number.start}:{number.stop}]" if isinstance(number, slice) else f"[{number}]"


def _report_kind(value: Array | ScalarValue | Size, words: tuple[str, ...], value_found: Any, place: str) -> EinformerError:
    wanted = " ".join((*words, "tensor" if isinstance(value, Array) else "number"))
    facts = [f"wanted: {wanted}", f"found:  {place} is {_describe(value_found)}"]
    return fail("E722", f"`{place}` is no {wanted}", value.span, facts)


def _report_value(wanted: str, span: Span, value_found: Any, place: str) -> EinformerError:
    return fail("E723", f"`{place}` is not {wanted}", span, [f"found:  {place} is {_describe(value_found)}"])


def _describe(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor {tuple(value.shape)}, {str(value.dtype).removeprefix('torch.')} on {value.device}"
    if isinstance(value, np.ndarray):
        return f"an array of NumPy {value.shape}, {value.dtype}"
    return f"a {type(value).__name__}" if value is not None else "None"
