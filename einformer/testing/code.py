"""Runs the code under test: a function or a module, with given numbers, and its gradients by autograd."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.overrides import TorchFunctionMode

from einformer.errors import fail
from einformer.testing.guess import COMPILED, Parameter, guess
from einformer.testing.mapping import Given, MappedParameter, Shape, assign_arguments, list_parameters, read_entries
from einformer.testing.subject import Subject
from einformer.testing.verdict import disagree

Array = NDArray[Any]
Call = Callable[..., Any]
WITHOUT = "`gradients=False`, which leaves gradients out"


@dataclass(frozen=True, slots=True)
class Code:
    """A function or module under test, with the weights in its parameters."""

    f: Callable[..., Any]
    entries: tuple[MappedParameter, ...]
    name: str

    def output(self, inputs: Mapping[str, Array], weights: Mapping[str, Array]) -> Array:
        tensors = _tensors({**inputs, **weights}, frozenset())
        return to_array(self.call(tensors, inputs))

    # The code computes in float32 or less, whatever its inputs are.
    def is_narrow(self, inputs: Mapping[str, Array], weights: Mapping[str, Array]) -> bool:
        with _Narrowest() as watch:
            self.output(inputs, weights)
        return bool(watch.narrow)

    # The gradient is of the sum of the output times `by`, for each real input and weight that is named.
    def gradients(
        self, inputs: Mapping[str, Array], weights: Mapping[str, Array], names: Iterable[str], by: Array
    ) -> dict[str, Array]:
        tensors = _tensors({**inputs, **weights}, frozenset(names))
        wanted = [name for name, x in tensors.items() if x.requires_grad]
        try:
            output = first_tensor(self.call(tensors, inputs))
            if not output.requires_grad and not output.is_inference():
                return {name: np.zeros(tensors[name].shape) for name in wanted}
            total = (output.double() * torch.from_numpy(by)).sum()
            slopes = torch.autograd.grad(total, [tensors[name] for name in wanted], allow_unused=True)
        except RuntimeError as problem:  # inference mode, code without a backward pass, tensors that were overwritten
            message = f"`{self.name}` has no gradients: {type(problem).__name__}: {problem}"
            raise disagree("E904", message, fix=WITHOUT) from problem
        return {
            name: np.zeros(tensors[name].shape) if slope is None else slope.numpy()
            for name, slope in zip(wanted, slopes, strict=True)
        }

    # Optional weights without a parameter are left out.
    def weights(self, drawn: Mapping[str, Array], subject: Subject) -> dict[str, Array]:
        held = {path for entry in self.entries for path in entry.paths}
        for path, placed in subject.weights().items():
            if path not in held and not placed.weight.optional:
                raise fail(
                    "E905", f"no parameter of the code holds `{path}`", fix='`weights={"q_proj.weight": "Q_{(ae)d}", …}`'
                )
        return {path: array for path, array in drawn.items() if path in held}

    # The entries make parameters of the tensors.
    def call(self, tensors: Mapping[str, torch.Tensor], inputs: Mapping[str, Array]) -> Any:
        parameters = {entry.parameter: make_parameter(entry, tensors) for entry in self.entries}
        if isinstance(self.f, nn.Module):
            return torch.func.functional_call(self.f, parameters, tuple(tensors[name] for name in inputs))
        return self.f(**parameters)


def code(f: Callable[..., Any], subject: Subject, given: Mapping[str, Given], call: Call | None) -> Code:
    name = name_code(f)
    if not isinstance(f, nn.Module):
        written = read_entries(subject, given, list_parameters(f))
        return Code(f, tuple(written + assign_arguments(subject, list_parameters(f), written)), name)
    shapes, tied = _list_parameters(f), list_tied(f)
    read = (replace(entry, parameter=tied[entry.parameter]) for entry in read_entries(subject, given, list(tied)))
    written = list({entry.parameter: entry for entry in read}.values())
    entries = [entry for entry in written if entry.pieces or entry.made] + guess(subject, shapes, written)
    shapes_by_name = {parameter.name: parameter.shape for parameter in shapes}
    joined = [replace(entry, axis=_find_joining_axis(entry, shapes_by_name[entry.parameter], subject)) for entry in entries]
    if call is None:
        return Code(f, tuple(joined), name)
    return Code(_Called(f, call), tuple(replace(entry, parameter=f"module.{entry.parameter}") for entry in joined), name)


def name_code(f: object) -> str:
    f = getattr(f, COMPILED.rstrip("."), f)
    return str(getattr(f, "__name__", type(f).__name__)).replace("<lambda>", "lambda")


# The axis along which the pieces of a parameter follow each other.
def _find_joining_axis(entry: MappedParameter, shape: Shape, subject: Subject) -> int:
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


# A module is copied, in float64 and in evaluation mode; a function stays.
def prepare(f: Callable[..., Any]) -> Callable[..., Any]:
    return copy.deepcopy(f).double().eval() if isinstance(f, nn.Module) else f


# An output may be a tuple, a list or a dictionary.
def first_tensor(output: Any) -> torch.Tensor:
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


def to_array(output: Any) -> Array:
    return first_tensor(output).detach().double().cpu().numpy()


# Several pieces follow each other along the axis along which they differ from the parameter.
def make_parameter(entry: MappedParameter, tensors: Mapping[str, torch.Tensor]) -> Any:
    if entry.made is not None:
        return entry.made(*(tensors[name] for name in list_parameters(entry.made)))
    laid = [piece.lay_out(tensors[piece.path]) for piece in entry.pieces]
    return laid[0] if len(laid) == 1 else torch.cat(laid, entry.axis)


def _tensors(arrays: Mapping[str, Array], moving: frozenset[str]) -> dict[str, torch.Tensor]:
    tensors = {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
    return {name: x.requires_grad_(name in moving and x.is_floating_point()) for name, x in tensors.items()}


# `lm_head.weight` may be `wte.weight`. The name that a parameter has without `torch.compile` is enough.
def list_tied(module: nn.Module) -> dict[str, str]:
    first, named = dict[int, str](), module.named_parameters(remove_duplicate=False)
    return {name.replace(COMPILED, ""): first.setdefault(id(p), name) for name, p in named}


def _list_parameters(module: nn.Module) -> list[Parameter]:
    owners = dict(module.named_modules())
    return [
        Parameter(name, tuple(p.shape), isinstance(owners[name.rpartition(".")[0]], nn.Linear))
        for name, p in module.named_parameters()
    ]


# Watches the dtypes of results: any real one below float64 counts.
class _Narrowest(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.narrow = False

    def __torch_function__(self, f: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = f(*args, **(kwargs or {}))
        results = result if isinstance(result, tuple | list) else (result,)
        self.narrow |= any(isinstance(x, torch.Tensor) and x.is_floating_point() and x.element_size() < 8 for x in results)
        return result


class _Called(nn.Module):
    """A module that is called in a way of its own."""

    def __init__(self, module: nn.Module, call: Call) -> None:
        super().__init__()
        self.module, self.call = module, call

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.call(self.module, *inputs)
