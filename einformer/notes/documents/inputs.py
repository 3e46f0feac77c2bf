"""Reads the macros of other files that belong to a LaTeX file: those that it inputs, and those of the document that inputs
it.
"""

from __future__ import annotations

import functools
import os
import pathlib
import re
from collections.abc import Iterator, Mapping

from einformer.errors import Source
from einformer.notes.documents.latex import read_latex
from einformer.notes.documents.pieces import Macro

_NAMED = re.compile(r"(?<!%)\\(?:input|include|subfile|usepackage|RequirePackage)\s*+(?:\[[^\]\n]*\])?\s*+\{([^{}\n]+)\}")
_MOST, _LARGEST = 100, 1_000_000  # files of one document, bytes of one of them


# Files that input each other share macros.
def find_macros(name: str) -> dict[str, Macro]:
    path = pathlib.Path(os.path.realpath(name))
    if path.suffix != ".tex" or not os.path.isfile(path):
        return {}
    folders = (path.parent, path.parent.parent)
    above = [file_ for folder in folders for file_ in _find_parents(folder, _time_of(folder)).get(path, ())]
    paths = list(dict.fromkeys([*above, path]))
    for file_ in paths:  # which grows
        paths += [other for other in _find_inputs(file_) if other not in paths] if len(paths) < _MOST else []
    return {name: macro for file_ in paths if file_ != path for name, macro in _read_macros(file_, _time_of(file_)).items()}


# The files of a folder that input each file.
@functools.lru_cache(16)
def _find_parents(folder: pathlib.Path, changed: int) -> Mapping[pathlib.Path, list[pathlib.Path]]:
    parents = dict[pathlib.Path, list[pathlib.Path]]()
    for file_ in sorted(filter(os.path.isfile, folder.glob("*.tex"))):
        for other in _find_inputs(file_):
            parents.setdefault(other, []).append(file_)
    return parents


# Between two runs files may have changed which files they input.
def forget_inputs() -> None:
    _find_parents.cache_clear()


def _find_inputs(path: pathlib.Path) -> list[pathlib.Path]:
    return [file for name in _read_names(path, _time_of(path)) for file in _find_existing(path.parent, name)]


# `isfile` is false for names that no file can have, and for pipes.
def _find_existing(folder: pathlib.Path, name: str) -> Iterator[pathlib.Path]:
    for end in (".tex", ".sty"):
        file = os.path.join(folder, name if name.endswith(end) else name + end)
        if os.path.isfile(file):
            yield pathlib.Path(os.path.realpath(file))


def _time_of(path: pathlib.Path) -> int:
    return path.stat().st_mtime_ns


@functools.lru_cache(10_000)
def _read_names(path: pathlib.Path, changed: int) -> tuple[str, ...]:
    return tuple(name.strip() for match in _NAMED.finditer(_read_text(path)) for name in match[1].split(","))


@functools.lru_cache(10_000)
def _read_macros(path: pathlib.Path, changed: int) -> Mapping[str, Macro]:
    return read_latex(Source(str(path), _read_text(path))).macros


def _read_text(path: pathlib.Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.stat().st_size <= _LARGEST else ""
