r"""Judges the equations of a section as lines of a layer, by the checker that judges models.

Each equation becomes a line whose names are defined: by other lines, by shapes that the text states, by the form that all other
uses have. What notes leave unsaid is made explicit first: a function of the author has whatever indices are wanted around it,
a bare letter that nothing carries is a number, an index that an equation drops everywhere goes along.
"""

from __future__ import annotations

import functools
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeGuard

from einformer.errors import NOWHERE, EinformerError, Finding, Span
from einformer.language import calls
from einformer.language.body import Definition, check_line, find_repeated
from einformer.language.calls import axis_of
from einformer.language.primitives import primitive
from einformer.language.scope import Scope, factors_of
from einformer.language.tree import (
    Apply,
    Equation,
    Expression,
    Group,
    Index,
    Name,
    Number,
    Power,
    Product,
    Quotient,
    Sum,
    Tensor,
)
from einformer.language.walk import children, find_all, letters_in, open_groups, rebuild, slots_of, subexpressions
from einformer.notes.documents.signs import ACCENTS, BOLD, DERIVATIVES, LETTERED, OF_AUTHOR, OF_COMMA, TIED
from einformer.notes.documents.subscripts import find_ambiguous
from einformer.notes.legend import Stated, find_counted
from einformer.notes.letters import RAISED, is_derivative, is_variable, slot_letters
from einformer.notes.reading import DocumentEquation

_MARKS = "|".join(sorted({*ACCENTS, *LETTERED, *BOLD, *DERIVATIVES, OF_COMMA}, key=len, reverse=True))  # parts of names
_COMMAND = re.compile(rf"\\[A-Za-z]+|{_MARKS}")
_LABEL = re.compile(r"\^\s*\{?\s*\(\s*([a-z])'*\s*\)")
_OF_SLOTS = ("E304", "E307", "E308")
_REMARKS = ("E303", "E310", "E407")  # two readings, a slot that may be broken, a formula of logic: no errors in a note
_BETWEEN = r"(?:[\s$,;{}()\"]|\\[()]|\\q?quad|\\text)*"
_CONDITION = re.compile(  # the text after `… = 0`: `$ for all $s' > s$`
    rf"{_BETWEEN}(?:for|if|when|whenever|where)\b(?:\s+all|\s+every)?{_BETWEEN}"
    r"(?P<first>[a-z]'*)\s*(?P<sign><|>|≤|≥|\\(?:leq?|geq?|lt|gt)\b)=?\s*(?P<second>[a-z]'*)(?![\w'])"
)
_LESS = ("<", "≤", "\\le", "\\leq", "\\lt")
_COORDINATES = frozenset("tnrxyzθφ")  # of `\partial_t`, where no other tensor has the letter
Letters = frozenset[str]
_Defined = Mapping[str, Definition]


@dataclass
class JudgedLine:
    """An equation with its sides as trees, a single side without a right one, and its findings."""

    written: DocumentEquation
    left: Expression
    right: Expression | None
    findings: list[Finding] = field(default_factory=list)

    @functools.cached_property
    def tensors(self) -> tuple[Tensor, ...]:
        return tuple(x for x in (*subexpressions(self.left), *self.inside) if isinstance(x, Tensor))

    # Nodes of the right side are among them.
    @functools.cached_property
    def inside(self) -> tuple[Expression, ...]:
        return () if self.right is None else tuple(subexpressions(self.right))

    # `A_c = sum_l A_cl` says A in two ways, and defines nothing.
    @functools.cached_property
    def defines(self) -> Tensor | None:
        computed = any(isinstance(x, Tensor | Apply) for x in self.inside)
        if not (computed and not self.written.rebinds and isinstance(self.left, Tensor) and is_left(self.left)):
            return None
        again = (x for x in self.inside if isinstance(x, Tensor) and x.name == self.left.name)
        return self.left if all(any(isinstance(slot, Sum) for slot in x.slots) for x in again) else None

    # Indices of the left side that the right one lacks, and those that stand alone on the right.
    @functools.cached_property
    def unbalanced(self) -> Letters:
        left, right = ({index.letter for index in find_all(Index, side)} for side in (self.left, self.right or self.left))
        return frozenset((left - right) | (find_free(self.right or self.left) - left))

    # The span is in a tree, and the place in the file.
    def place(self, span: Span) -> Span:
        return self.written.left.place(span)


@dataclass(frozen=True, slots=True)
class SectionContext:
    """The facts of a section: its legend, tensors with a stated shape, letters that are fixed ("for each layer $l$").

    `causal`: the text calls its model causal. `covariant`: an index above is summed with one below.
    """

    legend: Stated
    declared: Mapping[str, Tensor]
    fixed: Letters
    causal: bool
    covariant: bool = False
    uses: Counter[tuple[str, int]] = field(default_factory=Counter)  # of each tensor in the document, by its number of slots
    carried: Mapping[str, set[str]] = field(default_factory=dict)  # the axes that each tensor has somewhere


def judge_section(lines: Sequence[JudgedLine], known: SectionContext) -> None:
    carried = defaultdict[str, set[str]](set)
    for x in (x for line in lines for x in line.tensors):
        carried[x.name].update(axes_of(x))
    known = replace(known, carried=carried)
    forms, reported = _Forms(lines, known), set[tuple[str, str, Span]]()
    for line in lines:
        line.findings += (
            _judge_line(line, line.right, forms, known) if line.right is not None else find_empty_sums(line.left, carried)
        )
        line.findings += _judge_masks(line, lines) if known.causal else ()
    definitions = {id(line.defines): line for line in lines if line.defines is not None and line.right is not None}
    equations = [Equation(x.defines, "=", x.right, span=x.defines.span) for x in definitions.values() if x.defines and x.right]
    for tensor, finding in _find_misweighed(equations, known.legend):
        definitions[id(tensor)].findings.append(finding)
    for line in lines:  # a side may stand in several equations, `y = … = …`
        keys = [(f.code, f.message, NOWHERE if f.code in ("E307", "E308") else line.place(f.span)) for f in line.findings]
        line.findings = [f for f, key in zip(line.findings, keys, strict=True) if key not in reported]
        reported |= set(keys)


