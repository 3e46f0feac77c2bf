"""Applies a rule in one place of a text, in every possible way. Each gives one changed text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from einformer.language.calls import callees
from einformer.language.tree import Equation, Expression, Layer, Loop, Spec, Statement, Tensor
from einformer.language.walk import children, equations, rebuild


@dataclass(frozen=True, slots=True)
class Around:
    """The place of a rule: a layer and its text."""

    spec: Spec
    layer: Layer
    equation: Equation

    def callee(self, name: str) -> Layer | None:
        """Returns the layer that a call by this name means."""
        return callees(self.layer, {layer.name: layer for layer in self.spec.layers}).get(name)

    def is_weight(self, name: str) -> bool:
        """Returns whether this is a weight of the layer."""
        return any(weight.name == name for weight in self.layer.weights)


@dataclass(frozen=True, slots=True)
class Changed:
    """A changed layer of a text, with the equation before and after."""

    layer: Layer
    before: Equation
    after: tuple[Equation, ...]


Rewrite = Callable[[Spec], Iterator[Changed]]
NodeRule = Callable[[Expression, Around], Iterator[Expression]]
EquationRule = Callable[[Equation, Around], Iterator[Equation]]
SeveralRule = Callable[[Equation, Around], Iterator[tuple[Equation, ...]]]


def rewrite_nodes(rule: NodeRule) -> Rewrite:
    """Applies a rule at every expression of every right side."""
    return rewrite_equations(lambda e, around: (replace(e, right=right) for right in _find_variants(e.right, rule, around)))


def rewrite_equations(rule: EquationRule) -> Rewrite:
    """Applies a rule at every equation."""

    return split_equations(lambda equation, around: ((after,) for after in rule(equation, around)))


def split_equations(rule: SeveralRule) -> Rewrite:
    """Applies a rule that replaces one equation by several."""

    def change(spec: Spec) -> Iterator[Changed]:
        for layer in spec.layers:
            for equation in equations(layer.body):
                for after in rule(equation, Around(spec, layer, equation)):
                    if after != (equation,):
                        yield Changed(_replace_equation(layer, equation, after), equation, after)

    return change


def exchange_pairs(rule: Callable[[Layer], Iterator[tuple[str, str]]]) -> Rewrite:
    """Exchanges two tensors of a layer, wherever the layer reads them."""

    def change(spec: Spec) -> Iterator[Changed]:
        for layer in spec.layers:
            for pair in rule(layer):
                names = dict([pair, pair[::-1]])
                after = {id(q): replace(q, right=_rename(q.right, names)) for q in equations(layer.body)}
                first = next(q for q in equations(layer.body) if after[id(q)] != q)
                body = _map_body(layer.body, lambda q, after=after: (after[id(q)],))  # type: ignore[misc]
                yield Changed(replace(layer, body=body), first, (after[id(first)],))

    return change


# Outside first.
def _find_variants(e: Expression, rule: NodeRule, around: Around) -> Iterator[Expression]:
    yield from rule(e, around)
    for number, child in enumerate(children(e)):
        for new in _find_variants(child, rule, around):
            yield _replace_child(e, number, new)


def _replace_child(e: Expression, number: int, new: Expression) -> Expression:
    numbers = iter(range(len(children(e))))
    return rebuild(e, lambda child: new if next(numbers) == number else child)


def _replace_equation(layer: Layer, before: Equation, after: tuple[Equation, ...]) -> Layer:
    return replace(layer, body=_map_body(layer.body, lambda equation: after if equation is before else (equation,)))


def _map_body(body: tuple[Statement, ...], f: Callable[[Equation], tuple[Equation, ...]]) -> tuple[Statement, ...]:
    return tuple(new for s in body for new in ((replace(s, body=_map_body(s.body, f)),) if isinstance(s, Loop) else f(s)))


def _rename(e: Expression, names: dict[str, str]) -> Expression:
    new = rebuild(e, lambda child: _rename(child, names))
    return replace(new, name=names.get(new.name, new.name)) if isinstance(new, Tensor) else new
