"""Does the checker know who reads the future? Against the meaning: the value of a causal model is that of each prefix."""

from __future__ import annotations

import numpy as np
import pytest

import einformer
from einformer import EinformerError
from tests.refusals import findings_of, refuses
from tests.texts import text

LENGTH = 6
INPUTS = [np.array([-1.5, -2, 0.5, -3, -0.25, 2]), np.array([1, 0.5, -2, 3, -1, 0.25])]

CAUSAL = {
    "attention": ["w_ss' = Sm_s'(x_s x_s' + where(s' <= s, 0, -inf))", "return w_ss' x_s'"],
    "a mask in a layer": ["return Masked(x_s, where(s' <= s, x_s', -inf))"],
    "a window": ["w_ss' = Sm_s'(where(s - 2 < s' <= s, x_s', -inf))", "return w_ss' x_s'"],
    "chunks": ["w_ss' = Sm_s'(where(s' <= s and floor(s / 2) == floor(s' / 2), x_s', -inf))", "return w_ss' x_s'"],
    "zero outside": ["return sum_s' where(s' <= s, x_s', 0)"],
    "a product with zero": ["w_ss' = where(s' <= s, x_s', 0)", "return w_ss' x_s'"],
    "products intersect": ["w_ss' = where(s' < s + 2, 1, 0)", "return w_ss' where(s' <= s, x_s', 0)"],
    "zero times whatever": ["w_ss' = tanh(where(s' <= s, x_s', 0))", "return w_ss' (x_s' + x_s)"],
    "exp of minus infinity": ["return sum_s' exp(where(s' <= s, x_s' - x_s, -inf))"],
    "relu keeps zero": ["return sum_s' relu(where(s' <= s, x_s', 0))"],
    "max skips minus infinity": ["return max_s' where(s' <= s, x_s', -inf)"],
    "min skips infinity": ["return min_s' where(s' <= s, x_s', inf)"],
    "min skips a sum with infinity": ["m_ss' = where(s' > s, inf, 0)", "return min_s'(x_s' + m_ss')"],
    "less infinity": ["m_ss' = where(s' <= s, 0, inf)", "w_ss' = Sm_s'(x_s x_s' - m_ss')", "return w_ss' x_s'"],
    "exp of minus what is infinite": ["return sum_s' exp(-where(s' <= s, x_s' - x_s, inf))"],
    "lse skips minus infinity": ["return lse_s' where(s' <= s, x_s', -inf)"],
    "top under a mask": ["w_ss' = where(s' <= s and top_{2,s'}(where(s' <= s, x_s', -inf)), 1, 0)", "return w_ss' x_s'"],
    "only before": ["return x_{(s - 2)}"],
    "before": ["return x_s + x_{(s - 1)} - 2 x_{(s - 3)}"],
    "a recurrence": ["h_s = h_{(s - 1)} / 2 + x_s", "return h_s"],
    "a running sum": ["return cumsum_s x_s"],
    "a condition that both branches share": ["return where(x_s > 0, x_{(s - 1)}, x_s)"],
    "positions": ["return s x_s + (s mod 2)"],
}
CAUSAL |= {
    "weighed by hand": ["p_ss' = exp(where(s' <= s, x_s', -inf))", "return p_ss' x_s' / sum_s' p_ss'"],
    "over a root of what is one at least": ["return sum_s' (where(s' <= s, x_s', 0) / sqrt(2 s + s' + 2))"],
    "the largest two": [
        "u_ss' = x_s x_s' + where(s' <= s, 0, -inf)",
        "w_ss' = Sm_s'(where(top_{2,s'}(u_ss'), u_ss', -inf))",
        "return w_ss' x_s'",
    ],
}
READS_THE_FUTURE = {
    "over what is zero later": ("E501", ["p_ss' = where(s' <= s, 1, 0)", "return sum_s' (x_s' p_ss' / p_ss')"]),
    "no mask": ("E501", ["w_ss' = Sm_s'(x_s x_s')", "return w_ss' x_s'"]),
    "a mask turned round": ("E501", ["w_ss' = Sm_s'(x_s x_s' + where(s' >= s, 0, -inf))", "return w_ss' x_s'"]),
    "a constant mask turned round": ("E501", ["w_ss' = Sm_s'(where(s' >= s, 0, -inf))", "return w_ss' x_s'"]),
    "a mask one too far": ("E501", ["w_ss' = Sm_s'(x_s x_s' + where(s' <= s + 1, 0, -inf))", "return w_ss' x_s'"]),
    "masked too late": ("E501", ["return (Sm_s'(x_s x_s') + where(s' <= s, 0, -inf)) x_s'"]),
    "zero does not mask a softmax": ("E501", ["w_ss' = Sm_s'(where(s' <= s, x_s', 0))", "return w_ss' x_s'"]),
    "a sum of masks": ("E501", ["w_ss' = where(s' <= s, 1, 0) + where(s' > s, 2, 0)", "return w_ss' x_s'"]),
    "zero times minus infinity": ("E501", ["return sum_s' (where(s' <= s, x_s', 0) where(s' <= s, 1, -inf))"]),
    "zero over zero": ("E501", ["return sum_s' (where(s' <= s, x_s', 0) / where(s' <= s, 1, 0))"]),
    "minus infinity plus infinity": ("E501", ["return lse_s' (where(s' <= s, x_s', -inf) + where(s' <= s, 0, inf))"]),
    "min does not skip minus infinity": ("E501", ["return min_s' where(s' <= s, x_s', -inf)"]),
    "min does not skip zero": ("E501", ["return min_s' where(s' <= s, x_s', 0)"]),
    "infinity turned round": ("E501", ["return min_s' where(s' >= s, x_s', inf)"]),
    "infinity minus infinity": ("E501", ["return min_s'(where(s' <= s, x_s', inf) - where(s' <= s, 0, tanh(x_s') inf))"]),
    "exp of zero": ("E501", ["w_ss' = exp(where(s' <= s, x_s', 0))", "return w_ss' x_s'"]),
    "a later position": ("E504", ["return where(s < S - 1, x_{(s + 1)}, 0)"]),
    "a condition on the future": ("E501", ["return where((sum_s' x_s') > 0, 1, 0) + x_s"]),
    "over s": ("E503", ["w_ss' = Sm_s(x_s x_s')", "return w_ss' x_s'"]),
    "a sum over s": ("E503", ["y_s' = sum_s where(s' <= s, x_s, 0)", "return x_s y_s"]),
    "transposed": ("E505", ["w_ss' = Sm_s'(x_s x_s' + where(s' <= s, 0, -inf))", "return w_s's x_s'"]),
    "the length": ("E504", ["return x_s / S"]),
    "nothing to see": ("E502", ["w_ss' = Sm_s'(x_s x_s' + where(s' < s, 0, -inf))", "return w_ss' x_s'"]),
}
COUNTS_THE_FUTURE = {
    "a mean": ["return mean_s' where(s' <= s, x_s', 0)"],
    "a variance": ["return var_s' where(s' <= s, x_s', 0)"],
    "a sum of ones": ["return sum_s' where(s' <= s, x_s', 1)"],
    "a sum of positions": ["return x_s + sum_s' s'"],
    "the last position": ["return x_s + max_s' s'"],
    "zeros in lse": ["return lse_s' where(s' <= s, x_s', 0)"],
    "zeros in max": ["return max_s' where(s' <= s, x_s', 0)"],
    "zeros in top": ["w_ss' = where(s' <= s and top_{2,s'}(where(s' <= s, x_s', 0)), 1, 0)", "return w_ss' x_s'"],
    "zeros in a softmax that is masked": ["w_ss' = where(s' <= s, Sm_s'(where(s' <= s, x_s', 0)), 0)", "return w_ss' x_s'"],
    "minus infinity in min": ["return max(min_s' where(s' <= s, x_s', -inf), -9)"],
}
READS_THE_NEXT = {  # of which a prefix has no value
    "in a denominator": ["return x_s / (2 + tanh(x_{(s + 1)}))"],
    "in an exponent": ["return 2^x_{(s + 1)}"],
    "in a divisor": ["return x_s mod (2 + tanh(x_{(s + 1)}))"],
    "in a comparison": ["return where(x_s < x_{(s + 1)}, 1, x_s)"],
    "in a slot": ["n_s = s - floor(1 + tanh(x_{(s + 1)}))", "return x_s + x_{n_s}"],
    "in what a layer is given": ["return Twice(x_{(s + 1)})"],
}
LAYERS = {
    "Masked": ["layer Masked(q_s, k_ss') -> y_s:", "return q_s lse_s' k_ss'"],
    "Twice": ["layer Twice(q_s) -> y_s:", "return 2 q_s"],
}


