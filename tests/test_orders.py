"""Are the factors of a product contracted in the best order, and in the same one by counts and by emitted code?"""

from __future__ import annotations

import itertools
import math
import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import torch

import einformer
from einformer.interpreters.torch.measure import Balanced
from einformer.objects import Model
from einformer.program.orders import Letters, order_pairs
from tests.heads import input_letters
from tests.oracles.flops import counted


def letters_of_steps(operands: Sequence[Letters], summed: Letters, sizes: Mapping[str, int]) -> list[Letters]:
    """The letters over which each step runs."""
    left, found = dict(enumerate(operands)), []
    for number, taken in enumerate(order_pairs(operands, summed, sizes.__getitem__), len(operands)):
        both = frozenset[str]().union(*(left.pop(place) for place in taken))
        outside = frozenset[str]().union(*left.values())
        left[number] = both - (summed - outside)
        found.append(both)
    return found


def cost(operands: Sequence[Letters], summed: Letters, sizes: Mapping[str, int]) -> int:
    return sum(math.prod(sizes[letter] for letter in step) for step in letters_of_steps(operands, summed, sizes))


def cheapest(operands: Sequence[Letters], summed: Letters, sizes: Mapping[str, int]) -> int:
    """The fewest multiplications over every sequence of pairwise products, tried one after the other."""
    if len(operands) == 1:
        return 0
    costs = []
    for i, j in itertools.combinations(range(len(operands)), 2):
        rest = [operand for k, operand in enumerate(operands) if k not in (i, j)]
        both = operands[i] | operands[j]
        left = both - (summed - frozenset[str]().union(*rest))
        costs.append(math.prod(sizes[letter] for letter in both) + cheapest([left, *rest], summed, sizes))
    return min(costs)


def drawn(draw: random.Random) -> tuple[tuple[Letters, ...], Letters, dict[str, int]]:
    operands = tuple(frozenset(draw.sample("abcdef", draw.randint(1, 4))) for _ in range(draw.randint(2, 5)))
    summed = frozenset(x for x in "abcdef" if sum(x in operand for operand in operands) > 1 and draw.random() < 0.7)
    return operands, summed, {letter: draw.choice([2, 3, 5, 7, 11]) for letter in "abcdef"}


@pytest.mark.parametrize("seed", range(300))
def test_the_order_is_best_and_that_of_the_factors_does_not_matter(seed: int) -> None:
    draw = random.Random(seed)
    operands, summed, sizes = drawn(draw)
    assert cost(operands, summed, sizes) == cheapest(operands, summed, sizes)
    others = draw.sample(operands, len(operands))
    assert sorted(map(sorted, letters_of_steps(others, summed, sizes))) == sorted(
        map(sorted, letters_of_steps(operands, summed, sizes))
    )


def test_the_order_follows_from_the_sizes() -> None:
    """One new position against 4096 old ones: `q K c` absorbed instead of expanded, 0.55 instead of 68.9 GFLOP."""
    scores = frozenset("bsna"), frozenset("rna"), frozenset("bSr")
    sizes = {"b": 1, "s": 1, "S": 4096, "n": 128, "a": 128, "r": 512}
    assert letters_of_steps(scores, frozenset("nr"), sizes) == [frozenset("abnrs"), frozenset("Sabrs")]
    assert letters_of_steps(scores, frozenset("nr"), sizes | {"s": 4096}) == [frozenset("Sabnr"), frozenset("Sabns")]


def test_many_factors_are_taken_in_the_order_of_the_text() -> None:
    chain = tuple(frozenset(pair) for pair in itertools.pairwise("abcdefghijklmnop"))
    steps = letters_of_steps(chain, frozenset("bcdefghijklmno"), dict.fromkeys("abcdefghijklmnop", 2))
    assert steps[:3] == [frozenset("abc"), frozenset("acd"), frozenset("ade")]
    assert len(steps) == len(chain) - 1


# --------------------------------------------------------------------------------------- what is counted is what is executed

