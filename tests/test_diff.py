"""What distinguishes two texts: is all of it told, and nothing else?"""

from __future__ import annotations

import functools
import itertools
import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

import einformer
from einformer.language.difference import difference, same_axes
from einformer.language.printer import show
from einformer.language.tree import Apply, Axis, Equation, Expression, Index, Layer, Loop, Scalar, Spec, Statement, Weight
from einformer.language.walk import rebuild
from tests.few import FEW_TEXTS, few
from tests.shipped import TEXTS
from tests.slips import slip

load = functools.cache(einformer.load)


def written(name: str) -> Spec:
    return load(name).written


# ------------------------------------------------------------------------------------------- all of it, nothing else


@pytest.mark.parametrize("name", few(TEXTS, FEW_TEXTS))
def test_a_text_and_itself(name: str) -> None:
    assert not load(name).diff(load(name))


def lines(spec: Spec) -> Counter[str]:
    """The lines of a text without remarks; the order of a legend and the name of a model say nothing, weights are one line."""
    text = re.sub(r"(?m)(^#.*| +[@#].*)$", "", show(spec))
    text = re.sub(r"(?m)^model \w+", "model °", text)
    while (joined := re.sub(r"(?m)^  (weights|buffers) ([^:\n]*)\n  \1 ([^:\n]*)$", r"  \1 \2, \3", text)) != text:
        text = joined
    legend, *layers = re.split(r"(?m)^(?=layer |model )", re.sub(r"(?m)^(axes|scalars)\n", "", text))
    return Counter([*map(str.strip, legend.split("\n")), *"".join(layers).split("\n")]) - Counter({"": 10_000})


def told(found: Any, other: bool) -> Counter[str]:
    """The lines of one text that a difference names."""
    values = [f"{value.name} = {value.other if other else value.one}" for value in found.values]
    texts = [change.other if other else change.one for part in found.parts for change in part.changes]
    return Counter(re.sub(r"^model \w+", "model °", text) for text in [*values, *texts]) - Counter({"": 10_000})


@pytest.mark.parametrize("name", few(TEXTS, FEW_TEXTS))
def test_what_is_told_makes_the_other_text(name: str) -> None:
    """The lines of one text, less those that went, and those that came, are the lines of the next one, and of llama."""
    for other in {TEXTS[TEXTS.index(name) - 1], "llama"}:
        comes_out(name, other)


def comes_out(one: str, other: str) -> None:
    found = load(one).diff(load(other))
    here, there = (Counter(map(numbers, lines(written(name)).elements())) for name in (one, other))
    went, came = (Counter(map(numbers, told(found, other).elements())) for other in (False, True))
    assert not went - here
    letters = same_axes(written(one), written(other))
    assert relettered(here - went + came, letters) == relettered(there, letters)


def relettered(found: Counter[str], letters: Mapping[str, str]) -> Counter[str]:
    """Axes under the letters of the other text: that one only has another letter is not told."""
    legend = {f"{letter}:": f"{same.rstrip('°')}:" for letter, same in letters.items()}
    return Counter(re.sub(r"^[^\W\d_]:(?= )", lambda axis: legend.get(axis[0], axis[0]), line) for line in found.elements())


def numbers(line: str) -> str:
    """Numbers in one form: `W_l = [1, 2]` has brackets in a text, and none in a table."""
    return line.replace("[", "").replace("]", "")


@pytest.mark.parametrize("seed", range(80))
def test_a_slip_is_told_and_nothing_else(seed: int) -> None:
    draw = random.Random(seed)
    name = draw.choice(TEXTS)
    changed = slip(written(name), draw)
    found = difference(written(name), changed.spec)
    if renamed_only(changed.before, changed.after):
        assert not found
        return
    (part,) = found.parts
    assert part.name.endswith(f" {changed.layer}")
    ((one, other),) = [(change.one.strip(), change.other.strip()) for change in part.changes]
    assert (one, other) == tuple(show(replace(equation, note="", comment="")) for equation in (changed.before, changed.after))


