"""Tabulates the counts of a model by part, what it calls itself and its own equations, and sums them up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, get_args

from einformer.errors import EinformerError
from einformer.interpreters.count import numbers, rules
from einformer.interpreters.count.conventions import DEFAULT, Convention, Precision
from einformer.interpreters.count.inventory import derive
from einformer.interpreters.count.numbers import Numbers
from einformer.interpreters.count.rules import Activation, EquationCount, Memory, N, Phase, Recompute, Sizes, WeightCount
from einformer.language.sizes import Legend
from einformer.language.tree import Spec

if TYPE_CHECKING:
    import sympy

C = TypeVar("C", WeightCount[Any], EquationCount[Any], Activation[Any])
NAMES = ("path", "times", "parameters_of_one", "parameters", "flops_of_one", "flops", "kept")
HEAD = ("part", "times", "parameters of one", "parameters", "FLOPs of one", "FLOPs", "bytes kept")


@dataclass(frozen=True, slots=True)
class Instance(Generic[N]):
    """The instance at a path with all that it calls, or the model's own weights and equations at the path "".

    Parameters are numbers, kept values bytes; `of_one` is a single set of weights, or a single turn.
    """

    path: str
    layer: str
    weights: tuple[WeightCount[N], ...]
    equations: tuple[EquationCount[N], ...]
    activations: tuple[Activation[N], ...]

    @property
    def times(self) -> N:
        most: N = _find_most([count.turns[0] for count in self.equations]) if self.path else rules.product(())
        return most

    @property
    def parameters(self) -> N:
        return rules.sum_trained(self.weights)

    @property
    def flops(self) -> N:
        return rules.sum_counts(self.equations)

    @property
    def kept(self) -> N:
        return rules.sum_counts(self.activations)

    @property
    def parameters_of_one(self) -> N:
        return rules.total(self._of_one(count) for count in self.weights if count.trained)

    # Windows that differ between layers make turns differ.
    @property
    def flops_of_one(self) -> N | None:
        alike = not self.path or len({count.turns[0] for count in self.equations}) == 1
        return rules.total(map(self._of_one, self.equations)) if alike else None

    # The first turns are those of the loop that calls the part.
    def _of_one(self, count: WeightCount[N] | EquationCount[N]) -> N:
        return rules.product((*count.turns[1 if self.path else 0 :], count.each))


# Returns the parts of a model, as numbers or formulas; of activations a number has `element` bytes. Raises EinformerError E601,
# E607.
def count_parts(
    spec: Spec, name: str, sizes: Sizes[N], convention: Convention = DEFAULT, element: int = 2, recompute: Recompute = "none"
) -> tuple[Instance[N], ...]:
    kept = rules.count_activations(spec, name, sizes, element, recompute)
    return group_parts(rules.count_weights(spec, name, sizes), rules.count_flops(spec, name, sizes, convention), kept)


def choose_writer(spec: Spec, form: str = "text", values: Mapping[str, object] = {}) -> Callable[[sympy.Expr], str]:
    import sympy

    from einformer.interpreters.count import algebra

    order = algebra.list_letters(spec)
    numbers = {sympy.Symbol(letter): value for letter, value in values.items() if isinstance(value, int | float)}
    return lambda formula: algebra.show(sympy.sympify(formula).subs(numbers), order, form)


# Returns bytes `per_token` of a row and in `total`, or the reason why there are none.
def write_cache(
    spec: Spec, name: str, legend: Legend, element: int, write: Callable[[sympy.Expr], str]
) -> tuple[dict[str, str] | None, str]:
    from einformer.interpreters.count.symbols import Symbols, count_cache

    try:
        cache = count_cache(spec, name, Symbols(legend), element)
    except EinformerError as error:
        return None, error.findings[0].message
    return {"per_token": write(cache.per_token), "total": write(cache.total)}, ""


# Parts come in the order of the text, the model itself last.
def group_parts(
    weights: Iterable[WeightCount[N]], equations: Iterable[EquationCount[N]], activations: Iterable[Activation[N]] = ()
) -> tuple[Instance[N], ...]:
    held, done, kept = _group(weights), _group(equations), _group(activations)
    layers = {path: next(count.layer for count in counts if count.path == path) for path, counts in done.items()}
    return tuple(
        Instance(path, layers[path], tuple(held.get(path, ())), tuple(done[path]), tuple(kept.get(path, ())))
        for path in sorted(done, key=lambda path: path == "")
    )


# Letters cannot tell which is the largest: a layer may be called in a loop and outside of it.
def _find_most(turns: Sequence[Any]) -> Any:
    different = set(turns)
    if len(different) == 1 or all(isinstance(number, int) for number in different):
        return max(different)
    import sympy

    return sympy.Max(*different)


def _group(counts: Iterable[C]) -> dict[str, list[C]]:
    groups: dict[str, list[C]] = {}
    for count in counts:
        groups.setdefault(_find_part(count.path), []).append(count)
    return groups


# `blocks.{l}.Experts` of `blocks.{l}.Experts.Router`
def _find_part(path: str) -> str:
    names = path.split(".")
    blocks = next((k for k in range(0, len(names), 2) if names[k] != "blocks"), 0)
    return ".".join(names[: blocks + 1])


def rows(counted: Sequence[Instance[N]], write: Callable[[N], str]) -> Iterator[tuple[str, ...]]:
    for part in counted:
        cells = (part.times, part.parameters_of_one, part.parameters, part.flops_of_one, part.flops, part.kept)
        yield part.path or part.layer, *(write(cell) if cell else "" for cell in cells)
    parameters, flops, kept = (rules.total(getattr(part, name) for part in counted) for name in ("parameters", "flops", "kept"))
    yield "total", "", "", write(parameters), "", write(flops), write(kept) if kept else ""


def data(counted: Sequence[Instance[int]]) -> dict[str, Any]:
    return {
        "parameters": rules.total(part.parameters for part in counted),
        "flops": rules.total(part.flops for part in counted),
        "parts": [
            _pick(part, "path", "layer", "times", "parameters", "parameters_of_one", "flops", "flops_of_one", "kept")
            | {"weights": [*map(_weight_data, part.weights)]}
            | {"equations": [_equation_data(count) for count in part.equations if count.each]}
            for part in counted
        ],
    }


def _weight_data(count: WeightCount[int]) -> dict[str, Any]:
    return {"path": count.full_path, "letters": "".join(count.letters)} | _pick(count, "each", "times", "total", "trained")


def _equation_data(count: EquationCount[int]) -> dict[str, Any]:
    return {"path": count.path, "equation": count.text} | _pick(count, "line", "each", "times", "total")


def _pick(count: object, *names: str) -> dict[str, Any]:
    return {name: getattr(count, name) for name in names}


# ------------------------------------------------------------------------------------------------------------ summary


@dataclass(frozen=True, slots=True)
class Summary:
    """The counts of a model at sizes of its inputs, under a convention; `parameters` as `break_down` says."""

    convention: Convention
    precision: Precision
    recompute: Recompute
    parts: tuple[Instance[int], ...]
    parameters: dict[str, int]
    flops: dict[Phase, int]
    next_token: int | None
    memory: Memory[int]
    cache: tuple[int, int] | None  # bytes for a further position of one row, and in all
    not_counted: tuple[str, ...] = ()  # parts of the model beside this one

    @property
    def weights(self) -> int:
        return self.parameters["total"] * self.precision.parameters

    def data(self) -> dict[str, Any]:
        return data(self.parts) | {
            "convention": str(self.convention),
            "precision": self.precision.name,
            "recompute": self.recompute,
            "parameter_counts": self.parameters,
            "not_counted": list(self.not_counted),
            "parameter_bytes": self.weights,
            "flops_by_phase": self.flops,
            "flops_of_next_token": self.next_token,
            "memory": asdict(self.memory) | {"total": self.memory.total},
            "cache": dict(zip(("per_token", "total"), self.cache, strict=True)) if self.cache else None,
        }

    # Each line has a heading.
    def rows(self) -> Iterator[tuple[str, str]]:
        counts, flops = self.parameters, self.flops
        of_part = " of the text part" if self.not_counted else ""
        others = f"embeddings {counts['embedding']:,}, all others {counts['non_embedding']:,}"
        yield f"parameters{of_part}", f"{counts['total']:,}: {others}"
        if counts["active"] != counts["total"]:
            yield "", f"{counts['active']:,} of them compute for one token"
        yield "weights", f"{spell_bytes(self.weights)} as {self.precision.name}"
        yield "forward", f"{flops['forward']:,} FLOPs"
        again = flops["training"] - flops["forward"] - flops["backward"]
        yield "training", f"{flops['training']:,} FLOPs a step: backward {flops['backward']:,}, recomputed {again:,}"
        if self.next_token is not None:
            yield "decoding", f"{self.next_token:,} FLOPs for the last position, all others cached"
        if self.cache:
            one, whole = self.cache
            both = spell_bytes(self.weights + whole)
            yield "", f"{both}: weights, and a cache of {spell_bytes(whole)}, {one:,} B a position and row"
        components = asdict(self.memory).items()
        yield "memory", f"{spell_bytes(self.memory.total)} for a training step ({self.precision.source}):"
        yield "", ", ".join(f"{name.replace('_', ' ')} {spell_bytes(size)}" for name, size in components if size)
        yield "counted", str(self.convention)
        yield "", "kept: values by the rules of Korthikanti et al. 2022, each once, masks of dropout 1 byte"


# Sums up the layer or model `name`; `single` has one position, to follow upon the others in a `cache`. Raises EinformerError
# E601.
def summarise(
    spec: Spec,
    name: str,
    legend: Legend,
    single: Legend | None,
    convention: Convention,
    precision: Precision,
    recompute: Recompute = "none",
    cache: tuple[int, int] | None = None,
) -> Summary:
    sizes = Numbers(legend)
    weights = rules.count_weights(spec, name, sizes)
    kept = rules.count_activations(spec, name, sizes, precision.element, recompute)
    parts = group_parts(weights, rules.count_flops(spec, name, sizes, convention), kept)
    counts = [count for part in parts for count in part.equations]
    last = Numbers(single, cached=legend.length(derive(spec, name).time) - 1) if single else None
    return Summary(
        convention,
        precision,
        recompute,
        parts,
        rules.break_down(count for part in parts for count in part.weights),
        {phase: sum(count.spent(phase, recompute) for count in counts) for phase in get_args(Phase)},
        rules.sum_counts(rules.count_flops(spec, name, last, convention)) if last else None,
        rules.count_training(weights, kept, numbers.count_logits(spec, name, sizes), sizes, precision),
        cache,
    )


# `248.9 MB`: decimal units, four digits.
def spell_bytes(size: int) -> str:
    value, unit = float(size), "B"
    for larger in ("kB", "MB", "GB", "TB", "PB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{value:.4g} {unit}"
