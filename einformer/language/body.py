"""Checks the body of a layer line by line: each name is defined, and used as it is defined."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial

from einformer.errors import EinformerError, Finding, Span
from einformer.language.agreement import check_arity, check_conditions, check_count, find_repeated, slots_agree
from einformer.language.calls import axis_of, callees, name_instances
from einformer.language.names import check_names, find_closest, is_defined, report_undeclared
from einformer.language.primitives import NAMES, NUMERIC
from einformer.language.printer import show
from einformer.language.scope import Scope, find_unfelt
from einformer.language.sizes import Legend, index_of
from einformer.language.slots import Numbers, Read, Whole, is_affine, reads
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
    Node,
    Number,
    Product,
    Scalar,
    Statement,
    Sum,
    Tensor,
    Weight,
)
from einformer.language.walk import equations, loops, subexpressions

# What a note begins with, if that is a factor: a name, and its subscript.
_FACTOR = re.compile(r"[\s\d.(+*-]*([^\W\d_][^\W_]*'*)(?:_(\{[^}]*\}|[\w']+))?")


def find_dropped(statement: Equation | Scalar, names: Container[str], legend: Legend) -> Iterator[Finding]:
    """Returns a factor after `@`, which would be dropped as a note: a name with indices of the legend, or the name of a
    tensor.
    """
    factor = _FACTOR.match(statement.note)
    letters = re.findall(r"[^\W\d_]'*", (factor[2] or "") if factor else "")
    alone = factor is not None and factor[1] in names and factor[0] == statement.note
    if factor and (alone or (letters and all(map(legend.axis, letters)))):
        span = statement.span
        start = span.source.text.index("@", span.start)
        message = f"after `@` stands a note, and `{factor[0].strip()}` would be dropped with it"
        fix = f"factors side by side, `… {factor[0].strip()}`; or a note that begins with a word"
        yield Finding("E108", message, Span(span.source, start, start + 1), fix=fix)


def formula(name: str, e: Expression, legend: Legend, indices: tuple[Index, ...] = ()) -> Iterator[Finding]:
    """A size, a scalar or a count is a function of numbers, without operators and sums; it may lack some of its indices."""
    if isinstance(e, Number) or (isinstance(e, Name) and e.name in legend.letters):
        return
    used = {x.letter for x in subexpressions(e) if isinstance(x, Index)}
    slots = tuple(index for index in indices if index.letter in used)
    left = Tensor(name, slots, span=e.span) if slots else Name(name, span=e.span)
    body = Body(Layer("", (), (), left, (), ()), {}, legend)
    elaborated = body.right_side(Equation(left, "=", e, span=e.span), frozenset())
    yield from body.findings
    for x in subexpressions(elaborated.right):
        if isinstance(x, Apply) and (x.indices or x.name not in NUMERIC):
            fix = "numbers, sizes, scalars and functions of them"
            yield Finding("E604", f"`{x.name}`{' over an index' * bool(x.indices)} cannot stand in the legend", x.span, (), fix)


@dataclass(slots=True)
class Definition:
    """The definition of a name with a subscript."""

    slots: tuple[Expression, ...] | None  # None after an error in the definition: nothing more is said of it
    span: Span
    what: str
    used: bool = False


class Body:
    """The check of one layer, line by line, with the definitions of its names."""

    def __init__(
        self, layer: Layer, layers: Mapping[str, Layer], legend: Legend, unsound: frozenset[str] = frozenset()
    ) -> None:
        self.layer, self.layers, self.legend, self.unsound = layer, layers, legend, unsound
        self.callees = callees(layer, layers)
        self.times = frozenset(axis_of(each.time.letter) for each in layers.values() if each.time)
        self.named = {axis_of(index.letter) for index in layer.indices}  # axes whose size a call chooses
        self.findings: list[Finding] = []
        self.unused: list[Finding] = []
        self.defined: dict[str, Definition] = {}
        self.later = {equation.left.name: equation for equation in equations(layer.body)}
        self.called: set[str] = set()
        self.lines: dict[str, Equation] = {}  # elaborated, by what they define

    @cached_property
    def once(self) -> set[str]:
        """The tensors of letters that one line defines, and one expression reads."""
        lines = Counter(equation.left.name for equation in equations(self.layer.body))
        read = Counter(x.name for q in equations(self.layer.body) for x in subexpressions(q.right) if isinstance(x, Tensor))
        slots = {q.left.name: q.left.slots for q in equations(self.layer.body) if isinstance(q.left, Tensor)}
        return {
            name for name in slots if lines[name] == read[name] == 1 and all(isinstance(slot, Index) for slot in slots[name])
        }

    def line(self, e: Tensor) -> Equation | None:
        """The line whose right side could stand in the place of a tensor."""
        return self.lines.get(e.name) if e.name in self.once else None

    @cached_property
    def whole(self) -> Whole:
        """Which of its numbers are whole."""
        return Whole(self.layer, self.layers, self.legend)

    @cached_property
    def numbers(self) -> Numbers:
        """Returns the numbers of its indices."""
        return Numbers.of(self.layer, self.legend, self.times)

    def check(self, weighted: frozenset[str]) -> Layer:
        """The elaborated layer; `findings` holds what is wrong with it, `unused` what it does not need.

        `weighted` are the layers that have weights.
        """
        self.heads()
        self.weights()
        body = self.statements(self.layer.body, frozenset())
        self.output()
        self.never_used()
        layer, missing = name_instances(replace(self.layer, body=body), weighted)
        self.findings = self.findings or missing
        return layer

    # --------------------------------------------------------------------------------------------- declarations

    def heads(self) -> None:
        """Checks the head: its inputs, and its declared letters."""
        for formal in self.layer.formals:
            if formal.name in self.defined:
                self.report("E202", f"the input `{formal.name}` is declared twice", formal, "another name")
            self.alone(formal.name, formal.slots, formal)
            sound = self.letters(formal.slots)
            self.defined[formal.name] = Definition(formal.slots if sound else None, formal.span, "input")
        self.letters(self.layer.output.slots if isinstance(self.layer.output, Tensor) else ())
        self.letters(self.layer.indices)
        self.letters(() if self.layer.time is None else (self.layer.time,))
        body = _axes_in(self.layer)
        for index in self.layer.indices:
            if axis_of(index.letter) not in body:
                self.report("E203", f"`{self.layer.name}` names `{index.letter}` and never uses it", index, "a head without it")

    def weights(self) -> None:
        """Each weight is declared once, over declared letters; a default is a formula like any other."""
        for weight in self.layer.weights:
            if weight.name in self.defined or weight.name in NAMES:
                self.report("E202", f"the weight `{weight.name}` is declared twice", weight, "another name")
            elif weight.kind == "instance":
                self.instance(weight)
            else:
                self.alone(weight.name, weight.indices, weight)
                sound = self.letters(weight.indices)
                self.defined[weight.name] = Definition(weight.indices if sound else None, weight.span, "weight")
        for weight in self.layer.weights:
            if weight.default is not None:
                number = weight.optional and not any(isinstance(x, Index | Tensor) for x in subexpressions(weight.default))
                left = Tensor(weight.name, () if number else weight.indices, span=weight.span)  # `γ_d? = 1`
                self.right_side(Equation(left, "=", weight.default, span=weight.span), frozenset())

    def instance(self, weight: Weight) -> None:
        """An instance is of a layer that there is."""
        if weight.layer not in self.layers:
            close = find_closest(weight.layer, self.layers)
            self.report("E204", f"no layer `{weight.layer}` is defined", weight, f"`{close}`" if close else "its definition")

    def alone(self, name: str, slots: Iterable[Expression], at: Node) -> None:
        """A tensor without a subscript shares its name space with indices, sizes and scalars (R1)."""
        if not tuple(slots) and (name in self.legend.axes or is_defined(Name(name), self.legend, {})):
            self.report("E202", f"`{name}` is an index, a size or a scalar already", at, "another name")

    def letters(self, slots: Iterable[Expression]) -> bool:
        """Checks that the letters of a head, a weight or a left side are declared, and distinct."""
        opened = [member for slot in slots for member in (slot.members if isinstance(slot, Group) else (slot,))]
        unknown = [x for x in opened if isinstance(x, Index) and self.legend.axis(x.letter) is None]
        found = [report_undeclared(index, self.legend) for index in unknown] + list(find_repeated(opened, self.legend))
        self.findings += found
        return not found

    def output(self) -> None:
        """A body ends with `return`, or defines its output by name, with the axes that the head promises."""
        output, body = self.layer.output, self.layer.body
        returns = [equation for equation in equations(body) if equation.relation == "return"]
        defining = [s for s in body if isinstance(s, Equation) and s.relation != "return" and s.left.name == output.name]
        if not (returns or defining):
            message = f"`{self.layer.name}` neither returns nor defines its output"
            self.report("E105", message, self.layer, "`return …` as its last line")
        for equation in returns:
            if equation is not body[-1]:
                self.report("E105", "this `return` is not the last line of the layer", equation, "one `return`, at the end")
        for equation in () if returns else defining:
            if equation.relation == "=" and isinstance(equation.left, Tensor) and isinstance(output, Tensor):
                self.findings += slots_agree(equation.left, output.slots, output.span, self.legend)

    def never_used(self) -> None:
        """Reports unused names. Runs only if the body is correct otherwise, since an error may hide a use."""
        if self.findings:
            return
        for name, definition in self.defined.items():
            if not definition.used and name != self.layer.output.name:
                code = "E206" if definition.what == "weight" else "E203"
                message = f"the {definition.what} `{name}` is never used"
                self.unused.append(Finding(code, message, definition.span, (), "nothing: delete it"))
        for weight in self.layer.weights:
            if weight.kind == "instance" and weight.name not in self.called and weight.layer in self.layers:
                message = f"the instance `{weight.name}` is never called"
                self.unused.append(Finding("E206", message, weight.span, (), "nothing: delete it"))

    # ------------------------------------------------------------------------------------------------ statements

    def statements(self, body: tuple[Statement, ...], loops: frozenset[str]) -> tuple[Statement, ...]:
        """The statements, elaborated, in the order of the text."""
        return tuple(self.loop(s, loops) if isinstance(s, Loop) else self.equation(s, loops) for s in body)

    def loop(self, loop: Loop, loops: frozenset[str]) -> Loop:
        """Checks a loop and its body. Names defined in it are known only in it."""
        if self.legend.axis(loop.index.letter) is None:
            self.findings.append(report_undeclared(loop.index, self.legend))
        self.findings += list(formula(loop.index.letter, loop.count, self.legend)) or check_count(
            loop.count, "the loop turns {} times", loop.index.letter, self.legend
        )
        if loop.index.letter in loops:
            message = f"`{loop.index.letter}` counts the turns of the loop around already"
            self.report("E202", message, loop.index, "another letter, or a prime")
        before = set(self.defined)
        body = self.statements(loop.body, loops | {loop.index.letter})
        inner = {name: self.defined.pop(name) for name in list(self.defined) if name not in before}
        unused = [(name, definition) for name, definition in inner.items() if not (definition.used or self.findings)]
        for name, definition in unused:
            self.unused.append(Finding("E203", f"`{name}` is never used", definition.span, (), "nothing: delete the line"))
        return replace(loop, body=body)

    def equation(self, equation: Equation, loops: frozenset[str]) -> Equation:
        """Checks an equation, and adds its definition. Elaborates it if it is correct."""
        number_of_findings = len(self.findings)
        self.findings += find_dropped(equation, self.defined, self.legend)
        if equation.relation != "return":
            self.letters(equation.left.slots if isinstance(equation.left, Tensor) else ())
            self.rebinding(equation)
        complete = len(self.findings) == number_of_findings
        elaborated = self.right_side(equation, loops) if complete else equation
        if equation.relation == "=":
            slots = equation.left.slots if isinstance(equation.left, Tensor) else ()
            sound = len(self.findings) == number_of_findings
            used = equation.left.name in self.defined and self.defined[equation.left.name].used
            self.defined[equation.left.name] = Definition(slots if sound else None, equation.left.span, "tensor", used)
        if equation.relation == "return" and equation.left.name in self.defined:
            self.defined[equation.left.name].used = True
        return elaborated

    def rebinding(self, equation: Equation) -> None:
        """`=` defines a new name, `<-` changes an old one that has the same axes (R5)."""
        name, before = equation.left.name, self.defined.get(equation.left.name)
        self.alone(name, equation.left.slots if isinstance(equation.left, Tensor) else (), equation.left)
        if equation.relation == "=" and before is not None:
            fact = f"defined in line {before.span.line}"
            self.report("E202", f"`{name}` is defined already", equation.left, "`<-` to change it, or another name", fact)
        elif equation.relation == "<-" and before is None:
            self.report("E204", f"`<-` changes `{name}`, which is not defined", equation.left, "`=` to define it")
            self.defined[name] = Definition(None, equation.left.span, "tensor", used=True)
        elif before is not None and before.slots is not None and isinstance(equation.left, Tensor):
            self.findings += slots_agree(equation.left, before.slots, before.span, self.legend)

    def right_side(self, equation: Equation, loops: frozenset[str]) -> Equation:
        """Checks names, then slots, then scope. Returns the elaborated equation if it is correct."""
        meant = partial(self.names, equation.left.name)
        inside = list(subexpressions(equation.right))
        found = list(check_names(inside, self.legend, self.known(equation, inside), meant, self.layer.name))
        found = found or list(self.slots(equation, inside, loops))
        found = found or list(self.computed(equation))
        self.mark(inside)
        self.findings += found
        calls = [e for e in inside if isinstance(e, Apply) and e.name in self.callees]
        if found or any(self.callees[call.name].name in self.unsound for call in calls):
            return equation
        scope = Scope(self.callees, loops, self.legend)
        elaborated = scope.equation(equation)
        self.findings += scope.findings or [*self.renamings(calls), *find_unfelt(elaborated.right, scope, self.line)]
        self.lines[equation.left.name] = elaborated
        return elaborated

    def known(self, equation: Equation, inside: list[Expression]) -> dict[str, str]:
        """Returns the names with a subscript that may stand on the right, and the reasons why others may not."""
        names = {x.name: self.later.get(x.name) for x in inside if isinstance(x, Tensor | Name)}
        late = {name: later for name, later in names.items() if later and later.span.start > equation.span.start}
        known = {name: f"it is defined only in line {later.span.line}" for name, later in late.items()}
        known |= dict.fromkeys(self.defined.keys() & names, "")
        return known | ({equation.left.name: ""} if equation.relation == "=" else {})

    def names(self, new: str) -> set[str]:
        """Whatever has a name here, but for the one that is defined."""
        return {*self.defined, *self.later, *self.layers} - {new}

    def mark(self, inside: list[Expression]) -> None:
        """Marks the names that an equation reads as used."""
        for e in inside:
            if isinstance(e, Tensor | Name) and e.name in self.defined:
                definition = self.defined[e.name]
                definition.used |= isinstance(e, Tensor) or not definition.slots  # `H` is a size where `H_de` is a weight
            if isinstance(e, Apply):
                self.called.add(e.name)

    # ----------------------------------------------------------------------------------------------------- slots

    def slots(self, equation: Equation, inside: list[Expression], loops: frozenset[str]) -> Iterator[Finding]:
        """Checks that each tensor on the right has the slots of its definition, over the same axes, and each primitive its
        arguments.
        """
        yield from check_conditions(equation.right, wanted=False)
        for e in inside:
            match e:
                case Tensor():
                    yield from self.tensor(e, equation)
                case Name():
                    yield from self.bare(e, equation)
                case Apply():
                    yield from find_repeated(e.indices, self.legend)
                    yield from () if e.name in self.callees else check_arity(e)
                    yield from self.taken(e, loops) if e.name == "top" and len(e.arguments) == 2 else ()
                case _:
                    pass

    def taken(self, e: Apply, loops: frozenset[str]) -> Iterator[Finding]:
        """Checks the count of `top`: a number of the legend, which may differ between turns of a loop."""
        for part in subexpressions(e.arguments[0]):
            bare = isinstance(part, Name) and (known := self.defined.get(part.name)) is not None and not known.slots
            tensor = isinstance(part, Tensor) and part.name in self.defined
            if bare or tensor or (isinstance(part, Index) and part.letter not in loops):
                fix = "a size, a scalar, or the letter of a loop around"
                yield Finding("E604", "`top` takes as many everywhere, and this may differ", part.span, (), fix)
                return
        yield from check_count(e.arguments[0], "`top` takes {}", e.indices[0].letter, self.legend)

    def computed(self, equation: Equation) -> Iterator[Finding]:
        """Each computed slot holds a whole number, and one inside its axis, as far as numbers decide that (R4)."""
        for slot in self.whole.slots(equation.right):
            if self.whole.needs(slot) is None:
                yield _broken(slot)
        for read in reads(equation.right):
            for slot, over in zip(read.tensor.slots, self.definition(read.tensor.name, equation).slots or (), strict=False):
                if not isinstance(slot, Tensor) and not is_affine(slot):
                    yield _broken(slot)
                elif not isinstance(slot, Index):
                    yield from self.inside(slot, over, read)

    def definition(self, name: str, equation: Equation) -> Definition:
        """Returns the definition of a name that an equation reads: a line above it, the legend, or the equation itself (a
        recurrence).
        """
        scalar, left = self.legend.scalars.get(name), equation.left
        if name in self.defined:
            return self.defined[name]
        if scalar is not None:
            return Definition(scalar.indices, scalar.span, "scalar")
        return Definition(left.slots if isinstance(left, Tensor) else (), left.span, "itself")

    def inside(self, slot: Expression, defined: Expression, read: Read) -> Iterator[Finding]:
        """A computed slot, or each computed member of a group, stays inside its axis.

        Before the start of time is zero, but not in the slots of a look-up.
        """
        members = slot.members if isinstance(slot, Group) else (slot,)
        for member in members:
            over = index_of(member) if isinstance(slot, Group) else defined
            letter = axis_of(over.letter) if isinstance(over, Index) else ""
            if over is None or letter in self.named or isinstance(member, Index) or (letter in self.times and not read.selects):
                continue
            size = self.legend.size(over)
            length = int(size[()]) if size is not None and set(size) == {()} else None
            numbers_there, _ = self.numbers.strays(member, length, read.guards, early=False)
            if numbers_there is not None:
                yield self.leaving(member, numbers_there, letter, read)

    def leaving(self, slot: Expression, at: Mapping[str, int], letter: str, read: Read) -> Finding:
        """A slot leaves its axis where its indices are these numbers."""
        where = ", ".join(f"{name} = {number}" for name, number in at.items())
        message = f"this slot of `{read.tensor.name}` leaves its axis" + (f" at {where}" if where else "")
        facts = [self.legend.describe(letter)] if letter else []
        return Finding("E309", message, slot.span, tuple(facts), "a `where` around it, or another slot")

    def tensor(self, tensor: Tensor, equation: Equation) -> Iterator[Finding]:
        """A tensor has the slots of its definition; its own left side it reads at an earlier position only."""
        definition = self.definition(tensor.name, equation)
        if twice := list(find_repeated(tensor.slots, self.legend)):
            yield from twice
        elif definition.slots is not None:
            yield from slots_agree(tensor, definition.slots, definition.span, self.legend)
            if definition.what == "itself" and not any(map(self.earlier, tensor.slots, definition.slots)):
                yield _not_before(tensor, definition.slots)

    def earlier(self, slot: Expression, own: Expression) -> bool:
        """Returns whether a slot is an earlier position than the index `own`, for all numbers: `(s - 1)`, `(s - W - c)`."""
        if not (isinstance(slot, Sum) and isinstance(own, Index) and own in slot.terms):
            return False
        steps = [term for term in slot.terms if term != own]
        fixed = [term for term in steps if not any(isinstance(x, Index) for x in subexpressions(term))]
        moving = {axis_of(x.letter) for step in steps for x in subexpressions(step) if isinstance(x, Index)}
        try:
            back = bool(fixed) and self.legend.number(Sum(tuple(fixed))) <= -1
        except EinformerError:  # not bound
            back = True
        return back and all(map(_negative, steps)) and axis_of(own.letter) not in moving

    def bare(self, e: Name, equation: Equation) -> Iterator[Finding]:
        """Returns whether a name without a subscript is a size, a scalar, or a tensor without slots (R11)."""
        if not is_defined(e, self.legend, {}):
            definition = self.definition(e.name, equation)
            if definition.slots:
                yield from slots_agree(Tensor(e.name, (), span=e.span), definition.slots, definition.span, self.legend)
            elif definition.what == "itself":
                yield _not_before(e, ())

    def renamings(self, calls: list[Apply]) -> Iterator[Finding]:
        """A call may not rename a letter from whose size the layer derives another (R7)."""
        for call in calls:
            layer = self.callees[call.name]
            renamed = [index for index in call.indices if index.letter not in _loop_letters(self.layer)]
            for formal, _ in zip(layer.indices, renamed, strict=False):
                yield from self.derived(formal, _axes_in(layer), call)

    def derived(self, formal: Index, used: set[str], call: Apply) -> Iterator[Finding]:
        """Returns the other axes of a body whose sizes depend on the size of a letter that the call renames."""
        axis = self.legend.axis(formal.letter)
        for other in filter(None, map(self.legend.axis, used)):
            if axis is not None and other is not axis and _mentions(other, axis):
                message = f"`{call.name}` renames `{formal.letter}`, but its body derives the size of `{other.letter}` from it"
                facts = (self.legend.describe(formal.letter), self.legend.describe(other.letter))
                yield Finding("E404", message, call.span, facts, "a layer of its own over this axis")

    def report(self, code: str, message: str, at: Node, fix: str, *facts: str) -> None:
        """Add a finding."""
        self.findings.append(Finding(code, message, at.span, facts, fix))


def _broken(slot: Expression) -> Finding:
    name = slot.name if isinstance(slot, Tensor) else "n"
    fix = f"`floor(…)` where `{name}` is defined" if isinstance(slot, Tensor) else "a name first: `n_e = …`, then `x_{s n_e}`"
    return Finding("E310", "this slot need not be a whole number", slot.span, (), fix)


# A tensor is read where it is defined, or at a position that is not earlier.
def _not_before(e: Tensor | Name, own: tuple[Expression, ...]) -> Finding:
    slots = zip(e.slots if isinstance(e, Tensor) else (), own, strict=False)
    computed = [slot for slot, index in slots if isinstance(index, Index) and isinstance(slot, Sum) and index in slot.terms]
    where = f"at `{show(computed[0])}`, which need not be an earlier position" if computed else "at the same position"
    fix = f"`<-` to change `{e.name}`, or {'an earlier position such as `(s - 1)`' if own else 'another name'}"
    return Finding("E507", f"`{e.name}` is defined by itself {where}", computed[0].span if computed else e.span, (), fix)


def _negative(e: Expression) -> bool:
    first = e.factors[0] if isinstance(e, Product) else e
    plain = not isinstance(e, Product) or all(isinstance(factor, Number | Name | Index) for factor in e.factors)
    return plain and isinstance(first, Number) and first.value < 0


def _axes_in(layer: Layer) -> set[str]:
    heads = (*(formal.slots for formal in layer.formals), *(weight.indices for weight in layer.weights))
    bodies = (subexpressions(equation.right) for equation in equations(layer.body))
    return {axis_of(x.letter) for x in itertools.chain(*heads, *bodies) if isinstance(x, Index)}


def _loop_letters(layer: Layer) -> set[str]:
    return {loop.index.letter for loop in loops(layer.body)}


# The size of an axis depends on another size.
def _mentions(axis: Axis, other: Axis) -> bool:
    roots = [e for e in (axis.size, axis.default) if e is not None]
    names = {x.name for root in roots for x in subexpressions(root) if isinstance(x, Name)}
    own = {axis.size.name} if isinstance(axis.size, Name) else set()
    return isinstance(other.size, Name) and other.size.name in names - own
