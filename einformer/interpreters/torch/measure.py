"""Asks torch about a module: its parameters, its FLOPs, its values, the next token."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.flop_counter import FlopCounterMode

Array = NDArray[Any]
Read = tuple[tuple[int, ...], int | None]  # the shape of an input, and the number of tokens where it holds token ids


@dataclass(frozen=True, slots=True)
class Guesses:
    """What a model makes of some tokens: the likeliest next ones, and two averages in nats."""

    likeliest: tuple[tuple[int, float], ...]  # token, probability
    entropy: float  # of the next token
    loss: float  # for each token of the text but the first
    uniform: float  # of both, were all tokens equally likely


def count_parameters(module: nn.Module) -> dict[str, int]:
    """The numbers in each parameter of a live module by name; one that is shared counts once."""
    return {name: parameter.numel() for name, parameter in module.named_parameters()}


def count_flops(module: nn.Module, inputs: Sequence[Read]) -> int:
    """The FLOPs of a forward pass by torch's own counter, on the meta device: on a CPU it passes over attention."""
    tensors = [
        torch.empty(shape, dtype=torch.get_default_dtype() if tokens is None else torch.long, device="meta")
        for shape, tokens in inputs
    ]
    with torch.no_grad(), Balanced(), FlopCounterMode(display=False) as counter:
        module(*tensors)
    return int(counter.get_total_flops())


class Balanced(TorchFunctionMode):
    """Runs chosen experts without numbers, by an even routing: as many rows for each expert, however many these are.

    What all of them compute and keep together does not depend on how rows are spread.
    """

    def __init__(self) -> None:
        super().__init__()
        self.rows = 0

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """What a function gives; the ends of the rows of each expert are spread evenly."""
        if function is torch.searchsorted:
            self.rows = args[0].shape[0]
        if function is Tensor.tolist:
            return [self.end(k, len(args[0])) for k in range(len(args[0]))]
        if function is Tensor.item:  # of a list that a tensor without numbers makes one by one
            return self.end(args[0].storage_offset(), args[0].untyped_storage().nbytes() // args[0].itemsize)
        return function(*args, **(kwargs or {}))

    def end(self, expert: int, experts: int) -> int:
        """Where the rows of an expert end."""
        return self.rows * (expert + 1) // experts


def randomise(module: nn.Module, seed: int) -> dict[str, Array]:
    """Give a module weights that let no mistake hide, in float64: matrices by their inputs, vectors around one."""
    draw = np.random.default_rng(seed)
    weights = {name: _draw_weight(draw, tuple(tensor.shape)) for name, tensor in module.state_dict().items()}
    load(module, weights)
    return weights


def _draw_weight(draw: np.random.Generator, shape: tuple[int, ...]) -> Array:
    if len(shape) < 2:
        return 1 + 0.3 * draw.standard_normal(shape)
    return draw.standard_normal(shape) / math.sqrt(shape[0])


def load(module: nn.Module, weights: Mapping[str, Array]) -> None:
    """Give a module these weights, in float64."""
    module.double().load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()})


def draw_inputs(inputs: Sequence[Read], seed: int) -> list[Array]:
    """Random inputs: token ids, or features."""
    draw = np.random.default_rng(seed)
    return [draw.standard_normal(s) if tokens is None else draw.integers(tokens, size=s) for s, tokens in inputs]


def compute(module: nn.Module, inputs: Sequence[Array]) -> Array:
    """What a module computes."""
    with torch.no_grad():
        result: Array = module(*map(torch.from_numpy, inputs)).numpy()
    return result


def initialise(module: nn.Module, seed: int) -> nn.Module:
    """A module of the meta device on the CPU, its weights begun as its plan says."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        live = module.to_empty(device="cpu")
        live.initialise()  # type: ignore[operator]
    return live


def guess(module: nn.Module, tokens: Sequence[int], most: int) -> Guesses:
    """What a module of logits says after these tokens."""
    with torch.no_grad():
        logarithms = module(torch.tensor([tokens])).double().log_softmax(-1)[0]
    last = logarithms[-1]
    loss = -logarithms[:-1].gather(-1, torch.tensor(tokens[1:]).unsqueeze(-1)).mean() if len(tokens) > 1 else -last.mean()
    likeliest = last.exp().topk(min(most, len(last)))
    pairs = zip(likeliest.indices.tolist(), likeliest.values.tolist(), strict=True)
    return Guesses(tuple(pairs), -float(last.exp() @ last), float(loss), math.log(len(last)))
