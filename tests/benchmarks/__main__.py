"""How long does einformer keep a processor busy, and how does that grow? Median seconds of it: `make bench`.

With names, `python -m tests.benchmarks forward training decode emit`: GPT-2 beside transformers; `llama mixtral`: small ones of
those; `count`: what it takes to count GPT-2; `contracts`: what a contract costs a call; `lint`: 5,000 lines of notes;
`ranks`: the ranks of a mesh.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import timeit
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module

import einformer as ein
from einformer.architectures import texts
from einformer.interpreters.torch.plan import PLANS
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


def processor() -> float:
    """Seconds of the processor so far, of this process and of those that it started: another's work makes no difference."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def every_text() -> None:
    for name in texts.shipped():
        ein.load(name)


def rows() -> Iterator[tuple[str, Callable[[], object], int]]:
    """What is timed, and how often."""
    command = "import sys; from einformer.cli import main; sys.exit(main())"
    yield "python -c pass", partial(run, "-c", "pass"), 15
    yield "python -c 'import numpy'", partial(run, "-c", "import numpy"), 15
    yield "python -c 'import einformer'", partial(run, "-c", "import einformer"), 15
    yield "python -c 'import torch'", partial(run, "-c", "import torch"), 5
    for call in ("--help", "check gpt2", "count gpt2 --json", "latex gpt2"):
        yield f"einformer {call}", partial(run, "-c", command, *call.split()), 15
    for call in ("list", "notes"):
        yield f"einformer {call}", partial(run, "-c", command, *call.split()), 3
    yield "parse and check every text that ships", every_text, 5
    for plan in PLANS:
        yield f"emit gpt2-xl, {plan}", partial(ein.model("gpt2-xl").source, plan), 15
    spec = ein.load("gpt2")
    yield "parse and check gpt2", partial(ein.load, "gpt2"), 15
    yield "spec.latex()", spec.latex, 15
    for equations in (50, 100, 200):
        yield f"parse and check {equations} equations", partial(ein.parse, long(equations)), 5
    for equations in (200, 400, 800):
        yield f"parse and check {equations} equations, each with a name", partial(ein.parse, body(equations)), 3
    for layers in (12, 96):
        yield f"bind and weight_shapes of {layers} layers", partial(shapes, layers), 5


ALONE = ("count", "contracts", "lint", "ranks")  # each a module with its own rows


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
        print(f"{statistics.median(timeit.repeat(timed, repeat=times, number=1, timer=processor)):8.4f} s  {label}")
