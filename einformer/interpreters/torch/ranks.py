"""Joins a module to the ranks of a mesh: its weights as they are written, a rank's parts of them, and what all ranks do alike.

Work that can fail on one rank is done by `agree`, after which all ranks go on, or all raise an error.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh

from einformer.errors import fail
from einformer.language.calls import slot_letters
from einformer.language.sizes import Legend
from einformer.language.specialise import specialise
from einformer.language.stages import Stage
from einformer.language.tree import Spec
from einformer.language.weights import key, weights
from einformer.program.sharding import Sharding, read_mesh

T = TypeVar("T")
Cuts = Mapping[str, tuple[tuple[int, ...], dict[int, str]]]  # by path: the shape of a whole weight, and its split dims


# --------------------------------------------------------------------------------------------------- weights as written


# A view shows the numbers of the parameter that holds it. `of` may choose another tensor in the place of a parameter, or none.
def list_views(module: nn.Module, of: Callable[[Tensor], Tensor | None] = Tensor.detach) -> Iterator[tuple[str, Tensor]]:
    for path, inner in module.named_modules():
        yield from ((f"{path}.{name}".lstrip("."), view) for name, view in list_own_views(inner, of))


def list_own_views(module: Any, of: Callable[[Tensor], Tensor | None] = Tensor.detach) -> Iterator[tuple[str, Tensor]]:
    for name, parameter in itertools.chain(module.named_parameters(recurse=False), module.named_buffers(recurse=False)):
        if (whole := of(parameter)) is not None:
            packed = name in getattr(module, "layout", ())
            yield from ((weight, view) for weight, view, _ in (module.parts(name, whole) if packed else [(name, whole, ())]))


# Modules are built in this order.
def walk_inside_first(module: nn.Module, path: str = "") -> Iterator[tuple[str, nn.Module]]:
    for name, inner in module.named_children():
        yield from walk_inside_first(inner, f"{path}{name}.")
    yield path, module


# -------------------------------------------------------------------------------------------------------------- ranks


# The result of work that all ranks of some groups do. One error of theirs is an error on every rank. Raises the rank's own
# error, or EinformerError E745: where another rank has one, where the ranks do not describe their results alike, and where a
# rank does not come before the groups' time is out.
def agree(
    groups: Sequence[Any],
    device: Any,
    work: Callable[[], T],
    describe: Callable[[T], object] = lambda _: None,
    differ: tuple[str, str] = ("", ""),
) -> T:
    result, error = None, None
    try:
        result = work()
    except Exception as own:
        error = own
    digest = 0 if error else int.from_bytes(hashlib.sha256(repr(describe(result)).encode()).digest()[:7], "big")  # type: ignore[arg-type]
    ends = torch.tensor([digest, -digest, dist.get_rank() + 1 if error else 0], device=device)
    try:
        for group in groups:
            dist.all_reduce(ends, dist.ReduceOp.MAX, group=group)
        high, low, failed = ends.tolist()
    except RuntimeError as late:
        raise error or fail(
            "E745", f"another rank does not come: {_first_line(late)}", fix="the same calls on each rank"
        ) from late
    if error is not None:
        raise error
    if failed:
        message = f"rank {failed - 1} cannot go on, and so this one cannot"
        raise fail("E745", message, fix=f"see the error of rank {failed - 1}")
    if high != -low:
        raise fail("E745", differ[0], fix=differ[1])
    return result  # type: ignore[return-value]


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


BUILD = "the ranks build different modules", "one specification with the same sizes, plan and map of letters on each rank"
CALL = "the ranks call the module with different inputs", "inputs of one shape and dtype on each rank, split as the map says"


def agree_over(
    mesh: Any,
    axes: Iterable[str],
    work: Callable[[], T],
    describe: Callable[[T], object] = lambda _: None,
    differ: tuple[str, str] = CALL,
) -> T:
    return agree([mesh.get_group(axis) for axis in axes], mesh.device_type, work, describe, differ)


# A mesh with named axes that this rank is in: one that there is, or a new one over all ranks, `dp=2,tp=4`. Raises
# EinformerError E741, E745.
def make_mesh(mesh: Any, device: torch.device | str) -> Any:
    if not dist.is_initialized():
        raise fail("E745", "no process group is running", fix='`torch.distributed.init_process_group("gloo")`, or no mesh')
    if isinstance(mesh, str | Mapping):
        axes = agree([None], torch.device(device).type, lambda: _read_axes(mesh), lambda axes: axes, BUILD)
        return init_device_mesh(torch.device(device).type, tuple(axes.values()), mesh_dim_names=tuple(axes))
    if mesh.mesh_dim_names is None:
        raise fail("E745", "the axes of the mesh have no names", fix="`init_device_mesh(…, mesh_dim_names=(…))`")
    if mesh.get_coordinate() is None:
        raise fail("E745", "this rank is not in the mesh", fix="`build` on the ranks of the mesh alone")
    return mesh


def _read_axes(mesh: str | Mapping[str, int]) -> dict[str, int]:
    axes, ranks = dict(read_mesh(mesh) if isinstance(mesh, str) else mesh), dist.get_world_size()
    if math.prod(axes.values()) != ranks:
        listed = ", ".join(f"{axis}={size}" for axis, size in axes.items())
        message = f"the mesh {listed} has {math.prod(axes.values())} ranks, the process group {ranks}"
        raise fail("E745", message, fix=f"sizes whose product is {ranks}")
    return axes


# Afterwards they are alike where ranks share rows, else apart.
@contextlib.contextmanager
def draw_alike(mesh: Any, rows: Collection[str]) -> Iterator[None]:
    cuda = mesh.device_type == "cuda"
    states = [torch.get_rng_state(), *([torch.cuda.get_rng_state()] if cuda else [])]
    for axis in mesh.mesh_dim_names:
        states = [gather(state.to(mesh.device_type)[None], 0, mesh, axis)[0].cpu() for state in states]
    torch.set_rng_state(states[0])
    if cuda:
        torch.cuda.set_rng_state(states[1])
    yield
    number = 0
    for axis in mesh.mesh_dim_names:
        if axis in rows:
            number = number * dist.get_world_size(mesh.get_group(axis)) + mesh.get_local_rank(axis)
    if number:
        torch.manual_seed(int(torch.randint(2**62, ())) + number)


class Joined(Mapping[str, Tensor]):
    """Whole weights by path, of which each rank has a part: gathered when they are asked for, the last few once."""

    def __init__(self, parts: Mapping[str, Tensor], cuts: Cuts, mesh: Any) -> None:
        self.parts, self.cuts, self.mesh = parts, cuts, mesh
        self.join = functools.lru_cache(maxsize=3)(self._join)  # experts are asked for one by one

    def __getitem__(self, path: str) -> Tensor:
        return self.join(path)

    def __iter__(self) -> Iterator[str]:
        return iter(self.parts)

    def __len__(self) -> int:
        return len(self.parts)

    def _join(self, path: str) -> Tensor:
        weight = self.parts[path]
        for dim, axis in self.cuts.get(path, ((), {}))[1].items():
            weight = gather(weight, dim, self.mesh, axis)
        return weight


@dataclass(frozen=True, slots=True)
class Piped:
    """A stage of a pipeline: the recipe of the whole model, and for each weight that several stages have the first of these."""

    whole: Any
    stage: Stage
    axis: str
    ties: Mapping[str, int]


class Parts:
    """The methods of the module of a rank, which has parts of the weights and of the logits."""

    recipe: Any
    mesh: Any
    cuts: Cuts  # of the weights of the whole model
    zero = 0  # the stage of ZeRO by which the ranks of the batch share weights

    @property
    def sharding(self) -> Sharding:
        sharding: Sharding = self.recipe.plan.sharding
        return sharding

    # The logits of all ranks follow each other.
    def join_logits(self, logits: Tensor) -> Tensor:
        layer = next(layer for layer in self.recipe.spec.layers if layer.name == self.recipe.name)
        axis = self.sharding.axis(slot_letters(layer.output)[-1])
        return gather(logits, logits.dim() - 1, self.mesh, axis) if axis else logits

    # Returns the axes of the mesh whose ranks compute the same rows at once.
    @property
    def together(self) -> list[str]:
        stages = () if self.recipe.piped is None else (self.recipe.piped.axis,)
        return [axis for axis, _ in self.sharding.mesh if axis not in (*self.sharding.rows, *stages)]

    # The first of the ranks that have the same rows decides, so that draws agree too.
    def share_tokens(self, token_b: Tensor) -> Tensor:
        for axis in self.together:
            token_b = gather(token_b[None], 0, self.mesh, axis)[0]
        return token_b

    def meet(self, work: Callable[[], T], *told: object, everywhere: bool = False) -> T:
        """The result of work before a collective: its error, or what the ranks are told that differs, is an error on each.

        The ranks are those that have the same rows, or the same experts, or, `everywhere`, all.
        """
        if torch.compiler.is_compiling():
            return work()
        axes = [*self.together, *dict.fromkeys(axis for _, axis in self.sharding.in_weights)]
        return agree_over(self.mesh, dict(self.sharding.mesh) if everywhere else axes, work, lambda _: told)

    def refuse_files(self) -> None:
        """Raises EinformerError E744 where files of transformers are not read or written: for a stage of a pipeline, and where
        the ranks of the batch share weights."""
        if self.zero or self.recipe.piped is not None:
            message = "stages of a pipeline, and weights that ranks of the batch share, have no files of transformers"
            raise fail("E744", message, fix="`save_checkpoint` and `load_checkpoint`")

    def is_first(self) -> bool:
        return not any(self.mesh.get_local_rank(axis) for axis, _ in self.sharding.mesh)

    # Its error is one of all ranks.
    def do_alone(self, work: Callable[[], T]) -> T | None:
        return self.meet(lambda: work() if self.is_first() else None, everywhere=True)

    def find_regions(self) -> dict[str, tuple[range, ...]]:
        self.refuse_files()
        return {path: tuple(self._find_ranges(shape, dims)) for path, (shape, dims) in self.cuts.items()}

    def _find_ranges(self, shape: tuple[int, ...], dims: Mapping[int, str]) -> Iterator[range]:
        for dim, whole in enumerate(shape):
            own = whole // dict(self.sharding.mesh)[dims[dim]] if dim in dims else whole
            first = self.mesh.get_local_rank(dims[dim]) * own if dim in dims else 0
            yield range(first, first + own)

    def join_weights(self) -> Mapping[str, Tensor]:
        """The whole weights, by path. All ranks ask for the same ones in the same order."""
        self.refuse_files()
        module: Any = self
        return Joined(dict(list_views(module)), self.cuts, self.mesh)

    @torch.no_grad()
    def average_gradients(self) -> None:
        """Averages the gradients over the ranks of the batch, for a loss that is a mean over a rank's own rows.

        Of a weight that these ranks share, such as an expert, a rank has the gradient of all their rows, which is divided.
        """
        module: Any = self
        for parameter in module.parameters():
            if parameter.requires_grad and parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        for own, gradient in list_views(module, lambda parameter: parameter.grad):
            split = self.cuts.get(self.find_whole(own), ((), {}))[1].values()
            summed = self._sum(gradient.contiguous(), sorted(self.sharding.rows.difference(split)))
            gradient.copy_(summed / self.sharding.replicas)

    @torch.no_grad()
    def clip_gradients(self, most: float) -> Tensor:
        """Scales the gradients so that their norm, over all ranks, is at most `most`. Returns the norm that they had.

        Call it after gradients were summed or averaged over the rows of a batch, as by `average_gradients`.
        """
        module: Any = self
        squares = dict[tuple[str, ...], Tensor]()
        for own, gradient in list_views(module, lambda parameter: parameter.grad):
            path = self.find_whole(own)
            if not self.counts(path):
                continue
            axes = tuple(sorted(set(self.cuts.get(path, ((), {}))[1].values())))
            square = gradient.to(torch.promote_types(gradient.dtype, torch.float32)).square().sum()
            squares[axes] = squares[axes] + square if axes in squares else square
        total = torch.stack([self._sum(squares[axes], axes) for axes in sorted(squares)]).sum()
        total = total if self.recipe.piped is None else self._sum(total, [self.recipe.piped.axis])
        for parameter in module.parameters():
            if parameter.grad is not None:
                parameter.grad.mul_((most / (total.sqrt() + 1e-6)).clamp(max=1))
        return total.sqrt()

    def _sum(self, square: Tensor, axes: Iterable[str]) -> Tensor:
        sharded: Any = square
        whole: Tensor = sharded.full_tensor() if hasattr(square, "full_tensor") else square  # a DTensor of `fully_shard`
        for axis in axes:
            dist.all_reduce(whole, group=self.mesh.get_group(axis))
        return whole

    def load_state_dict(self, state_dict: Mapping[str, Tensor], *more: Any, **named: Any) -> Any:
        """Loads weights. A weight with the shape that it has in the whole model is cut: this rank takes its part."""
        loading: Any = super()
        if not self.zero:
            return loading.load_state_dict(self.take(state_dict), *more, **named)
        module: Any = self
        with torch.device("meta"):
            kind: Any = next(kind for kind in type(self).__mro__ if "recipe" in vars(kind))
            whole = kind().to(next(module.parameters()).dtype)
        result = whole.to_empty(device=self.mesh.device_type).load_state_dict(state_dict, *more, **named)
        share_weights(whole, module)
        return result

    def take(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """This rank's parts of whole weights, by path; a weight that is a part already stays."""
        cut = {path: self.cut(path, weight) for path, weight in state.items()}
        if self.recipe.piped is None:
            return cut
        others = list_paths(self.recipe.piped.whole) - {*map(self.find_whole, list_paths(self.recipe))}
        return {self.find_own(path) or path: weight for path, weight in cut.items() if path not in others}

    def state_dict(self, *arguments: Any, **named: Any) -> Any:
        """The weights of this rank by path; those of a stage by their paths in the whole model."""
        inner: Any = super()
        state: dict[str, Tensor] = inner.state_dict(*arguments, **named)
        return state if arguments or named else {self.find_whole(path): weight for path, weight in state.items()}

    # The path is "" where another stage has the weight.
    def find_own(self, path: str) -> str:
        return path if self.recipe.piped is None else str(self.recipe.piped.stage.find_own(path))

    def find_whole(self, path: str) -> str:
        return path if self.recipe.piped is None else str(self.recipe.piped.stage.find_whole(path))

    # A weight of the whole model counts in one of the stages that have it.
    def counts(self, path: str) -> bool:
        piped = self.recipe.piped
        return piped is None or piped.ties.get(path, piped.stage.number) == piped.stage.number

    def sum_ties(self) -> None:
        """Sums the gradients of the weights that several stages have. Each stage calls it after the backward passes."""
        piped, module = self.recipe.piped, cast(Any, self)
        own = dict(module.named_parameters(recurse=False))
        for name in sorted(piped.ties):
            parameter = own.get(name)
            gradient = torch.zeros(self.shapes[name], device=self.mesh.device_type, dtype=next(module.parameters()).dtype)
            if parameter is not None and parameter.grad is not None:
                gradient.copy_(parameter.grad)
            dist.all_reduce(gradient, group=self.mesh.get_group(piped.axis))
            if parameter is not None:
                parameter.grad = gradient

    # Only weights that the whole model has itself.
    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        whole = self.recipe.piped.whole
        local, place = self.sharding.local(whole.legend), self.sharding.place_weight
        layer = next(layer for layer in whole.spec.layers if layer.name == whole.name)
        return {key(weight.name): tuple(map(local.length, place(i.letter for i in weight.indices))) for weight in layer.weights}

    # A weight that is a part already stays.
    def cut(self, path: str, weight: Tensor) -> Tensor:
        shape, dims = self.cuts.get(path, ((), {}))
        if tuple(weight.shape) == shape:
            for dim, axis in dims.items():
                weight = weight.chunk(dict(self.sharding.mesh)[axis], dim)[self.mesh.get_local_rank(axis)]
        return weight


