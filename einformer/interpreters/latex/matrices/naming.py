"""Names the tensors of a layer as matrices and vectors, all different, in the style of a document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from einformer.interpreters.latex.pages import LATEX
from einformer.language.calls import axis_of
from einformer.language.printer import Level, show
from einformer.language.sizes import Legend
from einformer.language.tree import Apply, Equation, Expression, Group, Index, Layer, Name, Product, Tensor
from einformer.language.walk import children, equations, subexpressions


@dataclass(frozen=True, slots=True)
class Style:
    """The style in which a document writes matrices.

    `weight` and `label` give the place of the name of a weight and of the number of a head: `_Q`, `^Q`, `^(q)` with small
    letters, `_i`, `^(i)`. `columns`: vectors are columns. `names` are weights by their sizes, `d d_ff` = `W_1`. `weights`
    is the letter of the weights of attention if they have a line of their own, `attention` the name of the formula of one
    head, `head` the name of its value, `heads` the name of a layer that puts heads side by side.
    """

    weight: str = "_Q"
    label: str = "_i"
    transpose: str = r"\top"
    softmax: str = "softmax"
    columns: bool = False
    weights: str = ""
    attention: str = ""
    head: str = ""
    heads: str = ""
    names: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Names:
    """The names of one layer: its weights with their axes, names by role or by size, tensors that keep a small letter,
    numbers.

    A tensor with the letter of a number is bold.
    """

    style: Style
    legend: Legend
    dropped: frozenset[str]  # labels that are not said
    weights: Mapping[str, tuple[str, ...]]
    own: Mapping[str, str]
    small: frozenset[str]
    numbers: frozenset[str]

    def letter(self, e: Tensor, rows: str = "", cols: str = "", turned: str = "") -> str:
        """Names a tensor where it is read: its letter, capital for a matrix, with its printed labels."""
        base, scripts = self.base(e.name, bool(rows and cols))
        marks = [*scripts, *self.labels(e, rows, cols)]
        if cut := self._cut(e, rows, cols):
            return add_scripts(base, marks) + cut + (f"^{{{turned}}}" if turned else "")
        if turned and any(place == "^" and text[:1] != "(" for place, text in marks):
            return f"({add_scripts(base, marks)})^{{{turned}}}"
        return add_scripts(base, marks, turned)

    def labels(self, e: Tensor, rows: str = "", cols: str = "") -> list[tuple[str, str]]:
        """Returns the printed labels and their places: slots that are neither rows nor columns nor looked up."""
        labels = [slot for slot in e.slots if spell_axis(slot) not in (rows, cols) and not isinstance(slot, Tensor)]
        printed = [label for label in labels if not (isinstance(label, Index) and label.letter in self.dropped)]
        return [_split_script(self.style.label, _abut(printed))] if printed else []

    def base(self, name: str, whole: bool) -> tuple[str, list[tuple[str, str]]]:
        """Returns the letter of a tensor, and the parts of its name below and above."""
        if name in self.own:
            return self.own[name], []
        letter, below = name.rstrip("'"), name.lower() if "q" in self.style.weight else name
        short = len(letter) == 1 and letter.isascii()
        if short and name in self.weights and letter.isupper():
            return ("W" if whole else "w"), [_split_script(self.style.weight, below)] if letter != "W" else []
        shown = name.upper() if short and whole and name not in self.small else name
        return (rf"\boldsymbol{{{LATEX.symbol(shown)}}}" if shown in self.numbers else LATEX.symbol(shown)), []

    def _cut(self, e: Tensor, rows: str, cols: str) -> str:
        axes = self.weights.get(e.name, ())
        read = [(slot.letter, own) for slot, own in zip(e.slots, axes, strict=False) if isinstance(slot, Index)]
        parts = [":" if axis_of(letter) == own else f"{{:}}{self.size(letter)}" for letter, own in read]
        return f"[{', '.join(parts)}]" if any(axis_of(i) != own and i in (rows, cols) for i, own in read) else ""

    def size(self, letter: str, least: Level = Level.SUM) -> str:
        """Prints the size of an axis."""
        return LATEX.flat.expression(self.legend.axes[axis_of(letter)].size, least)


def spell_axis(slot: Expression) -> str | None:
    """Returns the letter of a slot, or the letters of a group in parentheses, or None for a computed number."""
    match slot:
        case Index(letter):
            return letter
        case Group(members) if all(isinstance(member, Index) for member in members):
            return f"({''.join(member.letter for member in members if isinstance(member, Index))})"
        case _:
            return None


def add_scripts(base: str, scripts: Sequence[tuple[str, str]], turned: str = "") -> str:
    """Prints a letter with its scripts, and the sign that it is `turned`.

    >>> add_scripts("W", [("_", "Q"), ("_", "a")], "T")
    'W_{Q,a}^{T}'
    """
    below, above = (",".join(text for side, text in scripts if side == place and text) for place in "_^")
    letter = base.rstrip("'")
    if primes := (len(base) - len(letter)) * r"\prime" if below or above or turned else "":
        base, above = letter, f"{primes} {above}"
    above = (above + turned).strip()
    return base + (f"_{{{below}}}" if below else "") + (f"^{{{above}}}" if above else "")


def _split_script(place: str, text: str) -> tuple[str, str]:
    return place[0], f"({text})" if "(" in place and text else text


def _abut(labels: Sequence[Expression]) -> str:
    texts = [LATEX.flat.expression(label, Level.SUM) for label in labels]
    plain = all(isinstance(label, Index) for label in labels)
    return ("" if plain and not any("\\" in text for text in texts) else ",").join(texts)


# ---------------------------------------------------------------------------------------------- the names of a layer


def name_tensors(layer: Layer, dropped: frozenset[str], legend: Legend, style: Style) -> Names:
    """Names the tensors of a layer whose sums are written out."""
    weights = {w.name: tuple(axis_of(i.letter) for i in w.indices) for w in layer.weights if w.kind != "instance"}
    own = _name_by_size(weights, legend, style) | dict(_name_by_role(layer, style))
    inside = [e for equation in equations(layer.body) for e in subexpressions(equation.right)]
    defined = {left.name for left in (*layer.formals, *(equation.left for equation in equations(layer.body)))}
    tensors = (defined | {e.name for e in inside if isinstance(e, Tensor)}) - weights.keys()
    sizes = [e for axis in {axis for axes in weights.values() for axis in axes} for e in subexpressions(legend.axes[axis].size)]
    numbers = frozenset(e.name for e in (*inside, *sizes) if isinstance(e, Name))  # that stand beside the tensors
    used = {*own.values(), *numbers, "W"}
    small = {name for name in tensors if name.upper() in used or name.upper() in tensors - {name}}
    return Names(style, legend, dropped, weights, own, frozenset(small), numbers)


# `W_1` from `d` to `d_ff`, if only one weight has these sizes.
def _name_by_size(weights: Mapping[str, tuple[str, ...]], legend: Legend, style: Style) -> dict[str, str]:
    sizes = {name: " ".join(show(legend.axes[axis].size) for axis in axes) for name, axes in weights.items()}
    own = {name: style.names[size] for name, size in sizes.items() if size in style.names}
    return own if all(count == 1 for count in Counter(own.values()).values()) else {}


def _name_by_role(layer: Layer, style: Style) -> Iterator[tuple[str, str]]:
    definitions = {line.left.name: line.right for line in equations(layer.body) if line.relation == "="}
    for equation in (line for line in equations(layer.body) if line.relation != "return"):
        if style.weights and isinstance(equation.right, Apply) and equation.right.name == "Sm":
            yield equation.left.name, style.weights
        if style.head and len(getattr(equation.left, "slots", ())) > 2 and is_attention(equation, definitions):
            yield equation.left.name, rf"\mathrm{{{style.head}}}"


def is_attention(equation: Equation, definitions: Mapping[str, Expression]) -> bool:
    """Returns whether a line sums a softmax over positions times values. `definitions` may hold the softmax."""
    right = equation.right
    if not (isinstance(right, Apply) and right.name == "sum" and isinstance(right.arguments[0], Product)):
        return False
    own = {slot.letter for slot in getattr(equation.left, "slots", ()) if isinstance(slot, Index)}
    primed = [index.letter for index in right.indices if axis_of(index.letter) in own - {index.letter}]
    return bool(primed) and any(isinstance(e, Apply) and e.name == "Sm" for e in expand(right, definitions))


def expand(e: Expression, definitions: Mapping[str, Expression]) -> Iterator[Expression]:
    """Yields e and everything in it, with the definitions of the tensors that it reads, each once."""
    waiting, unread = [e], dict(definitions)
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(children(node))
        if isinstance(node, Tensor) and node.name in unread:
            waiting.append(unread.pop(node.name))
