"""Which commands are there, and what can be said to each? A table of options, and a table of commands that take them."""

from __future__ import annotations

import argparse
from typing import Any, NamedTuple

from einformer.interpreters.count.conventions import CONVENTIONS
from einformer.interpreters.count.devices import devices
from einformer.interpreters.count.precisions import PRECISIONS
from einformer.notes.conventions import conventions

_ABOUT = "Decoder-only transformers, written once as equations."
_CODES = "exit code: 0 all is well, 1 there are findings, 2 the call was wrong"
_REPORT = """Show the equations, shapes, parameters and FLOPs of every layer; measure them, and what the model computes, with
torch; then run a text through it. A check that fails is a finding: exit code 1."""
_EXAMPLES = """examples:
  einformer report gpt2             a published model: what is in it, measured
  einformer count config.json       where its parameters and FLOPs go
  einformer fit gpt2 --memory 80GB  the largest batch of a training step
  einformer plot gpt2               pictures of FLOPs, memory, and the roofline
  einformer source gpt2             it as a file of PyTorch
  einformer diff llama mistral      what distinguishes two models
  einformer check gpt2              a shipped architecture
  einformer check mine.ein -        a file, and what comes through the pipe
  einformer claims                  published formulas, and whether they hold
  einformer notes S001              which line is which printed equation
  einformer notes llama             which document each of its equations follows
  einformer errata                  printed equations that are wrong, and how that shows
  einformer run notes.md            a note that is a program, computed
  einformer lint notes.tex          equations of notes that break the rules of indices
  einformer explain E301            the rule behind an error
"""

_TEXT = "a .ein file, a note, the name of a shipped architecture, of a document (s000), or - for what comes through the pipe"
_SIZED = "a named size (gpt2-xl), a config.json or its folder, a .ein file, a note, a shipped architecture, a document (s000)"


class Option(NamedTuple):
    """An argument of a command, as argparse takes it; of those that are `exclusive` exactly one is given."""

    flag: str
    settings: dict[str, Any]
    exclusive: bool = False


def _option(flag: str, about: str, exclusive: bool = False, **settings: Any) -> Option:
    return Option(flag, settings | {"help": about}, exclusive)


TEXTS = _option("targets", _TEXT, nargs="+", metavar="TARGET")
TEXT = _option("target", _TEXT, metavar="TARGET")
SIZED = _option("target", _SIZED, metavar="TARGET")
JSON = _option("--json", "print JSON", action="store_true")
BATCH = _option("--batch", "sequences (1)", type=int, default=1, metavar="B")
SEQ = _option("--seq", "tokens of each (as many as there can be, 1024 at most)", type=int, metavar="S")
SEED = _option("--seed", "of random weights and draws (0)", type=int, default=0)
DTYPE = _option("--dtype", f"bytes of numbers: {', '.join(PRECISIONS)}", default="bfloat16", choices=PRECISIONS, metavar="NAME")
RECOMPUTE = _option("--recompute", "in a training step (none)", choices=("none", "selective", "full"), default="none")
CONVENTION = _option(
    "--convention", f"of FLOPs: {', '.join(CONVENTIONS)}", default="torch", choices=CONVENTIONS, metavar="NAME"
)
LETTERS = _option(
    "--convention",
    f"in the letters of one of {', '.join(conventions())} (ours)",
    default="ours",
    choices=conventions(),
    metavar="NAME",
)
LAYER = _option("--layer", "only this layer", metavar="NAME")
FORM = _option("--form", "of the equations (what the document writes)", choices=("index", "matrix"))


class Command(NamedTuple):
    """A command: what it answers, what its help says, and what it takes."""

    name: str
    answers: str
    about: str
    options: tuple[Option, ...]


