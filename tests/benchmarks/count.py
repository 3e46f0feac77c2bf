"""Times the counts of GPT-2, beside torch's counter on the model of transformers."""

from __future__ import annotations

import statistics
import timeit
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

import einformer as ein
from einformer.interpreters.count import rules, symbols
from einformer.interpreters.count.symbols import Symbols
from einformer.objects import Model, Specification
from tests.benchmarks.timing import Place, Row, Work, write_seconds

MODEL = "gpt2"
B, S = 1, 1024


def numbers(model: Model) -> tuple[int, int, int]:
    """Parameters, FLOPs, and the bytes of a training step."""
    return model.num_parameters, model.flops(B=B, S=S), model.memory(B=B, S=S).total


def letters(spec: Specification) -> tuple[object, ...]:
    """The same as formulas."""
    tree, name = spec.tree, spec.name
    sizes = Symbols.of(tree)
    kept = rules.count_activations(tree, name, sizes, 2)
    return spec.parameters, symbols.sum_counts(rules.count_flops(tree, name, sizes)), sum(each.total for each in kept)


def counted(module: torch.nn.Module, tokens: torch.Tensor) -> tuple[int, int]:
    """Parameters and FLOPs as others count them: by running the model without numbers."""
    with FlopCounterMode(display=False) as counter:
        module(tokens)
    return sum(weight.numel() for weight in module.parameters()), counter.get_total_flops()


def theirs() -> tuple[torch.nn.Module, torch.Tensor]:
    """transformers' GPT-2, and a batch for it, both without numbers."""
    from transformers import GPT2Config, GPT2LMHeadModel

    with torch.device("meta"):
        model: Any = GPT2LMHeadModel(GPT2Config())
        return model.eval(), torch.zeros(B, S, dtype=torch.long)


def list_works() -> Iterator[tuple[str, Work, int]]:
    """Every work, and how often it is timed; the first is the question that the others answer."""
    model, spec = ein.model(MODEL), ein.load(MODEL)
    module, tokens = theirs()
    assert numbers(model)[:2] == counted(module, tokens)  # the same question, the same answer
    yield "parameters, FLOPs and memory of a bound model", partial(numbers, model), 201
    yield "all that `count` prints of it", partial(model.summary, B=B, S=S), 101
    yield "the same as formulas", partial(letters, spec), 15
    yield "`FlopCounterMode` on the model of transformers (meta)", partial(counted, module, tokens), 15


def measure(place: Place) -> Iterator[Row]:
    first = None
    for work, call, times in list_works():
        median = statistics.median(timeit.repeat(call, repeat=times, number=1))
        first = median if first is None else first
        yield {"work": work, "time": write_seconds(median), "to the first": f"{median / first:.1f}"}
