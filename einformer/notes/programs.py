"""Reads a note as a specification: its blocks of `einformer` and its displayed equations, in the order of the text.

A block (```` ```einformer note ````) holds the parts that prose does not: the legend, scalars, the head of a layer and its
weights. The equations below it are its body. The equations below a `for` are the body of the loop.
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
from einformer.language.latex_reader import CASES, marks
from einformer.language.tree import Name, Spec, Tensor
from einformer.notes import heads
from einformer.notes.documents.latex import read_latex, read_markdown
from einformer.notes.documents.notebook import cells, read_notebook
from einformer.notes.documents.pieces import Document, Formula, Passage, join
from einformer.notes.documents.signs import BOLD
from einformer.notes.documents.typst import read_typst
from einformer.notes.reading import NO_INDICES, DocumentEquation, read_equations
from einformer.notes.specifications import is_specification

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
_ENDS = " \n\t,;.&"  # may follow an equation in a sentence
_SPACE = re.compile(r"\s+")
_BOLD_LETTER = re.compile(rf"\\mathrm\{{([^\W\d_])(?:{'|'.join(sorted(BOLD))})\}}")  # with indices it names the same tensor
READERS: dict[str, Callable[[Source], Document]] = {
    ".md": read_markdown,
    ".markdown": read_markdown,
    ".txt": read_markdown,
    ".tex": read_latex,
    ".typ": read_typst,
    ".ipynb": read_notebook,
}
_TEXT = re.compile(
    r"^axes(?:[ \t]+\w'*(?:,[ \t]*\w'*)*)?[ \t]*$|^(?:layer|model) \w+[(_]|\\textbf\s*\{\s*(?:axes|layer|model)\b", re.MULTILINE
)
_FENCES = {".tex": ("\\begin{lstlisting}[language=einformer]", "\\end{lstlisting}")}


@dataclass(frozen=True, slots=True)
class Manuscript:
    """Passages one after the other, of one file or of the cells of a notebook."""

    parts: tuple[Passage, ...]

    # Across several passages, the span is the part in the first.
    def place(self, start: int, end: int) -> Span:
        for part in self.parts:
            if start < len(part.text):
                return part.span(start, min(end, len(part.text)))
            start, end = start - len(part.text), end - len(part.text)
        return self.parts[-1].span(len(self.parts[-1].text) - 1)


@dataclass(frozen=True, slots=True)
class LanguageText:
    r"""The text of the language in a note. Each of its characters has its place in the note.

    `lines` are its displayed equations. `statements` do not define anything, but state facts: `\sum_{s'} w_{ss'} = 1`, or
    the third side of `y = … = …`. `words` are displayed equations without indices.
    """

    source: Source
    lines: tuple[DocumentEquation, ...]
    statements: tuple[DocumentEquation, ...]
    words: int


# The text may be that of a note.
def elaborate(source: Source) -> tuple[Spec, Spec, tuple[Finding, ...]]:
    try:
        note = read_program(source)
    except EinformerError as error:
        nothing = Spec("", (), (), ())
        return nothing, nothing, error.findings
    return texts.elaborate(note.source if note else source)


def read_program(note: Source) -> LanguageText | None:
    r"""Returns the program of a note, or None for a text of the language. Raises EinformerError E001, E801, E806.

    >>> note = "```einformer\naxes\n  d: D\nlayer Twice(x_d) -> y_d:\n```\n\nIt doubles:\n\n$$y_d = 2 x_d.$$\n"
    >>> print(read_program(Source("twice.md", note)).source.text.strip())
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
    blocks = [_read_block(file, match) for file in files for form in (_FRONT, _BLOCK) for match in form.finditer(file.text)]
    blocks += [
        _read_whole(formula) for section in document.sections for formula in section.formulas if is_specification(formula)
    ]
    if not blocks and suffix in (".txt", ".tex") and _TEXT.search(note.text):  # a text of the language as it is
        return None
    displayed_equations = list(_find_displayed(document))
    displayed = [equation for equation in displayed_equations if equation.skipped != NO_INDICES]
    if not blocks:
        fix = heads.propose(document, displayed, _FENCES.get(suffix, ("```einformer", "```")))
        raise fail("E806", f"`{note.name}` has no block of einformer", Span(note, 0, 1), fix=fix)
    before = [None, *displayed]
    lines = [one for one, last in zip(displayed, before, strict=False) if _defines(one, last)]
    statements = [one for one, last in zip(displayed, before, strict=False) if not _defines(one, last)]
    pieces: list[Passage | DocumentEquation] = sorted([*blocks, *lines], key=lambda piece: _place_of(files, piece))
    manuscript = Manuscript((*heads.declare_axes(document, blocks, lines), *_lay_out(pieces)))
    text = "".join(part.text for part in manuscript.parts)
    return LanguageText(
        Source(note.name, text, manuscript.place), tuple(lines), tuple(statements), len(displayed_equations) - len(displayed)
    )


