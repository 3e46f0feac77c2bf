"""Would the tests notice? Each mutant of the package fails the tests it names, and the package as it is passes them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests import (
    mutants,
    mutants_of_bounds,
    mutants_of_claims,
    mutants_of_contracts,
    mutants_of_counting,
    mutants_of_decoding,
    mutants_of_errata,
    mutants_of_families,
    mutants_of_imports,
    mutants_of_lint,
    mutants_of_lowering,
    mutants_of_matrices,
    mutants_of_references,
    mutants_of_saved,
    mutants_of_sources,
    mutants_of_sparse,
    mutants_of_testing,
)
from tests.mutants import Mutant

OF_PARTS = (
    mutants_of_lowering,
    mutants_of_counting,
    mutants_of_saved,
    mutants_of_bounds,
    mutants_of_claims,
    mutants_of_references,
    mutants_of_contracts,
    mutants_of_decoding,
    mutants_of_errata,
    mutants_of_sources,
    mutants_of_families,
    mutants_of_imports,
    mutants_of_testing,
    mutants_of_lint,
    mutants_of_sparse,
    mutants_of_matrices,
)
MUTANTS = (*mutants.MUTANTS, *(mutant for part in OF_PARTS for mutant in part.MUTANTS))
ROOT = Path(__file__).parents[1]
FAILED = 1  # of pytest's exit codes: 2 and above say that the tests did not run

# Proves what was tested: the package and the tests of the copy, not the checkout that is installed.
CONFTEST = """
import einformer, tests

def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line(f"tested {einformer.__file__} by {tests.__file__}")
"""

pytestmark = pytest.mark.slow


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The package, its tests, its pages and their configuration in a folder of their own."""
    for name in ("einformer", "tests", "docs"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("_build"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    return tmp_path


def outcome(copy: Path, killers: Iterable[str]) -> subprocess.CompletedProcess[str]:
    """pytest on the copy, without plugins: half of its time is theirs."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *killers]
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(copy)}
    environment.pop("PYTEST_ADDOPTS", None)
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, encoding="utf-8")
    assert f"tested {copy / 'einformer' / '__init__.py'} by {copy / 'tests' / '__init__.py'}" in done.stdout, done.stdout
    return done


def test_names_are_unique() -> None:
    names = [mutant.name for mutant in MUTANTS]
    assert sorted(set(names)) == sorted(names)


def test_the_package_itself_passes(copy: Path) -> None:
    done = outcome(copy, dict.fromkeys(killer for mutant in MUTANTS for killer in mutant.killers))
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_is_noticed(copy: Path, mutant: Mutant) -> None:
    file = copy / mutant.file
    text = file.read_text(encoding="utf-8")
    assert text.count(mutant.old) == 1, f"`{mutant.old}` does not stand once in {mutant.file}"
    file.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
    for killer in mutant.killers:
        done = outcome(copy, [killer])
        assert done.returncode == FAILED, f"{killer} did not fail:\n{done.stdout}"
