"""Does phrasing change nothing? All spellings of one thing call the same kernels in the plan `fast`, and count the same."""

from __future__ import annotations

import functools
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
import torch

import einformer
from einformer.objects import Model
from tests.small import built, error, inputs, weights
from tests.spellings import BOUND, ENDS, EXAMPLE, GROUPS, MASK, QKV, SINK, Group, Lines

PAGE = Path(__file__).parent.parent / "docs" / "spellings.md"
KERNELS = r"fn\.\w+|with_sink|is_causal|attn_mask|torch\.(?:einsum|softmax|tanh|logsumexp)|(?:grouped|chunked)(?=\()"
PHASES: tuple[Literal["forward", "backward"], ...] = ("forward", "backward")
Row = tuple[tuple[tuple[str, int], ...], int, tuple[int, ...]]  # kernels and how often, bytes, FLOPs


@functools.cache
def model(group: str, lines: Lines) -> Model:
    text = GROUPS[group].text(lines)
    return einformer.parse(text).bind(**{name: size for name, size in BOUND.items() if f": {name}\n" in text})


@functools.cache
def row(group: str, lines: Lines) -> Row:
    """What a spelling costs."""
    bound = model(group, lines)
    forward = bound.source().rpartition("def forward")[2]
    memory = bound.memory(B=EXAMPLE["B"], S=EXAMPLE["S"])
    flops = tuple(
        bound.flops(convention=name, phase=phase, B=EXAMPLE["B"], S=EXAMPLE["S"])
        for name in ("torch", "exact")
        for phase in PHASES
    )
    return tuple(sorted(Counter(re.findall(KERNELS, forward)).items())), memory.activations + memory.logits, flops


@pytest.mark.parametrize("group", GROUPS)
def test_spellings_of_one_thing_cost_the_same(group: str) -> None:
    first, *others = GROUPS[group].spellings
    assert {lines: row(group, lines) for lines in others} == dict.fromkeys(others, row(group, first))


@pytest.mark.parametrize("group", GROUPS)
def test_spellings_of_one_thing_are_its_value(group: str) -> None:
    """The first by the reference; the others equal it in the plan `fast`."""
    first, *others = GROUPS[group].spellings
    bound = model(group, first)
    arrays = inputs(bound, {"B": 2, "S": 6})
    expected = bound.reference(*arrays, weights=weights(bound))
    for lines in (first, *others):
        module = built(bound, "fast") if lines == first else model(group, lines).build(dtype=torch.float64).eval()
        module.load_state_dict({name: torch.from_numpy(array) for name, array in weights(bound).items()})
        assert error(module(*map(torch.from_numpy, arrays)), expected) < 1e-12


REFUSED = {
    "w_bss'a = Sm_s'(κ tanh(q_bsea k_bs'ea / κ) + m_ss')": "`tanh` stands around the scores, which the kernel has no place for",
    "t_bss'a = q_bsea k_bs'ea + m_ss' | w_bss'a = Sm_s'(t_bss'a) tanh(lse_s' t_bss'a)": "`t` is read more than once",
}


@pytest.mark.parametrize(("middle", "reason"), REFUSED.items(), ids=["a cap", "scores that are read twice"])
def test_what_is_not_fused_says_why(middle: str, reason: str) -> None:
    """One comment, between the equation and its code."""
    group = GROUPS["a cap of scores" if "κ" in middle else "causal attention"]
    text = group.text((*QKV, MASK, *middle.split(" | "), *ENDS))
    lines = [line.strip() for line in einformer.parse(text).bind(D=12, A=3).source().splitlines()]
    assert [line for line in lines if "kernel" in line] == [f"# not one attention kernel: {reason}"]
    assert lines[lines.index(f"# not one attention kernel: {reason}") - 1] == f"# {ENDS[0]}"


FACTORS = {
    "its own": "sigmoid(n_bsa - 2 σ_a - 1)",
    "twice": "sigmoid(2 n_bsa - σ_a)",
    "the square": "sigmoid(n_bsa - σ_a)^2",
    "other scores": "sigmoid(lse_s'(2 t_bss'a) - σ_a)",
}


