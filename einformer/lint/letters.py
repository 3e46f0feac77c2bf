"""Separates indices from labels. A letter is an index only if the document shows it.

A letter is an index if the legend says so, if an operator or a sum runs over it, or if it stands in the subscripts, of two
letters or more, of two different tensors. Any other subscript is a label, as the k of `d_k`.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from einformer.language.calls import axis_of
from einformer.language.latex_reader import GREEK
from einformer.language.parser import resolve
from einformer.language.scope import factors_of
from einformer.language.tree import Apply, Expression, Group, Index, Name, Power, Product, Quotient, Sum, Tensor
from einformer.language.walk import rebuild, subexpressions
from einformer.lint.notes.signs import ACCENTS, BOLD, LABELS, OF_AUTHOR
from einformer.lint.notes.slots import strip_mark
from einformer.lint.reading import Equation, is_respelled

_BOLD = re.compile(rf".(?:{'|'.join(ACCENTS)})?(?:{'|'.join(BOLD)})")


@dataclass(frozen=True, slots=True)
class Letters:
    """The letters of indices, and the names that always have the same single subscript: `d_k`, `γ_d`."""

    indices: frozenset[str]
    alone: frozenset[str]  # those that are indices also where they are the only letter of a subscript
    constant: frozenset[str]
    sizes: frozenset[str]

    @classmethod
    def of(cls, equations: Iterable[Equation], legend: Iterable[str], sizes: Iterable[str] = ()) -> Letters:
        """Collects the evidence of a document."""
        names, subscripts = defaultdict[str, set[str]](set), defaultdict[str, set[tuple[str, ...]]](set)
        indices = set(legend)
        for x in (x for equation in equations for x in equation.nodes()):
            if isinstance(x, Apply):
                indices |= {axis_of(index.letter) for index in x.indices}
            if isinstance(x, Tensor):
                letters = slot_letters(x)
                subscripts[x.name].add(letters)
                for letter in letters if len(letters) > 1 else ():
                    names[axis_of(letter)].add(x.name)
        indices |= {letter for letter, having in names.items() if len(having) > 1}
        indices |= {letter for letter in names if strip_mark(letter) in indices}
        constant = {name for name, scripts in subscripts.items() if len(scripts) == 1 and len(next(iter(scripts))) == 1}
        return cls(
            frozenset(indices), frozenset(names) & indices, frozenset(constant), frozenset(sizes) | {i.upper() for i in indices}
        )

    def within(self, section: Iterable[Equation], stated: Iterable[str]) -> Letters:
        """Collects the evidence of a section. A lone letter is an index only if the section has it elsewhere too."""
        here = Letters.of(section, stated)
        return replace(self, alone=here.indices | here.alone)

    def understand(self, equation: Equation) -> list[Expression]:
        """Returns the sides of an equation, with labels as names and bare letters as indices."""
        nodes = tuple(equation.nodes())
        pairs = {(x.name, axis_of(letter)) for x in nodes if isinstance(x, Tensor) for letter in slot_letters(x)}
        having = Counter(axis for _, axis in pairs)
        bound = {axis_of(index.letter) for x in nodes if isinstance(x, Apply) for index in x.indices}
        together = {axis for axis, count in having.items() if count > 1} & self.indices
        constant = frozenset(name for name, axis in pairs if name in self.constant and axis not in bound)
        labels = _Labels(self.alone | together, constant, _find_strangers(nodes, equation.left.tree))
        sides = [(side.tree, side.nodes) for side in equation.sides if side.tree is not None]
        bare = self.indices | {axis_of(i) for x in nodes if isinstance(x, Tensor) and len(x.slots) > 1 for i in slot_letters(x)}
        return [self._understand_side(tree, nodes, labels, set(bare)) for tree, nodes in sides]

    def _understand_side(self, tree: Expression, nodes: Iterable[Expression], labels: _Labels, bare: set[str]) -> Expression:
        if labels.strangers or any(isinstance(x, Tensor) and len(x.slots) == 1 for x in nodes):
            tree = labels.without(tree, below=False)
        return resolve(tree, bare) if any(isinstance(x, Name) for x in nodes) else tree

    # ------------------------------------------------------------------------------------------------- index notation

    def doubt(self, *sides: Expression) -> str:
        """Returns the reason why an equation is not in index notation, or an empty string."""
        nodes = [x for side in sides for x in subexpressions(side)]
        if not any(isinstance(x, Tensor) for x in nodes):
            return "no indices"
        if unknown := self.unknown(*sides):
            return f"`{unknown}` is on one tensor only: an index, or a label?"
        if greek := next((i for x in nodes if isinstance(x, Tensor) for i in slot_letters(x) if _is_label(i, nodes)), ""):
            return f"`{greek}` is an index here, and a label there"
        if any(_multiplies_bold(x) for x in nodes):
            return "vectors and matrices in bold"
        if named := next((name for x in nodes for name in _name_factors(x)), ""):
            return f"`{named}`: an index, or the tensor beside it?"
        if word := next((x.name[1:] for x in nodes if isinstance(x, Name) and self._is_either(x.name[1:])), ""):
            return f"`{word}`: a word, or indices?"
        if any(isinstance(x, Power) and _is_upper(x) for x in nodes):
            return "upper indices"
        if len(sides) > 1 and is_respelled(*sides):
            return "another form of the same indices"
        if called := next((name for side in sides for name in _find_called(side)), ""):
            return f"`{called}(…)` has no indices: a matrix?"
        matrices = [name for side in sides for name in _find_matrices(side) if name not in self.sizes]
        return f"`{matrices[0]}` has no indices: a matrix?" if matrices else ""

    def unknown(self, *sides: Expression) -> str:
        """Returns a letter that nothing shows to be an index, or an empty string. A letter on both sides may be either."""
        named = [{axis_of(x.letter if isinstance(x, Index) else x.name) for x in nodes} for nodes in map(_letters_of, sides)]
        known = self.indices | (frozenset.intersection(*map(frozenset, named)) if len(sides) > 1 else frozenset())
        tensors = (x for side in sides for x in subexpressions(side) if isinstance(x, Tensor))
        return next((i for x in tensors for i in slot_letters(x) if axis_of(i) not in known), "")

    def _is_either(self, label: str) -> bool:
        return label in LABELS and self.indices.issuperset(label)


@dataclass(frozen=True, slots=True)
class _Labels:
    """Which letters are indices in one equation also where they stand alone, and which names only have one subscript."""

    alone: frozenset[str]
    constant: frozenset[str]
    strangers: frozenset[Tensor]

    def without(self, e: Expression, below: bool) -> Expression:
        """Returns e with labels as names. `below` a root or a fraction bar, `sqrt(d_k)` has a label."""
        match e:
            case Tensor() if self.is_label(e, below):
                return Name(f"{e.name}{''.join(slot_letters(e))}", span=e.span)
            case Quotient():
                return Quotient(self.without(e.numerator, below), self.without(e.denominator, True), span=e.span)
            case Apply(name="sqrt"):
                return rebuild(e, lambda child: self.without(child, True))
            case Tensor():
                return e
            case _:
                return rebuild(e, lambda child: self.without(child, below))

    def is_label(self, tensor: Tensor, below: bool) -> bool:
        """Is the only letter of a subscript no index here?"""
        letters = slot_letters(tensor)
        if tensor in self.strangers:
            return True
        alone = len(tensor.slots) == 1 and len(letters) == 1 and isinstance(tensor.slots[0], Index)
        return alone and (axis_of(letters[0]) not in self.alone or (below and tensor.name in self.constant))


def slot_letters(tensor: Tensor) -> tuple[str, ...]:
    """Returns the letters in the slots of a tensor. Groups and arithmetic are opened, tensors in slots are not."""
    letters = list[str]()
    for slot in tensor.slots:  # one of few places where an equation is gone through many times
        letters += (slot.letter,) if isinstance(slot, Index) else (x.letter for x in _own_letters(slot))
    return tuple(letters)


def _own_letters(slot: Expression) -> Iterator[Index]:
    if isinstance(slot, Index):
        yield slot
    elif isinstance(slot, Name) and slot.name[0].islower():
        yield Index(slot.name, span=slot.span)
    elif isinstance(slot, Group | Sum | Product):
        for x in subexpressions(slot):
            if x is not slot and isinstance(x, Index | Name):
                yield from _own_letters(x)


# A tensor that shares no letter with the rest of its equation, as the words in `T_{hop} = V / W_{link}`.
def _find_strangers(nodes: tuple[Expression, ...], left: Expression | None) -> frozenset[Tensor]:
    tensors = {x: Counter(slot_letters(x)) for x in nodes if isinstance(x, Tensor)}
    calls = [x for x in nodes if isinstance(x, Apply)]
    if any(call.name.endswith(OF_AUTHOR) for call in calls):  # its indices may belong to an omitted factor
        return frozenset()
    found = Counter(x.letter if isinstance(x, Index) else x.name for x in nodes if isinstance(x, Index | Name))
    found.update(index.letter for call in calls for index in call.indices)
    words = {x for x, own in tensors.items() if len(own) > 1 and all(found[i] == count for i, count in own.items())}
    return frozenset(words if len(tensors) > 1 else words - {left})


# The slots of a tensor may name another factor: `W_{xh} x_t`.
def _name_factors(e: Expression) -> Iterator[str]:
    factors = factors_of(e) if isinstance(e, Product | Quotient) else ()
    for one, other in itertools.permutations((f for f in factors if isinstance(f, Tensor)), 2):
        letters = slot_letters(one)
        if len(letters) > 1 and other.name in letters and not {*letters} & {*slot_letters(other)}:
            yield other.name


def _letters_of(side: Expression) -> Iterator[Index | Name]:
    return (x for x in subexpressions(side) if isinstance(x, Index | Name))


# A Greek index may be the label of a name elsewhere: `x_\nu`.
def _is_label(letter: str, found: Iterable[Expression]) -> bool:
    command = GREEK.get(letter.rstrip("'"), "")
    names = (x.name for x in found if isinstance(x, Tensor | Name))
    return bool(command) and any(name.endswith(command) and len(name) > len(command) for name in names)


# `W_h x_t` in bold is a matrix and a vector for each index.
def _multiplies_bold(e: Expression) -> bool:
    slots = [
        min((len(x.slots) for x in subexpressions(factor) if isinstance(x, Tensor) and _BOLD.match(x.name)), default=0)
        for factor in (factors_of(e) if isinstance(e, Product | Quotient) else ())
    ]
    return sum(map(bool, slots)) > 1 and 1 in slots


# Letters above a tensor are indices: `T_j^{ik}`, `q_s^a`.
def _is_upper(power: Power) -> bool:
    if isinstance(power.exponent, Tensor):
        return False
    letters = [x for x in subexpressions(power.exponent) if isinstance(x, Index)]
    return len(letters) > 1 or (bool(letters) and isinstance(power.base, Tensor) and isinstance(power.exponent, Index))


def _find_matrices(e: Expression) -> Iterator[str]:
    for x in subexpressions(e):
        if isinstance(x, Product) and any(isinstance(y, Tensor) for factor in x.factors for y in subexpressions(factor)):
            yield from (f.name for f in x.factors if isinstance(f, Name) and f.name[0].isupper() and f.name.isascii())


# `R(s - s')` may be a matrix that depends on a number.
def _find_called(e: Expression) -> Iterator[str]:
    for x in subexpressions(e):
        factors = x.factors if isinstance(x, Product) else ()
        for name, following in itertools.pairwise(factors):
            text = name.span.source.text[name.span.end :].lstrip("} ")
            inside = any(isinstance(y, Tensor) for y in subexpressions(following))
            if isinstance(name, Name) and name.name[0].isupper() and text.startswith("(") and not inside:
                yield name.name
