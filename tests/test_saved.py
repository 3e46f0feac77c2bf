"""Is what we say that PyTorch keeps for the backward pass, and takes at the worst moment of a step, what it keeps and takes?"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

import einformer
from einformer.errors import EinformerError
from einformer.interpreters.torch.fast import HELPERS
from einformer.interpreters.torch.measure import count_activations, measure_peak, measure_saved
from einformer.objects import Model
from tests import small
from tests.few import FEW_TEXTS, few
from tests.oracles import saved as oracle

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
Shape = tuple[int, ...]


def by_line(text: str, name: str, given: Sequence[tuple[Shape, bool]], dtype: str, training: bool = True) -> oracle.Saved:
    """Our count, as the oracle puts it."""
    found = oracle.Saved()
    for row in measure_saved(text, name, given, dtype, training):
        (found.inputs if row.what == "input" else found.lines)[row.line] += row.bytes
    return found


# ------------------------------------------------------------------------------------------------- one operation

Q, K, V = (f"({each}).unflatten(1, (2, 2))" for each in ("x", "y", "x * y"))  # batch, heads, positions, features


def attention(more: str, k: str = K, v: str = V) -> str:
    return f"fn.scaled_dot_product_attention({Q}, {k}, {v}, {more})"


CALLS = {
    "abs": "torch.abs(x)",
    "add": "(x + y) * y",
    "addmm": "fn.linear(x, self.V.T, self.b)",
    "amax": "torch.amax(x, 2)",
    "amin": "torch.amin(x, (0, 1), True)",
    "attention": attention("is_causal=True"),
    "attention, masked": attention("attn_mask=(u * 2)[0, :2, :2]"),
    "attention, masked by truths": attention("attn_mask=u[0, :2, :2] < 1"),
    "attention, masked by head": attention("attn_mask=(u * 2)[:2, :2, :2]"),
    "attention, masked by weights": attention("attn_mask=x[0, :2, :2]"),
    "attention, narrower values": attention("is_causal=True", v=f"{V}[:, :, :, :3]"),
    "attention, scattered": attention(
        "is_causal=True", v="y.permute(0, 2, 1).flatten(1).unflatten(1, (2, 5, 2)).permute(0, 1, 3, 2)"
    ),
    "attention, dropped": attention("is_causal=True, dropout_p=0.1"),
    "attention, grouped": attention("enable_gqa=True", f"{K}[:, :1]", f"{V}[:, :1]"),
    "attention, grouped and dropped": attention("dropout_p=0.1, enable_gqa=True", f"{K}[:, :1]", f"{V}[:, :1]"),
    "bmm": 'torch.einsum("abc,adc->abd", x, y)',
    "bmm of three": 'torch.einsum("abc,adc,ad->bd", x, y, torch.sum(x, 2))',
    "bmm of what is broadcast": 'torch.einsum("bac,bc,cd->ad", x.permute(1, 0, 2), torch.mean(y, 0), self.V)',
    "bmm of a sum": 'torch.einsum("abc,de->ad", x, self.V)',
    "clamp": "x.clamp(min=0)",
    "clone": "torch.exp(x.permute(0, 2, 1).flatten(1))",
    "compare": "torch.where(x < y, x, y)",
    "cos": "torch.cos(x)",
    "cumsum": "torch.exp(torch.cumsum(x, 1))",
    "div": "x / y",
    "div by a constant": "x / (u * 2)",
    "div by a number": "torch.exp(x / 2)",
    "div of a constant": "(u * 2) / x",
    "dropout": "fn.dropout(x, 0.1, self.training)",
    "dropout of nothing": "torch.exp(fn.dropout(x, 0.0, self.training))",
    "embedding": "fn.embedding(places, self.V)",
    "exp": "torch.exp(x)",
    "floor": "torch.floor(x) * y",
    "gelu": 'fn.gelu(x, approximate="tanh")',
    "grouped": "Grouped.apply(x.flatten(0, 1), y, torch.cumsum(places.sum(1), 0))",
    "index": "x[:, :, places]",
    "index of two": "x[:, places[0], places[1]]",
    "layer_norm": "fn.layer_norm(x, (5,), self.b5, self.b5, 1e-5)",
    "layer_norm of what lies otherwise": "fn.layer_norm(x.permute(1, 0, 2), (5,), self.b5, self.b5, 1e-5)",
    "log": "torch.log(x)",
    "logsumexp": "torch.logsumexp(x, (1, 2), keepdim=True)",
    "mean": "torch.exp(torch.mean(x, 2)[:, :, None])",
    "mm": "fn.linear(x, self.V.T)",
    "mm of what lies otherwise": "fn.linear(x.permute(1, 0, 2), self.V.T, self.b)",
    "mul": "x * y",
    "mul by a constant": "x * (u * 2)",
    "mul by a number": "torch.exp(2 * x)",
    "neg": "torch.exp(-x)",
    "nll_loss and log_softmax": "fn.cross_entropy(x.flatten(0, 1), places.flatten())",
    "permute and reshape": "torch.exp(x.permute(2, 0, 1).flatten(1))",
    "pow": "x ** 3",
    "pow of two": "x ** y",
    "pow of a constant": "(u * 2) ** x",
    "reciprocal": "2 / x",
    "relu": "fn.relu(x)",
    "remainder": "(x % 3) * (x % y)",
    "reshape across an axis of one": "torch.exp(x).permute(1, 0, 2)[:, :1].flatten() * torch.mean(y)",
    "rms_norm": "fn.rms_norm(x, (5,), self.b5, 1e-5)",
    "rms_norm of what lies otherwise": "fn.rms_norm(x.permute(1, 0, 2), (5,), self.b5, 1e-5)",
    "roll": "torch.exp(torch.roll(x, 1, 1))",
    "roll backwards": "torch.exp(torch.flip(x, (1,)))",
    "rpow": "2 ** x",
    "rsub": "torch.exp(1 - x)",
    "scatter": "torch.exp(x.scatter(2, places[:, :, None], 1.0))",
    "select": "torch.exp(x[:, 1])",
    "sigmoid": "torch.sigmoid(x)",
    "silu": "fn.silu(x)",
    "exp of what lies otherwise": "torch.exp(x.permute(2, 0, 1)).flatten(0, 1) * torch.mean(y)",
    "sin": "torch.sin(x)",
    "slice": "torch.exp(x)[:2] * y[:2]",
    "softmax": "torch.softmax(x, 1)",
    "softplus": "fn.softplus(x)",
    "sort": "x.sort(descending=True, stable=True).values",
    "split": "fn.silu(torch.exp(x).split((2, 3), -1)[1])",
    "sqrt": "torch.sqrt(x)",
    "stack": "torch.exp(torch.stack([x, y], 1))",
    "sub": "torch.exp(x - y)",
    "sum": "torch.exp(x.sum(2))",
    "tanh": "torch.tanh(x)",
    "to": "torch.exp(x.to(torch.float32))",
    "unsqueeze": "x[:, None] * y[:, :, None]",
    "var": "torch.var(x, 2, correction=0)",
    "where": "torch.where(places[:, :, None] < 1, x, 0)",
}
FILE = f"""
import torch
import torch.nn.functional as fn
from jaxtyping import Float, Int
from torch import Tensor, nn

