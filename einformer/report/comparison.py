"""Compares two models: their sizes, scalars, equations and counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from einformer.errors import EinformerError
from einformer.interpreters.count import rules, table
from einformer.interpreters.count.numbers import Numbers
from einformer.language.difference import Difference
from einformer.objects import Model
from einformer.program.keeping import kept_in_letters

if TYPE_CHECKING:
    import sympy

    from einformer.interpreters.count.symbols import Symbols

T = TypeVar("T")
_ALL, _ACTIVE = "parameters", "of them for a token"
_ELEMENT, _DTYPE = 2, "bfloat16"


@dataclass(frozen=True, slots=True)
class Count:
    """The counts of two models, as numbers with their difference, or as formulas. None if there is no count."""

    what: str
    one: int | str | None
    other: int | str | None
    more: int | str | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """The differences of two models, and their counts at the sizes of the inputs. Formulas if a size is open."""

    difference: Difference
    inputs: Mapping[str, int]
    counts: tuple[Count, ...]

    def data(self) -> dict[str, Any]:
        return {**asdict(self.difference), "inputs": dict(self.inputs), "counts": [asdict(count) for count in self.counts]}


# Compares two models, at the longest sequence that both read, or 1024. Raises EinformerError as counts do.
def compare(one: Model, other: Model, batch: int = 1, length: int | None = None) -> Comparison:
    inputs = [model.inputs(batch, length) for model in (one, other)]
    common = {letter: min(count[letter] for count in inputs if letter in count) for letter in inputs[0] | inputs[1]}
    if any(model.open - sizes.keys() for model, sizes in zip((one, other), inputs, strict=True)):
        return Comparison(one.diff(other), {}, tuple(_count_letters(one, other)))
    first, second = (
        _count_numbers(model, {letter: common[letter] for letter in sizes})
        for model, sizes in zip((one, other), inputs, strict=True)
    )
    dense = all(count[_ACTIVE] == count[_ALL] for count in (first, second))
    names = [what for what in first if not (dense and what == _ACTIVE)]
    counts = (Count(what, first[what], second[what], _subtract(second[what], first[what])) for what in names)
    return Comparison(one.diff(other), common, tuple(counts))


def _count_numbers(model: Model, inputs: dict[str, int]) -> dict[str, int | None]:
    kept = _count_unless("E508", lambda: model.cache_bytes(_DTYPE, **inputs))
    counts = model.parameter_counts
    return {
        _ALL: counts["total"],
        _ACTIVE: counts["active"],
        "forward FLOPs": rules.sum_counts(rules.count_flops(model.spec.tree, model.spec.name, Numbers(model.at(**inputs)))),
        "cache of a position": kept.per_token if kept else None,
        f"cache, {_DTYPE}": kept.total if kept else None,
    }


def _subtract(more: int | None, by: int | None) -> int | None:
    return None if more is None or by is None else more - by


# None if the count raises this code.
def _count_unless(code: str, value: Callable[[], T]) -> T | None:
    try:
        return value()
    except EinformerError as error:
        if error.findings[0].code != code:
            raise
        return None


# ------------------------------------------------------------------------------------------------------- in letters


def _count_letters(one: Model, other: Model) -> Iterator[Count]:
    formulas = [_count_formulas(model) for model in (one, other)]
    write = [table.choose_writer(model.spec.tree) for model in (one, other)]
    for what, first in formulas[0].items():
        second = formulas[1][what]
        more = None if first is None or second is None else write[1]((second - first).expand())
        yield Count(what, None if first is None else write[0](first), None if second is None else write[1](second), more)


def _count_formulas(model: Model) -> dict[str, sympy.Expr | None]:
    from einformer.interpreters.count import symbols

    tree, name, sizes = model.spec.tree, model.spec.name, symbols.Symbols(model.legend)
    return {
        "parameters": _count_unless("E607", lambda: symbols.sum_trained(rules.count_weights(tree, name, sizes))),
        "forward FLOPs": _count_unless("E607", lambda: symbols.sum_counts(rules.count_flops(tree, name, sizes))),
        "cache of a position": _count_unless("E607", lambda: _count_unless("E508", lambda: _count_kept(model, sizes))),
    }


# Raises EinformerError E508, E607.
def _count_kept(model: Model, sizes: Symbols) -> sympy.Expr:
    from einformer.interpreters.count import symbols

    kept = kept_in_letters(model.spec.tree, model.spec.name, model.legend)
    return symbols.sum_counts(()) + rules.count_per_token(kept, sizes, _ELEMENT)  # a formula too where nothing is kept
