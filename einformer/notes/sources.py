"""Which documents are there? Those whose formulas are claims, whose equations have entries, and which texts follow."""

from __future__ import annotations

import functools
import pathlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Source:
    """A document: who says what and when, where it can be read, and what stands at the places that our texts name.

    The places of a `document` are those of its equations in `references/`.
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
        """Where it can be read; nothing where nowhere is known."""
        return f"https://arxiv.org/abs/{self.arxiv}" if self.arxiv else self.link

    @property
    def brief(self) -> str:
        """`Ba et al. 2016`."""
        return f"{self.author} {self.year}" if self.year else self.author

    def __str__(self) -> str:
        """`Ba et al. 2016, Layer Normalization, arXiv 1607.06450`."""
        return ", ".join(filter(None, (self.brief, self.title, f"arXiv {self.arxiv}" if self.arxiv else self.link)))


@functools.cache
def sources() -> Mapping[str, Source]:
    """The documents by key.

    >>> sources()["rope"].url, sources()["rope"].places["3.4.2 eq 34"]
    ('https://arxiv.org/abs/2104.09864', 'the rotation without a matrix')
    """
    text = (pathlib.Path(__file__).parent / "sources.toml").read_text(encoding="utf-8")
    return {key: Source(key, **row) for key, row in tomllib.loads(text).items()}
