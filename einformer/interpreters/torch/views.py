"""Lists the weights of a built module as they are written, of which several may lie in one parameter, in another order."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor, nn


# A view shows the numbers of the parameter that holds it. `of` may choose another tensor in the place of a parameter, or none.
def list_views(module: nn.Module, of: Callable[[Tensor], Tensor | None] = Tensor.detach) -> Iterator[tuple[str, Tensor]]:
    for path, inner in module.named_modules():
        yield from ((f"{path}.{name}".lstrip("."), view) for name, view in list_own_views(inner, of))


def list_own_views(module: Any, of: Callable[[Tensor], Tensor | None] = Tensor.detach) -> Iterator[tuple[str, Tensor]]:
    for name, parameter in itertools.chain(module.named_parameters(recurse=False), module.named_buffers(recurse=False)):
        if (whole := of(parameter)) is not None:
            packed = name in getattr(module, "layout", ())
            yield from ((weight, view) for weight, view, _ in (module.parts(name, whole) if packed else [(name, whole, ())]))


# Modules are built in this order.
def walk_inside_first(module: nn.Module, path: str = "") -> Iterator[tuple[str, nn.Module]]:
    for name, inner in module.named_children():
        yield from walk_inside_first(inner, f"{path}{name}.")
    yield path, module
