"""Linear arithmetic over index numbers: cases of inequalities, and a proof that no numbers satisfy one.

A condition on positions becomes `Cases`: a set of conjunctions (a disjunctive normal form) of inequalities between polynomials
in indices, sizes and numbers of the legend. `Facts.refutes` shows by Fourier-Motzkin elimination that a conjunction has no
solution. It is sound: what it refutes holds for no numbers. It is incomplete: what it does not refute may hold for none either.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal, NamedTuple

from einformer.errors import EinformerError
from einformer.language.calls import axis_of
from einformer.language.primitives import NUMERIC
from einformer.language.sizes import Legend, Value
from einformer.language.tree import Apply, Expression, Index, Name, Number, Power, Product, Quotient, Sum, Tensor

MOST_CASES = 64  # more conjunctions are joined into what all of them say
MOST_INEQUALITIES = 400  # of one elimination; beyond these nothing is refuted
MOST_WORK = 60_000  # inequalities in all eliminations for one model; after these nothing is refuted
MOST_TURNS = 4096  # numbers of an index that are tried one by one


class Atom(NamedTuple):
    """A term that arithmetic does not look into.

    An *index*; a *size* or scalar of the legend; a *table*, a scalar with indices; a *function* of numbers, such as `floor`; an
    element of *data*, a tensor computed from weights or inputs.
    """

    kind: Literal["index", "size", "table", "function", "data"]
    name: str
    arguments: tuple[Linear, ...] = ()


Monomial = frozenset[tuple[Atom, int]]
Factor = int | Fraction  # a whole number is an int, which is faster
ONE: Monomial = frozenset()
INFINITE = Atom("size", "inf")


@dataclass(frozen=True, slots=True)
class Linear:
    """A sum of monomials in atoms, each with a factor."""

    terms: frozenset[tuple[Monomial, Factor]]
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash(self.terms))

    def __hash__(self) -> int:
        return self._hash

    @classmethod
    def of(cls, factors: Mapping[Monomial, Factor]) -> Linear:
        return cls(frozenset([(monomial, _factor(factor)) for monomial, factor in factors.items() if factor]))

    @classmethod
    @functools.lru_cache(maxsize=4096)
    def number(cls, value: Value) -> Linear:
        """A number; infinity is an atom."""
        if math.isinf(value):
            return cls.atom(INFINITE) * (1 if value > 0 else -1)
        return cls.of({ONE: Fraction(value)})

    @classmethod
    @functools.lru_cache(maxsize=4096)
    def atom(cls, atom: Atom) -> Linear:
        return cls.of({frozenset(((atom, 1),)): 1})

    @classmethod
    def index(cls, letter: str) -> Linear:
        return cls.atom(Atom("index", letter))

    def __add__(self, other: Linear) -> Linear:
        factors = dict(self.terms)
        for monomial, factor in other.terms:
            factors[monomial] = factors.get(monomial, 0) + factor
        return Linear.of(factors)

    def __sub__(self, other: Linear) -> Linear:
        factors = dict(self.terms)
        for monomial, factor in other.terms:
            factors[monomial] = factors.get(monomial, 0) - factor
        return Linear.of(factors)

    def __mul__(self, other: Linear | Factor) -> Linear:
        if not isinstance(other, Linear):
            return Linear.of({monomial: factor * other for monomial, factor in self.terms})
        total: dict[Monomial, Factor] = {}
        for (left, a), (right, b) in itertools.product(self.terms, other.terms):
            joined = _join(left, right)
            total[joined] = total.get(joined, 0) + a * b
        return Linear.of(total)

    @property
    def value(self) -> Factor | None:
        """The number, where there is no atom."""
        if not self.terms:
            return 0
        (monomial, factor), *more = self.terms
        return factor if monomial == ONE and not more else None

    def atoms(self) -> Iterator[Atom]:
        for monomial, _ in self.terms:
            for atom, _ in monomial:
                yield atom
                for argument in atom.arguments:
                    yield from argument.atoms()

    def letters(self) -> frozenset[str]:
        return _letters(self)

    def at(self, numbers: Mapping[str, Linear]) -> Linear:
        return self if self.letters().isdisjoint(numbers) else _Replaced(numbers).value(self)

    def mapped(self, f: Callable[[Atom], Linear]) -> Linear:
        """The same with a value for each atom."""
        total: dict[Monomial, Factor] = {}
        for monomial, factor in self.terms:
            values = [_power(f(atom), power) for atom, power in monomial] or [Linear.number(1)]
            for own, other in functools.reduce(Linear.__mul__, values).terms:
                total[own] = total.get(own, 0) + factor * other
        return Linear.of(total)


@functools.lru_cache(maxsize=4096)
def atoms_in(linear: Linear) -> int:
    """How many atoms stand in it, those inside others too."""
    return sum(1 + sum(map(atoms_in, atom.arguments)) for monomial, _ in linear.terms for atom, _ in monomial)


@functools.lru_cache(maxsize=4096)
def _letters(linear: Linear) -> frozenset[str]:
    atoms = [atom for monomial, _ in linear.terms for atom, _ in monomial]
    inner = (argument.letters() for atom in atoms for argument in atom.arguments)
    return frozenset([atom.name for atom in atoms if atom.kind == "index"]).union(*inner)


@dataclass(frozen=True, slots=True)
class _Replaced:
    """Puts numbers for letters, and does so once for a part that stands many times in a formula."""

    numbers: Mapping[str, Linear]
    values: dict[Linear, Linear] = field(default_factory=dict)

    def value(self, linear: Linear) -> Linear:
        if linear.letters().isdisjoint(self.numbers):
            return linear
        if linear not in self.values:
            self.values[linear] = linear.mapped(self.atom)
        return self.values[linear]

    def atom(self, atom: Atom) -> Linear:
        if atom.kind == "index":
            return self.numbers.get(atom.name) or Linear.atom(atom)
        return simplified(atom, tuple([self.value(argument) for argument in atom.arguments]))


def _factor(value: Factor) -> Factor:
    return value if isinstance(value, int) or value.denominator != 1 else value.numerator


def simplified(atom: Atom, arguments: tuple[Linear, ...]) -> Linear:
    """An atom with these arguments, or the number that it is: a floor of a number."""
    value = arguments[0].value if atom.name == "floor" else None
    return Linear.atom(atom._replace(arguments=arguments)) if value is None else Linear.number(math.floor(value))


def _join(left: Monomial, right: Monomial) -> Monomial:
    if not left or not right:
        return left or right
    powers = dict(left)
    for atom, power in right:
        powers[atom] = powers.get(atom, 0) + power
    return frozenset((atom, power) for atom, power in powers.items() if power)


def _power(base: Linear, power: int) -> Linear:
    if power == 1:
        return base
    if power > 0:
        return functools.reduce(Linear.__mul__, itertools.repeat(base, power))
    value = base.value
    if value:
        return Linear.number(Fraction(value) ** power)
    if len(base.terms) == 1:
        ((monomial, factor),) = base.terms
        return Linear.of({frozenset((atom, own * power) for atom, own in monomial): Fraction(factor) ** power})
    return Linear.atom(Atom("function", "/", (base,)))


def written(linear: Linear) -> Expression:
    """A number as an expression of the language, `2 s' - 1`."""
    terms = []
    for monomial, factor in sorted(linear.terms, key=lambda term: (not term[0], term[1] < 0, repr(term[0]))):
        powers = [Power(_written(atom), Number(power)) if power != 1 else _written(atom) for atom, power in monomial]
        factors = [*([] if factor.numerator == 1 and powers else [Number(factor.numerator)]), *powers]
        product = Product(tuple(factors)) if len(factors) > 1 else factors[0]
        terms.append(product if factor.denominator == 1 else Quotient(product, Number(factor.denominator)))
    return Sum(tuple(terms)) if len(terms) > 1 else terms[0] if terms else Number(0)


def _written(atom: Atom) -> Expression:
    arguments = tuple(map(written, atom.arguments))
    match atom.kind, atom.name:
        case "function", "^":
            return Power(*arguments)
        case "function", "/":
            return Quotient(Number(1), *arguments)
        case "function", name:
            return Apply(name, (), arguments)
        case "table", name:
            return Tensor(name, arguments)
        case "index", name:
            return Index(name)
        case "size", "inf":
            return Number(math.inf)
        case "data", name:
            own = name.lstrip("?").partition("~")[0].rpartition(".")[2]
            return Name("a computed position" if own.isdigit() or not own else own)
        case _:
            return Name(atom.name)


# ------------------------------------------------------------------------------------------------------------- cases


class Inequality(NamedTuple):
    """`linear >= 0`, or `> 0`."""

    linear: Linear
    strict: bool = False

    def factor(self, monomial: Monomial) -> Factor:
        for own, factor in self.linear.terms:
            if own == monomial:
                return factor
        return 0

    def at(self, numbers: Mapping[str, Linear]) -> Inequality:
        linear = self.linear.at(numbers)
        return self if linear is self.linear else Inequality(linear, self.strict)


Conjunction = frozenset[Inequality]
Cases = frozenset[Conjunction]
ALWAYS: Cases = frozenset((frozenset(),))
NEVER: Cases = frozenset()


def either(*cases: Cases) -> Cases:
    """Where one of these holds."""
    if ALWAYS in cases:
        return ALWAYS
    return _simple(frozenset().union(*cases))


def both(*cases: Cases) -> Cases:
    """Where all of these hold."""
    joined = ALWAYS
    for some in cases:
        if joined == ALWAYS or some == ALWAYS:
            joined = some if joined == ALWAYS else joined
        else:
            joined = _simple(frozenset(left | right for left in joined for right in some))
    return joined


def _simple(cases: Cases) -> Cases:
    """The cases that no other includes; too many become one, with the facts common to all."""
    if len(cases) > 1:
        cases = frozenset(case for case in cases if not any(other < case for other in cases))
    return cases if len(cases) <= MOST_CASES else frozenset((frozenset.intersection(*cases),))


def cases_at(cases: Cases, numbers: Mapping[str, Linear]) -> Cases:
    """The same with numbers for letters."""
    if not numbers or cases in (ALWAYS, NEVER):
        return cases
    return frozenset([frozenset([inequality.at(numbers) for inequality in case]) for case in cases])


def letters_of(cases: Cases) -> set[str]:
    """The letters of all indices in cases."""
    return {letter for case in cases for inequality in case for letter in inequality.linear.letters()}


def only(cases: Cases, keeps: Callable[[Inequality], bool]) -> Cases:
    """What some of the inequalities say: a weaker claim."""
    return cases if cases in (ALWAYS, NEVER) else either(frozenset(frozenset(filter(keeps, case)) for case in cases))


def without_some(cases: Cases) -> Cases:
    """The cases without their bounds on some number of an index: a weaker claim, and a shorter one."""
    return only(cases, lambda inequality: not any("~" in letter for letter in inequality.linear.letters()))


def settled(cases: Cases) -> Cases:
    """The cases without what they say of some number of a letter, where this holds of the number of that letter itself."""
    return either(frozenset(map(_settle, cases))) if any("~" in letter for letter in letters_of(cases)) else cases


def _settle(case: Conjunction) -> Conjunction:
    for letter in sorted({x for i in case for x in i.linear.letters() if "~" in x}):
        own = {i for i in case if letter in i.linear.letters()}
        if {i.at({letter: Linear.index(plain(letter))}) for i in own} <= case - own:
            case -= own
    return case


@functools.lru_cache(maxsize=4096)
def data_of(inequality: Inequality) -> frozenset[Atom]:
    """The elements of data in an inequality."""
    return frozenset(atom for atom in inequality.linear.atoms() if atom.kind == "data")


def data_in(cases: Iterable[Conjunction]) -> set[Atom]:
    """The elements of data in cases."""
    return {atom for case in cases for inequality in case for atom in data_of(inequality)}


def of_data(case: Conjunction) -> bool:
    """Do data decide whether a case holds?"""
    return any(map(data_of, case))


def map_data(cases: Cases, change: Callable[[Atom], Atom]) -> Cases:
    """The cases with other elements of data."""

    def atom_of(atom: Atom) -> Linear:
        new = change(atom) if atom.kind == "data" else atom
        return Linear.atom(new._replace(arguments=tuple(argument.mapped(atom_of) for argument in new.arguments)))

    if not any(map(of_data, cases)):
        return cases
    return frozenset(frozenset(i._replace(linear=i.linear.mapped(atom_of)) for i in case) for case in cases)


def compare(name: str, left: Linear, right: Linear) -> Cases:
    """A comparison of two numbers."""
    difference = right - left
    match name:
        case "<" | "<=":
            return frozenset((frozenset((Inequality(difference, name == "<"),)),))
        case ">" | ">=":
            return compare("<" if name == ">" else "<=", right, left)
        case "==":
            return both(compare("<=", left, right), compare("<=", right, left))
        case _:
            return either(compare("<", left, right), compare("<", right, left))


def negated(inequality: Inequality) -> Inequality:
    """Where it does not hold."""
    return Inequality(inequality.linear * -1, not inequality.strict)


_FUNCTIONS: Mapping[str, Callable[..., Any]] = {**NUMERIC, "^": math.pow, "/": lambda x: 1 / x}


def evaluate(linear: Linear, numbers: Mapping[str, Any], legend: Legend | None = None) -> tuple[Any, int]:
    """A number at these numbers of letters, times a number that makes its factors whole, and that: so that floors are exact.

    The numbers may be arrays of NumPy. Raises KeyError where something else decides.
    """
    whole, total = math.lcm(*[factor.denominator for _, factor in linear.terms]), 0
    for monomial, factor in linear.terms:
        term: Any = int(factor * whole)
        for atom, power in monomial:
            term = term * (numbers[atom.name] if atom.kind == "index" else _evaluate_atom(atom, numbers, legend)) ** power
        total = total + term
    return total, whole


def _evaluate_atom(atom: Atom, numbers: Mapping[str, Any], legend: Legend | None) -> Any:
    if atom == INFINITE:
        return math.inf
    values = [evaluate(argument, numbers, legend) for argument in atom.arguments]
    if atom.name == "floor":
        ((value, whole),) = values
        return value // whole

    def compute(*arguments: float) -> float:
        if atom.kind == "table" and legend is not None:
            return float(legend.element(legend.scalars[atom.name], [*map(int, arguments)]))
        try:
            return float(_FUNCTIONS[atom.name](*arguments))
        except (ValueError, OverflowError, ZeroDivisionError, TypeError):
            return math.nan  # in another case than that for which it is written

    quotients = [value / whole for value, whole in values]
    if all(isinstance(quotient, int | float) for quotient in quotients):
        return compute(*quotients)
    import numpy as np

    with np.errstate(invalid="ignore"):
        return np.vectorize(compute, otypes=[float])(*quotients)


# ------------------------------------------------------------------------------------------------------------- facts


@dataclass(slots=True)
class Facts:
    """The facts of the legend about atoms: bound numbers, the lengths of axes. Positions of `time` have no last one.

    With `letters`, sizes and scalars stay letters, for bounds that are formulas.
    """

    legend: Legend
    time: str
    letters: bool = False
    known: dict[Conjunction, bool] = field(default_factory=dict)
    values: dict[Inequality, Inequality] = field(default_factory=dict)
    lengths: dict[str, Linear | None] = field(default_factory=dict)
    bound: dict[str, Value | None] = field(default_factory=dict)
    made: Iterator[int] = field(default_factory=itertools.count)
    work: int = 0
    sizes: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self.sizes = self.legend.letters

    def fresh(self, letter: str) -> str:
        """A letter over the same axis for some number of it."""
        return f"{plain(letter)}~{next(self.made)}"

    def refutes(self, case: Conjunction, about: Inequality | None = None) -> bool:
        """Does no choice of whole index numbers satisfy the case, and an inequality that it is to be `about`?"""
        if about is not None:
            case = connected(case, about)
        if case not in self.known:
            self.known[case] = all(not self.solvable(inequalities) for inequalities in self.resolve(case))
        return self.known[case]

    def holding(self, cases: Cases) -> Cases:
        return frozenset(case for case in cases if not self.refutes(case))

    def upper(self, linear: Linear, case: Conjunction) -> Iterator[tuple[list[Linear], list[Inequality]]]:
        """Numbers of the legend that `linear` does not exceed where the case holds, none where it has no bound.

        Yields once for each number of the tables in the case, nothing where these leave the case no solution; with what must
        hold of sizes that are open for there to be one.
        """
        aim = Linear.atom(AIM)
        equal = (Inequality(linear - aim), Inequality(aim - linear))
        for inequalities in self.resolve(case.union(equal)):
            if self.solvable(inequalities):
                remaining = self.eliminate(inequalities, lambda monomial: monomial != _AIM and not self.named(monomial))
                bounds = [_bound(inequality) for inequality in remaining if inequality.factor(_AIM) < 0]
                yield bounds, [inequality for inequality in remaining if not inequality.factor(_AIM)]

    def named(self, monomial: Monomial) -> bool:
        return all(atom.kind in ("size", "table") for atom, _ in monomial)

    # ---------------------------------------------------------------------------------------------------- numbers

    def resolve(self, case: Conjunction) -> Iterator[list[Inequality]]:
        """The case and the facts about its atoms, with the numbers of the legend; once for each number of a table."""
        seen = set()
        for turn in self.turns(case):
            numbered = frozenset(map(self.numbered, (inequality.at(turn) for inequality in case)))
            if NOWHERE not in numbered and numbered not in seen:
                seen.add(numbered)
                yield self.closed(numbered - {EVERYWHERE})

    def turns(self, case: Conjunction) -> Iterator[dict[str, Linear]]:
        """Each choice of numbers for the letters of the lists in a case; one number of those at which all lists are alike."""
        atoms = {atom for inequality in case for atom in inequality.linear.atoms() if atom.kind == "table"}
        lists: dict[str, list[tuple[Number, ...]]] = {}
        for atom in atoms if not self.letters else ():
            values = self.legend.scalars[atom.name].value
            if isinstance(values, tuple) and len(letters := atom.arguments[0].letters()) == 1:
                lists.setdefault(next(iter(letters)), []).append(values)
        shifted = {x for atom in atoms for x in atom.arguments[0].letters() if atom.arguments[0] != Linear.index(x)}
        shifted |= {letter for inequality in case for letter in _outside_tables(inequality.linear)}
        numbers = {letter: _kinds(columns, letter not in shifted) for letter, columns in lists.items()}
        if math.prod(map(len, numbers.values())) > MOST_TURNS:
            numbers = {}
        for chosen in itertools.product(*numbers.values()):
            yield {letter: Linear.number(number) for letter, number in zip(numbers, chosen, strict=True)}

    def numbered(self, inequality: Inequality) -> Inequality:
        """With the numbers of the legend; a comparison with infinity always holds, or never."""
        if inequality not in self.values:
            self.values[inequality] = self.with_numbers(inequality)
        return self.values[inequality]

    def with_numbers(self, inequality: Inequality) -> Inequality:
        linear = inequality.linear if self.letters else inequality.linear.mapped(self.number)
        infinite = {factor > 0 for monomial, factor in linear.terms if (INFINITE, 1) in monomial}
        if not infinite:
            return Inequality(linear, inequality.strict)
        alone = all(len(monomial) == 1 for monomial, _ in linear.terms if (INFINITE, 1) in monomial)
        return NOWHERE if infinite == {False} and alone else EVERYWHERE  # infinity less infinity says nothing

    def number(self, atom: Atom) -> Linear:
        """An atom as the number that it is bound to, if it is."""
        if atom.kind == "size" and atom != INFINITE and (value := self.value(atom.name)) is not None:
            return Linear.number(value)
        try:
            if atom.kind == "table":
                places = [argument.mapped(self.number).value for argument in atom.arguments]
                if None not in places:
                    return Linear.number(self.legend.element(self.legend.scalars[atom.name], [int(p or 0) for p in places]))
        except (EinformerError, ValueError, OverflowError):
            pass
        return simplified(atom, tuple([argument.mapped(self.number) for argument in atom.arguments]))

    def value(self, name: str) -> Value | None:
        if name not in self.bound:
            try:
                self.bound[name] = self.legend.number(Name(name))
            except (EinformerError, ValueError, OverflowError):
                self.bound[name] = None
        return self.bound[name]

    # -------------------------------------------------------------------------------------------- what is known

    def closed(self, inequalities: Iterable[Inequality]) -> list[Inequality]:
        """These and the facts about the atoms in them."""
        closed = dict.fromkeys(map(_whole_powers, inequalities))
        closed |= dict.fromkeys(_times_divisors(map(self.tighten, list(closed))))
        atoms = dict.fromkeys(atom for inequality in closed for atom in inequality.linear.atoms())
        for atom in atoms:  # an atom inside another brings its own
            closed |= dict.fromkeys(map(_whole_powers, self.known_of(atom)))
        for monomial in {monomial for inequality in closed for monomial, _ in inequality.linear.terms}:
            if len(monomial) > 1 and all(self.natural(atom) and power > 0 for atom, power in monomial):
                closed[Inequality(Linear.of({monomial: 1}))] = None
        return [self.tighten(inequality) for inequality in closed]

    def known_of(self, atom: Atom) -> Iterator[Inequality]:
        value = Linear.atom(atom)
        if self.natural(atom):
            yield Inequality(value - Linear.number(int(atom.kind == "size")))
        if atom.kind == "index" and (length := self.length(atom.name)) is not None:
            yield Inequality(length - value - Linear.number(1))
        if atom.kind == "function" and atom.name == "floor":
            yield Inequality(atom.arguments[0] - value)
            yield Inequality(value - atom.arguments[0] + Linear.number(1), strict=True)
        if atom.kind == "function" and atom.name in ("sqrt", "exp"):
            yield Inequality(value, strict=atom.name == "exp" or self.positive(atom.arguments[0]))
        if atom.kind == "function" and atom.name == "^" and self.positive(atom.arguments[0]):
            yield Inequality(value, strict=True)

    def length(self, letter: str) -> Linear | None:
        """The size of the axis of an index; positions have none."""
        letter = plain(letter)
        if letter not in self.lengths:
            self.lengths[letter] = self.length_of(letter)
        return self.lengths[letter]

    def length_of(self, letter: str) -> Linear | None:
        axis = self.legend.axis(letter)
        if axis is None or axis_of(letter) == self.time:
            return None
        try:
            return Linear.number(self.legend.length(letter))
        except EinformerError:
            return Linear.atom(Atom("size", axis.size.name)) if isinstance(axis.size, Name) else None

    def natural(self, atom: Atom) -> bool:
        """Is it 0, 1, 2, …?"""
        if atom.name == "floor":
            argument = atom.arguments[0].terms
            return all(factor > 0 and all(self.natural(inner) for inner, _ in monomial) for monomial, factor in argument)
        return atom.kind == "index" or (atom.kind == "size" and atom.name in self.sizes)

    def positive(self, linear: Linear) -> bool:
        """Is it a sum of sizes, indices and positive numbers, not of indices alone?"""
        parts = [(factor, [*monomial]) for monomial, factor in linear.terms]
        sure = [all(atom.kind == "size" for atom, _ in atoms) for _, atoms in parts]
        known = all(self.natural(atom) and (power > 0 or atom.kind == "size") for _, atoms in parts for atom, power in atoms)
        return known and any(sure) and all(factor > 0 for factor, _ in parts)

    def whole(self, monomial: Monomial) -> bool:
        return all(
            power > 0 and (self.natural(atom) or atom.name == "floor" or atom == AIM or self.counts(atom))
            for atom, power in monomial
        )

    def counts(self, atom: Atom) -> bool:
        """Is it a scalar or a table of whole numbers or infinity?"""
        scalar = self.legend.scalars.get(atom.name) if atom.kind in ("size", "table") else None
        if scalar is None:
            return False
        try:
            bound = atom.name in self.legend.values
            values = (Name(atom.name),) if bound else branches(scalar.value)
            return all(_is_whole(self.legend.number(value)) for value in values)
        except (EinformerError, ValueError, OverflowError):
            return False

    def tighten(self, inequality: Inequality) -> Inequality:
        """With the smallest whole factors; between whole numbers `> 0` is `>= 1`, and `2 n >= 1` is `n >= 1`."""
        terms = dict(inequality.linear.terms)
        if not terms.keys() - {ONE} or not all(map(self.whole, terms)):
            return inequality
        scale = math.lcm(*[factor.denominator for factor in terms.values()])
        factors = {monomial: int(factor * scale) for monomial, factor in terms.items()}
        constant = factors.pop(ONE, 0) - inequality.strict
        divisor = math.gcd(*factors.values())
        whole = {monomial: factor // divisor for monomial, factor in factors.items()}
        return Inequality(Linear.of({**whole, ONE: constant // divisor}))

    def solvable(self, inequalities: list[Inequality]) -> bool:
        """May real numbers satisfy all of these?"""
        return all(
            value > 0 or (value == 0 and not inequality.strict)
            for inequality in self.eliminate(inequalities, lambda monomial: True)
            if (value := inequality.linear.value) is not None
        )

    def eliminate(self, inequalities: list[Inequality], which: Callable[[Monomial], bool]) -> list[Inequality]:
        """The consequences for the other monomials (Fourier-Motzkin elimination)."""
        remaining = list(dict.fromkeys(inequalities))
        while True:
            signs = Counter((m, factor > 0) for inequality in remaining for m, factor in inequality.linear.terms)
            work = {m: signs[m, True] * signs[m, False] for m, _ in signs if m != ONE and which(m)}
            if not work:
                return remaining
            monomial = min(work, key=lambda m: (work[m], _order(m)))
            self.work += work[monomial] + len(remaining)
            if work[monomial] + len(remaining) > MOST_INEQUALITIES or self.work > MOST_WORK:
                return []
            above = [inequality for inequality in remaining if inequality.factor(monomial) > 0]
            below = [inequality for inequality in remaining if inequality.factor(monomial) < 0]
            rest = [inequality for inequality in remaining if not inequality.factor(monomial)]
            sums = (self.tighten(_sum(a, b, monomial)) for a in above for b in below)
            remaining = list(dict.fromkeys((*rest, *sums)))


def _outside_tables(linear: Linear) -> Iterator[str]:
    """The letters of indices that stand elsewhere than in a table."""
    for atom in (atom for monomial, _ in linear.terms for atom, _ in monomial if atom.kind != "table"):
        if atom.kind == "index":
            yield atom.name
        for argument in atom.arguments:
            yield from _outside_tables(argument)


def _kinds(lists: list[tuple[Number, ...]], alike: bool) -> list[int]:
    """All places in some lists; or the first of those where each has the same number."""
    places = range(min(map(len, lists)))
    first = {tuple(values[place].value for values in lists): place for place in reversed(places)}
    return sorted(first.values()) if alike else list(places)


def branches(value: Expression | tuple[Number, ...]) -> tuple[Expression, ...]:
    """The numbers between which a scalar chooses."""
    match value:
        case tuple():
            return value
        case Apply("where", (), (_, then, otherwise)):
            return (*branches(then), *branches(otherwise))
        case _:
            return (value,)


def _is_whole(value: Value) -> bool:
    return value == math.inf or value == int(value)


def plain(letter: str) -> str:
    """The letter of the text from which a letter for some one number, `s'~3`, was made."""
    return letter.partition("~")[0]


EVERYWHERE, NOWHERE = Inequality(Linear.number(0)), Inequality(Linear.number(-1))
AIM = Atom("data", "~")
_AIM: Monomial = frozenset(((AIM, 1),))


def connected(case: Conjunction, about: Inequality) -> Conjunction:
    """The inequalities of a case that speak of the same indices and data as one, directly or through others; and that one."""
    return find_reached(case, _variables(about)) | {about}


def find_reached(case: Conjunction, variables: Iterable[Atom]) -> Conjunction:
    """The inequalities of a case that speak of some indices and data, directly or through others."""
    reached, inside = set(variables), frozenset[Inequality]()
    while more := frozenset(i for i in case - inside if not reached.isdisjoint(_variables(i))):
        inside |= more
        reached.update(*map(_variables, more))
    return inside


@functools.lru_cache(maxsize=4096)
def _variables(inequality: Inequality) -> frozenset[Atom]:
    return frozenset(atom for atom in inequality.linear.atoms() if atom.kind in ("index", "data", "table"))


def _whole_powers(inequality: Inequality) -> Inequality:
    """Multiplied by the sizes that divide in it."""
    while divisors := _divisors(inequality.linear):
        for divisor in divisors:
            inequality = Inequality(inequality.linear * Linear.atom(divisor), inequality.strict)
    return inequality


def _times_divisors(inequalities: Iterable[Inequality]) -> Iterator[Inequality]:
    """Inequalities between floors once more, times each size that divides in them: of `floor(s / C)` one knows C times that."""
    floors = [i for i in inequalities if any(atom.name == "floor" for m, _ in i.linear.terms for atom, _ in m)]
    inside = {
        atom for i in floors for m, _ in i.linear.terms for floor, _ in m for u in floor.arguments for atom in _divisors(u)
    }
    for inequality, divisor in itertools.product(floors, inside):
        if all(atom.name == "floor" for monomial, _ in inequality.linear.terms for atom, _ in monomial):
            yield Inequality(inequality.linear * Linear.atom(divisor), inequality.strict)


def _divisors(linear: Linear) -> set[Atom]:
    return {atom for m, _ in linear.terms for atom, power in m if power < 0 and atom.kind in ("size", "index")}


@functools.lru_cache(maxsize=4096)
def _order(monomial: Monomial) -> list[tuple[str, int]]:
    return sorted((atom.name, power) for atom, power in monomial)


def _sum(left: Inequality, right: Inequality, monomial: Monomial) -> Inequality:
    linear = left.linear * -right.factor(monomial) + right.linear * left.factor(monomial)
    return Inequality(linear, left.strict or right.strict)


def _bound(inequality: Inequality) -> Linear:
    """`b` where this says `AIM <= b`."""
    factor = inequality.factor(_AIM)
    return inequality.linear * Fraction(-1, factor) + Linear.atom(AIM)
