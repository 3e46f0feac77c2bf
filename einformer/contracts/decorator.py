"""How does a function get its contract? `@ein.contract("z_bsd, Q_dea -> q_bsea")`, or `@ein.contract` and suffixed names."""

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
from einformer.contracts.check import ARRAYS, MISSING, Checker, attribute, is_scalar
from einformer.contracts.reader import read
from einformer.contracts.scopes import OWN, USED, Bound, block, clash, joined, keep, place, written_at
from einformer.contracts.signature import bound_for_good, matched, owner, parameters, text_of
from einformer.contracts.source import SHARED, Written, write
from einformer.contracts.tree import Contract, Item
from einformer.errors import EinformerError, fail

_F = TypeVar("_F", bound=Callable[..., Any])
_COUNT = itertools.count(1)


@overload
def contract(text: _F, /) -> _F:
    """By names and annotations alone."""


@overload
def contract(text: str = "", /) -> Callable[[_F], _F]:
    """By a text."""


def contract(text: Any = "", /) -> Any:
    """Check what a function takes and gives, at every call; raises EinformerError at the first value that does not fit.

    >>> @contract("z_bsd, Q_dea -> q_bsea")
    ... def project(z, Q):
    ...     return torch.einsum("bsd,dea->bsea", z, Q)
    >>> project(torch.ones(2, 5, 12), torch.ones(12, 4, 3)).shape
    torch.Size([2, 5, 4, 3])

    Without a text, suffixed names of parameters (`def attend(q_bsea, k_btea)`) and annotations (`T["bsd"]`) are the contract.
    """
    return functools.partial(_decorated, text) if isinstance(text, str) else _decorated("", text)


def _decorated(text: str, function: Any) -> Any:
    if isinstance(function, staticmethod | classmethod):
        return type(function)(_decorated(text, function.__func__))
    return wrapped(text, function) if switch.active() else function


def wrapped(text: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function behind its checks. Raises EinformerError for a text that is no contract of this function."""
    agreed = agreement(text, function)
    made = write(agreed.contract, agreed.items, function)
    wrapper = _run(made.text, agreed.closure(made), agreed.contract.span.source.name)
    wrapper.__defaults__, wrapper.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
    functools.update_wrapper(wrapper, function)
    return agreed.keeping(wrapper) if agreed.kept else wrapper


@dataclass(frozen=True, slots=True)
class Agreement:
    """A contract and the function it is of."""

    contract: Contract
    items: tuple[tuple[str, Item], ...]
    function: Callable[..., Any]
    owner: str
    kept: tuple[str, ...]  # the sizes that an `__init__` binds for its object

    def closure(self, made: Written) -> dict[str, Any]:
        """What the wrapper reads, by the names it has there."""
        values: tuple[Any, ...] = (
            self.function, self.refusal(), self.check, self.check_result, ARRAYS, is_scalar, attribute, MISSING, USED,
            OWN, block, clash, torch.compiler.is_compiling, isinstance, getattr, len,
            (int, torch.SymInt), (tuple, list), MappingProxyType({}),
        )  # fmt: skip
        return made.constants | {made.names[name]: value for name, value in zip(SHARED, values, strict=True)}

    def check(self, values: tuple[Any, ...]) -> Checker:
        """The binding of a call, before it; raises EinformerError where the arguments do not fit."""
        given = dict(zip((p.name for p in parameters(self.function)), values, strict=True))
        checker = Checker(joined(block(), self.own(given)))
        for name, item in sorted(self.items, key=lambda each: each[1].optional):
            checker.see(item, given[name], name)
        if self.contract.result is None:
            checker.settle(last=True)
        return checker

    def check_result(self, result: Any, checker: Checker) -> None:
        """The same, after it."""
        assert self.contract.result is not None
        checker.see(self.contract.result, result, "result")
        checker.settle(last=True)

    def own(self, given: Mapping[str, Any]) -> Mapping[str, Bound]:
        """The sizes of the object, of a method."""
        return getattr(given.get(self.owner), "__dict__", {}).get(OWN, {}) if self.owner else {}

    def refusal(self) -> Callable[..., Exception]:
        """Why a call does not keep the contract: our error; while Dynamo traces, one of Python's that carries its text."""

        count = len(parameters(self.function))

        @torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
        def said(*values: Any) -> str:
            return str(self.error(values[:count], *values[count:]))

        def refuse(values: tuple[Any, ...], *result: Any) -> Exception:
            return ValueError(said(*values, *result)) if torch.compiler.is_compiling() else self.error(values, *result)

        return refuse

    def error(self, values: tuple[Any, ...], *result: Any) -> EinformerError:
        """Our error."""
        try:
            checker = self.check(values)
            if result:
                self.check_result(result[0], checker)
        except EinformerError as error:
            return error.with_traceback(None)
        raise AssertionError("the comparisons and the checker disagree")

    def keeping(self, wrapper: Callable[..., Any]) -> Callable[..., Any]:
        """An `__init__` after which the object has the sizes that were given."""
        names = {item.value.name: name for name, item in self.items if getattr(item.value, "name", "") in self.kept}  # type: ignore[union-attr]
        signature = inspect.signature(self.function)

        @functools.wraps(self.function)
        def initialised(this: Any, *arguments: Any, **named: Any) -> None:
            wrapper(this, *arguments, **named)
            given = signature.bind(this, *arguments, **named)
            given.apply_defaults()
            where = f"{type(this).__name__}, made at {place()}"
            keep(this, {size: Bound(given.arguments[name], where) for size, name in names.items()})

        return initialised


def agreement(text: str, function: Callable[..., Any]) -> Agreement:
    """The contract of a function, read and matched. Raises EinformerError."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        raise fail(
            "E724",
            f"{function!r} is not a function",
            fix="`ein.contracts.watch` for modules; a class has its contract on `__init__`",
        )
    name = f"{function.__qualname__} ({written_at(code.co_filename, code.co_firstlineno)})"
    read_text = read(text or text_of(function), name)
    if read_text.result is not None and (inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)):
        span = read_text.result.value.span
        raise fail("E724", f"`{function.__name__}` is a generator: it has no result", span, fix="the contract without `->`")
    items = matched(read_text, parameters(function))
    return Agreement(read_text, items, function, owner(function), bound_for_good(function, items))


def _run(text: str, closure: Mapping[str, Any], name: str) -> Any:
    """The wrapper that a text makes; tracebacks and debuggers show its lines."""
    file = f"<contract {next(_COUNT)} of {name}>"
    read = {word: closure[word] for word in closure if re.search(rf"\b{word}\b", text)}
    head = f"def make({', '.join(read)}):\n"
    tail = text.lstrip().removeprefix("async ").removeprefix("def ").partition("(")[0]
    whole = f"{head}{text}    return {tail}\n"
    linecache.cache[file] = (len(whole), None, whole.splitlines(keepends=True), file)
    made: dict[str, Any] = {}
    exec(compile(whole, file, "exec"), {}, made)  # names are identifiers, and those of the parameters
    return made["make"](**read)
