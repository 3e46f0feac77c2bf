"""Recognises norms by their terms, however they are written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from einformer.language.calls import axis_of
from einformer.language.sizes import Legend
from einformer.program import operations as op
from einformer.program.kernels import Norm
from einformer.program.operations import Function, Value, map_values
from einformer.program.scopes import Following, Scope
from einformer.program.terms import HALF, ONE, Factor, Term, Terms, spell

Apart = Callable[[Value], Terms]


def find_norms(function: Function, legend: Legend) -> dict[Value, Norm]:
    """The values of a function that are norms. What one takes in, nothing else reads."""
    looking = Looking(scope=Scope.of(function, legend))
    looking.function(function)
    return looking.found


@dataclass(slots=True)
class Looking(Following):
    """Looks at each value, and rewrites none."""

    found: dict[Value, Norm] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rule = self.look

    def look(self, value: Value) -> Value:
        """A value, which may be a norm."""
        if (kernel := read_norm(value, self.scope)) is not None:
            self.found[value] = kernel
        return value


def read_norm(value: Value, scope: Scope) -> Norm | None:
    """The norm that a value is: `γ x / sqrt(mean_d x^2 + ε)`, or `γ (x - mean_d x) / sqrt(var_d x + ε) + β`."""
    match value.operation:
        case op.Map("+", (first, second)):
            for some, bias in ((first, second), (second, first)):
                kernel = read_norm(some, scope) if scope.is_open(some) else None
                if kernel is not None and kernel.kind == "layer" and kernel.bias is None and _is_bias(bias, kernel):
                    return replace(kernel, bias=bias)
        case op.Map("*" | "/") if any(_is_root(each, scope) for each in _list_factors(value, scope)):
            for apart in (scope.read_wide, scope.read_opened):
                kernel = _read_product(apart(value), apart, scope)
                if kernel is not None and scope.covers(value, Value(kernel, value.axes)):
                    return kernel
    return None


def _is_bias(value: Value, kernel: Norm) -> bool:
    return value.axes == (kernel.letter,) and value.kind == "tensor"


def _list_factors(value: Value, scope: Scope) -> list[Value]:
    """What is multiplied or divides."""
    match value.operation:
        case op.Map("*" | "/", parts):
            return [x for part in parts for x in (_list_factors(part, scope) if scope.is_open(part) else [part])]
        case _:
            return [value]


def _is_root(value: Value, scope: Scope) -> bool:
    if value in scope.names and not scope.is_computed(value):
        return False
    match value.operation:
        case op.Map("^" | "sqrt"):
            return True
        case op.Map("*" | "/", parts):
            return any(_is_root(part, scope) for part in parts)
        case _:
            return False


def _read_product(terms: Terms, apart: Apart, scope: Scope) -> Norm | None:
    """The norm that a product is."""
    roots = [factor for factor, power in terms[0].powers.items() if power == -HALF] if len(terms) == 1 else []
    return _read_root(terms[0], roots[0], apart, scope) if len(roots) == 1 else None


def _read_root(term: Term, root: Factor, apart: Apart, scope: Scope) -> Norm | None:
    """The norm that divides by this root, if what it divides is what the root measures."""
    measured = _read_measured(apart(root.value), apart)
    if measured is None:
        return None
    x, letter, epsilon = measured
    letters = {each for factor in term.powers if factor != root for each in factor.letters}
    others = {each for each in letters if axis_of(each) == axis_of(letter)}
    if len(others) == 1 and letter not in others:
        renamed = scope.values.relettered(spell(x), {letter: (other := others.pop())})
        inner = apart(renamed) if renamed is not None else ()
        if len(x.powers) == 1 and renamed is not None:  # itself, whatever it is made of
            inner = scope.values.alone(renamed)
        x, letter = (inner[0], other) if len(inner) == 1 else (x, letter)
    gain = term.without(root).times(x, -ONE)
    if gain.number != 1 or any(power != 1 or factor.letters != {letter} for factor, power in gain.powers.items()):
        return None
    gains, plain = spell(gain) if gain.powers else None, _find_uncentred(x, letter, apart)
    argument = plain or spell(x)
    if argument.kind != "tensor" or letter not in argument.axes:
        return None
    return Norm("layer" if plain else "rms", letter, argument, epsilon, gains)


def _read_measured(terms: Terms, apart: Apart) -> tuple[Term, str, Value] | None:
    """What a root is the mean square of, over which letter, and the number that is added to it."""
    for mean, epsilon in (terms, terms[::-1]) if len(terms) == 2 else ():
        totals = [factor.value for factor in mean.powers if isinstance(factor.value.operation, op.Contract)]
        if len(totals) == 1 and isinstance(total := totals[0].operation, op.Contract) and len(total.letters) == 1:
            inside = map_values("*", list(total.factors)) if len(total.factors) > 1 else total.factors[0]
            squares = apart(inside)
            same = apart(Value(op.Reduce("mean", total.letters, inside), totals[0].axes))
            plain = all(factor.value.plain for factor in epsilon.powers)
            if plain and len(squares) == 1 and same == (mean,) and all(p == 2 for p in squares[0].powers.values()):
                return Term(ONE, dict.fromkeys(squares[0].powers, ONE)), total.letters[0], spell(epsilon)
    return None


def _find_uncentred(x: Term, letter: str, apart: Apart) -> Value | None:
    """Of `x - mean_d x` the x."""
    for factor in x.powers if len(x.powers) == 1 else ():
        terms = apart(map_values("*", [factor.value]))
        for mean in terms if len(terms) > 1 else ():
            rest = [spell(term) for term in terms if term is not mean]
            plain = rest[0] if len(rest) == 1 else map_values("+", rest)
            axes = tuple(ax for ax in plain.axes if ax != letter)
            less = map_values("*", [Value(op.Constant(-1)), Value(op.Reduce("mean", (letter,), plain), axes)])
            if apart(less) == (mean,):
                return plain
    return None
