"""Runs all ranks of a mesh in one process: a thread for each, whose collectives meet at a barrier."""

from __future__ import annotations

import itertools
import math
import queue
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from einformer.interpreters.torch import module as modules
from einformer.interpreters.torch import ranks
from einformer.interpreters.torch.ranks import find_cuts
from einformer.language.calls import slot_letters
from einformer.language.slots import find_selecting
from einformer.objects import Model
from einformer.program.sharding import Sharding, read_sharding

SECONDS = 60
LOCK = threading.Lock()
HERE = threading.local()


class Router:
    """torch.distributed, where a thread that is a rank has collectives of its own; these belong to no program."""

    def __getattr__(self, name: str) -> Any:
        return getattr(replace(HERE.mesh, quiet=True) if hasattr(HERE, "mesh") else torch.distributed, name)


vars(ranks)["dist"] = Router()


@dataclass
class World:
    """The ranks of a mesh, and what each of them puts on the table."""

    mesh: Mapping[str, int]
    table: dict[int, Any] = field(default_factory=dict)
    log: list[tuple[str, str, int]] = field(default_factory=list)  # of rank 0: collective, axis of the mesh, bytes
    sent: list[int] = field(default_factory=list)  # the bytes of all-to-all, of all ranks

    handed: list[tuple[tuple[int, int], int]] = field(default_factory=list)  # from rank to rank: bytes

    def __post_init__(self) -> None:
        ranks = range(math.prod(self.mesh.values()))  # all at once: two threads would make two of one
        self.mail = {pair: queue.Queue[Tensor]() for pair in itertools.product(ranks, repeat=2)}
        self.barrier = threading.Barrier(math.prod(self.mesh.values()), timeout=SECONDS)

    def places(self) -> list[dict[str, int]]:
        ranges = (range(size) for size in self.mesh.values())
        return [dict(zip(self.mesh, numbers, strict=True)) for numbers in itertools.product(*ranges)]

    def meet(self, rank: int, given: Any) -> dict[int, Any]:
        """What all ranks have given."""
        self.barrier.wait()
        self.table[rank] = given
        self.barrier.wait()
        seen = dict(self.table)
        self.barrier.wait()
        return seen


