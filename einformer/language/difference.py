"""Compares two specifications layer by layer and line by line; letters that are only renamed make no difference."""

from __future__ import annotations

import difflib
import functools
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from einformer.language.binding import find_sizes
from einformer.language.calls import axis_of
from einformer.language.printer import PLAIN, Printer, number, show
from einformer.language.sizes import Legend
from einformer.language.tree import Axis, Equation, Layer, Loop, Number, Scalar, Spec
from einformer.language.walk import statements

# By what two axes are the same one, the surest first: size and letter, size and remark, size, remark, letter.
_RULES: tuple[Callable[[Axis], str], ...] = (
    lambda axis: f"{show(axis.size)} {axis.letter}",
    lambda axis: axis.comment and f"{show(axis.size)} {axis.comment}",
    lambda axis: show(axis.size),
    lambda axis: axis.comment,
    lambda axis: axis.letter,
)


# Maps the letters of the axes of `other` to those of `one`, in order. What `one` lacks keeps a letter of its own.
def same_axes(one: Spec, other: Spec, rules: Sequence[Callable[[Axis], str]] = _RULES) -> dict[str, str]:
    letters: dict[str, str] = {}
    for rule in rules:
        free = [axis for axis in one.axes if axis.letter not in letters.values()]
        for axis in (axis for axis in other.axes if axis.letter not in letters and rule(axis)):
            if same := next((x for x in free if rule(x) == rule(axis)), None):
                letters[axis.letter] = same.letter
                free.remove(same)
    used = {axis.letter for axis in one.axes}
    return {axis.letter: axis.letter + "°" * (axis.letter in used) for axis in other.axes} | letters


class Renaming(Printer):
    """Prints one line with its axes by other letters, and primes by the order in which they first stand.

    Positions that are computed and those that are visible are told apart by a prime (R6), so that `time` without one stays.
    """

    def __init__(self, letters: Mapping[str, str], time: str) -> None:
        self.letters, self.time = letters, time
        self.seen: dict[str, dict[str, int]] = {}

    # An index has as many primes as other indices over its axis stand before it.
    def letter(self, letter: str) -> str:
        axis = axis_of(letter)
        seen = {} if letter == self.time else self.seen.setdefault(axis, {})
        primes = 0 if letter == self.time else seen.setdefault(letter, len(seen) + (axis == self.time))
        return self.letters.get(axis, axis) + "'" * primes

    def equation(self, equation: Equation) -> str:
        self.left(equation.left)
        return super().equation(equation)

    def number(self, value: float) -> str:
        return number(whole(value))


# `500000.0` equals `500000`.
def whole(value: float) -> float:
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 1e15 else value


OPEN, NOTHING = "open", "–"  # a size that is not bound; a letter that is not there
_SAME_ROLE = 0.4  # the least score of two layers of which one became the other


@dataclass(frozen=True, slots=True)
class LayerChanges:
    """The changes of the legend or of a layer: `scalars`, `layer MLP`, `layer MLP → GatedMLP`."""

    name: str
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class ChangedValue:
    """A size or a scalar that is another number."""

    name: str
    one: str
    other: str
    about: str = ""


@dataclass(frozen=True, slots=True)
class Difference:
    """The differences of two specifications. False if there are none."""

    values: tuple[ChangedValue, ...]
    parts: tuple[LayerChanges, ...]

    def __bool__(self) -> bool:
        return bool(self.values or self.parts)

    def __str__(self) -> str:
        values = "\n".join(f"{value.name}: {value.one} → {value.other}" for value in self.values)
        return "\n\n".join(filter(None, [values, *("\n".join([part.name, *rows(part)]) for part in self.parts)]))


def rows(part: LayerChanges) -> Iterator[str]:
    for change in part.changes:
        for sign, text, marks in zip("-+", (change.one, change.other), change.marks, strict=True):
            if text:
                yield f"{sign} {text}"
            if marks:
                yield f"  {_write_carets(marks)}"


