"""Emits the class of a specialised layer, with its weights, modules and forward, or the function of one without weights.

One list of blocks for each depth of loops holds the weights of their turns; turns of equal number share a block. The path of a
weight names the number of the turn, not the loop: `blocks.0.MLP.W`. Where one loop has the blocks, its turn is their forward.
In the plan `fast` weights lie as kernels read them.
"""

from __future__ import annotations

import ast
import math
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, TypeVar

from einformer.errors import EinformerError, Span
from einformer.interpreters.torch.emit import code_number, code_turning
from einformer.interpreters.torch.fast import KernelEmitter, Packing, lay_out
from einformer.interpreters.torch.flex import FlexEmitter
from einformer.interpreters.torch.fragments import (
    INDENT,
    PRODUCT,
    Context,
    Dims,
    assign_settings,
    escape_prose,
    has_dropout,
    multiply_sizes,
    name_block,
    name_function,
    read_settings,
    uses,
    write_heads,
)
from einformer.interpreters.torch.writing import NOTED, WIDTH
from einformer.language.calls import axis_of, slot_letters
from einformer.language.slots import Whole, find_selecting
from einformer.language.tree import (
    Apply,
    Equation,
    Expression,
    Group,
    Index,
    Layer,
    Loop,
    Name,
    Statement,
    Tensor,
    Weight,
)
from einformer.language.walk import children, equations, find_all, letters_in, subexpressions
from einformer.language.weights import key, list_stored, turns_of
from einformer.program.collectives import split_pairs
from einformer.program.operations import Call, Line, Turns
from einformer.program.roles import Kind as RoleKind
from einformer.program.roles import Role, read_roles

Loops = tuple[Loop, ...]
Choices = Sequence[tuple[Expression, bool]]  # conditions, and whether they hold


_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z][A-Za-z])")  # but in ViT
_TURNS = re.compile(r"for (?:(\w+), )?block in (?:enumerate\()?self\.blocks\)?:")
_FOREIGN = re.compile(r"\bself\.(?!training\b)|\bblock\b(?!\.)")  # what no block has
_TYPES = {"device": "torch.device", "dtype": "torch.dtype", "number": "torch.dtype"}


@dataclass(frozen=True, slots=True)
class Turn:
    """The forward of a block: a turn of the loop, from the line on that first calls a layer of the block."""

    inputs: Mapping[str, str]  # names and their types
    outputs: Sequence[str]
    settings: Sequence[str]  # what it reads off the config
    lines: Sequence[str]

    # Returns None where several loops have the blocks, or a turn needs more than they have or gives nothing. `heads` stand
    # before the body, in which a call of the block takes the place of the lines.
    @classmethod
    def take(cls, body: list[str], formals: Sequence[str], heads: Sequence[str], recompute: bool = False) -> Turn | None:
        (start, *more) = [number for number, line in enumerate(body) if "self.blocks" in line] or [0, 0]
        if more or not (header := _TURNS.fullmatch(body[start])):
            return None
        end = next((k for k in range(start + 1, len(body)) if not body[k].startswith(INDENT)), len(body))
        first = next(k for k in range(start, end) if "block." in body[k])
        while body[first - 1].lstrip().startswith("#"):
            first -= 1
        lines = [shift(line, -len(INDENT)) for line in body[first:end]]
        if any(line.startswith(" ") or _FOREIGN.search(line) for line in lines):
            return None
        settings, others = (_list_names([x for x in heads if (" = self.config." in x) is read])[1] for read in (True, False))
        (reads, bound), loop = _list_names(lines), header[1] or ""
        after = [*reads, *_list_names(body[start + 1 : first])[0], *_list_names(body[end:])[0]]
        outputs = [name for name in bound if name in after]
        if not outputs:
            return None
        names = {*formals, *others, *_list_names(body[:start], body[start + 1 : first])[1], loop}
        typed = [(name, "int" if name == loop else _find_type(name, heads)) for name in reads if name in names]
        inputs = dict(sorted(typed, key=lambda pair: (pair[0] not in outputs, pair[1] != "Tensor")))
        call = (
            f"checkpoint({', '.join(['block', *inputs])}, use_reentrant=False)" if recompute else f"block({', '.join(inputs)})"
        )
        body[first:end] = [f"{INDENT}{', '.join(outputs)} = {call}"]
        lines = [shift(re.sub(r"\bblock\.", "self.", line), 0, line) for line in lines]
        return cls(inputs, outputs, [name for name in reads if name in settings], lines)

    def write(self, context: Context) -> Iterator[str]:
        takes = "".join(f", {name}: {kind}" for name, kind in self.inputs.items())
        gives = "Tensor" if len(self.outputs) == 1 else f"tuple[{', '.join(['Tensor'] * len(self.outputs))}]"
        yield f"{INDENT}def forward(self{takes}) -> {gives}:"
        lines = [*assign_settings(context, self.settings, "self.config"), *self.lines, f"return {', '.join(self.outputs)}"]
        yield from (shift(line, 2 * len(INDENT)) for line in lines)


