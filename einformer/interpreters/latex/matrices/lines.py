"""Writes each line of a layer in matrices, where it has such a form, and merges lines that are one formula."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, combinations
from types import MappingProxyType

from einformer.interpreters.latex.matrices.algebra import NoForm, Piece, Printer
from einformer.interpreters.latex.matrices.labels import Axes, Labels, labels, passed
from einformer.interpreters.latex.matrices.naming import Style, expanded, is_attention, names, scripted
from einformer.interpreters.latex.matrices.translation import Translator
from einformer.interpreters.latex.pages import LATEX, latex
from einformer.language.calls import axis_of, callees
from einformer.language.primitives import primitive
from einformer.language.printer import Level, PrintedLine
from einformer.language.scope import Scope
from einformer.language.sizes import Legend
from einformer.language.tree import Apply, Equation, Expression, Group, Index, Layer, Loop, Spec, Statement, Tensor, Weight
from einformer.language.walk import equations, loops, map_equations, subexpressions


@dataclass(frozen=True, slots=True)
class Formula:
    """An equation, its sums written out, and its sides in matrices; where there is no right one, `why`."""

    equation: Equation
    translator: Translator
    left: Piece | None = None
    right: Piece | None = None
    why: str = ""


@dataclass(slots=True)
class LayerFormulas:
    """The lines of a layer by their equations; equations that another line has `taken` in are not among them."""

    layer: Layer  # its sums written out
    labels: Labels
    translator: Translator
    found: dict[int, Formula] = field(default_factory=dict)
    taken: dict[str, Equation] = field(default_factory=dict)

    @property
    def head(self) -> list[Piece]:
        """What the layer is given."""
        given = (self.formula(Equation(formal, "=", formal)).left for formal in self.layer.formals)
        return [each for each in given if each]

    @property
    def joins(self) -> bool:
        """Does a line put heads side by side?"""
        return any(map(_has_group, self.taken.values())) or any(_has_group(x.equation) for x in self.found.values() if x.right)

    def formula(self, equation: Equation) -> Formula:
        """The line with as few labels as it can have, else with one more than the layer's, else none."""
        translator, why = replace(self.translator, taken=self.taken), ""
        for choice in self._choices(equation):
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

    def _choices(self, equation: Equation) -> Iterator[Axes]:
        """Which labels an equation may have: few first, those of a pair together, then one more than the layer's."""
        of = self.labels
        definitions = {name: each.right for name, each in self.taken.items()}
        present = chain(subexpressions(equation.left), expanded(equation.right, definitions))
        axes = dict.fromkeys(axis_of(e.letter) for e in present if isinstance(e, Index))
        free = [axis for axis in axes if axis in of.chosen and axis not in of.dropped]
        some = [frozenset(each) for n in range(len(free) + 1) for each in combinations(free, n)]
        apart = [each for each in some if any(len(each & pair) == 1 and pair <= axes.keys() for pair in of.paired)]
        order = sorted(some, key=lambda each: (each in apart, len(each - of.said), len(each)))
        yield from (of.dropped.union(each, of.chosen - axes.keys()) for each in order)
        yield from (of.chosen | {axis} for axis in axes if axis not in of.chosen)

    # ------------------------------------------------------------------------------------------ lines as one formula

    def read(self, body: Sequence[Statement]) -> None:
        """Writes the lines of a body; a part that only one other line reads, in the same turn, is taken in there."""
        for at, statement in enumerate(body):
            if isinstance(statement, Loop):
                self.read(statement.body)
                continue
            line = self.formula(statement)
            if not (self._is_part(line) and self._is_taken_in(statement, body[at + 1 :])):
                self.found[id(statement)] = line

    def _is_part(self, line: Formula) -> bool:
        """Does a line put heads side by side, or define a matrix between positions that has no name of its own?"""
        left, equation = line.left, line.equation
        if left is None or line.right is None or equation.relation != "=":
            return False
        if _has_group(equation):
            return True
        square = bool(left.rows) and axis_of(left.rows) == axis_of(left.cols)
        return square and not (self.translator.out.names.style.weights and any(map(_keeps, subexpressions(equation.right))))

    def _is_taken_in(self, equation: Equation, after: Sequence[Statement]) -> bool:
        """Is a line read once, by a line after it that has a form with it, before anything that it reads is new?"""
        name = equation.left.name
        if sum(each.left.name == name for each in equations(self.layer.body)) > 1:
            return False
        (*reads,) = (each for each in equations(self.layer.body) for other in _read(each) if other == name)
        at = next((at for at, each in enumerate(after) if len(reads) == 1 and each is reads[0]), None)
        between = () if at is None else equations(tuple(after[:at]))
        if at is None or not self._needs(equation).isdisjoint(each.left.name for each in between):
            return False
        self.taken[name] = equation
        if self.formula(reads[0]).right is None:
            del self.taken[name]
        return name in self.taken

    def _needs(self, equation: Equation) -> set[str]:
        """The tensors that a line reads, also in lines that it has taken in."""
        own = set(_read(equation))
        return own.union(*(self._needs(self.taken[name]) for name in own & self.taken.keys()))


