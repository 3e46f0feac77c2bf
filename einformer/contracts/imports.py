"""Checks packages without a decorator: a package that is named before its import is rewritten while it loads."""

from __future__ import annotations

import importlib.util
import sys
import types
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from typing import Any

from einformer.contracts import frames
from einformer.contracts.instrument import choose_name, rewrite
from einformer.errors import fail


class Finder(MetaPathFinder):
    """Finds the modules of some packages where Python would, and loads them rewritten. `loaded` lists their names."""

    def __init__(self, packages: Sequence[str]) -> None:
        self.packages, self.loaded = tuple(packages), list[str]()

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None) -> ModuleSpec | None:
        if not any(fullname == package or fullname.startswith(f"{package}.") for package in self.packages):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(fullname, spec.loader.path)
            self.loaded.append(fullname)
        return spec


class _Loader(SourceFileLoader):
    """Neither reads nor writes bytecode, which stays that of the plain source."""

    def get_code(self, fullname: str) -> types.CodeType:
        path = self.get_filename(fullname)
        code: types.CodeType = compile(rewrite(self._read(path), path), path, "exec", dont_inherit=True)
        return code

    def exec_module(self, module: types.ModuleType) -> None:
        setattr(module, choose_name(self._read(self.get_filename(module.__name__))), frames)
        super().exec_module(module)

    def _read(self, path: str) -> str:
        return importlib.util.decode_source(self.get_data(path))


def install(packages: Sequence[str]) -> Finder:
    """Imports these packages with their contracts on from here on. Raises E724 if one of them is imported already.

    Contracts come from the names of parameters and local variables (`q_bsea = …`), and from annotations.
    """
    for package in packages:
        if package in sys.modules:
            raise fail("E724", f"`{package}` is imported already", fix="its contracts before its import")
    finder = Finder(packages)
    sys.meta_path.insert(0, finder)
    return finder


# Imports the packages unchanged from here on. Packages that are imported already keep their checks.
def remove(finder: Any) -> None:
    sys.meta_path.remove(finder)
