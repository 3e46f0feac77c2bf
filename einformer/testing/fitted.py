"""Chooses the sizes for a test: a module's own, which its parameters tell, or small different ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from torch import nn

from einformer.errors import fail
from einformer.language.calls import axis_of
from einformer.language.tree import Name
from einformer.testing import prime_sizes
from einformer.testing.code import list_tied, prepare
from einformer.testing.mapping import Given, Piece, Shape, list_letters, list_parameters, read_entries
from einformer.testing.subject import Subject


def fit(f: Callable[..., Any], about: Subject, weights: Mapping[str, Given]) -> tuple[Callable[..., Any], Subject]:
    """Returns the code under test, and the equations at its sizes. Raises EinformerError E905 if a module does not tell a
    size.
    """
    draft = about.bind(prime_sizes.draw(about.legend, about.letters(), about.turns()))
    if isinstance(f, nn.Module):
        sizes_of_module = _read_sizes(f, about, draft, weights)
        _check_complete(about, sizes_of_module)
        legend = replace(about.legend, values={**about.legend.values, **sizes_of_module})
        free = [letter for letter in about.letters() if letter not in sizes_of_module]
        return prepare(f), about.bind({**sizes_of_module, **prime_sizes.draw(legend, free)})
    if names := _find_size_parameters(f, draft):
        return prepare(f(**{name: int(draft.legend.number(Name(name))) for name in names})), draft
    return f, draft


# A function of sizes alone builds a module.
def _find_size_parameters(f: Callable[..., Any], draft: Subject) -> list[str]:
    names = list_parameters(f)
    inputs = {formal.name for formal in draft.head.formals}
    return (
        names if names and set(names) <= draft.legend.letters - inputs and not set(names) <= list_letters(draft).keys() else []
    )


# The length of a slot with a single letter.
def _read_sizes(f: nn.Module, about: Subject, draft: Subject, weights: Mapping[str, Given]) -> dict[str, int]:
    parameters = dict(f.named_parameters())
    shapes = {name: tuple(parameters[first].shape) for name, first in list_tied(f).items()}
    entries = [entry for entry in read_entries(draft, weights, list(shapes)) if len(entry.pieces) == 1]
    lengths = [size for entry in entries for size in _read_lengths(draft, entry.pieces[0], shapes[entry.parameter]).items()]
    return {name: size for name, size in lengths if name in about.letters()}


# The letter must have its own axis, since a layer may be called with another.
def _read_lengths(draft: Subject, piece: Piece, shape: Shape) -> dict[str, int]:
    own = dict(zip(piece.letters, draft.weights()[piece.path].shape[len(piece.at) :], strict=True))
    pairs = [(slot[0], size) for slot, size in zip(piece.slots, shape, strict=False) if len(slot) == 1]
    named = [
        (draft.legend.axes[axis_of(letter)].size, size) for letter, size in pairs if own[letter] == draft.legend.length(letter)
    ]
    return {name.name: size for name, size in named if isinstance(name, Name)}


# A module fixes the sizes of its weights and the number of its loops, so they cannot be drawn.
def _check_complete(about: Subject, known: Mapping[str, int]) -> None:
    letters = {axis_of(i.letter) for layer in about.written.layers for w in layer.weights for i in w.indices}
    terms = [monomial for letter in letters for monomial in about.legend.polynomial(about.legend.axes[letter].size)]
    needed = {name for monomial in terms for name, _ in monomial} | about.turns()
    if missing := sorted((needed & set(about.letters())) - known.keys()):
        fix = "`bind={" + ", ".join(f'"{name}": …' for name in missing) + "}`"
        raise fail("E905", f"the module does not tell its {', '.join(f'`{name}`' for name in missing)}", fix=fix)
