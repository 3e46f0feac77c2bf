"""How long does einformer make one wait, and how does that grow? Median seconds: `make bench`.

With names, `python -m tests.benchmarks forward training decode emit`: GPT-2 beside transformers; `llama mixtral`: small ones of
those; `count`: what it takes to count GPT-2; `contracts`: what a contract costs a call; `lint`: 5,000 lines of notes.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import timeit
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module

import einformer as ein
from tests.test_cost import body

LONG = """
axes
  b: B
  s: S
  d: D
model Long(z_bsd) -> z_bsd causal in s:
  weights W_dd'
  m_ss' = where(s' <= s, 0, -inf)
"""
EQUATION = "  z_bsd <- z_bsd + Sm_s'(z_bsd' z_bs'd' + m_ss') z_bs'd'' W_dd''\n"
GPT2 = {"D": 768, "A": 12, "V": 50257, "K": 1024}


def long(equations: int) -> str:
    """A model of so many lines of attention."""
    return LONG + EQUATION * equations + "  return z_bsd\n"


def shapes(layers: int) -> dict[str, tuple[int, ...]]:
    return ein.load("gpt2").bind(**GPT2, L=layers).weight_shapes()


def run(*arguments: str) -> None:
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)


def rows() -> Iterator[tuple[str, Callable[[], object], int]]:
    """What is timed, and how often."""
    command = "import sys; from einformer.cli import main; sys.exit(main())"
    yield "python -c pass", partial(run, "-c", "pass"), 15
    yield "python -c 'import numpy'", partial(run, "-c", "import numpy"), 15
    yield "python -c 'import einformer'", partial(run, "-c", "import einformer"), 15
    yield "einformer check gpt2", partial(run, "-c", command, "check", "gpt2"), 15
    yield "einformer latex gpt2", partial(run, "-c", command, "latex", "gpt2"), 15
    spec = ein.load("gpt2")
    yield "parse and check gpt2", partial(ein.load, "gpt2"), 15
    yield "spec.latex()", spec.latex, 15
    for equations in (50, 100, 200):
        yield f"parse and check {equations} equations", partial(ein.parse, long(equations)), 5
    for equations in (200, 400, 800):
        yield f"parse and check {equations} equations, each with a name", partial(ein.parse, body(equations)), 3
    for layers in (12, 96):
        yield f"bind and weight_shapes of {layers} layers", partial(shapes, layers), 5


ALONE = ("count", "contracts", "lint")  # each a module with its own rows


if __name__ == "__main__":
    if len(sys.argv) == 2 and sys.argv[1] in ALONE:
        import_module(f"tests.benchmarks.{sys.argv[1]}").main()
        sys.exit()
    if sys.argv[1:]:
        from tests.benchmarks import families, gpt2

        gpt2.main([name for name in sys.argv[1:] if name in gpt2.BENCHMARKS])
        families.main([name for name in sys.argv[1:] if name not in gpt2.BENCHMARKS])
        sys.exit()
    for label, timed, times in rows():
        print(f"{statistics.median(timeit.repeat(timed, repeat=times, number=1)):8.4f} s  {label}")
