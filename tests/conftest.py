"""Fixtures and settings of all tests.

Golden files: `golden(name, text)` compares; `--update-golden` writes them anew. Hypothesis draws the same examples in every
run; `--hypothesis-profile=default` draws others.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

GOLDEN = Path(__file__).parent / "golden"

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files instead of comparing with them")


# The garbage collector walks what a file of tests leaves once, after it, and never the modules: it took a tenth of the time.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    if nextitem is not None and nextitem.path != item.path:
        gc.collect()
        gc.freeze()


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a text with tests/golden/<name>."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.is_file(), f"tests/golden/{name} is missing: pytest --update-golden"
        assert text == path.read_text(encoding="utf-8"), (
            f"tests/golden/{name} differs: pytest --update-golden, and read the diff"
        )

    return compare
