"""Which model is a config.json?

The published ones are read exactly, every key has a say or a reason, and nonsense gets one error.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoConfig, GPT2LMHeadModel

import einformer
from einformer import EinformerError
from einformer.architectures import texts
from einformer.errors import catalogue
from einformer.huggingface.config import Imported, import_config
from einformer.huggingface.families import families, family
from einformer.interpreters.torch.plan import Initialisation
from einformer.language import binding
from einformer.language.weights import weights
from tests.guard import guarded
from tests.oracles.lifted import Array, build, run
from tests.refusals import names, refuses
from tests.toys import config_of

Config = Mapping[str, Any]

CONFIGS = {path.stem: path for path in sorted((Path(__file__).parent / "data" / "configs").glob("*.json"))}
GPT2 = "transformers.models.gpt2.modeling_gpt2"
SMALL: dict[str, Any] = {"vocab_size": 53, "n_embd": 36, "n_head": 4, "n_layer": 2, "n_positions": 41}
TOY = {"model_type": "gpt2", **SMALL}
# Keys of old files, which transformers no longer writes.
OLD = {
    "n_ctx": 41,
    "n_special": 0,
    "predict_special_tokens": True,
    "output_past": True,
    "pruned_heads": {},
    "torch_dtype": "float32",
    "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}},
    "gradient_checkpointing": False,
    "hidden_size": 36,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "max_position_embeddings": 41,
}


def theirs(**keys: Any) -> Any:
    """A config of transformers."""
    return AutoConfig.for_model("gpt2", **keys)


@functools.cache
def full() -> Config:
    """A config with every key that transformers writes, and those of old files."""
    written: dict[str, Any] = theirs(**SMALL, n_inner=31, bos_token_id=1, eos_token_id=2).to_dict()
    return {**written, **OLD}


load = functools.cache(einformer.load)


def published(name: str) -> tuple[Config, int]:
    """A published config and its number of parameters."""
    row = json.loads(CONFIGS[name].read_text(encoding="utf-8"))
    return row["hf_config"], row["params_total"]


def bound(imported: Imported) -> Any:
    """The legend of the architecture with what a config says."""
    spec = load(imported.architecture)
    tree, legend = binding.bind(spec.tree, imported.values, imported.origins)
    return weights(tree, spec.layer, legend)


def verdict(config: Config) -> object:
    """The model, or why there is none."""
    try:
        imported = import_config(config)
        bound(imported)
    except EinformerError as error:
        return [(finding.code, finding.message) for finding in error.findings]
    return imported.architecture, imported.values, imported.absent, imported.initialisation


def findings(config: Any) -> Any:
    with pytest.raises(EinformerError) as error:
        bound(import_config(config))
    return error.value.findings


# ------------------------------------------------------------------------------------------------- real configs


def test_the_published_models_are_here() -> None:
    assert {"gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl"} < CONFIGS.keys()


@pytest.mark.parametrize("name", CONFIGS)
def test_parameters_are_the_published_ones(name: str) -> None:
    config, parameters = published(name)
    assert sum(math.prod(placed.shape) for placed in bound(import_config(config)).values()) == parameters


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("gpt2", {"D": 768, "A": 12, "L": 12}),
        ("gpt2-medium", {"D": 1024, "A": 16, "L": 24}),
        ("gpt2-large", {"D": 1280, "A": 20, "L": 36}),
        ("gpt2-xl", {"D": 1600, "A": 25, "L": 48}),
    ],
)
def test_values_of_gpt2(name: str, sizes: Mapping[str, int]) -> None:
    imported = import_config(published(name)[0])
    assert imported.architecture == "gpt2"
    assert imported.values == {**sizes, "V": 50257, "K": 1024, "ε": 1e-5, "p": 0.1}
    assert imported.initialisation == Initialisation("gpt2", 0.02)


def test_a_folder_a_file_and_a_dict_say_the_same(tmp_path: Path) -> None:
    theirs(**SMALL, n_inner=31, attn_pdrop=0, embd_pdrop=0, resid_pdrop=0).save_pretrained(tmp_path)
    file = tmp_path / "config.json"
    one, two, three = map(import_config, (tmp_path, str(file), json.loads(file.read_text(encoding="utf-8"))))
    assert one.values == two.values == three.values == {"V": 53, "D": 36, "A": 4, "L": 2, "K": 41, "F": 31, "ε": 1e-5, "p": 0}
    line = file.read_text(encoding="utf-8").split("\n").index('  "n_embd": 36,') + 1
    assert (one.origins["D"], three.origins["D"]) == (f"n_embd, {file}:{line}", "n_embd")


# ------------------------------------------------------------------------------------------------- every key


def other(value: object) -> object:
    """Another value of the same kind."""
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case float():
            return value / 2
        case str():
            return f"{value}x"
        case None:
            return 7
        case _:
            return {"0": [0]}


@pytest.mark.parametrize("name", ["full", *CONFIGS])
def test_every_key_has_a_say_or_a_reason(name: str) -> None:
    """Where a key is perturbed or left out, the model or the verdict changes, unless the key is ignored by name."""
    config = full() if name == "full" else published(name)[0]
    ignored = import_config(config).ignored
    model = verdict(config)
    same = {key for key, value in config.items() if verdict({**config, key: other(value)}) == model}
    assert same == ignored.keys()


def test_every_reason_is_a_sentence() -> None:
    table = family("gpt2")
    assert all(len(why.split()) > 3 for why in table.ignored.values())
    assert all(len(fixed.why.split()) > 2 for fixed in table.fixed.values())


# Values that transformers accepts where the perturbed one has another type.
ACCEPTED = {
    "architectures": ["GPT2Model"],
    "dtype": "float32",
    "torch_dtype": "float32",
    "id2label": {0: "a", 1: "b", 2: "c"},
    "label2id": {"a": 0, "b": 1, "c": 2},
    "num_labels": 3,
    "problem_type": "regression",
    "summary_activation": "tanh",
    "summary_type": "first",
    "eos_token_id": 3,
    "bos_token_id": 3,
    "pad_token_id": 3,
}


DRAWN = {**SMALL, "n_inner": 31, "initializer_range": 0.3, "bos_token_id": 1, "eos_token_id": 2}


def computed(more: Config) -> Array:
    """The logits of transformers' model, lifted, whose weights are drawn with one seed."""
    config = theirs(**{**DRAWN, **more}, attn_implementation="eager")
    return run(GPT2, build(GPT2, lambda: GPT2LMHeadModel(config), "default"), np.arange(37)[None])


