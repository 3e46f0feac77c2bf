"""Do the ranks of a mesh do what one process does: decode, start, step, and refuse?"""

from __future__ import annotations

import datetime
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import transformers
from torch import Tensor
from torch.distributed.checkpoint.filesystem import FileSystemWriter
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

import einformer
from einformer import EinformerError
from einformer.huggingface.tensors import TensorPart
from einformer.interpreters.count import rules
from einformer.interpreters.count.numbers import Numbers
from einformer.interpreters.torch import module as modules
from einformer.interpreters.torch.checkpoints import list_tensors
from einformer.interpreters.torch.plan import INITIALISATIONS
from einformer.objects import Model
from einformer.program.sharding import Sharding
from tests.few import few
from tests.oracles.ranks import Whole, assert_near, build_rank, continue_rank, read, run_on_ranks
from tests.small import PLANS
from tests.test_parallel import in_processes, place_on
from tests.test_sharding import MAPS, bound

APART = {("deepseek_v3", "tp: (s) a f v m o"), ("deepseek_v3", "tp: (s) a x f"), ("llama", "tp: (s) f")}
DECODING = [case for case in MAPS if "cp" not in case[1] and (case[0], case[2]) not in APART]
QUICK = [
    ("gpt2", "tp: a d' f v"),
    ("llama", "tp: g f v; dp: b"),
    ("mixtral", "tp: g f v; ep: x"),
    ("deepseek_v3", "tp: a x f v"),
]
QUICK += [
    ("llama", "tp: (s) g f v"),
    ("gemma3", "tp: g f v"),
    ("gpt_oss", "tp: g x v"),
    ("qwen3_next", "tp: g u f o v"),
    ("mamba2_decoder", "tp: n"),
]

CASES = few(
    [(*case, plan) for case in DECODING for plan in PLANS],
    [(*case, plan) for case in DECODING for plan in PLANS if (case[0], case[2]) in QUICK and plan == "fast"],
)
ROWS, LENGTH, NEW = 4, 4, 4


@dataclass
class Continued:
    """A model that continues rows of tokens in one process, in chunks, after padding and in a static cache."""

    model: Model
    sharding: Sharding
    plan: str

    def __post_init__(self) -> None:
        torch.manual_seed(0)
        module = modules.build(self.model._recipe(self.plan), dtype=torch.float64).eval()
        for parameter in module.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
        self.state: dict[str, Tensor] = module.state_dict()
        self.tokens = torch.randint(self.model.legend.length("v"), (ROWS, LENGTH + NEW))
        self.lengths = [4, 2, 3, 1]
        self.results = self.run(module, self.tokens, self.lengths)

    def run(self, module: Any, x_bs: Tensor, lengths: list[int]) -> dict[str, Tensor]:
        """The logits of all positions and the greedy text, each several ways."""
        padding = torch.tensor([LENGTH - length for length in lengths])
        logits = {name: self.step(module, x_bs, pad, static) for name, (pad, static) in self.ways(padding).items()}
        prompt = x_bs[:, :LENGTH]
        texts = {
            f"text {kind}": module.generate(prompt, NEW, lengths=own) for kind, own in {"": None, "padded": lengths}.items()
        }
        return logits | texts | {"log_prob": module.log_prob(prompt, x_bs[:, LENGTH:])}

    def ways(self, padding: Tensor) -> dict[str, tuple[Tensor | None, bool]]:
        return {"chunks": (None, False), "padded": (padding, False), "static": (None, True), "static, padded": (padding, True)}

    def step(self, module: Any, x_bs: Tensor, padding: Tensor | None, static: bool) -> Tensor:
        """The logits of all tokens: of a prompt at once, then of one or two positions."""
        cache = module.cache(padding, LENGTH + NEW)
        parts = [module.decode(x_bs[:, :LENGTH], cache=cache)]
        if static:
            cache = module.static(cache, LENGTH + NEW)
        parts += [module.decode(x, cache=cache) for x in torch.split(x_bs[:, LENGTH:], [1] * NEW if static else [1, 2, 1], 1)]
        if padding is None and not static:
            self.bytes = cache.bytes
        return torch.cat([module.join_logits(part) for part in parts], 1)

    def compare(self, module: Any, place: Mapping[str, int]) -> None:
        """Asserts that a rank continues its rows as one process does, and keeps as many bytes as are counted."""
        module.eval().load_state_dict(self.state)
        ranks, rank = self.sharding.times("b"), place.get(self.sharding.axis("b"), 0)
        own = slice(rank * ROWS // ranks, (rank + 1) * ROWS // ranks)
        mine = Continued.__new__(Continued)
        for name, result in mine.run(module, self.tokens[own], self.lengths[own]).items():
            wanted = self.results[name][own]
            if "text" in name:
                assert torch.equal(result, wanted), name
            assert_near(result.double(), wanted.double(), name)
        assert mine.bytes == self.count_bytes()

    def count_bytes(self) -> int:
        local = self.sharding.local(self.model.at(B=ROWS, S=LENGTH + NEW))
        return rules.count_cache(self.model.kept, Numbers(local, "s"), 8).total


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]} {case[2]} {case[3]}")
def test_ranks_continue_a_text_as_one_process_does(case: tuple[str, dict[str, int], str, str]) -> None:
    """Logits, greedy text token for token, and the bytes of each rank's cache."""
    name, mesh, shard, plan = case
    continue_alike(bound(name), mesh, shard, plan)


