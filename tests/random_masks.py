"""Random masks, each as a text and as the array of what it allows: the checker judges the one, brute force the other.

A number or a condition is a text and its values over all heads, layers, sizes and positions, computed by NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

LENGTH, HEADS, TURNS, SIZES = 72, 12, 12, 9
s, t, a, l, D = np.ogrid[:LENGTH, :LENGTH, :HEADS, :TURNS, 1:SIZES]  # noqa: E741

TABLES = {  # a scalar: its line of the legend, and its values
    "W": ("W = 3", np.array(3)),
    "M_a": ("M_a = [0, 3, 1, 0, 0, 2, 0, 4, 1, 0, 0, 7]", np.array([0, 3, 1, 0, 0, 2, 0, 4, 1, 0, 0, 7])[a]),
    "N_l": ("N_l = [1, 0, 0, 0, 0, 2, 0, 0, 9, 0, 0, 0]", np.array([1, 0, 0, 0, 0, 2, 0, 0, 9, 0, 0, 0])[l]),
    "R_l": ("R_l = where(l mod 3 == 0, 2, 0)", np.where(l % 3 == 0, 2, 0)),
    "P_a": ("P_a = floor(a / 4)", a // 4),
}
HEADED, TURNED = {"a", "M_a", "P_a"}, {"l", "N_l", "R_l"}
LEAVES = {"s": s, "s'": t, "a": a, "l": l, "D": D, "1": np.array(1), "4": np.array(4)} | {
    name: values for name, (_, values) in TABLES.items()
}
NUMBERS: dict[str, Callable[..., Array]] = {
    "{0} + {1}": np.add,
    "{0} - {1}": np.subtract,
    "{0} - 2": lambda x: x - 2,
    "{0} + 1": lambda x: x + 1,
    "2 {0}": lambda x: 2 * x,
    "-{0}": np.negative,
    "{0} / 2": lambda x: x / 2,
    "0 - {0}": np.negative,
    "floor({0} / 9)": lambda x: np.floor(x / 9),
    "s + floor({0} / 24)": lambda x: s + np.floor(x / 24),
    "s + max({0} - 20, 0)": lambda x: s + np.maximum(x - 20, 0),
    "floor({0} / 4)": lambda x: np.floor(x / 4),
    "4 floor({0} / 4)": lambda x: 4 * np.floor(x / 4),
    "4 ceil({0} / 4)": lambda x: 4 * np.ceil(x / 4),
    "floor({0} / W)": lambda x: np.floor(x / 3),
    "({0} mod 5)": lambda x: x % 5,
    "({0} mod W)": lambda x: x % 3,
    "max({0}, {1})": np.maximum,
    "min({0}, {1})": np.minimum,
    "abs({0})": np.abs,
    "relu({0})": lambda x: np.maximum(x, 0),
    "where({0} < 6, {0}, {1})": lambda x, y: np.asarray(np.where(x < 6, x, y)),
    "floor(sqrt(abs({0})) / 3)": lambda x: np.floor(np.sqrt(np.abs(x)) / 3),
}
COMPARISONS: dict[str, Callable[..., Array]] = {
    "{0} <= {1}": np.less_equal,
    "{0} < {1}": np.less,
    "{0} >= {1}": np.greater_equal,
    "{0} > {1}": np.greater,
    "{0} == {1}": np.equal,
    "{0} != {1}": np.not_equal,
}
JUNCTIONS: dict[str, Callable[..., Array]] = {
    "({0} and {1})": np.logical_and,
    "({0} or {1})": np.logical_or,
    "not ({0})": np.logical_not,
    "(where({0}, 1, 0) == 1)": lambda c: c,
}


@dataclass(frozen=True)
class Term:
    """A number or condition: its text, its values, and the constructs of which it is made."""

    text: str
    values: Array
    kinds: frozenset[str] = frozenset()

    def __contains__(self, name: str) -> bool:
        return name in self.kinds


@dataclass(frozen=True)
class Frame:
    """Where a mask may stand: the lines of the model, and which positions are allowed by a first and a second condition.

    `seen` are those that the softmax sees, where that is something else.
    """

    lines: tuple[str, ...]
    allowed: Callable[[Array, Array], Array] = lambda first, second: first
    seen: Callable[[Array, Array], Array] | None = None
    softmax: bool = True
    layer: str = ""

    @property
    def count(self) -> int:
        """How many conditions it has."""
        return 1 + ("{1}" in self.layer + "".join(self.lines))


ATTEND, ADD = "w_bss'{a} = Sm_s'(z_bsd z_bs'd + m_ss'{a})", "z_bsd <- z_bsd + ({sum}w_bss'{a}) z_bs'd"
LAYER = (
    "layer Mix(z_sd, m_ss'{a}) -> z_sd:\n  {changed}w_ss'{a} = Sm_s'(z_sd z_s'd + m_ss'{a})\n  return ({sum}w_ss'{a}) z_s'd\n"
)
FRAMES = {
    "on a line of its own": Frame(("m_ss'{a} = where({0}, 0, -inf)", ATTEND, ADD)),
    "inline": Frame(("w_bss'{a} = Sm_s'(z_bsd z_bs'd + where({0}, 0, -inf))", ADD)),
    "around the scores": Frame(("w_bss'{a} = Sm_s'(where({0}, z_bsd z_bs'd, -inf))", ADD)),
    "of zeros": Frame(("w_bss'{a} = where({0}, z_bsd z_bs'd, 0)", ADD), softmax=False),
    "under exp": Frame(("w_bss'{a} = exp(where({0}, z_bsd z_bs'd, -inf))", ADD), softmax=False),
    "the other way round": Frame(("m_ss'{a} = where(not ({0}), -inf, 0)", ATTEND, ADD)),
    "two masks": Frame(
        ("m_ss'{a} = where({0}, 0, -inf)", "n_ss'{a} = where({1}, 0, -inf)", ATTEND.replace("+ m", "+ n_ss'{a} + m"), ADD),
        np.logical_and,
    ),
    "narrowed by <-": Frame(
        ("m_ss'{a} = where({0}, 0, -inf)", "m_ss'{a} <- where({1}, m_ss'{a}, -inf)", ATTEND, ADD), np.logical_and
    ),
    "widened by <-": Frame(
        ("m_ss'{a} = where({0}, 0, -inf)", "m_ss'{a} <- where({1}, 0, m_ss'{a})", ATTEND, ADD), np.logical_or
    ),
    "biased by <-": Frame(("m_ss'{a} = where({0}, 0, -inf)", "m_ss'{a} <- m_ss'{a} - (s - s') / 3", ATTEND, ADD)),
    "narrowed after its use": Frame(
        ("m_ss'{a} = where({0}, 0, -inf)", ATTEND, "w_bss'{a} <- where({1}, w_bss'{a}, 0)", ADD),
        np.logical_and,
        lambda first, second: first,
    ),
    "in a layer": Frame(("z_bsd <- Mix(z_bsd, where({0}, 0, -inf))",), layer=LAYER.replace("{changed}", "")),
    "changed in a layer": Frame(
        ("z_bsd <- Mix(z_bsd, where({0}, 0, -inf))",),
        np.logical_and,
        layer=LAYER.replace("{changed}", "m_ss'{a} <- where({1}, m_ss'{a}, -inf)\n  "),
    ),
}


@dataclass(frozen=True)
class Mask:
    """A causal model under a mask: its text, its constructs, and by (s, s', a, l, D) what is allowed and what is seen."""

    text: str
    kinds: frozenset[str]
    allowed: Array
    seen: Array | None

    def leaks(self) -> bool:
        """Some position reads a later one."""
        return bool((self.allowed & (t > s)).any())

    def is_empty_somewhere(self) -> bool:
        """Some position sees nothing at all. Whoever looks at all positions of a sequence sees those after it, too."""
        return self.seen is not None and not self.seen.any(1).all()

    def count_pairs(self, length: int, size: int, turns: int) -> tuple[int, int]:
        """In all turns, how many scores are needed that the mask lets through, and how many weights are not zero."""
        allowed = self.allowed[:length, :length, :, :turns, size - 1]
        seen = allowed if self.seen is None else self.seen[:length, :length, :, :turns, size - 1]
        return int((seen & allowed.any(1, keepdims=True)).any(2).sum()), int(allowed.any(2).sum())


def mask(random: Random) -> Mask:
    """A random mask in a random frame."""
    name = random.choice(list(FRAMES))
    frame = FRAMES[name]
    parts = [condition(random) for _ in range(frame.count)]
    if frame.layer and frame.count == 2:  # a layer is in no loop
        parts[1] = next(part for part in iter(lambda: condition(random), None) if not part.kinds & TURNED)
    kinds = frozenset({name}).union(*(part.kinds for part in parts))
    first, second = (np.broadcast_to(part.values, (LENGTH, LENGTH, HEADS, TURNS, SIZES - 1)) for part in (parts[0], parts[-1]))
    allowed, seen = frame.allowed(first, second), (frame.seen or frame.allowed)(first, second) if frame.softmax else None
    return Mask(_text(frame, parts, kinds, random.random() < 0.3), kinds, allowed, seen)


def _text(frame: Frame, parts: list[Term], kinds: frozenset[str], is_open: bool) -> str:
    """The whole file. A mask in which no head stands is not given heads, nor a loop."""
    heads, turns = bool(kinds & HEADED), bool(kinds & TURNED)
    sizes = {"a": "A" if is_open and "M_a" not in kinds else HEADS, "l": "L" if is_open and "N_l" not in kinds else TURNS}
    axes = ["b: B", "s: S", "d: D", *[f"a: {sizes['a']}"] * heads, *[f"l: {sizes['l']}"] * turns]
    scalars = [line for name, (line, _) in TABLES.items() if name in kinds]
    conditions = [
        part.text + " and s >= 0 and s' >= 0" + " and a >= 0" * heads for part in parts
    ]  # each index of the left side
    spelled = {"a": "a" * heads, "sum": "sum_a " * heads, "changed": "{changed}"}
    return "\n".join(
        [
            *("axes", *(f"  {axis}" for axis in axes)),
            *(("scalars", *(f"  {line}" for line in scalars)) if scalars else ()),
            frame.layer.format(*conditions, **spelled),
            "model Main(z_bsd) -> z_bsd causal in s:",
            *[f"  for l < {sizes['l']}:"] * turns,
            *("  " * turns + "  " + line.format(*conditions, **spelled) for line in frame.lines),
            "  return z_bsd",
        ]
    )


def condition(random: Random) -> Term:
    """What somebody means to be causal, or what is written by chance; under some of them each position sees itself."""
    term, kind = _condition(random), random.random()
    if kind > 0.9:  # the future is read seldom: in few positions, one head, one turn
        conditions = (_rare(random, _number(random, "s", 1)) for _ in range(2))
        rare = _joined("{0} and {1}", np.logical_and, *conditions)
        return _joined("s' <= s or {0}", lambda seldom: (t <= s) | seldom, rare)
    if kind < 0.6:
        term = _joined("({0} or {1})", np.logical_or, term, Term("s' == s", t == s))
    if kind < 0.8:
        term = _joined("({0} and {1})", np.logical_and, Term("s' <= s", t <= s), term)
    return term


def _condition(random: Random, depth: int = 2) -> Term:
    kind = random.random()
    if depth and kind < 0.4:
        template = random.choice(list(JUNCTIONS))
        return _joined(template, JUNCTIONS[template], *(_condition(random, depth - 1) for _ in range(template.count("{"))))
    if kind < 0.5:  # a window
        low, high = _number(random, "s"), _number(random, "s")
        return _joined("{0} < s' <= {1}", lambda low, high: (low < t) & (t <= high), low, high)
    template = random.choice([*COMPARISONS, "{0} <= {1}", "{0} <= {1}"])
    return _joined(template, COMPARISONS[template], _number(random, "s'"), _number(random, "s"))


def _rare(random: Random, number: Term) -> Term:
    divisor, rest = random.choice([(5, 3), (7, 4), (11, 5), (64, 41)])
    return _joined(f"{{0}} mod {divisor} == {rest}", lambda x: x % divisor == rest, _closed(number))


def _number(random: Random, likely: str, depth: int = 2) -> Term:
    if not depth or random.random() < 0.4:
        name = likely if random.random() < 0.7 else random.choice(list(LEAVES))
        return Term(name, LEAVES[name], frozenset({name}) - {"s", "s'", "1", "4"})
    template = random.choice(list(NUMBERS))
    parts = [_number(random, likely, depth - 1), _number(random, random.choice(["s", "1", "4"]), 0)][: 1 + ("{1}" in template)]
    return _joined(template, NUMBERS[template], *map(_closed, parts))


def _closed(term: Term) -> Term:
    """As one factor."""
    return Term(f"({term.text})", term.values, term.kinds) if " " in term.text or "-" in term.text else term


def _joined(template: str, function: Callable[..., Array], *parts: Term) -> Term:
    names = {"W"} if "W" in template else set[str]()
    kinds = frozenset({template, *names}).union(*(part.kinds for part in parts))
    return Term(template.format(*(part.text for part in parts)), function(*(part.values for part in parts)), kinds)
