"""Does the package take every well-formed text? Random ones check, print and run, and mean what plain loops make of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from random import Random
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from numpy.typing import NDArray

import einformer
from einformer.architectures.texts import library
from einformer.errors import Source
from einformer.language import parser, tree
from einformer.language.primitives import PRIMITIVES
from einformer.language.tree import Apply, Axis, Equation, Expression, Index, Layer, Loop, Name, Node, Number, Scalar, Weight
from einformer.language.walk import children, rebuild, subexpressions
from einformer.objects import Model
from einformer.program.causality import check_spec
from tests import arrays
from tests.heads import output_letters
from tests.oracles import loops
from tests.refusals import findings_of
from tests.well_formed import Text, texts, written

Array = NDArray[Any]

PRIMES = (3, 5, 7, 2, 11, 13, 17, 19, 23, 29)
SMALL = (2, 3, 2, 3)  # loops over scalars see every combination of indices
TOLERANCE = 1e-9
TEXT = "axes\n  d: D\nlayer F(z_d) -> z_d:\n  return z_d^2\n"

NODES = {
    "Spec", "Axis", "Scalar", "Weight", "Layer", "Equation", "Loop",
    "Number", "Name", "Index", "Tensor", "Group", "Sum", "Product", "Quotient", "Power", "Apply",
}  # fmt: skip
FORMS: dict[str, Callable[[Any], bool]] = {
    "axis with a default": lambda node: isinstance(node, Axis) and node.default is not None,
    "axis with a bound": lambda node: isinstance(node, Axis) and node.bound is not None,
    "axis of a number": lambda node: isinstance(node, Axis) and isinstance(node.size, Number),
    "scalar with an index": lambda node: isinstance(node, Scalar) and bool(node.indices),
    "scalar that is a list": lambda node: isinstance(node, Scalar) and isinstance(node.value, tuple),
    "trained": lambda node: isinstance(node, Weight) and node.kind == "trained",
    "buffer": lambda node: isinstance(node, Weight) and node.kind == "buffer",
    "instance": lambda node: isinstance(node, Weight) and node.kind == "instance",
    "optional": lambda node: isinstance(node, Weight) and node.optional and node.default is None,
    "tie": lambda node: isinstance(node, Weight) and not node.optional and node.default is not None,
    "optional tie": lambda node: isinstance(node, Weight) and node.optional and node.default is not None,
    "layer": lambda node: isinstance(node, Layer) and node.kind == "layer",
    "model": lambda node: isinstance(node, Layer) and node.kind == "model" and node.time is None,
    "causal model": lambda node: isinstance(node, Layer) and node.time is not None,
    "layer with a subscript": lambda node: isinstance(node, Layer) and bool(node.indices),
    "loop in a loop": lambda node: isinstance(node, Loop) and any(isinstance(inner, Loop) for inner in node.body),
    "=": lambda node: isinstance(node, Equation) and node.relation == "=",
    "<-": lambda node: isinstance(node, Equation) and node.relation == "<-",
    "return": lambda node: isinstance(node, Equation) and node.relation == "return",
    "left side without a subscript": lambda node: isinstance(node, Equation) and isinstance(node.left, Name),
}

examples = settings(
    max_examples=50, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def model(text: Text, *numbers: int) -> Model:
    return einformer.parse(text.text).bind(**text.sizes(*numbers))


def output(bound: Model, *given: Array) -> Array:
    return bound.reference(*(given or arrays.inputs(bound)), weights=arrays.weights(bound, absent=0.3))


# ------------------------------------------------------------------------------------------------------------ the tree


@pytest.mark.parametrize("kind", get_args(Expression), ids=lambda kind: kind.__name__)
def test_every_expression_is_gone_through(kind: type[Any]) -> None:
    """`children` and `rebuild` know each kind of node, by its fields; what changes nothing makes no new node."""
    part, other, span = Name("x"), Name("y"), einformer.parse(TEXT).tree.span
    kinds = {"str": "x", "int | float": 2, "tuple[Index, ...]": (Index("i"),), "tuple[Expression, ...]": (part, part)}
    parts = {field.name: kinds.get(str(field.type), part) for field in fields(kind) if field.name != "span"}
    e = kind(**parts, span=span)
    inside = [x for x in parts.values() for x in (x if isinstance(x, tuple) else (x,)) if x is part]
    assert children(e) == tuple(inside)
    assert [*subexpressions(e)] == [e, *inside]
    assert rebuild(e, lambda child: child) is e
    changed = rebuild(e, lambda child: other)
    assert children(changed) == (other,) * len(inside)
    assert rebuild(changed, lambda child: part) == e
    assert changed.span is span


# ------------------------------------------------------------------------------------------------------------ the text


@examples
@given(texts())
def test_it_checks(text: Text) -> None:
    findings = findings_of(text.text)
    assert not findings, f"{text.text}\n{findings[0]}"


@examples
@given(texts())
def test_it_prints_and_reads_back(text: Text) -> None:
    from einformer.language import printer

    spec, _ = parser.parse(Source("drawn", text.text), library())
    again, findings = parser.parse(Source("printed", printer.show(spec)), library())
    assert (again, findings) == (spec, ())


@examples
@given(texts())
def test_an_elaborated_text_is_elaborated(text: Text) -> None:
    spec = einformer.parse(text.text).tree
    assert check_spec(spec) == (spec, ())


# --------------------------------------------------------------------------------------------------------- the meaning


@examples
@given(texts())
def test_it_runs_at_sizes_that_are_all_different(text: Text) -> None:
    bound = model(text, *PRIMES)
    result = output(bound)
    assert result.shape == tuple(map(bound.legend.length, output_letters(bound)))
    assert np.isfinite(result).all()


@examples
@given(texts())
def test_reference_is_loops_over_scalars(text: Text) -> None:
    assert error(model(text, *SMALL), text.sizes(*SMALL)) < TOLERANCE


def error(bound: Model, sizes: dict[str, int]) -> float:
    """The largest difference between the reference and the loops, relative to the largest number where that exceeds one."""
    given, found = arrays.inputs(bound), arrays.weights(bound, absent=0.3)
    ours = bound.reference(*given, weights=found)
    shape, table = loops.evaluate(bound.spec.tree, bound.spec.name, given, found, sizes)
    theirs = np.array([table[at] for at in np.ndindex(shape)]).reshape(shape)
    assert ours.shape == shape
    return float(np.abs(ours - theirs).max() / max(1.0, np.abs(theirs).max()))


SHIPPED: dict[str, dict[str, Any]] = {
    "gpt2": {"D": 6, "A": 3, "L": 2, "V": 5, "K": 4, "E": 2},
    "llama": {"D": 8, "A": 2, "H": 6, "G": 1, "F": 3, "V": 5, "L": 2},
    "llama_interleaved": {"D": 8, "A": 2, "H": 6, "G": 1, "F": 3, "V": 5, "L": 2},
    "mistral": {"D": 8, "A": 2, "H": 6, "G": 1, "F": 3, "V": 5, "L": 2, "W": 2},
    "bloom": {"D": 6, "A": 3, "V": 5, "L": 2},
    "mpt": {"D": 6, "A": 3, "V": 5, "L": 2},
    "gemma2": {"D": 5, "A": 2, "G": 1, "H": 6, "F": 3, "V": 5, "L": 2, "W": [2, 3]},
    "gpt_oss": {"D": 5, "A": 2, "G": 1, "H": 6, "X": 5, "F": 3, "V": 5, "L": 2, "T": 2, "W": [2, 3]},
    "mixtral": {"D": 8, "A": 2, "H": 6, "G": 1, "X": 3, "F": 3, "V": 5, "L": 2},
    "qwen3": {"D": 5, "A": 2, "G": 1, "H": 6, "F": 3, "V": 5, "L": 2},
    "deepseek_v3": {
        "D": 5, "A": 2, "N": 3, "E": 6, "U": 3, "C": 3, "R": 3, "F": 3, "X": 6, "G": 3, "M": 2, "Z": 2, "V": 5, "L": 2,
        "P": 1, "T": 2, "Y": 2,
    },
    "gptj": {"D": 8, "A": 2, "V": 5, "L": 2, "R": 2},
    "gpt_neox": {"D": 8, "A": 2, "V": 5, "L": 2, "R": 2},
    "linear_attention": {"D": 6, "A": 2, "E": 3, "U": 2, "F": 3, "V": 5, "L": 2},
    "linear_attention_masked": {"D": 6, "A": 2, "E": 3, "U": 2, "F": 3, "V": 5, "L": 2},
    "minimal": {"D": 6, "A": 2, "V": 5, "L": 2, "K": 4},
    "mamba2": {"D": 6, "G": 2, "J": 2, "H": 3, "N": 2, "C": 2},
    "delta_net": {"D": 6, "G": 2, "J": 2, "E": 3, "U": 2, "C": 2},
}  # fmt: skip


@pytest.mark.parametrize("name", SHIPPED)
def test_reference_is_loops_over_scalars_for_what_ships(name: str) -> None:
    given = {**SHIPPED[name], "B": 2, "S": 4}
    bound = einformer.load(name).bind(**given)
    assert error(bound, {letter: value for letter, value in given.items() if isinstance(value, int)}) < TOLERANCE


STANDING = """
axes
  s: S
  d: D
  l: L

