"""What does a person see who runs `einformer`? Answers, exit codes, and no traceback for a mistake of theirs."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import pytest

from einformer.architectures import texts
from einformer.cli import main, options
from einformer.errors import catalogue
from tests.few import few
from tests.shipped import TEXTS, list_shipped

OK, FINDINGS, MISUSE = 0, 1, 2
CONFIG = Path(__file__).parents[1] / "docs" / "examples" / "gpt2" / "config.json"

GOOD = """
# good.ein
axes
  s: S
layer Twice(x_s) -> x_s:
  return 2 x_s
"""
BAD = """
# bad.ein
axes
  s: S
  d: D
layer Total(x_sd) -> x_s:
  return 2 x_sd
"""


class Answer(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    """`main` as a function: its exit code, and what it printed."""

    def answer(*arguments: str) -> Answer:
        try:
            code = main(arguments)
        except SystemExit as exit:
            code = int(exit.code or 0)
        return Answer(code, *capsys.readouterr())

    return answer


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every command runs where `good.ein` and `bad.ein` are."""
    (tmp_path / "good.ein").write_text(GOOD, encoding="utf-8")
    (tmp_path / "bad.ein").write_text(BAD, encoding="utf-8")
    (tmp_path / "bad.md").write_text("$$y_{sd} = x_s$$", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def process(*arguments: str, stdin: bytes = b"", **environment: str) -> Answer:
    """The command in a process of its own, its answer going into a pipe."""
    command = [sys.executable, "-c", "import sys; from einformer.cli import main; sys.exit(main())", *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, env=os.environ | environment)
    return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())


# --------------------------------------------------------------------------------------------------------- the surface


COMMANDS = ["report", "count", "fit", "plan", "plot", "draw", "diff", "list", "check", "latex", "source", "program"]
COMMANDS += ["generate", "explain", "lint", "run", "notes", "claims", "errata"]


def test_the_commands(run: Callable[..., Answer]) -> None:
    assert re.findall(r"^    (\w+) ", run("--help").out, re.MULTILINE) == COMMANDS


@pytest.mark.parametrize("command", COMMANDS)
def test_help(run: Callable[..., Answer], command: str) -> None:
    code, out, err = run(command, "--help")
    assert (code, err) == (OK, "")
    assert out.startswith(f"usage: einformer {command} ")
    assert "--json" in out
    assert "exit code: 0 all is well, 1 there are findings, 2 the call was wrong" in out


