"""Which tensor of transformers holds which of our weights? One row of a table for each, read in both directions.

A source is checked whole before the first tensor is read, and read one tensor at a time.
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
from einformer.huggingface.families import Family, family
from einformer.huggingface.stored import FLOATS, Shape, State, Stored, stored, write_folder
from einformer.interpreters.torch.module import views
from einformer.language import weights as placed
from einformer.language.weights import Placed, key


class HuggingFaceWeights:
    """What a module that came from a family of transformers can do: load its weights from that, and save them for it."""

    recipe: Any
    state_dict: Callable[[], dict[str, Tensor]]

    def load_huggingface(self, source: State | str | pathlib.Path) -> dict[str, str]:
        """Take the weights of a state dict of transformers, of a `.safetensors` file or of a folder; what was ignored, and why.

        Nothing is written unless everything fits. Raises EinformerError as `read` does.
        """
        assert isinstance(self, nn.Module)
        return load(self.recipe.family, self._placed(), source, self)

    def to_huggingface(self) -> dict[str, Tensor]:
        """The weights by the names and in the shapes of a state dict of transformers."""
        return save(self.recipe.family, self._placed(), self.state_dict())

    def save_huggingface(self, folder: str | pathlib.Path, most: int = 5_000_000_000) -> None:
        """Write the weights as transformers' `save_pretrained` does, in files of at most so many bytes, and a config.json.

        It is the config that the model came from, with the class of the model and the dtype of the weights. Of a model for
        another `length` it says nothing: transformers chooses its angles at each call. Raises EinformerError E801, also where
        the folder holds other weights.
        """
        assert isinstance(self, nn.Module)
        recipe, weights, path = self.recipe, dict(views(self)), pathlib.Path(folder)
        save_files(recipe.family, self._placed(), weights, path, most)
        dtype = str(next(iter(weights.values())).dtype).removeprefix("torch.")
        (path / "config.json").write_text(config_text(recipe.config, recipe.family, recipe.legend, dtype), encoding="utf-8")

    def _placed(self) -> dict[str, Placed]:
        spec, name = self.recipe.spec, self.recipe.name
        return placed.weights(spec, next(layer for layer in spec.layers if layer.name == name), self.recipe.legend)


# -------------------------------------------------------------------------------------------- from theirs, to theirs


def load(model_type: str, weights: Mapping[str, Placed], source: State | str | pathlib.Path, into: nn.Module) -> dict[str, str]:
    """Write the weights of a source into a module, one tensor after the other; those that have no say, with the reason.

    Nothing is written unless everything fits. Raises EinformerError as `read` does, and E702 for tensors on the device meta.
    """
    checkpoint = read(model_type, weights, source)
    if any(parameter.is_meta for parameter in into.parameters()):
        raise fail(
            "E702", "weights cannot be written into a module on the device meta", fix='`module.to_empty(device="cpu")` first'
        )
    checkpoint.write(dict(views(into)))
    return checkpoint.ignored


def read(model_type: str, weights: Mapping[str, Placed], source: State | str | pathlib.Path) -> Checkpoint:
    """The weights of a source, checked and not yet read.

    Raises EinformerError with every tensor that is missing, unknown, of another shape or no floating-point numbers:
    E616 to E619, E701, E704; E610, E801, E802 for files.
    """
    table = family(model_type)
    found = _full_names(table, stored(source))
    rows = tuple(_rows(table, weights, lambda row: row.name in found))
    ignored = {name: why for name in found for form, why in table.tensors.ignored.items() if _form(form).fullmatch(name)}
    checkpoint = Checkpoint(rows, found, ignored)
    place = "the state dict" if isinstance(source, Mapping) else f"`{source}`"
    findings = list(_misfits(checkpoint, table, weights, place)) or list(_untied(checkpoint, table))
    if findings:
        raise EinformerError(findings)
    return checkpoint


def save(model_type: str, weights: Mapping[str, Placed], state: State) -> dict[str, Tensor]:
    """The tensors of a state dict of transformers, by name, that hold weights by path; tied ones are one tensor."""
    table = family(model_type)
    tensors = {row.name: row.taken(state) for row in _rows(table, weights, lambda _: False)}
    return tensors | {name: tensors[other] for name, other in _tied(table, tensors).items()}


def save_files(model_type: str, weights: Mapping[str, Placed], state: State, folder: pathlib.Path, most: int) -> None:
    """Write weights by path into files; tied ones once. Raises EinformerError E801."""
    rows = {row.name: row for row in _rows(family(model_type), weights, lambda _: True)}
    sizes = {row.name: math.prod(row.shape) * state[row.paths[0]].element_size() for row in rows.values()}
    write_folder(sizes, lambda name: rows[name].taken(state), folder, most)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A source in which every weight has its tensor: by name what is stored, and why some have no say."""

    rows: tuple[Row, ...]
    stored: Mapping[str, Stored]
    ignored: dict[str, str]

    def write(self, weights: State) -> None:
        """Write every weight into its tensor, by path; one tensor of the source is read at a time."""
        for row in self.rows:
            for into, part in zip(row.places(weights), row.parts(self.stored[row.name].read()), strict=True):
                into.copy_(part)


