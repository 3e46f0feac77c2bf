"""Is a primitive given what it takes: as many arguments, conditions, whole counts?"""

from __future__ import annotations

from collections.abc import Iterator

from einformer.errors import EinformerError, Finding
from einformer.language.primitives import CONDITIONS, primitive
from einformer.language.sizes import Legend
from einformer.language.tree import Apply, Expression
from einformer.language.walk import children

MAXIMUM_TURNS = 10_000  # of a loop; no more does `top` take


def counted(e: Expression, says: str, letter: str, legend: Legend) -> Iterator[Finding]:
    """How often a loop turns, or how many `top` takes, once that is known: a whole number, and not one without end."""
    try:
        count = legend.number(e)
    except EinformerError as error:
        yield from (finding for finding in error.findings if finding.code != "E601")
    else:
        if not 0 <= count <= MAXIMUM_TURNS or count != int(count):
            message = says.format(f"{float(count):g}")
            yield Finding("E604", message, e.span, (legend.describe(letter),), f"a whole number, 0 … {MAXIMUM_TURNS:,}")


def arity(e: Apply) -> Iterator[Finding]:
    """As many arguments as the row of the primitive says, with or without an index."""
    row = primitive(e.name, bool(e.indices))
    other = primitive(e.name, not e.indices)
    if other is not None and (row is None or len(e.arguments) in {*other.arity} - {*row.arity}):
        fix = f"`{e.name}(…)`" if e.indices else f"`{e.name}_…` with the index that it is over"
        yield Finding("E405", f"`{e.name}` {'takes no' if e.indices else 'needs an'} index here", e.span, (), fix)
    elif row is not None and len(e.arguments) not in row.arity:
        message = f"`{e.name}` takes {' or '.join(map(str, row.arity))} arguments, here are {len(e.arguments)}"
        yield Finding("E401", message, e.span, (), f"{row.arity[0]} in parentheses")


def conditions(e: Expression, wanted: bool) -> Iterator[Finding]:
    """`where`, `and`, `or` and `not` take conditions; everything else takes numbers (R8)."""
    found = isinstance(e, Apply) and e.name in CONDITIONS
    if found != wanted:
        message = "a number stands here, and a condition is needed" if wanted else "a condition is no number"
        fix = "a comparison, such as `s' <= s`, or `top`" if wanted else "`where(…, 1, 0)` around the condition"
        yield Finding("E407", message, e.span, (), fix)
        return
    for at, child in enumerate(children(e)):
        logical = isinstance(e, Apply) and (e.name in ("and", "or", "not") or (e.name == "where" and at == 0))
        yield from conditions(child, logical)
