"""Parses a text: a recursive descent with one short method for each rule of `grammar.lark`.

A statement that does not parse is reported and skipped; the next line is read afresh. A text may name axes, scalars and layers
of the library instead of writing them out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial, reduce
from typing import Literal, NoReturn, TypeVar

from einformer.errors import EinformerError, Finding, Source, Span, fail
from einformer.language import tokens
from einformer.language.primitives import COMPARISONS, MIRRORED, NAMES, OPPOSITE, PRIMITIVES
from einformer.language.suggestions import find_closest, suggest
from einformer.language.tokens import (
    BRACKETS,
    BRANCH,
    BRANCHES,
    CLOSE,
    FRACTION,
    MAXIMUM_DEPTH,
    MAXIMUM_HEIGHT,
    OPEN,
    OVER,
    WORDS,
    LogicalLine,
    Token,
)
from einformer.language.tree import (
    Apply,
    Axis,
    Equation,
    Expression,
    Group,
    Index,
    Layer,
    Loop,
    Name,
    Number,
    Power,
    Product,
    Quotient,
    Remarked,
    Scalar,
    Spec,
    Statement,
    Sum,
    Tensor,
    Weight,
)
from einformer.language.walk import height, map_expressions, open_groups, rebuild

MAXIMUM_FINDINGS = 100
_HEADS = ("axes", "scalars", "layer", "model")
EMPTY = Spec("", (), (), ())
_Item = TypeVar("_Item")
_Entry = TypeVar("_Entry", bound=Remarked)


# The tree of a text, plain or LaTeX, and the findings of its syntax. The text may call the layers of the library, and name its
# axes, scalars and layers as its own. Raises EinformerError for a text that is too large.
def parse(source: Source, library: Spec = EMPTY) -> tuple[Spec, tuple[Finding, ...]]:
    lines, findings = _read_lines(source)
    parser = _Parser(source, lines, findings, library)
    spec = parser.spec()
    findings = sorted(parser.findings, key=lambda finding: finding.span.start)[:MAXIMUM_FINDINGS]
    return spec, tuple(map(suggest, findings))


# One expression in the legend of `spec`, as `bind` takes it for a scalar. Raises EinformerError.
def parse_expression(text: str, spec: Spec, name: str = "<expression>") -> Expression:
    source = Source(name, text)
    lines, findings = _read_lines(source)
    if findings or len(lines) != 1:
        raise EinformerError(findings or [Finding("E101", "one expression is expected", Span(source, 0, len(text)))])
    parser = _Parser(source, lines, [], spec)
    parser.take(lines[0])
    expression = parser.expression()
    parser.refuse_note()
    return resolve(expression, {axis.letter for axis in spec.axes})


# `spec` with the scalars that the lines of `source` replace or add, and the findings of their syntax.
def parse_scalars(source: Source, spec: Spec) -> tuple[Spec, tuple[Finding, ...]]:
    lines, findings = _read_lines(source)
    parser = _Parser(source, lines, findings)
    scalars_of_lines = parser.collect([line for line in lines if line.tokens], parser.scalar)
    letters = {axis.letter for axis in spec.axes}
    scalars = {scalar.name: scalar for scalar in spec.scalars} | {s.name: _resolve_scalar(s, letters) for s in scalars_of_lines}
    return replace(spec, scalars=tuple(scalars.values())), tuple(parser.findings)


# A bare name that is the letter of an axis, or primed, is an index (R11).
def resolve(e: Expression, letters: set[str]) -> Expression:
    if isinstance(e, Name) and (e.name.endswith("'") or e.name in letters):
        return Index(e.name, span=e.span)
    return rebuild(e, lambda child: resolve(child, letters))


def resolve_layer(layer: Layer, letters: set[str]) -> Layer:
    return map_expressions(layer, lambda e: resolve(e, letters))


# ------------------------------------------------------------------------------------------------------------ formulas

_OPERATORS = frozenset(name for name, with_indices in PRIMITIVES if with_indices)
_OTHERWISE = (Name("otherwise"), Name("else"))
_RANKS = {"or": 1, "and": 2, "not": 3}  # how tightly a word between or before conditions holds


class Formulas:
    """The rules of expressions, subscripts and numbers, over the tokens of one line at a time.

    `callables` are the names that take arguments.
    """

    def __init__(self, source: Source, line: LogicalLine, callables: set[str]) -> None:
        self.source, self.callables, self.loops = source, callables, 0
        self.take(line)

    def take(self, line: LogicalLine) -> None:
        self.line, self.at, self.depth = line, 0, 0
        end = line.tokens[-1].span.end if line.tokens else line.span.start
        self.tokens = (*line.tokens, Token("end", "the end of the line", Span(self.source, end, end + 1)))

    def peek(self) -> Token:
        return self.tokens[self.at]

    def next(self) -> Token:
        token = self.peek()
        self.at += token.kind != "end"
        return token

    def accept(self, kind: str) -> bool:
        accepted = self.peek().kind == kind
        self.at += accepted
        return accepted

    def word(self, word: str) -> bool:
        token = self.peek()
        return token.text == word and token.kind == "name"

    def accept_word(self, word: str) -> bool:
        accepted = self.word(word)
        self.at += accepted
        return accepted

    # `what` describes the token in other words.
    def expect(self, kind: str, what: str = "") -> Token:
        if self.peek().kind != kind:
            self.refuse(what or f"`{kind}`")
        return self.next()

    def expect_word(self, word: str) -> Token:
        if not self.word(word):
            self.refuse(f"`{word}`")
        return self.next()

    # The message quotes the text: tokens of LaTeX and of a subscript may look different.
    def refuse(self, what: str) -> NoReturn:
        token, there = self.peek(), self.peek().span.text
        if token.kind == CLOSE and there != "}":
            text_found = "the end of the subscript"
        else:
            text_found = token.text if token.kind == "end" else f"`{token.text if token.text in there else there}`"
        raise fail("E101", f"{text_found} where {what} is expected", token.span, fix=what)

    def end(self) -> None:
        if self.peek().kind != "end":
            self.refuse("the end of the line")

    def starts_factor(self) -> bool:
        token = self.peek()
        if token.kind == "name":
            return token.text not in WORDS
        return token.kind in ("number", "(", "{", FRACTION, BRANCHES)

    # R13 bounds the levels, with those of loops, so that no text exhausts the stack.
    def deepen(self) -> None:
        self.depth += 1
        if self.depth - 1 > min(MAXIMUM_DEPTH, MAXIMUM_HEIGHT - self.loops):
            raise fail("E002", f"the formula nests more than {MAXIMUM_DEPTH} deep", self.peek().span, fix="names for its parts")

    # R13 bounds the height of a whole formula too: `a or b or …` nests without a bracket.
    def bound_height(self, e: Expression) -> Expression:
        if not self.depth and len(self.tokens) > MAXIMUM_DEPTH and height(e) > MAXIMUM_DEPTH:  # a level costs a token
            raise fail("E002", f"the formula nests more than {MAXIMUM_DEPTH} deep", e.span, fix="names for its parts")
        return e

    def before(self) -> Span:
        return self.line.tokens[self.at - 1].span

    def since(self, start: Token) -> Span:
        return join_spans(start.span, self.before())

    # -------------------------------------------------------------------------------------------------- expressions

    # expression: ("not" expression | comparison) (("and" | "or") expression)*, where `not` holds tightest, `or` least By
    # precedence climbing: a bracket costs one call of each rule below, whatever holds it together (R13).
    def expression(self, least: int = 0) -> Expression:
        start = self.peek()
        if self.accept_word("not"):
            self.deepen()
            left: Expression = Apply("not", (), (self.expression(_RANKS["not"]),), span=self.since(start))
            self.depth -= 1
        else:
            left = self.comparisons(self.sum())
        while (rank := self.rank()) > least:
            word = self.next().text
            left = Apply(word, (), (left, self.expression(rank)), span=self.since(start))
        return self.bound_height(left)

    # The rank says how tightly the next word holds two conditions together; it is 0 where there is no such word.
    def rank(self) -> int:
        return _RANKS.get(self.peek().text, 0) if self.word("or") or self.word("and") else 0

    # comparison: sum (("<" | "<=" | …) sum)*; a chain is the `and` of its links
    def comparisons(self, left: Expression) -> Expression:
        links: list[Expression] = []
        while self.peek().kind in COMPARISONS:
            symbol = self.next().kind
            right = self.sum()
            links.append(Apply(symbol, (), (left, right), span=join_spans(left.span, right.span)))
            left = right
        return reduce(_conjoin, links) if links else left

    # sum: ["-"] term (("+" | "-") term)*
    def sum(self) -> Expression:
        start = self.peek()
        terms = [self.term()]
        while self.peek().kind in "+-":
            if self.peek().kind == "+":
                self.next()
            terms.append(self.term())
        return self.bound_height(terms[0] if len(terms) == 1 else Sum(tuple(terms), span=self.since(start)))

    # term: ["-"] factor+ [("/" | "mod") factor], where the minus negates the remainder, not the dividend of `mod` (R11)
    def term(self) -> Expression:
        start = self.peek()
        negative = self.accept("-")
        first = self.peek()
        factors = [self.factor()]
        while self.starts_factor():
            factors.append(self.factor())
        if self.accept_word("mod"):
            dividend = self.product(factors, start)
            factors = [Apply("mod", (), (dividend, self.divisor("mod")), span=self.since(start))]
        (fraction, *others) = factors
        if negative and first.kind == FRACTION and isinstance(fraction, Quotient) and not others and self.peek().kind != "/":
            over = fraction.numerator
            negated = _negate(list(over.factors) if isinstance(over, Product) else [over])
            return replace(fraction, numerator=self.product(negated, start), span=self.since(start))
        if negative:
            factors = _negate(factors)
        if not self.accept("/"):
            return self.product(factors, start)
        wrapped = first.kind == "(" and len(factors) == 1 and isinstance(factors[0], Product)
        numerator = Product(tuple(factors), span=self.since(start)) if wrapped else self.product(factors, start)
        return Quotient(numerator, self.divisor("division"), span=self.since(start))

    # One factor alone is itself.
    def product(self, factors: list[Expression], start: Token) -> Expression:
        return factors[0] if len(factors) == 1 else Product(tuple(factors), span=self.since(start))

    def divisor(self, of: str) -> Expression:
        divisor = self.factor()
        if self.starts_factor() or self.peek().kind == "/" or self.word("mod"):
            fix = "parentheses around what is divided, or around all that divides"
            raise fail("E104", f"what follows a {of} has two readings", self.peek().span, fix=fix)
        return divisor

    # factor: atom ["^" exponent]
    def factor(self) -> Expression:
        start = self.peek()
        base = self.atom()
        if not self.accept("^"):
            return base
        if isinstance(base, Apply) and base.indices and base.name in _OPERATORS and start.kind == "name":
            message = f"a power after the parentheses of `{base.name}` has two readings"
            raise fail("E104", message, self.before(), fix=f"`({base.name}_… (…))^2` or `{base.name}_… ((…)^2)`")
        exponent = self.signed_number() if self.peek().kind == "-" else self.atom()
        if self.peek().kind == "^":
            raise fail("E104", "a power of a power has two readings", self.peek().span, fix="parentheses")
        return Power(base, exponent, span=self.since(start))

    # atom: NUMBER | "(" expression ")" | fraction | cases | call | NAME [subscript]
    def atom(self) -> Expression:
        token = self.peek()
        self.deepen()
        match token.kind:
            case "number":
                atom: Expression = self.number()
            case "(" | "{":
                self.next()
                before = self.line.tokens[self.at - 2 : self.at - 1]
                atom = self.expression()
                if before and before[0].kind == "name" and before[0].text not in (*WORDS, "return") and self.peek().kind == ",":
                    self.refuse_call(before[0])
                self.expect(")" if token.kind == "(" else "}")
            case kind if kind == FRACTION:
                atom = self.fraction()
            case kind if kind == BRANCHES:
                atom = self.cases()
            case "name" if token.text not in WORDS:
                atom = self.call() if token.text in self.callables else self.name()
            case _:
                self.refuse("a number, a name or a bracket")
        self.depth -= 1
        return atom

    # fraction: "\frac{" expression "}{" expression "}", where parentheses around the numerator make it one factor
    def fraction(self) -> Quotient:
        start, first = self.next(), self.peek()
        over = self.expression()
        if first.kind == "(" and isinstance(over, Product) and over.span.start > first.span.start:
            over = Product((over,), span=over.span)
        self.expect(OVER, "`}`")
        under = self.expression()
        self.expect("}")
        return Quotient(over, under, span=self.since(start))

    # cases: "\begin{cases}" row ("\\" row)+ "\end{cases}"; row: expression [","] "&" ["if"] (expression | "otherwise")
    def cases(self) -> Expression:
        start, rows, after = self.next(), list[tuple[Expression, Expression]](), True
        while after:
            value = self.expression()
            self.accept(",")
            self.expect("&")
            self.accept_word("if")
            condition = self.expression()
            rows.append((value, condition))
            after = self.accept(BRANCH)
        self.expect("}")
        *others, (result, last) = rows
        if not (last in _OTHERWISE or (len(rows) == 2 and are_opposite(last, rows[0][1]))):
            raise fail("E101", "the last row of cases holds where no other does", last.span, fix="`\\text{otherwise}`")
        for value, condition in reversed(others):
            result = Apply("where", (), (condition, value, result), span=self.since(start))
        return result

    def refuse_call(self, name: Token) -> NoReturn:
        close = find_closest(name.text, self.callables)
        fix = f"`{close}`?" if close else "a function or a layer of the file"
        raise fail("E204", f"no function or layer `{name.text}` is defined", name.span, fix=fix)

    # NAME [subscript], and `inf`
    def name(self) -> Expression:
        name = self.next()
        if name.text == "inf":
            return Number(float("inf"), span=name.span)
        if self.peek().kind != OPEN:
            return Name(name.text, span=name.span)
        slots = self.slots()
        return Tensor(name.text, slots, span=self.since(name))

    # call: NAME [subscript] ("(" expression ("," expression)* ")" | factor), the latter at the end of a product
    def call(self) -> Expression:
        name = self.next()
        arguments: list[Expression] = []
        if name.text == "top":
            self.expect(OPEN, "`_{k,x}`: how many, over which index")
            arguments.append(self.sum())
            self.expect(",")
            indices = self.letters()
        else:
            indices = self.indices()
        if not self.is_sign(name) and self.accept("("):
            arguments.append(self.expression())
            while self.accept(","):
                arguments.append(self.expression())
            self.expect(")")
            self.check_sum(name, indices)
        else:
            arguments.append(self.rest(name, indices))
        return Apply(name.text, indices, tuple(arguments), span=self.since(name))

    # In print `\sum` of one argument takes the rest of its product, where `sum(…)` is a call (R11).
    def is_sign(self, name: Token) -> bool:
        return self.source.text.startswith("\\sum", name.span.start) and not self.is_list()

    def is_list(self) -> bool:
        depth = 0
        for token in self.line.tokens[self.at :]:
            depth += (token.kind in BRACKETS) - (token.kind in BRACKETS.values())
            if depth <= 1 and (not depth or token.kind == ","):
                return token.kind == ","
        return False

    # An operator takes the next factor, `sum` the rest of the product (R11).
    def rest(self, name: Token, indices: tuple[Index, ...]) -> Expression:
        if not self.starts_factor() and name.text not in NAMES:
            self.callables.discard(name.text)
            fix = "another letter for the one or the other, or the argument of the layer"
            raise fail("E202", f"`{name.text}` names a layer, and so no size or scalar", name.span, fix=fix)
        if not self.starts_factor():
            self.refuse(f"the argument of `{name.text}`")
        if name.text == "sum":
            start, factors = self.peek(), [self.factor()]
            while self.starts_factor():
                factors.append(self.factor())
            return self.product(factors, start)
        argument = self.factor()
        if self.starts_factor():
            message = f"`{name.text}` without parentheses must end its product"
            raise fail("E104", message, self.peek().span, fix=f"parentheses around the argument of `{name.text}`")
        return argument

    # `sum_d (a) b`: in print the sum takes b, as a call it does not.
    def check_sum(self, name: Token, indices: tuple[Index, ...]) -> None:
        if name.text == "sum" and self.starts_factor():
            message = "a factor after the parentheses of `sum` has two readings"
            raise fail("E104", message, self.peek().span, fix="`(sum_… (…)) …` or `sum_… ((…) …)`")

    # ------------------------------------------------------------------------------------------------- subscripts

    def indices(self) -> tuple[Index, ...]:
        return self.letters() if self.accept(OPEN) else ()

    # letters: LETTER+, up to the end of the subscript
    def letters(self) -> tuple[Index, ...]:
        letters = [self.letter()]
        while not self.accept(CLOSE):
            letters.append(self.letter())
        return tuple(letters)

    # LETTER: one lower-case letter with its primes
    def letter(self) -> Index:
        token = self.expect("name", "the letter of an axis")
        if len(token.text.rstrip("'")) != 1 or not token.text[0].islower():
            fix = "one lower-case letter for each axis"
            raise fail("E101", f"`{token.text}` is not a lower-case letter", token.span, fix=fix)
        return Index(token.text, span=token.span)

    # subscript: "_{" slot+ "}"
    def slots(self) -> tuple[Expression, ...]:
        self.expect(OPEN)
        slots = [self.slot()]
        while not self.accept(CLOSE):
            slots.append(self.slot())
        return tuple(slots)

    # slot: LETTER | NUMBER | NAME subscript | "(" group ")" | "(" sum ")"
    def slot(self) -> Expression:
        token = self.peek()
        if token.kind == "number":
            return self.number()
        if token.kind == "(":
            self.next()
            inside = self.group(token) if self.is_group() else self.sum()
            self.expect(")")
            return inside
        name = self.expect("name", "a letter, a digit, a tensor or a bracket")
        if len(name.text.rstrip("'")) > 1:
            fix = "one letter for each axis, or a name of one letter"
            raise fail("E101", f"`{name.text}` is not one letter", name.span, fix=fix)
        if self.peek().kind == OPEN:
            slots = self.slots()
            return Tensor(name.text, slots, span=self.since(name))
        if not name.text[0].islower():
            fix = f"a lower-case letter, or `({name.text})` for a number"
            raise fail("E101", f"`{name.text}` is not an index", name.span, fix=fix)
        return Index(name.text, span=name.span)

    # group: slot+, row-major
    def group(self, start: Token) -> Expression:
        members = [self.slot()]
        while self.peek().kind != ")":
            members.append(self.slot())
        return members[0] if len(members) == 1 else Group(tuple(members), span=self.since(start))

    def is_group(self) -> bool:
        depth, position = 0, self.at
        while depth or self.line.tokens[position].kind != ")":
            token = self.line.tokens[position]
            depth += (token.kind == "(") - (token.kind == ")")
            if not depth and token.kind != ")" and not (token.kind == "name" and token.text[0].islower()):
                return False
            position += 1
        return True

    # --------------------------------------------------------------------------------------------------- numbers

    def number(self) -> Number:
        token = self.expect("number")
        value: int | float = float(token.text) if any(mark in token.text for mark in ".eE") else int(token.text)
        return Number(value, span=token.span)

    # signed: ["-"] (NUMBER | "inf")
    def signed_number(self) -> Number:
        start, negative = self.peek(), self.accept("-")
        number = Number(float("inf")) if self.accept_word("inf") else self.number()
        return Number(-number.value if negative else number.value, span=self.since(start))


# `s' <= s` is the opposite of `s' > s`, and of `s < s'`.
def are_opposite(one: Expression, other: Expression) -> bool:
    if not (isinstance(one, Apply) and isinstance(other, Apply) and {one.name, other.name} <= OPPOSITE.keys()):
        return False
    against, sides = OPPOSITE[other.name], other.arguments
    return (one.name, one.arguments) in ((against, sides), (MIRRORED[against], sides[::-1]))


# The sign belongs to a leading number, else it is the factor -1.
def _negate(factors: list[Expression]) -> list[Expression]:
    first = factors[0]
    if isinstance(first, Number):
        return [Number(-first.value, span=first.span), *factors[1:]]
    return [Number(-1, span=first.span), *factors]


def _conjoin(left: Expression, right: Expression) -> Expression:
    return Apply("and", (), (left, right), span=join_spans(left.span, right.span))


def join_spans(first: Span, last: Span) -> Span:
    return Span(first.source, first.start, last.end)


# ---------------------------------------------------------------------------------------------------------- statements


class _Parser(Formulas):
    def __init__(self, source: Source, lines: list[LogicalLine], findings: list[Finding], known: Spec = EMPTY) -> None:
        first = lines[0] if lines else LogicalLine(0, (), "", "", Span(source, 0, 1))
        layers = {layer.name for layer in known.layers}
        super().__init__(source, first, {*layers, *NAMES, *find_callables(lines)})
        self.lines, self.findings, self.library = lines, findings, known

    # ------------------------------------------------------------------------------------------------- statements

    def spec(self) -> Spec:
        (title, *about), lines, below = attach_remarks(self.lines)
        axes, scalars, layers, stray = list[Axis](), list[Scalar](), list[Layer](), False
        for head, body in split_blocks(lines):
            match head.tokens[0].text:
                case "axes":
                    axes += self.legend(head, body, self.axis, self.axis_of_the_library)
                case "scalars":
                    scalars += self.legend(head, body, self.scalar, self.scalar_of_the_library)
                case "layer" | "model":
                    layers += self.collect([head], partial(self.layer, head, body)) or self.headless(body)
                case _:  # of several lines the first: they belong to one head, which is not there
                    self.collect([] if stray else [head], lambda: self.refuse("`axes`, `scalars`, `layer` or `model`"))
            stray = head.tokens[0].text not in _HEADS
        letters = {axis.letter for axis in axes}
        scalars = [_resolve_scalar(scalar, letters) for scalar in scalars]
        span = Span(self.source, 0, max(1, len(self.source.text)))
        resolved = tuple(resolve_layer(layer, letters) for layer in layers)
        return Spec(title, tuple(axes), tuple(scalars), resolved, tuple(about), below, span=span)

    # A line that breaks the rule becomes a finding.
    def collect(self, lines: list[LogicalLine], rule: Callable[[], _Item]) -> list[_Item]:
        items = []
        for line in lines:
            self.take(line)
            try:
                items.append(rule())
            except EinformerError as error:
                self.findings += error.findings
        return items

    # The entries of the library that the head names, then one in each line.
    def legend(
        self, head: LogicalLine, body: list[LogicalLine], rule: Callable[[], _Entry], named: Callable[[], _Entry]
    ) -> list[_Entry]:
        entries = [entry for row in self.collect([head], partial(self.heading, named)) for entry in row]
        return [*entries, *self.collect(body if entries else attach_head(head, body), rule)]

    # What is said of the head is said above the first entry.
    def heading(self, named: Callable[[], _Entry]) -> list[_Entry]:
        self.next()
        entries = self.read_list(named) if self.peek().kind != "end" else []
        self.refuse_note()
        return [replace(entry, above=_remarks_of(self.line)) for entry in entries[:1]] + entries[1:]

    def axis(self) -> Axis:
        letter = self.letter()
        self.refuse_listing("axes", letter.letter, "size", f"{letter.letter}: {letter.letter[0].upper()}")
        axis = Axis(letter.letter, *self.size(), self.line.comment, above=self.line.above, span=letter.span)
        self.refuse_note()
        return axis

    def axis_of_the_library(self) -> Axis:
        letter = self.letter()
        if self.peek().kind != ":":
            return _take_axis(self.library, letter)
        (size, default, bound), named = self.size(), (axis for axis in self.library.axes if axis.letter == letter.letter)
        return replace(next(named, Axis(letter.letter, size)), size=size, default=default, bound=bound, span=letter.span)

    def size(self) -> tuple[Expression, Expression | None, Expression | None]:
        self.expect(":")
        return self.sum(), self.sum() if self.accept("=") else None, self.sum() if self.accept("<=") else None

    def scalar(self) -> Scalar:
        name = self.declaration("the name of a scalar")
        self.refuse_listing("scalars", name.name, "value", f"{name.name} = …")
        value = self.value()
        self.end()
        beside = self.line.note, self.line.comment
        return Scalar(name.name, name.indices, value, *beside, above=self.line.above, span=name.span)

    def scalar_of_the_library(self) -> Scalar:
        name = self.declaration("the name of a scalar")
        if self.peek().kind != "=":
            return _take_scalar(self.library, name)
        value, named = self.value(), (s for s in self.library.scalars if (s.name, s.indices) == (name.name, name.indices))
        return replace(next(named, Scalar(name.name, name.indices, value)), value=value, span=name.span)

    # What the library has is named beside the heading, not below it.
    def refuse_listing(self, heading: str, name: str, what: str, written: str) -> None:
        if self.peek().kind in (",", "end"):
            listing = f"`{heading} {self.line.span.text}` on the line of the heading, for those of the library"
            message = f"`{name}` stands on a line of its own without a {what}"
            raise fail("E101", message, self.peek().span, fix=f"{listing}; or a {what}, `{written}`")

    def value(self) -> Expression | tuple[Number, ...]:
        self.expect("=")
        return self.listing() if self.accept("[") else self.expression()

    def read_list(self, rule: Callable[[], _Item]) -> list[_Item]:
        items = [rule()]
        while self.accept(","):
            items.append(rule())
        return items

    def listing(self) -> tuple[Number, ...]:
        items = self.read_list(self.signed_number)
        self.expect("]")
        return tuple(items)

    # A name with the letters of its subscript.
    def declaration(self, what: str) -> Weight:
        name = self.new_name(what)
        return Weight(name.text, self.indices(), span=name.span)

    def layer_of_the_library(self, name: Token, head: LogicalLine, body: list[LogicalLine]) -> Layer:
        theirs = self.expect("name", "the name of a layer of the library")
        layer = replace(_take_layer(self.library, theirs), name=name.text, above=head.above)
        if self.accept(":"):
            self.end()
            return _vary(replace(layer, note=head.note or layer.note, span=name.span), *self.body(body, layer.output))
        self.refuse_note()
        for line in body:
            fix = f"`layer {name.text} = {theirs.text}:` above lines that replace lines of it"
            self.report("E105", "this line is indented under a layer of the library", line.span, fix)
        return layer

    def layer(self, head: LogicalLine, body: list[LogicalLine]) -> Layer:
        kind: Literal["layer", "model"] = "model" if self.expect("name").text == "model" else "layer"
        name = self.expect("name", f"the name of a {kind}")
        if kind == "layer" and self.accept("="):
            return self.layer_of_the_library(name, head, body)
        indices = self.indices()
        self.expect("(")
        formals = self.read_list(self.formal)
        self.expect(")")
        self.expect("->")
        output = self.left()
        if kind == "layer" and self.word("causal"):
            fix = f"`model {name.text}`, or the head without `causal in …`"
            raise fail("E101", f"a model claims causality, and `{name.text}` is a layer", self.peek().span, fix=fix)
        time = self.time() if self.accept_word("causal") else None
        self.expect(":")
        self.end()
        weights, statements = self.body(body, output)
        parts = (name.text, indices, tuple(formals), output, weights, statements, kind, time)
        return Layer(*parts, head.note, head.comment, above=head.above, span=name.span)

    # The statements of a layer whose head does not parse are read all the same, for what is wrong in them.
    def headless(self, body: list[LogicalLine]) -> list[Layer]:
        self.body(body, Name("?"))
        return []

    def time(self) -> Index:
        self.expect_word("in")
        return self.letter()

    def formal(self) -> Tensor:
        name = self.declaration("an input such as `z_bsd`")
        return Tensor(name.name, name.indices, span=join_spans(name.span, self.before()))

    def body(self, lines: list[LogicalLine], output: Tensor | Name) -> tuple[tuple[Weight, ...], tuple[Statement, ...]]:
        weights: list[Weight] = []
        statements: list[Statement] = []
        for head, inner in split_blocks(lines):
            match head.tokens[0].text:
                case "weights" | "buffers":
                    weights += (weight for row in self.collect([head], self.weights) for weight in row)
                case "for":
                    statements += self.collect([head], partial(self.loop, inner, weights, output))
                case _:
                    equations = self.collect([head], partial(self.equation, output))
                    statements += equations
                    for line in inner if equations else ():
                        fix = "the same indentation as the line before"
                        self.report("E105", "this line is indented under an equation", line.span, fix)
                    if not equations:  # a loop, perhaps, whose head does not parse
                        self.body(inner, output)
        return tuple(weights), tuple(statements)

    def loop(self, lines: list[LogicalLine], weights: list[Weight], output: Tensor | Name) -> Loop:
        start = self.expect_word("for")
        index = self.letter()
        self.expect("<")
        count = self.sum()
        self.expect(":")
        self.refuse_note()
        span, head = self.since(start), self.line
        if self.loops == MAXIMUM_DEPTH:
            raise fail("E002", f"loops nest more than {MAXIMUM_DEPTH} deep", span, fix="layers for the inner ones")
        self.loops += 1
        inner, statements = self.body(lines, output)
        self.loops -= 1
        weights += inner
        return Loop(index, count, statements, head.comment, above=head.above, span=span)

    def weights(self) -> list[Weight]:
        kind: Literal["trained", "buffer"] = "buffer" if self.expect("name").text == "buffers" else "trained"
        declared: list[Weight] = []
        bare = 0
        while True:
            declared.append(self.weight(kind))
            bare = bare + 1 if _may_be_instance(declared[-1]) else 0
            if bare and self.accept(":"):
                layer = self.expect("name", "the name of a layer")
                declared[-bare:] = [replace(w, kind="instance", layer=layer.text) for w in declared[-bare:]]
                bare = 0
            if not self.accept(","):
                self.refuse_note()
                declared[0] = replace(declared[0], above=self.line.above)
                return [*declared[:-1], replace(declared[-1], comment=self.line.comment)]

    def weight(self, kind: Literal["trained", "buffer"]) -> Weight:
        name = self.declaration("the name of a weight")
        optional, default = self.accept("?"), self.sum() if self.accept("=") else None
        span = join_spans(name.span, self.before())
        return Weight(name.name, name.indices, kind, optional, default, span=span)

    def equation(self, output: Tensor | Name) -> Equation:
        start = self.peek()
        relation: Literal["=", "<-", "return"] = "return" if self.accept_word("return") else "="
        left = output if relation == "return" else self.left()
        if relation == "=" and not self.accept("="):
            self.expect("<-", "`=` or `<-`")
            relation = "<-"
        right = self.expression()
        self.end()
        if isinstance(left, Tensor) and isinstance(right, Tensor):
            left, right = self.regroup(left, right)
        return Equation(left, relation, right, self.line.note, self.line.comment, above=self.line.above, span=self.since(start))

    # `y_{bsd} = q_{bs(ea)}` in LaTeX merges e and a: the group stands on the left (R4).
    def regroup(self, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
        groups = [slot for slot in right.slots if isinstance(slot, Group)]
        merged, inside = [slot for slot in left.slots if slot not in right.slots], open_groups(right.slots)
        alone = len(groups) == len(merged) == 1 and len(left.slots) == len(right.slots)
        letters = all(isinstance(slot, Index) for slot in (*left.slots, *inside))
        if not (alone and letters and merged[0] not in inside and tokens.is_latex(self.source.text)):
            return left, right
        slots = tuple(groups[0] if slot is merged[0] else slot for slot in left.slots)
        return replace(left, slots=slots), replace(right, slots=tuple(inside))

    def left(self) -> Tensor | Name:
        name = self.new_name("the name that the equation defines")
        slots = self.slots() if self.peek().kind == OPEN else ()
        for slot in slots:
            if not (isinstance(slot, Index) or (isinstance(slot, Group) and all(isinstance(m, Index) for m in slot.members))):
                fix = "one letter for each axis, `u_{bs(ae)}` to merge"
                raise fail("E106", "on the left stand letters and groups of letters only", slot.span, fix=fix)
        return Tensor(name.text, slots, span=self.since(name)) if slots else Name(name.text, span=name.span)

    # Nothing may follow, no note either: only formulas follow a document.
    def refuse_note(self) -> None:
        self.end()
        if self.line.note:
            raise EinformerError([_stray_note(self.line)])

    # None of the language's own: `mean_d = …` could never be read, as `mean_d` takes an argument.
    def new_name(self, what: str) -> Token:
        name = self.expect("name", what)
        if name.text in NAMES:
            self.callables.discard(name.text)  # what follows means the name that was to be
            raise fail("E202", f"`{name.text}` is a name of the language", name.span, fix="another name")
        return name

    def report(self, code: str, message: str, span: Span, fix: str) -> None:
        self.findings.append(Finding(code, message, span, fix=fix))


def _read_lines(source: Source) -> tuple[list[LogicalLine], list[Finding]]:
    if tokens.is_latex(source.text):
        from einformer.language import latex_reader  # nobody waits for it who reads plain text

        lines, findings = latex_reader.read_lines(source)
    else:
        lines, findings = tokens.read_lines(source)
    alone = [line for line in lines if line.note and not line.tokens]
    return [line for line in lines if line.tokens or not line.note], [*findings, *map(_stray_note, alone)]


def _stray_note(line: LogicalLine) -> Finding:
    source = line.span.source
    start = source.text.index("@", line.span.start)
    fix = "`#` for a comment, or `@` beside the equation, the scalar or the head of a layer that follows it"
    return Finding("E107", f"the note `{line.note}` stands beside no formula", Span(source, start, start + 1), fix=fix)


def _may_be_instance(weight: Weight) -> bool:
    return not (weight.indices or weight.optional or weight.default)


def _resolve_scalar(scalar: Scalar, letters: set[str]) -> Scalar:
    return scalar if isinstance(scalar.value, tuple) else replace(scalar, value=resolve(scalar.value, letters))


# -------------------------------------------------------------------------------------------------- what the library has


def _take_axis(library: Spec, letter: Index) -> Axis:
    for axis in library.axes:
        if axis.letter == letter.letter:
            size, default, bound = (e and _place(e, letter.span) for e in (axis.size, axis.default, axis.bound))
            return replace(axis, size=size or axis.size, default=default, bound=bound, span=letter.span)
    fix = f"`{letter.letter}: {letter.letter[0].upper()}`"
    raise _fail_missing("E201", letter.letter, ("size", "axis"), letter.span, [axis.letter for axis in library.axes], fix)


def _take_scalar(library: Spec, name: Weight) -> Scalar:
    for scalar in library.scalars:
        if (scalar.name, scalar.indices) == (name.name, name.indices):
            assert not isinstance(scalar.value, tuple)
            return replace(scalar, value=_place(scalar.value, name.span), span=name.span)
    names = [scalar.name for scalar in library.scalars]
    raise _fail_missing("E204", name.name, ("value", "scalar"), name.span, names, f"`{name.name} = …`")


def _fail_missing(code: str, name: str, lacks: tuple[str, str], span: Span, names: list[str], fix: str) -> EinformerError:
    message = f"`{name}` stands without a {lacks[0]}, and the library has no such {lacks[1]}"
    return fail(code, message, span, [f"the library has {', '.join(names)}"] * bool(names), fix)


def _take_layer(library: Spec, name: Token) -> Layer:
    layers = {layer.name: layer for layer in library.layers}
    if name.text in layers:
        return layers[name.text]
    close = find_closest(name.text, layers)
    fix = f"`{close}`" if close else "`layer Name(z_d) -> z_d:`, written out"
    raise fail("E204", f"the library has no layer `{name.text}`", name.span, fix=fix)


# A line replaces the next one that defines the same name. A line for a new name goes before the line that is replaced next.
def _vary(layer: Layer, weights: tuple[Weight, ...], statements: tuple[Statement, ...]) -> Layer:
    rows: list[Statement] = []
    rest = list(layer.body)
    new: list[Statement] = []
    for statement in statements:
        new.append(statement)
        names = [_definition(row) for row in rest]
        if (name := _definition(statement)) in names:
            place = names.index(name)
            rows += [*rest[:place], *new]
            rest, new = rest[place + 1 :], []
    if new:
        fix = f"a line for one of {', '.join(f'`{_definition(row)}`' for row in layer.body)}, in this order"
        message = f"`{_definition(new[-1])}` replaces no line of the library's layer, and no line below it does"
        raise fail("E204", message, new[-1].span, (), fix)
    return replace(layer, weights=weights or layer.weights, body=(*rows, *rest))


def _definition(statement: Statement) -> str:
    if isinstance(statement, Loop):
        return f"for {statement.index.letter}"
    return "return" if statement.relation == "return" else f"{statement.left.name} {statement.relation}"


# Errors of a scalar or axis of the library are errors of the text that names it.
def _place(e: Expression, span: Span) -> Expression:
    return replace(rebuild(e, lambda child: _place(child, span)), span=span)


# --------------------------------------------------------------------------------------------------- lines that belong together


# Returns the title and the comment after it, the lines, each with the comments above it, and the comments at the end.
def attach_remarks(lines: list[LogicalLine]) -> tuple[list[str], list[LogicalLine], tuple[str, ...]]:
    first = next((number for number, line in enumerate(lines) if line.tokens), len(lines))
    rest: list[LogicalLine] = []
    above: list[str] = []
    for line in lines[first:]:
        if line.tokens:
            rest.append(replace(line, above=tuple(above)) if above else line)
            above = []
        else:
            above.append(line.comment)
    return [line.comment for line in lines[:first]] or [""], rest, tuple(above)


# Remarks beside or above a heading belong to the first line below it.
def attach_head(head: LogicalLine, body: list[LogicalLine]) -> list[LogicalLine]:
    return [replace(body[0], above=_remarks_of(head) + body[0].above), *body[1:]] if body else []


def _remarks_of(line: LogicalLine) -> tuple[str, ...]:
    return (*line.above, *[line.comment] * bool(line.comment))


def split_blocks(lines: list[LogicalLine]) -> Iterator[tuple[LogicalLine, list[LogicalLine]]]:
    number = 0
    while number < len(lines):
        end = number + 1
        while end < len(lines) and lines[end].indent > lines[number].indent:
            end += 1
        yield lines[number], lines[number + 1 : end]
        number = end


def find_callables(lines: list[LogicalLine]) -> Iterator[str]:
    for line in lines:
        texts = [token.text for token in line.tokens]
        if texts[:1] in (["layer"], ["model"]):
            yield from texts[1:2]
        elif texts[:1] == ["weights"]:
            for number in (number for number, token in enumerate(line.tokens) if token.kind == ":"):
                yield from _instances(line.tokens[:number])


def _instances(tokens: tuple[Token, ...]) -> Iterator[str]:
    number = len(tokens) - 1
    while number > 0 and tokens[number].kind == "name" and (tokens[number - 1].kind == "," or number == 1):
        yield tokens[number].text
        number -= 2
