"""Which PyTorch computes a program? A variable for each line, an expression for each value: the plan `notation`.

One `torch.einsum` or primitive for each operation, in the order of the text; nothing is fused.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, assert_never

from einformer.errors import EinformerError, fail
from einformer.interpreters.torch.code import (
    ATOM,
    LOOSE,
    POWER,
    PRODUCT,
    SUM,
    Code,
    Dims,
    Kind,
    aligned,
    cast,
    combined,
    ordered,
    permuted,
    product,
)
from einformer.interpreters.torch.letters import single
from einformer.interpreters.torch.primitives import chosen, extreme, function, infix, operator
from einformer.language.calls import axis_of
from einformer.language.primitives import CONSTANTS, row_of
from einformer.language.sizes import Legend
from einformer.language.tree import Name
from einformer.language.weights import key
from einformer.program import operations as op
from einformer.program.operations import Carried, Function, Label, Line, Turns, Value
from einformer.program.orders import pairs, typical


class Shell(Protocol):
    """What the forward of a function needs of the class that it stands in."""

    def spelling(self, letter: str) -> str:
        """The letter of Python for an index."""

    def called(self, kind: str, name: str, wanted: str) -> str:
        """The name in the file of a scalar or a layer."""

    def callee(self, call: op.Call) -> str:
        """What a call calls: a function, or the module of an instance."""

    def trained(self, call: op.Call) -> bool:
        """Must a function be told whether it is trained?"""

    def turning(self, turns: Turns) -> str:
        """`l, block in enumerate(self.blocks)`: what a loop runs through."""

    def comment(self, line: Line) -> str:
        """The equation of a line as its author wrote it."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A value in a variable: its name, and the letters on each of its axes."""

    name: str
    labels: tuple[Label, ...]


