"""What do the modules do that a file keeps in attributes: `self.q_proj = nn.Linear(…)`, then `self.q_proj(z_bsd)`?"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from einformer.lint.python.axes import Value
from einformer.lint.python.calls import Call, Known, Operation
from einformer.lint.python.functions import called


def _same(call: Call) -> Known | None:
    found = call.evaluate(call.first)
    return found if isinstance(found, Value) else None


def _linear(call: Call) -> Known | None:
    """Its last axis becomes another one."""
    return call.value and Value((*call.value.shape[:-1], None))


def _embedding(call: Call) -> Known | None:
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
        _same,
    ),
    "Linear": _linear,
    "Embedding": _embedding,
}


def modules(tree: ast.Module, imports: Mapping[str, str]) -> dict[str, Operation]:
    """The modules of a file by attribute; one that two classes assign, and not the same, is none."""
    found: dict[str, set[Operation | None]] = {}
    for node in ast.walk(tree):
        for name, value in _assigned(node):
            found.setdefault(name, set()).add(_module(value, imports))
    alone = {name: next(iter(each)) for name, each in found.items() if len(each) == 1}
    return {name: operation for name, operation in alone.items() if operation is not None}


def _assigned(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    match node:
        case (
            ast.Assign(targets=[ast.Attribute(attr=name)], value=value)
            | ast.AnnAssign(target=ast.Attribute(attr=name), value=ast.expr() as value)
        ):
            yield name, value


def _module(node: ast.expr, imports: Mapping[str, str]) -> Operation | None:
    """What a module does; a sequence of some that act on the last axis acts on the last axis."""
    if not isinstance(node, ast.Call):
        return None
    name, _ = called(node.func, imports)
    if name != "Sequential":
        return MODULES.get(name)
    parts = {_module(part, imports) for part in node.args}
    return next(iter(parts)) if len(parts) == 1 else _linear if parts == {_linear, _same} else None