@pytest.mark.parametrize("kind", FACTORS)
def test_a_sink_is_a_score_beside_those_of_the_softmax(kind: str) -> None:
    """One of twice the scores, or of others, is a factor like any other."""
    group = GROUPS["a sink"]
    total = ("n_bsa = lse_s' t_bss'a",) if "n_bsa" in FACTORS[kind] else ()
    lines = (*SINK, *total, f"w_bss'a = Sm_s'(t_bss'a) {FACTORS[kind]}")
    bound = einformer.parse(group.text((*QKV, *lines, *ENDS))).bind(D=12, A=3)
    assert ("with_sink(" in bound.source()) == (kind == "its own")
    (array,) = inputs(bound, {"B": 2, "S": 6})
    assert error(built(bound, "fast")(torch.from_numpy(array)), bound.reference(array, weights=weights(bound))) < 1e-12


@pytest.mark.parametrize(("letters", "fuses"), [("", True), ("a", True), ("ea", False)], ids=["none", "heads", "features"])
def test_dropout_around_a_sink_drops_keys(letters: str, fuses: bool) -> None:
    """On average it gives what is computed without it. What differs by feature is dropped by feature, which no kernel does."""
    dropped = f"x_bss'{letters or 'a'}"
    lines = [*QKV, *SINK, "w_bss'a = Sm_s'(t_bss'a) sigmoid(lse_s' t_bss'a - σ_a)", f"{dropped} = w_bss'a"]
    if letters:
        lines[-1:] = [f"g_bs{letters} = z_bsd G_d{letters}", f"{dropped} = w_bss'a g_bs{letters}"]
    text = replace(GROUPS["a sink"], scalars="p").text((*lines, f"y_bsea = Dr({dropped}) v_bs'ea", ENDS[1]))
    text = text.replace("O_ead", f"O_ead, G_d{letters}", 1) if letters else text
    bound = einformer.parse(text).bind(D=12, A=3)
    assert ("dropout_p=p if self.training else 0.0" in bound.source()) == fuses
    (array,) = inputs(bound, {"B": 1, "S": 4})
    module = built(bound, "fast")
    expected = module.eval()(torch.from_numpy(array))
    assert error(expected, bound.reference(array, weights=weights(bound))) < 1e-12
    torch.manual_seed(0)
    drawn = module.train()(torch.from_numpy(array).expand(4096, -1, -1))
    assert ((drawn.mean(0) - expected[0]).abs() <= 5 * drawn.std(0) / 64).all()
    assert (drawn.std(0) > 0).all()


NOT_NORMS = {
    "return g_bsd z_bsd / sqrt(mean_d z_bsd^2 + ε)": "its factors are not the vector of the mean square and a gain",
    "n_bs = mean_d z_bsd^2 + ε | return z_bsd / sqrt(n_bs) + n_bs g_bsd": "a name in it is read more than once",
    "n_bsd = z_bsd / sqrt(mean_d z_bsd^2 + ε) | return g_bsd n_bsd": "",
    "n_bs = mean_d z_bsd^2 + ε | return z_bsd / sqrt(n_bs) + g_bsd": "",
}


@pytest.mark.parametrize("lines", NOT_NORMS)
def test_a_norm_that_is_not_fused_says_why(lines: str) -> None:
    """The third is a norm inside of a product, the last one stands in a sum."""
    bound = einformer.parse(Group("layer N(z_bsd, g_bsd) -> z_bsd:", "bsd", (), "ε").text((*lines.split(" | "),))).bind(D=12)
    source = bound.source()
    assert re.findall("# not one norm: (.*)", source) == [NOT_NORMS[lines]] * bool(NOT_NORMS[lines])
    assert ("fn.rms_norm" in source) != bool(NOT_NORMS[lines])


NOT_MAPS = {
    "layer N(z_bsd) -> y_bsx:\n  weights W_df, V_fx | return z_bsd W_df V_fx": (
        "other factors are multiplied first, which is less work"
    ),
    "layer N(z_bsdf) -> y_bsf:\n  weights W_df | return z_bsdf W_df": "`W` is another for each `f`",
    "layer N(z_bsd) -> y_bs:\n  weights γ_d | return z_bsd γ_d": "`γ` is a vector",
    "layer N(z_bsd, r_bsf) -> y_bsx:\n  weights W_df, V_fx | h_bsf = r_bsf z_bsd W_df | return h_bsf V_fx": "",
}


