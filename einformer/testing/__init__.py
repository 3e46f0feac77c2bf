"""Asserts that your code computes its equations, and that it has the properties that its architecture promises."""

from einformer.testing.implements import assert_implements
from einformer.testing.properties import (
    assert_batch_independent,
    assert_cache_consistent,
    assert_causal,
    assert_permutation_equivariant,
)
from einformer.testing.verdict import Disagreement

__all__ = [
    "Disagreement",
    "assert_batch_independent",
    "assert_cache_consistent",
    "assert_causal",
    "assert_implements",
    "assert_permutation_equivariant",
]


def __dir__() -> list[str]:
    return __all__
