"""Do recurrences by chunks give what a step for each position gives, and do only those run by chunks that may?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import einformer
from einformer.objects import Model
from tests.few import few
from tests.oracles.ranks import list_gradients
from tests.small import PLANS, built, error, weights

SIZES = {"D": 4, "G": 2, "N": 3, "U": 5}
LENGTH = 150  # three chunks, the last of them shorter
WEIGHTS = ["K_dgn", "Q_dgn", "V_dgu", "A_dg", "P_dgn", "R_g"]
LINES = {
    "k": "k_bsgn = z_bsd K_dgn",
    "q": "q_bsgn = z_bsd Q_dgn",
    "v": "v_bsgu = z_bsd V_dgu",
    "a": "a_bsg = sigmoid(z_bsd A_dg)",
    "p": "p_bsgn = z_bsd P_dgn / 9",
}
READ = "return q_bsgn h_bsgnu"
PAST = "h_{b(s - 1)gnu}"

# What stays of the state and what is added to it, and the sum that reads it.
CHUNKED = {
    "all stays": (f"{PAST} + k_bsgn v_bsgu", READ),
    "a half stays": (f"0.5 {PAST} + k_bsgn v_bsgu", READ),
    "it changes its sign": (f"-a_bsg {PAST} + k_bsgn v_bsgu / 2", READ),
    "nothing stays at some positions": (f"where(s mod 5 == 3, 0, 1) {PAST} + k_bsgn v_bsgu", READ),
    "less stays at each position": (f"a_bsg {PAST} / (s + 1) + k_bsgn v_bsgu", READ),
    "another part stays of each head": (f"tanh(R_g) {PAST} + k_bsgn v_bsgu", READ),
    "an average": (f"(1 - a_bsg) {PAST} + a_bsg k_bsgn v_bsgu", READ),
    "another part of each value stays": (f"sigmoid(v_bsgu) {PAST} + k_bsgn v_bsgu", READ),
    "two values of a key": (f"a_bsg {PAST} + k_bsgn v_bsgu + k_bsgn / 7", READ),
    "a key without a value": (f"a_bsg {PAST} + k_bsgn", READ),
    "what was there before": (f"a_{{b(s - 1)g}} {PAST} + k_bsgn v_{{b(s - 2)gu}}", READ),
    "maps inside": (f"sigmoid(z_bsd A_dg) {PAST} + z_bsd K_dgn z_bsd' V_d'gu", READ),
    "the square of a key": (f"a_bsg {PAST} + k_bsgn v_bsgu k_bsgn", READ),
    "the delta rule": (f"{PAST} + a_bsg k_bsgn (v_bsgu - k_bsgn' h_{{b(s - 1)gn'u}}) / 3", READ),
    "the gated delta rule": (f"a_bsg {PAST} + a_bsg k_bsgn (v_bsgu - a_bsg k_bsgn' h_{{b(s - 1)gn'u}}) / 3", READ),
    "it is read by another key": (f"a_bsg {PAST} + k_bsgn v_bsgu / 3 - k_bsgn p_bsgn' h_{{b(s - 1)gn'u}} / 9", READ),
    "it is read twice by one key": (
        f"a_bsg {PAST} + k_bsgn v_bsgu - k_bsgn p_bsgn' h_{{b(s - 1)gn'u}} + a_bsg k_bsgn h_{{b(s - 1)gn'u}} p_bsgn'",
        READ,
    ),
    "its sum alone is subtracted": (f"{PAST} / 2 + k_bsgn v_bsgu - k_bsgn (sum_n' h_{{b(s - 1)gn'u}}) / 9", READ),
    "a prime in the sum": (f"a_bsg {PAST} + k_bsgn v_bsgu", "return q_bsgn' h_bsgn'u / 3"),
    "factors around": (f"a_bsg {PAST} + k_bsgn v_bsgu", "return q_bsgn h_bsgnu exp(a_bsg) / sqrt(N)"),
    "beside others": (f"a_bsg {PAST} + k_bsgn v_bsgu", "return v_bsgu + tanh(q_bsgn h_bsgnu) R_g"),
}
# One of each kind of what stays, of what is added, and of the sum that reads it.
FEW = {
    "all stays", "it changes its sign", "nothing stays at some positions", "another part of each value stays",
    "a key without a value", "what was there before", "the delta rule", "it is read by another key",
    "it is read twice by one key", "a prime in the sum", "factors around",
}  # fmt: skip
STEPS = {
    "two products are added": (f"a_bsg {PAST} + k_bsgn v_bsgu + p_bsgn v_bsgu", READ, "more than one product"),
    "it is read by two keys": (
        f"a_bsg {PAST} + k_bsgn v_bsgu - k_bsgn p_bsgn' h_{{b(s - 1)gn'u}} + k_bsgn q_bsgn' h_{{b(s - 1)gn'u}}",
        READ,
        "more than one product",
    ),
    "another part of each key stays": (f"p_bsgn {PAST} + k_bsgn v_bsgu", READ, "differs along"),
    "it is not linear": (f"tanh({PAST}) + k_bsgn v_bsgu", READ, "neither times a number"),
    "its square": (f"a_bsg {PAST}^2 / 99 + k_bsgn v_bsgu", READ, "neither times a number"),
    "it is read by a map": (
        f"{PAST} + z_bsd K_dgn (v_bsgu - z_bsd' K_d'gn' h_{{b(s - 1)gn'u}} / 9) / 3",
        READ,
        "neither times a number",
    ),
    "two positions back": ("a_bsg h_{b(s - 2)gnu} + k_bsgn v_bsgu", READ, "neither times a number"),
    "one and two positions back": (f"a_bsg {PAST} + h_{{b(s - 2)gnu}} / 9 + k_bsgn v_bsgu", READ, "neither times a number"),
    "not everywhere": (f"where(s > 3, {PAST}, 0) + k_bsgn v_bsgu", READ, "neither times a number"),
    "its first position": (f"a_bsg {PAST} + h_{{b(s - 1)g 0 u}} k_bsgn / 9 + k_bsgn v_bsgu", READ, "neither times a number"),
    "two sums read it": (f"a_bsg {PAST} + k_bsgn v_bsgu", "return q_bsgn h_bsgnu + p_bsgn h_bsgnu", "read elsewhere"),
    "it is read before": (
        f"a_bsg {PAST} + k_bsgn v_bsgu",
        "return q_bsgn h_bsgnu + h_{b(s - 1)g 1 u}",
        "read elsewhere",
    ),
    "dropout": (f"a_bsg {PAST} + k_bsgn Dr(v_bsgu, 0.1)", READ, "all positions at once"),
    "the state alone is summed": (f"a_bsg {PAST} + v_bsgu", "return sum_n h_bsgnu", "nothing multiplies"),
    "nothing stays": ("k_bsgn v_bsgu - k_bsgn p_bsgn' h_{b(s - 1)gn'u} / 9", READ, "nothing stays"),
}


def write(step: str, read: str) -> Model:
    """A model with these lines, and those before that they need."""
    body = f"{step} {read}"
    lines = [line for name, line in LINES.items() if f"{name}_" in body]
    used = " ".join([body, *lines])
    axes = ", ".join(x for x in "bsdgnu" if x != "u" or "V_" in used or "nu" in body)
    weighed = ", ".join(weight for weight in WEIGHTS if weight[:2] in used)
    text = [f"axes {axes}", "model M(z_bsd) -> y_bsgu causal in s:", f"  weights {weighed}"]
    text += [f"  {line}" for line in (*lines, f"h_bsgnu = {step}", read)]
    return einformer.parse("\n".join(text) + "\n").bind(**SIZES)


def draw(model: Model, length: int = LENGTH) -> np.ndarray[Any, Any]:
    return np.random.default_rng(1).standard_normal((2, length, model.size("D")))


def assert_alike(model: Model) -> None:
    """Values, gradients of the input, FLOPs forward and in training, and decoding of both plans."""
    x = draw(model)
    wanted, slopes = model.reference(x, weights=weights(model)), list[dict[str, Any]]()
    for plan in PLANS:
        module: Any = built(model, plan)
        given = torch.as_tensor(x).requires_grad_()
        with FlopCounterMode(display=False) as counter:
            y = module(given)
        assert error(y, wanted) < 1e-12
        counted = model.flops(B=2, S=LENGTH, convention=plan)
        assert counter.get_total_flops() == counted
        y.square().sum().backward()
        slopes.append({"z": given.grad, **dict(list_gradients(module))})
        with FlopCounterMode(display=False) as counter:
            module(torch.as_tensor(x)).sum().backward()
        assert counter.get_total_flops() == model.flops(B=2, S=LENGTH, convention=plan, phase="training")
        cache = module.cache()
        pieces = [torch.as_tensor(piece) for piece in np.split(x, [3, 4, 74], 1)]
        assert error(torch.cat([module.decode(piece, cache=cache) for piece in pieces], 1), wanted) < 1e-12
    assert all(error(slopes[1][name], slope) < 1e-11 for name, slope in slopes[0].items())


@pytest.mark.parametrize("name", few(CHUNKED, FEW))
def test_a_linear_recurrence_runs_by_chunks(name: str) -> None:
    model = write(*CHUNKED[name])
    assert "for step in" not in model.source()
    assert_alike(model)


@pytest.mark.parametrize("name", STEPS)
def test_other_recurrences_take_a_step_for_each_position_and_say_why(name: str) -> None:
    step, read, reason = STEPS[name]
    model = write(step, read)
    (note,) = [line for line in model.source().splitlines() if "a step for each position" in line]
    assert reason in note
    assert "for step in" in model.source()
    x = draw(model, 70)
    assert error(built(model, "fast").eval()(torch.as_tensor(x)), model.reference(x, weights=weights(model))) < 1e-12
