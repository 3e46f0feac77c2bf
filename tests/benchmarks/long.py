"""Times prompts of up to 32,768 positions, each in a process of its own, beside what the equations count."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from functools import partial

import einformer as ein
from einformer.objects import Model
from tests.benchmarks.timing import Place, Row, write_seconds

LENGTHS = (4096, 8192, 16384, 32768)
MIB = 1 << 20


def bind(name: str) -> Model:
    """A small model: attention, attention in a window, or states."""
    if name == "mamba2_decoder":
        return ein.load(name).bind(D=64, V=256, L=2, C=4, G=1, J=4, H=16, N=16)
    window = {"W": 1024} if name == "mistral" else {}
    return ein.load(name).bind(D=64, A=4, G=2, F=128, L=2, V=256, **window)


def prefill(name: str, length: int) -> None:
    """Prints the seconds of a prompt, and by how many bytes the process grew."""
    import resource
    import time

    import torch

    torch.manual_seed(0)
    module = bind(name).build().eval()
    with torch.no_grad():
        module(torch.zeros(1, 64, dtype=torch.long))
        before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
        module(torch.zeros(1, length, dtype=torch.long))
        seconds = time.perf_counter() - start
    print(seconds, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)


def run_prefill(name: str, length: int) -> tuple[float, float]:
    command = [sys.executable, "-m", "tests.benchmarks.long", name, str(length)]
    seconds, grown = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return float(seconds), float(grown)


def measure(place: Place, lengths: tuple[int, ...] = LENGTHS) -> Iterator[Row]:
    for name in ("llama", "mistral", "mamba2_decoder"):
        flops = partial(bind(name).flops, B=1)
        last: tuple[float, float, int] | None = None
        for length in lengths:
            seconds, grown = run_prefill(name, length)
            counted = flops(S=length)
            row = {"model": f"`{name}`", "S": f"{length}", "time": write_seconds(seconds), "memory": f"{grown / MIB:.0f} MiB"}
            if last is not None:
                row |= {"time grows by": f"{seconds / last[0]:.2f}", "FLOPs grow by": f"{counted / last[2]:.2f}"}
                row |= {"memory grows by": f"{grown / last[1]:.2f}"}
            yield row
            last = seconds, grown, counted


if __name__ == "__main__":
    prefill(sys.argv[1], int(sys.argv[2]))
