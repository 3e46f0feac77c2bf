"""The public objects: a `Specification` is a checked text, a `Model` one whose sizes are bound."""

from __future__ import annotations

import functools
import importlib.resources
import pathlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from einformer.errors import EinformerError, Finding, Source, fail
from einformer.notation import binding, check, parser
from einformer.notation import weights as placed
from einformer.notation.sizes import Legend
from einformer.notation.tokens import MAXIMUM_TEXT
from einformer.notation.tree import Layer, Spec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

_SHIPPED = importlib.resources.files("einformer") / "architectures"


def load(target: str | pathlib.Path) -> Specification:
    """The specification of a shipped architecture (`"gpt2"`) or of a `.ein` file.

    >>> load("gpt2").title
    'gpt2.ein: pre-norm decoder with learned positions'

    Raises EinformerError: E801, E802 where there is no such target, else the findings of the text.
    """
    source = read(target)
    return parse(source.text, source.name)


def parse(text: str, name: str = "<text>") -> Specification:
    """The specification of a text in the language, plain or LaTeX. Raises EinformerError with every finding.

    >>> parse("axes\\n  d: D\\nlayer Square(z_d) -> z_d:\\n  return z_d^2")["Square"].name
    'Square'
    """
    spec, findings = examine(Source(name, text))
    if findings:
        raise EinformerError(findings)
    return Specification(spec, spec.layers[-1].name)


def examine(source: Source) -> tuple[Spec, tuple[Finding, ...]]:
    """The elaborated tree of a text and all findings: of its syntax, else of its meaning. Lines may end as on Windows."""
    source = Source(source.name, source.text.removeprefix("\ufeff").replace("\r\n", "\n"))
    try:
        spec, findings = parser.parse(source, frozenset(layer.name for layer in prelude().layers))
    except EinformerError as error:
        return Spec("", (), (), ()), error.findings
    if findings:
        return spec, findings
    if not spec.layers:
        return spec, (Finding("E105", "the text has no layer", spec.span, fix="`layer Name(z_d) -> z_d:`"),)
    return check.check(spec, prelude())


@functools.cache
def prelude() -> Spec:
    """The layers that every file may call without writing them."""
    spec, _ = parser.parse(Source("prelude.ein", (_SHIPPED / "prelude.ein").read_text(encoding="utf-8")))
    return spec


def shipped() -> list[str]:
    """The names of the shipped architectures."""
    return sorted(path.name[:-4] for path in _SHIPPED.iterdir() if path.name.endswith(".ein") and path.name != "prelude.ein")


def read(target: str | pathlib.Path) -> Source:
    """The text of a target and its name for messages. Raises EinformerError E801, E802."""
    if str(target) in shipped():
        return Source(f"{target}.ein", (_SHIPPED / f"{target}.ein").read_text(encoding="utf-8"))
    path = pathlib.Path(target)
    if not path.is_file():
        raise fail(
            "E802", f"`{target}` is neither a file nor a shipped architecture", facts=[f"shipped: {', '.join(shipped())}"]
        )
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return Source(str(target), file.read(MAXIMUM_TEXT + 1))
    except (OSError, UnicodeDecodeError) as error:
        raise fail("E801", f"`{target}` cannot be read: {error}", fix="a text in UTF-8") from error


@dataclass(frozen=True, slots=True)
class Specification:
    """A checked text, seen as the operator `name`: its model, or one of its layers (`spec["MLP"]`)."""

    tree: Spec
    name: str

    @property
    def title(self) -> str:
        """The first comment of the file."""
        return self.tree.title

    @property
    def layer(self) -> Layer:
        """The tree of the operator itself."""
        return next(layer for layer in self.tree.layers if layer.name == self.name)

    def __getitem__(self, name: str) -> Specification:
        if name not in (names := [layer.name for layer in self.tree.layers]):
            raise fail("E204", f"no layer `{name}` is defined", self.tree.span, [f"there are {', '.join(names)}"])
        return replace(self, name=name)

    def __str__(self) -> str:
        from einformer.notation import printer

        return printer.show(self.tree)

    def latex(self) -> str:
        """The whole text as LaTeX, which `parse` reads back."""
        from einformer.interpreters import latex

        return latex.latex(self.tree)

    def replace(self, scalars: str) -> Specification:
        """The specification with scalars replaced or added by the lines of a `scalars` block (rope scaling, R8)."""
        spec, findings = parser.parse_scalars(Source("<scalars>", scalars), self.tree)
        if findings:
            raise EinformerError(findings)
        checked, findings = check.check(spec)
        if findings:
            raise EinformerError(findings)
        return replace(self, tree=checked)

    def bind(self, **values: binding.Given) -> Model:
        """The model with these sizes and scalars; axes of the inputs may stay open.

        >>> load("gpt2").bind(D=12, A=3, L=2, V=11, K=8).size("H")
        4

        Raises EinformerError E602 to E606, E308.
        """
        return self.bind_from(values, "given")

    def bind_from(self, values: Mapping[str, binding.Given], origin: str) -> Model:
        """`bind`, with where the values came from, for messages."""
        spec, legend = binding.bind(self.tree, values, origin)
        return Model(replace(self, tree=spec), legend)


@dataclass(frozen=True, slots=True)
class Model:
    """A specification whose sizes are bound."""

    spec: Specification
    legend: Legend

    def size(self, letter: str) -> int:
        """The number that a size letter stands for. Raises EinformerError E601."""
        axis = self.legend.sized(letter)
        return self.legend.length(axis.letter) if axis else int(self.legend.values[letter])

    def weight_shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of every weight and buffer by path, `blocks.0.MLP.W`; optional ones too, ties not."""
        return {path: found.shape for path, found in placed.weights(self.spec.tree, self.spec.layer, self.legend).items()}

    def reference(
        self,
        *inputs: ArrayLike,
        weights: Mapping[str, ArrayLike],
        lengths: Sequence[int] | None = None,
        trace: dict[str, NDArray[np.float64]] | None = None,
    ) -> NDArray[np.float64]:
        """The output by the meaning of the notation, in float64.

        `inputs` and `weights` have their axes in the order of their letters. `lengths` are those of the rows of a batch:
        each row means what it means alone, and is NaN beyond its length. `trace` is filled with every tensor by path.
        Raises EinformerError E603, E701 to E704, E309.
        """
        import numpy as np

        from einformer.interpreters import reference

        arrays = [np.asarray(given) for given in inputs]
        if lengths is not None:
            rows = [
                self.reference(*(given[[row], :n] for given in arrays), weights=weights)[0] for row, n in enumerate(lengths)
            ]
            ends = [(0, max(lengths) - n) for n in lengths]
            none = [[(0, 0)] * (row.ndim - 1) for row in rows]
            return np.stack(
                [np.pad(row, [end, *rest], constant_values=np.nan) for row, end, rest in zip(rows, ends, none, strict=True)]
            )
        legend = binding.bind_inputs(self.spec.layer, self.legend, [array.shape for array in arrays])
        return reference.evaluate(self.spec.tree, self.spec.name, arrays, weights, legend, trace)
