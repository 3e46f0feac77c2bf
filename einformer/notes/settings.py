"""Reads the settings of the linter from the table `[tool.einformer.lint]` of `pyproject.toml`."""

from __future__ import annotations

import pathlib
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from einformer.errors import EinformerError, Source, Span, catalogue, fail
from einformer.notes.legend import read_legend

_KINDS: dict[str, type] = {"ignore": list, "exclude": list, "legend": dict, "axes": dict, "macros": dict}
_COMMENT = re.compile(r"einformer:\s*ignore\b(?:\[([A-Za-z0-9, ]*)\])?")


@dataclass(frozen=True, slots=True)
class Settings:
    r"""`ignore`: codes that are not reported. `exclude`: patterns of files that are not read. `legend`: letters
    of indices in formulas, with their size or an empty text. `axes`: letters of suffixes of Python names, alike.

    `macros`: definitions of commands that the file takes from another, `{"\\nn" = "\\nonumber"}`.
    """

    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    legend: Mapping[str, str] = field(default_factory=dict)
    axes: Mapping[str, str] = field(default_factory=dict)
    macros: Mapping[str, str] = field(default_factory=dict)

    # Returns the settings with more letters, `b: B, s t: S, d`. Raises EinformerError E805.
    def with_legend(self, legend: str) -> Settings:
        more = {stated.letter: stated.size for stated in read_legend(legend)} if legend.strip() else {}
        return replace(self, legend={**self.legend, **more})


# Reads the nearest `pyproject.toml` above a path. Raises EinformerError E805.
def find_settings(start: pathlib.Path) -> Settings:
    for folder in (start, *start.parents):
        path = folder / "pyproject.toml"
        if path.is_file():
            return read_settings(Source(str(path), path.read_text(encoding="utf-8")))
    return Settings()


# The settings of the text of a `pyproject.toml`. Raises EinformerError E805.
def read_settings(source: Source) -> Settings:
    try:
        table = tomllib.loads(source.text).get("tool", {}).get("einformer", {}).get("lint", {})
    except tomllib.TOMLDecodeError as error:
        raise fail(
            "E805", f"`{source.name}` is not TOML: {error}", Span(source, 0, 1), fix="a table `[tool.einformer.lint]`"
        ) from error
    for key, value in table.items():
        if key not in _KINDS:
            raise _refuse(source, key, f"no setting is called `{key}`", f"one of {', '.join(_KINDS)}")
        texts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else [None]
        if not isinstance(value, _KINDS[key]) or not all(isinstance(text, str) for text in texts):
            kind, example = ("table", "{}") if _KINDS[key] is dict else ("list", "[]")
            raise _refuse(source, key, f"`{key}` is no {kind} of texts", f"`{key} = {example}`")
    if unknown := [code for code in table.get("ignore", ()) if code not in catalogue()]:
        raise _refuse(source, "ignore", f"no code is called `{unknown[0]}`", "a code of `einformer explain`")
    ignore, exclude = (tuple(table.get(key, ())) for key in ("ignore", "exclude"))
    return Settings(ignore, exclude, *(table.get(key, {}) for key in ("legend", "axes", "macros")))


def _refuse(source: Source, key: str, message: str, fix: str) -> EinformerError:
    match = re.search(rf"^\s*{re.escape(key)}\s*=", source.text, re.MULTILINE)
    start, end = match.span() if match else (0, 1)
    return fail("E805", message, Span(source, start, end), fix=fix)


# Returns for each line the codes that a comment `einformer: ignore[E301]` silences there, or None for all codes. A comment
# holds for its own line. If nothing else stands on that line, it holds for the next line too.
def find_ignored(source: Source) -> dict[int, frozenset[str] | None]:
    lines: dict[int, frozenset[str] | None] = {}
    for number, line in enumerate(source.text.split("\n"), 1):
        match = _COMMENT.search(line)
        if match:
            codes = frozenset(match[1].upper().replace(",", " ").split()) if match[1] else None
            alone = not re.sub(r"<!--|-->|/\*|\*/|//|\.\.|[%#]", "", line[: match.start()] + line[match.end() :]).strip()
            for silenced in (number, number + 1) if alone else (number,):
                lines[silenced] = codes
    return lines


def is_silenced(code: str, places: Iterable[int], lines: Mapping[int, frozenset[str] | None]) -> bool:
    return any(place in lines and (lines[place] is None or code in (lines[place] or ())) for place in places)
