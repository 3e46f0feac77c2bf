"""Is what depends on nothing but positions computed once, by the model, and not by every layer?"""

from __future__ import annotations

import re

import pytest
import torch

import einformer
from tests.small import SMALL, built, error, inputs, model, weights


def turned(line: str) -> str:
    """The forward of a model that calls a layer of its own twice, in a loop and after it."""
    return f"""
axes
  b: B
  s: S
  e: E
  i: 3
  h: E / 3
  l: L
scalars
  μ = 1
  ν = 2
  θ_h = 2^(-h)
layer Turned(x_se) -> y_se:
  φ_sh = s θ_h
  {line}
model Main(x_bse) -> y_bse causal in s:
  weights γ_e
  z_bse = γ_e x_bse
  for l < L:
    z_bse <- z_bse + μ ν Turned(z_bse)
  return z_bse + Turned(tanh(z_bse))
"""


LINES = {
    "of a constant of its own": ("y_{s(ih)} = μ x_{s(ih)} cos(φ_sh)", 1),
    "with other numbers": ("y_{s(ih)} = ν x_{s((2 - i)h)} exp(-s) cos(φ_sh) i", 1),
    "two": ("y_{s(ih)} = x_{s(ih)} cos(φ_sh) + x_{s((2 - i)h)} sin(s + h)", 2),
    "by its feature only": ("y_{s(ih)} = x_{s(ih)} cos(h) + φ_sh", 0),
    "of what is given": ("y_{s(ih)} = cos(x_{s(ih)} s) + φ_sh", 0),
}


@pytest.mark.parametrize("name", LINES)
def test_a_model_computes_it_once(name: str) -> None:
    line, count = LINES[name]
    bound = einformer.parse(turned(line)).bind(E=6, L=2)
    expected = bound.reference(*inputs(bound), weights=weights(bound))
    assert error(built(bound, "fast")(*map(torch.from_numpy, inputs(bound))), expected) < 1e-12
    source = bound.source()
    layer, whole = source[source.index("def turned(") :].split("class Main(")
    costly = re.compile(r"torch\.(?:cos|sin|exp)\(")
    assert len(re.findall(r"^ +# (?:cos|sin|exp)\d*_\S+ = ", whole, re.MULTILINE)) == count
    assert bool(costly.search(layer)) == (count == 0)


def test_a_number_that_is_learned_is_no_constant() -> None:
    """It has no letters, as a size has none."""
    text = turned("y_{s(ih)} = x_{s(ih)} cos(β s) + φ_sh").replace("  φ_sh =", "  weights β\n  φ_sh =")
    text = text.replace("γ_e\n", "γ_e, turned: Turned\n").replace(" Turned(z", " turned(z").replace(" Turned(t", " turned(t")
    bound = einformer.parse(text).bind(E=6, L=2)
    expected = bound.reference(*inputs(bound), weights=weights(bound))
    assert error(built(bound, "fast")(*map(torch.from_numpy, inputs(bound))), expected) < 1e-12


@pytest.mark.parametrize("name", ["llama", "gptj", "gpt_neox", "deepseek_v3", "gpt_oss"])
def test_rotations_are_computed_once(name: str) -> None:
    """One cosine and one sine in the whole file, where layers had two of each; with a cache too."""
    for source in (model(name).source(), model(name).cached_source()):
        assert len(re.findall(r"torch\.cos\(", source)) == len(re.findall(r"torch\.sin\(", source)) == 1


def test_a_factor_of_one_is_no_product() -> None:
    source = model("llama").source()
    assert not re.search(r"μ\s+\*", source)
    assert re.search(r"μ\s+\*", einformer.load("llama").bind(**{**SMALL["llama"].bound, "μ": 2.0}).source())
