"""Writes the pages of the API and of the commands: docstrings with signatures, and the table of options."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import einformer
from einformer import contracts, errors, objects, testing
from einformer.cli.options import GROUPS, TARGET, Command, Option
from einformer.huggingface.tensors import HuggingFaceWeights
from einformer.interpreters.torch.generate import Decodes
from einformer.interpreters.torch.module import _Door
from einformer.interpreters.torch.ranks import Parts

API = """# API

<!-- Made of docstrings by docs/reference.py. -->

Public are the names of `dir(einformer)`, `einformer.contracts` and `einformer.testing`, and the methods of what these return. A
size is given by its letter, `model.flops(B=1, S=1024)`. `str(spec)` is the text, `spec["MLP"]` a layer of it. In a notebook a
specification and a model show their equations, and what `draw` returns shows a picture.
"""
Part = tuple[str, str, object, str]  # a title, the name of what has the members, itself, the members
PARTS: tuple[Part, ...] = (
    ("From a text to a model", "einformer", einformer, "load parse model from_huggingface"),
    ("Specification: read and change", "Specification", objects.Specification, "title layers bind replace without diff"),
    ("Specification: count in letters", "Specification", objects.Specification, "parameters flops cache_bytes"),
    ("Specification: print", "Specification", objects.Specification, "latex draw"),
    ("Model: sizes and weights", "Model", objects.Model, "size open inputs weight_shapes bind stage diff"),
    ("Model: compute", "Model", objects.Model, "reference build source cached_source"),
    ("Model: count", "Model", objects.Model, "num_parameters parameter_counts flops memory cache_bytes kept summary"),
    ("Model: measure", "Model", objects.Model, "saved peak"),
    ("Model: several devices", "Model", objects.Model, "exchanges exchange_formulas"),
    ("Model: draw", "Model", objects.Model, "draw draw_masks draw_placement"),
    ("Module: continue a text", "Module", Decodes, "generate stream log_prob perplexity cache decode compile_steps"),
    ("Module: weights", "Module", HuggingFaceWeights, "load_huggingface save_huggingface to_huggingface"),
    ("Module: checkpoints", "Module", _Door, "initialise save_checkpoint load_checkpoint"),
    ("Module: of one rank", "Module", Parts, "average_gradients clip_gradients sum_ties"),
    ("Contracts", "einformer", einformer, "contract"),
    ("Contracts: more", "einformer.contracts", contracts, "T bind sizes watch Watch probe on off"),
    ("Testing", "einformer.testing", testing, " ".join(testing.__all__)),
    ("Errors", "einformer", errors, "EinformerError"),
)


def api() -> str:
    """The page of all public names."""
    return "\n".join([API, *(text for part in PARTS for text in _part(*part))])


def _part(title: str, name: str, owner: object, members: str) -> Iterator[str]:
    yield f"## {title}\n"
    for member in members.split():
        value = vars(owner).get(member) or getattr(owner, member)  # a property itself, not its value
        yield _describe(f"{name}.{member}", value, method=name[0].isupper())


def _describe(name: str, value: Any, method: bool) -> str:
    """A directive of Sphinx' Python domain."""
    kind = "method" if method else "class" if inspect.isclass(value) else "function" if callable(value) else "data"
    if isinstance(value, property):
        kind, value = "property", value.fget
    signature = "" if kind in ("class", "data") else _sign(value, method)
    if kind == "property":
        signature = f"\n:type: {signature.partition(' -> ')[2]}\n"
    text = re.sub(r"(^>>> .*(?:\n.+)*)", r"```pycon\n\1\n```", inspect.getdoc(value) or "", flags=re.MULTILINE)
    return f"````{{py:{kind}}} {name}{signature}\n\n{text}\n````\n"


class _Bare(str):
    """An annotation as it is written, which a signature shows without quotes."""

    __repr__ = str.__str__


def _sign(function: Callable[..., Any], method: bool) -> str:
    signature = inspect.signature(function)
    parameters = [each.replace(annotation=_Bare(each.annotation)) for each in signature.parameters.values()]
    bare = signature.replace(parameters=parameters[method:], return_annotation=_Bare(signature.return_annotation))
    return str(bare)


COMMANDS = """# Commands

<!-- Made of the options of einformer/cli by docs/reference.py. -->

`einformer COMMAND --help` prints the same. Each command has `--json`, which prints its answer as data. The exit code is 0 if
all is well, 1 if there are findings, and 2 if the call was wrong.

A `TARGET` is a model with published sizes (`gpt2-xl`), a `config.json` or its folder, a `.ein` file, a note, a shipped
architecture, a document (`s000`), or `-` for a text that comes through the pipe.
"""


def commands() -> str:
    """The page of all commands."""
    parts = [COMMANDS]
    for title, group in GROUPS.items():
        parts += [f"## {title}\n", *(text for command in group for text in _command(command))]
    return "\n".join(parts)


def _command(command: Command) -> Iterator[str]:
    names = (_flag(option) for option in command.options if not option.flag.startswith("-"))
    yield f"### {command.name}\n\n`{' '.join(('einformer', command.name, *names))} …`\n\n{command.about}\n"
    for option in (option for option in command.options if option is not TARGET):
        yield f"`{_flag(option)}`\n: {option.settings['help']}\n"


def _flag(option: Option) -> str:
    """A flag with its value, as the help prints it."""
    choices = option.settings.get("choices")
    value = option.settings.get("metavar") or (f"{{{','.join(map(str, choices))}}}" if choices else "")
    return f"{option.flag} {value}".strip() if option.flag.startswith("-") else str(value or option.flag)


def write_reference(folder: Path) -> None:
    """The pages that are made when the site is built, and not committed."""
    for name, page in (("api", api()), ("commands", commands())):
        (folder / f"{name}.md").write_text(page, encoding="utf-8")