@functools.cache
def plain() -> Array:
    return computed({})


@pytest.mark.parametrize("key", sorted(import_config(full()).ignored.keys() - {"return_dict"}))  # theirs fails without it
def test_transformers_ignores_it_too(key: str) -> None:
    """What is ignored here does not move the logits there."""
    value = ACCEPTED.get(key, other(full()[key]))
    assert np.allclose(computed({key: value}), plain(), atol=1e-12)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("activation_function", "gelu"),
        ("scale_attn_weights", False),
        ("scale_attn_by_inverse_layer_idx", True),
        ("layer_norm_epsilon", 0.1),
        ("initializer_range", 0.2),
    ],
)
def test_what_has_a_say_moves_their_logits(key: str, value: object) -> None:
    assert not np.allclose(computed({key: value}), plain(), atol=1e-3)
    assert verdict({**TOY, key: value}) != verdict(TOY)


def test_one_function_of_two_names() -> None:
    assert np.allclose(computed({"activation_function": "gelu_pytorch_tanh"}), plain(), atol=1e-12)
    assert verdict({**TOY, "activation_function": "gelu_pytorch_tanh"}) == verdict(TOY)


# --------------------------------------------------------------------------------------------- broken configs

SIZE: list[object] = [None, -1, 0, 1.5, 10**30, 1e308, "36", math.nan, math.inf, True, [36], {"x": 36}]
SCALAR: list[object] = [None, -1, 10**30, "0.1", math.nan, -math.inf, False, [], {}]