def lines(head: str, body: list[str]) -> list[str]:
    called = (line for name, layer in LAYERS.items() if name in "".join(body) for line in layer)
    return [*called, head, *body]


def leaks(body: list[str]) -> bool:
    """Does the value at some position change with what follows? Claimed by nobody, so that anything is evaluated."""
    model = einformer.parse(text("s", *lines("layer Q(x_s) -> y_s:", body))).bind()
    return any(
        not np.allclose(model.reference(x[:end], weights={}), model.reference(x, weights={})[:end])
        for x in INPUTS
        for end in range(1, LENGTH)
    )


def codes(body: list[str]) -> set[str]:
    findings = findings_of(text("s", *lines("model Q(x_s) -> y_s causal in s:", body)))
    return {finding.code for finding in findings}


@pytest.mark.parametrize("body", CAUSAL.values(), ids=list(CAUSAL))
def test_what_is_causal_is_accepted(body: list[str]) -> None:
    assert codes(body) == set()
    model = einformer.parse(text("s", *lines("model Q(x_s) -> y_s causal in s:", body))).bind()
    for x in INPUTS:
        full = model.reference(x, weights={})
        assert all(np.allclose(model.reference(x[:end], weights={}), full[:end]) for end in range(1, LENGTH))


@pytest.mark.parametrize(("code", "body"), READS_THE_FUTURE.values(), ids=list(READS_THE_FUTURE))
def test_what_reads_the_future_is_refused(code: str, body: list[str]) -> None:
    assert code in codes(body)


