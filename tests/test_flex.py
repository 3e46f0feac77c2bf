"""Does the plan `flex` compute what the equations mean, with masks and scores as functions of one pair of positions?

torch has no backward pass of FlexAttention on a CPU, and its counter of FLOPs cannot look into it (pytorch#134385). There a
dense attention stands in, which is written here.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention.flex_attention import AuxOutput
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils.flop_counter import FlopCounterMode, flop_registry

import einformer
from einformer import EinformerError
from einformer.interpreters.torch.flex import split_mask
from einformer.objects import Model
from einformer.program import operations as op
from einformer.program.operations import Value, map_values
from tests.oracles.interpreters import named_gradients
from tests.random_masks import HEADED, HEADS, TABLES, TURNED, condition
from tests.small import BATCH, LENGTH, SMALL, Array, built, error, inputs, model, weights

pytestmark = pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Dynamo forgets what it has compiled: of functions that read other tensors it fails to say why it compiles anew."""
    yield
    torch.compiler.reset()


FAMILIES = {  # what their attention asks of FlexAttention
    "gemma2": {"score_mod", "mask_mod"},
    "gpt_oss": {"mask_mod", "beside_sink"},
    "gpt_oss_yarn": {"mask_mod", "beside_sink"},
    "bloom": {"score_mod", "mask_mod"},
    "mpt": {"score_mod", "mask_mod"},
    "mistral": {"mask_mod"},
    "mixtral": {"mask_mod"},
}
TEXT = """axes
  b: B
  s: S{most}
  d: D
  g: 2
  j: 3
  e: H
{legend}{layer}
model Main(z_bsd{inputs}) -> z_bsd:
  weights Q_dgje, K_dge, V_dge, O_gjed{weights}
  q_bsgje = z_bsd Q_dgje
  k_bsge = z_bsd K_dge
  v_bsge = z_bsd V_dge
  {lines}
  w_bss'gj = {scores}
  y_bsgje = w_bss'gj v_bs'ge
  return y_bsgje O_gjed
"""
SCALARS = {"W": "W = 4", "κ": "κ = 1.5", "M": "M_g = [2, 5]", "λ": "λ_j = 1 / (j + 1)", "ψ": "ψ = 0.1"}
PRODUCT = "q_bsgje k_bs'ge / sqrt(H)"


def attending(scores: str, *lines: str, inputs: str = "", weights: str = "", layer: str = "", most: str = "") -> Model:
    """Attention whose queries share keys; `+ …` is added to its scores."""
    scores = f"Sm_s'({PRODUCT} {scores})" if scores.startswith("+") else scores
    read = [line for name, line in SCALARS.items() if name in scores + "".join(lines)]
    legend = "  k: 7\n" * ("_kg" in weights) + "scalars\n" * bool(read) + "".join(f"  {line}\n" for line in read)
    told = {"inputs": inputs, "weights": weights, "layer": layer, "legend": legend, "most": most}
    return einformer.parse(TEXT.format(scores=scores, lines="\n  ".join(lines), **told)).bind(D=14, H=5)