def continue_alike(model: Model, mesh: dict[str, int], shard: str, plan: str) -> None:
    whole = Continued(model, read(model, mesh, shard), plan)

    def run(rank: Any) -> None:
        module = build_rank(model, whole.sharding, plan, rank)
        continue_rank(module, rank)
        whole.compare(module, rank.world.places()[rank.rank])

    run_on_ranks(mesh, run)


MERGED = """axes
  b: B
  s: S
  d: D
  a: A
  e: H = D / A
  v: V
model Text(x_bs) -> y_bsv causal in s:
  weights E_vd, K_dae, Q_dd', O_dv
  z_bsd = E_{x_bs d}
  u_{bs(ae)} = z_bsd K_dae
  q_bsd' = z_bsd Q_dd'
  w_bss' = Sm_s'(q_bsd' u_bs'd' + where(s' <= s, 0, -inf))
  return (w_bss' z_bs'd) O_dv
"""


@pytest.mark.parametrize("plan", PLANS)
def test_keys_that_ranks_exchange_where_they_are_read_are_kept_in_parts(plan: str) -> None:
    continue_alike(einformer.parse(MERGED).bind(D=8, A=4, V=12), {"tp": 2}, "tp: a v", plan)


def test_a_step_exchanges_no_keys_of_earlier_positions() -> None:
    """Keys that are sums over ranks are summed before they are kept; the score of each position is a sum too, of one number."""

    def run(rank: Any) -> list[int]:
        module: Any = build_rank(model, sharding, "fast", rank)
        continue_rank(module, rank)
        cache, x_bs, sizes = module.cache(), torch.zeros(1, 8, dtype=torch.int64), []
        for x in torch.split(x_bs, [5, 1, 1, 1], 1):
            before = len(rank.world.log)
            module.decode(x, cache=cache)
            sizes.append(sum(size for _, _, size in rank.world.log[before:]))
        return sizes

    model = einformer.parse(MERGED).bind(D=8, A=4, V=12)
    sharding = read(model, {"tp": 2}, "tp: d")
    (_, *steps), _ = run_on_ranks({"tp": 2}, run)[0]
    assert steps[1] - steps[0] == steps[2] - steps[1] == 8


