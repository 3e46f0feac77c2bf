"""Reports a failure as an error of ours that is an AssertionError too, so test runners count it as a failure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from einformer.errors import NOWHERE, EinformerError, Finding, Span


class Disagreement(EinformerError, AssertionError):
    """Code that breaks the claim of an assertion."""


# Reports an exception of the code as its answer: Disagreement E901, after the user's own traceback.
@contextmanager
def its_own_errors(name: str, facts: Iterable[str]) -> Iterator[None]:
    try:
        yield
    except EinformerError:
        raise
    except Exception as problem:  # the code of a user may raise anything
        raise disagree("E901", f"`{name}` raises {type(problem).__name__}: {problem}", facts=facts) from problem


# `raise disagree("E902", …)`.
def disagree(code: str, message: str, span: Span = NOWHERE, facts: Iterable[str] = (), fix: str = "") -> Disagreement:
    return Disagreement([Finding(code, message, span, tuple(facts), fix)])