CASES: dict[str, tuple[Model, tuple[str, ...]]] = {  # a text, and what its file says
    "a window": (attending("+ where(s - W < s' <= s, 0, -inf)"), ("return (query - W < key) & (key <= query)",)),
    "a window by another spelling": (
        attending("+ m_ss'", "m_ss' = where(s' > s or s - s' >= W, -inf, 0)"),
        ("return (key <= query) & (query - key < W)",),
    ),
    "two masks": (
        attending("+ where(s' <= s, 0, -inf) + m_ss'", "m_ss' = where(s - s' < W, 0, -inf)"),
        ("(key <= query) & (query - key < W)",),
    ),
    "a mask that changes": (
        attending("+ m_ss'", "m_ss' = where(s' <= s, 0, -inf)", "m_ss' <- where(s - s' < W, m_ss', -inf)"),
        ("mask_mod",),
    ),
    "a mask that changes between two attentions": (
        attending(
            "+ m_ss'",
            "m_ss' = where(s' <= s, 0, -inf) - (s - s') / 9",
            f"u_bss'gj = Sm_s'({PRODUCT} + m_ss')",
            "x_bsgje = u_bss'gj v_bs'ge",
            "m_ss' <- where(s - s' < W, m_ss', -inf)",
            "q_bsgje <- x_bsgje",
        ),
        ("score_mod=score_mod", "block_mask=block_mask_2"),
    ),
    "windows of heads": (
        attending("+ where(s - M_g < s' <= s, 0, -inf)"),
        ("query - M_g[head // 3] < key", "create_block_mask(mask_mod, None, 2 * 3, S, S"),
    ),
    "documents": (
        attending("+ where(s' <= s and n_bs == n_bs', 0, -inf)", inputs=", n_bs"),
        ("(key <= query) & (n_bs[batch, query] == n_bs[batch, key])", "create_block_mask(mask_mod, B, None, S, S"),
    ),
    "a prefix": (
        attending("+ where(s' <= max(s, p_b), 0, -inf)", inputs=", p_b"),
        ("key <= torch.maximum(query, p_b[batch])",),
    ),
    "ALiBi": (
        attending("+ where(s' <= s, λ_j (s' - s), -inf)"),
        ("return score + λ_j[head % 3] * (key - query)", "return key <= query"),
    ),
    "a bias without a mask": (
        attending(f"Sm_s'({PRODUCT} - abs(s - s') / 7)"),
        ("return score + (-torch.abs(query - key)).to(number) / 7",),
    ),
    "relative biases": (
        attending("+ where(s' <= s, R_{n_ss' g}, -inf)", "n_ss' = (s - s') mod 7", weights=", R_kg", most=" <= 11"),
        ("self.R[((query - key) % 7).clamp(0, 7 - 1), head // 3]", "return key <= query"),
    ),
    "relative biases whose places are checked": (
        attending("+ where(s' <= s, R_{n_ss' g}, -inf)", "n_ss' = min(max(s - s', 0), 6)", weights=", R_kg"),
        ("captured_1_1 = self.R[inside(", "score + captured_1_1[key, query, head // 3]", "return key <= query"),
    ),
    "a bias of data": (
        attending("+ n_bs n_bs'", inputs=", n_bs"),
        ("score + n_bs[batch, query] * n_bs[batch, key]",),
    ),
    "a bias that is computed whole": (
        attending("+ relu(z_bsd z_bs'd) + where(s' <= s, 0, -inf)"),
        ("# computed for all pairs at once", "captured_1_1 = torch.einsum(", "fn.relu(captured_1_1[key, batch, query])"),
    ),
    "a soft cap": (
        attending(f"Sm_s'(κ tanh(({PRODUCT}) / κ) + where(s' <= s, 0, -inf))"),
        ("return κ * torch.tanh(score)", "return key <= query"),
    ),
    "a soft cap by its own name, around the scores": (
        attending("Sm_s'(where(s' <= s, c_bss'gj, -inf))", f"t_bss'gj = {PRODUCT}", "c_bss'gj = κ tanh(t_bss'gj / κ)"),
        ("return κ * torch.tanh(score",),
    ),
    "a cap around a mask": (
        attending(f"Sm_s'(κ tanh(({PRODUCT} + λ_j s') / κ))"),
        ("torch.tanh((score + λ_j[head % 3] * key) / κ)",),
    ),
    "a sink beside a cap": (
        attending(
            "Sm_s'(t_bss'gj) sigmoid(n_bsgj - σ_gj)",
            f"t_bss'gj = κ tanh(({PRODUCT}) / κ) + where(s - W < s' <= s, 0, -inf)",
            "n_bsgj = lse_s' t_bss'gj",
            weights=", σ_gj",
        ),
        ("beside_sink(", "self.σ.flatten()[:, None]", "return κ * torch.tanh(score)"),
    ),
    "a mask that a layer is given, of documents": (
        attending(
            "+ Add(where(s' <= s and n_bs == n_bs', 0, -inf))",
            inputs=", n_bs",
            layer="layer Add(m_ss') -> m_ss':\n  return m_ss'\n",
        ),
        ("flex_attention(",),
    ),
}  # fmt: skip


