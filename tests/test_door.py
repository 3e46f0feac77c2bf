"""Do wrong inputs give our error, eager, compiled by us, and compiled by the user?"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import einformer
from einformer import EinformerError
from tests.refusals import refuses
from tests.small import PLANS, model

TOKENS = torch.zeros(2, 7, dtype=torch.int64)
FEATURES = torch.zeros(2, 7, 35)

# name: the architecture, its input, the code, what the message says
WRONG: dict[str, tuple[str, Any, str, str]] = {
    "too few axes": ("gpt2", TOKENS[0], "E701", "the input `x_bs` has 1 axes, not 2"),
    "too many axes": ("gpt2", TOKENS[None], "E701", "the input `x_bs` has 3 axes, not 2"),
    "longer than the longest": ("gpt2", TOKENS.new_zeros(2, 42), "E603", "42 numbers along `s`, at most 41"),
    "features": ("gpt2", FEATURES[..., 0], "E702", "the input `x_bs` has dtype torch.float32"),
    "conditions": ("gpt2", TOKENS > 0, "E702", "the input `x_bs` has dtype torch.bool"),
    "bytes": ("gpt2", TOKENS.byte(), "E702", "the input `x_bs` has dtype torch.uint8"),
    "another device": ("gpt2", TOKENS.to("meta"), "E702", "the input `x_bs` is on meta, the weights on cpu"),
    "another size": ("mamba2", torch.zeros(2, 7, 34), "E701", "the input `z_bsd` has 34 numbers along `d`, not 35"),
    "features without an axis": ("mamba2", FEATURES[0], "E701", "the input `z_bsd` has 2 axes, not 3"),
    "another precision": ("mamba2", FEATURES.double(), "E702", "dtype torch.float64, the weights torch.float32"),
    "whole numbers": ("mamba2", FEATURES.long(), "E702", "the input `z_bsd` has dtype torch.int64"),
}
RANGES = {
    "a token below": ("gpt2", TOKENS - 1, "E703", "has numbers from -1 to -1"),
    "a token beyond": ("gpt2", TOKENS + 53, "E703", "has numbers from 53 to 53"),
}
LISTS = {"a list": ("gpt2", [[1, 2]], "E702", "the input `x_bs` is a list, not a tensor")}
INTERPRETED: dict[str, Any] = {"backend": "eager", "fullgraph": True}


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Dynamo forgets what it has compiled."""
    yield
    torch.compiler.reset()


def refusal(call: Callable[..., object], given: object) -> EinformerError:
    with pytest.raises(EinformerError) as caught:
        call(given)
    return caught.value


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("wrong", WRONG | RANGES | LISTS)
def test_eager(wrong: str, plan: str) -> None:
    name, given, code, message = (WRONG | RANGES | LISTS)[wrong]
    found = refusal(model(name).build(plan=plan).eval(), given)
    assert [finding.code for finding in found.findings] == [code]
    assert message in str(found)


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("wrong", WRONG | RANGES | LISTS)
def test_compiled_by_us(wrong: str, plan: str) -> None:
    """`module.compile` compiles what is behind the door."""
    name, given, code, message = (WRONG | RANGES | LISTS)[wrong]
    module = model(name).build(plan=plan).eval()
    module.compile(**INTERPRETED)
    found = refusal(module, given)
    assert [finding.code for finding in found.findings] == [code]
    assert message in str(found)


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("wrong", WRONG)
def test_compiled_by_the_user(wrong: str, plan: str) -> None:
    """Dynamo traces the door without a break, and its error quotes our whole text."""
    name, given, code, _ = WRONG[wrong]
    module = model(name).build(plan=plan).eval()
    with pytest.raises(Exception, match=code) as caught:
        torch.compile(module, **INTERPRETED)(given)
    assert repr(str(refusal(module, given)))[1:-1] in str(caught.value)


def test_inputs_that_disagree() -> None:
    loss = einformer.load("loss")["Loss"].bind(V=53).build().eval()
    y_bsv = torch.zeros(2, 7, 53)
    with refuses("E701", "t_bs", "6", "s", "7"):
        loss(y_bsv, TOKENS[:, :6])
    with refuses("E401", "2", "1"):
        loss(y_bsv)
    with refuses("E703", "t_bs", "53"):
        einformer.load("loss")["Loss"].bind().build().eval()(y_bsv, TOKENS + 53)


@pytest.mark.parametrize("plan", PLANS)
def test_what_fits_passes(plan: str) -> None:
    module = model("gpt2").build(plan=plan).eval()
    for given in (TOKENS, TOKENS.int(), TOKENS[:1], TOKENS[:, :1], TOKENS.new_zeros(2, 41), TOKENS + 52):
        assert module(given).shape == (*given.shape, 53)


@pytest.mark.filterwarnings("ignore:var")
@pytest.mark.parametrize("plan", PLANS)
def test_no_rows(plan: str) -> None:
    assert model("gpt2").build(plan=plan).eval()(TOKENS[:0]).shape == (0, 7, 53)


def test_the_error_shows_no_line_of_torch() -> None:
    """The door stands before everything: nothing of torch's own call is between the user and our error."""
    module = model("gpt2").build().eval()
    with pytest.raises(EinformerError) as caught:
        module(TOKENS[0])
    files = [entry.path for entry in caught.traceback]
    assert not [file for file in files if re.search(r"site-packages/torch", str(file))]


def test_hooks_see_what_passed_the_door() -> None:
    module: nn.Module = model("gpt2").build().eval()
    seen: list[Tensor] = []
    module.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    refusal(module, TOKENS[0])
    module(TOKENS)
    assert len(seen) == 1


OF_WHOLE_NUMBERS = """axes
  b: B
  s: S
  d: D
  v: 3
scalars
  T_v = [1, 5, 7]
layer Grades(x_bs) -> y_bs:
  y_bs = T_{x_bs}
"""


@pytest.mark.parametrize("plan", PLANS)
def test_a_model_of_whole_numbers_alone_has_the_dtype_of_torch(plan: str) -> None:
    text = OF_WHOLE_NUMBERS.replace("  d: D\n", "") + "model M(x_bs) -> y_bs:\n  y_bs = Grades(x_bs) / 3\n"
    model = einformer.parse(text).bind()
    tokens = torch.tensor([[0, 2, 1], [2, 2, 0]])
    y = model.build(plan=plan)(tokens)
    assert y.dtype == torch.get_default_dtype()
    np.testing.assert_allclose(y, model.reference(tokens.numpy(), weights={}), rtol=1e-6)


def test_numbers_of_a_layer_without_a_dtype_are_refused() -> None:
    text = f"{OF_WHOLE_NUMBERS}model M(x_bs, z_bsd) -> y_bsd:\n  y_bsd = z_bsd Grades(x_bs)\n"
    with pytest.raises(EinformerError, match="E702 no input or weight of `Grades` has the dtype of its numbers"):
        einformer.parse(text).bind(D=2).build()
