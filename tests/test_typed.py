"""Does a stranger's type checker accept the file of a rank, and refuse it as soon as one collective is left out?

`spmd_types` follows four types through every operation of torch: I (whole, with a whole gradient), R (whole, with a gradient in
parts), V (split) and P (parts). What a file calls has its counterpart there.
"""

from __future__ import annotations

import ast
import importlib
import itertools
import queue
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.testing._internal.distributed.fake_pg import FakeStore

from einformer.interpreters.torch.module import Recipe, find_class
from einformer.interpreters.torch.ranks import find_cuts
from einformer.language.calls import slot_letters
from einformer.objects import Model
from tests.few import few
from tests.oracles.ranks import agree, read
from tests.small import PLANS
from tests.test_sharding import bound

spmd: Any = importlib.import_module("spmd_types")  # untyped for mypy: it re-exports names without saying so
checker: Any = importlib.import_module("spmd_types.checker")

MAPS = [
    ("gpt2", "tp: a d' f"),
    ("gpt2", "tp: a f v"),  # the heads are gathered before they are merged
    ("llama", "tp: g f v"),
    ("llama", "tp: (s) g f v"),
    ("llama", "tp: d"),  # norms on split features
    ("mixtral", "tp: g f"),
    ("mixtral", "tp: g x v"),
    ("gemma3", "tp: (s) g f v"),
    ("gpt_oss", "tp: g f v"),
    ("bloom", "tp: a f v"),
    ("gptj", "tp: a f v"),
    ("deepseek_v3", "tp: a f m o"),
    ("deepseek_v3", "tp: a x f v"),
    ("qwen3_next", "tp: g u f o v"),
    ("mamba2_decoder", "tp: g v"),
    ("gpt2", "cp: s"),
    ("mistral", "cp: s"),  # a window
    ("gpt_oss", "cp: s"),  # two of them
    ("mamba2_decoder", "cp: s"),  # a state, and a window of a convolution
    ("delta_net", "cp: s"),
    ("llama", "cp: s[ring]"),
    ("bloom", "cp: s[ring zigzag]"),
]
CASES = [(*case, plan) for case in MAPS for plan in PLANS if plan == "fast" or "ring" not in case[1]]


@pytest.fixture
def mesh(case: tuple[str, str, str]) -> Iterator[Any]:
    dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    try:
        yield init_device_mesh("cpu", (2,), mesh_dim_names=(case[1].partition(":")[0],))
    finally:
        dist.destroy_process_group()


class Typed:
    """The counterparts of what a file calls."""

    def __init__(self, mesh: Any, near: Callable[..., range] | None) -> None:
        self.mesh, self.group, self.near = mesh, mesh.get_group(*mesh.mesh_dim_names), near

    def vary(self, x: Tensor, axis: str) -> Any:
        return spmd.invariant_to_replicate(x, self.group)

    def part(self, x: Tensor) -> Any:
        return spmd.reinterpret(x.contiguous(), self.group, src=spmd.V, dst=spmd.P)

    def reduce(self, x: Tensor, axis: str) -> Any:
        return spmd.all_reduce(self.part(x), self.group, src=spmd.P, dst=spmd.I)

    def gather(self, x: Tensor, dim: int, axis: str) -> Any:
        return spmd.all_gather(x.contiguous(), self.group, src=spmd.S(dim), dst=spmd.I)

    def gather_vary(self, x: Tensor, dim: int, axis: str) -> Any:
        return spmd.all_gather(x.contiguous(), self.group, src=spmd.S(dim), dst=spmd.R)

    def own(self, x: Tensor, dim: int, axis: str) -> Any:
        return spmd.convert(x, self.group, src=spmd.I, dst=spmd.S(dim))

    def scatter(self, x: Tensor, dim: int, axis: str) -> Any:
        return spmd.reduce_scatter(self.part(x), self.group, src=spmd.P, dst=spmd.S(dim))

    def neighbours(self, x: Tensor, dim: int, before: float, after: float, axis: str) -> Any:
        """A rank's part of what all have, by the numbers that the file reads."""
        assert self.near is not None
        numbers = self.near(x.shape[dim], before, after, axis)
        whole = self.gather_vary(x, dim, axis).narrow(dim, numbers.start, len(numbers))
        return spmd.reinterpret(whole, self.group, src=spmd.R, dst=spmd.V, expert_mode=True)

    def ring(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, sink: Tensor | None, *_: object) -> Any:
        """Attention to the keys of all."""
        keys, values = (self.gather_vary(x, 2, "") for x in (k, v))
        scores = torch.einsum("bhgse,bhte->bhgst", q, keys)
        weights = torch.softmax(scores if mask is None else scores + mask, -1)
        return torch.einsum("bhgst,bhte->bhgse", weights, values)

    def receive(self, state: Tensor, axis: str) -> Any:
        """The state of another rank: only a split one has other numbers."""
        return spmd.reinterpret(state, self.group, src=spmd.R, dst=spmd.V, expert_mode=True)

    def hand_on(self, state: Tensor, y: Tensor, axis: str, *exchanged: Tensor) -> Any:
        spmd.assert_type(state, {self.group: spmd.V})
        return y.view_as(y)

    def largest(
        self, x: Tensor, dims: tuple[int, ...], axis: str
    ) -> Any:  # of largest numbers the largest has the type of a sum
        return self.reduce(torch.amax(x.detach(), dims) if dims else x.detach(), axis)

    @property
    def called(self) -> Mapping[str, Callable[..., Any]]:
        """The functions by the names of the classes of a file."""
        return {
            "Vary": self.vary,
            "AllReduce": self.reduce,
            "AllGather": self.gather,
            "AllGatherVary": self.gather_vary,
            "Own": self.own,
            "ReduceScatter": self.scatter,
            "Neighbours": self.neighbours,
            "RingAttention": self.ring,
            "Received": self.receive,
            "HandedOn": self.hand_on,
        }

    def names(self) -> Mapping[str, object]:
        classes = {name: types.SimpleNamespace(apply=function) for name, function in self.called.items()}
        return classes | {"largest": self.largest, "MESH": self.mesh}


