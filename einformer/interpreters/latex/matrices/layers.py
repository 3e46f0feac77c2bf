r"""Prints a text in matrices: line for line as in indices, but `Y = \mathrm{softmax}(Q K^{\top} / \sqrt{d_k}) V`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from einformer.interpreters.latex.matrices.lines import Formula, LayerFormulas, forms
from einformer.interpreters.latex.matrices.naming import Style, expanded, is_attention, scripted
from einformer.interpreters.latex.pages import LATEX, latex
from einformer.language.calls import axis_of
from einformer.language.printer import Level, PrintedLine
from einformer.language.tree import Equation, Index, Layer, Spec, Tensor, Weight
from einformer.language.walk import equations

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
    yield from LATEX.head(layer, _head(lines))
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
