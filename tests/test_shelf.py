"""Do the equations of the full notes S005 hold that no line says? Compared with NumPy, PyTorch's autograd and transformers."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from einformer import load
from einformer.cli import main
from einformer.objects import Model
from tests.commands import read_json
from tests.examples import ROOT
from tests.texts import spec

Array = NDArray[Any]


def normal(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape)


@functools.cache
def layer(name: str, **sizes: int) -> Model:
    """A layer of the text of the notes, `s005_rope.Rotary`."""
    text, _, part = name.partition(".")
    return load(text)[part].bind(**sizes)


def softmax(x: Array, *axes: int) -> Array:
    powers = np.exp(x - x.max(axis=axes, keepdims=True))
    return np.asarray(powers / powers.sum(axis=axes, keepdims=True))


# ------------------------------------------------------------------------------------------------------------ the loss


def test_cross_entropy_is_least_where_the_model_is_the_truth() -> None:
    """1.1.7, footnote 1: of models beside the truth none has a smaller loss, and its slope there is zero in all directions."""
    loss = spec("v", "layer Loss(p_v, x_v) -> λ:", "return 0 - sum_v(p_v (x_v - lse_v(x_v)))").bind(V=7)
    truth = softmax(normal(0, 7), 0)
    least = loss.reference(truth, np.log(truth), weights={})
    others = [float(loss.reference(truth, np.log(truth) + 0.1 * normal(seed, 7), weights={}) - least) for seed in range(1, 20)]
    assert min(others) > 1e-5
    logits = torch.tensor(np.log(truth), requires_grad=True)
    (slope,) = torch.autograd.grad(torch.nn.functional.cross_entropy(logits[None], torch.from_numpy(truth)[None]), logits)
    assert slope.abs().max() < 1e-12


# ------------------------------------------------------------------------------------------------------------ rotations


@pytest.mark.parametrize("name", ["Rotary", "Halves"])
def test_rotated_scores_depend_on_the_distance_alone(name: str) -> None:
    """1.2.6: one vector at each position against another, whose scores are then the same along each diagonal."""
    q, k = (np.broadcast_to(normal(seed, 8), (11, 8)) for seed in (0, 1))
    rotary = layer(f"s005_rope.{name}", H=8)
    scores = rotary.reference(q, weights={}) @ rotary.reference(k, weights={}).T
    for distance in range(-10, 11):
        assert np.ptp(np.diagonal(scores, distance)) < 1e-12
    assert np.ptp(scores) > 1
    assert np.linalg.norm(rotary.reference(q, weights={}), axis=1) == pytest.approx(np.linalg.norm(q, axis=1))


def powers(turn: Array, count: int) -> Array:
    return np.stack([np.linalg.matrix_power(turn, s) for s in range(count)])


def rotation(size: int, seed: int) -> Array:
    """A random one."""
    found, _ = np.linalg.qr(normal(seed, size, size))
    found[:, 0] *= np.linalg.det(found)
    return np.asarray(found)


def test_any_rotation_by_its_position_is_relative() -> None:
    """1.2.6, eq 19: of SO(H), not of pairs; queries and keys must turn the same way (S005-E17)."""
    turns, dense = powers(rotation(6, 0), 9), layer("s005_rope.Dense", S=9, H=6)
    q, k = (np.broadcast_to(normal(seed, 6), (9, 6)) for seed in (1, 2))
    turned = dense.reference(q, turns, weights={})
    same = turned @ dense.reference(k, turns, weights={}).T
    conjugate = turned @ dense.reference(k, turns.transpose(0, 2, 1), weights={}).T
    assert max(np.ptp(np.diagonal(same, distance)) for distance in range(-8, 9)) < 1e-12
    assert np.ptp(np.diagonal(conjugate)) > 0.1


def test_a_rotation_turns_pairs_in_some_basis() -> None:
    """1.2.6: R = C B Cᵀ with B of blocks 2 × 2 or 1 × 1; so scores are those of rotated pairs of q C and k C."""
    turn = rotation(7, 3)
    values, vectors = np.linalg.eig(turn)
    columns = [np.sqrt(2) * part for v, x in zip(values, vectors.T, strict=True) if v.imag > 1e-9 for part in (x.real, x.imag)]
    (fixed,) = (x.real for v, x in zip(values, vectors.T, strict=True) if abs(v.imag) < 1e-9)
    basis = np.stack([*columns, fixed], axis=1)
    blocks = basis.T @ turn @ basis
    pairs = np.arange(7) // 2
    assert basis.T @ basis == pytest.approx(np.eye(7), abs=1e-12)
    assert np.abs(np.where(pairs[:, None] == pairs, 0, blocks)).max() < 1e-12
    q, k = normal(4, 7), normal(5, 7)
    for s in range(6):
        assert np.linalg.matrix_power(turn, s) @ q @ k == pytest.approx(
            np.linalg.matrix_power(blocks, s) @ (basis.T @ q) @ (basis.T @ k)
        )


def test_pairs_are_complex_numbers() -> None:
    """1.2.6.1: neighbours are real and imaginary part; halves are the same after a permutation of the features."""
    x, angles = normal(0, 5, 8), np.arange(5)[:, None] * 10_000.0 ** (-2 * np.arange(4) / 8)
    turned = x.reshape(5, 4, 2) @ np.array([1, 1j]) * np.exp(1j * angles)
    expected = np.stack([turned.real, turned.imag], axis=-1).reshape(5, 8)
    assert layer("s005_rope.Rotary", H=8).reference(x, weights={}) == pytest.approx(expected)
    halves = layer("s005_rope.Halves", H=8).reference(x.reshape(5, 4, 2).swapaxes(1, 2).reshape(5, 8), weights={})
    assert halves.reshape(5, 2, 4).swapaxes(1, 2).reshape(5, 8) == pytest.approx(expected)


def test_stretched_angles_are_those_of_transformers() -> None:
    """1.2.6.2, eq 23, eq 24: the ramp over turns in the old length, between stretched and old angles, is Llama 3.1's."""
    rope = {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 32.0, "rope_theta": 10_000.0,
            "original_max_position_embeddings": 256}  # fmt: skip
    config = LlamaConfig(head_dim=64, hidden_size=64, num_attention_heads=1, rope_parameters=rope)
    theirs, _ = ROPE_INIT_FUNCTIONS["llama3"](config, "cpu")
    model = layer("s005_rope.Yarn", H=64)
    ours = [model.legend.element(next(s for s in model.spec.tree.scalars if s.name == "θ"), [h]) for h in range(32)]
    assert np.array(ours, dtype=float) == pytest.approx(theirs.numpy(), rel=1e-5)
    assert len({*np.round(np.array(ours, dtype=float) * 10_000.0 ** (np.arange(32) / 32), 4)}) > 3  # stretched, kept, between


