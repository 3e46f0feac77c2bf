"""Has the table of primitives no holes? Every interpreter knows every row, and the rows say what is so."""

from __future__ import annotations

import numpy as np
import pytest

from einformer.interpreters.reference import primitives
from einformer.interpreters.reference.named import Named
from einformer.notation import known
from einformer.notation.primitives import PRIMITIVES, Primitive

FUNCTIONS = {name for name, with_indices in PRIMITIVES if not with_indices}
OPERATORS = {name for name, with_indices in PRIMITIVES if with_indices}
UNARY = [row for row in PRIMITIVES.values() if row.kind == "function" and 1 in row.arity]


def test_the_reference_evaluates_every_row() -> None:
    assert primitives.FUNCTIONS.keys() == FUNCTIONS
    assert primitives.OPERATORS.keys() == OPERATORS


def test_the_causality_check_knows_every_function() -> None:
    assert known.FUNCTIONS.keys() == FUNCTIONS


@pytest.mark.parametrize("row", UNARY, ids=lambda row: str(row.name))
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_zeros_pass_where_the_row_says_so(row: Primitive) -> None:
    value = primitives.FUNCTIONS[row.name](Named((), np.zeros(())))
    assert (value.array == 0) == row.zero


@pytest.mark.parametrize("row", [row for row in PRIMITIVES.values() if row.kind != "function"], ids=lambda row: str(row.name))
def test_shifts_are_ignored_where_the_row_says_so(row: Primitive) -> None:
    """Of some numbers, and of the same with one added to all of them."""
    numbers, counts = np.array([0.3, -1.2, 2.0, 0.7]), (2,) * (row.arity == (2,))
    one, other = (
        primitives.OPERATORS[row.name](Named(("i",), array), ("i",), *counts).array for array in (numbers, numbers + 1)
    )
    assert np.allclose(one, other) == row.ignores_shifts