@dataclass(slots=True)
class Emitter:
    """The forward of one function."""

    function: Function
    functions: Mapping[str, Function]
    legend: Legend
    shell: Shell
    tokens: frozenset[str] = frozenset()  # inputs of whole numbers that were checked to lie inside what they select from
    stored: dict[Value, list[Stored]] = field(default_factory=dict)
    turns: dict[str, str] = field(default_factory=dict)  # the letter of a loop or a recurrence: its number in this turn
    needs: dict[str, None] = field(default_factory=dict)  # index numbers, sizes, dtypes that the head must provide
    helpers: dict[str, None] = field(default_factory=dict)
    steps: dict[Value, tuple[str, int]] = field(default_factory=dict)  # recurrences: their steps, and the axis of these
    reach: dict[Value, int] = field(default_factory=dict)  # how far back a recurrence looks
    guards: tuple[tuple[Value, bool], ...] = ()  # the conditions of the branches that are emitted

    def body(self) -> Iterator[str]:
        """The lines of the forward."""
        for line in self.function.inputs:
            self.store(line)
        for line in self.function.weights:
            if line.value.operation == op.Weight(line.name):
                self.stored[line.value] = [Stored(f"self.{key(line.name)}", line.labels)]
            else:
                yield f"{self.name(line)} = {self.text(line)}"
                self.store(line)
        for line in self.function.scalars:
            self.stored[line.value] = [Stored(self.name(line), line.labels)]
        yield from self.lines(self.function.lines, "")
        last = self.function.lines[-1]
        if not (isinstance(last, Line) and last.equation is not None and last.equation.relation == "return"):
            yield f"return {self.text(self.function.output)}"

    def lines(self, lines: tuple[Line | Turns, ...], indent: str) -> Iterator[str]:
        """The lines of equations and loops."""
        for line in lines:
            if isinstance(line, Turns):
                yield from self.loop(line, indent)
            else:
                yield indent + self.shell.comment(line)
                yield from (indent + each for each in self.line(line))

    def line(self, line: Line) -> Iterator[str]:
        """An equation: its variable, its axes as written; a number without axes stays one of Python."""
        assert line.equation is not None
        if isinstance(line.value.operation, op.Recur) and line.value not in self.stored:
            yield from self.solved(line, line.value.operation)
        else:
            start = "return" if line.equation.relation == "return" else f"{self.name(line)} ="
            yield f"{start} {self.text(line)}"
        self.store(line)

    def loop(self, turns: Turns, indent: str) -> Iterator[str]:
        """A loop, whose variables have the same names in each turn."""
        for each in turns.carried:
            if each.before is not None:
                yield from (indent + line for line in self.entering(each))
        yield f"{indent}for {self.shell.turning(turns)}:"
        self.turns[turns.letter] = turns.letter
        yield from self.lines(turns.lines, indent + "    ")
        del self.turns[turns.letter]
        for each in turns.carried:
            name, end = self.stored[each.within] if each.before is not None else [], self.stored[each.last][-1]
            if name and name[-1] != end:
                yield f"{indent}    {name[-1].name} = {self.lying(Code(end.name, _letters(end.labels)), name[-1].labels)}"
            self.stored[each.after] = list(name or [end])

    def entering(self, each: Carried) -> Iterator[str]:
        """What the first turn starts from, of the kind that all turns have."""
        assert each.before is not None
        code = self.code(each.before)
        at = self.stored[each.before][-1]
        settled = self.filled(code, (), each.within.kind) if code.plain else self.cast(code, each.within.kind)
        if settled.text != code.text:
            yield f"{at.name} = {settled.text}"
        self.stored[each.within] = [at]

    # ------------------------------------------------------------------------------------------------- variables

    def name(self, line: Line) -> str:
        """`q_bsea`, a prime as the letter that stands for it."""
        return f"{key(line.name)}_{''.join(map(self.shell.spelling, _letters(line.labels)))}"

    def store(self, line: Line) -> None:
        """The value of a line lies in a variable now, and nothing else does."""
        name = self.name(line)
        for others in self.stored.values():
            others[:] = [other for other in others if other.name != name]
        self.stored.setdefault(line.value, []).append(Stored(name, line.labels))

    def text(self, line: Line) -> str:
        """The value of a line as it lies: an axis for each label."""
        code = self.code(line.value, _letters(line.labels))
        return code.text if code.plain and not line.labels else self.lying(code, line.labels)

    def lying(self, code: Code, labels: Sequence[Label]) -> str:
        """A value with an axis for each label: groups merged row-major."""
        code = self.shaped(code, _letters(labels))
        for axis, label in enumerate(labels):
            if len(label) > 1:
                code = Code(f"{code.at(ATOM)}.flatten({axis}, {axis + len(label) - 1})")
        return code.text

    # ---------------------------------------------------------------------------------------------------- values

    def code(self, value: Value, wanted: Dims | None = None) -> Code:
        """The code of a value; its axes in the order of `wanted` where that costs nothing."""
        for stored in self.stored.get(value, ()):
            if all(len(label) == 1 for label in stored.labels):
                self.read(value)
                return Code(stored.name, _letters(stored.labels), value.kind)
        match value.operation:
            case op.Input() | op.Weight():
                stored = self.stored[value][0]
                return self.viewed(stored, stored.labels, stored.labels, value.kind)
            case op.Constant(number):
                return self.constant(number)
            case op.Table():
                raise AssertionError("a table is a line of the head")
            case op.Iota(letter):
                self.needs[f"index {letter}"] = None
                return Code(self.shell.spelling(letter), (letter,), "integer")
            case op.Turn(letter):
                return Code(self.turns[letter], (), "integer")
            case op.Map("+", terms):
                return self.sum(terms, wanted)
            case op.Map("*", factors):
                return self.product(factors, wanted)
            case op.Map("/", (top, bottom)):
                return self.quotient(self.code(top, wanted), self.code(bottom, wanted), wanted)
            case op.Map("^", (base, exponent)):
                return self.power(base, exponent, wanted)
            case op.Map("where", arms):
                return self.where(*arms, wanted)
            case op.Map(name, arguments):
                return self.map(name, [self.code(argument, wanted) for argument in arguments], wanted)
            case op.Reduce(name, letters, argument, counts):
                return operator(
                    self, name, letters, self.code(argument, wanted), [self.code(count) for count in counts], name == "Sm"
                )
            case op.Contract(letters, factors):
                return self.contraction(frozenset(letters), factors, wanted)
            case op.View(argument, old, new):
                stored = next((s for s in self.stored.get(argument, ()) if s.labels == old), None)
                stored = stored or Stored(Code(self.lying(self.code(argument), old)).text, old)
                return self.viewed(stored, old, new, value.kind)
            case op.Spread(argument):
                code = self.code(argument, wanted)
                return self.filled(code, value.axes, value.kind)
            case op.Gather():
                return self.gathered(value.operation, value.kind)
            case op.Call():
                return Code(self.call(value.operation), value.axes)
            case op.Recur():
                raise AssertionError("a recurrence is a line of its own")
            case _:
                assert_never(value.operation)

    def call(self, e: op.Call) -> str:
        """A function, or the module of an instance, of tensors that lie as it wants them; each is computed whole."""
        texts = []
        with self.under(()):
            for argument, line in zip(e.arguments, self.functions[e.function].inputs, strict=True):
                letters = _letters(line.labels)
                texts.append(self.shaped(self.settled(self.code(argument, letters), line.value.kind), letters).text)
        return f"{self.shell.callee(e)}({', '.join([*texts, *(['self.training'] if self.shell.trained(e) else [])])})"

    def settled(self, code: Code, kind: Kind) -> Code:
        """Whole numbers where they select, else numbers of the dtype of the model."""
        if kind != "integer":
            return self.cast(code, kind)
        whole = code.text if code.kind == "integer" else f"int({code.text})" if code.plain else f"{code.at(ATOM)}.long()"
        return Code(whole, code.dims, "integer", code.level if whole == code.text else ATOM)

    @contextmanager
    def under(self, guards: tuple[tuple[Value, bool], ...]) -> Iterator[None]:
        """What is emitted in some branches."""
        around, self.guards = self.guards, guards
        yield
        self.guards = around

    def constant(self, number: int | float | str) -> Code:
        """A number, a size, a scalar, π."""
        if not isinstance(number, str):
            text = ("math.inf" if number > 0 else "-math.inf") if math.isinf(number) else repr(number)
            return Code(text, (), "number" if isinstance(number, float) else "integer", ATOM if number >= 0 else PRODUCT)
        axis = self.legend.axes.get(number.strip("|")) if number.startswith("|") else self.legend.sized(number)
        if axis is not None:
            return Code(self.size(axis.letter), (), "integer")
        return Code("math.pi" if number in CONSTANTS else self.shell.called("scalar", number, key(number)), (), "number")

    def read(self, value: Value) -> None:
        """A scalar with indices is a line of the head, at all their numbers."""
        self.needs |= {f"scalar {line.name}": None for line in self.function.scalars if line.value is value}

    def size(self, letter: str) -> str:
        """How many numbers an index runs through: a name of the head or of the file, or a number."""
        axis = self.legend.axis(letter)
        assert axis is not None
        if isinstance(axis.size, Name):
            self.needs[f"size {axis_of(letter)}"] = None
            return axis.size.name
        return str(self.legend.length(letter))

    # ------------------------------------------------------------------------------------------------- arithmetic

    def sum(self, terms: Sequence[Value], wanted: Dims | None) -> Code:
        """`a + b - c`, lined up by index; what is subtracted is held together."""
        minus = [_is_negative(term) for term in terms]
        codes = [self.code(_positive(t) if k and minus[k] else t, wanted) for k, t in enumerate(terms)]
        dims, kind = ordered([code.dims for code in codes], wanted), combined(codes)
        text = aligned(self.cast(codes[0], kind), dims, SUM)
        for code, negative in zip(codes[1:], minus[1:], strict=True):
            text += f" {'-' if negative else '+'} {aligned(self.cast(code, kind), dims, PRODUCT)}"
        return Code(text, dims, kind, SUM)

    def product(self, factors: Sequence[Value], wanted: Dims | None) -> Code:
        """Factors, a leading -1 as a minus."""
        if factors[0].operation == op.Constant(-1):
            rest = self.product(factors[1:], wanted) if len(factors) > 2 else self.code(factors[1], wanted)
            return replace(rest, text=f"-{rest.at(PRODUCT)}", level=PRODUCT)
        codes = [self.code(factor, wanted) for factor in factors]
        return product([self.cast(code, combined(codes)) for code in codes], wanted)

    def quotient(self, top: Code, bottom: Code, wanted: Dims | None) -> Code:
        """`top / bottom`."""
        bottom = self.shielded(bottom)
        kind: Kind = "tensor" if "tensor" in (top.kind, bottom.kind) else "number"
        dims = ordered([top.dims, bottom.dims], wanted)
        text = f"{aligned(self.cast(top, kind), dims, PRODUCT)} / {aligned(self.cast(bottom, kind), dims, POWER)}"
        return Code(text, dims, kind, PRODUCT)

    def power(self, base: Value, exponent: Value, wanted: Dims | None) -> Code:
        """`base ** exponent`."""
        times = exponent.operation.value if isinstance(exponent.operation, op.Constant) else None
        left, right = self.code(base, wanted), self.code(exponent, wanted)
        left = left if isinstance(times, int) and times >= 0 else self.shielded(left)
        kind: Kind = "tensor" if "tensor" in (left.kind, right.kind) else "number"
        dims = ordered([left.dims, right.dims], wanted)
        text = f"{aligned(self.cast(left, kind), dims, ATOM)} ** {aligned(self.cast(right, kind), dims, ATOM)}"
        return Code(text, dims, kind, POWER)

    def map(self, name: str, arguments: list[Code], wanted: Dims | None) -> Code:
        """A function of the table."""
        row = row_of(name, False)
        if row.infix:
            return infix(self, row, arguments, wanted)
        if name in ("min", "max"):
            return extreme(self, row, arguments, wanted)
        if name == "Dr":
            dropped = self.filled(self.cast(arguments[0], "tensor"), arguments[0].dims, "tensor")
            return replace(dropped, text=row.torch.format(dropped.text, arguments[1].text), level=ATOM)
        return function(self, row, self.shielded(arguments[0]) if row.steep else arguments[0])

    def where(self, condition: Value, then: Value, otherwise: Value, wanted: Dims | None) -> Code:
        """`torch.where`; on a condition of Python, its own `if`, which takes one branch (R8)."""
        test, arms = self.code(condition, wanted), list[Code]()
        for arm, holds in ((then, True), (otherwise, False)):
            with self.under((*self.guards, (condition, holds))):
                arms.append(self.code(arm, wanted))
        dims, kind = ordered([test.dims, *(arm.dims for arm in arms)], wanted), combined(arms)
        if test.plain:
            one, other = (self.filled(arm, dims, kind) for arm in arms)
            return Code(f"{one.at(SUM)} if {test.text} else {other.at(SUM)}", dims, kind, LOOSE)
        if all(arm.plain for arm in arms):
            return chosen(self, test, arms[0], arms[1], dims)
        one_, other_ = (aligned(self.cast(arm, kind), dims) for arm in arms)
        return Code(f"torch.where({aligned(test, dims)}, {one_}, {other_})", dims, kind)

    def shielded(self, code: Code) -> Code:
        """What a function that is not finite everywhere is of: 1 where the branch around it is not taken (R8).

        Else the gradient would be NaN there, zero times one that is not finite.
        """
        taken = list(self.taken(code.dims)) if code.kind == "tensor" else []
        return replace(code, text=f"torch.where({taken[0]}, {code.text}, 1)", level=ATOM) if taken else code

    def taken(self, dims: Dims) -> Iterator[str]:
        """Where something with these axes is wanted at all: where the branches around it are taken for some other numbers."""
        codes = [(self.code(condition), holds) for condition, holds in self.guards if not condition.plain]
        codes_ = [code if holds else Code(f"~{code.at(ATOM)}", code.dims) for code, holds in codes]
        over = ordered([dims, *(code.dims for code in codes_)], dims)
        if codes_:
            together = Code(" & ".join(aligned(code, over, POWER) for code in codes_), over, level=PRODUCT)
            for _ in range(len(over) - len(dims)):
                together = Code(f"{together.at(ATOM)}.any(-1)", together.dims[:-1])
            yield together.text

    # ------------------------------------------------------------------------------------------------ contractions

    def contraction(self, letters: frozenset[str], factors: Sequence[Value], wanted: Dims | None) -> Code:
        """A product over letters is an einsum; numbers of Python, and a denominator without the letters, stay outside."""
        *others, last = factors
        match last.operation:
            case op.Map("/", (one, bottom)) if one.operation == op.Constant(1) and not letters & set(bottom.axes):
                below, factors = self.code(bottom), others
            case _:
                below = None
        codes = [self.code(factor) for factor in factors]
        tensors, plain = [code for code in codes if code.dims], [code for code in codes if not code.dims]
        summed = self.einsum(tensors, letters, wanted) if len(tensors) > 1 else self.total(tensors[0], letters)
        summed = product([*plain, summed])
        return summed if below is None else self.quotient(summed, below, wanted)

    def total(self, code: Code, letters: frozenset[str]) -> Code:
        """The sum over some of the axes."""
        code = code if set(code.dims) - letters else self.cast(code, "tensor")
        axes = [str(k) for k, dim in enumerate(code.dims) if dim in letters]
        rest = tuple(dim for dim in code.dims if dim not in letters)
        return Code(f"{code.at(ATOM)}.sum({axes[0] if len(axes) == 1 else '(' + ', '.join(axes) + ')'})", rest, code.kind)

    def einsum(self, codes: list[Code], letters: frozenset[str], wanted: Dims | None) -> Code:
        """Two factors at a time, in the order of `orders.pairs`."""
        order = pairs([frozenset(code.dims) for code in codes], letters, lambda letter: typical(self.legend, letter, ""))
        left = dict(enumerate(codes))
        for number, taken in enumerate(order[:-1], len(codes)):
            two = [left.pop(place) for place in taken]
            left[number] = self.pair(two, letters - {dim for code in left.values() for dim in code.dims}, None)
        return self.pair([left[place] for place in order[-1]], letters, wanted)

    def pair(self, codes: list[Code], letters: frozenset[str], wanted: Dims | None) -> Code:
        """`torch.einsum` of two factors, over these letters."""
        dims = tuple(dim for dim in ordered([c.dims for c in codes], wanted) if dim not in letters)
        kind = combined(codes) if dims else "tensor"
        codes = [self.cast(code, kind) for code in codes]
        letter = single({dim: self.shell.spelling(dim) for code in codes for dim in code.dims})
        *inputs, output = ("".join(letter[dim] for dim in some) for some in (*(code.dims for code in codes), dims))
        return Code(f'torch.einsum("{",".join(inputs)}->{output}", {", ".join(code.text for code in codes)})', dims, kind)

    # ----------------------------------------------------------------------------------------------- views, gathers

    def viewed(self, stored: Stored, old: Sequence[Label], new: Sequence[Label], kind: Kind) -> Code:
        """A variable whose axes have other letters: split, or read at their first numbers."""
        code, dims = stored.name, Dims()
        for before, after in zip(old, new, strict=True):
            if len(after) > 1:
                code = f"{code}.unflatten({len(dims)}, ({', '.join(map(self.size, after))}))"
            elif len(before) == 1 and self.is_bounded(after[0], before[0]):
                code = f"{code}[{':, ' * len(dims)}:{self.size(after[0])}]"
            dims += after
        return Code(code, dims, kind)

    def is_bounded(self, letter: str, before: str) -> bool:
        """Is a longer axis read at its first numbers, as `P_kd` in `P_sd`?"""
        axis = self.legend.axis(letter)
        return axis_of(letter) != axis_of(before) and axis is not None and axis.bound is not None

    def gathered(self, e: op.Gather, kind: Kind) -> Code:
        """A tensor read at computed numbers, which take the place of an axis, or of all of them lined up by letter."""
        scalar = next((line for line in self.function.scalars if line.value is e.argument), None)
        if scalar is not None and all(number.plain for number in e.numbers):
            listed = self.shell.called("scalar", scalar.name, key(scalar.name))
            return Code(f"{listed}[{self.code(e.numbers[0]).text}]", (), "number")
        self.read(e.argument)
        stored = next((s for s in self.stored.get(e.argument, ()) if s.labels == e.labels), None)
        if e.argument in self.steps:
            e, stored = self.step(e)
        name = stored.name if stored else Code(self.lying(self.code(e.argument), e.labels), level=LOOSE).at(ATOM)
        moved = [axis for axis in range(len(e.numbers)) if not self.is_own(e, axis)]
        rest = [letter for axis, number in enumerate(e.numbers) if axis not in moved for letter in number.axes]
        if not moved and len(set(rest)) == len(rest):
            return Code(name, tuple(rest), kind)
        if len(moved) == 1 and not set(rest) & set(e.numbers[moved[0]].axes) and len(set(rest)) == len(rest):
            return self.selected(e, name, moved[0], kind)
        places = [self.place(e, axis) for axis in range(len(e.numbers))]
        dims = tuple(dict.fromkeys(dim for place, _ in places for dim in place.dims))
        code = Code(f"{name}[{', '.join(aligned(place, dims) for place, _ in places)}]", dims, kind)
        for zero in (zero for _, zero in places if zero is not None):
            code = _zeroed(code, zero)
        return code

    def is_own(self, e: op.Gather, axis: int) -> bool:
        """Is an axis read along its whole length?"""
        number, label = e.numbers[axis].operation, e.labels[axis]
        return isinstance(number, op.Iota) and len(label) == 1 and not self.is_bounded(number.letter, label[0])

    def selected(self, e: op.Gather, name: str, axis: int, kind: Kind) -> Code:
        """One axis read at computed numbers, whose letters take its place; a table read at tokens is an embedding."""
        place, zero = self.place(e, axis)
        letters = [number.axes for number in e.numbers]
        before = tuple(letter for some in letters[:axis] for letter in some)
        after = tuple(letter for some in letters[axis + 1 :] for letter in some)
        table = isinstance(e.argument.operation, op.Weight) and isinstance(e.numbers[axis].operation, op.Input)
        if table and axis == 0 and len(letters) == 2 and zero is None:
            return Code(f"fn.embedding({place.text}, {name})", place.dims + after)
        code = Code(f"{name}[{':, ' * axis}{place.text}]", (*before, *place.dims, *after), kind)
        return code if zero is None else _zeroed(code, zero)

    def place(self, e: op.Gather, axis: int) -> tuple[Code, Code | None]:
        """The number of a slot as an index of Python; with it, where it may lie before the start of time, that it does not (R4)."""
        value, label = e.numbers[axis], e.labels[axis]
        number = self.code(value)
        text = (
            number.text if number.kind == "integer" else f"int({number.text})" if number.plain else f"{number.at(ATOM)}.long()"
        )
        place = Code(text, number.dims, "integer", number.level if text == number.text else ATOM)
        token = isinstance(value.operation, op.Input) and value.operation.name in self.tokens
        if isinstance(value.operation, op.Iota | op.Turn) or token:
            return place, None
        size = " * ".join(map(self.size, label))
        size = size if len(label) == 1 else str(math.prod(map(self.legend.length, label)))
        guarded = any(not condition.plain for condition, _ in self.guards)
        if e.timed[axis]:
            begun = Code(f"{number.at(SUM)} >= 0", number.dims, "condition", LOOSE)
            clamped = replace(place, text=f"({text}).clamp({f'0, {size} - 1' if guarded else 'min=0'})", level=ATOM)
            return (place if number.plain else clamped), begun
        if number.plain:
            return (replace(place, text=f"min(max({text}, 0), {size} - 1)", level=ATOM) if guarded else place), None
        if not e.proved[axis]:
            self.helpers["inside"] = None
            return replace(place, text=f"inside({', '.join([text, size, *self.taken(number.dims)])})", level=ATOM), None
        return (replace(place, text=f"({text}).clamp(0, {size} - 1)", level=ATOM) if guarded else place), None

    # ------------------------------------------------------------------------------------------------- recurrences

    def solved(self, line: Line, recur: op.Recur) -> Iterator[str]:
        """A step for each position, in order; before the first there are zeros (R4)."""
        axis = line.labels.index((recur.letter,))
        rest = (*line.labels[:axis], *line.labels[axis + 1 :])
        sizes = ", ".join(" * ".join(map(self.size, label)) for label in rest) or "()"
        self.needs["dtype"] = self.needs["device"] = None
        zeros, steps = f"torch.zeros({sizes}, dtype=dtype, device=device)", f"{key(line.name)}_steps"
        self.steps[recur.so_far] = steps, axis
        self.turns[recur.letter] = "step"
        text = self.lying(self.cast(self.code(recur.step, _letters(rest)), "tensor"), rest)
        back = self.reach.pop(recur.so_far)
        del self.turns[recur.letter]
        yield f"{steps} = [{zeros}] * {back}"
        yield f"for step in range({self.size(recur.letter)}):"
        yield f"    {steps}.append({text})"
        yield f"{self.name(line)} = torch.stack({steps}[{back}:], {axis})"

    def step(self, e: op.Gather) -> tuple[op.Gather, Stored]:
        """An earlier step, `S_{b(s - 1)e}` the last, and how the rest of it is read. Raises EinformerError E507."""
        steps, axis = self.steps[e.argument]
        back = _back(e.numbers[axis], self.legend)
        self.reach[e.argument] = max(back, self.reach.get(e.argument, 0))
        fields = ("labels", "numbers", "timed", "proved")
        rest = replace(e, **{name: _without(getattr(e, name), axis) for name in fields})
        return rest, Stored(f"{steps}[-{back}]", rest.labels)

    # ------------------------------------------------------------------------------------------------------ shapes

    def cast(self, code: Code, kind: Kind) -> Code:
        """The code in another dtype, noting what the head must provide."""
        new = cast(code, kind)
        if new is not code:
            self.needs["dtype" if kind == "tensor" else "number"] = None
        return new

    def filled(self, code: Code, dims: Dims, kind: Kind) -> Code:
        """A value with exactly these axes, also where it is a number of Python."""
        if not code.plain:
            return self.shaped(code, dims)
        if not dims and kind != "tensor":
            return code
        dtype = {"tensor": "dtype", "number": "number"}.get(kind)
        self.needs |= dict.fromkeys(["device", *([dtype] if dtype else [])])
        sizes = "".join(f"{self.size(dim)}, " for dim in dims).rstrip(" ")
        options = f"dtype={dtype}, device=device" if dtype else "device=device"
        return Code(f"torch.full(({sizes}), {code.text}, {options})", dims, kind)

    def shaped(self, code: Code, dims: Dims) -> Code:
        """A value with exactly these axes, repeated along those it does not depend on."""
        if code.plain:
            return self.filled(code, dims, code.kind if dims else "tensor")
        if set(code.dims) == set(dims):
            return permuted(code, dims)
        sizes = ", ".join(map(self.size, dims))
        return Code(f"{aligned(code, dims, ATOM)}.expand({sizes})", dims, code.kind)


