"""Does a module continue text as transformers does, token for token, and draw as its probabilities say?"""

from __future__ import annotations

import copy
import functools
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch._dynamo.backends.debugging import aot_eager
from transformers import AutoConfig, AutoModelForCausalLM, GPT2LMHeadModel

import einformer
from einformer import EinformerError
from einformer.interpreters.torch.generate import Sampler
from tests.refusals import refuses
from tests.small import built, inputs, model, weights
from tests.toy_keys import VOCABULARY
from tests.toys import config_of, toy

SIZES: dict[str, Any] = {"vocab_size": 53, "n_embd": 32, "n_head": 4, "n_layer": 3, "n_positions": 41}


@functools.cache
def theirs() -> Any:
    """A GPT-2 of transformers with weights so large that its text is no repetition."""
    config: Any = AutoConfig.for_model("gpt2", **SIZES, bos_token_id=None, eos_token_id=None, initializer_range=0.5)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        made: Any = GPT2LMHeadModel(config)
        return made.double().eval()


@functools.cache
def ours(plan: str = "fast") -> Any:
    """The same weights."""
    module: Any = einformer.from_huggingface(theirs().config.to_dict()).build(plan=plan, dtype=torch.float64).eval()
    module.load_huggingface(theirs().state_dict())
    return module


def prompts(rows: int, length: int) -> Tensor:
    return torch.from_numpy(np.random.default_rng(5).integers(53, size=(rows, length)))


# -------------------------------------------------------------------------------------------------------------- greedy


@pytest.mark.parametrize("plan", ["notation", "fast"])
def test_greedy_text_is_that_of_transformers(plan: str) -> None:
    x_bs = prompts(4, 7)
    expected = theirs().generate(x_bs, attention_mask=torch.ones_like(x_bs), max_new_tokens=30, do_sample=False, pad_token_id=0)
    found = ours(plan).generate(x_bs, 30)
    assert found.tolist() == expected.tolist()
    assert len(set(found[0, 7:].tolist())) > 5  # it is text


def test_greedy_text_of_unequal_prompts_is_that_of_transformers() -> None:
    """Padded on the left, with their mask."""
    x_bs, lengths = prompts(4, 9), [9, 2, 5, 1]
    mask = torch.tensor([[0] * (9 - length) + [1] * length for length in lengths])
    expected = theirs().generate(x_bs, attention_mask=mask, max_new_tokens=25, do_sample=False, pad_token_id=0)
    assert ours().generate(x_bs, 25, lengths=lengths).tolist() == expected.tolist()


@pytest.mark.filterwarnings("ignore:.*script_method:DeprecationWarning")  # torch's own, on its first use
def test_text_of_compiled_steps_is_that_of_transformers() -> None:
    """The whole loop: what is kept of prompts of several lengths moves to a static cache, and one graph makes each step."""
    x_bs, module = prompts(3, 6), copy.deepcopy(ours())
    mask = torch.tensor([[0, 0, 0, 1, 1, 1], [1] * 6, [0, 1, 1, 1, 1, 1]])
    expected = theirs().generate(x_bs, attention_mask=mask, max_new_tokens=25, do_sample=False, pad_token_id=0)
    steps = 0

    def counted(graph: torch.fx.GraphModule, given: list[Tensor]) -> Any:
        nonlocal steps
        made = aot_eager(graph, given)

        def step(*inputs: Any) -> Any:
            nonlocal steps
            steps += 1
            return made(*inputs)

        return step

    module.compile_steps(backend=counted)
    with torch._dynamo.config.patch(error_on_recompile=True):
        found = module.generate(x_bs, 25, lengths=[3, 6, 5])
    torch.compiler.reset()
    assert found.tolist() == expected.tolist()
    assert steps == 24


@pytest.mark.parametrize("name", ["llama", "mistral", "gemma2", "qwen3", "falcon", "gpt_oss", "deepseek_v3", "olmo2"])
def test_greedy_text_of_families_is_that_of_transformers(name: str) -> None:
    """Grouped heads, one head of keys, windows, caps, sinks, latents: each with its own kind of cache there too."""
    models: Any = AutoModelForCausalLM
    with torch.random.fork_rng():
        torch.manual_seed(1)
        other: Any = models.from_config(toy(name), attn_implementation="eager", experts_implementation="eager").double().eval()
        for parameter in other.parameters():
            parameter.data.normal_(std=0.3 if parameter.dim() > 1 else 1.0)
    module: Any = einformer.from_huggingface(config_of(name)).build(dtype=torch.float64).eval()
    module.load_huggingface(other.state_dict())
    x_bs = torch.from_numpy(np.random.default_rng(5).integers(VOCABULARY, size=(2, 14)))
    options = {"do_sample": False, "pad_token_id": 0, "eos_token_id": None}
    expected = other.generate(x_bs, attention_mask=torch.ones_like(x_bs), max_new_tokens=20, **options)
    assert module.generate(x_bs, 20).tolist() == expected.tolist()


