"""Which packages are checked without a decorator? Those named before their import: their source is rewritten on the way."""

from __future__ import annotations

import importlib.util
import sys
import types
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from typing import Any

from einformer.contracts import frames
from einformer.contracts.rewrite import NAME, rewritten
from einformer.errors import fail


class Finder(MetaPathFinder):
    """Finds the modules of some packages where Python would, and loads them rewritten; `loaded` are their names."""

    def __init__(self, packages: Sequence[str]) -> None:
        self.packages, self.loaded = tuple(packages), list[str]()

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None) -> ModuleSpec | None:
        """As Python finds it, with a loader of ours."""
        if not any(fullname == package or fullname.startswith(f"{package}.") for package in self.packages):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(fullname, spec.loader.path)
            self.loaded.append(fullname)
        return spec


class _Loader(SourceFileLoader):
    """Neither reads nor writes bytecode: that of the plain source stays what it is."""

    def get_code(self, fullname: str) -> types.CodeType:
        """The code of the rewritten source."""
        path = self.get_filename(fullname)
        tree = rewritten(importlib.util.decode_source(self.get_data(path)), path)
        code: types.CodeType = compile(tree, path, "exec", dont_inherit=True)
        return code

    def exec_module(self, module: types.ModuleType) -> None:
        """Run it, with what the checks are called by."""
        setattr(module, NAME, frames)
        super().exec_module(module)


def install(packages: Sequence[str]) -> Finder:
    """From here on these packages are imported with their contracts on; raises E724 if one of them is imported already.

    The contracts are those that names of parameters and of local variables spell (`q_bsea = …`), and annotations.
    """
    for package in packages:
        if package in sys.modules:
            raise fail("E724", f"`{package}` is imported already", fix="its contracts before its import")
    finder = Finder(packages)
    sys.meta_path.insert(0, finder)
    return finder


def remove(finder: Any) -> None:
    """Import the packages as they are; those that are imported stay as they came."""
    sys.meta_path.remove(finder)
