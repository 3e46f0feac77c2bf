"""Emits what ranks exchange: calls of a few functions of torch.distributed that stand in the file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Protocol

from einformer.interpreters.torch.fragments import ATOM, SUM, Context, Dims, Fragment, list_conditions, multiply_sizes, permute
from einformer.language.calls import axis_of
from einformer.language.tree import Name
from einformer.program.collectives import (
    AllGather,
    AllGatherVary,
    AllReduce,
    Collective,
    Combine,
    Dispatch,
    Inside,
    Largest,
    Near,
    Neighbours,
    Own,
    Placed,
    Rank,
    ReduceScatter,
    Ring,
    Sent,
    Shifted,
    Vary,
)
from einformer.program.kernels import PAIR, Routed
from einformer.program.operations import Recur, Value
from einformer.program.sharding import Sharding, own

# The functions with a gradient that exchange along a `dim`, or by the pairs that are `sent`: what they say, forward, backward.
_EXCHANGES = {
    "AllGather": ("All ranks' numbers along a dim. Each rank's gradient is its part.", "gathered(x, dim, axis)", "part"),
    "AllGatherVary": (
        "All ranks' numbers along a dim, of which each makes something else. A rank's gradient is its part of their sum.",
        "gathered(x, dim, axis)",
        "scattered",
    ),
    "ReduceScatter": (
        "A rank's part along a dim of the sum of all ranks' parts. The gradient is gathered from all ranks.",
        "scattered(x, dim, axis)",
        "gathered",
    ),
    "Own": (
        "A rank's part of a tensor along a dim. The gradient is gathered from all ranks.",
        "part(x, dim, axis).clone()",
        "gathered",
    ),
    "Dispatch": ("Pairs at the ranks of their experts. Their gradients come back.", "dispatched(x, sent, axis)", "combined"),
    "Combine": (
        "Pairs back at the ranks of their rows. Their gradients are dispatched.",
        "combined(x, sent, axis)",
        "dispatched",
    ),
}


def _write_exchange(name: str, says: str, forward: str, backward: str) -> str:
    place, argument = ("sent", "sent") if "sent" in forward else ("dim", "dim: int")
    return f'''class {name}(torch.autograd.Function):
    """{says}"""

    @staticmethod
    def forward(ctx, x: Tensor, {argument}, axis: str) -> Tensor:
        ctx.{place}, ctx.axis = {place}, axis
        return {forward}

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None, None]:
        return {backward}(gradient, ctx.{place}, ctx.axis), None, None
'''


HELPERS = {
    "MESH": """MESH: DeviceMesh  # the ranks; its axes are named. Set it before the model computes.
""",
    "rank_of": '''def rank_of(axis: str) -> int:
    """The number of this rank along an axis of the mesh."""
    return MESH.get_local_rank(axis)
''',
    "total": '''def total(x: Tensor, axis: str) -> Tensor:
    """The sum over the ranks of an axis of the mesh."""
    x = x.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(x, group=MESH.get_group(axis))
    return x
''',
    "gathered": '''def gathered(x: Tensor, dim: int, axis: str) -> Tensor:
    """The tensors of all ranks of an axis of the mesh, one after the other along a dim."""
    group, x = MESH.get_group(axis), x.contiguous()
    parts = [torch.empty_like(x) for _ in range(dist.get_world_size(group))]
    dist.all_gather(parts, x, group=group)
    return torch.cat(parts, dim)
''',
    "scattered": '''def scattered(x: Tensor, dim: int, axis: str) -> Tensor:
    """This rank's part, along a dim, of the sum over the ranks of an axis of the mesh."""
    group = MESH.get_group(axis)
    parts = x.chunk(dist.get_world_size(group), dim)
    own = torch.empty_like(parts[0], memory_format=torch.contiguous_format)
    reduce_scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor  # torch before 2.13
    reduce_scatter(own, torch.cat(parts), group=group)
    return own
