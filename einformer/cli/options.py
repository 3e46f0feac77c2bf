"""Defines the commands and their options: a table of options, and a table of commands that take them."""

from __future__ import annotations

import argparse
import functools
import re
from typing import Any, NamedTuple, get_args

from einformer.interpreters.count.conventions import CONVENTIONS, PRECISIONS, Work, list_caches, read_devices
from einformer.notes.notations import conventions

_ABOUT = "Transformers, written once as equations."
_CODES = "exit code: 0 all is well, 1 there are findings, 2 the call was wrong"
_REPORT = """Show the equations, shapes, parameters and FLOPs of every layer; measure them, and what the model computes, with
torch; then run a text through it. A check that fails is a finding: exit code 1."""
_PLAN = """Compare the ways to split a model over a mesh of devices: what each device holds, computes and sends in a step.
The maps of letters are those that are sensible by rule: no tensor carries two letters of an axis, each number of ranks divides
their sizes, and no other map costs less in all respects. Times are lower bounds, not estimates; the longest decides."""
_EXAMPLES = """examples:
  einformer report gpt2                     show what is in a published model, measured
  einformer count config.json               show where its parameters and FLOPs go
  einformer count mine.ein --set D=768,A=12 the same for your own text
  einformer fit gpt2 --memory 80GB          find the largest batch of a training step
  einformer plan llama-3-70b --devices 64   compare the ways to split it over devices
  einformer diff llama mistral              compare two models
  einformer source gpt2                     print a model as a file of PyTorch
  einformer check mine.ein -                check a file, and a text that comes through the pipe
  einformer lint notes.tex                  find equations that break the rules of indices
  einformer run notes.md                    compute a note that is a program
  einformer notes S001                      show which line is which printed equation
  einformer explain E301                    explain an error
"""

_TARGET = (
    "a model with published sizes (gpt2-xl), a config.json or its folder, a .ein file, a note, a shipped architecture, "
    "a document (s000), or - for a text that comes through the pipe"
)


class Option(NamedTuple):
    """An argument of a command for argparse. Of several `exclusive` options exactly one is given."""

    flag: str
    settings: dict[str, Any]
    exclusive: bool = False


def _make_option(flag: str, about: str, exclusive: bool = False, **settings: Any) -> Option:
    return Option(flag, settings | {"help": about}, exclusive)


_EQUALS = re.compile(r"[,\s]\s*(?=[^\s,=]+\s*=)")


def values(text: str) -> dict[str, int | float | str]:
    """Reads sizes and scalars for `--set`. A value that is not a number is a formula.

    >>> values("D=768,ε=1e-6")
    {'D': 768, 'ε': 1e-06}
    """
    pairs = [tuple(map(str.strip, part.split("=", 1))) for part in _EQUALS.split(text)]
    if not all(len(pair) == 2 and all(pair) for pair in pairs):
        raise argparse.ArgumentTypeError(f"`{text}` is not a list of sizes and scalars; write `D=768,A=12`")
    return {name: _read_value(value) for name, value in pairs}


def _read_value(text: str) -> int | float | str:
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text


