"""Which whole text do a few lines stand for? Axes in a row, a layer or model by its head, its body indented."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from numpy.typing import NDArray

import einformer
from einformer.language.tree import Layer, Name, Spec, Tensor
from einformer.objects import Specification

Array = NDArray[Any]


def text(axes: str, *lines: str, scalars: str = "") -> str:
    """A text; an axis is its letter alone, of the size `S` for `s`, or a row of a legend, `e: H = D / A`.

    >>> print(text("s, e: H", "layer Twice(x_se) -> x_se:", "return 2 x_se"))
    axes
      s: S
      e: H
    layer Twice(x_se) -> x_se:
      return 2 x_se
    """
    rows = [row if ":" in row else f"{row}: {row.upper()}" for row in axes.split(", ")]
    blocks = ["axes", *(f"  {row}" for row in rows)]
    blocks += ["scalars", *(f"  {row}" for row in scalars.split("; "))] if scalars else []
    return "\n".join([*blocks, *(line if line.startswith(("layer ", "model ")) else f"  {line}" for line in lines)])


def spec(axes: str, *lines: str, scalars: str = "") -> Specification:
    """The checked text."""
    return einformer.parse(text(axes, *lines, scalars=scalars))


def callable_layers(names: Iterable[str]) -> Spec:
    """A library that has layers of these names, and nothing else."""
    return Spec("", (), (), tuple(Layer(name, (), (Tensor("z", ()),), Name("y"), (), ()) for name in names))
