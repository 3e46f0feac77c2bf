"""Where in a function do names say their axes? A check is put behind each place where such a name gets its value."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from einformer.lint.python.suffixes import find_axis_letters, select_suffixed

NAME = "__einformer__"  # the module `frames`, in the rewritten one
FRAME = "__einformer_frame__"  # the binding of a call
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)


def rewritten(text: str, path: str) -> ast.Module:
    """The module with checks in its functions; what is not checked is as it was, line for line."""
    tree = ast.parse(text, path)
    made = _Functions(Path(path).name, find_axis_letters(tree, text)).visit(tree)
    assert isinstance(made, ast.Module)
    return ast.fix_missing_locations(made)


class _Functions(ast.NodeTransformer):
    """Every function, inner ones and methods too, for itself; `known` are letters that the file uses for axes."""

    def __init__(self, file: str, known: frozenset[str]) -> None:
        self.file, self.known, self.outer = file, known, list[str]()

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """The methods of a class are named after it."""
        self.outer.append(node.name)
        self.generic_visit(node)
        self.outer.pop()
        return node

    def visit_FunctionDef(self, node: _Function) -> ast.AST:
        """A function with its checks."""
        name = ".".join([*self.outer, node.name])
        self.outer.append(node.name)
        self.generic_visit(node)
        self.outer.pop()
        parameters = [each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
        suffixed = select_suffixed(dict.fromkeys([*parameters, *_assigned(node.body)]), self.known)
        if any(isinstance(each, ast.Subscript) for each in (node.returns, *(p.annotation for p in node.args.args))):
            node.decorator_list.append(ast.Attribute(ast.Name(NAME, ast.Load()), "annotated", ast.Load()))
        if suffixed:
            owner = parameters[0] if parameters[:1] == ["self"] else "None"
            documented, first = ast.get_docstring(node, clean=False) is not None, node.body[0]
            opening = _statement(f"{FRAME} = {NAME}.frame({f'{name} ({self.file}:{node.lineno})'!r}, {owner})", first)
            checks = [_check(each, (), first) for each in parameters if each in suffixed]
            body = _Checks(suffixed).block(node.body[documented:], ())
            node.body = [*node.body[:documented], opening, *checks, *body]
        return node

    visit_AsyncFunctionDef = visit_FunctionDef


class _Checks:
    """The statements of one function; `loop` are the names that get values in the loop around."""

    def __init__(self, suffixed: Iterable[str]) -> None:
        self.suffixed = set(suffixed)

    def block(self, statements: list[ast.stmt], loop: tuple[str, ...]) -> list[ast.stmt]:
        """Each statement, and the checks of what it binds behind it; those of a loop or `with` begin its block."""
        found: list[ast.stmt] = []
        for statement in statements:
            within = loop or (tuple(_assigned([statement])) if isinstance(statement, _LOOPS) else ())
            checks = [_check(name, within, statement) for name in _targets(statement) if name in self.suffixed]
            self.inner(statement, within)
            found.append(statement)
            if isinstance(statement, ast.For | ast.AsyncFor | ast.With | ast.AsyncWith):
                statement.body[:0] = checks
            else:
                found += checks
        return found

    def inner(self, statement: ast.stmt, loop: tuple[str, ...]) -> None:
        """The blocks of a statement, but not those of an inner scope, which has its own."""
        if isinstance(statement, _SCOPES):
            return
        for field, value in ast.iter_fields(statement):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                setattr(statement, field, self.block(value, loop))
            for part in value if isinstance(value, list) else ():
                if isinstance(part, ast.ExceptHandler | ast.match_case):
                    part.body = self.block(part.body, loop)


def _assigned(statements: Iterable[ast.stmt]) -> Iterator[str]:
    """The names that get a value in statements, without those of inner scopes."""
    for statement in statements:
        yield from _targets(statement)
        if not isinstance(statement, _SCOPES):
            for node in ast.iter_child_nodes(statement):
                inner = [node] if isinstance(node, ast.stmt) else getattr(node, "body", None)
                yield from _assigned(inner) if isinstance(inner, list) else ()


def _targets(statement: ast.stmt) -> list[str]:
    """The names that a statement itself gives a value."""
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


def _check(name: str, loop: tuple[str, ...], place: ast.stmt) -> ast.stmt:
    return _statement(f"{NAME}.see({FRAME}, {name!r}, {name}, {loop!r})", place)


def _statement(text: str, place: ast.stmt) -> ast.stmt:
    """A line of Python, which tracebacks show where another stands."""
    (statement,) = ast.parse(text).body
    for node in ast.walk(statement):
        ast.copy_location(node, place)
    return statement
