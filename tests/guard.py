"""What ends a test of ours that would never end? A timer of the processor's own seconds, far more than any text takes."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from typing import NoReturn

import pytest

SECONDS = 5.0


@contextlib.contextmanager
def guarded(seconds: float = SECONDS) -> Iterator[None]:
    """What takes so many seconds of the processor is ended, where the system can do so."""
    if not hasattr(signal, "setitimer"):
        yield
        return
    signal.signal(signal.SIGVTALRM, _end)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def _end(*_: object) -> NoReturn:
    raise TimeoutError("a test took far more seconds of the processor than it should")


needs_a_timer = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the system has no timer")
