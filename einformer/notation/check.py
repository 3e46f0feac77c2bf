"""Is a specification well formed: every name declared and used, every index, slot and sum as the rules say?

`check` returns the elaborated spec (each sum explicit, each instance named) and all findings. An equation is examined in
steps (names, slots, scope); a step runs only where the one before it found nothing, so that one slip gives one message.
"""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from einformer.errors import EinformerError, Finding, Span
from einformer.notation.calls import axis_of
from einformer.notation.instances import callees, calls, name_instances, with_weights
from einformer.notation.parser import MAXIMUM_FINDINGS, resolve_layer
from einformer.notation.primitives import CONDITIONS, CONSTANTS, NAMES, primitive
from einformer.notation.recursion import check_references
from einformer.notation.scope import Scope
from einformer.notation.sizes import Legend, Value, index_of
from einformer.notation.slots import Read, is_affine, leaves, reads
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
    Node,
    Number,
    Product,
    Scalar,
    Spec,
    Statement,
    Sum,
    Tensor,
    Weight,
)
from einformer.notation.walk import children, equations, loops, subexpressions

_EMPTY = Spec("", (), (), ())
MAXIMUM_TURNS = 10_000  # of a loop; no more does `top` take
_OF_A_DECLARATION = ("E201", "E204", "E304", "E307", "E308")


def check(
    spec: Spec, prelude: Spec = _EMPTY, values: Mapping[str, Value] | None = None, origins: Mapping[str, str] | None = None
) -> tuple[Spec, tuple[Finding, ...]]:
    """The elaborated spec and every finding in the order of the text; layers it calls from `prelude` become its own.

    With `values`, the sizes bound, groups and axes are compared as numbers; `origins` say where each came from.
    """
    spec = with_prelude(spec, prelude)
    try:
        check_references(spec)
    except EinformerError as error:
        return spec, error.findings
    legend = Legend.of(spec, values, origins)
    findings = list(_declarations(spec, legend))
    layers = {layer.name: layer for layer in reversed(spec.layers)}
    weighted = with_weights(layers)
    checked, unsound = [], set[str]()
    for layer in spec.layers:
        body = _Body(layer, layers, legend, frozenset(unsound))
        try:
            checked.append(body.checked(weighted))
        except EinformerError as error:  # a size that cannot be multiplied out
            checked.append(layer)
            body.findings += error.findings
        findings += body.findings
        unsound |= {layer.name} if body.findings else set()
    elaborated = replace(spec, layers=tuple(checked))
    findings = findings or list(_unused(spec))
    if not findings and any(layer.time for layer in spec.layers):
        from einformer.notation.causality import check_causality  # numpy is loaded only where a model has a time axis

        findings += check_causality(elaborated, legend)
    findings.sort(key=lambda finding: (finding.span.source is not spec.span.source, finding.span.start))
    return elaborated, tuple(_first_places(findings)[:MAXIMUM_FINDINGS])


def _first_places(findings: Iterable[Finding]) -> list[Finding]:
    """Each finding once; of those that say what one declaration lacks or is, the first of the places that need it."""
    first: dict[tuple[str, str, Span | None], Finding] = {}
    for finding in findings:
        place = None if finding.code in _OF_A_DECLARATION else finding.span
        first.setdefault((finding.code, finding.message, place), finding)
    return list(first.values())


def with_prelude(spec: Spec, prelude: Spec) -> Spec:
    """The spec with the layers of the prelude that it calls, directly or not, and does not define itself."""
    letters = {axis.letter for axis in spec.axes}
    available = {layer.name: layer for layer in prelude.layers}
    layers = {layer.name: layer for layer in spec.layers}
    wanted = list(layers.values())
    for layer in wanted:
        names = [call.name for call in calls(layer)] + [w.layer for w in layer.weights]
        for name in names:
            if name in available and name not in layers:
                layers[name] = resolve_layer(available[name], letters)
                wanted.append(layers[name])
    own = {layer.name for layer in spec.layers}
    added = [layer for name, layer in layers.items() if name not in own]
    return replace(spec, layers=(*added, *spec.layers))


# ------------------------------------------------------------------------------------------------------- the legend


