"""Emits a function with kernels: a method for each, variables as they lie, several maps of one input as one product.

Weights that one input is multiplied by lie side by side in one parameter, inputs by outputs: on a CPU the product of one vector
with such a matrix takes three quarters of the time that its transpose takes, and decoding is such products. A state dict has
every weight under its own name with its axes as written, in both plans.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from einformer.interpreters.torch.emit import Emitter, Variable, code_turning
from einformer.interpreters.torch.fragments import ATOM, PRODUCT, Dims, Fragment, align, multiply_sizes, permute
from einformer.interpreters.torch.parallel import describe_exchange
from einformer.language.sizes import Legend
from einformer.language.tree import Layer, Weight
from einformer.language.weights import key, list_stored
from einformer.program import operations as op
from einformer.program.collectives import Ring, Sent
from einformer.program.fusing import is_part
from einformer.program.kernels import (
    PAIR,
    Attention,
    Chunked,
    CrossEntropy,
    Gathered,
    LinearMap,
    Norm,
    Part,
    Picked,
    Reversed,
    Routed,
    Taken,
)
from einformer.program.operations import Axes, Function, Kind, Line, Value, View, add, join_labels, multiply
from einformer.program.rewrite import (
    count_reads,
    find_differentiated,
    name_stored,
    walk,
    walk_carried,
    walk_lines,
    walk_values,
)
from einformer.program.sharding import own
from einformer.program.terms import Values

HELPERS = {
    "Stored": '''class Stored(nn.Module):
    """Several weights in one parameter, as they are computed with. A state dict has each as it is written.

    `layout`: for each parameter the weights in it, with their shapes and the order in which their axes lie.
    """

    def parts(self, stored, whole):
        sizes = [math.prod(shape) // whole[..., 0].numel() for _, shape, _ in self.layout[stored]]
        for part, (name, shape, order) in zip(whole.split(sizes, -1), self.layout[stored]):
            weight = part.reshape([shape[axis] for axis in order])
            yield name, weight.permute([order.index(axis) for axis in range(len(order))]), order

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for stored in self.layout:
            for name, weight, _ in self.parts(stored, destination.pop(prefix + stored)):
                destination[prefix + name] = weight.contiguous()

    def _load_from_state_dict(self, state_dict, prefix, metadata, strict, missing, unexpected, errors):
        for stored in self.layout:
            whole, parts = getattr(self, stored).detach(), []
            for name, weight, order in self.parts(stored, whole):
                given = state_dict.pop(prefix + name, None)
                if given is None:
                    missing.append(prefix + name)
                elif given.shape != weight.shape:
                    errors.append(f"size mismatch for {prefix + name}: {given.shape}, not {weight.shape}")
                else:
                    weight = given
                parts.append(weight.permute(order).reshape(*whole.shape[:-1], -1))
            state_dict[prefix + stored] = torch.cat(parts, -1)
        super()._load_from_state_dict(state_dict, prefix, metadata, strict, missing, unexpected, errors)
''',
    "with_sink": '''def with_sink(mask: Tensor, sink: Tensor) -> Tensor:
    """A mask with a column more: `sink` is the score of one more key, which has no value."""
    shape = torch.broadcast_shapes(mask.shape, sink.shape)
    return torch.cat((mask.expand(shape), sink.expand(*shape[:-1], 1)), -1)
''',
    "chunked": '''def chunked(q, k, v, decay=None, probe=None, gain=None, size=64, state=None):
    """sum_n q_n h_n at each position, where from one to the next h = decay h + k (v + gain sum_n probe_n h_n). Where it starts
    from a state, the last one too."""
    y, starts = [], state is not None
    for start in range(0, v.shape[-2], size):
        here = slice(start, start + size)
        q_c, k_c, v_c = q[..., here, :], k[..., here, :], v[..., here, :]
        ones = v.new_ones(v_c.shape[-2], v_c.shape[-2] + 1)
        left = ones.tril(1)  # what is left at each position of the state before the chunk, and of each position
        if decay is not None:
            left = torch.where(ones.tril().bool(), decay[..., here, None], 1).cumprod(-2).tril(1)
        if probe is not None:  # what each position reads of the others is a triangular system
            p_c, g_c = probe[..., here, :], gain[..., here, None]
            before = torch.cat((ones[:1].tril().expand(*left.shape[:-2], 1, -1), left[..., :-1, :]), -2)
            system = -g_c * before[..., 1:] * (p_c @ k_c.mT)
            w = v_c if state is None else v_c + g_c * before[..., :1] * (p_c @ state)
            kind = torch.promote_types(torch.promote_types(system.dtype, w.dtype), torch.float32)
            w = torch.linalg.solve_triangular(system.to(kind), w.to(kind), upper=False, unitriangular=True)
            v_c = w.to(v.dtype)
        y.append((left[..., 1:] * (q_c @ k_c.mT)) @ v_c)
        if state is not None:
            y[-1] = y[-1] + left[..., :1] * (q_c @ state)
        if starts or start + size < v.shape[-2]:
            last = left[..., -1, :, None]
            new = (last[..., 1:, :] * k_c).mT @ v_c
            state = new if state is None else last[..., :1, :] * state + new
    return (torch.cat(y, -2), state) if starts else torch.cat(y, -2)
''',
    "chunked_in_order": '''def chunked_in_order(q, k, v, axis, decay=None, probe=None, gain=None):
    """The same where ranks have the positions, in order: each starts from the state with which the one before it ends."""
    wide = [x.shape[:-2] for x in (k, v, probe) if x is not None] + [x.shape[:-1] for x in (decay, gain) if x is not None]
    shape = (*torch.broadcast_shapes(*wide), k.shape[-1], v.shape[-1])
    start = Received.apply(v.new_zeros(shape, requires_grad=torch.is_grad_enabled()), axis)
    y, state = chunked(q, k, v, decay, probe, gain, state=start)
    return HandedOn.apply(state.to(v.dtype), y, axis, start)
''',
    "looked_up": '''def looked_up(numbers: Tensor, E: Tensor) -> Tensor:
    """Rows of a matrix that is multiplied with too: on a CPU its gradient takes theirs in where it lies."""
    return fn.embedding(numbers, E, sparse=type(E) is nn.Parameter and E.is_cpu)
''',
    "routed": '''def routed(p_rx: Tensor, count: int) -> tuple[Tensor, ...]:
    """The pairs of a row and an expert with a weight, expert after expert: their rows, their experts; where the
    pairs of each expert end; and where those of each row stand."""
    count = min(count, p_rx.shape[1])
    expert, order = torch.topk(torch.abs(p_rx.detach()), count).indices.flatten().sort()
    ends = torch.searchsorted(expert, torch.arange(p_rx.shape[1], device=p_rx.device), right=True)
    return order // count, expert, ends, torch.argsort(order).unflatten(0, p_rx.shape[:1] + (count,))
''',
    "own_pairs": '''def own_pairs(token: Tensor, expert: Tensor, ends: Tensor, axis: str) -> tuple[Tensor, Tensor, Tensor]:
    """Of the pairs those of this rank's experts, which are numbered from zero."""
    count = len(part(ends, 0, axis))
    own = expert - MESH.get_local_rank(axis) * count
    here = (own >= 0) & (own < count)
    return token[here], own[here], torch.searchsorted(own[here], torch.arange(count, device=own.device), right=True)