COLLECTIVES = {"Vary", "AllReduce", "AllGather", "AllGatherVary", "Own", "ReduceScatter", "Neighbours", "Received", "HandedOn"}


class Omit(ast.NodeTransformer):
    """A file without one of its collectives, by number: a call of a class, or what passes blocks on in a ring."""

    def __init__(self, number: int = -1) -> None:
        self.number, self.count = number, 0

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        called = ast.unparse(node.func).removesuffix(".apply")
        if called != "pass_on" and (called not in COLLECTIVES or not isinstance(node.func, ast.Attribute)):
            return node
        self.count += 1
        kept = ast.Tuple([node.args[0], ast.List([], ast.Load())], ast.Load()) if called == "pass_on" else node.args[0]
        return (node.args[1] if called == "HandedOn" else kept) if self.count - 1 == self.number else node


def omit(source: str, number: int = -1) -> tuple[str, int]:
    """The file without a collective, and how many it had."""
    omitting = Omit(number)
    return ast.unparse(omitting.visit(ast.parse(source))), omitting.count


def find_type(source: str, model: Model, shard: str, mesh: Any) -> object:
    """The type of the output of a file. Raises the checker's error."""
    file = types.ModuleType("typed")
    sys.modules[file.__name__] = file
    exec(compile(source, "typed", "exec", dont_inherit=True), file.__dict__)
    file.__dict__.update(Typed(mesh, file.__dict__.get("near")).names())
    if "Grouped" in file.__dict__:  # a product, which exchanges nothing
        spmd.register_local_autograd_function(file.__dict__["Grouped"])
    module: Any = find_class(file.__dict__, model.spec.name)().double().eval()
    axis, sizes = shard.partition(":")[0], {shard.partition(":")[0]: 2}
    cuts, group = find_cuts(model.spec.tree, model.spec.name, model.legend, read(model, sizes, shard)), mesh.get_group(axis)
    kinds = [(parameter, spmd.V if path in cuts else spmd.I) for path, parameter in list_parameters(module)]
    x_bs = make_input(model, 4 // 2 if axis == "cp" else 4)
    with spmd.set_current_mesh(mesh), checker.typecheck(local=True):
        for parameter, kind in kinds:
            spmd.assert_type(parameter, {group: kind})
        spmd.assert_type(x_bs, {group: spmd.V if axis == "cp" else spmd.I})
        (found,) = spmd.get_local_type(module(x_bs)).values()
    return found


def make_input(model: Model, length: int) -> Tensor:
    letters = slot_letters(model.spec.layer.formals[0])
    legend = model.at(**model.inputs(2, length))
    return torch.zeros([legend.length(x) for x in letters], dtype=torch.long if "v" in model.legend.axes else torch.double)


def list_parameters(module: Any) -> Iterator[tuple[str, Tensor]]:
    """The parameters and buffers, each with the path of a weight that lies in it: all of them are split alike."""
    for path, inner in module.named_modules():
        for name, parameter in itertools.chain(inner.named_parameters(recurse=False), inner.named_buffers(recurse=False)):
            packed = name in getattr(inner, "layout", ())
            first = next(weight for weight, *_ in inner.parts(name, parameter)) if packed else name
            yield f"{path}.{first}".lstrip("."), parameter


def refute(number: int, model: Model, shard: str, plan: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asserts that ranks without a collective do not compute what one process computes."""
    write = Recipe.source
    with monkeypatch.context() as patch:
        patch.setattr(Recipe, "source", lambda own: omit(write(own), number)[0] if own.plan.sharding else write(own))
        patch.setattr("tests.oracles.ranks.SECONDS", 5)  # a rank may wait for what nobody sends
        with pytest.raises((AssertionError, RuntimeError, IndexError, queue.Empty)):
            agree(model, {shard.partition(":")[0]: 2}, shard, plan)


@pytest.mark.filterwarnings("ignore:`torch.distributed._functional_collectives")  # names of torch that the checker calls
@pytest.mark.parametrize("case", few(CASES, CASES[5:7]), ids=" ".join)
def test_each_collective_is_one_that_types_ask_for(
    case: tuple[str, str, str], mesh: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, shard, plan = case
    model = bound(name)
    axis = shard.partition(":")[0]
    source, count = omit(model.source(plan, mesh={axis: 2}, shard=shard))
    output = find_type(source, model, shard, mesh)
    assert output is (spmd.V if "v" in shard.split() or axis == "cp" else spmd.I)
    assert count >= 4
    for number in range(count):
        try:
            changed = find_type(omit(source, number)[0], model, shard, mesh)
        except RuntimeError:  # of types, or of shapes
            continue
        if changed is output:  # what is split stays split: then values differ
            refute(number, model, shard, plan, monkeypatch)
