"""Which parameter of some code holds which weight? Said in the notation, `"Q_{(ae)d}"`: its name, and how its axes lie."""

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
    """A weight, or an input, as code holds it: its slots, each one letter or several, of its letters as they are declared.

    Of the first `len(at)` axes as declared it holds one number only: one expert of all.
    """

    path: str
    slots: Slots
    letters: tuple[str, ...]
    at: tuple[int, ...] = ()

    def shape(self, shape: Shape) -> Shape:
        """The shape that the code holds, of that with the axes as declared."""
        sizes = dict(zip(self.letters, shape[len(self.at) :], strict=True))
        return tuple(math.prod(sizes[letter] for letter in slot) for slot in self.slots)

    def laid(self, array: torch.Tensor) -> torch.Tensor:
        """An array with its axes as declared, as the code holds it."""
        order = [self.letters.index(letter) for slot in self.slots for letter in slot]
        return array[self.at].permute(order).reshape(self.shape(tuple(array.shape)))

    def read(self, held: torch.Tensor, shape: Shape) -> torch.Tensor:
        """The array with its axes as declared, of what the code holds."""
        letters = [letter for slot in self.slots for letter in slot]
        sizes = dict(zip(self.letters, shape, strict=True))
        apart = held.reshape([sizes[letter] for letter in letters])
        return apart.permute([letters.index(letter) for letter in self.letters])

    def __str__(self) -> str:
        slots = "".join(f"({''.join(slot)})" if len(slot) > 1 else slot[0] for slot in self.slots)
        grouped = any(len(slot) > 1 for slot in self.slots)
        return f"{self.path}_{{{slots}}}" if grouped else f"{self.path}_{slots}" if slots else self.path


@dataclass(frozen=True, slots=True)
class Entry:
    """A parameter of the code: pieces that follow each other along some axis, or what a function makes of weights."""

    parameter: str
    pieces: tuple[Piece, ...]
    made: Callable[..., Any] | None = None
    axis: int = 0

    @property
    def paths(self) -> set[str]:
        """The weights that it holds."""
        return {piece.path for piece in self.pieces} if self.made is None else set(parameters(self.made))


def parameters(f: Callable[..., Any]) -> list[str]:
    """The names of what a function is given. Raises EinformerError E905."""
    try:
        found = inspect.signature(f).parameters.values()
    except ValueError as error:
        raise fail("E905", f"the parameters of `{f}` have no names", fix="a function around it: `lambda q, k: …`") from error
    return [p.name for p in found if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]


def declared(subject: Subject) -> dict[str, tuple[str, ...]]:
    """The letters of every weight by path, and of every input."""
    weights = {path: tuple(index.letter for index in each.weight.indices) for path, each in subject.weights().items()}
    return {formal.name: slot_letters(formal) for formal in subject.head.formals} | weights


def said(subject: Subject, given: Mapping[str, Given], parameters: Sequence[str]) -> list[Entry]:
    """The entries that a user wrote; a `*` in both names stands for a number. Raises EinformerError E905."""
    found = []
    for pattern, value in given.items():
        matches = [m for name in parameters if (m := re.fullmatch(re.escape(pattern).replace(r"\*", r"(\d+)"), name))]
        if not matches:
            raise fail("E905", f"the code has no parameter `{pattern}`", facts=[f"it has {_listed(parameters)}"])
        for match in matches:
            found.append(_entry(subject, match[0], _filled(value, match.groups())))
    return found


def _filled(value: Given, numbers: Sequence[str | Any]) -> Given:
    """The layout with the numbers for its stars, the same ones for each of its pieces."""
    rest = itertools.cycle(numbers or "*")
    return re.sub(r"\*", lambda _: next(rest), value) if isinstance(value, str) else value


def _entry(subject: Subject, parameter: str, value: Given) -> Entry:
    if isinstance(value, str):
        return Entry(parameter, tuple(_piece(subject, part.strip()) for part in value.split(",")))
    return Entry(parameter, (), value)


