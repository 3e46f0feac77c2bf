"""Writes the fast check of a contract: plain comparisons in Python, once for each decorated function.

The written function has the parameters of the original, binds sizes by unpacking shapes, and compares. It reads only its
closure, so Dynamo traces it. On a misfit it asks `refuse` for the message.
"""

from __future__ import annotations

import inspect
import keyword
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import Parameter
from typing import Any

from einformer.contracts.dtypes import device, dtypes
from einformer.contracts.signature import find_owner, find_parameters
from einformer.contracts.syntax import REST, Anything, Array, Contract, Each, Fields, Item, ScalarValue, Several, Size
from einformer.language.tree import Expression, Name, Number, Product, Quotient, Sum
from einformer.language.walk import find_all

_STARS: dict[Any, str] = {Parameter.VAR_POSITIONAL: "*", Parameter.VAR_KEYWORD: "**"}


@dataclass(frozen=True, slots=True)
class FactoryText:
    """The text of the factory of a wrapper, and the part of its closure that other wrappers do not have."""

    text: str
    constants: dict[str, Any]
    names: dict[str, str]  # of the values in `SHARED`


class Hard(Exception):
    """A contract whose sizes cannot be bound by unpacking alone: `check.py` checks it.

    It has any number of values, a size must be solved for, or a size of an optional value is needed elsewhere.
    """


# The wrapper compares, or asks for a full check if that is `Hard`.
def write(contract: Contract, items: tuple[tuple[str, Item], ...], function: Callable[..., Any]) -> FactoryText:
    try:
        writer = _CheckWriter(function)
        writer.compare(contract, items)
    except Hard:
        writer = _CheckWriter(function)
        writer.ask(contract)
    return FactoryText("\n".join(writer.lines) + "\n", writer.constants, writer.known)


