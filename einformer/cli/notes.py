"""Runs the commands about notes and claims."""

from __future__ import annotations

import argparse
import itertools
import os
import pathlib
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from einformer.cli.screen import align_left, show, show_json, show_table

if TYPE_CHECKING:
    from einformer.notes.references import ReferenceRow
    from einformer.testing.execution import Execution

OK, FINDINGS = 0, 1
WIDTH = 100  # of a table whose rows are sentences


def show_claims(options: argparse.Namespace) -> int:
    from einformer.notes import claims

    verdicts = [claims.judge(claim) for claim in claims.claims()]
    if options.json:
        show_json([verdict.data() for verdict in verdicts])
    else:
        sources = itertools.groupby(verdicts, key=lambda verdict: verdict.claim.source)
        tables = [f"{source}\n\n{align_left(list(claims.rows(group)))}" for source, group in sources]
        show("\n\n\n".join([*tables, claims.summary(verdicts)]))
    return OK


def show_errata(options: argparse.Namespace) -> int:
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


# Without documents, those that our texts follow are shown.
def show_notes(options: argparse.Namespace) -> int:
    from einformer.architectures import texts
    from einformer.cli import literature
    from einformer.notes import notations, references, rendering
    from einformer.notes import sources as works

    if options.rosetta:
        if options.document or options.cites is not None:
            options.misuse("either `--rosetta`, or a document or text")
        head, *rows = notations.rosetta()
        data = {name: dict(zip(head[1:], cells, strict=True)) for name, *cells in rows}
        matrices = {name: rendering.attention(name) for name in notations.conventions() if rendering.attention(name)}
        formulas = [(name * (line == lines[0]), line) for name, lines in matrices.items() for line in lines]
        table = {name: letters | {"attention": matrices.get(name, ())} for name, letters in data.items()}
        show_json(table) if options.json else show(f"{align_left([head, *rows])}\n\n{align_left(formulas)}")
        return OK
    if options.cites is not None:
        return literature.show_source(options)
    if options.document and options.document not in references.documents():
        if options.document in works.sources() and options.document not in texts.shipped():
            options.misuse(f"`{options.document}` is a work that texts follow: `--cites {options.document}`")
        return literature.show_text(options)
    documents = [options.document] if options.document else references.documents()
    rows_by_document = {document: references.rows(document) for document in documents}
    if options.json:
        show_json([row.data() for rows in rows_by_document.values() for row in rows])
    else:
        show("\n\n\n".join("\n".join(_list_rows(key, rows)) for key, rows in rows_by_document.items()))
    return OK


def _list_rows(document: str, rows: Sequence[ReferenceRow]) -> Iterator[str]:
    from einformer.notes import references

    yield from _wrap(f"{document}: {references.summary(rows)}", 0)
    for place, group in itertools.groupby(rows, key=lambda row: row.place):
        yield from ("", place)
        for row in group:
            yield from _wrap(f"{row.says}  ({row.errata})" if row.errata else row.says, 2)
            yield from _wrap(row.shown(), 4)


def _wrap(text: str, indent: int) -> list[str]:
    around = textwrap.TextWrapper(WIDTH, " " * indent, " " * (indent + 4), break_long_words=False, break_on_hyphens=False)
    return around.wrap(text)


# The file of `--out` must not be one that is read.
def find_out(options: argparse.Namespace, *read: str) -> pathlib.Path | None:
    out = pathlib.Path(options.out) if options.out else None
    if out and out.exists() and any(os.path.exists(path) and out.samefile(path) for path in read):
        options.misuse(f"`{out}` is what is read")
    return out


# The file appears once it is complete.
def write_whole(path: pathlib.Path, text: str) -> None:
    from einformer.report import plot

    with plot.open_whole(path) as beside:
        beside.write_text(text, encoding="utf-8")


def run(options: argparse.Namespace) -> int:
    from einformer.notes import shelf
    from einformer.testing import execution

    out = find_out(options, options.note)
    source = shelf.read(options.note)
    executed = execution.execute(source, options.set, options.seed)
    if out:
        write_whole(out, executed.source)
    if options.json:
        show_json({"note": options.note} | executed.data())
    else:
        _show_execution(options.note, executed)
    return OK if executed.holds else FINDINGS


def _show_execution(note: str, execution: Execution) -> None:
    words = f", {execution.words} of words" * bool(execution.words)
    sizes = ", ".join(f"{name} = {size}" for name, size in execution.trial.sizes.items())
    lines = f", {execution.lines} equation{'s' * (execution.lines != 1)}" * bool(execution.lines)  # that a note displays
    show(f"{note}: {execution.trial.head}{lines}{words}\n{sizes}\n")
    show_table([("tensor", "shape", "mean", "deviation"), *execution.trial.rows()])
    show("")
    checks = [("holds" if check.holds else "fails", check.claim, check.detail) for check in execution.checks]
    show_table([("check", "of", "found"), *checks, *(("no check", *reason) for reason in execution.unchecked)])
