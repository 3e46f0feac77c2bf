"""Do processes that talk by gloo compute together what one process computes?"""

from __future__ import annotations

import datetime
import functools
import math
import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

import einformer
from einformer import EinformerError
from tests.oracles.ranks import Whole, assert_near, list_gradients, read
from tests.small import PLANS
from tests.test_exchanged import AGREEMENT, Log
from tests.test_sharding import MAPS, RINGS, SENT, ZIGZAGS, bound

SECONDS = 120


def in_processes(count: int, folder: Path, work: Callable[..., None], *given: Any) -> None:
    """Run a function of a module of tests in as many processes, each in the group of all.

    They are forks of a server that has imported what all of them need, and started no thread.
    """
    multiprocessing: Any = torch.multiprocessing
    multiprocessing.set_forkserver_preload(["tests.test_ranks"])
    arguments = (count, str(folder / "store"), work, given)
    multiprocessing.start_processes(_start, arguments, count, start_method="forkserver")


def _start(rank: int, count: int, store: str, work: Callable[..., None], given: tuple[Any, ...]) -> None:
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    wait = datetime.timedelta(seconds=SECONDS)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=count, timeout=wait)
    work(*given)
    dist.destroy_process_group()
    sys.stdout.flush()
    os._exit(0)  # a thread of gloo that frees a tensor while the interpreter ends would abort the process


def place_on(mesh: DeviceMesh) -> dict[str, int]:
    assert mesh.mesh_dim_names is not None
    return {axis: mesh.get_local_rank(axis) for axis in mesh.mesh_dim_names}


def agree_in_process(name: str, axes: Mapping[str, int], shard: str, plan: str, zero: int = 0, length: int = 4) -> None:
    mesh = init_device_mesh("cpu", tuple(axes.values()), mesh_dim_names=tuple(axes))
    model = bound(name)
    whole = Whole(model, read(model, axes, shard), plan, length=length)
    module: Any = model.build(plan=plan, dtype=torch.float64, mesh=mesh, shard=shard, zero=zero)
    output, _ = whole.run(module, place_on(mesh))
    if not zero:
        module.average_gradients()
    whole.compare(output, {path: mean * whole.sharding.replicas for path, mean in list_gradients(module)}, place_on(mesh))


def agree_all(cases: list[tuple[Any, ...]]) -> None:
    for case in cases:
        agree_in_process(*case)


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4])
def test_processes_compute_what_one_computes(count: int, tmp_path: Path) -> None:
    sizes = [case for case in [*MAPS, *SENT] if math.prod(case[1].values()) == count]
    in_processes(count, tmp_path, agree_all, [(*case, plan) for case in sizes for plan in PLANS])


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4])
def test_keys_and_values_go_round_processes(count: int, tmp_path: Path) -> None:
    sizes = [case for case in [*RINGS, *ZIGZAGS] if math.prod(case[1].values()) == count]
    in_processes(count, tmp_path, agree_all, [(*case, "fast", 0, 8) for case in sizes])


SHARED = [
    ("llama", {"dp": 2}, "dp: b", 3),
    ("gpt2", {"dp": 2}, "dp: b", 2),
    ("llama", {"dp": 2, "tp": 2}, "tp: g f v (s); dp: b", 3),
    ("mixtral", {"dp": 2, "tp": 2}, "tp: g x v; dp: b", 3),
    ("gemma3", {"dp": 2, "cp": 2}, "cp: s; dp: b", 3),
    ("deepseek_v3", {"dp": 2, "tp": 2}, "tp: a x f; dp: b", 2),
    ("qwen3_next", {"dp": 2, "tp": 2}, "tp: g k f o v; dp: b", 3),
]


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4])
def test_processes_that_share_weights_compute_what_one_computes(count: int, tmp_path: Path) -> None:
    sizes = [case for case in SHARED if math.prod(case[1].values()) == count]
    in_processes(count, tmp_path, agree_all, [(*case[:3], plan, case[3]) for case in sizes for plan in PLANS])