def test_a_row_in_a_batch_is_the_row_alone() -> None:
    x_bs, lengths = prompts(3, 6), [2, 6, 4]
    together = ours().generate(x_bs, 12, lengths=lengths)
    for row, length in enumerate(lengths):
        alone = ours().generate(x_bs[row : row + 1, 6 - length :], 12)
        assert together[row, 6:].tolist() == alone[0, length:].tolist()


@pytest.mark.parametrize("name", ["llama", "mistral", "gemma2", "deepseek_v3", "linear_attention"])
def test_greedy_text_is_that_of_the_whole_each_time(name: str) -> None:
    """Without a cache every token costs a forward over all before it."""
    module: Any = built(model(name), "fast")
    x_bs = torch.from_numpy(inputs(model(name))[0])
    expected = x_bs
    for _ in range(9):
        expected = torch.cat([expected, module(expected)[:, -1:].argmax(-1)], 1)
    assert module.generate(x_bs, 9).tolist() == expected.tolist()


# ---------------------------------------------------------------------------------------------------------- drawing


def test_a_seed_gives_the_same_text_again() -> None:
    draw = functools.partial(ours().generate, prompts(2, 4), 12, temperature=1.0)
    assert draw(seed=1).tolist() == draw(seed=1).tolist() != draw(seed=2).tolist()


def test_one_token_to_choose_from_is_the_likeliest() -> None:
    x_bs = prompts(2, 4)
    greedy = ours().generate(x_bs, 8).tolist()
    assert ours().generate(x_bs, 8, temperature=2.0, top_k=1, seed=0).tolist() == greedy
    assert ours().generate(x_bs, 8, temperature=2.0, top_p=1e-9, seed=0).tolist() == greedy


def test_tokens_are_drawn_as_likely_as_the_logits_say() -> None:
    """20,000 draws lie within four standard deviations of softmax of logits over temperature."""
    logits = torch.tensor([[1.0, 0.0, 2.0, -1.0, 0.5]])
    generator = torch.Generator().manual_seed(0)
    counts = torch.bincount(Sampler(0.7).next(logits.expand(20_000, 5), generator), minlength=5).numpy()
    likely = np.exp(np.array([1.0, 0.0, 2.0, -1.0, 0.5]) / 0.7)
    likely /= likely.sum()
    assert (np.abs(counts / 20_000 - likely) < 4 * np.sqrt(likely * (1 - likely) / 20_000)).all()


def test_tokens_are_drawn_among_the_most_likely() -> None:
    """Of 0.4, 0.3, 0.2, 0.1 two are 0.7 together, and a third is needed for 0.75."""
    logits = torch.tensor([[0.1, 0.4, 0.2, 0.3]]).log()
    draws = {
        options: set(Sampler(1.0, *options).next(logits.expand(500, 4), torch.Generator().manual_seed(0)).tolist())
        for options in [(None, None), (2, None), (None, 0.69), (None, 0.75), (3, 0.5), (9, 1.0)]
    }
    assert draws == {
        (None, None): {0, 1, 2, 3}, (2, None): {1, 3}, (None, 0.69): {1, 3}, (None, 0.75): {1, 2, 3}, (3, 0.5): {1, 3},
        (9, 1.0): {0, 1, 2, 3},
    }  # fmt: skip


# ------------------------------------------------------------------------------------------------------- stop, stream


def test_a_row_that_has_stopped_repeats_its_stop() -> None:
    x_bs = prompts(4, 7)
    free = ours().generate(x_bs, 30)[:, 7:]
    stop = int(free[0, 3])
    found = ours().generate(x_bs, 30, stop=[stop])[:, 7:]
    for row, text in zip(found.tolist(), free.tolist(), strict=True):
        end = text.index(stop) + 1 if stop in text else len(text)
        assert row[:end] == text[:end][: len(row)]
        assert set(row[end:]) <= {stop}
    assert ours().generate(x_bs[:1], 30, stop=[stop]).shape[1] == 7 + 1 + free[0].tolist().index(stop)


def test_a_stream_gives_each_token_as_it_comes() -> None:
    stream = ours().stream(prompts(2, 4), 8)
    first = next(stream)
    rest = torch.stack([first, *stream], 1)
    assert rest.tolist() == ours().generate(prompts(2, 4), 8)[:, 4:].tolist()
    assert ours().generate(prompts(2, 4), 0).tolist() == prompts(2, 4).tolist()


