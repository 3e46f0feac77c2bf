"""Which functions does a Python file define and import, and what do their names say of what they take and return?"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from einformer.lint.python import suffixes
from einformer.lint.python.axes import Disagreement, Shape, bare


@dataclass(frozen=True, slots=True)
class Signature:
    """A function of the file: its parameters, with the axes that they say, and those of all that it returns."""

    name: str
    parameters: tuple[tuple[str, Shape | None], ...]
    returned: Shape | None


ANY_AXES = "with any axes in front"  # what the docstring of a function says whose suffixes are its last axes


def signatures(tree: ast.Module, known: frozenset[str]) -> dict[str, Signature]:
    """The functions of a file by name, but for a name that is defined twice, and for one that takes any axes in front."""
    found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    names = [node.name for node in found]
    return {node.name: _signature(node, known) for node in found if names.count(node.name) == 1 and not _takes_any(node)}


def _takes_any(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Does it say that it takes any axes in front, and no annotation which?"""
    said = ANY_AXES in " ".join((ast.get_docstring(node) or "").split())
    return said and not any(isinstance(each.annotation, ast.Subscript) for each in node.args.args)


def _signature(node: ast.FunctionDef | ast.AsyncFunctionDef, known: frozenset[str]) -> Signature:
    arguments = [*node.args.posonlyargs, *node.args.args]
    arguments = arguments[1:] if arguments and arguments[0].arg == "self" else arguments
    parameters = tuple((each.arg, suffixes.annotated(each.annotation) or suffixes.axes(each.arg, known)) for each in arguments)
    returns = [each.value for each in ast.walk(node) if isinstance(each, ast.Return)]
    shapes = [suffixes.axes(each.id, known) if isinstance(each, ast.Name) else None for each in returns]
    one = shapes[0] if shapes and all(shape == shapes[0] for shape in shapes) else None
    return Signature(node.name, parameters, suffixes.annotated(node.returns) or one)


def swapped_arguments(signature: Signature, arguments: Sequence[ast.expr]) -> None:
    """Two arguments that are named like each other's parameters. Raises Disagreement E776."""
    names = [name for name, declared in signature.parameters if declared is not None]
    given = [each.id if isinstance(each, ast.Name) else "" for each in arguments]
    if len(names) < len(signature.parameters) or len(given) != len(names):
        return
    meant, stems = [name.partition("_")[0] for name in names], [name.partition("_")[0] for name in given]
    for k, other in itertools.combinations(range(len(names)), 2):
        if stems[k] == meant[other] != meant[k] == stems[other]:
            facts = [f"`{signature.name}({', '.join(names)})`"]
            raise Disagreement(
                "E776", f"`{given[k]}` and `{given[other]}` are given in each other's place", facts, "the other order"
            )


def letters(shape: Shape) -> list[str]:
    """A letter for each axis."""
    return [bare(axis[0]) if axis and len(axis) == 1 else f"#{k}" for k, axis in enumerate(shape)]


def imported(tree: ast.Module) -> dict[str, str]:
    """What names of a file were called where they come from: `F` is `functional`; `contract` may be an `einsum`."""
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    aliases = [alias for node in imports for alias in node.names]
    return {alias.asname or alias.name.partition(".")[0]: alias.name.rpartition(".")[2] for alias in aliases}


def called(node: ast.expr, imports: Mapping[str, str]) -> tuple[str, ast.expr | None]:
    """The name of what is called, and on what; functions of a library are called on nothing."""
    match node:
        case ast.Name(id=name):
            return imports.get(name, name), None
        case ast.Attribute(value=value, attr=name):
            root = value
            while isinstance(root, ast.Attribute):
                root = root.value
            return name, None if isinstance(root, ast.Name) and root.id in imports else value
    return "", None
