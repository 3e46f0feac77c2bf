"""Are the counts right? To the unit, against transformers and torch on the meta device, and against published integers."""

from __future__ import annotations

import functools
import math
import random
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import sympy
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoConfig, AutoModelForCausalLM

import einformer
from einformer import EinformerError
from einformer.interpreters.count import algebra, rules, symbols
from einformer.interpreters.torch.measure import Balanced
from einformer.language.tree import Name
from einformer.objects import Model, Specification
from tests.commands import read_json, run
from tests.few import FEW_TEXTS, few
from tests.oracles.encoders import KINDS
from tests.oracles.families import FAMILIES, Family
from tests.oracles.flops import counted
from tests.shipped import TEXTS
from tests.small import PLANS
from tests.texts import spec
from tests.toys import TOYS, architecture_of, config_of
from tests.well_formed import written

BATCH, LENGTH = 2, 37
PARAMETERS = {"gpt2": 124_439_808, "gpt2-medium": 354_823_168, "gpt2-large": 774_030_080, "gpt2-xl": 1_557_611_200}
WHOLE = [name for name, family in FAMILIES.items() if not family.layer]  # models that transformers computes by the text
CHUNKED = sorted(FAMILIES.keys() - set(WHOLE))  # layers that transformers computes in chunks
EXPERTS = {"mixtral", "gpt_oss"}


def weights(model: Model) -> list[Any]:
    sizes: dict[str, Any] = {**model.inputs(1, 2)}
    return [count for part in model.summary(**sizes).parts for count in part.weights]


def equations(model: Model, **sizes: Any) -> list[Any]:
    return [count for part in model.summary(**sizes).parts for count in part.equations]


def flops(model: Model, **sizes: Any) -> int:
    return model.flops(**sizes)


def formula(model: Model, **sizes: int) -> sympy.Expr:
    """The number of parameters, in letters, where each size that is bound stands for itself."""
    tree, name = model.spec.tree, model.spec.name
    return symbols.sum_trained(rules.count_weights(tree, name, symbols.Symbols(model.at(**sizes))))


def flops_formula(model: Model, **sizes: int) -> sympy.Expr:
    tree, name = model.spec.tree, model.spec.name
    return symbols.sum_counts(rules.count_flops(tree, name, symbols.Symbols(model.at(**sizes))))


def published(name: str) -> Model:
    return einformer.model(name)


def ours(family: Family, **changed: Any) -> Model:
    """Our text with a family's sizes, without the weights that theirs lacks."""
    specification = einformer.load(family.text)
    if family.replaced:
        specification = specification.replace(family.replaced)
    layers = {instance.name: instance.layer for layer in specification.tree.layers for instance in layer.weights}
    for path in family.absent:
        *_, layer, weight = (specification.name, *path.split("."))
        name = f"{layers.get(layer, layer)}.{weight}"
        specification = specification.without(name) if name in optional(specification) else specification
    return specification.bind(**{**family.bound, **changed})


def optional(specification: Specification) -> set[str]:
    return {f"{layer.name}.{w.name}" for layer in specification.tree.layers for w in layer.weights if w.optional}


@functools.cache
def theirs(name: str) -> torch.nn.Module:
    """The family's module on the meta device; experts as products of batches, which the counter knows."""
    family = FAMILIES[name]
    config = AutoConfig.for_model(family.kind, **family.config)
    models: Any = AutoModelForCausalLM
    with torch.device("meta"):
        module: torch.nn.Module = (
            family.layer(config)
            if family.layer
            else models.from_config(config, attn_implementation="eager", experts_implementation="batched_mm")
        )
    return module.eval()


def tokens(batch: int, length: int) -> dict[str, torch.Tensor]:
    """Inputs with a mask of ones: without it transformers asks the values of the positions, which meta has none of."""
    return dict.fromkeys(("input_ids", "attention_mask"), torch.ones(batch, length, dtype=torch.long, device="meta"))


# ---------------------------------------------------------------------------------------------------------- parameters


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_of_gpt2_are_the_published_ones(name: str) -> None:
    assert published(name).num_parameters == PARAMETERS[name]


@pytest.mark.parametrize("name", FAMILIES)
def test_parameters_are_those_of_transformers(name: str) -> None:
    assert ours(FAMILIES[name]).num_parameters == sum(parameter.numel() for parameter in theirs(name).parameters())


@pytest.mark.parametrize("name", FAMILIES)
def test_counted_weights_are_the_weights_of_the_model(name: str) -> None:
    """Paths, shapes and number: each weight is counted as often as it is there."""
    model = ours(FAMILIES[name])
    shapes, counts = model.weight_shapes(), weights(model)
    sizes = [math.prod(shape) for shape in shapes.values()]
    assert sorted(sizes) == sorted(count.each for count in counts for _ in range(count.times))
    assert {_starred(path) for path in shapes} == {_starred(count.full_path) for count in counts if count.times}


def _starred(path: str) -> str:
    return ".".join("*" if part.isdecimal() or part.startswith("{") else part for part in path.split("."))


def test_a_tie_counts_once() -> None:
    llama, sizes = einformer.load("llama"), {"D": 40, "A": 5, "G": 5, "F": 31, "V": 53, "L": 2}
    assert llama.bind(**sizes).num_parameters - llama.without("Llama.U").bind(**sizes).num_parameters == 53 * 40


def test_a_buffer_is_no_parameter() -> None:
    (buffer,) = (count for count in weights(ours(FAMILIES["deepseek_v3"])) if not count.trained)
    assert (buffer.full_path, buffer.each, buffer.times) == ("blocks.{l}.Experts.Router.β", 12, 2)


