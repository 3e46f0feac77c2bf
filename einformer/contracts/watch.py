"""Checks the contracts of a model's modules in one run of the whole model, from outside, by hooks.

In a run each letter has one size throughout the model. Sizes of parameters hold as long as the model is watched. A module
that is called outside of a run of the model is a run of its own.
"""

from __future__ import annotations

import inspect
import re
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import FrameType, TracebackType
from typing import Any

from torch import nn

from einformer.contracts import switch
from einformer.contracts.derived import derive
from einformer.contracts.long_names import shorten
from einformer.contracts.reader import read
from einformer.contracts.scopes import BoundSize, block, check_distinct, merge
from einformer.contracts.signature import NO_AXES, match_items
from einformer.contracts.syntax import REST, Contract, Item
from einformer.contracts.violations import Checker
from einformer.errors import EinformerError, fail
from einformer.language.suggestions import find_closest
from einformer.objects import Model, Specification


def watch(
    model: nn.Module,
    contracts: Mapping[str, str] | Specification | Model,
    names: Mapping[str, str] | None = None,
    *,
    probe: bool = False,
    axes: Mapping[str, str] = NO_AXES,
) -> Watch:
    """Checks any `nn.Module` while it runs: `watch(model, {"transformer.h.*.attn": "z_bsd -> (z_bsd, ...)"})`.

    A pattern names modules, or parameters, which are checked at once: `{"h.*.mlp.up.weight": "W_fd"}`. `*` is one part of a
    path, `**` any number of them, and `""` the model. A specification gives each layer to the modules whose class has its
    name, or to those in `names`: `{"MLP": "h.*.mlp", "MLP.W": "h.*.mlp.up.weight"}`. `axes` gives letters to longer names.

    With `probe`, a run in which two letters have one size is refused: it could hide a swap. The watch ends with
    `.remove()`, or with its `with` block. Raises EinformerError at once for the names and for parameters (E727, E720 …),
    and during a run for modules.
    """
    bound_sizes: Mapping[str, BoundSize] = {}
    if not isinstance(contracts, Mapping):
        contracts, bound_sizes = derive(model, contracts, names or {})
    watched = Watch(model, dict(bound_sizes), probe)
    if switch.active():
        watched.start({pattern: shorten(text, axes, pattern) for pattern, text in contracts.items()})
    return watched


@dataclass(slots=True, eq=False)
class Watch:
    """A watched model: `sizes` hold as long as it is watched, `last` are the sizes of the last run."""

    model: nn.Module
    sizes: dict[str, BoundSize]
    probe: bool = False
    last: dict[str, Any] = field(default_factory=dict)
    _run: _Run = field(default_factory=lambda: _Run())
    _hooks: list[Any] = field(default_factory=list)

    def remove(self) -> None:
        """Stops watching."""
        while self._hooks:
            self._hooks.pop().remove()

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.remove()

    # The model comes first, so that its run is one binding.
    def start(self, contracts: Mapping[str, str]) -> None:
        modules = dict(self.model.named_modules())
        tensors = self.model.state_dict() | dict(self.model.named_parameters()) | dict(self.model.named_buffers())
        self.hook(self.model, self.enter)
        for pattern, text in contracts.items():
            paths, held = list(_match_paths(pattern, modules)), list(_match_paths(pattern, tensors))
            for path in held:
                self.check_tensor(path, tensors[path], text)
            for path in paths:
                self.watch_module(path, modules[path], text)
            if not paths and not held:
                self.remove()
                raise _refuse_pattern(pattern, [*modules, *tensors])

    # The sizes of a parameter or a buffer then hold in every run.
    def check_tensor(self, path: str, tensor: Any, text: str) -> None:
        checker = Checker(merge(block(), self.sizes))
        checker.see(read(text, path).arguments[0], tensor, path)
        checker.settle(last=True)
        self.sizes |= {name: bound for name, bound in checker.sizes.items() if name != REST.name}

    def watch_module(self, path: str, module: nn.Module, text: str) -> None:
        contract = read(text, f"{path or 'the model'} ({type(module).__name__})")
        signature = inspect.signature(module.forward)
        items = match_items(contract, tuple(signature.parameters.values()))
        seen = _Seen(self, path or type(module).__name__, contract, signature, items)
        if module is not self.model:
            self.hook(module, self.enter)
        self._hooks += [
            module.register_forward_pre_hook(seen.before, with_kwargs=True),
            module.register_forward_hook(seen.after, prepend=True),  # before the run is finished
        ]

    # A run begins at the first module that is entered, and ends when that is left, by a return or by an error.
    def hook(self, module: nn.Module, enter: Any) -> None:
        self._hooks += [
            module.register_forward_pre_hook(enter),
            module.register_forward_hook(self.finish),
            module.register_forward_hook(self.leave, always_call=True),
        ]

    # A run whose call is not on the stack was interrupted, and another begins.
    def enter(self, module: nn.Module, inputs: Any) -> None:
        run, calls = self._run, list(_find_calls())
        if not run.depth or run.call not in calls:
            run.checker, run.depth, run.call = Checker(merge(block(), self.sizes)), 0, calls[0]
        run.depth += 1

    # All sizes must be known at the end of a run, and with `probe` distinct.
    def finish(self, module: nn.Module, inputs: Any, result: Any) -> None:
        if self._run.depth == 1:
            self.find_binding.settle(last=True)
            self.last = {name: bound.size for name, bound in self.find_binding.sizes.items()}
            if self.probe:
                check_distinct(self.find_binding.sizes)

    def leave(self, module: nn.Module, inputs: Any, result: Any) -> None:
        self._run.depth = max(0, self._run.depth - 1)
        self._run.call = self._run.call if self._run.depth else None

    @property
    def find_binding(self) -> Checker:
        assert self._run.checker is not None
        return self._run.checker


class _Run(threading.local):
    """The run of a thread: its binding, how many watched modules are entered, and the call of the first one."""

    checker: Checker | None = None
    depth: int = 0
    call: FrameType | None = None


# From the call of the module that is entered, outwards.
def _find_calls() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        yield frame
        frame = frame.f_back


@dataclass(frozen=True, slots=True)
class _Seen:
    """One module of those that are watched."""

    watch: Watch
    path: str
    contract: Contract
    signature: inspect.Signature
    items: tuple[tuple[str, Item], ...]

    def before(self, module: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
        values = self.signature.bind(*inputs, **named)
        values.apply_defaults()
        for name, item in sorted(self.items, key=lambda each: each[1].optional):
            self.watch.find_binding.see(item, values.arguments[name], f"{self.path}.{name}")

    def after(self, module: nn.Module, inputs: tuple[Any, ...], result: Any) -> None:
        if self.contract.result is not None:
            self.watch.find_binding.see(self.contract.result, result, f"{self.path}(…)")


def _match_paths(pattern: str, paths: Mapping[str, Any]) -> Iterator[str]:
    parts = [re.escape(part).replace(r"\*\*", ".+").replace(r"\*", "[^.]*") for part in pattern.split(".")]
    wanted = re.compile(r"\.".join(parts))
    return (path for path in paths if wanted.fullmatch(path))


def _refuse_pattern(pattern: str, paths: list[str]) -> EinformerError:
    close = find_closest(pattern, paths)
    return fail("E727", f"`{pattern}` names no module and no parameter of the model", fix=f"`{close}`?" if close else "")