def continue_all(cases: list[tuple[str, Mapping[str, int], str, str]]) -> None:
    for name, axes, shard, plan in cases:
        mesh, model = init_device_mesh("cpu", tuple(axes.values()), mesh_dim_names=tuple(axes)), bound(name)
        module = model.build(plan=plan, dtype=torch.float64, mesh=mesh, shard=shard)
        Continued(model, read(model, axes, shard), plan).compare(module, place_on(mesh))


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4])
def test_processes_continue_a_text_as_one_process_does(count: int, tmp_path: Path) -> None:
    sizes = [case for case in DECODING if math.prod(case[1].values()) == count]
    in_processes(count, tmp_path, continue_all, [(*case, plan) for case in sizes for plan in PLANS])


def test_weights_that_lie_apart_are_not_read_together() -> None:
    """Where a sublayer is whole and computes a rank's positions, its weights are varied one by one."""

    def run(rank: Any) -> None:
        with pytest.raises(EinformerError, match=r"E744 `blocks\.0\.Attention` stores weights apart"):
            continue_rank(build_rank(bound("llama"), sharding, "fast", rank), rank)

    sharding = read(bound("llama"), {"tp": 2}, "tp: (s) f")
    run_on_ranks({"tp": 2}, run)


def test_positions_are_not_split_while_decoding() -> None:
    with pytest.raises(EinformerError, match="E744 `s` is split over `cp`, and a step of decoding has one position"):
        bound("llama").cached_source(mesh="cp=2", shard="cp: s")


# ------------------------------------------------------------------------------------------------------------- training

STEPS = [
    ("llama", {"tp": 2}, "tp: g f v"),
    ("llama", {"tp": 2}, "tp: d"),
    ("gpt2", {"dp": 2}, "dp: b"),
    ("gemma3", {"tp": 2}, "tp: g f v"),  # tied
    ("mixtral", {"tp": 2}, "tp: g x v"),
    ("llama", {"tp": 2, "tq": 2}, "tp: g f v; tq: j"),  # of one packed parameter the weights are split over other axes
    ("mixtral", {"tp": 2, "ep": 2}, "tp: g f v; ep: x"),
    ("llama", {"dp": 2, "tp": 2}, "tp: g f v; dp: b"),
]


def step_alike(name: str, axes: Mapping[str, int], shard: str, plan: str) -> None:
    """A step of AdamW with clipped gradients, on the ranks and alone."""
    mesh, model = init_device_mesh("cpu", tuple(axes.values()), mesh_dim_names=tuple(axes)), bound(name)
    whole = Whole(model, read(model, axes, shard), plan)
    module: Any = model.build(plan=plan, dtype=torch.float64, mesh=mesh, shard=shard)
    alone = model.build(plan=plan, dtype=torch.float64).eval()
    alone.load_state_dict(whole.state)
    alone(*(x.detach() for x in whole.inputs)).backward(whole.gradient)  # type: ignore[no-untyped-call]
    whole.run(module, place_on(mesh))
    for axis in whole.sharding.rows:
        for parameter in module.parameters():
            dist.all_reduce(parameter.grad, group=mesh.get_group(axis))
    norm = torch.nn.utils.clip_grad_norm_(alone.parameters(), 0.5)
    assert norm > 1
    assert_near(module.clip_gradients(0.5), norm, "the norm")
    for some in (module, alone):
        torch.optim.AdamW(some.parameters(), lr=0.01).step()
    for path, weight in module.take(alone.state_dict()).items():
        assert not torch.equal(weight, module.take(whole.state)[path]) or weight.dim() == 1
        assert_near(module.state_dict()[path], weight, path)


def start_alike(name: str, axes: Mapping[str, int], shard: str, plan: str) -> None:
    """The first weights are those of one process with the seed of the first rank, and so are those of `initialise`."""
    for scheme in INITIALISATIONS:
        torch.manual_seed(7)
        alone: Any = bound(name).build(plan=plan, initialisation=scheme)
        torch.manual_seed(7 + dist.get_rank())
        module: Any = bound(name).build(plan=plan, initialisation=scheme, mesh=dict(axes), shard=shard)
        for path, weight in module.take(alone.state_dict()).items():
            assert torch.equal(weight, module.state_dict()[path]), path
        torch.manual_seed(8 + dist.get_rank())
        module.initialise()
        torch.manual_seed(8)
        alone.initialise()
        for path, weight in module.take(alone.state_dict()).items():
            assert torch.equal(weight, module.state_dict()[path]), path


