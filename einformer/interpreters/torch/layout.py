"""How do weights lie in the plan `fast`? Inputs by outputs, those that read one input side by side in one parameter.

A row for each input: on a CPU the product of one vector with such a matrix takes three quarters of the time that its
transpose takes, and decoding is such products. A state dict has every weight under its own name with its axes as written, in
both plans.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from einformer.interpreters.torch.code import Dims
from einformer.interpreters.torch.patterns import linears, reads
from einformer.interpreters.torch.roles import stored
from einformer.language.tree import Equation, Expression, Layer, Tensor, Weight
from einformer.language.walk import equations
from einformer.language.weights import key
from einformer.program.linear import Linear, letters
from einformer.program.recurrences import recurrent
from einformer.program.routing import Routing, products

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
    """A weight that lies as a matrix: itself, its letters where it is read, those of its outputs."""

    weight: Weight
    read: Dims
    rows: Dims


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


Map = tuple[Expression, Linear]  # where it stands, and what it is


def groups(layer: Layer, routing: Routing | None = None) -> Iterator[list[Map]]:
    """The linear maps of an input at once: as one product where they are several."""
    taken = {key(weight.name) for weight in layer.weights}
    open_: dict[tuple[Expression, Dims, Dims, bool], list[Map]] = {}
    for statement in layer.body:
        if isinstance(statement, Equation) and recurrent(statement) is None:
            for node, found in _maps(statement, layer, routing):
                alone = not isinstance(found.x, Tensor) or found.around
                if not alone and _single(found.weight, layer) and _single(found.bias, layer):
                    open_.setdefault((found.x, found.columns, found.experts, found.bias is None), []).append((node, found))
        changed = {q.left.name for q in equations((statement,))}
        for known in [k for k in open_ if isinstance(k[0], Tensor) and k[0].name in changed]:
            yield from _named_apart(open_.pop(known), taken)
    for group in open_.values():
        yield from _named_apart(group, taken)


def _named_apart(group: list[Map], taken: set[str]) -> list[list[Map]]:
    """A group whose parameters have names of their own, or each map alone: `QK` may be a weight beside `Q` and `K`."""
    tensors = [[found.weight for _, found in group], [found.bias for _, found in group if found.bias is not None]]
    names = {"".join(key(tensor.name) for tensor in some) for some in tensors if some}
    if len(group) > 1 and (names & taken or len(names) < len([some for some in tensors if some])):
        return [[each] for each in group]
    taken |= names
    return [group]


def _maps(equation: Equation, layer: Layer, routing: Routing | None) -> Iterator[Map]:
    """The linear maps in an equation, and those by expert."""
    yield from linears(equation, layer, routing.apart(equation) if routing else ())
    yield from products(equation, routing) if routing else ()


def layout(layer: Layer, together: Iterable[list[Map]], routing: Routing | None = None) -> Iterator[Lying]:
    """The parameters that lie otherwise than written: a group of maps is one, and so are its biases."""
    alone = ([pair] for q in equations(layer.body) for pair in _maps(q, layer, routing))
    weights, seen = {w.name: w for w in layer.weights}, set[str]()
    for maps in ([found for _, found in group] for group in (*together, *alone)):
        matrices = [(m.weight, m.rows) for m in maps]
        biases = [(m.bias, m.rows) for m in maps if m.bias is not None]
        for read, columns, experts in ((matrices, maps[0].columns, maps[0].experts), (biases, (), ())):
            new = [(tensor, rows) for tensor, rows in read if tensor.name not in seen and _single(tensor, layer)]
            seen |= {tensor.name for tensor, _ in new}
            lying = Lying(tuple(Part(weights[tensor.name], letters(tensor), rows) for tensor, rows in new), columns, experts)
            if new and not lying.as_written:
                yield lying


def _single(weight: Tensor | None, layer: Layer) -> bool:
    """Is a weight a parameter of its own that is read once only, so that it may lie as that reading wants it?"""
    own = {w.name for w in stored(layer) if w.kind == "trained"}
    return weight is None or (weight.name in own and reads(weight.name, layer) == 1)
