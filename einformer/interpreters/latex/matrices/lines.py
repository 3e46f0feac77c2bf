"""Writes each line of a layer in matrices if it has a form, and merges lines into one formula."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, combinations
from types import MappingProxyType

from einformer.interpreters.latex.matrices.labels import Axes, Labels, find_labels, find_passed
from einformer.interpreters.latex.matrices.naming import Style, add_scripts, expand, is_attention, name_tensors
from einformer.interpreters.latex.matrices.translation import NoForm, Piece, Translator
from einformer.interpreters.latex.pages import LATEX, latex
from einformer.language.calls import axis_of, callees
from einformer.language.primitives import primitive
from einformer.language.printer import Level, PrintedLine
from einformer.language.scope import Scope
from einformer.language.sizes import Legend
from einformer.language.tree import Apply, Equation, Expression, Group, Index, Layer, Loop, Spec, Statement, Tensor, Weight
from einformer.language.walk import equations, map_equations, subexpressions


@dataclass(frozen=True, slots=True)
class Formula:
    """An equation with its sums written out, and its sides in matrices, or the reason `why` there is no right side."""

    equation: Equation
    translator: Translator
    left: Piece | None = None
    right: Piece | None = None
    why: str = ""


@dataclass(slots=True)
class LayerFormulas:
    """The lines of a layer by their equations, without the equations that another line has `taken` in."""

    layer: Layer  # its sums written out
    labels: Labels
    translator: Translator
    found: dict[int, Formula] = field(default_factory=dict)
    taken: dict[str, Equation] = field(default_factory=dict)

    @property
    def head(self) -> list[Piece]:
        """Returns the inputs of the layer."""
        formulas = (self.formula(Equation(formal, "=", formal)).left for formal in self.layer.formals)
        return [piece for piece in formulas if piece]

    @property
    def joins(self) -> bool:
        """Returns whether a line puts heads side by side."""
        return any(map(_has_group, self.taken.values())) or any(_has_group(x.equation) for x in self.found.values() if x.right)

    def formula(self, equation: Equation) -> Formula:
        """Writes a line with as few labels as possible, then with one more than the layer's, else not at all."""
        translator, why = replace(self.translator, taken=self.taken), ""
        for choice in self._list_choices(equation):
            try:
                this = replace(translator, labels=choice)
                left, right = this.sides(equation)
            except NoForm as none:
                why = why if choice - translator.labels else str(none)
                continue
            if left.letters or choice <= translator.labels:
                return Formula(equation, this, left, right)
        try:
            return Formula(equation, translator, translator.matrix(equation.left), why=why)
        except NoForm:
            return Formula(equation, translator, why=why)

    def _list_choices(self, equation: Equation) -> Iterator[Axes]:
        of = self.labels
        definitions = {name: choice.right for name, choice in self.taken.items()}
        present = chain(subexpressions(equation.left), expand(equation.right, definitions))
        axes = dict.fromkeys(axis_of(e.letter) for e in present if isinstance(e, Index))
        free = [axis for axis in axes if axis in of.chosen and axis not in of.dropped]
        some = [frozenset(choice) for n in range(len(free) + 1) for choice in combinations(free, n)]
        apart = [choice for choice in some if any(len(choice & pair) == 1 and pair <= axes.keys() for pair in of.paired)]
        order = sorted(some, key=lambda choice: (choice in apart, len(choice - of.said), len(choice)))
        yield from (of.dropped.union(choice, of.chosen - axes.keys()) for choice in order)
        yield from (of.chosen | {axis} for axis in axes if axis not in of.chosen)

    # ------------------------------------------------------------------------------------------ lines as one formula

    def read(self, body: Sequence[Statement]) -> None:
        """Writes the lines of a body. A part that only one other line reads, in the same turn, is merged into it."""
        for place, statement in enumerate(body):
            if isinstance(statement, Loop):
                self.read(statement.body)
                continue
            line = self.formula(statement)
            if not (self._is_part(line) and self._is_taken_in(statement, body[place + 1 :])):
                self.found[id(statement)] = line

    def _is_part(self, line: Formula) -> bool:
        """A line that puts heads side by side, or defines a matrix between positions without a name of its own."""
        left, equation = line.left, line.equation
        if left is None or line.right is None or equation.relation != "=":
            return False
        if _has_group(equation):
            return True
        square = bool(left.rows) and axis_of(left.rows) == axis_of(left.cols)
        return square and not (self.translator.names.style.weights and any(map(_keeps, subexpressions(equation.right))))

    def _is_taken_in(self, equation: Equation, after: Sequence[Statement]) -> bool:
        """A line is read once, by a later line that has a form with it, before anything that it reads changes."""
        name = equation.left.name
        if sum(reader.left.name == name for reader in equations(self.layer.body)) > 1:
            return False
        (*reads,) = (reader for reader in equations(self.layer.body) for other in _list_reads(reader) if other == name)
        place = next((place for place, reader in enumerate(after) if len(reads) == 1 and reader is reads[0]), None)
        between = () if place is None else equations(tuple(after[:place]))
        if place is None or not self._needs(equation).isdisjoint(reader.left.name for reader in between):
            return False
        self.taken[name] = equation
        if self.formula(reads[0]).right is None:
            del self.taken[name]
        return name in self.taken

    def _needs(self, equation: Equation) -> set[str]:
        own = set(_list_reads(equation))
        return own.union(*(self._needs(self.taken[name]) for name in own & self.taken.keys()))


