"""Tensor-notation specifications of transformers: written once as equations, checked, run, printed."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from einformer import contracts, testing
    from einformer.contracts import contract
    from einformer.errors import EinformerError
    from einformer.targets import from_huggingface, load, model, parse

__all__ = ["EinformerError", "contract", "contracts", "from_huggingface", "load", "model", "parse", "testing"]

_HOMES = {
    "EinformerError": "errors",
    "contract": "contracts",
    "from_huggingface": "targets",
    "load": "targets",
    "model": "targets",
    "parse": "targets",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first asked for: contracts load torch, and a pytest plugin loads nothing."""
    if name not in __all__:
        raise AttributeError(f"module 'einformer' has no attribute {name!r}")
    module = import_module(f"einformer.{_HOMES.get(name, name)}")
    return globals().setdefault(name, getattr(module, name) if name in _HOMES else module)


def load_ipython_extension(shell: object) -> None:
    """Registers the cell magic `%%ein`, for `%load_ext einformer`."""
    import_module("einformer.magic").register(shell)


def __dir__() -> list[str]:
    return __all__