def _read_count(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 2**20:
        raise argparse.ArgumentTypeError(f"`{text}` is not a whole number from 1, less than 2^20")
    return int(text)


def _read_stage(text: str) -> tuple[int, int]:
    number, _, count = text.partition("/")
    if not (number.isdecimal() and count.isdecimal() and int(number) < int(count)):
        raise argparse.ArgumentTypeError(f"`{text}` is not a stage, counted from 0: `0/2`, `1/2`")
    return int(number), int(count)


def seed(text: str) -> int:
    if not text.isdecimal() or int(text) >= 2**63:
        raise argparse.ArgumentTypeError(f"`{text}` is not a whole number from 0, less than 2^63")
    return int(text)


class _Set(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, given: Any, option: Any = None) -> None:
        before = getattr(namespace, self.dest)
        if twice := before.keys() & given.keys():
            parser.error(f"`{', '.join(sorted(twice))}` is set twice")
        setattr(namespace, self.dest, before | given)


SET = _make_option(
    "--set", "Bind sizes and replace scalars, `D=768,A=12`.", type=values, action=_Set, default={}, metavar="D=768,A=12"
)
TARGETS = _make_option("targets", f"Name {_TARGET}.", nargs="+", metavar="TARGET")
TARGET = _make_option("target", f"Name {_TARGET}.", metavar="TARGET")
HELP = _make_option("--help", "Show this help.", action="help")
JSON = _make_option("--json", "Print JSON.", action="store_true")
BATCH = _make_option("--batch", "Set the number of sequences. Default: 1.", type=int, metavar="B")
SEQ = _make_option(
    "--seq",
    "Set the number of tokens of each. Default: the longest that is allowed, at most 1024.",
    type=int,
    metavar="S",
)
SEED = _make_option("--seed", "Set the random seed. Default: 0.", type=seed, default=0, metavar="SEED")
PRECISION = _make_option(
    "--precision",
    f"Choose the bytes of numbers: {', '.join(PRECISIONS)}. Default: bfloat16.",
    choices=PRECISIONS,
    metavar="NAME",
)
RECOMPUTE = _make_option(
    "--recompute",
    "Recompute activations in the backward pass: none, selective or full. Default: none.",
    choices=("none", "selective", "full"),
)
STEP = (BATCH, SEQ, PRECISION, RECOMPUTE)  # of a step that is counted
CONVENTION = _make_option(
    "--convention",
    f"Choose what is a FLOP: {', '.join(CONVENTIONS)}. Default: torch.",
    choices=CONVENTIONS,
    metavar="NAME",
)
LETTERS = _make_option(
    "--letters",
    f"Write in the letters of a document: {', '.join(conventions())}. Default: ours.",
    default="ours",
    choices=conventions(),
    metavar="NAME",
)
LAYER = _make_option("--layer", "Show one layer. Default: all.", metavar="NAME")
FORM = _make_option(
    "--form",
    "Write equations in indices or in matrices, or in indices as MathML. Default: the form of the document.",
    choices=("index", "matrix", "mathml"),
)
MESH = _make_option("--mesh", "Split the model over the axes of a mesh of devices, dp=2,tp=4.", metavar="MESH")
SHARD = _make_option("--shard", "Split indices over the axes of the mesh, 'tp: g f v; dp: b'.", metavar="MAP")
CACHE = _make_option(
    "--cache",
    f"Store the cache of --generation in a format: {', '.join(list_caches())}. Default: as the precision.",
    choices=list_caches(),
    metavar="FORMAT",
)
WEIGHTS = _make_option(
    "--weights",
    "Store the weights of --generation as a kind of file: q8_0, q6_k, q5_k_m, q5_k_s, q4_k_m, q4_k_s, fp8_block, awq, gptq, "
    "mxfp4. Default: as the config says, else as the precision.",
    metavar="KIND",
)
_DEVICE: dict[str, Any] = {"choices": read_devices(), "metavar": "NAME"}
_DEVICES = ", ".join(read_devices())
_LINKED = [name for name, device in read_devices().items() if device.link]


class Command(NamedTuple):
    """A command: a line about it, its help, and its options."""

    name: str
    line: str
    about: str
    options: tuple[Option, ...]


GROUPS: dict[str, tuple[Command, ...]] = {
    "Understand a model": (
        Command(
            "report",
            "Show what is in a model, and check it by measuring.",
            _REPORT,
            (
                TARGET,
                SET,
                _make_option(
                    "--text",
                    "Read a text or a file; its bytes are the tokens. Default: a sentence.",
                    metavar="TEXT|FILE",
                ),
                SEED,
                BATCH,
                SEQ,
            ),
        ),
        Command(
            "count",
            "Count parameters, FLOPs and bytes.",
            "Count what a model takes, by part and in all. Sizes that are open stay letters.",
            (
                TARGET,
                SET,
                _make_option(
                    "--formulas",
                    "Print formulas instead of numbers, as text, latex or python. Default: text.",
                    nargs="?",
                    const="text",
                    choices=("text", "latex", "python"),
                ),
                _make_option("--device", f"Add the least time of each step on a device: {_DEVICES}.", **_DEVICE),
                _make_option(
                    "--generation",
                    "Count the weights and the cache of generation, by kind of layer, and what engines allocate.",
                    action="store_true",
                ),
                _make_option("--context", "Set the positions of a row for --generation: 8192, 128Ki, 1M.", metavar="NUMBER"),
                CACHE,
                WEIGHTS,
                *STEP,
                CONVENTION,
            ),
        ),
        Command(
            "fit",
            "Find the largest size that fits.",
            "Find the largest size for so much memory, or for so many parameters.",
            (
                TARGET,
                SET,
                _make_option(
                    "--memory", "Fit into the memory of a device: 80GB, 80GiB, 1.5TB.", exclusive=True, metavar="BYTES"
                ),
                _make_option(
                    "--parameters", "Stay below a number of parameters: 1.3B, 350M.", exclusive=True, metavar="NUMBER"
                ),
                _make_option(
                    "--solve",
                    "Find this size, or the smallest mesh. Default: B for memory, D for parameters.",
                    metavar="LETTER|mesh",
                ),
                _make_option(
                    "--step",
                    "Try only multiples of a number. Default: the least with which all sizes are whole.",
                    type=int,
                    metavar="N",
                ),
                _make_option("--generation", "Count weights and cache instead of a training step.", action="store_true"),
                CACHE,
                WEIGHTS,
                MESH,
                SHARD,
                _make_option(
                    "--zero",
                    "Share state between devices of the batch by a stage of ZeRO. Default: 0.",
                    type=int,
                    choices=range(4),
                ),
                _make_option(
                    "--microbatches",
                    "Pass the batch through the stages of a pipeline in so many parts. Default: 1.",
                    type=_read_count,
                    metavar="N",
                ),
                *STEP,
            ),
        ),
        Command(
            "plan",
            "Compare the ways to split a model over devices.",
            _PLAN,
            (
                TARGET,
                SET,
                MESH._replace(exclusive=True),
                _make_option("--devices", "Try every mesh of so many devices.", exclusive=True, type=_read_count, metavar="N"),
                _make_option("--shard", "Price one map of letters. Default: all sensible ones.", metavar="MAP"),
                _make_option(
                    "--work", "Choose a step: training, prefill or decode. Default: training.", choices=get_args(Work)
                ),
                _make_option(
                    "--device", f"Choose a device: {', '.join(_LINKED)}. Default: h100-sxm.", choices=_LINKED, metavar="NAME"
                ),
                _make_option("--rows", "Print the best N plans. Default: 12.", type=_read_count, metavar="N"),
                _make_option(
                    "--batch",
                    "Set the number of sequences, of all devices together. Default: one for each device.",
                    type=_read_count,
                    metavar="B",
                ),
                SEQ,
                PRECISION,
                _make_option(
                    "--recompute",
                    "Recompute activations in the backward pass: none, selective or full. Default: try each.",
                    choices=("none", "selective", "full"),
                ),
            ),
        ),
        Command(
            "plot",
            "Draw FLOPs, memory, the cache and the roofline.",
            "Draw FLOPs, memory and the cache against S, and the roofline of a device.",
            (
                TARGET,
                SET,
                _make_option("--out", "Write a .png or .svg file. Default: the name of the target, .png.", metavar="FILE"),
                _make_option(
                    "--kind",
                    "Choose a picture: flops, memory, cache, roofline or all. Default: all.",
                    choices=("flops", "memory", "cache", "roofline", "all"),
                    default="all",
                ),
                _make_option("--device", f"Draw the roofline of a device: {_DEVICES}. Default: h100-sxm.", **_DEVICE),
                *STEP,
                CONVENTION,
            ),
        ),
        Command(
            "draw",
            "Draw the equations as a picture.",
            "Draw a model and its layers: a box for each equation, an arrow for each tensor that it reads, with its shape.",
            (
                TARGET,
                SET,
                LAYER,
                _make_option("--masks", "Draw the masks of attention instead.", action="store_true"),
                _make_option("--mesh", "Draw instead what each device of a mesh holds, dp=2,tp=4.", metavar="MESH"),
                SHARD,
                _make_option("--out", "Write a .svg file. Default: the name of the target, .svg.", metavar="FILE"),
                _make_option(
                    "--width", "Put layers side by side in so many pixels. Default: 1600.", type=_read_count, default=1600
                ),
            ),
        ),
        Command(
            "diff",
            "Compare two models.",
            "Compare two targets: sizes, scalars and equations (renamed letters are equal), then counts.",
            (
                _make_option("one", f"Name {_TARGET}.", metavar="ONE"),
                _make_option("other", "Name another target.", metavar="OTHER"),
                SET,
                BATCH,
                SEQ,
            ),
        ),
        Command("list", "List what ships.", "List the architectures, how each attends, and published models.", ()),
    ),
    "Write a model": (
        Command("check", "Check specifications.", "Report every finding of the targets.", (TARGETS, SET)),
        Command(
            "latex",
            "Print a specification as LaTeX.",
            "Print the target as LaTeX: in indices, which einformer reads back, or in matrices; or as MathML for a page.",
            (TARGET, SET, LAYER, LETTERS, FORM),
        ),
        Command(
            "source",
            "Print a model as PyTorch.",
            "Print a file of PyTorch that runs without einformer.",
            (
                TARGET,
                SET,
                _make_option(
                    "--plan",
                    "Choose a plan: fast, flex with FlexAttention, or notation, an einsum for each equation. Default: fast.",
                    choices=("fast", "flex", "notation"),
                ),
                _make_option(
                    "--recompute",
                    "Recompute turns of loops in the backward pass: none or full. Default: none.",
                    choices=("none", "full"),
                ),
                _make_option(
                    "--text", "Print the equations instead, with the library's layers written out.", action="store_true"
                ),
                _make_option("--annotations", "Annotate tensors with their axes, for jaxtyping.", action="store_true"),
                _make_option("--check", "Check every call by jaxtyping and beartype.", action="store_true"),
                _make_option("--ascii", "Spell names in ASCII, gamma for γ, also those of weights.", action="store_true"),
                _make_option(
                    "--stage", "Print stage K, counted from 0, of the N of a pipeline.", type=_read_stage, metavar="K/N"
                ),
                MESH,
                SHARD,
                _make_option("--out", "Write a file instead, which appears once it is complete.", metavar="FILE"),
            ),
        ),
        Command(
            "program",
            "Show a model operation by operation.",
            "Show each layer as its equations and the operations that they come to; everything else is made of these.",
            (TARGET, SET),
        ),
        Command(
            "generate",
            "Continue a text.",
            "Continue a text: a folder of transformers by its weights and tokenizer, else random weights by bytes.",
            (
                TARGET,
                SET,
                _make_option(
                    "--text",
                    "Begin with a text or with the content of a file. Default: Once upon a time.",
                    default="Once upon a time",
                    metavar="TEXT|FILE",
                ),
                _make_option("--tokens", "Add a number of tokens. Default: 64.", type=int, default=64, metavar="N"),
                _make_option(
                    "--temperature",
                    "Set the temperature; 0 chooses the likeliest token. Default: 0.",
                    type=float,
                    default=0.0,
                    metavar="T",
                ),
                _make_option("--top-k", "Draw among the K likeliest tokens. Default: all.", type=int, metavar="K"),
                _make_option(
                    "--top-p",
                    "Draw among the likeliest tokens that hold a share P of the probability. Default: all.",
                    type=float,
                    metavar="P",
                ),
                SEED,
            ),
        ),
        Command(
            "explain",
            "Explain error codes and model types.",
            "Show the rule behind a code, with a wrong and a right text; or how the configs of a model type are read.",
            (
                _make_option(
                    "names",
                    "Name codes such as E301, or model types such as qwen2_moe. Default: all codes, a line for each.",
                    nargs="*",
                    metavar="NAME",
                ),
            ),
        ),
    ),
    "Check your own code and notes": (
        Command(
            "lint",
            "Find wrong equations in notes, and wrong names in Python.",
            "Report equations (LaTeX, Markdown, Typst, notebooks) and names of Python that break the rules of indices.",
            (
                _make_option("files", "Name files, or folders of them.", nargs="+", metavar="FILE"),
                _make_option(
                    "--legend",
                    "Give the letters of indices, with sizes or without, 'b: B, s t: S, d'.",
                    default="",
                    metavar="LETTERS",
                ),
                _make_option(
                    "--format",
                    "Choose the format: text, json, sarif or github. Default: text.",
                    choices=("text", "json", "sarif", "github"),
                ),
            ),
        ),
        Command(
            "run",
            "Compute the equations of a note.",
            "Check the displayed equations of a note under its legend, compute them for random numbers, measure the result.",
            (
                _make_option("note", "Name a file of Markdown, LaTeX, Typst, or a notebook.", metavar="NOTE"),
                SET,
                _make_option("--out", "Write the note as a file of PyTorch.", metavar="FILE"),
                SEED,
            ),
        ),
    ),
    "Read the literature": (
        Command(
            "notes",
            "Find the line that says what an equation of a document says.",
            "Show what there is here of each equation and formula of a document: a line, a test, a verdict, or why nothing.",
            (
                _make_option(
                    "document",
                    "Name a document, S000 to S005, or a text: a .ein file, a shipped architecture. Default: all documents.",
                    nargs="?",
                ),
                _make_option(
                    "--cites",
                    "List the equations of our texts that follow a work. Default: all works.",
                    nargs="?",
                    const="",
                    metavar="KEY",
                ),
                _make_option("--rosetta", "Show how each document writes the letters of our texts.", action="store_true"),
            ),
        ),
        Command("claims", "Judge published formulas.", "Judge every formula that documents print, by the derivation.", ()),
        Command(
            "errata",
            "Show which printed equations are wrong.",
            "Show by a computation that printed equations are wrong, and that the corrected ones are right.",
            (),
        ),
    ),
}
COMMANDS = tuple(command for group in GROUPS.values() for command in group)


def _list_commands() -> str:
    width = max(len(command.name) for command in COMMANDS)
    groups = (
        "\n".join([f"{title}:", *(f"    {command.name:{width}}  {command.line}" for command in group)])
        for title, group in GROUPS.items()
    )
    return "\n\n".join(groups)


# Makes the parser of all commands. `options.command` is the name of the called command.
@functools.cache
def parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    about = f"{_ABOUT}\n\n{_list_commands()}\n\n`einformer COMMAND --help` lists the options of a command."
    whole = argparse.ArgumentParser(
        prog="einformer",
        usage="einformer COMMAND …",
        description=about,
        epilog=f"{_EXAMPLES}\n{_CODES}",
        formatter_class=raw,
        allow_abbrev=False,
        add_help=False,
    )
    whole.add_argument("--help", "-h", help="Show this help.", action="help")
    whole.add_argument("--version", action="store_true", help="Print the version.")
    whole.set_defaults(json=False)
    below = whole.add_subparsers(metavar="COMMAND", dest="command", help=argparse.SUPPRESS, prog="einformer")
    for command in COMMANDS:
        added = below.add_parser(
            command.name, description=command.about, epilog=_CODES, formatter_class=raw, allow_abbrev=False, add_help=False
        )
        added.set_defaults(misuse=added.error)
        exclusive = added.add_mutually_exclusive_group(required=True) if any(o.exclusive for o in command.options) else added
        for option in (*command.options, JSON, HELP):
            (exclusive if option.exclusive else added).add_argument(option.flag, **option.settings)
    return whole
