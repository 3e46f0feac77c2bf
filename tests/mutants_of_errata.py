"""Which slips of the errata would the tests notice? One line each, with the tests that must fail."""

from __future__ import annotations

from tests.mutants import Mutant


def _mutant(name: str, file: str, old: str, new: str, *killers: str) -> Mutant:
    return Mutant(
        name, f"einformer/notes/{file}", old, new, tuple(f"tests/test_errata.py::test_{killer}" for killer in killers)
    )


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
        "the_worked_example_in_both_versions", "the_page_is_made_of_the_errata",
    ),
)  # fmt: skip