# --------------------------------------------------------------------------------------------------- attention in chunks


@pytest.mark.parametrize("name", ["Naive", "Flash"])
def test_attention_in_chunks_is_attention(name: str) -> None:
    """1.2.7: what has been added up after each chunk of keys is attention to the chunks so far."""
    k, v, q = 3 * normal(0, 4, 5, 6), normal(1, 4, 5, 7), normal(2, 3, 6)
    found = layer(f"s005_flash.{name}", R=3, J=4, C=5, H=6, U=7).reference(k, v, q, weights={})
    for j in range(1, 5):
        keys, values = k[:j].reshape(-1, 6), v[:j].reshape(-1, 7)
        assert found[j - 1] == pytest.approx(softmax(q @ keys.T, 1) @ values)


def test_large_scores_need_their_maximum() -> None:
    """1.2.7.1: without it exp overflows; with it nothing does."""
    k, v, q = 1e3 * np.abs(normal(0, 4, 5, 6)), normal(1, 4, 5, 7), np.abs(normal(2, 3, 6))
    sizes = {"R": 3, "J": 4, "C": 5, "H": 6, "U": 7}
    with np.errstate(all="ignore"):
        assert not np.isfinite(layer("s005_flash.Naive", **sizes).reference(k, v, q, weights={})).all()
        assert np.isfinite(layer("s005_flash.Flash", **sizes).reference(k, v, q, weights={})).all()


def test_linear_attention_is_masked_scores_without_a_softmax() -> None:
    """1.2.9: the running sum of keys and values is what a mask of zeros leaves of all products."""
    q, k, v = normal(0, 6, 3), normal(1, 6, 3), normal(2, 6, 4)
    found = layer("s005.Linear", S=6, H=3, U=4).reference(q, k, v, weights={})
    assert found == pytest.approx(np.tril(q @ k.T) @ v)


def test_the_delta_rule_overwrites_what_a_key_held() -> None:
    """2.2.4: with β = 1 a key of length 1 gives back its last value, whatever was stored under it before."""
    random = np.random.default_rng(0)
    keys, _ = np.linalg.qr(random.standard_normal((4, 4)))
    k, v = keys[[0, 1, 0, 2, 1, 0]], random.standard_normal((6, 3))
    found = layer("s005.Delta", S=6, H=4, U=3).reference(k, k, v, np.ones(6), weights={})
    assert found == pytest.approx(v)
    asked = np.broadcast_to(keys[1], (6, 4))
    held = layer("s005.Delta", S=6, H=4, U=3).reference(asked, k, v, np.ones(6), weights={})
    assert held[1:] == pytest.approx(v[[1, 1, 1, 4, 4]])


