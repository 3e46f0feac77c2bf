"""Asks torch about a module: its parameters, FLOPs, values and the next token, and the bytes that training it takes.

An emitted file is run on tensors without numbers: `measure_saved` asks autograd's own hooks what it keeps of a forward pass,
`measure_peak` watches every storage through a step of training.
"""

from __future__ import annotations

import ast
import functools
import itertools
import math
import re
import sys
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

import numpy as np
import torch
import torch.nn.functional as fn
from numpy.typing import NDArray
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from einformer.errors import fail
from einformer.interpreters.torch.module import find_class

Array = NDArray[Any]
Read = tuple[tuple[int, ...], int | None]  # the shape of an input, and the number of tokens where it holds token ids


@dataclass(frozen=True, slots=True)
class Guesses:
    """The predictions of a model for some tokens: the likeliest next ones, and two averages in nats."""

    likeliest: tuple[tuple[int, float], ...]  # token, probability
    entropy: float  # of the next token
    loss: float  # for each token of the text but the first
    uniform: float  # of both, were all tokens equally likely


# A shared parameter counts once.
def count_parameters(module: nn.Module) -> dict[str, int]:
    return {name: parameter.numel() for name, parameter in module.named_parameters()}


# Torch's own counter counts on the meta device: on a CPU it passes over attention.
def count_flops(module: nn.Module, inputs: Sequence[Read]) -> int:
    tensors = [
        torch.empty(shape, dtype=torch.get_default_dtype() if tokens is None else torch.long, device="meta")
        for shape, tokens in inputs
    ]
    with torch.no_grad(), Balanced(), FlopCounterMode(display=False) as counter:
        module(*tensors)
    return int(counter.get_total_flops())


class Balanced(TorchFunctionMode):
    """Runs chosen experts without numbers, by an even routing: as many rows for each expert, however many these are.

    Their work and their bytes together do not depend on how rows are spread.
    """

    def __init__(self) -> None:
        super().__init__()
        self.rows, self.ranks = 0, 1

    # The ends of the rows of each expert are spread evenly.
    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is torch.searchsorted:
            self.rows = args[0].shape[0]
        if function is Tensor.chunk and args[0].dtype == torch.long:  # of the experts of all ranks
            self.ranks = args[1]
        if function is Tensor.__getitem__ and getattr(args[1], "dtype", None) is torch.bool:  # the pairs of one rank
            return args[0][: len(args[0]) // self.ranks]
        if function is Tensor.tolist:
            return [self.end(k, len(args[0])) for k in range(len(args[0]))]
        if function is Tensor.item:  # of a list that a tensor without numbers makes one by one
            return self.end(args[0].storage_offset(), args[0].untyped_storage().nbytes() // args[0].itemsize)
        return function(*args, **(kwargs or {}))

    def end(self, expert: int, experts: int) -> int:
        return self.rows * (expert + 1) // experts


# Give a module weights that let no mistake hide, in float64: matrices by their inputs, vectors around one.
def randomise(module: nn.Module, seed: int) -> dict[str, Array]:
    draw = np.random.default_rng(seed)
    weights = {name: _draw_weight(draw, tuple(tensor.shape)) for name, tensor in module.state_dict().items()}
    load(module, weights)
    return weights


def _draw_weight(draw: np.random.Generator, shape: tuple[int, ...]) -> Array:
    if len(shape) < 2:
        return np.asarray(1 + 0.3 * draw.standard_normal(shape))
    return draw.standard_normal(shape) / math.sqrt(shape[0])


def load(module: nn.Module, weights: Mapping[str, Array]) -> None:
    module.double().load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()})


# Inputs are token ids, or features.
def draw_inputs(inputs: Sequence[Read], seed: int) -> list[Array]:
    draw = np.random.default_rng(seed)
    return [draw.standard_normal(s) if tokens is None else draw.integers(tokens, size=s) for s, tokens in inputs]


def compute(module: nn.Module, inputs: Sequence[Array]) -> Array:
    with torch.no_grad():
        result: Array = module(*map(torch.from_numpy, inputs)).numpy()
    return result


def initialise(module: nn.Module, seed: int) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        live = module.to_empty(device="cpu")
        live.initialise()  # type: ignore[operator]
    return live


def guess(module: nn.Module, tokens: Sequence[int], most: int) -> Guesses:
    with torch.no_grad():
        logarithms = module(torch.tensor([tokens])).double().log_softmax(-1)[0]
    last = logarithms[-1]
    loss = -logarithms[:-1].gather(-1, torch.tensor(tokens[1:]).unsqueeze(-1)).mean() if len(tokens) > 1 else -last.mean()
    likeliest = last.exp().topk(min(most, len(last)))
    pairs = zip(likeliest.indices.tolist(), likeliest.values.tolist(), strict=True)
    return Guesses(tuple(pairs), -float(last.exp() @ last), float(loss), math.log(len(last)))


