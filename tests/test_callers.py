"""Does a finding about positions or rows name the line that its author can mend, in that line's letters?"""

from __future__ import annotations

from typing import NamedTuple

import pytest

import einformer
from einformer import EinformerError
from einformer.errors import Finding

HEAD = "axes\n  b: B\n  s: S\n  d: D\n\nscalars\n  ε = 1e-5\n\n"
MEAN = "layer Mean_d(z_d) -> y_d:\n  return z_d - mean_d z_d\n\n"
TWICE = "layer Twice_d(z_d) -> y_d:\n  return ε z_d + Mean(z_d)\n\n"
OWN = "layer Own(z_bsd) -> y_bsd:\n  return ε z_bsd + "


class Told(NamedTuple):
    """A text in which one line is to be pointed at, what is underlined there, and what stands in the message and the facts."""

    layers: str
    code: str
    line: str
    underlined: str
    message: str
    called: tuple[str, ...] = ()


CASES = {
    "a layer of the library, over positions": Told(
        "", "E503", "ε RMSNorm_s(z_bsd)", "RMSNorm_s(z_bsd)", "`RMSNorm` runs over `s`",
        ("RMSNorm_d(z_d) -> z_d` (library.ein:",),
    ),
    "a layer of the library, over rows": Told(
        "", "E506", "ε LayerNorm_b(z_bsd)", "LayerNorm_b(z_bsd)", "a batch, `b`", ("LayerNorm_d(z_d) -> z_d` (library.ein:",)
    ),
    "a layer of the text, over positions": Told(
        MEAN, "E503", "ε Mean_s(z_bsd)", "Mean_s(z_bsd)", "`Mean` runs over `s`", ("Mean_d(z_d) -> y_d` (<text>:9)",)
    ),
    "a layer in a layer, over rows": Told(
        MEAN + TWICE, "E506", "Twice_b(z_bsd)", "Twice_b(z_bsd)", "a batch, `b`",
        ("Twice_d(z_d) -> y_d` (<text>:12)", "Mean_d(z_d) -> y_d` (<text>:9)"),
    ),
    "a layer in a layer, over positions": Told(
        MEAN + TWICE, "E503", "Twice_s(z_bsd)", "Twice_s(z_bsd)", "`Twice` runs over `s`",
        ("Twice_d(z_d) -> y_d` (<text>:12)", "Mean_d(z_d) -> y_d` (<text>:9)"),
    ),
    "a call in a layer that has the letter": Told(
        MEAN + OWN + "Mean_s(z_bsd)\n\n", "E503", "Own(z_bsd)", "Mean_s(z_bsd)", "`Mean` runs over `s`",
        ("Mean_d(z_d) -> y_d` (<text>:9)",),
    ),
    "a layer that has the letter itself": Told(
        OWN + "mean_b z_bsd\n\n", "E506", "Own(z_bsd)", "b", "a batch, `b`"
    ),
    "a layer that runs over positions itself": Told(
        OWN + "sum_s z_bsd\n\n", "E503", "Own(z_bsd)", "sum_s z_bsd", "`sum` runs over `s`"
    ),
}  # fmt: skip


def found(told: Told) -> Finding:
    """The one finding of a text."""
    model = f"model Model(z_bsd) -> y_bsd causal in s:\n  return {told.line}\n"
    with pytest.raises(EinformerError) as error:
        einformer.parse(HEAD + told.layers + model)
    (finding,) = error.value.findings
    return finding


@pytest.mark.parametrize("told", CASES.values(), ids=list(CASES))
def test_the_line_that_can_be_mended_is_told_in_its_own_letters(told: Told) -> None:
    finding = found(told)
    assert (finding.code, finding.span.text) == (told.code, told.underlined)
    assert told.message in finding.message
    letter, *called = finding.facts
    assert letter == ("b: B (<text>:2)" if told.code == "E506" else "s: S (<text>:3)")
    assert len(called) == len(told.called)
    assert all(fact.startswith("defined as ") and there in fact for fact, there in zip(called, told.called, strict=True))
    assert ("over another index" in finding.fix) == bool(told.called)


def test_a_layer_of_the_library_is_never_the_place() -> None:
    """Even where it has the letter itself: its author is another."""
    text = "axes\n  b: B\n  d: D\n\nscalars\n  ε = 1e-5\n\nmodel Model(z_bd) -> y_bd causal in d:\n  return RMSNorm(z_bd)\n"
    with pytest.raises(EinformerError) as error:
        einformer.parse(text)
    (finding,) = error.value.findings
    assert (finding.code, finding.span.text) == ("E503", "RMSNorm(z_bd)")
