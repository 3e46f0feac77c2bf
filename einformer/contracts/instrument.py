"""Checks packages without a decorator: one that is named before its import is rewritten while it loads.

A check follows each assignment to a name that states its axes.
"""

from __future__ import annotations

import ast
import importlib.util
import itertools
import sys
import types
from collections.abc import Iterable, Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from typing import Any

from einformer.contracts import frames
from einformer.contracts.suffixes import find_axis_letters, select_suffixed
from einformer.errors import fail

NAME = "__einformer__"  # the module `frames`, in the rewritten one
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)


# Everything but the checks stays, line for line.
def rewrite(text: str, path: str) -> ast.Module:
    tree = ast.parse(text, path)
    module = _Functions(Path(path).name, find_axis_letters(tree, text), choose_name(text)).visit(tree)
    assert isinstance(module, ast.Module)
    return ast.fix_missing_locations(module)


# The text must not hold the name of the module `frames`.
def choose_name(text: str) -> str:
    return next(name for name in (f"__{'_' * more}{NAME.strip('_')}__" for more in itertools.count()) if name not in text)


# It may be ours, `T["bsd"]`, and nothing happens when it is evaluated.
def _names_axes(annotation: ast.expr | None) -> bool:
    parts = list(ast.walk(annotation)) if isinstance(annotation, ast.Subscript) else []
    letters = any(isinstance(part, ast.Constant) and isinstance(part.value, str) for part in parts)
    return letters and not any(isinstance(part, ast.Call) for part in parts)


