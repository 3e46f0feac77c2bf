"""Lists the mistakes that people make in these formulas. Each is a change of the text, tried wherever it can be made.

If code differs from its equations, and equals them with one of these changes, it makes that mistake.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

from einformer.language.calls import axis_of, slot_letters
from einformer.language.primitives import PRIMITIVES
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
    Scalar,
    Sum,
    Tensor,
)
from einformer.language.walk import equations, find_all, rebuild
from einformer.testing.forms import (
    add,
    calls,
    drop_part,
    exchange,
    find_masked,
    hides,
    is_mask,
    is_norm,
    is_plain,
    mirror,
    multiply,
    reorder,
    replace_part,
    reverse_groups,
)
from einformer.testing.places import (
    attend_elsewhere,
    count_positions_anew,
    count_positions_from_one,
    equate_members,
    read_another_place,
    read_earlier,
    read_later,
    reverse_one_side,
    start_positions_late,
    tile_heads,
)
from einformer.testing.rewrites import (
    Around,
    Rewrite,
    exchange_pairs,
    find_variants,
    rewrite_equations,
    rewrite_layers,
    rewrite_nodes,
    split_equations,
)

Variants = Iterator[Expression]
ACTIVATIONS = ("gelu", "gelutanh", "silu", "relu", "sigmoid", "tanh")
EPSILONS = (1e-5, 1e-6, 1e-8, 1e-12)
REDUCTIONS = tuple(row.name for row in PRIMITIVES.values() if row.kind == "reducing" and row.name != "sum")
MINUS = Number(-1)
ROW = "view"  # the numbers of a tensor in one row


@dataclass(frozen=True, slots=True)
class Mistake:
    """A row of the table: a mistake, and the change of the text that makes it. `{}` in its words is a name."""

    says: str
    rewrite: Rewrite


# --------------------------------------------------------------------------------------------------------- attention


def _drop_mask(e: Expression, around: Around) -> Variants:
    if isinstance(e, Sum):
        yield from (add(drop_part(e.terms, term)) for term in e.terms if is_mask(term))
    match e:
        case Apply(arguments=(_, shown, _)) if hides(e):
            yield shown


def _mirror_mask(e: Expression, around: Around) -> Variants:
    match e:
        case Apply(arguments=(condition, shown, hidden)) if hides(e):
            yield replace(e, arguments=(Apply("not", (), (condition,)), shown, hidden))
            yield replace(e, arguments=(mirror(condition), shown, hidden))


def _shift_mask(e: Expression, around: Around) -> Variants:
    match e:
        case Apply(name="<=" | "<" as name, arguments=(left, right)):
            yield replace(e, name="<=" if name == "<" else "<")
            yield replace(e, arguments=(left, add((right, Number(1 if name == "<=" else -1)))))


def _mask_after_softmax(e: Expression, around: Around) -> Variants:
    for softmax, mask, rest in find_masked(e):
        yield Product((replace(softmax, arguments=(rest,)), Apply("exp", (), (mask,))))


def _mask_with_zero(e: Expression, around: Around) -> Variants:
    for softmax, mask, rest in find_masked(e):
        yield replace(softmax, arguments=(Product((rest, Apply("exp", (), (mask,)))),))


def _transpose_mask(e: Expression, around: Around) -> Variants:
    match e:
        case Product() | Quotient() | Tensor():
            letters = dict.fromkeys(x.letter for x in find_all(Index, e))
            for one, other in itertools.combinations(letters, 2):
                if axis_of(one) == axis_of(other):
                    yield exchange(e, {one: other, other: one})


def _normalise_over_another(e: Expression, around: Around) -> Variants:
    match e:
        case Apply(name="Sm", indices=(index,)):
            for letter in slot_letters(around.equation.left):
                if letter != index.letter:
                    yield replace(e, indices=(Index(letter),))


# `mean_s` or `mean_sd` for `mean_d`, in all operators of the formula.
def _reduce_over_another(equation: Equation, around: Around) -> Iterator[Equation]:
    operators = [e for e in find_all(Apply, equation.right) if e.name in REDUCTIONS]
    for index in dict.fromkeys(index for e in operators for index in e.indices):
        for letter in (letter for letter in slot_letters(equation.left) if letter != index.letter):
            for new in ((Index(letter),), (Index(letter), index)):
                yield replace(equation, right=_reduce(equation.right, index, new))


def _reduce(e: Expression, index: Index, new: tuple[Index, ...]) -> Expression:
    match rebuild(e, lambda child: _reduce(child, index, new)):
        case Apply(name=name, indices=(old,), arguments=arguments) if name in REDUCTIONS and old == index:
            return Apply(name, new, arguments)
        case other:
            return other


def _drop_scale(e: Expression, around: Around) -> Variants:
    match e:
        case Quotient(numerator, denominator) if is_plain(denominator):
            yield numerator
        case Product(factors):
            yield from (multiply(drop_part(factors, f)) for f in factors if is_plain(f) and f not in (MINUS, Number(1)))


def _change_scale(e: Expression, around: Around) -> Variants:
    match e:
        case Quotient(numerator, denominator) if is_plain(denominator):
            yield Product((numerator, denominator))
            yield Quotient(e, denominator)
        case Apply(name="sqrt", arguments=(inner,)) if is_plain(inner):
            yield inner
            sizes = (axis.size for axis in around.spec.axes)
            yield from (replace(e, arguments=(size,)) for size in sizes if isinstance(size, Name) and size != inner)


def _regroup(equation: Equation, around: Around) -> Iterator[Equation]:
    if isinstance(equation.left, Tensor):
        for number, slot in enumerate(equation.left.slots):
            for group in reorder(slot):
                slots = (*equation.left.slots[:number], group, *equation.left.slots[number + 1 :])
                yield replace(equation, left=replace(equation.left, slots=slots))


def _regroup_inside(e: Expression, around: Around) -> Variants:
    if isinstance(e, Group):
        yield from reorder(e)


# Axes change places by a view, which moves no number, instead of a transposition: `y.view(B, S, A, H)` of y_base.
def _view_axes(equation: Equation, around: Around) -> Iterator[tuple[Equation, ...]]:
    letters = sorted(slot_letters(equation.left), key=lambda letter: letter == "e")
    for start, middle, end in itertools.combinations(range(len(letters) + 1), 3):
        one, other = letters[start:middle], letters[middle:end]
        if [axis_of(letter) for letter in one] == [axis_of(letter) for letter in other]:
            continue  # that is a transposition
        swapped = [*letters[:start], *other, *one, *letters[end:]]
        for stored, read in ((letters, swapped), (swapped, letters)):
            flat, view = (Tensor(ROW, (Group(tuple(map(Index, order))),)) for order in (stored, read))
            yield replace(equation, left=flat, relation="="), replace(equation, right=view)


# ------------------------------------------------------------------------------------------------------------ rotary


# Every group of the equation in the other order: `(hi)` for `(ih)`.
def _reverse_groups(equation: Equation, around: Around) -> Iterator[Equation]:
    left, right = reverse_groups(equation.left), reverse_groups(equation.right)
    if isinstance(left, Tensor | Name) and left != equation.left and right != equation.right:
        yield replace(equation, left=left, right=right)


def _turn_otherwise(e: Expression, around: Around) -> Variants:
    if isinstance(e, Apply) and e.name == "sin":
        yield Product((MINUS, e))


# The formula of a scalar of the text stands in its place, with a size twice or half as large, or without a factor.
def _change_scalar(equation: Equation, around: Around) -> Iterator[Equation]:
    names = {e.name for e in find_all(Tensor, equation.right)}
    for scalar in (scalar for scalar in around.spec.scalars if scalar.name in names):
        for value in find_variants(scalar.value, _change_factor, around) if isinstance(scalar.value, Expression) else ():
            yield replace(equation, right=_insert(equation.right, scalar, value))


def _insert(e: Expression, scalar: Scalar, value: Expression) -> Expression:
    if isinstance(e, Tensor) and e.name == scalar.name:
        pairs = zip(scalar.indices, e.slots, strict=True)
        return exchange(value, {old.letter: new.letter for old, new in pairs if isinstance(new, Index)})
    return rebuild(e, lambda child: _insert(child, scalar, value))


def _change_factor(e: Expression, around: Around) -> Variants:
    match e:
        case Name():
            yield Quotient(e, Number(2))
            yield Product((Number(2), e))
        case Product(factors) if len(factors) > 1:
            yield from (multiply(drop_part(factors, factor)) for factor in factors if isinstance(factor, Number))


def _drop_call(e: Expression, around: Around) -> Variants:
    if isinstance(e, Apply) and len(e.arguments) == 1 and around.callee(e.name) and not is_norm(e, around):
        yield e.arguments[0]


def _call_again(equation: Equation, around: Around) -> Iterator[Equation]:
    called = {e.name for q in equations(around.layer.body) for e in find_all(Apply, q.right)}
    for name in sorted(called):
        layer = around.callee(name)
        if layer and len(layer.formals) == 1 and not layer.weights and not calls(equation.right, name):
            yield replace(equation, right=Apply(name, (), (equation.right,)))


# ------------------------------------------------------------------------------------------- residuals, norms, biases


def _drop_residual(e: Expression, around: Around) -> Variants:
    if isinstance(e, Sum):
        own = slot_letters(around.equation.left)
        lone = [t for t in e.terms if isinstance(t, Tensor) and not around.is_weight(t.name) and slot_letters(t) == own]
        yield from (add(drop_part(e.terms, term)) for term in lone)


def _drop_bias(e: Expression, around: Around) -> Variants:
    if isinstance(e, Sum):
        lone = [t for t in e.terms if isinstance(t, Tensor) and around.is_weight(t.name)]
        yield from (add(drop_part(e.terms, term)) for term in lone)


# `z + F(Norm(z))` as `Norm(z + F(z))`, `z + Norm(F(z))` and `Norm(z) + F(Norm(z))`.
def _move_norm(e: Expression, around: Around) -> Variants:
    if not isinstance(e, Sum):
        return
    for call in (x for x in find_all(Apply, e) if is_norm(x, around)):
        (inner,) = call.arguments
        bare = replace_part(e, call, inner)
        yield replace(call, arguments=(bare,))
        if isinstance(bare, Sum):
            for term, plain in zip(e.terms, bare.terms, strict=True):
                if term != plain:
                    yield replace_part(e, term, replace(call, arguments=(plain,)))
        yield add(tuple(call if term == inner else term for term in e.terms))


def _drop_norm(e: Expression, around: Around) -> Variants:
    if isinstance(e, Apply) and is_norm(e, around):
        yield e.arguments[0]


def _move_epsilon(e: Expression, around: Around) -> Variants:
    match e:
        case Apply(name="sqrt", arguments=(Sum(terms),)):
            for small in (term for term in terms if is_plain(term)):
                rest = add(drop_part(terms, small))
                yield Sum((replace(e, arguments=(rest,)), small))
                yield replace(e, arguments=(rest,))


def _change_epsilon(e: Expression, around: Around) -> Variants:
    match e:
        case Apply(name="sqrt", arguments=(Sum(terms),)):
            for small in (term for term in terms if is_plain(term)):
                yield from (replace(e, arguments=(add((*drop_part(terms, small), Number(x))),)) for x in EPSILONS)


def _use_unbiased_variance(e: Expression, around: Around) -> Variants:
    match e:
        case Apply(name="var", indices=(index,)):
            size = next(axis.size for axis in around.spec.axes if axis.letter == axis_of(index.letter))
            yield Product((e, Quotient(size, Sum((size, MINUS)))))


def _drop_mean(e: Expression, around: Around) -> Variants:
    if isinstance(e, Sum):
        means = [t for t in e.terms if any(x.name == "mean" for x in find_all(Apply, t))]
        yield from (add(drop_part(e.terms, term)) for term in means if len(e.terms) > 1)
    if isinstance(e, Apply) and e.name == "mean":
        yield replace(e, name="sum")


def _subtract_mean(e: Expression, around: Around) -> Variants:
    match e:
        case Apply(name="mean", indices=indices, arguments=(Power(base, Number(value=2)),)):
            yield Apply("var", indices, (base,))


def _drop_gain(e: Expression, around: Around) -> Variants:
    if isinstance(e, Product):
        gains = [f for f in e.factors if isinstance(f, Tensor) and around.is_weight(f.name) and len(f.slots) == 1]
        yield from (multiply(drop_part(e.factors, f)) for f in gains)
        yield from (replace_part(e, f, Sum((Number(1), f))) for f in gains)


# ----------------------------------------------------------------------------------------------------- MLPs, experts


def _change_activation(e: Expression, around: Around) -> Variants:
    if isinstance(e, Apply) and e.name in ACTIVATIONS:
        yield from (replace(e, name=name) for name in ACTIVATIONS if name != e.name)
        yield e.arguments[0]


def _drop_normalisation(e: Expression, around: Around) -> Variants:
    match e:
        case Quotient(numerator, Apply(name="sum")):
            yield numerator
        case Apply(name="Sm", arguments=(inner,)):
            yield inner
            yield Apply("sigmoid", (), (inner,))


# `Sm(where(c, r, -inf))` as `where(c, Sm(r), 0)`: the sum runs over all, of which some are kept.
def _choose_late(e: Expression, around: Around) -> Variants:
    match e:
        case Apply(name="Sm", arguments=(Apply(name="where", arguments=(condition, shown, _)) as inner,)) if hides(inner):
            yield Apply("where", (), (condition, replace(e, arguments=(shown,)), Number(0)))


def _change_count(e: Expression, around: Around) -> Variants:
    match e:
        case Apply(name="top", arguments=(count, *rest)):
            yield from (replace(e, arguments=(add((count, Number(step))), *rest)) for step in (-1, 1))


def _change_sign(e: Expression, around: Around) -> Variants:
    match e:
        case Product(factors) if MINUS in factors:
            yield multiply([factor for factor in factors if factor != MINUS])


# Pairs of tensors that the layer reads, over the same axes.
def _pair_alike(layer: Layer) -> Iterator[tuple[str, str]]:
    read = _list_reads(layer)
    yield from ((a, b) for a, b in itertools.combinations(read, 2) if sorted(read[a]) == sorted(read[b]) and read[a])


def _list_reads(layer: Layer) -> dict[str, tuple[str, ...]]:
    read = [e for q in equations(layer.body) for e in find_all(Tensor, q.right)]
    return {e.name: tuple(map(axis_of, slot_letters(e))) for e in read}


def _use_another(e: Expression, around: Around) -> Variants:
    if isinstance(e, Tensor):
        read = _list_reads(around.layer)
        yield from (replace(e, name=name) for name in read if name != e.name and read[name] == read.get(e.name))


def _share(e: Expression, around: Around) -> Variants:
    instances = {w.name: w.layer for w in around.layer.weights if w.kind == "instance"}
    match e:
        case Apply(name=own) if own in instances:
            others = (name for name, layer in instances.items() if layer == instances[own] and name != own)
            yield from (replace(e, name=name) for name in others)


TILED = Mistake("heads are repeated by `repeat` where `repeat_interleave` is meant", rewrite_layers(tile_heads))
VIEWED = Mistake("two axes change places by a view where a transposition is meant", split_equations(_view_axes))
ANEW = Mistake("positions do not go on after the first part, as in a cache", split_equations(count_positions_anew))
MISTAKES = (
    Mistake("the scores are not scaled, or a factor is missing", rewrite_nodes(_drop_scale)),
    Mistake("the scale is another one", rewrite_nodes(_change_scale)),
    Mistake("the mask is missing", rewrite_nodes(_drop_mask)),
    Mistake("the mask is inverted", rewrite_nodes(_mirror_mask)),
    Mistake("a bound is off by one", rewrite_nodes(_shift_mask)),
    Mistake("the mask is applied after the softmax, whose rows then do not sum to one", rewrite_nodes(_mask_after_softmax)),
    Mistake("what is masked has the score 0, not -inf", rewrite_nodes(_mask_with_zero)),
    Mistake("the softmax runs over another index", rewrite_nodes(_normalise_over_another)),
    Mistake("a mean or a variance runs over another index", rewrite_equations(_reduce_over_another)),
    Mistake("another axis takes the place of positions in the attention", rewrite_layers(attend_elsewhere)),
    Mistake("queries and keys change places: scores, weights or a mask are transposed", rewrite_nodes(_transpose_mask)),
    Mistake("axes are merged in the other order", rewrite_equations(_regroup)),
    Mistake("axes are split in the other order", rewrite_nodes(_regroup_inside)),
    VIEWED,
    TILED,
    Mistake(
        "the rotary pairs are the others: neighbours for halves, or halves for neighbours", rewrite_equations(_reverse_groups)
    ),
    Mistake("the rotation reads pairs in one order and writes them in the other", rewrite_equations(reverse_one_side)),
    Mistake("the rotation turns the other way", rewrite_nodes(_turn_otherwise)),
    Mistake("both members of a pair have the same sign", rewrite_nodes(equate_members)),
    Mistake("positions count from one", split_equations(count_positions_from_one)),
    Mistake("positions are one too small", split_equations(start_positions_late)),
    ANEW,
    Mistake("what a cache holds is read one position too early", rewrite_layers(read_earlier)),
    Mistake("what a cache holds is read one position too late", rewrite_layers(read_later)),
    Mistake("another place of an axis is read", rewrite_nodes(read_another_place)),
    Mistake("the formula of a scalar is another one", rewrite_equations(_change_scalar)),
    Mistake("a layer is not applied", rewrite_nodes(_drop_call)),
    Mistake("a layer is applied to what it should leave alone", rewrite_equations(_call_again)),
    Mistake("the residual is missing", rewrite_nodes(_drop_residual)),
    Mistake("the norm stands in another place", rewrite_nodes(_move_norm)),
    Mistake("the norm is missing", rewrite_nodes(_drop_norm)),
    Mistake("a bias is missing", rewrite_nodes(_drop_bias)),
    Mistake("ε stands outside the root, or is missing", rewrite_nodes(_move_epsilon)),
    Mistake("ε is another number", rewrite_nodes(_change_epsilon)),
    Mistake("the variance is divided by one less, as `torch.var` and `torch.std` do", rewrite_nodes(_use_unbiased_variance)),
    Mistake("the mean is not subtracted, or is a sum", rewrite_nodes(_drop_mean)),
    Mistake("the mean is subtracted", rewrite_nodes(_subtract_mean)),
    Mistake("the gain is missing, or one is added to it", rewrite_nodes(_drop_gain)),
    Mistake("the activation is another one, or missing", rewrite_nodes(_change_activation)),
    Mistake("weights are not normalised, or otherwise", rewrite_nodes(_drop_normalisation)),
    Mistake("the softmax runs over all, and what is chosen of it is not normalised", rewrite_nodes(_choose_late)),
    Mistake("one more or one fewer is chosen", rewrite_nodes(_change_count)),
    Mistake("a sign is the other", rewrite_nodes(_change_sign)),
    Mistake("`{}` and `{}` change places", exchange_pairs(_pair_alike)),
    Mistake("a tensor is read for another", rewrite_nodes(_use_another)),
    Mistake("the weights of another call are used", rewrite_nodes(_share)),
)
PLAIN = tuple(mistake for mistake in MISTAKES if mistake is not VIEWED)  # a view has many forms, and is tried late
ALONE = tuple(mistake for mistake in PLAIN if mistake is not ANEW)  # a cache concerns all calls
