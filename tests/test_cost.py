"""What does checking cost? Counted in steps, lines run and functions called, and so the same on every machine.

Depth costs nothing, since a loop is checked once; twice the equations cost twice the steps. Times are in tests/benchmarks.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import pytest

import einformer
from einformer.objects import Model
from tests.few import few
from tests.refusals import findings_of

AXES = "axes\n  b: B\n  s: S\n  d: D\n"


def steps(work: Callable[[], object]) -> int:
    """How many lines of Python are run and functions called, those in C too. The first run fills the caches."""
    work()
    count = 0

    def line(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += 1
        return line

    def call(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += 1

    tracer, profiler = sys.gettrace(), sys.getprofile()
    sys.settrace(line)
    sys.setprofile(call)
    try:
        work()
    finally:
        sys.setprofile(profiler)
        sys.settrace(tracer)
    return count


def body(equations: int) -> str:
    """One model, each equation with a name of its own and reading the one before."""
    lines = [f"  z{k + 1}_bsd = tanh(z{k}_bsd) + where(d < {k % 7}, z{k}_bsd, 0)" for k in range(equations - 1)]
    return "\n".join([AXES, "model M(z0_bsd) -> z_bsd causal in s:", *lines, f"  return z{equations - 1}_bsd"])


def layers(equations: int) -> str:
    """As many equations in layers of three, each called once."""
    counted = range(equations // 4)
    lines = [
        f"layer F{k}(z_d) -> z_d:\n  weights W_de, U_ed\n  g_e = z_d W_de\n  h_e = gelu(g_e)\n  return h_e U_ed\n"
        for k in counted
    ]
    calls = [f"  z_bsd <- z_bsd + F{k}(z_bsd)" for k in counted]
    return "\n".join([AXES + "  e: E\n", *lines, "model M(z_bsd) -> z_bsd causal in s:", *calls, "  return z_bsd"])


def attention(equations: int) -> str:
    """Attention after attention, over positions."""
    lines = ["  z_bsd <- z_bsd + Sm_s'(z_bsd' z_bs'd' + where(s' <= s, 0, -inf)) z_bs'd"] * (equations - 1)
    return "\n".join([AXES, "model M(z_bsd) -> z_bsd causal in s:", *lines, "  return z_bsd"])


@pytest.mark.parametrize("write", few([body, layers, attention], {body, layers}))
def test_twice_the_equations_cost_at_most_a_tenth_more_than_twice(write: Callable[[int], str]) -> None:
    once, twice = write(40), write(80)
    assert not findings_of(twice)
    assert steps(partial(findings_of, twice)) <= 2.2 * steps(partial(findings_of, once))


def changes(count: int) -> str:
    """Numbers of positions, of which each stands twice in the next."""
    lines = ["  h_s <- h_s / 2 + sin(h_s)"] * count
    scores = "  w_bss' = Sm_s'(z_bsd z_bs'd h_s' + where(s' <= s, 0, -inf))"
    return "\n".join([AXES, "model M(z_bsd) -> z_bsd causal in s:", "  h_s = s", *lines, scores, "  return w_bss' z_bs'd"])


def kept(text: str) -> object:
    return einformer.parse(text).bind(D=3).kept


def test_a_number_that_stands_twice_in_the_next_is_followed_once() -> None:
    assert steps(partial(kept, changes(10))) <= 4 * steps(partial(kept, changes(5)))


def counts(text: str) -> object:
    return einformer.parse(text).bind(D=3).flops(convention="exact", B=2, S=7)


def test_a_number_that_stands_twice_in_the_next_is_counted_once() -> None:
    """Also where a condition asks it."""
    texts = [changes(count).replace("s' <= s", "s' <= s and h_s' < 3") for count in (6, 12)]
    assert steps(partial(counts, texts[1])) <= 4 * steps(partial(counts, texts[0]))


GPT2 = {"D": 12, "A": 3, "V": 11, "K": 5}
GEMMA = {"D": 5, "A": 2, "G": 1, "H": 6, "F": 3, "V": 5}
DEEPSEEK = {
    "D": 6, "A": 2, "N": 3, "E": 2, "U": 3, "C": 3, "R": 3, "F": 3, "X": 6, "G": 3, "M": 2, "Z": 2, "V": 5, "P": 1, "T": 2,
    "Y": 2,
}  # fmt: skip


def bound(name: str, **sizes: Any) -> Model:
    """A shipped text, read, checked and bound."""
    return einformer.load(name).bind(**sizes)


@pytest.mark.parametrize(("name", "sizes"), [("gpt2", GPT2), ("gemma2", GEMMA), ("deepseek_v3", DEEPSEEK)])
def test_a_deeper_model_costs_no_more_to_check(name: str, sizes: dict[str, int]) -> None:
    """A loop is checked once: 96 layers within a tenth of 12."""
    shallow, deep = (steps(partial(bound, name, **sizes, L=depth)) for depth in (12, 96))
    assert abs(deep - shallow) <= 0.1 * shallow


def test_a_window_for_each_layer_costs_little() -> None:
    shallow, deep = (steps(partial(bound, "gemma2", **GEMMA, L=depth, W=[4, 8] * (depth // 2))) for depth in (12, 96))
    assert deep <= 1.1 * shallow


def singles(count: int) -> list[int]:
    return [len("") for _ in range(count)]


def pairs(count: int) -> list[int]:
    return [len("") for _ in range(count) for _ in range(count)]


def test_steps_grow_as_the_work_does() -> None:
    """Twice as many are twice as many, and their pairs four times."""
    assert steps(partial(singles, 4000)) / steps(partial(singles, 2000)) == pytest.approx(2, abs=0.1)
    assert steps(partial(pairs, 80)) / steps(partial(pairs, 40)) == pytest.approx(4, abs=0.2)
