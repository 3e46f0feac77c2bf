"""Is a name what reaches it, and a meaning one kernel? Texts in which `<-` changes what attention reads, and spellings."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import einformer
from einformer.objects import Model
from tests.small import PLANS, Array, built, error, inputs, weights

LENGTH = 6
MASK = "m_ss' = where(s' <= s, 0, -inf)"


def model_of(*lines: str, layers: str = "") -> Model:
    """A causal model of features with these lines, whose loops turn three times."""
    loop = any(line.startswith("for l") for line in lines)
    axes = "".join(f"  {letter}: {letter.upper()}\n" for letter in ("bsdl" if loop else "bsd"))
    body = "".join(f"  {line}\n" for line in lines)
    text = f"# t: t\naxes\n{axes}{layers}\nmodel M(z_bsd) -> y_bsd causal in s:\n{body}"
    return einformer.parse(text).bind(D=3, **({"L": 3} if loop else {}))


CHANGED = {
    "the mask before attention": (MASK, "m_ss' <- m_ss' - (s - s') / 3", "w_bss' = Sm_s'(z_bsd z_bs'd / 9 + m_ss')"),
    "the mask to a window": (
        MASK, "m_ss' <- where(s - 2 < s' <= s, m_ss', -inf)", "w_bss' = Sm_s'(z_bsd z_bs'd / 9 + m_ss')",
    ),
    "the mask to another causal one": (
        MASK, "w_bss' = Sm_s'(z_bsd z_bs'd + m_ss')", "m_ss' <- where(s' <= s, (s' - s) / 3, -inf)",
        "u_bss' = Sm_s'(z_bsd z_bs'd / 2 + m_ss')", "z_bsd <- z_bsd + u_bss' z_bs'd",
    ),
    "the query after the scores": (
        MASK, "q_bsd = 2 z_bsd", "w_bss' = Sm_s'(q_bsd z_bs'd + m_ss')", "q_bsd <- 3 q_bsd", "z_bsd <- z_bsd + q_bsd",
    ),
    "the keys after the scores": (
        MASK, "k_bsd = 2 z_bsd", "w_bss' = Sm_s'(z_bsd k_bs'd + m_ss')", "k_bsd <- 3 k_bsd", "z_bsd <- z_bsd + k_bsd",
    ),
    "the mask after the scores": (MASK, "w_bss' = Sm_s'(z_bsd z_bs'd + m_ss')", "m_ss' <- where(s' < s, 0, -inf)"),
    "the mask in each turn": (
        MASK, "for l < L:", "  u_bss' = Sm_s'(z_bsd z_bs'd / 9 + m_ss')", "  z_bsd <- z_bsd + u_bss' z_bs'd",
        "  m_ss' <- m_ss' - (s - s') / 3", "w_bss' = Sm_s'(z_bsd z_bs'd / 9 + m_ss')",
    ),
    "the stream within a turn": (
        MASK, "for l < L:", "  u_bss' = Sm_s'(z_bsd z_bs'd + m_ss')", "  z_bsd <- tanh(z_bsd)",
        "  z_bsd <- z_bsd + u_bss' z_bs'd", "w_bss' = Sm_s'(z_bsd z_bs'd + m_ss')",
    ),
    "what the weights are applied to, in a loop": (
        MASK, "w_bss' = Sm_s'(z_bsd z_bs'd + m_ss')", "for l < L:", "  z_bsd <- z_bsd / 2 + w_bss' z_bs'd",
    ),
}  # fmt: skip
LAYERS = {
    "a mask that a layer changes": """
