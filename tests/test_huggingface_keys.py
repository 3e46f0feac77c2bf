"""Has every key of every config a say? Each is changed in every way, and so must be the model or the verdict."""

from __future__ import annotations

import functools
import json
import math
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

import einformer
from einformer import EinformerError
from einformer.errors import Finding
from einformer.huggingface.config import import_config
from einformer.huggingface.families import family
from tests.few import FEW_CONFIGS, few
from tests.refusals import names
from tests.toys import config_of

Config = dict[str, Any]
Place = tuple[str, ...]

_READ = {path.stem: json.loads(path.read_text("utf-8")) for path in sorted((Path(__file__).parent / "configs").glob("*.json"))}
CONFIGS: dict[str, Config] = {name: row["config"] for name, row in _READ.items()}
MOST = 1.0  # seconds of the processor for a config; a tenth is usual


def verdict(config: Config) -> object:
    """All of what a config says in our terms, or why it says nothing."""
    try:
        found = import_config(config)
    except EinformerError as error:
        return [(finding.code, finding.message, finding.facts) for finding in error.findings]
    return found.architecture, found.scalars, found.values, found.absent, found.initialisation


@functools.cache
def ignored(name: str) -> frozenset[str]:
    """The keys of a config that are ignored by name."""
    return frozenset(import_config(CONFIGS[name]).ignored)


READ = [name for name, config in CONFIGS.items() if isinstance(verdict(config), tuple)]


# ------------------------------------------------------------------------------------------------------- perturbations


def others(value: object) -> list[object]:
    """Other values: of its kind, of other kinds, and nonsense."""
    match value:
        case bool():
            found: list[object] = [not value, int(value), 7, "x", None]
        case int() | float():
            found = [
                value + 1,
                value * 2,
                value + 0.5,
                0,
                -1,
                -value,
                10**30,
                math.nan,
                math.inf,
                str(value),
                True,
                [value],
                None,
            ]
        case str():
            found = [f"{value}x", "", value.upper(), 3, [value], None]
        case None:
            found = [7, 0, 0.5, True, "x", [], {}]
        case list():
            found = [[], [*value, "x"], value[:-1], value[::-1], [*value, *value], [None, *value[1:]], "x", None]
        case dict():
            found = [{}, {**value, "x": 1}, 7, [value], None]
        case _:
            raise AssertionError(value)
    return [other for other in found if other != value or isinstance(other, bool) != isinstance(value, bool)]


def places(config: Mapping[str, Any], path: Place = ()) -> Iterator[Place]:
    """Every key, in objects too."""
    for key, value in config.items():
        yield (*path, key)
        if isinstance(value, dict):
            yield from places(value, (*path, key))


def at(config: Any, place: Place) -> Any:
    return functools.reduce(lambda inner, key: inner[key], place, config)


def changed(config: Config, place: Place, value: object) -> Config:
    key, *rest = place
    return {**config, key: changed(config[key], tuple(rest), value) if rest else value}


def removed(config: Config, place: Place) -> Config:
    key, *rest = place
    inner = {key: removed(config[key], tuple(rest))} if rest else {}
    return {name: inner.get(name, value) for name, value in config.items() if name != key or rest}


SETS = ("mlp_only_layers",)  # numbers of layers, in any order and however often


@pytest.mark.parametrize("name", few(READ, FEW_CONFIGS))
def test_every_change_is_seen(name: str) -> None:
    """A changed key changes the model or the verdict, but for null and {} where an absent key says the same."""
    config, plain = CONFIGS[name], verdict(CONFIGS[name])
    for place in (place for place in places(config) if place[0] not in ignored(name)):
        value, absent = at(config, place), verdict(removed(config, place))
        unseen = [other for other in others(value) if verdict(changed(config, place, other)) == plain]
        if place[-1] in SETS:
            unseen = [other for other in unseen if not (isinstance(other, list) and {*other} == {*map(int, value)})]
        assert unseen == [] or (absent == plain and all(other in (None, {}) for other in unseen)), place


@pytest.mark.parametrize("name", few(READ, FEW_CONFIGS))
def test_what_is_ignored_has_no_say(name: str) -> None:
    config, plain = CONFIGS[name], verdict(CONFIGS[name])
    for key in ignored(name):
        assert all(verdict({**config, key: other}) == plain for other in others(config[key]))
        assert verdict(removed(config, (key,))) == plain


@pytest.mark.parametrize("name", few(READ, FEW_CONFIGS))
def test_an_unknown_key_is_refused_by_name(name: str) -> None:
    """At the top, and in every object that is read."""
    config = CONFIGS[name]
    objects = [place for place in places(config) if isinstance(at(config, place), dict) and place[0] not in ignored(name)]
    for place in [(), *objects]:
        with pytest.raises(EinformerError) as error:
            import_config(changed(config, (*place, "unheard_of"), 1))
        (finding,) = error.value.findings
        assert finding.code == "E612"
        assert any(name.endswith("unheard_of") for name in names(finding))


# ------------------------------------------------------------------------------------------------------- broken values

