"""Which slips of layers of experts, and of what is computed once, would the tests notice? As in `tests.mutants`."""

from __future__ import annotations

from tests.mutants import Mutant


def _mutant(name: str, file: str, old: str, new: str, *killers: str) -> Mutant:
    return Mutant(name, f"einformer/{file}", old, new, tuple(f"tests/test_{each}" for each in killers))


ROUTING = "program/routing.py"
SPARSE, CONSTANTS = (f"interpreters/torch/{name}.py" for name in ("sparse", "constants"))
CHOICES, SUPPORT = (f"program/{name}.py" for name in ("choices", "support"))
_TEXT = "sparse.py::test_only_what_is_chosen_is_computed"
_WAY = "sparse.py::test_however_it_is_written"

MUTANTS = (
    # ---------------------------------------------------------------------------------------------------- the equations
    _mutant(
        "a router does not normalise",
        "architectures/mixtral.ein",
        "p_x <- p_x / sum_x p_x",
        "p_x <- p_x / 1",
        "architectures.py::test_reference_is_transformers[mixtral-fan_in]",
    ),
    _mutant(
        "a shared expert is forgotten",
        "architectures/deepseek_v3.ein",
        "+ GatedMLP_o(z_d)",
        "+ 0 GatedMLP_o(z_d)",
        "architectures.py::test_reference_is_transformers[deepseek_v3-fan_in]",
    ),
    # ---------------------------------------------------------------------------------------------------- rows and experts
    _mutant(
        "pairs go back to other rows",
        SPARSE,
        "torch.argsort(order).unflatten",
        "order.unflatten",
        f"{_TEXT}[chosen]",
    ),
    _mutant(
        "rows are multiplied with the matrix of the expert before",
        SPARSE,
        "torch.mm(x[start:end], matrices[expert], out",
        "torch.mm(x[start:end], matrices[expert - 1], out",
        f"{_TEXT}[chosen]",
    ),
    _mutant(
        "an expert's rows end where they begin",
        SPARSE,
        "device=p_rx.device), right=True)",
        "device=p_rx.device), right=False)",
        f"{_TEXT}[chosen]",
    ),
    _mutant(
        "an expert learns from the rows of the next",
        SPARSE,
        "out=slopes[expert])",
        "out=slopes[expert - 1])",
        "sparse.py::test_however_many_are_chosen[2]",
    ),
    _mutant(
        "the kernel of a GPU is given other ends",
        SPARSE,
        "offs=ends.to(torch.int32)",
        "offs=(ends - 1).clamp(min=0).to(torch.int32)",
        "sparse.py::test_the_kernel_of_a_gpu_computes_the_same",
    ),
    # ----------------------------------------------------------------------------------------------------- recognising it
    _mutant(
        "what others read is computed for pairs only",
        ROUTING,
        "apart = id(e) not in inside and not routing.paired(equation)",
        "apart = False",
        f"{_TEXT}[read elsewhere]",
    ),
    _mutant(
        "what is computed before the choice stays there",
        ROUTING,
        "*late, *layer.body[known + 1 :])",
        "*layer.body[known + 1 :])",
        f"{_WAY}[experts first]",
    ),
    _mutant(
        "choices of two calls are one",
        CHOICES,
        "of=(id(call), *self.of)",
        "of=self.of",
        f"{_TEXT}[made by two layers]",
    ),
    _mutant(
        "a sum is zero where one term is",
        SUPPORT,
        "Support(shared(term.zero for term in terms)",
        "Support(union(term.zero for term in terms)",
        f"{_TEXT}[shifted]",
    ),
    _mutant(
        "a computed slot is read at its letter",
        CHOICES,
        "slot.letter for k, slot in enumerate(slots(tensor)) if isinstance(slot, Index)",
        "getattr(slot, 'letter', 'x') for k, slot in enumerate(slots(tensor))",
        f"{_TEXT}[read at other numbers]",
    ),
    _mutant(
        "what one call gives is given by all",
        ROUTING,
        "reduce(Support.meet, ",
        "next(",
        f"{_TEXT}[given to a layer once]",
    ),
    _mutant(
        "the worst order of a product is taken",
        "program/orders.py",
        "self.plans[mask] = min(",
        "self.plans[mask] = max(",
        "sparse.py::test_flops_of_a_family_are_those_counted[deepseek_v3]",
    ),
    # ------------------------------------------------------------------------------------------------ what is computed once
    _mutant(
        "a factor of two is dropped",
        CONSTANTS,
        "legend.number(Name(s.name)) == 1",
        "legend.number(Name(s.name)) == 2",
        "constants.py::test_a_model_computes_it_once[two]",
    ),
    _mutant(
        "a weight is taken for a constant",
        CONSTANTS,
        "if any(isinstance(x, Tensor | Name) and x.name in own for x in inside):",
        "if False:",
        "constants.py::test_a_number_that_is_learned_is_no_constant",
    ),
    _mutant(
        "an axis is read as it lies",
        "interpreters/torch/fuse.py",
        "torch.roll({code.text}, 1, {axis})",
        "torch.roll({code.text}, 2, {axis})",
        "torch.py::test_values_are_the_references[llama-fast]",
    ),
)
