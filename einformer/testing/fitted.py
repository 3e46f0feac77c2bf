"""At which sizes is code tested? A module's own, which its parameters tell; where nothing is said, small different ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from torch import nn

from einformer.errors import fail
from einformer.language.calls import axis_of
from einformer.language.tree import Name
from einformer.testing import sizes
from einformer.testing.code import prepared
from einformer.testing.mapping import Given, Piece, Shape, declared, parameters, said
from einformer.testing.subject import Subject


def fitted(f: Callable[..., Any], about: Subject, weights: Mapping[str, Given]) -> tuple[Callable[..., Any], Subject]:
    """What is tested, and the equations at its sizes. Raises EinformerError E905 where a module does not tell its own."""
    draft = about.bound(sizes.drawn(about.legend, about.letters(), about.turns()))
    if isinstance(f, nn.Module):
        known = _told(f, about, draft, weights)
        _all_are_told(about, known)
        legend = replace(about.legend, values={**about.legend.values, **known})
        free = [letter for letter in about.letters() if letter not in known]
        return prepared(f), about.bound({**known, **sizes.drawn(legend, free)})
    if names := _sizes_it_takes(f, draft):
        return prepared(f(**{name: int(draft.legend.number(Name(name))) for name in names})), draft
    return f, draft


def _sizes_it_takes(f: Callable[..., Any], draft: Subject) -> list[str]:
    """The parameters of a function of sizes alone, which builds a module."""
    names = parameters(f)
    inputs = {formal.name for formal in draft.head.formals}
    return names if names and set(names) <= draft.legend.letters - inputs and not set(names) <= declared(draft).keys() else []


def _told(f: nn.Module, about: Subject, draft: Subject, weights: Mapping[str, Given]) -> dict[str, int]:
    """The open sizes that parameters tell: their lengths where a slot is a single letter."""
    shapes = {name: tuple(p.shape) for name, p in f.named_parameters()}
    entries = [entry for entry in said(draft, weights, list(shapes)) if len(entry.pieces) == 1]
    told = [size for entry in entries for size in _lengths(draft, entry.pieces[0], shapes[entry.parameter]).items()]
    return {name: size for name, size in told if name in about.letters()}


def _lengths(draft: Subject, piece: Piece, shape: Shape) -> dict[str, int]:
    """The sizes of single letters by name, where the letter has its own axis: a layer may be called with another."""
    own = dict(zip(piece.letters, draft.weights()[piece.path].shape[len(piece.at) :], strict=True))
    pairs = [(slot[0], size) for slot, size in zip(piece.slots, shape, strict=False) if len(slot) == 1]
    named = [
        (draft.legend.axes[axis_of(letter)].size, size) for letter, size in pairs if own[letter] == draft.legend.length(letter)
    ]
    return {name.name: size for name, size in named if isinstance(name, Name)}


def _all_are_told(about: Subject, known: Mapping[str, int]) -> None:
    """The sizes of weights, and how often loops turn, are a module's own: they cannot be drawn."""
    letters = {axis_of(i.letter) for layer in about.written.layers for w in layer.weights for i in w.indices}
    terms = [monomial for letter in letters for monomial in about.legend.polynomial(about.legend.axes[letter].size)]
    needed = {name for monomial in terms for name, _ in monomial} | about.turns()
    if missing := sorted((needed & set(about.letters())) - known.keys()):
        fix = "`bind={" + ", ".join(f'"{name}": …' for name in missing) + "}`"
        raise fail("E905", f"the module does not tell its {', '.join(f'`{name}`' for name in missing)}", fix=fix)
