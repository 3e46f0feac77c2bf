"""Tabulates the counts of a model by part: what it calls itself, and its own equations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from einformer.errors import EinformerError
from einformer.interpreters.count import numbers
from einformer.interpreters.count.conventions import DEFAULT, Convention
from einformer.interpreters.count.memory import Activation
from einformer.interpreters.count.rules import EquationCount, N, Recompute, WeightCount, product, total
from einformer.language.sizes import Legend
from einformer.language.tree import Spec

if TYPE_CHECKING:
    import sympy

C = TypeVar("C", WeightCount[Any], EquationCount[Any], Activation[Any])
NAMES = ("path", "times", "parameters_of_one", "parameters", "flops_of_one", "flops", "kept")
HEAD = ("part", "times", "parameters of one", "parameters", "FLOPs of one", "FLOPs", "bytes kept")


@dataclass(frozen=True, slots=True)
class Part(Generic[N]):
    """The instance at a path with all that it calls, or the model's own weights and equations at the path ""."""

    path: str
    layer: str
    weights: tuple[WeightCount[N], ...]
    equations: tuple[EquationCount[N], ...]
    activations: tuple[Activation[N], ...]

    @property
    def times(self) -> N:
        """How often it is evaluated: in each turn once, and not only in those of a kind."""
        most: N = _find_most([count.turns[0] for count in self.equations]) if self.path else product(())
        return most

    @property
    def parameters(self) -> N:
        """Of all together."""
        return total(count.total for count in self.weights if count.trained)

    @property
    def flops(self) -> N:
        """Of all together."""
        return total(count.total for count in self.equations)

    @property
    def kept(self) -> N:
        """The bytes that all together keep for the backward pass."""
        return total(activation.total for activation in self.activations)

    @property
    def parameters_of_one(self) -> N:
        """Of a single set of weights."""
        return total(self._of_one(count) for count in self.weights if count.trained)

    @property
    def flops_of_one(self) -> N | None:
        """Of a single turn, where all turns take the same: windows that differ between layers make them differ."""
        alike = not self.path or len({count.turns[0] for count in self.equations}) == 1
        return total(map(self._of_one, self.equations)) if alike else None

    def _of_one(self, count: WeightCount[N] | EquationCount[N]) -> N:
        """The first turns are those of the loop that calls the part."""
        return product((*count.turns[1 if self.path else 0 :], count.each))


def count_parts(
    spec: Spec, name: str, legend: Legend, convention: Convention = DEFAULT, element: int = 2, recompute: Recompute = "none"
) -> tuple[Part[int], ...]:
    """The parts of a model as numbers; of activations a number has `element` bytes. Raises EinformerError E601."""
    kept = numbers.count_activations(spec, name, legend, element, recompute)
    return group_parts(numbers.count_weights(spec, name, legend), numbers.count_flops(spec, name, legend, convention), kept)


def derive_parts(
    spec: Spec, name: str, legend: Legend, convention: Convention = DEFAULT, element: int = 2, recompute: Recompute = "none"
) -> tuple[Part[sympy.Expr], ...]:
    """The same as formulas in the letters of the legend. Raises EinformerError E607."""
    from einformer.interpreters.count import formulas as rules

    kept = rules.count_activations(spec, name, element, recompute, legend=legend)
    return group_parts(rules.count_weights(spec, name, legend), rules.count_flops(spec, name, legend, convention), kept)


def choose_writer(spec: Spec, form: str = "text", values: Mapping[str, object] = {}) -> Callable[[sympy.Expr], str]:
    """How formulas are shown, as text, LaTeX or Python, with these values, and letters in the order of the legend."""
    import sympy

    from einformer.interpreters.count import printer

    order = printer.list_letters(spec)
    numbers = {sympy.Symbol(letter): value for letter, value in values.items() if isinstance(value, int | float)}
    return lambda formula: printer.show(sympy.sympify(formula).subs(numbers), order, form)


def write_cache(
    spec: Spec, name: str, legend: Legend, element: int, write: Callable[[sympy.Expr], str]
) -> tuple[dict[str, str] | None, str]:
    """The bytes that decoding keeps as formulas, `per_token` of a row and in `total`; or why there are none."""
    from einformer.interpreters.count import formulas as rules

    try:
        bytes_of_cache = rules.count_cache(spec, name, element, legend)
    except EinformerError as error:
        return None, error.findings[0].message
    return {"per_token": write(bytes_of_cache.per_token), "total": write(bytes_of_cache.total)}, ""


def group_parts(
    weights: Iterable[WeightCount[N]], equations: Iterable[EquationCount[N]], activations: Iterable[Activation[N]] = ()
) -> tuple[Part[N], ...]:
    """The parts of a model in the order of the text, the model itself last."""
    held, done, kept = _group(weights), _group(equations), _group(activations)
    layers = {path: next(count.layer for count in counts if count.path == path) for path, counts in done.items()}
    return tuple(
        Part(path, layers[path], tuple(held.get(path, ())), tuple(done[path]), tuple(kept.get(path, ())))
        for path in sorted(done, key=lambda path: path == "")
    )


def _find_most(turns: Sequence[Any]) -> Any:
    """The largest, of which letters cannot tell: a layer may be called in a loop and outside of it."""
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


def _find_part(path: str) -> str:
    """`blocks.{l}.Experts` of `blocks.{l}.Experts.Router`."""
    names = path.split(".")
    blocks = next((k for k in range(0, len(names), 2) if names[k] != "blocks"), 0)
    return ".".join(names[: blocks + 1])


def rows(counted: Sequence[Part[N]], write: Callable[[N], str]) -> Iterator[tuple[str, ...]]:
    """The cells of a table under `HEAD`, a row for each part and one for all together; 0 is left out."""
    for part in counted:
        cells = (part.times, part.parameters_of_one, part.parameters, part.flops_of_one, part.flops, part.kept)
        yield part.path or part.layer, *(write(cell) if cell else "" for cell in cells)
    parameters, flops, kept = (total(getattr(part, name) for part in counted) for name in ("parameters", "flops", "kept"))
    yield "total", "", "", write(parameters), "", write(flops), write(kept) if kept else ""


def data(counted: Sequence[Part[int]]) -> dict[str, Any]:
    """The same for `--json`, with every weight and equation."""
    return {
        "parameters": total(part.parameters for part in counted),
        "flops": total(part.flops for part in counted),
        "parts": [
            {
                "path": part.path,
                "layer": part.layer,
                "times": part.times,
                "parameters": part.parameters,
                "parameters_of_one": part.parameters_of_one,
                "flops": part.flops,
                "flops_of_one": part.flops_of_one,
                "kept": part.kept,
                "weights": [_weight_data(count) for count in part.weights],
                "equations": [_equation_data(count) for count in part.equations if count.each],
            }
            for part in counted
        ],
    }


def _weight_data(count: WeightCount[int]) -> dict[str, Any]:
    return {
        "path": count.full_path,
        "letters": "".join(count.letters),
        "each": count.each,
        "times": count.times,
        "total": count.total,
        "trained": count.trained,
    }


def _equation_data(count: EquationCount[int]) -> dict[str, Any]:
    return {
        "path": count.path,
        "equation": count.text,
        "line": count.line,
        "each": count.each,
        "times": count.times,
        "total": count.total,
    }
