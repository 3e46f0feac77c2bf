r"""Which specification is a note? Its blocks of `einformer` and its displayed equations, in the order of the text.

A block (```` ```einformer note ````) holds what prose does not: the legend, scalars, the head of a layer and its weights. The
equations below it are its body, those below a `for` the body of that.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from types import NoneType

from einformer.architectures import texts
from einformer.errors import EinformerError, Finding, Source, Span, fail
from einformer.language.latex_marks import CASES, marks
from einformer.language.tree import Name, Spec, Tensor
from einformer.lint.notes.latex import read_latex, read_markdown
from einformer.lint.notes.notebook import cells, read_notebook
from einformer.lint.notes.pieces import Document, Formula, Passage, join
from einformer.lint.notes.signs import BOLD
from einformer.lint.notes.typst import read_typst
from einformer.lint.reading import NO_INDICES, Equation, read_equations
from einformer.lint.specifications import is_specification
from einformer.notes import heads

_BLOCK = re.compile(
    r"""^(?P<margin>[ \t]*)(?: (?P<fence>```+|~~~+)[ \t]*einformer\b[^\n]*
                 | \\begin\{lstlisting\}\[[^\]\n]*\blanguage=einformer\b[^\]\n]*\][ \t]*
                 | \\begin\{minted\}\{einformer\}[ \t]* )\n
        (?P<text>.*?)
        ^[ \t]*(?: (?P=fence) | \\end\{(?:lstlisting|minted)\} )""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_FRONT = re.compile(  # a key of the front matter: `einformer: |`
    r"""\A---[ ]*\n (?:(?!---)[^\n]*\n)*? einformer:[ ]*\|[ ]*\n
        (?P<text> (?P<margin>[ ]+)\S[^\n]*\n (?: (?P=margin)[^\n]*\n | [ ]*\n )* )""",
    re.VERBOSE,
)
_ENDS = " \n\t,;.&"  # what may follow an equation in a sentence
_SPACE = re.compile(r"\s+")
_BOLD_LETTER = re.compile(rf"\\mathrm\{{([^\W\d_])(?:{'|'.join(sorted(BOLD))})\}}")  # with indices it is no other tensor
READERS: dict[str, Callable[[Source], Document]] = {
    ".md": read_markdown,
    ".markdown": read_markdown,
    ".txt": read_markdown,
    ".tex": read_latex,
    ".typ": read_typst,
    ".ipynb": read_notebook,
}
_TEXT = re.compile(r"^axes[ \t]*$|^(?:layer|model) \w+[(_]|\\textbf\s*\{\s*(?:axes|layer|model)\b", re.MULTILINE)
_FENCES = {".tex": ("\\begin{lstlisting}[language=einformer]", "\\end{lstlisting}")}


@dataclass(frozen=True, slots=True)
class Manuscript:
    """Passages one after the other, of one file or of the cells of one."""

    parts: tuple[Passage, ...]

    def place(self, start: int, end: int) -> Span:
        """Where the characters `start … end` were written; of what spans several passages, the part in the first."""
        for part in self.parts:
            if start < len(part.text):
                return part.span(start, min(end, len(part.text)))
            start, end = start - len(part.text), end - len(part.text)
        return self.parts[-1].span(len(self.parts[-1].text) - 1)


@dataclass(frozen=True, slots=True)
class Program:
    """The text of the language that a note holds; each of its characters knows its place in the note.

    `lines` are the equations of it that are displayed. `statements` define nothing, but say what is true of what others
    define: `\\sum_{s'} w_{ss'} = 1`, or the third side of `y = … = …`. `words` are displayed equations without indices.
    """

    source: Source
    lines: tuple[Equation, ...]
    statements: tuple[Equation, ...]
    words: int


def understood(source: Source) -> tuple[Spec, Spec, tuple[Finding, ...]]:
    """What `texts.understood` says of a text, or of the one that a note holds."""
    try:
        note = program(source)
    except EinformerError as error:
        nothing = Spec("", (), (), ())
        return nothing, nothing, error.findings
    return texts.understood(note.source if note else source)


def program(note: Source) -> Program | None:
    """The program that a note is; None for what is no note, but a text of the language. Raises EinformerError E001, E801, E806.

    >>> note = "```einformer\\naxes\\n  d: D\\nlayer Twice(x_d) -> y_d:\\n```\\n\\nIt doubles:\\n\\n$$y_d = 2 x_d.$$\\n"
    >>> print(program(Source("twice.md", note)).source.text.strip())
    axes
      d: D
    layer Twice(x_d) -> y_d:
      $$ y_{d} = 2 x_{d} $$
    """
    suffix = pathlib.PurePath(note.name).suffix.lower()
    if suffix not in READERS:
        return None
    if len(note.text) > texts.MAXIMUM_FILE:
        raise fail("E001", f"`{note.name}` has more than {texts.MAXIMUM_FILE:,} characters", fix="several notes")
    note = replace(note, text=note.text.removeprefix("\ufeff").replace("\r\n", "\n"))
    files = list(cells(note, "markdown")) if suffix == ".ipynb" else [note]
    document = READERS[suffix](note)
    blocks = [_block(file, match) for file in files for form in (_FRONT, _BLOCK) for match in form.finditer(file.text)]
    blocks += [_whole(formula) for section in document.sections for formula in section.formulas if is_specification(formula)]
    if not blocks and suffix in (".txt", ".tex") and _TEXT.search(note.text):  # a text of the language as it is
        return None
    found = list(_displayed(document))
    displayed = [equation for equation in found if equation.skipped != NO_INDICES]
    if not blocks:
        fix = heads.proposed(document, displayed, _FENCES.get(suffix, ("```einformer", "```")))
        raise fail("E806", f"`{note.name}` has no block of einformer", Span(note, 0, 1), fix=fix)
    before = [None, *displayed]
    lines = [each for each, last in zip(displayed, before, strict=False) if _defines(each, last)]
    statements = [each for each, last in zip(displayed, before, strict=False) if not _defines(each, last)]
    pieces: list[Passage | Equation] = sorted([*blocks, *lines], key=lambda piece: _place(files, piece))
    manuscript = Manuscript((*heads.axes(document, blocks, lines), *_parts(pieces)))
    text = "".join(part.text for part in manuscript.parts)
    return Program(Source(note.name, text, manuscript.place), tuple(lines), tuple(statements), len(found) - len(displayed))


def _defines(equation: Equation, before: Equation | None) -> bool:
    """Is it a line? Not where its left side is no name, nor where the equation before has the same one: `y = … = …`."""
    again = before is not None and before.formula is equation.formula and before.left is equation.left
    return not again and isinstance(equation.left.tree, Tensor | Name | NoneType)


def _displayed(document: Document) -> Iterator[Equation]:
    """Every equation that stands by itself."""
    for section in document.sections:
        for formula in section.formulas:
            if formula.display and not is_specification(formula):
                yield from (each for each in read_equations(formula, document.macros, {}) if each.right is not None)


def _block(file: Source, match: re.Match[str]) -> Passage:
    """What a block holds, as if its fence stood at the left margin."""
    return Passage.of(file, *match.span("text")).sub(re.compile(rf"^[ \t]{{0,{len(match['margin'])}}}", re.MULTILINE))


def _whole(formula: Formula) -> Passage:
    """A whole text of the language, as `einformer latex` prints it."""
    read_latex = formula.latex
    return join(read_latex.source, [read_latex.put("$$", 0), read_latex, read_latex.put("$$\n", -1)])


def _place(files: list[Source], piece: Passage | Equation) -> tuple[int, int]:
    """Which file it is in, and where."""
    span = (piece.left.text if isinstance(piece, Equation) else piece).span()
    return files.index(span.source), span.start


def _parts(pieces: list[Passage | Equation]) -> Iterator[Passage]:
    """Blocks as they are; equations in lines, indented as the block above them asks for."""
    indent = 0
    for _, group in groupby(pieces, lambda piece: isinstance(piece, Equation)):
        run = list(group)
        for equation in _in_order([piece for piece in run if isinstance(piece, Equation)]):
            yield _line(equation, " " * indent)
        for block in (piece for piece in run if isinstance(piece, Passage)):
            yield block
            indent = _indent(block.text)


def _indent(block: str) -> int:
    """Of what goes on below a block: as its last line, deeper if that ends with a colon."""
    code = [line.partition("#")[0].rstrip() for line in block.split("\n")]
    last = next(filter(None, reversed(code)), "")
    return len(last) - len(last.lstrip()) + 2 * last.endswith(":")


def _in_order(read_equations: list[Equation]) -> Iterator[Equation]:
    """Definitions before what reads them, for a note says "where m is …" after the fact; not where a name changes its value."""
    rest = list(read_equations)
    while rest:
        late = {_name(equation) for equation in rest}
        ready = (at for at, each in enumerate(rest) if not _reads(each) & (late - {_name(each)}))
        yield rest.pop(0 if any(each.rebinds for each in read_equations) else next(ready, 0))


def _name(equation: Equation) -> str:
    tree = equation.left.tree
    return tree.name if isinstance(tree, Tensor | Name) else ""


def _reads(equation: Equation) -> set[str]:
    return {node.name for node in equation.sides[-1].nodes if isinstance(node, Tensor)}


def _line(equation: Equation, indent: str) -> Passage:
    """An equation as a line of a body."""
    left, right = (side.text for side in equation.sides)
    sign = "\\leftarrow" if equation.rebinds else "="
    around = (left.put(f"{indent}$$ ", 0), left.put(f" {sign} ", -1), right.put(" $$\n", -1))
    return join(left.source, [around[0], _trimmed(left), around[1], _trimmed(right), around[2]])


def _trimmed(side: Passage) -> Passage:
    """A side in one line, without what only aligns it, and without what ends its sentence."""
    kept, cases = list[Passage](), 0
    for mark in marks(side.text):
        cases += (mark.kind == "begin") - (mark.kind == "end") if mark.command in CASES else 0
        if cases or (mark.kind != "row" and mark.text not in ("&", "&&")):
            kept.append(side.cut(mark.start, mark.end))
    whole = join(side.source, kept).sub(_SPACE, " ").sub(_BOLD_LETTER, 1)
    start = len(whole.text) - len(whole.text.lstrip(_ENDS))
    return whole.cut(start, len(whole.text.rstrip(_ENDS)))
