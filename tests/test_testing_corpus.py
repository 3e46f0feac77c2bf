"""Do the tools refuse what people get wrong, each by the check that is named, and nothing that is right?"""

from __future__ import annotations

from pathlib import Path

import pytest

import einformer as ein
from einformer.testing.mistakes import MISTAKES
from tests.commands import lint_file
from tests.slips_of_programs import SLIPS
from tests.wrong_programs import CHECKS, FOLDER, Slip, program, right

# Of the runs of `assert_implements`, the properties, contracts under a probe, and the source check.
CODES = {"E901", "E903", "E904", "E906"} | {"E911", "E912", "E913", "E914"} | {"E720"} | {"E772", "E775"}
QUICK = ("suffixed", "norms", "gated", "interleaved", "cached", "masks", "static_cache")  # slips that are refused quickly


@pytest.mark.parametrize("name", CHECKS)
def test_a_right_program_passes(name: str) -> None:
    file, check = CHECKS[name]
    check(right(file))


@pytest.mark.parametrize("path", sorted(FOLDER.glob("[a-z]*.py")), ids=lambda path: path.stem)
def test_the_source_check_says_nothing_of_a_right_program(path: Path) -> None:
    assert lint_file(str(path)).codes == []


@pytest.mark.parametrize(
    "slip", [pytest.param(slip, marks=() if slip.file in QUICK else pytest.mark.slow, id=slip.name) for slip in SLIPS]
)
def test_a_wrong_program_is_refused(slip: Slip) -> None:
    module = program(slip.file, slip.text)
    for name, code in slip.caught:
        file, check = CHECKS[name]
        assert file == slip.file
        with pytest.raises(ein.EinformerError) as refused:
            check(module)
        finding = refused.value.findings[0]
        assert finding.code == code, str(finding)
        if code == "E903":
            assert slip.says in next(iter(finding.facts)), str(finding)


def test_every_program_is_checked_and_goes_wrong() -> None:
    files = {path.stem for path in FOLDER.glob("[a-z]*.py")}
    assert {file for file, _ in CHECKS.values()} == files == {slip.file for slip in SLIPS}


def test_every_tool_refuses_something() -> None:
    assert {code for slip in SLIPS for _, code in slip.caught} == CODES
    assert {name for slip in SLIPS for name, _ in slip.caught} <= set(CHECKS)
    assert len({slip.name for slip in SLIPS}) == len(SLIPS) >= 80


def test_every_known_mistake_explains_a_wrong_program() -> None:
    said = {slip.says for slip in SLIPS if slip.says}
    assert [mistake.says for mistake in MISTAKES if not any(part in mistake.says for part in said)] == []
