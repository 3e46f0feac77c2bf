"""Emits the file of PyTorch for a specification: plain `nn.Module` classes, one comment for each equation.

The file runs without einformer. Variables are named as in the notes, `q_bsea`; a prime takes the next free letter.
"""

from __future__ import annotations

import ast
import builtins
import functools
import itertools
import keyword
import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from einformer.errors import EinformerError, Span, fail
from einformer.interpreters.torch.classes import Class, Comment
from einformer.interpreters.torch.fast import HELPERS as KERNEL_HELPERS
from einformer.interpreters.torch.flex import HELPERS as FLEX_HELPERS
from einformer.interpreters.torch.fragments import INDENT, Context, escape_prose, find_letters, uses
from einformer.interpreters.torch.parallel import write_helpers
from einformer.interpreters.torch.plan import NOTATION, PLAIN, Plan, Style
from einformer.interpreters.torch.writing import WIDTH, find_unused, fold, romanise, spell_indices, to_ascii
from einformer.language.binding import refuse_unbound
from einformer.language.calls import slot_letters
from einformer.language.printer import expression
from einformer.language.sizes import Legend
from einformer.language.specialise import specialise
from einformer.language.tree import Axis, Expression, Index, Layer, Name, Scalar, Spec
from einformer.language.walk import equations, find_all, list_letters, loops
from einformer.language.weights import key
from einformer.program.collectives import Near, Neighbours
from einformer.program.fusing import lower_for_plan
from einformer.program.kernels import PAIR
from einformer.program.lowering import lower_functions
from einformer.program.operations import Call, Function, Recur, Turn
from einformer.program.rewrite import walk_loops, walk_values
from einformer.program.sharding import Window, describe_index, own

_HEAD = re.compile(r"(?:class|def) (\w+)")
_TOKEN = re.compile(r"(?:self\.)?config\.\w+|\w+|\S")


@dataclass(frozen=True, slots=True)
class Merged:
    """A layer that the class of another computes, with other sizes in the place of that one's."""

    first: str
    sizes: Mapping[str, str]


# `A, H = config.A, config.H`, or a size that the class was given itself, `self.D`.
def reads_config(node: ast.AST) -> bool:
    if not isinstance(node, ast.Assign):
        return False
    values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
    owners = [ast.unparse(value.value) for value in values if isinstance(value, ast.Attribute)]
    return len(owners) == len(values) and set(owners) <= {"config", "self.config", "self"}


# Returns None where the classes differ in more than sizes of the config, and products of these.
def find_sizes(first: Sequence[str], other: Sequence[str], products: Sequence[str] = ()) -> dict[str, str] | None:
    trees = (ast.parse("\n".join(lines)).body[-1] for lines in (first, other))
    texts = [ast.unparse(_Nameless().visit(tree)) for tree in trees]
    for number, words in enumerate(products):
        written = re.escape(words).replace("config", r"((?:self\.)?)config")
        texts = [re.sub(written, rf"\1config._{number}", text) for text in texts]
    one, two = map(_TOKEN.findall, texts)
    sizes: dict[str, str] = {}
    for ours, theirs in itertools.zip_longest(one, two, fillvalue=""):
        config, is_size, size = ours.rpartition("config.")
        if is_size and size[0] != "_" and (theirs.isdecimal() or theirs.startswith(f"{config}config.")):
            same = theirs.rpartition(".")[2]
            if sizes.setdefault(size, same) != same:
                return None
        elif ours != theirs:
            return None
    return {size: products[int(same[1:])] if same.startswith("_") else same for size, same in sizes.items()}