# A module whose parameters the ranks of the batch share: gathered together for each block, when it computes. By stage 3 of ZeRO
# they are let go after the forward, by stage 2 after the backward pass.
def shard_fully(module: nn.Module, mesh: Any, sharding: Sharding, zero: int) -> nn.Module:
    from torch.distributed.fsdp import fully_shard

    rows = mesh[tuple(axis for axis, _ in sharding.mesh if axis in sharding.rows)]
    blocks = (block for inner in module.modules() if isinstance(inner, nn.ModuleList) for block in inner)
    for called in filter(None, ([*_walk_called(block)] for block in blocks)):
        fully_shard(called, mesh=rows, reshard_after_forward=zero == 3)
    sharded: Any = fully_shard(module, mesh=rows, reshard_after_forward=zero == 3)
    sharded.zero = zero
    return cast(nn.Module, sharded)


@torch.no_grad()
def share_weights(whole: nn.Module, module: Any) -> None:
    from torch.distributed.tensor import distribute_tensor

    for shared, full in zip(module.parameters(), whole.parameters(), strict=True):
        shared.copy_(distribute_tensor(full.detach(), shared.device_mesh, shared.placements, src_data_rank=None))
    for buffer, all_numbers in zip(module.buffers(), whole.buffers(), strict=True):
        buffer.copy_(all_numbers)


