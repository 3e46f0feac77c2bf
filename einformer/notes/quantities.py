"""What can a claim be about? A quantity of a text, derived: parameters, FLOPs, bytes, the shape of a tensor."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeVar

from einformer.errors import EinformerError, fail
from einformer.interpreters.count import formulas, memory, rules
from einformer.interpreters.count.conventions import CONVENTIONS
from einformer.interpreters.count.derived import derive
from einformer.interpreters.count.memory import Activation
from einformer.interpreters.count.precisions import PRECISIONS
from einformer.interpreters.count.rules import EquationCount, Phase, Recompute, WeightCount
from einformer.interpreters.count.traffic import Traffic, intensity, traffic
from einformer.language import binding
from einformer.language.sizes import Legend
from einformer.language.tree import Group, Index, Layer, Spec, Tensor
from einformer.language.walk import equations
from einformer.notes.conventions import conventions, read
from einformer.notes.shelf import understood
from einformer.program import check

if TYPE_CHECKING:
    import sympy

_ANY = 64  # what a size that stands for itself counts as, where sizes decide the order of a contraction
Count = TypeVar(
    "Count", "WeightCount[sympy.Expr]", "EquationCount[sympy.Expr]", "Activation[sympy.Expr]", "Traffic[sympy.Expr]"
)


@dataclass(frozen=True, slots=True)
class About:
    """A quantity (`what`) `of` a text (`gpt2`), or of one of its layers (`gpt2.MLP`), of a turn of its loop
    (`gpt2.block`), or of what is in no loop (`gpt2.outside`). Numbers and letters are formulas in our letters.
    """

    what: str
    of: str = ""
    only: tuple[str, ...] = ()  # weights by name, equations by their left side, components of memory
    without: tuple[str, ...] = ()  # optional weights, `CausalAttention.α`; `*` is all of them
    free: str = ""  # sizes that stand for themselves, though the text derives them from others
    convention: str = "torch"
    phase: Phase | Literal["recomputed"] = "forward"
    recompute: Recompute = "none"
    cached: str = "0"
    fused: bool = False  # scores and weights of attention stay on the chip
    element: str = "p"  # bytes of a number that is kept or moved
    shards: tuple[tuple[str, str], ...] = ()  # letters, and how many devices share their axes
    precision: str = "bfloat16"
    zero: int = 0
    ranks: str = "R"
    drop: str = ""  # letters that a shape is said without
    per: str = "1"

    @property
    def text(self) -> str:
        """The name of the text."""
        return self.of.partition(".")[0]

    @property
    def part(self) -> str:
        """`MLP`, `block`, `outside`; nothing for the whole."""
        return self.of.partition(".")[2]


@functools.cache
def derived(about: About) -> tuple[sympy.Expr, ...]:
    """The quantity as a formula in our letters; of a shape, one for each axis. Raises EinformerError."""
    return tuple(each / ours(about.per) for each in QUANTITIES[about.what](about))


def number(text: str, letters: Mapping[str, str], about: About | None = None) -> sympy.Expr:
    """A printed formula in our letters; of those, sizes that the text derives from others are replaced."""
    return formulas.Letters(_root(about).legend if about and about.of else Legend({}, {})).number(read(text, letters))


@functools.cache
def spec(text: str, without: tuple[str, ...] = ()) -> Spec:
    """A shipped text, or one of the documents', without some of its optional weights. Raises EinformerError."""
    written, tree, findings = understood(text)
    if without and not findings:
        names = (f"{layer.name}.{w.name}" for layer in written.layers for w in layer.weights if w.optional)
        tree, findings = check.check(binding.without(written, names if without == ("*",) else without))
    if findings:
        raise EinformerError(findings)
    return tree


@dataclass(frozen=True, slots=True)
class _Root:
    """Where a count starts: at the model that a text ends with, else at a layer itself."""

    text: str
    without: tuple[str, ...]
    name: str
    free: str

    @property
    def spec(self) -> Spec:
        return spec(self.text, self.without)

    @property
    def legend(self) -> Legend:
        """Only sizes that stand for themselves are bound, whatever to: they stay letters."""
        return Legend.of(self.spec, dict.fromkeys(self.free.split(), _ANY))


def _root(about: About) -> _Root:
    last = spec(about.text, about.without).layers[-1]
    return _Root(about.text, about.without, last.name if last.kind == "model" else about.part or last.name, about.free)


@functools.cache
def _weights_of(root: _Root) -> tuple[WeightCount[sympy.Expr], ...]:
    return tuple(count for count in formulas.weights(root.spec, root.name, root.legend) if count.trained)


@functools.cache
def _equations_of(root: _Root, convention: str, cached: str) -> tuple[EquationCount[sympy.Expr], ...]:
    return formulas.flops(root.spec, root.name, root.legend, CONVENTIONS[convention], ours(cached))


@functools.cache
def _kept_by(
    root: _Root, element: str, recompute: Recompute, shards: tuple[tuple[str, str], ...]
) -> tuple[Activation[sympy.Expr], ...]:
    sizes = {letters: ours(devices) for letters, devices in shards}
    return formulas.activations(root.spec, root.name, ours(element), recompute, sizes, root.legend)


@functools.cache
def ours(text: str) -> sympy.Expr:
    """A formula in our letters."""
    return number(text, conventions()["ours"])


def _counted(about: About, counts: Iterable[Count], name: Callable[[Count], str]) -> list[Count]:
    """The counts of a part, those of a loop in a single turn, and of them those named."""
    root = _root(about)
    of_part = [count for each in counts for count in _of_part(about, root, each)]
    found = [count for count in of_part if not about.only or name(count) in about.only]
    if missing := set(about.only) - set(map(name, found)):
        raise fail("E605", f"`{about.of}` has no {', '.join(sorted(missing))}")
    return found


