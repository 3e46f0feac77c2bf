"""Do all interpreters agree on loops in loops? On random ones, which change two tensors, and read what they and others left."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from random import Random

import pytest

import einformer
from tests.few import few
from tests.oracles.interpreters import disagreements
from tests.small import inputs, weights

BLOCK, MANY = 5, 20  # texts in a block, and blocks, of which one is quick


class Loops:
    """The body of a model, in which x and y change."""

    def __init__(self, random: Random) -> None:
        self.random, self.names = random, (f"w{k}" for k in itertools.count())

    def statements(self, around: str = "", indent: str = "  ") -> Iterator[str]:
        for _ in range(self.random.randint(1, 3)):
            if len(around) < 2 and self.random.random() < 0.5:
                letter = self.random.choice([x for x in "lm" if x not in around])
                yield f"{indent}for {letter} < {self.random.choice([letter.upper()] * 3 + ['1', '2'])}:"
                yield from self.statements(around + letter, indent + "  ")
            else:
                yield from (indent + line for line in self.change(around))

    def change(self, around: str) -> Iterator[str]:
        """One tensor by the other or by itself, here, earlier, in some turns, or over all that a window shows."""
        to, of = self.random.choice("xy"), self.random.choice("xy")
        back = self.random.choice(["1", "2", *around * 2, *(f"2 {x}" for x in around), *(f"{x} - 1" for x in around)])
        earlier, new = f"{of}_{{b(s - {back})d}}", next(self.names)
        turns = [f"{x} == {number}" for x in around for number in (0, 1)] or ["s > 1"]
        first = self.random.choice(["0", *(f"s - {x}" for x in around), "s - 1"])
        choice = self.random.choice(["shift", "shift", "shift", "same", "turn", "window"])
        if choice == "window":
            yield f"{new}_bss' = Sm_s'({of}_bsd {to}_bs'd + where({first} <= s' <= s, 0, -inf))"
        read = {
            "shift": f"tanh({earlier})",
            "same": f"tanh({of}_bsd)",
            "turn": f"where({self.random.choice(turns)}, {earlier}, {to}_bsd)",
            "window": f"{new}_bss' {of}_bs'd",
        }
        yield f"{to}_bsd <- {to}_bsd / 2 + {read[choice]}"

    def text(self) -> str:
        body = "\n".join([*self.statements(), *self.statements()])
        axes = ["b: B", "s: S", "d: D", *(f"{x}: {x.upper()}" for x in "lm" if f"for {x}" in body)]
        legend = "".join(f"  {axis}\n" for axis in axes)
        first = "  x_bsd = tanh(z_bsd)\n  y_bsd = z_bsd / 2"
        return f"axes\n{legend}\nmodel Main(z_bsd) -> z_bsd causal in s:\n{first}\n{body}\n  return x_bsd + y_bsd\n"


@pytest.mark.parametrize("block", few(range(MANY), {0}))
def test_loops_in_loops_are_computed_whole_and_in_parts(block: int) -> None:
    for seed in range(BLOCK * block, BLOCK * (block + 1)):
        random = Random(seed)
        text = Loops(random).text()
        sizes = {"D": 2} | {name: random.randint(1, 3) for name in "LM" if f": {name}\n" in text}
        bound = einformer.parse(text).bind(**sizes)
        arrays = inputs(bound, {"B": 2, "S": 6, **sizes}, seed)
        expected = bound.reference(*arrays, weights=weights(bound))
        departures = dict(disagreements(bound, arrays, expected, random))
        assert not departures, f"{text}\n{sizes} {departures}"