def read(bound: Model, seed: int = 0) -> list[Array]:
    """Inputs, with small whole numbers for documents and prefixes."""
    draw = np.random.default_rng(seed)
    formals = [formal.name for formal in bound.spec.layer.formals]
    arrays = zip(formals, inputs(bound, seed=seed), strict=True)
    return [draw.integers(0, 4, array.shape).astype(float) if name in "np" else array for name, array in arrays]


def given(bound: Model) -> list[Tensor]:
    return [torch.from_numpy(array) for array in read(bound)]


@pytest.mark.parametrize("name", CASES)
def test_masks_and_scores_are_functions_of_a_pair(name: str) -> None:
    bound, said = CASES[name]
    source = bound.source("flex")
    assert [text for text in said if text not in source] == []
    with torch.no_grad():
        ours = built(bound, "flex")(*given(bound))
    assert error(ours, bound.reference(*read(bound), weights=weights(bound))) < 1e-12


@pytest.mark.parametrize("name", SMALL)
def test_a_shipped_model(name: str) -> None:
    """What is causal alone stays SDPA."""
    bound = model(name)
    source = bound.source("flex")
    assert {word for word in ("score_mod", "mask_mod", "beside_sink") if f"def {word}(" in source} == FAMILIES.get(name, set())
    if name not in FAMILIES:
        assert source == bound.source()
        return
    with torch.no_grad():
        ours = built(bound, "flex")(*map(torch.from_numpy, inputs(bound)))
    assert error(ours, bound.reference(*inputs(bound), weights=weights(bound))) < 1e-12


def test_positions_decide_masks_inside_of_layers() -> None:
    """No tensor with a number for each pair of positions is left in the file of Gemma 2, whose windows differ by layer."""
    source = model("gemma2").source("flex")
    assert "l: int" in source
    assert "W[l]" in source
    assert "m_st = " not in source
    assert "m_st = " in model("gemma2").source()


DOCUMENTS = """axes
  b: B
  s: S
  d: D
  a: 3
  e: H
  l: 2
layer Attention(z_bsd, m_bss') -> z_bsd:
  weights Q_dae, K_dae, V_dae, O_aed
  q_bsae = z_bsd Q_dae
  k_bsae = z_bsd K_dae
  v_bsae = z_bsd V_dae
  w_bss'a = Sm_s'(q_bsae k_bs'ae / sqrt(H) + m_bss')
  y_bsae = w_bss'a v_bs'ae
  return y_bsae O_aed
model M(z_bsd, n_bs) -> z_bsd:
  m_bss' = where(s' <= s and n_bs == n_bs', 0, -inf)
  for l < 2:
    z_bsd <- z_bsd + Attention_l(z_bsd, m_bss')
  return z_bsd
"""


def test_documents_of_a_model_are_given_to_its_layers() -> None:
    bound = einformer.parse(DOCUMENTS).bind(D=14, H=5)
    source = bound.source("flex")
    assert "(z_bsd, n_bs)" in source
    assert "n_bs[batch, query] == n_bs[batch, key]" in source
    assert "m_bst = " not in source
    with torch.no_grad():
        ours = built(bound, "flex")(*given(bound))
    assert error(ours, bound.reference(*read(bound), weights=weights(bound))) < 1e-12


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("  for l < 2:", "  n_bs <- n_bs - 1\n  for l < 2:"),
        ("  m_bss' = where(s' <= s and n_bs == n_bs', 0, -inf)\n  for l < 2:", "  for l < 2:\n    n_bs <- n_bs + l\n"
         "    m_bss' = where(s' <= s and n_bs <= n_bs' + 2 or s' == s, 0, -inf)"),
    ],
    ids=["later", "in each turn"],
)  # fmt: skip
def test_documents_that_change_are_read_where_the_mask_is_written(old: str, new: str) -> None:
    """Layers are given the mask, not the documents, which are others by then."""
    bound = einformer.parse(DOCUMENTS.replace(old, new)).bind(D=14, H=5)
    assert "m_bst: Tensor" in bound.source("flex")
    with torch.no_grad():
        ours = built(bound, "flex")(*given(bound))
    assert error(ours, bound.reference(*read(bound), weights=weights(bound))) < 1e-12


