"""What do the tests share? Golden files: `golden(name, text)` compares; `--update-golden` writes them anew."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

BEGUN = time.monotonic()
GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files instead of comparing with them")
    parser.addoption("--within", type=float, metavar="MINUTES", help="skip, by name, what has not begun by then")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: "test_mutants" in item.nodeid)  # they take longest, and say least of the package


def pytest_runtest_setup(item: pytest.Item) -> None:
    minutes = item.config.getoption("--within")
    if minutes and time.monotonic() - BEGUN > 60 * minutes:
        pytest.skip("no time is left")


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
