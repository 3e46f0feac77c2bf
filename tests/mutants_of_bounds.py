"""Which slips of bounds, growth, solved sizes and pictures would the tests notice? One line each, with its killer."""

from __future__ import annotations

from tests.mutants import Mutant


def _mutant(name: str, module: str, old: str, new: str, killer: str) -> Mutant:
    return Mutant(name, f"einformer/{module}.py", old, new, (f"tests/test_{killer}",))


COUNT = "interpreters/count/"
ROOFLINE, FIT, PLOT = "roofline.py::", "fit.py::", "plot.py::"

MUTANTS = (
    _mutant(
        "one operand is read", COUNT + "traffic",
        "for step in steps for letters in (step.left, step.right))", "for step in steps for letters in (step.left,))",
        ROOFLINE + "test_what_a_product_of_matrices_moves_is_the_sum_of_their_numbers",
    ),
    _mutant(
        "what is written does not move", COUNT + "traffic",
        "return total((self.read, self.written))", "return total((self.read,))",
        ROOFLINE + "test_a_square_projection_has_the_intensity_of_the_notes_corrected",
    ),
    _mutant(
        "fused scores leave the chip", COUNT + "traffic",
        "if self.fused and two_positions(", "if False and two_positions(",
        ROOFLINE + "test_attention_of_a_prompt_has_the_intensity_of_the_scaling_book",
    ),
    _mutant(
        "a table read by rows is read whole", COUNT + "roofline",
        "if each.trained and (each.path, each.name) not in rows)", "if each.trained)",
        ROOFLINE + "test_a_table_that_is_not_the_head_is_read_by_rows",
    ),
    _mutant(
        "a table that is the head too is not read", COUNT + "roofline",
        "for read in (e.name, *_tied(weights[e.name]))}", "for read in (e.name,)}",
        ROOFLINE + "test_a_table_that_is_not_the_head_is_read_by_rows",
    ),
    _mutant(
        "idle experts must be read", COUNT + "roofline",
        "sum(each.times * each.active for each in counts)", "sum(each.total for each in counts)",
        ROOFLINE + "test_only_the_experts_of_one_token_must_be_read",
    ),
    _mutant(
        "the optimiser only reads", COUNT + "roofline",
        "moved = 2 * state * numbers", "moved = state * numbers",
        ROOFLINE + "test_a_training_step_moves_what_the_optimiser_changes_twice",
    ),
    _mutant(
        "gradients must leave the chip", COUNT + "roofline",
        "precision.total - precision.gradients - precision.main_gradients", "precision.total",
        ROOFLINE + "test_a_training_step_moves_what_the_optimiser_changes_twice",
    ),
    _mutant(
        "computing and moving take turns", COUNT + "roofline",
        "return max(self.computing, self.moving)", "return self.computing + self.moving",
        ROOFLINE + "test_a_260b_on_sixteen_devices_takes_what_kipply_says",
    ),
    _mutant(
        "a prompt needs all of its logits", COUNT + "roofline",
        'replace(EXACT, name="prefill", logits="last")', 'replace(EXACT, name="prefill")',
        ROOFLINE + "test_a_prompt_computes_only_its_last_logits_and_half_of_the_pairs",
    ),
    _mutant(
        "what fits exactly is too large", COUNT + "bisection",
        "(middle, beyond) if count(middle * step) <= limit", "(middle, beyond) if count(middle * step) < limit",
        FIT + "test_the_largest_is_that_of_a_scan",
    ),
    _mutant(
        "a GB is a GiB", COUNT + "bisection",
        'f"{prefix}B": 1000**power', 'f"{prefix}B": 1024**power',
        FIT + "test_a_size_is_decimal_or_binary_as_its_unit_says",
    ),
    _mutant(
        "the smallest power leads", COUNT + "growth",
        "highest = max(powers)", "highest = min(powers)",
        FIT + "test_the_growth_of_a_formula",
    ),
    _mutant(
        "a minimum grows as its largest", COUNT + "growth",
        "(min if isinstance(e, sympy.Min) else max)", "(max if isinstance(e, sympy.Min) else max)",
        FIT + "test_the_growth_of_a_formula",
    ),
    _mutant(
        "generation keeps no weights", "report/fit",
        "return lambda sizes: weights + cache.count(", "return lambda sizes: cache.count(",
        FIT + "test_generation_holds_weights_and_cache",
    ),
    _mutant(
        "a width need not be divisible", "report/fit",
        'if error.findings[0].code == "E602":', "if False:",
        FIT + "test_a_width_keeps_rotary_pairs_whole",
    ),
    _mutant(
        "a picture is written in its place", "report/plot",
        'beside = path.with_name(f".{path.name}.{os.getpid()}")', "beside = path",
        PLOT + "test_a_picture_that_fails_leaves_the_old_file",
    ),
)  # fmt: skip