''',
    "part": '''def part(x: Tensor, dim: int, axis: str) -> Tensor:
    """This rank's part of a tensor that is split along a dim."""
    return x.chunk(dist.get_world_size(MESH.get_group(axis)), dim)[MESH.get_local_rank(axis)]
''',
    "draw_apart": '''def draw_apart(draw, training: bool, *axes: str) -> Tensor:
    """What `draw` gives by random numbers of this rank's own. Afterwards all ranks draw alike, if they did before."""
    if not training:
        return draw()
    seed = int(torch.randint(2**31, ()))
    for axis in axes:
        seed = seed * dist.get_world_size(MESH.get_group(axis)) + MESH.get_local_rank(axis)
    with torch.random.fork_rng([torch.cuda.current_device()] if torch.cuda.is_available() else []):
        torch.manual_seed(seed)
        return draw()
''',
    "AllReduce": '''class AllReduce(torch.autograd.Function):
    """The sum of all ranks' parts. Each part has the gradient of the sum."""

    @staticmethod
    def forward(ctx, x: Tensor, axis: str) -> Tensor:
        return total(x, axis)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient, None
''',
    "Vary": '''class Vary(torch.autograd.Function):
    """The same numbers, of which each rank makes something else. Their gradient is the sum of all ranks'."""

    @staticmethod
    def forward(ctx, x: Tensor, axis: str) -> Tensor:
        ctx.axis = axis
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None]:
        return total(gradient, ctx.axis), None
''',
    "near": '''def near(size: int, before: float, after: float, axis: str, rank: int | None = None) -> range:
    """The numbers that a rank reads of an index: its own, as many as it has, and those near them."""
    rank = MESH.get_local_rank(axis) if rank is None else rank
    first, end = rank * size - max(before, 0), (rank + 1) * size + max(after, 0)
    return range(int(max(first, 0)), math.ceil(min(end, size * dist.get_world_size(MESH.get_group(axis)))))
''',
    "numbers_near": '''def numbers_near(size: int, before: float, after: float, axis: str, device: torch.device) -> Tensor:
    """The same as a tensor."""
    numbers = near(size, before, after, axis)
    return torch.arange(numbers.start, numbers.stop, device=device)
''',
    "overlaps": '''def overlaps(size: int, before: float, after: float, axis: str) -> tuple[list[slice], list[int]]:
    """For each rank of an axis of the mesh the part of this rank's numbers that it reads, and how many this one reads of it."""
    here, ranks = MESH.get_local_rank(axis), range(dist.get_world_size(MESH.get_group(axis)))

    def overlap(reader: int, owner: int) -> slice:
        numbers, first = near(size, before, after, axis, reader), owner * size
        start, stop = max(numbers.start - first, 0), min(numbers.stop - first, size)
        return slice(start, max(start, stop) if reader != owner else start)

    going, coming = [overlap(rank, here) for rank in ranks], [overlap(here, rank) for rank in ranks]
    return going, [part.stop - part.start for part in coming]
''',
    "Neighbours": '''class Neighbours(torch.autograd.Function):
    """This rank's numbers along a dim, and those of others that are near. A rank's gradient is the sum of all that read it."""

    @staticmethod
    def forward(ctx, x: Tensor, dim: int, before: float, after: float, axis: str) -> Tensor:
        x = x.movedim(dim, 0)
        ctx.dim, ctx.axis, ctx.size = dim, axis, len(x)
        ctx.going, ctx.coming = overlaps(len(x), before, after, axis)
        y, earlier = x.new_empty(sum(ctx.coming), *x.shape[1:]), sum(ctx.coming[: MESH.get_local_rank(axis)])
        sent = torch.cat([x[part] for part in ctx.going])
        lengths = [part.stop - part.start for part in ctx.going]
        dist.all_to_all_single(y, sent, ctx.coming, lengths, group=MESH.get_group(axis))
        return torch.cat([y[:earlier], x, y[earlier:]]).movedim(0, dim)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None, None, None, None]:
        gradient, earlier = gradient.movedim(ctx.dim, 0), sum(ctx.coming[: MESH.get_local_rank(ctx.axis)])
        x = gradient[earlier : earlier + ctx.size].clone()
        lengths = [part.stop - part.start for part in ctx.going]
        sent = torch.cat([gradient[:earlier], gradient[earlier + ctx.size :]])
        y = x.new_empty(sum(lengths), *x.shape[1:])
        dist.all_to_all_single(y, sent, lengths, ctx.coming, group=MESH.get_group(ctx.axis))
        for part, own in zip(ctx.going, y.split(lengths)):
            x[part] += own
        return x.movedim(0, ctx.dim), None, None, None, None