BROKEN: list[object] = [-1, 0, 1.5, 10**30, 1e308, "36", math.nan, math.inf, -math.inf, True, [36], {"x": 36}, "", []]


def findings(config: object) -> tuple[Finding, ...]:
    """What is wrong with a config, if anything is: a model or errors of ours, nothing else."""
    try:
        einformer.from_huggingface(config)  # type: ignore[arg-type]
    except EinformerError as error:
        return error.findings
    return ()


@pytest.mark.parametrize(
    "name", ["llama-3.1-70b", "deepseek-v3", "gpt-oss-20b", "gemma-3-270m", "bloom-560m", "qwen2-7b", "opt-350m"]
)
def test_a_broken_value_is_shown_in_its_line(name: str, tmp_path: Path) -> None:
    """One error, with the key and a caret below it in the file."""
    config = CONFIGS[name]
    sizes = {key.key.rpartition(".")[2] for key in family(import_config(config).family).keys if key.range.startswith("whole")}
    file = tmp_path / "config.json"
    for place in (place for place in places(config) if place[-1] in sizes):
        for value in BROKEN:
            file.write_text(json.dumps(changed(config, place, value), indent=1), encoding="utf-8")
            for finding in findings(file):
                assert finding.code in ("E614", "E615") or place[-1] in str(finding)
                if finding.code == "E614":
                    line = finding.span.source.text.split("\n")[finding.span.line - 1]
                    assert line.strip().startswith(f'"{place[-1]}": ')


QUICK = (-1, "36", math.inf, [36], None)  # a value of each kind


@pytest.mark.parametrize("value", few([*BROKEN, None], QUICK), ids=str)
def test_any_value_of_any_key_has_a_verdict(value: object) -> None:
    """Of one config for each family."""
    for config in {config["model_type"]: config for name, config in CONFIGS.items() if name in READ}.values():
        for place in places(config):
            if place[0] != "model_type":
                assert verdict(changed(config, place, value))


NEW = (
    "laguna",
    "laguna_listed",
    "deepseek_v32",
    "glm_moe_dsa",
    "axk2",
    "gemma4",
    "gemma4_experts",
    "falcon_h1",
    "jetmoe",
    "gemma3n",
)
WRONG: tuple[object, ...] = (-1, 0, 1.5, "x", None, [], [1], 10**20)


@pytest.mark.slow
@pytest.mark.parametrize("name", NEW)
def test_a_wrong_number_has_one_error_or_is_right(name: str) -> None:
    """Of each number of a toy: what is read has as many parameters as theirs, where they read it at all."""
    config = config_of(name)
    for place in places(config):
        number = at(config, place)
        for value in WRONG if isinstance(number, int | float) and not isinstance(number, bool) else ():
            broken = changed(config, place, value)
            counted = count_ours(broken)
            if isinstance(counted, str):
                assert " " not in counted, (place, value)
            else:
                assert count_theirs(broken) in (counted, None), (place, value)


def count_ours(config: Config) -> int | str:
    """The parameters of our model, or the code of the refusal; keys that hang on this one may be refused too."""
    try:
        return einformer.from_huggingface(config).num_parameters
    except EinformerError as error:
        codes = {finding.code for finding in error.findings} - {"E616"}
        return " ".join(codes)


def count_theirs(config: Config) -> int | None:
    """The parameters of transformers' model on the meta device; none where it refuses the config."""
    models: Any = AutoModelForCausalLM
    try:
        with torch.device("meta"):
            model = models.from_config(AutoConfig.for_model(**config))
    except Exception:  # of any kind, as the value is of any kind
        return None
    counted: int = sum(parameter.numel() for parameter in model.parameters())
    return counted


LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192}


@pytest.mark.parametrize(
    ("name", "more", "code", "named"),
    [
        ("mixtral-8x7b", {"num_experts_per_tok": 9}, "E615", ["num_experts_per_tok", "num_local_experts", "T = 9", "X = 8"]),
        ("qwen3-30b-a3b", {"num_experts_per_tok": 129}, "E615", ["num_experts_per_tok", "num_experts", "T <= X"]),
        ("deepseek-v3", {"topk_group": 9}, "E615", ["topk_group", "n_group", "Y <= G"]),
        ("deepseek-v3", {"n_group": 7}, "E602", ["X = 256 (n_routed_experts)", "G = 7 (n_group)"]),
        ("deepseek-v3", {"num_key_value_heads": 64}, "E615", ["num_attention_heads", "num_key_value_heads", "A = 64"]),
        ("llama-3-8b", {"num_key_value_heads": 64}, "E602", ["A = 32 (num_attention_heads)", "G = 64 (num_key_value_heads)"]),
        ("gpt-j-6b", {"rotary_dim": 258}, "E615", ["rotary_dim", "R <= D / A", "R = 258", "D = 4096", "A = 16"]),
        ("llama-3-8b", {"head_dim": 127}, "E602", ["H = 127 (head_dim)"]),
        ("gpt-oss-20b", {"layer_types": ["full_attention"]}, "E606", ["a list of 1", "24 (num_hidden_layers)"]),
        ("gpt-oss-20b", {"num_experts_per_tok": 5}, "E615", ["experts_per_token", "T = 5", "T = 4"]),
        (
            "llama-3.1-70b",
            {"rope_scaling": LLAMA3 | {"low_freq_factor": 4.0, "high_freq_factor": 4.0}},
            "E615",
            ["rope.low_freq_factor", "rope.high_freq_factor", "χ < ψ"],
        ),
        (
            "llama-3.1-70b",
            {"rope_scaling": {"rope_type": "linear", "type": "yarn", "factor": 2.0}},
            "E615",
            ['"linear"', '"yarn"'],
        ),
        ("llama-3.1-70b", {"rope_scaling": {"rope_type": "linear"}}, "E613", ["rope.factor"]),
        ("llama-3.1-70b", {"rope_scaling": [1]}, "E616", ["a list of 1"]),
    ],
)
def test_contradictions(name: str, more: Config, code: str, named: list[str]) -> None:
    """What each key may say by itself, and not beside another one."""
    (finding,) = findings({**CONFIGS[name], **more})
    assert finding.code == code
    assert [word for word in named if word not in str(finding)] == []


