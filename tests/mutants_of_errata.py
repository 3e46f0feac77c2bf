"""Which slips of errata, and of notes that are run, would the tests notice? One line each, with the tests that must fail."""

from __future__ import annotations

from tests.mutants import Mutant


def _mutant(name: str, file: str, old: str, new: str, *killers: str) -> Mutant:
    return Mutant(
        name, f"einformer/notes/{file}", old, new, tuple(f"tests/test_errata.py::test_{killer}" for killer in killers)
    )


def _of_run(name: str, file: str, old: str, new: str, *killers: str) -> Mutant:
    return Mutant(name, f"einformer/{file}", old, new, tuple(f"tests/test_run.py::test_{killer}" for killer in killers))


MUTANTS = (
    _mutant(
        "whatever is found demonstrates an erratum", "errata.py",
        '"demonstrated" if after and not before else "not demonstrated"', '"demonstrated"',
        "a_row_whose_forms_are_exchanged_is_not_demonstrated",
    ),
    _mutant(
        "what is not read of a corrected form does not matter", "errata.py",
        'not found and (form == "printed" or not unread)', "not found",
        "a_corrected_form_must_be_read",
    ),
    _mutant(
        "an equation is judged without its claim", "equality.py",
        'value = f"{left} - ({right})" if claim else left', "value = left",
        "an_equation",
    ),
    _mutant(
        "the printed matrix has the shape of another slip", "errata/s000.toml",
        "\"q_nd = W_dq x_nq\", \"q_nq = W_dq x_nd\"", "\"q_nd = W_dq y_nq\", \"q_nq = W_dq x_nd\"",
        "the_printed_form_is_refused_for_its_mistake", "the_verdicts",
    ),
    _mutant(
        "the printed weights have another digit", "errata/s004.toml",
        "p = [0.1252, 0.1758", "p = [0.1262, 0.1758",
        "the_worked_example_in_both_versions",
    ),
    _mutant(
        "code that fails demonstrates nothing", "errata.py",
        "return False, f\"{type(error).__name__}: {error}\"", "return True, f\"{type(error).__name__}: {error}\"",
        "each_check_demonstrates_its_row",
    ),
    _mutant(
        "words that say one size say all", "errata.py",
        "said.keys() >= set(erratum.about[\"letters\"])", "said.keys() <= set(erratum.about[\"letters\"])",
        "each_check_demonstrates_its_row",
    ),
    _mutant(
        "the worked example forgets the scale once more", "worked.py",
        "_computed(\"\"), _computed(\" / sqrt(H)\")", "_computed(\"\"), _computed(\"\")",
        "the_page_is_made_of_the_errata",
    ),
    Mutant(
        "the page prints another number than was found", "docs/errata.md",
        "<br>off by 0.44 | ", "<br>off by 0.45 | ",
        ("tests/test_errata.py::test_every_number_of_an_entry_is_computed",),
    ),
    Mutant(
        "the page says a number that nothing computes", "docs/errata.md",
        "512 among them; 640 they do", "512 among them; 650 they do",
        ("tests/test_errata.py::test_every_number_of_an_entry_is_computed",),
    ),
    Mutant(
        "a step of the worked example has another digit", "docs/errata.md",
        "0.3008 0.5408 0.2189 0.5624 0.6123 0.6728 |\n| weights", "0.3008 0.5408 0.2189 0.5624 0.6123 0.6729 |\n| weights",
        ("tests/test_errata.py::test_every_number_beside_the_entries_is_computed",),
    ),
    _of_run(
        "an equation in a sentence is a line of a note", "notes/programs.py",
        "if formula.display and not is_specification(formula):", "if not is_specification(formula):",
        "what_is_displayed_is_a_line",
    ),
    _of_run(
        "what is wrong with a note is told at the beginning of its passage", "notes/programs.py",
        "return part.span(start, min(end, len(part.text)))", "return part.span(0, min(end, len(part.text)))",
        "an_error_stands_where_it_was_written", "the_excerpt_shows_the_file",
    ),
    _of_run(
        "a matrix form is a line of a note", "notes/programs.py",
        "equation for equation in found if equation.skipped != NO_INDICES", "equation for equation in found",
        "what_has_no_indices_is_counted",
    ),
    _of_run(
        "the third side of a chain defines its name again", "notes/programs.py",
        "return not again and isinstance(", "return isinstance(",
        "a_statement_is_computed",
    ),
    _of_run(
        "equations are lines in the order of the note", "notes/programs.py",
        "rest.pop(0 if any(each.rebinds for each in equations) else next(ready, 0))", "rest.pop(0)",
        "a_definition_may_stand_below_what_reads_it",
    ),
    _of_run(
        "a note is read as far as a text may go", "architectures/texts.py",
        "file.read(MAXIMUM_FILE + 1)", "file.read(100_001)",
        "a_note_may_be_longer_than_a_text",
    ),
    _of_run(
        "a bold letter is another tensor", "notes/programs.py",
        ".sub(_BOLD_LETTER, 1)", "",
        "what_is_displayed_is_a_line",
    ),
    _of_run(
        "equations that change a value are put in order too", "notes/programs.py",
        "rest.pop(0 if any(each.rebinds for each in equations) else next(ready, 0))", "rest.pop(next(ready, 0))",
        "a_definition_may_stand_below_what_reads_it",
    ),
    _of_run(
        "what stands below a loop is not in it", "notes/programs.py",
        "+ 2 * last.endswith(\":\")", "+ 2 * (last.endswith(\":\") and last == last.lstrip())",
        "equations_below_a_loop_are_its_body",
    ),
    _of_run(
        "the & between two equations of a row is a product", "lint/reading.py",
        "return int(_is_column(found, at))", "return 0",
        "columns_of_a_display_are_equations",
    ),
    _of_run(
        "a sum of squares has two readings in print too", "language/formulas.py",
        "if not self.is_sign(name) and self.accept(\"(\"):", "if self.accept(\"(\"):",
        "a_sum_sign_takes_a_power_with_it",
    ),
    _of_run(
        "all sizes that a text says are axes", "notes/heads.py",
        "if letter in missing]", "if letter]",
        "a_legend_is_not_said_twice",
    ),
    _of_run(
        "what a note proposes to learn is given", "notes/heads.py",
        "if not _is_given(name))", "if False)",
        "a_note_without_a_block_is_told_which",
    ),
    _of_run(
        "a statement is true whatever is found", "testing/execution.py",
        "return equality.holds(setting, line, claim)", "return True, equality.holds(setting, line, claim)[1]",
        "a_statement_is_computed",
    ),
    _of_run(
        "a statement of what changes is judged by its last value", "testing/execution.py",
        "if line.rebinds and isinstance", "if not line.rebinds and isinstance",
        "a_statement_of_what_changes_is_not_judged",
    ),
    _of_run(
        "a file of PyTorch holds for one length only", "testing/execution.py",
        "and axis.letter not in held}", "and axis.letter in held}",
        "a_file_that_was_written_takes_other_lengths",
    ),
    _of_run(
        "weights are the same for every seed", "testing/trial.py",
        "values.inputs(about, {}, seed), values.weights(about, seed)", "values.inputs(about, {}, 0), values.weights(about, 0)",
        "a_seed_draws_other_numbers",
    ),
)  # fmt: skip
