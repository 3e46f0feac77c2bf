"""Checks that names stand for something, and suggests the name that was probably meant."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Callable, Container, Iterable, Iterator, Mapping

from einformer.errors import Finding, Span
from einformer.language.calls import axis_of
from einformer.language.primitives import CONSTANTS, NAMES
from einformer.language.printer import show
from einformer.language.sizes import Legend
from einformer.language.tokens import WORDS
from einformer.language.tree import Apply, Expression, Index, Name, Spec, Tensor
from einformer.language.walk import children, slots_of

# Letters of other scripts whose usual glyph is that of a Latin letter.
_LATIN = dict(zip("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧοАВЕКМНОРСТУХаеорсухіј", "ABEZHIKMNOPTYXoABEKMHOPCTYXaeopcyxij", strict=True))
# Greek letters and the Latin ones that are written for them, or for which they are taken.
_WRITTEN = str.maketrans("αβγδεζηικλμνοπρστυφχωξψθ", "abgdezniklmvoppstufxwcyt")


def _skeleton(name: str) -> str:
    return "".join(_LATIN.get(letter, letter) for letter in name)


def find_look_alikes(spec: Spec) -> Iterator[Finding]:
    """Two letters of a file that look alike are one letter to the reader (R11)."""
    seen = dict[str, str]()
    code = re.sub(r"[#@][^\n]*", lambda remark: " " * len(remark[0]), spec.span.source.text)
    if code.isascii():
        return
    for written in dict.fromkeys(code):
        letter = unicodedata.normalize("NFKC", written)
        other = seen.setdefault(_skeleton(letter), letter)
        if other != letter and letter in _LATIN | dict.fromkeys(_LATIN.values()):
            pair, position = f"{unicodedata.name(letter)} and {unicodedata.name(other)}", code.index(written)
            place = Span(spec.span.source, position, position + 1)
            yield Finding("E004", f"`{letter}` and `{other}` look alike", place, (pair,), "one of the two")
            return


def check_names(
    inside: Iterable[Expression],
    legend: Legend,
    defined: Mapping[str, tuple[str, ...]],
    names: Callable[[], set[str]],
    layer: str,
) -> Iterator[Finding]:
    """Every name inside an expression is defined, every index declared.

    `defined` maps tensors to nothing or to why they cannot stand here, `names` are all that a name which is not defined could
    have meant. The letters below such a name mean nothing yet.
    """
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
    """Returns whether a name or a tensor is defined here."""
    scalar = legend.scalars.get(x.name)
    if isinstance(x, Tensor):
        return x.name in defined or (scalar is not None and bool(scalar.indices))
    return x.name in defined or x.name in CONSTANTS or x.name in legend.letters or (scalar is not None and not scalar.indices)


def _report_undefined(x: Tensor | Name, legend: Legend, names: set[str], layer: str) -> Finding:
    indexed = isinstance(x, Tensor)
    if word := next((word for word in WORDS if _stands_in(x, word)), ""):
        message = f"each letter of a slot is a name, and `{x.name}` of `{word}` is not defined"
        return Finding("E204", message, x.span, (), f"a line of its own, `n_s = … {word} …`, and `n_s` in the slot")
    message = f"`{layer}` has no tensor `{x.name}`" if indexed else f"no size, scalar or index `{x.name}` is defined"
    if indexed and x.name in legend.axes:
        fix = f"a size: {' '.join(f'`{letter}`' for letter in sorted(legend.letters))}"
        return Finding("E204", f"{message}, and `{x.name}` alone is an index", x.span, (legend.describe(x.name),), fix)
    scalars = {scalar.name for scalar in legend.scalars.values() if bool(scalar.indices) == indexed}
    close = _guess_name(x.name, names | scalars | (set() if indexed else legend.letters))
    plain = all(isinstance(slot, Index) for slot in slots_of(x))
    declared = f"`weights {show(x)}`" if indexed else f"`{x.name} = …` among the scalars"
    fix = f"{declared}, or its definition on a line before" if plain else "its definition, or a weight"
    return Finding("E204", message, x.span, (), f"`{close}`?" if close else fix)


# Is a name one letter of a word in the text?
def _stands_in(x: Tensor | Name, word: str) -> bool:
    start = x.span.start - max(word.find(x.name), 0)
    return x.name in word and x.span.source.text[start : start + len(word)] == word


def _guess_name(name: str, names: Iterable[str]) -> str:
    return find_closest(name, {*names, *(NAMES - {*WORDS} if len(name.rstrip("'")) > 1 else ())})


def find_closest(name: str, names: Iterable[str]) -> str:
    """Returns the name that was probably meant: one that looks the same, or differs in few letters."""
    by_look = {_simplify(other): other for other in sorted(names, reverse=True)}
    matches = difflib.get_close_matches(_simplify(name), by_look, n=1, cutoff=0.6)
    return by_look[matches[0]] if matches else ""


def _simplify(name: str) -> str:
    return _skeleton(name).casefold().translate(_WRITTEN)


def report_undeclared(index: Index, legend: Legend) -> Finding:
    """An index without an axis, and the likely one."""
    letter = axis_of(index.letter)
    near = [other for other in legend.axes if _skeleton(other) == _skeleton(letter)]
    fix = f"`{near[0]}`, which looks alike" if near else f"`{letter}: …` among the axes, or one of {' '.join(legend.axes)}"
    if letter in legend.scalars:
        fix = f"the letter of an axis; a scalar stands in arithmetic, `(d + {letter})`"
        return Finding("E201", f"`{letter}` is a scalar, and here an index is needed", index.span, (), fix)
    return Finding("E201", f"no axis `{letter}` is declared", index.span, (), fix)
