"""Reads the weights of a parameter in the notation, `"Q_{(ae)d}"`: the name, and the layout of the axes."""

from __future__ import annotations

import inspect
import itertools
import math
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from einformer.errors import EinformerError, fail
from einformer.language.calls import axis_of, slot_letters
from einformer.language.parser import parse_expression
from einformer.language.tree import Expression, Group, Index, Name, Number, Tensor
from einformer.testing.subject import Subject

if TYPE_CHECKING:
    import torch

Shape = tuple[int, ...]
Slots = tuple[tuple[str, ...], ...]
Given = str | Callable[..., Any] | None  # a layout; a function of weights; `None`: the parameter stays as it is


@dataclass(frozen=True, slots=True)
class Piece:
    """A weight or an input in the layout of the code: its slots, each one letter or several.

    `at` selects one number on each of the first axes: one expert of all.
    """

    path: str
    slots: Slots
    letters: tuple[str, ...]
    at: tuple[int, ...] = ()

    def shape(self, shape: Shape) -> Shape:
        sizes = dict(zip(self.letters, shape[len(self.at) :], strict=True))
        return tuple(math.prod(sizes[letter] for letter in slot) for slot in self.slots)

    def lay_out(self, array: torch.Tensor) -> torch.Tensor:
        order = [self.letters.index(letter) for slot in self.slots for letter in slot]
        return array[self.at].permute(order).reshape(self.shape(tuple(array.shape)))

    def read(self, held: torch.Tensor, shape: Shape) -> torch.Tensor:
        letters = [letter for slot in self.slots for letter in slot]
        sizes = dict(zip(self.letters, shape, strict=True))
        apart = held.reshape([sizes[letter] for letter in letters])
        return apart.permute([letters.index(letter) for letter in self.letters])

    def __str__(self) -> str:
        slots = "".join(f"({''.join(slot)})" if len(slot) > 1 else slot[0] for slot in self.slots)
        grouped = any(len(slot) > 1 for slot in self.slots)
        return f"{self.path}_{{{slots}}}" if grouped else f"{self.path}_{slots}" if slots else self.path


@dataclass(frozen=True, slots=True)
class MappedParameter:
    """A parameter of the code: pieces that follow each other along an axis, or a function of weights."""

    parameter: str
    pieces: tuple[Piece, ...]
    made: Callable[..., Any] | None = None
    axis: int = 0

    @property
    def paths(self) -> set[str]:
        return {piece.path for piece in self.pieces} if self.made is None else set(list_parameters(self.made))


def list_parameters(f: Callable[..., Any]) -> list[str]:
    try:
        signature_parameters = inspect.signature(f).parameters.values()
    except ValueError as error:
        raise fail("E905", f"the parameters of `{f}` have no names", fix="a function around it: `lambda q, k: …`") from error
    return [p.name for p in signature_parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]


def list_letters(subject: Subject) -> dict[str, tuple[str, ...]]:
    weights = {path: tuple(index.letter for index in placed.weight.indices) for path, placed in subject.weights().items()}
    return {formal.name: slot_letters(formal) for formal in subject.head.formals} | weights


# `*` in both names stands for a number. Raises E905.
def read_entries(subject: Subject, given: Mapping[str, Given], parameters: Sequence[str]) -> list[MappedParameter]:
    entries = []
    for pattern, value in given.items():
        matches = [m for name in parameters if (m := re.fullmatch(re.escape(pattern).replace(r"\*", r"(\d+)"), name))]
        if not matches:
            raise fail("E905", f"the code has no parameter `{pattern}`", facts=[f"it has {_list_names(parameters)}"])
        for match in matches:
            entries.append(_read_entry(subject, match[0], _fill_stars(value, match.groups())))
    return entries


# Each piece has the same numbers for its stars.
def _fill_stars(value: Given, numbers: Sequence[str | Any]) -> Given:
    rest = itertools.cycle(numbers or "*")
    return re.sub(r"\*", lambda _: next(rest), value) if isinstance(value, str) else value


def _read_entry(subject: Subject, parameter: str, value: Given) -> MappedParameter:
    if isinstance(value, str):
        return MappedParameter(parameter, tuple(_read_piece(subject, part.strip()) for part in value.split(",")))
    return MappedParameter(parameter, (), value)


