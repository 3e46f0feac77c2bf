"""Which layer do equations without a legend stand for? Names that nothing defines are inputs, or weights when capital or Greek.

The size of an axis is the capital of its letter, that of `e` is `H`, as in the notes. A line with a bare name on its left,
`H = D / A` or `ε = 1e-5`, says what a size or a scalar is.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import replace

from einformer.architectures.texts import prelude
from einformer.errors import EinformerError, Source, fail
from einformer.language import parser
from einformer.language.calls import axis_of, slot_letters
from einformer.language.check import with_prelude
from einformer.language.tree import (
    Apply,
    Axis,
    Expression,
    Index,
    Layer,
    Name,
    Number,
    Scalar,
    Spec,
    Tensor,
    Weight,
)
from einformer.language.walk import children, equations
from einformer.objects import Specification
from einformer.program import check

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_NAME = "Equations"


def bare(text: str, scalars: frozenset[str]) -> Specification:
    """The specification of equations without a legend; `scalars` are names that are given numbers, if they are no sizes.

    The last left side is the output. Raises EinformerError.
    """
    lines = textwrap.indent(textwrap.dedent(text).strip("\n"), "  ")
    legend = "axes\n" + "".join(f"  {letter}: {size}\n" for letter, size in _sizes(lines).items())
    source = Source("<equations>", f"layer {_NAME}(x) -> x:\n{lines}\n{legend}")
    parsed, findings = parser.parse(source, frozenset(layer.name for layer in prelude().layers))
    if findings:
        raise EinformerError(findings)
    written = with_prelude(_declared(parsed, scalars), prelude())
    tree, findings = check.check(written)
    if findings:
        raise EinformerError(findings)
    return Specification(written, tree, _NAME)


def _sizes(lines: str) -> dict[str, str]:
    """Every letter with the name of its size; where an axis `h` is used, the size of `e` is `E`."""
    head = "E" if re.search(r"_\{?\w*h", lines) else "H"
    return {letter: head if letter == "e" else letter.upper() for letter in _LETTERS}


def _declared(spec: Spec, scalars: frozenset[str]) -> Spec:
    """The spec with a legend of what its equations use, and a head that takes what they do not define."""
    (layer,) = spec.layers
    body = [q for q in equations(layer.body) if isinstance(q.left, Tensor)]
    said = {q.left.name: q.right for q in equations(layer.body) if isinstance(q.left, Name)}
    if not body or any(q.relation == "return" for q in equations(layer.body)):
        raise fail("E105", "equations end with that of the output", layer.span, fix="`y_bsd = …` as the last line")
    defined = {equation.left.name for equation in body}
    free = {e.name: e for equation in body for e in _inside(equation.right) if isinstance(e, Tensor) and e.name not in defined}
    given = {w.name for w in layer.weights}
    tensors = {name: _declarable(slot_letters(e)) for name, e in free.items() if name not in given}
    inputs = tuple(Tensor(name, slots) for name, slots in tensors.items() if _is_input(name))
    weights = tuple(Weight(name, slots) for name, slots in tensors.items() if not _is_input(name))
    layer = replace(
        layer, formals=inputs, output=body[-1].left, weights=(*layer.weights, *weights), span=body[-1].span, body=tuple(body)
    )
    used = _used(layer)
    axes = tuple(_sized(axis, said) for axis in spec.axes if axis.letter in used)
    known = {axis.size.name for axis in axes if isinstance(axis.size, Name)}
    values = {name: Number(0) for name in sorted(scalars)} | said
    bound = tuple(Scalar(name, (), value, span=value.span) for name, value in values.items() if name not in known)
    return replace(spec, layers=(layer,), axes=axes, scalars=bound)


def _sized(axis: Axis, said: Mapping[str, Expression]) -> Axis:
    """An axis whose size a line gives: `H = D / A`."""
    return replace(axis, default=said.get(axis.size.name)) if isinstance(axis.size, Name) else axis


def _is_input(name: str) -> bool:
    return name[0].isascii() and name[0].islower()


def _declarable(letters: tuple[str, ...]) -> tuple[Index, ...]:
    """The letters without primes, where they then are still different ones."""
    plain = tuple(map(axis_of, letters))
    return tuple(map(Index, plain if len(set(plain)) == len(plain) else letters))


def _used(layer: Layer) -> set[str]:
    """The axes of a layer: of its equations, inputs and weights."""
    expressions = [e for equation in equations(layer.body) for e in (equation.left, equation.right)]
    found = {axis_of(e.letter) for root in (*expressions, *layer.formals) for e in _inside(root) if isinstance(e, Index)}
    return found | {axis_of(index.letter) for weight in layer.weights for index in weight.indices}


def _inside(e: Expression) -> Iterator[Expression]:
    """e, what is in it, and the indices of its operators."""
    yield e
    for child in (*children(e), *(e.indices if isinstance(e, Apply) else ())):
        yield from _inside(child)
