"""Which slips in what is said of PyTorch's memory would the tests notice? As in `tests.mutants`."""

from __future__ import annotations

from tests.mutants import Mutant


def _mutant(name: str, file: str, old: str, new: str, *killers: str) -> Mutant:
    places = tuple(f"tests/test_saved.py::{killer}" for killer in killers)
    return Mutant(name, f"einformer/interpreters/torch/{file}.py", old, new, places)


_ROW = "test_a_row_is_what_the_hooks_see"
_PUBLISHED = "test_published_sizes_are_what_the_hooks_see"
_PROFILER = "test_mem_tracker_and_we_see_what_the_profiler_sees"

MUTANTS = (
    # ----------------------------------------------------------------------------------------------- what a row keeps
    _mutant(
        "a product keeps both sides whatever is wanted", "autograd",
        '("mul", "0:1 1:0", ', '("mul", "0 1", ',
        f"{_ROW}[dropout-float32]",
    ),
    _mutant(
        "a quotient forgets what is divided", "autograd",
        '("div", "1 0:1", ', '("div", "1", ',
        f"{_ROW}[div-float32]", f"{_PUBLISHED}[gpt2-notation-float32]",
    ),
    _mutant(
        "a GELU keeps its result", "autograd",
        '("clamp gelu log silu softplus", "0"', '("clamp gelu log silu softplus", "result"',
        f"{_ROW}[gelu-bfloat16]", f"{_PUBLISHED}[gpt2-fast-bfloat16]",
    ),
    _mutant(
        "attention forgets its logarithms", "autograd",
        '"0 1 2 3 result beside"', '"0 1 2 3 result"',
        f"{_ROW}[attention-float32]", f"{_PUBLISHED}[a block of llama-3-8b-fast-bfloat16]",
    ),
    _mutant(
        "logarithms of attention are as short as its numbers", "operations",
        "promoted(q.dtype, FLOAT32).bytes", "q.dtype.bytes",
        f"{_ROW}[attention-bfloat16]",
    ),
    _mutant(
        "a norm keeps no mean", "operations",
        "for _ in range(2)]", "for _ in range(1)]",
        f"{_ROW}[layer_norm-float32]",
    ),
    _mutant(
        "a short norm is not taken in float32", "operations",
        "wide = x.to(promoted(x.dtype, FLOAT32))", "wide = x",
        f"{_ROW}[rms_norm-bfloat16]",
    ),
    _mutant(
        "the mask of what is dropped is in float32", "operations",
        "return x * zeros_like(x) if", "return x * zeros_like(x, FLOAT32) if",
        f"{_ROW}[dropout-bfloat16]",
    ),
    _mutant(
        "nothing dropped costs a mask too", "operations",
        "if training and p else x", "if training else x",
        f"{_ROW}[dropout of nothing-float32]",
    ),
    _mutant(
        "attention with something dropped is fused", "operations",
        "if dropout_p or _unfit(", "if _unfit(",
        f"{_ROW}[attention, dropped-float32]", f"{_PUBLISHED}[gpt2-fast-float32]",
    ),
    # ----------------------------------------------------------------------------------------------- where numbers lie
    _mutant(
        "every view is a copy", "traced",
        "        if strides is None:\n", "        if True:\n",
        f"{_ROW}[mm-float32]",
    ),
    _mutant(
        "no view is a copy", "strided",
        "        if here != there:\n            return None\n", "",
        f"{_ROW}[mm of what lies otherwise-float32]",
    ),
    _mutant(
        "an element-wise result lies in order", "strided",
        "    return along(shape, order)\n\n\ndef spread", "    return contiguous(shape)\n\n\ndef spread",
        f"{_ROW}[exp of what lies otherwise-float32]",
    ),
    _mutant(
        "an axis of one lies apart", "strided",
        "(shape[axis - 1] == 1 or strides[axis - 1] == there * chunk)", "strides[axis - 1] == there * chunk",
        f"{_ROW}[reshape across an axis of one-float32]",
    ),
    # ------------------------------------------------------------------------------------------------- what is counted
    _mutant(
        "a storage counts whenever it is kept", "saved",
        "if storage not in seen and storage.kind", "if storage.kind",
        f"{_ROW}[mul-float32]", f"{_PUBLISHED}[llama-3-8b-fast-float32]",
    ),
    _mutant(
        "weights are activations", "saved",
        '_COUNTED = {"": "activation", ', '_COUNTED = {"": "activation", "parameter": "activation", ',
        f"{_ROW}[addmm-float32]",
    ),
    _mutant(
        "blocks that are passed over count nothing", "standin",
        "self.tape.times = 1 + passed * (at == last)", "self.tape.times = 1",
        "test_one_block_stands_for_those_like_it[gpt2-more0]",
    ),
    _mutant(
        "all blocks are alike", "standin",
        "lambda make: make == last", "lambda make: True",
        "test_one_block_stands_for_those_like_it[deepseek_v3-more1]",
    ),
    # ------------------------------------------------------------------------------------------------- the worst moment
    _mutant(
        "a step keeps what it kept", "peak",
        "    node.keeps = ()\n", "",
        f"{_PROFILER}[llama-notation]",
    ),
    _mutant(
        "the loss is free", "peak",
        "    return cross_entropy(logits, ran.new(logits.shape[:1], INT64, \"input\"))", "    return logits",
        "test_the_peak_of_a_step_is_what_mem_tracker_sees[gpt2, nothing dropped-fast-float32]",
    ),
    _mutant(
        "AdamW has one average", "peak",
        "states = sum(2 * size + _STEP", "states = sum(size + _STEP",
        "test_what_is_always_there",
    ),
)  # fmt: skip
