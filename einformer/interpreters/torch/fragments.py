"""A piece of PyTorch code, what it needs of the file that it stands in, and what stands at the head of a forward."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from einformer.errors import fail
from einformer.interpreters.torch.writing import spell_singly
from einformer.language.calls import axis_of, slot_letters
from einformer.language.sizes import Legend
from einformer.language.slots import Whole
from einformer.language.tree import Apply, Expression, Layer, Loop, Name, Number, Product, Quotient, Sum, Tensor
from einformer.language.walk import equations, find_all
from einformer.language.weights import key, list_stored
from einformer.program.operations import Kind
from einformer.program.orders import estimate_size, order_pairs
from einformer.program.sharding import Sharding

Dims = tuple[str, ...]
_COMMENT = re.compile(r"(?:^|\s)# .*$", re.MULTILINE)
LOOSE, SUM, PRODUCT, POWER, ATOM = range(5)  # how tightly an operator binds


@dataclass(frozen=True, slots=True)
class Fragment:
    """An expression of Python.

    `kind` says what it depends on: a *tensor* depends on inputs or weights; an *integer*, a *number* or a *condition* on
    index numbers, tokens and scalars alone. Without dims the latter three are Python's own, not tensors. `level` says how
    tightly its text binds.
    """

    text: str
    dims: Dims = ()
    kind: Kind = "tensor"
    level: int = ATOM

    @property
    def plain(self) -> bool:
        return not self.dims and self.kind != "tensor"

    def become(self, text: str) -> Fragment:
        return replace(self, text=text, level=ATOM)

    # The operator around it binds at `level`.
    def at(self, level: int) -> str:
        return self.text if self.level >= level else f"({self.text})"


# Words cannot end the docstring in which they stand (R13).
def escape_prose(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


# Names in comments do not count.
def uses(code: str, name: str) -> bool:
    return re.search(rf"(?<![\w.\"]){name}\b", _drop_comments(code)) is not None


# `A * (N + E)`.
def multiply_sizes(sizes: Iterable[str]) -> str:
    several = [*sizes]
    return " * ".join(f"({size})" if " + " in size and len(several) > 1 else size for size in several)


# The axes in which names end, and those of `torch.einsum`.
def find_letters(code: str, letters: frozenset[str]) -> set[str]:
    ends = re.findall(r"(?<=_)[^\W_]+\b|\b[^\W\d_]\d*\b|(?<=[\",>])[a-zA-Z]+(?=[-\",])", _drop_comments(code))
    return {letter for end in ends if letters.issuperset(those := re.findall(r"\D\d*", end)) for letter in those}


@functools.lru_cache(1)
def _drop_comments(code: str) -> str:
    return _COMMENT.sub("", code)


# The last is counted from the end, whatever stands before it.
def number_axis(axis: int, rank: int) -> int:
    return -1 if axis == rank - 1 else axis


# The order is as wanted, else as in the code with most dims, the others' own in front.
def order_dims(dims: Sequence[Dims], wanted: Dims | None = None) -> Dims:
    together = dict.fromkeys(dim for some in dims for dim in some)
    if wanted is not None:
        return tuple(dim for dim in wanted if dim in together) + tuple(dim for dim in together if dim not in wanted)
    longest = max(dims, key=len, default=())
    return tuple(dim for dim in together if dim not in longest) + longest


# `dims` are exactly its own.
def permute(code: Fragment, dims: Dims) -> Fragment:
    assert set(code.dims) == set(dims), (code, dims)
    if code.dims == dims:
        return code
    order = [code.dims.index(dim) for dim in dims]
    moved = [place for place, axis in enumerate(order) if place != axis]
    if len(order) == 2:
        how = "T"
    elif len(moved) == 2:
        how = f"transpose({moved[0]}, {moved[1]})"
    else:
        how = f"permute({', '.join(map(str, order))})"
    return replace(code, text=f"{code.at(ATOM)}.{how}", dims=dims, level=ATOM)


# An axis that the operand lacks has length 1.
def align(code: Fragment, dims: Dims, level: int = LOOSE) -> str:
    if not code.dims:
        return code.at(level)
    code = permute(code, tuple(dim for dim in dims if dim in code.dims))
    rest = dims[dims.index(code.dims[0]) :]
    if rest == code.dims:
        return code.at(level)
    signs = ", ".join(":" if dim in code.dims else "None" for dim in rest)
    return f"{code.at(ATOM)}[{re.sub('^:(, :)+(?=(, None)+$)', '...', signs)}]"


def combine_kinds(codes: Sequence[Fragment]) -> Kind:
    kinds = [code.kind for code in codes]
    return "tensor" if "tensor" in kinds else "number" if "number" in kinds else "integer"


def multiply(codes: Sequence[Fragment], wanted: Dims | None = None) -> Fragment:
    dims, kind = order_dims([code.dims for code in codes], wanted), combine_kinds(codes)
    texts = [align(code, dims, POWER if k else PRODUCT) for k, code in enumerate(codes)]
    return Fragment(" * ".join(texts), dims, kind, PRODUCT if len(codes) > 1 else codes[0].level)


INDENT = "    "


@dataclass(frozen=True, slots=True)
class Guard:
    """The condition of a branch of a `where`: its condition as code, true there or not."""

    code: Fragment
    holds: bool


@dataclass(slots=True)
class Context:
    """The facts where the code of one specialised layer is written, and the lines that must stand at its head."""

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
    sharding: Sharding | None = None  # where the file is that of a rank
    windows: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # how far before and after those of the rank
    holders: Mapping[str, str] = field(default_factory=dict)  # of weights the parameters in which they lie beside others
    named: bool = False  # has what stands in a turn of a loop a path with its number?

    def reserve_name(self, kind: str, name: str, wanted: str) -> str:
        return self.names.setdefault((kind, name), wanted)

    # `q_bsea`, a prime as the letter that stands for it.
    def name_variable(self, name: str, letters: Iterable[str]) -> str:
        return f"{key(name)}_{''.join(map(self.spell, letters))}"

    def name_tensor(self, tensor: Tensor | Name) -> str:
        return self.name_variable(tensor.name, slot_letters(tensor))

    def read_scalar(self, name: str) -> str:
        if not self.settings:
            self.needs[f"config {name}"] = None
        return self.settings + name

    def size(self, letter: str) -> str:
        if letter in self.windows:
            self.helpers |= {"MESH": None, "near": None}
            return f"len(near({self.write_window(letter)}))"
        return self.read_constant(letter)

    # Returns the axis of the mesh over which an index is split, or "".
    def find_mesh(self, letter: str) -> str:
        return "" if self.sharding is None else self.sharding.axis(letter)

    # `S, W - 1, 0, "cp"`: how many numbers a rank has, how far before and after them it reads, over which ranks.
    def write_window(self, letter: str) -> str:
        assert self.sharding is not None
        window = dict(self.sharding.windows)[letter]
        return ", ".join([self.read_constant(window.letter), *self.windows[letter], f'"{window.mesh}"'])

    # The name of a size, in the config or of the head, or a number.
    def read_constant(self, letter: str) -> str:
        axis = self.legend.axis(letter)
        assert axis is not None
        if not isinstance(axis.size, Name):
            return self.write_formula(axis.size) or str(self.legend.length(letter))
        if not self.settings:
            self.needs[f"size {axis_of(letter)}"] = None
        size = self.spell_size(axis.size.name, self.settings)
        return size if self.sharding is None else self.sharding.sized(letter, size)

    # `H // 2`: divided only at the end, where nothing is left over; "" for a size that is not made of others.
    def write_formula(self, size: Expression, divides: bool = True) -> str:
        match size:
            case Name() if axis := self.legend.axis_of_size(size.name):
                return self.read_constant(axis.letter)
            case Name() if isinstance(self.legend.values.get(size.name), int):
                return self.read_scalar(size.name)
            case Number(value=int() as number) if number > 0:
                return str(number)
            case Product():
                parts, sign = [self.write_formula(factor, False) for factor in size.factors], " * "
            case Sum():
                parts, sign = [self.write_formula(term, False) for term in size.terms], " + "
            case Quotient() if divides:
                parts, sign = [self.write_formula(part, False) for part in (size.numerator, size.denominator)], " // "
            case _:
                return ""
        text = sign.join(f"({part})" if sign != " + " and " " in part else part for part in parts)
        return text if all(parts) and self.sharding is None else ""

    # `self.config.D`, or `self.D` where it was given to the layer itself.
    def spell_size(self, name: str, config: str) -> str:
        return config.replace("config.", "") * (name in self.own) + config * (name not in self.own) + name

    # Ranks draw apart where a tensor is split, and alike where it is whole.
    def draw_apart(self, code: Fragment) -> Fragment:
        axes = () if self.sharding is None else sorted(self.sharding.over(code.dims) - self.sharding.rows)
        if not axes:
            return code
        self.helpers |= {"MESH": None, "draw_apart": None}
        listed = "".join(f', "{axis}"' for axis in axes)
        return code.become(f"draw_apart(lambda: {code.text}, self.training{listed})")

    def count_turns(self, loop: Loop) -> int:
        return int(self.legend.number(loop.count))

    # `a + b - c`, lined up by index; a subtrahend is held together.
    def add(self, codes: list[Fragment], wanted: Dims | None = None, signs: Sequence[str] = ()) -> Fragment:
        dims, kind = order_dims([c.dims for c in codes], wanted), combine_kinds(codes)
        text = align(self.cast(codes[0], kind), dims, SUM)
        for k, code in enumerate(codes[1:], 1):
            text += f" {signs[k] if signs else '+'} {align(self.cast(code, kind), dims, PRODUCT)}"
        return Fragment(text, dims, kind, SUM)

    # `top / bottom`.
    def divide(self, top: Fragment, bottom: Fragment, wanted: Dims | None) -> Fragment:
        bottom = self.shield(bottom)
        kind: Kind = "tensor" if "tensor" in (top.kind, bottom.kind) else "number"
        dims = order_dims([top.dims, bottom.dims], wanted)
        text = f"{align(self.cast(top, kind), dims, PRODUCT)} / {align(self.cast(bottom, kind), dims, POWER)}"
        return Fragment(text, dims, kind, PRODUCT)

    # What a function that is not finite everywhere is of: 1 where the branch around it is not taken (R8). Else the gradient
    # would be NaN there, zero times one that is not finite.
    def shield(self, code: Fragment) -> Fragment:
        if code.kind != "tensor" or all(guard.code.plain for guard in self.guards):
            return code
        return code.become(f"torch.where({', '.join(list_conditions(self, code))}, {code.text}, 1)")

    @contextlib.contextmanager
    def guarded(self, *guards: Guard) -> Iterator[None]:
        around, self.guards = self.guards, guards
        yield
        self.guards = around

    # The conditions of the branches around an operator are about the letters outside.
    def inside(self, letters: Collection[str]) -> contextlib.AbstractContextManager[None]:
        return self.guarded(*(replace(guard, code=_set_apart(guard.code, letters)) for guard in self.guards))

    # Index numbers and tokens are integers, or at least float32 (R12); beside a tensor they take its dtype.
    def cast(self, code: Fragment, kind: Kind) -> Fragment:
        if not code.dims or code.kind == kind or kind in ("integer", "condition"):
            return code
        dtype = "dtype" if kind == "tensor" else "number"
        self.needs[dtype] = None  # the head must provide it
        return replace(code.become(f"{code.at(ATOM)}.to({dtype})"), kind=kind)

    # Both branches have exactly these axes, since what follows does not know which was taken.
    def fill(self, code: Fragment, dims: Dims, kind: Kind) -> Fragment:
        if not code.plain and set(code.dims) == set(dims):
            return permute(code, dims)
        if not code.plain:
            sizes = ", ".join(map(self.size, dims))
            return replace(code, text=f"{align(code, dims, ATOM)}.expand({sizes})", dims=dims, level=ATOM)
        if not dims and kind != "tensor":
            return code
        dtype = {"tensor": "dtype", "number": "number"}.get(kind)
        self.needs |= dict.fromkeys(["device", *([dtype] if dtype else [])])
        sizes = "".join(f"{self.size(dim)}, " for dim in dims).rstrip(" ")
        options = f"dtype={dtype}, device=device" if dtype else "device=device"
        return Fragment(f"torch.full(({sizes}), {code.text}, {options})", dims, kind)

    def sum_over(self, code: Fragment, letters: set[str]) -> Fragment:
        code = code if set(code.dims) - letters else self.cast(code, "tensor")
        axes = [str(number_axis(k, len(code.dims))) for k, dim in enumerate(code.dims) if dim in letters]
        rest = tuple(dim for dim in code.dims if dim not in letters)
        return Fragment(f"{code.at(ATOM)}.sum({axes[0] if len(axes) == 1 else '(' + ', '.join(axes) + ')'})", rest, code.kind)

    # Two factors are contracted at a time, in the order of `orders.order_pairs`.
    def contract(self, codes: list[Fragment], letters: set[str], wanted: Dims | None) -> Fragment:
        order = order_pairs([frozenset(code.dims) for code in codes], frozenset(letters), self.estimate_size)
        left = dict(enumerate(codes))
        for number, places in enumerate(order[:-1], len(codes)):
            two = [left.pop(place) for place in places]
            left[number] = self.contract_pair(two, letters - {dim for code in left.values() for dim in code.dims}, None)
        return self.contract_pair([left[place] for place in order[-1]], letters, wanted)

    # Estimated sizes decide the order of products. Decoding computes one position.
    def estimate_size(self, letter: str) -> int:
        return estimate_size(self.legend, letter)

    def contract_pair(self, codes: list[Fragment], letters: set[str], wanted: Dims | None) -> Fragment:
        dims = tuple(dim for dim in order_dims([c.dims for c in codes], wanted) if dim not in letters)
        kind = combine_kinds(codes) if dims else "tensor"
        codes = [self.cast(code, kind) for code in codes]
        letter = spell_singly({dim: self.spell(dim) for code in codes for dim in code.dims})
        *inputs, output = ("".join(letter[dim] for dim in some) for some in (*(code.dims for code in codes), dims))
        return Fragment(f'torch.einsum("{",".join(inputs)}->{output}", {", ".join(code.text for code in codes)})', dims, kind)


# `block`; in nested loops `block_l`, `block_lm`.
def name_block(path: Dims, layer: Layer) -> str:
    nested = any(isinstance(inner, Loop) for loop in layer.body if isinstance(loop, Loop) for inner in loop.body)
    return "self" if not path else f"block_{''.join(path)}" if nested else "block"


# A layer without weights is a function.
def name_function(name: str) -> str:
    return name[0].lower() + name[1:]


# A function that drops numbers, or calls one that does, must know whether it is trained.
def has_dropout(layer: Layer, layers: Mapping[str, Layer]) -> bool:
    calls = {e.name for equation in equations(layer.body) for e in find_all(Apply, equation.right)}
    return "Dr" in calls or any(
        has_dropout(layers[name], layers) for name in calls if name in layers and not layers[name].weights
    )


# The numbers of a slot are read where the conditions around it hold for some of the other indices.
def list_conditions(context: Context, number: Fragment) -> Iterator[str]:
    around = [guard for guard in context.guards if not guard.code.plain]
    codes = [guard.code if guard.holds else Fragment(f"~{guard.code.at(ATOM)}", guard.code.dims) for guard in around]
    dims = order_dims([number.dims, *(code.dims for code in codes)], number.dims)
    if codes:
        together = Fragment(" & ".join(align(code, dims, POWER) for code in codes), dims, level=PRODUCT)
        for _ in range(len(dims) - len(number.dims)):
            together = Fragment(f"{together.at(ATOM)}.any(-1)", together.dims[:-1])
        yield together.text


def _set_apart(code: Fragment, letters: Collection[str]) -> Fragment:
    return replace(code, dims=tuple(f"outer {dim}" if dim in letters else dim for dim in code.dims))


# Before the start of time everything is zero (R4).
def zero_early(code: Fragment, condition: Fragment | None) -> Fragment:
    if condition is None:
        return code
    if condition.plain:  # the number of a step
        return code.become(f"({code.text} if {condition.text} else torch.zeros_like({code.text}))")
    return code.become(f"torch.where({align(condition, code.dims)}, {code.text}, 0)")


NAMES = 5  # that are read off the config in one line


# Heads hold all that the body needs, and all that they need themselves; sizes are read last.
def write_heads(context: Context, body: Sequence[str], scalar: Callable[[str], str]) -> list[str]:
    lines: dict[str, str] = {}
    while todo := [need for need in context.needs if need not in lines]:
        lines |= {need: _write_need(context, need, scalar) for need in todo}
    rest = [lines[need] for need in sorted(lines, key=lambda need: _rank_need(context, need)) if lines[need]]
    return [*read_settings(context, [need for need in lines if not lines[need]], context.config, [*rest, *body]), *rest]


# `A, H = config.A, config.H`: sizes in the order of the legend, then scalars, a few on a line.
def read_settings(context: Context, needs: Iterable[str], config: str, body: Sequence[str]) -> Iterator[str]:
    split = [need.split(" ") for need in needs]
    sizes = [context.read_constant(letter) for letter in context.legend.axes if ["size", letter] in split]
    names = [*dict.fromkeys(sizes), *(name for what, name in split if what == "config")]
    names = [name for name in names if uses("\n".join(body), name)]
    yield from assign_settings(context, [name for name in names if context.spell_size(name, f"{config}.") != name], config)


def assign_settings(context: Context, names: Sequence[str], config: str) -> Iterator[str]:
    for some in (names[k : k + NAMES] for k in range(0, len(names), NAMES)):
        yield f"{', '.join(some)} = {', '.join(context.spell_size(name, f'{config}.') for name in some)}"


def _rank_need(context: Context, need: str) -> tuple[int, int]:
    what, _, name = need.partition(" ")
    place = _measure_depth(context, name) if what == "scalar" else 0
    return ["config", "size", "device", "dtype", "number", "index", "scalar"].index(what), place


def _measure_depth(context: Context, name: str) -> int:
    value = context.legend.scalars[name].value
    if isinstance(value, tuple):
        return 0
    read = {x.name for x in find_all(Tensor, value)}
    return 1 + max((_measure_depth(context, other) for other in read), default=0)


def _write_need(context: Context, need: str, scalar: Callable[[str], str]) -> str:
    what, _, name = need.partition(" ")
    match what:
        case "config":
            return ""
        case "size":
            return _write_size(context, name)
        case "index":
            context.needs["device"] = None
            return f"{context.spell(name)} = torch.arange({context.size(name)}, device=device)"
        case "scalar":
            return scalar(name)
        case "device":
            return f"device = {context.name_tensor(context.layer.formals[0])}.device"
        case "dtype":
            return f"dtype = {_write_dtype(context)}"
        case "number":
            context.needs["dtype"] = None
            return "number = torch.promote_types(dtype, torch.float32)  # of positions and angles"
        case _:
            raise AssertionError(need)


def _write_size(context: Context, letter: str) -> str:
    shapes = ((formal, [axis_of(i) for i in slot_letters(formal)]) for formal in context.layer.formals)
    formal, letters = next(((formal, letters) for formal, letters in shapes if letter in letters), (None, []))
    if formal is None or (context.layer.weights and context.legend.is_bound(letter)):
        return ""
    axis = letters.index(letter) - (0 if context.layer.weights else len(letters))  # a function may be given more axes in front
    size = f"{context.name_tensor(formal)}.shape[{axis}]"
    if context.sharding is not None:
        size = context.sharding.sized(letter, size, slot_letters(formal)[letters.index(letter)])
    return f"{context.read_constant(letter)} = {size}"


# A model of whole numbers alone has torch's own dtype.
def _write_dtype(context: Context) -> str:
    own, *others = (_list_floating(layer, context) for layer in (context.layer, *context.layers.values()))
    if own:
        return f"{own[0]}.dtype"
    if not any(others):
        return "torch.get_default_dtype()"
    message = f"no input or weight of `{context.layer.name}` has the dtype of its numbers"
    raise fail("E702", message, context.layer.span, fix="a weight in the layer, or its equations where it is called")


def _list_floating(layer: Layer, context: Context) -> list[str]:
    whole = Whole(layer, context.layers, context.legend)
    inputs = [formal for formal in layer.formals if formal.name not in whole.selecting | whole.either]
    weights = [key(weight.name) for weight in list_stored(layer)]
    return [*map(context.name_tensor, inputs), *(f"self.{context.holders.get(weight, weight)}" for weight in weights)]
