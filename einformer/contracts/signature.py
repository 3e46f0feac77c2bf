"""Matches the items of a contract with the parameters of a function, and reads contracts from names and annotations."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from inspect import Parameter
from types import MappingProxyType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from einformer.contracts.annotations import list_names, read_annotation, share_rest
from einformer.contracts.long_names import choose_letters
from einformer.contracts.suffixes import select_suffixed
from einformer.contracts.syntax import Contract, Item, Size
from einformer.errors import EinformerError, fail
from einformer.language.suggestions import find_closest

NO_AXES: Mapping[str, str] = MappingProxyType({})
_OWNERS = ("self", "cls")
_PLAIN = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


# The decorators of the function are passed over.
def find_parameters(function: Callable[..., Any]) -> tuple[Parameter, ...]:
    return tuple(inspect.signature(function, follow_wrapped=False).parameters.values())


# A method has `self`.
def find_owner(function: Callable[..., Any]) -> str:
    first = next(iter(find_parameters(function)), None)
    return first.name if first is not None and first.name in _OWNERS else ""


# Returns each item with the name of its parameter: by key, by name, or else in order. Raises EinformerError (E724) if an item
# has no parameter, or if order and names disagree.
def match_items(contract: Contract, given: tuple[Parameter, ...]) -> tuple[tuple[str, Item], ...]:
    names_of_parameters = [p.name for p in given if p.kind in _PLAIN]
    ordered = [name for number, name in enumerate(names_of_parameters) if number or name not in _OWNERS]
    named = {
        number: name for number, item in enumerate(contract.arguments) if (name := _name_parameter(item, names_of_parameters))
    }
    if len(named) == len(contract.arguments):
        names = list(named.values())
    else:
        names = [
            _take_in_order(item, number, named, ordered, names_of_parameters) for number, item in enumerate(contract.arguments)
        ]
    for number, name in enumerate(names):
        if name in names[:number]:
            raise fail(
                "E724", f"two items speak of the parameter `{name}`", contract.arguments[number].value.span, fix=f"`{name} = …`"
            )
    return tuple(zip(names, contract.arguments, strict=True))


# By its key, by all of `q_bsea`, or by `q`.
def _name_parameter(item: Item, known: list[str]) -> str:
    if item.key:
        if item.key not in known:
            raise _refuse(item, item.key, known)
        return item.key
    called = getattr(item.value, "name", "")
    return next((name for name in (item.value.span.text, called) if name in known), "")


def _take_in_order(item: Item, at: int, named: dict[int, str], ordered: list[str], known: list[str]) -> str:
    if item.key:
        return item.key
    if at >= len(ordered):
        raise _refuse(item, item.value.span.text, known)
    if named.get(at, ordered[at]) != ordered[at]:
        facts = [f"in order it stands for `{ordered[at]}`, and `{named[at]}` is another parameter"]
        raise fail("E724", f"`{item.value.span.text}` has two readings", item.value.span, facts, fix=f"`{ordered[at]} = …`")
    return ordered[at]


def _refuse(item: Item, name: str, known: list[str]) -> EinformerError:
    close = find_closest(name, known)
    facts = [f"parameters: {', '.join(known)}"]
    return fail("E724", f"no parameter is left for `{name}`", item.value.span, facts, fix=f"`{close}`?" if close else "")


# Returns the contract that the names of parameters and annotations spell. Raises E724 if they spell none. Longer names of axes
# in annotations have the letters of `axes`, or free ones, and then their sizes have these names.
def spell_contract(function: Callable[..., Any], axes: Mapping[str, str] = NO_AXES) -> str:
    hints = _evaluate_hints(function)
    plain = [p for p in find_parameters(function) if p.kind in _PLAIN]
    suffixed = select_suffixed(p.name for p in plain)
    names = [name for hint in hints.values() for name in list_names(hint)]
    long = [name for name in names if len(name) > 1]
    letters = choose_letters(long, axes, {*"".join(suffixed.values()), *names})
    letters = {**letters, "...": "..."} if share_rest(hints.values()) else letters
    items = list(_spell_items(plain, hints, suffixed, letters))
    result = read_annotation("y", hints.get("return"), letters)
    if not items and not result:
        fix = "`def attend(q_bsea, k_btea) -> ein.contracts.T['bsea']`, or a text"
        raise fail("E724", f"no parameter of `{function.__name__}` says its axes", fix=fix)
    spoken = [name for name in dict.fromkeys(long) if name.isalpha() and name.islower() and name not in axes]
    legend = ", ".join(f"{letters[name]}: {name}" for name in spoken)
    return ", ".join(items) + f" -> {result}" * bool(result) + f" where {legend}" * bool(legend)


def _spell_items(
    known: list[Parameter], hints: dict[str, Any], suffixed: dict[str, str], letters: Mapping[str, str]
) -> Iterator[str]:
    for parameter in known:
        name, hint = parameter.name, hints.get(parameter.name, Any)
        optional = "?" * (parameter.default is None or type(None) in get_args(hint))
        annotated = read_annotation(name[0], hint, letters)
        if annotated:
            yield f"{name} = {annotated}{optional}"
        elif name in suffixed and _may_be_tensor(hint):
            yield f"{name}{optional}"


# Not of a number, nor of a list of tensors.
def _may_be_tensor(hint: Any) -> bool:
    if get_origin(hint) in (Union, UnionType):
        return any(map(_may_be_tensor, get_args(hint)))
    return get_origin(hint) in (None, Annotated) and hint not in (int, float, bool, str, type(None))


# Annotations that are text are evaluated if possible.
def _evaluate_hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return inspect.get_annotations(function, eval_str=True)
    except (
        NameError,
        SyntaxError,
        TypeError,
        AttributeError,
    ):  # a name for type checkers only, say: then no annotation is ours
        return {}


# Sizes that an `__init__` takes hold for the object.
def find_lasting_sizes(function: Callable[..., Any], items: tuple[tuple[str, Item], ...]) -> tuple[str, ...]:
    return tuple(name for name, item in items if isinstance(item.value, Size)) if function.__name__ == "__init__" else ()