def test_all_help_texts(
    run: Callable[..., Answer], golden: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    golden("help.txt", "\n\n".join([run("--help").out, *(run(command, "--help").out for command in COMMANDS)]))


@pytest.mark.parametrize("command", options.COMMANDS, ids=lambda command: command.name)
def test_help_starts_with_a_verb_and_ends_with_the_default(command: options.Command) -> None:
    for text in (command.line, *(option.settings["help"] for option in command.options)):
        assert re.match(r"[A-Z][a-z]+ ", text)
        assert text.endswith(".")
    for option in command.options:
        default = option.settings.get("default")
        assert not default or f"Default: {default}." in option.settings["help"]


# ------------------------------------------------------------------------------------------- what is set, what applies

OWN = """axes
  b: B
  s: S
  d: D
  a: A
  e: H = D / A
  v: V
model Own(x_bs) -> y_bsv causal in s:
  weights E_vd, Q_dae
  z_bsd = E_{x_bs d}
  q_{bs(ae)} = z_bsd Q_dae
  return q_bsd E_vd
"""
SIZES = "D=12,A=3,V=11"
WITH_TARGET = [
    "report",
    "count",
    "fit --memory 1GB",
    "plan --devices 1",
    "plot --out x.svg",
    "draw --out y.svg",
    "source",
    "program",
    "latex",
    "check",
    "generate --tokens 2",
]


@pytest.mark.parametrize("command", WITH_TARGET)
def test_every_command_with_a_target_reads_ones_own_text_with_sizes(
    run: Callable[..., Answer], folder: Path, command: str
) -> None:
    (folder / "own.ein").write_text(OWN, encoding="utf-8")
    name, *rest = command.split()
    assert run(name, "own.ein", "--set", SIZES, *rest).code == OK
    assert run("diff", "own.ein", "own.ein", "--set", SIZES).out.startswith("no difference")


def test_a_scalar_is_set_by_a_number_or_a_formula(run: Callable[..., Answer]) -> None:
    assert r"\varepsilon = 1 \times 10^{-6}" in run("latex", "gpt2", "--set", "ε=1e-6").out
    assert r"\varepsilon = \frac{1}{D}" in run("latex", "gpt2", "--set", "ε=1/D,D=24").out
    assert run("count", "gpt2", "--set", "D=x").err.startswith("E604 ")
    assert run("count", "gpt2", "--set", "N=3").err.startswith("E605 ")


@pytest.mark.parametrize(
    "command",
    ["source", "fit --memory 80GB", "plan --devices 2", "plot --out x.svg", "report", "generate", "count --device t4"],
)
def test_missing_sizes_are_all_named_as_a_shell_takes_them(run: Callable[..., Answer], folder: Path, command: str) -> None:
    name, *rest = command.split()
    said = run(name, "llama", "--set", "L=2", *rest)
    assert said.code == FINDINGS
    assert said.err.count("E601") == 1
    wanted = ["D", "G", "A", "F"] if name == "generate" else ["D", "G", "A", "F", "V"]  # the vocabulary is that of bytes
    assert f"write: `--set {','.join(f'{letter}=…' for letter in wanted)}`" in said.err


def test_what_check_finds_is_mended_in_a_shell(run: Callable[..., Answer], folder: Path) -> None:
    Path("windows.ein").write_text(
        "axes\n  s: S\n  l: L\nscalars\n  W_l = [2, 3]\nmodel M(x_s) -> y_s:\n  y_s = x_s\n  for l < L:\n    y_s <- W_l y_s\n",
        encoding="utf-8",
    )
    said = run("check", "windows.ein")
    assert said.code == FINDINGS
    assert "write: `--set L=…`" in said.out


IGNORED = [
    "count gpt2 --formulas --batch 3",
    "count gpt2 --formulas --device t4",
    "count llama --seq 3",
    "count gpt2 --context 3",
    "count gpt2 --generation --context 3 --seq 3",
    "count gpt2 --generation --recompute full",
    "count gpt2 --set S=3",
    "count gpt2 --set D=12 --set D=24",
    "fit gpt2 --memory 80GB --batch 3",
    "fit gpt2 --memory 80GB --solve S --seq 3",
    "fit gpt2 --memory 80GB --step 3",
    "fit gpt2 --memory 80GB --generation --recompute full",
    "fit gpt2 --parameters 1B --seq 3",
    "fit gpt2 --parameters 1B --precision float32",
    "fit gpt2 --memory 80GB --shard tp:f",
    "fit gpt2 --memory 80GB --mesh tp=2",
    "fit gpt2 --memory 80GB --microbatches 2",
    "fit gpt2 --memory 80GB --solve mesh --mesh tp=2",
    "plan gpt2 --devices 2 --shard tp:f",
    "plan gpt2 --devices 2 --mesh tp=2",
    "plan gpt2 --devices 0",
    "plan gpt2 --devices 2 --work decode --recompute full",
    "plan gpt2 --devices 2 --json --rows 3",
    "draw gpt2 --width 0 --out x.svg",
    "plot gpt2 --kind flops --device t4 --out x.svg",
    "plot gpt2 --kind memory --convention kaplan --out x.svg",
    "plot gpt2 --kind roofline --recompute full --out x.svg",
    "diff llama mistral --batch 3",
    "notes --rosetta S001",
    "notes rope",
    "notes --rosetta --cites rope",
    "lint . --json --format sarif",
    "generate gpt2 --top-k 3",
    "generate gpt2 --top-p 0.5",
    "count gpt2 --form latex",
    "source gpt2 --sizes D=3",
]


@pytest.mark.parametrize("arguments", IGNORED)
def test_no_argument_is_ignored(run: Callable[..., Answer], folder: Path, arguments: str) -> None:
    said = run(*arguments.split())
    assert (said.code, said.out) == (MISUSE, "")
    assert said.err.startswith("usage: einformer")


TINY = "gpt2 --set D=12,A=3,L=2,V=259,K=64"
CALLS_THAT_DIFFER = (  # each with the options that change what a command does
    *(
        f"count {TINY} {mode}"
        for mode in ("--formulas", "--device h100-sxm", "--convention kaplan", "--recompute full", "--generation")
    ),
    *(f"fit {TINY} --memory 500KB {mode}" for mode in ("--generation", "--solve S", "--solve L")),
    f"fit {TINY} --parameters 1M --solve L",
    f"fit {TINY} --memory 400KB --solve mesh",
    f"fit {TINY} --memory 500KB --mesh dp=2 --shard dp:b",
    f"fit {TINY} --memory 500KB --mesh pp=2 --shard pp:l",
    *(f"plan {TINY} {mode}" for mode in ("--devices 4", "--mesh tp=3 --batch 4", "--devices 2 --work decode")),
    f"plot {TINY} --out x.svg --kind flops",
    f"draw {TINY} --out x.svg",
    *(f"source {TINY} {mode}" for mode in ("", "--text", "--check", "--mesh tp=3 --shard tp:f", "--stage 0/2")),
    f"generate {TINY} --tokens 8 --temperature 1",
    *(f"latex gpt2 {mode}" for mode in ("", "--form matrix", "--letters s001")),
    *(f"notes {mode}" for mode in ("S001", "--rosetta", "--cites", "--cites rope", "gpt2")),
    *(f"lint bad.md {mode}" for mode in ("", "--format json")),
    f"diff gpt2 {TINY}",
    f"program {TINY}",
    "run s000",
)
QUICK_CALLS = {  # one of each command
    f"count {TINY} --formulas",
    f"fit {TINY} --memory 500KB --solve S",
    f"plan {TINY} --mesh tp=3 --batch 4",
    f"plot {TINY} --out x.svg --kind flops",
    f"source {TINY} ",
    f"generate {TINY} --tokens 8 --temperature 1",
    "latex gpt2 ",
    "notes S001",
    "lint bad.md ",
    f"diff gpt2 {TINY}",
    f"program {TINY}",
    "run s000",
}
OTHERWISE = """--set E=3 --text abc --seed 7 --batch 3 --seq 5 --formulas python --device v100s --precision float32
--kind memory --recompute selective --convention exact --step 7 --solve L --out out.svg --layer LayerNorm --letters s000
--form matrix --plan notation --tokens 3 --temperature 0.7 --top-k 2 --top-p 0.1 --legend s:S,d:X --format sarif --cites alibi
--context 7 --memory 400KB --parameters 2M --mesh tp=3 --shard tp:a --zero 1 --devices 3 --rows 1 --work prefill
--microbatches 2 --stage 1/2 --cache q8_0 --weights q8_0 --width 700"""
VALUES = dict(re.findall(r"(--[a-z-]+) (\S+)", OTHERWISE))


@pytest.mark.parametrize("call", few(CALLS_THAT_DIFFER, QUICK_CALLS))
def test_every_option_changes_the_answer_or_is_refused(run: Callable[..., Answer], folder: Path, call: str) -> None:
    def answer(*arguments: str) -> tuple[Answer, list[str]]:
        said = run(*arguments)
        pictures = [re.sub(r'id="[^"]*"|#\w+|<dc:date>.*?<', "", path.read_text()) for path in sorted(folder.glob("*.svg"))]
        for path in folder.glob("*.svg"):
            path.unlink()
        return said, pictures

    command, *arguments = call.split()
    usual = answer(command, *arguments)
    assert usual[0].code != MISUSE, usual[0].err
    (allowed,) = (row.options for row in options.COMMANDS if row.name == command)
    for option in allowed:
        if option.flag.startswith("--") and option.flag not in arguments:
            value = [] if option.settings.get("action") == "store_true" else [VALUES[option.flag]]
            other = answer(command, *arguments, option.flag, *value)
            assert other[0].code == MISUSE or other != usual, option.flag


def test_a_size_that_is_set_is_a_number_in_the_formulas(run: Callable[..., Answer]) -> None:
    rows = {line.split("  ")[0]: line for line in run("count", "llama", "--set", "L=3,D=12").out.split("\n")}
    assert re.findall("[A-Z]", rows["blocks.{l}.GatedMLP"].replace("MLP", "").replace("G", "", 1)) == list("FFBSFBSFFBS")
    assert "108 F" in rows["blocks.{l}.GatedMLP"]


def test_random_weights_are_said_first(run: Callable[..., Answer]) -> None:
    said = run("generate", "gpt2", "--set", "D=12,A=3,L=1", "--tokens", "1")
    assert said.err == "einformer: the weights are random, and the tokens are bytes\n"


@pytest.mark.parametrize(
    "name", ["", "pytorch_model.bin", "model.pt", "model.gguf", "tf_model.h5", "model.npz", "model.safetensors.index.json"]
)
def test_a_folder_without_weights_that_are_read_does_not_get_random_ones(
    run: Callable[..., Answer], folder: Path, name: str
) -> None:
    config = json.loads(CONFIG.read_text(encoding="utf-8")) | {"n_embd": 12, "n_head": 3, "n_layer": 1}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"type": "BPE", "vocab": {}, "merges": []}}), encoding="utf-8")
    if name:
        (folder / name).write_text("{}", encoding="utf-8")
    said = run("generate", str(folder))
    assert said.code in (FINDINGS, MISUSE)
    assert said.out == ""
    assert said.err.startswith(("E610", "E617", "E618", "E802"))


