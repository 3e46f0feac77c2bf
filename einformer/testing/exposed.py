"""Collects the intermediate values of code: local variables, outputs of submodules, tensors that modules keep."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

Array = NDArray[np.float64]
_LIBRARIES = tuple(
    {
        sysconfig.get_path("stdlib"),
        *(str(path) for path in torch.__path__),
        __file__.rpartition("einformer")[0] + "einformer",
    }
)


@dataclass(frozen=True, slots=True)
class Shown:
    """A value of the code, and its place: `att` in line 31."""

    name: str
    place: str
    array: Array


def collect(f: Callable[..., Any], run: Callable[[], object]) -> list[Shown]:
    """Returns the values that the code shows while `run` calls it, in order."""
    values = list[Shown]()
    with _watch_submodules(f, values), _trace_locals(values):
        run()
    return values + list(_find_kept(f))


@contextmanager
def _trace_locals(values: list[Shown]) -> Iterator[None]:
    seen = dict[tuple[int, int], torch.Tensor]()  # holds them, so that no other takes their id

    def look(frame: FrameType, event: str, argument: object) -> Any:
        for name, x in frame.f_locals.items():
            if isinstance(x, torch.Tensor) and not x.is_complex() and (key := (id(x), x._version)) not in seen:
                seen[key] = x
                values.append(Shown(name, f"line {frame.f_lineno}", _to_array(x)))
        return look

    def enter(frame: FrameType, event: str, argument: object) -> Any:
        return None if frame.f_code.co_filename.startswith(_LIBRARIES) else look

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        yield
    finally:
        sys.settrace(before)


@contextmanager
def _watch_submodules(f: object, values: list[Shown]) -> Iterator[None]:
    modules = list(f.named_modules()) if isinstance(f, nn.Module) else []

    def keep(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, inputs: object, output: object) -> None:
            if isinstance(output, torch.Tensor) and not output.is_complex():
                values.append(Shown(name, "its output", _to_array(output)))

        return hook

    handles = [module.register_forward_hook(keep(name)) for name, module in modules if name]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _find_kept(f: object) -> Iterator[Shown]:
    for path, module in f.named_modules() if isinstance(f, nn.Module) else ():
        for name, x in vars(module).items():
            if isinstance(x, torch.Tensor) and not x.is_complex():
                yield Shown(f"{path}.{name}".strip("."), "kept", _to_array(x))


def _to_array(x: torch.Tensor) -> Array:
    return x.detach().double().cpu().numpy().copy()