SIZES = {"d": 5, "n": 3, "m": 4, "l": 3, "a": 2, "e": 3, "x": 4}
AT: dict[str, Any] = {"B": 2, "S": 6}
PLANS = {"fast": "torch", "notation": "notation"}


def bound(lines: Sequence[str], scalars: str = "") -> Model:
    """A layer whose legend has the letters that it uses."""
    used = "".join(re.findall(r"_{?([a-z',0-9T]+)", "\n".join(lines)))
    letters = [letter for letter in "bsdnmlaex" if letter in used or f"for {letter} <" in " ".join(lines)]
    legend = ["axes", *(f"  {letter}: {letter.upper()}" for letter in letters), scalars]
    specification = einformer.parse("\n".join([*legend, "", *lines, ""]))
    return specification.bind(**{letter.upper(): SIZES[letter] for letter in letters if letter in SIZES})


def executed(model: Model, plan: str) -> int:
    """What torch counts of an emitted module without numbers, at the sizes AT."""
    module, at = model.build(plan=plan, device="meta").eval(), model.at(**AT)
    shapes = [[at.length(letter) for letter in letters] for letters in input_letters(model)]
    inputs = [torch.empty(shape, device="meta") for shape in shapes]
    with Balanced():
        return counted(lambda: module(*inputs)).total()


def agrees(model: Model) -> None:
    """Both plans execute what their conventions count."""
    for plan, convention in PLANS.items():
        assert model.flops(convention=convention, **AT) == executed(model, plan), model.source(plan)


def factor(draw: random.Random, name: str, letters: str) -> str:
    """A tensor as it is, or inside a function."""
    return draw.choice(["{}", "{}", "{}", "relu({})", "{}^2"]).format(f"{name}_{letters}")


def product(draw: random.Random, known: Sequence[tuple[str, str]], more: str, wanted: str = "") -> tuple[str, list[str], str]:
    """A product of some known tensors and of weights; the weights; and the letters of the result, all that stand once."""
    read = draw.sample(known, draw.randint(1, len(known)))
    weights = [
        (name, "".join(draw.sample("dnm" + more, draw.randint(1, 3)))) for name in draw.sample("UVW", draw.randint(1, 3))
    ]
    factors = [*read, *weights]
    draw.shuffle(factors)
    letters = [letter for _, some in factors for letter in dict.fromkeys(some.replace("s'", "t")) if letter not in more]
    once = {letter for letter in letters if letters.count(letter) == 1}
    kept = once | {letter for letter in letters if draw.random() < 0.3} | set(wanted)
    text = " ".join(factor(draw, name, some) for name, some in factors)
    result = "".join(letter.replace("t", "s'") for letter in "bstdnm" if letter in kept)
    return text, [f"{name}_{some}" for name, some in weights], result


INPUTS = [("x", "bsd"), ("y", "bs'n"), ("z", "bsn"), ("q", "bs'd")]


@pytest.mark.parametrize("seed", range(60))
def test_products_of_many_factors_are_executed_as_they_are_counted(seed: int) -> None:
    draw = random.Random(seed)
    text, weights, letters = product(draw, INPUTS, "")
    formals = ", ".join(f"{name}_{some}" for name, some in INPUTS if f"{name}_{some}" in text)
    lines = [f"layer P({formals}) -> o_{letters}:", f"  weights {', '.join(weights)}", f"  return {text}"]
    agrees(bound(lines))


@pytest.mark.parametrize("seed", range(40))
def test_products_in_a_loop_are_executed_as_they_are_counted(seed: int) -> None:
    """A weight that has the loop's letter is one matrix in each turn."""
    draw = random.Random(seed)
    while True:
        text, weights, letters = product(draw, [("x", "bsd"), ("z", "bsn")], "l", "bsd")
        if letters == "bsd" and "x_bsd" in text:
            break
    formals = "x_bsd, z_bsn" if "z_bsn" in text else "x_bsd"
    body = ["  for l < L:", f"    x_bsd <- x_bsd + {text}", "  return x_bsd"]
    lines = [f"layer P({formals}) -> o_bsd:", f"  weights {', '.join(weights)}", *body]
    agrees(bound(lines))


