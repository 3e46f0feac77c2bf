"""Do all interpreters compute what the reference computes, on every text that is accepted? On random ones, in every form.

The reference, both plans, their gradients, decoding in steps and in chunks, rows of unequal length: one value, in float64.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

import einformer
from einformer.errors import EinformerError
from einformer.objects import Model
from tests.alone import LINES, alone
from tests.few import few
from tests.holes import HOLES
from tests.oracles.flops import counted
from tests.oracles.interpreters import TOLERANCE, before, changed, chunks, decoded, disagreements, out
from tests.rare import FORMS
from tests.small import PLANS, built, decided, error, inputs, weights
from tests.well_formed import Text, written

Array = NDArray[Any]

BLOCK, MANY = 10, 50  # texts in a block, and blocks, of which one is quick
SIZES = (2, 3, 5, 7, 4)
ALLOWED = FORMS - HOLES.keys()
REFUSED_AT_MOST = 8  # of a hundred

blocks = pytest.mark.parametrize("block", few(range(MANY), {0}))


@dataclass(frozen=True)
class Case:
    """A text at some sizes, with numbers for its inputs; the random numbers go on from where the text ended."""

    text: Text
    model: Model
    arrays: list[Array]
    random: Random

    def reference(self, arrays: list[Array] | None = None) -> Array:
        with np.errstate(all="ignore"):
            return self.model.reference(*(arrays or self.arrays), weights=weights(self.model))


def case(seed: int, causal: bool | None = None, longest: int | None = None) -> Case | EinformerError:
    """Sizes that all differ, or of which some are alike; or why the text is refused."""
    random = Random(seed)
    text = written(random, causal, ALLOWED)
    numbers = random.sample(SIZES, 5) if random.random() < 0.6 else random.choices(SIZES, k=5)
    sizes = text.sizes(*numbers) | ({"V": 53} if text.tokens else {})
    if longest:
        sizes["S"] = random.randint(2, longest)
        sizes |= {"K": sizes["S"]} if "K" in sizes else {}
    try:
        bound = einformer.parse(text.text).bind(**{name: n for name, n in sizes.items() if not (text.causal and name in "BS")})
    except EinformerError as refused:
        return refused
    return Case(text, bound, inputs(bound, sizes, seed), random)


def cases(block: int, causal: bool | None = None, longest: int | None = None) -> Iterator[tuple[Case, Array]]:
    """Those of a block that are accepted, have values, and hang on no tie; and the values."""
    for seed in range(BLOCK * block, BLOCK * (block + 1)):
        drawn = case(seed, causal, longest)
        if isinstance(drawn, Case):
            expected = np.array(np.nan)
            with unless(drawn, "E309"):  # a slot that leaves its axis, which only the numbers tell
                expected = drawn.reference()
            if np.isfinite(expected).all() and decided(drawn.model, drawn.arrays, expected):
                yield drawn, expected


@contextlib.contextmanager
def unless(drawn: Case, code: str) -> Iterator[None]:
    """Goes on where just that is refused."""
    try:
        yield
    except EinformerError as refused:
        if refused.findings[0].code != code:
            raise AssertionError(drawn.text.text) from refused


# -------------------------------------------------------------------------------------------------------------- values


@blocks
def test_all_interpreters_agree(block: int) -> None:
    """In values, and torch counts the FLOPs that are counted."""
    for drawn, expected in cases(block):
        found = dict(disagreements(drawn.model, drawn.arrays, expected, drawn.random))
        assert not found, f"{drawn.text.text}\n{found}"
        miscounted = dict(miscounts(drawn.model, drawn.arrays, expected))
        assert not miscounted, f"{drawn.text.text}\n{miscounted}"


def marked(form: str) -> Any:
    return pytest.param(form, marks=pytest.mark.xfail(reason=HOLES[form], strict=True)) if form in HOLES else form


DISTINCT = {"B": 3, "S": 11, "D": 5, "A": 2, "E": 4, "V": 7}


def bound_alone(form: str, sizes: dict[str, int]) -> tuple[Model, list[Array], Array]:
    """The shortest text of a form, its inputs and its value."""
    return _bind_alone(form, tuple(sizes.items()))


@functools.cache
def _bind_alone(form: str, lengths: tuple[tuple[str, int], ...]) -> tuple[Model, list[Array], Array]:
    text, sizes = alone(form), dict(lengths)
    bound = einformer.parse(text).bind(**{name: n for name, n in sizes.items() if name in "DAEV" and _has_axis(text, name)})
    arrays = inputs(bound, sizes)
    return bound, arrays, bound.reference(*arrays, weights=weights(bound))


def _has_axis(text: str, size: str) -> bool:
    """Does the legend declare the axis of this size, in its block or on one line?"""
    return re.search(rf"^(?:axes (?:.*, )?|  ){size.lower()}(?:: {size})?(?:,|$)", text, re.MULTILINE) is not None


@pytest.mark.parametrize("form", [marked(form) for form in sorted(FORMS | LINES.keys())])
@pytest.mark.parametrize("sizes", few(("distinct", "one"), {"distinct"}))
def test_each_form_alone(form: str, sizes: str) -> None:
    """At sizes that all differ; and of one row, one position, one feature."""
    chosen = DISTINCT if sizes == "distinct" else dict.fromkeys(DISTINCT, 1)
    assert not dict(disagreements(*bound_alone(form, chosen), Random(0)))


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize(("merged", "changed"), [("(hi)", "e"), ("e", "(hi)"), ("(hi)", "(ih)")])
def test_a_loop_changes_an_axis_under_other_letters(merged: str, changed: str, plan: str) -> None:
    """A tensor keeps the letters under which it was defined: merged, split, or in another order."""
    text = f"""axes
  s: S
  e: H
  i: 2
  h: H / 2
  l: L
