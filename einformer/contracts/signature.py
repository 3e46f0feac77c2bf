"""Which parameter of a function does each item of a contract speak of, and what do names and annotations say alone?"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from inspect import Parameter
from typing import Any

from einformer.contracts.annotations import written_as
from einformer.contracts.tree import Contract, Item, Size
from einformer.errors import EinformerError, fail
from einformer.language.names import closest
from einformer.lint.python.suffixes import select_suffixed

_OWNERS = ("self", "cls")
_PLAIN = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


def parameters(function: Callable[..., Any]) -> tuple[Parameter, ...]:
    """Those of the function as it is written, decorated or not."""
    return tuple(inspect.signature(function, follow_wrapped=False).parameters.values())


def owner(function: Callable[..., Any]) -> str:
    """`self`, where the function is a method."""
    first = next(iter(parameters(function)), None)
    return first.name if first is not None and first.name in _OWNERS else ""


def matched(contract: Contract, given: tuple[Parameter, ...]) -> tuple[tuple[str, Item], ...]:
    """Each item with the name of its parameter of those given: by key, by name, or else in order.

    Raises EinformerError (E724) where an item has no parameter, or order and names say different things.
    """
    known = [p.name for p in given if p.kind in _PLAIN]
    ordered = [name for at, name in enumerate(known) if at or name not in _OWNERS]
    named = {at: name for at, item in enumerate(contract.arguments) if (name := _named(item, known))}
    if len(named) == len(contract.arguments):
        names = list(named.values())
    else:
        names = [_in_order(item, at, named, ordered, known) for at, item in enumerate(contract.arguments)]
    for at, name in enumerate(names):
        if name in names[:at]:
            raise fail(
                "E724", f"two items speak of the parameter `{name}`", contract.arguments[at].value.span, fix=f"`{name} = …`"
            )
    return tuple(zip(names, contract.arguments, strict=True))


def _named(item: Item, known: list[str]) -> str:
    """The parameter that an item names: by its key, by all of `q_bsea`, or by `q`."""
    if item.key:
        if item.key not in known:
            raise _unknown(item, item.key, known)
        return item.key
    called = getattr(item.value, "name", "")
    return next((name for name in (item.value.span.text, called) if name in known), "")


def _in_order(item: Item, at: int, named: dict[int, str], ordered: list[str], known: list[str]) -> str:
    """The parameter at the item's own place, which no name may contradict."""
    if item.key:
        return item.key
    if at >= len(ordered):
        raise _unknown(item, item.value.span.text, known)
    if named.get(at, ordered[at]) != ordered[at]:
        facts = [f"in order it stands for `{ordered[at]}`, and `{named[at]}` is another parameter"]
        raise fail("E724", f"`{item.value.span.text}` has two readings", item.value.span, facts, fix=f"`{ordered[at]} = …`")
    return ordered[at]


def _unknown(item: Item, name: str, known: list[str]) -> EinformerError:
    close = closest(name, known)
    facts = [f"parameters: {', '.join(known)}"]
    return fail("E724", f"no parameter is left for `{name}`", item.value.span, facts, fix=f"`{close}`?" if close else "")


def text_of(function: Callable[..., Any]) -> str:
    """The contract that the names of parameters and annotations `T[…]` spell. Raises E724 where they spell none."""
    hints = _hints(function)
    known = [p for p in parameters(function) if p.kind in _PLAIN]
    letters = select_suffixed(p.name for p in known)
    items = list(_spelled(known, hints, letters))
    result = written_as("y", hints.get("return"))
    if not items and not result:
        fix = "`def attend(q_bsea, k_btea) -> ein.contracts.T['bsea']`, or a text"
        raise fail("E724", f"no parameter of `{function.__name__}` says its axes", fix=fix)
    return ", ".join(items) + (f" -> {result}" if result else "")


def _spelled(known: list[Parameter], hints: dict[str, Any], letters: dict[str, str]) -> Iterator[str]:
    for parameter in known:
        name, optional = parameter.name, "?" * (parameter.default is None)
        annotated = written_as(name[0], hints.get(name))
        if annotated:
            yield f"{name} = {annotated}{optional}"
        elif name in letters and hints.get(name) not in (int, float, bool, str):
            yield f"{name}{optional}"


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Annotations as objects; those that are text are evaluated, if they can be."""
    try:
        return inspect.get_annotations(function, eval_str=True)
    except (
        NameError,
        SyntaxError,
        TypeError,
        AttributeError,
    ):  # a name for type checkers only, say: then no annotation is ours
        return {}


def bound_for_good(function: Callable[..., Any], items: tuple[tuple[str, Item], ...]) -> tuple[str, ...]:
    """The sizes that an `__init__` is given: they hold for the object."""
    return tuple(name for name, item in items if isinstance(item.value, Size)) if function.__name__ == "__init__" else ()
