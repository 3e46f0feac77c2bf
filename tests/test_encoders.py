"""Are the texts that are not decoders of one sequence the published models? BERT, T5, ViT and CLIP equal transformers, lifted,
with the same weights; a block of DiT equals the equations of its paper in PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as fn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

import einformer
from einformer.architectures import models
from einformer.cli import main
from tests.oracles.encoders import KINDS, SIZES_OF_INPUTS, answer, inputs, model, modeling, theirs, translated, weights
from tests.oracles.interpreters import named_gradients
from tests.oracles.lifted import lifted
from tests.small import PLANS, error, tensors

VALUES = 1e-12


def given(name: str) -> list[Tensor]:
    return [torch.from_numpy(x) for x in inputs(name).values()]


def loaded(name: str, plan: str) -> nn.Module:
    module = model(name).build(dtype=torch.float64, plan=plan).eval()
    module.load_state_dict(tensors(weights(name)))
    return module


@pytest.mark.parametrize("name", KINDS)
def test_weights_are_theirs(name: str) -> None:
    assert {path: weight.shape for path, weight in weights(name).items()} == model(name).weight_shapes()


@pytest.mark.parametrize("name", KINDS)
def test_reference_is_transformers(name: str) -> None:
    assert error(model(name).reference(*inputs(name).values(), weights=weights(name)), answer(name)) < VALUES


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("name", KINDS)
def test_values_are_theirs(name: str, plan: str) -> None:
    with torch.no_grad():
        assert error(loaded(name, plan)(*given(name)), answer(name)) < VALUES


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("name", KINDS)
def test_gradients_are_theirs(name: str, plan: str) -> None:
    """Of a random sum of the output, for every weight."""
    ours, direction = loaded(name, plan), np.random.default_rng(2).standard_normal(answer(name).shape)
    (ours(*given(name)) * torch.from_numpy(direction)).sum().backward()
    with lifted(modeling(name)):
        other = theirs(name)
        other.zero_grad()
        (other(**tensors(inputs(name)))[KINDS[name].answer] * torch.from_numpy(direction)).sum().backward()
    expected = translated(name, {key: x.grad.numpy() for key, x in other.named_parameters() if x.grad is not None})
    found = named_gradients(ours)
    assert found.keys() == expected.keys()
    assert max(error(found[path], expected[path]) for path in found) < VALUES


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("name", KINDS)
def test_flops_are_theirs(name: str, plan: str) -> None:
    """Of the products, by torch's counter, theirs and ours."""
    counters = FlopCounterMode(display=False), FlopCounterMode(display=False)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), counters[0]:
        loaded(name, plan)(*given(name))
    with lifted(modeling(name)), torch.no_grad(), counters[1]:
        theirs(name)(**tensors(inputs(name)))
    assert model(name).flops(**SIZES_OF_INPUTS[name]) == counters[0].get_total_flops() == counters[1].get_total_flops()


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize(("encoder", "decoder"), [(3, 2), (2, 3), (2, 2)])
def test_the_config_of_an_emitted_t5_says_how_often_each_loop_turns(encoder: int, decoder: int, plan: str) -> None:
    """Whichever of the two loops was longer when the file was written."""
    sizes = {"D": 30, "A": 5, "H": 4, "F": 31, "V": 53}
    spec, inputs = einformer.load("t5"), [torch.randint(53, (2, 7)), torch.randint(53, (2, 5))]
    bound = spec.bind(**sizes, L=encoder, N=decoder)
    built: Any = bound.build(plan=plan).eval()
    assert sum(weight.numel() for weight in built.parameters()) == bound.num_parameters
    for written in ({"L": 2, "N": 2}, {"L": 3, "N": 2}):
        file: dict[str, Any] = {"__name__": "emitted"}
        exec(compile(spec.bind(**sizes, **written).source(plan), "emitted", "exec", dont_inherit=True), file)
        module = file["T5"](file["Config"](L=encoder, N=decoder)).eval()
        module.load_state_dict(built.state_dict())
        assert torch.equal(module(*inputs), built(*inputs))


@pytest.mark.parametrize("plan", PLANS)
def test_t5_continues_its_target(plan: str) -> None:
    """Token by token beside the whole source."""
    module: Any = loaded("t5", plan)
    (source, target), cache = given("t5"), module.cache()
    parts = [target[:, :150], *(target[:, i : i + 1] for i in range(150, 160)), target[:, 160:]]
    with torch.no_grad():
        found = torch.cat([module.decode(source, part, cache=cache) for part in parts], 1)
    assert error(found, answer("t5")) < VALUES


@pytest.mark.parametrize("plan", PLANS)
def test_dit_is_its_equations(plan: str) -> None:
    """Peebles and Xie 2023, section 3.2, a block with adaLN: six numbers of a feature from the condition."""
    bound = einformer.load("dit").bind(D=30, A=5)
    module, draw = bound.build(dtype=torch.float64, plan=plan).eval(), torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(generator=draw, std=0.3)
    w, (z, c) = module.state_dict(), (torch.randn(2, 7, 30, dtype=torch.float64), torch.randn(2, 30, dtype=torch.float64))
    shift, scale, gate, shift_2, scale_2, gate_2 = (
        torch.einsum("nik,bi->nbk", w["A"], fn.silu(c)) + w["α"][:, None]
    ).unsqueeze(2)
    normed = fn.layer_norm(z, (30,), eps=1e-6) * (1 + scale) + shift
    q, k, v = (
        torch.einsum("bsd,dea->base", normed, w[f"Attention.{x}"]) + w[f"Attention.{y}"].T[:, None]
        for x, y in zip("QKV", "ακν", strict=True)
    )
    heads = (q @ k.mT / 6**0.5).softmax(-1) @ v
    z_1 = z + gate * (torch.einsum("base,ead->bsd", heads, w["Attention.O"]) + w["Attention.ω"])
    normed = fn.layer_norm(z_1, (30,), eps=1e-6) * (1 + scale_2) + shift_2
    hidden = fn.gelu(normed @ w["MLP.W"] + w["MLP.φ"], approximate="tanh")
    with torch.no_grad():
        assert error(module(z, c), z_1 + gate_2 * (hidden @ w["MLP.U"] + w["MLP.υ"])) < VALUES


REPORTED = {
    "bert": "D=30,A=5,F=31,L=2,V=53,K=41",
    "t5": "D=30,A=5,H=4,F=31,L=2,N=3,V=53,T=9",
    "vit": "D=30,A=5,F=31,L=2,V=7,N=3,M=5,P=4",
    "clip": "D=30,A=5,F=31,L=2,V=53,K=41,T=11,R=3,P=4,G=20,M=5,Z=23,W=3,N=2",
    "dit": "D=30,A=5",
}


@pytest.mark.parametrize("name", REPORTED)
def test_every_check_of_a_report_holds(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Of causality too, where only the target comes in time."""
    assert main(["report", name, "--set", REPORTED[name]]) == 0
    assert "✗" not in capsys.readouterr().out


@pytest.mark.parametrize("name", [name for name, row in models().items() if row.architecture in KINDS])
def test_parameters_of_published_models(name: str) -> None:
    assert einformer.model(name).num_parameters == PUBLISHED[name]


PUBLISHED = {
    "bert-base-uncased": 109_514_298,  # with the head for masked tokens
    "t5-small": 60_506_624,
    "vit-base-patch16-224": 86_567_656,
    "clip-vit-base-patch32": 151_277_313,
}
