"""What a file defines where chosen experts alone compute: pairs of rows and experts, and the product by expert."""

from __future__ import annotations

HELPERS = {
    "routed": '''def routed(p_rx: Tensor, count: int) -> tuple[Tensor, ...]:
    """The pairs of a row and an expert with a weight, expert after expert: their rows, their experts; where the pairs of each
    expert end; and where those of each row stand."""
    count = min(count, p_rx.shape[1])
    expert, order = torch.topk(torch.abs(p_rx.detach()), count).indices.flatten().sort()
    ends = torch.searchsorted(expert, torch.arange(p_rx.shape[1], device=p_rx.device), right=True)
    return order // count, expert, ends, torch.argsort(order).unflatten(0, p_rx.shape[:1] + (count,))
''',
    "Grouped": '''class Grouped(torch.autograd.Function):
    """Rows times the matrix of their expert; those of each expert end at its place in `ends`."""

    @staticmethod
    def forward(ctx, x, matrices, ends):
        ctx.save_for_backward(x, matrices)
        ctx.ends = [0, *ends.tolist()]
        return Grouped.products(x, matrices.mT, ctx.ends)

    @staticmethod
    def backward(ctx, slope):
        x, matrices = ctx.saved_tensors
        slopes = torch.empty_like(matrices)
        for expert, (start, end) in enumerate(zip(ctx.ends, ctx.ends[1:])):
            torch.mm(slope[start:end].T, x[start:end], out=slopes[expert])
        return Grouped.products(slope, matrices, ctx.ends), slopes, None

    @staticmethod
    def products(x, matrices, ends):
        y = x.new_empty(len(x), matrices.shape[2])
        for expert, (start, end) in enumerate(zip(ends, ends[1:])):
            if start < end:
                torch.mm(x[start:end], matrices[expert], out=y[start:end])
        return y
''',
    "grouped": '''def grouped(x: Tensor, matrices: Tensor, ends: Tensor) -> Tensor:
    """Rows times the matrix of their expert: one kernel where there is one, else a product for each expert that has rows."""
    if x.is_cuda and x.dtype == torch.bfloat16 and matrices.shape[1] % 8 == matrices.shape[2] % 8 == 0:
        return fn.grouped_mm(x, matrices.mT, offs=ends.to(torch.int32))
    if not torch.compiler.is_compiling():
        return Grouped.apply(x.to(matrices.dtype), matrices, ends)
    with torch._dynamo.patch_dynamo_config(capture_scalar_outputs=True):
        sizes = torch.diff(ends, prepend=ends.new_zeros(1)).tolist()
        return torch.cat([rows @ matrix.T for rows, matrix in zip(x.split(sizes), matrices)])
''',
}
