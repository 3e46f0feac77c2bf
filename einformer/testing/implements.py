"""Compares the output and the gradients of code with the meaning of equations, on random numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from einformer.language.binding import Given as Bound
from einformer.language.calls import slot_letters
from einformer.language.printer import show
from einformer.testing import values
from einformer.testing.code import Call, Code, code
from einformer.testing.departure import Departure, find_departure
from einformer.testing.explain import Explanation, Question, explain, measure_error
from einformer.testing.exposed import collect
from einformer.testing.finite_differences import Slope, find_wrong
from einformer.testing.fitted import fit
from einformer.testing.mapping import Given
from einformer.testing.subject import Equations, isolate
from einformer.testing.verdict import Disagreement, disagree, its_own_errors

Array = NDArray[np.float64]
IN_FLOAT64, IN_FLOAT32 = 1e-9, 1e-6


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
