"""Builds the `nn.Module` of a specification: the emitted source, compiled so that tracebacks show the equations, with a door.

The door checks inputs by plain comparisons, outside of what `module.compile` compiles (DESIGN: checks at the door).
"""

from __future__ import annotations

import itertools
import linecache
import pathlib
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from einformer.errors import EinformerError, fail
from einformer.interpreters.torch import decode
from einformer.interpreters.torch.plan import PLAIN, Plan, Style
from einformer.interpreters.torch.ranks import (
    Cuts,
    Parts,
    Piped,
    agree_over,
    draw_alike,
    find_cuts,
    list_own_views,
    list_views,
    shard_fully,
    walk_inside_first,
)
from einformer.interpreters.torch.source import write_source
from einformer.language.calls import axis_of
from einformer.language.sizes import Legend
from einformer.language.slots import Whole, find_selecting
from einformer.language.tree import Index, Layer, Spec
from einformer.program.keeping import Entry
from einformer.program.sharding import Sharding

_COUNT = itertools.count(1)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Recipe:
    """All that a module is made from; it pickles, and so the module does."""

    spec: Spec
    name: str
    legend: Legend
    plan: Plan
    style: Style = PLAIN
    family: str = ""  # of transformers, whose names its weights may be loaded by
    config: Mapping[str, object] = field(default_factory=dict)  # the one that the family was read from
    part: str = ""  # of a larger model, in whose files its weights are
    methods: tuple[type, ...] = ()  # classes whose methods the module has too
    keep: Callable[[], Sequence[Entry[int]]] | None = None  # what decoding keeps; asked for when there is something to decode
    piped: Piped | None = None  # of a stage of a pipeline
    written: dict[tuple[str, Plan, Style], str] = field(default_factory=dict, compare=False, repr=False)  # files of the model

    def source(self) -> str:
        return self._write_once("whole", lambda: write_source(self.spec, self.name, self.legend, self.plan, self.style))

    def cached_source(self) -> str:
        return self._write_once("cached", self._write_cached)

    def _write_cached(self) -> str:
        assert self.keep is not None
        return decode.write_cached_source(self.spec, self.name, self.legend, self.plan, self.keep(), self.style)

    def _write_once(self, kind: str, write: Callable[[], str]) -> str:
        key = kind, self.plan, self.style
        if key not in self.written:
            self.written[key] = write()
        return self.written[key]


# The module of a recipe, on a device and in a floating dtype (float32), with fresh random weights. With a `mesh` it is the
# module of this rank: its weights are parts of those of the whole module. By a stage of `zero` the ranks of the batch share
# these.
def build(
    recipe: Recipe, device: torch.device | str = "cpu", dtype: torch.dtype | None = None, mesh: Any = None, zero: int = 0
) -> nn.Module:
    if recipe.plan.sharding is None:
        with torch.device(device):
            return _load(recipe)().to(dtype or torch.float32)
    if torch.device(device).type == "meta":
        return _build_empty(recipe, device, dtype, mesh)
    module: Any = agree_over(mesh, mesh.mesh_dim_names, lambda: _build_empty(recipe, device, dtype, mesh))
    module.initialise()
    return shard_fully(module, mesh, recipe.plan.sharding, zero) if zero else module


def _build_empty(recipe: Recipe, device: torch.device | str, dtype: torch.dtype | None, mesh: Any) -> nn.Module:
    with torch.device("meta"):
        module = _load(recipe, mesh)().to(dtype or torch.float32)
    return module.to_empty(device=device)


def _load(recipe: Recipe, mesh: Any = None) -> type[nn.Module]:
    emitted = _run(recipe, recipe.source(), recipe.plan.name, mesh)
    layer = next(layer for layer in recipe.spec.layers if layer.name == recipe.name)
    inner: type[nn.Module] = find_class(vars(emitted), recipe.name)
    layers = {layer_of_text.name: layer_of_text for layer_of_text in recipe.spec.layers}
    attributes = {
        "recipe": recipe,
        "door": tuple(_find_expectations(layer, layers, recipe.legend, recipe.plan.sharding)),
        "shares": {} if recipe.plan.sharding is None else recipe.plan.sharding.find_shares(),
        "__module__": emitted.__name__,
    }
    if recipe.plan.sharding is None:
        return type(recipe.name, (_Door, *recipe.methods, inner), attributes)
    whole: Recipe = recipe if recipe.piped is None else recipe.piped.whole
    cuts = find_cuts(whole.spec, whole.name, whole.legend, whole.plan.sharding) if whole.plan.sharding else {}
    return type(recipe.name, (_RankDoor, *recipe.methods, inner), attributes | {"mesh": mesh, "cuts": cuts})


