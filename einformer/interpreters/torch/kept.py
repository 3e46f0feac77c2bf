"""What does autograd keep of each operation for the backward pass? One row for each, of torch 2.13 on a CPU."""

from __future__ import annotations

from dataclasses import dataclass

RESULT, BESIDE = -1, -2
_PLACES = {"result": RESULT, "beside": BESIDE}


@dataclass(frozen=True, slots=True)
class Row:
    """An operation, after torch's `derivatives.yaml`.

    `keeps`: what is kept, and the operand whose gradient needs it, or None where any does.
    `passes`: the operands whose gradient is that of the result itself, not a new one.
    """

    keeps: tuple[tuple[int, int | None], ...] = ()
    passes: tuple[int, ...] = ()


def _row(keeps: str = "", passes: str = "") -> Row:
    """`0:1` is the first operand, kept for the gradient of the second; `result` and what is computed `beside` it may be kept."""
    pairs = (each.partition(":") for each in keeps.split())
    return Row(
        tuple((_PLACES.get(what) or int(what or 0), int(whose) if whose else None) for what, _, whose in pairs),
        tuple(map(int, passes.split())),
    )


ROWS = {
    **dict.fromkeys("expand permute reshape unsqueeze".split(), _row(passes="0")),
    **dict.fromkeys("clone compare cumsum floor mean neg remainder rsub scatter select slice split stack to".split(), _row()),
    **dict.fromkeys("abs clamp cos gelu log pow silu sin softplus var".split(), _row("0")),
    **dict.fromkeys("exp log_softmax reciprocal relu rsqrt sigmoid softmax sqrt tanh".split(), _row("result")),
    **dict.fromkeys("amax amin logsumexp rpow".split(), _row("0 result")),
    **dict.fromkeys("mul mm bmm".split(), _row("0:1 1:0")),
    "embedding": _row("1"),
    "sort": _row("beside"),
    "index": _row("1 2 3"),
    "add": _row(passes="0 1"),
    "sum": _row(passes="0"),
    "sub": _row(passes="0"),
    "div": _row("1 0:1"),
    "where": _row("0"),
    "masked_fill": _row("1"),
    "addmm": _row("1:2 2:1"),
    "layer_norm": _row("0 1 2 beside"),
    "attention": _row("0 1 2 3 result beside"),
    "nll_loss": _row("0 1 beside"),
}
