"""How do weights lie in the plan `fast`? Inputs by outputs, those that read one input side by side in one parameter.

A row for each input: on a CPU the product of one vector with such a matrix takes three quarters of the time that its
transpose takes, and decoding is such products. A state dict has every weight under its own name with its axes as written, in
both plans.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from einformer.interpreters.torch.code import Dims
from einformer.language.calls import axis_of
from einformer.language.tree import Equation, Expression, Layer, Tensor, Weight
from einformer.language.walk import equations
from einformer.language.weights import key
from einformer.program.canonical import Values, identity, relettered
from einformer.program.linear import Linear, letters, linears, reads
from einformer.program.recurrences import recurrent
from einformer.program.roles import stored
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


Map = tuple[Expression, Linear]  # where it stands, and what it is
ValuesAt = Callable[[Equation], Values]  # of expressions in an equation


def groups(layer: Layer, values: ValuesAt, routing: Routing | None = None) -> Iterator[list[Map]]:
    """The linear maps of an input at once, whatever its name: as one product where they are several."""
    taken = {key(weight.name) for weight in layer.weights}
    together = defaultdict[object, list[Map]](list)
    top = {id(statement) for statement in layer.body}
    for equation, node, found in maps(layer, values, routing):
        lone = bool(found.around) or (bool(found.experts) and not isinstance(found.x, Tensor))
        single = _single(found.weight, layer) and _single(found.bias, layer)
        if id(equation) in top and recurrent(equation) is None and single and not lone:
            alike = _input(found, values(equation)), found.experts, found.bias is None
            together[alike].append((node, found))
    for group in together.values():
        yield from _named_apart(group, taken)


def _input(found: Linear, values: Values) -> object:
    """What is the same for two maps of one input: its value, and the axes that are summed, whatever their primes."""
    places = {letter: f"{axis_of(letter)} {place}" for place, letter in enumerate(found.columns)}
    x = replace(values, deep=True).value(relettered(found.x, places))
    return identity(x), tuple(map(axis_of, found.columns))


def maps(layer: Layer, values: ValuesAt, routing: Routing | None = None) -> list[tuple[Equation, Expression, Linear]]:
    """The linear maps in the equations of a layer, and those by expert; none in an equation that another takes in."""
    every = [(q, *map_) for q in equations(layer.body) for map_ in _maps(q, values(q), layer, routing)]
    taken = {id(definition.equation) for _, _, found in every for definition in found.taken}
    return [(equation, node, found) for equation, node, found in every if id(equation) not in taken]


def _named_apart(group: list[Map], taken: set[str]) -> list[list[Map]]:
    """A group whose parameters have names of their own, or each map alone: `QK` may be a weight beside `Q` and `K`."""
    tensors = [[found.weight for _, found in group], [found.bias for _, found in group if found.bias is not None]]
    names = {"".join(key(tensor.name) for tensor in some) for some in tensors if some}
    if len(group) > 1 and (names & taken or len(names) < len([some for some in tensors if some])):
        return [[each] for each in group]
    taken |= names
    return [group]


def _maps(equation: Equation, values: Values, layer: Layer, routing: Routing | None) -> Iterator[Map]:
    """The linear maps in an equation, and those by expert."""
    yield from linears(equation.right, values, layer, routing.apart(equation) if routing else ())
    yield from products(equation, routing) if routing else ()


def layout(layer: Layer, values: ValuesAt, together: Iterable[list[Map]], routing: Routing | None = None) -> Iterator[Lying]:
    """The parameters that lie otherwise than written: a group of maps is one, and so are its biases."""
    alone = ([(node, found)] for _, node, found in maps(layer, values, routing))
    weights, seen = {w.name: w for w in layer.weights}, set[str]()
    for some in ([found for _, found in group] for group in (*together, *alone)):
        matrices = [(m.weight, m.rows, m.columns) for m in some]
        biases = [(m.bias, m.rows, ()) for m in some if m.bias is not None]
        for read, columns, experts in ((matrices, some[0].columns, some[0].experts), (biases, (), ())):
            new = [part for part in read if part[0].name not in seen and _single(part[0], layer)]
            seen |= {tensor.name for tensor, _, _ in new}
            parts = tuple(Part(weights[tensor.name], letters(tensor), *axes) for tensor, *axes in new)
            lying = Lying(parts, columns, experts)
            if new and not lying.as_written:
                yield lying


def _single(weight: Tensor | None, layer: Layer) -> bool:
    """Is a weight a parameter of its own that is read once only, so that it may lie as that reading wants it?"""
    own = {w.name for w in stored(layer) if w.kind == "trained"}
    return weight is None or (weight.name in own and reads(weight.name, layer) == 1)
