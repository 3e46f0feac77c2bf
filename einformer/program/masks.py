"""Moves a causal mask into the layer whose attention adds it, instead of passing it to every layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from einformer.language.sizes import Legend
from einformer.language.tree import Apply, Equation, Expression, Layer, Name, Spec, Tensor
from einformer.language.walk import equations, map_expressions, rebuild, subexpressions
from einformer.program.constants import list_letters
from einformer.program.lowering import Body
from einformer.program.terms import Values


def sink_masks(spec: Spec, legend: Legend) -> Spec:
    """The specialised spec with causal masks defined where they are used, instead of passed to every layer.

    A layer whose input is always the causal mask defines it itself, so that its attention is seen to be causal.
    """
    layers = {layer.name: layer for layer in spec.layers}
    for layer in spec.layers:
        for formal in layer.formals:
            actuals = list(_walk_actuals(layers, layer.name, formal.name))
            if actuals and all(_is_mask(actual, caller, legend) for actual, caller in actuals):
                layers = _move(layers, layer.name, formal, actuals[0])
    return replace(spec, layers=tuple(layers.values()))


def count_reads(name: str, layer: Layer) -> int:
    """How often the equations and the ties of a layer read a tensor."""
    read = [q.right for q in equations(layer.body)] + [w.default for w in layer.weights if w.default is not None]
    return sum(isinstance(x, Tensor | Name) and x.name == name for e in read for x in subexpressions(e))


def _find_callee(call: Apply, caller: Layer) -> str:
    return next((w.layer for w in caller.weights if w.kind == "instance" and w.name == call.name), call.name)


def _walk_actuals(layers: Mapping[str, Layer], name: str, formal: str) -> Iterator[tuple[Expression, Layer]]:
    """What every call of a layer gives for one of its inputs."""
    place = [f.name for f in layers[name].formals].index(formal)
    for caller in layers.values():
        for e in (x for q in equations(caller.body) for x in subexpressions(q.right)):
            if isinstance(e, Apply) and _find_callee(e, caller) == name:
                yield e.arguments[place], caller


def _find_mask_equation(name: str, layer: Layer) -> Equation | None:
    defined = [q for q in equations(layer.body) if q.left.name == name]
    return defined[0] if len(defined) == 1 else None


def _is_mask(actual: Expression, caller: Layer, legend: Legend) -> bool:
    equation = _find_mask_equation(actual.name, caller) if isinstance(actual, Tensor) else None
    if equation is None or equation.left != actual or len(list_letters(actual)) != 2 or _reads_tensors(equation.right, caller):
        return False
    query, over = list_letters(actual)
    mask = Body(caller, {}, legend, query).value(equation.right)
    return over == f"{query}'" and Values(legend).is_causal(mask, query, over)


def _reads_tensors(e: Expression, layer: Layer) -> bool:
    """Does a value depend on more than positions?"""
    tensors = {node.name for node in (*layer.formals, *layer.weights, *(q.left for q in equations(layer.body)))}
    return any(isinstance(x, Tensor | Name) and x.name in tensors for x in subexpressions(e))


def _move(layers: dict[str, Layer], name: str, formal: Tensor, actual: tuple[Expression, Layer]) -> dict[str, Layer]:
    """The layers with one mask defined inside the layer `name`, and no longer passed to it."""
    place = [f.name for f in layers[name].formals].index(formal.name)
    mask = _find_mask_equation(actual[0].name, actual[1])  # type: ignore[union-attr]
    assert mask is not None

    def without(caller: Layer) -> Layer:
        def visit(e: Expression) -> Expression:
            e = rebuild(e, visit)
            if isinstance(e, Apply) and _find_callee(e, caller) == name:
                return replace(e, arguments=e.arguments[:place] + e.arguments[place + 1 :])
            return e

        return _drop_unread(map_expressions(caller, visit))

    moved = {each: without(layer) for each, layer in layers.items()}
    layer = moved[name]
    inside = Equation(formal, "=", mask.right, span=mask.span)
    moved[name] = replace(layer, formals=layer.formals[:place] + layer.formals[place + 1 :], body=(inside, *layer.body))
    return moved


def _drop_unread(layer: Layer) -> Layer:
    """The layer without definitions of masks that nothing reads any more."""
    keep = [
        s
        for s in layer.body
        if not (
            isinstance(s, Equation)
            and s.relation == "="
            and s.left.name != layer.output.name
            and not count_reads(s.left.name, layer)
        )
    ]
    return replace(layer, body=tuple(keep))
