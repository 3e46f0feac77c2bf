"""What is there to count in a specification, and how often: its weights, and what its equations do with their tensors.

What is found is in letters. A loop is walked once; how often its body stands is `Turns`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from einformer.errors import Source, Span
from einformer.interpreters.count.choices import DENSE, INNER, NO_CHOICE, Bound, Choice, Choices
from einformer.interpreters.count.contraction import Chosen, Contraction
from einformer.interpreters.count.support import Case, Flow, Flows, Need
from einformer.notation.calls import axis_of
from einformer.notation.instances import callees
from einformer.notation.scope import factors_of
from einformer.notation.sizes import Legend
from einformer.notation.specialise import specialise
from einformer.notation.tree import (
    Apply,
    Equation,
    Expression,
    Index,
    Layer,
    Loop,
    Product,
    Quotient,
    Spec,
    Statement,
    Tensor,
    Weight,
)
from einformer.notation.walk import equations, subexpressions
from einformer.notation.weights import key

Loops = tuple[tuple[str, Expression], ...]  # the letter and the count of each loop around, outside first
Letters = frozenset[str]
T = TypeVar("T")


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
    """A weight or buffer of the layer at a path, `blocks.{l}.MLP`, and for each call on the way the turns with one more.

    An embedding has a row for each token or position. Of a letter that is `chosen` only so many numbers compute for a token.
    """

    path: str
    weight: Weight
    turns: tuple[Turns, ...]
    embedding: bool = False
    chosen: tuple[Chosen, ...] = ()


@dataclass(frozen=True, slots=True)
class Softmax:
    """The letters over which a softmax runs, and the bounds between positions outside of which it is zero."""

    letters: Letters
    bounds: tuple[Bound, ...] = ()


@dataclass(frozen=True, slots=True)
class Gather:
    """Rows read from a table of weights: the letters of what is read, and the axis whose numbers select."""

    letters: Letters
    axis: str


@dataclass(frozen=True, slots=True)
class Done:
    """An equation of the layer `layer` at a path, what it does, and the turns: of each call on the way, then its own."""

    path: str
    layer: str
    equation: Equation
    turns: tuple[Turns, ...]
    contractions: tuple[Contraction, ...] = ()
    softmaxes: tuple[Softmax, ...] = ()
    gathers: tuple[Gather, ...] = ()

    @property
    def repeated(self) -> bool:
        """Is it part of a block, in a loop?"""
        return any(turns.letters for turns in self.turns)


@dataclass(frozen=True, slots=True)
class Derived:
    """All that is counted, in the order of the text; `time` and `vocabulary` are axes, "" where there is none.

    `logits` are the letters of the output, if it has a number for each token of the vocabulary.
    """

    held: tuple[Held, ...]
    done: tuple[Done, ...]
    time: str = ""
    vocabulary: str = ""
    logits: tuple[str, ...] = ()


def derive(spec: Spec, name: str) -> Derived:
    """What the layer or model `name` of a checked spec holds and does, its optional weights too."""
    return _derived(spec, name, spec.span.source)


@functools.lru_cache(maxsize=64)
def _derived(spec: Spec, name: str, source: Source) -> Derived:
    """Specs are equal whatever their spans: with the same source their spans are the same."""
    work = Work.of(spec, name)
    model = work.layers[name]
    visits = tuple(work.visits(work.whole(model)))
    chosen = _chosen_weights(visits)
    return Derived(
        tuple(replace(held, chosen=chosen.get((held.path, held.weight.name), ())) for held in work.held(model)),
        tuple(done for visit in visits for done in work.done(visit)),
        next((layer.time.letter for layer in spec.layers if layer.time), ""),
        work.vocabulary,
        work.logits(model),
    )


@dataclass(frozen=True, slots=True)
class Visit:
    """An equation on a walk through the calls: what of its right side is needed, and where the walk stands."""

    path: str
    flow: Flow
    equation: Equation
    nodes: tuple[tuple[Expression, Need], ...]
    loops: Loops
    turns: tuple[Turns, ...]  # of the calls on the way
    calls: tuple[tuple[Apply, Visit], ...] = field(default=(), compare=False)  # the calls on the way, and where they stand


@dataclass(frozen=True, slots=True)
class Work:
    """A specialised spec, and the names that its author gave."""

    layers: Mapping[str, Layer]
    names: Mapping[Span, str]
    flows: Flows
    vocabulary: str  # the axis that tokens number, that of a slot in which an input stands

    @classmethod
    def of(cls, spec: Spec, name: str) -> Work:
        """The work of counting the layer or model `name`."""
        specialised = specialise(spec, name)
        layers = {layer.name: layer for layer in specialised.layers}
        numbered = (axis for layer in layers.values() for tensor, axis in _gathers(layer) if _by_tensor(tensor))
        names = {layer.span: layer.name for layer in spec.layers}
        return cls(layers, names, Flows(layers, Legend.of(specialised)), next(numbered, ""))

    def whole(self, layer: Layer) -> Flow:
        """The flow through a model whose inputs are constants, or through a layer as it stands inside a model."""
        return self.flows.of(layer, (DENSE if layer.kind == "model" else INNER,) * len(layer.formals))

    def logits(self, model: Layer) -> tuple[str, ...]:
        """The letters of the output, if one of them numbers tokens."""
        letters = tuple(self.whole(model).scope.free(model.output))
        return letters if self.vocabulary in map(axis_of, letters) else ()

    # ---------------------------------------------------------------------------------------------------- weights

    def held(self, layer: Layer, path: str = "", turns: tuple[Turns, ...] = ()) -> Iterator[Held]:
        """The weights of a layer, then of its instances; an instance called at several sites is one."""
        numbered = self.numbered(layer)
        for weight in layer.weights:
            if weight.kind != "instance" and (weight.default is None or weight.optional):
                axes = {axis_of(index.letter) for index in weight.indices}
                yield Held(path, weight, turns, weight.name in numbered or self.vocabulary in axes)
        called = callees(layer, self.layers)
        for (name, letters), sites in self.instances(layer).items():
            around = Turns(letters, _united(sites))
            yield from self.held(called[name], _inside(path, letters, name), (*turns, around))

    def numbered(self, layer: Layer) -> frozenset[str]:
        """The weights whose rows are read by number: of a token, of a position."""
        return frozenset(tensor.name for tensor, _ in _gathers(layer))

    def instances(self, layer: Layer) -> dict[tuple[str, tuple[str, ...]], list[Site]]:
        """The instances that a body calls, by name and the loops whose numbers they carry, with the sites of the calls."""
        flow = self.whole(layer)
        names = {weight.name for weight in layer.weights if weight.kind == "instance"}
        sites: dict[tuple[str, tuple[str, ...]], list[Site]] = {}
        for equation, loops in _equations(layer.body):
            for e, need in flow.expressions(equation, NO_CHOICE):
                if isinstance(e, Apply) and e.name in names:
                    sites.setdefault((e.name, _carried(e, loops)), []).append(Site(loops, need.cases))
        return sites

    # -------------------------------------------------------------------------------------------------- equations

    def visits(
        self,
        flow: Flow,
        output: Choices = NO_CHOICE,
        path: str = "",
        turns: tuple[Turns, ...] = (),
        calls: tuple[tuple[Apply, Visit], ...] = (),
    ) -> Iterator[Visit]:
        """The equations of a body whose output is needed for some choices, each after those of the calls in it."""
        needs = flow.needs(output)
        for equation, loops in _equations(flow.layer.body):
            nodes = tuple(flow.expressions(equation, needs[id(equation)]))
            visit = Visit(path, flow, equation, nodes, loops, turns, calls)
            for e, need in nodes:
                if isinstance(e, Apply) and e.name in flow.callees:
                    callee, choices = flow.call(e, need, equation)
                    inner = inside(path, e, loops, self.written(e, flow))
                    around = (*turns, turns_of(loops, need.cases))
                    yield from self.visits(callee, choices, inner, around, (*calls, (e, visit)))
            yield visit

    def done(self, visit: Visit) -> Iterator[Done]:
        """What an equation does, once for each of the branches on layer numbers in it."""
        name = self.names[visit.flow.layer.span]  # a specialised layer has a name of its own
        contractions, softmaxes, gathers = _Found[Contraction](), _Found[Softmax](), _Found[Gather]()
        for e, need in visit.nodes:
            contractions.add(need.cases, _contraction(e, need, visit))
            softmaxes.add(need.cases, _softmax(e, need, visit))
            gathers.add(need.cases, _gather(e, visit))
        for cases in dict.fromkeys((*contractions, *softmaxes, *gathers)) or (frozenset[Case](),):
            turns = (*visit.turns, turns_of(visit.loops, cases))
            found = contractions.get(cases, ()), softmaxes.get(cases, ()), gathers.get(cases, ())
            yield Done(visit.path, name, visit.equation, turns, *found)

    def written(self, e: Apply, flow: Flow) -> str:
        """The name of an instance, or else of the layer as the text has it."""
        instances = {weight.name for weight in flow.layer.weights}
        return e.name if e.name in instances else self.names[flow.callees[e.name].span]


class _Found(dict[frozenset[Case], tuple[T, ...]], Generic[T]):
    """What was found, by the cases in which it exists."""

    def add(self, cases: frozenset[Case], item: T | None) -> None:
        if item is not None:
            self[cases] = (*self.get(cases, ()), item)


def _chosen_weights(visits: Iterable[Visit]) -> dict[tuple[str, str], tuple[Chosen, ...]]:
    """Of the weights at each path, by name, the letters of which only some numbers are read, wherever they are read."""
    found: dict[tuple[str, str], tuple[Chosen, ...]] = {}
    for visit in visits:
        for e, need in visit.nodes:
            if isinstance(e, Tensor) and (e.name, True) in visit.flow.weights:
                here = chosen_of(need.choices, frozenset(visit.flow.scope.free(e)))
                before = found.get((visit.path, e.name), here)
                found[visit.path, e.name] = tuple(each for each in here if each in before)
    return found


def _gathers(layer: Layer) -> Iterator[tuple[Tensor, str]]:
    """The weights of a layer that are read by the numbers of another axis or of a tensor, with the axis that these number."""
    weights = {weight.name: weight for weight in layer.weights if weight.kind == "trained"}
    for e in (e for equation in equations(layer.body) for e in subexpressions(equation.right)):
        if isinstance(e, Tensor) and e.name in weights:
            for slot, index in zip(e.slots, weights[e.name].indices, strict=True):
                axis = axis_of(index.letter)
                if isinstance(slot, Tensor) or (isinstance(slot, Index) and axis_of(slot.letter) != axis):
                    yield e, axis


def _by_tensor(e: Tensor) -> bool:
    return any(isinstance(slot, Tensor) for slot in e.slots)


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


def inside(path: str, e: Apply, loops: Loops, name: str) -> str:
    """The path of what is called in the layer at a path."""
    return _inside(path, _carried(e, loops), name)


def _inside(path: str, letters: Iterable[str], name: str) -> str:
    """The path of an instance in the layer at a path."""
    blocks = "".join(f"blocks.{{{letter}}}." for letter in letters)
    return f"{path}.{blocks}{key(name)}".lstrip(".")


def turns_of(loops: Loops, cases: frozenset[Case]) -> Turns:
    """The turns of some loops in which these cases hold."""
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


def _contraction(e: Expression, need: Need, visit: Visit) -> Contraction | None:
    """The contraction that e is: a product under `sum` in which two or more factors have summed letters."""
    flow, known = visit.flow, visit.flow.known_at[id(visit.equation)]
    if not (isinstance(e, Apply) and e.name == "sum" and isinstance(e.arguments[0], Product | Quotient)):
        return None
    inside, summed = e.arguments[0], frozenset(index.letter for index in e.indices)
    operands = {id(f): letters for f in factors_of(inside) if (letters := frozenset(flow.scope.free(f))) & summed}
    if len(operands) < 2:
        return None
    letters = frozenset[str]().union(*operands.values())
    choices = need.choices | flow.support(inside, known).zero
    trained = tuple(flow.trained(factor, known) for factor in factors_of(inside) if id(factor) in operands)
    return Contraction(tuple(operands.values()), summed, chosen_of(choices, letters), _bounds(choices, letters), trained)


def _softmax(e: Expression, need: Need, visit: Visit) -> Softmax | None:
    """The softmax that e is; it is zero where its argument is -inf."""
    if not (isinstance(e, Apply) and e.name == "Sm"):
        return None
    letters = frozenset(visit.flow.scope.free(e)) | {index.letter for index in e.indices}
    choices = need.choices | visit.flow.support(e, visit.flow.known_at[id(visit.equation)]).zero
    return Softmax(letters, _bounds(choices, letters))


def _gather(e: Expression, visit: Visit) -> Gather | None:
    """The rows of a table of weights that e reads."""
    if not isinstance(e, Tensor):
        return None
    axes = [axis for tensor, axis in _gathers(visit.flow.layer) if tensor is e]
    return Gather(frozenset(visit.flow.scope.free(e)), axes[0]) if axes else None


def _bounds(choices: Choices, letters: Letters) -> tuple[Bound, ...]:
    """The bounds between these letters."""
    found = {bound for bound in choices if isinstance(bound, Bound) and bound.places <= letters}
    return tuple(sorted(found, key=repr))


def chosen_of(choices: Choices, letters: Letters) -> tuple[Chosen, ...]:
    """The choices of these letters, for each letter one."""
    found = {
        choice.place: Chosen(choice.place, choice.count, frozenset(map(str, choice.along)))
        for choice in sorted(choices, key=repr)
        if isinstance(choice, Choice) and isinstance(choice.place, str) and choice.place in letters
    }
    return tuple(found[letter] for letter in sorted(found))
