"""Reads a map of indices to the axes of a mesh: `tp: g f v; dp: b`. The placement of a tensor is its indices.

An index is placed, not an axis: `d'` may be split where `d` is whole. A tensor is split along the indices that it carries.
An index in brackets, `tp: g f v (s)`, is split where nothing else of that axis is: positions, between sublayers; beside the
batch, `ep: b (x)`, in weights: experts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace

from einformer.errors import NOWHERE, EinformerError, Source, Span, fail
from einformer.language.calls import axis_of
from einformer.language.sizes import Legend
from einformer.language.tree import Expression, Name
from einformer.program.operations import Function
from einformer.program.rewrite import walk_values

_AXIS = re.compile(r"\s*([A-Za-z_]\w*)\s*=\s*(\d+)\s*")
_ENTRY = re.compile(r"\s*([A-Za-z_]\w*)\s*:\s*((?:[^\W\d_]'*\s*(?:\[[^\]]*\]\s*)?|\(\s*[^\W\d_]'*\s*\)\s*)*)")
_INDEX = re.compile(r"(\(\s*)?([^\W\d_]'*)(?:\s*\[([^\]]*)\])?")
_WAYS = ("ring", "zigzag")  # to exchange the numbers of an index, and to share them
_OWN = "'" * 9  # after a letter in brackets: that index where it is split; no text has so many primes


@dataclass(frozen=True, slots=True)
class Window:
    """A rank's own numbers of a split index, and as many `before` and `after` them as it reads."""

    letter: str
    mesh: str
    before: Expression
    after: Expression


@dataclass(frozen=True, slots=True)
class Sharding:
    """The axes of a mesh with their sizes, and the axis over which each index is split.

    Over the axes of `rows` only the batch is split: rows never meet, so that nothing is exchanged but gradients of weights,
    which `DistributedDataParallel` or `fully_shard` average.
    """

    mesh: tuple[tuple[str, int], ...]
    places: tuple[tuple[str, str], ...]
    rows: frozenset[str] = frozenset()
    yielding: tuple[tuple[str, str], ...] = ()  # indices that are split where nothing else of their axis is
    in_weights: tuple[tuple[str, str], ...] = ()  # indices that are split in weights alone, since the batch is split else
    windows: tuple[tuple[str, Window], ...] = ()  # indices that run over numbers near those of a split one
    round: frozenset[str] = frozenset()  # indices whose numbers go round the ranks for attention
    zigzag: frozenset[str] = frozenset()  # indices of which a rank has two pieces, as far from both ends
    of_stage: bool = False  # of a pipeline

    # An index that yields has a share where it is split.
    @property
    def shares(self) -> tuple[tuple[frozenset[str], int], ...]:
        places = (*self.places, *self.in_weights, *((own(letter), axis) for letter, axis in self.yielding))
        return tuple((frozenset(letter for letter, over in places if over == axis), ranks) for axis, ranks in self.mesh)

    # Replicas have the same weights and compute other rows.
    @property
    def replicas(self) -> int:
        return math.prod(ranks for axis, ranks in self.mesh if axis in self.rows)

    def axis(self, letter: str) -> str:
        places = (*self.yielding, *self.in_weights) if is_own(letter) else self.places
        return dict(places).get(letter.removesuffix(_OWN), "")

    def place_weight(self, letters: Iterable[str]) -> tuple[str, ...]:
        return tuple(own(letter) if letter in dict(self.in_weights) else letter for letter in letters)

    def size(self, axis: str) -> int:
        return dict(self.mesh)[axis]

    # The tensor is split over these axes, or has other numbers on each rank.
    def over(self, letters: Iterable[str]) -> frozenset[str]:
        near = {letter: window.mesh for letter, window in self.windows}
        places = (axis for letter in letters for axis in (*self.split(letter), near.get(letter, "")) if axis)
        return frozenset(places)

    def split(self, letter: str) -> frozenset[str]:
        return frozenset(filter(None, (self.axis(letter), self.axis(letter.removesuffix(_OWN)))))

    # Returns the number of ranks that share the numbers of an index.
    def times(self, letter: str) -> int:
        return math.prod(dict(self.mesh)[axis] for axis in self.split(letter))

    def count_parts(self, letter: str, axis: str) -> int:
        return dict(self.mesh)[axis] * (2 if letter in self.zigzag else 1)

    # Ranks share the numbers that one rank is given of an index that yields; those of a zigzag are two pieces.
    def find_shares(self) -> dict[str, int]:
        yielding = {letter: dict(self.mesh)[axis] for letter, axis in self.yielding}
        return yielding | {letter: math.lcm(2, yielding.get(letter, 1)) for letter in self.zigzag}

    # `F`, `D // 4`, `4 * F`; `size` is the text for its axis, or for another.
    def sized(self, letter: str, size: str, named: str = "") -> str:
        whole, own = self.times(named or axis_of(letter)), self.times(letter)
        whole, own = whole // math.gcd(whole, own), own // math.gcd(whole, own)
        return f"{whole} * " * (whole > 1) + size + f" // {own}" * (own > 1)

    # Stages of a pipeline are split by `place`. A stage may carry fewer indices than the model.
    def without(self, place: tuple[str, str]) -> Sharding:
        return replace(self, places=tuple(other for other in self.places if other != place), of_stage=True)

    def local(self, legend: Legend) -> Local:
        return Local(**{part.name: getattr(legend, part.name) for part in fields(Legend)}, sharding=self)


