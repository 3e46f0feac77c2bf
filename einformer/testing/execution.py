"""Evaluates a note once, and checks its statements on the numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from einformer import targets
from einformer.errors import Source
from einformer.language.calls import axis_of
from einformer.language.printer import show
from einformer.language.sizes import Legend
from einformer.language.tree import Apply, Expression, Index, Name, Tensor
from einformer.language.walk import children, letters_in
from einformer.notes import equality
from einformer.notes.programs import LanguageText, read_program
from einformer.notes.reading import DocumentEquation
from einformer.objects import Specification
from einformer.report.checks import CHECKS, Check, run_check
from einformer.report.specimen import Specimen
from einformer.testing.trial import Trial, trial


@dataclass(frozen=True, slots=True)
class Execution:
    """A note that was evaluated: its tensors, its checks, and its file of PyTorch."""

    trial: Trial
    checks: tuple[Check, ...]
    unchecked: tuple[tuple[str, str], ...]  # statements, each with the reason
    lines: int
    words: int
    source: str

    @property
    def holds(self) -> bool:
        return all(check.holds for check in self.checks)

    def data(self) -> dict[str, Any]:
        checks = [asdict(check) for check in self.checks]
        record = {"equations": self.lines, "words": self.words, "checks": checks, "unchecked": dict(self.unchecked)}
        return self.trial.data() | record | {"holds": self.holds}


# Random numbers stand for inputs and weights.
def execute(source: Source, given: Mapping[str, int], seed: int) -> Execution:
    spec = targets.parse(source.text, source.name)
    result = trial(spec, given, seed)
    sizes = result.legend.values
    bound = spec.bind(**{name: size for name, size in sizes.items() if name not in _find_open_sizes(spec)})
    subject = Specimen(bound, {name: int(sizes[name]) for name in bound.open}, seed)
    checks = [check for what, row in CHECKS.items() for check in run_check(what, row, subject)]
    note = read_program(source) or LanguageText(source, (), (), 0)
    changed = {line.left.tree.name for line in note.lines if line.rebinds and isinstance(line.left.tree, Tensor)}
    verdicts = [(statement, *_check_statement(statement, result, changed)) for statement in note.statements]
    checks += [Check(_show_statement(statement), right, detail) for statement, right, detail in verdicts if right is not None]
    unchecked = tuple((_show_statement(statement), why) for statement, right, why in verdicts if right is None)
    return Execution(result, tuple(checks), unchecked, len(note.lines), note.words, bound.source())


# Inputs have these sizes and weights do not, so a file of PyTorch works for any of them.
def _find_open_sizes(spec: Specification) -> set[str]:
    held = {index.letter for layer in spec.tree.layers for weight in layer.weights for index in weight.indices}
    sizes = {axis.size.name for axis in spec.tree.axes if isinstance(axis.size, Name) and axis.letter not in held}
    return sizes & {"B", "S"}


def _show_statement(statement: DocumentEquation) -> str:
    first, last = (side.text.span() for side in statement.sides)
    text = first.source.text[first.start : last.end]
    return f"{first}: {' '.join(text.split()).rstrip(' .,;')}"


# None if the statement cannot be checked.
def _check_statement(statement: DocumentEquation, run: Trial, changed: set[str]) -> tuple[bool | None, str]:
    if statement.skipped:
        return None, statement.skipped
    left, right = (side.tree for side in statement.sides)
    assert left is not None
    assert right is not None
    read = {node.name: node for node in statement.nodes() if isinstance(node, Tensor)}
    if late := sorted(changed & read.keys()):
        return None, f"`{late[0]}` changes its value"
    numbers = {key.partition("_")[0]: array for key, array in run.tensors.items() if key.partition("_")[0] in read}
    if missing := sorted(read.keys() - numbers.keys()):
        return None, f"`{missing[0]}` is not computed"
    setting = equality.Setting(_show_legend(run.legend), ", ".join(show(read[name]) for name in numbers), numbers)
    side = f"left_{''.join(_find_wanted(left, right))}"
    line, claim = f"{side} = {show(left)}", f"{side} = {show(right)}"
    if why := equality.refusal(setting, line, claim):
        return None, why
    return equality.holds(setting, line, claim)


def _show_legend(legend: Legend) -> str:
    sizes = ((axis, legend.length(axis.letter)) for axis in legend.axes.values())
    return "; ".join(
        f"{axis.letter}: {f'{axis.size.name} = {size}' if isinstance(axis.size, Name) else size}" for axis, size in sizes
    )


# The indices that both sides have, and those of one side that nothing in it sums.
def _find_wanted(left: Expression, right: Expression) -> list[str]:
    one, other = Counter(_find_free(left, frozenset())), Counter(_find_free(right, frozenset()))
    return [letter for letter in {**one, **other} if (letter in one and letter in other) or (one + other)[letter] == 1]


# Each letter as often as a factor has it, without the indices of operators.
def _find_free(e: Expression, bound: frozenset[str]) -> Iterator[str]:
    if isinstance(e, Tensor):
        letters = letters_in(e)
        yield from (letter for letter in sorted(letters - bound, key=axis_of))
        return
    if isinstance(e, Index):
        yield from () if e.letter in bound else (e.letter,)
    inner = bound | {index.letter for index in e.indices} if isinstance(e, Apply) else bound
    for child in children(e):
        yield from _find_free(child, inner)
