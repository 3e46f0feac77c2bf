"""Does a row of a batch ever meet another (R6)?"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

from einformer.language.calls import axis_of
from einformer.language.tree import Apply, Expression, Index, Tensor
from einformer.language.walk import children


def met(
    e: Expression, rows: frozenset[str], places: Callable[[str], Mapping[int, str]], layers: Collection[str]
) -> Iterator[tuple[Expression, str]]:
    """Where the letter of a row stands anywhere but in a slot of rows, as it is, and the letters.

    `places` are the slots of a tensor that are its rows, with their letters; what calls one of `layers` carries rows along.
    """
    bound = e.indices if isinstance(e, Apply) and e.name not in layers else ()
    for index in (e,) if isinstance(e, Index) else bound:
        if axis_of(index.letter) in rows:
            yield e if isinstance(e, Apply) and e.name == "sum" else index, index.letter
    own = places(e.name) if isinstance(e, Tensor) else {}
    for place, child in enumerate(children(e)):
        if place not in own:
            yield from met(child, rows, places, layers)
        elif not (isinstance(child, Index) and child.letter in rows):
            yield child, own[place]
