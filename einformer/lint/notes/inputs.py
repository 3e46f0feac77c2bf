"""Reads the macros of other files that belong to a LaTeX file: those that it inputs, and those of the document that inputs
it.
"""

from __future__ import annotations

import functools
import pathlib
import re
from collections.abc import Iterator, Mapping

from einformer.errors import Source
from einformer.lint.notes.latex import read_latex
from einformer.lint.notes.pieces import Macro

_NAMED = re.compile(r"(?<!%)\\(?:input|include|subfile|usepackage|RequirePackage)\s*(?:\[[^\]]*\])?\s*\{([^{}]+)\}")
_MOST, _LARGEST = 100, 1_000_000  # files of one document, bytes of one of them


def find_macros(name: str) -> dict[str, Macro]:
    """Returns the macros of the other files that belong to a file of this name."""
    path = pathlib.Path(name).resolve()
    if path.suffix != ".tex" or not path.is_file():
        return {}
    folders = (path.parent, path.parent.parent)
    above = [file_ for folder in folders for file_ in sorted(folder.glob("*.tex")) if path in _find_inputs(file_)]
    paths = list(dict.fromkeys([*above, path]))
    for file_ in paths:  # which grows
        paths += [other for other in _find_inputs(file_) if other not in paths] if len(paths) < _MOST else []
    return {name: macro for file_ in paths if file_ != path for name, macro in _read_macros(file_, _time_of(file_)).items()}


def _find_inputs(path: pathlib.Path) -> list[pathlib.Path]:
    return [file for name in _read_names(path, _time_of(path)) for file in _find_existing(path.parent / name)]


def _find_existing(path: pathlib.Path) -> Iterator[pathlib.Path]:
    for end in (".tex", ".sty"):
        file = path if path.suffix == end else path.with_name(path.name + end)
        if file.is_file():
            yield file.resolve()


def _time_of(path: pathlib.Path) -> int:
    return path.stat().st_mtime_ns


@functools.lru_cache(1000)
def _read_names(path: pathlib.Path, changed: int) -> tuple[str, ...]:
    return tuple(name.strip() for match in _NAMED.finditer(_read_text(path)) for name in match[1].split(","))


@functools.lru_cache(1000)
def _read_macros(path: pathlib.Path, changed: int) -> Mapping[str, Macro]:
    return read_latex(Source(str(path), _read_text(path))).macros


def _read_text(path: pathlib.Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.stat().st_size <= _LARGEST else ""
