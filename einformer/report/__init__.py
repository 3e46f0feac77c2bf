"""Examines a model: its layers with their counts, checks that measure them, and a text run through it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from einformer.interpreters.count.inventory import derive
from einformer.interpreters.count.rules import total
from einformer.objects import Model
from einformer.report.checks import CHECKS, Check, list_letters, run_check
from einformer.report.contents import LayerSection, SizeRow, sections, sizes
from einformer.report.specimen import Specimen, reads

if TYPE_CHECKING:
    from einformer.interpreters.torch.measure import Guesses

# The example of the source documents.
SENTENCE = "The sun dipped below the horizon, painting the sky with hues of orange and pink."
MOST = 5  # tokens shown
STEPS = len(CHECKS) + 1


@dataclass(frozen=True, slots=True)
class Reading:
    """A text, its tokens, and the model's predictions."""

    text: str
    tokens: int
    guesses: Guesses
    seconds: float


@dataclass(frozen=True, slots=True)
class Report:
    """The sections, checks and reading of a model."""

    title: str
    inputs: Mapping[str, int]
    sizes: tuple[SizeRow, ...]
    sections: tuple[LayerSection, ...]
    parameters: int
    parameters_formula: str
    flops: int
    flops_formula: str
    checks: tuple[Check, ...]
    reading: Reading | None

    @property
    def holds(self) -> bool:
        return all(check.holds for check in self.checks)


def data(report: Report) -> dict[str, Any]:
    return asdict(report) | {"holds": report.holds}


# Counts, measures and runs a model with bound sizes. Raises EinformerError E601 if a size is open, E603 to E605. `batch` and
# `length` are the sizes at which FLOPs are counted. `seed` seeds all random numbers. `step` is called with the name of the next
# step.
def examine(
    model: Model,
    batch: int = 1,
    length: int | None = None,
    text: str = SENTENCE,
    seed: int = 0,
    step: Callable[[str], None] = lambda what: None,
) -> Report:
    subject = Specimen(model, model.inputs(batch, length), seed)
    parts = sections(subject)
    checks: list[Check] = []
    for what, check in CHECKS.items():
        step(what)
        checks += run_check(what, check, subject)
    step("reading the text")
    reading = read(subject, text)
    return Report(
        model.spec.title or model.spec.name,
        subject.inputs,
        tuple(sizes(model)),
        parts,
        sum(part.parameters for part in subject.parts),
        subject.write(total(part.parameters for part in subject.formulas)),
        sum(part.flops for part in subject.parts),
        subject.write(total(part.flops for part in subject.formulas)),
        tuple(checks),
        reading,
    )


def _read_tokens(model: Model, text: str) -> list[int]:
    layer, (first, *others) = model.spec.layer, reads(model, model.at(**model.inputs(1, 1)))
    vocabulary = derive(model.spec.tree, model.spec.name).vocabulary
    if others or first[1] is None or list_letters(layer.output) != [*list_letters(layer.formals[0]), vocabulary]:
        return []
    return [byte % first[1] for byte in text.encode()][-model.inputs()["S"] :]


# A text of bytes runs through the model, with new random weights; a model that does not read tokens has no reading.
def read(subject: Specimen, text: str) -> Reading | None:
    from einformer.interpreters.torch import measure

    tokens = _read_tokens(subject.model, text)
    if not tokens:
        return None
    start = time.perf_counter()
    module = measure.initialise(subject.live, subject.seed)
    return Reading(text, len(tokens), measure.guess(module, tokens, MOST), time.perf_counter() - start)