{HELPERS["Grouped"]}

class Called(nn.Module):
    def __init__(self):
        super().__init__()
        self.W = nn.Parameter(torch.empty(3, 4, 5))
        self.V = nn.Parameter(torch.empty(5, 6))
        self.b = nn.Parameter(torch.empty(6))
        self.b5 = nn.Parameter(torch.empty(5))

    def forward(self, u: Float[Tensor, "a b c"], places: Int[Tensor, "a b"]) -> Tensor:
        x, y = self.W + 1, self.W * 2
        whether_operands_are_kept = CALL
        x, y = torch.exp(self.W), torch.tanh(self.W)
        whether_anything_else_is = CALL
        return torch.sum(whether_operands_are_kept) + torch.sum(whether_anything_else_is)
"""
SHAPES = ((3, 4, 5), (3, 4))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("call", CALLS)
def test_an_operation_keeps_what_the_hooks_see_with_numbers(call: str, dtype: str) -> None:
    text = FILE.replace("CALL", CALLS[call])
    scope: dict[str, Any] = {}
    exec(compile(text, "<called>", "exec", dont_inherit=True), scope)
    module = scope["Called"]().to(DTYPES[dtype])
    inputs = [torch.ones(3, 4, 5, dtype=DTYPES[dtype]), torch.ones(3, 4, dtype=torch.long)]
    assert by_line(text, "Called", [*zip(SHAPES, (False, True), strict=True)], dtype) == oracle.saved(module, inputs)


# ---------------------------------------------------------------------------------------------------------- whole models


def seen(model: Model, plan: str, dtype: str, shape: Shape, training: bool = True) -> oracle.Saved:
    """What the hooks see of a model of tokens, without numbers."""
    built = model.build(device="meta", plan=plan, dtype=DTYPES[dtype]).eval()
    with FakeTensorMode():
        return oracle.saved(oracle.faked(built).train(training), [torch.zeros(shape, dtype=torch.long)])


@functools.cache
def bound(name: str, **sizes: float) -> Model:
    return einformer.load(name).bind(**sizes)


GPT2: dict[str, float] = {"D": 768, "A": 12, "L": 12, "V": 50257, "K": 1024}
LLAMA_3_8B: dict[str, float] = {"D": 4096, "A": 32, "G": 8, "V": 128256, "F": 14336}
Case = tuple[str, dict[str, float], Shape]
MODELS: dict[str, Case] = {
    "gpt2": ("gpt2", GPT2, (8, 1024)),
    "gpt2, one short text": ("gpt2", GPT2, (1, 7)),
    "gpt2, nothing dropped": ("gpt2", GPT2 | {"p": 0.0}, (2, 512)),
    "a block of llama-3-8b": ("llama", LLAMA_3_8B | {"L": 1}, (2, 8192)),
    "llama-3-8b": ("llama", LLAMA_3_8B | {"L": 32}, (1, 2048)),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("plan", few(small.PLANS, {"fast"}))
@pytest.mark.parametrize("name", few(MODELS, MODELS.keys() - {"llama-3-8b"}))
def test_published_sizes_are_what_the_hooks_see(name: str, plan: str, dtype: str) -> None:
    text, sizes, shape = MODELS[name]
    model = bound(text, **sizes)
    assert by_line(model.source(plan), model.spec.name, [(shape, True)], dtype) == seen(model, plan, dtype, shape)


@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluating"])
@pytest.mark.parametrize("shape", few([(3, 11), (1, 11), (3, 1), (1, 1)], {(1, 11)}), ids=str)
@pytest.mark.parametrize("plan", small.PLANS)
@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_axes_of_one_lie_as_torch_lays_them(name: str, plan: str, shape: Shape, training: bool) -> None:
    model = small.model(name)
    ours = by_line(model.source(plan), model.spec.name, [(shape, True)], "float32", training)
    assert ours == seen(model, plan, "float32", shape, training)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("plan", small.PLANS)
@pytest.mark.parametrize(
    "name", few([name for name in small.SMALL if name != "loss"], FEW_TEXTS)
)  # it has no weights, and keeps nothing
def test_every_shipped_text_keeps_what_the_hooks_see(name: str, plan: str, dtype: str) -> None:
    model = small.model(name)
    arrays = [torch.from_numpy(array) for array in small.inputs(model)]
    inputs = [array.to(DTYPES[dtype]) if array.is_floating_point() else array for array in arrays]
    theirs = oracle.saved(model.build(plan=plan, dtype=DTYPES[dtype]).train(), inputs)
    assert (
        by_line(
            model.source(plan), model.spec.name, [(tuple(each.shape), not each.is_floating_point()) for each in inputs], dtype
        )
        == theirs
    )


@pytest.mark.parametrize(
    ("name", "more"), [("gpt2", {"L": 7}), ("deepseek_v3", {"L": 6, "P": 2}), ("gemma2", {"L": 5, "W": 4})]
)
def test_one_block_stands_for_those_like_it(name: str, more: dict[str, int]) -> None:
    given = small.SMALL[name]
    model = einformer.load(given.text).bind(**{**given.bound, **more})
    theirs = oracle.saved(model.build().train(), [torch.zeros(small.BATCH, small.LENGTH, dtype=torch.long)])
    assert by_line(model.source(), model.spec.name, [((small.BATCH, small.LENGTH), True)], "float32") == theirs


def test_rows_say_which_equation_keeps_what() -> None:
    model = small.model("gpt2")
    rows = measure_saved(model.source("notation"), "GPT2", [((3, 11), True)])
    kept = Counter[tuple[str, str]]()
    for row in rows:
        kept[row.equation, row.operation] += row.bytes
    b, s, f, layers, wide = 3, 11, 31, 2, 4
    assert kept["h_bsf = gelutanh(z_bsd W_df + ω_f)", "gelu"] == layers * b * s * f * wide
    assert {row.what: row.bytes for row in rows if row.what == "input"} == {"input": b * s * 8}
    assert count_activations(rows) == sum(kept.values()) - b * s * 8


# --------------------------------------------------------------------------------------------------------- the worst moment

STEPS: dict[str, Case] = {
    "gpt2": ("gpt2", GPT2 | {"L": 4}, (1, 1024)),
    "gpt2, nothing dropped": ("gpt2", GPT2 | {"p": 0.0, "L": 3}, (4, 512)),
    "gpt2, a short text": ("gpt2", GPT2 | {"L": 3}, (1, 16)),
    "a block of llama-3-8b": ("llama", LLAMA_3_8B | {"L": 1}, (2, 2048)),
    "llama, a short text": ("llama", {"D": 512, "A": 8, "G": 2, "L": 3, "V": 32000, "F": 1400}, (1, 64)),
    "llama, long texts": ("llama", {"D": 512, "A": 8, "G": 2, "L": 3, "V": 1000, "F": 1400}, (2, 2048)),
}
NEAR = 0.05


def texts(shape: Shape) -> tuple[Tensor, Tensor]:
    """Tokens, and the tokens to be foretold."""
    return torch.zeros(shape, dtype=torch.long), torch.zeros(shape, dtype=torch.long).flatten()


def tracked(model: Model, plan: str, dtype: str, shape: Shape) -> int:
    """The peak by `MemTracker`, without numbers."""
    built = model.build(device="meta", plan=plan, dtype=DTYPES[dtype]).eval()
    with FakeTensorMode():
        return oracle.peak(oracle.faked(built).train(), *texts(shape))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("plan", small.PLANS)
@pytest.mark.parametrize("name", STEPS)
def test_the_peak_of_a_step_is_what_mem_tracker_sees(name: str, plan: str, dtype: str) -> None:
    text, sizes, shape = STEPS[name]
    model = bound(text, **sizes)
    ours = measure_peak(model.source(plan), model.spec.name, [(shape, True)], dtype).bytes
    assert ours == pytest.approx(tracked(model, plan, dtype, shape), rel=NEAR)


@pytest.mark.parametrize("plan", small.PLANS)
@pytest.mark.parametrize("name", few(["gpt2", "llama"], {"gpt2"}))
def test_mem_tracker_and_we_see_what_the_profiler_sees(name: str, plan: str) -> None:
    model, shape = small.model(name), (4, 37)
    profiled = oracle.profiled(model.build(plan=plan).train(), *texts(shape))
    assert tracked(model, plan, "float32", shape) == pytest.approx(profiled, rel=NEAR)
    assert measure_peak(model.source(plan), model.spec.name, [(shape, True)]).bytes == pytest.approx(profiled, rel=NEAR)


def test_what_is_always_there() -> None:
    model = small.model("gpt2")
    found = measure_peak(model.source(), "GPT2", [((3, 11), True)])
    module = model.build().eval()
    optimiser = torch.optim.AdamW(module.parameters())
    module(texts((3, 11))[0]).sum().backward()  # type: ignore[no-untyped-call]
    optimiser.step()
    states = [tensor.nbytes for state in optimiser.state.values() for tensor in state.values()]
    weights = [parameter.nbytes for parameter in module.parameters()]
    assert (found.parameters, found.gradients, found.states) == (sum(weights), sum(weights), sum(states))


# --------------------------------------------------------------------------------------------------------------- refusals

PLAIN = FILE.replace("CALL", "x")
REFUSED = {
    "no class": (PLAIN, "Call", SHAPES, "float32", "E605"),
    "no dtype": (PLAIN, "Called", SHAPES, "float8", "E605"),
    "no dtype of weights": (PLAIN, "Called", SHAPES, "int64", "E605"),
    "an input too few": (PLAIN, "Called", SHAPES[:1], "float32", "E701"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_counted_is_refused(what: str) -> None:
    text, name, shapes, dtype, code = REFUSED[what]
    for count in (measure_saved, measure_peak):
        with pytest.raises(EinformerError) as error:
            count(text, name, [(shape, False) for shape in shapes], dtype)
        assert [finding.code for finding in error.value.findings] == [code]


def test_what_has_no_weights_is_not_trained() -> None:
    with pytest.raises(EinformerError, match="E605"):
        small.model("loss").peak(B=2, S=3, V=5)
