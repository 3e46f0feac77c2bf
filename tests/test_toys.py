"""What else is true of the toy of every family? Step by step it is what it is at once, and its work is counted exactly."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import einformer
from tests.oracles.flops import counted
from tests.oracles.of_toys import BATCH, LENGTH, TOLERANCE, filled, made, ours, tokens
from tests.test_sparse import MIXTURES, work
from tests.toys import EACH, TOYS, config_of

STEPS = [20, 9, *[1] * 8]
CHUNKED = (
    "mamba2",
    "qwen3_next",
    "qwen3_5",
    "kimi_linear",
    "bailing_hybrid",
    "bamba",
    "falcon_h1",
    "olmo_hybrid",
    "nemotron_h",
    "granitemoehybrid",
    "minimax_text",
)  # theirs goes through a sequence in chunks: other products
BY_EXPERTS = "jetmoe"  # the attention of each expert is computed, where theirs computes that of chosen ones
WITH_IDENTITY = "longcat"  # some of the chosen experts compute nothing, which data decide
TWICE = "diffllama"  # theirs computes the scores once for each half of the values
OUTER = "xlstm"  # theirs multiplies a key by a value as matrices
COUNTED = [
    each
    for name, each in zip(TOYS, EACH, strict=True)
    if not name.startswith((*CHUNKED, BY_EXPERTS, WITH_IDENTITY, OUTER, TWICE))
]
ON_CPU = (
    "dbrx",
    "phimoe_longrope",
    "jamba",
    "lfm2",
    "lfm3",
    "llama_dynamic",
    "gpt_neox_dynamic",
    "gemma3n",
    BY_EXPERTS,
    WITH_IDENTITY,
)  # theirs asks for values, which meta has not
NOT_MATRICES = ["clamp_", "floor_divide", "log1p", "polar", "view_as_complex", "view_as_real", "expm1", "linalg_vector_norm"]
NOT_MATRICES += ["index_select", "index_add", "index_add_", "all", "nonzero", "_local_scalar_dense", "aminmax", "unbind"]
NOT_MATRICES += ["log_sigmoid_forward", "erfinv", "std", "_is_all_true"]


@pytest.mark.slow
@pytest.mark.parametrize("name", TOYS)
def test_decoding_is_the_full_forward(name: str) -> None:
    """With a cache, in chunks and position by position, beyond every window and chunk."""
    module, sequence = filled(name, "fan_in"), torch.from_numpy(tokens())
    cache = module.cache()
    with torch.no_grad():
        whole = module(sequence)
        parts = torch.cat([module.decode(part, cache=cache) for part in torch.split(sequence, STEPS, 1)], 1)
    assert (parts - whole).abs().max() < TOLERANCE * whole.abs().max().clamp(min=1)


def cut_off(module: torch.nn.Module) -> int:
    """The FLOPs of what their convolutions compute beyond the last position, and throw away."""
    convolutions = [each for each in module.modules() if isinstance(each, torch.nn.Conv1d)]
    return sum(2 * BATCH * each.out_channels * each.kernel_size[0] * int(each.padding[0]) for each in convolutions)


def theirs(name: str, watch: Callable[[torch.nn.Module], object] = lambda module: None) -> int:
    """What torch counts of the forward of transformers, without what it throws away."""
    with torch.device("cpu" if name.startswith(ON_CPU) else "meta"):
        module = made(name, "batched_mm").eval().requires_grad_(False)
        watch(module)
        numbers = torch.ones(BATCH, LENGTH, dtype=torch.long)
    run = lambda: module(input_ids=numbers, attention_mask=numbers, use_cache=False)  # noqa: E731
    return counted(run, *NOT_MATRICES).total() - cut_off(module)


@pytest.mark.parametrize("name", COUNTED)
def test_flops_are_theirs(name: str) -> None:
    """On the device meta, with chosen experts only; windows and masks count in full."""
    config = config_of(name)
    if name.startswith("llama4"):  # theirs computes every expert, of those that are not chosen on zeros
        config["num_experts_per_tok"] = config["num_local_experts"]
    assert einformer.from_huggingface(config).flops(B=BATCH, S=LENGTH) == theirs(name)


@pytest.mark.parametrize("name", [name for name in TOYS if name.startswith(WITH_IDENTITY)])
def test_flops_of_experts_that_are_the_identity(name: str) -> None:
    """All chosen experts count; theirs computes those that are not the identity, as many as its router says."""
    keys, choices = config_of(name), list[torch.Tensor]()

    def watch(module: torch.nn.Module) -> None:
        for part in module.modules():
            if type(part).__name__ == "LongcatFlashTopkRouter":
                part.register_forward_hook(lambda part, given, answer: choices.append(answer[2]))

    counted_of_theirs = theirs(name, watch)
    identities = sum(int((chosen >= keys["n_routed_experts"]).sum()) for chosen in choices)
    assert identities > 0
    expert = 6 * keys["hidden_size"] * keys["expert_ffn_hidden_size"]
    assert ours(name).flops(B=BATCH, S=LENGTH) == counted_of_theirs + identities * expert


@pytest.mark.parametrize("name", [name for name in TOYS if name.startswith(TWICE)])
def test_flops_but_for_scores_that_are_computed_twice(name: str) -> None:
    """Each half of the values has a call of the attention in theirs; two products of vectors are sums of their elements."""
    keys = config_of(name)
    scores, vectors = 2 * BATCH * LENGTH**2 * keys["num_attention_heads"] * keys["head_dim"], 2 * 2 * keys["head_dim"]
    assert ours(name).flops(B=BATCH, S=LENGTH) == theirs(name) - (scores - vectors) * keys["num_hidden_layers"]


@pytest.mark.parametrize("name", [name for name in TOYS if name.startswith(OUTER)])
def test_flops_but_for_outer_products(name: str) -> None:
    """A key times a value sums nothing; as matrices it counts with theirs."""
    keys = config_of(name)
    wide, size = (int(keys["hidden_size"] * keys[f"{part}_dim_factor"]) for part in ("qk", "v"))
    outer = 2 * BATCH * LENGTH * wide * size // keys["num_heads"] * keys["num_hidden_layers"]
    assert ours(name).flops(B=BATCH, S=LENGTH) == theirs(name) - outer


@pytest.mark.parametrize("name", [name for name in TOYS if name.startswith(BY_EXPERTS)])
def test_flops_of_attention_by_experts(name: str) -> None:
    """What must be computed is theirs, of whose pairs of positions a mask leaves half; the plan `fast` computes all experts."""
    keys, toy = config_of(name), ours(name)
    heads, experts = keys["num_key_value_heads"] * keys["kv_channels"], keys["num_local_experts"]
    maps, pairs = 4 * LENGTH * keys["hidden_size"] * heads, 4 * LENGTH**2 * heads  # of one expert: Q and O, scores and values
    layers, chosen = BATCH * keys["num_hidden_layers"], keys["num_experts_per_tok"]
    masked = 4 * (LENGTH * (LENGTH - 1) // 2) * heads
    assert toy.flops(B=BATCH, S=LENGTH, convention="exact") == theirs(name) - layers * chosen * masked
    assert toy.flops(B=BATCH, S=LENGTH) == theirs(name) + layers * (experts - chosen) * (maps + pairs)


@pytest.mark.parametrize("name", [each for name, each in zip(TOYS, EACH, strict=True) if name not in MIXTURES])
def test_flops_of_what_is_emitted_are_those_counted(name: str) -> None:
    """By torch's counter; those of sparse models are in `tests/test_sparse.py`."""
    toy = ours(name)
    assert work(toy.build().eval(), torch.arange(2 * 11).reshape(2, 11)) == toy.flops(B=2, S=11, convention="fast")