# The weights, and what is computed of the router's choice, or of another one.
CHOICES = {
    "experts": (
        "R_dx, V_xde, O_xed",
        ["p_bsx = Sm_x(where(top_{T,x}(z_bsd R_dx), z_bsd' R_d'x, -inf))", "return p_bsx relu(z_bsd' V_xd'e) O_xed"],
    ),
    "experts of each head": (
        "R_dax, V_axde, O_aed",
        ["p_bsax = Sm_x(where(top_{T,x}(z_bsd R_dax), z_bsd' R_d'ax, -inf))", "return p_bsax (z_bsd' V_axd'e) O_aed"],
    ),
    "features": (
        "R_dd'",
        [
            "q_bsd = where(top_{1,d}(z_bsd), z_bsd, 0)",
            "k_bsd = z_bsd' R_d'd",
            "w_bss' = Sm_s'(q_bsd k_bs'd)",
            "return w_bss' z_bs'd",
        ],
    ),
    "experts beside heads": (
        "R_dx, Q_dae, K_dae, V_xde, W_xed, O_aed",
        [
            "p_bsx = Sm_x(where(top_{T,x}(z_bsd R_dx), z_bsd' R_d'x, -inf))",
            "h_bsd = p_bsx relu(z_bsd' V_xd'e) W_xed",
            "w_bss'a = Sm_s'((z_bsd Q_dae) (z_bs'd' K_d'ae))",
            "return h_bsd + w_bss'a (z_bs'd' Q_d'ae) O_aed",
        ],
    ),
}


@pytest.mark.parametrize("name", CHOICES)
def test_choices_are_executed_as_they_are_counted(name: str) -> None:
    weights, lines = CHOICES[name]
    body = ["layer P(z_bsd) -> o_bsd:", f"  weights {weights}", *(f"  {line}" for line in lines)]
    agrees(bound(body, "scalars\n  T = 2" if "{T" in lines[0] else ""))


def test_chosen_experts_are_run_without_numbers() -> None:
    """A module on meta takes no mode of ours: rows have no experts there, and the work is the same whichever they are of."""
    weights, lines = CHOICES["experts"]
    model = bound(["layer P(z_bsd) -> o_bsd:", f"  weights {weights}", *(f"  {line}" for line in lines)], "scalars\n  T = 2")
    module, z = model.build(plan="fast", device="meta"), torch.empty(AT["B"], AT["S"], SIZES["d"], device="meta")
    assert counted(lambda: module(z)).total() == model.flops(convention="torch", **AT)


def test_scores_over_chosen_features_stay_one_product() -> None:
    """Keys that were picked for each feature of each query would be as many as all products of the scores."""
    weights, lines = CHOICES["features"]
    text = bound(["layer P(z_bsd) -> o_bsd:", f"  weights {weights}", *(f"  {line}" for line in lines)])
    assert "routed" not in text.source()


NORMS = {
    "a sum of squares": ["return γ_d z_bsd / sqrt(sum_d(z_bsd z_bsd) / D + 0.001)"],
    "a line of its own": ["n_bs = sum_d(z_bsd z_bsd)", "return γ_d z_bsd / sqrt(n_bs / D + 0.001)"],
    "a root of its own": ["r_bs = sqrt(sum_d(z_bsd z_bsd) / D + 0.001)", "return γ_d z_bsd / r_bs"],
    "of a product": ["return γ_d (sum_d' (z_bsd' W_d'd)) / sqrt(mean_d((sum_d' (z_bsd' W_d'd))^2) + 0.001)"],
    "no norm": ["return γ_d z_bsd / sqrt(sum_d(z_bsd z_bsd) + 0.001)"],
}


@pytest.mark.parametrize("name", NORMS)
def test_norms_are_executed_as_they_are_counted(name: str) -> None:
    """What one kernel computes multiplies no matrices."""
    weights = "γ_d, W_dd'" if name == "of a product" else "γ_d"
    agrees(bound(["layer P(z_bsd) -> o_bsd:", f"  weights {weights}", *(f"  {line}" for line in NORMS[name])]))