layer A(z_sd, m_ss') -> z_sd:
  m_ss' <- m_ss' - (s - s') / 3
  w_ss' = Sm_s'(z_sd z_s'd / 9 + m_ss')
  return w_ss' z_s'd
""",
    "a function of positions that a layer changes": """
layer A(z_sd, m_ss') -> z_sd:
  w_ss' = Sm_s'(z_sd z_s'd / 9 + m_ss')
  n_s = cos(s)
  n_s <- n_s + 1
  return n_s w_ss' z_s'd
""",
    "a function of positions with one name in two loops": """
layer A(z_sd, m_ss') -> z_sd:
  for l < L:
    n_s = cos(s)
    z_sd <- n_s z_sd
  for l < L:
    n_s = sin(s)
    z_sd <- n_s z_sd
  w_ss' = Sm_s'(z_sd z_s'd / 9 + m_ss')
  return w_ss' z_s'd
""",
}
DOUBLED = ("for l < L:", "  z_bsd <- 2 z_bsd")
TEXTS = {
    name: model_of(*lines, *(() if "loop" in name else ("z_bsd <- w_bss' z_bs'd",)), "return z_bsd")
    for name, lines in CHANGED.items()
} | {
    name: model_of(MASK, *(DOUBLED if "for l" in layer else ()), "return A(z_bsd, m_ss')", layers=layer)
    for name, layer in LAYERS.items()
}


def slopes(bound: Model, z: Array, along: Array) -> Array:
    """The gradient of `sum(along y)` by the reference: central differences."""
    step, found = 1e-6, np.zeros_like(z)
    for place in np.ndindex(z.shape):
        near = [z.copy(), z.copy()]
        near[0][place] += step
        near[1][place] -= step
        above, below = (bound.reference(each, weights={}) for each in near)
        found[place] = ((above - below) * along).sum() / (2 * step)
    return found


def stepped(module: Any, z: Array) -> Tensor:
    """The outputs, a position at a time."""
    cache = module.cache()
    return torch.cat([module.decode(part, cache=cache) for part in torch.split(torch.from_numpy(z), 1, 1)], 1)


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("name", TEXTS)
def test_what_is_changed_is_another_value(name: str, plan: str) -> None:
    """Forward, step by step, and gradients."""
    bound, random = TEXTS[name], np.random.default_rng(0)
    z, along = random.standard_normal((2, LENGTH, 3)), random.standard_normal((2, LENGTH, 3))
    module, expected = built(bound, plan), bound.reference(z, weights={})
    x = torch.from_numpy(z).requires_grad_()
    whole = module(x)
    assert error(whole, expected) < 1e-12
    (whole * torch.from_numpy(along)).sum().backward()
    assert x.grad is not None
    assert np.abs(x.grad.numpy() - slopes(bound, z, along)).max() < 1e-6
    assert error(stepped(module, z), expected) < 1e-12


# -------------------------------------------------------------------------------------------------------- spellings

HEADS = """# t: t
axes
  b: B
  s: S
  d: D
  a: A
  e: H = D / A
"""
SCORES, PLAIN = "q_bsea k_bs'ea / sqrt(H)", "w_bss'a = Sm_s'({} + m_ss')"
WHERE = "w_bss'a = Sm_s'(q_bsea k_bs'ea / sqrt(H) + where({}, 0, -inf))"
CAUSAL = {
    "as shipped": (MASK, PLAIN.format(SCORES)),
    "below the next": ("m_ss' = where(s' < s + 1, 0, -inf)", PLAIN.format(SCORES)),
    "not above": ("m_ss' = where(not s' > s, 0, -inf)", PLAIN.format(SCORES)),
    "a difference": ("m_ss' = where(s - s' >= 0, 0, -inf)", PLAIN.format(SCORES)),
    "the branches the other way": ("m_ss' = where(s' > s, -inf, 0)", PLAIN.format(SCORES)),
    "inline": (WHERE.format("s' <= s"),),
    "a choice of scores": (f"w_bss'a = Sm_s'(where(s' <= s, {SCORES}, -inf))",),
    "scores on a line of their own": (MASK, f"t_bss'a = {SCORES}", "w_bss'a = Sm_s'(t_bss'a + m_ss')"),
    "in parentheses": (MASK, PLAIN.format("(q_bsea k_bs'ea) / sqrt(H)")),
    "a power": (MASK, PLAIN.format("H^(-0.5) q_bsea k_bs'ea")),
    "a product on a line of its own": (
        MASK, "t_bss'a = k_bs'ea q_bsea", "u_bss'a = t_bss'a / sqrt(H)", "w_bss'a = Sm_s'(m_ss' + u_bss'a)",
    ),
    "twice as much": (WHERE.format("2 s' <= 2 s"),),
    "half of it": (WHERE.format("s' / 2 <= s / 2"),),
    "more than half below": (WHERE.format("s' < s + 1 / 2"),),
    "and what is always true": (WHERE.format("s' <= s and s' < s + 2 and s' >= 0"),),
    "neither": (WHERE.format("not (s' > s or s' > s + 3)"),),
    "the difference on a line of its own": (
        "n_ss' = s - s'", "m_ss' = where(n_ss' >= 0, 0, -inf)", PLAIN.format(SCORES),
    ),
    "mask and scores in one choice": ("t_bss'a = where(s < s', -inf, q_bsea k_bs'ea / sqrt(H))", "w_bss'a = Sm_s'(t_bss'a)"),
}  # fmt: skip
QKV = ("q_bsea = z_bsd Q_dea", "k_bsea = z_bsd K_dea", "v_bsea = z_bsd V_dea")
BIASED = {
    "beside the mask": (MASK, "n_ss' = (s' - s) / 8", f"w_bss'a = Sm_s'({SCORES} + m_ss' + n_ss')"),
    "in the mask": ("m_ss' = where(s' <= s, (s' - s) / 8, -inf)", PLAIN.format(SCORES)),
    "inside": (f"w_bss'a = Sm_s'({SCORES} + where(s' <= s, (s' - s) / 8, -inf))",),
    "in a choice of scores": (f"w_bss'a = Sm_s'(where(s' <= s, {SCORES} + (s' - s) / 8, -inf))",),
    "with the scores": (MASK, f"t_bss'a = {SCORES} + (s' - s) / 8", "w_bss'a = Sm_s'(t_bss'a + m_ss')"),
}
ENDS = {
    "two lines": ("y_bsea = w_bss'a v_bs'ea", "return y_bsea O_ead"),
    "one line": ("return w_bss'a v_bs'ea O_ead",),
    "heads summed": ("z'_bse = w_bss'a v_bs'ea", "return z'_bse sum_a O_ead"),
    "a gate": ("g_bsea = sigmoid(q_bsea)", "y_bsea = w_bss'a v_bs'ea g_bsea", "return y_bsea O_ead"),
    "half": ("y_bsea = w_bss'a v_bs'ea / 2", "return y_bsea O_ead"),
    "dropout": ("n_bss'a = Dr(w_bss'a, 0.1)", "y_bsea = n_bss'a v_bs'ea", "return y_bsea O_ead"),
    "weights on no line": ("y_bsea = Sm_s'(q_bse'a k_bs'e'a / sqrt(H) + m_ss') v_bs'ea", "return y_bsea O_ead"),
}


def attending(*lines: str, weights: str = "Q_dea, K_dea, V_dea, O_ead") -> Model:
    """A model of one attention."""
    body = "".join(f"  {line}\n" for line in (f"weights {weights}", *lines))
    return einformer.parse(f"{HEADS}\nmodel M(z_bsd) -> z_bsd causal in s:\n{body}").bind(D=12, A=3)


def kernel(bound: Model) -> tuple[str, ...]:
    """Which function of PyTorch the default plan calls for attention, with which options; it equals the reference."""
    arrays = inputs(bound, {"B": 2, "S": LENGTH})
    expected = bound.reference(*arrays, weights=weights(bound))
    module = built(bound, "fast")
    assert error(module(*map(torch.from_numpy, arrays)), expected) < 1e-12
    assert error(stepped(module, arrays[0]), expected) < 1e-12
    source = bound.source()
    return tuple(re.findall(r"scaled_dot_product_attention|is_causal=True|attn_mask|scale=|softmax\(|enable_gqa", source))


def kept(bound: Model) -> int:
    """The bytes that a training step keeps."""
    return bound.memory(B=2, S=5).activations


@pytest.mark.parametrize("lines", CAUSAL.values(), ids=CAUSAL)
def test_a_causal_attention_is_one_kernel(lines: tuple[str, ...]) -> None:
    """However its mask and its scores are written; and it keeps the same bytes."""
    bound, shipped = (attending(*QKV, *some, *ENDS["two lines"]) for some in (lines, CAUSAL["as shipped"]))
    assert kernel(bound) == ("scaled_dot_product_attention", "is_causal=True")
    assert kept(bound) == kept(shipped)


@pytest.mark.parametrize("lines", BIASED.values(), ids=BIASED)
def test_a_biased_attention_is_one_kernel(lines: tuple[str, ...]) -> None:
    assert kernel(attending(*QKV, *lines, *ENDS["two lines"])) == ("scaled_dot_product_attention", "attn_mask")


@pytest.mark.parametrize("end", ENDS)
def test_what_follows_an_attention_does_not_matter(end: str) -> None:
    scores = (MASK, *([] if end == "weights on no line" else [PLAIN.format(SCORES)]))
    assert kernel(attending(*QKV, *scores, *ENDS[end])) == ("scaled_dot_product_attention", "is_causal=True")


@pytest.mark.parametrize("scales", ["/ 2", "/ sqrt(D)"])
def test_sums_of_scores(scales: str) -> None:
    """Two products of scores are one of longer features; with scales of their own too."""
    lines = ("p_bsd = tanh(z_bsd)", f"w_bss'a = Sm_s'(q_bsea k_bs'ea / 2 + p_bsd z_bs'd {scales} + m_ss')")
    ours = kernel(attending(*QKV, MASK, *lines, *ENDS["two lines"]))
    assert ours == ("scaled_dot_product_attention", "is_causal=True", "scale=")


def test_a_factor_of_a_query_goes_to_the_query() -> None:
    lines = ("w_bss'a = Sm_s'(log(s + 2) q_bsea k_bs'ea / sqrt(H) + m_ss')",)
    assert kernel(attending(*QKV, MASK, *lines, *ENDS["two lines"])) == ("scaled_dot_product_attention", "is_causal=True")


def test_one_head_of_keys_for_all_queries() -> None:
    lines = ("q_bsea = z_bsd Q_dea", "k_bse = z_bsd K_de", "v_bse = z_bsd V_de", MASK)
    ends = ("w_bss'a = Sm_s'(q_bsea k_bs'e / sqrt(H) + m_ss')", "y_bsea = w_bss'a v_bs'e", "return y_bsea O_ead")
    ours = kernel(attending(*lines, *ends, weights="Q_dea, K_de, V_de, O_ead"))
    assert ours == ("scaled_dot_product_attention", "is_causal=True", "enable_gqa")


def test_attention_to_another_sequence() -> None:
    """Over keys of another length, with a mask or without."""
    for mask in ("", " + where(t < s + 2, 0, -inf)"):
        text = f"""axes
  b: B
  s: S
  t: T
  e: E

layer Cross(q_bse, k_bte) -> y_bse:
  w_bst = Sm_t(q_bse k_bte / sqrt(E){mask})
  return w_bst k_bte
"""
        bound, random = einformer.parse(text).bind(E=4), np.random.default_rng(0)
        q, k = random.standard_normal((2, 5, 4)), random.standard_normal((2, 7, 4))
        module = built(bound, "fast")
        assert error(module(torch.from_numpy(q), torch.from_numpy(k)), bound.reference(q, k, weights={})) < 1e-12
        assert "scaled_dot_product_attention" in bound.source()


# ------------------------------------------------------------------------------------------------------------ norms

ROOT = "γ_d z_bsd / sqrt(mean_d(z_bsd^2) + ε)"
NORMS = {
    ROOT: (),
    "z_bsd γ_d / sqrt(mean_d(z_bsd^2) + ε)": (),
    "γ_d (z_bsd / sqrt(mean_d(z_bsd^2) + ε))": (),
    "γ_d z_bsd / sqrt(ε + mean_d(z_bsd^2))": (),
    "γ_d z_bsd / sqrt(mean_d(z_bsd z_bsd) + ε)": (),
    "γ_d z_bsd (mean_d(z_bsd^2) + ε)^(-0.5)": (),
    "γ_d z_bsd / sqrt(sum_d(z_bsd^2) / D + ε)": (),
    "γ_d z_bsd / r_bs": ("r_bs = sqrt(mean_d(z_bsd^2) + ε)",),
    "γ_d z_bsd / sqrt(r_bs)": ("r_bs = mean_d(z_bsd^2) + ε",),
    "r_bs γ_d z_bsd": ("r_bs = 1 / sqrt(mean_d(z_bsd^2) + ε)",),
    "γ_d r_bsd": ("r_bsd = z_bsd / sqrt(mean_d(z_bsd^2) + ε)",),
}
CENTRED = "γ_d (z_bsd - mean_d z_bsd) / sqrt(var_d z_bsd + ε) + β_d"
LAYER_NORMS = {
    CENTRED: (),
    "β_d + (z_bsd - mean_d z_bsd) γ_d / sqrt(ε + var_d z_bsd)": (),
    "γ_d (z_bsd - mean_d z_bsd) / sqrt(mean_d((z_bsd - mean_d z_bsd)^2) + ε) + β_d": (),
    "γ_d (z_bsd - mean_d z_bsd) r_bs + β_d": ("r_bs = (var_d z_bsd + ε)^(-0.5)",),
    "(z_bsd - sum_d z_bsd / D) γ_d / sqrt(var_d z_bsd + ε) + β_d": (),
}


def normed(right: str, lines: tuple[str, ...]) -> Model:
    """A layer that is a norm."""
    weights = "γ_d, β_d" if "β" in right else "γ_d"
    body = "".join(f"  {line}\n" for line in (f"weights {weights}", *lines, f"return {right}"))
    return einformer.parse(f"axes\n  b: B\n  s: S\n  d: D\nscalars\n  ε = 1e-5\nlayer N(z_bsd) -> y_bsd:\n{body}").bind(D=12)


@pytest.mark.parametrize(("right", "lines"), (NORMS | LAYER_NORMS).items(), ids=str)
def test_a_norm_is_one_kernel(right: str, lines: tuple[str, ...]) -> None:
    """However it is written; and it keeps its input alone."""
    bound = normed(right, lines)
    arrays = inputs(bound, {"B": 2, "S": LENGTH})
    expected = bound.reference(*arrays, weights=weights(bound))
    assert error(built(bound, "fast")(*map(torch.from_numpy, arrays)), expected) < 1e-12
    forward = bound.source().rpartition("def forward")[2]
    assert re.findall(r"fn\.\w+|torch\.\w+|\*", forward) == ["fn.layer_norm" if "β" in right else "fn.rms_norm"]
    assert kept(bound) == kept(normed(ROOT, ()))