def renamed_only(before: Equation, after: Equation) -> bool:
    """Is there a bijection of the indices over each axis that makes one the other? All are tried, s alone stays s."""
    here, there = (sorted(set(indices(equation))) for equation in (before, after))
    if len(here) != len(there):
        return False
    return any(
        all(a.rstrip("'") == b.rstrip("'") and (a == "s") == (b == "s") for a, b in zip(here, order, strict=True))
        and renamed(before, dict(zip(here, order, strict=True))) == after
        for order in itertools.permutations(there)
    )


def indices(equation: Equation) -> Iterator[str]:
    found: list[str] = []

    def look(e: Expression) -> Expression:
        found.extend([e.letter] if isinstance(e, Index) else [i.letter for i in e.indices] if isinstance(e, Apply) else [])
        return rebuild(e, look)

    for side in (equation.left, equation.right):
        look(side)
    yield from found


def renamed(node: Any, letters: Mapping[str, str]) -> Any:
    """A node with other letters: what stands in no table stays."""
    again = functools.partial(renamed, letters=letters)
    match node:
        case Index():
            return replace(node, letter=letters.get(node.letter, node.letter))
        case tuple():
            return tuple(map(again, node))
        case Apply():
            return replace(node, indices=again(node.indices), arguments=again(node.arguments))
        case Axis():
            return replace(node, letter=letters.get(node.letter, node.letter))
        case Scalar():
            return replace(node, indices=again(node.indices), value=again(node.value))
        case Weight():
            return replace(node, indices=again(node.indices), default=node.default and again(node.default))
        case Equation():
            return replace(node, left=again(node.left), right=again(node.right))
        case Loop():
            return replace(node, index=again(node.index), count=again(node.count), body=again(node.body))
        case Layer():
            time, body, weights = node.time and again(node.time), again(node.body), again(node.weights)
            head = {name: again(getattr(node, name)) for name in ("indices", "formals", "output")}
            return replace(node, time=time, body=body, weights=weights, **head)
        case Spec():
            return replace(node, axes=again(node.axes), scalars=again(node.scalars), layers=again(node.layers))
        case _:
            return rebuild(node, again)


@pytest.mark.parametrize("kind", ["shuffled", "fresh", "primes"])
@pytest.mark.parametrize("name", few(TEXTS, FEW_TEXTS))
def test_letters_that_are_only_renamed_do_not_differ(name: str, kind: str) -> None:
    """Axes have other letters, each other's or new ones; or the primed indices of an axis other primes."""
    spec = written(name)
    axes = [axis.letter for axis in spec.axes]
    shuffled = random.Random(0).sample(axes, len(axes))
    new = {"shuffled": shuffled, "fresh": [f"ж{letter}" for letter in axes], "primes": axes}[kind]
    more = "'" if kind == "primes" else ""
    primes = {f"{old}{prime}": f"{fresh}{prime}{more}" for old, fresh in zip(axes, new, strict=True) for prime in ("'", "''")}
    other = renamed(spec, dict(zip(axes, new, strict=True)) | primes)
    assert (other != spec) == (kind != "primes" or bool(re.search(r"_[^\s(]*'", show(spec))))
    silent = replace(other, axes=tuple(replace(axis, comment="") for axis in other.axes))
    assert not difference(spec, silent)