# ------------------------------------------------------------------------------------------------------------ a line


def _judge_line(line: JudgedLine, right: Expression, forms: _Forms, known: SectionContext) -> Iterator[Finding]:
    known = replace(known, fixed=known.fixed | find_counted(line.written.formula.latex.text))
    left, defined, seen = _drop_label(line.left), forms.define(line), set[tuple[str, str]]()
    judge = _judge_definition if is_left(left) else _judge_equality
    findings = judge(line, left, right, defined, known)
    repeated = [*_find_repeated(line, left, right, forms, known), *(_find_uneven(left, right) if known.covariant else ())]
    covariant = known.covariant and any(x.name.endswith(RAISED) for x in line.tensors)  # nothing is said of some elements

    def is_meant() -> bool:
        is_statement = _is_statement(left, right) and not covariant and not forms.lacks_indices(left, right)
        return is_statement or _is_renamed(left, right) or _has_elements(left, right)

    if findings and (repeated or is_meant()):  # one slip, one message
        findings = [finding for finding in findings if finding.code in _OF_SLOTS]
    for finding in (*repeated, *findings):
        if finding.code not in _REMARKS and (finding.code, finding.message) not in seen:
            seen.add((finding.code, finding.message))
            yield finding


# `\bar{y}_i^w = …` defines a tensor with a label, which the legend does not have.
def _drop_label(left: Expression) -> Expression:
    if isinstance(left, Power) and isinstance(left.base, Tensor) and isinstance(left.exponent, Name):
        return Tensor(f"{left.base.name}^", left.base.slots, span=left.span)
    return left


# `\partial L / \partial W_{ij} = …` is said for each `i` and `j`.
def _is_derivative(left: Expression) -> bool:
    parts = left.factors if isinstance(left, Product) else (left,)
    scalars = all(isinstance(x, Apply) and x.name.endswith(OF_AUTHOR) for x in parts[1:])
    return isinstance(parts[0], Quotient) and scalars and any(is_variable(x) for x in find_all(Tensor, left))


# A letter twice on a tensor of three slots or more, or on one that is multiplied by another with the letter. If the other side
# has the letter too, a diagonal is meant, and if both sides have the same letters without it, a trace: `S_k = T_{iik}`.
def _find_repeated(
    line: JudgedLine, left: Expression, right: Expression, forms: _Forms, known: SectionContext
) -> Iterator[Finding]:
    if not any(map(_is_doubled, line.tensors)):
        return
    traced = _find_traced(line, left, right)
    if isinstance(right, Tensor) and _is_trace(right, find_free(left), forms.find(right.name, line)[0], known.legend):
        return
    bound = known.fixed.union(i.letter for e in (left, right) for x in find_all(Apply, e) for i in x.indices)
    for side, other in ((left, right), (right, left)):
        kept = {index.letter for index in find_all(Index, other)}
        thrice = {id(x) for x in _find_thrice(side, bound)} if find_free(other) else set[int]()
        wide = (x for x in _list_outer(side) if len(x.slots) > 2 or id(x) in thrice)
        for x in (x for x in wide if not x.name.rstrip("'").endswith(OF_COMMA)):
            slots = [slot for slot in open_groups(x.slots) if not (isinstance(slot, Index) and slot.letter in kept)]
            slots = [slot for slot in slots if not (isinstance(slot, Index) and slot.letter in traced)]
            yield from find_repeated(slots, Stated({}, {}))


# The letters that stand once are the wanted ones, and no definition has others of another size where one stands twice.
def _is_trace(e: Tensor, wanted: Letters, defined: Tensor | None, legend: Stated) -> bool:
    letters, own = slot_letters(e), slot_letters(defined) if defined is not None else ()
    pairs = ((own[k], own[n]) for n in range(len(own)) for k in range(n) if letters[k : k + 1] == letters[n : n + 1])
    return {i for i in letters if letters.count(i) == 1} == wanted and not any(legend.are_apart(*pair) for pair in pairs)


# A factor with a letter twice, beside a factor that has it once: `y_j = A_{ii} B_{ij}`.
# An unwritten sum joins two places, not three.
def _find_thrice(e: Expression, bound: Letters) -> Iterator[Tensor]:
    for product in (x for x in subexpressions(e) if isinstance(x, Product)):
        letters = [Counter(slot_letters(x)) if isinstance(x, Tensor) else Counter[str]() for x in product.factors]
        once = {i for count in letters for i, times in count.items() if times == 1}
        for x, count in zip(product.factors, letters, strict=True):
            if isinstance(x, Tensor) and any(times == 2 and i in once - bound for i, times in count.items()):
                yield x


# Where indices stand above and below, a letter that is summed stands twice in a product: not `∇^a (ρ u_a u_a)`.
def _find_uneven(left: Expression, right: Expression) -> Iterator[Finding]:
    for product in (x for side in (left, right) for x in subexpressions(side) if isinstance(x, Product)):
        tensors = [x for x in _list_outer(product) if isinstance(x, Tensor)]
        single = not any(isinstance(x, Sum | Apply | Power) for x in subexpressions(product))
        count = Counter(letter for x in tensors for letter in slot_letters(x)) if single else Counter[str]()
        raised = {letter for x in tensors if x.name.endswith(RAISED) for letter in slot_letters(x)}
        for letter in (letter for letter, times in count.items() if times == 3 and letter in raised):
            last = [x for x in tensors if letter in slot_letters(x)][-1]
            message = f"`{letter}` stands three times in this product"
            yield Finding("E305", message, last.span, (), f"another letter for one `{letter}`")


