"""Says which definition of a name reaches an equation, so that a name can be replaced by its value.

A tensor that `<-` changes is another value afterwards, and another one in each turn of a loop: definitions reach their uses by
control flow, not by name.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from einformer.notation.tree import Equation, Expression, Layer, Loop, Name, Statement, Tensor
from einformer.notation.walk import equations, subexpressions


@dataclass(frozen=True, slots=True, eq=False)
class Definition:
    """One value of a name: the equation that computes it, the loops around it, the definitions that its right side reads.

    What one turn of a loop hands to the next has no equation, nor has a recurrence.
    """

    equation: Equation | None = None
    loops: tuple[str, ...] = ()
    reads: dict[str, Definition] = field(default_factory=dict)

    def holds(self, e: Expression, known: Known) -> bool:
        """Does each name of e, read by this definition, still have the same value where `known` reaches?"""
        names = {name for x in subexpressions(e) if (name := _name(x)) is not None}
        return all(self.reads.get(name) is known.get(name) for name in names)


Known = dict[str, Definition]


@dataclass(frozen=True, slots=True)
class Reach:
    """The definitions that reach one equation, and the loops around it. Formals and weights have none.

    `once` are the names that have one definition, which one expression reads.
    """

    known: Known = field(default_factory=dict)
    loops: tuple[str, ...] = ()
    once: frozenset[str] = frozenset()

    def definition(self, e: Expression) -> Definition | None:
        """The definition of a tensor that is read at the letters of its left side."""
        definition = self.known.get(e.name) if isinstance(e, Tensor) else None
        return definition if definition is not None and definition.equation and definition.equation.left == e else None

    def value(self, e: Expression) -> Expression:
        """The right side that defines a tensor, in the names known there; other expressions as they are."""
        definition = self.definition(e)
        return definition.equation.right if definition is not None and definition.equation else e

    def opened(self, e: Expression) -> Expression:
        """The right side that can stand in the place of a tensor: nothing else reads it, and all that it reads is unchanged."""
        definition, right = self.definition(e), self.value(e)
        if definition is None or _name(e) not in self.once or definition.loops != self.loops:
            return e
        return right if definition.holds(right, self.known) else e


def reaching(layer: Layer) -> dict[int, Reach]:
    """The definitions that reach each equation of a layer, by the id of the equation."""
    reach, once = dict[int, Reach](), _once(layer)

    def follow(body: tuple[Statement, ...], known: Known, loops: tuple[str, ...]) -> Known:
        for statement in body:
            if isinstance(statement, Loop):
                changed = {equation.left.name for equation in equations(statement.body)}
                follow(statement.body, known | {name: Definition() for name in changed}, (*loops, statement.index.letter))
                known = known | {name: Definition() for name in changed}
            else:
                reach[id(statement)] = Reach(known, loops, once)
                known = known | {statement.left.name: _definition(statement, known, loops)}
        return known

    follow(layer.body, {}, ())
    return reach


def _definition(equation: Equation, known: Known, loops: tuple[str, ...]) -> Definition:
    recurs = equation.relation == "=" and equation.left.name in map(_name, subexpressions(equation.right))
    return Definition(None if recurs else equation, loops, known)


def _once(layer: Layer) -> frozenset[str]:
    """The names that have one definition, which one expression reads."""
    defined = Counter(equation.left.name for equation in equations(layer.body))
    read = Counter(_name(e) for equation in equations(layer.body) for e in subexpressions(equation.right))
    return frozenset(name for name, count in defined.items() if count == read[name] == 1 and name != layer.output.name)


def _name(e: Expression) -> str | None:
    return e.name if isinstance(e, Tensor | Name) else None
