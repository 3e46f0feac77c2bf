"""Do the plans for tensor parallelism that transformers writes by hand, row by row, follow from a map of letters?

Each of its rows says how one weight is split. The letters along which it splits them are a map of ours, which must split every
weight so. The golden file has both maps, with the bytes that a step exchanges by each, and each row that does not follow.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator

import pytest
from transformers import CONFIG_MAPPING

import einformer
from einformer import EinformerError
from einformer.huggingface import families
from einformer.objects import Model
from einformer.program.sharding import Sharding, read_sharding
from einformer.report import plans
from tests.test_exchanged import PUBLISHED, choose_map

WHOLE = {"replicated_with_grad_allreduce", "sequence_parallel", "activation", "mla_kv_a_proj"}  # no part of a weight
OF_LAYERS = {"moe_tp_experts", "all_reduce"}  # what is done around weights, not to them


def list_rows(name: str, model: Model) -> Iterator[tuple[str, str, str]]:
    """A weight of theirs, how it is split, and its axes in our letters."""
    rows, held = families.merge_tables(name)["weights"]["rows"], model.weight_shapes()
    paths = {re.sub(r"blocks\.\d+", "blocks.{l}", path) for path in held}
    for pattern, style in (CONFIG_MAPPING[name].base_model_tp_plan or {}).items():
        form = re.compile(r"(\w+\.)?" + re.escape(pattern).replace(r"\*", r"\{l\}") + r"(\.weight)?")
        for own, theirs, axes in rows if style not in OF_LAYERS else ():
            if form.fullmatch(theirs) and own.partition(",")[0] in paths:
                yield theirs, style, axes


def find_split(axes: str, style: str) -> str:
    """The letter along which a row splits a weight: columns are the last axis but one, rows the last; of heads the first."""
    if style in WHOLE:
        return ""
    slots = re.findall(r"\((?:[^()]|\([^)]*\))*\)|\S", axes)
    slot = slots[-1] if "rowwise" in style or len(slots) == 1 else slots[-2]
    return re.sub(r"[^\w']", " ", slot).split()[0]


def describe(letter: str) -> str:
    return f"along {letter}" if letter else "whole"


def split_ours(axes: str, sharding: Sharding) -> str:
    """The letter along which our map splits the same weight."""
    return next((letter for letter in re.findall(r"[^\W\d]'*", axes) if sharding.axis(letter)), "")


def count(model: Model, mesh: dict[str, int], letters: str) -> str:
    try:
        rows = model.exchanges(mesh, f"tp: {letters}", "fast", B=8, S=64)
    except EinformerError as error:
        return error.findings[0].code
    return f"{sum(row.count_bytes(2) for row in rows):,} bytes"


def compare(name: str) -> Iterator[str]:
    model = einformer.from_huggingface(PUBLISHED[name])
    rows = list(list_rows(name, model))
    theirs = sorted({letter for _, style, axes in rows if (letter := find_split(axes, style))})
    ranks = math.gcd(8, *map(model.legend.length, theirs))
    mesh, ours = {"tp": max(ranks, 2)}, choose_letters(model, max(ranks, 2))
    yield f"{name}, {len(rows)} rows over {mesh['tp']}"
    yield f"  theirs  {' '.join(theirs):12} {count(model, mesh, ' '.join(theirs))}"
    yield f"  ours    {' '.join(ours):12} {count(model, mesh, ' '.join(ours))}"
    clashes = plans._find_clashes(model)
    for letter in sorted({*ours} - {*theirs} & clashes.keys()):
        instead = " ".join(sorted(clashes[letter] & {*theirs} - {*ours}))
        yield f"  {letter} " + (
            f"instead of {instead}: one tensor carries both" if instead else "too, which theirs leave whole"
        )
    if ranks == 1:
        return
    sharding = read_sharding(mesh, f"tp: {' '.join(theirs)}", model.legend)
    for weight, style, axes in rows:
        if (wanted := find_split(axes, style)) != (found := split_ours(axes, sharding)):
            yield f"  {weight}: {style}, {describe(wanted)}; by letters {describe(found)}"


def choose_letters(model: Model, ranks: int) -> list[str]:
    """The cheapest map over one axis."""
    return choose_map(model, (ranks,))[1].removeprefix("tp: ").split()


PLANNED = [name for name in PUBLISHED if getattr(CONFIG_MAPPING[name], "base_model_tp_plan", None)]


@pytest.mark.slow
def test_our_maps_beside_the_plans_of_transformers(golden: Callable[[str, str], None]) -> None:
    golden("plans_of_transformers.txt", "\n".join(line for name in PLANNED for line in compare(name)) + "\n")
