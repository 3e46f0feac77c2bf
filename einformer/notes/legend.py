r"""Reads the legend of notes: a comment `einformer: axes b: B, s t: S, d`, the block of a program, a table, and sizes that
sentences state: "`(B, S, D)`-shaped tensors $z_{bsd}$", "$a \in \{0, …, A-1\}$".

A size counts only where the notes state it in so many words.
"""

from __future__ import annotations

import functools
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from einformer.errors import NOWHERE, EinformerError, Finding, Source, Span, fail
from einformer.language.calls import axis_of
from einformer.language.latex_reader import LETTERS
from einformer.language.parser import parse_expression
from einformer.language.sizes import Legend, Polynomial
from einformer.language.tree import Axis, Expression, Index, Name, Number, Scalar, Spec, Tensor
from einformer.language.walk import find_all
from einformer.notes.documents.pieces import Passage, Section

_NOTHING = Spec("", (), (), ())
_TENSOR = r"\$\s*(?P<name>\\?[A-Za-z]+'*)\s*_\s*\{?\s*(?P<letters>[a-z'\s]+?)\s*\}?\s*%s"
_SHAPE = r"\(\s*(?P<sizes>[A-Z][^()`$]*?)\s*\)[`$]*"
_NEAR = r"[^.;`$()]{0,60}"
_HAS_SHAPE = r"[^.;`$(]{0,30}\b(?:of|with|has|have)\s+(?:the\s+)?shape\s*"
_SHAPED = (
    re.compile(rf"{_SHAPE}\s*-?\s*shaped\b{_NEAR}{_TENSOR % r'[$]'}"),  # `(B, S)`-shaped tensors $x_{bs}$
    re.compile(rf"\bshape\b{_NEAR}[`$\s]*{_SHAPE},?\s*{_TENSOR % r'[$]'}"),  # of shape `(B, S)`, $x_{bs}$
    re.compile(rf"{_TENSOR % r'[$]'}{_HAS_SHAPE}[`$\s]*{_SHAPE}"),
    re.compile(rf"{_TENSOR % r'[$]'}{_HAS_SHAPE}[`$]*(?P<sizes>[A-Z](?:\s*(?:×|\\times|x)\s*[A-Z])*)[`$]*"),
    re.compile(rf"{_TENSOR % r''}\\in\s*\\(?:mathbb\s*\{{\s*R\s*\}}|R|reals)\s*\^\s*\{{(?P<sizes>[^{{}}$]*)\}}"),
)
_DOTS = r"\s*(?:\\[lc]?dots|\.\.\.)\s*,?\s*"
_IN = r"\$\s*(?P<letter>[a-z])\s*\\in\s*(?:\\left)?\\\{\s*%s\s*,?" + _DOTS
_RANGED = (
    re.compile(_IN % "0" + r"(?P<size>[^$,]+?)\s*-\s*1\s*(?:\\right)?\\\}"),
    re.compile(_IN % "1" + r"(?P<size>[A-Z][^$,-]*?)\s*(?:\\right)?\\\}"),
    re.compile(_IN % "0" + r"(?P<last>[A-Z][^$,+-]*?)\s*(?:\\right)?\\\}"),
    re.compile(rf"\$\s*(?P<letter>[a-z])\s*=\s*0\s*,{_DOTS}(?P<size>[^$,]+?)\s*-\s*1\s*\$"),
    re.compile(r"\$\s*0\s*\\leq?\s*(?P<letter>[a-z])\s*<\s*(?P<size>[^$]+?)\s*\$"),
    re.compile(r"^\|\s*[`$]?(?P<letter>[a-z])[`$]?\s*\|\s*[`$]?(?P<size>[A-Z])[`$]?\s*\|", re.MULTILINE),
)
_FIXED = re.compile(
    r"\b(?:for|each|every|all|some|any|fixed|given|layer|step)\s+\$[\s(]*"
    r"([a-z]'*(?:\s*,\s*[a-z]'*)*)[\s)]*(?:(?:<|=|\\in\b)[^$]*)?\$|\$\s*([a-z]'*)\s*\$\s+is\s+fixed"
)
_COUNTED = re.compile(r"(?:,|\\q?quad\b)\s*([a-z])\s*=\s*[01]\b")  # `…, \quad i = 0, …, n`
_LETTERS = re.compile(r"[a-z]'*")
_LEGEND = re.compile(
    r"einformer:[ \t]*axes\b(?P<comment>[^\n]*?)(?:-->|\*/|$)"
    r"|^axes[ \t]*\n(?P<block>(?:[ \t]+[a-z][ \t]*:[^\n]*\n|[ \t]*\n)+)",
    re.MULTILINE,
)
_DEFAULT = re.compile(r"(?:=|<=)[^\n]*|#[^\n]*")
_ENTRY = re.compile(r"\s*((?:[^\W\dA-Z_]|\\[a-z]+)(?:\s+(?:[^\W\dA-Z_]|\\[a-z]+))*)\s*(?::\s*(\S(?:.*\S)?))?\s*")
_CROSS = re.compile(r"\s*(?:,|×|\\times|\\cdot)\s*")


