"""Shape contracts for anyone's functions and modules, in the letters of the notation."""

from einformer.contracts.annotations import T
from einformer.contracts.decorator import contract
from einformer.contracts.scopes import bind, sizes
from einformer.contracts.switch import off, on

__all__ = ["T", "bind", "contract", "off", "on", "sizes"]