@dataclass
class Mesh:
    """A mesh as one rank sees it, and the collectives of torch.distributed over it."""

    world: World
    rank: int
    quiet: bool = False  # what it does is not logged
    device_type = "cpu"
    ReduceOp = torch.distributed.ReduceOp

    def get_local_rank(self, axis: str) -> int:
        return self.world.places()[self.rank][axis]

    def get_rank(self) -> int:
        return self.rank

    def get_group(self, axis: str) -> str:
        return axis

    def get_world_size(self, group: str) -> int:
        return self.world.mesh[group]

    def gather(self, name: str, x: Tensor, group: str) -> list[Tensor]:
        """The tensors of the ranks that differ along one axis alone."""
        assert x.is_contiguous()
        if self.rank == 0 and not self.quiet:
            self.world.log.append((name, group, x.numel() * x.element_size()))
        seen, places = self.world.meet(self.rank, (name, group, x.detach().clone())), self.world.places()
        ours = places[self.rank]
        alike = [r for r, place in enumerate(places) if all(place[a] == ours[a] for a in place if a != group)]
        assert {seen[r][:2] for r in alike} == {(name, group)}, "ranks meet in different collectives"
        assert {seen[r][2].shape for r in alike} == {x.shape}, "ranks meet with different shapes"
        return [seen[r][2] for r in alike]

    def all_reduce(self, x: Tensor, op: Any = torch.distributed.ReduceOp.SUM, group: str = "") -> None:
        largest = op == torch.distributed.ReduceOp.MAX
        together = torch.stack(self.gather("all_reduce", x, group))
        x.copy_(together.amax(0) if largest else together.sum(0))

    def all_gather(self, parts: list[Tensor], x: Tensor, group: str = "") -> None:
        for part, given in zip(parts, self.gather("all_gather", x, group), strict=True):
            part.copy_(given)

    def all_to_all_single(self, own: Tensor, x: Tensor, coming: Any = None, going: Any = None, group: str = "") -> None:
        count, here = self.get_world_size(group), self.get_local_rank(group)
        going = going or [len(x) // count] * count
        assert x.is_contiguous()
        assert sum(going) == len(x)
        if self.rank == 0 and not self.quiet:
            self.world.log.append(("all_to_all", group, x.numel() * x.element_size()))
        self.world.sent.append(x.numel() * x.element_size())
        seen, places = self.world.meet(self.rank, ("all_to_all", group, x.detach().clone(), going)), self.world.places()
        ours = places[self.rank]
        alike = [r for r, place in enumerate(places) if all(place[a] == ours[a] for a in place if a != group)]
        assert {seen[r][:2] for r in alike} == {("all_to_all", group)}, "ranks meet in different collectives"
        parts = [seen[r][2].split(seen[r][3])[here] for r in alike]
        assert coming is None or coming == [len(part) for part in parts], "a rank expects other rows than come"
        own.copy_(torch.cat(parts))

    def get_global_rank(self, group: str, rank: int) -> int:
        places = self.world.places()
        return places.index({**places[self.rank], group: rank})

    def send(self, x: Tensor, to: int, group: str = "") -> None:
        assert x.is_contiguous()
        self.world.handed.append(((self.rank, to), x.numel() * x.element_size()))
        self.world.mail[self.rank, to].put(x.detach().clone())

    def recv(self, x: Tensor, source: int, group: str = "") -> None:
        sent = self.world.mail[source, self.rank].get(timeout=SECONDS)
        assert sent.shape == x.shape
        assert sent.dtype == x.dtype
        x.copy_(sent)

    def isend(self, x: Tensor, to: int, group: str = "") -> None:
        self.send(x, to, group)

    def irecv(self, x: Tensor, source: int, group: str = "") -> None:
        self.recv(x, source, group)

    @staticmethod
    def P2POp(work: Callable[[Tensor, int, str], None], x: Tensor, other: int, group: str) -> Callable[[], None]:
        return lambda: work(x, other, group)

    @staticmethod
    def batch_isend_irecv(works: list[Callable[[], None]]) -> list[Any]:
        """All that are sent stand before all that are received: so no rank waits for ever."""
        for work in works:
            work()
        return []

    def reduce_scatter_single(self, own: Tensor, parts: Tensor, group: str = "") -> None:
        together = torch.stack(self.gather("reduce_scatter", parts, group)).sum(0)
        own.copy_(together.view(self.get_world_size(group), *own.shape)[self.get_local_rank(group)])


def build_rank(model: Model, sharding: Sharding, plan: str, place: Any) -> nn.Module:
    """The module of one rank, whose collectives are those of threads."""
    recipe = model._recipe(plan)
    with LOCK:  # Python 3.11 does not parse in several threads
        built = modules.build(replace(recipe, plan=replace(recipe.plan, sharding=sharding)), "meta", torch.float64, place)
    built.to_empty(device="cpu")
    file: Any = sys.modules[type(built).__module__]
    file.dist = place
    return built


def continue_rank(module: Any, place: Any) -> None:
    """Lets the module of a rank decode, by the collectives of threads."""
    with LOCK:
        module.__dict__["_continued"] = twin = modules.continue_module(module)
    file: Any = sys.modules[type(twin).__module__]
    file.dist = place


def run_on_ranks(mesh: Mapping[str, int], run: Callable[[Mesh], Any]) -> tuple[list[Any], World]:
    """What each rank gives."""
    world, results, errors = World(mesh), dict[int, Any](), list[BaseException]()

    def start(rank: int) -> None:
        try:
            HERE.mesh = Mesh(world, rank)
            results[rank] = run(HERE.mesh)
        except BaseException as error:
            errors.append(error)
            world.barrier.abort()

    threads = [threading.Thread(target=start, args=(rank,), daemon=True) for rank in range(len(world.places()))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    if errors:
        raise next((error for error in errors if not isinstance(error, threading.BrokenBarrierError)), errors[0])
    return [results[rank] for rank in range(len(threads))], world


# --------------------------------------------------------------------------------------------------------- agreement


@dataclass
class Whole:
    """A model in one process: its output from random inputs and weights, and all gradients of a random sum of it."""

    model: Model
    sharding: Sharding
    plan: str
    seed: int = 0
    length: int = 4

    def __post_init__(self) -> None:
        self.cuts = find_cuts(self.model.spec.tree, self.model.spec.name, self.model.legend, self.sharding)
        torch.manual_seed(self.seed)
        module = modules.build(self.model._recipe(self.plan), dtype=torch.float64).eval()
        for parameter in module.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
        rows = max(2, self.sharding.replicas)
        drawn = [_draw(self.model, formal, rows, self.length) for formal in self.model.spec.layer.formals]
        self.inputs = [x.requires_grad_(x.is_floating_point()) for x in drawn]
        self.output = module(*self.inputs)
        self.gradient = torch.randn_like(self.output)
        if self.output.requires_grad:
            self.output.backward(self.gradient)
        self.output, self.output_moves = self.output.detach(), self.output.requires_grad
        self.state, self.gradients = module.state_dict(), dict(list_gradients(module))

    def part(self, x: Tensor, place: Mapping[str, int], dims: Mapping[int, str]) -> Tensor:
        """The part of a rank."""
        for dim, axis in dims.items():
            ranks, here = dict(self.sharding.mesh)[axis], place[axis]
            if axis in map(self.sharding.axis, self.sharding.zigzag):  # a piece from each end
                pieces = x.chunk(2 * ranks, dim)
                x = torch.cat([pieces[here], pieces[-1 - here]], dim)
            else:
                x = x.chunk(ranks, dim)[here]
        return x.contiguous()

    def part_of(self, x: Tensor, left: Any, place: Mapping[str, int]) -> Tensor:
        """The part of a rank of an input or of the output."""
        letters = enumerate(slot_letters(left))
        return self.part(x, place, {dim: axis for dim, letter in letters if (axis := self.sharding.axis(letter))})

    def run(self, module: nn.Module, place: Mapping[str, int]) -> tuple[Tensor, dict[str, Tensor]]:
        """The output and the gradients of a rank."""
        module.eval().load_state_dict(self.state)
        formals = self.model.spec.layer.formals
        parts = [self.part_of(x.detach(), formal, place) for x, formal in zip(self.inputs, formals, strict=True)]
        output = module(*(x.requires_grad_(x.is_floating_point()) for x in parts))
        if self.output_moves:
            output.backward(self.part_of(self.gradient, self.model.spec.layer.output, place))
        for ours, theirs, formal in zip(parts, self.inputs, formals, strict=True):
            if theirs.grad is not None:
                assert_near(_grad(ours), self.part_of(theirs.grad, formal, place), f"the input {formal.name}")
        return output.detach(), dict(list_gradients(module))

    def compare(self, output: Tensor, gradients: Mapping[str, Tensor], place: Mapping[str, int]) -> None:
        """Asserts that a rank has its part of everything; its gradients are sums over rows."""
        assert_near(output, self.part_of(self.output, self.model.spec.layer.output, place), "the output")
        assert gradients.keys() == self.gradients.keys()
        for path, wanted in self.gradients.items():
            assert_near(gradients[path], self.part(wanted, place, self.cuts.get(path, ((), {}))[1]), path)


def _grad(x: Tensor) -> Tensor:
    return torch.zeros_like(x) if x.grad is None else x.grad


def count_log(world: World) -> Counter[tuple[str, str]]:
    """The bytes that the first rank has put into each kind of collective, over each axis of the mesh."""
    total = Counter[tuple[str, str]]()
    for name, axis, size in world.log:
        total[name.replace("_", "-"), axis] += size
    return total


def read(model: Model, mesh: Mapping[str, int], shard: str) -> Sharding:
    """The map of letters of a model."""
    time = model.spec.layer.time
    return read_sharding(mesh, shard, model.legend, time.letter if time else "")


def agree(model: Model, mesh: Mapping[str, int], shard: str, plan: str, seed: int = 0, length: int = 4) -> World:
    """Asserts that the ranks give the outputs and the gradients of one process, each its part."""
    whole = Whole(model, read(model, mesh, shard), plan, seed, length)

    def run(rank: Mesh) -> tuple[dict[str, int], Tensor, dict[str, Tensor]]:
        place = rank.world.places()[rank.rank]
        return place, *whole.run(build_rank(model, whole.sharding, plan, rank), place)

    results, world = run_on_ranks(mesh, run)
    for place, output, own in results:
        summed = dict[str, Tensor]()
        for path in own:
            rows = whole.sharding.rows - {*whole.cuts.get(path, ((), {}))[1].values()}  # over which a weight is whole
            alike = [theirs[path] for other, _, theirs in results if all(other[axis] == place[axis] for axis in {*mesh} - rows)]
            summed[path] = torch.stack(alike).sum(0)
        whole.compare(output, summed, place)
    return world


def assert_near(ours: Tensor, theirs: Tensor, what: str) -> None:
    """To 1e-12 of the largest number; what is no number is none in both."""
    assert ours.shape == theirs.shape, (what, ours.shape, theirs.shape)
    scale = max(1.0, float(theirs[theirs.isfinite()].abs().max())) if bool(theirs.isfinite().any()) else 1.0
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12 * scale, equal_nan=True, msg=lambda text: f"{what}: {text}")


def _draw(model: Model, formal: Any, rows: int, length: int) -> Tensor:
    sizes = model.inputs(batch=rows, length=length)
    legend = model.at(**sizes)
    shape = [legend.length(letter) for letter in slot_letters(formal)]
    layers = {layer.name: layer for layer in model.spec.tree.layers}
    whole = find_selecting(model.spec.layer, layers, legend)
    if formal.name in whole:
        return torch.randint(legend.length(whole[formal.name]), shape)
    return torch.randn(shape, dtype=torch.float64)


def list_gradients(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """The gradient of every weight as it is written, by path."""
    inner: Any
    for path, inner in module.named_modules():
        for name, parameter in inner.named_parameters(recurse=False):
            gradient = _grad(parameter)
            gradient = gradient.full_tensor() if isinstance(gradient, DTensor) else gradient
            packed = name in getattr(inner, "layout", ())
            parts = inner.parts(name, gradient) if packed else [(name, gradient, ())]
            yield from ((f"{path}.{weight}".lstrip("."), view) for weight, view, _ in parts)
