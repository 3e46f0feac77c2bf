"""Moves what depends on positions alone into the model, which computes it once and hands it to the layers that use it.

The cosines of a rotation are the same in every layer and every turn: `cos(s θ_h)` is an input of what it stands in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from einformer.errors import Source, Span
from einformer.language.calls import callees, calls
from einformer.language.primitives import PRIMITIVES
from einformer.language.printer import expression
from einformer.language.sizes import Legend
from einformer.language.tree import Apply, Equation, Expression, Index, Layer, Name, Product, Spec, Tensor
from einformer.language.walk import equations, loops, map_expressions, rebuild, subexpressions

COSTLY = frozenset(row.name for row in PRIMITIVES.values() if row.costly)


def raise_constants(spec: Spec, legend: Legend) -> Spec:
    """The specialised spec whose model computes such values, each once, and passes them down; factors of one are dropped."""
    ones = {s.name for s in spec.scalars if not s.indices and legend.number(Name(s.name)) == 1}
    if ones:
        spec = replace(spec, layers=tuple(map_expressions(layer, lambda e: _drop_ones(e, ones)) for layer in spec.layers))
    model = next((layer for layer in spec.layers if layer.time), None)
    worth = any(call.name in COSTLY for layer in spec.layers if layer is not model for call in calls(layer))
    if not worth or model is None or model.time is None:
        return spec
    raising = _Raising(legend, model.time.letter, frozenset(loop.index.letter for loop in loops(model.body)), _find_names(spec))
    layers = {layer.name: layer if layer is model else raising.layer(layer) for layer in spec.layers}
    needs = _find_needs(layers, {name: raising.used(layer) for name, layer in layers.items()})
    passed = {name: _pass_on(layer, layers, needs, layer is model) for name, layer in layers.items()}
    first = tuple(_build_equation(e, tensor) for e, tensor in raising.found.items() if tensor in needs[model.name])
    passed[model.name] = replace(passed[model.name], body=(*first, *passed[model.name].body))
    return replace(spec, layers=tuple(passed[layer.name] for layer in spec.layers))


def list_letters(e: Expression) -> tuple[str, ...]:
    """The letters in the slots of a tensor."""
    return tuple(slot.letter for slot in e.slots if isinstance(slot, Index)) if isinstance(e, Tensor) else ()


def _drop_ones(e: Expression, ones: set[str]) -> Expression:
    """`μ x` is x where the scalar μ is 1."""
    e = rebuild(e, lambda child: _drop_ones(child, ones))
    if not isinstance(e, Product):
        return e
    kept = tuple(f for f in e.factors if not (isinstance(f, Name) and f.name in ones))
    return e if len(kept) == len(e.factors) or not kept else kept[0] if len(kept) == 1 else replace(e, factors=kept)


def _find_names(spec: Spec) -> set[str]:
    """All names that a spec has for tensors and scalars."""
    found = {scalar.name for scalar in spec.scalars}
    for layer in spec.layers:
        found |= {formal.name for formal in layer.formals} | {weight.name for weight in layer.weights}
        found |= {equation.left.name for equation in equations(layer.body)}
    return found


@dataclass(slots=True)
class _Raising:
    """What was found, by what it is called."""

    legend: Legend
    time: str
    turns: frozenset[str]
    names: set[str]
    found: dict[Expression, Tensor] = field(default_factory=dict)

    def layer(self, layer: Layer) -> Layer:
        """A layer that reads what it computed."""
        own = {formal.name for formal in layer.formals} | {weight.name for weight in layer.weights}
        known: dict[str, tuple[Tensor | Name, Expression]] = {}
        defined = Counter(equation.left.name for equation in equations(layer.body))
        for equation in equations(layer.body):
            right = self.opened(equation.right, known)
            plain = isinstance(equation.left, Tensor) and len(list_letters(equation.left)) == len(equation.left.slots)
            once = equation.relation == "=" and defined[equation.left.name] == 1
            if plain and once and self.constant(right, own):
                known[equation.left.name] = equation.left, right
            own.add(equation.left.name)
        return map_expressions(layer, lambda e: self.visit(e, known, own))

    def opened(self, e: Expression, known: Mapping[str, tuple[Tensor | Name, Expression]]) -> Expression:
        """With the values of the layer's own constants for their names, where they are read as they are defined."""
        if isinstance(e, Tensor) and e.name in known and known[e.name][0] == e:
            return known[e.name][1]
        return rebuild(e, lambda child: self.opened(child, known))

    def constant(self, e: Expression, own: set[str]) -> bool:
        """Is e made of numbers of indices and of the legend only?"""
        inside = list(subexpressions(e))
        if any(isinstance(x, Tensor | Name) and x.name in own for x in inside):
            return False
        if any(isinstance(x, Tensor) and x.name not in self.legend.scalars for x in inside):
            return False
        if any(isinstance(x, Apply) and x.indices for x in inside):
            return False
        return not any(isinstance(x, Index) and (x.letter in self.turns or "'" in x.letter) for x in inside)

    def visit(self, e: Expression, known: Mapping[str, tuple[Tensor | Name, Expression]], own: set[str]) -> Expression:
        """e with its constants read where they are worth it."""
        opened = self.opened(e, known)
        if self.constant(opened, own):
            return self.read(opened) if self.costly(opened) else e
        if isinstance(e, Product):
            fixed = [f for f in e.factors if self.constant(self.opened(f, known), own)]
            if any(self.costly(self.opened(f, known)) for f in fixed):
                rest = tuple(self.visit(f, known, own) for f in e.factors if f not in fixed)
                return replace(e, factors=(*rest, self.visit(_multiply(fixed), known, own)))
        return e if isinstance(e, Tensor) else rebuild(e, lambda child: self.visit(child, known, own))

    def costly(self, e: Expression) -> bool:
        """Does e cost more than it takes to pass it, and another number at each position?"""
        inside = list(subexpressions(e))
        functions = any(isinstance(x, Apply) and x.name in COSTLY for x in inside)
        return functions and any(isinstance(x, Index) and x.letter == self.time for x in inside)

    def read(self, e: Expression) -> Tensor:
        """The tensor of a constant, named by the function that it costs."""
        if e not in self.found:
            function = next(x.name for x in subexpressions(e) if isinstance(x, Apply) and x.name in COSTLY)
            name = next(n for n in (function, *(f"{function}{k}" for k in range(2, 99))) if n not in self.names)
            own = dict.fromkeys(x.letter for x in subexpressions(e) if isinstance(x, Index))
            order = (self.time, *(letter for letter in own if letter != self.time))
            self.names.add(name)
            self.found[e] = Tensor(name, tuple(Index(letter, span=e.span) for letter in order), span=e.span)
        return self.found[e]

    def used(self, layer: Layer) -> dict[Tensor, None]:
        """Those that a layer reads."""
        read = {e for q in equations(layer.body) for e in subexpressions(q.right) if isinstance(e, Tensor)}
        return {tensor: None for tensor in self.found.values() if tensor in read}