def test_a_hidden_pair_is_left_out() -> None:
    """`where(c, -inf, x)` where c has no opposite: it is turned round elsewhere, so the split is asked here."""
    condition, zero = Value(op.Iota("s"), ("s",), "condition"), Value(op.Constant(0), (), "integer")
    mask = map_values("where", [condition, Value(op.Constant(-math.inf), (), "number"), zero])
    assert split_mask(mask) == ([(condition, False)], [])


def test_masks_that_differ_by_call_are_given() -> None:
    """A layer that is called with two masks finds each as a tensor."""
    text = """axes
  b: B
  s: S
  d: D
  a: 3
  e: H
layer Attention(z_bsd, m_ss') -> z_bsd:
  weights Q_dae, K_dae, V_dae, O_aed
  q_bsae = z_bsd Q_dae
  k_bsae = z_bsd K_dae
  v_bsae = z_bsd V_dae
  w_bss'a = Sm_s'(q_bsae k_bs'ae / sqrt(H) + m_ss')
  y_bsae = w_bss'a v_bs'ae
  return y_bsae O_aed
model Main(z_bsd) -> z_bsd:
  z_bsd <- z_bsd + Attention(z_bsd, where(s' < s + 2, 0, -inf))
  z_bsd <- z_bsd + Attention(z_bsd, where(s - 3 < s' <= s, 0, -inf))
  return z_bsd
"""
    bound = einformer.parse(text).bind(D=14, H=5)
    assert "score + m_st[query, key]" in bound.source("flex")
    with torch.no_grad():
        ours = built(bound, "flex")(*given(bound))
    assert error(ours, bound.reference(*read(bound), weights=weights(bound))) < 1e-12


RANDOM = 12


@pytest.mark.parametrize("seed", range(RANDOM))
def test_a_random_mask(seed: int) -> None:
    random = Random(seed)
    term = next(term for term in iter(lambda: condition(random), None) if not term.kinds & (TURNED | {"D"}))
    heads = bool(term.kinds & HEADED)
    scalars = [line for name, (line, _) in TABLES.items() if name in term.kinds]
    text = "\n".join(
        [
            *("axes", "  b: B", "  s: S", "  d: D", f"  a: {HEADS}", "  e: 2"),
            *(("scalars", *(f"  {line}" for line in scalars)) if scalars else ()),
            "model Main(z_bsd) -> z_bsd:",
            "  weights Q_dae, K_dae",
            "  q_bsae = z_bsd Q_dae",
            "  k_bsae = z_bsd K_dae",
            f"  m_ss'{'a' * heads} = where(({term.text}) and s + s' >= 0{' and a >= 0' * heads} or s' == s, 0, -inf)",
            f"  w_bss'a = Sm_s'(q_bsae k_bs'ae + m_ss'{'a' * heads})",
            "  y_bsae = w_bss'a k_bs'ae",
            "  return y_bsae K_dae",
        ]
    )
    bound = einformer.parse(text).bind(D=7)
    assert "mask_mod" in bound.source("flex")
    with torch.no_grad():
        ours = built(bound, "flex")(*given(bound))
    assert error(ours, bound.reference(*read(bound), weights=weights(bound))) < 1e-11


# ------------------------------------------------------------------------------------------------------ a dense attention


def attend(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Any:
    """FlexAttention by its definition: each function is computed for all pairs at once."""
    groups = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(groups, 1) for x in (k, v))
    scores = (q @ k.mT) * options.get("scale", 1 / math.sqrt(q.shape[-1]))
    grids = torch.meshgrid(*map(torch.arange, scores.shape), indexing="ij")
    if "score_mod" in options:
        scores = options["score_mod"](scores, *grids)
    if "block_mask" in options:
        scores = torch.where(options["block_mask"].mask_mod(*grids), scores, -math.inf)
    y = scores.softmax(-1) @ v
    return (y, AuxOutput(lse=scores.logsumexp(-1))) if "return_aux" in options else y


