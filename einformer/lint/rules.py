"""Do the equations of a section agree: is each tensor used as it was defined, and nothing summed that is needed later?

What is reported is wrong whatever the author left unsaid. A tensor that lacks an index everywhere, since the author
"drops the batch index", is no finding; one that lacks it where its neighbours have it is.
"""

from __future__ import annotations

import functools
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from einformer.errors import Finding, Span
from einformer.lint.balance import REMARKS, axes_told, balance, is_left
from einformer.lint.legend import Sizes
from einformer.lint.letters import slot_letters
from einformer.lint.notes.signs import BOLD, LETTERED
from einformer.lint.reading import Equation
from einformer.notation.calls import axis_of
from einformer.notation.sizes import Legend, Polynomial
from einformer.notation.tree import Apply, Expression, Group, Index, Number, Sum, Tensor
from einformer.notation.walk import subexpressions

_FONT = re.compile(rf"`([^\W\d_])(?:{'|'.join(sorted({*LETTERED, *BOLD}))})")  # the names `Amathcal` and `A` are two


@dataclass
class Read:
    """An equation that is read: its sides as trees, and what was found in it."""

    equation: Equation
    left: Expression
    right: Expression | None
    findings: list[Finding] = field(default_factory=list)

    @functools.cached_property
    def defines(self) -> Tensor | None:
        """The tensor that it defines."""
        made = any(isinstance(x, Tensor | Apply) for x in self.made_of)
        if not made or self.equation.rebinds or not isinstance(self.left, Tensor) or not is_left(self.left):
            return None
        own = (x for x in self.made_of if isinstance(x, Tensor) and x.name == self.left.name)
        return None if any(not _earlier(x) for x in own) else self.left  # `A_c = sum_l A_cl` says A in two ways

    @functools.cached_property
    def made_of(self) -> tuple[Expression, ...]:
        """The right side and everything in it."""
        return tuple(subexpressions(self.right)) if self.right is not None else ()

    @functools.cached_property
    def tensors(self) -> tuple[Tensor, ...]:
        """Every tensor of both sides."""
        return tuple(x for x in (*subexpressions(self.left), *self.made_of) if isinstance(x, Tensor))

    def place(self, span: Span) -> Span:
        """Where in the file a place of its trees stands."""
        return self.equation.left.place(span)


def _earlier(x: Tensor) -> bool:
    """Is this a read at another position, as in a recurrence?"""
    return any(isinstance(slot, Sum) for slot in x.slots)


@dataclass(frozen=True, slots=True)
class Context:
    """What is known of a section: sizes, also as the checker takes them, the tensors whose shapes it states, the names
    that only have one subscript, the letters that are fixed ("for each layer $l$").

    `primed`: indices have primes, so that the letter of one is that of its axis. `causal`: the text says it of its model.
    """

    sizes: Sizes
    legend: Legend
    declared: dict[str, Tensor]
    constant: frozenset[str]
    fixed: frozenset[str]
    primed: bool
    causal: bool

    def are_apart(self, one: str, other: str) -> bool:
        """Are two letters said to run over axes of different sizes?"""
        sizes = [self.sizes.known[axis].size for axis in (one, other) if axis in self.sizes.known]
        return len(sizes) == 2 and sizes[0] != sizes[1]


def check_section(reads: list[Read], known: Context) -> None:
    """Adds the findings of a section to its equations."""
    for read in reads:
        if read.right is not None:
            fixed = {x.slots[0].span for x in read.tensors if len(x.slots) == 1 and x.name in known.constant}  # `W_l`
            found = balance(read.left, read.right, known.legend)
            read.findings += (
                finding
                for finding in found
                if finding.code != "E301" or not (finding.span in fixed or axes_told([finding]) & known.fixed)
            )
    for number, read in enumerate(reads):
        read.findings += _needed_later(read, reads[number + 1 :])
    makers = _definitions(reads)
    defined = {name: tensor for name, (tensor, _) in makers.items()} | known.declared
    orders = set[tuple[str, ...]]()  # the first use with its letters in another order stands for all of them
    for read in reads:
        told = axes_told(read.findings)
        for finding in _uses(read, defined, known, orders):
            if not axes_told([finding]) & told:
                read.findings.append(finding)
    for read in reads:
        read.findings += _mask(read, reads) if known.causal else ()
        read.findings += _normalised(read, reads)
        read.findings = [_with_facts(finding, known.sizes, makers) for finding in _once(read.findings)]


