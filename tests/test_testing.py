"""Are the assertions of `einformer.testing` right: at which sizes, with which weights, and what do they say?"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import einformer as ein
from einformer import EinformerError
from einformer.language.calls import calls
from einformer.language.printer import show
from einformer.testing import Disagreement, assert_implements, prime_sizes, values
from einformer.testing.mistakes import MISTAKES
from einformer.testing.subject import isolate
from tests.few import few
from tests.wrong_programs import right

ATTENTION = ein.load("gpt2")["CausalAttention"]
TEXTS = ["gpt2", "llama", "mixtral", "deepseek_v3", "gpt_oss", "mamba2", "delta_net", "bloom", "gemma2"]


def refused(f: Any, equations: Any, **options: Any) -> str:
    """The message of what must be refused."""
    with pytest.raises(EinformerError) as error:
        assert_implements(f, equations, **options)
    return str(error.value)


# -------------------------------------------------------------------------------------------------------------- sizes


@pytest.mark.parametrize("text", TEXTS)
def test_sizes_are_different_and_keep_the_relations(text: str) -> None:
    model = ein.load(text).bind()
    drawn = prime_sizes.draw(model.legend, sorted(model.open), frozenset("L"))
    bound = model.spec.bind(**drawn)
    axes = [axis for axis in bound.spec.tree.axes if show(axis.size).isalpha() and show(axis.size) != "L"]
    lengths = [bound.legend.length(axis.letter) for axis in axes]
    assert len(set(lengths)) == len(lengths)
    assert bound.open == set()


def test_a_function_of_sizes_is_called_with_them() -> None:
    seen = dict[str, int]()

    def build(D: int, F: int) -> nn.Module:
        seen.update(D=D, F=F)
        module: nn.Module = right("nanogpt").MLP(D, F)
        return module

    layouts = {"c_fc.weight": "W_fd", "c_fc.bias": "ω", "c_proj.weight": "U_df", "c_proj.bias": "υ"}
    assert_implements(build, ein.load("gpt2")["MLP"], weights=layouts)
    assert seen["D"] >= 2
    assert seen["F"] == 4 * seen["D"]


def test_a_module_tells_its_sizes_by_its_layouts() -> None:
    layouts = {"c_fc.weight": "W_fd", "c_fc.bias": "ω", "c_proj.weight": "U_df", "c_proj.bias": "υ"}
    assert_implements(right("nanogpt").MLP(6, 24), ein.load("gpt2")["MLP"], weights=layouts)


def test_what_a_module_does_not_tell_is_asked_for() -> None:
    assert '`bind={"A": …, "D": …}`' in refused(right("nanogpt").CausalSelfAttention(6, 2), ATTENTION)


def test_a_layer_carries_the_axes_of_the_model_along() -> None:
    about = isolate(ein.load("llama")["RMSNorm"], {})
    assert show(about.head.formals[0]) == "z_bsd"
    assert show(isolate(ein.load("gpt2"), {}).head.formals[0]) == "x_bs"


@pytest.mark.parametrize("text", few(TEXTS, {*TEXTS} - {"deepseek_v3"}))  # the longest
def test_a_layer_for_each_call_changes_nothing(text: str) -> None:
    about = isolate(ein.load(text), {})
    about = about.bind(prime_sizes.draw(about.legend, about.letters(), about.turns()))
    apart = about.separate()
    inputs, weights = values.draw_inputs(about, {}, 0), values.draw_weights(about, 0)
    called = [call.name for layer in apart.written.layers for call in calls(layer)]
    assert apart.weights().keys() == about.weights().keys()
    assert all(called.count(layer.name) <= 1 for layer in apart.written.layers if not layer.weights)
    assert np.allclose(apart.value(inputs, weights), about.value(inputs, weights), 1e-9, 1e-12, equal_nan=True)


# ------------------------------------------------------------------------------------------------------------ weights


class Separate(nn.Module):
    """Attention whose parameters have telling names."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.q_proj, self.k_proj = nn.Linear(width, width), nn.Linear(width, width)
        self.v_proj, self.out_proj = nn.Linear(width, width), nn.Linear(width, width)
        self.heads = heads

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        q, k, v = (
            linear(z).unflatten(-1, (self.heads, -1)).transpose(1, 2) for linear in (self.q_proj, self.k_proj, self.v_proj)
        )
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        out: torch.Tensor = self.out_proj(y.transpose(1, 2).flatten(2))
        return out