# What statements read before they bind it, and what they bind.
def _list_names(*parts: Sequence[str]) -> tuple[list[str], list[str]]:
    reads, bound = dict[str, None](), dict[str, None]()
    for statement in (one for lines in parts for one in ast.parse(textwrap.dedent("\n".join(lines))).body):
        names = [node for node in ast.walk(statement) if isinstance(node, ast.Name)]
        names.sort(key=lambda node: (node.lineno, node.col_offset))
        reads |= {node.id: None for node in names if isinstance(node.ctx, ast.Load) and node.id not in bound}
        bound |= {node.id: None for node in names if isinstance(node.ctx, ast.Store)}
    return [*reads], [*bound]


def _find_type(name: str, heads: Sequence[str]) -> str:
    head = next((line for line in heads if line.startswith(f"{name} = ")), "")
    if ".shape[" in head:
        return "int"
    return _TYPES.get(name, "Tensor" if "_" in name or "torch." in head or not head else "float")


@dataclass(slots=True)
class Blocks:
    """The instances of one layer: in which turns of which loops each is another, and the lines that make them."""

    context: Context
    held: dict[str, tuple[list[Loop], ...]]  # an instance: at each depth the loops in each turn of which it has other weights
    layers: dict[str, str]  # an instance: its layer
    exist: dict[str, set[tuple[int, ...]]]  # an instance: the turns of those loops in which it is called
    turn: Turn | None = None  # the forward of the outermost blocks

    @classmethod
    def of(cls, context: Context) -> Blocks:
        exist = turns_of(context.layer, context.legend)
        layers = {w.name: w.layer for w in context.layer.weights if exist.get(w.name) and context.layers[w.layer].weights}
        held: dict[str, tuple[list[Loop], ...]] = {}
        for call, around in _find_calls(context.layer.body):
            if call.name in layers:
                carried = tuple([loop] for loop in around if loop.index in call.indices)
                before = held.get(call.name, ([],) * len(carried))
                held[call.name] = tuple(some + loop for some, loop in zip(before, carried, strict=True))
        return cls(context, held, layers, exist)

    @property
    def depth(self) -> int:
        return max(map(len, self.held.values()), default=0)

    def list_loops(self, depth: int) -> list[Loop]:
        return [loop for loops in self.held.values() if len(loops) > depth for loop in loops[depth]]

    # The number is open until the sizes of a config are known.
    def write_counts(self, loops: Iterable[Loop], context: Context | None = None) -> str:
        first, *more = sorted({code_number(context or self.context, loop.count).text for loop in loops})
        return f"max({', '.join([first, *more])})" if more else first

    def name_turns(self, depth: int) -> Dims:
        names: Dims = ()
        for outer in range(depth):
            letter = self.list_loops(outer)[0].index.letter
            names += (letter + "_" * sum(name.rstrip("_") == letter for name in names),)
        return names

    # Without `turns` these are the instances outside of loops. Some instances exist in some turns only.
    def lines(self, turns: Dims = ()) -> Iterator[str]:
        names, before = (name for name, loops in self.held.items() if len(loops) == len(turns)), ""
        for condition, some in groupby(names, lambda name: self.write_condition(name, turns)):
            if condition:
                yield "else:" if before and condition == f"not ({before})" else f"if {condition}:"
            before = condition
            for name in some:
                passed = self.context.passed.get(self.layers[name], ())
                called = self.context.reserve_name("layer", self.layers[name], self.layers[name])
                sizes = (
                    self.context.spell_size(size, "config.") if size.isalpha() and size != "config" else size for size in passed
                )
                yield INDENT * bool(condition) + f"self.{key(name)} = {called}({', '.join(sizes)})"
        if self.depth > len(turns):
            letter = self.name_turns(len(turns) + 1)[-1] if self.is_numbered else "_"
            count = self.write_counts(self.list_loops(len(turns)))
            inside = self.reads_config(self.lines((*turns, letter)), len(turns) + 1)
            arguments = ", ".join([*["config"] * inside, *((*turns, letter) if self.is_numbered else ())])
            yield f"self.blocks = nn.ModuleList({self.name(len(turns) + 1)}({arguments}) for {letter} in range({count}))"

    def reads_config(self, lines: Iterable[str], depth: int) -> bool:
        return any("config" in line for line in lines) or bool(depth == 1 and self.turn and self.turn.settings)

    # A block knows its number if some instances exist in some turns only.
    @property
    def is_numbered(self) -> bool:
        names = {name: tuple(loop.index.letter for loop, *_ in loops) for name, loops in self.held.items()}
        return any(condition for name, turns in names.items() for condition in self.write_conditions(name, turns))

    def write_condition(self, name: str, turns: Dims) -> str:
        conditions = self.write_conditions(name, turns)
        return " and ".join(f"({condition})" if len(conditions) > 1 else condition for condition in conditions)

    # The condition is written as in the text, or as the numbers of the turns.
    def write_conditions(self, name: str, turns: Dims) -> list[str]:
        loops, reached = self.held[name], list(self.write_reached(self.held[name], turns))
        if len(self.exist[name]) == math.prod(max(map(self.context.count_turns, some)) for some in loops):
            return reached
        still = {loop.index.letter: turn for (loop, *_), turn in zip(loops, turns, strict=True)}
        first, *more = self.find_choices(name)
        if more or any(letters_in(condition) - still.keys() for condition, _ in first):
            return [f"({', '.join(turns)},) in {sorted(self.exist[name])}"]
        choices = (self.write_choice(*pair, still) for pair in first if letters_in(pair[0]))
        return [*reached, *choices]

    def write_reached(self, loops: Sequence[list[Loop]], turns: Dims) -> Iterator[str]:
        for depth, (some, turn) in enumerate(zip(loops, turns, strict=True)):
            if (count := self.write_counts(some)) != self.write_counts(self.list_loops(depth)):
                yield f"{turn} < {count}"

    # Each call has the choices around it whose conditions are numbers of layers (R8).
    def find_choices(self, name: str) -> list[Choices]:
        around = [choices for q in equations(self.context.layer.body) for choices in _find_conditions(q.right, name)]
        return [[pair for pair in choices if self.is_number(pair[0])] for choices in around]

    def is_number(self, condition: Expression) -> bool:
        try:
            self.context.legend.number(condition, dict.fromkeys(letters_in(condition), 0))
        except EinformerError:
            return False
        return True

    def write_choice(self, condition: Expression, holds: bool, still: dict[str, str]) -> str:
        text = code_number(replace(self.context, needs={}), condition, still).text
        return text if holds else f"not ({text})"

    def name(self, depth: int) -> str:
        layer = self.context.layer.name
        return self.context.reserve_name("block", f"{layer} {depth}", layer + "Block" * depth)

    # A class holds the weights of one turn; inner loops come first.
    def classes(self) -> Iterator[str]:
        for depth in range(self.depth, 0, -1):
            turns, turn = self.name_turns(depth), self.turn if depth == 1 else None
            over = " and of that over ".join(dict.fromkeys(loop.index.letter for loop in self.list_loops(depth - 1)))
            what = f"One turn of the loop over {over}" if turn else f"The weights of one turn of the loop over {over}"
            passed = f", {', '.join(turn.inputs)} -> {', '.join(turn.outputs)}" if turn else ""
            yield f"class {self.name(depth)}(nn.Module):"
            yield f'{INDENT}"""{what}{passed}."""'
            yield ""
            lines = list(self.lines(turns))
            config = ["config: Config"] * self.reads_config(lines, depth)
            numbers = [f"{letter}: int" for letter in turns] if self.is_numbered else []
            kept = ["self.config = config"] * bool(turn and turn.settings)
            yield f"{INDENT}def __init__({', '.join(['self', *config, *numbers])}) -> None:"
            yield from (2 * INDENT + line for line in ["super().__init__()", *kept, *lines])
            yield from ("", *turn.write(self.context)) if turn else ()
            yield from ("", "")

    # `l, block in enumerate(self.blocks)`.
    def write_turning(self, loop: Loop, context: Context) -> str:
        letter = loop.index.letter
        carried = [self.held[e.name] for e, _ in _find_calls(loop.body) if e.name in self.held and loop.index in e.indices]
        letters = [tuple(loop.index.letter for loop, *_ in loops) for loops in carried]
        paths = list(dict.fromkeys(path[: path.index(letter) + 1] for path in letters))
        if not paths:
            return f"{letter} in range({self.write_counts([loop], context)})"
        blocks = [name_block(path, self.context.layer) for path in paths]
        lists = [f"{name_block(path[:-1], self.context.layer)}.blocks" for path in paths]
        if len(paths) > 1 or self.write_counts([loop]) != self.write_counts(self.list_loops(len(paths[0]) - 1)):
            return f"{', '.join([letter, *blocks])} in zip(range({self.write_counts([loop], context)}), {', '.join(lists)})"
        read = context.named or any(x == loop.index for q in equations(loop.body) for x in subexpressions(q.right))
        return f"{letter}, {blocks[0]} in enumerate({lists[0]})" if read else f"{blocks[0]} in {lists[0]}"


