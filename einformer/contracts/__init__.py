"""Checks the shapes of your own functions and modules, in the letters of the notation."""

from einformer.contracts.annotations import T
from einformer.contracts.decorator import contract
from einformer.contracts.probe import probe
from einformer.contracts.scopes import bind, sizes
from einformer.contracts.switch import off, on
from einformer.contracts.watch import Watch, watch

__all__ = ["T", "Watch", "bind", "contract", "off", "on", "probe", "sizes", "watch"]


def __dir__() -> list[str]:
    return __all__