# A letter twice on one tensor and nowhere else, in a product that has all that the left side has: `C_{mmjl} \delta_{ik}`.
def _find_traced(line: JudgedLine, left: Expression, right: Expression) -> set[str]:
    count = Counter(letter for x in line.tensors for letter in slot_letters(x))
    count.update(index.letter for x in line.inside if isinstance(x, Apply) for index in x.indices)
    terms = (tuple(_list_outer(term)) for term in _list_terms(right) if find_free(left) <= find_free(term))
    tensors = (x for tensors_of_term in terms if len(tensors_of_term) > 1 for x in tensors_of_term)
    return {i for x in tensors for i, twice in Counter(slot_letters(x)).items() if twice == 2 == count[i]}


def _judge_definition(
    line: JudgedLine, left: Expression, right: Expression, defined: _Defined, known: SectionContext
) -> list[Finding]:
    assert isinstance(left, Tensor | Name)
    if not any(find_all(Tensor, right)):  # a mask, a constant: made of numbers
        free = Scope({}).free(right)
        if not free:
            return []
        left = _keep_slots(left, frozenset(free))
    spoken = frozenset({*_LABEL.findall(line.written.formula.latex.text), *_find_doubtful(line)})
    if isinstance(left, Tensor):
        spoken |= _find_samples(left, right)
        left = _keep_slots(left, frozenset(slot_letters(left)) - spoken)
    return _check(Equation(left, "=", right, span=left.span), defined, known, spoken)


# A step down a gradient, `w'_{ik} = w_{ik} - \partial e_{ij}^2 / \partial w_{ik}`, is made for each sample `j`.
def _find_samples(left: Tensor, right: Expression) -> Letters:
    tensors = [*find_all(Tensor, right)]
    ours = left.name.rstrip("'"), slot_letters(left)
    letters = frozenset(letter for x in tensors for letter in slot_letters(x))
    steps = any(is_variable(x) and (x.name, slot_letters(x)) == ours for x in tensors)
    return letters - frozenset(slot_letters(left)) if steps else frozenset()


# One choice of wanted indices must suit both sides of an equality, `\sum_j A_{ij} = c_i`.
def _judge_equality(
    line: JudgedLine, left: Expression, right: Expression, defined: _Defined, known: SectionContext
) -> list[Finding]:
    needs, theirs = find_free(left), find_free(right)
    spoken = frozenset({*_LABEL.findall(line.written.formula.latex.text), *_find_doubtful(line)})
    plain = all(isinstance(x, Name) or not (isinstance(x, Tensor) or _is_call(x)) for x in subexpressions(left))
    if plain and any(find_all(Name, left)) and any(map(_is_sum, subexpressions(right))):
        return _check(_make_line(frozenset(), right), defined, known, spoken)  # `\Delta t = \sum_i f_i / m_i`
    sums = [any(map(_is_sum, subexpressions(side))) for side in (left, right)]
    added = any(isinstance(x, Sum) and has_index(x) for side in (left, right) for x in subexpressions(side))
    derived = _is_derivative(left)
    of_scalar = derived and isinstance(left, Product)  # `\partial / \partial w_i L(w)`
    alone = len(needs ^ theirs) == 1 and not added and not all(sums) and not derived  # for each of them: `\max_j z_j = z_i`
    if alone or _is_call(left) or _is_call(right) or not (has_index(left) and has_index(right)):
        return [*find_empty_sums(left, known.carried, theirs), *find_empty_sums(right, known.carried, needs)]
    ours, other = ({i.letter for x in _list_outer(side) for i in find_all(Index, x)} for side in (left, right))
    shared = frozenset(ours & other)
    choices = [
        [finding for side in (left, right) for finding in _check(_make_line(wanted - spoken, side), defined, known, spoken)]
        for wanted in ((needs,) if of_scalar else (needs, theirs, needs | theirs, shared))
    ]
    return min(choices, key=lambda findings: sum(finding.code not in _REMARKS for finding in findings))


def _make_line(wanted: Letters, side: Expression) -> Equation:
    slots = tuple(Index(letter, span=side.span) for letter in sorted(wanted))
    return Equation(Tensor("=", slots, span=side.span) if slots else Name("=", span=side.span), "return", side, span=side.span)


# A slip in slots is mended, so that the sums of the line are judged too.
def _check(line: Equation, defined: _Defined, known: SectionContext, spoken: Letters) -> list[Finding]:
    left, plain, loops = (
        line.left,
        _Explicit(line.left, line.right, known.carried).explain(),
        frozenset({*known.fixed, *spoken}),
    )
    if isinstance(left, Tensor) and _is_doubled(left):  # a diagonal, or a trace: `A_{ii} = \sum_i A_{ii}`
        left = _drop_doubled(left, find_free(line.right))
    names = {x.name: Definition(None, x.span, "tensor") for x in subexpressions(plain) if isinstance(x, Tensor | Name)}
    explicit, definitions = replace(line, left=left, right=plain), {**names, **defined}
    findings = check_line(explicit, definitions, known.legend, loops) or _find_lopsided(explicit, known, loops)
    if findings and all(finding.code in _OF_SLOTS for finding in findings):
        mended = _mend(plain, definitions, {finding.span for finding in findings})
        silent = {name: replace(definition, slots=None) for name, definition in definitions.items()}
        findings += check_line(replace(explicit, right=mended), silent, known.legend, loops)
    return findings