def _declarations(spec: Spec, legend: Legend) -> Iterator[Finding]:
    """Names declared once, sizes made of declared letters, nothing that looks like something else."""
    yield from _twice("axis", ((axis.letter, axis) for axis in spec.axes))
    sizes = ((axis.size.name, axis) for axis in spec.axes if isinstance(axis.size, Name))
    yield from _twice("size or scalar", (*sizes, *((scalar.name, scalar) for scalar in spec.scalars)))
    yield from _twice("layer", ((layer.name, layer) for layer in spec.layers))
    for axis in spec.axes:
        for size in (e for e in (axis.size, axis.default, axis.bound) if e is not None):
            yield from _formula(axis.letter, size, legend)
    for name in sorted(legend.letters()):
        if not (len(name) == 1 and name.isupper()):
            yield from _size_name(name, spec)
    for scalar in spec.scalars:
        yield from _scalar(scalar, legend)
    yield from _look_alikes(spec)


def _twice(what: str, declared: Iterable[tuple[str, Node]]) -> Iterator[Finding]:
    first: dict[str, Node] = {}
    for name, node in declared:
        earlier = first.setdefault(name, node)
        if earlier is not node:
            fact = f"first in line {earlier.span.line}"
            yield Finding("E202", f"the {what} `{name}` is declared twice", node.span, (fact,), "another letter, or a prime")
        elif name in NAMES or name in CONSTANTS:
            yield Finding("E202", f"`{name}` is a name of the language", node.span, (), "another name")


def _legend_expressions(spec: Spec) -> Iterator[Expression]:
    for axis in spec.axes:
        yield from (e for e in (axis.default, axis.bound) if e is not None)
        yield from () if isinstance(axis.size, Name) else (axis.size,)
    for scalar in spec.scalars:
        yield from () if isinstance(scalar.value, tuple) else (scalar.value,)


def _size_name(name: str, spec: Spec) -> Iterator[Finding]:
    """A size is one upper-case letter; anything else in the axes is a slip."""
    for e in (x for root in _legend_expressions(spec) for x in subexpressions(root)):
        if isinstance(e, Name) and e.name == name:
            yield Finding("E204", f"no size or scalar `{name}` is declared", e.span, (), "an upper-case letter for a size")


def _scalar(scalar: Scalar, legend: Legend) -> Iterator[Finding]:
    """A scalar's indices are declared; it is a formula of them, or a list over its only one."""
    undeclared = [_undeclared(index, legend) for index in scalar.indices if legend.axis(index.letter) is None]
    yield from undeclared or _repeated(scalar.indices, legend)
    if not isinstance(scalar.value, tuple):
        yield from _formula(scalar.name, scalar.value, legend, scalar.indices)
    elif len(scalar.indices) != 1:
        message = f"`{scalar.name}` is a list, and has {len(scalar.indices)} indices"
        yield Finding("E606", message, scalar.span, (), f"`{scalar.name}_l = [ … ]`, a value for each number of one index")


def _formula(name: str, e: Expression, legend: Legend, indices: tuple[Index, ...] = ()) -> Iterator[Finding]:
    """A size, a scalar or a count is a function of numbers, without operators and sums; it may lack some of its indices."""
    used = {x.letter for x in subexpressions(e) if isinstance(x, Index)}
    slots = tuple(index for index in indices if index.letter in used)
    left = Tensor(name, slots, span=e.span) if slots else Name(name, span=e.span)
    body = _Body(Layer("", (), (), left, (), ()), {}, legend)
    elaborated = body.right_side(Equation(left, "=", e, span=e.span), frozenset())
    yield from body.findings
    for x in subexpressions(elaborated.right):
        if isinstance(x, Apply) and x.indices:
            fix = "numbers, sizes, scalars and functions of them"
            yield Finding("E604", f"`{x.name}` over an index cannot stand in the legend", x.span, (), fix)


def _counted(e: Expression, says: str, letter: str, legend: Legend) -> Iterator[Finding]:
    """How often a loop turns, or how many `top` takes, once that is known: a whole number, and not one without end."""
    try:
        count = legend.number(e)
    except EinformerError as error:
        yield from (finding for finding in error.findings if finding.code != "E601")
    else:
        if not 0 <= count <= MAXIMUM_TURNS or count != int(count):
            message = says.format(f"{float(count):g}")
            yield Finding("E604", message, e.span, (legend.describe(letter),), f"a whole number, 0 … {MAXIMUM_TURNS:,}")


def _taken(e: Apply, legend: Legend) -> Iterator[Finding]:
    """How many `top` takes."""
    if e.name == "top" and len(e.arguments) == 2:
        yield from _counted(e.arguments[0], "`top` takes {}", e.indices[0].letter, legend)


