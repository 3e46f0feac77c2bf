r"""Reads MathML: back to LaTeX by what it shows, without its intents, and aloud by its intents.

The LaTeX shows the same. What has no sign in print, a function applied or factors side by side, has none there. Speech
follows the grammar of `intent` in the draft of MathML 4: a literal is read without its underscores, a silent head is not read,
`:prefix` puts a head before its arguments, `:pause-short` is a comma before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree.ElementTree import Element

SPACE = "{http://www.w3.org/1998/Math/MathML}"
CORE = frozenset(
    """annotation annotation-xml maction math merror mfrac mi mmultiscripts mn mo mover mpadded mphantom mprescripts mroot mrow
    ms mspace msqrt mstyle msub msubsup msup mtable mtd mtext mtr munder munderover semantics""".split()  # noqa: SIM905
)
_SIGNS = {
    "−": "-", "≤": r"\leq ", "≥": r"\geq ", "≠": r"\neq ", "∧": r"\land ", "∨": r"\lor ", "¬": r"\lnot ", "mod": r"\bmod ",
    "←": r"\leftarrow ", "→": r"\rightarrow ", "×": r"\times ", "⋅": r"\cdot ", "\u2061": "", "\u2062": " ", "∑": r"\sum ",
    "⌊": r"\lfloor ", "⌋": r"\rfloor ", "⌈": r"\lceil ", "⌉": r"\rceil ", ":": r"\colon ",
}  # fmt: skip
_PRIMES = {"′" * count: r"\prime" * count for count in range(1, 40)}
_UNSPEAKABLE = {"^": r"\hat{\ }", "\\": r"{\backslash}", "~": r"{\sim}"} | {sign: f"\\{sign}" for sign in "_&%#${}"}


def read_latex(node: Element) -> str:
    """Returns the LaTeX that shows what the element shows."""
    tag = node.tag.removeprefix(SPACE)
    if tag == "mtable":
        return "\\begin{aligned}\n" + " \\\\\n".join(map(_read_line, node)) + "\n\\end{aligned}"
    if len(node) and node[0].text == "{":
        rows = (" & ".join(map(read_latex, row)) for row in node[1])
        return r"\begin{cases} " + r" \\ ".join(rows) + r" \end{cases}"
    parts = [read_latex(child) for child in node]
    match tag:
        case "math" if node[0].tag != f"{SPACE}mtable":
            return r"\displaystyle " + "".join(parts)
        case "math" | "mtd":
            return "".join(parts)
        case "mrow" if node[0].text == "|":
            return f"\\left|{''.join(parts[1:-1])}\\right|"
        case "mrow" if node[0].tag == f"{SPACE}munder" and len(node) == 2:
            return f"{parts[0]} {{{parts[1]}}}"
        case "mrow" if (node[-1].text or "") in _PRIMES:
            return "".join(parts) if node[0].tag == f"{SPACE}mn" else f"{parts[0]}^{{{parts[1]}}}"
        case "mrow":
            return "".join(parts)
        case "mi":
            return _read_name(node.text or "")
        case "mn":
            return node.text or ""
        case "mo":
            return (_SIGNS | _PRIMES).get(node.text or "", f"{node.text} ")
        case "mtext":
            return _read_words(node)
        case "mspace":
            return {"2em": r" \qquad ", "0.33em": r"\ "}.get(node.get("width", ""), r"\,")
        case "mfrac":
            return f"\\frac{{{parts[0]}}}{{{parts[1]}}}"
        case "msqrt":
            return f"\\sqrt{{{''.join(parts)}}}"
        case "msub" | "munder":
            return f"{parts[0]}_{{{parts[1]}}}"
        case "msup":
            return (
                f"{{{parts[0]}}}^{{{parts[1]}}}"
                if node[0].tag.endswith("sup") or "prime" in parts[0]
                else f"{parts[0]}^{{{parts[1]}}}"
            )
        case "msubsup":
            return f"{parts[0]}^{{{parts[2]}}}_{{{parts[1]}}}"
        case _:
            raise AssertionError(tag)


def _read_name(text: str) -> str:
    if text in "∞@":
        return r"\infty " if text == "∞" else text
    return text if len(text) == 1 else f"\\mathrm{{{text.replace('_', chr(92) + '_')}}}"


def _read_words(node: Element) -> str:
    style = node.get("style", "")
    font = "textbf" if "bold" in style else "textit" if "italic" in style else "text"
    parts = (part for part in re.split(r"([\^\\~_&%#${}])", node.text or "") if part)
    start = r"\textit{}" if font == "textit" and (node.text or "")[:1] in {*_UNSPEAKABLE, ""} else ""
    return start + "".join(_UNSPEAKABLE.get(part) or f"\\{font}{{{part}}}" for part in parts)


def _read_line(row: Element) -> str:
    indent = re.search(r"padding-left: (\d+)em$", row[0].get("style", ""))
    cells = ("" if [child.get("height") for child in cell] == ["0.6em"] else read_latex(cell) for cell in row)
    return "&" + r"\quad " * (int(indent[1]) // 2 if indent else 0) + " && ".join(cells)


# ----------------------------------------------------------------------------------------------------------------- aloud

_SAID = {
    "=": "equals", "+": "plus", "−": "minus", "≤": "is less than or equal to", "<": "is less than", "/": "divided by",
    "\u2062": "times", "⋅": "times", "\u2061": "of", "(": "open paren", ")": "close paren", "×": "times", ",": "",
}  # fmt: skip
_TOKEN = re.compile(r"\s*(?:(?P<property>:[\w-]+)|(?P<term>\$?[\w.-]+)|(?P<sign>[(),]))")


def read_aloud(node: Element) -> str:
    """Returns the words of an element, with a comma where there is a pause."""
    return re.sub(r"\s*,[\s,]*", ", ", re.sub(r"\s+", " ", _say(node))).strip(" ,")


def _say(node: Element) -> str:
    intent = node.get("intent", "")
    if intent and not intent.startswith(":"):
        tokens = list(_TOKEN.finditer(intent))
        assert "".join(match[0] for match in tokens) == intent, intent
        words = _expression(node, tokens)
        assert not tokens, intent
        return words
    parts = [_say(child) for child in node]
    match node.tag.removeprefix(SPACE):
        case "mo":
            return _SAID.get(node.text or "", node.text or "")
        case "mi" | "mn" | "mtext":
            return node.text or ""
        case "mfrac":
            return f"the fraction {parts[0]} over {parts[1]}"
        case "msqrt":
            return f"the square root of {' '.join(parts)}"
        case "msup":
            return f"{parts[0]} to the power {parts[1]}"
        case "math" | "mrow" | "mspace" | "mtable" | "mtr" | "mtd":
            return " ".join(parts)
        case tag:
            raise AssertionError(tag)


# expression := term property*, where an application is a term.
def _expression(node: Element, tokens: list[re.Match[str]]) -> str:
    term = tokens.pop(0)["term"]
    assert term
    words = _say(_find(node, term[1:])) if term[0] == "$" else term.strip("_").replace("_", " ").replace("-", " ")
    properties = set(_take_properties(tokens))
    while tokens and tokens[0]["sign"] == "(":
        arguments = list(_take_arguments(node, tokens))
        words = _apply(words, properties, arguments, silent=term == "_")
        properties |= set(_take_properties(tokens))
    return f", {words}" if ":pause-short" in properties else words


def _take_properties(tokens: list[re.Match[str]]) -> Iterator[str]:
    while tokens and tokens[0]["property"]:
        yield tokens.pop(0)["property"]


def _take_arguments(node: Element, tokens: list[re.Match[str]]) -> Iterator[str]:
    while tokens.pop(0)["sign"] != ")":
        yield _expression(node, tokens)


def _apply(head: str, properties: set[str], arguments: list[str], silent: bool) -> str:
    if silent or ":prefix" in properties:
        return " ".join([head, *arguments])
    return f"{head} of {' and '.join(arguments)}"


# The first descendant of the name, not below elements with an intent or another name.
def _find(node: Element, name: str) -> Element:
    found = list(_list_named(node, name))
    assert len(found) == 1, (name, len(found))
    return found[0]


def _list_named(node: Element, name: str) -> Iterator[Element]:
    for child in node:
        if child.get("arg") == name:
            yield child
        elif "arg" not in child.attrib and "intent" not in child.attrib:
            yield from _list_named(child, name)
