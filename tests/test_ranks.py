"""Do the ranks of a mesh decode together what one process decodes?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh

import einformer
from einformer import EinformerError
from einformer.interpreters.count import rules
from einformer.interpreters.count.numbers import Numbers
from einformer.interpreters.torch import module as modules
from einformer.objects import Model
from einformer.program.sharding import Sharding
from tests.few import few
from tests.oracles.ranks import assert_near, build_rank, continue_rank, read, run_on_ranks
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
