"""Which document does an equation follow? What the notes beside equations name, and the equations that name a document."""

from __future__ import annotations

import functools
import string
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from einformer.architectures import texts
from einformer.language import check, parser
from einformer.language.difference import Renaming
from einformer.language.printer import alone
from einformer.language.tree import Equation, Scalar, Spec
from einformer.language.walk import equations
from einformer.notes.references import Reference, references
from einformer.notes.sources import Source, sources


@dataclass(frozen=True, slots=True)
class Citation:
    """One thing that a note says: a source, if it is one of ours, and a place in it; else its words as they stand."""

    words: str

    @property
    def source(self) -> Source | None:
        """The source, if the first word is the key of one."""
        return sources().get(self.words.partition(" ")[0])

    @property
    def place(self) -> str:
        """`3.4.2 eq 34`; nothing where a document is named as a whole."""
        return self.words.partition(" ")[2]

    @property
    def there(self) -> str:
        """What stands at that place: in words, or the equation, if it is one of a document of `references/`.

        >>> Citation("rope 3.4.2 eq 34").there, Citation("goon 1.1.2 eq 3").there
        ('the rotation without a matrix', 'v_bsea = z_bsd V_dea')
        """
        if self.source and self.source.document:
            return self.printed.says if self.printed else ""
        return self.source.places.get(self.place, "") if self.source else ""

    @property
    def printed(self) -> Reference | None:
        """The equation that `eq 3` is: the third of those that stand at the place, in its order."""
        place, _, number = self.place.partition(" eq ")
        found = at(self.source.document, place) if self.source and self.source.document else []
        return found[int(number) - 1] if number.isdecimal() and 0 < int(number) <= len(found) else None


@dataclass(frozen=True, slots=True)
class Noted:
    """An equation of a text, by its layer or among the `scalars`, and its note: its own, or that of the layer."""

    text: str
    layer: str
    equation: Equation | Scalar
    note: str

    @property
    def says(self) -> str:
        """The equation alone, as it is printed."""
        return alone(self.equation)

    @property
    def cited(self) -> tuple[Citation, ...]:
        """What the note names."""
        return citations(self.note)


def at(document: str, place: str) -> list[Reference]:
    """The equations of a document that stand at a place, or at a part of it: those of `1.1, step 4` are of `1.1`."""
    return [each for each in references(document) if each.place == place or each.place.startswith(place + ",")]


def citations(note: str) -> tuple[Citation, ...]:
    """What a note names, one after the other.

    >>> [(citation.source.year, citation.place) for citation in citations("rope 3.2.2 eq 14; gqa 2.2")]
    [(2021, '3.2.2 eq 14'), (2023, '2.2')]
    """
    return tuple(Citation(" ".join(words.split())) for words in note.split(";") if words.strip())


def noted(spec: Spec, name: str) -> Iterator[Noted]:
    """The equations of a text in its order, each with the note that it stands under; of its scalars those that have one.

    Scalars are numbers for the most part, which follow no document.
    """
    yield from (Noted(name, "scalars", scalar, scalar.note) for scalar in spec.scalars if scalar.note)
    for layer in spec.layers:
        for equation in equations(layer.body):
            yield Noted(name, layer.name, equation, equation.note or layer.note)


@functools.cache
def shipped() -> tuple[Noted, ...]:
    """Those of all texts that ship, each with the layers of the prelude that it calls."""
    prelude = texts.prelude()
    known = frozenset(layer.name for layer in prelude.layers)
    read = {name: parser.parse(texts.text(name), known)[0] for name in texts.shipped()}
    return tuple(each for name, spec in read.items() for each in noted(check.with_prelude(spec, prelude), name))


def following(key: str) -> list[tuple[Citation, Noted]]:
    """The equations of the shipped texts that follow a source, each with the citation that says so."""
    every = ((citation, each) for each in shipped() for citation in each.cited)
    return [(citation, each) for citation, each in every if citation.source and citation.source.key == key]


def alike(found: Iterable[Noted]) -> list[list[Noted]]:
    """Equations that differ only in the names of axes, together.

    >>> [len(same) for same in alike(each for _, each in following("nope"))]
    [3, 3]
    """
    forms: dict[str, list[Noted]] = {}
    for each in found:
        forms.setdefault(form(each.equation), []).append(each)
    return list(forms.values())


def form(equation: Equation | Scalar) -> str:
    """How an equation reads whatever its axes are called: they are `a`, `b`, `c` in the order of the text.

    >>> {form(each.equation) for each in shipped() if each.says in ("u_xf = z_d U_xdf", "u_xo = z_d U_xdo")}
    {'u_ab = z_c U_acb'}
    """
    plain = Renaming({}, time="")
    plain.declared(equation)
    return Renaming(dict(zip(plain.seen, string.ascii_letters, strict=False)), time="").declared(equation).text
