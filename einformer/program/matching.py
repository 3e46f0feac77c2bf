"""Recognises norms, linear maps and reversed axes by their terms, however they are written."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace

from einformer.language.calls import axis_of
from einformer.language.sizes import Legend
from einformer.program import operations as op
from einformer.program.kernels import CrossEntropy, LinearMap, Norm, Reversed
from einformer.program.operations import Axes, Function, Value, add, contract, join_labels, map_values, multiply
from einformer.program.orders import estimate_size, order_pairs
from einformer.program.rewrite import FunctionScope, Rewriting, walk
from einformer.program.terms import HALF, ONE, Factor, Term, Terms, identity, spell, spell_factors

Read = Callable[[Value], Terms]  # the terms of a value, with some names in it opened

# ---------------------------------------------------------------------------------------------------------------- norms


# The values of a function that are norms. Nothing else reads the values inside a norm.
def find_norms(function: Function, legend: Legend) -> dict[Value, Norm]:
    scope, norms = FunctionScope.of(function, legend), dict[Value, Norm]()

    def look(value: Value) -> Value:
        if (norm := read_norm(value, scope)) is not None:
            norms[value] = norm
        return value

    Rewriting(look, descending=True, scope=scope).rewrite_function(function)
    return norms


# The norm that a value is: `γ x / sqrt(mean_d x^2 + ε)`, or `γ (x - mean_d x) / sqrt(var_d x + ε) + β`.
def read_norm(value: Value, scope: FunctionScope) -> Norm | None:
    match value.operation:
        case op.Map("+", (first, second)):
            for some, bias in ((first, second), (second, first)):
                norm = read_norm(some, scope) if scope.is_open(some) else None
                plain = norm is not None and norm.kind == "layer" and norm.bias is None
                if norm is not None and plain and bias.axes == (norm.letter,) and bias.kind == "tensor":
                    return replace(norm, bias=bias)
        case op.Map("*" | "/") if _has_root(value, scope):
            for opens in (scope.is_computed, scope.is_open):
                norm = _read_product(functools.partial(scope.read, opens=opens), value, scope)
                if norm is not None and scope.covers(value, Value(norm, value.axes)):
                    return norm
    return None


# The reason is empty where a value is not a product that divides by the root of a mean square.
def explain_norm(value: Value, scope: FunctionScope) -> str:
    read = functools.partial(scope.read, opens=scope.is_computed)
    terms = read(value) if isinstance(value.operation, op.Map) and _has_root(value, scope) else ()
    roots = [factor for term in terms for factor, power in term.powers.items() if power == -HALF]
    if len(terms) != 1 or not any(_read_measured(read(root.value), read) for root in roots):
        return ""
    if any(read_norm(inner, scope) for inner in walk(*value.operands, closed=scope.names)):  # a part of it is one
        return ""
    several = "a name in it is read more than once"
    return several if _read_product(read, value, scope) else "its factors are not the vector of the mean square and a gain"


def _has_root(value: Value, scope: FunctionScope) -> bool:
    match value.operation:
        case op.Map("^" | "sqrt"):
            return True
        case op.Map("*" | "/", parts):
            return any(_has_root(part, scope) for part in parts if part not in scope.names or scope.is_computed(part))
        case _:
            return False


# A norm divides by one root, and the root measures the dividend.
def _read_product(read: Read, value: Value, scope: FunctionScope) -> Norm | None:
    terms = read(value)
    roots = [factor for factor, power in terms[0].powers.items() if power == -HALF] if len(terms) == 1 else []
    measured = _read_measured(read(roots[0].value), read) if len(roots) == 1 else None
    if measured is None:
        return None
    rest = terms[0].without(roots[0])
    x, letter, epsilon = _move_letter(*measured, rest, read, scope)
    gain, plain = rest.times(x, -ONE), _find_uncentred(x, letter, read)
    if gain.number != 1 or any(power != 1 or factor.letters != {letter} for factor, power in gain.powers.items()):
        return None
    argument = plain or spell(x)
    if argument.kind != "tensor" or letter not in argument.axes:
        return None
    return Norm("layer" if plain else "rms", letter, argument, epsilon, spell(gain) if gain.powers else None)


# Returns the vector of the mean square in a root, the letter of the mean, and the number that is added.
def _read_measured(terms: Terms, read: Read) -> tuple[Term, str, Value] | None:
    for mean, epsilon in (terms, terms[::-1]) if len(terms) == 2 else ():
        match [factor.value for factor in mean.powers if isinstance(factor.value.operation, op.Einsum)]:
            case [Value(operation=op.Einsum((letter,), factors), axes=axes)]:
                inside = multiply(factors)
                squares, same = read(inside), read(Value(op.Reduce("mean", (letter,), inside), axes))
                plain = all(factor.value.plain for factor in epsilon.powers)
                if plain and len(squares) == 1 and same == (mean,) and all(p == 2 for p in squares[0].powers.values()):
                    return Term(ONE, dict.fromkeys(squares[0].powers, ONE)), letter, spell(epsilon)
    return None


# The vector takes the letter that the dividend has in its place.
def _move_letter(
    x: Term, letter: str, epsilon: Value, divided: Term, read: Read, scope: FunctionScope
) -> tuple[Term, str, Value]:
    letters = {other for factor in divided.powers for other in factor.letters if axis_of(other) == axis_of(letter)}
    if len(letters) != 1 or letter in letters:
        return x, letter, epsilon
    (other,) = letters
    renamed = scope.values.reletter(spell(x), {letter: other})
    if renamed is None:
        return x, letter, epsilon
    inner = scope.values.alone(renamed) if len(x.powers) == 1 else read(renamed)  # itself, whatever it is made of
    return (inner[0], other, epsilon) if len(inner) == 1 else (x, letter, epsilon)


# Returns the x of `x - mean_d x`.
def _find_uncentred(x: Term, letter: str, read: Read) -> Value | None:
    for factor in x.powers if len(x.powers) == 1 else ():
        terms = read(map_values("*", [factor.value]))
        for mean in terms if len(terms) > 1 else ():
            plain = add([spell(term) for term in terms if term is not mean])
            axes = tuple(other for other in plain.axes if other != letter)
            less = map_values("*", [Value(op.Constant(-1)), Value(op.Reduce("mean", (letter,), plain), axes)])
            if read(less) == (mean,):
                return plain
    return None


# ---------------------------------------------------------------------------------------------------------- linear maps


# A value as a linear map, times the factors around it, or plus its bias and the other terms.
def read_linear(value: Value, scope: FunctionScope) -> Value | None:
    match value.operation:
        case op.Map("+", terms):
            return _read_biased(terms, scope)
        case op.Einsum() if (scaled := _read_scaled(value, scope)) is not None:
            whole, around = scaled
            return spell(scope.values.alone(whole)[0].times(around))
        case _:
            return None


# The reason is empty where a value is not a product of a tensor and a trained matrix.
def explain_linear(value: Value, scope: FunctionScope) -> str:
    match value.operation:
        case op.Einsum(letters, factors) if len(terms := scope.read(multiply(factors))) == 1:
            product, summed = terms[0], frozenset(letters)
        case _:
            return ""
    tensors = (f for f in product.powers if f.value.kind == "tensor" and find_weight(f.value, scope) is None)
    read = frozenset[str]().union(*(factor.letters for factor in tensors))
    for factor, weight in ((f, find_weight(f.value, scope)) for f in product.powers if f.letters & read & summed):
        shared = " and ".join(f"`{letter}`" for letter in sorted(factor.letters & read - summed))
        if weight is not None and shared:
            return f"`{scope.names[weight]}` is another for each {shared}"
        if weight is not None and product.powers[factor] == 1 and not _is_last(factor, product, summed, scope):
            return "other factors are multiplied first, which is less work"
        if weight is not None and factor.letters <= summed:
            return f"`{scope.names[weight]}` is a vector"
    return ""


# The notes write features before heads, `q_bsea`; memory is faster the other way round.
def put_heads_first(some: Axes) -> Axes:
    return some[1:] + some[:1]


def find_weight(value: Value, scope: FunctionScope) -> Value | None:
    match value.operation:
        case op.View(argument, old, new) if all(len(label) == 1 for label in (*old, *new)):
            value = argument
    return value if value in scope.learned else None


# Returns the other factors, and the sum over letters among the factors that open.
def split_sum(product: Term, opens: Callable[[Value], bool] = lambda _: True) -> tuple[Term, Value, op.Einsum] | None:
    factors = [factor for factor, power in product.powers.items() if power == 1 and opens(factor.value)]
    match [(factor, total) for factor in factors if isinstance(total := factor.value.operation, op.Einsum)]:
        case [(factor, total)]:
            return product.without(factor), factor.value, total
        case _:
            return None


def _read_scaled(value: Value, scope: FunctionScope) -> tuple[Value, Term] | None:
    terms = scope.read(value)
    split = split_sum(terms[0], lambda inner: inner is value or inner not in scope.names) if len(terms) == 1 else None
    if split is None:
        return None
    around, whole, total = split
    inside = scope.read(multiply(total.factors))
    plain = len(inside) == 1 and inside[0].number == 1
    linear = _read_map(inside[0], frozenset(total.letters), scope) if plain else None
    if linear is None:
        return None
    rest = tuple(letter for letter in whole.axes if letter not in linear.rows[0])
    return Value(linear, rest + linear.rows[0], "tensor", value.span), around


# One of the factors is the matrix, all others are its input.
def _read_map(product: Term, summed: frozenset[str], scope: FunctionScope) -> LinearMap | None:
    for weight in (f for f, power in product.powers.items() if power == 1 and find_weight(f.value, scope) is not None):
        rest, own = product.without(weight), weight.value.axes
        rows, columns = (tuple(letter for letter in own if (letter in summed) == inside) for inside in (False, True))
        letters = {letter for factor in rest.powers for letter in factor.letters}
        learned = all(find_weight(factor.value, scope) is not None for factor in rest.powers)
        plain = rows and columns and not learned and letters.isdisjoint(rows) and summed <= letters
        if plain and _is_last(weight, product, summed, scope):
            before = tuple(sorted(summed - set(columns)))
            x = contract(before, tuple(spell_factors(rest))) if before else spell(rest)
            return LinearMap(x, (weight.value,), (), (put_heads_first(columns),), (put_heads_first(rows),))
    return None


# If the others have the same of the summed letters, no order is better.
def _is_last(weight: Factor, product: Term, summed: frozenset[str], scope: FunctionScope) -> bool:
    factors = list(product.powers)
    if summed <= weight.letters and all(summed <= factor.letters or not summed & factor.letters for factor in factors):
        return True
    size = functools.partial(estimate_size, scope.values.legend)
    return factors.index(weight) in order_pairs([factor.letters for factor in factors], summed, size)[-1]


def _read_biased(terms: tuple[Value, ...], scope: FunctionScope) -> Value | None:
    for term in terms:
        match _read_scaled(term, scope) if isinstance(term.operation, op.Einsum) and scope.is_open(term) else None:
            case Value(operation=LinearMap() as linear) as value, around if identity((around,)) == identity((Term(),)):
                for bias in terms:
                    if find_weight(bias, scope) is not None and set(bias.axes) == set(linear.rows[0]):
                        whole = replace(value, operation=replace(linear, biases=(bias,)))
                        rest = [other for other in terms if other not in (term, bias)]
                        return map_values("+", [add(rest), whole]) if rest else whole
    return None


# -------------------------------------------------------------------------------------------------------- cross-entropy


# `lse_v y_bv - y_{b t_b}`, or its mean over all letters.
def read_loss(value: Value, scope: FunctionScope) -> Value | None:
    ((sign, inner),) = _list_signed(value, scope, closed=True)
    match inner.operation:
        case op.Reduce("mean", letters, argument) if set(letters) == set(argument.axes):
            mean, terms = True, [(sign * own, term) for own, term in _list_signed(argument, scope)]
        case _:
            mean, terms = False, _list_signed(value, scope)
    match sorted(terms, key=lambda term: term[0]):
        case [(-1, picked), (1, total)] if (kernel := _read_picked(total, picked)) is not None:
            loss = replace(value, operation=replace(kernel, mean=mean))
            return loss if scope.covers(value, loss) else None
        case _:
            return None


# The element of a sum is the sum of elements; a closed sum is one term.
def _list_signed(value: Value, scope: FunctionScope, closed: bool = False) -> list[tuple[int, Value]]:
    match value.operation:
        case op.Map("*", (minus, rest)) if minus.operation == op.Constant(-1):
            return [(-sign, term) for sign, term in _list_signed(rest, scope, closed)]
        case op.Map("+", terms) if not closed and scope.is_open(value):
            return [part for term in terms for part in _list_signed(term, scope)]
        case op.Gather(Value(operation=op.Map("+")) as total) as gather if not closed and scope.is_open(total):
            return [(sign, _pick(value, gather, term)) for sign, term in _list_signed(total, scope)]
        case _:
            return [(1, value)]


def _pick(value: Value, gather: op.Gather, term: Value) -> Value:
    own = tuple(slot for slot in gather.slots if not set(slot.label).isdisjoint(term.axes))
    return term if all(slot.is_whole for slot in own) else replace(value, operation=replace(gather, argument=term, slots=own))


# All other axes are read at their own numbers.
def _read_picked(total: Value, picked: Value) -> CrossEntropy | None:
    match total.operation, picked.operation:
        case op.Reduce("lse", (letter,), scores), op.Gather(argument, slots) if argument is scores:
            match [slot for slot in slots if slot.label == (letter,) or not slot.is_whole]:
                case [op.Slot((own,), target, False, proved)] if own == letter and set(target.axes) <= set(total.axes):
                    return CrossEntropy(scores, letter, target, proved)
    return None


# -------------------------------------------------------------------------------------------------------- reversed axes


# `x_{s((1 - i)h)}` of two i: the tensor under the letters s, i, h, along i backwards.
def read_reversed(value: Value, legend: Legend) -> Value | None:
    if not isinstance(value.operation, op.Gather):
        return None
    argument, labels = value.operation.argument, value.operation.labels
    members = [[_read_member(x, legend) for x in _list_members(number)] for number in value.operation.numbers]
    new = tuple(tuple(letter for letter, _ in group) for group in members)
    turned, axes = [letter for group in members for letter, turns in group if turns], join_labels(new)
    if len(turned) != 1 or "" in axes or len(set(axes)) < len(axes) or (turned[0],) in new:
        return None
    view = Value(op.View(argument, labels, new), axes, argument.kind, value.span)
    return Value(Reversed(view, turned[0]), axes, argument.kind, value.span)


# `a H + e` has the members a and e.
def _list_members(number: Value) -> list[Value]:
    match number.operation:
        case op.Map("+", (Value(operation=op.Map("*", (first, Value(operation=op.Constant(str()))))), last)):
            return [*_list_members(first), last]
        case _:
            return [number]


# `i` runs forwards, and `1 - i` backwards, where there are two i.
def _read_member(member: Value, legend: Legend) -> tuple[str, bool]:
    match member.operation:
        case op.Iota(letter):
            return letter, False
        case op.Map("+", (Value(op.Constant(int() as last)), Value(op.Map("*", (minus, Value(op.Iota(letter))))))):
            whole = legend.is_bound(letter) and legend.length(letter) == last + 1
            return letter if whole and minus.operation == op.Constant(-1) else "", True
        case _:
            return "", True
