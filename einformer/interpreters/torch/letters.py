"""Chooses the letter of Python for an index: one in a whole file, and one in an einsum, which takes ASCII letters alone."""

from __future__ import annotations

import builtins
import itertools
import re
import string
import unicodedata
from collections.abc import Mapping

from einformer.language.calls import axis_of
from einformer.language.tokens import SYNONYMS
from einformer.language.tree import Apply, Expression, Index, Spec, Tensor
from einformer.language.walk import equations, subexpressions
from einformer.language.weights import TAKEN

_NAME = re.compile(r"[^\W\d]\w*")


def spell_indices(spec: Spec) -> dict[str, str]:
    """A letter for each index: its own, and for one with primes the next that stands for no other."""
    letters: dict[str, str] = {axis.letter: axis.letter for axis in spec.axes}
    for layer in spec.layers:
        roots: list[Expression] = [*layer.formals, *(i for w in layer.weights for i in w.indices)]
        for equation in equations(layer.body):
            roots += [equation.right, *(equation.left.slots if isinstance(equation.left, Tensor) else ())]
        for e in (x for root in roots for x in subexpressions(root)):
            for index in e.indices if isinstance(e, Apply) else (e,) if isinstance(e, Index) else ():
                if index.letter not in letters:
                    axis = axis_of(index.letter)
                    letters[index.letter] = find_unused(letters, string.ascii_lowercase.partition(axis)[2], axis)
    return letters


def find_unused(letters: Mapping[str, str], some: str, axis: str) -> str:
    """The first of some that stands for no index yet; where all do, the axis with a number, `s2`."""
    numbered = (f"{axis}{k}" for k in itertools.count(2))
    return next(candidate for candidate in itertools.chain(some, numbered) if candidate not in letters.values())


def spell_singly(letters: Mapping[str, str]) -> dict[str, str]:
    """The indices of one einsum, each as one letter: its own, and `s2` as one that no other of them has."""
    free = (letter for letter in string.ascii_letters if letter not in letters.values())
    return {index: letter if letter in string.ascii_letters else next(free) for index, letter in letters.items()}


def romanise(text: str) -> dict[str, str]:
    """A name in ASCII, as nothing else is called, for each name of a file that is not: `γ` is `gamma`, `λ` `lambda_`."""
    names = dict.fromkeys(_NAME.findall(text))
    used, spelled = {name for name in names if name.isascii()} | TAKEN | set(dir(builtins)), dict[str, str]()
    for name in names:
        if not name.isascii():
            longer = itertools.accumulate(itertools.repeat("_"), initial=_spell_roman(name))
            spelled[name] = next(candidate for candidate in longer if candidate not in used)
            used.add(spelled[name])
    return spelled


def to_ascii(text: str, names: Mapping[str, str]) -> str:
    """A text of a file with these names; other signs, which only comments hold, as a text may write them too."""
    named = _NAME.sub(lambda match: names.get(match[0], match[0]), text).translate(SYNONYMS)
    return unicodedata.normalize("NFKD", named).encode("ascii", "replace").decode()


def _spell_roman(name: str) -> str:
    plain = "".join(sign for sign in unicodedata.normalize("NFKD", name) if not unicodedata.combining(sign))
    text = ""
    for part in re.findall(r"[\x00-\x7f]+|[^\x00-\x7f]", plain):
        word = part if part.isascii() else _name_sign(part)
        text += "_" * (text[-1:].isalpha() and word[0].isalpha()) + word
    return text


def _name_sign(letter: str) -> str:
    full = unicodedata.name(letter, f"LETTER u{ord(letter):x}")
    word = "_".join((full.partition("LETTER ")[2] or full).replace("-", " ").lower().replace("lamda", "lambda").split())
    return word.capitalize() if letter.isupper() else word