# The name has a `_` where the file has another of that name.
def find_class(file: Mapping[str, object], name: str) -> type[nn.Module]:
    named = (value for own, value in file.items() if own.rstrip("_") == name)
    return [value for value in named if isinstance(value, type) and issubclass(value, nn.Module)][-1]


def _run(recipe: Recipe, text: str, kind: str, mesh: Any = None) -> types.ModuleType:
    name = f"einformer_{recipe.name}_{next(_COUNT)}"
    file = f"<{name}: {kind}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    emitted = sys.modules[name] = types.ModuleType(name)  # Dynamo imports the modules whose globals it reads
    exec(compile(text, file, "exec", dont_inherit=True), emitted.__dict__)  # names are those that the grammar admits (R13)
    if mesh is not None:
        emitted.__dict__["MESH"] = mesh
    return emitted


# The module has the very parameters of a built one.
def continue_module(module: Any) -> nn.Module:
    recipe: Recipe = module.recipe
    if getattr(module, "zero", 0):
        raise fail("E744", "the ranks of the batch share its weights, and do not decode", fix="`build(…)` without `zero`")
    emitted = _run(recipe, recipe.cached_source(), f"{recipe.plan.name}, cached", getattr(module, "mesh", None))
    with torch.device("meta"):
        twin = find_class(vars(emitted), recipe.name)()
    theirs = dict(module.named_modules())
    for path, inner in twin.named_modules():
        if inner._parameters.keys() != theirs[path]._parameters.keys():
            message = f"`{path}` stores weights apart whose product decoding computes together"
            raise fail("E744", message, fix="a map without brackets, which loads the same state dict")
        inner._parameters, inner._buffers = theirs[path]._parameters, theirs[path]._buffers
    twin.__dict__["KEPT"], twin.__dict__["SHARED"] = emitted.__dict__["KEPT"], emitted.__dict__.get("SHARED", {})
    return twin


class _Door(nn.Module):
    """Before the emitted forward: one clear error of ours for inputs that do not fit."""

    recipe: Recipe
    door: tuple[Expectation, ...]
    shares: Mapping[str, int]  # how many ranks share what yields of an input

    def is_first(self) -> bool:
        return True

    mesh: Any = None
    cuts: Cuts = MappingProxyType({})

    def save_checkpoint(self, folder: str | pathlib.Path, optimizer: torch.optim.Optimizer | None = None) -> None:
        """Writes the weights, and the state of an optimizer, into a new folder by `torch.distributed.checkpoint`.

        Ranks write their parts together. If one of them dies, there is no such folder. Raises EinformerError E745, E801.
        """
        from einformer.interpreters.torch import checkpoints

        checkpoints.save(self, pathlib.Path(folder), optimizer)

    def load_checkpoint(self, folder: str | pathlib.Path, optimizer: torch.optim.Optimizer | None = None) -> None:
        """Reads what `save_checkpoint` wrote, on any mesh or in one process. Nothing is changed unless everything fits.

        Raises EinformerError E701, E704, E745, E802.
        """
        from einformer.interpreters.torch import checkpoints

        checkpoints.load(self, pathlib.Path(folder), optimizer)

    def meet(self, work: Callable[[], T], *told: object, everywhere: bool = False) -> T:
        """The result of work that ranks do before they compute together."""
        return work()

    def do_alone(self, work: Callable[[], T]) -> T | None:
        return work()

    def find_whole(self, path: str) -> str:
        return path

    # Returns the numbers of each index of the weights, where these are not all.
    def find_regions(self) -> dict[str, tuple[range, ...]]:
        return {}

    def join_weights(self) -> Mapping[str, Tensor]:
        return dict(list_views(self))

    def check(self, door: tuple[Expectation, ...], inputs: tuple[Tensor, ...], shares: Mapping[str, int]) -> None:
        check_shares(shares, check_inputs(door, inputs, self))

    def __call__(self, *inputs: Tensor) -> Tensor:
        self.check(self.door, inputs, self.shares)
        result: Tensor = nn.Module.__call__(self, *inputs)
        return result

    def initialise(self) -> None:
        """Gives every parameter its first values, as the plan says. Call it after `to_empty`, which leaves them undefined."""
        for _, module in walk_inside_first(self):  # as they are built
            reset = getattr(module, "reset_parameters", None)
            if callable(reset):
                reset()

    # Not by `nested_compile_region`: on a CPU the gradients that inductor computes of its regions are wrong in torch 2.13.
    def compile_blocks(self, **options: Any) -> None:
        """Compiles the blocks of loops with `torch.compile` and these options, and nothing around them.

        Blocks that are alike share a graph, so that the time to compile does not grow with their number.
        """
        for blocks in [inner for inner in self.modules() if isinstance(inner, nn.ModuleList)]:
            for block in blocks:
                for part in [block] if "forward" in vars(type(block)) else block.children():
                    part.compile(**options)

    def __reduce__(self) -> tuple[Callable[..., nn.Module], tuple[Any, ...]]:
        dtype = next(self.parameters(), torch.empty(0)).dtype
        frozen = {name for name, parameter in self.named_parameters() if not parameter.requires_grad}
        return _rebuild, (replace(self.recipe, written={}), dtype, dict(self.state_dict()), frozen, self.training)


