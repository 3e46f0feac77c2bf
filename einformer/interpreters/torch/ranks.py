"""Joins a module to the ranks of a mesh: checks that all of them build the same, and takes a rank's parts of whole weights."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from einformer.errors import EinformerError, fail
from einformer.language.calls import slot_letters
from einformer.language.sizes import Legend
from einformer.language.specialise import specialise
from einformer.language.tree import Spec
from einformer.language.weights import weights
from einformer.program.sharding import Sharding


def check_alike(mesh: Any, built: object) -> None:
    """Raises EinformerError E745 on every rank if ranks build different things; `built` is an error where one has failed."""
    digest = hashlib.sha256(repr(built).encode()).digest()[:7]
    own = torch.tensor(int.from_bytes(digest, "big"), device=mesh.device_type)
    ends = torch.stack([own, -own])
    for axis in mesh.mesh_dim_names:
        dist.all_reduce(ends, dist.ReduceOp.MAX, group=mesh.get_group(axis))
    if isinstance(built, EinformerError):
        raise built
    if int(ends[0]) != -int(ends[1]):
        message, fix = (
            "the ranks build different modules",
            "one specification with the same sizes and map of letters on each rank",
        )
        raise fail("E745", message, fix=fix)


class Parts:
    """What the module of a rank can do: take its parts of whole weights, and join its logits to those of others."""

    recipe: Any
    mesh: Any

    @property
    def sharding(self) -> Sharding:
        """The axes of the mesh, and the map of letters."""
        sharding: Sharding = self.recipe.plan.sharding
        return sharding

    def join_logits(self, logits: Tensor) -> Tensor:
        """The logits of all tokens: those of each rank, one after the other."""
        layer = next(layer for layer in self.recipe.spec.layers if layer.name == self.recipe.name)
        axis = self.sharding.axis(slot_letters(layer.output)[-1])
        return gather(logits, logits.dim() - 1, self.mesh, axis) if axis else logits

    def agree(self, token_b: Tensor) -> Tensor:
        """The tokens of the first of the ranks that compute the same rows, so that draws agree too."""
        for axis, _ in self.sharding.mesh:
            if axis not in self.sharding.rows:
                token_b = gather(token_b[None], 0, self.mesh, axis)[0]
        return token_b

    def load_state_dict(self, state_dict: Mapping[str, Tensor], *more: Any, **named: Any) -> Any:
        """Loads weights. A weight with the shape that it has in the whole model is cut: this rank takes its part."""
        loading: Any = super()
        return loading.load_state_dict(self.take(state_dict), *more, **named)

    def take(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """This rank's parts of whole weights, by path; a weight that is a part already stays."""
        recipe = self.recipe
        cuts = find_cuts(recipe.spec, recipe.name, recipe.legend, self.sharding)
        return {path: self._cut(weight, cuts.get(path, ((), {}))) for path, weight in state.items()}

    def _cut(self, weight: Tensor, cuts: tuple[tuple[int, ...], dict[int, str]]) -> Tensor:
        shape, dims = cuts
        if tuple(weight.shape) == shape:
            for dim, axis in dims.items():
                weight = weight.chunk(dict(self.sharding.mesh)[axis], dim)[self.mesh.get_local_rank(axis)]
        return weight


def gather(x: Tensor, dim: int, mesh: Any, axis: str) -> Tensor:
    """The tensors of all ranks of an axis of a mesh, one after the other along a dim."""
    group, x = mesh.get_group(axis), x.contiguous()
    parts = [torch.empty_like(x) for _ in range(dist.get_world_size(group))]
    dist.all_gather(parts, x, group=group)
    return torch.cat(parts, dim)


def find_cuts(spec: Spec, name: str, legend: Legend, sharding: Sharding) -> dict[str, tuple[tuple[int, ...], dict[int, str]]]:
    """The shape of each whole weight that is split, by path, and the axis of the mesh for each of its split dims."""
    special = specialise(spec, name)
    model = next(layer for layer in special.layers if layer.name == name)
    cuts = dict[str, tuple[tuple[int, ...], dict[int, str]]]()
    for path, placed in weights(special, model, legend).items():
        dims = {dim: axis for dim, index in enumerate(placed.weight.indices) if (axis := sharding.axis(index.letter))}
        if dims:
            cuts[path] = placed.shape, dims
    return cuts
