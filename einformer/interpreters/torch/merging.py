"""Finds layers that are one class: specialised for other axes, they compute the same but for names and sizes.

`Rotary` of queries and of keys is one function, `RMSNorm` of hidden and of head features one class that is given its size.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

CONFIG = ("config", "self.config")


@dataclass(frozen=True, slots=True)
class Merged:
    """A layer that the class of another computes, with other sizes in the place of that one's."""

    first: str
    sizes: Mapping[str, str]


def reads_config(node: ast.AST) -> bool:
    """Is it `A, H = config.A, config.H`, or a size that the class was given itself, `self.D`?"""
    if not isinstance(node, ast.Assign):
        return False
    values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
    return all(isinstance(value, ast.Attribute) and ast.unparse(value.value) in (*CONFIG, "self") for value in values)


def find_sizes(first: Sequence[str], other: Sequence[str]) -> dict[str, str] | None:
    """The sizes of the config in another class in the place of those in the first, if that is all in which they differ."""
    pair = _Pair()
    one, two = (ast.parse("\n".join(lines)).body[-1] for lines in (first, other))
    return pair.sizes if pair.are_alike(_simplify(one), _simplify(two)) else None


@dataclass(slots=True)
class _Pair:
    """What stands in another class for local names and for sizes of the first, and local names the other way round."""

    sizes: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    back: dict[str, str] = field(default_factory=dict)
    local: tuple[set[str], set[str]] = (set(), set())

    def are_alike(self, one: object, two: object) -> bool:
        """Do these compute the same, but for names and sizes?"""
        if isinstance(one, ast.Attribute) and ast.unparse(one.value) in CONFIG:
            return isinstance(two, ast.AST) and self.size(one, two)
        if type(one) is not type(two):
            return False
        match one, two:
            case ast.Name(id=name), ast.Name(id=other):
                return self.name(name, other)
            case ast.arg(arg=name), ast.arg(arg=other):
                return self.name(name, other)
            case ast.FunctionDef(), ast.FunctionDef():
                self.local = (_find_local(one), _find_local(two))
                return self.are_alike([*one.args.args, *one.body], [*two.args.args, *two.body])
            case ast.ClassDef(), ast.ClassDef():
                return self.are_alike([*one.bases, *one.body], [*two.bases, *two.body])
            case ast.Call(func=ast.Attribute(attr="einsum"), args=[ast.Constant(value=str(how)), *_]), ast.Call(
                args=[ast.Constant(value=str(as_well)), *_]
            ):
                rest = self.are_alike([one.func, *one.args[1:]], [two.func, *two.args[1:]])
                return rest and _number_letters(how) == _number_letters(as_well)
            case list(), list():
                return len(one) == len(two) and all(map(self.are_alike, one, two))
            case ast.AST(), ast.AST():
                return all(self.are_alike(getattr(one, name), getattr(two, name)) for name in one._fields)
            case _:
                return one == two

    def size(self, one: ast.Attribute, two: ast.AST) -> bool:
        """A size, which is another or a number in the other class, or the same."""
        is_size = isinstance(two, ast.Attribute) and ast.unparse(two.value) == ast.unparse(one.value)
        if not is_size and not (isinstance(two, ast.Constant) and type(two.value) is int):
            return False
        other = two.attr if isinstance(two, ast.Attribute) else ast.unparse(two)
        return self.sizes.setdefault(one.attr, other) == other

    def name(self, one: str, two: str) -> bool:
        """A local name may be another; all others are the same."""
        if one not in self.local[0] or two not in self.local[1]:
            return one == two
        return self.names.setdefault(one, two) == two and self.back.setdefault(two, one) == one


def _number_letters(equation: str) -> list[int]:
    order = dict.fromkeys(equation)
    return [sign if (sign := ord(sign_)) in (ord(","), ord("-"), ord(">")) else -[*order].index(sign_) for sign_ in equation]


def _find_local(function: ast.FunctionDef) -> set[str]:
    inside = list(ast.walk(function))
    stored = {node.id for node in inside if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return stored | {node.arg for node in inside if isinstance(node, ast.arg)} - {"self", "config"}


def _simplify(node: ast.AST) -> ast.AST:
    for function in (each for each in ast.walk(node) if isinstance(each, ast.FunctionDef | ast.ClassDef)):
        body = [each for each in function.body if not _is_docstring(each)]
        read = {
            name: value
            for each in body
            if isinstance(each, ast.Assign) and reads_config(each)
            for name, value in _pair_bound(each)
        }
        function.body = [each for each in body if not reads_config(each)]
        if isinstance(function, ast.FunctionDef):
            _Inlined(read).visit(function)
    return node


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _pair_bound(node: ast.Assign) -> list[tuple[str, ast.expr]]:
    names = node.targets[0].elts if isinstance(node.targets[0], ast.Tuple) else node.targets
    values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
    return [(name.id, value) for name, value in zip(names, values, strict=True) if isinstance(name, ast.Name)]


class _Inlined(ast.NodeTransformer):
    """Names of sizes as the attributes of the config that they are."""

    def __init__(self, read: Mapping[str, ast.expr]) -> None:
        self.read = read

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """A name, or what it was read from."""
        return self.read.get(node.id, node)