@pytest.mark.parametrize("key", SMALL)
@pytest.mark.parametrize("value", SIZE, ids=str)
def test_what_no_size_can_be(key: str, value: object) -> None:
    (finding,) = findings({**TOY, key: value})
    assert finding.code == "E614"
    assert key in names(finding)
    assert finding.fix.startswith("a whole number from 1 to 1")


@pytest.mark.parametrize("key", ["layer_norm_epsilon", "attn_pdrop", "initializer_range"])
@pytest.mark.parametrize("value", SCALAR, ids=str)
def test_what_no_scalar_can_be(key: str, value: object) -> None:
    (finding,) = findings({**TOY, key: value})
    assert finding.code == "E614"
    assert key in names(finding)
    assert "a number in " in finding.fix


@pytest.mark.parametrize("key", SMALL)
def test_a_missing_size_is_named(key: str) -> None:
    (finding,) = findings({name: value for name, value in TOY.items() if name != key})
    assert finding.code == "E613"
    assert key in names(finding)


@pytest.mark.parametrize("value", [-1, 0, 1.5, 10**30, "31", math.nan, True, []], ids=str)
def test_an_optional_size_is_a_size(value: object) -> None:
    (finding,) = findings({**TOY, "n_inner": value})
    assert finding.code == "E614"
    assert "n_inner" in names(finding)


def test_an_optional_size_may_be_null_or_absent() -> None:
    assert verdict({**TOY, "n_inner": None}) == verdict(TOY) != verdict({**TOY, "n_inner": 31})


@pytest.mark.parametrize(
    ("more", "code", "named"),
    [
        ({"n_ctx": 40}, "E615", ["n_positions", "n_ctx", "K = 41", "K = 40"]),
        ({"hidden_size": 35}, "E615", ["n_embd", "hidden_size", "D = 36", "D = 35"]),
        ({"attn_pdrop": 0.0, "embd_pdrop": 0.0}, "E615", ["embd_pdrop", "resid_pdrop", "absent: its default"]),
        ({"n_head": 5}, "E602", ["D = 36 (n_embd)", "A = 5 (n_head)"]),
        ({"activation_function": "relu"}, "E616", ["activation_function", '"relu"', "gelutanh", '"gelu_new"']),
        ({"scale_attn_weights": 1}, "E616", ["scale_attn_weights", "true"]),
        ({"tie_word_embeddings": False}, "E616", ["tie_word_embeddings", "false"]),
        ({"add_cross_attention": True}, "E616", ["add_cross_attention"]),
        ({"pruned_heads": {"0": [1]}}, "E616", ["pruned_heads", "an object of 1", "{}"]),
        ({"n_heads": 4}, "E612", ["n_heads", "`n_head`"]),
        ({"": 4}, "E612", ["``"]),
        ({"\x1b[31mred": 4}, "E612", [r"\u001b[31mred"]),
        ({3: 4}, "E612", ["3"]),
        ({"model_type": "gpt-2"}, "E611", ['"gpt-2"', '`"gpt2"`']),
        ({"model_type": "../huggingface/every_family"}, "E611", ["einformer list"]),
        ({"model_type": "models"}, "E611", ["einformer list"]),
        ({"model_type": None}, "E611", ["null"]),
        ({"model_type": ["gpt2"]}, "E611", ["a list of 1"]),
    ],
)
def test_one_clear_error(more: Config, code: str, named: list[str]) -> None:
    (finding,) = findings({**TOY, **more})
    assert finding.code == code
    assert [word for word in named if word not in str(finding)] == []


