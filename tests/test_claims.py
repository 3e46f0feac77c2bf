"""Are the verdicts on published formulas right? Argued again by torch, transformers and enumeration, and by slips."""

from __future__ import annotations

import functools
import itertools
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from einformer import EinformerError
from einformer.cli import main
from einformer.notes import claims as notes
from einformer.notes import quantities
from einformer.notes.claims import Claim, Verdict, judge
from einformer.notes.notations import conventions, read
from tests.examples import make_page
from tests.oracles.flops import counted

ROOT = Path(__file__).parents[1]
CLAIMS = {claim.id: claim for claim in notes.claims()}
PRINTED = (ROOT / "tests" / "golden" / "claims.txt").read_text(encoding="utf-8").splitlines()
HOLDING = [name for name, outcome, *_ in (row.split(" | ") for row in PRINTED) if outcome.startswith("holds")]


@functools.cache
def verdict(name: str) -> Verdict:
    return judge(CLAIMS[name])


def verdicts() -> list[Verdict]:
    return [verdict(name) for name in CLAIMS]


def printed(name: str, **sizes: int) -> int:
    """The printed formula of a claim at these sizes, in our letters."""
    claim = CLAIMS[name]
    formula = quantities.read_number(claim.printed, claim.letters, claim.about)
    return int(formula.subs({symbol: sizes[symbol.name] for symbol in formula.free_symbols}))


def derived(name: str, **sizes: int) -> int:
    """The derived one."""
    claim = CLAIMS[name]
    (formula,) = notes._derive(claim)
    return int(formula.subs({symbol: sizes[symbol.name] for symbol in formula.free_symbols}))


# -------------------------------------------------------------------------------------------------------- the table


def test_the_verdicts(golden: Callable[[str, str], None]) -> None:
    table = [f"{row.claim.id} | {row.outcome} | {row.claim.printed} | {row.derived}" for row in verdicts()]
    golden("claims.txt", "\n".join(table) + "\n")


def test_the_page_has_a_row_for_each_claim_that_starts_with_its_verdict() -> None:
    rows = [tuple(line.split(" | ")[:2]) for line in make_page("claims").split("\n") if re.match(r"\| (?!---|verdict)", line)]
    assert rows == [(f"| {row.outcome}", row.claim.id) for row in verdicts()]


def test_names_are_unique() -> None:
    assert len(CLAIMS) == len(notes.claims())


@pytest.mark.parametrize(
    ("source", "least"),
    [
        ("S000", 13), ("S001", 16), ("S002", 12), ("S003", 13), ("S004", 13), ("Goon", 60), ("Kaplan", 11), ("Hoffmann", 8),
        ("Narayanan", 10), ("Korthikanti", 10), ("Chowdhery", 2), ("EleutherAI", 10), ("kipply", 5), ("Rajbhandari", 4),
        ("NVIDIA", 6), ("Brown", 8), ("Karpathy", 10), ("Austin", 8),
        ("Public threads", 20), ("Model cards", 20),
    ],
)  # fmt: skip
def test_every_source_is_there(source: str, least: int) -> None:
    assert sum(claim.source.startswith(source) for claim in CLAIMS.values()) >= least