def test_a_program(run: Callable[..., Answer]) -> None:
    code, out, err = run("program", "llama")
    assert (code, err) == (OK, "")
    assert "  g_bsf = contract d: z_bsd, G_df\n" in out
    assert json.loads(run("program", "llama", "--json").out) == {"target": "llama", "program": out.rstrip("\n")}


def test_version(run: Callable[..., Answer]) -> None:
    assert run("--version") == (OK, f"einformer {version('einformer')}\n", "")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("--help", OK),
        ("check gpt2", OK),
        ("check good.ein", OK),
        ("check bad.ein", FINDINGS),
        ("check good.ein bad.ein gpt2", FINDINGS),
        ("check none.ein", MISUSE),
        ("check bad.ein none.ein", MISUSE),
        ("check .", MISUSE),
        ("latex gpt2", OK),
        ("latex gpt2 --layer MLP", OK),
        ("latex gpt2 --letters megatron", OK),
        ("latex gpt2 --letters bourbaki", MISUSE),
        ("latex gpt2 --layer Nothing", MISUSE),
        ("latex bad.ein", FINDINGS),
        ("latex none.ein", MISUSE),
        ("explain", OK),
        ("explain E301 e501", OK),
        ("explain E999", MISUSE),
        ("explain nonsense", MISUSE),
        ("explain llama mistral", OK),
        ("explain E301 llama", MISUSE),
        ("", MISUSE),
        ("check", MISUSE),
        ("latex", MISUSE),
        ("latex gpt2 llama", MISUSE),
        ("chekc gpt2", MISUSE),
        ("check --frobnicate gpt2", MISUSE),
        ("generate gpt2 --seed -1", MISUSE),
        ("generate gpt2 --seed 9223372036854775808", MISUSE),
    ],
)
def test_exit_codes(run: Callable[..., Answer], arguments: str, code: int) -> None:
    assert run(*arguments.split()).code == code


