"""Are printed equations wrong for the reason that the errata give? Argued by hand, by NumPy, and by exchanging the forms."""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from einformer import EinformerError
from einformer.cli import main
from einformer.notes import errata as notes
from einformer.notes.equality import Setting, holds
from einformer.notes.errata import Erratum, ErratumVerdict, judge
from tests.examples import make_page

ROOT = Path(__file__).parents[1]
ERRATA = {erratum.id: erratum for erratum in notes.errata()}
CHECKED = [erratum for erratum in ERRATA.values() if erratum.check]
EXAMPLE = json.loads((ROOT / "tests" / "data" / "s004.json").read_text(encoding="utf-8"))


@functools.cache
def verdict(name: str) -> ErratumVerdict:
    return judge(ERRATA[name])


# -------------------------------------------------------------------------------------------------------- the table


def test_the_verdicts(golden: Callable[[str, str], None]) -> None:
    rows = ((name, verdict(name)) for name in ERRATA)
    table = [f"{name} | {v.erratum.kind} | {v.outcome} | {v.printed} | {v.corrected}" for name, v in rows]
    golden("errata.txt", "\n".join(table) + "\n")


@pytest.mark.parametrize(
    ("document", "count"), [("S000", 16), ("S001", 24), ("S002", 12), ("S003", 16), ("S004", 18), ("S005", 51)]
)
def test_every_row_is_there_once(document: str, count: int) -> None:
    rows = [erratum.id for erratum in notes.errata() if erratum.id.startswith(document)]
    assert rows == [f"{document}-E{n}" for n in range(1, count + 1)]


def test_a_row_has_a_check_or_says_why_not() -> None:
    assert [name for name, row in ERRATA.items() if bool(row.check) == bool(row.why)] == []


def test_only_prose_has_no_check() -> None:
    """Spelling, what is missing, two notations for one thing, a word for another one."""
    unchecked = {name: row.kind for name, row in ERRATA.items() if not row.check}
    assert set(unchecked.values()) == {"prose"}
    assert {name for name in unchecked if not name.startswith("S005")} == {
        "S000-E16", "S001-E24", "S002-E9", "S002-E11", "S003-E16", "S004-E12", "S004-E18"
    }  # fmt: skip


def test_each_check_demonstrates_its_row() -> None:
    assert {verdict(erratum.id).outcome for erratum in CHECKED} == {"demonstrated"}


# ------------------------------------------------------------------------------------------------- numbers of the page

NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:e-?\d+)?(?!\w)")
CELL = re.compile(r"(?<!\\) \| ")  # what stands between two cells


@pytest.fixture(scope="module")
def page() -> str:
    return make_page("errata")


def numbers(text: object) -> set[float]:
    return set(map(float, NUMBER.findall(str(text))))


def test_every_number_of_an_entry_is_computed(page: str) -> None:
    """Found just now, given to what was computed, or quoted from the document; places and numbers of entries apart."""
    rows = [CELL.split(line[2:-2]) for line in page.partition("## ")[0].split("\n") if '<span id="s0' in line]
    assert [name for _, name, *_ in rows] == [f'<span id="{name.lower()}">{name}</span>' for name in ERRATA]
    strange = dict[str, set[float]]()
    for name, (outcome, _, says, printed, corrected, *_) in zip(ERRATA, rows, strict=True):
        row, shown = ERRATA[name], verdict(name)
        known = numbers(row.about) | numbers(shown.printed) | numbers(shown.corrected) | numbers(row.printed)
        strange[name] = numbers([says, printed, corrected]) - known
        assert outcome == shown.outcome
        assert [cell.partition("<br>")[2] for cell in (printed, corrected)] == [shown.printed, shown.corrected]
    assert [f"{name}: {sorted(each)}" for name, each in strange.items() if each] == []


def test_every_number_beside_the_entries_is_computed(page: str) -> None:
    """How many rows there are, and the worked example, by NumPy."""
    head = page.partition("| verdict")[0]
    checked = sum(bool(row.check) for row in ERRATA.values())
    assert numbers(head) == {len(ERRATA), checked, len(ERRATA) - checked}
    q, k, v = (np.array(EXAMPLE[name]) for name in "qkv")
    computed = set[float]()
    for scores in (k @ q, k @ q / np.sqrt(2)):
        weights = np.exp(scores) / np.exp(scores).sum()
        computed |= {round(float(number), 4) for number in (*scores, *weights, *(weights @ v))}
    rows = [line.split(" | ") for line in page.partition("## The worked example")[2].split("\n") if line.startswith("| ")]
    assert len(rows) == 5
    assert {number for row in rows for cell in row[2:] for number in numbers(cell)} == computed


# -------------------------------------------------------------------------------------------- checks that can say no


