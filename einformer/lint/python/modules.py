"""Reads the modules that a file keeps in attributes: `self.q_proj = nn.Linear(…)`, then `self.q_proj(z_bsd)`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from einformer.lint.python.axes import Value
from einformer.lint.python.calls import Call, Known, Operation
from einformer.lint.python.functions import name_call


def _keep_axes(call: Call) -> Known | None:
    value = call.evaluate(call.first)
    return value if isinstance(value, Value) else None


# The last axis becomes another one.
def _replace_last(call: Call) -> Known | None:
    return call.value and Value((*call.value.shape[:-1], None))


def _embed(call: Call) -> Known | None:
    return call.value and Value((*call.value.shape, None))


MODULES: Mapping[str, Operation] = {
    **dict.fromkeys(
        re.findall(
            r"\w+",
            """
            Dropout ELU GELU Hardswish Identity LayerNorm LeakyReLU LogSigmoid Mish RMSNorm ReLU ReLU6 SELU SiLU
            Sigmoid Softplus Softsign Tanh
            """,
        ),
        _keep_axes,
    ),
    "Linear": _replace_last,
    "Embedding": _embed,
}


def find_modules(tree: ast.Module, imports: Mapping[str, str]) -> dict[str, Operation]:
    """Returns the modules of a file by attribute. An attribute that two classes assign differently is left out."""
    operations: dict[str, set[Operation | None]] = {}
    for node in ast.walk(tree):
        for name, value in _find_assignments(node):
            operations.setdefault(name, set()).add(_read_module(value, imports))
    alone = {name: next(iter(distinct)) for name, distinct in operations.items() if len(distinct) == 1}
    return {name: operation for name, operation in alone.items() if operation is not None}


def _find_assignments(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    match node:
        case (
            ast.Assign(targets=[ast.Attribute(attr=name)], value=value)
            | ast.AnnAssign(target=ast.Attribute(attr=name), value=ast.expr() as value)
        ):
            yield name, value


# A sequence of modules that act on the last axis acts on the last axis.
def _read_module(node: ast.expr, imports: Mapping[str, str]) -> Operation | None:
    if not isinstance(node, ast.Call):
        return None
    name, _ = name_call(node.func, imports)
    if name != "Sequential":
        return MODULES.get(name)
    parts = {_read_module(part, imports) for part in node.args}
    return next(iter(parts)) if len(parts) == 1 else _replace_last if parts == {_replace_last, _keep_axes} else None
