"""Emits attention by FlexAttention: masks and scores are functions of the numbers of one query and one key.

SDPA takes a causal mask, which it never computes; any other mask it reads as a tensor with a number for each pair of positions,
and it cannot compute anything of scores. Here a condition on positions becomes a `mask_mod`, by which blocks of pairs are left
out, and what is added to scores or computed of them a `score_mod`. FlexAttention drops no weights, so attention with dropout
stays SDPA. A sink is one more key, by the logarithm of the sum that FlexAttention returns beside the result.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from einformer.interpreters.torch.fast import KernelEmitter
from einformer.interpreters.torch.fragments import ATOM, INDENT, LOOSE, POWER, PRODUCT, Dims, Fragment, align, multiply_sizes
from einformer.program import operations as op
from einformer.program.kernels import Attention, Score, Taken
from einformer.program.operations import Line, Value
from einformer.program.rewrite import walk
from einformer.program.terms import MINUS

HELPERS = {
    "beside_sink": '''def beside_sink(attended, sink: Tensor) -> Tensor:
    """Attention beside one more key, whose score is `sink`, and which has no value."""
    y, aux = attended
    return y * torch.sigmoid(aux.lse - sink)[..., None].to(y.dtype)
''',
}
PAIR = "batch, head, query, key"  # the numbers that FlexAttention gives to its functions


# The conditions under which a mask is not -inf, whether they must hold, and the terms that it adds.
def split_mask(mask: Value) -> tuple[list[tuple[Value, bool]], list[Value]]:
    match mask.operation:
        case op.Constant(0):
            return [], []
        case op.Spread(argument):
            return split_mask(argument)
        case op.Map("+", parts):
            split = [split_mask(part) for part in parts]
            return [pair for pairs, _ in split for pair in pairs], [term for _, terms in split for term in terms]
        case op.Map("where", (condition, then, otherwise)) if MINUS in (then.operation, otherwise.operation):
            hidden = then.operation == MINUS
            pairs, terms = split_mask(otherwise if hidden else then)
            return [(condition, not hidden), *pairs], terms
        case _:
            return [], [mask]


def _is_safe(slot: op.Slot) -> bool:
    return len(slot.label) == 1 and slot.proved and not slot.timed


@dataclass(slots=True)
class FlexEmitter(KernelEmitter):
    """The forward of one function, whose attention is FlexAttention where SDPA has no fast way."""

    places: Mapping[str, str] = field(default_factory=dict)  # the number of each index, inside a function of one pair
    options: dict[Attention, list[str]] = field(default_factory=dict)  # of the kernels whose functions are written
    captured: dict[Value, tuple[str, Fragment]] = field(default_factory=dict)  # tensors that functions read: names and codes
    exact: set[Value] = field(default_factory=set)  # whole numbers that are not computed with as such

    def __post_init__(self) -> None:
        KernelEmitter.__post_init__(self)
        self.turns |= {letter: letter for letter in self.shell.file.turned.get(self.function.name, ())}

    def line(self, line: Line) -> Iterator[str]:
        kernels = (value.operation for value in walk(line.value, closed=self.stored) if value not in self.stored)
        for kernel in [e for e in kernels if isinstance(e, Attention)] if line.value.operation != Taken() else ():
            if kernel.dropout is not None and kernel.mask is not None:
                yield "# not FlexAttention, which has no dropout"
            if self.can_flex(kernel):
                yield from self.emit_products(line.value)
                yield from self.define(kernel)
        yield from KernelEmitter.line(self, line)

    def can_flex(self, kernel: Attention) -> bool:
        return kernel.dropout is None and not (kernel.mask is kernel.sink is kernel.cap is None)

    # ---------------------------------------------------------------------------------------------------- the kernel

    # The functions of a kernel, before its line.
    def define(self, kernel: Attention) -> Iterator[str]:
        number = f"_{len(self.options) + 1}" * bool(self.options)
        pairs, terms = split_mask(kernel.mask) if kernel.mask is not None else ([], [])
        with self.inside_pair(kernel):
            conditions = [self.code_condition(*pair, LOOSE if len(pairs) == 1 else POWER) for pair in pairs]
            scores = Fragment("score") if kernel.cap is None else self.code(kernel.cap)
            score = self.context.add([scores, *map(self.code, terms)])
        yield from ["# computed for all pairs at once, which one pair alone cannot do"] * bool(self.captured)
        yield from (f"{name} = {code.text}" for name, code in self.captured.values())
        self.captured.clear()
        self.options[kernel] = options = list[str]()
        if score.text != "score":
            yield from (f"def score_mod{number}(score, {PAIR}):", f"{INDENT}return {score.text}")
            options.append(f"score_mod=score_mod{number}")
        if conditions:
            yield from (f"def mask_mod{number}({PAIR}):", f"{INDENT}return {' & '.join(conditions)}")
            yield f"block_mask{number} = {self.write_blocks(kernel, [value for value, _ in pairs], number)}"
            options.append(f"block_mask=block_mask{number}")

    def code_condition(self, condition: Value, holds: bool, level: int) -> str:
        code = self.code(condition)
        text = code.at(level if holds else ATOM)
        return f"torch.as_tensor({'' if holds else 'not '}{text})" if code.plain else text if holds else f"~{text}"

    # Blocks are alike in all rows and heads on which no condition depends.
    def write_blocks(self, kernel: Attention, conditions: list[Value], number: str) -> str:
        self.context.needs["device"] = None
        axes = {letter for condition in conditions for letter in condition.axes}
        sizes = [
            multiply_sizes(map(self.context.size, letters)) if axes & {*letters} else "None"
            for letters in (kernel.batch, (*kernel.heads, *kernel.groups))
        ]
        sizes += [self.context.size(kernel.position), self.context.size(kernel.over)]
        return f"create_block_mask(mask_mod{number}, {', '.join(sizes)}, device=device)"

    def attention(self, kernel: Attention) -> Fragment:
        if not self.can_flex(kernel):
            return KernelEmitter.attention(self, kernel)
        shared, heads = (*kernel.batch, *kernel.heads), len(kernel.heads)
        queries, keys = ([*zip(sides, kernel.features, strict=True)] for sides in (kernel.queries, kernel.keys))
        q = self.concatenate(queries, (*shared, *kernel.groups, kernel.position), len((*kernel.heads, *kernel.groups)))
        k = self.concatenate(keys, (*shared, kernel.over), heads)
        v = self.concatenate([(kernel.value, (kernel.put,))], (*shared, kernel.over), heads)
        alone = not kernel.heads and not kernel.groups
        first = slice(0 if alone else 3 if heads else 1, 3)
        sides = [f"{x if x.isidentifier() else f'({x})'}[:, None]" if x in (q, k, v)[first] else x for x in (q, k, v)]
        options = [*self.options[kernel], *self.write_scale(kernel), *["enable_gqa=True"] * bool(kernel.groups)]
        options += ["return_aux=AuxRequest(lse=True)"] * (kernel.sink is not None)
        text = f"flex_attention({', '.join([*sides, *options])})"
        if kernel.sink is not None:
            self.context.helpers["beside_sink"] = None
            text = f"beside_sink({text}, {self.write_sink_of_rows(kernel, kernel.sink)})"
        return self.part_heads(kernel, f"{text}[:, 0]" if alone else text)

    def write_sink_of_rows(self, kernel: Attention, sink: Value) -> str:
        column = self.merge_heads(kernel, self.context.fill(self.code(sink), sink.axes, "tensor"))
        return align(column, (*kernel.batch, "", kernel.position))

    # -------------------------------------------------------------------------------------------------- of one pair

    # An index of heads is a digit of the number of the head.
    def inside_pair(self, kernel: Attention) -> contextlib.AbstractContextManager[None]:
        places = {kernel.batch[0]: "batch", kernel.position: "query", kernel.over: "key"}
        heads = (*kernel.heads, *kernel.groups)
        for place, letter in enumerate(heads):
            below = multiply_sizes(map(self.context.size, heads[place + 1 :]))
            digit = f"head // ({below})" if " " in below else f"head // {below}" if below else "head"
            places[letter] = f"({digit}) % {self.context.size(letter)}" if place and below else digit
            if place and not below:
                places[letter] = f"head % {self.context.size(letter)}"
        return self.at_places(places)

    @contextlib.contextmanager
    def at_places(self, places: Mapping[str, str]) -> Iterator[None]:
        around, self.places = self.places, places
        with self.context.guarded() if not places else contextlib.nullcontext():
            yield
        self.places = around

    def code(self, value: Value, wanted: Dims | None = None) -> Fragment:
        if not self.places:
            return KernelEmitter.code(self, value, wanted)
        code = self.code_pair(value)
        if value not in self.exact or code.plain:
            return code
        self.context.needs["number"] = None
        return code.become(f"{code.at(ATOM)}.to(number)")

    # A number of Python, or a tensor without axes.
    def code_pair(self, value: Value) -> Fragment:
        match value.operation:
            case Score():
                return Fragment("score")
            case _ if self.find_place(value) is not None:
                return self.pick_number(self.code_outside(value))
            case op.Iota(letter):
                return Fragment(self.places[letter], level=ATOM if self.places[letter].isidentifier() else PRODUCT)
            case op.Constant() | op.Turn():
                return KernelEmitter.code(self, value)
            case op.Map(name, arguments) if name != "Dr":
                if name in ("/", "^") or (value.kind == "number" and name not in ("+", "*", "where")):
                    self.exact |= {argument for argument in arguments if argument.kind == "integer" and argument.axes}
                return KernelEmitter.code(self, value)
            case op.Spread(argument):
                return self.code(argument)
            case op.View(argument, old, new) if self.renames(old, new):
                with self.at_places({one: self.places[other] for (one,), (other,) in zip(old, new, strict=True)}):
                    return self.code(argument)
            case op.Gather() if all(number.plain for number in value.operation.numbers):
                return KernelEmitter.code(self, value)
            case op.Gather(argument, slots) if self.find_place(argument) and all(map(_is_safe, slots)):
                whole, numbers = self.code_outside(argument), {slot.label[0]: self.code_slot(slot) for slot in slots}
                return Fragment(f"{whole.at(ATOM)}[{', '.join(numbers[dim] for dim in whole.dims)}]")
            case _:
                return self.capture(value)

    # Where a mask hides the pair, the number may lie outside.
    def code_slot(self, slot: op.Slot) -> str:
        number = self.code(slot.number)
        if number.plain or slot.is_whole:
            return number.text
        text = number.at(ATOM) if slot.number.kind == "integer" else f"{number.at(ATOM)}.long()"
        return f"{text}.clamp(0, {self.context.size(slot.label[0])} - 1)"

    def code_outside(self, value: Value) -> Fragment:
        with self.at_places({}):
            return KernelEmitter.code(self, value)

    def pick_number(self, code: Fragment) -> Fragment:
        if not code.dims:
            return code
        return Fragment(f"{code.at(ATOM)}[{', '.join(self.places[dim] for dim in code.dims)}]")

    # A tensor that the text computes in another way is computed first.
    def capture(self, value: Value) -> Fragment:
        if not value.axes:
            return self.code_outside(value)
        if value not in self.captured:
            code = self.code_outside(value)
            name = f"captured_{len(self.options) + 1}_{len(self.captured) + 1}"
            self.captured[value] = name, code
        name, code = self.captured[value]
        return self.pick_number(replace(code, text=name, level=ATOM))
