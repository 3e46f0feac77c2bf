"""What goes wrong in programs as people write them, and which tool tells?

`tests/corpus` holds the right programs, `tests/slips_of_programs.py` says which line of one becomes which, and which checks
must refuse that. `CHECKS` are the ways in which the tools are used; no check refuses a right program.
"""

from __future__ import annotations

import linecache
import re
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import einformer as ein
from einformer.errors import fail
from tests.commands import lint

FOLDER = Path(__file__).parent / "corpus"
Program = types.ModuleType
Check = Callable[[Any], None]


@dataclass(frozen=True, slots=True)
class Slip:
    """`old`, which stands once in a program, becomes `new`: each of the checks refuses that, with this code."""

    name: str
    file: str
    old: str
    new: str
    caught: tuple[tuple[str, str], ...]
    says: str = ""  # the known mistake that explains it

    @property
    def text(self) -> str:
        """The wrong program."""
        text = (FOLDER / self.file).with_suffix(".py").read_text(encoding="utf-8")
        assert text.count(self.old) == 1, (self.name, text.count(self.old))
        return text.replace(self.old, self.new)


def program(name: str, text: str) -> Program:
    """A program of the corpus, or one that was changed, as a module."""
    file = f"<{name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    module = Program(name)
    exec(compile(text, file, "exec", dont_inherit=True), module.__dict__)
    module.__doc__ = text
    return module


def right(name: str) -> Program:
    """A right program of the corpus."""
    return program(name, (FOLDER / name).with_suffix(".py").read_text(encoding="utf-8"))


# ------------------------------------------------------------------------------------------------------------- texts

GPT2 = ein.load("gpt2")
BLOCK = """
layer Block(z_bsd) -> z_bsd:
  z_bsd <- z_bsd + CausalAttention(LayerNorm(z_bsd))
  z_bsd <- z_bsd + MLP(LayerNorm(z_bsd))

model """
BLOCKS = ein.parse(str(GPT2).replace("\nmodel ", BLOCK))
POST = ein.parse(str(GPT2).replace("\nmodel ", BLOCK).replace("gelutanh", "relu"))
FULL = """
H = D / A
q_bsea = z_bsd Q_dea
k_bsea = z_bsd K_dea
v_bsea = z_bsd V_dea
w_bss'a = Sm_s'(q_bsea k_bs'ea / sqrt(H))
y_bsea = w_bss'a v_bs'ea
n_bsd = y_bsea O_ead
"""
GROUPED = ein.parse(
    re.sub(" *@ .*", "", str(ein.load("llama")))
    .replace("layer Attention(z_sd, m_ss') -> z_sd:", "layer Attention(z_sd) -> z_sd:")
    .replace("  v_seg = z_sd V_deg\n", "  v_seg = z_sd V_deg\n  m_ss' = where(s' <= s, 0, -inf)\n")
    .replace("  m_ss' = where(s' <= s, 0, -inf)\n  z_bsd", "  z_bsd")
    .replace("(RMSNorm_l(z_bsd), m_ss')", "(RMSNorm_l(z_bsd))")
)
ATTEND = """
w_bss'a = Sm_s'(q_bsea k_bs'ea / sqrt(H))
y_bsea = w_bss'a v_bs'ea
"""
SPLIT = "C = A H\np_bsc = z_bsd W_dc\nq_bsea = p_{bs(ae)}"
WINDOW = """
W = 3
m_ss' = where(s - W < s' <= s, 0, -inf)
w_bss' = Sm_s'(q_bse k_bs'e / sqrt(H) + m_ss')
y_bse = w_bss' v_bs'e
"""
ALIBI = """
m_ss' = where(s' <= s, 0, -inf)
r_ass' = 2^(-8 (a + 1) / A) (s' - s)
w_bass' = Sm_s'(q_base k_bas'e / sqrt(H) + r_ass' + m_ss')
y_base = w_bass' v_bas'e
"""
SHARED = "w_bass' = Sm_s'(q_base k_bs'e / sqrt(H))\ny_base = w_bass' v_bs'e"
LINEAR = "m_ss' = where(s' <= s, 1, 0)\nw_bss' = q_bse k_bs'e\ny_bsu = w_bss' m_ss' v_bs'u"
STATIC = ein.parse("""
axes b, s, d, a, e, i, h

scalars Θ = 10000, θ_h, μ

model Static(z_bsd) -> n_bsd causal in s:
  weights Q_dae, K_dae, V_dae, O_aed
  q_bsae = Rotary(z_bsd Q_dae)
  k_bsae = Rotary(z_bsd K_dae)
  v_bsae = z_bsd V_dae
  m_ss' = where(s' <= s, 0, -inf)
  w_bss'a = Sm_s'(q_bsae k_bs'ae / sqrt(H) + m_ss')
  y_bsae = w_bss'a v_bs'ae
  n_bsd = y_bsae O_aed
""")
FIRST = """
axes b, s, d, v

model First(z_bsd) -> y_bv:
  weights P_sd, U_vd
  n_bsd = relu(z_bsd + P_sd)
  return n_{b(0)d} U_vd
"""
MLP = "h_bsf = relu(z_bsd W_df)\ny_bsd = h_bsf U_fd"

