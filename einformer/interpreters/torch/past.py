"""How does a forward read what was kept: tensors at other positions, numbers of positions, states, running sums?"""

from __future__ import annotations

import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from einformer.interpreters.torch.code import ATOM, LOOSE, SUM, Code, Dims, aligned
from einformer.interpreters.torch.letters import unused
from einformer.interpreters.torch.lower import Lowering
from einformer.interpreters.torch.positions import timed
from einformer.interpreters.torch.recurrences import Start
from einformer.interpreters.torch.slots import Variable, read_of, taken, variable_of, zeroed
from einformer.language.calls import axis_of, slot_letters
from einformer.language.sizes import Legend
from einformer.language.tree import Apply, Expression, Index, Layer, Name, Spec, Sum, Tensor
from einformer.language.walk import equations, loops, rebuild
from einformer.language.weights import key
from einformer.language.weights import place as place_of
from einformer.program.cache import Entry
from einformer.program.canonical import Values


class File(Protocol):
    """What a forward needs of a file whose forwards take a cache."""

    spec: Spec
    name: str
    legend: Legend
    letters: dict[str, str]
    kept: Sequence[Entry[int]]
    rows: Dims
    counting: frozenset[str]
    keeping: frozenset[str]
    hidden: dict[str, frozenset[str]]

    @property
    def time(self) -> str:
        """The letter of the positions that are computed."""
        ...

    def tensors(self, layer: Layer) -> list[Tensor | Name]:
        """What a layer is given and what it defines."""
        ...

    def spelling(self, letter: str) -> str:
        """The letter of Python for an index."""
        ...