def _keeps(e: Expression) -> bool:
    row = primitive(e.name, bool(e.indices)) if isinstance(e, Apply) else None
    return row is not None and row.kind == "keeping"


def _has_group(equation: Equation) -> bool:
    return any(isinstance(slot, Group) for slot in getattr(equation.left, "slots", ()))


def _read(equation: Equation) -> Iterable[str]:
    return (e.name for e in subexpressions(equation.right) if isinstance(e, Tensor))


def forms(
    spec: Spec, style: Style, called: Mapping[str, str] = MappingProxyType({}), printer: type[Printer] = Printer
) -> dict[str, LayerFormulas]:
    """The lines of each layer of a checked text, as its author wrote it; `called` are layers of other names."""
    written, legend = {layer.name: layer for layer in spec.layers}, Legend.of(spec)
    scopes = {name: _scope(layer, written) for name, layer in written.items()}
    layers = {name: replace(each, body=map_equations(each.body, scopes[name].equation)) for name, each in written.items()}
    carried: dict[str, Axes] = {}
    for layer in layers.values():
        passed(layer, callees(layer, layers), carried)

    def of(layer: Layer) -> LayerFormulas:
        own = labels(layer)
        out = printer(names(layer, own.dropped, legend, style), called)
        lines = LayerFormulas(layer, own, Translator(out, scopes[layer.name], own.chosen, carried, own.down))
        lines.read(layer.body)
        return lines

    return {name: of(layer) for name, layer in layers.items()}


def _scope(layer: Layer, layers: Mapping[str, Layer]) -> Scope:
    return Scope(callees(layer, layers), frozenset(loop.index.letter for loop in loops(layer.body)))


_ABOUT = (
    "in matrices: functions work on each number, operators as softmax on each row, or on a vector; vectors are {vectors}",
    "a bold 1 is a column of ones, E[x] are the rows of E that x names; what has no such form stays in indices",
)
_ROW = 4  # weights of a row


def matrices(spec: Spec, style: Style, layer: str | None = None) -> str:
    """The LaTeX of a checked text, as its author wrote it, or of one of its layers, in matrices."""
    if any(each.name == style.attention for each in spec.layers):  # a layer of that name is something else
        style = replace(style, attention="")
    lines = forms(spec, style)
    joining = [name for name, each in lines.items() if each.joins]
    if style.heads and len(joining) == 1:
        lines = forms(spec, style, {joining[0]: style.heads})
    about = tuple(line.format(vectors="columns" if style.columns else "rows") for line in _ABOUT)
    node = next((each for each in spec.layers if each.name == layer), replace(spec, about=(*spec.about, *about)))
    return latex(node, lambda each: _layer(each, lines[each.name]))


