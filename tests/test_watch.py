"""Are modules checked that nobody touched, with one binding for the whole model, and left as they were?"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import einformer as ein
from einformer import EinformerError
from einformer.objects import Model


def code(call: Any) -> str:
    try:
        call()
    except EinformerError as error:
        (finding,) = error.findings
        return finding.code + "!" * bool(error.__cause__ or error.__context__)
    return ""


def said(call: Any) -> str:
    with pytest.raises(EinformerError) as caught:
        call()
    return str(caught.value)


class Block(nn.Module):
    """As people write them: the sizes of its parts can be wrong apart."""

    def __init__(self, size: int = 12, inner: int = 20) -> None:
        super().__init__()
        self.up = nn.Linear(size, inner)
        self.down = nn.Linear(inner, size)

    def forward(self, hidden: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        return hidden + self.down(self.up(hidden).relu()), mask


class Stack(nn.Module):
    def __init__(self, *blocks: nn.Module) -> None:
        super().__init__()
        self.embed = nn.Embedding(17, 12)
        self.h = nn.ModuleList(blocks)

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> dict[str, Any]:
        hidden = self.embed(ids)
        for block in self.h:
            hidden, _ = block(hidden, mask=mask)
        return {"last": hidden}


IDS = torch.zeros(2, 5, dtype=torch.int64)
CONTRACTS = {
    "": "int x_bs, m_bs? -> {last: z_bsd}",
    "h.*": "z_bsd, m_bs? -> (z_bsd, ...)",
    "**.up": "z_bsd -> h_bsf",
    "h.*.up.weight": "W_fd",
}


def test_a_model_that_keeps_its_contracts() -> None:
    model = Stack(Block(), Block())
    hooks = [len(module._forward_hooks) for module in model.modules()]
    with ein.contracts.watch(model, CONTRACTS) as watched:
        assert model(IDS)["last"].shape == (2, 5, 12)
        assert watched.last == {"B": 2, "S": 5, "D": 12, "F": 20}
        assert model(IDS[:, :3], mask=torch.ones(2, 3))["last"].shape == (2, 3, 12)
        assert watched.last["S"] == 3
    assert [len(module._forward_hooks) for module in model.modules()] == hooks
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_one_binding_for_the_whole_model() -> None:
    """Each block is right by itself; only together are they wrong."""
    model = Stack(Block(), Block(inner=24))
    message = said(lambda: ein.contracts.watch(model, CONTRACTS))
    assert "`h.1.up.weight` has 24 along `f`, not 20" in message
    assert "F = 20 by `h.0.up.weight.shape[0]`" in message
    ein.contracts.watch(model, {"h.*": "z_bsd -> (z_bsd, ...)", "h.*.up": "z_bsd -> h_bsf"})
    message = said(lambda: model(IDS))
    assert "`h.1.up(…)` has 24 along `f`, not 20" in message
    assert "F = 20 by `h.0.up(…).shape[2]`" in message
    assert "h.1.up (Linear):1:" in message


class Transposes(Block):
    def forward(self, hidden: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        return super().forward(hidden.transpose(0, 1))[0], mask


def test_a_block_that_swaps_two_axes() -> None:
    model = Stack(Block(), Transposes())
    with ein.contracts.watch(model, CONTRACTS):
        message = said(lambda: model(IDS))
        assert "`h.1.up.input` has 5 along `b`, not 2" in message
        assert "`b` and `s` are swapped" in message
        assert code(lambda: model(IDS)) == "E720"
        assert code(lambda: model.h[0](torch.zeros(3, 4, 12))) == ""  # by itself it is a run of its own
        assert code(lambda: model.h[0](torch.zeros(3, 4, 13))) == "E720"  # but D is the model's
    assert code(lambda: model(IDS)) == ""


def test_sizes_that_hide_it_are_refused_in_a_probe() -> None:
    model = Stack(Block(), Transposes())
    square = torch.zeros(5, 5, dtype=torch.int64)
    with ein.contracts.watch(model, CONTRACTS):
        assert code(lambda: model(square)) == ""
    with ein.contracts.watch(model, CONTRACTS, probe=True):
        assert code(lambda: model(square)) == "E728"
        assert code(lambda: model(IDS)) == "E720"
    with ein.contracts.watch(Stack(Block()), CONTRACTS, probe=True) as watched:
        assert code(lambda: watched.model(IDS)) == ""


def test_an_error_of_the_model_itself_is_passed_on() -> None:
    class Fails(Block):
        def forward(self, hidden: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
            raise KeyError("its own")

    model = Stack(Fails())
    with ein.contracts.watch(model, CONTRACTS):
        for _ in range(2):
            with pytest.raises(KeyError, match="its own"):
                model(IDS)
        model.h[0] = Block()
        assert code(lambda: model(IDS[:1])) == ""


def test_a_run_that_is_interrupted_is_over() -> None:
    """By Ctrl-C, wherever it was; other sizes fit the next one, of the model or of a part of it."""
    blocks = (Block(), Block())
    model = Stack(*blocks)
    with ein.contracts.watch(model, CONTRACTS):
        for part in (blocks[1].down, blocks[0].up):

            def interrupt(*_: object) -> None:
                raise KeyboardInterrupt

            handle = part.register_forward_hook(interrupt)
            with pytest.raises(KeyboardInterrupt):
                model(IDS)
            with pytest.raises(KeyboardInterrupt):
                blocks[int(part is blocks[1].down)](torch.zeros(2, 5, 12))
            handle.remove()
            blocks[0](torch.zeros(3, 7, 12))
            model(torch.zeros(4, 6, dtype=torch.int64))


def test_threads_have_runs_of_their_own() -> None:
    """Each waits inside of a run until all are in one."""
    blocks, together = (Block(), Block()), threading.Barrier(8)
    model = Stack(*blocks)

    def wait(*_: object) -> None:
        together.wait(30)

    blocks[0].up.register_forward_pre_hook(wait)
    errors = list[BaseException]()

    def call(length: int) -> None:
        try:
            model(torch.zeros(2, length, dtype=torch.int64))
        except BaseException as error:
            errors.append(error)

    with ein.contracts.watch(model, CONTRACTS):
        threads = [threading.Thread(target=call, args=(length,)) for length in range(1, 9)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert errors == []


@pytest.mark.parametrize("pattern", ["h.*.attention", "encoder.*", "h.2", "h.*.up.weigth"])
def test_a_pattern_of_nothing_is_refused(pattern: str) -> None:
    model = Stack(Block(), Block())
    assert code(lambda: ein.contracts.watch(model, {"h.0": "z_bsd", pattern: "z_bsd"})) == "E727"
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_sizes_of_a_block_of_code_hold_in_a_run() -> None:
    model = Stack(Block())
    with ein.contracts.watch(model, CONTRACTS), ein.contracts.sizes(S=5):
        assert code(lambda: model(IDS)) == ""
        assert "S = 5 by ein.contracts.sizes at test_watch.py" in said(lambda: model(IDS[:, :4]))


# ------------------------------------------------------------------------------------------------- by a specification


@pytest.fixture(scope="module")
def bound() -> Model:
    return ein.load("gpt2").bind(D=12, A=3, L=2, V=17, K=7)


@pytest.mark.parametrize("plan", ["fast", "notation"])
def test_what_is_built_of_a_specification_keeps_it(bound: Model, plan: str) -> None:
    module = bound.build(plan=plan).eval()
    with ein.contracts.watch(module, bound) as watched:
        assert module(IDS).shape == (2, 5, 17)
        assert {**watched.last, "D": 12, "H": 4, "A": 3, "F": 48, "V": 17, "B": 2, "S": 5} == watched.last
    with ein.contracts.watch(module, bound.spec) as watched:
        assert module(IDS).shape == (2, 5, 17)
        assert watched.sizes["H"].size == 4


def test_what_differs_from_the_specification(bound: Model) -> None:
    other = ein.load("gpt2").bind(D=12, A=4, L=2, V=17, K=7).build().eval()
    message = said(lambda: ein.contracts.watch(other, bound))
    assert "has 3 along `e`, not 4" in message
    assert "e: H = D / A (gpt2.ein:" in message
    assert "are swapped" in message


def test_modules_of_others_by_the_names_of_layers(bound: Model) -> None:
    model = Stack(Block(12, 48))
    names = {"MLP": "h.*.up", "MLP.W": "h.*.up.weight"}
    assert "`h.0.up.weight` has 48 along `d`, not 12" in said(
        lambda: ein.contracts.watch(model, bound, names)
    )  # Linear keeps W_fd
    model = Stack(nn.Sequential(nn.Linear(12, 48), nn.Linear(48, 12)))
    with ein.contracts.watch(model, bound, {"MLP": "h.0"}):
        assert code(lambda: model.h[0](torch.zeros(2, 5, 12))) == ""
        assert code(lambda: model.h[0](torch.zeros(2, 5, 13))) == "E720"


# --------------------------------------------------------------------------------------------------------- transformers

GPT2 = {
    "": "int x_bs -> {logits: y_bsv}",
    "transformer.h.*.attn": "z_bsd -> (z_bsd, ...)",
    "transformer.h.*.mlp": "z_bsd -> z_bsd",
    "transformer.h.*.ln_1": "z_bsd -> z_bsd",
    "transformer.h.*.attn.c_attn.weight": "W_{d(3 d)}",
    "transformer.h.*.mlp.c_fc": "z_bsd -> h_bsf",
    "transformer.h.*.mlp.c_fc.weight": "W_df where f: 4 D",
    "lm_head.weight": "E_vd",
}


@pytest.mark.slow
def test_a_model_of_transformers_in_a_probe() -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    sizes: Any = {"n_embd": 12, "n_head": 3, "n_layer": 2, "vocab_size": 17, "n_positions": 7}
    made: Any = GPT2LMHeadModel(GPT2Config(**sizes))
    model = made.eval()
    with ein.contracts.watch(model, GPT2, probe=True) as watched:
        model(IDS)
        assert watched.last == {"B": 2, "S": 5, "D": 12, "V": 17, "F": 48}
    with ein.contracts.watch(model, {pattern: text for pattern, text in GPT2.items() if pattern}) as watched:
        assert model.generate(IDS, max_new_tokens=2, do_sample=False, pad_token_id=0).shape == (2, 7)
        assert watched.last["S"] == 1  # with a cache, one position at a time
    model.transformer.h[1].mlp.c_proj.weight = nn.Parameter(torch.zeros(48, 13))
    model.transformer.h[1].mlp.c_proj.bias, model.transformer.h[1].mlp.c_proj.nf = nn.Parameter(torch.zeros(13)), 13
    with ein.contracts.watch(model, GPT2):
        message = said(lambda: model(IDS))
    assert "`transformer.h.1.mlp(…)` has 13 along `d`, not 12" in message
    assert "D = 12 by `transformer.h.0.attn.c_attn.weight.shape[0]`" in message


# ----------------------------------------------------------------------------------------------------------- probing


def swap(z_bsd: Tensor) -> Tensor:
    return z_bsd.transpose(0, 1)


def test_a_probe_runs_on_sizes_that_differ() -> None:
    assert ein.contracts.probe(lambda q, k: torch.einsum("bsea,btea->bsta", q, k), "q_bsea, k_btea -> w_bsta") == {
        "B": 2, "S": 3, "E": 5, "A": 7, "T": 11,
    }  # fmt: skip
    assert code(lambda: ein.contracts.probe(swap, "z_bsd -> z_bsd")) == "E720"
    assert ein.contracts.probe(nn.Linear(12, 20), "z_...d -> h_...f", D=12, F=20) == {"D": 12, "F": 20}
    assert code(lambda: ein.contracts.probe(nn.Linear(12, 12), "z_...d -> h_...f", D=12, F=12)) == "E728"
    assert ein.contracts.probe(nn.Embedding(2, 5), "int x_bs -> z_bsd", D=5)["B"] == 2


def test_a_probe_gives_what_is_optional_and_leaves_it_out() -> None:
    calls: list[bool] = []

    def masked(z: Tensor, mask: Tensor | None = None, *, scale: float = 1.0, S: int = 0) -> dict[str, Tensor]:
        calls.append(mask is not None)
        return {"z": z if mask is None else z * mask[:, None]}

    assert ein.contracts.probe(masked, "z_sd, mask = bool m_s?, float scale, S -> {z: z_sd}") == {"S": 2, "D": 3}
    assert calls == [True, False]


TRANSPOSED = "q_bsea, k_bs'ea -> w_bss'a where s': T"


def test_transposed_scores_have_another_shape_where_s_and_its_prime_differ() -> None:
    def scores(q: Tensor, k: Tensor) -> Tensor:
        return torch.einsum("bsea,btea->btsa", q, k)

    z = torch.zeros(2, 5, 3, 4)
    assert ein.contract(TRANSPOSED)(scores)(z, z).shape == (2, 5, 5, 4)  # what equal sizes hide
    message = said(lambda: ein.contracts.probe(scores, TRANSPOSED))
    assert "`s` and `s'` are swapped" in message


@pytest.fixture(autouse=True)
def switched_on() -> Iterator[None]:
    yield
    ein.contracts.on()


def test_off_watches_nothing() -> None:
    ein.contracts.off()
    model = Stack(Block())
    ein.contracts.watch(model, {"h.*": "z_b"})
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_a_function_without_a_signature_is_probed_by_the_order_of_its_contract() -> None:
    assert ein.contracts.probe(torch.matmul, "x_st, y_tu -> z_su") == {"S": 2, "T": 3, "U": 5}
    assert ein.contracts.probe(nn.functional.gelu, "x_bs -> y_bs") == {"B": 2, "S": 3}
    assert code(lambda: ein.contracts.probe(torch.matmul, "x_st, y_tu -> z_us")) == "E720"
    assert code(lambda: ein.contracts.probe(torch.matmul)) == "E724"
