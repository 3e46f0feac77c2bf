"""What does `einformer notes` show of texts? Which document each equation follows, and which equations follow a document."""

from __future__ import annotations

import argparse
import itertools
from collections import Counter

from einformer import targets
from einformer.cli.screen import listed, show, show_json
from einformer.notes import citations, shelf
from einformer.notes.citations import Citation, Noted
from einformer.notes.sources import Source, sources

OK = 0


def show_text(options: argparse.Namespace) -> int:
    """The equations of a text, the note that each stands under, and what stands there."""
    source = shelf.read(options.document)
    found = list(citations.find_noted(targets.parse(source.text, source.name).written, source.name.removesuffix(".ein")))
    if options.json:
        show_json([_data(each) for each in found])
        return OK
    under = sum(bool(each.cited) for each in found)
    lines = [f"{source.name}: {len(found)} equations, {under} under a note"]
    for layer, group in itertools.groupby(found, lambda each: each.layer):
        lines += ["", layer]
        for each in group:
            lines += [f"  {each.says}", *(f"    {_said(citation)}" for citation in each.cited)]
    cited = {citation.source.key: citation.source for each in found for citation in each.cited if citation.source}
    show("\n".join([*lines, "", listed([(key, str(source)) for key, source in cited.items()])] if cited else lines))
    return OK


def show_source(options: argparse.Namespace) -> int:
    """The equations of the shipped texts that follow a source, by the place in it; or all sources."""
    known = sources()
    if options.document:
        options.misuse("either a document or text, or --cites")
    if options.cites and options.cites not in known:
        options.misuse(f"no source `{options.cites}`; there are {', '.join(known)}")
    if not options.cites:
        return _show_all(options)
    rows = sorted(citations.find_following(options.cites), key=lambda row: row[0].place)
    if options.json:
        show_json([_data(each) for _, each in rows])
        return OK
    forms = citations.group_alike(each for _, each in rows)
    counts = f"{len(rows)} equations, {len(forms)} that differ in more than axes"
    lines = [f"{options.cites}: {known[options.cites]}", counts]
    for citation, group in itertools.groupby(rows, lambda row: row[0]):
        lines += ["", _said(citation)]
        for same in citations.group_alike(each for _, each in group):
            lines += [f"  {same[0].says}", f"    {' '.join(dict.fromkeys(each.text for each in same))}"]
    show("\n".join(lines))
    return OK


def _show_all(options: argparse.Namespace) -> int:
    """Every source, in how many texts it is named, and beside how many equations."""
    cited = [(citation.source.key, each) for each in citations.shipped() for citation in each.cited if citation.source]
    equations, named = Counter(key for key, _ in cited), Counter(key for key, _ in {(key, each.text) for key, each in cited})
    if options.json:
        show_json([_about(source) | {"texts": named[key], "equations": equations[key]} for key, source in sources().items()])
    else:
        rows = [(key, str(named[key]), str(equations[key]), str(source)) for key, source in sources().items()]
        show(listed([("source", "texts", "equations", ""), *rows]))
    return OK


def _said(citation: Citation) -> str:
    return f"{citation.words}: {citation.there}" if citation.there else citation.words


def _about(source: Source) -> dict[str, object]:
    return {name: getattr(source, name) for name in ("key", "author", "year", "title", "url")}


def _data(each: Noted) -> dict[str, object]:
    """For `--json`."""
    cited = [
        {"note": citation.words, "place": citation.place, "there": citation.there}
        | {"source": citation.source and _about(citation.source)}
        for citation in each.cited
    ]
    span = each.equation.span
    place = {"text": each.text, "layer": each.layer, "file": span.source.name, "line": span.line}
    return place | {"equation": each.says, "note": each.note, "cited": cited}