def exchanged(erratum: Erratum) -> Erratum:
    """The row with the corrected form printed, and the printed one as its correction."""
    other = {"printed": "corrected", "corrected": "printed"}
    about = {other.get(key, key): list(reversed(x)) if key in ("lines", "claim", "code") and isinstance(x, list) else x
             for key, x in erratum.about.items()}  # fmt: skip
    return replace(erratum, printed=erratum.corrected, corrected=erratum.printed, about=about)


@pytest.mark.parametrize("erratum", CHECKED, ids=lambda erratum: erratum.id)
def test_a_row_whose_forms_are_exchanged_is_not_demonstrated(erratum: Erratum) -> None:
    assert judge(exchanged(erratum)).outcome == "not demonstrated"


@pytest.mark.parametrize("erratum", CHECKED, ids=lambda erratum: erratum.id)
def test_a_row_that_prints_what_is_right_is_not_demonstrated(erratum: Erratum) -> None:
    right = {key: x[1] if key in ("lines", "claim", "code") and isinstance(x, list) else x for key, x in erratum.about.items()}
    if erratum.check == "claim":
        right["printed"] = right.get("corrected", {})
    assert judge(replace(erratum, printed=erratum.corrected, about=right)).outcome == "not demonstrated"


def test_a_corrected_form_must_be_read() -> None:
    """A star is a product to some and a convolution to others."""
    unread = replace(ERRATA["S001-E17"], corrected="$z_{bsd} = u_{bsd'} * O_{d'd}$")
    assert judge(unread).corrected == "not read: a star"
    assert judge(unread).outcome == "not demonstrated"


# ----------------------------------------------------------------------------------------------- what each row finds

# The code that refuses the printed form, by the sort of its mistake.
REFUSED = {
    "S000-E2": "E307", "S000-E3": "E307", "S000-E4": "E307", "S003-E14": "E307",  # an index over another axis
    "S000-E6": "E405",  # a sum over nothing
    "S000-E7": "E302", "S001-E9": "E302",  # an index of the left side only
    "S001-E10": "E304",  # fewer indices than before
    "S001-E11": "E305",  # an index twice
    "S001-E13": "E304",  # summed too early: the next line reads it with the index
    "S001-E17": "E301", "S003-E11": "E301",  # an index that occurs once
    "S002-E6": "E204", "S003-E9": "E204",  # a name that is not there
}  # fmt: skip

# What is right instead, from the list of errata.
DERIVED = {
    "S000-E15": "(N, U)", "S001-E4": "(V + K) D", "S001-E5": "4 D", "S001-E8": "(D / A)", "S001-E18": "(B, S)",
    "S001-E22": "(K, D)", "S002-E1": "2 N² D", "S002-E2": "4 N E D²", "S002-E3": "(M)", "S002-E4": "(M, M)",
    "S002-E12": "22 N D² + 4 N² D", "S003-E2": "(N, D / A)", "S003-E4": "(D, V)", "S003-E7": "(N, V)", "S003-E10": "(D, D)",
    "S004-E6": "16", "S004-E16": "20",
}  # fmt: skip

# By how much the printed form is off, by hand; and how near that a sample comes.
OFF = {
    "S000-E10": (2, 0.1),  # E(1 + q)² = 2, twice, less the mean: 3 for each of the Q products
    "S000-E13": (2 / 3, 0.1),  # 4 of 12
    "S000-E14": (1 / (math.e + 3), 0.01),
    "S001-E1": (16**2 - 1, 0.1),
    "S001-E21": (1 - 1 / 64, 0.01),
    "S002-E10": (15, 0.1),
    "S004-E17": (15, 0.1),
}


def off(name: str) -> float:
    found = re.fullmatch(r"off by (\S+)", verdict(name).printed)
    assert found, verdict(name).printed
    return float(found[1])


@pytest.mark.parametrize("name", REFUSED)
def test_the_printed_form_is_refused_for_its_mistake(name: str) -> None:
    assert verdict(name).printed.startswith(f"{REFUSED[name]}: ")


@pytest.mark.parametrize("name", DERIVED)
def test_the_printed_formula_should_be(name: str) -> None:
    assert verdict(name).printed == f"does not hold: {DERIVED[name]}"


@pytest.mark.parametrize("name", OFF)
def test_the_printed_value_is_off(name: str) -> None:
    value, relative = OFF[name]
    assert off(name) == pytest.approx(value, rel=relative)


def test_five_heads_do_not_divide_512() -> None:
    assert verdict("S003-E15").printed.endswith("102.4, which is not whole")


def test_a_norm_of_equal_numbers_is_not_a_number_without_epsilon() -> None:
    assert verdict("S001-E7").printed == "not a number"