def _once(findings: Iterable[Finding]) -> Iterator[Finding]:
    seen = set[tuple[str, str]]()
    for finding in findings:
        if finding.code not in REMARKS and (finding.code, finding.message) not in seen:
            seen.add((finding.code, finding.message))
            yield finding


def _with_facts(finding: Finding, sizes: Sizes, makers: dict[str, tuple[Tensor, Read]]) -> Finding:
    """The finding with the line of the definition that it is about, and what is known of its letters."""
    own = tuple(fact for fact in finding.facts if fact.startswith("defined as"))
    made = [maker.place(tensor.span).line for name, (tensor, maker) in makers.items() if own and f"`{name}_" in own[0]]
    line = f" (line {made[0]})" if made else ""
    return replace(finding, facts=tuple(fact + line for fact in own) + sizes.facts(sorted(axes_told([finding]))))


def located(read: Read, finding: Finding) -> Finding:
    """The finding at its place in the file, with the letters as they are printed."""
    facts = tuple(_FONT.sub(r"`\1", fact) for fact in finding.facts)
    message, fix = _FONT.sub(r"`\1", finding.message), _FONT.sub(r"`\1", finding.fix)
    return replace(finding, message=message, span=read.place(finding.span), facts=facts, fix=fix)


# ------------------------------------------------------------------------------------------------------- definitions


def _definitions(reads: list[Read]) -> dict[str, tuple[Tensor, Read]]:
    """What a section defines in one way, by an equation with nothing wrong in it, and by which."""
    found = defaultdict[str, list[tuple[Tensor, Read]]](list)
    for read in reads:
        if read.defines is not None and not read.findings:
            found[read.defines.name].append((read.defines, read))
    return {name: each[0] for name, each in found.items() if len({tuple(_axes(tensor)) for tensor, _ in each}) == 1}


def _axes(tensor: Tensor) -> list[str]:
    return [axis_of(letter) for letter in slot_letters(tensor)]


def _uses(read: Read, defined: dict[str, Tensor], known: Context, orders: set[tuple[str, ...]]) -> Iterator[Finding]:
    """Each use of a tensor that its section defines has its slots."""
    names = (known.declared if read.equation.rebinds else defined).keys() | known.declared.keys()
    uses = [
        x for x in read.tensors if x.name in defined and x is not defined[x.name] and (x is not read.left or x.name in names)
    ]
    changes = [_change(x, defined[x.name]) for x in uses]
    for x, (dropped, added) in zip(uses, changes, strict=True):
        definition = defined[x.name]
        if len(x.slots) != len(definition.slots):
            others = {axis for y in read.tensors if y.name != x.name for axis in _axes(y)}
            alone = sum(bool(added & other) for _, other in changes) == 1
            told = (dropped & others and not added) or (added & others and alone and not dropped)
            if told and len(_axes(x)) != len(_axes(definition)) and _is_slip(x, definition, known):
                yield _arity(x, definition, dropped, added)
            continue
        if not (dropped or added) and (x.name, *_axes(x)) not in orders:
            orders.add((x.name, *_axes(x)))
            yield from _order(x, definition, known)
        yield from _fits(x, definition, known.legend)


def _is_slip(x: Tensor, definition: Tensor, known: Context) -> bool:
    """Not so `a_i` beside `a_{ij}`: a row to many, and the letter of the next example to others."""
    return x.name in known.declared or (
        min(len(x.slots), len(definition.slots)) > 1 and max(len(x.slots), len(definition.slots)) > 2
    )


