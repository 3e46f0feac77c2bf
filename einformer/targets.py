"""Finds the text or model of a target: a shipped name, a file, a config, or a text itself."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

from einformer.architectures import models, texts
from einformer.errors import EinformerError, Finding, Source, fail
from einformer.language.binding import Given
from einformer.language.tree import Spec
from einformer.notes import shelf
from einformer.objects import Model, Origin, Specification, bind_from


def model(target: str | pathlib.Path, **values: Given) -> Model:
    """Returns the model of a target, with these sizes and scalars.

    >>> model("gpt2-xl").size("D")
    1600
    >>> model("gpt2-xl", L=2).size("L")
    2

    A target is a model with published sizes (`"gpt2-xl"`), a shipped architecture (`"llama"`), a document (`"s000"`), the
    file of a text or of a note, a `config.json`, or its folder. Sizes that neither the target nor `values` give stay open.
    Raises EinformerError as `load`, `from_huggingface` and `Specification.bind` do.
    """
    if is_config(target):
        model_ = from_huggingface(target)
    elif row := models().get(str(target)):
        model_ = replace(bind_from(load(row.architecture), row.sizes, row.source), _origin=Origin(row.architecture))
    else:
        return load(target).bind(**values)
    return model_.bind(**values) if values else model_


def is_config(target: str | pathlib.Path) -> bool:
    """Returns whether a target is a `config.json` or its folder."""
    return pathlib.Path(target).suffix == ".json" or os.path.isdir(target)


def load(target: str | pathlib.Path) -> Specification:
    """Returns the specification of a shipped architecture (`"gpt2"`), a document (`"s000"`), a `.ein` file, or a note.

    >>> load("gpt2").title
    'gpt2.ein: pre-norm decoder with learned positions'

    Raises EinformerError E801, E802 if there is no such text, E806, else the errors of the text.
    """
    row = models().get(str(target))
    if is_config(target) or (row and str(target) != row.architecture):
        text = f", or `ein.load({row.architecture!r})` for its text" if row else ""
        message = f"`{target}` is a model: it has sizes, which a specification leaves open"
        raise fail("E802", message, fix=f"`ein.model({str(target)!r})`{text}")
    source = shelf.read(target)
    return parse(source.text, source.name)


def from_huggingface(source: str | pathlib.Path | Mapping[str, object], length: int | None = None) -> Model:
    """Returns the model of a `config.json` of transformers: its path, its folder, or its content.

    If rotary angles depend on the length of the sequence (dynamic NTK, LongRoPE), they are those for `length`, and by
    default those before stretching. They are fixed, since a cache holds keys that are turned by them. Every key is handled,
    ignored with a reason, or refused. Raises EinformerError E610 to E615, E602 to E606, E801, E802.
    """
    from einformer.huggingface import config

    imported = config.import_config(source)
    chosen = {"Φ": length} if length is not None and "Φ" in imported.scalars else {}
    written, tree, legend = config.bind_text(imported, chosen)
    specification = _entitle(Specification(written, tree, tree.layers[-1].name), imported.part, imported.others)
    origin = Origin(imported.family, imported.config, imported.initialisation, imported.part, imported.others)
    return Model(specification, legend, _origin=origin)


# Every output shows the title.
def _entitle(specification: Specification, part: str, others: Sequence[str]) -> Specification:
    if not part:
        return specification
    title = f"{specification.title}; {part}; not counted: {', '.join(others)}"
    written, tree = (replace(spec, title=title) for spec in (specification.written, specification.tree))
    return replace(specification, written=written, tree=tree)


def parse(text: str, name: str = "<text>") -> Specification:
    r"""Returns the specification of a text, plain or LaTeX, or of a note (`name` ends with .md, .tex, .typ, .ipynb).

    Raises EinformerError with every finding.

    >>> parse("axes\n  d: D\nlayer Square(z_d) -> z_d:\n  return z_d^2")["Square"].name
    'Square'
    """
    written, tree, findings = _read(Source(name, text))
    if findings:
        raise EinformerError(findings)
    return Specification(written, tree, tree.layers[-1].name)


def examine(source: Source) -> tuple[Spec, tuple[Finding, ...]]:
    """Returns the elaborated tree of a text and all its errors, of syntax, else of meaning. Lines may end as on Windows."""
    _, tree, findings = _read(source)
    return tree, findings


# As written, elaborated, and the errors.
def _read(source: Source) -> tuple[Spec, Spec, tuple[Finding, ...]]:
    if pathlib.PurePath(source.name).suffix in (".ein", ""):
        return texts.elaborate(source)
    from einformer.notes import programs  # reading notes takes longer to load than all the rest

    return programs.elaborate(source)
