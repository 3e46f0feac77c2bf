"""Is a sequence that comes in parts what it is at once? The emitted forwards with a cache equal the reference, everywhere."""

from __future__ import annotations

import copy
import itertools
import pickle
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

import einformer
from einformer.errors import EinformerError
from einformer.objects import Model
from tests.caches import CACHES, NUMBERS, Cached
from tests.few import FEW_TEXTS, few
from tests.oracles.of_toys import ours
from tests.small import BATCH, LENGTH, PLANS, SMALL, built, decided, error, inputs, model, weights
from tests.toys import EACH
from tests.well_formed import Text, texts

VALUES = 1e-12
MODELS = [name for name in SMALL if name != "loss"]


def parts(arrays: Sequence[Any], lengths: list[int]) -> list[tuple[Tensor, ...]]:
    """The inputs in chunks of these lengths."""
    return list(zip(*(torch.split(torch.as_tensor(array), lengths, 1) for array in arrays), strict=True))


def decoded(module: Any, arrays: Sequence[Any], lengths: list[int], padding: Tensor | None = None) -> tuple[Tensor, int]:
    """The outputs of all chunks, and the bytes of the cache."""
    cache = module.cache(padding)
    outputs = [module.decode(*chunk, cache=cache) for chunk in parts(arrays, lengths)]
    return torch.cat(outputs, 1), cache.bytes


def compared(bound: Model, plan: str, *ways: list[int]) -> None:
    """In chunks of these lengths as at once, with as many bytes as are counted."""
    module, whole = built(bound, plan), sum(ways[0])
    arrays = inputs(bound, {"S": whole})
    expected = bound.reference(*arrays, weights=weights(bound))
    for lengths in ways:
        outputs, held = decoded(module, arrays, lengths)
        assert error(outputs, expected) < VALUES
        if len(lengths) == 1:
            assert held == bound.cache_bytes(torch.float64, B=BATCH, S=whole).total


# -------------------------------------------------------------------------------------------------------------- values


@pytest.mark.parametrize("plan", few(PLANS, {"fast"}))
@pytest.mark.parametrize("name", few(MODELS, FEW_TEXTS))
def test_step_by_step_is_all_at_once(name: str, plan: str) -> None:
    compared(model(name), plan, [1] * LENGTH, [4, 3, 1, 3])


@pytest.mark.parametrize("name", few(MODELS, FEW_TEXTS))
def test_bytes_are_those_counted(name: str) -> None:
    _, held = decoded(built(model(name), "fast"), inputs(model(name)), [LENGTH])
    assert held == model(name).cache_bytes(torch.float64, B=3, S=LENGTH).total


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("case", CACHES, ids=lambda case: case.name)
def test_any_text(case: Cached, plan: str) -> None:
    compared(case.model(), plan, [LENGTH], [1] * LENGTH, [4, 3, 1, 3])


@pytest.mark.parametrize("name", EACH)
def test_every_family_decodes(name: str) -> None:
    bound = ours(name)
    compared(bound, "fast", [6, 1, 1, 3])


@pytest.mark.parametrize("plan", PLANS)
def test_what_hangs_on_no_input_is_computed_anew(plan: str) -> None:
    """At s', too: nothing of it is kept."""
    bound = NUMBERS.model()
    assert {entry.full_path: entry.back for entry in bound.kept} == NUMBERS.kept
    compared(bound, plan, [4, 3, 1, 3])
    assert padded(bound) < VALUES


@pytest.mark.parametrize("plan", PLANS)
def test_what_hangs_on_no_input_is_zero_before_the_start_of_time(plan: str) -> None:
    """As every tensor is (R4), also where its formula is not."""
    body = """model Text(z_bsd) -> y_bsd causal in s:
  h_s = cos(s)
  e_s = h_{(s - 1)} + 2
  return z_bsd + h_{(s - 2)} e_{(s - 1)} e_s
"""
    compared(Cached("numbers before the start", "bsd", body, {}).model(), plan, [4, 3, 1, 3])