@pytest.mark.parametrize("arguments", ["", "check", "latex", "explain E999", "latex gpt2 --layer Nothing", "chekc"])
def test_a_wrong_call_says_how_to_call(run: Callable[..., Answer], arguments: str) -> None:
    _, out, err = run(*arguments.split())
    assert out == ""
    assert err.startswith("usage: einformer")


# ------------------------------------------------------------------------------------------------------------- answers


@pytest.mark.parametrize(("word", "meant"), [("chekc", "check"), ("gpt2", "report gpt2"), ("./own.ein", "report ./own.ein")])
def test_an_unknown_command_is_told_what_to_write(run: Callable[..., Answer], word: str, meant: str) -> None:
    said = run(word, "gpt2")
    assert (said.code, said.err.split("error: ")[1]) == (MISUSE, f"no command `{word}`; write `einformer {meant}`\n")


def test_nothing_is_written_where_an_option_is_wrong(run: Callable[..., Answer]) -> None:
    said = run(*f"generate {TINY} --temperature -1".split())
    assert (said.code, said.out) == (FINDINGS, "")
    assert "E708" in said.err


def test_check_says_what_is_well_formed(run: Callable[..., Answer]) -> None:
    assert run("check", "gpt2").out == "gpt2  well formed: LayerNorm, CausalAttention, MLP, GPT2\n"


def test_check_shows_each_finding_then_a_row_for_each_target(run: Callable[..., Answer]) -> None:
    code, out, err = run("check", "good.ein", "bad.ein", "none.ein")
    assert (code, err) == (MISUSE, "")
    finding, missing, table = out.rstrip("\n").split("\n\n")
    assert finding.split("\n")[:4] == [
        "E301 `d` occurs once in its product and is not an index of the left side",
        "  bad.ein:7:15",
        "  7 |   return 2 x_sd",
        "    |               ^",
    ]
    assert missing.startswith("E802 `none.ein` is neither a file nor a shipped architecture")
    assert table.split("\n") == ["good.ein  well formed: Twice", "bad.ein   1 finding", "none.ein  1 finding"]