def _write_carets(marks: Marks) -> str:
    pairs = itertools.pairwise([(0, 0), *marks])
    return "".join(" " * (start - end) + "^" * (stop - start) for (_, end), (start, stop) in pairs)


# Compares two specifications as they are written, with the layers of the library that they call. Sizes differ if both are bound
# to different numbers, or follow from others differently. Axes of one size may have each other's letters: fewer changes decide.
def difference(one: Spec, other: Spec, legends: tuple[Legend, Legend] | None = None) -> Difference:
    ways = {tuple(same_axes(one, other, rules).items()): None for rules in (_RULES, _RULES[1:])}
    compared = (_compare(one, other, dict(letters), legends) for letters in ways)
    return min(compared, key=lambda way: sum(len(part.changes) for part in way.parts))


def _compare(one: Spec, other: Spec, letters: dict[str, str], legends: tuple[Legend, Legend] | None) -> Difference:
    sizes = _compare_sizes(*legends) if legends else ()
    texts = _Text(one, {axis.letter: axis.letter for axis in one.axes}), _Text(other, letters)
    values, scalars = _compare_scalars(*texts)
    parts = [
        LayerChanges("axes", tuple(_compare_declarations(texts[0].axes, texts[1].axes))),
        LayerChanges("scalars", tuple(_compare_declarations(*scalars))),
        *(_compare_layers(texts, x, y) for x, y in _pair_layers(texts)),
    ]
    return Difference((*sizes, *values), tuple(part for part in parts if part.changes))


class _Text:  # a specification in lines, and the letters of the first of two by which they are compared
    def __init__(self, spec: Spec, letters: dict[str, str]) -> None:
        self.spec, self.letters = spec, letters
        self.time = next((layer.time.letter for layer in spec.layers if layer.time), "")
        self.axes = {letters[axis.letter]: self.line(axis) for axis in spec.axes}
        self.scalars = {scalar.name: scalar for scalar in spec.scalars}
        self.layers = {layer.name: tuple(self.layer(layer)) for layer in spec.layers}

    def line(self, node: Axis | Scalar | Layer | Equation | Loop, indent: str = "", defines: str = "") -> TextLine:
        read = Renaming(self.letters, self.time).declaration(node).text
        return TextLine(indent + PLAIN.declaration(node).text, indent + read, defines)

    # A model has no name here: two models are the same one.
    def layer(self, layer: Layer) -> Iterator[TextLine]:
        line = self.line(layer)
        yield TextLine(line.text, line.reading.replace(layer.name, "°", 1) if layer.kind == "model" else line.reading, "head")
        for (kind, of), group in itertools.groupby(layer.weights, key=lambda weight: (weight.kind, weight.layer)):
            weights, start = list(group), f"  {'buffers' if kind == 'buffer' else 'weights'} "
            written = ", ".join(map(PLAIN.weight, weights)) + f": {of}" * bool(of)
            read = ", ".join(map(Renaming(self.letters, self.time).weight, weights)) + f": {of}" * bool(of)
            yield TextLine(start + written, start + read, f"{start}: {of}")
        for statement, around in statements(layer.body):
            returns = isinstance(statement, Equation) and statement.relation == "return"
            defines = "return" if returns else "for" if isinstance(statement, Loop) else statement.left.name
            yield self.line(statement, "  " * (around + 1), defines)


# ------------------------------------------------------------------------------------------------------- the legend


# By name: their order has no meaning.
def _compare_declarations(one: dict[str, TextLine], other: dict[str, TextLine]) -> Iterator[Change]:
    for name in one | other:
        yield from changes([one[name]] if name in one else [], [other[name]] if name in other else [])


def _compare_scalars(one: _Text, other: _Text) -> tuple[tuple[ChangedValue, ...], list[dict[str, TextLine]]]:
    both = [name for name in one.scalars if name in other.scalars and _are_numbers(one, other, name)]
    pairs = ((one.scalars[name], other.scalars[name]) for name in both)
    values = tuple(ChangedValue(x.name, _write(x), _write(y), x.comment or y.comment) for x, y in pairs if x.value != y.value)
    rest = [{name: text.line(s) for name, s in text.scalars.items() if name not in both} for text in (one, other)]
    return values, rest


