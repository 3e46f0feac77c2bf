"""Finds the formulas of a LaTeX or Markdown file: in dollars, in environments and in fences."""

from __future__ import annotations

import re
from collections.abc import Iterator

from einformer.errors import Source
from einformer.notes.documents.pieces import (
    Document,
    Ends,
    Formula,
    Heading,
    Macro,
    Passage,
    Piece,
    Words,
    group_sections,
    is_inside,
)

_DISPLAYS = "equation|align|gather|multline|eqnarray|displaymath|flalign|alignat|math|dmath"
_MACRO = r"(?P<macro> \\(?:(?:re)?newcommand|def|DeclareMathOperator|providecommand)\b\*? )"
# What opens a formula; where it is closed is looked for by `Ends`, but for a single dollar, which closes in its paragraph.
MATH = rf"""
    (?P<double> \$\$ )
  | (?<!\\) (?P<square> \\\\? ) \[
  | (?<!\\) (?P<round> \\\\? ) \(
  | \\begin\s*+\{{ (?P<environment> (?:{_DISPLAYS}) \*? ) \}}
  | \$ (?P<single> (?: [^$\\\n] | \\. | \n (?![^\S\n]*+\n) )+? ) \$
"""
_LOOPS = re.compile(r"\\(?:(?P<open>begin)|end)\s*+\{algo\w*+|\\(?:For|ForAll|While|Loop)\b")
_LATEX = re.compile(
    rf"""(?P<skipped> (?<!\\)%[^\n]* | \\[$%] )
      | \\begin\s*+\{{ (?P<raw> verbatim|lstlisting|minted|Verbatim|comment )\*? \}}
      | {_MACRO}
      | \\(?:part|chapter|section|subsection|subsubsection|paragraph)\*?\s*+\{{ (?P<title> [^\n}}]* )
      | {MATH}""",
    re.VERBOSE | re.DOTALL,
)
_MARKDOWN = re.compile(
    rf"""^[ >\t]*+ (?P<math> ```++|~~~++|:::++ ) [ ]*+ (?:\{{math\}}|math) [ ]*+ \n (?:[ >\t]*+:\w[^\n]*\n)*+
      | ^[ >\t]*+ (?P<fence> ```++|~~~++ )
      | (?: \{{math\}}(?P<tick>`++) | \$(?P<dollar>`++) ) (?P<ticked> [^`\n]++ ) (?: (?P=tick) | (?P=dollar)\$ )
      | (?P<skipped> \\\$ )
      | (?P<comment> <!-- )
      | (?P<ticks> `++ )
      | {_MACRO}
      | ^ (?: \#+[ ] | (?=[0-9]++(?:\.[0-9]++)*+\.?[ ][^\n.$<*\[]{{1,80}}\n[ ]*+\n) ) (?P<title> [^\n]+ )
      | {MATH}""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_CLOSED = {  # by what opens it, `{0}`; the group of an end that is none stays empty
    "double": r"(?P<end>\$\$)",
    "square": r"(?P<end>{0}\])|\\\[",
    "round": r"(?P<end>{0}\))|\\\(",
    "environment": r"(?P<end>\\end\s*+\{{{0}\}})",
    "raw": r"(?P<end>\\end\s*+\{{{0}\*?\}})",
    "math": r"(?P<end>^[ >\t]*+{0})",
    "fence": r"(?P<end>^[ >\t]*+{0})",
    "comment": r"(?P<end>-->)",
    "ticks": r"(?P<end>`++)|\n[^\S\n]*+\n",
}
_SKIPPED = frozenset(("raw", "fence", "comment", "ticks", "skipped"))
_DEFINED = re.compile(
    r"\s*+(?:\{\s*+\\([A-Za-z]+)\s*+\}|\\([A-Za-z]+))\s*+(?:\[([0-9])\])?(?:\[[^\]\n]*\])?((?:#[0-9])*+)\s*+\{"
)
_INLINE = frozenset(("round", "single", "ticked", "role"))
_PARAGRAPH = re.compile(r"(?:[ \t]*+\S[^\n]*\n?)+")
_LONGEST = 20_000  # characters of a formula: a dollar that is never closed is none


def read_latex(source: Source) -> Document:
    return read_document(source, _LATEX)


# A plain text with dollars is read as Markdown.
def read_markdown(source: Source) -> Document:
    return read_document(source, _MARKDOWN)


# The last group of a match names its kind: a formula, skipped text, a macro or a title.
def read_document(source: Source, pattern: re.Pattern[str]) -> Document:
    macros: dict[str, Macro] = {}
    return Document(tuple(group_sections(_split(source, pattern, macros))), macros)


def _split(source: Source, pattern: re.Pattern[str], macros: dict[str, Macro]) -> Iterator[Piece]:
    position = start = 0
    ends, loops = Ends(source.text), list(_find_loops(source.text))
    while match := pattern.search(source.text, start):
        kind = str(match.lastgroup)
        closed = _CLOSED[kind].format(re.escape(match[kind])) if kind in _CLOSED else ""
        end = ends.find(closed, match.end()) if closed else match.span(kind)
        if kind == "fence" and end is None and match[kind][0] == "`":
            kind, end = "ticks", ends.find(_CLOSED["ticks"], match.end())
        if end is None:
            start = match.end() if kind == "ticks" else match.start() + 1
            continue
        yield Words(Passage.of(source, position, match.start()))
        position = max(match.end(), end[1])
        if kind == "macro":
            position = _define(source.text, position, ends, macros, operator="Operator" in match["macro"])
        elif kind == "title":
            yield Heading(match["title"].strip())
        elif kind in _SKIPPED:
            if "\n" not in source.text[match.start() : position]:
                yield Words(Passage.of(source, match.start(), position))  # `(B, S, D)` in code, a comment
        else:
            inside = (match.end(), end[0]) if closed else end
            unread = "the loop of an algorithm" if is_inside(loops, position) else ""
            yield from _find_formulas(source, (match.start(), position), inside, kind, unread)
        start = position
    yield Words(Passage.of(source, position, len(source.text)))


# The outermost algorithms that loop, in the order of the text.
def _find_loops(text: str) -> Iterator[tuple[int, int]]:
    depth = start = 0
    loops = False
    for match in _LOOPS.finditer(text):
        if match["open"]:
            start, loops = (start, loops) if depth else (match.start(), False)
            depth += 1
        elif match[0].startswith("\\end"):
            if depth == 1 and loops:
                yield start, match.end()
            depth = max(0, depth - 1)
        else:
            loops = True


# In a directive each paragraph is a formula.
def _find_formulas(
    source: Source, whole: tuple[int, int], inside: tuple[int, int], kind: str, unread: str
) -> Iterator[Formula | Words]:
    if inside[1] - inside[0] > _LONGEST:
        yield Words(Passage.of(source, *whole))
        return
    spans = [part.span() for part in _PARAGRAPH.finditer(source.text, *inside)] if kind == "directive" else [inside]
    for span in spans:
        yield Formula(Passage.of(source, *span), kind not in _INLINE, unread)


# `\newcommand{\name}[n]{body}`, `\def\name#1{body}`, `\DeclareMathOperator{\name}{words}`. Returns the end.
def _define(text: str, at: int, ends: Ends, macros: dict[str, Macro], operator: bool) -> int:
    match = _DEFINED.match(text, at)
    end = ends.braces.get(match.end() - 1) if match else None
    if match is None or end is None:
        return at
    body = text[match.end() : end]
    arguments = int(match[3] or len(match[4]) // 2)
    macros[match[1] or match[2]] = Macro(arguments, f"\\operatorname{{{body}}}" if operator else body)
    return end + 1
