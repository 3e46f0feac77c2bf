r"""Which formulas does a LaTeX file hold, or a Markdown file? Both write them in LaTeX, between dollars or in environments."""

from __future__ import annotations

import re
from collections.abc import Iterator

from einformer.errors import Source
from einformer.lint.notes.pieces import Document, Formula, Heading, Macro, Passage, Piece, Words, sections

_DISPLAYS = "equation|align|gather|multline|eqnarray|displaymath|flalign|alignat|math|dmath"
_MATH = rf"""
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
      | {_MATH}""",
    re.VERBOSE | re.DOTALL,
)
_MARKDOWN = re.compile(
    rf"""(?P<skipped> ^(?P<raw>```+|~~~+) .*? ^(?P=raw) | <!-- .*? --> | \\\$
           | (?P<ticks>`+) (?:(?!`|\n\s*\n).)+ (?P=ticks) )
      | (?P<macro> \\(?:(?:re)?newcommand|def|DeclareMathOperator|providecommand)\b\*? )
      | ^ (?: \#+[ ] | (?=[0-9]+(?:\.[0-9]+)*\.?[ ][^\n.$<*\[]{{1,80}}\n[ ]*\n) ) (?P<title> [^\n]+ )
      | {_MATH}""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_DEFINED = re.compile(r"\s*(?:\{\s*\\([A-Za-z]+)\s*\}|\\([A-Za-z]+))\s*(?:\[([0-9])\])?(?:\[[^\]\n]*\])?((?:#[0-9])*)\s*\{")
_LONGEST = 20_000  # characters of a formula: a dollar that is never closed is none


def latex(source: Source) -> Document:
    """The sections of a LaTeX file."""
    return _document(source, _LATEX)


def markdown(source: Source) -> Document:
    """The sections of a Markdown file, or of a plain text with dollars."""
    return _document(source, _MARKDOWN)


def _document(source: Source, pattern: re.Pattern[str]) -> Document:
    macros: dict[str, Macro] = {}
    return Document(tuple(sections(_pieces(source, pattern, macros))), macros)


def _pieces(source: Source, pattern: re.Pattern[str], macros: dict[str, Macro]) -> Iterator[Piece]:
    at, loops = 0, [match.span() for match in _LOOP.finditer(source.text)]
    while match := pattern.search(source.text, at):
        yield Words(Passage.of(source, at, match.start()))
        at = match.end()
        if match["macro"]:
            at = _define(source.text, at, macros, operator="Operator" in match["macro"])
        elif match["title"] is not None:
            yield Heading(match["title"].strip())
        elif match["skipped"] is None:
            in_loop = any(start < at < end for start, end in loops)
            yield _formula(source, match, "the loop of an algorithm" if in_loop else "")
        elif "\n" not in match["skipped"]:
            yield Words(Passage.of(source, *match.span("skipped")))  # `(B, S, D)` in code, a comment
    yield Words(Passage.of(source, at, len(source.text)))


def _formula(source: Source, match: re.Match[str], unread: str) -> Formula | Words:
    """What stands between the delimiters."""
    kind = next(kind for kind in ("double", "bracket", "round", "environment", "single") if match[kind] is not None)
    start, end = match.span(kind)
    if end - start > _LONGEST:
        return Words(Passage.of(source, *match.span()))
    return Formula(Passage.of(source, start, end), kind not in ("round", "single"), unread)


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
