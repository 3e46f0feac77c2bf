"""How fast are a small Llama and a small Mixtral beside transformers with SDPA, and with the experts that it chooses by itself?
And models with states beside its chunks in PyTorch: gated delta rules with one attention, Mamba-2.

float32, two threads, as in `gpt2`. `python -m tests.benchmarks llama mixtral qwen3_next mamba2`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import (
    AutoModelForCausalLM,
    DynamicCache,
    LlamaConfig,
    Mamba2Config,
    MixtralConfig,
    PreTrainedConfig,
    Qwen3NextConfig,
)

import einformer as ein
from tests.benchmarks.gpt2 import ROUNDS, THREADS, Work, logits, rows, timed

WARM = 4  # tokens more than rounds: those that do not count

COMMON: dict[str, Any] = {
    "hidden_size": 512, "num_attention_heads": 8, "num_key_value_heads": 4, "num_hidden_layers": 6, "vocab_size": 8000,
    "max_position_embeddings": 2048, "tie_word_embeddings": False, "use_cache": False,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Family:
    """A small model of transformers."""

    config: PreTrainedConfig

    def ours(self) -> nn.Module:
        """The same sizes, read from its config."""
        return ein.from_huggingface(self.config.to_dict()).build().eval()

    def theirs(self) -> nn.Module:
        """With SDPA, where it has attention."""
        models: Any = AutoModelForCausalLM
        how = {"attn_implementation": "sdpa"} if hasattr(self.config, "num_attention_heads") else {}
        module: nn.Module = models.from_config(self.config, **how)
        return module

    def tokens(self, batch: int, length: int) -> Tensor:
        """Random ones."""
        return torch.randint(COMMON["vocab_size"], (batch, length), generator=torch.Generator().manual_seed(0))


FAMILIES = {
    "llama": Family(LlamaConfig(intermediate_size=1408, **COMMON)),
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


def forward(family: Family, batch: int, length: int) -> dict[str, Work]:
    """Logits of a batch."""
    x_bs = family.tokens(batch, length)

    def work(module: nn.Module) -> Work:
        return torch.no_grad()(lambda: logits(module.eval(), x_bs))

    return {"einformer": work(family.ours()), "transformers": work(family.theirs())}


def training(family: Family, batch: int, length: int) -> dict[str, Work]:
    """Forward, loss, backward, AdamW."""
    x_bs = family.tokens(batch, length)

    def work(module: nn.Module) -> Work:
        optimiser = torch.optim.AdamW(module.train().parameters(), fused=True)

        def step() -> None:
            optimiser.zero_grad()
            torch.autograd.backward(cross_entropy(logits(module, x_bs)[:, :-1].flatten(0, 1), x_bs[:, 1:].flatten()))
            optimiser.step()

        return step

    return {"einformer": work(family.ours()), "transformers": work(family.theirs())}


def decode(family: Family, batch: int, past: int) -> dict[str, Work]:
    """One more token after a prompt, greedily, each with its cache."""
    x_bs, mine, other = family.tokens(batch, past), family.ours().eval(), family.theirs().eval()
    ours: Any = mine
    kept, given = ours.cache(size=past + ROUNDS + WARM), DynamicCache(config=family.config)

    def next_of_ours(new: Tensor) -> Tensor:
        found: Tensor = ours.decode(new, cache=kept)[:, -1:].argmax(-1)
        return found

    def next_of_theirs(new: Tensor) -> Tensor:
        found: Tensor = other(new, past_key_values=given, use_cache=True).logits[:, -1:].argmax(-1)
        return found

    def work(next_token: Callable[[Tensor], Tensor]) -> Work:
        found = [torch.no_grad()(next_token)(x_bs)]
        return torch.no_grad()(lambda: found.append(next_token(found[-1])))

    return {"einformer": work(next_of_ours), "transformers": work(next_of_theirs)}


ROWS: Mapping[str, Callable[[Family], dict[str, Work]]] = {
    "forward, B = 1, S = 512": lambda family: forward(family, 1, 512),
    "forward, B = 4, S = 128": lambda family: forward(family, 4, 128),
    "training step, B = 4, S = 128": lambda family: training(family, 4, 128),
    "a token after 32, B = 1": lambda family: decode(family, 1, 32),
    "a token after 900, B = 1": lambda family: decode(family, 1, 900),
    "a token after 128, B = 8": lambda family: decode(family, 8, 128),
}


def main(names: list[str]) -> None:
    """Every row of some families."""
    torch.set_num_threads(THREADS)
    for name in names:
        titles = [title for title in ROWS if name in ("llama", "mixtral") or "token" not in title]
        for title, make in ((title, ROWS[title]) for title in titles):
            print("\n".join(rows(f"{name}: {title}", timed(make(FAMILIES[name]), ROUNDS))), flush=True)
