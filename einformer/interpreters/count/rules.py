"""What is counted in a specification, and how often: its weights, and the contractions of its equations.

What is found is in letters; `numbers` puts sizes for them, `formulas` symbols, and the same rules count both: `weights` and
`equations` below only add and multiply. A loop is walked once; how often its body stands is `Turns`.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar, cast

from einformer.errors import Source
from einformer.interpreters.count.contraction import Chosen, Contraction, Step, best_order
from einformer.interpreters.count.support import DENSE, NO_CHOICE, Case, Choices, Flow, Flows, Need
from einformer.notation.instances import callees
from einformer.notation.scope import factors_of
from einformer.notation.sizes import Legend
from einformer.notation.specialise import specialise
from einformer.notation.tree import Apply, Equation, Expression, Layer, Loop, Product, Quotient, Spec, Statement, Weight
from einformer.notation.weights import key

Loops = tuple[tuple[str, Expression], ...]  # the letter and the count of each loop around, outside first

# ------------------------------------------------------------------------------------------------------- what is found


@dataclass(frozen=True, slots=True)
class Site:
    """A place in a body: the loops around it, and in which of their turns it exists (R8)."""

    loops: Loops = ()
    cases: frozenset[Case] = frozenset()


@dataclass(frozen=True, slots=True)
class Turns:
    """How many different numbers the letters of loops take over all of these sites of one body."""

    letters: tuple[str, ...]
    sites: tuple[Site, ...]


@dataclass(frozen=True, slots=True)
class Held:
    """A weight or buffer of the layer at a path, `blocks.{l}.MLP`, and for each call on the way the turns with one more."""

    path: str
    weight: Weight
    turns: tuple[Turns, ...]


@dataclass(frozen=True, slots=True)
class Done:
    """An equation of the layer `layer` at a path, its contractions, and the turns: of each call on the way, then its own."""

    path: str
    layer: str
    equation: Equation
    contractions: tuple[Contraction, ...]
    turns: tuple[Turns, ...]


@dataclass(frozen=True, slots=True)
class Derived:
    """All that is counted, in the order of the text."""

    held: tuple[Held, ...]
    done: tuple[Done, ...]


def derive(spec: Spec, name: str) -> Derived:
    """What the layer or model `name` of a checked spec holds and does, its optional weights too."""
    return _derived(spec, name, spec.span.source)


@functools.lru_cache(maxsize=64)
def _derived(spec: Spec, name: str, source: Source) -> Derived:
    """Specs are equal whatever their spans: with the same source their spans are the same."""
    work = _Work(spec, specialise(spec, name))
    model = work.layers[name]
    return Derived(tuple(work.held(model, "", ())), tuple(work.done(work.dense(model), NO_CHOICE, "", ())))


class _Work:
    """A walk through the calls of a specialised spec."""

    def __init__(self, written: Spec, spec: Spec) -> None:
        self.layers = {layer.name: layer for layer in spec.layers}
        self.names = {layer.span: layer.name for layer in written.layers}
        self.flows = Flows(self.layers, Legend.of(spec))

    def dense(self, layer: Layer) -> Flow:
        """The flow through a layer of whose inputs nothing is known."""
        return self.flows.of(layer, (DENSE,) * len(layer.formals))

    # ---------------------------------------------------------------------------------------------------- weights

    def held(self, layer: Layer, path: str, turns: tuple[Turns, ...]) -> Iterator[Held]:
        """The weights of a layer, then of its instances; an instance called at several sites is one."""
        for weight in layer.weights:
            if weight.kind != "instance" and (weight.default is None or weight.optional):
                yield Held(path, weight, turns)
        called = callees(layer, self.layers)
        for (name, letters), sites in self.instances(layer).items():
            around = Turns(letters, _united(sites))
            yield from self.held(called[name], _inside(path, letters, name), (*turns, around))

    def instances(self, layer: Layer) -> dict[tuple[str, tuple[str, ...]], list[Site]]:
        """The instances that a body calls, by name and the loops whose numbers they carry, with the sites of the calls."""
        flow = self.dense(layer)
        names = {weight.name for weight in layer.weights if weight.kind == "instance"}
        sites: dict[tuple[str, tuple[str, ...]], list[Site]] = {}
        for equation, loops in _equations(layer.body):
            for e, need in flow.expressions(equation, NO_CHOICE):
                if isinstance(e, Apply) and e.name in names:
                    sites.setdefault((e.name, _carried(e, loops)), []).append(Site(loops, need.cases))
        return sites

    # -------------------------------------------------------------------------------------------------- equations

    def done(self, flow: Flow, output: Choices, path: str, turns: tuple[Turns, ...]) -> Iterator[Done]:
        """The equations of a body whose output is needed for some choices, each after those of the calls in it."""
        needs, name = flow.needs(output), self.names[flow.layer.span]  # a specialised layer has a name of its own
        for equation, loops in _equations(flow.layer.body):
            contractions: dict[frozenset[Case], tuple[Contraction, ...]] = {}
            for e, need in flow.expressions(equation, needs[id(equation)]):
                if isinstance(e, Apply) and e.name in flow.callees:
                    callee, choices = flow.call(e, need, equation)
                    inner = _inside(path, _carried(e, loops), self.written(e, flow))
                    yield from self.done(callee, choices, inner, (*turns, _turns(loops, need.cases)))
                elif found := _contraction(e, need, flow, equation):
                    contractions[need.cases] = (*contractions.get(need.cases, ()), found)
            for cases, some in (contractions or {frozenset[Case](): ()}).items():
                yield Done(path, name, equation, some, (*turns, _turns(loops, cases)))

    def written(self, e: Apply, flow: Flow) -> str:
        """The name of an instance, or else of the layer as the text has it."""
        instances = {weight.name for weight in flow.layer.weights}
        return e.name if e.name in instances else self.names[flow.callees[e.name].span]


def _equations(body: tuple[Statement, ...], loops: Loops = ()) -> Iterator[tuple[Equation, Loops]]:
    """The equations of a body, each with the loops around it."""
    for statement in body:
        if isinstance(statement, Loop):
            yield from _equations(statement.body, (*loops, (statement.index.letter, statement.count)))
        else:
            yield statement, loops


def _carried(e: Apply, loops: Loops) -> tuple[str, ...]:
    """The letters of loops in the subscript of a call: one set of weights for each of their numbers."""
    letters = {letter for letter, _ in loops}
    return tuple(index.letter for index in e.indices if index.letter in letters)


def _inside(path: str, letters: Iterable[str], name: str) -> str:
    """The path of an instance in the layer at a path."""
    blocks = "".join(f"blocks.{{{letter}}}." for letter in letters)
    return f"{path}.{blocks}{key(name)}".lstrip(".")


def _turns(loops: Loops, cases: frozenset[Case]) -> Turns:
    return Turns(tuple(letter for letter, _ in loops), (Site(loops, cases),))


def _united(sites: Iterable[Site]) -> tuple[Site, ...]:
    """The same turns with fewer sites: both branches of a `where` are the whole."""
    found = list(dict.fromkeys(sites))
    for site in found:
        for case in site.cases:
            other = replace(site, cases=site.cases - {case} | {replace(case, holds=not case.holds)})
            if other in found:
                joined = replace(site, cases=site.cases - {case})
                return _united(joined if each == site else each for each in found if each != other)
    always = {site.loops for site in found if not site.cases}
    return tuple(site for site in found if not site.cases or site.loops not in always)


def _contraction(e: Expression, need: Need, flow: Flow, equation: Equation) -> Contraction | None:
    """The contraction that e is: a product under `sum` in which two or more factors have summed letters."""
    if not (isinstance(e, Apply) and e.name == "sum" and isinstance(e.arguments[0], Product | Quotient)):
        return None
    inside, summed = e.arguments[0], frozenset(index.letter for index in e.indices)
    operands = [letters for factor in factors_of(inside) if (letters := frozenset(flow.scope.free(factor))) & summed]
    if len(operands) < 2:
        return None
    choices = need.choices | flow.support(inside, flow.known_at[id(equation)]).zero
    return Contraction(tuple(operands), summed, _chosen(choices, frozenset[str]().union(*operands)))


def _chosen(choices: Choices, letters: frozenset[str]) -> tuple[Chosen, ...]:
    """The choices of these letters, for each letter one."""
    found = {
        choice.place: Chosen(choice.place, choice.count, frozenset(map(str, choice.along)))
        for choice in sorted(choices, key=repr)
        if isinstance(choice.place, str) and choice.place in letters
    }
    return tuple(found[letter] for letter in sorted(found))


# -------------------------------------------------------------------------------------------------- how it is counted


class Countable(Protocol):
    """What adds and multiplies: an int, a sympy expression."""

    def __add__(self, other: Any, /) -> Any: ...
    def __mul__(self, other: Any, /) -> Any: ...


N = TypeVar("N", bound=Countable)
N_co = TypeVar("N_co", bound=Countable, covariant=True)


class Arithmetic(Protocol[N_co]):
    """What stands for the letters."""

    def length(self, letter: str) -> N_co:
        """The size of the axis that an index runs over."""

    def number(self, e: Expression) -> N_co:
        """A number that the text writes: how many are chosen."""

    def turns(self, turns: Turns) -> N_co:
        """How many turns these are."""

    @property
    def deciding(self) -> Arithmetic[int]:
        """The numbers that decide in which order tensors are contracted."""


@dataclass(frozen=True, slots=True)
class WeightCount(Generic[N]):
    """The numbers in a weight or buffer (not `trained`) of the layer at a path: `each`, so often in the loops around."""

    path: str
    name: str
    letters: tuple[str, ...]
    each: N
    turns: tuple[N, ...]
    trained: bool = True

    @property
    def full_path(self) -> str:
        """`blocks.{l}.MLP.W`."""
        return f"{self.path}.{self.name}".lstrip(".")

    @property
    def times(self) -> N:
        """How many there are."""
        return product(self.turns)

    @property
    def total(self) -> N:
        """In all of them together."""
        return product((self.times, self.each))


@dataclass(frozen=True, slots=True)
class EquationCount(Generic[N]):
    """The FLOPs of the products of an equation, `text` as it is written: `each`, so often in the loops around."""

    path: str
    layer: str
    text: str
    line: int
    each: N
    turns: tuple[N, ...]

    @property
    def times(self) -> N:
        """How often it is evaluated."""
        return product(self.turns)

    @property
    def total(self) -> N:
        """In all turns together."""
        return product((self.times, self.each))


def weights(derived: Derived, arithmetic: Arithmetic[N]) -> tuple[WeightCount[N], ...]:
    """The numbers in each weight: the product of the sizes of its indices."""
    return tuple(
        WeightCount(
            held.path,
            key(held.weight.name),
            letters := tuple(index.letter for index in held.weight.indices),
            product(map(arithmetic.length, letters)),
            tuple(map(arithmetic.turns, held.turns)),
            held.weight.kind == "trained",
        )
        for held in derived.held
    )


def equations(derived: Derived, arithmetic: Arithmetic[N]) -> tuple[EquationCount[N], ...]:
    """The FLOPs of each equation: of each contraction of two tensors twice the product of the sizes of all indices."""
    return tuple(
        EquationCount(
            done.path,
            done.layer,
            _text(done.equation),
            done.equation.span.line,
            total(_flops(contraction, arithmetic) for contraction in done.contractions),
            tuple(map(arithmetic.turns, done.turns)),
        )
        for done in derived.done
    )


def _flops(contraction: Contraction, arithmetic: Arithmetic[N]) -> N:
    """Of the best order."""
    flops: Iterable[N] = (
        _size(step, arithmetic) * 2 for step in best_order(contraction, lambda step: _size(step, arithmetic.deciding))
    )
    return total(flops)


def _size(step: Step, arithmetic: Arithmetic[N]) -> N:
    """The number of products in a contraction: the sizes of all its indices, of a sparse one what is chosen."""
    chosen = {each.letter: each.count for each in step.chosen}
    sizes: Iterable[N] = (
        arithmetic.number(chosen[letter]) if letter in chosen else arithmetic.length(letter) for letter in sorted(step.letters)
    )
    return product(sizes)


def _text(equation: Equation) -> str:
    return equation.span.source.text[equation.span.start : equation.span.end]


def total(terms: Iterable[N]) -> N:
    """Their sum."""
    return cast("N", functools.reduce(operator.add, terms, 0))


def product(factors: Iterable[N]) -> N:
    """Their product."""
    return cast("N", functools.reduce(operator.mul, factors, 1))
