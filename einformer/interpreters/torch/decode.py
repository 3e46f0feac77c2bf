"""Which PyTorch continues from what was kept? The same classes, whose forward takes a cache.

Equations are lowered as they are; only what reads another position reads the cache, positions are numbers of the cache, and a
recurrence and a running sum start where they ended.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from einformer.errors import fail
from einformer.interpreters.torch.cache import TEXT
from einformer.interpreters.torch.classes import Class
from einformer.interpreters.torch.code import SUM, Code, Dims
from einformer.interpreters.torch.fast import FastClass
from einformer.interpreters.torch.lower import Lowering
from einformer.interpreters.torch.masks import sunk
from einformer.interpreters.torch.patterns import is_causal_mask, letters
from einformer.interpreters.torch.plan import Plan
from einformer.interpreters.torch.positions import Kept, lacks, numbered, reaching, rows_of, with_rows
from einformer.interpreters.torch.recurrences import Start, solved
from einformer.interpreters.torch.slots import Variable, read, taken, variable_of
from einformer.interpreters.torch.source import EmittedFile
from einformer.notation.calls import axis_of, slot_letters
from einformer.notation.sizes import Legend
from einformer.notation.specialise import specialise
from einformer.notation.tree import Apply, Equation, Group, Index, Layer, Name, Spec, Statement, Sum, Tensor
from einformer.notation.walk import equations, loops
from einformer.notation.weights import key, versions
from einformer.notation.weights import place as place_of


def source(spec: Spec, name: str, legend: Legend, plan: Plan, kept: Sequence[Kept]) -> str:
    """The file for the causal model `name`: each class as in the file without a cache, its forward with one."""
    special = specialise(spec, name)
    model = next(layer for layer in special.layers if layer.name == name)
    assert model.time is not None
    time, rows = model.time.letter, rows_of(model)
    layers = {layer.name: layer for layer in special.layers}
    keeping = reaching(layers, {each.layer for each in kept})
    counting = reaching(layers, {name, *keeping, *(each.name for each in special.layers if numbered(each, time))})
    bare = {(each.name, t.name) for each in special.layers for t in (*each.formals, each.output) if lacks(t, time, rows)}
    special = sunk(special, legend) if plan.fast else special
    file = CachedFile(with_rows(special, time, rows), name, legend, plan, kept=kept, rows=rows, bare=frozenset(bare))
    file.keeping, file.counting = keeping, counting
    return file.text()


@dataclass(slots=True)
class CachedFile(EmittedFile):
    """A file whose forwards take a cache."""

    kept: Sequence[Kept] = ()
    rows: Dims = ()
    bare: frozenset[tuple[str, str]] = frozenset()  # what has no batch where all rows have the same positions
    counting: frozenset[str] = frozenset()  # the layers that need the cache
    keeping: frozenset[str] = frozenset()  # those that need their path in it too

    def written(self, layer: Layer, layers: Mapping[str, Layer]) -> Class:
        """A layer whose forward takes a cache."""
        return CachedFast(self, layer, layers) if self.plan.fast else CachedClass(self, layer, layers)

    def first(self) -> Iterator[str]:
        """What is kept, and the class that keeps it."""
        yield "\n".join(self.table())
        yield TEXT.rstrip()

    @property
    def time(self) -> str:
        """The letter of the positions that are computed."""
        time = next(layer.time for layer in self.spec.layers if layer.name == self.name)
        assert time is not None
        return time.letter

    def tensors(self, layer: Layer) -> list[Tensor | Name]:
        """What a layer is given and what it defines."""
        return [*layer.formals, *(equation.left for equation in equations(layer.body))]

    def table(self) -> Iterator[str]:
        """What is kept, by path: `KEPT`."""
        found: dict[str, dict[tuple[str, ...], int | None]] = {}
        for each in self.kept:
            turns = tuple(re.findall(r"blocks\.(\d+)", each.full_path))
            found.setdefault(re.sub(r"blocks\.\d+", "blocks.{}", each.full_path), {})[turns] = each.back
        yield "KEPT: dict[str, int | None] = {  # how many positions beside the current one; None: all"
        for pattern, backs in found.items():
            yield f"    {_row(pattern, backs)},"
        yield "}"


def _row(pattern: str, backs: dict[tuple[str, ...], int | None]) -> str:
    """One line for all turns of a loop."""
    values = set(backs.values())
    numbers = [turns[0] for turns in backs if len(turns) == 1]
    path = pattern.replace("{}", "{l}")
    if len(numbers) != len(backs):
        return ", ".join(f'"{pattern.format(*turns)}": {back}' for turns, back in backs.items())
    if len(values) == 1 and numbers == [str(k) for k in range(len(numbers))]:
        return f'**{{f"{path}": {values.pop()} for l in range({len(numbers)})}}'
    listed = ", ".join(f"{number}: {back}" for number, back in zip(numbers, backs.values(), strict=True))
    return f'**{{f"{path}": back for l, back in {{{listed}}}.items()}}'


# ------------------------------------------------------------------------------------------------------- expressions


@dataclass(slots=True)
class Continued:
    """How the forward of one layer reads the cache, and what must stand at its head for that."""

    file: CachedFile
    layer: Layer
    kept: dict[str, Variable] = field(default_factory=dict)  # tensors with all their visible positions
    earlier: dict[str, Variable] = field(default_factory=dict)  # tensors with some earlier positions before the new ones
    needs: dict[str, None] = field(default_factory=dict)
    among: bool = False  # an index is counted from the end of the new positions
    name: str = ""  # of the equation that is lowered

    @property
    def seen(self) -> str:
        """The letter of Python for all visible positions."""
        time = self.file.time
        return next((new for old, new in self.file.letters.items() if axis_of(old) == time != old), "")

    def read(self, low: Lowering, e: Tensor) -> Code | None:
        """A tensor at visible positions, or at a position before."""
        defined = next((t for t in self.file.tensors(self.layer) if t.name == e.name), None)
        place = self.place(defined) if isinstance(defined, Tensor) else None
        if e.name == low.steps[0]:
            return None
        if place is None:
            return self.table(low, e) if defined is None else None
        slot = e.slots[place]
        if isinstance(slot, Index) and slot.letter == self.file.time:
            return None
        if isinstance(slot, Index) and e.name in self.kept:
            return read(replace(low, past=None, variables={**low.variables, e.name: self.kept[e.name]}), e)
        if isinstance(slot, Sum) and e.name in self.earlier:
            return self.before(low, e, place)
        message = f"`{e.name}` is read at a position at which it is not kept"
        raise fail("E508", message, e.span, fix="`s'`, or `(s - 1)`, of what depends on the inputs")

    def place(self, defined: Tensor) -> int | None:
        """The slot of a tensor that is its position."""
        slots = enumerate(defined.slots)
        return next((k for k, slot in slots if isinstance(slot, Index) and slot.letter == self.file.time), None)

    def before(self, low: Lowering, e: Tensor, place: int) -> Code:
        """`x_{b(s - c)}`: counted from the end of the new positions, before which the earlier ones lie."""
        slots = (*e.slots[:place], Group((e.slots[place],)), *e.slots[place + 1 :])  # a group may hold any number of an axis
        self.among = True
        known = replace(low, variables={**low.variables, e.name: self.earlier[e.name]})
        code = read(known, replace(e, slots=slots))
        self.among = False
        return code

    def table(self, low: Lowering, e: Tensor) -> Code | None:
        """`P_sd`: a weight that is read at the number of a position."""
        at = [k for k, slot in enumerate(e.slots) if isinstance(slot, Index) and axis_of(slot.letter) == self.file.time]
        return taken(low, e, variable_of(low, e.name), at[0], low.lower(e.slots[at[0]])) if len(at) == 1 else None

    def size(self, low: Lowering, letter: str) -> str:
        """`S` new positions, `seen` visible ones."""
        self.needs["fresh" if letter == self.file.time else "seen"] = None
        return low.constant(letter) if letter == self.file.time else "seen"

    def index(self, low: Lowering, letter: str) -> Code:
        """`s_bs` and `t_bt`: every row has numbers of its own."""
        step = low.still.get(letter)
        if self.among:
            self.needs |= {"fresh": None} if step else {"fresh": None, "among": None}
            return Code(f"{step} - {low.constant(letter)}", (), "integer", SUM) if step else Code("row", (letter,), "integer")
        self.needs["new" if letter == self.file.time else "visible"] = None
        if step:
            return Code(f"{self.numbers(letter)}[..., {step}]", self.file.rows, "integer")
        return Code(self.numbers(letter), (*self.file.rows, letter), "integer")

    def numbers(self, letter: str) -> str:
        """The variable of the numbers of an index."""
        spelling = self.file.spelling(letter)
        return f"{spelling}_{''.join(map(self.file.spelling, self.file.rows))}{spelling}"

    def sum(self, low: Lowering, argument: Code) -> Code:
        """A running sum goes on from the last."""
        assert self.name
        path, axis = f"{self.inside(low)}{self.name}.sum", argument.dims.index(low.time)
        self.name += "ʹ"
        return Code(f"cache.summed({self.text(path)}, {argument.text}, {axis})", argument.dims, argument.kind)

    def causal(self, heads: int) -> Sequence[str]:
        """The mask of a causal attention, where it has one; `is_causal` counts positions from the first new one."""
        return f"attn_mask=cache.causal({heads})", "is_causal=cache.first"

    def arguments(self, low: Lowering, e: Apply, layer: Layer) -> Sequence[str]:
        """The cache, and the path of the call in it."""
        if layer.name not in self.file.counting:
            return ()
        path = f"{self.inside(low)}{place_of(e, self.layer)}."
        return ("cache", self.text(path)) if layer.name in self.file.keeping else ("cache",)

    def inside(self, low: Lowering) -> str:
        """The path of what stands here: its layer's, and the turns of the loops around."""
        own = "" if self.layer.name == self.file.name else "{path}"
        return own + "".join(f"blocks.{{{low.still[letter]}}}." for letter in low.still if letter in self.loops)

    @property
    def loops(self) -> frozenset[str]:
        """The letters of the loops of the layer."""
        return frozenset(loop.index.letter for loop in loops(self.layer.body))

    def text(self, path: str) -> str:
        """A path as Python."""
        return f'f"{path}"' if "{" in path else f'"{path}"'

    def heads(self) -> Iterator[str]:
        """What must stand at the head of a forward."""
        file, layer = self.file, self.layer
        time, given = file.legend.axes[file.time].size, name_of(file, layer.formals[0])
        narrowed = [line for formal in layer.formals if self.own() for line in self.narrowed(formal)]
        if layer.name == file.name:
            axis = slot_letters(layer.formals[0]).index(file.time)
            yield f"cache.begin({given}.shape[{axis}], {given}.device)"
        if "fresh" in self.needs and isinstance(time, Name):
            yield f"{time.name} = cache.fresh"
        if "among" in self.needs:
            yield f"row = torch.arange(-{time.name if isinstance(time, Name) else 'cache.fresh'}, 0, device={given}.device)"
        if "new" in self.needs:
            yield f"{self.numbers(file.time)} = cache.new()"
        if "seen" in self.needs or "visible" in self.needs:
            yield f"seen = {self.reach()}"
        if "visible" in self.needs:
            yield f"{self.seen}_{''.join(map(file.spelling, file.rows))}{self.seen} = cache.last(seen)"
        yield from narrowed

    def own(self) -> list[Kept]:
        """What this layer keeps of all visible positions."""
        return [each for each in self.file.kept if each.layer == self.layer.name and each.kind == "visible"]

    def reach(self) -> str:
        """How many positions are visible here: as many as are kept, or are given; else as any layer below sees."""
        if own := self.own():
            inside = "" if self.layer.name == self.file.name else "{path}"
            place = own[0].full_path.removeprefix(own[0].frame).removeprefix(".")
            return f"cache.visible({self.text(inside + place)})"
        for formal in self.layer.formals:
            for axis, letter in enumerate(slot_letters(formal)):
                if axis_of(letter) == self.file.time != letter:
                    return f"{name_of(self.file, formal)}.shape[{axis}]"
        below = [each for each in self.file.kept if each.kind == "visible"]
        everything = next((each.full_path for each in below if each.back is None), "")
        windows = sorted((each.back or 0, each.full_path) for each in below)
        return f'cache.visible("{everything or (windows[-1][1] if windows else "")}")'

    def narrowed(self, formal: Tensor) -> Iterator[str]:
        """What is given for more positions than are kept here."""
        for axis, letter in enumerate(slot_letters(formal)):
            if axis_of(letter) == self.file.time != letter:
                name = name_of(self.file, formal)
                self.needs["seen"] = None
                yield f"{name} = cache.narrowed({name}, {axis}, seen)"