FUSED = {"c_attn.weight": "Q_{(ae)d}, K_{(ae)d}, V_{(ae)d}", "c_attn.bias": "α_{(ae)}, κ_{(ae)}, ν_{(ae)}"}
FUSED |= {"c_proj.weight": "O_{dd'}", "c_proj.bias": "ω_d"}
HIDDEN = {"c_fc.weight": "W_fd", "c_fc.bias": "ω_f", "c_proj.weight": "U_df", "c_proj.bias": "υ_d"}
LAYERS = {
    "ln_1.weight": "LayerNorm.γ",
    "ln_1.bias": "LayerNorm.β",
    "ln_2.weight": "LayerNorm_2.γ",
    "ln_2.bias": "LayerNorm_2.β",
}


def under(ours: str, theirs: str, layouts: Mapping[str, str]) -> dict[str, str]:
    """Layouts below a path of ours and one of theirs."""
    pieces = {name: [part.strip() for part in value.split(",")] for name, value in layouts.items()}
    return {theirs + name: ", ".join(ours + part for part in parts) for name, parts in pieces.items()}


INSIDE = LAYERS | under("CausalAttention.", "attn.", FUSED) | under("MLP.", "mlp.", HIDDEN)
WHOLE = under("blocks.*.", "h.*.", INSIDE) | {"wte.weight": "E", "wpe.weight": "P"}
WHOLE |= {"ln_f.weight": "LayerNorm_3.γ", "ln_f.bias": "LayerNorm_3.β"}
QKV = {"to_qkv.weight": "Q_{(ae)d}, K_{(ae)d}, V_{(ae)d}", "to_out.weight": "O_{d(ae)}"}
MULTIHEAD = {"in_proj_weight": "Q_{(ae)d}, K_{(ae)d}, V_{(ae)d}", "in_proj_bias": "α_{(ae)}, κ_{(ae)}, ν_{(ae)}"}
MULTIHEAD |= {"out_proj.weight": "O_{dd'}", "out_proj.bias": "ω_d"}
ENCODER = under("CausalAttention.", "layer.self_attn.", MULTIHEAD)
ENCODER |= under(
    "MLP.", "layer.", {"linear1.weight": "W_fd", "linear1.bias": "ω", "linear2.weight": "U_df", "linear2.bias": "υ"}
)
ENCODER |= {f"layer.norm{n}.{p}": f"LayerNorm{'_2' * (n - 1)}.{w}" for n in (1, 2) for p, w in (("weight", "γ"), ("bias", "β"))}
EXPERTS = {"experts.*.gate.weight": "G_{* fd}", "experts.*.up.weight": "U_{* fd}", "experts.*.down.weight": "O_{* df}"}
CONV1D = {"c_attn.weight": "Q_{d(ae)}, K_{d(ae)}, V_{d(ae)}", "c_attn.bias": FUSED["c_attn.bias"]}
CONV1D |= {"c_proj.weight": "O_{d'd}", "c_proj.bias": "ω_d"}
CONV1D_MLP = {"c_fc.weight": "W_df", "c_fc.bias": "ω_f", "c_proj.weight": "U_fd", "c_proj.bias": "υ_d"}
CONV1D_BLOCK = LAYERS | under("CausalAttention.", "attn.", CONV1D) | under("MLP.", "mlp.", CONV1D_MLP)


# ------------------------------------------------------------------------------------------------------------- checks


def implements(build: Callable[[Any], Any], equations: Any, **options: Any) -> Check:
    return lambda module: ein.testing.assert_implements(build(module), equations, **options)


