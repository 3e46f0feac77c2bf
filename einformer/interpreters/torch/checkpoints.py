"""Saves weights and the state of an optimizer as a checkpoint of torch.distributed, for any other mesh or for one process.

A checkpoint is written beside its place and moved there when all ranks have written.
"""

from __future__ import annotations

import functools
import os
import pathlib
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.checkpoint import state_dict_loader, state_dict_saver
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

from einformer.errors import fail
from einformer.interpreters.torch.ranks import list_paths, list_views

Optimizer = torch.optim.Optimizer
STATE = "optimizer."  # before the paths of what an optimizer has of weights


# Writes a new folder. Raises EinformerError E745, E801; then there is no such folder.
def save(module: Any, folder: pathlib.Path, optimizer: Optimizer | None) -> None:
    unfinished = folder.with_name(f".unfinished-{folder.name}")
    module.do_alone(lambda: _make_room(folder, unfinished))
    tensors = {path: _place(module, path, tensor) for path, tensor in list_tensors(module, optimizer)}
    work = functools.partial(state_dict_saver.save, tensors, checkpoint_id=unfinished)
    names = sorted(tensors) if module.recipe.piped is None else []  # stages have weights of their own
    module.meet(lambda: _exchange(module, work, "E801", f"`{unfinished}` cannot be written"), names, everywhere=True)
    module.do_alone(lambda: os.replace(unfinished, folder))


# Reads a folder that `save` wrote. Raises EinformerError E701, E704, E745, E802, and then changes nothing.
def load(module: Any, folder: pathlib.Path, optimizer: Optimizer | None) -> None:
    module.meet(lambda: _prepare(module, folder, optimizer), everywhere=True)
    opened = dict[Tensor, Tensor]()
    own = dict(list_tensors(module, optimizer, functools.partial(_open, opened)))
    read = {path: _place(module, path, torch.empty_like(tensor)) for path, tensor in own.items()}
    work = functools.partial(state_dict_loader.load, read, checkpoint_id=folder)
    module.meet(lambda: _exchange(module, work, "E802", f"`{folder}` cannot be read"), everywhere=True)
    with torch.no_grad():
        for path, tensor in own.items():
            new = read[path]
            tensor.copy_(new.to_local() if isinstance(new, DTensor) else new)
        for shared, whole in opened.items():
            assert isinstance(shared, DTensor)
            shared.copy_(distribute_tensor(whole, shared.device_mesh, shared.placements, src_data_rank=None))


# What ranks of the batch share is gathered.
def _gather(tensor: Tensor) -> Tensor:
    whole: Tensor = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
    return whole.detach()


# What ranks of the batch share is read whole: into a tensor that holds nothing yet.
def _open(opened: dict[Tensor, Tensor], tensor: Tensor) -> Tensor:
    if not isinstance(tensor, DTensor):
        return tensor.detach()
    return opened.setdefault(tensor, torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device))


def _find_size(tensor: Tensor) -> Tensor:
    return torch.empty(tensor.shape, dtype=tensor.dtype, device="meta")


# Names are paths in the whole model. A number of an optimizer stands under each weight. `of` gives the numbers of a parameter.
def list_tensors(
    module: Any, optimizer: Optimizer | None, of: Callable[[Tensor], Tensor] = _gather
) -> Iterator[tuple[str, Tensor]]:
    for inner in module.modules():
        if isinstance(inner, FSDPModule):
            inner.reshard()  # else these are no parameters of the optimizer
    yield from ((module.find_whole(path), view) for path, view in list_views(module, of))
    state = {} if optimizer is None else optimizer.state
    shapes = {name: value.shape for own in state.values() for name, value in own.items() if isinstance(value, Tensor)}
    for name, shape in sorted(shapes.items()):
        for path, view in list_views(module, functools.partial(_spread, state, name, of)):
            yield f"{STATE}{module.find_whole(path)}.{name}", view if shape else view[(0,) * view.dim()]


def _spread(
    state: Mapping[Tensor, Mapping[str, Tensor]], name: str, of: Callable[[Tensor], Tensor], parameter: Tensor
) -> Tensor | None:
    value = state.get(parameter, {}).get(name)
    return None if value is None else of(value).expand(parameter.shape)


