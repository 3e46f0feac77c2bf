"""Evaluates a specification once on random numbers, and keeps every tensor."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from einformer.errors import fail
from einformer.language.printer import show
from einformer.language.sizes import Legend
from einformer.language.specialise import specialise
from einformer.language.tree import Layer, Tensor
from einformer.language.walk import equations, letters_in
from einformer.objects import Specification
from einformer.testing import prime_sizes, values
from einformer.testing.subject import Subject, isolate

Array = NDArray[np.float64]
MOST_NUMBERS = 10**8


@dataclass(frozen=True, slots=True)
class Trial:
    """A layer, its sizes, given or drawn, and its tensors: the inputs and the definitions."""

    head: str
    sizes: Mapping[str, int]
    tensors: Mapping[str, Array]
    output: Array
    legend: Legend

    # A tensor, its shape, and the mean and deviation of its finite numbers.
    def rows(self) -> Iterator[tuple[str, str, str, str]]:
        for name, array in self.tensors.items():
            finite = array[np.isfinite(array)]
            mean_and_deviation = (f"{finite.mean():.3g}", f"{finite.std():.3g}") if finite.size else ("none", "none")
            yield name, " × ".join(map(str, array.shape)), *mean_and_deviation

    def data(self) -> dict[str, Any]:
        columns = ("tensor", "shape", "mean", "deviation")
        rows = [dict(zip(columns, row, strict=True)) for row in self.rows()]
        return {"layer": self.head, "sizes": dict(self.sizes), "tensors": rows, "output": self.output.tolist()}


def trial(spec: Specification, given: Mapping[str, int], seed: int) -> Trial:
    r"""Evaluates a layer once in float64. Open sizes are small and different. Raises EinformerError E601 to E605.

    >>> from einformer.targets import parse
    >>> trial(parse("axes\n  d: D\nlayer Twice(x_d) -> y_d:\n  y_d = 2 x_d"), {"D": 3}, 0).output.shape
    (3,)
    """
    about = isolate(spec, given)
    about = about.bind(prime_sizes.draw(about.legend, about.letters(), about.turns()))
    _refuse_large(about)
    inputs, weights = values.draw_inputs(about, {}, seed), values.draw_weights(about, seed)
    trace = dict[str, Array]()
    output = about.value(inputs, weights, trace=trace)
    head = f"{spec.name}({', '.join(map(show, spec.layer.formals))}) -> {show(spec.layer.output)}"
    drawn: dict[str, Array] = {name: np.asarray(array) for name, array in (inputs | weights).items()}
    written = _spell_tensors(spec.layer)
    tensors = {written.get(name, name): array for name, array in (drawn | trace).items()}
    return Trial(head, about.sizes(), tensors, output, about.legend)


# Before anything is allocated: an equation has at most a number for each combination of its indices.
def _refuse_large(about: Subject) -> None:
    for layer in specialise(about.tree, about.layer).layers:
        for equation in equations(layer.body):
            indices = letters_in(equation.left, equation.right)
            if (count := math.prod(map(about.legend.length, indices))) > MOST_NUMBERS:
                facts = [about.legend.describe(letter) for letter in sorted(indices)]
                message = f"this equation has {count:.0e} combinations of its indices"
                raise fail("E604", message, equation.span, facts, f"smaller sizes: at most {MOST_NUMBERS:.0e} combinations")
    for path, weight in about.weights().items():
        if math.prod(weight.shape) > MOST_NUMBERS:
            raise fail(
                "E604",
                f"the weight `{path}` has {math.prod(weight.shape):.0e} numbers",
                weight.weight.span,
                fix="smaller sizes",
            )


def _spell_tensors(layer: Layer) -> dict[str, str]:
    weights = [Tensor(weight.name, weight.indices) for weight in layer.weights]
    defined = [equation.left for equation in equations(layer.body) if isinstance(equation.left, Tensor)]
    return {tensor.name: show(tensor) for tensor in (*layer.formals, *weights, *defined)}
