"""Do the chosen experts alone compute, and do they compute the same? Texts, families, ties, experts that nobody chose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

import einformer
from einformer.interpreters.torch.fast import HELPERS
from einformer.language.calls import calls
from einformer.objects import Model
from einformer.report import checks
from einformer.report.specimen import Specimen, shrink
from tests.few import FEW_FAMILIES, few
from tests.oracles import saved as oracle
from tests.oracles.of_toys import ours
from tests.small import Array, built, error, inputs, model, tensors, weights
from tests.test_count import DEEPSEEK, GPT_OSS, SPARSE, mixture
from tests.toys import TOYS

EXACT = 1e-12


def work(module: nn.Module, *given: Tensor) -> int:
    """FLOPs by torch's own counter, which sees no attention on a CPU but that by plain products."""
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        module(*given)
    return int(counter.get_total_flops())


# ----------------------------------------------------------------------------------------------------- any text at all

# Right, but with every expert: chosen in loops, by a condition without a weight, or across layers that compute for experts.
DENSE = {
    "a condition in place of a weight", "chosen anew in each turn", "read in the next turn", "computed and chosen in each turn",
    "in one turn of two", "in every turn", "computed by a layer", "given to a layer once",
    "a layer in between", "a layer that mixes experts",
}  # fmt: skip


@pytest.mark.parametrize("name", SPARSE)
def test_only_what_is_chosen_is_computed(name: str) -> None:
    """As many FLOPs as the table of the counts says, by hand: 13 positions, 5 features, 11 experts of 3."""
    lines, gates, outputs = SPARSE[name]
    bound = mixture(lines)
    given = list(map(torch.from_numpy, inputs(bound)))
    module = built(bound, "fast")
    assert error(module(*given), bound.reference(*inputs(bound), weights=weights(bound))) < EXACT
    assert (work(module, *given) == 13 * 2 * 5 * (11 + 3 * gates + 3 * outputs)) == (name not in DENSE)


ROUTED = """
axes
  b: B
  s: S
  d: D
  x: X
  f: F
scalars
  T = 2
layer Main(z_bsd) -> z_bsd:
  weights R_dx, G_xdf, U_dxf, O_xfd, γ_xf, ω_xd
"""
WAYS = {
    "experts first": ["g_bsxf = relu(z_bsd G_xdf)", "r_bsx = z_bsd R_dx", "p_bsx = where(top_{T,x}(r_bsx), r_bsx, 0)",
                      "u_bsxf = z_bsd U_dxf", "return p_bsx g_bsxf u_bsxf O_xfd"],
    "in one line": ["r_bsx = Sm_x(z_bsd R_dx)", "return where(top_{T,x}(r_bsx), r_bsx, 0)"
                    " (silu(z_bsd' G_xd'f + γ_xf) (z_bsd'' U_d''xf) O_xfd + ω_xd)"],
    "the weight early": ["r_bsx = z_bsd R_dx", "p_bsx = Sm_x(where(top_{T,x}(r_bsx), r_bsx, -inf))", "u_bsxf = z_bsd U_dxf",
                         "h_bsxf = p_bsx tanh(z_bsd G_xdf + γ_xf) u_bsxf", "return h_bsxf O_xfd + ω_xd p_bsx"],
    "numbers of experts and positions": ["r_bsx = Sm_x(z_bsd R_dx)", "p_bsx = where(top_{T,x}(r_bsx), r_bsx, 0)",
                                         "g_bsxf = silu(z_bsd G_xdf / (1 + x)) cos(s + x) + γ_xf",
                                         "return p_bsx g_bsxf O_xfd"],
    "one for all positions": ["r_bx = sum_s (z_bsd R_dx)", "p_bx = where(top_{T,x}(r_bx), r_bx, 0)",
                              "g_bsxf = silu(z_bsd G_xdf)", "return p_bx g_bsxf O_xfd"],
}  # fmt: skip