# With the slots that it lacks, as often as it lacks them.
def _mend(e: Expression, defined: _Defined, wrong: set[Span]) -> Expression:
    if isinstance(e, Tensor | Name) and e.span in wrong and (slots := defined[e.name].slots):
        more, here = list[Index](), Counter(axis_of(index.letter) for index in _list_indices(slots_of(e)))
        for index in _list_indices(slots):
            more += [index] * (here[axis_of(index.letter)] < 1)
            here[axis_of(index.letter)] -= 1
        return Tensor(e.name, (*slots_of(e), *more), span=e.span)
    return rebuild(e, lambda child: _mend(child, defined, wrong))


def _list_indices(slots: Iterable[Expression]) -> Iterator[Index]:
    return (slot for slot in open_groups(slots) if isinstance(slot, Index))


# A term that alone lacks an index, and has its twin in two factors: `δ_ik δ_jk + δ_il δ_jk`. All terms have the twin: of a
# squared distance, `x_i x_i - 2 x_i x_j + x_j x_j`, one lacks it. A text may say either. Where indices stand above and below,
# each term has each index once, `T_{ab} = ρ u_a u_b + p g_{ab}`.
def _find_lopsided(line: Equation, known: SectionContext, loops: Letters) -> list[Finding]:
    scope, wanted, e = Scope({}, loops, known.legend), calls.slot_letters(line.left), line.right
    terms, letters = e.terms if isinstance(e, Sum) else (), frozenset(wanted)
    for letter in wanted if len(terms) > 1 else ():
        lacking = [term for term in terms if letter not in scope.free(term)]
        if len(lacking) != 1:
            continue
        alone = all(letters <= scope.free(term).keys() for term in terms if term is not lacking[0])
        doubled = Counter(i for factor in _list_factors(lacking[0]) for i in scope.free(factor))
        twins = (i for i in wanted if i != letter and known.legend.are_twins(i, letter) and doubled[i] > 1)
        twin = next(twins, "")
        if twin and all(twin in scope.free(term) for term in terms):
            message = f"this term has `{twin}` twice, and lacks `{letter}`, which all other terms have"
            scope.report("E302", message, lacking[0], f"`{letter}` for one `{twin}`", letter)
        elif known.covariant and alone and scope.free(lacking[0]):
            message = f"this term lacks `{letter}`, which all other terms and the left side have"
            scope.report("E302", message, lacking[0], f"`{letter}` in it", letter)
    return scope.findings


# `t` and `\bar{t}` may be one index, and a coordinate that stands on one derivative alone may be the time.
def _find_doubtful(line: JudgedLine) -> set[str]:
    count = Counter(letter for x in line.tensors for letter in slot_letters(x))
    derived = {letter for x in line.tensors if is_derivative(x) for letter in slot_letters(x) if count[letter] == 1}
    derived &= _COORDINATES
    return derived | find_ambiguous({axis for x in line.tensors for axis in map(axis_of, slot_letters(x))})


def _keep_slots(left: Tensor | Name, letters: Letters) -> Tensor | Name:
    groups = (replace(x, members=_keep(x.members, letters)) if isinstance(x, Group) else x for x in slots_of(left))
    slots = _keep(groups, letters)
    return Tensor(left.name, slots, span=left.span) if slots else Name(left.name, span=left.span)


def _keep(slots: Iterable[Expression], letters: Letters) -> tuple[Expression, ...]:
    return tuple(slot for slot in slots if not isinstance(slot, Index) or slot.letter in letters)


# No definition, but a fact about some elements: a value that is chosen, `w = 2 n_j`, or `G_t = g_i`; elements of one tensor
# that are proportional, `x_{nk} = c x_{nj}`; a tensor that does not depend on all its indices, `V_{ijab} = V_{ab}`.
def _is_statement(left: Expression, right: Expression) -> bool:
    tensors = [*find_all(Tensor, right)]
    if isinstance(left, Product) and sum(map(has_index, left.factors)) == 1:
        factor = next(filter(has_index, left.factors))  # `\partial_i \phi` is no factor times a number
        left = left if isinstance(factor, Tensor) and is_derivative(factor) else factor
    if isinstance(left, Name):  # `y = 2 x_t - x_{t-1}`, `a = b_{jk} / (b_{ij} + b_{jk})`: a term is not summed
        elements = any(map(_is_element, _list_terms(right))) or any(map(_is_difference, find_all(Sum, right)))
        return not any(x.indices for x in find_all(Apply, right)) and elements
    if isinstance(left, Tensor) and isinstance(right, Sum) and find_free(right) < find_free(left) and _is_linear(right):
        return True  # `\hat{y}_{ijk} = \mu + \alpha_i + \beta_j` does not depend on `k`
    if isinstance(left, Tensor) and isinstance(right, Tensor):
        ours, theirs = find_free(left), find_free(right)
        return ours < theirs or not ours & theirs or (left.name[0] == right.name[0] and theirs < ours)
    if isinstance(right, Apply) and left in right.arguments and any(i.letter in find_free(left) for i in right.indices):
        return True  # `z_i = \max_i z_i`
    alike = [x for x in tensors if isinstance(left, Tensor) and x.name == left.name and find_free(x) != find_free(left)]
    return isinstance(right, Product) and bool(alike) and all(x in alike or len(x.slots) < 2 for x in tensors)


# `v_a - v_b`: two elements of one tensor.
def _is_difference(e: Sum) -> bool:
    names = [x.name for x in find_all(Tensor, e)]
    return len(names) == 2 == len(e.terms) and names[0] == names[1] and not find_free(e.terms[0]) & find_free(e.terms[1])


# A term in which no letter stands on two factors.
def _is_element(term: Expression) -> bool:
    for x in find_all(Product, term):
        over = (factor.numerator if isinstance(factor, Quotient) else factor for factor in x.factors)
        letters = Counter(i for factor in over for i in letters_in(*_list_outer(factor)))
        if any(count > 1 for count in letters.values()):
            return False
    return True