def agree_in_stages(name: str, axes: Mapping[str, int], shard: str, plan: str, zero: int = 0) -> None:
    """Each stage has its part of all gradients, the last one of the output."""
    mesh, model = init_device_mesh("cpu", tuple(axes.values()), mesh_dim_names=tuple(axes)), bound(name)
    whole, place = Whole(model, read(model, axes, shard), plan), place_on(mesh)
    module: Any = model.build(plan=plan, dtype=torch.float64, mesh=mesh, shard=shard, zero=zero).eval()
    module.load_state_dict(whole.state)
    stage = PipelineStage(module, place["pp"], axes["pp"], torch.device("cpu"), group=mesh.get_group("pp"))
    rows = 2 // axes.get("dp", 1)
    schedule = ScheduleGPipe(stage, rows, loss_fn=lambda y, gradient: (y * gradient).sum(), scale_grads=False)
    x = whole.part_of(whole.inputs[0], model.spec.layer.formals[0], place)
    wanted = whole.part_of(whole.gradient, model.spec.layer.output, place)
    first, last = place["pp"] == 0, place["pp"] == axes["pp"] - 1
    output: Any = schedule.step(*[x] * first, target=wanted if last else None)
    module.sum_ties()
    if not whole.sharding.rows:
        norm = torch.stack([gradient.square().sum() for gradient in whole.gradients.values()]).sum().sqrt()
        assert_near(module.clip_gradients(1e9), norm, "the norm of all gradients")
    if last:
        assert_near(output.detach(), whole.part_of(whole.output, model.spec.layer.output, place), "the output")
    gradients = {module.recipe.piped.stage.find_whole(path): each for path, each in list_gradients(module)}
    assert {*gradients} == {*module.state_dict()} & {*whole.gradients}
    for path, gradient in gradients.items():
        for axis in whole.sharding.rows:
            gradient = gradient.contiguous() * (axes[axis] if zero else 1)
            if not zero:
                dist.all_reduce(gradient, group=mesh.get_group(axis))
        assert_near(gradient, whole.part(whole.gradients[path], place, whole.cuts.get(path, ((), {}))[1]), path)


def agree_all_in_stages(cases: list[tuple[Any, ...]]) -> None:
    for case in cases:
        agree_in_stages(*case)


STAGES = [
    ("llama", {"pp": 2}, "pp: l", 0),
    ("gemma3", {"pp": 2}, "pp: l", 0),  # E is tied: the first and the last stage have it
    ("deepseek_v3", {"pp": 2}, "pp: l", 0),
    ("gpt_oss", {"pp": 2}, "pp: l", 0),
    ("qwen3_next", {"pp": 2}, "pp: l", 0),
    ("llama", {"pp": 2, "tp": 2}, "pp: l; tp: g f v", 0),
    ("gemma3", {"pp": 2, "tp": 2}, "pp: l; tp: g f v (s)", 0),
    ("mixtral", {"pp": 2, "tp": 2}, "pp: l; tp: g x v", 0),
    ("gpt2", {"pp": 2, "dp": 2}, "pp: l; dp: b", 0),
    ("llama", {"pp": 2, "dp": 2}, "pp: l; dp: b", 3),
    ("mamba2_decoder", {"pp": 2, "tp": 2}, "pp: l; tp: g v", 0),
]


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4])
def test_stages_of_a_pipeline_compute_what_one_process_computes(count: int, tmp_path: Path) -> None:
    sizes = [case for case in STAGES if math.prod(case[1].values()) == count]
    in_processes(count, tmp_path, agree_all_in_stages, [(*case[:3], plan, case[3]) for case in sizes for plan in PLANS])


def log_stages(name: str, axes: Mapping[str, int], shard: str, zero: int, schedule: Any) -> None:
    """What a rank of a stage puts in, in a step of four microbatches after the first, in which stages tell their shapes."""
    mesh, model = init_device_mesh("cpu", tuple(axes.values()), mesh_dim_names=tuple(axes)), bound(name)
    place, loops, length = place_on(mesh), 4, 4 // axes.get("cp", 1)
    model = model.bind(L=4) if axes["pp"] == 4 else model
    module: Any = model.build(dtype=torch.float64, mesh=mesh, shard=shard, zero=zero)
    stage = PipelineStage(module, place["pp"], axes["pp"], torch.device("cpu"), group=mesh.get_group("pp"))
    steps = schedule(stage, loops, loss_fn=lambda y, _: y.sum(), scale_grads=False)
    given = [torch.zeros(2 * loops, length, dtype=torch.int64)] * (place["pp"] == 0)
    target = torch.zeros(2 * loops) if place["pp"] == axes["pp"] - 1 else None
    steps.step(*given, target=target)
    with Log() as log:
        steps.step(*given, target=target)
        module.sum_ties()
        if "dp" in axes and not zero:
            module.average_gradients()
    groups = {mesh.get_group(axis).group_name: axis for axis in axes}
    put = Counter({(kind, groups[group]): size for (kind, group), size in log.put.items() if size})
    counted = Counter({("all-reduce", axis): loops * AGREEMENT for axis in axes if axis in ("tp", "cp")})
    rows, state = 2 * loops * axes.get("dp", 1), zero if "dp" in axes else None
    for row in model.exchanges(axes, shard, zero=state, microbatches=loops, B=rows, S=4):
        if row.stage == place["pp"]:
            counted[row.collective, row.mesh] += row.count_bytes(8)
    assert put == counted, (name, shard, place)
    assert put["send", "pp"] == 8 * loops * 2 * length * model.size("D") * (2 if 0 < place["pp"] < axes["pp"] - 1 else 1)