def _place(module: Any, path: str, tensor: Tensor) -> Tensor:
    stages = () if module.recipe.piped is None else (module.recipe.piped.axis,)
    names = () if module.mesh is None else tuple(axis for axis in module.mesh.mesh_dim_names if axis not in stages)
    if not names:
        return tensor.contiguous()
    axes = {axis: dim for dim, axis in find_dims(module, path).items() if tensor.dim()}
    placements = [Shard(axes[axis]) if axis in axes else Replicate() for axis in names]
    return DTensor.from_local(tensor.contiguous(), module.mesh[names] if stages else module.mesh, placements, run_check=False)


def find_dims(module: Any, path: str) -> Mapping[int, str]:
    weight = path.removeprefix(STATE).rpartition(".")[0] if path.startswith(STATE) else path
    dims: Mapping[int, str] = module.cuts.get(weight, ((), {}))[1]
    return dims


def _make_room(folder: pathlib.Path, unfinished: pathlib.Path) -> None:
    if folder.exists():
        raise fail("E801", f"`{folder}` is there already", fix="a new folder for each checkpoint")
    try:
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
    except OSError as error:
        raise fail("E801", f"`{folder}` cannot be written: {error}") from error


def _exchange(module: Any, work: Callable[..., object], code: str, failure: str) -> None:
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "torch.distributed is disabled", UserWarning)
            work(no_dist=_is_alone(module))
    except (CheckpointException, RuntimeError, OSError) as error:
        raise fail(code, f"{failure}: {error}") from error


def _is_alone(module: Any) -> bool:
    if module.mesh is not None and module.mesh.size() != dist.get_world_size():
        message = f"the mesh has {module.mesh.size()} ranks, the process group {dist.get_world_size()}"
        raise fail("E745", message, fix="a mesh over all ranks, for a checkpoint")
    return module.mesh is None


def _prepare(module: Any, folder: pathlib.Path, optimizer: Optimizer | None) -> None:
    try:
        stored = FileSystemReader(folder).read_metadata().state_dict_metadata
    except (CheckpointException, OSError) as error:
        raise fail("E802", f"`{folder}` holds no checkpoint: {error}", fix="a folder that `save_checkpoint` wrote") from error
    shapes = {path: tuple(entry.size) for path, entry in stored.items() if isinstance(entry, TensorStorageMetadata)}
    if optimizer is not None:
        _make_state(module, optimizer, shapes)
    wanted = {path: _find_shape(module, path, tensor) for path, tensor in list_tensors(module, optimizer, _find_size)}
    missing = [f"`{path}`" for path in wanted if path not in shapes]
    others = set() if module.recipe.piped is None else list_paths(module.recipe.piped.whole)  # of other stages
    extra = [f"`{path}`" for path in shapes if path not in others.union(wanted) and not path.startswith(STATE)]
    if missing or extra:
        facts = [f"missing: {path}" for path in missing] + [f"read by no weight: {path}" for path in extra]
        raise fail("E704", f"`{folder}` holds another model", facts=facts[:20], fix="the model that was saved")
    other = [f"`{path}`: {shapes[path]}, not {shape}" for path, shape in wanted.items() if shapes[path] != shape]
    if other:
        raise fail("E701", f"tensors of `{folder}` have another shape", facts=other[:20], fix="the sizes that were saved")


def _find_shape(module: Any, path: str, tensor: Tensor) -> tuple[int, ...]:
    shape, dims = list(tensor.shape), find_dims(module, path) if tensor.dim() else {}
    for dim, axis in dims.items():
        shape[dim] *= dict(module.sharding.mesh)[axis]
    return tuple(shape)


def _make_state(module: Any, optimizer: Optimizer, shapes: Mapping[str, tuple[int, ...]]) -> None:
    weights = {path for path, _ in list_views(module, _find_size)}
    names = {path.rpartition(".")[2]: shape for path, shape in shapes.items() if path.startswith(STATE)}
    for parameter in module.parameters() if weights else ():
        for name, shape in names.items():
            empty = torch.zeros_like(parameter) if shape else torch.zeros(())
            optimizer.state[parameter].setdefault(name, empty)