def train_all(cases: list[tuple[str, Mapping[str, int], str, str]]) -> None:
    for case in cases:
        step_alike(*case)
        start_alike(*case)


@pytest.mark.parametrize("count", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_processes_start_and_step_as_one_process_does(count: int, tmp_path: Path) -> None:
    cases = [case for case in STEPS if math.prod(case[1].values()) == count]
    plans = PLANS if count == 4 else ("fast",)
    in_processes(count, tmp_path, train_all, [(*case, plan) for case in cases for plan in plans])


# ------------------------------------------------------------------------------------------------------------ bad input


def refuse(match: Sequence[str], work: Callable[[], object]) -> None:
    """Each rank raises an error of its own."""
    with pytest.raises(EinformerError, match=match[dist.get_rank()]):
        work()


def refuse_all() -> None:
    """What one of two ranks does otherwise, or wrongly, is an error on both."""
    rank, model = dist.get_rank(), bound("llama")
    mesh, both = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",)), "E745 the ranks build different modules"
    plan, dtype = ("fast", torch.float32) if rank else ("notation", torch.float64)
    alike: dict[str, Any] = {"mesh": mesh, "shard": "tp: g f v"}
    refuse([both, both], lambda: model.build(plan=plan, **alike))
    refuse([both, both], lambda: model.build(dtype=dtype, **alike))
    refuse([both, both], lambda: model.build(mesh=mesh, shard="tp: g f v" if rank else "tp: g f"))
    refuse([both, both], lambda: model.bind(F=12 + 2 * rank).build(**alike))
    refuse([both, both], lambda: model.build(mesh="tp=2" if rank else "dp=2", shard=""))
    refuse(["E741", "E745 rank 0 cannot go on"], lambda: model.build(mesh=mesh, shard="tp: g f v" if rank else "tp: q"))
    refuse(["E745 rank 1 cannot go on", "E742"], lambda: model.build(mesh=mesh, shard="tp: g f v" + " h" * rank))
    refuse(["E745 rank 1 cannot go on", "E605"], lambda: model.build(plan="slow" if rank else "fast", **alike))
    message = "E745 the mesh dp=2, tp=4 has 8 ranks, the process group 2"
    refuse([message, message], lambda: model.build(mesh="dp=2,tp=4", shard="tp: g"))
    message = "E745 the axes of the mesh have no names"
    refuse([message, message], lambda: model.build(mesh=init_device_mesh("cpu", (2,)), shard="tp: g"))

    module, different = model.build(**alike), "E745 the ranks call the module with different inputs"
    x_bs = torch.zeros(2, 4, dtype=torch.int64)
    refuse([different, different], lambda: module(x_bs[:, : 3 + rank]))
    refuse([different, different], lambda: module(x_bs.int() if rank else x_bs))
    refuse(["E703", "E745 rank 0 cannot go on"], lambda: module(x_bs if rank else x_bs - 1))
    refuse(["E745 rank 1 cannot go on", "E701"], lambda: module(x_bs[0] if rank else x_bs))
    refuse([different, different], lambda: module.generate(x_bs, 3 + rank))
    refuse([different, different], lambda: module.decode(x_bs, cache=module.cache(), last=1 + rank))
    refuse(["E708", "E745 rank 0 cannot go on"], lambda: module.generate(x_bs, 3 * rank - 1))
    assert module(x_bs).shape == (2, 4, 10)  # after all of them they go on

    sends = bound("mixtral").build(mesh="ep=2", shard="ep: b (x)")  # ranks have other rows, and meet
    refuse(["E703", "E745 rank 0 cannot go on"], lambda: sends(x_bs if rank else x_bs - 1))
    refuse([different, different], lambda: sends(x_bs[:, : 3 + rank]))
    assert sends(x_bs + rank).shape == (2, 4, 20)

    outside = DeviceMesh("cpu", [0], mesh_dim_names=("tp",))
    if rank:
        refuse(["", "E745 this rank is not in the mesh"], lambda: model.build(mesh=outside, shard="tp: g"))
    late = DeviceMesh.from_group(dist.new_group(timeout=datetime.timedelta(seconds=3)), "cpu", mesh_dim_names=("tp",))
    module = model.build(mesh=late, shard="tp: g f v")
    if rank:  # the other never comes
        refuse(["", "E745 another rank does not come"], lambda: module(x_bs))
    dist.barrier()  # else it is gone before the time is out


def test_what_one_rank_does_wrong_is_an_error_on_all(tmp_path: Path) -> None:
    in_processes(2, tmp_path, refuse_all)


def test_a_mesh_needs_a_process_group() -> None:
    with pytest.raises(EinformerError, match="E745 no process group is running"):
        bound("llama").build(mesh="tp=2", shard="tp: g")


# ------------------------------------------------------------------------------------------------------------- compiled

COMPILED = [
    ("llama", "tp: g f v", "fast"),
    ("llama", "tp: (s) g f v", "fast"),
    ("mixtral", "tp: g x v", "fast"),
    ("gpt2", "tp: a f v", "notation"),
    ("mistral", "cp: s", "fast"),  # a window
    ("llama", "cp: s[zigzag]", "fast"),
    ("llama", "cp: s[ring]", "fast"),
    ("mixtral", "ep: b (x)", "fast"),
]


def compile_alike(name: str, shard: str, plan: str) -> None:
    """One graph without breaks, collectives in it, forward and backward; and one of a step of decoding.

    What goes round is sent from rank to rank, which torch compiles behind a flag.
    """
    torch._dynamo.config.enable_p2p_compilation = True
    axis = shard.partition(":")[0]
    module: Any = bound(name).build(mesh=f"{axis}=2", shard=shard, plan=plan, dtype=torch.float64).eval()  # drops are no graph
    torch.manual_seed(0)
    x_bs, results = torch.randint(bound(name).legend.length("v"), (2, 4)), list[list[Tensor]]()
    for run in (module, torch.compile(module, backend="aot_eager", fullgraph=True)):
        module.zero_grad()
        output = run(x_bs)
        output.square().sum().backward()
        results.append([output.detach(), *(parameter.grad.clone() for parameter in module.parameters())])
    for whole, compiled in zip(*results, strict=True):
        assert_near(compiled, whole, name)
    if axis == "tp" and "(" not in shard:
        text = module.generate(x_bs, 3)
        module.compile_steps(backend="aot_eager")
        assert torch.equal(module.generate(x_bs, 3), text)


def compile_all(cases: list[tuple[str, str, str]]) -> None:
    for case in cases:
        compile_alike(*case)


@pytest.mark.slow
def test_the_module_of_a_rank_is_one_graph(tmp_path: Path) -> None:
    in_processes(2, tmp_path, compile_all, COMPILED)


# ----------------------------------------------------------------------------------------------------- files

GPT2: dict[str, Any] = {"n_embd": 24, "n_head": 4, "n_layer": 2, "vocab_size": 20, "n_positions": 8, "n_inner": 12}
MIXTRAL: dict[str, Any] = {
    "hidden_size": 16,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "intermediate_size": 12,
    "vocab_size": 20,
}
MIXTRAL |= {"num_local_experts": 4, "num_experts_per_tok": 2, "num_hidden_layers": 2, "tie_word_embeddings": False}
CONFIGS = {
    "gpt2": (transformers.GPT2Config(**GPT2).to_dict(), "tp: a d' f v"),  # transposed, packed and tied
    "mixtral": (transformers.MixtralConfig(**MIXTRAL).to_dict(), "tp: g x v"),  # experts one by one in files
}


def load_alike(name: str, folder: Path) -> None:
    """Weights of transformers on ranks, and back: as in one process, and no rank reads the numbers of another."""
    config, shard = CONFIGS[name]
    model, sizes = einformer.from_huggingface(config), list[int]()
    alone: Any = model.build()
    alone.load_huggingface(folder)
    module: Any = model.build(mesh="tp=2", shard=shard)
    reading = TensorPart.read

    def read_logged(piece: TensorPart, source: Any) -> Tensor:
        sizes.append(math.prod(axis.stop - axis.start for axis in piece.box))
        return reading(piece, source)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TensorPart, "read", read_logged)
        module.load_huggingface(folder)
    parts = module.state_dict()
    assert all(torch.equal(weight, parts[path]) for path, weight in module.take(alone.state_dict()).items())
    assert sum(sizes) == sum(part.numel() for part in parts.values())
    for path, weight in alone.to_huggingface().items():
        assert torch.equal(weight, module.to_huggingface()[path]), path
    for kind, some in (("alone", alone), ("ranks", module)):
        if kind == "ranks" or dist.get_rank() == 0:
            some.save_huggingface(folder / kind, most=4000)
    dist.barrier()
    files = sorted(path.name for path in (folder / "alone").iterdir())
    assert files == sorted(path.name for path in (folder / "ranks").iterdir())
    assert all((folder / "alone" / file).read_bytes() == (folder / "ranks" / file).read_bytes() for file in files)
    refuse(
        ["E745 rank 1 cannot go on", "E802"], lambda: module.load_huggingface(folder / "none" if dist.get_rank() else folder)
    )
    refuse(["E801", "E745 rank 0 cannot go on"], lambda: module.save_huggingface(folder / "config.json"))


