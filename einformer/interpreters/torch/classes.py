"""Which class, or function, is one specialised layer: its weights, its modules, its forward?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Protocol, TypeVar

from einformer.errors import EinformerError, fail
from einformer.interpreters.torch.code import ATOM, PRODUCT, Code, Dims, Kind, permuted
from einformer.interpreters.torch.lower import Lowering, Variable, block_name, function_name, scalar_name
from einformer.interpreters.torch.plan import Plan
from einformer.interpreters.torch.roles import Kind as RoleKind
from einformer.interpreters.torch.roles import Role, roles
from einformer.notation.calls import axis_of, slot_letters
from einformer.notation.sizes import Legend
from einformer.notation.tree import (
    Apply,
    Equation,
    Expression,
    Group,
    Index,
    Layer,
    Loop,
    Name,
    Number,
    Scalar,
    Spec,
    Statement,
    Sum,
    Tensor,
    Weight,
)
from einformer.notation.walk import equations, loops, subexpressions
from einformer.notation.weights import key

INDENT = "    "
Some = TypeVar("Some", bound=Lowering)


class File(Protocol):
    """What a class needs of the file that it stands in."""

    spec: Spec
    name: str
    legend: Legend
    plan: Plan
    helpers: dict[str, None]

    def spelling(self, letter: str) -> str:
        """The letter of Python for an index."""
        ...


class Class:
    """One specialised layer: the class with its weights, or the function, and its forward."""

    def __init__(self, file: File, layer: Layer, layers: Mapping[str, Layer]) -> None:
        self.file, self.layer, self.layers = file, layer, layers
        time = next((axis_of(each.time.letter) for each in file.spec.layers if each.time), "")
        self.time = time
        self.lowering: Lowering = self.lower_with(Lowering)
        self.instances = {w.name: w for w in layer.weights if w.kind == "instance"}
        self.body: list[str] = []
        self.integers = selecting(layer)

    def lower_with(self, kind: type[Some]) -> Some:
        """A lowering of this layer's expressions."""
        return kind(self.file.legend, self.layer, self.layers, self.file.spelling, self.time, helpers=self.file.helpers)

    # ------------------------------------------------------------------------------------------------------ class

    def lines(self) -> Iterator[str]:
        """The lines of the class, or of the function where there are no weights."""
        signature, forward = self.signature(), self.forward()
        if not self.layer.weights and self.layer.name != self.file.name:
            yield f"def {function_name(self.layer.name)}({signature}:"
            yield from (INDENT + line for line in forward)
            return
        yield from self.blocks()
        yield f"class {self.layer.name}({self.parent()}):"
        if self.layer.note:
            yield f'{INDENT}"""{self.layer.note}."""'
            yield ""
        yield f"{INDENT}def __init__(self) -> None:"
        starts = list(self.starts())
        reset = ["self.reset_parameters()"] if starts else []
        lines = ["super().__init__()", *self.weights(), *self.modules(), *reset]
        yield from (2 * INDENT + line for line in lines)
        if starts:
            yield from ["", f"{INDENT}def reset_parameters(self) -> None:", *(2 * INDENT + line for line in starts)]
        yield ""
        yield f"{INDENT}def forward(self, {signature}:"
        yield from (2 * INDENT + line for line in forward)

    def parent(self) -> str:
        """The class that this one extends."""
        return "nn.Module"

    def weights(self) -> Iterator[str]:
        """The lines that make the parameters and buffers."""
        for weight in self.stored():
            yield self.weight(weight)

    def weight(self, weight: Weight) -> str:
        """A weight as it is written."""
        shape = ", ".join(self.constant(i.letter) for i in weight.indices) or "()"
        if weight.kind == "buffer":
            return f'self.register_buffer("{key(weight.name)}", torch.zeros({shape}))'
        return f"self.{key(weight.name)} = nn.Parameter(torch.empty({shape}))"

    def stored(self) -> list[Weight]:
        """Weights that are parameters of their own: ties are read from what they are tied to."""
        return [w for w in self.layer.weights if w.kind != "instance" and (w.default is None or w.optional)]

    def starts(self) -> Iterator[str]:
        """The lines that give each parameter its first values."""
        found = roles(self.file.spec, self.layer)
        for weight in self.stored():
            yield self.start(f"self.{key(weight.name)}", found[weight.name], weight)

    def start(self, parameter: str, role: Role, weight: Weight) -> str:
        """How a weight starts, by what it does and by the plan; a buffer at zero."""
        if weight.kind == "buffer":
            return f"nn.init.zeros_({parameter})"
        match role.kind:
            case RoleKind.GAIN:
                return f"nn.init.ones_({parameter})"
            case RoleKind.BIAS:
                return f"nn.init.zeros_({parameter})"
            case RoleKind.MATRIX if self.file.plan.initialisation == "fan_in":
                return f"nn.init.normal_({parameter}, std=1 / math.sqrt({' * '.join(map(self.constant, role.summed)) or 1}))"
            case RoleKind.MATRIX if role.residual is not None:
                terms, turns = role.residual
                sums = f"{terms} * {self.lowering.lower(turns).at(PRODUCT)}"
                return f"nn.init.normal_({parameter}, std={self.file.plan.deviation} / math.sqrt({sums}))"
            case RoleKind.MATRIX | RoleKind.TABLE:
                return f"nn.init.normal_({parameter}, std={self.file.plan.deviation})"

    def constant(self, letter: str) -> str:
        """The size of an axis as a name of the file, or a number."""
        axis = self.file.legend.axis(letter)
        assert axis is not None
        return axis.size.name if isinstance(axis.size, Name) else str(self.file.legend.length(letter))

    # ---------------------------------------------------------------------------------------------------- modules

    def turns(self, name: str) -> Dims:
        """The letters of the loops in each turn of which an instance is another: `blocks.0.MLP` has one."""
        uses = (e for e in applied(self.layer.body) if e.name == name)
        return next((tuple(index.letter for index in e.indices) for e in uses), ())

    def paths(self) -> list[Dims]:
        """The letters of the loops whose turns have weights, inner loops first."""
        found = {turns[:depth] for turns in map(self.turns, self.instances) for depth in range(1, len(turns) + 1)}
        return sorted(found, key=lambda path: (-len(path), path))

    def modules(self, path: Dims = ()) -> Iterator[str]:
        """The lines that make the instances of a turn, or those outside of loops; some exist in some turns only."""
        for name, weight in self.instances.items():
            if self.turns(name) == path:
                condition = self.exists(name, path)
                line = f"self.{key(name)} = {weight.layer}()"
                yield from [f"if {condition}:", INDENT + line] if condition else [line]
        for inner in (each for each in self.paths() if each[:-1] == path):
            letter, arguments = inner[-1], ", ".join(inner)
            loop = next(each for each in loops(self.layer.body) if each.index.letter == letter)
            count = self.lowering.lower(loop.count).text
            yield f"self.blocks = nn.ModuleList({self.block(inner)}({arguments}) for {letter} in range({count}))"

    def exists(self, name: str, path: Dims) -> str:
        """In which turns a branch of `where` on the layer's number has this instance (R8)."""
        for e in applied(self.layer.body):
            letters = _letters_in(e.arguments[0]) if e.name == "where" else set()
            if letters and letters <= set(path):
                then, otherwise = (name in {x.name for x in _applies(branch)} for branch in e.arguments[1:])
                if then or otherwise:
                    lowering = replace(self.lowering, still={letter: letter for letter in path}, variables={}, needs={})
                    condition = lowering.lower(e.arguments[0]).text
                    return condition if then else f"not ({condition})"
        return ""

    def block(self, path: Dims) -> str:
        """The name of the class that holds the weights of one turn."""
        return self.layer.name + "Block" * len(path)

    def blocks(self) -> Iterator[str]:
        """The classes that hold the weights of one turn."""
        for path in self.paths():
            yield f"class {self.block(path)}(nn.Module):"
            yield f'{INDENT}"""The weights of one turn of the loop over {path[-1]}."""'
            yield ""
            yield f"{INDENT}def __init__(self, {', '.join(f'{letter}: int' for letter in path)}) -> None:"
            yield from (2 * INDENT + line for line in ["super().__init__()", *self.modules(path)])
            yield from ("", "")

    # ---------------------------------------------------------------------------------------------------- forward

    def signature(self) -> str:
        """The inputs and the output, annotated."""
        parts = []
        for formal in self.layer.formals:
            kind = "Int" if formal.name in self.integers else "Float"
            parts.append(f"{self.python_name(formal)}: {self.annotation(formal, kind)}")
        return f"{', '.join(parts)}) -> {self.annotation(self.layer.output, 'Float')}"

    def annotation(self, tensor: Tensor | Name, kind: str) -> str:
        """`Float[Tensor, "b s d"]`; a group `(ea)` is `e*a`."""
        slots = tensor.slots if isinstance(tensor, Tensor) else ()
        axes = " ".join("*".join(map(self.file.spelling, slot_letters(Tensor("", (slot,))))) for slot in slots)
        return f'{kind}[Tensor, "{axes}"]'

    def python_name(self, tensor: Tensor | Name) -> str:
        """`q_bsea`, a prime as the letter that stands for it."""
        letters = "".join(map(self.file.spelling, slot_letters(tensor)))
        return f"{key(tensor.name)}_{letters}"

    def forward(self) -> list[str]:
        """The lines of the forward: what it needs first, then each equation."""
        for formal in self.layer.formals:
            self.define(formal, "tensor")
        for weight in self.stored():
            labels = tuple((i.letter,) for i in weight.indices)
            self.lowering.variables[weight.name] = Variable(f"self.{key(weight.name)}", labels)
        for weight in self.layer.weights:
            if weight.kind != "instance" and weight not in self.stored():
                self.body.append(self.tied(weight))
        self.statements(self.layer.body, "")
        if not any(e.relation == "return" for e in equations(self.layer.body)):
            output = self.lowering.variables[self.layer.output.name]
            written = tuple(letter for label in output.labels for letter in label)
            self.body.append(f"return {permuted(output.lying, written).text if output.physical else output.code}")
        return [*self.heads(), *self.body]

    def tied(self, weight: Weight) -> str:
        """The line that defines a weight without a parameter of its own: what it is tied to."""
        assert weight.default is not None
        letters = tuple(i.letter for i in weight.indices)
        code = self.lowering.shaped(self.lowering.lower(weight.default, letters), letters)
        name = self.python_name(Tensor(weight.name, weight.indices))
        self.lowering.variables[weight.name] = Variable(name, tuple((letter,) for letter in letters))
        return f"{name} = {code}"

    def define(self, left: Tensor | Name, kind: Kind) -> str:
        """The variable of a left side."""
        slots = left.slots if isinstance(left, Tensor) else ()
        labels = tuple(slot_letters(Tensor("", (slot,))) for slot in slots)
        name = self.python_name(left)
        self.lowering.variables[left.name] = Variable(name, labels, kind)
        return name

    def statements(self, body: tuple[Statement, ...], indent: str) -> None:
        """The lines of a body."""
        for statement in body:
            if isinstance(statement, Loop):
                self.loop(statement, indent)
            else:
                self.equation(statement, indent)

    def loop(self, loop: Loop, indent: str) -> None:
        """The lines of a loop."""
        letter, path = loop.index.letter, (*self.lowering.still, loop.index.letter)
        over = f"{letter} in range({self.lowering.lower(loop.count).text})"
        if path in self.paths():
            over = f"{letter}, {block_name(path)} in enumerate({block_name(path[:-1])}.blocks)"
        self.body.append(f"{indent}for {over}:")
        self.lowering.still[letter] = letter
        self.statements(loop.body, indent + INDENT)
        del self.lowering.still[letter]

    def equation(self, equation: Equation, indent: str) -> None:
        """The lines of an equation."""
        self.comment(equation, indent)
        letter = recurrent(equation)
        if letter is not None:
            self.recurrence(equation, letter, indent)
            return
        code = self.lowering.lower(equation.right, slot_letters(equation.left))
        if equation.relation == "return":
            self.body.append(f"{indent}return {self.merged(equation.left, code)}")
        else:
            self.assigned(equation, code, indent)

    def comment(self, equation: Equation, indent: str) -> None:
        """The equation as its author wrote it, above what computes it."""
        span = equation.span
        self.body.append(f"{indent}# {span.source.text[span.start : span.end] or equation.left.name}")

    def assigned(self, equation: Equation, code: Code, indent: str) -> None:
        """The variable of an equation, its axes as written."""
        text, kind = self.merged(equation.left, code), code.kind if code.dims else "tensor"
        self.body.append(f"{indent}{self.known(equation) or self.define(equation.left, kind)} = {text}")

    def known(self, equation: Equation) -> str:
        """The variable that an equation changes: it stays as it was defined, also for the next turn of a loop."""
        if equation.relation != "<-":
            return ""
        old = self.lowering.variables[equation.left.name]
        self.lowering.variables[equation.left.name] = replace(old, kind="tensor")
        return old.code

    def merged(self, left: Tensor | Name, code: Code) -> str:
        """The value with an axis for each slot of the left side: groups merged row-major."""
        letters = slot_letters(left)
        if not letters:
            return code.text
        if set(code.dims) == set(letters):
            code = permuted(code, letters)
        else:
            code = Code(self.lowering.shaped(code, letters), letters, code.kind)
        for axis, slot in enumerate(left.slots if isinstance(left, Tensor) else ()):
            if isinstance(slot, Group):
                code = Code(f"{code.at(ATOM)}.flatten({axis}, {axis + len(slot.members) - 1})")
        return code.text

    def recurrence(self, equation: Equation, letter: str, indent: str) -> None:
        """An equation that reads its own left side at earlier positions: a step for each position, in their order."""
        left = equation.left
        assert isinstance(left, Tensor)
        axis = next(k for k, slot in enumerate(left.slots) if isinstance(slot, Index) and slot.letter == letter)
        rest = replace(left, slots=left.slots[:axis] + left.slots[axis + 1 :])
        own = [e for e in subexpressions(equation.right) if isinstance(e, Tensor) and e.name == left.name]
        reach = max(-_offset(e.slots[axis], letter) for e in own)
        steps = f"{key(left.name)}_steps"
        sizes = ", ".join(self.lowering.size(i) for i in slot_letters(rest))
        self.lowering.needs["dtype"] = self.lowering.needs["device"] = None
        count = self.lowering.size(letter)
        self.body.append(f"{indent}{steps} = [torch.zeros({sizes}, dtype=dtype, device=device)] * {reach}")
        self.body.append(f"{indent}for step in range({count}):")
        inner = replace(self.lowering, still=self.lowering.still | {letter: "step"}, steps=(left.name, steps, axis))
        code = inner.lower(equation.right, slot_letters(rest))
        self.body.append(f"{indent}{INDENT}{steps}.append({self.merged(rest, code)})")
        self.body.append(f"{indent}{self.define(left, 'tensor')} = torch.stack({steps}[{reach}:], {axis})")

    # ------------------------------------------------------------------------------------------------------ heads

    def heads(self) -> list[str]:
        """What the body needs first: sizes of the inputs, the dtype, index numbers, scalars with indices."""
        lines: dict[str, str] = {}
        while todo := [need for need in self.lowering.needs if need not in lines]:
            lines |= {need: self.need(need) for need in todo}
        return [lines[need] for need in sorted(lines, key=self.rank) if lines[need]]

    def rank(self, need: str) -> tuple[int, int]:
        """Sizes first, then device and dtypes, then index numbers, then scalars, each after those that it reads."""
        what, _, name = need.partition(" ")
        place = self.depth(name) if what == "scalar" else 0
        return ["size", "device", "dtype", "number", "index", "scalar"].index(what), place

    def depth(self, name: str) -> int:
        """How many scalars with indices stand between a scalar and numbers."""
        scalar = self.file.legend.scalars[name]
        if isinstance(scalar.value, tuple):
            return 0
        read = {x.name for x in subexpressions(scalar.value) if isinstance(x, Tensor)}
        return 1 + max(map(self.depth, read), default=0)

    def need(self, need: str) -> str:
        """The line that provides what the body needs."""
        what, _, name = need.partition(" ")
        match what:
            case "size":
                return self.open_size(name)
            case "index":
                self.lowering.needs["device"] = None
                return f"{self.file.spelling(name)} = torch.arange({self.lowering.size(name)}, device=device)"
            case "scalar":
                return self.scalar(self.file.legend.scalars[name])
            case "device":
                return f"device = {self.python_name(self.layer.formals[0])}.device"
            case "dtype":
                return f"dtype = {self.floating()}.dtype"
            case "number":
                self.lowering.needs["dtype"] = None
                return "number = torch.promote_types(dtype, torch.float32)"
            case _:
                raise AssertionError(need)

    def scalar(self, scalar: Scalar) -> str:
        """A scalar with indices, at all their numbers."""
        letters = tuple(i.letter for i in scalar.indices)
        name = scalar_name(scalar.name, list(letters), self.file.spelling)
        if isinstance(scalar.value, tuple):
            self.lowering.needs["device"] = self.lowering.needs["number"] = None
            values = ", ".join(repr(number.value) for number in scalar.value)
            return f"{name} = torch.tensor([{values}], dtype=number, device=device)"
        return f"{name} = {self.lowering.shaped_number(self.lowering.lower(scalar.value, letters), letters)}"

    def open_size(self, letter: str) -> str:
        """A size that is not bound is read off an input."""
        try:
            self.file.legend.length(letter)
            return ""
        except EinformerError:
            pass
        for formal in self.layer.formals:
            letters = [axis_of(i) for i in slot_letters(formal)]
            if axis_of(letter) in letters:
                return f"{self.constant(letter)} = {self.python_name(formal)}.shape[{letters.index(axis_of(letter))}]"
        raise fail("E601", f"the size of `{letter}` is not bound, and no input has it", self.layer.span)

    def floating(self) -> str:
        """A tensor whose dtype is that of the computation."""
        for formal in self.layer.formals:
            if formal.name not in self.integers:
                return self.python_name(formal)
        if stored := self.stored():
            return self.lowering.variables[stored[0].name].code
        raise fail("E601", f"`{self.layer.name}` has no floating input or weight", self.layer.span)


