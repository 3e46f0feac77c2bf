"""Is each family of models read exactly? Real configs give their counts, and logits are those of transformers.

Configs of `tests/configs` carry the parameters of transformers' model on the meta device and its FLOPs by `FlopCounterMode`
(B = 1, S = 512, full attention). Logits are compared at toy sizes with the model lifted to float64.
"""

from __future__ import annotations

import functools
import itertools
import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import einformer
from einformer import EinformerError
from einformer.cli import main
from einformer.huggingface.config import Imported, import_config
from einformer.huggingface.families import architectures, families, family, lay_over, merge_tables, print_table
from tests.few import FEW_CONFIGS, FEW_FAMILIES, few
from tests.oracles.lifted import COMPUTED, Regime, run
from tests.oracles.of_toys import TOLERANCE, filled, modeling, ours, theirs, tokens
from tests.toys import EACH, TOYS, config_of

Config = Mapping[str, Any]
TABLES = Path(einformer.__file__).parent / "architectures"
SHARED = Path(einformer.__file__).parent / "huggingface"

_FILES = {path.stem: path for path in sorted((Path(__file__).parent / "configs").glob("*.json"))}
_READ = {name: json.loads(path.read_text(encoding="utf-8")) for name, path in _FILES.items()}
UNREAD = {name for name, row in _READ.items() if row["config"]["model_type"] not in families()}
REAL = {name: row for name, row in _READ.items() if name not in UNREAD}


# ------------------------------------------------------------------------------------------------------ real configs


@functools.cache
def real(name: str) -> Any:
    return einformer.from_huggingface(REAL[name]["config"])


@pytest.mark.parametrize("name", few(REAL, FEW_CONFIGS))
def test_parameters_are_theirs(name: str) -> None:
    assert real(name).num_parameters == REAL[name]["parameters"]


@pytest.mark.parametrize("name", few([name for name, row in REAL.items() if row["flops"]], FEW_CONFIGS))
def test_flops_are_theirs(name: str) -> None:
    assert real(name).flops(B=1, S=512) == REAL[name]["flops"]


@pytest.mark.parametrize("name", sorted(UNREAD))
def test_what_cannot_be_read_is_refused_with_what_can(name: str) -> None:
    with pytest.raises(EinformerError) as error:
        einformer.from_huggingface(_READ[name]["config"])
    (finding,) = error.value.findings
    assert finding.code == "E611"
    assert all(known in str(finding) for known in families())


# ----------------------------------------------------------------------------------------------------------- toys


def test_every_family_has_a_toy() -> None:
    assert {kind for kind, _ in TOYS.values()} | {"gpt2"} == set(families())


def test_every_text_has_a_toy() -> None:
    """Each text that a variant chooses is compared."""
    found = {import_config(config_of(name)).architecture for name in TOYS}
    assert {text for kind in families() for text in architectures(kind)} == found | {"gpt2"}