WHOLE = Sharding((), ())  # one device


@dataclass
class Local(Legend):
    """A legend in which each index has as many numbers as one rank has of it. Sizes as numbers stay those of the model."""

    sharding: Sharding = field(default=WHOLE)

    def length(self, letter: str) -> int:
        return Legend.length(self, letter) // self.sharding.times(letter)


def own(letter: str) -> str:
    return letter + _OWN


def is_own(letter: str) -> bool:
    return letter.endswith(_OWN)


def find_whole(letter: str) -> str:
    return letter.removesuffix(_OWN)


# `s'`, a rank's part of `s`.
def describe_index(letter: str) -> str:
    return f"a rank's part of {letter.removesuffix(_OWN)}" if is_own(letter) else letter


# The axes of `dp=2,tp=4`, in order. Raises EinformerError E741.
def read_mesh(text: str) -> tuple[tuple[str, int], ...]:
    source, axes = Source("mesh", text), dict[str, int]()
    for start, part in _parts(text, ","):
        entry = _AXIS.fullmatch(part)
        if entry is None or not int(entry[2]):
            raise fail(
                "E741", f"`{part.strip()}` is not an axis of a mesh", _span(source, start, part), fix="`tp=4`, `dp=2,tp=4`"
            )
        if entry[1] in axes:
            raise fail("E741", f"the mesh has two axes `{entry[1]}`", _span(source, start, part), fix="one size for each axis")
        axes[entry[1]] = int(entry[2])
    return tuple(axes.items())