def routed(lines: list[str], **more: int) -> Model:
    """A layer of five experts of which two are chosen, at sizes that are all different."""
    text = ROUTED + "".join(f"  {line}\n" for line in lines)
    unused = [name for name in ("G_xdf", "U_dxf", "O_xfd", "γ_xf", "ω_xd") if name[:2] not in "".join(lines)]
    for name in unused:
        text = text.replace(f", {name}", "")
    return einformer.parse(text).bind(**{"D": 7, "X": 5, "F": 3} | more)


@pytest.mark.parametrize("name", WAYS)
def test_however_it_is_written(name: str) -> None:
    bound = routed(WAYS[name])
    expected = bound.reference(*inputs(bound), weights=weights(bound))
    assert error(built(bound, "fast")(*map(torch.from_numpy, inputs(bound))), expected) < EXACT
    assert ("routed(" in bound.source()) == (name != "one for all positions")


# ------------------------------------------------------------------------------------------------------------- routers

PLAIN = ["r_bsx = Sm_x(z_bsd R_dx)", "p_bsx = where(top_{T,x}(r_bsx), r_bsx, 0)", "g_bsxf = z_bsd G_xdf",
         "u_bsxf = z_bsd U_dxf", "return p_bsx silu(g_bsxf) u_bsxf O_xfd"]  # fmt: skip


def both(bound: Model, given: Tensor, arrays: dict[str, Array]) -> list[dict[str, Tensor]]:
    """What the two plans make of an input, and the gradients of their weights, as they are written."""
    found = []
    for plan in ("notation", "fast"):
        module = bound.build(dtype=torch.float64, plan=plan).eval()
        module.load_state_dict(tensors(arrays))
        y = module(given)
        y.square().sum().backward()  # type: ignore[no-untyped-call]
        for parameter in module.parameters():
            assert parameter.grad is not None
            parameter.data = parameter.grad
        found.append({"": y.detach(), **module.state_dict()})
    return found


def agree(bound: Model, given: Tensor, arrays: dict[str, Array]) -> dict[str, Tensor]:
    """The plans agree with each other, and with the reference; the gradients of `fast`."""
    plain, fast = both(bound, given, arrays)
    assert error(fast[""], bound.reference(given.numpy(), weights=arrays)) < EXACT
    assert {path: error(fast[path], plain[path]) < EXACT for path in plain} == dict.fromkeys(plain, True)
    return fast


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_however_many_are_chosen(count: int) -> None:
    bound = routed(PLAIN, T=count)
    assert bool(agree(bound, torch.from_numpy(inputs(bound)[0]), weights(bound))["O"].any())


def test_of_experts_that_tie_the_first_compute() -> None:
    """Where nothing tells them apart, for every position the same two."""
    bound = routed(PLAIN)
    arrays = weights(bound)
    arrays["R"] = 0 * arrays["R"]
    slopes = agree(bound, torch.from_numpy(inputs(bound)[0]), arrays)["O"]
    assert [bool(slope.any()) for slope in slopes] == [True, True, False, False, False]


def test_experts_that_nobody_chose_learn_nothing() -> None:
    """One position has two of five, whose gradients alone are not zero."""
    bound = routed(PLAIN)
    slopes = agree(bound, torch.from_numpy(inputs(bound, {"B": 1, "S": 1})[0]), weights(bound))
    assert sum(bool(slope.any()) for slope in slopes["G"]) == 2


@pytest.mark.parametrize("shape", [(0, 3), (2, 0)], ids=str)
def test_nothing_in_nothing_out(shape: tuple[int, int]) -> None:
    assert built(routed(PLAIN), "fast")(torch.zeros(*shape, 7, dtype=torch.float64)).shape == (*shape, 7)


# -------------------------------------------------------------------------------------------------------- what it takes

MIXTURES = [name for name, (_, given) in TOYS.items() if any("expert" in key and given[key] for key in given)]


@pytest.mark.parametrize("name", few(MIXTURES, FEW_FAMILIES))
def test_flops_of_a_family_are_those_counted(name: str) -> None:
    toy = ours(name)
    chooses = any(call.name == "top" for layer in toy.spec.tree.layers for call in calls(layer))
    assert ("routed(" in toy.source()) == chooses
    tokens = torch.arange(2 * 11).reshape(2, 11)
    assert work(toy.build().eval(), tokens) == toy.flops(convention="fast", B=2, S=11)