@dataclass(slots=True)
class Continued:
    """How the forward of one layer reads the cache, and what must stand at its head for that."""

    file: File
    layer: Layer
    kept: dict[str, Variable] = field(default_factory=dict)  # tensors with all their visible positions
    earlier: dict[str, Variable] = field(default_factory=dict)  # tensors with some earlier positions before the new ones
    needs: dict[str, None] = field(default_factory=dict)
    among: bool = False  # an index is counted from the end of the new positions
    name: str = ""  # of the equation that is lowered

    @property
    def visible(self) -> str:
        """The letter for all visible positions: the first of the file with a prime."""
        time, letters = self.file.time, self.file.letters
        if all(axis_of(old) != time or old == time for old in letters):
            letters[f"{time}'"] = unused(letters, string.ascii_lowercase, time)
        return next(old for old in letters if axis_of(old) == time != old)

    def forget(self, name: str) -> None:
        """A tensor has changed, and what it is now is not kept."""
        self.kept.pop(name, None)
        self.earlier.pop(name, None)

    def read(self, low: Lowering, e: Tensor) -> Code | None:
        """A tensor at visible positions, or at a position before."""
        defined = next((t for t in self.file.tensors(self.layer) if t.name == e.name), None)
        place = self.place(defined) if isinstance(defined, Tensor) else None
        if e.name == low.steps[0]:
            return None
        if place is None or not isinstance(defined, Tensor):
            return self.table(low, e) if defined is None else None
        slot, own = e.slots[place], defined.slots[place]
        if isinstance(slot, Index) and (slot == own or own != Index(self.file.time)):
            return None
        values = Values(low.reach, low.legend)
        if values.value(slot) == values.value(own):  # `2 s - s`
            return low.lower(replace(e, slots=(*e.slots[:place], own, *e.slots[place + 1 :])))
        if isinstance(slot, Sum) and e.name in self.earlier:
            return self.before(low, e, place)
        if own != Index(self.file.time):
            return self.at(low, e, place, low.variables[e.name])
        if e.name not in self.kept:
            return low.lower(self.formula(e))
        if isinstance(slot, Index):
            return read_of(low, e, self.kept[e.name])
        return self.at(low, e, place, self.kept[e.name])

    def place(self, defined: Tensor) -> int | None:
        """The slot of a tensor that is its position."""
        slots = [(k, slot.letter) for k, slot in enumerate(defined.slots) if isinstance(slot, Index)]
        times = [(letter != self.file.time, k) for k, letter in slots if axis_of(letter) == self.file.time]
        return min(times)[1] if times else None

    def formula(self, e: Tensor) -> Expression:
        """What is made of numbers of positions and weights alone, at another position."""
        (equation,) = (q for q in equations(self.layer.body) if q.left.name == e.name)
        return substituted(equation.right, dict(zip(slot_letters(equation.left), e.slots, strict=True)))

    def at(self, low: Lowering, e: Tensor, place: int, variable: Variable) -> Code:
        """`k_{b n_s d}`: where that position lies among those that are seen; before the start of time it is zero (R4)."""
        number, rows = low.lower(e.slots[place]), self.file.rows
        dims = tuple(dict.fromkeys((*rows, *number.dims)))
        whole = number if number.kind == "integer" else Code(f"{number.at(ATOM)}.long()", number.dims)
        text = aligned(whole, dims) if number.dims else f"torch.full({(1,) * len(rows)}, {whole.text})"
        self.needs["seen"] = None
        found = Variable(f"cache.places({text}, seen)", tuple((dim,) for dim in dims), "integer")
        slots = (*e.slots[:place], Tensor("place", tuple(map(Index, dims))), *e.slots[place + 1 :])
        known = replace(low, variables={**low.variables, "place": found})
        code = read_of(known, replace(e, slots=slots), replace(variable, counted=True))
        inside = Code(f"{number.at(SUM)} >= 0", number.dims, "condition", LOOSE)
        return code if isinstance(e.slots[place], Index) else zeroed(code, inside)

    def before(self, low: Lowering, e: Tensor, place: int) -> Code:
        """`x_{b(s - c)}`: counted from the end of the new positions, before which the earlier ones lie."""
        self.among = True
        code = read_of(low, e, replace(self.earlier[e.name], counted=True))
        self.among = False
        return code

    def table(self, low: Lowering, e: Tensor) -> Code | None:
        """`P_sd`: a weight that is read at the number of a position."""
        variable = variable_of(low, e.name)
        slots = zip(range(len(e.slots)), e.slots, (axis_of(label[0]) for label in variable.labels), strict=False)
        at = [k for k, slot, own in slots if isinstance(slot, Index) and axis_of(slot.letter) == self.file.time != own]
        return taken(low, e, variable, at[0], low.lower(e.slots[at[0]])) if len(at) == 1 else None

    def size(self, low: Lowering, letter: str) -> str:
        """`S` new positions, `seen` visible ones."""
        self.needs["fresh" if letter == self.file.time else "seen"] = None
        return self.count if letter == self.file.time else "seen"

    @property
    def count(self) -> str:
        """What the number of new positions is called."""
        size = self.file.legend.axes[self.file.time].size
        return size.name if isinstance(size, Name) else "fresh"

    def index(self, low: Lowering, letter: str) -> Code:
        """`s_bs` and `t_bt`: every row has numbers of its own."""
        step = low.still.get(letter)
        if self.among:
            self.needs |= {"fresh": None} if step else {"fresh": None, "among": None}
            return Code(f"{step} - {self.count}", (), "integer", SUM) if step else Code("row", (letter,), "integer")
        self.needs["new" if letter == self.file.time else f"visible {letter}"] = None
        if step:
            return Code(f"{self.numbers(letter)}[..., {step}]", self.file.rows, "integer")
        return Code(self.numbers(letter), (*self.file.rows, letter), "integer")

    def numbers(self, letter: str) -> str:
        """The variable of the numbers of an index."""
        spelling = self.file.spelling(letter)
        return f"{spelling}_{''.join(map(self.file.spelling, self.file.rows))}{spelling}"

    def running(self, low: Lowering, name: str, argument: Code) -> Code:
        """A running sum goes on from the last."""
        assert self.name
        path, axis = f"{self.inside(low)}{self.name}.sum", argument.dims.index(low.time)
        self.name += "_prime"
        text = f"cache.{name}({self.text(path)}, {argument.text}, {axis}{self.row(argument.dims)})"
        return Code(text, argument.dims, argument.kind)

    def row(self, letters: Sequence[str]) -> str:
        """The axis of the rows of a batch, as the last argument of what masks their padding; the first, unless it is said."""
        at = next((k for k, letter in enumerate(letters) if letter in self.file.rows), 0)
        return f", {at}" * bool(at)

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
        first = layer.formals[timed(layer)]
        given = self.name_of(first)
        narrowed = [line for formal in layer.formals if self.own() for line in self.narrowed(formal)]
        if layer.name == file.name:
            yield f"cache.begin({given}.shape[{slot_letters(first).index(file.time)}], {given}.device)"
        if "fresh" in self.needs:
            over = ((self.name_of(x), slot_letters(x).index(file.time)) for x in layer.formals if file.time in slot_letters(x))
            yield next((self.fresh(*each) for each in over), f"{self.count} = cache.fresh")
        if "among" in self.needs:
            yield f"row = torch.arange(-{self.count}, 0, device={given}.device)"
        if "new" in self.needs:
            yield f"{self.numbers(file.time)} = cache.new()"
        visible = [need.removeprefix("visible ") for need in self.needs if need.startswith("visible ")]
        if "seen" in self.needs or visible:
            yield f"seen = {self.reach()}"
        yield from (f"{self.numbers(letter)} = cache.last(seen)" for letter in visible)
        yield from narrowed

    def fresh(self, code: str, axis: int) -> str:
        """The line that says how many positions are computed."""
        return f"{self.count} = {code}.shape[{axis}]"

    def own(self) -> list[Entry[int]]:
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
                    return f"{self.name_of(formal)}.shape[{axis}]"
        below = [each for each in self.file.kept if each.kind == "visible"]
        everything = next((each.full_path for each in below if each.back is None), "")
        windows = sorted((each.back or 0, each.full_path) for each in below)
        return f'cache.visible("{everything or (windows[-1][1] if windows else "")}")'

    def narrowed(self, formal: Tensor) -> Iterator[str]:
        """What is given for more positions than are kept here."""
        for axis, letter in enumerate(slot_letters(formal)):
            if axis_of(letter) == self.file.time != letter:
                name = self.name_of(formal)
                self.needs["seen"] = None
                yield f"{name} = cache.narrowed({name}, {axis}, seen)"

    def name_of(self, tensor: Tensor) -> str:
        """`q_bsea`."""
        hidden = self.file.hidden.get(self.layer.name, ())
        return f"{key(tensor.name)}_{''.join(self.file.spelling(i) for i in slot_letters(tensor) if i not in hidden)}"


class Continues(Start):
    """A recurrence that starts where it ended."""

    def __init__(self, past: Continued, path: str) -> None:
        self.past, self.path = past, path

    def before(self, zeros: str, axis: int) -> str:
        """The last steps, if there were any."""
        return f"cache.steps({self.path}, {zeros}, {axis})"

    def each(self, step: str, rest: Tensor) -> str:
        """One step, zero for what is padding."""
        letters = ["".join(slot_letters(Tensor("", (slot,)))) for slot in rest.slots]
        return f"cache.real_step({step}, step{self.past.row(letters)})"


def substituted(e: Expression, at: Mapping[str, Expression]) -> Expression:
    """An expression with other expressions for some of its letters, but for those that an operator binds."""
    if isinstance(e, Index):
        return at.get(e.letter, e)
    bound = {index.letter for index in e.indices} if isinstance(e, Apply) else set()
    return rebuild(e, lambda child: substituted(child, {letter: x for letter, x in at.items() if letter not in bound}))
