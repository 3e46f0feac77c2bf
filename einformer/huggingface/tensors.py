"""Maps the tensors of transformers to our weights. Each has a row in a table, which is read in both directions.

A source is checked as a whole before the first tensor is read, and then read one tensor at a time.
"""

from __future__ import annotations

import functools
import itertools
import math
import pathlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from einops import rearrange
from torch import Tensor, nn

from einformer.errors import EinformerError, Finding, fail
from einformer.huggingface.config import config_text
from einformer.huggingface.families import Family, family, match_form, match_rows
from einformer.huggingface.stored import FLOATS, Alone, Box, Shape, State, Stored, call, find_tensors, write_folder
from einformer.interpreters.torch.ranks import list_views
from einformer.language import weights as placed
from einformer.language.weights import Placed, key

Regions = Mapping[str, tuple[range, ...]]  # the numbers of each index of some weights, by path
WHOLE: Regions = {}


class HuggingFaceWeights:
    """A module of a family of transformers, which loads weights from transformers and saves them for it."""

    recipe: Any
    meet: Callable[..., Any]
    find_regions: Callable[[], Regions]
    join_weights: Callable[[], State]
    is_first: Callable[[], bool]
    do_alone: Alone[Any]

    def load_huggingface(self, source: State | str | pathlib.Path) -> dict[str, str]:
        """Loads a state dict of transformers, a `.safetensors` file or a folder. Returns the ignored tensors with the
        reason.

        Nothing is written unless everything fits. Raises EinformerError as `read` does.
        """
        assert isinstance(self, nn.Module)
        recipe, weights, regions = self.recipe, self._place_weights(), self.find_regions()
        ignored: dict[str, str] = self.meet(
            lambda: load(recipe.family, weights, source, self, bool(recipe.part), regions), everywhere=True
        )
        return ignored

    def to_huggingface(self) -> dict[str, Tensor]:
        """Returns the weights with the names and shapes of a state dict of transformers; on each rank of a mesh all of them."""
        return save(self.recipe.family, self._place_weights(), self.join_weights())

    def save_huggingface(self, folder: str | pathlib.Path, most: int = 5_000_000_000) -> None:
        """Writes the weights as transformers' `save_pretrained` does, in files of at most `most` bytes, with a
        config.json.

        The config is the model's own, with the class of the model and the dtype of the weights. It does not mention another
        `length`: transformers chooses its angles at each call. Raises EinformerError E801, also if the folder holds other
        weights.
        """
        assert isinstance(self, nn.Module)
        recipe, dtype, path = self.recipe, next(self.parameters()).dtype, pathlib.Path(folder)
        save_files(
            recipe.family,
            self._place_weights(),
            self.join_weights(),
            dtype.itemsize,
            path,
            most,
            self.do_alone,
            self.is_first(),
        )
        text = config_text(recipe.config, recipe.family, recipe.legend, str(dtype).removeprefix("torch."))
        self.do_alone(lambda: (path / "config.json").write_text(text, encoding="utf-8"))

    def _place_weights(self) -> dict[str, Placed]:
        spec, name = self.recipe.spec, self.recipe.name
        return placed.weights(spec, next(layer for layer in spec.layers if layer.name == name), self.recipe.legend)


# -------------------------------------------------------------------------------------------- from theirs, to theirs


def load(
    model_type: str,
    weights: Mapping[str, Placed],
    source: State | str | pathlib.Path,
    into: nn.Module,
    part: bool = False,
    regions: Regions = WHOLE,
) -> dict[str, str]:
    """Writes the weights of a source into a module, one tensor after the other. Returns the ignored tensors with the
    reason. The weights may be a `part` of those of the source, and the module may have `regions` of some.

    Nothing is written unless everything fits. Raises EinformerError as `read` does, and E702 for tensors on the device
    meta.
    """
    checkpoint = read(model_type, weights, source, part, regions)
    if any(parameter.is_meta for parameter in into.parameters()):
        raise fail(
            "E702", "weights cannot be written into a module on the device meta", fix='`module.to_empty(device="cpu")` first'
        )
    checkpoint.write(dict(list_views(into)))
    return checkpoint.ignored


