"""Reads the letters of equations by a legend: those of the legend are indices, all others are labels.

Nothing here guesses. A subscript that mixes letters of the legend with others is named as the reason why its equation is not
read. `propose` lists the letters that a legend would probably name; no equation is judged by it.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from einformer.errors import Span
from einformer.language.calls import axis_of
from einformer.language.parser import resolve
from einformer.language.tree import Apply, Expression, Group, Index, Name, Number, Power, Product, Quotient, Sum, Tensor
from einformer.language.walk import children, find_all, rebuild, subexpressions
from einformer.notes.documents.signs import DERIVATIVES, DERIVED, OF_AUTHOR
from einformer.notes.documents.subscripts import strip_mark
from einformer.notes.reading import DocumentEquation, is_respelled

_EXTREMES = ("min", "max")
NO_LEGEND = "no legend"
_CALLED = re.compile(r"\}[}' ]*\(")  # a bracket after a subscript
RAISED = "↑"  # ends the name of a tensor once for each of its upper indices: `g_{ij}` and `g^{ij}` are two tensors


@dataclass(frozen=True, slots=True)
class Letters:
    """The letters that are indices. A legend names all of them; sentences name some, and are silent about the others."""

    indices: frozenset[str]
    sizes: frozenset[str]
    complete: bool
    contracted: frozenset[str] = frozenset()  # those that some equation has above and below

    def understand(self, equation: DocumentEquation) -> list[Expression]:
        slots = {letter for x in equation.nodes() if isinstance(x, Tensor) for letter in slot_letters(x)}
        bound = {
            axis_of(index.letter)
            for x in equation.nodes()
            if isinstance(x, Apply)
            for index in x.indices
            if x.name not in _EXTREMES or index.letter in slots
        }
        letters = replace(self, indices=self.indices | bound) if self.complete else self
        sides = [letters.read(side.tree) for side in equation.sides if side.tree]
        called = _CALLED.search(equation.left.whole.text) is not None
        return drop_labels(sides, _find_functions(sides)) if called else sides

    def read(self, side: Expression) -> Expression:
        return resolve(self._read(side, below=False), set(self.indices))

    def _read(self, e: Expression, below: bool) -> Expression:
        match e:
            case Tensor() if self.is_label(e) or (below and self._is_size(e)):
                return Name(f"{e.name}{''.join(slot_letters(e))}", span=e.span)
            case Power(base=Tensor() | Name() as base) if upper := self._find_upper(e.exponent):
                return self._raise(base, upper, e.span)
            case Quotient():
                return Quotient(self._read(e.numerator, below), self._read(e.denominator, True), span=e.span)
            case Apply(name=name) if self.complete and name in _EXTREMES and not any(self.has(i.letter) for i in e.indices):
                function = replace(e, name=name + OF_AUTHOR, indices=()) if e.indices else e  # `\\min_{w}` over a number
                return rebuild(function, lambda child: self._read(child, below))
            case Apply(name="sqrt"):
                return rebuild(e, lambda child: self._read(child, True))
            case Tensor():
                return e
            case _:
                return rebuild(e, lambda child: self._read(child, below))

    # An index above and below is contracted: `\Gamma^i_{ij}` has one slot.
    def _raise(self, base: Tensor | Name, upper: tuple[Index, ...], span: Span) -> Expression:
        lower = base.slots if isinstance(base, Tensor) and not self.is_label(base) else ()
        both = {index.letter for index in upper} & {slot.letter for slot in lower if isinstance(slot, Index)}
        slots = tuple(slot for slot in (*upper, *lower) if not (isinstance(slot, Index) and slot.letter in both))
        name = f"{base.name}{'·' * bool(both)}{RAISED * len(upper)}"
        return Tensor(name, slots, span=span) if slots else Name(name, span=span)

    # `s'` and `\bar{s}` are indices if `s` is.
    def has(self, letter: str) -> bool:
        return strip_mark(axis_of(letter)) in self.indices

    def is_label(self, tensor: Tensor) -> bool:
        letters = slot_letters(tensor)
        return self.complete and bool(letters) and not any(map(self.has, letters))

    # `g^{zk}`, where the legend names `k` alone, and `F^{0k}`.
    def _is_mixed(self, power: Power) -> bool:
        exponent, upper = power.exponent, _list_upper(power.exponent)
        if isinstance(exponent, Product) and any(isinstance(x, Number) for x in exponent.factors):
            return any(
                self.has(x.name if isinstance(x, Name) else x.letter) for x in exponent.factors if isinstance(x, Name | Index)
            )
        return any(self.has(index.letter) for index in upper) and not all(self.has(index.letter) for index in upper)

    # `\sqrt{d_k}` has a size, whose name is the letter of an axis.
    def _is_size(self, tensor: Tensor) -> bool:
        return len(tensor.slots) == 1 and tensor.name in self.indices and not is_variable(tensor)

    def _find_upper(self, exponent: Expression) -> tuple[Index, ...]:
        upper = _list_upper(exponent)
        return upper if all(self.has(index.letter) for index in upper) else ()

    # An equation with a letter that is not in the legend is not judged.
    def find_unknown(self, *sides: Expression) -> str:
        tensors = [x for side in sides for x in find_all(Tensor, side)]
        strange = [(x, letter) for x in tensors for letter in slot_letters(x) if not self.has(letter)]
        words = ("".join(slot_letters(x)) for x, _ in strange)
        if word := next((word for word in words if len(word) > 2 and word.isascii() and word.isalpha()), ""):
            return f"`{word}`: a word, or indices?"  # `d_{model}`
        return f"`{strange[0][1]}` is not in the legend" if strange else ""

    # The reason is empty for an equation that is judged.
    def doubt(self, *sides: Expression) -> str:
        nodes = [x for side in sides for x in subexpressions(side)]
        if not any(isinstance(x, Tensor) for x in nodes):
            return "no indices"
        mixed = (x for x in nodes if isinstance(x, Power) and isinstance(x.base, Tensor | Name))
        if any(isinstance(x, Power) and _is_upper(x) for x in nodes) or any(map(self._is_mixed, mixed)):
            return "upper indices"
        if len(sides) > 1 and is_respelled(*sides):
            return "another form of the same indices"
        if above := next(_find_raised(nodes, self.contracted), ""):
            return f"`{above}` above: an index, or a label?"
        if word := next((x for x in _find_words(nodes, sides[0])), ""):
            return f"`{word}`: a word, or indices?"
        if root := next(_find_roots(nodes, sides), ""):
            return f"`{root}`: a size, or an index?"
        products = [x for x in nodes if isinstance(x, Product)]
        if called := next(_find_called(products), ""):
            return f"`{called}(…)` has no indices: a matrix?"
        matrix = next((name for name in _find_matrices(products) if name not in self.sizes), "")
        return f"`{matrix[0]}` has no indices: a matrix?" if matrix else ""


# Letters that something runs over, and those in the subscripts, of two letters or more, of two tensors.
def propose(equations: Iterable[DocumentEquation]) -> list[str]:
    names, bound = defaultdict[str, set[str]](set), dict[str, None]()
    for x in (x for equation in equations for x in equation.nodes()):
        bound |= {axis_of(index.letter): None for index in x.indices} if isinstance(x, Apply) else {}
        match x:
            case Tensor(name=name):
                letters = slot_letters(x)
            case Power(base=Tensor(name=name)):
                letters = tuple(index.letter for index in _list_upper(x.exponent))
            case _:
                continue
        for letter in letters if len(letters) > 1 else ():
            names[strip_mark(axis_of(letter))].add(name)
    return [letter for letter in names if len(names[letter]) > 1 or letter in bound]


# `\partial_i` is the operator of a derivative.
def is_derivative(tensor: Tensor) -> bool:
    return tensor.name.rstrip(RAISED) in DERIVATIVES


# `x_i` of `\partial y / \partial x_i` is a variable.
def is_variable(tensor: Tensor) -> bool:
    return tensor.span.source.text[: tensor.span.start].rstrip().endswith(DERIVED)


# Groups and arithmetic are opened, tensors in slots are not.
def slot_letters(tensor: Tensor) -> tuple[str, ...]:
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


def _list_upper(exponent: Expression) -> tuple[Index, ...]:
    parts = exponent.factors if isinstance(exponent, Product) else (exponent,)
    letters = [x.letter if isinstance(x, Index) else x.name if isinstance(x, Name) else "" for x in parts]
    upper = [Index(i, span=x.span) for i, x in zip(letters, parts, strict=True) if len(i.rstrip("'")) == 1 and i.islower()]
    return tuple(upper) if len(upper) == len(parts) else ()


# A letter alone above a tensor that stands nowhere else may be a label, `x_t = x_t^c`, and above a name a power, `z_i = a b^i`,
# where no letter stands above and below.
def _find_raised(nodes: list[Expression], contracted: frozenset[str]) -> Iterator[str]:
    tensors = [x for x in nodes if isinstance(x, Tensor)]
    count = Counter(letter for x in tensors for letter in slot_letters(x))
    computed = [x.exponent for x in nodes if isinstance(x, Power) and isinstance(x.exponent, Sum)]  # beside `A^{n - 1}`
    numbers = {x.name for x in find_all(Name, *computed)}.union(x.letter for x in find_all(Index, *computed))
    for x in tensors:
        letters = slot_letters(x)
        once = x.name.endswith(RAISED) and not x.name.endswith(RAISED * 2)
        powered = len(letters) == 1 and not contracted and not is_derivative(x)
        uncertain = (powered or count[letters[0]] == 1) and letters[0] not in contracted if letters else False
        if once and letters and (uncertain or letters[0] in numbers):
            yield letters[0]


# `f_a(x_j)`, where `a` stands on functions alone, is the name of one.
def _find_functions(sides: Sequence[Expression]) -> set[tuple[str, str]]:
    places = defaultdict[str, list[str]](list)
    for x, bound in (place for side in sides for place in list_open(side)):
        letters = slot_letters(x)
        called = len(letters) == 1 and x.span.source.text[x.span.end :].lstrip("}' ").startswith("(")
        for letter in (letter for letter in letters if letter not in bound):
            places[letter].append(x.name if called else "")
    return {(name, letter) for letter, names in places.items() if all(names) for name in names}


# The names with one letter below that stands on nothing else in two equations or more, as `V_c`.
def find_labelled(equations: Iterable[Sequence[Expression]]) -> set[tuple[str, str]]:
    alone, others = defaultdict[tuple[str, str], set[str]](set), set[tuple[str, str]]()
    for sides in equations:
        count = Counter(x.letter for side in sides for x in find_all(Index, side))
        for x, bound in (place for side in sides for place in list_open(side)):
            key = x.name, "".join(slot_letters(x))
            if len(key[1]) == 1 == count[key[1]] and key[1] not in bound and not is_derivative(x):
                alone[key].add(x.span.source.text)
            else:
                others.add(key)
    return {key for key, texts in alone.items() if len(texts) > 1 and key not in others}


def drop_labels(sides: list[Expression], labels: set[tuple[str, str]]) -> list[Expression]:
    return [_drop_labels(side, labels) for side in sides] if labels else sides


def _drop_labels(e: Expression, labels: set[tuple[str, str]]) -> Expression:
    if isinstance(e, Tensor) and (e.name, "".join(slot_letters(e))) in labels:
        return Name(f"{e.name}{''.join(slot_letters(e))}", span=e.span)
    return rebuild(e, lambda child: _drop_labels(child, labels))


# The tensors of e, each with the letters over which operators around it run.
def list_open(e: Expression, bound: frozenset[str] = frozenset()) -> Iterator[tuple[Tensor, frozenset[str]]]:
    if isinstance(e, Tensor):
        yield e, bound
    inside = bound.union(index.letter for index in e.indices) if isinstance(e, Apply) and e.indices else bound
    for child in children(e):
        yield from list_open(child, inside)


# The letters that a side has above on one tensor and below on another, where no written sum runs over them. An argument of a
# function is no factor beside it: `r^l \exp(-a_l)`.
def find_contracted(sides: Iterable[Expression]) -> set[str]:
    return {letter for side in sides if _is_raised(side) for letter in _find_contracted(side)}


def _is_raised(side: Expression) -> bool:
    return any(x.name.endswith(RAISED) for x in find_all(Tensor, side))


def _find_contracted(side: Expression) -> set[str]:
    above, below = set[str](), set[str]()
    functions = (x for x in subexpressions(side) if isinstance(x, Apply) and not x.indices and x is not side)
    apart = {id(x) for function in functions for x in find_all(Tensor, function)}
    for x, bound in ((x, bound) for x, bound in list_open(side) if id(x) not in apart):
        letters = slot_letters(x)
        upper = len(x.name) - len(x.name.rstrip(RAISED))
        above.update(letter for letter in letters[:upper] if letter not in bound)
        below.update(letter for letter in letters[upper:] if letter not in bound)
    return above & below


# A subscript that shares no letter with the rest of its equation may be a word: `T_{hop} = V / W_{link}`.
def _find_words(nodes: list[Expression], left: Expression) -> Iterator[str]:
    tensors = [(x, slot_letters(x)) for x in nodes if isinstance(x, Tensor)]
    count = Counter(letter for _, letters in tensors for letter in letters)
    count.update(x.letter for x in nodes if isinstance(x, Index))
    count.update(index.letter for x in nodes if isinstance(x, Apply) for index in x.indices)
    for x, letters in tensors:
        own = Counter(letters)
        if len(letters) > 1 and (len(tensors) > 1 or x is not left) and all(count[i] == 2 * own[i] for i in own):
            yield "".join(letters)


# A number of things below a root, `q_s k_s / \\sqrt{d_k}`, where `k` is not an index of the left side and nothing runs over it.
def _find_roots(nodes: list[Expression], sides: tuple[Expression, ...]) -> Iterator[str]:
    ours = {index.letter for x in find_all(Tensor, sides[0]) for index in find_all(Index, x)}
    bound = {index.letter for x in nodes if isinstance(x, Apply) for index in x.indices}
    for x in (x for side in sides[1:] for x in _list_below(side)):
        letters = slot_letters(x)
        if len(letters) == 1 and len(x.name) == 1 and x.name.islower() and letters[0] not in ours | bound:
            yield f"{x.name}_{letters[0]}"


# The tensors below a root below a bar, and those with a negative power.
def _list_below(e: Expression, below: bool = False) -> Iterator[Tensor]:
    match e:
        case Quotient():
            yield from (*_list_below(e.numerator, below), *_list_below(e.denominator, True))
        case Apply(name="sqrt", arguments=(Tensor() as x,)) if below:
            yield x
        case Power(base=Tensor() as x, exponent=exponent) if not isinstance(exponent, Number):
            yield from (x for _ in range(not any(isinstance(y, Tensor | Name | Index) for y in subexpressions(exponent))))
        case Tensor():
            pass
        case _:
            yield from (x for child in children(e) for x in _list_below(child, below))


# Letters above anything but a name are no slots: `(A B)^{ij}`.
def _is_upper(power: Power) -> bool:
    letters = [*find_all(Index, power.exponent)]
    return not isinstance(power.exponent, Tensor) and len(letters) > 1


def _find_matrices(products: Sequence[Product]) -> Iterator[str]:
    for x in products:
        matrices = [f.name for f in x.factors if isinstance(f, Name) and f.name[0].isupper() and f.name.isascii()]
        tensors = (y for factor in x.factors for y in subexpressions(factor)) if matrices else ()
        if any(isinstance(y, Tensor) and not is_derivative(y) for y in tensors):
            yield from matrices


# `R(s - s')` may be a matrix that depends on a number.
def _find_called(products: Sequence[Product]) -> Iterator[str]:
    for name, following in (pair for x in products for pair in itertools.pairwise(x.factors)):
        if isinstance(name, Name) and name.name[0].isupper():
            text = name.span.source.text[name.span.end :].lstrip("} ")
            if text.startswith("(") and not any(find_all(Tensor, following)):
                yield name.name
