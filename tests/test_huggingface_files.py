"""Do files hold our weights as transformers writes and reads them? Mixtures have one tensor for each expert there."""

from __future__ import annotations

import codecs
import functools
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING
from transformers.models.mistral4.modeling_mistral4 import Mistral4ForCausalLM

import einformer
from einformer import EinformerError
from einformer.cli import main
from einformer.errors import Finding
from einformer.huggingface.families import family
from einformer.huggingface.tensors import Checkpoint
from einformer.huggingface.tensors import read as read_tensors
from tests import toys
from tests.few import FEW_FAMILIES, few
from tests.oracles import of_toys
from tests.oracles.lifted import COMPUTED
from tests.refusals import refuses
from tests.toys import TOYS, config_of, toy

NAMES = sorted({kind: name for name, (kind, _) in reversed(TOYS.items())}.values())
ALWAYS = {"llama", "mixtral", "qwen3_moe", "deepseek_v3", "gpt_neox", "bloom", "falcon"}
# transformers writes a dense MLP of Kimi Linear under the name of the experts, which the files of its authors do not: names of
# theirs, and of ours.
SLIPS = {"kimi_linear": ("block_sparse_moe.{}_proj.", "mlp.{}_proj.")}
UNMAPPED = {"mistral4": Mistral4ForCausalLM}  # no config alone means these classes
EACH = few(NAMES, [*ALWAYS, *SLIPS, *UNMAPPED, "nemotron_h"])
MIXTURES = [
    name for name in NAMES if "{x}" in str(family(TOYS[name][0]).tensors.files) and "expert" in str(TOYS[name][1]).lower()
]
SHARD = 40_000  # bytes: several files for each toy


@functools.cache
def theirs(name: str) -> Any:
    config = toy(name)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return model_class(name)._from_config(config, dtype=torch.float32)


