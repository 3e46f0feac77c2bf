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
    _of_run(
        "an equation in a sentence is a line of a note", "notes/programs.py",
        "            if formula.display:\n", "            if formula:\n",
        "what_is_displayed_is_a_line",
    ),
    _of_run(
        "a line of a note stands where the formula begins", "notes/programs.py",
        "whole.span(begin).start", "whole.span().start",
        "a_typo_in_an_index_is_refused_in_its_line",
    ),
    _of_run(
        "a matrix form is a line of a note", "notes/programs.py",
        "for equation in found if equation.skipped != NO_INDICES]", "for equation in found]",
        "what_has_no_indices_is_counted",
    ),
    _of_run(
        "weights are the same for every seed", "testing/trial.py",
        "values.inputs(about, {}, seed), values.weights(about, seed)", "values.inputs(about, {}, 0), values.weights(about, 0)",
        "a_seed_draws_other_numbers",
    ),
)  # fmt: skip
