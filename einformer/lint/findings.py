"""How are findings told: to a person, to a program, to a site that shows code?"""

from __future__ import annotations

import pathlib
import urllib.parse
from collections.abc import Callable, Iterable, Sequence

from einformer.errors import NOWHERE, Finding, Span, catalogue
from einformer.lint.documents import Checked

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def _file(name: str) -> str:
    """The file of a place. Of a notebook the place is in a cell, which the file's name precedes."""
    return name.partition(":cell ")[0]


def _is_placed(finding: Finding) -> bool:
    """Has it a place in its file? What cannot be read has none."""
    return finding.span.source is not NOWHERE.source


def _end(span: Span) -> Span:
    """Where a place ends."""
    return Span(span.source, max(span.end, span.start + 1), span.end)


def text(checked: Sequence[Checked]) -> str:
    """Each finding with its line, a caret and what to write, then what was read of each file."""
    findings = [str(finding) for each in checked for finding in each.findings]
    return "\n\n".join([*findings, "\n".join(map(summary, checked))])


def summary(checked: Checked) -> str:
    """How many equations a file has (those without a subscript apart), how many are read, and why the others are not."""
    counts = checked.counts()
    total, read = sum(counts.values()) - counts["no indices"], counts[""]
    found = len(checked.findings)
    said = f"{found} finding{'s' * (found != 1)}" if found else "nothing found"
    equations = [f"{read} of {total} equation{'s' * (total != 1)} read"] if total or not checked.names else []
    names = [f"{checked.names} name{'s' * (checked.names != 1)} with axes"] if checked.names else []
    head = f"{checked.source.name}  {'; '.join([said, *equations, *names])}"
    reasons = [(reason, count) for reason, count in counts.most_common() if reason not in ("", "no indices")]
    return "\n".join([head, *(f"  {count:4} skipped: {reason}" for reason, count in reasons)])


def data(checked: Sequence[Checked]) -> dict[str, object]:
    """What `--json` prints."""
    files = [
        {
            "file": each.source.name,
            "findings": len(each.findings),
            "equations": len(each.verdicts),
            "read": each.counts()[""],
            "names": each.names,
            "skipped": {reason: count for reason, count in each.counts().items() if reason},
        }
        for each in checked
    ]
    findings = [(each, finding) for each in checked for finding in each.findings]
    files_of = ({} if _is_placed(finding) else {"file": each.source.name} for each, finding in findings)
    return {
        "files": files,
        "findings": [finding.as_data() | file for (_, finding), file in zip(findings, files_of, strict=True)],
    }


def github(checked: Sequence[Checked]) -> str:
    """A line for each finding, which GitHub shows beside the code."""
    return "\n".join(_annotation(each.source.name, finding) for each in checked for finding in each.findings)


def _annotation(name: str, finding: Finding) -> str:
    span, end = finding.span, _end(finding.span)
    where = f",line={span.line},col={span.column},endLine={end.line},endColumn={end.column}" if _is_placed(finding) else ""
    said = f"{finding.message}; write {finding.fix}" if finding.fix else finding.message
    return f"::error file={_property(_file(name))}{where},title={finding.code}::{_escaped(said)}"


def _escaped(said: str) -> str:
    return said.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(said: str) -> str:
    return _escaped(said).replace(":", "%3A").replace(",", "%2C")


def sarif(checked: Sequence[Checked]) -> dict[str, object]:
    """The findings in the format in which tools exchange them, SARIF 2.1.0."""
    from importlib import metadata  # slow to import, and needed here only

    codes_found = sorted(codes(checked))
    told = [catalogue()[code] for code in codes_found]
    rules = [
        {
            "id": rule.code,
            "shortDescription": {"text": rule.title},
            "fullDescription": {"text": rule.rule},
            "help": {"text": rule.why},
        }
        for rule in told
    ]
    driver = {"name": "einformer", "version": metadata.version("einformer"), "rules": rules}
    results = [_result(each.source.name, finding, codes_found) for each in checked for finding in each.findings]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _result(name: str, finding: Finding, codes_found: Sequence[str]) -> dict[str, object]:
    place: dict[str, object] = {"artifactLocation": {"uri": _uri(_file(name))}}
    if _is_placed(finding):
        place["region"] = _region(finding.span)
    said = f"{finding.message}. Write {finding.fix}" if finding.fix else finding.message
    return {
        "ruleId": finding.code,
        "ruleIndex": codes_found.index(finding.code),
        "level": "error",
        "message": {"text": said},
        "locations": [{"physicalLocation": place}],
    }


def _region(span: Span) -> dict[str, int]:
    end = _end(span)
    return {"startLine": span.line, "startColumn": span.column, "endLine": end.line, "endColumn": end.column}


def _uri(name: str) -> str:
    """A file as a reference from here, or from the root where it is elsewhere."""
    path = pathlib.Path(name)
    if path.is_absolute():
        here = pathlib.Path.cwd()
        if not path.is_relative_to(here):
            return path.as_uri()
        path = path.relative_to(here)
    return urllib.parse.quote(path.as_posix())


FORMATS: dict[str, Callable[[Sequence[Checked]], object]] = {"text": text, "json": data, "sarif": sarif, "github": github}


def codes(checked: Iterable[Checked]) -> set[str]:
    """The codes of all findings."""
    return {finding.code for each in checked for finding in each.findings}
