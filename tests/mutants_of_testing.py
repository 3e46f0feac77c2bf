"""Which slips in what tests the code of others would the tests notice? As in `tests.mutants`."""

from __future__ import annotations

from tests.mutants import Mutant


def _mutant(name: str, file: str, old: str, new: str, killer: str) -> Mutant:
    return Mutant(name, f"einformer/testing/{file}.py", old, new, (f"tests/test_{killer}",))


MUTANTS = (
    _mutant(
        "sizes of axes may be equal", "sizes",
        "if _repeated(trial, turns) == repeated:", "if _repeated(trial, turns) is not None:",
        "testing.py::test_sizes_are_different_and_keep_the_relations[gpt2]",
    ),
    _mutant(
        "what must divide a size does not", "sizes", "        if _repeated(trial, turns) == repeated:", "        if True:",
        "testing.py::test_sizes_are_different_and_keep_the_relations[llama]",
    ),
    _mutant(
        "gradients are not compared", "implements", "list(gradients.wrong(tested, question, seed))", "list[gradients.Slope]()",
        "testing.py::test_gradients_are_compared_one_by_one",
    ),
    _mutant(
        "all code is taken for float32", "implements", "if not exact and tested.is_narrow(question.inputs, question.weights)",
        "if not exact", "testing.py::test_a_step_in_float32_is_allowed_for",
    ),
    _mutant(
        "the code runs once", "implements", "(tested.output(inputs, weights) for _ in range(2))",
        "[tested.output(inputs, weights)] * 2", "errors.py::test_what_breaks_a_rule_is_one_finding[E906]",
    ),
    _mutant(
        "numbers that are not finite agree", "implements", " or not np.isfinite(question.answer).all()", "",
        "testing.py::test_numbers_that_are_not_finite_are_counted",
    ),
    _mutant(
        "heads vary faster than features", "guess", "letter == FEATURES", "letter != FEATURES",
        "testing.py::test_weights_are_guessed_from_telling_names",
    ),
    _mutant(
        "a layer is tested alone", "subject", "if letter not in own)", "if False)",
        "testing.py::test_a_layer_carries_the_axes_of_the_model_along",
    ),
    _mutant(
        "pieces follow each other along the first axis", "code", "torch.cat(laid, entry.axis)", "torch.cat(laid, 0)",
        "testing_corpus.py::test_a_right_program_passes[hf attention]",
    ),
    _mutant(
        "what agrees is not sought in another order of axes", "departure", "itertools.permutations(range(other.ndim))",
        "[tuple(range(other.ndim))]", "testing.py::test_axes_in_another_order_agree",
    ),
    _mutant(
        "a softmax has one index", "mistakes", "yield replace(e, indices=(Index(letter),))", "yield e",
        "testing.py::test_the_message_says_what_agrees_what_departs_and_why",
    ),
    _mutant(
        "causal code sees later positions", "properties", "lambda seen, moved: seen < moved",
        "lambda seen, moved: seen > moved",
        "testing.py::test_a_property_names_the_input_that_moved",
    ),
    _mutant(
        "rows are not computed alone", "properties", "for row in _places(whole.shape[axis]):", "for row in []:",
        "testing.py::test_a_row_is_computed_alone_too",
    ),
    _mutant(
        "tokens stay", "properties", "(at - low + 1) % ", "(at - low) % ", "testing.py::test_tokens_are_changed_to_others",
    ),
    _mutant(
        "what is kept is lost", "properties", "output, kept = step(f, kept, *part)", "output, _ = step(f, kept, *part)",
        "testing_corpus.py::test_a_right_program_passes[cache]",
    ),
)  # fmt: skip
