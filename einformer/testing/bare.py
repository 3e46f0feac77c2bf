"""Reads equations without a legend. Undefined names are inputs, or weights if they are capital or Greek.

The size of an axis is the capital of its letter, and `H` for `e`, as in the notes. A line with a bare name on its left, `H
= D / A` or `ε = 1e-5`, defines a size or a scalar.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import replace

from einformer.architectures.texts import library
from einformer.errors import EinformerError, Source, fail
from einformer.language import parser
from einformer.language.calls import axis_of, slot_letters
from einformer.language.check import with_library
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
from einformer.program.causality import check_spec

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_NAME = "Equations"


# Returns the specification of equations without a legend. `scalars` are names with numbers, unless they are sizes. The last
# left side is the output. Raises EinformerError.
def read_bare(text: str, scalars: frozenset[str]) -> Specification:
    lines = textwrap.indent(textwrap.dedent(text).strip("\n"), "  ")
    legend = "axes\n" + "".join(f"  {letter}: {size}\n" for letter, size in _name_sizes(lines).items())
    source = Source("<equations>", f"layer {_NAME}(x) -> x:\n{lines}\n{legend}")
    parsed, findings = parser.parse(source, library())
    if findings:
        raise EinformerError(findings)
    written = with_library(_declare(parsed, scalars), library())
    tree, findings = check_spec(written)
    if findings:
        raise EinformerError(findings)
    return Specification(written, tree, _NAME)


# If an axis `h` is used, the size of `e` is `E`.
def _name_sizes(lines: str) -> dict[str, str]:
    head = "E" if re.search(r"_\{?\w*h", lines) else "H"
    return {letter: head if letter == "e" else letter.upper() for letter in _LETTERS}


def _declare(spec: Spec, scalars: frozenset[str]) -> Spec:
    (layer,) = spec.layers
    body = [q for q in equations(layer.body) if isinstance(q.left, Tensor)]
    definitions = {q.left.name: q.right for q in equations(layer.body) if isinstance(q.left, Name)}
    if not body or any(q.relation == "return" for q in equations(layer.body)):
        raise fail("E105", "equations end with that of the output", layer.span, fix="`y_bsd = …` as the last line")
    defined = {equation.left.name for equation in body}
    free = {e.name: e for equation in body for e in _walk(equation.right) if isinstance(e, Tensor) and e.name not in defined}
    weights_by_name = {w.name for w in layer.weights}
    tensors = {name: _drop_primes(slot_letters(e)) for name, e in free.items() if name not in weights_by_name}
    inputs = tuple(Tensor(name, slots) for name, slots in tensors.items() if _is_input(name))
    weights = tuple(Weight(name, slots) for name, slots in tensors.items() if not _is_input(name))
    layer = replace(
        layer, formals=inputs, output=body[-1].left, weights=(*layer.weights, *weights), span=body[-1].span, body=tuple(body)
    )
    used = _find_axes(layer)
    axes = tuple(_replace_size(axis, definitions) for axis in spec.axes if axis.letter in used)
    size_names = {axis.size.name for axis in axes if isinstance(axis.size, Name)}
    values = {name: Number(0) for name in sorted(scalars)} | definitions
    bound = tuple(Scalar(name, (), value, span=value.span) for name, value in values.items() if name not in size_names)
    return replace(spec, layers=(layer,), axes=axes, scalars=bound)


def _replace_size(axis: Axis, said: Mapping[str, Expression]) -> Axis:
    return replace(axis, default=said.get(axis.size.name)) if isinstance(axis.size, Name) else axis


def _is_input(name: str) -> bool:
    return name[0].isascii() and name[0].islower()


def _drop_primes(letters: tuple[str, ...]) -> tuple[Index, ...]:
    plain = tuple(map(axis_of, letters))
    return tuple(map(Index, plain if len(set(plain)) == len(plain) else letters))


def _find_axes(layer: Layer) -> set[str]:
    expressions = [e for equation in equations(layer.body) for e in (equation.left, equation.right)]
    axes = {axis_of(e.letter) for root in (*expressions, *layer.formals) for e in _walk(root) if isinstance(e, Index)}
    return axes | {axis_of(index.letter) for weight in layer.weights for index in weight.indices}


def _walk(e: Expression) -> Iterator[Expression]:
    yield e
    for child in (*children(e), *(e.indices if isinstance(e, Apply) else ())):
        yield from _walk(child)
