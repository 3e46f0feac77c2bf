"""Are the texts that are not decoders of one sequence the published models? BERT, T5, ViT and CLIP equal transformers, lifted,
with the same weights; a block of DiT equals the equations of its paper in PyTorch."""

from __future__ import annotations

import copy
import json
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
from tests.oracles.encoders import (
    KINDS,
    SIZES_OF_INPUTS,
    VOCABULARY,
    answer,
    inputs,
    model,
    modeling,
    theirs,
    translated,
    weights,
)
from tests.oracles.interpreters import named_gradients
from tests.oracles.lifted import lifted, state
from tests.refusals import refuses
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


# ------------------------------------------------------------------------------------------------------- an encoder runs once

START = torch.zeros((2, 1), dtype=torch.long)


def continued(plan: str) -> tuple[Any, Tensor]:
    """T5, and a source."""
    return loaded("t5", plan), given("t5")[0][:, :17]


@pytest.mark.parametrize("plan", PLANS)
def test_greedy_text_of_t5_is_that_of_transformers(plan: str) -> None:
    """With weights so large that its text is no repetition."""
    made: Any = copy.deepcopy(theirs("t5"))
    (module, source), draw = continued(plan), torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.normal_(generator=draw, std=1 if parameter.dim() > 1 else 3)
    module.load_state_dict(tensors(translated("t5", state(made))))
    options = {"do_sample": False, "max_new_tokens": 30, "decoder_start_token_id": 0, "eos_token_id": None, "pad_token_id": 0}
    options["use_cache"] = False  # theirs has a layer for each of the encoder, and the decoder has more
    with lifted(modeling("t5")):
        expected = made.generate(source, attention_mask=torch.ones_like(source), **options)
    assert module.generate(START, 30, source=[source]).tolist() == expected.tolist()
    assert len(set(expected[0].tolist())) > 3  # it is text


@pytest.mark.parametrize("plan", PLANS)
def test_a_step_computes_nothing_of_the_encoder(plan: str) -> None:
    """By torch's counter: the second step has the products of its position alone."""
    module, source = continued(plan)
    counts, cache = [], module.cache()
    for _ in range(2):
        with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
            module.decode(source, START, cache=cache)
        counts.append(counter.get_total_flops())
    of_layer = 6 * 30 * 20 + 2 * 30 * 31 + 2 * 20 * (2 + 17)  # maps, MLP, scores and values of 2 positions and of 17
    assert counts[1] == 2 * 2 * (3 * of_layer + 30 * VOCABULARY) < counts[0]


BOTH = """axes
  b: B
  s: S
  t: T
  d: D
  e: E

layer Map(z_d) -> z_d:
  weights W_de, U_ed
  h_e = tanh(z_d W_de)
  return h_e U_ed

layer Look(z_td, c_sd) -> z_td:
  k_sd = Map(c_sd)
  w_ts = Sm_s(z_td k_sd)
  return w_ts k_sd

model Both(c_bsd, z_btd) -> z_btd causal in t:
  h_bsd = Map(c_bsd)
  z_btd <- z_btd + Look(z_btd, h_bsd) + Map(z_btd)
  return z_btd + cumsum_t(Look(z_btd, Map(c_bsd)))
"""


@pytest.mark.parametrize("plan", PLANS)
def test_a_layer_of_both_kinds_is_the_same_in_steps(plan: str) -> None:
    """One map is called with the source and with positions: it keeps nothing, and its callers what it gives."""
    bound = einformer.parse(BOTH).bind(D=5, E=3)
    kept = {entry.full_path for entry in bound.kept if entry.kind == "same"}
    assert kept == {"h", "Look.k", "Look_2.k"}
    module: Any = bound.build(dtype=torch.float64, plan=plan).eval()
    source, z_btd = (torch.randn(2, n, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) for n in (4, 7))
    cache = module.cache()
    found = torch.cat([module.decode(source, part, cache=cache) for part in torch.split(z_btd, [3, 1, 1, 2], 1)], 1)
    with torch.no_grad():
        assert error(found, module(source, z_btd)) < VALUES


def test_a_named_instance_is_not_called_over_two_axes() -> None:
    """What stores weights is one layer: over the source, or over positions."""
    text = BOTH.replace(
        "model Both(c_bsd, z_btd) -> z_btd causal in t:",
        "model Both(c_bsd, z_btd) -> z_btd causal in t:\n  weights shared: Map",
    )
    with refuses("E403", "shared", "z_bsd"):
        einformer.parse(text.replace(" Map(c_bsd)", " shared(c_bsd)").replace(" Map(z_btd)", " shared(z_btd)"))


def test_the_cache_has_the_bytes_that_are_counted() -> None:
    """What the encoder gives, and its keys and values in each layer, whatever is generated."""
    module, source = continued("fast")
    cache = module.cache(size=5)
    module.decode(source, START.expand(2, 5), cache=cache)
    counted = model("t5").cache_bytes("float64", B=2, S=17, T=5)
    assert cache.bytes == counted.total == 8 * 2 * (17 * 30 + 3 * 2 * 17 * 20 + 3 * 2 * 5 * 20)
    assert counted.per_token == 8 * 3 * 2 * 20


def test_memory_of_generation_has_what_an_encoder_gives(capsys: pytest.CaptureFixture[str]) -> None:
    """By the equations; the rules of engines say nothing of it."""
    assert main(["count", "t5-small", "--generation", "--set", "T=64", "--seq", "100", "--batch", "2", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    maps, rows = 6 * 2 * 8 * 64, 2 * 2  # keys and values of all layers; rows, and bytes of a number
    assert told["cache"] == rows * (maps * (100 + 64) + 100 * 512)
    assert all(engine["bytes"] is None for engine in told["engines"].values())


def test_another_source_needs_another_cache() -> None:
    module, source = continued("fast")
    cache = module.cache()
    module.decode(source, START, cache=cache)
    with refuses("E705"):
        module.decode(source.flip(0), START, cache=cache)
    module.decode(source.clone(), START, cache=cache)


def test_a_target_is_rated_as_the_whole_call_does() -> None:
    module, source = continued("fast")
    target = given("t5")[1][:, :9]
    with torch.no_grad():
        logarithms = module(source, target[:, :-1]).log_softmax(-1).gather(-1, target[:, 1:, None])[..., 0].sum(-1)
    assert error(module.log_prob(target[:, :1], target[:, 1:], source=[source]), logarithms) < VALUES
    assert error(module.perplexity(target, source=[source]), (-logarithms / 8).exp()) < VALUES


def test_compiled_steps_of_t5_give_the_same_text() -> None:
    module, source = continued("fast")
    expected = module.generate(START, 12, source=[source])
    module.compile_steps(backend="eager")
    assert module.generate(START, 12, source=[source]).tolist() == expected.tolist()
    torch.compiler.reset()


def test_the_command_answers_a_source(capsys: pytest.CaptureFixture[str]) -> None:
    """The text is the source, and only the target is printed."""
    sizes = {"D": 32, "A": 4, "H": 8, "F": 48, "L": 2, "N": 2}
    written = [f"{letter}={size}" for letter, size in sizes.items()]
    assert main(["generate", "t5", "--set", ",".join(written), "--text", "Once", "--tokens", "6", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module: Any = einformer.load("t5").bind(**sizes, V=256).build().eval()
    tokens = [*module.follow(list(b"Once"), 6)]
    assert found == {"target": "t5", "text": "Once", "continuation": bytes(tokens).decode(errors="replace")}
