"""What does torch itself keep for the backward pass? `saved_tensors_hooks`: bytes of unique storages, by line.

What is packed but let go before the backward pass, because nothing leads back to it, is not kept.
"""

from __future__ import annotations

import inspect
import itertools
import sys
import weakref
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
import torch.nn.functional as fn
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.distributed._tools.mem_tracker import MemTracker


@dataclass(eq=False)
class _Packed:
    """Lives as long as the backward step that keeps it."""

    tensor: Tensor
    line: int


@dataclass(frozen=True)
class Saved:
    """Bytes of activations by line, and of inputs."""

    lines: Counter[int] = field(default_factory=Counter)
    inputs: Counter[int] = field(default_factory=Counter)


def saved(module: nn.Module, inputs: Sequence[Tensor]) -> Saved:
    """What a forward pass of a built module keeps; weights and buffers are left out."""
    file = inspect.getfile(type(module).forward)
    packed: list[weakref.ref[_Packed]] = []

    def pack(tensor: Tensor) -> _Packed:
        frame = sys._getframe(1)
        while frame.f_code.co_filename != file:
            assert frame.f_back
            frame = frame.f_back
        held = _Packed(tensor.detach(), frame.f_lineno)  # a result holds its own step, and would live for ever
        packed.append(weakref.ref(held))
        return held

    with saved_tensors_hooks(pack, lambda held: held.tensor):
        result = module(*inputs)
    weights = {_storage(tensor) for tensor in (*module.parameters(), *module.buffers())}
    given = {_storage(tensor) for tensor in inputs}
    found, seen = Saved(), set(weights)
    for held in filter(None, (ref() for ref in packed)):
        if (storage := _storage(held.tensor)) not in seen:
            seen.add(storage)
            (found.inputs if storage in given else found.lines)[held.line] += held.tensor.untyped_storage().nbytes()
    assert result.requires_grad or not weights
    return found


def faked(module: nn.Module) -> nn.Module:
    """A module of the meta device whose tensors say that they are on the CPU; under a `FakeTensorMode`."""
    made: dict[Tensor, Tensor] = {}
    for part in module.modules():
        for held in (part._parameters, part._buffers):
            for name, tensor in held.items():
                if tensor is not None:
                    fake = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu")
                    fake = nn.Parameter(fake) if isinstance(tensor, nn.Parameter) else fake
                    held[name] = made.setdefault(tensor, fake)  # type: ignore[assignment]
    return module


def _storage(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def peak(module: nn.Module, inputs: Tensor, targets: Tensor) -> int:
    """The most bytes at once in two steps of training with AdamW, by torch's own `MemTracker`."""
    optimiser = torch.optim.AdamW(module.parameters())
    tracker = MemTracker()
    tracker.track_external(module, optimiser)
    with tracker:
        for _ in range(2):
            _step(module, optimiser, inputs, targets)
            tracker.reset_mod_stats()
    return int(tracker.get_tracker_snapshot("peak")[torch.device("cpu")]["Total"])


def profiled(module: nn.Module, inputs: Tensor, targets: Tensor) -> int:
    """The same of a real step, by torch's profiler: what it starts with, and the most that is taken on top."""
    optimiser = torch.optim.AdamW(module.parameters())
    _step(module, optimiser, inputs, targets)
    states = [tensor for state in optimiser.state.values() for tensor in state.values()]
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profiler:
        _step(module, optimiser, inputs, targets)
    assert profiler.profiler
    events = [event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]
    taken = itertools.accumulate(int(event.nbytes()) for event in sorted(events, key=lambda event: event.start_ns()))
    started: int = sum(tensor.nbytes for tensor in (*module.parameters(), *states))
    return started + max(taken)


def _step(module: nn.Module, optimiser: torch.optim.Optimizer, inputs: Tensor, targets: Tensor) -> None:
    fn.cross_entropy(module(inputs).flatten(0, -2), targets).backward()  # type: ignore[no-untyped-call]
    optimiser.step()
    optimiser.zero_grad()
