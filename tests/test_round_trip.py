"""parse(show(tree)) == tree, and so in LaTeX and in MathML: what is printed is what is meant, in all forms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import Phase, given, settings

import einformer
from einformer.architectures.texts import library
from einformer.errors import Source
from einformer.interpreters.latex import latex
from einformer.interpreters.mathml import mathml
from einformer.language.parser import parse, parse_expression
from einformer.language.printer import show
from einformer.language.tree import (
    Apply,
    Axis,
    Declaration,
    Equation,
    Expression,
    Index,
    Layer,
    Name,
    Number,
    Power,
    Product,
    Quotient,
    Spec,
    Sum,
    Tensor,
)
from tests import strategies
from tests.few import FEW_TEXTS, few
from tests.oracles.presentation import read_latex
from tests.texts import callable_layers

ARCHITECTURES = sorted((Path(__file__).parents[1] / "einformer" / "architectures").glob("*.ein"))
CALLABLE = callable_layers((*strategies.LAYERS, *strategies.INSTANCES))
LEGEND = Spec(
    "",
    tuple(Axis(letter, Name("N")) for letter in strategies.LETTERS),
    (),
    CALLABLE.layers,
)
AXES = "axes\n" + "".join(f"  {letter}: N\n" for letter in strategies.LETTERS)
WHOLE = settings(deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])  # a file would shrink for minutes
Printer = Callable[[Declaration | Expression], str]


def shown(node: Declaration | Expression) -> str:
    """The LaTeX of what MathML shows."""
    return read_latex(ElementTree.fromstring(mathml(node)))


PRINTERS: tuple[Printer, ...] = (show, latex, shown)
printers = pytest.mark.parametrize("print_", PRINTERS)
FEW = {path for path in ARCHITECTURES if path.stem in FEW_TEXTS}
SHIPPED = pytest.mark.parametrize("path", few(ARCHITECTURES, FEW), ids=lambda path: path.stem)
TEXTS = [path for path in ARCHITECTURES if path.stem != "library"]


def read(text: str, known: Spec = CALLABLE) -> Spec:
    """The tree of a text without findings, in which these names may be called."""
    spec, findings = parse(Source("<printed>", text), known)
    assert not findings, "\n\n".join(map(str, findings))
    return spec


def same(one: object, other: object) -> bool:
    """Equal, and 1 is not 1.0: the representation tells them apart."""
    return one == other and repr(one) == repr(other)


def test_expressions() -> None:
    """By every printer."""
    seen: Counter[str] = Counter()

    @settings(max_examples=400, deadline=None)
    @given(strategies.expressions())
    def comes_back(e: Expression) -> None:
        seen.update(strategies.kinds(e))
        for print_ in PRINTERS:
            assert same(parse_expression(print_(e), LEGEND), e), print_(e)

    comes_back()
    assert sorted(strategies.EXPRESSIONS - set(seen)) == []


def test_braces_enclose_in_a_subscript_too() -> None:
    """LaTeX without a backslash is read as plain text."""
    assert same(parse_expression("q_{b((1 + H)^{-H})d}", LEGEND), parse_expression("q_{b((1 + H)^(-H))d}", LEGEND))


@printers
@pytest.mark.parametrize("name", sorted({*strategies.OPERATORS, *strategies.FUNCTIONS, *strategies.LAYERS}))
def test_calls(print_: Printer, name: str) -> None:
    """Every primitive, with and without letters, as a factor, a base, an exponent, a numerator."""
    for indices in ((), (Index("s'"),), (Index("s"), Index("σ"))):
        call = Apply(name, indices, (Sum((Name("H"), Number(1))),))
        for e in (
            Product((call, call)),
            Power(call, call),
            Quotient(call, call),
            Sum((call, Product((Number(-1), call)))),
            call,
        ):
            assert same(parse_expression(print_(e), LEGEND), e), print_(e)


def test_equations() -> None:
    @settings(max_examples=300, deadline=None)
    @given(strategies.equations())
    def comes_back(equation: Equation) -> None:
        for print_ in PRINTERS:
            text = f"{AXES}layer Norm(z) -> y:\n  {print_(equation)}\n  return 0"
            assert same(read(text).layers[0].body[0], equation), text

    comes_back()


def test_layers() -> None:
    @settings(WHOLE, max_examples=60)
    @given(strategies.layers())
    def comes_back(layer: Layer) -> None:
        for print_ in PRINTERS:
            assert same(read(AXES + print_(layer)).layers[0], layer), print_(layer)

    comes_back()


def test_specifications() -> None:
    seen: Counter[str] = Counter()

    @settings(WHOLE, max_examples=50)
    @given(strategies.specs())
    def comes_back(spec: Spec) -> None:
        seen.update(strategies.kinds(spec))
        for print_ in PRINTERS:
            assert same(read(print_(spec)), spec), print_(spec)

    comes_back()
    assert sorted(strategies.DECLARATIONS - set(seen)) == []


@printers
@settings(deadline=None)
@given(name=strategies.letters_of_unicode())
def test_letters(print_: Printer, name: str) -> None:
    e = Tensor(name, (Number(0),))
    assert same(parse_expression(print_(e), LEGEND), e)


@printers
@SHIPPED
def test_shipped(print_: Printer, path: Path) -> None:
    spec = read(path.read_text(encoding="utf-8"), library())
    assert same(read(print_(spec), library()), spec)


@SHIPPED
def test_show_is_a_fixed_point(path: Path) -> None:
    text = show(read(path.read_text(encoding="utf-8"), library()))
    assert show(read(text, library())) == text


@printers
@pytest.mark.parametrize("path", few(TEXTS, FEW), ids=lambda path: path.stem)
def test_elaborated(print_: Printer, path: Path) -> None:
    """With every implicit sum written out a text can still be read (anonymous instances apart, `LayerNorm_2`)."""
    elaborated = einformer.load(path.stem).tree
    layers = [layer for layer in elaborated.layers if not any("_" in weight.name for weight in layer.weights)]
    assert layers
    for layer in layers:
        alone = Spec("", elaborated.axes, (), (layer,))
        assert same(read(print_(alone), elaborated), alone)


def test_golden_latex(golden: Callable[[str, str], None]) -> None:
    golden("gpt2.tex", einformer.load("gpt2").latex() + "\n")


COMMENTED = """# scale.ein: what is said stays
# on every line
axes
  # two axes
  b: B                # batch
  d: D
  l: L

scalars
  # the slope
  α = 2               # of the ramp

# Scales.
# And ramps.
layer Scale(z_bd) -> z_bd:                      # a layer
  # trained
  weights γ_d, β_d                              # of a norm
  weights δ_d
  # stored
  buffers κ_d
  # many times
  for l < L:                                    # a loop
    # inside
    z_bd <- γ_d z_bd                            # scaled
  # the end
  return α z_bd + β_d δ_d κ_d

# nothing more
"""


def test_comments_stay() -> None:
    spec = einformer.parse(COMMENTED)
    assert str(spec) == COMMENTED
    assert str(einformer.parse(str(spec))) == str(einformer.parse(spec.latex())) == COMMENTED


def test_what_is_said_of_a_heading_is_said_of_its_first_line() -> None:
    assert "axes\n  # above\n  # beside\n  b: B\n" in show(read("# title\nscalars\n  c = 1\n# above\naxes # beside\n  b: B\n"))