def in_turns(*lines: str) -> Specification:
    """A layer that turns over l around a block of D² parameters and 2 D² FLOPs."""
    head = ("layer Block(z_d) -> z_d:", "  weights W_dd'", "  return z_d' W_d'd", "layer Whole(z_d) -> z_d:")
    scalars = "; ".join(row for row in ("P = 3", "R = 1", "W_l = 1") if row.split()[0] in " ".join(lines))
    return spec("d, l: L", *head, *lines, "  return z_d", scalars=scalars)


TURNS = {
    "one for each turn": (("for l < L:", "  z_d <- Block_l(z_d)"), 7, 7),
    "one for all turns": (("weights block: Block", "for l < L:", "  z_d <- block(z_d)"), 1, 7),
    "one called twice": (("weights block: Block", "for l < L:", "  z_d <- block_l(block_l(z_d))"), 7, 14),
    "two in turn": (
        ("weights one, two: Block", "for l < L:", "  z_d <- where(l mod 2 == 0, one_l(z_d), two_l(z_d))"),
        7,
        7,
    ),
    "two in turn, shared": (
        ("weights one, two: Block", "for l < L:", "  z_d <- where(l mod 2 == R, one(z_d), two(z_d))"),
        2,
        7,
    ),
    "the first": (("for l < L:", "  z_d <- z_d + where(l < P, Block_l(z_d), z_d)"), 3, 3),
    "not the first": (("for l < L:", "  z_d <- z_d + where(l < P, z_d, Block_l(z_d))"), 4, 4),
    "the last": (("for l < L:", "  z_d <- z_d + where(P <= l, Block_l(z_d), z_d)"), 4, 4),
    "the first half": (("for l < L:", "  z_d <- z_d + where(l < L / 2, Block_l(z_d), z_d)"), 4, 4),
    "the second half": (("for l < L:", "  z_d <- z_d + where(l > L / 2, Block_l(z_d), z_d)"), 3, 3),
    "up to a half": (("for l < L:", "  z_d <- z_d + where(L / 2 >= l, Block_l(z_d), z_d)"), 4, 4),
    "one": (("for l < L:", "  z_d <- z_d + where(P == l, Block_l(z_d), z_d)"), 1, 1),
    "from a half on": (("for l < L:", "  z_d <- z_d + where(l >= L / 2, Block_l(z_d), z_d)"), 3, 3),
    "all but one": (("for l < L:", "  z_d <- z_d + where(l != P, Block_l(z_d), z_d)"), 6, 6),
    "in both branches": (
        ("weights block: Block", "for l < L:", "  z_d <- where(l < P, block_l(z_d), 2 block_l(z_d))"),
        7,
        7,
    ),
    "every other": (("for l < L:", "  z_d <- z_d + where(l mod 2 == 0, Block_l(z_d), z_d)"), 4, 4),
    "every third": (("for l < L:", "  z_d <- z_d + where(l mod P == R, Block_l(z_d), z_d)"), 2, 2),
    "every third not": (("for l < L:", "  z_d <- z_d + where(not l mod P == R, Block_l(z_d), z_d)"), 5, 5),
    "always and sometimes": (
        ("weights block: Block", "for l < L:", "  z_d <- block_l(z_d) + where(l < P, block_l(z_d), z_d)"),
        7,
        10,
    ),
    "two loops": (("for l < L:", "  z_d <- Block_l(z_d)", "for l < L - P:", "  z_d <- Block_l(z_d)"), 11, 11),
    "two loops, shared": (
        ("weights block: Block", "for l < L - P:", "  z_d <- block_l(z_d)", "for l < L:", "  z_d <- block_l(z_d)"),
        7,
        11,
    ),
}


@pytest.mark.parametrize(("lines", "sets", "turns"), TURNS.values(), ids=TURNS)
def test_a_where_splits_the_turns_of_a_loop(lines: tuple[str, ...], sets: int, turns: int) -> None:
    """As many sets of weights as there are paths, and a product in each turn that takes the branch; formulas alike."""
    specification = in_turns(*(f"  {line}" for line in lines))
    model = specification.bind(D=5, L=7)
    assert (model.num_parameters, flops(model)) == (25 * sets, 50 * turns)
    assert model.num_parameters == sum(map(math.prod, model.weight_shapes().values()))
    assert number(specification.parameters, model) == 25 * sets
    assert number(specification.flops(), model) == 50 * turns


def test_numbers_are_exact() -> None:
    lines = ("  for l < L - P:", "    z_d <- block_l(z_d)", "  for l < L:", "    z_d <- block_l(z_d)")
    large = in_turns("  weights block: Block", *lines).bind(D=10**9 + 7, L=9973)
    assert large.num_parameters == 9973 * (10**9 + 7) ** 2
    assert flops(large) == 2 * (9973 + 9970) * (10**9 + 7) ** 2


def test_a_where_on_a_tensor_is_no_choice_of_layers() -> None:
    """`P_l` is a weight, though there is a scalar P: both of its branches are there."""
    lines = ("  weights P_l", "  for l < L:", "    z_d <- where(P_l < R, Block_l(z_d), Block_l(z_d))")
    model = in_turns(*lines).bind(D=5, L=7)
    assert (model.num_parameters, flops(model)) == (7 + 2 * 7 * 25, 2 * 7 * 50)


def test_a_weight_takes_nothing_from_a_scalar_of_its_letter() -> None:
    lines = ("  weights P_d", "  for l < L:", "    z_d <- where(l < P, Block_l(z_d), P_d z_d)")
    model = in_turns(*lines).bind(D=5, L=7)
    assert (model.num_parameters, flops(model)) == (5 + 3 * 25, 3 * 50)