def _find_calls(body: tuple[Statement, ...], around: Loops = ()) -> Iterator[tuple[Apply, Loops]]:
    for statement in body:
        if isinstance(statement, Loop):
            yield from _find_calls(statement.body, (*around, statement))
        else:
            yield from ((e, around) for e in find_all(Apply, statement.right))


def _find_conditions(e: Expression, name: str, choices: Choices = ()) -> Iterator[Choices]:
    if isinstance(e, Apply) and e.name == name:
        yield choices
    for place, child in enumerate(children(e)):
        chosen = [(e.arguments[0], place == 1)] if isinstance(e, Apply) and e.name == "where" and place > 0 else []
        yield from _find_conditions(child, name, [*choices, *chosen])


if TYPE_CHECKING:
    from einformer.interpreters.torch.source import EmittedFile

Some = TypeVar("Some", bound=Context)


class Comment(str):
    """An equation above the code that computes it: a line that knows where the equation is written."""

    __slots__ = ("span",)
    span: Span

    # An equation in LaTeX may have several lines, a comment has one (R13).
    @classmethod
    def of(cls, equation: Equation, indent: str) -> Comment:
        span = equation.span
        lines = span.source.text[span.start : span.end].splitlines()
        written = " ".join(map(str.strip, lines)) or equation.left.name
        comment = cls(f"{indent}# {written}" + (f"{NOTED}{equation.note}" if equation.note else ""))
        comment.span = span
        return comment