# Terms of which each is one tensor, or one times numbers.
def _is_linear(e: Expression) -> bool:
    computed = any(isinstance(x, Apply | Quotient | Power) for x in subexpressions(e))
    return not computed and all(sum(map(has_index, x.factors)) < 2 for x in find_all(Product, e))


def _list_terms(e: Expression) -> tuple[Expression, ...]:
    return e.terms if isinstance(e, Sum) else (e,)


# One index stands for several, `\psi_i = P_{nl} Y_{lm}`.
def _is_renamed(left: Expression, right: Expression) -> bool:
    ours, theirs = find_free(left), find_free(right)
    carried = {letter for x in _list_outer(right) for letter in slot_letters(x)}
    return len(ours) == 1 and len(theirs) > 1 and not ours & carried


# `J^{ab} = \delta^{ac} \delta^{bd} - \delta^{ad} \delta^{bc}`: all terms have two letters more alike, those of a matrix.
def _has_elements(left: Expression, right: Expression) -> bool:
    sums = [e for e in (right, *(right.factors if isinstance(right, Product) else ())) if isinstance(e, Sum)]
    letters = {find_free(term) for e in sums for term in e.terms}
    return isinstance(left, Tensor) and len(letters) == 1 and len(next(iter(letters)) - find_free(left)) > 1


# ------------------------------------------------------------------------------------------------- what is left unsaid


class _Explicit:
    """The right side of a line, with what it leaves unsaid written out."""

    def __init__(self, left: Tensor | Name, right: Expression, carried: Mapping[str, set[str]]) -> None:
        self.elsewhere = carried
        self.right, self.wanted = right, frozenset(slot_letters(left)) if isinstance(left, Tensor) else frozenset[str]()
        slots = [slot for x in _list_outer(right) for slot in open_groups(x.slots)]
        self.carried = frozenset(slot.letter for slot in slots if isinstance(slot, Index))

    @functools.cached_property
    def around(self) -> dict[int, Letters]:
        return _find_around(self.right)

    # A bare name among the terms may be a tensor: `… + ε`.
    def explain(self) -> Expression:
        e = self.right
        if isinstance(e, Sum):
            e = replace(e, terms=tuple(self.stand_for(x, self.wanted) if isinstance(x, Name) else x for x in e.terms))
        return self.write(e, self.wanted)

    def stand_for(self, e: Expression, letters: Letters) -> Expression:
        slots = tuple(Index(letter, span=e.span) for letter in sorted(letters))
        name = e.name if isinstance(e, Name | Apply) else "·"
        return Tensor(f"{name}·", slots, span=e.span) if slots else Name(f"{name}·", span=e.span)

    def write(self, e: Expression, wanted: Letters) -> Expression:
        match e:
            case Index():
                return e if e.letter in wanted else Name(f"{e.letter}·", span=e.span)  # a number, not the tensor of that name
            case Tensor():
                return self.write_slots(e, wanted)
            case Product() | Quotient():
                free = wanted.union(*(find_free(f) for f in factors_of(e) if not _is_call(f)))
                carried = wanted.union(index.letter for x in _list_outer(e) for index in find_all(Index, x))

                if isinstance(e, Product):
                    e = _drop_bounds(e)

                def write(child: Expression) -> Expression:
                    return self.write(child, carried if isinstance(child, Index) else free if _is_call(child) else wanted)

                return rebuild(e, write)
            case Apply() if _is_call(e):
                return self.stand_for(e, wanted)
            case Apply(name="sum"):
                return self.write_sum(e, wanted)
            case Apply(name="min" | "max") if e.indices and _is_over_numbers(e):
                return self.stand_for(e, find_free(e) & wanted)
            case _:
                bound = frozenset(index.letter for index in e.indices) if isinstance(e, Apply) else frozenset[str]()
                return rebuild(e, lambda child: self.write(child, wanted | bound))

    # In a computed slot a letter may be a number, `x_{t + j}`, and in one that a tensor chooses, `p_{y_i}`.
    def write_slots(self, e: Tensor, wanted: Letters) -> Expression:
        if _is_doubled(e):
            return _drop_doubled(e, wanted)

        def number(x: Expression) -> Expression:
            return Name(x.letter, span=x.span) if isinstance(x, Index) and x.letter not in wanted | self.carried else x

        def write(slot: Expression) -> Expression:
            several = isinstance(slot, Tensor) or sum(1 for _ in find_all(Index, slot)) > 1
            return rebuild(slot, number) if several and not isinstance(slot, Index | Group) else slot

        return replace(e, slots=tuple(map(write, e.slots)))

    # A sum over a letter that its argument never mentions stays, and is refused. One that it may mention goes.
    def write_sum(self, e: Apply, wanted: Letters) -> Expression:
        letters = frozenset(index.letter for index in e.indices)
        empty = _find_empty(e, self.around.get(id(e), frozenset()), self.elsewhere, wanted)
        argument = self.write(e.arguments[0], wanted | letters)
        free = Scope({}).free(argument)
        indices = tuple(index for index in e.indices if index.letter in free or index in empty)
        return replace(e, indices=indices, arguments=(argument,)) if indices else argument


# The letters of its bounds stand before a sum as numbers, `n_i \sum_k`. Those that its argument carries are no further factor.
def _drop_bounds(e: Product) -> Product:
    carried = {axis for x in e.factors if _is_sum(x) for y in _list_outer(x) for axis in slot_letters(y)}
    factors = tuple(x for x in e.factors if not (isinstance(x, Index) and x.letter in carried))
    return replace(e, factors=factors) if 1 < len(factors) < len(e.factors) else e


def _list_factors(e: Expression) -> tuple[Expression, ...]:
    return factors_of(e) if isinstance(e, Product | Quotient) else (e,)


# The tensors that stand neither in a slot nor in a function of the author.
def _list_outer(e: Expression) -> Iterator[Tensor]:
    if isinstance(e, Tensor):
        yield e
    elif not _is_call(e):
        yield from (x for child in children(e) for x in _list_outer(child))


