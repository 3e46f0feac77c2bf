"""How is an equation solved that reads its own left side at earlier positions (R4)? A step for each position, in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from einformer.errors import fail
from einformer.interpreters.torch.lower import Lowering
from einformer.interpreters.torch.slots import define, merged
from einformer.notation.calls import slot_letters
from einformer.notation.tree import Equation, Expression, Index, Number, Sum, Tensor
from einformer.notation.walk import subexpressions
from einformer.notation.weights import key


class Start:
    """What stands before the first step: zeros."""

    def before(self, zeros: str, axis: int) -> str:
        """The steps before the first, of which these would be zeros."""
        return zeros

    def each(self, step: str, rest: Tensor) -> str:
        """One step, which has the slots of `rest`."""
        return step


def solved(low: Lowering, equation: Equation, letter: str, start: Start) -> Iterator[str]:
    """The lines that compute every step and stack them."""
    left = equation.left
    assert isinstance(left, Tensor)
    axis = next(k for k, slot in enumerate(left.slots) if isinstance(slot, Index) and slot.letter == letter)
    rest = replace(left, slots=left.slots[:axis] + left.slots[axis + 1 :])
    own = [e for e in subexpressions(equation.right) if isinstance(e, Tensor) and e.name == left.name]
    reach = max(-_offset(e.slots[axis], letter) for e in own)
    steps = f"{key(left.name)}_steps"
    sizes = ", ".join(low.size(i) for i in slot_letters(rest)) or "()"
    low.needs["dtype"] = low.needs["device"] = None
    yield f"{steps} = {start.before(f'[torch.zeros({sizes}, dtype=dtype, device=device)] * {reach}', axis)}"
    yield f"for step in range({low.size(letter)}):"
    inner = replace(low, still=low.still | {letter: "step"}, steps=(left.name, steps, axis))
    code = inner.lower(equation.right, slot_letters(rest))
    code = inner.filled(code, (), "tensor") if code.plain else code
    yield f"    {steps}.append({start.each(merged(low, rest, code), rest)})"
    yield f"{define(low, left, 'tensor')} = torch.stack({steps}[{reach}:], {axis})"


def _offset(slot: Expression, letter: str) -> int:
    """-1 of `(s - 1)`."""
    match slot:
        case Sum(terms=(Index(letter=found), Number(value=int() as step))) if found == letter and step < 0:
            return step
        case _:
            raise fail("E507", "a recurrence reads a fixed number of positions back", slot.span, fix=f"`({letter} - 1)`")