''',
    "sum_rows": '''def sum_rows(x: Tensor, token: Tensor, rows: int) -> Tensor:
    """The sum of the pairs of each row."""
    return x.new_zeros(rows, *x.shape[1:]).index_add(0, token, x)
''',
    "Grouped": '''class Grouped(torch.autograd.Function):
    """Rows times the matrix of their expert; those of each expert end at its place in `ends`."""

    @staticmethod
    def forward(ctx, x, matrices, ends):
        ctx.save_for_backward(x, matrices)
        ctx.ends = [0, *([len(x)] * len(ends) if ends.is_meta else ends.tolist())]  # on meta one has all rows
        return Grouped.products(x, matrices.mT, ctx.ends)

    @staticmethod
    def backward(ctx, slope):
        x, matrices = ctx.saved_tensors
        x_slope = Grouped.products(slope, matrices, ctx.ends) if ctx.needs_input_grad[0] else None
        slopes = torch.empty_like(matrices) if ctx.needs_input_grad[1] else None
        for expert, (start, end) in enumerate(zip(ctx.ends, ctx.ends[1:]) if slopes is not None else ()):
            torch.mm(slope[start:end].T, x[start:end], out=slopes[expert])
        return x_slope, slopes, None

    @staticmethod
    def products(x, matrices, ends):
        y = x.new_empty(len(x), matrices.shape[2])
        for expert, (start, end) in enumerate(zip(ends, ends[1:])):
            if start < end:
                torch.mm(x[start:end], matrices[expert], out=y[start:end])
        return y
''',
    "grouped": '''def grouped(x: Tensor, matrices: Tensor, ends: Tensor) -> Tensor:
    """Rows times the matrix of their expert: one kernel where there is one, else a product for each expert."""
    if x.is_cuda and x.dtype == torch.bfloat16 and matrices.shape[1] % 8 == matrices.shape[2] % 8 == 0:
        return fn.grouped_mm(x, matrices.mT, offs=ends.to(torch.int32))
    if not torch.compiler.is_compiling():
        return Grouped.apply(x.to(matrices.dtype), matrices, ends)
    with torch._dynamo.patch_dynamo_config(capture_scalar_outputs=True):
        sizes = torch.diff(ends, prepend=ends.new_zeros(1)).tolist()
        return torch.cat([rows @ matrix.T for rows, matrix in zip(x.split(sizes), matrices)])
