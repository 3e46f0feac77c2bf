"""Derives the quantities that claims are about: parameters, FLOPs, bytes, the shape of a tensor."""

from __future__ import annotations

import functools
import pathlib
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from einformer.errors import EinformerError, fail
from einformer.huggingface.config import bind_text, import_config
from einformer.huggingface.storage import count_file
from einformer.interpreters.count import engines, rules, symbols
from einformer.interpreters.count.conventions import CONVENTIONS, PRECISIONS, choose_cache
from einformer.interpreters.count.exchanges import STATE, Exchange, find_traffic, list_exchanges
from einformer.interpreters.count.numbers import Numbers
from einformer.interpreters.count.rules import Activation, EquationCount, Phase, Recompute, Traffic, WeightCount
from einformer.interpreters.count.symbols import Symbols
from einformer.language import binding
from einformer.language import weights as placed
from einformer.language.sizes import Legend
from einformer.language.specialise import specialise
from einformer.language.tree import Group, Index, Layer, Name, Spec, Tensor
from einformer.language.walk import equations
from einformer.notes.notations import conventions, read
from einformer.notes.shelf import elaborate
from einformer.program import collectives
from einformer.program.causality import check_spec
from einformer.program.keeping import Entry, kept
from einformer.program.lowering import lower_functions
from einformer.program.sharding import read_sharding

if TYPE_CHECKING:
    import sympy

_OF_CONFIGS = ("kept", "published", "stored")
_ANY = 64  # the number of an independent size, where sizes decide the order of a contraction
Count = TypeVar(
    "Count", "WeightCount[sympy.Expr]", "EquationCount[sympy.Expr]", "Activation[sympy.Expr]", "Traffic[sympy.Expr]"
)


