"""Times models beside transformers, models written by hand, the bare products, and one reading of the weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import (
    AutoModelForCausalLM,
    DynamicCache,
    GPT2Config,
    LlamaConfig,
    Mamba2Config,
    MixtralConfig,
    PreTrainedConfig,
    Qwen3NextConfig,
    StaticCache,
)

import einformer as ein
from tests.benchmarks.peers import HandGPT, HandLlama
from tests.benchmarks.timing import MOST, WARM, Place, Row, Work, compare

Makers = dict[str, Callable[[], Work]]
Operands = tuple[tuple[int, ...], tuple[int, ...]]

SHORT = MOST + WARM + 2  # tokens after a prompt: one for each round, one when it is made
COMMON: dict[str, Any] = {
    "hidden_size": 512, "num_attention_heads": 8, "num_key_value_heads": 4, "num_hidden_layers": 6, "vocab_size": 8000,
    "max_position_embeddings": 2048, "tie_word_embeddings": False, "use_cache": False,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Family:
    """A model of transformers and where it is built. `by_hand` makes one of its sizes; `compiled` times compiled ones, too."""

    config: PreTrainedConfig
    by_hand: Callable[[Any], nn.Module] | None = None
    compiled: bool = False
    place: Place = field(default_factory=Place)

    def settle(self, module: nn.Module) -> Any:
        return module.eval().to(self.place.device, getattr(torch, self.place.dtype))

    def ours(self) -> Any:
        return self.settle(ein.from_huggingface(self.config.to_dict()).build())

    def theirs(self) -> Any:
        models: Any = AutoModelForCausalLM
        how = {"attn_implementation": "sdpa"} if hasattr(self.config, "num_attention_heads") else {}
        return self.settle(models.from_config(self.config, **how))

    def hand(self) -> Any:
        assert self.by_hand is not None
        return self.settle(self.by_hand(self.config))

    def tokens(self, batch: int, length: int) -> Tensor:
        generator = torch.Generator().manual_seed(0)
        return torch.randint(self.config.vocab_size, (batch, length), generator=generator).to(self.place.device)

    def modules(self, compiles: bool) -> dict[str, Callable[[], Any]]:
        """How each candidate is made."""
        makers = {"einformer": self.ours, "transformers": self.theirs}
        if self.by_hand:
            makers["by hand"] = self.hand
        if compiles and self.compiled:
            makers |= {f"{name}, compiled": partial(_compile, makers[name]) for name in ("einformer", "transformers")}
        return makers


def _compile(make: Callable[[], Any]) -> Any:
    return torch.compile(make())


FAMILIES = {
    "gpt2": Family(GPT2Config(use_cache=False), HandGPT, compiled=True),
    "llama": Family(LlamaConfig(intermediate_size=1408, **COMMON), HandLlama, compiled=True),
    "mixtral": Family(MixtralConfig(intermediate_size=704, num_local_experts=8, num_experts_per_tok=2, **COMMON)),
    "qwen3_next": Family(
        Qwen3NextConfig(
            head_dim=64, linear_num_key_heads=4, linear_num_value_heads=8, linear_key_head_dim=64,
            linear_value_head_dim=64, moe_intermediate_size=352, shared_expert_intermediate_size=704, num_experts=8,
            num_experts_per_tok=2, **COMMON,
        )
    ),
    "mamba2": Family(
        Mamba2Config(
            hidden_size=512, num_heads=16, head_dim=64, state_size=64, n_groups=1, num_hidden_layers=6, vocab_size=8000,
            tie_word_embeddings=False, use_cache=False,
        )
    ),
}  # fmt: skip


def read_logits(answer: Any) -> Tensor:
    logits: Tensor = getattr(answer, "logits", answer)
    return logits


# ---------------------------------------------------------------------------------------------------------------- limits


def list_products(family: Family, batch: int, length: int) -> list[Operands]:
    """The operands of every matrix product of the forward pass of a dense decoder."""
    config: Any = family.config
    d, heads, rows = config.hidden_size, config.num_attention_heads, batch * length
    size, gated = d // heads, hasattr(config, "intermediate_size")
    hidden, keys = getattr(config, "intermediate_size", 4 * d), getattr(config, "num_key_value_heads", heads)
    pairs = ((d, (heads + 2 * keys) * size), (d, d), (d, hidden * (1 + gated)), (hidden, d))
    maps: list[Operands] = [((rows, a), (a, b)) for a, b in pairs]
    scores: Operands = (batch, heads, length, size), (batch, heads, size, length)
    values: Operands = (batch, heads, length, length), (batch, heads, length, size)
    layers: int = config.num_hidden_layers
    return layers * [*maps, scores, values] + [((rows, d), (d, config.vocab_size))]


def make_products(family: Family, batch: int, length: int, backward: bool) -> Work:
    """The bare products; backward two more of each, for the gradients of both operands."""
    operands, kind = list_products(family, batch, length), getattr(torch, family.place.dtype)
    made = {shape: torch.randn(shape, device=family.place.device, dtype=kind) for pair in operands for shape in pair}

    def work() -> None:
        for left, right in ((made[a], made[b]) for a, b in operands):
            slope = left @ right
            if backward:
                slope @ right.mT, left.mT @ slope

    return work


def make_reading(family: Family) -> Work:
    weights = [parameter.detach() for parameter in family.ours().parameters()]
    return lambda: [weight.sum() for weight in weights]


# ------------------------------------------------------------------------------------------------------------------ works


def forward(family: Family, batch: int, length: int, compiles: bool = False) -> Makers:
    """Logits of every position."""
    x_bs = family.tokens(batch, length)

    def make(module: Callable[[], Any]) -> Work:
        built = module()
        return torch.no_grad()(lambda: read_logits(built(x_bs)))

    makers: Makers = {name: partial(make, module) for name, module in family.modules(compiles).items()}
    if family.by_hand:
        makers["bare products"] = lambda: make_products(family, batch, length, backward=False)
    return makers


def training(family: Family, batch: int, length: int) -> Makers:
    """Forward, the loss of the next token, backward, AdamW. Ours has the loss that ships as a text."""
    tokens = family.tokens(batch, length + 1)
    x_bs, t_bs = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    own: Any = family.settle(ein.load("loss").bind(V=family.config.vocab_size).build())

    def make(name: str, module: Callable[[], Any]) -> Work:
        built = module().train()
        optimiser = torch.optim.AdamW(built.parameters(), fused=True)

        def step() -> None:
            optimiser.zero_grad()
            y_bsv = read_logits(built(x_bs))
            ours = name.startswith("einformer")
            loss = own(y_bsv, t_bs) if ours else cross_entropy(y_bsv.flatten(0, 1), t_bs.flatten())
            torch.autograd.backward(loss)
            optimiser.step()

        return step

    makers: Makers = {name: partial(make, name, module) for name, module in family.modules(True).items()}
    if family.by_hand:
        makers["bare products"] = lambda: make_products(family, batch, length, backward=True)
    return makers


def decode(family: Family, batch: int, past: int, compiles: bool = False) -> Makers:
    """One more token after a prompt, greedily, each with its caches."""
    x_bs, most = family.tokens(batch, past), past + SHORT

    def step_on(next_token: Callable[[Tensor], Tensor]) -> Work:
        tokens = [torch.no_grad()(next_token)(x_bs)]
        return torch.no_grad()(lambda: tokens.append(next_token(tokens.pop())))

    def ours(static: bool, compiled: bool = False) -> Work:
        module = family.ours()
        cache = module.cache(size=most)
        start = module.decode(x_bs, cache=cache)[:, -1:].argmax(-1)
        cache, tokens = module.static(cache, most) if static else cache, [start]
        if compiled:
            module.compile_steps()
        return lambda: tokens.append(module.decode(tokens.pop(), cache=cache)[:, -1:].argmax(-1))

    def theirs(static: bool, compiled: bool = False) -> Work:
        module = family.theirs()
        cache = StaticCache(config=module.config, max_cache_len=most) if static else DynamicCache(config=module.config)
        run = torch.compile(module) if compiled else module
        return step_on(lambda new: read_logits(run(new, past_key_values=cache, use_cache=True))[:, -1:].argmax(-1))

    def by_hand(compiled: bool = False) -> Work:
        module, place = family.hand(), [torch.arange(past, device=x_bs.device)]
        module.allocate(batch, most)
        run = torch.compile(module) if compiled else module

        def next_token(new: Tensor) -> Tensor:
            places = place.pop()
            place.append(places[-1:] + 1)
            return read_logits(run(new, places))[:, -1:].argmax(-1)

        return step_on(next_token)

    makers: Makers = {"einformer": lambda: ours(False), "transformers": lambda: theirs(False)}
    makers |= {"einformer, static": lambda: ours(True), "transformers, static": lambda: theirs(True)}
    if hasattr(family.by_hand, "allocate"):
        makers["by hand, static"] = by_hand
    if compiles and family.compiled:
        makers |= {"einformer, compiled": lambda: ours(True, True), "transformers, compiled": lambda: theirs(True, True)}
        if "by hand, static" in makers:
            makers["by hand, compiled"] = lambda: by_hand(True)
    return makers | {"one reading of the weights": lambda: make_reading(family)}


def measure(name: str, place: Place, work: str) -> Iterator[Row]:
    """The rows of a model: its prompts and its training, or its decoding."""
    torch.manual_seed(0)
    known = FAMILIES[name]
    family = Family(known.config, known.by_hand, known.compiled, place)
    if work == "decode":
        yield compare("a token after 32, B = 1", decode(family, 1, 32, compiles=name == "llama"), place)
        yield compare("a token after 900, B = 1", decode(family, 1, 900), place)
        yield compare("a token after 128, B = 8", decode(family, 8, 128), place)
        return
    yield compare("forward, B = 1, S = 512", forward(family, 1, 512), place)
    yield compare("forward, B = 4, S = 128", forward(family, 4, 128, compiles=name == "llama"), place)
    yield compare("training step, B = 4, S = 128", training(family, 4, 128), place)