''',
}


@dataclass(frozen=True, slots=True)
class Packed:
    """A weight that lies as a matrix: itself, its letters where it is read, those of its outputs and of its inputs."""

    weight: Weight
    read: Dims
    rows: Dims
    columns: Dims = ()


@dataclass(frozen=True, slots=True)
class Packing:
    """A parameter: the weights whose outputs lie side by side in it, the letters of the inputs of all, and of experts."""

    parts: tuple[Packed, ...]
    columns: Dims
    experts: Dims = ()

    # `QKV` holds `Q`, `K` and `V`.
    @property
    def name(self) -> str:
        return "".join(self.names)

    @property
    def names(self) -> list[str]:
        return [key(part.weight.name) for part in self.parts]

    @property
    def as_written(self) -> bool:
        part, first = self.parts[0], self.experts
        return len(self.parts) == 1 and part.read in (first + part.rows + self.columns, first + self.columns + part.rows)


# The matrices of a product are one parameter, and so are its biases; each is read whole, and once.
def lay_out(function: Function, layer: Layer, legend: Legend) -> Iterator[Packing]:
    read, seen = count_reads(function), set[str]()
    names = name_stored(function)
    single = {weight.name: weight for weight in list_stored(layer) if weight.kind == "trained"}
    for kernel in (value.operation for value in walk_values(function) if isinstance(value.operation, LinearMap)):
        none = [()] * len(kernel.biases)
        for weights, columns, experts in ((kernel.weights, kernel.columns, kernel.experts), (kernel.biases, none, ())):
            every = zip(weights, kernel.rows[: len(weights)], columns, strict=True)
            single_reads = ((x, r, c) for x, r, c in every if read[find_weight(x)] == 1 and not is_part(x, legend))
            own = [(names.get(find_weight(x), ""), x, r, c) for x, r, c in single_reads]
            parts = [Packed(single[name], x.axes, r, c) for name, x, r, c in own if name in single and name not in seen]
            seen |= {part.weight.name for part in parts}
            if parts and not (lying := Packing(tuple(parts), parts[0].columns, experts)).as_written:
                yield lying


# Of keys that go round the ranks those of this rank, and their letter.
def find_own(keys: Value, kernel: Attention) -> tuple[Value, str]:
    ring = keys.operation
    return (ring.argument, ring.letter) if isinstance(ring, Ring) else (keys, kernel.over)


def find_weight(value: Value) -> Value:
    return value.operation.argument if isinstance(value.operation, View) else value


@dataclass(slots=True)
class KernelEmitter(Emitter):
    """The forward of one function, with kernels in the plan `fast`."""

    parts: dict[Value, list[Value]] = field(default_factory=lambda: defaultdict(list))  # of a product of several maps
    orders: dict[str, Dims] = field(default_factory=dict)  # the axes that attention wants of a name, in order
    weighed: Fragment | None = None  # the weight of the experts for each row, once they are paired
    passed: set[Value] = field(default_factory=set)  # what layers are given, and nothing else reads
    multiplied: set[Value] = field(default_factory=set)  # weights whose gradient is a matrix, whatever else reads them

    def __post_init__(self) -> None:
        read, arguments_of_calls = count_reads(self.function), list[Value]()
        differentiated = find_differentiated(self.function)
        for value in walk_values(self.function):
            match value.operation:
                case Part(argument):
                    self.parts[argument].append(value)
                case op.Call(arguments=arguments):
                    arguments_of_calls += arguments
                case Attention() as kernel:
                    self.order(kernel)
                case LinearMap(weights=weights, experts=()) if value in differentiated:
                    self.multiplied |= set(map(find_weight, weights))
        self.passed = {value for value in arguments_of_calls if read[value] == arguments_of_calls.count(value)}

    @property
    def packed_weights(self) -> frozenset[str]:
        return frozenset(name for packing in self.shell.packings for name in packing.names)

    # ------------------------------------------------------------------------------------------------------ orders

    def order(self, kernel: Attention) -> None:
        shared = (*kernel.batch, *kernel.heads)
        for query, features in zip(kernel.queries, kernel.features, strict=True):
            self.want(query, (*shared, *kernel.groups, kernel.position, *features))
        for keys, features in zip((*kernel.keys, kernel.value), (*kernel.features, (kernel.put,)), strict=True):
            keys, over = find_own(keys, kernel)
            self.want(keys, (*shared, over, *features))

    # A value under other letters stands for the value itself.
    def want(self, value: Value, axes: Axes) -> None:
        match value.operation:
            case op.View(argument, old, new) if self.renames(old, new):
                letters = {after: before for (before,), (after,) in zip(old, new, strict=True)}
                self.want(argument, tuple(letters.get(letter, letter) for letter in axes))
            case _ if sorted(value.axes) == sorted(axes):
                self.orders |= {line.name: axes for line in self.find_lines(value)}

    def find_lines(self, value: Value) -> list[Line]:
        return [line for line in walk_lines(self.function.lines) if line.value is value]

    # ------------------------------------------------------------------------------------------------------- lines

    # A line lies as its code does where each axis has a letter. Of a line that a kernel has taken in, the comment is left.
    def line(self, line: Line) -> Iterator[str]:
        if line.value.operation == Taken():
            return
        if not self.shell.file.plan.fast:
            yield from Emitter.line(self, line)
            return
        yield from self.describe_rings(line.value)
        yield from self.route(line.value)
        if isinstance(line.value.operation, Sent):
            yield self.write_sent(line.value.operation.mesh)
            return
        yield from self.emit_products(line.value)
        if line.equation is None:
            yield from self.assign(line)
            return
        if line.equation.relation != "return" and any(
            place.name == self.names.get(line.name) for place in self.stored.get(line.value, ())
        ):
            return
        yield from (f"# {note}" for note in line.notes)
        if line.equation.relation == "return" or (isinstance(line.value.operation, op.Recur) and line.value not in self.stored):
            yield from Emitter.line(self, line)
            return
        yield from self.assign(line)

    # A variable that is changed lies as before.
    def assign(self, line: Line) -> Iterator[str]:
        letters = join_labels(line.labels)
        code = self.code_line(line)
        code = self.context.cast(code, "tensor") if code.kind == "number" and line.value in self.passed else code
        old = self.find_changed(line)
        plain = bool(letters) and len(letters) == len(line.labels) and set(code.dims) == set(letters)
        if old is not None:
            line = replace(line, labels=old.labels)
        elif plain:
            order = letters if {PAIR, own(PAIR)} & {*letters} else self.orders.get(line.name, ())
            code = permute(code, order) if set(order) == set(letters) else code
            line = replace(line, labels=tuple((letter,) for letter in code.dims))
        text = code.text if code.plain and not line.labels else self.write_grouped(code, line.labels)
        yield f"{self.name(line)} = {text}"
        self.store(line, code.kind)

    # Each axis must have a letter there and here.
    def describe_rings(self, value: Value) -> Iterator[str]:
        for inner in walk(value, closed={*self.stored}):
            if isinstance(inner.operation, Ring):
                yield from (f"# {text}" for text in describe_exchange(inner, self.context))

    def find_changed(self, line: Line) -> Variable | None:
        if line.equation is None or line.equation.relation != "<-" or line.name not in self.names:
            return None
        places = (place for places in self.stored.values() for place in places if place.name == self.names[line.name])
        old, letters = next(places, None), {*join_labels(line.labels)}
        return old if old is not None and {*join_labels(old.labels)} == letters else None

    # -------------------------------------------------------------------------------------------- several linear maps

    def emit_products(self, value: Value) -> Iterator[str]:
        if value in self.stored:
            return
        for operand in value.operands:
            if isinstance(value.operation, Part):
                yield from self.split(operand)
            else:
                yield from self.emit_products(operand)

    def split(self, whole: Value) -> Iterator[str]:
        kernel, parts = whole.operation, self.parts[whole]
        assert isinstance(kernel, LinearMap)
        yield from self.emit_products(kernel.argument)
        x, rest = self.merge_columns(kernel)
        part_of = {part.operation.number: part for part in parts if isinstance(part.operation, Part)}
        names = [self.name_part(part_of[k], kernel, rest) if k in part_of else "_" for k in range(len(kernel.rows))]
        sizes = [multiply_sizes(map(self.context.read_constant, rows)) for rows in kernel.rows]
        how = f"chunk({len(sizes)}, -1)" if len(set(sizes)) == 1 else f"split(({', '.join(sizes)}), -1)"
        matrix = self.join_packed(kernel.weights) + (".mT" if kernel.experts else ".T")
        bias = f", {self.join_packed(kernel.biases)}" if kernel.biases else ""
        yield f"{', '.join(names)} = {self.multiply(kernel, x, matrix + bias)}.{how}"

    # A part is named by the left side of the equation that is nothing else, or `zQ`.
    def name_part(self, part: Value, kernel: LinearMap, rest: Dims) -> str:
        assert isinstance(part.operation, Part)
        rows = kernel.rows[part.operation.number]
        line = next((line for line in self.find_lines(part) if line.equation and line.equation.relation == "="), None)
        letters = sorted(join_labels(line.labels)) if line else []
        if line is not None and len(rows) == 1 and len(letters) == len(line.labels) and letters == sorted(rest + rows):
            line = replace(line, labels=tuple((letter,) for letter in rest + rows))
            self.store(line)
            return self.name(line)
        argument = kernel.argument.operation.argument if isinstance(kernel.argument.operation, Picked) else kernel.argument
        x = next(self.list_names(find_weight(argument)), "x")
        name = f"{key(x.replace(' ', '_'))}{self.weight(kernel.weights[part.operation.number])}"
        self.stored[part] = [Variable(name, (*((letter,) for letter in rest), rows))]
        return name

    def list_names(self, value: Value) -> Iterator[str]:
        for line in (*self.function.inputs, *self.function.weights):
            if line.value is value:
                yield line.name
        yield from (carried.name for carried in walk_carried(self.function.lines) if value in carried.values)
        yield from (line.name for line in self.find_lines(value))

    def weight(self, value: Value) -> str:
        return self.stored[find_weight(value)][0].name.removeprefix("self.")

    # ------------------------------------------------------------------------------------------------------ experts

    # Pairs come before the first line that needs them, with the weight where it has no name.
    def route(self, value: Value) -> Iterator[str]:
        if value in self.stored or self.weighed is not None:
            return
        match value.operation:
            case Routed(weight, count, rows, _, mesh):
                code = permute(self.code(weight), (*rows, *(letter for letter in weight.axes if letter not in rows)))
                if weight not in self.stored:
                    yield f"weight = {code.text}"
                    code = Fragment("weight", code.dims)
                    self.stored[weight] = [Variable("weight", tuple((dim,) for dim in code.dims))]
                self.context.helpers["routed"], self.weighed = None, code
                flat = self.flatten_rows(code, rows, code.dims[len(rows) :])
                yield f"token, expert, ends, place = routed({flat.text}, {self.code(count).text})"
                if mesh:
                    self.context.helpers |= dict.fromkeys(("MESH", "part", "own_pairs", "sum_rows"))
                    yield f'token, expert, ends = own_pairs(token, expert, ends, "{mesh}")'
            case _:
                for operand in value.operands:
                    yield from self.route(operand)

    def write_sent(self, mesh: str) -> str:
        self.context.helpers |= {"MESH": None, "routes": None}
        return f'sent_{mesh}, expert_{mesh}, ends_{mesh} = routes(ends, "{mesh}")'

    def pick_sent(self, code: Fragment, mesh: str, letter: str) -> Fragment:
        rest = tuple(dim for dim in code.dims if dim != letter)
        return Fragment(f"{permute(code, (letter, *rest)).at(ATOM)}[expert_{mesh}]", (own(PAIR), *rest), code.kind)

    def pick(self, code: Fragment, pairs: Routed) -> Fragment:
        rows = pairs.rows if set(pairs.rows) & set(code.dims) else ()
        expert = tuple(dim for dim in code.dims if dim == pairs.letter)
        rest = tuple(dim for dim in code.dims if dim not in (*rows, *expert))
        code = self.flatten_rows(code, rows, expert + rest)
        places = ", ".join(["token"] * bool(rows) + ["expert"] * bool(expert))
        return Fragment(f"{code.at(ATOM)}[{places}]", (PAIR, *rest), code.kind)

    # Values of pairs are summed over the chosen experts of each row.
    def combine(self, code: Fragment, pairs: Routed) -> Fragment:
        assert self.weighed is not None
        rest, rows = tuple(dim for dim in code.dims if dim != PAIR), pairs.rows
        code = permute(code, (PAIR, *rest))
        sizes = " * ".join(f"{self.weighed.at(ATOM)}.shape[{axis}]" for axis, _ in enumerate(rows))
        text = f"sum_rows({code.text}, token, {sizes})" if pairs.mesh else f"{code.at(ATOM)}[place].sum(1)"
        opened = f".unflatten(0, {self.weighed.at(ATOM)}.shape[:{len(rows)}])" if len(rows) > 1 else ""
        return Fragment(text + opened, rows + rest)

    # Rows become one axis, before all others.
    def flatten_rows(self, code: Fragment, rows: Dims, rest: Dims) -> Fragment:
        assert self.weighed is not None
        if not set(rows) <= set(code.dims):
            own = [f"{self.weighed.at(ATOM)}.shape[{axis}]" for axis, _ in enumerate(rows)]
            sizes = ", ".join([*own, *map(self.context.size, rest)])
            code = Fragment(f"{align(code, rows + rest, ATOM)}.expand({sizes})", rows + rest, code.kind)
        code = permute(code, rows + rest)
        return code if len(rows) < 2 else Fragment(f"{code.at(ATOM)}.flatten(0, {len(rows) - 1})", kind=code.kind)

    # ----------------------------------------------------------------------------------------------------- kernels

    def code_rewritten(self, value: Value, wanted: Dims | None) -> Fragment:
        match value.operation:
            case Norm() as kernel:
                return self.norm(kernel)
            case LinearMap() as kernel:
                return self.linear(kernel)
            case Attention() as kernel:
                return self.attention(kernel)
            case Picked(argument, Value(operation=Routed() as pairs)):
                return self.pick(self.code(argument), pairs)
            case Picked(argument, Value(operation=Sent(Value(operation=Routed(letter=letter)), mesh))):
                return self.pick_sent(self.code(argument), mesh, own(letter))
            case Gathered(argument, Value(operation=Routed() as pairs)):
                return self.combine(self.code(argument), pairs)
            case Chunked() as kernel:
                return self.chunk(kernel)
            case CrossEntropy() as kernel:
                return self.cross_entropy(kernel)
            case Reversed(argument, letter):
                return self.reverse(self.code(argument), letter)
            case _:
                return Emitter.code_rewritten(self, value, wanted)

    # The gradient of these rows alone is as good where a product gives one of all rows.
    def look_up(self, place: Fragment, table: Value, tensor: str) -> str:
        if table not in self.multiplied:
            return Emitter.look_up(self, place, table, tensor)
        self.context.helpers["looked_up"] = None
        return f"looked_up({place.text}, {tensor})"

    # The positions before each, `x_{s + c - C + 1}` or `x_{s - c}`, are a view of all, with zeros before the first.
    def select(
        self, value: Value, tensor: str, slots: Sequence[op.Slot], axis: int, kind: Kind, wanted: Dims | None
    ) -> Fragment:
        taps, backwards = self.find_taps(slots[axis]) if self.shell.file.plan.fast else ("", False)
        if not taps:
            return Emitter.select(self, value, tensor, slots, axis, kind, wanted)
        before, after = (op.unite_axes(slot.number for slot in some) for some in (slots[:axis], slots[axis + 1 :]))
        size, zeros = self.context.size(taps), "0, 0, " * len(after)
        text = f"fn.pad({tensor}, ({zeros}{size} - 1, 0)).unfold({axis}, {size}, 1)" + ".flip(-1)" * backwards
        return Fragment(text, (*before, *slots[axis].label, *after, taps), kind)

    # The letter that a slot adds to its own position, and whether it counts backwards.
    def find_taps(self, slot: op.Slot) -> tuple[str, bool]:
        own, others = slot.label, [letter for letter in slot.number.axes if letter not in slot.label]
        if not slot.timed or len(own) != 1 or len(others) != 1 or set(slot.number.axes) != {*own, *others}:
            return "", False
        values, (taps,) = Values(self.context.legend), others
        s, c = (Value(op.Iota(letter), (letter,), "integer") for letter in (*own, taps))
        minus = Value(op.Constant(-1))
        number, last = values.meaning(slot.number), add([values.size(taps), minus])
        forwards = number == values.meaning(add([s, c, multiply([minus, last])]))
        backwards = number == values.meaning(add([s, multiply([minus, c])]))
        return (taps if forwards or backwards else ""), backwards

    # Each of two numbers is the other's neighbour.
    def reverse(self, code: Fragment, letter: str) -> Fragment:
        axis = code.dims.index(letter) - len(code.dims)
        two = self.context.legend.length(letter) == 2
        how = f"torch.roll({code.text}, 1, {axis})" if two else f"torch.flip({code.text}, ({axis},))"
        return code.become(how)

    # `cross_entropy` takes a row for each target.
    def cross_entropy(self, kernel: CrossEntropy) -> Fragment:
        scores = self.code(kernel.scores)
        rows = tuple(dim for dim in scores.dims if dim != kernel.letter)
        slot = op.Slot((kernel.letter,), kernel.target, proved=kernel.proved)
        target = self.expand(self.place(slot, rows)[0], rows)
        scores = permute(scores, (*rows, kernel.letter))
        flat = f"{scores.at(ATOM)}.flatten(0, {len(rows) - 1}), {target.at(ATOM)}.flatten().long()"
        arguments = flat if len(rows) > 1 else f"{scores.text}, {target.at(ATOM)}.long()"
        if kernel.mean:
            return Fragment(f"fn.cross_entropy({arguments})")
        shape = f".view_as({target.text})" * (len(rows) > 1)
        return Fragment(f'fn.cross_entropy({arguments}, reduction="none"){shape}', rows)

    # `rms_norm` and `layer_norm` work on the last axis.
    def norm(self, kernel: Norm) -> Fragment:
        x = self.code(kernel.argument)
        x = permute(x, (*(dim for dim in x.dims if dim != kernel.letter), kernel.letter))
        gain = self.code(kernel.gain).text if kernel.gain is not None else "None"
        size, epsilon = self.context.size(kernel.letter), self.code(kernel.epsilon).text
        if kernel.kind == "rms":
            return Fragment(f"fn.rms_norm({x.text}, ({size},), {gain}, {epsilon})", x.dims)
        bias = self.code(kernel.bias).text if kernel.bias is not None else "None"
        return Fragment(f"fn.layer_norm({x.text}, ({size},), {gain}, {bias}, {epsilon})", x.dims)

    # `F.linear` on columns side by side, giving rows side by side.
    def linear(self, kernel: LinearMap) -> Fragment:
        x, rest = self.merge_columns(kernel)
        (rows,) = kernel.rows
        bias = f", {self.bias(kernel.biases[0], rows)}" if kernel.biases else ""
        text, sizes = self.multiply(kernel, x, self.matrix(kernel) + bias), ", ".join(map(self.context.size, rows))
        return Fragment(text if len(rows) == 1 else f"{text}.unflatten(-1, ({sizes}))", rest + rows)

    def multiply(self, kernel: LinearMap, x: Fragment, matrix: str) -> str:
        if not kernel.experts:
            return f"fn.linear({x.text}, {matrix})"
        self.context.helpers |= {"Grouped": None, "grouped": None}
        pairs = kernel.pairs and kernel.pairs.operation
        ends = f"ends_{pairs.mesh}" if isinstance(pairs, Sent) else "ends"
        return f"grouped({x.text}, {matrix}, {ends})"

    # The letters that are summed become one axis, the last.
    def merge_columns(self, kernel: LinearMap) -> tuple[Fragment, Dims]:
        x = self.context.cast(self.code(kernel.argument), "tensor")
        rest = tuple(dim for dim in x.dims if dim not in kernel.columns[0])
        x = permute(x, rest + kernel.columns[0])
        return Fragment(f"{x.at(ATOM)}.flatten({len(rest)})", (*rest, "")) if len(kernel.columns[0]) > 1 else x, rest

    # `F.linear` wants outputs by inputs; experts come first where there are some.
    def matrix(self, kernel: LinearMap) -> str:
        first, (rows,), (columns,) = kernel.experts, kernel.rows, kernel.columns
        if self.weight(kernel.weights[0]) in self.packed_weights:
            return f"{self.join_packed(kernel.weights)}.{'mT' if first else 'T'}"
        code = self.code(kernel.weights[0])
        turned = code.dims == first + columns + rows
        order = (columns, rows) if turned else (rows, columns)
        code = permute(code, first + order[0] + order[1])
        for position, some in enumerate(order, len(first)):
            if len(some) > 1:
                code = Fragment(f"{code.at(ATOM)}.flatten({position}, {position + len(some) - 1})")
        return f"{code.at(ATOM)}.{'mT' if first else 'T'}" if turned else code.text

    # Side by side in one parameter; a step of decoding may read some of those that the whole reads together.
    def join_packed(self, weights: Sequence[Value]) -> str:
        names = [self.weight(weight) for weight in weights]
        packing = next(candidate for candidate in self.shell.packings if names[0] in candidate.names)
        if names == packing.names:
            return f"self.{packing.name}"
        sizes = [multiply_sizes(map(self.context.read_constant, part.rows)) for part in packing.parts]
        ends = [" + ".join(sizes[:k]) for k in range(len(sizes) + 1)]
        parts = [f"self.{packing.name}[..., {ends[k]}:{ends[k + 1]}]" for k in map(packing.names.index, names)]
        return parts[0] if len(parts) == 1 else f"torch.cat(({', '.join(parts)}), -1)"

    def bias(self, value: Value, rows: Axes) -> str:
        if self.weight(value) in self.packed_weights:
            return self.join_packed([value])
        code = permute(self.code(value), rows)
        return f"{code.at(ATOM)}.flatten()" if len(rows) > 1 else code.text

    # ---------------------------------------------------------------------------------------------------- attention

    # Operands lie as (batch, heads, positions, features).
    def attention(self, kernel: Attention) -> Fragment:
        batch, heads, groups = kernel.batch, kernel.heads, kernel.groups
        queries = zip(kernel.queries, kernel.features, strict=True)
        keys, over = zip(*(find_own(operand, kernel) for operand in (*kernel.keys, kernel.value)), strict=True)
        q = self.concatenate(queries, (*batch, *heads, *groups, kernel.position), len(heads + groups))
        k = self.concatenate([*zip(keys[:-1], kernel.features, strict=True)], (*batch, *heads, over[0]), len(heads))
        v = self.concatenate([(keys[-1], (kernel.put,))], (*batch, *heads, over[0]), len(heads))
        if groups and not heads:
            k, v = (f"{x}[:, None]" if x.isidentifier() else f"({x})[:, None]" for x in (k, v))
        ring = kernel.value.operation
        if isinstance(ring, Ring):
            return self.ring_attention(kernel, ring, [q, k, v])
        if kernel.sink is not None:
            k, v = f"fn.pad({k}, (0, 0, 0, 1))", f"fn.pad({v}, (0, 0, 0, 1))"
        options = [*self.write_mask(kernel), *self.write_dropout(kernel), *self.write_scale(kernel)]
        options += ["enable_gqa=True"] if groups else []
        code = self.part_heads(kernel, f"fn.scaled_dot_product_attention({', '.join([q, k, v, *options])})")
        return code if kernel.dropout is None else self.context.draw_apart(code)

    def ring_attention(self, kernel: Attention, ring: Ring, sides: Sequence[str]) -> Fragment:
        helpers = ("MESH", "pass_on", "go_round", "squares", "scores_of", "dropped", "RingAttention", "ring_attention")
        self.context.helpers |= dict.fromkeys(helpers)
        near = ["math.inf" if e is None else code_turning(self.context, e).text for e in (ring.before, ring.after)]
        options = [*self.write_mask(replace(kernel, sink=None))]
        options += [f"sink={self.write_sink(kernel, kernel.sink)}"] if kernel.sink is not None else []
        options += [*self.write_dropout(kernel), *self.write_scale(kernel)]
        arguments = [*sides, f'"{ring.mesh}"', *near, *options]
        code = self.part_heads(kernel, f"ring_attention({', '.join(arguments)})")
        return code if kernel.dropout is None else self.context.draw_apart(code)

    def part_heads(self, kernel: Attention, text: str) -> Fragment:
        heads = (*kernel.heads, *kernel.groups)
        sizes = ", ".join(map(self.context.size, heads))
        opened = f".unflatten(1, ({sizes}))" if len(heads) > 1 else ""
        return Fragment(text + opened, (*kernel.batch, *heads, kernel.position, kernel.put))

    def write_scale(self, kernel: Attention) -> list[str]:
        return [f"scale={self.code(kernel.scale).text}"] if kernel.scale is not None else []

    def write_sink(self, kernel: Attention, sink: Value) -> str:
        column = self.merge_heads(kernel, self.context.fill(self.code(sink), sink.axes, "tensor"))
        together = (*kernel.heads, *kernel.groups)
        return align(column, (*kernel.batch, *("" for _ in together[:1]), kernel.position, kernel.over))

    # -------------------------------------------------------------------------------------------------- recurrences

    # Operands lie as (shared, positions, features).
    def chunk(self, kernel: Chunked) -> Fragment:
        self.context.helpers["chunked"] = None
        sides = ((kernel.query, kernel.summed), (kernel.key, kernel.summed), (kernel.value, kernel.put))
        texts = [self.lay_rows(kernel, side, last) for side, last in sides]
        more = (("decay", kernel.decay, None), ("probe", kernel.probe, kernel.summed), ("gain", kernel.gain, None))
        texts += [f"{name}={self.lay_rows(kernel, side, last)}" for name, side, last in more if side is not None]
        called, mesh = "chunked", self.context.find_mesh(kernel.letter)
        if mesh:
            self.context.helpers |= dict.fromkeys(["MESH", "beside", "Received", "HandedOn", "chunked_in_order"])
            called, texts = "chunked_in_order", [*texts[: len(sides)], f'"{mesh}"', *texts[len(sides) :]]
        text, sizes = f"{called}({', '.join(texts)})", ", ".join(map(self.context.size, kernel.put))
        opened = "[..., 0]" if not kernel.put else f".unflatten(-1, ({sizes}))" if len(kernel.put) > 1 else ""
        return Fragment(text + opened, (*kernel.shared, kernel.letter, *kernel.put))

    # Positions come after the shared axes, and the letters of the features last, as one axis.
    def lay_rows(self, kernel: Chunked, value: Value, last: Axes | None = None) -> str:
        code = self.context.cast(self.code(value), "tensor")
        own = (*(dim for dim in kernel.shared if dim in code.dims), kernel.letter)
        code = self.expand(code, own + (last or ())) if code.dims else self.context.fill(code, own + (last or ()), "tensor")
        if last is not None and len(last) != 1:
            code = Fragment(f"{code.at(ATOM)}.flatten({len(own)})" if last else f"{code.at(ATOM)}[..., None]", (*own, ""))
        return align(code, (*kernel.shared, kernel.letter, *code.dims[len(own) :]))

    def write_mask(self, kernel: Attention) -> Iterator[str]:
        if kernel.causal:
            yield from self.write_causal(kernel)
        elif kernel.mask is not None or kernel.sink is not None:
            square, together = (kernel.position, kernel.over), (*kernel.heads, *kernel.groups)
            mask = Fragment("0", (), "integer") if kernel.mask is None else self.code(kernel.mask)
            mask = self.context.cast(mask, "tensor") if mask.dims else self.context.fill(mask, square, "tensor")
            text, dims = align(mask, (*kernel.batch, *together[:1], *square)), {*mask.dims}
            if kernel.sink is not None:
                text, dims = f"with_sink({text}, {self.write_sink(kernel, kernel.sink)})", dims | {*kernel.sink.axes}
                self.context.helpers["with_sink"] = None
            lacks = dims & set(together) and not dims & set(kernel.batch)
            yield f"attn_mask={text}{'[None]' * bool(lacks)}"  # of three axes the kernels of a CPU know nothing

    def merge_heads(self, kernel: Attention, code: Fragment) -> Fragment:
        heads = (*kernel.heads, *kernel.groups)
        if not set(heads) & set(code.dims):
            return code
        before = tuple(dim for dim in kernel.batch if dim in code.dims)
        after = tuple(dim for dim in (kernel.position,) if dim in code.dims)
        code, place = self.expand(code, (*before, *heads, *after)), len(before)
        if len(heads) > 1:
            places = f"{place}, {place + len(heads) - 1}" if before or after else ""
            code = Fragment(f"{code.at(ATOM)}.flatten({places})", kind=code.kind)
        return replace(code, dims=(*before, "", *after))

    def write_causal(self, kernel: Attention) -> Sequence[str]:
        return ("is_causal=True",)

    def write_dropout(self, kernel: Attention) -> Iterator[str]:
        if kernel.dropout is not None:
            yield f"dropout_p={self.code(kernel.dropout).at(PRODUCT)} if self.training else 0.0"

    # Heads become one axis after the batch, whatever their letters. Features of several sides follow each other.
    def concatenate(self, sides: Iterator[tuple[Value, Axes]] | Sequence[tuple[Value, Axes]], dims: Dims, heads: int) -> str:
        texts = []
        for value, last in sides:
            code = self.expand(self.context.cast(self.code(value), "tensor"), (*dims, *last))
            code = Fragment(f"{code.at(ATOM)}.flatten({len(dims)})") if len(last) > 1 else code
            texts.append(code.text if heads < 2 else f"{code.at(ATOM)}.flatten(1, {heads})")
        return texts[0] if len(texts) == 1 else f"torch.cat(({', '.join(texts)}), -1)"

    def expand(self, code: Fragment, dims: Dims) -> Fragment:
        if set(code.dims) == set(dims):
            return permute(code, dims)
        sizes = ", ".join("-1" if dim in code.dims else self.context.size(dim) for dim in dims)
        return Fragment(f"{align(code, dims, ATOM)}.expand({sizes})", dims)
