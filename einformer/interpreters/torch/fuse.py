"""Which function of PyTorch computes several steps of an equation at once: linear maps, norms, attention?

Everything that is not recognised is lowered as in the plan `notation`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from einformer.errors import EinformerError
from einformer.interpreters.torch.code import ATOM, PRODUCT, Code, Dims, aligned, permuted, product
from einformer.interpreters.torch.lower import Lowering
from einformer.language.calls import axis_of
from einformer.language.sizes import Legend
from einformer.language.tree import Expression, Group, Index, Number, Power, Product, Quotient, Sum, Tensor
from einformer.program.attention import Attention, Scores, attention, refusal
from einformer.program.canonical import ONE, Definition, Factor, Term, Values, identity, spelled
from einformer.program.linear import Linear, letters, linear, with_bias
from einformer.program.norms import Norm, norm
from einformer.program.orders import MANY, pairs
from einformer.program.routing import PAIR, Routing, grouped


@dataclass(slots=True)
class Side:
    """A factor of an attention: its code, how it is written, and the letters of its features."""

    code: Code
    written: Expression | None = None
    last: Dims = ()


@dataclass(frozen=True, slots=True)
class Pair:
    """The query and the key of scores, and their scale."""

    query: Side
    key: Side
    scale: Term

    @property
    def letters(self) -> Dims:
        """Those of the scores."""
        return tuple(dim for dim in (*self.key.code.dims, *self.query.code.dims) if dim not in self.key.last)


@dataclass(slots=True)
class FastLowering(Lowering):
    """Lowering that knows how weights lie, which linear maps are computed already, and which masks are causal."""

    laid: set[str] = field(default_factory=set)  # weights that lie as a matrix, inputs by outputs
    hoisted: dict[int, Code] = field(default_factory=dict)  # linear maps, by node, that a product of several has computed
    taken: set[Definition] = field(default_factory=set)  # whose right sides stand in what is fused
    dropped: Counter[Definition] = field(default_factory=Counter)  # masks that an attention knows by itself
    closed: set[int] = field(default_factory=set)  # equations, by id, that read what stands elsewhere now
    notes: dict[str, None] = field(default_factory=dict)  # why the equation that is lowered is not fused
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
        if (found := norm(e, replace(self.values, opens=True))) is not None and (code := self.norm(found)) is not None:
            self.taken |= found.taken
            return code
        if (map_ := linear(e, self.values, self.layer)) is not None:
            return self.linear(map_)
        if (heads := attention(e, self.values)) is not None and (code := self.attention(heads)) is not None:
            self.taken |= heads.taken
            return code
        if self.past is None and (refused := refusal(e, self.values)) is not None and self.runs(refused[0], self.time):
            self.notes[f"not one attention kernel: {refused[1]}"] = None
        return Lowering.lower(self, e, wanted)

    @property
    def values(self) -> Values:
        """The values of expressions in the equation that is lowered; what is closed stands for itself."""
        return Values(replace(self.reach, closed=frozenset(self.closed)), self.legend)

    def turned(self, plain: Tensor, letter: str) -> Code:
        """A tensor read along an axis backwards; of two numbers each is the other's neighbour."""
        code = Lowering.lower(self, plain)
        axis = code.dims.index(letter) - len(code.dims)
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
        self.taken |= found.taken
        code = self.opened(Code(self.mapped(found, x, self.matrix(found) + bias), rest), found)
        for around in found.around:
            code = self.scaled(code, around)
        return code

    def scaled(self, code: Code, e: Expression) -> Code:
        """A result times what stands around it."""
        if isinstance(e, Quotient) and e.numerator == Number(1):
            return self.quotient(code, self.lower(e.denominator), None)
        return product([code, self.lower(e)])

    def sum(self, e: Sum, wanted: Dims | None) -> Code:
        """Terms with their signs; a linear map and its bias among them are one."""
        biased = with_bias(e, self.values, self.layer) if len(e.terms) > 2 and not self.paired else None
        if biased is None:
            return Lowering.sum(self, e, wanted)
        found, place, at = biased
        code = self.hoisted.get(id(e.terms[place])) or self.linear(found)
        terms = tuple(term for k, term in enumerate(e.terms) if k not in (place, at))
        rest = self.lower(terms[0] if len(terms) == 1 else replace(e, terms=terms), wanted)
        return self.added([rest, code], wanted)

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
        sides = [self.sides(scores, found.over) for scores in found.scores]
        products = [pair for pair in sides if pair is not None]
        letters = dict.fromkeys(dim for pair in products for dim in pair.letters if dim != found.over)
        shared = tuple(dim for dim in letters if any(dim in pair.key.code.dims for pair in products))
        own = [dim for dim in letters if dim not in shared]
        copies = self.past and len(products) > 1  # a step would copy all kept keys to lay their features side by side
        if not own or not shared or copies:
            return None
        position = self.position(own, found.over)
        groups, batch, heads = tuple(dim for dim in own if dim != position), shared[:1], shared[1:]
        value, around = self.value(found, (*letters, found.over))
        put = [dim for dim in value.code.dims if dim not in (*shared, found.over)]
        rest = [scores.written for scores, pair in zip(found.scores, sides, strict=True) if pair is None]
        options = self.options(found, (*found.masks, *rest), batch, position, heads, groups)
        if options is None or len(put) != 1 or not {*shared, found.over} <= set(value.code.dims) or put[0] in own:
            return None
        scale = self.scale(products)
        q = self.side_by_side([pair.query for pair in products], (*batch, *heads, *groups, position), len(heads + groups))
        k = self.side_by_side([pair.key for pair in products], (*batch, *heads, found.over), len(heads))
        v = self.side_by_side([replace(value, last=tuple(put))], (*batch, *heads, found.over), len(heads))
        if groups and not heads:
            k, v = f"{k}[:, None]", f"{v}[:, None]"
        options += ([f"scale={scale}"] if scale else []) + (["enable_gqa=True"] if groups else [])
        code = Code(f"fn.scaled_dot_product_attention({', '.join([q, k, v, *options])})")
        if len(heads + groups) > 1:
            sizes = ", ".join(self.size(letter) for letter in heads + groups)
            code = Code(f"{code.text}.unflatten(1, ({sizes}))")
        code = replace(code, dims=(*batch, *heads, *groups, position, *put))
        plain, tensors = [each for each in around if not each.dims], [each for each in around if each.dims]
        summed = {dim for each in (code, *tensors) for dim in each.dims if dim in found.summed}
        if summed:
            code = self.einsum([code, *tensors], summed, None) if tensors else self.total(code, summed)
        return product([code, *plain, *([] if summed else tensors)])

    def sides(self, scores: Scores, over: str) -> Pair | None:
        """The query and the key of scores, once what lies between them is multiplied to the one for which that is less work."""
        sides = [self.side(factor, power) for factor, power in scores.factors.powers.items()]
        while len(sides) > 2:
            order = pairs([frozenset(side.code.dims) for side in sides], scores.summed, self.typical)
            sides = self.joined(sides, order[0], scores.summed)
        keys = [side for side in sides if over in side.code.dims]
        if len(sides) != 2 or len(keys) != 1:
            return None
        key_, query = keys[0], next(side for side in sides if side is not keys[0])
        last = tuple(dim for dim in key_.code.dims if dim in scores.summed and dim in query.code.dims)
        plain = {dim for side in sides for dim in side.code.dims if dim in scores.summed} == set(last)
        own = set(query.code.dims) - set(key_.code.dims)
        if not plain or not last or not any(self.runs(dim, over) for dim in own):
            return None
        return Pair(replace(query, last=last), replace(key_, last=last), scores.scale)

    def runs(self, letter: str, over: str) -> bool:
        """Can a letter be the position of queries: is it over the axis of the keys, or over one whose length is open?"""
        return axis_of(letter) in (axis_of(over), self.time) or self.typical(letter) == MANY

    def position(self, own: Sequence[str], over: str) -> str:
        """Of the letters that the queries have alone the one for positions; the others are heads that share keys."""
        return max(
            own, key=lambda letter: (axis_of(letter) == axis_of(over), axis_of(letter) == self.time, self.typical(letter))
        )

    def side(self, factor: Factor, power: Fraction = ONE) -> Side:
        """A factor and its code."""
        e = spelled(Term(ONE, {factor: power}))
        return Side(self.cast(self.lower(e), "tensor"), e)

    def joined(self, sides: list[Side], pair: tuple[int, int], summed: Collection[str]) -> list[Side]:
        """Two of them as one product, over letters that no other has."""
        some, rest = [sides[place].code for place in pair], [side for place, side in enumerate(sides) if place not in pair]
        here = {dim for dim in summed if not any(dim in side.code.dims for side in rest)}
        both = here & set(some[0].dims) & set(some[1].dims)
        return [*rest, Side(self.pair(some, both, None) if both else product(some))]

    def value(self, found: Attention, weights: Dims) -> tuple[Side, list[Code]]:
        """What is summed by the weights, and what the result is multiplied by."""
        sides = [self.side(factor, power) for factor, power in found.factors.powers.items()]
        letters = {*found.summed, found.over}
        while True:
            holders = [place for place, side in enumerate(sides) if found.over in side.code.dims]
            pair = (holders[0], holders[1]) if len(holders) > 1 else self.before(sides, weights, letters)
            if pair is None:
                break
            sides = self.joined(sides, pair, letters - {found.over} - set(weights))
        around = [side.code for side in sides if found.over not in side.code.dims]
        number = [] if found.factors.number == 1 else [self.lower(spelled(Term(found.factors.number)))]
        return next(side for side in sides if found.over in side.code.dims), [*number, *around]

    def before(self, sides: list[Side], weights: Dims, letters: set[str]) -> tuple[int, int] | None:
        """Which two are multiplied before the weights are applied, if that is less work."""
        if len(sides) < 2:
            return None
        operands = [frozenset(dims) for dims in (weights, *(side.code.dims for side in sides))]
        one, other = pairs(operands, frozenset(letters), self.typical)[0]
        return (one - 1, other - 1) if one else None

    def side_by_side(self, sides: list[Side], dims: Dims, heads: int) -> str:
        """Heads, whatever their letters, as one axis after the batch; features of several one after the other."""
        texts = []
        for side in sides:
            order = (*dims, *side.last)
            plain = isinstance(side.written, Tensor) and all(isinstance(slot, Index) for slot in side.written.slots)
            if isinstance(side.written, Tensor) and plain and sorted(letters(side.written)) == sorted(order):
                self.orders[side.written.name] = tuple(letters(side.written).index(letter) for letter in order)
            code = self.spread(side.code, order)
            if len(side.last) > 1:
                code = Code(f"{code.at(ATOM)}.flatten({len(dims)})")
            texts.append(code.text if heads < 2 else f"{code.at(ATOM)}.flatten(1, {heads})")
        return texts[0] if len(texts) == 1 else f"torch.cat(({', '.join(texts)}), -1)"

    def spread(self, code: Code, dims: Dims) -> Code:
        """The same for each number of the letters that a code lacks."""
        if set(code.dims) == set(dims):
            return permuted(code, dims)
        sizes = ", ".join("-1" if dim in code.dims else self.size(dim) for dim in dims)
        return Code(f"{aligned(code, dims, ATOM)}.expand({sizes})", dims)

    def options(
        self, found: Attention, masks: Sequence[Expression], batch: Dims, position: str, heads: Dims, groups: Dims
    ) -> list[str] | None:
        """Mask and dropout; None where the mask does not line up."""
        options: list[str] = []
        causal = [mask for mask in masks if self.is_causal(mask, position, found.over)]
        if masks and len(causal) == len(masks):
            self.dropped.update(each for mask in masks if (each := self.reach.definition(mask)) is not None)
            options += self.past.causal(1 if heads or groups else 0) if self.past else ["is_causal=True"]
        elif masks:
            mask = self.cast(self.lower(masks[0] if len(masks) == 1 else Sum(tuple(masks))), "tensor")
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
        return options

    def is_causal(self, mask: Expression, position: str, over: str) -> bool:
        """Is a mask zero up to the position of the query, and -inf after it?"""
        same = axis_of(position) == axis_of(over) and position == axis_of(position)
        right, reach = self.reach.defined(mask)
        return same and Values(reach, self.legend, opens=True).is_causal(right, position, over)

    def scale(self, products: list[Pair]) -> str:
        """What the scores are multiplied by; nothing where that is what the function does by itself."""
        scale, axis = products[0].scale, self.legend.axis(products[0].key.last[0])
        alike = all((pair.scale.number, pair.scale.product) == (scale.number, scale.product) for pair in products)
        if not (alike and self.lower(spelled(scale)).plain):  # the function takes one number of Python
            for pair in products:
                pair.query.code = product([self.lower(spelled(pair.scale)), pair.query.code])
            return "1"
        alone = len(products) == 1 and len(products[0].key.last) == 1 and axis is not None
        root = self.values.value(Power(axis.size, Number(-0.5))) if alone and axis is not None else ()
        return "" if identity(root) == identity((scale,)) else self.lower(spelled(scale)).text


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
