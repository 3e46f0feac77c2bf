"""Does a suite get the tests that its texts are, and the contracts that its names spell, and pay nothing without them?"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import einformer as ein
from einformer import EinformerError
from einformer.contracts import frames
from einformer.contracts.instrument import NAME, Finder, choose_name, install, remove, rewrite

ROOT = Path(__file__).parents[1]
GOOD = "axes\n  d: D\nlayer Double(z_d) -> z_d:\n  return 2 z_d\n"
BAD = GOOD.replace("2 z_d", "2 y_d")
BLOCKS = [GOOD.rstrip(), BAD.rstrip(), "z_d = 2 y_d", f"{BAD.rstrip()}  # E204", f"{GOOD.rstrip()}  # E301"]
FILES = {
    "good.ein": GOOD,
    "bad.ein": BAD,
    "README.md": "\n".join(["# Notes\n", *map("```einformer\n{}\n```\n".format, BLOCKS)]),
    "shown.py": 'def double() -> None:\n    """Doubles.\n\n'
    + textwrap.indent(f"```einformer\n{BAD}```\n", "    ")
    + '    """\n',
    "model/__init__.py": "",
    "model/attention.py": """
import torch

def attend(q_bsea, k_btea, n_head=3):
    '''Scores.'''
    w_bsta = torch.einsum("bsea,btea->btsa", q_bsea, k_btea)
    return w_bsta
""",
    "test_model.py": """
import torch
from model.attention import attend

def test_scores():
    attend(torch.zeros(2, 5, 4, 3), torch.zeros(2, 7, 4, 3))
""",
}


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("suite")
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def pytest_in(folder: Path, *options: str) -> str:
    """What a run of pytest says there; the plugin is named, whether it is installed or not."""
    env = os.environ | {
        "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_ADDOPTS": "",
    }
    command = [sys.executable, "-m", "pytest", "-p", "einformer.pytest_plugin", "-p", "no:cacheprovider", *options]
    run = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, encoding="utf-8")
    assert run.returncode in (0, 1, 4), run.stdout + run.stderr
    return run.stdout + run.stderr


def test_texts_are_tests(suite: Path) -> None:
    said = pytest_in(suite, "--einformer", "--einformer-summary", "-rA", "--ignore=test_model.py")
    rows = re.findall(r"^(PASSED|FAILED) (\S+::(?:text|line \d+))", said, re.MULTILINE)
    assert {name.replace(" ", ""): outcome for outcome, name in rows} == {
        "good.ein::text": "PASSED",
        "bad.ein::text": "FAILED",
        "README.md::line3": "PASSED",
        "README.md::line10": "FAILED",
        "README.md::line21": "PASSED",
        "README.md::line28": "FAILED",
        "shown.py::line4": "FAILED",
    }
    assert "E204 `Double` has no tensor `y`\n  README.md:14:12\n" in said
    assert "E204 `Double` has no tensor `y`\n  bad.ein:4:12\n" in said
    assert "  shown.py:8:12\n" in said
    assert "line 32 is not refused with E301" in said
    assert "Traceback" not in said
    assert "einformer: 7 texts\n" in said


@pytest.fixture
def strange(tmp_path: Path) -> Path:
    # files that stand in many trees: in another encoding, of Python 2, not Python at all
    block = "```einformer\naxes\n  d: D\nlayer Double(z_d) -> z_d:\n  return 2 z_d\n```\n"
    (tmp_path / "latin.py").write_bytes(f"# -*- coding: latin-1 -*-\n'''été\n{block}'''\n".encode("latin-1"))
    (tmp_path / "old.py").write_text(f"'''\n{block}'''\nprint 'two'\n", encoding="utf-8")
    (tmp_path / "nul.py").write_bytes(b"'''```einformer'''\0")
    (tmp_path / "notes.md").write_bytes(f"été\n\n{block}".encode("latin-1"))
    (tmp_path / "latin.ein").write_bytes("# été\naxes\n  d: D\nlayer Double(z_d) -> z_d:\n  return 2 z_d\n".encode("latin-1"))
    return tmp_path


def test_any_file_of_a_tree_is_read_or_left(strange: Path) -> None:
    said = pytest_in(strange, "--einformer", "-rA", "--ignore=nothing")
    assert "INTERNALERROR" not in said
    assert "Traceback" not in said
    assert "error" not in said.splitlines()[-1]
    assert "PASSED notes.md::line 3" in said
    assert "FAILED latin.ein::text" in said
    assert f"E801 `{strange / 'latin.ein'}` cannot be read" in said


def test_any_folder_is_the_root(suite: Path, tmp_path: Path) -> None:
    said = pytest_in(suite, "--einformer", "-rA", "--ignore=test_model.py", f"--rootdir={tmp_path}")
    assert "ValueError" not in said
    assert "einformer.pytest_plugin" not in said
    assert f"{suite / 'bad.ein'}:4:12" in said


