"""Finds the text or the model that a name means: a shipped one, a file, a config, or a text itself."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Mapping
from dataclasses import replace

from einformer.architectures import models, texts
from einformer.errors import EinformerError, Finding, Source, fail
from einformer.language.binding import Given
from einformer.language.tree import Spec
from einformer.notes import shelf
from einformer.objects import Model, Specification


def model(target: str | pathlib.Path, **values: Given) -> Model:
    """The model that a command means by its target, with these sizes and scalars.

    >>> model("gpt2-xl").size("D")
    1600
    >>> model("gpt2-xl", L=2).size("L")
    2

    A target is a model with published sizes (`"gpt2-xl"`), a shipped architecture (`"llama"`), a document (`"s000"`), the file
    of a text or of a note, a `config.json`, or its folder. Sizes that neither the target nor `values` give stay open.
    Raises EinformerError as `load`, `from_huggingface` and `Specification.bind` do.
    """
    if is_config(target):
        found = from_huggingface(target)
    elif row := models().get(str(target)):
        found = replace(load(row.architecture).bind_from(row.sizes, row.source), family=row.architecture)
    else:
        return load(target).bind(**values)
    return found.bind(**values) if values else found


def is_config(target: str | pathlib.Path) -> bool:
    """A target is a `config.json` or its folder, not a text."""
    return pathlib.Path(target).suffix == ".json" or os.path.isdir(target)


def load(target: str | pathlib.Path) -> Specification:
    """The specification of a shipped architecture (`"gpt2"`), of a document (`"s000"`), of a `.ein` file, or of a note.

    >>> load("gpt2").title
    'gpt2.ein: pre-norm decoder with learned positions'

    Raises EinformerError: E801, E802 where there is no such text, E806, else the findings of the text.
    """
    row = models().get(str(target))
    if is_config(target) or (row and str(target) != row.architecture):
        text = f", or `ein.load({row.architecture!r})` for its text" if row else ""
        message = f"`{target}` is a model: it has sizes, which a specification leaves open"
        raise fail("E802", message, fix=f"`ein.model({str(target)!r})`{text}")
    source = shelf.read(target)
    return parse(source.text, source.name)


def from_huggingface(source: str | pathlib.Path | Mapping[str, object], length: int | None = None) -> Model:
    """The model of a `config.json` of transformers: its path, the folder it lies in, or its content.

    Where rotary angles depend on the length of the sequence (dynamic NTK, LongRoPE) they are those for this `length`, and
    those from before stretching if none is given: they are chosen once, since a cache holds what was turned by them.
    Every key is handled, ignored with a reason, or refused. Raises EinformerError E610 to E615, E602 to E606, E801, E802.
    """
    from einformer.huggingface import config

    imported = config.import_config(source)
    written = load(imported.architecture)
    specification = written.without(*(name if "." in name else f"{written.name}.{name}" for name in imported.absent))
    if imported.scalars:
        specification = specification.replace(imported.scalars)
    chosen = {"Φ": length} if length is not None and "Φ" in imported.scalars else {}
    model = specification.bind_from({**imported.values, **chosen}, imported.origins)
    return replace(model, family=imported.family, config=imported.config, initialisation=imported.initialisation)


def parse(text: str, name: str = "<text>") -> Specification:
    """The specification of a text in the language, plain or LaTeX, or of a note (`name` ends with .md, .tex, .typ, .ipynb).

    Raises EinformerError with every finding.

    >>> parse("axes\\n  d: D\\nlayer Square(z_d) -> z_d:\\n  return z_d^2")["Square"].name
    'Square'
    """
    written, tree, findings = _understood(Source(name, text))
    if findings:
        raise EinformerError(findings)
    return Specification(written, tree, tree.layers[-1].name)


def examine(source: Source) -> tuple[Spec, tuple[Finding, ...]]:
    """The elaborated tree of a text and all findings: of its syntax, else of its meaning. Lines may end as on Windows."""
    _, tree, findings = _understood(source)
    return tree, findings


def _understood(source: Source) -> tuple[Spec, Spec, tuple[Finding, ...]]:
    """A text as it is written, elaborated, and what is wrong with it; of a note, the text that it holds."""
    if pathlib.PurePath(source.name).suffix in (".ein", ""):
        return texts.understood(source)
    from einformer.notes import programs  # reading notes takes longer to load than all the rest

    return programs.understood(source)
