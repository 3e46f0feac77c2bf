"""What code needs of the file that it stands in: sizes, dtypes, names, and what must stand at the head of a forward."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from einformer.interpreters.torch.code import (
    ATOM,
    POWER,
    PRODUCT,
    SUM,
    Code,
    Dims,
    Kind,
    align,
    cast,
    combine_kinds,
    number_axis,
    order_dims,
    permute,
)
from einformer.interpreters.torch.letters import spell_singly
from einformer.language.calls import axis_of, slot_letters
from einformer.language.sizes import Legend
from einformer.language.tree import Apply, Layer, Loop, Name, Tensor
from einformer.language.walk import equations, subexpressions
from einformer.language.weights import key
from einformer.program.orders import estimate_size, order_pairs

INDENT = "    "


@dataclass(frozen=True, slots=True)
class Guard:
    """What holds in a branch of a `where`: its condition as code, true there or not."""

    code: Code
    holds: bool


@dataclass(slots=True)
class Context:
    """What is known where the code of one specialised layer is written, and what must stand at its head."""

    legend: Legend
    layer: Layer
    layers: Mapping[str, Layer]
    spell: Callable[[str], str]  # an index, with its primes, as a letter of Python
    time: str
    needs: dict[str, None] = field(default_factory=dict)  # index numbers, sizes, `dtype`, `number`, in order of first use
    helpers: dict[str, None] = field(default_factory=dict)  # functions that the file must define
    guards: tuple[Guard, ...] = ()  # the conditions of the branches of `where` that are written
    tokens: frozenset[str] = frozenset()  # inputs of whole numbers that were checked to lie inside what they select from
    names: dict[tuple[str, str], str] = field(default_factory=dict)  # of scalars, layers and blocks in the file
    settings: str = ""  # where sizes and scalars are read from, `config.`; in a forward its head gives them names
    config: str = "self.config"  # what that head reads them from
    own: frozenset[str] = frozenset()  # sizes that a layer is given itself, for it serves several
    passed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # what a layer is made of: the config, and sizes
    named: bool = False  # has what stands in a turn of a loop a path with its number?

    def reserve_name(self, kind: str, name: str, wanted: str) -> str:
        """The name in the file of a scalar, a layer or a block."""
        return self.names.setdefault((kind, name), wanted)

    def read_scalar(self, name: str) -> str:
        """A scalar, or a list of them, of the config."""
        if not self.settings:
            self.needs[f"config {name}"] = None
        return self.settings + name

    def size(self, letter: str) -> str:
        """How many numbers an index runs through, as Python says it."""
        return self.read_constant(letter)

    def read_constant(self, letter: str) -> str:
        """A size by its name, in the config or of the head, or a number."""
        axis = self.legend.axis(letter)
        assert axis is not None
        if not isinstance(axis.size, Name):
            return str(self.legend.length(letter))
        if not self.settings:
            self.needs[f"size {axis_of(letter)}"] = None
        return self.spell_size(axis.size.name, self.settings)

    def spell_size(self, name: str, config: str) -> str:
        """What a size is in the config, `self.config.D`, or `self.D` where it was given to the layer itself."""
        return config.replace("config.", "") * (name in self.own) + config * (name not in self.own) + name

    def count_turns(self, loop: Loop) -> int:
        """How often a loop turns."""
        return int(self.legend.number(loop.count))

    def add(self, codes: list[Code], wanted: Dims | None = None, signs: Sequence[str] = ()) -> Code:
        """`a + b - c`, lined up by index; what is subtracted is held together."""
        dims, kind = order_dims([c.dims for c in codes], wanted), combine_kinds(codes)
        text = align(self.cast(codes[0], kind), dims, SUM)
        for k, code in enumerate(codes[1:], 1):
            text += f" {signs[k] if signs else '+'} {align(self.cast(code, kind), dims, PRODUCT)}"
        return Code(text, dims, kind, SUM)

    def divide(self, top: Code, bottom: Code, wanted: Dims | None) -> Code:
        """`top / bottom`."""
        bottom = self.shield(bottom)
        kind: Kind = "tensor" if "tensor" in (top.kind, bottom.kind) else "number"
        dims = order_dims([top.dims, bottom.dims], wanted)
        text = f"{align(self.cast(top, kind), dims, PRODUCT)} / {align(self.cast(bottom, kind), dims, POWER)}"
        return Code(text, dims, kind, PRODUCT)

    def shield(self, code: Code) -> Code:
        """What a function that is not finite everywhere is of: 1 where the branch around it is not taken (R8).

        Else the gradient would be NaN there, zero times one that is not finite.
        """
        if code.kind != "tensor" or all(guard.code.plain for guard in self.guards):
            return code
        return replace(code, text=f"torch.where({', '.join(list_conditions(self, code))}, {code.text}, 1)", level=ATOM)

    def cast(self, code: Code, kind: Kind) -> Code:
        """`cast`, noting what dtype the head must provide."""
        new = cast(code, kind)
        if new is not code:
            self.needs["dtype" if kind == "tensor" else "number"] = None
        return new

    def fill(self, code: Code, dims: Dims, kind: Kind) -> Code:
        """A value with exactly these axes, as a branch has: what follows does not know which was taken."""
        if not code.plain and set(code.dims) == set(dims):
            return permute(code, dims)
        if not code.plain:
            return replace(code, text=shape(self, code, dims), dims=dims, level=ATOM)
        if not dims and kind != "tensor":
            return code
        dtype = {"tensor": "dtype", "number": "number"}.get(kind)
        self.needs |= dict.fromkeys(["device", *([dtype] if dtype else [])])
        sizes = "".join(f"{self.size(dim)}, " for dim in dims).rstrip(" ")
        options = f"dtype={dtype}, device=device" if dtype else "device=device"
        return Code(f"torch.full(({sizes}), {code.text}, {options})", dims, kind)

    def sum_over(self, code: Code, letters: set[str]) -> Code:
        """The sum over some of the axes."""
        code = code if set(code.dims) - letters else self.cast(code, "tensor")
        axes = [str(number_axis(k, len(code.dims))) for k, dim in enumerate(code.dims) if dim in letters]
        rest = tuple(dim for dim in code.dims if dim not in letters)
        return Code(f"{code.at(ATOM)}.sum({axes[0] if len(axes) == 1 else '(' + ', '.join(axes) + ')'})", rest, code.kind)

    def contract(self, codes: list[Code], letters: set[str], wanted: Dims | None) -> Code:
        """Two factors at a time, in the order of `orders.pairs`."""
        order = order_pairs([frozenset(code.dims) for code in codes], frozenset(letters), self.estimate_size)
        left = dict(enumerate(codes))
        for number, places in enumerate(order[:-1], len(codes)):
            two = [left.pop(place) for place in places]
            left[number] = self.contract_pair(two, letters - {dim for code in left.values() for dim in code.dims}, None)
        return self.contract_pair([left[place] for place in order[-1]], letters, wanted)

    def estimate_size(self, letter: str) -> int:
        """The size of an axis as it decides in which order factors are multiplied; decoding computes one position."""
        return estimate_size(self.legend, letter)

    def contract_pair(self, codes: list[Code], letters: set[str], wanted: Dims | None) -> Code:
        """`torch.einsum` of two factors, over these letters."""
        dims = tuple(dim for dim in order_dims([c.dims for c in codes], wanted) if dim not in letters)
        kind = combine_kinds(codes) if dims else "tensor"
        codes = [self.cast(code, kind) for code in codes]
        letter = spell_singly({dim: self.spell(dim) for code in codes for dim in code.dims})
        *inputs, output = ("".join(letter[dim] for dim in some) for some in (*(code.dims for code in codes), dims))
        return Code(f'torch.einsum("{",".join(inputs)}->{output}", {", ".join(code.text for code in codes)})', dims, kind)


def name_block(path: Dims, layer: Layer) -> str:
    """What holds the weights of a turn of loops: `block`; where loops stand in each other `block_l`, `block_lm`."""
    nested = any(isinstance(inner, Loop) for loop in layer.body if isinstance(loop, Loop) for inner in loop.body)
    return "self" if not path else f"block_{''.join(path)}" if nested else "block"


def name_function(name: str) -> str:
    """A layer without weights is a function."""
    return name[0].lower() + name[1:]


def has_dropout(layer: Layer, layers: Mapping[str, Layer]) -> bool:
    """Does a function have to know whether it is trained: does it drop numbers, or call one that does?"""
    calls = {e.name for equation in equations(layer.body) for e in subexpressions(equation.right) if isinstance(e, Apply)}
    return "Dr" in calls or any(
        has_dropout(layers[name], layers) for name in calls if name in layers and not layers[name].weights
    )


def list_conditions(context: Context, number: Code) -> Iterator[str]:
    """Where the numbers of a slot are read at all: where the conditions around them hold for some of the other indices."""
    around = [guard for guard in context.guards if not guard.code.plain]
    codes = [guard.code if guard.holds else Code(f"~{guard.code.at(ATOM)}", guard.code.dims) for guard in around]
    dims = order_dims([number.dims, *(code.dims for code in codes)], number.dims)
    if codes:
        together = Code(" & ".join(align(code, dims, POWER) for code in codes), dims, level=PRODUCT)
        for _ in range(len(dims) - len(number.dims)):
            together = Code(f"{together.at(ATOM)}.any(-1)", together.dims[:-1])
        yield together.text


def zero_early(code: Code, condition: Code | None) -> Code:
    """Before the start of time everything is zero (R4)."""
    if condition is None:
        return code
    if condition.plain:  # the number of a step
        return replace(code, text=f"({code.text} if {condition.text} else torch.zeros_like({code.text}))", level=ATOM)
    return replace(code, text=f"torch.where({align(condition, code.dims)}, {code.text}, 0)", level=ATOM)


def shape(context: Context, code: Code, letters: Dims) -> str:
    """A value with exactly these axes, repeated along those it does not depend on."""
    if code.plain:
        return context.fill(code, letters, code.kind if letters else "tensor").text
    if set(code.dims) == set(letters):
        return permute(code, letters).text
    sizes = ", ".join(context.size(letter) for letter in letters)
    return f"{align(code, letters, ATOM)}.expand({sizes})"


def name_tensor(context: Context, tensor: Tensor | Name) -> str:
    """`q_bsea`, a prime as the letter that stands for it."""
    return f"{key(tensor.name)}_{''.join(map(context.spell, slot_letters(tensor)))}"


def name_scalar(name: str, letters: Sequence[str], spelling: Callable[[str], str]) -> str:
    """`θ_h`: a scalar with indices as a variable."""
    return f"{key(name)}_{''.join(map(spelling, letters))}"
