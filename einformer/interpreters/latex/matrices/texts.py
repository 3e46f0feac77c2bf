r"""How does a text look in matrices? Line for line as in indices, but `Y = \mathrm{softmax}(Q K^{\top} / \sqrt{d_k}) V`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from einformer.interpreters.latex.formulas import flat, operator, symbol
from einformer.interpreters.latex.matrices.algebra import letters
from einformer.interpreters.latex.matrices.lines import Line, Lines, forms
from einformer.interpreters.latex.matrices.names import Names, is_attention, names
from einformer.interpreters.latex.matrices.printer import Printer
from einformer.interpreters.latex.matrices.style import Style, scripted
from einformer.interpreters.latex.matrices.tree import Concat, Letter, Matrix, inside
from einformer.interpreters.latex.texts import Line as Row
from einformer.interpreters.latex.texts import declaration, latex, said
from einformer.language.calls import axis_of
from einformer.language.printer import Level
from einformer.language.sizes import Legend
from einformer.language.tree import Equation, Layer, Loop, Spec, Statement, Tensor, Weight

_ABOUT = (
    "in matrices: functions work on each number, operators as softmax on each row, or on a vector; vectors are {vectors}",
    "a bold 1 is a column of ones, E[x] are the rows of E that x names; what has no such form stays in indices",
)
_ROW = 4  # weights of a row


def matrices(spec: Spec, style: Style, layer: str | None = None) -> str:
    """The LaTeX of a checked text, as its author wrote it, or of one of its layers, in matrices."""
    legend, found = Legend.of(spec), forms(spec, style.columns, bool(style.weights))
    if style.attention in found:  # a layer of that name is something else
        style = replace(style, attention="")
    called = _called(found, style)
    written = {
        each.name: _Layer(found[each.name], Printer(names(found[each.name], legend, style), called)) for each in spec.layers
    }
    about = tuple(line.format(vectors="columns" if style.columns else "rows") for line in _ABOUT)
    node = next((each for each in spec.layers if each.name == layer), replace(spec, about=(*spec.about, *about)))
    return latex(node, lambda each: written[each.name].rows(each))


def _called(found: Mapping[str, Lines], style: Style) -> dict[str, str]:
    """The layer that a document has a name for: that which puts heads side by side."""
    joining = [name for name, lines in found.items() if any(isinstance(x, Concat) for line in lines for x in _right(line))]
    return {joining[0]: style.heads} if style.heads and len(joining) == 1 else {}


def _right(line: Line) -> Iterator[Matrix]:
    return inside(line.right) if line.right else iter(())


@dataclass(frozen=True, slots=True)
class _Layer:
    """Writes the rows of one layer."""

    lines: Lines
    printer: Printer

    @property
    def names(self) -> Names:
        """What its tensors are called."""
        return self.printer.names

    def rows(self, layer: Layer) -> Iterator[Row]:
        """The head, the weights with their sizes, and the lines of the body."""
        time = f"\\ \\textbf{{causal in}}\\ {symbol(layer.time.letter)}" if layer.time else ""
        yield from said(layer.above, 0)
        yield Row(0, f"\\textbf{{{layer.kind}}}\\ {self.head()}{time}\\colon", layer.note, layer.comment)
        for kind, heading in (("trained", "weights"), ("buffer", "buffers")):
            entries = [self.weight(weight) for weight in layer.weights if weight.kind == kind]
            for at in range(0, len(entries), _ROW):
                yield Row(1, f"\\textbf{{{heading}}}\\ {', '.join(entries[at : at + _ROW])}")
        for weight in layer.weights:
            if weight.kind == "instance":
                yield Row(
                    1, f"\\textbf{{weights}}\\ {symbol(weight.name)}\\colon {symbol(weight.layer)}", comment=weight.comment
                )
        yield from self.statements(layer.body, self.lines.layer.body, 1)

    def head(self) -> str:
        """The layer and what it is given."""
        name = operator(self.printer.layer(self.lines.layer.name), ())
        return f"{name}({', '.join(map(self.printer.text, self.lines.head))})"

    def value(self, left: Matrix) -> str:
        """What a layer returns; where it has labels, that of one of them."""
        labels = self.names.labels(left) if isinstance(left, Letter) else []
        return scripted(self.head(), labels)

    def weight(self, weight: Weight) -> str:
        r"""`W_{Q} \in \mathbb{R}^{d \times d_k}`."""
        axes = [index.letter for index in weight.indices if axis_of(index.letter) not in self.lines.labels]
        rows, cols = (*axes, "", "")[:2] if len(axes) == 2 else ("", "".join(axes[:1]))
        text = self.names.letter(Letter(Tensor(weight.name, weight.indices), rows, cols)) + "?" * weight.optional
        sizes = r" \times ".join(flat(self.names.legend.axes[axis_of(letter)].size, Level.TERM) for letter in axes)
        default = weight.default
        tie = f" = {self.names.letter(Letter(default, rows, cols))}" if isinstance(default, Tensor) else ""
        return f"{text}{tie} \\in \\mathbb{{R}}^{{{sizes}}}" if sizes else f"{text}{tie}"

    def statements(self, written: tuple[Statement, ...], body: tuple[Statement, ...], indent: int) -> Iterator[Row]:
        """The statements as written, beside those whose sums are written out, by which lines are known."""
        for before, statement in zip(written, body, strict=True):
            match before, statement:
                case Equation(), Equation():
                    if line := self.lines.found.get(id(statement)):
                        yield from said(before.above, indent)
                        yield self.equation(before, line, indent)
                case Loop(), Loop():
                    bound = f"{symbol(before.index.letter)} < {flat(before.count, Level.SUM)}"
                    yield from said(before.above, indent)
                    yield Row(indent, f"\\textbf{{for}}\\ {bound}\\colon", comment=before.comment)
                    yield from self.statements(before.body, statement.body, indent + 1)
                case _:
                    raise AssertionError(before)

    def equation(self, written: Equation, line: Line, indent: int) -> Row:
        """A line in matrices; where it has no form, in indices, with the reason."""
        if line.left is None or line.right is None:
            return self.in_indices(written, line, indent)
        sign = r"\leftarrow" if written.relation == "<-" else "="
        left = self.value(line.left) if written.relation == "return" else self.printer.text(line.left)
        middle = f" = {self.attention(line.right)}" if is_attention(line) and self.names.style.attention else ""
        return Row(indent, f"{left}{middle} {sign} {self.printer.text(line.right)}", written.note, written.comment)

    def in_indices(self, written: Equation, line: Line, indent: int) -> Row:
        """A line that has no form, what it defines as a matrix, and the reason."""
        why = "; ".join(filter(None, (written.comment, f"in indices: {line.why}")))
        row = replace(declaration(written), indent=indent, comment=why)
        if not isinstance(line.left, Letter) or len(letters(line.left)) < 2:
            return row
        return replace(row, text=f"{self.printer.text(line.left)} = [{latex(line.left.of)}], \\quad {row.text}")

    def attention(self, right: Matrix) -> str:
        r"""`\mathrm{Attention}(Q, K, V)`: the formula by its name, of the matrices in it."""
        read = [each for each in inside(right) if isinstance(each, Letter) and each.rows and each.cols]
        whole = [each for each in read if each.of.name not in self.names.weights and not _square(each)]
        texts = dict.fromkeys(map(self.names.letter, whole))
        return f"\\mathrm{{{self.names.style.attention}}}({', '.join(texts)})"


def _square(m: Letter) -> bool:
    return m.rows.rstrip("'") == m.cols.rstrip("'")