# ---------------------------------------------------------------------------------------------------------- derivatives

BACKWARDS = (
    "layer Backwards(q_sh, k_sh, v_su, g_su) -> λ:",
    "t_ss' = q_sh k_s'h",
    "p_ss' = Sm_s'(t_ss')",
    "z_su = p_ss' v_s'u",
    "e_ss' = g_su v_s'u",
    "b_ss' = p_ss' (e_ss' - g_su z_su)",
    "c_ss' = e_ss' p_ss' - g_su p_ss' p_ss'' v_s''u",  # with a name of its own for the other key (S005-E24)
    "x_sh = b_ss' k_s'h",
    "y_s'h = b_ss' q_sh",
    "w_s'u = g_su p_ss'",
    "return sum_sh(x_sh + y_sh) + sum_su(w_su) + sum_ss'(c_ss')",
)
SOFTMAX = "layer Softmax(p_s) -> j_ss':", "return where(s == s', p_s, 0) - p_s p_s'"


def test_derivatives_are_those_of_autograd() -> None:
    """1.2.7.1, eq 28 and eq 29, and 3.1.1.4, eq 98: of attention by queries, keys, values, scores and weights."""
    q, k, v = (torch.from_numpy(normal(seed, 5, size)).requires_grad_() for seed, size in enumerate((3, 3, 4)))
    g = torch.from_numpy(normal(3, 5, 4))
    t = q @ k.T
    p = t.softmax(1)
    theirs = dict(zip("xywbe", torch.autograd.grad((p @ v * g).sum(), (q, k, v, t, p)), strict=True))
    trace: dict[str, Array] = {}
    backwards = spec("s, h, u", *BACKWARDS).bind(S=5, H=3, U=4)
    backwards.reference(*(each.detach().numpy() for each in (q, k, v, g)), weights={}, trace=trace)
    for name, slope in (theirs | {"c": theirs["b"]}).items():
        assert trace[name] == pytest.approx(slope.numpy()), name
    row = t[0].detach().requires_grad_()
    rows = [torch.autograd.grad(row.softmax(0)[s], row)[0].numpy() for s in range(5)]
    assert spec("s", *SOFTMAX).bind(S=5).reference(p[0].detach().numpy(), weights={}) == pytest.approx(np.stack(rows))


def test_derivatives_of_activations_are_those_of_autograd() -> None:
    """3.1.1.4: those of relu and tanh from their outputs alone, that of gelu from its input."""
    x = torch.from_numpy(normal(0, 99)).requires_grad_()
    functions = {"where(z_x > 0, 1, 0)": torch.relu, "1 - z_x^2": torch.tanh}
    for derivative, function in functions.items():
        y = function(x)
        slope = spec("x", "layer Slope(z_x) -> r_x:", f"return {derivative}").bind(X=99)
        assert slope.reference(y.detach().numpy(), weights={}) == pytest.approx(torch.autograd.grad(y.sum(), x)[0].numpy())
    normals = 0.5 * (1 + torch.erf(x / np.sqrt(2))).detach().numpy()
    slope = spec("x", "layer Slope(z_x, Φ_x) -> r_x:", "return Φ_x + z_x exp(-(z_x^2) / 2) / sqrt(2 π)").bind(X=99)
    found = slope.reference(x.detach().numpy(), normals, weights={})
    assert found == pytest.approx(torch.autograd.grad(torch.nn.functional.gelu(x).sum(), x)[0].numpy())


LINEAR = (
    "layer Slopes(x_nj, W_ij, g_ni) -> y_nj:",
    "a_ni = W_ij x_nj",
    "r_ni = where(a_ni > 0, 1, 0)",
    "w_ij = g_ni r_ni x_nj",
    "return g_ni r_ni W_ij + 0 sum_i(w_ij)",
)