def name_of(file: CachedFile, tensor: Tensor) -> str:
    """`q_bsea`."""
    return f"{key(tensor.name)}_{''.join(map(file.spelling, slot_letters(tensor)))}"


# ----------------------------------------------------------------------------------------------------------- classes


class Continues(Start):
    """A recurrence that starts where it ended."""

    def __init__(self, path: str) -> None:
        self.path = path

    def before(self, zeros: str, axis: int) -> str:
        """The last steps, if there were any."""
        return f"cache.steps({self.path}, {zeros}, {axis})"

    def each(self, step: str) -> str:
        """One step, zero for what is padding."""
        return f"cache.real_step({step}, step)"


class CachedClass(Class):
    """A layer whose forward takes a cache."""

    file: CachedFile

    def __init__(self, file: CachedFile, layer: Layer, layers: Mapping[str, Layer]) -> None:
        super().__init__(file, layer, layers)
        self.past = self.blocks.low.past = Continued(file, layer)
        self.names = versions(layer)

    def signature(self) -> str:
        """With the cache, and the path of the layer in it."""
        inputs, _, output = super().signature().rpartition(") -> ")
        more = ", cache: Cache" * (self.layer.name in self.file.counting)
        more += ", path: str" * (self.layer.name in self.file.keeping and self.layer.name != self.file.name)
        return f"{inputs}{more}) -> {output}"

    def annotation(self, tensor: Tensor | Name, kind: str) -> str:
        """`"#b s t"`: one for all rows, or one for each."""
        written = super().annotation(tensor, kind)
        for row in self.file.rows if (self.layer.name, tensor.name) in self.file.bare else ():
            written = re.sub(rf'(?<=[" ]){self.file.spelling(row)}(?=[" ])', rf"#{self.file.spelling(row)}", written, count=1)
        return written

    def forward(self) -> list[str]:
        """The lines of the forward, those that read the cache first."""
        self.lowering.past = self.past
        lines = super().forward()
        return [*self.past.heads(), *lines]

    def statements(self, body: tuple[Statement, ...], indent: str) -> None:
        """What is kept of the inputs first; a body may be written twice."""
        if body is self.layer.body:
            self.past.needs.clear()
            for formal in self.layer.formals:
                self.keep(formal, formal.name, 0, indent)
        super().statements(body, indent)

    def equation(self, equation: Equation, indent: str) -> None:
        """The lines of an equation, and those that keep what it defines."""
        self.past.name = key(self.names[id(equation)][0])
        super().equation(equation, indent)
        if equation.relation != "return":
            self.keep(equation.left, *self.names[id(equation)], indent)

    def solved(self, equation: Equation, letter: str) -> Iterator[str]:
        """A recurrence starts from its last steps."""
        path = self.past.text(f"{self.past.inside(self.lowering)}{self.past.name}")
        return solved(self.lowering, equation, letter, Continues(path))

    def keep(self, left: Tensor | Name, name: str, loops: int, indent: str) -> None:
        """The line that keeps a tensor, if it is read elsewhere, and gives it with its earlier positions."""
        same = (k for k in self.file.kept if (k.layer, k.name, k.loops) == (self.layer.name, name, loops))
        each = next((k for k in same if k.kind != "sum"), None)
        if each is None or not isinstance(left, Tensor):
            return
        variable = self.lowering.variables[left.name]
        lying = variable.physical or tuple("".join(label) for label in variable.labels)
        axis = lying.index(self.file.time)
        path = self.past.text(f"{self.past.inside(self.lowering)}{key(name)}")
        if each.kind == "earlier":
            kept = f"{key(left.name)}_kept"
            self.past.earlier[left.name] = replace(variable, code=kept)
            self.body.append(f"{indent}{kept} = cache.earlier({path}, {variable.code}, {axis})")
            return
        visible = next(letter for letter, new in self.file.letters.items() if new == self.past.seen)
        labels = tuple((visible,) if label == (self.file.time,) else label for label in variable.labels)
        physical = tuple(visible if letter == self.file.time else letter for letter in variable.physical)
        letters = physical or tuple(letter for label in labels for letter in label)
        kept = f"{key(left.name)}_{''.join(map(self.file.spelling, letters))}"
        self.past.kept[left.name] = Variable(kept, labels, variable.kind, physical)
        self.body.append(f"{indent}{kept} = cache.keep({path}, {variable.code}, {axis})")


class CachedFast(CachedClass, FastClass):
    """The same in the plan `fast`."""

    def is_causal(self, equation: Equation) -> bool:
        """Does an equation define the causal mask, one for each row?"""
        some = [letter for letter in letters(equation.left) if letter not in self.file.rows]
        return len(some) == 2 and is_causal_mask(equation.right, some[0], self.file.legend)