def _compare_sizes(one: Legend, other: Legend) -> tuple[ChangedValue, ...]:
    values = [_write_sizes(legend) for legend in (one, other)]
    axes = [axis for legend in (one, other) for axis in legend.axes.values()]
    order = dict.fromkeys([show(axis.size) for axis in axes] + [*values[0], *values[1]])
    comments = {
        name: dict.fromkeys(axis.comment for axis in axes if show(axis.size) == name and axis.comment) for name in order
    }
    pairs = [(name, *(sizes_of_text.get(name, NOTHING) for sizes_of_text in values)) for name in order]
    numbers = [(name, x, y) for name, x, y in pairs if x != y and {x, y} != {OPEN, NOTHING}]
    return tuple(ChangedValue(name, x, y, "; ".join(comments[name])) for name, x, y in numbers)


def _write_sizes(legend: Legend) -> dict[str, str]:
    sizes = {name: f"{value:,}" for name, value in find_sizes(legend).items() if name not in legend.scalars}
    return dict.fromkeys(legend.letters, OPEN) | sizes


def _are_numbers(one: _Text, other: _Text, name: str) -> bool:
    scalars = [(text, text.scalars[name]) for text in (one, other)]
    axes = [[text.letters[index.letter] for index in scalar.indices] for text, scalar in scalars]
    return axes[0] == axes[1] and all(isinstance(scalar.value, tuple | Number) for _, scalar in scalars)


def _write(scalar: Scalar) -> str:
    items = scalar.value if isinstance(scalar.value, tuple) else (scalar.value,)
    return ", ".join(number(whole(item.value)) for item in items if isinstance(item, Number))


# ------------------------------------------------------------------------------------------------------- the layers

Pair = tuple[Layer | None, Layer | None]


def _compare_layers(texts: tuple[_Text, _Text], x: Layer | None, y: Layer | None) -> LayerChanges:
    names = list(dict.fromkeys(layer.name for layer in (x, y) if layer))
    kind = next(layer.kind for layer in (x, y) if layer)
    lines = (text.layers[layer.name] if layer else () for text, layer in zip(texts, (x, y), strict=True))
    return LayerChanges(f"{kind} {' → '.join(names)}", tuple(changes(*lines)))


# Layers of one name, then models, then the most similar ones.
def _pair_layers(texts: tuple[_Text, _Text]) -> list[Pair]:
    one, other = ({layer.name: layer for layer in text.spec.layers} for text in texts)
    pairs = {name: name for name in one if name in other}
    models = [[name for name in layers if layers[name].kind == "model" and name not in pairs] for layers in (one, other)]
    pairs |= dict(zip(*models, strict=False))
    rest = [(x, y) for x in one for y in other if x not in pairs and y not in pairs.values()]
    scores = {(x, y): _score_layers(texts, one[x], other[y]) for x, y in rest}
    for x, y in sorted(rest, key=lambda pair: -scores[pair]):
        if scores[x, y] >= _SAME_ROLE and x not in pairs and y not in pairs.values():
            pairs[x] = y
    alone: list[Pair] = [(None, other[name]) for name in other if name not in pairs.values()]
    both: list[Pair] = [(one[name], other[pairs[name]] if name in pairs else None) for name in one]
    return both[:-1] + alone + both[-1:]


def _score_layers(texts: tuple[_Text, _Text], x: Layer, y: Layer) -> float:
    if x.kind != y.kind:
        return 0.0
    words = [[word for line in text.layers[layer.name] for word in line.key] for text, layer in zip(texts, (x, y), strict=True)]
    return (likeness(x.name, y.name) + likeness(*words)) / 2