def applied(body: tuple[Statement, ...]) -> list[Apply]:
    """Every application in a body, in the order of the text."""
    return [e for equation in equations(body) for e in _applies(equation.right)]


def _applies(e: Expression) -> list[Apply]:
    return [x for x in subexpressions(e) if isinstance(x, Apply)]


def _letters_in(e: Expression) -> set[str]:
    return {x.letter for x in subexpressions(e) if isinstance(x, Index)}


def selecting(layer: Layer) -> dict[str, str]:
    """Inputs of whole numbers, those that stand in a slot, with the letter of the axis that they select from."""
    found: dict[str, str] = {}
    weights = {weight.name: weight.indices for weight in layer.weights}
    formals = {formal.name: formal.slots for formal in layer.formals}
    for e in (x for equation in equations(layer.body) for x in subexpressions(equation.right) if isinstance(x, Tensor)):
        for place, slot in enumerate(e.slots):
            if isinstance(slot, Tensor) and slot.name in formals:
                over = (weights.get(e.name) or formals.get(e.name) or e.slots)[place]
                found[slot.name] = over.letter if isinstance(over, Index) else ""
    return found


def recurrent(equation: Equation) -> str | None:
    """The index in whose order an equation must be solved: it reads its own left side at an earlier position."""
    if equation.relation != "=" or not isinstance(equation.left, Tensor):
        return None
    for e in subexpressions(equation.right):
        if isinstance(e, Tensor) and e.name == equation.left.name:
            for mine, slot in zip(equation.left.slots, e.slots, strict=True):
                if isinstance(mine, Index) and isinstance(slot, Sum):
                    return mine.letter
    return None


def _offset(slot: Expression, letter: str) -> int:
    """-1 of `(s - 1)`."""
    match slot:
        case Sum(terms=(Index(letter=found), Number(value=int() as step))) if found == letter and step < 0:
            return step
        case _:
            raise fail("E507", "a recurrence reads a fixed number of positions back", slot.span, fix=f"`({letter} - 1)`")