def test_names_of_a_package_are_contracts(suite: Path) -> None:
    said = pytest_in(
        suite, "--einformer-contracts=model", "--einformer-contracts=absent", "--einformer-summary", "test_model.py"
    )
    assert "E720 `w_bsta` has 7 along `s`, not 5" in said
    assert "attend (attention.py:4):1:" in said
    assert re.findall(r"^(\S+\.py):\d+: ?", said, re.MULTILINE) == ["test_model.py", "model/attention.py"]  # no frame of ours
    assert "einformer: 0 texts, 3 values of 1 calls\n" in said
    assert "einformer: `absent` was not imported" in said


def test_workers_say_what_they_checked(suite: Path) -> None:
    """Under xdist the summary is what one process says above: texts, values, calls and packages that nobody imported."""
    contracts = ["--einformer-contracts=model", "--einformer-contracts=absent", "test_model.py", "good.ein", "bad.ein"]
    said = pytest_in(suite, "-p", "xdist.plugin", "-n", "2", "--einformer-summary", *contracts)
    assert [line for line in said.splitlines() if line.startswith("einformer: ")] == [
        "einformer: `absent` was not imported, so none of its contracts was checked",
        "einformer: 2 texts, 3 values of 1 calls",
    ]


def test_a_suite_that_does_not_use_it_pays_nothing(suite: Path) -> None:
    (suite / "test_nothing.py").write_text(
        "import sys\n\ndef test_nothing():\n"
        "    loaded = {name for name in sys.modules if name.partition('.')[0] in ('einformer', 'torch', 'numpy', 'sympy')}\n"
        "    assert loaded == {'einformer', 'einformer.pytest_plugin'}\n",
        encoding="utf-8",
    )
    said = pytest_in(suite, "test_nothing.py")
    assert "1 passed" in said
    assert "einformer:" not in said


# ------------------------------------------------------------------------------------------------- the rewritten source


def run(source: str, name: str, *arguments: Any) -> Any:
    scope: dict[str, Any] = {NAME: frames, "torch": torch, "ein": ein, "Any": Any}
    exec(compile(rewrite(source, "made.py"), "made.py", "exec"), scope)
    return scope[name](*arguments)


def code(call: Callable[[], object]) -> str:
    try:
        call()
    except EinformerError as error:
        (finding,) = error.findings
        return finding.code + "!" * bool(error.__cause__ or not (error.__context__ is None or error.__suppress_context__))
    return ""


Z = torch.zeros(2, 5, 12)
SOURCES = """
words no axes:
  def f(z_bsd, n_head=3):
    x_in = z_bsd.mT
    z_flat = z_bsd.flatten()
    return x_in, z_flat
positions that grow:
  def f(x_bsd):
    for _ in range(3):
      y_bsd = x_bsd + 1
      x_bsd = torch.cat([x_bsd, y_bsd[:, :1]], 1)
a cut:
  def f(z_bsd):
    x_be = z_bsd[..., 0]
    x_be = x_be[:, :2]
a loop over layers:
  def f(z_bsd):
    for l in range(2):
      h_bsf = z_bsd[..., : 3 + l]
      z_bsd = z_bsd + 1
no tensor:
  def f(z_bsd):
    y_bs = z_bsd.shape
branches:
  def f(z_bsd):
    if z_bsd.sum() > 0:
      y_bd = z_bsd[:, 0]
    else:
      y_bd = z_bsd[:, 1]
an inner function has letters of its own:
  def f(z_bsd):
    def g(q_ds):
      return q_ds
    return g(z_bsd[0])
annotations that are not ours:
  def f(z: Any) -> list["int"]:
    return z
what may be none:
  from typing import Optional
  def f(z_bsd: Optional[torch.Tensor]):
    return z_bsd is None
several in a list:
  def f(z: Any, y_bsd: list[torch.Tensor] = []):
    return y_bsd
a parameter, E721:
  def f(z_bs):
    return z_bs
an assignment, E720:
  def f(z_bsd):
    y_bds = z_bsd
another value, E720:
  def f(z_bsd):
    y_bs = z_bsd[..., 0]
    z_bsd = z_bsd.transpose(0, 1)
a pair, E720:
  def f(z_bsd):
    y_bs, w_sd = z_bsd[..., 0], z_bsd[0].T
the variable of a loop, E720:
  def f(z_bsd):
    for y_ds in z_bsd:
      pass
in a loop, E720:
  def f(z_bsd):
    for i in range(2):
      y_bd = z_bsd[0]
in a with, E720:
  def f(z_bsd):
    with torch.no_grad():
      y_bd = z_bsd[0]
in a try, E720:
  def f(z_bsd):
    try:
      1 / 0
    except ZeroDivisionError:
      y_bd = z_bsd[0]
an addition, E720:
  def f(z_bsd):
    z_bsd += 0
    y_bd = z_bsd[0]
an annotation, E720:
  def f(z: ein.contracts.T["bds"]) -> ein.contracts.T["bs"]:
    return z[..., 0]
an inner function, E720:
  def f(z_bsd):
    def g(q_ds):
      y_sd = q_ds
    return g(z_bsd[0])
"""
CASES = {head: textwrap.dedent(body) for head, body in re.findall(r"^(\w.*):\n((?:  .*\n)+)", SOURCES, re.MULTILINE)}