def _unused(spec: Spec) -> Iterator[Finding]:
    letters, names = set[str](), set[str]()
    for node in _all_nodes(spec):
        match node:
            case Index():
                letters.add(axis_of(node.letter))
            case Name() | Tensor():
                names.add(node.name)
            case Apply(name="Dr", arguments=(_,)):
                names.add("p")
            case _:
                pass
    for axis in spec.axes:
        if axis.letter not in letters and not (isinstance(axis.size, Name) and axis.size.name in names):
            yield Finding("E203", f"the axis `{axis.letter}` is never used", axis.span, (), "nothing: delete the line")
    for scalar in spec.scalars:
        if scalar.name not in names:
            yield Finding("E203", f"the scalar `{scalar.name}` is never used", scalar.span, (), "nothing: delete the line")


def _all_nodes(spec: Spec) -> Iterator[Expression]:
    """Every expression of a file, the letters of its left sides and weights too, apart from what declares."""
    roots: list[Expression] = list(_legend_expressions(spec))
    for layer in spec.layers:
        roots += [*layer.indices, *layer.formals, layer.output]
        for weight in layer.weights:
            roots += [*weight.indices, *([weight.default] if weight.default else [])]
        for equation in equations(layer.body):
            roots += [*(equation.left.slots if isinstance(equation.left, Tensor) else ()), equation.right]
        roots += [e for loop in loops(layer.body) for e in (loop.index, loop.count)]
    for e in (x for root in roots for x in subexpressions(root)):
        yield e
        if isinstance(e, Apply):
            yield from e.indices


# Letters of other scripts whose usual glyph is that of a Latin letter.
_LATIN = dict(zip("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧοАВЕКМНОРСТУХаеорсухіј", "ABEZHIKMNOPTYXoABEKMHOPCTYXaeopcyxij", strict=True))


# Greek letters and the Latin ones that are written for them, or for which they are taken.
_WRITTEN = str.maketrans("αβγδεζηικλμνοπρστυφχωξψθ", "abgdezniklmvoppstufxwcyt")


def _skeleton(name: str) -> str:
    return "".join(_LATIN.get(letter, letter) for letter in name)


def _look_alikes(spec: Spec) -> Iterator[Finding]:
    """Two letters of a file that look alike are one letter to the reader (R11)."""
    text, seen = spec.span.source.text, dict[str, str]()
    code = "\n".join(line.partition("#")[0] for line in text.split("\n"))
    if code.isascii():
        return
    for at, letter in enumerate(code):
        letter = unicodedata.normalize("NFKC", letter)
        other = seen.setdefault(_skeleton(letter), letter)
        if other != letter and letter in _LATIN | dict.fromkeys(_LATIN.values()):
            pair = f"{unicodedata.name(letter)} and {unicodedata.name(other)}"
            yield Finding(
                "E004", f"`{letter}` and `{other}` look alike", Span(spec.span.source, at, at + 1), (pair,), "one of the two"
            )
            return


# --------------------------------------------------------------------------------------------------------- one body


@dataclass(slots=True)
class Definition:
    """What a name with a subscript stands for in a body."""

    slots: tuple[Expression, ...] | None  # None after an error in the definition: nothing more is said of it
    span: Span
    what: str
    used: bool = False


