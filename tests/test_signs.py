"""Is a minus read as one sign, and printed as it was read? A number takes it in, before anything else it is a factor -1."""

from __future__ import annotations

import pytest

from einformer.language.parser import parse_expression
from einformer.language.printer import show
from einformer.language.tree import Apply, Expression, Index, Number, Power, Product, Quotient, Spec, Sum, Tensor

X = Tensor("x", (Index("d"),))
EMPTY = Spec("", (), (), ())


def n(value: float) -> Number:
    return Number(value)


SIGNS: dict[str, Expression] = {
    "-2": n(-2),
    "-inf": n(float("-inf")),
    "-x_d": Product((n(-1), X)),
    "-2 x_d": Product((n(-2), X)),
    "x_d (-2)": Product((X, n(-2))),
    "-1 2": Product((n(-1), n(2))),
    "-1.0 x_d": Product((n(-1.0), X)),
    "1 - x_d": Sum((n(1), Product((n(-1), X)))),
    "1 - 2 x_d": Sum((n(1), Product((n(-2), X)))),
    "x_d - 1": Sum((X, n(-1))),
    "-x_d + 1": Sum((Product((n(-1), X)), n(1))),
    "1 - (x_d - 2)": Sum((n(1), Product((n(-1), Sum((X, n(-2))))))),
    "1 - x_d / 2": Sum((n(1), Quotient(Product((n(-1), X)), n(2)))),
    "-1 / x_d": Quotient(n(-1), X),
    "1 / (-x_d)": Quotient(n(1), Product((n(-1), X))),
    "x_d^-2": Power(X, n(-2)),
    "(-2)^x_d": Power(n(-2), X),
    "-2^x_d": Product((n(-1), Power(n(2), X))),
    "(-x_d)^2": Power(Product((n(-1), X)), n(2)),
    "-exp(-x_d)": Product((n(-1), Apply("exp", (), (Product((n(-1), X)),)))),
    "-2 < x_d <= -1": Apply("and", (), (Apply("<", (), (n(-2), X)), Apply("<=", (), (X, n(-1))))),
}


@pytest.mark.parametrize("text", SIGNS)
def test_a_minus_is_read(text: str) -> None:
    found = parse_expression(text, EMPTY)
    assert found == SIGNS[text]
    assert repr(found) == repr(SIGNS[text])  # 1 is not 1.0


@pytest.mark.parametrize("text", SIGNS)
def test_a_minus_is_printed_as_it_was_read(text: str) -> None:
    assert show(SIGNS[text]) == text
