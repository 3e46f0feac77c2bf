"""Times what the machine does at most: large matrix products, reading and copying memory."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

import torch

from tests.benchmarks.timing import Place, Row, Work, time_works

SIZE, BYTES = 2048, 1 << 30


def measure(place: Place) -> Iterator[Row]:
    kind = getattr(torch, place.dtype)
    left, right = (torch.randn(SIZE, SIZE, device=place.device, dtype=kind) for _ in range(2))
    source = torch.ones(BYTES // kind.itemsize, device=place.device, dtype=kind)
    target = torch.empty_like(source)
    works: dict[str, tuple[Work, float, str]] = {
        f"product of two {SIZE} × {SIZE} matrices": (lambda: left @ right, 2 * SIZE**3 / 1e9, "GFLOP/s"),
        "reading 1 GiB": (source.sum, BYTES / 1e9, "GB/s"),
        "copying 1 GiB, read and written": (lambda: target.copy_(source), 2 * BYTES / 1e9, "GB/s"),
    }
    seconds = time_works({name: work for name, (work, _, _) in works.items()}, place)
    for name, (_, amount, unit) in works.items():
        yield {"work": name, "rate": f"{amount / statistics.median(seconds[name]):.1f} {unit}"}
