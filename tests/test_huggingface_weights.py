"""Which tensor of transformers holds which weight? Both directions, files of every kind, and nothing half loaded."""

from __future__ import annotations

import functools
import json
import math
import pickle
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import AutoConfig, GPT2LMHeadModel

import einformer
from einformer import EinformerError
from einformer.errors import Finding
from einformer.huggingface.families import family
from einformer.huggingface.tensors import read
from einformer.interpreters.torch.ranks import list_views
from einformer.language import weights as placing
from tests.oracles.families import FAMILIES, answer, theirs, weights
from tests.oracles.lifted import Regime
from tests.refusals import names, refuses

GPT2 = FAMILIES["gpt2"]
SIZES: dict[str, Any] = {"vocab_size": 53, "n_embd": 35, "n_head": 5, "n_layer": 2, "n_inner": 31, "n_positions": 41}


@functools.cache
def model() -> Any:
    return einformer.from_huggingface({"model_type": "gpt2", **SIZES, "bos_token_id": None, "eos_token_id": None})


@functools.cache
def placed() -> dict[str, placing.Placed]:
    """The weights of that model by path."""
    return placing.weights(model().spec.tree, model().spec.layer, model().legend)


def fresh(**changed: Any) -> Any:
    """A model of transformers in float32, fresh."""
    config: Any = AutoConfig.for_model("gpt2", **{**SIZES, **changed}, bos_token_id=None, eos_token_id=None)
    return GPT2LMHeadModel(config)