# The map of letters `tp: g f v; dp: b` over a mesh. Raises EinformerError E741, E742.
def read_sharding(mesh: str | Mapping[str, int], shard: str, legend: Legend, time: str = "") -> Sharding:
    axes = read_mesh(mesh) if isinstance(mesh, str) else tuple(mesh.items())
    places, yielding, ways = dict[str, tuple[str, Span]](), dict[str, tuple[str, Span]](), dict[str, list[str]]()
    for letter, axis, span, yields, own_ways in _entries(shard, dict(axes)):
        _refuse_letter(letter, span, legend)
        ways[letter] = [*ways.get(letter, ()), *own_ways]
        places_of_kind = yielding if yields else places
        if letter in places_of_kind:
            message = f"`{letter}` is split over `{places_of_kind[letter][0]}` and over `{axis}`"
            raise fail("E741", message, span, [legend.describe(letter)], f"`{letter}` once")
        _refuse_remainder(letter, axis, dict(axes)[axis], span, legend)
        places_of_kind[letter] = axis, span
    rows = {axis for letter, (axis, _) in places.items() if not legend.is_bound(letter) and letter != time}
    for letter, (axis, span) in places.items():
        if axis in rows and (legend.is_bound(letter) or letter == time):
            message = f"`{axis}` splits the batch, and `{letter}` too"
            fix = "an axis of the mesh for the batch alone" + f", or `({letter})`" * (letter != time)
            raise fail("E741", message, span, [legend.describe(letter)], fix)
    for letter, (axis, span) in yielding.items():
        data = not legend.is_bound(letter) or letter == time
        if (axis in rows and data) or axis not in {other for name, (other, _) in places.items() if name != letter}:
            message = f"no other index is split over `{axis}`, to which `{letter}` could yield"
            raise fail("E741", message, span, [legend.describe(letter)], "`tp: g f v (s)`")
        if axis in rows and letter in places:
            message = f"`{letter}` is split over `{places[letter][0]}` and over `{axis}`"
            raise fail("E741", message, span, [legend.describe(letter)], f"`{letter}` once")
    split, yielded = ([(letter, axis) for letter, (axis, _) in some.items()] for some in (places, yielding))
    between, in_weights = ([place for place in yielded if (place[1] in rows) == held] for held in (False, True))
    ring, zigzag = (frozenset(letter for letter in ways if way in ways[letter]) for way in _WAYS)
    for letter in zigzag:
        _refuse_zigzag(letter, places, legend)
    return Sharding(axes, tuple(split), frozenset(rows), tuple(between), tuple(in_weights), round=ring, zigzag=zigzag)


# What ranks have of weights, or of other indices of the same axis, is one piece.
def _refuse_zigzag(letter: str, places: Mapping[str, tuple[str, Span]], legend: Legend) -> None:
    axis, span = places[letter]
    others = [other for other, (over, _) in places.items() if over == axis and other != letter]
    if legend.is_bound(letter) or others:
        message = f"`{axis}` splits `{others[0]}` too" if others else f"`{letter}` is an index of weights"
        raise fail("E741", message, span, [legend.describe(letter)], f"`{letter}` without a zigzag")


# Yields each index with its axis of the mesh, its place, whether it stands in brackets, and the ways in which it is split.
def _entries(shard: str, mesh: Mapping[str, int]) -> Iterator[tuple[str, str, Span, bool, list[str]]]:
    source, seen = Source("shard", shard), set[str]()
    for start, part in _parts(shard, ";"):
        entry, span = _ENTRY.fullmatch(part), _span(source, start, part)
        if entry is None:
            raise fail("E741", f"`{part.strip()}` does not say which indices are split", span, fix="`tp: g f v`")
        if entry[1] not in mesh or entry[1] in seen:
            listed = ", ".join(f"{axis}={size}" for axis, size in mesh.items()) or "no axis"
            message = f"the mesh has no axis `{entry[1]}`" if entry[1] not in mesh else f"`{entry[1]}` stands here twice"
            raise fail("E741", message, span, [f"mesh: {listed}"], " or ".join(f"`{axis}`" for axis in mesh))
        seen.add(entry[1])
        for index in _INDEX.finditer(part, entry.start(2)):
            place, ways = Span(source, start + index.start(2), start + index.end()), (index[3] or "").split()
            for way in ways if index[3] is None or ways else [""]:
                if way not in _WAYS:
                    fix = " or ".join(f"`{index[2]}[{option}]`" for option in _WAYS)
                    raise fail("E741", f"`{index[0].strip()}` does not say how `{index[2]}` is split", place, fix=fix)
            yield index[2], entry[1], place, bool(index[1]), ways


def _parts(text: str, sign: str) -> Iterator[tuple[int, str]]:
    start = 0
    for part in text.split(sign):
        if part.strip():
            yield start, part
        start += len(part) + 1


def _span(source: Source, start: int, part: str) -> Span:
    return Span(source, start + len(part) - len(part.lstrip()), start + len(part.rstrip()))


def _refuse_letter(letter: str, span: Span, legend: Legend) -> None:
    if legend.axis(letter) is None:
        raise fail("E741", f"no index `{letter}` is declared", span, fix=", ".join(f"`{axis}`" for axis in legend.axes))