model Main(z_se) -> z_es:
  γ_{{{merged}s}} = z_{{s{merged}}}
  for l < L:
    γ_{{{changed}s}} <- γ_{{{changed}s}} / 2 + tanh(γ_{{{changed}s}}) {"i" * ("i" in changed)}
  for l < L:
    γ_{{{changed}s}} <- γ_{{{changed}s}} / 3 + sin(γ_{{{changed}s}})
  return γ_es
"""
    bound = einformer.parse(text).bind(S=3, H=6, L=2)
    z = np.random.default_rng(0).standard_normal((3, 6))
    assert error(built(bound, plan)(torch.as_tensor(z)), bound.reference(z, weights={})) < TOLERANCE


@pytest.mark.parametrize("order", ["hi", "ih"])
def test_what_is_chosen_of_a_group_is_not_chosen_of_its_other_order(order: str) -> None:
    """One h is two numbers of (hi), which may stand for both numbers of i in (ih)."""
    text = f"""axes
  b: B
  s: S
  d: 3
  i: 2
  h: 3
  f: F
model Main(z_bsd) -> y_bsd causal in s:
  weights α_i, R_dh, A_idf, C_ifd
  p_bsh = z_bsd R_dh
  q_bsh = where(top_{{1,h}}(p_bsh), p_bsh, 0)
  γ_{{bs(hi)}} = q_bsh α_i
  r_bsih = γ_{{bs({order})}}
  t_bsi = sum_h r_bsih
  g_bsif = tanh(z_bsd A_idf)
  return t_bsi g_bsif C_ifd