def model_class(name: str) -> Any:
    """The class of their model."""
    mapping: Any = MODEL_FOR_CAUSAL_LM_MAPPING
    return UNMAPPED.get(name) or mapping[type(toy(name))]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A folder of several files that transformers wrote."""

    @functools.cache
    def written(name: str) -> Path:
        folder = tmp_path_factory.mktemp(name)
        theirs(name).save_pretrained(folder, max_shard_size=SHARD)
        assert len(list(folder.glob("model-*-of-*.safetensors"))) > 1
        return folder

    return written


def ours(name: str, source: Any, dtype: torch.dtype = torch.float32, plan: str = "fast") -> Any:
    """Our module with the weights of a source."""
    module: Any = of_toys.ours(name).build(dtype=dtype, plan=plan).eval()
    module.load_huggingface(source)
    return module


def stored(name: str) -> dict[str, Tensor]:
    """Their state dict, without buffers that the config says."""
    return {key: tensor for key, tensor in theirs(name).state_dict().items() if key.rpartition(".")[2] not in COMPUTED}


def same(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(
        one[name].dtype == other[name].dtype and torch.equal(one[name], other[name]) for name in one
    )


def heads(folder: Path) -> dict[str, tuple[int, ...]]:
    """The name and the shape of every tensor of a folder."""
    found: dict[str, tuple[int, ...]] = {}
    for path in folder.glob("*.safetensors"):
        with safe_open(path, "pt") as file:
            found |= {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118 (it is no dict)
    return {name: shape for name, shape in found.items() if name.rpartition(".")[2] not in COMPUTED}


@pytest.mark.parametrize("name", EACH)
def test_what_transformers_writes_is_read(name: str, files: Callable[[str], Path]) -> None:
    """From files, which may hold experts one by one, as from the state dict, which has them stacked."""
    folder = files(name)
    one_by_one = [".experts.3." in "".join(tensors) for tensors in (heads(folder), theirs(name).state_dict())]
    assert one_by_one == [name in MIXTURES, False]
    assert same(ours(name, folder).state_dict(), ours(name, theirs(name).state_dict()).state_dict())


@pytest.mark.parametrize("name", toys.EACH)
def test_every_number_of_a_module_is_read(name: str) -> None:
    """Of a module whose memory nothing has filled, as `generate` builds it."""
    module: Any = of_toys.ours(name).build("meta").to_empty(device="cpu")
    for tensor in (*module.parameters(), *module.buffers()):
        tensor.data.fill_(torch.nan)
    module.load_huggingface(of_toys.theirs(name, "fan_in").state_dict())
    assert all(tensor.isfinite().all() for tensor in (*module.parameters(), *module.buffers()))


@pytest.mark.parametrize("name", EACH)
def test_parts_of_weights_are_read_alone(name: str, files: Callable[[str], Path]) -> None:
    """Random ranges of every weight, of packed, transposed and stacked tensors too; no number of another part is copied."""
    module, draw = ours(name, theirs(name).state_dict()), Random(name)
    placed, wholes = module._place_weights(), module.join_weights()
    regions = {path: tuple(draw_range(draw, size) for size in weight.shape) for path, weight in wholes.items()}
    for source in (files(name), theirs(name).state_dict()):
        parts = {path: torch.full([*map(len, ranges)], torch.nan) for path, ranges in regions.items()}
        read_tensors(module.recipe.family, placed, source, bool(module.recipe.part), regions).write(parts)
        for path, ranges in regions.items():
            assert torch.equal(parts[path], wholes[path][tuple(slice(own.start, own.stop) for own in ranges)]), path


def draw_range(draw: Random, size: int) -> range:
    first = draw.randrange(size)
    return range(first, draw.randint(first + 1, size))


@pytest.mark.parametrize("name", EACH)
def test_transformers_reads_what_is_written(name: str, tmp_path: Path, files: Callable[[str], Path]) -> None:
    """The same names and shapes as theirs, in several files with their index."""
    module = ours(name, theirs(name).state_dict())
    module.save_huggingface(tmp_path, SHARD)
    expected = heads(files(name))
    for part in ("gate", "up", "down") if name in SLIPS else ():
        one, other = (form.format(part) for form in SLIPS[name])
        expected = {key.replace(one, other): shape for key, shape in expected.items()}
    assert heads(tmp_path) == expected
    assert same(model_class(name).from_pretrained(tmp_path, dtype=torch.float32).state_dict(), theirs(name).state_dict())


@pytest.mark.parametrize("name", few(MIXTURES, FEW_FAMILIES))
def test_stacked_experts_are_read_from_a_file_too(name: str, tmp_path: Path) -> None:
    state = {key: tensor.clone() for key, tensor in theirs(name).state_dict().items()}
    save_file(state, tmp_path / "model.safetensors")
    assert same(ours(name, tmp_path).to_huggingface(), stored(name))


def test_known_mixtures_are_here() -> None:
    assert {"mixtral", "qwen2_moe", "qwen3_moe", "deepseek_v2", "deepseek_v3"} <= set(MIXTURES)


@pytest.mark.parametrize("name", ["mixtral", "deepseek_v3"])
@pytest.mark.parametrize("plan", ["notation", "fast"])
@pytest.mark.parametrize("narrow", [torch.float16, torch.bfloat16], ids=str)
def test_from_half_precision_and_back(name: str, plan: str, narrow: torch.dtype, tmp_path: Path) -> None:
    """Every number of a half is one of a float32, so that there and back nothing changes."""
    half = {key: tensor.to(narrow) for key, tensor in theirs(name).state_dict().items()}
    wide = ours(name, half, torch.float32, plan)
    assert all(tensor.dtype == torch.float32 for tensor in wide.state_dict().values())
    wide.save_huggingface(tmp_path)
    assert same(ours(name, tmp_path, narrow, plan).to_huggingface(), half)


def test_one_file_where_it_fits(tmp_path: Path) -> None:
    ours("mixtral", theirs("mixtral").state_dict()).save_huggingface(tmp_path / "new" / "folder")
    assert [path.name for path in (tmp_path / "new" / "folder").glob("*.safetensors*")] == ["model.safetensors"]


@pytest.mark.parametrize("most", [1, 9_999, 70_000])
def test_files_are_no_larger_than_asked(most: int, tmp_path: Path) -> None:
    """But for those of one tensor."""
    ours("mixtral", theirs("mixtral").state_dict()).save_huggingface(tmp_path, most)
    sizes = [[tensor.nbytes for tensor in load_file(path).values()] for path in tmp_path.glob("*.safetensors")]
    assert all(sum(file) <= most or len(file) == 1 for file in sizes)
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text(encoding="utf-8"))
    assert index["metadata"]["total_size"] == sum(map(sum, sizes))
    assert same(ours("mixtral", tmp_path).to_huggingface(), theirs("mixtral").state_dict())


def test_other_weights_are_not_left_beside(tmp_path: Path) -> None:
    """An older file would be read in the place of the new ones."""
    module = ours("mixtral", theirs("mixtral").state_dict())
    module.save_huggingface(tmp_path)
    module.save_huggingface(tmp_path)
    with refuses("E801"):
        module.save_huggingface(tmp_path, SHARD)


class Stopped(BaseException):
    """The computer goes off."""


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("most", [SHARD, 10**9])
def test_a_save_that_is_stopped_never_mixes_old_and_new(
    most: int, before: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before or after any file is written or put in its place, what loads is one of the two."""
    old = ours("mixtral", theirs("mixtral").state_dict())
    new = ours("mixtral", {name: tensor + 1 for name, tensor in theirs("mixtral").state_dict().items()})
    states, seen = [module.to_huggingface() for module in (old, new)], set[str]()
    for stop in itertools.count():
        folder, left = tmp_path / str(stop), itertools.count()
        old.save_huggingface(folder, most)

        def stopping(call: Callable[..., Any], stop: int = stop, left: Iterator[int] = left) -> Callable[..., Any]:
            def stopped(*arguments: Any, **named: Any) -> Any:
                at = next(left)
                if before and at == stop:
                    raise Stopped
                result = call(*arguments, **named)
                if at == stop:
                    raise Stopped
                return result

            return stopped

        with monkeypatch.context() as patch:
            patch.setattr("einformer.huggingface.stored.save_file", stopping(save_file))
            patch.setattr(os, "replace", stopping(os.replace))
            try:
                new.save_huggingface(folder, most)
                break
            except Stopped:
                pass
        try:
            loaded = ours("mixtral", folder).to_huggingface()
        except EinformerError:
            seen.add("none")
        else:
            seen.add("old" if same(loaded, states[0]) else "new" if same(loaded, states[1]) else "mixed")
    assert stop > (6 if most == SHARD else 1)
    assert seen <= {"old", "new", "none"}
    assert "old" in seen
    assert not list(tmp_path.glob("*/.unfinished*"))


