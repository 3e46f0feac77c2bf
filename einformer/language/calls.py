"""Binds the indices of a call to the indices of the layer that it calls, and names the set of weights of each call (R7)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from einformer.errors import EinformerError, Finding, Span, fail
from einformer.language.printer import PLAIN
from einformer.language.tree import Apply, Equation, Expression, Index, Layer, Name, Tensor, Weight
from einformer.language.walk import equations, find_all, loops, map_in_turns, open_groups, rebuild, slots_of

Letters = dict[str, None]  # an ordered set


@dataclass(frozen=True, slots=True)
class Binding:
    """How a call binds. `letters` maps the layer's letters to the caller's."""

    letters: Mapping[str, str]
    bound: tuple[frozenset[str], ...]  # for each argument, the caller's letters that its formal takes
    output: tuple[str, ...]  # the caller's letters of the output, apart from those carried along

    @property
    def kept(self) -> frozenset[str]:
        return frozenset(self.output).intersection(*[frozenset().union(*self.bound)])


# The binding of a call whose arguments have the free indices `actuals`; `loops` are instance letters, not renamings. A formal
# index takes the one that the call's subscript names, else the same letter, else the only index over its axis. Raises
# EinformerError E401 to E406.
def bind_call(layer: Layer, call: Apply, actuals: Sequence[Letters], loops: frozenset[str]) -> Binding:
    if len(call.arguments) != len(layer.formals):
        message = f"`{call.name}` takes {len(layer.formals)} arguments, here are {len(call.arguments)}"
        raise _fail("E401", message, call.span, layer)
    letters = _read_renaming(layer, call, loops)
    bound = []
    for formal, actual in zip(layer.formals, actuals, strict=True):
        used: set[str] = set()
        for slot in formal.slots:
            assert isinstance(slot, Index)
            choice = letters.get(slot.letter) or _choose(slot.letter, actual, used | set(letters.values()), layer, call)
            letters[slot.letter] = choice
            used.add(choice)
        if missing := used - set(actual):
            has = f"its argument for `{PLAIN.left(formal)}` has {_spell(actual)}"
            message = f"`{call.name}` works on `{min(missing)}` here, but {has}"
            raise _fail("E402", message, call.span, layer, f"an argument with `{min(missing)}`: ")
        bound.append(frozenset(used))
    output = tuple(letters.setdefault(letter, letter) for letter in slot_letters(layer.output))
    _check_carried(layer, call, actuals, bound, output)
    return Binding(letters, tuple(bound), output)


def slot_letters(left: Tensor | Name) -> tuple[str, ...]:
    return tuple([x.letter for x in open_groups(slots_of(left)) if isinstance(x, Index)])


# An index `s''` runs over the axis `s`.
def axis_of(letter: str) -> str:
    return letter.rstrip("'")


def _read_renaming(layer: Layer, call: Apply, loops: frozenset[str]) -> dict[str, str]:
    named = [index for index in call.indices if index.letter not in loops]
    if len(named) > len(layer.indices):
        message = f"the subscript of `{call.name}` names {len(named)} indices, its head has {len(layer.indices)}"
        raise _fail("E402", message, named[-1].span, layer)
    return {formal.letter: actual.letter for formal, actual in zip(layer.indices, named, strict=False)}


def _choose(letter: str, actual: Letters, used: set[str], layer: Layer, call: Apply) -> str:
    if letter in actual and letter not in used:
        return letter
    same_axis = [other for other in actual if axis_of(other) == axis_of(letter) and other not in used]
    if len(same_axis) == 1:
        return same_axis[0]
    how = f"could be {' or '.join(f'`{other}`' for other in same_axis)}" if same_axis else "is over none of them"
    message = f"`{call.name}` works on `{letter}`; its argument has {_spell(actual)}, and `{letter}` {how}"
    named, free = Index(letter) in layer.indices, set(actual) - used
    if not named and (layer.span.source != call.span.source or not free):
        raise _fail("E402", message, call.span, layer, f"an argument with `{letter}`: ")
    head = "" if named else f"`{layer.name}{PLAIN.subscript((*layer.indices, Index(letter)))}(…)` as its head, and "
    fix = f"{head}`{call.name}_…` with the index that stands for `{letter}`"
    raise fail("E402", message, call.span, [cite_layer(layer)], fix)


# A carried index must differ from the other indices of the layer.
def _check_carried(
    layer: Layer, call: Apply, actuals: Sequence[Letters], bound: Sequence[frozenset[str]], output: tuple[str, ...]
) -> None:
    own = frozenset(output).union(*bound)
    for actual, bound_index in zip(actuals, bound, strict=True):
        for letter in actual:
            if letter in own - bound_index:
                message = f"`{call.name}` has an index `{letter}` of its own, and its argument carries another along"
                raise fail("E406", message, call.span, [cite_layer(layer)], f"another letter in the argument, `{letter}'`")


def _fail(code: str, message: str, span: Span, layer: Layer, fix: str = "") -> EinformerError:
    return fail(code, message, span, [cite_layer(layer)], f"{fix}`{PLAIN.signature(layer)}`")


def _spell(letters: Iterable[str]) -> str:
    return ", ".join(f"`{letter}`" for letter in letters) or "none"


def cite_layer(layer: Layer) -> str:
    return f"defined as `{PLAIN.signature(layer)}` ({layer.span})"


def calls(layer: Layer) -> list[Apply]:
    return [e for equation in equations(layer.body) for e in find_all(Apply, equation.right)]


# A body calls its named instances, and the layers of the file by their own names.
def callees(layer: Layer, layers: Mapping[str, Layer]) -> dict[str, Layer]:
    named = {w.name: layers[w.layer] for w in layer.weights if w.kind == "instance" and w.layer in layers}
    return {**layers, **named}


def called_layers(layer: Layer, layers: Mapping[str, Layer]) -> list[tuple[Apply, Layer]]:
    callable_ = callees(layer, layers)
    return [(call, callable_[call.name]) for call in calls(layer) if call.name in callable_]


# Layers with weights or buffers, and those that call one.
def find_weighted(layers: Mapping[str, Layer]) -> frozenset[str]:
    called = {name: {call.name for call in calls(layer)} for name, layer in layers.items()}
    names = {name for name, layer in layers.items() if layer.weights}
    while more := {name for name in called.keys() - names if called[name] & names}:
        names |= more
    return frozenset(names)


# The layer with its anonymous instances of layers that have weights named, and the calls in a loop without its letter.
def name_instances(layer: Layer, weighted: frozenset[str]) -> tuple[Layer, list[Finding]]:
    naming = _Naming(layer, weighted)
    body = map_in_turns(layer.body, naming.equation)
    named = replace(layer, body=body, weights=layer.weights + tuple(naming.instances))
    return named, [*naming.findings, *_find_odds(named)]


# A call of an instance with other letters of loops than its first call: the text must say which turns share weights.
def _find_odds(layer: Layer) -> Iterator[Finding]:
    instances = {w.name for w in layer.weights if w.kind == "instance"}
    turning, first = {loop.index for loop in loops(layer.body)}, dict[str, tuple[Index, ...]]()
    for call in (call for call in calls(layer) if call.name in instances):
        letters = tuple(index for index in call.indices if index in turning)
        if letters != first.setdefault(call.name, letters):
            over = "".join(index.letter for index in first[call.name])
            sets = f"a set of weights for each turn over `{over}`" if over else "one set"
            fix = "the same letters at every call, or another instance"
            yield Finding("E403", f"`{call.name}` has {sets}", call.span, fix=fix)


class _Naming:  # the instances of one body, numbered in the order in which they are met
    def __init__(self, layer: Layer, weighted: frozenset[str]) -> None:
        self.weighted, self.named = weighted, {w.name for w in layer.weights if w.kind == "instance"}
        self.instances: list[Weight] = []
        self.count: dict[str, int] = {}
        self.findings: list[Finding] = []

    def equation(self, equation: Equation, turning: tuple[Index, ...]) -> Equation:
        return replace(equation, right=self.expression(equation.right, turning))

    # The name of an outer call comes before those of its arguments, as in the text. Its turns stand in the order of the loops.
    def expression(self, e: Expression, turning: tuple[Index, ...]) -> Expression:
        if isinstance(e, Apply) and len(set(turning).intersection(e.indices)) > 1:
            e = replace(e, indices=tuple(sorted(e.indices, key=lambda i: turning.index(i) if i in turning else len(turning))))
        if not (isinstance(e, Apply) and e.name in self.weighted and e.name not in self.named):
            return rebuild(e, lambda child: self.expression(child, turning))
        for loop in turning[-1:]:
            if loop in e.indices:
                continue
            message = f"`{e.name}` has weights and stands in a loop over `{loop.letter}`"
            fix = f"`{e.name}_{loop.letter}` for a set in each turn, or an instance, `weights name: {e.name}`, for one in all"
            self.findings.append(Finding("E403", message, e.span, fix=fix))
        self.count[e.name] = number = self.count.get(e.name, 0) + 1
        name = e.name if number == 1 else f"{e.name}_{number}"
        self.instances.append(Weight(name, (), "instance", layer=e.name, span=e.span))
        return rebuild(replace(e, name=name), lambda child: self.expression(child, turning))