def _is_doubled(e: Tensor) -> bool:
    return len(set(slot_letters(e))) < len(slot_letters(e))


# A diagonal that is meant, or a trace.
def _drop_doubled(e: Tensor, wanted: Letters) -> Tensor | Name:
    kept = {letter for letter, count in Counter(slot_letters(e)).items() if count == 1 or letter in wanted}
    slots = tuple(Index(letter, span=e.span) for letter in dict.fromkeys(slot_letters(e)) if letter in kept)
    return Tensor(f"{e.name}·", slots, span=e.span) if slots else Name(f"{e.name}·", span=e.span)


def _is_sum(e: Expression) -> TypeGuard[Apply]:
    return isinstance(e, Apply) and bool(e.indices)


# A function of the author, or an operator of which the text does not say over what it is.
def _is_call(e: Expression) -> bool:
    return isinstance(e, Apply) and (e.name.endswith(OF_AUTHOR) or (not e.indices and _needs_index(e)))


# `\min_{a, b} \sum_i (y_i - a - b x_i)^2`: over numbers, not over indices.
def _is_over_numbers(e: Apply) -> bool:
    inside = [x for argument in e.arguments for x in subexpressions(argument)]
    slots = {index.letter for x in inside if isinstance(x, Tensor) for index in find_all(Index, x)}
    numbers = {x.name if isinstance(x, Name) else x.letter for x in inside if isinstance(x, Name | Index)}
    return all(index.letter in numbers - slots for index in e.indices)


def _needs_index(e: Apply) -> bool:
    row = primitive(e.name, False)
    return row is None or len(e.arguments) not in row.arity


# A sum over a letter that its argument never mentions, `\sum_j x_i`, where its argument has another that nothing else has.
def find_empty_sums(
    e: Expression, carried: Mapping[str, set[str]] | None = None, wanted: Letters = frozenset()
) -> Iterator[Finding]:
    scope, around = Scope({}), _find_around(e)
    for x in subexpressions(e):
        if (
            isinstance(x, Apply)
            and x.name == "sum"
            and (empty := _find_empty(x, around.get(id(x), wanted), carried or {}, wanted))
        ):
            scope.check_operator(replace(x, indices=tuple(empty)), frozenset(index.letter for index in x.indices))
    yield from scope.findings


# A function of the author may have the letter where no formula shows it, and so may a label: `W^{(j)}`. `\sum_i 1` is n, and
# `\sum_{nlms} f_{nl}` counts states. In `\sum_i \sum_j (\bar{y}_i - \mu)^2` each group counts as often as it has members;
# `y_i` is a slip beside `y_{ij}`.
def _find_empty(e: Apply, around: Letters, carried: Mapping[str, set[str]], wanted: Letters) -> list[Index]:
    (argument,) = e.arguments
    letters, whole, inside = _COMMAND.sub(" ", argument.span.text), e.span.source.text, tuple(subexpressions(argument))
    bound = [index.letter for index in e.indices]
    if bound and TIED in whole[e.indices[-1].span.end : argument.span.start]:
        return []
    hidden = any(isinstance(x, Apply) and x.name.endswith(OF_AUTHOR) for x in inside)
    empty = [i for i in e.indices if i.letter not in letters and not hidden and has_index(argument)]
    if not empty or len(bound) == len(empty) > 1:  # `\sum_{all}` is over a word
        return []
    lost = {axis for x in inside if isinstance(x, Tensor) for axis in carried.get(x.name, ())}
    others = {letter for x in inside if isinstance(x, Tensor) for letter in slot_letters(x)}
    inner = {i.letter for x in inside if isinstance(x, Apply) for i in x.indices}
    meant = others - inner - set(bound) - around - (wanted & find_free(argument))
    return [i for i in empty if meant or axis_of(i.letter) in lost]


# The letters over which other sums run, around each sum.
def _find_around(e: Expression, around: Letters = frozenset()) -> dict[int, Letters]:
    found = {id(e): around} if _is_sum(e) else dict[int, Letters]()
    inner = around.union(index.letter for index in e.indices) if isinstance(e, Apply) else around
    for child in children(e):
        found |= _find_around(child, inner)
    return found


# ----------------------------------------------------------------------------------------------------------- definitions


