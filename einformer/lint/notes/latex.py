"""Finds the formulas of a LaTeX or Markdown file: in dollars, in environments and in fences."""

from __future__ import annotations

import re
from collections.abc import Iterator

from einformer.errors import Source
from einformer.lint.notes.pieces import Document, Formula, Heading, Macro, Passage, Piece, Words, group_sections

_DISPLAYS = "equation|align|gather|multline|eqnarray|displaymath|flalign|alignat|math|dmath"
MATH = rf"""
    \$\$ (?P<double> .+? ) \$\$
  | (?<!\\) (?P<slash> \\\\? ) \[ (?P<bracket> (?:(?!\\\[).)+? ) (?P=slash) \]
  | (?<!\\) (?P<stroke> \\\\? ) \( (?P<round> (?:(?!\\\().)+? ) (?P=stroke) \)
  | \\begin\s*\{{ (?P<name> (?:{_DISPLAYS}) \*? ) \}} (?P<environment> .*? ) \\end\s*\{{ (?P=name) \}}
  | \$ (?P<single> (?: [^$\\\n] | \\. | \n (?!\s*\n) )+? ) \$
"""
_LOOP = re.compile(r"\\begin\s*\{(algo\w*)\*?\}(?:(?!\\end\s*\{\1).)*?\\(?:For|ForAll|While|Loop)\b.*?\\end\s*\{\1", re.DOTALL)
_LATEX = re.compile(
    rf"""(?P<skipped> (?<!\\)%[^\n]* | \\[$%]
           | \\begin\s*\{{(?P<raw>verbatim|lstlisting|minted|Verbatim|comment)\*?\}} .*? \\end\s*\{{(?P=raw)\*?\}} )
      | (?P<macro> \\(?:(?:re)?newcommand|def|DeclareMathOperator|providecommand)\b\*? )
      | \\(?:part|chapter|section|subsection|subsubsection|paragraph)\*?\s*\{{ (?P<title> [^\n}}]* )
      | {MATH}""",
    re.VERBOSE | re.DOTALL,
)
_MARKDOWN = re.compile(
    rf"""^[ >\t]* (?P<fence>```+|~~~+|:::+) [ ]* (?:\{{math\}}|math) [ ]*\n (?:[ >\t]*:\w[^\n]*\n)*
            (?P<fenced> .*? ) ^[ >\t]*(?P=fence)
      | (?: \{{math\}}(?P<tick>`+) | \$(?P<dollar>`+) ) (?P<ticked> [^`\n]+ ) (?: (?P=tick) | (?P=dollar)\$ )
      | (?P<skipped> ^[ >\t]*(?P<raw>```+|~~~+) .*? ^[ >\t]*(?P=raw) | <!-- .*? --> | \\\$
           | (?P<ticks>`+) (?:(?!`|\n\s*\n).)+ (?P=ticks) )
      | (?P<macro> \\(?:(?:re)?newcommand|def|DeclareMathOperator|providecommand)\b\*? )
      | ^ (?: \#+[ ] | (?=[0-9]+(?:\.[0-9]+)*\.?[ ][^\n.$<*\[]{{1,80}}\n[ ]*\n) ) (?P<title> [^\n]+ )
      | {MATH}""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_DEFINED = re.compile(r"\s*(?:\{\s*\\([A-Za-z]+)\s*\}|\\([A-Za-z]+))\s*(?:\[([0-9])\])?(?:\[[^\]\n]*\])?((?:#[0-9])*)\s*\{")
_INLINE = frozenset(("round", "single", "ticked", "role"))
_PARAGRAPH = re.compile(r"(?:[ \t]*\S[^\n]*\n?)+")
_LONGEST = 20_000  # characters of a formula: a dollar that is never closed is none


def read_latex(source: Source) -> Document:
    """Returns the sections of a LaTeX file."""
    return read_document(source, _LATEX)


def read_markdown(source: Source) -> Document:
    """Returns the sections of a Markdown file, or of a plain text with dollars."""
    return read_document(source, _MARKDOWN)


def read_document(source: Source, pattern: re.Pattern[str]) -> Document:
    """Returns the sections of a file. The last group of a match names its kind: a formula, skipped text, a macro or a title."""
    macros: dict[str, Macro] = {}
    return Document(tuple(group_sections(_split(source, pattern, macros))), macros)


def _split(source: Source, pattern: re.Pattern[str], macros: dict[str, Macro]) -> Iterator[Piece]:
    position, loops = 0, [match.span() for match in _LOOP.finditer(source.text)]
    while match := pattern.search(source.text, position):
        yield Words(Passage.of(source, position, match.start()))
        position = match.end()
        match match.lastgroup:
            case "macro":
                position = _define(source.text, position, macros, operator="Operator" in match["macro"])
            case "title":
                yield Heading(match["title"].strip())
            case "skipped":
                if "\n" not in match["skipped"]:
                    yield Words(Passage.of(source, *match.span("skipped")))  # `(B, S, D)` in code, a comment
            case kind:
                in_loop = any(start < position < end for start, end in loops)
                yield from _find_formulas(source, match, str(kind), "the loop of an algorithm" if in_loop else "")
    yield Words(Passage.of(source, position, len(source.text)))


# In a directive each paragraph is a formula.
def _find_formulas(source: Source, match: re.Match[str], kind: str, unread: str) -> Iterator[Formula | Words]:
    start, end = match.span(kind)
    if end - start > _LONGEST:
        yield Words(Passage.of(source, *match.span()))
        return
    parts = _PARAGRAPH.finditer(source.text, start, end) if kind == "directive" else (match,)
    for part in parts:
        yield Formula(Passage.of(source, *part.span(kind if part is match else 0)), kind not in _INLINE, unread)


# `\newcommand{\name}[n]{body}`, `\def\name#1{body}`, `\DeclareMathOperator{\name}{words}`. Returns the end.
def _define(text: str, at: int, macros: dict[str, Macro], operator: bool) -> int:
    match = _DEFINED.match(text, at)
    if match is None:
        return at
    depth, end = 1, match.end()
    while depth and end < len(text):
        depth += {"{": 1, "}": -1}.get(text[end], 0) if text[end - 1] != "\\" else 0
        end += 1
    body = text[match.end() : end - 1]
    arguments = int(match[3] or len(match[4]) // 2)
    macros[match[1] or match[2]] = Macro(arguments, f"\\operatorname{{{body}}}" if operator else body)
    return end