# The left side must be a name that the equation before does not have: `y = … = …`.
def _defines(equation: DocumentEquation, before: DocumentEquation | None) -> bool:
    again = before is not None and before.formula is equation.formula and before.left is equation.left
    return not again and isinstance(equation.left.tree, Tensor | Name | NoneType)


def _find_displayed(document: Document) -> Iterator[DocumentEquation]:
    for section in document.sections:
        for formula in section.formulas:
            if formula.display and not is_specification(formula):
                yield from (equation for equation in read_equations(formula, document.macros, {}) if equation.right is not None)


# As if its fence stood at the left margin.
def _read_block(file: Source, match: re.Match[str]) -> Passage:
    return Passage.of(file, *match.span("text")).sub(re.compile(rf"^[ \t]{{0,{len(match['margin'])}}}", re.MULTILINE))


# A whole text of the language, as `einformer latex` prints it.
def _read_whole(formula: Formula) -> Passage:
    text = formula.latex
    return join(text.source, [text.put("$$", 0), text, text.put("$$\n", -1)])


def _place_of(files: list[Source], piece: Passage | DocumentEquation) -> tuple[int, int]:
    span = (piece.left.text if isinstance(piece, DocumentEquation) else piece).span()
    return files.index(span.source), span.start


# Equations are indented as the block above them asks for.
def _lay_out(pieces: list[Passage | DocumentEquation]) -> Iterator[Passage]:
    indent = 0
    for _, group in groupby(pieces, lambda piece: isinstance(piece, DocumentEquation)):
        run = list(group)
        for equation in _sort_equations([piece for piece in run if isinstance(piece, DocumentEquation)]):
            yield _write_line(equation, " " * indent)
        for block in (piece for piece in run if isinstance(piece, Passage)):
            yield block
            indent = _find_indent(block.text)


# As the last line of the block, deeper if it ends with a colon.
def _find_indent(block: str) -> int:
    code = [line.partition("#")[0].rstrip() for line in block.split("\n")]
    last = next(filter(None, reversed(code)), "")
    return len(last) - len(last.lstrip()) + 2 * last.endswith(":")


# A note may say "where m is …" after it uses m. Equations that change a value keep their order.
def _sort_equations(equations: list[DocumentEquation]) -> Iterator[DocumentEquation]:
    rest = list(equations)
    while rest:
        late = {_name_of(equation) for equation in rest}
        ready = (number for number, one in enumerate(rest) if not _reads(one) & (late - {_name_of(one)}))
        yield rest.pop(0 if any(one.rebinds for one in equations) else next(ready, 0))


def _name_of(equation: DocumentEquation) -> str:
    tree = equation.left.tree
    return tree.name if isinstance(tree, Tensor | Name) else ""


def _reads(equation: DocumentEquation) -> set[str]:
    return {node.name for node in equation.sides[-1].nodes if isinstance(node, Tensor)}


def _write_line(equation: DocumentEquation, indent: str) -> Passage:
    left, right = (side.text for side in equation.sides)
    sign = "\\leftarrow" if equation.rebinds else "="
    around = (left.put(f"{indent}$$ ", 0), left.put(f" {sign} ", -1), right.put(" $$\n", -1))
    return join(left.source, [around[0], _trim(left), around[1], _trim(right), around[2]])


def _trim(side: Passage) -> Passage:
    kept, cases = list[Passage](), 0
    for mark in marks(side.text):
        cases += (mark.kind == "begin") - (mark.kind == "end") if mark.command in CASES else 0
        if cases or (mark.kind != "row" and mark.text not in ("&", "&&")):
            kept.append(side.cut(mark.start, mark.end))
    whole = join(side.source, kept).sub(_SPACE, " ").sub(_BOLD_LETTER, 1)
    start = len(whole.text) - len(whole.text.lstrip(_ENDS))
    return whole.cut(start, len(whole.text.rstrip(_ENDS)))
