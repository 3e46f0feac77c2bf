r"""Which formulas does a LaTeX file hold, or a Markdown file? Both write them in LaTeX: in dollars, environments, fences."""

from __future__ import annotations

import re
from collections.abc import Iterator

from einformer.errors import Source
from einformer.lint.notes.pieces import Document, Formula, Heading, Macro, Passage, Piece, Words, sections

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


def latex(source: Source) -> Document:
    """The sections of a LaTeX file."""
    return document(source, _LATEX)


def markdown(source: Source) -> Document:
    """The sections of a Markdown file, or of a plain text with dollars."""
    return document(source, _MARKDOWN)


def document(source: Source, pattern: re.Pattern[str]) -> Document:
    """The sections of a file; the last group of a match says what it is: a formula, unless skipped, a macro or a title."""
    macros: dict[str, Macro] = {}
    return Document(tuple(sections(_pieces(source, pattern, macros))), macros)


def _pieces(source: Source, pattern: re.Pattern[str], macros: dict[str, Macro]) -> Iterator[Piece]:
    at, loops = 0, [match.span() for match in _LOOP.finditer(source.text)]
    while match := pattern.search(source.text, at):
        yield Words(Passage.of(source, at, match.start()))
        at = match.end()
        match match.lastgroup:
            case "macro":
                at = _define(source.text, at, macros, operator="Operator" in match["macro"])
            case "title":
                yield Heading(match["title"].strip())
            case "skipped":
                if "\n" not in match["skipped"]:
                    yield Words(Passage.of(source, *match.span("skipped")))  # `(B, S, D)` in code, a comment
            case kind:
                in_loop = any(start < at < end for start, end in loops)
                yield from _formulas(source, match, str(kind), "the loop of an algorithm" if in_loop else "")
    yield Words(Passage.of(source, at, len(source.text)))


def _formulas(source: Source, match: re.Match[str], kind: str, unread: str) -> Iterator[Formula | Words]:
    """What stands between the delimiters; in a directive each paragraph is a formula."""
    start, end = match.span(kind)
    if end - start > _LONGEST:
        yield Words(Passage.of(source, *match.span()))
        return
    parts = _PARAGRAPH.finditer(source.text, start, end) if kind == "directive" else (match,)
    for part in parts:
        yield Formula(Passage.of(source, *part.span(kind if part is match else 0)), kind not in _INLINE, unread)


def _define(text: str, at: int, macros: dict[str, Macro], operator: bool) -> int:
    r"""`\newcommand{\name}[n]{body}`, `\def\name#1{body}`, `\DeclareMathOperator{\name}{words}`; where it ends."""
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