def test_a_loop_that_never_turns_has_nothing() -> None:
    lines = ("  weights block: Block", "  for l < L - P:", "    z_d <- block(z_d)")
    model = in_turns(*lines).bind(D=5, L=3)
    assert (model.num_parameters, model.weight_shapes(), flops(model)) == (0, {}, 0)


# --------------------------------------------------------------------------------------------------------------- FLOPs


def test_flops_of_gpt2_are_the_published_parts() -> None:
    """nanoGPT's `transformer_sizing.ipynb`: full attention, logits at all of the 1024 positions."""
    model = published("gpt2")
    each = {count.text.split()[0]: count.each for count in equations(model, B=1, S=1024) if count.layer == "CausalAttention"}
    assert each["q_bsea"] + each["k_bsea"] + each["v_bsea"] == 3_623_878_656
    assert (each["w_bss'a"], each["y_bsea"], each["return"]) == (1_610_612_736, 1_610_612_736, 1_207_959_552)
    parts = {part.path: part for part in model.summary(B=1, S=1024).parts}
    attention, mlp = (parts[f"blocks.{{l}}.{name}"] for name in ("CausalAttention", "MLP"))
    assert attention.flops_of_one == 8_053_063_680
    assert [count.each for count in mlp.equations] == [4_831_838_208, 4_831_838_208]
    assert mlp.flops_of_one == 9_663_676_416
    assert attention.flops + mlp.flops == 12 * 17_716_740_096 == 212_600_881_152
    assert parts[""].flops == 79_047_426_048
    assert flops(model, B=1, S=1024) == 291_648_307_200
    assert (parts[""].weights[0].total, parts[""].weights[1].total) == (38_597_376, 786_432)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_flops_of_gpt2_are_those_of_transformers(attention: str) -> None:
    config: Any = AutoConfig.for_model("gpt2", bos_token_id=None, eos_token_id=None)
    models: Any = AutoModelForCausalLM
    with torch.device("meta"):
        module = models.from_config(config, attn_implementation=attention).eval()
    mask = torch.ones(1, 1, 1024, 1024, dtype=torch.bool, device="meta")
    assert counted(lambda: module(tokens(1, 1024)["input_ids"], attention_mask=mask)).total() == 291_648_307_200


@pytest.mark.parametrize("plan", ["notation", "fast"])
def test_flops_of_gpt2_are_those_of_the_emitted_module(plan: str) -> None:
    module = published("gpt2").build(device="meta", plan=plan).eval()
    assert counted(lambda: module(tokens(1, 1024)["input_ids"])).total() == 291_648_307_200


@pytest.mark.parametrize("name", WHOLE)
def test_flops_are_those_of_transformers(name: str) -> None:
    """Windows and masks count in full, experts only where they are chosen."""
    module = theirs(name)  # built before it is counted
    found = counted(lambda: module(**tokens(BATCH, LENGTH), use_cache=False))
    assert flops(ours(FAMILIES[name]), B=BATCH, S=LENGTH) == found.total()


@pytest.mark.parametrize("name", CHUNKED)
def test_projections_of_recurrent_layers_are_those_of_transformers(name: str) -> None:
    """What lies between them is another sum in chunks; every product over the hidden size is the same."""
    counts = equations(ours(FAMILIES[name]), B=BATCH, S=LENGTH)
    projections = [count for count in counts if "z_bsd" in count.text or "return" in count.text]
    x, module = torch.ones(BATCH, LENGTH, FAMILIES[name].bound["D"], device="meta"), theirs(name)
    assert sum(count.total for count in projections) == counted(lambda: module(x), "linalg_solve_triangular")["aten.mm"]


@pytest.mark.parametrize(("plan", "convention"), [("fast", "fast"), ("notation", "notation")])
@pytest.mark.parametrize("name", few(FAMILIES, FEW_TEXTS))
def test_flops_are_those_of_the_emitted_module(name: str, plan: str, convention: str) -> None:
    family = FAMILIES[name]
    model = ours(family)
    shape = (BATCH, LENGTH, family.bound["D"]) if family.layer else (BATCH, LENGTH)
    x = torch.ones(shape, dtype=None if family.layer else torch.long, device="meta")
    module = model.build(device="meta", plan=plan).eval()
    with Balanced():
        found = counted(lambda: module(x)).total()
    assert model.flops(convention=convention, B=BATCH, S=LENGTH) == found


DEEPSEEK = {"D": 7168, "A": 128, "N": 128, "E": 64, "U": 128, "C": 1536, "R": 512, "F": 18432, "V": 129280, "L": 61}
DEEPSEEK |= {"X": 256, "G": 8, "M": 2048, "Z": 1, "P": 3, "T": 8, "Y": 4}
GPT_OSS = {"D": 2880, "A": 64, "G": 8, "H": 64, "F": 2880, "V": 201088, "L": 24, "X": 32, "T": 4}


@pytest.mark.parametrize(
    ("text", "sizes", "total", "work"),
    [
        ("deepseek_v3", DEEPSEEK, 671_026_404_352, 38_813_552_345_088),
        ("gpt_oss", GPT_OSS, 20_914_757_184, 3_796_793_032_704),
    ],
)
def test_chosen_experts_only(text: str, sizes: dict[str, int], total: int, work: int) -> None:
    model = einformer.load(text).bind(**sizes)
    assert model.num_parameters == total
    assert flops(model, B=1, S=512) == work


