"""Are contracts checked? `EINFORMER_CONTRACTS=0`, or `ein.contracts.off()` before the functions are decorated, says no."""

from __future__ import annotations

import os

_state = {"on": os.environ.get("EINFORMER_CONTRACTS", "1") not in ("0", "off", "false")}


def off() -> None:
    """From here on a decorated function is the function itself, and nothing is watched."""
    _state["on"] = False


def on() -> None:
    """From here on contracts are checked, as they are without a word."""
    _state["on"] = True


def active() -> bool:
    """Are they checked?"""
    return _state["on"]
