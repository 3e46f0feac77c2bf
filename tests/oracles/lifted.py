"""What would transformers compute, had it been written in float64?

As `.double()`, 55 of its 57 families still compute softmax, norms, angles or routers in float32. Lifted, `torch.float32`
stands for float64 while a model is built and run, and every operator is watched: a narrower number is an error.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from types import FunctionType
from typing import Any, Literal
from unittest import mock

import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn.functional import gelu
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

Array = NDArray[Any]
Regime = Literal["fan_in", "default"]

FLOAT32 = torch.float32
NARROW = {torch.float16, torch.bfloat16, FLOAT32, torch.complex32, torch.complex64}

# Functions whose literals are narrow: BLOOM writes sqrt(2 / π) as 0.79788456, which moves its logits by 1e-9; Apertus makes
# an activation in bfloat16 and throws it away.
NARROW_LITERALS: dict[str, dict[str, Any]] = {
    "transformers.models.bloom.modeling_bloom": {"bloom_gelu_forward": partial(gelu, approximate="tanh")},
    "transformers.models.apertus.modeling_apertus": {"ACT2FN": {"xielu": None}},
}

# Buffers of MiniMax, which are stored though a config says them.
COMPUTED = {"slope_rate", "query_decay", "key_decay", "diagonal_decay"}


class NarrowNumberError(AssertionError):
    """An operator met a floating number narrower than float64."""


class Wide(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Every operator reads and writes float64, integers and booleans, or this raises."""

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = operator(*args, **(kwargs or {}))
        narrow = {x.dtype for x in tree_leaves((args, kwargs, result)) if isinstance(x, torch.Tensor)} & NARROW
        if narrow:
            raise NarrowNumberError(f"{operator} met {narrow}")
        return result


@contextmanager
def lifted(modeling: str) -> Iterator[None]:
    """Inside `with lifted("transformers.models.llama.modeling_llama")`, float32 means float64, there and in torch.

    A module imported meanwhile would go on believing it, so importing one is an error.
    """
    module = importlib.import_module(modeling)
    wide: list[tuple[Any, str, Any]] = [
        (torch, "float32", torch.float64),
        (torch, "float", torch.float64),
        (torch, "bfloat16", torch.float64),  # the size of RecurrentGemma's embeddings
        (torch.Tensor, "float", torch.Tensor.double),
        (torch.Tensor, "bfloat16", torch.Tensor.double),  # the slopes of Falcon
        *((module, name, torch.float64) for name, value in vars(module).items() if value is FLOAT32),
        *((each, "__defaults__", tuple(map(_widen, each.__defaults__))) for each in _list_functions(module)),
        *((module, name, value) for name, value in NARROW_LITERALS.get(modeling, {}).items()),
    ]
    default, imported = torch.get_default_dtype(), _numerical_modules()
    torch.set_default_dtype(torch.float64)
    try:
        with ExitStack() as patches:
            for owner, name, value in wide:
                patches.enter_context(mock.patch.object(owner, name, value))
            patches.enter_context(Wide())  # type: ignore[no-untyped-call]
            yield
    finally:
        torch.set_default_dtype(default)
    if late := _numerical_modules() - imported:
        raise ImportError(f"imported while float32 was float64, import before: {sorted(late)}")


def _list_functions(module: Any) -> Iterator[Any]:
    """Functions and methods of a module whose arguments have defaults."""
    owners = [module, *(value for value in vars(module).values() if isinstance(value, type))]
    functions = (value for owner in owners for value in vars(owner).values() if isinstance(value, FunctionType))
    return (each for each in functions if each.__module__ == module.__name__ and each.__defaults__)


def _widen(value: Any) -> Any:
    return torch.float64 if value is FLOAT32 else value


def build(modeling: str, make: Callable[[], nn.Module], regime: Regime, seed: int = 0) -> nn.Module:
    """A lifted module in evaluation, its weights drawn anew (`fan_in`) or as its authors start them (`default`)."""
    with torch.random.fork_rng(), lifted(modeling), torch.no_grad():
        torch.manual_seed(seed)
        module = make().eval()
        if regime == "fan_in":
            for owner in module.modules():
                _draw(owner)
    return module


def run(modeling: str, module: nn.Module, *inputs: Array) -> Array:
    """What the module answers: the logits of a language model, or the one tensor of a layer."""
    with lifted(modeling), torch.no_grad():
        answer = module(*map(torch.from_numpy, inputs))
        result: Array = getattr(answer, "logits", answer).numpy()
        for part in module.modules():
            rescale: Any = getattr(part, "_rescale_layers", None)
            if rescale:  # RWKV halves its weights as it runs: they are what they were
                part.train()
                rescale()
                part.eval()
    return result


def state(module: nn.Module) -> dict[str, Array]:
    """Weights and stored buffers by transformers' names, tied ones once."""
    weights = dict(module.named_parameters())
    buffers = {name: buffer for name, buffer in module.named_buffers() if name in module.state_dict()}
    return {name: tensor.detach().numpy() for name, tensor in (weights | buffers).items()}


def _draw(owner: nn.Module) -> None:
    """Fan-in weights; gains, biases, sinks and decays scattered around where they start."""
    for name, parameter in [*owner.named_parameters(recurse=False), *owner.named_buffers(recurse=False)]:
        if parameter.ndim > 1 and isinstance(parameter, nn.Parameter):
            parameter.normal_(std=_fan_in(owner, parameter) ** -0.5)
        elif name in owner.state_dict() and name not in COMPUTED:
            parameter.add_(torch.randn_like(parameter) * _scatter(owner, name))


def _fan_in(owner: nn.Module, parameter: torch.Tensor) -> int:
    """The size of the axis that a product with the weight sums: the last, but some modules multiply from the left."""
    return parameter.shape[-2 if type(owner).__name__ in ("Conv1D", "GptOssExperts", "Llama4TextExperts") else -1]


def _scatter(owner: nn.Module, name: str) -> float:
    """How far a vector strays from its start: sinks 1, biases 0.1, gains and the rest 0.3."""
    bias = "bias" in name and "correction" not in name and "dt" not in name
    return 1.0 if name == "sinks" else 0.1 if bias else 0.3


def _numerical_modules() -> set[str]:
    return {name for name in sys.modules if name.split(".")[0] in ("torch", "transformers")}
