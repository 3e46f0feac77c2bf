"""What is each tensor of a layer called, as a matrix and as a vector? No two of them alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from einformer.interpreters.latex.formulas import flat, symbol
from einformer.interpreters.latex.matrices.lines import Line, Lines
from einformer.interpreters.latex.matrices.style import Style, scripted
from einformer.interpreters.latex.matrices.tree import Letter, RowWise, Times, inside
from einformer.language.calls import axis_of
from einformer.language.printer import Level, show
from einformer.language.sizes import Legend
from einformer.language.tree import Expression, Index, Layer, Name, Tensor
from einformer.language.walk import equations, subexpressions


@dataclass(frozen=True, slots=True)
class Names:
    """Of one layer: its weights, what has a name by its role or its sizes, and what keeps its small letter."""

    style: Style
    legend: Legend
    dropped: frozenset[str]
    weights: Mapping[str, tuple[str, ...]]
    own: Mapping[str, str]
    small: frozenset[str]

    def letter(self, m: Letter, turned: str = "", labels: tuple[Expression, ...] | None = None) -> str:
        """A tensor as it is read: its letter, large if it is a matrix, with the labels that are said."""
        base, scripts = self.base(m.of.name, bool(m.rows and m.cols))
        marks = [*scripts, *self.labels(m, labels)]
        if cut := self.cut(m):
            return scripted(base, marks) + cut + (f"^{{{turned}}}" if turned else "")
        if turned and any(place == "^" and text[:1] != "(" for place, text in marks):
            return f"({scripted(base, marks)})^{{{turned}}}"
        return scripted(base, marks, turned)

    def labels(self, m: Letter, labels: tuple[Expression, ...] | None = None) -> list[tuple[str, str]]:
        """The labels that are said, and where."""
        said = [each for each in (m.labels if labels is None else labels) if not self.is_dropped(each)]
        return [self.style.label_of(_abut(said))] if said else []

    def is_dropped(self, label: Expression) -> bool:
        """Is a label one that need not be said?"""
        return isinstance(label, Index) and label.letter in self.dropped

    def base(self, name: str, whole: bool) -> tuple[str, list[tuple[str, str]]]:
        """The letter of a tensor, and what belongs to its name below and above."""
        if name in self.own:
            return self.own[name], []
        letter = name.rstrip("'")
        if len(letter) != 1 or not letter.isascii():
            return symbol(name), []
        if name in self.weights and letter.isupper():
            return ("W" if whole else "w"), [self.style.name_of_weight(name)] if letter != "W" else []
        return symbol(name.upper() if whole and name not in self.small else name), []

    def cut(self, m: Letter) -> str:
        """A weight of which only the first places are read, as positions of the longest sequence are."""
        axes = self.weights.get(m.of.name, ())
        read = [(slot.letter, axis) for slot, axis in zip(m.of.slots, axes, strict=False) if isinstance(slot, Index)]
        parts = [":" if axis_of(letter) == axis else f"{{:}}{self.size(letter)}" for letter, axis in read]
        first = {letter for letter, axis in read if axis_of(letter) != axis and letter in (m.rows, m.cols)}
        return f"[{', '.join(parts)}]" if first else ""

    def size(self, letter: str) -> str:
        """The size of an axis."""
        return flat(self.legend.axes[axis_of(letter)].size, Level.SUM)


def _abut(labels: list[Expression]) -> str:
    texts = [symbol(each.letter) if isinstance(each, Index) else flat(each, Level.SUM) for each in labels]
    plain = all(isinstance(each, Index) for each in labels)
    return ("" if plain and not any("\\" in text for text in texts) else ",").join(texts)


def names(lines: Lines, legend: Legend, style: Style) -> Names:
    """The names of a layer's tensors in the style of a document."""
    layer = lines.layer
    weights = {w.name: tuple(axis_of(i.letter) for i in w.indices) for w in layer.weights if w.kind != "instance"}
    own = _by_size(weights, legend, style) | dict(_by_role(lines, style))
    used = {x.name for each in equations(layer.body) for x in subexpressions(each.right) if isinstance(x, Name)}
    tensors = _tensors(layer) - weights.keys()
    small = {name for name in tensors if name.upper() in {*own.values(), *used, "W"} or name.upper() in tensors - {name}}
    return Names(style, legend, lines.dropped, weights, own, frozenset(small))


def _tensors(layer: Layer) -> set[str]:
    read = {x.name for each in equations(layer.body) for x in subexpressions(each.right) if isinstance(x, Tensor)}
    return read | {each.left.name for each in equations(layer.body)} | {formal.name for formal in layer.formals}


def _by_size(weights: Mapping[str, tuple[str, ...]], legend: Legend, style: Style) -> dict[str, str]:
    """Weights that a document names by what they are, `W_1` from `d` to `d_ff`: where only one has these sizes."""
    sizes = {name: " ".join(show(legend.axes[axis].size) for axis in axes) for name, axes in weights.items()}
    found = {name: style.names[size] for name, size in sizes.items() if size in style.names}
    return found if all(count == 1 for count in Counter(found.values()).values()) else {}


def _by_role(lines: Lines, style: Style) -> list[tuple[str, str]]:
    """The weights of attention, and the value of a head."""
    own = []
    for line in lines:
        name, returned = line.equation.left.name, line.equation.relation == "return"
        if style.weights and not returned and isinstance(line.right, RowWise) and line.right.name == "Sm":
            own.append((name, style.weights))
        if style.head and not returned and is_attention(line) and isinstance(line.left, Letter) and line.left.labels:
            own.append((name, rf"\mathrm{{{style.head}}}"))
    return own


def is_attention(line: Line) -> bool:
    """Is a line the formula of attention: a softmax times values?"""
    right = line.right
    return isinstance(right, Times) and any(isinstance(x, RowWise) and x.name == "Sm" for x in inside(right.factors[0]))
