"""Checks the counts and claims of a model. Each check measures in a way that shares nothing with the count or the claim."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from einformer.errors import EinformerError
from einformer.interpreters.count.conventions import CONVENTIONS
from einformer.interpreters.count.numbers import Numbers
from einformer.interpreters.count.rules import EquationCount, count_flops, sum_counts
from einformer.language.sizes import Legend
from einformer.language.tree import Index, Layer, Name, Tensor
from einformer.report.contents import Shape, shapes
from einformer.report.specimen import Small, Specimen, reads

if TYPE_CHECKING:
    import sympy

    from einformer.report.specimen import Array

TOLERANCE = 1e-9  # of two computations of the same number in float64, relative to the largest


@dataclass(frozen=True, slots=True)
class Check:
    """A claim, the number or two that decide it, and the verdict."""

    claim: str
    holds: bool
    detail: str


def parameters_are_live(subject: Specimen) -> Iterator[Check]:
    from einformer.interpreters.torch import measure

    ours, theirs = sum(part.parameters for part in subject.parts), sum(measure.count_parameters(subject.live).values())
    yield _compare_numbers("parameters: by the text = in the module", ours, theirs)


def formulas_are_live(subject: Specimen) -> Iterator[Check]:
    from einformer.interpreters.torch import measure

    paths = sorted((part.path for part in subject.formulas), key=len, reverse=True)
    live = dict.fromkeys(paths, 0)
    for name, count in measure.count_parameters(subject.live).items():
        live[next(path for path in paths if _replace_numbers(name).startswith(_replace_numbers(path)))] += count
    for part in subject.formulas:
        if part.weights:
            claim = f"parameters: {subject.write(part.parameters)} in {part.path or part.layer}"
            yield _compare_numbers(claim, _evaluate(part.parameters, subject.legend), live[part.path])


# Torch has a counter of its own.
def flops_are_counted(subject: Specimen) -> Iterator[Check]:
    from einformer.interpreters.count.symbols import Symbols
    from einformer.interpreters.torch import measure

    model, plan = subject.model, CONVENTIONS["fast"]
    count = functools.partial(count_flops, model.spec.tree, model.spec.name, convention=plan)
    whole = sum_counts(count(Symbols(model.legend)))
    theirs = measure.count_flops(subject.live, reads(model, subject.legend))
    yield _compare_numbers(
        "FLOPs: by the text = by torch's FlopCounterMode", sum_counts(count(Numbers(subject.legend))), theirs
    )
    yield _compare_numbers(f"FLOPs: {subject.write(whole)}", _evaluate(whole, subject.legend), theirs)


def shapes_are_run(subject: Specimen) -> Iterator[Check]:
    small = subject.small
    weightless = {layer.name for layer in small.model.spec.tree.layers[:-1] if not layer.weights}  # without paths
    claimed: dict[tuple[str, str], list[tuple[Shape, Shape]]] = {}
    for layer, equation, own, carried in shapes(small.model, small.legend):
        owner_of_weightless = "" if layer in weightless else layer
        claimed.setdefault((owner_of_weightless, equation.left.name), []).append((own, carried))
    layers = {"": small.model.spec.name} | {
        _replace_numbers(equation.path): equation.layer for equation in _list_instances(small)
    }
    wrong, trace = [], small.meaning[1]
    for path, tensor in trace.items():
        owner = max((candidate for candidate in layers if _replace_numbers(path).startswith(candidate)), key=len)
        name = path.rpartition(".")[2]
        here = claimed.get((layers[owner], name), []) + claimed.get(("", name), [])
        if not any(_is_of(tensor.shape, own, carried) for own, carried in here):
            wrong.append(f"{path} is {tensor.shape}")
    detail = f"{len(wrong)} of {len(trace)} differ: {wrong[0]}" if wrong else f"{len(trace)} tensors"
    yield Check("shapes: by the legend = of every tensor", not wrong, detail)


# The axes that a layer carries along follow its own in some order.
def _is_of(shape: Shape, own: Shape, carried: Shape) -> bool:
    return shape[: len(own)] == own and sorted(shape[len(own) :]) == sorted(carried)


def _list_instances(small: Small) -> list[EquationCount[int]]:
    return [equation for part in small.parts for equation in part.equations]


def values_agree(subject: Specimen) -> Iterator[Check]:
    small = subject.small
    for one, other in (("notation", "reference"), ("fast", "reference"), ("fast", "notation")):
        theirs = small.meaning[0] if other == "reference" else small.value(other, small.given)
        error = _measure_error(small.value(one, small.given), theirs)
        yield Check(f"values: {one} = {other}, float64", error <= TOLERANCE, f"differ by {error:.0e}")


# The inputs change from each position on: the output before it stays, and some output changes.
def the_future_is_not_read(subject: Specimen) -> Iterator[Check]:
    import numpy as np

    small = subject.small
    layer = small.model.spec.layer
    if layer.time is None:
        return
    output, letter = list_letters(layer.output), layer.time.letter
    before = np.moveaxis(small.value("fast", small.given), output.index(letter), 0)
    worst, unmoved = 0.0, 0
    for cut in range(1, len(before)):
        after = np.moveaxis(small.value("fast", _change_inputs(layer, small.given, cut)), output.index(letter), 0)
        worst = max(worst, _measure_error(after[:cut], before[:cut]))
        unmoved += _measure_error(after[cut:], before[cut:]) <= TOLERANCE
    detail = f"change by {worst:.0e} in {len(before) - 1} trials" + (f", nothing else does in {unmoved}" if unmoved else "")
    yield Check(
        "causality: outputs before a changed input stay", worst <= TOLERANCE and unmoved < max(1, len(before) - 1), detail
    )


def _change_inputs(layer: Layer, given: Sequence[Array], cut: int) -> list[Array]:
    assert layer.time is not None
    changed = []
    for formal, array in zip(layer.formals, given, strict=True):
        letters, other = list_letters(formal), array.copy()
        if layer.time.letter in letters:
            slices = tuple(slice(cut, None) if letter == layer.time.letter else slice(None) for letter in letters)
            other[slices] = array.max() - array[slices]
        changed.append(other)
    return changed


CHECKS: dict[str, Callable[[Specimen], Iterable[Check]]] = {
    "building the module": parameters_are_live,
    "deriving formulas": formulas_are_live,
    "counting FLOPs": flops_are_counted,
    "computing shapes": shapes_are_run,
    "comparing values": values_agree,
    "changing the future": the_future_is_not_read,
}


# A check that cannot run does not hold.
def run_check(what: str, check: Callable[[Specimen], Iterable[Check]], subject: Specimen) -> list[Check]:
    try:
        return list(check(subject))
    except EinformerError as error:
        return [Check(what, False, f"cannot be made: {error.findings[0].message}")]


def _compare_numbers(claim: str, ours: int, theirs: int) -> Check:
    return Check(claim, ours == theirs, f"{ours:,}" if ours == theirs else f"{ours:,}, but {theirs:,}")


def _evaluate(formula: sympy.Expr, legend: Legend) -> int:
    symbols = getattr(formula, "free_symbols", ())  # a number has none
    return int(formula.subs({letter: int(legend.named(Name(str(letter)))) for letter in symbols}) if symbols else formula)


def _replace_numbers(path: str) -> str:
    return re.sub(r"\{\w+\}|\b\d+\b", "*", path)


# Relative to the largest number, if it exceeds one. Equal infinities do not differ.
def _measure_error(ours: Array, theirs: Array) -> float:
    import numpy as np

    apart, finite = ours != theirs, theirs[np.isfinite(theirs)]
    return float(np.abs(ours[apart] - theirs[apart]).max(initial=0.0) / np.abs(finite).max(initial=1.0))


def list_letters(tensor: Tensor | Name) -> list[str]:
    return [slot.letter for slot in tensor.slots if isinstance(slot, Index)] if isinstance(tensor, Tensor) else []
