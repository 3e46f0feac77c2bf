"""Is bfloat16 as good as it can be? Our error is at most twice the one that transformers makes in bfloat16."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn

from tests.oracles.families import FAMILIES, answer, theirs, weights
from tests.small import PLANS, SMALL, built, inputs, tensors
from tests.small import model as small
from tests.test_architectures import model


def halved(module: nn.Module) -> nn.Module:
    """As `from_pretrained(dtype=bfloat16)` loads it: weights narrow, angles in float32."""
    module = copy.deepcopy(module)
    for parameter in module.parameters():
        parameter.data = parameter.data.bfloat16()
    for buffer in module.buffers():
        buffer.data = buffer.data.float() if buffer.is_floating_point() else buffer.data
    return module


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_bfloat16_errs_at_most_twice_as_much_as_transformers(name: str, plan: str) -> None:
    """Root mean square over the logits, against float64."""
    tokens, exact = torch.from_numpy(FAMILIES[name].inputs), answer(name, "fan_in")
    ours = model(name).build(dtype=torch.bfloat16, plan=plan).eval()
    ours.load_state_dict(tensors(weights(name, "fan_in")))
    with torch.no_grad():
        mine = ours(tokens)
        other = halved(theirs(name, "fan_in"))(tokens).logits
    assert mine.dtype == torch.bfloat16
    error, margin = (float(np.sqrt(((x.double().numpy() - exact) ** 2).mean())) for x in (mine, other))
    assert 0 < error <= 2 * margin


@pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight")  # a norm that torch fuses in one dtype only
@pytest.mark.parametrize("name", [name for name in SMALL if name != "loss"])
def test_a_step_under_autocast_learns_nearly_the_same(name: str) -> None:
    """Products are in bfloat16; weights and gradients stay in float32, and point where those of float32 point."""
    bound, slopes = small(name), list[torch.Tensor]()
    given = [torch.from_numpy(array) for array in inputs(bound)]
    given = [x.float() if x.is_floating_point() else x for x in given]
    for narrow in (False, True):
        module = built(bound, "fast", torch.float32)
        with torch.autocast("cpu", torch.bfloat16, enabled=narrow):
            result = module(*given)
        assert result.dtype == (torch.bfloat16 if narrow else torch.float32)
        result.float().square().mean().backward()
        grads = [parameter.grad for parameter in module.parameters()]
        assert all(grad is not None and grad.dtype == torch.float32 for grad in grads)
        slopes.append(torch.cat([grad.flatten() for grad in grads if grad is not None]))
    assert float(torch.cosine_similarity(slopes[0], slopes[1], dim=0)) > 0.98