_KNOWN = ", ".join(devices())
_DEVICE: dict[str, Any] = {"choices": devices(), "metavar": "NAME"}
COMMANDS = (
    Command("check", "is a specification well formed?", "Report every finding of the targets.", (TEXTS,)),
    Command(
        "latex",
        "print a specification as LaTeX",
        "Print the target as LaTeX: in indices, which einformer reads back, or in matrices.",
        (TEXT, LAYER, LETTERS, FORM),
    ),
    Command(
        "report",
        "what is in a model, and is it what it says?",
        _REPORT,
        (SIZED, _option("--text", "what the model reads; its bytes are the tokens", metavar="TEXT|FILE"), SEED, BATCH, SEQ),
    ),
    Command(
        "count",
        "where do parameters, FLOPs and bytes go?",
        "Count what the target takes, by part and in all.",
        (
            SIZED,
            _option("--formulas", "in letters; so are sizes that the target leaves open", action="store_true"),
            _option("--form", "of formulas (text)", choices=("text", "latex", "python"), default="text"),
            _option("--device", f"how long steps take at least on one of {_KNOWN}", **_DEVICE),
            BATCH,
            SEQ,
            DTYPE,
            RECOMPUTE,
            CONVENTION,
        ),
    ),
    Command(
        "fit",
        "which size fits?",
        "The largest size for so much memory, or so many parameters.",
        (
            SIZED,
            _option("--memory", "of a device: 80GB, 80GiB, 1.5TB", exclusive=True, metavar="BYTES"),
            _option("--parameters", "wanted: 1.3B, 350M", exclusive=True, metavar="NUMBER"),
            _option("--solve", "of the size to be found (B for memory, D for parameters)", metavar="LETTER"),
            _option("--step", "of parameters: only multiples of it (what makes all sizes whole)", type=int, metavar="N"),
            _option("--generation", "weights and cache, not a training step", action="store_true"),
            BATCH,
            SEQ,
            DTYPE,
            RECOMPUTE,
        ),
    ),
    Command(
        "plot",
        "how do the counts look?",
        "Draw FLOPs and memory against S, and the roofline of a device.",
        (
            SIZED,
            _option("--out", "a .png or .svg (the name of the target, .png)", metavar="FILE"),
            _option("--kind", "of picture (all)", choices=("flops", "memory", "roofline", "all"), default="all"),
            _option("--device", f"one of {_KNOWN} (h100-sxm)", default="h100-sxm", **_DEVICE),
            BATCH,
            SEQ,
            DTYPE,
            RECOMPUTE,
            CONVENTION,
        ),
    ),
    Command(
        "source",
        "print a model as PyTorch",
        "Print a file of PyTorch that runs without einformer.",
        (
            SIZED,
            _option("--plan", "notation: one einsum for each equation", choices=("fast", "notation"), default="fast"),
            _option("--sizes", "of letters that the target leaves open, 'L=2 D=6'", default="", metavar="SIZES"),
            _option("--annotations", "annotate tensors with their axes, for jaxtyping", action="store_true"),
            _option("--check", "have jaxtyping and beartype check every call", action="store_true"),
        ),
    ),
    Command(
        "program",
        "show what a model computes, operation by operation",
        "Show each layer as its equations and the operations that they come to; everything else is made of these.",
        (SIZED,),
    ),
    Command(
        "diff",
        "what distinguishes two models?",
        "Compare two targets: sizes, scalars and equations, letters that are only renamed apart; then counts.",
        (_option("one", _SIZED, metavar="ONE"), _option("other", "another one", metavar="OTHER"), BATCH, SEQ),
    ),
    Command("list", "what ships?", "Name the architectures, how each attends, and the published models.", ()),
    Command(
        "claims",
        "which published formulas are right?",
        "Judge every formula that documents print, by the derivation.",
        (),
    ),
    Command(
        "errata",
        "which printed equations are wrong?",
        "Show by a computation that printed equations are wrong, and that the corrected ones are right.",
        (),
    ),
    Command(
        "notes",
        "which line says what an equation of a document says?",
        "Show what there is here of each equation and formula of a document: a line, a test, a verdict, or why nothing.",
        (
            _option("document", "one of S000 to S005 (all), or a text: a .ein file, a shipped architecture", nargs="?"),
            _option("--source", "the equations of our texts that follow it (all sources)", nargs="?", const="", metavar="KEY"),
            _option("--rosetta", "how each document writes the letters of our texts", action="store_true"),
        ),
    ),
    Command(
        "lint",
        "which equations of notes are wrong, which names in Python?",
        "Report equations (LaTeX, Markdown, Typst, notebooks) and names of Python that break the rules of indices.",
        (
            _option("files", "files, or folders of them", nargs="+", metavar="FILE"),
            _option("--legend", "sizes of letters, 'b: B, s: S'", default="", metavar="SIZES"),
            _option("--format", "of the answer (text)", choices=("text", "json", "sarif", "github"), default="text"),
        ),
    ),
    Command(
        "run",
        "what does a note compute?",
        "Check the displayed equations of a note under its legend, compute them for random numbers, and measure the result.",
        (
            _option("note", "Markdown, LaTeX, Typst or a notebook: blocks of einformer, and equations", metavar="NOTE"),
            _option("--sizes", "of letters, 'B=2 S=5' (small, and no two the same)", default="", metavar="SIZES"),
            _option("--out", "where to write it as PyTorch", metavar="FILE"),
            SEED,
        ),
    ),
    Command(
        "generate",
        "how does a model continue a text?",
        "Continue a text: a folder of transformers with its weights and tokenizer, else random weights and bytes.",
        (
            SIZED,
            _option("--text", "the beginning", default="Once upon a time", metavar="TEXT|FILE"),
            _option("--tokens", "how many follow (64)", type=int, default=64, metavar="N"),
            _option("--temperature", "0 chooses the likeliest (0)", type=float, default=0.0, metavar="T"),
            _option("--top-k", "draw among the K likeliest", type=int, metavar="K"),
            _option("--top-p", "draw among the likeliest that hold a share of P", type=float, metavar="P"),
            SEED,
        ),
    ),
    Command(
        "explain",
        "what an error code means",
        "The rule behind a code, a text that breaks it and one that keeps it.",
        (_option("codes", "such as E301; all of them, a line each, where none is given", nargs="*", metavar="CODE"),),
    ),
)


def parser() -> argparse.ArgumentParser:
    """The parser of all commands; `options.command` is the name of the one that was called."""
    raw = argparse.RawDescriptionHelpFormatter
    whole = argparse.ArgumentParser(prog="einformer", description=_ABOUT, epilog=f"{_EXAMPLES}\n{_CODES}", formatter_class=raw)
    whole.add_argument("--version", action="store_true", help="print the version")
    whole.set_defaults(json=False)
    below = whole.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    for command in COMMANDS:
        added = below.add_parser(
            command.name, help=command.answers, description=command.about, epilog=_CODES, formatter_class=raw
        )
        added.set_defaults(misuse=added.error)
        exclusive = added.add_mutually_exclusive_group(required=True) if any(o.exclusive for o in command.options) else added
        for option in (*command.options, JSON):
            (exclusive if option.exclusive else added).add_argument(option.flag, **option.settings)
    return whole