class _Nameless(ast.NodeTransformer):
    """A class or function without words: local names are numbers, sizes are read from the config where they are used."""

    names: Mapping[str, ast.expr] = {}

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.name, node.body = "_", [statement for statement in node.body if not isinstance(statement, ast.Expr)]
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        body = node.body[isinstance(node.body[0], ast.Expr) and isinstance(node.body[0].value, ast.Constant) :]
        names: dict[str, ast.expr] = {}
        for statement in filter(reads_config, body):
            assert isinstance(statement, ast.Assign)
            pairs = zip(ast.unparse(statement.targets[0]).split(","), ast.unparse(statement.value).split(","), strict=True)
            names |= {name.strip(" ()"): ast.Name(value.strip(" ()")) for name, value in pairs}
        node.name, node.body = "_", [statement for statement in body if not reads_config(statement)]
        node.returns, node.decorator_list, node.args.defaults = None, [], []
        stored = (
            statement.id
            for statement in ast.walk(node)
            if isinstance(statement, ast.Name) and isinstance(statement.ctx, ast.Store)
        )
        local = dict.fromkeys(
            [*(statement.arg for statement in node.args.args if statement.arg not in ("self", "config")), *stored]
        )
        self.names = names | {name: ast.Name(f"_{number}") for number, name in enumerate(local)}
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return self.names.get(node.id, node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return ast.arg(ast.unparse(self.names.get(node.arg, ast.Name(node.arg))))

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if ast.unparse(node.func) == "torch.einsum" and isinstance(equation := node.args[0], ast.Constant):
            order = [*dict.fromkeys(re.sub("[^a-zA-Z]", "", str(equation.value)))]
            text = "".join(f" {order.index(sign)}" if sign in order else sign for sign in str(equation.value))
            node.args[0] = ast.Constant(text)
        return self.generic_visit(node)


HELPERS = {
    "inside": '''def inside(n: Tensor, size: int, read: Tensor | None = None) -> Tensor:
    """The numbers of a slot, each of which lies inside its axis wherever it is read."""
    outside = (n < 0) | (n >= size)
    wrong = outside if read is None else outside & read
    torch._assert_async(~wrong.any(), f"a slot leaves its axis, which has {size} numbers")
    return n.clamp(0, size - 1)
''',
    "top": '''def top(x: Tensor, k: int, dim: int) -> Tensor:
    """True at the k largest along a dim; of equal ones at the lower index."""
    order = x.sort(dim=dim, descending=True, stable=True).indices
    chosen = torch.narrow(order, dim, 0, min(k, x.shape[dim]))
    return torch.zeros_like(x, dtype=torch.bool).scatter(dim, chosen, True)
''',
    "top_together": '''def top_together(x: Tensor, k: int, dims: tuple[int, ...]) -> Tensor:
    """The same along several dims together, row-major."""
    last = tuple(range(-len(dims), 0))
    moved = x.movedim(dims, last)
    return top(moved.flatten(-len(dims)), k, -1).view(moved.shape).movedim(last, dims)
''',
    "softmax": '''def softmax(x: Tensor, dims: int | tuple[int, ...]) -> Tensor:
    """Over one axis or several together; zero where everything is -inf."""
    empty = torch.amax(x, dims, keepdim=True) == -math.inf
    x = torch.where(empty, 0, x)
    y = torch.softmax(x, dims) if isinstance(dims, int) else torch.exp(x - torch.logsumexp(x, dims, keepdim=True))
    return torch.where(empty, 0, y)
''',
    "log_sum_exp": '''def log_sum_exp(x: Tensor, dims: int | tuple[int, ...]) -> Tensor:
    """-inf where everything is -inf, without a gradient."""
    empty = torch.amax(x, dims, keepdim=True) == -math.inf
    y = torch.logsumexp(torch.where(empty, 0, x), dims, keepdim=True)
    return torch.where(empty, -math.inf, y).squeeze(dims)
''',
}


BETWEEN = 2  # blank lines from one class to the next
_PAIRS = "nprtwyz"  # letters of which the first that is free stands for pairs


# The file for the layer or model `name` of a checked spec whose sizes are bound.
def write_source(spec: Spec, name: str, legend: Legend, plan: Plan = NOTATION, style: Style = PLAIN) -> str:
    return _make_file(spec, name, legend, plan, style).text()


def find_places(
    spec: Spec, name: str, legend: Legend, plan: Plan = NOTATION, style: Style = PLAIN
) -> dict[Span, tuple[int, str]]:
    return _make_file(spec, name, legend, plan, style).find_places()


def _make_file(spec: Spec, name: str, legend: Legend, plan: Plan, style: Style) -> EmittedFile:
    special = specialise(spec, name)
    refuse_unbound(special, legend)
    lowered = lower_functions(special, legend)
    functions = lower_for_plan(lowered, special, name, legend, plan.sharding, plan.fast, flex=plan.flex)
    return EmittedFile(special, name, legend, plan, style, count_axes(spec), lowered, functions, functions)


# Counts the axes before a layer is called with more.
def count_axes(spec: Spec) -> dict[Span, int]:
    return {layer.span: len(slot_letters(layer.formals[0])) for layer in spec.layers if layer.formals}


@dataclass(slots=True)
class EmittedFile:
    """One file: the specialised layers of a spec, each a class, or a function where it has no weights."""

    spec: Spec
    name: str
    legend: Legend
    plan: Plan
    style: Style
    ranks: Mapping[Span, int]  # how many axes the first input of each layer of the text has
    lowered: Mapping[str, Function]  # before any rewrite
    whole: Mapping[str, Function]  # where there is no cache
    functions: Mapping[str, Function]
    helpers: dict[str, None] = field(default_factory=dict)
    letters: dict[str, str] = field(default_factory=dict)
    names: dict[tuple[str, str], str] = field(default_factory=dict)  # of scalars, layers and blocks in the file
    passed: dict[str, tuple[str, ...]] = field(default_factory=dict)  # what each layer is made of: the config, and sizes
    merged: dict[str, Merged] = field(default_factory=dict)  # the layers that the class of another computes
    windows: Mapping[str, Window] = field(default_factory=dict)
    turned: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # the numbers of turns that each function is given
    hidden: dict[str, frozenset[str]] = field(default_factory=dict)  # letters in front of which a class has any axes

    def __post_init__(self) -> None:
        if self.plan.sharding is not None:
            self.legend = self.plan.sharding.local(self.legend)
            values = (value for function in self.functions.values() for value in walk_values(function))
            self.windows = dict(e.near for value in values if isinstance(e := value.operation, Neighbours | Near))
        if self.windows or self.plan.flex:
            self.turned = dict(self.find_turned())

    def find_windows(self, name: str) -> dict[str, Window]:
        letters = {letter for value in walk_values(self.functions[name]) for letter in value.axes} if self.windows else ()
        return {letter: window for letter, window in self.windows.items() if letter in letters}

    # The numbers of turns by which the windows of a function differ, or which its masks read.
    def find_turned(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        turned = dict[str, tuple[str, ...]]()
        for name, function in self.functions.items():
            bounds = (e for window in self.find_windows(name).values() for e in (window.before, window.after))
            inside = [value.operation for value in walk_values(function)]
            read = [x.letter for x in find_all(Index, *bounds)] + [e.letter for e in inside if isinstance(e, Turn)]
            read += [letter for e in inside if isinstance(e, Call) for letter in turned[e.function]]
            own = {turns.letter for turns in walk_loops(function.lines)} | {e.letter for e in inside if isinstance(e, Recur)}
            turned[name] = tuple(dict.fromkeys(letter for letter in read if letter not in own))
            yield name, turned[name]

    @property
    def kernels(self) -> Mapping[str, Function]:
        return self.whole if self.plan.fast else {}

    def text(self) -> str:
        return self.compose()[0]

    # Lines are counted from the last one up: the head is written last.
    def find_places(self) -> dict[Span, tuple[int, str]]:
        text, classes = self.compose()
        lines_of_spans, end = dict[Span, tuple[int, str]](), text.count("\n")
        for _, part in reversed(classes):
            heights = [sum(1 for _ in fold(line)) for line in part]
            first = end - sum(heights) + 1
            for number, line in reversed([*enumerate(part)]):
                if isinstance(line, Comment):
                    around = next(head for line in reversed(part[:number]) if (head := _HEAD.match(line)))
                    lines_of_spans[line.span] = first + sum(heights[:number]), around[1]
            end = first - 1 - BETWEEN
        return lines_of_spans

    # Returns the whole file, and the lines of each class before they are folded.
    def compose(self) -> tuple[str, list[tuple[Class, list[str]]]]:
        text, classes = self.compose_once()
        while (clash := next(self.find_clashes(text), None)) is not None:
            words, longer = {*re.findall(r"\w+", text)}, itertools.accumulate(itertools.repeat("_"), initial=self.names[clash])
            self.names[clash] = next(name for name in longer if name not in words)
            text, classes = self.compose_once()
        return self.compose_once(romanise(text)) if self.style.ascii else (text, classes)

    def find_clashes(self, text: str) -> Iterator[tuple[str, str]]:
        yield from (named for named, called in self.names.items() if keyword.iskeyword(called) or hasattr(builtins, called))
        bound = _count_bound(text)
        yield from (named for named, called in self.names.items() if bound[called] > 1)

    # `names` replaces those that are not ASCII.
    def compose_once(self, names: Mapping[str, str] | None = None) -> tuple[str, list[tuple[Class, list[str]]]]:
        layers = {layer.name: layer for layer in self.spec.layers}
        letters = (letter for layer in self.spec.layers for letter in list_letters(layer))
        self.letters = spell_indices({axis.letter: axis.letter for axis in self.spec.axes}, letters)
        paired = {letter for function in self.kernels.values() for value in walk_values(function) for letter in value.axes}
        for pair in (PAIR, own(PAIR)):
            if pair in paired:
                self.letters[pair] = find_unused(self.letters, _PAIRS, "p")
        if self.plan.sharding is not None:
            local = (value for function in self.functions.values() for value in walk_values(function))
            self.letters = spell_indices(self.letters, (letter for value in local for letter in value.axes))
        classes = self.classes(layers)
        while self.merge(classes):
            classes = self.classes(layers)
        if self.plan.recompute:
            self.refuse_kept_turns([cls for cls, _ in classes])
        spell = str if names is None else functools.partial(to_ascii, names=names)
        classes = classes if names is None else [(cls, [spell(line) for line in part]) for cls, part in classes]
        bodies = ["\n".join(short for line in part for short in fold(line)) for _, part in classes]
        texts = HELPERS | KERNEL_HELPERS | FLEX_HELPERS | write_helpers(self.plan.sharding)
        pieces = dict.fromkeys(["pieces_of", "parts_of"] if "pieces_of" in texts else [])
        called = {name: None for name in HELPERS if any(f" {name}(" in texts[other] for other in self.helpers if other != name)}
        helpers = [texts[name].rstrip() for name in called | pieces | self.helpers]
        code = spell(("\n" * (BETWEEN + 1)).join([*self.first(), *helpers, *bodies]))
        fields = map(spell, (*self.sizes(classes[0][0].make_context(Context, "self.")), *self.scalars()))
        code = "\n".join([*self.config([*fields], code), code])
        return spell("\n".join([*self.doc(code), "", *_write_imports(code), "", "", f"{code}\n"])), classes

    # Every turn of a loop with weights must be a block with a forward.
    def refuse_kept_turns(self, classes: Sequence[Class]) -> None:
        looping = [cls for cls in classes if cls.blocks.depth]
        kept = next((cls for cls in looping if cls.blocks.turn is None), None)
        if kept is not None or not looping or self.plan.sharding is not None:
            name = self.name if kept is None else kept.layer.name
            why = (
                "of a rank of a mesh" if self.plan.sharding is not None else f"of `{name}`, which has no blocks with a forward"
            )
            raise fail("E605", f"there is no recomputation {why}", fix='`recompute="none"`')

    # A class stands once for all layers that it computes.
    def classes(self, layers: Mapping[str, Layer]) -> list[tuple[Class, list[str]]]:
        written = list[tuple[Class, list[str]]]()
        self.helpers.clear()
        for layer in self.spec.layers:
            if other := self.merged.get(layer.name):
                first = next(cls for cls, _ in written if cls.layer.name == other.first)
                config = "config" in self.passed[other.first]
                self.passed[layer.name] = (*["config"] * config, *(other.sizes.get(size, size) for size in first.own))
                self.names["layer", layer.name] = first.name
            else:
                cls = self.make_class(layer, layers)
                written.append((cls, [*cls.lines()]))
        return written

    # Take a class for several layers, where they are one layer of the text and differ in names and sizes alone.
    def merge(self, classes: list[tuple[Class, list[str]]]) -> bool:
        count, products = len(self.merged), [*self.list_products(classes[0][0].make_context(Context, "config."))]
        for place, (other, lines) in enumerate(classes):
            for first, its in classes[:place]:
                if first.layer.span == other.layer.span and other.layer.name != self.name:
                    sizes, front = find_sizes(its, lines, products), self.find_front(first.layer, other.layer)
                    if sizes is not None and self.can_merge(first, sizes, front):
                        self.merged[other.layer.name] = Merged(first.layer.name, sizes)
                        self.hidden[first.layer.name] = self.hidden.get(first.layer.name, frozenset()) | front
                        break
        return len(self.merged) > count

    # The sizes of axes that are made of one that no axis has.
    def list_products(self, config: Context) -> Iterator[str]:
        for axis in self.spec.axes:
            if not (isinstance(axis.size, Name) or self.is_made_of_axes(axis.size)):
                yield from filter(None, [config.write_formula(axis.size)])

    def is_made_of_axes(self, size: Expression) -> bool:
        return all(self.legend.axis_of_size(x.name) for x in find_all(Name, size))

    # The class may have more or fewer axes in front.
    def can_merge(self, first: Class, sizes: Mapping[str, str], front: frozenset[str]) -> bool:
        varied = {size for size, other in sizes.items() if size != other}
        named = {key(weight.name) for weight in first.layer.weights} & varied
        counted = {f"index {letter}" for letter in front} & first.context.needs.keys()
        return not named and not counted and all(self.legend.axis_of_size(size) for size in varied)

    def find_front(self, first: Layer, other: Layer) -> frozenset[str]:
        ours, theirs = (slot_letters(layer.formals[0]) for layer in (first, other))
        return frozenset(ours[: len(ours) - self.ranks[first.span]] if len(ours) != len(theirs) else ())

    def make_class(self, layer: Layer, layers: Mapping[str, Layer]) -> Class:
        return Class(self, layer, layers)

    def first(self) -> Iterator[str]:
        return iter(())

    def doc(self, code: str) -> Iterator[str]:
        title = re.sub(r"^[^ ]+[.]ein(: |$)", f"{self.name}: ", self.spec.title).rstrip(": ") or self.name
        yield f'"""{escape_prose(title.removesuffix("."))}.'
        yield ""
        order = ", in the order in which they lie" if self.plan.fast else ""
        used = find_letters(code, frozenset(self.letters.values()))
        primes = "".join(f"; {new} is {describe_index(old)}" for old, new in self.letters.items() if old != new and new in used)
        yield from textwrap.wrap(f"A name ends in the letters of its axes{order}{primes}.", WIDTH)
        yield ""
        for axis in self.spec.axes:
            yield escape_prose(f"    {axis.letter}: {axis.comment} ({expression(axis.size)})".replace(":  ", ": "))
        notes = [note for layer in self.spec.layers for note in (layer.note, *(q.note for q in equations(layer.body))) if note]
        if listed := list(self.style.sources(notes)):
            yield from ("", "Sources of layers and equations:", "")
            for line in listed:
                yield from textwrap.wrap(escape_prose(line), WIDTH, initial_indent=" " * 4, subsequent_indent=" " * 8)
        yield '"""'

    # The sizes that the code reads, and those of which they are made, with the numbers of the target.
    def config(self, fields: Sequence[str], code: str) -> Iterator[str]:
        lines, read = {line.split()[0].rstrip(":"): line for line in fields}, re.findall(r"\bconfig\.(\w+)", code)
        for name in read:
            read += re.findall(r"self\.(\w+)", lines.get(name, ""))
        if lines.keys() & set(read):
            yield from ("@dataclass(frozen=True)", "class Config:", f'{INDENT}"""Sizes, by their letters, and scalars."""', "")
            yield from (INDENT + line for name, line in lines.items() if name in read)
            yield from ("", "")

    # A size that others give is a property, so that it follows them.
    def sizes(self, config: Context) -> Iterator[str]:
        for axis in self.spec.axes:
            if isinstance(axis.size, Name) and (size := self.size_of(axis.size.name, axis, config)):
                yield f"{axis.size.name}{size}" + (f"  # {axis.comment}" if axis.comment else "")
        for name, value in self.legend.values.items():
            if self.legend.axis_of_size(name) is None and name not in self.legend.scalars:
                yield f"{name}: int = {value}"

    # `: int = 768`, ` = property(lambda self: self.D // self.A)`; "" for an axis of the inputs.
    def size_of(self, name: str, axis: Axis, config: Context) -> str:
        try:
            size = self.legend.length(axis.letter)
        except EinformerError:
            return ""
        own = axis.default and name not in self.legend.values and self.is_made_of_axes(axis.default)
        formula = config.write_formula(axis.default) if axis.default and own else ""
        return f" = property(lambda self: {formula})" if "self." in formula else f": int = {size}"

    # A scalar is a number, or a list over the turns of a loop or a bound axis.
    def scalars(self) -> Iterator[str]:
        for scalar in self.spec.scalars:
            comment = f"  # {scalar.comment}" if scalar.comment else ""
            called = self.names.setdefault(("scalar", scalar.name), key(scalar.name))
            if not scalar.indices:
                number = _write_number(float(self.legend.named(Name(scalar.name))))
                yield f"{called}: {'int' if number.isdecimal() else 'float'} = {number}{comment}"
            elif count := self.count_values(scalar):
                values = [float(self.legend.element(scalar, [place])) for place in range(count)]
                listed = ", ".join(map(_write_number, values)) + "," * (len(values) == 1)
                field = f"{called}: tuple[float, ...] = ({listed}){comment}"
                rows = textwrap.wrap(listed, WIDTH, initial_indent=2 * INDENT, subsequent_indent=2 * INDENT)
                several = [f"{called}: tuple[float, ...] = ({comment}", *rows, f"{INDENT})"]
                yield field if len(INDENT + field) <= WIDTH else "\n".join(several)

    # The index is a letter of a loop, of the longest one, or of a bound axis; for others the number is 0.
    def count_values(self, scalar: Scalar) -> int:
        letter, *others = [index.letter for index in scalar.indices]
        counts = [loop.count for layer in self.spec.layers for loop in loops(layer.body) if loop.index.letter == letter]
        if counts:
            return 0 if others else max(int(self.legend.number(count)) for count in counts)
        return self.legend.length(letter) if not others and self.legend.is_bound(letter) else 0

    def spell(self, letter: str) -> str:
        return self.letters.get(letter, letter)


def _count_bound(text: str) -> Counter[str]:
    counts, todo = Counter[str](), list[ast.AST]([ast.parse(text)])
    while todo:
        node = todo.pop()
        match node:
            case ast.Constant() | ast.Name(ctx=ast.Load() | ast.Del()):
                continue
            case ast.Assign() if reads_config(node):
                continue
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.arg(arg=name) | ast.Name(id=name):
                counts[name] += 1
            case ast.alias():
                counts[node.asname or node.name.partition(".")[0]] += 1
        todo += ast.iter_child_nodes(node)
    return counts


_IMPORTS = {  # what of a file needs them
    "import math": "math",
    "from dataclasses import dataclass": "@dataclass",
    "": "dataclass|math",
    "import torch": "torch",
    "import torch.nn.functional as fn": "fn",
    "import torch.distributed as dist": "dist",
    "from beartype import beartype": "@jaxtyped",
    "from jaxtyping import ": "Float|Int|Num|jaxtyped",
    "from torch import Tensor, nn": "nn|Tensor",
    "from torch.utils.checkpoint import checkpoint": "checkpoint",
    "from torch.nn.attention.flex_attention import ": "AuxRequest|create_block_mask|flex_attention",
    "from torch.distributed.device_mesh import DeviceMesh": "DeviceMesh",
}


def _write_imports(code: str) -> Iterator[str]:
    for line, names in _IMPORTS.items():
        if used := [name for name in names.split("|") if uses(code, name)]:
            yield line + ", ".join(used) * line.endswith("import ")


def _write_number(value: float) -> str:
    if value in (float("inf"), float("-inf")):
        return "math.inf" if value > 0 else "-math.inf"
    return repr(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value).replace("e-0", "e-")