def _piece(subject: Subject, text: str) -> Piece:
    """`blocks.0.MLP.W_fd`: a path, and its letters as they lie; without a subscript, as they are declared."""
    folder, _, name = text.rpartition(".")
    known = declared(subject)
    try:
        e = parse_expression(name, subject.written, "weights")
    except EinformerError as error:
        raise fail("E905", f"`{text}` is no weight with its axes", fix='a layout, `"Q_{(ae)d}"`') from error
    path = f"{folder}.{_named(e)}" if folder else _named(e)
    if path not in known:
        raise fail("E905", f"there is no weight `{path}`", facts=[f"there are {_listed(list(known))}"])
    at = tuple(int(slot.value) for slot in e.slots if isinstance(slot, Number)) if isinstance(e, Tensor) else ()
    letters = known[path][len(at) :]
    slots = tuple(filter(None, map(_letters, e.slots))) if isinstance(e, Tensor) else tuple((letter,) for letter in letters)
    if sorted(letter for slot in slots for letter in slot) != sorted(letters):
        axes = "".join(known[path])
        raise fail("E905", f"`{text}` has other axes than `{path}_{axes}`", fix=f"`{axes}` in any order, in groups or not")
    return Piece(path, slots, letters, at)


def _named(e: Expression) -> str:
    return e.name if isinstance(e, Tensor | Name) else e.letter if isinstance(e, Index) else ""


def _letters(slot: Expression) -> tuple[str, ...]:
    members = slot.members if isinstance(slot, Group) else (slot,)
    return tuple(member.letter for member in members if isinstance(member, Index))


def arguments(subject: Subject, names: Sequence[str], written: Sequence[Entry]) -> list[Entry]:
    """Which input or weight each parameter of a function is: by its name, `Q`, `Q_dea`, `gamma`; else all by their order.

    Raises EinformerError E905.
    """
    taken = {path for entry in written for path in entry.paths}
    known = {path: letters for path, letters in declared(subject).items() if path not in taken}
    rest = [each for each in names if each not in {entry.parameter for entry in written}]
    named = {parameter: _called(parameter, known) for parameter in rest}
    if None in named.values() and len(rest) == len(known):
        named = dict(zip(rest, known, strict=True))
    if missing := [path for path in known if path not in named.values() and _is_needed(subject, path)]:
        facts = [f"its parameters are {_listed(names)}", f"the equations take {_listed(list(known))}"]
        raise fail(
            "E905", f"no parameter of the code is `{missing[0]}`", facts=facts, fix='`weights={"parameter": "Q_{(ae)d}"}`'
        )
    return [Entry(parameter, (_suffixed(parameter, path, known[path]),)) for parameter, path in named.items() if path]


def _is_needed(subject: Subject, path: str) -> bool:
    placed = subject.weights().get(path)
    return placed is None or not placed.weight.optional


def _called(parameter: str, known: Mapping[str, object]) -> str | None:
    """`q_bsea`, `q` and `Q_dea` are the tensors before the subscript; `gamma` is γ."""
    for name in (parameter, parameter.partition("_")[0]):
        for letter in (name, *(unicodedata.lookup(f"GREEK {case} LETTER {name.upper()}") for case in _cases(name))):
            if letter in known:
                return letter
    return None


def _cases(name: str) -> Iterator[str]:
    """In which cases is this the name of a Greek letter?"""
    for case in ("SMALL", "CAPITAL"):
        try:
            unicodedata.lookup(f"GREEK {case} LETTER {name.upper()}")
        except KeyError:
            continue
        yield case


def _suffixed(parameter: str, path: str, letters: tuple[str, ...]) -> Piece:
    """`q_base` holds its axes in that order, if they are its letters."""
    suffix = tuple(parameter.partition("_")[2])
    slots = suffix if sorted(suffix) == sorted(map(axis_of, letters)) and len(set(suffix)) == len(suffix) else None
    by_axis = {axis_of(letter): letter for letter in letters}
    return Piece(path, tuple((by_axis[each],) for each in slots) if slots else tuple((each,) for each in letters), letters)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "none"
