"""Is a model what it says? Each check measures it in a way that shares nothing with the count or the claim."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from einformer.errors import EinformerError
from einformer.interpreters.count.rules import EquationCount, total
from einformer.language.sizes import Legend
from einformer.language.tree import Index, Layer, Name, Tensor
from einformer.report.contents import Shape, shapes
from einformer.report.subject import Array, Small, Subject, reads

if TYPE_CHECKING:
    import sympy

TOLERANCE = 1e-9  # of two computations of the same number in float64, relative to the largest


@dataclass(frozen=True, slots=True)
class Check:
    """A claim, the two numbers (or the one) that decide it, and the verdict."""

    claim: str
    holds: bool
    detail: str


def parameters_are_live(subject: Subject) -> Iterator[Check]:
    """Ours against the tensors of the module."""
    from einformer.interpreters.torch import measure

    ours, theirs = sum(part.parameters for part in subject.parts), sum(measure.parameters(subject.live).values())
    yield _equal("parameters: by the text = in the module", ours, theirs)


def formulas_are_live(subject: Subject) -> Iterator[Check]:
    """The formula of each part, with the sizes put in, against the tensors of that part."""
    from einformer.interpreters.torch import measure

    paths = sorted((part.path for part in subject.formulas), key=len, reverse=True)
    live = dict.fromkeys(paths, 0)
    for name, count in measure.parameters(subject.live).items():
        live[next(path for path in paths if _starred(name).startswith(_starred(path)))] += count
    for part in subject.formulas:
        if part.weights:
            claim = f"parameters: {subject.write(part.parameters)} in {part.path or part.layer}"
            yield _equal(claim, _number(part.parameters, subject.legend), live[part.path])


def flops_are_counted(subject: Subject) -> Iterator[Check]:
    """Numbers and formula against torch's own counter."""
    from einformer.interpreters.torch import measure

    whole = total(part.flops for part in subject.formulas)
    theirs = measure.flops(subject.live, reads(subject.model, subject.legend))
    yield _equal("FLOPs: by the text = by torch's FlopCounterMode", sum(part.flops for part in subject.parts), theirs)
    yield _equal(f"FLOPs: {subject.write(whole)}", _number(whole, subject.legend), theirs)


def shapes_are_run(subject: Subject) -> Iterator[Check]:
    """The shapes of the legend against those of the tensors, at small sizes."""
    small = subject.small
    weightless = {layer.name for layer in small.model.spec.tree.layers[:-1] if not layer.weights}  # without paths
    claimed: dict[tuple[str, str], list[tuple[Shape, Shape]]] = {}
    for layer, equation, own, carried in shapes(small.model, small.legend):
        at = "" if layer in weightless else layer
        claimed.setdefault((at, equation.left.name), []).append((own, carried))
    layers = {"": small.model.spec.name} | {_starred(equation.path): equation.layer for equation in _instances(small)}
    wrong, trace = [], small.meaning[1]
    for path, tensor in trace.items():
        owner = max((each for each in layers if _starred(path).startswith(each)), key=len)
        name = path.rpartition(".")[2]
        here = claimed.get((layers[owner], name), []) + claimed.get(("", name), [])
        if not any(_is_of(tensor.shape, own, carried) for own, carried in here):
            wrong.append(f"{path} is {tensor.shape}")
    detail = f"{len(wrong)} of {len(trace)} differ: {wrong[0]}" if wrong else f"{len(trace)} tensors"
    yield Check("shapes: by the legend = of every tensor", not wrong, detail)


def _is_of(shape: Shape, own: Shape, carried: Shape) -> bool:
    """What a layer carries along stands after its own axes in some order."""
    return shape[: len(own)] == own and sorted(shape[len(own) :]) == sorted(carried)


def _instances(small: Small) -> list[EquationCount[int]]:
    """Every equation with its path and layer."""
    return [equation for part in small.parts for equation in part.equations]


def values_agree(subject: Subject) -> Iterator[Check]:
    """Three ways to one number."""
    small = subject.small
    for one, other in (("notation", "reference"), ("fast", "reference"), ("fast", "notation")):
        theirs = small.meaning[0] if other == "reference" else small.value(other, small.given)
        error = _error(small.value(one, small.given), theirs)
        yield Check(f"values: {one} = {other}, float64", error <= TOLERANCE, f"differ by {error:.0e}")


def the_future_is_not_read(subject: Subject) -> Iterator[Check]:
    """Other inputs from each position on: what comes before stays, what is there changes."""
    small = subject.small
    layer = small.model.spec.layer
    if layer.time is None:
        return
    output, letter = letters(layer.output), layer.time.letter
    before = np.moveaxis(small.value("fast", small.given), output.index(letter), 0)
    worst, unmoved = 0.0, 0
    for cut in range(1, len(before)):
        after = np.moveaxis(small.value("fast", _changed(layer, small.given, cut)), output.index(letter), 0)
        worst = max(worst, _error(after[:cut], before[:cut]))
        unmoved += _error(after[cut:], before[cut:]) <= TOLERANCE
    detail = f"change by {worst:.0e} in {len(before) - 1} trials" + (f", nothing else does in {unmoved}" if unmoved else "")
    yield Check("causality: outputs before a changed input stay", worst <= TOLERANCE and not unmoved, detail)


def _changed(layer: Layer, given: Sequence[Array], cut: int) -> list[Array]:
    """The inputs, those from a position on exchanged for others."""
    assert layer.time is not None
    changed = []
    for formal, array in zip(layer.formals, given, strict=True):
        at = tuple(slice(cut, None) if letter == layer.time.letter else slice(None) for letter in letters(formal))
        other = array.copy()
        other[at] = array.max() - array[at]
        changed.append(other)
    return changed


CHECKS: dict[str, Callable[[Subject], Iterable[Check]]] = {
    "building the module": parameters_are_live,
    "deriving formulas": formulas_are_live,
    "counting FLOPs": flops_are_counted,
    "computing shapes": shapes_are_run,
    "comparing values": values_agree,
    "changing the future": the_future_is_not_read,
}


def made(what: str, check: Callable[[Subject], Iterable[Check]], subject: Subject) -> list[Check]:
    """The verdicts of one row of the table; one that cannot be made does not hold."""
    try:
        return list(check(subject))
    except EinformerError as error:
        return [Check(what, False, f"cannot be made: {error.findings[0].message}")]


def _equal(claim: str, ours: int, theirs: int) -> Check:
    return Check(claim, ours == theirs, f"{ours:,}" if ours == theirs else f"{ours:,}, but {theirs:,}")


def _number(formula: sympy.Expr, legend: Legend) -> int:
    """A formula with the sizes put in."""
    return int(formula.subs({letter: int(legend.named(Name(str(letter)))) for letter in formula.free_symbols}))


def _starred(path: str) -> str:
    return re.sub(r"\{\w+\}|\b\d+\b", "*", path)


def _error(ours: Array, theirs: Array) -> float:
    """The largest difference, relative to the largest number where that exceeds one; two infinities do not differ."""
    apart, finite = ours != theirs, theirs[np.isfinite(theirs)]
    return float(np.abs(ours[apart] - theirs[apart]).max(initial=0.0) / np.abs(finite).max(initial=1.0))


def letters(tensor: Tensor | Name) -> list[str]:
    """The indices of an input or output, in order."""
    return [slot.letter for slot in tensor.slots if isinstance(slot, Index)] if isinstance(tensor, Tensor) else []
