"""What does a specification become without some of its optional weights (R9)? Ties take effect, terms disappear."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from einformer.errors import fail
from einformer.language.primitives import primitive
from einformer.language.tree import Apply, Expression, Layer, Number, Product, Quotient, Spec, Sum, Tensor
from einformer.language.walk import map_expressions, rebuild

_ZERO = Number(0)


def without(spec: Spec, names: Iterable[str]) -> Spec:
    """The checked spec without the weights `Layer.weight`; one with a default is tied to it. Raises EinformerError E605."""
    for name in names:
        layer_name, _, weight = name.partition(".")
        layer = next((layer for layer in spec.layers if layer.name == layer_name), None)
        optional = [f"{each.name}.{w.name}" for each in spec.layers for w in each.weights if w.optional]
        if layer is None or name not in optional:
            raise fail(
                "E605", f"there is no optional weight `{name}`", spec.span, [f"there are {', '.join(optional) or 'none'}"]
            )
        spec = replace(spec, layers=tuple(_without(each, weight) if each is layer else each for each in spec.layers))
    return spec


def _without(layer: Layer, name: str) -> Layer:
    weight = next(w for w in layer.weights if w.name == name)
    if weight.default is not None:
        tied = replace(weight, optional=False)
        return replace(layer, weights=tuple(tied if w is weight else w for w in layer.weights))
    layer = replace(layer, weights=tuple(w for w in layer.weights if w is not weight))
    return map_expressions(layer, lambda e: _dropped(e, name))


def _dropped(e: Expression, name: str) -> Expression:
    """e where the tensor `name` is zero: a sum loses the term, a product is zero."""
    if isinstance(e, Tensor) and e.name == name:
        return _ZERO
    if isinstance(e, Sum):
        terms = tuple(term for term in (_dropped(term, name) for term in e.terms) if term is not _ZERO)
        return _ZERO if not terms else terms[0] if len(terms) == 1 else replace(e, terms=terms)
    new = rebuild(e, lambda child: _dropped(child, name))
    match new:
        case Product() if any(factor is _ZERO for factor in new.factors):
            return _ZERO
        case Quotient() if new.numerator is _ZERO:
            return _ZERO
        case Apply() if new.arguments[0] is _ZERO and (row := primitive(new.name, bool(new.indices))) and row.zero:
            return _ZERO
        case _:
            return new
