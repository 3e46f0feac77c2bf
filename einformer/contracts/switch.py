"""Turns contracts on and off: `EINFORMER_CONTRACTS=0`, or `ein.contracts.off()` before the functions are decorated."""

from __future__ import annotations

import os

_state = {"on": os.environ.get("EINFORMER_CONTRACTS", "1") not in ("0", "off", "false")}


def off() -> None:
    """Leaves functions that are decorated from here on unchanged, and watches nothing."""
    _state["on"] = False


def on() -> None:
    """Checks contracts from here on, as is the default."""
    _state["on"] = True


def active() -> bool:
    return _state["on"]
