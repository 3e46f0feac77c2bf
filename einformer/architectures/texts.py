"""Reads texts: their trees, with the layers of the library that they call, and the texts that ship."""

from __future__ import annotations

import difflib
import functools
import os
import pathlib
import re
import unicodedata
from dataclasses import replace

from einformer.architectures import models
from einformer.errors import EinformerError, Finding, Source, fail
from einformer.language import parser
from einformer.language.check import with_library
from einformer.language.parser import EMPTY
from einformer.language.tokens import MAXIMUM_TEXT
from einformer.language.tree import Layer, Name, Spec
from einformer.program.causality import check_spec

MAXIMUM_FILE = 10_000_000  # characters: notes are longer than the text that they hold
_SHIPPED = pathlib.Path(__file__).parent


# As written, with the layers of the library that it calls; elaborated; and its findings.
def elaborate(source: Source) -> tuple[Spec, Spec, tuple[Finding, ...]]:
    source = replace(source, text=source.text.removeprefix("\ufeff").replace("\r\n", "\n"))
    try:
        near = reach(source.text)
        spec, findings = parser.parse(source, near)
        findings = findings and parser.parse(source, library())[1]  # which say what was meant
    except EinformerError as error:
        nothing = Spec("", (), (), ())
        return nothing, nothing, error.findings
    if findings:
        return spec, spec, findings
    if not spec.layers:
        return spec, spec, (Finding("E105", "the text has no layer", spec.span, fix="`layer Name(z_d) -> z_d:`"),)
    written = with_library(spec, near)
    tree, findings = check_spec(written)
    return written, tree, tuple(_name_in_head(finding, near) for finding in findings)


# What a layer of the library lacks, the library has: its name in the head of the legend is enough.
def _name_in_head(finding: Finding, library: Spec) -> Finding:
    missing = re.search(r"no (?:axis|size, scalar or index|tensor) `(\w+)`", finding.message)
    if not missing or not any("needs it" in fact for fact in finding.facts):
        return finding
    heads = [f"axes …, {axis.letter}" for axis in library.axes if axis.letter == missing[1]]
    for scalar in library.scalars:
        if scalar.name == missing[1]:
            heads.append(f"scalars …, {scalar.name}{'_' * bool(scalar.indices)}{''.join(x.letter for x in scalar.indices)}")
    return replace(finding, fix=f"`{heads[0]}`, as the library has it") if heads else finding


# With the layers of the library that it calls.
@functools.cache
def write_out(name: str) -> Spec:
    near = reach(text(name).text)
    return with_library(parser.parse(text(name), near)[0], near)


# Every file may name and call these without writing them.
@functools.cache
def library() -> Spec:
    return reach(text("library").text)


# The part of the library that a text can reach: its legend, the layers that the text names, and those that they name.
def reach(text: str) -> Spec:
    blocks, words = _library_blocks(), _words(text)
    names = [name for name in blocks if name in words]
    for name in names:
        names += [callee for callee in _named_layers(name) if callee not in names]
    legend = _parse_block("")
    return replace(legend, layers=tuple(layer for name in blocks if name in names for layer in _parse_block(name).layers))


@functools.cache
def _named_layers(name: str) -> tuple[str, ...]:
    blocks = _library_blocks()
    words = _words(blocks[name].text)
    return tuple(other for other in blocks if other in words)


# Alone, since few texts need many layers, and parsing all takes a tenth of the start.
@functools.cache
def _parse_block(name: str) -> Spec:
    source = _library_blocks()[name]
    varied = re.match(r"\s*layer \w+ = (\w+)", source.text)
    layers = _parse_block(varied[1]).layers if varied else ()
    stubs = (Layer(other, (), (), Name("y"), (), ()) for other in _library_blocks() if not varied or other != varied[1])
    return parser.parse(source, replace(EMPTY, layers=(*layers, *stubs)))[0]


# A layer stands in its place among empty lines; the legend has no name.
@functools.cache
def _library_blocks() -> dict[str, Source]:
    source, blocks, above = text("library"), dict[str, Source](), 0
    for block in re.split(r"\n(?=layer )", source.text):
        name = re.match(r"layer (\w+?)(?=[_( ])", block)
        blocks[name[1] if name else ""] = Source(source.name, "\n" * above + block)
        above += block.count("\n") + 1
    return blocks


def _words(text: str) -> set[str]:
    return set(re.findall(r"[^\W_]+", unicodedata.normalize("NFKC", text[:MAXIMUM_TEXT])))


@functools.cache
def shipped() -> tuple[str, ...]:
    return tuple(sorted(name[:-4] for name in os.listdir(_SHIPPED) if name.endswith(".ein") and name != "library.ein"))


def text(name: str) -> Source:
    return Source(f"{name}.ein", (_SHIPPED / f"{name}.ein").read_text(encoding="utf-8"))


# Opening a pipe does not wait for somebody to write: one that nobody holds open is empty.
def _open_at_once(path: str, flags: int) -> int:
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    os.set_blocking(descriptor, True)
    return descriptor


# The text of a target and its name for messages. Raises EinformerError E801, E802.
def read(target: str | pathlib.Path) -> Source:
    if row := models().get(str(target)):
        target = row.architecture
    if str(target) in shipped():
        return text(str(target))
    path = pathlib.Path(target)
    if not os.path.exists(path) or path.is_dir():  # a pipe is read too
        names = sorted({*shipped(), *models()})
        near = difflib.get_close_matches(str(target)[:60].lower(), names, n=3, cutoff=0)
        fix = f"a file, or one of {', '.join(near)}; `einformer list` names all"
        raise fail("E802", f"`{target}` is neither a file nor a shipped architecture", fix=fix)
    try:
        with open(path, encoding="utf-8", newline="", opener=_open_at_once) as file:
            return Source(str(target), file.read(MAXIMUM_FILE + 1))
    except (OSError, UnicodeDecodeError) as error:
        raise fail("E801", f"`{target}` cannot be read: {error}", fix="a text in UTF-8") from error
