"""Checks that the equations of a section agree: each tensor is used as it is defined, and no index is summed that is needed
later.

Only errors that no reading of the text excuses are reported. If a tensor lacks an index everywhere, since the author "drops
the batch index", it is not an error. If it lacks an index where its neighbours have it, it is.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace

from einformer.errors import Finding
from einformer.language.calls import axis_of
from einformer.language.sizes import Polynomial
from einformer.language.tree import Expression, Group, Index, Number, Tensor
from einformer.language.walk import subexpressions
from einformer.lint.balance import REMARKS, balance, find_axes
from einformer.lint.legend import Sizes
from einformer.lint.letters import slot_letters
from einformer.lint.masks import check_masks
from einformer.lint.notes.signs import BOLD, LETTERED
from einformer.lint.sections import Context, Read

_FONT = re.compile(rf"`([^\W\d_])(?:{'|'.join(sorted({*LETTERED, *BOLD}))})")  # the names `Amathcal` and `A` are two


def check_section(reads: list[Read], known: Context) -> None:
    """Adds findings to the equations of a section."""
    for read in reads:
        if read.right is not None:
            errors = balance(read.left, read.right, known.legend)
            read.findings += (f for f in errors if f.code not in ("E301", "E302") or not find_axes([f]) & known.fixed)
    for number, read in enumerate(reads):
        read.findings += _check_sums(read, reads[number + 1 :])
    makers = _find_common_forms(reads) | _find_definitions(reads)
    defined = {name: tensor for name, (tensor, _) in makers.items()} | known.declared
    other = set(
        _find_second_forms(reads)
    )  # forms that are meant; the first use with its letters in another order stands for all
    for read in reads:
        blamed = find_axes(read.findings)
        for finding in _check_uses(read, defined, known, other):
            if not find_axes([finding]) & blamed:
                read.findings.append(finding)
    for read in reads:
        read.findings += check_masks(read, reads, known)
        read.findings = [_add_facts(read, finding, known.sizes, makers) for finding in _drop_repeats(read.findings)]


def _drop_repeats(findings: Iterable[Finding]) -> Iterator[Finding]:
    seen = set[tuple[str, str]]()
    for finding in findings:
        if finding.code not in REMARKS and (finding.code, finding.message) not in seen:
            seen.add((finding.code, finding.message))
            yield finding


def _add_facts(read: Read, finding: Finding, sizes: Sizes, makers: dict[str, tuple[Tensor, Read]]) -> Finding:
    form = tuple(fact for fact in finding.facts if fact.startswith("defined as"))
    sizes_of_letters = sizes.facts(sorted(find_axes([finding])))
    if not form:
        return replace(finding, facts=sizes_of_letters)
    tensor, maker = next((form_of_maker for name, form_of_maker in makers.items() if f"`{name}_" in form[0]), (None, None))
    if tensor and maker:
        words = form[0] if maker.defines is tensor else form[0].replace("defined", "used")
        place = maker.place(tensor.span)
        cell = "" if place.source is read.equation.formula.latex.source else f"{place.source.name}, "
        form = (f"{words} ({cell}line {place.line})",)
    return replace(finding, facts=(*form, *dict.fromkeys((*finding.facts[1:], *sizes_of_letters))))


def locate(read: Read, finding: Finding) -> Finding:
    """Moves a finding to its place in the file, with the letters as they are printed."""
    facts = tuple(_FONT.sub(r"`\1", fact) for fact in finding.facts)
    message, fix = _FONT.sub(r"`\1", finding.message), _FONT.sub(r"`\1", finding.fix)
    return replace(finding, message=message, span=read.place(finding.span), facts=facts, fix=fix)


# ------------------------------------------------------------------------------------------------------- definitions


# Only definitions in one form, by an equation without errors. If a factor has more slots elsewhere, the author gives the
# rest in words, and the definition does not count.
def _find_definitions(reads: list[Read]) -> dict[str, tuple[Tensor, Read]]:
    definitions, widest = defaultdict[str, list[tuple[Tensor, Read]]](list), dict[str, int]()
    for x in (x for read in reads for x in read.tensors):
        widest[x.name] = max(widest.get(x.name, 0), len(x.slots))
    for read in reads:
        whole = all(len(x.slots) == widest[x.name] for x in read.made_of if isinstance(x, Tensor))
        if read.defines is not None and not read.findings and whole:
            definitions[read.defines.name].append((read.defines, read))
    return {name: forms[0] for name, forms in definitions.items() if len({tuple(_axes_of(tensor)) for tensor, _ in forms}) == 1}


# An equation such as `A_c = sum_l A_cl` gives a tensor a second form.
def _find_second_forms(reads: list[Read]) -> Iterator[tuple[str, ...]]:
    for read in reads:
        if isinstance(read.left, Tensor) and not read.equation.rebinds and not read.findings:
            form = _axes_of(read.left)
            if any(isinstance(x, Tensor) and x.name == read.left.name and _axes_of(x) != form for x in read.made_of):
                yield (read.left.name, *form)


# The common form of a tensor that the section never defines, where exactly one use departs from it. A use with more slots
# is correct: the others may leave some out.
def _find_common_forms(reads: list[Read]) -> dict[str, tuple[Tensor, Read]]:
    left = {read.left.name for read in reads if isinstance(read.left, Tensor) and read.right is not None}
    uses = defaultdict[str, dict[tuple[str, ...], list[tuple[Tensor, Read]]]](dict)
    for read in reads:
        for x in read.tensors:
            if not any(isinstance(slot, Number) for slot in x.slots):  # `W_{1f}` and `W_{2e}` may be two
                uses[x.name].setdefault(tuple(_axes_of(x)), []).append((x, read))
    common = dict[str, tuple[Tensor, Read]]()
    for name, forms in uses.items():
        if name not in left and len(forms) == 2:
            most, few = sorted(forms.values(), key=len, reverse=True)
            if len(few) == 1 and len(most[0][0].slots) >= len(few[0][0].slots):
                common[name] = most[0]
    return common


def _axes_of(tensor: Tensor) -> list[str]:
    return [axis_of(letter) for letter in slot_letters(tensor)]


def _check_uses(read: Read, defined: dict[str, Tensor], known: Context, other: set[tuple[str, ...]]) -> Iterator[Finding]:
    names = (known.declared if read.equation.rebinds else defined).keys() | known.declared.keys()
    uses = [
        x for x in read.tensors if x.name in defined and x is not defined[x.name] and (x is not read.left or x.name in names)
    ]
    changes = [_compare_axes(x, defined[x.name]) for x in uses]
    for x, (dropped, added) in zip(uses, changes, strict=True):
        definition, form = defined[x.name], (x.name, *_axes_of(x))
        if len(x.slots) != len(definition.slots):
            others = {i for y in read.tensors if y.name != x.name or read.equation.rebinds for i in _axes_of(y)}
            alone = sum(bool(added & more) for _, more in changes) == 1
            stated = x.name in known.declared and read.right is not None and x is not read.left
            is_error = (dropped & others and not added) or (added and not dropped and ((alone and added & others) or stated))
            if (
                is_error
                and len(_axes_of(x)) != len(_axes_of(definition))
                and form not in other
                and _is_slip(x, definition, known)
            ):
                yield _report_arity(x, definition, dropped, added)
            continue
        if not (dropped or added) and form not in other:
            other.add(form)
            yield from _check_order(x, definition, known)
        yield from _check_groups(x, definition, known)


# `a_i` beside `a_{ij}` may be a row, or the letter of the next example.
def _is_slip(x: Tensor, definition: Tensor, known: Context) -> bool:
    return x.name in known.declared or (
        min(len(x.slots), len(definition.slots)) > 1 and max(len(x.slots), len(definition.slots)) > 2
    )


def _compare_axes(x: Tensor, definition: Tensor) -> tuple[set[str], set[str]]:
    here, there = _axes_of(x), _axes_of(definition)
    return {i for i in there if here.count(i) < there.count(i)}, {i for i in here if there.count(i) < here.count(i)}


def _report_arity(x: Tensor, definition: Tensor, dropped: set[str], added: set[str]) -> Finding:
    named = ", ".join(f"`{axis}`" for axis in sorted(dropped or added))
    slots = f"it has {len(definition.slots)} slots, here are {len(x.slots)}"
    message = f"`{x.name}` lacks {named}, which is around it: {slots}" if dropped else f"`{x.name}` has no {named}: {slots}"
    return Finding(
        "E304", message, x.span, (_describe_definition(definition),), f"`{definition.name}_{{{_spell(definition.slots)}}}`"
    )


def _describe_definition(definition: Tensor) -> str:
    return f"defined as `{definition.name}_{{{_spell(definition.slots)}}}`"


def _spell(slots: Iterable[Expression]) -> str:
    return "".join(
        f"({_spell(slot.members)})" if isinstance(slot, Group) else slot.letter if isinstance(slot, Index) else "…"
        for slot in slots
    )


# A swap of letters is an error if their axes differ. A group may have any order.
def _check_order(x: Tensor, definition: Tensor, known: Context) -> Iterator[Finding]:
    grouped = "(" in x.span.text
    for slot, was in zip(x.slots, definition.slots, strict=True):
        if isinstance(slot, Index) and isinstance(was, Index) and not grouped:
            here, there = axis_of(slot.letter), axis_of(was.letter)
            if here != there and known.are_apart(here, there):
                message = f"this slot of `{x.name}` runs over `{there}`, not over `{here}`"
                yield Finding(
                    "E307", message, slot.span, (_describe_definition(definition),), f"`{was.letter}`, or a prime of it"
                )
                return


# A group has the size of its axis. `D` and `A H` may be equal. `D` and `A D` cannot be.
def _check_groups(x: Tensor, definition: Tensor, known: Context) -> Iterator[Finding]:
    legend = known.legend
    for slot, was in zip(x.slots, definition.slots, strict=True):
        if Group not in (type(slot), type(was)):
            continue
        size, other = legend.size(slot), legend.size(was)
        if size and other and _are_unequal(size, other):
            sizes = f"here it has {legend.spell(slot)}, there {legend.spell(was)}"
            message = f"this slot of `{x.name}` does not have the size of its definition"
            fix = "a group whose sizes multiply to that of the axis"
            letters = [axis_of(index.letter) for index in subexpressions(Group((slot, was))) if isinstance(index, Index)]
            yield Finding(
                "E308", message, slot.span, (f"{_describe_definition(definition)}: {sizes}", *known.sizes.facts(letters)), fix
            )


# One size is the other and more, or the other times letters that all stand above or all below a bar.
def _are_unequal(size: Polynomial, other: Polynomial) -> bool:
    more = {size.get(term, 0) - other.get(term, 0) for term in size.keys() | other.keys()} - {0}
    if more and (min(more) > 0 or max(more) < 0):
        return True
    if len(size) != 1 or len(other) != 1:
        return False
    (one, factor), (two, divisor) = next(iter(size.items())), next(iter(other.items()))
    powers = Counter(dict(one))
    powers.subtract(dict(two))
    left = {power > 0 for power in powers.values() if power}
    return len(left) == 1 and factor == divisor


# An index is summed, although the result is used together with it.
def _check_sums(read: Read, following: list[Read]) -> Iterator[Finding]:
    left = read.defines
    if left is None or read.right is None:
        return
    have = set(_axes_of(left))
    summed = {axis for x in read.made_of if isinstance(x, Tensor) for axis in _axes_of(x)} - have
    for later in following:
        if later.defines is not None and later.defines.name == left.name:
            return
        more = (x for x in later.tensors if x.name == left.name and len(x.slots) > len(left.slots) and x is not later.left)
        for x in more:  # an index inside a computed slot is no further one
            extra = set(_axes_of(x)) - have
            if extra and have <= set(_axes_of(x)) and extra <= summed:
                yield _report_sum(left, x, sorted(extra)[0], later)
                return


def _report_sum(left: Tensor, use: Tensor, letter: str, later: Read) -> Finding:
    line = later.place(use.span).line
    spelled = f"`{left.name}_{{{''.join(dict.fromkeys((*slot_letters(left), letter)))}}}`"
    message = f"`{letter}` is summed here, but line {line} reads `{left.name}` with it"
    return Finding("E311", message, left.span, (), f"{spelled} on the left")
