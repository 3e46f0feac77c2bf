"""Each mutant of the package fails the tests that it names; the package itself passes them. `make mutants` runs this file."""

from __future__ import annotations

import compileall
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from tests.mutants import MUTANTS, Mutant

ROOT = Path(__file__).parents[1]
FAILED = 1  # of pytest's exit codes: 2 and above say that the tests did not run

# One process imports the libraries of others, which takes longer than most killers, and forks for each mutant.
SERVER = """
import gc, json, os, sys
import hypothesis, jaxtyping, lark, pytest, safetensors.torch, sympy, transformers.modeling_utils
import torch._dynamo, torch.distributed.checkpoint, torch.distributed.fsdp, torch.utils.flop_counter

gc.freeze()

for line in sys.stdin:
    folder, *arguments = json.loads(line)
    if child := os.fork():
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        continue
    os.chdir(folder)
    sys.path.insert(0, folder)
    os.environ |= {"PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    os.environ.pop("PYTEST_ADDOPTS", None)
    sys.dont_write_bytecode = True
    output = os.open("output", os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
    os.dup2(output, 1)
    os.dup2(output, 2)
    code = pytest.main(["-x", "-q", "-p", "no:cacheprovider", "--assert=plain", *arguments])
    sys.stdout.flush()
    os._exit(code)
"""
# Proves that the package and the tests of the copy were tested, not those of the checkout that is installed.
CONFTEST = """
import einformer, tests

def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line(f"tested {einformer.__file__} by {tests.__file__}")
"""

Outcome = Callable[[Iterable[str]], tuple[int, str]]


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package, its tests, its pages and their configuration in a folder of their own."""
    folder = tmp_path_factory.mktemp("copy")
    for name in ("einformer", "tests", "docs"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("_build"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    (folder / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    compileall.compile_dir(folder, quiet=2)
    return folder


@pytest.fixture(scope="module")
def outcome(copy: Path) -> Iterator[Outcome]:
    """Runs tests on the copy, without plugins; returns the exit code and the output."""
    with subprocess.Popen([sys.executable, "-c", SERVER], stdin=-1, stdout=-1, text=True, encoding="utf-8") as server:
        assert server.stdin is not None
        assert server.stdout is not None
        questions, answers = server.stdin, server.stdout

        def run(killers: Iterable[str]) -> tuple[int, str]:
            print(json.dumps([str(copy), *killers]), file=questions, flush=True)
            code, said = int(answers.readline()), (copy / "output").read_text(encoding="utf-8")
            assert f"tested {copy / 'einformer' / '__init__.py'} by {copy / 'tests' / '__init__.py'}" in said, said
            return code, said

        yield run
        questions.close()


def test_what_mutants_change_stands_once() -> None:
    for mutant in MUTANTS:
        assert mutated(mutant)


@pytest.mark.mutant
def test_the_package_itself_passes(outcome: Outcome) -> None:
    code, said = outcome(dict.fromkeys(killer for mutant in MUTANTS for killer in mutant.killers))
    assert code == 0, said


@pytest.mark.mutant
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_is_noticed(copy: Path, outcome: Outcome, mutant: Mutant) -> None:
    file, original = copy / mutant.file, ROOT / mutant.file
    file.write_text(mutated(mutant), encoding="utf-8")
    os.utime(file, (1, 1))  # older than any: what was compiled of the original is not taken for it
    try:
        for killer in mutant.killers:
            code, said = outcome([killer])
            assert code == FAILED, f"{killer} did not fail:\n{said}"
    finally:
        shutil.copy2(original, file)


def mutated(mutant: Mutant) -> str:
    text = (ROOT / mutant.file).read_text(encoding="utf-8")
    assert text.count(mutant.old) == 1, f"`{mutant.old}` does not stand once in {mutant.file}"
    return text.replace(mutant.old, mutant.new)
