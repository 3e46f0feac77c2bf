"""Which slips of the algebra of matrices would the tests notice? One line each, with the tests that must fail."""

from __future__ import annotations

from tests.mutants import Mutant


def _mutant(name: str, file: str, old: str, new: str, *killers: str) -> Mutant:
    tests = tuple(f"tests/test_matrices.py::test_{killer}" for killer in killers)
    return Mutant(name, f"einformer/interpreters/latex/matrices/{file}.py", old, new, tests)


LINES, TEXT = "how_one_line_reads", "each_line_of_a_text_is_what_its_indices_say"
MUTANTS = (
    _mutant(
        "a product is turned factor by factor", "algebra",
        "for factor in reversed(m.factors)", "for factor in m.factors",
        f"{TEXT}[llama]",
    ),
    _mutant(
        "inner letters need not meet", "algebra",
        "joined([along(one, shared[0]), down(other, shared[0])])", "joined([along(one, shared[0]), other])",
        f"{TEXT}[gpt2]", LINES,
    ),
    _mutant(
        "what three factors share is summed over two", "algebra",
        "in summed and not any(shared[0] in letters(each) for each in others):", "in summed:",
        "every_kind_of_node_is_proved",
    ),
    _mutant(
        "a diagonal stands on the other side", "algebra",
        "if shape(m)[0] == letters(vector)[0]", "if shape(m)[0] != letters(vector)[0]",
        LINES,
    ),
    _mutant(
        "softmax is of each column", "form",
        "RowWise(e.name, along(of, over[0]), first)", "RowWise(e.name, of, first)",
        LINES,
    ),
    _mutant(
        "every vector is a row", "form",
        "if self.columns or axis_of(axes[0]) in self.down", "if self.columns",
        LINES,
    ),
    _mutant(
        "heads are no labels", "labels",
        "return uncovered(choice), sum(", "return 0, sum(",
        "labels_are_sequences_heads_and_experts",
    ),
    _mutant(
        "features are labels as soon as experts", "labels",
        "-sum(weighted[axis] for axis in choice)", "sum(weighted[axis] for axis in choice)",
        "labels_are_sequences_heads_and_experts[gpt_oss.Experts]",
    ),
    _mutant(
        "a line is taken in past a new definition", "lines",
        "return any(each.left.name in read for each in between)", "return False",
        "a_line_is_taken_in_where_nothing_changes[after what it reads is new]",
    ),
    _mutant(
        "a line that two read is taken in", "lines",
        "if sum(reads.values()) != 1 or", "if",
        "a_line_is_taken_in_where_nothing_changes[read twice]",
    ),
    _mutant(
        "no line is taken in", "lines",
        "if into is not None:", "if False:",
        "a_document_reads_as_it_is_printed[s003]",
    ),
    _mutant(
        "two tensors may be called the same", "names",
        "if whole and name not in self.small else name", "if whole else name",
        "a_capital_that_means_something_else_is_not_taken",
    ),
    _mutant(
        "a transposed name has two scripts", "names",
        'if turned and any(place == "^" and', 'if False and any(place == "^" and',
        "a_transposed_weight_is_no_other_weight",
    ),
    Mutant(
        "a number of a layer is called as a size", "einformer/notes/rendering.py",
        "| _numbers(spec)", "",
        ("tests/test_conventions_of_documents.py::test_a_number_of_a_layer_is_no_size",),
    ),
    Mutant(
        "documents write indices", "einformer/notes/rendering.py",
        'form or ("matrix" if how else "index")', 'form or "index"',
        ("tests/test_matrices.py::test_a_document_is_written_in_its_own_form[s003]",),
    ),
)  # fmt: skip
