"""Do the ranks of large meshes exchange, to the byte, what the formulas say, and nothing else? Of published models, on the meta
device, in fake process groups of 8 to 8,192 ranks.
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.debug import CommDebugMode
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import einformer
from einformer.interpreters.count.conventions import PRECISIONS, read_devices
from einformer.interpreters.torch.measure import Balanced
from einformer.objects import Model
from einformer.program.kernels import PAIR
from einformer.report import plans
from tests.few import few

CONFIGS = Path(__file__).parent / "configs"
FEW = ["gpt_oss", "llama", "mixtral"]
RANKS = (8, 64, 512, 8192)
ROWS, LENGTH = 1, 64  # of each rank
SHALLOW = 5  # layers: one of each kind that the few have
HALFWAY = 12  # layers of other models: what the rest exchange is of the same kinds
NAMES = {
    "allreduce_": "all-reduce",
    "allgather_": "all-gather",
    "_reduce_scatter_base_": "reduce-scatter",
    "alltoall_base_": "all-to-all",
    "_allgather_base_": "all-gather",
    "send": "send",
}


def list_published() -> dict[str, Any]:
    """A config of each model type."""
    configs = (json.loads(path.read_text())["config"] for path in sorted(CONFIGS.glob("*.json")))
    return {config["model_type"]: config for config in configs}


def read(name: str, layers: int | None = None) -> Model:
    """A published model, with all its layers or only the first ones where their number has its usual name."""
    config = PUBLISHED[name]
    if layers and (depth := config.get("num_hidden_layers", 0)) > layers:
        of_layers = {key: value[:layers] for key, value in config.items() if isinstance(value, list) and len(value) == depth}
        config = {**config, **of_layers, "num_hidden_layers": layers}
    return einformer.from_huggingface(config)


class Log(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The bytes that this rank puts into collectives, by kind and process group."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.put, self.calls = Counter[tuple[str, str]](), 0

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        if func.namespace == "c10d":
            name = func._schema.name.removeprefix("c10d::")
            if name == "recv_":
                return func(*args, **(kwargs or {}))
            tensors = args[0] if name in ("allreduce_", "send") else args[1]
            size = sum(x.numel() * x.element_size() for x in tree_leaves(tensors) if isinstance(x, Tensor))
            (group,) = (x for x in args if isinstance(x, torch.ScriptObject) and "ProcessGroup" in str(x._type()))
            self.put[NAMES[name], dist.ProcessGroup.unbox(group).group_name] += size
            self.calls += 1
        return func(*args, **(kwargs or {}))


AGREEMENT = 24  # bytes by which ranks compare their inputs before a call


@contextlib.contextmanager
def join(ranks: int) -> Iterator[None]:
    """The first of so many ranks."""
    dist.init_process_group("fake", rank=0, world_size=ranks, store=FakeStore())
    try:
        yield
    finally:
        dist.destroy_process_group()


def choose_map(model: Model, most: Sequence[int] = (8, 4, 2)) -> tuple[dict[str, int], str]:
    """The most of these numbers of ranks over which weights can be split, and the cheapest map of those that are sensible."""
    step = plans.PricedStep("training", 8, LENGTH, PRECISIONS["bfloat16"], read_devices()["h100-sxm"])
    pricing = plans.Pricing(model, step, model.inputs(8, LENGTH))
    for ranks in most:
        mesh = {"tp": ranks}
        if found := [plan for shard in pricing.list_maps(mesh) for plan in pricing.price(mesh, shard)]:
            return mesh, min(found, key=lambda plan: sum(sent.put for sent in plan.sent)).shard
    return {}, ""


def run_rank(
    model: Model, mesh: Mapping[str, int], shard: str, device: str = "meta", length: int = LENGTH
) -> tuple[Counter[tuple[str, str]], int, int]:
    """What the first rank puts into collectives in a step, how often, and how often by `CommDebugMode`."""
    device_mesh = init_device_mesh("cpu", tuple(mesh.values()), mesh_dim_names=tuple(mesh))
    module = model.build(device=device, dtype=torch.bfloat16, mesh=device_mesh, shard=shard)
    axes = {device_mesh.get_group(axis).group_name: axis for axis in mesh}
    debug: Any = CommDebugMode
    with Balanced(), debug() as counted, Log() as log:
        output: Any = module(torch.zeros(ROWS, length, dtype=torch.long, device=device))
        output.sum().backward()
    return (
        Counter({(kind, axes[group]): size for (kind, group), size in log.put.items()}),
        log.calls,
        counted.get_total_counts(),
    )


def count_formulas(model: Model, mesh: Mapping[str, int], shard: str) -> tuple[Counter[tuple[str, str]], int]:
    put = Counter({("all-reduce", axis): AGREEMENT for axis in mesh if axis != "dp"})
    calls = len(put)
    for row in model.exchanges(mesh, shard, "fast", B=ROWS * mesh["dp" if "dp" in mesh else "ep"], S=LENGTH):
        near = row.collective == "neighbours"  # the first rank sends forward what stands before the next, and backward the rest
        put["all-to-all" if near else row.collective, row.mesh] += row.count_bytes(2) // (2 if near else 1)
        calls += row.times
    return put, calls


PUBLISHED = list_published()
RANKS_OF = {name: RANKS[k % len(RANKS)] for k, name in enumerate(PUBLISHED)}
DEPTHS = (SHALLOW, None)
CASES = few(
    [(name, depth) for name in PUBLISHED for depth in (DEPTHS if name in FEW else (HALFWAY,))],
    {(name, SHALLOW) for name in FEW},
)
every_depth = pytest.mark.parametrize("layers", few(DEPTHS, {SHALLOW}), ids=["shallow", "whole"])


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")  # of CommDebugMode
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]} {'shallow ' * (case[1] == SHALLOW)}on {RANKS_OF[case[0]]}")
def test_a_rank_of_a_large_mesh_exchanges_what_is_counted(case: tuple[str, int | None]) -> None:
    name, layers = case
    ranks = RANKS_OF[name]
    if name == "falcon_h1":
        pytest.xfail("CommDebugMode loses the parent of a module that is called twice in one expression")
    model = read(name, layers)
    axes, letters = choose_map(model)
    assert letters
    mesh, shard = {"dp": ranks // axes["tp"], **axes}, f"{letters}; dp: b"
    with join(ranks):
        put, calls, counted = run_rank(model, mesh, shard)
    assert (put, calls) == count_formulas(model, mesh, shard)
    assert put.keys() == count_formulas(read(name), mesh, shard)[0].keys()
    assert calls == counted > 0


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")  # of CommDebugMode
@every_depth
def test_pairs_of_split_experts_are_counted_as_if_experts_had_equally_many_rows(layers: int | None) -> None:
    """A bias of each expert asks for the sums over its hidden axis before: they are exchanged for pairs."""
    config = PUBLISHED["gpt_oss"]
    model, mesh, shard = read("gpt_oss", layers), {"dp": 2, "ep": 2, "tp": 2}, "tp: g f v; ep: x; dp: b"
    with join(8):
        put, calls, _ = run_rank(model, mesh, shard)
    assert (put, calls) == count_formulas(model, mesh, shard)
    pairs = LENGTH * config["num_experts_per_tok"] // 2
    rows = model.exchanges(mesh, shard, "fast", B=2, S=LENGTH)
    assert [row.numbers for row in rows if PAIR in row.letters] == [pairs * config["hidden_size"]]


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")  # of CommDebugMode
@every_depth
@pytest.mark.parametrize(
    ("name", "shard"),
    [
        ("mixtral", "ep: b (x); tp: g f v"),
        pytest.param("deepseek_v3", "ep: b (x); tp: a f v m o", marks=pytest.mark.slow),
    ],
)
def test_the_rows_that_travel_to_experts_are_counted(name: str, shard: str, layers: int | None) -> None:
    model, mesh = read(name, layers), {"ep": 8, "tp": 2}
    with join(16):
        put, calls, counted = run_rank(model, mesh, shard)
    assert (put, calls) == count_formulas(model, mesh, shard)
    assert calls == counted > 0
    assert put["all-to-all", "ep"] > 0


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")  # of CommDebugMode
@pytest.mark.parametrize("name", ["mistral", pytest.param("gemma3_text", marks=pytest.mark.slow), "olmo_hybrid", "lfm3"])
@pytest.mark.parametrize("ranks", [2, 8])
@every_depth
def test_the_first_rank_sends_what_the_next_ones_read_of_it(name: str, ranks: int, layers: int | None) -> None:
    """Positions and states go forward; what it gives back is nothing, since it reads none of others."""
    model, mesh = read(name, layers), {"cp": ranks}
    with join(ranks):
        put, *_ = run_rank(model, mesh, "cp: s")
    wanted = Counter({("all-reduce", "cp"): AGREEMENT})
    for row in model.exchanges(mesh, "cp: s", "fast", B=ROWS, S=LENGTH * ranks):
        if row.collective not in ("neighbours", "send") or row.phase == "forward":
            wanted[{"neighbours": "all-to-all"}.get(row.collective, row.collective), "cp"] += row.count_bytes(2)
    assert put == wanted


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")  # of CommDebugMode
@pytest.mark.parametrize("ranks", [2, 64, 512])
def test_a_rank_sends_the_keys_and_values_that_go_round(ranks: int) -> None:
    """On a CPU and at a small size, since torch sends nothing that is on meta. A position for each rank."""
    model = einformer.load("llama").bind(D=8, A=4, G=2, F=6, L=2, V=10)
    with join(ranks):
        put, *_ = run_rank(model, {"cp": ranks}, "cp: s[ring]", "cpu", 1)
    wanted = Counter({("all-reduce", "cp"): AGREEMENT})
    for row in model.exchanges({"cp": ranks}, "cp: s[ring]", "fast", B=ROWS, S=ranks):
        wanted[{"ring": "send"}.get(row.collective, row.collective), "cp"] += row.count_bytes(2)
    assert put == wanted