# ------------------------------------------------------------------------------------------------------------- rows


@dataclass(frozen=True, slots=True)
class Row:
    """A tensor of theirs: its name, the weights that it holds, and its axes in their letters: `d (a e + a e + a e)`.

    `at`: its place on the axes that its name numbers, where it is not the whole of its weights.
    One that is a number has no axes, and its weight an axis of length 1.
    """

    name: str
    weights: Mapping[str, Placed]
    axes: str
    at: Mapping[str, int] = field(default_factory=dict)

    @property
    def paths(self) -> tuple[str, ...]:
        """The weights that it holds, in order."""
        return tuple(self.weights)

    @property
    def lengths(self) -> list[dict[str, int]]:
        """The letters of each of its weights with their sizes, without those that its name numbers."""
        return [
            {letter: size for letter, size in zip(_letters(each), each.shape, strict=True) if letter not in self.at}
            for each in self.weights.values()
        ]

    @property
    def shape(self) -> Shape:
        """The shape that the tensor must have."""
        return _shape(self.axes, tuple(tuple(each.items()) for each in self.lengths))

    def places(self, weights: State) -> list[Tensor]:
        """What it holds of weights by path: views of them."""
        return [
            weights[path][tuple(self.at.get(letter, slice(None)) for letter in _letters(each))]
            for path, each in self.weights.items()
        ]

    def taken(self, weights: State) -> Tensor:
        """The tensor that holds these weights, by path."""
        return _joined(self.axes, self.lengths, self.places(weights)).detach().contiguous()

    def parts(self, tensor: Tensor) -> list[Tensor]:
        """The weights in a tensor: views of it."""
        lengths = self.lengths
        outer, terms, rest = _cut(self.axes or " ".join(lengths[0]))
        sizes = [math.prod(each.get(letter, 1) for letter in term.split()) for each, term in zip(lengths, terms, strict=True)]
        cut = _arranged(tensor if self.axes else tensor[None], outer, f"cut {rest}", lengths[0] | {"cut": sum(sizes)})
        return [
            _arranged(piece, f"({term}) {rest}", " ".join(each), each)
            for piece, term, each in zip(torch.split(cut, sizes), terms, lengths, strict=True)
        ]


def _joined(axes: str, lengths: Sequence[Mapping[str, int]], weights: Iterable[Tensor]) -> Tensor:
    """The tensor that holds weights one after the other."""
    outer, terms, rest = _cut(axes or " ".join(lengths[0]))
    pieces = [
        _arranged(weight, " ".join(each), f"({term}) {rest}", each)
        for weight, term, each in zip(weights, terms, lengths, strict=True)
    ]
    whole = _arranged(torch.cat(pieces) if pieces[1:] else pieces[0], f"cut {rest}", outer, lengths[0])
    return whole if axes else whole[0]


@functools.cache
def _shape(axes: str, letters: tuple[tuple[tuple[str, int], ...], ...]) -> Shape:
    """The shape of the tensor that holds weights of these letters and sizes."""
    lengths = [dict(each) for each in letters]
    return tuple(_joined(axes, lengths, [torch.empty(tuple(each.values()), device="meta") for each in lengths]).shape)


def _cut(axes: str) -> tuple[str, list[str], str]:
    """The axes with `cut` for the one in which weights lie one after the other, what of it is each weight's, the rest.

    >>> _cut("d (a e + a e)")
    ('d cut', ['a e', 'a e'], 'd')
    """
    found = re.search(r"\([^()]*\+[^()]*\)", axes) or re.match(r"\([^()]*\)|\S+", axes)
    assert found, axes
    outer = f"{axes[: found.start()]}cut{axes[found.end() :]}"
    return outer, found[0].strip("()").split(" + "), " ".join(re.findall(r"\w+", outer.replace("cut", "")))


def _arranged(tensor: Tensor, left: str, right: str, lengths: Mapping[str, int]) -> Tensor:
    known = {letter: length for letter, length in lengths.items() if letter in re.findall(r"\w+", left)}
    result: Tensor = rearrange(tensor, f"{left} -> {right}", **known)
    return result


def _letters(placed: Placed) -> list[str]:
    """The letters of a weight."""
    return [key(index.letter) for index in placed.weight.indices]


def _rows(table: Family, weights: Mapping[str, Placed], in_files: Callable[[Row], bool]) -> Iterator[Row]:
    """The rows of a state dict for these weights; those of files in the place of each where one of them is wanted."""
    files: dict[str, list[Row]] = {}
    for row in _filled(table.tensors.files, weights):
        for path in row.paths:
            files.setdefault(path, []).append(row)
    for row in _filled(table.tensors.rows, weights):
        others = [other for path in row.paths for other in files.get(path, ())]
        yield from others if any(map(in_files, others)) else [row]


