"""Do the numbers of S004's worked example come out? With the scale they are ours, without it they are the printed ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import einformer

Array = NDArray[Any]

EXAMPLE: dict[str, Any] = json.loads((Path(__file__).parent / "data" / "s004.json").read_text(encoding="utf-8"))
PRINTED: dict[str, Any] = EXAMPLE["printed"]

SCALED = """
# one_head.ein: S004's head, from its queries, keys and values
axes
  s: S                # sequence
  e: H                # query and key
  u: U                # value

model Head(q_se, k_se, v_su) -> y_su causal in s:
  m_ss' = where(s' <= s, 0, -inf)
  w_ss' = Sm_s'(q_se k_s'e / sqrt(H) + m_ss')
  y_su = w_ss' v_s'u
"""
UNSCALED = SCALED.replace(" / sqrt(H)", "")


def horizon(text: str, values: Array) -> Array:
    """What the last token reads; only its own query is printed, and it does not see another's."""
    queries = np.tile(EXAMPLE["q"], (6, 1))
    head = einformer.parse(text).bind(H=2, U=values.shape[1])
    read: Array = head.reference(queries, np.array(EXAMPLE["k"]), values, weights={})[-1]
    return read


def test_weights_and_output() -> None:
    assert np.round(horizon(SCALED, np.eye(6)), 4) == pytest.approx(EXAMPLE["weights"])
    assert np.round(horizon(SCALED, np.array(EXAMPLE["v"])), 4) == pytest.approx(EXAMPLE["output"])


def test_scores_are_the_printed_ones() -> None:
    assert np.round(np.array(EXAMPLE["k"]) @ EXAMPLE["q"], 4) == pytest.approx(EXAMPLE["scores"])


def test_printed_weights_forgot_the_scale() -> None:
    """Erratum: S004 divides by the square root of the head size, and then prints the softmax of what it had before."""
    assert np.round(horizon(UNSCALED, np.eye(6)), 4) == pytest.approx(PRINTED["weights"])
    assert np.round(np.array(PRINTED["weights"]) @ EXAMPLE["v"], 4) == pytest.approx(PRINTED["output"])
    assert pytest.approx(EXAMPLE["weights"], abs=1e-3) != PRINTED["weights"]
