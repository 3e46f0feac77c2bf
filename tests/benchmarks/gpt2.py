"""How fast is GPT-2 124M beside transformers with SDPA, and beside its bare matrix products? And GPT-2 XL: parsed to emitted?

float32, two threads; every round times all of them, in turn, so that what else the machine does meets them alike.
`python -m tests.benchmarks forward training decode emit`.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import AutoModelForCausalLM, DynamicCache, GPT2Config, StaticCache

import einformer as ein

Work = Callable[[], object]
Shape = tuple[int, ...]

SIZES = {"D": 768, "A": 12, "L": 12, "V": 50257, "K": 1024}
XL = SIZES | {"D": 1600, "A": 25, "L": 48}
ROUNDS, THREADS = 15, 2


def ours() -> nn.Module:
    return ein.load("gpt2").bind(**SIZES).build().eval()


def theirs() -> nn.Module:
    """Without a cache, which nobody asked for here."""
    models: Any = AutoModelForCausalLM
    module: nn.Module = models.from_config(GPT2Config(use_cache=False), attn_implementation="sdpa")
    return module


def tokens(batch: int, length: int) -> Tensor:
    return torch.randint(SIZES["V"], (batch, length), generator=torch.Generator().manual_seed(0))


def logits(module: nn.Module, x_bs: Tensor) -> Tensor:
    answer = module(x_bs)
    found: Tensor = getattr(answer, "logits", answer)
    return found


def shapes(batch: int, length: int) -> list[tuple[Shape, Shape]]:
    """The operands of every matrix product of the forward pass."""
    d, heads, rows = SIZES["D"], SIZES["A"], batch * length
    maps: list[tuple[Shape, Shape]] = [((rows, a), (a, b)) for a, b in ((d, 3 * d), (d, d), (d, 4 * d), (4 * d, d))]
    scores: tuple[Shape, Shape] = (batch, heads, length, d // heads), (batch, heads, d // heads, length)
    values: tuple[Shape, Shape] = (batch, heads, length, length), (batch, heads, length, d // heads)
    return SIZES["L"] * [*maps, scores, values] + [((rows, d), (d, SIZES["V"]))]


def products(batch: int, length: int, backward: bool) -> Work:
    """The bare products; backward two more of each, for the gradients of both operands."""
    made = {shape: torch.randn(shape) for pair in shapes(batch, length) for shape in pair}
    pairs = [(made[left], made[right]) for left, right in shapes(batch, length)]

    def work() -> None:
        for left, right in pairs:
            slope = left @ right
            if backward:
                slope @ right.mT, left.mT @ slope

    return work


def forward(batch: int, length: int) -> dict[str, Work]:
    x_bs, mine, other = tokens(batch, length), ours().eval(), theirs().eval()

    def work(module: nn.Module) -> Work:
        return torch.no_grad()(lambda: logits(module, x_bs))

    return {"einformer": work(mine), "transformers": work(other), "products": products(batch, length, backward=False)}


def training(batch: int, length: int) -> dict[str, Work]:
    """Forward, loss, backward, AdamW; with dropout, as both are trained."""

    def work(module: nn.Module) -> Work:
        x_bs, optimiser = tokens(batch, length), torch.optim.AdamW(module.train().parameters(), fused=True)

        def step() -> None:
            optimiser.zero_grad()
            loss = cross_entropy(logits(module, x_bs)[:, :-1].flatten(0, 1), x_bs[:, 1:].flatten())
            torch.autograd.backward(loss)
            optimiser.step()

        return step

    return {"einformer": work(ours()), "transformers": work(theirs()), "products": products(batch, length, backward=True)}


def decode(batch: int, past: int) -> dict[str, Work]:
    """One more token after a prompt, greedily: our caches, theirs, and reading every weight once."""
    x_bs = tokens(batch, past)
    most = past + ROUNDS + 3

    def mine(static: bool) -> Work:
        module: Any = ours().eval()
        cache = module.cache(size=most)
        found = [module.decode(x_bs, cache=cache)[:, -1:].argmax(-1)]
        cache = module.static(cache, most) if static else cache

        def step() -> None:
            found.append(module.decode(found[-1], cache=cache)[:, -1:].argmax(-1))

        return step

    def other(static: bool) -> Work:
        module: Any = theirs().eval()
        cache = StaticCache(config=module.config, max_cache_len=most) if static else DynamicCache(config=module.config)

        def next_token(new: Tensor) -> Tensor:
            found: Tensor = module(new, past_key_values=cache, use_cache=True).logits[:, -1:].argmax(-1)
            return found

        found = [torch.no_grad()(next_token)(x_bs)]
        return torch.no_grad()(lambda: found.append(next_token(found[-1])))

    weights = [parameter.detach() for parameter in ours().parameters()]
    works = {"einformer": mine(False), "einformer, static": mine(True), "transformers": other(False)}
    return works | {"transformers, static": other(True), "weights": lambda: [weight.sum() for weight in weights]}


def emit() -> dict[str, Work]:
    return {"einformer": lambda: ein.load("gpt2").bind(**XL).source()}


BENCHMARKS: Mapping[str, Mapping[str, Callable[[], dict[str, Work]]]] = {
    "forward": {
        "forward, B = 1, S = 512": lambda: forward(1, 512),
        "forward, B = 4, S = 128": lambda: forward(4, 128),
    },
    "training": {"training step, B = 4, S = 128": lambda: training(4, 128)},
    "decode": {
        "a token after 32, B = 1": lambda: decode(1, 32),
        "a token after 900, B = 1": lambda: decode(1, 900),
        "a token after 128, B = 8": lambda: decode(8, 128),
    },
    "emit": {"GPT-2 XL: parse, check, emit": emit},
}


def timed(works: Mapping[str, Work], rounds: int) -> dict[str, list[float]]:
    """Seconds of each, round by round, after two rounds that do not count; every second round runs backwards."""
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(-2, rounds):
        for name in list(works)[:: -1 if turn % 2 else 1]:
            start = time.perf_counter()
            works[name]()
            if turn >= 0:
                seconds[name].append(time.perf_counter() - start)
    return seconds


def rows(title: str, seconds: Mapping[str, list[float]]) -> Iterator[str]:
    """Medians, and the median over the rounds of the ratio of ours to each other."""
    mine = seconds["einformer"]
    for name, theirs in seconds.items():
        ratio = statistics.median(a / b for a, b in zip(mine, theirs, strict=True))
        beside = "" if name == "einformer" else f"  einformer takes {ratio:.3f} of it"
        yield f"{title:32} {name:20} {statistics.median(theirs):8.4f} s{beside}"


def main(names: list[str]) -> None:
    torch.set_num_threads(THREADS)
    for name in names:
        for title, make in BENCHMARKS[name].items():
            print("\n".join(rows(title, timed(make(), ROUNDS))), flush=True)
