"""How many FLOPs does torch count? `FlopCounterMode` on the meta device, with no operator passed over.

It counts what it knows and is silent about the rest: on a CPU, attention and grouped products cost it nothing. Here an
operator that has no formula is an error, unless it is listed as one that multiplies no matrices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode, flop_registry

# One operator multiplies no matrices where its name is here: element by element, over an axis, or moving numbers about.
_NAMES = [
    "_assert_async _safe_softmax _softmax _to_copy _unsafe_view abs add add_ alias amax amin any arange bitwise_and",
    "bitwise_not bitwise_or cat ceil clamp clamp_min clone constant_pad_nd copy_ cos cumprod cumsum detach div div_",
    "embedding empty_like eq erf exp expand fill_ flip floor floor_divide full full_like gather ge gelu gt index le lift_fresh",
    "log log2",
    "logical_and logical_not logsumexp lt masked_fill masked_fill_ max maximum mean min minimum mul mul_ native_layer_norm",
    "ne neg new_empty new_ones new_zeros ones ones_like permute pow promote_types reciprocal relu remainder repeat roll",
    "rsqrt rsub scalar_tensor scatter scatter_ searchsorted select sigmoid silu sin slice softplus sort split",
    "split_with_sizes sqrt squeeze squeeze_ stack sub sum t tanh topk transpose tril triu unsqueeze var view where zeros",
    "unfold unfold_backward zeros_like",
]
FREE = frozenset(name for names in _NAMES for name in names.split()) | {"linalg_solve_triangular"}  # of which torch has none


class _Seen(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Refuses an operator about which nothing is known."""

    def __init__(self, free: frozenset[str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.free = free

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        packet = operator._overloadpacket
        if packet not in flop_registry and not (operator.namespace == "aten" and packet.__name__ in self.free):
            raise AssertionError(f"torch has no formula for {operator}")
        return operator(*args, **(kwargs or {}))


def counted(run: Callable[[], object], *uncounted: str, gradients: bool = False) -> Counter[str]:
    """The FLOPs of the operators that `run` calls on the meta device, by their names, but for those named `uncounted`."""
    counter = FlopCounterMode(display=False)
    with torch.set_grad_enabled(gradients), counter, _Seen(FREE | set(uncounted)):
        run()
    return Counter({str(name): count for name, count in counter.get_flop_counts().get("Global", {}).items()})