def standing(bound: Model, stand_in: Callable[..., Any]) -> nn.Module:
    """The module of the plan, which calls another function."""
    module = built(bound, "flex")
    vars(sys.modules[type(module).__module__])["flex_attention"] = stand_in
    return module


TRAINED = {name: bound for name, (bound, _) in CASES.items()} | {name: model(name) for name in FAMILIES}


@pytest.mark.parametrize("name", TRAINED)
def test_gradients(name: str) -> None:
    first, second = (
        slopes(module, TRAINED[name]) for module in (standing(TRAINED[name], attend), built(TRAINED[name], "fast"))
    )
    assert first.keys() == second.keys()
    assert {path: error(second[path], first[path]) < 1e-12 for path in first} == dict.fromkeys(first, True)


def slopes(module: nn.Module, bound: Model) -> dict[str, Tensor]:
    """The gradients of weights, each under its own name."""
    module(*given(bound)).square().sum().backward()
    assert all(parameter.grad is not None for parameter in module.parameters())
    return named_gradients(module)


def test_torch_has_no_backward_pass_on_a_cpu() -> None:
    with pytest.raises(NotImplementedError, match="does not support backward on CPU"):
        built(model("mistral"), "flex")(*given(model("mistral")))


@pytest.mark.parametrize("name", FAMILIES)
def test_flops_are_those_of_the_convention_torch(name: str) -> None:
    """By torch's own formula for FlexAttention. A sink is no key more."""
    bound, attended = model(name), list[int]()

    def count(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Any:
        with _disable_current_modes():
            attended.append(flop_registry[torch.ops.higher_order.flex_attention](q, k, v))
            return attend(q, k, v, **options)

    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        standing(bound, count)(*map(torch.from_numpy, inputs(bound)))
    assert counter.get_total_flops() + sum(attended) == bound.flops(B=BATCH, S=LENGTH)
    assert len(attended) == 2


# ------------------------------------------------------------------------------------------------------- beside other choices


def test_decoding_is_that_of_the_plan_fast() -> None:
    """A step has one query: no block of pairs is left out."""
    bound = model("gemma2")
    assert bound.cached_source("flex") == bound.cached_source()
    module: Any = built(bound, "flex")
    (tokens,) = map(torch.from_numpy, inputs(bound))
    cache = module.cache()
    *_, last = (module.decode(part, cache=cache) for part in torch.split(tokens, 4, 1))
    expected = bound.reference(*inputs(bound), weights=weights(bound))
    assert error(last.view(BATCH, -1, 53)[:, -1], expected[:, -1]) < 1e-12


def test_weights_are_those_of_other_plans() -> None:
    shapes = [{n: x.shape for n, x in model("gpt_oss").build("meta", plan=p).state_dict().items()} for p in ("flex", "fast")]
    assert shapes[0] == shapes[1]


def test_dropout_of_weights_stays_sdpa() -> None:
    bound = attending(f"Dr(Sm_s'({PRODUCT} + where(s - W < s' <= s, 0, -inf)), ψ)")
    source = bound.source("flex")
    assert "# not FlexAttention, which has no dropout" in source
    assert "fn.scaled_dot_product_attention(" in source


@pytest.mark.parametrize(
    "ask",
    [
        lambda bound: bound.source("flex", mesh="tp=3", shard="tp: g"),
        lambda bound: bound.exchanges("tp=3", "tp: g", plan="flex", B=3, S=12),
    ],
    ids=["source", "exchanges"],
)
def test_a_part_of_a_model_is_refused(ask: Callable[[Model], Any]) -> None:
    with pytest.raises(EinformerError, match="E741 the plan `flex` computes a whole model"):
        ask(model("gemma2"))


@pytest.mark.parametrize("ask", ["saved", "peak"])
def test_bytes_of_its_backward_pass_are_refused(ask: str) -> None:
    with pytest.raises(EinformerError, match="fast"):
        getattr(model("gemma2"), ask)("flex", B=2, S=8)
