"""Are the bytes of files of weights those that their makers publish?"""

from __future__ import annotations

import math
from typing import Any

import pytest

import einformer
from einformer.cli import main, options
from einformer.huggingface.families import family
from einformer.huggingface.storage import count_file, list_tensors, read_storage
from einformer.interpreters.count.conventions import read_formats
from einformer.language import weights
from einformer.notes.quantities import configs
from einformer.objects import Model
from tests.few import FEW_FAMILIES
from tests.refusals import refuses
from tests.toys import config_of


def placed(model: Model) -> dict[str, weights.Placed]:
    return weights.weights(model.spec.tree, model.spec.layer, model.legend)


def of(name: str, **changes: Any) -> Model:
    return einformer.from_huggingface(configs()[name] | changes)


def count(model: Model, kind: str) -> int:
    return count_file(model._origin.family, placed(model), kind)


# tools/quantize/README.md of llama.cpp, for Llama 3.1 8B
BITS = {"q8_0": 8.5008, "q6_k": 6.5633, "q5_k_m": 5.7036, "q5_k_s": 5.5704, "q4_k_m": 4.8944, "q4_k_s": 4.6672}


@pytest.mark.parametrize("kind", BITS)
def test_bits_for_a_weight_are_those_that_llama_cpp_measured(kind: str) -> None:
    model = of("llama-3.1-8b")
    assert round(8 * count(model, kind) / model.num_parameters, 4) == BITS[kind]


def test_bytes_of_gpt_oss_are_those_of_its_files() -> None:
    """65,248,815,744 are the bytes of the tensors of openai/gpt-oss-120b (alvarobartt/hf-mem, issue 60)."""
    assert count(of("gpt-oss-120b"), "mxfp4") == 65_248_815_744


@pytest.mark.parametrize("name", ["llama", "qwen3", "gemma3_text", "mixtral", "deepseek_v3", "gpt_oss", "qwen3_moe"])
def test_tensors_of_a_file_hold_every_number_once(name: str) -> None:
    """And have as many axes as transformers gives them: a matrix has two."""
    model = einformer.from_huggingface(config_of(name))
    tensors = list(list_tensors(family(model._origin.family), placed(model)))
    numbers = sum(math.prod(held.shape) for held in placed(model).values())
    assert sum(tensor.times * math.prod(tensor.shape) for tensor in tensors) == numbers
    assert all(len(tensor.shape) == 2 for tensor in tensors if tensor.role in ("map", "value", "down", "output"))