# Modules inside inner loops are blocks of their own.
def _walk_called(block: nn.Module) -> Iterator[nn.Module]:
    if type(block).forward is not nn.Module.forward:
        yield block
    elif not isinstance(block, nn.ModuleList):
        for inner in block.children():
            yield from _walk_called(inner)


def gather(x: Tensor, dim: int, mesh: Any, axis: str) -> Tensor:
    group, x = mesh.get_group(axis), x.contiguous()
    parts = [torch.empty_like(x) for _ in range(dist.get_world_size(group))]
    dist.all_gather(parts, x, group=group)
    return torch.cat(parts, dim)


def list_paths(recipe: Any) -> set[str]:
    special = specialise(recipe.spec, recipe.name)
    model = next(layer for layer in special.layers if layer.name == recipe.name)
    return {*weights(special, model, recipe.legend)}


def find_cuts(spec: Spec, name: str, legend: Legend, sharding: Sharding) -> Cuts:
    special = specialise(spec, name)
    model = next(layer for layer in special.layers if layer.name == name)
    cuts = dict[str, tuple[tuple[int, ...], dict[int, str]]]()
    for path, placed in weights(special, model, legend).items():
        letters = sharding.place_weight(index.letter for index in placed.weight.indices)
        dims = {dim: axis for dim, letter in enumerate(letters) if (axis := sharding.axis(letter))}
        if dims:
            cuts[path] = placed.shape, dims
    return cuts
