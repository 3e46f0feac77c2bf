"""Several operations as one function of PyTorch: norms, linear maps, attention, and the experts that are chosen.

`fusing.py` puts them in the place of values; each is a value like others, so that later rewrites can follow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from einformer.program.operations import Axes, Rewritten, Value

PAIR = "a pair of a row and one of its experts"  # the index of values that are computed for chosen experts
JOINT = "the rows of several matrices"  # the index of a product of several maps


@dataclass(frozen=True, slots=True)
class Taken(Rewritten):
    """The value of a line that a kernel computes: only the equation of the line is left."""


@dataclass(frozen=True, slots=True)
class Norm(Rewritten):
    """Root mean square or layer norm of the argument over one letter, times a gain, plus a bias."""

    kind: Literal["rms", "layer"]
    letter: str
    argument: Value
    epsilon: Value
    gain: Value | None = None
    bias: Value | None = None


@dataclass(frozen=True, slots=True)
class LinearMap(Rewritten):
    """`sum_I (x W) + bias`: the columns of W are the letters I, its rows are its outputs. Several weights are one matrix,
    each under letters of its own; the columns of the first are those of x.

    With `experts` there is a matrix for each of them, and x has a row for each of the `pairs`.
    """

    argument: Value
    weights: tuple[Value, ...]
    biases: tuple[Value, ...]
    columns: tuple[Axes, ...]
    rows: tuple[Axes, ...]
    experts: Axes = ()
    pairs: Value | None = None


@dataclass(frozen=True, slots=True)
class Part(Rewritten):
    """The part of one weight in a product with several."""

    argument: Value
    number: int


@dataclass(frozen=True, slots=True)
class Attention(Rewritten):
    """`sum_s' Dr(Sm_s'(q k c + m)) v`: as scaled_dot_product_attention computes it; several products of scores are added.

    The `features` of each query and key are summed; `scale` is none where it is the root of one over their size. A mask that
    is `causal` is no operand. A `sink` is the score of one more key, whose value is zero. A `cap` is computed of the `Score`,
    before the mask is added. The result has the axes batch, heads, groups (heads that share keys), position, put.
    """

    queries: tuple[Value, ...]
    keys: tuple[Value, ...]
    features: tuple[Axes, ...]
    value: Value
    scale: Value | None
    mask: Value | None
    sink: Value | None
    dropout: Value | None
    causal: bool
    batch: Axes
    heads: Axes
    groups: Axes
    position: str
    over: str
    put: str
    cap: Value | None = None


@dataclass(frozen=True, slots=True)
class Score(Rewritten):
    """The product of a query and a key, inside what is computed of it."""


CHUNK = 64  # positions


@dataclass(frozen=True, slots=True)
class Chunked(Rewritten):
    """`y_s = sum_n q_s h_s`, where `h_s = a_s h_(s-1) + k_s (v_s + g_s sum_n p_s h_(s-1))`: so many positions at a time.

    The letters n are `summed`, those `put` belong to v alone, all others are `shared`. The result has the axes shared, s, put.
    """

    query: Value
    key: Value
    value: Value
    decay: Value | None
    probe: Value | None
    gain: Value | None
    letter: str
    summed: Axes
    shared: Axes
    put: Axes


@dataclass(frozen=True, slots=True)
class CrossEntropy(Rewritten):
    """The negative logarithm of the softmax of scores over a letter, at a target; or the mean over all other letters."""

    scores: Value
    letter: str
    target: Value
    proved: bool  # does the target lie inside the axis?
    mean: bool = False


@dataclass(frozen=True, slots=True)
class Reversed(Rewritten):
    """A tensor read along an axis from the last number to the first."""

    argument: Value
    letter: str


@dataclass(frozen=True, slots=True)
class Routed(Rewritten):
    """The pairs of a row and an expert that is chosen for it by a weight.

    Where experts are split over an axis of the mesh, these are the pairs of a rank's own ones; the weight is that of all.
    """

    weight: Value
    count: Value
    rows: Axes
    letter: str
    mesh: str = ""


@dataclass(frozen=True, slots=True)
class Picked(Rewritten):
    """A value for each row, each expert, or each of both, at the pairs."""

    argument: Value
    pairs: Value


@dataclass(frozen=True, slots=True)
class Gathered(Rewritten):
    """The sum over the chosen experts of each row of a value for pairs."""

    argument: Value
    pairs: Value
