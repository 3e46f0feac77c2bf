"""Are the annotations true? The emitted files run under jaxtyping and beartype, whose verdicts equal those of our door."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import jaxtyping
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from einformer import EinformerError
from tests.few import FEW_TEXTS, few
from tests.small import PLANS, SMALL, error, inputs, model, tensors, weights

_COUNT = itertools.count()


@functools.cache
def text(name: str, plan: str) -> str:
    return model(name).source(plan, check=True)


def run(name: str, text: str) -> nn.Module:
    """The emitted module without our door, every call checked by jaxtyping and beartype."""
    namespace: dict[str, Any] = {"__name__": f"annotated_{next(_COUNT)}"}
    exec(compile(text, "<annotated>", "exec", dont_inherit=True), namespace)
    module: nn.Module = namespace[model(name).spec.name]().eval()
    module.load_state_dict(tensors(weights(model(name))))
    return module


@functools.cache
def checked(name: str, plan: str) -> nn.Module:
    return run(name, text(name, plan))


def arrays(name: str) -> list[Tensor]:
    found = [torch.from_numpy(x) for x in inputs(model(name), {"B": 2, "S": 3})]
    return [x.float() if x.is_floating_point() else x for x in found]


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("name", few(SMALL, FEW_TEXTS))
def test_what_fits_is_accepted_everywhere(name: str, plan: str) -> None:
    """By every layer inside, too."""
    module = model(name).build(plan=plan).eval()
    module.load_state_dict(tensors(weights(model(name))))
    assert error(checked(name, plan)(*arrays(name)), module(*arrays(name))) < 1e-4


@pytest.mark.parametrize("plan", PLANS)
def test_layers_inside_are_checked(plan: str) -> None:
    """An annotation that lies is found out, of an input or of a result, of a layer or of a function."""
    assert text("llama", plan).count("@jaxtyped") == text("llama", plan).count(") -> Float[Tensor")
    for true, lie in (
        ('x_se: Float[Tensor, "*bgj s e"', '"*bgj s s"'),
        ('-> Float[Tensor, "b s {self.config.D}"]', '"b s {self.config.V}"]'),
    ):
        assert true in text("llama", plan)
        module = run("llama", text("llama", plan).replace(true, true[: true.index('"')] + lie))
        with pytest.raises(jaxtyping.TypeCheckError):
            module(*arrays("llama"))


def wrong(tensor: Tensor) -> st.SearchStrategy[Tensor]:
    """The tensor, or one with another size, an axis less or more, two axes swapped, or another kind of numbers."""
    shape = list(tensor.shape)
    axes = st.integers(0, len(shape) - 1)
    resized = st.tuples(axes, st.integers(1, 60)).map(lambda at: [*shape[: at[0]], at[1], *shape[at[0] + 1 :]])
    swapped = st.permutations(shape)
    fewer = axes.map(lambda at: shape[:at] + shape[at + 1 :])
    more = axes.map(lambda at: [*shape[:at], 1, *shape[at:]])
    shapes = st.one_of(st.just(shape), resized, swapped, fewer, more)
    kinds = st.sampled_from([tensor.dtype, tensor.dtype, torch.int64, torch.int32, torch.bool, torch.float32])
    return st.tuples(shapes, kinds).map(lambda made: torch.zeros(made[0], dtype=made[1]))


def verdict(module: nn.Module, given: list[Tensor], refusal: type[Exception]) -> bool:
    try:
        module(*given)
    except refusal:
        return False
    return True


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("name", ["gpt2", "loss", "mamba2", "llama"])
@settings(max_examples=12, deadline=None)
@given(st.data())
def test_two_checkers_one_answer(name: str, plan: str, data: st.DataObject) -> None:
    """Of bounds (`S <= K`), single dtypes, devices and tokens jaxtyping cannot speak: none of them is wrong here."""
    given = [data.draw(wrong(x)) for x in arrays(name)]
    if name == "gpt2" and given[0].dim() == 2:
        given = [given[0][:, :41]]
    ours = verdict(model(name).build(plan=plan).eval(), given, EinformerError)
    assert ours == verdict(checked(name, plan), given, jaxtyping.TypeCheckError)


@pytest.mark.parametrize("padding", [None, torch.tensor([2, 0, 4])], ids=["alike", "padded"])
@pytest.mark.parametrize("name", ["gpt2", "gemma2", "bloom", "deepseek_v3", "delta_net"])
def test_the_cached_files_are_true_too(name: str, padding: Tensor | None) -> None:
    """What has positions alone is one for all rows, or one for each."""
    module = run(name, model(name).cached_source(check=True)).double()
    module.load_state_dict(tensors(weights(model(name))))
    names = type(module).__init__.__globals__
    cache = names["Cache"](names["KEPT"], padding)  # the file's own: it runs without einformer
    given = list(map(torch.from_numpy, inputs(model(name))))
    outputs = [module(*(x[:, a:b] for x in given), cache) for a, b in ((0, 5), (5, 11))]
    if padding is None:
        assert error(torch.cat(outputs, 1), model(name).reference(*inputs(model(name)), weights=weights(model(name)))) < 1e-12


@pytest.mark.parametrize("plan", PLANS)
def test_a_built_module_is_checked_where_it_is_asked_for(plan: str) -> None:
    """And every call inside: of a layer alone too, behind the door of the module."""
    plain, module = (model("gpt2").build(plan=plan, check=check).eval() for check in (None, "beartype"))
    wrong = torch.zeros(2, 3, model("gpt2").size("D") + 1)
    with pytest.raises(jaxtyping.TypeCheckError):
        module.get_submodule("blocks.0.LayerNorm")(wrong)
    with pytest.raises(RuntimeError):
        plain.get_submodule("blocks.0.LayerNorm")(wrong)
    module.load_state_dict(tensors(weights(model("gpt2"))))
    plain.load_state_dict(module.state_dict())
    assert torch.equal(module(*arrays("gpt2")), plain(*arrays("gpt2")))
    with pytest.raises(EinformerError, match="E605"):
        model("gpt2").build(check="pyright").eval()
