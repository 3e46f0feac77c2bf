"""Prints the merged table of a family as TOML."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

_SECTIONS = ("config", "weights", "variant")
_WIDTH = 120


def print_table(table: Mapping[str, Any]) -> str:
    """The table as TOML, which reads back as the same table.

    >>> print(print_table({"class": "Llama", "config": {"sizes": {"hidden_size": "D"}}}), end="")
    class = "Llama"
    <BLANKLINE>
    [config.sizes]
    hidden_size = "D"
    """
    return "\n".join("\n".join(lines) + "\n" for lines in _print_sections(table, ()))


def _print_sections(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[list[str]]:
    inner = {name: value for name, value in table.items() if _is_section(name, value, path)}
    entries = [f"{_key(name)} = {_value(value)}" for name, value in table.items() if name not in inner]
    if entries or not inner:
        yield [f"[{'.'.join(map(_key, path))}]"] * bool(path) + entries
    for name, section in inner.items():
        yield from _print_sections(section, (*path, name))


def _is_section(name: str, value: object, path: tuple[str, ...]) -> bool:
    return isinstance(value, dict) and (name in _SECTIONS or path[-1:] in [(section,) for section in _SECTIONS])


def _key(name: str) -> str:
    return name if name.isascii() and name.replace("_", "").replace("-", "").isalnum() else _value(name)


def _value(value: object) -> str:
    match value:
        case str():
            return f'"""\n{value}"""' if "\n" in value else json.dumps(value, ensure_ascii=False)
        case bool():
            return str(value).lower()
        case dict():
            return f"{{ {', '.join(f'{_key(name)} = {_value(item)}' for name, item in value.items())} }}" if value else "{}"
        case list():
            line = f"[{', '.join(map(_value, value))}]"
            return line if len(line) < _WIDTH else "[\n" + "".join(f"  {_value(item)},\n" for item in value) + "]"
        case _:
            return repr(value)