Shape = tuple[int, ...]
Input = tuple[Shape, bool]  # is it of whole numbers?
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16, "float64": torch.float64}
_FILE = "<measured>"


@dataclass(frozen=True, slots=True)
class Kept:
    """The bytes kept by the operations of one kind in one line. `what` is an activation or an input; weights do not count."""

    line: int
    equation: str
    operation: str
    what: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Peak:
    """Bytes: those that are always there, and the most at once in each part of a step."""

    parameters: int
    gradients: int
    states: int  # of AdamW: two averages of each gradient
    forward: int
    backward: int
    update: int

    @property
    def bytes(self) -> int:
        return max(self.forward, self.backward, self.update)


# The tensors that are kept when the class `name` of an emitted file is called with inputs of these shapes, in its order. Each
# storage counts once, whole, where it is first kept, as on a CPU. Raises EinformerError E605, E701.
def measure_saved(
    source: str, name: str, shapes: Sequence[Input], dtype: str = "float32", training: bool = True
) -> tuple[Kept, ...]:
    module = _build(source, name, dtype).train(training)
    with FakeTensorMode():
        _fill(module)
        inputs = _make_inputs(module, shapes, dtype)
        held = _find_held(module, inputs)
    kinds = {_find_storage(tensor): "" for tensor in (*module.parameters(), *module.buffers())}
    kinds |= {_find_storage(tensor): "input" for tensor in inputs}
    counted: Counter[tuple[int, str, str]] = Counter()
    for held_storage in held:
        if what := kinds.get(held_storage.storage._cdata, "activation"):
            kinds[held_storage.storage._cdata] = ""
            counted[held_storage.line, held_storage.operation, what] += held_storage.times * held_storage.storage.nbytes()
    equations = _find_equations(source)
    return tuple(
        Kept(line, equations[line], operation, what, size) for (line, operation, what), size in sorted(counted.items())
    )


def count_activations(rows: Iterable[Kept]) -> int:
    return sum(row.bytes for row in rows if row.what == "activation")


# The memory of a training step of the class `name` of an emitted file: logits, their mean loss, and AdamW. As on a CPU, one
# parameter updated after another. Raises EinformerError E605, E701.
def measure_peak(source: str, name: str, shapes: Sequence[Input], dtype: str = "float32") -> Peak:
    module = _build(source, name, dtype)
    with FakeTensorMode():
        _fill(module)
        if not (weights := list(module.parameters())):
            raise fail("E605", f"`{name}` has no weights to train", fix="a model with weights")
        optimiser = torch.optim.AdamW(weights)
        with _Live(weights) as live:
            loss = _compute_loss(module, _make_inputs(module, shapes, dtype))
            forward = live.restart()
            loss.backward()  # type: ignore[no-untyped-call]
            del loss
            backward = live.restart()
            optimiser.step()  # which makes its averages
            live.restart()
            optimiser.step()
        states = sum(tensor.nbytes for state in optimiser.state.values() for tensor in state.values())
        gradients = sum(weight.grad.nbytes for weight in weights if weight.grad is not None)
    return Peak(sum(weight.nbytes for weight in weights), gradients, states, forward + states, backward + states, live.most)


def _compute_loss(module: nn.Module, inputs: Sequence[Tensor]) -> Tensor:
    with Balanced():
        logits = module(*inputs).flatten(0, -2)
    return fn.cross_entropy(logits, torch.zeros(logits.shape[:1], dtype=torch.long))


# ------------------------------------------------------------------------------------------------------- the emitted file


def _build(source: str, name: str, dtype: str) -> nn.Module:
    if dtype not in DTYPES:
        raise fail("E605", f"there is no precision `{dtype}`", fix=" or ".join(f"`{row}`" for row in DTYPES))
    scope: dict[str, Any] = {"__name__": _FILE}
    exec(_compile(source), scope)  # emitted files hold only names that the grammar admits (R13)
    if name not in scope:
        raise fail("E605", f"there is no class `{name}` in the file")
    with torch.device("meta"):
        module = find_class(scope, name)().to(DTYPES[dtype])
    return module


def _fill(module: nn.Module) -> None:
    filled: dict[Tensor, Any] = {}
    for part in module.modules():
        for tensors in (part._parameters, part._buffers):
            for name, tensor in tensors.items():
                if tensor is not None:
                    empty = torch.empty(tensor.shape, dtype=tensor.dtype)
                    wanted = nn.Parameter(empty) if isinstance(tensor, nn.Parameter) else empty
                    tensors[name] = filled.setdefault(tensor, wanted)


@functools.lru_cache
def _compile(source: str) -> CodeType:
    return compile(source, _FILE, "exec", dont_inherit=True)  # annotations are read as values


