"""Do processes that talk by gloo compute together what one process computes?"""

from __future__ import annotations

import datetime
import functools
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

import einformer
from tests.oracles.ranks import Whole, read
from tests.small import PLANS
from tests.test_sharding import MAPS, bound

SECONDS = 120


def in_processes(count: int, folder: Path, work: Callable[..., None], *given: Any) -> None:
    """Run a function of this module in as many processes, each in the group of all."""
    multiprocessing: Any = torch.multiprocessing
    multiprocessing.spawn(_start, (count, str(folder / "store"), work, given), count)


def _start(rank: int, count: int, store: str, work: Callable[..., None], given: tuple[Any, ...]) -> None:
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    wait = datetime.timedelta(seconds=SECONDS)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=count, timeout=wait)
    work(*given)
    dist.destroy_process_group()


def place_on(mesh: DeviceMesh) -> dict[str, int]:
    assert mesh.mesh_dim_names is not None
    return {axis: mesh.get_local_rank(axis) for axis in mesh.mesh_dim_names}


def agree_in_process(name: str, axes: Mapping[str, int], shard: str, plan: str) -> None:
    mesh = init_device_mesh("cpu", tuple(axes.values()), mesh_dim_names=tuple(axes))
    model = bound(name)
    whole = Whole(model, read(model, axes, shard), plan)
    module = model.build(plan=plan, dtype=torch.float64, mesh=mesh, shard=shard)
    output, gradients = whole.run(module, place_on(mesh))
    gradients = {path: gradient.contiguous() for path, gradient in gradients.items()}  # of packed weights they are views
    for axis in whole.sharding.rows:
        for gradient in gradients.values():
            dist.all_reduce(gradient, group=mesh.get_group(axis))
    whole.compare(output, gradients, place_on(mesh))


def agree_all(cases: list[tuple[str, Mapping[str, int], str, str]]) -> None:
    for case in cases:
        agree_in_process(*case)


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4])
def test_processes_compute_what_one_computes(count: int, tmp_path: Path) -> None:
    sizes = [case for case in MAPS if math.prod(case[1].values()) == count]
    in_processes(count, tmp_path, agree_all, [(*case, plan) for case in sizes for plan in PLANS])


# ---------------------------------------------------------------------------------------------------- weights, drops, slips

DROP = """axes
  b: B
  d: D
  f: F
scalars
  p = 0.5
model Drop(z_bd) -> y_bf:
  weights W_df
  h_bf = Dr(z_bd) W_df
  return Dr(h_bf)
"""


def make_mesh() -> DeviceMesh:
    return init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))


def start_alike() -> None:
    mesh, model = make_mesh(), bound("llama")
    part: Any
    torch.manual_seed(7)
    whole = model.build()
    torch.manual_seed(7 + 10 * dist.get_rank())  # the first rank's counts
    part = model.build(mesh=mesh, shard="tp: g f v")
    for path, weight in part.take(whole.state_dict()).items():
        assert torch.equal(weight, part.state_dict()[path]), path


def drop_apart() -> None:
    torch.manual_seed(dist.get_rank())  # `build` makes them alike
    module = einformer.parse(DROP).bind(D=64, F=64).build(mesh=make_mesh(), shard="tp: f", dtype=torch.float64)
    module.load_state_dict({"W": torch.eye(64, dtype=torch.float64)})
    kept = module(torch.ones(50, 64, dtype=torch.float64)).detach() != 0
    both = [torch.empty_like(kept) for _ in range(2)]
    dist.all_gather(both, kept)
    assert 0.2 < both[0].double().mean() < 0.3
    assert 0.2 < (both[0] & both[1]).double().mean() / both[0].double().mean() < 0.3  # independent
    after = torch.rand(())
    dist.all_reduce(total := after.clone())
    assert total == 2 * after  # ranks draw alike again


def do_all(works: list[Callable[[], None]]) -> None:
    for work in works:
        work()


def test_two_processes_compute_alike_start_alike_and_drop_apart(tmp_path: Path) -> None:
    compute_alike = functools.partial(agree_in_process, "llama", {"tp": 2}, "tp: g f v", "fast")
    in_processes(2, tmp_path, do_all, [compute_alike, start_alike, drop_apart])
