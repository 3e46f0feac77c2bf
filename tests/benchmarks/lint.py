"""How long does it take to lint 5,000 lines of notes? `python -m tests.benchmarks lint`: medians: of the processor, without and with a legend, and cold."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
import timeit
from pathlib import Path

from einformer.errors import Source
from einformer.notes.checking import Checked
from einformer.notes.files import lint_text
from einformer.notes.settings import Settings

LINES, NAMES = 5_000, "zxhtnprcgo"
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


def measure(source: Source, settings: Settings) -> tuple[Checked, list[float]]:
    """The result, and five times of the processor."""
    times = timeit.repeat(lambda: lint_text(source, settings), number=1, repeat=5, timer=time.process_time)
    return lint_text(source, settings), times


def main() -> None:
    """Prints the table."""
    text = notes()
    source = Source("notes.tex", text)
    for settings in (Settings(), Settings().with_legend("b: B, s: S, d: D, a: A, e: D/A")):
        checked, times = measure(source, settings)
        read, found = checked.counts()[""], len(checked.findings)
        print(f"{statistics.median(times):8.3f}  {len(text.splitlines()):,} lines, {read:,} equations read, {found} findings")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "notes.tex"
        path.write_text(text, encoding="utf-8")
        command = [sys.executable, "-c", "import sys; from einformer.cli import main; main(['lint', sys.argv[1]])", str(path)]
        cold = timeit.repeat(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL), number=1, repeat=3)
    print(f"{statistics.median(cold):8.3f}  the same, `einformer lint notes.tex`")