@dataclass(frozen=True, slots=True)
class StatedSize:
    """The size of the axis of a letter, and the place that states it."""

    letter: str
    size: str
    span: Span = NOWHERE

    def __str__(self) -> str:
        where = f" ({self.span.source.name}:{self.span.line})" if self.span.source is not NOWHERE.source else " (given)"
        return f"{self.letter}{': ' * bool(self.size)}{self.size}{where}"


@dataclass
class Stated(Legend):
    """A legend that states some sizes: a letter without one may run over any axis."""

    known: Mapping[str, StatedSize] = field(default_factory=dict)

    @classmethod
    def of_sizes(cls, known: Mapping[str, StatedSize]) -> Stated:
        sized = {letter: (bound, _parse_size(bound.size)) for letter, bound in known.items() if bound.size}
        axes = {letter: Axis(letter, e, span=bound.span) for letter, (bound, e) in sized.items() if e is not None}
        return cls(axes, {"p": Scalar("p", (), Number(0.1))}, known=known)  # the share that `Dr` drops

    def axis(self, letter: str) -> Axis:
        return self.axes.get(axis_of(letter)) or Axis(axis_of(letter), Name("…"))

    def describe(self, letter: str) -> str:
        return str(self.known[axis_of(letter)]) if axis_of(letter) in self.known else ""

    def size(self, slot: Expression) -> Polynomial | None:
        return super().size(slot) if all(axis_of(index.letter) in self.axes for index in find_all(Index, slot)) else None

    def are_twins(self, one: str, other: str) -> bool:
        sizes = [self._spell(letter) for letter in (one, other)]
        return axis_of(one) == axis_of(other) or sizes[0] == sizes[1] != ""

    def are_apart(self, one: str, other: str) -> bool:
        sizes = [self._spell(letter) for letter in (one, other)]
        return "" not in sizes and sizes[0] != sizes[1] and axis_of(one) != axis_of(other)

    def _spell(self, letter: str) -> str:
        return self.known[axis_of(letter)].size if axis_of(letter) in self.known else ""

    # `D` and `A H` may be equal, `D` and `A D` cannot.
    def fits(self, slot: Expression, own: Expression) -> bool:
        here, there = self.size(slot), self.size(own)
        return here is None or there is None or not _are_unequal(here, there)


# One size is the other and more, or the other times letters that all stand above or all below a bar.
def _are_unequal(size: Polynomial, other: Polynomial) -> bool:
    more = {size.get(term, 0) - other.get(term, 0) for term in size.keys() | other.keys()} - {0}
    if more and (min(more) > 0 or max(more) < 0):
        return True
    if len(size) != 1 or len(other) != 1:
        return False
    (one, factor), (two, divisor) = next(iter(size.items())), next(iter(other.items()))
    powers = Counter(dict(one))
    powers.subtract(dict(two))
    left = {power > 0 for power in powers.values() if power}
    return len(left) == 1 and factor == divisor


def read_legend(axes: str, span: Span = NOWHERE) -> tuple[StatedSize, ...]:
    r"""Reads `b: B, s t: S, d \mu`: letters with their size, or without. Raises EinformerError E805.

    >>> [str(size) for size in read_legend("b: B, s t: S, d")]
    ['b: B (given)', 's: S (given)', 't: S (given)', 'd (given)']
    """
    entries = [_ENTRY.fullmatch(part) for part in axes.split(",") if part.strip()]
    letters = [(letter.lstrip("\\"), entry[2] or "") for entry in entries if entry for letter in entry[1].split()]
    sizes = tuple(StatedSize(LETTERS.get(letter, letter), size, span) for letter, size in letters)
    if not sizes or None in entries or any(len(stated.letter) > 1 for stated in sizes):
        fix = "`b: B, s t: S, d`: letters, with their size or without"
        raise fail("E805", f"`{axes.strip()}` is not a legend", span, fix=fix)
    return sizes


