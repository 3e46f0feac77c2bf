"""Counts what the stages of a pipeline exchange in a training step, through which microbatches pass one after the other."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic

from einformer.errors import NOWHERE, fail
from einformer.interpreters.count.exchanges import Exchange, count_own, find_element, list_exchanges, list_state
from einformer.interpreters.count.rules import N, Sizes, WeightCount, count_weights, product, total
from einformer.language import tree
from einformer.language.calls import slot_letters
from einformer.language.sizes import Legend
from einformer.language.tree import Layer, Spec
from einformer.language.weights import key
from einformer.program.operations import Function, Value
from einformer.program.sharding import Sharding


@dataclass(frozen=True, slots=True)
class RankModel(Generic[N]):
    """What a rank computes of a model or of a stage: its functions, and the sizes of a microbatch of all ranks together."""

    spec: Spec
    name: str
    functions: Mapping[str, Function]
    sizes: Sizes[N]

    @property
    def output(self) -> Value:
        return self.functions[self.name].output.value

    def count_weights(self, sharding: Sharding, ranks: Mapping[str, N]) -> tuple[WeightCount[N], ...]:
        """The weights, in the sizes of one rank's part of each."""
        return count_weights(self.spec, self.name, self.share(sharding, ranks))

    def share(self, sharding: Sharding, ranks: Mapping[str, N]) -> Sizes[N]:
        """Sizes that know what a rank has of each tensor."""
        shares = zip(sharding.mesh, sharding.shares, strict=True)
        return replace(self.sizes, shares=tuple((letters, ranks[axis]) for (axis, _), (letters, _) in shares))


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The axis of the mesh whose ranks have the stages, how many microbatches pass, and the weights of several stages."""

    axis: str
    microbatches: int
    ties: Collection[str]


def list_step(
    stages: Sequence[RankModel[N]], sharding: Sharding, ranks: Mapping[str, N], zero: int | None, pipeline: Pipeline | None
) -> Iterator[Exchange[N]]:
    """Yields what the ranks of each stage exchange in a step. Without a pipeline the model is the only stage."""
    for number, stage in enumerate(stages):
        rows = list_exchanges(stage.functions, stage.name, stage.sizes, sharding, ranks)
        if pipeline:
            rows = (*rows, *list_sends(stages[0], number, len(stages), sharding, ranks, pipeline.axis))
            rows = tuple(repeat(row, pipeline.microbatches) for row in rows)
            rows = (*rows, *list_ties(stages, sharding, ranks, pipeline))
        if zero is not None:
            weights = stage.count_weights(sharding, ranks)
            rows = (*rows, *list_state(stage.name, weights, stage.share(sharding, ranks), sharding, ranks, zero))
        yield from (replace(row, stage=number) for row in rows)


def repeat(row: Exchange[N], times: int) -> Exchange[N]:
    """The same for each of some microbatches."""
    return replace(row, times=product((row.times, times)), repeated=product((row.repeated, times)))


def list_sends(
    first: RankModel[N], number: int, count: int, sharding: Sharding, ranks: Mapping[str, N], axis: str
) -> Iterator[Exchange[N]]:
    """Yields what each rank of a stage sends of one microbatch: the tensor that stages pass on, and its gradient back.

    It is the output of the first stage, of which each rank has, and sends, its part.
    """
    passed = first.output
    numbers = count_own(passed.axes, first.sizes, sharding, ranks)
    for phase in ("forward",) * (number + 1 < count) + ("backward",) * (number > 0):
        yield Exchange(first.name, axis, "send", phase, passed.axes, find_element(passed), product(()), numbers, total(()))


def list_ties(
    stages: Sequence[RankModel[N]], sharding: Sharding, ranks: Mapping[str, N], pipeline: Pipeline
) -> Iterator[Exchange[N]]:
    """Yields the gradients of weights that several stages have, which all stages sum once in a step."""
    weights = {key(count.full_path): count for stage in stages for count in stage.count_weights(sharding, ranks)}
    for path in sorted(pipeline.ties):
        count, sizes = weights[path], stages[0].share(sharding, ranks)
        numbers = sizes.share(count.total, count.letters)
        yield Exchange(stages[0].name, pipeline.axis, "all-reduce", "gradients", (), 0, product(()), numbers, total(()))


def refuse_microbatches(count: int, zero: int | None, has_stages: bool) -> None:
    """Raises EinformerError E605 for what has no count in a pipeline, and for microbatches without one."""
    if count < 1 or (count > 1 and not has_stages):
        raise fail("E605", f"{count} microbatches pass through no pipeline", fix="a map with stages, `pp: l`, or 1")
    if zero == 3 and has_stages:
        message = "how often the ranks of a stage gather weights by stage 3 of ZeRO, its schedule decides"
        raise fail("E605", message, fix="`zero=2`")


def find_rows(layer: Layer, legend: Legend) -> str:
    """The index of the rows that microbatches share. Raises EinformerError E741."""
    letter = next(iter(slot_letters(layer.formals[0])), "")
    axis = legend.axes.get(letter)
    if axis is None or not isinstance(axis.size, tree.Name) or layer.time == tree.Index(letter):
        message = f"microbatches are rows of the first axis of the input, and `{layer.formals[0].name}` has no rows"
        raise fail("E741", message, NOWHERE, fix="one microbatch")
    return letter


def split_batch(layer: Layer, legend: Legend, microbatches: int) -> Legend:
    """The legend of one of so many microbatches. Raises EinformerError E741, E742."""
    if microbatches == 1:
        return legend
    letter = find_rows(layer, legend)
    axis = legend.axes[letter]
    if legend.is_bound(letter) and legend.length(letter) % microbatches:
        message = f"`{letter}` has {legend.length(letter)} numbers, which {microbatches} microbatches cannot share"
        raise fail("E742", message, NOWHERE, [legend.describe(letter)], "another number of microbatches")
    size = tree.Quotient(axis.size, tree.Number(microbatches))
    return replace(legend, axes={**legend.axes, letter: replace(axis, size=size)})