# Moves a line to the right, or to the left; a comment knows its equation still, that of `old` where its text is another.
def shift(line: str, by: int, old: str | None = None) -> str:
    text, written = " " * by + line[max(-by, 0) :], line if old is None else old
    if not isinstance(written, Comment):
        return text
    comment = Comment(text)
    comment.span = written.span
    return comment


class Class:
    """One specialised layer: the class with its weights, or the function, and its forward."""

    emitting: type[KernelEmitter] = KernelEmitter
    turning = True  # turns are the forward of blocks
    emitter: KernelEmitter

    def __init__(self, file: EmittedFile, layer: Layer, layers: Mapping[str, Layer]) -> None:
        function = file.functions[layer.name]
        inputs, output = tuple(map(_write_tensor, function.inputs)), _write_tensor(function.output)
        self.file, self.layer, self.layers = file, replace(layer, formals=inputs, output=output), layers
        time = next((axis_of(layer_of_file.time.letter) for layer_of_file in file.spec.layers if layer_of_file.time), "")
        self.time = time
        self.integers = find_selecting(layer, layers, file.legend)
        self.whole = Whole(layer, layers, file.legend)
        self.packings = [*lay_out(file.kernels[layer.name], layer, file.legend)] if file.kernels else []
        self.context: Context = self.make_context(Context)
        self.blocks = Blocks.of(self.make_context(Context, "config."))
        self.making = self.blocks.context  # what is read where it is made
        self.kept = self.make_context(Context, "self.config.")  # what is read after the module is made
        file.helpers |= dict.fromkeys(["Stored"] * bool(self.packings))

    def make_context(self, kind: type[Some], settings: str = "") -> Some:
        context = kind(self.file.legend, self.layer, self.layers, self.spell, self.time, helpers=self.file.helpers)
        context.names, context.passed, context.settings = self.file.names, self.file.passed, settings
        context.config = "config" if self.is_function else context.config
        context.own = frozenset(self.own)
        context.holders = {name: packing.name for packing in self.packings for name in packing.names}
        kernels, context.sharding = self.file.kernels.get(self.layer.name), self.file.plan.sharding
        if kernels is not None and context.sharding is not None:
            context.sharding = split_pairs(kernels, context.sharding)
        if context.sharding is not None:
            windows = self.file.find_windows(self.layer.name)
            context.sharding = replace(context.sharding, windows=tuple(windows.items()))
            context.windows = {
                letter: (code_turning(context, window.before).text, code_turning(context, window.after).text)
                for letter, window in windows.items()
            }
        if self.layer.name == self.file.name:  # the door has looked at these
            context.tokens = frozenset(name for name, letter in self.integers.items() if letter)
        return context

    # A class that serves several layers is given the sizes in which they differ.
    @property
    def own(self) -> list[str]:
        merged = [merging for merging in self.file.merged.values() if merging.first == self.layer.name]
        return list(dict.fromkeys(size for merging in merged for size, other in merging.sizes.items() if size != other))

    # Layers that share a class may have more or fewer axes in front, so an index there has no letter.
    def spell(self, letter: str) -> str:
        return "" if letter in self.file.hidden.get(self.layer.name, ()) else self.file.spell(letter)

    # ------------------------------------------------------------------------------------------------------ class

    def lines(self) -> Iterator[str]:
        forward = self.forward()
        if self.is_function:
            self.file.passed[self.layer.name] = ("config",) * uses("\n".join(forward), "config")
            signature = self.write_signature()
            yield from self.write_check("")
            trained = ", training: bool) -> " if has_dropout(self.layer, self.layers) else ") -> "
            yield f"def {self.name}({signature.replace(') -> ', trained, 1)}:"
            yield from self.write_docstring()
            yield from (shift(line.replace("self.training", "training"), len(INDENT), line) for line in forward)
            return
        yield from self.blocks.classes()
        yield f"class {self.name}({'Stored' if self.packings else 'nn.Module'}):"
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
                yield from [f"{INDENT}def {name}({arguments}:", *(shift(line, 2 * len(INDENT)) for line in body)]
                yield from [""] * (body is not forward)

    def write_constructor(self) -> str:
        default = " = Config()" * (self.layer.name == self.file.name)
        config = [f"config: Config{default}"] * ("config" in self.file.passed[self.layer.name])
        return f"{', '.join(['self', *config, *(f'{size}: int' for size in self.own)])}) -> None"

    @property
    def is_function(self) -> bool:
        return not self.layer.weights and self.layer.name != self.file.name

    @property
    def name(self) -> str:
        name = self.layer.name
        return self.context.reserve_name("layer", name, name_function(name) if self.is_function else name)

    def write_check(self, indent: str) -> Iterator[str]:
        if self.file.style.check:
            yield f"{indent}@jaxtyped(typechecker=beartype)"

    def write_docstring(self) -> Iterator[str]:
        what, where = self.file.style.cited(self.layer.note) if self.layer.note else ("", "")
        parts = [self.layer.name] if self.layer.name == self.file.name else _WORDS.split(self.layer.name)
        named = " ".join([parts[0], *(word if word.isupper() else word.lower() for word in parts[1:])])
        words = what or self.layer.comment or named
        inputs = ", ".join(self.context.name_tensor(formal) for formal in self.layer.formals)
        output = self.context.name_tensor(self.layer.output)
        front = ", with any axes in front" * bool(self.file.hidden.get(self.layer.name))
        text = f"{words[0].upper()}{words[1:]}, {inputs} -> {output}{front}{f' ({where})' if where else ''}."
        yield from textwrap.wrap(f'"""{escape_prose(text)}"""', WIDTH, initial_indent=INDENT, subsequent_indent=INDENT)

    def write_weights(self) -> Iterator[str]:
        self.making = replace(self.making, needs={}, settings="") if self.packings else self.making
        lines = [self.write_weight(weight, packing) for weight, packing in self.parameters()]
        entries = [f"{INDENT}{self.write_entry(packing)}," for packing in self.packings]
        lines += ["self.layout = {", *entries, "}"] * bool(entries)
        yield from read_settings(self.making, self.making.needs, "config", lines)
        yield from lines

    # The first weight stands for all that lie in one parameter.
    def parameters(self) -> Iterator[tuple[Weight, Packing | None]]:
        holders = {part.weight.name: packing for packing in self.packings for part in packing.parts}
        for weight in list_stored(self.layer):
            packing = holders.get(weight.name)
            if packing is None or packing.parts[0].weight is weight:
                yield weight, packing

    def write_weight(self, weight: Weight, packing: Packing | None) -> str:
        shape = self.write_shape(weight) or "()"
        if packing is not None:
            rows = _add_sizes([multiply_sizes(map(self.making.read_constant, part.rows)) for part in packing.parts])
            shape = ", ".join(filter(None, (self.multiply_sizes([packing.experts, packing.columns]), rows)))
        if weight.kind == "buffer":
            return f'self.register_buffer("{key(weight.name)}", torch.zeros({shape}))'
        return f"self.{packing.name if packing else key(weight.name)} = nn.Parameter(torch.empty({shape}))"

    # `D, A, H`; on a rank the sizes of its part.
    def write_shape(self, weight: Weight) -> str:
        letters, sharding = tuple(index.letter for index in weight.indices), self.making.sharding
        return self.multiply_sizes([letter] for letter in (letters if sharding is None else sharding.place_weight(letters)))

    # `D, A * H`.
    def multiply_sizes(self, groups: Iterable[Sequence[str]]) -> str:
        return ", ".join(multiply_sizes(map(self.making.read_constant, group)) for group in groups if group)

    # `"QKV": [("Q", (D, H, A), (0, 2, 1)), …]`.
    def write_entry(self, packing: Packing) -> str:
        parts = []
        for part in packing.parts:
            order = ", ".join(str(part.read.index(letter)) for letter in packing.experts + part.columns + part.rows)
            shape = self.write_shape(part.weight)
            comma = "," if len(part.read) == 1 else ""
            parts.append(f'("{key(part.weight.name)}", ({shape}{comma}), ({order}{comma}))')
        return f'"{packing.name}": [{", ".join(parts)}]'

    # Weights in one parameter start alike.
    def write_starts(self) -> Iterator[str]:
        kinds = read_roles(self.file.lowered, self.layer.name)
        for weight, packing in self.parameters():
            yield self.write_start(f"self.{packing.name if packing else key(weight.name)}", kinds[weight.name], weight)

    # The start depends on what the weight does and on the plan; a buffer starts at zero.
    def write_start(self, parameter: str, role: Role, weight: Weight) -> str:
        if weight.kind == "buffer":
            return f"nn.init.zeros_({parameter})"
        match role.kind:
            case RoleKind.GAIN:
                return f"nn.init.ones_({parameter})"
            case RoleKind.BIAS:
                return f"nn.init.zeros_({parameter})"
            case RoleKind.MATRIX if self.file.plan.initialisation == "fan_in":
                inputs = multiply_sizes(map(self.kept.read_constant, role.summed)) or 1
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
        parts = []
        for formal in self.layer.formals:
            kind = "Int" if formal.name in self.integers else "Num" if formal.name in self.whole.either else "Float"
            parts.append(f"{self.context.name_tensor(formal)}: {self.annotate(formal, kind)}")
        parts += [f"{letter}: int" for letter in self.file.turned.get(self.layer.name, ())]
        parts += ["config: Config"] * bool(self.is_function and self.file.passed[self.layer.name])
        return f"{', '.join(parts)}) -> {self.annotate(self.layer.output, 'Float')}"

    # `Tensor`, or `Float[Tensor, "b s d"]`; a group `(ea)` is `e*a`.
    def annotate(self, tensor: Tensor | Name, kind: str) -> str:
        if not (self.file.style.annotations or self.file.style.check):
            return "Tensor"
        slots = tensor.slots if isinstance(tensor, Tensor) else ()
        hidden = [letter for letter in slot_letters(tensor) if not self.spell(letter)]
        axes = " ".join("*".join(map(self.write_length, slot_letters(Tensor("", (slot,))))) for slot in slots[len(hidden) :])
        axes = f"*{''.join(map(self.file.spell, hidden))} {axes}" if hidden else axes
        return f'{kind}[Tensor, "{axes}"]'

    # A length is a letter; in a checked file a size, if a method can read it.
    def write_length(self, letter: str) -> str:
        axis = self.file.legend.axis(letter)
        if not self.file.style.check or axis is None or not self.file.legend.is_bound(letter):
            return self.file.spell(letter)
        if not isinstance(axis.size, Name):
            return str(self.file.legend.length(letter))
        several = any(merged.first == self.layer.name for merged in self.file.merged.values())
        return self.file.spell(letter) if self.is_function or several else f"{{self.config.{axis.size.name}}}"

    def forward(self) -> list[str]:
        functions = self.file.functions
        emitting = FlexEmitter if self.file.plan.flex else self.emitting
        self.emitter = emitting(functions[self.layer.name], functions, self.context, self)
        body = list(self.emitter.body())
        heads = write_heads(self.context, body, self.emitter.define_scalar)
        formals = [self.context.name_tensor(formal) for formal in self.layer.formals]
        self.blocks.turn = Turn.take(body, formals, heads, self.file.plan.recompute) if self.turning else None
        return [*(write_heads(self.context, body, self.emitter.define_scalar) if self.blocks.turn else heads), *body]

    def name_callee(self, call: Call) -> str:
        if self.has_module(call):
            return f"{name_block(call.turns, self.layer)}.{key(call.instance)}"
        return self.context.reserve_name("layer", call.function, name_function(call.function))

    # A function may take the config, and whether it is trained.
    def list_extras(self, call: Call) -> Sequence[str]:
        turns = self.file.turned.get(call.function, ())
        if self.has_module(call):
            return [*turns, *self.list_cache_arguments(call)]
        config = [self.context.config] * bool(self.context.passed.get(call.function))
        trained = ["self.training"] * has_dropout(self.layers[call.function], self.layers)
        return [*turns, *config, *self.list_cache_arguments(call), *trained]

    def list_cache_arguments(self, call: Call) -> Sequence[str]:
        return ()

    def has_module(self, call: Call) -> bool:
        return bool(call.instance and self.layers[call.function].weights)

    def write_turning(self, turns: Turns) -> str:
        return self.blocks.write_turning(turns.loop, self.context)

    def write_comment(self, line: Line, indent: str) -> str:
        assert line.equation is not None
        return Comment.of(line.equation, indent)


def _add_sizes(sizes: list[str]) -> str:
    return " + ".join(sizes) if len(sizes) == 1 or len(set(sizes)) > 1 else multiply_sizes((str(len(sizes)), sizes[0]))


def _write_tensor(line: Line) -> Tensor:
    groups = (tuple(Index(letter) for letter in label) for label in line.labels)
    return Tensor(line.name, tuple(group[0] if len(group) == 1 else Group(group) for group in groups))
