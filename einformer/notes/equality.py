"""Measures the error of an equation. It is written below lines that define its tensors, and both sides are computed.

Inputs are drawn from a normal distribution, or have the numbers that a document prints.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from einformer.architectures import texts
from einformer.errors import Finding, Source, fail
from einformer.interpreters import reference
from einformer.language import binding
from einformer.language.calls import axis_of, slot_letters
from einformer.language.sizes import Legend
from einformer.language.tree import Spec

_EQUATION = re.compile(r"(\w+_([a-z']+)) (=|!=) (.+)")  # `a_nn' = a_n'n`
_UNUSED = "E203"  # lines may define more than one equation needs
_SEED = 0
_EXACT = 1e-9
_DIFFERENT = 0.01  # the claim of `!=`


@dataclass(frozen=True, slots=True)
class Setting:
    """The setting of an equation: a legend `n: N = 5; d: D = 4`, the given tensors, and their `numbers`.

    The sides are equal if no two of their numbers differ by more than `within`.
    """

    axes: str
    given: str
    numbers: Mapping[str, ArrayLike] = field(default_factory=dict)
    within: float = _EXACT


def holds(setting: Setting, lines: str, claim: str = "") -> tuple[bool, str]:
    """Returns whether an equation holds below lines that define its tensors, and the difference. Without an equation:
    whether the lines are well formed.

    >>> holds(Setting("n: N = 3", "x_n"), "y_n = 2 x_n", "y_n = x_n + x_n")
    (True, 'equal')
    >>> holds(Setting("n: N = 3; m: M = 3", "x_n"), "y_m = x_n")[1]
    'E302: the left side has `m`, the right side never mentions that'
    """
    if why := refusal(setting, lines, claim):
        return False, why
    written, tree, _ = _parse(setting, lines, claim)
    return _compare(setting, tree, binding.bind(written, {})[1], claim) if claim else (True, "well formed")


def refusal(setting: Setting, lines: str, claim: str = "") -> str:
    """Returns the reason why lines and an equation have no meaning, or an empty string.

    >>> refusal(Setting("n: N = 3", "x_n"), "y_n = 2 x_n", "y_n = z_n")
    'E204: `Lines` has no tensor `z`'
    """
    wrong = (finding for finding in _parse(setting, lines, claim)[2] if finding.code != _UNUSED)
    return next((f"{finding.code}: {finding.message}" for finding in wrong), "")


def _parse(setting: Setting, lines: str, claim: str) -> tuple[Spec, Spec, tuple[Finding, ...]]:
    return texts.elaborate(Source("lines", _write_layer(setting, lines, claim)))


# A text whose layer returns the difference of the sides, or the value of the last line.
def _write_layer(setting: Setting, lines: str, claim: str) -> str:
    body = [line.strip() for line in lines.strip().split("\n")]
    left, letters, _, right = _split_sides(claim or body[-1])
    value = f"{left} - ({right})" if claim else left
    axes = [axis.strip() for axis in setting.axes.split(";")]
    head = f"layer Lines({setting.given}) -> difference_{letters}:"
    return "\n  ".join(["axes", *axes]) + "\n" + "\n  ".join([head, *body, f"return {value}"])


# Raises EinformerError E102.
def _split_sides(equation: str) -> tuple[str, ...]:
    match = _EQUATION.fullmatch(equation)
    if match is None:
        raise fail("E102", f"`{equation}` has no tensor on its left side", fix="`a_nn' = a_n'n`")
    return match.groups()


def _compare(setting: Setting, tree: Spec, legend: Legend, claim: str) -> tuple[bool, str]:
    random = np.random.default_rng(_SEED)
    (layer,) = (layer for layer in tree.layers if layer.name == "Lines")
    shapes = {t.name: tuple(legend.length(axis_of(i)) for i in slot_letters(t)) for t in layer.formals}
    inputs = [np.asarray(setting.numbers.get(name, random.standard_normal(shape))) for name, shape in shapes.items()]
    off = float(np.max(np.abs(reference.evaluate(tree, "Lines", inputs, {}, legend))))
    right = off > _DIFFERENT if _split_sides(claim)[2] == "!=" else off <= setting.within
    return right, _describe(off, setting.within)


# The difference of NaN is none.
def _describe(off: float, within: float) -> str:
    if math.isnan(off):
        return "not a number"
    return f"off by {off:.3g}" if off > within else "equal" if within == _EXACT else f"equal within {within:g}"
