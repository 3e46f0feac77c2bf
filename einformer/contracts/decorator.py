"""Attaches a contract to a function: `@ein.contract("z_bsd, Q_dea -> q_bsea")`, or `@ein.contract` with suffixed names."""

from __future__ import annotations

import functools
import inspect
import itertools
import linecache
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar, overload

import torch

from einformer.contracts import switch
from einformer.contracts.comparisons import SHARED, FactoryText, write
from einformer.contracts.long_names import shorten
from einformer.contracts.reader import read
from einformer.contracts.scopes import OWN, USED, BoundSize, block, clashes, find_caller, keep, merge, spell_place
from einformer.contracts.signature import (
    NO_AXES,
    find_lasting_sizes,
    find_owner,
    find_parameters,
    match_items,
    spell_contract,
)
from einformer.contracts.syntax import Contract, Item
from einformer.contracts.violations import ARRAYS, MISSING, Checker, attribute, is_scalar
from einformer.errors import EinformerError, fail

_F = TypeVar("_F", bound=Callable[..., Any])
_COUNT = itertools.count(1)


@overload
def contract(text: _F, /) -> _F: ...


@overload
def contract(text: str = "", /, *, axes: Mapping[str, str] = NO_AXES) -> Callable[[_F], _F]:
    """By a text."""


def contract(text: Any = "", /, *, axes: Mapping[str, str] = NO_AXES) -> Any:
    """Check the arguments and results of a function at every call; raises EinformerError at the first value that does not fit.

    >>> @contract("z_bsd, Q_dea -> q_bsea")
    ... def project(z, Q):
    ...     return torch.einsum("bsd,dea->bsea", z, Q)
    >>> project(torch.ones(2, 5, 12), torch.ones(12, 4, 3)).shape
    torch.Size([2, 5, 4, 3])

    Without a text, suffixed names of parameters (`def attend(q_bsea, k_btea)`) and annotations (`T["bsd"]`) are the contract.
    `axes={"batch": "b"}` gives letters to longer names, in braces (`z_{batch seq}`) or in annotations of jaxtyping.
    """
    return functools.partial(_decorate, text, axes) if isinstance(text, str) else _decorate("", axes, text)


def _decorate(text: str, axes: Mapping[str, str], function: Any) -> Any:
    if isinstance(function, staticmethod | classmethod):
        return type(function)(_decorate(text, axes, function.__func__))
    return wrap(text, function, axes) if switch.active() else function


# Returns the function behind its checks. Raises EinformerError if the text is not a contract of this function.
def wrap(text: str, function: Callable[..., Any], axes: Mapping[str, str] = NO_AXES) -> Callable[..., Any]:
    agreed = agree(text, function, axes)
    written = write(agreed.contract, agreed.items, function)
    wrapper = _run_text(written.text, agreed.closure(written), agreed.contract.span.source.name)
    wrapper.__defaults__, wrapper.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
    functools.update_wrapper(wrapper, function)
    return agreed.keep_sizes(wrapper) if agreed.kept else wrapper


