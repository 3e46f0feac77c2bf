"""Emits the class of a specialised layer, with its weights, modules and forward, or the function of one without weights."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from einformer.errors import Span
from einformer.interpreters.torch.blocks import Blocks
from einformer.interpreters.torch.code import PRODUCT, escape_prose, uses
from einformer.interpreters.torch.context import INDENT, Context, has_dropout, name_block, name_function, name_tensor
from einformer.interpreters.torch.emit import Emitter, code_number
from einformer.interpreters.torch.folding import NOTED, WIDTH
from einformer.interpreters.torch.heads import write_heads
from einformer.interpreters.torch.merging import Merged
from einformer.interpreters.torch.plan import Plan, Style
from einformer.language.calls import axis_of, slot_letters
from einformer.language.sizes import Legend
from einformer.language.slots import Whole, find_selecting
from einformer.language.tree import (
    Equation,
    Group,
    Index,
    Layer,
    Name,
    Spec,
    Tensor,
    Weight,
)
from einformer.language.weights import key, list_stored
from einformer.program.operations import Call, Function, Line, Turns
from einformer.program.roles import Kind as RoleKind
from einformer.program.roles import Role, read_roles

Some = TypeVar("Some", bound=Context)


class File(Protocol):
    """What a class needs of the file that it stands in."""

    spec: Spec
    name: str
    legend: Legend
    plan: Plan
    style: Style
    helpers: dict[str, None]
    kernels: Mapping[str, Function]
    names: dict[tuple[str, str], str]
    passed: dict[str, tuple[str, ...]]
    merged: dict[str, Merged]
    hidden: dict[str, frozenset[str]]
    functions: Mapping[str, Function]
    lowered: Mapping[str, Function]

    def spell(self, letter: str) -> str:
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
    """One specialised layer in the plan `notation`: the class with its weights, or the function, and its forward."""

    def __init__(self, file: File, layer: Layer, layers: Mapping[str, Layer]) -> None:
        function = file.functions[layer.name]
        inputs, output = tuple(map(_write_tensor, function.inputs)), _write_tensor(function.output)
        self.file, self.layer, self.layers = file, replace(layer, formals=inputs, output=output), layers
        time = next((axis_of(layer_of_file.time.letter) for layer_of_file in file.spec.layers if layer_of_file.time), "")
        self.time = time
        self.integers = find_selecting(layer, layers, file.legend)
        self.whole = Whole(layer, layers, file.legend)
        self.context: Context = self.make_context(Context)
        self.blocks = Blocks.of(self.make_context(Context, "config."))
        self.making = self.blocks.context  # what is read where it is made
        self.kept = self.make_context(Context, "self.config.")  # what is read after the module is made
        self.body: list[str] = []

    def make_context(self, kind: type[Some], settings: str = "") -> Some:
        """The context of this layer, which reads sizes from `settings`."""
        context = kind(self.file.legend, self.layer, self.layers, self.spell, self.time, helpers=self.file.helpers)
        context.names, context.passed, context.settings = self.file.names, self.file.passed, settings
        context.config = "config" if self.is_function else context.config
        context.own = frozenset(self.own)
        if self.layer.name == self.file.name:  # the door has looked at these
            context.tokens = frozenset(name for name, letter in self.integers.items() if letter)
        return context

    @property
    def own(self) -> list[str]:
        """The sizes that the class is given, since those of other layers that it serves have others in their place."""
        merged = [each for each in self.file.merged.values() if each.first == self.layer.name]
        return list(dict.fromkeys(size for each in merged for size, other in each.sizes.items() if size != other))

    def spell(self, letter: str) -> str:
        """The letter of Python for an index; none for one in front of whose place others have more or fewer."""
        return "" if letter in self.file.hidden.get(self.layer.name, ()) else self.file.spell(letter)

    # ------------------------------------------------------------------------------------------------------ class

    def lines(self) -> Iterator[str]:
        """The lines of the class, or of the function where there are no weights."""
        forward = self.forward()
        if self.is_function:
            self.file.passed[self.layer.name] = ("config",) * uses("\n".join(forward), "config")
            signature = self.write_signature()
            yield from self.write_check("")
            trained = ", training: bool) -> " if has_dropout(self.layer, self.layers) else ") -> "
            yield f"def {self.name}({signature.replace(') -> ', trained, 1)}:"
            yield from self.write_docstring()
            yield from (INDENT + line.replace("self.training", "training") for line in forward)
            return
        yield from self.blocks.classes()
        yield f"class {self.name}({self.name_parent()}):"
        yield from [*self.write_docstring(), ""]
        starts = list(self.write_starts())
        lines = [*self.write_weights(), *self.blocks.lines(), *["self.reset_parameters()"] * bool(starts)]
        held = [f"self.{size} = {size}" for size in self.own if uses("\n".join([*starts, *forward]), rf"self\.{size}")]
        lines = [*held, *lines]
        lines = [
            *["self.config = config"] * uses("\n".join([*starts, self.write_signature(), *forward]), r"self\.config"),
            *lines,
        ]
        self.file.passed[self.layer.name] = (*["config"] * uses("\n".join(lines), "config"), *self.own)
        for name, arguments, body in (
            ("__init__", self.write_constructor(), ["super().__init__()", *lines] * bool(lines)),
            ("reset_parameters", "self) -> None", starts),
            ("forward", f"self, {self.write_signature()}", forward),
        ):
            if body:
                yield from self.write_check(INDENT) if body is forward else ()
                yield from [f"{INDENT}def {name}({arguments}:", *(2 * INDENT + line for line in body)]
                yield from [""] * (body is not forward)

    def write_constructor(self) -> str:
        """What the class is made from; the model from the sizes of the target, if it is given none."""
        default = " = Config()" * (self.layer.name == self.file.name)
        config = [f"config: Config{default}"] * ("config" in self.file.passed[self.layer.name])
        return f"{', '.join(['self', *config, *(f'{size}: int' for size in self.own)])}) -> None"

    @property
    def is_function(self) -> bool:
        """Is it a function, for it has no weights?"""
        return not self.layer.weights and self.layer.name != self.file.name

    @property
    def name(self) -> str:
        """What the file calls it."""
        name = self.layer.name
        return self.context.reserve_name("layer", name, name_function(name) if self.is_function else name)

    def write_check(self, indent: str) -> Iterator[str]:
        """The line by which every call is checked."""
        if self.file.style.check:
            yield f"{indent}@jaxtyped(typechecker=beartype)"

    def write_docstring(self) -> Iterator[str]:
        """What the layer is, what it makes of what, and what it follows, as a docstring."""
        what, where = self.file.style.cited(self.layer.note) if self.layer.note else ("", "")
        first, *more = re.split(r"(?<=[a-z])(?=[A-Z])", self.layer.name)
        words = what or " ".join([first, *(word if word.isupper() else word.lower() for word in more)])
        inputs = ", ".join(name_tensor(self.context, formal) for formal in self.layer.formals)
        output = name_tensor(self.context, self.layer.output)
        front = ", with any axes in front" * bool(self.file.hidden.get(self.layer.name))
        text = f"{words[0].upper()}{words[1:]}, {inputs} -> {output}{front}{f' ({where})' if where else ''}."
        yield from textwrap.wrap(f'"""{escape_prose(text)}"""', WIDTH, initial_indent=INDENT, subsequent_indent=INDENT)

    def name_parent(self) -> str:
        """The class that this one extends."""
        return "nn.Module"

    def write_weights(self) -> Iterator[str]:
        """The lines that make the parameters and buffers."""
        for weight in list_stored(self.layer):
            yield self.weight(weight)

    def weight(self, weight: Weight) -> str:
        """A weight as it is written."""
        shape = ", ".join(self.making.read_constant(i.letter) for i in weight.indices) or "()"
        if weight.kind == "buffer":
            return f'self.register_buffer("{key(weight.name)}", torch.zeros({shape}))'
        return f"self.{key(weight.name)} = nn.Parameter(torch.empty({shape}))"

    def write_starts(self) -> Iterator[str]:
        """The lines that give each parameter its first values."""
        kinds = read_roles(self.file.lowered, self.layer.name)
        for weight in list_stored(self.layer):
            yield self.write_start(f"self.{key(weight.name)}", kinds[weight.name], weight)

    def write_start(self, parameter: str, role: Role, weight: Weight) -> str:
        """How a weight starts, by what it does and by the plan; a buffer at zero."""
        if weight.kind == "buffer":
            return f"nn.init.zeros_({parameter})"
        match role.kind:
            case RoleKind.GAIN:
                return f"nn.init.ones_({parameter})"
            case RoleKind.BIAS:
                return f"nn.init.zeros_({parameter})"
            case RoleKind.MATRIX if self.file.plan.initialisation == "fan_in":
                inputs = " * ".join(map(self.kept.read_constant, role.summed)) or 1
                return f"nn.init.normal_({parameter}, std=1 / math.sqrt({inputs}))"
            case RoleKind.MATRIX if role.residual is not None:
                terms, turns = role.residual
                count = code_number(self.kept, turns)
                sums = f"{terms} * {count.at(PRODUCT)}" if terms > 1 else count.text
                return f"nn.init.normal_({parameter}, std={self.file.plan.deviation} / math.sqrt({sums}))"
            case RoleKind.MATRIX | RoleKind.TABLE:
                return f"nn.init.normal_({parameter}, std={self.file.plan.deviation})"

    # ---------------------------------------------------------------------------------------------------- forward

    def write_signature(self) -> str:
        """The inputs and the output, annotated."""
        parts = []
        for formal in self.layer.formals:
            kind = "Int" if formal.name in self.integers else "Num" if formal.name in self.whole.either else "Float"
            parts.append(f"{name_tensor(self.context, formal)}: {self.annotate(formal, kind)}")
        parts += ["config: Config"] * bool(self.is_function and self.file.passed[self.layer.name])
        return f"{', '.join(parts)}) -> {self.annotate(self.layer.output, 'Float')}"

    def annotate(self, tensor: Tensor | Name, kind: str) -> str:
        """`Tensor`, or `Float[Tensor, "b s d"]`; a group `(ea)` is `e*a`."""
        if not (self.file.style.annotations or self.file.style.check):
            return "Tensor"
        slots = tensor.slots if isinstance(tensor, Tensor) else ()
        hidden = [letter for letter in slot_letters(tensor) if not self.spell(letter)]
        axes = " ".join("*".join(map(self.write_length, slot_letters(Tensor("", (slot,))))) for slot in slots[len(hidden) :])
        axes = f"*{''.join(map(self.file.spell, hidden))} {axes}" if hidden else axes
        return f'{kind}[Tensor, "{axes}"]'

    def write_length(self, letter: str) -> str:
        """An axis in an annotation: its letter; where that is checked its size, if it has one that a method can read."""
        axis = self.file.legend.axis(letter)
        if not self.file.style.check or axis is None or not self.file.legend.is_bound(letter):
            return self.file.spell(letter)
        if not isinstance(axis.size, Name):
            return str(self.file.legend.length(letter))
        several = any(merged.first == self.layer.name for merged in self.file.merged.values())
        return self.file.spell(letter) if self.is_function or several else f"{{self.config.{axis.size.name}}}"

    def forward(self) -> list[str]:
        """The lines of the forward: what it needs first, then each equation."""
        emitter = self.make_emitter()
        self.body = list(emitter.body())
        return [*write_heads(self.context, self.body, emitter.define_scalar), *self.body]

    def make_emitter(self) -> Emitter:
        """What writes the forward."""
        functions = self.file.functions
        return Emitter(functions[self.layer.name], functions, self.context, self)

    def name_callee(self, call: Call) -> str:
        """A function, or the module of an instance."""
        if self.has_module(call):
            return f"{name_block(call.turns, self.layer)}.{key(call.instance)}"
        return self.context.reserve_name("layer", call.function, name_function(call.function))

    def list_extras(self, call: Call) -> Sequence[str]:
        """What a function is given beside tensors: the config, whether it is trained."""
        if self.has_module(call):
            return self.list_cache_arguments(call)
        config = [self.context.config] * bool(self.context.passed.get(call.function))
        trained = ["self.training"] * has_dropout(self.layers[call.function], self.layers)
        return [*config, *self.list_cache_arguments(call), *trained]

    def list_cache_arguments(self, call: Call) -> Sequence[str]:
        """What a call is given of a cache, where there is one."""
        return ()

    def has_module(self, call: Call) -> bool:
        """Has the layer that is called weights of its own?"""
        return bool(call.instance and self.layers[call.function].weights)

    def write_turning(self, turns: Turns) -> str:
        """What a loop runs through."""
        return self.blocks.write_turning(turns.loop, self.context)

    def write_comment(self, line: Line, indent: str) -> str:
        """The equation of a line as its author wrote it."""
        assert line.equation is not None
        return Comment.of(line.equation, indent)


def _write_tensor(line: Line) -> Tensor:
    """The name and the letters of a line."""
    groups = (tuple(Index(letter) for letter in label) for label in line.labels)
    return Tensor(line.name, tuple(group[0] if len(group) == 1 else Group(group) for group in groups))