''',
    "pass_on": '''def pass_on(tensors: list[Tensor], axis: str) -> tuple[list[Tensor], list]:
    """The tensors of the rank before, once the work is done, while the rank after receives those of this one."""
    group, here = MESH.get_group(axis), MESH.get_local_rank(axis)
    ranks = dist.get_world_size(group)
    after, before = (dist.get_global_rank(group, (here + step) % ranks) for step in (1, -1))
    coming = [torch.empty_like(x) for x in tensors]
    sends = [dist.P2POp(dist.isend, x, after, group) for x in tensors]
    return coming, dist.batch_isend_irecv([*sends, *(dist.P2POp(dist.irecv, x, before, group) for x in coming)])
''',
    "go_round": '''def go_round(tensors: list[Tensor], axis: str):
    """The number of each rank with its tensors, from this one's back: the next ones come meanwhile."""
    ranks, here = dist.get_world_size(MESH.get_group(axis)), MESH.get_local_rank(axis)
    for turn in range(ranks):
        coming, works = pass_on(tensors, axis) if turn + 1 < ranks else ([], [])
        yield (here - turn) % ranks, tensors
        for work in works:
            work.wait()
        tensors = coming
''',
    "squares": '''def squares(size: int, owner: int, before: float, after: float, axis: str):
    """Where this rank's queries meet keys of an owner that are near: queries, keys of the owner, and these among all keys."""
    first, start = MESH.get_local_rank(axis) * size, owner * size
    if start - (first + size - 1) <= after and first - (start + size - 1) <= before:
        yield slice(0, size), slice(0, size), slice(start, start + size)
