"""Prints a text in matrices: each line of a layer that has a form, and lines that only one other line reads as parts of it.

Labels are the axes of a layer that are neither rows nor columns of its matrices: sequences, heads, experts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, combinations, permutations
from types import MappingProxyType

from einformer.interpreters.latex.formulas import (
    LayerNames,
    Matrix,
    MatrixStyle,
    NoForm,
    Translator,
    add_scripts,
    expand,
    is_attention,
    name_tensors,
)
from einformer.interpreters.latex.pages import Latex, latex
from einformer.language.calls import axis_of, callees, calls, slot_letters
from einformer.language.primitives import primitive
from einformer.language.printer import Level, PrintedLine, Written
from einformer.language.scope import Scope
from einformer.language.sizes import Legend
from einformer.language.tree import Apply, Equation, Expression, Group, Index, Layer, Loop, Spec, Statement, Tensor, Weight
from einformer.language.walk import children, equations, find_all, loops, map_equations, slots_of, subexpressions

MOST = 5  # labels of one layer
_ROW = 4  # weights of a line
Axes = frozenset[str]

# ----------------------------------------------------------------------------------------------------------- the page

_ABOUT = (
    "in matrices: functions work on each number, operators as softmax on each row, or on a vector; vectors are {vectors}",
    "a bold 1 is a column of ones, E[x] are the rows of E that x names; what has no such form stays in indices",
)


# Returns the LaTeX of a checked text, or of one of its layers, in matrices.
def print_matrices(spec: Spec, style: MatrixStyle, layer: str | None = None) -> str:
    if any(candidate.name == style.attention for candidate in spec.layers):  # a layer of that name is something else
        style = replace(style, attention="")
    formulas = write_formulas(spec, style)
    joining = [name for name, candidate in formulas.items() if candidate.joins]
    if style.heads and len(joining) == 1:
        formulas = write_formulas(spec, style, {joining[0]: style.heads})
    about = tuple(line.format(vectors="columns" if style.columns else "rows") for line in _ABOUT)
    node = next((candidate for candidate in spec.layers if candidate.name == layer), replace(spec, about=(*spec.about, *about)))
    return latex(node, _Page(formulas))


class _Page(Latex):
    """Prints the layers of a text in matrices. A line without a form stays in indices, with the reason."""

    def __init__(self, formulas: Mapping[str, LayerFormulas]) -> None:
        super().__init__()
        self.formulas = formulas

    def layer(self, layer: Layer) -> Iterator[PrintedLine]:
        self.lines = self.formulas[layer.name]
        pairs = zip(equations(layer.body), equations(self.lines.layer.body), strict=True)
        self.written = {id(written): self.lines.found.get(id(elaborated)) for written, elaborated in pairs}
        return super().layer(layer)

    # `MLP(Z)`.
    def signature(self, layer: Layer) -> str:
        return f"{self.operator(self.lines.translator.layer(layer.name), ())}({', '.join(m.text for m in self.lines.head)})"

    # `W_{Q} \in \mathbb{R}^{d \times d_k}`.
    def weight(self, weight: Weight) -> str:
        if weight.kind == "instance":
            return super().weight(weight)
        names = self.lines.translator.names
        axes = [index.letter for index in weight.indices if axis_of(index.letter) not in self.lines.labels.chosen]
        rows, cols = (axes[0], axes[1]) if len(axes) == 2 else ("", "".join(axes[:1]))
        text = names.letter(Tensor(weight.name, weight.indices), rows, cols) + "?" * weight.optional
        tie = f" = {names.letter(weight.default, rows, cols)}" if isinstance(weight.default, Tensor) else ""
        sizes = r" \times ".join(names.size(letter, Level.TERM) for letter in axes)
        return text + tie + (f" \\in \\mathbb{{R}}^{{{sizes}}}" if sizes else "")

    def fits(self, row: list[Weight], weight: Weight) -> bool:
        return len(row) < _ROW

    def statement(self, node: Statement, indent: int) -> Iterator[PrintedLine]:
        return iter(()) if self.written.get(id(node), node) is None else super().statement(node, indent)

    def declaration(self, node: Written) -> PrintedLine:
        line = self.written[id(node)] if isinstance(node, Equation) else None
        if not isinstance(node, Equation) or line is None:
            return super().declaration(node)
        left, right, plain = line.left, line.right, super().declaration(node)
        if left and right:
            sign = self.sign("<-" if node.relation == "<-" else "=")
            return replace(plain, text=f"{self.left_side(line, left)} {sign} {right.text}")
        whole = f"{left.text} = [{self.left(line.equation.left)}], \\quad " if left and left.rows and left.cols else ""
        comment = "; ".join(filter(None, (node.comment, f"in indices: {line.why}")))
        return replace(plain, text=whole + plain.text, comment=comment)

    # The left side is the result of a layer or its value for one label, or the formula of attention.
    def left_side(self, line: MatrixFormula, left: Matrix) -> str:
        names, tensor, text = line.translator.names, line.equation.left, left.text
        if line.equation.relation == "return":
            labels = names.labels(tensor, *left.shape) if isinstance(tensor, Tensor) else []
            text = add_scripts(self.signature(self.lines.layer), labels)
        if names.style.attention and (read := _list_attended(line)):
            text += f" = \\mathrm{{{names.style.attention}}}({', '.join(read)})"
        return text


# `Q`, `K` and `V` of a formula of attention.
def _list_attended(line: MatrixFormula) -> dict[str, None]:
    translator, definitions = line.translator, {name: equation.right for name, equation in line.translator.taken.items()}
    if not is_attention(line.equation, definitions):
        return {}
    unread = {*definitions, *translator.names.weights}
    tensors = (e for e in expand(line.equation.right, definitions) if isinstance(e, Tensor) and e.name not in unread)
    pieces = [translator.translate_tensor(e) for e in tensors if all(isinstance(slot, Index) for slot in e.slots)]
    return dict.fromkeys(m.text for m in pieces if m.rows and m.cols and axis_of(m.rows) != axis_of(m.cols))


# ------------------------------------------------------------------------------------------------- the lines of layers


@dataclass(frozen=True, slots=True)
class MatrixFormula:
    """An equation with its sums written out, and its sides in matrices, or the reason `why` there is no right side."""

    equation: Equation
    translator: Translator
    left: Matrix | None = None
    right: Matrix | None = None
    why: str = ""


@dataclass(slots=True)
class LayerFormulas:
    """The lines of a layer by their equations, without the equations that another line has `taken` in."""

    layer: Layer  # its sums written out
    labels: Labels
    translator: Translator
    found: dict[int, MatrixFormula] = field(default_factory=dict)
    taken: dict[str, Equation] = field(default_factory=dict)

    @property
    def head(self) -> list[Matrix]:
        formulas = (self.formula(Equation(formal, "=", formal)).left for formal in self.layer.formals)
        return [piece for piece in formulas if piece]

    @property
    def joins(self) -> bool:
        return any(map(_has_group, [*self.taken.values(), *(line.equation for line in self.found.values() if line.right)]))

    # A line has as few labels as possible, else one more than its layer, else no formula.
    def formula(self, equation: Equation) -> MatrixFormula:
        why, own = "", replace(self.translator, taken=self.taken)
        for choice in self._list_choices(equation):
            translator, more = replace(own, labels=choice), choice - own.labels
            try:
                self._refuse_parts(equation, choice)
                left, right = translator.sides(equation)
            except NoForm as none:
                why = why if more else str(none)
                continue
            if left.letters or not more:
                return MatrixFormula(equation, translator, left, right)
        try:
            return MatrixFormula(equation, own, own.matrix(equation.left), why=why)
        except NoForm:
            return MatrixFormula(equation, own, why=why)

    # The first numbers of a longer axis, as `p_y` of a tensor `p_x`, have no letter of their own.
    def _refuse_parts(self, equation: Equation, labels: Axes) -> None:
        lefts = [*self.layer.formals, *(line.left for line in equations(self.layer.body))]
        slots = {left.name: left.slots for left in lefts if isinstance(left, Tensor)}
        for e in find_all(Tensor, equation.right):
            for slot, own in zip(e.slots, slots.get(e.name, ()), strict=False):
                axes = [axis_of(index.letter) for index in (slot, own) if isinstance(index, Index)]
                if len({*axes}) == 2 and axes[0] not in labels:
                    raise NoForm(f"of {e.name} the first numbers are read")

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

    # A part that only one other line reads, in the same turn, is merged into it.
    def read(self, body: Sequence[Statement]) -> None:
        for place, statement in enumerate(body):
            if isinstance(statement, Loop):
                self.read(statement.body)
                continue
            line = self.formula(statement)
            if not (self._is_part(line) and self._is_taken_in(statement, body[place + 1 :])):
                self.found[id(statement)] = line

    # A part puts heads side by side, or defines a matrix between positions without a name of its own.
    def _is_part(self, line: MatrixFormula) -> bool:
        left, equation = line.left, line.equation
        if left is None or line.right is None or equation.relation != "=":
            return False
        keeps = any(_kind_of(e) == "keeping" for e in find_all(Apply, equation.right))
        square = bool(left.rows) and axis_of(left.rows) == axis_of(left.cols)
        return _has_group(equation) or (square and not (self.translator.names.style.weights and keeps))

    # The tensor is read once, by a later line that has a form with it, before anything that it reads changes.
    def _is_taken_in(self, equation: Equation, after: Sequence[Statement]) -> bool:
        name, lines = equation.left.name, list(equations(self.layer.body))
        reads = [line for line in lines for other in _list_reads(line) if other == name]
        place = next((place for place, line in enumerate(after) if len(reads) == 1 and line is reads[0]), None)
        if place is None or sum(line.left.name == name for line in lines) > 1:
            return False
        if not self._needs(equation).isdisjoint(line.left.name for line in equations(tuple(after[:place]))):
            return False
        self.taken[name] = equation
        if self.formula(reads[0]).right is None:
            del self.taken[name]
        return name in self.taken

    def _needs(self, equation: Equation) -> set[str]:
        own = set(_list_reads(equation))
        return own.union(*(self._needs(self.taken[name]) for name in own & self.taken.keys()))


def _kind_of(e: Apply) -> str:
    row = primitive(e.name, bool(e.indices))
    return row.kind if row else ""


def _has_group(equation: Equation) -> bool:
    return any(isinstance(slot, Group) for slot in slots_of(equation.left))


def _list_reads(equation: Equation) -> Iterable[str]:
    return (e.name for e in find_all(Tensor, equation.right))


# Returns the lines of each layer of a checked text, as its author wrote it. `called` are layers with other names.
def write_formulas(
    spec: Spec, style: MatrixStyle, called: Mapping[str, str] = MappingProxyType({}), translate: type[Translator] = Translator
) -> dict[str, LayerFormulas]:
    written, legend = {layer.name: layer for layer in spec.layers}, Legend.of(spec)
    scopes = {name: Scope.of(layer, written) for name, layer in written.items()}
    layers = {name: replace(x, body=map_equations(x.body, scopes[name].equation)) for name, x in written.items()}
    carried: dict[str, Axes] = {}
    for layer in layers.values():
        find_passed(layer, callees(layer, layers), carried)

    def write(layer: Layer) -> LayerFormulas:
        own = find_labels(layer)
        names: LayerNames = name_tensors(layer, own.dropped, legend, style)
        lines = LayerFormulas(layer, own, translate(names, called, scopes[layer.name], own.chosen, carried, own.down))
        lines.read(layer.body)
        return lines

    return {name: write(layer) for name, layer in layers.items()}


# ---------------------------------------------------------------------------------------------------- labels of a layer


@dataclass(frozen=True, slots=True)
class Labels:
    """The labels of a layer: all, those without a printed sign, those that weights have, and pairs of which one never
    stands without the other, as groups of heads and the heads of a group. `down` are the axes of rows, positions as a rule.
    """

    chosen: Axes
    dropped: Axes
    said: Axes
    paired: tuple[Axes, ...]
    down: Axes


def find_labels(layer: Layer) -> Labels:
    chosen = _choose(layer)
    printed, dropped = chosen & set(_list_weight_axes(layer)), find_unprinted(layer, chosen)
    defined = [frozenset[str]().union(*slots) for slots in _list_slots(layer)]
    pairs = (pair for pair in permutations(sorted(printed), 2) if all(pair[0] in axes for axes in defined if pair[1] in axes))
    plain = ([axis for axis in map(axis_of, slot_letters(formal)) if axis not in dropped | printed] for formal in layer.formals)
    down = frozenset(axes[0] for axes in plain if len(axes) == 2)
    return Labels(chosen, dropped, printed, tuple(map(frozenset, pairs)), down)


# As few as leave no tensor more than two axes; of several choices those that are rarely summed over (heads rather than
# features), and that most weights have (experts rather than features).
def _choose(layer: Layer) -> Axes:
    slots, weighted, summed = list(_list_slots(layer)), Counter(_list_weight_axes(layer)), Counter(_list_summed(layer))
    turns = _find_turns(layer)
    order = list(dict.fromkeys(axis for slot in slots for axes in slot for axis in axes if axis not in turns))

    def rate(choice: Iterable[str]) -> tuple[int, ...]:
        uncovered = sum(sum(not axes <= turns.union(choice) for axes in axes_of_slot) > 2 for axes_of_slot in slots)
        return uncovered, sum(summed[axis] for axis in choice), -sum(weighted[axis] for axis in choice)

    best: tuple[str, ...] = ()
    for n in range(min(MOST, len(order)) + 1):
        best = min(best, *combinations(order, n), key=rate)
        if not rate(best)[0]:
            break
    return turns.union(best)


# An axis has no printed sign if no weight has it and only whole tensors are read along it.
def find_unprinted(layer: Layer, axes: Axes) -> Axes:
    return axes.difference(_list_weight_axes(layer), _list_summed(layer), _list_separate(layer), _find_turns(layer))


# No two places of such an axis meet in the layer, as with rows of a batch. `known` caches the answers.
def find_passed(layer: Layer, callees: Mapping[str, Layer], known: dict[str, Axes]) -> Axes:
    if layer.name not in known:
        known[layer.name] = find_unprinted(layer, _find_heads(layer))
        for callee in {e.name: callees[e.name] for e in calls(layer) if e.name in callees}.values():
            known[layer.name] -= _find_heads(callee) - find_passed(callee, callees, known)
    return known[layer.name]


def _find_heads(layer: Layer) -> Axes:
    return frozenset(axis_of(letter) for formal in layer.formals for letter in slot_letters(formal))


def _find_turns(layer: Layer) -> Axes:
    return frozenset(axis_of(loop.index.letter) for loop in loops(layer.body))


def _list_slots(layer: Layer) -> Iterator[list[Axes]]:
    for left in (*layer.formals, *(equation.left for equation in equations(layer.body))):
        yield [frozenset(map(axis_of, slot_letters(Tensor("", (slot,))))) for slot in slots_of(left)]
    for weight in layer.weights:
        yield [frozenset({axis_of(index.letter)}) for index in weight.indices]


def _list_weight_axes(layer: Layer) -> Iterator[str]:
    return (axis_of(index.letter) for weight in layer.weights for index in weight.indices)


def _list_summed(layer: Layer) -> Iterator[str]:
    return (axis_of(index.letter) for e in calls(layer) if e.name == "sum" for index in e.indices)


# In arithmetic, in groups and below operators, an index stands elsewhere than alone in a slot.
def _list_separate(layer: Layer) -> Iterator[str]:
    for equation in equations(layer.body):
        for e in (*subexpressions(equation.left), *subexpressions(equation.right)):
            yield from (axis_of(x.letter) for part in _list_parts(e) for x in find_all(Index, part))


def _list_parts(e: Expression) -> Iterable[Expression]:
    match e:
        case Index() if e.letter.endswith("'"):
            return (e,)
        case Tensor():
            return (slot for slot in e.slots if not isinstance(slot, Index | Tensor))
        case _:
            return (*getattr(e, "indices", ()), *(child for child in children(e) if isinstance(child, Index)))
