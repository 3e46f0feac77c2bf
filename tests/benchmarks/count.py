"""How long does it take to know what GPT-2 costs? Ours in-process and cold, beside torch's counter on transformers' model.

`python -m tests.benchmarks count`: medians; of what takes long fewer runs.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import timeit
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

import einformer as ein
from einformer.interpreters.count import rules, symbols
from einformer.interpreters.count.symbols import Symbols
from einformer.objects import Model, Specification

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


def cold(code: str, *arguments: str) -> None:
    """A line of Python in a process of its own."""
    subprocess.run([sys.executable, "-c", code, *arguments], check=True, stdout=subprocess.DEVNULL)


def rows() -> Iterator[tuple[str, Callable[[], object], int]]:
    """What is timed, and how often."""
    model, spec = ein.model(MODEL), ein.load(MODEL)
    module, tokens = theirs()
    assert numbers(model)[:2] == counted(module, tokens)  # the same question, the same answer
    yield "parameters, FLOPs and memory of a bound model", partial(numbers, model), 201
    yield "all that `count` prints of it", partial(model.summary, B=B, S=S), 101
    yield "the same as formulas", partial(letters, spec), 15
    yield "FlopCounterMode on transformers' model (meta)", partial(counted, module, tokens), 15
    command = "import sys; from einformer.cli import main; sys.exit(main())"
    yield "einformer count gpt2 --json, cold", partial(cold, command, "count", MODEL, "--json"), 15
    yield "einformer count gpt2 --formulas, cold", partial(cold, command, "count", MODEL, "--formulas"), 15
    yield (
        "import torch, and transformers' GPT-2, cold",
        partial(cold, "import torch, transformers.models.gpt2.modeling_gpt2"),
        3,
    )


def main() -> None:
    """A row for each, and how many of our counts one of theirs takes."""
    medians = {label: statistics.median(timeit.repeat(timed, repeat=times, number=1)) for label, timed, times in rows()}
    for label, seconds in medians.items():
        print(f"{seconds * 1e3:10.3f} ms  {label}")
    ours, peer = (medians[label] for label in (next(iter(medians)), "FlopCounterMode on transformers' model (meta)"))
    print(f"{peer / ours:10.0f} x   as long: torch's counter to our numbers")