@pytest.mark.parametrize(
    ("model_type", "key", "named"),
    [
        ("llama", "rope_scalin", "rope_scaling"),
        ("llama", "rope_paramters", "rope_parameters"),
        ("mpt", "attn_confg", "attn_config"),
        ("dbrx", "fnn_config", "ffn_config"),
    ],
)
def test_a_mistyped_object_is_told_its_name(model_type: str, key: str, named: str) -> None:
    found = findings({"model_type": model_type, key: {"rope_type": "default"}})
    (unknown,) = (finding for finding in found if finding.code == "E612" and finding.message.startswith(f"`{key}`"))
    assert unknown.fix == f"`{named}`"


def test_a_family_without_an_object_is_not_told_it() -> None:
    (finding,) = findings({**TOY, "attn_confg": {}})
    assert "attn_config" not in str(finding)


def test_without_a_model_type() -> None:
    (finding,) = findings(SMALL)
    assert finding.code == "E613"
    assert "model_type" in names(finding)


def test_every_flaw_is_listed_in_the_order_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"foo": 1, "n_layer": 0, **TOY, "n_inner": "x", "is_encoder_decoder": True}), encoding="utf-8")
    found = findings(file)
    assert [(each.code, each.span.text) for each in found] == [
        ("E612", '"foo"'),
        ("E614", '"n_inner"'),
        ("E616", '"is_encoder_decoder"'),
    ]


def test_nested_a_hundred_thousand_deep() -> None:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"x": deep}
    (finding,) = findings({**TOY, "n_head": deep})
    assert finding.code == "E614"
    assert names(finding) >= {"n_head", "1"}
    (finding,) = findings({"model_type": deep})
    assert finding.message == "models of the type an object of 1 cannot be read"


# ------------------------------------------------------------------------------------------------ broken files


NO_OBJECT = {
    "empty": ("", "this is not JSON: Expecting value"),
    "trailing comma": ('{"n_embd": 36,}', "this is not JSON: "),
    "single quotes": ("{'n_embd': 36}", "this is not JSON: "),
    "two objects": ('{"n_embd": 36} {}', "this is not JSON: Extra data"),
    "nested too deep": ("[" * 100_000, "the lists and objects of this JSON nest too deep"),
    "digits": ('{"n_embd": ' + "9" * 5000 + "}", "this JSON cannot be read: "),
    "a list": ("[36]", "this JSON is a list of 1, not an object"),
    "null": ("null", "this JSON is null, not an object"),
    "twice": ('{"n_embd": 36, "n_embd": 48}', "the key `n_embd` stands twice"),
    "twice inside": ('{"task_specific_params": {"a": 1, "a": 1}}', "the key `a` stands twice"),
    "large": ("{" + " " * 10_000_000 + "}", "is larger than 10,000,000 bytes"),
}


@pytest.mark.parametrize("name", NO_OBJECT)
def test_what_is_no_object(name: str, tmp_path: Path) -> None:
    text, message = NO_OBJECT[name]
    file = tmp_path / "config.json"
    file.write_text(text, encoding="utf-8")
    (finding,) = findings(file)
    assert finding.code == "E610"
    assert message in finding.message


@pytest.mark.parametrize(("content", "code"), [(b"\xff\xfe{", "E801"), (None, "E802")])
def test_files_that_cannot_be_read(content: bytes | None, code: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "config.json").write_bytes(content)
    (finding,) = findings(tmp_path)
    assert finding.code == code
    assert "config.json" in finding.message


@pytest.mark.parametrize("name", ["none.json", json.dumps(dict(full())), "a\0b"], ids=["none", "a text", "zero"])
def test_what_is_no_file(name: str) -> None:
    (finding,) = findings(name)
    assert (finding.code, finding.message[:21]) == ("E802", "there is no file `" + json.dumps(name)[1:4])


def test_a_byte_order_mark_is_no_letter(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(TOY), encoding="utf-8-sig")
    assert import_config(tmp_path).values == import_config(TOY).values