class _CheckWriter:
    """Lines of Python, and the names that they bind."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.parameters, self.owner = function, find_parameters(function), find_owner(function)
        name = function.__name__
        self.name = name if name.isidentifier() and not keyword.iskeyword(name) else "wrapper"
        self.taken = {self.name, *(parameter.name for parameter in self.parameters)}
        self.lines: list[str] = []
        self.depth = 2
        self.constants: dict[str, Any] = {}
        self.sizes: dict[str, str] = {}  # by the name of each here
        self.loose: set[str] = set()  # sizes that are bound only if an optional value is there
        self.later: list[tuple[str, Expression]] = []  # compared as soon as the sizes are known
        self.known = {name: self.fresh(name) for name in SHARED}

    # ---------------------------------------------------------------------------------------------------------- names

    def fresh(self, name: str) -> str:
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name

    def constant(self, name: str, value: Any) -> str:
        for constant_name, other in self.constants.items():
            if other is value or other == value:
                return constant_name
        name = self.fresh(name)
        self.constants[name] = value
        return name

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    @contextmanager
    def indent(self) -> Iterator[None]:
        self.depth += 1
        yield
        self.depth -= 1

    # -------------------------------------------------------------------------------------------------------- the frame

    # Defaults of parameters are replaced later.
    def open(self) -> None:
        coroutine = "async " if inspect.iscoroutinefunction(self.function) else ""
        self.lines = [f"    {coroutine}def {self.name}({', '.join(self.head())}):", "        __tracebackhide__ = True"]

    def head(self) -> Iterator[str]:
        star, last = False, next((p for p in reversed(self.parameters) if p.kind == Parameter.POSITIONAL_ONLY), None)
        for parameter in self.parameters:
            if parameter.kind == Parameter.KEYWORD_ONLY and not star:
                yield "*"
            star |= parameter.kind in (Parameter.KEYWORD_ONLY, Parameter.VAR_POSITIONAL)
            default = "=None" if parameter.default is not Parameter.empty else ""
            yield f"{_STARS.get(parameter.kind, '')}{parameter.name}{default}"
            if parameter is last:
                yield "/"

    def given(self) -> str:
        return "".join(f"{parameter.name}, " for parameter in self.parameters).rstrip() or ""

    def call(self) -> str:
        passed = (
            f"{p.name}={p.name}" if p.kind == Parameter.KEYWORD_ONLY else f"{_STARS.get(p.kind, '')}{p.name}"
            for p in self.parameters
        )
        awaited = "await " if inspect.iscoroutinefunction(self.function) else ""
        return f"{awaited}{self.known['function']}({', '.join(passed)})"

    def refuse_if(self, tests: Iterable[str], *result: str) -> None:
        if joined := " or ".join(tests):
            self.line(f"if {joined}:")
            self.line(f"    raise {self.known['refuse']}({', '.join([f'({self.given()})', *result])})")

    # -------------------------------------------------------------------------------------------------------- two kinds

    # Dynamo would follow every step of a full check, so there is none while it traces.
    def ask(self, contract: Contract) -> None:
        self.open()
        self.line(f"if {self.known['is_compiling']}():")
        self.line(f"    return {self.call()}")
        result, sizes = self.fresh("result"), self.fresh("sizes")
        self.line(f"{sizes} = {self.known['check']}(({self.given()}))")
        self.line(f"{result} = {self.call()}")
        if contract.result is not None:
            self.line(f"{self.known['check_result']}({result}, {sizes})")
        self.line(f"return {result}")

    # Values that are certain come before values that may be None.
    def compare(self, contract: Contract, items: tuple[tuple[str, Item], ...]) -> None:
        self.open()
        for name, item in sorted(items, key=lambda each: each[1].optional):
            self.item(item, name)
        self.against_scopes(list(self.sizes))
        if contract.result is None:
            self.finish(self.call())
            return
        result, before = self.fresh("result"), set(self.sizes)
        self.line(f"{result} = {self.call()}")
        self.item(contract.result, result, result)
        self.against_scopes([name for name in self.sizes if name not in before], result)
        self.finish(result)

    # Formulas that unpacking cannot compare are refused.
    def finish(self, result: str) -> None:
        if self.later:
            raise Hard
        self.line(f"return {result}")

    def against_scopes(self, names: list[str], *result: str) -> None:
        if not names:
            return
        literal = "{" + ", ".join(f'"{name}": {self.sizes[name]}' for name in names) + "}"
        scope = self.known
        if self.owner:
            own = self.fresh("own")
            self.line(f'{own} = {scope["getattr"]}({self.owner}, "__dict__", {scope["nothing"]}).get({scope["OWN"]})')
            self.refuse_if([f"{own} is not None and {scope['clash']}({own}, {literal})"], *result)
        self.refuse_if(
            [f"{scope['USED']} and not {scope['is_compiling']}() and {scope['clash']}({scope['block']}(), {literal})"], *result
        )

    # ------------------------------------------------------------------------------------------------------------ values

    # `result` is the result of the call, once there is one.
    def item(self, item: Item, value: str, *result: str) -> None:
        if not item.optional:
            self.value(item, value, *result)
            return
        self.line(f"if {value} is not None:")
        before, later = dict(self.sizes), list(self.later)
        with self.indent():
            self.value(item, value, *result)
            self.against_scopes([name for name in self.sizes if name not in before], *result)
            self.line("pass")
        self.loose |= self.sizes.keys() - before.keys()
        self.sizes = before
        if self.later != later:
            raise Hard

    def value(self, item: Item, value: str, *result: str) -> None:
        names = self.known
        match item.value:
            case Array():
                self.array(item.value, value, *result)
            case ScalarValue():
                scalar = self.constant(item.value.name, item.value)
                self.refuse_if([f"not {names['is_scalar']}({value}, {scalar})"], *result)
            case Size():
                self.refuse_if(
                    [f"not {names['isinstance']}({value}, {names['whole']}) or {value} is True or {value} is False"],
                    *result,
                )
                if self.has(item.value.name):
                    self.refuse_if([f"{value} != {self.sizes[item.value.name]}"], *result)
                self.sizes.setdefault(item.value.name, value)
            case Several():
                count, differs = len(item.value.members), "<" if item.value.more else "!="
                wrong = f"not {names['isinstance']}({value}, {names['listing']}) or {names['len']}({value}) {differs} {count}"
                self.refuse_if([wrong], *result)
                for number, member in enumerate(item.value.members):
                    self.part(member, f"{value}[{number}]", *result)
            case Fields():
                for member in item.value.members:
                    default = "None" if member.optional else names["MISSING"]
                    read = f'{names["attribute"]}({value}, "{member.key}", {default})'
                    if isinstance(member.value, Anything):
                        self.refuse_if([f"{read} is {names['MISSING']}"], *result)
                    self.part(member, read, *result)
            case Each():
                raise Hard
            case Anything():
                pass

    def has(self, name: str) -> bool:
        if name in self.loose:
            raise Hard
        return name in self.sizes

    def part(self, member: Item, read: str, *result: str) -> None:
        if not isinstance(member.value, Anything):
            name = self.fresh("part")
            self.line(f"{name} = {read}")
            self.item(member, name, *result)

    # The kind, the rank, the axes in one assignment, then the comparisons.
    def array(self, array: Array, value: str, *result: str) -> None:
        self.refuse_if([" or ".join(self.kind(array, value))], *result)
        targets, tests = [], []
        for axis in array.axes:
            size = axis.size
            if isinstance(size, Name) and not self.has(size.name):
                self.sizes[size.name] = self.fresh("batch" if size == REST else size.name)
                targets.append("*" * (size == REST) + self.sizes[size.name])
            else:
                target = self.fresh(f"{value}_{''.join(filter(str.isalnum, axis.written)) or 'batch'}")
                targets.append("*" * (size == REST) + target)
                tests.append((target, size))
        if targets:
            self.line(f"{', '.join(targets)}{',' * (len(targets) == 1)} = {value}.shape")
        self.later += tests
        self.refuse_if(self.settle(), *result)

    # These tests come before the shape.
    def kind(self, array: Array, value: str) -> Iterator[str]:
        yield f"not {self.known['isinstance']}({value}, {self.known['Tensor']})"
        if allowed := dtypes(array.words):
            yield f"{value}.dtype not in {self.constant(array.words[0], allowed)}"
        if kind := device(array.words):
            yield f'{self.known["getattr"]}({value}.device, "type", "cpu") != "{kind}"'
        yield f"{value}.ndim {'<' if array.open else '!='} {array.rank}"

    def settle(self) -> Iterator[str]:
        waiting, self.later = self.later, []
        for target, size in waiting:
            if all(self.has(e.name) for e in find_all(Name, size)):
                yield f"{target} != {self.formula(size)}"
            else:
                self.later.append((target, size))

    def formula(self, size: Expression) -> str:
        match size:
            case Name():
                return self.sizes[size.name]
            case Number():
                return str(size.value)
            case Product():
                return " * ".join(map(self.formula, size.factors))
            case Quotient():
                return f"{self.formula(size.numerator)} / ({self.formula(size.denominator)})"
            case Sum():
                return "(" + " + ".join(map(self.formula, size.terms)) + ")"
        raise AssertionError(size)


# The names in every closure. `decorator.py` gives their values.
SHARED = (
    "function", "refuse", "check", "check_result", "Tensor", "is_scalar", "attribute", "MISSING", "USED", "OWN", "block",
    "clash", "is_compiling", "isinstance", "getattr", "len", "whole", "listing", "nothing",
)  # fmt: skip