@pytest.mark.parametrize(
    ("target", "near"),
    [("gpt2-XL", "gpt2-xl, gpt2, "), ("gpt-2", "gpt2, "), ("mixtrall", "mixtral, mistral, "), ("???", "")],
)
def test_an_unknown_target_is_told_the_three_nearest(run: Callable[..., Answer], target: str, near: str) -> None:
    _, _, err = run("source", target)
    listed, _, rest = err.rpartition("write: a file, or one of ")[2].partition("; ")
    assert listed.startswith(near)
    assert len(listed.split(", ")) == 3
    assert set(listed.split(", ")) <= {*TEXTS, *(row["name"] for row in list_shipped()["models"])}
    assert rest == "`einformer list` names all\n"


def test_check_reads_a_config(run: Callable[..., Answer]) -> None:
    said = run("check", str(CONFIG), str(CONFIG.parent))
    assert said.code == OK
    assert said.out.count("well formed: LayerNorm, CausalAttention, MLP, GPT2") == 2


def test_check_reads_what_comes_through_the_pipe() -> None:
    assert process("check", "-", stdin=GOOD.encode()) == (OK, "<stdin>  well formed: Twice\n", "")
    code, out, _ = process("check", "-", "good.ein", stdin=BAD.encode())
    assert code == FINDINGS
    assert "  <stdin>:7:15\n" in out
    assert out.endswith("<stdin>   1 finding\ngood.ein  well formed: Twice\n")


def test_latex_prints_latex_and_nothing_else(run: Callable[..., Answer]) -> None:
    code, out, err = run("latex", "gpt2", "--layer", "MLP")
    assert (code, err) == (OK, "")
    assert "h_{bsf}" in out
    assert "q_{bsea}" not in out
    assert "q_{bsea}" in run("latex", "gpt2").out


def test_findings_of_a_text_that_is_to_be_printed_are_errors(run: Callable[..., Answer]) -> None:
    """So that `einformer latex bad.ein > bad.tex` does not write them into the file."""
    code, out, err = run("latex", "bad.ein")
    assert (code, out) == (FINDINGS, "")
    assert err.startswith("E301 `d` occurs once")


def test_latex_reads_back(run: Callable[..., Answer]) -> None:
    latex = run("latex", "good.ein").out
    assert process("check", "-", stdin=latex.encode()) == (OK, "<stdin>  well formed: Twice\n", "")


def test_explain_lists_every_code(run: Callable[..., Answer]) -> None:
    lines = [line for line in run("explain").out.split("\n") if line]
    assert lines == [f"{code}  {row.title}" for code, row in catalogue().items()]


def test_explain_shows_why_bad_and_good(run: Callable[..., Answer]) -> None:
    row = catalogue()["E301"]
    text = run("explain", "E301").out
    places = [text.find(part) for part in (f"E301  {row.title}", row.rule, row.why, "Breaks it:", "Keeps it:")]
    assert -1 not in places
    assert places == sorted(places)
    for example in (row.bad, row.good):
        assert example.strip("\n").replace("\n", "\n  ") in text


def test_explain_explains_several(run: Callable[..., Answer]) -> None:
    heads = re.findall(r"^(E\d+)  ", run("explain", "E501", "e301").out, re.MULTILINE)
    assert heads == ["E501", "E301"]


# ---------------------------------------------------------------------------------------------------------------- JSON


PARTS_OF_FINDINGS = {"code", "message", "file", "line", "column", "end_line", "end_column", "rule", "facts", "fix"}


def test_check_json(run: Callable[..., Answer]) -> None:
    code, out, err = run("check", "--json", "good.ein", "bad.ein", "none.ein")
    assert (code, err) == (MISUSE, "")
    found = json.loads(out)
    assert found["targets"] == [
        {"target": "good.ein", "layers": ["Twice"], "findings": 0},
        {"target": "bad.ein", "layers": [], "findings": 1},
        {"target": "none.ein", "layers": [], "findings": 1},
    ]
    here, there = found["findings"]
    assert set(here) == set(there) == PARTS_OF_FINDINGS
    assert {name: here[name] for name in ("code", "file", "line", "column")} == {
        "code": "E301", "file": "bad.ein", "line": 7, "column": 15,
    }  # fmt: skip
    assert there["code"] == "E802"