@functools.cache
def small() -> Any:
    """One and the same."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return fresh()


def state(**changed: Any) -> dict[str, Any]:
    """Its state dict, with some tensors changed, added or, where None, left out."""
    names = {name.replace("__", "."): tensor for name, tensor in changed.items()}
    return {name: tensor for name, tensor in {**small().state_dict(), **names}.items() if tensor is not None}


def translated(source: Any) -> dict[str, Tensor]:
    """The weights of a source by path, in its dtype."""
    checkpoint = read("gpt2", placed(), source)
    dtype: torch.dtype = getattr(torch, checkpoint.stored["transformer.wte.weight"].dtype)
    ours = {path: torch.full(each.shape, 7, dtype=dtype) for path, each in placed().items()}
    checkpoint.write(ours)
    return ours


def filled(value: float, dtype: torch.dtype = torch.float32, plan: str = "notation") -> Any:
    """A module with the same number everywhere."""
    module: nn.Module = model().build(dtype=dtype, plan=plan).eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.fill_(value)
    return module


def loaded(source: Any) -> Any:
    """A module with the weights of a source."""
    into = filled(0.0)
    into.load_huggingface(source)
    return into


def findings(source: Any) -> tuple[Finding, ...]:
    """What is wrong with a source; tensors that it could have been written into are as they were."""
    into = filled(7.0)
    with pytest.raises(EinformerError) as error:
        into.load_huggingface(source)
    assert all(bool((tensor == 7).all()) for tensor in into.state_dict().values())
    return error.value.findings


def same(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    """The same names, dtypes and bits."""
    return one.keys() == other.keys() and all(
        one[name].dtype == other[name].dtype and torch.equal(bits(one[name]), bits(other[name])) for name in one
    )


def bits(tensor: Tensor) -> Tensor:
    return tensor.detach().contiguous().view(torch.uint8)


# --------------------------------------------------------------------------------------------------- translation


@pytest.mark.parametrize("regime", get_args(Regime))
def test_weights_are_those_of_the_oracle(regime: Regime) -> None:
    found, expected = translated(theirs("gpt2", regime).state_dict()), weights("gpt2", regime)
    assert found.keys() == expected.keys() == model().weight_shapes().keys()
    assert all(np.array_equal(found[path].numpy(), expected[path]) for path in found)


@pytest.mark.parametrize("regime", get_args(Regime))
def test_logits_are_theirs(regime: Regime) -> None:
    ours = {path: tensor.numpy() for path, tensor in translated(theirs("gpt2", regime).state_dict()).items()}
    assert np.abs(model().reference(GPT2.inputs, weights=ours) - answer("gpt2", regime)).max() < 1e-9


def test_theirs_to_ours_to_theirs() -> None:
    assert same(loaded(state()).to_huggingface(), state())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_ours_to_theirs_to_ours(dtype: torch.dtype, tmp_path: Path) -> None:
    """Through a file, and through not-a-number too."""
    draw = torch.Generator().manual_seed(0)
    ours = {path: torch.randn(each.shape, generator=draw).to(dtype) for path, each in placed().items()}
    ours["P"][3, 5] = math.nan
    module = filled(0.0, dtype)
    module.load_state_dict(ours)
    module.save_huggingface(tmp_path)
    assert same(translated(tmp_path), ours)


def test_transformers_reads_ours(tmp_path: Path) -> None:
    loaded(state()).save_huggingface(tmp_path)
    small().config.save_pretrained(tmp_path)
    again = GPT2LMHeadModel.from_pretrained(tmp_path)
    assert same(again.state_dict(), state())
    assert again.load_state_dict(loaded(state()).to_huggingface(), strict=True)


def test_tied_tensors_are_one() -> None:
    tensors = loaded(state()).to_huggingface()
    assert tensors["lm_head.weight"] is tensors["transformer.wte.weight"]


@pytest.mark.parametrize("name", ["gpt2"])
def test_every_row_names_weights_of_the_text(name: str) -> None:
    """And their axes are the letters that the text declares. Of other families `tests/test_families.py` fills toys."""
    spec = einformer.load(family(name).architecture)
    declared = {f"{layer.name}.{w.name}": w.indices for layer in spec.tree.layers for w in layer.weights}
    for ours, _, axes in family(name).tensors.rows:
        prefix, _, names = ours.rpartition(".")
        layer = prefix.rpartition(".")[2].split("_")[0] or spec.name
        letters = {letter for letter in axes if letter.isalpha()}
        assert all(letters == {i.letter[0] for i in declared[f"{layer}.{each}"]} for each in names.split(", "))


# ------------------------------------------------------------------------------------------------ what is accepted


def test_without_the_prefix() -> None:
    """As the files of the model without its head are written, the oldest with their masks."""
    old = {f"h.{layer}.attn.bias": torch.ones(1, 1, 41, 41).tril().bool() for layer in range(2)}
    old |= {f"h.{layer}.attn.masked_bias": torch.tensor(-1e4) for layer in range(2)}
    bare = small().transformer.state_dict()
    assert same(translated({**bare, **old}), translated(state()))
    assert read("gpt2", placed(), {**bare, **old}).ignored.keys() == {f"transformer.{name}" for name in old}


def test_a_reason_for_what_is_ignored() -> None:
    into = filled(0.0)
    ignored = into.load_huggingface(state(transformer__h__0__attn__bias=torch.ones(1)))
    assert ignored == {"transformer.h.0.attn.bias": "the causal mask, which old files store and the equations state"}
    assert same(into.state_dict(), translated(state()))


@pytest.mark.parametrize("head", [None, small().transformer.wte.weight.detach().clone()], ids=["absent", "equal"])
def test_a_tied_head_may_be_absent_or_equal(head: Tensor | None) -> None:
    assert same(translated(state(lm_head__weight=head)), translated(state()))


@pytest.mark.parametrize("plan", ["notation", "fast"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_weights_take_the_dtype_of_the_module(dtype: torch.dtype, plan: str) -> None:
    into = filled(0.0, dtype, plan)
    into.load_huggingface(state())
    assert same(into.state_dict(), {path: tensor.to(dtype) for path, tensor in translated(state()).items()})


@pytest.mark.parametrize("plan", ["notation", "fast"])
def test_a_module_is_filled(plan: str) -> None:
    module = model().build(plan=plan).eval()
    module.load_huggingface(state())
    tokens = torch.from_numpy(GPT2.inputs)
    with torch.no_grad():
        assert torch.allclose(module(tokens), small().eval()(tokens).logits, atol=1e-5)
    assert same(module.to_huggingface(), state())


# ------------------------------------------------------------------------------------------------------- files


@pytest.fixture
def single(tmp_path: Path) -> Path:
    """A folder that transformers saved."""
    small().save_pretrained(tmp_path / "single")
    return tmp_path / "single"


@pytest.fixture
def sharded(tmp_path: Path) -> Path:
    """One in several files with their index."""
    small().save_pretrained(tmp_path / "sharded", max_shard_size="20KB")
    assert len(list((tmp_path / "sharded").glob("model-*-of-*.safetensors"))) > 2
    return tmp_path / "sharded"


def test_a_file_and_its_folder(single: Path) -> None:
    assert same(translated(single), translated(state()))
    assert same(translated(str(single / "model.safetensors")), translated(state()))


def test_shards_and_their_index(sharded: Path) -> None:
    assert same(translated(sharded), translated(state()))
    assert same(translated(sharded / "model.safetensors.index.json"), translated(state()))


@pytest.mark.parametrize("folder", ["single", "sharded"])
def test_one_tensor_is_read_at_a_time(folder: str, request: pytest.FixtureRequest) -> None:
    checkpoint = read("gpt2", placed(), request.getfixturevalue(folder))
    alive: list[weakref.ref[Tensor]] = []

    def watched(reading: Callable[[Any], Tensor], box: Any) -> Tensor:
        assert all(reference() is None for reference in alive)
        tensor = reading(box)
        alive.append(weakref.ref(tensor))
        return tensor

    stored = {name: replace(each, read=functools.partial(watched, each.read)) for name, each in checkpoint.stored.items()}
    replace(checkpoint, stored=stored).write(dict(list_views(filled(0.0))))
    assert len(alive) == sum(len(row.weights) for row in checkpoint.rows)


# ---------------------------------------------------------------------------------------------- what is refused


def test_every_misfit_is_listed() -> None:
    found = findings(
        state(
            transformer__h__0__ln_1__bias=None,
            transformer__ln_f__weight=None,
            transformer__h__1__mlp__c_fc__weight=torch.zeros(31, 35),
            transformer__wpe__weight=torch.zeros(41, 35, dtype=torch.int8),
            transformer__wte__weight=np.zeros((53, 35)),
            transformer__h__1__mlp__c_fc__bias=torch.zeros(31, device="meta"),
            transformer__h__2__ln_1__bias=torch.zeros(35),
            foo=torch.zeros(1),
        )
    )
    assert [str(finding).split("\n  rule:")[0] for finding in found] == [
        "E704 tensors missing from the state dict: 2\n  `transformer.h.0.ln_1.bias`, 35\n  `transformer.ln_f.weight`, 35",
        "E704 tensors of the state dict that no weight reads: 2\n  `transformer.h.2.ln_1.bias`\n  `foo`",
        "E619 tensors of the state dict that cannot be weights: 3\n"
        "  `transformer.wte.weight`: not a tensor but a ndarray\n  `transformer.wpe.weight`: int8\n"
        "  `transformer.h.1.mlp.c_fc.bias`: float32 without numbers, on the device meta",
        "E701 tensors of the state dict that have another shape: 1\n  `transformer.h.1.mlp.c_fc.weight`: 31 × 35, not 35 × 31",
    ]


def test_nothing_is_everything_missing() -> None:
    (finding,) = findings({})
    assert (finding.code, len(finding.facts)) == ("E704", 28)


def test_both_names_of_one_tensor() -> None:
    (finding,) = findings(state(wte__weight=small().transformer.wte.weight))
    assert (finding.code, finding.facts) == ("E704", ("`wte.weight`",))


@pytest.mark.parametrize("layers", [1, 3])
def test_another_number_of_layers(layers: int) -> None:
    (finding,) = findings(fresh(n_layer=layers).state_dict())
    assert (finding.code, len(finding.facts)) == ("E704", 12)


def test_a_head_of_its_own() -> None:
    (finding,) = findings(state(lm_head__weight=torch.zeros(53, 35)))
    assert finding.code == "E616"
    assert names(finding) >= {"lm_head.weight", "transformer.wte.weight"}


@pytest.mark.parametrize("head", [torch.zeros(52, 35), torch.zeros(53, 35, dtype=torch.float64), torch.zeros(53, 35).byte()])
def test_a_head_that_cannot_be_the_table(head: Tensor) -> None:
    (finding,) = findings(state(lm_head__weight=head))
    assert "lm_head.weight" in str(finding)


def test_a_text_of_ones_own() -> None:
    """Weights that transformers has no tensor for are named."""
    more = {**placed(), "blocks.0.Gate.W": placed()["blocks.0.MLP.W"]}
    with pytest.raises(EinformerError, match="E704 weights that no tensor of a gpt2 model holds: 1") as error:
        read("gpt2", more, state())
    assert error.value.findings[0].facts == ("`blocks.0.Gate.W`",)


def test_a_module_without_numbers() -> None:
    into = model().build(device="meta").eval()
    with pytest.raises(EinformerError, match=r"E702 .* meta"):
        into.load_huggingface(state())


@pytest.mark.parametrize("dtype", [torch.int8, torch.bool, torch.complex64, torch.float8_e4m3fn], ids=str)
def test_a_file_of_another_kind_of_number(dtype: torch.dtype, tmp_path: Path) -> None:
    tensors = {name: tensor.clone() for name, tensor in small().transformer.state_dict().items()}
    save_file({**tensors, "ln_f.bias": torch.zeros(35).to(dtype)}, tmp_path / "model.safetensors")
    (finding,) = findings(tmp_path)
    assert (finding.code, finding.facts[0].partition(":")[0]) == ("E619", "`ln_f.bias`")


@functools.cache
def whole_file(folder: Path) -> bytes:
    """The bytes of the file that a module writes."""
    loaded(state()).save_huggingface(folder / "whole")
    return (folder / "whole" / "model.safetensors").read_bytes()


@settings(max_examples=40, deadline=None)
@given(kept=st.floats(0, 1, exclude_max=True))
def test_a_truncated_file(kept: float, tmp_path_factory: pytest.TempPathFactory) -> None:
    file, content = tmp_path_factory.getbasetemp() / "truncated.safetensors", whole_file(tmp_path_factory.getbasetemp())
    file.write_bytes(content[: int(kept * len(content))])
    (finding,) = findings(file)
    assert (finding.code, finding.message[:25]) == ("E618", f"`{file}"[:25])


@settings(max_examples=100, deadline=None)
@given(place=st.integers(0, 3000), byte=st.integers(0, 255))
def test_a_broken_head(place: int, byte: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Whatever a byte of the head becomes, the file is read or there is an error of ours."""
    file, content = tmp_path_factory.getbasetemp() / "broken.safetensors", bytearray(whole_file(tmp_path_factory.getbasetemp()))
    content[place] = byte
    file.write_bytes(content)
    try:
        checkpoint = read("gpt2", placed(), file)
    except EinformerError as error:
        codes = {finding.code for finding in error.findings}
    else:
        checkpoint.write(dict(list_views(filled(0.0))))
        codes = set()
    assert codes <= {"E618", "E619", "E701", "E704"}


