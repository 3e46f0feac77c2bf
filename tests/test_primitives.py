"""Has the table of primitives no holes, and does each column say what is so? The reference, PyTorch and limits judge it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import torch

import einformer
from einformer.interpreters import reference
from einformer.interpreters.count import symbols
from einformer.interpreters.latex.formulas import MatrixStyle
from einformer.interpreters.latex.matrices import write_formulas
from einformer.interpreters.reference import Named
from einformer.interpreters.torch.cache import Cache
from einformer.language.primitives import NUMERIC, PRIMITIVES, Primitive
from einformer.objects import Model
from tests.few import few
from tests.oracles import loops
from tests.oracles.matrices import Oracle, Recorder, apart
from tests.refusals import refuses
from tests.texts import Array, spec

ROWS = list(PRIMITIVES.values())
FUNCTIONS = [row for row in ROWS if row.kind == "function"]
OPERATORS = [row for row in ROWS if row.kind != "function"]
UNARY = [row for row in FUNCTIONS if 1 in row.arity and not row.condition]
INSIDE = np.array([0.3, 0.9, 2.0, 0.7])  # where every function is defined, and no two are the same
HEAD = "model M(z_bsd) -> y_bsd causal in s:"
PLANS = ("notation", "fast")

pytestmark = pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")


def rows(which: Sequence[Primitive]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("row", which, ids=lambda row: f"{row.name} {row.kind}")


def value(row: Primitive, *numbers: Array | float) -> Array:
    """What the reference computes, of an operator over the only axis."""
    if row.kind == "function":
        return reference.FUNCTIONS[row.name](*(Named(("i",) * np.ndim(x), np.asarray(x)) for x in numbers)).array
    return reference.OPERATORS[row.name](Named(("i",), np.asarray(numbers[-1])), ("i",), *(2,) * (row.arity == (2,))).array


# ------------------------------------------------------------------------------------------------------------ no holes


@rows(ROWS)
def test_no_column_has_a_hole(row: Primitive) -> None:
    """Dropout is of tensors, a condition and a choice of branches have no formula, an operator over indices neither."""
    assert row.numpy
    assert row.torch
    assert bool(row.python) == (row.kind == "function" and row.name != "Dr")
    assert bool(row.sympy) == (bool(row.python) and not row.condition and row.name != "where")
    assert row.flat or row.keeps != "nothing" or row.name in ("sum", "mean", "cumsum", "where", "mod")
    assert not row.looks_back or hasattr(Cache, row.name)  # how decoding goes on
    assert row.latex or any(row.fence) or row.name.isalpha() or row.name == "log2"


@rows(UNARY)
def test_a_steep_function_has_a_value_or_a_slope_that_is_not_finite(row: Primitive) -> None:
    """Seen at numbers far out, and by a small step from zero."""
    with np.errstate(all="ignore"):
        far = [limit(row, x) for x in (-1000.0, 0.0, 1000.0)]
        step = limit(row, 1e-200)
    slope = 0 if row.flat or step is None or far[1] is None else abs(step - far[1]) / 1e-200
    assert row.steep == (not all(x is not None and math.isfinite(x) for x in far) or slope > 1e50)


# -------------------------------------------------------------------------------------------- what can be proved of it


def limit(row: Primitive, x: float) -> float | None:
    """The value at a number, of an operator where all are that; None where it is no number."""
    found = np.ravel(value(row, x if row.kind == "function" else np.full(3, x)))
    return float(found[0]) if (found == found[0]).all() else None


@rows([row for row in (*UNARY, *OPERATORS) if row.name != "top"])
def test_values_at_zero_and_at_minus_infinity(row: Primitive) -> None:
    """An operator over zeros counts only where it does not matter over how many."""
    at_zero, at_minus_infinity = limit(row, 0.0), limit(row, -math.inf)
    if row.name in ("lse", "Sm"):
        assert row.at_zero is None
    else:
        assert row.at_zero == at_zero
    assert row.at_minus_infinity == at_minus_infinity


@rows([row for row in (*FUNCTIONS, *OPERATORS) if not row.condition and row.name != "where"])
def test_what_rises_never_falls(row: Primitive) -> None:
    """In each of its arguments, at numbers far and near; what is not said to rise falls somewhere, but dropout draws."""
    rng = np.random.default_rng(0)
    falls = False
    for _ in range(200):
        low = rng.choice([-3.0, -0.7, -0.2, 0.1, 0.4, 1.5, 6.0], size=3)
        high = low + rng.choice([0.0, 0.05, 0.6, 2.0], size=3)
        if row.kind == "function":
            count = row.arity[-1] if row.name != "Dr" else 1
            one, other = (value(row, *numbers[:count]) for numbers in (low, high))
        else:
            one, other = value(row, low), value(row, high)
        falls |= bool((other < one - 1e-12).any())
    assert falls != row.rising or row.name == "Dr"


@rows([row for row in (*FUNCTIONS, *OPERATORS) if not row.condition and row.name not in ("where", "Dr")])
def test_what_is_whole_stays_whole_where_the_row_says_so(row: Primitive) -> None:
    def is_whole(numbers: Array) -> bool:
        found = value(row, *([numbers, numbers[::-1]] if row.arity == (2,) else [numbers]))
        return bool((found == np.floor(found)).all())

    assert is_whole(np.array([3.0, 5.0, 2.0])) == bool(row.whole)
    assert is_whole(np.array([0.5, 2.25, 1.1])) == (row.whole == "made")


@rows([row for row in OPERATORS if row.neutral is not None])
def test_what_is_neutral_does_not_matter(row: Primitive) -> None:
    assert row.neutral is not None
    alone = value(row, INSIDE)
    beside = value(row, np.array([*INSIDE, row.neutral]))
    assert np.allclose(beside if row.kind == "reducing" else beside[: len(INSIDE)], alone)


@rows(OPERATORS)
def test_what_looks_back_reads_nothing_later(row: Primitive) -> None:
    changed = np.array([*INSIDE[:-1], 7.0])
    same = row.kind == "keeping" and np.allclose(value(row, changed)[:-1], value(row, INSIDE)[:-1])
    assert same == row.looks_back


@rows(OPERATORS)
def test_shifts_are_ignored_where_the_row_says_so(row: Primitive) -> None:
    """Of some numbers, and of the same with one added to all of them."""
    assert np.allclose(value(row, INSIDE), value(row, INSIDE + 1)) == row.ignores_shifts


# -------------------------------------------------------------------------------------- one meaning in other languages


@rows([row for row in FUNCTIONS if row.python])
def test_plain_numbers_are_those_of_the_reference(row: Primitive) -> None:
    given = [bool(x > 0.5) for x in INSIDE] if row.name in ("not", "and", "or") else [-2.5, *INSIDE, 3.0]
    given = [x for x in given if x > 0 or row.name not in ("log", "log2", "sqrt")]
    for x in given:
        for y in given if row.arity == (2,) else [1.0]:
            numbers = (x, y, 7.0)[: row.arity[0]]
            assert float(NUMERIC[row.name](*numbers)) == pytest.approx(float(value(row, *numbers)), abs=1e-15, rel=1e-12)


@rows([row for row in FUNCTIONS if row.sympy and row.name != "exp"])
def test_formulas_are_those_of_the_reference(row: Primitive) -> None:
    for x in (0.3, 2.5):
        numbers = (x, 0.7)[: row.arity[0]]
        assert float(symbols._FUNCTIONS[row.name](*numbers)) == pytest.approx(float(value(row, *numbers)), rel=1e-12)


def texts(row: Primitive) -> Iterator[str]:
    """Right sides that use a row: of a tensor, of numbers of Python, of an index."""
    if row.kind != "function":
        over = f"{row.name}_{{2,d}}" if row.name == "top" else f"{row.name}_d"
        yield f"where({over}(z_bsd), z_bsd, 0)" if row.condition else f"z_bsd + {over} (z_bsd^2 + 0.3)"
        if row.looks_back:
            yield f"{row.name}_s (z_bsd / 2 + 1)"
    elif row.name == "where":
        yield "where(z_bsd > 0, z_bsd, 2)"
        yield "where(D > 2, z_bsd, 2 z_bsd)"
    elif row.infix and row.condition:
        yield f"where(z_bsd > 0 {row.name} d > 1, z_bsd, 1)" if row.name.isalpha() else f"where(z_bsd {row.name} 1, z_bsd, 1)"
        yield f"where(D > 2 {row.name} D > 3, z_bsd, 1)" if row.name.isalpha() else f"where(D {row.name} 2, z_bsd, 1)"
    elif row.condition:
        yield f"where({row.name} z_bsd > 0, z_bsd, 1)"
        yield f"where({row.name} D > 2, z_bsd, 1)"
    elif row.arity == (2,):
        pair = "({} mod {})" if row.infix else row.name + "({}, {})"
        yield pair.format("z_bsd", "(d + 2)")
        yield f"z_bsd {pair.format('D', 'c')}"
    else:
        more = ", 0.1" * (2 in row.arity)
        yield f"{row.name}(z_bsd^2 + 0.3{more})"
        yield f"z_bsd {row.name}(D{more})"
        yield f"z_bsd {row.name}(2 c / 3 + 1{more})"
        yield f"z_bsd {row.name}(d + 1{more})"


USES = [(row, text) for row in ROWS for text in texts(row)]
FIRST = {next(texts(row)) for row in ROWS}


def model(*lines: str) -> Model:
    used = " ".join(lines)
    return spec("b, s, d", HEAD, *lines, scalars="c = 0.7" if re.search(r"\bc\b", used) else "").bind(D=5)


@pytest.mark.parametrize("right", few([text for _, text in USES], FIRST))
def test_every_row_in_every_interpreter(right: str) -> None:
    """Checked, computed by the reference and both plans, forward, backward and step by step, counted, printed and read."""
    found = model(f"return {right}")
    x = np.random.default_rng(1).normal(size=(2, 4, 5))
    expected = found.reference(x, weights={})
    for plan in PLANS:
        module = found.build(plan=plan, dtype=torch.float64).eval()
        given = torch.tensor(x, requires_grad=True)
        output = module(given)
        assert np.allclose(output.detach(), expected, rtol=1e-11, atol=1e-11)
        if output.requires_grad:
            (slope,) = torch.autograd.grad(output.sum(), given)
            assert np.allclose(slope, slopes(lambda z: found.reference(z, weights={}), x), rtol=1e-4, atol=1e-4)
        cache: Any = module.cache()
        steps = [module.decode(torch.tensor(x[:, at : at + 1]), cache=cache) for at in range(4)]
        assert np.allclose(torch.cat(steps, 1).detach(), expected, rtol=1e-11, atol=1e-11)
    assert found.flops(B=2, S=4) >= 0
    assert found.summary(B=2, S=4)
    assert einformer.parse(found.spec.latex()).tree == found.spec.tree


@pytest.mark.parametrize("plan", PLANS)
def test_a_denominator_is_summed_with_its_product(plan: str) -> None:
    found = model("return z_bsd sum_d' (z_bsd' z_bsd' / (1 + z_bsd'^2))")
    x = np.random.default_rng(1).normal(size=(2, 4, 5))
    module = found.build(plan=plan, dtype=torch.float64).eval()
    assert np.allclose(module(torch.tensor(x)), found.reference(x, weights={}), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("right", [text for _, text in USES])
def test_every_row_in_every_oracle(right: str) -> None:
    """Loops over scalars compute what the reference computes, and the printed matrices are read back."""
    found = model(f"return {right}")
    x, sizes = np.random.default_rng(1).normal(size=(2, 4, 5)), {"B": 2, "S": 4, "D": 5}
    shape, table = loops.evaluate(found.spec.tree, found.spec.name, [x], {}, sizes)
    theirs = np.array([table[at] for at in np.ndindex(shape)]).reshape(shape)
    assert np.allclose(found.reference(x, weights={}), theirs, rtol=1e-12, atol=1e-12)
    legend = found.spec.bind(**sizes).legend
    for lines in write_formulas(apart(found.spec.written), MatrixStyle(), translate=Recorder).values():
        differences = Oracle(found.spec.written, lines, legend, {}, np.random.default_rng(0)).differences()
        assert all(difference < 1e-12 for _, difference in differences)


def slopes(f: Callable[[Array], Array], x: Array, step: float = 1e-6) -> Array:
    """The gradient of Σ f by differences."""
    found = np.zeros_like(x)
    for at in np.ndindex(*x.shape):
        moved = np.zeros_like(x)
        moved[at] = step
        found[at] = (f(x + moved).sum() - f(x - moved).sum()) / (2 * step)
    return found


@rows([row for row in UNARY if row.python])
def test_a_legend_may_use_every_function_of_numbers(row: Primitive) -> None:
    """As a scalar, as a scalar with an index, in formulas, and in the emitted file."""
    lines = ("b, d", "layer Scaled(z_bd) -> y_bd:", "return τ θ_d z_bd")
    scalars = f"τ = {row.name}(D / 3); θ_d = {row.name}(d + 0.5)"
    bound = spec(*lines, scalars=scalars).bind(D=5)
    expected = value(row, 5 / 3) * value(row, np.arange(5) + 0.5)
    assert np.allclose(bound.reference(np.ones((1, 5)), weights={})[0], expected, rtol=1e-12)
    for plan in PLANS:
        assert np.allclose(
            bound.build(plan=plan, dtype=torch.float64).eval()(torch.ones(1, 5).double())[0], expected, rtol=1e-12
        )


def test_a_legend_does_not_draw() -> None:
    with refuses("E604", "Dr"):
        spec("b, d", "layer Scaled(z_bd) -> y_bd:", "return τ z_bd", scalars="τ = Dr(D, 0.1)")


@rows([row for row in UNARY if row.python and row.name != "exp"])
def test_a_size_may_be_a_function_of_another(row: Primitive) -> None:
    """Rounded up; as a number, and as a formula in letters whose value is that number. Exponents have no letters (E607)."""
    found = spec("d, f: F = 3 + ceil(" + f"{row.name}(D / 2))", "layer Wide(z_d) -> y_f:", "weights W_df", "return z_d W_df")
    expected = 3 + math.ceil(float(value(row, 2.5)))
    assert found.bind(D=5).size("F") == expected
    letters = found.parameters
    assert int(letters.subs(dict.fromkeys(letters.free_symbols, 5)).evalf()) == 5 * expected
