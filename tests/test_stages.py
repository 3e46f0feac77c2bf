"""Is a stage of a pipeline a specification like others, and do all stages one after the other compute the whole model?"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import einformer
from einformer import EinformerError
from einformer.cli import main
from einformer.language.stages import make_stage
from tests.few import few
from tests.oracles.ranks import assert_near
from tests.small import PLANS
from tests.test_sharding import MODELS, bound


def build_stages(name: str, count: int, plan: str) -> tuple[Any, list[Any]]:
    """A model with random weights, and its stages with the same."""
    model = bound(name)
    torch.manual_seed(0)
    whole = model.build(plan=plan, dtype=torch.float64).eval()
    for parameter in whole.parameters():
        nn.init.normal_(parameter, std=0.3)
    modules = []
    for number in range(count):
        stage = make_stage(model.spec.layer, model.legend, "l", number, count)
        module = model.stage(number, count).build(plan=plan, dtype=torch.float64).eval()
        own = {stage.find_own(path): weight for path, weight in whole.state_dict().items()}
        module.load_state_dict({path: weight for path, weight in own.items() if path in module.state_dict()})
        modules.append(module)
    return whole, modules


@pytest.mark.parametrize("plan", few(PLANS, {"fast"}))
@pytest.mark.parametrize("name", [name for name, sizes in MODELS.items() if "L" in sizes])
def test_stages_one_after_the_other_compute_the_whole_model(name: str, plan: str) -> None:
    whole, stages = build_stages(name, 2, plan)
    x = torch.randint(20, (2, 5))
    assert_near(nn.Sequential(*stages)(x).detach(), whole(x).detach(), "the output")


def test_the_numbers_of_turns_are_those_of_the_whole_model() -> None:
    text = """axes
  b: B
  s: S
  d: D
  l: L
scalars
  W_l = [1, 2, 3, 4]
  κ_l = l + L
model M(z_bsd) -> y_bsd causal in s:
  weights α_ld
  for l < L:
    z_bsd <- z_bsd + tanh(α_ld z_bsd) W_l (l + 1) / (κ_l L)
  return z_bsd
"""
    model = einformer.parse(text).bind(D=3, L=4)
    whole = model.build(dtype=torch.float64)
    z, parts = torch.randn(1, 2, 3, dtype=torch.float64), []
    for number in range(2):
        parts.append(model.stage(number, 2).build(dtype=torch.float64))
        parts[-1].load_state_dict({"α": whole.state_dict()["α"].chunk(2)[number]})
    assert_near(nn.Sequential(*parts)(z).detach(), whole(z).detach(), "the output")


def test_a_stage_has_what_it_reads() -> None:
    model = bound("llama")
    first, last = model.stage(0, 2), model.stage(1, 2)
    assert first.num_parameters + last.num_parameters == model.num_parameters
    assert str(first.spec.layer.output.name) == str(last.spec.layer.formals[0].name) == "z"
    assert {"E"} == {weight.name for weight in first.spec.layer.weights if weight.kind == "trained"}
    flops = [each.flops(B=2, S=8) for each in (first, last, model)]
    assert flops[0] + flops[1] == flops[2]


@pytest.mark.parametrize(
    ("name", "count", "message"),
    [
        ("llama", 3, "E742 the loop over `l` has 2 turns, which 3 stages cannot share"),
        ("mlp", 2, "E741 `MLP` has no loop over `l`"),
        ("two", 2, "E741 `z`, `x` would pass from stage to stage"),
        ("each", 2, "E741 `n` has a number for each turn"),
    ],
)
def test_what_stages_cannot_share_is_refused(name: str, count: int, message: str) -> None:
    loop = "axes\n  b: B\n  d: D\n  l: L\nmodel M(x_bd) -> z_bd:\n  z_bd = 2 x_bd\n  for l < L:\n    {}\n  return z_bd\n"
    texts = {
        "mlp": "axes\n  d: D\nlayer MLP(z_d) -> z_d:\n  return 2 z_d\n",
        "two": loop.format("z_bd <- z_bd + x_bd"),
        "each": loop.replace("  z_bd = ", "  n_l = l + 1\n  z_bd = ").format("z_bd <- n_l z_bd"),
    }
    model = bound("llama") if name == "llama" else einformer.parse(texts[name]).bind(D=2, **({} if name == "mlp" else {"L": 2}))
    with pytest.raises(EinformerError, match=message):
        model.stage(0, count)


def test_the_command_prints_the_file_of_a_stage(capsys: pytest.CaptureFixture[str]) -> None:
    stage = einformer.model("gpt2").stage(1, 2)
    for options, text in (((), stage.source()), (("--text",), str(stage.spec))):
        assert main(["source", "gpt2", "--stage", "1/2", *options]) == 0
        assert capsys.readouterr().out.rstrip() == text.rstrip()


@pytest.mark.parametrize("stage", ["2/2", "1", "1/0", "a/2", "-1/2"])
def test_a_stage_is_counted_from_zero(stage: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["source", "gpt2", f"--stage={stage}"])
    assert "is not a stage, counted from 0: `0/2`, `1/2`" in capsys.readouterr().err


def test_the_file_of_a_stage_is_that_of_its_model() -> None:
    with pytest.raises(EinformerError, match=r"E741 the stages over `pp` are models of their own"):
        bound("llama").source(mesh="pp=2", shard="pp: l")
