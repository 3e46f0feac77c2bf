"""Which slips in what is said of PyTorch's memory would the tests notice? As in `tests.mutants`."""

from __future__ import annotations

from tests.mutants import Mutant


def _mutant(name: str, old: str, new: str, *killers: str) -> Mutant:
    places = tuple(f"tests/test_saved.py::{killer}" for killer in killers)
    return Mutant(name, "einformer/interpreters/torch/memory.py", old, new, places)


_OPERATION = "test_an_operation_keeps_what_the_hooks_see_with_numbers"
_PUBLISHED = "test_published_sizes_are_what_the_hooks_see"
_PROFILER = "test_mem_tracker_and_we_see_what_the_profiler_sees"

MUTANTS = (
    _mutant(
        "a storage counts whenever it is kept",
        '            kinds[each.storage._cdata] = ""\n', "",
        f"{_OPERATION}[mul-float32]", f"{_PUBLISHED}[llama-3-8b-fast-float32]",
    ),
    _mutant(
        "weights are activations",
        'for tensor in (*module.parameters(), *module.buffers())}', "for tensor in module.buffers()}",
        f"{_OPERATION}[addmm-float32]",
    ),
    _mutant(
        "what nothing leads back to is kept",
        "for held in recorder.packed if held.operation]", "for held in recorder.packed]",
        f"{_OPERATION}[mul by a constant-float32]",
    ),
    _mutant(
        "blocks that are passed over count nothing",
        "self.recorder.times = around * (1 + passed * (number == len(blocks)))", "self.recorder.times = around",
        "test_one_block_stands_for_those_like_it[gpt2-more0]",
    ),
    _mutant(
        "all blocks are alike",
        "lambda make: make == makes[0]", "lambda make: True",
        "test_one_block_stands_for_those_like_it[deepseek_v3-more1]",
    ),
    _mutant(
        "nothing is ever freed",
        "        self.live -= size\n", "",
        f"{_PROFILER}[llama-notation]",
    ),
    _mutant(
        "the averages of AdamW are forgotten",
        "forward + states, backward + states", "forward, backward",
        f"{_PROFILER}[llama-notation]",
    ),
)  # fmt: skip
