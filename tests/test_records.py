"""Are dataclasses of the package those of the standard library? Each is compared with one that the library makes."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from einformer import records

Decorator = Callable[[type], type]


class Plain:
    """A name of its own for the slots."""

    put: int
    missing: list[int] = dataclasses.field(default_factory=list)
    note: str = dataclasses.field(default="", compare=False, repr=False)
    late: dict[str, int] = dataclasses.field(init=False, default_factory=dict)
    named: float = dataclasses.field(default=1.5, kw_only=True)


class After:
    a: int
    b: int = dataclasses.field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "b", self.a + 1)


class Nothing:
    pass


def pairs(cls: type, **options: Any) -> Iterator[type]:
    """The class by the library, and by ours."""
    for module in (dataclasses, records):
        body = {key: value for key, value in vars(cls).items() if key not in ("__dict__", "__weakref__")}
        yield module.dataclass(**options)(type(cls.__name__, (), body))


OPTIONS: list[dict[str, Any]] = [
    {"frozen": True, "slots": True},
    {"slots": True},
    {},
    {"frozen": True},
    {"frozen": True, "slots": True, "eq": False},
    {"frozen": True, "slots": True, "repr": False},
]


def outcome(ask: Callable[[], object]) -> object:
    try:
        return ask()
    except Exception as error:
        return type(error)


def tell(cls: Any, make: Callable[[Any], Any]) -> dict[str, object]:
    """What can be asked of a class and of its objects."""
    one, same = make(cls), make(cls)
    return {
        "signature": str(inspect.signature(cls)),
        "annotations": cls.__init__.__annotations__,
        "match": cls.__match_args__,
        "slots": getattr(cls, "__slots__", None),
        "fields": [(one.name, one.init, one.compare) for one in dataclasses.fields(cls)],
        "repr": repr(one).partition(" object at ")[0],
        "equal": (one == same, one != same, one == 3, one.__class__.__eq__ is object.__eq__),
        "hash": outcome(lambda: hash(one) == hash(same)),
        "set": outcome(lambda: setattr(make(cls), dataclasses.fields(cls)[0].name, 4) if dataclasses.fields(cls) else 0),
        "delete": outcome(lambda: delattr(make(cls), dataclasses.fields(cls)[0].name) if dataclasses.fields(cls) else 0),
        "replaced": repr(outcome(lambda: dataclasses.replace(one, **dict.fromkeys(cls.__match_args__[:1], 9)))).partition(
            " at "
        )[0],
        "copied": repr(copy.deepcopy(one)).partition(" at ")[0],
        "none": outcome(lambda: cls(1, 2, 3, 4, 5)),
        "little": outcome(lambda: cls(unknown=1)),
    }


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize(
    ("cls", "make"),
    [
        (Plain, lambda cls: cls(1)),
        (Plain, lambda cls: cls(1, [2], "x", named=3.0)),
        (After, lambda cls: cls(1)),
        (Nothing, lambda cls: cls()),
    ],
    ids=["defaults", "given", "post", "nothing"],
)
def test_they_answer_alike(cls: type, make: Callable[[Any], Any], options: dict[str, Any]) -> None:
    theirs, ours = (tell(made, make) for made in pairs(cls, **options))
    assert theirs == ours


def test_factories_make_anew() -> None:
    made = list(pairs(Plain, slots=True))[1]
    assert made(1).missing is not made(1).missing


def test_own_methods_stay() -> None:
    class Own:
        a: int

        def __hash__(self) -> int:
            return 7

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return True

    for made in pairs(Own, frozen=True, slots=True):
        assert (hash(made(1)), repr(made(1)), made(1) == made(2)) == (7, "own", True)


@records.dataclass(frozen=True, slots=True)
class Base:
    """Inherited."""

    a: int


@records.dataclass(frozen=True, slots=True)
class Leaf(Base):
    """Of this module, so that it can be pickled."""

    b: int = 2


def test_inherited_fields_come_first() -> None:
    assert (Leaf(1), repr(Leaf(1)), Leaf(1) == Base(1)) == (Leaf(1, 2), "Leaf(a=1, b=2)", False)


def test_they_are_pickled() -> None:
    assert pickle.loads(pickle.dumps(Leaf(3, 4))) == Leaf(3, 4)


def test_methods_are_compiled_at_the_first_call() -> None:
    made = list(pairs(Plain, frozen=True, slots=True))[1]
    before = type(vars(made)["__init__"]).__name__
    made(1)
    assert (before, inspect.isfunction(vars(made)["__init__"]), type(vars(made)["__eq__"]).__name__) == ("_Lazy", True, "_Lazy")