def _letters(labels: Sequence[Label]) -> Dims:
    return tuple(letter for label in labels for letter in label)


def _zeroed(code: Code, condition: Code) -> Code:
    """Before the start of time everything is zero (R4)."""
    if condition.plain:  # the number of a step
        return replace(code, text=f"({code.text} if {condition.text} else torch.zeros_like({code.text}))", level=ATOM)
    return replace(code, text=f"torch.where({aligned(condition, code.dims)}, {code.text}, 0)", level=ATOM)


def _without(some: tuple[Any, ...], axis: int) -> tuple[Any, ...]:
    return some[:axis] + some[axis + 1 :]


def _back(value: Value, legend: Legend) -> int:
    """1 of `s - 1`. Raises EinformerError E507."""
    try:
        back = -_at_zero(value, legend)
    except EinformerError:
        back = 0
    if back > 0 and back == int(back):
        return int(back)
    raise fail("E507", "a recurrence reads a fixed number of positions back", value.span, fix="`(s - 1)`")


def _at_zero(value: Value, legend: Legend) -> float:
    """A number in the first step."""
    match value.operation:
        case op.Turn():
            return 0
        case op.Constant(str() as name):
            return float(legend.named(Name(name)))
        case op.Constant(number):
            return float(number)
        case op.Map("+", terms):
            return sum(_at_zero(term, legend) for term in terms)
        case op.Map("*", factors):
            return math.prod(_at_zero(factor, legend) for factor in factors)
        case _:
            raise fail("E507", "a recurrence reads a fixed number of positions back", value.span)


def _is_negative(value: Value) -> bool:
    """Does it begin with a minus?"""
    match value.operation:
        case op.Constant(number):
            return not isinstance(number, str) and number < 0
        case op.Map("*" | "/", (first, *_)) | op.Contract(_, (first, *_)):
            return _is_negative(first)
        case _:
            return False


def _positive(value: Value) -> Value:
    """The term after the minus that `_is_negative` saw."""
    match value.operation:
        case op.Constant(int() | float() as number):
            return replace(value, operation=op.Constant(-number))
        case op.Map("*", (first, only)) if first.operation == op.Constant(-1):
            return only
        case op.Map("*" as name, (first, *rest)) if first.operation == op.Constant(-1):
            return replace(value, operation=op.Map(name, tuple(rest)))
        case op.Map(name, (first, *rest)):
            return replace(value, operation=op.Map(name, (_positive(first), *rest)))
        case op.Contract(letters, (first, *rest)):
            return replace(value, operation=op.Contract(letters, (_positive(first), *rest)))
        case _:
            return value