class _Body:
    """The check of one layer: what its names stand for, line after line."""

    def __init__(
        self, layer: Layer, layers: Mapping[str, Layer], legend: Legend, unsound: frozenset[str] = frozenset()
    ) -> None:
        self.layer, self.layers, self.legend, self.unsound = layer, layers, legend, unsound
        self.callees = callees(layer, layers)
        # Axes of which a slot may leave the range, or whose size a call chooses: time, and what the head names.
        times = {axis_of(each.time.letter) for each in layers.values() if each.time}
        self.open = times | {axis_of(index.letter) for index in layer.indices}
        self.findings: list[Finding] = []
        self.defined: dict[str, Definition] = {}
        self.later = {equation.left.name: equation for equation in equations(layer.body)}
        self.called: set[str] = set()

    def checked(self, weighted: frozenset[str]) -> Layer:
        """The elaborated layer; `findings` holds what is wrong with it. `weighted` are the layers that have weights."""
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
        for formal in self.layer.formals:
            if formal.name in self.defined:
                self.report("E202", f"the input `{formal.name}` is declared twice", formal, "another name")
            self.alone(formal.name, formal.slots, formal)
            sound = self.letters(formal.slots)
            self.defined[formal.name] = Definition(formal.slots if sound else None, formal.span, "input")
        self.letters(self.layer.output.slots if isinstance(self.layer.output, Tensor) else ())
        self.letters(self.layer.indices)
        self.letters(() if self.layer.time is None else (self.layer.time,))
        body = {axis_of(index.letter) for index in self.body_indices()}
        for index in self.layer.indices:
            if axis_of(index.letter) not in body:
                self.report("E203", f"`{self.layer.name}` names `{index.letter}` and never uses it", index, "a head without it")

    def body_indices(self) -> Iterator[Index]:
        yield from (index for weight in self.layer.weights for index in weight.indices)
        yield from (slot for formal in self.layer.formals for slot in formal.slots if isinstance(slot, Index))
        for equation in equations(self.layer.body):
            yield from (x for x in subexpressions(equation.right) if isinstance(x, Index))

    def weights(self) -> None:
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
        if weight.layer not in self.layers:
            close = _closest(weight.layer, self.layers)
            self.report("E204", f"no layer `{weight.layer}` is defined", weight, f"`{close}`" if close else "its definition")

    def alone(self, name: str, slots: Iterable[Expression], at: Node) -> None:
        """A tensor without a subscript shares its name space with indices, sizes and scalars (R1)."""
        if not tuple(slots) and (name in self.legend.axes or _is_defined(Name(name), self.legend, {})):
            self.report("E202", f"`{name}` is an index, a size or a scalar already", at, "another name")

    def letters(self, slots: Iterable[Expression]) -> bool:
        """Are the letters of a head, a weight or a left side declared, and each there once?"""
        opened = [member for slot in slots for member in (slot.members if isinstance(slot, Group) else (slot,))]
        unknown = [x for x in opened if isinstance(x, Index) and self.legend.axis(x.letter) is None]
        found = [_undeclared(index, self.legend) for index in unknown] + list(_repeated(opened, self.legend))
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
                self.findings += _slots_agree(equation.left, output.slots, output.span, self.legend)

    def never_used(self) -> None:
        """Told of a body that is sound otherwise: what is wrong there may be what should have used it."""
        if self.findings:
            return
        for name, definition in self.defined.items():
            if not definition.used and name != self.layer.output.name:
                code = "E206" if definition.what == "weight" else "E203"
                self.findings.append(
                    Finding(code, f"the {definition.what} `{name}` is never used", definition.span, (), "nothing: delete it")
                )
        for weight in self.layer.weights:
            if weight.kind == "instance" and weight.name not in self.called and weight.layer in self.layers:
                self.report("E206", f"the instance `{weight.name}` is never called", weight, "nothing: delete it")

    # ------------------------------------------------------------------------------------------------ statements

    def statements(self, body: tuple[Statement, ...], loops: frozenset[str]) -> tuple[Statement, ...]:
        return tuple(self.loop(s, loops) if isinstance(s, Loop) else self.equation(s, loops) for s in body)

    def loop(self, loop: Loop, loops: frozenset[str]) -> Loop:
        if self.legend.axis(loop.index.letter) is None:
            self.findings.append(_undeclared(loop.index, self.legend))
        self.findings += list(_formula(loop.index.letter, loop.count, self.legend)) or _counted(
            loop.count, "the loop turns {} times", loop.index.letter, self.legend
        )
        before = set(self.defined)
        body = self.statements(loop.body, loops | {loop.index.letter})
        inner = {name: self.defined.pop(name) for name in list(self.defined) if name not in before}
        unused = [(name, definition) for name, definition in inner.items() if not (definition.used or self.findings)]
        for name, definition in unused:
            self.findings.append(Finding("E203", f"`{name}` is never used", definition.span, (), "nothing: delete the line"))
        return replace(loop, body=body)

    def equation(self, equation: Equation, loops: frozenset[str]) -> Equation:
        found = len(self.findings)
        if equation.relation != "return":
            self.letters(equation.left.slots if isinstance(equation.left, Tensor) else ())
            self.rebinding(equation)
        complete = len(self.findings) == found
        elaborated = self.right_side(equation, loops) if complete else equation
        if equation.relation == "=":
            slots = equation.left.slots if isinstance(equation.left, Tensor) else ()
            sound = len(self.findings) == found
            used = equation.left.name in self.defined and self.defined[equation.left.name].used
            self.defined[equation.left.name] = Definition(slots if sound else None, equation.left.span, "tensor", used)
        if equation.relation == "return" and equation.left.name in self.defined:
            self.defined[equation.left.name].used = True
        return elaborated

    def rebinding(self, equation: Equation) -> None:
        """`=` defines a new name, `<-` changes an old one that has the same axes (R5)."""
        name, known = equation.left.name, self.defined.get(equation.left.name)
        self.alone(name, equation.left.slots if isinstance(equation.left, Tensor) else (), equation.left)
        if equation.relation == "=" and known is not None:
            fact = f"defined in line {known.span.line}"
            self.report("E202", f"`{name}` is defined already", equation.left, "`<-` to change it, or another name", fact)
        elif equation.relation == "<-" and known is None:
            self.report("E204", f"`<-` changes `{name}`, which is not defined", equation.left, "`=` to define it")
            self.defined[name] = Definition(None, equation.left.span, "tensor", used=True)
        elif known is not None and known.slots is not None and isinstance(equation.left, Tensor):
            self.findings += _slots_agree(equation.left, known.slots, known.span, self.legend)

    def right_side(self, equation: Equation, loops: frozenset[str]) -> Equation:
        """Names, then slots, then scope; the elaborated equation where all is well."""
        found = list(_names_in(equation.right, self.legend, self.known(equation), self.names, self.layer.name))
        found = found or list(self.slots(equation))
        found = found or [finding for read in reads(equation.right) for finding in self.computed(read)]
        self.mark(equation)
        self.findings += found
        if found or self.unsound & self.called_in(equation):
            return equation
        scope = Scope(self.callees, loops, self.legend)
        elaborated = scope.equation(equation)
        self.findings += scope.findings or self.renamings(equation)
        return elaborated

    def known(self, equation: Equation) -> dict[str, str]:
        """Names with a subscript that may stand on the right, and why the others may not."""
        names = {x.name: self.later.get(x.name) for x in subexpressions(equation.right) if isinstance(x, Tensor | Name)}
        late = {name: later for name, later in names.items() if later and later.span.start > equation.span.start}
        known = {name: f"it is defined only in line {later.span.line}" for name, later in late.items()}
        known |= dict.fromkeys(self.defined.keys() & names, "")
        return known | ({equation.left.name: ""} if equation.relation == "=" else {})

    def names(self) -> set[str]:
        """Whatever has a name here."""
        return {*self.defined, *self.later, *self.layers}

    def called_in(self, equation: Equation) -> set[str]:
        """The layers that an equation calls."""
        applied = [e.name for e in subexpressions(equation.right) if isinstance(e, Apply)]
        return {self.callees[name].name for name in applied if name in self.callees}

    def mark(self, equation: Equation) -> None:
        for e in subexpressions(equation.right):
            if isinstance(e, Tensor | Name) and e.name in self.defined:
                definition = self.defined[e.name]
                definition.used |= isinstance(e, Tensor) or not definition.slots  # `H` is a size where `H_de` is a weight
            if isinstance(e, Apply):
                self.called.add(e.name)

    # ----------------------------------------------------------------------------------------------------- slots

    def slots(self, equation: Equation) -> Iterator[Finding]:
        """Each tensor on the right has the slots of its definition, over the same axes; primitives have what they take."""
        yield from _conditions(equation.right, wanted=False)
        for e in subexpressions(equation.right):
            match e:
                case Tensor():
                    yield from self.tensor(e, equation)
                case Name():
                    yield from self.bare(e, equation)
                case Apply():
                    yield from _repeated(e.indices, self.legend)
                    yield from () if e.name in self.callees else _arity(e)
                    yield from _taken(e, self.legend)
                case _:
                    pass

    def computed(self, read: Read) -> Iterator[Finding]:
        """Each computed slot of a tensor holds a whole number, and, once sizes are bound, one inside its axis (R4)."""
        known = self.defined.get(read.tensor.name)
        slots = known.slots if known is not None and known.slots is not None else ()
        for slot, defined in zip(read.tensor.slots, slots, strict=False):
            if isinstance(slot, Index | Number | Tensor):
                continue
            if not is_affine(slot):
                yield Finding(
                    "E310", "this slot need not be a whole number", slot.span, (), "a name first: `n_e = …`, then `x_{s n_e}`"
                )
            elif self.legend.values:
                yield from self.inside(slot, defined, read)

    def inside(self, slot: Expression, defined: Expression, read: Read) -> Iterator[Finding]:
        """A computed slot, or each computed member of a group, stays inside its axis; before the start of time is zero."""
        members = slot.members if isinstance(slot, Group) else (slot,)
        for member in members:
            over = index_of(member) if isinstance(slot, Group) else defined
            if not isinstance(over, Index) or axis_of(over.letter) in self.open or isinstance(member, Index):
                continue
            size = self.legend.size(over)
            if size is not None and set(size) == {()} and (at := leaves(member, int(size[()]), read.guards, self.legend)):
                where = ", ".join(f"{letter} = {number}" for letter, number in at.items())
                message = f"this slot of `{read.tensor.name}` leaves its axis at {where}"
                yield Finding(
                    "E309", message, member.span, (self.legend.describe(over.letter),), "a `where` around it, or another slot"
                )

    def tensor(self, tensor: Tensor, equation: Equation) -> Iterator[Finding]:
        scalar, known = self.legend.scalars.get(tensor.name), self.defined.get(tensor.name)
        if repeated := list(_repeated(tensor.slots, self.legend)):
            yield from repeated
        elif known is not None:
            yield from () if known.slots is None else _slots_agree(tensor, known.slots, known.span, self.legend)
        elif scalar is not None:
            yield from _slots_agree(tensor, scalar.indices, scalar.span, self.legend)
        elif tensor.name == equation.left.name and isinstance(equation.left, Tensor):
            yield from _slots_agree(tensor, equation.left.slots, equation.left.span, self.legend)
            if not any(map(_earlier, tensor.slots, equation.left.slots)):
                yield _by_itself(tensor, f"`<-` to change `{tensor.name}`, or an earlier position such as `(s - 1)`")

    def bare(self, e: Name, equation: Equation) -> Iterator[Finding]:
        """A name without a subscript is a size, a scalar, or a tensor that has no slots (R11)."""
        if _is_defined(e, self.legend, {}):
            return
        known = self.defined.get(e.name)
        left = equation.left.slots if isinstance(equation.left, Tensor) else ()
        slots, span = (known.slots, known.span) if known else (left, equation.left.span)
        if slots:
            yield from _slots_agree(Tensor(e.name, (), span=e.span), slots, span, self.legend)
        elif known is None:
            yield _by_itself(e, f"`<-` to change `{e.name}`, or another name")

    def renamings(self, equation: Equation) -> Iterator[Finding]:
        """A call may not rename a letter from whose size the layer derives another (R7)."""
        for call in (e for e in subexpressions(equation.right) if isinstance(e, Apply) and e.name in self.callees):
            layer = self.callees[call.name]
            used = {axis_of(index.letter) for index in _Body(layer, self.layers, self.legend).body_indices()}
            renamed = [index for index in call.indices if index.letter not in _loop_letters(self.layer)]
            for formal, _ in zip(layer.indices, renamed, strict=False):
                yield from self.derived(formal, used, call)

    def derived(self, formal: Index, used: set[str], call: Apply) -> Iterator[Finding]:
        """The other axes of a body whose sizes follow from that of a letter which the call renames."""
        axis = self.legend.axis(formal.letter)
        for other in filter(None, map(self.legend.axis, used)):
            if axis is not None and other is not axis and _mentions(other, axis):
                message = f"`{call.name}` renames `{formal.letter}`, but its body derives the size of `{other.letter}` from it"
                facts = (self.legend.describe(formal.letter), self.legend.describe(other.letter))
                yield Finding("E404", message, call.span, facts, "a layer of its own over this axis")

    def report(self, code: str, message: str, at: Node, fix: str, *facts: str) -> None:
        self.findings.append(Finding(code, message, at.span, facts, fix))