# `blocks.0.MLP.W_fd`: a path, and its letters as they lie. Without a subscript, as they are declared.
def _read_piece(subject: Subject, text: str) -> Piece:
    folder, _, name = text.rpartition(".")
    letters_by_path = list_letters(subject)
    try:
        e = parse_expression(name, subject.written, "weights")
    except EinformerError as error:
        raise fail("E905", f"`{text}` is not a weight with its axes", fix='a layout, `"Q_{(ae)d}"`') from error
    path = f"{folder}.{_name_of(e)}" if folder else _name_of(e)
    if path not in letters_by_path:
        raise fail("E905", f"there is no weight `{path}`", facts=[f"there are {_list_names(list(letters_by_path))}"])
    selected = tuple(int(slot.value) for slot in e.slots if isinstance(slot, Number)) if isinstance(e, Tensor) else ()
    letters = letters_by_path[path][len(selected) :]
    slots = tuple(filter(None, map(_letters_of, e.slots))) if isinstance(e, Tensor) else tuple((letter,) for letter in letters)
    if sorted(letter for slot in slots for letter in slot) != sorted(letters):
        axes = "".join(letters_by_path[path])
        raise fail("E905", f"`{text}` has other axes than `{path}_{axes}`", fix=f"`{axes}` in any order, in groups or not")
    return Piece(path, slots, letters, selected)


def _name_of(e: Expression) -> str:
    return e.name if isinstance(e, Tensor | Name) else e.letter if isinstance(e, Index) else ""


def _letters_of(slot: Expression) -> tuple[str, ...]:
    members = slot.members if isinstance(slot, Group) else (slot,)
    return tuple(member.letter for member in members if isinstance(member, Index))


# Assigns an input or weight to each parameter of a function: by its name, `Q`, `Q_dea`, `gamma`, or else by order. Raises
# EinformerError E905.
def assign_arguments(subject: Subject, names: Sequence[str], written: Sequence[MappedParameter]) -> list[MappedParameter]:
    used = {path for entry in written for path in entry.paths}
    free = {path: letters for path, letters in list_letters(subject).items() if path not in used}
    rest = [name for name in names if name not in {entry.parameter for entry in written}]
    named = {parameter: _match_name(parameter, free) for parameter in rest}
    if None in named.values() and len(rest) == len(free):
        named = dict(zip(rest, free, strict=True))
    if missing := [path for path in free if path not in named.values() and _is_needed(subject, path)]:
        facts = [f"its parameters are {_list_names(names)}", f"the equations take {_list_names(list(free))}"]
        raise fail(
            "E905", f"no parameter of the code is `{missing[0]}`", facts=facts, fix='`weights={"parameter": "Q_{(ae)d}"}`'
        )
    return [
        MappedParameter(parameter, (_read_suffix(parameter, path, free[path]),)) for parameter, path in named.items() if path
    ]


def _is_needed(subject: Subject, path: str) -> bool:
    placed = subject.weights().get(path)
    return placed is None or not placed.weight.optional


# `q_bsea`, `q` and `Q_dea` are the tensors before the subscript. `gamma` is γ.
def _match_name(parameter: str, known: Mapping[str, object]) -> str | None:
    for name in (parameter, parameter.partition("_")[0]):
        for letter in (name, *(unicodedata.lookup(f"GREEK {case} LETTER {name.upper()}") for case in _spell_greek(name))):
            if letter in known:
                return letter
    return None


def _spell_greek(name: str) -> Iterator[str]:
    for case in ("SMALL", "CAPITAL"):
        try:
            unicodedata.lookup(f"GREEK {case} LETTER {name.upper()}")
        except KeyError:
            continue
        yield case


# `q_base` states the order of its axes, if they are its letters.
def _read_suffix(parameter: str, path: str, letters: tuple[str, ...]) -> Piece:
    suffix = tuple(parameter.partition("_")[2])
    slots = suffix if sorted(suffix) == sorted(map(axis_of, letters)) and len(set(suffix)) == len(suffix) else None
    by_axis = {axis_of(letter): letter for letter in letters}
    return Piece(path, tuple((by_axis[axis],) for axis in slots) if slots else tuple((axis,) for axis in letters), letters)


def _list_names(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "none"
