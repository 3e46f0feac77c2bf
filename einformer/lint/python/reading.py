"""Reads a Python file statement by statement, without running it, and compares names with the tensors that they name.

A name with a suffix has the axes of its suffix. Any other name has the axes of the value that was assigned to it. Anything
the reader cannot follow is unknown, and the unknown is never an error.
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
    broadcast,
    check,
    contract,
    merges,
    show,
    spells,
    swap,
)
from einformer.lint.python.calls import Call, Known, Operation, Several, Size, Sizes, as_tensor, read_number, spread_sizes
from einformer.lint.python.functions import Signature, check_arguments, letters_of, name_call
from einformer.lint.python.indexing import index, unpack
from einformer.lint.python.operations import OPERATIONS, multiply_values

_NUMBERS = ("scale", "eps", "sqrt", "temp", "alpha", "theta", "base")  # parts of names of numbers
_RETURNED = "return"  # the declared result of a function stands among its names
Names = dict[str, Known | None]


@dataclass(slots=True)
class Reading:
    """A file with its findings."""

    source: Source
    known: frozenset[str]
    functions: Mapping[str, Signature]
    imports: Mapping[str, str]  # names in the file, and their original names
    modules: Mapping[str, Operation] = field(default_factory=dict)  # the operation of `self.name(…)`
    findings: list[Finding] = field(default_factory=list)
    names: int = 0  # assigned with a suffix
    values: dict[int, tuple[ast.expr, Known | None]] = field(default_factory=dict)  # of the statement that is read

    # ------------------------------------------------------------------------------------------------------ statements

    def body(self, statements: Iterable[ast.stmt], names: Names) -> None:
        """Reads statements in their order. Their assignments are added to the names."""
        for statement in statements:
            self.statement(statement, names)

    def statement(self, node: ast.stmt, names: Names) -> None:
        """Reads one statement, and the statements in it."""
        self.values.clear()
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.function(node, names)
            case ast.ClassDef():
                self.body(node.body, dict(names))
            case ast.Assign():
                result = self.value(node.value, names)
                for target in node.targets:
                    self.assign(target, result, names)
            case ast.AnnAssign(target=target, value=value):
                self.assign(
                    target, self.value(value, names) if value else None, names, suffixes.read_annotation(node.annotation)
                )
            case ast.AugAssign(target=target, op=op, value=value):
                self.assign(target, self.value(ast.copy_location(ast.BinOp(_load(target), op, value), node), names), names)
            case ast.Return(value=ast.expr() as value):
                result, declared = self.value(value, names), names.get(_RETURNED)
                if isinstance(declared, Value):
                    self.compare(value, declared.shape, result, "the annotation")
            case ast.Expr(value=value):
                self.value(value, names)
            case ast.If() | ast.For() | ast.AsyncFor() | ast.While() | ast.Try() | ast.With() | ast.AsyncWith():
                self.branches(node, names)
            case _:
                pass

    def function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, names: Names) -> None:
        """Reads the body of a function. Its parameters have the axes of their names."""
        returned = suffixes.read_annotation(node.returns)
        inner: Names = {**names, _RETURNED: None if returned is None else Value(returned)}
        for parameter in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
            inner.pop(parameter.arg, None)
            if (shape := suffixes.read_annotation(parameter.annotation)) is not None:
                self.assign(ast.copy_location(ast.Name(parameter.arg, ast.Store()), parameter), Value(shape), inner)
        self.body(node.body, inner)

    def branches(self, node: ast.stmt, names: Names) -> None:
        """Reads each branch by itself. An assignment is known afterwards only if all branches agree."""
        for header in (child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)):
            self.value(header, names)
        assigned = {child.id for child in ast.walk(node) if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store)}
        repeats = isinstance(node, ast.For | ast.AsyncFor | ast.While)
        before: Names = {name: None if repeats and name in assigned else value for name, value in names.items()}
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

    def assign(self, target: ast.expr, value: Known | None, names: Names, annotated: Shape | None = None) -> None:
        """Assigns a value to a name, or its parts to names. Compares the axes of the name with those of the value."""
        match target:
            case ast.Name(id=name) | ast.Attribute(attr=name):
                declared = suffixes.axes_of_name(name, self.known)
                self.names += declared is not None
                self.compare(target, declared, value, name)
                self.compare(target, annotated, value, name)
                self.compare(target, declared, Value(annotated) if annotated else None, name)
                if isinstance(target, ast.Name):
                    names[name] = self.restore_axes(declared or annotated, value)
            case ast.Tuple(elts=parts) | ast.List(elts=parts) if not any(isinstance(part, ast.Starred) for part in parts):
                if isinstance(value, Sizes) and not self.check_unpacking(target, parts, value.shape):
                    value = None
                for k, part in enumerate(parts):
                    self.assign(part, unpack(value, k, len(parts)), names)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for part in parts:
                    self.assign(part.value if isinstance(part, ast.Starred) else part, None, names)
            case _:
                pass

    def compare(self, node: ast.expr, declared: Shape | None, value: Known | None, name: str) -> None:
        """Compares the axes of a value with the declared axes, as far as both are known."""
        if declared is None or not isinstance(value, Value) or (value.open and len(declared) != len(value.shape)):
            return
        if isinstance(node, ast.Name) and spells(value.shape, declared):
            return
        self.attempt(node, check, declared, value.shape, name)

    def restore_axes(self, declared: Shape | None, value: Known | None) -> Known | None:
        """Returns the tensor with the axes of its name. It stays normalised."""
        if declared is None or (
            isinstance(value, Value) and (merges(declared, value.shape) or value.may_flatten(len(declared)))
        ):
            return value
        tensor = as_tensor(value)
        return Value(declared, tensor.normalised if tensor and len(tensor.shape) == len(declared) else None)

    def check_unpacking(self, target: ast.expr, parts: Sequence[ast.expr], shape: Shape) -> bool:
        """Checks `B, S, D = z_bsd.shape`: the number and the order of the names."""
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
        """Returns the known value of an expression."""
        if id(node) not in self.values:
            self.values[id(node)] = node, self.evaluate(node, names)
        return self.values[id(node)][1]

    def evaluate(self, node: ast.expr, names: Names) -> Known | None:
        """Evaluates an expression that is not in the cache."""
        match node:
            case ast.Constant(value=int(number)) if not isinstance(number, bool):
                return number
            case ast.Name(id=name):
                return self.resolve(name, names)
            case ast.Attribute():
                return self.attribute(node, names)
            case ast.Subscript():
                return self.item(node, names)
            case ast.Call():
                return self.call(node, names)
            case ast.BinOp():
                return self.binary(node, names)
            case ast.UnaryOp(operand=operand):
                result = self.value(operand, names)
                return read_number(node) if isinstance(result, int) else result if isinstance(result, Value) else None
            case ast.Compare(left=left, comparators=[right]):
                return self.attempt(node, self.meet, self.value(left, names), self.value(right, names), left, right)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return self.several(parts, names)
            case ast.IfExp(body=one, orelse=other):
                result, second = self.value(one, names), self.value(other, names)
                return result if result == second else None
            case ast.NamedExpr(target=target, value=value):
                result = self.value(value, names)
                self.assign(target, result, names)
                return result
        return None

    def several(self, parts: Iterable[ast.expr], names: Names) -> tuple[Known | None, ...] | None:
        """Returns the elements of a tuple, with the elements of a starred shape among them."""
        elements = list[Known | None]()
        for part in parts:
            if not isinstance(part, ast.Starred):
                elements.append(self.value(part, names))
            elif isinstance(sizes := self.value(part.value, names), Sizes | tuple):
                elements += spread_sizes(sizes)
            else:
                return None
        return tuple(elements)

    def resolve(self, name: str, names: Names) -> Known | None:
        """Returns the value of a name: the assigned one, the axes of its suffix, or the size `S` of an axis `s`."""
        if names.get(name) is not None:
            return names[name]
        if (shape := suffixes.axes_of_name(name, self.known)) is not None:
            return Value(shape)
        letter = next((spelling for spelling in (name.lower(), name) if spelling in self.known), "") if name.isupper() else ""
        return Size((letter + SOFT,)) if letter and len(name) == 1 else None

    def attribute(self, node: ast.Attribute, names: Names) -> Known | None:
        """Returns the shape of a tensor, its transpose, or a weight with a suffix."""
        tensor = as_tensor(self.value(node.value, names))
        match node.attr:
            case "shape" if tensor:
                return Sizes(tensor.shape)
            case "T" | "mT" if tensor and len(tensor.shape) >= 2:
                return Value(swap(tensor.shape, -1, -2)) if node.attr == "mT" or len(tensor.shape) == 2 else None
            case "data" | "weight":
                return tensor
            case "values" | "indices" if isinstance(several := self.value(node.value, names), Several):
                return Value(several.shape)
        shape = suffixes.axes_of_name(node.attr, self.known)
        return None if shape is None else Value(shape)

    def item(self, node: ast.Subscript, names: Names) -> Known | None:
        """Returns a size of a shape, one of several tensors, or a part of a tensor."""
        keys = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return index(self.value(node.value, names), keys, partial(self.value, names=names))

    def binary(self, node: ast.BinOp, names: Names) -> Known | None:
        """Returns a product, a product of sizes, or an element-wise function of two tensors."""
        one, other = self.value(node.left, names), self.value(node.right, names)
        match node.op:
            case ast.MatMult() if (left := as_tensor(one)) and (right := as_tensor(other)):
                return self.attempt(node, multiply_values, left, right)
            case ast.Mult() if isinstance(one, Size) and isinstance(other, Size):
                return Size(one.axis + other.axis)
            case ast.Add() if isinstance(one, Sizes | tuple) and isinstance(other, Sizes | tuple):
                return spread_sizes(one) + spread_sizes(other)
            case ast.MatMult():
                return None
        return self.attempt(node, self.meet, one, other, node.left, node.right)

    def meet(self, one: Known | None, other: Known | None, left: ast.expr, right: ast.expr) -> Value | None:
        """Returns the axes of an element-wise function. A number leaves them as they are."""
        if isinstance(one, Value) and isinstance(other, Value):
            return Value(broadcast(one.shape, other.shape, "this expression"), None, one.open or other.open)
        tensor, rest, node = (one, other, right) if isinstance(one, Value) else (other, one, left)
        if not isinstance(tensor, Value) or isinstance(rest, Sizes | Several | tuple):
            return None
        return Value(tensor.shape, None, tensor.open or not (isinstance(rest, int | Size) or _is_number(node)))

    def call(self, node: ast.Call, names: Names) -> Known | None:
        """Returns the result of a call: of PyTorch by the table of operations, of the file by its suffixes."""
        evaluate = partial(self.value, names=names)
        for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
            evaluate(argument)
        name, receiver = name_call(node.func, self.imports)
        if (signature := self.functions.get(name)) and (receiver is None or _is_self(receiver)):
            return self.attempt(node, self.apply_function, signature, node, names)
        if name == "size" and receiver is not None and len(node.args) == 1:
            return self.item(ast.Subscript(ast.Attribute(receiver, "shape"), node.args[0]), names)
        if name == "size" and receiver is not None and (tensor := as_tensor(evaluate(receiver))) and not node.keywords:
            return Sizes(tensor.shape)
        operation, first = OPERATIONS.get(name), [*([receiver] if receiver is not None else []), *node.args]
        if receiver is not None and _is_self(receiver):
            operation, first = self.modules.get(name), node.args
        if operation is None or not first:
            return None
        call = Call(first[0], first[1:], {pair.arg: pair.value for pair in node.keywords if pair.arg}, evaluate)
        return self.attempt(node, operation, call)

    def apply_function(self, signature: Signature, node: ast.Call, names: Names) -> Value | None:
        """Returns the result of a function of the file. Raises Disagreement E772, E776."""
        if any(isinstance(keyword, ast.Starred) for keyword in node.args):
            return None
        arguments = dict(zip((name for name, _ in signature.parameters), node.args, strict=False))
        arguments |= {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
        check_arguments(signature, node.args)
        tensors = {name: tensor for name in arguments if isinstance(tensor := self.value(arguments[name], names), Value)}
        meet = [(axes, tensors[name]) for name, axes in signature.parameters if axes is not None and name in tensors]
        meet = [(axes, tensor) for axes, tensor in meet if not tensor.open or len(tensor.shape) == len(axes)]
        shape = contract(
            [letters_of(axes) for axes, _ in meet], letters_of(signature.returned or ()), [t.shape for _, t in meet]
        )
        return None if signature.returned is None else Value(shape, None, any(tensor.open for _, tensor in meet))

    # -------------------------------------------------------------------------------------------------------- findings

    def attempt(self, node: ast.expr, function: Callable[..., Known | None], *arguments: object) -> Known | None:
        """Applies a rule. If its axes disagree, the reader reports it, and the result is unknown."""
        try:
            return function(*arguments)
        except Disagreement as found:
            self.report(found.code, found.message, node, found.facts, found.fix)
            return None

    def report(self, code: str, message: str, node: ast.expr, facts: Iterable[str] = (), fix: str = "") -> None:
        """Adds a finding at a node."""
        self.findings.append(Finding(code, message, span_of(node, self.source), tuple(facts), fix))


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


# `1 / math.sqrt(d)` or `self.scale`.
def _is_number(node: ast.expr) -> bool:
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


def _load(target: ast.expr) -> ast.expr:
    return ast.copy_location(ast.Name(target.id, ast.Load()), target) if isinstance(target, ast.Name) else target


def span_of(node: ast.expr, source: Source) -> Span:
    """Returns the span of a node. Python counts columns in bytes."""
    lines = source.text.split("\n")

    def offset(line: int, column: int) -> int:
        return sum(len(text) + 1 for text in lines[: line - 1]) + len(lines[line - 1].encode()[:column].decode(errors="ignore"))

    start = offset(node.lineno, node.col_offset)
    end = offset(node.end_lineno or node.lineno, node.end_col_offset or node.col_offset + 1)
    return Span(source, start, min(end, source.text.find("\n", start) % (len(source.text) + 1)))
