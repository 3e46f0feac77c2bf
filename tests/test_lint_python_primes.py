"""Is a second index of one axis, e' of a text, left alone where it has a letter of its own in Python?"""

from __future__ import annotations

import pytest

import einformer
from tests.commands import lint
from tests.small import PLANS

AXES = "axes\n  b: B\n  s: S\n  a: A\n  d: D\n  e: H\n\n"
PROJECTED = """
layer Memory(x_bsd) -> y_bsae:
  weights Q_dae, K_dae, V_dae
  q_bsae = x_bsd Q_dae
  k_bsae = x_bsd K_dae
  v_bsae = x_bsd V_dae
"""
STATE = PROJECTED.replace("layer", "model").replace(":", " causal in s:", 1)  # before the start of time it is zero
TEXTS = {
    "a state of keys and values": STATE + "  S_{bsaee'} = S_{b(s - 1)aee'} + k_bsae v_bsae'\n  return q_bsae' S_{bsae'e}\n",
    "a state that forgets": STATE
    + "  S_{bsaee'} = S_{b(s - 1)aee'} - k_bsae k_bsae'' S_{b(s - 1)ae''e'} + k_bsae v_bsae'\n  return q_bsae' S_{bsae'e}\n",
    "a sum of outer products": PROJECTED + "  M_{bae'e} = k_bsae' v_bsae\n  return q_bsae' M_{bae'e}\n",
    "heads with heads": PROJECTED + "  g_bsaa' = q_bsae k_bsa'e\n  return g_bsaa' v_bsa'e\n",
    "features that weigh features": PROJECTED + "  w_bsaee' = Sm_e'(q_bsae k_bsae')\n  return w_bsaee' v_bsae'\n",
    "three of one axis": "layer Bilinear(q_bse) -> y_bse:\n  weights W_ee'e''\n  return q_bse' q_bse'' W_e'e''e\n",
    "a layer that is given both": """
layer Both_e(z_e, w_e') -> y_e:
  weights W_ee'
  return z_e' W_e'e + w_e' W_ee'
"""
    + PROJECTED.replace(", V_dae", "").replace("  v_bsae = x_bsd V_dae\n", "")
    + "  return Both(q_bsae, k_bsae')\n",
}
SIZES = {"B": 2, "S": 5, "A": 2, "D": 4, "H": 3}


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("name", TEXTS)
def test_emitted_sources_are_right(name: str, plan: str) -> None:
    text = "axes\n  b: B\n  s: S\n  e: H\n\n" if name == "three of one axis" else AXES
    spec = einformer.parse(text + TEXTS[name])
    source = spec.bind(**{size: SIZES[size] for size in SIZES if f": {size}\n" in text}).source(plan, annotations=True)
    reading = lint(source, "emitted.py")
    assert reading.codes == []
    assert reading.names > 0


SHAPES = "# axes: b s a: A, e k f h\n"
RIGHT = {
    "an outer product": 'S_bsaek = einsum("bsae,bsak->bsaek", k_bsae, v_bsae)\n',
    "an outer product, the other first": 'S_bsake = einsum("bsae,bsak->bsake", k_bsae, v_bsae)\n',
    "a product with a state": 'y_bsae = einsum("bsae,bsak,bsk->bsae", k_bsae, v_bsae, torch.zeros(B, S, E))\n',
    "heads with heads": 'g_bsah = einsum("bsae,bshe->bsah", k_bsae, v_bsae)\n',
}
WRONG = {
    "an index that stands once": ('w_bsaf = einsum("bsae,bsaf,bsae->bsa", k_bsae, v_bsae, q_bsae)\n', "E772"),
    "an exchange": ('y = einsum("bsae,bsea->bse", k_bsae, v_bsae)\n', "E772"),
    "another order": ('S_bsaek = einsum("bsae,bsak->bsake", k_bsae, v_bsae)\n', "E771"),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_second_letter_of_an_axis_is_left_alone(name: str) -> None:
    assert lint(f"import torch\nfrom torch import einsum\n{SHAPES}{RIGHT[name]}", "model.py").codes == []


@pytest.mark.parametrize("name", WRONG)
def test_a_slip_in_a_letter_is_found(name: str) -> None:
    text, code = WRONG[name]
    assert lint(f"import torch\nfrom torch import einsum\n{SHAPES}{text}", "model.py").codes == [code]


@pytest.mark.parametrize("wrong", ["bsaf,bsafe->bsea", "bsaf,bsaef->bsa", "bsa,bsafe->bsae"])
def test_slips_beside_a_primed_letter_are_found(wrong: str) -> None:
    source = einformer.parse(AXES + TEXTS["a state of keys and values"]).bind(**SIZES).source("notation")
    right = 'return torch.einsum("bsaf,bsafe->bsae"'
    assert right in source
    assert lint(source.replace(right, f'y_bsae = torch.einsum("{wrong}"'), "emitted.py").codes