@pytest.mark.parametrize("body", READS_THE_NEXT.values(), ids=list(READS_THE_NEXT))
def test_the_next_position_is_refused_wherever_it_is_read(body: list[str]) -> None:
    assert codes(body) == {"E501"}


@pytest.mark.parametrize("body", COUNTS_THE_FUTURE.values(), ids=list(COUNTS_THE_FUTURE))
def test_how_many_are_to_come_is_the_future_too(body: list[str]) -> None:
    assert codes(body)


def test_the_future_does_not_decide_how_likely_a_number_is_dropped() -> None:
    assert codes(["n = mean_s' sigmoid(x_s')", "return Dr(x_s, n)"]) == {"E501"}


REFUSED = {name: body for name, (code, body) in READS_THE_FUTURE.items() if code != "E502"} | COUNTS_THE_FUTURE


@pytest.mark.parametrize("body", REFUSED.values(), ids=list(REFUSED))
def test_what_is_refused_leaks(body: list[str]) -> None:
    """The refusals are no whims: without the claim, the value of a prefix changes with what follows."""
    assert leaks(body)


CONVOLUTION = """axes
  s: S
  c: {taps}

model Convolution(x_s) -> y_s causal in s:
  weights κ_c
  y_s = κ_c x_{{(s + c - {last})}}
"""


@pytest.mark.parametrize("taps", range(1, 9))
def test_a_convolution_may_end_at_its_last_tap(taps: int) -> None:
    model = einformer.parse(CONVOLUTION.format(taps=taps, last=taps - 1)).bind()
    weights = np.arange(1.0, taps + 1)
    expected = np.convolve(INPUTS[0], weights[::-1])[:LENGTH]
    assert np.allclose(model.reference(INPUTS[0], weights={"κ": weights}), expected)