def decode_in_parts(attention: Any, z: torch.Tensor) -> torch.Tensor:
    """Three positions at once, then one after the other."""
    attention.start(z)
    parts = [torch.arange(3), *torch.arange(3, z.shape[1])[:, None]]
    return torch.cat([attention(z[:, part], part) for part in parts], 1)


def holds(prove: Callable[..., None], build: Callable[[Any], Any], *shape: int) -> Check:
    """A property of what `build` makes, on random inputs of a shape."""

    def check(module: Any) -> None:
        torch.manual_seed(0)
        prove(build(module), torch.randn(*shape))

    return check


def holds_of_three(prove: Callable[..., None], build: Callable[[Any], Any]) -> Check:
    """A property of a function of queries, keys and values."""

    def check(module: Any) -> None:
        torch.manual_seed(0)
        prove(build(module), *(torch.randn(2, 5, 3) for _ in range(3)))

    return check


def decodes(module: Any) -> None:
    torch.manual_seed(0)
    attention = module.CachedAttention(12, 2, 4)
    ein.testing.assert_cache_consistent(attention, lambda f, kept, x: f(x, kept), torch.randn(2, 11, 12))


def suffixes(module: Program) -> None:
    """The source check reads the text, which is the module's documentation here, and runs nothing."""
    if findings := lint(str(module.__doc__), "program.py").findings:
        raise fail(findings[0].code, findings[0].message)


CONTRACTS = {
    "project": "z_bsd, Q_dea -> q_bsea",
    "scores": "q_bsea, k_btea -> t_bast",
    "attend": "q_bsea, k_bsea, v_bsea -> y_bsea",
    "mlp": "z_bsd, W_df, U_fd -> y_bsd",
    "merge": "y_bsea -> u_{bs(ae)}",
}


def contracts(module: Program) -> None:
    """Functions are run at sizes of which no two are equal, under their contracts."""
    for name, text in CONTRACTS.items():
        ein.contracts.probe(getattr(module, name), text)