@pytest.mark.parametrize("place", [("hidden_size",), ("rope_scaling", "factor"), ("rope_scaling", "rope_type")])
def test_twice_in_one_object(place: Place, tmp_path: Path) -> None:
    """The second one is shown, however deep it stands."""
    text = json.dumps(CONFIGS["llama-3.1-70b"], indent=1)
    row = next(line for line in text.split("\n") if f'"{place[-1]}": ' in line)
    file = tmp_path / "config.json"
    file.write_text(text.replace(row, f"{row.rstrip(',')},\n{row}"), encoding="utf-8")
    (finding,) = findings(file)
    assert finding.code == "E610"
    assert place[-1] in names(finding)
    assert finding.span.line == text[: text.index(row)].count("\n") + 2


def test_the_same_key_in_two_objects_is_no_slip() -> None:
    text = '{"a": {"x": 1}, "b": [{"x": 2}, {"x": 3}], "x": 4, "c": {"a": {"x": 1}}}'
    from einformer.errors import Source
    from einformer.huggingface.documents import parse

    found = parse(Source("t", text))
    assert {path: text[span.start : span.end] for path, span in found.places.items()} == {
        "a": '"a"',
        "a.x": '"x"',
        "b": '"b"',
        "b.x": '"x"',
        "x": '"x"',
        "c": '"c"',
        "c.a": '"a"',
        "c.a.x": '"x"',
    }
    assert [found.places[path].start for path in ("a.x", "b.x", "x", "c.a.x")] == [7, 23, 43, 63]


@pytest.mark.parametrize("value", [-1, 1.5, "x", None, [], 10**20], ids=repr)
def test_a_wrong_key_that_chooses_the_equations_is_one_finding(value: object) -> None:
    """Which values the other keys may have depends on it."""
    with pytest.raises(EinformerError) as error:
        einformer.from_huggingface(config_of("gemma4_large") | {"hidden_size_per_layer_input": value})
    assert [finding.code for finding in error.value.findings] == ["E614"]


def test_a_large_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    """A hundred megabytes, of which no block was ever written."""
    with (tmp_path / "config.json").open("wb") as file:
        file.truncate(100_000_000)
    (finding,) = findings(tmp_path)
    assert (finding.code, "is larger than" in finding.message) == ("E610", True)


@pytest.mark.parametrize("content", [b"\x00" * 100, b"\x7fELF\x02\x01", "{}".encode("utf-16"), b"\xef\xbb\xbf", b" "], ids=repr)
def test_what_is_no_text(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(content)
    (finding,) = findings(tmp_path)
    assert finding.code in ("E610", "E801")


# --------------------------------------------------------------------------------------------------------- how it is read


def test_neither_parser_nor_program_is_needed_for_the_keys() -> None:
    """They are imported where the text is bound."""
    code = """
import json, sys
from einformer.huggingface.config import import_config
print(import_config(json.loads(sys.stdin.read())).values["D"], *sys.modules)
"""
    given = json.dumps(CONFIGS["llama-3.1-405b"])
    size, *loaded = subprocess.run([sys.executable, "-c", code], input=given, capture_output=True, text=True).stdout.split()
    assert size == "16384"
    assert [name for name in loaded if name.startswith(("einformer.language", "einformer.program"))] == []


def test_torch_is_not_needed() -> None:
    """Neither that nor transformers is loaded to read a config and to count; and reading takes far less than a second."""
    code = f"""
import json, sys, time
import einformer
config = json.loads(sys.stdin.read())
start = time.process_time()
count = einformer.from_huggingface(config).num_parameters
assert not {{"torch", "transformers", "sympy"}} & sys.modules.keys()
print(count, time.process_time() - start < {MOST})
"""
    for name in ("deepseek-v3", "llama-3.1-405b"):
        done = subprocess.run([sys.executable, "-c", code], input=json.dumps(CONFIGS[name]), capture_output=True, text=True)
        assert done.stdout.split()[0] == str(_READ[name]["parameters"]), done.stderr
