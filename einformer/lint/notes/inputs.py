r"""Which macros does a LaTeX file take from others: from those that it names, and from the document that names it?"""

from __future__ import annotations

import functools
import pathlib
import re
from collections.abc import Iterator, Mapping

from einformer.errors import Source
from einformer.lint.notes.latex import latex
from einformer.lint.notes.pieces import Macro

_NAMED = re.compile(r"(?<!%)\\(?:input|include|subfile|usepackage|RequirePackage)\s*(?:\[[^\]]*\])?\s*\{([^{}]+)\}")
_MOST, _LARGEST = 100, 1_000_000  # files of one document, bytes of one of them


def taken(name: str) -> dict[str, Macro]:
    """The macros of the files that belong to a file of this name, if there is one; its own are not among them."""
    path = pathlib.Path(name).resolve()
    if path.suffix != ".tex" or not path.is_file():
        return {}
    folders = (path.parent, path.parent.parent)
    above = [each for folder in folders for each in sorted(folder.glob("*.tex")) if path in _named(each)]
    found = list(dict.fromkeys([*above, path]))
    for each in found:  # which grows
        found += [other for other in _named(each) if other not in found] if len(found) < _MOST else []
    return {name: macro for each in found if each != path for name, macro in _macros(each, _changed(each)).items()}


def _named(path: pathlib.Path) -> list[pathlib.Path]:
    return [found for name in _names(path, _changed(path)) for found in _files(path.parent / name)]


def _files(path: pathlib.Path) -> Iterator[pathlib.Path]:
    """A file is named with or without its ending."""
    for end in (".tex", ".sty"):
        found = path if path.suffix == end else path.with_name(path.name + end)
        if found.is_file():
            yield found.resolve()


def _changed(path: pathlib.Path) -> int:
    return path.stat().st_mtime_ns


@functools.lru_cache(1000)
def _names(path: pathlib.Path, changed: int) -> tuple[str, ...]:
    return tuple(name.strip() for match in _NAMED.finditer(_text(path)) for name in match[1].split(","))


@functools.lru_cache(1000)
def _macros(path: pathlib.Path, changed: int) -> Mapping[str, Macro]:
    return latex(Source(str(path), _text(path))).macros


def _text(path: pathlib.Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.stat().st_size <= _LARGEST else ""
