"""Is every form of a text computed as the reference does: whole, step by step, in chunks, with rows that start late?"""

from __future__ import annotations

from typing import Any

import pytest
import sympy
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

import einformer
from tests.few import few
from tests.forms import BATCH, CALLED, CHOSEN, FORMS, KINDS, SIZES, Form
from tests.heads import output_letters
from tests.small import LENGTH, PLANS, built, error, inputs, weights
from tests.test_decode import parts

VALUES = 1e-11
STARTS = (4, 0)

every_form = pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
every_size = pytest.mark.parametrize("sizes", few(SIZES, {"apart"}))
every_plan = pytest.mark.parametrize("plan", few(PLANS, {"fast"}))


class Case:
    """A form with its sizes as a module, and inputs for it."""

    def __init__(self, form: Form, sizes: str, plan: str) -> None:
        self.bound = form.model(sizes)
        self.module: Any = built(self.bound, plan)
        self.arrays = inputs(self.bound, {"B": BATCH})
        self.letters = output_letters(self.bound)

    def expected(self, rows: slice = slice(None), start: int = 0) -> Any:
        """What the reference says of some rows from a position on."""
        return self.bound.reference(*(array[rows, start:] for array in self.arrays), weights=weights(self.bound))

    def decoded(self, lengths: list[int], padding: Tensor | None = None, steady: bool = False) -> Tensor:
        """The outputs of all chunks, those after the first with a cache that keeps its shapes where it is to be `steady`."""
        first, *rest = parts(self.arrays, lengths)
        cache = self.module.cache(padding)
        outputs = [self.module.decode(*first, cache=cache)]
        cache = self.module.static(cache, LENGTH) if steady else cache
        outputs += [self.module.decode(*chunk, cache=cache) for chunk in rest]
        return torch.cat(outputs, self.letters.index("s"))

    def row(self, outputs: Tensor, row: int, start: int) -> Tensor:
        """One row of the outputs from its start on."""
        axis = self.letters.index("s")
        return outputs.narrow(self.letters.index("b"), row, 1).narrow(axis, start, LENGTH - start)


@every_plan
@every_size
@every_form
def test_a_form_is_computed_whole_and_in_parts(form: Form, sizes: str, plan: str) -> None:
    case = Case(form, sizes, plan)
    expected = case.expected()
    assert error(case.module(*map(torch.from_numpy, case.arrays)), expected) < VALUES
    assert error(case.decoded([1] * LENGTH), expected) < VALUES
    assert error(case.decoded([4, 3, 1, 3]), expected) < VALUES
    assert error(case.decoded([3] + [1] * (LENGTH - 3), steady=True), expected) < VALUES


@every_plan
@every_size
@every_form
def test_rows_of_a_form_start_late(form: Form, sizes: str, plan: str) -> None:
    """Whatever stands before their start."""
    case = Case(form, sizes, plan)
    for array in case.arrays:
        array[0, : STARTS[0]] = 7 if array.dtype == int else 1e30
    late = torch.tensor(STARTS)
    for outputs in (case.decoded([3, 1, 1, 6], late), case.decoded([4] + [1] * (LENGTH - 4), late, steady=True)):
        for row, start in enumerate(STARTS):
            assert error(case.row(outputs, row, start), case.expected(slice(row, row + 1), start)) < VALUES


@every_plan
@pytest.mark.parametrize("form", CALLED, ids=lambda form: form.name)
def test_a_call_is_computed_and_counted_once(form: Form, plan: str) -> None:
    """Not for all turns of the loop around it, in which one of them is meant: in numbers, in letters, and as torch counts."""
    bound, sizes = form.model("apart"), {"B": BATCH, "S": LENGTH}
    counted = bound.flops(B=BATCH, S=LENGTH)
    with FlopCounterMode(display=False) as counter:
        built(bound, plan)(*map(torch.from_numpy, inputs(bound, sizes)))
    formula = einformer.parse(form.text).flops()
    assert counter.get_total_flops() == counted == formula.subs(SIZES["apart"] | sizes)
    assert all(sympy.degree(formula, letter) <= 1 for letter in formula.free_symbols if letter.name == "L")


@every_size
@pytest.mark.parametrize("form", CHOSEN, ids=lambda form: form.name)
def test_no_more_are_counted_than_there_are(form: Form, sizes: str) -> None:
    """Of what is chosen: of weights that compute, of FLOPs, of bytes; also where turns of a loop choose differently."""
    bound = form.model(sizes)
    open_ = einformer.parse(form.text.replace("top_{", "top_{99 + ")).bind(**dict(bound.legend.values))
    counts = bound.parameter_counts
    assert counts == open_.parameter_counts
    assert counts["active"] == counts["total"]
    assert bound.flops(convention="exact", B=BATCH, S=LENGTH) == open_.flops(convention="exact", B=BATCH, S=LENGTH)
    assert bound.memory(B=BATCH, S=LENGTH).total == open_.memory(B=BATCH, S=LENGTH).total


@every_plan
@every_size
@pytest.mark.parametrize("form", KINDS, ids=lambda form: form.name)
def test_a_module_has_the_weights_of_the_layers_that_turns_call(form: Form, sizes: str, plan: str) -> None:
    bound = form.model(sizes)
    module = bound.build(plan=plan).eval()
    assert {path: tuple(x.shape) for path, x in module.state_dict().items()} == bound.weight_shapes()
    assert sum(x.numel() for x in module.parameters()) == bound.num_parameters


CROSS = """axes
  b: B
  s: S
  d: D
  t: T
model Form({}) -> y_bsd causal in s:
  w_bss' = Sm_s'(z_bsd z_bs'd + where(s' <= s, 0, -inf))
  h_bsd = w_bss' z_bs'd
  w'_bst = Sm_t(h_bsd c_btd)
  return w'_bst c_btd
"""


@every_plan
@pytest.mark.parametrize("head", ["z_bsd, c_btd", "c_btd, z_bsd"])
def test_inputs_without_positions_stand_anywhere(head: str, plan: str) -> None:
    """They are given anew with each chunk."""
    bound = einformer.parse(CROSS.format(head)).bind(D=3, T=4)
    module: Any = built(bound, plan)
    arrays = [torch.as_tensor(array) for array in inputs(bound, {"B": BATCH})]
    at = head.split(", ").index("z_bsd")
    cache, outputs = module.cache(), []
    for chunk in torch.split(arrays[at], [4, 3, 1, 3], 1):
        outputs.append(module.decode(*arrays[:at], chunk, *arrays[at + 1 :], cache=cache))
    assert error(torch.cat(outputs, 1), bound.reference(*arrays, weights={})) < VALUES


@every_plan
@pytest.mark.parametrize("form", [form for form in FORMS if "running" in form.name], ids=lambda form: form.name)
def test_a_running_sum_stays_where_it_is_and_is_not_given_away(form: Form, plan: str) -> None:
    """A compiled step knows the place of what is kept; what it returned stays what it was."""
    case = Case(form, "apart", plan)
    first, *rest = parts(case.arrays, [3] + [1] * (LENGTH - 3))
    before = case.module.cache()
    case.module.decode(*first, cache=before)
    cache = case.module.static(before, LENGTH)
    places = {path: rows.data_ptr() for path, rows in cache.rows.items()}
    for chunk in rest:
        output = case.module.decode(*chunk, cache=cache)
        assert output.data_ptr() not in places.values()
    assert {path: rows.data_ptr() for path, rows in cache.rows.items()} == places
