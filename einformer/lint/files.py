"""Which files are linted, and by what? A table from the end of a file's name to its reader; comments silence findings."""

from __future__ import annotations

import contextlib
import fnmatch
import pathlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from einformer.errors import EinformerError, Finding, Source, Span, fail
from einformer.lint.documents import Checked, check_document, merged
from einformer.lint.notes.inputs import taken
from einformer.lint.notes.latex import latex, markdown
from einformer.lint.notes.notebook import cells, notebook
from einformer.lint.notes.pieces import Document, Macro
from einformer.lint.notes.restructured import restructured
from einformer.lint.notes.typst import typst
from einformer.lint.settings import Settings, ignored, is_silenced

PACKAGES = dict.fromkeys(("intertext", "shortintertext"), Macro(1, "\\\\"))  # commands of packages, as macros: words part rows
MAXIMUM_FILE = 10_000_000  # characters
Checker = Callable[[Source, Settings], Checked]


def _notes(reader: Callable[[Source], Document]) -> Checker:
    """The checker of a format of notes."""
    return lambda source, chosen: _document(source, reader(source), chosen)


def _document(source: Source, document: Document, chosen: Settings) -> Checked:
    given = {name.lstrip("\\"): Macro(0, body) for name, body in chosen.macros.items()}
    return check_document(
        source, replace(document, macros={**PACKAGES, **taken(source.name), **given, **document.macros}), chosen.legend
    )


def _python(source: Source, chosen: Settings) -> Checked:
    """The checker of Python, of names and of the formulas of docstrings. Raises EinformerError E801 for what is no Python."""
    from einformer.lint import python  # takes as long to load as a note to be read
    from einformer.lint.python.docstrings import docstrings

    try:
        reading, spoken = python.checked(source), docstrings(source)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise fail(
            "E801", f"`{source.name}` is no Python: {error}", Span(source, 0, 1), fix="a file that Python reads"
        ) from error
    names = Checked(source, tuple(reading.findings), names=reading.names)
    return merged([names, _document(source, spoken, chosen)], source)


def _notebook(source: Source, chosen: Settings) -> Checked:
    """The cells of Markdown as one note, those of code each on its own; what is no Python there may be another language."""
    parts = [_notes(notebook)(source, chosen)]
    for cell in cells(source, "code"):
        with contextlib.suppress(EinformerError):
            parts.append(_python(cell, chosen))
    return merged(parts, source)


CHECKERS: dict[str, Checker] = {
    ".tex": _notes(latex),
    ".md": _notes(markdown),
    ".markdown": _notes(markdown),
    ".qmd": _notes(markdown),
    ".txt": _notes(markdown),
    ".rst": _notes(restructured),
    ".typ": _notes(typst),
    ".ipynb": _notebook,
    ".py": _python,
}


def lint(paths: Iterable[str], chosen: Settings) -> Iterator[Checked]:
    """Each file, and each of a folder that can be read, with what is wrong in it. A file that cannot be is a finding."""
    for path in _files(paths, chosen):
        try:
            yield lint_text(_read(path), chosen)
        except EinformerError as error:
            yield Checked(Source(str(path), ""), error.findings)


def lint_text(source: Source, chosen: Settings) -> Checked:
    """A text, by the end of its name. Raises EinformerError E801 for a kind of file that is not read."""
    checker = CHECKERS.get(pathlib.PurePath(source.name).suffix.lower())
    if checker is None:
        raise fail("E801", f"`{source.name}` is of no kind that is linted", fix=f"a file that ends with {', '.join(CHECKERS)}")
    checked = checker(source, chosen)
    return replace(checked, findings=tuple(_heard(checked, chosen)))


def _heard(checked: Checked, chosen: Settings) -> Iterator[Finding]:
    """The findings that no comment and no setting silences."""
    silent = {source.name: ignored(source) for source in {finding.span.source for finding in checked.findings}}
    begins = {
        id(finding): verdict.equation.formula.latex.span() for verdict in checked.verdicts for finding in verdict.findings
    }
    for finding in checked.findings:
        formula = begins.get(id(finding), finding.span)
        places = (finding.span.line, formula.line)
        if finding.code not in chosen.ignore and not is_silenced(finding.code, places, silent[finding.span.source.name]):
            yield finding


def _files(paths: Iterable[str], chosen: Settings) -> Iterator[pathlib.Path]:
    for path in map(pathlib.Path, paths):
        if path.is_dir():
            found = sorted(each for each in path.rglob("*") if each.suffix.lower() in CHECKERS and each.is_file())
            yield from (each for each in found if not _left_out(each.relative_to(path)) and not _excluded(each, chosen))
        elif not _excluded(path, chosen):
            yield path


def _left_out(path: pathlib.Path) -> bool:
    """Hidden folders, and those of environments and builds, hold nothing that was written here."""
    return any(
        part.startswith(".") or part in ("node_modules", "__pycache__", "build", "dist", "_build") for part in path.parts
    )


def _excluded(path: pathlib.Path, chosen: Settings) -> bool:
    return any(fnmatch.fnmatch(path.as_posix(), f"*{pattern}") for pattern in chosen.exclude)


def _read(path: pathlib.Path) -> Source:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            text = file.read(MAXIMUM_FILE + 1)
    except (OSError, UnicodeDecodeError) as error:
        code = "E802" if isinstance(error, FileNotFoundError) else "E801"
        raise fail(code, f"`{path}` cannot be read: {error}", fix="a text in UTF-8") from error
    if len(text) > MAXIMUM_FILE:
        raise fail("E001", f"`{path}` has more than {MAXIMUM_FILE:,} characters", fix="several files")
    return Source(str(path), text.replace("\r\n", "\n"))
