"""Which slips of the claims would the tests notice? One line each, with the tests that must fail."""

from __future__ import annotations

from tests.mutants import Mutant


def _mutant(name: str, file: str, old: str, new: str, *killers: str) -> Mutant:
    return Mutant(name, f"einformer/{file}", old, new, tuple(f"tests/test_claims.py::test_{killer}" for killer in killers))


def _notes(name: str, file: str, old: str, new: str, *killers: str) -> Mutant:
    return Mutant(name, f"einformer/{file}", old, new, tuple(f"tests/test_notes.py::test_{killer}" for killer in killers))


CLAIMS, QUANTITIES, LETTERS = "notes/claims.py", "notes/quantities.py", "notes/conventions.py"
COMPARISON = "interpreters/count/comparison.py"

MUTANTS = (
    _mutant(
        "whatever is derived is what is printed", COMPARISON,
        "return bool(sympy.expand(over) == 0)", "return True",
        "what_is_wrong_is_said", "a_slip_does_not_hold",
    ),
    _mutant(
        "formulas are equal only as they are written", COMPARISON,
        "return bool(sympy.expand(over) == 0)", "return bool(left == right)",
        "the_verdicts",
    ),
    _mutant(
        "a factor does not matter to leading order", COMPARISON,
        "return power == other and equal(first, second)", "return power == other",
        "a_slip_does_not_hold",
    ),
    _mutant(
        "growth is that of any term", COMPARISON,
        "return _dominant(over * below, letters) == _dominant(above * under, letters)",
        "return bool(_dominant(over * below, letters) & _dominant(above * under, letters))",
        "growth_is_that_of_all_terms",
    ),
    _mutant(
        "a term that another is a multiple of counts too", COMPARISON,
        "if not any(one != other and all(map(int.__le__, one, other)) for other in powers)}", "}",
        "the_verdicts",
    ),
    _mutant(
        "a number may be off by a digit", COMPARISON,
        "<= sympy.Rational(10) ** exponent / 2)", "<= sympy.Rational(10) ** exponent * 5)",
        "the_verdicts",
    ),
    _mutant(
        "a shape is said with all letters", QUANTITIES,
        "slot.letter in about.drop)]", "False)]",
        "the_verdicts",
    ),
    _mutant(
        "what holds to leading order is equal", CLAIMS,
        'return "holds to leading order" if relation == "leading" else "holds"', 'return "holds"',
        "the_verdicts",
    ),
    _mutant(
        "sizes need not fit", CLAIMS,
        "if claim.at and claim.about.text:", "if False:",
        "a_row_that_contradicts_itself_is_refused",
    ),
    _mutant(
        "every error is a contradiction", CLAIMS,
        "if error.findings[0].code != NOT_WHOLE:", "if False:",
        "a_model_with_sizes_missing_is_no_contradiction",
    ),
    _mutant(
        "a block is what it is in all layers", QUANTITIES,
        "once = replace(count, turns=count.turns[1:])", "once = count",
        "what_is_wrong_is_said[S001-C7]", "parameters_are_those_of_transformers",
    ),
    _mutant(
        "blocks are outside of the loop too", QUANTITIES,
        "return [] if looped else [count]", "return [count]",
        "the_verdicts",
    ),
    _mutant(
        "a name that is not there is passed over", QUANTITIES,
        "if missing := set(about.only) - set(map(name, found)):", "if missing := set():",
        "a_name_that_a_text_does_not_have_is_refused",
    ),
    _mutant(
        "what is recomputed is all of a step", QUANTITIES,
        'return count.spent("training", about.recompute) - count.spent("training")',
        'return count.spent("training", about.recompute)',
        "what_selective_recomputation_does_again",
    ),
    _mutant(
        "every phase is a forward pass", QUANTITIES,
        "return count.spent(about.phase, about.recompute)", 'return count.spent("forward", about.recompute)',
        "the_verdicts",
    ),
    _mutant(
        "optional weights stay", QUANTITIES,
        "if without and not findings:", "if False:",
        "another_model_changes_the_verdict",
    ),
    _mutant(
        "any letter stands for itself", LETTERS,
        "if name in NAMES:", "if name in NAMES or name not in letters:",
        "a_letter_of_which_nothing_is_said_is_refused",
    ),
    _notes(
        "an index keeps the letter of a size", "notes/rendering.py",
        "taken | set(kept.values()))", "set(kept.values()))",
        "an_index_makes_way_for_a_size",
    ),
    _notes(
        "a size keeps the letter that a document needs", "notes/rendering.py",
        "_apart(sorted(others), set(theirs.values()))", "_apart(sorted(others), set())",
        "a_size_without_a_letter_makes_way_for_one", "every_shipped_legend_can_be_written_in_every_convention",
    ),
    _notes(
        "a name of a document is written in one go", "interpreters/latex/formulas.py",
        "if below and len(first) == 1:", "if False:",
        "names_of_several_letters_are_upright",
    ),
)  # fmt: skip
