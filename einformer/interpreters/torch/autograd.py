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
    `scratch`: for each operand of an element-wise operation, how many more tensors its gradient takes on the way.
    """

    keeps: tuple[tuple[int, int | None], ...]
    passes: tuple[int, ...]
    scratch: tuple[int, ...]


def _row(keeps: str, passes: str, scratch: str) -> Row:
    pairs = (each.partition(":") for each in keeps.split())
    return Row(
        tuple((_PLACES[what] if what in _PLACES else int(what), int(whose) if whose else None) for what, _, whose in pairs),
        tuple(map(int, passes.split())),
        tuple(map(int, scratch.split())),
    )


# Operations; what they keep: an operand by its place, the result, or what they compute beside it, and behind a colon the
# operand whose gradient needs it; whose gradient is that of the result; and how many tensors more each gradient takes.
_TABLE = (
    ("add", "", "0 1", ""),
    ("clone sub sum", "", "0", ""),
    ("compare expand floor mean neg permute reshape roll rsub select slice split stack to unsqueeze", "", "", ""),
    ("cumsum", "", "", "1"),
    ("clamp gelu log silu softplus", "0", "", ""),
    ("abs cos sin var", "0", "", "1"),
    ("log_softmax relu sigmoid softmax tanh", "result", "", ""),
    ("exp", "result", "", ""),
    ("reciprocal rsqrt sqrt", "result", "", "1"),
    ("amax amin logsumexp rpow", "0 result", "", "1"),
    ("mul", "0:1 1:0", "", "0 0"),
    ("bmm mm", "0:1 1:0", "", ""),
    ("addmm", "1:2 2:1", "", ""),
    ("div", "1 0:1", "", "0 2"),
    ("pow", "0 1 result:1", "", "1 2"),
    ("remainder", "0:1 1:1", "", "0 2"),
    ("where", "0", "", "0 0 0"),
    ("embedding scatter", "1", "", ""),
    ("index", "1 2 3", "", ""),
    ("grouped", "0 1", "", ""),
    ("sort", "beside", "", ""),
    ("layer_norm", "0 1 2 beside", "", ""),
    ("attention", "0 1 2 3 result beside", "", ""),
    ("nll_loss", "0 1 beside", "", ""),
)
ROWS = {name: _row(*columns) for names, *columns in _TABLE for name in names.split()}
