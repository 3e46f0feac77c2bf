"""What does autograd keep of each operation for the backward pass? One row for each, as torch 2.13 does on a CPU."""

from __future__ import annotations

from dataclasses import dataclass

RESULT, BESIDE = -1, -2
_PLACES = {"result": RESULT, "beside": BESIDE}


@dataclass(frozen=True, slots=True)
class Row:
    """An operation, after torch's `derivatives.yaml`.

    `keeps`: what is kept, and the operand whose gradient needs it, or None where any does.
    `passes`: the operands whose gradient is that of the result itself, and takes no memory of its own.
    """

    keeps: tuple[tuple[int, int | None], ...]
    passes: tuple[int, ...]


def _row(keeps: str, passes: str) -> Row:
    pairs = (each.partition(":") for each in keeps.split())
    return Row(
        tuple((_PLACES[what] if what in _PLACES else int(what), int(whose) if whose else None) for what, _, whose in pairs),
        tuple(map(int, passes.split())),
    )


# Operations; what they keep: an operand by its place, the result, or what they compute beside it, and behind a colon the
# operand whose gradient needs it; the operands whose gradient is that of the result.
_TABLE = (
    ("expand permute reshape sub sum unsqueeze", "", "0"),
    ("add", "", "0 1"),
    ("clone compare cumsum floor mean neg rsub select slice split stack to", "", ""),
    ("abs clamp cos gelu log silu sin softplus var", "0", ""),
    ("exp log_softmax reciprocal relu rsqrt sigmoid softmax sqrt tanh", "result", ""),
    ("amax amin logsumexp rpow", "0 result", ""),
    ("bmm mm mul", "0:1 1:0", ""),
    ("addmm", "1:2 2:1", ""),
    ("div", "1 0:1", ""),
    ("pow", "0 1 result:1", ""),
    ("remainder", "0:1 1:1", ""),
    ("where", "0", ""),
    ("embedding scatter", "1", ""),
    ("index", "1 2 3", ""),
    ("sort", "beside", ""),
    ("layer_norm", "0 1 2 beside", ""),
    ("attention", "0 1 2 3 result beside", ""),
    ("nll_loss", "0 1 beside", ""),
)
ROWS = {name: _row(keeps, passes) for names, keeps, passes in _TABLE for name in names.split()}
