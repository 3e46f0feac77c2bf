"""Which PyTorch continues from what was kept? The same classes, whose forward takes a cache.

Equations are lowered as they are; only what reads another position reads the cache, positions are numbers of the cache, and a
recurrence and a running sum start where they ended.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from einformer.errors import Span
from einformer.interpreters.torch.cache import TEXT
from einformer.interpreters.torch.cached import CachedNotation
from einformer.interpreters.torch.classes import Class
from einformer.interpreters.torch.code import Dims
from einformer.interpreters.torch.fast import FastClass
from einformer.interpreters.torch.past import Continued, Continues
from einformer.interpreters.torch.plan import PLAIN, Plan, Style
from einformer.interpreters.torch.positions import lacks, numbered, reaching, rows_of, with_rows
from einformer.interpreters.torch.recurrences import solved
from einformer.interpreters.torch.slots import Variable
from einformer.interpreters.torch.source import EmittedFile, ranks
from einformer.interpreters.torch.tail import tail
from einformer.language.calls import callees
from einformer.language.sizes import Legend
from einformer.language.specialise import specialise
from einformer.language.tree import Equation, Layer, Loop, Name, Spec, Statement, Tensor
from einformer.language.walk import equations, subexpressions
from einformer.language.weights import called, key, versions
from einformer.program.cache import Entry
from einformer.program.conditions import turned
from einformer.program.constants import raised
from einformer.program.decoding import decodings, keeps, reads_cache
from einformer.program.lowering import functions
from einformer.program.masks import sunk


def source(spec: Spec, name: str, legend: Legend, plan: Plan, kept: Sequence[Entry[int]], style: Style = PLAIN) -> str:
    """The file for the causal model `name`: each class as in the file without a cache, its forward with one."""
    if not plan.fast:
        return _from_program(specialise(spec, name), name, legend, plan, style, kept, ranks(spec))
    special = raised(turned(specialise(spec, name)), legend)
    model = next(layer for layer in special.layers if layer.name == name)
    assert model.time is not None
    time, rows = model.time.letter, rows_of(model)
    layers = {layer.name: layer for layer in special.layers}
    live = called(special, name, legend)
    keeping = reaching(layers, {each.layer for each in kept}) & live
    counting = reaching(layers, {name, *keeping, *(each.name for each in special.layers if numbered(each, time))}) & live
    bare = {(each.name, t.name) for each in special.layers for t in (*each.formals, each.output) if lacks(t, time, rows)}
    special = sunk(special, legend)
    file = CachedFile(
        with_rows(special, time, rows), name, legend, plan, style, ranks(spec), kept=kept, rows=rows, bare=frozenset(bare)
    )
    file.live, file.keeping, file.counting = live, keeping, counting
    return file.text()


def _from_program(
    spec: Spec, name: str, legend: Legend, plan: Plan, style: Style, kept: Sequence[Entry[int]], fronts: Mapping[Span, int]
) -> str:
    """The file of the plan `notation`, whose forwards are those of the program that continues."""
    layers = {layer.name: layer for layer in spec.layers}
    rows = rows_of(layers[name])
    decoded = decodings(functions(spec, legend), layers, kept, name, rows)
    file = CachedFile(spec, name, legend, plan, style, fronts, functions=decoded, kept=kept, rows=rows)
    file.counting = frozenset({name, *(each for each, function in decoded.items() if reads_cache(function, decoded))})
    file.keeping = frozenset(each for each, function in decoded.items() if keeps(function, decoded))
    return file.text()


@dataclass(slots=True)
class CachedFile(EmittedFile):
    """A file whose forwards take a cache."""

    kept: Sequence[Entry[int]] = ()
    rows: Dims = ()
    live: frozenset[str] = frozenset()  # the layers that some turn calls
    bare: frozenset[tuple[str, str]] = frozenset()  # what has no batch where all rows have the same positions
    counting: frozenset[str] = frozenset()  # the layers that need the cache
    keeping: frozenset[str] = frozenset()  # those that need their path in it too

    def written(self, layer: Layer, layers: Mapping[str, Layer]) -> Class:
        """A layer whose forward takes a cache; one that is never called keeps nothing, and is as it is without one."""
        if not self.plan.fast:
            return CachedNotation(self, layer, layers)
        if layer.name not in self.live:
            return EmittedFile.written(self, layer, layers)
        return CachedFast(self, layer, layers)

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
        if shared := {each.full_path: each.source for each in self.kept if each.source}:
            yield "SHARED = {  # what another layer keeps already, by its path"
            yield from (f'    "{path}": "{source}",' for path, source in shared.items())
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
        self.lowering.past, self.lowering.named = self.past, True
        lines = super().forward()
        return [*self.past.heads(), *lines]

    def statements(self, body: tuple[Statement, ...], indent: str) -> None:
        """What is kept of the inputs first, what is asked for of the last lines; a body may be written twice."""
        if body is not self.layer.body:
            super().statements(body, indent)
            return
        self.past.needs.clear()
        for formal in self.layer.formals:
            self.keep(formal, formal.name, 0, indent)
        done = len(body) - len(self.tail())
        super().statements(body[:done], indent)
        while self.computed(body[done:]):
            super().statements(body[done : done + 1], indent)
            done += 1
        self.ending(body[done:], indent)

    def tail(self) -> tuple[Statement, ...]:
        """The lines of a model after the last one in which positions meet."""
        if self.layer.name != self.file.name:
            return ()
        known = callees(self.layer, self.layers)
        return tail(self.layer, self.file.time, lambda e: e.name in known and known[e.name].name in self.file.counting)

    def computed(self, body: tuple[Statement, ...]) -> bool:
        """Is part of these lines computed already?"""
        return False

    def ending(self, body: tuple[Statement, ...], indent: str) -> None:
        """The last lines of a model, at the positions whose outputs are asked for."""
        narrowed = list(self.over_time(body))
        self.body += (f"{code} = cache.asked_of({code}, {axis})" for code, axis in narrowed)
        around, self.past.needs, at = self.past.needs, dict[str, None](), len(self.body)
        super().statements(body, indent)
        if narrowed and "fresh" in self.past.needs:
            self.body.insert(at, self.past.fresh(*narrowed[0]))
        self.past.needs = around | self.past.needs

    def over_time(self, body: tuple[Statement, ...]) -> Iterator[tuple[str, int]]:
        """What these lines read that is over positions, and which of its axes they are."""
        read = {e.name for equation in equations(body) for e in subexpressions(equation.right) if isinstance(e, Tensor)}
        for variable in (self.lowering.variables[name] for name in sorted(read & self.lowering.variables.keys())):
            lying = variable.physical or tuple("".join(label) for label in variable.labels)
            if self.file.time in lying:
                yield variable.code, lying.index(self.file.time)

    def loop(self, loop: Loop, indent: str) -> None:
        """The lines of a loop, if it turns: else what it would change is what it was."""
        if self.lowering.turns(loop):
            super().loop(loop, indent)

    def equation(self, equation: Equation, indent: str) -> None:
        """The lines of an equation, and those that keep what it defines."""
        self.past.name = key(self.names[id(equation)][0])
        super().equation(equation, indent)
        if equation.relation != "return":
            self.keep(equation.left, *self.names[id(equation)], indent)

    def solved(self, equation: Equation, letter: str) -> Iterator[str]:
        """A recurrence starts from its last steps."""
        path = self.past.text(f"{self.past.inside(self.lowering)}{self.past.name}")
        return solved(self.lowering, equation, letter, Continues(self.past, path))

    def keep(self, left: Tensor | Name, name: str, loops: int, indent: str) -> None:
        """The line that keeps a tensor, if it is read elsewhere, and gives it with its earlier positions."""
        version = (self.layer.name, name, loops)
        kind = next((k.kind for k in self.file.kept if (k.layer, k.name, k.loops) == version and k.kind != "sum"), None)
        if kind is None:
            self.past.forget(left.name)
            return
        variable = self.lowering.variables[left.name]
        lying = variable.physical or tuple("".join(label) for label in variable.labels)
        axis = lying.index(self.file.time)
        path = self.past.text(f"{self.past.inside(self.lowering)}{key(name)}")
        arguments = f"{path}, {variable.code}, {axis}{self.past.row(lying)}"
        if kind == "earlier":
            kept = f"{key(left.name)}_kept"
            self.past.earlier[left.name] = replace(variable, code=kept)
            self.body.append(f"{indent}{kept} = cache.earlier({arguments})")
            return
        visible = self.past.visible
        labels = tuple((visible,) if label == (self.file.time,) else label for label in variable.labels)
        physical = tuple(visible if letter == self.file.time else letter for letter in variable.physical)
        letters = physical or tuple(letter for label in labels for letter in label)
        kept = f"{key(left.name)}_{''.join(map(self.file.spelling, letters))}"
        self.past.kept[left.name] = Variable(kept, labels, variable.kind, physical)
        self.body.append(f"{indent}{kept} = cache.keep({arguments})")


class CachedFast(CachedClass, FastClass):
    """The same in the plan `fast`."""

    def computed(self, body: tuple[Statement, ...]) -> bool:
        """Is a map among them part of a product of several that stands before?"""
        return any(id(e) in self.lowering.hoisted for equation in equations(body) for e in subexpressions(equation.right))
