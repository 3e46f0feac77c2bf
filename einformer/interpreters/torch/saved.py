"""What does PyTorch keep of a forward pass for the backward pass? The bytes, equation by equation, without running torch.

The emitted file is run on tensors without numbers; a table (`autograd`) says what autograd keeps of each operation.
"""

from __future__ import annotations

import ast
import functools
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from einformer.interpreters.torch.standin import run
from einformer.interpreters.torch.strided import Shape
from einformer.interpreters.torch.traced import Node, Storage


@dataclass(frozen=True, slots=True)
class Kept:
    """What the operations of one kind in one line keep. `what` is an activation or an input; weights are not counted."""

    line: int
    equation: str
    operation: str
    what: str
    bytes: int


def saved(source: str, name: str, shapes: Sequence[Shape], dtype: str = "float32", training: bool = True) -> tuple[Kept, ...]:
    """What is kept when the class `name` of an emitted file is called with inputs of these shapes, in the order of the file.

    Each storage counts once, whole, where it is first kept, as torch 2.13 does on a CPU, without opt_einsum.
    Raises EinformerError E605, E620, E701.
    """
    counted: Counter[tuple[int, str, str]] = Counter()
    seen: set[Storage] = set()
    for node in reached(run(source, dtype, training, briefly=True).result(name, shapes).node):
        for storage in node.keeps:
            if storage not in seen and storage.kind in _COUNTED:
                seen.add(storage)
                counted[node.line, node.operation, _COUNTED[storage.kind]] += node.times * storage.bytes
    equations = _equations(source)
    return tuple(
        Kept(line, equations[line], operation, what, size) for (line, operation, what), size in sorted(counted.items())
    )


_COUNTED = {"": "activation", "input": "input"}


def activations(rows: Iterable[Kept]) -> int:
    """The bytes of all activations together."""
    return sum(row.bytes for row in rows if row.what == "activation")


def reached(result: Node | None) -> list[Node]:
    """The backward steps that one leads to, in the order in which they were recorded."""
    found: set[Node] = set()
    ahead = [result] if result else []
    while ahead:
        node = ahead.pop()
        if node not in found:
            found.add(node)
            ahead += [each.node for each in node.inputs if each]
    return sorted(found, key=lambda node: node.step)


@functools.lru_cache
def _equations(source: str) -> dict[int, str]:
    """For each line of a statement the comments right above that, which are equations, or else the line."""
    lines, equations = source.splitlines(), {}
    for statement in _statements(ast.parse(source).body):
        above = itertools.takewhile(_is_comment, reversed(lines[: statement.lineno - 1]))
        equation = "; ".join(filter(None, map(_equation, reversed([*above]))))
        for number in range(statement.lineno, (statement.end_lineno or statement.lineno) + 1):
            equations[number] = equation or lines[number - 1].strip()
    return equations


def _statements(block: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Each statement before those inside it."""
    for statement in block:
        yield statement
        yield from _statements(getattr(statement, "body", ()))
        yield from _statements(getattr(statement, "orelse", ()))


def _equation(comment: str) -> str:
    """What a comment says without the note; nothing where it is the note."""
    return comment.partition("@")[0].strip(" #")


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith("# ")