def test_latex_json(run: Callable[..., Answer]) -> None:
    found = json.loads(run("latex", "--json", "good.ein").out)
    assert found == {"target": "good.ein", "latex": run("latex", "good.ein").out.removesuffix("\n")}


@pytest.mark.parametrize("target", ["bad.ein", "none.ein"])
def test_findings_of_latex_as_json(run: Callable[..., Answer], target: str) -> None:
    _, out, err = run("latex", "--json", target)
    assert err == ""
    assert json.loads(out) == {"findings": json.loads(run("check", "--json", target).out)["findings"]}


def test_explain_json(run: Callable[..., Answer]) -> None:
    rows = json.loads(run("explain", "--json").out)
    assert [row["code"] for row in rows] == list(catalogue())
    assert all(set(row) == {"code", "title", "rule", "why", "bad", "good"} for row in rows)
    assert json.loads(run("explain", "--json", "E301").out) == [row for row in rows if row["code"] == "E301"]


# ------------------------------------------------------------------------------------------------------------ mistakes


def unreadable(folder: Path) -> str:
    """A file that cannot be read, not even by root."""
    path = folder / "locked.ein"
    path.touch(mode=0)
    return "/proc/self/mem" if os.access(path, os.R_OK) else str(path)


def written(content: bytes) -> Callable[[Path], str]:
    def write(folder: Path) -> str:
        (folder / "mistake.ein").write_bytes(content)
        return "mistake.ein"

    return write


MISTAKES: dict[str, tuple[Callable[[Path], str], str]] = {
    "missing": (lambda _: "none.ein", "E802"),
    "no name": (lambda _: "", "E802"),
    "directory": (str, "E802"),
    "under a file": (lambda _: "good.ein/x", "E802"),
    "unreadable": (unreadable, "E801"),
    "binary": (written(bytes(range(256))), "E801"),
    "latin-1": (written("# é".encode("latin-1")), "E801"),
    "utf-16": (written(GOOD.encode("utf-16")), "E801"),
    "empty": (written(b""), "E105"),
    "blank": (written(b"\n  \n\t\n"), "E105"),
    "zeros": (written(bytes(100)), "E003"),
    "prose": (written(b"Dear Sir or Madam,\n\n  what is this?\n"), "E101"),
    "large": (written(b"# ha\n" * 250_000), "E001"),
    "a long line": (written(b"x" * 100_000), "E001"),
    "deep": (written(b"axes\n  d: " + b"(" * 1000 + b"D" + b")" * 1000), "E002"),
    "byte order mark": (written(b"\xef\xbb\xbf" + GOOD.encode()), ""),
    "carriage returns": (written(GOOD.replace("\n", "\r\n").encode()), ""),
    "a name in another encoding": (lambda _: "\udcff.ein", "E802"),
    "a name too long": (lambda _: "x" * 5000, "E802"),
    "a name of two lines": (lambda _: "a\nb.ein", "E802"),
}


@pytest.mark.parametrize("command", ["check", "latex"])
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_a_finding(run: Callable[..., Answer], folder: Path, command: str, mistake: str) -> None:
    make, code = MISTAKES[mistake]
    answer = run(command, make(folder))
    found = re.findall(r"^(E\d{3}) ", answer.out + answer.err, re.MULTILINE)
    assert set(found) == {code} - {""}
    assert answer.code == (OK if not code else MISUSE if code.startswith("E8") else FINDINGS)


@pytest.mark.parametrize("stdin", [b"\xff\xfe", b"\0", b"", b"%PDF-1.7"], ids=repr)
def test_what_comes_through_the_pipe_may_be_anything(stdin: bytes) -> None:
    answer = process("check", "-", stdin=stdin)
    assert answer.code in (FINDINGS, MISUSE)
    assert answer.err == ""


