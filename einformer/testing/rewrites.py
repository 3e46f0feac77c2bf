"""Applies a rule in one place of a text, in every possible way. Each gives one changed text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from einformer.language.calls import callees
from einformer.language.tree import Equation, Expression, Layer, Loop, Spec, Statement, Tensor
from einformer.language.walk import children, equations, rebuild


@dataclass(frozen=True, slots=True)
class Around:
    """The place of a rule: a layer and its text. The output is right before the position `start`."""

    spec: Spec
    layer: Layer
    equation: Equation
    start: int = 0

    def callee(self, name: str) -> Layer | None:
        return callees(self.layer, {layer.name: layer for layer in self.spec.layers}).get(name)

    def is_weight(self, name: str) -> bool:
        return any(weight.name == name for weight in self.layer.weights)


@dataclass(frozen=True, slots=True)
class Changed:
    """A changed layer of a text, with the equations before and after, and the names that the mistake speaks of."""

    layer: Layer
    before: tuple[Equation, ...]
    after: tuple[Equation, ...]
    names: tuple[str, ...] = ()


Rewrite = Callable[[Spec, int], Iterator[Changed]]
LayerRule = Callable[[Around], Iterator[Callable[[Equation], tuple[Equation, ...]]]]
NodeRule = Callable[[Expression, Around], Iterator[Expression]]
EquationRule = Callable[[Equation, Around], Iterator[Equation]]
SeveralRule = Callable[[Equation, Around], Iterator[tuple[Equation, ...]]]


def rewrite_nodes(rule: NodeRule) -> Rewrite:
    return rewrite_equations(lambda e, around: (replace(e, right=right) for right in find_variants(e.right, rule, around)))


def rewrite_equations(rule: EquationRule) -> Rewrite:
    return split_equations(lambda equation, around: ((after,) for after in rule(equation, around)))


def split_equations(rule: SeveralRule) -> Rewrite:
    def change(spec: Spec, start: int) -> Iterator[Changed]:
        for layer in spec.layers:
            for equation in equations(layer.body):
                for after in rule(equation, Around(spec, layer, equation, start)):
                    if after != (equation,):
                        yield _change_body(layer, {id(equation): after})

    return change


# A rule may change several equations of a layer together.
def rewrite_layers(rule: LayerRule) -> Rewrite:
    def change(spec: Spec, start: int) -> Iterator[Changed]:
        for layer in (layer for layer in spec.layers if any(equations(layer.body))):
            around = Around(spec, layer, next(equations(layer.body)), start)
            for f in rule(around):
                after = {id(equation): new for equation in equations(layer.body) if (new := f(equation)) != (equation,)}
                if after:
                    yield _change_body(layer, after)

    return change


# Two tensors of a layer are exchanged wherever the layer reads them.
def exchange_pairs(rule: Callable[[Layer], Iterator[tuple[str, str]]]) -> Rewrite:
    def change(spec: Spec, start: int) -> Iterator[Changed]:
        for layer in spec.layers:
            for pair in rule(layer):
                names = dict([pair, pair[::-1]])
                renamed = ((q, replace(q, right=_rename(q.right, names))) for q in equations(layer.body))
                yield replace(_change_body(layer, {id(q): (new,) for q, new in renamed if new != q}), names=pair)

    return change


def _change_body(layer: Layer, after: dict[int, tuple[Equation, ...]]) -> Changed:
    before = tuple(equation for equation in equations(layer.body) if id(equation) in after)
    body = _map_body(layer.body, lambda equation: after.get(id(equation), (equation,)))
    return Changed(replace(layer, body=body), before, tuple(new for equation in before for new in after[id(equation)]))


# The outer expressions come first.
def find_variants(e: Expression, rule: NodeRule, around: Around) -> Iterator[Expression]:
    yield from rule(e, around)
    for number, child in enumerate(children(e)):
        for new in find_variants(child, rule, around):
            yield _replace_child(e, number, new)


def _replace_child(e: Expression, number: int, new: Expression) -> Expression:
    numbers = iter(range(len(children(e))))
    return rebuild(e, lambda child: new if next(numbers) == number else child)


def _map_body(body: tuple[Statement, ...], f: Callable[[Equation], tuple[Equation, ...]]) -> tuple[Statement, ...]:
    return tuple(new for s in body for new in ((replace(s, body=_map_body(s.body, f)),) if isinstance(s, Loop) else f(s)))


def _rename(e: Expression, names: dict[str, str]) -> Expression:
    new = rebuild(e, lambda child: _rename(child, names))
    return replace(new, name=names.get(new.name, new.name)) if isinstance(new, Tensor) else new