@pytest.mark.parametrize("name", ["mixtral", "deepseek_v3"])
def test_the_report_counts_the_experts_that_compute(name: str) -> None:
    """Without numbers, which decide only how many tokens each expert has."""
    toy = ours(name)
    subject = Specimen(toy, toy.inputs(1, 8))
    found = list(checks.flops_are_counted(subject))
    assert [check.holds for check in found] == [True, True]
    subject.live = toy.build(plan="notation", device="meta").eval()  # computes every expert
    assert [check.holds for check in checks.flops_are_counted(subject)] == [False, False]


def test_small_sizes_have_layers_of_every_kind() -> None:
    """Three dense layers and one with experts; as many as a list of windows has."""
    assert shrink(einformer.load("deepseek_v3").bind(**DEEPSEEK)).size("L") == 4
    gpt_oss = einformer.load("gpt_oss").bind(**GPT_OSS, W=[128, 7] * 12)
    assert shrink(gpt_oss).size("L") == 24


class Largest(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The bytes of the largest tensor that an operation makes."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **kwargs or {})
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, Tensor) and not func.is_view:
                self.bytes = max(self.bytes, tensor.nbytes)
        return result


def test_no_weight_is_gathered_and_no_expert_computed_in_vain() -> None:
    """Nothing is larger than gate and up of the pairs, two for each position."""
    bound = routed(PLAIN, D=16, X=64, F=32)
    (given,) = map(torch.from_numpy, inputs(bound))
    module = built(bound, "fast")
    with torch.no_grad(), Largest() as largest:
        module(given)
    pairs = 2 * given.shape[0] * given.shape[1]
    assert largest.bytes == pairs * 2 * 32 * 8


@pytest.mark.parametrize("name", ["mixtral", "gpt_oss"])
def test_the_peak_of_a_step_is_what_the_profiler_sees(name: str) -> None:
    small = model(name)
    tokens = torch.arange(4 * 37).reshape(4, 37) % 53
    profiled = oracle.profiled(small.build().train(), tokens, torch.zeros(4 * 37, dtype=torch.long))
    assert small.peak(precision="float32", B=4, S=37).bytes == pytest.approx(profiled, rel=0.05)


# ------------------------------------------------------------------------------------------------------- other kernels


def function(helper: str) -> Callable[..., Tensor]:
    """`grouped` of the emitted files, with another head."""
    scope: dict[str, Any] = {"torch": torch, "fn": nn.functional, "Tensor": Tensor}
    exec(HELPERS["Grouped"] + helper, scope)
    found: Callable[..., Tensor] = scope["grouped"]
    return found


def test_the_kernel_of_a_gpu_computes_the_same() -> None:
    """On a CPU `grouped_mm` exists too, so that the branch can be tried here; in bfloat16, to its precision."""
    helper = HELPERS["grouped"]
    assert "x.is_cuda and x.dtype == torch.bfloat16" in helper
    kernel, products = function(helper.replace("x.is_cuda and ", "")), function(helper)
    torch.manual_seed(0)
    ends = torch.tensor([3, 3, 8, 16])
    slopes = []
    for grouped in (kernel, products):
        x, matrices = (torch.randn(*shape, generator=torch.Generator().manual_seed(1)) for shape in ((16, 24), (4, 32, 24)))
        x, matrices = (tensor.bfloat16().requires_grad_() for tensor in (x, matrices))
        y = grouped(x, matrices, ends)
        torch.autograd.backward(y.square().sum())
        slopes.append([tensor.detach().double() for tensor in (y, x.grad, matrices.grad) if tensor is not None])
    assert len(slopes[0]) == 3
    assert all(error(mine, theirs) < 1e-2 for mine, theirs in zip(*slopes, strict=True))


def test_autocast() -> None:
    """Products in bfloat16 where torch casts them, and no error where it does not."""
    bound = routed(PLAIN)
    module = built(bound, "fast", torch.float32)
    given = torch.from_numpy(inputs(bound)[0]).float()
    with torch.autocast("cpu", torch.bfloat16):
        y = module(given)
    assert error(y.double(), bound.reference(given.double().numpy(), weights=weights(bound))) < 0.1
