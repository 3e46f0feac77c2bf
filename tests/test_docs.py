"""Is the documentation true? Its texts are checked and evaluated, its sessions and commands run, its tables compared."""

from __future__ import annotations

import ast
import dataclasses
import doctest
import importlib
import re
import runpy
from collections import Counter
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch

import einformer
from einformer import load, model, parse
from einformer.architectures.texts import library
from einformer.cli import main
from einformer.cli.options import COMMANDS as COMMANDS_OF_THE_LINE
from einformer.interpreters.mathml import mathml
from einformer.language.primitives import PRIMITIVES
from einformer.language.printer import PLAIN, show
from einformer.language.sizes import Legend
from einformer.language.suggestions import LATIN
from einformer.language.tree import Declaration, Expression, Tensor
from einformer.notes.notations import translate
from tests.examples import MADE, PAGES, ROOT, Example, answers, examples, framed, make_page, tables
from tests.heads import input_letters
from tests.shipped import TEXTS as TEXTS_THAT_SHIP

KINDS = {
    "einformer",
    "einformer frame",
    "einformer note",
    "pycon",
    "console",
    "console slow",
    "json config.json",
    "python",
    "sh",
    "text",
}
KINDS |= {"{toctree}", "{raw} html"}
ALL = [example for page in PAGES for example in examples(page)]
TEXTS = [example for example in ALL if example.info == "einformer"]
GOOD = [example for example in TEXTS if not example.refused]
LANGUAGE = (ROOT / "docs" / "language.md").read_text(encoding="utf-8")
SIZES = {"A": 6, "B": 2, "C": 3, "D": 24, "F": 7, "G": 3, "H": 4, "K": 6, "L": 2, "S": 5, "V": 11, "X": 5}


def blocks(page: Path, info: str) -> list[Example]:
    return [example for example in ALL if (example.page, example.info) == (page.name, info)]


def pages_with(info: str) -> list[Path]:
    return [page for page in PAGES if blocks(page, info)]


# ------------------------------------------------------------------------------------------------------------- examples


def test_every_block_says_what_it_is() -> None:
    assert {str(example): example.info for example in ALL if example.info not in KINDS} == {}


def test_examples_are_found() -> None:
    found = Counter(example.info for example in ALL)
    assert all(found[info] for info in KINDS), found
    assert len(GOOD) > 50
    assert len(TEXTS) - len(GOOD) > 40


@pytest.mark.parametrize("example", TEXTS, ids=str)
def test_a_text_is_accepted_or_refused_as_it_says(example: Example) -> None:
    assert example.found() == example.refused


@pytest.mark.parametrize("example", GOOD, ids=str)
def test_an_accepted_text_has_a_value(example: Example) -> None:
    """With small sizes, weights of ones, and inputs of zeros and ones, which serve as tokens too."""
    spec = parse(example.source.text, example.source.name)
    legend = Legend.of(spec.tree)
    given = {name for name in legend.letters if not ((axis := legend.axis_of_size(name)) and axis.default)}
    model = spec.bind(**{name: SIZES[name] for name in given})
    layer = model.spec.layer
    shapes = [[model.legend.length(letter) for letter in letters] for letters in input_letters(model)]
    inputs = [np.random.default_rng(0).integers(2, size=shape) for shape in shapes]
    weights = {path: np.ones(shape) for path, shape in model.weight_shapes().items()}
    value = model.reference(*inputs, weights=weights)
    assert value.ndim == (len(layer.output.slots) if isinstance(layer.output, Tensor) else 0)


@pytest.mark.parametrize("page", pages_with("pycon"), ids=lambda page: page.name)
def test_a_session_answers_as_printed(page: Path) -> None:
    session: dict[str, object] = {}
    for block in blocks(page, "pycon"):
        test = doctest.DocTestParser().get_doctest(block.text, session, str(block), page.name, block.line)
        assert test.examples
        runner = doctest.DocTestRunner(verbose=False)
        assert runner.run(test, clear_globs=False).failed == 0, str(block)
        session = test.globs


COMMANDS = [(page, "console") for page in pages_with("console")]
SLOW = [pytest.param(page, "console slow", marks=pytest.mark.slow) for page in pages_with("console slow")]


