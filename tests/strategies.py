"""Which trees can the parser make? Random ones, of every kind of node, in the form that the parser gives them.

A tree is drawn in a context: names that are letters of `LETTERS` are indices except in the legend, and a subscript holds
letters, digits and arithmetic of one-letter names. `kinds` tells of what a tree is made, so that a test can see that
nothing was left out.
"""

from __future__ import annotations

import functools
import itertools
import math
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypeVar

from hypothesis import strategies as st

from einformer.errors import Span
from einformer.language.primitives import COMPARISONS, PRIMITIVES
from einformer.language.tokens import PRIME
from einformer.language.tree import (
    Apply,
    Axis,
    Equation,
    Expression,
    Group,
    Index,
    Layer,
    Loop,
    Name,
    Node,
    Number,
    Power,
    Product,
    Quotient,
    Scalar,
    Spec,
    Statement,
    Sum,
    Tensor,
    Weight,
)

_Item = TypeVar("_Item")
LETTERS = tuple("bsdaeσ")  # the axes of every legend
LAYERS = ("Norm", "MLP", "F", "Rot2")
INSTANCES = ("pre", "post'")
WORDS = ("mod", "and", "or", "not")
OPERATORS = sorted(name for name, with_indices in PRIMITIVES if with_indices and name != "top")
FUNCTIONS = sorted(name for name, with_indices in PRIMITIVES if not with_indices and name not in (*WORDS, *COMPARISONS))
SMALL_NAMES = ("H", "D", "n", "ε", "Θ", "π", "λ", "κ", "é")
LONG_NAMES = ("W0", "Δt", "foo", "x2", "βγ")
TENSORS = ("q", "k'", "z''", "W0", "W12'", "Δ", "γ", "γ1", "out", "E", "ж")

EXPRESSIONS = frozenset(
    {"Number", "Name", "Index", "Tensor", "Group", "Sum", "Product", "Quotient", "Power", "wrapped numerator", "chain", "top"}
    | {"negative number", "infinity", "float", "primed index", "index of a name", "tensor in a slot", "arithmetic in a slot"}
    | {*WORDS, *COMPARISONS, "where", "primitive", "layer", "operator"}
)
STATEMENTS = frozenset({"Equation", "Loop", "=", "<-", "return", "note", "comment", "group on the left"})
DECLARATIONS = STATEMENTS | {
    *("Spec", "Axis", "Scalar", "Layer", "Weight", "layer", "model", "time", "trained", "buffer", "instance"),
    *("optional", "default of an axis", "default of a weight", "bound", "list of numbers", "note of a scalar", "title"),
    *("about", "below", "above weights", "comment of weights", "above a loop", "comment of a loop"),
}


@dataclass(frozen=True, slots=True)
class Context:
    """Where an expression stands: in a subscript or not, in the legend (where no bare name is an index) or not."""

    slot: bool = False
    legend: bool = False


def kinds(node: object) -> Iterator[str]:
    """The kinds of a node and of all inside it."""
    match node:
        case tuple():
            for item in node:
                yield from kinds(item)
            return
        case Node():
            yield type(node).__name__
        case _:
            return
    yield from _variants(node)
    for field in fields(node):
        value: Any = getattr(node, field.name)
        if not isinstance(value, Span):
            yield from kinds(value)


def _variants(node: Node) -> Iterator[str]:
    match node:
        case Number(value):
            yield from ["negative number"] * (value < 0) + ["infinity"] * (math.isinf(value))
            yield from ["float"] * isinstance(value, float)
        case Index(letter):
            yield from ["primed index"] * letter.endswith("'") + ["index of a name"] * letter[0].isupper()
        case Tensor(_, slots):
            yield from ["tensor in a slot"] * any(isinstance(slot, Tensor) for slot in slots)
            yield from ["arithmetic in a slot"] * any(isinstance(slot, Sum | Product | Quotient | Power) for slot in slots)
        case Quotient(Product((_,)), _):
            yield "wrapped numerator"
        case Apply("and", _, (_, Apply(name))) if name in COMPARISONS:
            yield from ["and", "chain"]
        case Apply(name, called_with):
            yield name if name in (*WORDS, *COMPARISONS, "top", "where") else "layer" if name in LAYERS else "primitive"
            yield from ["operator"] * bool(called_with)
        case Equation(left, relation, _, note, comment):
            yield from [relation, *["note"] * bool(note), *["comment"] * bool(comment)]
            yield from ["group on the left"] * (isinstance(left, Tensor) and any(isinstance(s, Group) for s in left.slots))
        case Axis():
            yield from ["default of an axis"] * (node.default is not None) + ["bound"] * (node.bound is not None)
        case Scalar():
            yield from ["list of numbers"] * isinstance(node.value, tuple) + ["note of a scalar"] * bool(node.note)
        case Loop():
            yield from ["comment of a loop"] * bool(node.comment) + ["above a loop"] * bool(node.above)
        case Weight():
            yield from ["comment of weights"] * bool(node.comment) + ["above weights"] * bool(node.above)
            yield from [node.kind, *["optional"] * node.optional, *["default of a weight"] * (node.default is not None)]
        case Layer():
            yield from [node.kind, *["time"] * (node.time is not None)]
        case Spec():
            yield from ["title"] * bool(node.title) + ["about"] * bool(node.about) + ["below"] * bool(node.below)


