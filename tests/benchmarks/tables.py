"""The registry of benchmarks: each table with its title, its text, and the function that measures its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module

from tests.benchmarks.timing import Place, Row

RATIOS = (
    "Cells are medians over rounds in which all candidates are timed in turn. In parentheses stands the median over rounds of"
    " the time of einformer divided by that of the column."
)
SMALL = "The model has six layers of 512 features, eight heads that share four keys, and 8000 tokens"
COMPILED = "`compiled` is `torch.compile` with its defaults."


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the page. `measure` yields its rows, `seconds` is how long that takes on two quiet cores."""

    title: str
    text: str
    seconds: int
    measure: Callable[[Place], Iterable[Row]]
    on_cuda: bool = False


# Modules are imported when their table is measured: torch and transformers take seconds.
def _measure_in(module: str, function: str, place: Place) -> Iterable[Row]:
    rows: Iterable[Row] = getattr(import_module(f"tests.benchmarks.{module}"), function)(place)
    return rows


def _measure_model(name: str, work: str, place: Place) -> Iterable[Row]:
    rows: Iterable[Row] = import_module("tests.benchmarks.models").measure(name, place, work)
    return rows


# A table of ranks is a head and rows; each process has one thread.
def _measure_ranks(place: Place) -> Iterable[Row]:
    import torch

    from tests.benchmarks.ranks import HEAD, list_rows

    torch.set_num_threads(1)
    return (dict(zip(HEAD, row, strict=True)) for row in list_rows())


def _model(name: str, title: str, text: str, seconds: int, work: str = "whole") -> Table:
    return Table(title, f"{text} {RATIOS}", seconds, partial(_measure_model, name, work), on_cuda=True)


def _own(module: str, title: str, text: str, seconds: int, function: str = "measure", on_cuda: bool = False) -> Table:
    return Table(title, text, seconds, partial(_measure_in, module, function), on_cuda)


TABLES: Mapping[str, Table] = {
    "limits": _own("limits", "Limits of the machine", "What the machine does at most, measured in this run.", 10, on_cuda=True),
    "gpt2": _model(
        "gpt2",
        "GPT-2",
        "GPT-2 with 124 million parameters, beside transformers with SDPA, a model written by hand in the style of nanoGPT, and"
        " the bare products: the same shapes multiplied, and nothing else. A training step has dropout, the loss, the backward"
        f" pass and a fused step of AdamW. {COMPILED}",
        350,
    ),
    "gpt2_decode": _model(
        "gpt2",
        "GPT-2, decoding",
        "One more token after a prompt, with growing and with static caches. The limit is one reading of all weights.",
        60,
        "decode",
    ),
    "llama": _model(
        "llama",
        "A small Llama",
        f"{SMALL}; its MLP has 1408. By hand it is written in the style of gpt-fast. {COMPILED}",
        150,
    ),
    "llama_decode": _model(
        "llama",
        "A small Llama, decoding",
        f"One more token after a prompt. The limit is one reading of all weights. {COMPILED}",
        90,
        "decode",
    ),
    "mixtral": _model(
        "mixtral",
        "A small Mixtral",
        f"{SMALL}, and eight experts of 704, of which two are chosen. transformers computes them by `grouped_mm`.",
        50,
    ),
    "mixtral_decode": _model(
        "mixtral",
        "A small Mixtral, decoding",
        "One more token after a prompt. One reading of the weights reads all experts, a token two of each layer.",
        40,
        "decode",
    ),
    "qwen3_next": _model(
        "qwen3_next",
        "A small Qwen3-Next",
        "Gated delta rules in chunks, one layer of attention in four, and experts, beside chunks of transformers.",
        60,
    ),
    "mamba2": _model(
        "mamba2", "A small Mamba-2", "Six layers of states in chunks, beside the chunks of transformers in PyTorch.", 60
    ),
    "long": _own(
        "long",
        "Long prompts",
        "A prompt of two layers of 64 features in a process of its own. FLOPs are counted by the equations, masked ones too, so"
        " that time grows no faster than they do where no mask is built.",
        60,
    ),
    "hosts": _own(
        "hosts",
        "Commands and checks",
        "Seconds of the processor, in this process or in one that starts for the work: medians.",
        75,
        "measure_hosts",
    ),
    "door": _own(
        "hosts",
        "The call of a layer",
        "The least time of a call of a layer with one matrix and a GELU, whose tensors are so small that they take none.",
        5,
        "measure_door",
    ),
    "checkpoint": _own(
        "hosts",
        "Loading a checkpoint",
        "`load_huggingface` of a `.safetensors` file in float32. The memory is what belongs to no file, in units of the"
        " weights: 1 is the module alone.",
        40,
        "measure_checkpoint",
    ),
    "count": _own("count", "Counting GPT-2", "Parameters, FLOPs and memory at B = 1, S = 1024: medians, in-process.", 15),
    "contracts": _own(
        "contracts",
        "Contracts",
        "A call with three tensors of four axes and a result, above the time of the bare function, on one thread.",
        25,
    ),
    "lint": _own(
        "lint", "Linting", "Notes that repeat a section, under ten names, in this process and as a command: medians.", 15
    ),
    "ranks": Table(
        "Ranks",
        "Processes of one thread each, in a group of gloo: a forward and a backward pass of a small Llama beside those of one"
        " process alone, which more processes than cores cannot be faster than; and one split layer beside one that is written"
        " by hand with the two exchanges that Megatron-LM describes.",
        60,
        _measure_ranks,
    ),
}


def render_rows(rows: Iterable[Row]) -> str:
    """A Markdown table; its columns are those of all rows, in the order in which they come."""
    rows = list(rows)
    columns = list(dict.fromkeys(column for row in rows for column in row))
    lines = [columns, ["---"] * len(columns), *([row.get(column, "") for column in columns] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def render_section(table: Table, body: str) -> str:
    return f"## {table.title}\n\n{table.text}\n\n{body}\n"
