"""Do values keep a contract, and if not, what is wrong and since when? Slow, and says all it knows.

What is fast is written by `source.py`; it asks here only for the message. Both must give one verdict.
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

from einformer.contracts.causes import cause
from einformer.contracts.dtypes import device, dtypes
from einformer.contracts.scopes import Bound
from einformer.contracts.tree import REST, Anything, Array, Axis, Each, Fields, Item, Scalar, Several, Size
from einformer.errors import EinformerError, Span, fail
from einformer.language.printer import show
from einformer.language.tree import Expression, Name, Number, Product, Quotient, Sum
from einformer.language.walk import subexpressions

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
    axis: Axis
    tensor: Any
    number: int | slice
    place: str


class Checker:
    """One binding of sizes: values are seen one after the other, and the first that does not fit raises."""

    def __init__(self, known: Mapping[str, Bound]) -> None:
        self.sizes = dict(known)
        self.later: list[_Axis] = []

    def see(self, item: Item, value: object, place: str) -> None:
        """Raise EinformerError (E720 … E723) where a value is not what the item says; `place` is how one reads it."""
        if item.optional and value is None:
            return
        match item.value:
            case Array():
                self.array(item.value, value, place)
            case Scalar():
                if not is_scalar(value, item.value):
                    raise _kind(item.value, item.value.words, value, place)
            case Size():
                self.size(item.value, value, place)
            case Several():
                self.several(item.value, value, place)
            case Each():
                if not isinstance(value, tuple | list):
                    raise _no("a tuple or a list", item.value.span, value, place)
                for at, member in enumerate(value):
                    self.see(item.value.member, member, f"{place}[{at}]")
            case Fields():
                for member in item.value.members:
                    part = attribute(value, member.key)
                    if part is MISSING and not member.optional:
                        raise _no(f"something with `{member.key}`", item.value.span, value, place)
                    self.see(member, None if part is MISSING else part, f"{place}.{member.key}")
            case Anything():
                pass
            case _:
                assert_never(item.value)

    def several(self, several: Several, value: object, place: str) -> None:
        """A tuple or a list, of as many values."""
        wanted = len(several.members)
        if not isinstance(value, tuple | list):
            raise _no(f"{'at least ' * several.more}{wanted} values", several.span, value, place)
        if len(value) != wanted and not (several.more and len(value) > wanted):
            raise fail("E723", f"`{place}` holds {len(value)} values, not {wanted}", several.span, fix=several.span.text)
        for at, member in enumerate(several.members):
            self.see(member, value[at], f"{place}[{at}]")

    def size(self, size: Size, value: Any, place: str) -> None:
        """A whole number, which is the size, or becomes it."""
        if isinstance(value, bool) or not isinstance(value, int | torch.SymInt):
            raise _kind(size, ("int",), value, place)
        bound = self.sizes.setdefault(size.name, Bound(value, f"`{place}`"))
        if bound.size != value:
            facts = [f"`{size.name}` = {bound.size} by {bound.where}"]
            raise fail("E720", f"`{place}` is {value}, not {bound.size}", size.span, facts)

    def array(self, array: Array, value: Any, place: str) -> None:
        """A tensor: its kind, its rank, then axis by axis."""
        if not isinstance(value, ARRAYS) or ((allowed := dtypes(array.words)) and value.dtype not in allowed):
            raise _kind(array, array.words, value, place)
        if device(array.words) not in ("", getattr(value.device, "type", "cpu")):
            raise _kind(array, array.words, value, place)
        if value.ndim != array.rank and not (array.open and value.ndim > array.rank):
            raise self.wrong(array, array.span, value, place)
        for axis, number, length in aligned(array, value.shape):
            if isinstance(axis.size, Name):
                bound = self.sizes.setdefault(axis.size.name, Bound(length, f"`{place}.shape{_at(number)}`"))
                if bound.size != length:
                    raise self.wrong(array, axis.span, value, place)
            else:
                self.later.append(_Axis(array, axis, value, number, place))
        self.settle()

    def settle(self, last: bool = False) -> None:
        """Compare the formulas whose sizes are known; a product in which one is not gives that one.

        At the `last`, raise E725 where a size is still not known.
        """
        waiting: list[_Axis] = []
        while len(self.later) != len(waiting):
            waiting, self.later = self.later, []
            for each in waiting:
                self.formula(each)
        if last and self.later:
            axis = self.later[0].axis
            missing = ", ".join(f"`{name}`" for name in dict.fromkeys(self.unknown(axis.size)))
            fix = "another tensor that has them, `ein.contracts.bind`, or `with ein.contracts.sizes(…):`"
            raise fail("E725", f"nothing says what {missing} in `{axis.written}` is", axis.span, fix=fix)

    def formula(self, each: _Axis) -> None:
        """Compare an axis with its formula, solve that for the one size that is not known, or put it off."""
        size, length = each.axis.size, each.tensor.shape[each.number]
        missing = self.unknown(size)
        if not missing:
            if evaluate(size, self.sizes) != length:
                raise self.wrong(each.array, each.axis.span, each.tensor, each.place)
        elif len(missing) == 1 and isinstance(size, Product) and Name(missing[0]) in size.factors:
            rest = prod(evaluate(factor, self.sizes) for factor in size.factors if factor != Name(missing[0]))
            if rest == length == 0:  # any size would do
                self.later.append(each)
                return
            if not rest or length % rest:
                raise self.wrong(each.array, each.axis.span, each.tensor, each.place)
            where = f"`{each.place}.shape{_at(each.number)}`, which is `{each.axis.written}`"
            self.sizes[missing[0]] = Bound(length // rest, where)
        else:
            self.later.append(each)

    def unknown(self, size: Expression) -> list[str]:
        """The sizes of a formula that nothing has bound."""
        return [e.name for e in subexpressions(size) if isinstance(e, Name) and e.name not in self.sizes]

    def wrong(self, array: Array, span: Span, tensor: Any, place: str) -> EinformerError:
        """A shape that does not fit: which axis, which sizes were wanted and who bound them, and the likely cause."""
        shape, axes = tuple(tensor.shape), aligned(array, tensor.shape)
        at = next(((axis, length) for axis, _, length in axes if axis.span == span), None)
        wanted = [_wanted(axis, self.sizes) for axis in array.axes]
        named = [
            f"{axis.written} = {want}" if want is not None else axis.written
            for axis, want in zip(array.axes, wanted, strict=True)
        ]
        facts = [f"wanted: {', '.join(named)}", f"found:  {place}.shape = {shape}", *self.origins(array)]
        likely, fix = cause(array, tuple(wanted), shape, self.sizes, place)
        facts += [f"likely: {likely}"] * bool(likely)
        if at is None:
            message = f"`{place}` has {len(shape)} axes, `{array.span.text}` has {'at least ' * array.open}{array.rank}"
            return fail("E721", message, span, facts, fix)
        want = _wanted(at[0], self.sizes)
        rest = f"not {want}" if want is not None else "which the sizes that are known do not divide"
        return fail("E720", f"`{place}` has {at[1]} along `{at[0].written}`, {rest}", span, facts, fix)

    def origins(self, array: Array) -> list[str]:
        """Who bound each size that the tensor should have."""
        names = dict.fromkeys(e.name for axis in array.axes for e in subexpressions(axis.size) if isinstance(e, Name))
        return [f"{name} = {self.sizes[name].size} by {self.sizes[name].where}" for name in names if name in self.sizes]


def aligned(array: Array, shape: Sequence[int]) -> list[tuple[Axis, int | slice, Any]]:
    """Each axis with its place in the shape and its length; `...` takes what the others leave. None if the ranks differ."""
    extra = len(shape) - array.rank
    if extra < 0 or (extra and not array.open):
        return []
    found: list[tuple[Axis, int | slice, Any]] = []
    at = 0
    for axis in array.axes:
        if axis.size == REST:
            found.append((axis, slice(at, at + extra), tuple(shape[at : at + extra])))
            at += extra
        else:
            found.append((axis, at, shape[at]))
            at += 1
    return found


def is_scalar(value: Any, scalar: Scalar) -> bool:
    """Is it a number of this kind, or a tensor of it without axes?"""
    if isinstance(value, Tensor):
        allowed = dtypes(scalar.words)
        return value.dim() == 0 and (not allowed or value.dtype in allowed) and device(scalar.words) in ("", value.device.type)
    word = next((word for word in scalar.words if word in _NUMBERS), "")
    if (word == "" and scalar.words) or (isinstance(value, bool) and word in ("int", "float", "complex")):
        return False
    return isinstance(value, _NUMBERS[word])


def attribute(value: Any, key: str, default: Any = MISSING) -> Any:
    """What a mapping has under a key, or an object under a name."""
    return value.get(key, default) if isinstance(value, Mapping) else getattr(value, key, default)


def evaluate(size: Expression, sizes: Mapping[str, Bound]) -> Any:
    """The number that a formula of known sizes is."""
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


def _wanted(axis: Axis, sizes: Mapping[str, Bound]) -> Any:
    """The size that an axis must have, as far as it is known."""
    if all(e.name in sizes for e in subexpressions(axis.size) if isinstance(e, Name)):
        return evaluate(axis.size, sizes)
    return None


def _at(number: int | slice) -> str:
    return f"[{number.start}:{number.stop}]" if isinstance(number, slice) else f"[{number}]"


def _kind(value: Array | Scalar | Size, words: tuple[str, ...], found: Any, place: str) -> EinformerError:
    """Not a tensor, or one of another dtype, or elsewhere."""
    wanted = " ".join((*words, "tensor" if isinstance(value, Array) else "number"))
    facts = [f"wanted: {wanted}", f"found:  {place} is {_described(found)}"]
    return fail("E722", f"`{place}` is no {wanted}", value.span, facts)


def _no(wanted: str, span: Span, found: Any, place: str) -> EinformerError:
    return fail("E723", f"`{place}` is not {wanted}", span, [f"found:  {place} is {_described(found)}"])


def _described(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor {tuple(value.shape)}, {str(value.dtype).removeprefix('torch.')} on {value.device}"
    if isinstance(value, np.ndarray):
        return f"an array of NumPy {value.shape}, {value.dtype}"
    return f"a {type(value).__name__}" if value is not None else "None"
