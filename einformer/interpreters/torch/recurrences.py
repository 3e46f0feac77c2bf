"""How is an equation solved that reads its own left side at earlier positions (R4)? A step for each position, in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from einformer.interpreters.torch.code import Code, Kind
from einformer.interpreters.torch.lower import Lowering
from einformer.interpreters.torch.slots import Variable, define, merged, place
from einformer.language.calls import slot_letters
from einformer.language.slots import Whole
from einformer.language.tree import Equation, Index, Name, Tensor
from einformer.language.walk import subexpressions
from einformer.language.weights import key
from einformer.program.recurrences import backs


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
    reach = max(backs(low.numbers, e.slots[axis], letter)[1] for e in own)
    steps = f"{key(left.name)}_steps"
    labels = tuple(slot_letters(Tensor("", (slot,))) for slot in rest.slots)
    sizes = ", ".join(" * ".join(map(low.size, label)) for label in labels) or "()"
    whole = Whole(low.layer, low.layers, low.legend).needs(Name(left.name)) == frozenset()
    kind: Kind = "integer" if whole else "tensor"
    low.needs |= dict.fromkeys(["device"] if whole else ["dtype", "device"])
    zeros = f"torch.zeros({sizes}, dtype={'torch.long' if whole else 'dtype'}, device=device)"
    yield f"{steps} = {start.before(f'[{zeros}] * {reach}', axis)}"
    yield f"for step in range({low.size(letter)}):"
    known = {**low.variables, left.name: Variable(steps, labels, kind)}
    inner = replace(low, still=low.still | {letter: "step"}, steps=(left.name, letter, axis), variables=known)
    code = inner.lower(equation.right, slot_letters(rest))
    yield f"    {steps}.append({start.each(step(low, rest, code, whole), rest)})"
    yield f"{define(low, left, kind)} = torch.stack({steps}[{reach}:], {axis})"


def step(low: Lowering, rest: Tensor, code: Code, whole: bool) -> str:
    """One step with an axis for each slot; of whole numbers integers, which stay exact in any dtype."""
    if not whole:
        return merged(low, rest, code)
    number = code if code.kind == "integer" else Code(place(code), code.dims, "integer")
    return merged(low, rest, number) if rest.slots else f"torch.as_tensor({number.text}, device=device)"
