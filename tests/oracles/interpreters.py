"""What do the interpreters make of one text? Each against the reference: both plans, their gradients, decoding, rows apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from random import Random
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from einformer.errors import EinformerError
from einformer.objects import Model
from tests.heads import input_letters, output_letters
from tests.small import PLANS, built, error, weights

Array = NDArray[Any]

TOLERANCE = 1e-9


def times(bound: Model) -> list[int | None]:
    """Where the axis of time stands in each input."""
    time = bound.spec.layer.time
    return [each.index(time.letter) if time and time.letter in each else None for each in input_letters(bound)]


def out(bound: Model) -> tuple[int, int]:
    """Where rows and time stand in the output."""
    letters = output_letters(bound)
    return letters.index("b"), letters.index("s")


def parts(bound: Model, arrays: Sequence[Array | Tensor], lengths: Sequence[int]) -> Iterator[list[Tensor]]:
    """The inputs in chunks of positions; what has none comes whole, each time."""
    ends = np.cumsum(lengths)
    for end, length in zip(ends, lengths, strict=True):
        yield [
            torch.as_tensor(array if axis is None else np.take(np.asarray(array), range(end - length, end), axis))
            for array, axis in zip(arrays, times(bound), strict=True)
        ]


def before(bound: Model, arrays: Sequence[Array], at: int) -> list[Array]:
    """The inputs at the positions before one."""
    return [
        array if axis is None else np.take(array, range(at), axis) for array, axis in zip(arrays, times(bound), strict=True)
    ]


def changed(bound: Model, arrays: Sequence[Array], others: Sequence[Array], at: int) -> list[Array]:
    """The inputs before a position, and others from there on."""
    together = zip(before(bound, arrays, at), others, times(bound), strict=True)
    return [
        array if axis is None else np.concatenate([array, np.take(other, range(at, other.shape[axis]), axis)], axis)
        for array, other, axis in together
    ]


def decoded(
    bound: Model, module: Any, lengths: Sequence[int], *arrays: Array | Tensor, padding: Tensor | None = None
) -> Tensor:
    """The outputs of all chunks, as of one."""
    cache = module.cache(padding)
    return torch.cat([module.decode(*chunk, cache=cache) for chunk in parts(bound, arrays, lengths)], out(bound)[1])


def gradients(module: Any, arrays: Sequence[Array], seed: int = 3) -> dict[str, Tensor]:
    """Those of inputs and of weights, under their own names, for a random change of the output."""
    arguments = [torch.tensor(array, requires_grad=array.dtype == np.float64) for array in arrays]
    result = module(*arguments)
    change = torch.from_numpy(np.random.default_rng(seed).standard_normal(result.shape))
    if result.requires_grad:
        result.backward(change)
    of_inputs = {str(k): torch.zeros_like(x) if x.grad is None else x.grad for k, x in enumerate(arguments) if x.requires_grad}
    return named_gradients(module) | of_inputs


def named_gradients(module: Any) -> dict[str, Tensor]:
    """The gradients of weights under their own names, which are those of the state dict where they are put for a moment."""
    values = [parameter.data for parameter in module.parameters()]
    for parameter in module.parameters():
        parameter.data = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
    slopes = {path: slope.clone() for path, slope in module.state_dict().items()}
    for parameter, value in zip(module.parameters(), values, strict=True):
        parameter.data, parameter.grad = value, None
    return slopes


def between(module: Any, other: Any, arrays: Sequence[Array]) -> float:
    """How far the gradients of two modules are apart."""
    ours, theirs = gradients(module, arrays), gradients(other, arrays)
    assert ours.keys() == theirs.keys()
    return max((error(ours[name], theirs[name]) for name in ours), default=0.0)


def disagreements(bound: Model, arrays: Sequence[Array], expected: Array, random: Random) -> Iterator[tuple[str, float | str]]:
    """What departs from the reference, by how much, or with what error."""
    modules: list[Any] = [built(bound, plan).eval() for plan in PLANS]
    checks: dict[str, Callable[[], float]] = {"gradients": partial(between, modules[0], modules[1], arrays)}
    for plan, module in zip(PLANS, modules, strict=True):
        checks[plan] = partial(departure, module, arrays, expected)
        if bound.spec.layer.time:
            whole = expected.shape[out(bound)[1]]
            cuts = chunks(random, whole)
            for how, lengths in (("steps", [1] * whole), ("chunks", cuts)):
                checks[f"{plan}, in {how}"] = partial(departure, partial(decoded, bound, module, lengths), arrays, expected)
            checks[f"{plan}, padded"] = partial(padded, bound, module, arrays, cuts, random)
    for name, check in checks.items():
        found = _outcome(check)
        if isinstance(found, str) or not found < TOLERANCE:
            yield name, found


def _outcome(check: Callable[[], float]) -> float | str:
    """A departure, or how it failed. That no cache can be derived is said before, and is no failure."""
    try:
        return check()
    except EinformerError as refused:
        return 0.0 if refused.findings[0].code == "E508" else str(refused)
    except Exception as failure:
        return f"{type(failure).__name__}: {failure}"


def departure(run: Callable[..., Tensor], arrays: Sequence[Array], expected: Array) -> float:
    """How far what is computed is from what is expected."""
    return error(run(*map(torch.as_tensor, arrays)), expected)


def chunks(random: Random, whole: int, most: int = 4) -> list[int]:
    """Lengths that add up."""
    lengths: list[int] = []
    while sum(lengths) < whole:
        lengths.append(min(random.randint(1, most), whole - sum(lengths)))
    return lengths


def padded(bound: Model, module: Any, arrays: Sequence[Array], lengths: Sequence[int], random: Random) -> float:
    """How far rows that start late are from the rows alone."""
    axis, time = out(bound)
    rows = [each.index("b") if "b" in each else None for each in input_letters(bound)]
    count = next(array.shape[row] for array, row in zip(arrays, rows, strict=True) if row is not None)
    late = [random.randrange(sum(lengths)) for _ in range(count)]
    outputs = decoded(bound, module, lengths, *arrays, padding=torch.tensor(late)).detach().numpy()
    departures = []
    for number, start in enumerate(late):
        alone = list(arrays)
        for k, (b, s) in enumerate(zip(rows, times(bound), strict=True)):
            alone[k] = alone[k] if b is None else np.take(alone[k], [number], b)
            alone[k] = alone[k] if s is None else np.take(alone[k], range(start, sum(lengths)), s)
        theirs = bound.reference(*alone, weights=weights(bound))
        ours = np.take(np.take(outputs, [number], axis), range(start, sum(lengths)), time)
        departures.append(error(ours, theirs))
    return max(departures)
