"""Does the checker know who reads the future? Against the meaning: the value of a causal model is that of each prefix."""

from __future__ import annotations

import numpy as np
import pytest

import einformer
from einformer.errors import EinformerError, Source
from einformer.model import examine
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
    "lse skips minus infinity": ["return lse_s' where(s' <= s, x_s', -inf)"],
    "top under a mask": ["w_ss' = where(s' <= s and top_{2,s'}(where(s' <= s, x_s', -inf)), 1, 0)", "return w_ss' x_s'"],
    "only before": ["return x_{(s - 2)}"],
    "before": ["return x_s + x_{(s - 1)} - 2 x_{(s - 3)}"],
    "a recurrence": ["h_s = h_{(s - 1)} / 2 + x_s", "return h_s"],
    "a running sum": ["return cumsum_s x_s"],
    "a condition that both branches share": ["return where(x_s > 0, x_{(s - 1)}, x_s)"],
    "positions": ["return s x_s + (s mod 2)"],
}
READS_THE_FUTURE = {
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
MASKED = ["layer Masked(q_s, k_ss') -> y_s:", "return q_s lse_s' k_ss'"]


def lines(head: str, body: list[str]) -> list[str]:
    return [*(MASKED if "Masked" in "".join(body) else []), head, *body]


def leaks(body: list[str]) -> bool:
    """Does the value at some position change with what follows? Claimed by nobody, so that anything is evaluated."""
    model = einformer.parse(text("s", *lines("layer Q(x_s) -> y_s:", body))).bind()
    return any(
        not np.allclose(model.reference(x[:end], weights={}), model.reference(x, weights={})[:end])
        for x in INPUTS
        for end in range(1, LENGTH)
    )


def codes(body: list[str]) -> set[str]:
    _, findings = examine(Source("<text>", text("s", *lines("model Q(x_s) -> y_s causal in s:", body))))
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


@pytest.mark.parametrize("body", COUNTS_THE_FUTURE.values(), ids=list(COUNTS_THE_FUTURE))
def test_how_many_are_to_come_is_the_future_too(body: list[str]) -> None:
    assert codes(body)


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
    _, findings = examine(Source("two.ein", "axes\n  i: I\n  j: J\n\n" + "\n".join(models)))
    assert [finding.code for finding in findings] == found
    assert all(finding.span.text == second and finding.span.line == 8 for finding in findings)


def test_what_is_causal_of_one_number_is_asked_again_of_another() -> None:
    """So a bound text is examined once more, though its equations were."""
    spec = einformer.parse(
        "axes\n  s: S\nscalars\n  η = 0\nmodel Ahead(x_s) -> y_s causal in s:\n"
        "  m_ss' = where(s' <= s + η, 1, 0)\n  y_s = m_ss' x_s'\n"
    )
    assert spec.bind(η=-1).reference([1.0, 10.0, 100.0], weights={}).tolist() == [0, 1, 11]
    with pytest.raises(EinformerError, match="E501 at position 0 this depends on position 1"):
        spec.bind(η=1)
