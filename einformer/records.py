"""Defines `dataclass`: that of the standard library, with methods that are compiled when they are first called.

Its subclasses are made with it too. A command loads some two hundred classes and makes objects of half of them: to compile
the methods of all took a quarter of the time in which a config is read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import MISSING, asdict, field, fields, replace
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

__all__ = ["asdict", "dataclass", "field", "fields", "replace"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls=None, /, *, frozen=False, slots=False, eq=True, repr=True):
        """Makes a class a dataclass.

        >>> @dataclass(frozen=True, slots=True)
        ... class Point:
        ...     x: int
        ...     y: int = 0
        >>> Point(1), Point(1) == Point(1, 0), {Point(2): "a"}[Point(2)]
        (Point(x=1, y=0), True, 'a')
        """

        def decorate(cls):
            return _make(cls, frozen, slots, eq, repr)

        return decorate if cls is None else decorate(cls)


class _Factory:
    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()  # stands for what is not given


class _Lazy:
    """A method that is written when it is first looked up."""

    def __init__(self, owner: type, name: str, write: Callable[[type], Any]) -> None:
        self.owner, self.name, self.write = owner, name, write

    def __get__(self, instance: object, owner: type) -> Any:
        method = self.write(self.owner)
        method.__qualname__, method.__module__ = f"{self.owner.__qualname__}.{self.name}", self.owner.__module__
        setattr(self.owner, self.name, method)
        return method.__get__(instance, owner)


def _make(cls: type, frozen: bool, slots: bool, eq: bool, shown: bool) -> type:
    doc, cls.__doc__ = cls.__doc__, cls.__doc__ or "."  # dataclasses would write one of the signature
    cls = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots)(cls)
    cls.__doc__ = doc
    own: dict[str, Any] = {"__init__": _Lazy(cls, "__init__", _write_init)}
    if shown:
        own["__repr__"] = _repr
    if eq:
        own["__eq__"] = _Lazy(cls, "__eq__", _write_eq)
        own["__hash__"] = _Lazy(cls, "__hash__", _write_hash) if frozen else None
    if frozen:
        own |= {"__setattr__": _refuse_set, "__delattr__": _refuse_delete}
        own |= {"__getstate__": _get_state, "__setstate__": _set_state} if slots else {}
    for name, method in own.items():
        if name not in cls.__dict__ or (name == "__hash__" and cls.__dict__[name] is None):
            setattr(cls, name, method)
    return cls


def _write_init(cls: type) -> Any:
    stored = [one for one in fields(cls) if one.init or one.default_factory is not MISSING]
    names: dict[str, Any] = {"_put": object.__setattr__, "_missing": _FACTORY}
    for one in stored:
        names[f"_of_{one.name}"] = one.default if one.default_factory is MISSING else one.default_factory
    given, named = ([_name_parameter(one) for one in stored if one.init and one.kw_only is kind] for kind in (False, True))
    lines = [f"_put(self, {one.name!r}, {_name_value(one)})" for one in stored]
    last = ["self.__post_init__()"] if hasattr(cls, "__post_init__") else []
    method = _compile("__init__", ["self", *given, *(["*", *named] if named else [])], [*lines, *last], names)
    method.__annotations__ = {one.name: one.type for one in stored if one.init} | {"return": None}
    return method


def _name_parameter(one: dataclasses.Field[Any]) -> str:
    if one.default_factory is not MISSING:
        return f"{one.name}=_missing"
    return one.name if one.default is MISSING else f"{one.name}=_of_{one.name}"


def _name_value(one: dataclasses.Field[Any]) -> str:
    if one.default_factory is MISSING:
        return one.name
    return f"_of_{one.name}() if {one.name} is _missing else {one.name}" if one.init else f"_of_{one.name}()"


def _write_eq(cls: type) -> Any:
    ours, theirs = (_tuple(of, _compared(cls)) for of in ("self", "other"))
    lines = [f"return {ours} == {theirs} if other.__class__ is self.__class__ else NotImplemented"]
    return _compile("__eq__", ["self", "other"], lines, {})


def _write_hash(cls: type) -> Any:
    hashed = _tuple("self", _compared(cls))
    return _compile("__hash__", ["self"], [f"return hash({hashed})"], {})


def _compared(cls: type) -> list[str]:
    return [one.name for one in fields(cls) if one.compare]


def _tuple(of: str, names: Iterable[str]) -> str:
    return f"({''.join(f'{of}.{name}, ' for name in names)})"


def _compile(name: str, parameters: Iterable[str], lines: Iterable[str], names: dict[str, Any]) -> Any:
    body = "\n".join(f"    {line}" for line in lines) or "    pass"
    exec(f"def {name}({', '.join(parameters)}):\n{body}\n", names)
    return names[name]


@recursive_repr()
def _repr(self: Any) -> str:
    shown = (f"{one.name}={getattr(self, one.name)!r}" for one in fields(self) if one.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _refuse_set(self: object, name: str, value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(self: object, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _get_state(self: Any) -> list[object]:
    return [getattr(self, one.name) for one in fields(self)]


def _set_state(self: Any, state: list[object]) -> None:
    for one, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, one.name, value)
