"""How is a tensor read at its slots, and written with them: renamed, split, merged, or at computed numbers (R4)?"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from einformer.errors import EinformerError
from einformer.interpreters.torch.code import ATOM, LOOSE, POWER, PRODUCT, SUM, Code, Dims, Kind, aligned, ordered, permuted
from einformer.language.calls import axis_of, slot_letters
from einformer.language.sizes import Legend
from einformer.language.slots import Guards, Numbers
from einformer.language.tree import Expression, Group, Index, Name, Sum, Tensor
from einformer.language.weights import key
from einformer.program.recurrences import backs

Label = tuple[str, ...]  # the letters on one axis of a variable: one, or those of a group


@dataclass(frozen=True, slots=True)
class Variable:
    """A tensor that is defined: what it is called in Python, and the letters on each of its axes."""

    code: str
    labels: tuple[Label, ...]
    kind: Kind = "tensor"
    physical: Dims = ()  # the letters in the order in which they lie, where that is another
    counted: bool = False  # its positions are numbered as they lie, not as in the text

    @property
    def lying(self) -> Code:
        """The variable with its letters as they lie; only where each axis has one letter."""
        return Code(self.code, self.physical or tuple(letter for label in self.labels for letter in label), self.kind)


@dataclass(frozen=True, slots=True)
class Guard:
    """What holds in a branch of a `where`: its condition as code, true there or not, and the conditions that follow from it."""

    code: Code
    holds: bool
    parts: Guards


class Lowers(Protocol):
    """What a reading needs of the lowering that it is part of; `Lowering` says what each is."""

    legend: Legend
    time: str
    still: dict[str, str]
    steps: tuple[str, str, int]
    variables: dict[str, Variable]
    needs: dict[str, None]
    helpers: dict[str, None]
    guards: tuple[Guard, ...]
    tokens: frozenset[str]

    def called(self, kind: str, name: str, wanted: str) -> str:
        """The name in the file of a scalar, a layer or a block."""
        ...

    def setting(self, name: str) -> str:
        """A scalar, or a list of them, of the config."""
        ...

    @property
    def numbers(self) -> Numbers:
        """What is known of the numbers of indices."""
        ...

    def spelling(self, letter: str, /) -> str:
        """The letter of Python for an index."""
        ...

    def lower(self, e: Expression, wanted: Dims | None = None) -> Code:
        """The code of an expression."""
        ...

    def along(self, e: Index) -> Code:
        """The places of an index on an axis of positions."""
        ...

    def size(self, letter: str) -> str:
        """How many numbers an index runs through."""
        ...

    def cast(self, code: Code, kind: Kind) -> Code:
        """The code in another dtype."""
        ...

    def filled(self, code: Code, dims: Dims, kind: Kind) -> Code:
        """The code with exactly these axes."""
        ...


def variable_of(low: Lowers, name: str) -> Variable:
    """What a name stands for: a tensor of the body, a weight, or a scalar with indices."""
    if name in low.variables:
        return low.variables[name]
    scalar = low.legend.scalars[name]
    if [i.letter for i in scalar.indices if i.letter in low.still]:
        listed = low.setting(low.called("scalar", name, key(name)))
        return Variable(f"{listed}[{low.still[scalar.indices[0].letter]}]", (), "number")
    low.needs[f"scalar {name}"] = None
    return Variable(
        scalar_name(name, [i.letter for i in scalar.indices], low.spelling),
        tuple((i.letter,) for i in scalar.indices),
        "number",
    )


def read(low: Lowers, e: Tensor, wanted: Dims | None = None) -> Code:
    """`T_{…}`: axes renamed, split or merged where the slots are letters and groups; else read at computed numbers."""
    if e.name == low.steps[0]:
        return _step(low, e, wanted)
    return read_of(low, e, variable_of(low, e.name), wanted)


def read_of(low: Lowers, e: Tensor, variable: Variable, wanted: Dims | None = None) -> Code:
    """A variable at the slots of a tensor."""
    if not variable.labels:
        return Code(variable.code, (), variable.kind)
    if variable.physical:
        if all(isinstance(slot, Index) and slot.letter not in low.still for slot in e.slots):
            new = dict(zip((label[0] for label in variable.labels), (_letters(slot)[0] for slot in e.slots), strict=True))
            return Code(variable.code, tuple(new[letter] for letter in variable.physical), variable.kind)
        written = permuted(variable.lying, tuple(label[0] for label in variable.labels))
        variable = replace(variable, code=written.text, physical=())
    moved = [k for k, slot in enumerate(e.slots) if not _is_plain(slot)]
    if not moved:
        return _renamed(low, e, variable)
    letters = {letter for k, slot in enumerate(e.slots) if k not in moved for letter in _letters(slot)}
    numbers = [low.lower(e.slots[k], wanted) for k in moved]
    if len(moved) == 1 and not letters & set(numbers[0].dims):
        return taken(low, e, variable, moved[0], numbers[0])
    return _gathered(low, e, variable)


def _renamed(low: Lowers, e: Tensor, variable: Variable) -> Code:
    """A tensor whose slots are letters and groups of letters."""
    code, dims = variable.code, Dims()
    for k, (slot, label) in enumerate(zip(e.slots, variable.labels, strict=True)):
        letters = _letters(slot)
        if letters[0] in low.still:
            code = f"{code}[{':, ' * len(dims)}{low.still[letters[0]]}]"
            continue
        if len(letters) > 1:
            sizes = ", ".join(low.size(letter) for letter in letters)
            code = f"{code}.unflatten({-1 if k == len(e.slots) - 1 else len(dims)}, ({sizes}))"
        elif len(label) == 1 and _bounded(low, letters[0], label[0]):
            code = f"{code}[{':, ' * len(dims)}:{low.size(letters[0])}]"
        dims += letters
    return Code(code, dims, variable.kind)


def _step(low: Lowers, e: Tensor, wanted: Dims | None) -> Code:
    """What a recurrence reads of itself: an earlier step, `S_{b(s - 1)e}` the last, or one for each number of some letters."""
    name, letter, axis = low.steps
    rest = replace(e, slots=e.slots[:axis] + e.slots[axis + 1 :])
    steps, slot = low.variables[name], e.slots[axis]
    least, most = backs(low.numbers, slot, letter)
    if least == most:
        return read_of(low, rest, replace(steps, code=f"{steps.code}[-{most}]"), wanted)
    assert isinstance(slot, Sum)
    back = replace(slot, terms=tuple(term for term in slot.terms if term != Index(letter)))
    if (number := low.lower(back)).plain:
        return read_of(low, rest, replace(steps, code=f"{steps.code}[{place(number)}]"), wanted)
    last = Variable(f"torch.stack({steps.code}[-{most}:])", ((letter,), *steps.labels), counted=True)
    return read_of(low, replace(rest, slots=(back, *rest.slots)), last, wanted)


def _bounded(low: Lowers, letter: str, label: str) -> bool:
    """Is a longer axis read at its first numbers, as `P_kd` in `P_sd`?"""
    return (
        axis_of(letter) != axis_of(label)
        and low.legend.axis(letter) is not None
        and low.legend.axes[axis_of(letter)].bound is not None
    )


def taken(low: Lowers, e: Tensor, variable: Variable, axis: int, number: Code) -> Code:
    """One axis read at computed numbers, whose letters take its place."""
    before = e.slots[:axis]
    if not all(_is_plain(slot) for slot in before + e.slots[axis + 1 :]):
        return _gathered(low, e, variable)
    labels = variable.labels[:axis] + variable.labels[axis + 1 :]
    split = _renamed(low, replace(e, slots=before + e.slots[axis + 1 :]), Variable("", labels)).text  # opens groups or bounds
    dims = tuple(letter for slot in before for letter in _letters(slot))
    after = tuple(letter for slot in e.slots[axis + 1 :] for letter in _letters(slot))
    if split:
        return _gathered(low, e, variable)
    text, zero = _place(low, e, axis, variable, number)
    if _embeds(e, variable, axis) and zero is None:
        return Code(f"fn.embedding({text}, {variable.code})", number.dims + after)
    whole = "..., " if axis > 1 and axis == len(variable.labels) - 1 else ":, " * axis
    code = Code(f"{variable.code}[{whole}{text}]", (*dims, *number.dims, *after), variable.kind)
    return zeroed(code, zero)


def _embeds(e: Tensor, variable: Variable, axis: int) -> bool:
    """Is this the reading of a table at tokens?"""
    return isinstance(e.slots[axis], Tensor) and axis == 0 and len(variable.labels) == 2 and variable.kind == "tensor"


def _gathered(low: Lowers, e: Tensor, variable: Variable) -> Code:
    """Every axis read at its numbers, lined up against all the letters together."""
    timed = (axis_of(label[0]) == low.time for label in variable.labels)
    slots = zip(e.slots, timed, strict=True)
    numbers = [low.along(slot) if own and isinstance(slot, Index) else low.lower(slot) for slot, own in slots]
    dims = ordered([number.dims for number in numbers], tuple(dict.fromkeys(d for n in numbers for d in n.dims)))
    texts, zero = [], None
    for axis, number in enumerate(numbers):
        text, before = _place(low, e, axis, variable, number)
        level = number.level if text == number.text else ATOM
        texts.append(aligned(Code(text, number.dims, "integer", level), dims))
        zero = before or zero
    return zeroed(Code(f"{variable.code}[{', '.join(texts)}]", dims, variable.kind), zero)


def _place(low: Lowers, e: Tensor, axis: int, variable: Variable, number: Code) -> tuple[str, Code | None]:
    """The number of a slot as an index of Python; with it, where it may lie before the start of time, that it does not (R4).

    In a branch of `where` a number may lie outside where the branch is not taken; what is not proved to lie inside is checked.
    """
    slot, label, text = e.slots[axis], variable.labels[axis], place(number)
    if _is_plain(slot) or variable.counted or (isinstance(slot, Tensor) and slot.name in low.tokens):
        return text, None
    size = low.size(label[0]) if len(label) == 1 else str(math.prod(low.legend.length(letter) for letter in label))
    early = len(label) == 1 and axis_of(label[0]) == low.time
    guarded = any(not guard.code.plain for guard in low.guards)
    if early:
        begun = Code(f"{number.at(SUM)} >= 0", number.dims, "condition", LOOSE)
        ends = f"0, {size} - 1" if guarded else "min=0"
        return text if number.plain else f"({text}).clamp({ends})", begun
    if number.plain:
        return f"min(max({text}, 0), {size} - 1)" if guarded else text, None
    guards = tuple(part for guard in low.guards for part in guard.parts)
    _, proved = low.numbers.strays(slot, _length(low, label), guards, early)
    if not proved:
        low.helpers["inside"] = None
        return f"inside({', '.join([text, size, *taken_at(low, number)])})", None
    return f"({text}).clamp(0, {size} - 1)" if guarded else text, None


def place(number: Code) -> str:
    """A whole number as an index of Python."""
    if number.kind == "integer":
        return number.text
    return f"int({number.text})" if number.plain else f"{number.at(ATOM)}.long()"


def _length(low: Lowers, label: Label) -> int | None:
    """The size of an axis, if it is bound."""
    try:
        return math.prod(low.legend.length(letter) for letter in label)
    except EinformerError:
        return None


def taken_at(low: Lowers, number: Code) -> Iterator[str]:
    """Where the numbers of a slot are read at all: where the conditions around them hold for some of the other indices."""
    around = [guard for guard in low.guards if not guard.code.plain]
    codes = [guard.code if guard.holds else Code(f"~{guard.code.at(ATOM)}", guard.code.dims) for guard in around]
    dims = ordered([number.dims, *(code.dims for code in codes)], number.dims)
    if codes:
        together = Code(" & ".join(aligned(code, dims, POWER) for code in codes), dims, level=PRODUCT)
        for _ in range(len(dims) - len(number.dims)):
            together = Code(f"{together.at(ATOM)}.any(-1)", together.dims[:-1])
        yield together.text


def zeroed(code: Code, condition: Code | None) -> Code:
    """Before the start of time everything is zero (R4)."""
    if condition is None:
        return code
    if condition.plain:  # the number of a step
        return replace(code, text=f"({code.text} if {condition.text} else torch.zeros_like({code.text}))", level=ATOM)
    return replace(code, text=f"torch.where({aligned(condition, code.dims)}, {code.text}, 0)", level=ATOM)


def merged(low: Lowers, left: Tensor | Name, code: Code) -> str:
    """The value with an axis for each slot of the left side: groups merged row-major."""
    letters = slot_letters(left)
    whole = set(code.dims) == set(letters) and not code.plain
    code = permuted(code, letters) if whole else Code(shaped(low, code, letters), letters, code.kind)
    slots = left.slots if isinstance(left, Tensor) else ()
    for axis, slot in enumerate(slots):
        if isinstance(slot, Group):
            ends = f"{axis}, {axis + len(slot.members) - 1}" if axis < len(slots) - 1 else f"-{len(slot.members)}"
            code = Code(f"{code.at(ATOM)}.flatten({ends})")
    return code.text


def shaped(low: Lowers, code: Code, letters: Dims) -> str:
    """A value with exactly these axes, repeated along those it does not depend on."""
    if code.plain:
        return low.filled(code, letters, code.kind if letters else "tensor").text
    if set(code.dims) == set(letters):
        return permuted(code, letters).text
    sizes = ", ".join(low.size(letter) for letter in letters)
    return f"{aligned(code, letters, ATOM)}.expand({sizes})"


def define(low: Lowers, left: Tensor | Name, kind: Kind, lying: Dims = ()) -> str:
    """The variable of a left side; its name tells in which order its letters lie."""
    slots = left.slots if isinstance(left, Tensor) else ()
    labels = tuple(slot_letters(Tensor("", (slot,))) for slot in slots)
    name = python_name(low, Tensor(left.name, tuple(map(Index, lying))) if lying else left)
    low.variables[left.name] = Variable(name, labels, kind, lying)
    return name


def python_name(low: Lowers, tensor: Tensor | Name) -> str:
    """`q_bsea`, a prime as the letter that stands for it."""
    return f"{key(tensor.name)}_{''.join(map(low.spelling, slot_letters(tensor)))}"


def scalar_name(name: str, letters: list[str], spelling: Callable[[str], str]) -> str:
    """`θ_h`: a scalar with indices as a variable."""
    return f"{key(name)}_{''.join(map(spelling, letters))}"


def _is_plain(slot: Expression) -> bool:
    return isinstance(slot, Index) or (isinstance(slot, Group) and all(isinstance(m, Index) for m in slot.members))


def _letters(slot: Expression) -> Dims:
    return slot_letters(Tensor("", (slot,))) if _is_plain(slot) else ()
