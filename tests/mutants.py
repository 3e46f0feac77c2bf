"""Which slips of the package would the tests notice? One line each, with the tests that must fail."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mutant:
    """`old`, which stands once in `file`, becomes `new`; then each of the `killers` fails."""

    name: str
    file: str
    old: str
    new: str
    killers: tuple[str, ...]


def _mutant(name: str, file: str, old: str, new: str, *killers: str) -> Mutant:
    return Mutant(name, f"einformer/{file}", old, new, tuple(f"tests/test_{killer}" for killer in killers))


SCOPE, CALLS, CAUSALITY = "language/scope.py", "language/calls.py", "program/causality.py"
BODY, SIZES, BINDING = "language/body.py", "language/sizes.py", "language/binding.py"
AGREEMENT, DECLARATIONS, TIMES = "language/agreement.py", "language/declarations.py", "language/times.py"
POSITIONS, INEQUALITIES = "program/positions.py", "program/inequalities.py"
FORMULAS, TOKENS, INSTANCES = "language/formulas.py", "language/tokens.py", "language/instances.py"
PRINTER, WEIGHTS, REFERENCE = "language/printer.py", "language/weights.py", "interpreters/reference/frame.py"
VALUES = "interpreters/reference/primitives.py"

MUTANTS = (
    # ------------------------------------------------------------------------------------------- sums (R2), operators
    _mutant(
        "a product sums what only one factor has", SCOPE,
        "if sum(letter in free for free in having) > 1)", "if sum(letter in free for free in having) > 0)",
        "reference.py::test_the_smallest_product_sums",
    ),
    _mutant(
        "a product sums what is wanted", SCOPE,
        "for letter in letters if letter not in wanted}", "for letter in letters}",
        "reference.py::test_a_wanted_index_is_not_summed",
    ),
    _mutant(
        "a denominator is no factor", SCOPE,
        "else (e.numerator,)) + (e.denominator,)", "else (e.numerator,))",
        "reference.py::test_a_denominator_is_a_factor",
    ),
    _mutant(
        "what an operator sums stays free", SCOPE,
        "for i in self.free(argument) if i not in bound}", "for i in self.free(argument)}",
        "reference.py::test_what_an_operator_sums_is_not_summed_again",
    ),
    _mutant(
        "what an operator keeps need not be wanted", SCOPE,
        "        if not self.reduces(e):\n            self.kept(", "        if False:\n            self.kept(",
        "refused.py::test_a_slip_is_refused_by_its_rule[is kept and not wanted]",
    ),
    _mutant(
        "an index may stand on the left only", SCOPE,
        "if missing := [letter for letter in left if letter not in free]:",
        "if missing := [letter for letter in left if False]:",
        "refused.py::test_a_slip_is_refused_by_its_rule[stands on the left only]",
    ),
    _mutant(
        "an inner sum cannot stand in a sum of terms", SCOPE,
        "if not children(e) or isinstance(e, Tensor) or letter", "if not children(e) or isinstance(e, Tensor | Sum) or letter",
        "refused.py::test_a_slip_is_refused_by_its_rule[two sums or one, with a bias]",
    ),
    _mutant(
        "one term suffices for an inner sum", SCOPE,
        "return all(self.pairs(letter, child)", "return any(self.pairs(letter, child)",
        "reference.py::test_a_term_without_the_index_leaves_no_choice",
    ),
    _mutant(
        "an inner product that sums anyway has two readings", SCOPE,
        " and complete and self.silent(letter, factor, inside)", " and complete",
        "reference.py::test_heads_stay_apart_in_one_line",
    ),
    _mutant(
        "one reading is never asked for", SCOPE,
        "        self.one_reading(e, wanted - bound, inside)\n", "",
        "refused.py::test_a_slip_is_refused_by_its_rule[two sums or one]",
    ),
    # ------------------------------------------------------------------------------------------------------ calls (R7)
    _mutant(
        "the same letter is not preferred", CALLS,
        "    if letter in actual and letter not in taken:\n        return letter\n", "",
        "calls.py::test_a_formal_takes_the_same_letter_first",
    ),
    _mutant(
        "the only index over the axis is not taken", CALLS,
        "if len(same_axis) == 1:", "if False:",
        "calls.py::test_a_formal_takes_the_only_index_over_its_axis",
    ),
    _mutant(
        "the first of several indices over the axis is taken", CALLS,
        "if len(same_axis) == 1:", "if same_axis:",
        "calls.py::test_two_indices_over_its_axis_are_ambiguous",
    ),
    _mutant(
        "the subscript of a call renames nothing", CALLS,
        "    letters = _renamed(layer, call, loops)\n", "    letters: dict[str, str] = {}\n",
        "calls.py::test_a_renamed_call_works_on_its_own_index",
    ),
    _mutant(
        "the letter of a loop renames", CALLS,
        "for index in call.indices if index.letter not in loops]", "for index in call.indices]",
        "calls.py::test_the_letter_of_a_loop_is_no_renaming",
    ),
    _mutant(
        "a carried index is lost", SCOPE,
        "            return carried | dict.fromkeys(binding.output)", "            return dict.fromkeys(binding.output)",
        "calls.py::test_carried_indices_are_rows_alone",
    ),
    _mutant(
        "a carried index may clash", CALLS,
        "    _carried_apart(layer, call, actuals, bound, output)\n", "",
        "calls.py::test_what_is_carried_along_must_not_clash",
    ),
    _mutant(
        "a size in a body is that of its own letter", REFERENCE,
        "self.sizes | sizes, {})", "self.sizes, {})",
        "calls.py::test_a_size_in_a_body_is_that_of_the_actual",
    ),
    _mutant(
        "instances are numbered from zero", INSTANCES,
        "self.count.get(e.name, 0) + 1", "self.count.get(e.name, 0)",
        "calls.py::test_anonymous_instances_are_numbered_in_text_order",
    ),
    _mutant(
        "every instance has the first one's weights", INSTANCES,
        "name = e.name if number == 1 else", "name = e.name if number else",
        "calls.py::test_anonymous_instances_are_numbered_in_text_order",
    ),
    _mutant(
        "a loop needs no letter on its calls", INSTANCES,
        "if loop is not None and loop.letter", "if False and loop.letter",
        "calls.py::test_in_a_loop_an_anonymous_instance_carries_its_letter",
    ),
    # ------------------------------------------------------------------------------------------------------ slots (R4)
    _mutant(
        "a slot before the first number of an axis is inside", "language/slots.py",
        "(value < 0 and not early)", "False",
        "slots.py::test_what_leaves_its_axis_whatever_its_size_is_refused_by_the_check[a name]",
    ),
    _mutant(
        "a slot beyond the last number of an axis is inside", "language/slots.py",
        "(size is not None and value >= size)", "False",
        "slots.py::test_a_distance_beyond_a_table_is_refused_once_its_size_is_bound",
    ),
    _mutant(
        "what a layer is given in a branch is guarded", "language/slots.py",
        "inside = () if isinstance(e, Apply) and e.name not in NAMES else guards", "inside = guards",
        "slots.py::test_what_leaves_its_axis_whatever_its_size_is_refused_by_the_check[a layer in a branch]",
    ),
    _mutant(
        "half a number may stand in a slot", BODY,
        "            if self.whole.needs(slot) is None:\n", "            if False:\n",
        "slots.py::test_a_number_that_is_not_whole_is_refused_in_a_slot",
    ),
    _mutant(
        "a group is read column-major", REFERENCE,
        "for member in e.members:", "for member in reversed(e.members):",
        "reference.py::test_a_group_on_the_right_splits_row_major",
    ),
    _mutant(
        "a group is written column-major", CALLS,
        "slot.members if isinstance(slot, Group)", "slot.members[::-1] if isinstance(slot, Group)",
        "reference.py::test_a_group_on_the_left_merges_row_major",
    ),
    _mutant(
        "slots are read in reverse", REFERENCE,
        "stored.array[tuple(places)]", "stored.array[tuple(places[::-1])]",
        "reference.py::test_slots_are_read_in_their_order",
    ),
    _mutant(
        "before the start of time stands token zero", REFERENCE,
        "if axis in self.times and not selects:", "if axis in self.times:",
        "reference.py::test_token_zero_does_not_stand_before_the_start",
    ),
    _mutant(
        "before the start of time stands the first position", REFERENCE,
        "if past.array.any() else found", "if False else found",
        "reference.py::test_before_the_start_of_time_everything_is_zero",
    ),
    _mutant(
        "a slot may leave its axis", REFERENCE,
        "            self.inside(outside, live, e, axis, size)\n", "",
        "reference.py::test_a_slot_that_leaves_its_axis_is_an_error",
    ),
    _mutant(
        "positions are solved backwards", REFERENCE,
        "for position in range(self.length(letter)):", "for position in reversed(range(self.length(letter))):",
        "reference.py::test_a_recurrence_is_solved_in_the_order_of_positions",
    ),
    _mutant(
        "a recurrence may read its own position", BODY,
        "        return False\n    steps = [", "        return True\n    steps = [",
        "refused.py::test_a_slip_is_refused_by_its_rule[defined by itself]",
    ),
    # ----------------------------------------------------------------------------------- equations, weights, scalars
    _mutant(
        "`<-` reads the new value", REFERENCE,
        "if equation.relation != \"=\" or not isinstance(equation.left, Tensor):", "if not isinstance(equation.left, Tensor):",
        "reference.py::test_rebinding_at_an_earlier_position_reads_the_old_value",
    ),
    _mutant(
        "`<-` defines anew", BODY,
        "elif equation.relation == \"<-\" and known is None:", "elif False:",
        "refused.py::test_a_slip_is_refused_by_its_rule[changed before it is defined]",
    ),
    _mutant(
        "a tie has weights of its own", WEIGHTS,
        "(weight.default is None or weight.optional)", "True",
        "reference.py::test_a_tie_is_the_other_weight",
    ),
    _mutant(
        "a tie is ignored", REFERENCE,
        "if weight.default is not None and not (", "if weight.optional and not (",
        "reference.py::test_a_tie_is_the_other_weight",
    ),
    _mutant(
        "the default of an optional weight is ignored", REFERENCE,
        "not (weight.optional and path in self.run.weights):", "not weight.optional:",
        "reference.py::test_an_optional_tie_is_the_other_weight_where_absent",
    ),
    _mutant(
        "a default replaces what is given", REFERENCE,
        "is not None and not (weight.optional and path in self.run.weights):", "is not None:",
        "reference.py::test_an_optional_tie_is_the_other_weight_where_absent",
    ),
    _mutant(
        "a weight that nobody reads is no matter", BODY,
        "            if not definition.used and name != self.layer.output.name:", "            if False:",
        "refused.py::test_a_slip_is_refused_by_its_rule[a weight that nobody reads]",
    ),
    _mutant(
        "a list of scalars is turned round", REFERENCE,
        "for number in scalar.value]", "for number in scalar.value[::-1]]",
        "reference.py::test_a_list_of_scalars_has_one_for_each_number",
    ),
    _mutant(
        "a list of scalars may have any length", BINDING,
        "    _lists_fit(spec, legend)\n", "",
        "binding.py::test_a_list_has_the_length_of_its_axis",
    ),
    _mutant(
        "after a loop its letter stands still", REFERENCE,
        "                    self.fixed.pop(statement.index.letter, None)\n", "",
        "reference.py::test_after_a_loop_its_letter_is_an_index_again",
    ),
    # ------------------------------------------------------------------------------------ primitives, where, the norms
    _mutant(
        "top takes the higher index of equals", VALUES,
        "np.argsort(np.argsort(-flat, kind=\"stable\"), kind=\"stable\")",
        "np.argsort(np.flip(np.argsort(flat, kind=\"stable\"), -1), kind=\"stable\")",
        "reference.py::test_top_takes_the_lower_index_of_equals",
    ),
    _mutant(
        "the variance is unbiased", "language/primitives.py",
        "np.var(x, axis)", "np.var(x, axis, ddof=1)",
        "reference.py::test_the_variance_is_the_mean_square_deviation",
    ),
    _mutant(
        "softmax over nothing is no number", VALUES,
        "np.where(total == 0, 0, powers / np.where(total == 0, 1, total))", "powers / total",
        "reference.py::test_softmax_over_nothing_is_zero",
    ),
    _mutant(
        "lse counts minus infinity as zero", VALUES,
        "np.log(np.exp(x - shift).sum(axis=axis))", "np.log(np.exp(np.maximum(x, 0) - shift).sum(axis=axis))",
        "reference.py::test_lse_skips_minus_infinity",
    ),
    _mutant(
        "gelu is its approximation", "language/primitives.py",
        "numpy=\"x * (1 + erf(x / math.sqrt(2))) / 2\"", "numpy=\"x / (1 + np.exp(-1.702 * x))\"",
        "reference.py::test_functions_at_zero_and_one",
    ),
    _mutant(
        "the epsilon of a norm stands outside the root", "architectures/prelude.ein",
        "return γ_d z_d / sqrt(mean_d z_d^2 + ε)", "return γ_d z_d / (sqrt(mean_d z_d^2) + ε)",
        "reference.py::test_the_root_of_a_norm_holds_its_epsilon",
    ),
    _mutant(
        "where reads the branch it does not take", REFERENCE,
        "both(live, condition) if live else condition)", "live)",
        "reference.py::test_where_reads_only_the_branch_it_takes",
    ),
    _mutant(
        "where in where forgets the outer one", REFERENCE,
        "both(live, condition) if live else condition)", "condition)",
        "reference.py::test_where_inside_where_reads_only_what_both_take",
    ),
    _mutant(
        "both branches of where on layer numbers have weights", WEIGHTS,
        "return (e.arguments[1 if condition else 2],)", "return children(e)",
        "reference.py::test_where_on_layer_numbers_takes_one_branch",
    ),
    # ----------------------------------------------------------------------------------------------- causality (R6, R10)
    _mutant(
        "a call in a call is not followed", "language/callers.py",
        "if not slip.called and axis_of(given)", "if axis_of(given)",
        "callers.py::test_the_line_that_can_be_mended_is_told_in_its_own_letters[a layer in a layer, over rows]",
    ),
    _mutant(
        "a layer of the prelude is the place", "language/callers.py",
        " and layer.span.source == caller.layer.span.source", "",
        "callers.py::test_a_layer_of_the_prelude_is_never_the_place",
    ),
    _mutant(
        "earlier is later", CAUSALITY,
        "later = Inequality(read.position - here, strict=True)", "later = Inequality(here - read.position, strict=True)",
        "causality.py::test_what_is_causal_is_accepted[only before]",
    ),
    _mutant(
        "one position later is not later", CAUSALITY,
        "later = Inequality(read.position - here, strict=True)",
        "later = Inequality(read.position - here - Linear.number(1), strict=True)",
        "causality.py::test_what_reads_the_future_is_refused[a mask one too far]",
    ),
    _mutant(
        "minus infinity masks no score", POSITIONS,
        "either(both(*(term.alive for term in terms)), *(term.high for term in terms)),", "ALWAYS,",
        "causality.py::test_what_is_causal_is_accepted[attention]",
    ),
    _mutant(
        "infinity is masked", POSITIONS,
        "either(both(*(term.alive for term in terms)), *(term.high for term in terms)),",
        "both(*(term.alive for term in terms)),",
        "causality.py::test_what_reads_the_future_is_refused[minus infinity plus infinity]",
    ),
    _mutant(
        "softmax is masked by zero too", POSITIONS,
        "return Value(inner.reads, argument.alive, high=inner.high)",
        "return Value(inner.reads, argument.nonzero, high=inner.high)",
        "causality.py::test_what_reads_the_future_is_refused[zero does not mask a softmax]",
    ),
    _mutant(
        "products do not intersect", POSITIONS,
        "either(both(*(factor.nonzero for factor in factors)), wild)", "either(*(factor.nonzero for factor in factors), wild)",
        "causality.py::test_what_is_causal_is_accepted[a product with zero]",
    ),
    _mutant(
        "zero times infinity is zero", POSITIONS,
        "either(both(*(factor.nonzero for factor in factors)), wild)", "both(*(factor.nonzero for factor in factors))",
        "causality.py::test_what_reads_the_future_is_refused[zero times minus infinity]",
    ),
    _mutant(
        "sums intersect", POSITIONS,
        "either(*(term.nonzero for term in terms)),", "both(*(term.nonzero for term in terms)),",
        "causality.py::test_what_reads_the_future_is_refused[a sum of masks]",
    ),
    _mutant(
        "a condition tells nothing", POSITIONS,
        "reads = self.value(condition).reads if len(branches) == 2 else ()", "reads = ()",
        "causality.py::test_what_reads_the_future_is_refused[a condition on the future]",
    ),
    _mutant(
        "how many are to come is nothing", POSITIONS,
        "inner = _at(Value((*argument.where(matter), *count), *_claims(argument)), some)",
        "inner = _at(Value(argument.where(matter), *_claims(argument)), some)",
        "causality.py::test_how_many_are_to_come_is_the_future_too[a sum of positions]",
    ),
    _mutant(
        "a loop is followed once", POSITIONS,
        "            if all(self.includes(before[key], after[key], unknown) for key in changed):\n", "            if True:\n",
        "causality.py::test_a_leak_is_refused_wherever_it_is[a later turn of a loop]",
    ),
    _mutant(
        "some number of an index is always the same", POSITIONS,
        "some = {letter: Linear.index(self.analysis.fresh(letter)) for letter in sorted(held) if \"~\" in letter}", "some = {}",
        "causality.py::test_a_leak_is_refused_wherever_it_is[two places of one mask]",
    ),
    _mutant(
        "a softmax may see nothing", POSITIONS,
        "                self.analysis.sees(argument.low, own[0], times, e)\n", "                pass\n",
        "causality.py::test_what_reads_the_future_is_refused[nothing to see]",
    ),
    _mutant(
        "an inequality is never strict", INEQUALITIES,
        "value > 0 or (value == 0 and not inequality.strict)", "value >= 0",
        "causality.py::test_what_is_causal_is_accepted[attention]",
    ),
    _mutant(
        "a floor has no bound below", INEQUALITIES,
        "            yield Inequality(value - atom.arguments[0] + Linear.number(1), strict=True)\n", "",
        "causality.py::test_what_people_write_is_accepted[chunks before]",
    ),
    _mutant(
        "too many cases hold never", INEQUALITIES,
        "else frozenset((frozenset.intersection(*cases),))", "else frozenset(list(cases)[:1])",
        "causality.py::test_a_leak_is_refused_wherever_it_is[one of very many cases]",
    ),
    _mutant(
        "scores may be transposed", TIMES,
        "                if isinstance(x, Index) and self.is_computed(x.letter):\n", "                if False:\n",
        "causality.py::test_what_reads_the_future_is_refused[transposed]",
    ),
    _mutant(
        "the number of rows is a number", TIMES,
        "elif e.name in self.batches:", "elif False:",
        "causality.py::test_a_row_means_what_it_means_alone",
    ),
    _mutant(
        "the first letters of all inputs are rows", TIMES,
        "return frozenset(letter for letters in formals if time in letters for letter in letters[: letters.index(time)])",
        "return frozenset(letter for letters in formals for letter in letters if letter != time)",
        "causality.py::test_verdicts_do_not_depend_on_the_order_of_inputs",
    ),
    # ---------------------------------------------------------------------------------------------------------- sizes
    _mutant(
        "one over a size is the size", SIZES,
        "tuple((letter, -power) for letter, power in monomial)", "monomial",
        "refused.py::test_without_the_slip_it_is_accepted[a group that is not its axis]",
    ),
    _mutant(
        "a size may pass its bound", BINDING,
        "and size > bound:", "and False:",
        "binding.py::test_a_shape_stays_within_the_bound",
    ),
    _mutant(
        "any axis is bounded by another", AGREEMENT,
        "and inner.bound == outer.size", "",
        "refused.py::test_a_slip_is_refused_by_its_rule[a bound on another axis]",
    ),
    _mutant(
        "an axis is read by any index", AGREEMENT,
        "if axis_of(slot.letter) != axis_of(defined.letter) and not", "if False and not",
        "refused.py::test_a_slip_is_refused_by_its_rule[a slot over another axis]",
    ),
    _mutant(
        "numbers are not compared once they are bound", "model/objects.py",
        "(binding.known(legend), legend.origins) if legend else (None, None)", "(None, None)",
        "binding.py::test_groups_are_compared_again_as_numbers",
    ),
    _mutant(
        "inputs need not agree", BINDING,
        "elif legend.length(axis.letter) != length:", "elif False:",
        "binding.py::test_inputs_agree_on_an_open_size",
    ),
    # --------------------------------------------------------------------------------------------------- reading (R11)
    _mutant(
        "a size may never be whole", SIZES,
        "if constant * digits % math.gcd(", "if False and math.gcd(",
        "binding.py::test_a_size_is_never_whole_only_where_no_numbers_make_it_whole[0]",
    ),
    _mutant(
        "what sizes have in common is forgotten", SIZES,
        "math.gcd(digits, *(int(factor * digits) for factor in terms.values()))", "digits",
        "binding.py::test_a_size_is_never_whole_only_where_no_numbers_make_it_whole[0]",
    ),
    _mutant(
        "a size may never be positive", SIZES,
        "sum(terms.values(), constant) < 1", "False",
        "binding.py::test_a_size_that_cannot_come_out_whole_is_refused_where_it_is_declared[1 - D]",
    ),
    _mutant(
        "a size is its default", SIZES,
        "terms = Legend({}, self.scalars, self.values).polynomial(size)", "terms = self.polynomial(size)",
        "binding.py::test_a_size_may_be_whole_by_what_is_bound",
    ),
    _mutant(
        "forms of other notations are unknown", "language/meant.py",
        "if finding.code not in _REPLACED or", "if True or",
        "meant.py::test_each_row_is_typed",
    ),
    _mutant(
        "what is never used hides a leak", "language/check.py",
        "    if not findings:\n        unread =", "    if not (findings or idle):\n        unread =",
        "errors.py::test_a_mask_that_the_scores_lack_is_told_beside_the_leak",
    ),
    _mutant(
        "what the prelude lacks is told in the prelude", "language/check.py",
        "[_at_call(finding, layer, spec) for finding in body.findings]", "body.findings",
        "errors.py::test_what_a_layer_of_the_prelude_lacks_is_told_at_the_call",
    ),
    _mutant(
        "a message steers a terminal", "errors.py",
        "return text if text.isprintable() else", "return text if True else",
        "errors.py::test_no_finding_can_steer_what_shows_it",
    ),
    _mutant(
        "a minus is not read", FORMULAS,
        "            factors = _negated(factors)\n", "            pass\n",
        "reference.py::test_signs_and_quotients",
    ),
    _mutant(
        "a minus negates what mod divides", FORMULAS,
        "dividend = self.product(factors, start)\n",
        "dividend, negative = self.product(_negated(factors) if negative else factors, start), False\n",
        "precedence.py::test_a_formula_means_what_it_means_to_python[0]",
    ),
    _mutant(
        "a sign before what mod divides is printed bare", PRINTER,
        "return isinstance(e, Product) and not (isinstance(", "return isinstance(e, Product) or (isinstance(",
        "precedence.py::test_a_formula_means_what_it_means_to_python[0]",
    ),
    _mutant(
        "a brace in a subscript ends it", TOKENS,
        "[\"}\"] * (text == \"{\" and bool(closing))", "[]",
        "round_trip.py::test_braces_enclose_in_a_subscript_too",
    ),
    _mutant(
        "a minus before a number is a factor", FORMULAS,
        "    if isinstance(first, Number):\n        return [", "    if False:\n        return [",
        "signs.py::test_a_minus_is_read",
    ),
    _mutant(
        "a chain compares its first number again", FORMULAS,
        "            left = right\n", "",
        "reference.py::test_conditions",
    ),
    _mutant(
        "a sum takes one factor", FORMULAS,
        "        if name.text == \"sum\":\n            start", "        if False:\n            start",
        "reference.py::test_sum_takes_the_rest_of_the_product",
    ),
    _mutant(
        "a power after an operator has one reading", FORMULAS,
        "if isinstance(base, Apply) and base.indices and base.name in _OPERATORS", "if False and base.indices",
        "refused.py::test_a_slip_is_refused_by_its_rule[a power with two readings]",
    ),
    _mutant(
        "the same letter in another font is another", TOKENS,
        "name = unicodedata.normalize(\"NFKC\", text.translate(SYNONYMS))", "name = text.translate(SYNONYMS)",
        "refused.py::test_the_same_letter_in_another_font_is_the_same",
    ),
    _mutant(
        "letters may look alike", DECLARATIONS,
        "    yield from look_alikes(spec)\n", "",
        "refused.py::test_a_slip_is_refused_by_its_rule[letters that look alike]",
    ),
    _mutant(
        "a softmax may be given what it cannot feel", BODY,
        "[*self.renamings(equation), *unfelt(elaborated.right, scope)]", "[*self.renamings(equation)]",
        "refused.py::test_a_slip_is_refused_by_its_rule[a score without its prime]",
    ),
    _mutant(
        "what a mask shows is not looked at", "language/shifts.py",
        "        case Apply(name=\"where\", arguments=(_, *branches)) if Number(-math.inf) in branches:\n",
        "        case Apply(name=\"where\", arguments=(_, *branches)) if not branches:\n",
        "refused.py::test_a_slip_is_refused_by_its_rule[a score without its prime where the mask shows it]",
    ),
    _mutant(
        "a maximum may not be subtracted", "language/shifts.py",
        " and not over & bound\n", "\n",
        "refused.py::test_a_term_that_is_felt_or_says_what_it_lacks_may_stand[d-lines0]",
    ),
    # -------------------------------------------------------------------------------------------------------- printing
    _mutant(
        "a negative number needs no parentheses", PRINTER,
        "return Level.TERM if math.copysign(1, e.value) < 0 else Level.ATOM", "return Level.ATOM",
        "signs.py::test_a_minus_is_printed_as_it_was_read",
    ),
    _mutant(
        "a minus is a factor -1", PRINTER,
        "sign, factors = (\"-\", factors[1:]) if is_minus(factors) else (\"\", factors)", "sign = \"\"",
        "signs.py::test_a_minus_is_printed_as_it_was_read",
    ),
    _mutant(
        "the caret stands one column on", "errors.py",
        "return written.start - written.source.text.rfind(\"\\n\", 0, written.start)",
        "return written.start - written.source.text.rfind(\"\\n\", 0, written.start) + 1",
        "commands.py::test_check_shows_each_finding_then_a_row_for_each_target",
    ),
)  # fmt: skip