def _filled(rows: Iterable[tuple[str, str, str]], weights: Mapping[str, Placed]) -> Iterator[Row]:
    """Rows of a table, `{l}` being each number that occurs; letters of theirs alone, `{x}` or `{gj}`, count places on axes."""
    for ours, name, axes in ((each, *rest) for every, *rest in rows for each in every.split(" | ")):
        prefix, dot, names = ours.rpartition(".")
        paths = [f"{prefix}{dot}{each}" for each in names.split(", ")]
        for found in filter(None, map(_form(paths[0]).fullmatch, weights)):
            places = {path: weights[path] for path in (path.format(**found.groupdict()) for path in paths)}
            sizes = dict(zip(_letters(places[found[0]]), places[found[0]].shape, strict=True))
            numbered = [letters for letters in re.findall(r"\{(\w+)\}", name) if letters not in found.groupdict()]
            for numbers in itertools.product(*(range(sizes[letter]) for letter in "".join(numbered))):
                at = dict(zip("".join(numbered), numbers, strict=True))
                counted = {letters: _counted(letters, at, sizes) for letters in numbered}
                yield Row(name.format(**found.groupdict(), **counted), places, key(axes), at)


def _counted(letters: str, at: Mapping[str, int], sizes: Mapping[str, int]) -> int:
    """The number of a place on several axes, the last running fastest."""
    return functools.reduce(lambda number, letter: number * sizes[letter] + at[letter], letters, 0)


def _full_names(table: Family, found: Mapping[str, Stored]) -> dict[str, Stored]:
    """The tensors by name with the prefix, which a model without its head leaves out everywhere."""
    prefix = table.tensors.prefix
    if any(name.startswith(prefix) for name in found):
        return dict(found)
    rows = (*table.tensors.rows, *table.tensors.files)
    outside = {*table.tensors.tied, *(name for _, name, _ in rows if not name.startswith(prefix))}
    return {name if name in outside else f"{prefix}{name}": tensor for name, tensor in found.items()}


def _tied(table: Family, rows: Iterable[str]) -> dict[str, str]:
    """The tensors that are others, where no row holds a weight of their own."""
    return {name: other for name, other in table.tensors.tied.items() if name not in set(rows)}


@functools.cache
def _form(name: str) -> re.Pattern[str]:
    """What a name with a letter in braces stands for: `h.{l}.ln_1.bias` is any `h.3.ln_1.bias`."""
    return re.compile(re.sub(r"\\\{(\w)\\\}", r"(?P<\1>\\d+)", re.escape(name)))


# ----------------------------------------------------------------------------------------------------------- checks


def _misfits(checkpoint: Checkpoint, table: Family, weights: Mapping[str, Placed], place: str) -> Iterator[Finding]:
    """Tensors that are missing, unknown, no floating-point numbers, or of another shape; weights without a row."""
    stored, rows = checkpoint.stored, {row.name: row for row in checkpoint.rows}
    held = {path for row in rows.values() for path in row.paths}
    tied = _tied(table, rows)
    known = {*rows, *tied, *checkpoint.ignored}
    read = [tensor for name, tensor in stored.items() if name in known and name not in checkpoint.ignored]
    shapes = {name: row.shape for name, row in rows.items()}
    shapes |= {name: shapes[other] for name, other in tied.items() if other in shapes}
    return _listed(
        (
            "E704",
            f"weights that no tensor of a {table.name} model holds",
            [f"`{path}`" for path in weights if path not in held],
        ),
        ("E704", f"tensors missing from {place}", [f"`{name}`, {_by(shapes[name])}" for name in rows if name not in stored]),
        (
            "E704",
            f"tensors of {place} that no weight reads",
            [f"`{tensor.name}`" for name, tensor in stored.items() if name not in known],
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
                f"`{tensor.name}`: {_by(tensor.shape)}, not {_by(shapes[name])}"
                for name, tensor in stored.items()
                if name in shapes and tensor.dtype in FLOATS.values() and tensor.shape != shapes[name]
            ],
        ),
    )


def _listed(*kinds: tuple[str, str, Sequence[str]]) -> Iterator[Finding]:
    """One finding for each kind that occurs, with the name of each."""
    for code, message, facts in kinds:
        if facts:
            yield Finding(code, f"{message}: {len(facts)}", facts=tuple(facts))


def _untied(checkpoint: Checkpoint, table: Family) -> Iterator[Finding]:
    """Tensors that differ from what they are tied to."""
    for name, other in _tied(table, {row.name for row in checkpoint.rows}).items():
        if name in checkpoint.stored and not _equal(checkpoint.stored[name], checkpoint.stored[other]):
            message = f"`{name}` differs from `{other}`, and in {table.architecture}.ein they are one weight"
            yield Finding("E616", message, fix=f"your own .ein file, with a weight for `{name}`")


def _equal(one: Stored, other: Stored) -> bool:
    return one.dtype == other.dtype and torch.equal(one.read(), other.read())


def _by(shape: Shape) -> str:
    return " × ".join(map(str, shape)) or "one number"