# What was known to be wrong before anything here was derived, and what is right instead.
WRONG = {
    "S001-C5": "(V + K) D",
    "S001-C7": "4 D",
    "S001-E9": "(B, S, S, A)",
    "S001-E13": "(B, S, D / A, A)",
    "S002-C9": "2 N² D",
    "S002-C11": "4 N E D²",
    "S002-E4": "(M, M)",
    "S003-E2": "(N, D / A)",
    "S003-E4": "(D, V)",
    "S003-E7": "(N, V)",
    "S003-E10": "(D, D)",
    "S004-E6": "16",
    "goon-norms": "4 D",
    "goon-activations-4": "66 L B S D + 9 L B S² A",
    "goon-grouped-flops": "(2 + 4 G / A) B S D²",
    "goon-gpt3-parameters": "0.316434",
    "kaplan-mask-dense": "4 L S A H",
    "eleuther-norms": "4 L D + 2 D",
    "korthikanti-9": "4 L B S² D",
    "unsloth-gemma-3-27b-predicted": "10.4062",
    "unsloth-kimi-k2.5-predicted": "17.1562",
    "ollama-gemma-3-4b-reported": "2,734",
    "lmcache-deepseek-v3": "p (E + R) L S",
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said(name: str) -> None:
    assert verdict(name) == Verdict(CLAIMS[name], "does not hold", WRONG[name])


@pytest.mark.parametrize("name", ["gpt3-XL", "gpt3-13B"])
def test_a_row_that_contradicts_itself_is_refused(name: str) -> None:
    """24 heads of 128 are not 2048 wide, 40 not 5140."""
    assert verdict(name).outcome == "contradicts itself"
    assert "not whole" in verdict(name).derived


def test_a_model_with_sizes_missing_is_no_contradiction() -> None:
    """It is a mistake of the claim."""
    claim = CLAIMS["S004-C2-query"]
    with pytest.raises(EinformerError):
        judge(replace(claim, at={size: n for size, n in claim.at.items() if size != "K"}))


def test_what_is_not_derived_is_never_judged() -> None:
    for row in verdicts():
        assert (row.outcome == "not derived") == (row.claim.about.what in quantities.NOT_DERIVED)
    assert not quantities.QUANTITIES.keys() & quantities.NOT_DERIVED.keys()


def test_predictions_are_wrong_and_corrections_right() -> None:
    """Of a tool that was corrected: by its own log, or by its authors."""
    pairs = [name.removesuffix("-predicted") for name in CLAIMS if name.endswith("-predicted")]
    assert len(pairs) >= 8
    assert {verdict(f"{name}-predicted").outcome for name in pairs} == {"does not hold"}
    assert {verdict(f"{name}-corrected").outcome for name in pairs} == {"holds"}


def test_a_window_that_differs_changes_a_verdict() -> None:
    """The corrected cache of Gemma 3 27B is that of its windows, and not that of all positions or of an engine's pages."""
    claim = CLAIMS["unsloth-gemma-3-27b-corrected"]
    assert judge(replace(claim, about=replace(claim.about, engine="llama-cpp-full"))).derived == "62"
    assert judge(replace(claim, about=replace(claim.about, engine="vllm"))).outcome == "does not hold"
    assert judge(replace(claim, about=replace(claim.about, dtype="q8_0"))).outcome == "does not hold"


# ------------------------------------------------------------------------------------------------------------ slips


def slips(claim: Claim) -> Iterator[Claim]:
    """The claim with a printed formula that is wrong by a factor of 2, or that grows by a letter more."""
    if claim.about.what == "shape":
        yield replace(claim, printed=f"(2 {claim.printed[1:]}")
        yield replace(claim, printed=f"{claim.printed[:-1]}, 1)")
    elif claim.relation == "rounded":
        yield replace(claim, printed=str(2 * float(claim.printed)))
    elif claim.relation.startswith("growth"):
        letter = claim.relation.split()[-1]
        letters = {**claim.letters, "grown": letter}
        yield replace(claim, printed=f"grown ({claim.printed})", letters=letters)
        yield replace(claim, printed=f"({claim.printed}) / grown", letters=letters)
    else:
        yield replace(claim, printed=f"2 ({claim.printed})")
        yield replace(claim, printed=f"({claim.printed}) / 2")


@pytest.mark.parametrize("name", HOLDING)
def test_a_slip_does_not_hold(name: str) -> None:
    assert {judge(slip).outcome for slip in slips(CLAIMS[name])} == {"does not hold"}


def test_equal_is_more_than_leading() -> None:
    """What holds to leading order is not equal, and claims that are equal hold to leading order of anything."""
    for row in verdicts():
        if row.outcome == "holds to leading order":
            assert judge(replace(row.claim, relation="equal")).outcome == "does not hold"


@pytest.mark.parametrize("part", ["n D^2", "n^2 D"])
def test_growth_is_that_of_all_terms(part: str) -> None:
    assert verdict("S002-C12").outcome == "holds"
    assert judge(replace(CLAIMS["S002-C12"], printed=part)).outcome == "does not hold"


def test_another_model_changes_the_verdict() -> None:
    """An MLP without biases has exactly its matrices; a gated one has three of them."""
    claim = replace(CLAIMS["goon-mlp"], relation="equal")
    assert judge(claim).outcome == "does not hold"
    assert judge(replace(claim, about=replace(claim.about, without=("*",)))).outcome == "holds"
    gated = replace(claim, about=replace(claim.about, of="llama.GatedMLP"), assume={"F": "E D"})
    assert judge(gated) == Verdict(gated, "does not hold", "3 E D²")


# ------------------------------------------------------------------------------------------------- argued by others

SIZES = {"D": 26, "A": 2, "L": 3, "V": 41, "K": 19, "S": 7, "B": 5, "E": 4}


@pytest.fixture(scope="module")
def gpt2() -> Any:
    with torch.device("meta"):
        return GPT2LMHeadModel(GPT2Config(n_embd=26, n_head=2, n_layer=3, vocab_size=41, n_positions=19)).train(False)


def numel(*modules: nn.Module) -> int:
    return sum(weight.numel() for module in modules for weight in module.parameters())


def test_parameters_are_those_of_transformers(gpt2: Any) -> None:
    block, model = gpt2.transformer.h[0], gpt2.transformer
    for name, modules in {
        "S001-C5": (model.wte, model.wpe),
        "goon-norms": (block.ln_1, block.ln_2),
        "goon-attention": (block.attn,),
        "goon-mlp": (block.mlp,),
        "narayanan-2": (gpt2,),
    }.items():
        assert derived(name, **SIZES) == numel(*modules) != printed(name, **SIZES), name
    assert printed("narayanan-2-exactly", **SIZES) == numel(gpt2)
    norms = [module for module in gpt2.modules() if isinstance(module, nn.LayerNorm)]
    assert derived("eleuther-norms", **SIZES) == numel(*norms) != printed("eleuther-norms", **SIZES)


def test_flops_are_those_that_torch_counts(gpt2: Any) -> None:
    hidden = torch.zeros(5, 7, 26, device="meta")
    block = gpt2.transformer.h[0]
    for name, run in {
        "goon-query-flops": lambda: block.attn.c_attn(hidden),
        "goon-mlp-flops": lambda: block.mlp(hidden),
        "narayanan-logits": lambda: gpt2.lm_head(hidden),
    }.items():
        assert derived(name, **SIZES) == printed(name, **SIZES) == counted(run).total(), name


def grouped(hidden: int, heads: int, groups: int) -> int:
    """The FLOPs of queries, keys and values for three sequences of five tokens."""
    size = hidden // heads
    with torch.device("meta"):
        projections = [nn.Linear(hidden, size * n, bias=False) for n in (heads, groups, groups)]
        x = torch.zeros(3, 5, hidden)
    return counted(lambda: [projection(x) for projection in projections]).total()


def test_grouped_heads_cost_what_torch_counts() -> None:
    """transformers_notes print (2 + gqa) B S D², which at as many groups as heads is 3 where 6 is known."""
    sizes = {"B": 3, "S": 5, "D": 33, "A": 11}
    for groups in (1, 11):
        count = grouped(33, 11, groups)
        assert derived("goon-grouped-flops", **sizes, G=groups) == count != printed("goon-grouped-flops", **sizes, G=groups)


def exponents(cost: Callable[[int, int], int]) -> tuple[int, int]:
    """The powers of two by which a cost grows with the number of tokens, and with the width."""
    return (cost(14, 5) // cost(7, 5)).bit_length() - 1, (cost(7, 10) // cost(7, 5)).bit_length() - 1


def test_the_two_costs_are_swapped() -> None:
    """S002: doubling the tokens makes Q K^T four times as dear, doubling the width the MLP."""

    def scores(n: int, d: int) -> int:
        q = torch.zeros(n, d, device="meta")
        return counted(lambda: q @ q.T).total()

    def mlp(n: int, d: int) -> int:
        with torch.device("meta"):
            x, up, down = torch.zeros(n, d), torch.zeros(d, 4 * d), torch.zeros(4 * d, d)
        return counted(lambda: torch.relu(x @ up) @ down).total()

    assert (exponents(scores), exponents(mlp)) == ((2, 1), (1, 2))
    assert derived("S002-C9", N=7, D=5) == scores(7, 5)
    assert derived("S002-C11", N=7, D=5, E=4) == mlp(7, 5)
    assert [CLAIMS[name].printed for name in ("S002-C9", "S002-C11")] == ["n D^2", "n^2 D"]


def test_what_selective_recomputation_does_again() -> None:
    """Korthikanti et al. count 12 B L s² h in equation 8; scores and weighted sums once more are 4 B L s² h."""
    with torch.device("meta"):
        q, w = torch.zeros(5, 2, 7, 13), torch.zeros(5, 2, 7, 7)
    once = counted(lambda: (q @ q.transpose(2, 3), w @ q)).total()
    assert derived("korthikanti-9", **SIZES) == 3 * once
    model, hardware = (printed(f"korthikanti-{n}", **SIZES) for n in (7, 8))
    assert hardware - model == 3 * derived("korthikanti-9", **SIZES)
    assert derived("korthikanti-8", **SIZES) - model == derived("korthikanti-9", **SIZES)


def test_a_product_moves_its_operands_and_its_result() -> None:
    """FLOPs per byte of (B, S, D) times (D, D), of tensors that are there: twice what the notes print."""
    x, q = torch.zeros(5, 7, 26, dtype=torch.bfloat16, device="meta"), torch.zeros(26, 26, dtype=torch.bfloat16, device="meta")
    moved = x.nbytes + q.nbytes + (x @ q).nbytes
    claim = CLAIMS["goon-intensity"]
    (formula,) = notes._derive(claim)
    right, theirs = (
        e.subs({symbol: (SIZES | {"p": 2})[symbol.name] for symbol in formula.free_symbols})
        for e in (formula, quantities.read_number(claim.printed, claim.letters, claim.about))
    )
    assert right * moved == counted(lambda: x @ q).total() == 2 * theirs * moved


@pytest.mark.parametrize("groups", [1, 2])
def test_a_cache_is_that_of_transformers(groups: int) -> None:
    """Bytes of keys and values after a forward pass over seven tokens; the cookbook's formula is half of them."""
    sizes: dict[str, Any] = {
        "hidden_size": 24,
        "num_attention_heads": 4,
        "num_key_value_heads": groups,
        "intermediate_size": 11,
    }
    with torch.device("meta"):
        model = LlamaForCausalLM(LlamaConfig(**sizes, num_hidden_layers=3, vocab_size=13)).train(False)
        layers = model(torch.zeros(5, 7, dtype=torch.long), use_cache=True).past_key_values.layers
    held = sum(layer.keys.nbytes + layer.values.nbytes for layer in layers)
    ours = {"B": 5, "S": 7, "D": 24, "A": 4, "G": groups, "L": 3, "p": 4}
    assert derived("goon-grouped-cache", **ours) == held
    assert derived("eleuther-cache", **ours) == 2 * printed("eleuther-cache", **ours) == held * 4 // groups


@pytest.mark.parametrize("element", [2, 4])
def test_activations_are_those_of_a_list(element: int) -> None:
    """What a block keeps, by hand: inputs of two norms, of queries, of the projection, of the MLP; q, k, v; the softmax
    and what is left of it; the hidden of the MLP before and after its function. Masks: two, and one of the softmax.
    """
    hidden, pairs = 5 * 7 * 26, 5 * 2 * 7 * 7
    kept = element * hidden * (2 + 1 + 1 + 1 + 3 + 4 + 4) + element * pairs * 2 + hidden * 2 + pairs
    name = f"goon-activations-{element}"
    assert derived(name, **SIZES) == 3 * kept
    assert (printed(name, **SIZES) == 3 * kept) == (element == 2)


def test_half_of_the_pairs_by_enumeration() -> None:
    """Kaplan et al.'s row is neither all pairs nor those of a causal mask: it is half of all."""
    size = 16
    pairs = sum(1 for s, seen in itertools.product(range(size), repeat=2) if seen <= s)
    dense = derived("kaplan-mask-dense", L=1, S=size, A=3, H=5)
    assert dense == 2 * 2 * size * 3 * 5
    assert 2 * printed("kaplan-mask", L=1, S=size, A=3, H=5) == dense
    assert pairs * 2 == size * size + size


def test_states_of_adam_are_those_of_torch() -> None:
    weight = nn.Parameter(torch.zeros(11, 13))
    optimizer = torch.optim.Adam([weight])
    weight.grad = torch.ones_like(weight)
    optimizer.step()
    held = sum(value.nbytes for value in optimizer.state[weight].values() if value.dim())
    assert derived("goon-bytes-optimiser", N=143) == held
    assert derived("goon-bytes-model", N=143) == weight.nbytes


# --------------------------------------------------------------------------------------------------------- as read


def test_a_letter_of_which_nothing_is_said_is_refused() -> None:
    with pytest.raises(EinformerError) as error:
        read("12 l q^2", conventions()["megatron"])
    assert error.value.findings[0].code == "E605"


@pytest.mark.parametrize("name", conventions())
def test_letters_are_formulas_in_ours(name: str) -> None:
    for text in conventions()[name].values():
        assert read(text, conventions()["ours"])


def test_a_name_that_a_text_does_not_have_is_refused() -> None:
    claim = CLAIMS["S001-C7"]
    with pytest.raises(EinformerError):
        judge(replace(claim, about=replace(claim.about, only=("γ", "δ"))))
    with pytest.raises(EinformerError):
        judge(replace(claim, about=replace(claim.about, of="minimal.Nothing", only=())))


# ------------------------------------------------------------------------------------------------------ the command


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["claims"]) == 0
    out = capsys.readouterr().out
    assert out.endswith(f"{notes.summary(verdicts())}\n")
    rows = out.splitlines()
    assert {row.split()[0] for row in rows if row and row[0] != " "} >= CLAIMS.keys()
    at = next(at for at, row in enumerate(rows) if row.startswith("S001-C7 "))
    assert re.split("  +", rows[at])[1:] == ["does not hold", "parameters of the two LayerNorms of a block: 2 D"]
    assert rows[at + 1].strip() == "derived: 4 D"


def test_the_command_as_data(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["claims", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["id"] for row in rows] == list(CLAIMS)
    row = next(row for row in rows if row["id"] == "S001-C7")
    assert (row["printed"], row["verdict"], row["derived"]) == ("2 D", "does not hold", "4 D")


def test_claims_need_no_torch() -> None:
    code = "import sys; from einformer.notes.claims import claims, judge; judge(claims()[0]); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0
