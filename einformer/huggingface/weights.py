"""Which tensor of transformers holds which of our weights? One row of a table for each, read in both directions.

A source is a state dict, a `.safetensors` file, or a folder that holds one, or several and their index. It is checked
whole before the first tensor is read, and read one tensor at a time.
"""

from __future__ import annotations

import functools
import itertools
import math
import os
import pathlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from einops import rearrange
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from einformer.errors import EinformerError, Finding, fail
from einformer.huggingface import documents
from einformer.huggingface.families import Family, family
from einformer.huggingface.stacks import stacked, unstacked
from einformer.notation import weights as placed
from einformer.notation.weights import Placed, key

State = Mapping[str, Tensor]
Shape = tuple[int, ...]

FLOATS = {"F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64"}  # as `.safetensors` files call them
PICKLES = {".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle"}
NUMBERED = {"n": "{n}"}  # what stands in a name for the number of each of several tensors
FILE, INDEX = "model.safetensors", "model.safetensors.index.json"


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
        """The weights by the names and in the shapes of transformers."""
        return save(self.recipe.family, self._placed(), self.state_dict())

    def _placed(self) -> dict[str, Placed]:
        spec, name = self.recipe.spec, self.recipe.name
        return placed.weights(spec, next(layer for layer in spec.layers if layer.name == name), self.recipe.legend)


# -------------------------------------------------------------------------------------------- from theirs, to theirs


def load(model_type: str, weights: Mapping[str, Placed], source: State | str | pathlib.Path, into: nn.Module) -> dict[str, str]:
    """Write the weights of a source into a module, layer by layer; the tensors that have no say, with the reason.

    Nothing is written unless everything fits. Raises EinformerError as `read` does, and E702 for tensors on the device meta.
    """
    checkpoint = read(model_type, weights, source)
    if any(parameter.is_meta for parameter in into.parameters()):
        raise fail(
            "E702", "weights cannot be written into a module on the device meta", fix='`module.to_empty(device="cpu")` first'
        )
    for layer, some in itertools.groupby(checkpoint.weights(), key=lambda item: item[0].rpartition(".")[0]):
        into.get_submodule(layer).load_state_dict({path.rpartition(".")[2]: tensor for path, tensor in some}, strict=False)
    return checkpoint.ignored


def read(model_type: str, weights: Mapping[str, Placed], source: State | str | pathlib.Path) -> Checkpoint:
    """The weights of a source, checked and not yet read.

    Raises EinformerError with every tensor that is missing, unknown, of another shape or no floating-point numbers:
    E616 to E619, E701, E704; E610, E801, E802 for files.
    """
    table = family(model_type)
    rows = list(_rows(table, weights))
    stored = stacked(_full_names(table, _stored(source)), {row.name: row.shape for row in rows})
    ignored = {name: why for name in stored for form, why in table.tensors.ignored.items() if _form(form).fullmatch(name)}
    checkpoint = Checkpoint(tuple(rows), stored, ignored)
    place = "the state dict" if isinstance(source, Mapping) else f"`{source}`"
    findings = list(_misfits(checkpoint, table, weights, place)) or list(_untied(checkpoint, table))
    if findings:
        raise EinformerError(findings)
    return checkpoint


def save(model_type: str, weights: Mapping[str, Placed], state: State) -> dict[str, Tensor]:
    """The tensors of transformers, by their names, that hold weights by path; tied ones are one tensor."""
    table = family(model_type)
    tensors = {row.name: row.joined([state[path] for path in row.paths]).detach().contiguous() for row in _rows(table, weights)}
    return unstacked(tensors | {name: tensors[other] for name, other in _tied(table, tensors).items()})