def _keeps(e: Expression) -> bool:
    row = primitive(e.name, bool(e.indices)) if isinstance(e, Apply) else None
    return row is not None and row.kind == "keeping"


def _has_group(equation: Equation) -> bool:
    return any(isinstance(slot, Group) for slot in getattr(equation.left, "slots", ()))


def _list_reads(equation: Equation) -> Iterable[str]:
    return (e.name for e in subexpressions(equation.right) if isinstance(e, Tensor))


def write_formulas(
    spec: Spec, style: Style, called: Mapping[str, str] = MappingProxyType({}), translate: type[Translator] = Translator
) -> dict[str, LayerFormulas]:
    """Returns the lines of each layer of a checked text, as its author wrote it. `called` are layers with other names."""
    written, legend = {layer.name: layer for layer in spec.layers}, Legend.of(spec)
    scopes = {name: Scope.of(layer, written) for name, layer in written.items()}
    layers = {
        name: replace(written_layer, body=map_equations(written_layer.body, scopes[name].equation))
        for name, written_layer in written.items()
    }
    carried: dict[str, Axes] = {}
    for layer in layers.values():
        find_passed(layer, callees(layer, layers), carried)

    def write(layer: Layer) -> LayerFormulas:
        own = find_labels(layer)
        names = name_tensors(layer, own.dropped, legend, style)
        lines = LayerFormulas(layer, own, translate(names, called, scopes[layer.name], own.chosen, carried, own.down))
        lines.read(layer.body)
        return lines

    return {name: write(layer) for name, layer in layers.items()}


_ABOUT = (
    "in matrices: functions work on each number, operators as softmax on each row, or on a vector; vectors are {vectors}",
    "a bold 1 is a column of ones, E[x] are the rows of E that x names; what has no such form stays in indices",
)
_ROW = 4  # weights of a row


def print_matrices(spec: Spec, style: Style, layer: str | None = None) -> str:
    """Returns the LaTeX of a checked text, or of one of its layers, in matrices."""
    if any(candidate.name == style.attention for candidate in spec.layers):  # a layer of that name is something else
        style = replace(style, attention="")
    lines = write_formulas(spec, style)
    joining = [name for name, candidate in lines.items() if candidate.joins]
    if style.heads and len(joining) == 1:
        lines = write_formulas(spec, style, {joining[0]: style.heads})
    about = tuple(line.format(vectors="columns" if style.columns else "rows") for line in _ABOUT)
    node = next((candidate for candidate in spec.layers if candidate.name == layer), replace(spec, about=(*spec.about, *about)))
    return latex(node, lambda candidate: _print_layer(candidate, lines[candidate.name]))


