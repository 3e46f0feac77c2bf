"""Which slips of the counting would the tests notice? One line each, with the tests that must fail."""

from __future__ import annotations

from tests.mutants import Mutant

FOLDERS = dict.fromkeys(("choices", "support"), "program")


def _mutant(name: str, module: str, old: str, new: str, *killers: str) -> Mutant:
    return Mutant(
        name,
        f"einformer/{FOLDERS.get(module, 'interpreters/count')}/{module}.py",
        old,
        new,
        tuple(f"tests/test_{killer}" for killer in killers),
    )


CONVENTIONS, COUNT, COMMAND, PUBLISHED = "conventions.py::", "count.py::", "count_command.py::", "published.py::"
KORTHIKANTI = CONVENTIONS + "test_activations_are_those_of_korthikanti"

MUTANTS = (
    # ------------------------------------------------------------------------------------------------------ parameters
    _mutant(
        "a tie counts twice", "held",
        'if weight.kind != "instance" and (weight.default is None or weight.optional):', 'if weight.kind != "instance":',
        COUNT + "test_a_tie_counts_once",
    ),
    _mutant(
        "a buffer is a parameter", "rules",
        'held.weight.kind == "trained",', "True,",
        COUNT + "test_a_buffer_is_no_parameter",
    ),
    _mutant(
        "every expert is active", "held",
        "replace(each, chosen=chosen.get(each.place, ()), ", "replace(each, chosen=(), ",
        PUBLISHED + "test_mixtral",
    ),
    _mutant(
        "a head that is not tied is no embedding", "held",
        "weight.name in numbered or work.vocabulary in axes)", "weight.name in numbered)",
        PUBLISHED + "test_pythia",
    ),
    _mutant(
        "an instance of two sites is two", "turns",
        "return tuple(site for site in found if not site.cases or site.loops not in always)", "return tuple(found)",
        COUNT + "test_a_where_splits_the_turns_of_a_loop",
    ),
    # ------------------------------------------------------------------------------------------------------------ FLOPs
    _mutant(
        "a multiply-accumulate is one FLOP", "conventions",
        "per_multiply: Literal[1, 2] = 2", "per_multiply: Literal[1, 2] = 1",
        COUNT + "test_flops_of_gpt2_are_the_published_parts",
    ),
    _mutant(
        "a pair of equal positions is not seen", "bands",
        "return width * (2 * length - width + 1)", "return width * (2 * length - width)",
        CONVENTIONS + "test_pairs_are_those_of_an_enumeration", CONVENTIONS + "test_exact_flops_of_gpt2",
    ),
    _mutant(
        "a window is one position wider", "bands",
        "smaller(length, most + 1)", "smaller(length, most + 2)",
        CONVENTIONS + "test_pairs_are_those_of_an_enumeration",
    ),
    _mutant(
        "a strict comparison is not strict", "choices",
        "least = Number(int(strict))", "least = Number(0)",
        CONVENTIONS + "test_each_layer_has_its_own_window",
    ),
    _mutant(
        "scores are needed where they are masked", "support",
        "return [(argument, inner.chosen(deaf)) for argument in e.arguments]",
        "return [(argument, inner) for argument in e.arguments]",
        CONVENTIONS + "test_exact_flops_of_gpt2",
    ),
    _mutant(
        "what is cached is not seen", "numbers",
        "self.legend.length(axis) + (self.cached if axis == self.time and letter != axis else 0)", "self.legend.length(axis)",
        CONVENTIONS + "test_a_decode_step_is_what_a_longer_text_costs_more",
    ),
    _mutant(
        "every operand has a gradient", "contraction",
        "gradients=first + second", "gradients=2",
        CONVENTIONS + "test_what_needs_no_gradient_costs_nothing",
    ),
    _mutant(
        "formulas have fractions that are rounded", "formulas",
        "return sympy.Rational(str(e.value)) if math.isfinite(e.value) else ", "return ",
        COUNT + "test_a_size_with_a_fraction_has_a_formula[3.5 D]",
    ),
    _mutant(
        "an exponent may have letters", "formulas",
        "if not exponent.is_number or not abs(exponent) <= MOST_POWER:", "if False:",
        COUNT + "test_a_size_without_a_formula_that_one_can_read_is_refused_at_once[D^D]",
    ),
    _mutant(
        "a norm multiplies matrices", "rules",
        'if contraction.fused and self.convention.plan == "fast":', "if False:",
        "orders.py::test_norms_are_executed_as_they_are_counted[a line of its own]",
    ),
    Mutant(
        "sizes of the inputs decide the order of a product", "einformer/program/orders.py",
        "return MANY if axis is None or legend.brought(axis.size) else", "return MANY if axis is None else",
        ("tests/test_orders.py::test_products_of_many_factors_are_executed_as_they_are_counted",),
    ),
    Mutant(
        "keys are computed for chosen features alone", "einformer/program/routing.py",
        "if wide and _by_row(e.arguments[0], start) and choice in", "if wide and choice in",
        ("tests/test_orders.py::test_choices_are_executed_as_they_are_counted[features]",),
    ),
    Mutant(
        "a linear map takes a product whatever its best order", "einformer/interpreters/torch/patterns.py",
        "if rows and alike and not", "if rows and not",
        ("tests/test_orders.py::test_products_of_many_factors_are_executed_as_they_are_counted",),
    ),
    _mutant(
        "the letter of a loop is an axis in each turn", "visits",
        "return frozenset(letters) - {letter for letter, _ in self.loops}", "return frozenset(letters)",
        "orders.py::test_products_in_a_loop_are_executed_as_they_are_counted",
    ),
    _mutant(
        "experts count sparse wherever they are chosen", "rules",
        'plan == "fast" and chosen.letter in contraction.paired', 'plan == "fast"',
        "orders.py::test_choices_are_executed_as_they_are_counted[experts of each head]",
    ),
    _mutant(
        "what lies between the steps of a product has the letter of a loop", "kept",
        "frozenset(self.flow.scope.free(e)) - {letter for letter, _ in self.loops}", "frozenset(self.flow.scope.free(e))",
        CONVENTIONS + "test_a_weight_with_the_letter_of_a_loop_keeps_one_turn",
    ),
    _mutant(
        "a weight has no gradient", "support",
        "return own in self.weights or (own in self.own", "return (own in self.own",
        CONVENTIONS + "test_backward_of_gpt2_is_the_published_one",
    ),
    _mutant(
        "a condition has a gradient", "support",
        "return any(self.trained(branch, known) for branch in e.arguments[1:])", "return True",
        CONVENTIONS + "test_what_needs_no_gradient_costs_nothing",
    ),
    _mutant(
        "logits are recomputed", "rules",
        'again = self.core if recompute == "selective" else self.each if recompute == "full" and self.repeated else 0',
        'again = self.core if recompute == "selective" else self.each if recompute == "full" else 0',
        COMMAND + "test_recomputation_and_conventions",
    ),
    _mutant(
        "prefill computes all logits", "rules",
        "            letters -= {self.derived.time}\n", "            pass\n",
        COMMAND + "test_recomputation_and_conventions",
    ),
    # ------------------------------------------------------------------------------------------------------------ bytes
    _mutant(
        "a mask of dropout has two bytes", "memory",
        'element if kept.what == "value" else 1', "element",
        KORTHIKANTI,
    ),
    Mutant(
        "a softmax keeps its input too", "einformer/language/primitives.py",
        'ignores_shifts=True, keeps="output"', 'ignores_shifts=True, keeps="both"',
        (f"tests/test_{KORTHIKANTI}",),
    ),
    _mutant(
        "a value that several operations keep is there several times", "kept",
        "key = (*value.key, what)", "key = (*value.key, what, len(self.found.kept))",
        KORTHIKANTI,
    ),
    _mutant(
        "a sum keeps its terms", "kept",
        "                    self.value(term)\n", "                    self.keep(self.value(term))\n",
        KORTHIKANTI,
    ),
    _mutant(
        "weights are kept too", "kept",
        "if value.trained and key not in self.found.kept:", "if key not in self.found.kept:",
        KORTHIKANTI,
    ),
    _mutant(
        "selective recomputation keeps the core", "memory",
        'if not (recompute == "selective" and two_positions(value.letters, derived.time))', "if True",
        KORTHIKANTI,
    ),
    _mutant(
        "what leaves a loop is there in each turn", "kept",
        "        for name in changed:\n            self.values[name] = self.renewed(self.values[name], loop, name)\n", "",
        CONVENTIONS + "test_activations_outside_of_the_blocks",
    ),
    _mutant(
        "an output matrix is not shared with the heads", "memory",
        "count.merged.union(count.letters)", "frozenset(count.letters)",
        CONVENTIONS + "test_tensor_parallel_parameters",
    ),
    _mutant(
        "ZeRO-1 shares gradients", "memory",
        '"gradients": 2}', '"gradients": 1}',
        CONVENTIONS + "test_shared_parameters_and_states",
    ),
)  # fmt: skip
