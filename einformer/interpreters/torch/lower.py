"""Which PyTorch expression computes an expression of the notation? One rule for each node, nothing fused.

This is the plan `notation`: one `torch.einsum` or primitive for each equation, in the order of the text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, assert_never

from einformer.interpreters.torch.code import (
    ATOM,
    LOOSE,
    POWER,
    PRODUCT,
    SUM,
    Code,
    Dims,
    Kind,
    aligned,
    cast,
    combined,
    counted,
    ordered,
    permuted,
    product,
)
from einformer.interpreters.torch.letters import single
from einformer.interpreters.torch.primitives import chosen, extreme, function, infix, operator
from einformer.interpreters.torch.slots import Guard, Variable, place, read, shaped, taken_at
from einformer.language.calls import axis_of, slot_letters
from einformer.language.primitives import CONSTANTS, row_of
from einformer.language.scope import factors_of
from einformer.language.sizes import Legend
from einformer.language.slots import MOST, Numbers, Whole, parts
from einformer.language.tree import (
    Apply,
    Expression,
    Group,
    Index,
    Layer,
    Loop,
    Name,
    Number,
    Power,
    Product,
    Quotient,
    Sum,
    Tensor,
)
from einformer.language.walk import equations, subexpressions
from einformer.language.weights import key
from einformer.program.canonical import Reach
from einformer.program.orders import pairs, typical
from einformer.program.softmax import weighs


class Past(Protocol):
    """How a forward that continues reads and names positions; those with a prime are all that are seen."""

    def read(self, low: Lowering, e: Tensor) -> Code | None:
        """A tensor at another position than its own."""

    def size(self, low: Lowering, letter: str) -> str:
        """How many positions there are."""

    def index(self, low: Lowering, letter: str) -> Code:
        """Their numbers."""

    def running(self, low: Lowering, name: str, argument: Code) -> Code:
        """A running sum."""

    def causal(self, heads: int) -> Sequence[str]:
        """Which arguments make an attention causal."""

    def arguments(self, low: Lowering, e: Apply, layer: Layer) -> Sequence[str]:
        """What a call passes on."""


@dataclass(slots=True)
class Lowering:
    """The forward method of one specialised layer: its variables, and what must stand at its head."""

    legend: Legend
    layer: Layer
    layers: Mapping[str, Layer]
    spelling: Callable[[str], str]  # an index, with its primes, as a letter of Python
    time: str
    still: dict[str, str] = field(default_factory=dict)  # the index of a loop or a recurrence: its number in this turn
    steps: tuple[str, str, int] = ("", "", 0)  # the tensor of the recurrence, its index in time, and the axis of that
    variables: dict[str, Variable] = field(default_factory=dict)
    needs: dict[str, None] = field(default_factory=dict)  # index numbers, sizes, `dtype`, `number`, in order of first use
    helpers: dict[str, None] = field(default_factory=dict)  # functions that the file must define
    reach: Reach = field(default_factory=Reach)  # the definitions that reach the equation that is lowered
    past: Past | None = None  # what earlier calls kept, where a forward has them
    guards: tuple[Guard, ...] = ()  # the conditions of the branches of `where` that are lowered
    tokens: frozenset[str] = frozenset()  # inputs of whole numbers that were checked to lie inside what they select from
    known: Numbers | None = None
    names: dict[tuple[str, str], str] = field(default_factory=dict)  # of scalars, layers and blocks in the file
    settings: str = ""  # where sizes and scalars are read from, `config.`; in a forward its head gives them names
    config: str = "self.config"  # what that head reads them from
    own: frozenset[str] = frozenset()  # sizes that a layer is given itself, for it serves several
    passed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # what a layer is made of: the config, and sizes
    named: bool = False  # has what stands in a turn of a loop a path with its number?

    def called(self, kind: str, name: str, wanted: str) -> str:
        """The name in the file of a scalar, a layer or a block."""
        return self.names.setdefault((kind, name), wanted)

    # ------------------------------------------------------------------------------------------------ expressions

    def lower(self, e: Expression, wanted: Dims | None = None) -> Code:
        """The code of an expression; its axes in the order of `wanted` where that costs nothing."""
        match e:
            case Number():
                return Code(
                    _literal(e.value),
                    (),
                    "number" if isinstance(e.value, float) else "integer",
                    ATOM if e.value >= 0 else PRODUCT,
                )
            case Name():
                return self.name(e)
            case Index():
                return self.index(e)
            case Tensor():
                return (self.past and self.past.read(self, e)) or read(self, e, wanted)
            case Group():
                return self.group(e, wanted)
            case Sum():
                return self.sum(e, wanted)
            case Product():
                return self.product(e, wanted)
            case Quotient():
                return self.quotient(self.lower(e.numerator, wanted), self.lower(e.denominator, wanted), wanted)
            case Power():
                return self.power(e, wanted)
            case Apply():
                return self.apply(e, wanted)
            case _:
                assert_never(e)

    @property
    def numbers(self) -> Numbers:
        """What is known of the numbers of indices."""
        self.known = self.known or Numbers.of(self.layer, self.legend, frozenset([self.time]))
        return self.known

    def name(self, e: Name) -> Code:
        """A size, a scalar, a constant, or a tensor without axes."""
        if e.name in self.variables and not self.variables[e.name].labels:  # `K` is a size where `K_dea` is a weight (R1)
            return Code(self.variables[e.name].code, (), self.variables[e.name].kind)
        if e.name in CONSTANTS:
            return Code("math.pi", (), "number")
        axis = self.legend.sized(e.name)
        if axis is not None:
            return Code(self.size(axis.letter), (), "integer")
        return Code(self.setting(self.called("scalar", e.name, key(e.name))), (), "number")

    def setting(self, name: str) -> str:
        """A scalar, or a list of them, of the config."""
        if not self.settings:
            self.needs[f"config {name}"] = None
        return self.settings + name

    def size(self, letter: str) -> str:
        """How many numbers an index runs through, as Python says it."""
        return self.past.size(self, letter) if self.past and axis_of(letter) == self.time else self.constant(letter)

    def constant(self, letter: str) -> str:
        """A size by its name, in the config or of the head, or a number."""
        axis = self.legend.axis(letter)
        assert axis is not None
        if not isinstance(axis.size, Name):
            return str(self.legend.length(letter))
        if not self.settings:
            self.needs[f"size {axis_of(letter)}"] = None
        return self.held(axis.size.name, self.settings)

    def held(self, name: str, config: str) -> str:
        """What a size is in the config, `self.config.D`, or `self.D` where it was given to the layer itself."""
        return config.replace("config.", "") * (name in self.own) + config * (name not in self.own) + name

    def turns(self, loop: Loop) -> int:
        """How often a loop turns."""
        return int(self.legend.number(loop.count))

    def index(self, e: Index) -> Code:
        """The numbers of an index, as a tensor; of a loop or a recurrence the number of this turn."""
        if self.past and axis_of(e.letter) == self.time:
            return self.past.index(self, e.letter)
        if e.letter in self.still:
            return Code(self.still[e.letter], (), "integer")
        self.needs[f"index {e.letter}"] = None
        return Code(self.spelling(e.letter), (e.letter,), "integer")

    def along(self, e: Index) -> Code:
        """The places of an index on an axis of positions: its numbers, unless only some positions lie there."""
        if not self.past:
            return self.index(e)
        if e.letter in self.still:
            return Code(self.still[e.letter], (), "integer")
        self.needs["device"] = None
        return Code(f"torch.arange({self.past.size(self, e.letter)}, device=device)", (e.letter,), "integer")

    def group(self, e: Group, wanted: Dims | None) -> Code:
        """Row-major: `(ae)` is the number a H + e."""
        total: Code | None = None
        for member in e.members:
            number = self.lower(member)
            letter = next(x.letter for x in subexpressions(member) if isinstance(x, Index))
            total = self.added([product([total, Code(self.size(letter), (), "integer")]), number], wanted) if total else number
        assert total is not None
        return total

    def sum(self, e: Sum, wanted: Dims | None) -> Code:
        """Terms with their signs."""
        codes = [self.lower(term if k == 0 else _positive(term), wanted) for k, term in enumerate(e.terms)]
        return self.added(codes, wanted, ["-" if _is_negative(term) else "+" for term in e.terms])

    def added(self, codes: list[Code], wanted: Dims | None = None, signs: Sequence[str] = ()) -> Code:
        """`a + b - c`, lined up by index; what is subtracted is held together."""
        dims, kind = ordered([c.dims for c in codes], wanted), combined(codes)
        text = aligned(self.cast(codes[0], kind), dims, SUM)
        for k, code in enumerate(codes[1:], 1):
            text += f" {signs[k] if signs else '+'} {aligned(self.cast(code, kind), dims, PRODUCT)}"
        return Code(text, dims, kind, SUM)

    def product(self, e: Product, wanted: Dims | None) -> Code:
        """Factors, a leading -1 as a minus."""
        if isinstance(e.factors[0], Number) and e.factors[0].value == -1:
            rest = self.lower(replace(e, factors=e.factors[1:]) if len(e.factors) > 2 else e.factors[1], wanted)
            return replace(rest, text=f"-{rest.at(PRODUCT)}", level=PRODUCT)
        codes = [self.lower(factor, wanted) for factor in e.factors]
        return product([self.cast(code, combined(codes)) for code in codes], wanted)

    def quotient(self, top: Code, bottom: Code, wanted: Dims | None) -> Code:
        """`top / bottom`."""
        bottom = self.shielded(bottom)
        kind: Kind = "tensor" if "tensor" in (top.kind, bottom.kind) else "number"
        dims = ordered([top.dims, bottom.dims], wanted)
        text = f"{aligned(self.cast(top, kind), dims, PRODUCT)} / {aligned(self.cast(bottom, kind), dims, POWER)}"
        return Code(text, dims, kind, PRODUCT)

    def power(self, e: Power, wanted: Dims | None) -> Code:
        """`base ** exponent`."""
        base, exponent = self.lower(e.base, wanted), self.lower(e.exponent, wanted)
        base = base if isinstance(e.exponent, Number) and e.exponent.value in range(MOST) else self.shielded(base)
        kind: Kind = "tensor" if "tensor" in (base.kind, exponent.kind) else "number"
        dims = ordered([base.dims, exponent.dims], wanted)
        text = f"{aligned(self.cast(base, kind), dims, ATOM)} ** {aligned(self.cast(exponent, kind), dims, ATOM)}"
        return Code(text, dims, kind, POWER)

    def shielded(self, code: Code) -> Code:
        """What a function that is not finite everywhere is of: 1 where the branch around it is not taken (R8).

        Else the gradient would be NaN there, zero times one that is not finite.
        """
        if code.kind != "tensor" or all(guard.code.plain for guard in self.guards):
            return code
        return replace(code, text=f"torch.where({', '.join(taken_at(self, code))}, {code.text}, 1)", level=ATOM)

    def cast(self, code: Code, kind: Kind) -> Code:
        """`cast`, noting what dtype the head must provide."""
        new = cast(code, kind)
        if new is not code:
            self.needs["dtype" if kind == "tensor" else "number"] = None
        return new

    # -------------------------------------------------------------------------------------------------- operators

    def apply(self, e: Apply, wanted: Dims | None) -> Code:
        """A primitive or a call, in which its own letters run."""
        layer, around = self.callee(e), self.still
        if layer is not None:
            own = {letter for tensor in (*layer.formals, layer.output) for letter in slot_letters(tensor)}
        else:
            own = {index.letter for index in e.indices}
        self.still = {letter: at for letter, at in around.items() if letter not in own}
        code = self.call(e, layer) if layer is not None else self.primitive(e, wanted)
        self.still = around
        return self.stopped(code)

    def stopped(self, code: Code) -> Code:
        """The code with the letters that stand still here: what is left of them is read where they stand."""
        for letter in (letter for letter in self.still if letter in code.dims):
            axis = code.dims.index(letter)
            dims = code.dims[:axis] + code.dims[axis + 1 :]
            code = Code(f"{code.at(ATOM)}[{':, ' * axis}{self.still[letter]}]", dims, code.kind)
        return code

    def callee(self, e: Apply) -> Layer | None:
        """The layer that an application calls, if it calls one."""
        instance = next((w.layer for w in self.layer.weights if w.name == e.name), e.name)
        return self.layers.get(instance)

    def primitive(self, e: Apply, wanted: Dims | None) -> Code:
        """An operator or a function."""
        if e.name == "sum":
            return self.contraction(e, wanted)
        if e.name == "where":
            return self.where(e, wanted)
        arguments = [self.lower(argument, wanted) for argument in e.arguments]
        row = row_of(e.name, bool(e.indices))
        if self.past and row.looks_back and [index.letter for index in e.indices] == [self.time]:
            return self.past.running(self, e.name, arguments[0])
        if e.indices:
            empty = e.name == "Sm" and not weighs(e, self.layer, self.reach, self.legend, self.time)
            letters = [index.letter for index in e.indices]
            return operator(self, e.name, letters, arguments[-1], arguments[:-1], empty)
        if row.infix:
            return infix(self, row, arguments, wanted)
        if e.name in ("min", "max"):
            return extreme(self, row, arguments, wanted)
        if e.name == "Dr":
            probability = arguments[1].text if len(arguments) > 1 else self.name(Name("p")).text
            dropped = self.filled(self.cast(arguments[0], "tensor"), arguments[0].dims, "tensor")
            return replace(dropped, text=row.torch.format(dropped.text, probability), level=ATOM)
        return function(self, row, self.shielded(arguments[0]) if row.steep else arguments[0])

    def where(self, e: Apply, wanted: Dims | None) -> Code:
        """`torch.where`; on a condition of Python, its own `if`, which takes one branch (R8)."""
        condition = self.lower(e.arguments[0], wanted)
        then, otherwise = self.branch(e, 1, condition, wanted), self.branch(e, 2, condition, wanted)
        dims = ordered([condition.dims, then.dims, otherwise.dims], wanted)
        if condition.plain:
            kind: Kind = combined([then, otherwise])
            then, otherwise = (self.filled(code, dims, kind) for code in (then, otherwise))
            return Code(f"{then.at(SUM)} if {condition.text} else {otherwise.at(SUM)}", dims, kind, LOOSE)
        if then.plain and otherwise.plain:
            return chosen(self, condition, then, otherwise, dims)
        kind = combined([then, otherwise])
        a, b = (aligned(self.cast(code, kind), dims) for code in (then, otherwise))
        return Code(f"torch.where({aligned(condition, dims)}, {a}, {b})", dims, kind)

    def branch(self, e: Apply, k: int, condition: Code, wanted: Dims | None) -> Code:
        """What a `where` is where its condition holds, or where it does not."""
        around = self.guards
        self.guards += (Guard(condition, k == 1, parts(e.arguments[0], k == 1)),)
        code = self.lower(e.arguments[k], wanted)
        self.guards = around
        return code

    def filled(self, code: Code, dims: Dims, kind: Kind) -> Code:
        """A value with exactly these axes, as a branch has: what follows does not know which was taken."""
        if not code.plain and set(code.dims) == set(dims):
            return permuted(code, dims)
        if not code.plain:
            return replace(code, text=shaped(self, code, dims), dims=dims, level=ATOM)
        if not dims and kind != "tensor":
            return code
        dtype = {"tensor": "dtype", "number": "number"}.get(kind)
        self.needs |= dict.fromkeys(["device", *([dtype] if dtype else [])])
        sizes = "".join(f"{self.size(dim)}, " for dim in dims).rstrip(" ")
        options = f"dtype={dtype}, device=device" if dtype else "device=device"
        return Code(f"torch.full(({sizes}), {code.text}, {options})", dims, kind)

    def contraction(self, e: Apply, wanted: Dims | None) -> Code:
        """sum_I of a product is an einsum; numbers of Python, and a denominator without I, stay outside."""
        letters = {index.letter for index in e.indices}
        factors = factors_of(e.arguments[0]) if isinstance(e.arguments[0], Product | Quotient) else (e.arguments[0],)
        divided = isinstance(e.arguments[0], Quotient)
        codes = [self.lower(factor) for factor in factors]
        bottom = codes.pop() if divided else None
        if bottom is not None and letters & set(bottom.dims):
            codes.append(Code(f"{self.shielded(bottom).at(ATOM)}.reciprocal()", bottom.dims, bottom.kind))
            bottom = None
        tensors, plain = [c for c in codes if c.dims], [c for c in codes if not c.dims]
        summed = self.einsum(tensors, letters, wanted) if len(tensors) > 1 else self.total(tensors[0], letters)
        summed = product([*plain, summed])
        return summed if bottom is None else self.quotient(summed, bottom, wanted)

    def total(self, code: Code, letters: set[str]) -> Code:
        """The sum over some of the axes."""
        code = code if set(code.dims) - letters else self.cast(code, "tensor")
        axes = [str(counted(k, len(code.dims))) for k, dim in enumerate(code.dims) if dim in letters]
        rest = tuple(dim for dim in code.dims if dim not in letters)
        return Code(f"{code.at(ATOM)}.sum({axes[0] if len(axes) == 1 else '(' + ', '.join(axes) + ')'})", rest, code.kind)

    def einsum(self, codes: list[Code], letters: set[str], wanted: Dims | None) -> Code:
        """Two factors at a time, in the order of `orders.pairs`."""
        order = pairs([frozenset(code.dims) for code in codes], frozenset(letters), self.typical)
        left = dict(enumerate(codes))
        for number, taken in enumerate(order[:-1], len(codes)):
            two = [left.pop(place) for place in taken]
            left[number] = self.pair(two, letters - {dim for code in left.values() for dim in code.dims}, None)
        return self.pair([left[place] for place in order[-1]], letters, wanted)

    def typical(self, letter: str) -> int:
        """The size of an axis as it decides in which order factors are multiplied; decoding computes one position."""
        return typical(self.legend, letter, self.time if self.past else "")

    def pair(self, codes: list[Code], letters: set[str], wanted: Dims | None) -> Code:
        """`torch.einsum` of two factors, over these letters."""
        dims = tuple(dim for dim in ordered([c.dims for c in codes], wanted) if dim not in letters)
        kind = combined(codes) if dims else "tensor"
        codes = [self.cast(code, kind) for code in codes]
        letter = single({dim: self.spelling(dim) for code in codes for dim in code.dims})
        *inputs, output = ("".join(letter[dim] for dim in some) for some in (*(code.dims for code in codes), dims))
        return Code(f'torch.einsum("{",".join(inputs)}->{output}", {", ".join(code.text for code in codes)})', dims, kind)

    def call(self, e: Apply, layer: Layer) -> Code:
        """A specialised layer: each actual has exactly the axes of its formal, in its order."""
        instance = layer.weights and any(w.name == e.name for w in self.layer.weights)
        whole, around = Whole(layer, self.layers, self.legend).selecting, self.guards
        arguments, self.guards = list[str](), ()  # what a layer is given is computed whole, whichever branch it stands in
        for formal, argument in zip(layer.formals, e.arguments, strict=True):
            letters = slot_letters(formal)
            code = self.lower(argument, letters)
            code = Code(place(code), code.dims, "integer") if formal.name in whole else self.cast(code, "tensor")
            arguments.append(shaped(self, code, letters))
        self.guards = around
        owner = block_name(tuple(index.letter for index in e.indices), self.layer)
        name = f"{owner}.{key(e.name)}" if instance else self.called("layer", layer.name, function_name(layer.name))
        arguments += [self.config] if not instance and self.passed.get(layer.name) else []
        arguments += self.past.arguments(self, e, layer) if self.past else ()
        arguments += ["self.training"] if not instance and drops(layer, self.layers) else ()
        return Code(f"{name}({', '.join(arguments)})", slot_letters(layer.output))


def block_name(path: Dims, layer: Layer) -> str:
    """What holds the weights of a turn of loops: `block`; where loops stand in each other `block_l`, `block_lm`."""
    nested = any(isinstance(inner, Loop) for loop in layer.body if isinstance(loop, Loop) for inner in loop.body)
    return "self" if not path else f"block_{''.join(path)}" if nested else "block"


def function_name(name: str) -> str:
    """A layer without weights is a function."""
    return name[0].lower() + name[1:]


def drops(layer: Layer, layers: Mapping[str, Layer]) -> bool:
    """Does a function have to know whether it is trained: does it drop numbers, or call one that does?"""
    calls = {e.name for each in equations(layer.body) for e in subexpressions(each.right) if isinstance(e, Apply)}
    return "Dr" in calls or any(drops(layers[name], layers) for name in calls if name in layers and not layers[name].weights)


def _literal(value: float) -> str:
    if math.isinf(value):
        return "math.inf" if value > 0 else "-math.inf"
    return repr(value)


def _is_negative(e: Expression) -> bool:
    match e:
        case Number():
            return e.value < 0
        case Product():
            return _is_negative(e.factors[0])
        case Quotient():
            return _is_negative(e.numerator)
        case Apply(name="sum"):
            return _is_negative(e.arguments[0])
        case _:
            return False


def _positive(e: Expression) -> Expression:
    """The term after the minus that `_is_negative` saw."""
    if not _is_negative(e):
        return e
    match e:
        case Number():
            return replace(e, value=-e.value)
        case Product(factors=(Number(value=-1), single)):
            return single
        case Product(factors=(Number(value=-1), *rest)):
            return replace(e, factors=tuple(rest))
        case Product(factors=(first, *rest)):
            return replace(e, factors=(_positive(first), *rest))
        case Quotient():
            return replace(e, numerator=_positive(e.numerator))
        case Apply():
            return replace(e, arguments=(_positive(e.arguments[0]),))
        case _:
            return e