@pytest.mark.slow
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(texts(causal=True), st.permutations([2, 3, 5, 7, 4]), st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_random_texts(text: Text, sizes: list[int], lengths: list[int]) -> None:
    """Both plans, of any causal text; and step by step, and with rows that start late."""
    given = {letter: size for letter, size in text.sizes(*sizes).items() if letter not in "BS"}
    bound = einformer.parse(text.text).bind(**given | ({"V": 53} if text.tokens else {}))
    assume(bound.legend.axis_of_size("K") is None or sum(lengths) <= bound.size("K"))
    arrays = inputs(bound, {"S": sum(lengths)}, len(text.text))
    try:
        expected = bound.reference(*arrays, weights=weights(bound))
        assume(bound.cached_source())
    except EinformerError as refused:
        assume(refused.findings[0].code not in ("E309", "E508"))
        raise
    assume(np.isfinite(expected).all() and decided(bound, arrays, expected))
    for plan in PLANS:
        assert error(decoded(built(bound, plan), arrays, lengths)[0], expected) < 1e-10
    module, whole = built(bound, "fast"), sum(lengths)
    assert error(stepped(module, arrays, lengths[0], whole), expected) < 1e-10
    some = module.decode(*parts(arrays, [whole])[0], cache=module.cache(), last=lengths[0])  # type: ignore[operator]
    assert error(some, expected[:, whole - lengths[0] :]) < 1e-10
    late = torch.tensor([min(whole - 1, row) for row in range(len(expected))])
    outputs, _ = decoded(module, arrays, lengths, late)
    for row, start in enumerate(late.tolist()):
        alone = bound.reference(*(array[row : row + 1, start:] for array in arrays), weights=weights(bound))
        assert error(outputs[row : row + 1, start:], alone) < 1e-10


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_batches_chunks_and_paddings(data: st.DataObject) -> None:
    """Each row of a batch means what it means alone, wherever it starts and however it is cut."""
    name, plan = data.draw(st.sampled_from(MODELS)), data.draw(st.sampled_from(PLANS))
    chunks = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=5))
    whole, batch = sum(chunks), data.draw(st.integers(1, 4))
    assume(whole <= 11 or name != "gpt2_without_biases")  # it has no more positions
    lengths = data.draw(st.lists(st.integers(1, whole), min_size=batch, max_size=batch))
    bound = model(name)
    arrays = inputs(bound, {"B": batch, "S": whole})
    padding = torch.tensor([whole - length for length in lengths])
    outputs, _ = decoded(built(bound, plan), arrays, chunks, padding if any(padding) else None)
    for row, length in enumerate(lengths):
        alone = [array[row : row + 1, whole - length :] for array in arrays]
        expected = bound.reference(*alone, weights=weights(bound))
        assert error(outputs[row : row + 1, whole - length :], expected) < VALUES


def padded(bound: Model) -> float:
    """How far rows that start late are from the rows alone, whatever stands before their start."""
    arrays = [torch.as_tensor(array) for array in inputs(bound)]
    other = [array.clone() for array in arrays]
    for array in other:
        array[0, :5] = 7 if array.dtype == torch.int64 else 1e30
    module, late = built(bound, "fast"), torch.tensor([5, 0, 2])
    found = [decoded(module, other, lengths, late)[0] for lengths in ([4, 3, 4], [6, 1, 1, 1, 1, 1])]
    alone = [[array[row : row + 1, start:] for array in arrays] for row, start in enumerate([5, 0, 2])]
    expected = [bound.reference(*row, weights=weights(bound)) for row in alone]
    return max(error(each[row : row + 1, start:], expected[row]) for each in found for row, start in enumerate([5, 0, 2]))


