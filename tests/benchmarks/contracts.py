"""Times a call with a contract above the bare function, beside others that check the same."""

from __future__ import annotations

import importlib.util
import statistics
import timeit
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import torch
from beartype import beartype
from jaxtyping import jaxtyped
from torch import Tensor

import einformer as ein
from tests.benchmarks.timing import Place, Row

ROUNDS, CALLS = 41, 2_000
QKV = (torch.rand(2, 5, 4, 3), torch.rand(2, 7, 4, 3), torch.rand(2, 7, 4, 3))
TEXT = "q_bsea, k_btea, v_btea -> y_bsea"
Function = Callable[[Tensor, Tensor, Tensor], Tensor]


def bare(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return q


def asserted(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    b, s, e, a = q.shape
    t = k.shape[1]
    assert k.shape == (b, t, e, a)
    assert v.shape == (b, t, e, a)
    assert q.shape == (b, s, e, a)
    return q


@jaxtyped(typechecker=beartype)
def jaxtyping(q: ein.contracts.T["bsea"], k: ein.contracts.T["btea"], v: ein.contracts.T["btea"]) -> ein.contracts.T["bsea"]:  # type: ignore  # noqa: F821, UP037
    return q


class Bound:
    """A method of an object that knows some of its sizes."""

    def __init__(self) -> None:
        ein.contracts.bind(self, E=4, A=3)

    @ein.contract(TEXT)
    def method(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return q


def switched_off() -> Function:
    """Decorated while contracts are off."""
    ein.contracts.off()
    try:
        return ein.contract(TEXT)(bare)
    finally:
        ein.contracts.on()


def dltype() -> Iterator[tuple[str, Any]]:
    """Where it is installed."""
    if importlib.util.find_spec("dltype") is None:
        return
    library: Any = importlib.import_module("dltype")
    q = Annotated[Tensor, library.TensorTypeBase("b s e a")]
    k = Annotated[Tensor, library.TensorTypeBase("b t e a")]

    def checked(q: Any, k: Any, v: Any) -> Any:
        return q

    checked.__annotations__ = {"q": q, "k": k, "v": k, "return": q}
    yield "dltype", library.dltyped()(checked)


def functions() -> dict[str, Function]:
    """What is timed."""
    ours = ein.contract(TEXT)(bare)
    rows: dict[str, Function] = {"bare": bare, "asserts by hand": asserted, "einformer": ours}
    rows |= {"einformer, a method of an object that bound sizes": Bound().method, "einformer, switched off": switched_off()}
    return rows | {"jaxtyping and beartype": jaxtyping} | dict(dltype())


def compiled() -> dict[str, Function]:
    """The same before what PyTorch compiles: attention, whose graphs are equal with and without a contract."""

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return torch.einsum("bsta,btea->bsea", torch.einsum("bsea,btea->bsta", q, k).softmax(2), v)

    checked = ein.contract(TEXT)(attend)
    options: dict[str, Any] = {"backend": "eager", "fullgraph": True}
    return {"bare": torch.compile(attend, **options), "einformer": torch.compile(checked, **options)}


def above(rows: dict[str, Function], calls: int) -> dict[str, tuple[float, float]]:
    """Microseconds above the first: the least of each, and the median over rounds; every second round goes backwards."""
    taken: dict[str, list[float]] = {name: [] for name in rows}
    for at in range(ROUNDS + 2):
        for name, function in list(rows.items())[:: 1 if at % 2 else -1]:
            seconds = timeit.timeit(lambda function=function: function(*QKV), number=calls)  # type: ignore[misc]
            taken[name].append(seconds / calls * 1e6)
    first = taken[next(iter(rows))]
    return {
        name: (min(times) - min(first), statistics.median(a - b for a, b in zip(times[2:], first[2:], strict=True)))
        for name, times in taken.items()
    }


def measure(place: Place) -> Iterator[Row]:
    torch.set_num_threads(1)
    times = above(functions(), CALLS)
    with ein.contracts.sizes(E=4, A=3):
        inside: dict[str, Function] = {"bare": bare, "einformer, in a block that binds sizes": ein.contract(TEXT)(bare)}
        times |= above(inside, CALLS)
    times |= {f"compiled: {name}": row for name, row in above(compiled(), CALLS // 10).items()}
    for name, (least, median) in times.items():
        if "bare" not in name:
            yield {"checked by": name, "least": f"{least:.1f} µs", "median": f"{median:.1f} µs"}
