"""Draws counts as PNG or SVG: FLOPs, memory, the cache, the roofline."""

from __future__ import annotations

import contextlib
import importlib
import itertools
import os
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from einformer.errors import fail
from einformer.interpreters.count.conventions import Convention, Device, Precision
from einformer.interpreters.count.roofline import TimeBound
from einformer.interpreters.count.rules import Recompute
from einformer.objects import Model
from einformer.report import series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg")
# Okabe and Ito's colours, which the colour-blind can tell apart.
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")
_INK, _FAINT = "#222222", "#707070"
_WIDE = 110  # letters of a line of small print
_STYLE: dict[Any, Any] = {
    "font.size": 11,
    "axes.edgecolor": _FAINT,
    "axes.labelcolor": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 12,
    "text.color": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "legend.frameon": False,
    "svg.hashsalt": "einformer",  # the same picture is the same file
}


@dataclass(frozen=True, slots=True)
class PlottedModel:
    """A model to draw, and the way to count it."""

    name: str
    model: Model
    batch: int
    length: int
    convention: Convention
    precision: Precision
    recompute: Recompute
    device: Device

    # Returns `gpt2-xl, 1,557,611,200 parameters`.
    @property
    def title(self) -> str:
        return f"{self.name}, {self.model.num_parameters:,} parameters"


# Imports a library of an extra. Raises EinformerError E803.
def library(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise fail("E803", f"`{name}` is not installed", fix="`pip install 'einformer[plot]'`") from error


# Draws one picture, or all of them in one, into a file, which appears once it is complete. Raises EinformerError E803, E804.
def plot(subject: PlottedModel, kind: str, path: Path) -> None:
    matplotlib = library("matplotlib")
    drawn = list(KINDS.values()) if kind == "all" else [KINDS[kind]]
    with matplotlib.rc_context(_STYLE):
        figure = _make_figure(subject, drawn)
        with open_whole(path) as beside:
            figure.savefig(beside, format=path.suffix[1:], dpi=160, metadata={"Date": None} if path.suffix == ".svg" else None)


def _make_figure(subject: PlottedModel, drawn: list[Callable[[Axes, PlottedModel], None]]) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 5.4 * len(drawn) + 0.6), layout="constrained")
    figure.suptitle(subject.title, x=0.01, ha="left", fontsize=13, fontweight="bold")
    for axes, draw in zip(figure.subplots(len(drawn), squeeze=False)[:, 0], drawn, strict=True):
        draw(axes, subject)
    return figure


# A file beside the target replaces it once it is complete.
@contextlib.contextmanager
def open_whole(path: Path) -> Iterator[Path]:
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield beside
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


# ----------------------------------------------------------------------------------------------------------- pictures


def _draw_flops(axes: Axes, subject: PlottedModel) -> None:
    lengths = series.lengths(subject.model)
    _draw_stacked(axes, lengths, series.shares(subject.model, subject.batch, lengths, subject.convention))
    axes.set(ylim=(0, 100), ylabel="share of forward FLOPs (%)")
    _set_title(axes, f"Where FLOPs go as sequences grow, B = {subject.batch}", str(subject.convention))


def _draw_memory(axes: Axes, subject: PlottedModel) -> None:
    lengths, size = series.lengths(subject.model), subject.device.memory / 1e9
    components = series.components(subject.model, subject.batch, lengths, subject.precision.name, subject.recompute)
    _draw_stacked(axes, *series.readable(lengths, components, size))
    axes.set(ylabel="memory (GB, 10⁹ bytes)")
    axes.set_ylim(bottom=0)
    if size < axes.get_ylim()[1]:
        axes.axhline(size, color=_INK, linestyle="--", linewidth=1)
        axes.annotate(
            f"{subject.device.title}: {size:g} GB", (lengths[0], size), (6, 4), textcoords="offset points", fontsize=9
        )
    precision = f"{subject.precision.name} ({subject.precision.source})"
    caption = f"{precision}; recomputation: {subject.recompute}; activations: Korthikanti et al. 2022"
    _set_title(axes, f"What a training step holds in memory, B = {subject.batch}", caption)


def _draw_cache(axes: Axes, subject: PlottedModel) -> None:
    lengths = series.lengths(subject.model)
    needed, allocated = series.cache(subject.model, subject.batch, lengths, subject.precision)
    needed = needed or {"nothing is kept": [0.0] * len(lengths)}
    axes.stackplot(lengths, *needed.values(), labels=list(needed), colors=_COLOURS, edgecolor="white", linewidth=0.6)
    alike: dict[tuple[float, ...], list[str]] = {}
    for title, sizes in allocated.items():
        alike.setdefault(tuple(sizes), []).append(title)
    for colour, (line, titles) in zip(itertools.cycle(_COLOURS[-2::-1]), alike.items(), strict=False):
        axes.plot(lengths, line, color=colour, linestyle="--", linewidth=1.5, label="\n".join(titles))
    axes.set(xlim=(0, lengths[-1]), xlabel="positions of a row", ylabel="cache (GB, 10⁹ bytes)")
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_formatter(lambda value, _: f"{int(value):,}")
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=9)
    caption = f"areas: what the equations read again, as {subject.precision.dtype}; lines: what engines allocate"
    _set_title(axes, f"The cache as a text grows, B = {subject.batch}", caption)


