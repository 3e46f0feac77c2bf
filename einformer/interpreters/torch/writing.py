"""Writes Python for people: a letter for each index, names in ASCII, long lines folded at their loosest operators."""

from __future__ import annotations

import builtins
import itertools
import re
import string
import textwrap
import unicodedata
from collections.abc import Iterable, Iterator, Mapping

from einformer.language.calls import axis_of
from einformer.language.tokens import SYNONYMS
from einformer.language.weights import TAKEN

_NAME = re.compile(r"[^\W\d]\w*")


# An index with primes takes the next letter that stands for no other.
def spell_indices(letters: Mapping[str, str], indices: Iterable[str]) -> dict[str, str]:
    more = dict(letters)
    for index in indices:
        if index not in more and (axis := axis_of(index)) in letters:
            more[index] = find_unused(more, string.ascii_lowercase.partition(axis)[2], axis)
    return more


# If all of the letters stand for an index, the axis gets a number, `s2`.
def find_unused(letters: Mapping[str, str], some: str, axis: str) -> str:
    numbered = (f"{axis}{k}" for k in itertools.count(2))
    return next(candidate for candidate in itertools.chain(some, numbered) if candidate not in letters.values())


# Each index is one letter: `s2` becomes one that no other has.
def spell_singly(letters: Mapping[str, str]) -> dict[str, str]:
    free = (letter for letter in string.ascii_letters if letter not in letters.values())
    return {index: letter if letter in string.ascii_letters else next(free) for index, letter in letters.items()}


# `γ` is `gamma`, `λ` `lambda_`.
def romanise(text: str) -> dict[str, str]:
    names = dict.fromkeys(_NAME.findall(text))
    used, spelled = {name for name in names if name.isascii()} | TAKEN | set(dir(builtins)), dict[str, str]()
    for name in names:
        if not name.isascii():
            longer = itertools.accumulate(itertools.repeat("_"), initial=_spell_roman(name))
            spelled[name] = next(candidate for candidate in longer if candidate not in used)
            used.add(spelled[name])
    return spelled


# Other signs stand only in comments, and become the signs that a text may write instead.
def to_ascii(text: str, names: Mapping[str, str]) -> str:
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


WIDTH = 112
NOTED = "  @ "  # between an equation and its note, in a comment
_HEAD = re.compile(r"return |(?:[\w.]+, )*[\w.]+ = |")
_LOOSEST_FIRST = (r" (?=if |else )", r" (?=[+-] )", r" (?=[*/] )")


# An equation in a comment stays as it is, and its note goes below it where there is no room.
def fold(line: str) -> Iterator[str]:
    text = line.lstrip(" ")
    indent = line[: len(line) - len(text)]
    if text.startswith("#"):
        yield from _fold_comment(line, f"{indent}# @ ")
    elif text.startswith('"""'):  # a docstring is words, whatever brackets stand in it
        yield from textwrap.wrap(line, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    else:
        yield from _fold_code(text, indent, False)


def _fold_comment(line: str, start: str) -> Iterator[str]:
    equation, _, note = line.partition(NOTED)
    if len(line) <= WIDTH or not note:
        yield line
    else:
        yield equation
        yield from textwrap.wrap(note, WIDTH, initial_indent=start, subsequent_indent=start)


def _fold_code(text: str, indent: str, bracketed: bool) -> Iterator[str]:
    if len(indent) + len(text) <= WIDTH:
        yield indent + text
        return
    head = "" if bracketed else _HEAD.match(text)[0]  # type: ignore[index]
    operands = _split_operands(text[len(head) :])
    if len(operands) > 1:
        yield from () if bracketed else (f"{indent}{head}(",)
        for operand in operands:
            yield from _fold_code(operand, indent if bracketed else f"{indent}    ", True)
        yield from () if bracketed else (f"{indent})",)
        return
    start, end = max(_find_groups(text, "(["), key=lambda group: group[1] - group[0], default=(0, 0))
    if end - start < 2:
        yield indent + text
        return
    yield indent + text[:start]
    yield from _fold_arguments(text[start:end], f"{indent}    ")
    yield indent + text[end:]


def _fold_arguments(text: str, indent: str) -> Iterator[str]:
    arguments = _split(text, r"(?<=,) ")
    if len(indent) + len(text) <= WIDTH or len(arguments) == 1:
        yield from _fold_code(text, indent, True)
        return
    for argument in arguments:
        *lines, last = _fold_code(argument.removesuffix(","), indent, True)
        yield from (*lines, f"{last},")


def _split_operands(text: str) -> list[str]:
    splits = (_split(text, operator) for operator in _LOOSEST_FIRST)
    return next((parts for parts in splits if len(parts) > 1), [text])


def _split(text: str, cut: str) -> list[str]:
    inside = _find_groups(text, "([{")
    cuts = [m for m in re.finditer(cut, text) if not any(start <= m.start() < end for start, end in inside)]
    starts, ends = [0, *(m.end() for m in cuts)], [*(m.start() for m in cuts), len(text)]
    return [text[start:end] for start, end in zip(starts, ends, strict=True)]


def _find_groups(text: str, brackets: str) -> list[tuple[int, int]]:
    groups, open_ = [], list[int]()
    for place, sign in enumerate(text):
        if sign in "([{":
            open_.append(place)
        elif sign in ")]}":
            start = open_.pop()
            if not open_ and text[start] in brackets:
                groups.append((start + 1, place))
    return groups
