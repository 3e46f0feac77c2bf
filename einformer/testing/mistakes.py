"""Which mistakes do people make in these formulas? A table: each a change of the text, tried wherever it can be made.

Code that departs from its equations, and equals them with one of these changes, makes that mistake.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

from einformer.language.calls import axis_of, slot_letters
from einformer.language.tree import (
    Apply,
    Equation,
    Expression,
    Group,
    Index,
    Layer,
    Name,
    Number,
    Power,
    Product,
    Quotient,
    Sum,
    Tensor,
)
from einformer.language.walk import equations, subexpressions
from einformer.testing.forms import (
    added,
    calls,
    counted_from,
    exchanged,
    hides,
    in_reverse,
    is_mask,
    is_norm,
    is_plain,
    masked,
    mirrored,
    multiplied,
    orders,
    others,
    put,
)
from einformer.testing.rewrites import Around, Rewrite, each_equation, each_node, each_pair, each_several

Variants = Iterator[Expression]
ACTIVATIONS = ("gelu", "gelutanh", "silu", "relu", "sigmoid", "tanh")
EPSILONS = (1e-5, 1e-6, 1e-8, 1e-12)
MINUS = Number(-1)
VIEWED = "view"  # the numbers of a tensor in one row


@dataclass(frozen=True, slots=True)
class Mistake:
    """A row of the table: what people do, and the change of the text that does it."""

    says: str
    rewrite: Rewrite


# --------------------------------------------------------------------------------------------------------- attention


def _without_mask(e: Expression, around: Around) -> Variants:
    if isinstance(e, Sum):
        yield from (added(others(e.terms, term)) for term in e.terms if is_mask(term))
    match e:
        case Apply(arguments=(_, shown, _)) if hides(e):
            yield shown


def _other_way(e: Expression, around: Around) -> Variants:
    match e:
        case Apply(arguments=(condition, shown, hidden)) if hides(e):
            yield replace(e, arguments=(Apply("not", (), (condition,)), shown, hidden))
            yield replace(e, arguments=(mirrored(condition), shown, hidden))


def _off_by_one(e: Expression, around: Around) -> Variants:
    match e:
        case Apply(name="<=" | "<" as name, arguments=(left, right)):
            yield replace(e, name="<=" if name == "<" else "<")
            yield replace(e, arguments=(left, added((right, Number(1 if name == "<=" else -1)))))


def _after_softmax(e: Expression, around: Around) -> Variants:
    for softmax, mask, rest in masked(e):
        yield Product((replace(softmax, arguments=(rest,)), Apply("exp", (), (mask,))))


def _zeroed(e: Expression, around: Around) -> Variants:
    for softmax, mask, rest in masked(e):
        yield replace(softmax, arguments=(Product((rest, Apply("exp", (), (mask,)))),))


def _transposed(e: Expression, around: Around) -> Variants:
    match e:
        case Product() | Quotient() | Tensor():
            letters = dict.fromkeys(x.letter for x in subexpressions(e) if isinstance(x, Index))
            for one, other in itertools.combinations(letters, 2):
                if axis_of(one) == axis_of(other):
                    yield exchanged(e, {one: other, other: one})


def _over_another(e: Expression, around: Around) -> Variants:
    match e:
        case Apply(name="Sm", indices=(index,)):
            for letter in slot_letters(around.equation.left):
                if letter != index.letter:
                    yield replace(e, indices=(Index(letter),))


def _unscaled(e: Expression, around: Around) -> Variants:
    match e:
        case Quotient(numerator, denominator) if is_plain(denominator):
            yield numerator
        case Product(factors):
            yield from (multiplied(others(factors, f)) for f in factors if is_plain(f) and f not in (MINUS, Number(1)))


def _scaled_otherwise(e: Expression, around: Around) -> Variants:
    match e:
        case Quotient(numerator, denominator) if is_plain(denominator):
            yield Product((numerator, denominator))
            yield Quotient(e, denominator)
        case Apply(name="sqrt", arguments=(inner,)) if is_plain(inner):
            yield inner
            sizes = (axis.size for axis in around.spec.axes)
            yield from (replace(e, arguments=(size,)) for size in sizes if isinstance(size, Name) and size != inner)


def _regrouped(equation: Equation, around: Around) -> Iterator[Equation]:
    if isinstance(equation.left, Tensor):
        for number, slot in enumerate(equation.left.slots):
            for group in orders(slot):
                slots = (*equation.left.slots[:number], group, *equation.left.slots[number + 1 :])
                yield replace(equation, left=replace(equation.left, slots=slots))


def _regrouped_inside(e: Expression, around: Around) -> Variants:
    if isinstance(e, Group):
        yield from orders(e)


def _viewed(equation: Equation, around: Around) -> Iterator[tuple[Equation, ...]]:
    """Two axes change places by a view, which moves no number, and not by a transposition: `y.view(B, S, A, H)` of y_base."""
    letters = sorted(slot_letters(equation.left), key=lambda letter: letter == "e")
    for at in range(len(letters) - 1 - ("e" in letters)):  # the features of a head lie together
        swapped = [*letters[:at], letters[at + 1], letters[at], *letters[at + 2 :]]
        if axis_of(letters[at]) == axis_of(letters[at + 1]):
            continue  # that is a transposition
        for stored, read in ((letters, swapped), (swapped, letters)):
            flat, view = (Tensor(VIEWED, (Group(tuple(map(Index, order))),)) for order in (stored, read))
            yield replace(equation, left=flat, relation="="), replace(equation, right=view)


# ------------------------------------------------------------------------------------------------------------ rotary


def _paired(equation: Equation, around: Around) -> Iterator[Equation]:
    """Every group of the equation in the other order: `(hi)` for `(ih)`."""
    left, right = in_reverse(equation.left), in_reverse(equation.right)
    if isinstance(left, Tensor | Name) and left != equation.left and right != equation.right:
        yield replace(equation, left=left, right=right)


def _turned(e: Expression, around: Around) -> Variants:
    if isinstance(e, Apply) and e.name == "sin":
        yield Product((MINUS, e))


def _shifted(equation: Equation, around: Around) -> Iterator[Equation]:
    """Positions count from one: `s` becomes `s + 1` wherever it is a number."""
    for letter in slot_letters(equation.left):
        yield replace(equation, right=counted_from(equation.right, letter, added((Index(letter), Number(1)))))


def _uncalled(e: Expression, around: Around) -> Variants:
    if isinstance(e, Apply) and len(e.arguments) == 1 and around.callee(e.name) and not is_norm(e, around):
        yield e.arguments[0]


def _called_too(equation: Equation, around: Around) -> Iterator[Equation]:
    called = {e.name for q in equations(around.layer.body) for e in subexpressions(q.right) if isinstance(e, Apply)}
    for name in sorted(called):
        layer = around.callee(name)
        if layer and len(layer.formals) == 1 and not layer.weights and not calls(equation.right, name):
            yield replace(equation, right=Apply(name, (), (equation.right,)))


# ------------------------------------------------------------------------------------------- residuals, norms, biases


def _without_residual(e: Expression, around: Around) -> Variants:
    if isinstance(e, Sum):
        own = slot_letters(around.equation.left)
        lone = [t for t in e.terms if isinstance(t, Tensor) and not around.is_weight(t.name) and slot_letters(t) == own]
        yield from (added(others(e.terms, term)) for term in lone)


def _without_bias(e: Expression, around: Around) -> Variants:
    if isinstance(e, Sum):
        lone = [t for t in e.terms if isinstance(t, Tensor) and around.is_weight(t.name)]
        yield from (added(others(e.terms, term)) for term in lone)


def _norm_elsewhere(e: Expression, around: Around) -> Variants:
    """`z + F(Norm(z))` as `Norm(z + F(z))`, `z + Norm(F(z))` and `Norm(z) + F(Norm(z))`."""
    if not isinstance(e, Sum):
        return
    for call in (x for x in subexpressions(e) if isinstance(x, Apply) and is_norm(x, around)):
        (inner,) = call.arguments
        bare = put(e, call, inner)
        yield replace(call, arguments=(bare,))
        if isinstance(bare, Sum):
            for term, plain in zip(e.terms, bare.terms, strict=True):
                if term != plain:
                    yield put(e, term, replace(call, arguments=(plain,)))
        yield added(tuple(call if term == inner else term for term in e.terms))


def _unnormed(e: Expression, around: Around) -> Variants:
    if isinstance(e, Apply) and is_norm(e, around):
        yield e.arguments[0]


def _outside_root(e: Expression, around: Around) -> Variants:
    match e:
        case Apply(name="sqrt", arguments=(Sum(terms),)):
            for small in (term for term in terms if is_plain(term)):
                rest = added(others(terms, small))
                yield Sum((replace(e, arguments=(rest,)), small))
                yield replace(e, arguments=(rest,))


def _other_epsilon(e: Expression, around: Around) -> Variants:
    match e:
        case Apply(name="sqrt", arguments=(Sum(terms),)):
            for small in (term for term in terms if is_plain(term)):
                yield from (replace(e, arguments=(added((*others(terms, small), Number(x))),)) for x in EPSILONS)


def _unbiased(e: Expression, around: Around) -> Variants:
    match e:
        case Apply(name="var", indices=(index,)):
            size = next(axis.size for axis in around.spec.axes if axis.letter == axis_of(index.letter))
            yield Product((e, Quotient(size, Sum((size, MINUS)))))


def _uncentred(e: Expression, around: Around) -> Variants:
    if isinstance(e, Sum):
        means = [t for t in e.terms if any(isinstance(x, Apply) and x.name == "mean" for x in subexpressions(t))]
        yield from (added(others(e.terms, term)) for term in means if len(e.terms) > 1)
    if isinstance(e, Apply) and e.name == "mean":
        yield replace(e, name="sum")


def _centred(e: Expression, around: Around) -> Variants:
    match e:
        case Apply(name="mean", indices=indices, arguments=(Power(base, Number(value=2)),)):
            yield Apply("var", indices, (base,))


def _ungained(e: Expression, around: Around) -> Variants:
    if isinstance(e, Product):
        gains = [f for f in e.factors if isinstance(f, Tensor) and around.is_weight(f.name) and len(f.slots) == 1]
        yield from (multiplied(others(e.factors, f)) for f in gains)
        yield from (put(e, f, Sum((Number(1), f))) for f in gains)


# ----------------------------------------------------------------------------------------------------- MLPs, experts


def _activated_otherwise(e: Expression, around: Around) -> Variants:
    if isinstance(e, Apply) and e.name in ACTIVATIONS:
        yield from (replace(e, name=name) for name in ACTIVATIONS if name != e.name)
        yield e.arguments[0]


def _unnormalised(e: Expression, around: Around) -> Variants:
    match e:
        case Quotient(numerator, Apply(name="sum")):
            yield numerator
        case Apply(name="Sm", arguments=(inner,)):
            yield inner
            yield Apply("sigmoid", (), (inner,))


def _chosen_late(e: Expression, around: Around) -> Variants:
    """`Sm(where(c, r, -inf))` as `where(c, Sm(r), 0)`: over all, of which some are taken."""
    match e:
        case Apply(name="Sm", arguments=(Apply(name="where", arguments=(condition, shown, _)) as inner,)) if hides(inner):
            yield Apply("where", (), (condition, replace(e, arguments=(shown,)), Number(0)))


def _more_or_fewer(e: Expression, around: Around) -> Variants:
    match e:
        case Apply(name="top", arguments=(count, *rest)):
            yield from (replace(e, arguments=(added((count, Number(step))), *rest)) for step in (-1, 1))


def _other_sign(e: Expression, around: Around) -> Variants:
    match e:
        case Product(factors) if MINUS in factors:
            yield multiplied([factor for factor in factors if factor != MINUS])


def _alike(layer: Layer) -> Iterator[tuple[str, str]]:
    """Pairs of tensors that the layer reads, over the same axes."""
    read = _read(layer)
    yield from ((a, b) for a, b in itertools.combinations(read, 2) if sorted(read[a]) == sorted(read[b]) and read[a])


def _read(layer: Layer) -> dict[str, tuple[str, ...]]:
    """The tensors that a layer reads, with their axes."""
    read = [e for q in equations(layer.body) for e in subexpressions(q.right) if isinstance(e, Tensor)]
    return {e.name: tuple(map(axis_of, slot_letters(e))) for e in read}


def _another(e: Expression, around: Around) -> Variants:
    if isinstance(e, Tensor):
        read = _read(around.layer)
        yield from (replace(e, name=name) for name in read if name != e.name and read[name] == read.get(e.name))


def _shared(e: Expression, around: Around) -> Variants:
    instances = {w.name: w.layer for w in around.layer.weights if w.kind == "instance"}
    match e:
        case Apply(name=own) if own in instances:
            others = (name for name, layer in instances.items() if layer == instances[own] and name != own)
            yield from (replace(e, name=name) for name in others)


MISTAKES = (
    Mistake("the scores are not scaled, or a factor is missing", each_node(_unscaled)),
    Mistake("the scale is another one", each_node(_scaled_otherwise)),
    Mistake("the mask is missing", each_node(_without_mask)),
    Mistake("the mask is inverted", each_node(_other_way)),
    Mistake("a bound is off by one", each_node(_off_by_one)),
    Mistake("the mask is applied after the softmax, whose rows then do not sum to one", each_node(_after_softmax)),
    Mistake("what is masked has the score 0, not -inf", each_node(_zeroed)),
    Mistake("the softmax runs over another index", each_node(_over_another)),
    Mistake("queries and keys change places: scores, weights or a mask are transposed", each_node(_transposed)),
    Mistake("the heads are merged in the other order", each_equation(_regrouped)),
    Mistake("the heads are split in the other order", each_node(_regrouped_inside)),
    Mistake("two axes change places by a view where a transposition is meant", each_several(_viewed)),
    Mistake("the rotary pairs are the others: neighbours for halves, or halves for neighbours", each_equation(_paired)),
    Mistake("the rotation turns the other way", each_node(_turned)),
    Mistake("positions count from one", each_equation(_shifted)),
    Mistake("a layer is not applied", each_node(_uncalled)),
    Mistake("a layer is applied to what it should leave alone", each_equation(_called_too)),
    Mistake("the residual is missing", each_node(_without_residual)),
    Mistake("the norm stands in another place", each_node(_norm_elsewhere)),
    Mistake("the norm is missing", each_node(_unnormed)),
    Mistake("a bias is missing", each_node(_without_bias)),
    Mistake("ε stands outside the root, or is missing", each_node(_outside_root)),
    Mistake("ε is another number", each_node(_other_epsilon)),
    Mistake("the variance is divided by one less, as `torch.var` and `torch.std` do", each_node(_unbiased)),
    Mistake("the mean is not subtracted, or is a sum", each_node(_uncentred)),
    Mistake("the mean is subtracted", each_node(_centred)),
    Mistake("the gain is missing, or one is added to it", each_node(_ungained)),
    Mistake("the activation is another one, or missing", each_node(_activated_otherwise)),
    Mistake("weights are not normalised, or otherwise", each_node(_unnormalised)),
    Mistake("the softmax runs over all, and what is chosen of it is not normalised", each_node(_chosen_late)),
    Mistake("one more or one fewer is chosen", each_node(_more_or_fewer)),
    Mistake("a sign is the other", each_node(_other_sign)),
    Mistake("two tensors change places", each_pair(_alike)),
    Mistake("a tensor is read for another", each_node(_another)),
    Mistake("the weights of another call are used", each_node(_shared)),
)
