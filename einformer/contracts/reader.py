"""Reads the text of a contract: tokens, letters and groups of the notation, with a few brackets around them."""

from __future__ import annotations

import functools
import re
from dataclasses import replace
from itertools import pairwise

from einformer.contracts.dtypes import WORDS
from einformer.contracts.syntax import (
    REST,
    Anything,
    Array,
    Contract,
    Dimension,
    Each,
    Fields,
    Item,
    ScalarValue,
    Several,
    Size,
    Value,
)
from einformer.errors import Source, Span, fail
from einformer.language.calls import axis_of
from einformer.language.parser import Formulas
from einformer.language.printer import show
from einformer.language.tokens import OPEN, LogicalLine, Token, check_size, plain_line
from einformer.language.tree import Expression, Group, Index, Name, Number, Product, Quotient, Sum
from einformer.language.walk import rebuild

_KEY = re.compile(r"[^\W\d]\w*(?=\s*[=:])")
_UNDERSCORED = re.compile(
    r"(?<![\w'])(?=\w*_)[^\W\d]\w*(?=\s*[=:])"
)  # a key that need not be a name of the notation: `_`, `x_`


# Reads a contract. `name` is its place in messages. Raises EinformerError.
@functools.lru_cache(maxsize=1024)
def read(text: str, name: str = "<contract>") -> Contract:
    source = Source(name, " ".join(text.split()))
    check_size(source)
    line = plain_line(source, 0, _UNDERSCORED.sub(lambda match: "k" * len(match[0]), source.text))
    start = next(
        (start for start, token in enumerate(line.tokens) if token.kind == "name" and token.text == "where"), len(line.tokens)
    )
    legend = (
        _ContractReader(source, replace(line, tokens=line.tokens[start + 1 :]), {}).legend() if start < len(line.tokens) else {}
    )
    return _ContractReader(source, replace(line, tokens=line.tokens[:start]), legend).contract()


# `D` for `d` and for `d'`.
def name_size(letter: str) -> str:
    letter = axis_of(letter)
    capital = letter.upper()
    return capital if capital.lower() == letter else letter


