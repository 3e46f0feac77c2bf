"""Does an editor get the findings, what is under the pointer, and where it is defined? Over the real protocol."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from lsprotocol import types
from pygls.lsp.client import LanguageClient
from pygments.lexers import get_lexer_by_name
from pygments.token import Keyword, Name
from pygments.token import Text as Blank

import einformer
from einformer import load
from einformer.lexer import EinformerLexer, write_textmate
from einformer.objects import Specification

ROOT = Path(__file__).parents[1]
TEXT = """axes
  s: S  # 𝑥 positions
  d: D
  a: A
  e: H = D / A
scalars
  ε = 1e-5
layer Heads(z_sd) -> y_sd:
  weights 𝔔_dea, O_aed
  𝔮_sea = z_sd Q_dea
  return 𝔮_sea O_aed / (1 + ε)
model M(z_sd) -> y_sd causal in s:
  weights heads: Heads
  return z_sd + heads(z_sd)
"""
NOTE = (
    f"# 𝑥 is ε\r\n\r\n```einformer\r\n{TEXT}```\r\n".replace("z_sd Q_dea", "z_sd Q_de")
    .replace("\n", "\r\n")
    .replace("\r\r", "\r")
)


def converse(talk: Callable[[Any, list[types.PublishDiagnosticsParams]], Any]) -> Any:
    """What comes of talking to a server in a process of its own."""

    async def run() -> Any:
        client: Any = LanguageClient("test", "1")
        published = list[types.PublishDiagnosticsParams]()

        client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(lambda params: published.append(params))

        await client.start_io(sys.executable, "-m", "einformer.editor")
        await client.initialize_async(types.InitializeParams(capabilities=types.ClientCapabilities()))
        client.initialized(types.InitializedParams())
        try:
            return await talk(client, published)
        finally:
            await client.shutdown_async(None)
            client.exit(None)
            await client.stop()

    return asyncio.run(run())


def opened(client: Any, text: str, uri: str) -> None:
    client.text_document_did_open(types.DidOpenTextDocumentParams(types.TextDocumentItem(uri, "einformer", 1, text)))


def find(text: str, part: str, inside: int = 0) -> types.Position:
    """Where a part stands, as an editor counts: in units of UTF-16."""
    before = text[: text.index(part) + inside].split("\n")
    return types.Position(len(before) - 1, len(before[-1].encode("utf-16-le")) // 2)


def test_a_finding_comes_and_goes() -> None:
    """An editor types a slip, and mends it."""
    uri, broken = "file:///mine.ein", TEXT.replace("z_sd Q_dea", "z_sd Q_de")

    async def talk(client: Any, published: list[types.PublishDiagnosticsParams]) -> Any:
        opened(client, broken, uri)
        while not published:
            await asyncio.sleep(0.05)
        change = types.TextDocumentContentChangeWholeDocument(TEXT)
        identifier = types.VersionedTextDocumentIdentifier(2, uri)
        client.text_document_did_change(types.DidChangeTextDocumentParams(identifier, [change]))
        while len(published) < 2:
            await asyncio.sleep(0.05)
        return published

    first, second = converse(talk)
    (finding, *_) = first.diagnostics
    assert (first.version, finding.code, finding.range.start) == (1, "E304", find(broken, "Q_de\n"))
    assert not second.diagnostics


def test_a_finding_in_a_note_stands_where_it_is() -> None:
    """In a fenced block, with lines of Windows, behind characters of two units; a note without a block has no findings."""

    async def talk(client: Any, published: list[types.PublishDiagnosticsParams]) -> Any:
        opened(client, NOTE, "file:///a%20note.md")
        opened(client, "# A note\n\n$x = y$\n", "file:///plain.md")
        while len(published) < 2:
            await asyncio.sleep(0.05)
        return published

    noted, plain = converse(talk)
    assert not plain.diagnostics
    (finding,) = [one for one in noted.diagnostics if one.code == "E304"]
    assert (finding.range.start, finding.range.end) == (find(NOTE, "Q_de\r"), find(NOTE, "Q_de\r", 4))
    assert "write: " in finding.message


POINTED = {  # a part of the text, how far in it the pointer stands: what is said, and what is defined where
    "a weight": ("z_sd Q_dea", 6, "weight `Q_dea`, shape (D, H, A)", "𝔔_dea, O"),
    "a line": ("𝔮_sea O_aed", 1, "`q_sea`, shape (S, H, A)\n\n`q_sea = sum_d(z_sd Q_dea)`", "𝔮_sea = "),
    "behind a letter of two units": ("O_aed / (1", 1, "weight `O_aed`, shape (A, H, D)", "O_aed\n"),
    "an input": ("z_sd Q_dea", 0, "`z_sd`, shape (S, D)", "z_sd) -> y_sd:"),
    "an index": ("𝔮_sea = ", 2, "`s` runs over `S`: 𝑥 positions", "s: S"),
    "a size": ("H = D", 0, "`H` is the size of `e`", "e: H"),
    "a scalar": ("ε)", 0, "`ε = 1e-5`", "ε = "),
    "a call": ("heads(z", 1, "`Heads(z_sd) -> y_sd`\n\nparameters: 2*D**2\n\nFLOPs forward: 4*D**2*S", "heads: Heads"),
    "a layer": (
        "Heads(z_sd) ->",
        1,
        "`Heads(z_sd) -> y_sd`\n\nparameters: 2*D**2\n\nFLOPs forward: 4*D**2*S",
        "Heads(z_sd) ->",
    ),
    "nothing": ("# 𝑥", 0, None, None),
}


def test_what_is_under_the_pointer_is_told_and_found() -> None:
    async def talk(client: Any, published: list[types.PublishDiagnosticsParams]) -> Any:
        opened(client, TEXT, uri := "file:///mine.ein")
        answers = {}
        for name, (part, inside, *_) in POINTED.items():
            at = types.TextDocumentIdentifier(uri), find(TEXT, part, inside)
            hover = await client.text_document_hover_async(types.HoverParams(*at))
            place = await client.text_document_definition_async(types.DefinitionParams(*at))
            answers[name] = hover and hover.contents.value, place and place.range.start
        return answers

    expected = {name: (said, where and find(TEXT, where)) for name, (_, _, said, where) in POINTED.items()}
    assert converse(talk) == expected


# -------------------------------------------------------------------------------------------------------------- colours


@pytest.mark.parametrize("name", ["llama", "mamba2", "deepseek_v3", "prelude"])
def test_every_text_is_read_by_the_lexer(name: str) -> None:
    """Pygments finds it by its entry point; no character is left over or lost."""
    lexer, text = get_lexer_by_name("einformer"), TEXT if name == "prelude" else str(load(name))
    tokens = [*lexer.get_tokens(text)]
    assert isinstance(lexer, EinformerLexer)
    assert "".join(part for _, part in tokens) == text
    assert not [part for kind, part in tokens if kind is Blank and part.strip()]
    assert {"axes", "weights", "return"} <= {part for kind, part in tokens if kind is Keyword}
    assert "Q" in {part for kind, part in tokens if kind is Name} or name == "mamba2"


def test_the_grammar_of_editors_is_that_of_the_lexer() -> None:
    written = json.loads((ROOT / "editors" / "einformer.tmLanguage.json").read_text())
    assert written == write_textmate()
    for rule in written["patterns"]:
        assert re.compile(rule.get("match", rule.get("begin")))


# ---------------------------------------------------------------------------------------------------------------- cells


def test_a_cell_is_a_specification(capsys: pytest.CaptureFixture[str]) -> None:
    shell: Any = InteractiveShell.instance()
    shell.extension_manager.load_extension("einformer")
    assert isinstance(shell.run_cell_magic("ein", "mine", TEXT), Specification)
    assert shell.user_ns["mine"].name == "M"
    assert isinstance(shell.run_cell_magic("ein", "", TEXT), Specification)
    assert shell.run_cell_magic("ein", "mine", TEXT.replace("z_sd Q_dea", "z_sd Q_de")) is None
    said = capsys.readouterr().err
    assert "E304" in said
    assert "Traceback" not in said
    assert shell.run_cell_magic("ein", "not a name", TEXT) is None
    assert "`not a name`" in capsys.readouterr().err
    assert dir(einformer) == einformer.__all__