def load_all_alike(folder: Path) -> None:
    for name in CONFIGS:
        load_alike(name, folder / name)


def test_ranks_load_and_save_files_of_transformers(tmp_path: Path) -> None:
    for name, (config, _) in CONFIGS.items():
        module: Any = einformer.from_huggingface(config).build()
        module.save_huggingface(tmp_path / name)
    in_processes(2, tmp_path, load_all_alike, tmp_path)


def advance(module: Any, optimizer: Any, whole: Whole, mesh: Any = None) -> dict[str, Tensor]:
    """The weights after one more step."""
    inputs, gradient = [x.detach() for x in whole.inputs], whole.gradient
    if mesh is not None:
        layer, place = whole.model.spec.layer, place_on(mesh)
        inputs = [whole.part_of(x, formal, place) for x, formal in zip(inputs, layer.formals, strict=True)]
        gradient = whole.part_of(gradient, layer.output, place)
    optimizer.zero_grad()
    module.eval()(*inputs).backward(gradient)
    for axis in whole.sharding.rows if mesh is not None else ():
        for parameter in module.parameters():
            if module.zero:  # a mean
                parameter.grad.mul_(dict(whole.sharding.mesh)[axis])
            else:
                dist.all_reduce(parameter.grad, group=mesh.get_group(axis))
    optimizer.step()
    return dict(list_tensors(module, None))


