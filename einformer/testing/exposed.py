"""Collects the intermediate values of code: local variables, outputs of submodules, tensors that modules keep."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

Array = NDArray[np.float64]
_PURE = (sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))
_LIBRARIES = tuple({sysconfig.get_path("stdlib"), *torch.__path__, __file__.rpartition("einformer")[0] + "einformer"})


@dataclass(frozen=True, slots=True)
class Shown:
    """A value of the code, and its place: `att` in model.py:31."""

    name: str
    place: str
    array: Array


# Returns the values that the code shows while `run` calls it, in order.
def collect(f: Callable[..., Any], run: Callable[[], object]) -> list[Shown]:
    values, ours = list[Shown](), _find_files(f)
    with _watch_submodules(f, values, ours), _trace_locals(values, ours):
        run()
    return values + list(_find_kept(f))


Ours = Callable[[str], bool]


# Whether a file is the user's. An installed package is, if the code under test is in it.
def _find_files(f: object) -> Ours:
    code = getattr(f, "module", f)
    file = getattr(sys.modules.get(getattr(code, "__module__", "")), "__file__", None) or ""
    package = next((root + os.sep + file[len(root) + 1 :].split(os.sep)[0] for root in _PURE if file.startswith(root)), None)

    def is_ours(file: str) -> bool:
        installed = file.startswith(_PURE) and not (package and file.startswith(package))
        return not installed and not file.startswith(_LIBRARIES)

    return is_ours


def _spell_place(file: str, line: int) -> str:
    if not os.path.isfile(file):  # typed, or in a notebook
        return f"line {line}"
    inside = file.startswith(os.getcwd() + os.sep)
    return f"{os.path.relpath(file) if inside else os.path.basename(file)}:{line}"


# A value belongs to the line before the one at which it is first seen.
@contextmanager
def _trace_locals(values: list[Shown], ours: Ours) -> Iterator[None]:
    seen = dict[tuple[int, int], torch.Tensor]()  # holds them, so that no other takes their id
    lines = dict[FrameType, int]()

    def look(frame: FrameType, event: str, argument: object) -> Any:
        line = lines.get(frame, frame.f_code.co_firstlineno)
        for name, x in frame.f_locals.items():
            if isinstance(x, torch.Tensor) and (key := _identify(x)) not in seen:
                seen[key] = x
                values.extend(_show(name, _spell_place(frame.f_code.co_filename, line), x))
        if event == "line":
            lines[frame] = frame.f_lineno
        return look

    def enter(frame: FrameType, event: str, argument: object) -> Any:
        return look if ours(frame.f_code.co_filename) else None

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        yield
    finally:
        sys.settrace(before)


# A tensor of inference mode does not count its versions.
def _identify(x: torch.Tensor) -> tuple[int, int]:
    return id(x), 0 if x.is_inference() else x._version


@contextmanager
def _watch_submodules(f: object, values: list[Shown], ours: Ours) -> Iterator[None]:
    modules = list(f.named_modules()) if isinstance(f, nn.Module) else []

    def keep(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, inputs: object, output: object) -> None:
            if isinstance(output, torch.Tensor) and not torch.compiler.is_compiling():
                values.extend(_show(name, ", ".join(["its output", *_find_caller(ours)]), output))

        return hook

    handles = [module.register_forward_hook(keep(name)) for name, module in modules if name]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


# The line of the user that calls, through libraries or not.
def _find_caller(ours: Ours) -> list[str]:
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and not ours(frame.f_code.co_filename):
        frame = frame.f_back
    return [_spell_place(frame.f_code.co_filename, frame.f_lineno)] if frame else []


def _find_kept(f: object) -> Iterator[Shown]:
    for path, module in f.named_modules() if isinstance(f, nn.Module) else ():
        for name, x in vars(module).items():
            if isinstance(x, torch.Tensor):
                yield from _show(f"{path}.{name}".strip("."), "kept", x)


# A tensor without numbers of its own, as in `torch.vmap`, is not shown.
def _show(name: str, place: str, x: torch.Tensor) -> Iterator[Shown]:
    if not x.is_complex():
        with suppress(RuntimeError, NotImplementedError):
            yield Shown(name, place, x.detach().double().cpu().numpy().copy())
