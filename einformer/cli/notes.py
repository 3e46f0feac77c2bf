"""What do the commands do that are about notes, and about what they claim?"""

from __future__ import annotations

import argparse
import itertools
import pathlib
from typing import TYPE_CHECKING

from einformer.architectures import texts
from einformer.cli.screen import listed, show, show_json, show_table

if TYPE_CHECKING:
    from einformer.testing.execution import Execution

OK, FINDINGS = 0, 1


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
    from einformer.notes import conventions, references

    if options.rosetta:
        head, *rows = conventions.rosetta()
        data = {name: dict(zip(head[1:], cells, strict=True)) for name, *cells in rows}
        show_json(data) if options.json else show(listed([head, *rows]))
        return OK
    if options.source is not None:
        return sources.show_source(options)
    if options.document and options.document not in references.documents():
        return sources.show_text(options)
    documents = [options.document] if options.document else references.documents()
    found = {document: list(references.rows(document)) for document in documents}
    if options.json:
        show_json(list(itertools.chain(*found.values())))
        return OK
    columns = ("place", "says", "status", "errata", "where")
    tables = {document: listed([[row[name] for name in columns] for row in rows]) for document, rows in found.items()}
    show("\n\n\n".join(f"{each}: {references.summary(found[each])}\n\n{table}" for each, table in tables.items()))
    return OK


def run(options: argparse.Namespace) -> int:
    """What a note computes, and whether it is what the note says."""
    from einformer.testing import execution

    given = [size.partition("=") for size in options.sizes.replace(",", " ").split()]
    if wrong := [name for name, _, number in given if not number.isdecimal()]:
        options.misuse(f"no size `{', '.join(wrong)}`; write 'B=2 S=5'")
    source = texts.read(options.note)
    found = execution.executed(source, {name: int(number) for name, _, number in given}, options.seed)
    if options.out:
        pathlib.Path(options.out).write_text(found.source, encoding="utf-8")
    if options.json:
        show_json({"note": options.note} | found.data())
    else:
        _show_execution(options.note, found)
    return OK if found.holds else FINDINGS


def _show_execution(note: str, found: Execution) -> None:
    """What was computed, and then what was checked."""
    words = f", {found.words} of words" * bool(found.words)
    sizes = ", ".join(f"{name} = {size}" for name, size in found.trial.sizes.items())
    lines = f"{found.lines} equation{'s' * (found.lines != 1)}"
    show(f"{note}: {found.trial.head}, {lines}{words}\n{sizes}\n")
    show_table([("tensor", "shape", "mean", "deviation"), *found.trial.rows()])
    show("")
    checks = [("holds" if check.holds else "fails", check.claim, check.detail) for check in found.checks]
    show_table([("check", "of", "found"), *checks, *(("no check", *said) for said in found.unchecked)])