@pytest.mark.parametrize("taps", range(2, 9))
def test_a_convolution_may_not_end_before_its_last_tap(taps: int) -> None:
    with pytest.raises(EinformerError, match="E501"):
        einformer.parse(CONVOLUTION.format(taps=taps, last=taps - 2))


@pytest.mark.parametrize(("first", "second", "found"), [("i", "j", ["E509"]), ("j", "i", ["E509"]), ("j", "j", [])])
def test_a_text_has_one_time_axis(first: str, second: str, found: list[str]) -> None:
    """A layer that both models call would be zero before the start of one axis only."""
    models = [
        f"model {name}(x_ij) -> y_ij causal in {time}:\n  return cumsum_{time}(x_ij)\n"
        for name, time in (("One", first), ("Two", second))
    ]
    findings = findings_of("axes\n  i: I\n  j: J\n\n" + "\n".join(models))
    assert [finding.code for finding in findings] == found
    assert all(finding.span.text == second and finding.span.line == 8 for finding in findings)


def test_what_is_causal_of_one_number_is_asked_again_of_another() -> None:
    """So a bound text is examined once more, though its equations were."""
    spec = einformer.parse(
        "axes\n  s: S\nscalars\n  η = 0\nmodel Ahead(x_s) -> y_s causal in s:\n"
        "  m_ss' = where(s' <= s + η, 1, 0)\n  y_s = m_ss' x_s'\n"
    )
    assert spec.bind(η=-1).reference([1.0, 10.0, 100.0], weights={}).tolist() == [0, 1, 11]
    with refuses("E501", "0", "1"):
        spec.bind(η=1)


# -------------------------------------------------------------------------------------------------- bounds of positions

HEADS = """axes
  b: B
  s: S
  d: D
  a: A
  l: L
{scalars}
model Masked(z_bsd) -> y_bsda causal in s:
  m_ss'a = where({mask}, 0 s s' a, -inf)
  w_bss'a = Sm_s'(z_bsd z_bs'd + m_ss'a)
  y_bsda = w_bss'a z_bs'd
  for l < L:
    y_bsda <- {turn}
  return y_bsda
"""


def verdict(mask: str, scalars: str = "", turn: str = "y_bsda + 0 l") -> set[str]:
    """The codes of a text whose softmax has this mask; its heads and turns are of unknown number."""
    filled = HEADS.format(mask=mask, scalars=scalars, turn=turn)
    findings = findings_of(filled)
    return {finding.code for finding in findings}


WRITTEN = {
    "the other way round": "s - s' >= 0",
    "strictly": "s' < s + 1",
    "not later": "not s' > s",
    "a window": "s - 5 < s' <= s",
    "a window of a size": "s - D < s' <= s",
    "a window by head": "s - a <= s' <= s",
    "a minimum": "s' <= min(s, s + a)",
    "a maximum of the past": "s' <= max(s, s - D)",
    "both": "s' <= s and s - s' < 5",
    "either, both of the past": "s' < s or s' == s",
    "chunks": "s' <= s and floor(s / D) == floor(s' / D)",
    "chunks before": "floor(s' / D) < floor(s / D) or s' == s",
    "a prefix": "s' <= s and (s' < 4 or s - s' < D)",
    "sinks": "s' == 0 or s - D < s' <= s",
    "strides": "s' <= s and (s - s') mod D == 0",
    "distance": "abs(s - s') <= s - s'",
    "an angle": "s' <= s and s - s' <= sqrt(D) + 1",
}
LEAKS = {
    "from position 20 on": "s' <= max(s, 2 s - 20)",
    "by steps": "s' <= max(s, s + floor(s / 20) - 1)",
    "by squares": "s' <= max(s, s s - 400)",
    "rarely": "s' <= s or ((s + 5) mod 40 == 0 and s' == s + 1)",
    "by a root": "s' <= s + floor(sqrt(s) / 5)",
    "by remainders": "s' <= s or s mod 7 == 3 and s mod 11 == 5",
    "in one head": "s' <= s or a == 5",
    "by a size": "s' <= s + D - 5",
    "in a chunk": "floor(s' / 4) <= floor(s / 4)",
    "one of two": "s' <= s or s' <= s + a - 3",
    "one of very many cases": " and ".join(f"(s' <= s + {k} or s > {k + 5})" for k in range(1, 8)),
}


