"""Does a section's own use of its letters show a slip, where nothing is defined and words say the rest?"""

from __future__ import annotations

import pytest

from tests.commands import LETTERS, Found, lint


def findings(text: str) -> tuple[Found, ...]:
    return lint(text, legend=LETTERS).findings


def told(text: str) -> list[tuple[str, str]]:
    """Each finding with the characters it points at."""
    return [(f.code, f.text) for f in findings(text)]


# ----------------------------------------------------------------------------------- tensors that nothing defines

PROJECTED = "$q_{bsea} = x_{bsd} W_{dea}$ and $p_{bsfa} = g_{bsea} U_{fea}$. "
SCALED = "$r_{bsea} = q_{bsea} %s$"


def test_a_tensor_that_is_never_defined_keeps_its_slots() -> None:
    text = PROJECTED + "Then $h_{bsea} = g_{bsea} x_{bsd} W_{de}$."
    assert told(text) == [("E304", "W_{de}")]
    assert findings(text)[0].facts == ("defined as `W_dea` (note.md:1)",)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("$y_{su} = Z_{sxu}$, $v_{sx} = n_{xu} y_{su}$", True),
        ("$Z_{sxu}$ is another", False),
        ("$y_{su} = Z_{su}$", False),
    ],
)
def test_a_tensor_has_the_slots_of_the_shape_that_is_stated(text: str, wrong: bool) -> None:
    assert told(f"Weights $Z_{{su}}$ of shape `(S, U)`. {text}, $n_{{xu}} y_{{su}}$") == [("E304", "Z_{sxu}")] * wrong


def test_what_is_rebound_keeps_its_slots() -> None:
    text = "$r_{bsga} = d_{bs} B_{ga}$, then $r_{bsga} \\leftarrow r_{bsg} + \\tanh(r_{bsga})$, $u_{bsga} = r_{bsga} d_{bs}$"
    assert told(text) == [("E304", "r_{bsg}")]


def test_the_usual_form_is_that_of_most_uses() -> None:
    text = "First $h_{bsea} = g_{bsea} x_{bsd} W_{de}$. " + PROJECTED + "$c_{bsda} = g_{bsea} W_{dea}$."
    assert told(text) == [("E304", "W_{de}")]


def test_letters_keep_their_order_where_nothing_defines_it() -> None:
    text = PROJECTED + "$c_{bs'ea} = x_{bs'd} W_{dae}$"
    assert told(text) == []
    sized = lint(text, legend=LETTERS | {"a": "A", "e": "E"}).findings
    assert [(finding.code, finding.text) for finding in sized] == [("E307", "a")]


USED = {
    "twice": PROJECTED + "$c_{bsda} = g_{bsea} W_{dea}$, $h_{bsea} = g_{bsea} x_{bsd} W_{de}$ and $b_{bsda} = g_{bsea} W_{de}$",
    "as its author says": PROJECTED + "Shared among heads, $W_{de}$: $h_{bsea} = g_{bsea} x_{bsd} W_{de}$",
    "in another section": PROJECTED + "\n\n## Next\n\n$h_{bsea} = g_{bsea} x_{bsd} W_{de}$",
    "without an index that nobody has": PROJECTED + "$c_{bse} = x_{bsd} W_{de}$",
    "with more than before": "$h_{bsea} = g_{bsea} x_{bsd} W_{de}$. " + PROJECTED,
    "with another index": PROJECTED + "$h_{bsea} = g_{bsea} x_{bsd} W_{df} n_{fbs}$",
    "of two with a number each": "Let $f \\in \\{1, \\dots, D\\}$, $e \\in \\{1, \\dots, F\\}$. "
    "$u_{te} = h_{tf} W_{1fe}$, $g_{tf} = u_{te} W_{2ef}$",
    "as a row": PROJECTED + "$n_e = t_{ea} s_a$, $c_{bsea} = g_{bsea} t_e$",
    "as a sum of itself": "$A_{cla} = d_{cl} B_{la}$, $A_{ca} = \\sum_l A_{cla}$, $U_{cla} = \\exp(A_{cla} - A_{ca})$",
    "weighed by another": "$A_{cla} = d_{cl} B_{la}$, $A_{ca} = A_{cla} f_l$ and $U_{cla} = A_{ca} B_{la}$",
}


@pytest.mark.parametrize("case", USED)
def test_what_may_be_meant_is_no_finding(case: str) -> None:
    assert findings(USED[case]) == ()


# ------------------------------------------------------------------------------------------------------- conditions

WEIGHTS = "A causal model: $w_{ss'} = \\mathrm{Sm}_{s'}(q_{se} k_{s'e} + m_{ss'})$, so that $w_{ss'} = 0%s"


@pytest.mark.parametrize(
    ("condition", "wrong"),
    [
        ("$ for $s > s'$", True),
        ("$ if $s' \\leq s$", True),
        ("$, for all $s' < s$", True),
        (" \\quad \\text{for } s > s'$", True),
        ("$ for $s' > s$", False),
        ("$ whenever $s < s'$", False),
        ("$ for $s > 3$", False),
        ("$ for $s > t$", False),
        ("$ unless $s > s'$", False),
        ("$ somewhere", False),
    ],
)
def test_weights_vanish_on_the_future(condition: str, wrong: bool) -> None:
    assert told(WEIGHTS % condition) == ([("E501", "w_{ss'}")] if wrong else [])


def test_nothing_need_vanish_where_nothing_is_said_to_be_causal() -> None:
    assert told((WEIGHTS % "$ for $s > s'$").replace("A causal", "Any")) == []


# ------------------------------------------------------------------------------------------------------------ sizes

HEADS = "$z_{bsd}$ of shape `(B, S, D)`; $a \\in \\{0, \\dots, A-1\\}$ and $e \\in \\{0, \\dots, %s\\}$. "
MERGED = "$u_{bsd} = y_{bs(ae)}$ and $z_{bsd} = u_{bsd'} O_{d'd}$, of $y_{bsea} = z_{bsd} V_{dea}$."


@pytest.mark.parametrize(("last", "wrong"), [("D/A - 1", False), ("D/A", True), ("2 D/A - 1", True), ("E - 1", False)])
def test_a_range_that_includes_its_end_has_one_more(last: str, wrong: bool) -> None:
    found = findings(HEADS % last + MERGED)
    assert [finding.code for finding in found] == ["E308"] * wrong
    assert not wrong or any(fact.startswith("e: ") for fact in found[0].facts)


# ----------------------------------------------------------------------------------------- what is said again


def test_a_formula_that_is_said_again_has_a_place_of_its_own() -> None:
    wrong = "$x_{bd} y_{be} = z_b$"
    found = findings(f"# One\n\n{wrong}\n\n# Two\n\nAnd {wrong}, $u_{{bd}} v_{{be}} = x_{{bd}} z_{{be}}$\n")
    assert [(finding.line, finding.column) for finding in found] == [(3, 18), (7, 22)]
