"""Do the names of a Python file say what their tensors have? The file is read line by line and never run.

A name with a suffix means what it says; any other means what was assigned to it. What cannot be followed is not known, and
what is not known is never an error.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from einformer.errors import Finding, Source, Span
from einformer.lint.python import suffixes
from einformer.lint.python.axes import (
    SOFT,
    Disagreement,
    Shape,
    Value,
    check,
    contracted,
    merges,
    show,
    spells,
    swapped,
    together,
)
from einformer.lint.python.calls import Call, Known, Operation, Several, Size, Sizes, closed, spread, whole
from einformer.lint.python.functions import Signature, called, letters, swapped_arguments
from einformer.lint.python.indexing import part_of, taken
from einformer.lint.python.operations import OPERATIONS, multiplied

_NUMBERS = ("scale", "eps", "sqrt", "temp", "alpha", "theta", "base")  # parts of names of numbers
_RETURNED = "return"  # what a function says that it returns stands among its names
Names = dict[str, Known | None]


@dataclass(slots=True)
class Reading:
    """One file, with what was found in it."""

    source: Source
    known: frozenset[str]
    functions: Mapping[str, Signature]
    imports: Mapping[str, str]  # what the file calls them, and what they are called there
    modules: Mapping[str, Operation] = field(default_factory=dict)  # what `self.name(…)` does
    findings: list[Finding] = field(default_factory=list)
    names: int = 0  # assigned with a suffix
    values: dict[int, tuple[ast.expr, Known | None]] = field(default_factory=dict)  # of the statement that is read

    # ------------------------------------------------------------------------------------------------------ statements

    def body(self, statements: Iterable[ast.stmt], names: Names) -> None:
        """Some statements in their order; what they assign is added to the names."""
        for statement in statements:
            self.statement(statement, names)

    def statement(self, node: ast.stmt, names: Names) -> None:
        """One statement, and those in it."""
        self.values.clear()
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.function(node, names)
            case ast.ClassDef():
                self.body(node.body, dict(names))
            case ast.Assign():
                found = self.value(node.value, names)
                for target in node.targets:
                    self.assign(target, found, names)
            case ast.AnnAssign(target=target, value=value):
                self.assign(target, self.value(value, names) if value else None, names, suffixes.annotated(node.annotation))
            case ast.AugAssign(target=target, op=op, value=value):
                self.assign(target, self.value(ast.copy_location(ast.BinOp(_loaded(target), op, value), node), names), names)
            case ast.Return(value=ast.expr() as value):
                found, declared = self.value(value, names), names.get(_RETURNED)
                if isinstance(declared, Value):
                    self.compare(value, declared.shape, found, "the annotation")
            case ast.Expr(value=value):
                self.value(value, names)
            case ast.If() | ast.For() | ast.AsyncFor() | ast.While() | ast.Try() | ast.With() | ast.AsyncWith():
                self.branches(node, names)
            case _:
                pass

    def function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, names: Names) -> None:
        """The body of a function, in which its parameters have the axes that they say."""
        returned = suffixes.annotated(node.returns)
        inner: Names = {**names, _RETURNED: None if returned is None else Value(returned)}
        for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
            inner.pop(each.arg, None)
            if (shape := suffixes.annotated(each.annotation)) is not None:
                self.assign(ast.copy_location(ast.Name(each.arg, ast.Store()), each), Value(shape), inner)
        self.body(node.body, inner)

    def branches(self, node: ast.stmt, names: Names) -> None:
        """Each way on its own; what they assign is known afterwards only if all agree."""
        for header in (each for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr)):
            self.value(header, names)
        assigned = {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
        repeats = isinstance(node, ast.For | ast.AsyncFor | ast.While)
        before: Names = {name: None if repeats and name in assigned else known for name, known in names.items()}
        handlers = [handler.body for handler in getattr(node, "handlers", [])]
        ways = [getattr(node, part, []) for part in ("body", "orelse", "finalbody")]
        ends = [dict(before) for _ in (*ways, *handlers)]
        for way, end in zip((*ways, *handlers), ends, strict=True):
            self.body(way, end)
        names.update(
            {name: None if any(end.get(name) != ends[0].get(name) for end in ends) else ends[0].get(name) for name in assigned}
        )
        if isinstance(node, ast.With | ast.AsyncWith):
            names.update(ends[0])

    def assign(self, target: ast.expr, found: Known | None, names: Names, annotated: Shape | None = None) -> None:
        """A value gets a name, or its parts get names. What the name says is compared with what the value has."""
        match target:
            case ast.Name(id=name) | ast.Attribute(attr=name):
                declared = suffixes.axes(name, self.known)
                self.names += declared is not None
                self.compare(target, declared, found, name)
                self.compare(target, annotated, found, name)
                self.compare(target, declared, Value(annotated) if annotated else None, name)
                if isinstance(target, ast.Name):
                    names[name] = self.kept(declared or annotated, found)
            case ast.Tuple(elts=parts) | ast.List(elts=parts) if not any(isinstance(part, ast.Starred) for part in parts):
                if isinstance(found, Sizes) and not self.unpacked(target, parts, found.shape):
                    found = None
                for k, part in enumerate(parts):
                    self.assign(part, part_of(found, k, len(parts)), names)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for part in parts:
                    self.assign(part.value if isinstance(part, ast.Starred) else part, None, names)
            case _:
                pass

    def compare(self, node: ast.expr, declared: Shape | None, found: Known | None, name: str) -> None:
        """Has it the axes that are declared, as far as both are known?"""
        if declared is None or not isinstance(found, Value) or (found.open and len(declared) != len(found.shape)):
            return
        if isinstance(node, ast.Name) and spells(found.shape, declared):
            return
        self.attempt(node, check, declared, found.shape, name)

    def kept(self, declared: Shape | None, found: Known | None) -> Known | None:
        """A tensor has the axes that its name says, and stays normalised."""
        if declared is None or (isinstance(found, Value) and (merges(declared, found.shape) or found.flattened(len(declared)))):
            return found
        tensor = closed(found)
        return Value(declared, tensor.normalised if tensor and len(tensor.shape) == len(declared) else None)

    def unpacked(self, target: ast.expr, parts: Sequence[ast.expr], shape: Shape) -> bool:
        """`B, S, D = z_bsd.shape`: as many, and in that order?"""
        facts = [f"the tensor has {show(shape)}"]
        if len(parts) != len(shape):
            self.report("E777", f"{len(parts)} names for the sizes of {len(shape)} axes", target, facts)
            return False
        named = [part.id.lower() if isinstance(part, ast.Name) else "_" for part in parts]
        letters = [axis[0].lower() if axis and len(axis) == 1 else "" for axis in shape]
        if sorted(named) != sorted(letters) or named == letters:
            return True
        self.report("E777", "the sizes are unpacked in another order", target, facts, f"`{', '.join(letters).upper()} = …`")
        return False

    # ----------------------------------------------------------------------------------------------------- expressions

    def value(self, node: ast.expr, names: Names) -> Known | None:
        """What is known of the value of an expression."""
        if id(node) not in self.values:
            self.values[id(node)] = node, self.evaluated(node, names)
        return self.values[id(node)][1]

    def evaluated(self, node: ast.expr, names: Names) -> Known | None:
        """The same, found."""
        match node:
            case ast.Constant(value=int(number)) if not isinstance(number, bool):
                return number
            case ast.Name(id=name):
                return self.named(name, names)
            case ast.Attribute():
                return self.attribute(node, names)
            case ast.Subscript():
                return self.item(node, names)
            case ast.Call():
                return self.call(node, names)
            case ast.BinOp():
                return self.binary(node, names)
            case ast.UnaryOp(operand=operand):
                found = self.value(operand, names)
                return whole(node) if isinstance(found, int) else found if isinstance(found, Value) else None
            case ast.Compare(left=left, comparators=[right]):
                return self.attempt(node, self.met, self.value(left, names), self.value(right, names), left, right)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return self.several(parts, names)
            case ast.IfExp(body=one, orelse=other):
                found, second = self.value(one, names), self.value(other, names)
                return found if found == second else None
            case ast.NamedExpr(target=target, value=value):
                found = self.value(value, names)
                self.assign(target, found, names)
                return found
        return None

    def several(self, parts: Iterable[ast.expr], names: Names) -> tuple[Known | None, ...] | None:
        """The elements of a tuple, those of a shape with a star among them."""
        found = list[Known | None]()
        for part in parts:
            if not isinstance(part, ast.Starred):
                found.append(self.value(part, names))
            elif isinstance(sizes := self.value(part.value, names), Sizes | tuple):
                found += spread(sizes)
            else:
                return None
        return tuple(found)

    def named(self, name: str, names: Names) -> Known | None:
        """What a name stands for: what was assigned to it, the axes of its suffix, or the size `S` of an axis `s`."""
        if names.get(name) is not None:
            return names[name]
        if (shape := suffixes.axes(name, self.known)) is not None:
            return Value(shape)
        letter = next((each for each in (name.lower(), name) if each in self.known), "") if name.isupper() else ""
        return Size((letter + SOFT,)) if letter and len(name) == 1 else None

    def attribute(self, node: ast.Attribute, names: Names) -> Known | None:
        """The shape of a tensor, its transpose, or a weight with a suffix."""
        found = closed(self.value(node.value, names))
        match node.attr:
            case "shape" if found:
                return Sizes(found.shape)
            case "T" | "mT" if found and len(found.shape) >= 2:
                return Value(swapped(found.shape, -1, -2)) if node.attr == "mT" or len(found.shape) == 2 else None
            case "data" | "weight":
                return found
            case "values" | "indices" if isinstance(several := self.value(node.value, names), Several):
                return Value(several.shape)
        shape = suffixes.axes(node.attr, self.known)
        return None if shape is None else Value(shape)

    def item(self, node: ast.Subscript, names: Names) -> Known | None:
        """A size of a shape, one of several tensors, a part of a tensor."""
        keys = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return taken(self.value(node.value, names), keys, partial(self.value, names=names))

    def binary(self, node: ast.BinOp, names: Names) -> Known | None:
        """A product, a product of sizes, or an element-wise function of two."""
        one, other = self.value(node.left, names), self.value(node.right, names)
        match node.op:
            case ast.MatMult() if (left := closed(one)) and (right := closed(other)):
                return self.attempt(node, multiplied, left, right)
            case ast.Mult() if isinstance(one, Size) and isinstance(other, Size):
                return Size(one.axis + other.axis)
            case ast.Add() if isinstance(one, Sizes | tuple) and isinstance(other, Sizes | tuple):
                return spread(one) + spread(other)
            case ast.MatMult():
                return None
        return self.attempt(node, self.met, one, other, node.left, node.right)

    def met(self, one: Known | None, other: Known | None, left: ast.expr, right: ast.expr) -> Value | None:
        """The axes of an element-wise function; a number leaves them as they are."""
        if isinstance(one, Value) and isinstance(other, Value):
            return Value(together(one.shape, other.shape, "this expression"), None, one.open or other.open)
        tensor, rest, node = (one, other, right) if isinstance(one, Value) else (other, one, left)
        if not isinstance(tensor, Value) or isinstance(rest, Sizes | Several | tuple):
            return None
        return Value(tensor.shape, None, tensor.open or not (isinstance(rest, int | Size) or _is_number(node)))

    def call(self, node: ast.Call, names: Names) -> Known | None:
        """What a function returns: one of PyTorch by the table of operations, one of the file by its suffixes."""
        evaluate = partial(self.value, names=names)
        for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
            evaluate(argument)
        name, receiver = called(node.func, self.imports)
        if (signature := self.functions.get(name)) and (receiver is None or _is_self(receiver)):
            return self.attempt(node, self.applied, signature, node, names)
        if name == "size" and receiver is not None and len(node.args) == 1:
            return self.item(ast.Subscript(ast.Attribute(receiver, "shape"), node.args[0]), names)
        if name == "size" and receiver is not None and (found := closed(evaluate(receiver))) and not node.keywords:
            return Sizes(found.shape)
        operation, first = OPERATIONS.get(name), [*([receiver] if receiver is not None else []), *node.args]
        if receiver is not None and _is_self(receiver):
            operation, first = self.modules.get(name), node.args
        if operation is None or not first:
            return None
        call = Call(first[0], first[1:], {each.arg: each.value for each in node.keywords if each.arg}, evaluate)
        return self.attempt(node, operation, call)

    def applied(self, signature: Signature, node: ast.Call, names: Names) -> Value | None:
        """A function of the file, given these arguments. Raises Disagreement E772, E776."""
        if any(isinstance(each, ast.Starred) for each in node.args):
            return None
        given = dict(zip((name for name, _ in signature.parameters), node.args, strict=False))
        given |= {each.arg: each.value for each in node.keywords if each.arg}
        swapped_arguments(signature, node.args)
        found = {name: tensor for name in given if isinstance(tensor := self.value(given[name], names), Value)}
        meet = [(axes, found[name]) for name, axes in signature.parameters if axes is not None and name in found]
        meet = [(axes, tensor) for axes, tensor in meet if not tensor.open or len(tensor.shape) == len(axes)]
        shape = contracted([letters(axes) for axes, _ in meet], letters(signature.returned or ()), [t.shape for _, t in meet])
        return None if signature.returned is None else Value(shape, None, any(tensor.open for _, tensor in meet))

    # -------------------------------------------------------------------------------------------------------- findings

    def attempt(self, node: ast.expr, function: Callable[..., Known | None], *arguments: object) -> Known | None:
        """What a rule says; where it finds that axes disagree, that is reported and nothing is known."""
        try:
            return function(*arguments)
        except Disagreement as found:
            self.report(found.code, found.message, node, found.facts, found.fix)
            return None

    def report(self, code: str, message: str, node: ast.expr, facts: Iterable[str] = (), fix: str = "") -> None:
        """A finding at a node."""
        self.findings.append(Finding(code, message, span_of(node, self.source), tuple(facts), fix))


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def _is_number(node: ast.expr) -> bool:
    """Does it look like a number, `1 / math.sqrt(d)` or `self.scale`?"""
    match node:
        case ast.Constant(value=value):
            return isinstance(value, int | float)
        case ast.UnaryOp(operand=inner):
            return _is_number(inner)
        case ast.BinOp(left=left, right=right):
            return _is_number(left) and _is_number(right)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="math"))) | ast.Call(func=ast.Name(id="float" | "int" | "len")):
            return True
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return any(part in name.lower() for part in _NUMBERS) or (len(name) == 1 and name.isupper())
    return False


def _loaded(target: ast.expr) -> ast.expr:
    return ast.copy_location(ast.Name(target.id, ast.Load()), target) if isinstance(target, ast.Name) else target


def span_of(node: ast.expr, source: Source) -> Span:
    """The characters of a node: Python counts columns in bytes."""
    lines = source.text.split("\n")

    def offset(line: int, column: int) -> int:
        return sum(len(each) + 1 for each in lines[: line - 1]) + len(lines[line - 1].encode()[:column].decode(errors="ignore"))

    start = offset(node.lineno, node.col_offset)
    end = offset(node.end_lineno or node.lineno, node.end_col_offset or node.col_offset + 1)
    return Span(source, start, min(end, source.text.find("\n", start) % (len(source.text) + 1)))