class _Forms:
    """The definition of each tensor of a section: by a shape that the text states, by a line, or by all its other uses."""

    def __init__(self, lines: Sequence[JudgedLine], known: SectionContext) -> None:
        self.known, self.lines = known, lines
        self.by_line = self.find_definitions()
        self.often = set[str]()  # names with a common form that three uses have, or more
        self.common = self.find_common()
        self.meant = {(x.left.name, *axes_of(x.left)) for x in lines if isinstance(x.left, Tensor) and self.has_other_form(x)}
        self.known_names = {*self.by_line, *self.common, *known.declared}
        self.bare = Counter(x.name for line in lines for x in (line.left, *line.inside) if isinstance(x, Name))

    # Definitions in one form. If a factor has more slots elsewhere, the author gives the rest in words, and there is none.
    def find_definitions(self) -> dict[str, tuple[Tensor, JudgedLine]]:
        definitions, widest = defaultdict[str, list[tuple[Tensor, JudgedLine]]](list), dict[str, int]()
        for x in (x for line in self.lines for x in line.tensors):
            widest[x.name] = max(widest.get(x.name, 0), len(x.slots))
        for line in self.lines:
            whole = all(len(x.slots) == widest[x.name] for x in line.inside if isinstance(x, Tensor))
            if line.defines is not None and whole:
                definitions[line.defines.name].append((line.defines, line))
        return {name: uses[0] for name, uses in definitions.items() if len({tuple(axes_of(x)) for x, _ in uses}) == 1}

    # The form of a tensor that no line defines, where exactly one use departs from it. A use with more slots is correct: the
    # others may leave some out.
    def find_common(self) -> dict[str, tuple[Tensor, JudgedLine]]:
        left = {line.left.name for line in self.lines if isinstance(line.left, Tensor) and line.right is not None}
        uses = defaultdict[str, dict[tuple[str, ...], list[tuple[Tensor, JudgedLine]]]](dict)
        for line in self.lines:
            for x in line.tensors:
                if x.name not in left and not any(isinstance(slot, Number) for slot in x.slots):  # `W_{1f}`, `W_{2e}`
                    uses[x.name].setdefault(tuple(axes_of(x)), []).append((x, line))
        common = dict[str, tuple[Tensor, JudgedLine]]()
        for name, forms in uses.items():
            most, *few = sorted(forms.values(), key=len, reverse=True)
            if len(few) == 1 == len(few[0]) and len(most[0][0].slots) >= len(few[0][0][0].slots):
                common[name] = most[0]
                self.often |= {name} if len(most) > 2 else set()
        return common

    # An equation such as `A_c = sum_l A_cl` gives a tensor a second form.
    def has_other_form(self, line: JudgedLine) -> bool:
        left = line.left
        return not line.written.rebinds and any(
            isinstance(x, Tensor) and isinstance(left, Tensor) and x.name == left.name and axes_of(x) != axes_of(left)
            for x in line.inside
        )

    # A name without indices, `E = a_i + b_i`, has those of the right side wherever else it stands.
    def lacks_indices(self, left: Expression, right: Expression) -> bool:
        if not (isinstance(left, Name) and isinstance(right, Sum) and self.bare[left.name] == 1):
            return False
        uses = [sorted(slot_letters(x)) for line in self.lines for x in line.tensors if x.name == left.name]
        terms = [find_free(term) for term in _list_terms(right)]
        return bool(uses) and all(use == sorted(term) for use in uses for term in terms)

    # A definition of a name holds where a use agrees, or departs by a slip.
    def define(self, line: JudgedLine) -> dict[str, Definition]:
        defined = dict[str, Definition]()
        names = dict.fromkeys(x.name for x in (line.left, *line.inside) if isinstance(x, Tensor | Name))
        for name in names:
            tensor, maker = self.find(name, line)
            if tensor is None or (maker is line and not line.written.rebinds):
                continue
            uses = [x for x in (line.left, *line.inside) if isinstance(x, Tensor | Name) and x.name == name and x is not tensor]
            uses = [x for x in uses if x is not line.left or maker is None or not line.written.rebinds]
            slots = tensor.slots if all(self.agrees(x, tensor, line, maker) for x in uses) else None
            place = tensor.span if maker is None else maker.place(tensor.span)
            defined[name] = Definition(slots, place, "tensor")
        return defined

    def find(self, name: str, line: JudgedLine) -> tuple[Tensor | None, JudgedLine | None]:
        if name in self.known.declared:
            return self.known.declared[name], None
        return self.by_line.get(name) or self.common.get(name) or (None, None)

    # Other letters may be another tensor, and a form that is meant is no slip.
    def agrees(self, x: Tensor | Name, tensor: Tensor, line: JudgedLine, maker: JudgedLine | None) -> bool:
        here, there = axes_of(x), axes_of(tensor)
        if len(slots_of(x)) == len(tensor.slots):
            merged = any(isinstance(slot, Group) for slot in (*slots_of(x), *tensor.slots))
            permuted = sorted(here) == sorted(there) and "(" not in x.span.text  # a group may have any order
            return (merged or permuted) and (x.name, *here) not in self.meant
        dropped = {i for i in there if here.count(i) < there.count(i)}
        added = {i for i in here if there.count(i) < here.count(i)}
        around = {i for y in line.tensors if y.name != x.name or line.written.rebinds for i in axes_of(y)}
        stated = x.name in self.known.declared and line.right is not None and x is not line.left
        others = [y for y in line.tensors if y is not tensor and y.name in self.known_names]
        alone = sum(bool(added & set(axes_of(y))) for y in others if y.name == x.name or y is not line.left) <= 1
        if maker is not None and (dropped | added) & set(map(axis_of, maker.unbalanced)):
            return False
        if self.known.uses[x.name, len(here)] > 1:  # `\epsilon_{ijk}` and `\epsilon_{ij}` are two tensors
            return False
        is_slip = bool(dropped & around and not added) or bool(added and not dropped and ((alone and added & around) or stated))
        few, many = sorted((len(slots_of(x)), len(tensor.slots)))
        if few == 0 and self.may_be_trace(tensor, x, line):
            return False
        plain = (
            x.name in self.known.declared
            or (few > 0 and x.name in self.often)  # `\mu` beside `\mu_i` is what all groups have in common
            or (few > 1 and many > 2)
            or (few == 0 and many > 1 and self.bare[x.name] == 1)
        )
        return is_slip and plain and len(here) != len(there) and (x.name, *here) not in self.meant

    # `R = R^a_a`: a name without indices, beside one that has two over one axis. As a term of its own it is a matrix.
    def may_be_trace(self, tensor: Tensor, x: Tensor | Name, line: JudgedLine) -> bool:
        letters, terms = slot_letters(tensor), _list_terms(line.right) if line.right is not None else ()
        bare = len(terms) > 1 and any(x in subexpressions(term) and not has_index(term) for term in terms)
        return len(letters) == 2 and not self.known.legend.are_apart(*letters) and not bare


def axes_of(x: Tensor | Name) -> list[str]:
    return [axis_of(letter) for letter in slot_letters(x)] if isinstance(x, Tensor) else []


# ----------------------------------------------------------------------------------------------------------- softmaxes


