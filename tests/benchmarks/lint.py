"""Times the linting of 5,000 lines of notes, in-process and as a command."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
import timeit
from collections.abc import Iterator
from pathlib import Path

from einformer.errors import Source
from einformer.notes.files import lint_text
from einformer.notes.settings import Settings
from tests.benchmarks.hosts import read_processor
from tests.benchmarks.timing import Place, Row, write_seconds

LINES, NAMES = 5_000, "zxhtnprcgo"
LEGEND = "b: B, s: S, d: D, a: A, e: D/A"
SECTION = r"""
\section{Attention %d}

Tokens of shape `(B, S, D)`, $z_{bsd}$, have queries, keys and values for each of the heads $a \in \{0, \dots, A-1\}$,
whose features are $e$; the words between the formulas are as many as in notes, which is to say three lines in four.

\begin{align}
  q_{bsea} &= z_{bsd} Q_{dea} , \quad k_{bsea} = z_{bsd} K_{dea} , \quad v_{bsea} = z_{bsd} V_{dea} \\
  w_{bss'a} &= \mathrm{softmax}_{s'} \left( \frac{q_{bsea} k_{bs'ea}}{\sqrt{D/A}} + m_{ss'} \right)
\end{align}

The mask $m_{ss'}$ is causal. It is zero for $s' \leq s$, so that nothing depends on what comes later, and the weights
re-weight the values, whose heads are put side by side. After that a matrix mixes them, and the result is added to $z_{bsd}$:

\[ y_{bsea} = w_{bss'a} v_{bs'ea} , \quad u_{bsd} = y_{bs(ea)} , \quad z_{bsd} \leftarrow z_{bsd} + u_{bsd'} O_{d'd} \]

This costs $8 B S D^2 + 4 B S^2 D$ operations, and $4 D^2$ parameters.
"""


def notes() -> str:
    """5,000 lines with formulas in two of three; a tensor has another name in each of ten sections."""
    count = LINES // SECTION.count("\n")
    return "".join((SECTION % number).replace("z_", f"{NAMES[number % len(NAMES)]}_") for number in range(count))


def measure(place: Place) -> Iterator[Row]:
    text = notes()
    source = Source("notes.tex", text)
    for legend in ("", LEGEND):
        settings = Settings().with_legend(legend) if legend else Settings()
        times = timeit.repeat(lambda s=settings: lint_text(source, s), number=1, repeat=5, timer=time.process_time)  # type: ignore[misc]
        checked = lint_text(source, settings)
        work = f"{len(text.splitlines()):,} lines, {'a' if legend else 'no'} legend"
        row = {"equations": f"{checked.counts().total():,}", "judged": f"{checked.counts()['']:,}"}
        yield {"work": work} | row | {"processor time": write_seconds(statistics.median(times))}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "notes.tex"
        path.write_text(text, encoding="utf-8")
        command = [sys.executable, "-c", "import sys; from einformer.cli import main; main(['lint', sys.argv[1]])", str(path)]
        cold = timeit.repeat(
            lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL), number=1, repeat=3, timer=read_processor
        )
    yield {
        "work": "the same as a command, `einformer lint notes.tex`",
        "processor time": write_seconds(statistics.median(cold)),
    }