def test_an_interruption_is_no_error(run: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(texts, "read", interrupted)
    assert run("check", "good.ein") == (130, "", "")


@pytest.mark.parametrize("arguments", ["explain", "check gpt2", "latex gpt2", "check bad.ein --json"])
def test_a_reader_may_stop_reading(arguments: str) -> None:
    """`| head -1`: the pipe is closed before the command writes."""
    code = "import sys; from einformer.cli import main; sys.stdin.read(); sys.exit(main())"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code, *arguments.split()], stdin=pipe, stdout=pipe, stderr=pipe) as running:
        assert running.stdout
        running.stdout.close()
        running.stdout = None
        _, err = running.communicate(b"")
    assert err == b""
    assert running.returncode == OK


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full disk to write to")
def test_a_full_disk_is_said() -> None:
    code = "import sys; from einformer.cli import main; sys.exit(main())"
    with open("/dev/full", "wb") as full:
        done = subprocess.run([sys.executable, "-c", code, "explain"], stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == MISUSE
    assert done.stderr.decode().count("\n") == 1
    assert done.stderr.startswith(b"einformer: ")


@pytest.mark.parametrize(
    ("command", "code"),
    [("explain >&-", OK), ("explain 2>&- >&-", OK), ("check none.ein 2>&-", MISUSE), ("count - <&-", FINDINGS)],
)
def test_a_stream_may_be_closed(command: str, code: int) -> None:
    found = subprocess.run(["sh", "-c", f"{sys.executable} -m einformer {command}"], capture_output=True, text=True)
    assert (found.returncode, "Traceback" in found.stderr) == (code, False)


def test_the_package_is_the_command() -> None:
    found = subprocess.run([sys.executable, "-m", "einformer", "check", "gpt2"], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (OK, "gpt2  well formed: LayerNorm, CausalAttention, MLP, GPT2\n")


def test_a_narrow_encoding_is_no_error() -> None:
    """A pipe that takes no Greek gets escapes."""
    code, out, err = process("check", "none_γ.ein", PYTHONIOENCODING="ascii")
    assert (code, err) == (MISUSE, "")
    assert "none_\\u03b3.ein" in out


# ------------------------------------------------------------------------------------------------- terminal, and speed


def terminal(*arguments: str, columns: int, **environment: str) -> str:
    """What the command writes into a terminal."""
    pty, fcntl, termios = (pytest.importorskip(name) for name in ("pty", "fcntl", "termios"))
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    code = "import sys; from einformer.cli import main; sys.exit(main())"
    known = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "FORCE_COLOR")}
    command = [sys.executable, "-c", code, *arguments]
    running = subprocess.Popen(command, stdout=theirs, stderr=theirs, env=known | {"TERM": "xterm"} | environment)
    os.close(theirs)
    written = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # Linux says so when the other end is closed
            part = b""
        if not part:
            break
        written += part
    os.close(ours)
    running.wait()
    return written.decode().replace("\r\n", "\n")


def uncoloured(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


CALLS = ["check good.ein bad.ein none.ein", "latex bad.ein", "explain", "explain E301 E501"]


@pytest.mark.parametrize("arguments", CALLS)
def test_a_terminal_gets_the_same_words_in_colour(arguments: str) -> None:
    shown, piped = terminal(*arguments.split(), columns=60), process(*arguments.split())
    assert "\x1b[" in shown
    assert "\x1b" not in piped.out + piped.err
    assert uncoloured(shown).split() == (piped.out + piped.err).split()


def test_a_dumb_terminal_gets_no_codes() -> None:
    assert "\x1b" not in terminal("check", "bad.ein", columns=60, TERM="dumb")


def test_colours_may_be_switched_off() -> None:
    assert "\x1b[3" not in terminal("check", "bad.ein", columns=60, NO_COLOR="1")


def test_prose_is_folded_and_an_excerpt_is_not(folder: Path) -> None:
    long = BAD.replace("2 x_sd", f"{' + '.join(['x_sd'] * 14)}")
    (folder / "long.ein").write_text(long, encoding="utf-8")
    lines = uncoloured(terminal("check", "long.ein", columns=60)).split("\n")
    excerpt, caret = next((lines[at], lines[at + 1]) for at, line in enumerate(lines) if line.startswith("  7 |"))
    assert len(excerpt) > 60
    assert excerpt[caret.index("^")] == "d"
    assert all(len(line) <= 60 for line in lines if line != excerpt)


def test_latex_has_no_colours_in_a_terminal() -> None:
    assert "\x1b" not in terminal("latex", "gpt2", columns=60)


@pytest.mark.parametrize("statement", ["import einformer", "from einformer.cli import main; main(['check', 'gpt2'])"])
def test_no_heavy_library_is_loaded(statement: str) -> None:
    code = f"{statement}; import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert "einformer" in loaded
    assert {"torch", "sympy", "transformers", "jaxtyping", "beartype", "rich", "lark"}.isdisjoint(loaded)
