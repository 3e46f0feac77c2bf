"""Does a device of a mesh hold and exchange what is counted for it, and is the plan that is told to be best the best one?"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import sympy
import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.distributed.device_mesh import init_device_mesh
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

import einformer
from einformer import EinformerError
from einformer.interpreters.count import rules
from einformer.interpreters.count.conventions import CONVENTIONS, PRECISIONS, Work, read_devices
from einformer.interpreters.count.exchanges import find_traffic
from einformer.interpreters.count.numbers import Numbers
from einformer.interpreters.torch import module as modules
from einformer.objects import Model
from einformer.report import plans, series
from einformer.report.plans import list_sets
from tests.few import few
from tests.oracles.ranks import Mesh, Whole, World, build_rank, read, run_on_ranks
from tests.test_exchanged import join
from tests.test_sharding import MAPS, MODELS, NEAR, SENT, bound

# ------------------------------------------------------------------------------------------------------- what it holds

FEW = [MAPS[1], MAPS[3], MAPS[4], SENT[0]]
SHARED = [case for case in SENT if 4 not in case[1].values()]  # of two rows
LIKE_TORCH = {"gpt2", "llama", "gemma3", "bloom", "gptj", "linear_attention"}  # experts and convolutions are kept otherwise


def count_saved(module: nn.Module, inputs: Sequence[Tensor]) -> Counter[int]:
    """How often torch saves a storage of so many numbers for the backward pass; weights are left out."""
    storages = dict[int, Tensor]()

    def pack(tensor: Tensor) -> Tensor:
        storages[tensor.untyped_storage()._cdata] = tensor.detach()
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        output = module.train()(*(x.detach() for x in inputs))
    assert output.requires_grad
    weights = {tensor.untyped_storage()._cdata for tensor in (*module.parameters(), *module.buffers())}
    kept = (tensor for place, tensor in storages.items() if place not in weights)
    return Counter(tensor.untyped_storage().nbytes() // tensor.element_size() for tensor in kept)


def count_ours(model: Model, sizes: Numbers) -> Counter[int]:
    counted = Counter[int]()
    for row in rules.count_activations(model.spec.tree, model.spec.name, sizes, 1):
        counted[row.each] += row.times
    return counted


def size_rank(
    model: Model, mesh: Any, shard: str, place: Mapping[str, int] | None = None, length: int = 4, rows: int = 2
) -> Numbers:
    legend, sharding = model._at(model.inputs(batch=rows, length=length), mesh, shard)
    return replace(Numbers.of_rank(model.spec.tree, model.spec.name, legend, sharding), place=place)


def run_parts(whole: Whole, mesh: Any, plan: str) -> list[tuple[int, Counter[int]]]:
    """The numbers of the parameters of each rank, and what torch saves there."""

    def run(rank: Mesh) -> tuple[int, Counter[int]]:
        module, place = build_rank(whole.model, whole.sharding, plan, rank), rank.world.places()[rank.rank]
        formals = whole.model.spec.layer.formals
        parts = [whole.part_of(x.detach(), formal, place) for x, formal in zip(whole.inputs, formals, strict=True)]
        return sum(parameter.numel() for parameter in module.parameters()), count_saved(module, parts)

    return run_on_ranks(mesh, run)[0]


HOLDING = [*MAPS, *SHARED, ("llama", {"cp": 2}, "cp: s")]  # the keys of its rotation, read at s', are a product


@pytest.mark.parametrize("case", few(HOLDING, [*FEW, *HOLDING[-4:]]), ids=lambda case: f"{case[0]} {case[2]}")
def test_a_device_holds_the_weights_and_saves_the_values_that_are_counted(case: tuple[str, dict[str, int], str]) -> None:
    name, mesh, shard = case
    model = bound(name)
    whole = Whole(model, read(model, mesh, shard), "notation")
    for (numbers, saved), place in zip(run_parts(whole, mesh, "notation"), World(mesh).places(), strict=True):
        assert 4 * numbers == model.memory(precision="float32", mesh=mesh, shard=shard, B=2, S=4).parameters
        assert name not in LIKE_TORCH or not count_ours(model, size_rank(model, mesh, shard, place)) - saved
    alone = modules.build(model._recipe("notation"), dtype=torch.float64)
    assert name not in LIKE_TORCH or not count_ours(model, size_rank(model, "", "")) - count_saved(alone, whole.inputs)


@pytest.mark.parametrize("name", ["llama", "bloom"])
def test_a_device_of_a_ring_saves_its_own_keys_alone(name: str) -> None:
    model, mesh, shard = bound(name), {"cp": 3}, "cp: s[ring]"
    whole = Whole(model, read(model, mesh, shard), "fast", length=21)
    rows = rules.count_activations(model.spec.tree, model.spec.name, size_rank(model, mesh, shard, length=21), 1)
    keys = Counter(row.each for row in rows for _ in range(row.times) if "s'" in row.letters and "ss'" not in row.letters)
    (numbers,) = keys
    for _, saved in run_parts(whole, mesh, "fast"):
        assert not keys - saved
        assert 3 * numbers not in saved


class Blocks(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The most storages of so many bytes that live at once when a rank sends or receives."""

    def __init__(self, size: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.size, self.most, self.there = size, 0, dict[int, Any]()
        self.refer: Any = StorageWeakRef

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        for x in tree_leaves((args, output)):
            if isinstance(x, Tensor) and x.untyped_storage().nbytes() == self.size:
                self.there[x.untyped_storage()._cdata] = self.refer(x.untyped_storage())
        if func.namespace == "c10d":
            self.most = max(self.most, sum(not storage.expired() for storage in self.there.values()))
        return output


@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_a_ring_holds_four_blocks_of_others(ranks: int) -> None:
    """Backward, beside its own keys and values."""
    model = bound("llama").bind(**MODELS["llama"] | {"L": 1, "G": 2})
    with join(ranks):
        device_mesh = init_device_mesh("cpu", (ranks,), mesh_dim_names=("cp",))
        module: Any = model.build(mesh=device_mesh, shard="cp: s[ring]", dtype=torch.float64)
        held = model.memory(precision="float32", mesh={"cp": ranks}, shard="cp: s[ring]", B=2, S=5 * ranks)
        block = 2 * 5 * model.size("G") * model.size("D") // model.size("A")
        with Blocks(8 * block) as blocks:
            module(torch.zeros(2, 5, dtype=torch.int64)).sum().backward()
    assert blocks.most == 2 + held.travelling // (4 * block) == 2 + 2 * min(ranks + 1, 4)


INSIDE = """axes
  b: B
  s: S
  d: D
  f: F
model Inside(z_bsd) -> y_bsd causal in s:
  weights W_df, U_fd, Q_dd', R_d'd
  h_bsf = relu(z_bsd W_df)
  o_bsd = h_bsf U_fd
  n_bsd = tanh(o_bsd)
  c_bsd = cumsum_s n_bsd
  p_bsd' = c_bsd Q_dd'
  m_bsd' = tanh(p_bsd')
  return n_bsd + m_bsd' R_d'd
"""  # n is split along positions, and what is made of c is not


def test_a_device_saves_and_computes_what_is_whole_inside_a_sublayer() -> None:
    model, mesh, shard = einformer.parse(INSIDE).bind(D=6, F=8), {"tp": 2}, "tp: f (s)"
    whole = Whole(model, read(model, mesh, shard), "notation")
    for _, saved in run_parts(whole, mesh, "notation"):
        assert not count_ours(model, size_rank(model, mesh, shard)) - saved
    assert set(run_flops(whole, mesh)) == {count_our_flops(model, mesh, shard)} == {2 * 8 * (6 * 4 + 4 * 6 + 6 * 6 + 6 * 6)}


EXACT = replace(CONVENTIONS["torch"], plan="notation")


def count_our_flops(
    model: Model, mesh: Any, shard: str, place: Mapping[str, int] | None = None, length: int = 4, rows: int = 2
) -> int:
    sizes = size_rank(model, mesh, shard, place, length, rows)
    return rules.sum_counts(rules.count_flops(model.spec.tree, model.spec.name, sizes, EXACT))


def run_flops(whole: Whole, mesh: Any) -> list[int]:
    """The FLOPs of the products in the forward pass of each rank."""

    def run(rank: Mesh) -> int:
        module, place = build_rank(whole.model, whole.sharding, whole.plan, rank), rank.world.places()[rank.rank]
        formals = whole.model.spec.layer.formals
        parts = [whole.part_of(x.detach(), formal, place) for x, formal in zip(whole.inputs, formals, strict=True)]
        return run_counted(whole, module, parts)

    return run_on_ranks(mesh, run)[0]


def run_counted(whole: Whole, module: nn.Module, inputs: Sequence[Tensor]) -> int:
    module.eval().load_state_dict(whole.state)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        module(*inputs)
    return int(counter.get_total_flops())


@pytest.mark.parametrize("name", ["mixtral", "gpt_oss"])
@pytest.mark.parametrize("shard", ["tp: g x v", "tp: b (x)"])
def test_ranks_that_share_experts_compute_the_chosen_ones_alone(name: str, shard: str) -> None:
    """Together they compute what one process computes, and none of it twice."""
    model, mesh = bound(name), {"tp": 2}
    whole = Whole(model, read(model, mesh, shard), "fast")
    alone = modules.build(model._recipe("fast"), dtype=torch.float64)
    assert sum(run_flops(whole, mesh)) == run_counted(whole, alone, whole.inputs)


@pytest.mark.parametrize("case", few(HOLDING, [*FEW, MAPS[7], *HOLDING[-4:]]), ids=lambda case: f"{case[0]} {case[2]}")
def test_a_device_computes_as_many_flops_as_are_counted(case: tuple[str, dict[str, int], str]) -> None:
    """Also where a softmax runs over a split index: what it reads is computed once."""
    name, mesh, shard = case
    model = bound(name)
    whole = Whole(model, read(model, mesh, shard), "notation")
    assert run_flops(whole, mesh) == [count_our_flops(model, mesh, shard, place) for place in World(mesh).places()]


@pytest.mark.parametrize("name", NEAR)
def test_a_device_computes_with_the_positions_of_its_windows(name: str) -> None:
    """The first rank has none before it; without a place the one that has most is counted."""
    model, mesh = NEAR[name], {"cp": 4}
    whole = Whole(model, read(model, mesh, "cp: s"), "notation", length=16)
    flops, rows = run_flops(whole, mesh), max(2, whole.sharding.replicas)
    assert flops == [count_our_flops(model, mesh, "cp: s", place, 16, rows) for place in World(mesh).places()]
    assert max(flops) == count_our_flops(model, mesh, "cp: s", None, 16, rows)


@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_in_zigzag_compute_as_much_as_each_other(ranks: int) -> None:
    """Under a causal mask. Of ranks in order the first one computes with one block of keys, the last one with all."""
    model, length = bound("llama"), 16
    half = length // (2 * ranks)  # the positions of a piece
    square = model.size("L") * 2 * (2 * 2 * model.size("A") * model.size("D") // model.size("A")) * half**2  # two rows
    for shard, squares in (
        ("cp: s[ring zigzag]", [2 * ranks + 1] * ranks),
        ("cp: s[ring]", [4 * (rank + 1) for rank in range(ranks)]),
    ):
        mesh = {"cp": ranks}
        whole = Whole(model, read(model, mesh, shard), "fast", length=length)
        counted = count_our_flops(model, mesh, shard, None, length)  # with all keys
        assert run_flops(whole, mesh) == [counted - (4 * ranks - count) * square for count in squares]


@pytest.mark.parametrize("way", ["", "[zigzag]", "[ring]", "[ring zigzag]"])
@pytest.mark.parametrize("name", ["llama", "mistral"])
def test_the_device_with_most_pairs_of_positions_is_counted(name: str, way: str) -> None:
    """Of ranks in order the last one; in zigzag all have equally many under a causal mask. The pairs are counted one by one."""
    model, ranks, length = bound(name), 4, 16
    masked, reach = replace(EXACT, pairs="exact"), MODELS[name].get("W", length)
    size, rows = length // ranks, 2
    owned = [[*range(r * size, (r + 1) * size)] for r in range(ranks)]
    if "zigzag" in way:
        half = size // 2
        owned = [[*range(r * half, (r + 1) * half), *range(length - (r + 1) * half, length - r * half)] for r in range(ranks)]
    pairs = [sum(0 <= s - t < reach for s in own for t in range(length)) for own in owned]

    def count(mesh: Mapping[str, int], shard: str) -> int:
        sizes = size_rank(model, mesh, shard, None, length, rows)
        return rules.sum_counts(rules.count_flops(model.spec.tree, model.spec.name, sizes, masked))

    each = model.size("L") * rows * 2 * 2 * model.size("D")  # of a pair: scores and values of all heads
    whole = count({}, "")
    assert count({"cp": ranks}, f"cp: s{way}") == (whole - sum(pairs) * each) // ranks + max(pairs) * each
    assert max(pairs) * ranks >= sum(pairs)


# ---------------------------------------------------------------------------------------------------- which maps there are

# What the best map of letters splits over one axis of two ranks: Megatron's, experts or their hidden axis by what they send.
BEST = {
    "gpt2": "a d' f k v",
    "llama": "f g v",
    "mixtral": "g v x",
    "gemma3": "f g v",
    "bloom": "a f v",
    "gptj": "a f v",
}


def make_step(batch: int, length: int, work: Work = "training") -> plans.PricedStep:
    return plans.PricedStep(work, batch, length, PRECISIONS["bfloat16"], read_devices()["h100-sxm"])


def price(
    model: Model, mesh: Mapping[str, int], batch: int = 2, length: int = 4, work: Work = "training"
) -> list[plans.ParallelPlan]:
    return plans.list_plans(model, make_step(batch, length, work), [mesh])


@pytest.mark.parametrize(("name", "letter"), [("mixtral-8x7b", "x"), ("llama-3-8b", "")])
def test_an_axis_of_experts_splits_experts(name: str, letter: str) -> None:
    """And the axis of all other weights leaves them to it. A model without experts has no map for one."""
    model = einformer.model(name)
    pricing = plans.Pricing(model, make_step(8, 1024), model.inputs())
    maps = list(pricing.list_maps({"ep": 2, "tp": 2}))
    assert bool(maps) == bool(letter)
    assert all(letter in split["ep"] and letter not in split["tp"] for split in map(read_map, maps))


def read_map(line: str) -> dict[str, str]:
    """The letters of each axis."""
    return dict(part.split(": ") for part in line.split("; "))


@pytest.mark.parametrize("name", BEST)
def test_the_map_of_megatron_is_found_by_rule(name: str) -> None:
    sets = {frozenset(plan.shard.removeprefix("tp: ").split()) for plan in price(bound(name), {"tp": 2})}
    assert frozenset(BEST[name].split()) in sets


def test_sets_of_letters_are_the_largest_that_do_not_clash() -> None:
    """Held against all subsets."""
    model = bound("deepseek_v3")
    clashes = plans._find_clashes(model)
    even = [letter for letter in clashes if model.legend.length(letter) % 2 == 0]
    free = [
        frozenset(some)
        for count in range(len(even) + 1)
        for some in itertools.combinations(even, count)
        if all(clashes[letter].isdisjoint(some) for letter in some)
    ]
    assert {*list_sets(clashes, model.legend, 2)} == {some for some in free if not any(some < other for other in free)}


@pytest.mark.parametrize("name", few(list(MODELS), ["llama", "mixtral"]))
def test_letters_that_do_not_clash_can_be_split_together(name: str) -> None:
    """What is refused nevertheless is refused for what is read of a letter, E744: no tensor carries two."""
    model = bound(name)
    for letters in list_sets(plans._find_clashes(model), model.legend, 2):
        assert refuse(model, f"tp: {' '.join(sorted(letters))}") in ("", "E744"), letters


def refuse(model: Model, shard: str) -> str:
    try:
        model.exchanges("tp=2", shard, B=2, S=4)
    except EinformerError as error:
        return error.findings[0].code
    return ""


# ------------------------------------------------------------------------------------------------------- what they cost


def test_a_plan_holds_and_sends_what_is_counted_apart() -> None:
    model, mesh, sizes = einformer.model("llama-3-70b"), {"dp": 4, "tp": 8}, {"B": 32, "S": 4096}
    (plan,) = (p for p in price(model, mesh, 32, 4096) if (p.shard, p.zero, p.recompute) == ("tp: f g v; dp: b", 3, "full"))
    memory = model.memory(recompute="full", mesh=mesh, shard=plan.shard, zero=3, B=32, S=4096)
    assert plan.memory - plan.held["gathered"] == memory.total
    exchanges = model.exchanges(mesh, plan.shard, "fast", **sizes)
    assert sum(sent.put for sent in plan.sent if sent.axis == "tp" and sent.phase != "recomputed") == sum(
        row.count_bytes(2) for row in exchanges
    )
    assert sum(sent.put for sent in plan.sent if sent.phase == "recomputed") == 80 * 2 * 2 * 8 * 4096 * 8192
    rank = memory.parameters // 2 * 4  # with the weights of one rank of the batch
    assert {(s.phase, s.collective): s.put for s in plan.sent if s.axis == "dp"} == {
        ("gradients", "reduce-scatter"): 4 * rank,
        ("forward", "all-gather"): 2 * rank // 4,
        ("backward", "all-gather"): 2 * rank // 4,
    }
    assert plan.flops * 32 == pytest.approx(model.flops(convention="exact", phase="training", recompute="full", **sizes))


def test_a_stage_of_a_pipeline_sends_what_passes_to_the_next() -> None:
    """Narayanan et al. 2021, section 3.1: b s h numbers for each microbatch, and as many back. All stages sum a tied weight."""
    model = einformer.model("llama-2-70b")
    rows = [row for row in model.exchanges("pp=4,tp=8", "pp: l; tp: g f v", microbatches=16, B=64, S=4096) if row.mesh == "pp"]
    assert [(row.stage, row.phase, row.times, row.numbers) for row in rows] == [
        (stage, phase, 16, 4 * 4096 * 8192)
        for stage, phases in enumerate((["forward"], ["forward", "backward"], ["forward", "backward"], ["backward"]))
        for phase in phases
    ]
    tied = [row for row in bound("gemma3").exchanges("pp=2", "pp: l", B=4, S=4) if row.phase == "gradients"]
    sizes = bound("gemma3").legend.values
    assert [(row.stage, row.times, row.numbers) for row in tied] == [(stage, 1, sizes["V"] * sizes["D"]) for stage in (0, 1)]


PIPED = [("llama", {"pp": 2, "tp": 2}, "pp: l; tp: g f v"), ("mixtral", {"pp": 2, "dp": 2}, "pp: l; dp: b")]


@pytest.mark.parametrize("case", PIPED, ids=lambda case: f"{case[0]} {case[2]}")
def test_formulas_of_what_stages_exchange_are_its_numbers(case: tuple[str, dict[str, int], str]) -> None:
    name, mesh, shard = case
    model = bound(name)
    values = {**MODELS[name], **model.legend.values, "B": 8, "S": 4, **mesh}
    letters = {sympy.Symbol(letter): value for letter, value in values.items() if isinstance(value, int | float)}
    formulas = model.exchange_formulas(mesh, shard, microbatches=2)
    numbers = model.exchanges(mesh, shard, microbatches=2, B=8, S=4)
    assert [(row.stage, row.letters, row.phase, row.times, row.numbers) for row in numbers] == [
        (row.stage, row.letters, row.phase, *(sympy.sympify(e).subs(letters) for e in (row.times, row.numbers)))
        for row in formulas
    ]
    assert len({row.stage for row in numbers}) == 2


def test_a_stage_has_its_part_of_the_turns() -> None:
    formulas = bound("llama").exchange_formulas("pp=2,tp=2", "pp: l; tp: g f v")
    assert {str(row.times) for row in formulas if row.layer == "Attention"} == {"L/pp"}


def test_turns_of_one_kind_have_no_formula_for_a_stage() -> None:
    text = (
        INSIDE.replace("model Inside", "layer Inside").replace(" causal in s", "")
        + "model M(z_bsd) -> y_bsd:\n  weights Inside: Inside\n  for l < L:\n"
    )
    text = text.replace("  f: F\n", "  f: F\n  l: L\n")
    model = einformer.parse(f"{text}    z_bsd <- where(l < 1, Inside_l(z_bsd), 2 z_bsd)\n  return z_bsd\n").bind(D=6, F=8, L=4)
    assert model.exchange_formulas("tp=2", "tp: f")
    with pytest.raises(EinformerError, match="E607"):
        model.exchange_formulas("pp=2,tp=2", "pp: l; tp: f")


def test_a_plan_holds_and_computes_what_stages_do() -> None:
    """Each microbatch is a row of each rank. Of four stages the first keeps four at once, the last one (1F1B)."""
    model, mesh, shard = einformer.model("llama-3-70b"), {"pp": 4, "dp": 2, "tp": 8}, "tp: f g v; dp: b; pp: l"
    plan = next(p for p in price(model, mesh, 32, 4096) if (p.shard, p.zero, p.recompute) == (shard, 1, "full"))
    step: dict[str, Any] = {
        "precision": "bfloat16",
        "recompute": "full",
        "mesh": {"dp": 2, "tp": 8},
        "zero": 1,
        "B": 2,
        "S": 4096,
    }
    stages = [model.stage(number, 4) for number in range(4)]
    shards = ["tp: f g v; dp: b", *["tp: f g; dp: b"] * 2, "tp: f g v; dp: b"]
    held = [stage.memory(shard=own, **step) for stage, own in zip(stages, shards, strict=True)]
    logits = 4 * 4096 * model.size("V") // 8
    wanted = [memory.total + (3 - number) * memory.activations for number, memory in enumerate(held)]
    assert [stage.memory for stage in plan.stages] == [*wanted[:3], wanted[3] + logits]
    assert plan.memory == max(wanted[0], wanted[3] + logits)
    whole: dict[str, Any] = {**step, "mesh": mesh, "shard": shard, "B": 32, "microbatches": 16}
    assert model.memory(**whole).total == plan.memory
    bare = {"tp": 8, "pp": 4}  # all rows at once: the last stage has their logits
    alone = stages[3].memory(recompute="full", mesh={"tp": 8}, shard=shards[0].removesuffix("; dp: b"), B=32, S=4096)
    together = model.memory(recompute="full", mesh=bare, shard="pp: l; tp: f g v", B=32, S=4096)
    assert together == replace(alone, logits=32 * logits)
    flops = model.flops(convention="exact", phase="training", recompute="full", B=32, S=4096)
    assert sum(stage.flops for stage in plan.stages) == pytest.approx(flops / 16)
    times = [stage.flops / 16 for stage in plan.stages]  # of a microbatch
    assert [stage.waited for stage in plan.stages] == pytest.approx([sum(times[:number]) for number in range(4)])
    busy = max(stage.flops + stage.waited for stage in plan.stages)
    assert plan.times["compute"] == busy / read_devices()["h100-sxm"].rate(PRECISIONS["bfloat16"])
    piped = {sent.phase: sent.put for sent in plan.stages[1].sent if sent.axis == "pp"}
    assert piped == dict.fromkeys(("forward", "backward"), 2 * 16 * 4096 * 8192)


STREAM = """axes
  b: B
  d: D
  l: L
model M(z_bd) -> z_bd:
  weights γ_ld
  for l < L:
    z_bd <- γ_ld z_bd
  return z_bd
"""


def test_an_index_that_no_stage_carries_is_refused() -> None:
    with pytest.raises(EinformerError, match="E741 no tensor of the model carries `j'`"):
        bound("llama").exchanges("pp=2,tp=2", "pp: l; tp: j'", B=2, S=4)


def test_stages_share_no_weight_that_has_numbers_for_each_turn() -> None:
    """It would be taken for one that several stages have, whose gradients are summed."""
    with pytest.raises(EinformerError, match="E741 `γ` has numbers for each turn of the loop over `l`"):
        einformer.parse(STREAM).bind(D=4, L=2).exchanges("pp=2", "pp: l", B=2)


def test_stages_are_priced_for_training_alone() -> None:
    assert not price(bound("llama"), {"pp": 2}, work="decode")
    with pytest.raises(EinformerError, match="E741 stages of a pipeline over `pp` are priced for training alone"):
        plans.list_plans(bound("llama"), make_step(4, 4, "decode"), [{"pp": 2}], "pp: l")


@pytest.mark.parametrize("given", [{}, {"zero": 1}])
def test_the_rows_of_a_microbatch_are_shared_by_the_ranks_of_the_batch(given: dict[str, Any]) -> None:
    """Of four microbatches of one row each a rank would have half a row, and none was counted."""
    for count in (bound("llama").exchanges, bound("llama").memory):
        with pytest.raises(EinformerError, match="E742 `b` has 4 numbers, which 4 microbatches on 2 ranks each cannot share"):
            count(mesh="pp=2,dp=2", shard="pp: l; dp: b", microbatches=4, B=4, S=4, **given)


@pytest.mark.parametrize(
    ("mesh", "given", "message"),
    [
        ("pp=2,tp=2", {"microbatches": 3}, "E742 `b` has 4 numbers, which 3 microbatches cannot share"),
        ("tp=2", {"microbatches": 2}, "E605 2 microbatches pass through no pipeline"),
        ("pp=2,dp=2", {"zero": 2}, "E741 several stages have `E`"),
        ("pp=3", {}, "E742 `l` has 2 numbers, which 3 ranks of `pp` cannot share"),
    ],
)
def test_the_memory_of_a_pipeline_that_cannot_be_is_refused(mesh: str, given: dict[str, Any], message: str) -> None:
    shards = {"tp": "tp: g", "pp": "pp: l", "dp": "dp: b"}
    shard = "; ".join(shards[part.partition("=")[0]] for part in mesh.split(","))
    with pytest.raises(EinformerError, match=message):
        bound("gemma3").memory(mesh=mesh, shard=shard, B=4, S=4, **given)


@pytest.mark.parametrize(
    ("mesh", "shard", "given", "message"),
    [
        ("pp=2,dp=2", "pp: l; dp: b", {"zero": 3}, "E605 how often the ranks of a stage gather weights"),
        ("dp=2", "dp: b", {"microbatches": 2}, "E605 2 microbatches pass through no pipeline"),
        ("pp=2", "pp: l", {"microbatches": 3}, "E742 `b` has 4 numbers, which 3 microbatches cannot share"),
    ],
)
def test_what_has_no_count_in_a_pipeline_is_refused(mesh: str, shard: str, given: dict[str, Any], message: str) -> None:
    with pytest.raises(EinformerError, match=message):
        bound("llama").exchanges(mesh, shard, B=4, S=4, **given)


@pytest.mark.parametrize("work", ["prefill", "decode", "training"])
def test_one_device_takes_the_time_that_its_roofline_says(work: Work) -> None:
    """The bounds of `count --device`."""
    model = einformer.model("gpt2")
    (plan, *_) = (p for p in price(model, {}, 1, 1024, work) if p.recompute == "none")
    bounds = {bound.work: bound for bound in series.bounds(model, 1, 1024, "bfloat16", read_devices()["h100-sxm"])}
    assert (plan.flops, plan.moved) == (bounds[work].flops, bounds[work].moved)
    assert plan.seconds == bounds[work].seconds


@pytest.mark.parametrize(("within", "nodes"), [(1, 4), (4, 1), (2, 3), (8, 8)])
def test_a_collective_sends_what_a_tree_of_its_parts_needs(within: int, nodes: int) -> None:
    """Of a gather each node needs the parts of the others, which its ranks share; within it each rank those of the others."""
    ranks = within * nodes
    out = sum(1 for part in range(ranks) for node in range(nodes) if node != part // within) / ranks
    assert find_traffic("all-gather", 1, within, nodes) == pytest.approx((nodes * (within - 1), out))
    assert find_traffic("reduce-scatter", ranks, within, nodes) == pytest.approx((nodes * (within - 1), out))
    assert find_traffic("all-reduce", ranks, within, nodes) == pytest.approx((2 * nodes * (within - 1), 2 * out))


def test_meshes_are_all_those_of_so_many_devices() -> None:
    meshes = [*plans.list_meshes(12)]
    assert all(math.prod(mesh.values()) == 12 for mesh in meshes)
    assert len({tuple(mesh.items()) for mesh in meshes}) == len(meshes)
    assert {"dp": 3, "tp": 4} in meshes
    assert {"dp": 2, "cp": 3, "tp": 2} in meshes


def test_the_smallest_mesh_is_the_smallest() -> None:
    model, limit = bound("llama"), 60_000
    step = make_step(8, 4)
    plan = plans.find_smallest(model, step, limit)
    devices = math.prod(size for _, size in plan.mesh)
    assert plan.memory <= limit
    assert devices > 1
    assert all(p.memory > limit for p in plans.list_plans(model, step, plans.list_meshes(devices // 2)))
    with pytest.raises(EinformerError, match="E609"):
        plans.find_smallest(model, step, 100, most=4)


ODD = """axes
  b: B
  d: D
  l: L
layer Square(z_d) -> z_d:
  weights W_dd'
  return tanh(z_d' W_dd')
model M(z_bd) -> z_bd:
  weights Square: Square
  for l < L:
    z_bd <- z_bd + Square_l(z_bd)
  return z_bd
"""


def test_the_smallest_mesh_has_stages_where_nothing_else_fits() -> None:
    """Of a row and an odd number of features nothing can be split but the turns of the loop."""
    model, step = einformer.parse(ODD).bind(D=5, L=4), replace(make_step(1, 1), recompute=("none",))
    alone = plans.find_smallest(model, step, 10**9)
    plan = plans.find_smallest(model, step, alone.memory - 1)
    assert (plan.mesh, plan.shard, alone.mesh) == ((("pp", 2),), "pp: l", ())
    assert plan.memory == model.memory(mesh={"pp": 2}, shard="pp: l", B=1).total


def test_a_device_without_published_links_is_refused() -> None:
    step = plans.PricedStep("training", 2, 4, PRECISIONS["float16"], read_devices()["t4"])
    with pytest.raises(EinformerError, match="E605 there is no published rate of the links of NVIDIA T4"):
        plans.list_plans(bound("llama"), step, [{"tp": 2}])


LISTED = "qwen3_next"  # the kinds of its layers are a list, which has no formula


@pytest.mark.parametrize(
    "case", few([case for case in [*MAPS, *SHARED] if case[0] != LISTED], FEW), ids=lambda case: f"{case[0]} {case[2]}"
)
def test_formulas_of_what_is_exchanged_are_its_numbers(case: tuple[str, dict[str, int], str]) -> None:
    name, mesh, shard = case
    model = bound(name)
    values = {**MODELS[name], **model.legend.values, "B": 2, "S": 4, **mesh}
    letters = {sympy.Symbol(letter): value for letter, value in values.items() if isinstance(value, int | float)}
    if name in ("gemma3", "gpt_oss") and "cp" in mesh:  # a window for each layer
        with pytest.raises(EinformerError, match="E607"):
            model.exchange_formulas(mesh, shard)
        return
    for plan in ("notation", "fast"):
        formulas, numbers = model.exchange_formulas(mesh, shard, plan), model.exchanges(mesh, shard, plan, B=2, S=4)
        assert [(row.letters, row.phase, row.times, row.numbers, row.uneven) for row in numbers] == [
            (row.letters, row.phase, *(sympy.sympify(e).subs(letters) for e in (row.times, row.numbers, row.uneven)))
            for row in formulas
        ]


def test_ranks_do_not_share_the_one_position_of_a_step_of_decoding() -> None:
    assert not price(bound("llama"), {"cp": 2, "tp": 2}, work="decode")
    assert {plan.shard for plan in price(bound("llama"), {"tp": 2}, work="decode")} == {"tp: f g v"}