def test_an_error_shows_the_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("config.json").write_text(json.dumps({**TOY, "n_ctx": 2048}, indent=2), encoding="utf-8")
    with pytest.raises(EinformerError) as error:
        import_config("config.json")
    assert str(error.value).split("\n") == [
        "E615 `n_positions` and `n_ctx` differ, and gpt2.ein has one K",
        "  config.json:8:3",
        '  8 |   "n_ctx": 2048',
        "    |   ^^^^^^^",
        "  K = 41 (n_positions, config.json:7)",
        "  K = 2048 (n_ctx, config.json:8)",
        "  rule: keys that give one letter give it one number, and one that another bounds keeps to it",
        "  write: the same number for both",
    ]


# ------------------------------------------------------------------------------------------------- anything


@pytest.mark.parametrize("code", [code for code in catalogue() if "E610" <= code <= "E616"])
def test_the_examples_of_the_catalogue(code: str, tmp_path: Path) -> None:
    row = catalogue()[code]
    (tmp_path / "config.json").write_text(row.bad, encoding="utf-8")
    assert [finding.code for finding in findings(tmp_path)] == [code]
    (tmp_path / "config.json").write_text(row.good, encoding="utf-8")
    assert bound(import_config(tmp_path))


def test_every_family_is_an_architecture() -> None:
    assert "gpt2" in families()
    assert {family(name).architecture for name in families()} <= {*texts.shipped()}  # each is read in tests/test_library.py


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just("gpt2"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from(family("gpt2").known) | st.text(max_size=4), JSON, max_size=4))
def test_any_config_has_a_verdict(more: Config) -> None:
    """A model or errors of ours."""
    assert verdict({**TOY, **more})


@settings(max_examples=200, deadline=None)
@given(text=st.text(alphabet='{}[]":,0aé\\ \n', max_size=20) | JSON.map(json.dumps))
def test_any_text_has_a_verdict(text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.getbasetemp() / "config.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(EinformerError) as error:
        import_config(file)
    assert str(error.value)


def test_of_many_unknown_keys_a_hundred_are_named() -> None:
    config = {"model_type": "llama"} | {f"key_{number}": number for number in range(100_000)}
    with guarded(), pytest.raises(EinformerError) as refusal:
        einformer.from_huggingface(config)
    unknown = [finding for finding in refusal.value.findings if finding.code == "E612"]
    assert len(unknown) == 101
    assert unknown[-1].message == "99900 more keys are not known keys of a llama config"


@pytest.mark.parametrize(
    "layers",
    [
        {"5": {"head_dim": 8}},
        {"1": {"head_dim": 8}, "3": {}},
        {"x": {"head_dim": 8}},
        {"1": 8},
        {"9" * 5000: {"head_dim": 8}},
        [1],
        8,
    ],
)
def test_layers_of_one_kind_are_alike(layers: object) -> None:
    """Sizes that differ within a kind of layers, or of layers that are none, are refused."""
    assert einformer.from_huggingface(config_of("gemma4")).size("U") == 16
    with refuses("E616", "per_layer_config"):
        einformer.from_huggingface(config_of("gemma4") | {"per_layer_config": layers})


@pytest.mark.parametrize(
    "heads", [[12, 15, 6], [12, 15], [15], [12, 15, 12, 12], "12", [[12], 15, [12]], [12, 15, 1.5]], ids=str
)
def test_heads_of_layers_of_one_kind_are_as_many(heads: object) -> None:
    """A list for all layers says one number for each kind of them."""
    assert einformer.from_huggingface(config_of("laguna_listed")).size("N") == 12
    with pytest.raises(EinformerError) as error:
        einformer.from_huggingface(config_of("laguna_listed") | {"num_attention_heads_per_layer": heads})
    assert all("num_attention_heads_per_layer" in str(finding) for finding in error.value.findings)


@pytest.mark.parametrize("part", [0.5, 1.0, -0.1, "0.95"])
def test_parts_of_gates_that_are_closed(part: object) -> None:
    """The quantile of one half is zero, which stands for gates that are all open."""
    with refuses("E614", "activation_sparsity_pattern"):
        einformer.from_huggingface(config_of("gemma3n") | {"activation_sparsity_pattern": [part, *[0.0] * 5]})