def _print_layer(layer: Layer, lines: LayerFormulas) -> Iterator[PrintedLine]:
    yield from LATEX.remarks(layer.above, 0)
    yield LATEX.head(layer, _print_head(lines))
    for kind, heading in (("trained", "weights"), ("buffer", "buffers")):
        entries = [_print_weight(weight, lines) for weight in layer.weights if weight.kind == kind]
        for position in range(0, len(entries), _ROW):
            yield PrintedLine(1, LATEX.keyword(heading) + ", ".join(entries[position : position + _ROW]))
    for weight in (weight for weight in layer.weights if weight.kind == "instance"):
        named = f"{LATEX.symbol(weight.name)}{LATEX.sign(':')} {LATEX.symbol(weight.layer)}"
        yield PrintedLine(1, LATEX.keyword("weights") + named, comment=weight.comment)
    formulas = {
        id(statement): lines.found.get(id(of))
        for statement, of in zip(equations(layer.body), equations(lines.layer.body), strict=True)
    }
    for statement in layer.body:
        yield from LATEX.statement(statement, 1, lambda written: _print_equation(written, formulas[id(written)], lines))


def _print_head(lines: LayerFormulas) -> str:
    name = LATEX.operator(lines.translator.layer(lines.layer.name), ())
    return f"{name}({', '.join(piece.text for piece in lines.head)})"


# `W_{Q} \in \mathbb{R}^{d \times d_k}`
def _print_weight(weight: Weight, lines: LayerFormulas) -> str:
    of = lines.translator.names
    axes = [index.letter for index in weight.indices if axis_of(index.letter) not in lines.labels.chosen]
    rows, cols = (axes[0], axes[1]) if len(axes) == 2 else ("", "".join(axes[:1]))
    text = of.letter(Tensor(weight.name, weight.indices), rows, cols) + "?" * weight.optional
    sizes = r" \times ".join(of.size(letter, Level.TERM) for letter in axes)
    tie = f" = {of.letter(weight.default, rows, cols)}" if isinstance(weight.default, Tensor) else ""
    return f"{text}{tie} \\in \\mathbb{{R}}^{{{sizes}}}" if sizes else f"{text}{tie}"


# A line without a form stays in indices, with its matrix on the left and the reason.
def _print_equation(written: Equation, line: Formula | None, lines: LayerFormulas) -> PrintedLine | None:
    if line is None:  # another line has taken it in
        return None
    of, left, tensor = lines.translator.names, line.left, line.equation.left
    if left is None or line.right is None:
        row = replace(LATEX.declaration(written), comment="; ".join(filter(None, (written.comment, f"in indices: {line.why}"))))
        whole = f"{left.text} = [{latex(tensor)}], \\quad " if left and left.rows and left.cols else ""
        return replace(row, text=whole + row.text)
    text = left.text
    if written.relation == "return":  # the result of a layer, or its value for one label
        text = add_scripts(_print_head(lines), of.labels(tensor, *left.shape) if isinstance(tensor, Tensor) else [])
    if of.style.attention and (read := _list_attended(line)):
        text += f" = \\mathrm{{{of.style.attention}}}({', '.join(read)})"
    sign = LATEX.sign("<-" if written.relation == "<-" else "=")
    return PrintedLine(0, f"{text} {sign} {line.right.text}", written.note, written.comment)


# `Q`, `K` and `V` of a formula of attention.
def _list_attended(line: Formula) -> dict[str, None]:
    translator, definitions = line.translator, {name: equation.right for name, equation in line.translator.taken.items()}
    if not is_attention(line.equation, definitions):
        return {}
    unread = {*definitions, *translator.names.weights}
    tensors = (e for e in expand(line.equation.right, definitions) if isinstance(e, Tensor) and e.name not in unread)
    pieces = [translator.translate_tensor(e) for e in tensors if all(isinstance(slot, Index) for slot in e.slots)]
    return dict.fromkeys(m.text for m in pieces if m.rows and m.cols and axis_of(m.rows) != axis_of(m.cols))
