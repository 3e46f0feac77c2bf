"""Which slips of the lowering to PyTorch would the tests notice? As in `tests.mutants`."""

from __future__ import annotations

from tests.mutants import Mutant


def _mutant(name: str, file: str, old: str, new: str, *killers: str) -> Mutant:
    return Mutant(name, f"einformer/interpreters/torch/{file}.py", old, new, tuple(f"tests/test_{each}" for each in killers))


def _row(name: str, old: str, new: str, *killers: str) -> Mutant:
    return Mutant(name, "einformer/language/primitives.py", old, new, tuple(f"tests/test_{each}" for each in killers))


def _values(*names: str) -> tuple[str, ...]:
    return tuple(f"torch.py::test_values_are_the_references[{name}]" for name in names)


def _canonical(name: str, old: str, new: str, *killers: str) -> Mutant:
    return Mutant(name, "einformer/program/canonical.py", old, new, tuple(f"tests/test_{each}" for each in killers))


_CHANGED = "canonical.py::test_what_is_changed_is_another_value"


def _softmax(name: str, old: str, new: str, *killers: str) -> Mutant:
    return Mutant(
        name, "einformer/program/softmax.py", old, new, tuple(f"tests/test_softmax.py::test_a_softmax_{x}" for x in killers)
    )


_SPELLED = "canonical.py::test_a_causal_attention_is_one_kernel"
_BIASED = "canonical.py::test_a_biased_attention_is_one_kernel[in the mask]"
_ONE = "lowering.py::test_one_equation"
_ATTENTION = "lowering.py::test_attention_however_it_is_written"

