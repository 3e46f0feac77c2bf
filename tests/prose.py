"""How would an author write a text of the language down? As prose: shapes in words, each equation a display of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from einformer.interpreters.latex import latex
from einformer.interpreters.latex.pages import LATEX
from einformer.language.tree import Axis, Equation, Expression, Index, Layer, Name, Spec, Tensor
from einformer.language.walk import equations, loops


def prose(spec: Spec) -> str:
    """A note in Markdown: a section for each layer, an equation on each line that begins with `$$`."""
    return "\n\n".join(part for layer in spec.layers for part in _layer(spec, layer))


def _layer(spec: Spec, layer: Layer) -> Iterator[str]:
    yield f"# {layer.name}"
    sized = {axis.letter: _size(axis) for axis in spec.axes}
    yield "Here " + ", ".join(f"$0 \\leq {letter} < {size}$" for letter, size in sized.items()) + "."
    slots = [(formal.name, formal.slots) for formal in layer.formals]
    slots += [(weight.name, weight.indices) for weight in layer.weights if weight.kind != "instance"]
    for name, letters in slots:
        yield from _shape(name, letters, sized)
    yield from (f"For each ${loop.index.letter}$:" for loop in loops(layer.body))
    for equation in equations(layer.body):
        relation = "=" if equation.relation == "return" else equation.relation
        left = _output(layer) if equation.relation == "return" else equation.left
        yield f"$${latex(replace(equation, left=left, relation=relation, note='', comment='', above=()))}$$"


def _output(layer: Layer) -> Tensor | Name:
    """What a layer returns, by another name than its input, which a text of the language may give it."""
    return replace(layer.output, name="Ω")


def _size(axis: Axis) -> str:
    return axis.size.name if isinstance(axis.size, Name) else latex(axis.size)


def _shape(name: str, slots: tuple[Expression, ...], sized: dict[str, str]) -> Iterator[str]:
    letters = [slot.letter for slot in slots if isinstance(slot, Index)]
    sizes = [sized[letter.rstrip("'")] for letter in letters]
    if letters and len(name.rstrip("'")) == 1:
        yield f"A tensor ${LATEX.tensor(name, slots)}$ of shape `({', '.join(sizes)})`."


__all__ = ["Equation", "Tensor", "prose"]
