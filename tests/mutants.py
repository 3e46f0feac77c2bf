"""Slips of the package that change what a text means, is proved, computed or counted; each with the tests that must fail.

`make mutants` plants them one by one. A mutant guards semantics: a message, a page or a style has its golden file.
"""

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


_PARTS = "test_a_form_is_computed_whole_and_in_parts"
_RANKS = "test_a_layer_has_the_gradients_of_one_process"

MUTANTS = (
    # -------------------------------------------------------------------------------------------------- sums and operators (R2)
    _mutant(
        "a product sums what only one factor has", "language/scope.py",
        "if sum(letter in free for free in having) > 1)", "if sum(letter in free for free in having) > 0)",
        "reference.py::test_the_smallest_product_sums",
    ),
    _mutant(
        "a product sums what is wanted", "language/scope.py",
        "for letter in letters if letter not in wanted}", "for letter in letters}",
        "reference.py::test_a_wanted_index_is_not_summed",
    ),
    _mutant(
        "a denominator is no factor", "language/scope.py",
        "else (e.numerator,)) + (e.denominator,)", "else (e.numerator,))",
        "reference.py::test_a_denominator_is_a_factor",
    ),
    _mutant(
        "what an operator sums stays free", "language/scope.py",
        "for i in self.free(argument) if i not in bound}", "for i in self.free(argument)}",
        "reference.py::test_what_an_operator_sums_is_not_summed_again",
    ),
    _mutant(
        "what an operator keeps need not be wanted", "language/scope.py",
        "        if not self.reduces(e):\n            self.check_kept(", "        if False:\n            self.check_kept(",
        "refused.py::test_a_slip_is_refused_by_its_rule[is kept and not wanted]",
    ),
    _mutant(
        "one term suffices for an inner sum", "language/scope.py",
        "return all(self.pairs(letter, child)", "return any(self.pairs(letter, child)",
        "reference.py::test_a_term_without_the_index_leaves_no_choice",
    ),
    _mutant(
        "an inner product that sums anyway has two readings", "language/scope.py",
        " and complete and self.is_silent(letter, factor, inside)", " and complete",
        "reference.py::test_heads_stay_apart_in_one_line",
    ),
    _mutant(
        "one reading is never asked for", "language/scope.py",
        "        self.check_reading(e, wanted - bound, inside)\n", "",
        "refused.py::test_a_slip_is_refused_by_its_rule[two sums or one]",
    ),
    _mutant(
        "a varied layer keeps the line that is replaced", "language/parser.py",
        "rest[place + 1 :]", "rest[place:]",
        "library.py::test_a_line_replaces_the_line_of_its_name_and_a_new_name_goes_before",
    ),
    # --------------------------------------------------------------------------------------------------------------- calls (R7)
    _mutant(
        "the same letter is not preferred", "language/calls.py",
        "    if letter in actual and letter not in used:\n        return letter\n", "",
        "calls.py::test_a_formal_takes_the_same_letter_first",
    ),
    _mutant(
        "the first of several indices over the axis is taken", "language/calls.py",
        "if len(same_axis) == 1:", "if same_axis:",
        "calls.py::test_two_indices_over_its_axis_are_ambiguous",
    ),
    _mutant(
        "the subscript of a call renames nothing", "language/calls.py",
        "    letters = _read_renaming(layer, call, loops)\n", "    letters: dict[str, str] = {}\n",
        "calls.py::test_a_renamed_call_works_on_its_own_index",
    ),
    _mutant(
        "a carried index may clash", "language/calls.py",
        "    _check_carried(layer, call, actuals, bound, output)\n", "",
        "calls.py::test_what_is_carried_along_must_not_clash",
    ),
    _mutant(
        "a size in a body is that of its own letter", "interpreters/reference.py",
        "self.sizes | sizes, {})", "self.sizes, {})",
        "calls.py::test_a_size_in_a_body_is_that_of_the_actual",
    ),
    _mutant(
        "the turns of a call lie in the order of its subscript", "language/calls.py",
        "turning.index(i) if i in turning else", "0 if i in turning else",
        "blocks.py::test_every_turn_has_its_own_weights[crossed in one call-notation]",
    ),
    _mutant(
        "weights that differ by feature are dropped by key", "program/attending.py",
        "if power == 1 and all(other.letters <= weights.letters for other in dropped.powers):", "if power == 1:",
        "spellings.py::test_dropout_around_a_sink_drops_keys[features]",
    ),
    _mutant(
        "a sum of sizes is a factor without parentheses", "interpreters/torch/fragments.py",
        'if " + " in size and len(several) > 1 else size', "if False else size",
        "emitted.py::test_a_size_that_is_a_sum_is_a_factor",
    ),
    _mutant(
        "a tensor with the name of the output has its letters", "interpreters/torch/emit.py",
        "all(x == y or len(x) > 1 for x, y in pairs)", "True",
        "emitted.py::test_an_output_has_the_letters_of_its_head[fast]",
    ),
    _mutant(
        "a product of sizes is a number in the file", "interpreters/torch/fragments.py",
        "case Name() if isinstance(self.legend.values.get(size.name), int):", "case Name() if False:",
        "emitted.py::test_a_size_that_is_a_product_follows_the_config[fast]",
    ),
    _mutant(
        "what a turn binds before its layers hides what they give", "interpreters/torch/classes.py",
        "*_list_names(body[start + 1 : first])[0], *_list_names(body[end:])[0]]",
        "*_list_names(body[start + 1 : first], body[end:])[0]]",
        "emitted.py::test_the_forward_of_a_block_is_a_turn_of_the_loop[before]",
    ),
    _mutant(
        "a block reads weights of the model as its own", "interpreters/torch/classes.py",
        'any(line.startswith(" ") or _FOREIGN.search(line) for line in lines)',
        'any(line.startswith(" ") for line in lines)',
        "emitted.py::test_the_forward_of_a_block_is_a_turn_of_the_loop[outside]",
    ),
    _mutant(
        "which of two loops is longer is settled when a file is written", "interpreters/torch/classes.py",
        "if (count := self.write_counts(some)) != self.write_counts(self.list_loops(depth)):",
        'if (count := self.write_counts(some)) == "":',
        "encoders.py::test_the_config_of_an_emitted_t5_says_how_often_each_loop_turns[2-3-notation]",
    ),
    _mutant(
        "every instance has the first one's weights", "language/calls.py",
        "name = e.name if number == 1 else", "name = e.name if number else",
        "calls.py::test_anonymous_instances_are_numbered_in_text_order",
    ),
    # --------------------------------------------------------------------------------------------------------------- slots (R4)
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
        "a group is read column-major", "interpreters/reference.py",
        "for member in e.members:", "for member in reversed(e.members):",
        "reference.py::test_a_group_on_the_right_splits_row_major",
    ),
    _mutant(
        "before the start of time stands the first position", "interpreters/reference.py",
        "if past.array.any() else selected", "if False else selected",
        "reference.py::test_before_the_start_of_time_everything_is_zero",
    ),
    _mutant(
        "a slot may leave its axis", "interpreters/reference.py",
        "            self.check_inside(outside, live, e, axis, size)\n", "",
        "reference.py::test_a_slot_that_leaves_its_axis_is_an_error",
    ),
    _mutant(
        "a recurrence may read its own position", "language/body.py",
        "            return False\n        steps = [", "            return True\n        steps = [",
        "refused.py::test_a_slip_is_refused_by_its_rule[defined by itself]",
    ),
    _mutant(
        "what is defined by a later position is defined by its own", "language/body.py",
        "which need not be an earlier position\" if computed else", "which need not be an earlier position\" if False else",
        "errors.py::test_a_position_that_is_not_before_is_named",
    ),
    _mutant(
        "a mask that the scores lack is not told beside the leak", "language/check.py",
        "facts=(*finding.facts, *unread)", "facts=(*finding.facts,)",
        "errors.py::test_a_mask_that_the_scores_lack_is_told_beside_the_leak",
    ),
    _mutant(
        "a name of one letter is a word of the language", "language/suggestions.py",
        """if len(name.rstrip("'")) > 1 else ()""", "if True else ()",
        "errors.py::test_a_name_of_one_letter_is_never_a_word_of_the_language[M]",
    ),
    _mutant(
        "letters of a comment look like those of the text", "language/suggestions.py",
        'code = re.sub(r"[#@][^\\n]*", lambda remark: " " * len(remark[0]), spec.span.source.text)',
        "code = spec.span.source.text",
        "errors.py::test_letters_that_look_alike_are_shown_where_they_stand",
    ),
    # ------------------------------------------------------------------------------------------- equations, weights, primitives
    _mutant(
        "`<-` reads the new value", "interpreters/reference.py",
        'if equation.relation != "=" or not isinstance(equation.left, Tensor):', "if not isinstance(equation.left, Tensor):",
        "reference.py::test_rebinding_at_an_earlier_position_reads_the_old_value",
    ),
    _mutant(
        "a tie is ignored", "interpreters/reference.py",
        "if weight.default is not None and not (", "if weight.optional and not (",
        "reference.py::test_a_tie_is_the_other_weight",
    ),
    _mutant(
        "after a loop its letter stands still", "interpreters/reference.py",
        "                    self.fixed.pop(statement.index.letter, None)\n", "",
        "reference.py::test_after_a_loop_its_letter_is_an_index_again",
    ),
    _mutant(
        "top takes the higher index of equals", "interpreters/reference.py",
        'np.argsort(np.argsort(-flat, kind="stable"), kind="stable")',
        'np.argsort(np.flip(np.argsort(flat, kind="stable"), -1), kind="stable")',
        "reference.py::test_top_takes_the_lower_index_of_equals",
    ),
    _mutant(
        "softmax over nothing is no number", "interpreters/reference.py",
        "np.where(total == 0, 0, powers / np.where(total == 0, 1, total))", "powers / total",
        "reference.py::test_softmax_over_nothing_is_zero",
    ),
    _mutant(
        "where reads the branch it does not take", "interpreters/reference.py",
        "both(live, condition) if live else condition)", "live)",
        "reference.py::test_where_reads_only_the_branch_it_takes",
    ),
    # ------------------------------------------------------------------------------------------------------ causality (R6, R10)
    _mutant(
        "one position later is not later", "program/causality.py",
        "later = Inequality(read.position - here, strict=True)",
        "later = Inequality(read.position - here - Linear.number(1), strict=True)",
        "causality.py::test_what_reads_the_future_is_refused[a mask one too far]",
    ),
    _mutant(
        "an open size is the one that is tried", "program/inequalities.py",
        "(value := self.value(atom.name)) is not None:",
        "(value := 5 if self.value(atom.name) is None else self.value(atom.name)) is not None:",
        "causality.py::test_a_rare_leak_is_refused[by a size]",
    ),
    _mutant(
        "infinity is masked", "program/positions.py",
        "either(both(*(term.alive for term in terms)), *(term.high for term in terms)),",
        "both(*(term.alive for term in terms)),",
        "causality.py::test_what_reads_the_future_is_refused[minus infinity plus infinity]",
    ),
    _mutant(
        "a scalar is never infinite", "program/positions.py",
        "high=ALWAYS if high else NEVER", "high=NEVER",
        "causality.py::test_an_infinity_is_of_one_sign",
    ),
    _mutant(
        "softmax is masked by zero too", "program/positions.py",
        "either(argument.alive, inner.high), low=inner.high,", "either(argument.nonzero, inner.high), low=inner.high,",
        "causality.py::test_a_leak_is_refused_wherever_it_is[a softmax of zeros over another index]",
    ),
    _mutant(
        "zero times infinity is zero", "program/positions.py",
        "either(both(*(support.nonzero for support in supports)), wild)", "both(*(support.nonzero for support in supports))",
        "causality.py::test_what_reads_the_future_is_refused[zero times minus infinity]",
    ),
    _mutant(
        "a maximum with what is not a number is one", "program/positions.py",
        "either(both(first.low, second.low), undefined),", "both(first.low, second.low),",
        "undefined.py::test_a_leak_through_what_is_undefined_is_refused[a maximum of infinity less infinity]",
    ),
    _mutant(
        "infinity over infinity is a number", "program/positions.py",
        "bottom.undefined, both(top.wild, bottom.wild))", "bottom.undefined)",
        "undefined.py::test_a_leak_through_what_is_undefined_is_refused[infinity over infinity, compared]",
    ),
    _mutant(
        "what is not a number compares like one", "program/positions.py",
        "return cases if cases in (ALWAYS, UNDECIDED) else either(", "return cases if True else either(",
        "undefined.py::test_a_leak_through_what_is_undefined_is_refused[a root of a distance, compared]",
    ),
    _mutant(
        "a root has a value everywhere", "program/positions.py",
        "undefined = self.negative(arguments[0]) if row.of_positive else NEVER", "undefined = NEVER",
        "undefined.py::test_a_leak_through_what_is_undefined_is_refused[a root of a distance]",
    ),
    _mutant(
        "a denominator is not read", "program/positions.py",
        "merged(top.where(nonzero), bottom.where(nonzero))", "top.where(nonzero)",
        "causality.py::test_the_next_position_is_refused_wherever_it_is_read[in a denominator]",
    ),
    _mutant(
        "an exponent is not read", "program/positions.py",
        "reads, wild = merged(below.reads, above.reads), either", "reads, wild = below.reads, either",
        "causality.py::test_the_next_position_is_refused_wherever_it_is_read[in an exponent]",
    ),
    _mutant(
        "what a layer is given is read at its own position", "program/positions.py",
        "self.analysis.needs(supports[k].reads, self.time, argument.span)", "pass",
        "causality.py::test_the_next_position_is_refused_wherever_it_is_read[in what a layer is given]",
    ),
    _mutant(
        "what is not a number beside infinity is infinite", "program/positions.py",
        "either(both(first.under, second.under), undefined)", "both(first.under, second.under)",
        "undefined.py::test_a_leak_through_what_is_undefined_is_refused[a minimum over what is not a number beside infinity]",
    ),
    _mutant(
        "data do not cancel", "program/positions.py",
        "case op.Map(\"+\", terms) if self.are_apart(terms):", "case op.Map(\"+\", terms):",
        "undefined.py::test_a_leak_through_what_is_undefined_is_refused[data less themselves]",
    ),
    _mutant(
        "a sum of indices alone is positive", "program/inequalities.py",
        "return known and any(sure) and", "return known and",
        "undefined.py::test_a_leak_through_what_is_undefined_is_refused[a root of the first position, compared]",
    ),
    _mutant(
        "a sum of an index and a number is not positive", "program/inequalities.py",
        "self.natural(atom) and (power > 0", "atom.kind == \"size\" and (power > 0",
        "causality.py::test_what_is_causal_is_accepted[over a root of what is one at least]",
    ),
    _mutant(
        "powers are positive", "program/inequalities.py",
        'if atom.kind == "function" and atom.name == "^" and self.positive(atom.arguments[0]):',
        'if atom.kind == "function" and atom.name == "^":',
        "undefined.py::test_a_leak_through_what_is_undefined_is_refused[one over a distance, compared]",
    ),
    _mutant(
        "twice infinity is more", "program/arithmetic.py",
        "if len(infinite) != 1 or len(infinite[0][0]) > 1:", "if True:",
        "undefined.py::test_a_leak_through_what_is_undefined_is_refused[twice infinity, compared]",
    ),
    _mutant(
        "a group that an inner layer reads is not asked for", "language/body.py",
        "if group := _find_group(inner, names.get(axis_of(letter), letter), layers):", "if group := None:",
        "calls.py::test_a_layer_that_reads_a_group_over_its_axis_is_not_called_over_another[in a layer between]",
    ),
    _mutant(
        "a formula takes each branch that scalars choose from", "interpreters/count/symbols.py",
        "return replace(site, cases=frozenset(turning)) if exists else None", "return replace(site, cases=frozenset(turning))",
        "count.py::test_a_formula_is_that_of_the_branch_that_scalars_choose[0-0]",
    ),
    _mutant(
        "what a mask computes is of the attention", "program/attending.py",
        "*(walk(mask) if mask is not None else ())}", "*()}",
        "interpreters.py::test_flops_of_each_form_alone_are_those_that_torch_counts[a mask that data decide, beside a sink]",
    ),
    _mutant(
        "what a kernel of attention computes is an einsum", "interpreters/count/rules.py",
        "return not linear and contraction.value not in self.derived.attended()", "return not linear",
        "interpreters.py::test_over_one_number_nothing_is_summed[keys changed by <--D]",
    ),
    _mutant(
        "a probability reads nothing", "program/positions.py",
        "merged(argument.where(matters), *(other.reads for other in supports[1:]))", "argument.where(matters)",
        "causality.py::test_the_future_does_not_decide_how_likely_a_number_is_dropped",
    ),
    _mutant(
        "the probability of a layer that is called may be any", "language/body.py",
        "for call, inner in called_layers(layer, layers):\n        own =", "for call, inner in []:\n        own =",
        "binding.py::test_what_drops_has_one_probability[data in an argument]",
    ),
    _mutant(
        "what top takes may differ", "language/body.py",
        "if named or tensor or (isinstance(part, Index) and part.letter not in loops):", "if named:",
        "binding.py::test_top_takes_as_many_everywhere[x]", "binding.py::test_top_takes_as_many_everywhere[n_x]",
    ),
    _mutant(
        "a number is right in each turn if it is in the first", "language/body.py",
        "for turn in itertools.product(*turns)]", "for turn in [*itertools.product(*turns)][:1]]",
        "binding.py::test_what_drops_has_one_probability[one turn]",
    ),
    _mutant(
        "sums intersect", "program/positions.py",
        "either(*(term.nonzero for term in terms)),", "both(*(term.nonzero for term in terms)),",
        "causality.py::test_what_reads_the_future_is_refused[a sum of masks]",
        "conventions.py::test_experts_compute_where_their_weight_is_not_zero[(Pick(r_bsx) + t_bsx) g_bsxf O_xfd-5]",
    ),
    _mutant(
        "a condition tells nothing", "program/positions.py",
        "merged(joined.reads, self.support(condition).reads)", "joined.reads",
        "causality.py::test_what_reads_the_future_is_refused[a condition on the future]",
    ),
    _mutant(
        "how many are to come is nothing", "program/positions.py",
        "inner = replace(argument, reads=(*argument.where(matter), *count)).at(some)",
        "inner = replace(argument, reads=argument.where(matter)).at(some)",
        "causality.py::test_how_many_are_to_come_is_the_future_too[a sum of positions]",
    ),
    _mutant(
        "a loop is followed once", "program/positions.py",
        "if all(self.includes(entering[c], after[c].support, gathered[c].reads, unknown) for c in before):", "if True:",
        "causality.py::test_a_leak_is_refused_wherever_it_is[a later turn of a loop]",
    ),
    _mutant(
        "some number of an index is always the same", "program/positions.py",
        "return support.at({**at, **self.others(support.letters())})", "return support.at(at)",
        "causality.py::test_a_leak_is_refused_wherever_it_is[some number at two positions]",
    ),
    _mutant(
        "a softmax may see nothing", "program/positions.py",
        "                self.analysis.sees(argument.low, own[0], times, value.span)\n", "                pass\n",
        "causality.py::test_what_reads_the_future_is_refused[nothing to see]",
    ),
    _mutant(
        "too many cases hold never", "program/inequalities.py",
        "else frozenset((frozenset.intersection(*cases),))", "else NEVER",
        "causality.py::test_a_leak_is_refused_wherever_it_is[one of very many cases]",
    ),
    _mutant(
        "scores may be transposed", "language/times.py",
        "                if self.is_computed(x.letter):\n", "                if False:\n",
        "causality.py::test_what_reads_the_future_is_refused[transposed]",
    ),
    _mutant(
        "the number of rows is a number", "language/times.py",
        "elif e.name in self.batches:", "elif False:",
        "causality.py::test_a_row_means_what_it_means_alone",
    ),
    _mutant(
        "what is made of the length is a number", "language/sizes.py",
        "for name in self.formulas if any(", "for name in () if any(",
        "causality.py::test_what_is_made_of_a_length_is_refused_like_the_length[S-E504]",
        "causality.py::test_what_is_made_of_a_length_is_refused_like_the_length[B-E506]",
    ),
    _mutant(
        "a claim without positions is a claim", "language/times.py",
        "if time not in slot_letters(model.output):", "if False:",
        "causality.py::test_a_claim_about_no_position_is_refused",
    ),
    _mutant(
        "a size that is never whole is asked for once it is bound", "language/sizes.py",
        "if constant * digits % math.gcd(", "if False and math.gcd(",
        "binding.py::test_a_size_that_cannot_come_out_whole_is_refused_where_it_is_declared[2 D + 1 / 2]",
    ),
    _mutant(
        "the first letters of all inputs are rows", "language/times.py",
        "return frozenset(letter for letters in formals if time in letters for letter in letters[: letters.index(time)])",
        "return frozenset(letter for letters in formals for letter in letters if letter != time)",
        "causality.py::test_verdicts_do_not_depend_on_the_order_of_inputs",
    ),
    # -------------------------------------------------------------------------------------------------------------------- sizes
    _mutant(
        "a size may pass its bound", "language/sizes.py",
        "and size > bound:", "and False:",
        "binding.py::test_a_shape_stays_within_the_bound",
    ),
    _mutant(
        "an axis is read by any index", "language/body.py",
        "if self.legend.are_apart(slot.letter, own.letter) and not", "if False and not",
        "refused.py::test_a_slip_is_refused_by_its_rule[a slot over another axis]",
    ),
    _mutant(
        "numbers are not compared once they are bound", "objects.py",
        "(binding.find_sizes(legend), legend.origins) if legend else (None, None)", "(None, None)",
        "binding.py::test_groups_are_compared_again_as_numbers",
    ),
    _mutant(
        "inputs need not agree", "language/binding.py",
        "elif bound.length(letter) != length:", "elif False:",
        "binding.py::test_inputs_agree_on_an_open_size",
    ),
    # ------------------------------------------------------------------------------------------------------------------ reading
    _mutant(
        "a minus negates what mod divides", "language/parser.py",
        "dividend = self.product(factors, start)\n",
        "dividend, negative = self.product(_negate(factors) if negative else factors, start), False\n",
        "precedence.py::test_a_formula_means_what_it_means_to_python[0]",
    ),
    _mutant(
        "a chain compares its first number again", "language/parser.py",
        "            left = right\n", "",
        "reference.py::test_conditions",
    ),
    _mutant(
        "a sum takes one factor", "language/parser.py",
        '        if name.text == "sum":\n            start', "        if False:\n            start",
        "reference.py::test_sum_takes_the_rest_of_the_product",
    ),
    _mutant(
        "a softmax may be given what it cannot feel", "language/body.py",
        "[*self.check_renamings(calls), *find_unfelt(elaborated.right, scope, self.line)]",
        "[*self.check_renamings(calls)]",
        "refused.py::test_a_slip_is_refused_by_its_rule[a score without its prime]",
    ),
    # --------------------------------------------------------------------------------------- canonical values and fused kernels
    _mutant(
        "a name is opened that two expressions read", "program/rewrite.py",
        '(self.reads[value] == 1 and self.is_computed(value))', 'self.is_computed(value)',
        "spellings.py::test_what_is_not_fused_says_why[scores that are read twice]",
    ),
    _mutant(
        "a sink is a score beside twice the others", "program/attending.py",
        "letter == over and argument is scores and term.number == 1", "letter == over and argument is scores",
        "spellings.py::test_a_sink_is_a_score_beside_those_of_the_softmax[twice]",
    ),
    _mutant(
        "a sink is a score beside others", "program/attending.py",
        "letter == over and argument is scores and term.number == 1", "letter == over and term.number == 1",
        "spellings.py::test_a_sink_is_a_score_beside_those_of_the_softmax[other scores]",
    ),
    _mutant(
        "a norm forgets who else reads its names", "program/matching.py",
        ' and scope.covers(value, Value(norm, value.axes))', '',
        "spellings.py::test_a_name_that_a_norm_opens_is_computed_where_it_is_read",
    ),
    _mutant(
        "a condition is turned round, its branches are not", "program/fusing.py",
        "condition, then, otherwise = opposite, otherwise, then", "condition = opposite",
        "spellings.py::test_spellings_of_one_thing_are_its_value[chosen experts]",
    ),
    _mutant(
        "what is computed twice is kept twice", "interpreters/count/activations.py",
        "self.meanings.meaning(value))", "value)",
        "spellings.py::test_a_value_that_is_written_twice_is_kept_once",
    ),
    _mutant(
        "a scalar is a factor of one whatever it is", "program/fusing.py",
        "return legend.number(Name(name)) == 1", "return True",
        "torch.py::test_values_are_the_references[llama_yarn-fast]",
    ),
    _mutant(
        "all values of a name are one version", "program/lowering.py",
        'return name + (f"_{number}" if number > 1 else ""), self.depth', "return name, self.depth",
        "decode.py::test_any_text[two loops change one tensor, and a third is in a loop-notation]",
    ),
    _mutant(
        "a value moves past a change of what it reads", "program/rewrite.py",
        'return value in self.fixed or self.standing.get(self.names[value]) is value', 'return True',
        "canonical.py::test_what_is_changed_is_another_value[the query after the scores-fast]",
    ),
    _mutant(
        "below is at most", "program/terms.py",
        'Fraction(ceil(constant) - 1 if strict else floor(constant))',
        'Fraction(ceil(constant) if strict else floor(constant))',
        "canonical.py::test_a_causal_attention_is_one_kernel[below the next]",
    ),
    _mutant(
        "a mask is causal whatever it is where it is open", "program/terms.py",
        'return not self.expand_sums(zero) and ', 'return ',
        "canonical.py::test_a_biased_attention_is_one_kernel[in the mask]",
    ),
    _mutant(
        "a mask that holds nowhere for certain has something", "program/softmax.py",
        "if not masks:", "if True:",
        "softmax.py::test_a_softmax_over_nothing_is_zero[memories that come later-fast]",
    ),
    _mutant(
        "data hide nothing of what a mask leaves", "program/softmax.py",
        '"data" in choice and "infinite" in among', "False",
        "interpreters.py::test_each_form_alone[distinct-a mask that data decide]",
    ),
    _mutant(
        "a logarithm of a sum of nothing has a gradient", "language/primitives.py",
        'weighs=True, keeps="both"', 'keeps="both"',
        "softmax.py::test_a_softmax_over_nothing_is_zero[the logarithm of a sum of nothing-notation]",
    ),
    _mutant(
        "data hide nothing of what a logarithm of sums is over", "program/softmax.py",
        "row_of(name, True).weighs", 'name == "Sm"',
        "softmax.py::test_a_softmax_over_nothing_is_zero[positions that data hide from a sum-notation]",
    ),
    _mutant(
        "what a layer is given hides nothing", "program/softmax.py",
        "                add(line.value, argument)\n", "                add(line.value)\n",
        "interpreters.py::test_each_form_alone[distinct-a mask of a layer that data decide]",
    ),
    _mutant(
        "what a turn leaves hides nothing", "program/softmax.py",
        "within, *carried.sources)\n        add(carried.after, *carried.sources)",
        "within, *carried.sources[:1])\n        add(carried.after, *carried.sources[:1])",
        "interpreters.py::test_each_form_alone[distinct-a mask that data decide in a turn]",
    ),
    _mutant(
        "a logarithm of zero hides nothing", "program/softmax.py",
        'row.at_zero == -math.inf and "data" in inherited', "False",
        "interpreters.py::test_each_form_alone[distinct-keys of which data choose by a logarithm]",
    ),
    _mutant(
        "every window is causal only", "program/terms.py",
        'if any(term.number > 0 and self.infinite(term) for term in value):', 'if len(value) > 2:',
        "torch.py::test_values_are_the_references[mistral-fast]",
    ),
    _mutant(
        "any comparison of s' is a causal mask", "program/terms.py",
        ' and self.facts(condition, holds) == facts', '',
        "lowering.py::test_a_mask_that_looks_ahead_is_not_causal",
    ),
    _mutant(
        "layers read documents that have changed since", "program/fusing.py",
        "if line.name not in changed[name]}", "}",
        "flex.py::test_documents_that_change_are_read_where_the_mask_is_written[later]",
    ),
    _mutant(
        "a turn that is computed again draws other numbers", "interpreters/torch/classes.py",
        "use_reentrant=False)", "use_reentrant=False, preserve_rng_state=False)",
        "recompute.py::test_values_and_gradients_stay[gpt2]",
    ),
    _mutant(
        "turns keep all that they compute", "interpreters/torch/classes.py",
        'use_reentrant=False)" if recompute else', 'use_reentrant=False)" if False else',
        "recompute.py::test_a_block_more_keeps_its_input_alone[llama]",
    ),
    _mutant(
        "a head of queries is another in FlexAttention", "interpreters/torch/flex.py",
        'f"head % {self.context.size(letter)}"', 'f"head // {self.context.size(letter)}"',
        "flex.py::test_masks_and_scores_are_functions_of_a_pair[ALiBi]",
    ),
    _mutant(
        "a key is read at the query", "interpreters/torch/flex.py",
        'kernel.over: "key"}', 'kernel.over: "query"}',
        "flex.py::test_masks_and_scores_are_functions_of_a_pair[a bias that is computed whole]",
    ),
    _mutant(
        "a condition that must fail holds", "interpreters/torch/flex.py",
        "[(condition, not hidden), *pairs]", "[(condition, True), *pairs]",
        "flex.py::test_a_hidden_pair_is_left_out",
    ),
    _mutant(
        "blocks of one row serve all", "interpreters/torch/flex.py",
        'if axes & {*letters} else "None"', 'if False else "None"',
        "flex.py::test_masks_and_scores_are_functions_of_a_pair[documents]",
    ),
    _mutant(
        "a sink weighs in the sum as a key does not", "interpreters/torch/flex.py",
        "torch.sigmoid(aux.lse - sink)", "torch.sigmoid(aux.lse)",
        "flex.py::test_a_shipped_model[gpt_oss]",
    ),
    _mutant(
        "a cap is forgotten", "interpreters/torch/flex.py",
        'Fragment("score") if kernel.cap is None', 'Fragment("score") if True',
        "flex.py::test_a_shipped_model[gemma2]",
    ),
    _mutant(
        "masks of other calls are moved as one", "program/fusing.py",
        "len({values.meaning(other) for other in some}) > 1", "False",
        "flex.py::test_masks_that_differ_by_call_are_given",
    ),
    _mutant(
        "whole numbers are divided in single precision", "interpreters/torch/flex.py",
        "if value not in self.exact or code.plain", "if True",
        "flex.py::test_masks_and_scores_are_functions_of_a_pair[a bias without a mask]",
    ),
    _mutant(
        "the scale is forgotten", "interpreters/torch/fast.py",
        'return [f"scale={self.code(kernel.scale).text}"] if kernel.scale is not None else []', 'return []',
        "lowering.py::test_attention_however_it_is_written[another scale]",
    ),
    _mutant(
        "a tensor is the scale of an attention", "program/attending.py",
        'if not (alike and spell(scale).plain):', 'if not alike:',
        "forms.py::test_a_form_is_computed_whole_and_in_parts[a weight of each turn in a call of one instance-apart-fast]",
    ),
    _mutant(
        "maps are merged across a change of their input", "program/fusing.py",
        'return meaning, tuple(map(axis_of, kernel.columns[0]))', 'return "", tuple(map(axis_of, kernel.columns[0]))',
        "lowering.py::test_a_map_after_a_change_is_another",
    ),
    # ------------------------------------------------------------------------------------------------------ the emitted program
    _mutant(
        "the letter of a loop is an axis of what a call is given", "language/specialise.py",
        "zip(e.arguments, (bound | self.still for bound in binding.bound), strict=True)",
        "zip(e.arguments, binding.bound, strict=True)",
        "forms.py::test_a_call_is_computed_and_counted_once[a table of each turn, and the first of all, in a call-notation]",
    ),
    _mutant(
        "a tensor has the axes of its first definition alone", "language/specialise.py",
        "        while before != self.carried:\n", "        if before != self.carried:\n",
        "forms.py::test_a_form_is_computed_whole_and_in_parts[what is made of a tensor that changes later-apart-notation]",
    ),
    _mutant(
        "a group is split the other way", "interpreters/torch/emit.py",
        "map(self.context.size, after))", "map(self.context.size, after[::-1]))",
        "torch.py::test_values_are_the_references[llama_interleaved-notation]",
    ),
    _mutant(
        "what is subtracted falls apart", "interpreters/torch/fragments.py",
        '{align(self.cast(code, kind), dims, PRODUCT)}"\n        return Fragment(text, dims, kind, SUM)',
        '{align(self.cast(code, kind), dims, LOOSE)}"\n        return Fragment(text, dims, kind, SUM)',
        "lowering.py::test_one_equation[z_bsd - (o_bsd - z_bsd)]",
    ),
    _mutant(
        "a rank has the formulas of the whole model", "interpreters/torch/fragments.py",
        'return text if all(parts) and self.sharding is None else ""', 'return text if all(parts) else ""',
        "emitted.py::test_no_size_stands_in_the_code_of_another_model",
    ),
    _mutant(
        "a denominator is summed over", "interpreters/torch/emit.py",
        " and not letters & set(below.axes)", "",
        "primitives.py::test_a_denominator_is_summed_with_its_product[notation]",
    ),
    _mutant(
        "softmax runs over the first of its axes", "language/primitives.py",
        'together="softmax({}, {})"', 'together=""',
        "lowering.py::test_one_equation[Sm_{sd} z_bsd]",
    ),
    _mutant(
        "before the start of time nothing is zeroed", "interpreters/torch/fragments.py",
        '    if condition is None:\n        return code\n', '    if True:\n        return code\n',
        "torch.py::test_values_are_the_references[mamba2-notation]",
    ),
    _mutant(
        "gradients feel the branch that is not taken", "interpreters/torch/fragments.py",
        'if code.kind != "tensor" or all(guard.code.plain for guard in self.guards):', "if True:",
        "slots.py::test_gradients_do_not_feel_a_branch_that_is_not_taken[a root-fast]",
    ),
    _mutant(
        "a recurrence is one step late", "interpreters/torch/emit.py",
        "torch.stack({steps}[{recur.back}:], {axis})", "torch.stack({steps}[:-{recur.back}], {axis})",
        "torch.py::test_values_are_the_references[mamba2-notation]",
    ),
    _mutant(
        "a tie is forgotten", "language/weights.py",
        'if w.kind != "instance" and (w.default is None or w.optional)]', 'if w.kind != "instance"]',
        "torch.py::test_gradients_of_both_plans_are_equal[llama_tied]",
    ),
    _mutant(
        "a least is not decided by minus infinity", "program/positions.py",
        "0: argument.nonzero, math.inf: argument.under}", "0: argument.nonzero, math.inf: argument.alive}",
        "causality.py::test_what_reads_the_future_is_refused[min does not skip minus infinity]",
        "causality.py::test_what_is_causal_is_accepted[min skips infinity]",
    ),
    _mutant(
        "what is changed under other letters has those", "program/lowering.py",
        "        labels = self.names[line.name].labels\n", "        labels = line.labels\n",
        "interpreters.py::test_a_loop_changes_an_axis_under_other_letters[(hi)-e-fast]",
    ),
    _mutant(
        "the logarithm of a sum of nothing on all ranks has a gradient", "program/collectives.py",
        "                if not e.weighs:\n", "                if False:\n",
        "sharding.py::test_a_layer_has_the_gradients_of_one_process[a sum of exponentials of what is masked]",
    ),
    _mutant(
        "an input under another name is kept", "program/keeping.py",
        "(self.entered & self.read) - {line.value for line in self.function.inputs}", "self.entered & self.read",
        "interpreters.py::test_each_form_alone[distinct-an input under another name in a turn]",
    ),
    _mutant(
        "what has two names is kept under the last", "program/rewrite.py",
        "return last | first", "return last",
        "interpreters.py::test_each_form_alone[distinct-what an input makes, under another name in a turn]",
    ),
    _mutant(
        "more are taken than there are", "interpreters/torch/source.py",
        "min(k, x.shape[dim])", "k",
        "interpreters.py::test_each_form_alone[one-keys chosen by top]",
    ),
    _mutant(
        "a function of a number is one of tensors", "interpreters/torch/emit.py",
        "    if argument.plain:\n", "    if False:\n",
        "interpreters.py::test_each_form_alone[distinct-number: relu]",
    ),
    _mutant(
        "numbers are as coarse as float32", "interpreters/torch/fragments.py",
        "number = torch.promote_types(dtype, torch.float32)", "number = torch.float32",
        "slots.py::test_whole_numbers_are_computed_with_as_finely_as_all[numbers that change-fast]",
    ),
    _mutant(
        "what is compared alone has the dtype of all numbers", "interpreters/torch/fragments.py",
        "if formal.name not in whole.selecting | whole.either]", "if formal.name not in whole.selecting]",
        "slots.py::test_tokens_that_are_compared_alone_have_any_dtype[notation]",
    ),
    _mutant(
        "two things of a file have one name", "interpreters/torch/source.py",
        "if bound[called] > 1)", "if False)",
        "name_spaces.py::test_two_layers_are_two_functions", "name_spaces.py::test_a_scalar_may_have_any_name[t]",
    ),
    _mutant(
        "names of Python are free", "interpreters/torch/source.py",
        "keyword.iskeyword(called) or hasattr(builtins, called)", "False",
        "name_spaces.py::test_a_scalar_may_have_any_name[range]",
    ),
    _mutant(
        "pairs are of more experts than there are", "interpreters/torch/fast.py",
        "min(count, p_rx.shape[1])", "count",
        f"forms.py::{_PARTS}[the largest of fewer experts-apart-fast]",
    ),
    _mutant(
        "a weight that is read in part is joined with others", "program/fusing.py",
        "reads[weight] == 1 and not is_part(value, scope.values.legend)", "reads[weight] == 1",
        "fusing.py::test_a_weight_that_is_read_in_part_is_stored_whole",
    ),
    _mutant(
        "a weight that is read in part lies as that part", "interpreters/torch/fast.py",
        "read[find_weight(x)] == 1 and not is_part(x, legend)", "read[find_weight(x)] == 1",
        "fusing.py::test_a_weight_that_is_read_in_part_is_stored_whole",
    ),
    _mutant(
        "a turn has all layers that a choice in a choice names", "language/weights.py",
        "yield from _list_existing(child, legend, turns)", "yield from _list_existing(child, legend, {})",
        "forms.py::test_a_module_has_the_weights_of_the_layers_that_turns_call[a choice in the other branch-apart-fast]",
    ),
    _mutant(
        "an axis that a call renames has a length", "language/weights.py",
        "for formal, actual in binding.letters.items()}",
        "for formal, actual in binding.letters.items() if formal == actual or legend.length(actual)}",
        f"forms.py::{_PARTS}[a layer with weights at visible positions-apart-notation]",
    ),
    _mutant(
        "tokens are read as they are alone", "language/slots.py",
        "                return children(e)\n            case Apply():", "                return ()\n            case Apply():",
        "slots.py::test_tokens_are_read_through_arithmetic[arithmetic-fast]",
    ),
    _mutant(
        "what is compared alone is no whole number", "interpreters/torch/module.py",
        "(not expected.either or dtype.is_complex)", "True",
        "slots.py::test_tokens_that_are_compared_alone_have_any_dtype[fast]",
    ),
    _mutant(
        "the source of open sizes has names that nothing defines", "interpreters/torch/source.py",
        "    refuse_unbound(special, legend)\n", "",
        "count_command.py::test_source_of_open_sizes_that_a_formula_reads_says_which[notation]",
    ),
    _mutant(
        "a precision that autocast chooses is that of the weights", "interpreters/torch/generate.py",
        "if torch.is_autocast_enabled(kind) else", "if False else",
        "decode.py::test_a_module_decodes_in_a_precision_that_autocast_chooses[gpt2]",
    ),
    _mutant(
        "an editor counts characters", "editor.py",
        "self.document.position_to_client_units(ServerTextPosition(len(some) - 1, len(some[-1])))",
        "types.Position(len(some) - 1, len(some[-1]))",
        "editor.py::test_what_is_under_the_pointer_is_told_and_found",
    ),
    _mutant(
        "a line of an editor ends in two characters", "editor.py",
        'self.document.source.replace("\\r\\n", "\\n")', "self.document.source",
        "editor.py::test_a_finding_in_a_note_stands_where_it_is",
    ),
    # ------------------------------------------------------------------------------------------------- recurrences by chunks
    _mutant(
        "a state is read by no product of three", "program/chunks.py",
        "isinstance(read.operation, op.Einsum) and read.operation.letters", "False",
        "interpreters.py::test_flops_of_each_form_alone_are_those_that_torch_counts[a state read by a product of three]",
    ),
    _mutant(
        "what reads a state has no other factors", "program/chunks.py",
        "walk(mapped, closed=scope.names)", "(mapped,)",
        "interpreters.py::test_flops_of_each_form_alone_are_those_that_torch_counts[a state read by three and a gate]",
    ),
    _mutant(
        "a state that has a name is read where its map is", "program/chunks.py",
        "if read is value or read not in scope.names else None", "",
        "interpreters.py::test_flops_of_each_form_alone_are_those_that_torch_counts[a state that is mapped on the next line]",
    ),
    _mutant(
        "a state that is read twice runs by chunks", "program/chunks.py",
        "self.scope.reads[state] > 1 or ", "",
        "chunks.py::test_other_recurrences_take_a_step_for_each_position_and_say_why[two sums read it]",
    ),
    _mutant(
        "another part of each key stays", "program/chunks.py",
        "if any(summed & {*side.axes} for side in (value, *scales)):", "if False:",
        "chunks.py::test_other_recurrences_take_a_step_for_each_position_and_say_why[another part of each key stays]",
    ),
    _mutant(
        "two keys are one", "program/chunks.py",
        "if len({key.product for key in keys}) > 1 or ", "if ",
        "chunks.py::test_other_recurrences_take_a_step_for_each_position_and_say_why[two products are added]",
    ),
    _mutant(
        "the state is read at any position", "program/chunks.py",
        " and identity(opened(number)) == identity(opened(before))", "",
        "chunks.py::test_other_recurrences_take_a_step_for_each_position_and_say_why[two positions back]",
    ),
    _mutant(
        "a chunk forgets the one before", "interpreters/torch/fast.py",
        "last[..., :1, :] * state + new", "new",
        "chunks.py::test_a_linear_recurrence_runs_by_chunks[all stays]",
    ),
    _mutant(
        "taps that count backwards are read forwards", "interpreters/torch/fast.py",
        '.unfold({axis}, {size}, 1)" + ".flip(-1)" * backwards', '.unfold({axis}, {size}, 1)"',
        "emitted.py::test_a_convolution_over_earlier_positions_gathers_nothing[s - c-True]",
    ),
    # -------------------------------------------------------------------------------------------------------- layers of experts
    _mutant(
        "pairs go back to other rows", "interpreters/torch/fast.py",
        "torch.argsort(order).unflatten", "order.unflatten",
        "sparse.py::test_only_what_is_chosen_is_computed[chosen]",
    ),
    _mutant(
        "an expert learns from the rows of the next", "interpreters/torch/fast.py",
        "out=slopes[expert])", "out=slopes[expert - 1])",
        "sparse.py::test_however_many_are_chosen[2]",
    ),
    _mutant(
        "a linear map is of all factors beside its matrix", "interpreters/count/inventory.py",
        "if k != self.weight and own & inner]", "if k != self.weight and (own & inner or not self.paired)]",
        "interpreters.py::test_flops_of_each_form_alone_are_those_that_torch_counts"
        "[a factor beside a linear map has an index of its own]",
    ),
    _mutant(
        "the argument of experts learns with the weights of experts", "interpreters/count/inventory.py",
        "    map_ = routing.group(", "    return None\n    map_ = routing.group(",
        "conventions.py::test_a_row_is_multiplied_by_the_matrices_of_its_experts[lines0-z_bsd-fast]",
    ),
    _mutant(
        "a pair has the letters of one of its factors", "interpreters/count/inventory.py",
        "return letters | paired if letters & paired else letters", "return letters",
        "conventions.py::test_a_row_is_multiplied_by_the_matrices_of_its_experts[lines3-z_bsd-fast]",
    ),
    _mutant(
        "experts give a gradient to an input that needs none", "interpreters/torch/fast.py",
        " if ctx.needs_input_grad[0] else None", "",
        "interpreters.py::test_flops_of_each_form_alone_are_those_that_torch_counts[experts of square matrices]",
    ),
    _mutant(
        "a factor of values gets the axis of heads alone", "interpreters/torch/fast.py",
        'else f"({x})[:, None]"', 'else f"{x}[:, None]"',
        f"forms.py::{_PARTS}[values of one key head times a factor, of several query heads-apart-fast]",
    ),
    _mutant(
        "choices of two calls are one", "program/positions.py",
        'name=f"{atom.name}{mark}"', "name=atom.name",
        "conventions.py::test_experts_compute_where_their_weight_is_not_zero"
        "[Pick(r_bsx) g_bsxf O_xfd + Pick(t_bsx) g_bsxf O_xfd-5]",
    ),
    _mutant(
        "letters of a group in another order are the same", "program/operations.py",
        "(len(old) == 1 or [*map(axis_of, old)] == [*map(axis_of, new)])", "(True or axis_of)",
        "interpreters.py::test_what_is_chosen_of_a_group_is_not_chosen_of_its_other_order[ih]",
    ),
    # ---------------------------------------------------------------------------- what decoding keeps, and how it goes on (R10)
    _mutant(
        "a window is kept one position short", "program/keeping.py",
        "return [min((int(value) for bound", "return [min((int(value) - 1 for bound",
        "cache.py::test_positions_are_counted_as_far_as_a_window_reaches",
    ),
    _mutant(
        "numbers that several lines define are a formula", "program/positions.py",
        "if several[line.name] == 1 and", "if",
        "forms.py::test_a_form_is_computed_whole_and_in_parts[attention to numbers of positions, then to more-apart-fast]",
    ),
    _mutant(
        "numbers of inputs are a formula", "program/positions.py",
        "            return value in timeless\n", "            return True\n",
        "forms.py::test_a_form_is_computed_whole_and_in_parts[an input times zero-apart-fast]",
    ),
    _mutant(
        "what is given to a layer is not kept", "program/keeping.py",
        "for name, anchor in body.inputs.items() if anchor in self.reach)", "for name, anchor in list[tuple[str, Anchor]]())",
        "cache.py::test_any_text[a layer without weights keeps what it is given]",
    ),
    _mutant(
        "what a layer gives over s and s' keeps nothing in it", "program/keeping.py",
        "        self.follow(self.model)\n        entries = self.of(self.model)",
        "        entries = self.of(self.model)\n        self.follow(self.model)",
        "cache.py::test_any_text[scores that a layer gives]",
    ),
    _mutant(
        "what turns read by a choice is anywhere", "program/positions.py",
        "gathered[c] if turn >= _MOST_TURNS else after[c].support", "after[c].support",
        "cache.py::test_any_text[positions that a layer chooses for those after it]",
    ),
    _mutant(
        "a tensor that a turn leaves as it is, is another one", "program/positions.py",
        "return None if anchor is None else self.sources.get(anchor, anchor)", "return anchor",
        "cache.py::test_any_text[keys of a layer for those after it]",
    ),
    _mutant(
        "what is not kept lies before its new positions", "interpreters/torch/cache.py",
        "torch.cat([others, new], axis)", "torch.cat([new, others], axis)",
        "forms.py::test_a_form_is_computed_whole_and_in_parts[as far back as the turn-alike-fast]",
    ),
    _mutant(
        "positions are off by one", "interpreters/torch/cache.py",
        "slots = torch.arange(self.total - count, self.total, device=self.device)",
        "slots = torch.arange(self.total - count, self.total, device=self.device) + 1",
        "decode.py::test_step_by_step_is_all_at_once[gpt2-fast]",
    ),
    _mutant(
        "padding is attended to", "interpreters/torch/cache.py",
        "(slots - self.padding[:, None]) % self.total", "(slots - self.padding[:, None]).clamp(min=0)",
        "decode.py::test_padding_does_not_matter[gpt2]",
    ),
    _mutant(
        "rows are looked for on the first axis", "interpreters/torch/decode.py",
        'return f", {position}" * bool(position)', 'return ""',
        "forms.py::test_rows_of_a_form_start_late[heads before rows-alike-notation]",
    ),
    _mutant(
        "new positions see each other", "interpreters/torch/cache.py",
        "self.sees_all = self.padding is None and fresh == 1", "self.sees_all = self.padding is None",
        "decode.py::test_step_by_step_is_all_at_once[gpt2-fast]",
    ),
    _mutant(
        "a position is looked for outside of its ring", "interpreters/torch/cache.py",
        "return (numbers + rows).clamp(min=0) % seen", "return (numbers + rows).clamp(0, seen - 1)",
        "decode.py::test_a_static_cache_of_any_text[a window, and positions before it]",
    ),
    _mutant(
        "a window loses its oldest position", "interpreters/torch/cache.py",
        "        seen = min(self.past, back)\n", "        seen = min(self.past, back - 1)\n",
        "decode.py::test_step_by_step_is_all_at_once[mistral-fast]",
    ),
    _mutant(
        "a recurrence starts anew", "interpreters/torch/cache.py",
        "return [*zeros, *held.unbind(axis)][-len(zeros) :]", "return zeros",
        "decode.py::test_step_by_step_is_all_at_once[linear_attention-fast]",
    ),
    _mutant(
        "a layer sees one tensor farther than another", "program/keeping.py",
        "back=farthest(seen[e.frame]))", "back=e.back)",
        "decode.py::test_any_text[a wide window beside a narrow one-fast]",
    ),
    _mutant(
        "a formula holds at some sizes alone", "program/keeping.py",
        "if lacking.keys() - sure and None not in sure:", "if False:",
        "cache.py::test_what_sizes_decide_has_no_formula",
    ),
    _mutant(
        "a formula holds in some turns alone", "program/keeping.py",
        "around = entry.sites[:-1] if entry.loops and entry.kind == \"visible\" else entry.sites", "around = entry.sites",
        "cache.py::test_the_formula_of_any_text[windows in turn in one layer]",
    ),
    _mutant(
        "what is as far back as the turn says has a formula", "program/keeping.py",
        "for inequality in (Inequality(distance), *case))", "for inequality in case)",
        "cache.py::test_the_formula_of_any_form[as far back as the turn]",
    ),
    _mutant(
        "data beside the number of a turn have a formula", "program/positions.py",
        "return not self.letters(condition).isdisjoint(self.turn) and any(calls)", "return False",
        "cache.py::test_the_formula_of_any_form[a choice by numbers that are data]",
    ),
    _mutant(
        "in letters a tensor that turns change is kept once", "program/positions.py",
        "anchor = self.anchor(replace(state.anchor.line, value=value), self.loops)",
        "anchor = self.anchor(replace(state.anchor.line, value=value), ())",
        "cache.py::test_the_formula_of_any_text[what is changed is kept as it was read]",
    ),
    _mutant(
        "what is shared is counted for each layer", "interpreters/count/rules.py",
        "own = [entry for entry in entries if not entry.source]", "own = [*entries]",
        "decode.py::test_any_text[keys that two layers share are kept once-fast]",
    ),
    _mutant(
        "a tensor is kept in two ways", "program/keeping.py",
        'if (e.layer, e.tensor) in visible and e.kind == "earlier" else e', "if False else e",
        "forms.py::test_a_form_is_computed_whole_and_in_parts[attention before a loop that shifts-apart-fast]",
    ),
    _mutant(
        "any arithmetic in a slot is a step back", "program/lowering.py",
        "isinstance(slot, tree.Sum) and own in slot.terms:", "isinstance(slot, tree.Sum):",
        "forms.py::test_a_form_is_computed_whole_and_in_parts[states that change places, their letter first-apart-fast]",
    ),
    _mutant(
        "what layers are given is shared whatever it is", "program/keeping.py",
        "first.setdefault((entry.source, entry.layer,", "first.setdefault((bool(entry.source), entry.layer,",
        "decode.py::test_any_text[layers in a loop share keys and the last inputs-fast]",
    ),
    _mutant(
        "layers share what they keep", "program/decoding.py",
        'return "{path}" * (not self.is_model) + "".join(', 'return "".join(',
        "decode.py::test_step_by_step_is_all_at_once[llama-notation]",
    ),
    _mutant(
        "what hangs on no input is there before the start of time", "program/decoding.py",
        "return value if is_natural(number) else Value(", "return value if True else Value(",
        "decode.py::test_what_hangs_on_no_input_is_zero_before_the_start_of_time[notation]",
    ),
    _mutant(
        "lines that look back are computed where they are asked for alone", "program/decoding.py",
        "or (value not in named and _looks(value.operation, functions, time))", "",
        "decode.py::test_the_last_outputs_are_those_of_all[mamba2-notation]",
    ),
    _mutant(
        "each turn reads what the first one found", "program/decoding.py",
        "self.stand_in(carried.name, before) if self.count_turns(turns) else self.keeping[before]", "self.keeping[before]",
        "forms.py::test_a_form_is_computed_whole_and_in_parts[as far back as the turn inside, and changed outside-apart-fast]",
    ),
    _mutant(
        "a position before the first is the nearest that is kept", "interpreters/torch/decode.py",
        "None if is_natural(number) else begun", "None",
        "decode.py::test_any_text[the position before each that is seen-notation]",
    ),
    _mutant(
        "a tensor under another name is the same value", "program/lowering.py",
        "if self.renames(equation, value):", "if False:",
        "forms.py::test_a_form_is_computed_whole_and_in_parts[a tensor that two loops read and change-apart-fast]",
    ),
    _mutant(
        "a group of axes that is changed is the tensor that it was", "program/lowering.py",
        "if equation.relation == \"return\" or (grouped and not self.is_changed(equation.left.name)):",
        "if equation.relation == \"return\" or grouped:",
        "interpreters.py::test_each_form_alone[distinct-a loop changes a group of axes and reads it earlier]",
    ),
    _mutant(
        "what a loop leaves is kept where the loop found it", "program/decoding.py",
        "        if not self.count_turns(turns):", "        if last not in self.keeping:",
        "forms.py::test_a_form_is_computed_whole_and_in_parts[two loops in a loop, one reads earlier-apart-fast]",
    ),
    _mutant(
        "a tensor that a loop changes is kept at the path of what it was", "program/decoding.py",
        'self.lying[after] = line, f"{path}.{turns.letter}"', "self.lying[after] = line, path",
        "forms.py::test_a_form_is_computed_whole_and_in_parts[a shift before two loops, of which one shifts-apart-fast]",
    ),
    _mutant(
        "a tensor that no turn keeps is kept over all positions", "interpreters/torch/decode.py",
        'method == "keep" and not e.always', "False",
        "forms.py::test_a_form_is_computed_whole_and_in_parts[a window that is wider in each turn, and loops in it-apart-fast]",
    ),
    _mutant(
        "a static cache places what it does not keep last", "interpreters/torch/cache.py",
        "others.index_copy(axis, (self.newest % count)[None], new)", "self.pad(new, axis, count)",
        "forms.py::test_a_form_is_computed_whole_and_in_parts[a window that is wider in each turn, and loops in it-apart-fast]",
    ),
    _mutant(
        "a weight that is tied to a buffer is trained", "program/rewrite.py",
        "if is_trained(line.value, trained)", "if line.name in trained",
        "interpreters.py::test_flops_of_each_form_alone_are_those_that_torch_counts[a weight that is tied to a buffer]",
    ),
    _mutant(
        "what nothing reads is kept", "program/decoding.py",
        "if kind is not None and line.value.operation != Taken():", "if kind is not None:",
        "interpreters.py::test_each_form_alone[distinct-attention that a loop reads and overwrites]",
    ),
    _mutant(
        "an input is gone once it had another name", "interpreters/torch/decode.py",
        "self.stored |= {value: given[value]} if value in given else {}", "",
        "interpreters.py::test_each_form_alone[distinct-another name of an input without positions]",
    ),
    _mutant(
        "a continuation is judged one position late", "interpreters/torch/generate.py",
        "self._join(whole[:, :-1], source)", "self._join(whole[:, 1:], source)",
        "generate.py::test_log_prob_is_the_chain_rule",
    ),
    _mutant(
        "heads of the last layer of a kind are those of all", "huggingface/documents.py",
        "in kinds.items()] * alike", "in kinds.items()]",
        "huggingface_config.py::test_heads_of_layers_of_one_kind_are_as_many[[12, 15, 6]]",
    ),
    _mutant(
        "each step computes the encoder", "program/keeping.py",
        "if value in kept]", "if False]",
        "encoders.py::test_a_step_computes_nothing_of_the_encoder[fast]",
    ),
    _mutant(
        "another source is taken for the first", "interpreters/torch/generate.py",
        "if cache.source and not all(", "if False and not all(",
        "encoders.py::test_another_source_needs_another_cache",
    ),
    _mutant(
        "a layer keeps what is the same in one of its calls", "program/keeping.py",
        "one and moves and lines.is_same(x)", "lines.is_same(x)",
        "encoders.py::test_a_layer_of_both_kinds_is_the_same_in_steps[fast]",
    ),
    # ----------------------------------------------------------------------------------------------------------------- counting
    _mutant(
        "a tie counts twice", "interpreters/count/inventory.py",
        'if weight.kind != "instance" and (weight.default is None or weight.optional):', 'if weight.kind != "instance":',
        "count.py::test_a_tie_counts_once",
    ),
    _mutant(
        "a matrix of each turn is that of all turns", "program/lowering.py",
        "if all(labels) and self.still.isdisjoint(letters) and", "if all(labels) and",
        "count.py::test_a_matrix_of_each_turn_is_counted_once[W_ld'd-notation]",
    ),
    _mutant(
        "more are counted than there are", "interpreters/count/numbers.py",
        "return min(int(self.value(count)), self.length(letter))", "return int(self.value(count))",
        "forms.py::test_no_more_are_counted_than_there_are[the largest of fewer experts-apart]",
    ),
    _mutant(
        "letters say which of two numbers of turns is more", "interpreters/count/table.py",
        "if len(different) == 1 or all(isinstance(number, int) for number in different):", "if True:",
        "count.py::test_a_part_called_in_a_loop_and_outside_of_it_has_a_row",
    ),
    _mutant(
        "every sequence has a next token", "objects.py",
        'if "S" in sizes and self.spec.layer.time else None', 'if "S" in sizes else None',
        "count.py::test_what_has_no_time_axis_has_no_next_token",
    ),
    _mutant(
        "every expert is active", "interpreters/count/inventory.py",
        "replace(held, chosen=reading.chosen or (), ", "replace(held, chosen=(), ",
        "published.py::test_mixtral",
    ),
    _mutant(
        "a pair of equal positions is not seen", "interpreters/count/rules.py",
        "return width * (2 * length - width + 1)", "return width * (2 * length - width)",
        "conventions.py::test_pairs_are_those_of_an_enumeration",
    ),
    _mutant(
        "a mask is what one of its cases says", "program/needs.py",
        "if all(i in case or facts.refutes(case | {negated(i)}) for case in cases)", "if cases",
        "conventions.py::test_pairs_of_any_mask_are_those_that_it_allows[s' <= s and (s' < 2 or s - C < s')-allowed0]",
    ),
    _mutant(
        "a third is a number of the computer", "program/inequalities.py",
        "Linear.number(Fraction(value) ** power)", "Linear.number(value**power)",
        "conventions.py::test_pairs_of_any_mask_are_those_that_it_allows[s' <= s and floor(s / D) == floor(s' / D)-allowed2]",
    ),
    _mutant(
        "what one head sees all see", "interpreters/count/numbers.py",
        ".any(last, keepdims=True)", ".all(last, keepdims=True)",
        "masks.py::test_flops_are_those_of_the_pairs_that_a_mask_allows[1]",
    ),
    _mutant(
        "a strict comparison is not strict", "program/needs.py",
        "Linear.number(int(strict))", "Linear.number(0)",
        "conventions.py::test_each_layer_has_its_own_window",
    ),
    _mutant(
        "scores are needed where they are masked", "program/needs.py",
        "alive = inner.within(self.support(argument).alive) if deaf else inner", "alive = inner",
        "conventions.py::test_exact_flops_of_gpt2",
    ),
    _mutant(
        "nothing is known of a sum of heads", "program/needs.py",
        "settled(only(cases, self.flows.speaks))", "without_some(only(cases, self.flows.speaks))",
        "conventions.py::test_pairs_of_heads_that_are_summed_are_those_of_the_widest",
    ),
    _mutant(
        "angles may be infinite in a count", "program/positions.py",
        "        if not self.analysis.proves:\n            return NEVER\n", "",
        "conventions.py::test_angles_that_a_power_divides_hide_what_a_mask_hides",
    ),
    _mutant(
        "a call that is never reached is not known", "program/needs.py",
        "        self.reader.support(call)  # a call that is never reached was not followed\n", "",
        "conventions.py::test_a_layer_that_is_never_called_computes_nothing",
    ),
    _mutant(
        "what is cached is not seen", "interpreters/count/rules.py",
        "visible = axis == self.time and letter != axis", "visible = False",
        "conventions.py::test_a_decode_step_is_what_a_longer_text_costs_more",
    ),
    _mutant(
        "each turn finds what was before the first", "interpreters/count/gradients.py",
        "left = last if count is not None else {c: self.join", "left = start if count is not None else {c: self.join",
        "conventions.py::test_a_turn_that_begins_with_an_input_has_fewer_gradients[loops]",
    ),
    _mutant(
        "both branches of a choice by the turn have gradients", "interpreters/count/gradients.py",
        "return None if self.legend is None else (arms[0", "return tuple(arms) if self.legend is not None else (arms[0",
        "conventions.py::test_a_turn_that_begins_with_an_input_has_fewer_gradients[a choice by the turn]",
    ),
    _mutant(
        "every turn is read after the last", "interpreters/count/gradients.py",
        "asked = within if count is not None else {v for", "asked = after | within if count is not None else {v for",
        "conventions.py::test_a_turn_that_begins_with_an_input_has_fewer_gradients[what the next turn overwrites]",
    ),
    _mutant(
        "a layer has the same gradients in each turn", "interpreters/count/gradients.py",
        "called.call(call, turn[:depth])", "called.call(call, tuple((letter, 1) for letter, _ in turn[:depth]))",
        "conventions.py::test_a_turn_that_begins_with_an_input_has_fewer_gradients[a layer in a loop]",
    ),
    _mutant(
        "a sum over one number is a product of matrices", "interpreters/count/rules.py",
        "apart = bool(plan) and self.sums_nothing(pair)", "apart = False",
        "interpreters.py::test_over_one_number_nothing_is_summed[keys changed by <--S]",
    ),
    _mutant(
        "scores are computed where no attention reads them", "interpreters/count/inventory.py",
        "[(need.cases, False), (cases, True)]", "[(need.cases, None)]",
        "interpreters.py::test_flops_of_each_form_alone_are_those_that_torch_counts[attention in a branch of some turns]",
    ),
    _mutant(
        "a linear map is multiplied in any order", "interpreters/count/rules.py",
        'contraction.map_product() if paired or plan == "fast" else contraction', "contraction",
        "conventions.py::test_a_scaled_input_has_a_gradient_where_a_plan_scales_it[fast]",
    ),
    _mutant(
        "every operand has a gradient", "interpreters/count/inventory.py",
        "gradients, paired = (first, second), ", "gradients, paired = (EVERYWHERE, EVERYWHERE), ",
        "conventions.py::test_what_needs_no_gradient_costs_nothing",
    ),
    _mutant(
        "what only chooses costs something backward", "interpreters/count/gradients.py",
        "return called.products.get((factor.product, turn), False) and called", "return called",
        "conventions.py::test_what_no_gradient_reaches_costs_nothing_backward[what only chooses]",
    ),
    _mutant(
        "the first step of a recurrence has a gradient", "interpreters/count/rules.py",
        "yield total((flops, first)) if none else flops", "yield flops",
        "conventions.py::test_what_no_gradient_reaches_costs_nothing_backward[the first step]",
    ),
    _mutant(
        "scores that a mask reads too are computed twice", "program/attending.py",
        " and not self.are_read(argument, masks):", ":",
        "interpreters.py::test_flops_of_each_form_alone_are_those_that_torch_counts[keys chosen by top beside a sink]",
    ),
    _mutant(
        "keys are computed for chosen features alone", "program/experts.py",
        'if over and _by_row(total.factors, start) and choice in', 'if over and choice in',
        "orders.py::test_scores_over_chosen_features_stay_one_product",
    ),
    _mutant(
        "a step of a recurrence is counted once", "interpreters/count/inventory.py",
        "return self.step.letters.union(value.axes)", "return frozenset(value.axes)",
        "count.py::test_flops_are_those_of_the_emitted_module[delta_net-notation-notation]",
    ),
    _mutant(
        "a value that several operations keep is there several times", "interpreters/count/activations.py",
        "key = value.key, what", "key = value.key, what + str(len(self.store.saved))",
        "conventions.py::test_activations_are_those_of_korthikanti",
    ),
    # ---------------------------------------------------------------------------------------------------------------- contracts
    _mutant(
        "a prime has a size of its own", "contracts/reader.py",
        "    letter = axis_of(letter)\n", "",
        "contracts.py::test_verdicts",
    ),
    _mutant(
        "a longer axis is let through", "contracts/comparisons.py",
        'yield f"{target} != {self.formula(size)}"', 'yield f"{target} < {self.formula(size)}"',
        "contracts.py::test_jaxtyping_and_beartype_agree",
    ),
    _mutant(
        "a block binds nothing", "contracts/comparisons.py",
        "f\"{scope['USED']} and not", 'f"False and not',
        "contracts.py::test_a_block_binds_sizes",
    ),
    _mutant(
        "every module is a run of its own", "contracts/watch.py",
        "if not run.depth or run.call not in calls:", "if True:",
        "watch.py::test_one_binding_for_the_whole_model",
    ),
    _mutant(
        "a probe with equal sizes", "contracts/probe.py",
        "    check_distinct(bound_sizes)\n", "",
        "watch.py::test_a_probe_runs_on_sizes_that_differ",
    ),
    # -------------------------------------------------------------------------------------------------- tests of one's own code
    _mutant(
        "sizes of axes may be equal", "testing/prime_sizes.py",
        "if _count_repeats(trial, turns) == repeated:", "if _count_repeats(trial, turns) is not None:",
        "testing.py::test_sizes_are_different_and_keep_the_relations[gpt2]",
    ),
    _mutant(
        "gradients are not compared", "testing/implements.py",
        "list(find_wrong(tested, question, seed))", "list[Slope]()",
        "testing.py::test_gradients_are_compared_one_by_one",
    ),
    _mutant(
        "a right argument of a function departs", "testing/implements.py",
        "trace, [*numbers, *arguments], seen", "trace, numbers, seen",
        "testing.py::test_a_right_argument_of_a_function_is_not_what_departs",
    ),
    _mutant(
        "a mistake is named that does not give the numbers", "testing/explain.py",
        "if measure_error(self.answer, value) <= tolerance:", "if value.size:",
        "testing.py::test_the_message_says_what_agrees_what_departs_and_why",
    ),
    _mutant(
        "numbers that are not finite agree", "testing/implements.py",
        " or not np.isfinite(question.answer).all()", "",
        "testing.py::test_numbers_that_are_not_finite_are_counted",
    ),
    _mutant(
        "causal code sees later positions", "testing/properties.py",
        "lambda seen, moved: seen < moved", "lambda seen, moved: seen > moved",
        "testing.py::test_a_property_names_the_input_that_moved",
    ),
    _mutant(
        "axes without a name are one and the same", "contracts/annotations.py",
        'return len(set(rests)) < 2 and rests.count("...") < 2', "return True",
        "contracts.py::test_several_axes_and_kinds_are_judged_as_jaxtyping_judges",
    ),
    _mutant(
        "tokens have any shape", "contracts/annotations.py",
        'if all(slots):', 'if all(slots) and array.dtype.__name__ in ("Float", "Shaped"):',
        "contracts.py::test_several_axes_and_kinds_are_judged_as_jaxtyping_judges",
    ),
    # --------------------------------------------------------------------------------------------------------------------- lint
    _mutant(
        "a mask may show the future", "notes/judge.py",
        "for n in (0, 1)] == [0, -1]:", "for n in (0, 1)] == [-1, 0]:",
        "lint.py::test_a_mask_shows_the_past",
    ),
    _mutant(
        "letters of one size are two axes to a softmax", "notes/legend.py",
        ' or sizes[0] == sizes[1] != ""', "",
        "lint.py::test_letters_of_one_size_are_one_axis_to_a_softmax[S-s-True]",
    ),
    _mutant(
        "letters are indices without a legend", "notes/letters.py",
        "for letter in slot_letters(x) if not self.has(letter)]", "for letter in () if letter]",
        "lint.py::test_nothing_is_guessed_without_a_legend[an economy]",
    ),
    _mutant(
        "a label is an index beside a legend", "notes/letters.py",
        "return self.complete and bool(letters) and", "return not letters and",
        "lint_reading.py::test_greek_letters_of_a_legend_are_indices",
    ),
    _mutant(
        "a softmax is over any index of its axis", "notes/judge.py",
        "if over.letter in letters and len(twins) == 1 and", "if over.letter not in letters and",
        "lint.py::test_a_slip_is_found_where_it_is[a softmax over the queries]",
    ),
    _mutant(
        "a term may lack an index whose twin it has twice", "notes/judge.py",
        "legend.are_twins(i, letter) and doubled[i] > 1)", "legend.are_twins(i, letter) and doubled[i] > 9)",
        "lint.py::test_a_slip_is_found_where_it_is[a term with another index twice]",
    ),
    _mutant(
        "an index may stand three times, twice on one tensor", "notes/judge.py",
        "any(times == 2 and i in once - bound for", "any(times == 9 and i in once - bound for",
        "lint.py::test_a_slip_is_found_where_it_is[three times, twice on one tensor]",
    ),
    _mutant(
        "a written sum does not bind a diagonal", "notes/judge.py",
        "times == 2 and i in once - bound", "times == 2 and i in once",
        "lint.py::test_what_people_mean_is_no_finding[a sum over a diagonal]",
    ),
    _mutant(
        "a name may lose the indices that it has elsewhere", "notes/judge.py",
        "return bool(uses) and all(", "return not uses and all(",
        "lint.py::test_a_slip_is_found_where_it_is[a sum without the indices that it has elsewhere]",
    ),
    _mutant(
        "a letter that is fixed is on no side", "notes/judge.py",
        "frozenset({*known.fixed, *spoken})", "spoken",
        "lint.py::test_what_people_mean_is_no_finding[a letter that is fixed]",
    ),
    _mutant(
        "a nested sum is over anything", "notes/judge.py",
        "if meant or axis_of(i.letter) in lost]", "if meant]",
        "lint.py::test_a_slip_is_found_where_it_is[a group without the index that it has elsewhere]",
    ),
    _mutant(
        "a function has its label as an index", "notes/letters.py",
        "if all(names) for name in names}", "if not names for name in names}",
        "lint_reading.py::test_what_is_not_said_is_read_and_no_finding[a function with a label]",
    ),
    _mutant(
        "a label of two equations is an index", "notes/letters.py",
        "if len(texts) > 1 and key not in others}", "if len(texts) > 9}",
        "lint_reading.py::test_what_is_not_said_is_read_and_no_finding[a name with a label]",
    ),
    _mutant(
        "a trace is a tensor that lost its indices", "notes/judge.py",
        "if few == 0 and self.may_be_trace(tensor, x, line):", "if False:",
        "lint.py::test_what_people_mean_is_no_finding[a trace by the name of its matrix]",
    ),
    _mutant(
        "a matrix of its own is a trace", "notes/judge.py",
        "are_apart(*letters) and not bare", "are_apart(*letters)",
        "lint.py::test_a_slip_is_found_where_it_is[a matrix without its indices]",
    ),
    _mutant(
        "a trace on the left is a diagonal", "notes/judge.py",
        "left = _drop_doubled(left, find_free(line.right))", "left = _drop_doubled(left, frozenset(slot_letters(left)))",
        "lint_reading.py::test_what_is_not_said_is_read_and_no_finding[a trace on the left]",
    ),
    _mutant(
        "each term of a statement about elements is unsummed", "notes/judge.py",
        "any(map(_is_element,", "all(map(_is_element,",
        "lint_reading.py::test_what_is_not_said_is_read_and_no_finding[a point from some elements]",
    ),
    _mutant(
        "a term may lack an index beside indices above", "notes/judge.py",
        "elif known.covariant and alone and", "elif False and",
        "lint.py::test_a_slip_is_found_where_it_is[a term that lacks an index, beside indices above]",
    ),
    _mutant(
        "differences lack indices beside indices above", "notes/judge.py",
        "elif known.covariant and alone and", "elif known.covariant and",
        "lint_reading.py::test_what_is_not_said_is_read_and_no_finding[a difference in a text with indices above]",
    ),
    _mutant(
        "an index may stand three times beside indices above", "notes/judge.py",
        "if times == 3 and letter in raised", "if times == 9 and letter in raised",
        "lint.py::test_a_slip_is_found_where_it_is[three times, once above]",
    ),
    _mutant(
        "elements are meant beside indices above", "notes/judge.py",
        "_is_statement(left, right) and not covariant and", "_is_statement(left, right) and",
        "lint.py::test_a_slip_is_found_where_it_is[an element beside indices above]",
    ),
    _mutant(
        "a letter counted by one equation is fixed in all", "notes/judge.py",
        "known.fixed | find_counted(line.written.formula.latex.text)", "known.fixed | frozenset('j')",
        "lint.py::test_a_slip_is_found_where_it_is[a letter that another equation holds for]",
    ),
    _mutant(
        "the derivative of a function may have any index", "notes/judge.py",
        "(needs,) if of_scalar else (needs,", "(needs,) if False else (needs,",
        "lint_reading.py::test_it_is_read_and_a_slip_in_it_is_seen[the derivative of a function]",
    ),
    _mutant(
        "a bound is a factor", "notes/judge.py",
        "e = _drop_bounds(e)", "e = e",
        "lint_reading.py::test_it_is_read_and_a_slip_in_it_is_seen[a bound that depends on an index]",
    ),
    _mutant(
        "a label above on the left makes an equality", "notes/judge.py",
        "and isinstance(left.exponent, Name):", "and False:",
        "lint_reading.py::test_it_is_read_and_a_slip_in_it_is_seen[a label above on the left]",
    ),
    _mutant(
        "a sum over another letter is said of elements", "notes/judge.py",
        "any(i.letter in find_free(left) for i in right.indices)", "right.indices",
        "lint.py::test_a_slip_is_found_where_it_is[a sum over another letter]",
    ),
    _mutant(
        "a sum ends at a slash", "notes/reading.py",
        'divided = taking and self.accept("/")', 'divided = taking and self.accept("?")',
        "lint_reading.py::test_it_is_read_and_a_slip_in_it_is_seen[a sum over a slash]",
    ),
    _mutant(
        "a contraction keeps both its slots", "notes/documents/scripts.py",
        "if times > 1):", "if times > 9):",
        "lint_reading.py::test_it_is_read_and_a_slip_in_it_is_seen[a contraction beside an empty group]",
    ),
    _mutant(
        "a product in a function is not summed", "notes/judge.py",
        "if any(count > 1 for count in letters.values()):", "if False:",
        "lint.py::test_a_slip_is_found_where_it_is[a root of a product]",
    ),
    _mutant(
        "a sum of tensors depends on all indices", "notes/judge.py",
        "find_free(right) < find_free(left) and _is_linear(right)", "False",
        "lint_reading.py::test_what_is_not_said_is_read_and_no_finding[what does not depend on all, in terms]",
    ),
    _mutant(
        "a mean has the index of its groups", "notes/judge.py",
        "(few > 0 and x.name in self.often)", "(x.name in self.often)",
        "lint_reading.py::test_what_is_not_said_is_read_and_no_finding[a mean beside those of the groups]",
    ),
    _mutant(
        "a sum in a function is no sum in a sum", "notes/judge.py",
        "meant = others - inner - set(bound)", "meant = others - set(bound)",
        "lint_reading.py::test_what_is_not_said_is_read_and_no_finding[a sum of as many constants]",
    ),
    _mutant(
        "an index of sums is a label", "notes/letters.py",
        "key[1] not in bound and not is_derivative(x)", "not is_derivative(x)",
        "lint_reading.py::test_what_is_not_said_is_read_and_no_finding[a sum of as many constants]",
    ),
    _mutant(
        "a tensor of three slots is a slip beside one of two", "notes/judge.py",
        "if self.known.uses[x.name, len(here)] > 1:", "if self.known.uses[x.name, len(here)] > 9:",
        "lint.py::test_what_people_mean_is_no_finding[two tensors of one letter]",
    ),
    _mutant(
        "a trace of three slots is a slip", "notes/judge.py",
        "if isinstance(right, Tensor) and _is_trace(", "if isinstance(right, Name) and _is_trace(",
        "lint.py::test_what_people_mean_is_no_finding[a contraction]",
    ),
    _mutant(
        "no trace is over two axes", "notes/judge.py",
        "== wanted and not any(legend.are_apart(", "== wanted or not any(legend.are_apart(",
        "lint.py::test_a_slip_is_found_where_it_is[twice on one tensor]",
    ),
    _mutant(
        "a sum over more than its argument has is a slip", "notes/judge.py",
        "return [i for i in empty if meant or axis_of(i.letter) in lost]", "return empty",
        "lint.py::test_what_people_mean_is_no_finding[a number of states]",
    ),
    _mutant(
        "a nested sum is judged as one alone", "notes/judge.py",
        "meant = others - inner - set(bound) - around", "meant = others - inner - set(bound)",
        "lint_reading.py::test_what_is_not_said_is_read_and_no_finding[a sum of as many squares]",
    ),
    _mutant(
        "a matrix shows all its indices", "notes/judge.py",
        "len(letters) == 1 and len(next(iter(letters)) - find_free(left)) > 1", "not letters",
        "lint.py::test_what_people_mean_is_no_finding[elements of a matrix]",
    ),
    _mutant(
        "a word below a sum is indices", "notes/judge.py",
        "or len(bound) == len(empty) > 1:", "or len(bound) == len(empty) > 9:",
        "lint.py::test_what_people_mean_is_no_finding[a word below a sum]",
    ),
    _mutant(
        "a difference of elements is summed", "notes/judge.py",
        "return len(names) == 2 == len(e.terms) and", "return len(names) == 9 == len(e.terms) and",
        "lint.py::test_what_people_mean_is_no_finding[elements of one tensor]",
    ),
    _mutant(
        "a power is an index beside a function", "notes/letters.py",
        "for x, bound in list_open(side) if id(x) not in apart", "for x, bound in list_open(side)",
        "lint_reading.py::test_what_may_be_either_is_not_read[$y_{ij} = a b^i c_j$, $f = r^j \\\\exp(-y_{ij} r)$]",
    ),
    _mutant(
        "a power is an index beside its predecessor", "notes/letters.py",
        "(uncertain or letters[0] in numbers)", "uncertain",
        "lint_reading.py::test_what_may_be_either_is_not_read[$v^k u_k = 1$, $y_i = a_0 A^{k-1} b_i + A^k b_i$]",
    ),
    _mutant(
        "a number above is a factor", "notes/letters.py",
        "any(isinstance(x, Number) for x in exponent.factors)", "any(isinstance(x, Sum) for x in exponent.factors)",
        "lint_reading.py::test_what_may_be_either_is_not_read[$\\\\frac{d v}{d t} = q F^{0i} v_i = q E_i v_i$]",
    ),
    _mutant(
        "a slip in slots hides the sums of its line", "notes/judge.py",
        "if findings and all(finding.code in _OF_SLOTS for finding in findings):", "if False:",
        "lint.py::test_the_errors_of_a_published_note_are_found_and_nothing_else",
    ),
    _mutant(
        "layers of the library call layers of the library alone", "language/check.py",
        "        missing.pop(layer.name, None)\n", "        pass\n",
        "library.py::test_layers_of_the_library_call_the_layers_of_the_text",
    ),
    _mutant(
        "an axis of the library keeps its place", "language/parser.py",
        "size=size or axis.size, default=default, bound=bound, span=letter.span", "",
        "library.py::test_what_is_wrong_is_told_in_the_text_that_names_the_library",
    ),
    # ------------------------------------------------------------------------------------------------------------- Hugging Face
    _mutant(
        "rotary pairs are neighbours", "architectures/library.ein",
        "y_{s(ih)} = μ (x_{s(ih)} cos(s θ_h) + (2 i - 1) x_{s((1 - i)h)} sin(s θ_h))",
        "y_{s(hi)} = μ (x_{s(hi)} cos(s θ_h) + (2 i - 1) x_{s(h(1 - i))} sin(s θ_h))",
        "families.py::test_logits_are_theirs[llama-fan_in]",
    ),
    _mutant(
        "a weight keeps the rows of lower tables", "huggingface/families.py",
        "row[1] not in tensors and not weights & _list_paths(row[0])", "row[1] not in tensors",
        "families.py::test_a_tensor_has_one_row_and_so_has_a_weight",
    ),
    _mutant(
        "a default outlives the key of its letter", "huggingface/families.py",
        "    gone = _list_letters(under) - _list_letters(left)\n", "    gone = set()\n",
        "families.py::test_a_key_has_one_answer",
    ),
    _mutant(
        "groups are stored behind their members", "huggingface/decoder.toml",
        'q_proj.weight", "(g j e) d"', 'q_proj.weight", "(j g e) d"',
        "families.py::test_logits_are_theirs[llama-fan_in]",
    ),
    _mutant(
        "the whole has no say in the ties of its text part", "huggingface/wrappers.py",
        "own = {} if tied is None else {_TIE: tied}", "own: dict[str, object] = {}",
        "wrappers.py::test_parameters_of_the_text_part_are_theirs[internvl]",
    ),
    _mutant(
        "engines compute no position ahead of a window", "interpreters/count/engines.py",
        'back + self.windows["ahead"]', "back",
        "generation.py::test_positions_of_a_row",
    ),
    _mutant(
        "groups of layers are not filled up", "interpreters/count/engines.py",
        "round_up(number, group) - number", "0",
        "generation.py::test_windows_and_full_layers_of_gemma",
    ),
    _mutant(
        "every third layer between gets no more bits", "huggingface/storage.py",
        "(number - count // 8) % 3 == 2", "False",
        "storage.py::test_bits_for_a_weight_are_those_that_llama_cpp_measured",
    ),
    _mutant(
        "models of 80 layers are as others", "huggingface/storage.py",
        "when == _SHARED and value.shape[0] < value.shape[1]", "False",
        "storage.py::test_a_matrix_of_values_that_heads_share_has_more_bits_in_80_layers",
    ),
    _mutant(
        "a table that is both is stored as tokens", "huggingface/storage.py",
        'role = "output"  # the same table', 'role = "tokens"',
        "storage.py::test_a_table_of_tokens_that_is_the_head_is_stored_as_the_head",
    ),
    _mutant(
        "a quantized file is counted in the precision", "report/fit.py",
        "if not kind and name_stored(model):", "if False:",
        "quantized.py::test_bytes_are_those_of_the_tensors",
    ),
    _mutant(
        "all matrices of a quantized file are packed", "huggingface/quantized.py",
        "return any(re.match(rf\"(?:{key}){boundary}\", module) or module.endswith(key) for key in patterns)", "return False",
        "quantized.py::test_float8_is_theirs",
    ),
    _mutant(
        "a square that is begun has no scale", "huggingface/quantized.py",
        "squares = math.ceil(outputs / block[0])", "squares = (outputs // block[0])",
        "quantized.py::test_float8_is_theirs",
    ),
    _mutant(
        "weights that are written keep the config of quantized ones", "huggingface/config.py",
        '"architectures", "quantization_config"}', '"architectures"}',
        "quantized.py::test_weights_that_are_written_are_not_quantized",
    ),
    _mutant(
        "states have the dtype of the cache", "interpreters/count/engines.py",
        "held.rows * held.positions * held.numbers * self.states", "held.rows * held.positions * held.numbers * 2",
        "generation.py::test_an_engine_allocates_what_its_log_says",
    ),
    _mutant(
        "a part of normal numbers is its quantile", "huggingface/keys.py",
        "_find_quantile(part) if part else 0 for part", "part for part",
        "families.py::test_logits_are_theirs[gemma3n-fan_in]",
    ),
    _mutant(
        "a list of layers is one of all others", "huggingface/keys.py",
        "int(self.first + layer in value)", "int(layer not in value)",
        "families.py::test_logits_are_theirs[llama4_even-fan_in]",
    ),
    _mutant(
        "a fixed key has no say", "huggingface/config.py",
        "        *_find_refused_values(config, table),\n", "",
        "huggingface_keys.py::test_every_change_is_seen[llama-3-8b]",
    ),
    _mutant(
        "keys of one letter may differ", "huggingface/config.py",
        "        *_find_contradictions(config, table, readings),\n", "",
        "huggingface_keys.py::test_every_change_is_seen[deepseek-v3]",
    ),
    # ----------------------------------------------------------------------------------------------------- claims, notes, forms
    _mutant(
        "whatever is derived is what is printed", "interpreters/count/algebra.py",
        "return bool(sympy.expand(over) == 0)", "return True",
        "claims.py::test_what_is_wrong_is_said",
    ),
    _mutant(
        "a product is turned factor by factor", "interpreters/latex/formulas.py",
        "self.chain(self.transpose(other), self.transpose(one))", "self.chain(self.transpose(one), self.transpose(other))",
        "matrices.py::test_each_line_of_a_text_is_what_its_indices_say[llama]",
    ),
    _mutant(
        "inner letters need not meet", "interpreters/latex/formulas.py",
        "self.chain(self.along(one, letter), self.down_along(other, letter))", "self.chain(self.along(one, letter), other)",
        "matrices.py::test_each_line_of_a_text_is_what_its_indices_say[gpt2]",
    ),
    _mutant(
        "a prime of a letter is not shown", "interpreters/mathml.py",
        "</mrow>' if count else text", "</mrow>' if count > 1 else text",
        "round_trip.py::test_shipped[gpt2-shown]",
    ),
    _mutant(
        "a sign denies the first term of a comparison", "language/printer.py",
        "in (Level.NOT, Level.FACTOR, Level.ATOM)", "in (Level.NOT, Level.COMPARISON, Level.FACTOR, Level.ATOM)",
        "mathml.py::test_formulas_are_read_aloud", "latex.py::test_what_is_denied_stands_in_parentheses",
    ),
    _mutant(
        "slots of a slot are read as its neighbours", "interpreters/mathml.py",
        '_name(slot.replace(_PAUSE, ""), f"i{k}")', '_name(slot, f"i{k}")',
        "mathml.py::test_formulas_are_read_aloud",
    ),
    _mutant(
        "an argument is read where the letters of its operator are", "interpreters/mathml.py",
        'return text, f"_{word}:prefix{_PAUSE}(', 'return text, f"_{word}(',
        "mathml.py::test_formulas_are_read_aloud",
    ),
    # ---------------------------------------------------------------------------------- fusing, recurrences, what is kept (R10)
    _mutant(
        "what an attention has taken in is computed too", "program/rewrite.py",
        'return line if line.value in used else', 'return line if True else',
        "spellings.py::test_spellings_of_one_thing_cost_the_same[causal attention]",
    ),
    _mutant(
        "numbers of positions that a layer is given are not kept", "program/positions.py",
        "self.analysis.tells(supports[k], formula=False)", "self.analysis.tells(supports[k], formula=True)",
        f"forms.py::{_PARTS}[numbers of positions that a layer is given-apart-fast]",
    ),
    _mutant(
        "a recurrence over its taps starts with too few zeros", "program/lowering.py",
        "return -int(min(values)) if fixed else 0", "return 1 - int(max(values)) if fixed else 0",
        f"forms.py::{_PARTS}[a state over its own taps-apart-notation]",
    ),
    _mutant(
        "a recurrence is at the first number of a loop", "interpreters/torch/emit.py",
        'return slots, f"{steps}[{make_index(number).text}]"', 'return slots, f"{steps}[-1]"',
        f"forms.py::{_PARTS}[a state as far back as the feature and the turn say-apart-fast]",
    ),
    _mutant(
        "a recurrence has its position twice", "language/body.py", " and axis_of(own.letter) not in moving", "",
        "scope.py::test_reading_oneself_needs_an_earlier_position_or_an_arrow",
    ),
    _mutant(
        "a scalar puts a recurrence at its own position", "language/body.py",
        "back = bool(fixed) and self.legend.number(Sum(tuple(fixed))) <= -1", "back = bool(fixed)",
        "scope.py::test_what_a_scalar_says_is_an_earlier_position_once_it_is_bound",
    ),
    _mutant(
        "a factor after `@` is a note", "language/body.py",
        "if factor and (alone or (letters and all(map(legend.axis, letters)))):", "if factor and alone:",
        "stray_notes.py::test_a_factor_is_not_dropped_as_a_note[W'_df']",
    ),
    _mutant(
        "padding is zero to a running product", "interpreters/torch/cache.py",
        "torch.cumprod(self.zero_padding(x, axis, row, 1), axis)", "torch.cumprod(self.zero_padding(x, axis, row), axis)",
        "forms.py::test_rows_of_a_form_start_late[a running product alone, its rows last-apart-notation]",
    ),
    _mutant(
        "a steady cache gives away its running sum", "interpreters/torch/cache.py",
        "        self.rows[path].copy_(total)\n        return total", "        return self.rows[path].copy_(total)",
        "forms.py::test_a_running_sum_stays_where_it_is_and_is_not_given_away[a running sum alone-notation]",
    ),
    _mutant(
        "a softmax feels what stands in a line of its own", "language/body.py",
        "return self.lines.get(e.name) if e.name in self.once else None", "return None",
        "refused.py::test_a_slip_is_refused_by_its_rule[a score without its prime two lines before]",
    ),
    _mutant(
        "a line is what it defines, however often that is read", "language/body.py",
        "return self.lines.get(e.name) if e.name in self.once else None", "return self.lines.get(e.name)",
        "refused.py::test_without_the_slip_it_is_accepted[scores of a line that are read again feel it there]",
    ),
    _mutant(
        "a recurrence of whole numbers is computed in the dtype of a module", "interpreters/torch/emit.py",
        'whole = recur.so_far.kind == "integer"', "whole = False",
        "slots.py::test_a_recurrence_of_whole_numbers_is_exact_in_any_dtype[0-notation]",
    ),
    # -------------------------------------------------------------------------------------------------- one rank of a mesh
    _mutant(
        "parts meet what is whole, so that a bias is added by each rank", "program/collectives.py",
        "more = [term for term in terms if self.find_parts(term).keys() - common.keys()]", "more = list[Value]()",
        f"sharding.py::{_RANKS}[a bias is added once]",
    ),
    _mutant(
        "parts are multiplied by parts", "program/collectives.py",
        "if len(holders) == 1 and mesh not in split:", "if mesh not in split:",
        f"sharding.py::{_RANKS}[a product of two sums]",
    ),
    _mutant(
        "what is not linear takes parts", "program/collectives.py",
        "return self.make(old, replace_operands(e, lambda value: self.settle(self.rewrite(value))))",
        "return self.make(old, replace_operands(e, self.rewrite))",
        f"sharding.py::{_RANKS}[a root of a sum]",
    ),
    _mutant(
        "an axis of the mesh divides no tensor", "interpreters/count/rules.py",
        'return cast("N", self.divide(whole, ranks)) if self.shares else whole', 'return whole',
        "plan.py::test_a_device_holds_the_weights_and_saves_the_values_that_are_counted[llama tp: g f v; tq: j]",
    ),
    _mutant(
        "what yields is split in all values", "interpreters/count/rules.py",
        "own = (letter for one in filter(None, values) for letter in self.own.get(one, ()) if find_whole(letter) in letters)",
        "own = (letter for of, _ in self.shares for letter in of if find_whole(letter) in letters)",
        "plan.py::test_a_device_saves_and_computes_what_is_whole_inside_a_sublayer",
    ),
    _mutant(
        "a softmax over ranks computes twice what it reads", "program/collectives.py",
        "if isinstance(value.operation, Largest) and argument not in there:", "if False:",
        "plan.py::test_a_device_computes_as_many_flops_as_are_counted[mixtral tp: g x v]",
    ),
    _mutant(
        "a rank computes the pairs of all experts", "program/fusing.py",
        "sharding.over(routing.rows) <= sharding.rows", "sharding.over((routing.letter, *routing.rows)) <= sharding.rows",
        "plan.py::test_ranks_that_share_experts_compute_the_chosen_ones_alone[tp: g x v-mixtral]",
    ),
    _mutant(
        "what is varied is varied again", "program/collectives.py",
        "{*self.find_parts(value), *_list_varied(value)}", "{*self.find_parts(value)}",
        "sharding.py::test_the_ranks_of_a_published_model_compute_what_one_process_computes[mixtral tp: g f v; ep: x fast]",
    ),
    _mutant(
        "the experts of each rank are numbered from the first of all", "interpreters/torch/fast.py",
        "own = expert - MESH.get_local_rank(axis) * count", "own = expert",
        "sharding.py::test_the_ranks_of_a_published_model_compute_what_one_process_computes[mixtral tp: g x v fast]",
    ),
    _mutant(
        "pairs that come from other ranks stand in the order of these", "interpreters/torch/parallel.py",
        "order = expert.argsort(stable=True)", "order = torch.arange(len(expert))",
        "sharding.py::test_padding_biases_and_gains_follow_the_pairs[fast-2]",
    ),
    _mutant(
        "the gradient of a weight that rows share is that of a rank's own rows", "program/collectives.py",
        "return AllGatherVary if value in self.moving and mesh in self.sharding.rows else AllGather", "return AllGather",
        "sharding.py::test_padding_biases_and_gains_follow_the_pairs[notation-2]",
    ),
    _mutant(
        "a window starts one position late", "interpreters/torch/parallel.py",
        "first, end = rank * size - max(before, 0)", "first, end = rank * size - max(before - 1, 0)",
        "sharding.py::test_ranks_send_their_neighbours_the_positions_that_these_read",
    ),
    _mutant(
        "the gradients of what neighbours read are dropped", "interpreters/torch/parallel.py",
        "x[part] += own", "x[part] += 0 * own",
        "sharding.py::test_ranks_send_their_neighbours_the_positions_that_these_read",
    ),
    _mutant(
        "an operator that needs all positions has those of a window", "program/windows.py",
        "if row is None or counts or row.neutral not in (0, -math.inf):", "if row is None:",
        "sharding.py::test_positions_without_a_bound_are_read_whole[a mean-notation]",
    ),
    _mutant(
        "each rank starts a recurrence from zero", "interpreters/torch/parallel.py",
        "dist.recv(state, ctx.before, group=MESH.get_group(axis))",
        "dist.recv(state.clone(), ctx.before, group=MESH.get_group(axis))",
        "sharding.py::test_a_recurrence_starts_where_the_rank_before_it_ends[a map in each step]",
    ),
    _mutant(
        "no gradient comes back with a state", "interpreters/torch/parallel.py",
        "dist.recv(ctx.state, ctx.after, group=MESH.get_group(ctx.axis))",
        "dist.recv(ctx.state.clone(), ctx.after, group=MESH.get_group(ctx.axis))",
        "sharding.py::test_a_recurrence_starts_where_the_rank_before_it_ends[a map in each step]",
    ),
    _mutant(
        "the gradient of a weight in a step is that of a rank's own steps", "program/collectives.py",
        "parts.keys() | self.stepping if is_smooth", "parts.keys() if is_smooth",
        "sharding.py::test_a_recurrence_starts_where_the_rank_before_it_ends[a map in each step]",
    ),
    _mutant(
        "steps are counted from the first of a rank", "program/collectives.py",
        "    op.Turn: ForRank.place_index,\n", "",
        "sharding.py::test_a_recurrence_starts_where_the_rank_before_it_ends[the number of a step]",
    ),
    _mutant(
        "what some steps alone read has a gradient on their rank alone", "interpreters/torch/emit.py",
        '[started, *(self.code(value).text for value in read if value in self.stored and value.kind == "tensor")]', "[started]",
        "sharding.py::test_a_recurrence_starts_where_the_rank_before_it_ends[the number of a step]",
    ),
    _mutant(
        "the last chunk of a rank changes no state", "interpreters/torch/fast.py",
        "if starts or start + size < v.shape[-2]:", "if start + size < v.shape[-2]:",
        "sharding.py::test_a_rank_of_several_chunks_hands_on_its_last_state[delta_net]",
    ),
    _mutant(
        "a window of one loop is read outside of it", "program/windows.py",
        "if before is None or after is None or not all(letters <= turns for turns in places):",
        "if before is None or after is None:",
        "sharding.py::test_a_window_of_some_turns_is_one_in_these_alone",
    ),
    _mutant(
        "what a ring has summed is not brought to the new largest score", "interpreters/torch/parallel.py",
        "left * sums[..., rows, :] + p.sum", "sums[..., rows, :] + p.sum",
        "sharding.py::test_a_ring_takes_any_mask_and_gives_it_its_gradient",
    ),
    _mutant(
        "a query that has seen nothing is not a number", "interpreters/torch/parallel.py",
        "base = new.masked_fill(new == -math.inf, 0)", "base = new",
        "sharding.py::test_a_ring_takes_any_mask_and_gives_it_its_gradient",
    ),
    _mutant(
        "gradients of a ring stay one rank before their home", "interpreters/torch/parallel.py",
        "if dist.get_world_size(MESH.get_group(ctx.axis)) > 1:",
        "if owner != (MESH.get_local_rank(ctx.axis) + 1) % dist.get_world_size(MESH.get_group(ctx.axis)):",
        "sharding.py::test_a_ring_takes_any_mask_and_gives_it_its_gradient",
    ),
    _mutant(
        "a ring leaves out the block of its own queries", "interpreters/torch/parallel.py",
        "owner * size\n    if start - (first + size - 1) <= after", "owner * size\n    if start - first < after",
        "sharding.py::test_a_ring_takes_any_mask_and_gives_it_its_gradient",
    ),
    _mutant(
        "a bias of a ring has no gradient", "interpreters/torch/parallel.py",
        "x.sum_to_size(mask_slope[..., rows, numbers].shape)", "0",
        "sharding.py::test_a_ring_takes_any_mask_and_gives_it_its_gradient",
    ),
    _mutant(
        "a sink of a ring has the gradient of a key with a value", "interpreters/torch/parallel.py",
        "None if sink is None else -(torch", "None if sink is None else (torch",
        "sharding.py::test_a_ring_takes_any_mask_and_gives_it_its_gradient",
    ),
    _mutant(
        "gradients of a ring are not counted", "interpreters/count/exchanges.py",
        "(ranks - 1, 2 * ranks - 1)", "(ranks - 1, ranks - 1)",
        "sharding.py::test_a_ring_sends_what_an_all_gather_does_and_backward_half_as_much_again",
    ),
    _mutant(
        "the pieces of a zigzag have the numbers of one piece", "program/collectives.py",
        "if isinstance(e, op.Iota) and e.letter in self.sharding.zigzag:", "if False:",
        "sharding.py::test_numbers_of_pieces_are_read_wherever_positions_are",
    ),
    _mutant(
        "the pieces of a zigzag are gathered in the order of ranks", "interpreters/torch/parallel.py",
        "for number in sorted(pieces)]", "for number in pieces]",
        "sharding.py::test_numbers_of_pieces_are_read_wherever_positions_are",
    ),
    _mutant(
        "a recurrence runs over pieces that do not follow one another", "program/collectives.py",
        "        if e.letter in self.sharding.zigzag:\n            message", "        if False:\n            message",
        "sharding.py::test_what_has_no_pieces_is_refused",
    ),
    _mutant(
        "neighbours of pieces are those of one piece", "program/windows.py",
        "legend.axis(letter) and letter not in sharding.zigzag]", "legend.axis(letter)]",
        "sharding.py::test_numbers_of_pieces_are_read_wherever_positions_are",
    ),
    _mutant(
        "a ring computes with blocks that no query sees", "interpreters/torch/parallel.py",
        """            if start - (first + size - 1) <= after and first - (start + size - 1) <= before:
                rows,""", """            if True:
                rows,""",
        "plan.py::test_ranks_in_zigzag_compute_as_much_as_each_other",
    ),
    _mutant(
        "what is read of weights that ranks share is not given to them", "interpreters/torch/checkpoints.py",
        "for shared, whole in opened.items():", "for shared, whole in ():",
        "ranks.py::test_weights_that_ranks_of_the_batch_share_are_saved_for_any_mesh",
    ),
    _mutant(
        "neighbours have as many positions as a window", "interpreters/count/exchanges.py",
        "self.sizes.smallest((self.sizes.value(e), others))", "self.sizes.value(e)",
        "sharding.py::test_the_bytes_of_neighbours_are_a_formula",
    ),
    _mutant(
        "all that a rank's experts are sent is counted as certain", "interpreters/count/exchanges.py",
        "split = self.sharding.over((key.routed[1] + pair.removeprefix(PAIR),)) if key.routed and pair else ()", "split = ()",
        "sharding.py::test_the_bytes_of_a_dispatch_are_a_formula",
    ),
    _mutant(
        "gradients of experts are summed over the ranks of the batch", "interpreters/torch/ranks.py",
        "sorted(self.sharding.rows.difference(split))", "sorted(self.sharding.rows)",
        "parallel.py::test_two_processes_compute_alike_start_alike_and_drop_apart",
    ),
    _mutant(
        "an all-reduce sends what a reduce-scatter sends", "interpreters/count/exchanges.py",
        'if collective == "all-reduce" else', 'if collective == "" else',
        "plan.py::test_a_collective_sends_what_a_tree_of_its_parts_needs[2-3]",
    ),
    _mutant(
        "letters of one tensor are split together", "report/plans.py",
        "clashes[letter] |= together - {letter}", "clashes[letter] |= set()",
        "plan.py::test_letters_that_do_not_clash_can_be_split_together[llama]",
    ),
    _mutant(
        "the gradient of a whole tensor is that of one rank", "program/collectives.py",
        "if value not in self.moving or not meshes:", "if value in self.moving or not meshes:",
        f"sharding.py::{_RANKS}[a gain of each head]",
    ),
    _mutant(
        "a size as a number is that of a rank", "program/collectives.py",
        "return replace(old, operation=op.Constant(self.legend.length(letter)))",
        "return replace(old, operation=op.Constant(self.legend.length(letter) // self.sharding.times(letter)))",
        f"sharding.py::{_RANKS}[an index as a number]",
    ),
    _mutant(
        "pairs of rows that are split are whole", "program/fusing.py",
        "sharding.over(routing.rows) <= sharding.rows", "True",
        f"sharding.py::{_RANKS}[experts of split rows]",
    ),
    _mutant(
        "the gradient of a norm's gain is that of a rank's positions", "program/collectives.py",
        "over = self.sharding.over(axes) | parts.keys() | self.stepping",
        "over = self.sharding.over(e for e in axes if not is_own(e)) | parts.keys() | self.stepping",
        "sharding.py::test_the_ranks_of_a_published_model_compute_what_one_process_computes[llama tp: (s) g f v; dp: b fast]",
    ),
    _mutant(
        "what reads other positions has those of a rank", "program/collectives.py",
        "return letter not in letters", "return True",
        "sharding.py::test_what_reads_all_positions_has_them",
    ),
    _mutant(
        "positions that ranks cannot share are cut", "interpreters/torch/module.py",
        "if sizes.get(letter, 0) % ranks:", "if sizes.get(letter, 0) < 0:",
        "sharding.py::test_positions_that_ranks_cannot_share_are_refused",
    ),
    _mutant(
        "each stage counts its turns from zero", "language/stages.py",
        "return self.number * self.turns", "return 0",
        "stages.py::test_the_numbers_of_turns_are_those_of_the_whole_model",
    ),
    _mutant(
        "a stage has the size of its own loop as a number", "language/stages.py",
        "return Number(numbers[e.name], span=e.span)", "return Number(1, span=e.span)",
        "stages.py::test_the_numbers_of_turns_are_those_of_the_whole_model",
    ),
    _mutant(
        "the numbers of each rank start at zero", "program/collectives.py",
        "rank, first = Value(Rank(mesh), (), \"integer\", span), label[0]",
        "rank, first = _whole(0, span), label[0]",
        f"sharding.py::{_RANKS}[a part of a split index]",
    ),
    _mutant(
        "parts are kept in a cache", "program/collectives.py",
        "if line.version in self.kept:", "if line.version in ():",
        "ranks.py::test_a_step_exchanges_no_keys_of_earlier_positions",
    ),
    _mutant(
        "what ranks exchange of a kept tensor is not there at other positions", "program/decoding.py",
        "if kept is not None:\n            axes", "if kept is None:\n            axes",
        "ranks.py::test_keys_that_ranks_exchange_where_they_are_read_are_kept_in_parts[notation]",
    ),
    _mutant(
        "a rank reads the first part of each weight", "interpreters/torch/ranks.py",
        "first = self.mesh.get_local_rank(dims[dim]) * own if dim in dims else 0", "first = 0",
        "ranks.py::test_ranks_load_and_save_files_of_transformers",
    ),
    _mutant(
        "a checkpoint is written in its place", "interpreters/torch/checkpoints.py",
        'unfinished = folder.with_name(f".unfinished-{folder.name}")', "unfinished = folder",
        "ranks.py::test_a_rank_that_dies_while_it_saves_loses_nothing",
    ),
    _mutant(
        "the norm of gradients is that of one rank", "interpreters/torch/ranks.py",
        "for axis in axes:\n            dist.all_reduce(whole", "for axis in ():\n            dist.all_reduce(whole",
        "ranks.py::test_processes_start_and_step_as_one_process_does[2]",
    ),
    _mutant(
        "each rank draws by its own random numbers", "interpreters/torch/ranks.py",
        "torch.set_rng_state(states[0])", "torch.set_rng_state(torch.get_rng_state())",
        "parallel.py::test_two_processes_compute_alike_start_alike_and_drop_apart",
    ),
    _mutant(
        "a stage saves its weights under paths of its own", "interpreters/torch/checkpoints.py",
        "yield from ((module.find_whole(path), view) for path, view in list_views(module, of))",
        "yield from list_views(module, of)",
        "ranks.py::test_stages_save_one_checkpoint_of_the_whole_model[2]",
    ),
    _mutant(
        "an error of one rank is its own", "interpreters/torch/ranks.py",
        "    if failed:\n", "    if failed and error:\n",
        "ranks.py::test_what_one_rank_does_wrong_is_an_error_on_all",
    ),
    _mutant(
        "a microbatch comes back to the first stage from nowhere", "interpreters/count/exchanges.py",
        '("backward",) * (number > 0)', '("backward",)',
        "plan.py::test_a_stage_of_a_pipeline_sends_what_passes_to_the_next",
    ),
    _mutant(
        "a stage sums the tied weights that it has alone", "interpreters/count/exchanges.py",
        "for path in sorted(pipeline.ties):", "for path in sorted(pipeline.ties)[1:]:",
        "plan.py::test_a_stage_of_a_pipeline_sends_what_passes_to_the_next",
    ),
    _mutant(
        "a stage has all turns of the model", "interpreters/count/symbols.py",
        "self.loops[letter] if letter in self.loops else self.value(count)", "self.value(count)",
        "plan.py::test_a_stage_has_its_part_of_the_turns",
    ),
    _mutant(
        "each stage keeps all microbatches", "interpreters/count/numbers.py",
        "min(microbatches, stages - number)", "microbatches",
        "plan.py::test_a_plan_holds_and_computes_what_stages_do",
    ),
    _mutant(
        "a stage has the activations of one microbatch", "interpreters/count/numbers.py",
        "kept * memory.activations", "memory.activations",
        "plan.py::test_a_plan_holds_and_computes_what_stages_do",
    ),
    _mutant(
        "the last stage of a pipeline has no logits", "objects.py",
        "self.spec.tree if number + 1 == len(stages) else stage.spec.tree", "stage.spec.tree",
        "plan.py::test_a_plan_holds_and_computes_what_stages_do",
    ),
    _mutant(
        "ranks share no rows of a microbatch", "interpreters/count/exchanges.py",
        "% (microbatches * ranks)", "% microbatches",
        "plan.py::test_the_rows_of_a_microbatch_are_shared_by_the_ranks_of_the_batch",
    ),
    _mutant(
        "no mesh has stages", "report/plans.py",
        "(False, True) if step.work", "(False,) if step.work",
        "plan.py::test_the_smallest_mesh_has_stages_where_nothing_else_fits",
    ),
    _mutant(
        "keys that go round are counted on all ranks", "interpreters/count/inventory.py",
        "indices |= {value: (*indices.get(value, ()), own(over)) for value in sides}", "pass",
        "plan.py::test_a_device_of_a_ring_saves_its_own_keys_alone[llama]",
    ),
    _mutant(
        "the blocks that come are not counted", "interpreters/count/numbers.py",
        "(min(count + 1, 4) if count > 1 else 0)", "2",
        "plan.py::test_a_ring_holds_four_blocks_of_others[3]",
    ),
    _mutant(
        "a device has a window before the first position", "interpreters/count/numbers.py",
        "(min(before, rank * size), ", "(before, ",
        "plan.py::test_a_device_computes_with_the_positions_of_its_windows[mistral]",
    ),
    _mutant(
        "windows of all turns are counted as the first", "interpreters/count/rules.py",
        "numbers |= dict.fromkeys(e for operation in done.operations for e in sizes.list_reaches(operation.letters))", "pass",
        "plan.py::test_a_device_computes_with_the_positions_of_its_windows[gemma3]",
    ),
    _mutant(
        "of ranks in order the first one is counted", "interpreters/count/numbers.py",
        "return ranks * max(by_piece[rank]", "return ranks * min(by_piece[rank]",
        "plan.py::test_the_device_with_most_pairs_of_positions_is_counted[llama-[ring]]",
    ),
    _mutant(
        "a device in zigzag has one piece", "interpreters/count/numbers.py",
        "(by_piece[-1 - rank] if pieces > ranks else 0)", "0",
        "plan.py::test_the_device_with_most_pairs_of_positions_is_counted[llama-[ring zigzag]]",
    ),
    _mutant(
        "dropout of a ring has no gradient", "interpreters/torch/parallel.py",
        "dropped((slope_r @ v_t[..., columns, :].mT).unflatten(2, p.shape[2:4]), *given)",
        "(slope_r @ v_t[..., columns, :].mT).unflatten(2, p.shape[2:4])",
        "sharding.py::test_a_ring_drops_the_same_weights_forward_and_backward[2]",
    ),
    _mutant(
        "all blocks of a ring drop alike", "interpreters/torch/parallel.py",
        "weights = dropped(p, drop, seed + numbers.start * q.shape[-2] + rows.start).to(v.dtype)",
        "weights = dropped(p, drop, seed).to(v.dtype)",
        "sharding.py::test_a_ring_drops_the_same_weights_forward_and_backward[2]",
    ),
    _mutant(
        "no stage waits for another", "report/plans.py",
        "replace(work, waited=waited)", "replace(work, waited=0)",
        "plan.py::test_a_plan_holds_and_computes_what_stages_do",
    ),
    _mutant(
        "a stage must carry each index that is split", "program/sharding.py",
        "if other != place), of_stage=True)", "if other != place))",
        "plan.py::test_a_plan_holds_and_computes_what_stages_do",
    ),
    # ------------------------------------------------------------------------------------------------------------- pictures
    _mutant(
        "an arrow comes from the first value alone that is read", "interpreters/diagram.py",
        "if inner in boxed and (node := self.find(inner))]", "if inner in boxed and (node := self.find(inner))][:1]",
        "draw.py::test_arrows_are_what_equations_read",
    ),
    _mutant(
        "a box stands beside what it reads", "interpreters/diagram.py",
        "max((source.row + 1 for source", "max((source.row for source",
        "draw.py::test_arrows_are_what_equations_read",
    ),
    _mutant(
        "each device holds the first part of a tensor", "interpreters/diagram.py",
        "corner[place % 2] += here[axis] * size[place % 2]", "corner[place % 2] += 0",
        "draw.py::test_a_tensor_is_filled_where_a_device_has_it",
    ),
    _mutant(
        "a cache has one layer of each kind", "report/series.py",
        "whole = kind.layers * engines.count_needed", "whole = engines.count_needed",
        "plot.py::test_a_cache_is_what_each_kind_of_layer_needs",
    ),
    _mutant(
        "rows of a weight whose product has no gradient are sparse", "interpreters/torch/fast.py",
        "experts=()) if value in differentiated:", "experts=()):",
        "fusing.py::test_rows_of_a_matrix_whose_product_is_compared_alone_have_a_gradient_that_optimisers_know",
    ),
    _mutant(
        "weights that a function is given have sparse gradients", "interpreters/torch/fast.py",
        "sparse=type(E) is nn.Parameter and E.is_cpu)", "sparse=E.is_cpu)",
        "fusing.py::test_gradients_of_several_tied_embeddings_at_once",
    ),
    # ------------------------------------------------------------------------------------- conditions around operators
    _mutant(
        "a condition is about the letters of an operator in its branch", "interpreters/torch/fragments.py",
        'f"outer {dim}" if dim in letters else dim', "dim",
        "slots.py::test_a_condition_is_not_about_the_letters_of_an_operator_in_its_branch",
    ),
    _mutant(
        "a condition guards the slots of an operator over its letter", "language/slots.py",
        "if not any(index.letter in letters for index in find_all(Index, guard[0])))", ")",
        "slots.py::test_a_condition_does_not_guard_the_slots_of_an_operator_over_its_letter",
    ),
    _mutant(
        "a condition holds of a named value that a sum reads", "program/rewrite.py",
        "if set(letters).isdisjoint(condition.axes)}", "}",
        "slots.py::test_a_condition_is_not_about_the_letters_of_an_operator_in_its_branch",
    ),
    _mutant(
        "a condition of one reader holds for all", "program/rewrite.py",
        "for key in around if key in conditions}", "for key in around}",
        "slots.py::test_a_condition_is_not_about_the_letters_of_an_operator_in_its_branch",
    ),
    _mutant(
        "no turn reads what the one before left", "program/rewrite.py",
        "if {*tensor.values} & {*inner}]", "if not inner]",
        "slots.py::test_a_condition_is_not_about_the_letters_of_an_operator_in_its_branch",
    ),
    _mutant(
        "what only a branch reads is felt by the others", "interpreters/torch/emit.py",
        "if not self.has_steep(value):", "if value:",
        "slots.py::test_gradients_do_not_feel_a_branch_that_is_not_taken",
    ),
    _mutant(
        "what a condition is made of need not be there", "interpreters/torch/emit.py",
        "case op.Map() | op.Spread() | op.Constant() | op.Iota() | op.Reduce():", "case _:",
        "slots.py::test_a_condition_is_computed_where_it_is_known",
    ),
    # ------------------------------------------------------------------------------------- forms that no random text wrote
    _mutant(
        "a heading lists the scalars of the library alone", "language/parser.py",
        'if self.peek().kind != "=":\n            return _take_scalar', "if name:\n            return _take_scalar",
        "interpreters.py::test_each_form_alone[distinct-scalars on one line]",
    ),
    _mutant(
        "a heading lists the axes of the library alone", "language/parser.py",
        'if self.peek().kind != ":":\n            return _take_axis', "if letter:\n            return _take_axis",
        "interpreters.py::test_each_form_alone[distinct-axes on one line]",
    ),
    _mutant(
        "a tie of other letters is another value in decoding", "program/decoding.py",
        "tuple(replace(line, value=self.value(line.value)) for line in function.weights)", "function.weights",
        "interpreters.py::test_each_form_alone[distinct-several weights on one line]",
    ),
    _mutant(
        "how far back an earlier position lies may be no index", "interpreters/torch/decode.py",
        "return make_index(self.code(slot.number)), None", "return self.code(slot.number), None",
        "interpreters.py::test_each_form_alone[distinct-slot: a power]",
    ),
    _mutant(
        "a weight is stored under the name of its tie", "program/rewrite.py",
        "for line in function.weights if line.value.operation == op.StoredWeight(line.name)}", "for line in function.weights}",
        "interpreters.py::test_each_form_alone[distinct-a tied weight beside another of its input]",
    ),
    _mutant(
        "a step of decoding reads all weights of a parameter", "interpreters/torch/fast.py",
        "if names == packing.names:", "if names:",
        "interpreters.py::test_each_form_alone[distinct-queries of a norm, keys of the same input, and a sink]",
    ),
    _mutant(
        "what makes the keys is computed for a sink too", "interpreters/count/inventory.py",
        'sink = over if position in own else ""', "sink = over",
        "interpreters.py::test_flops_of_each_form_alone_are_those_that_torch_counts[a sink, and scores of four factors]",
    ),
    _mutant(
        "a feature of an open size is a position", "program/attending.py",
        "return MANY // 2 if is_open else", "return MANY if is_open else",
        "interpreters.py::test_flops_of_each_form_alone_are_those_that_torch_counts"
        "[queries of a norm, keys of the same input, and a sink]",
    ),
    _mutant(
        "what the first step computes is there at the next", "interpreters/torch/decode.py",
        "                self.stored.pop(value, None)  # at", "                pass  # at",
        "interpreters.py::test_each_form_alone[distinct-numbers beside what is the same at every step]",
    ),
    _mutant(
        "what a turn makes is there after its loop", "program/decoding.py",
        "if value not in turned}", "}",
        "interpreters.py::test_each_form_alone[distinct-a loop of what is the same at every step]",
    ),
    _mutant(
        "a number that is computed is an index as it is", "interpreters/torch/emit.py",
        'f"{code.at(ATOM)}.long()", code.dims', 'f"{code.at(ATOM)}", code.dims',
        "interpreters.py::test_each_form_alone[distinct-named: half]",
    ),
    _mutant(
        "a step calls a layer for all positions", "interpreters/torch/emit.py",
        "return [value for value in whole if value not in", "return [value for value in () if value not in",
        "interpreters.py::test_flops_of_each_form_alone_are_those_that_torch_counts[a layer in the step of a state]",
    ),
    _mutant(
        "a loop has lines that compute something", "interpreters/torch/emit.py",
        'if all(line.lstrip().startswith("#") for line in lines):', "if not lines:",
        "interpreters.py::test_each_form_alone[distinct-a loop that computes what nothing reads]",
    ),
    _mutant(
        "a root stands before the condition of its branch", "interpreters/torch/emit.py",
        "return defines and not all(", "return not defines and not all(",
        "slots.py::test_gradients_do_not_feel_a_branch_that_is_not_taken[a condition on a later product-notation]",
    ),
    _mutant(
        "a root stands behind a change of what it reads", "interpreters/torch/emit.py",
        'changes = line.equation is None or line.equation.relation == "<-"', "changes = line.equation is None",
        "slots.py::test_a_condition_is_not_about_the_letters_of_an_operator_in_its_branch[a name before a change-notation]",
    ),
    _mutant(
        "a condition on a reduction is not known", "interpreters/torch/emit.py",
        "| op.Constant() | op.Iota() | op.Reduce():", "| op.Constant() | op.Iota():",
        "slots.py::test_gradients_do_not_feel_a_branch_that_is_not_taken[a condition on a reduction-notation]",
    ),
    _mutant(
        "a weight is an attribute where a parameter holds several", "interpreters/torch/fragments.py",
        "self.{context.holders.get(weight, weight)}", "self.{weight}",
        "interpreters.py::test_each_form_alone[distinct-weights of one parameter, of a condition alone]",
    ),
    _mutant(
        "a list is as long as the shortest loop", "interpreters/torch/source.py",
        "else max(int(self.legend.number(count))", "else min(int(self.legend.number(count))",
        "interpreters.py::test_each_form_alone[distinct-a list over the longer of two loops]",
    ),
    _mutant(
        "numbers of a mask have the default dtype for ever", "interpreters/torch/emit.py",
        '{otherwise.text})", dims, "integer")', '{otherwise.text})", dims, "number")',
        "interpreters.py::test_each_form_alone[distinct-a softmax of numbers alone]",
    ),
    _mutant(
        "attention that is read twice is computed twice", "program/attending.py",
        "values and not twice and self.sinks", "values and self.sinks",
        "interpreters.py::test_flops_of_each_form_alone_are_those_that_torch_counts"
        "[what attention beside a sink gives is read twice]",
    ),
    _mutant(
        "a named sum beside a linear map is another", "program/matching.py",
        "split_sum(terms[0], lambda inner: inner is value or inner not in scope.names)", "split_sum(terms[0])",
        "interpreters.py::test_over_one_number_nothing_is_summed"
        "[a linear map whose rows and columns other weights have, too-D]",
    ),
    _mutant(
        "a weight with the rows of a matrix is inside its sum", "interpreters/count/inventory.py",
        "for k, (_, letters) in enumerate(factors) if letters & summed}", "for k, (_, letters) in enumerate(factors)}",
        "interpreters.py::test_over_one_number_nothing_is_summed"
        "[a linear map whose rows and columns other weights have, too-D]",
    ),
    _mutant(
        "lines of which nothing is read are counted", "interpreters/count/inventory.py",
        "if visit.idle or value not in work.used[function.name]:", "if visit.idle:",
        "interpreters.py::test_flops_of_each_form_alone_are_those_that_torch_counts[turns of which nothing is read]",
    ),
    _mutant(
        "layers of which nothing is read are counted", "interpreters/count/inventory.py",
        "unread = idle or value not in self.used[flow.function.name]", "unread = idle",
        "interpreters.py::test_flops_of_each_form_alone_are_those_that_torch_counts[layers of which nothing is read]",
    ),
    _mutant(
        "experts are chosen where there are no numbers", "interpreters/torch/fast.py",
        "if ends.is_meta else", "if not ctx else",
        "orders.py::test_chosen_experts_are_run_without_numbers",
    ),
)  # fmt: skip
