"""Which PyTorch expression computes an expression of the notation? One rule for each node, nothing fused.

This is the plan `notation`: one `torch.einsum` or primitive for each equation, in the order of the text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

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
    ordered,
    permuted,
    product,
)
from einformer.notation.calls import axis_of, slot_letters
from einformer.notation.primitives import CONSTANTS
from einformer.notation.scope import factors_of
from einformer.notation.sizes import Legend
from einformer.notation.tree import (
    Apply,
    Expression,
    Group,
    Index,
    Layer,
    Name,
    Number,
    Power,
    Product,
    Quotient,
    Sum,
    Tensor,
)
from einformer.notation.walk import subexpressions
from einformer.notation.weights import key

Label = tuple[str, ...]  # the letters on one axis of a variable: one, or those of a group


@dataclass(frozen=True, slots=True)
class Variable:
    """A tensor that is defined: what it is called in Python, and the letters on each of its axes."""

    code: str
    labels: tuple[Label, ...]
    kind: Kind = "tensor"
    physical: Dims = ()  # the letters in the order in which they lie, where that is another

    @property
    def lying(self) -> Code:
        """The variable with its letters as they lie; only where each axis has one letter."""
        return Code(self.code, self.physical or tuple(letter for label in self.labels for letter in label), self.kind)


@dataclass(slots=True)
class Lowering:
    """The forward method of one specialised layer: its variables, and what must stand at its head."""

    legend: Legend
    layer: Layer
    layers: Mapping[str, Layer]
    spelling: Callable[[str], str]  # an index, with its primes, as a letter of Python
    time: str
    still: dict[str, str] = field(default_factory=dict)  # the index of a loop or a recurrence: its number in this turn
    steps: tuple[str, str, int] = ("", "", 0)  # the tensor of the recurrence, its list of steps, its axis in time
    variables: dict[str, Variable] = field(default_factory=dict)
    needs: dict[str, None] = field(default_factory=dict)  # index numbers, sizes, `dtype`, `number`, in order of first use
    helpers: dict[str, None] = field(default_factory=dict)  # functions that the file must define

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
                return self.read(e)
            case Group():
                return self.group(e)
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

    def name(self, e: Name) -> Code:
        """A size, a scalar, a constant, or a tensor without axes."""
        if e.name in self.variables and not self.variables[e.name].labels:  # `K` is a size where `K_dea` is a weight (R1)
            return Code(self.variables[e.name].code)
        if e.name in CONSTANTS:
            return Code("math.pi", (), "number")
        axis = self.legend.sized(e.name)
        if axis is not None:
            return Code(self.size(axis.letter), (), "integer")
        return Code(e.name, (), "number")

    def size(self, letter: str) -> str:
        """How many numbers an index runs through, as Python says it."""
        axis = self.legend.axis(letter)
        assert axis is not None
        if isinstance(axis.size, Name):
            self.needs[f"size {axis_of(letter)}"] = None
            return axis.size.name
        return str(self.legend.length(letter))

    def index(self, e: Index) -> Code:
        """The numbers of an index, as a tensor; of a loop or a recurrence the number of this turn."""
        if e.letter in self.still:
            return Code(self.still[e.letter], (), "integer")
        self.needs[f"index {e.letter}"] = None
        return Code(self.spelling(e.letter), (e.letter,), "integer")

    def group(self, e: Group) -> Code:
        """Row-major: `(ae)` is the number a H + e."""
        total: Code | None = None
        for member in e.members:
            number = self.lower(member)
            letter = next(x.letter for x in subexpressions(member) if isinstance(x, Index))
            total = self.added([product([total, Code(self.size(letter), (), "integer")]), number]) if total else number
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
        kind: Kind = "tensor" if "tensor" in (top.kind, bottom.kind) else "number"
        dims = ordered([top.dims, bottom.dims], wanted)
        text = f"{aligned(self.cast(top, kind), dims, PRODUCT)} / {aligned(self.cast(bottom, kind), dims, POWER)}"
        return Code(text, dims, kind, PRODUCT)

    def power(self, e: Power, wanted: Dims | None) -> Code:
        """`base ** exponent`."""
        base, exponent = self.lower(e.base, wanted), self.lower(e.exponent, wanted)
        kind: Kind = "tensor" if "tensor" in (base.kind, exponent.kind) else "number"
        dims = ordered([base.dims, exponent.dims], wanted)
        text = f"{aligned(self.cast(base, kind), dims, ATOM)} ** {aligned(self.cast(exponent, kind), dims, ATOM)}"
        return Code(text, dims, kind, POWER)

    def cast(self, code: Code, kind: Kind) -> Code:
        """`cast`, noting what dtype the head must provide."""
        new = cast(code, kind)
        if new is not code:
            self.needs["dtype" if kind == "tensor" else "number"] = None
        return new

    # ------------------------------------------------------------------------------------------------------ slots

    def variable(self, name: str) -> Variable:
        """What a name stands for: a tensor of the body, a weight, or a scalar with indices."""
        if name in self.variables:
            return self.variables[name]
        scalar = self.legend.scalars[name]
        if [i.letter for i in scalar.indices if i.letter in self.still]:
            return Variable(f"{name}[{self.still[scalar.indices[0].letter]}]", (), "number")
        self.needs[f"scalar {name}"] = None
        return Variable(
            scalar_name(name, [i.letter for i in scalar.indices], self.spelling),
            tuple((i.letter,) for i in scalar.indices),
            "number",
        )

    def read(self, e: Tensor) -> Code:
        """`T_{…}`: axes renamed, split or merged where the slots are letters and groups; else read at computed numbers."""
        if e.name == self.steps[0]:
            return self.step(e)
        variable = self.variable(e.name)
        if not variable.labels:
            return Code(variable.code, (), variable.kind)
        if variable.physical:
            if all(isinstance(slot, Index) and slot.letter not in self.still for slot in e.slots):
                new = dict(zip((label[0] for label in variable.labels), (_letters(slot)[0] for slot in e.slots), strict=True))
                return Code(variable.code, tuple(new[letter] for letter in variable.physical), variable.kind)
            written = permuted(variable.lying, tuple(label[0] for label in variable.labels))
            variable = Variable(written.text, variable.labels, variable.kind)
        moved = [k for k, slot in enumerate(e.slots) if not _is_plain(slot)]
        if not moved:
            return self.renamed(e, variable)
        letters = {letter for k, slot in enumerate(e.slots) if k not in moved for letter in _letters(slot)}
        numbers = [self.lower(e.slots[k]) for k in moved]
        if len(moved) == 1 and not letters & set(numbers[0].dims):
            return self.taken(e, variable, moved[0], numbers[0])
        return self.gathered(e, variable)

    def renamed(self, e: Tensor, variable: Variable) -> Code:
        """A tensor whose slots are letters and groups of letters."""
        code, dims = variable.code, Dims()
        for slot, label in zip(e.slots, variable.labels, strict=True):
            letters = _letters(slot)
            if letters[0] in self.still:
                code = f"{code}[{':, ' * len(dims)}{self.still[letters[0]]}]"
                continue
            if len(letters) > 1:
                sizes = ", ".join(self.size(letter) for letter in letters)
                code = f"{code}.unflatten({len(dims)}, ({sizes}))"
            elif len(label) == 1 and self.bounded(letters[0], label[0]):
                code = f"{code}[{':, ' * len(dims)}:{self.size(letters[0])}]"
            dims += letters
        return Code(code, dims, variable.kind)

    def step(self, e: Tensor) -> Code:
        """What a recurrence reads of itself: an earlier step, `S_{b(s - 1)e}` the last."""
        _, steps, axis = self.steps
        back = next(x.value for x in subexpressions(e.slots[axis]) if isinstance(x, Number))
        rest = replace(e, slots=e.slots[:axis] + e.slots[axis + 1 :])
        labels = tuple(_letters(slot) for slot in rest.slots)
        return self.renamed(rest, Variable(f"{steps}[{back}]", labels))

    def bounded(self, letter: str, label: str) -> bool:
        """Is a longer axis read at its first numbers, as `P_kd` in `P_sd`?"""
        return (
            axis_of(letter) != axis_of(label)
            and self.legend.axis(letter) is not None
            and self.legend.axes[axis_of(letter)].bound is not None
        )

    def taken(self, e: Tensor, variable: Variable, axis: int, number: Code) -> Code:
        """One axis read at computed numbers, whose letters take its place."""
        before = e.slots[:axis]
        rest = self.renamed(
            replace(e, slots=before + e.slots[axis + 1 :]), Variable("", variable.labels[:axis] + variable.labels[axis + 1 :])
        )
        split = rest.text  # groups among the other slots are opened after the read
        dims = tuple(letter for slot in before for letter in _letters(slot))
        after = tuple(letter for slot in e.slots[axis + 1 :] for letter in _letters(slot))
        if split:
            return self.gathered(e, variable)
        if self.embeds(e, variable, axis):
            return Code(f"fn.embedding({number.text}, {variable.code})", number.dims + after)
        text, outside = self.inside(number, e.slots[axis], variable.labels[axis])
        code = Code(f"{variable.code}[{':, ' * axis}{text}]", (*dims, *number.dims, *after), variable.kind)
        return self.zeroed(code, outside)

    def embeds(self, e: Tensor, variable: Variable, axis: int) -> bool:
        """Is this the reading of a table at tokens?"""
        return isinstance(e.slots[axis], Tensor) and axis == 0 and len(variable.labels) == 2

    def gathered(self, e: Tensor, variable: Variable) -> Code:
        """Every axis read at its numbers, lined up against all the letters together."""
        numbers = [self.lower(slot) for slot in e.slots]
        dims = ordered([number.dims for number in numbers], tuple(dict.fromkeys(d for n in numbers for d in n.dims)))
        texts, outside = [], None
        for slot, number, label in zip(e.slots, numbers, variable.labels, strict=True):
            text, condition = self.inside(number, slot, label)
            texts.append(aligned(Code(text, number.dims, "integer"), dims))
            outside = condition or outside
        return self.zeroed(Code(f"{variable.code}[{', '.join(texts)}]", dims, variable.kind), outside)

    def inside(self, number: Code, slot: Expression, label: Label) -> tuple[str, Code | None]:
        """The number as an index of Python; with it, where arithmetic may leave the axis, the condition that it has not."""
        text = number.text if number.kind in ("integer", "tensor") else f"{number.at(ATOM)}.long()"
        if not isinstance(slot, Sum):
            return text, None
        size = self.size(label[0]) if len(label) == 1 else str(math.prod(self.legend.length(letter) for letter in label))
        if axis_of(label[0]) == self.time:
            condition = Code(f"{number.at(SUM)} >= 0", number.dims, "condition", LOOSE)
            return f"({text}).clamp(min=0)", condition
        return f"({text}).clamp(0, {size} - 1)", None

    def zeroed(self, code: Code, condition: Code | None) -> Code:
        """Before the start of time everything is zero (R4)."""
        if condition is None:
            return code
        return replace(code, text=f"torch.where({aligned(condition, code.dims)}, {code.text}, 0)", level=ATOM)

    # -------------------------------------------------------------------------------------------------- operators

    def apply(self, e: Apply, wanted: Dims | None) -> Code:
        """A primitive or a call."""
        if (layer := self.callee(e)) is not None:
            inside = {letter for tensor in (*layer.formals, layer.output) for letter in slot_letters(tensor)}
            return self.running(inside, lambda: self.call(e, layer))
        return self.running({index.letter for index in e.indices}, lambda: self.primitive(e, wanted))

    def running(self, letters: set[str], make: Callable[[], Code]) -> Code:
        """The code in which these letters run, also one that stands still here: what is left of it is read where it stands."""
        around = self.still
        self.still = {letter: at for letter, at in around.items() if letter not in letters}
        code = make()
        self.still = around
        for letter in (letter for letter in around if letter in code.dims):
            axis = code.dims.index(letter)
            dims = code.dims[:axis] + code.dims[axis + 1 :]
            code = Code(f"{code.at(ATOM)}[{':, ' * axis}{around[letter]}]", dims, code.kind)
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
        if e.indices:
            return self.operator(e, arguments[-1], arguments[:-1])
        if e.name in INFIX:
            return self.infix(e.name, arguments, wanted)
        if e.name in ("min", "max"):
            return self.extreme(e.name, arguments, wanted)
        if e.name == "Dr":
            probability = arguments[1].text if len(arguments) > 1 else "p"
            return replace(arguments[0], text=f"fn.dropout({arguments[0].text}, {probability}, self.training)", level=ATOM)
        return self.function(e.name, arguments[0])

    def function(self, name: str, argument: Code) -> Code:
        """A function of one argument."""
        if argument.plain:
            return Code(f"{PYTHON[name]}({argument.text})", (), "number")
        if argument.kind == "integer":
            argument = self.cast(argument, "number")
        kind = "condition" if name == "not" else argument.kind
        return Code(TORCH[name].format(argument.text), argument.dims, kind)

    def infix(self, name: str, arguments: list[Code], wanted: Dims | None) -> Code:
        """Comparisons, `and`, `or`, `mod`."""
        if name == "mod":
            arguments = [self.cast(argument, combined(arguments)) for argument in arguments]
        dims, plain = ordered([a.dims for a in arguments], wanted), all(a.plain for a in arguments)
        symbol = name if plain and name in ("and", "or") else INFIX[name]
        level = POWER if name in ("mod", "and", "or") else SUM
        text = f" {symbol} ".join(aligned(argument, dims, level) for argument in arguments)
        if name == "mod":
            return Code(text, dims, combined(arguments), PRODUCT)
        return Code(text, dims, "tensor" if any(a.kind == "tensor" for a in arguments) else "condition", LOOSE)

    def extreme(self, name: str, arguments: list[Code], wanted: Dims | None) -> Code:
        """Of two: plain numbers clamp."""
        dims, kind = ordered([a.dims for a in arguments], wanted), combined(arguments)
        plain = [a for a in arguments if a.plain]
        if len(plain) == 2:
            return Code(f"{name}({plain[0].text}, {plain[1].text})", (), kind)
        if plain:
            other = next(a for a in arguments if not a.plain)
            return replace(
                other, text=f"{other.at(ATOM)}.clamp({'min' if name == 'max' else 'max'}={plain[0].text})", level=ATOM
            )
        left, right = (aligned(self.cast(a, kind), dims) for a in arguments)
        return Code(f"torch.{name}imum({left}, {right})", dims, kind)

    def where(self, e: Apply, wanted: Dims | None) -> Code:
        """`torch.where`; on a condition of Python, its own `if`, which takes one branch (R8)."""
        condition, then, otherwise = (self.lower(argument, wanted) for argument in e.arguments)
        dims = ordered([condition.dims, then.dims, otherwise.dims], wanted)
        if condition.plain:
            then, otherwise = (permuted(code, tuple(d for d in dims if d in code.dims)) for code in (then, otherwise))
            text = f"{then.at(SUM)} if {condition.text} else {otherwise.at(SUM)}"
            return Code(text, dims, combined([then, otherwise]), LOOSE)
        if then.plain and otherwise.plain:
            return self.chosen(condition, then, otherwise, dims)
        kind: Kind = combined([then, otherwise])
        a, b = (aligned(self.cast(code, kind), dims) for code in (then, otherwise))
        return Code(f"torch.where({aligned(condition, dims)}, {a}, {b})", dims, kind)

    def chosen(self, condition: Code, then: Code, otherwise: Code, dims: Dims) -> Code:
        """One of two numbers of Python; those that float32 may not hold need their dtype."""
        kind, chosen = combined([then, otherwise]), aligned(condition, dims)
        if all(code.kind == "integer" or code.text in ("math.inf", "-math.inf") for code in (then, otherwise)):
            return Code(f"torch.where({chosen}, {then.text}, {otherwise.text})", dims, kind)
        self.needs["number"] = None
        text = f"torch.full_like({chosen}, {otherwise.text}, dtype=number).masked_fill({chosen}, {then.text})"
        return Code(text, dims, kind)

    def operator(self, e: Apply, argument: Code, counts: list[Code]) -> Code:
        """A primitive over indices."""
        letters = [index.letter for index in e.indices]
        axes = [argument.dims.index(letter) for letter in letters]
        if argument.kind == "integer":
            argument = self.cast(argument, "number")
        dims = argument.dims if e.name in KEEPING else tuple(d for d in argument.dims if d not in letters)
        where = str(axes[0]) if len(axes) == 1 else f"({', '.join(map(str, axes))})"
        if e.name == "top":
            self.helpers["top"] = None
            return Code(f"top({argument.text}, {counts[0].text}, {', '.join(map(str, axes))})", dims, "tensor")
        if e.name == "Sm" and len(axes) > 1:
            self.helpers["softmax"] = None
            return Code(f"softmax({argument.text}, {where})", dims)
        if e.name == "cumsum":
            code = argument.text
            for axis in axes:
                code = f"torch.cumsum({code}, {axis})"
            return Code(code, dims, argument.kind)
        return Code(OPERATORS[e.name].format(argument.text, where), dims, argument.kind)

    def contraction(self, e: Apply, wanted: Dims | None) -> Code:
        """sum_I of a product is an einsum; numbers of Python, and a denominator without I, stay outside."""
        letters = {index.letter for index in e.indices}
        factors = factors_of(e.arguments[0]) if isinstance(e.arguments[0], Product | Quotient) else (e.arguments[0],)
        divided = isinstance(e.arguments[0], Quotient)
        codes = [self.lower(factor) for factor in factors]
        bottom = codes.pop() if divided else None
        if bottom is not None and letters & set(bottom.dims):
            codes.append(Code(f"{bottom.at(ATOM)}.reciprocal()", bottom.dims, bottom.kind))
            bottom = None
        tensors, plain = [c for c in codes if c.dims], [c for c in codes if not c.dims]
        summed = self.einsum(tensors, letters, wanted) if len(tensors) > 1 else self.total(tensors[0], letters)
        summed = product([*plain, summed])
        return summed if bottom is None else self.quotient(summed, bottom, wanted)

    def total(self, code: Code, letters: set[str]) -> Code:
        """The sum over some of the axes."""
        axes = [str(k) for k, dim in enumerate(code.dims) if dim in letters]
        rest = tuple(dim for dim in code.dims if dim not in letters)
        return Code(f"{code.at(ATOM)}.sum({axes[0] if len(axes) == 1 else '(' + ', '.join(axes) + ')'})", rest, code.kind)

    def einsum(self, codes: list[Code], letters: set[str], wanted: Dims | None) -> Code:
        """`torch.einsum`, over these letters."""
        dims = tuple(dim for dim in ordered([c.dims for c in codes], wanted) if dim not in letters)
        kind = combined(codes)
        codes = [self.cast(code, kind) for code in codes]
        inputs = ",".join("".join(map(self.spelling, code.dims)) for code in codes)
        output = "".join(map(self.spelling, dims))
        return Code(f'torch.einsum("{inputs}->{output}", {", ".join(code.text for code in codes)})', dims, kind)

    def call(self, e: Apply, layer: Layer) -> Code:
        """A specialised layer: each actual has exactly the axes of its formal, in its order."""
        instance = any(w.name == e.name for w in self.layer.weights)
        arguments = []
        for formal, argument in zip(layer.formals, e.arguments, strict=True):
            letters = slot_letters(formal)
            arguments.append(self.shaped(self.lower(argument, letters), letters))
        owner = block_name(tuple(index.letter for index in e.indices))
        name = f"{owner}.{key(e.name)}" if instance else function_name(layer.name)
        return Code(f"{name}({', '.join(arguments)})", slot_letters(layer.output))

    def shaped(self, code: Code, letters: Dims) -> str:
        """A value with exactly these axes, repeated along those it does not depend on."""
        code = self.cast(code, "tensor") if code.dims and code.kind != "tensor" else code
        if set(code.dims) == set(letters):
            return permuted(code, letters).text
        sizes = ", ".join(self.size(letter) for letter in letters)
        return f"{aligned(code, letters, ATOM)}.expand({sizes})"

    def shaped_number(self, code: Code, letters: Dims) -> str:
        """A scalar with exactly these axes."""
        return permuted(code, letters).text if set(code.dims) == set(letters) else self.shaped(code, letters)


def block_name(path: Dims) -> str:
    """What holds the weights of a turn of loops: `block`, of an inner one `block_lm`."""
    return "self" if not path else "block" if len(path) == 1 else f"block_{''.join(path)}"


def function_name(name: str) -> str:
    """A layer without weights is a function."""
    return name[0].lower() + name[1:]


def scalar_name(name: str, letters: list[str], spelling: Callable[[str], str]) -> str:
    """`θ_h`: a scalar with indices as a variable."""
    return f"{name}_{''.join(map(spelling, letters))}"


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
        case _:
            return e


def _is_plain(slot: Expression) -> bool:
    return isinstance(slot, Index) or (isinstance(slot, Group) and all(isinstance(m, Index) for m in slot.members))


def _letters(slot: Expression) -> Dims:
    return slot_letters(Tensor("", (slot,))) if _is_plain(slot) else ()


KEEPING = ("Sm", "cumsum", "top")
INFIX = {"<": "<", "<=": "<=", ">": ">", ">=": ">=", "==": "==", "!=": "!=", "and": "&", "or": "|", "mod": "%"}
PYTHON = {
    "exp": "math.exp", "log": "math.log", "log2": "math.log2", "sin": "math.sin", "cos": "math.cos", "tanh": "math.tanh",
    "sqrt": "math.sqrt", "abs": "abs", "floor": "math.floor", "ceil": "math.ceil", "not": "not ",
}  # fmt: skip
TORCH = {
    "exp": "torch.exp({})", "log": "torch.log({})", "log2": "torch.log2({})", "sin": "torch.sin({})", "cos": "torch.cos({})",
    "tanh": "torch.tanh({})", "sqrt": "torch.sqrt({})", "abs": "torch.abs({})", "floor": "torch.floor({})",
    "ceil": "torch.ceil({})", "relu": "fn.relu({})", "gelu": "fn.gelu({})", "gelutanh": 'fn.gelu({}, approximate="tanh")',
    "silu": "fn.silu({})", "sigmoid": "torch.sigmoid({})", "softplus": "fn.softplus({})", "not": "~({})",
}  # fmt: skip
OPERATORS = {
    "Sm": "torch.softmax({}, {})", "mean": "torch.mean({}, {})",
    "var": "torch.var({}, {}, correction=0)", "max": "torch.amax({}, {})", "min": "torch.amin({}, {})",
    "lse": "torch.logsumexp({}, {})",
}  # fmt: skip
