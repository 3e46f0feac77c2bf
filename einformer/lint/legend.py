r"""What do notes say of the sizes of their letters? "`(B, S, D)`-shaped tensors $z_{bsd}$", "$a \in \{0, …, A-1\}$", a table.

Only what is stated in so many words counts. What is not stated is not known, and nothing is said of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from einformer.errors import NOWHERE, EinformerError, Finding, Span
from einformer.language.latex_marks import LETTERS
from einformer.language.parser import parse_expression
from einformer.language.sizes import Legend
from einformer.language.tree import Axis, Expression, Index, Name, Spec, Tensor
from einformer.lint.notes.pieces import Passage, Section

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
    r"([a-z]'*(?:\s*,\s*[a-z]'*)*)[\s)]*(?:(?:<|=|\\in\b)[^$]*)?\$"
)
_LETTERS = re.compile(r"[a-z]'*")
_CROSS = re.compile(r"\s*(?:,|×|\\times|\\cdot)\s*")


@dataclass(frozen=True, slots=True)
class Known:
    """The size of the axis of a letter, and where that is said."""

    letter: str
    size: str
    span: Span = NOWHERE

    def __str__(self) -> str:
        where = f" ({self.span.source.name}:{self.span.line})" if self.span.source is not NOWHERE.source else " (given)"
        return f"{self.letter}: {self.size}{where}"


@dataclass(frozen=True, slots=True)
class Sizes:
    """What is known of the letters of a section: by its own words, else by those of the rest, else by what is given."""

    known: Mapping[str, Known] = field(default_factory=dict)

    def legend(self) -> Legend:
        """As the checker takes it."""
        sized = {letter: (known, _formula(known.size)) for letter, known in self.known.items()}
        return Legend({letter: Axis(letter, e, span=known.span) for letter, (known, e) in sized.items() if e is not None}, {})

    def facts(self, letters: Sequence[str]) -> tuple[str, ...]:
        """What is known of letters, for the facts of a finding."""
        return tuple(str(self.known[letter]) for letter in dict.fromkeys(letters) if letter in self.known)


def stated(section: Section) -> Iterator[Known]:
    """Each size that a section states, in the order of the text."""
    prose = section.prose
    if prose is None:
        return
    found = [known for match in _shapes(section) for known in _shape(match, prose)]
    for pattern in _RANGED:
        for match in pattern.finditer(prose.text):
            size = _plain(match["size"]) if "size" in pattern.groupindex else f"{_plain(match['last'])} + 1"
            found.append(Known(match["letter"], size, prose.span(*match.span("letter"))))
    yield from sorted(found, key=lambda known: known.span.start)


def fixed(section: Section) -> frozenset[str]:
    """The letters that a section fixes: "for each layer $l$", "for some $v$". They may stand on one side only."""
    prose = section.prose
    found = _FIXED.finditer(prose.text) if prose else iter(())
    return frozenset(letter for match in found for letter in _LETTERS.findall(match[1]))


def declared(section: Section) -> dict[str, Tensor]:
    """The tensors whose shapes a section states, by name; those that it states in two ways are none."""
    found = dict[str, Tensor | None]()
    for match in _shapes(section):
        letters, name = tuple(_LETTERS.findall(match["letters"])), match["name"]
        tensor = Tensor(LETTERS.get(name.lstrip("\\"), name), tuple(map(Index, letters)))
        if len(letters) == len(_sizes(match)):
            found[tensor.name] = tensor if found.get(tensor.name, tensor) == tensor else None
    return {name: tensor for name, tensor in found.items() if tensor is not None}


def _shapes(section: Section) -> Iterator[re.Match[str]]:
    prose = section.prose
    return (match for pattern in _SHAPED for match in pattern.finditer(prose.text)) if prose else iter(())


def _sizes(match: re.Match[str]) -> list[str]:
    return [size for size in _CROSS.split(match["sizes"]) if size.strip()]


def _shape(match: re.Match[str], prose: Passage) -> Iterator[Known]:
    letters = list(_LETTERS.finditer(match["letters"]))
    sizes = _sizes(match)
    if len(letters) == len(sizes):
        for letter, size in zip(letters, sizes, strict=True):
            start = match.start("letters") + letter.start()
            yield Known(letter.group().rstrip("'"), _plain(size), prose.span(start, start + 1))


def _plain(size: str) -> str:
    return " ".join(size.replace("\\,", " ").replace("$", "").split())


def two_sizes(section: Sequence[Known]) -> Iterator[Finding]:
    """Letters that one section binds to two sizes, each a letter of its own: `D` and `F`, not `H` and `D / A`."""
    first = dict[str, Known]()
    for known in section:
        before = first.setdefault(known.letter, known)
        if before.size != known.size and all(len(each.size) == 1 and each.size.isupper() for each in (before, known)):
            message = f"`{known.letter}` has the size {known.size} here, and {before.size} in line {before.span.line}"
            yield Finding("E208", message, known.span, (str(before),), "a letter of its own for each size")


def _formula(size: str) -> Expression | None:
    try:
        return Name(size) if len(size) == 1 else parse_expression(size, _NOTHING)
    except EinformerError:
        return None
