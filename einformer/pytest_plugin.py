"""Adds tests to a suite: texts in the language, and the contracts of named packages.

`*.ein` files are collected. With `--einformer`, so are the `einformer` blocks of Markdown and of docstrings. With
`--einformer-contracts=PKG`, the package is imported with its contracts on. Without these, nothing is imported.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Generator, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

_FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,})einformer\n(?P<text>.*?)^ *(?P=fence) *$", re.DOTALL | re.MULTILINE)
_WHOLE = re.compile(r"^ *(?:layer|model) ", re.MULTILINE)  # a text without one is a fragment
_REFUSED = re.compile(r"# (E\d{3})$")
_HIDDEN = re.compile(r"[/\\](?:einformer[/\\](?:contracts|errors)|torch[/\\]nn[/\\]modules[/\\]module\.py)|^<contract ")
_FINDER = pytest.StashKey[Any]()
_CHECKS = pytest.StashKey[list[dict[str, Any]]]()  # one for each worker


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("einformer")
    group.addoption("--einformer", action="store_true", help="collect the einformer blocks of Markdown files and docstrings")
    group.addoption("--einformer-summary", action="store_true", help="say at the end what einformer checked")
    group.addoption(
        "--einformer-contracts", action="append", default=[], metavar="PKG", help="check suffixed names in this package"
    )


# The hook must be there before anything imports the packages.
@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    packages = early_config.known_args_namespace.einformer_contracts
    if packages:
        from einformer.contracts.instrument import install
        from einformer.errors import EinformerError

        try:
            early_config.stash[_FINDER] = install(packages)
        except EinformerError as error:
            raise pytest.UsageError(str(error)) from None


def pytest_unconfigure(config: pytest.Config) -> None:
    if _FINDER in config.stash:
        from einformer.contracts.instrument import remove

        remove(config.stash[_FINDER])


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    blocks = parent.config.getoption("einformer") and file_path.suffix in (".md", ".py")
    collected: pytest.Collector | None = (
        Texts.from_parent(parent, path=file_path) if blocks or file_path.suffix == ".ein" else None
    )
    return collected


class Texts(pytest.File):
    """A file of one text, or of blocks."""

    def collect(self) -> Iterator[Text]:
        """Yields a test for each text. A line of a block that ends in `# E301` must be refused with this code."""
        if self.path.suffix == ".ein":
            yield Text.from_parent(self, name="text", text="")
            return
        written = self.path.read_bytes().decode("utf-8", "replace")  # no block of ours is in another encoding
        if "```einformer" in written:
            for line, text in _find_blocks(written) if self.path.suffix == ".md" else _find_documented(written):
                yield Text.from_parent(self, name=f"line {line}", text="\n" * line + text)


class Text(pytest.Item):
    """A text at its place in the file, or the whole file."""

    def __init__(self, *, text: str, **named: Any) -> None:
        super().__init__(**named)
        self.text = text

    def runtest(self) -> None:
        from einformer.architectures import texts
        from einformer.errors import EinformerError, Source

        self.user_properties.append(("einformer", "text"))
        root = self.config.rootpath
        name = self.path.relative_to(root) if self.path.is_relative_to(root) else self.path
        text = self.text or texts.read(self.path).text
        *_, findings = texts.elaborate(Source(str(name), text))
        wanted = {number: code[1] for number, line in enumerate(text.split("\n"), 1) if (code := _REFUSED.search(line))}
        unexpected = [finding for finding in findings if wanted.get(finding.span.line) != finding.code]
        if unexpected:
            raise EinformerError(unexpected)
        missed = wanted.keys() - {finding.span.line for finding in findings}
        if missed:
            pytest.fail("\n".join(f"line {line} is not refused with {wanted[line]}" for line in sorted(missed)), pytrace=False)

    # Our message has no stack.
    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        return str(excinfo.value) if _is_ours(excinfo.value) else super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, len(self.text) - len(self.text.lstrip("\n")), self.name


# The line of each fence, and its block.
def _find_blocks(written: str, before: int = 0) -> Iterator[tuple[int, str]]:
    for match in _FENCE.finditer(written):
        text = "".join(line.removeprefix(match["indent"]) for line in match["text"].splitlines(keepends=True))
        if _WHOLE.search(text):
            yield before + written.count("\n", 0, match.start()) + 1, text


# A file that this Python cannot parse has none.
def _find_documented(written: str) -> Iterator[tuple[int, str]]:
    try:
        tree = ast.parse(written)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node, clean=False)
            if text and "```einformer" in text:
                yield from _find_blocks(text, node.body[0].lineno - 1)


# The frames of the checks are removed from a broken contract.
@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    if call.excinfo is not None and _is_ours(call.excinfo.value):
        error = call.excinfo.value
        call.excinfo = pytest.ExceptionInfo.from_exception(error.with_traceback(_filter_frames(error.__traceback__)))
    return (yield)


# Without our frames, and without those in which torch calls a module.
def _filter_frames(trace: TracebackType | None) -> TracebackType | None:
    if trace is None:
        return None
    rest = _filter_frames(trace.tb_next)
    if _HIDDEN.search(trace.tb_frame.f_code.co_filename):
        return rest
    return TracebackType(rest, trace.tb_frame, trace.tb_lasti, trace.tb_lineno)


# A worker of xdist sends what it checked to the process that reports it.
def pytest_sessionfinish(session: pytest.Session) -> None:
    output = getattr(session.config, "workeroutput", None)
    if output is not None and _FINDER in session.config.stash:
        output["einformer"] = _count_checks(session.config.stash[_FINDER])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    if checks := getattr(node, "workeroutput", {}).get("einformer"):
        node.config.stash.setdefault(_CHECKS, []).append(checks)


# Packages without contracts have a line each.
def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    finder: Any = config.stash.get(_FINDER, None)
    checks = config.stash.get(_CHECKS, [_count_checks(finder)] if finder else [])  # with xdist, of the workers
    loaded = {name for some in checks for name in some["loaded"]}
    for package in finder.packages if finder else ():
        if not any(f"{name}.".startswith(f"{package}.") for name in loaded):
            terminalreporter.write_line(f"einformer: `{package}` was not imported, so none of its contracts was checked")
    if config.getoption("einformer_summary"):
        reports = [report for reports in terminalreporter.stats.values() for report in reports]
        called = [report for report in reports if getattr(report, "when", "") == "call"]
        texts = sum(("einformer", "text") in map(tuple, report.user_properties) for report in called)
        values, functions = (sum(some[what] for some in checks) for what in ("values", "functions"))
        contracts = f", {values} values of {functions} calls" if finder else ""
        terminalreporter.write_line(f"einformer: {texts} texts{contracts}")


def _count_checks(finder: Any) -> dict[str, Any]:
    from einformer.contracts.frames import counts

    return {**counts, "loaded": list(finder.loaded)}


# By its name: if no contract was broken, einformer is not imported.
def _is_ours(error: BaseException) -> bool:
    return type(error).__name__ == "EinformerError"