# Checks the weights of a source, or of a part of it, which are not read yet. Raises EinformerError with every tensor that is
# missing, unknown, of another shape or not of floating-point numbers: E616 to E619, E701, E704, and E610, E801, E802 for files.
def read(
    model_type: str,
    weights: Mapping[str, Placed],
    source: State | str | pathlib.Path,
    part: bool = False,
    regions: Regions = WHOLE,
) -> Checkpoint:
    table = family(model_type)
    named = {_read_name(table, name): tensor for name, tensor in find_tensors(source).items()}
    stored, others = _find_part(table, named) if part else (named, {})
    prefixed = _add_prefix(table, stored)
    rows = tuple(_make_rows(table, weights, lambda row: row.name in prefixed))
    forms = table.tensors.ignored.items()
    ignored = others | {name: why for name in prefixed for form, why in forms if match_form(form).fullmatch(name)}
    checkpoint = Checkpoint(rows, prefixed, ignored, regions)
    place = "the state dict" if isinstance(source, Mapping) else f"`{source}`"
    findings = list(_find_misfits(checkpoint, table, weights, place)) or list(_find_untied(checkpoint, table))
    if findings:
        raise EinformerError(findings)
    return checkpoint


# Tied names share one tensor.
def save(model_type: str, weights: Mapping[str, Placed], state: State) -> dict[str, Tensor]:
    table = family(model_type)
    tensors = {row.name: row.join(state) for row in _make_rows(table, weights, lambda _: False)}
    return tensors | {name: tensors[other] for name, other in _find_tied(table, tensors).items()}


