"""Do the modules of a model keep their contracts, in one run of the whole? Watched from outside, by hooks.

In a run each letter has one size throughout the model; those that parameters bind hold for as long as it is watched. A module
that is called by itself, outside of a run of the model, is a run of its own.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from torch import nn

from einformer.contracts import switch
from einformer.contracts.check import Checker
from einformer.contracts.derived import derived
from einformer.contracts.reader import read
from einformer.contracts.scopes import Bound, block, distinct, joined
from einformer.contracts.signature import matched
from einformer.contracts.tree import REST, Contract, Item
from einformer.errors import EinformerError, fail
from einformer.language.names import closest
from einformer.objects import Model, Specification


def watch(
    model: nn.Module,
    contracts: Mapping[str, str] | Specification | Model,
    names: Mapping[str, str] | None = None,
    *,
    probe: bool = False,
) -> Watch:
    """Check any `nn.Module` while it runs: `watch(model, {"transformer.h.*.attn": "z_bsd -> (z_bsd, ...)"})`.

    A pattern names modules, or parameters, which are checked at once: `{"h.*.mlp.up.weight": "W_fd"}`. `*` is one part of a
    path, `**` any number of them, and `""` the model. The layers of a specification watch the modules whose class has their
    name, or those that `names` gives them: `{"MLP": "h.*.mlp", "MLP.W": "h.*.mlp.up.weight"}`.

    With `probe`, a run in which two letters have one size is refused: it would hide what swaps them. The watch ends with
    `.remove()`, or with its `with` block. Raises EinformerError: E727, and E720 … of parameters, at once; the rest in a run.
    """
    known: Mapping[str, Bound] = {}
    if not isinstance(contracts, Mapping):
        contracts, known = derived(model, contracts, names or {})
    watched = Watch(model, dict(known), probe)
    if switch.active():
        watched.start(contracts)
    return watched


@dataclass(slots=True, eq=False)
class Watch:
    """A model that is watched: `sizes` hold for as long as it is, `last` are those of the last run."""

    model: nn.Module
    sizes: dict[str, Bound]
    probe: bool = False
    last: dict[str, Any] = field(default_factory=dict)
    _run: Checker | None = None
    _depth: int = 0
    _hooks: list[Any] = field(default_factory=list)

    def remove(self) -> None:
        """Watch no longer."""
        while self._hooks:
            self._hooks.pop().remove()

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.remove()

    def start(self, contracts: Mapping[str, str]) -> None:
        """Check the parameters, and put hooks on the modules; on the model first, so that its run is one binding."""
        modules = dict(self.model.named_modules())
        tensors = self.model.state_dict() | dict(self.model.named_parameters()) | dict(self.model.named_buffers())
        self.hook(self.model, self.enter)
        for pattern, text in contracts.items():
            paths, held = list(_matching(pattern, modules)), list(_matching(pattern, tensors))
            for path in held:
                self.tensor(path, tensors[path], text)
            for path in paths:
                self.module(path, modules[path], text)
            if not paths and not held:
                self.remove()
                raise _nothing(pattern, [*modules, *tensors])

    def tensor(self, path: str, tensor: Any, text: str) -> None:
        """A parameter or a buffer, whose sizes then hold in every run."""
        checker = Checker(joined(block(), self.sizes))
        checker.see(read(text, path).arguments[0], tensor, path)
        checker.settle(last=True)
        self.sizes |= {name: bound for name, bound in checker.sizes.items() if name != REST.name}

    def module(self, path: str, module: nn.Module, text: str) -> None:
        """A module, which is looked at before and after each call."""
        contract = read(text, f"{path or 'the model'} ({type(module).__name__})")
        signature = inspect.signature(module.forward)
        items = matched(contract, tuple(signature.parameters.values()))
        seen = _Seen(self, path or type(module).__name__, contract, signature, items)
        if module is not self.model:
            self.hook(module, self.enter)
        self._hooks += [
            module.register_forward_pre_hook(seen.before, with_kwargs=True),
            module.register_forward_hook(seen.after, prepend=True),  # before the run is finished
        ]

    def hook(self, module: nn.Module, enter: Any) -> None:
        """A run begins with the first module that is entered, and ends when that is left, be it by an error."""
        self._hooks += [
            module.register_forward_pre_hook(enter),
            module.register_forward_hook(self.finish),
            module.register_forward_hook(self.leave, always_call=True),
        ]

    def enter(self, module: nn.Module, inputs: Any) -> None:
        """One module deeper."""
        if not self._depth:
            self._run = Checker(joined(block(), self.sizes))
        self._depth += 1

    def finish(self, module: nn.Module, inputs: Any, result: Any) -> None:
        """At the end of a run all sizes are known, and with `probe` they differ."""
        if self._depth == 1:
            self.run.settle(last=True)
            self.last = {name: bound.size for name, bound in self.run.sizes.items()}
            if self.probe:
                distinct(self.run.sizes)

    def leave(self, module: nn.Module, inputs: Any, result: Any) -> None:
        """One module less deep."""
        self._depth = max(0, self._depth - 1)

    @property
    def run(self) -> Checker:
        """The binding of the run."""
        assert self._run is not None
        return self._run


@dataclass(frozen=True, slots=True)
class _Seen:
    """One module of those that are watched."""

    watch: Watch
    path: str
    contract: Contract
    signature: inspect.Signature
    items: tuple[tuple[str, Item], ...]

    def before(self, module: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Its arguments."""
        given = self.signature.bind(*inputs, **named)
        given.apply_defaults()
        for name, item in sorted(self.items, key=lambda each: each[1].optional):
            self.watch.run.see(item, given.arguments[name], f"{self.path}.{name}")

    def after(self, module: nn.Module, inputs: tuple[Any, ...], result: Any) -> None:
        """Its result."""
        if self.contract.result is not None:
            self.watch.run.see(self.contract.result, result, f"{self.path}(…)")


def _matching(pattern: str, paths: Mapping[str, Any]) -> Iterator[str]:
    """The paths that a pattern names."""
    parts = [re.escape(part).replace(r"\*\*", ".+").replace(r"\*", "[^.]*") for part in pattern.split(".")]
    wanted = re.compile(r"\.".join(parts))
    return (path for path in paths if wanted.fullmatch(path))


def _nothing(pattern: str, paths: list[str]) -> EinformerError:
    close = closest(pattern, paths)
    return fail("E727", f"`{pattern}` names no module and no parameter of the model", fix=f"`{close}`?" if close else "")
