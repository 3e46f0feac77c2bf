"""Does each collective of an emitted file matter? Without any one of them, what the ranks compute differs from one process."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from einformer.interpreters.torch import module as modules
from tests.few import few
from tests.oracles.ranks import agree
from tests.small import PLANS
from tests.test_sharding import bound

CASES = [
    (name, shard, plan)
    for name, shard in (
        ("gpt2", "tp: a d' f v"),
        ("llama", "tp: g f v"),
        ("llama", "tp: g f v (s)"),
        ("mixtral", "tp: g f v"),
        ("mixtral", "tp: g x v"),
    )
    for plan in PLANS
]


def is_collective(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    called = node.func
    exchanges = isinstance(called, ast.Attribute) and called.attr == "apply" and isinstance(node.args[-1], ast.Constant)
    return exchanges or (isinstance(called, ast.Name) and called.id == "largest")


class Delete(ast.NodeTransformer):
    """Puts its argument in the place of one collective."""

    def __init__(self, place: int) -> None:
        self.place, self.seen = place, -1

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        self.seen += is_collective(node)
        return node.args[0] if is_collective(node) and self.seen == self.place else node


def list_collectives(source: str) -> Iterator[ast.AST]:
    return filter(is_collective, ast.walk(ast.parse(source)))


@pytest.mark.parametrize("case", few(CASES, [CASES[0]]), ids=" ".join)
def test_without_any_collective_the_ranks_compute_something_else(
    case: tuple[str, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name, shard, plan = case
    mesh, write = {"tp": 2}, vars(modules)["write_source"]
    count = len([*list_collectives(bound(name).source(plan, mesh=mesh, shard=shard))])
    assert count > 4

    def delete(place: int) -> None:
        monkeypatch.setattr(modules, "write_source", lambda *of: ast.unparse(Delete(place).visit(ast.parse(write(*of)))))

    delete(-2)  # nothing
    agree(bound(name), mesh, shard, plan)
    for place in range(count):
        delete(place)
        with pytest.raises((AssertionError, RuntimeError, ValueError, IndexError)):
            agree(bound(name), mesh, shard, plan)
