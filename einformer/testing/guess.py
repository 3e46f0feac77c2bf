"""Guesses the weight in each parameter of a module: the one whose shape and name fit, if no other does."""

from __future__ import annotations

import itertools
import math
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from einformer.errors import fail
from einformer.language.tree import Tensor
from einformer.language.walk import equations, find_all
from einformer.testing.mapping import MappedParameter, Piece, Shape, Slots, list_letters
from einformer.testing.subject import Subject

COMPILED = "_orig_mod."  # in the names of the parameters of a module that `torch.compile` wraps
FEATURES = "e"  # published checkpoints are head-major: within a group the features of a head vary fastest


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a module. A `linear` one has outputs before inputs."""

    name: str
    shape: Shape
    linear: bool

    # `q`, `proj`, `weight`.
    @property
    def words(self) -> tuple[str, ...]:
        apart = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", self.name.replace(COMPILED, ""))
        return tuple(word.lower() for word in re.split(r"[._]", apart) if word)


# Raises E905 if more than one weight fits.
def guess(subject: Subject, parameters: Sequence[Parameter], said: Sequence[MappedParameter]) -> list[MappedParameter]:
    used = {path for entry in said for path in entry.paths}
    named = {entry.parameter for entry in said}
    rest = {p.name: p for p in parameters if p.name not in named}
    weights = {path: placed.shape for path, placed in subject.weights().items() if path not in used}
    entries, owners = list[MappedParameter](), _find_owners(said)
    while rest and (pair := _choose_surest(subject, weights, rest, owners)):
        parameter, piece = pair
        entries.append(MappedParameter(parameter.name, (piece,)))
        owners[piece.path] = parameter.name.rpartition(".")[0]
        del rest[parameter.name], weights[piece.path]
    _check_complete(subject, rest, weights)
    return entries


def _find_owners(said: Sequence[MappedParameter]) -> dict[str, str]:
    return {piece.path: entry.parameter.rpartition(".")[0] for entry in said for piece in entry.pieces}


# The pair that fits best, if there is only one.
def _choose_surest(
    subject: Subject, weights: Mapping[str, Shape], rest: Mapping[str, Parameter], owners: Mapping[str, str]
) -> tuple[Parameter, Piece] | None:
    fits = [
        (_rate(subject, parameter, path, owners), parameter, piece)
        for path, shape in weights.items()
        for parameter in rest.values()
        if (piece := _fit(subject, path, shape, parameter))
    ]
    for wanted in (4, 3, 2, 1, 0):
        for likeness, parameter, piece in fits:
            rivals = [(p, w) for score, p, w in fits if score >= wanted and (p is parameter or w.path == piece.path)]
            if likeness >= wanted and len(rivals) == 1:
                return parameter, piece
    return None


# 4: one path. 3: one name. 2: a bias beside its weight. 1: an initial. 0: nothing.
def _rate(subject: Subject, parameter: Parameter, path: str, owners: Mapping[str, str]) -> int:
    if parameter.name == path:
        return 4
    name = path.rpartition(".")[2]
    plain = unicodedata.name(name, "").rpartition(" ")[2].lower() if not name.isascii() else name.lower()
    if {plain, f"w{plain}"} & set(parameter.words):
        return 3
    beside = {owners[other] for other in _find_neighbours(subject, path) if other in owners}
    if parameter.name.rpartition(".")[0] in beside and parameter.words[-1] == "bias":
        return 2
    return int(any(word[0] == plain[0] for word in parameter.words if word not in ("weight", "bias")))


def _find_neighbours(subject: Subject, path: str) -> Iterator[str]:
    folder, dot, name = path.rpartition(".")
    for layer in subject.written.layers:
        for equation in equations(layer.body):
            names = {e.name for e in find_all(Tensor, equation.right)}
            if name in names:
                yield from (f"{folder}{dot}{other}" for other in names - {name})


# The letters of the weight in order, in as many groups as the parameter has axes.
def _fit(subject: Subject, path: str, shape: Shape, parameter: Parameter) -> Piece | None:
    letters = list_letters(subject)[path]
    sizes = dict(zip(letters, shape, strict=True))
    fits = [
        slots
        for slots in _find_layouts(letters, len(parameter.shape), parameter.linear)
        if tuple(math.prod(sizes[letter] for letter in slot) for slot in slots) == parameter.shape
    ]
    return Piece(path, fits[0], letters) if fits else None


def _find_layouts(letters: tuple[str, ...], axes: int, linear: bool) -> Iterator[Slots]:
    for cuts in itertools.combinations(range(1, len(letters)), axes - 1):
        ends = (0, *cuts, len(letters))
        slots = tuple(_order_heads_first(letters[start:end]) for start, end in itertools.pairwise(ends))
        yield slots[::-1] if linear else slots


def _order_heads_first(slot: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(slot, key=lambda letter: letter == FEATURES))


def _check_complete(subject: Subject, rest: Mapping[str, Parameter], weights: Mapping[str, Shape]) -> None:
    needed = {path: shape for path, shape in weights.items() if not subject.weights()[path].weight.optional}
    if not rest and not needed:
        return
    facts = [f"`{p.name}` has shape {p.shape}" for p in rest.values()]
    facts += [f"`{path}_{''.join(list_letters(subject)[path])}` has shape {shape}" for path, shape in weights.items()]
    message = f"it is not clear which weight is in `{next(iter(rest))}`" if rest else f"no parameter is `{next(iter(needed))}`"
    fix = '`weights={"q_proj.weight": "Q_{(ae)d}", …}`; `None` for a parameter that has no part in it'
    raise fail("E905", message, facts=facts, fix=fix)
