"""Which slips of contracts would the tests notice? One line each, with its killer."""

from __future__ import annotations

from tests.mutants import Mutant


def _mutant(name: str, module: str, old: str, new: str, killer: str) -> Mutant:
    return Mutant(name, f"einformer/contracts/{module}.py", old, new, (f"tests/test_{killer}",))


VERDICTS = "contracts.py::test_verdicts"

MUTANTS = (
    _mutant("a prime has a size of its own", "reader", "    letter = axis_of(letter)\n", "", VERDICTS),
    _mutant(
        "a longer axis is let through", "source",
        'yield f"{target} != {self.formula(size)}"', 'yield f"{target} < {self.formula(size)}"',
        "contracts.py::test_jaxtyping_and_beartype_agree",
    ),
    _mutant(
        "any dtype is let through", "source",
        'yield f"{value}.dtype not in', 'yield f"False and {value}.dtype not in',
        "contracts.py::test_jaxtyping_and_beartype_agree",
    ),
    _mutant(
        "sizes of what may be None are forgotten", "source",
        "        if name in self.loose:", "        if False:",
        VERDICTS,
    ),
    _mutant(
        "a field that nobody looks at may be missing", "source",
        "if isinstance(member.value, Anything):", "if False:",
        VERDICTS,
    ),
    _mutant(
        "a tuple may be longer", "source",
        'differs = len(item.value.members), "<" if item.value.more else "!="', 'differs = len(item.value.members), "<"',
        "contracts.py::test_verdicts[(k_bt, v_bt), z_b]",
    ),
    _mutant(
        "the sizes of an object do not count", "source",
        'f"{own} is not None and', 'f"{own} is None and',
        "contracts.py::test_an_object_binds_its_sizes",
    ),
    _mutant(
        "a block binds nothing", "source",
        'f"{known[\'USED\']} and not', 'f"False and not',
        "contracts.py::test_a_block_binds_sizes",
    ),
    _mutant("a size that does not divide", "check", "if not rest or length % rest:", "if not rest:", VERDICTS),
    _mutant(
        "every module is a run of its own", "watch",
        "        if not self._depth:\n            self._run", "        if True:\n            self._run",
        "watch.py::test_one_binding_for_the_whole_model",
    ),
    _mutant(
        "parameters bind nothing", "watch",
        "            self._run = Checker(joined(block(), self.sizes))", "            self._run = Checker(block())",
        "watch.py::test_a_block_that_swaps_two_axes",
    ),
    _mutant(
        "a probe with equal sizes", "probe",
        "    distinct(known)\n", "",
        "watch.py::test_a_probe_runs_on_sizes_that_differ",
    ),
    _mutant(
        "another value may have any size", "frames",
        "frame.held[size] <= {name, *loop}:", "True:",
        "plugin.py::test_verdicts",
    ),
    _mutant(
        "nothing may grow in a loop", "frames",
        "frame.held[size] <= {name, *loop}:", "False:",
        "plugin.py::test_verdicts",
    ),
)  # fmt: skip
