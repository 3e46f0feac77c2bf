"""What do ranks cost: a step on two processes beside one, and the host's work beside a layer written like Megatron's?"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
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
LLAMA = {"D": 256, "A": 8, "G": 4, "F": 1024, "V": 4096, "L": 4, "Θ": 10000.0}


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


def time_steps(*works: Callable[[], object]) -> list[float]:
    """Median seconds of each, taken in turns."""
    seconds: list[list[float]] = [[] for _ in works]
    for _ in range(STEPS):
        for work, taken in zip(works, seconds, strict=True):
            start = time.perf_counter()
            work()
            taken.append(time.perf_counter() - start)
    return [statistics.median(taken) for taken in seconds]


def compare_by_hand() -> None:
    """Both layers in a group of one rank, so that nothing is waited for."""
    emitted: Any = ein.parse(MLP).bind(D=D, F=F).build(mesh="tp=1", shard="tp: f")
    by_hand, z = ByHand(), torch.randn(2, 4, D, requires_grad=True)
    runs = (by_hand, lambda z: nn.Module.__call__(emitted, z), emitted)
    hand, inside, door = time_steps(*(lambda run=run: run(z).sum().backward() for run in runs))
    print(f"forward and backward of one layer, by hand: {hand * 1e6:.0f} µs")
    print(f"  emitted: {inside / hand:.2f} of it; with the comparison of shapes between ranks: {door / hand:.2f}")


def step_on_two(alone: float) -> None:
    module: Any = ein.load("llama").bind(**LLAMA).build(mesh="tp=2", shard="tp: g f v")
    seconds = time_step(module)
    if dist.get_rank() == 0:
        print(f"a step of a small Llama on two processes: {seconds * 1e3:.0f} ms, {seconds / alone:.2f} of one process")


def time_step(module: Any) -> float:
    x, seconds = torch.randint(int(LLAMA["V"]), (2, 128)), list[float]()
    for _ in range(6):
        start = time.perf_counter()
        module(x).square().mean().backward()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds[1:])


def main() -> None:
    """Prints the ratios."""
    torch.set_num_threads(1)
    alone = time_step(ein.load("llama").bind(**LLAMA).build())
    with tempfile.TemporaryDirectory() as folder:
        in_processes(1, Path(folder), compare_by_hand)
    with tempfile.TemporaryDirectory() as folder:
        in_processes(2, Path(folder), step_on_two, alone)


if __name__ == "__main__":
    main()
