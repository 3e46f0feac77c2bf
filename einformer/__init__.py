"""Tensor-notation specifications of decoder-only transformers: written once as equations, checked, run, printed."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from einformer import testing
    from einformer.contracts import T, bind, contract, probe, sizes, watch
    from einformer.errors import EinformerError
    from einformer.model import Model, Specification, from_huggingface, load, parse

__all__ = [
    "EinformerError",
    "Model",
    "Specification",
    "T",
    "bind",
    "contract",
    "from_huggingface",
    "load",
    "parse",
    "probe",
    "sizes",
    "testing",
    "watch",
]

_HOMES = {
    "contracts": ("T", "bind", "contract", "probe", "sizes", "watch"),
    "errors": ("EinformerError",),
    "model": ("Model", "Specification", "from_huggingface", "load", "parse"),
    "testing": (),
}


def __getattr__(name: str) -> object:
    """A public name is imported when it is first asked for: contracts load torch, and a pytest plugin loads nothing."""
    for home, names in _HOMES.items():
        if name in (home, *names):
            module = import_module(f"einformer.{home}")
            return globals().setdefault(name, module if name == home else getattr(module, name))
    raise AttributeError(f"module 'einformer' has no attribute {name!r}")