# ------------------------------------------------------------------------------------------------------ expressions


_COMPOUNDS = ("Sum", "Product", "minus", "Quotient", "Power", "comparison", "Tensor", "Tensor", "leaf")
_FORMULAS = (
    *_COMPOUNDS,
    "mod",
    "junction",
    "not",
    "chain",
    "where",
    "operator",
    "function",
    "function",
    "layer",
    "any call",
    "top",
)
_COMPOUND, _FORMULA = st.sampled_from(_COMPOUNDS), st.sampled_from(_FORMULAS)
_COMPARED, _JUNCTION = st.sampled_from(COMPARISONS), st.sampled_from(["and", "or"])


@functools.cache
@st.composite
def expressions(draw: st.DrawFn, depth: int = 3, context: Context = Context()) -> Expression:
    """Right sides; with a context, what stands in a legend or in a subscript."""
    kind = draw(_COMPOUND if context.slot else _FORMULA) if depth else "leaf"
    inner = expressions(depth - 1, context)
    match kind:
        case "leaf":
            return draw(_leaves(context))
        case "Tensor":
            return draw(tensors(depth, context))
        case "Sum" | "Product" as kind:
            several = tuple(draw(_several(inner, 2, 4)))
            return Sum(several) if kind == "Sum" else Product(several)
        case "minus":
            return Product((Number(-1), *draw(_several(inner, 1, 3))))
        case "Quotient":
            return Quotient(draw(_numerators(inner)), draw(inner))
        case "Power":
            return Power(draw(inner), draw(inner))
        case "comparison":
            return Apply(draw(_COMPARED), (), (draw(inner), draw(inner)))
        case "chain":
            return _chain(draw(_several(inner, 3, 4)), draw(_several(_COMPARED, 3, 3)))
        case "mod":
            return Apply("mod", (), (draw(inner), draw(inner)))
        case "junction":
            return Apply(draw(_JUNCTION), (), (draw(inner), draw(inner)))
        case "not":
            return Apply("not", (), (draw(inner),))
        case "top":
            k = draw(expressions(depth - 1, replace(context, slot=True)))
            return Apply("top", draw(indices(1)), (k, *draw(_several(inner, 1, 2))))
        case _:
            return draw(_calls(kind, inner))


@functools.cache
def _several(inner: st.SearchStrategy[_Item], least: int, most: int) -> st.SearchStrategy[list[_Item]]:
    return st.lists(inner, min_size=least, max_size=most)