@pytest.mark.parametrize("change", ["replace", "remove", "truncate"])
def test_a_file_that_changes_while_it_is_read_is_refused(change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tensors are read one by one."""
    module, path = ours("mixtral", theirs("mixtral").state_dict()), tmp_path / "model.safetensors"
    module.save_huggingface(tmp_path)
    tensors, read = load_file(path), Checkpoint.write

    def write(checkpoint: Checkpoint, into: Mapping[str, Tensor]) -> None:
        path.unlink()
        if change == "replace":
            save_file({name: tensor + 1 for name, tensor in tensors.items()}, path)
        elif change == "truncate":
            path.write_bytes(b"")
        read(checkpoint, into)

    monkeypatch.setattr(Checkpoint, "write", write)
    with refuses("E618"):
        module.load_huggingface(tmp_path)


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with refuses("E801"):
        ours("mixtral", theirs("mixtral").state_dict()).save_huggingface(tmp_path / "file")


def test_a_text_is_continued_from_several_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As transformers continues it, byte by byte; experts one by one."""
    models: Any = AutoModelForCausalLM
    sizes = {"hidden_size": 36, "num_attention_heads": 6, "num_key_value_heads": 2, "intermediate_size": 31, "vocab_size": 256}
    more = {
        "num_hidden_layers": 2,
        "num_local_experts": 5,
        "num_experts_per_tok": 2,
        "eos_token_id": None,
        "bos_token_id": None,
    }
    torch.manual_seed(0)
    config = AutoConfig.for_model("mixtral", **sizes, **more, initializer_range=0.3)
    model = models.from_config(config, dtype=torch.float32, experts_implementation="eager")
    model.save_pretrained(tmp_path, max_shard_size=SHARD)
    assert len(list(tmp_path.glob("*.safetensors"))) > 2
    expected = model.generate(torch.tensor([list(b"abc")]), max_new_tokens=6, do_sample=False)[0, 3:]
    capsys.readouterr()
    assert main(["generate", str(tmp_path), "--text", "abc", "--tokens", "6", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["continuation"]
    assert found == codecs.getincrementaldecoder("utf-8")("replace").decode(bytes(expected.tolist()))  # a letter may be begun


# ---------------------------------------------------------------------------------------------- what is refused

EXPERT = "model.layers.1.block_sparse_moe.experts.{}.w2.weight"


def findings(state: Mapping[str, Tensor], tmp_path: Path) -> tuple[Finding, ...]:
    """What is wrong with a file; the module that it was to be read into is as it was."""
    save_file(dict(state), tmp_path / "model.safetensors")
    module: Any = einformer.from_huggingface(config_of("mixtral")).build().eval()
    before = {path: tensor.clone() for path, tensor in module.state_dict().items()}
    with pytest.raises(EinformerError) as error:
        module.load_huggingface(tmp_path)
    assert same(module.state_dict(), before)
    return error.value.findings


@pytest.mark.parametrize(
    ("change", "code", "fact"),
    [
        (lambda state: state.pop(EXPERT.format(4)), "E704", f"`{EXPERT.format(4)}`, 45 × 31"),
        (lambda state: state.update({EXPERT.format(7): torch.zeros(45, 31)}), "E704", f"`{EXPERT.format(7)}`"),
        (
            lambda state: state.update({EXPERT.format(6): torch.zeros(31, 45)}),
            "E701",
            f"`{EXPERT.format(6)}`: 31 × 45, not 45 × 31",
        ),
        (
            lambda state: state.update({EXPERT.format(0): torch.zeros(45, 31).to(torch.int8)}),
            "E619",
            f"`{EXPERT.format(0)}`: I8",
        ),
    ],
    ids=["missing", "extra", "shape", "dtype"],
)
def test_an_expert_that_does_not_fit(
    change: Callable[[dict[str, Tensor]], object],
    code: str,
    fact: str,
    tmp_path: Path,
    files: Callable[[str], Path],
) -> None:
    state = {key: t for path in files("mixtral").glob("*.safetensors") for key, t in load_file(path).items()}
    change(state)
    (finding,) = findings(state, tmp_path)
    assert (finding.code, finding.facts) == (code, (fact,))


def test_experts_stacked_and_one_by_one(tmp_path: Path, files: Callable[[str], Path]) -> None:
    """What stands twice is left over once, by name."""
    state = {key: t for path in files("mixtral").glob("*.safetensors") for key, t in load_file(path).items()}
    stacked = "model.layers.0.mlp.experts.down_proj"
    (finding,) = findings({**state, stacked: theirs("mixtral").state_dict()[stacked].clone()}, tmp_path)
    assert (finding.code, finding.facts) == ("E704", (f"`{stacked}`",))


def test_a_tensor_in_two_files(tmp_path: Path, files: Callable[[str], Path]) -> None:
    for path in files("mixtral").iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text(encoding="utf-8"))["weight_map"]
    tensor = next(iter(index))
    other = next(file for file in index.values() if file != index[tensor])
    save_file({**load_file(tmp_path / other), tensor: torch.zeros(1)}, tmp_path / other)
    module: Any = einformer.from_huggingface(config_of("mixtral")).build().eval()
    with pytest.raises(EinformerError) as error:
        module.load_huggingface(tmp_path)
    assert error.value.findings[0].facts == (f"`{tensor}` in `{other}` is not what the index says",)


# ------------------------------------------------------------------------------------------------------------ memory

LOADED = """
import pathlib, resource, sys
import einformer

def most():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

folder = pathlib.Path(sys.argv[1])
sizes = dict(num_attention_heads=8, num_key_value_heads=4, vocab_size=512, hidden_size=512, intermediate_size=1024)
config = {"model_type": "mixtral", "num_hidden_layers": 4, "num_local_experts": 8, **sizes}
module = einformer.from_huggingface(config).build().eval()
if sys.argv[2] == "save":
    module.save_huggingface(folder, 20_000_000)
else:
    before = most()
    module.load_huggingface(folder)
    print(sum(parameter.nbytes for parameter in module.parameters()), most() - before)
"""


@pytest.mark.slow
def test_no_second_copy_is_held(tmp_path: Path) -> None:
    """Loading takes no more than a file at a time beside the module, which is ten times as large."""
    for what in ("save", "load"):
        said = subprocess.run(
            [sys.executable, "-c", LOADED, str(tmp_path), what], check=True, capture_output=True, text=True
        ).stdout
    module, more = map(int, said.split())
    assert len(list(tmp_path.glob("*.safetensors"))) > 10
    assert module > 200_000_000
    assert more < module / 10
