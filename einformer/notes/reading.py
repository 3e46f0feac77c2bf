"""Reads the equations of a formula as trees of our grammar, or gives the reason why it cannot.

A formula is cut where no bracket is open: into rows, into statements at commas and words, into sides at signs.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from einformer.errors import EinformerError, Source, Span
from einformer.language.latex_reader import CASES, Mark, MarkedLine, marks, read_row
from einformer.language.parser import Formulas
from einformer.language.primitives import NAMES
from einformer.language.tokens import LogicalLine, Token
from einformer.language.tree import Apply, Expression, Index, Name, Power, Quotient, Tensor
from einformer.language.walk import subexpressions
from einformer.notes.documents.macros import expand_macros
from einformer.notes.documents.pieces import Formula, Macro, Passage, is_too_deep, shorten_blanks
from einformer.notes.documents.signs import CONCLUSIONS, MATRICES, OF_AUTHOR, PARTING, RELATIONS, UNREAD
from einformer.notes.documents.spelling import rewrite_formula

_EQUALS = frozenset(("=", "\\leftarrow", "\\gets", "<-", "←", "=="))
_LIKE = frozenset(("≈", "≃", "∝", "→", "↦", "->"))
_LIKE_COMMANDS = frozenset(("approx", "simeq", "propto", "to", "rightarrow", "longrightarrow", "mapsto", "longmapsto"))
_SIGNS = frozenset(("<", ">", "<=", ">=", "!=", "≤", "≥", "≠", "∼", ":", *_LIKE, *_EQUALS))
_ENDS = frozenset(("\\quad", "\\qquad", ",", ";"))
_GOES_ON = frozenset(("+", "-", "=", "\\cdot", "\\times"))
_LAST = frozenset((",", ";", "-", "+", "\\cdot"))
_INSIDE = frozenset(("letter", "digit", "space", "newline"))  # nothing is cut at them
_OPEN, _CLOSED = frozenset((*"({[", "\\{")), frozenset((*")}]", "\\}"))
Marks = list[Mark]
NO_INDICES = "no indices"


@dataclass(frozen=True, slots=True)
class Side:
    """A side of an equation: its text, with its tree and all nodes, or with the reason why it is not read."""

    whole: Passage  # the formula, in which the tree has its places
    text: Passage
    tree: Expression | None
    skipped: str = ""
    nodes: tuple[Expression, ...] = ()
    move: Callable[[Passage], Passage] | None = None  # to where the formula stands again

    def place(self, span: Span) -> Span:
        return (self.move(self.whole) if self.move else self.whole).span(span.start, span.end)


@dataclass(frozen=True, slots=True)
class DocumentEquation:
    """Two sides that are said to be equal, or a single side, which only contributes names."""

    formula: Formula
    left: Side
    right: Side | None = None
    rebinds: bool = False  # `<-` reads the old value of its left side

    @property
    def sides(self) -> tuple[Side, ...]:
        return (self.left,) if self.right is None else (self.left, self.right)

    @property
    def skipped(self) -> str:
        return self.formula.unread or next((side.skipped for side in self.sides if side.skipped), "")

    def nodes(self) -> Iterator[Expression]:
        return itertools.chain.from_iterable(side.nodes for side in self.sides)


Told = dict[str, tuple[Formula, tuple[DocumentEquation, ...]]]


# Yields the equations of a formula in the order of the text, then its other tensors. `memo` holds the formulas that were read:
# notes write `$z_{bsd}$` on every page, and the same words are read once.
def read_equations(formula: Formula, macros: Mapping[str, Macro], memo: Told) -> Iterable[DocumentEquation]:
    text = formula.latex.text
    if text not in memo:
        memo[text] = formula, tuple(_parse_equations(formula, macros))
        return memo[text][1]
    first, known_equations = memo[text]

    def move(part: Passage) -> Passage:
        places = dict(zip(first.latex.places, formula.latex.places, strict=True))
        return Passage(formula.latex.source, part.text, tuple(places[place] for place in part.places))

    return [_move_equation(equation, formula, move) for equation in known_equations]


def _move_equation(equation: DocumentEquation, formula: Formula, move: Callable[[Passage], Passage]) -> DocumentEquation:
    left, right = replace(equation.left, move=move), equation.right and replace(equation.right, move=move)
    return DocumentEquation(formula, left, right, equation.rebinds)


def _parse_equations(formula: Formula, macros: Mapping[str, Macro]) -> Iterator[DocumentEquation]:
    text = shorten_blanks(expand_macros(formula.latex, macros))
    if "_" not in text.text and "=" not in text.text:
        return
    if is_too_deep(text.text):
        side = Side(text, text, None, "brackets nested too deep")
        yield DocumentEquation(formula, side, side)
        return
    reader = _Formula(formula, rewrite_formula(text))
    before: Marks = []  # the left side, for rows that go on with `= …`
    for statement in reader.statements():
        sides, signs = _cut(statement, _find_relation)
        if signs and not _holds(sides[0]):
            sides[0] = before
        before = sides[0] if signs else before
        for chain in _chain_sides(sides, signs):
            yield from reader.pairs(chain)
        for sign, pair in zip(signs, itertools.pairwise(sides), strict=True):
            yield from reader.unequal(sign, *pair)


_Chain = list[tuple[Marks, str]]  # sides, each with the sign before it


def _chain_sides(sides: list[Marks], signs: list[Mark]) -> Iterator[_Chain]:
    chain: _Chain = [(sides[0], "")]
    for side, sign in zip(sides[1:], signs, strict=True):
        if sign.text not in _EQUALS:
            yield chain
            chain = []
        chain.append((side, sign.text))
    yield chain


# ---------------------------------------------------------------------------------------------------------- cutting


def _cut(row: Marks, where: Callable[[Marks, int], int]) -> tuple[list[Marks], Marks]:
    pieces, ends, start, position, depth = list[Marks](), list[Mark](), 0, 0, 0
    while position < len(row):
        mark = row[position]
        if mark.kind in _INSIDE:
            position += 1
            continue
        inner = mark.kind in ("begin", "end") and (mark.command in CASES or mark.command in MATRICES)
        depth += (mark.kind == "begin") - (mark.kind == "end") if inner else (mark.text in _OPEN) - (mark.text in _CLOSED)
        length = where(row, position) if depth <= 0 else 0
        if length:
            pieces.append(row[start:position])
            ends.append(mark)
            start = position + length
        position += max(1, length)
        depth = max(0, depth)
    return [*pieces, row[start:]], ends


def _find_row(row: Marks, position: int) -> int:
    mark = row[position]
    return int(
        mark.kind == "row" or (mark.kind in ("begin", "end") and mark.command not in CASES and mark.command not in MATRICES)
    )


def _find_relation(row: Marks, position: int) -> int:
    mark = row[position]
    return int(mark.text in _SIGNS or (mark.kind == "command" and mark.command in RELATIONS))


def _find_end(columns: frozenset[int], row: Marks, position: int) -> int:
    mark = row[position]
    if mark.text in ("&", "&&"):
        return int(position in columns)
    if mark.text in _ENDS or mark.command in CONCLUSIONS:
        following = next((sign.text for sign in row[position + 1 :] if not sign.is_space and sign.text != "&"), "")
        return int(mark.text in (",", ";") or following not in _GOES_ON)
    end = (
        next((n for n in range(position, len(row)) if row[n].text == "}"), len(row) - 1) if mark.command == "text" else position
    )
    word = "".join(sign.text for sign in row[position + 1 : end]).strip("{ ,.").lower()
    return end + 1 - position if mark.command == "text" and (word in PARTING or " " in word) else 0


# Each `&` between two relations that has something between it and the second.
def _find_columns(row: Marks) -> Iterator[int]:
    first = next((position for position in range(len(row)) if _find_relation(row, position)), len(row))
    start = 0
    for side, _ in zip(*_cut(row, _find_relation), strict=False):
        last = max((number for number, mark in enumerate(side) if _holds([mark])), default=0)
        yield from (start + number for number in range(last) if side[number].text in ("&", "&&") and start + number > first)
        start += len(side) + 1


def _holds(row: Marks) -> bool:
    return any(not mark.is_space and mark.text not in ("&", "&&") for mark in row)


# ---------------------------------------------------------------------------------------------------------- reading


class _Formula:
    """The marks of a formula, and their meaning."""

    def __init__(self, formula: Formula, text: Passage) -> None:
        self.formula, self.text = formula, text
        self.source = Source(text.source.name, text.text)

    # A row that only goes on with one before is joined to it; each is cut at commas and words.
    def statements(self) -> Iterator[Marks]:
        rows = list[Marks]()
        for part in filter(_holds, _cut(list(marks(self.text.text)), _find_row)[0]):
            if rows and len(_cut(part, _find_relation)[0]) == 1:
                rows[-1] = rows[-1] + part
            else:
                rows.append(part)
        for row in rows:
            yield from filter(_holds, _cut(row, functools.partial(_find_end, frozenset(_find_columns(row))))[0])

    # The first side of a chain that is read stands beside each that follows.
    def pairs(self, chain: _Chain) -> Iterator[DocumentEquation]:
        chain = [(marks_of_side, sign) for marks_of_side, sign in chain if _holds(marks_of_side)]
        if not any(mark.text in ("_", "^") for marks_of_side, _ in chain for mark in marks_of_side):
            unread = [self.side(marks_of_side, NO_INDICES) for marks_of_side, _ in chain]
            yield from (DocumentEquation(self.formula, *pair) for pair in itertools.pairwise(unread))
            return
        sides = [(self.side(marks_of_side), sign) for marks_of_side, sign in chain]
        if len(sides) == 1:
            yield DocumentEquation(self.formula, sides[0][0])
        left = sides[0][0]
        for (before, _), (side, sign) in itertools.pairwise(sides):
            respelled = is_respelled(before.tree, side.tree)
            yield DocumentEquation(self.formula, before if respelled else left, side, sign not in ("=", "=="))
            left = side if left.tree is None or respelled else left

    # Rows such as `x_i ≈ y_i` are counted, and not judged.
    def unequal(self, sign: Mark, left: Marks, right: Marks) -> Iterator[DocumentEquation]:
        alike = sign.text in _LIKE or (sign.kind == "command" and sign.command in _LIKE_COMMANDS)
        if alike and _holds(left) and _holds(right) and any(mark.text == "_" for mark in (*left, *right)):
            unread = f"`{sign.text}` is not an equality"
            yield DocumentEquation(self.formula, self.side(left, unread), self.side(right, unread))

    def side(self, marks_of_side: Marks, unread: str = "") -> Side:
        text = self.text.cut(marks_of_side[0].start, marks_of_side[-1].end)
        if unread:
            return Side(self.text, text, None, unread)
        tree, skipped = self.tree(marks_of_side)
        return Side(self.text, text, tree, skipped, tuple(subexpressions(tree)) if tree is not None else ())

    def tree(self, marks_of_side: Marks) -> tuple[Expression | None, str]:
        marks_of_side = list(_drop_alignment(marks_of_side))
        if reason := next(filter(None, (self.unread(marks_of_side, position) for position in range(len(marks_of_side)))), ""):
            return None, reason
        while marks_of_side and (marks_of_side[-1].is_space or marks_of_side[-1].text in _LAST):
            marks_of_side.pop()
        try:
            return _Side(self.source, read_row(self.source, MarkedLine(0, marks_of_side))).side(), ""
        except EinformerError as error:
            return None, _reason_of(error)

    def unread(self, marks_of_side: Marks, position: int) -> str:
        mark = marks_of_side[position]
        if mark.kind == "begin" and mark.command in MATRICES:
            return "a matrix"
        if mark.text in _UNREAD:
            return _UNREAD[mark.text]
        if mark.command in ("text", "operatorname"):
            word = self.source.text[mark.end :].partition("}")[0].strip("{ ,")
            return "" if word in ("if", "otherwise", "else") else f"the operator or word `{word}`"
        return UNREAD.get(mark.command, "") if mark.kind == "command" else ""


_UNREAD = {"|": "a norm or a condition", "!": "a factorial", "?": "words", "\\{": "a set", "\\}": "a set", "*": "a star"}


def _drop_alignment(row: Marks) -> Iterator[Mark]:
    cases = 0
    for mark in row:
        cases += (mark.kind == "begin") - (mark.kind == "end")
        if cases or mark.text not in ("&", "&&", "$"):
            yield mark


class _Side(Formulas):
    """The grammar of expressions, with the callables of the language and the functions of the author."""

    def __init__(self, source: Source, line: LogicalLine) -> None:
        super().__init__(source, line, set(NAMES) | {token.text for token in line.tokens if token.text.endswith(OF_AUTHOR)})

    def side(self) -> Expression:
        tree = self.expression()
        self.end()
        return tree

    # In print a sum takes the rest of its product, brackets or not.
    def call(self) -> Expression:
        if self.peek().text != "sum":
            return super().call()
        name = self.next()
        indices = self.indices()
        return Apply(name.text, indices, (self.rest(name, indices),), span=self.since(name))

    # An operator of the author may take all that follows, as a sum does, and a divisor too: `\sum_r x_r / y_r`.
    def rest(self, name: Token, indices: tuple[Index, ...]) -> Expression:
        start, taking = self.peek(), name.text == "sum" or name.text.endswith(OF_AUTHOR)
        argument = super().rest(name._replace(text="sum") if taking else name, indices)
        divided = taking and self.accept("/")
        return Quotient(argument, self.divisor("division"), span=self.since(start)) if divided else argument


def _reason_of(error: EinformerError) -> str:
    finding = error.findings[0]
    reasons = {"E104": "two readings of an operator", "E102": "brackets that do not match"}
    return reasons.get(finding.code, f"not of the grammar: {finding.message}")


# `x_s = x_{(cl)}`, `x^k_{ij} = x^k_{ii}`, `x_{ij} = x` are one tensor in another form.
def is_respelled(one: Expression | None, other: Expression | None) -> bool:
    bases = [e.base if isinstance(e, Power) else e for e in (one, other)]
    written = (e.letter if isinstance(e, Index) else e.name if isinstance(e, Tensor | Name) else "" for e in bases)
    names = {name.rstrip("0123456789") for name in written}  # `x_t = x_0`
    return len(names) == 1 and names != {""} and any(isinstance(e, Tensor) for e in bases)
