"""Does the emitted PyTorch mean the same on a GPU: values, gradients, low precision, compiled?"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

import einformer
from einformer import EinformerError
from tests.small import PLANS, SMALL, built, error, inputs, model, tensors, weights

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]

TOLERANCE = {torch.float64: 1e-11, torch.float32: 2e-4, torch.bfloat16: 0.15}  # of outputs around 1; TF32 is off


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Products in full precision; Dynamo forgets what it has compiled."""
    torch.backends.cuda.matmul.allow_tf32 = False
    yield
    torch.compiler.reset()


def given(name: str, dtype: torch.dtype, device: str) -> list[Tensor]:
    found = [torch.from_numpy(x) for x in inputs(model(name))]
    return [(x.to(device, dtype) if x.is_floating_point() else x.to(device)) for x in found]


def there(name: str, plan: str, dtype: torch.dtype) -> nn.Module:
    module = model(name).build("cuda", dtype=dtype, plan=plan).eval()
    module.load_state_dict(tensors(weights(model(name))))
    return module


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("name", SMALL)
def test_values(name: str, plan: str, dtype: torch.dtype) -> None:
    """Those of the CPU in float64; in bfloat16 where no router decides between experts."""
    if dtype == torch.bfloat16 and name.startswith(("mixtral", "gpt_oss", "deepseek")):
        dtype = torch.float32
    expected = built(model(name), plan)(*given(name, torch.float64, "cpu"))
    ours = there(name, plan, dtype)(*given(name, dtype, "cuda"))
    assert ours.dtype == dtype
    assert error(ours.double().cpu(), expected) < TOLERANCE[dtype]


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("name", [name for name in SMALL if name != "loss"])
def test_gradients(name: str, plan: str) -> None:
    here, other = built(model(name), plan), there(name, plan, torch.float64)
    here(*given(name, torch.float64, "cpu")).square().sum().backward()
    other(*given(name, torch.float64, "cuda")).square().sum().backward()
    for (path, ours), theirs in zip(other.named_parameters(), here.parameters(), strict=True):
        assert ours.grad is not None, path
        assert theirs.grad is not None, path
        assert error(ours.grad.cpu(), theirs.grad) < TOLERANCE[torch.float64], path


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_gradients_are_finite_in_low_precision(name: str, plan: str, dtype: torch.dtype) -> None:
    module = there(name, plan, dtype).train()
    module(*given(name, dtype, "cuda")).square().mean().backward()
    assert all(p.grad is not None and bool(torch.isfinite(p.grad).all()) for p in module.parameters())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_compiled(name: str) -> None:
    module, compiled = there(name, "fast", torch.float32), there(name, "fast", torch.float32)
    compiled.compile(fullgraph=True)
    x = given(name, torch.float32, "cuda")
    assert error(compiled(*x).cpu(), module(*x).cpu()) < TOLERANCE[torch.float32]


WIDE = {"V": 64, "L": 2, "D": 64, "G": 2, "J": 2, "H": 32, "F": 64, "W": [100, math.inf]}
FLEX: dict[str, dict[str, Any]] = {
    "gemma2": WIDE | {"κ": 1.5},
    "gpt_oss": WIDE | {"X": 4, "T": 2},
    "mistral": {"V": 64, "L": 2, "D": 64, "A": 4, "G": 2, "F": 64, "W": 100},
    "bloom": {"V": 64, "L": 2, "D": 64, "A": 2},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FLEX)
