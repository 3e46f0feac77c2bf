"""What is known of every value, turn by turn of the loops, and which equation does each reading read?"""

from __future__ import annotations

from dataclasses import dataclass, field

from einformer.notation.calls import axis_of
from einformer.notation.causality import Analysis, Frame
from einformer.notation.instances import callees
from einformer.notation.known import NEVER, Known, constant
from einformer.notation.tree import Apply, Equation, Expression, Index, Layer, Name, Statement, Tensor
from einformer.notation.weights import place, versions


@dataclass(frozen=True, slots=True)
class Definition:
    """A tensor as one equation, or a call, leaves it: `name` has a number where it is not the first of a turn."""

    name: str
    left: Tensor | Name
    known: Known
    whole: bool = False

    @property
    def depends(self) -> bool:
        """Does it depend on the inputs?"""
        return bool((self.known.late > NEVER).any())

    def times(self, axis: str) -> list[tuple[int, str]]:
        """The slots over time, and their letters."""
        slots = enumerate(slots_of(self.left))
        return [(k, slot.letter) for k, slot in slots if isinstance(slot, Index) and axis_of(slot.letter) == axis]


@dataclass(slots=True)
class Step:
    """An equation in one turn of the loops around it, what was known in it, and what it read."""

    equation: Equation
    path: str
    seen: dict[int, Known] = field(default_factory=dict)
    called: dict[int, tuple[str, Body]] = field(default_factory=dict)
    reads: dict[str, Definition] = field(default_factory=dict)
    defines: Definition = field(init=False)


@dataclass(slots=True)
class Run(Analysis):
    """The bodies of one model, each once for what it is given."""

    rows: frozenset[str] = frozenset()
    bodies: dict[tuple[object, ...], Body] = field(default_factory=dict)

    def body(self, layer: Layer, given: tuple[Known, ...], whole: frozenset[str] = frozenset()) -> Body:
        """The layer as it is called with what is known of its inputs."""
        same = (layer.name, whole, *((known.dims, known.number.tobytes(), known.late.tobytes()) for known in given))
        if same not in self.bodies:
            body = Body(self, layer, {axis_of(self.time): False}, self.rows)
            for formal, known in zip(layer.formals, given, strict=True):
                body.given(formal, known, formal.name in whole)
            body.statements(layer.body)
            self.bodies[same] = body
        return self.bodies[same]


@dataclass(slots=True)
class Body(Frame):
    """One specialised body, its loops unrolled: followed forwards for what is known, backwards for where it is needed."""

    turn: dict[str, int] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    step: Step = field(init=False)
    inputs: dict[str, Definition] = field(default_factory=dict)
    defined: dict[str, Definition] = field(default_factory=dict)
    names: dict[int, tuple[str, int]] = field(init=False)

    def __post_init__(self) -> None:
        Frame.__post_init__(self)
        self.names = versions(self.layer)

    @property
    def run(self) -> Run:
        """The model that the body belongs to."""
        assert isinstance(self.model, Run)
        return self.model

    def given(self, formal: Tensor, known: Known, whole: bool) -> None:
        """An input."""
        self.keep(formal, known)
        self.defined[formal.name] = self.inputs[formal.name] = Definition(formal.name, formal, known, whole)

    def statements(self, body: tuple[Statement, ...]) -> None:
        """The statements in order, loops turn by turn."""
        for statement in body:
            if isinstance(statement, Equation):
                self.equation(statement)
                continue
            for turn in range(int(self.model.legend.number(statement.count))):
                self.turn[statement.index.letter] = turn
                self.statements(statement.body)
            self.turn.pop(statement.index.letter, None)

    def equation(self, equation: Equation) -> None:
        """What one equation defines; a recurrence reads itself."""
        path = ".".join(f"blocks.{turn}" for turn in self.turn.values())
        self.step = step = Step(equation, path, reads=self.defined)
        self.steps.append(step)
        left = equation.left
        known = self.value(equation.right)
        self.keep(left, known)
        step.defines = Definition(self.names[id(equation)][0], left, known)
        self.defined = {**self.defined, left.name: step.defines}

    def value(self, e: Expression) -> Known:
        """What is known of e, remembered for the way back."""
        known = constant(self.turn[e.letter]) if isinstance(e, Index) and e.letter in self.turn else Frame.value(self, e)
        self.step.seen[id(e)] = known
        return known

    def call(self, e: Apply) -> Known:
        """A specialised layer names exactly the letters of its actuals."""
        layer = callees(self.layer, self.model.layers)[e.name]
        body = self.run.body(layer, tuple(map(self.value, e.arguments)))
        self.step.called[id(e)] = (f"{self.step.path}.{place(e, self.layer)}".lstrip("."), body)
        return body.kept[layer.output.name].known


def slots_of(left: Tensor | Name) -> tuple[Expression, ...]:
    """The slots of a tensor; a bare name has none."""
    return left.slots if isinstance(left, Tensor) else ()
