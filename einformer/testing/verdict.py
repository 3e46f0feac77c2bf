"""How is a test told what is wrong? By an error of ours that is an AssertionError too: test runners count it as a failure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from einformer.errors import NOWHERE, EinformerError, Finding, Span


class Disagreement(EinformerError, AssertionError):
    """Some code does not do what was claimed of it."""


@contextmanager
def its_own_errors(name: str, facts: Iterable[str]) -> Iterator[None]:
    """What the code raises is its answer: Disagreement E901, which the user's own traceback comes before."""
    try:
        yield
    except EinformerError:
        raise
    except Exception as problem:  # the code is anyone's, and so is what it raises
        raise disagree("E901", f"`{name}` raises {type(problem).__name__}: {problem}", facts=facts) from problem


def disagree(code: str, message: str, span: Span = NOWHERE, facts: Iterable[str] = (), fix: str = "") -> Disagreement:
    """A disagreement of a single finding: `raise disagree("E902", …)`."""
    return Disagreement([Finding(code, message, span, tuple(facts), fix)])
