"""Joins a module to the ranks of a mesh: what all of them do alike, and a rank's parts of whole weights.

Work that can fail on one rank is done by `agree`, after which all ranks go on, or all raise an error.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh

from einformer.errors import fail
from einformer.interpreters.torch.views import list_views
from einformer.language.calls import slot_letters
from einformer.language.sizes import Legend
from einformer.language.specialise import specialise
from einformer.language.tree import Spec
from einformer.language.weights import weights
from einformer.program.sharding import Sharding, read_mesh

T = TypeVar("T")
Cuts = Mapping[str, tuple[tuple[int, ...], dict[int, str]]]  # by path: the shape of a whole weight, and its split dims


def agree(
    groups: Sequence[Any],
    device: Any,
    work: Callable[[], T],
    describe: Callable[[T], object] = lambda _: None,
    differ: tuple[str, str] = ("", ""),
) -> T:
    """The result of work that all ranks of some groups do. One error of theirs is an error on every rank.

    Raises the rank's own error, or EinformerError E745: where another rank has one, where the ranks do not describe their
    results alike, and where a rank does not come before the groups' time is out.
    """
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
    """The result of work that the ranks of some axes of a mesh do."""
    return agree([mesh.get_group(axis) for axis in axes], mesh.device_type, work, describe, differ)


def make_mesh(mesh: Any, device: torch.device | str) -> Any:
    """A mesh with named axes that this rank is in: one that there is, or a new one over all ranks, `dp=2,tp=4`.

    Raises EinformerError E741, E745.
    """
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


@contextlib.contextmanager
def draw_alike(mesh: Any, rows: Collection[str]) -> Iterator[None]:
    """Random numbers of all ranks are those of the first. Afterwards they are alike where ranks share rows, else apart."""
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


class Parts:
    """The methods of the module of a rank, which has parts of the weights and of the logits."""

    recipe: Any
    mesh: Any
    cuts: Cuts  # of its weights

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

    @property
    def together(self) -> list[str]:
        """The axes of the mesh whose ranks have the same rows."""
        return [axis for axis, _ in self.sharding.mesh if axis not in self.sharding.rows]

    def share_tokens(self, token_b: Tensor) -> Tensor:
        """The tokens of the first of the ranks that have the same rows, so that draws agree too."""
        for axis in self.together:
            token_b = gather(token_b[None], 0, self.mesh, axis)[0]
        return token_b

    def meet(self, work: Callable[[], T], *told: object, everywhere: bool = False) -> T:
        """The result of work before a collective: its error, or what the ranks are told that differs, is an error on each.

        The ranks are those that have the same rows, or, `everywhere`, all.
        """
        if torch.compiler.is_compiling():
            return work()
        return agree_over(self.mesh, dict(self.sharding.mesh) if everywhere else self.together, work, lambda _: told)

    def is_first(self) -> bool:
        """Whether this is the rank that writes files."""
        return not any(self.mesh.get_local_rank(axis) for axis, _ in self.sharding.mesh)

    def do_alone(self, work: Callable[[], T]) -> T | None:
        """The result of work that the first rank does for all; its error is one of all."""
        return self.meet(lambda: work() if self.is_first() else None, everywhere=True)

    def find_regions(self) -> dict[str, tuple[range, ...]]:
        """The numbers that this rank has of each index of its split weights."""
        return {path: tuple(self._find_ranges(shape, dims)) for path, (shape, dims) in self.cuts.items()}

    def _find_ranges(self, shape: tuple[int, ...], dims: Mapping[int, str]) -> Iterator[range]:
        for dim, whole in enumerate(shape):
            own = whole // dict(self.sharding.mesh)[dims[dim]] if dim in dims else whole
            first = self.mesh.get_local_rank(dims[dim]) * own if dim in dims else 0
            yield range(first, first + own)

    def join_weights(self) -> Mapping[str, Tensor]:
        """The whole weights, by path. All ranks ask for the same ones in the same order."""
        module: Any = self
        return Joined(dict(list_views(module)), self.cuts, self.mesh)

    @torch.no_grad()
    def clip_gradients(self, most: float) -> Tensor:
        """Scales the gradients so that their norm, over all ranks, is at most `most`. Returns the norm that they had.

        Call it after gradients were summed or averaged over the rows of a batch.
        """
        module: Any = self
        squares = dict[tuple[str, ...], Tensor]()
        for path, gradient in list_views(module, lambda parameter: parameter.grad):
            axes = tuple(sorted(set(self.cuts.get(path, ((), {}))[1].values())))
            square = gradient.to(torch.promote_types(gradient.dtype, torch.float32)).square().sum()
            squares[axes] = squares[axes] + square if axes in squares else square
        total = torch.stack([self._sum(squares[axes], axes) for axes in sorted(squares)]).sum()
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
        return loading.load_state_dict(self.take(state_dict), *more, **named)

    def take(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """This rank's parts of whole weights, by path; a weight that is a part already stays."""
        return {path: self.cut(path, weight) for path, weight in state.items()}

    def cut(self, path: str, weight: Tensor) -> Tensor:
        """This rank's part of a weight; of a part, itself."""
        shape, dims = self.cuts.get(path, ((), {}))
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


def find_cuts(spec: Spec, name: str, legend: Legend, sharding: Sharding) -> Cuts:
    """The shape of each whole weight that is split, by path, and the axis of the mesh for each of its split dims."""
    special = specialise(spec, name)
    model = next(layer for layer in special.layers if layer.name == name)
    cuts = dict[str, tuple[tuple[int, ...], dict[int, str]]]()
    for path, placed in weights(special, model, legend).items():
        dims = {dim: axis for dim, index in enumerate(placed.weight.indices) if (axis := sharding.axis(index.letter))}
        if dims:
            cuts[path] = placed.shape, dims
    return cuts
