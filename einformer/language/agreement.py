"""Checks uses against definitions: the slots of a tensor and the axes they run over, the arguments of a primitive."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from einformer.errors import EinformerError, Finding, Span
from einformer.language.calls import axis_of
from einformer.language.names import report_undeclared
from einformer.language.primitives import CONDITIONS, primitive
from einformer.language.printer import PLAIN
from einformer.language.sizes import Legend
from einformer.language.tree import Apply, Expression, Group, Index, Tensor
from einformer.language.walk import children, subexpressions


def slots_agree(tensor: Tensor, slots: tuple[Expression, ...], span: Span, legend: Legend) -> Iterator[Finding]:
    """As many slots as the definition at `span` has, each over its axis."""
    if len(tensor.slots) != len(slots):
        spelled = f"`{PLAIN.tensor(tensor.name, slots)}`"
        letters = dict.fromkeys(letter for slot in slots for letter in _slot_letters(slot))
        facts = (f"defined as {spelled} ({span})", *map(legend.describe, letters))
        message = f"`{tensor.name}` has {len(slots)} slots, here are {len(tensor.slots)}"
        yield Finding("E304", message, tensor.span, facts, spelled)
        return
    for slot, defined in zip(tensor.slots, slots, strict=True):
        if slot != defined and (findings := list(_slot_agrees(tensor, slot, defined, legend))):
            definition = f"defined as `{PLAIN.tensor(tensor.name, slots)}` ({span.source.name}:{span.line})"
            yield from (replace(finding, facts=(definition, *finding.facts)) for finding in findings)
            return  # two letters that changed places are one slip


def _slot_agrees(tensor: Tensor, slot: Expression, defined: Expression, legend: Legend) -> Iterator[Finding]:
    match slot, defined:
        case Index(), Index():
            if axis_of(slot.letter) != axis_of(defined.letter) and not _find_bounded(slot.letter, defined.letter, legend):
                message = (
                    f"this slot of `{tensor.name}` runs over `{axis_of(defined.letter)}`, not over `{axis_of(slot.letter)}`"
                )
                enclosed = slot.span.source.text[slot.span.start - 1 : slot.span.start] == "("
                number = f"; under a `where`, `({slot.letter} + 0)` for the number of `{slot.letter}`" * enclosed
                yield Finding(
                    "E307", message, slot.span, _facts(defined, slot, legend), f"`{defined.letter}`, or a prime of it{number}"
                )
        case ((Index() | Group()), (Index() | Group())):
            if legend.size(slot) != legend.size(defined):
                here, there = f"`{PLAIN.slot(slot)}`", f"`{PLAIN.slot(defined)}`"
                sizes = f"{here} has {legend.spell(slot)}, {there} has {legend.spell(defined)}"
                message = f"{here} does not provably have the size of {there}"
                fix = "a group whose sizes multiply to that of the axis, or a size that says so, `e: H = D / A`"
                yield Finding("E308", message, slot.span, (sizes, *_facts(defined, slot, legend)), fix)
        case _:
            for index in (x for x in subexpressions(slot) if isinstance(x, Index)):
                if legend.axis(index.letter) is None:
                    yield report_undeclared(index, legend)


def _facts(defined: Expression, slot: Expression, legend: Legend) -> tuple[str, ...]:
    return tuple(legend.describe(letter) for letter in dict.fromkeys(_slot_letters(defined) + _slot_letters(slot)))


# `P_sd` reads `P_kd`, because the legend says `s: S <= K`.
def _find_bounded(letter: str, defined: str, legend: Legend) -> bool:
    inner, outer = legend.axis(letter), legend.axis(defined)
    return inner is not None and outer is not None and inner.bound is not None and inner.bound == outer.size


def find_repeated(slots: Iterable[Expression], legend: Legend) -> Iterator[Finding]:
    """The same index in two slots would read a diagonal, which nobody means."""
    seen: set[str] = set()
    opened = [member for slot in slots for member in (slot.members if isinstance(slot, Group) else (slot,))]
    for index in (member for member in opened if isinstance(member, Index)):
        if index.letter in seen:
            message, fact = f"`{index.letter}` stands twice on one tensor", legend.describe(index.letter)
            yield Finding("E305", message, index.span, (fact,), f"`{index.letter}'` for the second")
        seen.add(index.letter)


def _slot_letters(slot: Expression) -> list[str]:
    return [axis_of(x.letter) for x in subexpressions(slot) if isinstance(x, Index)]


MAXIMUM_TURNS = 10_000  # of a loop; no more does `top` take


def check_count(e: Expression, says: str, letter: str, legend: Legend) -> Iterator[Finding]:
    """How often a loop turns, or how many `top` takes, once that is known: a whole number, and not one without end."""
    try:
        count = legend.number(e)
    except EinformerError as error:
        yield from (finding for finding in error.findings if finding.code != "E601")
    else:
        if not 0 <= count <= MAXIMUM_TURNS or count != int(count):
            message = says.format(f"{float(count):g}")
            yield Finding("E604", message, e.span, (legend.describe(letter),), f"a whole number, 0 … {MAXIMUM_TURNS:,}")


def check_arity(e: Apply) -> Iterator[Finding]:
    """As many arguments as the row of the primitive says, with or without an index."""
    row = primitive(e.name, bool(e.indices))
    other = primitive(e.name, not e.indices)
    if other is not None and (row is None or len(e.arguments) in {*other.arity} - {*row.arity}):
        fix = f"`{e.name}(…)`" if e.indices else f"`{e.name}_…` with the index that it is over"
        yield Finding("E405", f"`{e.name}` {'takes no' if e.indices else 'needs an'} index here", e.span, (), fix)
    elif row is not None and len(e.arguments) not in row.arity:
        message = f"`{e.name}` takes {' or '.join(map(str, row.arity))} arguments, here are {len(e.arguments)}"
        yield Finding("E401", message, e.span, (), f"{row.arity[0]} in parentheses")


def check_conditions(e: Expression, wanted: bool) -> Iterator[Finding]:
    """`where`, `and`, `or` and `not` take conditions; everything else takes numbers (R8)."""
    is_condition = isinstance(e, Apply) and e.name in CONDITIONS
    if is_condition != wanted:
        message = "a number stands here, and a condition is needed" if wanted else "a condition is no number"
        fix = "a comparison, such as `s' <= s`, or `top`" if wanted else "`where(…, 1, 0)` around the condition"
        yield Finding("E407", message, e.span, (), fix)
        return
    for number, child in enumerate(children(e)):
        logical = isinstance(e, Apply) and (e.name in ("and", "or", "not") or (e.name == "where" and number == 0))
        yield from check_conditions(child, logical)
