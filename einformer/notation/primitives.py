"""Which operators and functions does the language have? One row each; interpreters are columns of their own."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Primitive:
    """A row of the table.

    `kind` says what happens to the indices in the subscript (section 2): a *function* has none, a *reducing* operator
    consumes them, a *keeping* one leaves them. `arity` counts the arguments in parentheses (the k of `top_{k,x}` is
    one). `zero` says that f(0) = 0, so that zeros pass (R10); `latex` is how it is printed. An
    operator that `ignores_shifts` gives the same when something that is constant along its indices is added.
    """

    name: str
    kind: Literal["function", "reducing", "keeping"]
    arity: tuple[int, ...] = (1,)
    zero: bool = False
    latex: str = ""
    ignores_shifts: bool = False


_FUNCTIONS = [
    Primitive("exp", "function", latex=r"\exp"),
    Primitive("log", "function", latex=r"\log"),
    Primitive("log2", "function"),
    Primitive("sin", "function", zero=True, latex=r"\sin"),
    Primitive("cos", "function", latex=r"\cos"),
    Primitive("tanh", "function", zero=True, latex=r"\tanh"),
    Primitive("sqrt", "function", zero=True, latex=r"\sqrt"),
    Primitive("abs", "function", zero=True),
    Primitive("floor", "function", zero=True),
    Primitive("ceil", "function", zero=True),
    Primitive("relu", "function", zero=True),
    Primitive("gelu", "function", zero=True),
    Primitive("gelutanh", "function", zero=True),
    Primitive("silu", "function", zero=True),
    Primitive("sigmoid", "function"),
    Primitive("softplus", "function"),
    Primitive("where", "function", (3,)),
    Primitive("Dr", "function", (1, 2), zero=True),
    Primitive("mod", "function", (2,)),
    Primitive("not", "function"),
    *(Primitive(name, "function", (2,)) for name in ("and", "or", "<", "<=", ">", ">=", "==", "!=")),
]
_OPERATORS = [
    Primitive("sum", "reducing", zero=True, latex=r"\sum"),
    Primitive("mean", "reducing", zero=True),
    Primitive("var", "reducing", zero=True, ignores_shifts=True),
    Primitive("lse", "reducing"),
    Primitive("Sm", "keeping", ignores_shifts=True),
    Primitive("cumsum", "keeping"),
    Primitive("top", "keeping", (2,), ignores_shifts=True),
]
# With an index they reduce, with two arguments they compare (R3).
_BOTH = [Primitive("min", "reducing", (1,), latex=r"\min"), Primitive("max", "reducing", (1,), latex=r"\max")]
_PAIRS = [Primitive("min", "function", (2,), latex=r"\min"), Primitive("max", "function", (2,), latex=r"\max")]

PRIMITIVES = {(row.name, row.kind != "function"): row for row in _FUNCTIONS + _OPERATORS + _BOTH + _PAIRS}
NAMES = frozenset(name for name, _ in PRIMITIVES)
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
CONDITIONS = frozenset(("and", "or", "not", "top", *COMPARISONS))
CONSTANTS = {"π": math.pi}


def primitive(name: str, with_indices: bool) -> Primitive | None:
    """The row of `name` used with or without a subscript; None where the table has no such row."""
    return PRIMITIVES.get((name, with_indices))
