"""Does some code compute what equations mean? Its output and its gradients, beside the reference's, on random numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from einformer.language.binding import Given as Bound
from einformer.language.calls import slot_letters
from einformer.language.printer import show
from einformer.testing import gradients, values
from einformer.testing.code import Call, Code, code
from einformer.testing.departure import Departure, departure
from einformer.testing.explain import Explanation, Question, error, explanation
from einformer.testing.exposed import shown
from einformer.testing.fitted import fitted
from einformer.testing.mapping import Given
from einformer.testing.subject import Equations, subject
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
    seed: int = 0,
) -> None:
    """Fail unless a function or a module computes what equations mean: the same shape, values and gradients.

    >>> assert_implements(lambda q, k: q @ k.mT / 4, "w_bss' = q_bse k_bs'e / 4")

    `equations` are a specification, one of its layers, a bound model, a target of `load`, or lines of the notation. They
    are computed by the reference in float64, at sizes that are bound or, where they are open, small and all different.
    A function of sizes alone, `lambda D, A: Attention(D, A)`, builds what is tested at those.

    `weights` says which parameter holds which weight: `{"q_proj.weight": "Q_{(ae)d}"}`, `{"c_attn.weight": "Q_{d(ae)},
    K_{d(ae)}, V_{d(ae)}"}`, a function of weights, or `None` for a parameter that stays as it is; a `*` in both stands for
    the number of a block. What is not said is guessed from names and shapes. `inputs` replace random ones, as arrays or as
    functions of sizes; `call(module, *inputs)` calls a module that is not called with the inputs alone.

    Errors are relative to the largest number; the tolerance is 1e-9, or 1e-6 where the code takes steps in float32 although
    it is given float64. Gradients are compared with finite differences of the reference: autograd is on one side only.

    Raises Disagreement E901 to E904 and E906, EinformerError E905 and those of the equations.
    """
    f, about = fitted(implementation, subject(equations, bind or {}), weights or {})
    tested = code(f, about, weights or {}, call)
    given = values.inputs(about, inputs or {}, seed)
    held = tested.weights(values.weights(about, seed), about)
    moving = frozenset({*given, *held} - (inputs or {}).keys())
    trace = dict[str, Array]()
    expected = about.value(given, held, trace=trace)
    question = Question(about, given, held, moving, _answer(tested, given, held))
    if question.answer.shape != expected.shape:
        raise _of_shape(tested, question, expected)
    tolerance = _tolerance(tested, question, expected) if tolerance is None else tolerance
    if not error(question.answer, expected) <= tolerance or not np.isfinite(question.answer).all():
        raise _of_values(tested, question, expected, trace, tolerance)
    if slopes := list(gradients.wrong(tested, question, seed)):
        raise _of_gradients(tested, question, slopes)


def _tolerance(tested: Code, question: Question, expected: Array) -> float:
    """1e-9, unless the code itself takes steps in float32: it is asked only where that would matter."""
    exact = error(question.answer, expected) <= IN_FLOAT64
    return IN_FLOAT32 if not exact and tested.is_narrow(question.inputs, question.weights) else IN_FLOAT64


def _answer(tested: Code, inputs: Mapping[str, NDArray[np.generic]], weights: Mapping[str, Array]) -> Array:
    """What the code computes; twice, for it must be the same. Raises Disagreement E901, E906."""
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


def _of_shape(tested: Code, question: Question, expected: Array) -> Disagreement:
    output = question.subject.head.output
    letters = slot_letters(output)
    message = f"`{tested.name}` returns the shape {question.answer.shape}, not {expected.shape}"
    facts = [f"the output is `{show(output)}`", *_sizes(question, letters)]
    order = sorted(range(expected.ndim), key=lambda axis: expected.shape[axis])
    if sorted(question.answer.shape) == sorted(expected.shape) and len(letters) == expected.ndim:
        by_size = {expected.shape[axis]: letters[axis] for axis in order}
        facts.append(f"its axes stand in the order `{''.join(by_size[size] for size in question.answer.shape)}`")
    return disagree("E902", message, question.subject.head.span, facts, f"an output `{show(output)}`")


def _of_values(tested: Code, question: Question, expected: Array, trace: Mapping[str, Array], tolerance: float) -> Disagreement:
    """The verdict with what can be said of it: which tensors agree, which departs first, which mistake it is."""
    seen = shown(tested.f, lambda: tested.output(question.inputs, question.weights))
    where = departure(question.subject, trace, seen, tolerance)
    found = explanation(question, tested.entries, tolerance, where.equation.span if where.equation else None)
    equation = found.equation if found and found.equation else where.equation
    span = equation.span if equation else question.subject.head.span
    message = f"`{tested.name}` does not compute `{question.subject.name}`: {_amount(question.answer, expected)}"
    fix = found.meant if found else ""
    return disagree("E903", message, span, [*_explained(found), *_departing(where), *_sizes(question, ())], fix)


def _amount(answer: Array, expected: Array) -> str:
    """By how much, and where first."""
    if not np.isfinite(answer).all():
        return f"{int((~np.isfinite(answer)).sum())} of {answer.size} numbers are not finite"
    far = np.abs(answer - expected)
    place = ", ".join(str(int(i)) for i in np.unravel_index(int(far.argmax()), far.shape))
    return f"the output departs by {error(answer, expected):.2g}, most at [{place}]"


def _explained(found: Explanation | None) -> Iterator[str]:
    if found is None:
        yield "no single known mistake gives these numbers"
        return
    yield f"known mistake: {found.says}"
    yield f"the code computes `{found.made}`"


def _departing(where: Departure) -> Iterator[str]:
    if where.agreeing:
        yield f"these agree: {', '.join(where.agreeing)}"
    if where.shown:
        yield f"the first that departs: {where.tensor} (`{where.shown.name}`, {where.shown.place})"


def _of_gradients(tested: Code, question: Question, slopes: list[gradients.Slope]) -> Disagreement:
    first = slopes[0]
    names = ", ".join(f"`{slope.name}`" for slope in slopes)
    message = f"the values of `{tested.name}` are right, its gradients are not: of {names}"
    facts = [
        f"along a random direction of `{first.name}` the output moves by {first.expected:.4g}, by autograd {first.here:.4g}"
    ]
    if all(slope.here == 0 for slope in slopes):
        facts.append("the gradient is zero: is something detached, copied or rounded?")
    return disagree("E904", message, question.subject.head.span, facts, "operations that autograd follows")


def _sizes(question: Question, letters: tuple[str, ...]) -> Iterator[str]:
    legend = question.subject.legend
    sizes = {letter: legend.length(letter) for letter in letters} or question.subject.sizes()
    yield "at " + ", ".join(f"{name} = {size}" for name, size in sizes.items())