def _change(x: Tensor, definition: Tensor) -> tuple[set[str], set[str]]:
    """The axes that a use lacks, and those that it has beyond its definition."""
    here, there = _axes(x), _axes(definition)
    return {i for i in there if here.count(i) < there.count(i)}, {i for i in here if there.count(i) < here.count(i)}


def _arity(x: Tensor, definition: Tensor, dropped: set[str], added: set[str]) -> Finding:
    named = ", ".join(f"`{axis}`" for axis in sorted(dropped or added))
    slots = f"it has {len(definition.slots)} slots, here are {len(x.slots)}"
    message = f"`{x.name}` lacks {named}, which is around it: {slots}" if dropped else f"`{x.name}` has no {named}: {slots}"
    return Finding("E304", message, x.span, (_defined(definition),), f"`{definition.name}_{{{_spelled(definition.slots)}}}`")


def _defined(definition: Tensor) -> str:
    """How a tensor is defined; the line is added where the place in the file is known."""
    return f"defined as `{definition.name}_{{{_spelled(definition.slots)}}}`"


def _spelled(slots: Iterable[Expression]) -> str:
    return "".join(
        f"({_spelled(slot.members)})" if isinstance(slot, Group) else slot.letter if isinstance(slot, Index) else "…"
        for slot in slots
    )


def _order(x: Tensor, definition: Tensor, known: Context) -> Iterator[Finding]:
    """Letters in another order, over axes that are not the same: nobody means that. A group orders as it likes."""
    grouped = "(" in x.span.source.text[x.span.start : x.span.end]
    for slot, was in zip(x.slots, definition.slots, strict=True):
        if isinstance(slot, Index) and isinstance(was, Index) and not grouped:
            here, there = axis_of(slot.letter), axis_of(was.letter)
            if here != there and (known.are_apart(here, there) or (known.primed and len(x.slots) > 2)):
                message = f"this slot of `{x.name}` runs over `{there}`, not over `{here}`"
                yield Finding("E307", message, slot.span, (_defined(definition),), f"`{was.letter}`, or a prime of it")
                return


def _fits(x: Tensor, definition: Tensor, legend: Legend) -> Iterator[Finding]:
    """A group has the size of its axis. `D` and `A H` may be equal for all that is said; `D` and `A D` are not."""
    for slot, was in zip(x.slots, definition.slots, strict=True):
        size, other = legend.size(slot), legend.size(was)
        if Group in (type(slot), type(was)) and size and other and _is_multiple(size, other):
            sizes = f"here it has {legend.spelled(slot)}, there {legend.spelled(was)}"
            message = f"this slot of `{x.name}` does not have the size of its definition"
            fix = "a group whose sizes multiply to that of the axis"
            yield Finding("E308", message, slot.span, (f"{_defined(definition)}: {sizes}",), fix)


def _is_multiple(size: Polynomial, other: Polynomial) -> bool:
    """Is the one size the other times letters, all above or all below a bar?"""
    if len(size) != 1 or len(other) != 1:
        return False
    (one, factor), (two, divisor) = next(iter(size.items())), next(iter(other.items()))
    powers = Counter(dict(one))
    powers.subtract(dict(two))
    left = {power > 0 for power in powers.values() if power}
    return len(left) == 1 and factor == divisor


def _needed_later(read: Read, following: list[Read]) -> Iterator[Finding]:
    """An index that an equation sums although what it defines is used with it."""
    left = read.defines
    if left is None or read.right is None:
        return
    have = set(_axes(left))
    summed = {axis for x in read.made_of if isinstance(x, Tensor) for axis in _axes(x)} - have
    for later in following:
        if later.defines is not None and later.defines.name == left.name:
            return
        for x in later.tensors:
            extra = set(_axes(x)) - have
            more = len(x.slots) > len(left.slots)  # an index inside a computed slot is no further one
            if x.name == left.name and more and extra and have <= set(_axes(x)) and extra <= summed and x is not later.left:
                yield _summed(left, x, sorted(extra)[0], later)
                return


