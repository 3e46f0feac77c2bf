"""Are kernels found in programs by what values mean, however a text writes them?"""

from __future__ import annotations

from collections import Counter

import pytest

from einformer.language.specialise import specialise
from einformer.objects import Model
from einformer.program.fusing import with_kernels
from einformer.program.kernels import Attention, Linear, Norm
from einformer.program.lowering import functions
from einformer.program.norming import norms
from einformer.program.operations import Function
from einformer.program.rewrite import values
from tests.small import model
from tests.test_canonical import CAUSAL, ENDS, LAYER_NORMS, NORMS, QKV, attending, normed


def kernels(bound: Model) -> list[Function]:
    """The functions of a model with kernels."""
    special = specialise(bound.spec.tree, bound.spec.name)
    return [*with_kernels(special, bound.legend).values()]


@pytest.mark.parametrize(("right", "lines"), (NORMS | LAYER_NORMS).items(), ids=str)
def test_a_norm_is_one_value_of_the_program(right: str, lines: tuple[str, ...]) -> None:
    bound = normed(right, lines)
    (function,) = functions(specialise(bound.spec.tree, bound.spec.name), bound.legend).values()
    found = norms(function, bound.legend)[function.output.value]
    assert (found.kind, found.argument) == ("layer" if "β" in right else "rms", function.inputs[0].value)
    assert found.gain is not None
    assert (found.bias is not None) == ("β" in right)
    assert isinstance(kernels(bound)[0].output.value.operation, Norm)


@pytest.mark.parametrize("spelling", CAUSAL)
def test_an_attention_is_one_value_of_the_program(spelling: str) -> None:
    (function,) = kernels(attending(*QKV, *CAUSAL[spelling], *ENDS["two lines"]))
    found = [value.operation for value in values(function) if isinstance(value.operation, Attention)]
    assert [(each.causal, each.mask, each.scale) for each in found] == [(True, None, None)]
    linear = [value.operation for value in values(function) if isinstance(value.operation, Linear)]
    assert sorted(len(each.weights) for each in linear) == [1, 3]


def test_experts_that_are_chosen_compute_alone() -> None:
    """Those of mixtral: a product by expert for gates and for what goes up together, one for what comes down."""
    found = [value.operation for each in kernels(model("mixtral")) for value in values(each)]
    names = Counter(type(each).__name__ for each in found)
    assert (names["Routed"], names["Gathered"]) == (1, 1)
    assert sorted(len(each.weights) for each in found if isinstance(each, Linear) and each.experts) == [1, 2]