def _refuse_remainder(letter: str, axis: str, times: int, span: Span, legend: Legend, what: str = "ranks") -> None:
    if legend.is_bound(letter) and legend.length(letter) % times:
        size = legend.length(letter)
        divisors = [n for n in range(2, size + 1) if not size % n][:6]
        message = f"`{letter}` has {size} numbers, which {times} {what} of `{axis}` cannot share"
        fix = f"another index, or an axis of {', '.join(map(str, divisors))} ranks" if divisors else "another index"
        raise fail("E742", message, span, [legend.describe(letter)], fix)


# Raises EinformerError E742 for an index, of an input too, whose numbers the ranks of an axis cannot share equally.
def refuse_remainders(sharding: Sharding, legend: Legend) -> None:
    for letter, axis in (*sharding.places, *sharding.yielding, *sharding.in_weights):
        what = "pieces" if letter in sharding.zigzag else "ranks"
        _refuse_remainder(letter, axis, sharding.count_parts(letter, axis), NOWHERE, legend, what)


# Raises EinformerError E741 for an index that no tensor of the model carries.
def refuse_unused(sharding: Sharding, functions: Mapping[str, Function]) -> None:
    carried = {letter for function in functions.values() for value in walk_values(function) for letter in value.axes}
    for letter, axis in (*sharding.places, *sharding.yielding, *sharding.in_weights):
        if letter not in carried:
            message = f"no tensor of the model carries `{letter}`, which is split over `{axis}`"
            raise fail("E741", message, NOWHERE, fix=", ".join(f"`{other}`" for other in sorted(carried)))


# Raises EinformerError E605, E741 where the ranks of the batch cannot share weights by a stage of ZeRO.
def refuse_zero(zero: int, sharding: Sharding | None, ties: Iterable[str] = ()) -> None:
    if zero not in (0, 2, 3):
        raise fail("E605", f"no module shares its weights by stage {zero} of ZeRO", fix="0, 2 or 3")
    if zero and (sharding is None or not sharding.rows):
        raise fail("E741", "no axis of the mesh splits the batch, whose ranks share weights", NOWHERE, fix="`dp: b`")
    for letter, axis in sharding.in_weights if zero and sharding else ():
        raise fail(
            "E741", f"weights are split by `{letter}` over `{axis}`, whose ranks would share them", NOWHERE, fix="`zero=0`"
        )
    for name in ties if zero else ():
        raise fail("E741", f"several stages have `{name}`, and ranks of the batch would share it", NOWHERE, fix="`zero=0`")


# Raises EinformerError E744 for decoding where positions are split: each step has one of them.
def refuse_split_positions(sharding: Sharding, time: str, legend: Legend) -> None:
    for letter, axis in sharding.places:
        if axis_of(letter) == time:
            message = f"`{letter}` is split over `{axis}`, and a step of decoding has one position"
            raise fail("E744", message, NOWHERE, [legend.describe(letter)], f"a map without `{letter}`")
    for letter, axis in sharding.in_weights:
        message = f"the ranks of `{axis}` share weights by `{letter}`, and decode other rows, each as far as these go"
        raise fail("E744", message, NOWHERE, [legend.describe(letter)], f"`{letter}` without brackets, without the batch")


# A tensor must not carry two indices of one axis of the mesh.
def clash(sharding: Sharding, letters: Iterable[str], span: Span) -> EinformerError | None:
    seen = dict[str, str]()
    for letter in letters:
        if (axis := sharding.axis(letter)) and seen.setdefault(axis, letter) != letter:
            message = f"one tensor carries `{seen[axis]}` and `{letter}`, and both are split over `{axis}`"
            return fail("E743", message, span, fix=f"one of them, or `{letter}` over another axis of the mesh")
    return None


def is_size(name: str, letter: str, legend: Legend) -> bool:
    axis = legend.axis(letter)
    sized = axis is not None and isinstance(axis.size, Name) and axis.size.name == name
    return name == f"|{axis_of(letter)}|" or sized