@pytest.mark.parametrize("reason", NOT_MAPS.values())
def test_a_map_that_is_not_fused_says_why(reason: str) -> None:
    head, *lines = next(text for text in NOT_MAPS if NOT_MAPS[text] == reason).split(" | ")
    letters = "".join(
        letter for letter in "bsdfx" if any(letter in word.partition("_")[2] for word in re.findall(r"\w+", head))
    )
    source = einformer.parse(Group(head, letters, ()).text((*lines,))).bind(**dict.fromkeys(letters[2:].upper(), 5)).source()
    assert re.findall("# not one linear map: (.*)", source) == [reason] * bool(reason)
    assert ("torch.einsum" in source) == bool(reason)


def test_no_comment_where_there_is_nothing_to_say() -> None:
    for group in ("causal attention", "chosen experts", "a linear map with a bias", "cross-entropy"):
        assert not any("not one" in model(group, lines).source() for lines in GROUPS[group].spellings)


def test_a_value_that_is_written_twice_is_kept_once() -> None:
    """The same maps of `tanh(z)`, with a name for it and without."""
    spellings: tuple[Lines, ...] = (
        ("n_bsd = tanh(z_bsd)", "p_bsf = n_bsd P_df", "q_bsf = n_bsd Q_df", "return p_bsf q_bsf"),
        ("p_bsf = tanh(z_bsd) P_df", "q_bsf = tanh(z_bsd) Q_df", "return p_bsf q_bsf"),
    )
    found = set[int]()
    for lines in spellings:
        text = Group("layer N(z_bsd) -> y_bsf:\n  weights P_df, Q_df", "bsdf", spellings).text(lines)
        bound = einformer.parse(text).bind(D=12, F=5)
        found.add(bound.memory(B=2, S=5).activations)
        assert bound.source().count("fn.linear(") == 1
    assert found == {2 * 10 * (12 + 5 + 5)}


def test_a_name_that_a_norm_opens_is_computed_where_it_is_read() -> None:
    """`n` stands in a norm and beside it."""
    lines = ("n_bsd = z_bsd - mean_d z_bsd", "return n_bsd + n_bsd / sqrt(mean_d n_bsd^2 + ε)")
    bound = einformer.parse(Group("layer N(z_bsd) -> y_bsd:", "bsd", (), "ε").text(lines)).bind(D=12)
    (array,) = inputs(bound, {"B": 2, "S": 6})
    assert "fn.rms_norm(n_bsd" in bound.source()
    assert error(built(bound, "fast")(torch.from_numpy(array)), bound.reference(array, weights={})) < 1e-12


HEAD = """# Spellings

<!-- Made of tests/spellings.py by `pytest tests/test_spellings.py --update-golden`. -->

The plan `fast` and the counts read values, not words: however one thing is written, the same kernels run, and the same
bytes and FLOPs are counted. Each row is a spelling; within a table all rows are equal, which is tested, and their values
are the reference's. *Masked* are the FLOPs that a mask and a choice of experts leave.
"""


def page() -> str:
    """The tables of all groups."""
    parts = [HEAD]
    for group, some in GROUPS.items():
        parts += [f"## {group[0].upper()}{group[1:]}\n", "| spelling | kernels | causal | bytes kept | FLOPs | masked |"]
        parts.append("|---|---|---|---|---|---|")
        for lines in some.spellings:
            kernels, kept, flops = row(group, lines)
            named = ", ".join(f"{count} {name.removeprefix('fn.')}" for name, count in kernels if name != "is_causal")
            causal = "yes" if any(name == "is_causal" for name, _ in kernels) else ""
            written = "; ".join(f"`{line}`" for line in lines if line not in (*QKV, *ENDS))
            parts.append(f"| {written} | {named} | {causal} | {kept} | {flops[0]} | {flops[2]} |")
        parts.append("")
    return "\n".join(parts)


def test_the_page_of_spellings_is_of_today(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update-golden"):
        PAGE.write_text(page(), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page()