def test_equations_stand_at_the_paths_and_names_of_the_text() -> None:
    """Specialised layers have names of their own, `Rotary2`, which nobody wrote."""
    counts = equations(ours(FAMILIES["deepseek_v3"]), B=1, S=2)
    rotary = [count for count in counts if "cos" in count.text]
    assert [(count.path, count.layer, count.times) for count in rotary] == [
        ("blocks.{l}.LatentAttention.Rotary", "Rotary", 3)
    ] * 2
    layers = einformer.load("deepseek_v3").tree.layers
    assert {count.layer for count in counts} == {layer.name for layer in layers}


# ------------------------------------------------------------------------------------------------------- sparse indices

ROUTER = "  p_sx = where(top_{T,x}(r_sx), r_sx, 0)"
GATES = "  g_sxf = z_sd G_xdf"
MIX = "  return p_sx silu(g_sxf) O_xfd"
# What stands between the router's product and the result; how many of the 11 experts compute g, and how many O.
SPARSE = {
    "chosen": ([ROUTER, GATES, MIX], 2, 2),
    "no router": (["  p_sx = sigmoid(r_sx)", GATES, MIX], 11, 11),
    "softmax of what is left": (["  p_sx = Sm_x(where(top_{T,x}(r_sx), r_sx, -inf))", GATES, MIX], 2, 2),
    "a mask added": (["  p_sx = Sm_x(r_sx + where(top_{T,x}(r_sx), 0, -inf))", GATES, MIX], 2, 2),
    "two conditions": (["  p_sx = where(top_{T,x}(r_sx) and r_sx > 0, r_sx, 0)", GATES, MIX], 2, 2),
    "one condition of two": (["  p_sx = where(top_{T,x}(r_sx) or r_sx > 0, r_sx, 0)", GATES, MIX], 11, 11),
    "a condition inside": (["  p_sx = where(r_sx > 0, where(top_{T,x}(r_sx), r_sx, 0), 0)", GATES, MIX], 2, 2),
    "chosen or not": (["  p_sx = where(top_{T,x}(r_sx), r_sx, 1)", GATES, MIX], 11, 11),
    "normalised": ([ROUTER, "  p_sx <- p_sx / sum_x p_sx", GATES, MIX], 2, 2),
    "scaled and squared": ([ROUTER, "  p_sx <- relu(3 p_sx)^2 / 7", GATES, MIX], 2, 2),
    "one of those chosen": ([ROUTER, "  p_sx <- where(top_{1,x}(p_sx), p_sx, 0)", GATES, MIX], 1, 1),
    "no longer zero": ([ROUTER, "  p_sx <- exp(p_sx)", GATES, MIX], 11, 11),
    "shifted": ([ROUTER, "  p_sx <- p_sx + 1", GATES, MIX], 11, 11),
    "the same twice": ([ROUTER, "  p_sx <- p_sx + 2 p_sx", GATES, MIX], 2, 2),
    "two routers": ([ROUTER, "  p_sx <- p_sx + where(top_{T,x}(-r_sx), 1, 0)", GATES, MIX], 11, 11),
    "read elsewhere": ([ROUTER, GATES, "  return p_sx silu(g_sxf) O_xfd + y_d mean_{xf} g_sxf"], 11, 2),
    "read by a neighbour": ([ROUTER, GATES, "  return p_sx where(s > 0, g_{(s - 1)xf}, 0) O_xfd"], 11, 2),
    "a sum of experts": ([ROUTER, GATES, "  return p_sx (silu(g_sxf) O_xfd + ω_xd)"], 2, 2),
    "a condition in place of a weight": ([GATES, "  return sum_x(where(top_{T,x}(r_sx), silu(g_sxf) O_xfd, 0))"], 2, 2),
    "step by step": ([ROUTER, GATES, "  h_sxf = silu(g_sxf)", "  i_sxf = p_sx h_sxf", "  return i_sxf O_xfd"], 2, 2),
    "an average of positions": ([ROUTER, "  p'_x = mean_s p_sx", GATES, "  return p'_x silu(g_sxf) O_xfd"], 11, 11),
    "an average within": ([ROUTER, GATES, "  return (mean_s p_sx) silu(g_sxf) O_xfd"], 11, 11),
    "in a loop": (["  p_sx = r_sx", "  for l < L:", "    p_sx <- where(top_{T,x}(r_sx), p_sx, 0)", GATES, MIX], 11, 11),
    "chosen anew in each turn": (
        [GATES, "  for l < L:", "    p_sx = where(top_{T,x}(r_sx), r_sx, 0)", "    z_sd <- p_sx g_sxf O_xfd", "  return z_sd"],
        11,
        2 * 2,
    ),
    "read in the next turn": (
        [ROUTER, GATES, "  for l < L:", "    z_sd <- p_sx g_sxf O_xfd", "    g_sxf <- g_sxf / 2", "  return z_sd"],
        2,
        2 * 2,
    ),
    "computed and chosen in each turn": (
        ["  for l < L:", f"  {ROUTER}", f"  {GATES}", "    z_sd <- p_sx g_sxf O_xfd", "  return z_sd"],
        2 * 2,
        2 * 2,
    ),
    "in one turn of two": (
        [ROUTER, GATES, "  for l < L:", "    z_sd <- where(l < 1, p_sx, 0) g_sxf O_xfd", "  return z_sd"],
        2,
        2 * 2,
    ),
    "read at other numbers": ([ROUTER, GATES, "  n_x = x - x mod 2", "  return p_{s n_x} silu(g_sxf) O_xfd"], 11, 11),
    "in every turn": ([ROUTER, "  for l < L:", "    p_sx <- 2 p_sx", GATES, MIX], 2, 2),
    "computed by a layer": ([ROUTER, "  g_sxf = gate(z_sd)", MIX], 2, 2),
    "given to a layer": ([ROUTER, "  return mix(p_sx, z_sd)"], 2, 2),
    "given to a layer once": ([ROUTER, "  return mix(p_sx, z_sd) + mix(r_sx, z_sd)"], 2 + 11, 2 + 11),
    "made by a layer": (["  p_sx = Choose(r_sx)", GATES, MIX], 2, 2),
    "made by two layers": (["  p_sx = Choose(r_sx) + Choose(2 r_sx)", GATES, MIX], 11, 11),
    "a layer in between": ([ROUTER, GATES, "  return p_sx Half(silu(g_sxf)) O_xfd"], 2, 2),
    "a layer that mixes experts": ([ROUTER, GATES, "  return p_sx Centred_x(silu(g_sxf)) O_xfd"], 11, 2),
}
LAYERS = """
layer Choose(r_x) -> r_x:
  return where(top_{T,x}(r_x), r_x, 0)
layer Half(z_f) -> z_f:
  return z_f / 2
layer Centred_f(z_f) -> z_f:
  return z_f - mean_f z_f
layer Gate(z_d) -> g_xf:
  weights G_xdf
  return z_d G_xdf
layer Mix(p_x, z_d) -> z_d:
  weights G_xdf, O_xfd
  g_xf = z_d G_xdf
  return p_x silu(g_xf) O_xfd
""".strip().split("\n")