def test_weights_are_guessed_from_telling_names() -> None:
    assert_implements(lambda D, A: Separate(D, A), ATTENTION)


def test_weights_without_telling_names_are_asked_for() -> None:
    message = refused(lambda D, A: right("nanogpt").CausalSelfAttention(D, A), ATTENTION)
    assert message.startswith("E905 it is not clear which weight is in `c_attn.weight`")


def test_a_module_of_our_own_needs_no_layouts() -> None:
    model = ein.load("llama").bind(D=12, A=6, G=2, F=7, V=11, L=2)
    assert_implements(model.build(plan="notation").eval(), model)


def test_a_layout_may_be_a_function_of_weights() -> None:
    layouts = {"weight": lambda W: W.T, "bias": lambda ω: ω}
    assert_implements(nn.Linear(5, 3), "y_bf = z_bd W_df + ω_f", weights=layouts, bind={"D": 5, "F": 3})


def test_a_parameter_may_have_no_part() -> None:
    linear = nn.Linear(5, 3)
    nn.init.zeros_(linear.bias)
    assert_implements(linear, "y_bf = z_bd W_df", weights={"weight": "W_fd", "bias": None})


@pytest.mark.parametrize(
    ("layouts", "part"),
    [
        ({"weigth": "W_fd"}, "no parameter `weigth`"),
        ({"weight": "Q_fd"}, "no weight `Q`"),
        ({"weight": "W_fe"}, "other axes"),
        ({"weight": "W_df", "bias": None}, "has shape (3, 5)"),
        ({"weight": "W (f"}, "is not a weight with its axes"),
    ],
)
def test_a_wrong_layout_is_refused(layouts: dict[str, str | None], part: str) -> None:
    message = refused(nn.Linear(5, 3), "y_bf = z_bd W_df", weights=layouts, bind={"D": 5, "F": 3})
    assert message.startswith("E905")
    assert part in message


def test_arguments_are_told_by_name_suffix_greek_or_order() -> None:
    text = "ε = 1e-5\nn_bd = γ_d z_bd / sqrt(mean_d z_bd^2 + ε)"

    def normed(z: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
        return gain * z / (z.square().mean(-1, keepdim=True) + 1e-5).sqrt()

    assert_implements(lambda gamma, z: normed(z, gamma), text)
    assert_implements(lambda γ_d, z_bd: normed(z_bd, γ_d), text)
    assert_implements(lambda x, weight: normed(x, weight), text)
    assert_implements(lambda weight, z_db: normed(z_db.T, weight), text, weights={"weight": "γ"})


# ------------------------------------------------------------------------------------------------------------ values


def test_a_mask_may_be_given() -> None:
    def masked(module: Any, z: torch.Tensor, m: torch.Tensor) -> Any:
        return module(z) + 0 * m.nan_to_num(0, 0, 0).sum()

    def mask(S: int) -> np.ndarray[Any, Any]:
        return np.triu(np.full((S, S), -np.inf), 1)

    module, spec = right("grouped").GroupedAttention, ein.load("llama")["Attention"]
    assert_implements(lambda D, A, G: module(D, A, G), spec, inputs={"m": mask}, call=masked)
    other = refused(lambda D, A, G: module(D, A, G), spec, inputs={"m": mask}, call=masked, bind={"Θ": 10})
    assert "the output departs by" in other


def test_a_step_in_float32_is_allowed_for() -> None:
    text = "y_bd = silu(z_bd)"
    assert_implements(lambda z: nn.functional.silu(z.float()).double(), text)
    assert "departs by" in refused(lambda z: nn.functional.silu(z.float()).double(), text, tolerance=1e-9)
    assert "departs by" in refused(lambda z: nn.functional.silu(z) * (1 + 1e-8), text)


def test_gradients_are_compared_one_by_one() -> None:
    message = refused(lambda q, k, v: (q @ k.mT) @ v.detach(), "y_bse = (q_bsf k_bs'f) v_bs'e")
    assert "its gradients are not: of `v`" in message


def test_a_straight_through_gradient_is_seen() -> None:
    message = refused(lambda z: z.relu() + (z - z.detach()), "y_bd = relu(z_bd)")
    assert message.startswith("E904")


def test_numbers_that_are_not_finite_are_counted() -> None:
    assert "numbers are not finite" in refused(lambda z: z / (z != z.max()), "y_bd = z_bd")


# ---------------------------------------------------------------------------------------------------- the code under test

ATTEND = "w_bss' = Sm_s'(q_bse k_bs'e / sqrt(H))\ny_bse = w_bss' v_bs'e"


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float | None = None) -> torch.Tensor:
    scores = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    return scores.softmax(-1) @ v