# ------------------------------------------------------------------------------------------------------ probabilities


def test_log_prob_is_the_chain_rule() -> None:
    """The sum over the continuation of the log-softmax of the reference's logits."""
    tokens, after = inputs(model("llama"))[0][:, :6], inputs(model("llama"), seed=9)[0][:, :5]
    whole = np.concatenate([tokens, after], 1)
    logits = model("llama").reference(whole, weights=weights(model("llama")))
    logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    expected = sum(np.take_along_axis(logs[:, 5 + k], after[:, k : k + 1], 1)[:, 0] for k in range(5))
    module: Any = built(model("llama"), "fast")
    found = module.log_prob(torch.from_numpy(tokens), torch.from_numpy(after))
    assert np.abs(found.numpy() - expected).max() < 1e-12
    padded = torch.cat([torch.full((3, 2), 7), torch.from_numpy(tokens)], 1)
    again = module.log_prob(padded, torch.from_numpy(after), lengths=[6, 6, 6])
    assert np.abs(again.numpy() - expected).max() < 1e-12


def test_perplexity_of_equal_logits_is_the_vocabulary() -> None:
    module: Any = built(model("gpt2"), "fast")
    with torch.no_grad():
        module.E.zero_()
    assert torch.allclose(module.perplexity(torch.from_numpy(inputs(model("gpt2"))[0])), torch.tensor(53.0).double())


# -------------------------------------------------------------------------------------------------------------- errors


def test_a_prompt_has_a_token() -> None:
    for call in (ours().generate, ours().log_prob):
        with refuses("E706"):
            call(torch.zeros(1, 0, dtype=torch.int64), 3 if call == ours().generate else prompts(1, 2))
    with refuses("E706"):
        ours().generate(prompts(2, 3), 1, lengths=[0, 3])


def test_positions_end_while_generating() -> None:
    with refuses("E706", "41"):
        ours().generate(prompts(1, 40), 3)


def test_logits_that_are_no_numbers_are_refused() -> None:
    module: Any = built(model("gpt2"), "fast")
    with torch.no_grad():
        module.E[7, 3] = float("nan")
    with pytest.raises(EinformerError, match="E707"):
        module.generate(torch.zeros(1, 2, dtype=torch.int64), 2)


@pytest.mark.parametrize("temperature", [5e-324, 1e-300, 1e-40, 1e300])
def test_no_temperature_takes_logits_beyond_numbers(temperature: float) -> None:
    """Near zero the likeliest follows, however large the logits are; at a high one any that may follow."""
    logits = torch.tensor([[1.0, -1e300, 1e300, -torch.inf]], dtype=torch.float64)
    drawn = Sampler(temperature).next(logits.expand(200, 4), torch.Generator().manual_seed(0))
    assert set(drawn.tolist()) <= ({2} if temperature < 1 else {0, 1, 2})


def test_logits_beyond_numbers_are_refused() -> None:
    module: Any = built(model("gpt2"), "fast", torch.float32)
    with torch.no_grad():
        module.E.fill_(torch.finfo(torch.float32).max)
    with pytest.raises(EinformerError, match="E707"):
        module.generate(torch.zeros(1, 2, dtype=torch.int64), 2)


def test_a_cache_has_room_for_what_comes_and_not_for_what_is_asked_for() -> None:
    """A stream of 10^12 tokens begins."""
    module: Any = built(model("llama"), "fast")
    stream = module.stream(prompts(1, 2) % 5, 10**12, seed=0)
    assert [next(stream).shape for _ in range(3)] == [(1,)] * 3


@pytest.mark.parametrize(
    "options",
    [{"seed": -1}, {"seed": 2**63}, {"temperature": -1.0}, {"temperature": float("nan")}, {"top_k": 0}, {"top_p": 1.5}],
)
def test_options_that_choose_nothing_are_refused(options: dict[str, Any]) -> None:
    with refuses("E708", next(iter(options))):
        ours().generate(prompts(1, 2), 1, **options)


def test_text_in_a_precision_that_autocast_chooses_is_the_likeliest_there() -> None:
    """Each token as the whole sequence, computed there, says."""
    module: Any = built(model("gpt2"), "fast", torch.float32)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        found = module.generate(prompts(2, 3), 6)
        for length in range(3, 9):
            logits = module(found[:, :length])[:, -1]
            chosen = logits.gather(-1, found[:, length : length + 1])[:, 0]
            assert (logits.max(-1).values - chosen).max() <= 0.02 * logits.abs().max()


def test_a_model_that_predicts_no_tokens_does_not_generate() -> None:
    module: Any = built(model("mamba2"), "fast")
    with refuses("E708", "Mamba2"):
        module.generate(torch.zeros(1, 2, 35), 1)