def log_all_stages(cases: list[tuple[Any, ...]]) -> None:
    for case in cases:
        log_stages(*case)


LOGGED = [
    ("llama", {"pp": 2}, "pp: l", 0, ScheduleGPipe),
    ("gemma3", {"pp": 2}, "pp: l", 0, Schedule1F1B),
    ("llama", {"pp": 2, "tp": 2}, "pp: l; tp: g f v", 0, Schedule1F1B),
    ("gemma3", {"pp": 2, "tp": 2}, "pp: l; tp: g f v (s)", 0, ScheduleGPipe),
    ("mixtral", {"pp": 2, "tp": 2}, "pp: l; tp: g x v", 0, Schedule1F1B),
    ("llama", {"pp": 2, "cp": 2}, "pp: l; cp: s", 0, ScheduleGPipe),
    ("gpt2", {"pp": 2, "dp": 2}, "pp: l; dp: b", 0, Schedule1F1B),
    ("llama", {"pp": 2, "dp": 2}, "pp: l; dp: b", 2, ScheduleGPipe),
    ("llama", {"pp": 2, "dp": 2}, "pp: l; dp: b", 2, Schedule1F1B),
    ("llama", {"pp": 4, "tp": 1}, "pp: l; tp: g f v", 0, Schedule1F1B),  # the stages between have no vocabulary
]


@pytest.mark.parametrize("count", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_stages_exchange_what_is_counted(count: int, tmp_path: Path) -> None:
    in_processes(count, tmp_path, log_all_stages, [case for case in LOGGED if math.prod(case[1].values()) == count])


# ------------------------------------------------------------------------------------------------ each model in each way

# The maps of tensors and of experts over two and over four ranks, where sizes allow them.
MODELS_OF_WAYS = {
    "gpt2": ("a d' f v", "a d' f v"),
    "llama": ("g f v", "g f v"),
    "mixtral": ("g x v", "g x v"),
    "deepseek_v3": ("a x f v", "a x f v"),  # a sigmoid routes, keys are made of a latent
    "gemma3": ("g f v", "g f v"),
    "gpt_oss": ("g x v", "g x v"),
    "qwen3_next": ("g k f o v", "g f v"),
    "mamba2_decoder": ("g v", "j v"),
}
EXPERTS = {"mixtral", "deepseek_v3", "gpt_oss", "qwen3_next"}


def list_ways(name: str, count: int) -> dict[str, tuple[dict[str, int], str, int]]:
    """The mesh, the map and the stage of ZeRO of each way to share a model between so many ranks."""
    letters = MODELS_OF_WAYS[name][count == 4]
    between = letters.replace(" v", "") if name == "deepseek_v3" else letters
    staged = f"pp: l; tp: {MODELS_OF_WAYS[name][0]}" if count == 4 else "pp: l"
    ways = {
        "tp": ({"tp": count}, f"tp: {letters}", 0),
        "sp": ({"tp": count}, f"tp: (s) {between}", 0),
        "cp": ({"cp": count}, "cp: s", 0),
        "fsdp": ({"dp": count}, "dp: b", 3),
        "pp": ({"pp": 2, "tp": 2} if count == 4 else {"pp": 2}, staged, 0),
    }
    return ways | ({"ep": ({"ep": count}, "ep: b (x)", 0)} if name in EXPERTS else {})


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4])
def test_each_model_is_shared_in_each_way(count: int, tmp_path: Path) -> None:
    """What stands in no list above, by one plan each."""
    above = {(name, tuple(mesh.items()), shard, zero) for name, mesh, shard, zero in (*SHARED, *STAGES)}
    above |= {(name, tuple(mesh.items()), shard, 0) for name, mesh, shard in (*MAPS, *SENT)}
    ways = [(name, *way) for name in MODELS_OF_WAYS for way in list_ways(name, count).values()]
    missing = [way for way in ways if (way[0], tuple(way[1].items()), *way[2:]) not in above]
    cases = [(*way[:3], PLANS[number % 2], way[3]) for number, way in enumerate(missing)]
    (tmp_path / "stages").mkdir()
    in_processes(count, tmp_path, agree_all, [case for case in cases if "pp" not in case[1]])
    in_processes(count, tmp_path / "stages", agree_all_in_stages, [case for case in cases if "pp" in case[1]])


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


