"""Is the program of a text what the text means? Executed operation by operation, it computes what the reference computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

import einformer
from einformer.language import binding
from einformer.objects import Model
from einformer.program import operations as op
from einformer.program.listing import list_program
from einformer.program.lowering import lower
from einformer.program.operations import Line, Program, Turns, Value
from einformer.program.rewrite import Rewriting
from tests.alone import LINES
from tests.holes import HOLES
from tests.oracles.interpreters import TOLERANCE
from tests.oracles.program import executed
from tests.rare import FORMS
from tests.small import SMALL, error, inputs, model, weights
from tests.test_interpreters import DISTINCT, blocks, bound_alone, cases

Arrays = list[NDArray[np.float64]]


def departure(bound: Model, arrays: Arrays, expected: NDArray[np.float64]) -> float:
    legend = binding.bind_inputs(bound.spec.layer, bound.legend, [array.shape for array in arrays])
    program = lower(bound.spec.tree, bound.spec.name, legend)
    return error(executed(program, arrays, weights(bound), legend), expected)


@pytest.mark.parametrize("name", [name for name in SMALL if name != "loss"])
def test_programs_of_what_ships(name: str) -> None:
    bound = model(name)
    arrays = inputs(bound)
    assert departure(bound, arrays, bound.reference(*arrays, weights=weights(bound))) < TOLERANCE


@pytest.mark.parametrize("form", sorted((FORMS | LINES.keys()) - HOLES.keys()))
def test_each_form_alone(form: str) -> None:
    for sizes in (DISTINCT, dict.fromkeys(DISTINCT, 1)):
        assert departure(*bound_alone(form, sizes)) < TOLERANCE


@blocks
def test_random_texts(block: int) -> None:
    for drawn, expected in cases(block):
        assert departure(drawn.model, drawn.arrays, expected) < TOLERANCE, drawn.text.text


# ------------------------------------------------------------------------------------------------------------- rewrites


@pytest.mark.parametrize("name", [name for name in SMALL if name != "loss"])
def test_a_rule_that_multiplies_each_sum_by_one_changes_no_number(name: str) -> None:
    def doubled(value: Value) -> Value:
        if not isinstance(value.operation, op.Map | op.Einsum):
            return value
        one = Value(op.Constant(1), (), "integer")
        return replace(value, operation=op.Map("*", (one, value)))

    bound = model(name)
    arrays = inputs(bound)
    legend = binding.bind_inputs(bound.spec.layer, bound.legend, [array.shape for array in arrays])
    program = lower(bound.spec.tree, bound.spec.name, legend)
    new = replace(program, functions={name: Rewriting(doubled).rewrite_function(f) for name, f in program.functions.items()})
    assert error(executed(new, arrays, weights(bound), legend), bound.reference(*arrays, weights=weights(bound))) < TOLERANCE
    same = {name: Rewriting(lambda value: value).rewrite_function(f) for name, f in program.functions.items()}
    assert same == program.functions


# ---------------------------------------------------------------------------------------------------------------- shape


def dangling(program: Program) -> Iterator[Value]:
    """Values that stand for something that nothing before them defines, or of letters that nothing gives them."""
    for function in program.functions.values():
        known = {line.value for line in function.inputs}
        yield from _dangling((*function.weights, *function.scalars, *function.lines, function.output), known, frozenset())


def _dangling(lines: tuple[Line | Turns, ...], known: set[Value], turns: frozenset[str]) -> Iterator[Value]:
    for line in lines:
        if isinstance(line, Line):
            yield from _undefined(line.value, known, turns)
            continue
        yield from _undefined(line.count, known, turns)
        inside = known | {each.within for each in line.carried if each.before is not None}
        yield from _dangling(line.lines, inside, turns | {line.letter})
        for each in line.carried:
            yield from _undefined(each.last, inside, turns | {line.letter})
        known |= {each.after for each in line.carried}


def _undefined(value: Value, known: set[Value], turns: frozenset[str]) -> Iterator[Value]:
    if value in known:
        return
    match value.operation:
        case op.Input():
            yield value
        case op.Turn(letter) if letter not in turns:
            yield value
        case op.Recur(letter, step, so_far):
            yield from _undefined(step, known | {so_far}, turns | {letter})
        case _:
            for operand in value.operands:
                yield from _undefined(operand, known, turns)
    known.add(value)


@pytest.mark.parametrize("name", SMALL)
def test_what_is_read_is_defined_before(name: str) -> None:
    bound = model(name)
    assert not list(dangling(lower(bound.spec.tree, bound.spec.name, bound.legend)))


@pytest.mark.parametrize("name", SMALL)
def test_no_letter_twice(name: str) -> None:
    bound = model(name)
    for function in lower(bound.spec.tree, bound.spec.name, bound.legend).functions.values():
        waiting = [function.output.value]
        while waiting:
            value = waiting.pop()
            assert len(set(value.axes)) == len(value.axes)
            waiting += value.operands


@pytest.mark.parametrize("name", ["minimal", "llama", "linear_attention", "mixtral"])
def test_the_listing(name: str, golden: Callable[[str, str], None]) -> None:
    bound = model(name)
    golden(f"program/{name}.txt", list_program(lower(bound.spec.tree, bound.spec.name, bound.legend)))


def test_a_program_needs_no_sizes() -> None:
    spec = einformer.load("llama")
    assert lower(spec.tree, spec.name, spec.bind().legend).functions.keys() >= {"Attention", "GatedMLP", "Llama"}