def infer(*tensors: Any, **options: Any) -> torch.Tensor:
    with torch.inference_mode():
        return attend(*tensors, **options)


def attend_flexibly(*tensors: torch.Tensor, scale: float | None = None) -> torch.Tensor:
    from torch.nn.attention.flex_attention import flex_attention

    q, k, v = (x[:, None] for x in tensors)
    return flex_attention(q, k, v, scale=scale)[:, 0]


WAYS: dict[str, Any] = {
    "in inference mode": infer,
    "with flex_attention": attend_flexibly,
    "by torch.vmap": lambda *tensors, **options: torch.vmap(lambda *rows: attend(*rows, **options))(*tensors),
    "compiled": torch.compile(attend, backend="eager"),
}


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("way", WAYS)
def test_code_of_any_kind_is_compared_and_explained(way: str) -> None:
    assert_implements(lambda q, k, v: WAYS[way](q, k, v), ATTEND, gradients=False)
    message = refused(lambda q, k, v: WAYS[way](q, k, v, scale=1.0), ATTEND, gradients=False)
    assert "known mistake: the scores are not scaled" in message


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("way", ["in inference mode", "with flex_attention"])
def test_code_without_gradients_says_so(way: str) -> None:
    message = refused(lambda q, k, v: WAYS[way](q, k, v), ATTEND)
    assert message.startswith("E904 `lambda` has no gradients")
    assert "`gradients=False`" in message


def test_gradients_may_be_left_out() -> None:
    assert_implements(lambda q, k, v: attend(q, k, v).detach(), ATTEND, gradients=False)
    assert refused(lambda q, k, v: attend(q, k, v).detach(), ATTEND).startswith("E904")


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # Dynamo asks for it
@pytest.mark.parametrize("built", [False, True])
def test_a_compiled_module_has_the_names_of_the_module(built: bool) -> None:
    layouts = {"c_fc.weight": "W_fd", "c_fc.bias": "ω", "c_proj.weight": "U_df", "c_proj.bias": "υ"}

    def build(D: int, F: int) -> Any:
        return torch.compile(right("nanogpt").MLP(D, F), backend="eager")

    assert_implements(build(6, 24) if built else build, ein.load("gpt2")["MLP"], weights=layouts)
    other = ein.parse(str(ein.load("gpt2")).replace("gelutanh", "relu"))["MLP"]
    message = refused(build(6, 24) if built else build, other, weights=layouts)
    assert message.startswith("E903 `MLP` does not compute `MLP`")
    assert "known mistake: the activation is another one" in message


class Tied(nn.Module):
    """Embeddings that are the head too."""

    def __init__(self, words: int, width: int) -> None:
        super().__init__()
        self.wte, self.lm_head = nn.Embedding(words, width), nn.Linear(width, words, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, x: torch.Tensor) -> Any:
        return self.lm_head(self.wte(x).relu())


@pytest.mark.parametrize("names", [["wte.weight"], ["lm_head.weight"], ["lm_head.weight", "wte.weight"], []])
@pytest.mark.parametrize("built", [False, True])
def test_a_tied_parameter_has_each_of_its_names(names: list[str], built: bool) -> None:
    text = "axes b, s, d, v\n\nmodel Tied(x_bs) -> y_bsv:\n  weights E_vd\n  z_bsd = relu(E_{x_bs d})\n  return z_bsd E_vd\n"
    if names or not built:
        assert_implements(Tied(11, 6) if built else lambda V, D: Tied(V, D), text, weights=dict.fromkeys(names, "E_vd"))