@functools.cache
def _numerators(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    """What is divided; a product in parentheses is one factor of a product."""
    return st.one_of(inner, st.lists(inner, min_size=2, max_size=3).map(lambda factors: Product((Product(tuple(factors)),))))


@functools.cache
def _leaves(context: Context) -> st.SearchStrategy[Expression]:
    names = st.sampled_from(SMALL_NAMES if context.slot else SMALL_NAMES + LONG_NAMES).map(Name)
    primed = st.sampled_from(["W'", "H''"] if context.slot else ["W'", "H''", "Foo'"])
    bare = st.one_of(letters().map(lambda index: index.letter), primed).map(Name if context.legend else Index)
    return st.one_of(numbers(context), names, bare)


@functools.cache
def numbers(context: Context = Context()) -> st.SearchStrategy[Number]:
    """Numbers that can be written: at most 30 characters; in a subscript integers."""
    integers = st.one_of(st.integers(-20, 20), st.integers(-(10**29), 10**29))
    infinities = st.sampled_from([math.inf, -math.inf])
    return st.builds(Number, integers if context.slot else st.one_of(integers, st.floats(allow_nan=False), infinities))


def _chain(sides: list[Expression], signs: list[str]) -> Expression:
    """`a < b <= c`: the `and` of its links."""
    first, *links = (Apply(sign, (), pair) for sign, pair in zip(signs, itertools.pairwise(sides), strict=False))
    return functools.reduce(lambda whole, link: Apply("and", (), (whole, link)), links, first)


@functools.cache
def _calls(kind: str, inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    """Operators with letters, functions without, layers with or without; and any of them with any arguments."""
    one, some = st.tuples(inner), st.lists(inner, min_size=1, max_size=3).map(tuple)
    match kind:
        case "where":
            return st.builds(Apply, st.just("where"), st.just(()), st.tuples(inner, inner, inner))
        case "operator":
            return st.builds(Apply, st.sampled_from(OPERATORS), indices(1), one)
        case "function":
            return st.builds(Apply, st.sampled_from(FUNCTIONS), st.just(()), one)
        case "layer":
            return st.builds(Apply, st.sampled_from(LAYERS), indices(), some)
        case _:
            return st.builds(Apply, st.sampled_from([*OPERATORS, *FUNCTIONS, *LAYERS]), indices(), some)


# ------------------------------------------------------------------------------------------------------- subscripts

_SLOT = st.sampled_from(["letter", "digits", "tensor", "member", "member"])
_MEMBER = st.sampled_from(["letter", "group", "arithmetic", "arithmetic"])
_TENSOR = st.sampled_from(TENSORS)
_SMALL_TENSOR = st.sampled_from([name for name in TENSORS if len(name.rstrip("'")) == 1])
_DIGITS = st.integers(0, 99).map(Number)
_ONE_IN_THREE = st.sampled_from([True, False, False])


@functools.cache
def letters() -> st.SearchStrategy[Index]:
    """A letter with or without primes."""
    return st.builds(
        lambda letter, primes: Index(letter + primes), st.sampled_from(LETTERS), st.sampled_from(["", "", "'", "''"])
    )


@functools.cache
def indices(least: int = 0) -> st.SearchStrategy[tuple[Index, ...]]:
    """A subscript of letters."""
    return st.lists(letters(), min_size=least, max_size=3).map(tuple)


@functools.cache
@st.composite
def tensors(draw: st.DrawFn, depth: int, context: Context = Context()) -> Tensor:
    """A tensor with at least one slot; in a subscript its name has one letter."""
    name = draw(_SMALL_TENSOR if context.slot else _TENSOR)
    if not depth or draw(_ONE_IN_THREE):
        return Tensor(name, draw(indices(1)))
    return Tensor(name, tuple(draw(_several(_slots(depth, replace(context, slot=True)), 1, 4))))


@functools.cache
@st.composite
def _slots(draw: st.DrawFn, depth: int, context: Context) -> Expression:
    """slot: letter | digits | tensor | group | arithmetic"""
    match draw(_SLOT):
        case "tensor" if depth > 0:
            return draw(tensors(depth - 1, context))
        case "digits":
            return draw(_DIGITS)
        case "member":
            return draw(_members(depth, context))
        case _:
            return draw(letters())


@functools.cache
@st.composite
def _members(draw: st.DrawFn, depth: int, context: Context) -> Expression:
    """What stands in parentheses in a slot, or in a group there."""
    match draw(_MEMBER):
        case "group" if depth > 0:
            return Group(tuple(draw(_several(_members(depth - 1, context), 2, 3))))
        case "arithmetic" if depth > 0:
            return draw(expressions(depth - 1, context).filter(_is_arithmetic))
        case _:
            return draw(letters())


def _is_arithmetic(e: Expression) -> bool:
    """Would e in parentheses be read as arithmetic? What holds letters and parentheses only is a group."""
    match e:
        case Index() | Apply():
            return False
        case Name(name):
            return name[0].isupper()
        case Product(factors):
            return not all(map(_is_letter_or_enclosed, factors))
        case _:
            return True


def _is_letter_or_enclosed(e: Expression) -> bool:
    match e:
        case Name(name) | Index(name):
            return name[0].islower()
        case Number(value):
            return value < 0
        case Sum() | Product() | Quotient() | Apply():
            return True
        case _:
            return False


# ----------------------------------------------------------------------------------------------------- declarations


@functools.cache
def remarks(without: str = "") -> st.SearchStrategy[str]:
    """What may stand after `#`; without `#` after `@`."""
    characters = st.characters(exclude_characters=without, exclude_categories=["C", "Zl", "Zp"])
    return st.one_of(st.just(""), st.just("of ^2 \\ {all} 5% $x_y$ & ~ more"), st.text(characters, max_size=12).map(str.strip))


def said() -> st.SearchStrategy[tuple[str, ...]]:
    """Whole lines of comment."""
    return st.sampled_from([(), (), ("of ^2 \\ {all} 5% $x_y$ & ~ more",), ("^ is a power", "# and @ a note"), ("axes",)])


@functools.cache
def lefts() -> st.SearchStrategy[Tensor | Name]:
    """Left sides: letters and groups of letters."""
    group = indices(2).map(Group)
    slots = st.lists(st.one_of(letters(), letters(), group), min_size=1, max_size=4).map(tuple)
    return st.one_of(st.builds(Tensor, st.sampled_from(TENSORS), slots), st.sampled_from(["λ", "W0", "y'", "mask"]).map(Name))


@functools.cache
def equations(depth: int = 3) -> st.SearchStrategy[Equation]:
    """Equations that define or redefine, with notes and comments."""
    relation = st.sampled_from(["=", "<-"])
    return st.builds(Equation, lefts(), relation, expressions(depth), remarks("#"), remarks())


_KIND: st.SearchStrategy[Literal["layer", "model"]] = st.sampled_from(("layer", "model"))


@functools.cache
@st.composite
def layers(draw: st.DrawFn, depth: int = 2) -> Layer:
    """Layers and models whose body gives the output."""
    output = draw(lefts())
    returned = st.builds(Equation, st.just(output), st.just("return"), expressions(depth), remarks("#"), remarks())
    defined = st.builds(Equation, st.just(output), st.just("="), expressions(depth), remarks("#"), remarks())
    body = [replace(statement, above=draw(said())) for statement in draw(st.lists(_statements(depth), max_size=4))]
    kind = draw(_KIND)
    return Layer(
        draw(st.sampled_from(LAYERS)),
        draw(indices()),
        tuple(draw(st.lists(st.builds(Tensor, st.sampled_from(TENSORS), indices()), min_size=1, max_size=3))),
        output,
        tuple(draw(st.lists(weights(), max_size=5))),
        (*body, draw(st.one_of(returned, defined))),
        kind,
        draw(st.one_of(st.none(), letters())) if kind == "model" else None,
        draw(remarks("#")),
        draw(remarks()),
        above=draw(said()),
    )


@functools.cache
def _statements(depth: int, loops: int = 2) -> st.SearchStrategy[Statement]:
    if not loops:
        return equations(depth)
    body = st.lists(_statements(depth, loops - 1), max_size=3).map(tuple)
    count = expressions(1, Context(legend=True))
    return st.one_of(
        equations(depth),
        equations(depth),
        st.builds(Loop, letters(), count, body, st.sampled_from(["", "a turn"]), above=said()),
    )


@functools.cache
def weights() -> st.SearchStrategy[Weight]:
    """Trained, stored only, or an instance, which is a name alone."""
    kind = st.sampled_from(["trained", "trained", "buffer"])
    default = st.one_of(st.none(), expressions(1))
    instance = st.sampled_from(["Norm", "RMSNorm"])
    return st.one_of(
        st.builds(
            Weight,
            st.sampled_from(TENSORS),
            indices(),
            kind,
            st.booleans(),
            default,
            comment=st.sampled_from(["", "", "γ # δ"]),
            above=said(),
        ),
        st.builds(
            Weight,
            st.sampled_from(INSTANCES),
            kind=st.just("instance"),
            indices=st.just(()),
            layer=instance,
            comment=st.sampled_from(["", "", "γ # δ"]),
            above=said(),
        ),
    )


@functools.cache
@st.composite
def specs(draw: st.DrawFn) -> Spec:
    """Whole files."""
    size = expressions(2, Context(legend=True))
    perhaps = st.one_of(st.none(), size)
    axes = tuple(
        Axis(letter, draw(size), draw(perhaps), draw(perhaps), draw(remarks()), above=draw(said())) for letter in LETTERS
    )
    value = st.one_of(expressions(3), st.lists(numbers(), min_size=1, max_size=3).map(tuple))
    names = st.sampled_from(SMALL_NAMES + LONG_NAMES)
    scalar = st.builds(Scalar, names, indices(), value, remarks("#"), remarks(), above=said())
    title, of_all, below = draw(remarks()), tuple(draw(st.lists(scalar, max_size=4))), draw(said())
    return Spec(title, axes, of_all, tuple(draw(st.lists(layers(), max_size=3))), draw(said()) if title else (), below)


def letters_of_unicode() -> st.SearchStrategy[str]:
    """Any letter that NFKC leaves alone, that is not a prime to the eye, and that is none of the axes."""
    characters = st.characters(categories=["Lu", "Ll", "Lt", "Lm", "Lo"])
    taken = (*LETTERS, *LAYERS, PRIME)
    return characters.filter(lambda c: c.isalpha() and unicodedata.normalize("NFKC", c) == c and c not in taken)
