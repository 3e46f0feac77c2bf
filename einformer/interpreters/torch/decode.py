"""Writes the file whose forwards continue from what was kept: the same classes, each with a cache."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from einformer.interpreters.torch.cache import TEXT
from einformer.interpreters.torch.cached import CachedClass, CachedFast
from einformer.interpreters.torch.classes import Class
from einformer.interpreters.torch.code import Dims
from einformer.interpreters.torch.plan import PLAIN, Plan, Style
from einformer.interpreters.torch.source import EmittedFile, ranks
from einformer.language.calls import slot_letters
from einformer.language.sizes import Legend
from einformer.language.specialise import specialise
from einformer.language.tree import Layer, Spec
from einformer.program.cache import Entry
from einformer.program.constants import raised
from einformer.program.decoding import decodings, keeps, reads_cache
from einformer.program.fusing import with_kernels
from einformer.program.lowering import functions
from einformer.program.masks import sunk


def source(spec: Spec, name: str, legend: Legend, plan: Plan, kept: Sequence[Entry[int]], style: Style = PLAIN) -> str:
    """The file for the causal model `name`: each class as in the file without a cache, its forward with one."""
    special = specialise(spec, name)
    special = sunk(raised(special, legend), legend) if plan.fast else special
    layers = {layer.name: layer for layer in special.layers}
    rows = rows_of(layers[name])
    program = with_kernels(special, legend, steps=True) if plan.fast else functions(special, legend)
    decoded = decodings(program, layers, kept, name, rows)
    file = CachedFile(special, name, legend, plan, style, ranks(spec), functions=decoded, kept=kept, rows=rows)
    file.counting = frozenset({name, *(each for each, function in decoded.items() if reads_cache(function, decoded))})
    file.keeping = frozenset(each for each, function in decoded.items() if keeps(function, decoded))
    return file.text()


@dataclass(slots=True)
class CachedFile(EmittedFile):
    """A file whose forwards take a cache."""

    kept: Sequence[Entry[int]] = ()
    rows: Dims = ()
    counting: frozenset[str] = frozenset()  # the layers that need the cache
    keeping: frozenset[str] = frozenset()  # those that need their path in it too

    def written(self, layer: Layer, layers: Mapping[str, Layer]) -> Class:
        """A layer whose forward takes a cache; one that is never called keeps nothing, and is as it is without one."""
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


def rows_of(model: Layer) -> tuple[str, ...]:
    """The letters of a batch, which stand before the time in the first input that has it."""
    assert model.time is not None
    letters = slot_letters(model.formals[timed(model)])
    return letters[: letters.index(model.time.letter)] if model.time.letter in letters else ()


def timed(model: Layer) -> int:
    """Which input is the first that has positions."""
    return next((k for k, formal in enumerate(model.formals) if model.time in formal.slots), 0)
