"""Checks the body of a layer line by line: each name is defined, and used as it is defined, with its slots and arguments.

A right side is examined in steps (names, slots, scope); a step runs only where the one before it found nothing.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial

from einformer.errors import EinformerError, Finding, Span
from einformer.language import tree
from einformer.language.calls import axis_of, called_layers, callees, calls, name_instances
from einformer.language.primitives import CONDITIONS, NAMES, NUMERIC, primitive
from einformer.language.printer import PLAIN, show
from einformer.language.scope import Scope, find_unfelt
from einformer.language.sizes import Legend, index_of
from einformer.language.slots import Access, IndexNumbers, Whole, is_affine, reads
from einformer.language.suggestions import check_names, find_closest, is_defined, report_undeclared
from einformer.language.tree import Apply, Axis, Equation, Expression, Group, Index, Layer, Loop, Name, Number, Sum, Tensor
from einformer.language.walk import (
    children,
    equations,
    expressions,
    find_all,
    letters_in,
    loops,
    open_groups,
    slots_of,
    subexpressions,
)

MAXIMUM_TURNS = 10_000  # of a loop; no more does `top` take
# What a note begins with, if that is a factor: a name, and its subscript.
_FACTOR = re.compile(r"[\s\d.(+*-]*([^\W\d_][^\W_]*'*)(?:_(\{[^}]*\}|[\w']+))?")


# Returns the elaborated layer, its findings, and the names that it does not need. Of `layers`, the `weighted` have weights;
# nothing more is said of calls of the `unsound`.
def check_layer(
    layer: Layer, layers: Mapping[str, Layer], legend: Legend, weighted: frozenset[str], unsound: Container[str] = ()
) -> tuple[Layer, list[Finding], list[Finding]]:
    body = _Body(layer, layers, legend, unsound)
    try:
        layer = body.check(weighted)
    except EinformerError as error:  # a size that cannot be multiplied out
        body.findings += error.findings
    return layer, body.findings, body.unused


# A factor after `@` would be dropped as a note: a name with indices of the legend, or the name of a tensor.
def find_dropped(statement: Equation | tree.Scalar, names: Container[str], legend: Legend) -> Iterator[Finding]:
    factor = _FACTOR.match(statement.note)
    letters = re.findall(r"[^\W\d_]'*", (factor[2] or "") if factor else "")
    alone = factor is not None and factor[1] in names and factor[0] == statement.note
    if factor and (alone or (letters and all(map(legend.axis, letters)))):
        source, start = statement.span.source, statement.span.source.text.index("@", statement.span.start)
        message = f"after `@` stands a note, and `{factor[0].strip()}` would be dropped with it"
        fix = f"factors side by side, `… {factor[0].strip()}`; or a note that begins with a word"
        yield Finding("E108", message, Span(source, start, start + 1), fix=fix)


# A size, a scalar or a count is a function of numbers, without operators and sums; it may lack some of its indices.
def check_formula(name: str, e: Expression, legend: Legend, indices: tuple[Index, ...] = ()) -> Iterator[Finding]:
    if isinstance(e, Number) or (isinstance(e, Name) and e.name in legend.letters):
        return
    used = letters_in(e)
    slots = tuple(index for index in indices if index.letter in used)
    left = Tensor(name, slots, span=e.span) if slots else Name(name, span=e.span)
    body = _Body(Layer("", (), (), left, (), ()), {}, legend)
    elaborated = body.check_right(Equation(left, "=", e, span=e.span), frozenset())
    yield from body.findings
    for x in subexpressions(elaborated.right):
        if isinstance(x, Apply) and (x.indices or x.name not in NUMERIC):
            fix = "numbers, sizes, scalars and functions of them"
            yield Finding("E604", f"`{x.name}`{' over an index' * bool(x.indices)} cannot stand in the legend", x.span, (), fix)


# Returns the errors of a line alone, where these names are defined, inside loops over these letters. Nothing is said of the
# numbers at which a slot leaves its axis.
def check_line(equation: Equation, defined: dict[str, Definition], legend: Legend, loops: frozenset[str]) -> list[Finding]:
    left, formals = equation.left, tuple(Tensor(name, (), span=own.span) for name, own in defined.items())
    named = tuple(Index(letter) for letter in {axis_of(x.letter) for x in find_all(Index, equation.right)})
    body = _Body(Layer("", named, formals, left, (), ()), {}, legend)
    body.defined |= defined
    body.check_letters(slots_of(left))
    own = defined.get(left.name)
    if isinstance(left, Tensor) and own is not None and own.slots is not None:
        body.findings += body.find_disagreement(left, own.slots, own.span)
    body.check_right(equation, loops)
    return body.findings


# The same index in two slots would read a diagonal, which nobody means.
def find_repeated(slots: Iterable[Expression], legend: Legend) -> Iterator[Finding]:
    seen: set[str] = set()
    for index in open_groups(slots):
        if isinstance(index, Index):
            if index.letter in seen:
                message, fact = f"`{index.letter}` stands twice on one tensor", legend.describe(index.letter)
                yield Finding("E305", message, index.span, (fact,), f"`{index.letter}'` for the second")
            seen.add(index.letter)


@dataclass(slots=True)
class Definition:
    """The definition of a name with a subscript."""

    slots: tuple[Expression, ...] | None  # None after an error in the definition: nothing more is said of it
    span: Span
    what: str
    used: bool = False


class _Body:
    def __init__(self, layer: Layer, layers: Mapping[str, Layer], legend: Legend, unsound: Container[str] = ()) -> None:
        self.layer, self.layers, self.legend, self.unsound = layer, layers, legend, unsound
        self.callees = callees(layer, layers)
        self.times = frozenset(axis_of(other.time.letter) for other in layers.values() if other.time)
        self.named = {axis_of(index.letter) for index in layer.indices}  # axes whose size a call chooses
        self.findings: list[Finding] = []
        self.unused: list[Finding] = []
        self.defined: dict[str, Definition] = {}
        self.later = {equation.left.name: equation for equation in equations(layer.body)}
        self.called: set[str] = set()
        self.turns: dict[str, Expression] = {}  # how many turns the loop over each letter has
        self.lines: dict[str, Equation] = {}  # elaborated, by what they define

    @cached_property
    def once(self) -> set[str]:  # tensors of letters that one line defines, and one expression reads
        lines = list(equations(self.layer.body))
        count = Counter(q.left.name for q in lines)
        count.update(x.name for q in lines for x in find_all(Tensor, q.right))
        return {q.left.name for q in lines if count[q.left.name] == 2 and all(isinstance(x, Index) for x in slots_of(q.left))}

    def line(self, e: Tensor) -> Equation | None:
        return self.lines.get(e.name) if e.name in self.once else None

    @cached_property
    def whole(self) -> Whole:
        return Whole(self.layer, self.layers, self.legend)

    @cached_property
    def numbers(self) -> IndexNumbers:
        return IndexNumbers.of(self.layer, self.legend, self.times)

    def check(self, weighted: frozenset[str]) -> Layer:
        self.check_head()
        self.check_weights()
        body = self.check_statements(self.layer.body, frozenset())
        self.check_output()
        self.find_unused()
        layer, missing = name_instances(replace(self.layer, body=body), weighted)
        self.findings = self.findings or missing
        return layer

    def report(self, code: str, message: str, place: tree.Node, fix: str, *facts: str) -> None:
        self.findings.append(Finding(code, message, place.span, facts, fix))

    # --------------------------------------------------------------------------------------------- declarations

    def check_head(self) -> None:
        for formal in self.layer.formals:
            if formal.name in self.defined:
                self.report("E202", f"the input `{formal.name}` is declared twice", formal, "another name")
            self.declare(formal.name, formal.slots, formal, "input")
        self.check_letters(slots_of(self.layer.output))
        self.check_letters(self.layer.indices)
        self.check_letters(() if self.layer.time is None else (self.layer.time,))
        used = _find_axes(self.layer) if self.layer.indices else set()
        for index in self.layer.indices:
            if axis_of(index.letter) not in used:
                self.report("E203", f"`{self.layer.name}` names `{index.letter}` and never uses it", index, "a head without it")

    def check_weights(self) -> None:
        for weight in self.layer.weights:
            if weight.name in self.defined or weight.name in NAMES:
                self.report("E202", f"the weight `{weight.name}` is declared twice", weight, "another name")
            elif weight.kind != "instance":
                self.declare(weight.name, weight.indices, weight, "weight")
            elif weight.layer not in self.layers:
                close = find_closest(weight.layer, self.layers)
                fix = f"`{close}`" if close else "its definition"
                self.report("E204", f"no layer `{weight.layer}` is defined", weight, fix)
        for weight in self.layer.weights:
            if weight.default is not None:
                number = weight.optional and not any(isinstance(x, Index | Tensor) for x in subexpressions(weight.default))
                left = Tensor(weight.name, () if number else weight.indices, span=weight.span)  # `γ_d? = 1`
                self.check_right(Equation(left, "=", weight.default, span=weight.span), frozenset())

    def declare(self, name: str, slots: tuple[Expression, ...], node: Tensor | tree.Weight, what: str) -> None:
        self.check_alone(name, slots, node)
        self.defined[name] = Definition(slots if self.check_letters(slots) else None, node.span, what)

    # A tensor without a subscript shares its name space with indices, sizes and scalars (R1).
    def check_alone(self, name: str, slots: tuple[Expression, ...], node: tree.Node) -> None:
        if not slots and (name in self.legend.axes or is_defined(Name(name), self.legend, {})):
            self.report("E202", f"`{name}` is an index, a size or a scalar already", node, "another name")

    def check_letters(self, slots: Iterable[Expression]) -> bool:
        opened = open_groups(slots)
        unknown = (x for x in opened if isinstance(x, Index) and self.legend.axis(x.letter) is None)
        wrong = [*(report_undeclared(index, self.legend) for index in unknown), *find_repeated(opened, self.legend)]
        self.findings += wrong
        return not wrong

    # A body ends with `return`, or defines its output by name, with the axes that the head promises.
    def check_output(self) -> None:
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
                self.findings += self.find_disagreement(equation.left, output.slots, output.span)

    # Only in a body that is correct otherwise, since an error may hide a use.
    def find_unused(self) -> None:
        if self.findings:
            return
        for name, definition in self.defined.items():
            if not definition.used and name != self.layer.output.name:
                code = "E206" if definition.what == "weight" else "E203"
                self.leave(code, f"the {definition.what} `{name}` is never used", definition.span, "it")
        for weight in self.layer.weights:
            if weight.kind == "instance" and weight.name not in self.called and weight.layer in self.layers:
                self.leave("E206", f"the instance `{weight.name}` is never called", weight.span, "it")

    def leave(self, code: str, message: str, span: Span, what: str) -> None:
        self.unused.append(Finding(code, message, span, (), f"nothing: delete {what}"))

    # ------------------------------------------------------------------------------------------------ statements

    def check_statements(self, body: tuple[tree.Statement, ...], loops: frozenset[str]) -> tuple[tree.Statement, ...]:
        return tuple(self.check_loop(s, loops) if isinstance(s, Loop) else self.check_equation(s, loops) for s in body)

    # Names that a loop defines are known only in it.
    def check_loop(self, loop: Loop, loops: frozenset[str]) -> Loop:
        letter = loop.index.letter
        if self.legend.axis(letter) is None:
            self.findings.append(report_undeclared(loop.index, self.legend))
        wrong = list(check_formula(letter, loop.count, self.legend))
        self.findings += wrong or self.check_number(loop.count, "the loop turns {} times", letter)
        self.turns[letter] = loop.count
        if letter in loops:
            self.report(
                "E202", f"`{letter}` counts the turns of the loop around already", loop.index, "another letter, or a prime"
            )
        before = set(self.defined)
        body = self.check_statements(loop.body, loops | {letter})
        for name in [name for name in self.defined if name not in before]:
            definition = self.defined.pop(name)
            if not (definition.used or self.findings):
                self.leave("E203", f"`{name}` is never used", definition.span, "the line")
        return replace(loop, body=body)

    # How often a loop turns, how many `top` takes, or how likely `Dr` drops, once that is known, in each turn: a whole number
    # and not one without end, or a probability.
    def check_number(self, e: Expression, says: str, letter: str = "") -> Iterator[Finding]:
        letters = [x for x in self.turns if any(part.letter == x for part in find_all(Index, e))]
        try:
            turns = [range(int(self.legend.number(self.turns[x]))) for x in letters]
            numbers = [self.legend.number(e, dict(zip(letters, turn, strict=True))) for turn in itertools.product(*turns)]
        except EinformerError as error:
            yield from (finding for finding in error.findings if finding.code not in ("E204", "E601"))
            return
        most, fix = (MAXIMUM_TURNS, f"a whole number, 0 … {MAXIMUM_TURNS:,}") if letter else (1, "a number, 0 … 1")
        wrong = [number for number in numbers if not 0 <= number <= most or (letter and number != int(number))]
        for number in wrong[:1]:
            about = (self.legend.describe(letter),) if letter else ()
            yield Finding("E604", says.format(f"{float(number):g}"), e.span, about, fix)

    def check_equation(self, equation: Equation, loops: frozenset[str]) -> Equation:
        before, name, slots = len(self.findings), equation.left.name, slots_of(equation.left)
        self.findings += find_dropped(equation, self.defined, self.legend)
        if equation.relation != "return":
            self.check_letters(slots)
            self.check_relation(equation, slots)
        elaborated = self.check_right(equation, loops) if len(self.findings) == before else equation
        used = name in self.defined and self.defined[name].used
        if equation.relation == "=":
            sound = len(self.findings) == before
            self.defined[name] = Definition(slots if sound else None, equation.left.span, "tensor", used)
        if equation.relation == "return" and name in self.defined:
            self.defined[name].used = True
        return elaborated

    # `=` defines a new name, `<-` changes an old one that has the same axes (R5).
    def check_relation(self, equation: Equation, slots: tuple[Expression, ...]) -> None:
        left, name, before = equation.left, equation.left.name, self.defined.get(equation.left.name)
        self.check_alone(name, slots, left)
        if equation.relation == "=" and before is not None:
            fact = f"defined in line {before.span.line}"
            self.report("E202", f"`{name}` is defined already", left, "`<-` to change it, or another name", fact)
        elif equation.relation == "<-" and before is None:
            self.report("E204", f"`<-` changes `{name}`, which is not defined", left, "`=` to define it")
            self.defined[name] = Definition(None, left.span, "tensor", used=True)
        elif before is not None and before.slots is not None and isinstance(left, Tensor):
            self.findings += self.find_disagreement(left, before.slots, before.span)

    def check_right(self, equation: Equation, loops: frozenset[str]) -> Equation:
        inside, names = list(subexpressions(equation.right)), partial(self.list_names, equation.left.name)
        wrong = list(check_names(inside, self.legend, self.list_readable(equation, inside), names, self.layer.name))
        wrong = wrong or list(self.check_slots(equation, inside, loops)) or list(self.check_computed(equation))
        self.mark(inside)
        self.findings += wrong
        calls = [e for e in inside if isinstance(e, Apply) and e.name in self.callees]
        if wrong or any(self.callees[call.name].name in self.unsound for call in calls):
            return equation
        scope = Scope(self.callees, loops, self.legend)
        elaborated = scope.equation(equation)
        self.findings += scope.findings or [*self.check_renamings(calls), *find_unfelt(elaborated.right, scope, self.line)]
        self.lines[equation.left.name] = elaborated
        return elaborated

    # The names with a subscript that may stand on the right, and why others may not: what is wrong, a fact, what to write.
    def list_readable(self, equation: Equation, inside: list[Expression]) -> dict[str, tuple[str, ...]]:
        names = {x.name: self.later.get(x.name) for x in inside if isinstance(x, Tensor | Name)}
        readable: dict[str, tuple[str, ...]] = {name: _locate(equation, other) for name, other in names.items() if other}
        readable |= dict.fromkeys(self.defined.keys() & names, ())
        return readable | ({equation.left.name: ()} if equation.relation == "=" else {})

    def list_names(self, new: str) -> set[str]:
        return {*self.defined, *self.later, *self.layers} - {new}

    def mark(self, inside: list[Expression]) -> None:
        for e in inside:
            if isinstance(e, Tensor | Name) and e.name in self.defined:
                definition = self.defined[e.name]
                definition.used |= isinstance(e, Tensor) or not definition.slots  # `H` is a size where `H_de` is a weight
            if isinstance(e, Apply):
                self.called.add(e.name)

    # ----------------------------------------------------------------------------------------------------- slots

    def check_slots(self, equation: Equation, inside: list[Expression], loops: frozenset[str]) -> Iterator[Finding]:
        yield from _check_conditions(equation.right, wanted=False)
        for e in inside:
            match e:
                case Tensor() | Name():
                    yield from self.check_read(e, equation)
                case Apply():
                    yield from find_repeated(e.indices, self.legend)
                    yield from () if e.name in self.callees else _check_arity(e)
                    if len(e.arguments) == 2 and e.name == "top":
                        wrong = list(self.check_fixed(e.arguments[0], loops, "`top` takes as many everywhere", bare=False))
                        yield from wrong or self.check_number(e.arguments[0], "`top` takes {}", e.indices[0].letter)
                    elif e.name == "Dr":
                        probability = e.arguments[1] if len(e.arguments) == 2 else Name("p", span=e.span)
                        yield from self.check_probability(probability, loops, known=True)
                    elif (layer := self.callees.get(e.name)) is not None:
                        dropping = _find_probabilities(layer, self.callees)
                        for formal, argument in zip(layer.formals, e.arguments, strict=False):
                            if formal.name in dropping:
                                yield from self.check_probability(argument, loops, known=dropping[formal.name])
                case _:
                    pass

    def check_probability(self, e: Expression, loops: frozenset[str], known: bool) -> Iterator[Finding]:
        wrong = list(self.check_fixed(e, loops, "`Dr` drops with one probability everywhere"))
        yield from wrong or (self.check_number(e, "`Dr` drops with probability {}") if known else ())

    # A number of the legend, which may differ between turns of a loop; a `bare` name may be a number too.
    def check_fixed(self, e: Expression, loops: frozenset[str], says: str, bare: bool = True) -> Iterator[Finding]:
        for part in subexpressions(e):
            named = isinstance(part, Name) and part.name in self.defined and not self.defined[part.name].slots and not bare
            tensor = isinstance(part, Tensor) and part.name in self.defined
            if named or tensor or (isinstance(part, Index) and part.letter not in loops):
                fix = "a size, a scalar, or the letter of a loop around"
                yield Finding("E604", f"{says}, and this may differ", part.span, (), fix)
                return

    # A line above, the legend, or the equation itself (a recurrence).
    def find_definition(self, name: str, equation: Equation) -> Definition:
        if name in self.defined:
            return self.defined[name]
        if (scalar := self.legend.scalars.get(name)) is not None:
            return Definition(scalar.indices, scalar.span, "scalar")
        return Definition(slots_of(equation.left), equation.left.span, "itself")

    # A name is read with the slots of its definition; its own left side it reads at an earlier position only.
    def check_read(self, e: Tensor | Name, equation: Equation) -> Iterator[Finding]:
        if isinstance(e, Name) and is_defined(e, self.legend, {}):
            return
        definition, slots = self.find_definition(e.name, equation), slots_of(e)
        if twice := list(find_repeated(slots, self.legend)):
            yield from twice
        elif definition.slots is not None:
            yield from self.find_disagreement(e, definition.slots, definition.span, _find_choosing(e, equation.right))
            itself = definition.what == "itself" and len(slots) == len(definition.slots)
            if itself and not any(map(self.is_earlier, slots, definition.slots)):
                yield _report_itself(e, definition.slots)

    # `(s - 1)` and `(s - W - c)` are earlier than `s`, for all numbers.
    def is_earlier(self, slot: Expression, own: Expression) -> bool:
        if not (isinstance(slot, Sum) and isinstance(own, Index) and own in slot.terms):
            return False
        steps = [term for term in slot.terms if term != own]
        fixed = [term for term in steps if not any(find_all(Index, term))]
        moving = {axis_of(x.letter) for x in find_all(Index, *steps)}
        try:
            back = bool(fixed) and self.legend.number(Sum(tuple(fixed))) <= -1
        except EinformerError:  # not bound
            back = True
        return back and all(map(_is_negative, steps)) and axis_of(own.letter) not in moving

    # As many slots as the definition has, each over its axis.
    # Letters by which a `where` around chooses may stand for a number.
    def find_disagreement(
        self, e: Tensor | Name, slots: tuple[Expression, ...], span: Span, choosing: Container[str] = ()
    ) -> Iterator[Finding]:
        spelled = f"`{PLAIN.tensor(e.name, slots)}`"
        if len(slots_of(e)) != len(slots):
            facts = (f"defined as {spelled} ({span})", *self.describe(*slots))
            yield Finding("E304", f"`{e.name}` has {len(slots)} slots, here are {len(slots_of(e))}", e.span, facts, spelled)
            return
        for slot, own in zip(slots_of(e), slots, strict=True):
            if slot != own and (finding := self.compare_slots(e, slot, own, choosing)):
                yield replace(finding, facts=(f"defined as {spelled} ({span})", *finding.facts, *self.describe(own, slot)))
                return  # two letters that changed places are one slip

    def compare_slots(self, e: Tensor | Name, slot: Expression, own: Expression, choosing: Container[str]) -> Finding | None:
        if isinstance(slot, Index) and isinstance(own, Index):
            if self.legend.are_apart(slot.letter, own.letter) and not self.is_bounded(slot, own):
                enclosed = slot.span.source.text[slot.span.start - 1 : slot.span.start] == "("
                fix = f"`{own.letter}`, or a prime of it"
                if enclosed or slot.letter in choosing:
                    numbered = tuple(Sum((part, Number(0))) if part is slot else part for part in slots_of(e))
                    number = f"`{PLAIN.tensor(e.name, numbered)}`, where a `where` keeps the number of `{slot.letter}` inside"
                    fix = f"{number}; or {fix}" if slot.letter in choosing else f"{fix}; or {number}"
                message = f"this slot of `{e.name}` runs over `{axis_of(own.letter)}`, not over `{axis_of(slot.letter)}`"
                return Finding("E307", message, slot.span, (), fix)
        elif isinstance(slot, Index | Group) and not self.legend.fits(slot, own):
            here, there = f"`{PLAIN.slot(slot)}`", f"`{PLAIN.slot(own)}`"
            sizes = f"{here} has {self.legend.spell(slot)}, {there} has {self.legend.spell(own)}"
            fix = "a group whose sizes multiply to that of the axis, or a size that says so, `e: H = D / A`"
            return Finding("E308", f"{here} does not provably have the size of {there}", slot.span, (sizes,), fix)
        return None

    # `P_sd` reads `P_kd`, because the legend says `s: S <= K`.
    def is_bounded(self, index: Index, own: Index) -> bool:
        inner, outer = self.legend.axis(index.letter), self.legend.axis(own.letter)
        return inner is not None and outer is not None and inner.bound is not None and inner.bound == outer.size

    def describe(self, *slots: Expression) -> Iterator[str]:
        return map(self.legend.describe, dict.fromkeys(axis_of(x.letter) for x in find_all(Index, *slots)))

    # Each computed slot holds a whole number, and one inside its axis, as far as numbers decide that (R4).
    def check_computed(self, equation: Equation) -> Iterator[Finding]:
        for slot in self.whole.slots(equation.right):
            if self.whole.needs(slot) is None:
                yield _report_broken(slot)
        for read in reads(equation.right):
            own = self.find_definition(read.tensor.name, equation).slots or ()
            for slot, over in zip(read.tensor.slots, own, strict=False):
                if not isinstance(slot, Tensor) and not is_affine(slot):
                    yield _report_broken(slot)
                elif isinstance(slot, Group):
                    for member in slot.members:
                        yield from self.check_inside(member, index_of(member), read)
                else:
                    yield from self.check_inside(slot, over, read)

    # Before the start of time is zero, but not in the slots of a look-up.
    def check_inside(self, slot: Expression, over: Expression | None, read: Access) -> Iterator[Finding]:
        letter = axis_of(over.letter) if isinstance(over, Index) else ""
        if isinstance(slot, Index) or over is None or letter in self.named or (letter in self.times and not read.selects):
            return
        size = self.legend.size(over)
        length = int(size[()]) if size is not None and set(size) == {()} else None
        numbers, _ = self.numbers.strays(slot, length, read.guards, early=False)
        if numbers is not None:
            where = ", ".join(f"{name} = {number}" for name, number in numbers.items())
            message = f"this slot of `{read.tensor.name}` leaves its axis" + (f" at {where}" if where else "")
            facts = (self.legend.describe(letter),) if letter else ()
            yield Finding("E309", message, slot.span, facts, "a `where` around it, or another slot")

    # A call may not rename a letter from whose size the layer derives another (R7).
    def check_renamings(self, called: list[Apply]) -> Iterator[Finding]:
        turning = {loop.index.letter for loop in loops(self.layer.body)}
        for call in called:
            layer = self.callees[call.name]
            renamed = [index for index in call.indices if index.letter not in turning]
            for formal, actual in zip(layer.indices, renamed, strict=False):
                axis = self.legend.axis(formal.letter)
                for other in filter(None, map(self.legend.axis, _find_axes(layer))):
                    if axis is not None and other is not axis and _mentions(other, axis):
                        derived = f"its body derives the size of `{other.letter}` from it"
                        message = f"`{call.name}` renames `{formal.letter}`, but {derived}"
                        facts = tuple(map(self.legend.describe, (formal.letter, other.letter)))
                        yield Finding("E404", message, call.span, facts, "a layer of its own over this axis")
                group = _find_group(layer, formal.letter, self.callees)
                if group and not self.legend.fits(actual, formal):
                    message = f"`{call.name}` renames `{formal.letter}`, but its body reads `{PLAIN.slot(group)}` over it"
                    facts = tuple(map(self.legend.describe, (formal.letter, actual.letter)))
                    yield Finding("E404", message, call.span, facts, "a layer of its own over this axis")


# The letters of the conditions around a tensor.
def _find_choosing(e: Tensor | Name, right: Expression) -> set[str]:
    choices = (x for x in find_all(Apply, right) if x.name == "where" and len(x.arguments) == 3)
    around = (x for x in choices if any(part is e for arm in x.arguments[1:] for part in subexpressions(arm)))
    return letters_in(*(x.arguments[0] for x in around))


# The inputs of a layer on which hangs how likely it drops, or a layer that it calls; with whether one is that probability.
def _find_probabilities(layer: Layer, layers: Mapping[str, Layer]) -> dict[str, bool]:
    read = [(call.arguments[1], True) for call in calls(layer) if call.name == "Dr" and len(call.arguments) == 2]
    for call, inner in called_layers(layer, layers):
        own = _find_probabilities(inner, layers)
        pairs = zip(inner.formals, call.arguments, strict=False)
        read += [(argument, own[formal.name]) for formal, argument in pairs if formal.name in own]
    probabilities = dict[str, bool]()
    for e, certain in read:
        for part in subexpressions(e):
            if isinstance(part, Name):
                probabilities[part.name] = probabilities.get(part.name, True) and certain and part is e
    for equation in reversed([*equations(layer.body)]):
        if equation.left.name in probabilities:
            probabilities |= {part.name: False for part in find_all(Name, equation.right)}
    return {formal.name: probabilities[formal.name] for formal in layer.formals if formal.name in probabilities}


# As many arguments as the row of the primitive says, with or without an index.
def _check_arity(e: Apply) -> Iterator[Finding]:
    row, other = primitive(e.name, bool(e.indices)), primitive(e.name, not e.indices)
    if other is not None and (row is None or len(e.arguments) in {*other.arity} - {*row.arity}):
        fix = f"`{e.name}(…)`" if e.indices else f"`{e.name}_…` with the index that it is over"
        yield Finding("E405", f"`{e.name}` {'takes no' if e.indices else 'needs an'} index here", e.span, (), fix)
    elif row is not None and len(e.arguments) not in row.arity:
        message = f"`{e.name}` takes {' or '.join(map(str, row.arity))} arguments, here are {len(e.arguments)}"
        yield Finding("E401", message, e.span, (), f"{row.arity[0]} in parentheses")


# `where`, `and`, `or` and `not` take conditions; everything else takes numbers (R8).
def _check_conditions(e: Expression, wanted: bool) -> Iterator[Finding]:
    is_condition = isinstance(e, Apply) and e.name in CONDITIONS
    if is_condition != wanted:
        message = "a number stands here, and a condition is needed" if wanted else "a condition is not a number"
        fix = "a comparison, such as `s' <= s`, or `top`" if wanted else "`where(…, 1, 0)` around the condition"
        yield Finding("E407", message, e.span, (), fix)
        return
    for number, child in enumerate(children(e)):
        logical = isinstance(e, Apply) and (e.name in ("and", "or", "not") or (e.name == "where" and number == 0))
        yield from _check_conditions(child, logical)


def _report_broken(slot: Expression) -> Finding:
    name = slot.name if isinstance(slot, Tensor) else "n"
    fix = f"`floor(…)` where `{name}` is defined" if isinstance(slot, Tensor) else "a name first: `n_e = …`, then `x_{s n_e}`"
    return Finding("E310", "this slot need not be a whole number", slot.span, (), fix)


# A tensor is read where it is defined, or at a position that is not earlier.
def _report_itself(e: Tensor | Name, own: tuple[Expression, ...]) -> Finding:
    slots = zip(slots_of(e), own, strict=False)
    computed = [slot for slot, index in slots if isinstance(index, Index) and isinstance(slot, Sum) and index in slot.terms]
    where = f"at `{show(computed[0])}`, which need not be an earlier position" if computed else "at the same position"
    fix = f"`<-` to change `{e.name}`, or {'an earlier position such as `(s - 1)`' if own else 'another name'}"
    return Finding("E507", f"`{e.name}` is defined by itself {where}", computed[0].span if computed else e.span, (), fix)


def _is_negative(e: Expression) -> bool:
    first = e.factors[0] if isinstance(e, tree.Product) else e
    plain = not isinstance(e, tree.Product) or all(isinstance(factor, Number | Name | Index) for factor in e.factors)
    return plain and isinstance(first, Number) and first.value < 0


def _find_axes(layer: Layer) -> set[str]:
    return {axis_of(index.letter) for e in expressions(layer) for index in find_all(Index, e)}


# A group that lies along an axis of a letter in a body, or in one that it calls, and fits by the size of that letter alone.
def _find_group(layer: Layer, letter: str, layers: Mapping[str, Layer]) -> Group | None:
    written = defaultdict[str, list[tuple[Expression, ...]]](list)
    lefts = [equation.left for equation in equations(layer.body)]
    weights = [Tensor(weight.name, weight.indices) for weight in layer.weights]
    for tensor in (*layer.formals, layer.output, *weights, *lefts, *(x for e in expressions(layer) for x in subexpressions(e))):
        if isinstance(tensor, Tensor):
            written[tensor.name].append(tensor.slots)
    for forms in written.values():
        for along in itertools.zip_longest(*forms):
            group = next((slot for slot in along if isinstance(slot, Group)), None)
            if group and any(isinstance(slot, Index) and axis_of(slot.letter) == axis_of(letter) for slot in along):
                return group
    for call, inner in called_layers(layer, layers):
        names = {axis_of(actual.letter): formal.letter for formal, actual in zip(inner.indices, call.indices, strict=False)}
        if group := _find_group(inner, names.get(axis_of(letter), letter), layers):
            return group
    return None


# The size of an axis depends on another size.
def _mentions(axis: Axis, other: Axis) -> bool:
    roots = [e for e in (axis.size, axis.default) if e is not None]
    names = {x.name for x in find_all(Name, *roots)}
    own = {axis.size.name} if isinstance(axis.size, Name) else set()
    return isinstance(other.size, Name) and other.size.name in names - own


# Why a name that the line `other` defines means nothing in an equation: that line stands later, or in a loop that has ended.
def _locate(equation: Equation, other: Equation) -> tuple[str, str, str]:
    name, line = other.left.name, f"in line {other.span.line}"
    if other.span.start > equation.span.start:
        return f"`{name}` is used before its definition", f"it is defined only {line}", "its definition first"
    fix = f"a definition before the loop, and `{show(other.left)} <- …` inside"
    return f"`{name}` exists only inside a loop", f"each turn defines its own, {line}", fix