def mixture(lines: list[str], features: int = 3) -> Model:
    """A router over eleven experts, of which each position has two, and the lines after it."""
    text = "\n".join(lines)
    declared = [name for name in ("G_xdf", "O_xfd", "ω_xd", "y_d") if name[:3] in text]
    declared += [f"{name}: {name.capitalize()}" for name in ("mix", "gate") if f"{name}(" in text]
    head = ["layer Experts(z_sd) -> z_sd:", f"  weights R_dx, {', '.join(declared)}", "  r_sx = z_sd R_dx"]
    axes, depth = ("s, d, x, f, l: L", {"L": 2}) if "< L" in text else ("s, d, x, f", {})
    return spec(axes, *LAYERS, *head, *lines, scalars="T = 2").bind(S=13, D=5, X=11, F=features, **depth)


@pytest.mark.parametrize(("lines", "gates", "outputs"), SPARSE.values(), ids=SPARSE)
def test_only_what_is_chosen_counts(lines: list[str], gates: int, outputs: int) -> None:
    """Each position computes 2 x 5 x 11 FLOPs of the router and, for each expert that computes, 2 x 5 x 3 twice."""
    assert mixture(lines).flops(convention="exact") == 13 * 2 * 5 * (11 + 3 * gates + 3 * outputs)


def test_a_state_remembers_what_others_chose() -> None:
    """Each position reads two experts, but their states are made of what was there at every position before."""
    lines = ["  S_sxf = S_{(s - 1)xf} + z_sd G_xdf", "  return p_sx S_sxf O_xfd"]
    head = ["model Experts(z_sd) -> z_sd causal in s:", "  weights R_dx, G_xdf, O_xfd", "  r_sx = z_sd R_dx", ROUTER]
    model = spec("s, d, x, f", *head, *lines, scalars="T = 2").bind(D=5, X=11, F=3)
    assert model.flops(convention="exact", S=13) == 13 * 2 * 5 * (11 + 3 * 11 + 3 * 2)


@pytest.mark.parametrize(
    ("lines", "products"),
    [
        ([ROUTER, "  w_xdd' = G_xdf O_xfd'", "  return p_sx (z_sd' w_xd'd)"], 11 * 5 * 7 * 5 + 13 * 2 * 5 * 5),
        ([ROUTER, "  return p_sx z_sd' G_xd'f O_xfd"], 11 * 5 * 7 * 5 + 13 * 5 * 5),
    ],
    ids=["by itself", "and the experts combined before the product with z"],
)
def test_a_product_of_weights_knows_no_choice(lines: list[str], products: int) -> None:
    """Each position has two experts, all positions together have all: what has no s computes eleven."""
    assert mixture(lines, features=7).flops(convention="exact") == 2 * (13 * 5 * 11 + products)


# ------------------------------------------------------------------------------------------------------------- formulas


def number(expression: sympy.Expr, model: Model, **sizes: int) -> sympy.Expr:
    """A formula with a model's numbers for its letters."""
    legend, expression = model.at(**sizes), sympy.sympify(expression)
    return expression.subs({symbol: legend.named(Name(symbol.name)) for symbol in expression.free_symbols})


def test_formula_of_gpt2() -> None:
    L, E, D, V, K, B, S = sympy.symbols("L E D V K B S")
    gpt2 = einformer.load("gpt2")
    assert sympy.expand(gpt2.parameters - (L * ((4 + 2 * E) * D**2 + (9 + E) * D) + 2 * D + D * (K + V))) == 0
    assert sympy.expand(gpt2.flops() - 2 * B * S * (L * ((4 + 2 * E) * D**2 + 2 * S * D) + V * D)) == 0
    leading = [sympy.Poly(gpt2.parameters, D).coeff_monomial(power) for power in (D**2, D)]
    assert sympy.expand(leading[0] - (4 + 2 * E) * L) == 0
    assert sympy.Poly(leading[1], V).coeff_monomial(V) == 1


PARTS = {
    "blocks.{l}.CausalAttention": ("4 D² + 4 D", "8 B S D² + 4 B S² D"),
    "blocks.{l}.LayerNorm": ("2 D", ""),
    "blocks.{l}.MLP": ("2 E D² + (1 + E) D", "4 B S E D²"),
    "blocks.{l}.LayerNorm_2": ("2 D", ""),
    "LayerNorm_3": ("2 D", ""),
    "GPT2": ("(V + K) D", "2 B S V D"),
}


