"""Judges the suffixes of Python names, `q_bsea`, against a legend, without running the file.

The legend is a comment, `# axes: b s d a e`, lines `b: batch` below each other, or in the settings. Without one nothing is
judged. The letters of einsum, of einops, of transposes, products and softmax are followed; anything else is unknown, and the
unknown is never an error.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from einformer.errors import Finding, Source, Span

Shape = tuple[str, ...]  # a letter for each axis; `1` for length 1, and nothing for an unknown axis
LETTER = re.compile(r"[A-Za-z][2-9]?|1")
NAME = re.compile(r"[^\W\d_]\w*?_(?P<suffix>(?:[A-Za-z][2-9]?|1){2,})")  # a single letter is not a suffix: `loss_a`
_AXES = re.compile(r"#\s*(?:einformer:\s*axes\b|axes:)(?P<axes>[^\n#]*)")
ENTRY = re.compile(r"[\s\-*]*`?(?P<letter>[A-Za-z][2-9]?)`?\s*(?:[:=]|\s{2})\s*(?P<words>[A-Za-z(]\w*)")
_PRIMED = re.compile(r"\b(?P<letter>[A-Za-z][2-9]?) is (?P<axis>[A-Za-z])'(?!\w)")  # as the emitted files say it
_SAME = frozenset(  # functions that keep the axes of their first argument
    re.findall(
        r"\w+",
        """
        abs bfloat16 clamp clip clone contiguous cos detach double dropout exp float gelu half log log_softmax masked_fill neg
        relu sigmoid silu sin softplus sqrt tanh to tril triu type_as pow rsqrt cumsum
        """,
    )
)
_REDUCED = frozenset(("sum", "mean", "amax", "amin", "prod", "std", "var", "logsumexp", "all", "any"))


@dataclass(frozen=True, slots=True)
class ShapedValue:
    """A tensor: its axes, and the axis over which it is normalised, counted from the last (`-1`).

    An `open` tensor may have more axes before these: an unknown tensor was added to it.
    """

    shape: Shape
    normalised: int = 0
    open: bool = False


class _Disagreement(Exception):
    def __init__(self, code: str, message: str, fact: str = "", fix: str = "") -> None:
        self.code, self.message, self.facts, self.fix = code, message, (fact,) * bool(fact), fix
        super().__init__(message)


# Returns the findings of a file, and how many assigned names have a suffix. `letters` hold what each counts. Raises
# SyntaxError.
def check_names(source: Source, letters: Mapping[str, str]) -> tuple[tuple[Finding, ...], int]:
    tree = ast.parse(source.text, source.name)
    legend = {**letters, **read_letters(tree, source.text)}
    reader = _StatementReader(source, legend)
    if legend:
        reader.read_body(tree.body)
    return tuple(sorted(reader.findings, key=lambda finding: finding.span.start)), reader.names


# Each letter comes with what it counts.
def read_letters(tree: ast.Module, text: str) -> dict[str, str]:
    return dict(_find_legend(tree, text))


# Lines are a legend if there are two, one below the other.
def _find_legend(tree: ast.Module, text: str) -> Iterator[tuple[str, str]]:
    for match in _AXES.finditer(text):
        for part in match["axes"].split(","):
            written, _, size = part.partition(":")
            yield from ((letter, size.strip()) for letter in written.split())
    comments = [line.strip().lstrip("#") if line.strip().startswith("#") else "" for line in text.splitlines()]
    strings = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    for lines in (comments, *(string.splitlines() for string in strings)):
        entries = dict[str, str]()
        for one, other in itertools.pairwise(map(ENTRY.match, lines)):
            entries |= {entry["letter"]: entry["words"] for entry in (one, other) if entry} if one and other else {}
        primed = _PRIMED.finditer("\n".join(lines)) if entries else ()
        yield from (entries | {match["letter"]: entries.get(match["axis"], match["axis"]) for match in primed}).items()


# `(b, s, 1, …)`.
def show(shape: Shape) -> str:
    return f"({', '.join(axis or '…' for axis in shape)})"


@dataclass(slots=True)
class _StatementReader:
    """Reads statements in their order. A name has the axes of its suffix, or of the value that was assigned to it."""

    source: Source
    legend: Mapping[str, str]
    findings: list[Finding] = field(default_factory=list)
    names: int = 0
    tensors: dict[str, ShapedValue | None] = field(default_factory=dict)
    values: dict[ast.expr, ShapedValue | None] = field(default_factory=dict)
    returned: Shape | None = None

    # ------------------------------------------------------------------------------------------------------ statements

    def read_body(self, statements: Iterable[ast.stmt]) -> None:
        for statement in statements:
            self.read(statement)

    def read(self, node: ast.stmt) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.read_function(node)
            case ast.Assign():
                value = self.examine(node.value)
                for target in node.targets:
                    self.assign(target, value)
                    if isinstance(target, ast.Name) and value is None and _merges(node.value, self.read_suffix(target.id)):
                        self.tensors[target.id] = None  # the name spells out axes that a view merges
            case ast.AnnAssign(target=target, annotation=annotation, value=written):
                self.assign(target, self.examine(written) if written else None, self.read_annotation(annotation))
            case ast.AugAssign(target=ast.Name(id=name) as target, op=op, value=value):
                old = ast.copy_location(ast.Name(name), node)
                self.assign(target, self.value(ast.copy_location(ast.BinOp(old, op, value), node)))
            case ast.Return(value=ast.expr() as value):
                self.compare(value, self.returned, self.examine(value), "the annotation")
            case _:
                self.read_parts(node)

    # An assignment in a branch or in a turn of a loop says nothing of what follows.
    def read_parts(self, node: ast.stmt) -> None:
        stored = {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
        self.tensors.update(dict.fromkeys(stored))
        for part in ast.walk(node):
            if isinstance(part, ast.expr):
                if part not in self.values and not isinstance(getattr(part, "ctx", None), ast.Store):
                    self.value(part)
            elif isinstance(part, ast.stmt) and part is not node:
                break
        for body in (getattr(node, name, []) for name in ("body", "orelse", "finalbody", "handlers")):
            before = dict(self.tensors)
            for part in body if isinstance(body, list) else []:
                self.read_body(part.body) if isinstance(part, ast.ExceptHandler) else self.read(part)
            self.tensors = before

    def read_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        before, self.tensors = self.tensors, dict(self.tensors)
        around, self.returned = self.returned, self.read_annotation(node.returns)
        for parameter in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
            self.tensors.pop(parameter.arg, None)
            if shape := self.read_annotation(parameter.annotation):
                self.assign(ast.copy_location(ast.Name(parameter.arg, ast.Store()), parameter), ShapedValue(shape))
        self.read_body(node.body)
        self.tensors, self.returned = before, around

    def assign(self, target: ast.expr, value: ShapedValue | None, annotated: Shape | None = None) -> None:
        match target:
            case ast.Name(id=name) | ast.Attribute(attr=name):
                declared = self.read_suffix(name)
                self.names += declared is not None
                for shape in filter(None, (declared, annotated)):
                    self.compare(target, shape, value, name)
                if isinstance(target, ast.Name):
                    same = value and declared and len(value.shape) == len(declared)
                    shaped = value if value and not value.open else None
                    self.tensors[name] = (
                        ShapedValue(declared, value.normalised if same and value else 0) if declared else shaped
                    )
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for part in parts:
                    self.assign(part.value if isinstance(part, ast.Starred) else part, None)

    def compare(self, node: ast.expr, declared: Shape | None, value: ShapedValue | None, name: str) -> None:
        if declared is not None and value is not None and not (value.open and len(declared) != len(value.shape)):
            self.attempt(node, lambda: self.check(declared, value.shape, name))

    # --------------------------------------------------------------------------------------------------------- letters

    # `q_bsea` has axes if the legend has all its letters, each different: `S_steps` is a word.
    def read_suffix(self, name: str) -> Shape | None:
        match = NAME.fullmatch(name)
        letters = tuple(letter for letter in LETTER.findall(match["suffix"]) if letter != "1") if match else ()
        if match is None or len(set(letters)) < len(letters) or not all(letter in self.legend for letter in letters):
            return None
        return tuple(LETTER.findall(match["suffix"]))

    # `Float[Tensor, "b s d"]` has axes as far as the legend has their letters.
    def read_annotation(self, node: ast.expr | None) -> Shape | None:
        match node:
            case ast.Subscript(slice=ast.Tuple(elts=[_, ast.Constant(value=str(text))])) if "*" not in text and "." not in text:
                return forget_repeated(tuple(part if part in self.legend or part == "1" else "" for part in text.split()))
        return None

    # The legend may say the same of two letters.
    def are_kin(self, one: str, other: str) -> bool:
        counts = [self.legend.get(letter, letter) for letter in (one, other)]
        return one == other or one[0] == other[0] or counts[0] == counts[1] != ""

    def agree(self, one: str, other: str) -> bool:
        return "" in (one, other) or "1" in (one, other) or self.are_kin(one, other)

    def check(self, declared: Shape, actual: Shape, name: str) -> None:
        fact = f"`{name}` says {show(declared)}, its value has {show(actual)}"
        if len(declared) != len(actual):
            raise _Disagreement("E771", f"`{name}` has {len(declared)} letters, its value {len(actual)} axes", fact)
        wrong = [k for k, (one, other) in enumerate(zip(declared, actual, strict=True)) if not self.agree(one, other)]
        if not wrong and not are_crossed(declared, actual):
            return
        if sorted(declared) == sorted(actual):
            order = ", ".join(str(actual.index(axis)) for axis in declared)
            fix = f"`.permute({order})`, or the letters in the order {show(actual)}"
            raise _Disagreement("E771", f"the axes of `{name}` stand in another order", fact, fix)
        k = wrong[0] if wrong else 0
        raise _Disagreement("E771", f"axis {k} of `{name}` is {actual[k]}, its name says {declared[k]}", fact)

    # The axes of two tensors are aligned at the last one.
    def broadcast(self, one: Shape, other: Shape) -> Shape:
        fact = f"{show(one)} meets {show(other)}, from the last axis on"
        for left, right in zip(reversed(one), reversed(other), strict=False):
            if not self.agree(left, right):
                raise _Disagreement("E773", f"in this expression, {left} meets {right}", fact)
        if are_crossed(one, other):
            raise _Disagreement("E773", "the axes of this expression cross", fact, "transpose one of them")
        longer, shorter = (one, other) if len(one) >= len(other) else (other, one)
        head = longer[: len(longer) - len(shorter)]
        pairs = zip(longer[len(head) :], shorter, strict=True)
        return head + tuple(right if left == "1" or (not left and right != "1") else left for left, right in pairs)

    def multiply(self, one: ShapedValue, other: ShapedValue) -> ShapedValue | None:
        if min(len(one.shape), len(other.shape)) < 2:
            return None
        if not self.agree(one.shape[-1], other.shape[-2]):
            message = f"in the product, the last axis {one.shape[-1]} meets {other.shape[-2]}"
            fix = "transpose the second" if self.agree(one.shape[-1], other.shape[-1]) else ""
            raise _Disagreement("E773", message, f"{show(one.shape)} @ {show(other.shape)}", fix)
        self.check_weights(one, -1)
        head = self.broadcast(one.shape[:-2], other.shape[:-2])
        return ShapedValue(forget_repeated((*head, one.shape[-2], other.shape[-1])))

    # Weights add up to 1 over the axis over which they are summed.
    def check_weights(self, weights: ShapedValue, summed: int) -> None:
        over = weights.normalised
        twins = (
            bool(over)
            and weights.shape[over]
            and weights.shape[summed]
            and self.are_kin(weights.shape[over], weights.shape[summed])
        )
        if over != summed and twins:
            message = f"the weights add up to 1 over axis {over}, but are summed over axis {summed}"
            raise _Disagreement("E775", message, f"they have {show(weights.shape)}", f"`softmax(dim={summed})`")

    # The letters of an einsum stand for axes of its operands.
    def contract(
        self, terms: Sequence[Sequence[str]], output: Sequence[str], operands: Sequence[ShapedValue | None]
    ) -> ShapedValue:
        meaning = dict[str, str]()
        for term, operand in zip(terms, operands, strict=True):
            shape = operand.shape if operand else ("",) * len(term)
            if len(term) != len(shape):
                message = f"`{''.join(term)}` has {len(term)} letters, its operand {len(shape)} axes"
                raise _Disagreement("E772", message, f"the operand has {show(shape)}")
            for letter, axis in zip(term, shape, strict=True):
                if not self.agree(meaning.get(letter, ""), axis):
                    message = f"`{letter}` of the equation is {meaning[letter]} in one operand, {axis} in another"
                    raise _Disagreement("E772", message, f"`{''.join(term)}` is {show(shape)}")
                meaning[letter] = meaning.get(letter) or axis or self.legend_letter(letter, {})
        self.check_letters(meaning, [letter for term in (*terms, output) for letter in term])
        self.check_summed(terms, output, operands)
        return ShapedValue(
            forget_repeated(tuple(meaning.get(letter) or self.legend_letter(letter, meaning) for letter in output))
        )

    def legend_letter(self, letter: str, meaning: Mapping[str, str]) -> str:
        return letter if letter in self.legend and letter not in meaning else ""

    # A letter may be another index of an axis, `bse,bsf->bsef` for keys and values. A slip stands once.
    def check_letters(self, meaning: dict[str, str], named: Sequence[str]) -> None:
        for letter, axis in list(meaning.items()):
            if axis and axis in named and not self.are_kin(axis, letter):
                if not named.count(letter) > 1 < named.count(axis):
                    raise _Disagreement("E772", f"`{letter}` of the equation is the axis {axis}, which it has too")
                meaning[letter] = ""

    def check_summed(
        self, terms: Sequence[Sequence[str]], output: Sequence[str], operands: Sequence[ShapedValue | None]
    ) -> None:
        weights = [(term, value) for term, value in zip(terms, operands, strict=True) if value and value.normalised]
        if len(weights) == 1 < len(terms):
            (term, value), others = weights[0], [letter for other in terms if other is not weights[0][0] for letter in other]
            over = term[value.normalised]
            if over not in output and over not in others:
                message = f"the weights add up to 1 over axis {value.normalised}, and are summed over it alone"
                raise _Disagreement("E775", message, f"they have {show(value.shape)}", f"`{over}` on what they weigh")
            for k, letter in enumerate(term):
                if over in output and letter not in output and letter in others:
                    self.check_weights(value, k - len(term))

    # ----------------------------------------------------------------------------------------------------- expressions

    # All axes are known.
    def value(self, node: ast.expr) -> ShapedValue | None:
        value = self.examine(node)
        return None if value is None or value.open else value

    # Of an open tensor the last axes are known.
    def examine(self, node: ast.expr) -> ShapedValue | None:
        if node not in self.values:
            self.values[node] = None
            self.values[node] = self.attempt(node, lambda: self.evaluate(node))
        return self.values[node]

    def attempt(self, node: ast.expr, rule: Callable[[], ShapedValue | None]) -> ShapedValue | None:
        try:
            return rule()
        except _Disagreement as wrong:
            self.findings.append(Finding(wrong.code, wrong.message, span_of(node, self.source), wrong.facts, wrong.fix))
            return None

    def evaluate(self, node: ast.expr) -> ShapedValue | None:
        match node:
            case ast.Name(id=name):
                return self.tensors[name] if name in self.tensors else self.named(name)
            case ast.Attribute(value=inner, attr="T" | "mT"):
                tensor = self.value(inner)
                return ShapedValue(swap(tensor.shape, -1, -2)) if tensor and len(tensor.shape) == 2 else None
            case ast.Attribute(attr=name):
                return self.named(name)
            case ast.Call():
                return self.call(node)
            case ast.BinOp(left=left, op=op, right=right):
                one, other = self.value(left), self.value(right)
                if one and other:
                    return self.multiply(one, other) if isinstance(op, ast.MatMult) else self.meet(one, other)
                tensor, rest = (self.examine(left), right) if one or not other else (other, left)
                matters = tensor and not isinstance(op, ast.MatMult)
                return ShapedValue(tensor.shape, open=tensor.open or not _is_number(rest)) if tensor and matters else None
            case ast.Subscript(value=inner, slice=key):
                keys, tensor = key.elts if isinstance(key, ast.Tuple) else [key], self.value(inner)
                return slice_axes(tensor.shape, keys) if tensor else None
            case ast.UnaryOp(operand=operand):
                return self.value(operand)
        return None

    def named(self, name: str) -> ShapedValue | None:
        shape = self.read_suffix(name)
        return None if shape is None else ShapedValue(shape)

    def call(self, node: ast.Call) -> ShapedValue | None:
        texts = [part.value for part in node.args if isinstance(part, ast.Constant) and isinstance(part.value, str)]
        operands = [part for part in node.args if not (isinstance(part, ast.Constant) and isinstance(part.value, str))]
        if len(texts) == 1 and "->" in texts[0] and not any(isinstance(part, ast.Starred) for part in operands):
            return self.read_pattern(texts[0], isinstance(node.args[0], ast.Constant), list(map(self.value, operands)))
        match node.func:
            case ast.Attribute(value=receiver, attr=name):
                arguments = [receiver, *node.args] if self.value(receiver) else node.args
            case ast.Name(id=name):
                arguments = node.args
            case _:
                return None
        tensor = self.value(arguments[0]) if arguments else None
        keywords = {pair.arg: pair.value for pair in node.keywords}
        return self.apply(name, tensor, arguments[1:], keywords) if tensor else None

    def meet(self, one: ShapedValue, other: ShapedValue) -> ShapedValue:
        return ShapedValue(self.broadcast(one.shape, other.shape))

    def apply(
        self, name: str, tensor: ShapedValue, rest: list[ast.expr], keywords: Mapping[str | None, ast.expr]
    ) -> ShapedValue | None:
        shape, numbers = tensor.shape, [read_number(part) for part in (*rest, *keywords.values())]
        inside = [k for k in numbers if k is not None and -len(shape) <= k < len(shape)]
        if name in ("transpose", "swapaxes", "swapdims") and len(inside) == len(numbers) == 2:
            return ShapedValue(swap(shape, *inside))
        if name in ("mT", "adjoint", "t") and len(shape) == 2:
            return ShapedValue(swap(shape, 0, 1))
        if name == "permute":
            order = rest[0].elts if len(rest) == 1 and isinstance(rest[0], ast.Tuple | ast.List) else rest
            return self.permute(shape, [read_number(part) for part in order])
        if name == "softmax" and inside:
            return ShapedValue(shape, inside[0] % len(shape) - len(shape))
        if name in ("matmul", "bmm") and rest and (other := self.value(rest[0])):
            return self.multiply(tensor, other)
        if name in _REDUCED:
            return reduce(shape, rest[0] if rest else keywords.get("dim"), keywords.get("keepdim"))
        if name == "masked_fill" and rest and (mask := self.value(rest[0])):
            self.meet(tensor, mask)
        return tensor if name in _SAME else None

    def permute(self, shape: Shape, order: list[int | None]) -> ShapedValue | None:
        places = [k for k in order if k is not None]
        if len(places) < len(order) or not all(-len(shape) <= k < len(shape) for k in places):
            return None
        if len(places) != len(shape):
            raise _Disagreement("E771", f"a tensor of {len(shape)} axes is permuted by {len(places)}", f"it has {show(shape)}")
        return ShapedValue(tuple(shape[k] for k in places))

    # The text comes first in an einsum of torch, and later in a function of einops.
    def read_pattern(self, text: str, is_first: bool, operands: list[ShapedValue | None]) -> ShapedValue | None:
        left, _, right = text.partition("->")
        if "." in text or "->" in right:
            return None
        sides = [*left.split(","), right]
        terms = [list(side.replace(" ", "")) if is_first else re.findall(r"\([^()]*\)|[^\s()]+", side) for side in sides]
        if len(terms) != len(operands) + 1:
            return None
        if is_first and (new := [letter for letter in terms[-1] if not any(letter in term for term in terms[:-1])]):
            raise _Disagreement("E772", f"`{new[0]}` is on the right of the equation, and on nothing left of it")
        return self.contract(terms[:-1], terms[-1], operands)


# A letter that stands twice names the axis, not one of two positions.
def forget_repeated(shape: Shape) -> Shape:
    return tuple("" if axis != "1" and shape.count(axis) > 1 else axis for axis in shape)


# `(s, t)` beside `(t, s)`.
def are_crossed(one: Shape, other: Shape) -> bool:
    pairs = zip(reversed(one), reversed(other), strict=False)
    return any(a != b and a in other and b in one and a not in ("", "1") and b not in ("", "1") for a, b in pairs)


def swap(shape: Shape, one: int, other: int) -> Shape:
    order = list(shape)
    order[one], order[other] = order[other], order[one]
    return tuple(order)


# A dimension that is no literal, or a reduction over all, makes the result unknown.
def reduce(shape: Shape, dim: ast.expr | None, keep: ast.expr | None) -> ShapedValue | None:
    parts = dim.elts if isinstance(dim, ast.Tuple | ast.List) else [dim] if dim else []
    numbers = [number for part in parts if (number := read_number(part)) is not None and -len(shape) <= number < len(shape)]
    if not parts or len(numbers) < len(parts) or not (keep is None or isinstance(keep, ast.Constant)):
        return None
    kept, gone = isinstance(keep, ast.Constant) and keep.value is True, {number % len(shape) for number in numbers}
    return ShapedValue(tuple("1" if k in gone else axis for k, axis in enumerate(shape) if kept or k not in gone))


# A slice with bounds has an unknown length. Anything but slices, numbers and new axes is not followed.
# `x[:, None, 0]`, or `x[..., None]`.
def slice_axes(shape: Shape, keys: Sequence[ast.expr]) -> ShapedValue | None:
    axes, rest = list[str](), list(shape)
    for place, key in enumerate(keys):
        match key:
            case ast.Constant(value=None):
                axes.append("1")
            case ast.Constant(value=value) if value is ...:
                after = sum(not (isinstance(later, ast.Constant) and later.value is None) for later in keys[place + 1 :])
                axes, rest = [*axes, *rest[: len(rest) - after]], rest[len(rest) - after :]
            case ast.Slice(lower=lower, upper=upper, step=step) if rest:
                axes.append("" if lower or upper or step else rest[0])
                del rest[0]
            case _ if rest and (read_number(key) is not None):
                del rest[0]
            case _:
                return None
    return ShapedValue((*axes, *rest))


def read_number(node: ast.expr) -> int | None:
    match node:
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(number))):
            return -number
    return None


def _merges(node: ast.expr, declared: Shape | None) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr=name), args=sizes) if declared:
            return name in ("flatten", "unflatten") or (name in ("view", "reshape") and len(sizes) != len(declared))
    return False


# `1 / math.sqrt(d)`: what is certain to have no axes.
def _is_number(node: ast.expr) -> bool:
    match node:
        case ast.Constant() | ast.Call(func=ast.Attribute(value=ast.Name(id="math")) | ast.Name(id="float" | "len")):
            return True
        case ast.BinOp(left=left, right=right):
            return _is_number(left) and _is_number(right)
        case ast.UnaryOp(operand=inner):
            return _is_number(inner)
    return False


# The span ends with the first line. Python counts columns in bytes.
def span_of(node: ast.expr, source: Source) -> Span:
    lines = source.text.split("\n")
    before = sum(len(line) + 1 for line in lines[: node.lineno - 1])
    line = lines[node.lineno - 1].encode()
    end = node.end_col_offset if node.end_lineno == node.lineno else len(line)
    start, stop = (len(line[:column].decode(errors="ignore")) for column in (node.col_offset, end))
    return Span(source, before + start, before + stop)