def test_a_truncated_shard(sharded: Path) -> None:
    shard = max(sharded.glob("*.safetensors"))
    shard.write_bytes(shard.read_bytes()[:-1])
    (finding,) = findings(sharded)
    assert finding.code == "E618"
    assert shard.name in finding.message


class Bomb:
    """Unpickled, it writes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "model.pth", "model.ckpt", "model.safetensors"])
@pytest.mark.parametrize("whole", [True, False], ids=["folder", "file"])
def test_pickles_are_never_opened(name: str, whole: bool, tmp_path: Path) -> None:
    folder, fuse = tmp_path / "model", tmp_path / "fuse"
    folder.mkdir()
    (folder / name).write_bytes(pickle.dumps(Bomb(fuse)))
    (finding,) = findings(folder if whole else folder / name)
    assert finding.code == ("E618" if name.endswith("safetensors") else "E617")
    assert name in finding.message
    assert not fuse.exists()


def test_nothing_there(tmp_path: Path) -> None:
    assert [finding.code for finding in findings(tmp_path)] == ["E802"]
    assert [finding.code for finding in findings(tmp_path / "model.safetensors")] == ["E802"]


def broken_indices() -> Iterator[tuple[str, Callable[[dict[str, Any]], object], str]]:
    """What may be wrong with an index: its name, the change, what the message says."""
    name = "transformer.wte.weight"
    yield "no map", lambda index: index.pop("weight_map"), "has no `weight_map`"
    yield "a list", lambda index: index.update(weight_map=[name]), "has no `weight_map`"
    yield "a number", lambda index: index["weight_map"].update({name: 3}), "has no `weight_map`"
    yield "no file", lambda index: index["weight_map"].update({name: "none.safetensors"}), "`none.safetensors`"
    yield "elsewhere", lambda index: index["weight_map"].update({name: "../single/model.safetensors"}), "does not lie beside it"
    yield "a pickle", lambda index: index["weight_map"].update({name: "pytorch_model.bin"}), "is pickled"
    yield "another file", lambda index: index["weight_map"].update({"foo": index["weight_map"][name]}), "`foo` is not in"
    yield "forgotten", lambda index: index["weight_map"].pop(name), f"`{name}` in "


@pytest.mark.parametrize(("change", "message"), [pytest.param(*row[1:], id=row[0]) for row in broken_indices()])
def test_a_broken_index(change: Callable[[dict[str, Any]], object], message: str, single: Path, sharded: Path) -> None:
    (sharded / "pytorch_model.bin").touch()
    file = sharded / "model.safetensors.index.json"
    index = json.loads(file.read_text(encoding="utf-8"))
    change(index)
    file.write_text(json.dumps(index), encoding="utf-8")
    (finding,) = findings(sharded)
    assert finding.code in ("E617", "E618")
    assert message in str(finding)


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").mkdir()
    with refuses("E801"):
        loaded(state()).save_huggingface(tmp_path)