def test_formulas_of_the_parts_of_gpt2() -> None:
    """The notes print 2 D for both norms of a block: it is 2 D for each."""
    *parts, _ = read_json("count", "gpt2", "--formulas")["parts"]
    assert {part["path"]: (part["parameters_of_one"], part["flops_of_one"]) for part in parts} == PARTS


SHOWN = {
    "gpt2": ("(4 + 2 E) L D² + (9 + E) L D + (2 + V + K) D", "(8 + 4 E) L B S D² + 4 L B S² D + 2 B S V D"),
    "llama": (
        "2 (1 + G / A) L D² + (2 + 3 F) L D + (1 + 2 V) D",
        "4 (1 + G / A) L B S D² + 4 L B S² D + 6 L B S F D + 2 B S V D",
    ),
    "qwen3": (
        "(2 + 3 F + 2 G H + 2 A H) L D + (1 + 2 V) D + 2 L H",
        "(6 F + 4 G H + 4 A H) L B S D + 4 L B S² A H + 2 B S V D",
    ),
    "deepseek_v3": (
        "(2 + E + C + R + A U) L D + (X + 3 X M + 3 M Z) (L - P) D + (1 + 2 V + 3 F P) D"
        " + (C + R + A E C + A U R + A N C + A N R) L",
        "2 (E + C + R + A U) L B S D + (2 X + 6 M Z + 6 M T) (L - P) B S D + A (2 E + 4 R) L B S² + (2 V + 6 F P) B S D"
        " + 2 A (E C + U R + N C + N R) L B S",
    ),
    "loss": ("0", "0"),
}


@pytest.mark.parametrize("name", SHOWN)
def test_formulas_print_as_people_write_them(name: str) -> None:
    total = read_json("count", name, "--formulas")["parts"][-1]
    assert (total["parameters"], total["flops"]) == SHOWN[name]


WRITTEN = {
    "D / 2 - 1": "D / 2 - 1",
    "-D**2": "-D²",
    "S/(2*D*A)": "S / (2 A D)",
    "sqrt(D)*L": "L sqrt(D)",
    "L*D**A": "L D^(A)",
    "ceiling(L/2)*D": "ceil(L / 2) D",
    "(L - P)*D + (L - P)*D**2": "(L - P) D² + (L - P) D",
    "D**12*B": "B D¹²",
    "Max(A, B)": "max(A, B)",
    "7": "7",
}


@pytest.mark.parametrize(("formula", "text"), WRITTEN.items())
def test_a_formula_is_written(formula: str, text: str) -> None:
    names = dict(zip("ABDLPS", sympy.symbols("A B D L P S"), strict=True))
    assert algebra.show(sympy.sympify(formula, locals=names)) == text


@pytest.mark.parametrize("name", SHOWN)
def test_a_formula_in_python_is_the_formula(name: str) -> None:
    specification = einformer.load(name)
    for whole in (specification.parameters, specification.flops(), specification.flops("exact")):
        values = {symbol.name: 3 + 2 * k for k, symbol in enumerate(sorted(whole.free_symbols, key=str))}
        text, exact = algebra.show(whole, form="python"), {letter: Fraction(value) for letter, value in values.items()}
        expected = Fraction(*map(int, whole.subs(values).as_numer_denom()))
        assert eval(text, {"math": math, "min": min, "max": max}, exact) == expected


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        ("(4 + 2*E)*L*D**2", r"\left(4 + 2 E\right) L D^{2}"),
        ("S/(2*D*A)", r"\frac{S}{2 A D}"),
        ("Max(A, ε)*sqrt(D)", r"\max\left(A, \varepsilon\right) \sqrt{D}"),
    ],
)
def test_a_formula_in_latex(formula: str, text: str) -> None:
    names = dict(zip("ABDELSε", sympy.symbols("A B D E L S ε"), strict=True))
    assert algebra.show(sympy.sympify(formula, locals=names), form="latex") == text


@pytest.mark.parametrize("seed", range(40))
def test_random_texts_have_the_weights_of_the_model_and_formulas_of_their_numbers(seed: int) -> None:
    text = written(random.Random(seed))
    model = einformer.parse(text.text).bind(**text.sizes(3, 5, 2, 7))
    held = sum(count.total for count in weights(model))
    assert held == sum(map(math.prod, model.weight_shapes().values()))
    counts = rules.count_weights(model.spec.tree, model.spec.name, symbols.Symbols(model.legend))
    assert number(symbols.sum_counts(counts), model) == held
    assert number(flops_formula(model), model) == flops(model)


@pytest.mark.parametrize("name", FAMILIES)
def test_formulas_with_numbers_are_the_numbers(name: str) -> None:
    model = ours(FAMILIES[name])
    sizes = {"B": BATCH, "S": LENGTH}
    assert number(formula(model, **sizes), model) == model.num_parameters
    assert number(flops_formula(model, **sizes), model, **sizes) == flops(model, **sizes)


CHOSEN = """axes
  b: B
  d: D
  a: A
scalars
  γ = 0
layer Gain(z_d) -> z_d:
  weights g_d
  return γ g_d z_d
model M(z_bda) -> y_bda:
  return where(γ == 1, Gain(z_bda), 2 z_bda)
"""


@pytest.mark.parametrize(("value", "expected"), [(0, "0"), (1, "D")])
def test_a_formula_is_that_of_the_branch_that_scalars_choose(value: int, expected: str) -> None:
    model = einformer.parse(CHOSEN).bind(γ=value)
    assert str(model.spec.parameters) == expected