# Writes weights by path, whose numbers have so many bytes, into files. Tied weights are written once. Of several processes that
# have them one `writes`. Raises EinformerError E801.
def save_files(
    model_type: str,
    weights: Mapping[str, Placed],
    state: State,
    element: int,
    folder: pathlib.Path,
    most: int,
    alone: Alone[Any] = call,
    writes: bool = True,
) -> None:
    table = family(model_type)
    rows = {_write_name(table, row.name): row for row in _make_rows(table, weights, lambda _: True)}
    sizes = {name: math.prod(row.shape) * element for name, row in rows.items()}

    def make(name: str) -> Tensor | None:
        tensor = rows[name].join(state)
        return tensor if writes else None

    write_folder(sizes, make, folder, most, alone)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A source in which every weight has its tensor: stored tensors by name, and ignored ones with the reason."""

    rows: tuple[TensorRow, ...]
    stored: Mapping[str, Stored]
    ignored: dict[str, str]
    regions: Regions = field(default_factory=dict)

    # One piece of a tensor of the source is read at a time.
    def write(self, weights: State) -> None:
        for row in self.rows:
            for (path, place), piece in row.pieces(self.regions):
                weights[path][place].copy_(piece.read(self.stored[row.name]))

    def is_tied(self, row: TensorRow, other: Stored) -> bool:
        own = self.stored[row.name]
        pieces = [piece for _, piece in row.pieces(self.regions)]
        return own.dtype == other.dtype and all(torch.equal(piece.read(own), piece.read(other)) for piece in pieces)


@dataclass(frozen=True, slots=True)
class TensorPart:
    """A part of a tensor of a source: the ranges that are read, and how the part lies in them."""

    box: Box
    shape: Shape
    strides: tuple[int, ...]

    @classmethod
    def of(cls, view: Tensor, shape: Shape) -> TensorPart:
        first, steps = view.storage_offset(), _count_strides(shape)
        last = first + sum((length - 1) * step for length, step in zip(view.shape, view.stride(), strict=True))
        ends = [(first // step % length, last // step % length + 1) for length, step in zip(shape, steps, strict=True)]
        inside = [*zip(steps, _count_strides(tuple(high - low for low, high in ends)), strict=True)]
        strides = tuple(next((new * (own // old) for old, new in inside if own >= old), 0) for own in view.stride())
        return cls(tuple(slice(low, high) for low, high in ends), tuple(view.shape), strides)

    def read(self, stored: Stored) -> Tensor:
        return stored.read(self.box).contiguous().as_strided(self.shape, self.strides)


def _count_strides(shape: Shape) -> tuple[int, ...]:
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


# ------------------------------------------------------------------------------------------------------------- rows


@dataclass(frozen=True, slots=True)
class TensorRow:
    """A tensor of transformers: its name, its weights, and its axes in their letters: `d (a e + a e + a e)`.

    `at` is its place on the axes that its name numbers, if it is a part of its weights. A number has no axes, and its
    weight has an axis of length 1.
    """

    name: str
    weights: Mapping[str, Placed]
    axes: str
    at: Mapping[str, int] = field(default_factory=dict)

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(self.weights)

    # Letters that a weight's name numbers have no size.
    @property
    def lengths(self) -> list[dict[str, int]]:
        return [
            {letter: size for letter, size in zip(_list_letters(held), held.shape, strict=True) if letter not in self.at}
            for held in self.weights.values()
        ]

    @property
    def shape(self) -> Shape:
        return _find_shape(self.axes, tuple(tuple(sizes.items()) for sizes in self.lengths))

    # A piece is read for the regions of the weights, and stands somewhere in them.
    def pieces(self, regions: Regions) -> Iterator[tuple[tuple[str, tuple[int | slice, ...]], TensorPart]]:
        views = self.split(torch.empty(self.shape, device="meta"))
        for (path, held), view in zip(self.weights.items(), views, strict=True):
            ranges = dict(zip(_list_letters(held), regions.get(path) or map(range, held.shape), strict=True))
            if all(number in ranges[letter] for letter, number in self.at.items() if letter in ranges):
                rest = [ranges[letter] for letter in ranges if letter not in self.at]
                place = tuple(ranges[letter].index(self.at[letter]) if letter in self.at else slice(None) for letter in ranges)
                yield (path, place), TensorPart.of(view[tuple(slice(own.start, own.stop) for own in rest)], self.shape)

    def join(self, weights: State) -> Tensor:
        places = [
            weights[path][tuple(self.at.get(letter, slice(None)) for letter in _list_letters(held))]
            for path, held in self.weights.items()
        ]
        return _join_weights(self.axes, self.lengths, places).detach().contiguous()

    def split(self, tensor: Tensor) -> list[Tensor]:
        lengths = self.lengths
        outer, terms, rest = _cut_axes(self.axes or " ".join(lengths[0]))
        sizes = [
            math.prod(own_lengths.get(letter, 1) for letter in term.split())
            for own_lengths, term in zip(lengths, terms, strict=True)
        ]
        cut = _arrange(tensor if self.axes else tensor[None], outer, f"cut {rest}", lengths[0] | {"cut": sum(sizes)})
        return [
            _arrange(piece, f"({term}) {rest}", " ".join(own_lengths), own_lengths)
            for piece, term, own_lengths in zip(torch.split(cut, sizes), terms, lengths, strict=True)
        ]


def _join_weights(axes: str, lengths: Sequence[Mapping[str, int]], weights: Iterable[Tensor]) -> Tensor:
    outer, terms, rest = _cut_axes(axes or " ".join(lengths[0]))
    pieces = [
        _arrange(weight, " ".join(sizes), f"({term}) {rest}", sizes)
        for weight, term, sizes in zip(weights, terms, lengths, strict=True)
    ]
    whole = _arrange(torch.cat(pieces) if pieces[1:] else pieces[0], f"cut {rest}", outer, lengths[0])
    return whole if axes else whole[0]


@functools.cache
def _find_shape(axes: str, letters: tuple[tuple[tuple[str, int], ...], ...]) -> Shape:
    lengths = [dict(sizes) for sizes in letters]
    return tuple(_join_weights(axes, lengths, [torch.empty(tuple(sizes.values()), device="meta") for sizes in lengths]).shape)


# The axes with `cut` for the one in which weights follow each other, the part of each weight, and the rest. `_cut("d (a e +
# a e)")` is `('d cut', ['a e', 'a e'], 'd')`.
def _cut_axes(axes: str) -> tuple[str, list[str], str]:
    match = re.search(r"\([^()]*\+[^()]*\)", axes) or re.match(r"\([^()]*\)|\S+", axes)
    assert match, axes
    outer = f"{axes[: match.start()]}cut{axes[match.end() :]}"
    return outer, match[0].strip("()").split(" + "), " ".join(re.findall(r"\w+", outer.replace("cut", "")))


def _arrange(tensor: Tensor, left: str, right: str, lengths: Mapping[str, int]) -> Tensor:
    lengths_here = {letter: length for letter, length in lengths.items() if letter in re.findall(r"\w+", left)}
    result: Tensor = rearrange(tensor, f"{left} -> {right}", **lengths_here)
    return result


def _list_letters(placed: Placed) -> list[str]:
    return [key(index.letter) for index in placed.weight.indices]


# A row of a file replaces the row of the state dict if one of its tensors is wanted.
def _make_rows(table: Family, weights: Mapping[str, Placed], in_files: Callable[[TensorRow], bool]) -> Iterator[TensorRow]:
    files: dict[str, list[TensorRow]] = {}
    for row in _fill_rows(table.tensors.files, weights):
        for path in row.paths:
            files.setdefault(path, []).append(row)
    for row in _fill_rows(table.tensors.rows, weights):
        others = [other for path in row.paths for other in files.get(path, ())]
        yield from others if any(map(in_files, others)) else [row]


# `{l}` is each number that occurs. Letters of theirs alone, `{x}` or `{gj}`, count places on axes.
def _fill_rows(rows: Iterable[tuple[str, str, str]], weights: Mapping[str, Placed]) -> Iterator[TensorRow]:
    for name, axes, layers, paths in match_rows(rows, weights):
        places = {path: weights[path] for path in paths}
        sizes = dict(zip(_list_letters(places[paths[0]]), places[paths[0]].shape, strict=True))
        numbered = [letters for letters in re.findall(r"\{(\w+)\}", name) if letters not in layers]
        for numbers in itertools.product(*(range(sizes[letter]) for letter in "".join(numbered))):
            position = dict(zip("".join(numbered), numbers, strict=True))
            counted = {letters: _count_place(letters, position, sizes) for letters in numbered}
            yield TensorRow(name.format(**layers, **counted), places, key(axes), position)


# The last axis runs fastest.
def _count_place(letters: str, at: Mapping[str, int], sizes: Mapping[str, int]) -> int:
    return functools.reduce(lambda number, letter: number * sizes[letter] + at[letter], letters, 0)


# The name in a state dict of a tensor that a file names otherwise.
def _read_name(table: Family, name: str) -> str:
    for theirs, ours in ((table.tensors.filed, table.tensors.prefix), *table.tensors.renamed.items()):
        name = name.replace(theirs, ours)
    return name


def _write_name(table: Family, name: str) -> str:
    prefix = table.tensors.prefix
    return table.tensors.filed + name.removeprefix(prefix) if name.startswith(prefix) else name


# The text part stands where its table of tokens does, `model.language_model.embed_tokens.weight`, and its head anywhere.
def _find_part(table: Family, stored: Mapping[str, Stored]) -> tuple[dict[str, Stored], dict[str, str]]:
    prefix, renamed = table.tensors.prefix, dict[str, str]()
    tokens = next(theirs for ours, theirs, _ in table.tensors.rows if ours == "E").removeprefix(prefix)
    starts = [name.removesuffix(tokens) for name in stored if f".{name}".endswith(f".{tokens}")]
    if starts[1:]:
        raise fail("E704", "the text part cannot be told from other parts", facts=[f"`{start}{tokens}`" for start in starts])
    for name in stored:
        heads = [head for head in _list_outside(table) if f".{name}".endswith(f".{head}")]
        if heads or any(map(name.startswith, starts)):
            renamed[name] = heads[0] if heads else prefix + name.removeprefix(starts[0])
    others = dict.fromkeys(stored.keys() - renamed.keys(), "of another part than the text part")
    return {inner: stored[name] for name, inner in renamed.items()}, others


def _list_outside(table: Family) -> set[str]:
    rows, prefix = (*table.tensors.rows, *table.tensors.files), table.tensors.prefix
    return {*table.tensors.tied, *(name for _, name, _ in rows if not name.startswith(prefix))}


# A model without its head leaves out the prefix everywhere.
def _add_prefix(table: Family, stored: Mapping[str, Stored]) -> dict[str, Stored]:
    prefix = table.tensors.prefix
    if any(name.startswith(prefix) for name in stored):
        return dict(stored)
    outside = _list_outside(table)
    return {name if name in outside else f"{prefix}{name}": tensor for name, tensor in stored.items()}


# Tensors that equal others, unless a row holds a weight of their own.
def _find_tied(table: Family, rows: Iterable[str]) -> dict[str, str]:
    return {name: other for name, other in table.tensors.tied.items() if name not in set(rows)}


# ----------------------------------------------------------------------------------------------------------- checks


def _find_misfits(checkpoint: Checkpoint, table: Family, weights: Mapping[str, Placed], place: str) -> Iterator[Finding]:
    stored, rows = checkpoint.stored, {row.name: row for row in checkpoint.rows}
    held = {path for row in rows.values() for path in row.paths}
    tied = _find_tied(table, rows)
    names = {*rows, *tied, *checkpoint.ignored}
    read = [tensor for name, tensor in stored.items() if name in names and name not in checkpoint.ignored]
    shapes = {name: row.shape for name, row in rows.items()}
    shapes |= {name: shapes[other] for name, other in tied.items() if other in shapes}
    return _list_tensors(
        (
            "E704",
            f"weights that no tensor of a {table.name} model holds",
            [f"`{path}`" for path in weights if path not in held],
        ),
        (
            "E704",
            f"tensors missing from {place}",
            [f"`{name}`, {_show_shape(shapes[name])}" for name in rows if name not in stored],
        ),
        (
            "E704",
            f"tensors of {place} that no weight reads",
            [f"`{tensor.name}`" for name, tensor in stored.items() if name not in names],
        ),
        (
            "E619",
            f"tensors of {place} that cannot be weights",
            [f"`{tensor.name}`: {tensor.dtype}" for tensor in read if tensor.dtype not in FLOATS.values()],
        ),
        (
            "E701",
            f"tensors of {place} that have another shape",
            [
                f"`{tensor.name}`: {_show_shape(tensor.shape)}, not {_show_shape(shapes[name])}"
                for name, tensor in stored.items()
                if name in shapes and tensor.dtype in FLOATS.values() and tensor.shape != shapes[name]
            ],
        ),
    )


def _list_tensors(*kinds: tuple[str, str, Sequence[str]]) -> Iterator[Finding]:
    for code, message, facts in kinds:
        if facts:
            yield Finding(code, f"{message}: {len(facts)}", facts=tuple(facts))


def _find_untied(checkpoint: Checkpoint, table: Family) -> Iterator[Finding]:
    rows = {row.name: row for row in checkpoint.rows}
    for name, other in _find_tied(table, rows).items():
        if name in checkpoint.stored and not checkpoint.is_tied(rows[other], checkpoint.stored[name]):
            message = f"`{name}` differs from `{other}`, and in {table.architecture}.ein they are one weight"
            yield Finding("E616", message, fix=f"your own .ein file, with a weight for `{name}`")


def _show_shape(shape: Shape) -> str:
    return " × ".join(map(str, shape)) or "one number"
