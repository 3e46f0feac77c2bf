"""How does the plan `fast` compute the same equations: linear maps as one product, norms, attention, heads before features?

Everything that is not recognised is lowered as in the plan `notation`. Parameters lie as they are computed with; state
dicts have the notes' names and axes in both plans.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from einformer.interpreters.torch.classes import INDENT, Class, File, recurrent
from einformer.interpreters.torch.code import ATOM, LOOSE, POWER, PRODUCT, Code, Dims, aligned, permuted, product
from einformer.interpreters.torch.lower import Lowering
from einformer.interpreters.torch.patterns import (
    Attention,
    Linear,
    Norm,
    attention,
    is_causal_mask,
    letters,
    linear,
    linears,
    norm,
    reads,
)
from einformer.interpreters.torch.roles import roles
from einformer.notation.calls import axis_of
from einformer.notation.sizes import Legend
from einformer.notation.tree import Apply, Equation, Expression, Layer, Spec, Tensor, Weight
from einformer.notation.walk import equations, map_expressions, rebuild, subexpressions
from einformer.notation.weights import key

HELPERS = {
    "Stored": '''class Stored(nn.Module):
    """Weights that lie as they are computed with; a state dict has each under its own name with its axes as written.

    `layout` has, for each parameter, the weights in it: name, shape, and the order of axes in which its rows lie.
    """

    layout: dict[str, list[tuple[str, tuple[int, ...], tuple[int, ...]]]] = {}

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for stored, parts in self.layout.items():
            whole = destination.pop(prefix + stored)
            at = 0
            for name, shape, order in parts:
                rows = math.prod(shape) // math.prod(whole.shape[1:])
                lying = whole[at : at + rows].reshape([shape[axis] for axis in order])
                destination[prefix + name] = lying.permute([order.index(axis) for axis in range(len(order))])
                at += rows

    def _load_from_state_dict(self, state_dict, prefix, metadata, strict, missing, unexpected, errors):
        for stored, parts in self.layout.items():
            whole = getattr(self, stored).detach()
            lying = list(whole.split([math.prod(shape) // math.prod(whole.shape[1:]) for _, shape, _ in parts]))
            for place, (name, shape, order) in enumerate(parts):
                given = state_dict.pop(prefix + name, None)
                if given is None:
                    missing.append(prefix + name)
                elif given.shape != shape:
                    errors.append(f"size mismatch for {prefix + name}: {tuple(given.shape)} is given, not {shape}")
                else:
                    lying[place] = given.permute(order).reshape(lying[place].shape)
            state_dict[prefix + stored] = torch.cat(lying)
        super()._load_from_state_dict(state_dict, prefix, metadata, strict, missing, unexpected, errors)
'''
}


# ------------------------------------------------------------------------------------------------- the causal mask


def sunk(spec: Spec, legend: Legend) -> Spec:
    """The specialised spec with causal masks defined where they are used, instead of passed to every layer.

    A layer whose input is always the causal mask defines it itself, so that its attention is seen to be causal.
    """
    layers = {layer.name: layer for layer in spec.layers}
    for layer in spec.layers:
        for formal in layer.formals:
            actuals = list(_actuals(layers, layer.name, formal.name))
            if actuals and all(_is_mask(actual, caller, legend) for actual, caller in actuals):
                layers = _moved(layers, layer.name, formal, actuals[0])
    return replace(spec, layers=tuple(layers.values()))


def _callee(call: Apply, caller: Layer) -> str:
    return next((w.layer for w in caller.weights if w.kind == "instance" and w.name == call.name), call.name)


def _actuals(layers: Mapping[str, Layer], name: str, formal: str) -> Iterator[tuple[Expression, Layer]]:
    """What every call of a layer gives for one of its inputs."""
    place = [f.name for f in layers[name].formals].index(formal)
    for caller in layers.values():
        for e in (x for q in equations(caller.body) for x in subexpressions(q.right)):
            if isinstance(e, Apply) and _callee(e, caller) == name:
                yield e.arguments[place], caller


def _mask_equation(name: str, layer: Layer) -> Equation | None:
    defined = [q for q in equations(layer.body) if q.left.name == name]
    return defined[0] if len(defined) == 1 else None


def _is_mask(actual: Expression, caller: Layer, legend: Legend) -> bool:
    equation = _mask_equation(actual.name, caller) if isinstance(actual, Tensor) else None
    if equation is None or equation.left != actual or len(letters(actual)) != 2:
        return False
    return is_causal_mask(equation.right, letters(actual)[0], legend)


def _moved(layers: dict[str, Layer], name: str, formal: Tensor, actual: tuple[Expression, Layer]) -> dict[str, Layer]:
    """The layers with one mask defined inside the layer `name`, and no longer passed to it."""
    place = [f.name for f in layers[name].formals].index(formal.name)
    mask = _mask_equation(actual[0].name, actual[1])  # type: ignore[union-attr]
    assert mask is not None

    def without(caller: Layer) -> Layer:
        def visit(e: Expression) -> Expression:
            e = rebuild(e, visit)
            if isinstance(e, Apply) and _callee(e, caller) == name:
                return replace(e, arguments=e.arguments[:place] + e.arguments[place + 1 :])
            return e

        return _unread(map_expressions(caller, visit))

    moved = {each: without(layer) for each, layer in layers.items()}
    layer = moved[name]
    inside = Equation(formal, "=", mask.right, span=mask.span)
    moved[name] = replace(layer, formals=layer.formals[:place] + layer.formals[place + 1 :], body=(inside, *layer.body))
    return moved


def _unread(layer: Layer) -> Layer:
    """The layer without definitions of masks that nothing reads any more."""
    keep = [
        s
        for s in layer.body
        if not (
            isinstance(s, Equation) and s.relation == "=" and s.left.name != layer.output.name and not reads(s.left.name, layer)
        )
    ]
    return replace(layer, body=tuple(keep))


# ----------------------------------------------------------------------------------------------------- expressions


@dataclass(slots=True)
class FastLowering(Lowering):
    """Lowering that knows how weights lie, which linear maps are computed already, and which masks are causal."""

    rows: dict[str, Dims] = field(default_factory=dict)  # weights that lie as rows and columns: the letters of their rows
    hoisted: dict[int, Code] = field(default_factory=dict)  # linear maps, by node, that a product of several has computed
    causal: frozenset[str] = frozenset()
    fused: list[Attention] = field(default_factory=list)

    def lower(self, e: Expression, wanted: Dims | None = None) -> Code:
        """The code of an expression, fused where it is recognised."""
        if id(e) in self.hoisted:
            return self.hoisted[id(e)]
        if (found := norm(e)) is not None and (code := self.norm(found)) is not None:
            return code
        if (map_ := linear(e, self.layer)) is not None:
            return self.linear(map_)
        if (heads := attention(e, self.layer)) is not None and (code := self.attention(heads)) is not None:
            self.fused.append(heads)
            return code
        return Lowering.lower(self, e, wanted)

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
        return self.opened(Code(f"fn.linear({x.text}, {self.matrix(found)}{bias})", rest), found)

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
        """The weight as rows and columns."""
        weight = self.variables[found.weight.name]
        if found.weight.name in self.rows:
            return weight.code
        code = permuted(Code(weight.code, letters(found.weight)), found.rows + found.columns)
        for at, some in ((0, found.rows), (1, found.columns)):
            if len(some) > 1:
                code = Code(f"{code.at(ATOM)}.flatten({at}, {at + len(some) - 1})")
        return code.text

    def bias(self, found: Linear) -> str:
        """The bias, its rows side by side."""
        assert found.bias is not None
        name = found.bias.name
        if name in self.rows:
            return self.variables[name].code
        code = permuted(Code(self.variables[name].code, letters(found.bias)), found.rows)
        return f"{code.at(ATOM)}.flatten()" if len(found.rows) > 1 else code.text

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
        options = self.options(found, position[0], heads, groups)
        if options is None:
            return None
        q = self.side_by_side(query, (*batch, *heads, *groups, *position, found.feature), len(heads + groups))
        k = self.side_by_side(key_, (*batch, *heads, found.over, found.feature), len(heads))
        v = self.side_by_side(value, (*batch, *heads, found.over, *put), len(heads))
        code = Code(f"fn.scaled_dot_product_attention({', '.join([q, k, v, *options])})")
        if len(heads + groups) > 1:
            sizes = ", ".join(self.size(letter) for letter in heads + groups)
            code = Code(f"{code.text}.unflatten(1, ({sizes}))")
        return replace(code, dims=(*batch, *heads, *groups, *position, *put))

    def side_by_side(self, code: Code, dims: Dims, heads: int) -> str:
        """Heads, whatever their letters, as one axis after the batch."""
        code = permuted(code, dims)
        return code.text if heads < 2 else f"{code.at(ATOM)}.flatten(1, {heads})"

    def options(self, found: Attention, position: str, heads: Dims, groups: Dims) -> list[str] | None:
        """Mask, dropout, scale, grouped heads; None where the mask does not line up."""
        options = []
        if isinstance(found.mask, Tensor) and found.mask.name in self.causal:
            options.append("is_causal=True")
        elif found.mask is not None:
            mask = self.cast(self.lower(found.mask), "tensor")
            together = (*heads, *groups)
            if not set(mask.dims) <= {position, found.over, *together} or (
                set(mask.dims) & set(together) and len(together) > 1
            ):
                return None
            options.append(f"attn_mask={aligned(mask, (*together, position, found.over))}")
        if found.dropout is not None:
            options.append(f"dropout_p={self.lower(found.dropout).at(PRODUCT)} if self.training else 0.0")
        scale = self.scale(found)
        return options + ([f"scale={scale}"] if scale else []) + (["enable_gqa=True"] if groups else [])

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


# ----------------------------------------------------------------------------------------------------------- a class


@dataclass(frozen=True, slots=True)
class Lying:
    """A parameter: the weights in it, each as it is read, with the letters of its rows; the letters of the columns."""

    name: str
    parts: tuple[tuple[Weight, Dims, Dims], ...]
    columns: Dims


class FastClass(Class):
    """A specialised layer whose parameters lie as they are computed with."""

    def __init__(self, file: File, layer: Layer, layers: Mapping[str, Layer]) -> None:
        super().__init__(file, layer, layers)
        self.declared = {w.name: w for w in layer.weights if w.kind == "trained" and (w.default is None or w.optional)}
        self.merged_maps = list(self.groups())
        self.lying = list(self.layout())
        self.lowering: FastLowering = self.lower_with(FastLowering)
        self.lowering.rows = {weight.name: rows for lying in self.lying for weight, _, rows in lying.parts}
        self.lowering.causal = frozenset(q.left.name for q in equations(layer.body) if self.is_causal(q))
        self.inlined: set[str] = set()
        if self.lying:
            file.helpers["Stored"] = None

    def is_causal(self, equation: Equation) -> bool:
        """Does an equation define the causal mask?"""
        some = letters(equation.left)
        return len(some) == 2 and is_causal_mask(equation.right, some[0], self.file.legend)

    def forward(self) -> list[str]:
        """Written twice: the first time tells which tensors exist only inside scaled_dot_product_attention."""
        plain, helpers = self.lowering, dict(self.file.helpers)
        fused: list[Attention] = []
        self.lowering = replace(plain, variables={}, needs={}, hoisted={}, fused=fused)
        super().forward()
        masks = [heads.mask.name for heads in fused if isinstance(heads.mask, Tensor)]
        self.inlined = {heads.weights for heads in fused if heads.weights}
        self.inlined |= {name for name in plain.causal if masks.count(name) == reads(name, self.layer) > 0}
        self.lowering, self.body = plain, []
        self.file.helpers.clear()
        self.file.helpers.update(helpers)
        return super().forward()

    # --------------------------------------------------------------------------------------------------- weights

    def single(self, weight: Tensor | None) -> bool:
        """Is a weight read once only, so that it may lie as that reading wants it?"""
        return weight is None or (weight.name in self.declared and reads(weight.name, self.layer) == 1)

    def groups(self) -> Iterator[list[tuple[Expression, Linear]]]:
        """Linear maps of the same input that may be computed as one product."""
        open_: dict[tuple[Expression, Dims, bool], list[tuple[Expression, Linear]]] = {}
        for statement in self.layer.body:
            if isinstance(statement, Equation) and recurrent(statement) is None:
                for node, found in linears(statement, self.layer):
                    if isinstance(found.x, Tensor) and self.single(found.weight) and self.single(found.bias):
                        open_.setdefault((found.x, found.columns, found.bias is None), []).append((node, found))
            changed = {q.left.name for q in equations((statement,))}
            for known in [k for k in open_ if isinstance(k[0], Tensor) and k[0].name in changed]:
                yield open_.pop(known)
        yield from open_.values()

    def layout(self) -> Iterator[Lying]:
        """The parameters: a group of maps is one, and so are its biases."""
        done: set[str] = set()
        for group in self.merged_maps:
            maps = [found for _, found in group]
            done |= {m.weight.name for m in maps} | {m.bias.name for m in maps if m.bias is not None}
            yield Lying(
                "".join(key(m.weight.name) for m in maps),
                tuple((self.declared[m.weight.name], letters(m.weight), m.rows) for m in maps),
                maps[0].columns,
            )
            if maps[0].bias is not None:
                biases = [(self.declared[m.bias.name], letters(m.bias), m.rows) for m in maps if m.bias is not None]
                yield Lying("".join(key(w.name) for w, _, _ in biases), tuple(biases), ())
        for _, found in (pair for q in equations(self.layer.body) for pair in linears(q, self.layer)):
            for weight, columns in ((found.weight, found.columns), (found.bias, ())):
                if weight is not None and weight.name not in done and self.single(weight):
                    done.add(weight.name)
                    if letters(weight) == found.rows + columns:  # it lies as it is written
                        continue
                    yield Lying(key(weight.name), ((self.declared[weight.name], letters(weight), found.rows),), columns)

    def parent(self) -> str:
        """`Stored`, where parameters lie otherwise than written."""
        return "Stored" if self.lying else "nn.Module"

    def weights(self) -> Iterator[str]:
        """Parameters as they lie, and the table that says what is in them."""
        lying = self.holding()
        for weight in self.stored():
            each = lying.get(weight.name)
            if each is None:
                yield self.weight(weight)
            elif each.parts[0][0] is weight:
                rows = " + ".join(self.size_of(rows) for _, _, rows in each.parts)
                shape = f"{rows}, {self.size_of(each.columns)}" if each.columns else rows
                yield f"self.{each.name} = nn.Parameter(torch.empty({shape}))"
        if self.lying:
            yield "self.layout = {"
            yield from (f"{INDENT}{self.entry(each)}," for each in self.lying)
            yield "}"

    def starts(self) -> Iterator[str]:
        """Weights in one parameter start alike: they are read by maps of the same input."""
        lying, found = self.holding(), roles(self.file.spec, self.layer)
        for weight in self.stored():
            each = lying.get(weight.name)
            if each is None or each.parts[0][0] is weight:
                yield self.start(f"self.{each.name if each else key(weight.name)}", found[weight.name], weight)

    def holding(self) -> dict[str, Lying]:
        """The parameter that each weight lies in."""
        return {weight.name: each for each in self.lying for weight, _, _ in each.parts}

    def size_of(self, some: Dims) -> str:
        """The product of the sizes of some axes."""
        return " * ".join(self.constant(letter) for letter in some)

    def entry(self, lying: Lying) -> str:
        """`"QKV": [("Q", (D, H, A), (2, 1, 0)), …]`."""
        parts = []
        for weight, read, rows in lying.parts:
            order = ", ".join(str(read.index(letter)) for letter in rows + lying.columns)
            shape = ", ".join(self.constant(index.letter) for index in weight.indices)
            comma = "," if len(read) == 1 else ""
            parts.append(f'("{key(weight.name)}", ({shape}{comma}), ({order}{comma}))')
        return f'"{lying.name}": [{", ".join(parts)}]'

    # --------------------------------------------------------------------------------------------------- forward

    def equation(self, equation: Equation, indent: str) -> None:
        """The lines of an equation; what attention has taken in leaves its comment only."""
        if equation.left.name in self.inlined:
            self.comment(equation, indent)
            return
        for group in self.merged_maps:
            if len(group) > 1 and any(group[0][0] is x for x in subexpressions(equation.right)):
                self.together(group, indent)
        super().equation(equation, indent)

    def together(self, group: list[tuple[Expression, Linear]], indent: str) -> None:
        """Several linear maps of one input as one product, split afterwards."""
        maps = [found for _, found in group]
        x, rest = self.lowering.columns(maps[0])
        names = [f"{key(m.x.name)}{key(m.weight.name)}" for m in maps if isinstance(m.x, Tensor)]
        matrix = "self." + "".join(key(m.weight.name) for m in maps)
        bias = ", self." + "".join(key(m.bias.name) for m in maps if m.bias is not None) if maps[0].bias is not None else ""
        sizes = ", ".join(self.size_of(m.rows) for m in maps)
        self.body.append(f"{indent}{', '.join(names)} = fn.linear({x.text}, {matrix}{bias}).split(({sizes}), -1)")
        for (node, found), name in zip(group, names, strict=True):
            self.lowering.hoisted[id(node)] = self.lowering.opened(Code(name, rest), found)

    def assigned(self, equation: Equation, code: Code, indent: str) -> None:
        """As it lies, where every axis has a letter of its own; what is changed lies as before."""
        left, some = equation.left, letters(equation.left)
        plain = isinstance(left, Tensor) and len(some) == len(left.slots) and set(code.dims) == set(some)
        old = self.lowering.variables[left.name] if equation.relation == "<-" else None
        if old is not None and old.physical:
            axes = tuple(label[0] for label in old.labels)
            whole = code if plain else Code(self.merged(left, code), axes, level=LOOSE)
            code = permuted(whole, tuple((some if plain else axes)[axes.index(letter)] for letter in old.physical))
            self.body.append(f"{indent}{self.known(equation)} = {code.text}")
        elif old is not None or not plain or code.dims == some:
            super().assigned(equation, code, indent)
        else:
            name = self.define(left, code.kind)
            self.lowering.variables[left.name] = replace(self.lowering.variables[left.name], physical=code.dims)
            self.body.append(f"{indent}{name} = {code.text}")