def test_one_matrix_leaves_weights_asymmetric() -> None:
    """S000-E1 by NumPy: the difference of the weights and of their transposes."""
    random = np.random.default_rng(0)
    x, w = random.standard_normal((5, 4)), random.standard_normal((4, 3))
    scores = x @ w @ w.T @ x.T
    weights = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    assert off("S000-E1") == pytest.approx(np.abs(weights - weights.T).max(), rel=0.01)


def test_the_worked_example_in_both_versions() -> None:
    """S004-E1, E2, E3 by NumPy: with the scale the corrected numbers, off from the printed ones by what was found."""
    q, k, v = (np.array(EXAMPLE[name]) for name in "qkv")
    scaled = k @ q / np.sqrt(2)
    weights = np.exp(scaled) / np.exp(scaled).sum()
    right = {"S004-E3": scaled, "S004-E1": weights, "S004-E2": weights @ v}
    for name, value in right.items():
        row = ERRATA[name]
        assert [float(number) for number in row.corrected.split()] == pytest.approx(value.round(4))
        printed = np.array([float(number) for number in row.printed.split()])
        assert off(name) == pytest.approx(np.abs(value - printed).max(), rel=0.01)
        assert row.about["numbers"]["p"] == printed.tolist()
        assert row.about["numbers"]["k"] == EXAMPLE["k"]


def test_no_matrix_makes_the_keys() -> None:
    """S004-E4 by least squares: what no matrix reaches of the keys holds the combination that was found."""
    numbers = {name: np.array(value) for name, value in ERRATA["S004-E4"].about["numbers"].items()}
    x, k, c = numbers["x"], numbers["k"], numbers["c"]
    missed = k - x @ np.linalg.lstsq(x, k, rcond=None)[0]
    assert np.sqrt((missed**2).mean()) == pytest.approx(0.223, abs=0.001)
    assert np.abs(c @ x).max() < 1e-5
    assert off("S004-E4") == pytest.approx(np.abs(c @ missed).max(), rel=0.01)


# --------------------------------------------------------------------------------------------------------- equations

THREE = Setting("n: N = 3", "x_n", {"x": [1.0, 2.0, 3.0]})


@pytest.mark.parametrize(
    ("lines", "claim", "right", "said"),
    [
        ("y_n = 2 x_n", "y_n = x_n + x_n", True, "equal"),
        ("y_n = 2 x_n", "y_n = 3 x_n", False, "off by 3"),
        ("y_n = 2 x_n", "y_n != 3 x_n", True, "off by 3"),
        ("y_n = 2 x_n", "y_n != x_n + x_n", False, "equal"),
        ("y_n = 0 / (x_n - 1)", "y_n = 0", False, "not a number"),
        ("y_n = 0 / (x_n - 1)", "y_n != 0", False, "not a number"),
        ("y_n = x_n", "", True, "well formed"),
        ("y_n = x_m", "", False, "E201: `m` is no axis"),
    ],
)
def test_an_equation(lines: str, claim: str, right: bool, said: str) -> None:
    verdict, found = holds(THREE, lines, claim)
    assert verdict is right
    assert found.startswith(said.partition(":")[0])


def test_an_equation_within() -> None:
    assert holds(replace(THREE, within=3.0), "y_n = 2 x_n", "y_n = 3 x_n") == (True, "equal within 3")
    assert holds(replace(THREE, within=2.9), "y_n = 2 x_n", "y_n = 3 x_n") == (False, "off by 3")


def test_a_claim_without_a_tensor_is_a_mistake_of_the_row() -> None:
    with pytest.raises(EinformerError, match="E102"):
        holds(THREE, "y_n = 2 x_n", "2 = 2")


# ----------------------------------------------------------------------------------------------------- the command


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["errata"]) == 0
    out = capsys.readouterr().out
    assert "S001-E5   demonstrated  a block has two norms, and each has a scale and a bias" in out
    assert "          printed       2 D per layer → does not hold: 4 D" in out
    assert out.endswith("137 errata: 126 demonstrated, 11 no check\n")


def test_the_command_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["errata", "--json"]) == 0
    rows = {row["id"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows.keys() == ERRATA.keys()
    assert rows["S001-E8"]["found"] == {"printed": "does not hold: (D / A)", "corrected": "holds"}
    assert rows["S000-E16"]["found"] == {"why": "spelling has no value"}
    assert rows["S000-E16"]["verdict"] == "no check"


def test_the_cells_of_a_row_without_a_check() -> None:
    row = replace(ERRATA["S000-E16"], printed="$a$", corrected="$b$")
    cells = list(notes.rows([ErratumVerdict(row, "no check")]))
    assert cells[1:] == [("", "printed", "a"), ("", "corrected", "b"), ("", "why", "spelling has no value")]