@pytest.mark.parametrize("case", CASES)
def test_verdicts(case: str) -> None:
    assert code(lambda: run(CASES[case], "f", Z)) == case.partition(", ")[2]


def test_the_name_of_a_value_that_is_wrong() -> None:
    with pytest.raises(EinformerError) as caught:
        run(CASES["in a loop, E720"], "f", Z)
    assert str(caught.value).startswith("E720 `y_bd` has 5 along `b`, not 2\n  f (made.py:1):1:3\n")


def test_lines_and_docstrings_stay() -> None:
    source = 'class A:\n  def f(self, z_bsd):\n    """Says."""\n    y_b = 1 / 0\n'
    made = run(source + "def g():\n  return A\n", "g")
    assert made.f.__doc__ == "Says."
    with pytest.raises(ZeroDivisionError) as caught:
        made().f(Z)
    assert caught.traceback[-1].lineno == 3


WITHIN = """
its variables:
  def f(z_bsd):
    y_bsd = z_bsd
    return sorted(locals()), sorted(vars()), dir()
its code:
  def f(z_bsd):
    y_bsd = z_bsd
    return f.__code__.co_varnames
the name of our module:
  __einformer__ = 5
  def f(z_bsd):
    return __einformer__
what an object answers:
  class A:
    def __getattribute__(self, name):
      if name.startswith("__"):
        raise RuntimeError(name)
      return object.__getattribute__(self, name)
    def g(self, z_bsd):
      return 1
  def f(z):
    return A().g(z)
what annotations do:
  from __future__ import annotations
  seen = []
  def kind():
    seen.append(1)
    return ["b s d"]
  def f(z_bsd: kind()[0]):
    return seen
generators that wait:
  def g(z_bsd):
    y_bsd = yield sorted(locals())
    yield sorted(locals())
  def f(z):
    one, two = g(z), g(z)
    return next(one), next(two), one.send(z), two.send(z), list(one)
an exception:
  def f(z_bsd):
    try:
      y_bsd = z_bsd
      raise KeyError(1)
    except KeyError as error:
      return error.__traceback__.tb_next, error.__traceback__.tb_lineno
"""
ALIKE = {head: textwrap.dedent(body) for head, body in re.findall(r"^(\w.*):\n((?:  .*\n)+)", WITHIN, re.MULTILINE)}


@pytest.mark.parametrize("case", ALIKE)
def test_what_a_module_sees_of_itself_is_as_it_was(case: str) -> None:
    plain: dict[str, Any] = {"torch": torch}
    checked: dict[str, Any] = {"torch": torch, choose_name(ALIKE[case]): frames}
    exec(compile(ALIKE[case], "made.py", "exec", dont_inherit=True), plain)
    exec(compile(rewrite(ALIKE[case], "made.py"), "made.py", "exec", dont_inherit=True), checked)
    assert checked["f"](Z) == plain["f"](Z)
    assert frames._FRAMES == {}


def test_an_object_that_bound_its_sizes() -> None:
    source = "class A:\n  def f(self, z_bsd):\n    return z_bsd\n"
    source += "def g(z, **sizes):\n  a = A()\n  ein.contracts.bind(a, D=13)\n  return a.f(z)"
    assert code(lambda: run(source, "g", Z)) == "E720"


def test_compiled_code_is_left_alone() -> None:
    source = "def f(z_bsd):\n  y_bsd = z_bsd * 2\n  return y_bsd\n"
    source += "def g(z):\n  return torch.compile(f, backend='eager', fullgraph=True)(z)"
    torch.compiler.reset()
    assert run(source, "g", Z).shape == Z.shape


def test_a_package_is_rewritten_before_its_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "checked_one.py").write_text("def f(z_bsd):\n    return z_bsd\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    finder = install(["checked_one"])
    try:
        import checked_one  # type: ignore[import-not-found]

        assert finder.loaded == ["checked_one"]
        assert code(lambda: checked_one.f(Z[0])) == "E721"
        assert code(lambda: install(["checked_one"])) == "E724"
        assert not list(tmp_path.glob("__pycache__/*"))
    finally:
        remove(finder)
        sys.modules.pop("checked_one", None)
    assert Finder(["a"]).find_spec("ab", None) is None
