"""Shows texts and their sources: the documents that each equation follows, and the equations that follow a document."""

from __future__ import annotations

import argparse
import itertools
from collections import Counter

from einformer import targets
from einformer.cli.screen import align_left, show, show_json
from einformer.notes import citations, shelf
from einformer.notes.citations import Citation, Noted
from einformer.notes.sources import Publication, sources

OK = 0


def show_text(options: argparse.Namespace) -> int:
    source = shelf.read(options.document)
    equations = list(citations.find_noted(targets.parse(source.text, source.name).written, source.name.removesuffix(".ein")))
    if options.json:
        show_json([_to_data(equation) for equation in equations])
        return OK
    under = sum(bool(equation.cited) for equation in equations)
    lines = [f"{source.name}: {len(equations)} equations, {under} under a note"]
    for layer, group in itertools.groupby(equations, lambda equation: equation.layer):
        lines += ["", layer]
        for equation in group:
            lines += [f"  {equation.says}", *(f"    {_describe_citation(citation)}" for citation in equation.cited)]
    cited = {citation.source.key: citation.source for equation in equations for citation in equation.cited if citation.source}
    show("\n".join([*lines, "", align_left([(key, str(source)) for key, source in cited.items()])] if cited else lines))
    return OK


# Without a source, all sources are shown.
def show_source(options: argparse.Namespace) -> int:
    sources_by_key = sources()
    if options.document:
        options.misuse("either a document or text, or --cites")
    if options.cites and options.cites not in sources_by_key:
        options.misuse(f"no source `{options.cites}`; there are {', '.join(sources_by_key)}")
    if not options.cites:
        return _show_all(options)
    rows = sorted(citations.find_following(options.cites), key=lambda row: row[0].place)
    if options.json:
        show_json([_to_data(equation) for _, equation in rows])
        return OK
    forms = citations.group_alike(equation for _, equation in rows)
    counts = f"{len(rows)} equations, {len(forms)} that differ in more than axes"
    lines = [f"{options.cites}: {sources_by_key[options.cites]}", counts]
    for citation, group in itertools.groupby(rows, lambda row: row[0]):
        lines += ["", _describe_citation(citation)]
        for same in citations.group_alike(equation for _, equation in group):
            lines += [f"  {same[0].says}", f"    {' '.join(dict.fromkeys(equation.text for equation in same))}"]
    show("\n".join(lines))
    return OK


def _show_all(options: argparse.Namespace) -> int:
    cited = [(citation.source.key, row.text) for row in citations.shipped() for citation in row.cited if citation.source]
    equations, named = Counter(key for key, _ in cited), Counter(key for key, _ in set(cited))
    if options.json:
        show_json(
            [_describe_source(source) | {"texts": named[key], "equations": equations[key]} for key, source in sources().items()]
        )
    else:
        rows = [(key, str(named[key]), str(equations[key]), str(source)) for key, source in sources().items()]
        show(align_left([("source", "texts", "equations", ""), *rows]))
    return OK


def _describe_citation(citation: Citation) -> str:
    return f"{citation.words}: {citation.there}" if citation.there else citation.words


def _describe_source(source: Publication) -> dict[str, object]:
    return {name: getattr(source, name) for name in ("key", "author", "year", "title", "url")}


def _to_data(equation: Noted) -> dict[str, object]:
    cited = [
        {"note": citation.words, "place": citation.place, "there": citation.there}
        | {"source": citation.source and _describe_source(citation.source)}
        for citation in equation.cited
    ]
    span = equation.equation.span
    place = {"text": equation.text, "layer": equation.layer, "file": span.source.name, "line": span.line}
    return place | {"equation": equation.says, "note": equation.note, "cited": cited}
