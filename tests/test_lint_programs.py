"""Is what other programs read of the linter as their formats have it: SARIF, GitHub's lines, pre-commit?"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from einformer.cli import main
from einformer.notes.files import CHECKERS

WRONG = "<!-- einformer: axes b s d e a --> 𝐀 é and k̂: $k_{bse} = z_{bsd} K_{dea}$, $q_{bsea} = z_{bsd} Q_{dea}$\n"
ROWS = """<!-- einformer: axes b s d e a --> $$k_{bse} = z_{bsd}
  g_{bsd} + z_{bsd} K_{dea}$$

$q_{bsea} = z_{bsd} Q_{dea}$, $$x_{bs} = \\frac{q_{bsea}
}{w_{bsd}}$$
"""


Lint = Callable[..., str]


@pytest.fixture
def lint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Lint:
    """The command in a folder of its own, below which there are files with findings; what it prints."""
    monkeypatch.chdir(tmp_path)
    Path("a b").mkdir()
    Path("a b/é#1.md").write_text(WRONG, encoding="utf-8")
    Path("rows.md").write_text(ROWS, encoding="utf-8")

    def run(*arguments: str) -> str:
        main(["lint", *arguments])
        return capsys.readouterr().out

    return run


def is_region(region: dict[str, int], lines: list[str]) -> bool:
    """Do its ends lie in the text, the second after the first? Columns count characters, from 1; the last is not in it."""
    start, end = ((region[f"{which}Line"], region[f"{which}Column"]) for which in ("start", "end"))
    return start < end and all(
        1 <= line <= len(lines) and 1 <= column <= len(lines[line - 1]) + 1 for line, column in (start, end)
    )


def test_sarif_is_as_the_standard_has_it(lint: Lint, tmp_path: Path) -> None:
    """Sections 3.13 to 3.49 of SARIF 2.1.0: what must be there, and that what refers to something refers to what is there."""
    log: dict[str, Any] = json.loads(lint(".", "none.md", str(tmp_path / "rows.md"), "--format", "sarif"))
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert run["tool"]["driver"]["name"] == "einformer"
    assert run["columnKind"] == "unicodeCodePoints"
    assert len({rule["id"] for rule in rules}) == len(rules)
    assert all(rule[part]["text"] for rule in rules for part in ("shortDescription", "fullDescription", "help"))
    assert run["results"]
    for result in run["results"]:
        (location,) = result["locations"]
        place = location["physicalLocation"]
        uri = urlsplit(place["artifactLocation"]["uri"])
        assert re.fullmatch(r"[A-Za-z0-9/._~%-]+", uri.path)
        assert (uri.scheme, uri.netloc, uri.query, uri.fragment) == ("", "", "", "")
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["message"]["text"]
        assert result["level"] in ("none", "note", "warning", "error")
        path = Path(unquote(uri.path))
        assert path.is_file() == ("region" in place) == (result["ruleId"] != "E802")
        assert "region" not in place or is_region(place["region"], path.read_text(encoding="utf-8").split("\n"))


def test_columns_of_sarif_count_characters(lint: Lint) -> None:
    (result,) = json.loads(lint("a b", "--format", "sarif"))["runs"][0]["results"]
    region = result["locations"][0]["physicalLocation"]["region"]
    assert WRONG[region["startColumn"] - 1 : region["endColumn"] - 1] == "a"


def test_what_lies_elsewhere_has_a_whole_uri(lint: Lint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path / "a b")
    results = json.loads(lint(str(tmp_path / "rows.md"), "--format", "sarif"))["runs"][0]["results"]
    uris = {result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for result in results}
    assert uris == {(tmp_path / "rows.md").as_uri()}


def test_lines_of_github(lint: Lint) -> None:
    lines = lint(".", "none.md", "--format", "github").splitlines()
    pattern = r"::error file=[^,:]+(,line=\d+,col=\d+,endLine=\d+,endColumn=\d+)?,title=E\d{3}::\S[^\r\n]*"
    assert len(lines) >= 4
    assert all(re.fullmatch(pattern, line) for line in lines)
    assert lines[-1].startswith("::error file=none.md,title=E802::")


def test_a_file_that_cannot_be_read_is_named(lint: Lint) -> None:
    assert [finding["file"] for finding in json.loads(lint("none.md", "--json"))["findings"]] == ["none.md"]


def test_the_hook_of_pre_commit(lint: Lint) -> None:
    """Its entry, run by hand as pre-commit does: with the names of the files that its pattern takes."""
    hook = (Path(__file__).parents[1] / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
    fields = dict(re.findall(r"^(?:- |  )(\w+): (.*)$", hook, re.MULTILINE))
    assert {suffix for suffix in CHECKERS if not re.search(fields["files"], f"a{suffix}")} == {".txt"}
    entry = fields["entry"].split()
    command = shutil.which(entry[0], path=str(Path(sys.executable).parent)) or entry[0]
    done = subprocess.run([command, *entry[1:], "rows.md"], capture_output=True, text=True, encoding="utf-8")
    assert (done.returncode, done.stdout[:4]) == (1, "E301")
