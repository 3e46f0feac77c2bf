"""Recognises recurrences that are linear in their state, of which a chunk of positions is a few products, not a step for each.

Of `h_s = a_s h_(s-1) + k_s (v_s + g_s sum_n p_s h_(s-1))` nothing but `y_s = sum_n q_s h_s` is read. In a chunk y is attention
without a softmax, times how much is left of each position, plus what the state before the chunk gives (Dao and Gu 2024, section
6); with g and p a triangular system comes first (Yang et al. 2024, section 3.3).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from einformer.language.sizes import Legend
from einformer.program import operations as op
from einformer.program.kernels import Chunked, LinearMap
from einformer.program.matching import read_linear
from einformer.program.operations import Axes, Function, Line, Turns, Value, add, multiply
from einformer.program.rewrite import FunctionScope, Rewriting, walk
from einformer.program.terms import ONE, Term, Terms, identity, spell


@dataclass(frozen=True, slots=True)
class Chunk:
    """The parts of a recurrence and of the sum that reads it, as terms: those of the recurrence are of one step."""

    recurrence: Value
    letters: dict[str, str]  # of the state, each as the sum that reads it has it
    summed: Axes
    query: Term
    around: Term  # of the sum
    key: Term
    value: Terms
    decay: Terms
    probe: Term | None
    gain: Terms
    maps: tuple[LinearMap, ...] = ()  # of what is read, the first of the next


@dataclass(frozen=True, slots=True)
class Chunking:
    """Looks for sums over the state of a recurrence in one scope."""

    scope: FunctionScope
    loops: dict[Value, tuple[str, ...]]  # around each recurrence

    # For `steps` of decoding, which keeps the state, nothing is looked for.
    @classmethod
    def of(cls, scope: FunctionScope, function: Function, steps: bool = False) -> Chunking:
        return cls(scope, {} if steps else dict(_list_recurrences(function.lines, ())))

    def read(self, value: Value) -> Value | None:
        match self.find(value):
            case Chunk() as chunk, Chunked() as kernel:
                new = Value(kernel, (*kernel.shared, kernel.letter, *kernel.put), "tensor", value.span)
                return spell(self.scope.values.alone(new)[0].times(chunk.around))
            case _:
                return None

    # The reason is empty where a value is not a sum over a state.
    def explain(self, value: Value) -> str:
        reason = self.find(value)
        return reason if isinstance(reason, str) else ""

    # The recurrence that a sum reads, and its kernel; or why there is none.
    def find(self, value: Value) -> tuple[Chunk, Chunked] | str | None:
        if not isinstance(value.operation, op.Einsum) or not self.loops:
            return None
        summed, inside = value.operation.letters, self.scope.read(multiply(value.operation.factors))
        for factor, power in inside[0].powers.items() if len(inside) == 1 else ():
            state, letters = _read_letters(factor.value)
            if state in self.loops and {*summed} <= {*letters.values()}:
                if self.scope.reads[state] > 1 or self.loops[state] != self.scope.here or power != 1:
                    return "the state is read elsewhere too"
                chunk = self.take_apart(state, letters, summed, inside[0].without(factor))
                if isinstance(chunk, str):
                    return chunk
                kernel = self.build(chunk)
                return kernel if isinstance(kernel, str) else (chunk, kernel)
        return None

    # ------------------------------------------------------------------------------------------------- one recurrence

    # The parts of a recurrence whose state is multiplied by a product, and summed; or why it has none.
    def take_apart(self, state: Value, letters: dict[str, str], summed: Axes, product: Term) -> Chunk | str:
        recur, query = state.operation, product.part(lambda factor: bool(factor.letters & {*summed}))
        assert isinstance(recur, op.Recur)
        own = frozenset(old for old, new in letters.items() if new in summed)
        keys, probes, decay, value, gain = (list[Term]() for _ in range(5))
        for term in self.expand(recur.step, recur):
            read = [factor for factor in term.powers if self.reads_state(factor.value, recur)]
            rest = term.without(read[0]) if read else term
            probe = self.read_probe(read[0].value, recur, own) if read else None
            if read and (len(read) > 1 or term.powers[read[0]] != 1 or probe is None):
                return "in its step the state is neither times a number nor summed over its own letters"
            if probe == Term():
                decay.append(rest)
            else:
                key = rest.part(lambda factor: bool(factor.letters & own))
                keys.append(key)
                (gain if read else value).append(replace(rest.times(key, -ONE), number=rest.number))
                probes += [probe] if probe is not None else []
        if not query.powers:
            return "nothing multiplies the state in the sum that reads it"
        if not decay or not value:
            return "nothing stays of the state, or nothing is added to it"
        if len({key.product for key in keys}) > 1 or len({identity((probe,)) for probe in probes}) > 1:
            return "more than one product is added to the state"
        around = replace(product.times(query, -ONE), number=product.number)
        probe = probes[0] if probes else None
        return Chunk(state, letters, summed, query, around, keys[0], tuple(value), tuple(decay), probe, tuple(gain))

    # The terms of a step; sums in which the state is read are multiplied out.
    def expand(self, value: Value, recur: op.Recur) -> Iterator[Term]:
        for term in self.scope.read(value):
            sums = (f for f in term.powers if isinstance(f.value.operation, op.Map) and f.value.operation.function == "+")
            total = next((f for f in sums if term.powers[f] == 1 and self.reads_state(f.value, recur)), None)
            if total is None:
                yield term
            else:
                yield from (term.without(total).times(inner) for inner in self.expand(total.value, recur))

    def reads_state(self, value: Value, recur: op.Recur) -> bool:
        return recur.so_far in walk(value, closed=self.scope.names.keys() - {value})

    # A probe multiplies the state of the position before in a sum over its own letters; it is one where the state stands alone.
    def read_probe(self, value: Value, recur: op.Recur, own: frozenset[str]) -> Term | None:
        if self.read_renamed(value, recur) == {}:
            return Term()
        if not isinstance(value.operation, op.Einsum):
            return None
        inside = self.scope.read(multiply(value.operation.factors))
        for factor, power in inside[0].powers.items() if len(inside) == 1 else ():
            renamed, rest = self.read_renamed(factor.value, recur), inside[0].without(factor)
            if renamed and power == 1 and {*renamed} == own and {*renamed.values()} == {*value.operation.letters}:
                probe = _rename(spell(replace(rest, number=ONE)), {new: old for old, new in renamed.items()})
                return None if self.reads_state(probe, recur) else Term(rest.number, {self.scope.values.seal(probe): ONE})
        return None

    # Returns the letters of the state that have another name where it is read at the position before.
    def read_renamed(self, value: Value, recur: op.Recur) -> dict[str, str] | None:
        if not isinstance(value.operation, op.Gather) or value.operation.argument is not recur.so_far:
            return None
        before = add([Value(op.Turn(recur.letter), (), "integer"), Value(op.Constant(-1), (), "integer")])
        renamed, opened = dict[str, str](), self.scope.values.expand_sums
        for label, number, *_ in value.operation.slots:
            if label == (recur.letter,) and identity(opened(number)) == identity(opened(before)):
                continue
            if len(label) > 1 or not isinstance(number.operation, op.Iota):
                return None
            renamed |= {label[0]: number.operation.letter} if label[0] != number.operation.letter else {}
        return renamed

    # ------------------------------------------------------------------------------------------------------ the kernel

    # The kernel has the letters of the sum that reads it. Returns the reason where there is none.
    def build(self, chunk: Chunk) -> Chunked | str:
        recur, summed = chunk.recurrence.operation, {*chunk.summed}
        assert isinstance(recur, op.Recur)
        sums = [(chunk.key,), chunk.value, chunk.decay, () if chunk.probe is None else (chunk.probe,), chunk.gain]
        steps = [self.hoist(add([*map(spell, terms)]), recur.letter) for terms in sums]
        sides = [None if step is None else _rename(step, chunk.letters) for step in steps]
        query, (key, value, decay, probe, gain) = spell(chunk.query), sides
        if key is None or value is None or decay is None or probe is None or gain is None:
            return "its step cannot be computed for all positions at once"
        features, scales = [query, key, *[probe] * bool(chunk.gain)], [decay, *[gain] * bool(chunk.gain)]
        if any(summed & {*side.axes} for side in (value, *scales)):
            return "what stays of the state differs along what is summed"
        letter, *rest = (chunk.letters[x] for x in (recur.letter, *recur.so_far.axes) if chunk.letters[x] not in summed)
        apart = {x for side in (*features, *scales) for x in side.axes}
        shared = tuple(x for x in rest if x in apart and x != letter)
        put = tuple(x for x in rest if x not in apart and x != letter)
        if not {*value.axes, *apart} <= {*rest, *summed}:
            return "what it is multiplied by has other axes than the state"
        kernel = Chunked(query, key, value, decay, probe, gain, letter, chunk.summed, shared, put)
        kernel = replace(kernel, decay=None) if identity(chunk.decay) == identity((Term(),)) else kernel
        return kernel if chunk.gain else replace(kernel, probe=None, gain=None)

    # Returns a value of one step for all positions at once.
    def hoist(self, value: Value, letter: str) -> Value | None:
        if value in self.scope.names or not any(inner.operation == op.Turn(letter) for inner in walk(value)):
            return value
        if value.operation == op.Turn(letter):
            return op.index(letter)
        parts = {inner: self.hoist(inner, letter) for inner in value.operands}
        if None in parts.values():
            return None
        match operation := op.replace_operands(value.operation, lambda inner: parts[inner] or inner):
            case op.Gather(argument, slots, conditions):
                read = [(slot.label[0], slot.number.operation) for slot in slots if len(slot.label) == 1]
                letters = {label: number.letter for label, number in read if isinstance(number, op.Iota)}
                whole = len(letters) == len(slots) == len({*letters.values()})
                return _rename(argument, letters) if whole else op.gather(argument, slots, value.span, conditions)
            case op.Map(function, arguments) if function != "Dr":
                return op.map_values(function, arguments, value.span)
            case op.Einsum(letters, factors):
                return op.contract(letters, factors, value.span)
            case op.View(argument, old, new):
                return replace(
                    value, operation=op.View(argument, (*old, (letter,)), (*new, (letter,))), axes=(*value.axes, letter)
                )
            case op.Reduce() | op.Spread():
                return replace(value, operation=operation, axes=(*value.axes, letter))
            case _:
                return None


def find_chunks(function: Function, legend: Legend, trained: frozenset[str]) -> dict[Value, tuple[Chunk, Chunked]]:
    scope, chunks = FunctionScope.of(function, legend, trained), dict[Value, tuple[Chunk, Chunked]]()
    chunking = Chunking.of(scope, function)

    def look(value: Value) -> Value:
        read, maps = value, list[LinearMap]()
        while isinstance(read.operation, op.Einsum) and read.operation.letters:
            mapped = read_linear(read, scope)
            if mapped is None or not scope.allows(mapped):
                break
            (linear,) = (v.operation for v in walk(mapped, closed=scope.names) if isinstance(v.operation, LinearMap))
            maps.append(linear)
            read = linear.argument
        chunked = chunking.find(read) if read is value or read not in scope.names else None
        if isinstance(chunked, tuple) and scope.allows(Value(chunked[1])):
            chunks[value] = (replace(chunked[0], maps=tuple(reversed(maps))), chunked[1])
        return value

    if chunking.loops:
        Rewriting(look, descending=True, scope=scope).rewrite_function(function)
    return chunks


# A view: a value inside that has a name is not computed again.
def _rename(value: Value, letters: Mapping[str, str]) -> Value:
    inner, own = _read_letters(value)
    new = {letter: letters.get(other, other) for letter, other in own.items()}
    old, axes = tuple((letter,) for letter in new), tuple(new.values())
    same = all(letter == other for letter, other in new.items())
    return inner if same else Value(op.View(inner, old, tuple((x,) for x in axes)), axes, value.kind, value.span)


# A value, and the letter that each of its own has under other letters.
def _read_letters(value: Value) -> tuple[Value, dict[str, str]]:
    match value.operation:
        case op.View(argument, old, new) if all(len(label) == 1 for label in (*old, *new)):
            return argument, {one[0]: other[0] for one, other in zip(old, new, strict=True)}
        case _:
            return value, {letter: letter for letter in value.axes}


def _list_recurrences(lines: Iterable[Line | Turns], loops: tuple[str, ...]) -> Iterator[tuple[Value, tuple[str, ...]]]:
    for line in lines:
        if isinstance(line, Turns):
            yield from _list_recurrences(line.lines, (*loops, line.letter))
        elif isinstance(line.value.operation, op.Recur) and line.value.kind == "tensor":
            yield line.value, loops