@dataclass(frozen=True, slots=True)
class Agreement:
    """A contract and its function."""

    contract: Contract
    items: tuple[tuple[str, Item], ...]
    function: Callable[..., Any]
    owner: str
    kept: tuple[str, ...]  # the sizes that an `__init__` binds for its object

    def closure(self, written: FactoryText) -> dict[str, Any]:
        values: tuple[Any, ...] = (
            self.function, self.refusal(), self.check, self.check_result, ARRAYS, is_scalar, attribute, MISSING, USED,
            OWN, block, clashes, torch.compiler.is_compiling, isinstance, getattr, len,
            (int, torch.SymInt), (tuple, list), MappingProxyType({}),
        )  # fmt: skip
        return written.constants | {written.names[name]: value for name, value in zip(SHARED, values, strict=True)}

    def check(self, values: tuple[Any, ...]) -> Checker:
        values_by_name = dict(zip((p.name for p in find_parameters(self.function)), values, strict=True))
        checker = Checker(merge(block(), self.own(values_by_name)))
        for name, item in sorted(self.items, key=lambda each: each[1].optional):
            checker.see(item, values_by_name[name], name)
        if self.contract.result is None:
            checker.settle(last=True)
        return checker

    def check_result(self, result: Any, checker: Checker) -> None:
        assert self.contract.result is not None
        checker.see(self.contract.result, result, "result")
        checker.settle(last=True)

    def own(self, given: Mapping[str, Any]) -> Mapping[str, BoundSize]:
        return getattr(given.get(self.owner), "__dict__", {}).get(OWN, {}) if self.owner else {}

    # While Dynamo traces, the error of a call is an error of Python with the same text.
    def refusal(self) -> Callable[..., Exception]:
        count = len(find_parameters(self.function))

        def describe(*values: Any) -> str:
            return str(self.error(values[:count], *values[count:]))

        describe._dynamo_marked_constant = True  # type: ignore[attr-defined]  # as `assume_constant_result`, without Dynamo

        def refuse(values: tuple[Any, ...], *result: Any) -> Exception:
            return ValueError(describe(*values, *result)) if torch.compiler.is_compiling() else self.error(values, *result)

        return refuse

    def error(self, values: tuple[Any, ...], *result: Any) -> EinformerError:
        try:
            checker = self.check(values)
            if result:
                self.check_result(result[0], checker)
        except EinformerError as error:
            return error.with_traceback(None)
        raise AssertionError("the comparisons and the checker disagree")

    # The object keeps the sizes that its `__init__` was given.
    def keep_sizes(self, wrapper: Callable[..., Any]) -> Callable[..., Any]:
        names = {item.value.name: name for name, item in self.items if getattr(item.value, "name", "") in self.kept}  # type: ignore[union-attr]
        signature = inspect.signature(self.function)

        @functools.wraps(self.function)
        def initialise(this: Any, *arguments: Any, **named: Any) -> None:
            wrapper(this, *arguments, **named)
            bound = signature.bind(this, *arguments, **named)
            bound.apply_defaults()
            where = f"{type(this).__name__}, made at {find_caller()}"
            keep(this, {size: BoundSize(bound.arguments[name], where) for size, name in names.items()})

        return initialise


def agree(text: str, function: Callable[..., Any], axes: Mapping[str, str] = NO_AXES) -> Agreement:
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        fix = "`ein.contracts.watch` for modules; a class has its contract on `__init__`"
        if isinstance(function, functools.partial):
            fix = f"the contract on `{getattr(function.func, '__name__', 'the function')}`, and `functools.partial` of that"
        raise fail("E724", f"{function!r} is not a function", fix=fix)
    name = f"{function.__qualname__} ({spell_place(code.co_filename, code.co_firstlineno)})"
    read_text = read(shorten(text, axes, name) or spell_contract(function, axes), name)
    if read_text.result is not None and (inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)):
        span = read_text.result.value.span
        raise fail("E724", f"`{function.__name__}` is a generator: it has no result", span, fix="the contract without `->`")
    items = match_items(read_text, find_parameters(function))
    return Agreement(read_text, items, function, find_owner(function), find_lasting_sizes(function, items))


# Tracebacks and debuggers show the lines of the text.
def _run_text(text: str, closure: Mapping[str, Any], name: str) -> Any:
    file = f"<contract {next(_COUNT)} of {name}>"
    read = {word: closure[word] for word in closure if re.search(rf"\b{word}\b", text)}
    head = f"def make({', '.join(read)}):\n"
    tail = text.lstrip().removeprefix("async ").removeprefix("def ").partition("(")[0]
    whole = f"{head}{text}    return {tail}\n"
    linecache.cache[file] = (len(whole), None, whole.splitlines(keepends=True), file)
    names: dict[str, Any] = {}
    exec(compile(whole, file, "exec"), {}, names)  # names are identifiers, and those of the parameters
    return names["make"](**read)