@pytest.mark.parametrize("mask", WRITTEN.values(), ids=list(WRITTEN))
def test_what_people_write_is_accepted(mask: str) -> None:
    assert verdict(mask) == set()


@pytest.mark.parametrize("mask", LEAKS.values(), ids=list(LEAKS))
def test_a_rare_leak_is_refused(mask: str) -> None:
    """However late, in however few heads, whatever the sizes."""
    assert "E501" in verdict(mask)


@pytest.mark.parametrize(
    ("mask", "where"),
    [
        ("where(s' <= s or a == 11, 0, -inf)", ", where `a == 11`"),
        ("where(s' <= s or l == 3 and a > 2, 0, -inf)", ", where `l == 3`"),
        ("where(s' <= s or L > 7, 0, -inf)", ", where `L > 7`"),
        ("where(s' <= s, 0, -inf) + 1 / tanh(L)", ", where `tanh(L) == 0`"),
        ("where(s' <= s + 1, 0, -inf)", ""),
    ],
)
def test_a_refusal_says_where_that_is(mask: str, where: str) -> None:
    """In which head or turn, for which sizes, or where a quotient may be by zero."""
    head = "axes\n  s: S\n  a: 12\n  l: L\n  d: D\n\nmodel M(z_sad) -> y_sad causal in s:\n"
    body = f"  for l < L:\n    w_ss'a = Sm_s'(z_sad z_s'ad + {mask})\n    z_sad <- w_ss'a z_s'ad\n  return z_sad\n"
    finding = findings_of(head + body)[0]
    assert (finding.code, finding.message) == ("E501", f"at position 0 this depends on position 1, which is later{where}")


def test_a_table_by_layer_is_looked_at_in_each() -> None:
    causal = "scalars\n  N_l = [0, 0, 0, 0, 0, 0]\n"
    turn = "y_bsda + (where(s' <= s + N_l, 1, 0)) z_bs'd"
    assert verdict("s' <= s", causal, turn.replace("y_bsda", "y_bsda + 0 a")) == set()
    assert verdict("s' <= s", causal.replace("[0, 0, 0", "[0, 0, 2"), turn) == {"E501"}


TURNS = "axes\n  s: S\n  i: 3\n\nmodel Q(x_s) -> y_s causal in s:\n  "
WHEREVER = {
    "a later turn of a loop": [
        "m_ss' = where(s' <= s, 0, -inf)", "y_s = x_s", "for i < 3:", "  w_ss' = Sm_s'(x_s x_s' + m_ss')",
        "  y_s <- y_s + w_ss' x_s' + 0 i", "  m_ss' <- 0 s s'", "return y_s",
    ],
    "two places of one mask": [
        "c_ss' = where(s' <= s, x_s', 0)", "n_s = sum_s' c_ss'", "w_ss' = where(s' <= s + 1, c_{(s + 1)s'}, 0)",
        "return n_s + sum_s' w_ss'",
    ],
    "a softmax of zeros over another index": ["w_ss'i = Sm_i(where(s' <= s, i x_s', 0))", "return sum_{s'i} w_ss'i x_s'"],
    "some number at two positions": ["a_s = max_i where(i == s, 1, 0)", "return sum_s' (a_s a_s' x_s')"],
    "one of very many cases": [f"w_ss' = where({LEAKS['one of very many cases']}, x_s', 0)", "return sum_s' w_ss'"],
    "a mean of the past before the present": ["h_s = sum_s' where(s' <= s, x_s', 0)", "return h_{(s + 1)}"],
}  # fmt: skip


@pytest.mark.parametrize("body", WHEREVER.values(), ids=list(WHEREVER))
def test_a_leak_is_refused_wherever_it_is(body: list[str]) -> None:
    findings = findings_of("axes\n  s: S\n  i: I\n\nmodel Q(x_s) -> y_s causal in s:\n  " + "\n  ".join(body) + "\n")
    assert "E501" in {finding.code for finding in findings}