WHOLE = """axes
  b: B
  d: D
  f: F
  e: E
scalars
  p = 0.5
model Drop(z_bd) -> y_be:
  weights W_df, U_fe
  return Dr(Dr(z_bd) W_df U_fe)
"""


def drop_alike() -> None:
    """What is whole on ranks is dropped alike, what rows differ in is not."""
    torch.manual_seed(dist.get_rank())
    x, model = torch.ones(50, 64), einformer.parse(WHOLE).bind(D=64, F=64, E=64)
    for mesh, shard, alike in (("tp=2", "tp: f", True), ("dp=2", "dp: b", False)):
        output = model.build(mesh=mesh, shard=shard)(x).detach()
        both = [torch.empty_like(output) for _ in range(2)]
        dist.all_gather(both, output)
        assert torch.equal(*both) == alike, shard
        assert 0.4 < (output == 0).double().mean() < 0.6


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


def refuse_sharing() -> None:
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("dp",))
    with pytest.raises(EinformerError, match="E605 no module shares its weights by stage 1 of ZeRO"):
        bound("llama").build(mesh=mesh, shard="dp: b", zero=1)
    with pytest.raises(EinformerError, match="E741 no axis of the mesh splits the batch"):
        bound("llama").build(mesh=mesh, shard="dp: f", zero=3)
    with pytest.raises(EinformerError, match="E741 weights are split by `x` over `dp`, whose ranks would share them"):
        bound("mixtral").build(mesh=mesh, shard="dp: b (x)", zero=3)
    sends: Any = bound("mixtral").build(mesh=mesh, shard="dp: b (x)")
    with pytest.raises(EinformerError, match="E744 the ranks of `dp` share weights by `x`"):
        sends.generate(torch.zeros(1, 2, dtype=torch.int64), 1)
    module: Any = bound("llama").build(mesh=mesh, shard="dp: b", zero=3)
    with pytest.raises(EinformerError, match="E744 the ranks of the batch share its weights"):
        module.generate(torch.zeros(1, 2, dtype=torch.int64), 1)
    with pytest.raises(EinformerError, match="E744 stages of a pipeline, and weights that ranks of the batch share"):
        module.join_weights()


def log_sharing() -> None:
    """`fully_shard` puts in what is counted: gradients once, weights forward and by stage 3 backward too."""
    model, mesh = bound("llama"), init_device_mesh("cpu", (2,), mesh_dim_names=("dp",))
    for zero, wanted in ((3, 2), (2, 1)):
        module: Any = model.build(mesh=mesh, shard="dp: b", dtype=torch.float64, zero=zero)
        with Log() as log:
            module(torch.zeros(1, 4, dtype=torch.int64)).sum().backward()
        counted = Counter[str]()
        for row in model.exchanges("dp=2", "dp: b", B=2, S=4, zero=zero):
            counted[row.collective] += row.count_bytes(8)
        put = Counter[str]()
        for (collective, _), size in log.put.items():
            put[collective] += size
        assert put == counted == {"reduce-scatter": 8 * model.num_parameters, "all-gather": 4 * model.num_parameters * wanted}


def do_all(works: list[Callable[[], None]]) -> None:
    for work in works:
        work()


def test_two_processes_compute_alike_start_alike_and_drop_apart(tmp_path: Path) -> None:
    compute_alike = functools.partial(agree_in_process, "llama", {"tp": 2}, "tp: g f v", "fast")
    share_alike = functools.partial(agree_in_process, "llama", {"dp": 2}, "dp: b", "fast", 3)
    send = functools.partial(agree_in_process, "mixtral", {"ep": 2}, "ep: b (x)", "fast")
    stages = functools.partial(agree_in_stages, "gemma3", {"pp": 2}, "pp: l", "fast")
    same = [compute_alike, share_alike, send, stages, start_alike]
    in_processes(2, tmp_path, do_all, [*same, drop_alike, drop_apart, refuse_sharing, log_sharing])
