"""What tree does a text stand for? A recursive descent with one short method for each rule of `grammar.lark`.

A statement that does not parse is reported and skipped; the next line is read afresh.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial, reduce
from typing import Literal, NoReturn, TypeVar

from einformer.errors import EinformerError, Finding, Source, Span, fail
from einformer.notation import latex, tokens
from einformer.notation.primitives import COMPARISONS, NAMES, PRIMITIVES
from einformer.notation.tokens import CLOSE, MAXIMUM_DEPTH, MAXIMUM_HEIGHT, OPEN, Line, Token
from einformer.notation.tree import (
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
    Scalar,
    Spec,
    Statement,
    Sum,
    Tensor,
    Weight,
)
from einformer.notation.walk import height, map_expressions, rebuild

MAXIMUM_FINDINGS = 100
_HEADS = ("axes", "scalars", "layer", "model")
_OPERATORS = frozenset(name for name, with_indices in PRIMITIVES if with_indices)
_WORDS = ("mod", "and", "or", "not")  # they stand between or before formulas, and are never called
_RANKS = {"or": 1, "and": 2, "not": 3}  # how tightly a word between or before conditions holds
_Item = TypeVar("_Item")


def parse(source: Source, layers: frozenset[str] = frozenset()) -> tuple[Spec, tuple[Finding, ...]]:
    """The tree of a text, plain or LaTeX, and the findings of its syntax.

    `layers` are callable names from elsewhere (the prelude). Raises EinformerError for a text that is too large.
    """
    lines, findings = _read_lines(source)
    parser = _Parser(source, lines, findings, layers)
    spec = parser.spec()
    return spec, tuple(sorted(parser.findings, key=lambda finding: finding.span.start)[:MAXIMUM_FINDINGS])


def parse_expression(text: str, spec: Spec, name: str = "<expression>") -> Expression:
    """One expression in the legend of `spec`, as `bind` takes it for a scalar. Raises EinformerError."""
    source = Source(name, text)
    lines, findings = _read_lines(source)
    if findings or len(lines) != 1:
        raise EinformerError(findings or [Finding("E101", "one expression is expected", Span(source, 0, len(text)))])
    parser = _Parser(source, lines, [], frozenset(layer.name for layer in spec.layers))
    parser.take(lines[0])
    expression = parser.expression()
    parser.end()
    return resolve(expression, {axis.letter for axis in spec.axes})


def parse_scalars(source: Source, spec: Spec) -> tuple[Spec, tuple[Finding, ...]]:
    """`spec` with the scalars that the lines of `source` replace or add, and the findings of their syntax."""
    lines, findings = _read_lines(source)
    parser = _Parser(source, lines, findings, frozenset())
    given = parser.collect([line for line in lines if line.tokens], parser.scalar)
    letters = {axis.letter for axis in spec.axes}
    scalars = {scalar.name: scalar for scalar in spec.scalars} | {s.name: _resolve_scalar(s, letters) for s in given}
    return replace(spec, scalars=tuple(scalars.values())), tuple(parser.findings)


def resolve(e: Expression, letters: set[str]) -> Expression:
    """e in which a bare name that is the letter of an axis, or primed, is an index (R11)."""
    if isinstance(e, Name) and (e.name.endswith("'") or e.name in letters):
        return Index(e.name, span=e.span)
    return rebuild(e, lambda child: resolve(child, letters))


def resolve_layer(layer: Layer, letters: set[str]) -> Layer:
    """`resolve` in every equation of a layer."""
    return map_expressions(layer, lambda e: resolve(e, letters))


class _Parser:
    """A cursor over the tokens of one line at a time. Methods are named after the rules of the grammar."""

    def __init__(self, source: Source, lines: list[Line], findings: list[Finding], layers: frozenset[str]) -> None:
        self.source, self.lines, self.findings = source, lines, findings
        self.callables = {*layers, *NAMES, *_declared_callables(lines)}
        self.at = self.depth = self.loops = 0
        self.line = lines[0] if lines else Line(0, (), "", "", Span(source, 0, 1))

    # ------------------------------------------------------------------------------------------------- statements

    def spec(self) -> Spec:
        """spec: block*"""
        (title, *about), lines, below = _remarks(self.lines)
        axes: list[Axis] = []
        scalars: list[Scalar] = []
        layers: list[Layer] = []
        for head, body in _blocks(lines):
            match head.tokens[0].text:
                case "axes":
                    self.collect([head], self.heading)
                    axes += self.collect(_headed(head, body), self.axis)
                case "scalars":
                    self.collect([head], self.heading)
                    scalars += self.collect(_headed(head, body), self.scalar)
                case "layer" | "model":
                    layers += self.collect([head], partial(self.layer, head, body)) or self.headless(body)
                case _:
                    self.collect([head], lambda: self.expected("`axes`, `scalars`, `layer` or `model`"))
        letters = {axis.letter for axis in axes}
        scalars = [_resolve_scalar(scalar, letters) for scalar in scalars]
        span = Span(self.source, 0, max(1, len(self.source.text)))
        resolved = tuple(resolve_layer(layer, letters) for layer in layers)
        return Spec(title, tuple(axes), tuple(scalars), resolved, tuple(about), below, span=span)

    def collect(self, lines: list[Line], rule: Callable[[], _Item]) -> list[_Item]:
        """`rule` applied to each line; a line that breaks it becomes a finding."""
        items = []
        for line in lines:
            self.take(line)
            try:
                items.append(rule())
            except EinformerError as error:
                self.findings += error.findings
        return items

    def heading(self) -> None:
        """`axes` and `scalars` stand alone on their line."""
        self.next()
        self.end()

    def axis(self) -> Axis:
        """axis: LETTER ":" expression ["=" expression] ["<=" sum]"""
        letter = self.letter()
        self.expect(":")
        size = self.sum()
        default = self.sum() if self.accept("=") else None
        bound = self.sum() if self.accept("<=") else None
        self.end()
        return Axis(letter.letter, size, default, bound, self.line.comment, above=self.line.above, span=letter.span)

    def scalar(self) -> Scalar:
        """scalar: NAME [subscript] "=" (expression | "[" number ("," number)* "]")"""
        name = self.new_name("the name of a scalar")
        indices = self.indices()
        self.expect("=")
        value = self.listing() if self.accept("[") else self.expression()
        self.end()
        return Scalar(name.text, indices, value, self.line.comment, above=self.line.above, span=name.span)

    def listing(self) -> tuple[Number, ...]:
        items = [self.signed_number()]
        while self.accept(","):
            items.append(self.signed_number())
        self.expect("]")
        return tuple(items)

    def layer(self, head: Line, body: list[Line]) -> Layer:
        """layer: ("layer" | "model") NAME [subscript] "(" formals ")" "->" output ["causal" "in" LETTER] ":" body"""
        kind: Literal["layer", "model"] = "model" if self.expect("name").text == "model" else "layer"
        name = self.expect("name", f"the name of a {kind}")
        indices = self.indices()
        self.expect("(")
        formals = [self.formal()]
        while self.accept(","):
            formals.append(self.formal())
        self.expect(")")
        self.expect("->")
        output = self.left()
        time = self.time() if kind == "model" and self.accept_word("causal") else None
        self.expect(":")
        self.end()
        weights, statements = self.body(body, output)
        parts = (name.text, indices, tuple(formals), output, weights, statements, kind, time)
        return Layer(*parts, head.note, head.comment, above=head.above, span=name.span)

    def headless(self, body: list[Line]) -> list[Layer]:
        """The statements of a layer whose head does not parse are read all the same, for what is wrong in them."""
        self.body(body, Name("?"))
        return []

    def time(self) -> Index:
        self.expect_word("in")
        return self.letter()

    def formal(self) -> Tensor:
        name = self.new_name("an input such as `z_bsd`")
        indices = self.indices()
        return Tensor(name.text, indices, span=self.since(name))

    def body(self, lines: list[Line], output: Tensor | Name) -> tuple[tuple[Weight, ...], tuple[Statement, ...]]:
        """The weights and statements of an indented block."""
        weights: list[Weight] = []
        statements: list[Statement] = []
        for head, inner in _blocks(lines):
            match head.tokens[0].text:
                case "weights" | "buffers":
                    weights += (weight for row in self.collect([head], self.weights) for weight in row)
                case "for":
                    statements += self.collect([head], partial(self.loop, inner, weights, output))
                case _:
                    statements += self.collect([head], partial(self.equation, output))
                    for line in inner:
                        self.report(
                            "E105",
                            "this line is indented under an equation",
                            line.span,
                            "the same indentation as the line before",
                        )
        return tuple(weights), tuple(statements)

    def loop(self, lines: list[Line], weights: list[Weight], output: Tensor | Name) -> Loop:
        """loop: "for" LETTER "<" sum ":" body"""
        start = self.expect_word("for")
        index = self.letter()
        self.expect("<")
        count = self.sum()
        self.expect(":")
        self.end()
        span, head = self.since(start), self.line
        if self.loops == MAXIMUM_DEPTH:
            raise fail("E002", f"loops nest more than {MAXIMUM_DEPTH} deep", span, fix="layers for the inner ones")
        self.loops += 1
        inner, statements = self.body(lines, output)
        self.loops -= 1
        weights += inner
        return Loop(index, count, statements, head.comment, above=head.above, span=span)

    def weights(self) -> list[Weight]:
        """weights: ("weights" | "buffers") weight ("," weight)*, and `pre, post: RMSNorm` for instances"""
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
                self.end()
                declared[0] = replace(declared[0], above=self.line.above)
                return [*declared[:-1], replace(declared[-1], comment=self.line.comment)]

    def weight(self, kind: Literal["trained", "buffer"]) -> Weight:
        """weight: NAME [subscript] ["?"] ["=" sum]"""
        name = self.new_name("the name of a weight")
        indices = self.indices()
        optional = self.accept("?")
        default = self.sum() if self.accept("=") else None
        return Weight(name.text, indices, kind, optional, default, span=self.since(name))

    def equation(self, output: Tensor | Name) -> Equation:
        """equation: "return" expression | left ("=" | "<-") expression"""
        start = self.peek()
        relation: Literal["=", "<-", "return"]
        if self.accept_word("return"):
            left, relation = output, "return"
        else:
            left, relation = self.left(), "=" if self.accept("=") else "<-"
            if relation == "<-":
                self.expect("<-", "`=` or `<-`")
        right = self.expression()
        self.end()
        return Equation(left, relation, right, self.line.note, self.line.comment, above=self.line.above, span=self.since(start))

    def left(self) -> Tensor | Name:
        """left: NAME [subscript of letters and groups]"""
        name = self.new_name("the name that the equation defines")
        slots = self.slots() if self.peek().kind == OPEN else ()
        for slot in slots:
            if not (isinstance(slot, Index) or (isinstance(slot, Group) and all(isinstance(m, Index) for m in slot.members))):
                raise fail(
                    "E106",
                    "on the left stand letters and groups of letters only",
                    slot.span,
                    fix="one letter for each axis, `u_{bs(ae)}` to merge",
                )
        return Tensor(name.text, slots, span=self.since(name)) if slots else Name(name.text, span=name.span)

    def new_name(self, what: str) -> Token:
        """NAME, which is none of the language's own: `mean_d = …` could never be read, as `mean_d` takes an argument."""
        name = self.expect("name", what)
        if name.text in NAMES:
            self.callables.discard(name.text)  # what follows means the name that was to be
            raise fail("E202", f"`{name.text}` is a name of the language", name.span, fix="another name")
        return name

    # ------------------------------------------------------------------------------------------------ expressions

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
        return self.measured(left)

    def rank(self) -> int:
        """How tightly the word holds that stands between two conditions here; 0 where none does."""
        return _RANKS.get(self.peek().text, 0) if self.word("or") or self.word("and") else 0

    def comparisons(self, left: Expression) -> Expression:
        """comparison: sum (("<" | "<=" | …) sum)*; a chain is the `and` of its links"""
        links: list[Expression] = []
        while self.peek().kind in COMPARISONS:
            symbol = self.next().kind
            right = self.sum()
            links.append(Apply(symbol, (), (left, right), span=_joined(left.span, right.span)))
            left = right
        return reduce(_both, links) if links else left

    def sum(self) -> Expression:
        """sum: ["-"] term (("+" | "-") term)*"""
        start = self.peek()
        terms = [self.term()]
        while self.peek().kind in "+-":
            if self.peek().kind == "+":
                self.next()
            terms.append(self.term())
        return self.measured(terms[0] if len(terms) == 1 else Sum(tuple(terms), span=self.since(start)))

    def term(self) -> Expression:
        """term: ["-"] factor+ [("/" | "mod") factor]"""
        start = self.peek()
        negative = self.accept("-")
        parenthesised = self.peek().kind == "("
        factors = [self.factor()]
        while self.starts_factor():
            factors.append(self.factor())
        if negative:
            factors = _negated(factors)
        over = self.peek().kind == "/" or self.word("mod")
        alone = len(factors) == 1 and not (over and parenthesised and isinstance(factors[0], Product))
        numerator = factors[0] if alone else Product(tuple(factors), span=self.since(start))
        if not over:
            return numerator
        symbol = self.next().text
        denominator = self.factor()
        if self.starts_factor() or self.peek().kind == "/" or self.word("mod"):
            fix = "parentheses around what is divided, or around all that divides"
            raise fail(
                "E104", f"what follows a {'division' if symbol == '/' else 'mod'} has two readings", self.peek().span, fix=fix
            )
        span = self.since(start)
        return (
            Quotient(numerator, denominator, span=span)
            if symbol == "/"
            else Apply("mod", (), (numerator, denominator), span=span)
        )

    def factor(self) -> Expression:
        """factor: atom ["^" exponent]"""
        start = self.peek()
        base = self.atom()
        if not self.accept("^"):
            return base
        if isinstance(base, Apply) and base.indices and base.name in _OPERATORS and start.kind == "name":
            raise fail(
                "E104",
                f"a power after the parentheses of `{base.name}` has two readings",
                self.before(),
                fix=f"`({base.name}_… (…))^2` or `{base.name}_… ((…)^2)`",
            )
        exponent = self.signed_number() if self.peek().kind == "-" else self.atom()
        if self.peek().kind == "^":
            raise fail("E104", "a power of a power has two readings", self.peek().span, fix="parentheses")
        return Power(base, exponent, span=self.since(start))

    def atom(self) -> Expression:
        """atom: NUMBER | "(" expression ")" | call | NAME [subscript]"""
        token = self.peek()
        self.deepen()
        match token.kind:
            case "number":
                atom: Expression = self.number()
            case "(" | "{":
                self.next()
                atom = self.expression()
                self.expect(")" if token.kind == "(" else "}")
            case "name" if token.text not in _WORDS:
                atom = self.call() if token.text in self.callables else self.named()
            case _:
                self.expected("a number, a name or a bracket")
        self.depth -= 1
        return atom

    def named(self) -> Expression:
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
        if self.accept("("):
            arguments.append(self.expression())
            while self.accept(","):
                arguments.append(self.expression())
            self.expect(")")
            self.check_sum(name, indices)
        else:
            arguments.append(self.rest(name, indices))
        return Apply(name.text, indices, tuple(arguments), span=self.since(name))

    def rest(self, name: Token, indices: tuple[Index, ...]) -> Expression:
        """The argument of an operator without parentheses: the next factor; of `sum` the rest of the product (R11)."""
        if not self.starts_factor() and name.text not in NAMES:
            self.callables.discard(name.text)
            fix = "another letter for the one or the other, or the argument of the layer"
            raise fail("E202", f"`{name.text}` names a layer, and so no size or scalar", name.span, fix=fix)
        if not self.starts_factor():
            self.expected(f"the argument of `{name.text}`")
        if name.text == "sum":
            start, factors = self.peek(), [self.factor()]
            while self.starts_factor():
                factors.append(self.factor())
            return factors[0] if len(factors) == 1 else Product(tuple(factors), span=self.since(start))
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
        token = self.expect("name", "the letter of an axis")
        if len(token.text.rstrip("'")) != 1 or not token.text[0].islower():
            raise fail(
                "E101", f"`{token.text}` is not a lower-case letter", token.span, fix="one lower-case letter for each axis"
            )
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
            raise fail(
                "E101", f"`{name.text}` is not one letter", name.span, fix="one letter for each axis, or a name of one letter"
            )
        if self.peek().kind == OPEN:
            slots = self.slots()
            return Tensor(name.text, slots, span=self.since(name))
        if not name.text[0].islower():
            raise fail(
                "E101", f"`{name.text}` is not an index", name.span, fix=f"a lower-case letter, or `({name.text})` for a number"
            )
        return Index(name.text, span=name.span)

    def group(self, start: Token) -> Expression:
        """group: slot+, row-major"""
        members = [self.slot()]
        while self.peek().kind != ")":
            members.append(self.slot())
        return members[0] if len(members) == 1 else Group(tuple(members), span=self.since(start))

    def is_group(self) -> bool:
        """Do the parentheses just opened hold nothing but letters and further parentheses?"""
        depth, at = 0, self.at
        while depth or self.line.tokens[at].kind != ")":
            token = self.line.tokens[at]
            depth += (token.kind == "(") - (token.kind == ")")
            if not depth and token.kind != ")" and not (token.kind == "name" and token.text[0].islower()):
                return False
            at += 1
        return True

    # --------------------------------------------------------------------------------------------------- numbers

    def number(self) -> Number:
        token = self.expect("number")
        value: int | float = float(token.text) if any(mark in token.text for mark in ".eE") else int(token.text)
        return Number(value, span=token.span)

    def signed_number(self) -> Number:
        start, negative = self.peek(), self.accept("-")
        number = Number(float("inf")) if self.accept_word("inf") else self.number()
        return Number(-number.value if negative else number.value, span=self.since(start))

    # ---------------------------------------------------------------------------------------------------- cursor

    def take(self, line: Line) -> None:
        """Start at the first token of a line."""
        self.line, self.at, self.depth = line, 0, 0

    def peek(self) -> Token:
        if self.at < len(self.line.tokens):
            return self.line.tokens[self.at]
        end = self.line.tokens[-1].span.end if self.line.tokens else self.line.span.start
        return Token("end", "the end of the line", Span(self.source, end, end + 1))

    def next(self) -> Token:
        token = self.peek()
        self.at += 1
        return token

    def accept(self, kind: str) -> bool:
        accepted = self.peek().kind == kind
        self.at += accepted
        return accepted

    def word(self, word: str) -> bool:
        return self.peek().kind == "name" and self.peek().text == word

    def accept_word(self, word: str) -> bool:
        accepted = self.word(word)
        self.at += accepted
        return accepted

    def expect(self, kind: str, what: str = "") -> Token:
        if self.peek().kind != kind:
            self.expected(what or f"`{kind}`")
        return self.next()

    def expect_word(self, word: str) -> Token:
        if not self.word(word):
            self.expected(f"`{word}`")
        return self.next()

    def expected(self, what: str) -> NoReturn:
        token = self.peek()
        found = token.text if token.kind == "end" else f"`{token.text}`"
        raise fail("E101", f"{found} where {what} is expected", token.span, fix=what)

    def end(self) -> None:
        if self.peek().kind != "end":
            self.expected("the end of the line")

    def starts_factor(self) -> bool:
        token = self.peek()
        if token.kind == "name":
            return token.text not in _WORDS
        return token.kind in ("number", "(", "{")

    def deepen(self) -> None:
        """One level down; R13 bounds the levels, those of loops too, so that no text exhausts the stack."""
        self.depth += 1
        if self.depth - 1 > min(MAXIMUM_DEPTH, MAXIMUM_HEIGHT - self.loops):
            raise fail("E002", f"the formula nests more than {MAXIMUM_DEPTH} deep", self.peek().span, fix="names for its parts")

    def measured(self, e: Expression) -> Expression:
        """R13 bounds the height of a whole formula too: `a or b or …` nests without a bracket."""
        if not self.depth and height(e) > MAXIMUM_DEPTH:
            raise fail("E002", f"the formula nests more than {MAXIMUM_DEPTH} deep", e.span, fix="names for its parts")
        return e

    def before(self) -> Span:
        return self.line.tokens[self.at - 1].span

    def since(self, start: Token) -> Span:
        return _joined(start.span, self.before())

    def report(self, code: str, message: str, span: Span, fix: str) -> None:
        self.findings.append(Finding(code, message, span, fix=fix))


