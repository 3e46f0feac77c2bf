"""Does a device of a mesh hold and exchange what is counted for it, and is the plan that is told to be best the best one?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from einformer.interpreters.count import rules
from einformer.interpreters.count.numbers import Numbers
from einformer.interpreters.torch import module as modules
from einformer.objects import Model
from tests.few import few
from tests.oracles.ranks import Mesh, Whole, build_rank, read, run_on_ranks
from tests.test_sharding import MAPS, bound

# ------------------------------------------------------------------------------------------------------- what it holds

FEW = [MAPS[1], MAPS[3], MAPS[4]]
LIKE_TORCH = {"gpt2", "llama", "gemma3", "bloom", "gptj", "linear_attention"}  # experts and convolutions are kept otherwise


def count_saved(module: nn.Module, inputs: Sequence[Tensor]) -> Counter[int]:
    """How often torch saves a storage of so many numbers for the backward pass; weights are left out."""
    storages = dict[int, Tensor]()

    def pack(tensor: Tensor) -> Tensor:
        storages[tensor.untyped_storage()._cdata] = tensor.detach()
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        output = module.train()(*(x.detach() for x in inputs))
    assert output.requires_grad
    weights = {tensor.untyped_storage()._cdata for tensor in (*module.parameters(), *module.buffers())}
    kept = (tensor for place, tensor in storages.items() if place not in weights)
    return Counter(tensor.untyped_storage().nbytes() // tensor.element_size() for tensor in kept)


def count_ours(model: Model, mesh: Any, shard: str) -> Counter[int]:
    legend, sharding = model._at(model.inputs(batch=2, length=4), mesh, shard)
    sizes, counted = Numbers(legend, shares=sharding.shares), Counter[int]()
    for row in rules.count_activations(model.spec.tree, model.spec.name, sizes, 1):
        counted[row.each] += row.times
    return counted


def run_parts(whole: Whole, mesh: Any, plan: str) -> list[tuple[int, Counter[int]]]:
    """The numbers of the parameters of each rank, and what torch saves there."""

    def run(rank: Mesh) -> tuple[int, Counter[int]]:
        module, place = build_rank(whole.model, whole.sharding, plan, rank), rank.world.places()[rank.rank]
        formals = whole.model.spec.layer.formals
        parts = [whole.part_of(x.detach(), formal, place) for x, formal in zip(whole.inputs, formals, strict=True)]
        return sum(parameter.numel() for parameter in module.parameters()), count_saved(module, parts)

    return run_on_ranks(mesh, run)[0]


@pytest.mark.parametrize("case", few(MAPS, FEW), ids=lambda case: f"{case[0]} {case[2]}")
def test_a_device_holds_the_weights_and_saves_the_values_that_are_counted(case: tuple[str, dict[str, int], str]) -> None:
    name, mesh, shard = case
    model = bound(name)
    whole = Whole(model, read(model, mesh, shard), "notation")
    for numbers, saved in run_parts(whole, mesh, "notation"):
        assert 4 * numbers == model.memory(precision="float32", mesh=mesh, shard=shard, B=2, S=4).parameters
        if name in LIKE_TORCH:
            assert not count_ours(model, mesh, shard) - saved
    alone = modules.build(model._recipe("notation"), dtype=torch.float64)
    assert name not in LIKE_TORCH or not count_ours(model, "", "") - count_saved(alone, whole.inputs)
