"""Which class is a layer in the plan `fast`: one product for the maps of one input, heads before features?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from einformer.interpreters.torch.blocks import INDENT
from einformer.interpreters.torch.classes import Class, File
from einformer.interpreters.torch.code import LOOSE, Code, Dims, permuted
from einformer.interpreters.torch.fuse import FastLowering
from einformer.interpreters.torch.heads import settings
from einformer.interpreters.torch.layout import Lying, Map, groups, layout, maps
from einformer.interpreters.torch.lower import Lowering
from einformer.interpreters.torch.slots import define, merged
from einformer.language.tree import Apply, Equation, Expression, Layer, Tensor
from einformer.language.walk import equations, subexpressions
from einformer.language.weights import key
from einformer.program.canonical import Definition, Values
from einformer.program.linear import Linear, letters, reads
from einformer.program.roles import roles, stored
from einformer.program.routing import PAIR, Routing, ordered


class FastClass(Class):
    """A specialised layer whose parameters lie as they are computed with."""

    def __init__(self, file: File, layer: Layer, layers: Mapping[str, Layer]) -> None:
        self.routing = file.routings.get(layer.name)
        layer = replace(layer, body=ordered(layer, self.routing)) if self.routing else layer
        super().__init__(file, layer, layers)
        self.together = list(groups(layer, self.values, self.routing))
        self.lying = list(layout(layer, self.values, self.together, self.routing))
        self.lowering: FastLowering = self.lower_with(FastLowering)
        self.lowering.laid = {part.weight.name for lying in self.lying for part in lying.parts}
        self.lowering.routing = self.routing
        biased = [found.taken for _, _, found in maps(layer, self.values, self.routing)]
        self.biased = {id(definition.equation) for taken in biased for definition in taken}
        self.inlined = self.biased  # equations that leave their comments only, by id
        self.orders: dict[str, tuple[int, ...]] = {}
        self.parts = set[int]()  # right sides that are a part of a product of several, and no more
        if self.lying:
            file.helpers["Stored"] = None

    def forward(self) -> list[str]:
        """Written twice: the first time tells which tensors exist only in attention, and how those that it reads should lie."""
        plain, helpers = self.lowering, dict(self.file.helpers)
        taken, dropped = set[Definition](), Counter[Definition]()
        self.lowering = replace(
            plain, variables={}, needs={}, hoisted={}, taken=taken, dropped=dropped, closed=set(), orders=self.orders
        )
        super().forward()
        known = {each for each, count in dropped.items() if count == self.lowering.reach.reads[each]}
        self.inlined = {id(each.equation) for each in taken | known} | self.biased | self.unread()
        self.lowering, self.body = plain, []
        self.file.helpers.clear()
        self.file.helpers.update(helpers)
        return super().forward()

    def known(self, equation: Equation) -> str:
        """The variable that an equation changes; none where what it had was never computed."""
        return super().known(equation) if equation.left.name in self.lowering.variables else ""

    def values(self, equation: Equation) -> Values:
        """The values of expressions in an equation."""
        return Values(self.reaching[id(equation)], self.file.legend)

    def unread(self) -> set[int]:
        """The equations whose left sides nothing reads, since what stands for them is computed elsewhere."""
        own = [q for q in equations(self.layer.body) if q.relation == "=" and q.left.name != self.layer.output.name]
        return {id(q) for q in own if not reads(q.left.name, self.layer)}

    def is_passed(self, name: str) -> bool:
        """Is a tensor only given to layers, which want it in the dtype of all that they compute?"""
        calls = (e for q in equations(self.layer.body) for e in subexpressions(q.right) if isinstance(e, Apply))
        given = sum(isinstance(x, Tensor) and x.name == name for e in calls if self.lowering.callee(e) for x in e.arguments)
        return given == reads(name, self.layer) > 0

    # --------------------------------------------------------------------------------------------------- weights

    def parent(self) -> str:
        """`Stored`, where parameters lie otherwise than written."""
        return "Stored" if self.lying else "nn.Module"

    def weights(self) -> Iterator[str]:
        """Parameters as they lie, and the table that says what is in them."""
        self.making = replace(self.making, needs={}, settings="") if self.lying else self.making
        lines = list(self.stored(self.holding()))
        yield from settings(self.making, self.making.needs, "config", lines)
        yield from lines

    def stored(self, lying: Mapping[str, Lying]) -> Iterator[str]:
        """The lines of `weights` after the sizes."""
        for weight in stored(self.layer):
            each = lying.get(weight.name)
            if each is None:
                yield self.weight(weight)
            elif each.parts[0].weight is weight:
                rows = _total([self.size_of(part.rows, self.making) for part in each.parts])
                other = (self.size_of(some, self.making) for some in (each.experts, each.columns))
                shape = ", ".join(filter(None, (*other, rows)))
                yield f"self.{each.name} = nn.Parameter(torch.empty({shape}))"
        if self.lying:
            yield "self.layout = {"
            yield from (f"{INDENT}{self.entry(each)}," for each in self.lying)
            yield "}"

    def starts(self) -> Iterator[str]:
        """Weights in one parameter start alike: they are read by maps of the same input."""
        lying, found = self.holding(), roles(self.file.spec, self.layer)
        for weight in stored(self.layer):
            each = lying.get(weight.name)
            if each is None or each.parts[0].weight is weight:
                yield self.start(f"self.{each.name if each else key(weight.name)}", found[weight.name], weight)

    def holding(self) -> dict[str, Lying]:
        """The parameter that each weight lies in."""
        return {part.weight.name: each for each in self.lying for part in each.parts}

    def size_of(self, some: Dims, low: Lowering) -> str:
        """The product of the sizes of some axes."""
        return " * ".join(low.constant(letter) for letter in some)

    def entry(self, lying: Lying) -> str:
        """`"QKV": [("Q", (D, H, A), (0, 2, 1)), …]`."""
        parts = []
        for part in lying.parts:
            order = ", ".join(str(part.read.index(letter)) for letter in lying.experts + part.columns + part.rows)
            shape = ", ".join(self.making.constant(index.letter) for index in part.weight.indices)
            comma = "," if len(part.read) == 1 else ""
            parts.append(f'("{key(part.weight.name)}", ({shape}{comma}), ({order}{comma}))')
        return f'"{lying.name}": [{", ".join(parts)}]'

    # --------------------------------------------------------------------------------------------------- forward

    def comment(self, equation: Equation, indent: str) -> None:
        """The equation as it is written; before the first that needs them the pairs of rows and experts."""
        if self.routing and equation is next(filter(self.routing.reached, equations(self.layer.body))):
            self.route(self.routing, indent)
        super().comment(equation, indent)

    def route(self, routing: Routing, indent: str) -> None:
        """The line that pairs rows and experts, and that of the weight where it has no name."""
        letters, low = (*routing.rows, routing.letter), self.lowering
        low.weight = permuted(low.lower(routing.weight), letters)
        if not isinstance(routing.weight, Tensor):
            self.body.append(f"{indent}weight = {low.weight.text}")
            low.weight = Code("weight", letters)
        self.file.helpers["routed"] = None
        weight, count = low.flat(low.weight, routing.rows, (routing.letter,)), low.lower(routing.count)
        self.body.append(f"{indent}token, expert, ends, place = routed({weight.text}, {count.text})")

    def equation(self, equation: Equation, indent: str) -> None:
        """The lines of an equation; what attention has taken in leaves its comment only."""
        if id(equation) in self.inlined:
            return
        nodes = {id(e) for e in (self.routing.nodes(equation) if self.routing else subexpressions(equation.right))}
        for group in self.together:
            if len(group) > 1 and id(group[0][0]) in nodes:
                self.split(group, indent)
        if id(equation.right) not in self.parts:
            low, before = self.lowering, (len(self.lowering.taken), self.lowering.dropped.total())
            low.paired = self.routing is not None and self.routing.paired(equation)
            place = len(self.body)
            low.notes.clear()
            super().equation(equation, indent)
            self.body[place:place] = [f"{indent}# {note}" for note in low.notes]
            low.paired = False
            low.closed |= {id(equation)} if before != (len(low.taken), low.dropped.total()) else set()

    def split(self, group: list[Map], indent: str) -> None:
        """Several linear maps of one input as one product, split afterwards."""
        maps = [found for _, found in group]
        low = replace(self.lowering, paired=bool(maps[0].experts))
        x, rest = low.columns(maps[0])
        names = [self.part(node, found, rest + found.rows) for node, found in group]
        matrix = "self." + "".join(key(m.weight.name) for m in maps)
        bias = ", self." + "".join(key(m.bias.name) for m in maps if m.bias is not None) if maps[0].bias is not None else ""
        sizes = [self.size_of(m.rows, self.lowering) for m in maps]
        parts = f"chunk({len(sizes)}, -1)" if len(set(sizes)) == 1 else f"split(({', '.join(sizes)}), -1)"
        turned = f"{matrix}.{'mT' if maps[0].experts else 'T'}{bias}"
        self.body.append(f"{indent}{', '.join(names)} = {low.mapped(maps[0], x, turned)}.{parts}")
        self.lowering.taken |= {definition for m in maps for definition in m.taken}
        for (node, found), name in zip(group, names, strict=True):
            self.lowering.hoisted[id(node)] = self.lowering.opened(Code(name, rest), found)

    def part(self, node: Expression, found: Linear, dims: Dims) -> str:
        """What a part is called: the left side of an equation that is nothing else, or `zQ`."""
        left = next((q.left for q in equations(self.layer.body) if q.right is node and q.relation == "="), None)
        plain = isinstance(left, Tensor) and (found.experts or sorted(letters(left)) == sorted(dims))
        if left is not None and plain and len(found.rows) == 1:
            self.parts.add(id(node))
            return define(self.lowering, left, "tensor", dims)
        return f"{key(found.x.name) if isinstance(found.x, Tensor) else 'x'}{key(found.weight.name)}"

    def assigned(self, equation: Equation, code: Code, indent: str) -> None:
        """As it lies, where every axis has a letter of its own; what is changed lies as before."""
        left, some = equation.left, letters(equation.left)
        code = self.lowering.cast(code, "tensor") if code.kind == "number" and self.is_passed(left.name) else code
        if self.lowering.paired:
            code = permuted(code, (PAIR, *(letter for letter in some if letter in code.dims)))
            self.body.append(f"{indent}{define(self.lowering, left, code.kind, code.dims)} = {code.text}")
            return
        plain = isinstance(left, Tensor) and len(some) == len(left.slots) and set(code.dims) == set(some)
        old = self.lowering.variables.get(left.name) if equation.relation == "<-" else None
        if old is not None and old.physical:
            axes = tuple(label[0] for label in old.labels)
            whole = code if plain else Code(merged(self.lowering, left, code), axes, level=LOOSE)
            code = permuted(whole, tuple((some if plain else axes)[axes.index(letter)] for letter in old.physical))
            self.body.append(f"{indent}{self.known(equation)} = {code.text}")
        elif old is not None or not plain:
            super().assigned(equation, code, indent)
        else:
            order = self.orders.get(left.name)
            code = permuted(code, tuple(some[axis] for axis in order)) if order else code
            self.body.append(f"{indent}{define(self.lowering, left, code.kind, code.dims)} = {code.text}")


def _total(sizes: list[str]) -> str:
    """`3 * A * H`, or `A * H + G * H`."""
    return " + ".join(sizes) if len(sizes) == 1 or len(set(sizes)) > 1 else f"{len(sizes)} * {sizes[0]}"
