"""Lists the documents whose formulas are claims, whose equations have entries, and which texts follow."""

from __future__ import annotations

import functools
import pathlib
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Publication:
    """A document: authors, year, title, address, and the words for the places that our texts name.

    The places of a `document` are the places of its equations in `references/`.
    """

    key: str
    author: str
    title: str
    year: int = 0
    arxiv: str = ""
    link: str = ""
    document: str = ""
    places: Mapping[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"https://arxiv.org/abs/{self.arxiv}" if self.arxiv else self.link

    # Returns `Ba et al. 2016`.
    @property
    def brief(self) -> str:
        return f"{self.author} {self.year}" if self.year else self.author

    # `Ba et al. 2016, Layer Normalization, arXiv 1607.06450`.
    def __str__(self) -> str:
        return ", ".join(filter(None, (self.brief, self.title, f"arXiv {self.arxiv}" if self.arxiv else self.link)))


@functools.cache
def sources() -> Mapping[str, Publication]:
    """Returns the documents by key.

    >>> sources()["rope"].url, sources()["rope"].places["3.4.2 eq 34"]
    ('https://arxiv.org/abs/2104.09864', 'the rotation without a matrix')
    """
    text = (pathlib.Path(__file__).parent / "sources.toml").read_text(encoding="utf-8")
    return {key: Publication(key, **row) for key, row in tomllib.loads(text).items()}


def read_note(note: str) -> tuple[str, str]:
    """Returns the words for the place of a note, and the place in full.

    >>> read_note("vaswani 3.3 eq 2")
    ('the feed-forward network', 'Vaswani et al. 2017, section 3.3, equation 2')
    """
    parts = [" ".join(words.split()) for words in note.split(";") if words.strip()]
    there = (
        sources()[key].places.get(place, "") for key, _, place in (words.partition(" ") for words in parts) if key in sources()
    )
    return next(filter(None, there), ""), "; ".join(map(_spell_out, parts))


def _spell_out(words: str) -> str:
    key, _, place = words.partition(" ")
    if key not in sources():
        return words
    section, _, equation = place.rpartition("eq ") if "eq " in place else (place, "", "")
    section = f"section {section.strip()}" if section[:1].isdecimal() else section.strip()
    return ", ".join(filter(None, (sources()[key].brief, section, f"equation {equation}" if equation else "")))


def list_sources(notes: Iterable[str]) -> list[str]:
    """Lists the sources that notes name, by key.

    >>> list_sources(["rope 3.2.2 eq 14; gqa 2.2"])[0]
    'rope: Su et al. 2021, RoFormer: Enhanced Transformer with Rotary Position Embedding, arXiv 2104.09864'
    """
    named = dict.fromkeys(words.split()[0] for note in notes for words in note.split(";") if words.strip())
    return [f"{key}: {sources()[key]}" for key in named if key in sources()]
