"""What does a text say? Its tree, with the layers of the prelude that it calls, and the texts that ship."""

from __future__ import annotations

import functools
import importlib.resources

from einformer.errors import EinformerError, Finding, Source
from einformer.notation import check, parser
from einformer.notation.tree import Spec

_SHIPPED = importlib.resources.files("einformer") / "architectures"


def understood(source: Source) -> tuple[Spec, Spec, tuple[Finding, ...]]:
    """A text as it is written, with the layers of the prelude that it calls; elaborated; and what is wrong with it."""
    source = Source(source.name, source.text.removeprefix("\ufeff").replace("\r\n", "\n"))
    try:
        spec, findings = parser.parse(source, frozenset(layer.name for layer in prelude().layers))
    except EinformerError as error:
        nothing = Spec("", (), (), ())
        return nothing, nothing, error.findings
    if findings:
        return spec, spec, findings
    if not spec.layers:
        return spec, spec, (Finding("E105", "the text has no layer", spec.span, fix="`layer Name(z_d) -> z_d:`"),)
    written = check.with_prelude(spec, prelude())
    return written, *check.check(written)


@functools.cache
def prelude() -> Spec:
    """The layers that every file may call without writing them."""
    spec, _ = parser.parse(text("prelude"))
    return spec


def shipped() -> list[str]:
    """The names of the shipped architectures."""
    return sorted(path.name[:-4] for path in _SHIPPED.iterdir() if path.name.endswith(".ein") and path.name != "prelude.ein")


def text(name: str) -> Source:
    """The text of a shipped architecture."""
    return Source(f"{name}.ein", (_SHIPPED / f"{name}.ein").read_text(encoding="utf-8"))