def test_flex(name: str) -> None:
    """Compiled FlexAttention has the values and gradients of the plan `fast`."""
    tokens = torch.randint(0, 64, (2, 300), device="cuda")
    spec: Any = einformer.load(name).bind(**FLEX[name])
    flex, fast = spec.build("cuda", plan="flex"), spec.build("cuda")
    fast.load_state_dict(flex.state_dict())
    flex.compile()
    ours, expected = flex(tokens), fast(tokens)
    assert error(ours.cpu(), expected.detach().cpu().numpy()) < 2e-3
    for result in (ours, expected):
        result.square().mean().backward()
    for (path, mine), theirs in zip(flex.named_parameters(), fast.parameters(), strict=True):
        assert error(mine.grad.cpu(), theirs.grad.cpu().numpy()) < 2e-3, path


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_steps_replayed_as_a_graph_of_cuda(name: str) -> None:
    """With a static cache; the text is that of eager steps."""
    module: Any = there(name, "fast", torch.float32)
    (x_bs,) = given(name, torch.float32, "cuda")
    expected = module.generate(x_bs[:, :4], 6)
    module.compile_steps(mode="reduce-overhead")
    assert torch.equal(module.generate(x_bs[:, :4], 6), expected)


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_a_step_under_autocast(name: str) -> None:
    """Weights stay in float32; values are near those of float32."""
    module = there(name, "fast", torch.float32).train()
    x = given(name, torch.float32, "cuda")
    with torch.autocast("cuda", torch.bfloat16):
        ours = module(*x)
    ours.float().square().mean().backward()
    assert error(ours.detach().float().cpu(), module(*x).detach().cpu().numpy()) < TOLERANCE[torch.bfloat16]
    assert all(p.dtype == p.grad.dtype == torch.float32 for p in module.parameters() if p.grad is not None)


@pytest.mark.slow
def test_blocks_compiled_once() -> None:
    module, compiled = there("llama", "fast", torch.float32), there("llama", "fast", torch.float32)
    compiled.compile_blocks()  # type: ignore[operator]
    x = given("llama", torch.float32, "cuda")
    assert error(compiled(*x).detach().cpu(), module(*x).detach().cpu().numpy()) < TOLERANCE[torch.float32]


def test_an_input_on_another_device_is_refused() -> None:
    with pytest.raises(EinformerError, match="is on cpu, the weights on cuda"):
        there("gpt2", "fast", torch.float32)(*given("gpt2", torch.float32, "cpu"))


def test_meta_weights_materialise_there() -> None:
    module = model("gpt2").build("meta").eval().to_empty(device="cuda")
    module.initialise()
    assert bool(torch.isfinite(module(*given("gpt2", torch.float32, "cuda"))).all())


@pytest.fixture
def group(tmp_path: Path) -> Iterator[None]:
    """A process group of one rank under nccl."""
    dist.init_process_group("nccl", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.parametrize("plan", PLANS)
def test_a_rank_under_nccl(plan: str, tmp_path: Path, group: None) -> None:
    """It starts, computes, clips, steps, decodes, and saves as one process does."""
    spec: Any = model("llama")
    torch.manual_seed(1)
    alone: Any = spec.build("cuda", dtype=torch.float64, plan=plan)
    torch.manual_seed(1)
    rank: Any = spec.build("cuda", dtype=torch.float64, plan=plan, mesh="tp=1", shard="tp: g f v")
    (x_bs,) = given("llama", torch.float64, "cuda")
    for module in (alone, rank):
        module(x_bs).square().sum().backward()
    norm = torch.nn.utils.clip_grad_norm_(alone.parameters(), 0.1)
    assert error(rank.clip_gradients(0.1).cpu(), norm.cpu().numpy()) < TOLERANCE[torch.float64]
    for module in (alone, rank):
        torch.optim.AdamW(module.parameters()).step()
    for path, weight in alone.state_dict().items():
        assert error(rank.state_dict()[path].cpu(), weight.cpu().numpy()) < TOLERANCE[torch.float64], path
    assert torch.equal(rank.eval().generate(x_bs, 5), alone.eval().generate(x_bs, 5))
    rank.save_checkpoint(tmp_path / "first")
    alone.load_checkpoint(tmp_path / "first")
    assert all(torch.equal(weight, rank.state_dict()[path]) for path, weight in alone.state_dict().items())
