"""Which class, or function, is one specialised layer: its weights, its modules, its forward?"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Protocol, TypeVar

from einformer.errors import Span
from einformer.interpreters.torch.blocks import INDENT, Blocks
from einformer.interpreters.torch.code import PRODUCT, Code, Kind, permuted, prose, uses
from einformer.interpreters.torch.folding import NOTED, WIDTH
from einformer.interpreters.torch.heads import heads
from einformer.interpreters.torch.lower import Lowering, drops, function_name
from einformer.interpreters.torch.merging import Merged
from einformer.interpreters.torch.plan import Plan, Style
from einformer.interpreters.torch.recurrences import Start, solved
from einformer.interpreters.torch.slots import Variable, define, merged, python_name, shaped
from einformer.language.calls import axis_of, slot_letters
from einformer.language.sizes import Legend
from einformer.language.slots import Whole
from einformer.language.tree import (
    Apply,
    Equation,
    Layer,
    Loop,
    Name,
    Spec,
    Statement,
    Tensor,
    Weight,
)
from einformer.language.walk import equations, subexpressions
from einformer.language.weights import key
from einformer.program.canonical import reaching
from einformer.program.operations import Function
from einformer.program.recurrences import recurrent
from einformer.program.roles import Kind as RoleKind
from einformer.program.roles import Role, roles, selecting, stored
from einformer.program.routing import Routing

Some = TypeVar("Some", bound=Lowering)


class File(Protocol):
    """What a class needs of the file that it stands in."""

    spec: Spec
    name: str
    legend: Legend
    plan: Plan
    style: Style
    helpers: dict[str, None]
    routings: Mapping[str, Routing]
    names: dict[tuple[str, str], str]
    passed: dict[str, tuple[str, ...]]
    merged: dict[str, Merged]
    hidden: dict[str, frozenset[str]]
    functions: Mapping[str, Function]

    def spelling(self, letter: str) -> str:
        """The letter of Python for an index."""
        ...


class Comment(str):
    """An equation above the code that computes it: a line that knows where the equation is written."""

    __slots__ = ("span",)
    span: Span

    @classmethod
    def of(cls, equation: Equation, indent: str) -> Comment:
        """The equation as its author wrote it, in one line (R13: LaTeX may have several), and its note."""
        span = equation.span
        lines = span.source.text[span.start : span.end].splitlines()
        written = " ".join(map(str.strip, lines)) or equation.left.name
        comment = cls(f"{indent}# {written}" + (f"{NOTED}{equation.note}" if equation.note else ""))
        comment.span = span
        return comment


class Class:
    """One specialised layer: the class with its weights, or the function, and its forward."""

    def __init__(self, file: File, layer: Layer, layers: Mapping[str, Layer]) -> None:
        self.file, self.layer, self.layers = file, layer, layers
        time = next((axis_of(each.time.letter) for each in file.spec.layers if each.time), "")
        self.time = time
        self.reaching = reaching(layer)
        self.integers = selecting(layer, layers, file.legend)
        self.whole = Whole(layer, layers, file.legend)
        self.lowering: Lowering = self.lower_with(Lowering)
        self.blocks = Blocks.of(self.lower_with(Lowering, "config."))
        self.making = self.blocks.low  # what is read where it is made
        self.kept = self.lower_with(Lowering, "self.config.")  # what is read after the module is made
        self.body: list[str] = []
        self.changed = {q.left.name for q in equations(layer.body) if q.relation == "<-"}

    def lower_with(self, kind: type[Some], settings: str = "") -> Some:
        """A lowering of this layer's expressions, which reads sizes from `settings`."""
        low = kind(self.file.legend, self.layer, self.layers, self.spelling, self.time, helpers=self.file.helpers)
        low.names, low.passed, low.settings = self.file.names, self.file.passed, settings
        low.config = "config" if self.is_function else low.config
        low.own = frozenset(self.own)
        if self.layer.name == self.file.name:  # the door has looked at these
            low.tokens = frozenset(name for name, letter in self.integers.items() if letter)
        return low

    @property
    def own(self) -> list[str]:
        """The sizes that the class is given, since those of other layers that it serves have others in their place."""
        merged = [each for each in self.file.merged.values() if each.first == self.layer.name]
        return list(dict.fromkeys(size for each in merged for size, other in each.sizes.items() if size != other))

    def spelling(self, letter: str) -> str:
        """The letter of Python for an index; none for one in front of whose place others have more or fewer."""
        return "" if letter in self.file.hidden.get(self.layer.name, ()) else self.file.spelling(letter)

    # ------------------------------------------------------------------------------------------------------ class

    def lines(self) -> Iterator[str]:
        """The lines of the class, or of the function where there are no weights."""
        forward = self.forward()
        if self.is_function:
            self.file.passed[self.layer.name] = ("config",) * uses("\n".join(forward), "config")
            signature = self.signature()
            yield from self.checked("")
            trained = ", training: bool) -> " if drops(self.layer, self.layers) else ") -> "
            yield f"def {self.called}({signature.replace(') -> ', trained, 1)}:"
            yield from self.note()
            yield from (INDENT + line.replace("self.training", "training") for line in forward)
            return
        yield from self.blocks.classes()
        yield f"class {self.called}({self.parent()}):"
        yield from [*self.note(), ""]
        starts = list(self.starts())
        lines = [*self.weights(), *self.blocks.lines(), *["self.reset_parameters()"] * bool(starts)]
        held = [f"self.{size} = {size}" for size in self.own if uses("\n".join([*starts, *forward]), rf"self\.{size}")]
        lines = [*held, *lines]
        lines = [*["self.config = config"] * uses("\n".join([*starts, self.signature(), *forward]), r"self\.config"), *lines]
        self.file.passed[self.layer.name] = (*["config"] * uses("\n".join(lines), "config"), *self.own)
        for name, arguments, body in (
            ("__init__", self.constructor(), ["super().__init__()", *lines] * bool(lines)),
            ("reset_parameters", "self) -> None", starts),
            ("forward", f"self, {self.signature()}", forward),
        ):
            if body:
                yield from self.checked(INDENT) if body is forward else ()
                yield from [f"{INDENT}def {name}({arguments}:", *(2 * INDENT + line for line in body)]
                yield from [""] * (body is not forward)

    def constructor(self) -> str:
        """What the class is made from; the model from the sizes of the target, if it is given none."""
        default = " = Config()" * (self.layer.name == self.file.name)
        config = [f"config: Config{default}"] * ("config" in self.file.passed[self.layer.name])
        return f"{', '.join(['self', *config, *(f'{size}: int' for size in self.own)])}) -> None"

    @property
    def is_function(self) -> bool:
        """Is it a function, for it has no weights?"""
        return not self.layer.weights and self.layer.name != self.file.name

    @property
    def called(self) -> str:
        """What the file calls it."""
        name = self.layer.name
        return self.lowering.called("layer", name, function_name(name) if self.is_function else name)

    def checked(self, indent: str) -> Iterator[str]:
        """The line by which every call is checked."""
        if self.file.style.check:
            yield f"{indent}@jaxtyped(typechecker=beartype)"

    def note(self) -> Iterator[str]:
        """What the layer is, what it makes of what, and what it follows, as a docstring."""
        what, where = self.file.style.cited(self.layer.note) if self.layer.note else ("", "")
        first, *more = re.split(r"(?<=[a-z])(?=[A-Z])", self.layer.name)
        words = what or " ".join([first, *(word if word.isupper() else word.lower() for word in more)])
        given = ", ".join(python_name(self.lowering, formal) for formal in self.layer.formals)
        made = python_name(self.lowering, self.layer.output)
        front = ", with any axes in front" * bool(self.file.hidden.get(self.layer.name))
        text = f"{words[0].upper()}{words[1:]}, {given} -> {made}{front}{f' ({where})' if where else ''}."
        yield from textwrap.wrap(f'"""{prose(text)}"""', WIDTH, initial_indent=INDENT, subsequent_indent=INDENT)

    def parent(self) -> str:
        """The class that this one extends."""
        return "nn.Module"

    def weights(self) -> Iterator[str]:
        """The lines that make the parameters and buffers."""
        for weight in stored(self.layer):
            yield self.weight(weight)

    def weight(self, weight: Weight) -> str:
        """A weight as it is written."""
        shape = ", ".join(self.making.constant(i.letter) for i in weight.indices) or "()"
        if weight.kind == "buffer":
            return f'self.register_buffer("{key(weight.name)}", torch.zeros({shape}))'
        return f"self.{key(weight.name)} = nn.Parameter(torch.empty({shape}))"

    def starts(self) -> Iterator[str]:
        """The lines that give each parameter its first values."""
        found = roles(self.file.spec, self.layer)
        for weight in stored(self.layer):
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
                inputs = " * ".join(map(self.kept.constant, role.summed)) or 1
                return f"nn.init.normal_({parameter}, std=1 / math.sqrt({inputs}))"
            case RoleKind.MATRIX if role.residual is not None:
                terms, turns = role.residual
                count = self.kept.lower(turns)
                sums = f"{terms} * {count.at(PRODUCT)}" if terms > 1 else count.text
                return f"nn.init.normal_({parameter}, std={self.file.plan.deviation} / math.sqrt({sums}))"
            case RoleKind.MATRIX | RoleKind.TABLE:
                return f"nn.init.normal_({parameter}, std={self.file.plan.deviation})"

    # ---------------------------------------------------------------------------------------------------- forward

    def signature(self) -> str:
        """The inputs and the output, annotated."""
        parts = []
        for formal in self.layer.formals:
            kind = "Int" if formal.name in self.integers else "Num" if formal.name in self.whole.either else "Float"
            parts.append(f"{python_name(self.lowering, formal)}: {self.annotation(formal, kind)}")
        parts += ["config: Config"] * bool(self.is_function and self.file.passed[self.layer.name])
        return f"{', '.join(parts)}) -> {self.annotation(self.layer.output, 'Float')}"

    def annotation(self, tensor: Tensor | Name, kind: str) -> str:
        """`Tensor`, or `Float[Tensor, "b s d"]`; a group `(ea)` is `e*a`."""
        if not (self.file.style.annotations or self.file.style.check):
            return "Tensor"
        slots = tensor.slots if isinstance(tensor, Tensor) else ()
        hidden = [letter for letter in slot_letters(tensor) if not self.spelling(letter)]
        axes = " ".join("*".join(map(self.length, slot_letters(Tensor("", (slot,))))) for slot in slots[len(hidden) :])
        axes = f"*{''.join(map(self.file.spelling, hidden))} {axes}" if hidden else axes
        return f'{kind}[Tensor, "{axes}"]'

    def length(self, letter: str) -> str:
        """An axis in an annotation: its letter; where that is checked its size, if it has one that a method can read."""
        axis = self.file.legend.axis(letter)
        if not self.file.style.check or axis is None or not self.file.legend.is_bound(letter):
            return self.file.spelling(letter)
        if not isinstance(axis.size, Name):
            return str(self.file.legend.length(letter))
        several = any(each.first == self.layer.name for each in self.file.merged.values())
        return self.file.spelling(letter) if self.is_function or several else f"{{self.config.{axis.size.name}}}"

    def forward(self) -> list[str]:
        """The lines of the forward: what it needs first, then each equation."""
        for formal in self.layer.formals:
            define(self.lowering, formal, self.kind(formal))
        self.hold()
        for weight in self.layer.weights:
            if weight.kind != "instance" and weight not in stored(self.layer):
                self.body.append(self.tied(weight))
        self.statements(self.layer.body, "")
        if not any(e.relation == "return" for e in equations(self.layer.body)):
            output = self.lowering.variables[self.layer.output.name]
            written = tuple(letter for label in output.labels for letter in label)
            self.body.append(f"return {permuted(output.lying, written).text if output.physical else output.code}")
        return [*heads(self.lowering, self.body), *self.body]

    def hold(self) -> None:
        """The variables of the weights that are stored."""
        for weight in stored(self.layer):
            labels = tuple((i.letter,) for i in weight.indices)
            self.lowering.variables[weight.name] = Variable(f"self.{key(weight.name)}", labels)

    def kind(self, formal: Tensor) -> Kind:
        """What an input is made of: of whole numbers, of numbers that are compared or rounded, or of any."""
        if formal.slots and formal.name in self.integers.keys() - self.changed:
            return "integer"
        return "number" if formal.slots and formal.name in {*self.integers, *self.whole.either} else "tensor"

    def tied(self, weight: Weight) -> str:
        """The line that defines a weight without a parameter of its own: what it is tied to."""
        assert weight.default is not None
        letters = tuple(i.letter for i in weight.indices)
        code = shaped(self.lowering, self.lowering.lower(weight.default, letters), letters)
        name = python_name(self.lowering, Tensor(weight.name, weight.indices))
        self.lowering.variables[weight.name] = Variable(name, tuple((letter,) for letter in letters))
        return f"{name} = {code}"

    def statements(self, body: tuple[Statement, ...], indent: str) -> None:
        """The lines of a body."""
        for statement in body:
            if isinstance(statement, Loop):
                self.loop(statement, indent)
            else:
                self.lowering.reach = self.reaching[id(statement)]
                self.comment(statement, indent)
                self.equation(statement, indent)

    def loop(self, loop: Loop, indent: str) -> None:
        """The lines of a loop."""
        self.body.append(f"{indent}for {self.blocks.turning(loop, self.lowering)}:")
        self.lowering.still[loop.index.letter] = loop.index.letter
        self.statements(loop.body, indent + INDENT)
        del self.lowering.still[loop.index.letter]

    def equation(self, equation: Equation, indent: str) -> None:
        """The lines of an equation."""
        letter = recurrent(equation)
        if letter is not None:
            self.body += (indent + line for line in self.solved(equation, letter))
            return
        code = self.settled(equation, self.lowering.lower(equation.right, slot_letters(equation.left)))
        if equation.relation == "return":
            self.body.append(f"{indent}return {merged(self.lowering, equation.left, code)}")
        else:
            self.assigned(equation, code, indent)

    def solved(self, equation: Equation, letter: str) -> Iterator[str]:
        """The lines of a recurrence."""
        return solved(self.lowering, equation, letter, Start())

    def comment(self, equation: Equation, indent: str) -> None:
        """The equation as its author wrote it, above what computes it."""
        self.body.append(Comment.of(equation, indent))

    def assigned(self, equation: Equation, code: Code, indent: str) -> None:
        """The variable of an equation, its axes as written; a number without axes stays one of Python."""
        plain = code.plain and not slot_letters(equation.left)
        text = code.text if plain else merged(self.lowering, equation.left, code)
        self.body.append(f"{indent}{self.known(equation) or define(self.lowering, equation.left, code.kind)} = {text}")

    def settled(self, equation: Equation, code: Code) -> Code:
        """What `<-` changes is of one kind before and after, also in the next turn of a loop."""
        if equation.left.name not in self.changed:
            return code
        kind: Kind = "tensor" if equation.left.name in self.dependent else "number"
        return self.lowering.filled(code, (), kind) if code.plain else self.lowering.cast(code, kind)

    @cached_property
    def dependent(self) -> set[str]:
        """The tensors that depend on weights or on inputs that are not whole numbers."""
        found = {w.name for w in self.layer.weights} | {f.name for f in self.layer.formals if self.kind(f) == "tensor"}
        found |= self.layers.keys()
        inside = [
            (q.left.name, {x.name for x in subexpressions(q.right) if isinstance(x, Tensor | Name | Apply)})
            for q in equations(self.layer.body)
        ]
        while more := {name for name, parts in inside if parts & found} - found:
            found |= more
        return found

    def known(self, equation: Equation) -> str:
        """The variable that an equation changes."""
        return self.lowering.variables[equation.left.name].code if equation.relation == "<-" else ""