def build_training(mesh: str = "", shard: str = "", plan: str = "fast", zero: int = 0) -> tuple[Any, torch.optim.Optimizer]:
    torch.manual_seed(5)
    named: dict[str, Any] = {"mesh": mesh, "shard": shard, "zero": zero} if mesh else {}
    module: Any = bound("llama").build(plan=plan, dtype=torch.float64, **named)
    return module, torch.optim.AdamW(module.parameters(), lr=0.01)


def train_alone(steps: int) -> dict[str, Tensor]:
    """The weights of one process after so many steps."""
    module, optimizer = build_training()
    whole = Whole(bound("llama"), read(bound("llama"), {"tp": 2}, "tp: g f v"), "fast")
    for _ in range(steps):
        weights = advance(module, optimizer, whole)
    return weights


RESUMED = [("tp=2", "tp: d", "fast"), ("tp=2", "tp: g f v", "notation"), ("dp=2", "dp: b", "fast")]


def resume_alike(folder: Path) -> None:
    """A checkpoint of one mesh is read on another, in the middle of training, by another plan."""
    wanted = train_alone(3)
    for place, (mesh, shard, plan) in enumerate([("tp=2", "tp: g f v", "fast"), *RESUMED]):
        module, optimizer = build_training(mesh, shard, plan)
        whole = Whole(bound("llama"), read(bound("llama"), {mesh[:2]: 2}, shard), plan)
        if not place:
            advance(module, optimizer, whole, module.mesh)
            advance(module, optimizer, whole, module.mesh)
            module.save_checkpoint(folder / "first", optimizer)
        else:
            module.load_checkpoint(folder / "first", optimizer)
        weights = advance(module, optimizer, whole, module.mesh)
        for path, weight in module.take(wanted).items():
            assert_near(weights[path], weight, f"{shard} {path}")
    none = folder / ("none" if dist.get_rank() else "first")
    refuse(["E801 .* is there already", "E745 rank 0 cannot go on"], lambda: module.save_checkpoint(folder / "first"))
    refuse(["E745 rank 1 cannot go on", "E802"], lambda: module.load_checkpoint(none))
    other: Any = bound("gpt2").build(mesh="tp=2", shard="tp: a f")
    refuse(["E704", "E704"], lambda: other.load_checkpoint(folder / "first"))
    other = bound("llama").bind(F=24).build(mesh="tp=2", shard="tp: f")
    refuse(["E701", "E701"], lambda: other.load_checkpoint(folder / "first"))
    refuse(
        ["E701", "E701"], lambda: bound("llama").bind(F=24).build(mesh="tp=2", shard="tp: f").load_checkpoint(folder / "first")
    )


