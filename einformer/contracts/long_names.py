"""Replaces longer names of axes by letters: `z_{batch seq dim}` by `z_{b s d}`, with a table `{"batch": "b", …}`.

Names in annotations need no table. Each then gets a free letter, and messages give sizes by its name.
"""

from __future__ import annotations

import re
import string
from collections.abc import Container, Iterable, Mapping

from einformer.errors import Source, Span, fail

_SUBSCRIPT = re.compile(r"(?<=_)\{[^{}]*\}")
_WORD = re.compile(r"[^\W\d_]\w+")
FIX = '`axes={"batch": "b", "seq": "s"}`'


# Raises EinformerError (E724) if a letter is not one, or stands for two names.
def check_table(axes: Mapping[str, str]) -> None:
    for name, letter in axes.items():
        if not (len(letter) == 1 and letter.isalpha() and letter.islower()):
            raise fail("E724", f"an axis is a lower-case letter, and `{name}` is `{letter}`", fix=FIX)
        if twin := next((other for other in axes if other != name and axes[other] == letter), None):
            raise fail("E724", f"`{letter}` stands for `{twin}` and for `{name}`", fix="a letter for each")


# Returns a contract with letters for the names in its subscripts. Raises EinformerError (E724) if one has no letter.
def shorten(text: str, axes: Mapping[str, str], name: str = "<contract>") -> str:
    if not axes:
        return text
    check_table(axes)

    def replace(word: re.Match[str], start: int) -> str:
        if word[0] not in axes:
            span = Span(Source(name, text), start + word.start(), start + word.end())
            raise fail("E724", f"`axes` has no letter for `{word[0]}`", span, fix=f'`axes={{"{word[0]}": …}}`')
        return axes[word[0]]

    return _SUBSCRIPT.sub(lambda part: _WORD.sub(lambda word: replace(word, part.start()), part[0]), text)


def choose_letters(names: Iterable[str], axes: Mapping[str, str], taken: Container[str]) -> dict[str, str]:
    """Returns a letter for each name: of the table, or the first free one, of its own letters before others.

    >>> choose_letters(["batch", "beam"], {}, {"a"})
    {'batch': 'b', 'beam': 'e'}
    """
    check_table(axes)
    letters = dict(axes)
    for name in dict.fromkeys(names):
        used = {*letters.values()}
        free = (x for x in (*name.lower(), *string.ascii_lowercase) if x in string.ascii_lowercase)
        if name not in letters:
            letters[name] = next(x for x in free if x not in used and x not in taken)
    return letters