@pytest.mark.parametrize(("page", "info"), [*COMMANDS, *SLOW], ids=lambda value: getattr(value, "name", value))
def test_commands_answer_as_printed(page: Path, info: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    for block in blocks(page, info):
        answer = answers(block, tmp_path)
        if request.config.getoption("--update-golden"):
            page.write_text(page.read_text(encoding="utf-8").replace(block.text, answer), encoding="utf-8")
        else:
            assert answer == block.text


def test_make_has_the_commands_that_are_named() -> None:
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    named = re.findall(r"^make ([\w-]+)", "".join(example.text for example in ALL if example.info == "sh"), re.MULTILINE)
    assert named
    assert set(named) <= set(targets)


# --------------------------------------------------------------------------------------------------------------- tables


def test_the_table_of_primitives_is_the_table() -> None:
    rows = tables(LANGUAGE, {"primitive", "kind", "arguments", "zero"})
    shown = [tuple(row[column].strip("`") for column in ("primitive", "kind", "arguments", "zero")) for row in rows]
    assert shown == [
        (row.name, row.kind, " or ".join(map(str, row.arity)), "yes" if row.zero else "") for row in PRIMITIVES.values()
    ]


@pytest.mark.parametrize("row", list(tables(LANGUAGE, {"plain", "LaTeX"})), ids=lambda row: str(row["plain"]))
def test_latex_reads_as_the_plain_text(row: dict[str, str]) -> None:
    plain, latex = (row[form].strip("`") for form in ("plain", "LaTeX"))
    text = framed(plain).text
    assert parse(text.replace(plain, latex)).tree == parse(text).tree


def test_the_library_is_listed() -> None:
    listed = {what: [row[what].strip("`") for row in tables(LANGUAGE, {what, "is"})] for what in ("axis", "scalar", "layer")}
    assert listed["layer"] == [PLAIN.signature(layer) for layer in library().layers]
    assert listed["axis"] == [show(axis) for axis in library().axes]
    assert listed["scalar"] == [show(scalar) for scalar in library().scalars]


def test_the_nodes_are_listed() -> None:
    section = LANGUAGE.partition("\n## Nodes\n")[2].partition("\n## ")[0]
    nodes = {node.__name__ for node in (*get_args(Expression), *get_args(Declaration))}
    assert set(re.findall(r"`([A-Z]\w+)`", section)) == nodes
    assert len(nodes) == 17


def test_letters_that_look_alike_are_listed() -> None:
    assert set(LATIN) <= set(LANGUAGE)


WITH_EXAMPLES = sorted(path for path in (ROOT / "einformer").rglob("*.py") if ">>> " in path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_examples_of_docstrings_answer_as_printed(path: Path) -> None:
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    result = doctest.testmod(importlib.import_module(name), extraglobs={"load": load, "torch": torch})
    assert result.attempted
    assert not result.failed


def test_every_module_says_what_it_does() -> None:
    """`make docs` lists the first lines."""
    for path in (ROOT / "einformer").rglob("*.py"):
        if path.name != "__init__.py":
            assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), path


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split("\n")) <= 110


# ----------------------------------------------------------------------------------------------------------------- the site


def test_the_first_page_names_every_other_once() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    named = [
        page
        for tree in re.findall(r"```\{toctree\}\n(.*?)```", index, re.DOTALL)
        for page in re.findall(r"^[\w/]+$", tree, re.M)
    ]
    written = {page.stem for page in (ROOT / "docs").glob("*.md")} - {"index"}
    written |= {name.removesuffix(".md") for name in MADE} | {"architectures/index"}
    assert Counter(named) == Counter(written)
    linked = re.findall(r"^\[[^\]]+\]\(([\w/]+)\.md\)$", index, re.M)
    assert Counter(linked) == Counter(written - {"modules"})


def test_every_public_name_is_described() -> None:
    page = make_page("api", "reference.py")
    described = dict(re.findall(r"^````\{py:\w+\} ([\w.]+).*\n\n?(.*)", page, re.MULTILINE))
    names = {f"einformer.{name}" for name in set(dir(einformer)) - {"contracts", "testing"}}
    names |= {f"einformer.contracts.{name}" for name in set(einformer.contracts.__all__) - {"contract"}}
    names |= {f"einformer.testing.{name}" for name in einformer.testing.__all__}
    for value in (model("gpt2"), load("gpt2")):
        fields = {field.name for field in dataclasses.fields(value)}
        names |= {f"{type(value).__name__}.{name}" for name in dir(value) if name[0] != "_" and name not in fields}
    assert {name for name in described if not name.startswith("Module.")} == names
    assert all(described.values()), described


def test_every_option_is_described(capsys: pytest.CaptureFixture[str]) -> None:
    page = make_page("commands", "reference.py")
    sections = dict(re.findall(r"^### (\w+)\n(.*?)(?=^##|\Z)", page, re.MULTILINE | re.DOTALL))
    assert sections.keys() == {command.name for command in COMMANDS_OF_THE_LINE}
    for name, section in sections.items():
        with pytest.raises(SystemExit):
            main([name, "--help"])
        shown = set(re.findall(r"^  +(--[\w-]+)", capsys.readouterr().out, re.MULTILINE)) - {"--help", "--json"}
        assert set(re.findall(r"^`(--[\w-]+)", section, re.MULTILINE)) == shown, name


def test_letters_are_translated() -> None:
    rows = [line.split(" | ") for line in make_page("rosetta").split("\n") if line.startswith("| ")]
    letters = [head.strip("`").partition("`")[0] for head in rows[0][1:]]
    for name, *cells in rows[2:]:
        theirs = translate(name.strip("|` "))
        assert [cell.strip("|` ") for cell in cells] == [theirs.get(letter, "") for letter in letters]
    assert len(rows) > 12


@pytest.mark.slow
def test_every_text_has_a_page_with_its_picture_its_equations_and_its_counts() -> None:
    site = runpy.run_path(str(ROOT / "docs" / "generate.py"))
    shipped = site["list_shipped"]()
    index = site["architectures"](shipped)
    pages = {row.name: site["architecture"](row, shipped.models) for row in shipped.architectures}
    assert pages.keys() == {*TEXTS_THAT_SHIP}
    for name in TEXTS_THAT_SHIP:
        (text,) = re.findall(r"```einformer\n(.*?)```", pages[name], re.DOTALL)
        assert not parse(text).diff(load(name))
        assert 'xmlns="http://www.w3.org/2000/svg" class="einformer"' in pages[name]
        assert mathml(load(name).written) in pages[name]
        assert f"]({name}.md)" in index
    assert "| gpt2-xl | 1,557,611,200 |" in pages["gpt2"]
    assert "## Beside llama" in pages["mistral"]
    assert "m_ss' = where(s - W < s' <= s, 0, -inf)" in pages["mistral"].partition("## Beside")[2]
