"""Draws a program as SVG: a box for each equation, an arrow for each tensor that it reads, the residual stream in the middle.

A layer is a panel of its own. Boxes stand in rows by what they read, as in Sugiyama, Tagawa and Toda 1981; a loop is a frame
with rows of its own. Nothing is drawn that the program does not say: arrows follow its values, colours its operations.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from einformer.errors import EinformerError, Span
from einformer.language.calls import axis_of
from einformer.language.printer import Printer
from einformer.language.sizes import Legend
from einformer.language.tree import Apply, Equation, Expression, Group, Index, Layer, Number, Spec, Sum
from einformer.language.walk import equations, letters_in, subexpressions
from einformer.program import operations as op
from einformer.program.listing import spell_labels
from einformer.program.lowering import lower
from einformer.program.operations import Function, Line, Turns, Value
from einformer.program.rewrite import list_lines, walk, walk_values
from einformer.program.sharding import Sharding, find_whole

# Okabe and Ito's colours, which the colour-blind can tell apart, and what they stand for: the first that a box holds.
COLOURS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "layer": ("#009E73", "layer"),
        "softmax": ("#D55E00", "softmax"),
        "linear": ("#0072B2", "contraction with a weight"),
        "product": ("#E69F00", "contraction"),
        "lookup": ("#CC79A7", "look-up of a weight"),
        "pointwise": ("#888888", "element by element"),
    }
)
_LETTER, _SMALL = 7.4, 5.6  # widths of letters on the line and off it, in pixels like all that follows
_HIGH, _PAD = 26, 9  # a box of one line, and the space beside its text
_ROW, _BESIDE, _WAY = 42, 22, 8  # between rows, between boxes of a row, half of what an arrow takes that passes a row
_MARGIN, _HEAD = 16, 52  # around a panel, for its head
_STRAIGHT = 15  # as far down as an arrow has a label beside it
_RADIUS = 10  # of a sum
_KEY = 190  # the width of an entry of the key
_DOWN, _UP, _END = "\ue000", "\ue001", "\ue002"  # around what stands below the line, or above it


class _Formulas(Printer):
    """Spells equations with subscripts and powers off the line."""

    signs = MappingProxyType({"<=": "≤", ">=": "≥", "!=": "≠", "<-": "←", "->": "→", "==": "="})

    def number(self, value: float) -> str:
        return super().number(value).replace("inf", "∞")

    def subscript(self, slots: Sequence[Expression]) -> str:
        text = super().subscript(slots)[1:]
        return f"{_DOWN}{text[1:-1] if text.startswith('{') else text}{_END}" * bool(text)

    def operator(self, name: str, indices: Sequence[Index]) -> str:
        return {"sqrt": "√", "sum": "Σ"}.get(name, name) + self.subscript(indices)

    def apply(self, e: Apply) -> str:
        return re.sub(r"_\{([^{}]*)\}", f"{_DOWN}\\1{_END}", super().apply(e))  # of `top`, which spells its own

    def power(self, base: Expression, exponent: Expression) -> str:
        return f"{self.base(base)}{_UP}{self.flat.expression(exponent)}{_END}"


_FORMULAS = _Formulas()


# ------------------------------------------------------------------------------------------------------------ the graph


@dataclass(slots=True, eq=False)
class Box:
    """A box, a loop, or the place where an arrow passes a row; `x` is where the stream or its middle is."""

    kind: str  # of COLOURS, or `end`, `sum`, `way`
    text: str = ""
    label: str = ""  # the shape of what leaves it
    inner: Graph | None = None  # of a loop
    again: bool = False  # does it read itself, at positions before?
    stream: bool = False  # is it on the residual stream?
    side: int = 0  # of the stream
    x: float = 0
    y: float = 0
    row: int = 0
    passed: float = 0  # the height of its row

    @property
    def half(self) -> float:
        return {"way": _WAY, "sum": _RADIUS}.get(self.kind) or _measure(self.text) / 2 + _PAD

    # How far it reaches to the left of `x`.
    @property
    def left(self) -> float:
        return self.inner.left + _PAD if self.inner else self.half

    @property
    def right(self) -> float:
        box = self.inner.right + _PAD if self.inner else self.half + _PAD * self.again
        return max(box, _measure(f"{_DOWN}{self.label}") + _PAD)

    @property
    def height(self) -> float:
        return self.inner.height + _HIGH if self.inner else {"way": 0, "sum": 2 * _RADIUS}.get(self.kind, _HIGH)


@dataclass(slots=True, eq=False)
class Arrow:
    """A tensor that one node reads from another, through the rows between; `port` is the node of a loop that it goes to."""

    source: Box
    target: Box
    port: Box | None = None
    ways: list[Box] = field(default_factory=list)


@dataclass(slots=True)
class Graph:
    """The nodes of a layer or of a loop, each after those that it reads."""

    nodes: list[Box] = field(default_factory=list)
    arrows: list[Arrow] = field(default_factory=list)
    rows: list[list[Box]] = field(default_factory=list)

    # How far it reaches to the left of its own zero.
    @property
    def left(self) -> float:
        return max(node.left - node.x for row in self.rows for node in row)

    @property
    def right(self) -> float:
        return max(node.right + node.x for row in self.rows for node in row)

    @property
    def height(self) -> float:
        return max(node.y + node.height for node in self.nodes) + _PAD

    # ------------------------------------------------------------------------------------------------------ layout

    def lay_out(self) -> Graph:
        self.choose_rows()
        above, below = self.list_neighbours()
        for neighbours in [above, below] * 6:
            for row in self.rows if neighbours is above else reversed(self.rows):
                _order(row, neighbours)
        for neighbours in [above, below] * 12 + [above]:
            for row in self.rows if neighbours is above else reversed(self.rows):
                _spread(row, neighbours)
        y = 0.0
        for row in self.rows:
            height = max(node.height for node in row)
            for node in row:
                node.y, node.passed = y, height
            y += height + _ROW
        return self

    # A node lies below all that it reads; what no input reaches directly above its first reader; outputs last.
    def choose_rows(self) -> None:
        sources, targets = defaultdict[Box, list[Box]](list), defaultdict[Box, list[Box]](list)
        for arrow in self.arrows:
            sources[arrow.target].append(arrow.source)
            targets[arrow.source].append(arrow.target)
        reached = set[Box]()
        for node in self.nodes:
            node.row = max((source.row + 1 for source in sources[node]), default=0)
            if node.kind == "end" or reached.intersection(sources[node]):
                reached.add(node)
        last = max(node.row for node in self.nodes)
        for node in reversed(self.nodes):
            if node.kind == "end" and not node.inner and sources[node] and not targets[node]:
                node.row = last
            elif node not in reached and targets[node]:
                node.row = min(target.row for target in targets[node]) - 1
            if not (node.stream or node.side):
                node.side = next((target.side for target in targets[node] if target.side), 1)
        self.rows = [[node for node in self.nodes if node.row == row] for row in range(last + 1)]
        self.pass_rows()

    # An arrow has a place in each row that it passes, which the arrows from one node share.
    def pass_rows(self) -> None:
        places = dict[tuple[Box, int], Box]()
        for arrow in self.arrows:
            for row in range(arrow.source.row + 1, arrow.target.row):
                if (arrow.source, row) not in places:
                    place = places[arrow.source, row] = Box("way", row=row, side=arrow.target.side)
                    self.rows[row].append(place)
                place = places[arrow.source, row]
                place.stream |= arrow.source.stream and arrow.target.stream
                arrow.ways.append(place)

    # Neighbours stand in the row above and in the row below, each with its distance to the side.
    def list_neighbours(self) -> tuple[Neighbours, Neighbours]:
        above, below = defaultdict[Box, dict[Box, float]](dict), defaultdict[Box, dict[Box, float]](dict)
        for arrow in self.arrows:
            for upper, under in itertools.pairwise([arrow.source, *arrow.ways, arrow.target]):
                aside = arrow.port.x if arrow.port and under is arrow.target else 0
                above[under][upper], below[upper][under] = -aside, aside
        return above, below


Neighbours = Mapping[Box, Mapping[Box, float]]


# Nodes are ordered by the places of their neighbours, with the stream in the middle.
def _order(row: list[Box], neighbours: Neighbours) -> None:
    middle = any(node.stream for node in row)
    places = {node: node.x if neighbours[node] == {} else _average(node, neighbours) for node in row}
    row.sort(key=lambda node: (0 if node.stream or not middle else node.side, places[node]))
    for place, node in enumerate(row):
        node.x = place - (len(row) - 1) / 2


# Nodes move towards their neighbours as far as there is room; the stream stays at zero.
def _spread(row: list[Box], neighbours: Neighbours) -> None:
    wanted = [0.0 if node.stream else _average(node, neighbours) for node in row]
    apart = [0.0] + [one.right + other.left + _BESIDE for one, other in itertools.pairwise(row)]
    middle = next((place for place, node in enumerate(row) if node.stream), None)
    right, left = wanted[:], wanted[:]
    for i in range(1 + (middle or 0), len(row)):
        right[i] = max(right[i], right[i - 1] + apart[i])
    for i in reversed(range(len(row) - 1 if middle is None else middle)):
        left[i] = min(left[i], left[i + 1] - apart[i + 1])
    for i, node in enumerate(row):
        node.x = (right[i] + left[i]) / 2 if middle is None else right[i] if i >= middle else left[i]


def _average(node: Box, neighbours: Neighbours) -> float:
    places = [other.x + aside for other, aside in neighbours[node].items()]
    return sum(places) / len(places) if places else node.x


@dataclass(slots=True)
class _Draft:
    """Reads the lines of a function, or of a loop in it, as a graph."""

    text: Mapping[Span, Equation]  # the equations as they are written
    names: Mapping[str, str]  # the layers of functions
    legend: Legend
    read: Collection[Value]  # the values that an equation reads
    outer: _Draft | None = None
    frame: Box | None = None  # the loop around, as a node of the outer graph
    graph: Graph = field(default_factory=Graph)
    at: dict[Value, Box] = field(default_factory=dict)
    lines: dict[Value, Line] = field(default_factory=dict)
    last: dict[str, Box] = field(default_factory=dict)  # of each name
    side: int = 1

    def read_function(self, function: Function, layer: Layer) -> Graph:
        for line, formal in zip(function.inputs, layer.formals, strict=True):
            self.add(Box("end", _FORMULAS.left(formal), self.spell_shape(line.labels)), line)
        self.read_lines(function.lines)
        end = self.add(Box("end", _FORMULAS.left(layer.output)))
        self.connect(self.find_sources(function.output.value), end)
        return self.graph

    # What the legend or a weight defines is not a box.
    def read_lines(self, lines: Iterable[Line | Turns]) -> None:
        for line in lines:
            if isinstance(line, Turns):
                self.read_loop(line)
            elif line.equation:
                self.read_line(line, self.text[line.equation.span])

    # A sum that is added to the stream has a box for each layer.
    def read_line(self, line: Line, equation: Equation) -> None:
        operation, terms = line.value.operation, equation.right.terms if isinstance(equation.right, Sum) else ()
        stream, parts = self.last.get(line.name), operation.arguments if isinstance(operation, op.Map) else ()
        added = [(part, term) for part, term in zip(parts, terms, strict=False) if self.at.get(part) is not stream]
        whole = len(terms) == len(parts) == len(added) + 1 and operation == op.Map("+", parts)
        if not (stream and whole and equation.relation == "<-"):
            text = _FORMULAS.equation(replace(equation, relation="=") if equation.relation == "return" else equation)
            again = isinstance(operation, op.Recur)
            node = Box(self.choose_kind(line.value), text, self.spell_shape(line.labels), again=again)
            sources = self.find_sources(line.value)
            self.connect(sources, self.add(node, line))
            return
        before, ends = len(self.graph.nodes), []
        for part, term in added:
            ends.append(self.read_term(part, term))
            for node in self.graph.nodes[before:]:
                node.side = self.side
            before, self.side = len(self.graph.nodes), -self.side
        stream.stream = True
        node = Box("sum", "+", self.spell_shape(line.labels), stream=True)
        self.connect([stream, *ends], self.add(node, line))

    # A term has a box for each layer that is called on the result of another, else one box.
    def read_term(self, value: Value, term: Expression | None = None) -> Box:
        if isinstance(value.operation, op.Call):
            call = value.operation
            kind, text = "layer", self.names[call.function] + f"{_DOWN}{''.join(call.turns)}{_END}" * bool(call.turns)
            sources = [
                node
                for argument in call.arguments
                for node in ([self.read_term(argument)] if self.is_inner_call(argument) else self.find_sources(argument))
            ]
        else:
            kind, text, sources = self.choose_kind(value), _FORMULAS.expression(term) if term else "", self.find_sources(value)
        node = self.add(Box(kind, text, self.spell_shape([(letter,) for letter in value.axes])))
        self.connect(sources, node)
        return node

    def is_inner_call(self, value: Value) -> bool:
        return isinstance(value.operation, op.Call) and self.find(value) is None

    # What a loop carries, and what it reads from outside, come in at the top of its frame.
    def read_loop(self, turns: Turns) -> None:
        frame = Box("end", f"for {turns.letter} < {self.spell_size((turns.letter,))}")
        inner = _Draft(self.text, self.names, self.legend, self.read, self, frame)
        frame.inner = inner.graph
        self.graph.nodes.append(frame)
        for carried in turns.carried:
            if carried.before is None and carried.within not in self.read:
                continue
            line = Line(carried.name, carried.within, tuple((letter,) for letter in carried.within.axes))
            port = inner.add(Box("end", _spell(line)), line)
            if carried.before is not None:
                self.connect(self.find_sources(carried.before), frame, port)
        inner.read_lines(turns.lines)
        for carried in turns.carried:
            if carried.before is None and carried.after not in self.read:
                continue
            line = Line(carried.name, carried.after, tuple((letter,) for letter in carried.after.axes))
            end = inner.add(Box("end", _spell(line)))
            end.stream = any(node.stream for node in inner.find_sources(carried.last))
            inner.connect(inner.find_sources(carried.last), end)
            self.place(frame, line)
        frame.stream = any(node.stream for node in inner.graph.nodes)
        inner.graph.lay_out()

    # ------------------------------------------------------------------------------------------------------- nodes

    def add(self, node: Box, line: Line | None = None) -> Box:
        self.graph.nodes.append(node)
        if line:
            self.place(node, line)
        return node

    def place(self, node: Box, line: Line) -> None:
        self.at[line.value], self.lines[line.value], self.last[line.name] = node, line, node

    def connect(self, sources: Iterable[Box], target: Box, port: Box | None = None) -> None:
        self.graph.arrows += [Arrow(source, target, port) for source in dict.fromkeys(sources)]

    # A value from outside a loop has a new node at the top of the frame.
    def find(self, value: Value) -> Box | None:
        if value in self.at or self.outer is None or self.frame is None:
            return self.at.get(value)
        source = self.outer.find(value)
        if source is None:
            return None
        line = self.outer.lines[value]
        port = Box("end", _spell(line))
        self.graph.nodes.insert(0, port)
        self.at[value], self.lines[value] = port, line
        self.outer.connect([source], self.frame, port)
        return port

    @property
    def known(self) -> set[Value]:
        return {*self.at, *(self.outer.known if self.outer else ())}

    def find_sources(self, value: Value) -> list[Box]:
        boxed = self.known
        return [node for inner in walk(value, closed=boxed) if inner in boxed and (node := self.find(inner))]

    # The first of the colours that fits an operation of the box.
    def choose_kind(self, value: Value) -> str:
        boxed = self.known
        kinds = {_find_kind(inner) for inner in walk(value, closed=boxed) if inner not in boxed} | {"pointwise"}
        return next(kind for kind in COLOURS if kind in kinds)

    # ------------------------------------------------------------------------------------------------------- shapes

    # `B × S × 768`.
    def spell_shape(self, labels: Sequence[op.Label]) -> str:
        return " × ".join(map(self.spell_size, labels))

    # `768`, or the letters of a size that is open.
    def spell_size(self, label: op.Label) -> str:
        if all(map(self.legend.is_bound, label)):
            return f"{math.prod(map(self.legend.length, label)):,}"
        axis = self.legend.axis(label[0])
        if len(label) == 1 and axis:
            return _FORMULAS.expression(axis.size)
        return self.legend.spell(Group(tuple(map(Index, label))))


def _spell(line: Line) -> str:
    return line.name + f"{_DOWN}{spell_labels(line.labels)}{_END}" * bool(line.labels)


def _find_kind(value: Value) -> str:
    match value.operation:
        case op.Call():
            return "layer"
        case op.Reduce("Sm"):
            return "softmax"
        case op.Einsum(_, factors):
            return "linear" if any(map(_is_stored, factors)) else "product"
        case op.Gather(argument) if _is_stored(argument):
            return "lookup"
        case _:
            return "pointwise"


def _is_stored(value: Value) -> bool:
    while isinstance(value.operation, op.View | op.Spread):
        value = value.operation.argument
    return isinstance(value.operation, op.StoredWeight)


# ---------------------------------------------------------------------------------------------------------------- SVG

_STYLE = """
.einformer {
  color: var(--color-foreground-primary, #1b1f24);
  --paper: var(--color-background-primary, #ffffff);
  font: 12px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace;
  max-width: 100%; height: auto;
}
@media (prefers-color-scheme: dark) {
  .einformer { color: var(--color-foreground-primary, #e6e8eb); --paper: var(--color-background-primary, #14181d) }
}
.einformer text { fill: currentColor }
.einformer .small, .einformer .shape { font-size: 9px }
.einformer .shape { paint-order: stroke; stroke: var(--paper); stroke-width: 3px; fill-opacity: .75 }
.einformer .head { font-weight: bold }
.einformer .paper { fill: var(--paper) }
.einformer path { fill: none; stroke: currentColor; opacity: .55 }
.einformer path.stream { stroke-width: 3; opacity: .8 }
.einformer path.tip { fill: currentColor; stroke: none; opacity: .8 }
.einformer .panel, .einformer .loop { fill: none; stroke: currentColor; opacity: .3 }
.einformer .loop { stroke-dasharray: 5 4 }
.einformer .seen { fill: #0072B2; fill-opacity: .75 }
.einformer .end { fill: var(--paper); stroke: currentColor }
""" + "".join(
    f".einformer .{kind} {{ fill: {fill}; fill-opacity: .16; stroke: {fill} }}\n" for kind, (fill, _) in COLOURS.items()
)


class Drawing(str):
    """The text of an SVG, which a notebook shows as a picture."""

    __slots__ = ()

    def _repr_svg_(self) -> str:
        return str(self)


@dataclass(frozen=True, slots=True)
class Panel:
    """A layer, drawn: its head, what its comment says, its graph."""

    head: str
    comment: str
    graph: Graph

    @property
    def width(self) -> float:
        words = max(_measure(self.head) * 1.05, _measure(_DOWN + self.comment))
        return max(self.graph.left + self.graph.right, words) + 2 * _MARGIN

    @property
    def height(self) -> float:
        return self.graph.height + _HEAD + _MARGIN


# Returns an SVG of a model or layer and all that it calls: the whole first, then each layer once. It is as wide as its widest
# panel, and else at most so many pixels.
def draw(written: Spec, tree: Spec, name: str, legend: Legend, width: int = 1600) -> Drawing:
    program = lower(tree, name, legend)
    layers = {equation.span: layer for layer in written.layers for equation in equations(layer.body)}
    text = {equation.span: equation for layer in written.layers for equation in equations(layer.body)}
    names = {name: _find_layer(function, layers) for name, function in program.functions.items()}
    shown = {layer.name: function for function, layer in reversed(names.items())}
    panels = list[Panel]()
    for layer in sorted(written.layers, key=lambda layer: shown.get(layer.name) != program.name):
        if layer.name in shown:
            function = program.functions[shown[layer.name]]
            reader = _Draft(text, {f: names[f].name for f in names}, legend, set(walk_values(function)))
            graph = reader.read_function(function, layer).lay_out()
            panels.append(Panel(_FORMULAS.signature(layer), layer.comment, graph))
    return Drawing(_draw_panels(panels, written.title or name, width))


def _draw_panels(panels: Sequence[Panel], title: str, width: float) -> str:
    root = Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "class": "einformer", "role": "img", "aria-label": title})
    SubElement(root, "title").text = title
    SubElement(root, "style").text = _STYLE
    tip = _add(SubElement(root, "defs"), "marker", id="tip", viewBox="0 0 8 8", refX=7, refY=4, markerWidth=7, markerHeight=7)
    tip.attrib |= {"orient": "auto", "markerUnits": "userSpaceOnUse"}
    _add(tip, "path", "tip", d="M0 0L8 4L0 8z")
    paper, places = _add(root, "rect", "paper"), _arrange(panels, width)
    for panel, (x, y) in zip(panels, places, strict=True):
        _draw_panel(_move(root, x, y), panel)
    wide = max(_KEY, *(x + panel.width for panel, (x, _) in zip(panels, places, strict=True)))
    bottom = max(y + panel.height for panel, (_, y) in zip(panels, places, strict=True)) + _MARGIN
    kinds = {node.kind for panel in panels for node in _walk_boxes(panel.graph)}
    key = [kind for kind in COLOURS if kind in kinds]
    rows = _draw_key(_move(root, 0, bottom), key, max(1, int(wide // _KEY)))
    size = {"width": f"{wide + 2:g}", "height": f"{bottom + rows * _HIGH:g}"}
    paper.attrib |= {"x": "-1", "y": "-1"} | size
    root.attrib |= {"viewBox": f"-1 -1 {size['width']} {size['height']}"} | size
    indent(root)
    for text in root.iter("text"):  # where space counts
        text.text = None
        for part in text:
            part.tail = None
    return tostring(root, encoding="unicode") + "\n"


# Each panel stands as high as there is room for it, and then as far left.
def _arrange(panels: Sequence[Panel | PlacedLayer], width: float) -> list[tuple[float, float]]:
    sizes = [(panel.width, panel.height) for panel in panels]
    width, places = max(width, *(wide for wide, _ in sizes)), list[tuple[float, float]]()
    for wide, _ in sizes:
        spots = list[tuple[float, float]]()
        for left in [0.0, *(x + other + _MARGIN for (other, _), (x, _) in zip(sizes, places, strict=False))]:
            above = [
                y + high + _MARGIN
                for (other, high), (x, y) in zip(sizes, places, strict=False)
                if x < left + wide + _MARGIN and left < x + other + _MARGIN
            ]
            spots += [(max(above, default=0.0), left)] * (left + wide <= width)
        y, x = min(spots)
        places.append((x, y))
    return places


def _draw_panel(parent: Element, panel: Panel) -> None:
    _add(parent, "rect", "panel", width=panel.width, height=panel.height, rx=8)
    _write(parent, panel.head, _MARGIN, 22, "head", "start")
    _write(parent, panel.comment, _MARGIN, 37, "shape", "start")
    middle = (panel.width + panel.graph.left - panel.graph.right) / 2
    _draw_graph(_move(parent, middle, _HEAD), panel.graph)


def _draw_graph(parent: Element, graph: Graph) -> None:
    into = defaultdict[tuple[Box, Box | None], list[Arrow]](list)
    for arrow in sorted(graph.arrows, key=lambda arrow: (arrow.ways[-1] if arrow.ways else arrow.source).x):
        into[arrow.target, arrow.port].append(arrow)
    for arrows in into.values():
        for place, arrow in enumerate(arrows):
            _draw_arrow(parent, arrow, place - (len(arrows) - 1) / 2)
    read = {arrow.source for arrow in graph.arrows}
    for node in graph.nodes:
        _draw_node(parent, node)
        if node.label and node in read:
            _write(parent, node.label, node.x + 7, node.y + node.height + 12, "shape", "start")


# An arrow is a curve down to the top of a box, or to the side of a sum.
def _draw_arrow(parent: Element, arrow: Arrow, place: float) -> None:
    source, target = arrow.source, arrow.target
    x, y = source.x, source.y + source.height + _STRAIGHT
    path = f"M{x:g} {y - _STRAIGHT:g}V{y:g}"
    for way in arrow.ways:
        path += f"C{x:g} {(y + way.y) / 2:g} {way.x:g} {(y + way.y) / 2:g} {way.x:g} {way.y:g}V{way.y + way.passed:g}"
        x, y = way.x, way.y + way.passed
    stream = source.stream and target.stream
    if target.kind == "sum" and not stream:
        end, middle = target.x + math.copysign(_RADIUS, x - target.x), target.y + _RADIUS
        path += f"C{x:g} {middle:g} {x:g} {middle:g} {end:g} {middle:g}"
    else:
        aside, top = 0 if stream else place * min(16, target.half / 2), 0.0
        if arrow.port:
            aside, top = arrow.port.x, _HIGH + arrow.port.y
        end, middle = target.x + aside, (y + target.y) / 2
        path += f"C{x:g} {middle:g} {end:g} {middle:g} {end:g} {target.y:g}V{target.y + top:g}"
    line = _add(parent, "path", "stream" if stream else "arrow", d=path)
    if not stream:
        line.set("marker-end", "url(#tip)")


def _draw_node(parent: Element, node: Box) -> None:
    x, y, middle = node.x, node.y, node.y + node.height / 2
    if node.inner:
        left = x - node.inner.left - _PAD
        _add(parent, "rect", "loop", x=left, y=y, width=node.inner.left + node.inner.right + 2 * _PAD, height=node.height, rx=8)
        _write(parent, node.text, left + _PAD, y + 16, "head", "start")
        _draw_graph(_move(parent, x, y + _HIGH), node.inner)
    elif node.kind == "sum":
        _add(parent, "circle", "end", cx=x, cy=middle, r=_RADIUS)
        _add(parent, "path", d=f"M{x - 5:g} {middle:g}h10M{x:g} {middle - 5:g}v10")
    else:
        place = {"x": x - node.half, "y": y, "width": 2 * node.half, "height": node.height}
        if node.kind in COLOURS:
            _add(parent, "rect", "paper", **place, rx=4)
            _add(parent, "rect", node.kind, **place, rx=4)
            if node.again:
                edge, top = x + node.half, f"{x + node.half - 12:g}"
                back = f"M{edge:g} {middle:g}C{edge + 26:g} {middle:g} {top} {y - 26:g} {top} {y:g}"
                _add(parent, "path", "arrow", d=back).set("marker-end", "url(#tip)")
        else:
            _add(parent, "rect", "end", **place, rx=node.height / 2)
        _write(parent, node.text, x, middle + 4)


# Returns the number of rows.
def _draw_key(parent: Element, kinds: Sequence[str], columns: int) -> int:
    for place, kind in enumerate(kinds):
        x, y = place % columns * _KEY, place // columns * _HIGH
        _add(parent, "rect", kind, x=x, y=y, width=14, height=14, rx=3)
        _write(parent, COLOURS[kind][1], x + 20, y + 11, "shape", "start")
    return math.ceil(len(kinds) / columns)


def _add(parent: Element, name: str, kind: str = "", **attributes: float | str) -> Element:
    written = {key: value if isinstance(value, str) else f"{value:g}" for key, value in attributes.items()}
    return SubElement(parent, name, ({"class": kind} if kind else {}) | written)


def _move(parent: Element, x: float, y: float) -> Element:
    return _add(parent, "g", transform=f"translate({x:g} {y:g})")


def _write(parent: Element, text: str, x: float, y: float, kind: str = "", anchor: str = "middle") -> None:
    line, depth = _add(parent, "text", kind, x=x, y=y), 0
    line.set("text-anchor", anchor)
    for part, off in _split(text):
        _add(line, "tspan", "small" if off else "", dy=3 * (off - depth)).text = part
        depth = off


# Yields each part with its distance below the line.
def _split(text: str) -> Iterator[tuple[str, int]]:
    depths = [0]
    for part in re.split(f"([{_DOWN}{_UP}{_END}])", text):
        if part == _END:
            depths.pop()
        elif part in (_DOWN, _UP):
            depths.append(depths[-1] + (1 if part == _DOWN else -1))
        elif part:
            yield part, depths[-1]


@functools.lru_cache(maxsize=10_000)  # the text of a box is measured at every step of its layout
def _measure(text: str) -> float:
    return sum(len(part) * (_SMALL if off else _LETTER) for part, off in _split(text))


def _walk_boxes(graph: Graph) -> Iterator[Box]:
    for node in graph.nodes:
        yield node
        if node.inner:
            yield from _walk_boxes(node.inner)


def _find_layer(function: Function, layers: Mapping[Span, Layer]) -> Layer:
    return next(layers[line.equation.span] for line in list_lines(function) if line.equation)


# -------------------------------------------------------------------------------------------------------------- masks

_CELLS, _CELL = 32, 5  # of a mask, along each side, and their size
_LENGTHS = [_CELLS << power for power in range(13)]  # positions of a picture
Grid = tuple[tuple[bool, ...], ...]


@dataclass(frozen=True, slots=True)
class MaskOfPositions:
    """The part of an equation that hides positions: `where(s' <= s, …, -inf)`. Letters other than its two are its places."""

    shown: Expression
    hides: bool
    query: str
    key: str
    places: tuple[str, ...]

    @property
    def head(self) -> str:
        text = _FORMULAS.expression(self.shown)
        return f"not ({text})" if self.hides else text

    # Raises E601 where data decide.
    def compute(self, legend: Legend, length: int, place: Sequence[int], rows: Iterable[int] = range(_CELLS)) -> Grid:
        step, places = length // _CELLS, dict(zip(self.places, place, strict=True))
        return tuple(
            tuple(
                bool(legend.number(self.shown, places | {self.query: row * step, self.key: column * step})) != self.hides
                for column in range(_CELLS)
            )
            for row in rows
        )

    # The shortest length at which the last position sees another share than at 32.
    def choose_length(self, legend: Legend, place: Sequence[int]) -> int:
        last = (_CELLS - 1,)
        first = self.compute(legend, _CELLS, place, last)
        return next((length for length in _LENGTHS if self.compute(legend, length, place, last) != first), _CELLS)

    def draw(self, legend: Legend) -> Iterator[tuple[str, Grid]]:
        places = list(itertools.product(*(range(legend.length(letter)) for letter in self.places)))
        length = max(self.choose_length(legend, place) for place in places)
        pictures = defaultdict[Grid, list[str]](list)
        for place in places:
            pictures[self.compute(legend, length, place)].append(" ".join(map(str, place)))
        for grid, alike in pictures.items():
            some = ", ".join(alike if len(alike) <= 5 else [*alike[:4], "…"])
            where = f"; {', '.join(self.places)} = {some}" if self.places else ""
            yield f"S = {length:,}{where}", grid


# Returns an SVG of the masks that positions decide alone: a row is a position, its filled cells those that it sees. Each is
# drawn at a length at which a window or a chunk shows, by 32 of its positions.
def draw_masks(tree: Spec, legend: Legend, width: int = 1600) -> Drawing:
    panels = list(_list_masks(tree, legend))
    root = Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "class": "einformer", "role": "img", "aria-label": "masks"})
    SubElement(root, "style").text = _STYLE
    x, y, wide, high = 0.0, 0.0, 0.0, _CELLS * _CELL + _HEAD + _MARGIN
    for head, comment, grid in panels or [("no mask that positions decide alone", "", ())]:
        side = max(_CELLS * _CELL, _measure(head), _measure(_DOWN + comment)) + 2 * _MARGIN
        x, y = (0, y + high + _MARGIN) if x and x + side > width else (x, y)
        _draw_mask(_move(root, x, y), head, comment, grid, side, high)
        x, wide = x + side + _MARGIN, max(wide, x + side)
    size = {"width": f"{wide + 2:g}", "height": f"{y + high + 2:g}"}
    root.attrib |= {"viewBox": f"-1 -1 {size['width']} {size['height']}"} | size
    return Drawing(tostring(root, encoding="unicode") + "\n")


def _list_masks(tree: Spec, legend: Legend) -> Iterator[tuple[str, str, Grid]]:
    lines = (equation for layer in tree.layers for equation in equations(layer.body))
    for mask in dict.fromkeys(mask for equation in lines for mask in _find_masks(equation.right)):
        try:
            pictures = list(mask.draw(legend))
        except EinformerError:  # data decide, or sizes that are open
            continue
        yield from ((mask.head, comment, grid) for comment, grid in pictures)


def _find_masks(e: Expression) -> Iterator[MaskOfPositions]:
    for part in subexpressions(e):
        match part:
            case Apply(name="where", arguments=(shown, then, otherwise)) if _hides(then) != _hides(otherwise):
                letters = sorted(letters_in(shown))
                for query, key in itertools.combinations(letters, 2):
                    if axis_of(query) == axis_of(key):
                        places = tuple(letter for letter in letters if letter not in (query, key))
                        yield MaskOfPositions(shown, _hides(then), query, key, places)


def _hides(e: Expression) -> bool:
    return e == Number(-math.inf)


def _draw_mask(parent: Element, head: str, comment: str, grid: Grid, width: float, height: float) -> None:
    _add(parent, "rect", "panel", width=width, height=height, rx=8)
    _write(parent, head, _MARGIN, 22, "head", "start")
    _write(parent, comment, _MARGIN, 37, "shape", "start")
    cells = _move(parent, _MARGIN, _HEAD)
    _add(cells, "rect", "panel", width=_CELLS * _CELL, height=_CELLS * _CELL)
    for number, row in enumerate(grid):
        for column, run in itertools.groupby(range(_CELLS), row.__getitem__):
            if column:
                seen = list(run)
                _add(cells, "rect", "seen", x=seen[0] * _CELL, y=number * _CELL, width=len(seen) * _CELL, height=_CELL)


# ---------------------------------------------------------------------------------------------------------- placement

_DEVICES = 8  # that are drawn
_PART_WIDE, _PART_HIGH = 44, 20  # of a tensor on a device, at least


@dataclass(frozen=True, slots=True)
class PlacedTensor:
    """A weight or a value of a layer, and for each index of it that devices share the axis of the mesh."""

    name: str
    split: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlacedLayer:
    """A layer with the tensors of a device, and the places of the devices that are drawn."""

    head: str
    tensors: tuple[PlacedTensor, ...]
    sharding: Sharding
    devices: tuple[tuple[int, ...], ...]

    # `dp 0 tp 1` of each device
    @property
    def names(self) -> tuple[str, ...]:
        axes = [axis for axis, _ in self.sharding.mesh]
        return tuple(" ".join(f"{axis} {place}" for axis, place in zip(axes, numbers, strict=True)) for numbers in self.devices)

    # where the first device stands
    @property
    def aside(self) -> float:
        return _MARGIN + max(_measure(tensor.name) for tensor in self.tensors) + _PAD

    @property
    def step(self) -> float:
        return max(_PART_WIDE, *(_measure(_DOWN + name) for name in self.names)) + _WAY

    @property
    def width(self) -> float:
        return max(self.aside + len(self.devices) * self.step, _measure(self.head) * 1.05 + _MARGIN) + _MARGIN

    @property
    def height(self) -> float:
        return _HEAD + len(self.tensors) * (_PART_HIGH + _WAY) + _PAD

    def draw(self, parent: Element) -> None:
        _add(parent, "rect", "panel", width=self.width, height=self.height, rx=8)
        _write(parent, self.head, _MARGIN, 22, "head", "start")
        for column, name in enumerate(self.names):
            _write(parent, name, self.aside + column * self.step, 44, "shape", "start")
        for row, tensor in enumerate(self.tensors):
            y = _HEAD + row * (_PART_HIGH + _WAY)
            _write(parent, tensor.name, _MARGIN, y + 14, "", "start")
            for column, device in enumerate(self.devices):
                self.draw_part(_move(parent, self.aside + column * self.step, y), tensor, device)

    # The whole is a frame. Of the first index that is split, a device holds a part across, of the second one down.
    def draw_part(self, parent: Element, tensor: PlacedTensor, device: tuple[int, ...]) -> None:
        corner, size = [0.0, 0.0], [self.step - _WAY, float(_PART_HIGH)]
        _add(parent, "rect", "panel", width=size[0], height=size[1])
        here = dict(zip((axis for axis, _ in self.sharding.mesh), device, strict=True))
        for place, axis in enumerate(tensor.split):
            size[place % 2] /= self.sharding.size(axis)
            corner[place % 2] += here[axis] * size[place % 2]
        _add(parent, "rect", "seen", x=corner[0], y=corner[1], width=size[0], height=size[1])


def draw_placement(written: Spec, functions: Mapping[str, Function], name: str, sharding: Sharding, width: int) -> Drawing:
    """Returns an SVG of a model and its layers with what each device of a mesh holds of their weights and values.

    `functions` are those of a device.
    """
    layers = {equation.span: layer for layer in written.layers for equation in equations(layer.body)}
    shown = {_find_layer(function, layers).name: function for function in functions.values()}
    devices = tuple(itertools.islice(itertools.product(*(range(size) for _, size in sharding.mesh)), _DEVICES))
    panels = [
        PlacedLayer(_FORMULAS.signature(layer), _list_placed(shown[layer.name], sharding), sharding, devices)
        for layer in sorted(written.layers, key=lambda layer: layer.name != name)
        if layer.name in shown
    ]
    places = _arrange(panels, width)
    attributes = {"xmlns": "http://www.w3.org/2000/svg", "class": "einformer", "role": "img", "aria-label": "placement"}
    root = Element("svg", attributes)
    SubElement(root, "style").text = _STYLE
    for panel, (x, y) in zip(panels, places, strict=True):
        panel.draw(_move(root, x, y))
    wide = max(x + panel.width for panel, (x, _) in zip(panels, places, strict=True))
    low = max(y + panel.height for panel, (_, y) in zip(panels, places, strict=True))
    root.attrib |= {"viewBox": f"-1 -1 {wide + 2:g} {low + 2:g}", "width": f"{wide + 2:g}", "height": f"{low + 2:g}"}
    return Drawing(tostring(root, encoding="unicode") + "\n")


# Weights, inputs and lines, each once.
def _list_placed(function: Function, sharding: Sharding) -> tuple[PlacedTensor, ...]:
    lines = (*function.inputs, *(line for line in list_lines(function) if line.equation))
    tensors = [(weight.name, sharding.place_weight(itertools.chain(*weight.labels))) for weight in function.weights]
    tensors += [(line.name, tuple(itertools.chain(*line.labels))) for line in lines]
    return tuple(
        dict.fromkeys(
            PlacedTensor(
                f"{name}{_DOWN}{''.join(map(find_whole, letters))}{_END}", tuple(filter(None, map(sharding.axis, letters)))
            )
            for name, letters in tensors
        )
    )