@dataclass(frozen=True, slots=True)
class About:
    """A quantity (`what`) `of` a text (`gpt2`), one of its layers (`gpt2.MLP`), a turn of its loop (`gpt2.block`), everything
    outside the loop (`gpt2.outside`), or a config (`gemma-3-27b`). Numbers and letters are formulas in our letters.
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
    split: tuple[tuple[str, str], ...] = ()  # by the ranks of an axis of a mesh, the letters that it splits, `(s)` where it can
    drop: str = ""  # letters that a shape is said without
    sizes: tuple[tuple[str, int], ...] = ()  # of the inputs of a config, at which its cache is kept
    engine: str = ""  # which allocates it
    dtype: str = "bfloat16"  # its format, or a kind of file
    per: str = "1"

    @property
    def text(self) -> str:
        return "" if self.what in _OF_CONFIGS else self.of.partition(".")[0]

    # `MLP`, `block`, `outside`, or "" for the whole.
    @property
    def part(self) -> str:
        return self.of.partition(".")[2]


# Returns the quantity as a formula in our letters, or a formula for each axis of a shape. Raises EinformerError.
@functools.cache
def find_quantity(about: About) -> tuple[sympy.Expr, ...]:
    return tuple(formula / parse_ours(about.per) for formula in QUANTITIES[about.what](about))


# Sizes that the text derives from others are replaced.
def read_number(text: str, letters: Mapping[str, str], about: About | None = None) -> sympy.Expr:
    return Symbols(_find_root(about).legend if about and about.of else Legend({}, {})).value(read(text, letters))


# Some optional weights are left out.
@functools.cache
def spec(text: str, without: tuple[str, ...] = ()) -> Spec:
    written, tree, findings = elaborate(text)
    if without and not findings:
        names = (f"{layer.name}.{w.name}" for layer in written.layers for w in layer.weights if w.optional)
        tree, findings = check_spec(binding.leave_out(written, names if without == ("*",) else without))
    if findings:
        raise EinformerError(findings)
    return tree


# The layer at which a count starts: the model at the end of a text, else the layer itself.
@dataclass(frozen=True, slots=True)
class _Root:
    text: str
    without: tuple[str, ...]
    name: str
    free: str

    @property
    def spec(self) -> Spec:
        return spec(self.text, self.without)

    # Bound sizes stay letters, so any number will do.
    @property
    def legend(self) -> Legend:
        return Legend.of(self.spec, dict.fromkeys(self.free.split(), _ANY))

    def sizes(self, cached: str = "0", shards: tuple[tuple[str, str], ...] = ()) -> Symbols:
        shares = tuple((frozenset(letters.split()), parse_ours(devices)) for letters, devices in shards)
        return Symbols(self.legend, cached=parse_ours(cached), shares=shares)


def _find_root(about: About) -> _Root:
    last = spec(about.text, about.without).layers[-1]
    return _Root(about.text, about.without, last.name if last.kind == "model" else about.part or last.name, about.free)


@functools.cache
def _count_weights(root: _Root) -> tuple[WeightCount[sympy.Expr], ...]:
    return tuple(count for count in rules.count_weights(root.spec, root.name, Symbols(root.legend)) if count.trained)


@functools.cache
def _count_equations(root: _Root, convention: str, cached: str) -> tuple[EquationCount[sympy.Expr], ...]:
    return rules.count_flops(root.spec, root.name, root.sizes(cached), CONVENTIONS[convention])


@functools.cache
def _find_activations(
    root: _Root, element: str, recompute: Recompute, shards: tuple[tuple[str, str], ...]
) -> tuple[Activation[sympy.Expr], ...]:
    return rules.count_activations(root.spec, root.name, root.sizes(shards=shards), parse_ours(element), recompute)


@functools.cache
def parse_ours(text: str) -> sympy.Expr:
    return read_number(text, conventions()["ours"])


# The counts of a part, with a loop in a single turn.
def _select_counts(about: About, counts: Iterable[Count], name: Callable[[Count], str]) -> list[Count]:
    root = _find_root(about)
    of_part = [count for whole in counts for count in _select_part(about, root, whole)]
    chosen = [count for count in of_part if not about.only or name(count) in about.only]
    if missing := set(about.only) - set(map(name, chosen)):
        raise fail("E605", f"`{about.of}` has no {', '.join(sorted(missing))}")
    return chosen


def _select_part(about: About, root: _Root, count: Count) -> list[Count]:
    looped = any(turns != 1 for turns in count.turns)
    once = count.in_one_turn() if count.turns else count
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


# All of them, or those on each of the devices that share axes.
def _count_parameters(about: About) -> tuple[sympy.Expr]:
    return (rules.count_on_one_device(_select_weights(about), _find_root(about).sizes(shards=about.shards)),)


def _select_weights(about: About) -> list[WeightCount[sympy.Expr]]:
    return _select_counts(about, _count_weights(_find_root(about)), lambda count: count.name)


def _count_flops(about: About) -> tuple[sympy.Expr]:
    counts = _select_counts(about, _count_equations(_find_root(about), about.convention, about.cached), _spell_left)
    return (rules.total(_count_phase(about, count) for count in counts),)


# The FLOPs of a phase, or those that a training step repeats.
def _count_phase(about: About, count: EquationCount[sympy.Expr]) -> sympy.Expr:
    if about.phase == "recomputed":
        return count.spent("training", about.recompute) - count.spent("training")
    return count.spent(about.phase, about.recompute)


def _spell_left(count: EquationCount[sympy.Expr] | Activation[sympy.Expr] | Traffic[sympy.Expr]) -> str:
    return count.text.partition(" ")[0]


def _count_activations(about: About) -> tuple[sympy.Expr]:
    activations = _find_activations(_find_root(about), about.element, about.recompute, about.shards)
    return (rules.total(count.total for count in _select_counts(about, activations, _spell_left)),)


# The bytes that products move between the memory and the chip.
def _find_traffic(about: About) -> list[Traffic[sympy.Expr]]:
    root = _find_root(about)
    convention, element = CONVENTIONS[about.convention], parse_ours(about.element)
    moves = rules.count_traffic(root.spec, root.name, root.sizes(about.cached), convention, element, about.fused)
    return _select_counts(about, moves, _spell_left)


def _count_moved(about: About) -> tuple[sympy.Expr]:
    return (rules.total(rules.product((move.times, move.moved)) for move in _find_traffic(about)),)


def _divide_flops(about: About) -> tuple[sympy.Expr]:
    return (rules.find_intensity(_find_traffic(about)).cancel(),)


# The bytes of the cache after S positions.
def _count_cache(about: About) -> tuple[sympy.Expr]:
    root = _find_root(about)
    return (symbols.count_cache(root.spec, root.name, Symbols(root.legend), parse_ours(about.element)).total,)


# The bytes of parameters, gradients and optimiser states: of a text, or of N parameters without one.
def _count_memory(about: About) -> tuple[sympy.Expr]:
    letters = Symbols(_find_root(about).legend if about.of else Legend({}, {}))
    if about.of:
        weights = _select_weights(replace(about, only=()))
    else:
        n = parse_ours("N")
        weights = [WeightCount("", "W", (), n, n, ())]
    state = rules.count_training(weights, (), 0, letters, PRECISIONS[about.precision], about.zero, parse_ours(about.ranks))
    return (rules.total(getattr(state, name) for name in about.only or _STATE),)


_STATE = ("parameters", "gradients", "main_gradients", "master", "momentum", "variance")


# What a device exchanges over the axes of a mesh: the collectives, and for each how often, and what is put in each time.
def _find_exchanges(about: About) -> list[Exchange[sympy.Expr]]:
    root = _find_root(about)
    name = about.part if any(layer.name == about.part for layer in root.spec.layers) else root.name  # of a layer, it alone
    axes = {f"axis{k}": axis for k, axis in enumerate(about.split)}
    shard = "; ".join(f"{name}: {letters}" for name, (_, letters) in axes.items())
    special = specialise(root.spec, name)
    legend = Legend.of(special, dict.fromkeys(_list_independent(root.legend), _ANY**2))
    sharding = read_sharding(dict.fromkeys(axes, 2), shard, legend, next((x.time.letter for x in special.layers if x.time), ""))
    functions = collectives.shard(lower_functions(special, legend), special, name, sharding, legend)
    ranks = {name: parse_ours(count) for name, (count, _) in axes.items()}
    rows = list_exchanges(functions, name, Symbols(root.legend), sharding, ranks)
    chosen = [row for row in rows if about.phase in ("training", row.phase)]
    if about.part in ("block", "outside"):
        once = parse_ours("L")  # turns of the loop
        inside = [
            replace(row, times=row.repeated / once if about.part == "block" else row.times - row.repeated) for row in chosen
        ]
        return [row for row in inside if row.times != 0]
    return chosen


# The sizes but for those of inputs.
def _list_independent(legend: Legend) -> Iterable[str]:
    sizes = (axis.size for axis in legend.axes.values() if axis.default is None and axis.letter not in "bs")
    return (size.name for size in sizes if isinstance(size, Name))


# How many collectives.
def _count_collectives(about: About) -> tuple[sympy.Expr]:
    return (rules.total(row.times for row in _find_exchanges(about)),)


# What a device puts into them.
def _count_put(about: About) -> tuple[sympy.Expr]:
    return (rules.total(row.count_bytes(parse_ours(about.element)) for row in _find_exchanges(about)),)


# What it must send: of a text, of the state of N parameters, or by one collective of M bytes.
def _count_sent(about: About) -> tuple[sympy.Expr]:
    if about.only:
        (collective,) = about.only
        return (find_traffic(collective, parse_ours("M"), parse_ours("R"))[0],)
    if not about.of:
        return (rules.total(_send_state(collective, parse_ours("R")) for collective, _ in STATE[about.zero]),)
    (ranks, _), element = about.split[0], parse_ours(about.element)
    put = ((row.collective, row.count_bytes(element)) for row in _find_exchanges(about))
    return (rules.total(find_traffic(collective, size, parse_ours(ranks))[0] for collective, size in put),)


def _send_state(collective: str, ranks: sympy.Expr) -> sympy.Expr:
    whole = parse_ours("N")
    return find_traffic(collective, whole / ranks if collective == "all-gather" else whole, ranks)[0]


# The FLOPs of a device for each byte that it must send.
def _divide_by_sent(about: About) -> tuple[sympy.Expr]:
    (ranks, _), (flops,), (sent,) = about.split[0], _count_flops(about), _count_sent(about)
    return ((flops / parse_ours(ranks) / sent).cancel(),)


# `of = "gpt2.MLP.h"`
def _find_shape(about: About) -> tuple[sympy.Expr, ...]:
    layer_name, _, name = about.part.partition(".")
    tree = spec(about.text, about.without)
    letters = Symbols(_find_root(about).legend)
    layer = next(layer for layer in tree.layers if layer.name == layer_name)
    indices = [slot for slot in _find_slots(layer, name) if not (isinstance(slot, Index) and slot.letter in about.drop)]
    members = [slot.members if isinstance(slot, Group) else (slot,) for slot in indices]
    return tuple(rules.product(letters.length(m.letter) for m in ms if isinstance(m, Index)) for ms in members)


def _find_slots(layer: Layer, name: str) -> tuple[object, ...]:
    for weight in layer.weights:
        if weight.name == name:
            return weight.indices
    lefts = [*layer.formals, *(e.left for e in equations(layer.body)), layer.output]
    return next(left.slots for left in lefts if isinstance(left, Tensor) and left.name == name)


@functools.cache
def configs() -> dict[str, dict[str, Any]]:
    """Returns the configs of published models by name, as far as claims need them.

    >>> configs()["gemma-3-27b"]["num_hidden_layers"]
    62
    """
    return tomllib.loads((pathlib.Path(__file__).parent / "configs.toml").read_text(encoding="utf-8"))


@functools.cache
def _bind_config(name: str) -> tuple[Spec, Legend]:
    _, tree, legend = bind_text(import_config(configs()[name]), {})
    return tree, legend


@functools.cache
def _find_kept(name: str) -> tuple[Entry[int], ...]:
    tree, legend = _bind_config(name)
    return kept(tree, tree.layers[-1].name, legend)


# The bytes of the tensors of a kind of file.
def _count_stored(about: About) -> tuple[sympy.Expr]:
    tree, legend = _bind_config(about.of)
    model_type = import_config(configs()[about.of]).family
    return (parse_ours(str(count_file(model_type, placed.weights(tree, tree.layers[-1], legend), about.dtype))),)


# The bytes of the cache of a config, as the equations need them or as an engine allocates them.
def _count_kept(about: About) -> tuple[sympy.Expr]:
    tree, legend = _bind_config(about.of)
    model, dtype = tree.layers[-1], choose_cache(about.dtype, "")
    assert model.time is not None
    numbers = Numbers(binding.bind_sizes(tree, legend, dict(about.sizes)), model.time.letter)
    kinds = engines.list_kinds(_find_kept(about.of), numbers)
    kinds = tuple(replace(kind, held=tuple(held for held in kind.held if _is_chosen(about, held))) for kind in kinds)
    if about.engine:
        counted = engines.read_engines()[about.engine].count_bytes(
            kinds, numbers.length(numbers.time), dtype, configs()[about.of]["model_type"]
        )
        assert not isinstance(counted, str), counted
        return (parse_ours(str(sum(counted))),)
    return (parse_ours(str(sum(kind.layers * engines.count_needed(kind, dtype, rules.BYTES[_STATES]) for kind in kinds))),)


_STATES = "bfloat16"


def _is_chosen(about: About, held: engines.KeptTensor) -> bool:
    return not about.only or ("states" if held.is_state else "positions") in about.only


# All of them, those that compute for a token, or the latter without the rows of a table that no token reads.
def _count_published(about: About) -> tuple[sympy.Expr]:
    tree, legend = _bind_config(about.of)
    counts = [count for count in rules.count_weights(tree, tree.layers[-1].name, Numbers(legend)) if count.trained]
    numbers = {
        "total": rules.sum_trained(counts),
        "active": sum(rules.product((*count.turns, count.active)) for count in counts),
        "active, no table": sum(rules.product((*count.turns, count.active)) for count in counts if not count.rows),
        "not embedding": sum(count.total for count in counts if not count.embedding),
    }
    (name,) = about.only
    return (parse_ours(str(numbers[name])),)


QUANTITIES: dict[str, Callable[[About], tuple[sympy.Expr, ...]]] = {
    "parameters": _count_parameters,
    "flops": _count_flops,
    "activations": _count_activations,
    "moved": _count_moved,
    "intensity": _divide_flops,
    "cache": _count_cache,
    "memory": _count_memory,
    "collectives": _count_collectives,
    "put": _count_put,
    "sent": _count_sent,
    "flops per byte sent": _divide_by_sent,
    "bytes sent per flop": lambda about: ((1 / _divide_by_sent(about)[0]).cancel(),),
    "shape": _find_shape,
    "kept": _count_kept,
    "published": _count_published,
    "stored": _count_stored,
}

# What documents make claims about, and nothing here derives.
NOT_DERIVED = {
    "communication": "not one of the collectives that are derived",
    "schedule": "the schedules of pipelines and rings are not derived",
    "time": "times, and what fits on a chip, are not derived here",
    "state": "the states of recurrences are not derived yet",
    "values": "a property of values, which no count decides",
    "structure": "the structure of a model, which no count decides",
    "definition": "a definition, or a rule of thumb, which no count decides",
    "sharding": "which part of a weight a device holds is not derived yet",
    "fit": "a fit to measurements",
}
