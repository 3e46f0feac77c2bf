"""Which slips of the cross-references would the tests notice? One line each, with the tests that must fail."""

from __future__ import annotations

from tests.mutants import Mutant


def _mutant(name: str, file: str, old: str, new: str, *killers: str) -> Mutant:
    return Mutant(name, f"einformer/{file}", old, new, tuple(f"tests/test_{killer}" for killer in killers))


REFERENCES, SOURCE = "notes/references.py", "interpreters/torch/source.py"
MAP = "emitted.py::test_the_map_of_equations_is_that_of_the_comments"

MUTANTS = (
    _mutant(
        "the line of an equation is the first of its layer", REFERENCES,
        "if said(line) == self.line)", ")",
        "references.py::test_lines_are_where_they_are_said_to_be",
    ),
    _mutant(
        "other words are the line itself", REFERENCES,
        'return "a line" if _right(self.says) == _right(self.line) else "in other words"', 'return "a line"',
        "references.py::test_a_line_is_what_is_said_sign_for_sign",
    ),
    _mutant(
        "what is computed is not looked at", REFERENCES,
        'return "computed" if self.found[0] else "not equal"', 'return "computed"',
        "references.py::test_what_is_not_equal_is_said",
    ),
    _mutant(
        "lines of PyTorch are counted before they are folded", SOURCE,
        "first + sum(heights[:number])", "first + number",
        f"{MAP}[minimal-fast]",
    ),
    _mutant(
        "there is one blank line between classes", SOURCE,
        "end = first - 1 - BETWEEN", "end = first - BETWEEN",
        f"{MAP}[minimal-fast]", f"{MAP}[llama-notation]",
    ),
    _mutant(
        "an equation stands in its last class", SOURCE,
        "for each, part in reversed(classes):", "for each, part in classes:",
        f"{MAP}[llama-notation]",
    ),
    _mutant(
        "before the first step stands the last", "interpreters/torch/slots.py",
        'f"({code.text} if {condition.text} else torch.zeros_like({code.text}))"', "code.text",
        "torch.py::test_a_recurrence_reads_another_tensor_at_the_step_before[notation]",
    ),
    _mutant(
        "sizes that are given replace those of the target", "cli/commands.py",
        "**{**found.legend.values, **given}", "**given",
        "references.py::test_source_takes_sizes",
    ),
)  # fmt: skip
