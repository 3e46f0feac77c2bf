"""What do ranks cost: a step on several processes beside one, and the host's work beside a layer written like Megatron's?"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as fn

import einformer as ein
from tests.test_parallel import in_processes

MLP = """axes
  b: B
  s: S
  d: D
  f: F
model MLP(z_bsd) -> y_bsd causal in s:
  weights W_df, U_fd, β_d
  h_bsf = relu(z_bsd W_df)
  return h_bsf U_fd + β_d
"""
D, F, STEPS = 16, 64, 300
ROUNDS = 15
MAPS = ("tp: g f v", "tp: g f v (s)", "cp: s", "cp: s[ring zigzag]", "dp: b")
LLAMA = {"D": 256, "A": 8, "G": 4, "F": 1024, "V": 2048, "L": 2, "Θ": 10000.0}


class Copy(torch.autograd.Function):
    """The identity, whose gradient is summed."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        dist.all_reduce(gradient := gradient.contiguous())
        return gradient


class Reduce(torch.autograd.Function):
    """A sum over the ranks."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        dist.all_reduce(x := x.contiguous())
        return x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient


class ByHand(nn.Module):
    """The layer as people write it."""

    def __init__(self) -> None:
        super().__init__()
        self.W, self.U, self.β = (nn.Parameter(torch.randn(*shape)) for shape in ((D, F), (F, D), (D,)))

    def forward(self, z_bsd: Tensor) -> Tensor:
        copied: Tensor = Copy.apply(z_bsd)  # type: ignore[no-untyped-call]
        summed: Tensor = Reduce.apply(fn.linear(fn.relu(fn.linear(copied, self.W.T)), self.U.T))  # type: ignore[no-untyped-call]
        return summed + self.β


def time_steps(*works: Callable[[], object], times: int = STEPS) -> list[tuple[float, float]]:
    """Median seconds of each, taken in turns, and the median over rounds of its seconds by those of the first one."""
    seconds: list[list[float]] = [[] for _ in works]
    for _ in range(times):
        for work, taken in zip(works, seconds, strict=True):
            start = time.perf_counter()
            work()
            taken.append(time.perf_counter() - start)
    ratios = ([own / first for own, first in zip(taken, seconds[0], strict=True)] for taken in seconds)
    return [(statistics.median(taken), statistics.median(own)) for taken, own in zip(seconds, ratios, strict=True)]


def compare_by_hand(file: Path) -> None:
    """Both layers in a group of one rank, so that nothing is waited for."""
    emitted: Any = ein.parse(MLP).bind(D=D, F=F).build(mesh="tp=1", shard="tp: f")
    by_hand, z = ByHand(), torch.randn(2, 4, D, requires_grad=True)
    runs = (by_hand, lambda z: nn.Module.__call__(emitted, z), emitted)
    file.write_text(json.dumps(time_steps(*(lambda run=run: run(z).sum().backward() for run in runs))))


def compare_steps(file: Path) -> None:
    """A step of the first rank alone, while the others wait, then one of all: median seconds for each map."""
    ranks, first, seconds = dist.get_world_size(), dist.get_rank() == 0, dict[str, tuple[float, float]]()
    model = ein.load("llama").bind(**LLAMA)
    alone, x_bs = model.build(), torch.randint(int(LLAMA["V"]), (4, 64))

    def step(module: nn.Module, x_bs: Tensor) -> None:
        module(x_bs).square().mean().backward()

    def step_alone() -> None:
        if first:
            step(alone, x_bs)
        dist.barrier()

    for shard in MAPS:
        axis = shard.partition(":")[0]
        module = model.build(mesh={axis: ranks}, shard=shard)
        part = x_bs.chunk(ranks, {"cp": 1, "dp": 0}[axis])[0] if axis != "tp" else x_bs

        def step_together(module: Any = module, part: Tensor = part, averages: bool = axis == "dp") -> None:
            step(module, part)
            if averages:
                module.average_gradients()
            dist.barrier()

        step_together()
        _, seconds[shard] = time_steps(step_alone, step_together, times=ROUNDS)
    if first:
        file.write_text(json.dumps(seconds))


def measure(count: int, work: Callable[[Path], None]) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        in_processes(count, Path(folder), work, file := Path(folder) / "seconds.json")
        return json.loads(file.read_text())


HEAD = ("what", "processes", "milliseconds", "beside one process, or a layer by hand")


def list_rows() -> Iterator[tuple[str, str, str, str]]:
    """Rows of a table with the columns `HEAD`: steps of a small Llama on several processes, and one layer on one."""
    for count in (2, 4):
        for shard, (seconds, ratio) in measure(count, compare_steps).items():
            yield f"a step, `{shard}`", str(count), f"{seconds * 1e3:.0f}", f"{ratio:.2f}"
    _, inside, door = measure(1, compare_by_hand)
    for what, (seconds, ratio) in (("without the comparison of shapes between ranks", inside), ("with it", door)):
        yield f"a split MLP, {what}", "1", f"{seconds * 1e3:.2f}", f"{ratio:.2f}"


def main() -> None:
    """Prints the table."""
    torch.set_num_threads(1)
    for row in (HEAD, *list_rows()):
        print(" | ".join(row))


if __name__ == "__main__":
    main()
