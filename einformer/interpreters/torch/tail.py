"""Which statements at the end of a model look at no other position? What they compute is needed only where it is asked for."""

from __future__ import annotations

from collections.abc import Callable

from einformer.notation.calls import axis_of
from einformer.notation.tree import Apply, Expression, Index, Layer, Statement, Tensor
from einformer.notation.walk import children, equations


def tail(layer: Layer, time: str, counts: Callable[[Apply], bool]) -> tuple[Statement, ...]:
    """The last statements that read no other position nor the number of one, nor call what does; so they keep nothing."""
    own = {tensor.name for tensor in (*layer.formals, *(equation.left for equation in equations(layer.body)))}

    def stays(e: Expression) -> bool:
        match e:
            case Index():
                return axis_of(e.letter) != time
            case Tensor() if e.name in own:
                return all(slot == Index(time) or stays(slot) for slot in e.slots)
            case Apply() if counts(e) or any(axis_of(index.letter) == time for index in e.indices):
                return False
            case _:
                return all(map(stays, children(e)))

    found = len(layer.body)
    while found and all(stays(q.right) for q in equations(layer.body[found - 1 : found])):
        found -= 1
    return layer.body[found:]