TEN = """axes b, s, d

model Sum(n_bsd, r_bsd, t_bsd, u_bsd, p_bsd, x_bsd, y_bsd, z_bsd, h_bsd, g_bsd) -> q_bsd causal in s:
  weights P_sd
  return (n_bsd + r_bsd + t_bsd + u_bsd + p_bsd + x_bsd + y_bsd + z_bsd + h_bsd + g_bsd) P_sd
"""


def test_an_explanation_finds_a_name_where_the_text_has_all_letters() -> None:
    def add(n: Any, r: Any, t: Any, u: Any, p: Any, x: Any, y: Any, z: Any, h: Any, g: Any, P: Any) -> Any:
        return (n + r + t + u + p + x + y + z + h + g) * torch.cat([P[:2], P[1:-1]])

    message = refused(add, TEN)
    assert "positions do not go on after the first part" in message
    assert "n2_s = where(s < 2, s, s - 1)" in message


# ------------------------------------------------------------------------------------------------------------ verdicts


def test_a_disagreement_is_an_assertion_and_an_error_of_ours() -> None:
    with pytest.raises(AssertionError, match="E902") as error:
        assert_implements(lambda z: z.T, "y_bd = z_bd")
    assert isinstance(error.value, Disagreement)
    assert isinstance(error.value, EinformerError)
    assert error.value.__cause__ is None


def test_what_the_code_raises_comes_before_the_verdict() -> None:
    with pytest.raises(Disagreement, match="E901") as error:
        assert_implements(lambda z: z.nothing, "y_bd = z_bd")
    assert isinstance(error.value.__cause__, AttributeError)


def test_the_message_says_what_agrees_what_departs_and_why() -> None:
    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> object:
        scores = q @ k.mT / q.shape[-1] ** 0.5
        weights = scores.softmax(-2)
        return weights @ v

    message = refused(attend, "t_bss' = q_bse k_bs'e / sqrt(H)\nw_bss' = Sm_s'(t_bss')\ny_bse = w_bss' v_bs'e")
    line = attend.__code__.co_firstlineno
    assert "known mistake: the softmax runs over another index" in message
    assert "the code computes `w_bss' = Sm_s(t_bss')`" in message
    assert f"these agree: t_bss' (`scores`, tests/test_testing.py:{line + 1})" in message
    assert f"the first that departs: w_bss' (`weights`, tests/test_testing.py:{line + 2})" in message
    assert "  3 |   w_bss' = Sm_s'(t_bss')" in message


def test_a_right_argument_of_a_function_is_not_what_departs() -> None:
    """The scores have the shape of the weights, and are no tensor of the text."""

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> object:
        scores = q @ k.mT / q.shape[-1] ** 0.5
        return scores.softmax(-2) @ v

    message = refused(attend, "w_bss' = Sm_s'(q_bse k_bs'e / sqrt(H))\ny_bse = w_bss' v_bs'e")
    assert "known mistake: the softmax runs over another index" in message
    assert "departs: " not in message


@pytest.mark.parametrize("hide", [False, True])
def test_a_right_mask_is_not_what_departs(hide: bool) -> None:
    """Written as truths: where to look, or where not to."""
    text = "axes\n  s: S\n  d: D\nmodel A(z_sd) -> y_sd causal in s:\n  m_ss' = where(s' <= s, 0, -inf)\n"
    text += "  w_ss' = Sm_s'(z_sd z_s'd + m_ss')\n  return w_ss' z_s'd\n"

    def attend(z: torch.Tensor) -> torch.Tensor:
        mask = torch.ones(len(z), len(z), dtype=torch.bool).tril()
        mask = ~mask if hide else mask
        weights = (z @ z.mT / 2).masked_fill(mask if hide else ~mask, -torch.inf).softmax(-1)
        return weights @ z

    message = refused(attend, text)
    assert "these agree: m_ss' (`mask`, tests/test_testing.py:" in message
    assert "the first that departs: w_ss' (`weights`, tests/test_testing.py:" in message