# -------------------------------------------------------------------------------------------------------- the pieces


def _names_in(
    e: Expression, legend: Legend, known: Mapping[str, str], names: Callable[[], set[str]], layer: str
) -> Iterator[Finding]:
    """Every name in e is defined, every index declared. `known` maps tensors to "" or to why they cannot stand here.

    `names` are all that a name which is not defined could have meant.
    """
    for x in subexpressions(e):
        match x:
            case Index() if legend.axis(x.letter) is None:
                yield _undeclared(x, legend)
            case Apply():
                yield from (_undeclared(index, legend) for index in x.indices if legend.axis(index.letter) is None)
                if x.name == "Dr" and len(x.arguments) == 1 and "p" not in legend.scalars:
                    yield Finding(
                        "E204",
                        "`Dr` drops with the scalar `p`, which is not declared",
                        x.span,
                        (),
                        "`p = 0.1` among the scalars, or `Dr(…, q)`",
                    )
            case Tensor() | Name():
                indexed = isinstance(x, Tensor)
                if known.get(x.name):
                    yield Finding(
                        "E205", f"`{x.name}` is used before its definition", x.span, (known[x.name],), "its definition first"
                    )
                elif not _is_defined(x, legend, known):
                    yield _undefined(x.name, x.span, legend, {*known, *names()}, layer if indexed else "")
            case _:
                pass