# The legend stands beside the areas in their order.
def _draw_stacked(axes: Axes, lengths: list[int], stack: series.Series) -> None:
    axes.stackplot(lengths, *stack.values(), labels=list(stack), colors=_COLOURS, edgecolor="white", linewidth=0.6)
    axes.set_xscale("log", base=2)
    axes.set(xlim=(lengths[0], max(lengths[-1], lengths[0] + 1)), xlabel="sequence length S (tokens)")
    axes.xaxis.set_major_formatter(lambda value, _: f"{int(value):,}")
    handles, labels = axes.get_legend_handles_labels()
    axes.legend(handles[::-1], labels[::-1], loc="center left", bbox_to_anchor=(1.01, 0.5))


def _draw_roofline(axes: Axes, subject: PlottedModel) -> None:
    model, device, rate = subject.model, subject.device, subject.device.rate(subject.precision)
    products = series.points(model, subject.batch, subject.length, subject.precision, subject.convention)
    *whole, _ = series.bounds(model, subject.batch, subject.length, subject.precision.name, device)
    every = [*(point.intensity for point in products), *(bound.flops / bound.moved for bound in whole), rate / device.bandwidth]
    ends = min(every) / 6, max(every) * 6
    roof = _Roof(axes, device.bandwidth, rate)
    roof.draw(*ends)
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=(roof.at(ends[0]), rate * 5))
    axes.set(xlabel="arithmetic intensity (FLOPs per byte moved)", ylabel="rate at most (FLOP/s)")
    parts = list(series.shares(model, 1, [2], subject.convention))  # in the order, and so in the colours, of their shares
    for point in sorted(products, key=lambda point: parts.index(point.part)):
        roof.point(point, parts)
    for bound in whole:
        roof.whole(bound)
    handles, labels = axes.get_legend_handles_labels()
    once = dict(zip(labels, handles, strict=True))
    axes.legend(once.values(), once.keys(), loc="center left", bbox_to_anchor=(1.01, 0.5))
    rates = f"{rate / 1e12:g} TFLOP/s in {subject.precision.name}, {device.bandwidth / 1e12:g} TB/s"
    points = f"points: equations where nothing is fused ({subject.convention.name}); stars: what must be computed and moved"
    caption = f"{device.title}, {rates} ({device.source}); {points}"
    _set_title(axes, f"Roofline, B = {subject.batch}, S = {subject.length:,}: bounds, not estimates", caption)


@dataclass(frozen=True, slots=True)
class _Roof:
    """The limits of a device, and the rates under them."""

    axes: Axes
    bandwidth: float
    rate: float

    def at(self, intensity: float) -> float:
        return min(self.rate, intensity * self.bandwidth)

    def draw(self, left: float, right: float) -> None:
        line = [left, self.rate / self.bandwidth, right]
        self.axes.plot(line, [self.at(x) for x in line], color=_INK, linewidth=1.5, zorder=1)

    # A colour stands for each part, a shape for each step. Later points at the same place are smaller.
    def point(self, point: series.Point, parts: list[str]) -> None:
        k = parts.index(point.part)
        self.axes.scatter(
            [point.intensity], [self.at(point.intensity)], 35 * (len(parts) - k) + 25, _COLOURS[k % len(_COLOURS)],
            marker=_MARKERS[point.step], edgecolor="white", linewidth=0.8, zorder=2, label=f"{point.part}, {point.step}",
        )  # fmt: skip

    def whole(self, bound: TimeBound) -> None:
        x = bound.flops / bound.moved
        self.axes.scatter([x], [self.at(x)], marker="*", s=190, color=_INK, edgecolor="white", zorder=3)
        level = x > self.rate / self.bandwidth
        self.axes.annotate(
            f"{bound.work} as a whole:\nat least {bound.time}", (x, self.at(x)),
            (0, -12) if level else (12, -4), textcoords="offset points", ha="center" if level else "left", va="top", fontsize=9,
        )  # fmt: skip


_MARKERS = {"prefill": "o", "decode": "s"}
KINDS: dict[str, Callable[[Axes, PlottedModel], None]] = {
    "flops": _draw_flops,
    "memory": _draw_memory,
    "cache": _draw_cache,
    "roofline": _draw_roofline,
}


def _set_title(axes: Axes, title: str, caption: str) -> None:
    lines = textwrap.wrap(caption, _WIDE)
    axes.set_title(title, pad=8 + 11 * len(lines))
    axes.annotate("\n".join(lines), (0, 1), (0, 6), "axes fraction", "offset points", va="bottom", fontsize=8, color=_FAINT)