# Each softmax over an index of which the weights are summed over its twin, with the left side of its line. In a text this is
# allowed outside of causal models, where E505 or E501 refuses it. In a note nobody means it.
def _find_misweighed(lines: Sequence[Equation], legend: Stated) -> Iterator[tuple[Tensor | Name, Finding]]:
    for line in lines:
        operators = [x for x in find_all(Apply, line.right) if x.name == "Sm" and len(x.indices) == 1]
        if len(operators) != 1 or not isinstance(line.left, Tensor):
            continue
        over, letters = operators[0].indices[0], slot_letters(line.left)
        twins = [letter for letter in letters if letter != over.letter and legend.are_twins(letter, over.letter)]
        if over.letter in letters and len(twins) == 1 and _is_summed(line.left, over.letter, twins[0], lines):
            message = f"`Sm` is over `{over.letter}`, but its weights are summed over `{twins[0]}`"
            yield line.left, Finding("E312", message, over.span, (), f"`Sm_{twins[0]}`")


# A line reads the weights in this form, keeps the one index, and sums the other.
def _is_summed(weights: Tensor, over: str, twin: str, lines: Sequence[Equation]) -> bool:
    letters = slot_letters(weights)
    for line in lines:
        left = calls.slot_letters(line.left)
        for use in (x for x in find_all(Tensor, line.right) if x.name == weights.name):
            here = dict(zip(letters, slot_letters(use), strict=False))
            alike = list(map(axis_of, letters)) == list(map(axis_of, here.values()))
            if alike and here[over] in left and here[twin] not in left:
                return True
    return False


# ----------------------------------------------------------------------------------------------------------------- masks


def _judge_masks(line: JudgedLine, lines: Sequence[JudgedLine]) -> Iterator[Finding]:
    left, right = line.left, line.right
    if not isinstance(left, Tensor) or right is None:
        return
    keys = _find_keys(left.name, lines) or [i for i in slot_letters(left) if i.endswith("'")]
    queries = [i for i in slot_letters(left) if keys[:1] != [i] and axis_of(i) == axis_of(keys[0])] if keys else []
    if len(set(keys)) != 1 or len(queries) != 1 or keys[0] not in slot_letters(left):
        return
    key, query = keys[0], queries[0]
    if isinstance(right, Apply) and right.name == "where" and [_find_mask(right, query, key, n) for n in (0, 1)] == [0, -1]:
        message = f"the mask lets `{query}` see the positions `{key}` after it, and hides those before"
        yield Finding("E501", message, right.span, (), f"0 where `{key} <= {query}`, -inf where `{key} > {query}`")
    if isinstance(right, Number) and right.value == 0 and _hides_past(line.place(right.span), query, key):
        message = f"`{left.name}` is zero where `{key}` is before `{query}`: it hides the past"
        yield Finding("E501", message, left.span, (), f"zero for `{key} > {query}`")


# The indices over which the weights that a tensor is, or of which it is a part, add up to one.
def _find_keys(name: str, lines: Sequence[JudgedLine]) -> list[str]:
    softmax = [(line, x) for line in lines for x in line.inside if isinstance(x, Apply) and x.name == "Sm" and x.indices]
    return [
        x.indices[0].letter
        for line, x in softmax
        if (isinstance(line.left, Tensor) and line.left.name == name) or any(y.name == name for y in find_all(Tensor, x))
    ]


# 0 where the mask shows a key after its query, or before it, and -1 where it hides that.
def _find_mask(mask: Apply, query: str, key: str, before: int) -> float | None:
    try:
        value = Stated({}, {}).number(mask, {query: before, key: 1 - before})
    except EinformerError:
        return None
    return -1.0 if value == -float("inf") else float(value)


def _hides_past(zero: Span, query: str, key: str) -> bool:
    condition = _CONDITION.match(zero.source.text, zero.end)
    if condition is None or {condition["first"], condition["second"]} != {query, key}:
        return False
    return (condition["sign"] in _LESS) == (condition["first"] == key)


# --------------------------------------------------------------------------------------------------------------- letters


# A left side is a name, with letters and groups of letters.
def is_left(e: Expression) -> bool:
    return isinstance(e, Name) or (isinstance(e, Tensor) and all(isinstance(x, Index) for x in open_groups(e.slots)))


# The notes' `u_{bsd} = y_{bs(ea)}` is `u_{bs(ea)} = y_{bsea}` (R4).
def regroup(left: Expression, right: Expression) -> tuple[Expression, Expression]:
    if not (isinstance(left, Tensor) and isinstance(right, Tensor) and all(isinstance(slot, Index) for slot in left.slots)):
        return left, right
    groups = [slot for slot in right.slots if isinstance(slot, Group)]
    merged = [slot for slot in left.slots if slot not in right.slots]
    if len(groups) != 1 or len(merged) != 1 or len(left.slots) != len(right.slots) or merged[0] in groups[0].members:
        return left, right
    slots = [groups[0] if slot is merged[0] else slot for slot in left.slots]
    return replace(left, slots=tuple(slots)), replace(right, slots=tuple(open_groups(right.slots)))


def has_index(e: Expression) -> bool:
    return any(find_all(Tensor, e))


# Nothing in e sums these indices.
def find_free(e: Expression) -> Letters:
    match e:
        case Tensor():
            return frozenset(index.letter for index in find_all(Index, e))
        case Index():
            return frozenset()
        case Product() | Quotient():
            having = [(find_free(f), {index.letter for index in find_all(Index, f)}) for f in factors_of(e)]
            return frozenset(i for own, _ in having for i in own if sum(i in letters for _, letters in having) == 1)
        case Apply() if e.indices:
            bound, inside = frozenset(i.letter for i in e.indices), frozenset[str]().union(*map(find_free, e.arguments))
            row = primitive(e.name, True)
            return inside - bound if row is not None and row.kind == "reducing" else inside | bound
        case _:
            return frozenset[str]().union(*map(find_free, children(e)))
