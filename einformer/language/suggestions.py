"""Suggests what a person probably meant: a name that is there, our notation for a form of another, `x Q` for `x * Q`."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass

from einformer.errors import Finding, Span
from einformer.language.calls import axis_of
from einformer.language.primitives import CONSTANTS, NAMES, PRIMITIVES
from einformer.language.printer import show
from einformer.language.sizes import Legend
from einformer.language.tokens import WORDS, is_latex
from einformer.language.tree import Apply, Expression, Index, Name, Spec, Tensor
from einformer.language.walk import children, slots_of

# -------------------------------------------------------------------------------------------------------------- names

# Letters of other scripts whose usual glyph is that of a Latin letter.
LATIN = dict(zip("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧοАВЕКМНОРСТУХаеорсухіј", "ABEZHIKMNOPTYXoABEKMHOPCTYXaeopcyxij", strict=True))
# Greek letters and the Latin ones that are written for them, or for which they are taken.
_WRITTEN = str.maketrans("αβγδεζηικλμνοπρστυφχωξψθ", "abgdezniklmvoppstufxwcyt")


def _skeleton(name: str) -> str:
    return "".join(LATIN.get(letter, letter) for letter in name)


# Two letters of a file that look alike are one letter to the reader (R11).
def find_look_alikes(spec: Spec) -> Iterator[Finding]:
    seen = dict[str, str]()
    code = re.sub(r"[#@][^\n]*", lambda remark: " " * len(remark[0]), spec.span.source.text)
    if code.isascii():
        return
    for written in dict.fromkeys(code):
        letter = unicodedata.normalize("NFKC", written)
        other = seen.setdefault(_skeleton(letter), letter)
        if other != letter and letter in LATIN | dict.fromkeys(LATIN.values()):
            pair, position = f"{unicodedata.name(letter)} and {unicodedata.name(other)}", code.index(written)
            place = Span(spec.span.source, position, position + 1)
            yield Finding("E004", f"`{letter}` and `{other}` look alike", place, (pair,), "one of the two")
            return


# Every name inside an expression is defined, every index declared. `defined` maps tensors to nothing or to why they cannot
# stand here, `names` are all that a name which is not defined could have meant. The letters below such a name mean nothing yet.
def check_names(
    inside: Iterable[Expression],
    legend: Legend,
    defined: Mapping[str, tuple[str, ...]],
    names: Callable[[], set[str]],
    layer: str,
) -> Iterator[Finding]:
    below = set[int]()
    for x in inside:
        match x:
            case Index() if id(x) in below:
                pass
            case Index() if legend.axis(x.letter) is None:
                yield report_undeclared(x, legend)
            case Apply():
                yield from (report_undeclared(index, legend) for index in x.indices if legend.axis(index.letter) is None)
                if x.name == "Dr" and len(x.arguments) == 1 and "p" not in legend.scalars:
                    message = "`Dr` drops with the scalar `p`, which is not declared"
                    yield Finding("E204", message, x.span, (), "`p = 0.1` among the scalars, or `Dr(…, q)`")
            case Tensor() | Name():
                if (reason := defined.get(x.name)) and (isinstance(x, Tensor) or x.name not in legend.letters):
                    message, fact, fix = reason
                    yield Finding("E205", message, x.span, (fact,), fix)
                elif not is_defined(x, legend, defined):
                    below |= set(map(id, children(x)))
                    yield _report_undefined(x, legend, names(), layer)
            case _:
                pass


def is_defined(x: Tensor | Name, legend: Legend, defined: Container[str]) -> bool:
    scalar = legend.scalars.get(x.name)
    if isinstance(x, Tensor):
        return x.name in defined or (scalar is not None and bool(scalar.indices))
    return x.name in defined or x.name in CONSTANTS or x.name in legend.letters or (scalar is not None and not scalar.indices)


def _report_undefined(x: Tensor | Name, legend: Legend, names: set[str], layer: str) -> Finding:
    indexed = isinstance(x, Tensor)
    if word := next((word for word in WORDS if _stands_in(x, word)), ""):
        message = f"each letter of a slot is a name, and `{x.name}` of `{word}` is not defined"
        return Finding("E204", message, x.span, (), f"a line of its own, `n_s = … {word} …`, and `n_s` in the slot")
    if (scalar := legend.scalars.get(x.name)) is not None:
        own = show(Tensor(x.name, scalar.indices)) if scalar.indices else x.name
        message = f"the scalar `{x.name}` has {'an' if scalar.indices else 'no'} index"
        return Finding("E204", message, x.span, (), f"`{own}`")
    if not indexed and x.span.source.text[x.span.end : x.span.end + 1] == "(":
        close = find_closest(x.name, {*names, *(NAMES - {*WORDS})})
        return Finding(
            "E204", f"no function or layer `{x.name}` is defined", x.span, (), f"`{close}`?" if close else "a layer of the file"
        )
    message = f"`{layer}` has no tensor `{x.name}`" if indexed else f"no size, scalar or index `{x.name}` is defined"
    if indexed and x.name in legend.axes:
        fix = f"a size: {' '.join(f'`{letter}`' for letter in sorted(legend.letters))}"
        return Finding("E204", f"{message}, and `{x.name}` alone is an index", x.span, (legend.describe(x.name),), fix)
    scalars = {scalar.name for scalar in legend.scalars.values() if bool(scalar.indices) == indexed}
    close = _guess_name(x.name, names | scalars | (set() if indexed else legend.letters), indexed)
    plain = all(isinstance(slot, Index) for slot in slots_of(x))
    declared = f"`weights {show(x)}`" if indexed else f"`{x.name} = …` among the scalars"
    fix = f"{declared}, or its definition on a line before" if plain else "its definition, or a weight"
    return Finding("E204", message, x.span, (), f"`{close}`?" if close else fix)


# Is a name one letter of a word in the text?
def _stands_in(x: Tensor | Name, word: str) -> bool:
    start = x.span.start - max(word.find(x.name), 0)
    return x.name in word and x.span.source.text[start : start + len(word)] == word


# An operator has a subscript too, a function has none.
def _guess_name(name: str, names: Iterable[str], indexed: bool) -> str:
    primitives = {called for called, with_indices in PRIMITIVES if with_indices == indexed and called not in WORDS}
    return find_closest(name, {*names, *(primitives if len(name.rstrip("'")) > 1 else ())})


# The likely name looks the same, or differs in few letters.
def find_closest(name: str, names: Iterable[str]) -> str:
    by_look = {_simplify(other): other for other in sorted(names, reverse=True)}
    matches = difflib.get_close_matches(_simplify(name), by_look, n=1, cutoff=0.6)
    return by_look[matches[0]] if matches else ""


def _simplify(name: str) -> str:
    return _skeleton(name).casefold().translate(_WRITTEN)


def report_undeclared(index: Index, legend: Legend) -> Finding:
    letter = axis_of(index.letter)
    near = [other for other in legend.axes if _skeleton(other) == _skeleton(letter)]
    others = f", or one of {' '.join(legend.axes)}" if legend.axes else ""
    fix = f"`{near[0]}`, which looks alike" if near else f"`{letter}: …` among the axes{others}"
    if letter in legend.scalars:
        fix = f"the letter of an axis; a scalar stands in arithmetic, `(d + {letter})`"
        return Finding("E201", f"`{letter}` is a scalar, and here an index is needed", index.span, (), fix)
    return Finding("E201", f"no axis `{letter}` is declared", index.span, (), fix)


# ----------------------------------------------------------------------------------------------------- forms of other notations


MAXIMUM_LINE = 300  # characters of a line that is searched; who types a first line types a short one
_REPLACED = frozenset(("E003", "E101", "E103", "E201", "E202", "E204", "E304", "E405", "E507"))
_NAME = r"[^\W\d_][^\W_]*['′’]*"
_TENSOR = rf"{_NAME}(?:_\{{[^{{}}]*\}}|_(?:[^\W_]['′’]*)+)?"
_OPERAND = rf"(?:\d+(?:\.\d+)?|{_TENSOR}(?:\([^()]*\))?|\([^()]*\))(?:\^\w+)?"
_LETTER = r"[^\W_]['′’]*"
_SIGNS = r"\s*[*×⊙⋅∘]\s*"
_REDUCING = "sum|mean|var|max|min|lse"


@dataclass(frozen=True, slots=True)
class Idiom:
    """A form of another notation, its replacement, the code of its finding, and the reason."""

    typed: str
    meant: str | Callable[[re.Match[str]], str]
    code: str
    reason: str


def suggest(finding: Finding) -> Finding:
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


# `softmax(t_ss' + m_ss')`: over the only letter with a prime, or the last letter of a tensor alone.
def _rewrite_softmax(match: re.Match[str]) -> str:
    argument = match.string[match.end() :].partition("\n")[0]
    primed = {letter for letter in re.findall(_LETTER, argument) if not letter[-1].isalnum()}
    alone = re.match(rf"\s*({_TENSOR})\s*\)", argument)
    letters = sorted(primed) if len(primed) == 1 else _letters(alone[1])[-1:] if alone else []
    return f"Sm_{letters[0] if letters else '…'}("


# `z_bsd.mean(-1)`, `z_bsd.sum(d)`
def _rewrite_method(match: re.Match[str]) -> str:
    letters, name = _letters(match[1]), {"softmax": "Sm", "amax": "max", "amin": "min"}.get(match[2], match[2])
    place = int(match[3]) if match[3].lstrip("-").isdigit() else None
    over = match[3] if place is None else letters[place] if -len(letters) <= place < len(letters) else "…"
    return f"{name}_{over}({match[1]})"


# `einsum("bsd,df->bsf", z, W)`
def _rewrite_einsum(match: re.Match[str]) -> str:
    operands = zip(match[2].split(","), [*match[1].split(","), *[""] * len(match[2])], strict=False)
    return " ".join(name.strip() + f"_{letters.strip()}" * ("_" not in name) for name, letters in operands)


def _rewrite_length(match: re.Match[str]) -> str:
    return f"sqrt(sum_{(_letters(match[1]) or ['…'])[-1]} {match[1]}^2)"


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
    Idiom(rf"({_OPERAND})\s*\*\*\s*({_OPERAND})", r"\1^\2", "E003", "a power is written `^`"),
    Idiom(rf"\^[-−]({_TENSOR})", r"^(-\1)", "E101", "an exponent that is no number stands in parentheses"),
    Idiom(rf"^ *({_TENSOR})\s*([-+*/])=\s*(.*\S)", _rewrite_update, "E101", "`<-` changes a tensor"),
    Idiom(rf"^ *({_TENSOR})\s*(?::=|==)", r"\1 =", "E101", "`=` defines a tensor"),
    Idiom(rf"{_OPERAND}(?:{_SIGNS}{_OPERAND})+", _factors, "E003", "factors stand side by side, with nothing between them"),
    Idiom(rf"√\s*(?:\(([^()]+)\)|({_TENSOR}|\d+))", lambda m: f"sqrt({m[1] or m[2]})", "E003", "a root is the function `sqrt`"),
    Idiom(
        r"\b(?:\w+\.)?einsum\(\s*[\"']([^\"']*?)(?:->[^\"']*)?[\"']\s*,\s*([^()]*)\)", _rewrite_einsum,
        "E003", "a sum of products is the product: letters that the left side does not have are summed",
    ),
    Idiom(
        rf"({_TENSOR})\.(softmax|amax|amin|{_REDUCING})\(\s*(?:(?:dim|axis)\s*=\s*)?(-?\d+|{_LETTER})\s*\)", _rewrite_method,
        "E003", "an operator stands before its argument, over the index in its subscript",
    ),
    Idiom(
        rf"({_TENSOR})(?:\.(?:mT|T|transpose\([^()]*\)|permute\([^()]*\))|\^(?:T|⊤|\{{T\}}))(?!\w)", r"\1",
        "E204", "nothing is transposed: letters say what meets",
    ),
    Idiom(rf"({_NAME})\^\{{((?:{_LETTER}){{2,}})\}}", r"\1_\2", "E204", "indices stand below"),
    Idiom(r"[∑Σ](?=_)", "sum", "E003", "a sum is the operator `sum`"),
    Idiom(rf"({_OPERAND})\s*%\s*({_OPERAND})", r"\1 mod \2", "E003", "a remainder is written `mod`"),
    Idiom(
        rf"({_OPERAND})\s*//\s*(?![^\W\d_]{{2}})({_OPERAND})", r"floor(\1 / \2)",
        "E101", "a quotient that is rounded down is `floor`",
    ),
    Idiom(r"//\s*(\S.*)", r"# \1", "E101", "a comment begins with `#`"),
    Idiom(r"&&?", "and", "E003", "conditions are joined by `and`"),
    Idiom(rf"\|\|\s*({_TENSOR})\s*\|\|", _rewrite_length, "E003", "a length is the root of a sum of squares"),
    Idiom(r"\|\|", "or", "E003", "conditions are joined by `or`"),
    Idiom(r"\|([^|]+)\|", r"abs(\1)", "E003", "an absolute value is the function `abs`"),
    Idiom(r"!(?!=)\s*(?=(\S))", "not ", "E003", "a condition is negated by `not`"),
    Idiom(r"(\S+)\s*;$", r"\1", "E003", "a statement ends with its line"),
    Idiom(
        r"^ *for\s+(\w'*)\s*(?:in\s+range\s*\(\s*(?:0\s*,\s*)?([^,():]+)\)|in\s+(\w+)|=\s*[01]\s*(?:to|,|\.\.+)\s*(\w+))\s*:?",
        _loop, "E101", "a loop counts from 0 up to a size",
    ),
    Idiom(r"^(axes|scalars)\s*:$", r"\1", "E101", "a heading stands alone on its line"),
    Idiom(
        rf"^ *(?:weights?\s*:|weight|param(?:eter)?s?\s*:?)\s+({_TENSOR})", r"weights \1",
        "E101", "weights are declared by `weights`",
    ),
    Idiom(rf"^ *(?:def|fn|function|class)\s+({_TENSOR})(?=\()", r"layer \1", "E101", "a layer begins with `layer`"),
    Idiom(rf"^ *(?:let|var|const)\s+({_TENSOR})", r"\1", "E101", "a definition has no word before it"),
    Idiom(
        rf"({_NAME})\[({_LETTER})\](?=\()", r"\1_\2",
        "E101", "the letter of a loop stands in the subscript of the layer",
    ),
    Idiom(
        rf"{_NAME}_\{{[^{{}}]*?((?:{'|'.join(sorted(NAMES))})\((?:[^()]|\([^()]*\))*\))[^{{}}]*\}}", r"n_… = \1",
        "E101", "a slot takes a name, and a function stands on a line of its own",
    ),
    Idiom(
        rf"(?<![\w'′’])(?!top)({_NAME})(?:\[([^\[\]:]+)\]|_\{{([^{{}}]*,[^{{}}]*)\}})", _slots,
        "E101", "slots stand in a subscript, without commas",
    ),
    Idiom(
        rf"({_TENSOR})\[[^\[\]]*\]", lambda m: m[1] + "_…" * ("_" not in m[1]),
        "E101", "a subscript has an index for each axis, and `:` is none",
    ),
    Idiom(
        rf"\b({_REDUCING})_({_LETTER})\(\s*({_TENSOR})\s*,\s*(?:dim|axis)\s*=[^()]*\)", r"\1_\2(\3)",
        "E101", "the subscript of an operator says all of its axes",
    ),
    Idiom(
        rf"\b({_REDUCING})\(\s*({_TENSOR})\s*,\s*({_LETTER})\s*\)", r"\1_\3(\2)",
        "E405", "the index of an operator stands in its subscript",
    ),
    Idiom(
        r"(?i:\b(softmax|logsumexp|sum|mean|amax|amin|max|min|var))\((.*?)(?:,\s*(?:dim|axis)\s*=\s*([-\w']+))\)", _over,
        "E101", "an operator runs over the index in its subscript",
    ),
    Idiom(
        rf"\b(?i:softmax)_(?:\{{({_LETTER})\}}|({_LETTER}|\{{[^{{}}]*\}}))", lambda m: f"Sm_{m[1] or m[2]}",
        "E204", "softmax is the operator `Sm`",
    ),
    Idiom(r"\b(?i:softmax)\(", _rewrite_softmax, "E204", "softmax is the operator `Sm`, over the index in its subscript"),
    Idiom(r"\blogsumexp(?=_)", "lse", "E204", "the log of a sum of exponentials is `lse`"),
    Idiom(
        rf"\bstd_({_LETTER})\s*({_OPERAND})", r"sqrt(var_\1(\2))",
        "E204", "a standard deviation is the root of `var`",
    ),
    Idiom(rf"\barg_?max_({_LETTER})(?!\w)", r"top_{1,\1}", "E204", "the largest is found by the condition `top`"),
    Idiom(r"\blog_2\b", "log2", "E101", "the logarithm of base 2 is `log2`"),
    Idiom(
        rf"\btop_(\d+)\s+({_TENSOR})", lambda m: f"top_{{{m[1]},{(_letters(m[2]) or ['…'])[-1]}}} {m[2]}",
        "E101", "`top` says over which index it takes the largest",
    ),
    Idiom(
        r"(?<==)\s*(?:(?:torch|np)\.)?(?:tril|causal(?:_?mask)?)\b(?:\(.*\))?\s*$", "where(s' <= s, 0, -inf)",
        "E204", "a causal mask is a condition on positions",
    ),
    Idiom(r"\bln\b", "log", "E204", "the natural logarithm is `log`"),
    Idiom(r"\b[Ss]wish\b", "silu", "E204", "swish is the function `silu`"),
    Idiom(r"\b[Dd]ropout\b", "Dr", "E204", "dropout is the function `Dr`"),
    Idiom(r"(?<!\w)σ(?=\()", "sigmoid", "E204", "the logistic function is `sigmoid`"),
    Idiom(rf"\bexp\^({_OPERAND})", r"exp(\1)", "E101", "`exp` is a function"),
    Idiom(
        rf"({_OPERAND})\s+if\s+(.+?)\s+else\s+({_OPERAND})", r"where(\2, \1, \3)",
        "E204", "a choice is the function `where`",
    ),
    Idiom(
        rf"\b(?:concat|concatenate|cat|hstack)(?:_{_LETTER})?\(\s*\[?\s*({_TENSOR})\s*,\s*({_TENSOR})\s*\]?[^()]*\)",
        _rewrite_concat, "E101", "a concatenation chooses by the number of an index, over an axis as long as both",
    ),
    Idiom(
        rf"\btop(?:_(?P<count>\w)|_?k)\(\s*(?P<tensor>{_TENSOR})(?:,\s*(?:k\s*=\s*)?(?P<of>\w+))?[^()]*\)", _largest,
        "E101", "`top` says how many, over which index",
    ),
    Idiom(
        rf"({_NAME})_({_LETTER})_((?:{_LETTER})+(?:\s+(?:{_LETTER})+)?)", _looked_up,
        "E101", "a look-up in a subscript stands in braces",
    ),
    Idiom(
        rf"({_NAME})_(?!\{{)((?:{_LETTER})*)[({{]([^(){{}}_]+)[)}}]((?:{_LETTER})*)", r"\1_{\2(\3)\4}",
        "E101", "a slot of more than a letter stands in parentheses, its subscript in braces",
    ),
    Idiom(
        rf"({_NAME})_\{{((?:{_LETTER})*)({_LETTER})\s*([-+])\s*(\d+|{_LETTER})((?:{_LETTER})*)\}}", r"\1_{\2(\3 \4 \5)\6}",
        "E101", "arithmetic in a slot stands in parentheses",
    ),
)  # fmt: skip
