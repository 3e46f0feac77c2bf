"""What do brackets and equal signs of LaTeX mean to the parser, once they are tokens?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from einformer.language.primitives import COMPARISONS
from einformer.language.tokens import BRACKETS, Token


def equalities(found: list[Token]) -> Iterator[Token]:
    """`=` in brackets compares, and so does a second one; in `weights` each gives a default."""
    keyword = found[0].text if found else ""
    defined = keyword == "return"
    depth = 0
    for token in found:
        depth += (token.kind in BRACKETS) - (token.kind in BRACKETS.values())
        compares = token.kind == "=" and (depth or defined) and not (keyword in ("weights", "buffers") and not depth)
        defined = defined or (not depth and token.kind in ("=", "<-"))
        yield token._replace(kind="==") if compares else token


def without_braces(found: Iterable[Token]) -> list[Token]:
    r"""The braces of a fraction that is a whole term go, so that `-\frac{a}{b}` is `-a / b` as in plain text."""
    kept = list(found)
    opened: list[int] = []
    dropped: set[int] = set()
    for at, token in enumerate(kept):
        if token.kind == "{":
            opened.append(at)
        elif token.kind == "}" and opened:
            first = opened.pop()
            if kept[first].text != "{" and _begins(kept[max(0, first - 1) : first]) and _ends(kept[at + 1 : at + 2]):
                dropped |= {first, at}
    return [token for at, token in enumerate(kept) if at not in dropped]


_BETWEEN_TERMS = frozenset((*COMPARISONS, "=", "<-", "+", "-", ",", ":"))


def _begins(before: list[Token]) -> bool:
    """Does a term begin after this token?"""
    return not before or before[0].kind in _BETWEEN_TERMS | BRACKETS.keys() or before[0].text in ("return", "and", "or", "not")


def _ends(after: list[Token]) -> bool:
    """Does a term end before this token?"""
    return not after or after[0].kind in _BETWEEN_TERMS | set(BRACKETS.values()) or after[0].text in ("and", "or")


def is_flat(found: list[Token]) -> bool:
    """Is this a product at most, so that a `/` after it divides all of it?"""
    depth = 0
    for token in found:
        depth += (token.kind in BRACKETS) - (token.kind in BRACKETS.values())
        if not depth and (token.kind in _BETWEEN_TERMS or token.text in ("/", "mod", "and", "or", "not")):
            return False
    return True


def are_opposite(left: list[Token], right: list[Token]) -> bool:
    """`s' <= s` and `s' > s`, or `s < s'`: two comparisons of the same."""
    opposite = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "=": "!=", "!=": "="}
    mirrored = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
    one, other = _sides(left), _sides(right)
    if not (one and other):
        return False
    (a, sign, b), (c, against, d) = one, (other[0], opposite[other[1]], other[2])
    return (a, sign, b) == (c, against, d) or (a, sign, b) == (d, mirrored.get(against, against), c)


def _sides(found: list[Token]) -> tuple[list[str], str, list[str]] | None:
    """Of a single comparison: what is compared, and how."""
    signs = [at for at, token in enumerate(found) if token.kind in (*COMPARISONS, "=")]
    if len(signs) != 1 or any(token.text in ("and", "or", "not") for token in found):
        return None
    texts = [token.text for token in found]
    return texts[: signs[0]], found[signs[0]].kind.replace("==", "="), texts[signs[0] + 1 :]