MUTANTS = (
    *(
        _mutant(
            f"what stands elsewhere is read again: {what}", "fast", "before != (len(low.taken), len(low.dropped))", new,
            f"interpreters.py::test_each_form_alone[a softmax of what attention gives{form}]",
        )
        for what, new, form in (
            ("its weights", "before[1] != len(low.dropped)", ""),
            ("its mask", "before[0] != len(low.taken)", ", with a mask on its own line"),
        )
    ),
    # -------------------------------------------------------------------------------- calls in loops, bare numbers
    Mutant(
        "the letter of a loop is an axis of what a call is given", "einformer/language/specialise.py",
        "zip(e.arguments, (bound | self.still for bound in binding.bound), strict=True)",
        "zip(e.arguments, binding.bound, strict=True)",
        ("tests/test_forms.py::test_a_call_is_computed_and_counted_once"
         "[a table of each turn, and the first of all, in a call-notation]",),
    ),
    Mutant(
        "a letter that runs inside of a loop over it stands still", "einformer/language/specialise.py",
        "self.still.difference(letters)", "self.still",
        ("tests/test_forms.py::test_a_form_is_computed_whole_and_in_parts"
         "[a call inside of a sum over the letter of a loop around it-apart-notation]",),
    ),
    Mutant(
        "a tensor has the axes of its first definition alone", "einformer/language/specialise.py",
        "        while before != self.carried:\n", "        if before != self.carried:\n",
        ("tests/test_forms.py::test_a_form_is_computed_whole_and_in_parts"
         "[what is made of a tensor that changes later-apart-notation]",),
    ),
    _mutant(
        "a number that a line changes is one of Python", "classes",
        "if equation.left.name not in self.changed:", "if True:",
        "slots.py::test_a_table_is_read_at_computed_numbers[a number that is halved-notation]",
    ),
    # -------------------------------------------------------------------------------------------------- definitions
    _canonical(
        "a turn begins with what was known before the loop",
        "follow(statement.body, known | {name: Definition() for name in changed}, ", "follow(statement.body, known, ",
        f"{_CHANGED}[the mask in each turn-fast]",
    ),
    _canonical(
        "after a loop is what was known before it",
        "known = known | {name: Definition() for name in changed}", "pass",
        f"{_CHANGED}[the mask in each turn-fast]",
    ),
    _canonical(
        "a value moves past a change of what it reads",
        "return right if definition.holds(right, self.known) else e", "return right",
        f"{_CHANGED}[the query after the scores-fast]", f"{_CHANGED}[the keys after the scores-fast]",
    ),
    _mutant(
        "a constant is what its name was first", "constants",
        "defined[equation.left.name] == 1", "equation.left.name not in known",
        f"{_CHANGED}[a function of positions that a layer changes-fast]",
    ),
    # ------------------------------------------------------------------------------------------------------- values
    _canonical(
        "below is at most",
        "Fraction(ceil(constant) - 1 if strict else floor(constant))",
        "Fraction(ceil(constant) if strict else floor(constant))", f"{_SPELLED}[below the next]",
    ),
    _canonical(
        "of two bounds the wider counts", "closest[kind, terms] = min(", "closest[kind, terms] = max(",
        f"{_SPELLED}[and what is always true]",
    ),
    _canonical("a mask is causal whatever it is where it is open", "return not self.value(zero) and ", "return ", _BIASED),
    _mutant("scores have no scale of their own", "fuse", 'return "1"', 'return ""', "canonical.py::test_sums_of_scores"),
    # ------------------------------------------------------------------------------------------------------ softmax
    _softmax(
        "a mask that holds nowhere for certain has something", "if not masks:", "if True:",
        "over_nothing_is_zero[memories that come later-fast]",
    ),
    _softmax(
        "what a layer is given is finite", "e.name not in reach.known and e.name not in self.given) else None",
        "e.name not in reach.known) else None", "over_nothing_is_zero[a mask that a layer is given-fast]",
    ),
    _softmax(
        "a logarithm is finite", "else row.at_zero != -math.inf", "else True",
        "over_nothing_is_zero[a logarithm of nothing-fast]",
    ),
    _softmax(
        "no mask holds for certain", "*(x for condition, _, _ in masks", "*(x for condition, _, _ in []",
        "that_has_something_is_that_of_torch[the position itself-fast]",
    ),
    # -------------------------------------------------------------------------------------------------- expressions
    _mutant(
        "einsum puts out another order", "lower",
        "(*(code.dims for code in codes), dims)", "(*(code.dims for code in codes), dims[::-1])",
        *_values("gpt2-notation"),
    ),
    _mutant(
        "an einsum has one letter for two indices", "letters",
        "free = (letter for letter in string.ascii_letters if letter not in letters.values())",
        "free = iter(string.ascii_letters)",
        "odd_texts.py::test_a_text_may_have_more_indices_than_there_are_letters",
    ),
    _mutant(
        "a scalar of whole numbers stays whole", "heads",
        'low.cast(low.lower(scalar.value, letters), "number")', "low.lower(scalar.value, letters)",
        "odd_texts.py::test_a_function_of_whole_numbers_is_computed_as_finely_as_all[notation]",
    ),
    _mutant(
        "a file may read names that nothing defines", "source",
        "    refuse_unbound(special, legend)\n", "",
        "binding.py::test_every_size_that_is_missing_is_told_once[a loop-notation]",
    ),
    _mutant(
        "a layer that no turn calls is asked what it keeps", "decode",
        "if layer.name not in self.live:", "if False:",
        "odd_texts.py::test_a_layer_that_no_turn_calls_keeps_nothing[2-fast]",
    ),
    _mutant(
        "permute takes the inverse order", "code",
        "order = [code.dims.index(dim) for dim in dims]", "order = [dims.index(dim) for dim in code.dims]",
        *_values("mamba2-fast"),
    ),
    _mutant(
        "a group is split the other way", "slots",
        'sizes = ", ".join(low.size(letter) for letter in letters)\n            code',
        'sizes = ", ".join(low.size(letter) for letter in letters[::-1])\n            code',
        *_values("llama_interleaved-notation"),
    ),
    _mutant(
        "a group is counted from its last member", "lower",
        "for member in e.members:", "for member in reversed(e.members):",
        *_values("llama_interleaved-notation"),
    ),
    _mutant(
        "heads are merged in the order in which they lie", "slots",
        "code = permuted(code, letters) if whole else", "code = replace(code, dims=letters) if whole else",
        *_values("gpt2-notation"),
    ),
    _mutant(
        "the last term is forgotten", "lower",
        "for k, code in enumerate(codes[1:], 1):", "for k, code in enumerate(codes[1:-1], 1):",
        *_values("gpt2-notation"),
    ),
    _mutant(
        "a minus is a plus", "lower",
        "{signs[k] if signs else '+'}", "+",
        f"{_ONE}[(1 - z_bsd) / 3]",
    ),
    _mutant(
        "a minus negates what a remainder divides", "primitives",
        "return Code(text, dims, combined(arguments), SUM)", "return Code(text, dims, combined(arguments), POWER)",
        "precedence.py::test_each_interpreter_subtracts_a_remainder[-d mod 3]",
    ),
    _mutant(
        "what is subtracted falls apart", "lower",
        "{aligned(self.cast(code, kind), dims, PRODUCT)}\"\n        return Code(text, dims, kind, SUM)",
        "{aligned(self.cast(code, kind), dims, LOOSE)}\"\n        return Code(text, dims, kind, SUM)",
        f"{_ONE}[z_bsd - (o_bsd - z_bsd)]",
    ),
    _mutant(
        "a quotient is a product", "lower",
        "dims, PRODUCT)} / {aligned", "dims, PRODUCT)} * {aligned",
        f"{_ONE}[(1 - z_bsd) / 3]",
    ),
    _mutant(
        "a denominator is summed over", "lower",
        "bottom is not None and letters & set(bottom.dims)", "bottom is not None",
        *_values("gpt2-notation"),
    ),
    _mutant(
        "index numbers have the dtype of the weights", "heads",
        'return "number = torch.promote_types(dtype, torch.float32)"', 'return "number = dtype"',
        "lowering.py::test_angles_are_at_least_single_precision",
    ),
    _mutant(
        "numbers chosen by a condition are narrow", "primitives",
        "if all(code.kind == \"integer\" or", "if all(code.plain or",
        f"{_ONE}[where(d < 3, 0.3, 0.7) z_bsd]",
    ),
    # ------------------------------------------------------------------------------------------------- the primitives
    _row(
        "the mask is inverted",
        'torch="{} <= {}"', 'torch="{} > {}"',
        *_values("gpt2-notation"),
    ),
    _mutant(
        "min clamps from below", "primitives",
        '"min" if row.name == "max" else "max"', '"max" if row.name == "max" else "min"',
        *_values("gpt_oss-notation"),
    ),
    _row(
        "of two tensors always the larger",
        'torch.minimum({}, {})', 'torch.maximum({}, {})',
        f"{_ONE}[min(z_bsd, o_bsd)]",
    ),
    _row(
        "gelutanh is gelu",
        'torch=\'fn.gelu({}, approximate="tanh")\'', 'torch="fn.gelu({})"',
        *_values("gpt2-notation", "gpt2-fast"),
    ),
    _row(
        "the variance is that of a sample",
        'correction=0', 'correction=1',
        *_values("gpt2-notation"),
    ),
    _row(
        "softmax runs over the first of its axes",
        'together="softmax({}, {})"', 'together=""',
        f"{_ONE}[Sm_{{sd}} z_bsd]",
    ),
    _mutant(
        "top takes the smallest", "source",
        "descending=True", "descending=False",
        *_values("mixtral-fast"),
    ),
    _mutant(
        "of equal numbers the last is top", "source",
        ".sort(dim=dim, descending=True, stable=True).indices", ".argsort(dim, stable=True).flip(dim)",
        "lowering.py::test_of_equal_numbers_the_first_is_top",
    ),
    _row(
        "a function of a number is computed as it is written",
        'python="(1 + math.tanh({} / 2)) / 2"',
        'python="(1 + math.tanh({})) / 2"',
        "primitives.py::test_plain_numbers_are_those_of_the_reference[sigmoid function]",
    ),
    _mutant(
        "what is divided in a function of numbers is not held together", "primitives",
        'argument.text if "({})" in template or "({}," in template else argument.at(ATOM)', "argument.text",
        "primitives.py::test_every_row_in_every_interpreter[z_bsd gelu(2 c / 3 + 1)]",
    ),
    _row(
        "dropout drops always",
        '{}, self.training)', '{}, True)',
        "torch.py::test_dropout_is_in_training_only[notation]",
    ),
    _row(
        "dropout never drops",
        '{}, self.training)', '{}, False)',
        "torch.py::test_dropout_keeps_the_mean",
    ),
    # ----------------------------------------------------------------------------------------- time, loops, recurrences
    _mutant(
        "before the start of time nothing is zeroed", "slots",
        "    if condition is None:\n        return code\n", "    if True:\n        return code\n",
        *_values("mamba2-notation", "mamba2-fast"),
    ),
    _mutant(
        "a computed position before the start is the last", "slots",
        "    if early:\n", "    if False:\n",
        "slots.py::test_before_the_start_of_time_is_zero_however_it_is_computed[a name-fast]",
    ),
    _mutant(
        "what is not proved to lie inside is not checked", "slots",
        "    if not proved:\n", "    if False:\n",
        "slots.py::test_what_data_decide_is_checked_when_it_runs[notation]",
    ),
    _mutant(
        "gradients feel the branch that is not taken", "lower",
        'if code.kind != "tensor" or all(guard.code.plain for guard in self.guards):', "if True:",
        "slots.py::test_gradients_do_not_feel_a_branch_that_is_not_taken[a root-fast]",
    ),
    _mutant(
        "a name of the file stands for two things", "source",
        "if bound[called] > 1 or hasattr", "if hasattr",
        "name_spaces.py::test_a_scalar_may_have_any_name[t]",
    ),
    _mutant(
        "a recurrence is one step late", "recurrences",
        "torch.stack({steps}[{reach}:], {axis})", "torch.stack({steps}[:-{reach}], {axis})",
        *_values("mamba2-notation", "linear_attention-fast"),
    ),
    _mutant(
        "steps are stacked along another axis", "recurrences",
        "torch.stack({steps}[{reach}:], {axis})", "torch.stack({steps}[{reach}:], 0)",
        *_values("linear_attention-notation"),
    ),
    _mutant(
        "a scalar of the layers is that of the first", "slots",
        "{low.still[scalar.indices[0].letter]}", "0",
        *_values("gemma2-notation"),
    ),
    _mutant(
        "a layer takes the other branch", "lower",
        "{then.at(SUM)} if {condition.text} else {otherwise.at(SUM)}",
        "{otherwise.at(SUM)} if {condition.text} else {then.at(SUM)}",
        *_values("deepseek_v3-fast"),
    ),
    _mutant(
        "a short loop has as many blocks as a long one", "blocks",
        "if self.low.turns(loop) < self.low.turns(self.longest(depth)):", "if False:",
        "blocks.py::test_every_turn_has_its_own_weights[a short loop and a long one-notation]",
    ),
    _mutant(
        "a short loop runs through all blocks", "blocks",
        "len(paths) > 1 or self.low.turns(loop) < ", "len(paths) > 1 or 0 * self.low.turns(loop) > ",
        "blocks.py::test_every_turn_has_its_own_weights[a long loop and a short one-notation]",
    ),
    _mutant(
        "a branch that is a number stays one", "lower",
        "(self.filled(code, dims, kind) for code in (then, otherwise))", "(code for code in (then, otherwise))",
        "blocks.py::test_a_branch_that_is_a_number_is_a_tensor_of_it[fast]",
    ),
    # ---------------------------------------------------------------------------------------------------- attention
    _mutant(
        "the causal flag is forgotten", "fuse",
        'if self.past else ["is_causal=True"]', 'if self.past else ["is_causal=False"]',
        f"{_ATTENTION}[causal]",
    ),
    _canonical(
        "every window is causal only",
        "if any(term.number > 0 and self.infinite(term) for term in value):", "if len(value) > 2:",
        *_values("mistral-fast"),
    ),
    _canonical(
        "any comparison of s' is a causal mask",
        "and self.facts(condition, holds) == earlier", "",
        "lowering.py::test_a_mask_that_looks_ahead_is_not_causal",
    ),
    _mutant(
        "the scale is forgotten", "fuse",
        '([f"scale={scale}"] if scale else [])', "[]",
        f"{_ATTENTION}[another scale]", f"{_ATTENTION}[no scale]",
    ),
    _mutant(
        "a factor of the scores is forgotten", "patterns",
        "(lambda factor: not factor.letters), number=around.number)", "(lambda factor: not factor.letters))",
        f"{_ATTENTION}[a factor]",
    ),
    _mutant(
        "any root is the function's own scale", "fuse",
        "identity(root) == identity((scale,))", "alone",
        f"{_ATTENTION}[the root of another size]",
    ),
    _mutant(
        "heads in groups stand first", "fuse",
        "(*batch, *heads, *groups, position), len(", "(*batch, *groups, *heads, position), len(",
        *_values("llama-fast"),
    ),
    _mutant(
        "heads in groups are not said to be", "fuse",
        '(["enable_gqa=True"] if groups else [])', "[]",
        *_values("llama-fast"),
    ),
    _mutant(
        "attention drops always", "fuse",
        ".at(PRODUCT)} if self.training else 0.0", ".at(PRODUCT)}",
        "torch.py::test_dropout_is_in_training_only[fast]",
    ),
    _mutant(
        "attention never drops", "fuse",
        "if found.dropout is not None:", "if False:",
        "torch.py::test_dropout_of_attention_drops_weights[fast]",
    ),
    # ------------------------------------------------------------------------------------------- norms and linear maps
    _mutant(
        "a root mean square norm centres", "fuse",
        'if found.kind == "rms":', "if False:",
        *_values("llama-fast"),
    ),
    _mutant(
        "a norm has an ε of its own", "fuse",
        "self.size(found.letter), self.lower(found.epsilon).text", 'self.size(found.letter), "1e-4"',
        *_values("llama-fast"),
    ),
    _mutant(
        "a norm has no gain", "fuse",
        'gain = self.lower(found.gain).text if found.gain is not None else "None"', 'gain = "None"',
        *_values("llama-fast"),
    ),
    _mutant(
        "a map has no bias", "fuse",
        'f", {self.bias(found)}" if found.bias is not None else ""', '""',
        *_values("gpt2-fast"),
    ),
    _mutant(
        "parts of a product are named the other way", "fast",
        "{', '.join(names)} = {low.mapped", "{', '.join(names[::-1])} = {low.mapped",
        *_values("gpt2-fast"),
    ),
    _mutant(
        "maps are merged across a change of their input", "layout",
        "changed = {q.left.name for q in equations((statement,))}", "changed: set[str] = set()",
        "lowering.py::test_a_map_after_a_change_is_another",
    ),
    _mutant(
        "tensors lie as they are defined, not as attention reads them", "fast",
        "for axis in order)) if order else code", "for axis in order)) if False else code",
        "emitted.py::test_golden_source[fast]",
    ),
    _mutant(
        "lines fold at commas in brackets", "folding",
        "if not any(start <= m.start() < end for start, end in inside)]", "if True]",
        "emitted.py::test_a_line_folds_at_its_loosest_operators_then_in_its_longest_brackets",
    ),
    # ------------------------------------------------------------------------------------------------------- weights
    _mutant(
        "rows lie before columns", "fast",
        "for letter in lying.experts + lying.columns + part.rows)",
        "for letter in lying.experts + part.rows + lying.columns)",
        *_values("gpt2-fast"),
    ),
    _mutant(
        "weights are saved in the order in which they lie", "layout",
        "weight.permute([order.index(axis) for axis in range(len(order))])", "weight.permute(order)",
        "torch.py::test_plans_load_each_others_weights[mamba2]",
    ),
    _mutant(
        "weights are saved as views", "layout",
        "= weight.contiguous()", "= weight",
        "torch.py::test_a_state_dict_is_a_file_of_safetensors[gpt2-fast]",
    ),
    _mutant(
        "a weight of another shape is loaded", "layout",
        "elif given.shape != weight.shape:", "elif given.numel() != weight.numel():",
        "torch.py::test_a_missing_an_unknown_and_a_misshapen_weight_are_named[fast]",
    ),
    _mutant(
        "a tie is forgotten", "roles",
        'if w.kind != "instance" and (w.default is None or w.optional)]', 'if w.kind != "instance"]',
        "torch.py::test_plans_load_each_others_weights[llama_tied]",
    ),
    _mutant(
        "residual projections start like any other", "roles",
        'writes = residual if equation.relation == "return" and role.kind is Kind.MATRIX else None', "writes = None",
        "torch.py::test_gpt2_starts_as_its_authors_say",
    ),
    _mutant(
        "frozen weights thaw in a copy", "module",
        "parameter.requires_grad_(name not in frozen)", "parameter.requires_grad_(True)",
        "emitted.py::test_copies_are_equal_and_independent[gpt2-fast]",
    ),
    # ------------------------------------------------------------------------------------------------------- the door
    _mutant(
        "a sequence may be too long", "module",
        "if bound is not None and length > bound:", "if bound is not None and length > bound + 1:",
        "door.py::test_eager[longer than the longest-fast]",
    ),
    _mutant(
        "a token may be one beyond", "module",
        "high >= below", "high > below",
        "door.py::test_eager[a token beyond-fast]",
    ),
    _mutant(
        "the door lets inputs disagree", "module",
        "sizes.setdefault(letter, length)", "length",
        "door.py::test_inputs_that_disagree",
    ),
)  # fmt: skip
