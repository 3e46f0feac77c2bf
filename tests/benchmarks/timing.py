"""Times candidates in turn, and writes their medians and ratios as the cells of a row."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Work = Callable[[], object]
Row = dict[str, str]  # a cell for each column

WARM, LEAST, MOST, BUDGET = 1, 5, 31, 10.0  # rounds that do not count, rounds that do, and seconds of a row
UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


@dataclass(frozen=True, slots=True)
class Place:
    """The device, and the dtype of weights."""

    device: str = "cpu"
    dtype: str = "float32"

    def wait(self) -> None:
        if self.device == "cuda":
            import torch

            torch.cuda.synchronize()


CPU, CUDA = Place(), Place("cuda", "bfloat16")


def describe_error(error: BaseException) -> str:
    """The kind of the error and its first line."""
    lines = str(error).strip().splitlines() or [""]
    return f"failed: {type(error).__name__}: {lines[0]}".replace("|", "\\|")


def time_works(works: Mapping[str, Work], place: Place = CPU, budget: float = BUDGET) -> dict[str, list[float]]:
    """Seconds of each, round by round; every second round runs backwards, so that other load meets all of them."""
    seconds: dict[str, list[float]] = {name: [] for name in works}
    start, rounds, turn = time.perf_counter(), MOST, -WARM
    while turn < rounds:
        for name in list(works)[:: -1 if turn % 2 else 1]:
            place.wait()
            begin = time.perf_counter()
            works[name]()
            place.wait()
            seconds[name].append(time.perf_counter() - begin)
        turn += 1
        if turn == 0:
            rounds = min(MOST, max(LEAST, int(budget * WARM / (time.perf_counter() - start))))
    return {name: taken[WARM:] for name, taken in seconds.items()}


def compare(work: str, makers: Mapping[str, Callable[[], Work]], place: Place = CPU, budget: float = BUDGET) -> Row:
    """Makes the works and times them. The first is ours; beside the time of another stands the ratio of ours to it."""
    works, cells = dict[str, Work](), Row()
    for name, make in makers.items():
        try:
            works[name] = make()
            works[name]()
        except Exception as error:
            works.pop(name, None)
            cells[name] = describe_error(error)
    cells |= write_cells(time_works(works, place, budget), next(iter(makers)))
    return {"work": work} | {name: cells[name] for name in makers}


def write_cells(seconds: Mapping[str, list[float]], first: str) -> Row:
    """The median of each, and the median over the rounds of the ratio of the first to it."""
    ours, cells = seconds.get(first), Row()
    for name, taken in seconds.items():
        cells[name] = write_seconds(statistics.median(taken))
        if ours is not None and name != first:
            cells[name] += f" ({statistics.median(a / b for a, b in zip(ours, taken, strict=True)):.2f})"
    return cells


def write_seconds(seconds: float) -> str:
    scale, unit = next((pair for pair in UNITS if seconds >= pair[0]), UNITS[-1])
    return f"{seconds / scale:.3g} {unit}" if seconds / scale < 1000 else f"{seconds / scale:.0f} {unit}"
