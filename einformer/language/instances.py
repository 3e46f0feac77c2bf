"""Which set of weights does each call of a layer use (R7)? Anonymous instances get the names of their layers.

After this step every call of a layer that has weights names an instance among the weights of the body it stands in:
the first `LayerNorm(…)` is `LayerNorm`, the second `LayerNorm_2`, in the order of the text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from einformer.errors import Finding
from einformer.language.tree import Apply, Equation, Expression, Index, Layer, Loop, Statement, Weight
from einformer.language.walk import equations, loops, map_equations, rebuild, subexpressions


def calls(layer: Layer) -> list[Apply]:
    """Every application in the body of a layer, in the order of the text."""
    return [e for equation in equations(layer.body) for e in subexpressions(equation.right) if isinstance(e, Apply)]


def callees(layer: Layer, layers: Mapping[str, Layer]) -> dict[str, Layer]:
    """What a body can call: its named instances, and the layers of the file by their own names."""
    named = {w.name: layers[w.layer] for w in layer.weights if w.kind == "instance" and w.layer in layers}
    return {**layers, **named}


def with_weights(layers: Mapping[str, Layer]) -> frozenset[str]:
    """The names of the layers that have weights or buffers, or call a layer that has."""
    called = {name: {call.name for call in calls(layer)} for name, layer in layers.items()}
    found = {name for name, layer in layers.items() if layer.weights}
    while more := {name for name in called.keys() - found if called[name] & found}:
        found |= more
    return frozenset(found)


def name_instances(layer: Layer, weighted: frozenset[str]) -> tuple[Layer, list[Finding]]:
    """The layer with its anonymous instances of layers that have weights named, and the calls in a loop without its letter."""
    naming = _Naming(layer, weighted)
    body = naming.statements(layer.body, None)
    named = replace(layer, body=body, weights=layer.weights + tuple(naming.instances))
    return named, [*naming.findings, *_at_odds(named)]


def _at_odds(layer: Layer) -> Iterator[Finding]:
    """A call of an instance by other letters of loops than its first one: which turns share weights would not be said."""
    instances = {w.name for w in layer.weights if w.kind == "instance"}
    turning, first = {loop.index for loop in loops(layer.body)}, dict[str, tuple[Index, ...]]()
    for call in (call for call in calls(layer) if call.name in instances):
        letters = tuple(index for index in call.indices if index in turning)
        if letters != first.setdefault(call.name, letters):
            known = "".join(index.letter for index in first[call.name])
            yield Finding(
                "E403",
                f"`{call.name}` has a set of weights for each turn over `{known}`" if known else f"`{call.name}` has one set",
                call.span,
                fix="the same letters at every call, or another instance",
            )


class _Naming:
    """The instances of one body, numbered in the order in which they are met."""

    def __init__(self, layer: Layer, weighted: frozenset[str]) -> None:
        self.weighted, self.named = weighted, {w.name for w in layer.weights if w.kind == "instance"}
        self.instances: list[Weight] = []
        self.count: dict[str, int] = {}
        self.findings: list[Finding] = []

    def statements(self, body: tuple[Statement, ...], loop: Index | None) -> tuple[Statement, ...]:
        named: list[Statement] = []
        for statement in body:
            if isinstance(statement, Loop):
                named.append(replace(statement, body=self.statements(statement.body, statement.index)))
            else:
                named.extend(map_equations((statement,), lambda equation: self.equation(equation, loop)))
        return tuple(named)

    def equation(self, equation: Equation, loop: Index | None) -> Equation:
        right = self.expression(equation.right, loop)
        return equation if right is equation.right else replace(equation, right=right)

    def expression(self, e: Expression, loop: Index | None) -> Expression:
        """The name of an outer call comes before those of its arguments, as in the text."""
        if not (isinstance(e, Apply) and e.name in self.weighted and e.name not in self.named):
            return rebuild(e, lambda child: self.expression(child, loop))
        if loop is not None and loop.letter not in {index.letter for index in e.indices}:
            message = f"`{e.name}` has weights and stands in a loop over `{loop.letter}`"
            fix = f"`{e.name}_{loop.letter}` for a set in each turn, or an instance, `weights name: {e.name}`, for one in all"
            self.findings.append(Finding("E403", message, e.span, fix=fix))
        self.count[e.name] = number = self.count.get(e.name, 0) + 1
        name = e.name if number == 1 else f"{e.name}_{number}"
        self.instances.append(Weight(name, (), "instance", layer=e.name, span=e.span))
        return rebuild(replace(e, name=name), lambda child: self.expression(child, loop))
