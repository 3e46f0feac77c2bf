"""Lists the shipped architectures, with their titles and kinds of attention, and the models of published sizes."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from einformer import targets
from einformer.architectures import models, texts
from einformer.huggingface.families import architectures, families
from einformer.language.calls import axis_of, slot_letters
from einformer.language.tree import Apply, Equation, Expression, Index, Product, Spec, Sum, Tensor
from einformer.language.walk import equations, find_all, subexpressions


@dataclass(frozen=True, slots=True)
class Architecture:
    """A shipped text: its title, its kind of attention, and the `model_type`s of transformers that follow it."""

    name: str
    about: str
    attention: str
    families: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ShippedModel:
    """A model of published sizes."""

    name: str
    architecture: str
    parameters: int


@dataclass(frozen=True, slots=True)
class Shipped:
    """The architectures and models that ship."""

    architectures: tuple[Architecture, ...]
    models: tuple[ShippedModel, ...]

    def data(self) -> dict[str, Any]:
        return asdict(self)


@functools.cache
def list_shipped() -> Shipped:
    """Returns the architectures and models that ship.

    >>> next(architecture.attention for architecture in list_shipped().architectures if architecture.name == "mistral")
    'grouped, window'
    """
    followed = {family: architectures(family) for family in families()}
    rows = []
    for name in texts.shipped():
        spec = texts.write_out(name)
        used = tuple(family for family, names in followed.items() if name in names)
        rows.append(Architecture(name, spec.title.partition(": ")[2], ", ".join(_find_attention(spec)), used))
    sizes = (ShippedModel(name, row.architecture, targets.model(name).num_parameters) for name, row in models().items())
    return Shipped(tuple(rows), tuple(sizes))


# -------------------------------------------------------------------------------------------------------- attention


# Positions meet through a state, or in a product of queries with keys of some number of heads.
def _find_attention(spec: Spec) -> Iterator[str]:
    model = next((layer for layer in spec.layers if layer.time), spec.layers[-1])
    equations_of_layers = [equation for layer in spec.layers for equation in equations(layer.body)]
    parts = [e for equation in equations_of_layers for e in subexpressions(equation.right)]
    seen = (e.indices[0].letter for e in parts if isinstance(e, Apply) and e.name == "Sm")
    weighed = (axis_of(letter) for letter in seen if letter != axis_of(letter))
    time = next(weighed, model.time.letter if model.time else "")  # an encoder does not say its axis
    rows = {letter for formal in model.formals for letter in slot_letters(formal)}
    if any(_reads_itself(equation) for equation in equations_of_layers):
        yield "recurrent"
    elif keys := [kind for equation in equations_of_layers for kind in _find_key_heads(equation, time, rows)]:
        softmax = any(isinstance(e, Apply) and e.name == "Sm" and _is_earlier(e.indices[0], time) for e in parts)
        yield keys[0] if softmax else "linear"
    if any(_has_window(e, time) for e in parts):
        yield "window"


# A recurrence reads its own left side at an earlier position.
def _reads_itself(equation: Equation) -> bool:
    read = (e.name for e in find_all(Tensor, equation.right))
    return equation.relation == "=" and isinstance(equation.left, Tensor) and equation.left.name in read


# The heads that both factors of a product have, one at s and one at s'.
def _find_key_heads(equation: Equation, time: str, rows: set[str]) -> Iterator[str]:
    for product in (e for e in subexpressions(equation.right) if isinstance(e, Product)):
        factors = [dict.fromkeys(slot_letters(e)) for e in product.factors if isinstance(e, Tensor)]
        earlier = [any(_is_earlier(Index(letter), time) for letter in letters) for letters in factors]
        queries = [letters for letters, is_earlier in zip(factors, earlier, strict=True) if time in letters and not is_earlier]
        keys = [letters for letters, is_earlier in zip(factors, earlier, strict=True) if is_earlier and time not in letters]
        if queries and keys:
            summed = keys[0].keys() - set(slot_letters(equation.left))
            heads = {letter for letters in queries for letter in letters} - summed - rows - {time}
            shared = heads & keys[0].keys()
            yield "multi-head" if shared == heads else "grouped" if shared else "latent" if factors[2:] else "multi-query"


def _is_earlier(index: Expression, time: str) -> bool:
    return isinstance(index, Index) and index.letter != time == axis_of(index.letter)


# A lower bound of s', `s - W < s'`.
def _has_window(e: Expression, time: str) -> bool:
    return (
        isinstance(e, Apply) and e.name in ("<", "<=") and isinstance(e.arguments[0], Sum) and _is_earlier(e.arguments[1], time)
    )
