"""Links equations with the documents that they follow, by the notes beside them."""

from __future__ import annotations

import functools
import string
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from einformer.architectures import texts
from einformer.language.difference import Renaming
from einformer.language.printer import alone
from einformer.language.tree import Equation, Scalar, Spec
from einformer.language.walk import equations
from einformer.notes.references import Reference, references
from einformer.notes.sources import Publication, sources


@dataclass(frozen=True, slots=True)
class Citation:
    """A part of a note: a source and a place in it, or other words."""

    words: str

    @property
    def source(self) -> Publication | None:
        return sources().get(self.words.partition(" ")[0])

    # `3.4.2 eq 34`, or "" for a document as a whole.
    @property
    def place(self) -> str:
        return self.words.partition(" ")[2]

    @property
    def there(self) -> str:
        """Returns the text at that place: words, or the equation, for a document in `references/`.

        >>> Citation("rope 3.4.2 eq 34").there, Citation("goon 1.1.2 eq 3").there
        ('the rotation without a matrix', 'v_bsea = z_bsd V_dea')
        """
        if self.source and self.source.document:
            return self.printed.says if self.printed else ""
        return self.source.places.get(self.place, "") if self.source else ""

    # `eq 3` is the third equation at the place, in order.
    @property
    def printed(self) -> Reference | None:
        place, _, number = self.place.partition(" eq ")
        equations_there = find_at(self.source.document, place) if self.source and self.source.document else []
        return equations_there[int(number) - 1] if number.isdecimal() and 0 < int(number) <= len(equations_there) else None


@dataclass(frozen=True, slots=True)
class Noted:
    """An equation of a layer, or among the `scalars`, with its note or the note of its layer."""

    text: str
    layer: str
    equation: Equation | Scalar
    note: str

    @property
    def says(self) -> str:
        return alone(self.equation)

    @property
    def cited(self) -> tuple[Citation, ...]:
        return read_citations(self.note)


# An equation is at a place if it is at a part of it: `1.1, step 4` is in `1.1`.
def find_at(document: str, place: str) -> list[Reference]:
    return [
        reference for reference in references(document) if reference.place == place or reference.place.startswith(place + ",")
    ]


def read_citations(note: str) -> tuple[Citation, ...]:
    """Returns the citations in a note, in order.

    >>> [(citation.source.year, citation.place) for citation in read_citations("rope 3.2.2 eq 14; gqa 2.2")]
    [(2021, '3.2.2 eq 14'), (2023, '2.2')]
    """
    return tuple(Citation(" ".join(words.split())) for words in note.split(";") if words.strip())


# Equations come in order, then the scalars that have a note. Most scalars are numbers, which follow no document.
def find_noted(spec: Spec, name: str) -> Iterator[Noted]:
    yield from (Noted(name, "scalars", scalar, scalar.note) for scalar in spec.scalars if scalar.note)
    for layer in spec.layers:
        for equation in equations(layer.body):
            yield Noted(name, layer.name, equation, equation.note or layer.note)


# Layers of the library that a text calls count too.
@functools.cache
def shipped() -> tuple[Noted, ...]:
    return tuple(equation for name in texts.shipped() for equation in find_noted(texts.write_out(name), name))


def find_following(key: str) -> list[tuple[Citation, Noted]]:
    every = ((citation, equation) for equation in shipped() for citation in equation.cited)
    return [(citation, equation) for citation, equation in every if citation.source and citation.source.key == key]


def group_alike(found: Iterable[Noted]) -> list[list[Noted]]:
    """Groups equations that differ only in the names of axes.

    >>> [len(same) for same in group_alike(noted for _, noted in find_following("nope"))]
    [8, 8, 2, 2]
    """
    forms: dict[str, list[Noted]] = {}
    for equation in found:
        forms.setdefault(normalise_axes(equation.equation), []).append(equation)
    return list(forms.values())


def normalise_axes(equation: Equation | Scalar) -> str:
    """Returns an equation with its axes named `a`, `b`, `c` in the order of the text.

    >>> {normalise_axes(noted.equation) for noted in shipped() if noted.says in ("u_xf = z_d U_xdf", "u_xo = z_d U_xdo")}
    {'u_ab = z_c U_acb'}
    """
    plain = Renaming({}, time="")
    plain.declaration(equation)
    return Renaming(dict(zip(plain.seen, string.ascii_letters, strict=False)), time="").declaration(equation).text