def _summed(left: Tensor, use: Tensor, letter: str, later: Read) -> Finding:
    line = later.place(use.span).line
    spelled = f"`{left.name}_{{{''.join(dict.fromkeys((*slot_letters(left), letter)))}}}`"
    message = f"`{letter}` is summed here, but line {line} reads `{left.name}` with it"
    return Finding("E311", message, left.span, (), f"{spelled} on the left")


# ------------------------------------------------------------------------------------------------------------- masks


def _mask(read: Read, reads: list[Read]) -> Iterator[Finding]:
    """A causal mask lets a position see those up to its own: 0 where s' <= s, -inf where s' > s."""
    if not (isinstance(read.left, Tensor) and isinstance(read.right, Apply) and read.right.name == "where"):
        return
    condition, then, otherwise = read.right.arguments
    if not isinstance(condition, Apply) or condition.name not in ("<", "<=", ">", ">=") or not _is_mask(then, otherwise):
        return
    first, second = condition.arguments
    key = _key(read.left, reads)
    if not (isinstance(first, Index) and isinstance(second, Index) and key in (first.letter, second.letter)):
        return
    key_is_less = (condition.name in ("<", "<=")) == (first.letter == key)
    if axis_of(first.letter) == axis_of(second.letter) and key_is_less != (_number(then) == 0):
        query = second.letter if first.letter == key else first.letter
        message = f"the mask lets `{query}` see the positions `{key}` after it, and hides those before"
        yield Finding("E501", message, condition.span, (), f"0 where `{key} <= {query}`, -inf where `{key} > {query}`")


def _is_mask(then: Expression, otherwise: Expression) -> bool:
    return {_number(then), _number(otherwise)} == {0, float("-inf")}


def _number(e: Expression) -> float | None:
    return e.value if isinstance(e, Number) else None


def _key(mask: Tensor, reads: list[Read]) -> str | None:
    """The index that a softmax around the mask runs over; without one, the only primed index of the mask."""
    for read in reads:
        for x in read.made_of:
            if (
                isinstance(x, Apply)
                and x.name == "Sm"
                and x.indices
                and mask.name in {y.name for y in subexpressions(x) if isinstance(y, Tensor)}
            ):
                return x.indices[0].letter
    primed = [letter for letter in slot_letters(mask) if letter.endswith("'")]
    return primed[0] if len(primed) == 1 and len(mask.slots) == 2 else None


def _normalised(read: Read, reads: list[Read]) -> Iterator[Finding]:
    """Weights that a softmax normalises over one index are summed over that one, not over its twin."""
    operators = [x for x in read.made_of if isinstance(x, Apply) and x.name == "Sm"]
    if read.defines is None or len(operators) != 1 or len(operators[0].indices) != 1:
        return
    over, letters = operators[0].indices[0], slot_letters(read.defines)
    twins = [letter for letter in letters if axis_of(letter) == axis_of(over.letter) and letter != over.letter]
    if over.letter not in letters or len(twins) != 1:
        return
    for later in reads:
        for x in later.tensors:
            if x.name == read.defines.name and x is not read.left and _sums(later, x, letters, twins[0], over.letter):
                message = f"`Sm` is over `{over.letter}`, but its weights are summed over `{twins[0]}`"
                yield Finding("E312", message, over.span, (), f"`Sm_{twins[0]}`")
                return


def _sums(later: Read, use: Tensor, letters: tuple[str, ...], twin: str, over: str) -> bool:
    """Does the equation sum the slot of `twin`, and keep that of the index that was normalised?"""
    left = slot_letters(later.left) if isinstance(later.left, Tensor) else ()
    here = dict(zip(letters, slot_letters(use), strict=False))
    alike = [axis_of(letter) for letter in letters] == _axes(use)
    return alike and bool(left) and here.get(over) in left and here.get(twin) not in left
