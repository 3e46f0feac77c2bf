"""What does a note compute, and is it what the note says? One evaluation, and checks that measure it."""

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
from einformer.language.walk import children, subexpressions
from einformer.lint.reading import Equation
from einformer.notes import equality
from einformer.notes.programs import Program, program
from einformer.objects import Specification
from einformer.report.checks import CHECKS, Check, made
from einformer.report.subject import Subject
from einformer.testing.trial import Trial, trial


@dataclass(frozen=True, slots=True)
class Execution:
    """A note that was run: what it displays, what it computes, which checks were made, and it as a file of PyTorch."""

    trial: Trial
    checks: tuple[Check, ...]
    unchecked: tuple[tuple[str, str], ...]  # statements, each with the reason
    lines: int
    words: int
    source: str

    @property
    def holds(self) -> bool:
        """Do all checks?"""
        return all(check.holds for check in self.checks)

    def data(self) -> dict[str, Any]:
        """For `--json`."""
        checks = [asdict(check) for check in self.checks]
        said = {"equations": self.lines, "words": self.words, "checks": checks, "unchecked": dict(self.unchecked)}
        return self.trial.data() | said | {"holds": self.holds}


def executed(source: Source, given: Mapping[str, int], seed: int) -> Execution:
    """A note, or another text, run once with random numbers. Raises EinformerError as `parse` and `trial` do."""
    spec = targets.parse(source.text, source.name)
    found = trial(spec, given, seed)
    sizes = found.legend.values
    bound = spec.bind(**{name: size for name, size in sizes.items() if name not in _open(spec)})
    subject = Subject(bound, {name: int(sizes[name]) for name in bound.open}, seed)
    checks = [check for what, row in CHECKS.items() for check in made(what, row, subject)]
    note = program(source) or Program(source, (), (), 0)
    changed = {line.left.tree.name for line in note.lines if line.rebinds and isinstance(line.left.tree, Tensor)}
    said = [(each, *_said(each, found, changed)) for each in note.statements]
    checks += [Check(_shown(each), right, detail) for each, right, detail in said if right is not None]
    unchecked = tuple((_shown(each), why) for each, right, why in said if right is None)
    return Execution(found, tuple(checks), unchecked, len(note.lines), note.words, bound.source())


def _open(spec: Specification) -> set[str]:
    """The sizes of its inputs that no weight has: a file of PyTorch holds for any."""
    held = {index.letter for layer in spec.tree.layers for weight in layer.weights for index in weight.indices}
    sizes = {axis.size.name for axis in spec.tree.axes if isinstance(axis.size, Name) and axis.letter not in held}
    return sizes & {"B", "S"}


def _shown(statement: Equation) -> str:
    """Where it stands, and what it says."""
    first, last = (side.text.span() for side in statement.sides)
    text = first.source.text[first.start : last.end]
    return f"{first}: {' '.join(text.split()).rstrip(' .,;')}"


def _said(statement: Equation, found: Trial, changed: set[str]) -> tuple[bool | None, str]:
    """Is a statement true of the tensors of a trial, and what was found; None where that cannot be said."""
    if statement.skipped:
        return None, statement.skipped
    left, right = (side.tree for side in statement.sides)
    assert left is not None
    assert right is not None
    read = {node.name: node for node in statement.nodes() if isinstance(node, Tensor)}
    if late := sorted(changed & read.keys()):
        return None, f"`{late[0]}` changes its value"
    numbers = {key.partition("_")[0]: array for key, array in found.tensors.items() if key.partition("_")[0] in read}
    if missing := sorted(read.keys() - numbers.keys()):
        return None, f"`{missing[0]}` is not computed"
    setting = equality.Setting(_legend(found.legend), ", ".join(show(read[name]) for name in numbers), numbers)
    side = f"left_{''.join(_wanted(left, right))}"
    line, claim = f"{side} = {show(left)}", f"{side} = {show(right)}"
    if why := equality.refusal(setting, line, claim):
        return None, why
    return equality.holds(setting, line, claim)


def _legend(legend: Legend) -> str:
    """The axes with their numbers."""
    sizes = ((axis, legend.length(axis.letter)) for axis in legend.axes.values())
    return "; ".join(
        f"{axis.letter}: {f'{axis.size.name} = {size}' if isinstance(axis.size, Name) else size}" for axis, size in sizes
    )


def _wanted(left: Expression, right: Expression) -> list[str]:
    """The indices of an equation: those that both sides have, and those of one that nothing in it sums."""
    one, other = Counter(_free(left, frozenset())), Counter(_free(right, frozenset()))
    return [letter for letter in {**one, **other} if (letter in one and letter in other) or (one + other)[letter] == 1]


def _free(e: Expression, bound: frozenset[str]) -> Iterator[str]:
    """The letters of what stands in a side, each as often as a factor has it, but those that an operator takes."""
    if isinstance(e, Tensor):
        letters = {x.letter for x in subexpressions(e) if isinstance(x, Index)}
        yield from (letter for letter in sorted(letters - bound, key=axis_of))
        return
    if isinstance(e, Index):
        yield from () if e.letter in bound else (e.letter,)
    inner = bound | {index.letter for index in e.indices} if isinstance(e, Apply) else bound
    for child in children(e):
        yield from _free(child, inner)