def _is_defined(x: Tensor | Name, legend: Legend, known: Mapping[str, str]) -> bool:
    scalar = legend.scalars.get(x.name)
    if isinstance(x, Tensor):
        return x.name in known or (scalar is not None and bool(scalar.indices))
    return x.name in known or x.name in CONSTANTS or x.name in legend.letters() or (scalar is not None and not scalar.indices)


def _undefined(name: str, span: Span, legend: Legend, known: Iterable[str], layer: str) -> Finding:
    """A tensor that a layer does not know, or a bare name that the file does not."""
    scalars = [s.name for s in legend.scalars.values() if bool(s.indices) == bool(layer)]
    sizes = [] if layer else sorted(legend.letters())
    close = _closest(name, [*known, *scalars, *sizes, *NAMES])
    message = f"`{layer}` has no tensor `{name}`" if layer else f"no size, scalar or index `{name}` is defined"
    return Finding("E204", message, span, (), f"`{close}`?" if close else "its definition, or a weight")


def _closest(name: str, known: Iterable[str]) -> str:
    """The name that was probably meant: the same to the eye, or few letters away."""
    by_look = {_plain(other): other for other in sorted(known, reverse=True)}
    found = difflib.get_close_matches(_plain(name), by_look, n=1, cutoff=0.6)
    return by_look[found[0]] if found else ""