def _read_lines(source: Source) -> tuple[list[Line], list[Finding]]:
    read = latex.read_lines if latex.is_latex(source.text) else tokens.read_lines
    return read(source)


def _may_be_instance(weight: Weight) -> bool:
    """An instance is a name alone: it has no indices, no `?` and no default."""
    return not (weight.indices or weight.optional or weight.default)


def _remarks(lines: list[Line]) -> tuple[list[str], list[Line], tuple[str, ...]]:
    """The title and the lines of comment after it, the other lines, each with those above it, and those at the end."""
    first = next((at for at, line in enumerate(lines) if line.tokens), len(lines))
    rest: list[Line] = []
    above: list[str] = []
    for line in lines[first:]:
        if line.tokens:
            rest.append(replace(line, above=tuple(above)))
            above = []
        else:
            above.append(line.comment)
    return [line.comment for line in lines[:first]] or [""], rest, tuple(above)


def _headed(head: Line, body: list[Line]) -> list[Line]:
    """The lines under a heading; what is said of it, or in the lines above it, is said above the first of them."""
    said = (*head.above, *[head.comment] * bool(head.comment))
    return [replace(body[0], above=said + body[0].above), *body[1:]] if body else []


def _blocks(lines: list[Line]) -> Iterator[tuple[Line, list[Line]]]:
    """Each line with those indented deeper that follow it."""
    at = 0
    while at < len(lines):
        end = at + 1
        while end < len(lines) and lines[end].indent > lines[at].indent:
            end += 1
        yield lines[at], lines[at + 1 : end]
        at = end


def _declared_callables(lines: list[Line]) -> Iterator[str]:
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


def _negated(factors: list[Expression]) -> list[Expression]:
    """The factors of a term after a minus: the sign belongs to a leading number, else it is the factor -1."""
    first = factors[0]
    if isinstance(first, Number):
        return [Number(-first.value, span=first.span), *factors[1:]]
    return [Number(-1, span=first.span), *factors]


def _both(left: Expression, right: Expression) -> Expression:
    """Two links of a chain."""
    return Apply("and", (), (left, right), span=_joined(left.span, right.span))


def _joined(first: Span, last: Span) -> Span:
    return Span(first.source, first.start, last.end)


def _resolve_scalar(scalar: Scalar, letters: set[str]) -> Scalar:
    return scalar if isinstance(scalar.value, tuple) else replace(scalar, value=resolve(scalar.value, letters))