@pytest.mark.slow
def test_training_goes_on_from_a_checkpoint_on_another_mesh_and_on_none(tmp_path: Path) -> None:
    in_processes(2, tmp_path, resume_alike, tmp_path)
    module, optimizer = build_training()
    module.load_checkpoint(tmp_path / "first", optimizer)
    whole = Whole(bound("llama"), read(bound("llama"), {"tp": 2}, "tp: g f v"), "fast")
    weights = advance(module, optimizer, whole)
    for path, weight in train_alone(3).items():
        assert_near(weights[path], weight, path)


def resume_shared(folder: Path) -> None:
    """Saved where two ranks share all weights, read where they share them otherwise, split them, or have them whole."""
    wanted = train_alone(3)
    for mesh, shard, plan, zero in [
        ("dp=2", "dp: b", "fast", 3),
        ("dp=2", "dp: b", "notation", 3),
        ("dp=2", "dp: b", "fast", 2),
        ("dp=2", "dp: b", "fast", 0),
        ("tp=2", "tp: g f v", "fast", 0),
    ]:
        module, optimizer = build_training(mesh, shard, plan, zero)
        whole = Whole(bound("llama"), read(bound("llama"), {mesh[:2]: 2}, shard), plan)
        if (folder / "shared").exists():
            module.load_checkpoint(folder / "shared", optimizer)
        else:
            for _ in range(2):
                advance(module, optimizer, whole, module.mesh)
            module.save_checkpoint(folder / "shared", optimizer)
        weights = advance(module, optimizer, whole, module.mesh)
        for path, weight in module.take(wanted).items():
            assert_near(weights[path], weight, f"{shard} {zero} {path}")
    module, optimizer = build_training("dp=2", "dp: b", "fast", 3)
    refuse(["E801 .* is there already", "E745 rank 0 cannot go on"], lambda: module.save_checkpoint(folder / "shared"))
    before = dict(list_tensors(module, optimizer))
    none = folder / ("none" if dist.get_rank() else "shared")
    refuse(["E745 rank 1 cannot go on", "E802"], lambda: module.load_checkpoint(none, optimizer))
    assert all(torch.equal(tensor, before[path]) for path, tensor in list_tensors(module, None))


@pytest.mark.slow
def test_weights_that_ranks_of_the_batch_share_are_saved_for_any_mesh(tmp_path: Path) -> None:
    in_processes(2, tmp_path, resume_shared, tmp_path)
    module, optimizer = build_training()
    module.load_checkpoint(tmp_path / "shared", optimizer)
    whole = Whole(bound("llama"), read(bound("llama"), {"tp": 2}, "tp: g f v"), "fast")
    weights = advance(module, optimizer, whole)
    for path, weight in train_alone(3).items():
        assert_near(weights[path], weight, path)