def _plain(name: str) -> str:
    return _skeleton(name).casefold().translate(_WRITTEN)


def _undeclared(index: Index, legend: Legend) -> Finding:
    letter = axis_of(index.letter)
    near = [other for other in legend.axes if _skeleton(other) == _skeleton(letter)]
    fix = f"`{near[0]}`, which looks alike" if near else f"`{letter}: …` among the axes, or one of {' '.join(legend.axes)}"
    if letter in legend.scalars:
        fix = f"the letter of an axis; a scalar stands in arithmetic, `(d + {letter})`"
        return Finding("E201", f"`{letter}` is a scalar, and here an index is needed", index.span, (), fix)
    return Finding("E201", f"no axis `{letter}` is declared", index.span, (), fix)


def _slots_agree(tensor: Tensor, slots: tuple[Expression, ...], span: Span, legend: Legend) -> Iterator[Finding]:
    """As many slots as the definition at `span` has, each over its axis."""
    if len(tensor.slots) != len(slots):
        spelled = f"`{tensor.name}_{_spelled(slots)}`"
        letters = dict.fromkeys(letter for slot in slots for letter in _slot_letters(slot))
        facts = (f"defined as {spelled} ({span.source.name}:{span.line})", *map(legend.describe, letters))
        message = f"`{tensor.name}` has {len(slots)} slots, here are {len(tensor.slots)}"
        yield Finding("E304", message, tensor.span, facts, spelled)
        return
    for slot, defined in zip(tensor.slots, slots, strict=True):
        found = list(_slot_agrees(tensor, slot, defined, legend))
        yield from found
        if found:  # two letters that changed places are one slip
            return


def _slot_agrees(tensor: Tensor, slot: Expression, defined: Expression, legend: Legend) -> Iterator[Finding]:
    facts = tuple(legend.describe(letter) for letter in dict.fromkeys(_slot_letters(defined) + _slot_letters(slot)))
    match slot, defined:
        case Index(), Index():
            if axis_of(slot.letter) != axis_of(defined.letter) and not _bounded(slot.letter, defined.letter, legend):
                message = (
                    f"this slot of `{tensor.name}` runs over `{axis_of(defined.letter)}`, not over `{axis_of(slot.letter)}`"
                )
                yield Finding("E307", message, slot.span, facts, f"`{defined.letter}`, or a prime of it")
        case ((Index() | Group()), (Index() | Group())):
            if legend.size(slot) != legend.size(defined):
                here, there = f"`{_spelled((slot,))}`", f"`{_spelled((defined,))}`"
                sizes = f"{here} has {legend.spelled(slot)}, {there} has {legend.spelled(defined)}"
                message = f"{here} does not provably have the size of {there}"
                fix = "a group whose sizes multiply to that of the axis, or a size that says so, `e: H = D / A`"
                yield Finding("E308", message, slot.span, (sizes, *facts), fix)
        case Number(value=int() as value), Index():
            size = legend.size(defined)
            if size is not None and set(size) == {()} and not 0 <= value < size[()]:
                message = f"slot {value} of `{tensor.name}` lies outside its axis"
                yield Finding("E309", message, slot.span, facts, f"0 … {size[()] - 1}")
        case _:
            for index in (x for x in subexpressions(slot) if isinstance(x, Index)):
                if legend.axis(index.letter) is None:
                    yield _undeclared(index, legend)


