"""What does a specification compute of numbers that are drawn for it? Every tensor of one evaluation, by its meaning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from einformer.language.printer import show
from einformer.language.sizes import Legend
from einformer.language.tree import Layer, Tensor
from einformer.language.walk import equations
from einformer.objects import Specification
from einformer.testing import sizes, values
from einformer.testing.subject import subject

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Trial:
    """The head of a layer, the sizes that were given or drawn, and its tensors: what it is given, what it defines."""

    head: str
    sizes: Mapping[str, int]
    tensors: Mapping[str, Array]
    output: Array
    legend: Legend

    def rows(self) -> Iterator[tuple[str, str, str, str]]:
        """The cells of a table: a tensor, its shape, the mean and the deviation of what is finite in it."""
        for name, array in self.tensors.items():
            finite = array[np.isfinite(array)]
            found = (f"{finite.mean():.3g}", f"{finite.std():.3g}") if finite.size else ("none", "none")
            yield name, " × ".join(map(str, array.shape)), *found

    def data(self) -> dict[str, Any]:
        """For `--json`."""
        columns = ("tensor", "shape", "mean", "deviation")
        rows = [dict(zip(columns, row, strict=True)) for row in self.rows()]
        return {"layer": self.head, "sizes": dict(self.sizes), "tensors": rows, "output": self.output.tolist()}


def trial(spec: Specification, given: Mapping[str, int], seed: int) -> Trial:
    """A layer run once, in float64; sizes that are not given are small and different. Raises EinformerError E601 to E605.

    >>> from einformer.targets import parse
    >>> trial(parse("axes\\n  d: D\\nlayer Twice(x_d) -> y_d:\\n  y_d = 2 x_d"), {"D": 3}, 0).output.shape
    (3,)
    """
    about = subject(spec, given)
    about = about.bound(sizes.drawn(about.legend, about.letters(), about.turns()))
    inputs, weights = values.inputs(about, {}, seed), values.weights(about, seed)
    trace = dict[str, Array]()
    output = about.value(inputs, weights, trace=trace)
    head = f"{spec.name}({', '.join(map(show, spec.layer.formals))}) -> {show(spec.layer.output)}"
    drawn: dict[str, Array] = {name: np.asarray(array) for name, array in (inputs | weights).items()}
    written = _written(spec.layer)
    tensors = {written.get(name, name): array for name, array in (drawn | trace).items()}
    return Trial(head, about.sizes(), tensors, output, about.legend)


def _written(layer: Layer) -> dict[str, str]:
    """The tensors of a layer with their indices, by name."""
    weights = [Tensor(weight.name, weight.indices) for weight in layer.weights]
    defined = [equation.left for equation in equations(layer.body) if isinstance(equation.left, Tensor)]
    return {tensor.name: show(tensor) for tensor in (*layer.formals, *weights, *defined)}
