"""Checks that references come to an end, and soon: layers that call others, sizes and scalars that are made of others.

Whatever follows a text (its check, its meaning) follows these references, so they are bounded first (R7, R13).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from einformer.errors import Span, fail
from einformer.language.calls import called_layers
from einformer.language.tokens import MAXIMUM_HEIGHT
from einformer.language.tree import Expression, Layer, Loop, Name, Spec, Tensor
from einformer.language.walk import equations, height, statements, subexpressions

MAXIMUM_CALLS = 50  # of layers, or of names, of which each refers to the next
MAXIMUM_NODES = 50_000


@dataclass(frozen=True, slots=True)
class Referring:
    """A definition: the names that it refers to with their places, its number of nodes, and its depth."""

    names: Sequence[tuple[str, Span]]
    nodes: int
    height: int
    span: Span


def check_references(spec: Spec) -> None:
    """Raises EinformerError E207, E507 for a definition that refers to itself, E002 for one that nests too deep or is too
    large.
    """
    _Followed("E507", "is defined by itself", "a value that does not need itself", dict(_legend(spec))).all()
    layers = {layer.name: layer for layer in reversed(spec.layers)}
    calling = {name: _calling(layer, layers) for name, layer in layers.items()}
    followed = _Followed("E207", "calls itself", "a `for`, or a layer of its own for the inner call", calling)
    followed.all()
    models = [layer for layer in spec.layers if layer.time is not None]
    if models and (nodes := sum(followed.known[model.name][0] for model in models)) > MAXIMUM_NODES:
        raise fail("E002", f"with what they call, the models have {nodes:,} parts", models[-1].span, fix="fewer models")


@dataclass(slots=True)
class _Followed:
    """The references being followed; `known` has the nodes and the height behind each name."""

    code: str
    circle: str
    fix: str
    referring: Mapping[str, Referring]
    known: dict[str, tuple[int, int]] = field(default_factory=dict)

    def all(self) -> None:
        for name in self.referring:
            self.measure(name, ())

    def measure(self, name: str, around: tuple[str, ...]) -> tuple[int, int]:
        """How many nodes `name` stands for, and how high they are; `around` led to it."""
        if name not in self.known:
            own = self.referring[name]
            nodes, high = own.nodes, 0
            for other, span in own.names:
                self.ends(other, (*around, name), span)
                inner = self.measure(other, (*around, name))
                nodes, high = nodes + inner[0], max(high, inner[1])
            self.known[name] = self.bounded(name, nodes, own.height + high)
        return self.known[name]

    def ends(self, name: str, around: tuple[str, ...], span: Span) -> None:
        if name in around:
            path = " → ".join([*around[around.index(name) :], name])
            raise fail(self.code, f"`{name}` {self.circle}", span, [path] if path.count("→") > 1 else [], self.fix)
        if len(around) > MAXIMUM_CALLS:
            message = f"more than {MAXIMUM_CALLS} names refer each to the next"
            raise fail("E002", message, span, fix="fewer steps")

    def bounded(self, name: str, nodes: int, high: int) -> tuple[int, int]:
        if high > MAXIMUM_HEIGHT:
            message = f"with what it refers to, `{name}` nests {high} deep"
            raise fail("E002", message, self.referring[name].span, fix="fewer steps")
        if nodes > MAXIMUM_NODES:
            message = f"with what it refers to, `{name}` has {nodes:,} parts"
            raise fail("E002", message, self.referring[name].span, fix="a smaller text, or a `for`")
        return nodes, high


def _calling(layer: Layer, layers: Mapping[str, Layer]) -> Referring:
    formulas = [equation.right for equation in equations(layer.body)]
    names = [(callee.name, call.span) for call, callee in called_layers(layer, layers)]
    inner = max((around + isinstance(statement, Loop) for statement, around in statements(layer.body)), default=0)
    return _referring(names, formulas, layer.span, inner)


def _legend(spec: Spec) -> Iterator[tuple[str, Referring]]:
    defaults = {a.size.name: (a.default, a.span) for a in spec.axes if isinstance(a.size, Name) and a.default is not None}
    formulas = {s.name: (s.value, s.span) for s in spec.scalars if not isinstance(s.value, tuple)}
    defined = {**defaults, **formulas}
    for name, (formula, span) in defined.items():
        used = [e for e in subexpressions(formula) if isinstance(e, Name | Tensor) and e.name in defined]
        yield name, _referring([(e.name, e.span) for e in used], [formula], span)


def _referring(names: Sequence[tuple[str, Span]], formulas: Sequence[Expression], span: Span, loops: int = 0) -> Referring:
    nodes = sum(1 for formula in formulas for _ in subexpressions(formula))
    return Referring(names, nodes, loops + max(map(height, formulas), default=0), span)
