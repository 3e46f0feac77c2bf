"""What is kept, as data: which tensors, how far back, and how many bytes they are."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from einformer.errors import row
from einformer.language.sizes import Legend
from einformer.language.weights import key

Kind = Literal["visible", "earlier", "sum"]
BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}
WHOLE = 8  # bytes of a token


@dataclass(frozen=True, slots=True)
class Entry:
    """A tensor that decoding keeps, of the specialised layer `layer` at a path, `blocks.0.CausalAttention`.

    *visible* is read at s', `back` positions beside the current one, all where that is None; *earlier* at `s - j` alone, the
    last `back`; *sum* is the running sum of a `cumsum`. `letters` are its indices but that of time, which was its slot `axis`;
    `rows` are those of the batch, `loops` says in how many loops of its layer it is defined. What a layer is given as it stands
    has a `source`, the path of the tensor that it is.
    """

    path: str
    name: str
    layer: str
    letters: tuple[str, ...]
    rows: frozenset[str]
    axis: int
    kind: Kind
    back: int | None
    loops: int
    whole: bool = False
    source: str = ""

    @property
    def full_path(self) -> str:
        """`blocks.0.CausalAttention.k`, unlike any other."""
        return f"{self.path}.{key(self.name)}".lstrip(".") + (".sum" if self.kind == "sum" else "")

    @property
    def tensor(self) -> str:
        """`z`, of which `z_2` is another version."""
        return self.name.partition("_")[0]

    @property
    def frame(self) -> str:
        """The path of the layer as it is called, without the turns of its own loops."""
        parts = self.path.split(".")
        return ".".join(parts[: len(parts) - 2 * self.loops])

    def positions(self, length: int) -> int:
        """How many positions are held once there were `length`."""
        match self.kind:
            case "visible":
                return length if self.back is None else min(length, self.back + 1)
            case "earlier":
                return self.back or 0
            case "sum":
                return 1


@dataclass(frozen=True, slots=True)
class Bytes:
    """The bytes of a cache: what a further position of one row adds until windows are full, and all that is held."""

    per_token: int
    total: int


def together(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """The entries with as many positions for all that one layer sees: where it runs over s', it runs over the same.

    A tensor that is visible at some place of a layer is so wherever it is changed: the next turn of a loop reads it there.
    """
    entries = tuple(entries)
    visible = {(e.layer, e.tensor) for e in entries if e.kind == "visible"}
    entries = tuple(
        replace(e, kind="visible") if (e.layer, e.tensor) in visible and e.kind == "earlier" else e for e in entries
    )
    seen: dict[str, list[int | None]] = {}
    for entry in entries:
        if entry.kind == "visible":
            seen.setdefault(entry.frame, []).append(entry.back)
    farthest = {frame: None if None in backs else max(back or 0 for back in backs) for frame, backs in seen.items()}
    return tuple(alike(replace(e, back=farthest[e.frame]) if e.kind == "visible" else e for e in entries))


def alike(entries: Iterable[Entry]) -> Iterator[Entry]:
    """What instances of one layer are given and keep alike has the first that keeps it as its `source`, that one none."""
    first: dict[tuple[object, ...], str] = {}
    for entry in entries:
        kept = first.setdefault((entry.source, entry.layer, entry.name, entry.kind, entry.back), entry.full_path)
        yield replace(entry, source=kept if entry.source and kept != entry.full_path else "")


def count(entries: Iterable[Entry], legend: Legend, length: int, dtype: str) -> Bytes:
    """The bytes of these entries once there were `length` positions, at the sizes of a legend. Raises EinformerError E605."""
    element = row(BYTES, "dtype", dtype)
    per_token = total = 0
    for entry in entries:
        each = WHOLE if entry.whole else element
        one = each * math.prod(legend.length(letter) for letter in entry.letters if letter not in entry.rows)
        per_token += one if entry.kind == "visible" else 0
        total += one * entry.positions(length) * math.prod(legend.length(letter) for letter in entry.rows)
    return Bytes(per_token, total)
