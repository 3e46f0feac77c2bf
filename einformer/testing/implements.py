"""Compares the output and the gradients of code with the meaning of equations, on random numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from einformer.errors import fail
from einformer.language.binding import Given as Bound
from einformer.language.calls import axis_of, slot_letters
from einformer.language.printer import show
from einformer.language.tree import Name
from einformer.testing import prime_sizes, values
from einformer.testing.code import Call, Code, code, list_tied, prepare
from einformer.testing.departure import Departure, find_departure
from einformer.testing.explain import Explanation, Question, explain, measure_error
from einformer.testing.exposed import collect
from einformer.testing.mapping import Given, Piece, Shape, list_letters, list_parameters, read_entries
from einformer.testing.subject import Equations, Subject, isolate
from einformer.testing.verdict import Disagreement, disagree, its_own_errors

Array = NDArray[np.float64]
IN_FLOAT64, IN_FLOAT32 = 1e-9, 1e-6
STEP = 1e-5
TOLERANCE = 1e-5  # of the largest slope: the precision of a difference quotient; a detached tensor misses its whole slope


def assert_implements(
    implementation: Callable[..., Any],
    equations: Equations,
    *,
    weights: Mapping[str, Given] | None = None,
    bind: Mapping[str, Bound] | None = None,
    inputs: Mapping[str, values.Given] | None = None,
    call: Call | None = None,
    tolerance: float | None = None,
    gradients: bool = True,
    seed: int = 0,
) -> None:
    """Fails unless a function or a module computes its equations: the same shape, values and gradients.

    >>> assert_implements(lambda q, k: q @ k.mT / 4, "w_bss' = q_bse k_bs'e / 4")

    `equations` are a specification, one of its layers, a bound model, a target of `load`, or lines of the notation. The
    reference computes them in float64. Open sizes are small and all different. A function of sizes alone, `lambda D, A:
    Attention(D, A)`, builds a module at these sizes.

    `weights` assigns weights to parameters: `{"q_proj.weight": "Q_{(ae)d}"}`, `{"c_attn.weight": "Q_{d(ae)}, K_{d(ae)},
    V_{d(ae)}"}`, a function of weights, or `None` for a parameter that stays. `*` stands for the number of a block. The
    rest is guessed from names and shapes. `inputs` replaces random inputs, by arrays or by functions of sizes.
    `call(module, *inputs)` calls a module that takes other arguments.

    Errors are relative to the largest number. The tolerance is 1e-9, or 1e-6 if the code computes in float32 although its
    inputs are float64. Gradients are compared with finite differences of the reference, which does not use autograd;
    `gradients=False` leaves them out, for code in inference mode.

    Raises Disagreement E901 to E904 and E906, EinformerError E905 and the errors of the equations.
    """
    f, about = fit(implementation, isolate(equations, bind or {}), weights or {})
    tested = code(f, about, weights or {}, call)
    values_of_inputs = values.draw_inputs(about, inputs or {}, seed)
    held = tested.weights(values.draw_weights(about, seed), about)
    moving = frozenset({*values_of_inputs, *held} - (inputs or {}).keys())
    expected = about.value(values_of_inputs, held)
    question = Question(about, values_of_inputs, held, moving, expected, _find_answer(tested, values_of_inputs, held))
    if question.answer.shape != expected.shape:
        raise _report_shape(tested, question, expected)
    tolerance = _choose_tolerance(tested, question, expected) if tolerance is None else tolerance
    if not measure_error(question.answer, expected) <= tolerance or not np.isfinite(question.answer).all():
        raise _report_values(tested, question, tolerance)
    if gradients and (slopes := list(find_wrong(tested, question, seed))):
        raise _report_gradients(tested, question, slopes)


# Only asked where the answer matters, since it runs the code again.
def _choose_tolerance(tested: Code, question: Question, expected: Array) -> float:
    exact = measure_error(question.answer, expected) <= IN_FLOAT64
    return IN_FLOAT32 if not exact and tested.is_narrow(question.inputs, question.weights) else IN_FLOAT64


# Runs twice: the answers must be equal.
def _find_answer(tested: Code, inputs: Mapping[str, NDArray[np.generic]], weights: Mapping[str, Array]) -> Array:
    shapes = [f"`{name}` has shape {np.shape(x)}" for name, x in inputs.items()]
    with its_own_errors(tested.name, shapes):
        answer, again = (tested.output(inputs, weights) for _ in range(2))
    if not np.array_equal(answer, again, equal_nan=True):
        raise disagree(
            "E906",
            f"two calls of `{tested.name}` give different numbers",
            fix="no dropout, noise or state where a module is in `eval` mode",
        )
    return answer


# -------------------------------------------------------------------------------------------------------------- sizes


# Returns the code under test, and the equations at its sizes. Raises EinformerError E905 if a module does not tell a size.
def fit(f: Callable[..., Any], about: Subject, weights: Mapping[str, Given]) -> tuple[Callable[..., Any], Subject]:
    draft = about.bind(prime_sizes.draw(about.legend, about.letters(), about.turns()))
    if isinstance(f, nn.Module):
        sizes_of_module = _read_sizes(f, about, draft, weights)
        _check_complete(about, sizes_of_module)
        legend = replace(about.legend, values={**about.legend.values, **sizes_of_module})
        free = [letter for letter in about.letters() if letter not in sizes_of_module]
        return prepare(f), about.bind({**sizes_of_module, **prime_sizes.draw(legend, free)})
    if names := _find_size_parameters(f, draft):
        return prepare(f(**{name: int(draft.legend.number(Name(name))) for name in names})), draft
    return f, draft


# A function of sizes alone builds a module.
def _find_size_parameters(f: Callable[..., Any], draft: Subject) -> list[str]:
    names = list_parameters(f)
    inputs = {formal.name for formal in draft.head.formals}
    return (
        names if names and set(names) <= draft.legend.letters - inputs and not set(names) <= list_letters(draft).keys() else []
    )


# The length of a slot with a single letter.
def _read_sizes(f: nn.Module, about: Subject, draft: Subject, weights: Mapping[str, Given]) -> dict[str, int]:
    parameters = dict(f.named_parameters())
    shapes = {name: tuple(parameters[first].shape) for name, first in list_tied(f).items()}
    entries = [entry for entry in read_entries(draft, weights, list(shapes)) if len(entry.pieces) == 1]
    lengths = [size for entry in entries for size in _read_lengths(draft, entry.pieces[0], shapes[entry.parameter]).items()]
    return {name: size for name, size in lengths if name in about.letters()}


# The letter must have its own axis, since a layer may be called with another.
def _read_lengths(draft: Subject, piece: Piece, shape: Shape) -> dict[str, int]:
    own = dict(zip(piece.letters, draft.weights()[piece.path].shape[len(piece.at) :], strict=True))
    pairs = [(slot[0], size) for slot, size in zip(piece.slots, shape, strict=False) if len(slot) == 1]
    named = [
        (draft.legend.axes[axis_of(letter)].size, size) for letter, size in pairs if own[letter] == draft.legend.length(letter)
    ]
    return {name.name: size for name, size in named if isinstance(name, Name)}


# A module fixes the sizes of its weights and the number of its loops, so they cannot be drawn.
def _check_complete(about: Subject, known: Mapping[str, int]) -> None:
    letters = {axis_of(i.letter) for layer in about.written.layers for w in layer.weights for i in w.indices}
    terms = [monomial for letter in letters for monomial in about.legend.polynomial(about.legend.axes[letter].size)]
    needed = {name for monomial in terms for name, _ in monomial} | about.turns()
    if missing := sorted((needed & set(about.letters())) - known.keys()):
        fix = "`bind={" + ", ".join(f'"{name}": …' for name in missing) + "}`"
        raise fail("E905", f"the module does not tell its {', '.join(f'`{name}`' for name in missing)}", fix=fix)


# ---------------------------------------------------------------------------------------------------------- gradients

# The reference has no derivatives, so the two sides share nothing. Along a random direction the difference of two values of
# the reference is one number, which the gradients of the code must give too.


@dataclass(frozen=True, slots=True)
class Slope:
    """The change of the output along the direction of one tensor: by the code, and by the reference."""

    name: str
    here: float
    expected: float


# The sum of all gradients is compared first, which cannot be right by chance.
def find_wrong(code: Code, question: Question, seed: int) -> Iterator[Slope]:
    random = np.random.default_rng(seed + 2)
    by = random.standard_normal(question.answer.shape)
    gradients = code.gradients(question.inputs, question.weights, question.moving, by)
    directions = {name: random.standard_normal(gradient.shape) for name, gradient in gradients.items()}
    here = {name: float((gradients[name] * directions[name]).sum()) for name in gradients}
    allowed = TOLERANCE * math.hypot(*here.values(), expected := _measure_slope(question, directions, by))
    if abs(sum(here.values()) - expected) > allowed:
        slopes = (Slope(name, here[name], _measure_slope(question, {name: directions[name]}, by)) for name in gradients)
        yield from (slope for slope in slopes if not abs(slope.here - slope.expected) <= allowed)


def _measure_slope(question: Question, directions: Mapping[str, Array], by: Array) -> float:
    ahead, behind = (_sum_output(question, directions, step, by) for step in (STEP, -STEP))
    return (ahead - behind) / (2 * STEP)


def _sum_output(question: Question, directions: Mapping[str, Array], step: float, by: Array) -> float:
    def move(arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        return {name: x + step * directions[name] if name in directions else x for name, x in arrays.items()}

    value = question.subject.value(move(question.inputs), move(question.weights))
    return float((np.where(np.isfinite(value), value, 0) * by).sum())


# ----------------------------------------------------------------------------------------------------------- verdicts


def _report_shape(tested: Code, question: Question, expected: Array) -> Disagreement:
    output = question.subject.head.output
    letters = slot_letters(output)
    message = f"`{tested.name}` returns the shape {question.answer.shape}, not {expected.shape}"
    facts = [f"the output is `{show(output)}`", *_show_sizes(question, letters)]
    order = sorted(range(expected.ndim), key=lambda axis: expected.shape[axis])
    if sorted(question.answer.shape) == sorted(expected.shape) and len(letters) == expected.ndim:
        by_size = {expected.shape[axis]: letters[axis] for axis in order}
        facts.append(f"its axes stand in the order `{''.join(by_size[size] for size in question.answer.shape)}`")
    return disagree("E902", message, question.subject.head.span, facts, f"an output `{show(output)}`")


# The tensors that agree, the first that departs, and the mistake that explains it.
def _report_values(tested: Code, question: Question, tolerance: float) -> Disagreement:
    apart, trace = question.subject.separate(), dict[str, Array]()
    apart.value(question.inputs, question.weights, trace=trace)
    seen = collect(tested.f, lambda: tested.output(question.inputs, question.weights))
    numbers = [x.astype(np.float64) for x in (*question.inputs.values(), *question.weights.values())]
    arguments = apart.list_arguments(question.inputs, question.weights)
    where = find_departure(apart, trace, [*numbers, *arguments], seen, tolerance)
    mistake = explain(question, tested.entries, tolerance, apart, where, trace)
    equation = mistake.equation if mistake and mistake.equation else where.equation
    span = equation.span if equation else question.subject.head.span
    amount = _show_amount(question.answer, question.expected)
    message = f"`{tested.name}` does not compute `{question.subject.name}`: {amount}"
    facts = [*_show_explanation(mistake), *_show_departure(where), *_show_sizes(question, ())]
    return disagree("E903", message, span, facts, mistake.meant if mistake else "")


def _show_amount(answer: Array, expected: Array) -> str:
    if not np.isfinite(answer).all():
        return f"{int((~np.isfinite(answer)).sum())} of {answer.size} numbers are not finite"
    far = np.abs(answer - expected)
    place = ", ".join(str(int(i)) for i in np.unravel_index(int(far.argmax()), far.shape))
    return f"the output departs by {measure_error(answer, expected):.2g}, most at [{place}]"


def _show_explanation(mistake: Explanation | None) -> Iterator[str]:
    if mistake is None:
        yield "no single known mistake gives these numbers"
        return
    yield f"known mistake: {mistake.says}"
    yield f"the code computes `{mistake.made}`"
    if mistake.call:
        yield f"in one call alone: `{mistake.call}`"
    if mistake.missed:
        yield f"this gives the numbers of all positions but the last {mistake.missed}"


def _show_departure(where: Departure) -> Iterator[str]:
    if where.agreeing:
        yield f"these agree: {', '.join(where.agreeing)}"
    if where.shown:
        yield f"the first that departs: {where.tensor} (`{where.shown.name}`, {where.shown.place})"


def _report_gradients(tested: Code, question: Question, slopes: list[Slope]) -> Disagreement:
    first = slopes[0]
    names = ", ".join(f"`{slope.name}`" for slope in slopes)
    message = f"the values of `{tested.name}` are right, its gradients are not: of {names}"
    facts = [
        f"along a random direction of `{first.name}` the output moves by {first.expected:.4g}, by autograd {first.here:.4g}"
    ]
    if all(slope.here == 0 for slope in slopes):
        facts.append("the gradient is zero: is something detached, copied or rounded?")
    return disagree("E904", message, question.subject.head.span, facts, "operations that autograd follows")


def _show_sizes(question: Question, letters: tuple[str, ...]) -> Iterator[str]:
    legend = question.subject.legend
    sizes = {letter: legend.length(letter) for letter in letters} or question.subject.sizes()
    yield "at " + ", ".join(f"{name} = {size}" for name, size in sizes.items())
