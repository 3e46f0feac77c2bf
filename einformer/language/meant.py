"""Suggests our notation for forms of other notations: `x Q` for `x * Q`, `z <- z + y` for `z += y`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from einformer.errors import Finding
from einformer.language.tokens import is_latex

MAXIMUM_LINE = 300  # characters of a line that is searched; who types a first line types a short one
_REPLACED = frozenset(("E003", "E101", "E103", "E202", "E204", "E304", "E405", "E507"))
_NAME = r"[^\W\d_][^\W_]*['′’]*"
_TENSOR = rf"{_NAME}(?:_\{{[^{{}}]*\}}|_(?:[^\W_]['′’]*)+)?"
_OPERAND = rf"(?:\d+(?:\.\d+)?|{_TENSOR}(?:\([^()]*\))?|\([^()]*\))(?:\^\w+)?"
_LETTER = r"[^\W_]['′’]*"
_SIGNS = r"\s*[*×⊙⋅∘]\s*"


@dataclass(frozen=True, slots=True)
class Row:
    """A form of another notation, its replacement, the code of its finding, and the reason."""

    typed: str
    meant: str | Callable[[re.Match[str]], str]
    code: str
    reason: str


def suggest(finding: Finding) -> Finding:
    """Returns the finding, or the finding about a form of another notation at its place."""
    text, position = finding.span.source.text, finding.span.start
    begin, end = text.rfind("\n", 0, position) + 1, (text + "\n").index("\n", position)
    if finding.code not in _REPLACED or end - begin > MAXIMUM_LINE or is_latex(text):
        return finding
    end = begin + len(re.split("[#@]", text[begin:end])[0].rstrip())
    for row in ROWS:  # compiled when something is wrong: most texts are right
        for match in re.compile(row.typed, re.MULTILINE).finditer(text, begin, end):
            start = match.end() - len(match.group().lstrip())
            if start <= position <= match.end():
                meant = row.meant(match) if callable(row.meant) else match.expand(row.meant).strip()
                return Finding(row.code, row.reason, finding.span._replace(start=start, end=match.end()), (), f"`{meant}`")
    return finding


# ------------------------------------------------------------------------------------------------ what takes a computation


def _factors(match: re.Match[str]) -> str:
    return re.sub(_SIGNS, " ", match.group())


def _rewrite_update(match: re.Match[str]) -> str:
    tensor, sign, by = match.groups()
    return {"+": f"{tensor} <- {tensor} + {by}", "*": f"{tensor} <- ({by}) {tensor}"}.get(
        sign, f"{tensor} <- {tensor} {sign} ({by})"
    )


def _loop(match: re.Match[str]) -> str:
    return f"for {match[1]} < {next(filter(None, match.groups()[1:]))}:"


# `z[b, s - 1, d]` and `z_{b,s,d}` without commas.
def _slots(match: re.Match[str]) -> str:
    slots = [slot.strip() for slot in (match[2] or match[3]).split(",")]
    if all(re.fullmatch(_LETTER, slot) for slot in slots):
        return f"{match[1]}_{''.join(slots)}"
    written = [slot if re.fullmatch(_LETTER, slot) else f"{slot} " if "_" in slot else f"({slot})" for slot in slots]
    return f"{match[1]}_{{{''.join(written).rstrip()}}}"


# `E_x_bsd`: `x` takes as many letters as its declaration has.
def _looked_up(match: re.Match[str]) -> str:
    rest = re.findall(_LETTER, match[3])
    declared = re.search(rf"(?<![\w'′’]){re.escape(match[2])}_((?:{_LETTER})+)(?!\w)", match.string)
    count = len(re.findall(_LETTER, declared[1])) if declared else len(rest)
    inner, outer = "".join(rest[:count]), "".join(rest[count:])
    return f"{match[1]}_{{{match[2]}_{inner}{' ' * bool(outer)}{outer}}}"


def _letters(tensor: str) -> list[str]:
    return re.findall(_LETTER, tensor.partition("_")[2])


# `mean(z_bsd, dim=-1)`: the letter at that place, or the only letter with a prime.
def _over(match: re.Match[str]) -> str:
    name = {"softmax": "Sm", "logsumexp": "lse", "amax": "max", "amin": "min"}.get(match[1].casefold(), match[1])
    letters, primed = (
        _letters(match[2]),
        sorted({letter for letter in re.findall(_LETTER, match[2]) if not letter[-1].isalnum()}),
    )
    place = int(match[3]) if match[3] and re.fullmatch(r"-?\d+", match[3]) else None
    if re.fullmatch(_TENSOR, match[2]) and place is not None and -len(letters) <= place < len(letters):
        return f"{name}_{letters[place]}({match[2]})"
    return f"{name}_{primed[0] if len(primed) == 1 else '…'}({match[2]})"


def _largest(match: re.Match[str]) -> str:
    count, tensor = match["of"] or match["count"] or "…", match["tensor"]
    return f"top_{{{count},{(_letters(tensor) or ['…'])[-1]}}}({tensor})"


# `c_bse = concat(x_bsd, y_bsf)`: along the last letter of the left side.
def _rewrite_concat(match: re.Match[str]) -> str:
    left = re.match(rf"\s*({_TENSOR})", match.string[match.string.rfind("\n", 0, match.start()) + 1 :])
    over, (first, second) = (_letters(left[1]) or ["e"])[-1] if left else "e", (_letters(match[1]), _letters(match[2]))
    size = re.search(rf"^\s*{re.escape(first[-1])}\s*:\s*(\w+)", match.string, re.MULTILINE) if first else None
    length = size[1] if size else "N"
    one, other = (
        f"{tensor.partition('_')[0]}_{{{''.join(letters[:-1])}"
        for tensor, letters in zip(match.groups(), (first, second), strict=True)
    )
    return f"where({over} < {length}, {one}({over} + 0)}}, {other}({over} - {length})}})"


# ------------------------------------------------------------------------------------------------------------- the table

ROWS = (
    Row(rf"({_OPERAND})\s*\*\*\s*({_OPERAND})", r"\1^\2", "E003", "a power is written `^`"),
    Row(rf"^ *({_TENSOR})\s*([-+*/])=\s*(.*\S)", _rewrite_update, "E101", "`<-` changes a tensor"),
    Row(rf"^ *({_TENSOR})\s*(?::=|==)", r"\1 =", "E101", "`=` defines a tensor"),
    Row(rf"{_OPERAND}(?:{_SIGNS}{_OPERAND})+", _factors, "E003", "factors stand side by side, with nothing between them"),
    Row(rf"√\s*(?:\(([^()]+)\)|({_TENSOR}|\d+))", lambda m: f"sqrt({m[1] or m[2]})", "E003", "a root is the function `sqrt`"),
    Row(r"[∑Σ](?=_)", "sum", "E003", "a sum is the operator `sum`"),
    Row(rf"({_OPERAND})\s*%\s*({_OPERAND})", r"\1 mod \2", "E003", "a remainder is written `mod`"),
    Row(
        rf"({_OPERAND})\s*//\s*(?![^\W\d_]{{2}})({_OPERAND})", r"floor(\1 / \2)",
        "E101", "a quotient that is rounded down is `floor`",
    ),
    Row(r"&&?", "and", "E003", "conditions are joined by `and`"),
    Row(r"\|\|", "or", "E003", "conditions are joined by `or`"),
    Row(r"\|([^|]+)\|", r"abs(\1)", "E003", "an absolute value is the function `abs`"),
    Row(r"!(?!=)\s*(?=(\S))", "not ", "E003", "a condition is negated by `not`"),
    Row(r"(\S+)\s*;$", r"\1", "E003", "a statement ends with its line"),
    Row(
        r"^ *for\s+(\w'*)\s*(?:in\s+range\s*\(\s*(?:0\s*,\s*)?([^,():]+)\)|in\s+(\w+)|=\s*[01]\s*(?:to|,|\.\.+)\s*(\w+))\s*:?",
        _loop, "E101", "a loop counts from 0 up to a size",
    ),
    Row(r"^(axes|scalars)\s*:$", r"\1", "E101", "a heading stands alone on its line"),
    Row(
        rf"^ *(?:weights?\s*:|weight|param(?:eter)?s?\s*:?)\s+({_TENSOR})", r"weights \1",
        "E101", "weights are declared by `weights`",
    ),
    Row(rf"^ *(?:def|fn|function|class)\s+({_TENSOR})(?=\()", r"layer \1", "E101", "a layer begins with `layer`"),
    Row(rf"^ *(?:let|var|const)\s+({_TENSOR})", r"\1", "E101", "a definition has no word before it"),
    Row(
        rf"({_NAME})\[({_LETTER})\](?=\()", r"\1_\2",
        "E101", "the letter of a loop stands in the subscript of the layer",
    ),
    Row(
        rf"(?!top)({_NAME})(?:\[([^\[\]]+)\]|_\{{([^{{}}]*,[^{{}}]*)\}})", _slots,
        "E101", "slots stand in a subscript, without commas",
    ),
    Row(
        r"(?i:\b(softmax|logsumexp|sum|mean|amax|amin|max|min|var))\((.*?)(?:,\s*(?:dim|axis)\s*=\s*([-\w']+))\)", _over,
        "E101", "an operator runs over the index in its subscript",
    ),
    Row(r"\b(?i:softmax)(?=_)", "Sm", "E204", "softmax is the operator `Sm`"),
    Row(r"\b(?i:softmax)\(", "Sm_…(", "E204", "softmax is the operator `Sm`, over the index in its subscript"),
    Row(r"\blogsumexp(?=_)", "lse", "E204", "the log of a sum of exponentials is `lse`"),
    Row(
        rf"\bstd_({_LETTER})\s*({_OPERAND})", r"sqrt(var_\1(\2))",
        "E204", "a standard deviation is the root of `var`",
    ),
    Row(rf"\barg_?max_({_LETTER})(?!\w)", r"top_{1,\1}", "E204", "the largest is found by the condition `top`"),
    Row(r"\bln\b", "log", "E204", "the natural logarithm is `log`"),
    Row(r"\b[Ss]wish\b", "silu", "E204", "swish is the function `silu`"),
    Row(r"\b[Dd]ropout\b", "Dr", "E204", "dropout is the function `Dr`"),
    Row(r"(?<!\w)σ(?=\()", "sigmoid", "E204", "the logistic function is `sigmoid`"),
    Row(rf"\bexp\^({_OPERAND})", r"exp(\1)", "E101", "`exp` is a function"),
    Row(
        rf"({_OPERAND})\s+if\s+(.+?)\s+else\s+({_OPERAND})", r"where(\2, \1, \3)",
        "E204", "a choice is the function `where`",
    ),
    Row(
        rf"\b(?:concat|concatenate|cat|hstack)\(\s*\[?\s*({_TENSOR})\s*,\s*({_TENSOR})\s*\]?[^()]*\)", _rewrite_concat,
        "E101", "a concatenation chooses by the number of an index, over an axis as long as both",
    ),
    Row(
        rf"\btop(?:_(?P<count>\w)|_?k)\(\s*(?P<tensor>{_TENSOR})(?:,\s*(?:k\s*=\s*)?(?P<of>\w+))?[^()]*\)", _largest,
        "E101", "`top` says how many, over which index",
    ),
    Row(
        rf"({_NAME})_({_LETTER})_((?:{_LETTER})+(?:\s+(?:{_LETTER})+)?)", _looked_up,
        "E101", "a look-up in a subscript stands in braces",
    ),
    Row(
        rf"({_NAME})_(?!\{{)((?:{_LETTER})*)[({{]([^(){{}}_]+)[)}}]((?:{_LETTER})*)", r"\1_{\2(\3)\4}",
        "E101", "a slot of more than a letter stands in parentheses, its subscript in braces",
    ),
    Row(
        rf"({_NAME})_\{{((?:{_LETTER})*)({_LETTER})\s*([-+])\s*(\d+|{_LETTER})((?:{_LETTER})*)\}}", r"\1_{\2(\3 \4 \5)\6}",
        "E101", "arithmetic in a slot stands in parentheses",
    ),
)  # fmt: skip