@pytest.mark.parametrize("name", ["gpt2", "gpt_oss", "linear_attention", "delta_net"])
def test_padding_does_not_matter(name: str) -> None:
    assert padded(model(name)) < VALUES


@pytest.mark.parametrize("case", CACHES, ids=lambda case: case.name)
def test_padding_does_not_matter_in_any_text(case: Cached) -> None:
    assert padded(case.model()) < VALUES


def stepped(module: Any, arrays: Sequence[Any], first: int, size: int, padding: Tensor | None = None) -> Tensor:
    """The outputs where all positions after the first come one by one into a cache that keeps its shapes."""
    cache = module.cache(padding)
    whole = arrays[0].shape[1]
    chunk, *rest = parts(arrays, [first, *[1] * (whole - first)])
    outputs = [module.decode(*chunk, cache=cache)]
    cache = module.static(cache, size)
    return torch.cat([*outputs, *(module.decode(*step, cache=cache) for step in rest)], 1)


@pytest.mark.parametrize("name", few(MODELS, FEW_TEXTS))
def test_a_static_cache_holds_the_same(name: str) -> None:
    """In rings, after a first chunk of any length, with places to spare or none."""
    module, arrays = built(model(name), "fast"), inputs(model(name))
    expected = model(name).reference(*arrays, weights=weights(model(name)))
    for first, size in ((1, LENGTH), (6, LENGTH if name == "gpt2_without_biases" else 15)):
        assert error(stepped(module, arrays, first, size), expected) < VALUES
    padded = stepped(module, arrays, 5, LENGTH, torch.tensor([4, 0, 2]))
    for row, start in enumerate([4, 0, 2]):
        alone = [array[row : row + 1, start:] for array in arrays]
        assert error(padded[row : row + 1, start:], model(name).reference(*alone, weights=weights(model(name)))) < VALUES


@pytest.mark.parametrize("case", CACHES, ids=lambda case: case.name)
def test_a_static_cache_of_any_text(case: Cached) -> None:
    bound = case.model()
    arrays = inputs(bound)
    found = stepped(built(bound, "fast"), arrays, 2, LENGTH)
    assert error(found, bound.reference(*arrays, weights=weights(bound))) < VALUES


@pytest.mark.filterwarnings("ignore:.*script_method:DeprecationWarning")  # torch's own, on its first use
@pytest.mark.parametrize("name", few(["gpt2", "gemma2", "mamba2"], {"gemma2", "mamba2"}))
def test_a_step_is_one_graph_for_all_steps(name: str) -> None:
    """No break, and nothing compiled a second time: rings, taps and states keep their shapes."""
    module: Any = built(model(name), "fast")
    arrays = inputs(model(name))
    module.compile_steps(backend="aot_eager")
    with torch._dynamo.config.patch(error_on_recompile=True):
        found = stepped(module, arrays, 3, LENGTH)
    torch.compiler.reset()
    assert error(found, model(name).reference(*arrays, weights=weights(model(name)))) < VALUES


def test_caches_do_not_share() -> None:
    """Two sequences at once, each with its cache."""
    module: Any = built(model("gpt2"), "fast")
    (one,), (two,) = inputs(model("gpt2"), seed=1), inputs(model("gpt2"), seed=2)
    caches = (module.cache(), module.cache())
    outputs: tuple[list[Tensor], list[Tensor]] = ([], [])
    for step in range(LENGTH):
        for tokens, cache, output in zip((one, two), caches, outputs, strict=True):
            output.append(module.decode(torch.from_numpy(tokens[:, step : step + 1]), cache=cache))
    for tokens, output in zip((one, two), outputs, strict=True):
        assert error(torch.cat(output, 1), model("gpt2").reference(tokens, weights=weights(model("gpt2")))) < VALUES