def test_axes_in_another_order_agree() -> None:
    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> object:
        scores = (k @ q.mT).contiguous()
        return (scores.mT / 2).softmax(-1) @ v

    message = refused(attend, "t_bss' = q_bse k_bs'e\nw_bss' = Sm_s'(t_bss')\ny_bse = w_bss' v_bs'e")
    assert "these agree: t_bss' (`scores`" in message


def test_outputs_of_submodules_and_kept_tensors_are_seen() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Linear(5, 3, bias=False), nn.Linear(3, 7, bias=False)

        def forward(self, z: torch.Tensor) -> Any:
            return self.two(self.one(z).relu()).relu()

    text = "h_bf = z_bd W_df\ny_bg = relu(h_bf) U_fg"
    message = refused(Two(), text, weights={"one.weight": "W_fd", "two.weight": "U_gf"})
    assert "these agree: h_bf (`one`, its output, tests/test_testing.py:" in message


def test_mistakes_have_names_of_their_own() -> None:
    names = [mistake.says for mistake in MISTAKES]
    assert len(set(names)) == len(names) >= 30


def test_bare_equations_end_with_the_output() -> None:
    assert refused(lambda z: z, "y_bd = 2 z_bd\nreturn y_bd").startswith("E105")
    assert re.search(r"<equations>:2", refused(lambda z: z, "y_bd = 2 z_be"))


# ---------------------------------------------------------------------------------------------------------- properties


def test_a_property_names_the_input_that_moved() -> None:
    with pytest.raises(Disagreement, match="position 0 of the output sees position 4 of input 1"):
        ein.testing.assert_causal(lambda q, k: q + k.flip(1), torch.randn(2, 5, 3), torch.randn(2, 5, 3))


def test_lengths_that_differ_are_said() -> None:
    """As of a model that returns its last logits alone."""
    with pytest.raises(EinformerError, match="E915 the output has the length 1 along axis 1, and the input has 5"):
        ein.testing.assert_causal(lambda z: z.cumsum(1)[:, -1:], torch.randn(2, 5, 3))
    with pytest.raises(EinformerError, match="the output has the length 5 along axis 1, and input 1 has 4"):
        ein.testing.assert_causal(lambda z, y: z + y.sum(1, keepdim=True), torch.randn(2, 5, 3), torch.randn(2, 4, 3))


def test_tokens_are_changed_to_others() -> None:
    torch.manual_seed(0)
    tokens = torch.randint(7, (2, 6))
    table = torch.randn(7, 3)
    ein.testing.assert_causal(lambda x: table[x].cumsum(1), tokens)
    with pytest.raises(Disagreement, match="E911"):
        ein.testing.assert_causal(lambda x: table[x].flip(1), tokens)


def test_a_row_is_computed_alone_too() -> None:
    with pytest.raises(Disagreement, match="row 0 of the output is another one when it is computed alone"):
        ein.testing.assert_batch_independent(lambda z: z * len(z), torch.randn(3, 4))


def test_a_built_model_has_the_properties() -> None:
    module = ein.load("mistral").bind(D=12, A=6, G=2, F=7, V=11, L=1, W=3).build().eval()
    tokens = torch.tensor([[1, 5, 7, 2, 9, 3], [4, 4, 8, 10, 0, 6]])
    ein.testing.assert_causal(module, tokens)
    ein.testing.assert_batch_independent(module, tokens)
    with pytest.raises(Disagreement, match="E913"):
        ein.testing.assert_permutation_equivariant(module, tokens)


def test_a_cache_of_transformers_is_consistent() -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=11, hidden_size=12, num_attention_heads=2, intermediate_size=7, num_hidden_layers=1)
    model = LlamaForCausalLM(config)
    tokens = torch.tensor([[1, 5, 7, 2, 9, 3, 8]])

    def step(model: Any, kept: Any, x: torch.Tensor) -> tuple[Any, Any]:
        out = model(x, past_key_values=kept, use_cache=True)
        return out.logits, out.past_key_values

    def forgetful(model: Any, kept: Any, x: torch.Tensor) -> tuple[Any, Any]:
        return model(x).logits, None

    ein.testing.assert_cache_consistent(model, step, tokens, tolerance=1e-5)
    with pytest.raises(Disagreement, match="what is kept is not used"):
        ein.testing.assert_cache_consistent(model, forgetful, tokens, tolerance=1e-5)
