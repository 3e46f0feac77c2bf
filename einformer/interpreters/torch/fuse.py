"""Which function of PyTorch computes several steps of an equation at once: linear maps, norms, attention?

Everything that is not recognised is lowered as in the plan `notation`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from einformer.errors import EinformerError
from einformer.interpreters.torch.code import ATOM, POWER, PRODUCT, Code, Dims, aligned, permuted, product
from einformer.interpreters.torch.lower import Lowering
from einformer.interpreters.torch.patterns import Attention, attention, linear
from einformer.notation.calls import axis_of
from einformer.notation.norms import Norm, norm
from einformer.notation.sizes import Legend
from einformer.notation.tree import Apply, Equation, Expression, Group, Index, Number, Product, Sum, Tensor
from einformer.program.canonical import Reach
from einformer.program.linear import Linear, letters
from einformer.program.routing import PAIR, Routing, grouped


@dataclass(slots=True)
class FastLowering(Lowering):
    """Lowering that knows how weights lie, which linear maps are computed already, and which masks are causal."""

    laid: set[str] = field(default_factory=set)  # weights that lie as a matrix, inputs by outputs
    hoisted: dict[int, Code] = field(default_factory=dict)  # linear maps, by node, that a product of several has computed
    reach: Reach = field(default_factory=Reach)  # the definitions that reach the equation that is lowered
    causal: Callable[[Equation], bool] = lambda equation: False  # does an equation define the causal mask?
    fused: list[Attention] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)  # masks that an attention knows by itself
    orders: dict[str, tuple[int, ...]] = field(default_factory=dict)  # of the axes that attention wants of a tensor
    routing: Routing | None = None
    weight: Code = field(default_factory=lambda: Code(""))  # of the experts, for each row
    paired: bool = False  # for pairs of a row and an expert

    def lower(self, e: Expression, wanted: Dims | None = None) -> Code:
        """The code of an expression, fused where it is recognised."""
        if id(e) in self.hoisted:
            return self.picked(self.hoisted[id(e)]) if self.paired else self.hoisted[id(e)]
        if self.paired:
            return self.for_pairs(e, wanted)
        if self.routing is not None and id(e) in self.routing.sums:
            return self.over_pairs(self.routing.sums[id(e)])
        if isinstance(e, Tensor) and (turned := _turned(e, self.legend)) is not None:
            return self.turned(*turned)
        if (found := norm(e)) is not None and (code := self.norm(found)) is not None:
            return code
        if (map_ := linear(e, self.layer)) is not None:
            return self.linear(map_)
        if (heads := attention(e, self.reach)) is not None and (code := self.attention(heads)) is not None:
            self.fused.append(heads)
            return code
        return Lowering.lower(self, e, wanted)

    def turned(self, plain: Tensor, letter: str) -> Code:
        """A tensor read along an axis backwards; of two numbers each is the other's neighbour."""
        code = Lowering.lower(self, plain)
        axis = code.dims.index(letter)
        how = (
            f"torch.roll({code.text}, 1, {axis})" if self.legend.length(letter) == 2 else f"torch.flip({code.text}, ({axis},))"
        )
        return replace(code, text=how, level=ATOM)

    def norm(self, found: Norm) -> Code | None:
        """`rms_norm` and `layer_norm` work on the last axis."""
        x = self.lower(found.x)
        if x.kind != "tensor" or found.letter not in x.dims:
            return None
        x = permuted(x, (*(dim for dim in x.dims if dim != found.letter), found.letter))
        gain = self.lower(found.gain).text if found.gain is not None else "None"
        size, epsilon = self.size(found.letter), self.lower(found.epsilon).text
        if found.kind == "rms":
            return Code(f"fn.rms_norm({x.text}, ({size},), {gain}, {epsilon})", x.dims)
        bias = self.lower(found.bias).text if found.bias is not None else "None"
        return Code(f"fn.layer_norm({x.text}, ({size},), {gain}, {bias}, {epsilon})", x.dims)

    def linear(self, found: Linear) -> Code:
        """`F.linear` on columns side by side, giving rows side by side."""
        x, rest = self.columns(found)
        bias = f", {self.bias(found)}" if found.bias is not None else ""
        code = self.opened(Code(self.mapped(found, x, self.matrix(found) + bias), rest), found)
        return product([code, *map(self.lower, found.around)]) if found.around else code

    def mapped(self, found: Linear, x: Code, matrix: str) -> str:
        """The product with a matrix, or with that of the expert of each pair."""
        if not found.experts:
            return f"fn.linear({x.text}, {matrix})"
        self.helpers |= {"Grouped": None, "grouped": None}
        return f"grouped({x.text}, {matrix}, ends)"

    def columns(self, found: Linear) -> tuple[Code, Dims]:
        """The input of a linear map with the letters that it sums last, as one axis."""
        x = self.lower(found.x)
        x = self.cast(x, "tensor")
        rest = tuple(dim for dim in x.dims if dim not in found.columns)
        x = permuted(x, rest + found.columns)
        if len(found.columns) > 1:
            x = Code(f"{x.at(ATOM)}.flatten({len(rest)})", (*rest, ""))
        return x, rest

    def opened(self, code: Code, found: Linear) -> Code:
        """Rows side by side as an axis for each of their letters."""
        if len(found.rows) == 1:
            return replace(code, dims=code.dims + found.rows)
        sizes = ", ".join(self.size(letter) for letter in found.rows)
        return replace(code, text=f"{code.at(ATOM)}.unflatten({len(code.dims)}, ({sizes}))", dims=code.dims + found.rows)

    def matrix(self, found: Linear) -> str:
        """The weight, outputs by inputs, as `F.linear` wants it; by expert where there are some."""
        first = found.experts
        if found.weight.name in self.laid:
            return f"{self.variables[found.weight.name].code}.{'mT' if first else 'T'}"
        code = replace(self, paired=False).lower(found.weight)
        turned = code.dims == first + found.columns + found.rows
        order = (found.columns, found.rows) if turned else (found.rows, found.columns)
        code = permuted(code, first + order[0] + order[1])
        for at, some in enumerate(order, len(first)):
            if len(some) > 1:
                code = Code(f"{code.at(ATOM)}.flatten({at}, {at + len(some) - 1})")
        return f"{code.at(ATOM)}.{'mT' if first else 'T'}" if turned else code.text

    def bias(self, found: Linear) -> str:
        """The bias, its rows side by side."""
        assert found.bias is not None
        name = found.bias.name
        if name in self.laid:
            return self.variables[name].code
        code = permuted(Code(self.variables[name].code, letters(found.bias)), found.rows)
        return f"{code.at(ATOM)}.flatten()" if len(found.rows) > 1 else code.text

    def over_pairs(self, e: Expression) -> Code:
        """A sum over the chosen experts of each row, of what is computed for pairs."""
        assert self.routing is not None
        code = replace(self, paired=True).lower(e)
        rest, rows = tuple(dim for dim in code.dims if dim != PAIR), self.routing.rows
        text = f"{permuted(code, (PAIR, *rest)).at(ATOM)}[place].sum(1)"
        opened = f".unflatten(0, {self.weight.at(ATOM)}.shape[:{len(rows)}])" if len(rows) > 1 else ""
        return Code(text + opened, rows + rest)

    def for_pairs(self, e: Expression, wanted: Dims | None) -> Code:
        """An expression for each pair; what no expert changes is computed for each row, and picked."""
        assert self.routing is not None
        if isinstance(e, Tensor) and e.name in self.routing.tensors:
            return Code(self.variables[e.name].code, self.variables[e.name].physical)
        if e == self.routing.weight:
            return self.picked(self.weight)
        if isinstance(e, Tensor | Index) or not self.routing.mentions(e):
            return self.picked(replace(self, paired=False).lower(e))
        if (found := grouped(e, self.routing)) is not None:
            return self.linear(found)
        return Lowering.lower(self, e, wanted)

    def picked(self, code: Code) -> Code:
        """What is there for each row, each expert, or each of both, at the pairs."""
        assert self.routing is not None
        rows = self.routing.rows if set(self.routing.rows) & set(code.dims) else ()
        expert = tuple(dim for dim in code.dims if dim == self.routing.letter)
        rest = tuple(dim for dim in code.dims if dim not in (*rows, *expert))
        if not rows + expert:
            return code
        code = self.flat(code, rows, expert + rest)
        places = ", ".join(["token"] * bool(rows) + ["expert"] * bool(expert))
        return Code(f"{code.at(ATOM)}[{places}]", (PAIR, *rest), code.kind)

    def flat(self, code: Code, rows: Dims, rest: Dims) -> Code:
        """A value with its rows as one axis, before all others."""
        if not set(rows) <= set(code.dims):
            own = [f"{self.weight.at(ATOM)}.shape[{axis}]" for axis, _ in enumerate(rows)]
            sizes = ", ".join([*own, *map(self.size, rest)])
            code = Code(f"{aligned(code, rows + rest, ATOM)}.expand({sizes})", rows + rest, code.kind)
        code = permuted(code, rows + rest)
        return code if len(rows) < 2 else Code(f"{code.at(ATOM)}.flatten(0, {len(rows) - 1})", kind=code.kind)

    def attention(self, found: Attention) -> Code | None:
        """scaled_dot_product_attention on (batch, heads, positions, features), where the letters allow it."""
        query, key_, value = (self.lower(e) for e in (found.query, found.key, found.value))
        shared = tuple(dim for dim in key_.dims if dim not in (found.over, found.feature))
        own = [dim for dim in query.dims if dim not in (*shared, found.feature)]
        position = [dim for dim in own if axis_of(dim) == axis_of(found.over)]
        put = [dim for dim in value.dims if dim not in (*shared, found.over)]
        if (
            len(position) != 1
            or len(put) != 1
            or not shared
            or not {*shared, found.over} <= set(value.dims)
            or (put[0] in query.dims and put[0] != found.feature)
        ):
            return None
        if not set(shared) <= set(query.dims):
            return None
        groups = tuple(dim for dim in own if dim not in position)
        batch, heads = shared[:1], shared[1:]
        if groups and not heads:
            return None
        options = self.options(found, batch, position[0], heads, groups)
        if options is None:
            return None
        q = self.side_by_side(found.query, query, (*batch, *heads, *groups, *position, found.feature), len(heads + groups))
        k = self.side_by_side(found.key, key_, (*batch, *heads, found.over, found.feature), len(heads))
        v = self.side_by_side(found.value, value, (*batch, *heads, found.over, *put), len(heads))
        code = Code(f"fn.scaled_dot_product_attention({', '.join([q, k, v, *options])})")
        if len(heads + groups) > 1:
            sizes = ", ".join(self.size(letter) for letter in heads + groups)
            code = Code(f"{code.text}.unflatten(1, ({sizes}))")
        return replace(code, dims=(*batch, *heads, *groups, *position, *put))

    def side_by_side(self, e: Expression, code: Code, dims: Dims, heads: int) -> str:
        """Heads, whatever their letters, as one axis after the batch."""
        if isinstance(e, Tensor) and sorted(letters(e)) == sorted(dims):
            self.orders[e.name] = tuple(letters(e).index(letter) for letter in dims)
        code = permuted(code, dims)
        return code.text if heads < 2 else f"{code.at(ATOM)}.flatten(1, {heads})"

    def options(self, found: Attention, batch: Dims, position: str, heads: Dims, groups: Dims) -> list[str] | None:
        """Mask, dropout, scale, grouped heads; None where the mask does not line up."""
        options: list[str] = []
        if isinstance(found.mask, Tensor) and self.is_causal(found.mask):
            self.dropped.append(found.mask.name)
            options += self.past.causal(1 if heads or groups else 0) if self.past else ["is_causal=True"]
        elif found.mask is not None:
            mask = self.cast(self.lower(found.mask), "tensor")
            together = (*heads, *groups)
            if not set(mask.dims) <= {*batch, position, found.over, *together} or (
                set(mask.dims) & set(together) and len(together) > 1
            ):
                return None
            text = aligned(mask, (*batch, *together[:1], position, found.over))
            lacks = set(mask.dims) & set(together) and not set(mask.dims) & set(batch)
            options.append(f"attn_mask={text}{'[None]' * bool(lacks)}")  # of three axes the kernels of a CPU know nothing
        if found.dropout is not None:
            options.append(f"dropout_p={self.lower(found.dropout).at(PRODUCT)} if self.training else 0.0")
        scale = self.scale(found)
        return options + ([f"scale={scale}"] if scale else []) + (["enable_gqa=True"] if groups else [])

    def is_causal(self, mask: Tensor) -> bool:
        """Is a mask causal as it is where it is added?"""
        definition = self.reach.definition(mask)
        return definition is not None and definition.equation is not None and self.causal(definition.equation)

    def scale(self, found: Attention) -> str:
        """What the scores are multiplied by; nothing where that is what the function does by itself."""
        if not found.scale and found.divisor is not None and self.is_root_of_size(found.divisor, found.feature):
            return ""
        factors = product([self.lower(factor) for factor in found.scale]) if found.scale else Code("1", (), "integer")
        return factors.text if found.divisor is None else f"{factors.at(PRODUCT)} / {self.lower(found.divisor).at(POWER)}"

    def is_root_of_size(self, e: Expression, letter: str) -> bool:
        """Is e the square root of the size of an axis?"""
        axis = self.legend.axis(letter)
        return axis is not None and isinstance(e, Apply) and e.name == "sqrt" and e.arguments[0] == axis.size


def _turned(e: Tensor, legend: Legend) -> tuple[Tensor, str] | None:
    """`x_{s((1 - i)h)}` of two i: the tensor with i in the place of 1 - i, and that letter."""
    for place, slot in enumerate(e.slots):
        for at, member in enumerate(slot.members if isinstance(slot, Group) else ()):
            match member:
                case Sum((Number(last), Product((Number(-1), Index() as index)))) if last == _last(index, legend):
                    assert isinstance(slot, Group)
                    members = (*slot.members[:at], index, *slot.members[at + 1 :])
                    plain = replace(e, slots=(*e.slots[:place], replace(slot, members=members), *e.slots[place + 1 :]))
                    rest = all(isinstance(x, Index) for x in members) and len(set(members)) == len(members)
                    others = all(isinstance(x, Index) for x in (*e.slots[:place], *e.slots[place + 1 :]))
                    return (plain, index.letter) if rest and others else None
    return None


def _last(index: Index, legend: Legend) -> int | None:
    """The last number of an index, where its size is bound."""
    try:
        return legend.length(index.letter) - 1
    except EinformerError:
        return None