CHECKS: Mapping[str, tuple[str, Check]] = {
    "attention": (
        "nanogpt",
        implements(lambda m: lambda D, A: m.CausalSelfAttention(D, A), GPT2["CausalAttention"], weights=FUSED),
    ),
    "attention is causal": ("nanogpt", holds(ein.testing.assert_causal, lambda m: m.CausalSelfAttention(6, 2), 2, 5, 6)),
    "mlp": ("nanogpt", implements(lambda m: lambda D, F: m.MLP(D, F), GPT2["MLP"], weights=HIDDEN)),
    "block": ("nanogpt", implements(lambda m: lambda D, A, F: m.Block(D, A, F), BLOCKS["Block"], weights=INSIDE)),
    "gpt": ("nanogpt", implements(lambda m: lambda V, D, A, F, L, K: m.GPT(V, D, A, F, L, K), GPT2, weights=WHOLE)),
    "einops": ("einops_attention", implements(lambda m: lambda D, A: m.Attention(D, A), FULL, weights=QKV)),
    "einops is equivariant": (
        "einops_attention",
        holds(ein.testing.assert_permutation_equivariant, lambda m: m.Attention(6, 2), 2, 5, 6),
    ),
    "contracts": ("suffixed", contracts),
    "suffixes": ("suffixed", suffixes),
    "einops suffixes": ("einops_attention", suffixes),
    "project": ("suffixed", implements(lambda m: m.project, "q_bsea = z_bsd Q_dea")),
    "scores": ("suffixed", implements(lambda m: m.scores, "w_bass' = q_bsea k_bs'ea / sqrt(H)")),
    "attend": ("suffixed", implements(lambda m: m.attend, ATTEND)),
    "merge": ("suffixed", implements(lambda m: m.merge, "u_{bs(ae)} = y_bsea")),
    "split": ("suffixed", implements(lambda m: lambda z, W: m.split(z @ W, 2), SPLIT, bind={"A": 2})),
    "window": ("masks", implements(lambda m: lambda q, k, v: m.window_attention(q, k, v), WINDOW)),
    "alibi": ("masks", implements(lambda m: m.alibi_attention, ALIBI)),
    "multi-query": ("masks", implements(lambda m: m.multi_query_attention, SHARED)),
    "linear": ("masks", implements(lambda m: m.linear_attention, LINEAR)),
    "linear is causal": ("masks", holds_of_three(ein.testing.assert_causal, lambda m: m.linear_attention)),
    "suffixed mlp": ("suffixed", implements(lambda m: m.mlp, MLP)),
    "grouped": ("grouped", implements(lambda m: lambda D, A, G: m.GroupedAttention(D, A, G), GROUPED["Attention"])),
    "grouped is causal": ("grouped", holds(ein.testing.assert_causal, lambda m: m.GroupedAttention(12, 6, 2), 2, 5, 12)),
    "rotary": ("grouped", implements(lambda m: m.rotary, ein.load("llama")["Rotary"])),
    "interleaved": ("interleaved", implements(lambda m: m.apply_rotary_emb, ein.load("llama_interleaved")["Rotary"])),
    "rms": ("norms", implements(lambda m: lambda D: m.RMSNorm(D), ein.load("llama")["RMSNorm"], bind={"ε": 1e-5})),
    "rms rows": ("norms", holds(ein.testing.assert_batch_independent, lambda m: m.RMSNorm(6), 2, 5, 6)),
    "rms is causal": ("norms", holds(ein.testing.assert_causal, lambda m: m.RMSNorm(6), 2, 5, 6)),
    "layer norm": (
        "norms",
        implements(lambda m: lambda D: m.LayerNorm(D), GPT2["LayerNorm"], weights={"a_2": "γ", "b_2": "β"}),
    ),
    "gated": (
        "gated",
        implements(
            lambda m: lambda D, F: m.FeedForward(D, F),
            ein.load("llama")["GatedMLP"],
            weights={"w1.weight": "G_fd", "w2.weight": "O_df", "w3.weight": "U_fd"},
        ),
    ),
    "experts": (
        "experts",
        implements(
            lambda m: lambda D, F, X: m.MoE(D, F, X),
            ein.load("mixtral")["Experts"],
            weights=EXPERTS | {"router.weight": "R_xd"},
        ),
    ),
    "route": ("experts", implements(lambda m: lambda r: m.route(r, 2), "p_bsx = Sm_x(where(top_{2,x}(r_bsx), r_bsx, -inf))")),
    "experts rows": ("experts", holds(ein.testing.assert_batch_independent, lambda m: m.MoE(6, 5, 7), 3, 5, 6)),
    "multihead": (
        "torch_layers",
        implements(
            lambda m: lambda D, A: m.SelfAttention(D, A), GPT2["CausalAttention"], weights=under("", "attn.", MULTIHEAD)
        ),
    ),
    "multihead rows": ("torch_layers", holds(ein.testing.assert_batch_independent, lambda m: m.SelfAttention(6, 2), 3, 5, 6)),
    "encoder": ("torch_layers", implements(lambda m: lambda D, A, F: m.Encoder(D, A, F), POST["Block"], weights=ENCODER)),
    "cache": ("cached", decodes),
    "static cache": (
        "static_cache",
        implements(
            lambda m: lambda D, A: m.StaticAttention(D, A),
            STATIC,
            weights={"qkv.weight": "Q_{(ae)d}, K_{(ae)d}, V_{(ae)d}", "out.weight": "O_{d(ae)}"},
            call=decode_in_parts,
            gradients=False,
        ),
    ),
    "classifier": (
        "static_cache",
        implements(
            lambda m: lambda S, D, V: m.Classifier(S, D, V), FIRST, weights={"positions": "P_sd", "head.weight": "U_vd"}
        ),
    ),
    "hf attention": (
        "transformers_layers",
        implements(lambda m: lambda D, A: m.gpt2_attention(D, A), GPT2["CausalAttention"], weights=CONV1D),
    ),
    "hf mlp": ("transformers_layers", implements(lambda m: lambda D, F: m.gpt2_mlp(D, F), GPT2["MLP"], weights=CONV1D_MLP)),
    "hf block": (
        "transformers_layers",
        implements(lambda m: lambda D, A, F: m.gpt2_block(D, A, F), BLOCKS["Block"], weights=CONV1D_BLOCK),
    ),
    "hf norm": (
        "transformers_layers",
        implements(lambda m: lambda D: m.llama_norm(D), ein.load("llama")["RMSNorm"], bind={"ε": 1e-5}),
    ),
    "hf gated": (
        "transformers_layers",
        implements(
            lambda m: lambda D, F: m.llama_mlp(D, F),
            ein.load("llama")["GatedMLP"],
            weights={"gate_proj.weight": "G_fd", "up_proj.weight": "U_fd", "down_proj.weight": "O_df"},
        ),
    ),
}
