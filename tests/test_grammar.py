"""grammar.lark and the parser are the same language: on every line that ships, and on thousands of damaged ones."""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import lark
import pytest
from hypothesis import given, settings
from lark.lexer import PatternRE, TerminalDef

import einformer.language
from einformer.architectures.texts import library
from einformer.errors import Source
from einformer.interpreters.latex import latex
from einformer.language.parser import parse
from einformer.language.primitives import COMPARISONS, NAMES
from einformer.language.printer import show
from einformer.language.tree import Equation
from tests import strategies
from tests.few import FEW_TEXTS, few
from tests.texts import callable_layers

PACKAGE = Path(einformer.language.__file__).parent
TEXTS = {path.stem: path.read_text(encoding="utf-8") for path in sorted((PACKAGE.parent / "architectures").glob("*.ein"))}
RULES = ("axis", "scalar", "taken", "head", "statement")
FRAMES = {
    "axis": "axes\n  {}",
    "scalar": "scalars\n  {}",
    "taken": "{}",
    "head": "{}\n  return 0",
    "statement": "layer Frame(z_s) -> y:\n  {}\n  return 0",
}
LAYERS = frozenset(re.findall(r"^(?:layer|model) (\w+?)(?:_\w+)?(?:\(| =)", "\n".join(TEXTS.values()), re.MULTILINE))
SHIPPED_CALLABLE = frozenset(LAYERS | {"pre", "post", "pre'", "post'"})
LIBRARY = replace(library(), layers=(*library().layers, *callable_layers(SHIPPED_CALLABLE).layers))
GENERATED_CALLABLE = frozenset((*strategies.LAYERS, *strategies.INSTANCES))
WORDS = frozenset(("and", "or", "not", "mod"))
BEYOND_THE_GRAMMAR = {
    "E107": "a note stands beside the line that a grammar derives",
    "E104": "an operator without parentheses may derive in two ways; the parser refuses what a reader could take otherwise",
    "E002": "a grammar nests without end",
    "E201": "the axes of the library are a list",
    "E202": "what the language calls its own names is a list, not a form",
    "E204": "so are its scalars and layers",
}
ALPHABET = "abdesxzADHWQε θ'_^{}()[]+-/<>=!:,.?0127 e5 ≤∞·"


@functools.cache
def grammar(callable_: frozenset[str]) -> lark.Lark:
    """The grammar, in which these layers and instances are callable and so no names."""
    names = "|".join(sorted((re.escape(name) for name in NAMES | callable_ if name[0].isalpha()), key=len, reverse=True))
    called = rf"(?:{names})(?![^\W_]|['′’])"

    def know(terminal: TerminalDef) -> None:
        if terminal.name == "CALLABLE":
            terminal.pattern = PatternRE(rf"(?!(?:top|mod|and|or|not)(?![^\W_]|['′’])){called}")
        elif terminal.name == "NAME":
            terminal.pattern = PatternRE(f"(?!{called}){terminal.pattern.value}")

    text = (PACKAGE / "grammar.lark").read_text(encoding="utf-8")
    return lark.Lark(text, parser="earley", lexer="dynamic", start=["spec", *RULES], edit_terminals=know)


def derives(rule: str, line: str, callable_: frozenset[str] = SHIPPED_CALLABLE) -> bool:
    """Does the grammar accept the line?"""
    try:
        grammar(callable_).parse(re.sub("[@#].*", "", line), start=rule)
    except lark.exceptions.UnexpectedInput:
        return False
    return True


def refusals(rule: str, line: str) -> set[str]:
    """The codes with which the parser refuses the line."""
    _, findings = parse(Source("<line>", FRAMES[rule].format(line)), LIBRARY)
    return {finding.code for finding in findings}


def agree(rule: str, line: str) -> bool:
    """Do grammar and parser say the same, apart from what no grammar says?"""
    codes = refusals(rule, line)
    return derives(rule, line) == (not codes) or (bool(codes) and codes <= BEYOND_THE_GRAMMAR.keys())


def lines(text: str) -> Iterator[tuple[str, str]]:
    """The lines of a text, each with its rule."""
    block = ""
    for line in text.split("\n"):
        if not re.sub("#.*", "", line).strip():
            continue
        if line.startswith(("axes", "scalars")):
            block = {"axes": "axis", "scalars": "scalar"}[line.split()[0]]
        elif line.startswith(("layer", "model")):
            block = "statement"
            yield "taken" if re.match(r"layer \w+ =", line) else "head", line
        else:
            yield block, line.strip()


def damaged(line: str, source: random.Random) -> str:
    """The line with a letter or a token more, less, or another."""
    if not line or source.random() < 0.5:
        at = source.randrange(len(line) + 1)
        return line[:at] + source.choice(("", source.choice(ALPHABET))) + line[at + source.randrange(2) :]
    tokens = re.findall(r"\w+'*|\s+|.", line)
    one, other = source.randrange(len(tokens)), source.randrange(len(tokens))
    tokens[one] = source.choice(("", tokens[other], tokens[one] + tokens[other]))
    return "".join(tokens)


SHIPPED = sorted({item for text in TEXTS.values() for item in lines(text)})


@pytest.mark.parametrize("name", few(TEXTS, FEW_TEXTS))
def test_shipped_texts(name: str) -> None:
    assert grammar(SHIPPED_CALLABLE).parse(TEXTS[name], start="spec")


@pytest.mark.parametrize("rule", few(RULES, set(RULES) - {"statement"}))
def test_shipped_lines(rule: str) -> None:
    wrong = [line for of, line in SHIPPED if of == rule and not (derives(rule, line) and not refusals(rule, line))]
    assert wrong == []


@pytest.mark.parametrize("seed", few(range(8), {0, 1}))
def test_damaged_lines(seed: int) -> None:
    source = random.Random(seed)
    drawn = [source.choice(SHIPPED) for _ in range(400)]
    cases = [(rule, damaged(damaged(line, source), source).strip()) for rule, line in drawn]
    assert [case for case in cases if re.sub("[#@].*", "", case[1]).strip() and not agree(*case)] == []


@settings(max_examples=150, deadline=None)
@given(strategies.equations())
def test_generated_lines(equation: Equation) -> None:
    line = show(equation)
    assert derives("statement", line, GENERATED_CALLABLE), line


def test_primitives_are_callable() -> None:
    """The grammar lists them; here it is read as it stands in the file."""
    text = (PACKAGE / "grammar.lark").read_text(encoding="utf-8")
    written = {name for row in re.findall(r"^(?:CALLABLE: | +\| )/\(([\w|]+)\)", text, re.MULTILINE) for name in row.split("|")}
    assert written == NAMES - WORDS - {"top", *COMPARISONS}


@pytest.mark.parametrize("seed", few(range(8), {0, 1}))
def test_damaged_lines_are_printed_as_they_are_read(seed: int) -> None:
    """Whatever the parser takes comes back from both printers: trees that no generator thought of."""
    source = random.Random(seed)
    taken = 0
    for _ in range(400):
        rule, line = source.choice(SHIPPED)
        text = (
            "axes\n" + "".join(f"  {letter}: N\n" for letter in "bsdaefih") + FRAMES[rule].format(damaged(line, source).strip())
        )
        spec, findings = parse(Source("<damaged>", text), LIBRARY)
        if findings or not spec.layers:
            continue
        taken += 1
        for printed in (show(spec), latex(spec)):
            again, wrong = parse(Source("<printed>", printed), LIBRARY)
            assert not wrong, f"{line}\n{printed}\n{wrong[0]}"
            assert repr(again) == repr(spec), f"{line}\n{printed}"
    assert taken > 100
