"""What distinguishes two models: their sizes, scalars and equations, and what they take?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from einformer.errors import EinformerError
from einformer.interpreters.count import cached, numbers, table
from einformer.language.difference import Difference
from einformer.objects import Model
from einformer.program.cache import kept_in_letters

if TYPE_CHECKING:
    import sympy

    from einformer.interpreters.count.formulas import Letters

T = TypeVar("T")
_ALL, _ACTIVE = "parameters", "of them for a token"
_ELEMENT, _DTYPE = 2, "bfloat16"


@dataclass(frozen=True, slots=True)
class Count:
    """What two models take: numbers, and how many more the other one takes, or formulas. None is what cannot be said."""

    what: str
    one: int | str | None
    other: int | str | None
    more: int | str | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """What distinguishes two models, and what each takes at these sizes of the inputs; in letters where sizes are open."""

    difference: Difference
    inputs: Mapping[str, int]
    counts: tuple[Count, ...]

    def data(self) -> dict[str, Any]:
        """For `--json`."""
        return {**asdict(self.difference), "inputs": dict(self.inputs), "counts": [asdict(count) for count in self.counts]}


def compare(one: Model, other: Model, batch: int = 1, length: int | None = None) -> Comparison:
    """What distinguishes two models, at the longest sequence that both read, or 1024. Raises EinformerError as counts do."""
    inputs = [model.inputs(batch, length) for model in (one, other)]
    common = {letter: min(each[letter] for each in inputs if letter in each) for letter in inputs[0] | inputs[1]}
    if any(model.open - given.keys() for model, given in zip((one, other), inputs, strict=True)):
        return Comparison(one.diff(other), {}, tuple(_in_letters(one, other)))
    first, second = (
        _numbers(model, {letter: common[letter] for letter in given}) for model, given in zip((one, other), inputs, strict=True)
    )
    dense = all(each[_ACTIVE] == each[_ALL] for each in (first, second))
    names = [what for what in first if not (dense and what == _ACTIVE)]
    counts = (Count(what, first[what], second[what], _less(second[what], first[what])) for what in names)
    return Comparison(one.diff(other), common, tuple(counts))


def _numbers(model: Model, inputs: dict[str, int]) -> dict[str, int | None]:
    """What a model takes, as numbers."""
    kept = _unless("E508", lambda: model.cache_bytes(_DTYPE, **inputs))
    counts = model.parameter_counts
    return {
        _ALL: counts["total"],
        _ACTIVE: counts["active"],
        "forward FLOPs": numbers.total(numbers.flops(model.spec.tree, model.spec.name, model.at(**inputs))),
        "cache of a position": kept.per_token if kept else None,
        f"cache, {_DTYPE}": kept.total if kept else None,
    }


def _less(more: int | None, by: int | None) -> int | None:
    return None if more is None or by is None else more - by


def _unless(code: str, value: Callable[[], T]) -> T | None:
    """A value, or None where it cannot be said for this reason."""
    try:
        return value()
    except EinformerError as error:
        if error.findings[0].code != code:
            raise
        return None


# ------------------------------------------------------------------------------------------------------- in letters


def _in_letters(one: Model, other: Model) -> Iterator[Count]:
    formulas = [_formulas(model) for model in (one, other)]
    write = [table.written(model.spec.tree) for model in (one, other)]
    for what, first in formulas[0].items():
        second = formulas[1][what]
        more = None if first is None or second is None else write[1]((second - first).expand())
        yield Count(what, None if first is None else write[0](first), None if second is None else write[1](second), more)


def _formulas(model: Model) -> dict[str, sympy.Expr | None]:
    """What a model takes, as formulas."""
    from einformer.interpreters.count import formulas

    tree, name, legend = model.spec.tree, model.spec.name, model.legend
    return {
        "parameters": _unless("E607", lambda: formulas.parameters(formulas.weights(tree, name, legend))),
        "forward FLOPs": _unless("E607", lambda: formulas.total(formulas.flops(tree, name, legend))),
        "cache of a position": _unless("E607", lambda: _unless("E508", lambda: _kept(model, formulas.Letters(legend)))),
    }


def _kept(model: Model, letters: Letters) -> sympy.Expr:
    """The bytes that a position adds to the cache. Raises EinformerError E508, E607."""
    from einformer.interpreters.count import formulas

    kept = kept_in_letters(model.spec.tree, model.spec.name, model.legend)
    return formulas.total(()) + cached.per_token(kept, letters, _ELEMENT)  # a formula too where nothing is kept
