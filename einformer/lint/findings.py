"""How are findings told: to a person, to a program, to a site that shows code?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from einformer.errors import Finding, Span, catalogue
from einformer.lint.documents import Checked

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def _file(span: Span) -> tuple[str, int, int]:
    """The file of a place, its line and column. Of a notebook the place is in a cell, which the file's name precedes."""
    return span.source.name.partition(":cell ")[0], span.line, span.column


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
    return {"files": files, "findings": [finding.as_data() for each in checked for finding in each.findings]}


def github(checked: Sequence[Checked]) -> str:
    """A line for each finding, which GitHub shows beside the code."""
    return "\n".join(_annotation(finding) for each in checked for finding in each.findings)


def _annotation(finding: Finding) -> str:
    file, line, column = _file(finding.span)
    said = f"{finding.message}; write {finding.fix}" if finding.fix else finding.message
    return f"::error file={_property(file)},line={line},col={column},title={finding.code}::{_escaped(said)}"


def _escaped(said: str) -> str:
    return said.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(said: str) -> str:
    return _escaped(said).replace(":", "%3A").replace(",", "%2C")


def sarif(checked: Sequence[Checked]) -> dict[str, object]:
    """The findings in the format in which tools exchange them, SARIF 2.1.0."""
    findings = [finding for each in checked for finding in each.findings]
    rules = [catalogue()[code] for code in sorted({finding.code for finding in findings})]
    told = [
        {"id": rule.code, "name": rule.title, "shortDescription": {"text": rule.rule}, "fullDescription": {"text": rule.why}}
        for rule in rules
    ]
    driver = {"name": "einformer", "rules": told}
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": list(map(_result, findings))}],
    }


def _result(finding: Finding) -> dict[str, object]:
    file, line, column = _file(finding.span)
    region = {"startLine": line, "startColumn": column, "endColumn": column + max(1, finding.span.end - finding.span.start)}
    place = {"physicalLocation": {"artifactLocation": {"uri": file}, "region": region}}
    said = f"{finding.message}. Write {finding.fix}" if finding.fix else finding.message
    return {"ruleId": finding.code, "level": "error", "message": {"text": said}, "locations": [place]}


FORMATS: dict[str, Callable[[Sequence[Checked]], object]] = {"text": text, "json": data, "sarif": sarif, "github": github}


def codes(checked: Iterable[Checked]) -> set[str]:
    """The codes of all findings."""
    return {finding.code for each in checked for finding in each.findings}