# Letters of one size stand together, those without a size last; `read_legend` reads it back.
def print_legend(sizes: Sequence[StatedSize]) -> str:
    letters = defaultdict[str, list[str]](list)
    for stated in sizes:
        letters[stated.size].append(stated.letter)
    return ", ".join(" ".join(letters[size]) + f": {size}" * bool(size) for size in sorted(letters, key=lambda size: not size))


# Yields the legends that comments and blocks of a text give, each with its place. Raises EinformerError E805.
def find_legends(source: Source) -> Iterator[tuple[int, tuple[StatedSize, ...]]]:
    for match in _LEGEND.finditer(source.text):
        lines = _DEFAULT.sub("", match["block"]).split("\n") if match["block"] else [match["comment"]]
        text = ",".join(line for line in lines if line.strip())
        yield match.start(), read_legend(text, Span(source, match.start(), match.start() + len("axes")))


def read_sizes(section: Section) -> Iterator[StatedSize]:
    prose = section.prose
    if prose is None:
        return
    sizes = [bound for match in _find_shapes(section) for bound in _read_shape(match, prose)]
    for pattern in _RANGED:
        for match in pattern.finditer(prose.text):
            size = _strip_marks(match["size"]) if "size" in pattern.groupindex else f"{_strip_marks(match['last'])} + 1"
            sizes.append(StatedSize(match["letter"], size, prose.span(*match.span("letter"))))
    yield from sorted(sizes, key=lambda bound: bound.span.start)


# "for each layer $l$", "for some $v$": these letters may stand on one side only.
def read_fixed(section: Section) -> frozenset[str]:
    prose = section.prose
    matches = _FIXED.finditer(prose.text) if prose else iter(())
    return frozenset(letter for match in matches for letter in _LETTERS.findall(match[1] or match[2]))


# The letters for whose values a formula holds: `\sum_j A_{ij} = c, \quad i = 1, \dots, n`.
def find_counted(formula: str) -> frozenset[str]:
    return frozenset(_COUNTED.findall(formula))


# A tensor with two shapes is left out.
def read_shapes(section: Section) -> dict[str, Tensor]:
    shapes = dict[str, Tensor | None]()
    for match in _find_shapes(section):
        letters, name = tuple(_LETTERS.findall(match["letters"])), match["name"]
        place = section.prose.span(*match.span("name")) if section.prose else NOWHERE
        tensor = Tensor(LETTERS.get(name.lstrip("\\"), name), tuple(map(Index, letters)), span=place)
        if len(letters) == len(_split_sizes(match)):
            shapes[tensor.name] = tensor if shapes.get(tensor.name, tensor) == tensor else None
    return {name: tensor for name, tensor in shapes.items() if tensor is not None}


def _find_shapes(section: Section) -> Iterator[re.Match[str]]:
    prose = section.prose
    return (match for pattern in _SHAPED for match in pattern.finditer(prose.text)) if prose else iter(())


def _split_sizes(match: re.Match[str]) -> list[str]:
    return [size for size in _CROSS.split(match["sizes"]) if size.strip()]


def _read_shape(match: re.Match[str], prose: Passage) -> Iterator[StatedSize]:
    letters = list(_LETTERS.finditer(match["letters"]))
    sizes = _split_sizes(match)
    if len(letters) == len(sizes):
        for letter, size in zip(letters, sizes, strict=True):
            start = match.start("letters") + letter.start()
            yield StatedSize(letter.group().rstrip("'"), _strip_marks(size), prose.span(start, start + 1))


def _strip_marks(size: str) -> str:
    return " ".join(size.replace("\\,", " ").replace("$", "").split())


# Two sizes differ if each is a letter: `D` and `F`, not `H` and `D / A`.
def find_conflicts(section: Sequence[StatedSize]) -> Iterator[Finding]:
    first = dict[str, StatedSize]()
    for stated in section:
        before = first.setdefault(stated.letter, stated)
        if before.size != stated.size and all(len(bound.size) == 1 and bound.size.isupper() for bound in (before, stated)):
            message = f"`{stated.letter}` has the size {stated.size} here, and {before.size} in line {before.span.line}"
            yield Finding("E208", message, stated.span, (str(before),), "a letter of its own for each size")


@functools.cache
def _parse_size(size: str) -> Expression | None:
    try:
        return Name(size) if len(size) == 1 else parse_expression(size, _NOTHING)
    except EinformerError:
        return None