@pytest.mark.parametrize("regime", ["fan_in", pytest.param("default", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", EACH)
def test_logits_are_theirs(name: str, regime: Regime) -> None:
    if regime == "default" and TOYS[name][0] == "afmoe":
        pytest.skip("its routers start at zero, where all experts tie")
    expected = run(modeling(name), theirs(name, regime), tokens())
    with torch.no_grad():
        found = filled(name, regime)(torch.from_numpy(tokens())).numpy()
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() < TOLERANCE * max(1.0, np.abs(expected).max())


@pytest.mark.parametrize("name", EACH)
def test_weights_go_back_as_they_came(name: str) -> None:
    """All but buffers that the config says."""
    state = theirs(name, "fan_in").state_dict()
    back = filled(name, "fan_in").to_huggingface()
    assert back.keys() == {key for key in state if key.rpartition(".")[2] not in COMPUTED}
    assert all(torch.equal(back[key], state[key]) for key in back)


@pytest.mark.parametrize("kind", few(sorted({kind for kind, _ in TOYS.values()}), FEW_FAMILIES))
def test_every_row_is_that_of_a_toy(kind: str) -> None:
    """No row of a table is idle: a toy has its tensor."""
    assert rows_of(TABLES / f"{kind}.toml") <= tensors_of(name for name in TOYS if TOYS[name][0] == kind)


@pytest.mark.slow
def test_every_row_that_families_share_is_that_of_a_toy() -> None:
    assert set().union(*map(rows_of, SHARED.glob("*.toml"))) <= tensors_of(TOYS)


def rows_of(path: Path) -> set[str]:
    """The tensors of a table and of its variants."""
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    parts = [table, *table.get("variant", {}).values()]
    rows = [row for part in parts for row in part.get("weights", {}).get("rows", ())]
    return {re.sub(r"\{\w+\}|(?<=\.)\d+(?=\.)", "{l}", theirs) for _, theirs, _ in rows}


def tensors_of(names: Iterable[str]) -> set[str]:
    return {re.sub(r"(?<=\.)\d+(?=\.)", "{l}", tensor) for name in names for tensor in theirs(name, "fan_in").state_dict()}


# --------------------------------------------------------------------------------------------------------------- tables


@pytest.mark.parametrize("path", sorted(SHARED.glob("*.toml")), ids=lambda path: path.stem)
def test_what_families_share_extends_nothing(path: Path) -> None:
    assert "extends" not in tomllib.loads(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", families())
def test_the_whole_table_reads_back_as_it_is_printed(name: str) -> None:
    assert tomllib.loads(print_table(merge_tables(name))) == merge_tables(name)


def test_the_page_of_families_has_a_row_for_each() -> None:
    page = (Path(__file__).parents[1] / "docs" / "families.md").read_text(encoding="utf-8")
    assert {*re.findall(r"^\| `([\w.-]+)` \|", page, re.M)} | {"gpt2"} == {*families()}
    assert "**" not in page  # both numbers, where they differ


def test_explain_prints_the_whole_table(capsys: pytest.CaptureFixture[str]) -> None:
    """Its own rows, and those of what it extends."""
    assert main(["explain", "qwen2_moe"]) == 0
    table = tomllib.loads(capsys.readouterr().out)
    assert table["config"]["sizes"]["vocab_size"] == "V"
    assert table["config"]["sizes"]["moe_intermediate_size"] == "F"
    assert "intermediate_size" not in table["config"]["sizes"]
    assert ["blocks.{l}.Attention.Q", "model.layers.{l}.self_attn.q_proj.weight", "(g j e) d"] in table["weights"]["rows"]
    assert main(["explain", "llama", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"llama": merge_tables("llama")}


UNDER = {"weights": {"rows": [["A.Q", "q", "d"], ["A.K, V", "kv", "d"]]}}


@pytest.mark.parametrize(
    ("over", "rows"),
    [
        ([["A.O", "o", "d"]], [["A.Q", "q", "d"], ["A.K, V", "kv", "d"], ["A.O", "o", "d"]]),
        ([["B.Q", "q", "d"]], [["A.K, V", "kv", "d"], ["B.Q", "q", "d"]]),
        ([["A.Q, K, V", "qkv", "d"]], [["A.Q, K, V", "qkv", "d"]]),
    ],
)
def test_a_tensor_has_one_row_and_so_has_a_weight(over: list[list[str]], rows: list[list[str]]) -> None:
    assert lay_over(UNDER, {"weights": {"rows": over}})["weights"]["rows"] == rows


def test_a_key_has_one_answer() -> None:
    """The upper one; the default of its letter goes with it."""
    under = {"config": {"sizes": {"heads": "G?", "width": "D"}, "defaults": {"G": "A", "D": 8}}}
    over = {"config": {"fixed": {"heads": {"values": [1], "why": "one head"}}}}
    whole = lay_over(under, over)["config"]
    assert (whole["sizes"], whole["defaults"], list(whole["fixed"])) == ({"width": "D"}, {"D": 8}, ["heads"])


@pytest.mark.parametrize("name", EACH)
def test_parameters_of_a_toy_are_theirs(name: str) -> None:
    assert ours(name).num_parameters == sum(p.numel() for p in theirs(name, "fan_in").parameters())


# ------------------------------------------------------------------------------------------------------ every key

CONFIGS = {**{name: row["config"] for name, row in REAL.items()}, **{f"toy {name}": name for name in TOYS}}


def config(name: str) -> dict[str, Any]:
    found = CONFIGS[name]
    return config_of(found) if isinstance(found, str) else dict(found)


def other(value: object) -> object:
    """Another value of the same kind."""
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case float():
            return value / 2 or 0.5
        case str():
            return f"{value}x"
        case None:
            return 7
        case list():
            return [*value, "x"]
        case _:
            return {"0": [0]}


def verdict(keys: Config) -> object:
    """The model, or why there is none."""
    try:
        imported = import_config(keys)
    except EinformerError as error:
        return [(finding.code, finding.message) for finding in error.findings]
    return model(imported)


def model(imported: Imported) -> object:
    """All of what is built from a config."""
    parts = (imported.architecture, imported.scalars, imported.values, imported.absent, imported.initialisation)
    return parts


def inside(keys: Config, path: str = "") -> list[tuple[str, ...]]:
    """The path of every key, in objects too."""
    return [
        place
        for key, value in keys.items()
        for place in [(path, key) if path else (key,), *(inside(value, key) if isinstance(value, dict) and not path else ())]
    ]


def changed(keys: Config, place: tuple[str, ...]) -> dict[str, Any]:
    first, *rest = place
    return {**keys, first: changed(keys[first], tuple(rest)) if rest else other(keys[first])}


@pytest.mark.parametrize("name", few(CONFIGS, {*FEW_CONFIGS, *(f"toy {name}" for name in FEW_FAMILIES)}))
def test_every_key_has_a_say_or_a_reason(name: str) -> None:
    """Where a key is perturbed, the model or the verdict changes, unless the key is ignored by name."""
    keys = config(name)
    ignored, plain = import_config(keys).ignored, verdict(keys)
    same = {place[-1] for place in inside(keys) if place[0] not in ignored and verdict(changed(keys, place)) == plain}
    assert same <= {key.rpartition(".")[2] for key in ignored}
    assert all(verdict(changed(keys, (key,))) == plain for key in ignored if key in keys)


@pytest.mark.parametrize("name", families())
def test_every_reason_is_a_sentence(name: str) -> None:
    table = family(name)
    assert all(len(why.split()) > 3 for why in table.ignored.values())
    assert all(len(fixed.why.split()) > 2 for fixed in table.fixed.values())


# -------------------------------------------------------------------------------------------------- broken configs

BROKEN: list[object] = [-1, 0, 1.5, 10**30, 1e308, "36", float("nan"), float("inf"), True, [36], {"x": 36}]
NAMES = sorted({kind: name for name, (kind, _) in reversed(TOYS.items())}.values())


@pytest.mark.parametrize("name", few(NAMES, FEW_FAMILIES))
def test_what_no_size_can_be(name: str) -> None:
    """One clear error for each size."""
    keys = config_of(name)
    sizes = [key.key for key in family(TOYS[name][0]).keys if key.range == "whole" and key.key in keys]
    for key, value in itertools.product(sizes, BROKEN):
        with pytest.raises(EinformerError) as error:
            einformer.from_huggingface({**keys, key: value})
        assert [(finding.code, f"`{key}`" in finding.message) for finding in error.value.findings] == [("E614", True)]


@pytest.mark.parametrize("name", few(NAMES, FEW_FAMILIES))
def test_what_is_missing_is_named(name: str) -> None:
    """A size has a default, or its absence one error."""
    keys = config_of(name)
    table = family(TOYS[name][0])
    needed = [key for key in table.keys if key.key in keys and not key.optional and key.default is None]
    assert needed
    for missing in needed:
        alike = {key.key.partition(".")[0] for key in table.keys if key.letter == missing.letter}
        with pytest.raises(EinformerError) as error:
            einformer.from_huggingface({key: value for key, value in keys.items() if key not in alike})
        assert [finding.code for finding in error.value.findings] == ["E613"]
        assert f"`{missing.key}`" in str(error.value)