def _make_inputs(module: nn.Module, inputs: Sequence[Input], dtype: str) -> list[Tensor]:
    count = len(module.forward.__annotations__) - 1
    if count != len(inputs):
        raise fail("E701", f"{len(inputs)} inputs are given, and `{type(module).__name__}` has {count}")
    return [torch.empty(shape, dtype=torch.long if whole else DTYPES[dtype]) for shape, whole in inputs]


@functools.lru_cache
def _find_equations(source: str) -> dict[int, str]:
    lines, equations = source.splitlines(), {}
    for statement in (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.stmt)):  # those inside others later
        above = itertools.takewhile(_is_comment, reversed(lines[: statement.lineno - 1]))
        equation = "; ".join(filter(None, map(_strip_note, reversed([*above]))))
        for number in range(statement.lineno, (statement.end_lineno or statement.lineno) + 1):
            equations[number] = equation or lines[number - 1].strip()
    return equations


def _strip_note(comment: str) -> str:
    return comment.partition("@")[0].strip(" #")


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith("# ")


# ------------------------------------------------------------------------------------------------------ what autograd keeps


@dataclass(slots=True)
class _Held:
    """A storage that autograd keeps, the line that made it do so, for how many blocks it stands, and the operation."""

    storage: torch.UntypedStorage
    line: int
    times: int
    operation: str = ""


class _Blocks(nn.ModuleList):
    """Blocks of which the second of the alike ones at the end stands for those after it."""

    recorder: _Recorder

    def __iter__(self) -> Iterator[nn.Module]:
        blocks, around = [*super().__iter__()], self.recorder.times
        passed = max(_count_alike(blocks) - 2, 0)
        for number, block in enumerate(blocks[: len(blocks) - passed], passed + 1):
            self.recorder.times = around * (1 + passed * (number == len(blocks)))
            yield block
        self.recorder.times = around


def _count_alike(blocks: Sequence[nn.Module]) -> int:
    makes = [_describe(block) for block in reversed(blocks)]
    return sum(1 for _ in itertools.takewhile(lambda make: make == makes[0], makes))


def _describe(block: nn.Module) -> object:
    tensors = itertools.chain(block.named_parameters(), block.named_buffers())
    return [type(part) for part in block.modules()], [(name, tensor.shape) for name, tensor in tensors]


class _Recorder:
    """Hooks that note the kept tensors, and afterwards which operation keeps each."""

    def __init__(self) -> None:
        self.times, self.operation, self.packed = 1, "", list[_Held]()

    # Notes the line; the tensor itself would hold the step that holds it.
    def pack(self, tensor: Tensor) -> _Held:
        frame = sys._getframe(1)
        while frame.f_code.co_filename != _FILE:
            assert frame.f_back
            frame = frame.f_back
        self.packed.append(_Held(tensor.untyped_storage(), frame.f_lineno, self.times))
        return self.packed[-1]

    def unpack(self, held: _Held) -> Tensor:
        held.operation = self.operation
        return torch.empty(0)

    def ask(self, node: Any) -> None:
        self.operation = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", re.sub(r"Backward\d*$", "", node.name())).lower()
        for name in _list_attributes(node.__class__):
            getattr(node, name)


@functools.cache
def _list_attributes(kind: type) -> tuple[str, ...]:
    return tuple(name for name in dir(kind) if name.startswith("_saved_") or name == "saved_tensors")


def _find_held(module: nn.Module, inputs: Sequence[Tensor]) -> list[_Held]:
    recorder = _Recorder()
    for part in module.modules():
        if isinstance(part, nn.ModuleList):
            part.__class__ = _Blocks
            part.__dict__["recorder"] = recorder
    with torch.autograd.graph.saved_tensors_hooks(recorder.pack, recorder.unpack), Balanced():
        result = module(*inputs)
    seen, ahead = set(), [result.grad_fn]
    while ahead:
        node = ahead.pop()
        if node is not None and node not in seen:
            seen.add(node)
            recorder.ask(node)
            ahead += [next_function for next_function, _ in node.next_functions]
    return [held for held in recorder.packed if held.operation]


def _find_storage(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


# ----------------------------------------------------------------------------------------------------------- what is there


class _Live(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The bytes of all storages that are there, and the most at once."""

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.live, self.most, self.known = 0, 0, dict[int, weakref.ref[torch.UntypedStorage]]()
        for tensor in tensors:
            self.see(tensor)

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor):
                self.see(leaf)
        return result

    def see(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        if key not in self.known:
            self.known[key] = weakref.ref(storage, lambda _: self.free(key, size))
            self.live += size
            self.most = max(self.most, self.live)

    def free(self, key: int, size: int) -> None:
        del self.known[key]
        self.live -= size

    def restart(self) -> int:
        most, self.most = self.most, self.live
        return most