def _of_part(about: About, root: _Root, count: Count) -> list[Count]:
    looped = any(turns != 1 for turns in count.turns)
    once = replace(count, turns=count.turns[1:])
    match about.part:
        case "block":
            return [once] if looped else []
        case "outside":
            return [] if looped else [count]
        case part if part in ("", root.name):
            return [count]
        case part if any(layer.name == part for layer in root.spec.layers):
            return [once if looped else count] if part in count.path.split(".") else []
        case _:
            raise fail("E204", f"no layer `{about.part}` is defined in {about.text}")


# ------------------------------------------------------------------------------------------------------- quantities


def _parameters(about: About) -> tuple[sympy.Expr]:
    """Of all, or of those on each of the devices that share axes."""
    shards = {letters: ours(devices) for letters, devices in about.shards}
    return (memory.on_one_device(_weights(about), formulas.Letters(_root(about).legend), shards),)


def _weights(about: About) -> list[WeightCount[sympy.Expr]]:
    return _counted(about, _weights_of(_root(about)), lambda count: count.name)


def _flops(about: About) -> tuple[sympy.Expr]:
    found = _counted(about, _equations_of(_root(about), about.convention, about.cached), _left)
    return (rules.total(_spent(about, count) for count in found),)


def _spent(about: About, count: EquationCount[sympy.Expr]) -> sympy.Expr:
    """The FLOPs of a phase, or of what a training step does again."""
    if about.phase == "recomputed":
        return count.spent("training", about.recompute) - count.spent("training")
    return count.spent(about.phase, about.recompute)


def _left(count: EquationCount[sympy.Expr] | Activation[sympy.Expr] | Traffic[sympy.Expr]) -> str:
    """`q_bsea`, `return`."""
    return count.text.partition(" ")[0]


def _activations(about: About) -> tuple[sympy.Expr]:
    found = _kept_by(_root(about), about.element, about.recompute, about.shards)
    return (rules.total(count.total for count in _counted(about, found, _left)),)


def _moves(about: About) -> list[Traffic[sympy.Expr]]:
    """What the products of some equations move between the memory and the chip."""
    root = _root(about)
    found = derive(root.spec, root.name)
    sizes = formulas.Letters(root.legend, found.time, ours(about.cached))
    moves = traffic(found, sizes, CONVENTIONS[about.convention], ours(about.element), about.fused)
    return _counted(about, moves, _left)


def _moved(about: About) -> tuple[sympy.Expr]:
    return (rules.total(rules.product((move.times, move.moved)) for move in _moves(about)),)


def _intensity(about: About) -> tuple[sympy.Expr]:
    """FLOPs for each byte."""
    return (intensity(_moves(about)).cancel(),)


def _cache(about: About) -> tuple[sympy.Expr]:
    """The bytes of what decoding keeps once there were S positions."""
    root = _root(about)
    return (formulas.cache_bytes(root.spec, root.name, ours(about.element), root.legend).total,)


def _memory(about: About) -> tuple[sympy.Expr]:
    """The bytes of parameters, gradients and optimiser states: of a text, or of N parameters where there is none."""
    letters = formulas.Letters(Legend({}, {}))
    if about.of:
        letters = formulas.Letters(_root(about).legend)
        weights = _weights(replace(about, only=()))
    else:
        n = ours("N")
        weights = [WeightCount("", "W", (), n, n, ())]
    found = memory.training(weights, (), 0, letters, PRECISIONS[about.precision], {}, about.zero, ours(about.ranks))
    return (rules.total(getattr(found, name) for name in about.only or _STATE),)


_STATE = ("parameters", "gradients", "main_gradients", "master", "momentum", "variance")


def _shape(about: About) -> tuple[sympy.Expr, ...]:
    """The sizes of a tensor, `of = "gpt2.MLP.h"`, in the order of its letters."""
    layer_name, _, name = about.part.partition(".")
    tree = spec(about.text, about.without)
    letters = formulas.Letters(_root(about).legend)
    layer = next(layer for layer in tree.layers if layer.name == layer_name)
    indices = [slot for slot in _slots(layer, name) if not (isinstance(slot, Index) and slot.letter in about.drop)]
    members = [slot.members if isinstance(slot, Group) else (slot,) for slot in indices]
    return tuple(rules.product(letters.length(m.letter) for m in ms if isinstance(m, Index)) for ms in members)


def _slots(layer: Layer, name: str) -> tuple[object, ...]:
    """The slots with which a layer declares or defines a tensor."""
    for weight in layer.weights:
        if weight.name == name:
            return weight.indices
    lefts = [*layer.formals, *(e.left for e in equations(layer.body)), layer.output]
    return next(left.slots for left in lefts if isinstance(left, Tensor) and left.name == name)


QUANTITIES: dict[str, Callable[[About], tuple[sympy.Expr, ...]]] = {
    "parameters": _parameters,
    "flops": _flops,
    "activations": _activations,
    "moved": _moved,
    "intensity": _intensity,
    "cache": _cache,
    "memory": _memory,
    "shape": _shape,
}

# What documents make claims about, and nothing here derives.
NOT_DERIVED = {
    "communication": "collectives are not derived yet",
    "schedule": "the schedules of pipelines and rings are not derived",
    "time": "times, and what fits on a chip, are not derived here",
    "state": "the states of recurrences are not derived yet",
    "values": "a property of values, which no count decides",
    "structure": "the structure of a model, which no count decides",
    "definition": "a definition, or a rule of thumb, which no count decides",
    "sharding": "which part of a weight a device holds is not derived yet",
    "fit": "a fit to measurements",
}