def test_derivatives_of_a_layer_are_those_of_autograd() -> None:
    """3.2.1.4, eq 99: two products as large as that of the forward pass."""
    x, w = (torch.from_numpy(normal(seed, *shape)).requires_grad_() for seed, shape in enumerate(((7, 3), (5, 3))))
    g = torch.from_numpy(normal(2, 7, 5))
    dx, dw = torch.autograd.grad((torch.relu(x @ w.T) * g).sum(), (x, w))
    trace: dict[str, Array] = {}
    slopes = spec("n, i, j", *LINEAR).bind(N=7, I=5, J=3)
    found = slopes.reference(x.detach().numpy(), w.detach().numpy(), g.numpy(), weights={}, trace=trace)
    assert found == pytest.approx(dx.numpy())
    assert trace["w"] == pytest.approx(dw.numpy())


# ------------------------------------------------------------------------------------------- scaling laws, speculation


def test_the_fit_scales_parameters_and_tokens_alike() -> None:
    """3.2.3.2: under C = 6 N T the least loss of the fit has N ~ C^(β / (α + β)), a power of 0.45; about one half."""
    n = np.exp(np.linspace(np.log(1e7), np.log(1e13), 200_001))

    def best(compute: float) -> float:
        return float(n[np.argmin(1.69 + 406.4 / n**0.34 + 410.7 / (compute / (6 * n)) ** 0.28)])

    power = np.log(best(1e24) / best(1e20)) / np.log(1e4)
    assert power == pytest.approx(0.28 / 0.62, abs=1e-3)
    assert abs(power - 0.5) < 0.05


def test_speculation_draws_from_the_full_model() -> None:
    """9.1.1.4: the algorithm itself, token by token, accepts with min(1, p / q) and else draws from p'."""
    random = np.random.default_rng(0)
    p, q = softmax(normal(1, 6), 0), softmax(normal(2, 6), 0)
    rest = np.maximum(p - q, 0)
    drafts, count = random.choice(6, 200_000, p=q), 200_000
    accepted = random.random(count) <= np.minimum(1, p / q)[drafts]
    tokens = np.where(accepted, drafts, random.choice(6, count, p=rest / rest.sum()))
    assert np.bincount(tokens) / count == pytest.approx(p, abs=5e-3)
    assert accepted.mean() == pytest.approx(np.minimum(p, q).sum(), abs=5e-3)
    assert np.abs(np.bincount(drafts) / count - p).max() > 0.05


# -------------------------------------------------------------------------------------------------------------- errata

# The code with which the printed form is refused, by the sort of its mistake as a reader sees it.
REFUSED = {
    "an index on the left side only": ("E302", "E5 E27 E33 E36 E43"),
    "an index that nothing sums": ("E301", "E9 E24 E29 E31 E32 E44 E51"),
    "fewer indices than it was defined with": ("E304", "E6 E34"),
    "an index twice": ("E305", "E28 E30"),
    "an operator over what its argument lacks": ("E306", "E35 E37"),
    "letters in another order": ("E307", "E23"),
}


@functools.cache
def rows() -> dict[str, Any]:
    return {row["id"]: row for row in read_json("errata") if row["id"].startswith("S005")}


@pytest.mark.parametrize("sort", REFUSED)
def test_the_printed_form_is_refused_for_its_mistake(sort: str) -> None:
    code, numbers = REFUSED[sort]
    seen = {row: rows()[f"S005-{row}"]["found"]["printed"].partition(":")[0] for row in numbers.split()}
    assert seen == dict.fromkeys(numbers.split(), code)


def test_every_slip_of_indices_has_its_sort() -> None:
    listed = {f"S005-{row}" for _, numbers in REFUSED.values() for row in numbers.split()}
    assert {name for name, row in rows().items() if row["check"] == "lint"} == listed


def test_a_block_that_drops_a_residual_is_off_by_what_attention_adds() -> None:
    """S005-E12 by hand: the numbers that the check draws, of which the second product is attention's."""
    random = np.random.default_rng(0)
    z, a = random.standard_normal((3, 4)), random.standard_normal((4, 4))
    assert rows()["S005-E12"]["found"]["printed"] == f"off by {np.abs(z @ a).max():.3g}"


@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "einformer" / "notes" / "texts").glob("*.ein")))
@pytest.mark.parametrize("command", ["check", "latex", "source", "count", "notes"])
def test_texts_of_documents_are_targets_of_every_command(
    command: str, name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As files with the same text are: what says it of the file says it of the name; where sizes are open both say so."""
    monkeypatch.chdir(ROOT / "einformer" / "notes" / "texts")
    by_name, by_file = ((main([command, target]), capsys.readouterr()) for target in (name, f"{name}.ein"))
    assert by_name[0] == by_file[0]
    assert by_name[1].out.replace(f"{name}.ein", name) == by_file[1].out.replace(f"{name}.ein", name)
    assert by_name[0] == 0 or "E601" in by_name[1].err
