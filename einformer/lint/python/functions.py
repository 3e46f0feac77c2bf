"""Reads the functions that a Python file defines and imports, and the axes that their names state."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from einformer.lint.python import suffixes
from einformer.lint.python.axes import Disagreement, Shape, strip


@dataclass(frozen=True, slots=True)
class Signature:
    """A function of the file: its parameters with their axes, and the axes of its results."""

    name: str
    parameters: tuple[tuple[str, Shape | None], ...]
    returned: Shape | None


ANY_AXES = "with any axes in front"  # in the docstring of a function whose suffixes are its last axes


def read_signatures(tree: ast.Module, axis_letters: frozenset[str]) -> dict[str, Signature]:
    """Returns the functions of a file by name. Leaves out names with two definitions, and functions of any leading axes."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    names = [node.name for node in functions]
    return {
        node.name: _read_signature(node, axis_letters)
        for node in functions
        if names.count(node.name) == 1 and not _takes_any(node)
    }


# A function that takes any leading axes, unless an annotation names them.
def _takes_any(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    text = ANY_AXES in " ".join((ast.get_docstring(node) or "").split())
    return text and not any(isinstance(parameter.annotation, ast.Subscript) for parameter in node.args.args)


def _read_signature(node: ast.FunctionDef | ast.AsyncFunctionDef, axis_letters: frozenset[str]) -> Signature:
    arguments = [*node.args.posonlyargs, *node.args.args]
    arguments = arguments[1:] if arguments and arguments[0].arg == "self" else arguments
    parameters = tuple(
        (child.arg, suffixes.read_annotation(child.annotation) or suffixes.axes_of_name(child.arg, axis_letters))
        for child in arguments
    )
    returns = [child.value for child in ast.walk(node) if isinstance(child, ast.Return)]
    shapes = [suffixes.axes_of_name(child.id, axis_letters) if isinstance(child, ast.Name) else None for child in returns]
    one = shapes[0] if shapes and all(shape == shapes[0] for shape in shapes) else None
    return Signature(node.name, parameters, suffixes.read_annotation(node.returns) or one)


def check_arguments(signature: Signature, arguments: Sequence[ast.expr]) -> None:
    """Compares the names of arguments with the names of parameters. Raises Disagreement E776 if two are swapped."""
    names = [name for name, declared in signature.parameters if declared is not None]
    words = [argument.id if isinstance(argument, ast.Name) else "" for argument in arguments]
    if len(names) < len(signature.parameters) or len(words) != len(names):
        return
    meant, stems = [name.partition("_")[0] for name in names], [name.partition("_")[0] for name in words]
    for k, other in itertools.combinations(range(len(names)), 2):
        if stems[k] == meant[other] != meant[k] == stems[other]:
            facts = [f"`{signature.name}({', '.join(names)})`"]
            raise Disagreement(
                "E776", f"`{words[k]}` and `{words[other]}` are given in each other's place", facts, "the other order"
            )


def letters_of(shape: Shape) -> list[str]:
    """Returns a letter for each axis."""
    return [strip(axis[0]) if axis and len(axis) == 1 else f"#{k}" for k, axis in enumerate(shape)]


def read_imports(tree: ast.Module) -> dict[str, str]:
    """Returns the original name of each imported name: `F` is `functional`, `contract` may be `einsum`."""
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    aliases = [alias for node in imports for alias in node.names]
    return {alias.asname or alias.name.partition(".")[0]: alias.name.rpartition(".")[2] for alias in aliases}


def name_call(node: ast.expr, imports: Mapping[str, str]) -> tuple[str, ast.expr | None]:
    """Returns the name of the called function, and its receiver. Functions of a library have none."""
    match node:
        case ast.Name(id=name):
            return imports.get(name, name), None
        case ast.Attribute(value=value, attr=name):
            root = value
            while isinstance(root, ast.Attribute):
                root = root.value
            return name, None if isinstance(root, ast.Name) and root.id in imports else value
    return "", None
