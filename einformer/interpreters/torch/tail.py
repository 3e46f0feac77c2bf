"""Which statements at the end of a model look at no other position? What they compute is needed only where it is asked for."""

from __future__ import annotations

from collections.abc import Callable

from einformer.language.calls import axis_of
from einformer.language.tree import Apply, Expression, Index, Layer, Statement, Tensor
from einformer.language.walk import children, equations


def tail(layer: Layer, time: str, counts: Callable[[Apply], bool]) -> tuple[Statement, ...]:
    """The last statements that read no other position nor the number of one, nor call what does; so they keep nothing."""
    lefts = (*layer.formals, *(equation.left for equation in equations(layer.body) if equation.relation != "return"))
    own = {tensor.name: tensor.slots for tensor in lefts if isinstance(tensor, Tensor)}

    def over(slot: Expression) -> bool:
        return isinstance(slot, Index) and axis_of(slot.letter) == time

    def stays(e: Expression) -> bool:
        match e:
            case Index():
                return not over(e)
            case Tensor() if e.name in own:
                pairs = zip(e.slots, own[e.name], strict=True)
                return all(slot == Index(time) if over(mine) else stays(slot) for slot, mine in pairs)
            case Apply() if counts(e) or any(map(over, e.indices)):
                return False
            case _:
                return all(map(stays, children(e)))

    found = len(layer.body)
    while found and all(stays(q.right) for q in equations(layer.body[found - 1 : found])):
        found -= 1
    return layer.body[found:]
