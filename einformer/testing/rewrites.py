"""How does one change a text in one place? Every way to apply a rule somewhere in it, one changed text each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from einformer.language.instances import callees
from einformer.language.tree import Equation, Expression, Layer, Loop, Spec, Statement, Tensor
from einformer.language.walk import children, equations, rebuild


@dataclass(frozen=True, slots=True)
class Around:
    """Where a rule is applied."""

    spec: Spec
    layer: Layer
    equation: Equation

    def callee(self, name: str) -> Layer | None:
        """The layer that a call by this name means."""
        return callees(self.layer, {layer.name: layer for layer in self.spec.layers}).get(name)

    def is_weight(self, name: str) -> bool:
        """Is this a weight of the layer?"""
        return any(weight.name == name for weight in self.layer.weights)


@dataclass(frozen=True, slots=True)
class Changed:
    """A layer of a text with a change, and what the changed equation was and is."""

    layer: Layer
    before: Equation
    after: tuple[Equation, ...]


Rewrite = Callable[[Spec], Iterator[Changed]]
NodeRule = Callable[[Expression, Around], Iterator[Expression]]
EquationRule = Callable[[Equation, Around], Iterator[Equation]]
SeveralRule = Callable[[Equation, Around], Iterator[tuple[Equation, ...]]]


def each_node(rule: NodeRule) -> Rewrite:
    """The rule at every expression of every right side."""
    return each_equation(lambda e, around: (replace(e, right=right) for right in _variants(e.right, rule, around)))


def each_equation(rule: EquationRule) -> Rewrite:
    """The rule at every equation."""

    return each_several(lambda equation, around: ((after,) for after in rule(equation, around)))


def each_several(rule: SeveralRule) -> Rewrite:
    """A rule that puts several equations in the place of one."""

    def changed(spec: Spec) -> Iterator[Changed]:
        for layer in spec.layers:
            for equation in equations(layer.body):
                for after in rule(equation, Around(spec, layer, equation)):
                    if after != (equation,):
                        yield Changed(_replaced(layer, equation, after), equation, after)

    return changed


def each_pair(rule: Callable[[Layer], Iterator[tuple[str, str]]]) -> Rewrite:
    """Two tensors of a layer read one for the other, wherever the layer reads them."""

    def changed(spec: Spec) -> Iterator[Changed]:
        for layer in spec.layers:
            for pair in rule(layer):
                names = dict([pair, pair[::-1]])
                after = {id(q): replace(q, right=_renamed(q.right, names)) for q in equations(layer.body)}
                first = next(q for q in equations(layer.body) if after[id(q)] != q)
                body = _mapped(layer.body, lambda q, after=after: (after[id(q)],))  # type: ignore[misc]
                yield Changed(replace(layer, body=body), first, (after[id(first)],))

    return changed


def _variants(e: Expression, rule: NodeRule, around: Around) -> Iterator[Expression]:
    """e with the rule applied at one place, outside first."""
    yield from rule(e, around)
    for number, child in enumerate(children(e)):
        for new in _variants(child, rule, around):
            yield _with_child(e, number, new)


def _with_child(e: Expression, number: int, new: Expression) -> Expression:
    numbers = iter(range(len(children(e))))
    return rebuild(e, lambda child: new if next(numbers) == number else child)


def _replaced(layer: Layer, before: Equation, after: tuple[Equation, ...]) -> Layer:
    return replace(layer, body=_mapped(layer.body, lambda equation: after if equation is before else (equation,)))


def _mapped(body: tuple[Statement, ...], f: Callable[[Equation], tuple[Equation, ...]]) -> tuple[Statement, ...]:
    return tuple(new for s in body for new in ((replace(s, body=_mapped(s.body, f)),) if isinstance(s, Loop) else f(s)))


def _renamed(e: Expression, names: dict[str, str]) -> Expression:
    new = rebuild(e, lambda child: _renamed(child, names))
    return replace(new, name=names.get(new.name, new.name)) if isinstance(new, Tensor) else new
