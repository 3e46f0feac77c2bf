"""MathML is made of elements that browsers know, is read aloud as people read, and is shown as formulas are set."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

import pytest
import sympy

import einformer
from einformer.architectures.texts import library
from einformer.errors import Source
from einformer.interpreters.count.algebra import show
from einformer.interpreters.mathml import mathml
from einformer.language import tree
from einformer.language.parser import parse, parse_expression
from einformer.language.primitives import NUMERIC
from tests.chromium import PROGRAM, Page
from tests.oracles.presentation import CORE, SPACE, read_aloud

TEXTS = sorted((Path(__file__).parents[1] / "einformer" / "architectures").glob("*.ein"))
GLOBAL = {"arg", "intent", "style", "display", "displaystyle"}
ALLOWED = {"mo": {"lspace", "rspace", "stretchy"}, "mspace": {"width", "height"}, "mtd": {"columnspan"}}
FRAME = "axes\n  b: B\n  s: S\n  d: D\n  e: E\n  a: A\n  g: G\n  l: L\nlayer F(z_s) -> y_s:\n  {}\n  return z_s\n"


def equation(text: str) -> tree.Statement:
    """The first line of a layer."""
    spec, findings = parse(Source("text.ein", FRAME.format(text)), library())
    assert not findings, str(findings[0])
    return spec.layers[0].body[0]


def read(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(mathml(equation(text)))


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_shipped_texts_are_elements_of_core(path: Path) -> None:
    """Their places on a page are those that MathML Core has, and every name of an intent is found once."""
    spec, _ = parse(Source(path.name, path.read_text(encoding="utf-8")), library())
    whole = ElementTree.fromstring(mathml(spec))
    for node in whole.iter():
        tag = node.tag.removeprefix(SPACE)
        assert tag in CORE
        assert set(node.attrib) <= GLOBAL | ALLOWED.get(tag, set())
        count = {"mfrac": 2, "msub": 2, "msup": 2, "munder": 2, "msubsup": 3, "munderover": 3}.get(tag)
        assert count in (None, len(node))
    assert read_aloud(whole)


ALOUD = [
    ("w_bss'a = 0", "w, at b, s, s prime, a equals 0"),
    ("q_bsea = z_bsd Q_dea + α_ea", "q, at b, s, e, a equals z, at b, s, d times Q, at d, e, a plus α, at e, a"),
    (
        "w_bss'a = Sm_s'(q_bsea k_bs'ea / sqrt(E) + m_ss')",
        "w, at b, s, s prime, a equals softmax, over s prime of the fraction q, at b, s, e, a times k, at b, s prime, e, a "
        "over the square root of E plus m, at s, s prime",
    ),
    ("u_{bs(ae)} = y_bsea", "u, at b, s, group a e equals y, at b, s, e, a"),
    ("y_se = S_{b(s - 1)e}", "y, at s, e equals S, at b, s minus 1, e"),
    ("z_s <- z_s + y_s", "z, at s becomes z, at s plus y, at s"),
    (
        "m_ss' = where(s' <= s, 0, -inf)",
        "m, at s, s prime equals 0 if s prime is less than or equal to s, minus ∞ otherwise",
    ),
    ("y_s = sum_d(x_d y_d)", "y, at s equals sum, over d of x, at d times y, at d"),
    ("y_s = W0_d'e x'_sd", "y, at s equals W 0, at d prime, e times x prime, at s, d"),
    ("z_bsd = E_{x_bs d}", "z, at b, s, d equals E, at x at b s, d"),
    ("y_s = mean_{egj}(z_se^2)", "y, at s equals mean, over e, g, j of z, at s, e to the power 2"),
    ("t_s = top_{2,d}(z_sd)", "t, at s equals top 2, over d of z, at s, d"),
    (
        "m_ss' = where(not s == s', 0, -inf)",
        "m, at s, s prime equals 0 if ¬ open paren s equals s prime close paren, minus ∞ otherwise",
    ),
    ("y_s = floor(s / 2) abs(x_s)", "y, at s equals floor of the fraction s over 2 times absolute value of x, at s"),
    ("y_s = log2(E)", "y, at s equals log 2 of E"),
    ("return RMSNorm_l(z_sd)", "return RMSNorm, at l of z, at s, d"),
]


@pytest.mark.parametrize(("text", "words"), ALOUD)
def test_formulas_are_read_aloud(text: str, words: str) -> None:
    assert read_aloud(read(text)) == words


# ---------------------------------------------------------------------------------------------------------------- counts


def evaluate(e: tree.Expression, sizes: Mapping[str, int]) -> float:
    """The value of a formula of sizes."""
    match e:
        case tree.Number(value):
            return value
        case tree.Name(name):
            return sizes[name]
        case tree.Sum(terms):
            return sum(evaluate(term, sizes) for term in terms)
        case tree.Product(factors):
            return math.prod(evaluate(factor, sizes) for factor in factors)
        case tree.Quotient(above, below):
            return evaluate(above, sizes) / evaluate(below, sizes)
        case tree.Power(base, exponent):
            return float(evaluate(base, sizes) ** evaluate(exponent, sizes))
        case tree.Apply(name, _, arguments):
            return float(NUMERIC[name](*(evaluate(argument, sizes) for argument in arguments)))
        case _:
            raise AssertionError(e)


@pytest.mark.parametrize("name", ["gpt2", "llama", "mixtral", "gemma2", "vit", "mamba2_decoder", "deepseek_v2"])
def test_a_count_read_from_its_latex_has_its_value(name: str) -> None:
    """So the pages write it."""
    spec, chance = einformer.load(name), random.Random(name)
    for count in (spec.parameters, spec.flops()):
        sizes = {str(symbol): chance.randint(2, 9) for symbol in count.free_symbols}
        formula = parse_expression(show(count, form="latex"), spec.tree)
        assert evaluate(formula, sizes) == pytest.approx(float(sympy.sympify(count).subs(sizes)), rel=1e-12)


# -------------------------------------------------------------------------------------------------------------- a browser

FORMULAS = ["w_bss'a = Sm_s'(q_bsea / sqrt(E))", "m_ss' = where(s' <= s, 0, -inf)", "y_s = sum_d(x'_d y_d)"]
BOXES = """[...document.querySelectorAll('math *')].map(node => {
  const { left, right, top, bottom } = node.getBoundingClientRect();
  const known = node instanceof MathMLElement && !(node instanceof HTMLUnknownElement);
  return [node.localName, node.textContent, left, right, top, bottom, known];
})"""


@pytest.mark.slow
@pytest.mark.skipif(not PROGRAM, reason="needs Chromium")
def test_a_browser_sets_formulas(tmp_path: Path) -> None:
    """Slots stand lower than their tensor and behind it, a numerator above its denominator, the cases below each other."""
    body = "".join(mathml(equation(text), block=True) for text in FORMULAS)
    (tmp_path / "page.html").write_text(f'<!doctype html><meta charset="utf-8">{body}<hr>', encoding="utf-8")
    with Page(tmp_path / "profile") as page:
        page.open(tmp_path / "page.html")
        page.wait("document.querySelectorAll('hr').length")
        boxes = page.evaluate(BOXES)
        below = page.evaluate(
            "[...document.querySelectorAll('msub, mfrac, munder')].map(node => [...node.children].map("
            "child => { const box = child.getBoundingClientRect(); return (box.top + box.bottom) / 2; }))"
        )
    assert all(known for *_, known in boxes)
    assert len(below) >= 6
    assert all(first < second for first, second in below)
    rows = [(top, bottom) for name, _, _, _, top, bottom, _ in boxes if name == "mtr"]
    assert rows[0][1] <= rows[1][0] + 1
