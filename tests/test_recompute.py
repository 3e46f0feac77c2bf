"""Does a module that computes its blocks again in the backward pass keep what is counted, and learn the same?"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import set_checkpoint_early_stop
from torch.utils.flop_counter import FlopCounterMode

from einformer import EinformerError
from einformer.objects import Model
from tests.small import BATCH, LENGTH, SMALL, built, error, inputs, model, tensors, weights

WITHOUT_BLOCKS = {"delta_net", "mamba2", "loss"}
NAMES = [name for name in SMALL if name not in WITHOUT_BLOCKS]


def again(bound: Model, plan: str = "fast") -> Any:
    module = bound.build(dtype=torch.float64, plan=plan, recompute="full").eval()
    module.load_state_dict(tensors(weights(bound)))
    return module


@pytest.mark.parametrize("name", NAMES)
def test_values_and_gradients_stay(name: str) -> None:
    """Dropout too: what is computed again draws the same numbers."""
    ours, other, given = again(model(name)), built(model(name), "fast"), list(map(torch.from_numpy, inputs(model(name))))
    for module in (ours.train(), other.train()):
        torch.manual_seed(3)
        module(*given).square().sum().backward()
    for (path, mine), theirs in zip(ours.named_parameters(), other.parameters(), strict=True):
        assert mine.grad is not None, path
        assert theirs.grad is not None, path
        assert error(mine.grad, theirs.grad) < 1e-12, path


@pytest.mark.parametrize("name", NAMES)
def test_flops_are_those_counted(name: str) -> None:
    """The whole block again. By itself torch stops once it has what it needs, mostly before the last product."""
    bound = model(name)
    module = bound.build("meta", recompute="full")
    given = [torch.from_numpy(array) for array in inputs(bound)]
    given = [x.to("meta", torch.float32 if x.is_floating_point() else x.dtype) for x in given]
    with FlopCounterMode(display=False) as counter, set_checkpoint_early_stop(False):
        torch.autograd.backward(module(*given).sum())
    assert counter.get_total_flops() == bound.flops(B=BATCH, S=LENGTH, phase="training", recompute="full", convention="fast")


class Living(TorchDispatchMode):
    """The storages that operations make, as long as something refers to them; views of weights make none."""

    def __init__(self, weights: Iterable[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.there = {weight.untyped_storage()._cdata for weight in weights}
        self.made: dict[int, tuple[StorageWeakRef, int]] = {}

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, Tensor) and tensor.untyped_storage()._cdata not in self.there:
                reference = StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]
                self.made[reference.cdata] = reference, tensor.untyped_storage().nbytes()
        return result

    def count(self) -> int:
        alive = [size for reference, size in self.made.values() if not reference.expired()]  # type: ignore[no-untyped-call]
        return sum(alive)


def kept(bound: Model, build: Callable[[Model], Any]) -> int:
    """The bytes that a forward pass leaves alive, beside its output."""
    module, given = build(bound).train(), list(map(torch.from_numpy, inputs(bound)))
    with Living(module.parameters()) as living:
        result = module(*given)
    size: int = living.count() - result.untyped_storage().nbytes()
    return size


@pytest.mark.parametrize("name", ["gpt2", "llama", "bloom", "mistral", "gemma2", "deepseek_v3"])
def test_a_block_more_keeps_its_input_alone(name: str) -> None:
    """As many bytes more as the count says, in float64; without the choice there are more. Gemma 2 gives each turn a mask of
    its own, in float32, that the count leaves out."""
    bounds = [model(name).bind(L=turns, **({"W": 4} if name == "gemma2" else {})) for turns in (4, 5)]
    first, second = (kept(bound, again) for bound in bounds)
    counted = [bound.memory(B=BATCH, S=LENGTH, precision="float32", recompute="full").activations * 2 for bound in bounds]
    assert second - first == counted[1] - counted[0] + 4 * LENGTH**2 * (name == "gemma2")
    assert counted[1] - counted[0] == BATCH * LENGTH * bounds[0].legend.length("d") * 8
    whole = [kept(bound, lambda bound: built(bound, "fast")) for bound in bounds]
    assert whole[1] - whole[0] > 4 * (second - first)


@pytest.mark.parametrize("name", sorted(WITHOUT_BLOCKS))
def test_a_model_without_blocks_is_refused(name: str) -> None:
    with pytest.raises(EinformerError, match="E605 there is no recomputation of"):
        model(name).source(recompute="full")


@pytest.mark.parametrize("method", ["source", "build"])
def test_a_rank_is_refused(method: str) -> None:
    with pytest.raises(EinformerError, match="E605 there is no recomputation of a rank of a mesh"):
        getattr(model("llama"), method)(mesh="tp=3", shard="tp: g", recompute="full")


def test_other_choices() -> None:
    """SDPA keeps no scores, so that nothing is left for `selective`; decoding has no gradient."""
    with pytest.raises(EinformerError, match="E605 there is no recomputation of a module `selective`"):
        model("llama").build(recompute="selective")
    assert "checkpoint" not in again(model("llama")).recipe.cached_source()
    assert "checkpoint(block, " in model("llama").source("notation", recompute="full")