def _bounded(letter: str, defined: str, legend: Legend) -> bool:
    """`P_sd` reads `P_kd`, because the legend says `s: S <= K`."""
    inner, outer = legend.axis(letter), legend.axis(defined)
    return inner is not None and outer is not None and inner.bound is not None and inner.bound == outer.size


def _repeated(slots: Iterable[Expression], legend: Legend) -> Iterator[Finding]:
    """The same index in two slots would read a diagonal, which nobody means."""
    seen: set[str] = set()
    opened = [member for slot in slots for member in (slot.members if isinstance(slot, Group) else (slot,))]
    for index in (member for member in opened if isinstance(member, Index)):
        if index.letter in seen:
            message, fact = f"`{index.letter}` stands twice on one tensor", legend.describe(index.letter)
            yield Finding("E305", message, index.span, (fact,), f"`{index.letter}'` for the second")
        seen.add(index.letter)


def _arity(e: Apply) -> Iterator[Finding]:
    row = primitive(e.name, bool(e.indices))
    other = primitive(e.name, not e.indices)
    if other is not None and (row is None or len(e.arguments) in {*other.arity} - {*row.arity}):
        fix = f"`{e.name}(…)`" if e.indices else f"`{e.name}_…` with the index that it is over"
        yield Finding("E405", f"`{e.name}` {'takes no' if e.indices else 'needs an'} index here", e.span, (), fix)
    elif row is not None and len(e.arguments) not in row.arity:
        message = f"`{e.name}` takes {' or '.join(map(str, row.arity))} arguments, here are {len(e.arguments)}"
        yield Finding("E401", message, e.span, (), f"{row.arity[0]} in parentheses")


def _by_itself(e: Tensor | Name, fix: str) -> Finding:
    return Finding("E507", f"`{e.name}` is defined by itself at the same position", e.span, (), fix)


def _conditions(e: Expression, wanted: bool) -> Iterator[Finding]:
    """`where`, `and`, `or` and `not` take conditions; everything else takes numbers (R8)."""
    found = isinstance(e, Apply) and e.name in CONDITIONS
    if found != wanted:
        message = "a number stands here, and a condition is needed" if wanted else "a condition is no number"
        fix = "a comparison, such as `s' <= s`, or `top`" if wanted else "`where(…, 1, 0)` around the condition"
        yield Finding("E407", message, e.span, (), fix)
        return
    for at, child in enumerate(children(e)):
        logical = isinstance(e, Apply) and (e.name in ("and", "or", "not") or (e.name == "where" and at == 0))
        yield from _conditions(child, logical)


def _earlier(slot: Expression, own: Expression) -> bool:
    """Is a slot a position before that of the index `own`, whatever the numbers: `(s - 1)`, `(s - W - c)`?"""
    if not (isinstance(slot, Sum) and isinstance(own, Index) and own in slot.terms):
        return False
    steps = [term for term in slot.terms if term != own]
    return all(map(_negative, steps)) and any(not any(isinstance(x, Index) for x in subexpressions(step)) for step in steps)


def _negative(e: Expression) -> bool:
    """Is e below zero, or an index taken away?"""
    first = e.factors[0] if isinstance(e, Product) else e
    plain = not isinstance(e, Product) or all(isinstance(factor, Number | Name | Index) for factor in e.factors)
    return plain and isinstance(first, Number) and first.value < 0


def _slot_letters(slot: Expression) -> list[str]:
    return [axis_of(x.letter) for x in subexpressions(slot) if isinstance(x, Index)]


def _spelled(slots: Iterable[Expression]) -> str:
    """Slots as they are written, for messages."""
    texts = [
        slot.letter
        if isinstance(slot, Index)
        else "(" + "".join(_spelled((m,)) for m in children(slot)) + ")"
        if isinstance(slot, Group)
        else "…"
        for slot in slots
    ]
    joined = "".join(texts)
    return joined if all(isinstance(slot, Index) for slot in slots) or joined.startswith("(") else f"{{{joined}}}"


def _loop_letters(layer: Layer) -> set[str]:
    return {loop.index.letter for loop in loops(layer.body)}


def _mentions(axis: Axis, other: Axis) -> bool:
    """Is the size of an axis derived from that of another?"""
    roots = [e for e in (axis.size, axis.default) if e is not None]
    names = {x.name for root in roots for x in subexpressions(root) if isinstance(x, Name)}
    own = {axis.size.name} if isinstance(axis.size, Name) else set()
    return isinstance(other.size, Name) and other.size.name in names - own
