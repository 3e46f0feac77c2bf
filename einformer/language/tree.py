"""Defines the tree of a specification: seventeen kinds of node, seven declarations and ten expressions.

Nodes are data: frozen, compared by content (spans apart), without methods that compute. An interpreter matches over
`Expression` or `Statement` and ends with `assert_never`, so that a new node fails the type checker until it is handled.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from einformer.errors import NOWHERE, Span


@dataclass(frozen=True, slots=True)
class Node:
    """Every node knows where it was written; equality does not."""

    span: Span = field(default=NOWHERE, kw_only=True, compare=False, repr=False)


# ------------------------------------------------------------------------------------------------------ expressions


@dataclass(frozen=True, slots=True)
class Number(Node):
    """A literal: `2`, `1e-5`, `inf`. A leading minus belongs to it."""

    value: int | float


@dataclass(frozen=True, slots=True)
class Name(Node):
    """A bare name that is not an index: a size (`H`), a scalar (`ε`), a constant (`π`)."""

    name: str


@dataclass(frozen=True, slots=True)
class Index(Node):
    """An index: the letter of its axis with its primes, `s'`. As a value it is its own number (R4)."""

    letter: str


@dataclass(frozen=True, slots=True)
class Tensor(Node):
    """A name with one slot for each axis: `E_{x_bs d}` has the slots `x_bs` and `d`."""

    name: str
    slots: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Group(Node):
    """Several indices in one slot, row-major: `(ae)` is the number a H + e."""

    members: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Sum(Node):
    """`a + b - c`; a subtracted term starts with a negative number."""

    terms: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Product(Node):
    """`a b c`. A product in parentheses is one factor and stays a product of its own (section 2)."""

    factors: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Quotient(Node):
    """`a b / c`: for the scope of sums a product whose last factor is the denominator."""

    numerator: Expression
    denominator: Expression


@dataclass(frozen=True, slots=True)
class Power(Node):
    """`base^exponent`."""

    base: Expression
    exponent: Expression


@dataclass(frozen=True, slots=True)
class Apply(Node):
    """A primitive or a layer applied: `Sm_s'(…)`, `where(…)`, `s' <= s`, `top_{T,x}(r)` as `top`, (x), (T, r)."""

    name: str
    indices: tuple[Index, ...]
    arguments: tuple[Expression, ...]


Expression = Number | Name | Index | Tensor | Group | Sum | Product | Quotient | Power | Apply

# ----------------------------------------------------------------------------------------------------- declarations


@dataclass(frozen=True, slots=True)
class Remarked(Node):
    """A statement on its own line, with the comment lines above it."""

    above: tuple[str, ...] = field(default=(), kw_only=True)


@dataclass(frozen=True, slots=True)
class Axis(Remarked):
    """`e: H = D / A`: the letter, its size, the default that a config may replace, and the bound of `s: S <= K`."""

    letter: str
    size: Expression
    default: Expression | None = None
    bound: Expression | None = None
    comment: str = ""


@dataclass(frozen=True, slots=True)
class Scalar(Remarked):
    """`ε = 1e-5`, `θ_h = Θ^(-2 h / H)`, `W_l = [128, inf]`: a value that a config may replace (R8)."""

    name: str
    indices: tuple[Index, ...]
    value: Expression | tuple[Number, ...]
    note: str = ""
    comment: str = ""


@dataclass(frozen=True, slots=True)
class Weight(Remarked):
    """`U_vd? = E_vd`: trained; a buffer: stored only; an instance, `pre: RMSNorm`: the weights of a layer (R7, R9)."""

    name: str
    indices: tuple[Index, ...]
    kind: Literal["trained", "buffer", "instance"] = "trained"
    optional: bool = False
    default: Expression | None = None
    layer: str = ""
    comment: str = ""


@dataclass(frozen=True, slots=True)
class Equation(Remarked):
    """`left = right`, `left <- right` (reads the old value, R5), `return right` (left is the output)."""

    left: Tensor | Name
    relation: Literal["=", "<-", "return"]
    right: Expression
    note: str = ""
    comment: str = ""


@dataclass(frozen=True, slots=True)
class Loop(Remarked):
    """`for l < L:` and the statements in it."""

    index: Index
    count: Expression
    body: tuple[Statement, ...]
    comment: str = ""


@dataclass(frozen=True, slots=True)
class Layer(Remarked):
    """An operator on the indices it names; a model, when it has a `time` axis in which it is causal (R6, R7)."""

    name: str
    indices: tuple[Index, ...]
    formals: tuple[Tensor, ...]
    output: Tensor | Name
    weights: tuple[Weight, ...]
    body: tuple[Statement, ...]
    kind: Literal["layer", "model"] = "layer"
    time: Index | None = None
    note: str = ""
    comment: str = ""


@dataclass(frozen=True, slots=True)
class Spec(Node):
    """A file: the legend (axes, scalars), then layers and models; the lines of comment at its head and at its end."""

    title: str
    axes: tuple[Axis, ...]
    scalars: tuple[Scalar, ...]
    layers: tuple[Layer, ...]
    about: tuple[str, ...] = ()
    below: tuple[str, ...] = ()


Statement = Equation | Loop
Declaration = Spec | Axis | Scalar | Weight | Layer | Equation | Loop