def test_the_weights_are_the_modules_own() -> None:
    """Decoding reads what training writes, also of a copy, and after another dtype."""
    module: Any = built(model("llama"), "fast")
    tokens = torch.from_numpy(inputs(model("llama"))[0])
    before, _ = decoded(module, [tokens], [LENGTH])
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(0.9)
    after, _ = decoded(module, [tokens], [LENGTH])
    assert not torch.allclose(before, after)
    assert error(after, module(tokens)) < VALUES
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert torch.equal(decoded(other, [tokens], [LENGTH])[0], after)
    assert decoded(module.to(torch.float32), [tokens], [LENGTH])[0].dtype == torch.float32


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("name", few(MODELS, FEW_TEXTS))
def test_the_files_differ_in_nothing_but_their_forwards(name: str, plan: str) -> None:
    """The same parameters, of the same names and shapes."""
    module: Any = built(model(name), plan)
    expected = {k: v.shape for k, v in module.named_parameters()}
    module.cache()
    found = module.__dict__["_continued"]
    assert {k: v.shape for k, v in found.named_parameters()} == expected


@pytest.mark.parametrize("name", ["gpt2", "llama", "gemma2", "bloom"])
def test_an_attention_is_said_to_be_causal_at_the_first_positions_only(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`is_causal` counts positions from the first new one: only where nothing came before are those the positions."""
    sizes = []

    def watched(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Tensor:
        sizes.append((options.get("is_causal", False), q.shape[-2], k.shape[-2], options.get("attn_mask") is None))
        return attention(q, k, v, **options)

    attention = torch.nn.functional.scaled_dot_product_attention
    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", watched)
    compared(model(name), "fast", [4, 3, 1, 3])
    masked = {(q, k): bare for _, q, k, bare in sizes if q != k}
    assert all(q == k for is_causal, q, k, _ in sizes if is_causal)
    if name in ("gpt2", "llama"):
        assert masked == {(3, 7): False, (1, 8): True, (3, 11): False}  # one new position sees all: no mask is built
        assert [is_causal for is_causal, q, k, _ in sizes if q == k] == [True, True]


# --------------------------------------------------------------------------------------------------------------- cost


@pytest.mark.parametrize("name", ["gpt2", "llama", "mistral", "bloom", "gpt_neox"])
def test_what_attention_reads_is_kept_as_it_lies_there(name: str) -> None:
    """No step permutes what was kept."""
    source = model(name).cached_source("fast")
    kept = re.findall(r"(\w+) = cache\.keep\(", source)
    assert len(kept) == 2
    assert not re.findall(rf"(?:{'|'.join(kept)})\.\w+", source)


class Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts what torch is asked to do, and the numbers that it copies."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = self.copied = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        self.copied += args[0].numel() if func is torch.ops.aten.copy_.default else 0
        return func(*args, **(kwargs or {}))


def test_a_step_costs_no_more_the_more_there_were() -> None:
    """As many operations after 40 positions as after 10, and no more is copied; attention itself grows by 4 B L D FLOPs."""
    bound = model("gpt2")
    module, plain = built(bound, "fast"), built(bound, "notation")
    tokens = torch.zeros(3, 1, dtype=torch.int64)
    counted: list[Any] = []
    flops: list[Any] = []
    for watched, found in ((module, counted), (plain, flops)):
        cache: Any = watched.cache(size=41)  # type: ignore[operator]
        for _ in range(41):
            with Operations() as operations, FlopCounterMode(display=False) as counter:
                watched.decode(tokens, cache=cache)  # type: ignore[operator]
            found.append((operations.count, operations.copied) if watched is module else counter.get_total_flops())
    assert counted[10] == counted[40]
    grown = {after - before for before, after in itertools.pairwise(flops[2:])}  # a product over one position is none to torch
    assert grown == {4 * 3 * bound.size("L") * bound.size("D")}


# ---------------------------------------------------------------------------------------------------- the last positions


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("name", few(MODELS, FEW_TEXTS))
def test_the_last_outputs_are_those_of_all(name: str, plan: str) -> None:
    """Whatever is asked for at a step, what is kept is the same."""
    module, arrays = built(model(name), plan), inputs(model(name))
    expected = model(name).reference(*arrays, weights=weights(model(name)))
    cache: Any = module.cache()  # type: ignore[operator]
    outputs = [module.decode(*chunk, cache=cache, last=2) for chunk in parts(arrays, [5, 1, 5])]  # type: ignore[operator]
    assert error(torch.cat(outputs, 1), expected[:, [3, 4, 5, 9, 10]]) < VALUES


@pytest.mark.parametrize("case", CACHES, ids=lambda case: case.name)
def test_the_last_outputs_of_any_text(case: Cached) -> None:
    bound = case.model()
    module: Any = built(bound, "fast")
    expected = bound.reference(*inputs(bound), weights=weights(bound))
    assert error(module.decode(*parts(inputs(bound), [LENGTH])[0], cache=module.cache(), last=3), expected[:, -3:]) < VALUES


@pytest.mark.parametrize("plan", PLANS)
def test_a_size_at_the_last_positions_is_theirs(plan: str) -> None:
    """A tensor that is made for all positions is made for those that are asked for."""
    text = """axes
  b: B
  s: S
  d: D
scalars
  κ = 1
layer Nothing(z_sd) -> z_sd:
  return where(κ < 2, 0, z_sd)
model Text(z_bsd) -> y_bsd causal in s:
  weights A_d
  c_bsd = cumsum_s z_bsd
  y_bsd = c_bsd + Nothing(z_bsd)
  return y_bsd + where(κ < 2, A_d, y_bsd)
"""
    bound = einformer.parse(text).bind(D=3)
    module: Any = built(bound, plan)
    found = module.decode(*parts(inputs(bound), [LENGTH])[0], cache=module.cache(), last=2)
    assert error(found, bound.reference(*inputs(bound), weights=weights(bound))[:, -2:]) < VALUES


@pytest.mark.parametrize("name", ["gpt2", "llama", "gemma2", "deepseek_v3", "linear_attention"])
def test_logits_are_computed_where_they_are_asked_for(name: str) -> None:
    """torch counts so many FLOPs fewer: 2 D V for each position of each row whose logits nobody wants."""
    module: Any = built(model(name), "fast")
    tokens = torch.from_numpy(inputs(model(name))[0])
    counted = []
    for last in (None, 4):
        with FlopCounterMode(display=False) as counter:
            module.decode(tokens, cache=module.cache(), last=last)
        counted.append(counter.get_total_flops())
    assert counted[0] - counted[1] == len(tokens) * (LENGTH - 4) * 2 * model(name).size("D") * 53


# -------------------------------------------------------------------------------------------------------------- errors


def test_a_cache_that_does_not_fit_is_refused() -> None:
    module: Any = built(model("gpt2"), "fast")
    other: Any = built(model("gpt2"), "fast")
    tokens = torch.zeros(2, 3, dtype=torch.int64)
    with pytest.raises(EinformerError, match="E705 this cache is another module's"):
        module.decode(tokens, cache=other.cache())
    cache = module.cache()
    module.decode(tokens, cache=cache)
    with pytest.raises(EinformerError, match=r"E705 this cache has rows \(2,\), the inputs \(3,\)"):
        module.decode(torch.zeros(3, 1, dtype=torch.int64), cache=cache)
    with pytest.raises(
        EinformerError, match=r"E705 this cache was filled in torch\.float64 on cpu, and the module computes in torch\.float32"
    ):
        module.float().decode(tokens, cache=cache)


@pytest.mark.parametrize("name", ["gpt2", "llama", "mamba2", "delta_net", "linear_attention"])
def test_a_module_decodes_in_a_precision_that_autocast_chooses(name: str) -> None:
    """As it computes the whole there; what was kept belongs to one precision."""
    module: Any = built(model(name), "fast", torch.float32)
    arrays = [torch.as_tensor(array) for array in inputs(model(name))]
    arrays = [array.float() if array.is_floating_point() else array for array in arrays]
    cache = module.cache()
    with torch.autocast("cpu", torch.bfloat16):
        whole = module(*arrays)
        outputs = [module.decode(*chunk, cache=cache) for chunk in parts(arrays, [4, 3, 1, 3])]
    assert error(torch.cat(outputs, 1).float(), whole.float()) < 0.1
    chunk = parts(arrays, [1, LENGTH - 1])[0]
    with pytest.raises(
        EinformerError, match=r"E705 this cache was filled in torch\.float32 on cpu under autocast to torch\.bfloat16"
    ):
        module.decode(*chunk, cache=cache)


def test_positions_end() -> None:
    module: Any = built(model("gpt2_without_biases"), "fast")
    cache = module.cache()
    module.decode(torch.zeros(1, 11, dtype=torch.int64), cache=cache)
    with pytest.raises(EinformerError, match="E706 there are only 11 positions"):
        module.decode(torch.zeros(1, 1, dtype=torch.int64), cache=cache)
    with pytest.raises(EinformerError, match="E706 there is no new position"):
        module.decode(torch.zeros(1, 0, dtype=torch.int64), cache=module.cache())
    with pytest.raises(EinformerError, match="E706 `last` cannot be 0"):
        module.decode(torch.zeros(1, 1, dtype=torch.int64), cache=module.cache(), last=0)


def test_a_static_cache_takes_one_position_at_a_time() -> None:
    module: Any = built(model("gpt2"), "fast")
    cache = module.cache()
    module.decode(torch.zeros(1, 3, dtype=torch.int64), cache=cache)
    with pytest.raises(EinformerError, match="E706 the cache has seen 3 positions, the size is 2"):
        module.static(cache, 2)
    static = module.static(cache, 4)
    with pytest.raises(EinformerError, match="E706 a static cache takes one position at a time"):
        module.decode(torch.zeros(1, 2, dtype=torch.int64), cache=static)
    module.decode(torch.zeros(1, 1, dtype=torch.int64), cache=static)
    with pytest.raises(EinformerError, match="E706 a static cache takes one position at a time, 4 in all"):
        module.decode(torch.zeros(1, 1, dtype=torch.int64), cache=static)


def test_a_token_outside_the_vocabulary_is_refused() -> None:
    module: Any = built(model("gpt2"), "fast")
    with pytest.raises(EinformerError, match="E703"):
        module.decode(torch.full((1, 1), 53), cache=module.cache())
    with pytest.raises(EinformerError, match="E702 the input `x_bs` is on meta"):
        module.decode(torch.zeros(1, 1, dtype=torch.int64, device="meta"), cache=module.cache())


@pytest.mark.parametrize("plan", PLANS)
def test_its_own_position_is_read_as_a_loop_left_it(plan: str) -> None:
    """`2 s - s` is s, also of a tensor that is kept as it was before the loop."""
    text = (
        "axes\n  b: B\n  s: S\n  d: D\n  l: L\nmodel M(x_bsd) -> y_bsd causal in s:\n  z_bsd = 2 x_bsd\n"
        "  w_bss' = Sm_s'(z_bsd z_bs'd + where(s' <= s, 0, -inf))\n  a_bsd = w_bss' z_bs'd\n"
        "  for l < L:\n    z_bsd <- z_bsd / 2 + tanh(a_bsd)\n  return z_bsd + z_{b(2 s - s)d}\n"
    )
    module: Any = einformer.parse(text).bind(D=3, L=2).build(plan=plan).double().eval()
    x = torch.randn(2, 7, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    cache = module.cache()
    parts = [module.decode(part, cache=cache) for part in torch.split(x, [3, 1, 3], 1)]
    assert torch.allclose(torch.cat(parts, 1), module(x), rtol=0, atol=1e-12)
