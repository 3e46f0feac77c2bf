"""Writes each layer as it is called: with the caller's letters, and every carried index written out.

`RMSNorm_e(q_bsegj)` calls `RMSNorm_d(z_d)`; specialised it is a layer `RMSNorm(z_bsegj)` over `e` with weights `γ_e`. After
this step every call gives each formal exactly the indices it names: nothing is renamed, nothing carried, and one layer
stands for one set of shapes. Still a specification in the language; what is lowered or counted is lowered or counted from it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from einformer.errors import fail
from einformer.language.calls import Binding, axis_of, slot_letters
from einformer.language.printer import show
from einformer.language.scope import Scope
from einformer.language.sizes import Legend
from einformer.language.tree import Apply, Equation, Expression, Index, Layer, Name, Spec, Tensor, Weight
from einformer.language.walk import equations, list_letters, map_in_turns, rebuild, slots_of, subexpressions

Carried = tuple[str, ...]
_RETURNED = ""


# The checked spec with the layer `name` last and, before it, one layer for each way in which another is called. With `apart`,
# each call has a layer of its own.
def specialise(spec: Spec, name: str, *, apart: bool = False) -> Spec:
    work = _Specialised({layer.name: layer for layer in spec.layers}, Legend.of(spec), apart)
    layer = work.layers[name]
    own = {letter: letter for formal in layer.formals for letter in slot_letters(formal)}
    work.layer(layer, own, tuple(() for _ in layer.formals), name)
    return replace(spec, layers=tuple(work.done.values()))


@dataclass(slots=True)
class _Specialised:
    layers: Mapping[str, Layer]
    legend: Legend
    apart: bool
    names: dict[tuple[object, ...], str] = field(default_factory=dict)  # by signature
    done: dict[str, Layer] = field(default_factory=dict)

    def name_call(self, layer: Layer, binding: Binding, carried: tuple[Carried, ...]) -> str:
        key = (layer.name, tuple(sorted(binding.letters.items())), carried, len(self.names) if self.apart else 0)
        if key not in self.names:
            first = all(other[0] != layer.name for other in self.names)
            numbered = (f"{layer.name}{number}" for number in itertools.count(2))
            used = {*self.layers, *self.names.values()}
            self.names[key] = layer.name if first else next(name for name in numbered if name not in used)
            self.layer(layer, dict(binding.letters), carried, self.names[key])
        return self.names[key]

    def layer(self, layer: Layer, letters: dict[str, str], carried: tuple[Carried, ...], name: str) -> None:
        body = _LayerCopy(self, layer, _name_letters(layer, letters, {c for some in carried for c in some}), carried)
        self.done[name] = replace(body.specialise(), name=name)


# A letter of the body that would clash gets primes.
def _name_letters(layer: Layer, letters: dict[str, str], carried: set[str]) -> dict[str, str]:
    bases = {axis_of(formal): axis_of(actual) for formal, actual in letters.items()}
    outside = {letter for tensor in (*layer.formals, layer.output) for letter in slot_letters(tensor)}
    letters_of_body = {letter: actual for letter, actual in letters.items() if letter in outside or actual not in carried}
    for letter in (*letters, *list_letters(layer)):
        if letter in letters_of_body:
            continue
        base = bases.get(axis_of(letter), axis_of(letter))
        new = base + letter[len(axis_of(letter)) :]
        while new in carried or new in letters_of_body.values():
            new += "'"
        letters_of_body[letter] = new
    return letters_of_body


# A returned value is not a tensor that a body can read.
def _key_of(equation: Equation) -> str:
    return _RETURNED if equation.relation == "return" else equation.left.name


class _LayerCopy:  # with new letters; `carried` has the letters of the caller that each of its tensors has in front
    def __init__(self, work: _Specialised, layer: Layer, letters: dict[str, str], carried: tuple[Carried, ...]) -> None:
        self.work, self.old, self.letters = work, layer, letters
        self.carried = {formal.name: some for formal, some in zip(layer.formals, carried, strict=True)}
        lefts = [*layer.formals, *(equation.left for equation in equations(layer.body))]
        self.bare = {left.name for left in lefts if not slot_letters(left)}  # another bare name is a size or a scalar (R1)
        self.scope = Scope.of(layer, work.layers)
        self.instances = {w.name: w for w in layer.weights if w.kind == "instance"}
        self.first: dict[str, str] = {}  # of an instance the layer as it is called first: what stores weights is one layer
        self.still: frozenset[str] = frozenset()  # the letters of the loops around, which are numbers where nothing binds them

    def specialise(self) -> Layer:
        self.spread()
        body = map_in_turns(self.old.body, self.equation)
        weights = tuple(self.weight(w) for w in self.old.weights)
        formals = tuple(self.left(formal, self.carried[formal.name]) for formal in self.old.formals)
        output = self.left(self.old.output, self.carried.get(_RETURNED, self.carried.get(self.old.output.name, ())))
        indices = tuple(self.index(i) for i in self.old.indices)
        return replace(self.old, indices=indices, formals=formals, output=output, weights=weights, body=body)  # type: ignore[arg-type]

    # A tensor has the caller's letters of all that it is made of, also by a later line or in a later turn of a loop.
    def spread(self) -> None:
        before: dict[str, Carried] = {}
        reads = [(_key_of(equation), self.list_tensors(equation.right)) for equation in equations(self.old.body)]
        while before != self.carried:
            before = dict(self.carried)
            for name, names in reads:
                self.carried[name] = self.carried_by((name, *names))

    def equation(self, equation: Equation, turning: tuple[Index, ...]) -> Equation:
        self.still = frozenset(index.letter for index in turning)
        left = self.left(equation.left, self.carried[_key_of(equation)])
        return replace(equation, left=left, right=self.expression(equation.right))

    def list_tensors(self, e: Expression) -> list[str]:
        return [x.name for x in subexpressions(e) if isinstance(x, Tensor) or (isinstance(x, Name) and x.name in self.bare)]

    def carried_by(self, names: Iterable[str]) -> Carried:
        return tuple(dict.fromkeys([letter for name in names for letter in self.carried.get(name, ())]))

    def left(self, left: Tensor | Name, carried: Carried) -> Tensor | Name:
        slots = (*(Index(letter, span=left.span) for letter in carried), *map(self.expression, slots_of(left)))
        return Tensor(left.name, slots, span=left.span) if slots else left

    def weight(self, weight: Weight) -> Weight:
        default = self.expression(weight.default) if weight.default is not None else None
        layer = self.instances[weight.name].layer if weight.kind == "instance" else ""
        return replace(weight, indices=tuple(map(self.index, weight.indices)), default=default, layer=layer)

    def index(self, index: Index) -> Index:
        letter = self.letters.get(index.letter, index.letter)
        return index if letter == index.letter else Index(letter, span=index.span)

    def expression(self, e: Expression) -> Expression:
        match e:
            case Index():
                return self.index(e)
            case Tensor():
                slots = tuple([Index(letter, span=e.span) for letter in self.carried.get(e.name, ())])
                return Tensor(e.name, slots + tuple(map(self.expression, e.slots)), span=e.span)
            case Name():
                return self.name(e)
            case Apply() if e.name in self.scope.layers:
                return self.call(e)
            case Apply():
                arguments = self.specialise_inside(e.arguments, {index.letter for index in e.indices})
                return Apply(e.name, tuple(map(self.index, e.indices)), arguments, span=e.span)
            case _:
                return rebuild(e, self.expression)

    # The arguments of what binds these letters: there they run, also those of loops around.
    def specialise_inside(self, arguments: tuple[Expression, ...], letters: Iterable[str]) -> tuple[Expression, ...]:
        around, self.still = self.still, self.still.difference(letters)
        arguments = tuple(map(self.expression, arguments))
        self.still = around
        return arguments

    # The size of a renamed axis becomes the size of the caller's.
    def name(self, e: Name) -> Expression:
        if e.name in self.bare and self.carried.get(e.name):
            return self.left(e, self.carried[e.name])
        axis = self.work.legend.axis_of_size(e.name)
        renamed = self.letters.get(axis.letter) if axis else None
        actual = self.work.legend.axis(renamed) if renamed else None
        return actual.size if actual is not None else e

    def call(self, e: Apply) -> Expression:
        binding = self.scope.binding(e)
        assert binding is not None
        letters = {formal: self.letters.get(actual, actual) for formal, actual in binding.letters.items()}
        pairs = zip(e.arguments, (bound | self.still for bound in binding.bound), strict=True)
        carried = tuple(self.carry(argument, apart) for argument, apart in pairs)
        name = self.work.name_call(self.scope.layers[e.name], replace(binding, letters=letters), carried)
        if e.name in self.instances:
            if self.first.setdefault(e.name, name) != name:
                over = ", ".join(f"`{show(formal)}`" for formal in self.work.done[self.first[e.name]].formals)
                fix = f"another instance for this call, or `{self.old.name}` with weights of its own"
                raise fail("E403", f"`{e.name}` is called with other indices before, over {over}", e.span, fix=fix)
            self.instances[e.name] = replace(self.instances[e.name], layer=name)
            name = e.name
        turns = tuple(index for index in e.indices if index.letter in self.scope.loops)
        arguments = self.specialise_inside(e.arguments, frozenset().union(*binding.bound))
        return replace(e, name=name, indices=turns, arguments=arguments)

    def carry(self, argument: Expression, apart: frozenset[str]) -> Carried:
        own = (self.letters.get(letter, letter) for letter in self.scope.free(argument) if letter not in apart)
        return tuple(dict.fromkeys((*self.carried_by(self.list_tensors(argument)), *own)))
