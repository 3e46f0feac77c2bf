"""Serves editors over the Language Server Protocol: `python -m einformer.editor`, with `pip install einformer[editor]`.

The findings of a text or of a note stand where they belong as one types. What is under the pointer is told: the shape of a
tensor, the parameters of a weight or a layer, the size of an index; and where it is defined.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from urllib.parse import unquote, urlsplit

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.workspace import ServerTextPosition, TextDocument

from einformer.errors import EinformerError, Finding, Source, Span
from einformer.language.calls import axis_of, callees
from einformer.language.printer import PLAIN, show
from einformer.language.tree import Apply, Axis, Equation, Expression, Index, Layer, Name, Node, Scalar, Spec, Tensor, Weight
from einformer.language.walk import equations, find_all, slots_of, subexpressions
from einformer.objects import Specification
from einformer.targets import examine

server = LanguageServer("einformer", version("einformer"))


@dataclass(frozen=True)
class Page:
    """A document in an editor, checked."""

    document: TextDocument

    # A line ends in one character.
    @cached_property
    def text(self) -> str:
        return self.document.source.replace("\r\n", "\n")

    # The tree is None where there is no program. A note without a block of einformer has no findings.
    @cached_property
    def checked(self) -> tuple[Spec | None, tuple[Finding, ...]]:
        name = unquote(urlsplit(self.document.uri).path).rpartition("/")[2]
        if not name.endswith(".ein") and "einformer" not in self.text:
            return None, ()
        try:
            return examine(Source(name, self.text))
        except EinformerError as error:
            return None, error.findings

    # An editor shows the message, then the rule and what to write instead.
    @property
    def diagnostics(self) -> list[types.Diagnostic]:
        return [
            types.Diagnostic(
                range=self.place(finding.span.written),
                message="\n".join((finding.message, *(row.strip() for row in str(finding).split("\n") if _advises(row)))),
                severity=types.DiagnosticSeverity.Error,
                code=finding.code,
                source="einformer",
            )
            for finding in self.checked[1]
        ]

    # Columns are in the units of the editor.
    def place(self, span: Span) -> types.Range:
        lines = (self.text[:offset].split("\n") for offset in (span.start, max(span.end, span.start + 1)))
        ends = [self.document.position_to_client_units(ServerTextPosition(len(some) - 1, len(some[-1]))) for some in lines]
        return types.Range(*ends)

    # The smallest part of the text around a position, and the layer in which it stands.
    def find(self, position: types.Position) -> tuple[Node, Layer | None] | None:
        tree, here = self.checked[0], self.document.position_from_client_units(position)
        offset = sum(len(line) + 1 for line in self.text.split("\n")[: here.line]) + here.character
        around = [(node, layer) for node, layer in _walk(tree) if _holds(node.span, offset)] if tree else []
        return min(around, key=lambda pair: pair[0].span.written.end - pair[0].span.written.start, default=None)

    def hover(self, position: types.Position) -> str:
        tree = self.checked[0]
        match self.find(position), tree:
            case ((Index(letter=letter) | Axis(letter=letter), _), Spec()):
                axis = next((axis for axis in tree.axes if axis.letter == axis_of(letter)), None)
                return "" if axis is None else f"`{letter}` runs over `{show(axis.size)}`" + _remark(axis)
            case ((Tensor() | Name() | Weight() as tensor, layer), Spec()):
                return _describe(tensor, layer, tree)
            case ((Apply(name=name) | Layer(name=name), layer), Spec()):
                layers = {inner.name: inner for inner in tree.layers}
                called = callees(layer, layers).get(name) if layer else layers[name]
                return _count(called, tree) if called else ""
            case _:
                return ""

    def define(self, position: types.Position) -> types.Range | None:
        tree, part = self.checked[0], self.find(position)
        if tree is None or part is None:
            return None
        node, layer = part
        name = node.letter if isinstance(node, Index | Axis) else getattr(node, "name", "")
        nodes = (other for other in _define(name, layer, tree) if other.span.source is node.span.source)
        first = next(nodes, None)
        return self.place(first.span.written) if first is not None else None


def _advises(row: str) -> bool:
    return row.startswith(("  rule: ", "  write: "))


def _holds(span: Span, at: int) -> bool:
    written = span.written
    return written.start <= at < max(written.end, written.start + 1)


# All that has a place, with the layer around it.
def _walk(tree: Spec) -> Iterator[tuple[Node, Layer | None]]:
    yield from ((axis, None) for axis in tree.axes)
    values = (part for axis in tree.axes for part in (axis.size, axis.default, axis.bound))
    for value in (*values, *(scalar.value for scalar in tree.scalars)):
        yield from ((e, None) for e in (subexpressions(value) if isinstance(value, Expression) else ()))
    for layer in tree.layers:
        yield layer, None
        for head in (*layer.formals, layer.output, *layer.weights):
            yield head, layer
            yield from ((index, layer) for index in (head.indices if isinstance(head, Weight) else slots_of(head)))
        for equation in equations(layer.body):
            for root in (equation.left, equation.right):
                for e in subexpressions(root):
                    yield e, layer
                    yield from ((index, layer) for index in (e.indices if isinstance(e, Apply) else ()))


def _define(name: str, layer: Layer | None, tree: Spec) -> Iterator[Node]:
    if layer is not None:
        lines = [equation.left for equation in equations(layer.body) if equation.relation == "="]
        yield from (node for node in (*layer.weights, *lines, *layer.formals) if node.name == name)
    yield from (other for other in tree.layers if other.name == name)
    yield from (scalar for scalar in tree.scalars if scalar.name == name)
    yield from (axis for axis in tree.axes if axis.letter == axis_of(name) or (axis.size == Name(name)))


def _describe(tensor: Tensor | Name | Weight, layer: Layer | None, tree: Spec) -> str:
    node = next(_define(tensor.name, layer, tree), None)
    match node:
        case Axis():
            return f"`{tensor.name}` is the size of `{node.letter}`" + _remark(node)
        case Scalar():
            return f"`{show(node)}`" + _remark(node)
        case Weight():
            kind = {"trained": "weight", "buffer": "buffer", "instance": "layer"}[node.kind]
            return f"{kind} `{show(node)}`, {_shape(node.indices, tree)}" + _remark(node)
        case Tensor():
            line = next((q for q in equations(layer.body) if q.left is node), None) if layer else None
            defining = f"\n\n`{show(line)}`" if isinstance(line, Equation) else ""
            return f"`{show(node)}`, {_shape(node.slots, tree)}{defining}"
        case _:
            return ""


def _shape(slots: tuple[Expression, ...] | tuple[Index, ...], tree: Spec) -> str:
    sizes = {axis.letter: show(axis.size) for axis in tree.axes}
    lengths = (
        " ".join(f"({size})" if " " in size else size for size in (sizes.get(axis_of(x.letter), "?") for x in _indices(slot)))
        for slot in slots
    )
    return f"shape ({', '.join(lengths)})"


def _indices(slot: Expression) -> list[Index]:
    return [*find_all(Index, slot)]


def _count(layer: Layer, tree: Spec) -> str:
    specification = Specification(tree, tree, layer.name)
    return f"`{PLAIN.signature(layer)}`\n\nparameters: {specification.parameters}\n\nFLOPs forward: {specification.flops()}"


def _remark(node: Axis | Scalar | Weight) -> str:
    return f": {node.comment}" if node.comment else ""


# ------------------------------------------------------------------------------------------------------------ the protocol


@server.feature(types.TEXT_DOCUMENT_DID_OPEN)
@server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
def check(editor: LanguageServer, change: types.DidOpenTextDocumentParams | types.DidChangeTextDocumentParams) -> None:
    page = Page(editor.workspace.get_text_document(change.text_document.uri))
    editor.text_document_publish_diagnostics(
        types.PublishDiagnosticsParams(change.text_document.uri, page.diagnostics, change.text_document.version)
    )


@server.feature(types.TEXT_DOCUMENT_HOVER)
def hover(editor: LanguageServer, at: types.HoverParams) -> types.Hover | None:
    text = Page(editor.workspace.get_text_document(at.text_document.uri)).hover(at.position)
    return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, text)) if text else None


@server.feature(types.TEXT_DOCUMENT_DEFINITION)
def define(editor: LanguageServer, at: types.DefinitionParams) -> types.Location | None:
    place = Page(editor.workspace.get_text_document(at.text_document.uri)).define(at.position)
    return types.Location(at.text_document.uri, place) if place is not None else None


if __name__ == "__main__":
    server.start_io()
