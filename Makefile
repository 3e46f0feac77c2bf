PYTHON ?= python3
BIN := .venv/bin

PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

unexport PYTHONDONTWRITEBYTECODE  # commands start faster from byte code, and tests start many

.PHONY: demo test test-all mutants lint bench docs

demo: .venv/installed
	$(BIN)/einformer report docs/examples/gpt2/config.json --text docs/examples/text.txt

test: lint
	$(PYTEST) -m 'not slow and not mutant'

test-all: test .venv/docs-installed
	$(PYTEST) -m 'slow and not mutant'

mutants: .venv/installed
	$(PYTEST) -m mutant tests/test_mutants.py

lint: .venv/installed
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy --num-workers 2
	$(BIN)/lint-imports

bench: .venv/installed
	$(BIN)/python -m tests.benchmarks all

docs: .venv/docs-installed
	$(BIN)/sphinx-build --jobs auto --fail-on-warning --keep-going docs docs/_build

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable '.[test,dev]' --constraint constraints.txt
	touch $@

.venv/docs-installed: .venv/installed
	$(BIN)/python -m pip install --quiet --editable '.[docs]' --constraint constraints.txt
	touch $@
