"""Parses formulas: one short method for each rule of `grammar.lark` on expressions, over a cursor on the tokens of a line."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import NoReturn

from einformer.errors import Source, Span, fail
from einformer.language.names import find_closest
from einformer.language.primitives import COMPARISONS, NAMES, PRIMITIVES
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
    Line,
    Token,
)
from einformer.language.tree import Apply, Expression, Group, Index, Name, Number, Power, Product, Quotient, Sum, Tensor
from einformer.language.walk import height


class Cursor:
    """The tokens of one line at a time."""

    def __init__(self, source: Source, line: Line) -> None:
        self.source, self.loops = source, 0
        self.take(line)

    def take(self, line: Line) -> None:
        """Start at the first token of a line."""
        self.line, self.at, self.depth = line, 0, 0
        end = line.tokens[-1].span.end if line.tokens else line.span.start
        self.tokens = (*line.tokens, Token("end", "the end of the line", Span(self.source, end, end + 1)))

    def peek(self) -> Token:
        """The token that comes next; behind the last one, the end of the line."""
        return self.tokens[self.at]

    def next(self) -> Token:
        """The next token, which is taken."""
        token = self.peek()
        self.at += token.kind != "end"
        return token

    def accept(self, kind: str) -> bool:
        """Take the next token if it is of this kind."""
        accepted = self.peek().kind == kind
        self.at += accepted
        return accepted

    def word(self, word: str) -> bool:
        """Returns whether the next token is this word."""
        token = self.peek()
        return token.text == word and token.kind == "name"

    def accept_word(self, word: str) -> bool:
        """Take the next token if it is this word."""
        accepted = self.word(word)
        self.at += accepted
        return accepted

    def expect(self, kind: str, what: str = "") -> Token:
        """Returns the next token, which must be of this kind. `what` describes it in other words."""
        if self.peek().kind != kind:
            self.refuse(what or f"`{kind}`")
        return self.next()

    def expect_word(self, word: str) -> Token:
        """The next token, which must be this word."""
        if not self.word(word):
            self.refuse(f"`{word}`")
        return self.next()

    def refuse(self, what: str) -> NoReturn:
        """Refuses the next token, in the words of the text: tokens of LaTeX and of a subscript may look different."""
        token, there = self.peek(), self.peek().span.text
        if token.kind == CLOSE and there != "}":
            text_found = "the end of the subscript"
        else:
            text_found = token.text if token.kind == "end" else f"`{token.text if token.text in there else there}`"
        raise fail("E101", f"{text_found} where {what} is expected", token.span, fix=what)

    def end(self) -> None:
        """Nothing may follow."""
        if self.peek().kind != "end":
            self.refuse("the end of the line")

    def starts_factor(self) -> bool:
        """Returns whether a factor can begin here."""
        token = self.peek()
        if token.kind == "name":
            return token.text not in WORDS
        return token.kind in ("number", "(", "{", FRACTION, BRANCHES)

    def deepen(self) -> None:
        """Goes one level down. R13 bounds the levels, with those of loops, so that no text exhausts the stack."""
        self.depth += 1
        if self.depth - 1 > min(MAXIMUM_DEPTH, MAXIMUM_HEIGHT - self.loops):
            raise fail("E002", f"the formula nests more than {MAXIMUM_DEPTH} deep", self.peek().span, fix="names for its parts")

    def bound_height(self, e: Expression) -> Expression:
        """R13 bounds the height of a whole formula too: `a or b or …` nests without a bracket."""
        if not self.depth and len(self.tokens) > MAXIMUM_DEPTH and height(e) > MAXIMUM_DEPTH:  # a level costs a token
            raise fail("E002", f"the formula nests more than {MAXIMUM_DEPTH} deep", e.span, fix="names for its parts")
        return e

    def before(self) -> Span:
        """Where the token stands that was taken last."""
        return self.line.tokens[self.at - 1].span

    def since(self, start: Token) -> Span:
        """From a token to the one that was taken last."""
        return join_spans(start.span, self.before())


def join_spans(first: Span, last: Span) -> Span:
    """From the start of one place to the end of another."""
    return Span(first.source, first.start, last.end)


_OPERATORS = frozenset(name for name, with_indices in PRIMITIVES if with_indices)
_OTHERWISE = (Name("otherwise"), Name("else"))
_RANKS = {"or": 1, "and": 2, "not": 3}  # how tightly a word between or before conditions holds


class Formulas(Cursor):
    """The rules of expressions, subscripts and numbers. `callables` are the names that take arguments."""

    def __init__(self, source: Source, line: Line, callables: set[str]) -> None:
        super().__init__(source, line)
        self.callables = callables

    def expression(self, least: int = 0) -> Expression:
        """expression: ("not" expression | comparison) (("and" | "or") expression)*, where `not` holds tightest, `or` least

        By precedence climbing: a bracket costs one call of each rule below, whatever holds it together (R13).
        """
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

    def rank(self) -> int:
        """How tightly the word holds that stands between two conditions here; 0 where none does."""
        return _RANKS.get(self.peek().text, 0) if self.word("or") or self.word("and") else 0

    def comparisons(self, left: Expression) -> Expression:
        """comparison: sum (("<" | "<=" | …) sum)*; a chain is the `and` of its links"""
        links: list[Expression] = []
        while self.peek().kind in COMPARISONS:
            symbol = self.next().kind
            right = self.sum()
            links.append(Apply(symbol, (), (left, right), span=join_spans(left.span, right.span)))
            left = right
        return reduce(_conjoin, links) if links else left

    def sum(self) -> Expression:
        """sum: ["-"] term (("+" | "-") term)*"""
        start = self.peek()
        terms = [self.term()]
        while self.peek().kind in "+-":
            if self.peek().kind == "+":
                self.next()
            terms.append(self.term())
        return self.bound_height(terms[0] if len(terms) == 1 else Sum(tuple(terms), span=self.since(start)))

    def term(self) -> Expression:
        """term: ["-"] factor+ [("/" | "mod") factor], where the minus negates the remainder, not the dividend of `mod` (R11)"""
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

    def product(self, factors: list[Expression], start: Token) -> Expression:
        """The product of factors, the first of which began at `start`; one alone is itself."""
        return factors[0] if len(factors) == 1 else Product(tuple(factors), span=self.since(start))

    def divisor(self, of: str) -> Expression:
        """The factor that ends a term."""
        divisor = self.factor()
        if self.starts_factor() or self.peek().kind == "/" or self.word("mod"):
            fix = "parentheses around what is divided, or around all that divides"
            raise fail("E104", f"what follows a {of} has two readings", self.peek().span, fix=fix)
        return divisor

    def factor(self) -> Expression:
        """factor: atom ["^" exponent]"""
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

    def atom(self) -> Expression:
        """atom: NUMBER | "(" expression ")" | fraction | cases | call | NAME [subscript]"""
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

    def fraction(self) -> Quotient:
        r"""fraction: "\frac{" expression "}{" expression "}", where parentheses around the numerator make it one factor"""
        start, first = self.next(), self.peek()
        over = self.expression()
        if first.kind == "(" and isinstance(over, Product) and over.span.start > first.span.start:
            over = Product((over,), span=over.span)
        self.expect(OVER, "`}`")
        under = self.expression()
        self.expect("}")
        return Quotient(over, under, span=self.since(start))

    def cases(self) -> Expression:
        r"""cases: "\begin{cases}" row ("\\" row)+ "\end{cases}"; row: expression [","] "&" ["if"] (expression | "otherwise")"""
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
        """Refuse a name that is given several arguments and is not a function."""
        close = find_closest(name.text, self.callables)
        fix = f"`{close}`?" if close else "a function or a layer of the file"
        raise fail("E204", f"no function or layer `{name.text}` is defined", name.span, fix=fix)

    def name(self) -> Expression:
        """NAME [subscript], and `inf`"""
        name = self.next()
        if name.text == "inf":
            return Number(float("inf"), span=name.span)
        if self.peek().kind != OPEN:
            return Name(name.text, span=name.span)
        slots = self.slots()
        return Tensor(name.text, slots, span=self.since(name))

    def call(self) -> Expression:
        """call: NAME [subscript] ("(" expression ("," expression)* ")" | factor), the latter at the end of a product"""
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

    def is_sign(self, name: Token) -> bool:
        r"""Returns whether this is `\sum` of one argument. In print it takes the rest of its product, where `sum(…)` is a
        call (R11).
        """
        return self.source.text.startswith("\\sum", name.span.start) and not self.is_list()

    def is_list(self) -> bool:
        """Returns whether the parentheses that begin here hold a comma."""
        depth = 0
        for token in self.line.tokens[self.at :]:
            depth += (token.kind in BRACKETS) - (token.kind in BRACKETS.values())
            if depth <= 1 and (not depth or token.kind == ","):
                return token.kind == ","
        return False

    def rest(self, name: Token, indices: tuple[Index, ...]) -> Expression:
        """The argument of an operator without parentheses: the next factor; of `sum` the rest of the product (R11)."""
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

    def check_sum(self, name: Token, indices: tuple[Index, ...]) -> None:
        """`sum_d (a) b`: in print the sum takes b, as a call it does not."""
        if name.text == "sum" and self.starts_factor():
            message = "a factor after the parentheses of `sum` has two readings"
            raise fail("E104", message, self.peek().span, fix="`(sum_… (…)) …` or `sum_… ((…) …)`")

    # ------------------------------------------------------------------------------------------------- subscripts

    def indices(self) -> tuple[Index, ...]:
        """An optional subscript of letters only."""
        return self.letters() if self.accept(OPEN) else ()

    def letters(self) -> tuple[Index, ...]:
        """letters: LETTER+, up to the end of the subscript"""
        letters = [self.letter()]
        while not self.accept(CLOSE):
            letters.append(self.letter())
        return tuple(letters)

    def letter(self) -> Index:
        """LETTER: one lower-case letter with its primes"""
        token = self.expect("name", "the letter of an axis")
        if len(token.text.rstrip("'")) != 1 or not token.text[0].islower():
            fix = "one lower-case letter for each axis"
            raise fail("E101", f"`{token.text}` is not a lower-case letter", token.span, fix=fix)
        return Index(token.text, span=token.span)

    def slots(self) -> tuple[Expression, ...]:
        """subscript: "_{" slot+ "}" """
        self.expect(OPEN)
        slots = [self.slot()]
        while not self.accept(CLOSE):
            slots.append(self.slot())
        return tuple(slots)

    def slot(self) -> Expression:
        """slot: LETTER | NUMBER | NAME subscript | "(" group ")" | "(" sum ")" """
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

    def group(self, start: Token) -> Expression:
        """group: slot+, row-major"""
        members = [self.slot()]
        while self.peek().kind != ")":
            members.append(self.slot())
        return members[0] if len(members) == 1 else Group(tuple(members), span=self.since(start))

    def is_group(self) -> bool:
        """Returns whether the parentheses just opened hold only letters and parentheses."""
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
        """NUMBER"""
        token = self.expect("number")
        value: int | float = float(token.text) if any(mark in token.text for mark in ".eE") else int(token.text)
        return Number(value, span=token.span)

    def signed_number(self) -> Number:
        """signed: ["-"] (NUMBER | "inf")"""
        start, negative = self.peek(), self.accept("-")
        number = Number(float("inf")) if self.accept_word("inf") else self.number()
        return Number(-number.value if negative else number.value, span=self.since(start))


_OPPOSITE = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}
_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "==", "!=": "!="}


def are_opposite(one: Expression, other: Expression) -> bool:
    """`s' <= s` and `s' > s`, or `s < s'`: two comparisons of the same."""
    if not (isinstance(one, Apply) and isinstance(other, Apply) and {one.name, other.name} <= _OPPOSITE.keys()):
        return False
    against, sides = _OPPOSITE[other.name], other.arguments
    return (one.name, one.arguments) in ((against, sides), (_MIRRORED[against], sides[::-1]))


# The sign belongs to a leading number, else it is the factor -1.
def _negate(factors: list[Expression]) -> list[Expression]:
    first = factors[0]
    if isinstance(first, Number):
        return [Number(-first.value, span=first.span), *factors[1:]]
    return [Number(-1, span=first.span), *factors]


def _conjoin(left: Expression, right: Expression) -> Expression:
    return Apply("and", (), (left, right), span=join_spans(left.span, right.span))
