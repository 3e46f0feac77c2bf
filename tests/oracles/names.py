"""Which weight of theirs is which of ours? A table of names with one einops pattern a row.

`*` stands for a block and its number. A fused weight has a sum in its pattern and a name for each term:

    *.Attention.Q, K, V    *.attn.qkv.weight    (a e + a e + a e) d -> d e a
    *.Attention.B, T       *.attn.kv_a.weight   (r + e) d -> d r | d e

`-c` on the right is the axis c in reverse: a convolution counts its taps from the oldest, we from the newest.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from einops import rearrange
from numpy.typing import NDArray

Array = NDArray[Any]


def translate(table: str, blocks: str, state: Mapping[str, Array], lengths: Mapping[str, int]) -> dict[str, Array]:
    """Our weights by path, from theirs by name; whatever of theirs no row reads is an error."""
    ours: dict[str, Array] = {}
    unread = set(state)
    for paths, name, pattern in rows(table):
        for number in _numbers(name, blocks, state):
            source = name.replace("*", f"{blocks}.{number}")
            unread.discard(source)
            for path, array in zip(paths, split(state[source], pattern, lengths), strict=True):
                ours[path.replace("*", f"blocks.{number}")] = array
    if unread:
        raise LookupError(f"no row reads {sorted(unread)}")
    return ours


def rows(table: str) -> Iterator[tuple[list[str], str, str]]:
    """Paths of ours, name of theirs, pattern; `A.Q, K` is `A.Q` and `A.K`."""
    for line in filter(None, map(str.strip, table.splitlines())):
        ours, theirs, pattern = re.split(r"\s{2,}", line)
        prefix, _, names = ours.rpartition(".")
        yield [f"{prefix}.{name}" if prefix else name for name in names.split(", ")], theirs, pattern


def split(array: Array, pattern: str, lengths: Mapping[str, int]) -> list[Array]:
    """The array rearranged, one piece for each term of the sum in the pattern."""
    left, _, right = pattern.partition(" -> ")
    fused = re.search(r"\(([^()]*\+[^()]*)\)", left)
    if not fused:
        return [_arrange(array, left, right or left, lengths)]
    terms, left = fused[1].split(" + "), left.replace(fused[0], "cut")
    rights = right.split(" | ") if "|" in right else [right] * len(terms)
    rest = " ".join(re.findall(r"\w+", left.replace("cut", "")))
    cuts = np.cumsum([math.prod(1 if x == "1" else lengths[x] for x in term.split()) for term in terms])
    array = _arrange(array, left, f"cut {rest}", {**lengths, "cut": int(cuts[-1])})
    pieces = np.split(array, cuts[:-1])
    return [_arrange(x, f"({term}) {rest}", out, lengths) for x, term, out in zip(pieces, terms, rights, strict=True)]


def _arrange(array: Array, left: str, right: str, lengths: Mapping[str, int]) -> Array:
    known = {axis: size for axis, size in lengths.items() if axis in re.findall(r"\w+", left)}
    result: Array = rearrange(array, f"{left} -> {right.replace('-', '')}", **known)
    backwards = tuple(place for place, axis in enumerate(right.split()) if axis.startswith("-"))
    return np.array(np.flip(result, backwards), order="C")


def _numbers(name: str, blocks: str, state: Mapping[str, Array]) -> list[str]:
    """The numbers of the blocks that have this name; one empty number where it lies outside the blocks."""
    if "*" not in name:
        return [""] if name in state else []
    form = re.compile(re.escape(name).replace(r"\*", re.escape(blocks) + r"\.(\d+)"))
    return [found[1] for found in map(form.fullmatch, state) if found]
