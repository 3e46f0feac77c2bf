"""A specification in a cell of a notebook: `%load_ext einformer`, then `%%ein` or `%%ein NAME` above the text."""

from __future__ import annotations

import functools
import sys
from typing import Any

from einformer.errors import EinformerError
from einformer.objects import Specification
from einformer.targets import parse


def register(shell: Any) -> None:
    """Registers the cell magic `%%ein` in a shell of IPython."""
    shell.register_magic_function(functools.partial(read_cell, shell), "cell", "ein")


# The name on the magic's line is bound to the specification. Errors are printed.
def read_cell(shell: Any, line: str, cell: str) -> Specification | None:
    name = line.strip()
    if name and not name.isidentifier():
        print(f"`{name}` is not a name in Python: write `%%ein attention`", file=sys.stderr)
        return None
    try:
        specification = parse(cell, name or "<cell>")
    except EinformerError as error:
        print(error, file=sys.stderr)
        return None
    shell.user_ns |= {name: specification} if name else {}
    return specification