# The indentation; a subscript; a number; a name; any other sign.
_TOKEN = re.compile(r"^ *|_\{[^{}]*\}|_[\w'°]+|\d+(?:\.\d+)?(?:e-?\d+)?|[^\W\d_]\w*'*|\S")
_ALIKE = 0.4  # the least score of two lines of which one became the other
_MOST_PAIRS = 10_000  # of lines that are compared with each other
Marks = tuple[tuple[int, int], ...]  # from a letter to another


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line: its text, its text in the letters of the other specification, and the name that it defines."""

    text: str
    reading: str
    defines: str = ""

    @property
    def key(self) -> tuple[str, ...]:
        return _split_words(self.reading)


@functools.lru_cache(maxsize=10_000)  # a line is compared with many
def _split_words(line: str) -> tuple[str, ...]:
    return tuple(_TOKEN.findall(line))


@dataclass(frozen=True, slots=True)
class Change:
    """A line of one text and its counterpart in the other, or an empty string, with the parts that differ."""

    one: str
    other: str
    marks: tuple[Marks, Marks] = ((), ())


def changes(one: Sequence[TextLine], other: Sequence[TextLine]) -> Iterator[Change]:
    for x, y in _align(one, other):
        if x and y and x.key != y.key:
            yield Change(x.text, y.text, _mark(x, y))
        elif not (x and y):
            yield Change(x.text if x else "", y.text if y else "")


# The likeness is between 0 and 1.
def likeness(one: Sequence[str], other: Sequence[str]) -> float:
    return difflib.SequenceMatcher(None, one, other, autojunk=False).ratio()


Pairs = list[tuple[TextLine | None, TextLine | None]]


# Equal lines side by side, and similar lines between them.
def _align(one: Sequence[TextLine], other: Sequence[TextLine]) -> Pairs:
    pairs: Pairs = []
    for kind, a, b, c, d in _opcodes([line.key for line in one], [line.key for line in other]):
        pairs += zip(one[a:b], other[c:d], strict=True) if kind == "equal" else _pair_lines(one[a:b], other[c:d])
    return pairs


def _opcodes(one: Sequence[object], other: Sequence[object]) -> Sequence[tuple[str, int, int, int, int]]:
    return difflib.SequenceMatcher(None, one, other, autojunk=False).get_opcodes()


# Maximises the sum of scores, in order.
def _pair_lines(one: Sequence[TextLine], other: Sequence[TextLine]) -> Pairs:
    if len(one) * len(other) > _MOST_PAIRS:
        return list(itertools.zip_longest(one, other))
    best: dict[tuple[int, int], tuple[float, int, int]] = {}  # from these lines on: the sum, and which lines come next
    for i, j in itertools.product(reversed(range(len(one) + 1)), reversed(range(len(other) + 1))):
        steps = [(best[a, b][0], a, b) for a, b in ((i + 1, j), (i, j + 1)) if (a, b) in best]
        if i < len(one) and j < len(other) and (score := _score_lines(one[i], other[j])) >= _ALIKE:
            steps.append((best[i + 1, j + 1][0] + score, i + 1, j + 1))
        best[i, j] = max(steps, default=(0.0, i, j), key=lambda step: step[0])
    pairs, i, j = Pairs(), 0, 0
    while (i, j) != (len(one), len(other)):
        _, a, b = best[i, j]
        pairs.append((one[i] if a > i else None, other[j] if b > j else None))
        i, j = a, b
    return pairs


# Half for the name that they define, half for the text.
def _score_lines(x: TextLine, y: TextLine) -> float:
    return (likeness(x.key, y.key) + (x.defines == y.defines)) / 2


# Nothing if the lines have little in common.
def _mark(x: TextLine, y: TextLine) -> tuple[Marks, Marks]:
    one, other = ([token.span() for token in _TOKEN.finditer(line.text)] for line in (x, y))
    if (len(x.key), len(y.key)) != (len(one), len(other)) or likeness(x.key, y.key) < _ALIKE:
        return (), ()
    opcodes = [code for code in _opcodes(x.key, y.key) if code[0] != "equal"]
    marks = tuple((one[a][0], one[b - 1][1]) for _, a, b, _, _ in opcodes if a < b)
    return marks, tuple((other[c][0], other[d - 1][1]) for _, _, _, c, d in opcodes if c < d)