def test_groups_have_a_scale_and_a_zero() -> None:
    """By hand, a matrix of (out, in): half a byte for a number, and for each of 128 in a row two bytes and a half; GPTQ has the
    number of its group for each row of inputs."""
    model = of("llama-3.1-8b")
    d, f, g, layers, v = 4096, 14336, 1024, 32, 128256
    shapes = [(d, d), (g, d), (g, d), (d, d), (f, d), (f, d), (d, f)]
    kept = 2 * (2 * v * d + (2 * layers + 1) * d)
    matrices = layers * sum(out * of_ for out, of_ in shapes)
    scales = layers * sum(out * (of_ // 128) * 5 // 2 for out, of_ in shapes)
    assert count(model, "awq") == kept + matrices // 2 + scales
    assert count(model, "gptq") == count(model, "awq") + layers * sum(4 * of_ for _, of_ in shapes)


def test_squares_have_a_scale() -> None:
    """Of each square of 128 by 128, begun ones too, four bytes; DeepSeek V3 keeps tables, norms and routers in 16 bits."""
    model = of("deepseek-v3")
    tensors = list(list_tensors(family(model._origin.family), placed(model)))
    total = 0
    for tensor in tensors:
        numbers = tensor.times * math.prod(tensor.shape)
        if tensor.role in ("output", "tokens", "small", "router"):
            total += 2 * numbers
        elif tensor.role == "wide":
            total += 4 * numbers
        else:
            out, into = tensor.shape
            total += numbers + 4 * tensor.times * math.ceil(out / 128) * math.ceil(into / 128)
    assert count(model, "fp8_block") == total
    latent = next(tensor for tensor in tensors if "kv_a_proj" in tensor.name)
    assert latent.shape == (576, 7168)  # two of our weights, and four squares and a half


def test_a_table_of_tokens_that_is_the_head_is_stored_as_the_head() -> None:
    tied = of("qwen3-0.6b")
    apart = of("qwen3-0.6b", tie_word_embeddings=False)
    table = 151_936 * 1024
    assert count(apart, "q4_k_m") - count(tied, "q4_k_m") == table * 144 // 256
    assert count(tied, "q4_k_m") == count(tied, "q4_k_s") + count(apart, "q4_k_m") - count(apart, "q4_k_s")


def test_a_matrix_of_values_that_heads_share_has_more_bits_in_80_layers() -> None:
    """q5_k in place of q4_k, in the 40 layers that do not have q6_k; in no other number of layers, and not with own heads."""

    def bits(layers: int, heads: int, kind: str = "llama") -> int:
        sizes = {"hidden_size": 1024, "num_attention_heads": 8, "head_dim": 128, "intermediate_size": 256, "vocab_size": 256}
        model = of("llama-3.1-8b", **sizes, num_hidden_layers=layers, num_key_value_heads=heads, model_type=kind)
        tensors = list(list_tensors(family(model._origin.family), placed(model)))
        rest = sum(
            math.prod(t.shape) * (144 if t.role in ("key", "merge", "map", "tokens") else 210) // 256
            for t in tensors
            if t.role not in ("value", "down", "small")
        )
        norms = sum(4 * math.prod(t.shape) for t in tensors if t.role == "small")
        eighth = layers // 8
        more = [k for k in range(layers) if k < eighth or k >= 7 * layers // 8 or (k - eighth) % 3 == 2]
        down = 1024 * (210 * len(more) + 144 * (layers - len(more)))
        values = count(model, "q4_k_m") - rest - norms - down
        return (values - heads * 128 * 4 * 210 * len(more)) // (heads * 128 * 4 * (layers - len(more)))

    assert (bits(80, 2), bits(80, 8), bits(79, 2)) == (176, 144, 144)


def test_rows_that_blocks_do_not_divide_fall_back() -> None:
    """Rows of 96 have no block of 256 but three of 32; rows of 24 have none."""
    sizes = {"num_hidden_layers": 8, "hidden_size": 96, "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 6}
    model = of("llama-3.1-8b", **sizes, intermediate_size=64, vocab_size=11)
    by_32 = {"q5_0": 22, "q8_0": 34}
    output, tokens = 11 * 3 * by_32["q8_0"], 11 * 3 * by_32["q5_0"]
    query, merge, gates = 24 * 3 * by_32["q5_0"], 96 * 24 * 2, 2 * 64 * 3 * by_32["q5_0"]
    more = {layer for layer in range(8) if layer < 1 or layer >= 7 or (layer - 1) % 3 == 2}
    value = sum(24 * 3 * by_32["q8_0" if layer in more else "q5_0"] for layer in range(8))
    down = sum(96 * 2 * by_32["q8_0" if layer in more else "q5_0"] for layer in range(8))
    norms = 4 * 96 * (2 * 8 + 1)
    assert count(model, "q4_k_m") == output + tokens + 8 * (2 * query + merge + gates) + value + down + norms


@pytest.mark.parametrize(
    ("name", "kind", "tensor"),
    [
        ("deepseek_v3", "q4_k_m", "model.layers.{l}.self_attn.q_a_proj.weight"),
        ("gpt_oss", "awq", "model.layers.{l}.mlp.experts.gate_up_proj"),
        ("llama", "mxfp4", ""),
    ],
)
def test_what_a_source_does_not_say_is_refused(name: str, kind: str, tensor: str) -> None:
    model = einformer.from_huggingface(config_of(name))
    if tensor:
        with refuses("E605", kind, tensor):
            count(model, kind)
    with refuses("E605", "q3"):
        count(model, "q3")


def test_every_family_is_counted_or_refused() -> None:
    """None ends otherwise, whatever its tensors are."""
    outcomes = set[bool | str]()
    for name in FEW_FAMILIES:
        model = einformer.from_huggingface(config_of(name))
        try:
            outcomes.add(count(model, "q8_0") > 0)
        except einformer.EinformerError as error:
            outcomes.add(error.findings[0].code)
    assert outcomes <= {True, "E605"}


def test_every_kind_has_a_source_and_formats() -> None:
    help_of = str(options.WEIGHTS.settings["help"])
    for name, storage in read_storage().items():
        assert storage.source
        assert {*storage.formats.values(), *storage.more.values(), *storage.eight.values()} <= read_formats().keys()
        assert f" {name}" in help_of


def test_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["count", "llama-3-8b", "--generation", "--context", "8Ki", "--weights", "q4_k_m"]) == 0
    assert "4,912,898,048 bytes, 4.913 GB as q4_k_m: 4.894 bits each" in capsys.readouterr().out
    assert main(["fit", "llama-3-8b", "--generation", "--memory", "8GB", "--solve", "S", "--weights", "q4_k_m"]) == 0
    assert "weights in q4_k_m, cache in bfloat16" in capsys.readouterr().out
    assert main(["count", "llama", "--set", "D=8,A=2,G=1,F=4,L=1,V=7", "--generation", "--weights", "q8_0"]) == 1
    assert "E605" in capsys.readouterr().err
    split = ["fit", "qwen3-14b", "--generation", "--memory", "1GB", "--mesh", "tp=2", "--shard", "tp: g"]
    for flags in (["count", "qwen3-14b"], split):
        with pytest.raises(SystemExit, match="2"):
            main([*flags, "--weights", "q8_0"])