class _Functions(ast.NodeTransformer):
    """Rewrites every function, with inner functions and methods. `known` holds the letters that the file uses for axes."""

    def __init__(self, file: str, known: frozenset[str], frames: str) -> None:
        self.file, self.known, self.frames, self.outer = file, known, frames, list[str]()

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self.outer.append(node.name)
        self.generic_visit(node)
        self.outer.pop()
        return node

    def visit_FunctionDef(self, node: _Function) -> ast.AST:
        name = ".".join([*self.outer, node.name])
        self.outer.append(node.name)
        self.generic_visit(node)
        self.outer.pop()
        parameters = [part.arg for part in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
        suffixed = select_suffixed(dict.fromkeys([*parameters, *_find_assigned(node.body)]), self.known)
        if any(map(_names_axes, (node.returns, *(p.annotation for p in node.args.args)))):
            node.decorator_list.append(ast.Attribute(ast.Name(self.frames, ast.Load()), "wrap_annotated", ast.Load()))
        if suffixed:
            owner = parameters[0] if parameters[:1] == ["self"] else "None"
            documented, first = ast.get_docstring(node, clean=False) is not None, node.body[0]
            opening = _make_statement(
                f"with {self.frames}.frame({f'{name} ({self.file}:{node.lineno})'!r}, {owner}): pass", first
            )
            assert isinstance(opening, ast.With)
            checked = _Checks(suffixed, self.frames)
            checks = [checked.make_check(part, (), first) for part in parameters if part in suffixed]
            opening.body = [*checks, *checked.block(node.body[documented:], ())]
            node.body = [*node.body[:documented], opening]
        return node

    visit_AsyncFunctionDef = visit_FunctionDef


class _Checks:
    """The statements of one function. `loop` holds the names that are assigned in the loop around."""

    def __init__(self, suffixed: Iterable[str], frames: str) -> None:
        self.suffixed, self.frames = set(suffixed), frames

    def make_check(self, name: str, loop: tuple[str, ...], place: ast.stmt) -> ast.stmt:
        return _make_statement(f"{self.frames}.see({name!r}, {name}, {loop!r})", place)

    # A check follows each assignment. A loop or `with` begins its block with checks.
    def block(self, statements: list[ast.stmt], loop: tuple[str, ...]) -> list[ast.stmt]:
        rewritten_block: list[ast.stmt] = []
        for statement in statements:
            within = loop or (tuple(_find_assigned([statement])) if isinstance(statement, _LOOPS) else ())
            checks = [self.make_check(name, within, statement) for name in _find_targets(statement) if name in self.suffixed]
            self.inner(statement, within)
            rewritten_block.append(statement)
            if isinstance(statement, ast.For | ast.AsyncFor | ast.With | ast.AsyncWith):
                statement.body[:0] = checks
            else:
                rewritten_block += checks
        return rewritten_block

    # Inner scopes have blocks of their own.
    def inner(self, statement: ast.stmt, loop: tuple[str, ...]) -> None:
        if isinstance(statement, _SCOPES):
            return
        for field, value in ast.iter_fields(statement):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                setattr(statement, field, self.block(value, loop))
            for part in value if isinstance(value, list) else ():
                if isinstance(part, ast.ExceptHandler | ast.match_case):
                    part.body = self.block(part.body, loop)


# The names that are assigned in statements, without inner scopes.
def _find_assigned(statements: Iterable[ast.stmt]) -> Iterator[str]:
    for statement in statements:
        yield from _find_targets(statement)
        if not isinstance(statement, _SCOPES):
            for node in ast.iter_child_nodes(statement):
                inner = [node] if isinstance(node, ast.stmt) else getattr(node, "body", None)
                yield from _find_assigned(inner) if isinstance(inner, list) else ()


def _find_targets(statement: ast.stmt) -> list[str]:
    match statement:
        case ast.Assign():
            places: list[ast.expr] = statement.targets
        case ast.AugAssign() | ast.For() | ast.AsyncFor():
            places = [statement.target]
        case ast.AnnAssign() if statement.value is not None:
            places = [statement.target]
        case ast.With() | ast.AsyncWith():
            places = [item.optional_vars for item in statement.items if item.optional_vars is not None]
        case _:
            return []
    stored = (node for place in places for node in ast.walk(place) if isinstance(node, ast.Name))
    return [node.id for node in stored if isinstance(node.ctx, ast.Store)]


def _make_statement(text: str, place: ast.stmt) -> ast.stmt:
    (statement,) = ast.parse(text).body
    for node in ast.walk(statement):
        ast.copy_location(node, place)
    return statement


# --------------------------------------------------------------------------------------------------------------- imports


class Finder(MetaPathFinder):
    """Finds the modules of some packages where Python would, and loads them rewritten. `loaded` lists their names."""

    def __init__(self, packages: Sequence[str]) -> None:
        self.packages, self.loaded = tuple(packages), list[str]()

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None) -> ModuleSpec | None:
        if not any(fullname == package or fullname.startswith(f"{package}.") for package in self.packages):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(fullname, spec.loader.path)
            self.loaded.append(fullname)
        return spec


class _Loader(SourceFileLoader):
    """Neither reads nor writes bytecode, which stays that of the plain source."""

    def get_code(self, fullname: str) -> types.CodeType:
        path = self.get_filename(fullname)
        code: types.CodeType = compile(rewrite(self._read(path), path), path, "exec", dont_inherit=True)
        return code

    def exec_module(self, module: types.ModuleType) -> None:
        setattr(module, choose_name(self._read(self.get_filename(module.__name__))), frames)
        super().exec_module(module)

    def _read(self, path: str) -> str:
        return importlib.util.decode_source(self.get_data(path))


# Imports these packages with their contracts on from here on. Raises E724 if one of them is imported already. Contracts come
# from the names of parameters and local variables (`q_bsea = …`), and from annotations.
def install(packages: Sequence[str]) -> Finder:
    for package in packages:
        if package in sys.modules:
            raise fail("E724", f"`{package}` is imported already", fix="its contracts before its import")
    finder = Finder(packages)
    sys.meta_path.insert(0, finder)
    return finder


# Imports the packages unchanged from here on. Packages that are imported already keep their checks.
def remove(finder: Any) -> None:
    sys.meta_path.remove(finder)
