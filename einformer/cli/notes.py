"""What do the commands do that are about notes, and about what they claim?"""

from __future__ import annotations

import argparse
import itertools
import pathlib
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from einformer.cli.screen import listed, show, show_json, show_table

if TYPE_CHECKING:
    from einformer.notes.references import Row
    from einformer.testing.execution import Execution

OK, FINDINGS = 0, 1
WIDTH = 100  # of a table whose rows are sentences


def show_claims(options: argparse.Namespace) -> int:
    """The verdict on every claim."""
    from einformer.notes import claims

    verdicts = [claims.judge(claim) for claim in claims.claims()]
    if options.json:
        show_json([verdict.data() for verdict in verdicts])
    else:
        sources = itertools.groupby(verdicts, key=lambda verdict: verdict.claim.source)
        tables = [f"{source}\n\n{listed(list(claims.rows(group)))}" for source, group in sources]
        show("\n\n\n".join([*tables, claims.summary(verdicts)]))
    return OK


def show_errata(options: argparse.Namespace) -> int:
    """What the check of every erratum finds."""
    from einformer.notes import errata

    verdicts = [errata.judge(erratum) for erratum in errata.errata()]
    if options.json:
        show_json([verdict.data() for verdict in verdicts])
        return OK
    for source, group in itertools.groupby(verdicts, key=lambda verdict: verdict.erratum.source):
        show(f"{source}\n")
        show_table([("erratum", "verdict", "what is wrong"), *errata.rows(group)])
        show("")
    show(errata.summary(verdicts))
    return OK


def show_notes(options: argparse.Namespace) -> int:
    """The equations and formulas of a document, or of all, with what there is of each; or what our texts say of documents."""
    from einformer.cli import sources
    from einformer.notes import conventions, references, rendering

    if options.rosetta:
        if options.document or options.cites is not None:
            options.misuse("either `--rosetta`, or a document or text")
        head, *rows = conventions.rosetta()
        data = {name: dict(zip(head[1:], cells, strict=True)) for name, *cells in rows}
        matrices = {name: rendering.attention(name) for name in conventions.conventions() if rendering.attention(name)}
        formulas = [(name * (line == lines[0]), line) for name, lines in matrices.items() for line in lines]
        table = {name: letters | {"attention": matrices.get(name, ())} for name, letters in data.items()}
        show_json(table) if options.json else show(f"{listed([head, *rows])}\n\n{listed(formulas)}")
        return OK
    if options.cites is not None:
        return sources.show_source(options)
    if options.document and options.document not in references.documents():
        return sources.show_text(options)
    documents = [options.document] if options.document else references.documents()
    found = {document: references.rows(document) for document in documents}
    if options.json:
        show_json([row.data() for rows in found.values() for row in rows])
    else:
        show("\n\n\n".join("\n".join(_table(each, rows)) for each, rows in found.items()))
    return OK


def _table(document: str, rows: Sequence[Row]) -> Iterator[str]:
    """What stands at each place of a document, and below each equation what there is of it."""
    from einformer.notes import references

    yield from _wrapped(f"{document}: {references.summary(rows)}", 0)
    for place, group in itertools.groupby(rows, key=lambda row: row.place):
        yield from ("", place)
        for row in group:
            yield from _wrapped(f"{row.says}  ({row.errata})" if row.errata else row.says, 2)
            yield from _wrapped(row.shown(), 4)


def _wrapped(text: str, indent: int) -> list[str]:
    around = textwrap.TextWrapper(WIDTH, " " * indent, " " * (indent + 4), break_long_words=False, break_on_hyphens=False)
    return around.wrap(text)


def run(options: argparse.Namespace) -> int:
    """What a note computes, and whether it is what the note says."""
    from einformer.notes import shelf
    from einformer.testing import execution

    out = pathlib.Path(options.out) if options.out else None
    if out and out.resolve() == pathlib.Path(options.note).resolve():
        options.misuse(f"`{out}` is the note itself")
    source = shelf.read(options.note)
    found = execution.execute(source, options.set, options.seed)
    if out:
        out.write_text(found.source, encoding="utf-8")
    if options.json:
        show_json({"note": options.note} | found.data())
    else:
        _show_execution(options.note, found)
    return OK if found.holds else FINDINGS


def _show_execution(note: str, found: Execution) -> None:
    """What was computed, and then what was checked."""
    words = f", {found.words} of words" * bool(found.words)
    sizes = ", ".join(f"{name} = {size}" for name, size in found.trial.sizes.items())
    lines = f", {found.lines} equation{'s' * (found.lines != 1)}" * bool(found.lines)  # that a note displays
    show(f"{note}: {found.trial.head}{lines}{words}\n{sizes}\n")
    show_table([("tensor", "shape", "mean", "deviation"), *found.trial.rows()])
    show("")
    checks = [("holds" if check.holds else "fails", check.claim, check.detail) for check in found.checks]
    show_table([("check", "of", "found"), *checks, *(("no check", *said) for said in found.unchecked)])