def _layer(layer: Layer, lines: LayerFormulas) -> Iterator[PrintedLine]:
    """The head, the weights with their sizes, and the lines of the body."""
    yield from LATEX.said(layer.above, 0)
    yield LATEX.head(layer, _head(lines))
    for kind, heading in (("trained", "weights"), ("buffer", "buffers")):
        entries = [_weight(weight, lines) for weight in layer.weights if weight.kind == kind]
        for at in range(0, len(entries), _ROW):
            yield PrintedLine(1, LATEX.keyword(heading) + ", ".join(entries[at : at + _ROW]))
    for weight in (weight for weight in layer.weights if weight.kind == "instance"):
        named = f"{LATEX.symbol(weight.name)}{LATEX.sign(':')} {LATEX.symbol(weight.layer)}"
        yield PrintedLine(1, LATEX.keyword("weights") + named, comment=weight.comment)
    formulas = {
        id(each): lines.found.get(id(of)) for each, of in zip(equations(layer.body), equations(lines.layer.body), strict=True)
    }
    for each in layer.body:
        yield from LATEX.statement(each, 1, lambda written: _equation(written, formulas[id(written)], lines))


def _head(lines: LayerFormulas) -> str:
    """The layer and what it is given."""
    name = LATEX.operator(lines.translator.out.layer(lines.layer.name), ())
    return f"{name}({', '.join(each.text for each in lines.head)})"


def _weight(weight: Weight, lines: LayerFormulas) -> str:
    r"""`W_{Q} \in \mathbb{R}^{d \times d_k}`."""
    of = lines.translator.out.names
    axes = [index.letter for index in weight.indices if axis_of(index.letter) not in lines.labels.chosen]
    rows, cols = (axes[0], axes[1]) if len(axes) == 2 else ("", "".join(axes[:1]))
    text = of.letter(Tensor(weight.name, weight.indices), rows, cols) + "?" * weight.optional
    sizes = r" \times ".join(of.size(letter, Level.TERM) for letter in axes)
    tie = f" = {of.letter(weight.default, rows, cols)}" if isinstance(weight.default, Tensor) else ""
    return f"{text}{tie} \\in \\mathbb{{R}}^{{{sizes}}}" if sizes else f"{text}{tie}"


def _equation(written: Equation, line: Formula | None, lines: LayerFormulas) -> PrintedLine | None:
    """A line in matrices; where it has no form, in indices, with what it defines as a matrix and the reason."""
    if line is None:  # another line has taken it in
        return None
    of, left, tensor = lines.translator.out.names, line.left, line.equation.left
    if left is None or line.right is None:
        row = replace(LATEX.declared(written), comment="; ".join(filter(None, (written.comment, f"in indices: {line.why}"))))
        whole = f"{left.text} = [{latex(tensor)}], \\quad " if left and left.rows and left.cols else ""
        return replace(row, text=whole + row.text)
    text = left.text
    if written.relation == "return":  # what a layer returns; where it has labels, the value of one of them
        text = scripted(_head(lines), of.labels(tensor, *left.shape) if isinstance(tensor, Tensor) else [])
    if of.style.attention and (read := _attended(line)):
        text += f" = \\mathrm{{{of.style.attention}}}({', '.join(read)})"
    sign = LATEX.sign("<-" if written.relation == "<-" else "=")
    return PrintedLine(0, f"{text} {sign} {line.right.text}", written.note, written.comment)


def _attended(line: Formula) -> dict[str, None]:
    """The matrices that a formula of attention reads, `Q`, `K` and `V`; none of another formula."""
    translator, definitions = line.translator, {name: equation.right for name, equation in line.translator.taken.items()}
    if not is_attention(line.equation, definitions):
        return {}
    unread = {*definitions, *translator.out.names.weights}
    tensors = (e for e in expanded(line.equation.right, definitions) if isinstance(e, Tensor) and e.name not in unread)
    pieces = [translator.tensor(e) for e in tensors if all(isinstance(slot, Index) for slot in e.slots)]
    return dict.fromkeys(m.text for m in pieces if m.rows and m.cols and axis_of(m.rows) != axis_of(m.cols))
