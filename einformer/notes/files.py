"""Finds the files to lint and reads each by the ending of its name. Comments silence findings."""

from __future__ import annotations

import ast
import contextlib
import fnmatch
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from einformer.errors import EinformerError, Finding, Source, Span, fail
from einformer.notes.checking import Checked, check_document, merge
from einformer.notes.documents.inputs import find_macros, forget_inputs
from einformer.notes.documents.latex import read_latex, read_markdown
from einformer.notes.documents.notebook import cells, read_notebook
from einformer.notes.documents.pieces import Document, Macro
from einformer.notes.documents.restructured import read_restructured
from einformer.notes.documents.typst import read_typst
from einformer.notes.settings import Settings, find_ignored, is_silenced

PACKAGES = {  # commands of packages, as macros: words part rows, spaces part statements
    **dict.fromkeys(("intertext", "shortintertext"), Macro(1, "\\\\")),
    **dict.fromkeys(("hspace", "hskip", "enspace"), Macro(1, "\\quad ")),
    **dict.fromkeys(("vspace", "phantom", "hphantom", "vphantom"), Macro(1, "")),
    "boxed": Macro(1, "#1"),
}
MAXIMUM_FILE = 10_000_000  # characters
Checker = Callable[[Source, Settings], Checked]


def _check_notes(reader: Callable[[Source], Document]) -> Checker:
    return lambda source, chosen: _check_notes_text(source, reader(source), chosen)


def _check_notes_text(source: Source, document: Document, chosen: Settings) -> Checked:
    macros = {name.lstrip("\\"): Macro(0, body) for name, body in chosen.macros.items()}
    return check_document(
        source, replace(document, macros={**PACKAGES, **find_macros(source.name), **macros, **document.macros}), chosen.legend
    )


# Raises EinformerError E801 if the text is not Python.
def _check_python(source: Source, chosen: Settings) -> Checked:
    from einformer.notes.documents.docstrings import read_docstrings  # take as long to load as a note to be read
    from einformer.notes.names import check_names

    try:
        (wrong, count), spoken = check_names(source, chosen.axes), read_docstrings(source)
    except (SyntaxError, ValueError) as error:
        raise fail(
            "E801", f"`{source.name}` is not Python: {error}", Span(source, 0, 1), fix="a file that Python reads"
        ) from error
    names = Checked(source, wrong, names=count)
    return merge([names, _check_notes_text(source, spoken, chosen)], source)


# The cells of Markdown are one document. Each cell of code stands alone, since it may be in another language, but the legend of
# one holds for those below it.
def _check_notebook(source: Source, chosen: Settings) -> Checked:
    from einformer.notes.names import read_letters

    parts = [_check_notes(read_notebook)(source, chosen)]
    for cell in cells(source, "code"):
        with contextlib.suppress(EinformerError):
            parts.append(_check_python(cell, chosen))
            chosen = replace(chosen, axes={**chosen.axes, **read_letters(ast.parse(cell.text), cell.text)})
    return merge(parts, source)


CHECKERS: dict[str, Checker] = {
    ".tex": _check_notes(read_latex),
    ".md": _check_notes(read_markdown),
    ".markdown": _check_notes(read_markdown),
    ".qmd": _check_notes(read_markdown),
    ".txt": _check_notes(read_markdown),
    ".rst": _check_notes(read_restructured),
    ".typ": _check_notes(read_typst),
    ".ipynb": _check_notebook,
    ".py": _check_python,
}


# A file that cannot be read is a finding.
def lint(paths: Iterable[str], chosen: Settings) -> Iterator[Checked]:
    forget_inputs()
    for path in _find_files(paths, chosen):
        try:
            yield lint_text(_read_source(path), chosen)
        except EinformerError as error:
            yield Checked(Source(str(path), ""), error.findings)
        except (RecursionError, MemoryError):  # of Python's parser, of a tree of thousands of levels
            yield Checked(Source(str(path), ""), fail("E801", f"`{path}` nests too deep to be read").findings)
        except Exception as error:  # a defect of ours: a finding about this file, and the others are linted
            message = f"`{path}` cannot be linted: {type(error).__name__}: {error}"
            yield Checked(Source(str(path), ""), fail("E801", message, fix="an issue with this file").findings)


# Lints a text by the ending of its name. Raises EinformerError E801 for a format that is not read.
def lint_text(source: Source, chosen: Settings) -> Checked:
    checker = CHECKERS.get(pathlib.PurePath(source.name).suffix.lower())
    if checker is None:
        raise fail("E801", f"`{source.name}` is of no kind that is linted", fix=f"a file that ends with {', '.join(CHECKERS)}")
    checked = checker(source, chosen)
    return replace(checked, findings=tuple(_drop_silenced(checked, chosen)))


def _drop_silenced(checked: Checked, chosen: Settings) -> Iterator[Finding]:
    silent = {source.name: find_ignored(source) for source in {finding.span.source for finding in checked.findings}}
    begins = {
        id(finding): verdict.equation.formula.latex.span() for verdict in checked.verdicts for finding in verdict.findings
    }
    for finding in checked.findings:
        formula = begins.get(id(finding), finding.span)
        places = (finding.span.line, formula.line)
        if finding.code not in chosen.ignore and not is_silenced(finding.code, places, silent[finding.span.source.name]):
            yield finding


def _find_files(paths: Iterable[str], chosen: Settings) -> Iterator[pathlib.Path]:
    for path in map(pathlib.Path, paths):
        files = sorted(_find_inside(path)) if os.path.isdir(path) else [path]
        yield from (file for file in files if not _is_excluded(file, chosen))


# Hidden folders, environments and builds hold files of other people. Links to folders are not followed.
def _find_inside(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    waiting = [str(folder)]
    while waiting:
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting += [entry.path] * (not _is_foreign(entry.name))
                elif (
                    pathlib.PurePath(entry.name).suffix.lower() in CHECKERS and not _is_foreign(entry.name) and entry.is_file()
                ):
                    yield pathlib.Path(entry.path)


def _is_foreign(name: str) -> bool:
    return name.startswith(".") or name in ("node_modules", "__pycache__", "build", "dist", "_build")


def _is_excluded(path: pathlib.Path, chosen: Settings) -> bool:
    return any(fnmatch.fnmatch(path.as_posix(), f"*{pattern}") for pattern in chosen.exclude)


def _read_source(path: pathlib.Path) -> Source:
    if not os.path.exists(path):
        raise fail("E802", f"there is no file `{path}`")
    if not os.path.isfile(path):  # a pipe, which may never end
        raise fail("E801", f"`{path}` is not a file", fix="a text in UTF-8")
    try:
        with path.open(encoding="utf-8", newline="") as file:
            text = file.read(MAXIMUM_FILE + 1)
    except (OSError, ValueError) as error:
        raise fail("E801", f"`{path}` cannot be read: {error}", fix="a text in UTF-8") from error
    if len(text) > MAXIMUM_FILE:
        raise fail("E001", f"`{path}` has more than {MAXIMUM_FILE:,} characters", fix="several files")
    return Source(str(path), text.replace("\r\n", "\n"))