def write(tensors: State, path: str | pathlib.Path) -> None:
    """A `.safetensors` file of tensors by name; of those that are one tensor the first. Raises EinformerError E801."""
    first: dict[int, str] = {}
    for name, tensor in tensors.items():
        first.setdefault(id(tensor), name)
    try:
        save_file({name: tensors[name] for name in first.values()}, path, metadata={"format": "pt"})
    except (OSError, SafetensorError) as error:
        raise fail("E801", f"`{path}` cannot be written: {error}") from error


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A source in which every weight has its tensor: by name what is stored, and why some have no say."""

    rows: tuple[Row, ...]
    stored: Mapping[str, Stored]
    ignored: dict[str, str]

    def weights(self) -> Iterator[tuple[str, Tensor]]:
        """Every weight by path, in the dtype of the source; one tensor of the source is read at a time."""
        for row in self.rows:
            yield from zip(row.paths, row.parts(self.stored[row.name].read()), strict=True)


# ------------------------------------------------------------------------------------------------------------- rows


@dataclass(frozen=True, slots=True)
class Row:
    """A tensor of theirs: its name, the weights that it holds, and its axes in their letters: `d (a e + a e + a e)`."""

    name: str
    weights: Mapping[str, Placed]
    axes: str

    @property
    def paths(self) -> tuple[str, ...]:
        """The weights that it holds, in order."""
        return tuple(self.weights)

    @property
    def shape(self) -> Shape:
        """The shape that the tensor must have."""
        return tuple(self.joined([torch.empty(each.shape, device="meta") for each in self.weights.values()]).shape)

    def parts(self, tensor: Tensor) -> list[Tensor]:
        """The weights in a tensor: views of it."""
        outer, terms, rest = _cut(self.axes)
        lengths = [_lengths(placed) for placed in self.weights.values()]
        sizes = [math.prod(each.get(letter, 1) for letter in term.split()) for each, term in zip(lengths, terms, strict=True)]
        cut = _arranged(tensor, outer, f"cut {rest}", lengths[0] | {"cut": sum(sizes)})
        return [
            _arranged(piece, f"({term}) {rest}", " ".join(each), each)
            for piece, term, each in zip(torch.split(cut, sizes), terms, lengths, strict=True)
        ]

    def joined(self, weights: Iterable[Tensor]) -> Tensor:
        """The tensor that holds these weights, one after the other."""
        outer, terms, rest = _cut(self.axes)
        lengths = [_lengths(placed) for placed in self.weights.values()]
        pieces = [
            _arranged(weight, " ".join(each), f"({term}) {rest}", each)
            for weight, term, each in zip(weights, terms, lengths, strict=True)
        ]
        return _arranged(torch.cat(pieces), f"cut {rest}", outer, lengths[0])


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


def _lengths(placed: Placed) -> dict[str, int]:
    """The letters of a weight with their sizes."""
    return {key(index.letter): size for index, size in zip(placed.weight.indices, placed.shape, strict=True)}


def _rows(table: Family, weights: Mapping[str, Placed]) -> Iterator[Row]:
    """The rows of a table for these weights, `{l}` being each number that occurs."""
    for ours, name, axes in table.tensors.alternatives:
        prefix, dot, names = ours.rpartition(".")
        paths = [f"{prefix}{dot}{each}" for each in names.split(", ")]
        for found in filter(None, map(_form(paths[0]).fullmatch, weights)):
            places = [path.format(**found.groupdict()) for path in paths]
            yield Row(name.format(**found.groupdict() | NUMBERED), {path: weights[path] for path in places}, key(axes))


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
    read = [tensor for name, tensor in stored.items() if name in known - checkpoint.ignored.keys()]
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


# ---------------------------------------------------------------------------------------------------------- sources


@dataclass(frozen=True, slots=True)
class Stored:
    """A tensor of a source, not yet read."""

    name: str
    shape: Shape
    dtype: str
    read: Callable[[], Tensor]


def _full_names(table: Family, stored: Mapping[str, Stored]) -> dict[str, Stored]:
    """The tensors by name with the prefix, which a model without its head leaves out everywhere."""
    prefix = table.tensors.prefix
    if any(name.startswith(prefix) for name in stored):
        return dict(stored)
    outside = {*table.tensors.tied, *(name for _, name, _ in table.tensors.rows if not name.startswith(prefix))}
    return {name if name in outside else f"{prefix}{name}": tensor for name, tensor in stored.items()}


def _stored(source: State | str | pathlib.Path) -> dict[str, Stored]:
    """The tensors of a source by name."""
    if isinstance(source, Mapping):
        return {name: _in_memory(name, source) for name in source}
    path = pathlib.Path(source)
    if os.path.isdir(path):
        path = _in_folder(path)
    if path.suffix in PICKLES:
        raise fail("E617", f"`{path}` is pickled", fix="`model.safetensors`, which transformers' `save_pretrained` writes")
    if not os.path.isfile(path):
        raise fail("E802", f"there is no file {documents.name(str(path), 300)}")
    return _in_shards(path) if path.name.endswith(".index.json") else _in_file(path)


def _in_memory(name: str, state: State) -> Stored:
    tensor = state[name]
    if not isinstance(tensor, Tensor):
        return Stored(str(name), (), f"not a tensor but a {type(tensor).__name__}", lambda: state[name])
    dtype = str(tensor.dtype).removeprefix("torch.") + (" without numbers, on the device meta" if tensor.is_meta else "")
    return Stored(name, tuple(tensor.shape), dtype, lambda: state[name])


def _in_folder(folder: pathlib.Path) -> pathlib.Path:
    """The file that holds the tensors, or their index; else a pickle, which is then refused."""
    found = [folder / FILE, folder / INDEX, *sorted(path for path in folder.iterdir() if path.suffix in PICKLES)]
    path = next((path for path in found if path.is_file()), None)
    if path is None:
        raise fail("E802", f"the folder `{folder}` holds no weights", fix=f"a folder with `{FILE}` or `{INDEX}`")
    return path


def _in_file(path: pathlib.Path) -> dict[str, Stored]:
    """What the head of a `.safetensors` file says, which is checked against the length of the file."""
    try:
        with safe_open(path, "pt") as file:
            return {name: _at(path, file, name) for name in file.keys()}  # noqa: SIM118 (it is no dict)
    except (SafetensorError, OSError, ValueError) as error:
        raise fail("E618", f"`{path}` is no whole .safetensors file: {error}", fix="a fresh copy of the file") from error


def _at(path: pathlib.Path, file: Any, name: str) -> Stored:
    head = file.get_slice(name)
    dtype = head.get_dtype()
    return Stored(name, tuple(head.get_shape()), FLOATS.get(dtype, dtype), functools.partial(_tensor, path, name))


def _tensor(path: pathlib.Path, name: str) -> Tensor:
    """A tensor of a file. The file is opened for each anew, so that what was read before is not kept."""
    with safe_open(path, "pt") as file:
        tensor: Tensor = file.get_tensor(name)
    return tensor


def _in_shards(index: pathlib.Path) -> dict[str, Stored]:
    """The tensors of the files that an index names, all of them and no others."""
    document = documents.read(index)
    names = document.values.get("weight_map")
    if not isinstance(names, dict) or not all(isinstance(file, str) for file in names.values()):
        raise fail(
            "E618", f"`{index}` has no `weight_map`", document.span("weight_map"), fix='`"weight_map": {"name": "file", …}`'
        )
    shards = {file: _shard(index.parent, file) for file in sorted(set(names.values()))}
    stored = {name: tensor for shard in shards.values() for name, tensor in shard.items()}
    lost = [f"`{name}` is not in `{file}`" for name, file in names.items() if name not in shards[file]]
    extra = [
        f"`{name}` in `{file}` is not in the index"
        for file, shard in shards.items()
        for name in shard
        if names.get(name) != file
    ]
    if lost or extra:
        raise fail("E618", f"`{index}` is not the index of its files", facts=[*lost, *extra], fix="fresh copies of the files")
    return stored


def _shard(folder: pathlib.Path, file: str) -> dict[str, Stored]:
    """A file beside the index: never one elsewhere."""
    if pathlib.PurePath(file).name != file or not os.path.isfile(folder / file):
        raise fail("E618", f"the index names the file {documents.name(file)}, which does not lie beside it")
    return _stored(folder / file)
