"""Do published models have as many parameters as we say, to the unit? Sizes from their papers and configs, bound by hand."""

from __future__ import annotations

import pytest

import einformer
from einformer import EinformerError
from tests.refusals import refuses

LLAMA = {  # L, D, A, G, F, V
    "LLaMA-7B": ((32, 4096, 32, 32, 11008, 32000), 6_738_415_616),
    "LLaMA-13B": ((40, 5120, 40, 40, 13824, 32000), 13_015_864_320),
    "LLaMA-30B": ((60, 6656, 52, 52, 17920, 32000), 32_528_943_616),
    "LLaMA-65B": ((80, 8192, 64, 64, 22016, 32000), 65_285_660_672),
    "Llama-2-70B": ((80, 8192, 64, 8, 28672, 32000), 68_976_648_192),
    "Llama-3-8B": ((32, 4096, 32, 8, 14336, 128256), 8_030_261_248),
    "Llama-3-70B": ((80, 8192, 64, 8, 28672, 128256), 70_553_706_496),
    "Mistral-7B": ((32, 4096, 32, 8, 14336, 32000), 7_241_732_096),
    "TinyLlama": ((22, 2048, 32, 4, 5632, 32000), 1_100_048_384),
}
PYTHIA = {  # L, D, A, V; without embeddings, in all
    "70M": ((6, 512, 8, 50304), 18_915_328, 70_426_624),
    "160M": ((12, 768, 12, 50304), 85_056_000, 162_322_944),
    "1B": ((16, 2048, 8, 50304), 805_736_448, 1_011_781_632),
    "1.4B": ((24, 2048, 16, 50304), 1_208_602_624, 1_414_647_808),
    "6.9B": ((32, 4096, 32, 50432), 6_444_163_072, 6_857_302_016),
    "12B": ((36, 5120, 40, 50688), 11_327_027_200, 11_846_072_320),
}
GPT3 = {  # Brown et al. 2020, table 2.1: L, D, A; d_head
    "Small": ((12, 768, 12), 64, 125_226_240),
    "Medium": ((24, 1024, 16), 64, 355_871_744),
    "Large": ((24, 1536, 16), 96, 760_300_032),
    "2.7B": ((32, 2560, 32), 80, 2_651_553_280),
    "6.7B": ((32, 4096, 32), 128, 6_658_404_352),
    "175B": ((96, 12288, 96), 128, 174_604_259_328),
}


@pytest.mark.parametrize("name", LLAMA)
def test_llama(name: str) -> None:
    sizes, total = LLAMA[name]
    bound = dict(zip("LDAGFV", sizes, strict=True))
    assert einformer.load("llama").bind(**bound, H=bound["D"] // bound["A"]).num_parameters == total


@pytest.mark.parametrize("name", PYTHIA)
def test_pythia(name: str) -> None:
    """Embeddings and the head, which is not tied, are left out of the smaller figure (Biderman et al. 2023, table 1)."""
    (layers, hidden, heads, vocabulary), others, total = PYTHIA[name]
    model = einformer.load("gpt_neox").bind(L=layers, D=hidden, A=heads, V=vocabulary, R=hidden // heads // 4)
    assert (model.parameter_counts["non_embedding"], model.num_parameters) == (others, total)


@pytest.mark.parametrize("name", GPT3)
def test_gpt3(name: str) -> None:
    (layers, hidden, heads), head, total = GPT3[name]
    model = einformer.load("gpt2").bind(L=layers, D=hidden, A=heads, V=50257, K=2048)
    assert (model.size("H"), model.num_parameters) == (head, total)


@pytest.mark.parametrize(("name", "layers", "hidden", "heads"), [("XL", 24, 2048, 24), ("13B", 40, 5140, 40)])
def test_rows_of_gpt3_that_contradict_themselves_are_refused(name: str, layers: int, hidden: int, heads: int) -> None:
    """Both print heads of 128: 24 heads of 128 are 3072, not 2048, and 40 of them 5120, not 5140."""
    text = einformer.load("gpt2")
    with refuses("E602", "e"):
        text.bind(L=layers, D=hidden, A=heads, V=50257, K=2048)
    with pytest.raises(EinformerError) as refused:
        text.bind(L=layers, D=hidden, A=heads, H=128, V=50257, K=2048)
    assert str(heads * 128) in str(refused.value)


def test_mixtral() -> None:
    """Of eight experts two compute for a token: six times the weights of one are left out."""
    sizes = {"D": 4096, "A": 32, "G": 8, "H": 128, "F": 14336, "X": 8, "L": 32, "V": 32000}
    counts = einformer.load("mixtral").bind(**sizes).parameter_counts
    assert (counts["total"], counts["active"]) == (46_702_792_704, 12_879_925_248)


def test_a_palm_block_without_biases() -> None:
    """PaLM 8B (Chowdhery et al. 2022): one key head, a gated MLP; 8.63 billion."""
    layers, heads, hidden, head = 32, 16, 4096, 256
    text = """
axes
  b: B
  s: S
  d: D
  a: A
  e: H
  f: F
  v: V
  l: L
layer Attention(z_sd) -> z_sd:
  weights Q_dea, K_de, V_de, O_ead
  q_sea = z_sd Q_dea
  k_se = z_sd K_de
  v_se = z_sd V_de
  w_ss'a = Sm_s'(q_sea k_s'e / sqrt(H) + where(s' <= s, 0, -inf))
  y_sea = w_ss'a v_s'e
  return y_sea O_ead
model PaLM(x_bs) -> y_bsv causal in s:
  weights E_vd
  z_bsd = E_{x_bs d}
  for l < L:
    z_bsd <- z_bsd + Attention_l(z_bsd) + GatedMLP_l(z_bsd)
  return z_bsd E_vd
"""
    model = einformer.parse(text).bind(L=layers, A=heads, D=hidden, H=head, F=4 * hidden, V=256_000)
    assert model.num_parameters == 8_631_877_632
