"""Takes axes, scalars and layers out of the library, for a text that names them instead of writing them out."""

from __future__ import annotations

from dataclasses import replace

from einformer.errors import EinformerError, Span, fail
from einformer.language.names import find_closest
from einformer.language.tokens import Token
from einformer.language.tree import Axis, Expression, Index, Layer, Loop, Scalar, Spec, Statement, Weight
from einformer.language.walk import rebuild

EMPTY = Spec("", (), (), ())


def take_axis(library: Spec, letter: Index) -> Axis:
    """The axis of a letter that stands alone, placed there. Raises EinformerError E201."""
    for axis in library.axes:
        if axis.letter == letter.letter:
            size, default, bound = (e and _place(e, letter.span) for e in (axis.size, axis.default, axis.bound))
            return replace(axis, size=size or axis.size, default=default, bound=bound, span=letter.span)
    fix = f"`{letter.letter}: {letter.letter[0].upper()}`"
    raise _fail_missing("E201", letter.letter, ("size", "axis"), letter.span, [axis.letter for axis in library.axes], fix)


def take_scalar(library: Spec, name: Weight) -> Scalar:
    """The scalar of a name that stands alone, placed there. Raises EinformerError E204."""
    for scalar in library.scalars:
        if (scalar.name, scalar.indices) == (name.name, name.indices):
            assert not isinstance(scalar.value, tuple)
            return replace(scalar, value=_place(scalar.value, name.span), span=name.span)
    names = [scalar.name for scalar in library.scalars]
    raise _fail_missing("E204", name.name, ("value", "scalar"), name.span, names, f"`{name.name} = …`")


def _fail_missing(code: str, name: str, lacks: tuple[str, str], span: Span, names: list[str], fix: str) -> EinformerError:
    message = f"`{name}` stands without a {lacks[0]}, and the library has no such {lacks[1]}"
    return fail(code, message, span, [f"the library has {', '.join(names)}"] * bool(names), fix)


def take_layer(library: Spec, name: Token) -> Layer:
    """The layer of that name. Raises EinformerError E204."""
    layers = {layer.name: layer for layer in library.layers}
    if name.text in layers:
        return layers[name.text]
    close = find_closest(name.text, layers)
    fix = f"`{close}`" if close else "`layer Name(z_d) -> z_d:`, written out"
    raise fail("E204", f"the library has no layer `{name.text}`", name.span, fix=fix)


def vary(layer: Layer, weights: tuple[Weight, ...], statements: tuple[Statement, ...]) -> Layer:
    """The layer with other weights and with other lines for some of its tensors. Raises EinformerError E204.

    A line replaces the next one that defines the same name. A line for a new name goes before the line that is replaced next.
    """
    rows: list[Statement] = []
    rest = list(layer.body)
    new: list[Statement] = []
    for statement in statements:
        new.append(statement)
        names = [_definition(row) for row in rest]
        if (name := _definition(statement)) in names:
            place = names.index(name)
            rows += [*rest[:place], *new]
            rest, new = rest[place + 1 :], []
    if new:
        fix = f"a line for one of {', '.join(f'`{_definition(row)}`' for row in layer.body)}, in this order"
        message = f"`{_definition(new[-1])}` replaces no line of the library's layer, and no line below it does"
        raise fail("E204", message, new[-1].span, (), fix)
    return replace(layer, weights=weights or layer.weights, body=(*rows, *rest))


def _definition(statement: Statement) -> str:
    if isinstance(statement, Loop):
        return f"for {statement.index.letter}"
    return "return" if statement.relation == "return" else f"{statement.left.name} {statement.relation}"


# Errors of a scalar or axis of the library are errors of the text that names it.
def _place(e: Expression, span: Span) -> Expression:
    return replace(rebuild(e, lambda child: _place(child, span)), span=span)
