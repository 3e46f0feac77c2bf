"""Do the texts have the properties that the source documents claim, and only those? S000 and S001 are the documents."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import einformer
from einformer import EinformerError
from tests import arrays

Array = NDArray[Any]

AXES = """
axes
  b: B
  s: S
  d: D
  a: A
  e: H = D / A
"""
ATTENTION = """
layer Attention(z_bsd) -> z_bsd:
  weights Q_dea, K_dea, V_dea, O_d'd
  q_bsea = z_bsd Q_dea
  k_bsea = z_bsd K_dea
  v_bsea = z_bsd V_dea
  w_bss'a = Sm_s'(q_bsea k_bs'ea / sqrt(H){mask})
  y_bsea = w_bss'a v_bs'ea
  u_{{bs(ae)}} = y_bsea
  return u_bsd' O_d'd
"""
MODEL = """
model Decoder(z_bsd) -> z_bsd causal in s:
  return z_bsd + Attention(z_bsd)
"""
CAUSAL = " + where(s' <= s, 0, -inf)"
INVERTED = " + where(s <= s', 0, -inf)"  # S001's, erratum E2

seeds = st.integers(0, 2**32 - 1)
few = settings(max_examples=15, derandomize=True, deadline=None)


def attention(mask: str, seed: int, given: Array, trace: dict[str, Array] | None = None) -> Array:
    """What attention under a mask gives for z_bsd."""
    model = einformer.parse(AXES + ATTENTION.format(mask=mask)).bind(B=given.shape[0], S=given.shape[1], D=6, A=2)
    return model.reference(given, weights=arrays.weights(model, seed), trace=trace)


def normal(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape)


# ----------------------------------------------------------------------------------------------------------- causality


@few
@given(seeds, st.integers(0, 6))
def test_causal_attention_depends_on_no_later_position(seed: int, t: int) -> None:
    """S001: z_bsd only depends on those inputs with s' <= s."""
    z = normal(seed, 2, 7, 6)
    other = np.concatenate([z[:, :t], normal(seed + 1, 2, 7 - t, 6)], axis=1)
    assert (attention(CAUSAL, seed, other)[:, :t] == attention(CAUSAL, seed, z)[:, :t]).all()


@few
@given(seeds)
def test_the_printed_mask_reads_only_the_future(seed: int) -> None:
    """S001-E2: 0 where s <= s' is the mask upside down; the checker refuses it in a causal model."""
    z = normal(seed, 2, 7, 6)
    later, earlier = z.copy(), z.copy()
    later[:, 4:] += 1
    earlier[:, :4] += 1
    assert (attention(INVERTED, seed, later)[:, :4] != attention(INVERTED, seed, z)[:, :4]).all()
    assert (attention(INVERTED, seed, earlier)[:, 4:] == attention(INVERTED, seed, z)[:, 4:]).all()


@pytest.mark.parametrize(("mask", "codes"), [(CAUSAL, []), (INVERTED, ["E501"]), ("", ["E501"])])
def test_the_checker_tells_the_masks_apart(mask: str, codes: list[str]) -> None:
    findings: tuple[einformer.errors.Finding, ...] = ()
    try:
        einformer.parse(AXES + ATTENTION.format(mask=mask) + MODEL)
    except EinformerError as error:
        findings = error.findings
    assert [finding.code for finding in findings] == codes


# --------------------------------------------------------------------------------------------------- the attention map


@few
@given(seeds, st.sampled_from(["", CAUSAL]))
def test_rows_of_the_attention_map_sum_to_one(seed: int, mask: str) -> None:
    """S000, S001: a_nm >= 0, the sum over m is 1, and under the mask w_bss'a is 0 for s' > s."""
    trace: dict[str, Array] = {}
    attention(mask, seed, normal(seed, 2, 7, 6), trace)
    assert (trace["w"] >= 0).all()
    assert trace["w"].sum(axis=2) == pytest.approx(1)
    if mask:
        assert (trace["w"].transpose(0, 3, 1, 2)[..., *np.triu_indices(7, 1)] == 0).all()


SHARED = """
axes
  n: N
  d: D
  e: E

layer Map(x_nd) -> a_nn':
  weights W_de
  q_ne = x_nd W_de
  t_nn' = q_ne q_n'e
  return Sm_n' t_nn'
"""


@few
@given(seeds)
def test_one_matrix_makes_the_scores_symmetric_and_not_the_map(seed: int) -> None:
    """S000-E1: "and therefore a_nm = a_mn" holds for the scores alone; rows are divided by different sums."""
    model, trace = einformer.parse(SHARED).bind(N=5, D=4, E=3), dict[str, Array]()
    a = model.reference(normal(seed, 5, 4), weights=arrays.weights(model, seed), trace=trace)
    t = trace["t"]
    z = np.exp(t).sum(axis=1, keepdims=True)
    assert t == pytest.approx(t.T)
    assert a * z == pytest.approx((a * z).T)
    assert np.abs(a - a.T).max() > 1e-6


def test_the_smallest_counterexample() -> None:
    """S000-E1: two tokens, 0 and 1."""
    a = einformer.parse(SHARED).bind(N=2, D=1, E=1).reference([[0.0], [1.0]], weights={"W": [[1.0]]})
    assert a == pytest.approx(np.array([[0.5, 0.5], [0.2689, 0.7311]]), abs=1e-4)


def test_a_dot_product_of_zero_is_no_weight_of_zero() -> None:
    """S000-E14: four orthonormal tokens give each other 0.175, not about nothing."""
    a = einformer.parse(SHARED).bind(N=4, D=4, E=4).reference(np.eye(4), weights={"W": np.eye(4)})
    assert a == pytest.approx(np.where(np.eye(4), 0.4754, 0.1749), abs=1e-4)


SCORES = """
axes
  s: S
  e: H

layer Scores(q_se, k_se) -> t_ss':
  return {0}
"""


@pytest.mark.parametrize("size", [4, 16, 64])
def test_scores_of_normal_vectors_have_unit_variance(size: int) -> None:
    """S001: that is why they are divided by sqrt(H); multiplied, as printed (S001-E1), their variance is H squared."""
    queries, keys = normal(0, 400, size), normal(1, 400, size)
    divided = einformer.parse(SCORES.format("q_se k_s'e / sqrt(H)")).bind(S=400, H=size)
    multiplied = einformer.parse(SCORES.format("q_se k_s'e sqrt(H)")).bind(S=400, H=size)
    assert divided.reference(queries, keys, weights={}).var() == pytest.approx(1, rel=0.05)
    assert multiplied.reference(queries, keys, weights={}).var() == pytest.approx(size**2, rel=0.05)


@few
@given(seeds, st.permutations(range(7)))
def test_without_a_mask_attention_does_not_know_the_order(seed: int, order: list[int]) -> None:
    z = normal(seed, 2, 7, 6)
    assert attention("", seed, z[:, order]) == pytest.approx(attention("", seed, z)[:, order])


@few
@given(seeds)
def test_under_the_mask_it_does(seed: int) -> None:
    """S001-E21: a causal decoder knows positions without positional encodings."""
    z = normal(seed, 2, 7, 6)
    assert np.abs(attention(CAUSAL, seed, z[:, ::-1]) - attention(CAUSAL, seed, z)[:, ::-1]).max() > 1e-3


# -------------------------------------------------------------------------------------------------------------- layers


@few
@given(seeds)
def test_each_batch_is_processed_independently(seed: int) -> None:
    """S001: the b-index never mixes; here for the whole model."""
    model = einformer.load("gpt2").bind(D=6, A=2, L=2, V=11, K=7)
    x, other = np.random.default_rng(seed).integers(11, size=(2, 3, 7))
    found = arrays.weights(einformer.load("gpt2").bind(D=6, A=2, L=2, V=11, K=7, B=3, S=7), seed)
    mixed = model.reference(np.stack([x[0], other[1], other[2]]), weights=found)
    assert (mixed[0] == model.reference(x, weights=found)[0]).all()
    assert mixed[0] == pytest.approx(model.reference(x[:1], weights=found)[0])


AFFINE = """
axes
  b: B
  s: S
  d: D
  f: F

layer Affine(x_bsd) -> y_bsf:
  weights {0}
  return {1}
"""


@few
@given(seeds)
def test_a_norm_s_parameters_are_absorbed_by_the_next_layer(seed: int) -> None:
    """S001, 1.1.1.1: (x γ + β) W + b = x W' + b' with W' = γ W and b' = b + β W."""
    sizes = {"B": 2, "S": 3, "D": 5, "F": 7}
    apart = einformer.parse(AFFINE.format("γ_d, β_d, W_df, ω_f", "(x_bsd γ_d + β_d) W_df + ω_f")).bind(**sizes)
    joined = einformer.parse(AFFINE.format("W_df, ω_f", "x_bsd W_df + ω_f")).bind(**sizes)
    x, found = normal(seed, 2, 3, 5), arrays.weights(apart, seed)
    absorbed = {"W": found["γ"][:, None] * found["W"], "ω": found["ω"] + found["β"] @ found["W"]}
    assert joined.reference(x, weights=absorbed) == pytest.approx(apart.reference(x, weights=found))


MERGE = """
axes
  s: S
  a: A
  e: E
  d: D = A E

layer Merge(y_sea) -> u_sd:
  u_{{s{0}}} = y_sea
"""


@few
@given(seeds)
def test_a_group_merges_with_its_first_letter_slowest(seed: int) -> None:
    """S001-E16: (ae), head after head, is what concatenating heads gives; the printed (ea) interleaves them."""
    y = normal(seed, 3, 5, 2)
    merged, printed = (
        einformer.parse(MERGE.format(group)).bind(A=2, E=5).reference(y, weights={}) for group in ("(ae)", "(ea)")
    )
    assert (merged == np.concatenate([y[:, :, 0], y[:, :, 1]], axis=1)).all()
    assert (printed == y.reshape(3, 10)).all()
    assert (merged != printed).any()


SILENT = """
axes
  s: S
  e: E
  a: A

layer Read(w_ss'a, v_sea) -> y_se:
  y_se = w_ss'a v_s'ea
"""


@few
@given(seeds)
def test_a_letter_that_the_left_side_lacks_is_summed(seed: int) -> None:
    """S001-E13: y_bse without its a is the sum over the heads, by the notes' own rule."""
    w, v = normal(seed, 4, 4, 3), normal(seed + 1, 4, 5, 3)
    summed = sum(w[:, :, head] @ v[:, :, head] for head in range(3))
    assert einformer.parse(SILENT).bind(S=4, E=5, A=3).reference(w, v, weights={}) == pytest.approx(summed)


# -------------------------------------------------------------------------------------------------------------- models


@few
@given(seeds, st.lists(st.integers(1, 7), min_size=1, max_size=4))
def test_rows_of_unequal_length_mean_what_each_means_alone(seed: int, lengths: list[int]) -> None:
    """R6: what stands beyond the end of a row changes nothing, and nothing is defined there."""
    model, rows = einformer.load("gpt2").bind(D=6, A=2, L=1, V=11, K=7), len(lengths)
    found = arrays.weights(einformer.load("gpt2").bind(D=6, A=2, L=1, V=11, K=7, B=rows, S=7), seed)
    x = np.random.default_rng(seed).integers(11, size=(rows, 7))
    ours, padded = model.reference(x, weights=found, lengths=lengths), model.reference(x, weights=found)
    for row, length in enumerate(lengths):
        alone = model.reference(x[row : row + 1, :length], weights=found)[0]
        assert (ours[row, :length] == alone).all()
        assert alone == pytest.approx(padded[row, :length])
        assert np.isnan(ours[row, length:]).all()


@few
@given(seeds)
def test_linear_attention_is_a_recurrence_and_a_masked_product(seed: int) -> None:
    """S_s = α_s S_{s-1} + k_s v_s against Σ_{s' <= s} q k v times the product of the α between."""
    sizes = {"B": 2, "S": 6, "D": 6, "A": 2, "E": 3, "U": 5, "F": 7, "V": 11, "L": 2}
    recurrent, masked = (einformer.load(name).bind(**sizes) for name in ("linear_attention", "linear_attention_masked"))
    x, found = arrays.inputs(recurrent, seed), arrays.weights(recurrent, seed)
    assert recurrent.reference(*x, weights=found) == pytest.approx(masked.reference(*x, weights=found), abs=1e-12)