def _multiply(factors: list[Expression]) -> Expression:
    return factors[0] if len(factors) == 1 else Product(tuple(factors), span=factors[0].span)


def _build_equation(e: Expression, tensor: Tensor) -> Equation:
    """The line of a model that computes a constant, as if it were written there."""
    text = f"{expression(tensor)} = {expression(e)}"
    return Equation(tensor, "=", e, span=Span(Source("constants", text), 0, len(text)))


def _find_needs(layers: Mapping[str, Layer], own: Mapping[str, dict[Tensor, None]]) -> dict[str, dict[Tensor, None]]:
    """What each layer must be given, for itself and for those that it calls."""
    needs = dict(own)
    while True:
        more = {name: own[name] | _find_below(layer, layers, needs) for name, layer in layers.items()}
        if more == needs:
            return needs
        needs = more


def _find_below(layer: Layer, layers: Mapping[str, Layer], needs: Mapping[str, dict[Tensor, None]]) -> dict[Tensor, None]:
    return {tensor: None for e in _walk_calls(layer, layers) for tensor in needs[callees(layer, layers)[e.name].name]}


def _walk_calls(layer: Layer, layers: Mapping[str, Layer]) -> Iterator[Apply]:
    known = callees(layer, layers)
    for q in equations(layer.body):
        yield from (e for e in subexpressions(q.right) if isinstance(e, Apply) and e.name in known)


def _pass_on(layer: Layer, layers: Mapping[str, Layer], needs: Mapping[str, dict[Tensor, None]], whole: bool) -> Layer:
    """A layer that is given what it needs, and gives it to those that it calls."""
    known = callees(layer, layers)

    def visit(e: Expression) -> Expression:
        e = rebuild(e, visit)
        if isinstance(e, Apply) and e.name in known:
            return replace(e, arguments=(*e.arguments, *needs[known[e.name].name]))
        return e

    layer = map_expressions(layer, visit)
    return layer if whole else replace(layer, formals=(*layer.formals, *needs[layer.name]))
