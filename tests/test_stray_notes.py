"""Is a note kept, or refused? None is dropped silently, wherever it stands."""

from __future__ import annotations

import pytest

from einformer import EinformerError, parse
from einformer.language.parser import parse_expression
from einformer.language.tree import Equation
from tests.refusals import refuses

TEXT = """# halves
axes
  h: H                # pairs
  l: L                # layers

scalars
  Θ = 10000
  θ_h = Θ^(-2 h / H)  @ rope 3.2.2 eq 15 # angles

layer Turn(z_h) -> z_h:                                          @ my notebook
  weights γ_h
  for l < L:
    z_h <- θ_h γ_h z_h                                           @ page 7 # each turn
  return z_h
"""
ELSEWHERE = ("axes", "  h: H", "  l: L", "scalars", "  weights", "  for")
PLACES = [at for at, line in enumerate(TEXT.split("\n")) if line.startswith(ELSEWHERE)]


def test_the_note_of_a_scalar_is_part_of_the_tree() -> None:
    spec = parse(TEXT)
    assert [(scalar.note, scalar.comment) for scalar in spec.written.scalars] == [("", ""), ("rope 3.2.2 eq 15", "angles")]
    assert str(spec) == TEXT
    assert r"&& @\ \text{rope 3.2.2 eq 15} \qquad \text{angles}" in spec.latex()
    assert parse(spec.latex()).written == spec.written


def test_a_value_that_is_given_follows_no_document() -> None:
    (_, scalar) = parse(TEXT).bind(H=2, θ=[1, 2]).spec.written.scalars
    assert (scalar.note, scalar.comment) == ("", "angles")


@pytest.mark.parametrize("at", PLACES)
def test_a_note_beside_no_formula_is_refused_at_its_place(at: int) -> None:
    """Of axes, of weights, of a loop, of a heading."""
    lines = TEXT.split("\n")
    code, sign, comment = lines[at].partition("#")
    lines[at] = f"{code}@ rope 3 {sign}{comment}"
    with pytest.raises(EinformerError) as raised:
        parse("\n".join(lines))
    (found,) = raised.value.findings
    assert (found.code, found.span.line, found.span.column) == ("E107", at + 1, len(code) + 1)
    assert "`rope 3`" in found.message


@pytest.mark.parametrize("alone", ["@ rope 3", "    @ rope 3 # said", r"\[ @\ \text{rope 3} \]"])
def test_a_note_on_a_line_of_its_own_is_refused(alone: str) -> None:
    """In LaTeX too."""
    with refuses("E107"):
        parse(TEXT.replace("  return z_h", f"{alone}\n  return z_h"))


def test_a_formula_alone_has_no_note() -> None:
    with refuses("E107", "rope 3"):
        parse_expression("2 H @ rope 3", parse(TEXT).tree)


MAP = "axes\n  d: D\n  f: F\nscalars\n  θ_d = d\nlayer Map(z_d) -> z_f:\n  weights W_df\n  h_f = θ_d z_d W_df\n  return h_f"


@pytest.mark.parametrize("factor", ["W_df", "W_{df} + 1", "W'_df'", "(W_df + h_f)", "2 W_df", "-W_df.T", "θ_d", "W"])
def test_a_factor_is_not_dropped_as_a_note(factor: str) -> None:
    with refuses("E108"):
        parse(f"{MAP} + z_d @ {factor}")


@pytest.mark.parametrize(
    "note", ["my notebook", "page 7", "W of page 7", "https://arxiv.org/abs/2104.09864", '"W_df"', "falcon_mamba"]
)
def test_words_are_a_note(note: str) -> None:
    *_, line = parse(f"{MAP} @ {note}").written.layers[0].body
    assert isinstance(line, Equation)
    assert line.note == note


def test_a_factor_of_a_scalar_is_not_dropped_either() -> None:
    with refuses("E108"):
        parse(MAP.replace("θ_d = d", "θ_d = d @ θ_d"))
