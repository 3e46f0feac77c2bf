"""Emits the class of a layer in the plan `fast`: kernels compute its equations, and its weights lie as kernels read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from einformer.interpreters.torch.classes import Class, File
from einformer.interpreters.torch.code import Dims
from einformer.interpreters.torch.context import INDENT
from einformer.interpreters.torch.heads import read_settings
from einformer.interpreters.torch.kernels import FastEmitter
from einformer.interpreters.torch.layout import Lying, lay_out
from einformer.language.tree import Layer
from einformer.language.weights import key, list_stored
from einformer.program.roles import read_roles


class FastClass(Class):
    """A specialised layer whose parameters lie as they are computed with."""

    def __init__(self, file: File, layer: Layer, layers: Mapping[str, Layer]) -> None:
        super().__init__(file, layer, layers)
        self.lying = list(lay_out(file.kernels[layer.name], layer))
        if self.lying:
            file.helpers["Stored"] = None

    def make_emitter(self) -> FastEmitter:
        """What writes the forward."""
        functions = self.file.functions
        return FastEmitter(functions[self.layer.name], functions, self.context, self, laid=self.laid)

    @property
    def laid(self) -> frozenset[str]:
        """The weights that lie as matrices."""
        return frozenset(key(part.weight.name) for each in self.lying for part in each.parts)

    # --------------------------------------------------------------------------------------------------- weights

    def name_parent(self) -> str:
        """`Stored`, where parameters lie otherwise than written."""
        return "Stored" if self.lying else "nn.Module"

    def write_weights(self) -> Iterator[str]:
        """Parameters as they lie, and the table that says what is in them."""
        self.making = replace(self.making, needs={}, settings="") if self.lying else self.making
        lines = list(self.stored(self.map_to_parameters()))
        yield from read_settings(self.making, self.making.needs, "config", lines)
        yield from lines

    def stored(self, lying: Mapping[str, Lying]) -> Iterator[str]:
        """The lines of `weights` after the sizes."""
        for weight in list_stored(self.layer):
            each = lying.get(weight.name)
            if each is None:
                yield self.weight(weight)
            elif each.parts[0].weight is weight:
                rows = _add_sizes([self.size_of(part.rows) for part in each.parts])
                shape = ", ".join(filter(None, (self.size_of(each.experts), self.size_of(each.columns), rows)))
                yield f"self.{each.name} = nn.Parameter(torch.empty({shape}))"
        if self.lying:
            yield "self.layout = {"
            yield from (f"{INDENT}{self.write_entry(each)}," for each in self.lying)
            yield "}"

    def write_starts(self) -> Iterator[str]:
        """Weights in one parameter start alike: they are read by maps of the same input."""
        lying, found = self.map_to_parameters(), read_roles(self.file.lowered, self.layer.name)
        for weight in list_stored(self.layer):
            each = lying.get(weight.name)
            if each is None or each.parts[0].weight is weight:
                yield self.write_start(f"self.{each.name if each else key(weight.name)}", found[weight.name], weight)

    def map_to_parameters(self) -> dict[str, Lying]:
        """The parameter that each weight lies in."""
        return {part.weight.name: each for each in self.lying for part in each.parts}

    def size_of(self, some: Dims) -> str:
        """The product of the sizes of some axes."""
        return " * ".join(self.making.read_constant(letter) for letter in some)

    def write_entry(self, lying: Lying) -> str:
        """`"QKV": [("Q", (D, H, A), (0, 2, 1)), …]`."""
        parts = []
        for part in lying.parts:
            order = ", ".join(str(part.read.index(letter)) for letter in lying.experts + part.columns + part.rows)
            shape = ", ".join(self.making.read_constant(index.letter) for index in part.weight.indices)
            comma = "," if len(part.read) == 1 else ""
            parts.append(f'("{key(part.weight.name)}", ({shape}{comma}), ({order}{comma}))')
        return f'"{lying.name}": [{", ".join(parts)}]'


def _add_sizes(sizes: list[str]) -> str:
    return " + ".join(sizes) if len(sizes) == 1 or len(set(sizes)) > 1 else f"{len(sizes)} * {sizes[0]}"