def step_by_tenths(name: str, mesh: str = "", shard: str = "", zero: int = 0) -> tuple[Any, torch.optim.Optimizer]:
    """A module after a step in which each gradient is a tenth of its weight."""
    torch.manual_seed(5)
    named: dict[str, Any] = {"mesh": mesh, "shard": shard, "zero": zero} if mesh else {}
    module: Any = bound(name).build(dtype=torch.float64, **named)
    optimizer = torch.optim.AdamW(module.parameters(), lr=0.01)
    for parameter in module.parameters():
        parameter.grad = parameter.detach() / 10
    optimizer.step()
    return module, optimizer


STAGES = [
    (2, "llama", "pp=2", "pp: l", 0),
    (4, "gemma3", "pp=2,tp=2", "pp: l; tp: g f v", 0),  # E is tied: two stages have it
    (4, "mixtral", "pp=2,tp=2", "pp: l; tp: g x v", 0),
    (4, "llama", "pp=2,dp=2", "pp: l; dp: b", 3),
]


def save_stages(folder: Path) -> None:
    for count, name, mesh, shard, zero in STAGES:
        if count == dist.get_world_size():
            module, optimizer = step_by_tenths(name, mesh, shard, zero)
            before = {path: tensor.clone() for path, tensor in list_tensors(module, optimizer)}
            module.save_checkpoint(folder / name, optimizer)
            module, optimizer = step_by_tenths(name, mesh, shard, zero)
            torch.nn.init.zeros_(next(module.parameters()))
            module.load_checkpoint(folder / name, optimizer)
            for path, tensor in list_tensors(module, optimizer):
                assert torch.equal(tensor, before[path]), path


@pytest.mark.parametrize("count", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_stages_save_one_checkpoint_of_the_whole_model(count: int, tmp_path: Path) -> None:
    in_processes(count, tmp_path, save_stages, tmp_path)
    for ranks, name, *_ in STAGES:
        if ranks == count:
            module, optimizer = step_by_tenths(name)
            wanted = {path: tensor.clone() for path, tensor in list_tensors(module, optimizer)}
            other: Any = bound(name).build(dtype=torch.float64)
            fresh = torch.optim.AdamW(other.parameters(), lr=0.01)
            other.load_checkpoint(tmp_path / name, fresh)
            for path, tensor in list_tensors(other, fresh):
                assert_near(tensor, wanted[path], path)


def die_while_saving(folder: Path, mesh: str, shard: str, zero: int) -> None:
    module, optimizer = build_training(mesh, shard, "fast", zero)
    module.save_checkpoint(folder / "old", optimizer)
    with pytest.MonkeyPatch.context() as patch:
        if dist.get_rank():
            patch.setattr(FileSystemWriter, "write_data", lambda *_: os._exit(0))
        refuse(["E801 .* cannot be written", ""], lambda: module.save_checkpoint(folder / "new", optimizer))
    os._exit(0)  # the group is broken


@pytest.mark.slow
@pytest.mark.parametrize(("mesh", "shard", "zero"), [("tp=2", "tp: g f v", 0), ("dp=2", "dp: b", 3)])
def test_a_rank_that_dies_while_it_saves_loses_nothing(mesh: str, shard: str, zero: int, tmp_path: Path) -> None:
    """The others have an error, what was there is whole, and what was to come is not there."""
    in_processes(2, tmp_path, die_while_saving, tmp_path, mesh, shard, zero)
    module, optimizer = build_training()
    before = {path: weight.clone() for path, weight in module.state_dict().items()}
    torch.nn.init.zeros_(module.E)
    module.load_checkpoint(tmp_path / "old", optimizer)
    assert all(torch.equal(weight, before[path]) for path, weight in module.state_dict().items())
    assert not (tmp_path / "new").exists()
