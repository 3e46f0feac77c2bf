"""Is what few people write computed too: scalars of whole numbers, layers that no turn calls, more indices than letters?"""

from __future__ import annotations

import string

import pytest
import torch

import einformer
from einformer.objects import Model
from tests.small import PLANS, built, error, inputs, weights
from tests.test_decode import compared

SIZES = {"D": 16, "A": 4, "G": 2, "F": 7, "V": 11, "L": 2}


def agree(bound: Model, plan: str) -> None:
    """A module equals the reference."""
    arrays = inputs(bound)
    expected = bound.reference(*arrays, weights=weights(bound))
    assert error(built(bound, plan)(*map(torch.from_numpy, arrays)), expected) < 1e-12


# ------------------------------------------------------------------------------------------------------- whole numbers

WHOLE = ["0 Θ", "where(Θ < 0, 0, 1)", "h where(Θ < 0, 0, 1)", "where(h < Θ, 0, 1)", "h mod 2 + where(Θ < 0, 0, 1)"]


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("value", WHOLE)
def test_a_scalar_of_whole_numbers_has_its_index(value: str, plan: str) -> None:
    bound = einformer.load("llama").replace(f"θ_h = {value}").bind(**SIZES)
    agree(bound, plan)
    compared(bound, plan, [4, 1, 2])


@pytest.mark.parametrize("plan", PLANS)
def test_a_function_of_whole_numbers_is_computed_as_finely_as_all(plan: str) -> None:
    """PyTorch takes the cosine of int64 in float32."""
    text = "axes\n  s: S\n  d: D\nscalars\n  n_d = d\nlayer Turn(z_sd) -> z_sd:\n  return z_sd cos(n_d)\n"
    agree(einformer.parse(text).bind(D=5), plan)


# ----------------------------------------------------------------------------------------------- layers that none calls

OTHER = """layer Other(z_sd, m_ss') -> z_sd:
  weights X_de, Y_de, Z_de, O'_ed
  q_se = z_sd X_de
  k_se = z_sd Y_de
  v_se = z_sd Z_de
  w_ss' = Sm_s'(q_se k_s'e + m_ss')
  return w_ss' v_s'e O'_ed

model Llama"""


def other(count: int) -> Model:
    """Two layers with an attention, then as many as there are with another."""
    text, call = str(einformer.load("llama")), "Attention_l(RMSNorm_l(z_bsd), m_ss')"
    text = text.replace("model Llama", OTHER).replace(call, f"where(l < 2, {call}, Other_l(RMSNorm_l(z_bsd), m_ss'))")
    return einformer.parse(text).bind(**SIZES | {"L": count})


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("count", [2, 3])
def test_a_layer_that_no_turn_calls_keeps_nothing(count: int, plan: str) -> None:
    bound = other(count)
    assert any("Other" in entry.full_path for entry in bound.kept) == (count == 3)
    compared(bound, plan, [4, 1, 2])


# -------------------------------------------------------------------------------------- more indices than there are letters


def crowded(axes: str) -> Model:
    """A layer with as many lines as axes; each line has an index over its axis, and a second one."""
    legend = ["axes", "  s: S", "  d: 5", *(f"  {letter}: {2 + k % 3}" for k, letter in enumerate(axes))]
    lines = [
        f"  z_sd <- tanh(z_sd' {name}_d'{letter} {name}_d''{letter} {name}_d''{letter}' {name}_d{letter}')"
        for name, letter in zip(axes.upper(), axes, strict=True)
    ]
    weights = ", ".join(f"{letter.upper()}_d{letter}" for letter in axes)
    return einformer.parse(
        "\n".join([*legend, "layer Main(z_sd) -> z_sd:", f"  weights {weights}", *lines, "  return z_sd", ""])
    ).bind()


LATIN = "".join(letter for letter in string.ascii_lowercase if letter not in "ds")


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("axes", [LATIN, LATIN + "γδθλξσφψω", "γ"])
def test_a_text_may_have_more_indices_than_there_are_letters(axes: str, plan: str) -> None:
    """Each has a name of its own in a file, and a letter in each einsum."""
    agree(crowded(axes), plan)