class _ContractReader(Formulas):
    """The rules of contracts. `legend` is the text after `where`."""

    def __init__(self, source: Source, line: LogicalLine, legend: dict[str, Expression]) -> None:
        super().__init__(source, line, set())
        self.given = legend

    # contract: [items] ["->" items] ["where" legend]
    def contract(self) -> Contract:
        arguments = self.items("->") if self.peek().kind not in ("->", "end") else ()
        result = self.outputs() if self.accept("->") else None
        self.end()
        self.refuse_loose_letters((*arguments, *([result] if result else ())))
        return Contract(arguments, result, span=Span(self.source, 0, max(1, len(self.source.text))))

    # `s` in `y_b,s,d` is a letter of a tensor: the comma ends the tensor before it.
    def refuse_loose_letters(self, items: tuple[Item, ...]) -> None:
        flat = [*items, *(member for item in items if isinstance(item.value, Several) for member in item.value.members)]
        arrays = [item.value for item in flat if isinstance(item.value, Array)]
        letters = {letter for array in arrays for axis in array.axes for letter in axis.written}
        for before, item in pairwise(flat):
            value = item.value
            if isinstance(value, ScalarValue) and not value.words and not item.key and value.name in letters:
                fix = f"`{before.value.span.text}{value.name}`, or `float {value.name}` for a number"
                message = f"`{value.name}` is an axis of another tensor, and stands here as a value of its own"
                raise fail("E724", message, value.span, fix=fix)

    def outputs(self) -> Item:
        start = self.peek()
        items = self.items("end")
        if len(items) == 1:
            return items[0]
        return Item("", Several(items, more=False, span=self.since(start)))

    # items: item ("," item)* [","]
    def items(self, *ends: str) -> tuple[Item, ...]:
        items = [self.item()]
        while self.accept(",") and self.peek().kind not in ends:
            items.append(self.item())
        return tuple(items)

    # item: [KEY ("=" | ":")] value ["?"]
    def item(self) -> Item:
        key = self.key()
        value = self.value()
        optional = not isinstance(value, Anything) and self.accept("?")
        return Item(key, value, optional)

    # A name of Python before `=` or `:` may be any token of the notation.
    def key(self) -> str:
        start = self.peek().span.start
        match = _KEY.match(self.source.text, start)
        if match is None:
            return ""
        while self.peek().span.start < match.end() and self.peek().kind != "end":
            self.next()
        self.next()
        return match.group()

    # value: "?" | "(" items ["," "..."] ")" | "[" item "]" | "{" items "}" | WORD* NAME [subscript]
    def value(self) -> Value:
        start = self.peek()
        match start.kind:
            case "?":
                self.next()
                return Anything(span=start.span)
            case "(":
                return self.several(start)
            case "[":
                self.next()
                member = self.item()
                self.expect("]")
                return Each(member, span=self.since(start))
            case "{":
                self.next()
                members = self.items("}")
                self.expect("}")
                if not all(member.key for member in members):
                    raise fail("E101", "a field has no name", self.since(start), fix="`{logits: y_bsv}`")
                return Fields(members, span=self.since(start))
            case _:
                return self.named_value(self.words())

    def several(self, start: Token) -> Several:
        self.next()
        members: list[Item] = []
        while self.peek().kind not in ("...", ")"):
            members.append(self.item())
            if not self.accept(","):
                break
        more = self.accept("...")
        self.expect(")")
        return Several(tuple(members), more, span=self.since(start))

    # Names of dtypes and devices stand before another name.
    def words(self) -> tuple[str, ...]:
        words = []
        while self.peek().text in WORDS and self.follows("name"):
            words.append(self.next().text)
        return tuple(words)

    def follows(self, kind: str) -> bool:
        return self.at + 1 < len(self.line.tokens) and self.line.tokens[self.at + 1].kind == kind

    def named_value(self, words: tuple[str, ...]) -> Value:
        name = self.expect("name", "a tensor such as `z_bsd`")
        if self.peek().kind == OPEN:
            axes = tuple(self.axis(slot) for slot in self.slots())
            self.check_axes(axes)
            return Array(name.text, axes, words, span=self.since(name))
        if len(name.text) == 1 and name.text.isupper() and not words:
            return Size(name.text, span=name.span)
        return ScalarValue(name.text, words, span=name.span)

    # slot: "..." | LETTER | a slot of the notation
    def slot(self) -> Expression:
        if self.peek().kind == "...":
            return Name("...", span=self.next().span)
        if self.peek().kind == "name" and len(self.peek().text) == 1 and self.peek().text.isupper():
            letter = self.next()  # `x_BTC`: letters of nanoGPT, which are those of sizes too
            return Index(letter.text, span=letter.span)
        return super().slot()

    def axis(self, slot: Expression) -> Dimension:
        if slot == REST:
            return Dimension("...", REST, span=slot.span)
        text = show(slot)
        simple = isinstance(slot, Index | Number | Group)
        return Dimension(text if simple else f"({text})", self.find_size(slot), span=slot.span)

    # An index, or `...`, stands once on a tensor.
    def check_axes(self, axes: tuple[Dimension, ...]) -> None:
        for number, axis in enumerate(axes):
            if not axis.written.isdigit() and axis.written in [other.written for other in axes[:number]]:
                fix = f"`{axis.written}'` for the second" if axis.size != REST else "one `...`"
                raise fail("E305", f"`{axis.written}` stands twice on one tensor", axis.span, fix=fix)

    # An index has the size of its axis, a group the product of its members.
    def find_size(self, slot: Expression) -> Expression:
        match slot:
            case Index():
                return self.given.get(slot.letter, Name(name_size(slot.letter), span=slot.span))
            case Name():
                return self.find_size(Index(slot.name, span=slot.span)) if slot.name[0].islower() else slot
            case Number() if not isinstance(slot.value, int) or slot.value < 0:
                raise fail("E604", f"`{show(slot)}` is not a size", slot.span, fix="a whole number")
            case Group():
                return Product(tuple(map(self.find_size, slot.members)), span=slot.span)
            case Number() | Product() | Quotient() | Sum():
                return rebuild(slot, self.find_size) if not isinstance(slot, Number) else slot
            case _:
                raise fail("E106", "the size of an axis is no tensor", slot.span, fix="letters, groups, numbers, `(s + 1)`")

    # legend: LETTER ":" sum ("," LETTER ":" sum)*: the name or the formula of the size of an index
    def legend(self) -> dict[str, Expression]:
        while True:
            letter = self.letter().letter
            self.expect(":")
            self.given[letter] = self.find_size(self.sum())
            if not self.accept(","):
                self.end()
                return self.given
