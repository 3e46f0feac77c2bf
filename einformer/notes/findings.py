"""Prints findings as text, as JSON, as annotations of GitHub, and as SARIF."""

from __future__ import annotations

import os
import pathlib
import urllib.parse
from collections.abc import Callable, Iterable, Sequence

from einformer.errors import NOWHERE, Finding, Span, catalogue, printable
from einformer.notes.checking import Checked

COMMENTS = {".tex": "% {}", ".typ": "// {}", ".rst": ".. {}", ".py": "# {}"}
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


# In a notebook the place is in a cell. Its name begins with the name of the file.
def _file_of(name: str) -> str:
    return name.partition(":cell ")[0]


def _is_placed(finding: Finding) -> bool:
    return finding.span.source is not NOWHERE.source


# Each finding has its line, a caret and a fix; a summary of each file follows.
def text(checked: Sequence[Checked]) -> str:
    findings = [str(finding) for result in checked for finding in result.findings]
    return "\n\n".join([*findings, "\n".join(map(summary, checked))])


# Counts equations, those that are read, and the reasons why the others are not.
def summary(checked: Checked) -> str:
    counts = checked.counts()
    total, read = sum(counts.values()) - counts["no indices"], counts[""]
    number = len(checked.findings)
    verdict = f"{number} finding{'s' * (number != 1)}" if number else "nothing found"
    equations = [f"{read} of {total} equation{'s' * (total != 1)} read"] if total or not checked.names else []
    names = [f"{checked.names} name{'s' * (checked.names != 1)} with axes"] if checked.names else []
    head = f"{printable(checked.source.name)}  {'; '.join([verdict, *equations, *names])}"
    reasons = [(reason, count) for reason, count in counts.most_common() if reason not in ("", "no indices")]
    lines = [head, *(f"  {count:4} skipped: {reason}" for reason, count in reasons)]
    if checked.proposal:
        comment = COMMENTS.get(pathlib.PurePath(checked.source.name).suffix.lower(), "<!-- {} -->")
        lines += ["  a legend to correct and paste:", f"    {comment.format(f'einformer: axes {checked.proposal}')}"]
    return "\n".join(lines)


def data(checked: Sequence[Checked]) -> dict[str, object]:
    files = [
        {
            "file": result.source.name,
            "findings": len(result.findings),
            "equations": len(result.verdicts),
            "read": result.counts()[""],
            "names": result.names,
            "legend": result.proposal,
            "skipped": {reason: count for reason, count in result.counts().items() if reason},
        }
        for result in checked
    ]
    findings = [(result, finding) for result in checked for finding in result.findings]
    files_of = ({} if _is_placed(finding) else {"file": result.source.name} for result, finding in findings)
    return {
        "files": files,
        "findings": [finding.as_data() | file for (_, finding), file in zip(findings, files_of, strict=True)],
    }


# GitHub shows such a line beside the code.
def github(checked: Sequence[Checked]) -> str:
    return "\n".join(_annotate(result.source.name, finding) for result in checked for finding in result.findings)


def _annotate(name: str, finding: Finding) -> str:
    span, end = finding.span, finding.span.after
    where = f",line={span.line},col={span.column},endLine={end.line},endColumn={end.column}" if _is_placed(finding) else ""
    message = f"{finding.message}; write {finding.fix}" if finding.fix else finding.message
    return f"::error file={_escape_property(_file_of(name))}{where},title={finding.code}::{_escape(message)}"


def _escape(value: str) -> str:
    return value.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(value: str) -> str:
    return _escape(value).replace(":", "%3A").replace(",", "%2C")


# SARIF 2.1.0 is the format in which tools exchange findings.
def sarif(checked: Sequence[Checked]) -> dict[str, object]:
    from importlib import metadata  # slow to import, and needed here only

    codes_found = sorted(codes(checked))
    descriptions = [catalogue()[code] for code in codes_found]
    rules = [
        {
            "id": rule.code,
            "shortDescription": {"text": rule.title},
            "fullDescription": {"text": rule.rule},
            "help": {"text": rule.why},
        }
        for rule in descriptions
    ]
    driver = {"name": "einformer", "version": metadata.version("einformer"), "rules": rules}
    results = [_describe(result.source.name, finding, codes_found) for result in checked for finding in result.findings]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _describe(name: str, finding: Finding, codes_found: Sequence[str]) -> dict[str, object]:
    place: dict[str, object] = {"artifactLocation": {"uri": _uri_of(_file_of(name))}}
    if _is_placed(finding):
        place["region"] = _region_of(finding.span)
    message = f"{finding.message}. Write {finding.fix}" if finding.fix else finding.message
    return {
        "ruleId": finding.code,
        "ruleIndex": codes_found.index(finding.code),
        "level": "error",
        "message": {"text": message},
        "locations": [{"physicalLocation": place}],
    }


def _region_of(span: Span) -> dict[str, int]:
    end = span.after
    return {"startLine": span.line, "startColumn": span.column, "endLine": end.line, "endColumn": end.column}


# A path relative to the working folder if the file is inside it, else to the root.
def _uri_of(name: str) -> str:
    path = pathlib.Path(name)
    if path.is_absolute():
        here = pathlib.Path.cwd()
        if not path.is_relative_to(here):
            return path.as_uri()
        path = path.relative_to(here)
    return urllib.parse.quote(os.fsencode(path.as_posix()))


FORMATS: dict[str, Callable[[Sequence[Checked]], object]] = {"text": text, "json": data, "sarif": sarif, "github": github}


def codes(checked: Iterable[Checked]) -> set[str]:
    return {finding.code for result in checked for finding in result.findings}
