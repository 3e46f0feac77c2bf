"""Decides which numbers are whole, as a slot wants them (R4), and which inputs must be for that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

from einformer.errors import EinformerError
from einformer.language.instances import callees
from einformer.language.primitives import COMPARISONS, PRIMITIVES, primitive
from einformer.language.sizes import Legend
from einformer.language.tree import Apply, Expression, Group, Index, Layer, Name, Number, Power, Product, Quotient, Sum, Tensor
from einformer.language.walk import children, equations, subexpressions

ROUNDING = frozenset(row.name for row in PRIMITIVES.values() if row.whole == "made")

Parts = tuple[Expression, ...]
Inputs = frozenset[str]


class Whole:
    """The whole numbers of one layer; `known` has those of the layers that were asked about."""

    def __init__(
        self, layer: Layer, layers: Mapping[str, Layer], legend: Legend, known: dict[str, Whole] | None = None
    ) -> None:
        self.layer, self.layers, self.legend, self.callees = layer, layers, legend, callees(layer, layers)
        self.known = {} if known is None else known
        self.formals = {formal.name for formal in layer.formals}
        self.lines: dict[str, Parts] = {}
        for q in equations(layer.body):
            self.lines[q.left.name] = (*self.lines.get(q.left.name, ()), q.right)

    def needs(self, e: Expression) -> Inputs | None:
        """The inputs that must be whole for e to be; None where e need not be. A recurrence of whole numbers is whole."""
        waiting, seen = [e], set[str]()
        while waiting:
            e = waiting.pop()
            if isinstance(e, Tensor | Name) and e.name in seen:
                continue
            parts = self.parts(e)
            if parts is None:
                return None
            seen |= {e.name} if isinstance(e, Tensor | Name) else set()
            waiting += parts
        return frozenset(self.formals & seen)

    def parts(self, e: Expression) -> Parts | None:
        """What must be whole for e to be; None where nothing makes it whole."""
        match e:
            case Tensor() | Name() if e.name in self.formals or e.name in self.lines:
                return self.lines.get(e.name, ())
            case Tensor():
                value = self.legend.scalars[e.name].value if e.name in self.legend.scalars else None
                return value if isinstance(value, tuple) or value is None else (value,)
            case Number() | Name():
                return self.number(e)
            case Quotient():
                return None if any(isinstance(x, Index | Tensor) for x in subexpressions(e)) else self.number(e)
            case Power(exponent=Index() | Number(value=int())):
                return (e.base,)
            case Power():
                return None
            case Index():
                return ()
            case Group():
                return e.members
            case Sum():
                return e.terms
            case Product():
                return e.factors
            case Apply():
                return self.applied(e)

    def number(self, e: Expression) -> Parts | None:
        """What is not bound is asked about again when it is."""
        try:
            value = self.legend.number(e)
        except EinformerError:
            return ()
        return () if value == value // 1 else None

    def applied(self, e: Apply) -> Parts | None:
        """What must be whole for the value of a function or a layer to be."""
        if e.name in self.callees:
            inner = self.callee(e).output
            return None if inner is None else tuple(self.given(e, inner))
        if e.name == "where":
            return e.arguments[1:]
        row = primitive(e.name, bool(e.indices))
        whole = row.whole if row else ""
        return () if whole == "made" else e.arguments if whole == "kept" else None

    def callee(self, e: Apply) -> Whole:
        """The layer that is called."""
        layer = self.callees[e.name]
        return self.known.setdefault(layer.name, Whole(layer, self.layers, self.legend, self.known))

    def given(self, e: Apply, formals: Inputs) -> Iterator[Expression]:
        """What a call gives for these formals."""
        pairs = zip(self.callees[e.name].formals, e.arguments, strict=False)
        return (argument for formal, argument in pairs if formal.name in formals)

    @cached_property
    def output(self) -> Inputs | None:
        """The inputs that must be whole for the output to be."""
        return self.needs(Name(self.layer.output.name))

    @cached_property
    def selecting(self) -> Inputs:
        """The inputs that must be whole for every slot of the layer, and of those that it calls, to be."""
        return frozenset().union(*(self.needs(slot) or () for q in equations(self.layer.body) for slot in self.slots(q.right)))

    @cached_property
    def either(self) -> Inputs:
        """The inputs that are compared or rounded wherever they are read: they may be whole numbers or not."""
        outside = {x.name for q in equations(self.layer.body) for x in self.unrounded(q.right) if isinstance(x, Tensor)}
        return frozenset(self.formals - outside - self.selecting)

    def unrounded(self, e: Expression) -> Iterator[Expression]:
        """e and what is inside it, but for what is compared or rounded."""
        if not (isinstance(e, Apply) and e.name in (*COMPARISONS, *ROUNDING)):
            yield e
            for child in children(e):
                yield from self.unrounded(child)

    def slots(self, e: Expression) -> Iterator[Expression]:
        """What in e must be whole: tensors in slots, and what a layer is given that reads it in one."""
        for x in subexpressions(e):
            if isinstance(x, Tensor):
                yield from (slot for slot in x.slots if isinstance(slot, Tensor))
            elif isinstance(x, Apply) and x.name in self.callees:
                yield from self.given(x, self.callee(x).selecting)
