"""What else is true of the toy of every family? Step by step it is what it is at once, and its work is counted exactly."""

from __future__ import annotations

import pytest
import torch

import einformer
from tests.oracles.flops import counted
from tests.oracles.of_toys import BATCH, LENGTH, TOLERANCE, filled, made, tokens
from tests.toys import TOYS, config_of

STEPS = [20, 9, *[1] * 8]
COUNTED = [name for name in TOYS if "dynamic" not in name]  # theirs then asks for the values of positions, which meta has not
NOT_MATRICES = ["clamp_", "floor_divide", "log1p", "polar", "view_as_complex", "view_as_real"]


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


@pytest.mark.parametrize("name", COUNTED)
def test_flops_are_theirs(name: str) -> None:
    """On the device meta, with chosen experts only; windows and masks count in full."""
    with torch.device("meta"):
        module = made(name, "batched_mm").eval()
        numbers = torch.ones(BATCH, LENGTH, dtype=torch.long)
    found = counted(lambda: module(input_ids=numbers, attention_mask=numbers, use_cache=False), *NOT_MATRICES).total()
    config = config_of(name)
    if name.startswith("llama4"):  # theirs computes every expert, of those that are not chosen on zeros
        config["num_experts_per_tok"] = config["num_local_experts"]
    assert einformer.from_huggingface(config).flops(B=BATCH, S=LENGTH) == found
