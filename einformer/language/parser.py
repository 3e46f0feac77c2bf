"""Parses a text: a recursive descent with one short method for each rule of `grammar.lark`.

A statement that does not parse is reported and skipped; the next line is read afresh. A text may name axes, scalars and layers
of the library instead of writing them out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Literal, TypeVar

from einformer.errors import EinformerError, Finding, Source, Span, fail
from einformer.language import tokens
from einformer.language.formulas import Formulas, join_spans
from einformer.language.meant import suggest
from einformer.language.names import find_closest
from einformer.language.primitives import NAMES
from einformer.language.tokens import MAXIMUM_DEPTH, OPEN, Line, Token
from einformer.language.tree import (
    Axis,
    Equation,
    Expression,
    Group,
    Index,
    Layer,
    Loop,
    Name,
    Number,
    Remarked,
    Scalar,
    Spec,
    Statement,
    Tensor,
    Weight,
)
from einformer.language.walk import map_expressions, open_groups, rebuild

MAXIMUM_FINDINGS = 100
_HEADS = ("axes", "scalars", "layer", "model")
EMPTY = Spec("", (), (), ())
_Item = TypeVar("_Item")
_Entry = TypeVar("_Entry", bound=Remarked)


def parse(source: Source, library: Spec = EMPTY) -> tuple[Spec, tuple[Finding, ...]]:
    """The tree of a text, plain or LaTeX, and the findings of its syntax.

    The text may call the layers of the library, and name its axes, scalars and layers as its own.
    Raises EinformerError for a text that is too large.
    """
    lines, findings = _read_lines(source)
    parser = _Parser(source, lines, findings, library)
    spec = parser.spec()
    findings = sorted(parser.findings, key=lambda finding: finding.span.start)[:MAXIMUM_FINDINGS]
    return spec, tuple(map(suggest, findings))


def parse_expression(text: str, spec: Spec, name: str = "<expression>") -> Expression:
    """One expression in the legend of `spec`, as `bind` takes it for a scalar. Raises EinformerError."""
    source = Source(name, text)
    lines, findings = _read_lines(source)
    if findings or len(lines) != 1:
        raise EinformerError(findings or [Finding("E101", "one expression is expected", Span(source, 0, len(text)))])
    parser = _Parser(source, lines, [], spec)
    parser.take(lines[0])
    expression = parser.expression()
    parser.refuse_note()
    return resolve(expression, {axis.letter for axis in spec.axes})


def parse_scalars(source: Source, spec: Spec) -> tuple[Spec, tuple[Finding, ...]]:
    """`spec` with the scalars that the lines of `source` replace or add, and the findings of their syntax."""
    lines, findings = _read_lines(source)
    parser = _Parser(source, lines, findings)
    scalars_of_lines = parser.collect([line for line in lines if line.tokens], parser.scalar)
    letters = {axis.letter for axis in spec.axes}
    scalars = {scalar.name: scalar for scalar in spec.scalars} | {s.name: _resolve_scalar(s, letters) for s in scalars_of_lines}
    return replace(spec, scalars=tuple(scalars.values())), tuple(parser.findings)


def resolve(e: Expression, letters: set[str]) -> Expression:
    """e in which a bare name that is the letter of an axis, or primed, is an index (R11)."""
    if isinstance(e, Name) and (e.name.endswith("'") or e.name in letters):
        return Index(e.name, span=e.span)
    return rebuild(e, lambda child: resolve(child, letters))


def resolve_layer(layer: Layer, letters: set[str]) -> Layer:
    """`resolve` in every equation of a layer."""
    return map_expressions(layer, lambda e: resolve(e, letters))


class _Parser(Formulas):
    def __init__(self, source: Source, lines: list[Line], findings: list[Finding], known: Spec = EMPTY) -> None:
        first = lines[0] if lines else Line(0, (), "", "", Span(source, 0, 1))
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
    def collect(self, lines: list[Line], rule: Callable[[], _Item]) -> list[_Item]:
        items = []
        for line in lines:
            self.take(line)
            try:
                items.append(rule())
            except EinformerError as error:
                self.findings += error.findings
        return items

    # The entries of the library that the head names, then one in each line.
    def legend(self, head: Line, body: list[Line], rule: Callable[[], _Entry], named: Callable[[], _Entry]) -> list[_Entry]:
        entries = [entry for row in self.collect([head], partial(self.heading, named)) for entry in row]
        return [*entries, *self.collect(body if entries else attach_head(head, body), rule)]

    # What is said of the head is said above the first entry.
    def heading(self, named: Callable[[], _Entry]) -> list[_Entry]:
        self.next()
        entries = self.listed(named) if self.peek().kind != "end" else []
        self.refuse_note()
        return [replace(entry, above=_remarks_of(self.line)) for entry in entries[:1]] + entries[1:]

    def axis(self) -> Axis:
        letter = self.letter()
        self.refuse_listing("axes", letter.letter, "size", f"{letter.letter}: {letter.letter[0].upper()}")
        axis = Axis(letter.letter, *self.size(), self.line.comment, above=self.line.above, span=letter.span)
        self.refuse_note()
        return axis

    def axis_of_the_library(self) -> Axis:
        axis = _take_axis(self.library, self.letter())
        if self.peek().kind != ":":
            return axis
        size, default, bound = self.size()
        return replace(axis, size=size, default=default, bound=bound)

    def size(self) -> tuple[Expression, Expression | None, Expression | None]:
        self.expect(":")
        return self.sum(), self.sum() if self.accept("=") else None, self.sum() if self.accept("<=") else None

    def scalar(self) -> Scalar:
        name = self.declared("the name of a scalar")
        self.refuse_listing("scalars", name.name, "value", f"{name.name} = …")
        value = self.value()
        self.end()
        beside = self.line.note, self.line.comment
        return Scalar(name.name, name.indices, value, *beside, above=self.line.above, span=name.span)

    def scalar_of_the_library(self) -> Scalar:
        scalar = _take_scalar(self.library, self.declared("the name of a scalar"))
        return replace(scalar, value=self.value()) if self.peek().kind == "=" else scalar

    # What the library has is named beside the heading, not below it.
    def refuse_listing(self, heading: str, name: str, what: str, written: str) -> None:
        if self.peek().kind in (",", "end"):
            listing = f"`{heading} {self.line.span.text}` on the line of the heading, for those of the library"
            message = f"`{name}` stands on a line of its own without a {what}"
            raise fail("E101", message, self.peek().span, fix=f"{listing}; or a {what}, `{written}`")

    def value(self) -> Expression | tuple[Number, ...]:
        self.expect("=")
        return self.listing() if self.accept("[") else self.expression()

    def listed(self, rule: Callable[[], _Item]) -> list[_Item]:
        items = [rule()]
        while self.accept(","):
            items.append(rule())
        return items

    def listing(self) -> tuple[Number, ...]:
        items = self.listed(self.signed_number)
        self.expect("]")
        return tuple(items)

    # A name with the letters of its subscript.
    def declared(self, what: str) -> Weight:
        name = self.new_name(what)
        return Weight(name.text, self.indices(), span=name.span)

    def layer_of_the_library(self, name: Token, head: Line, body: list[Line]) -> Layer:
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

    def layer(self, head: Line, body: list[Line]) -> Layer:
        kind: Literal["layer", "model"] = "model" if self.expect("name").text == "model" else "layer"
        name = self.expect("name", f"the name of a {kind}")
        if kind == "layer" and self.accept("="):
            return self.layer_of_the_library(name, head, body)
        indices = self.indices()
        self.expect("(")
        formals = self.listed(self.formal)
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
    def headless(self, body: list[Line]) -> list[Layer]:
        self.body(body, Name("?"))
        return []

    def time(self) -> Index:
        self.expect_word("in")
        return self.letter()

    def formal(self) -> Tensor:
        name = self.declared("an input such as `z_bsd`")
        return Tensor(name.name, name.indices, span=join_spans(name.span, self.before()))

    def body(self, lines: list[Line], output: Tensor | Name) -> tuple[tuple[Weight, ...], tuple[Statement, ...]]:
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

    def loop(self, lines: list[Line], weights: list[Weight], output: Tensor | Name) -> Loop:
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
        name = self.declared("the name of a weight")
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


def _read_lines(source: Source) -> tuple[list[Line], list[Finding]]:
    if tokens.is_latex(source.text):
        from einformer.language import latex_reader  # nobody waits for it who reads plain text

        lines, findings = latex_reader.read_lines(source)
    else:
        lines, findings = tokens.read_lines(source)
    alone = [line for line in lines if line.note and not line.tokens]
    return [line for line in lines if line.tokens or not line.note], [*findings, *map(_stray_note, alone)]


def _stray_note(line: Line) -> Finding:
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


def attach_remarks(lines: list[Line]) -> tuple[list[str], list[Line], tuple[str, ...]]:
    """Returns the title and the comment after it, the other lines, each with the comments above it, and the comments at
    the end.
    """
    first = next((number for number, line in enumerate(lines) if line.tokens), len(lines))
    rest: list[Line] = []
    above: list[str] = []
    for line in lines[first:]:
        if line.tokens:
            rest.append(replace(line, above=tuple(above)) if above else line)
            above = []
        else:
            above.append(line.comment)
    return [line.comment for line in lines[:first]] or [""], rest, tuple(above)


def attach_head(head: Line, body: list[Line]) -> list[Line]:
    """Returns the lines below a heading. Remarks beside or above it belong to the first of them."""
    return [replace(body[0], above=_remarks_of(head) + body[0].above), *body[1:]] if body else []


def _remarks_of(line: Line) -> tuple[str, ...]:
    return (*line.above, *[line.comment] * bool(line.comment))


def split_blocks(lines: list[Line]) -> Iterator[tuple[Line, list[Line]]]:
    """Each line with those indented deeper that follow it."""
    number = 0
    while number < len(lines):
        end = number + 1
        while end < len(lines) and lines[end].indent > lines[number].indent:
            end += 1
        yield lines[number], lines[number + 1 : end]
        number = end


def find_callables(lines: list[Line]) -> Iterator[str]:
    """Names of layers and of their instances, found before anything is parsed."""
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