''',
    "scores_of": '''def scores_of(q: Tensor, k: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    """The scores of queries (batch, key heads, groups, queries, features) at keys (batch, key heads, keys, features)."""
    x = (q.flatten(2, 3) @ k.mT).unflatten(2, q.shape[2:4]) * scale
    return (x if mask is None else x + mask).to(torch.promote_types(q.dtype, torch.float32))
''',
    "dropped": '''def dropped(x: Tensor, drop: float, seed: int) -> Tensor:
    """What dropout leaves of a tensor. With one seed it drops the same numbers, forward and backward."""
    if not drop:
        return x
    left = torch.rand(x.shape, generator=torch.Generator(x.device).manual_seed(seed), device=x.device) >= drop
    return x * left / (1 - drop or 1)
''',
    "RingAttention": '''class RingAttention(torch.autograd.Function):
    """Attention to the keys of all ranks, whose blocks go round (Liu et al. 2023). After each block a query has the largest
    score so far, and the sums of exponentials and of values, relative to it. Backward, gradients of blocks go round too."""

    @staticmethod
    def forward(ctx, q, k, v, mask, sink, scale: float, before: float, after: float, drop: float, axis: str) -> Tensor:
        seed = int(torch.randint(2**62, ())) if drop else 0
        kind = torch.promote_types(q.dtype, torch.float32)
        largest = torch.full((*q.shape[:-1], 1), -math.inf, dtype=kind, device=q.device)
        sums, y = torch.zeros_like(largest), torch.zeros((*q.shape[:-1], v.shape[-1]), dtype=kind, device=q.device)
        if sink is not None:  # the score of one more key, whose value is zero
            largest, sums = largest.clone().copy_(sink), torch.ones_like(sums)
        for owner, (k_t, v_t) in go_round([k, v], axis):
            for rows, columns, numbers in squares(q.shape[-2], owner, before, after, axis):
                own = None if mask is None else mask[..., rows, numbers]
                x = scores_of(q[..., rows, :], k_t[..., columns, :], own, scale)
                new = torch.maximum(largest[..., rows, :], x.amax(-1, keepdim=True))
                base = new.masked_fill(new == -math.inf, 0)  # a query may have seen nothing yet
                p, left = torch.exp(x - base), torch.exp(largest[..., rows, :] - base)
                weights = dropped(p, drop, seed + numbers.start * q.shape[-2] + rows.start).to(v.dtype)
                values = (weights.flatten(2, 3) @ v_t[..., columns, :]).unflatten(2, p.shape[2:4])
                sums[..., rows, :] = left * sums[..., rows, :] + p.sum(-1, keepdim=True)
                y[..., rows, :] = left * y[..., rows, :] + values
                largest[..., rows, :] = new
        nothing = sums == 0
        y = (y / sums.masked_fill(nothing, 1)).to(v.dtype)
        log = (largest + torch.log(sums)).masked_fill(nothing, math.inf)
        ctx.save_for_backward(q, k, v, mask, sink, y, log)
        ctx.scale, ctx.near, ctx.drop, ctx.seed, ctx.axis = scale, (before, after), drop, seed, axis
        return y

    @staticmethod
    def backward(ctx, slope: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, mask, sink, y, log = ctx.saved_tensors
        inner = (slope * y).sum(-1, keepdim=True)
        q_slope, mask_slope = torch.zeros_like(q), None
        if mask is not None and ctx.needs_input_grad[3]:
            mask_slope = torch.zeros(mask.shape, dtype=mask.dtype, device=mask.device)
        slopes = [torch.zeros_like(k), torch.zeros_like(v)]
        for owner, (k_t, v_t) in go_round([k, v], ctx.axis):
            for rows, columns, numbers in squares(q.shape[-2], owner, *ctx.near, ctx.axis):
                own = None if mask is None else mask[..., rows, numbers]
                q_r, k_c, slope_r = q[..., rows, :], k_t[..., columns, :], slope[..., rows, :].flatten(2, 3)
                p = torch.exp(scores_of(q_r, k_c, own, ctx.scale) - log[..., rows, :])
                given = ctx.drop, ctx.seed + numbers.start * q.shape[-2] + rows.start
                back = dropped((slope_r @ v_t[..., columns, :].mT).unflatten(2, p.shape[2:4]), *given)
                x = (p * (back - inner[..., rows, :])).to(q.dtype)
                rows_of_all = x.flatten(2, 3) * ctx.scale
                q_slope[..., rows, :] += (rows_of_all @ k_c).unflatten(2, p.shape[2:4])
                slopes[0][..., columns, :] += rows_of_all.mT @ q_r.flatten(2, 3)
                slopes[1][..., columns, :] += dropped(p, *given).to(v.dtype).flatten(2, 3).mT @ slope_r
                if mask_slope is not None:
                    mask_slope[..., rows, numbers] += x.sum_to_size(mask_slope[..., rows, numbers].shape)
            if dist.get_world_size(MESH.get_group(ctx.axis)) > 1:  # after all turns they are at home
                slopes, works = pass_on(slopes, ctx.axis)
                for work in works:
                    work.wait()
        sink_slope = None if sink is None else -(torch.exp(sink - log) * inner).sum_to_size(sink.shape).to(sink.dtype)
        return q_slope, *slopes, mask_slope, sink_slope, None, None, None, None, None
''',
    "ring_attention": '''def ring_attention(q, k, v, axis, before, after, attn_mask=None, dropout_p=0.0, sink=None, scale=None):
    """scaled_dot_product_attention where each rank has its own keys and values. A query sees none farther before or after."""
    groups, ranks = (k.shape[1], q.shape[1] // k.shape[1]), dist.get_world_size(MESH.get_group(axis))

    def split(x: Tensor | None) -> Tensor | None:
        return x if x is None or x.dim() < 3 else x.unflatten(-3, groups if x.shape[-3] > 1 else (1, 1))

    mask = None if attn_mask is None else attn_mask.expand(*attn_mask.shape[:-2], q.shape[2], ranks * k.shape[2])
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    given = q.unflatten(1, groups), k.contiguous(), v.contiguous(), split(mask), split(sink)
    return RingAttention.apply(*given, scale, before, after, dropout_p, axis).flatten(1, 2)
''',
    "beside": '''def beside(axis: str, step: int) -> int | None:
    """The rank that stands so many after this one along an axis of the mesh, if there is one."""
    group, rank = MESH.get_group(axis), MESH.get_local_rank(axis) + step
    return dist.get_global_rank(group, rank) if 0 <= rank < dist.get_world_size(group) else None
''',
    "Received": '''class Received(torch.autograd.Function):
    """The state that the rank before ends with; its gradient goes back. The first rank starts from what it is given."""

    @staticmethod
    def forward(ctx, state: Tensor, axis: str) -> Tensor:
        ctx.axis, ctx.before, state = axis, beside(axis, -1), state.clone()
        if ctx.before is not None:
            dist.recv(state, ctx.before, group=MESH.get_group(axis))
        return state

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None]:
        if ctx.before is not None:
            dist.send(gradient.contiguous(), ctx.before, group=MESH.get_group(ctx.axis))
        return gradient, None
''',
    "HandedOn": '''class HandedOn(torch.autograd.Function):
    """What a rank computes, whose last state the rank after receives; the gradient of that state comes back. What is exchanged
    has a gradient on each rank, even where no step of this one reads it: the others wait for it."""

    @staticmethod
    def forward(ctx, state: Tensor, y: Tensor, axis: str, *exchanged: Tensor) -> Tensor:
        ctx.axis, ctx.after, ctx.state, ctx.count = axis, beside(axis, 1), torch.zeros_like(state), len(exchanged)
        if ctx.after is not None:
            dist.send(state.contiguous(), ctx.after, group=MESH.get_group(axis))
        return y.view_as(y)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.after is not None:
            dist.recv(ctx.state, ctx.after, group=MESH.get_group(ctx.axis))
        return ctx.state, gradient, None, *[None] * ctx.count
''',
    "routes": '''def routes(ends: Tensor, axis: str) -> tuple[tuple[list[int], list[int], Tensor], Tensor, Tensor]:
    """Where the pairs go whose experts other ranks of an axis of the mesh have: how many go to each rank and come from each,
    and the order of those that come, by expert; their experts, which are numbered from zero, and where each expert's end."""
    group = MESH.get_group(axis)
    counts = torch.diff(ends, prepend=ends.new_zeros(1))
    coming = torch.empty_like(counts)
    dist.all_to_all_single(coming, counts, group=group)
    both = (each.view(dist.get_world_size(group), -1).sum(1).cumsum(0).tolist() for each in (counts, coming))
    going, got = ([end - start for start, end in zip([0, *stops], stops)] for stops in both)
    own = coming.view(len(got), -1)
    expert = torch.arange(own.shape[1], device=own.device).repeat(len(got)).repeat_interleave(coming, output_size=sum(got))
    order = expert.argsort(stable=True)
    return (going, got, order), expert[order], own.sum(0).cumsum(0)
''',
    "dispatched": '''def dispatched(x: Tensor, sent: tuple[list[int], list[int], Tensor], axis: str) -> Tensor:
    """The pairs of this rank's experts, expert after expert."""
    going, coming, order = sent
    y = x.new_empty(sum(coming), *x.shape[1:])
    dist.all_to_all_single(y, x.contiguous(), coming, going, group=MESH.get_group(axis))
    return y[order]
''',
    "combined": '''def combined(y: Tensor, sent: tuple[list[int], list[int], Tensor], axis: str) -> Tensor:
    """The pairs of this rank's rows, which came back from the ranks of their experts."""
    going, coming, order = sent
    x = y.new_empty(sum(going), *y.shape[1:])
    dist.all_to_all_single(x, torch.empty_like(y).index_copy(0, order, y), going, coming, group=MESH.get_group(axis))
    return x
''',
    "largest": '''@torch.no_grad()
def largest(x: Tensor, dims: tuple[int, ...], axis: str) -> Tensor:
    """The largest numbers along dims, and over the ranks of an axis of the mesh."""
    x = torch.amax(x, dims) if dims else x.clone()
    dist.all_reduce(x, dist.ReduceOp.MAX, group=MESH.get_group(axis))
    return x
''',
} | {name: _write_exchange(name, *row) for name, row in _EXCHANGES.items()}

# Of an axis of the mesh whose ranks have two pieces of positions, and of any other.
IN_PIECES = {
    "pieces_of": '''def pieces_of(rank: int, axis: str) -> tuple[int, ...]:
    """The pieces that a rank has of what is split over an axis of the mesh: of positions one from each end."""
    return (rank, 2 * dist.get_world_size(MESH.get_group(axis)) - 1 - rank) if axis in [AXES] else (rank,)
''',
    "parts_of": '''def parts_of(x: Tensor, dim: int, axis: str) -> list[Tensor]:
    """The part of each rank of a tensor that is split along a dim: its pieces."""
    ranks = range(dist.get_world_size(MESH.get_group(axis)))
    pieces = x.chunk(len(ranks) * len(pieces_of(0, axis)), dim)
    return [torch.cat([pieces[number] for number in pieces_of(rank, axis)], dim) for rank in ranks]
''',
    "places_of": '''def places_of(size: int, axis: str, device: torch.device) -> Tensor:
    """The numbers of a split index that this rank has, in its order."""
    pieces = pieces_of(MESH.get_local_rank(axis), axis)
    own = torch.arange(size // len(pieces), device=device)
    return torch.cat([number * len(own) + own for number in pieces])
''',
    "gathered": '''def gathered(x: Tensor, dim: int, axis: str) -> Tensor:
    """The pieces of all ranks of an axis of the mesh, in their order along a dim."""
    group, x = MESH.get_group(axis), x.contiguous()
    parts = [torch.empty_like(x) for _ in range(dist.get_world_size(group))]
    dist.all_gather(parts, x, group=group)
    owned = [pieces_of(rank, axis) for rank in range(len(parts))]
    pieces = {number: piece for part, own in zip(parts, owned) for number, piece in zip(own, part.chunk(len(own), dim))}
    return torch.cat([pieces[number] for number in sorted(pieces)], dim)
''',
    "scattered": '''def scattered(x: Tensor, dim: int, axis: str) -> Tensor:
    """This rank's part, along a dim, of the sum over the ranks of an axis of the mesh."""
    parts = parts_of(x, dim, axis)
    own = torch.empty_like(parts[0], memory_format=torch.contiguous_format)
    reduce_scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor  # torch before 2.13
    reduce_scatter(own, torch.cat(parts), group=MESH.get_group(axis))
    return own
''',
    "part": '''def part(x: Tensor, dim: int, axis: str) -> Tensor:
    """This rank's part of a tensor that is split along a dim."""
    return parts_of(x, dim, axis)[MESH.get_local_rank(axis)]
''',
    "squares": '''def squares(size: int, owner: int, before: float, after: float, axis: str):
    """Where this rank's queries meet keys of an owner that are near: queries, keys of the owner, and these among all keys."""
    queries, keys = pieces_of(MESH.get_local_rank(axis), axis), pieces_of(owner, axis)
    size = size // len(keys)
    for row, query in enumerate(queries):
        for column, key in enumerate(keys):
            first, start = query * size, key * size
            if start - (first + size - 1) <= after and first - (start + size - 1) <= before:
                rows, columns = (slice(place * size, (place + 1) * size) for place in (row, column))
                yield rows, columns, slice(start, start + size)
''',
}


# A file of a map with a zigzag needs the pieces always.
def write_helpers(sharding: Sharding | None) -> dict[str, str]:
    if sharding is None or not sharding.zigzag:
        return HELPERS
    axes = ", ".join(f'"{sharding.axis(letter)}"' for letter in sorted(sharding.zigzag))
    return HELPERS | {name: text.replace("AXES", axes) for name, text in IN_PIECES.items()}


_CALLED = {
    AllReduce: ("total",),
    Vary: ("total",),
    AllGather: ("part", "gathered"),
    AllGatherVary: ("scattered", "gathered"),
    ReduceScatter: ("scattered", "gathered"),
    Neighbours: ("near", "overlaps"),
    Own: ("part", "gathered"),
    Dispatch: ("dispatched", "combined"),
    Combine: ("dispatched", "combined"),
    Largest: (),
}


class Emits(Protocol):
    """What is read of an emitter."""

    context: Context

    def code(self, value: Value, wanted: Dims | None = None) -> Fragment: ...

    def is_token(self, value: Value) -> bool: ...


# Returns the code of an exchange, or of the number of a rank; None for other operations.
def code_exchange(emitter: Emits, value: Value, wanted: Dims | None) -> Fragment | None:
    helpers = emitter.context.helpers
    match value.operation:
        case Rank(mesh):
            helpers |= {"MESH": None, "rank_of": None}
            return Fragment(f'rank_of("{mesh}")', (), "integer")
        case Placed(letter, mesh):
            helpers |= {"MESH": None, "places_of": None}
            emitter.context.needs["device"] = None
            return Fragment(f'places_of({emitter.context.size(letter)}, "{mesh}", device)', (letter,), "integer")
        case Near((letter, _)):
            helpers |= dict.fromkeys(["MESH", "near", *["numbers_near"] * bool(value.axes)])
            if not value.axes:
                return Fragment(f"near({emitter.context.write_window(letter)}).start", (), "integer")
            emitter.context.needs["device"] = None
            return Fragment(f"numbers_near({emitter.context.write_window(letter)}, device)", (letter,), "integer")
        case Shifted(argument, mesh, label):
            helpers |= {"MESH": None, "rank_of": None}
            sizes = multiply_sizes(map(emitter.context.size, label))
            number = emitter.code(argument, wanted)
            return replace(number, text=f'{number.at(SUM)} - rank_of("{mesh}") * {sizes}', level=SUM)
        case Inside(argument, size):
            code = emitter.code(argument, wanted)
            return code if emitter.is_token(argument) else _check_inside(code, size, emitter.context)
        case Collective(argument, mesh) as operation:
            renamed = dict(zip(*_find_letters(operation)[::-1], strict=True))
            wanted = None if wanted is None else tuple(renamed.get(letter, letter) for letter in wanted)
            code = emitter.code(argument, wanted)
            code = code if code.kind == "condition" else emitter.context.cast(code, value.kind)
            helpers |= dict.fromkeys(("MESH", *_CALLED[type(operation)]))
            near = f", {', '.join(emitter.context.windows[operation.whole])}" if isinstance(operation, Neighbours) else ""
            return _code_call(operation, code, mesh, helpers, near)
        case _:
            return None


def _check_inside(code: Fragment, size: int, context: Context) -> Fragment:
    context.helpers["inside"] = None
    number = code.text if code.kind == "integer" else f"{code.at(ATOM)}.long()"
    return Fragment(f"inside({', '.join([number, str(size), *list_conditions(context, code)])})", code.dims, "integer")


def _code_call(operation: Collective, code: Fragment, mesh: str, helpers: dict[str, None], near: str) -> Fragment:
    name, renamed = type(operation).__name__, dict(zip(*_find_letters(operation), strict=True))
    more = "".join(f", {code.dims.index(old)}{near}" for old in renamed)
    dims = tuple(renamed.get(dim, dim) for dim in code.dims)
    if isinstance(operation, Largest):
        axes = "".join(f"{code.dims.index(letter)}, " for letter in operation.letters).removesuffix(
            " " * (len(operation.letters) > 1)
        )
        name, more, dims = "largest", f", ({axes.strip()})", tuple(dim for dim in dims if dim not in operation.letters)
    if isinstance(operation, Dispatch):  # rows are sent whole
        (pair,) = renamed
        code = permute(code, (pair, *(dim for dim in code.dims if dim != pair)))
        more, dims = f", sent_{mesh}", tuple(renamed.get(dim, dim) for dim in code.dims)
    helpers[name] = None
    called = name if name == "largest" else f"{name}.apply"
    return Fragment(f'{called}({code.text}{more}, "{mesh}")', dims, code.kind)


# Returns the index along which numbers are gathered or taken, and the one under which they are then.
def _find_letters(operation: Collective) -> tuple[Dims, Dims]:
    match operation:
        case AllGather(letter=old, whole=new) | Own(whole=old, letter=new) | ReduceScatter(whole=old, letter=new):
            return (old,), (new,)
        case Combine():
            return (own(PAIR),), (PAIR,)
        case Dispatch():
            return (PAIR,), (own(PAIR),)
        case _:
            return (), ()


def describe_exchange(value: Value, context: Context) -> Iterator[str]:
    operation = value.operation
    if isinstance(operation, Recur) and (mesh := context.find_mesh(operation.letter)):
        yield f"over {mesh}: starts from the last {operation.letter} of the rank before; backward their gradients go back"
    if not isinstance(operation, Collective):
        return
    numbers = " ".join(_write_size(letter, context) for letter in operation.argument.axes)
    mesh = operation.mesh
    match operation:
        case AllReduce(letters=letters):
            yield f"over {mesh}: all-reduce of the sums over {', '.join(letters)}, {numbers} numbers"
        case Vary():
            yield f"over {mesh}: backward an all-reduce of {numbers} numbers"
        case ReduceScatter(letters=letters, whole=whole):
            sums = f"the sums over {', '.join(letters)}"
            yield f"over {mesh}: reduce-scatter along {whole} of {sums}, {numbers} numbers of each rank"
        case Neighbours(letter=letter, whole=whole, moves=moves):
            sides = zip(context.windows[whole], ("before", "after"), strict=True)
            near = " and ".join(f"{number} {side}" for number, side in sides if number != "0")
            yield (
                f"over {mesh}: the numbers of neighbours along {axis_of(letter)}, {near} those of each rank"
                + "; backward as many" * moves
            )
        case Ring(letter=letter, moves=moves):
            yield f"over {mesh}: {numbers} numbers of each rank go round" + "; backward these and their gradients" * moves
        case AllGather(letter=letter):
            backward = "; backward a reduce-scatter" * isinstance(operation, AllGatherVary)
            yield f"over {mesh}: all-gather along {axis_of(letter)} of {numbers} numbers of each rank{backward}"
        case Own(whole=whole, moves=moves):
            yield f"over {mesh}: a rank's own {axis_of(whole)}" + f"; backward an all-gather to {numbers} numbers" * moves
        case Sent(Value(operation=Routed(letter=letter))):
            yield f"over {mesh}: all-to-all of {_write_size(letter, context)} numbers: how many pairs each expert has"
        case Combine(moves=moves):
            yield f"over {mesh}: all-to-all of {numbers} numbers back to their rows" + "; backward as many" * moves
        case Dispatch(moves=moves):
            yield f"over {mesh}: all-to-all of {numbers} numbers to their experts" + "; backward as many" * moves
        case Largest(letters=letters):
            rest = " ".join(_write_size(letter, context) for letter in value.axes)
            yield f"over {mesh}: all-reduce of the largest{' along ' * bool(letters)}{', '.join(letters)}, {rest} numbers"


def _write_size(letter: str, context: Context) -> str:
    axis = context.legend.axis(letter)
    if axis is None:
        return "pairs"  # of a row and an expert
    if not isinstance(axis.size, Name) or context.sharding is None:
        return str(context.legend.length(letter))
    return context.sharding.sized(letter, axis.size.name).replace(" ", "")
