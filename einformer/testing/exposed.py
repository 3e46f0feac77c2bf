"""Which intermediate values does some code show? Local variables, outputs of submodules, tensors that modules keep."""

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
    {sysconfig.get_path("stdlib"), *(str(each) for each in torch.__path__), __file__.rpartition("einformer")[0] + "einformer"}
)


@dataclass(frozen=True, slots=True)
class Shown:
    """A value that the code held, and where it is seen: `att` in line 31."""

    name: str
    place: str
    array: Array


def shown(f: Callable[..., Any], run: Callable[[], object]) -> list[Shown]:
    """What the code shows while `run` calls it, in the order in which it is seen."""
    found = list[Shown]()
    with _watched(f, found), _traced(found):
        run()
    return found + list(_kept(f))


@contextmanager
def _traced(found: list[Shown]) -> Iterator[None]:
    """Every tensor that a local variable of the user's own code comes to hold."""
    seen = dict[tuple[int, int], torch.Tensor]()  # holds them, so that no other takes their id

    def look(frame: FrameType, event: str, argument: object) -> Any:
        for name, x in frame.f_locals.items():
            if isinstance(x, torch.Tensor) and not x.is_complex() and (key := (id(x), x._version)) not in seen:
                seen[key] = x
                found.append(Shown(name, f"line {frame.f_lineno}", _array(x)))
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
def _watched(f: object, found: list[Shown]) -> Iterator[None]:
    """The outputs of every submodule."""
    modules = list(f.named_modules()) if isinstance(f, nn.Module) else []

    def keep(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, inputs: object, output: object) -> None:
            if isinstance(output, torch.Tensor) and not output.is_complex():
                found.append(Shown(name, "its output", _array(output)))

        return hook

    handles = [module.register_forward_hook(keep(name)) for name, module in modules if name]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _kept(f: object) -> Iterator[Shown]:
    """Tensors that modules keep as plain attributes."""
    for path, module in f.named_modules() if isinstance(f, nn.Module) else ():
        for name, x in vars(module).items():
            if isinstance(x, torch.Tensor) and not x.is_complex():
                yield Shown(f"{path}.{name}".strip("."), "kept", _array(x))


def _array(x: torch.Tensor) -> Array:
    return x.detach().double().cpu().numpy().copy()
