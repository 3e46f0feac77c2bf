"""Which lines belong together, and which names do they let be called?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from einformer.language.tokens import Line, Token


def remarks(lines: list[Line]) -> tuple[list[str], list[Line], tuple[str, ...]]:
    """The title and the lines of comment after it, the other lines, each with those above it, and those at the end."""
    first = next((at for at, line in enumerate(lines) if line.tokens), len(lines))
    rest: list[Line] = []
    above: list[str] = []
    for line in lines[first:]:
        if line.tokens:
            rest.append(replace(line, above=tuple(above)) if above else line)
            above = []
        else:
            above.append(line.comment)
    return [line.comment for line in lines[:first]] or [""], rest, tuple(above)


def headed(head: Line, body: list[Line]) -> list[Line]:
    """The lines under a heading; what is said of it, or in the lines above it, is said above the first of them."""
    said = (*head.above, *[head.comment] * bool(head.comment))
    return [replace(body[0], above=said + body[0].above), *body[1:]] if body else []


def blocks(lines: list[Line]) -> Iterator[tuple[Line, list[Line]]]:
    """Each line with those indented deeper that follow it."""
    at = 0
    while at < len(lines):
        end = at + 1
        while end < len(lines) and lines[end].indent > lines[at].indent:
            end += 1
        yield lines[at], lines[at + 1 : end]
        at = end


def declared_callables(lines: list[Line]) -> Iterator[str]:
    """Names of layers and of their instances, found before anything is parsed."""
    for line in lines:
        texts = [token.text for token in line.tokens]
        if texts[:1] in (["layer"], ["model"]):
            yield from texts[1:2]
        elif texts[:1] == ["weights"]:
            for at in (at for at, token in enumerate(line.tokens) if token.kind == ":"):
                yield from _instances(line.tokens[:at])


def _instances(tokens: tuple[Token, ...]) -> Iterator[str]:
    """The names at the end of `weights Q_dea, pre, post`."""
    at = len(tokens) - 1
    while at > 0 and tokens[at].kind == "name" and (tokens[at - 1].kind == "," or at == 1):
        yield tokens[at].text
        at -= 2
