"""Emits a program as PyTorch: a variable for each line, an expression for each value. This is the plan `notation`.

One `torch.einsum` or primitive for each operation, in the order of the text; nothing is fused.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, assert_never

from einformer.interpreters.torch.fragments import (
    ATOM,
    INDENT,
    LOOSE,
    POWER,
    PRODUCT,
    SUM,
    Context,
    Dims,
    Fragment,
    Guard,
    align,
    combine_kinds,
    list_conditions,
    multiply,
    multiply_sizes,
    number_axis,
    order_dims,
    zero_early,
)
from einformer.interpreters.torch.parallel import code_exchange, describe_exchange
from einformer.language.primitives import CONSTANTS, Primitive, row_of
from einformer.language.tree import Expression, Index
from einformer.language.walk import find_all
from einformer.language.weights import key
from einformer.program import operations as op
from einformer.program.collectives import Collective
from einformer.program.lowering import Lowering
from einformer.program.operations import Carried, Function, Kind, Label, Line, Turns, Value, join_labels
from einformer.program.rewrite import Conditions, find_conditions, walk
from einformer.program.terms import Values

if TYPE_CHECKING:
    from einformer.interpreters.torch.classes import Class


def code_function(context: Context, row: Primitive, argument: Fragment) -> Fragment:
    kind: Kind = "condition" if row.condition else "number" if argument.plain else argument.kind
    if argument.plain:
        return Fragment(fill_template(row.python, argument), (), kind, ATOM if row.python.endswith("({})") else LOOSE)
    if argument.kind == "integer":
        argument = context.cast(argument, "number")
        kind = argument.kind
    return Fragment(fill_template(row.torch, argument), argument.dims, kind)


# The argument is in parentheses where the template has none around it.
def fill_template(template: str, argument: Fragment) -> str:
    return template.format(argument.text if "({})" in template or "({}," in template else argument.at(ATOM))


def code_infix(context: Context, row: Primitive, arguments: list[Fragment], wanted: Dims | None) -> Fragment:
    name = row.name
    if name == "mod":
        arguments = [context.cast(argument, combine_kinds(arguments)) for argument in arguments]
    dims, plain = order_dims([a.dims for a in arguments], wanted), all(a.plain for a in arguments)
    level = POWER if name in ("mod", "and", "or") else SUM
    text = (row.python if plain else row.torch).format(*(align(argument, dims, level) for argument in arguments))
    if name == "mod":
        return Fragment(text, dims, combine_kinds(arguments), SUM)  # a minus before it would negate what `%` divides
    return Fragment(text, dims, "tensor" if any(a.kind == "tensor" for a in arguments) else "condition", LOOSE)


# A plain number beside a tensor clamps it.
def code_extreme(context: Context, row: Primitive, arguments: list[Fragment], wanted: Dims | None) -> Fragment:
    dims, kind = order_dims([a.dims for a in arguments], wanted), combine_kinds(arguments)
    plain = [a for a in arguments if a.plain]
    if len(plain) == 2:
        return Fragment(row.python.format(*(a.text for a in arguments)), (), kind)
    if plain:
        other, end = context.cast(next(a for a in arguments if not a.plain), kind), "min" if row.name == "max" else "max"
        return other.become(f"{other.at(ATOM)}.clamp({end}={plain[0].text})")
    left, right = (align(context.cast(a, kind), dims) for a in arguments)
    return Fragment(row.torch.format(left, right), dims, kind)


# Whole numbers and infinity are exact in any dtype: until something is computed with them, they are of PyTorch's default.
def choose(context: Context, condition: Fragment, then: Fragment, otherwise: Fragment, dims: Dims) -> Fragment:
    chosen = align(condition, dims)
    if all(code.kind == "integer" or code.text in ("math.inf", "-math.inf") for code in (then, otherwise)):
        return Fragment(f"torch.where({chosen}, {then.text}, {otherwise.text})", dims, "integer")
    context.needs["number"] = None
    text = f"torch.full_like({chosen}, {otherwise.text}, dtype=number).masked_fill({chosen}, {then.text})"
    return Fragment(text, dims, combine_kinds([then, otherwise]))


# With `together` the form for several letters is used for one, too.
def code_operator(
    context: Context, name: str, letters: Sequence[str], argument: Fragment, counts: list[Fragment], together: bool = False
) -> Fragment:
    row = row_of(name, True)
    axes = [argument.dims.index(letter) for letter in letters]
    if argument.kind != "tensor":  # a tensor without axes is none of Python's numbers
        argument = context.cast(argument, "number" if set(argument.dims) - set(letters) else "tensor")
    dims = argument.dims if row.kind == "keeping" else tuple(d for d in argument.dims if d not in letters)
    kind: Kind = "tensor" if row.condition else argument.kind
    template = row.together if together or (row.kind == "keeping" and len(axes) > 1 and row.together) else row.torch
    called, text = template.partition("(")[0], argument.text
    context.helpers |= {} if "." in called else {called: None}
    for places in (axes,) if row.kind == "reducing" or row.together else ([axis] for axis in axes):
        place = str(number_axis(places[0], len(argument.dims))) if len(places) == 1 else f"({', '.join(map(str, places))})"
        text = template.format(text, *(count.text for count in counts), place)
    return Fragment(text, dims, kind)


@dataclass(frozen=True, slots=True)
class Variable:
    """A value in a variable: its name, the letters on each of its axes, and its kind where it was made of another."""

    name: str
    labels: tuple[Label, ...]
    kind: Kind | None = None


@dataclass(slots=True)
class Emitter:
    """The forward of one function. `context` notes the lines that its codes need at the head."""

    function: Function
    functions: Mapping[str, Function]
    context: Context
    shell: Class
    stored: dict[Value, list[Variable]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)  # the variable of each name
    turns: dict[str, str] = field(default_factory=dict)  # the letter of a loop or a recurrence: its number in this turn
    steps: dict[Value, tuple[str, int, int]] = field(default_factory=dict)  # of recurrences: steps, their axis, how far back
    conditions: dict[Value, Conditions] | None = None  # that hold wherever a value is read, once that is asked

    def body(self) -> Iterator[str]:
        for line in self.function.inputs:
            self.store(line)
        for line in self.function.weights:
            if line.value.operation == op.StoredWeight(line.name):
                self.stored[line.value] = [Variable(f"self.{key(line.name)}", line.labels)]
            elif line.value not in self.stored:
                yield f"{self.name(line)} = {self.text(line)}"
                self.store(line)
        for line in self.function.scalars:
            self.stored[line.value] = [Variable(self.name(line), line.labels)]
        yield from self.lines(self.function.lines, "")
        last = self.function.lines[-1]
        if not (isinstance(last, Line) and last.equation is not None and last.equation.relation == "return"):
            yield f"return {self.text(self.function.output)}"

    def lines(self, lines: tuple[Line | Turns, ...], indent: str) -> Iterator[str]:
        waiting = list[Line]()
        for line in lines:
            if isinstance(line, Line) and self.waits(line):
                waiting.append(line)
            else:
                if isinstance(line, Turns) or self.ends_waiting(line, waiting):
                    yield from (text for late in waiting for text in self.write_line(late, indent))
                    waiting.clear()
                yield from self.loop(line, indent) if isinstance(line, Turns) else self.write_line(line, indent)
        yield from (text for late in waiting for text in self.write_line(late, indent))

    def write_line(self, line: Line, indent: str) -> Iterator[str]:
        yield from [] if line.equation is None else [self.shell.write_comment(line, indent)]
        yield from (f"{indent}# {text}" for text in describe_exchange(line.value, self.context))
        yield from (indent + text for text in self.line(line))

    # What branches alone read stands where their condition is known, if that is before a line that reads it (R8).
    def waits(self, line: Line) -> bool:
        defines = line.equation is not None and line.equation.relation == "=" and not isinstance(line.value.operation, op.Recur)
        return defines and not all(self.is_known(condition) for condition, _ in self.list_conditions(line.value))

    # A line that reads one of these, or changes a tensor that they may read, stands behind them.
    def ends_waiting(self, line: Line, waiting: Sequence[Line]) -> bool:
        changes = line.equation is None or line.equation.relation == "<-"
        return changes or not {late.value for late in waiting}.isdisjoint(walk(line.value, closed=self.stored))

    # The axes lie as written; a number without axes stays one of Python.
    def line(self, line: Line) -> Iterator[str]:
        if isinstance(line.value.operation, op.Recur) and line.value not in self.stored:
            yield from self.emit_recurrence(line, line.value.operation)
        else:
            returns = line.equation is not None and line.equation.relation == "return"
            yield f"{'return' if returns else f'{self.name(line)} ='} {self.text(line)}"
        self.store(line)

    def loop(self, turns: Turns, indent: str) -> Iterator[str]:
        places = {
            carried.name: self.find_place_named(carried.name, carried.before)
            for carried in turns.carried
            if carried.before is not None
        }
        for carried in turns.carried:
            if carried.before is not None:
                yield from (indent + line for line in self.enter(carried, carried.before, places[carried.name]))
        self.turns[turns.letter] = turns.letter
        lines = [*self.lines(turns.lines, indent + INDENT)]
        for carried in turns.carried:
            lines += (indent + INDENT + line for line in self.leave(carried, places.get(carried.name)))
        del self.turns[turns.letter]
        if all(line.lstrip().startswith("#") for line in lines):  # nothing reads what the turns compute
            yield from (line.removeprefix(INDENT) for line in lines)
        else:
            yield from [f"{indent}for {self.shell.write_turning(turns)}:", *lines]

    def find_place_named(self, name: str, value: Value) -> Variable:
        return next(place for place in self.stored[value] if place.name == self.names[name])

    def enter(self, carried: Carried, before: Value, place: Variable) -> Iterator[str]:
        yield from self.reassign(place.name, replace(self.code(before), text=place.name), carried.within.kind)
        self.stored[carried.within] = [place]

    # The next turn starts from the variable of the last one; after the loop the result is there too.
    def leave(self, carried: Carried, place: Variable | None) -> Iterator[str]:
        if place is not None:
            letters = join_labels(place.labels)
            code = Fragment(self.write_grouped(self.code(carried.last, letters), place.labels), letters, carried.last.kind)
            yield from self.reassign(place.name, code, carried.within.kind)
        self.stored[carried.after] = [place or self.find_place_named(carried.name, carried.last)]

    def reassign(self, name: str, code: Fragment, kind: Kind) -> Iterator[str]:
        settled = self.context.fill(code, (), kind) if code.plain else self.context.cast(code, kind)
        if settled.text != name:
            yield f"{name} = {settled.text}"

    # ------------------------------------------------------------------------------------------------- variables

    # `q_bsea`; a tensor that `<-` changes keeps its variable.
    def name(self, line: Line) -> str:
        if line.name not in self.names or line.equation is None or line.equation.relation != "<-":
            self.names[line.name] = self.choose_name(line)
        return self.names[line.name]

    # The axes of an output have the letters of the head, `y_se`, if a line says of what they are made, `y_{s(ih)}`.
    def choose_name(self, line: Line) -> str:
        output = self.function.output
        pairs = [*zip(line.labels, output.labels, strict=False)] if line.name == output.name else []
        same = len(pairs) == len(line.labels) == len(output.labels) and all(x == y or len(x) > 1 for x, y in pairs)
        return self.context.name_variable(line.name, join_labels(output.labels if same else line.labels))

    def store(self, line: Line, kind: Kind | None = None) -> None:
        self.lay(line.value, Variable(self.name(line), line.labels, kind))

    def lay(self, value: Value, place: Variable) -> None:
        for others in self.stored.values():
            others[:] = [other for other in others if other.name != place.name]
        self.stored.setdefault(value, []).append(place)

    def find_place(self, value: Value) -> Variable | None:
        places = reversed(self.stored.get(value, []))
        return min(places, key=lambda each: sum(len(label) > 1 for label in each.labels), default=None)

    def text(self, line: Line) -> str:
        code = self.code_line(line)
        return code.text if code.plain and not line.labels else self.write_grouped(code, line.labels)

    # What only branches read is guarded as if it were written in them (R8).
    def code_line(self, line: Line) -> Fragment:
        held = [pair for pair in self.list_conditions(line.value) if self.is_known(pair[0])]
        with self.context.guarded(*(Guard(self.code(condition), holds) for condition, holds in held)):
            return self.code(line.value, join_labels(line.labels))

    def list_conditions(self, value: Value) -> Conditions:
        if not self.has_steep(value):
            return ()
        if self.conditions is None:
            self.conditions = find_conditions(self.function, Values(self.context.legend))
        return self.conditions.get(value, ())

    def has_steep(self, value: Value) -> bool:
        return any(is_steep(inside) for inside in walk(value, closed=self.stored) if inside not in self.stored)

    # The condition can be computed here, without a product, a layer or a recurrence.
    def is_known(self, condition: Value) -> bool:
        match condition.operation:
            case _ if condition in self.stored:
                return True
            case op.Reduce(name) if row_of(name, True).looks_back:
                return False
            case op.Map() | op.Spread() | op.Constant() | op.Iota() | op.Reduce():
                return all(map(self.is_known, condition.operands))
            case _:
                return False

    def write_grouped(self, code: Fragment, labels: Sequence[Label]) -> str:
        return self.merge_groups(code, labels).text

    # Groups are merged row-major, into one axis for each label.
    def merge_groups(self, code: Fragment, labels: Sequence[Label]) -> Fragment:
        code = self.shape(code, join_labels(labels))
        for axis, label in enumerate(labels):
            if len(label) > 1:
                ends = f"{axis}, {axis + len(label) - 1}" if axis < len(labels) - 1 else f"-{len(label)}"
                code = Fragment(f"{code.at(ATOM)}.flatten({ends})")
        return code

    def shape(self, code: Fragment, letters: Dims) -> Fragment:
        return replace(self.context.fill(code, letters, code.kind if letters else "tensor"), kind=code.kind)

    # ---------------------------------------------------------------------------------------------------- values

    # The axes have the order of `wanted` where that costs nothing.
    def code(self, value: Value, wanted: Dims | None = None) -> Fragment:
        if place := self.find_place(value):
            self.read(value)
            return self.view(place.name, place.labels, place.labels, place.kind or value.kind)
        match value.operation:
            case op.Constant(number):
                return self.code_constant(number)
            case op.Iota(letter):
                self.context.needs[f"index {letter}"] = None
                return Fragment(self.context.spell(letter), (letter,), "integer")
            case op.Turn(letter):
                return Fragment(self.turns[letter], (), "integer")
            case op.Map(name, arguments):
                return self.map(name, arguments, wanted)
            case op.Reduce(name, letters, argument, counts, weighs):
                codes = [self.code(count) for count in counts]
                with self.context.inside(letters):
                    code = self.code(argument, wanted)
                return code_operator(self.context, name, letters, code, codes, not weighs)
            case op.Einsum(letters, factors):
                return self.code_contraction(frozenset(letters), factors, wanted)
            case op.View(argument, old, new) if self.renames(old, new):
                renamed, code = {one[0]: other[0] for one, other in zip(old, new, strict=True)}, self.code(argument)
                return replace(code, dims=tuple(renamed[dim] for dim in code.dims))
            case op.View(argument, old, new):
                return self.view(self.write_whole(argument, old), old, new, value.kind)
            case op.Spread(argument):
                code = self.code(argument, wanted)
                return self.context.fill(code, value.axes, value.kind)
            case op.Gather():
                return self.gather(value.operation, value.kind, wanted)
            case op.Call():
                return Fragment(self.call(value.operation), value.axes)
            case op.Rewritten():
                with self.context.inside({letter for operand in value.operands for letter in operand.axes}):
                    return self.code_rewritten(value, wanted)
            case op.Input() | op.StoredWeight() | op.Table() | op.Recur() as operation:
                raise AssertionError(f"{operation} lies in no variable")
            case _:
                assert_never(value.operation)

    def code_rewritten(self, value: Value, wanted: Dims | None) -> Fragment:
        code = code_exchange(self, value, wanted)
        assert code is not None, f"{value.operation} is none of this plan"
        return code

    # Each argument is computed whole, and lies as the callee wants it.
    def call(self, e: op.Call) -> str:
        texts = []
        with self.context.guarded():
            for argument, line in zip(e.arguments, self.functions[e.function].inputs, strict=True):
                letters = join_labels(line.labels)
                texts.append(self.shape(self.settle(self.code(argument, letters), line.value.kind), letters).text)
        return f"{self.shell.name_callee(e)}({', '.join([*texts, *self.shell.list_extras(e)])})"

    def settle(self, code: Fragment, kind: Kind) -> Fragment:
        return make_index(code) if kind == "integer" else self.context.cast(code, kind)

    def code_constant(self, number: int | float | str) -> Fragment:
        if not isinstance(number, str):
            text = ("math.inf" if number > 0 else "-math.inf") if math.isinf(number) else repr(number)
            return Fragment(text, (), "number" if isinstance(number, float) else "integer", ATOM if number >= 0 else PRODUCT)
        named, letter = self.context.legend.axis_of_size(number), number.strip("|")
        if named is not None or number.startswith("|"):
            size = self.context.size(letter if named is None else named.letter)
            return Fragment(size, (), "integer", SUM if " + " in size else PRODUCT if " " in size else ATOM)
        if number in CONSTANTS:
            return Fragment("math.pi", (), "number")
        return Fragment(self.context.read_scalar(self.context.reserve_name("scalar", number, key(number))), (), "number")

    def read(self, value: Value) -> None:
        self.context.needs |= {f"scalar {line.name}": None for line in self.function.scalars if line.value is value}

    def define_scalar(self, name: str) -> str:
        line = next(line for line in self.function.scalars if line.name == name)
        letters, places = join_labels(line.labels), self.stored.pop(line.value)
        match line.value.operation:
            case op.Table():
                self.context.needs |= {"device": None, "number": None}
                listed = self.context.legend.scalars[name].value
                assert isinstance(listed, tuple)
                numbers = ", ".join(self.code_constant(number.value).text for number in listed)
                text = f"torch.tensor([{numbers}], dtype=number, device=device)"
            case _:
                value = self.context.cast(
                    self.code(line.value, letters), "number"
                )  # also where it is made of whole numbers only
                text = self.context.fill(value, letters, "number").text
        self.stored[line.value] = places
        return f"{self.context.name_variable(name, letters)} = {text}"

    # ------------------------------------------------------------------------------------------------- arithmetic

    # `a + b - c`, lined up by index; a subtrahend is held together.
    def sum(self, terms: Sequence[Value], wanted: Dims | None) -> Fragment:
        minus = [_is_negative(term) for term in terms]
        codes = [self.code(_strip_minus(t) if k and minus[k] else t, wanted) for k, t in enumerate(terms)]
        return self.context.add(codes, wanted, ["-" if negative else "+" for negative in minus])

    def product(self, factors: Sequence[Value], wanted: Dims | None) -> Fragment:
        if factors[0].operation == op.Constant(-1):
            rest = self.product(factors[1:], wanted) if len(factors) > 2 else self.code(factors[1], wanted)
            return replace(rest, text=f"-{rest.at(PRODUCT)}", level=PRODUCT)
        codes = [self.code(factor, wanted) for factor in factors]
        return multiply([self.context.cast(code, combine_kinds(codes)) for code in codes], wanted)

    # `base ** exponent`.
    def power(self, base: Value, exponent: Value, wanted: Dims | None) -> Fragment:
        left, right = self.code(base, wanted), self.code(exponent, wanted)
        left = left if is_natural(exponent) else self.context.shield(left)
        kind: Kind = "tensor" if "tensor" in (left.kind, right.kind) else "number"
        dims = order_dims([left.dims, right.dims], wanted)
        text = f"{align(self.context.cast(left, kind), dims, ATOM)} ** {align(self.context.cast(right, kind), dims, ATOM)}"
        return Fragment(text, dims, kind, POWER)

    def map(self, name: str, arguments: Sequence[Value], wanted: Dims | None) -> Fragment:
        match name, arguments:
            case "+", terms:
                return self.sum(terms, wanted)
            case "*", factors:
                return self.product(factors, wanted)
            case "/", (top, bottom):
                return self.context.divide(self.code(top, wanted), self.code(bottom, wanted), wanted)
            case "^", (base, exponent):
                return self.power(base, exponent, wanted)
            case "where", arms:
                return self.where(arms, wanted)
            case _:
                return self.call_function(row_of(name, False), [self.code(argument, wanted) for argument in arguments], wanted)

    def call_function(self, row: Primitive, arguments: list[Fragment], wanted: Dims | None) -> Fragment:
        if row.infix:
            return code_infix(self.context, row, arguments, wanted)
        if row.name in ("min", "max"):
            return code_extreme(self.context, row, arguments, wanted)
        if row.name == "Dr":
            dropped = self.context.fill(self.context.cast(arguments[0], "tensor"), arguments[0].dims, "tensor")
            return self.context.draw_apart(dropped.become(row.torch.format(dropped.text, arguments[1].text)))
        return code_function(self.context, row, self.context.shield(arguments[0]) if row.steep else arguments[0])

    # A condition of Python is an `if` of Python, which takes one branch (R8).
    def where(self, arms: Sequence[Value], wanted: Dims | None) -> Fragment:
        condition = self.code(arms[0], wanted)
        then, otherwise = (self.code_branch(arm, condition, arm is arms[1], wanted) for arm in arms[1:])
        dims, kind = order_dims([condition.dims, then.dims, otherwise.dims], wanted), combine_kinds([then, otherwise])
        if condition.plain:
            then, otherwise = (self.context.fill(arm, dims, kind) for arm in (then, otherwise))
            return Fragment(f"{then.at(SUM)} if {condition.text} else {otherwise.at(SUM)}", dims, kind, LOOSE)
        if then.plain and otherwise.plain:
            return choose(self.context, condition, then, otherwise, dims)
        one, other = (align(self.context.cast(arm, kind), dims) for arm in (then, otherwise))
        return Fragment(f"torch.where({align(condition, dims)}, {one}, {other})", dims, kind)

    def code_branch(self, arm: Value, condition: Fragment, holds: bool, wanted: Dims | None) -> Fragment:
        with self.context.guarded(*self.context.guards, Guard(condition, holds)):
            return self.code(arm, wanted)

    # ------------------------------------------------------------------------------------------------ contractions

    # Numbers of Python, and a denominator without the letters, stay outside the einsum.
    def code_contraction(self, letters: frozenset[str], factors: Sequence[Value], wanted: Dims | None) -> Fragment:
        bottom, (last, *_) = None, reversed(factors)
        match last.operation:
            case op.Map("/", (one, below)) if one.operation == op.Constant(1) and not letters & set(below.axes):
                bottom, factors = self.code(below), factors[:-1]
        with self.context.inside(letters):
            codes = [self.code(factor) for factor in factors]
        tensors, plain = [code for code in codes if code.dims], [code for code in codes if not code.dims]
        summed = (
            self.context.contract(tensors, set(letters), wanted)
            if len(tensors) > 1
            else self.context.sum_over(tensors[0], set(letters))
        )
        summed = multiply([*plain, summed])
        return summed if bottom is None else self.context.divide(summed, bottom, wanted)

    # ----------------------------------------------------------------------------------------------- views, gathers

    def write_whole(self, value: Value, labels: tuple[Label, ...]) -> str:
        self.read(value)
        place = next((stored for stored in self.stored.get(value, ()) if stored.labels == labels), None)
        with self.context.inside(join_labels(labels)):
            return place.name if place else self.merge_groups(self.code(value), labels).at(ATOM)

    # Axes are split, or read at their first numbers.
    def view(self, code: str, old: Sequence[Label], new: Sequence[Label], kind: Kind) -> Fragment:
        dims = Dims()
        for axis, (before, after) in enumerate(zip(old, new, strict=True)):
            if len(after) > 1:
                axis_number = -1 if axis == len(new) - 1 else len(dims)
                code = f"{code}.unflatten({axis_number}, ({', '.join(map(self.context.size, after))}))"
            elif len(before) == 1 and self.context.legend.reads_part(after[0], before[0]):
                code = f"{code}[{':, ' * len(dims)}:{self.context.size(after[0])}]"
            dims += after
        return Fragment(code, dims, kind)

    def renames(self, old: Sequence[Label], new: Sequence[Label]) -> bool:
        pairs = zip(old, new, strict=True)
        return all(len(a) == len(b) == 1 and not self.context.legend.reads_part(b[0], a[0]) for a, b in pairs)

    # The numbers take the place of an axis, or of all of them lined up by letter.
    def gather(self, e: op.Gather, kind: Kind, wanted: Dims | None) -> Fragment:
        scalar = next((line for line in self.function.scalars if line.value is e.argument), None)
        if scalar is not None and all(number.plain for number in e.numbers):
            listed = self.context.read_scalar(self.context.reserve_name("scalar", scalar.name, key(scalar.name)))
            return Fragment(f"{listed}[{self.code(e.numbers[0]).text}]", (), "number")
        slots, tensor = self.step(e) if e.argument in self.steps else ([*e.slots], self.write_whole(e.argument, e.labels))
        while turns := [axis for axis, slot in enumerate(slots) if isinstance(slot.number.operation, op.Turn)]:
            tensor = f"{tensor}[{':, ' * turns[0]}{self.code(slots.pop(turns[0]).number).text}]"
        moved = [axis for axis, slot in enumerate(slots) if not self.is_own(slot)]
        rest = [letter for axis, slot in enumerate(slots) if axis not in moved for letter in slot.number.axes]
        if not moved and len(set(rest)) == len(rest):
            return Fragment(tensor, tuple(rest), kind)
        if len(moved) == 1 and not set(rest) & set(slots[moved[0]].number.axes) and len(set(rest)) == len(rest):
            return self.select(e.argument, tensor, slots, moved[0], kind, wanted)
        places = [self.place(slot, None) for slot in slots]
        dims = tuple(dict.fromkeys(dim for place, _ in places for dim in place.dims))
        code = Fragment(f"{tensor}[{', '.join(align(place, dims) for place, _ in places)}]", dims, kind)
        for _, zero in places:
            code = zero_early(code, zero)
        return code

    def is_own(self, slot: op.Slot) -> bool:
        number, label = slot.number.operation, slot.label
        return isinstance(number, op.Iota) and len(label) == 1 and not self.context.legend.reads_part(number.letter, label[0])

    # A table read at tokens is an embedding.
    def select(
        self, value: Value, tensor: str, slots: Sequence[op.Slot], axis: int, kind: Kind, wanted: Dims | None
    ) -> Fragment:
        number, (place, zero) = slots[axis].number, self.place(slots[axis], wanted)
        before, after = (op.unite_axes(slot.number for slot in some) for some in (slots[:axis], slots[axis + 1 :]))
        named = number in self.stored or isinstance(number.operation, op.View | op.Gather)
        trained = isinstance(value.operation, op.StoredWeight)
        if trained and named and number.axes and axis == 0 and len(slots) == 2 and zero is None:
            return Fragment(self.look_up(place, value, tensor), (*place.dims, *after))
        whole = "..., " if axis > 1 and axis == len(slots) - 1 else ":, " * axis
        return zero_early(Fragment(f"{tensor}[{whole}{place.text}]", (*before, *place.dims, *after), kind), zero)

    def look_up(self, place: Fragment, table: Value, tensor: str) -> str:
        return f"fn.embedding({place.text}, {tensor})"

    # If the number may lie before the start of time, the second fragment is the condition that it does not.
    def place(self, slot: op.Slot, wanted: Dims | None) -> tuple[Fragment, Fragment | None]:
        value, label, number = slot.number, slot.label, self.code(slot.number, wanted)
        place = make_index(number)
        if isinstance(value.operation, op.Iota | op.Turn) or self.is_token(value) or not label:
            return place, None  # steps are counted from the last
        size = self.context.size(label[0]) if len(label) == 1 else str(math.prod(map(self.context.legend.length, label)))
        guarded = any(not guard.code.plain for guard in self.context.guards)
        if slot.timed:
            ends = f"0, {size} - 1" if guarded else "min=0"
            begun = Fragment(f"{number.at(SUM)} >= 0", number.dims, "condition", LOOSE)
            return place if number.plain else place.become(f"({place.text}).clamp({ends})"), begun
        if number.plain:
            return place.become(f"min(max({place.text}, 0), {size} - 1)") if guarded else place, None
        if not slot.proved:
            self.context.helpers["inside"] = None
            return place.become(f"inside({', '.join([place.text, size, *list_conditions(self.context, number)])})"), None
        return place.become(f"({place.text}).clamp(0, {size} - 1)") if guarded else place, None

    # Tokens are inputs that were checked to lie inside what they select from, under whatever letters.
    def is_token(self, value: Value) -> bool:
        e = value.operation
        return (
            self.is_token(e.argument)
            if isinstance(e, op.View | op.Gather)
            else isinstance(e, op.Input) and e.name in self.context.tokens
        )

    # ------------------------------------------------------------------------------------------------- recurrences

    # Before the first step there are zeros (R4), or the last ones of the rank before.
    def emit_recurrence(self, line: Line, recur: op.Recur) -> Iterator[str]:
        axis = line.labels.index((recur.letter,))
        rest, steps = (*line.labels[:axis], *line.labels[axis + 1 :]), f"{key(line.name)}_steps"
        sizes = [multiply_sizes(map(self.context.size, label)) for label in rest]
        whole = recur.so_far.kind == "integer"
        self.context.needs |= dict.fromkeys(["device"] if whole else ["dtype", "device"])
        kind, mesh = f"dtype={'torch.long' if whole else 'dtype'}, device=device", self.context.find_mesh(recur.letter)
        started, zeros = f"{key(line.name)}_start", f"[torch.zeros({', '.join(sizes) or '()'}, {kind})] * {recur.back}"
        if mesh:
            self.context.helpers |= dict.fromkeys(["MESH", "beside", "Received", "HandedOn"])
            kind += "" if whole else ", requires_grad=torch.is_grad_enabled()"
            yield f'{started} = Received.apply(torch.zeros({", ".join([str(recur.back), *sizes])}, {kind}), "{mesh}")'
            zeros = f"[*{started}]"
        for number, value in enumerate(self.find_whole(recur)):
            code, name = self.code(value), f"{key(line.name)}_called{number or ''}"
            yield f"{name} = {code.text}"
            self.lay(value, Variable(name, tuple((dim,) for dim in code.dims), code.kind))
        yield f"{steps} = {self.start_steps(recur, zeros, axis)}"
        yield f"for step in range({self.context.size(recur.letter)}):"
        self.steps[recur.so_far] = steps, axis, recur.back
        self.turns[recur.letter] = "step"
        code = self.settle(self.code(recur.step, join_labels(rest)), recur.so_far.kind)
        tensor = f"torch.as_tensor({code.text}, device=device)" if whole and not rest else self.write_grouped(code, rest)
        yield f"    {steps}.append({self.finish_step(recur, tensor, rest)})"
        del self.turns[recur.letter]
        stacked = f"torch.stack({steps}[{recur.back}:], {axis})"
        if mesh:  # a rank may have no step that reads what ranks exchange
            read = (value for value in walk(recur.step, closed=self.stored) if isinstance(value.operation, Collective))
            others = [started, *(self.code(value).text for value in read if value in self.stored and value.kind == "tensor")]
            stacked = f'HandedOn.apply(torch.stack({steps}[-{recur.back}:]), {stacked}, "{mesh}", {", ".join(others)})'
        yield f"{self.name(line)} = {stacked}"

    # What layers give for all positions, of which a step reads its own, is computed once, before the steps.
    def find_whole(self, recur: op.Recur) -> list[Value]:
        gathered = (value.operation for value in walk(recur.step, closed=self.stored) if isinstance(value.operation, op.Gather))
        whole = dict.fromkeys(e.argument for e in gathered if isinstance(e.argument.operation, op.Call | op.Reduce))
        return [value for value in whole if value not in self.stored and recur.so_far not in set(walk(value))]

    def start_steps(self, recur: op.Recur, zeros: str, axis: int) -> str:
        return zeros

    def finish_step(self, recur: op.Recur, step: str, labels: Sequence[Label]) -> str:
        return step

    # `S_{b(s - 1)e}` reads the last step; a slot may also read one for each number of some letters. Returns how the rest is
    # read, too.
    def step(self, e: op.Gather) -> tuple[list[op.Slot], str]:
        (steps, axis, most), slots = self.steps[e.argument], [*e.slots]
        back = _find_ago(slots.pop(axis).number)
        number = self.code(back)
        if number.plain:
            return slots, f"{steps}[{make_index(number).text}]"
        return [op.Slot((), back), *slots], f"torch.stack({steps}[-{most}:])"


def make_index(code: Fragment) -> Fragment:
    if code.kind == "integer":
        return code
    return Fragment(f"int({code.text})" if code.plain else f"{code.at(ATOM)}.long()", code.dims, "integer")


def _find_ago(value: Value) -> Value:
    match value.operation:
        case op.Map("+", terms):
            rest = tuple(term for term in terms if not isinstance(term.operation, op.Turn))
            return rest[0] if len(rest) == 1 else replace(value, operation=op.Map("+", rest))
        case _:
            raise AssertionError(value)


def _is_negative(value: Value) -> bool:
    match value.operation:
        case op.Constant(number):
            return not isinstance(number, str) and number < 0
        case op.Map("*" | "/", (first, *_)) | op.Einsum(_, (first, *_)):
            return _is_negative(first)
        case _:
            return False


# The function, or its gradient, is not finite everywhere.
def is_steep(value: Value) -> bool:
    match value.operation:
        case op.Map("/", (_, bottom)):
            return bottom.kind == "tensor"
        case op.Map("^", (base, exponent)):
            return base.kind == "tensor" and not is_natural(exponent)
        case op.Map("+" | "*" | "where"):
            return False
        case op.Map(name, (argument, *_)):
            return row_of(name, False).steep and argument.kind == "tensor"
        case _:
            return False


# A power by a whole number from 0 on is finite everywhere.
def is_natural(exponent: Value) -> bool:
    match exponent.operation:
        case op.Constant(int() as times):
            return times >= 0
        case _:
            return False


def _strip_minus(value: Value) -> Value:
    match value.operation:
        case op.Constant(int() | float() as number):
            return replace(value, operation=op.Constant(-number))
        case op.Map("*", (first, only)) if first.operation == op.Constant(-1):
            return only
        case op.Map(name, (first, *rest)):
            return replace(value, operation=op.Map(name, (*_strip_first(first), *rest)))
        case op.Einsum(letters, (first, *rest)):
            return replace(value, operation=op.Einsum(letters, (*_strip_first(first), *rest)))
        case _:
            return value


def _strip_first(first: Value) -> tuple[Value, ...]:
    return () if first.operation == op.Constant(-1) else (_strip_minus(first),)


# `turns` has the names of the numbers of turns.
def code_number(context: Context, e: Expression, turns: Mapping[str, str] | None = None) -> Fragment:
    turns = turns or {}
    body = Lowering(context.layer, context.layers, context.legend, context.time, still=frozenset(turns))
    value = body.value(e)
    function = Function("", (), (), tuple(body.scalars.values()), (), Line("", value, ()))
    alone = Emitter(function, {}, context, None, turns=dict(turns))  # type: ignore[arg-type]  # for nothing is called
    return alone.code(value)


# The number of a turn has the name of its loop.
def code_turning(context: Context, e: Expression) -> Fragment:
    return code_number(context, e, {index.letter: index.letter for index in find_all(Index, e)})
