"""Does a text say the same in the letters of a document?"""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np
import pytest

from einformer import load, parse
from einformer.language.printer import show
from einformer.language.tree import Name, Spec
from einformer.language.walk import subexpressions
from einformer.notes.notations import conventions, translate
from einformer.notes.rendering import render
from tests.few import FEW_TEXTS, few
from tests.refusals import refuses
from tests.shipped import TEXTS

# Read off the documents themselves.
PRINTED = {
    "kaplan": {"S": "n_ctx", "D": "d_model", "F": "d_ff", "L": "n_layer", "V": "n_vocab"},
    "chinchilla": {"S": "seq_len", "D": "d_model", "A": "num_heads", "H": "key_size", "F": "ffw_size", "L": "num_layers"},
    "megatron": {"B": "b", "S": "s", "D": "h", "A": "a", "L": "l", "V": "V"},
    "palm": {"A": "H", "H": "Q", "S": "T", "L": "L"},
    "scaling-book": {"B": "B", "S": "T", "D": "D", "A": "N", "G": "K", "H": "H", "F": "F"},
    "s000": {"S": "N", "D": "D", "H": "D_head", "A": "h"},
    "s001": {"B": "B", "S": "S", "D": "D", "A": "A", "V": "V"},
    "s002": {"S": "n", "D": "m"},
    "s003": {"S": "L", "D": "d", "A": "h", "H": "d_k", "F": "d_ff", "V": "V"},
    "vaswani": {"S": "n", "D": "d_model", "A": "h", "H": "d_k", "F": "d_ff", "L": "N"},
    "s004": {"D": "n_embd", "A": "n_head", "H": "head_size", "L": "n_blocks", "V": "vocab_size"},
}


@functools.cache
def spec(name: str) -> Spec:
    return load(name).written


def legend(name: str, convention: str) -> list[str]:
    """The axes of a shipped text in the letters of a document."""
    axes = show(render(spec(name), convention)).partition("axes\n")[2].partition("\n\n")[0]
    return [line.partition("#")[0].strip() for line in axes.split("\n")]


@pytest.mark.parametrize("name", PRINTED)
def test_letters_are_those_that_the_document_prints(name: str) -> None:
    assert translate(name).items() >= PRINTED[name].items()


@pytest.mark.parametrize("name", conventions())
def test_no_document_has_one_letter_for_two_of_ours(name: str) -> None:
    assert len(set(translate(name).values())) == len(translate(name))


@pytest.mark.parametrize("name", ["gpt2", "llama", "mixtral", "deepseek_v3", "mamba2"])
def test_our_letters_stay(name: str) -> None:
    assert render(spec(name), "ours") == spec(name)


def test_an_index_makes_way_for_a_size() -> None:
    """Megatron's sizes are b, s, h, a and l: the indices b, s, a and l of ours go to the next letters that are free."""
    assert legend("gpt2", "megatron") == [
        "c: b", "t: s <= K", "d: h", "g: a", "e: H = h / a", "f: F = E h", "v: V", "k: K", "m: l",
    ]  # fmt: skip


def test_a_size_without_a_letter_makes_way_for_one() -> None:
    """S003 has L positions, does not name layers, and numbers heads by i."""
    assert legend("minimal", "s003") == [
        "b: B", "s: L <= K", "g: d", "i: h", "e: d_k = d / h", "f: d_ff = 4 d", "v: V", "k: K", "l: M",
    ]  # fmt: skip


@pytest.mark.parametrize("name", few(TEXTS, FEW_TEXTS))
def test_a_shipped_legend_can_be_written_in_every_convention(name: str) -> None:
    """No two letters become one, of axes, or of the names of sizes and scalars in the legend."""
    legend = replace(load(name).written, layers=())
    for convention in conventions():
        theirs = render(legend, convention)
        assert len({axis.letter for axis in theirs.axes}) == len(legend.axes), convention
        assert len(names(theirs)) == len(names(legend)), convention


def names(legend: Spec) -> set[str]:
    """The names of sizes and scalars."""
    sizes = [e for axis in legend.axes for e in (axis.size, axis.default, axis.bound) if e is not None]
    found = {x.name for size in sizes for x in subexpressions(size) if isinstance(x, Name)}
    return found | {scalar.name for scalar in legend.scalars if not scalar.indices}


@pytest.mark.parametrize(
    ("convention", "sizes"),
    [
        ("palm", {"B": 2, "T": 5, "D": 24, "G": 2, "H": 4, "F": 7, "V": 11, "L": 2, "Q": 6}),
        ("scaling-book", {"B": 2, "T": 5, "D": 24, "K": 2, "N": 4, "F": 7, "V": 11, "L": 2, "H": 6}),
    ],
)
def test_a_model_in_other_letters_is_the_same_function(convention: str, sizes: dict[str, int]) -> None:
    """llama's LaTeX in the letters of a document, read back and bound by these letters, has the value of llama."""
    theirs = parse(load("llama").latex(convention)).bind(**{k: size for k, size in sizes.items() if k not in "BT"})
    ours = load("llama").bind(D=24, A=4, G=2, H=6, F=7, V=11, L=2)
    shapes = ours.weight_shapes()
    assert theirs.weight_shapes() == shapes
    random = np.random.default_rng(1)
    weights = {path: random.normal(size=shape) for path, shape in shapes.items()}
    tokens = random.integers(11, size=(2, 5))
    np.testing.assert_array_equal(theirs.reference(tokens, weights=weights), ours.reference(tokens, weights=weights))


def test_names_of_several_letters_are_upright() -> None:
    """`d_{model}` and `head\\_size`, as papers and code print them; no bare underscore, which TeX would take for an index."""
    assert r"H = d_{\mathrm{model}} / n_{\mathrm{heads}}" in load("llama").latex("kaplan")
    assert r"\sqrt{\mathrm{head\_size}}" in load("gpt2").latex("s004", "index")


def test_an_unknown_convention_is_refused() -> None:
    with refuses("E605", "bourbaki"):
        load("gpt2").latex("bourbaki")
