"""Checks a specification: that it is well formed, and what its models claim of positions."""

from __future__ import annotations

from collections.abc import Mapping

from einformer.errors import Finding
from einformer.language import check as language
from einformer.language.sizes import Legend, Value
from einformer.language.times import check_times
from einformer.language.tree import Spec
from einformer.program.causality import check_causality


def check(
    spec: Spec, values: Mapping[str, Value] | None = None, origins: Mapping[str, str] | None = None
) -> tuple[Spec, tuple[Finding, ...]]:
    """The elaborated spec and every finding in the order of the text.

    With `values`, the sizes bound, groups and axes are compared as numbers; `origins` say where each came from.
    """
    return language.check(spec, values=values, origins=origins, claims=_claims)


def _claims(spec: Spec, legend: Legend) -> tuple[Finding, ...]:
    return check_times(spec, legend) or check_causality(spec, legend)
