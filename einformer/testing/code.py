"""What does some code compute? A function or a module, called with given numbers; its gradients by autograd."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from einformer.errors import fail
from einformer.testing.guess import Parameter, guessed
from einformer.testing.mapping import Entry, Given, Shape, arguments, parameters, said
from einformer.testing.subject import Subject

Array = NDArray[Any]
Call = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Code:
    """What is tested, and which of its parameters are which weights; `call` is how it is called, if not with the inputs."""

    f: Callable[..., Any]
    entries: tuple[Entry, ...]
    name: str

    def output(self, inputs: Mapping[str, Array], weights: Mapping[str, Array]) -> Array:
        """What comes out, without gradients."""
        tensors = _tensors({**inputs, **weights}, frozenset())
        return result(self.called(tensors, inputs))

    def is_narrow(self, inputs: Mapping[str, Array], weights: Mapping[str, Array]) -> bool:
        """Does the code take steps in float32 or less, whatever it is given?"""
        with _Narrowest() as watch:
            self.output(inputs, weights)
        return bool(watch.narrow)

    def gradients(
        self, inputs: Mapping[str, Array], weights: Mapping[str, Array], names: Iterable[str], by: Array
    ) -> dict[str, Array]:
        """The gradients of the sum of the output times `by`, by each of these that is a real number."""
        tensors = _tensors({**inputs, **weights}, frozenset(names))
        wanted = [name for name, x in tensors.items() if x.requires_grad]
        output = first(self.called(tensors, inputs))
        if not output.requires_grad:
            return {name: np.zeros(tensors[name].shape) for name in wanted}
        total = (output.double() * torch.from_numpy(by)).sum()
        found = torch.autograd.grad(total, [tensors[name] for name in wanted], allow_unused=True)
        return {
            name: np.zeros(tensors[name].shape) if each is None else each.numpy()
            for name, each in zip(wanted, found, strict=True)
        }

    def weights(self, drawn: Mapping[str, Array], subject: Subject) -> dict[str, Array]:
        """The weights that the code has: optional ones that none of its parameters holds are absent. Raises E905."""
        held = {path for entry in self.entries for path in entry.paths}
        for path, each in subject.weights().items():
            if path not in held and not each.weight.optional:
                raise fail(
                    "E905", f"no parameter of the code holds `{path}`", fix='`weights={"q_proj.weight": "Q_{(ae)d}", …}`'
                )
        return {path: array for path, array in drawn.items() if path in held}

    def called(self, tensors: Mapping[str, torch.Tensor], inputs: Mapping[str, Array]) -> Any:
        """One call, with what the entries make of the tensors."""
        made = {entry.parameter: value(entry, tensors) for entry in self.entries}
        if isinstance(self.f, nn.Module):
            return torch.func.functional_call(self.f, made, tuple(tensors[name] for name in inputs))
        return self.f(**made)


def code(f: Callable[..., Any], subject: Subject, given: Mapping[str, Given], call: Call | None) -> Code:
    """A function or a module, ready to be called. Raises EinformerError E905."""
    name = named(f)
    if not isinstance(f, nn.Module):
        written = said(subject, given, parameters(f))
        return Code(f, tuple(written + arguments(subject, parameters(f), written)), name)
    shapes = _shapes(f)
    written = said(subject, given, [each.name for each in shapes])
    found = [entry for entry in written if entry.pieces or entry.made] + guessed(subject, shapes, written)
    along = {each.name: each.shape for each in shapes}
    joined = (replace(each, axis=_joined(each, along[each.parameter], subject)) for each in found)
    if call is None:
        return Code(f, tuple(joined), name)
    return Code(_Called(f, call), tuple(replace(each, parameter=f"module.{each.parameter}") for each in joined), name)


def named(f: object) -> str:
    """What messages call it."""
    return str(getattr(f, "__name__", type(f).__name__)).replace("<lambda>", "lambda")


def _joined(entry: Entry, shape: Shape, subject: Subject) -> int:
    """Along which axis the pieces of a parameter follow each other. Raises EinformerError E905."""
    if not entry.pieces:
        return 0
    placed = subject.weights()
    parts = [piece.shape(placed[piece.path].shape) for piece in entry.pieces]
    for axis in range(len(parts[0])):
        whole = [sum(part[axis] for part in parts) if k == axis else size for k, size in enumerate(parts[0])]
        if tuple(whole) == shape and len({len(part) for part in parts}) == 1:
            return axis
    facts = [f"`{piece}` has shape {part}" for piece, part in zip(entry.pieces, parts, strict=True)]
    raise fail("E905", f"the parameter `{entry.parameter}` has shape {shape}", facts=facts, fix="a layout of that shape")


def prepared(f: Callable[..., Any]) -> Callable[..., Any]:
    """A module as a copy in float64 that does not train; a function as it is."""
    return copy.deepcopy(f).double().eval() if isinstance(f, nn.Module) else f


def first(output: Any) -> torch.Tensor:
    """The first tensor of what was returned: an output may stand in a tuple, a list or a dictionary."""
    while not isinstance(output, torch.Tensor):
        if isinstance(output, Mapping):
            output = list(output.values())
        if not isinstance(output, Sequence) or isinstance(output, str) or not output:
            raise fail(
                "E901",
                f"the code returns no tensor but {type(output).__name__}",
                fix="a tensor, or a tuple that begins with it",
            )
        output = output[0]
    return output


def result(output: Any) -> Array:
    """The first tensor of what was returned, as an array in float64."""
    return first(output).detach().double().cpu().numpy()


def value(entry: Entry, tensors: Mapping[str, torch.Tensor]) -> Any:
    """A parameter, made of weights; several pieces follow each other along the axis along which they differ from it."""
    if entry.made is not None:
        return entry.made(*(tensors[name] for name in parameters(entry.made)))
    laid = [piece.laid(tensors[piece.path]) for piece in entry.pieces]
    return laid[0] if len(laid) == 1 else torch.cat(laid, entry.axis)


def _tensors(arrays: Mapping[str, Array], moving: frozenset[str]) -> dict[str, torch.Tensor]:
    tensors = {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
    return {name: x.requires_grad_(name in moving and x.is_floating_point()) for name, x in tensors.items()}


def _shapes(module: nn.Module) -> list[Parameter]:
    owners = dict(module.named_modules())
    return [
        Parameter(name, tuple(p.shape), isinstance(owners[name.rpartition(".")[0]], nn.Linear))
        for name, p in module.named_parameters()
    ]


class _Narrowest(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Watches which numbers operations give: is any real one narrower than float64?"""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.narrow = False

    def __torch_dispatch__(self, f: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = f(*args, **(kwargs or {}))
        given = made if isinstance(made, tuple | list) else (made,)
        self.narrow |= any(isinstance(x, torch.Tensor) and x.is_floating_point() and x.element_size() < 8 for x in given)
        return made


class _Called(nn.Module):
    """A module that is called in a way of its own."""

    def __init__(self, module: nn.Module, call: Call) -> None:
        super().__init__()
        self.module, self.call = module, call

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.call(self.module, *inputs)
