"""Folds a long line of Python at its loosest operators, else inside the longest of its brackets, as people do."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

WIDTH = 112
NOTED = "  @ "  # between an equation and its note, in a comment
_HEAD = re.compile(r"return |(?:[\w.]+, )*[\w.]+ = |")
_LOOSEST_FIRST = (r" (?=if |else )", r" (?=[+-] )", r" (?=[*/] )")


def fold(line: str) -> Iterator[str]:
    """The lines of one line; an equation in a comment stays as it is, and its note goes below it where there is no room."""
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