FOLLOWED = {
    "a position that the input chooses": ["n_s = min(floor(s tanh(x_s)), s)", "return where(n_s >= 0, x_{n_s}, 0)"],
    "a choice under a comparison": ["n_s = floor(x_s)", "return where(0 <= n_s <= s, x_{n_s}, 0)"],
    "two steps": ["h_ss' = where(s' <= s, x_s', 0)", "k_s'' = x_s''", "return sum_s' (h_ss' where(s'' <= s', k_s'', 0))"],
    "a mask that a loop narrows": [
        "m_ss' = where(s' <= s, 0, -inf)", "y_s = x_s", "for i < 3:", "  w_ss' = Sm_s'(x_s x_s' + m_ss')",
        "  y_s <- y_s + w_ss' x_s'", "  m_ss' <- where(s - 2 < s' <= s, m_ss', -inf)", "return y_s",
    ],
}  # fmt: skip


@pytest.mark.parametrize("body", FOLLOWED.values(), ids=list(FOLLOWED))
def test_positions_are_followed_through_numbers(body: list[str]) -> None:
    findings = findings_of("axes\n  s: S\n  i: 3\n\nmodel Q(x_s) -> y_s causal in s:\n  " + "\n  ".join(body) + "\n")
    assert not {finding.code for finding in findings} & {"E501", "E502"}, findings


CAPPED = {"min(ρ_l, 1)": True, "max(1, -ρ_l)": True, "ρ_l": False, "max(ρ_l, 1)": False, "min(-ρ_l, 1)": False}


@pytest.mark.parametrize(("term", "causal"), CAPPED.items(), ids=list(CAPPED))
def test_an_infinity_is_of_one_sign(term: str, causal: bool) -> None:
    """A scalar that is infinite in some turns may stand beside a mask where a `min` or a `max` keeps it finite."""
    text = f"""axes
  s: S
  l: L
scalars
  ρ_l = where(l mod 2 == 0, 0.5, inf)
model Q(x_s) -> y_s causal in s:
  y_s = x_s
  for l < L:
    w_ss' = Sm_s'(x_s x_s' {term} + where(s' <= s, 0, -inf))
    y_s <- w_ss' x_s'
  return y_s
"""
    findings = findings_of(text)
    assert ("E501" not in {finding.code for finding in findings}) == causal


BATCH = "axes\n  b: B\n  s: S\n  d: D\n  t: T\n\nmodel M({inputs}) -> y_bsd causal in s:\n  {line}\n"


def test_a_row_means_what_it_means_alone() -> None:
    findings = findings_of(BATCH.format(inputs="z_bsd", line="return z_bsd / B").replace("  t: T\n", ""))
    assert [finding.code for finding in findings] == ["E506"]


@pytest.mark.parametrize(("size", "code"), [("S", "E504"), ("B", "E506")])
def test_what_is_made_of_a_length_is_refused_like_the_length(size: str, code: str) -> None:
    text = BATCH.format(inputs="z_bsd", line="return σ z_bsd").replace("  t: T\n", "")
    scalars = f"\nscalars\n  ρ = 2 {size}\n  σ = 1 / ρ\n"
    (finding,) = findings_of(text.replace("\nmodel", f"{scalars}\nmodel"))
    assert (finding.code, finding.span.text) == (code, "σ")


@pytest.mark.parametrize("inputs", ["z_bsd, c_btd", "c_btd, z_bsd"])
def test_verdicts_do_not_depend_on_the_order_of_inputs(inputs: str) -> None:
    line = "w_bst = Sm_t(z_bsd c_btd)\n  return w_bst c_btd"
    findings = findings_of(BATCH.format(inputs=inputs, line=line))
    assert findings == ()


def test_a_claim_about_no_position_is_refused() -> None:
    findings = findings_of("axes\n  s: S\nmodel M(x_s) -> λ causal in s:\n  return mean_s' x_s'\n")
    assert {finding.code for finding in findings} == {"E510"}
