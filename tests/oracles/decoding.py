"""What comes out if nothing is remembered from one step to the next but what a plan keeps?

The reference, position by position: every tensor is computed at the new positions alone. Its older positions are those that
were kept; what was not kept is noise, so that whoever reads it is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from einformer.interpreters import reference
from einformer.interpreters.reference import CARRIED, Named, StoredTensor
from einformer.language.binding import bind_inputs
from einformer.language.calls import Binding, axis_of, calls, slot_letters
from einformer.language.tree import Apply, Equation, Expression, Index, Layer, Name, Tensor
from einformer.language.walk import statements, subexpressions
from einformer.language.weights import key
from einformer.objects import Model

Array = NDArray[Any]


@dataclass(slots=True)
class Memory:
    """The last positions of some tensors by path, as many as are kept; the number of positions so far."""

    back: Mapping[str, int | None]
    held: dict[str, Array] = field(default_factory=dict)
    past: int = 0
    fresh: int = 0
    noise: np.random.Generator = field(default_factory=lambda: np.random.default_rng(7))

    def whole(self, path: str, new: Array, axis: int) -> Array:
        """All positions of a tensor: noise, those that were kept, the new ones."""
        kept = self.held.get(path, np.zeros(0))
        kept = kept if kept.ndim == new.ndim else np.take(new, range(0), axis)
        shape = [self.past - kept.shape[axis] if k == axis else n for k, n in enumerate(new.shape)]
        lost = self.noise.integers(3, size=shape) if new.dtype.kind == "i" else 50 * self.noise.standard_normal(shape)
        whole = np.concatenate([lost.astype(new.dtype), kept, new], axis)
        if path in self.back:
            back = self.back[path]
            last = range(0 if back is None else max(0, whole.shape[axis] - back), whole.shape[axis])
            self.held[path] = np.take(whole, last, axis)
        return whole


def decode(model: Model, chunks: Sequence[Sequence[ArrayLike]], weights: Mapping[str, ArrayLike], fewer: int = 0) -> Array:
    """The outputs for inputs that come in chunks; `fewer` positions are kept of everything that is not kept whole."""
    kept = {entry.full_path: entry.back for entry in model.kept}
    memory = Memory({path: back if back is None else back - fewer for path, back in kept.items()})
    letters = slot_letters(model.spec.layer.output)
    assert model.spec.layer.time is not None
    outputs = [step(model, chunk, weights, memory) for chunk in chunks]
    return np.concatenate(outputs, letters.index(model.spec.layer.time.letter))


def step(model: Model, inputs: Sequence[ArrayLike], weights: Mapping[str, ArrayLike], memory: Memory) -> Array:
    """The outputs at the positions of one chunk."""
    layer, arrays = model.spec.layer, [np.asarray(given) for given in inputs]
    legend = bind_inputs(layer, model.legend, [array.shape for array in arrays])
    layers = {each.name: each for each in model.spec.tree.layers}
    assert layer.time is not None
    time = layer.time.letter
    memory.fresh = legend.length(time)
    run = reference.Evaluation(legend, layers, weights, None)
    frame = _Frame(run, layer, "", frozenset([time]), {}, {}, memory=memory, place="", new=frozenset([time]))
    for formal, array in zip(layer.formals, arrays, strict=True):
        frame.define(formal, frame.store(formal, Named(slot_letters(formal), array)))
    with np.errstate(all="ignore"):
        result = frame.output()
    memory.past += memory.fresh
    return result.array


@dataclass(slots=True)
class _Frame(reference._Frame):
    """One layer. `new` are its letters that run over the new positions; all others over time run over all."""

    memory: Memory = field(default_factory=lambda: Memory({}))
    place: str = ""
    new: frozenset[str] = frozenset()
    current: Equation | None = None

    # A tensor at new positions is stored with all: so slots are positions, as in the reference.

    def length(self, letter: str) -> int:
        """New positions, or all."""
        length = reference._Frame.length(self, letter)
        if axis_of(letter) not in self.times:
            return length
        return self.memory.fresh if letter in self.new else self.memory.past + self.memory.fresh

    def value(self, e: Expression, live: Named | None = None) -> Named:
        """An index at new positions starts where the past ends."""
        found = reference._Frame.value(self, e, live)
        if isinstance(e, Index) and e.letter in self.new and e.letter not in self.fixed:
            return Named(found.dims, found.array + self.memory.past)
        return found

    def define(self, left: Tensor | Name, stored: StoredTensor) -> None:
        """A tensor under its name, with all of its positions."""
        turns = "".join(f"blocks.{turn}." for letter, turn in self.fixed.items() if letter in self.scope.loops)
        name = left.name if self.current is None else versions(self.layer)[id(self.current)][0]
        path = f"{self.place}{turns}{key(name)}"
        slots = left.slots if isinstance(left, Tensor) else ()
        for axis, slot in enumerate(slots):
            if isinstance(slot, Index) and slot.letter in self.new:
                whole = self.memory.whole(path, np.asarray(stored.array), axis)
                stored = StoredTensor(stored.axes, stored.carried, whole)
        self.tensors[left.name] = stored

    def equation(self, equation: Equation) -> None:
        """As the reference, but stored with all positions."""
        self.current = equation
        letter = reference._find_recurrent_index(equation)
        if letter is None:
            self.define(equation.left, self.store(equation.left, self.value(equation.right)))
        else:
            self.define(equation.left, self.recurrence(equation, letter))

    def recurrence(self, equation: Equation, letter: str) -> StoredTensor:
        """Position by position after those that were kept; gives the new ones."""
        assert isinstance(equation.left, Tensor)
        slot = next(k for k, s in enumerate(equation.left.slots) if isinstance(s, Index) and s.letter == letter)
        rest = replace(equation.left, slots=equation.left.slots[:slot] + equation.left.slots[slot + 1 :])
        turns = "".join(f"blocks.{turn}." for each, turn in self.fixed.items() if each in self.scope.loops)
        blank = self.blank(equation)
        shape = np.take(blank.array, range(0), slot).shape
        before = self.memory.held.get(f"{self.place}{turns}{key(equation.left.name)}", np.zeros(shape))
        past = self.memory.past
        missing = [past - n if k == slot else m for k, (m, n) in enumerate(zip(blank.array.shape, before.shape, strict=True))]
        steps = np.concatenate([50 * self.memory.noise.standard_normal(missing), before], slot)
        for position in range(past, past + self.length(letter)):
            zeros = np.zeros_like(np.take(blank.array, range(past + self.length(letter) - position), slot))
            self.tensors[equation.left.name] = replace(blank, array=np.concatenate([steps, zeros], slot))
            self.fixed[letter] = position
            part = self.store(rest, self.value(equation.right))
            steps = np.concatenate([steps, np.expand_dims(part.array, slot)], slot)
        del self.fixed[letter]
        return replace(blank, array=np.take(steps, range(past, steps.shape[slot]), slot))

    def blank(self, equation: Equation) -> StoredTensor:
        """Zeros for a left side, carried indices too: all that its right side reads."""
        read = {x.name for x in subexpressions(equation.right) if isinstance(x, Tensor)} & self.tensors.keys()
        sizes: dict[str, int] = {}
        for stored in (self.tensors[name] for name in read):
            sizes |= dict(zip(stored.carried, stored.array.shape[len(stored.axes) :], strict=True))
        carried = tuple(sorted(sizes))
        return self.store(equation.left, Named(carried, np.zeros([sizes[dim] for dim in carried])))

    def operator(self, e: Apply, letters: tuple[str, ...], live: Named | None) -> Named:
        """A running sum goes on from the last."""
        if e.name != "cumsum" or not self.new & set(letters):
            return reference._Frame.operator(self, e, letters, live)
        assert self.current is not None
        sums = [x for x in subexpressions(self.current.right) if isinstance(x, Apply) and x.name == "cumsum"]
        turns = "".join(f"blocks.{turn}." for each, turn in self.fixed.items() if each in self.scope.loops)
        name = self.current.left.name + "'" * next(k for k, x in enumerate(sums) if x is e)
        path = f"{self.place}{turns}{key(name)}.sum"
        argument = self.spread(self.value(e.arguments[0], live), letters)
        axis = argument.dims.index(letters[0])
        first = self.memory.held.get(path) if path in self.memory.back else None
        array = np.cumsum(argument.array, axis) + (0 if first is None else first)
        self.memory.held[path] = np.take(array, [-1], axis)
        return Named(argument.dims, array)

    def call(self, e: Apply, binding: Binding) -> Named:
        """A layer; its letters over time are new or not as the caller's are."""
        layer = self.scope.layers[e.name]
        instance = any(weight.name == e.name for weight in self.layer.weights)
        turns = "".join(f"blocks.{self.fixed[i.letter]}." for i in e.indices if i.letter in self.scope.loops)
        around = "".join(f"blocks.{turn}." for each, turn in self.fixed.items() if each in self.scope.loops)
        same = [x for x in calls(self.layer) if x.name == e.name]
        number = next(k for k, x in enumerate(same) if x is e)
        place = f"{self.place}{around}{key(e.name)}{f'.{number + 1}' if number else ''}."
        path = f"{self.path}{turns}{key(e.name)}." if instance else self.path
        times = {axis_of(formal) for formal, actual in binding.letters.items() if axis_of(actual) in self.times}
        times |= self.times - {axis_of(formal) for formal in binding.letters}
        new = {formal for formal, actual in binding.letters.items() if actual in self.new}
        new |= self.new - binding.letters.keys()
        sizes = {axis_of(formal): self.length(actual) for formal, actual in binding.letters.items()}
        frame = _Frame(
            self.run, layer, path, frozenset(times), self.sizes | sizes, {}, memory=self.memory, place=place, new=frozenset(new)
        )
        for formal, argument in zip(layer.formals, e.arguments, strict=True):
            actual = {binding.letters[letter]: letter for letter in slot_letters(formal)}
            passed = self.passed(argument) if f"{place}{key(formal.name)}" not in self.memory.back else None
            if passed is not None and self.new & set(passed.dims) <= actual.keys():
                dims = tuple(actual.get(dim, CARRIED + dim) for dim in passed.dims)
                frame.tensors[formal.name] = frame.arranged(formal, Named(dims, passed.array))
                continue
            value = self.spread(self.value(argument), tuple(actual))
            inner = Named(tuple(actual.get(dim, CARRIED + dim) for dim in value.dims), value.array)
            frame.define(formal, frame.store(formal, inner))
        result = frame.output()
        outer = (dim[1:] if dim.startswith(CARRIED) else binding.letters[dim] for dim in result.dims)
        return Named(tuple(outer), result.array)

    def passed(self, argument: Expression) -> Named | None:
        """A tensor that is passed on as it stands, with all of its positions."""
        if not isinstance(argument, Tensor) or argument.name not in self.tensors:
            return None
        if not all(isinstance(slot, Index) and slot.letter not in self.fixed for slot in argument.slots):
            return None
        stored = self.tensors[argument.name]
        return Named((*slot_letters(argument), *stored.carried), stored.array)

    def arranged(self, formal: Tensor, whole: Named) -> StoredTensor:
        """It as an input."""
        letters = slot_letters(formal)
        carried = tuple(sorted(dim for dim in whole.dims if dim not in letters))
        return StoredTensor(tuple(map(axis_of, letters)), carried, whole.over((*letters, *carried)))

    def output(self) -> Named:
        """The output at the new positions."""
        self.statements(self.layer.body)
        letters, stored = slot_letters(self.layer.output), self.tensors[self.layer.output.name]
        array = stored.array
        slots = self.layer.output.slots if isinstance(self.layer.output, Tensor) else ()
        for axis, slot in enumerate(slots):
            if isinstance(slot, Index) and slot.letter in self.new:
                array = np.take(array, range(self.memory.past, array.shape[axis]), axis)
        return Named((*letters, *stored.carried), array)


def chunked(arrays: Iterable[Array], axes: Iterable[int], lengths: Sequence[int]) -> list[list[Array]]:
    """The arrays in chunks of these lengths along their axes of time."""
    cuts = np.cumsum(lengths)[:-1]
    split = [np.split(array, cuts, axis) for array, axis in zip(arrays, axes, strict=True)]
    return [list(parts) for parts in zip(*split, strict=True)]


def versions(layer: Layer) -> dict[int, tuple[str, int]]:
    """Names the result of each equation, by its id, with the number of loops around it: `z`, then `z_2` in as many loops."""
    count = dict.fromkeys(((formal.name, 0) for formal in layer.formals), 1)
    names: dict[int, tuple[str, int]] = {}
    for equation, depth in statements(layer.body):
        if isinstance(equation, Equation):
            number = count[equation.left.name, depth] = count.get((equation.left.name, depth), 0) + 1
            names[id(equation)] = (equation.left.name + (f"_{number}" if number > 1 else ""), depth)
    return names
