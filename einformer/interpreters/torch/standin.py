"""What does a file of PyTorch do, run without PyTorch? The modules that it imports, made of tensors without numbers."""

from __future__ import annotations

import builtins
import functools
import itertools
import math
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from types import CodeType, SimpleNamespace
from typing import Any, NoReturn

from einformer.errors import fail
from einformer.interpreters.torch import strided
from einformer.interpreters.torch.dtypes import BOOL, DTYPES, INT64, Dtype, promoted
from einformer.interpreters.torch.operations import FUNCTIONS, grouped
from einformer.interpreters.torch.strided import Shape
from einformer.interpreters.torch.traced import FILE, Node, Storage, Tape, Traced, unknown


class Module:
    """`nn.Module` as far as the files use it."""

    training = True

    forward: Callable[..., Any]

    def __call__(self, *inputs: Any) -> Any:
        """What it computes."""
        return self.forward(*inputs)

    def register_buffer(self, name: str, buffer: Traced) -> None:
        """A tensor that is not trained."""
        buffer.storage.kind = "buffer"
        setattr(self, name, buffer)


@dataclass(slots=True)
class ModuleList:
    """`nn.ModuleList`. Of the alike modules at its end the second may stand for those after it, `briefly`."""

    modules: list[Module]
    tape: Tape
    briefly: bool

    def __iter__(self) -> Iterator[Module]:
        passed = max(self._alike() - 2, 0) if self.briefly else 0
        last = len(self.modules) - passed - 1
        for at, module in enumerate(self.modules[: last + 1]):
            self.tape.times = 1 + passed * (at == last)
            yield module
        self.tape.times = 1

    def _alike(self) -> int:
        """How many modules at the end are like the last."""
        makes = map(_make, reversed(self.modules))
        last = next(makes, None)
        return 1 + sum(1 for _ in itertools.takewhile(lambda make: make == last, makes))


def _make(part: object) -> object:
    """What two modules that do the same have in common: their classes, and the shapes of what they hold."""
    match part:
        case Module():
            return type(part), [(name, _make(each)) for name, each in vars(part).items()]
        case Traced():
            return part.shape
    return part


class Function:
    """`torch.autograd.Function`: an operation with a backward step of its own, and a row in the table by its name."""

    @classmethod
    def apply(cls, *operands: Traced) -> Traced:
        """What it computes."""
        return {"Grouped": grouped}[cls.__name__](*operands)


class Namespace(SimpleNamespace):
    """A module that refuses what it lacks."""

    def __getattr__(self, name: str) -> NoReturn:
        raise unknown(name)


@dataclass(frozen=True, slots=True)
class Annotation:
    """`Int` of jaxtyping: of `Int[Tensor, "b s"]` the kind of numbers is left."""

    kind: str

    def __getitem__(self, item: object) -> str:
        return self.kind


@dataclass(frozen=True, slots=True)
class Run:
    """A file, its weights in one dtype, in training or not; `briefly`: one block stands for those that are like it."""

    source: str
    dtype: Dtype
    training: bool
    briefly: bool
    tape: Tape = field(default_factory=Tape)
    weights: list[Traced] = field(default_factory=list)

    def result(self, name: str, shapes: Sequence[Shape]) -> Traced:
        """What a class of the file makes of inputs of these shapes."""
        scope: dict[str, Any] = {"__name__": FILE, "__builtins__": vars(builtins) | {"__import__": self._import}}
        exec(_compiled(self.source), scope)  # emitted files hold only names that the grammar admits (R13)
        if name not in scope:
            raise fail("E605", f"there is no class `{name}` in the file")
        module = scope[name]()
        kinds = [kind for formal, kind in module.forward.__annotations__.items() if formal != "return"]
        if len(kinds) != len(shapes):
            raise fail("E701", f"{len(shapes)} inputs are given, and `{name}` has {len(kinds)}")
        inputs = [self.new(shape, _KINDS.get(kind, self.dtype), "input") for shape, kind in zip(shapes, kinds, strict=True)]
        try:
            result: Traced = module(*inputs)
        except TypeError as error:  # an operator or an argument that our tensors and functions do not have
            raise unknown(_code(self.source, error)) from error
        return result

    def new(self, shape: Sequence[int], dtype: Dtype | None = None, kind: str = "") -> Traced:
        """A tensor that nothing was computed for."""
        shape, dtype = tuple(shape), dtype or self.dtype
        storage = Storage(self.tape, math.prod(shape) * dtype.bytes, kind)
        return Traced(shape, strided.contiguous(shape), dtype, storage)

    def _import(self, name: str, scope: object, local: object, wanted: Sequence[str] | None, level: int) -> object:
        match name.partition(".")[0]:
            case "math":
                return math
            case "jaxtyping":
                return Namespace(**{kind: Annotation(kind) for kind in wanted or ()})
            case "torch":
                return self._torch
        raise unknown(name)

    @property
    def _torch(self) -> Namespace:
        """`torch`, `nn` and `functional`, as one."""
        module = type("Module", (Module,), {"training": self.training})
        functions = Namespace(**FUNCTIONS)
        nn = Namespace(Module=module, ModuleList=self._blocks, Parameter=self._parameter, init=_Init(), functional=functions)
        parts = {"autograd": Namespace(Function=Function), "compiler": Namespace(is_compiling=lambda: False)}
        creators = {"empty": self._filled, "zeros": self._filled, "arange": self._arange}
        return Namespace(nn=nn, Tensor=Traced, promote_types=promoted, long=INT64, **DTYPES, **FUNCTIONS, **creators, **parts)

    def _blocks(self, modules: Iterable[Module]) -> ModuleList:
        return ModuleList(list(modules), self.tape, self.briefly)

    def _parameter(self, tensor: Traced) -> Traced:
        tensor.storage.kind = "parameter"
        self.weights.append(tensor)
        tensor.node = Node("parameter", 0, 0, 1, (), ())
        return tensor

    def _filled(self, *shape: int, dtype: Dtype | None = None, device: object = None) -> Traced:
        return self.new(shape, dtype)

    def _arange(self, size: int, device: object = None) -> Traced:
        return self.new((size,), INT64)


def run(source: str, dtype: str, training: bool = True, briefly: bool = False) -> Run:
    """A file to be run in a dtype given by its name. Raises EinformerError E605."""
    known = [name for name, each in DTYPES.items() if each.is_floating_point]
    if dtype not in known:
        raise fail("E605", f"there is no dtype `{dtype}` of weights", fix=" or ".join(f"`{name}`" for name in known))
    return Run(source, DTYPES[dtype], training, briefly)


class _Init:
    """`nn.init`: what a weight starts as takes no memory."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None


_KINDS = {"Int": INT64, "Bool": BOOL}


def _code(source: str, error: TypeError) -> str:
    """The line of the file in which an error arose."""
    last = [number for frame, number in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename == FILE][-1]
    return source.splitlines()[last - 1].strip()


@functools.lru_cache
def _compiled(source: str) -> CodeType:
    return compile(source, FILE, "exec", dont_inherit=True)  # annotations are read as values
