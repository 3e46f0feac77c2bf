"""Finds the tensors of a source, and writes them into files.

A source is a state dict, a `.safetensors` file, or a folder that holds one, or several and their index.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import pathlib
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from einformer.errors import fail
from einformer.huggingface import documents

State = Mapping[str, Tensor]
Version = tuple[int, int, int]  # of a file: another one has another
Shape = tuple[int, ...]
Box = tuple[slice, ...]  # a range along each axis
T = TypeVar("T")

FLOATS = {"F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64"}  # as `.safetensors` files call them
PICKLES = {".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle"}
FILE, INDEX = "model.safetensors", "model.safetensors.index.json"


Alone = Callable[[Callable[[], T]], T | None]  # does work in one of several processes


def call(work: Callable[[], T]) -> T:
    return work()


@dataclass(frozen=True, slots=True)
class Stored:
    """A tensor of a source, not yet read."""

    name: str
    shape: Shape
    dtype: str
    read: Callable[[Box], Tensor]


# Returns the tensors of a source by name. Raises EinformerError E617, E618, E610, E801, E802.
def find_tensors(source: State | str | pathlib.Path) -> dict[str, Stored]:
    if isinstance(source, Mapping):
        return {name: _find_in_memory(name, source) for name in source}
    path = pathlib.Path(source)
    if os.path.isdir(path):
        path = _find_file(path)
    if path.suffix in PICKLES:
        raise fail("E617", f"`{path}` is pickled", fix="`model.safetensors`, which transformers' `save_pretrained` writes")
    if not os.path.isfile(path):
        raise fail("E802", f"there is no file {documents.name(str(path), 300)}")
    return _find_in_shards(path) if path.name.endswith(".index.json") else _find_in_file(path)


def _find_in_memory(name: str, state: State) -> Stored:
    tensor = state[name]
    if not isinstance(tensor, Tensor):
        return Stored(str(name), (), f"not a tensor but a {type(tensor).__name__}", lambda box: state[name])
    dtype = str(tensor.dtype).removeprefix("torch.") + (" without numbers, on the device meta" if tensor.is_meta else "")
    return Stored(name, tuple(tensor.shape), dtype, lambda box: state[name][box])


# A pickle is found last, and refused later.
def _find_file(folder: pathlib.Path) -> pathlib.Path:
    files = [folder / FILE, folder / INDEX, *sorted(path for path in folder.iterdir() if path.suffix in PICKLES)]
    path = next((path for path in files if path.is_file()), None)
    if path is None:
        raise fail("E802", f"the folder `{folder}` holds no weights", fix=f"a folder with `{FILE}` or `{INDEX}`")
    return path


# The head of the file is checked against its length.
def _find_in_file(path: pathlib.Path) -> dict[str, Stored]:
    try:
        version = _identify(path)
        with safe_open(path, "pt") as file:
            return {name: _make_stored(path, version, file, name) for name in file.keys()}  # noqa: SIM118 (it is no dict)
    except (SafetensorError, OSError, ValueError) as error:
        raise fail("E618", f"`{path}` is not a whole .safetensors file: {error}", fix="a fresh copy of the file") from error


def _make_stored(path: pathlib.Path, version: Version, file: Any, name: str) -> Stored:
    head = file.get_slice(name)
    dtype = head.get_dtype()
    read = functools.partial(_read_tensor, path, version, name)
    return Stored(name, tuple(head.get_shape()), FLOATS.get(dtype, dtype), read)


# The file is opened anew for each tensor, so that earlier tensors are released. It must be the file that was checked.
def _read_tensor(path: pathlib.Path, version: Version, name: str, box: Box) -> Tensor:
    try:
        with safe_open(path, "pt") as file:
            tensor: Tensor = file.get_slice(name)[box] if box else file.get_tensor(name)
        replaced = _identify(path) != version
    except (SafetensorError, OSError):
        replaced = True
    if replaced:
        message = f"`{path}` changed while it was read, so the module has weights of two files"
        raise fail("E618", message, fix="the same call again")
    return tensor


def _identify(path: pathlib.Path) -> Version:
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


# The index must name all tensors of the files and no others.
def _find_in_shards(index: pathlib.Path) -> dict[str, Stored]:
    document = documents.read(index)
    names = document.values.get("weight_map")
    if not isinstance(names, dict) or not all(isinstance(file, str) for file in names.values()):
        raise fail(
            "E618", f"`{index}` has no `weight_map`", document.span("weight_map"), fix='`"weight_map": {"name": "file", …}`'
        )
    shards = {file: _find_in_shard(index.parent, file) for file in sorted(set(names.values()))}
    tensors = {name: tensor for shard in shards.values() for name, tensor in shard.items()}
    lost = [f"`{name}` is not in `{file}`" for name, file in names.items() if name not in shards[file]]
    extra = [
        f"`{name}` in `{file}` is not what the index says"
        for file, shard in shards.items()
        for name in shard
        if names.get(name) != file
    ]
    if lost or extra:
        raise fail("E618", f"`{index}` is not the index of its files", facts=[*lost, *extra], fix="fresh copies of the files")
    return tensors


# Only beside the index.
def _find_in_shard(folder: pathlib.Path, file: str) -> dict[str, Stored]:
    if pathlib.PurePath(file).name != file or not os.path.isfile(folder / file):
        raise fail("E618", f"the index names the file {documents.name(file)}, which does not lie beside it")
    if file.endswith(".json"):
        raise fail("E618", f"the index names the file {documents.name(file)}, which is no .safetensors file")
    return find_tensors(folder / file)


# ---------------------------------------------------------------------------------------------------------- to files


# One of several names that share a tensor is written, the first.
def write(tensors: State, path: str | pathlib.Path) -> None:
    first: dict[int, str] = {}
    for name, tensor in tensors.items():
        first.setdefault(id(tensor), name)
    with _refuse_unwritten(path):
        save_file({name: tensors[name] for name in first.values()}, path, metadata={"format": "pt"})


# Writes tensors into files of limited size: one file, or several and their index. The tensors of one file are made together. Of
# several processes that make them, one writes. A call that is stopped leaves the old weights, the new ones, or none that load.
# Raises EinformerError E801, also if the folder holds other weights.
def write_folder(
    sizes: Mapping[str, int], tensor: Callable[[str], Tensor | None], folder: pathlib.Path, most: int, alone: Alone[Any] = call
) -> None:
    shards = list(_group_names(sizes, most))
    files = [f"model-{k:05}-of-{len(shards):05}.safetensors" for k in range(1, len(shards) + 1)] if shards[1:] else [FILE]
    alone(lambda: _check_empty(folder, {*files, *([INDEX] if shards[1:] else [])}))
    with _refuse_unwritten(folder), contextlib.ExitStack() as stack:
        unfinished = tempfile.TemporaryDirectory(dir=folder, prefix=".unfinished-")
        beside = pathlib.Path(alone(lambda: stack.enter_context(unfinished)) or folder)
        for file, names in zip(files, shards, strict=True):
            tensors = {name: weight for name in names if (weight := tensor(name)) is not None}
            alone(functools.partial(write, tensors, beside / file))
            del tensors
        alone(lambda: _move_into_place(dict(zip(files, shards, strict=True)), sum(sizes.values()), beside, folder))


def _move_into_place(files: Mapping[str, list[str]], size: int, beside: pathlib.Path, folder: pathlib.Path) -> None:
    several = len(files) > 1
    if several:
        places = {name: file for file, names in files.items() for name in names}
        index = {"metadata": {"total_size": size}, "weight_map": places}
        (beside / INDEX).write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")
        (folder / INDEX).unlink(missing_ok=True)  # without an index no file of several is read
    for file in (*files, *[INDEX] * several):
        os.replace(beside / file, folder / file)


def _group_names(sizes: Mapping[str, int], most: int) -> Iterator[list[str]]:
    names, room = list[str](), most
    for name, size in sizes.items():
        if names and size > room:
            yield names
            names, room = [], most
        names.append(name)
        room -= size
    yield names


# Other weights would be read instead of the new files.
def _check_empty(folder: pathlib.Path, files: set[str]) -> None:
    with _refuse_unwritten(folder):
        folder.mkdir(parents=True, exist_ok=True)
    if others := sorted({path.name for path in folder.glob("*.safetensors*")} - files):
        raise fail("E801", f"the folder `{folder}` holds other weights: {', '.join(others[:3])}", fix="an empty folder")


@contextlib.contextmanager
def _refuse_unwritten(path: str | pathlib.Path) -> Iterator[None]:
    try:
        yield
    except (OSError, SafetensorError) as error:
        raise fail("E801", f"`{path}` cannot be written: {error}") from error