class _RankDoor(Parts, _Door):
    """The same on a rank of a mesh."""

    def check(self, door: tuple[Expectation, ...], inputs: tuple[Tensor, ...], shares: Mapping[str, int]) -> None:
        described = [(x.shape, x.dtype) if isinstance(x, Tensor) else type(x) for x in inputs]
        self.meet(lambda: _Door.check(self, door, inputs, shares), described, self.training)

    def initialise(self) -> None:
        """Gives every parameter its first values: parts of those of one process with the random numbers of the first rank."""
        with torch.device("meta"):
            original = self.recipe if self.recipe.piped is None else self.recipe.piped.whole
            whole = _load(replace(original, plan=replace(original.plan, sharding=None)))()
        views = dict(list_views(self))
        device = next(iter(views.values()), torch.empty(0)).device
        with torch.no_grad(), draw_alike(self.mesh, self.sharding.rows):
            for path, inner in walk_inside_first(whole):
                for name, weight in _draw_weights(inner, device):
                    if (own := self.find_own(path + name)) in views:
                        views[own].copy_(self.cut(path + name, weight))


# The values are there until the next are asked for.
def _draw_weights(module: Any, device: torch.device) -> Iterator[tuple[str, Tensor]]:
    if hasattr(module, "reset_parameters"):
        module.to_empty(device=device, recurse=False).reset_parameters()
        yield from list_own_views(module)
        module.to_empty(device="meta", recurse=False)


def _rebuild(recipe: Recipe, dtype: torch.dtype, state: dict[str, Tensor], frozen: set[str], training: bool) -> nn.Module:
    module = build(recipe, "meta", dtype)
    module.load_state_dict(state, assign=True)
    for name, parameter in module.named_parameters():
        parameter.requires_grad_(name not in frozen)
    return module.train(training)


# ----------------------------------------------------------------------------------------------------------- the door


@dataclass(frozen=True, slots=True)
class Expectation:
    """The requirements on one input: for each axis its letter with its size, where that is bound, or its bound."""

    name: str
    written: str
    whole: bool
    axes: tuple[tuple[str, int | None, int | None], ...]
    selects: tuple[str, int | None] | None  # token ids lie below the size of this axis
    either: bool = False  # whole numbers or not


def _find_expectations(
    layer: Layer, layers: Mapping[str, Layer], legend: Legend, sharding: Sharding | None
) -> Iterator[Expectation]:
    own = legend if sharding is None else sharding.local(legend)
    whole, either = find_selecting(layer, layers, legend), Whole(layer, layers, legend).either
    for formal in layer.formals:
        axes = tuple(_describe_axis(slot.letter, own) for slot in formal.slots if isinstance(slot, Index))
        written = f"{formal.name}_{''.join(letter for letter, _, _ in axes)}"
        selects = _describe_axis(whole[formal.name], legend)[:2] if whole.get(formal.name) else None
        yield Expectation(formal.name, written, formal.name in whole, axes, selects, formal.name in either)


def _describe_axis(letter: str, legend: Legend) -> tuple[str, int | None, int | None]:
    axis = legend.axes[axis_of(letter)]
    try:
        size: int | None = legend.length(letter)
    except EinformerError:
        size = None
    bound = int(legend.number(axis.bound)) if axis.bound is not None else None
    return letter, size, bound


# While Dynamo traces the door, an error of Python's that carries the text, which Dynamo can follow.
def refuse(code: str, message: str, facts: tuple[str, ...] = (), fix: str = "") -> Exception:
    if torch.compiler.is_compiling():
        return ValueError(_write_text(code, message, facts, fix))
    return fail(code, message, facts=facts, fix=fix)


