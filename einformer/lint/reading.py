r"""Which equations does a formula hold? Trees of our grammar, or the reason why one is not read.

A formula is cut where its brackets are closed: into rows, into statements at commas and words, into sides at signs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from einformer.errors import EinformerError, Source, Span
from einformer.language import latex_row
from einformer.language.formulas import Formulas
from einformer.language.latex_marks import CASES, Mark, marks
from einformer.language.latex_row import Row
from einformer.language.primitives import NAMES
from einformer.language.tokens import Line, Token
from einformer.language.tree import Apply, Expression, Index, Tensor
from einformer.language.walk import subexpressions
from einformer.lint.notes.macros import expanded
from einformer.lint.notes.pieces import Formula, Macro, Passage, too_deep
from einformer.lint.notes.signs import CONCLUSIONS, MATRICES, OF_AUTHOR, PARTING, RELATIONS, UNREAD
from einformer.lint.notes.spelling import spelled

_EQUALS = frozenset(("=", "\\leftarrow", "\\gets", "<-", "←", "=="))
_SIGNS = frozenset(("<", ">", "<=", ">=", "!=", "->", "≤", "≥", "≠", "→", ":", *_EQUALS))
_ENDS = frozenset(("\\quad", "\\qquad", ",", ";"))
_GOES_ON = frozenset(("+", "-", "=", "\\cdot", "\\times"))
_LAST = frozenset((",", ";", "-", "+", "\\cdot"))
_OPEN, _CLOSED = frozenset("({["), frozenset(")}]")
Marks = list[Mark]
NO_INDICES = "no indices"


@dataclass(frozen=True, slots=True)
class Side:
    """A side of an equation: its text, its tree and all nodes of it if it can be read, else why not."""

    whole: Passage  # the formula, in which the tree has its places
    text: Passage
    tree: Expression | None
    skipped: str = ""
    nodes: tuple[Expression, ...] = ()

    def place(self, span: Span) -> Span:
        """Where in the file a place of the tree stands."""
        return self.whole.span(span.start, span.end)


@dataclass(frozen=True, slots=True)
class Equation:
    """Two sides that are said to be equal; or a single one, of which only the names are of interest."""

    formula: Formula
    left: Side
    right: Side | None = None
    rebinds: bool = False  # `<-` reads the old value of its left side

    @property
    def sides(self) -> tuple[Side, ...]:
        """Both sides, or the only one."""
        return (self.left,) if self.right is None else (self.left, self.right)

    @property
    def skipped(self) -> str:
        """Why it is not read; empty where each side is."""
        return self.formula.unread or next((side.skipped for side in self.sides if side.skipped), "")

    def nodes(self) -> Iterator[Expression]:
        """Everything in the sides that are read."""
        return itertools.chain.from_iterable(side.nodes for side in self.sides)


Told = dict[str, tuple[Formula, tuple[Equation, ...]]]


def equations(formula: Formula, macros: Mapping[str, Macro], told: Told) -> Iterable[Equation]:
    """The equations of a formula in the order of the text, and what else is said of tensors in it.

    What was `told` before in the same words is not read again: notes say `$z_{bsd}$` on every page.
    """
    text = formula.latex.text
    if text not in told:
        told[text] = formula, tuple(_equations(formula, macros))
        return told[text][1]
    first, found = told[text]
    places = dict(zip(first.latex.places, formula.latex.places, strict=True))
    return [_again(each, formula, places) for each in found]


def _again(told: Equation, formula: Formula, places: Mapping[int, int]) -> Equation:
    """The same equation at other places of the file."""

    def moved(side: Side) -> Side:
        whole, text = (
            Passage(formula.latex.source, part.text, tuple(places[place] for place in part.places))
            for part in (side.whole, side.text)
        )
        return replace(side, whole=whole, text=text)

    return Equation(formula, moved(told.left), told.right and moved(told.right), told.rebinds)


def _equations(formula: Formula, macros: Mapping[str, Macro]) -> Iterator[Equation]:
    text = expanded(formula.latex, macros)
    if "_" not in text.text and "=" not in text.text:
        return
    if too_deep(text.text):
        side = Side(text, text, None, "brackets nested too deep")
        yield Equation(formula, side, side)
        return
    reader = _Formula(formula, spelled(text))
    before: Marks = []  # the left side, for rows that go on with `= …`
    for statement in reader.statements():
        sides, signs = _cut(statement, _relation)
        if signs and not _holds(sides[0]):
            sides[0] = before
        before = sides[0] if signs else before
        for chain in _chains(sides, signs):
            yield from reader.pairs(chain)


_Chain = list[tuple[Marks, str]]  # sides, each with the sign before it


def _chains(sides: list[Marks], signs: list[Mark]) -> Iterator[_Chain]:
    """Runs of sides between which stand equal signs."""
    chain: _Chain = [(sides[0], "")]
    for side, sign in zip(sides[1:], signs, strict=True):
        if sign.text not in _EQUALS:
            yield chain
            chain = []
        chain.append((side, sign.text))
    yield chain


# ---------------------------------------------------------------------------------------------------------- cutting


def _cut(found: Marks, where: Callable[[Marks, int], int]) -> tuple[list[Marks], Marks]:
    """The pieces of a text between the marks at which `where` ends one (it says how many marks do), and those marks."""
    pieces, ends, start, at, depth = list[Marks](), list[Mark](), 0, 0, 0
    while at < len(found):
        mark = found[at]
        inner = mark.kind in ("begin", "end") and (mark.command in CASES or mark.command in MATRICES)
        depth += (mark.kind == "begin") - (mark.kind == "end") if inner else (mark.text in _OPEN) - (mark.text in _CLOSED)
        length = where(found, at) if depth <= 0 else 0
        if length:
            pieces.append(found[start:at])
            ends.append(mark)
            start = at + length
        at += max(1, length)
        depth = max(0, depth)
    return [*pieces, found[start:]], ends


def _row(found: Marks, at: int) -> int:
    """A row ends, or an environment of rows begins or ends."""
    mark = found[at]
    return int(
        mark.kind == "row" or (mark.kind in ("begin", "end") and mark.command not in CASES and mark.command not in MATRICES)
    )


def _relation(found: Marks, at: int) -> int:
    """A sign between two sides."""
    mark = found[at]
    return int(mark.text in _SIGNS or (mark.kind == "command" and mark.command in RELATIONS))


def _parting(found: Marks, at: int) -> int:
    r"""A statement ends: at a comma, a wide space, "it follows", and at words such as `\text{and}`."""
    mark = found[at]
    if mark.text in ("&", "&&"):
        return int(_is_column(found, at))
    if mark.text in _ENDS or mark.command in CONCLUSIONS:
        following = next((each.text for each in found[at + 1 :] if not each.is_space and each.text != "&"), "")
        return int(mark.text in (",", ";") or following not in _GOES_ON)
    end = next((n for n in range(at, len(found)) if found[n].text == "}"), len(found) - 1) if mark.command == "text" else at
    word = "".join(each.text for each in found[at + 1 : end]).strip("{ ,.").lower()
    return end + 1 - at if mark.command == "text" and (word in PARTING or " " in word) else 0


def _is_column(found: Marks, at: int) -> bool:
    """Does an `&` part two equations of a row, as every other one does, and none that stands before a sign?"""
    sides, signs = _cut(found[at + 1 :], _relation)
    return bool(signs) and _holds(sides[0]) and any(_relation(found, before) for before in range(at))


def _holds(found: Marks) -> bool:
    return any(not mark.is_space and mark.text not in ("&", "&&") for mark in found)


# ---------------------------------------------------------------------------------------------------------- reading


class _Formula:
    """The marks of a formula, and what they say."""

    def __init__(self, formula: Formula, text: Passage) -> None:
        self.formula, self.text = formula, text
        self.source = Source(text.source.name, text.text)

    def statements(self) -> Iterator[Marks]:
        """The rows of a formula, a row that only goes on with one before joined to it; each cut at commas and words."""
        rows = list[Marks]()
        for part in filter(_holds, _cut(list(marks(self.text.text)), _row)[0]):
            if rows and len(_cut(part, _relation)[0]) == 1:
                rows[-1] = rows[-1] + part
            else:
                rows.append(part)
        for row in rows:
            yield from filter(_holds, _cut(row, _parting)[0])

    def pairs(self, chain: _Chain) -> Iterator[Equation]:
        """Of a chain the first side that is read with each that follows."""
        chain = [(found, sign) for found, sign in chain if _holds(found)]
        if not any(mark.text == "_" for found, _ in chain for mark in found):
            unread = [self.side(found, read=False) for found, _ in chain]
            yield from (Equation(self.formula, *pair) for pair in itertools.pairwise(unread))
            return
        sides = [(self.side(found), sign) for found, sign in chain]
        if len(sides) == 1:
            yield Equation(self.formula, sides[0][0])
        left = sides[0][0]
        for (before, _), (side, sign) in itertools.pairwise(sides):
            respelled = is_respelled(before.tree, side.tree)
            yield Equation(self.formula, before if respelled else left, side, sign not in ("=", "=="))
            left = side if left.tree is None or respelled else left

    def side(self, found: Marks, read: bool = True) -> Side:
        """The tree of a side, or why there is none."""
        text = self.text.cut(found[0].start, found[-1].end)
        if not read:
            return Side(self.text, text, None, NO_INDICES)
        tree, skipped = self.tree(found)
        return Side(self.text, text, tree, skipped, tuple(subexpressions(tree)) if tree is not None else ())

    def tree(self, found: Marks) -> tuple[Expression | None, str]:
        """The tree of marks, or why they have none."""
        found = list(_unaligned(found))
        if reason := next(filter(None, (self.unread(found, at) for at in range(len(found)))), ""):
            return None, reason
        while found and (found[-1].is_space or found[-1].text in _LAST):
            found.pop()
        try:
            return _Side(self.source, latex_row.read(self.source, Row(0, found))).side(), ""
        except EinformerError as error:
            return None, _reason(error)

    def unread(self, found: Marks, at: int) -> str:
        """Why no formula with this mark is read."""
        mark = found[at]
        if mark.kind == "begin" and mark.command in MATRICES:
            return "a matrix"
        if mark.text in _UNREAD:
            return _UNREAD[mark.text]
        if mark.command in ("text", "operatorname"):
            word = self.source.text[mark.end :].partition("}")[0].strip("{ ,")
            return "" if word in ("if", "otherwise", "else") else f"the operator or word `{word}`"
        return UNREAD.get(mark.command, "") if mark.kind == "command" else ""


_UNREAD = {"|": "a norm or a condition", "!": "a factorial", "?": "words", "\\{": "a set", "\\}": "a set", "*": "a star"}


def _unaligned(found: Marks) -> Iterator[Mark]:
    """The marks of a side, without the `&` that only align."""
    cases = 0
    for mark in found:
        cases += (mark.kind == "begin") - (mark.kind == "end")
        if cases or mark.text not in ("&", "&&", "$"):
            yield mark


class _Side(Formulas):
    """The grammar of expressions, with the callables of the language and the functions of the author."""

    def __init__(self, source: Source, line: Line) -> None:
        super().__init__(source, line, set(NAMES) | {token.text for token in line.tokens if token.text.endswith(OF_AUTHOR)})

    def side(self) -> Expression:
        """An expression that is all of the line."""
        tree = self.expression()
        self.end()
        return tree

    def call(self) -> Expression:
        """In print a sum takes the rest of its product, brackets or not."""
        if self.peek().text != "sum":
            return super().call()
        name = self.next()
        indices = self.indices()
        return Apply(name.text, indices, (self.rest(name, indices),), span=self.since(name))

    def rest(self, name: Token, indices: tuple[Index, ...]) -> Expression:
        """What an operator takes without brackets; one of the author's may take all that follows, as a sum does."""
        return super().rest(name._replace(text="sum") if name.text.endswith(OF_AUTHOR) else name, indices)


def _reason(error: EinformerError) -> str:
    finding = error.findings[0]
    known = {"E104": "two readings of an operator", "E102": "brackets that do not match"}
    return known.get(finding.code, f"not of the grammar: {finding.message}")


def is_respelled(one: Expression | None, other: Expression | None) -> bool:
    """Is it the same tensor with its indices in another form: `x_s = x_{(cl)} = x_{cl}`?"""
    return isinstance(one, Tensor) and isinstance(other, Tensor) and one.name == other.name
