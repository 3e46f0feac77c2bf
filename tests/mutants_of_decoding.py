"""Which slips of what decoding keeps, and of how it goes on, would the tests notice? As `tests/mutants.py`."""

from __future__ import annotations

from tests.mutants import Mutant


def _mutant(name: str, file: str, old: str, new: str, *killers: str) -> Mutant:
    return Mutant(name, f"einformer/interpreters/{file}", old, new, tuple(f"tests/test_{killer}" for killer in killers))


KEPT, CACHE, PAST, GENERATE = "cache/plan.py", "torch/cache.py", "torch/past.py", "torch/generate.py"
STEPS, STATIC = "decode.py::test_step_by_step_is_all_at_once", "decode.py::test_a_static_cache_holds_the_same"

MUTANTS = (
    *(
        Mutant(
            f"a formula of positions: {what}", "einformer/program/positions.py", old, new,
            (f"tests/test_forms.py::test_a_form_is_computed_whole_and_in_parts[{form}-apart-fast]",),
        )
        for what, old, new, form in (
            ("of several lines", "if lines[equation.left.name] == 1 and", "if",
             "attention to numbers of positions, then to more"),
            ("of inputs", "and inside & own <= names", "", "an input times zero"),
            ("what is given", "self.analysis.tells(values[k], formula=False)", "self.analysis.tells(values[k], formula=True)",
             "numbers of positions that a layer is given"),
        )
    ),
    # ------------------------------------------------------------------------------------------------ what is kept (R10)
    _mutant(
        "a window is kept one position short", KEPT,
        "return Reach(kind, None if None in backs else max((back for back in backs if back is not None), default=0))",
        "return Reach(kind, None if None in backs else max((back - 1 for back in backs if back is not None), default=0))",
        "cache.py::test_positions_are_counted_as_far_as_a_window_reaches", "cache.py::test_what_is_kept_suffices[mamba2]",
    ),
    _mutant(
        "what is masked is kept all the same", KEPT,
        "bounds = [bound for case in cases for bound in facts.upper(distance, case)]", "bounds = [()]",
        "cache.py::test_a_window_caps_the_bytes",
    ),
    _mutant(
        "what is given to a layer is not kept", KEPT,
        "elif anchor in self.reach:", "elif False:",
        "cache.py::test_any_text[a layer without weights keeps what it is given]",
    ),
    _mutant(
        "tokens count as numbers of the weights", "cache/entries.py",
        "WHOLE if entry.whole else element", "element",
        "cache.py::test_tokens_have_eight_bytes",
    ),
    _mutant(
        "a window in letters is one position short", "count/cached.py",
        "arithmetic.largest(backs) + 1))", "arithmetic.largest(backs)))",
        "cache.py::test_the_bytes_have_a_formula[mistral]",
    ),
    _mutant(
        "a tap too many in letters", "count/cached.py",
        "arithmetic.length(letter) + -1))", "arithmetic.length(letter)))",
        "cache.py::test_the_bytes_have_a_formula[mamba2]",
    ),
    _mutant(
        "in letters what is shared is counted for each layer", "count/cached.py",
        "if readings and isinstance(actual, Tensor) and self.as_it_stands(actual):", "if False:",
        "cache.py::test_bounds_of_any_text[keys that two layers share are kept once]",
    ),
    _mutant(
        "in letters what is made at s' is needed of all positions", "count/cached.py",
        "return readings or self.ahead.get(self.line.equation.left.name, [Reading(True)])", "return [Reading(True)]",
        "cache.py::test_bounds_of_any_text[what is projected at s' is kept itself]",
    ),
    # ---------------------------------------------------------------------------------------------- positions, padding
    _mutant(
        "positions are off by one", CACHE,
        "slots = torch.arange(self.total - count, self.total, device=self.device)",
        "slots = torch.arange(self.total - count, self.total, device=self.device) + 1",
        f"{STEPS}[gpt2-fast]",
    ),
    _mutant(
        "new positions start from zero", CACHE,
        "self.past, self.fresh, self.total, self.device = self.total, fresh, self.total + fresh, device",
        "self.past, self.fresh, self.total, self.device = 0, fresh, fresh, device",
        f"{STEPS}[llama-fast]",
    ),
    _mutant(
        "padding is attended to", CACHE,
        "(slots - self.padding[:, None]) % self.total", "(slots - self.padding[:, None]).clamp(min=0)",
        "decode.py::test_padding_does_not_matter[gpt2]",
    ),
    _mutant(
        "padding is part of a state", CACHE,
        "        if self.padding is None or self.past + step >= self.longest:\n            return x\n", "        return x\n",
        "decode.py::test_padding_does_not_matter[linear_attention]",
    ),
    _mutant(
        "padding is part of a running sum", CACHE,
        "total = torch.cumsum(self.real(x, axis, row), axis)", "total = torch.cumsum(x, axis)",
        "decode.py::test_padding_does_not_matter_in_any_text[the sum so far]",
    ),
    _mutant(
        "rows are looked for on the first axis", PAST,
        'return f", {at}" * bool(at)', 'return ""',
        "forms.py::test_rows_of_a_form_start_late[heads before rows-alike-notation]",
        "forms.py::test_rows_of_a_form_start_late[a state of pairs before rows-alike-fast]",
        "forms.py::test_rows_of_a_form_start_late[a running sum whose rows come last-apart-notation]",
    ),
    _mutant(
        "rows of a cache are not compared with those of the inputs", GENERATE,
        "        if theirs != rows:\n", "        if False:\n",
        "decode.py::test_a_cache_that_does_not_fit_is_refused",
    ),
    _mutant(
        "new positions see each other", CACHE,
        "self.sees_all = self.padding is None and fresh == 1", "self.sees_all = self.padding is None",
        f"{STEPS}[gpt2-fast]",
    ),
    _mutant(
        "padding is attended to where one position is new", CACHE,
        "self.sees_all = self.padding is None and fresh == 1", "self.sees_all = fresh == 1",
        "decode.py::test_padding_does_not_matter[gpt2]",
    ),
    _mutant(
        "every call is the first", CACHE,
        "self.first = self.padding is None and self.past == 0", "self.first = self.padding is None and fresh > 1",
        "decode.py::test_an_attention_is_said_to_be_causal_at_the_first_positions_only[gpt2]",
    ),
    _mutant(
        "a mask is misaligned", CACHE,
        "return x.narrow(axis, x.shape[axis] - seen, seen)", "return x.narrow(axis, 0, seen)",
        f"{STEPS}[gemma2-fast]",
    ),
    _mutant(
        "a position is looked for without its padding", CACHE,
        "return (numbers + rows - self.total + seen).clamp(0, seen - 1)",
        "return (numbers - self.total + seen).clamp(0, seen - 1)",
        "decode.py::test_padding_does_not_matter_in_any_text[a position with a name]",
    ),
    _mutant(
        "a position is looked for from the first that was", CACHE,
        "return (numbers + rows - self.total + seen).clamp(0, seen - 1)", "return (numbers + rows).clamp(0, seen - 1)",
        "decode.py::test_any_text[a window, and positions before it-fast]",
    ),
    _mutant(
        "a position is looked for outside of its ring", CACHE,
        "return (numbers + rows).clamp(min=0) % seen", "return (numbers + rows).clamp(0, seen - 1)",
        "decode.py::test_a_static_cache_of_any_text[a window, and positions before it]",
    ),
    _mutant(
        "before the start of time stands what came first", PAST,
        "return code if isinstance(e.slots[place], Index) else zeroed(code, inside)", "return code",
        "decode.py::test_any_text[a window, and positions before it-fast]",
    ),
    # ------------------------------------------------------------------------------------------------ the last positions
    _mutant(
        "the first outputs are given for the last", CACHE,
        "x.narrow(axis, count - self.asked, self.asked)", "x.narrow(axis, 0, self.asked)",
        "decode.py::test_the_last_outputs_are_those_of_all[gpt2-fast]",
    ),
    _mutant(
        "outputs are computed everywhere", "torch/decode.py",
        "        done = len(body) - len(self.tail())\n", "        done = len(body)\n",
        "decode.py::test_logits_are_computed_where_they_are_asked_for[gpt2]",
    ),
    _mutant(
        "other positions are read at the last positions only", "torch/tail.py",
        "return not over(e)", "return True",
        "decode.py::test_the_last_outputs_of_any_text[the sum so far]",
    ),
    # ------------------------------------------------------------------------------------------------------------ rows
    _mutant(
        "a stale row is read", CACHE,
        "store.narrow(axis, self.past, self.fresh).copy_(new)", "store.narrow(axis, 0, self.fresh).copy_(new)",
        f"{STEPS}[gpt2-fast]",
    ),
    _mutant(
        "what is stored is lost where the store grows", CACHE,
        "larger.narrow(axis, 0, self.past).copy_(store.narrow(axis, 0, self.past))", "pass",
        f"{STEPS}[gpt2-fast]",
    ),
    _mutant(
        "a window loses its oldest position", CACHE,
        "        seen = min(self.past, back)\n", "        seen = min(self.past, back - 1)\n",
        f"{STEPS}[mistral-fast]",
    ),
    _mutant(
        "a ring is overwritten too early", CACHE,
        "return self.size if back is None else min(back + 1, self.size)",
        "return self.size if back is None else min(back, self.size)",
        f"{STATIC}[mistral]",
    ),
    _mutant(
        "a ring is numbered from its first place", CACHE,
        "return self.newest - (self.newest - torch.arange(count, device=self.device)) % count",
        "return torch.arange(count, device=self.device)",
        f"{STATIC}[mistral]",
    ),
    _mutant(
        "a recurrence starts anew", CACHE,
        "return [*zeros, *held.unbind(axis)][-len(zeros) :]", "return zeros",
        f"{STEPS}[linear_attention-fast]",
    ),
    _mutant(
        "a running sum starts anew", CACHE,
        "        if path in self.rows:\n            total", "        if False:\n            total",
        f"{STEPS}[linear_attention_masked-fast]",
    ),
    _mutant(
        "all sequences share a cache", GENERATE,
        "return Cache(module.KEPT, padding, size, len(names) - 2 if len(names) > 1 else 0, module.SHARED)",
        'return self.__dict__.setdefault("one", Cache(module.KEPT, padding, size, len(names) - 2))',
        "decode.py::test_caches_do_not_share",
    ),
    _mutant(
        "a tensor is kept in two ways", "cache/entries.py",
        'if (e.layer, e.tensor) in visible and e.kind == "earlier" else e', "if False else e",
        "forms.py::test_a_form_is_computed_whole_and_in_parts[attention before a loop that shifts-apart-fast]",
        "forms.py::test_a_form_is_computed_whole_and_in_parts[attention before a loop that shifts-apart-notation]",
    ),
    _mutant(
        "what is changed and not kept is read as it was", "torch/decode.py",
        "self.past.forget(left.name)", "pass",
        "forms.py::test_what_is_not_kept_is_refused[attention, also to numbers that take the place of what is kept-apart-fast]",
    ),
    _mutant(
        "a loop that never turns changes what is kept", "torch/decode.py",
        "if self.lowering.turns(loop):", "if True:",
        "forms.py::test_a_form_is_computed_whole_and_in_parts[attention, a loop that never turns, and a shift-apart-fast]",
    ),
    Mutant(
        "any arithmetic in a slot is a step back", "einformer/program/recurrences.py",
        "isinstance(slot, Sum) and mine in slot.terms:", "isinstance(slot, Sum):",
        ("tests/test_forms.py::test_a_form_is_computed_whole_and_in_parts"
         "[states that change places, their letter first-apart-fast]",),
    ),
    Mutant(
        "in the reference a digit is a step back", "einformer/interpreters/reference/frame.py",
        "isinstance(slot, Sum) and mine in slot.terms:", "not isinstance(slot, Index | Group):",
        ("tests/test_forms.py::test_a_form_is_computed_whole_and_in_parts"
         "[two states that read each other, their letter first-apart-fast]",),
    ),
    _mutant(
        "what is kept is read at the numbers of positions", "torch/slots.py",
        "low.along(slot) if own and isinstance(slot, Index) else low.lower(slot)", "low.lower(slot)",
        "forms.py::test_a_form_is_computed_whole_and_in_parts[what a number selects at each position-apart-fast]",
        "forms.py::test_a_form_is_computed_whole_and_in_parts[a state of one key of several-apart-notation]",
    ),
    _mutant(
        "a state reads its step as its own axes are written", "torch/slots.py",
        "    return read_of(low, rest, step, wanted)\n", "    return _renamed(low, rest, step)\n",
        "forms.py::test_a_form_is_computed_whole_and_in_parts[two states that read each other-apart-fast]",
    ),
    _mutant(
        "what was kept in another precision goes on", GENERATE,
        'if cache.precision not in ("", self._precision()):', "if False:",
        "decode.py::test_a_cache_that_does_not_fit_is_refused",
    ),
    Mutant(
        "a layer has the sizes of its caller's positions", "einformer/language/weights.py",
        "return self.legend.length(axes.get(axis_of(letter), letter))",
        "return [self.legend.length(x) for x in (*axes.values(), axes.get(axis_of(letter), letter))][-1]",
        ("tests/test_forms.py::test_a_form_is_computed_whole_and_in_parts"
         "[a layer with weights at visible positions-apart-fast]",),
    ),
    _mutant(
        "a tensor is the scale of an attention", "torch/fuse.py",
        "if not (alike and self.lower(spelled(scale)).plain):", "if not alike:",
        "forms.py::test_a_form_is_computed_whole_and_in_parts[a weight of each turn in a call of one instance-apart-fast]",
    ),
    Mutant(
        "as many are counted as are asked for", "einformer/interpreters/count/numbers.py",
        "return min(int(self.value(count)), self.length(letter))", "return int(self.value(count))",
        ("tests/test_forms.py::test_no_more_are_counted_than_there_are[the largest of fewer experts-apart]",),
    ),
    Mutant(
        "a choice that turns make differently is one choice", "einformer/program/support.py",
        'case "top" if len(e.indices) == 1 and not self.scope.free(e.arguments[0]):', 'case "top" if len(e.indices) == 1:',
        ("tests/test_forms.py::test_no_more_are_counted_than_there_are[more of them in each turn-apart]",),
    ),
    _mutant(
        "what a turn does not need is as short as it is", CACHE,
        "return self.unread(new, axis, self.fresh + max(back or 0 for back in self.kept.values()))", "return new",
        "forms.py::test_a_form_is_computed_whole_and_in_parts[a choice by numbers that are data-alike-fast]",
    ),
    _mutant(
        "an instance is made where a branch is that holds it", "torch/blocks.py",
        "        if more or any(", "        if any(",
        "forms.py::test_a_module_has_the_weights_of_the_layers_that_turns_call[an instance in two branches-apart-fast]",
    ),
    _mutant(
        "a choice in a choice is not asked for", "torch/blocks.py",
        "yield from _around(child, name, [*choices, *chosen])", "yield from _around(child, name, chosen or choices)",
        "forms.py::test_a_module_has_the_weights_of_the_layers_that_turns_call[a choice in a sum in a choice-apart-fast]",
    ),
    _mutant(
        "a branch in a branch loses its parentheses", "torch/lower.py",
        "            return permuted(code, dims)\n        if not code.plain:",
        "            return replace(permuted(code, dims), level=ATOM)\n        if not code.plain:",
        "forms.py::test_a_form_is_computed_whole_and_in_parts[a choice in the first branch-apart-notation]",
    ),
    _mutant(
        "as many are chosen as are asked for", "torch/source.py",
        "torch.narrow(order, dim, 0, min(k, x.shape[dim]))", "torch.narrow(order, dim, 0, k)",
        "forms.py::test_a_form_is_computed_whole_and_in_parts[the largest of fewer positions-alike-fast]",
    ),
    _mutant(
        "as many experts are routed as are asked for", "torch/sparse.py",
        "    count = min(count, p_rx.shape[1])\n", "",
        "forms.py::test_a_form_is_computed_whole_and_in_parts[the largest of fewer experts-alike-fast]",
    ),
    _mutant(
        "what layers share is kept by each", "cache/entries.py",
        'source=kept if entry.source and kept != entry.full_path else "")', 'source="")',
        "decode.py::test_any_text[keys that two layers share are kept once-fast]",
    ),
    _mutant(
        "what layers are given is shared whatever it is", "cache/entries.py",
        "first.setdefault((entry.source, entry.layer,", "first.setdefault((bool(entry.source), entry.layer,",
        "decode.py::test_any_text[layers in a loop share keys and the last inputs-fast]",
    ),
    _mutant(
        "layers share what they keep", PAST,
        'return own + "".join(', 'return "" + "".join(',
        f"{STEPS}[llama-fast]",
    ),
    # ------------------------------------------------------------------------------------------------------------ text
    Mutant(
        "a letter that is begun is shown", "einformer/text.py",
        "piece = text[len(self.shown) : len(text) - min(begun, _BEGUN)]", "piece = text[len(self.shown) :]",
        ("tests/test_text.py::test_pieces_together_are_the_whole",),
    ),
    Mutant(
        "a token is spelled without the one before it", "einformer/text.py",
        "self.tokens = self.tokens[self.known :]", "self.tokens = []",
        ("tests/test_text.py::test_bytes_behind_a_token_are_a_letter",),
    ),
    Mutant(
        "the whole text is spelled for each token", "einformer/text.py",
        "self.tokens = self.tokens[self.known :]", "pass",
        ("tests/test_text.py::test_a_long_text_is_not_spelled_again_for_each_token",),
    ),
    # -------------------------------------------------------------------------------------------------------- choosing
    _mutant(
        "the first token beyond the share is not drawn", GENERATE,
        "share.cumsum(-1) - share >= self.top_p", "share.cumsum(-1) >= self.top_p",
        "generate.py::test_tokens_are_drawn_among_the_most_likely",
    ),
    _mutant(
        "a temperature multiplies", GENERATE,
        "logits_bv.float() / self.temperature", "logits_bv.float() * self.temperature",
        "generate.py::test_tokens_are_drawn_as_likely_as_the_logits_say",
    ),
    _mutant(
        "a row that has stopped goes on", GENERATE,
        "token_b = torch.where(stopped, new[:, -1], token_b)", "pass",
        "generate.py::test_a_row_that_has_stopped_repeats_its_stop",
    ),
    _mutant(
        "a continuation is judged one position late", GENERATE,
        "self.decode(whole[:, :-1], cache", "self.decode(whole[:, 1:], cache",
        "generate.py::test_log_prob_is_the_chain_rule",
    ),
)  # fmt: skip