def test_a_formula_in_letters_of_sizes_is_not_decided_by_sizes() -> None:
    model = einformer.parse(CHOSEN.replace("γ == 1", "D == A")).bind(D=5, A=2)
    with pytest.raises(EinformerError, match="E607"):
        model.spec.parameters  # noqa: B018


OWN_SIZES = {"D": 35, "A": 5, "E": 6, "U": 11, "F": 31, "K": 41, "V": 53, "L": 3}


OF_TOYS = {architecture_of(name): config_of(name) for name in TOYS}
NO_FORMULA = {
    "llama4",
    "llama4_plain",
    "lfm2",
    "lfm2_moe",
    "qwen3_next",
    "qwen3_5",
    "glm4_moe_lite",
    "axk1",
    "axk2",
    "deepseek_v32",
    "glm_moe_dsa",
    "exaone_moe",
    "hy_v3",
    "kimi_linear",
    "bamba",
    "nemotron_h",
    "granitemoehybrid",
    "granite_hybrid",
    "minimax",
    "olmo_hybrid",
    "mellum",
    "lfm3",
    "mimo_v2_flash",
    "gemma4",
    "gemma4_large",
    "bailing_hybrid",
    "flint",
    "laguna",
    "beam",
    "gemma3n",
}  # two conditions of layers, or a list of them


@pytest.mark.parametrize(
    "name", few(sorted(OF_TOYS.keys() - {family.text for family in FAMILIES.values()} - NO_FORMULA), FEW_TEXTS)
)
def test_formulas_of_texts_of_families_with_numbers_are_the_numbers(name: str) -> None:
    model = einformer.from_huggingface(OF_TOYS[name])
    assert number(formula(model, B=2, S=37), model) == model.num_parameters
    assert number(flops_formula(model, B=2, S=37), model, B=2, S=37) == flops(model, B=2, S=37)


@pytest.mark.parametrize("name", sorted(set(TEXTS) - {family.text for family in FAMILIES.values()} - OF_TOYS.keys()))
def test_formulas_of_our_own_texts_with_numbers_are_the_numbers(name: str) -> None:
    specification = einformer.load(name)
    sizes = KINDS[name].bound if name in KINDS else OWN_SIZES
    model = specification.bind(**{size: n for size, n in sizes.items() if size in specification.bind().open})
    open_sizes: dict[str, Any] = {size: n for size, n in {"B": 2, "S": 37, "T": 41, "N": 3}.items() if size in model.open}
    assert number(formula(model, **open_sizes), model) == model.num_parameters
    assert number(flops_formula(model, **open_sizes), model, **open_sizes) == flops(model, **open_sizes)


REFUSED = {
    "two conditions": ("  z_d <- z_d + where(l < P, where(l mod 2 == R, Block_l(z_d), z_d), z_d)", "E607"),
    "a list": ("  z_d <- z_d + where(W_l == 1, Block_l(z_d), z_d)", "E607"),
    "a sum of letters": ("  z_d <- z_d + where(P < R + l, Block_l(z_d), z_d)", "E607"),
    "an inequality of remainders": ("  z_d <- z_d + where(l mod 3 < 2, Block_l(z_d), z_d)", "E607"),
}


@pytest.mark.parametrize(("line", "code"), REFUSED.values(), ids=REFUSED)
def test_turns_that_letters_cannot_count_are_refused_and_numbers_count_them(line: str, code: str) -> None:
    specification = in_turns("  for l < L:", f"  {line}")
    with pytest.raises(EinformerError) as error:
        assert specification.parameters
    assert [finding.code for finding in error.value.findings] == [code]
    model = specification.bind(D=5, L=7)
    assert model.num_parameters == sum(map(math.prod, model.weight_shapes().values())) > 0


def test_open_sizes_are_needed_for_flops_and_for_nothing_else() -> None:
    model = published("gpt2")
    with pytest.raises(EinformerError, match=r"E601 the size `[BS]` is not bound"):
        flops(model)
    with pytest.raises(EinformerError, match="E603"):
        flops(model, B=1, S=1025)
    with pytest.raises(EinformerError, match="E605"):
        flops(model, D=5)


# ----------------------------------------------------------------------------------------------------------- the table


def test_parts_add_up() -> None:
    model = ours(FAMILIES["deepseek_v3"])
    parts = model.summary(B=BATCH, S=LENGTH).parts
    assert [part.times for part in parts] == [3, 3, 3, 1, 2, 1, 1]
    assert sum(part.parameters for part in parts) == model.num_parameters
    assert sum(part.flops for part in parts) == flops(model, B=BATCH, S=LENGTH)
    assert all(part.times * (part.flops_of_one or 0) == part.flops for part in parts)
    assert all(part.times * part.parameters_of_one == part.parameters for part in parts)


def test_layers_of_two_windows_have_no_flops_of_one() -> None:
    """Every other layer of Gemma 2 sees a window only: what one layer takes is then two numbers."""
    model = ours(FAMILIES["gemma2"])
    for name, one in ("torch", True), ("exact", False):
        parts = model.summary(convention=name, B=BATCH, S=LENGTH).parts
        (attention,) = (part for part in parts if part.layer == "Attention")
        assert attention.times == model.size("L")
        assert (attention.flops_of_one is not None) == one
        others = sum(part.flops for part in parts if part is not attention)
        assert attention.flops == model.flops(convention=name, B=BATCH, S=LENGTH) - others


def test_products_of_the_model_itself_are_a_part() -> None:
    model = in_turns("  weights V_dd', P_d", "  for l < L:", "    z_d <- P_d z_d' V_d'd").bind(D=5, L=7)
    (part,) = model.summary().parts
    assert (part.path, part.layer, part.times) == ("", "Whole", 1)
    assert (part.parameters_of_one, part.parameters, part.flops_of_one, part.flops) == (30, 30, 350, 350)


