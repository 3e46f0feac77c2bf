"""What distinguishes two specifications? Layer by layer and line by line; letters that are only renamed do not."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from einformer.language.alignment import Change, Marks, TextLine, changes, likeness
from einformer.language.binding import known
from einformer.language.printer import number, show
from einformer.language.renaming import Reading, same_axes, whole
from einformer.language.sizes import Legend
from einformer.language.tree import Axis, Equation, Layer, Loop, Number, Scalar, Spec, Statement, Weight

OPEN, NOTHING = "open", "–"  # a size that is not bound; a letter that is not there
_SAME_ROLE = 0.4  # the least score of two layers of which one became the other


@dataclass(frozen=True, slots=True)
class Part:
    """What changed in the legend or in a layer: `scalars`, `layer MLP`, `layer MLP → GatedMLP`."""

    name: str
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Value:
    """A size or a scalar that is another number."""

    name: str
    one: str
    other: str
    about: str = ""


@dataclass(frozen=True, slots=True)
class Difference:
    """What distinguishes two specifications; false where nothing does."""

    values: tuple[Value, ...]
    parts: tuple[Part, ...]

    def __bool__(self) -> bool:
        return bool(self.values or self.parts)

    def __str__(self) -> str:
        values = "\n".join(f"{value.name}: {value.one} → {value.other}" for value in self.values)
        return "\n\n".join(filter(None, [values, *("\n".join([part.name, *rows(part)]) for part in self.parts)]))


def rows(part: Part) -> Iterator[str]:
    """Each line with its sign, and a row of carets under what of it differs."""
    for change in part.changes:
        for sign, text, marks in zip("-+", (change.one, change.other), change.marks, strict=True):
            if text:
                yield f"{sign} {text}"
            if marks:
                yield f"  {_carets(marks)}"


def _carets(marks: Marks) -> str:
    return "".join(
        " " * (start - end) + "^" * (stop - start) for (_, end), (start, stop) in itertools.pairwise([(0, 0), *marks])
    )


def difference(one: Spec, other: Spec, legends: tuple[Legend, Legend] | None = None) -> Difference:
    """What distinguishes two specifications as they are written, with the layers of the prelude that they call.

    Of sizes those differ that their legends bind, or that follow.
    """
    sizes = _sizes(*legends) if legends else ()
    texts = _Text(one, {axis.letter: axis.letter for axis in one.axes}), _Text(other, same_axes(one, other))
    values, scalars = _numbers(*texts)
    parts = [
        Part("axes", tuple(_declared(texts[0].axes, texts[1].axes))),
        Part("scalars", tuple(_declared(*scalars))),
        *(_layer(texts, x, y) for x, y in _paired(texts)),
    ]
    return Difference((*sizes, *values), tuple(part for part in parts if part.changes))


class _Text:
    """A specification in lines, and the letters of the first of two by which they are compared."""

    def __init__(self, spec: Spec, letters: dict[str, str]) -> None:
        self.spec, self.letters = spec, letters
        self.time = next((layer.time.letter for layer in spec.layers if layer.time), "")
        self.axes = {letters[axis.letter]: self.line(axis) for axis in spec.axes}
        self.scalars = {scalar.name: scalar for scalar in spec.scalars}

    def line(self, node: Axis | Scalar | Layer | Equation | Loop, indent: str = "", defines: str = "") -> TextLine:
        """A line without what is said beside and above it."""
        bare = replace(node, above=(), comment="")
        bare = bare if isinstance(bare, Axis | Loop) else replace(bare, note="")
        reading = Reading(self.letters, self.time).line(bare)
        return TextLine(indent + show(bare), indent + show(reading), defines)

    def layer(self, layer: Layer) -> Iterator[TextLine]:
        """The lines of a layer. A model has no name here: two models are the same one."""
        head = replace(layer, weights=(), body=())
        line = self.line(head)
        yield TextLine(line.text, line.reading.replace(layer.name, "°", 1) if layer.kind == "model" else line.reading, "head")
        for (kind, of), weights in itertools.groupby(layer.weights, key=lambda weight: (weight.kind, weight.layer)):
            yield self.weights(f"  {'buffers' if kind == 'buffer' else 'weights'} ", list(weights), f": {of}" if of else "")
        yield from self.body(layer.body, "  ")

    def weights(self, start: str, weights: Sequence[Weight], end: str) -> TextLine:
        """Weights of one kind in a line, however long."""
        bare = [replace(weight, above=(), comment="") for weight in weights]
        readings = [Reading(self.letters, self.time).line(weight) for weight in bare]
        written, read = (f"{start}{', '.join(map(show, each))}{end}" for each in (bare, readings))
        return TextLine(written, read, start + end)

    def body(self, body: Sequence[Statement], indent: str) -> Iterator[TextLine]:
        """The lines of a body."""
        for statement in body:
            if isinstance(statement, Loop):
                yield self.line(replace(statement, body=()), indent, "for")
                yield from self.body(statement.body, indent + "  ")
            else:
                defines = "return" if statement.relation == "return" else statement.left.name
                yield self.line(statement, indent, defines)


# ------------------------------------------------------------------------------------------------------- the legend


def _declared(one: dict[str, TextLine], other: dict[str, TextLine]) -> Iterator[Change]:
    """The declarations of two legends by name: their order says nothing."""
    for name in one | other:
        yield from changes([one[name]] if name in one else [], [other[name]] if name in other else [])


def _numbers(one: _Text, other: _Text) -> tuple[tuple[Value, ...], list[dict[str, TextLine]]]:
    """Scalars that are another number, and the lines of those that are a number not in both."""
    both = [name for name in one.scalars if name in other.scalars and _are_numbers(one, other, name)]
    pairs = [(one.scalars[name], other.scalars[name]) for name in both]
    values = tuple(Value(x.name, _written(x), _written(y), x.comment or y.comment) for x, y in pairs if x.value != y.value)
    rest = [{name: text.line(s) for name, s in text.scalars.items() if name not in both} for text in (one, other)]
    return values, rest


def _sizes(one: Legend, other: Legend) -> tuple[Value, ...]:
    """Sizes that are another number, or open, or not there in one; in the order of the legends."""
    values = [_known(legend) for legend in (one, other)]
    axes = [axis for legend in (one, other) for axis in legend.axes.values()]
    order = dict.fromkeys([show(axis.size) for axis in axes] + [*values[0], *values[1]])
    said = {name: dict.fromkeys(axis.comment for axis in axes if show(axis.size) == name) for name in order}
    pairs = [(name, *(each.get(name, NOTHING) for each in values)) for name in order]
    numbers = [(name, x, y) for name, x, y in pairs if x != y and {x, y} != {OPEN, NOTHING}]
    return tuple(Value(name, x, y, "; ".join(said[name])) for name, x, y in numbers)


def _known(legend: Legend) -> dict[str, str]:
    """Sizes as they are shown."""
    sizes = {name: f"{value:,}" for name, value in known(legend).items() if name not in legend.scalars}
    return dict.fromkeys(legend.letters, OPEN) | sizes


def _are_numbers(one: _Text, other: _Text, name: str) -> bool:
    """Is a scalar a number, or a list of them, in both, over the same axes?"""
    scalars = [(text, text.scalars[name]) for text in (one, other)]
    axes = [[text.letters[index.letter] for index in scalar.indices] for text, scalar in scalars]
    return axes[0] == axes[1] and all(isinstance(scalar.value, tuple | Number) for _, scalar in scalars)


def _written(scalar: Scalar) -> str:
    items = scalar.value if isinstance(scalar.value, tuple) else (scalar.value,)
    return ", ".join(number(whole(item.value)) for item in items if isinstance(item, Number))


# ------------------------------------------------------------------------------------------------------- the layers

Pair = tuple[Layer | None, Layer | None]


def _layer(texts: tuple[_Text, _Text], x: Layer | None, y: Layer | None) -> Part:
    names = list(dict.fromkeys(layer.name for layer in (x, y) if layer))
    kind = next(layer.kind for layer in (x, y) if layer)
    lines = (list(text.layer(layer)) if layer else [] for text, layer in zip(texts, (x, y), strict=True))
    return Part(f"{kind} {' → '.join(names)}", tuple(changes(*lines)))


def _paired(texts: tuple[_Text, _Text]) -> list[Pair]:
    """The layers of two texts side by side: of one name, models, then those that are most alike."""
    one, other = ({layer.name: layer for layer in text.spec.layers} for text in texts)
    found = {name: name for name in one if name in other}
    models = [[name for name in each if each[name].kind == "model" and name not in found] for each in (one, other)]
    found |= dict(zip(*models, strict=False))
    rest = [(x, y) for x in one for y in other if x not in found and y not in found.values()]
    scores = {(x, y): _role(texts, one[x], other[y]) for x, y in rest}
    for x, y in sorted(rest, key=lambda pair: -scores[pair]):
        if scores[x, y] >= _SAME_ROLE and x not in found and y not in found.values():
            found[x] = y
    alone: list[Pair] = [(None, other[name]) for name in other if name not in found.values()]
    both: list[Pair] = [(one[name], other[found[name]] if name in found else None) for name in one]
    return both[:-1] + alone + both[-1:]


def _role(texts: tuple[_Text, _Text], x: Layer, y: Layer) -> float:
    """How much two layers of different names are one: by their names, and by their lines."""
    if x.kind != y.kind:
        return 0.0
    words = [[word for line in text.layer(layer) for word in line.key] for text, layer in zip(texts, (x, y), strict=True)]
    return (likeness(x.name, y.name) + likeness(*words)) / 2