@pytest.mark.parametrize(
    ("one", "other", "changes"),
    [
        ("q_sa = z_sd Q_da", "q_sa = z_sd Q_ad", [("  q_sa = z_sd Q_da", "  q_sa = z_sd Q_ad")]),
        ("q_sa = z_sd Q_da", "q_sa = z_sd' Q_d'a", []),
        ("q_sa = z_s'd Q_da", "q_sa = z_sd Q_da", [("  q_sa = z_s'd Q_da", "  q_sa = z_sd Q_da")]),
        ("q_sa = z_s'd Q_da", "q_sa = z_s''d Q_da", []),
        ("q_sa = z_s'd k_s''a", "q_sa = z_s''d k_s'a", []),
        ("q_sa = z_s'd k_s'a", "q_sa = z_s''d k_s'a", [("  q_sa = z_s'd k_s'a", "  q_sa = z_s''d k_s'a")]),
        ("q_s'a = z_s'a", "q_sa = z_sa", [("  q_s'a = z_s'a", "  q_sa = z_sa")]),
        ("q_sa = 2.0 z_sa", "q_sa = 2 z_sa", []),
        ("q_sa = 2 z_sa", "q_sa = 2.5 z_sa", [("  q_sa = 2 z_sa", "  q_sa = 2.5 z_sa")]),
        ("q_sa = z_sa", "q_sa <- z_sa", [("  q_sa = z_sa", "  q_sa <- z_sa")]),
        ("q_sa = z_sa\n  p_sa = z_sa", "q_sa = z_sa", [("  p_sa = z_sa", "")]),
        ("for l < L:\n    q_sa = z_sa", "q_sa = z_sa", [("  for l < L:", ""), ("    q_sa = z_sa", "  q_sa = z_sa")]),
    ],
)
def test_one_line(one: str, other: str, changes: list[tuple[str, str]]) -> None:
    found = difference(parsed(one), parsed(other))
    assert [(change.one, change.other) for part in found.parts for change in part.changes] == changes


def parsed(body: str) -> Spec:
    """A text that need not be well formed."""
    from einformer.errors import Source
    from einformer.language import parser

    legend = "axes\n  s: S\n  d: D\n  a: A\n  l: L\n"
    spec, findings = parser.parse(
        Source("t", f"{legend}model M(x_s) -> y_sa causal in s:\n  weights Q_da\n  {body}\n  return q_sa\n")
    )
    assert not findings
    return spec


def test_the_order_of_a_legend_says_nothing() -> None:
    spec = written("llama")
    assert not difference(spec, replace(spec, axes=spec.axes[::-1], scalars=spec.scalars[::-1], layers=spec.layers))


def test_remarks_are_no_difference() -> None:
    def bare(statement: Statement) -> Statement:
        body = {"body": tuple(map(bare, statement.body))} if isinstance(statement, Loop) else {"note": "elsewhere"}
        return replace(statement, comment="another", above=("one", "two"), **body)

    spec = written("gpt2")
    layers = tuple(replace(layer, note="", comment="x", body=tuple(map(bare, layer.body))) for layer in spec.layers)
    assert not difference(spec, replace(spec, title="another", about=("a", "b"), layers=layers))


@pytest.mark.parametrize(
    ("one", "other", "names"),
    [
        ("gpt2", "llama", {"layer LayerNorm → RMSNorm", "layer CausalAttention → Attention", "layer MLP → GatedMLP"}),
        ("llama", "gemma2", {"layer RMSNorm → RMSNorm1", "layer GatedMLP → GeluMLP", "layer Attention"}),
        ("mistral", "mixtral", {"layer GatedMLP", "layer Experts", "model Mistral → Mixtral"}),
        ("llama", "deepseek_v3", {"layer Attention → LatentAttention", "layer Experts", "layer Router"}),
    ],
)
def test_layers_of_one_role_stand_side_by_side(one: str, other: str, names: set[str]) -> None:
    assert names <= {part.name for part in load(one).diff(load(other)).parts}


def test_equations_of_one_meaning_stand_side_by_side() -> None:
    """By what they define, however they do: GPT-2 and Llama have few letters in common."""
    parts = {part.name: part.changes for part in load("gpt2").diff(load("llama")).parts}
    pairs = {
        (change.one.split(" ")[2][:1], change.other.split(" ")[2][:1])
        for change in parts["layer CausalAttention → Attention"]
        if change.one and change.other
    }
    assert {("q", "q"), ("k", "k"), ("v", "v"), ("w", "w"), ("y", "y")} <= pairs


def test_a_long_body_is_no_trouble() -> None:
    """More lines than can be compared with each other: they stand in their order."""
    one, other = ("\n  ".join(f"t{k}_sa = {factor} z_sa" for k in range(300)) for factor in (2, 3))
    (part,) = difference(parsed(f"{one}\n  q_sa = z_sa"), parsed(f"{other}\n  q_sa = z_sa")).parts
    change = part.changes[7]
    assert (change.one, change.other, change.marks) == ("  t7_sa = 2 z_sa", "  t7_sa = 3 z_sa", (((10, 11),), ((10, 11),)))