def test_a_part_called_in_a_loop_and_outside_of_it_has_a_row(tmp_path: Path) -> None:
    """Which of 1 and L is more, letters do not say."""
    lines = [
        "layer Mix(z_bsd) -> y_bsd:",
        "  weights W_dd'",
        "  return z_bsd' W_d'd",
        "",
        "model M(z_bsd) -> y_bsd causal in s:",
    ]
    body = ["  weights mix: Mix", "  for l < L:", "    z_bsd <- z_bsd + mix(z_bsd)", "  return mix(z_bsd)"]
    specification = spec("b, s, d, l", *lines, *body)
    (tmp_path / "m.ein").write_text(str(specification), encoding="utf-8")
    row = read_json("count", str(tmp_path / "m.ein"), "--formulas")["parts"][0]
    assert (row["path"], row["times"]) == ("mix", "max(1, L)")
    assert specification.bind(D=5, L=3).flops(B=1, S=7) == 4 * 2 * 7 * 5 * 5


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("matrix", ["W_ldd'", "W_ld'd"])
def test_a_matrix_of_each_turn_is_counted_once(matrix: str, plan: str) -> None:
    """Also where it is read the other way round: in numbers, in letters, and as torch counts."""
    lines = ("  weights W_ldd'", "  for l < L:", f"    z_bsd <- tanh(z_bsd' {matrix})", "  return z_bsd")
    specification = spec("b, s, d, l", "model M(z_bsd) -> y_bsd causal in s:", *lines)
    bound = specification.bind(D=3, L=4)
    with FlopCounterMode(display=False) as counter:
        bound.build(plan=plan)(torch.ones(2, 7, 3))
    formula = specification.flops().subs({"B": 2, "S": 7, "D": 3, "L": 4})
    assert counter.get_total_flops() == bound.flops(B=2, S=7) == formula == 4 * 2 * 2 * 7 * 3 * 3


def test_what_has_no_time_axis_has_no_next_token() -> None:
    found = spec("b, s, d", "layer M(z_bsd) -> z_bsd:", "  weights W_dd'", "  return z_bsd' W_d'd").bind(D=5).summary(B=1, S=7)
    assert (found.flops["forward"], found.next_token, found.cache) == (2 * 7 * 5 * 5, None, None)


def widened(size: str) -> Specification:
    """A layer of one matrix, whose width is this size."""
    text = (
        f"axes\n  b: B\n  s: S\n  d: D\n  f: F = {size}\n\nlayer Wide(z_bsd) -> h_bsf:\n  weights W_df\n  return z_bsd W_df\n"
    )
    return einformer.parse(text)


@pytest.mark.parametrize("size", ["3.5 D", "0.5 D", "D / 2.5", "D^1.5", "D^0.5", "2 D^2.0", "exp(0) D", "(D + 1)^9 - D^9"])
def test_a_size_with_a_fraction_has_a_formula(size: str) -> None:
    wide = widened(size)
    assert number(wide.parameters, wide.bind(D=100)) == wide.bind(D=100).num_parameters
    assert algebra.show(wide.parameters)


@pytest.mark.parametrize(
    "size",
    [
        "(D + 1)^1000000",
        "((((D + 1)^9 + 1)^9 + 1)^9 + 1)^9",
        "(D + B)^200",
        "D^D",
        "2^D",
        "exp(D)",
        "exp(exp(exp(D)))",
        "1e300 D",
    ],
)
def test_a_size_without_a_formula_that_one_can_read_is_refused_at_once(size: str) -> None:
    with pytest.raises(EinformerError, match=r"E60[47]"):
        widened(size).parameters  # noqa: B018


def test_table_and_data_say_the_same() -> None:
    rows = [line.split() for line in run("count", "gpt2").out.split("\n")]
    first = ["blocks.{l}.CausalAttention", "12", "2,362,368", "28,348,416", "8,053,063,680", "96,636,764,160", "858,783,744"]
    assert first in rows
    assert ["total", "124,439,808", "291,648,307,200"] in [row[:3] for row in rows]
    data = read_json("count", "gpt2")
    assert (data["parameters"], data["flops"]) == (124_439_808, 291_648_307_200)
    every = [weight["total"] for part in data["parts"] for weight in part["weights"]]
    assert sum(every) == 124_439_808
    assert [equation["equation"] for equation in data["parts"][-1]["equations"]] == ["return LayerNorm(z_bsd) E_vd"]


def test_a_shared_part_has_one_set_of_weights_and_many_turns() -> None:
    model = in_turns("  weights block: Block", "  for l < L:", "    z_d <- block(z_d)").bind(D=5, L=7)
    block, whole = model.summary().parts
    assert (block.path, block.times, block.parameters_of_one, block.parameters) == ("block", 7, 25, 25)
    assert (block.flops_of_one, block.flops) == (50, 350)
    assert (whole.path, whole.layer, whole.times, whole.parameters, whole.flops) == ("", "Whole", 1, 0, 0)


def test_emitting_and_counting_need_no_torch() -> None:
    program = "import sys; import einformer; model = einformer.model('gpt2'); model.source(); model.source('notation')"
    program += "; model.summary(B=1, S=8); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert {"sympy", "torch", "transformers"}.isdisjoint(loaded)


def test_counting_loads_no_heavy_library() -> None:
    program = "import sys; from einformer.interpreters.count import numbers, table; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert {"numpy", "sympy", "torch", "transformers"}.isdisjoint(loaded)
