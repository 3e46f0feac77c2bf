"""Can the oracles be trusted? They are as wide as they claim, see what they should, and leave nothing behind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from transformers.models.bloom.modeling_bloom import _get_alibi_slopes

from tests.oracles.families import FAMILIES, answer, theirs, weights
from tests.oracles.lifted import FLOAT32, NarrowNumberError, build, lifted, run, state
from tests.oracles.names import rows, split
from tests.oracles.twins import alibi_slopes

LLAMA = "transformers.models.llama.modeling_llama"


def distance(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.abs(one - other).max())


def test_float32_means_float64_inside_and_itself_outside() -> None:
    method = torch.Tensor.float
    with lifted(LLAMA):
        assert torch.zeros(1, dtype=torch.int64).float().dtype is torch.float32 is torch.float is torch.float64
    assert torch.float32 is torch.float is FLOAT32 is torch.get_default_dtype()
    assert torch.Tensor.float is method


def test_a_narrow_number_is_seen() -> None:
    with pytest.raises(NarrowNumberError), lifted(LLAMA):
        torch.zeros(1, dtype=torch.float64).to(FLOAT32)
    assert torch.float32 is FLOAT32


def test_lifting_matters() -> None:
    """As `.double()`, the same Llama is off by what float32 angles and norms cost it."""
    module = build(LLAMA, FAMILIES["llama"].make, "fan_in")
    with torch.no_grad():
        doubled = module(torch.from_numpy(FAMILIES["llama"].inputs)).logits.numpy()
    assert 1e-8 < distance(doubled, answer("llama", "fan_in")) < 1e-4


def test_without_rotation_the_logits_move() -> None:
    """So a lost or wrong rotation cannot hide below the tolerance."""
    module = build(LLAMA, FAMILIES["llama"].make, "fan_in")
    module.get_buffer("model.rotary_emb.inv_freq").zero_()
    assert distance(run(LLAMA, module, FAMILIES["llama"].inputs), answer("llama", "fan_in")) > 1e-3


def test_bloom_slopes_are_the_papers() -> None:
    with lifted(FAMILIES["bloom"].modeling):
        found = _get_alibi_slopes(6, torch.device("cpu")).numpy()
    assert distance(found, alibi_slopes(6)) < 1e-15


@pytest.mark.parametrize("name", FAMILIES)
def test_every_weight_is_drawn(name: str) -> None:
    """No vector of zeros or ones is left for a swapped bias or a forgotten gain to hide in."""
    for path, weight in state(theirs(name, "fan_in")).items():
        assert weight.dtype == np.float64, path
        assert weight.std() > 0.01, path


@pytest.mark.parametrize("name", FAMILIES)
def test_attention_and_experts_are_eager(name: str) -> None:
    config: Any = getattr(theirs(name, "default"), "config", None)
    eager = config and (config._attn_implementation, config._experts_implementation)
    assert eager == (None if FAMILIES[name].layer else ("eager", "eager"))


@pytest.mark.parametrize("name", FAMILIES)
def test_no_weight_is_read_twice(name: str) -> None:
    """The numbers of ours are the numbers of theirs, in another order."""
    ours = np.concatenate([weight.ravel() for weight in weights(name, "fan_in").values()])
    hers = np.concatenate([weight.ravel() for weight in state(theirs(name, "fan_in")).values()])
    assert np.array_equal(np.sort(ours), np.sort(hers))


def test_a_sum_in_a_pattern_splits() -> None:
    fused = np.arange(2 * 5 * 3).reshape(10, 3)
    first, second = split(fused, "(a (n + e)) d -> d n a | d e a", {"a": 2, "n": 2, "e": 3})
    assert np.array_equal(first, fused.reshape(2, 5, 3)[:, :2].transpose(2, 1, 0))
    assert np.array_equal(second, fused.reshape(2, 5, 3)[:, 2:].transpose(2, 1, 0))


def test_a_minus_in_a_pattern_reverses() -> None:
    (taps,) = split(np.arange(12).reshape(4, 3), "x c -> -c x", {})
    assert np.array_equal(taps, np.arange(12).reshape(4, 3).T[::-1])


def test_a_row_may_name_several_weights() -> None:
    assert list(rows("*.A.Q, K  fused  (e + e) d -> d e")) == [(["*.A.Q", "*.A.K"], "fused", "(e + e) d -> d e")]
