"""Does what nests as deep as it may pass through everything, on the stack that Python gives by default (R13)?"""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import pytest
from numpy.typing import NDArray

from einformer import parse
from einformer.objects import Model, Specification
from tests.refusals import findings_of

DEEP, IN_ALL = 100, 150
STACK = 150  # calls that stand under ours: a test's, a notebook's
MODEL = "axes\n  s: S\n  d: D\nmodel Deep(z_sd) -> z_sd causal in s:\n"
Array = NDArray[Any]
T = TypeVar("T")


def returning(formula: str) -> str:
    return f"{MODEL}  return {formula}\n"


def around(before: str, inside: str, after: str, times: int) -> str:
    return returning(before * times + inside + after * times)


def by_twos(before: str, inside: str, after: str, depth: int) -> str:
    """Brackets of which each adds two operations; a minus adds the odd one."""
    return around(before, inside, after, depth // 2).replace("return ", "return -" * (depth % 2) or "return ")


def contractions(depth: int) -> str:
    """`W_dd' tanh(tanh(… W_d'd'' tanh(…)))`, in which each product sums an index."""
    letters = ["d" + "'" * k for k in range(depth // 5 + 1)]
    products = "".join(f"W_{one}{other} {'tanh(' * 4}" for one, other in itertools.pairwise(letters))
    text = f"{'tanh(' * (depth % 5)}{products}z_s{letters[-1]}{')' * (depth // 5 * 4 + depth % 5)}"
    return returning(text).replace(":\n  return", ":\n  weights W_dd'\n  return")


def slots(depth: int) -> str:
    """`z_{(s - 1 - (s - 1 - s))d}`: twice makes s of s."""
    return returning(f"{'-' * (depth % 2)}z_{{{'(s - 1 - ' * (depth // 2)}s{')' * (depth // 2)}d}}")


def loops(depth: int, formula: str = "2 z_sd") -> str:
    letters = ["d" + "'" * k for k in range(depth)]
    heads = "".join(f"{'  ' * k}for {letter} < 1:\n" for k, letter in enumerate(letters, 1))
    return f"{MODEL}{heads}{'  ' * (depth + 1)}z_sd <- {formula}\n  return z_sd\n"


def iterated(f: Callable[[Array], Array], times: int) -> Callable[[Array, Array], Array]:
    return lambda z, _: functools.reduce(lambda x, _: f(x), range(times), z)


def softmax(x: Array) -> Array:
    powers: Array = np.exp(x - x.max(1, keepdims=True))
    shares: Array = powers / powers.sum(1, keepdims=True)
    return shares


def contracted(z: Array, weight: Array) -> Array:
    for _ in range(DEEP // 5):
        z = np.tanh(np.tanh(np.tanh(np.tanh(z)))) @ weight.T
    return z


# What nests, written so deep; and what it is at the depth of 100.
NESTED: dict[str, tuple[Callable[[int], str], Callable[[Array, Array], Array]]] = {
    "parentheses": (lambda n: around("(", "z_sd", ")", n), lambda z, _: z),
    "denominators": (lambda n: around("2 / (", "2 / z_sd", ")", n - 1), lambda z, _: z),
    "numerators": (lambda n: around("(", "z_sd / 2", ") / 2", n - 1), lambda z, _: z * 2.0**-100),
    "bases": (lambda n: around("(", "z_sd^2", ")^2", n - 1), iterated(np.square, 100)),
    "exponents": (lambda n: around("1^(", "2^z_sd", ")", n - 1), lambda z, _: np.ones_like(z)),
    "sums in products": (lambda n: by_twos("(1 + 2 ", "z_sd", ")", n), lambda z, _: 2.0**50 * z + (2.0**50 - 1)),
    "where": (
        lambda n: around("where(s < 1, 0, ", "z_sd", ")", n - 1),
        lambda z, _: z * (np.arange(len(z)) > 0)[:, None],
    ),
    "conditions": (
        lambda n: returning(f"where({'(s > 0 and ' * (n - 2)}s < 2{')' * (n - 2)}, z_sd, 0)"),
        lambda z, _: z * (np.arange(len(z)) == 1)[:, None],
    ),
    "not": (
        lambda n: returning(f"where({'not ' * (n - 2)}s < 1, z_sd, 0)"),
        lambda z, _: z * (np.arange(len(z)) == 0)[:, None],
    ),
    "functions": (lambda n: around("tanh(", "z_sd", ")", n), iterated(np.tanh, 100)),
    "functions without parentheses": (lambda n: around("tanh ", "z_sd", "", n), iterated(np.tanh, 100)),
    "operators": (lambda n: around("Sm_d(", "z_sd", ")", n), iterated(softmax, 100)),
    "operators in sums": (lambda n: by_twos("sum_d' (d' + ", "z_sd", ")", n), iterated(lambda x: 3 + 3 * x, 50)),
    "slots": (slots, lambda z, _: z),
    "contractions": (contractions, contracted),
}  # fmt: skip
KINDS = pytest.mark.parametrize("kind", NESTED)
CHAINS = {"a sum": ("z_sd" + " + 1" * 990, 991.0), "a product": ("z_sd" + " D" * 600, 3.0**600)}  # as long as a line


def high(f: Callable[[], T], calls: int = STACK) -> T:
    """f on a stack of so many calls."""
    depth, frame = 0, sys._getframe()
    while frame := frame.f_back:  # type: ignore[assignment]
        depth += 1
    return f() if depth >= calls else high(f, calls)


def read(text: str) -> Specification:
    return high(lambda: parse(text))


def reads_back(spec: Specification) -> bool:
    """As it is printed, and as LaTeX."""
    return high(lambda: parse(str(spec)).written == parse(spec.latex()).written == spec.written)


def codes(text: str) -> list[str]:
    return [finding.code for finding in high(lambda: findings_of(text))]


def bound(text: str) -> Model:
    return high(lambda: parse(text).bind(S=2, D=3))


def test_the_stack_is_the_default_one() -> None:
    assert sys.getrecursionlimit() == 1000


@KINDS
def test_it_is_read_and_written(kind: str) -> None:
    assert reads_back(read(NESTED[kind][0](DEEP)))


@KINDS
def test_one_more_is_refused(kind: str) -> None:
    assert codes(NESTED[kind][0](DEEP + 1)) == ["E002"]


@KINDS
def test_it_has_its_value(kind: str) -> None:
    text, value = NESTED[kind]
    z, weight = np.array([[0.5, 1.0, -0.25], [0.75, -1.0, 0.125]]), np.array([[1, -1, 0.5], [0, 1, 1], [2, 0, -1]])
    model = bound(text(DEEP))
    given = dict.fromkeys(model.weight_shapes(), weight)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(high(lambda: model.reference(z, weights=given)), value(z, weight), rtol=1e-12)


@KINDS
def test_it_is_emitted_and_counted(kind: str) -> None:
    model = bound(NESTED[kind][0](DEEP))
    for plan in ("notation", "fast"):
        compile(high(lambda plan=plan: model.source(plan)), "<emitted>", "exec")  # type: ignore[misc]
    products = 20 * 2 * 2 * 3 * 3 if kind == "contractions" else 0  # of 2 S D D each
    assert high(model.flops) == products


@pytest.mark.parametrize("kind", CHAINS)
def test_a_long_chain_is_no_depth(kind: str) -> None:
    formula, expected = CHAINS[kind]
    text = returning(formula)
    assert reads_back(read(text))
    value = high(lambda: bound(text).reference(np.ones((2, 3)), weights={}))
    np.testing.assert_allclose(value, expected, rtol=1e-12)


def test_loops() -> None:
    spec = read(loops(DEEP))
    assert reads_back(spec)
    assert np.all(high(lambda: spec.bind(S=2, D=3).reference(np.ones((2, 3)), weights={})) == 2)
    assert codes(loops(DEEP + 1))[0] == "E002"


@pytest.mark.parametrize(("around", "inside"), [(50, 100), pytest.param(100, 50, marks=pytest.mark.slow)])
def test_a_formula_in_loops(around: int, inside: int) -> None:
    """Both count, 150 in all."""
    spec = read(loops(around, f"{'tanh(' * inside}z_sd{')' * inside}"))
    assert reads_back(spec)
    high(lambda: spec.bind(S=2, D=3).reference(np.ones((2, 3)), weights={}))
    assert codes(loops(around, f"{'tanh(' * (inside + 1)}z_sd{')' * (inside + 1)}")) == ["E002"]
