"""Runs code on random tensors with distinct prime sizes, so that no two axes agree by chance."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, assert_never

import torch

from einformer.contracts.dtypes import device, dtypes
from einformer.contracts.reader import read
from einformer.contracts.scopes import BoundSize, block, check_distinct, check_sizes, find_caller, merge
from einformer.contracts.signature import match_items, spell_contract
from einformer.contracts.syntax import REST, Anything, Array, Contract, Each, Fields, Item, ScalarValue, Several, Size
from einformer.contracts.violations import Checker, evaluate
from einformer.errors import fail
from einformer.language.tree import Name
from einformer.language.walk import find_all

PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97)


def probe(function: Callable[..., Any], text: str = "", /, **sizes: int) -> dict[str, int]:
    """Run a function or a module on tensors that its contract asks for, of distinct prime sizes; returns the sizes.

    >>> probe(lambda q, k: torch.einsum("bsea,btea->bsta", q, k), "q_bsea, k_btea -> w_bsta")
    {'B': 2, 'S': 3, 'E': 5, 'A': 7, 'T': 11}

    `sizes` are those that the module has (`D=768`), or that must be small; whole numbers are 0 and 1. An optional value is
    given once and left out once. Raises EinformerError where the contract is not kept, or two sizes are equal (E728).
    """
    name = getattr(function, "__name__", type(function).__name__)
    signature = _find_signature(function)
    if not text and signature is None:
        raise fail("E724", f"Python knows no parameters of `{name}`", fix=f"`ein.contracts.probe({name}, 'x_bs -> y_bs')`")
    contract = read(text or spell_contract(function), name)
    items = (
        match_items(contract, tuple(signature.parameters.values()))
        if signature
        else tuple((item.key, item) for item in contract.arguments)
    )
    bound_sizes = merge(block(), check_sizes(sizes, f"ein.contracts.probe at {find_caller()}"))
    bound_sizes |= _assign_primes(contract, bound_sizes)
    check_distinct(bound_sizes)
    for whole in (True, False) if any(item.optional for _, item in items) else (True,):
        result = _call(
            function,
            signature,
            [(name, _make_value(item, bound_sizes)) for name, item in items if not _is_left_out(item, whole)],
        )
        if contract.result is not None:
            checker = Checker(bound_sizes)
            checker.see(contract.result, result, "result")
            checker.settle(last=True)
    return {name: bound.size for name, bound in bound_sizes.items() if name != REST.name}


# A module has the parameters of its `forward`. A builtin has none.
def _find_signature(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(getattr(function, "forward", function))
    except ValueError:
        return None


# A builtin takes unnamed values in order.
def _call(function: Callable[..., Any], signature: inspect.Signature | None, values: list[tuple[str, Any]]) -> Any:
    if signature is None:
        return function(*(value for name, value in values if not name), **{name: value for name, value in values if name})
    call = signature.bind_partial()
    call.arguments.update(dict(values))
    return function(*call.args, **call.kwargs)


def _is_left_out(item: Item, whole: bool) -> bool:
    return isinstance(item.value, Anything) or (item.optional and not whole)


# The first primes that are not a size yet.
def _assign_primes(contract: Contract, known: Mapping[str, BoundSize]) -> dict[str, BoundSize]:
    free = (prime for prime in PRIMES if prime not in [bound.size for bound in known.values()])
    items = [*contract.arguments, *([contract.result] if contract.result else [])]
    names = dict.fromkeys(name for item in items for name in _find_sizes(item) if name not in known)
    return {
        name: BoundSize((next(free),) if name == REST.name else next(free), "ein.contracts.probe, a prime") for name in names
    }


def _find_sizes(item: Item) -> Iterator[str]:
    match item.value:
        case Array():
            yield from (e.name for axis in item.value.axes for e in find_all(Name, axis.size))
        case Size():
            yield item.value.name
        case Several() | Fields():
            for member in item.value.members:
                yield from _find_sizes(member)
        case Each():
            yield from _find_sizes(item.value.member)
        case ScalarValue() | Anything():
            return
        case _:
            assert_never(item.value)


def _make_value(item: Item, known: Mapping[str, BoundSize]) -> Any:
    match item.value:
        case Array():
            return _make_tensor(item.value, known)
        case ScalarValue():
            return {"int": 1, "bool": True}.get(item.value.words[0] if item.value.words else "", 0.5)
        case Size():
            return known[item.value.name].size
        case Several():
            return tuple(_make_value(member, known) for member in item.value.members)
        case Each():
            return [_make_value(item.value.member, known)]
        case Fields():
            return {member.key: _make_value(member, known) for member in item.value.members}
        case Anything():
            return None
        case _:
            assert_never(item.value)


# Whole numbers are 0 and 1, which every table has.
def _make_tensor(array: Array, known: Mapping[str, BoundSize]) -> torch.Tensor:
    sizes = [evaluate(axis.size, known) for axis in array.axes]
    shape = [int(n) for size in sizes for n in (size if isinstance(size, tuple) else (size,))]
    allowed = dtypes(array.words)
    dtype = torch.float32 if not allowed or torch.float32 in allowed else torch.int64 if torch.int64 in allowed else allowed[0]
    values = torch.rand(shape) if dtype.is_floating_point or dtype.is_complex else torch.randint(2, shape)
    return values.to(device(array.words) or "cpu", dtype)