def _write_text(code: str, message: str, facts: tuple[str, ...], fix: str) -> str:
    return str(fail(code, message, facts=facts, fix=fix))


# As `torch.compiler.assume_constant_result` does, which imports Dynamo: a second, before anything is compiled.
_write_text._dynamo_marked_constant = True  # type: ignore[attr-defined]


# The sizes of the inputs. Raise E401, E701, E702 or E703 where they do not fit.
def check_inputs(expected: tuple[Expectation, ...], inputs: tuple[Tensor, ...], module: nn.Module) -> dict[str, int]:
    if len(inputs) != len(expected):
        raise refuse("E401", f"the module takes {len(expected)} inputs, here are {len(inputs)}")
    sizes: dict[str, int] = {}
    weight = _find_first_weight(module)
    if weight is None:  # then the inputs agree with the first of features
        weight = next((tensor for tensor in inputs if isinstance(tensor, Tensor) and tensor.is_floating_point()), None)
    for expectation, tensor in zip(expected, inputs, strict=True):
        if (fault := _find_fault(expectation, tensor, weight)) is not None:
            raise refuse("E702", f"the input `{expectation.written}` {fault[0]}", fix=fault[1])
        _check_shape(expectation, tensor, sizes)
    for expectation, tensor in zip(expected, inputs, strict=True):
        if expectation.selects is not None:
            letter, size = expectation.selects
            _check_range(expectation, tensor, sizes.get(letter) if size is None else size)
    return sizes


# The first of `module.parameters()`, which takes a microsecond to begin.
def _find_first_weight(module: nn.Module) -> Tensor | None:
    for own in module._parameters.values():
        if own is not None:
            return own
    return next((weight for inner in module.children() if (weight := _find_first_weight(inner)) is not None), None)


def check_shares(shares: Mapping[str, int], sizes: Mapping[str, int]) -> None:
    for letter, ranks in shares.items():
        if sizes.get(letter, 0) % ranks:
            message = f"`{letter}` has {sizes[letter]} numbers, which {ranks} parts cannot share"
            raise refuse("E742", message, fix=f"a multiple of {ranks}")


def _find_fault(expected: Expectation, tensor: Tensor, weight: Tensor | None) -> tuple[str, str] | None:
    if not isinstance(tensor, Tensor):
        return f"is a {type(tensor).__name__}, not a tensor", "`torch.tensor(…)`"
    dtype = tensor.dtype
    if expected.whole and dtype not in (torch.int64, torch.int32):
        return f"has dtype {dtype}", "torch.int64"
    if not expected.whole and not dtype.is_floating_point and (not expected.either or dtype.is_complex):
        return f"has dtype {dtype}", f"{torch.float32 if weight is None else weight.dtype}"
    if weight is not None and not (expected.whole or expected.either) and dtype != weight.dtype:
        return f"has dtype {dtype}, the weights {weight.dtype}", f"{weight.dtype}"
    if weight is not None and tensor.device != weight.device:
        return f"is on {tensor.device}, the weights on {weight.device}", f"`.to('{weight.device}')`"
    return None


def _check_shape(expected: Expectation, tensor: Tensor, sizes: dict[str, int]) -> None:
    if tensor.dim() != len(expected.axes):
        message = f"the input `{expected.written}` has {tensor.dim()} axes, not {len(expected.axes)}"
        raise refuse("E701", message, (f"its shape is {tuple(tensor.shape)}",))
    for (letter, size, bound), length in zip(expected.axes, tensor.shape, strict=True):
        wanted = size if size is not None else sizes.setdefault(letter, length)
        if length != wanted:
            message = f"the input `{expected.written}` has {length} numbers along `{letter}`, not {wanted}"
            raise refuse("E701", message, (f"its shape is {tuple(tensor.shape)}",))
        if bound is not None and length > bound:
            raise refuse(
                "E603", f"the input `{expected.written}` has {length} numbers along `{letter}`, at most {bound} are allowed"
            )


def _check_range(expected: Expectation, tensor: Tensor, below: int | None) -> None:
    unseen = tensor.device.type != "cpu" or torch.compiler.is_compiling() or type(tensor) is not Tensor
    if below is None or unseen or tensor.numel() == 0:
        return
    context, high = int(tensor.min()), int(tensor.max())
    if context < 0 or high >= below:
        message = f"the input `{expected.written}` has numbers from {context} to {high}"
        raise refuse("E703", message, fix=f"0 … {below - 1}")