scalars
  N = 2

layer Past(z_sd) -> z_sd:
  return cumsum_s z_{(s - 1)d}

model Standing(z_sd) -> z_sd causal in s:
  weights A_l, B_ld, C_ld? = B_ld
  S_sd = S_{(s - 1)d} / 2 + cumsum_s(z_sd) + Past(z_sd)
  for l < L:
    S_sd <- S_sd + A_l sum_l(A_l) + C_ld max_l(where(l < N, B_ld, 0))
  return S_sd + mean_l(C_ld)
"""


def test_operators_and_calls_run_over_an_index_that_stands_still_around_them() -> None:
    sizes = {"S": 4, "D": 3, "L": 3}
    assert error(einformer.parse(STANDING).bind(**sizes), sizes) < TOLERANCE


# ----------------------------------------------------------------------------------------------------------- causality


@examples
@given(texts(causal=True))
def test_a_causal_model_never_reads_the_future(text: Text) -> None:
    """Another input from position t on: what was computed before t is the same to the bit."""
    bound = model(text, *SMALL[:1], 5, *SMALL[2:])
    (given,) = arrays.inputs(bound)
    (other,) = arrays.inputs(bound, seed=1)
    before = output(bound, given)
    for t in range(5):
        changed = np.concatenate([given[:, :t], other[:, t:]], axis=1)
        assert (output(bound, changed)[:, :t] == before[:, :t]).all()


@examples
@given(texts(causal=True))
def test_rows_mean_what_they_mean_alone(text: Text) -> None:
    bound = model(text, *SMALL)
    (given,) = arrays.inputs(bound)
    (other,) = arrays.inputs(bound, seed=1)
    mixed = np.concatenate([given[:1], other[1:]])
    assert (output(bound, mixed)[0] == output(bound, given)[0]).all()


# ------------------------------------------------------------------------------------------------------------ coverage


def test_every_kind_of_node_primitive_and_form_comes_up() -> None:
    missing = NODES | PRIMITIVES.keys() | FORMS.keys()
    texts = (written(Random(seed)).text for seed in range(400))
    while missing:
        for node in nodes(einformer.parse(next(texts)).tree):
            missing -= {type(node).__name__, *(form for form, has in FORMS.items() if has(node))}
            missing -= {(node.name, bool(node.indices))} if isinstance(node, Apply) else set()


def nodes(node: Node) -> Iterator[Node]:
    """A node and all those inside it."""
    yield node
    for value in (getattr(node, each.name) for each in fields(node) if each.name != "span"):
        for inner in value if isinstance(value, tuple) else (value,):
            if isinstance(inner, Node):
                yield from nodes(inner)


def test_the_nodes_are_those_of_the_tree() -> None:
    kinds = [kind for kind in vars(tree).values() if isinstance(kind, type) and issubclass(kind, Node)]
    leaves = [kind for kind in kinds if not any(issubclass(other, kind) for other in kinds if other is not kind)]
    assert {kind.__name__ for kind in leaves} == NODES
