"""Lays out the weights of the plan `fast`: inputs by outputs, those that read one input side by side in one parameter.

A row for each input: on a CPU the product of one vector with such a matrix takes three quarters of the time that its
transpose takes, and decoding is such products. A state dict has every weight under its own name with its axes as written, in
both plans.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from einformer.interpreters.torch.code import Dims
from einformer.language.tree import Layer, Weight
from einformer.language.weights import key, list_stored
from einformer.program.kernels import Linear
from einformer.program.operations import Function, Value, View
from einformer.program.rewrite import count_reads, walk_values

HELPERS = {
    "Stored": '''class Stored(nn.Module):
    """Weights that lie as they are computed with, several in one parameter; a state dict has each as it is written.

    `layout`: for each parameter the weights in it, with their shapes and the order in which their axes lie.
    """

    def parts(self, stored, whole):
        sizes = [math.prod(shape) // whole[..., 0].numel() for _, shape, _ in self.layout[stored]]
        for part, (name, shape, order) in zip(whole.split(sizes, -1), self.layout[stored]):
            weight = part.reshape([shape[axis] for axis in order])
            yield name, weight.permute([order.index(axis) for axis in range(len(order))]), order

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for stored in self.layout:
            for name, weight, _ in self.parts(stored, destination.pop(prefix + stored)):
                destination[prefix + name] = weight.contiguous()

    def _load_from_state_dict(self, state_dict, prefix, metadata, strict, missing, unexpected, errors):
        for stored in self.layout:
            whole, parts = getattr(self, stored).detach(), []
            for name, weight, order in self.parts(stored, whole):
                given = state_dict.pop(prefix + name, None)
                if given is None:
                    missing.append(prefix + name)
                elif given.shape != weight.shape:
                    errors.append(f"size mismatch for {prefix + name}: {given.shape} is given, not {weight.shape}")
                else:
                    weight = given
                parts.append(weight.permute(order).reshape(*whole.shape[:-1], -1))
            state_dict[prefix + stored] = torch.cat(parts, -1)
        super()._load_from_state_dict(state_dict, prefix, metadata, strict, missing, unexpected, errors)
'''
}


@dataclass(frozen=True, slots=True)
class Part:
    """A weight that lies as a matrix: itself, its letters where it is read, those of its outputs and of its inputs."""

    weight: Weight
    read: Dims
    rows: Dims
    columns: Dims = ()


@dataclass(frozen=True, slots=True)
class Lying:
    """A parameter: the weights whose outputs lie side by side in it, the letters of the inputs of all, and of experts."""

    parts: tuple[Part, ...]
    columns: Dims
    experts: Dims = ()

    @property
    def name(self) -> str:
        """`QKV` holds `Q`, `K` and `V`."""
        return "".join(key(part.weight.name) for part in self.parts)

    @property
    def as_written(self) -> bool:
        """Is a weight alone, with rows before columns or after them? Then a view is enough."""
        part, first = self.parts[0], self.experts
        return len(self.parts) == 1 and part.read in (first + part.rows + self.columns, first + self.columns + part.rows)


def lay_out(function: Function, layer: Layer) -> Iterator[Lying]:
    """The parameters that lie otherwise than written: the matrices of a product are one, and so are its biases."""
    read, seen = count_reads(function), set[str]()
    lines = {line.value: line.name for line in function.weights}
    single = {weight.name: weight for weight in list_stored(layer) if weight.kind == "trained"}
    for kernel in (value.operation for value in walk_values(function) if isinstance(value.operation, Linear)):
        none = [()] * len(kernel.biases)
        for weights, columns, experts in ((kernel.weights, kernel.columns, kernel.experts), (kernel.biases, none, ())):
            every = zip(weights, kernel.rows[: len(weights)], columns, strict=True)
            own = [(lines.get(find_weight(x), ""), x, r, c) for x, r, c in every if read[find_weight(x)] == 1]
            parts = [Part(single[name], x.axes, r, c) for name, x, r, c in own if name in single and name not in seen]
            seen |= {part.weight.name for part in parts}
            if parts and not (lying := Lying(tuple(parts), parts[0].columns, experts)).as_written:
                yield lying


def find_weight(value: Value) -> Value:
    """A weight under its own letters."""
    return value.operation.argument if isinstance(value.operation, View) else value
