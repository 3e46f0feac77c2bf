"""Binds the indices of a call to the indices of the layer that it calls, and names the set of weights of each call (R7)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from einformer.errors import EinformerError, Finding, fail
from einformer.language.printer import PLAIN
from einformer.language.tree import Apply, Equation, Expression, Group, Index, Layer, Loop, Name, Statement, Tensor, Weight
from einformer.language.walk import equations, loops, map_equations, rebuild, subexpressions

Letters = dict[str, None]  # an ordered set


@dataclass(frozen=True, slots=True)
class Binding:
    """How a call binds. `letters` maps the layer's letters to the caller's."""

    letters: Mapping[str, str]
    bound: tuple[frozenset[str], ...]  # for each argument, the caller's letters that its formal takes
    output: tuple[str, ...]  # the caller's letters of the output, apart from those carried along

    @property
    def kept(self) -> frozenset[str]:
        """Letters that go in and come out."""
        return frozenset(self.output).intersection(*[frozenset().union(*self.bound)])


def bind_call(layer: Layer, call: Apply, actuals: Sequence[Letters], loops: frozenset[str]) -> Binding:
    """The binding of a call whose arguments have the free indices `actuals`; `loops` are instance letters, not renamings.

    A formal index takes the one that the call's subscript names, else the same letter, else the only index over its axis.
    Raises EinformerError E401 to E406.
    """
    if len(call.arguments) != len(layer.formals):
        message = f"`{call.name}` takes {len(layer.formals)} arguments, here are {len(call.arguments)}"
        raise fail("E401", message, call.span, [cite_layer(layer)], f"`{PLAIN.signature(layer)}`")
    letters = _read_renaming(layer, call, loops)
    bound = []
    for formal, actual in zip(layer.formals, actuals, strict=True):
        taken: set[str] = set()
        for slot in formal.slots:
            assert isinstance(slot, Index)
            choice = letters.get(slot.letter) or _choice(slot.letter, actual, taken | set(letters.values()), layer, call)
            letters[slot.letter] = choice
            taken.add(choice)
        if missing := taken - set(actual):
            raise _lacking(layer, call, formal, sorted(missing)[0], actual)
        bound.append(frozenset(taken))
    output = tuple(letters.setdefault(letter, letter) for letter in slot_letters(layer.output))
    _carried_apart(layer, call, actuals, bound, output)
    return Binding(letters, tuple(bound), output)


def slot_letters(left: Tensor | Name) -> tuple[str, ...]:
    """The letters of a left side, groups opened."""
    slots = left.slots if isinstance(left, Tensor) else ()
    members = [x for slot in slots for x in (slot.members if isinstance(slot, Group) else (slot,))]
    return tuple([x.letter for x in members if isinstance(x, Index)])


def axis_of(letter: str) -> str:
    """The letter of the axis that an index runs over: `s''` runs over `s`."""
    return letter.rstrip("'")


def _read_renaming(layer: Layer, call: Apply, loops: frozenset[str]) -> dict[str, str]:
    named = [index for index in call.indices if index.letter not in loops]
    if len(named) > len(layer.indices):
        message = f"the subscript of `{call.name}` names {len(named)} indices, its head has {len(layer.indices)}"
        raise fail("E402", message, named[-1].span, [cite_layer(layer)], f"`{PLAIN.signature(layer)}`")
    return {formal.letter: actual.letter for formal, actual in zip(layer.indices, named, strict=False)}


def _choice(letter: str, actual: Letters, taken: set[str], layer: Layer, call: Apply) -> str:
    if letter in actual and letter not in taken:
        return letter
    same_axis = [other for other in actual if axis_of(other) == axis_of(letter) and other not in taken]
    if len(same_axis) == 1:
        return same_axis[0]
    have = ", ".join(f"`{other}`" for other in actual) or "none"
    how = "is over none of them" if not same_axis else f"could be {' or '.join(f'`{other}`' for other in same_axis)}"
    fix = (
        f"`{call.name}_…` with the index that stands for `{letter}`"
        if letter in {i.letter for i in layer.indices}
        else f"`{PLAIN.signature(layer)}`"
    )
    message = f"`{call.name}` works on `{letter}`; its argument has {have}, and `{letter}` {how}"
    raise fail("E402", message, call.span, [cite_layer(layer)], fix)


# A carried index must differ from the other indices of the layer.
def _carried_apart(
    layer: Layer, call: Apply, actuals: Sequence[Letters], bound: Sequence[frozenset[str]], output: tuple[str, ...]
) -> None:
    own = frozenset(output).union(*bound)
    for actual, bound_index in zip(actuals, bound, strict=True):
        for letter in actual:
            if letter in own - bound_index:
                message = f"`{call.name}` has an index `{letter}` of its own, and its argument carries another along"
                raise fail("E406", message, call.span, [cite_layer(layer)], f"another letter in the argument, `{letter}'`")


def _lacking(layer: Layer, call: Apply, formal: Tensor, letter: str, actual: Letters) -> EinformerError:
    have = ", ".join(f"`{other}`" for other in actual) or "none"
    message = f"`{call.name}` works on `{letter}` here, but its argument for `{PLAIN.left(formal)}` has {have}"
    return fail("E402", message, call.span, [cite_layer(layer)], f"an argument with `{letter}`: `{PLAIN.signature(layer)}`")


def cite_layer(layer: Layer) -> str:
    """Where a layer is defined, and how."""
    return f"defined as `{PLAIN.signature(layer)}` ({layer.span})"


def calls(layer: Layer) -> list[Apply]:
    """Every application in the body of a layer, in the order of the text."""
    return [e for equation in equations(layer.body) for e in subexpressions(equation.right) if isinstance(e, Apply)]


def callees(layer: Layer, layers: Mapping[str, Layer]) -> dict[str, Layer]:
    """What a body can call: its named instances, and the layers of the file by their own names."""
    named = {w.name: layers[w.layer] for w in layer.weights if w.kind == "instance" and w.layer in layers}
    return {**layers, **named}


def called_layers(layer: Layer, layers: Mapping[str, Layer]) -> list[tuple[Apply, Layer]]:
    """The calls in a body, each with the layer that is called."""
    callable_ = callees(layer, layers)
    return [(call, callable_[call.name]) for call in calls(layer) if call.name in callable_]


def find_weighted(layers: Mapping[str, Layer]) -> frozenset[str]:
    """The names of the layers that have weights or buffers, or call a layer that has."""
    called = {name: {call.name for call in calls(layer)} for name, layer in layers.items()}
    names = {name for name, layer in layers.items() if layer.weights}
    while more := {name for name in called.keys() - names if called[name] & names}:
        names |= more
    return frozenset(names)


def name_instances(layer: Layer, weighted: frozenset[str]) -> tuple[Layer, list[Finding]]:
    """The layer with its anonymous instances of layers that have weights named, and the calls in a loop without its letter."""
    naming = _Naming(layer, weighted)
    body = naming.statements(layer.body, None)
    named = replace(layer, body=body, weights=layer.weights + tuple(naming.instances))
    return named, [*naming.findings, *_at_odds(named)]


# A call of an instance with other letters of loops than its first call: the text must say which turns share weights.
def _at_odds(layer: Layer) -> Iterator[Finding]:
    instances = {w.name for w in layer.weights if w.kind == "instance"}
    turning, first = {loop.index for loop in loops(layer.body)}, dict[str, tuple[Index, ...]]()
    for call in (call for call in calls(layer) if call.name in instances):
        letters = tuple(index for index in call.indices if index in turning)
        if letters != first.setdefault(call.name, letters):
            first_letters = "".join(index.letter for index in first[call.name])
            yield Finding(
                "E403",
                f"`{call.name}` has a set of weights for each turn over `{first_letters}`"
                if first_letters
                else f"`{call.name}` has one set",
                call.span,
                fix="the same letters at every call, or another instance",
            )


class _Naming:
    """The instances of one body, numbered in the order in which they are met."""

    def __init__(self, layer: Layer, weighted: frozenset[str]) -> None:
        self.weighted, self.named = weighted, {w.name for w in layer.weights if w.kind == "instance"}
        self.instances: list[Weight] = []
        self.count: dict[str, int] = {}
        self.findings: list[Finding] = []

    def statements(self, body: tuple[Statement, ...], loop: Index | None) -> tuple[Statement, ...]:
        named: list[Statement] = []
        for statement in body:
            if isinstance(statement, Loop):
                named.append(replace(statement, body=self.statements(statement.body, statement.index)))
            else:
                named.extend(map_equations((statement,), lambda equation: self.equation(equation, loop)))
        return tuple(named)

    def equation(self, equation: Equation, loop: Index | None) -> Equation:
        right = self.expression(equation.right, loop)
        return equation if right is equation.right else replace(equation, right=right)

    def expression(self, e: Expression, loop: Index | None) -> Expression:
        """The name of an outer call comes before those of its arguments, as in the text."""
        if not (isinstance(e, Apply) and e.name in self.weighted and e.name not in self.named):
            return rebuild(e, lambda child: self.expression(child, loop))
        if loop is not None and loop.letter not in {index.letter for index in e.indices}:
            message = f"`{e.name}` has weights and stands in a loop over `{loop.letter}`"
            fix = f"`{e.name}_{loop.letter}` for a set in each turn, or an instance, `weights name: {e.name}`, for one in all"
            self.findings.append(Finding("E403", message, e.span, fix=fix))
        self.count[e.name] = number = self.count.get(e.name, 0) + 1
        name = e.name if number == 1 else f"{e.name}_{number}"
        self.instances.append(Weight(name, (), "instance", layer=e.name, span=e.span))
        return rebuild(replace(e, name=name), lambda child: self.expression(child, loop))
