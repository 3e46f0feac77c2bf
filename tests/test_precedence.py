"""A formula means what R11 says. The oracle is Python's own grammar, which a text reaches by replacing single tokens.

Python orders `or`, `and`, `not`, comparisons, `+ -`, `* / %` and powers as R11 does. Only its unary minus holds tighter
than `%`, and the binary minus of `0 - x` does not.
"""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import einformer
from einformer import EinformerError
from einformer.interpreters.latex import latex
from einformer.language.parser import parse_expression
from einformer.language.printer import show
from einformer.language.sizes import Legend
from einformer.language.tree import Axis, Expression, Name, Spec
from tests.refusals import findings_of
from tests.small import PLANS, built, error, inputs
from tests.strategies import kinds

SPEC = Spec("", (Axis("s", Name("N")), Axis("d", Name("N"))), (), ())
TOKEN = re.compile(r"\d+|\w+|<=|>=|==|!=|\S")
FUNCTIONS = ("floor", "ceil", "abs", "max", "min")
MEANING = {"floor": lambda x: Fraction(math.floor(x)), "ceil": lambda x: Fraction(math.ceil(x)), "Fraction": Fraction}
OPERATORS = {"mod": "%", "/": "/", "+": "+", "-": "-", "and": "and", "or": "or"}
WANTED = {"Sum", "Product", "Quotient", "Power", "mod", "and", "or", "not", "chain", "negative number", "primitive", "<", "!="}


class Writer:
    """Random formulas, written by the rules of the language reference."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def one(self, *items: str) -> str:
        return self.random.choice(items)

    def formula(self) -> str:
        return self.condition(2) if self.random.random() < 0.3 else self.sum(self.random.choice((1, 2)))

    def condition(self, depth: int) -> str:
        comparison = self.sum(1) + self.compared() + self.one("", self.compared())
        nested = self.one(comparison, f"({self.condition(1)})") if depth > 1 else comparison
        condition = self.one("", "", "not ") + nested
        return (
            condition + self.one(" and ", " or ") + self.condition(depth - 1) if depth and self.one("", "more") else condition
        )

    def compared(self) -> str:
        return self.one(" < ", " <= ", " > ", " >= ", " == ", " != ") + self.sum(1)

    def sum(self, depth: int) -> str:
        others = (self.one(" + ", " - ", " - ", " + -") + self.term(depth) for _ in range(self.random.choice((0, 0, 1, 2))))
        return self.one("", "", "-") + self.term(depth) + "".join(others)

    def term(self, depth: int) -> str:
        factors = " ".join(self.factor(depth) for _ in range(self.random.choice((1, 1, 1, 2, 3))))
        return factors + self.one("", "", " / " + self.factor(depth), " mod " + self.factor(depth))

    def factor(self, depth: int) -> str:
        return self.atom(depth) + self.one("", "", "", "", "", "", "^2", "^3", "^-1")

    def atom(self, depth: int) -> str:
        if not depth or self.random.random() < 0.7:
            return self.one("1", "2", "3", "7", "s", "s", "d")
        name, inside = self.one("", "", *FUNCTIONS), self.sum(depth - 1)
        return f"{name}({inside}, {self.sum(depth - 1)})" if name in ("max", "min") else f"{name}({inside})"


def in_python(formula: str) -> str:
    """The formula with the signs of Python; no token changes its place."""
    code = before = ""
    for token in TOKEN.findall(formula):
        ended = before.isdigit() or before in ("s", "d", ")")
        if ended and (token == "(" or (token.isalnum() and token not in OPERATORS)):
            code += "* "
        elif token == "-" and not ended and before != "^":
            code += "0 "
        code += {"^": "**", **OPERATORS}.get(token) or (f"Fraction({token})" if token.isdigit() else token)
        code, before = code + " ", token
    return code


def expected(formula: str, at: dict[str, int]) -> object:
    """The value by Python's reading, without rounding; None where something is divided by zero."""
    try:
        return eval(in_python(formula), MEANING | {letter: Fraction(place) for letter, place in at.items()})  # it is our own
    except ZeroDivisionError:
        return None


def computed(e: Expression, at: dict[str, int]) -> object:
    try:
        return Legend.of(SPEC).number(e, at)
    except EinformerError:
        return None


PLACES = [{"s": s, "d": d} for s in (0, 1, 4, 5) for d in (1, 4)]


@pytest.mark.parametrize("seed", range(6))
def test_a_formula_means_what_it_means_to_python(seed: int) -> None:
    writer, compared, seen = Writer(seed), 0, Counter[str]()
    for _ in range(150):
        formula = writer.formula()
        e = parse_expression(formula, SPEC)
        seen.update(kinds(e))
        values = [(expected(formula, at), value) for at in PLACES if (value := computed(e, at)) is not None]
        assert all(one == other for one, other in values), f"{formula} is read as {show(e)}"
        compared += bool(values)
        for printed in (show(e), latex(e)):
            assert parse_expression(printed, SPEC) == e, f"{formula} is printed as {printed}"
    assert compared > 120
    assert set(seen) >= WANTED


def text(equations: str) -> str:
    return f"axes\n  b: B\n  s: S\n  d: D\n\nmodel Chunks(z_bsd) -> y_bsd causal in s:\n{equations}"


NUMBERS: dict[str, Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]] = {
    "s - s mod 3": lambda s, d: s - s % 3,
    "1 - s mod 3": lambda s, d: 1 - s % 3,
    "-d mod 3": lambda s, d: -(d % 3),
    "-2 s d mod 3": lambda s, d: -(2 * s * d % 3),
    "(-d) mod 3": lambda s, d: -d % 3,
    "-(s mod 3) (d mod 2)": lambda s, d: -(s % 3) * (d % 2),
    "1 - 2 (s mod 3)": lambda s, d: 1 - 2 * (s % 3),
    "s - (s mod 2) mod 3": lambda s, d: s - s % 2 % 3,
}


@pytest.mark.parametrize("formula", NUMBERS)
def test_each_interpreter_subtracts_a_remainder(formula: str) -> None:
    bound = einformer.parse(text(f"  return ({formula}) z_bsd\n")).bind(D=5)
    (z,) = arrays = inputs(bound)
    wanted = NUMBERS[formula](np.arange(z.shape[1])[:, None], np.arange(5)) * z
    assert np.array_equal(bound.reference(*arrays, weights={}), wanted)
    for plan in PLANS:
        assert error(built(bound, plan)(torch.from_numpy(z)), wanted) < 1e-12


def test_the_end_of_the_chunk_before_is_in_the_past() -> None:
    chunks = text("  n_s = s - s mod 3 - 1\n  return z_bsd + z_{b n_s d}\n")
    assert findings_of(chunks) == ()
