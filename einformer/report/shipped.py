"""What ships? The architectures with what their titles say and how they attend, and the models of published sizes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from einformer import targets
from einformer.architectures import models, texts
from einformer.huggingface.families import architectures, families
from einformer.language.calls import axis_of, slot_letters
from einformer.language.tree import Apply, Equation, Expression, Index, Product, Spec, Sum, Tensor
from einformer.language.walk import equations, subexpressions


@dataclass(frozen=True, slots=True)
class Architecture:
    """A text that ships: what its title says, how it attends, and the `model_type`s of transformers that follow it."""

    name: str
    about: str
    attention: str
    families: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Size:
    """A model of published sizes."""

    name: str
    architecture: str
    parameters: int


@dataclass(frozen=True, slots=True)
class Shipped:
    """All of it."""

    architectures: tuple[Architecture, ...]
    models: tuple[Size, ...]

    def data(self) -> dict[str, Any]:
        """For `--json`."""
        return asdict(self)


def shipped() -> Shipped:
    """The architectures and models that ship.

    >>> next(each.attention for each in shipped().architectures if each.name == "mistral")
    'grouped, window'
    """
    followed = {family: architectures(family) for family in families()}
    rows = []
    for name in texts.shipped():
        spec = texts.written(name)
        used = tuple(family for family, names in followed.items() if name in names)
        rows.append(Architecture(name, spec.title.partition(": ")[2], ", ".join(_attention(spec)), used))
    sizes = (Size(name, row.architecture, targets.model(name).num_parameters) for name, row in models().items())
    return Shipped(tuple(rows), tuple(sizes))


# -------------------------------------------------------------------------------------------------------- attention


def _attention(spec: Spec) -> Iterator[str]:
    """How positions meet, as the equations say it: through a state, or in a product of queries with keys of so many heads."""
    model = next((layer for layer in spec.layers if layer.time), None)
    if model is None or model.time is None:
        return
    found = [equation for layer in spec.layers for equation in equations(layer.body)]
    parts = [e for equation in found for e in subexpressions(equation.right)]
    time, rows = model.time.letter, {letter for formal in model.formals for letter in slot_letters(formal)}
    if any(_reads_itself(equation) for equation in found):
        yield "recurrent"
    elif keys := [kind for equation in found for kind in _keys(equation, time, rows)]:
        softmax = any(isinstance(e, Apply) and e.name == "Sm" and _is_earlier(e.indices[0], time) for e in parts)
        yield keys[0] if softmax else "linear"
    if any(_windowed(e, time) for e in parts):
        yield "window"


def _reads_itself(equation: Equation) -> bool:
    """Is it a recurrence: does it read its own left side at an earlier position?"""
    read = (e.name for e in subexpressions(equation.right) if isinstance(e, Tensor))
    return equation.relation == "=" and isinstance(equation.left, Tensor) and equation.left.name in read


def _keys(equation: Equation, time: str, rows: set[str]) -> Iterator[str]:
    """Of a product of what is at s and what is at s': which of the heads are in both."""
    for product in (e for e in subexpressions(equation.right) if isinstance(e, Product)):
        factors = [dict.fromkeys(slot_letters(e)) for e in product.factors if isinstance(e, Tensor)]
        earlier = [any(_is_earlier(Index(letter), time) for letter in letters) for letters in factors]
        queries = [letters for letters, at in zip(factors, earlier, strict=True) if time in letters and not at]
        keys = [letters for letters, at in zip(factors, earlier, strict=True) if at and time not in letters]
        if queries and keys:
            summed = keys[0].keys() - set(slot_letters(equation.left))
            heads = {letter for letters in queries for letter in letters} - summed - rows - {time}
            shared = heads & keys[0].keys()
            yield "multi-head" if shared == heads else "grouped" if shared else "latent" if factors[2:] else "multi-query"


def _is_earlier(index: Expression, time: str) -> bool:
    return isinstance(index, Index) and index.letter != time == axis_of(index.letter)


def _windowed(e: Expression, time: str) -> bool:
    """Is it a bound of s' from below, `s - W < s'`?"""
    return (
        isinstance(e, Apply) and e.name in ("<", "<=") and isinstance(e.arguments[0], Sum) and _is_earlier(e.arguments[1], time)
    )
