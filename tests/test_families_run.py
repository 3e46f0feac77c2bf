"""Does each family go on as it would have computed the whole, and take the FLOPs that torch counts in theirs?

Toys have every feature of their family on. FLOPs are those of transformers' own forward by `FlopCounterMode`, where
attention and experts are their plain products: every expert computes its own tokens.
"""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from tests.oracles.lifted import run
from tests.oracles.of_toys import BATCH, LENGTH, TOLERANCE, TWICE, filled, modeling, ours, theirs, tokens
from tests.toys import TOYS

CHUNKED = {"mamba2", "mamba2_plain"}  # theirs goes through the sequence in chunks, and that takes other products


def cut_off(module: torch.nn.Module) -> int:
    """The FLOPs of what their convolutions compute beyond the last position, and throw away."""
    return sum(
        2 * BATCH * each.out_channels * each.kernel_size[0] * int(each.padding[0])
        for each in module.modules()
        if isinstance(each, torch.nn.Conv1d)
    )


@pytest.mark.parametrize("name", TOYS)
def test_in_parts_as_at_once(name: str) -> None:
    """Parts of several positions and of one, beyond every window."""
    module, whole = filled(name, "fan_in"), torch.from_numpy(tokens())
    cache = module.cache()
    with torch.no_grad():
        expected = module(whole)
        found = torch.cat([module.decode(part, cache=cache) for part in torch.split(whole, [19, 1, 1, LENGTH - 21], 1)], 1)
    assert (found - expected).abs().max() < TOLERANCE * max(1.0, expected.abs().max())


@pytest.mark.parametrize("name", sorted(TOYS.keys() - TWICE - CHUNKED))
def test_flops_are_those_counted_in_theirs(name: str) -> None:
    module = theirs(name, "fan_in").requires_grad_(False)
    with FlopCounterMode(display=False) as counter:
        run(modeling(name), module, tokens())
    assert ours(name).flops(B=BATCH, S=LENGTH) == counter.get_total_flops() - cut_off(module)