"""
    bound = einformer.parse(text).bind(F=5)
    arrays = inputs(bound, {"B": 2, "S": 3})
    expected = bound.reference(*arrays, weights=weights(bound))
    assert not dict(disagreements(bound, arrays, expected, Random(0)))
    assert bound.flops(convention="exact", B=2, S=3) == bound.flops(convention="notation", B=2, S=3)


# ----------------------------------------------------------------------------------------------------------- causality

LONGEST = 64


@blocks
def test_nothing_before_a_changed_input_moves(block: int) -> None:
    """In the reference, both plans, and chunks of any length; and what comes later is as if it never came."""
    for drawn, expected in cases(block, causal=True, longest=LONGEST):
        row, time = out(drawn.model)
        whole = expected.shape[time]
        at = drawn.random.randrange(1, whole)
        others = inputs(drawn.model, {"B": expected.shape[row], "S": whole}, at)
        moved = dict(moved_by(drawn, changed(drawn.model, drawn.arrays, others, at), whole))
        moved["reference, of what came before"] = drawn.reference(before(drawn.model, drawn.arrays, at))
        found = {
            name: error(np.take(array, range(at), time), np.take(expected, range(at), time)) for name, array in moved.items()
        }
        assert all(departure < TOLERANCE for departure in found.values()), f"{drawn.text.text}\n{at} of {whole}: {found}"


def moved_by(drawn: Case, arrays: list[Array], whole: int) -> Iterator[tuple[str, Array]]:
    """What each interpreter makes of other inputs."""
    yield "reference", drawn.reference(arrays)
    for plan in PLANS:
        module: Any = built(drawn.model, plan)
        yield plan, module(*map(torch.as_tensor, arrays)).detach().numpy()
        with unless(drawn, "E508"):  # no cache can be derived
            yield f"{plan} decodes", decoded(drawn.model, module, chunks(drawn.random, whole, 16), *arrays).detach().numpy()


# --------------------------------------------------------------------------------------------------------------- FLOPs


@pytest.mark.parametrize("form", sorted(ALLOWED | LINES.keys()))
def test_flops_of_each_form_alone_are_those_that_torch_counts(form: str) -> None:
    assert not dict(miscounts(*bound_alone(form, DISTINCT)))


@pytest.mark.parametrize("size", "SD")
@pytest.mark.parametrize(
    "form", few(sorted(ALLOWED | LINES.keys()), {"keys changed by <-", "factors: four", "keys chosen by top beside a sink"})
)
def test_over_one_number_nothing_is_summed(form: str, size: str) -> None:
    """Of one position, as the first step of a generation has, and of one feature: einsum multiplies element by element."""
    assert not dict(miscounts(*bound_alone(form, DISTINCT | {size: 1})))


MOVED = ("_local_scalar_dense",)  # what a device gives back, and no product


def miscounts(
    bound: Model, arrays: list[Array], expected: Array
) -> Iterator[tuple[str, tuple[tuple[int, int], tuple[int, int]]]]:
    """The plans of whose FLOPs, forward and of a training step, torch counts others: ours, and theirs."""
    sizes = dict(zip("BS", (expected.shape[axis] for axis in out(bound)), strict=True)) if bound.spec.layer.time else {}
    tensors = [torch.as_tensor(array) for array in arrays]
    for plan in PLANS:
        module = built(bound, plan)
        with sdpa_kernel(SDPBackend.MATH):  # its products are counted
            forward = counted(
                partial(module, *tensors), *MOVED, gradients=True
            ).total()  # torch refuses views that are given without
            training = count_training(bound, module, tensors)
        ours = bound.flops(convention=plan, **sizes), bound.flops(convention=plan, phase="training", **sizes)
        if ours != (forward, training):
            yield plan, (ours, (forward, training))


def count_training(bound: Model, module: torch.nn.Module, tensors: list[torch.Tensor]) -> int:
    """The FLOPs that torch counts forward and backward; a layer is given something that has a gradient."""
    inner = bound.spec.layer.kind == "layer"
    moving = [array.clone().requires_grad_() if inner and array.is_floating_point() else array for array in tensors]
    with FlopCounterMode(display=False) as counter:
        total = module(*moving).sum()
        if total.requires_grad:
            total.backward()
    return int(counter.get_total_flops())


# ------------------------------------------------------------------------------------------------------------ coverage


@pytest.mark.slow
def test_few_texts_are_refused() -> None:
    """What the writer takes for well formed, the checker does too; but for what it cannot prove."""
    codes = Counter(drawn.findings[0].code for seed in range(100) if isinstance(drawn := case(seed), EinformerError))
    assert codes.keys() <= {"E501", "E502"}
    assert codes.total() <= REFUSED_AT_MOST


def test_every_form_comes_up() -> None:
    assert not sorted(ALLOWED - seen().keys())


@functools.cache
def seen() -> Counter[str]:
    """How often each form stands in the texts that are tried."""
    return Counter(form for seed in range(BLOCK * MANY) for form in written(Random(seed), None, ALLOWED).forms)
