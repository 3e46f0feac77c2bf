"""Emits a program that continues: the file of the same classes, whose forwards take a cache of what they read later."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from einformer.interpreters.torch.cache import TEXT
from einformer.interpreters.torch.classes import Class
from einformer.interpreters.torch.emit import Variable, make_index
from einformer.interpreters.torch.fast import KernelEmitter
from einformer.interpreters.torch.fragments import ATOM, INDENT, LOOSE, SUM, Context, Dims, Fragment, align
from einformer.interpreters.torch.plan import PLAIN, Plan, Style
from einformer.interpreters.torch.source import EmittedFile, count_axes
from einformer.interpreters.torch.writing import find_unused
from einformer.language.calls import axis_of, slot_letters
from einformer.language.sizes import Legend
from einformer.language.specialise import specialise
from einformer.language.tree import Layer, Name, Spec, Tensor
from einformer.language.weights import key
from einformer.program import operations as op
from einformer.program.decoding import (
    KEPT,
    Ago,
    Among,
    Asked,
    Keep,
    Places,
    Positions,
    Resume,
    Run,
    Steady,
    continue_functions,
    is_natural,
    keeps_anything,
    reads_cache,
)
from einformer.program.fusing import lower_for_plan
from einformer.program.keeping import Entry
from einformer.program.kernels import Attention
from einformer.program.lowering import find_time, lower_functions
from einformer.program.operations import Axes, Label, Line, Turns, Value
from einformer.program.orders import estimate_size
from einformer.program.rewrite import name_values, walk_lines, walk_values
from einformer.program.sharding import refuse_split_positions


# The file for the causal model `name`: each class as in the file without a cache, its forward with one.
def write_cached_source(
    spec: Spec, name: str, legend: Legend, plan: Plan, kept: Sequence[Entry[int]], style: Style = PLAIN
) -> str:
    special = specialise(spec, name)
    rows = find_rows(next(layer for layer in special.layers if layer.name == name))
    plan = replace(plan, flex=False, recompute=False)  # a step has one query, of which no blocks are left out, and no gradient
    lowered, sharding, time = lower_functions(special, legend), plan.sharding, find_time(special)
    if sharding is not None:  # a step has one position, which no ranks can share
        sharding = replace(sharding, yielding=())
        plan = replace(plan, sharding=sharding)
        refuse_split_positions(sharding, time, legend)
    versions = frozenset((entry.layer, entry.name, entry.loops) for entry in kept)
    whole = lower_for_plan(lowered, special, name, legend, sharding, plan.fast)
    program = lower_for_plan(lowered, special, name, legend, sharding, plan.fast, versions, steps=True)
    decoded = continue_functions(program, kept, legend, name, time, rows)
    file = CachedFile(special, name, legend, plan, style, count_axes(spec), lowered, whole, decoded, kept=kept, rows=rows)
    file.counting = frozenset({name, *(called for called, function in decoded.items() if reads_cache(function, decoded))})
    file.keeping = frozenset(called for called, function in decoded.items() if keeps_anything(function, decoded))
    return file.text()


@dataclass(slots=True)
class CachedFile(EmittedFile):
    """A file whose forwards take a cache."""

    kept: Sequence[Entry[int]] = ()
    rows: Dims = ()
    counting: frozenset[str] = frozenset()  # the layers that need the cache
    keeping: frozenset[str] = frozenset()  # those that need their path in it too

    def make_class(self, layer: Layer, layers: Mapping[str, Layer]) -> Class:
        return CachedClass(self, layer, layers)

    def first(self) -> Iterator[str]:
        yield "\n".join(self.write_table())
        yield TEXT.rstrip()

    def write_table(self) -> Iterator[str]:
        backs_of_patterns: dict[str, dict[tuple[str, ...], int | None]] = {}
        for entry in self.kept:
            turns = tuple(re.findall(r"blocks\.(\d+)", entry.full_path))
            backs_of_patterns.setdefault(re.sub(r"blocks\.\d+", "blocks.{}", entry.full_path), {})[turns] = entry.back
        yield "KEPT: dict[str, int | None] = {  # how many positions beside the current one; None: all"
        for pattern, backs in backs_of_patterns.items():
            yield f"    {_write_row(pattern, backs)},"
        yield "}"
        if shared := {entry.full_path: entry.source for entry in self.kept if entry.source}:
            yield "SHARED = {  # what another layer keeps already, by its path"
            yield from (f'    "{path}": "{source}",' for path, source in shared.items())
            yield "}"


def _write_row(pattern: str, backs: dict[tuple[str, ...], int | None]) -> str:
    values = set(backs.values())
    numbers = [turns[0] for turns in backs if len(turns) == 1]
    path = pattern.replace("{}", "{l}")
    if len(numbers) != len(backs):
        return ", ".join(f'"{pattern.format(*turns)}": {back}' for turns, back in backs.items())
    if len(values) == 1 and numbers == [str(k) for k in range(len(numbers))]:
        return f'**{{f"{path}": {values.pop()} for l in range({len(numbers)})}}'
    listed = ", ".join(f"{number}: {back}" for number, back in zip(numbers, backs.values(), strict=True))
    return f'**{{f"{path}": back for l, back in {{{listed}}}.items()}}'


# The letters of a batch stand before the time in the first input that has it.
def find_rows(model: Layer) -> tuple[str, ...]:
    letters, time = slot_letters(model.formals[find_timed(model)]), model.time.letter if model.time else ""
    return letters[: letters.index(time)] if time in letters else ()


def find_timed(model: Layer) -> int:
    return next((k for k, formal in enumerate(model.formals) if model.time in formal.slots), 0)


@dataclass(slots=True)
class CachedContext(Context):
    """A context in whose sizes there are new positions, and visible ones."""

    wanted: dict[str, None] = field(default_factory=dict)  # what the head must say of the cache
    fresh: str = ""  # how many positions are computed from here on, where that is no name of the head
    rows: Dims = ()  # the letters of a batch

    # `S` new positions, `seen` visible ones.
    def size(self, letter: str) -> str:
        if axis_of(letter) != self.time:
            return self.read_constant(letter)
        if letter == self.time and self.fresh:
            return self.fresh
        self.wanted["fresh" if letter == self.time else "seen"] = None
        return self.count if letter == self.time else "seen"

    @property
    def count(self) -> str:
        size = self.legend.axes[self.time].size
        return size.name if isinstance(size, Name) else "fresh"

    # Decoding computes one position.
    def estimate_size(self, letter: str) -> int:
        return estimate_size(self.legend, letter, self.time)


class CachedEmitter(KernelEmitter):
    """The forward of a function that continues."""

    __slots__ = ()
    context: CachedContext

    # Lines before those that are the same at every step are computed at the first step.
    def lines(self, lines: tuple[Line | Turns, ...], indent: str) -> Iterator[str]:
        new = [line.value.operation if isinstance(line, Line) and line.equation is None else None for line in lines]
        kept = [operation for operation in new if isinstance(operation, Steady)]
        if kept:
            first, given = new.index(kept[0]), {value: [*places] for value, places in self.stored.items()}
            yield f"if {write_path(kept[0].path)} not in cache.rows:  # the same at every step"
            yield from super().lines(lines[:first], INDENT)
            for same in kept:
                yield f"{INDENT}cache.rows[{write_path(same.path)}] = {self.find_lying(same.argument).name}"
            for value in name_values(lines[:first]).keys() - {same.argument for same in kept}:
                self.stored.pop(value, None)  # at the next step it is not there, unless it is given
                self.stored |= {value: given[value]} if value in given else {}
            lines = lines[first:]
        yield from super().lines(lines, indent)

    # A tensor that is kept, or asked for, lies as it lay.
    def line(self, line: Line) -> Iterator[str]:
        match line.value.operation:
            case Keep() as kept if line.equation is None:
                text, labels = self.code_kept(kept)
                line = replace(line, labels=labels)
                yield f"{self.name(line)} = {text}"
                self.store(line)
            case Steady(argument, path) if line.equation is None:
                place = self.find_lying(argument)
                yield f"{place.name} = cache.rows[{write_path(path)}]"
                self.names[line.name] = place.name
                self.lay(line.value, place)
            case Asked(argument, letter) if line.equation is None:
                place = self.find_lying(argument)
                axis = place.labels.index((letter,))
                yield f"{place.name} = cache.select_asked({place.name}, {axis})"
                self.context.fresh = f"{place.name}.shape[{axis}]"  # from here on
                self.names[line.name] = place.name
                self.lay(line.value, place)
            case _:
                yield from super().line(line)

    def find_lying(self, value: Value) -> Variable:
        place = self.find_place(value)
        assert place is not None
        return place

    # `k_btd` at all visible positions, `k_kept` at earlier ones.
    def choose_name(self, line: Line) -> str:
        earlier = isinstance(line.value.operation, Keep) and axis_of(line.value.operation.letters[1]) != self.context.time
        name = line.name.removesuffix(KEPT)
        return self.avoid_tensors(f"{key(name)}_kept") if earlier else super().choose_name(replace(line, name=name))

    # The name is free in whichever order the axes of a tensor lie.
    def avoid_tensors(self, name: str) -> str:
        lines = (*self.function.inputs, *walk_lines(self.function.lines))
        tensors = {(key(line.name.removesuffix(KEPT)), frozenset(map(self.context.spell, line.value.axes))) for line in lines}
        stem, _, letters = name.rpartition("_")
        return name + "_" * ((stem, frozenset(letters)) in tensors)

    def code_kept(self, e: Keep) -> tuple[str, tuple[Label, ...]]:
        place, (own, other) = self.find_lying(e.argument), e.letters
        method = "keep" if axis_of(other) == self.context.time else "keep_earlier"
        seen = ", seen=seen" * (method == "keep" and not e.always)
        if seen:
            self.context.wanted["seen"] = None
        text = f"cache.{method}({write_path(e.path)}, {place.name}, {place.labels.index((own,))}{self.row(place.labels)}{seen})"
        return text, tuple((other,) if label == (own,) else label for label in place.labels)

    # The axis of rows is the last argument where padding is masked; the first axis is the default.
    def row(self, labels: Sequence[Label]) -> str:
        position = next((k for k, label in enumerate(labels) if "".join(label) in self.context.rows), 0)
        return f", {position}" * bool(position)

    # Positions along themselves are their places.
    def code(self, value: Value, wanted: Dims | None = None) -> Fragment:
        if value.operation == op.Iota(self.context.time):
            self.context.needs["device"] = None
            return Fragment(f"torch.arange({self.context.size(self.context.time)}, device=device)", value.axes, "integer")
        return super().code(value, wanted)

    def code_rewritten(self, value: Value, wanted: Dims | None) -> Fragment:
        match value.operation:
            case Positions(letter, step):
                return self.code_numbers(letter, step)
            case Among(letter, step):
                self.context.wanted |= {"fresh": None} if step else {"fresh": None, "row": None}
                last = Fragment(f"{self.turns[letter]} - {self.context.count}", (), "integer", SUM) if step else None
                return last or Fragment("row", (letter,), "integer")
            case Places(number, letter):
                return self.code_places(self.code(number, wanted), letter)
            case Ago(number):
                return self.code(number, wanted)
            case Keep() as kept:
                text, labels = self.code_kept(kept)
                return self.view(text, labels, labels, value.kind)
            case Run(name, letter, argument, path):
                code = self.code(argument, wanted)
                row = self.row(tuple((dim,) for dim in code.dims))
                text = f"cache.{name}({write_path(path)}, {code.text}, {code.dims.index(letter)}{row})"
                return Fragment(text, code.dims, code.kind)
            case _:
                return super().code_rewritten(value, wanted)

    # `s_bs` and `t_bt`: every row has numbers of its own.
    def code_numbers(self, letter: str, step: bool) -> Fragment:
        self.context.wanted["new" if letter == self.context.time else f"visible {letter}"] = None
        name = self.name_numbers(letter)
        turn = f"{name}[..., {self.turns[letter]}]" if step else ""
        return Fragment(turn or name, self.context.rows + (letter,) * (not step), "integer")

    def name_numbers(self, letter: str) -> str:
        own = self.context.spell(letter)
        return self.avoid_tensors(f"{own}_{''.join(map(self.context.spell, self.context.rows))}{own}")

    def code_places(self, number: Fragment, letter: str) -> Fragment:
        dims = tuple(dict.fromkeys((*self.context.rows, *number.dims)))
        whole = number if number.kind == "integer" else Fragment(f"{number.at(ATOM)}.long()", number.dims)
        text = align(whole, dims) if number.dims else f"torch.full({(1,) * len(self.context.rows)}, {whole.text})"
        return Fragment(f"cache.find_places({text}, {self.context.size(letter)})", dims, "integer")

    # A place lies among the visible ones; a place before the start of time is zero (R4).
    def place(self, slot: op.Slot, wanted: Dims | None) -> tuple[Fragment, Fragment | None]:
        match slot.number.operation:
            case Places(number):
                code = self.code(number, wanted)
                begun = Fragment(f"{code.at(SUM)} >= 0", code.dims, "condition", LOOSE)
                return self.code(slot.number, wanted), None if is_natural(number) else begun
            case Positions() | Ago():
                return make_index(self.code(slot.number)), None
            case _:
                return super().place(slot, wanted)

    def is_token(self, value: Value) -> bool:
        e = value.operation
        return self.is_token(e.argument) if isinstance(e, Keep | Asked) else super().is_token(value)

    def want(self, value: Value, axes: Axes) -> None:
        if isinstance(value.operation, Keep):
            own, other = value.operation.letters
            self.want(value.operation.argument, tuple(own if letter == other else letter for letter in axes))
        else:
            super().want(value, axes)

    # `is_causal` counts positions from the first new one.
    def write_causal(self, kernel: Attention) -> Sequence[str]:
        return f"attn_mask=cache.make_mask({1 if kernel.heads or kernel.groups else 0})", "is_causal=cache.first"

    def start_steps(self, recur: op.Recur, zeros: str, axis: int) -> str:
        return f"cache.list_steps({write_path(recur.path)}, {zeros}, {axis})" if isinstance(recur, Resume) else zeros

    def finish_step(self, recur: op.Recur, step: str, labels: Sequence[Label]) -> str:
        return f"cache.zero_step({step}, step{self.row(labels)})" if isinstance(recur, Resume) else step


class CachedClass(Class):
    """A layer whose forward takes a cache."""

    file: CachedFile
    context: CachedContext
    emitting = CachedEmitter
    turning = False  # a layer is asked for by its path in the cache
    emitter: CachedEmitter

    def __init__(self, file: CachedFile, layer: Layer, layers: Mapping[str, Layer]) -> None:
        super().__init__(file, layer, layers)
        before = {slot_letters(tensor) for tensor in (*layer.formals, layer.output)}
        self.bare = {tensor for tensor in (*self.layer.formals, self.layer.output) if slot_letters(tensor) not in before}
        self.inputs, self.is_model = file.functions[layer.name].inputs, layer.name == file.name
        self.context = self.make_context(CachedContext)
        self.context.named, self.context.rows = True, file.rows

    def write_signature(self) -> str:
        inputs, _, output = super().write_signature().rpartition(") -> ")
        more = ", cache: Cache" * (self.layer.name in self.file.counting)
        more += ", path: str" * (self.layer.name in self.file.keeping and not self.is_model)
        return f"{inputs}{more}) -> {output}"

    # `"#b s t"`: positions are one for all rows, or one for each.
    def annotate(self, tensor: Tensor | Name, kind: str) -> str:
        written = super().annotate(tensor, kind)
        for row in self.file.rows if tensor in self.bare else ():
            written = re.sub(rf'(?<=[" ]){self.file.spell(row)}(?=[" ])', rf"#{self.file.spell(row)}", written, count=1)
        return written

    def forward(self) -> list[str]:
        letters, visible = self.file.letters, f"{self.time}'"
        if any(visible in value.axes for value in walk_values(self.file.functions[self.layer.name])) and visible not in letters:
            letters[visible] = find_unused(letters, string.ascii_lowercase, self.time)
        lines = super().forward()
        return [*self.heads(), *lines]

    def list_cache_arguments(self, call: op.Call) -> Sequence[str]:
        path = [write_path(call.path)] * (call.function in self.file.keeping)
        return ["cache", *path] if call.function in self.file.counting else ()

    # ------------------------------------------------------------------------------------------------------- the head

    def heads(self) -> Iterator[str]:
        wanted, time, numbered = self.context.wanted, self.time, self.emitter.name_numbers
        names = [(self.emitter.name(line), line.labels) for line in self.inputs]
        timed = [(name, labels.index((time,))) for name, labels in names if (time,) in labels]
        visible = [need.removeprefix("visible ") for need in wanted if need.startswith("visible ")]
        narrowed = list(self.write_narrowed(names)) if self.visibly else []
        first = timed[0][0] if timed and self.is_model else names[0][0]
        if self.is_model:
            yield f"cache.begin({first}.shape[{dict(timed).get(first, 0)}], {first}.device)"
        if "fresh" in wanted:
            yield next(
                (f"{self.context.count} = {name}.shape[{axis}]" for name, axis in timed),
                f"{self.context.count} = cache.fresh",
            )
        if "row" in wanted:
            yield f"row = torch.arange(-{self.context.count}, 0, device={first}.device)"
        if "new" in wanted:
            yield f"{numbered(time)} = cache.number_new()"
        if "seen" in wanted or visible or narrowed:
            yield f"seen = {self.count_visible(names)}"
        yield from (f"{numbered(letter)} = cache.number_last(seen)" for letter in visible)
        yield from narrowed

    @property
    def visibly(self) -> list[Entry[int]]:
        return [entry for entry in self.file.kept if entry.layer == self.layer.name and entry.kind == "visible"]

    # As many positions are visible as are kept or given, else as any layer below sees.
    def count_visible(self, names: Sequence[tuple[str, Sequence[Label]]]) -> str:
        if own := self.visibly:
            place = own[0].full_path.removeprefix(own[0].frame).removeprefix(".")
            return f"cache.count_visible({write_path('{path}' * (not self.is_model) + place)})"
        for name, axis in self.find_visible(names):
            return f"{name}.shape[{axis}]"
        below = [entry for entry in self.file.kept if entry.kind == "visible"]
        everything = next((entry.full_path for entry in below if entry.back is None), "")
        windows = sorted((entry.back or 0, entry.full_path) for entry in below)
        return f'cache.count_visible("{everything or (windows[-1][1] if windows else "")}")'

    def write_narrowed(self, names: Sequence[tuple[str, Sequence[Label]]]) -> Iterator[str]:
        yield from (f"{name} = cache.narrow({name}, {axis}, seen)" for name, axis in self.find_visible(names))

    def find_visible(self, names: Sequence[tuple[str, Sequence[Label]]]) -> Iterator[tuple[str, int]]:
        for name, labels in names:
            for axis, label in enumerate(labels):
                if len(label) == 1 and axis_of(label[0]) == self.time != label[0]:
                    yield name, axis


def write_path(path: str) -> str:
    return f'f"{path}"' if "{" in path else f'"{path}"'
