"""Does every text say the same in the letters of every document? No two things become one, and what is printed is read back."""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import fields, replace
from typing import Any

import pytest

import einformer
from einformer.errors import Source
from einformer.interpreters.latex import latex
from einformer.language import parser
from einformer.language.printer import show
from einformer.language.sizes import Legend
from einformer.language.tree import Axis, Index, Name, Node, Scalar, Spec
from einformer.notes.notations import conventions, translate
from einformer.notes.rendering import render
from tests import shipped

FEW = ("gpt2", "llama", "deepseek_v3")
TEXTS = [pytest.param(name, marks=[] if name in FEW else pytest.mark.slow) for name in shipped.TEXTS]
# Sizes that are no capitals are for people only: in the language a small letter is an index.
READABLE = [name for name in conventions() if all(len(letter) == 1 and letter.isupper() for letter in translate(name).values())]

# The rows of a table of letters, document by document, that stand for no size of our texts.
OTHERS = {
    "goon": {"T": "T", "P": "P", "p": "p", "E": "E"},
    "megatron": {"t": "T", "p": "P", "v": "V", "B": "B", "L": "L"},
    "palm": {"d_model": "D"},
    "scaling-book": {"Y": "T", "S": "S", "T": "S", "N": "A", "K": "G"},
    "s000": {"D_q": "Q", "D_k": "Q", "D_v": "U"},
    "s002": {"D_K": "Q", "D_V": "U"},
    "s003": {"d_q": "H", "d_v": "H"},
    "vaswani": {"d_v": "H"},
}


@pytest.mark.parametrize("name", OTHERS)
def test_letters_of_formulas_are_known(name: str) -> None:
    assert conventions()[name].items() >= OTHERS[name].items()


def test_documents_in_capitals_are_read_back() -> None:
    assert {"ours", "goon", "palm", "scaling-book", "s001"} <= set(READABLE)


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_says_the_same_in_every_convention(name: str) -> None:
    ours = einformer.load(name).written
    for convention in conventions():
        theirs = render(ours, convention)
        legend = Legend.of(theirs)
        letters = [axis.letter for axis in theirs.axes]
        assert len(set(letters)) == len(letters) == len(ours.axes), convention
        assert not set(letters) & legend.letters, convention
        assert numbered(theirs) == numbered(ours), convention


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_in_capitals_is_read_back(name: str) -> None:
    ours = einformer.load(name).written
    for convention in READABLE:
        theirs = render(ours, convention)
        read, findings = parser.parse(Source(name, latex(theirs)))
        assert findings == (), convention
        assert read == theirs, convention


def test_a_number_and_a_table_keep_two_letters() -> None:
    """In the letters of PaLM positions are T, and the scalar T may not become W, of which there is a table."""
    lines = """axes b, s, d, l, u, v
scalars
  T = 2
  W_l = where(l < T, 1, 3)
model M(z_bsd) -> z_bsd causal in s:
  weights A_uv
  for l < L:
    z_bsd <- z_bsd / W_l + T
  return z_bsd + sum_{uv} A_uv
"""
    ours = einformer.parse(lines).written
    theirs = render(ours, "palm")
    assert len({scalar.name for scalar in theirs.scalars}) == 2
    assert numbered(theirs) == numbered(ours)


def test_a_number_of_a_layer_is_no_size() -> None:
    """S002 writes `m` for D, and a layer of this text has a number m."""
    ours = einformer.load("phimoe").written
    theirs = show(render(ours, "s002"))
    assert "d: m " in theirs
    assert "n = max_x t_x" not in theirs
    assert "m = max_x t_x" not in theirs
    assert numbered(render(ours, "s002")) == numbered(ours)


def test_two_axes_of_one_letter_are_not_the_same_text() -> None:
    """The comparison sees what it is there for."""
    ours = einformer.load("gpt2").written
    assert numbered(renamed(ours, "e", "f")) != numbered(ours)
    assert numbered(renamed(ours, "e", "z")) == numbered(ours)


def renamed(spec: Spec, one: str, other: str) -> Any:
    """A text with the letter of an axis for another one."""

    def anew(node: Any) -> Any:
        match node:
            case tuple():
                return tuple(map(anew, node))
            case Index(letter) | Axis(letter) if letter.rstrip("'") == one:
                node = replace(node, letter=letter.replace(one, other))
        if not isinstance(node, Node):
            return node
        return replace(node, **{each.name: anew(getattr(node, each.name)) for each in fields(node) if each.name != "span"})

    return anew(spec)


def numbered(spec: Spec) -> list[object]:
    """What a text says, in order, with the number of its first mention for each axis, and for each size and scalar."""
    axes: defaultdict[str, int] = defaultdict(itertools.count().__next__)
    names: defaultdict[str, int] = defaultdict(itertools.count().__next__)
    said: list[object] = []

    def say(node: Any) -> None:
        match node:
            case tuple():
                said.append(len(node))
                for each in node:
                    say(each)
            case Index(letter):
                said.append(("index", axes[letter.rstrip("'")], letter.count("'")))
            case Name(name):
                said.append(("name", names[name]))
            case Node():
                said.append(type(node))
                for each in fields(node):
                    value = getattr(node, each.name)
                    if isinstance(node, Axis) and each.name == "letter":
                        value = axes[value]
                    if isinstance(node, Scalar) and each.name == "name":
                        value = names[value]
                    if each.name != "span":
                        say(value)
            case _:
                said.append(node)

    say(spec)
    return said
