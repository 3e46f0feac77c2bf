"""Does every mistake get one message, which says what, where, by which rule, and what to write instead?

An example of the catalogue is a text in the language, or a config.json. It may end with a line of Python after `>>>`,
in which `text` is what stands above it, and `spec` that text parsed.
"""

from __future__ import annotations

import ast
import functools
import json
import pickle
import re
import shlex
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import einformer
from einformer import EinformerError
from einformer.errors import NOWHERE, Finding, Source, Span, catalogue, fail
from einformer.huggingface.stored import write
from einformer.objects import bind_from
from einformer.report.plot import library
from tests.commands import run
from tests.examples import make_page
from tests.refusals import findings_of

PACKAGE = Path(einformer.__file__).parent
DOCS = Path(__file__).parents[1] / "docs"
GPT2 = (PACKAGE / "architectures" / "gpt2.ein").read_text(encoding="utf-8")
EXAMPLES = [code for code, rule in catalogue().items() if rule.bad]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder with the files that the examples of E801 read."""
    for name, encoding in {"utf_8.ein": "utf-8", "latin_1.ein": "latin-1"}.items():
        text = "axes\n  d: D\nlayer Same(z_d) -> z_d:  # é\n  return z_d\n"
        (tmp_path / name).write_bytes(text.encode(encoding))
    write(tiny().to_huggingface(), tmp_path / "model.safetensors")
    (tmp_path / "cut.safetensors").write_bytes((tmp_path / "model.safetensors").read_bytes()[:-1])
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@functools.cache
def tiny() -> Any:
    """A module that transformers' GPT-2 could be loaded into."""
    config = json.loads((Path(__file__).parent / "data" / "configs" / "gpt2.json").read_text(encoding="utf-8"))["hf_config"]
    small = {"n_embd": 4, "n_head": 2, "n_layer": 1, "vocab_size": 3, "n_positions": 5, "n_ctx": 5}
    return einformer.from_huggingface(config | small).build().eval()


def examined(text: str) -> tuple[Finding, ...]:
    return findings_of(text, "example.ein")


def refused(example: str) -> list[str]:
    """The findings of an example of the catalogue, as they are printed, in the current folder."""
    text, _, line = example.partition(">>> ")
    if "$ einformer " in example:
        return answered(*example.split("$ einformer "))
    try:
        if text.startswith("{"):
            Path("config.json").write_bytes(text.encode())
            einformer.from_huggingface("config.json")
        elif line:
            eval(line, names(text))  # the catalogue is our own
        else:
            return list(map(str, examined(text)))
    except EinformerError as error:
        return list(map(str, error.findings))
    return []


def answered(text: str, command: str) -> list[str]:
    """The findings that a command prints about a text in the file that it names."""
    arguments = shlex.split(command)
    if text:
        Path("pyproject.toml" if text.startswith("[tool") else arguments[-1]).write_text(text, encoding="utf-8")
    answer = run(*arguments)
    printed = (answer.out + answer.err).replace(f"{Path.cwd()}/", "").rstrip("\n").split("\n\n")
    return [part for part in printed if re.match(r"E\d{3} ", part)]


def names(text: str) -> dict[str, object]:
    """What the line of an example may use."""
    import torch

    spec = einformer.parse(text, "example.ein") if text else None
    known: dict[str, object] = {"text": text, "spec": spec, "parse": einformer.parse, "load": einformer.load, "torch": torch}
    known |= {"library": library, "contracts": einformer.contracts}
    return known | {"testing": einformer.testing, "module": tiny(), "theirs": tiny().to_huggingface()}


# ------------------------------------------------------------------------------------------------------ the catalogue


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("code", EXAMPLES)
def test_what_breaks_a_rule_is_one_finding(code: str, golden: Callable[[str, str], None]) -> None:
    found = refused(catalogue()[code].bad)
    assert [finding[:4] for finding in found] == [code]
    golden(f"errors/{code}.txt", f"{found[0]}\n")


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("code", EXAMPLES)
def test_what_keeps_it_is_none(code: str) -> None:
    assert catalogue()[code].good
    assert refused(catalogue()[code].good) == []


def test_codes_of_the_catalogue_are_those_of_the_package() -> None:
    assert set(catalogue()) == {code for path in PACKAGE.rglob("*.py") for code in codes(path)}


def codes(path: Path) -> Iterator[str]:
    """The codes that a module has among its string constants."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(r"E\d{3}", node.value):
            yield node.value


@pytest.mark.parametrize("code", catalogue())
def test_a_row_is_whole(code: str) -> None:
    rule = catalogue()[code]
    assert rule.title
    assert rule.rule
    assert rule.why.endswith((".", "`"))
    assert rule.bad
    assert not rule.title.endswith(".")


def test_no_golden_file_is_left_over() -> None:
    found = {path.stem for path in (Path(__file__).parent / "golden" / "errors").glob("*.txt")}
    assert found == set(EXAMPLES)


# ---------------------------------------------------------------------------------------------------------- the parts


def cells(letter: str) -> int:
    """How many columns of a terminal a letter takes."""
    return 0 if unicodedata.combining(letter) else 1 + (unicodedata.east_asian_width(letter) in "WF")


def pointed(message: str) -> str:
    """The letters above the carets of a message."""
    line, carets = (row.partition(" | ")[2] for row in message.split("\n")[2:4])
    found, at = "", 0
    for letter in line:
        found += letter if carets[at : at + 1] == "^" else ""
        at += cells(letter)
    return found


LAYER = "axes\n  d: D\nlayer Same(z_d) -> z_d:\n  return "
CARETS = {
    "2 z_d y_d": "y_d",
    "z_d\t\ty_d": "y_d",
    "z_d\u00b7y_d": "y_d",
    "2 z_d²": "²",
    "z_d" + " z_d" * 900 + " y_d": "y_d",
    "y_d" + " + z_d" * 600: "y_d",
    "relu(z_d + y_d)": "y_d",
    "z_d e\u0301_d": "e",
    "z_d /": "",
    "2z_d": "2",
    "(z_d": "(",
    "z_e": "e",
    "z_d sum_{d'} (z_d)": "d'",
    "z_d + ζ": "ζ",
    "z_d \u202e": "�",
    "z_d + \x1b[31m": "�",
}


@pytest.mark.parametrize("line", CARETS, ids=lambda line: ascii(line[:20]))
def test_the_caret_stands_under(line: str) -> None:
    (finding,) = examined(LAYER + line)
    assert pointed(str(finding)) == CARETS[line]


def test_wide_letters_move_the_caret() -> None:
    """The caret would be two columns short if letters were counted."""
    found = examined("axes\n  d: D\nlayer Same(漢字_d) -> z_d:\n  z_d = 漢字_d y_d\n")
    assert [pointed(str(finding)) for finding in found] == ["y_d"]


def test_a_long_line_is_shown_in_part() -> None:
    (finding,) = examined(LAYER + "z_d" + " + z_d" * 600 + " + y_d")
    assert max(map(len, str(finding).split("\n"))) < 160


def test_no_message_can_steer_a_terminal() -> None:
    """Neither colours nor a line drawn from right to left come out of the text, or of the name of its file."""
    message = "\n".join(map(str, examined(LAYER + "z_d # \x1b[2J\u202e\ntab\ttab\n\x00 \x7f\x9b")))
    assert message.replace("\n", "").isprintable()


@pytest.mark.parametrize("letter", ["\x1b[2J", "\u202e", "\u2028", "\r", "\x9b", "\u200b"])
def test_no_finding_can_steer_what_shows_it(letter: str) -> None:
    """Wherever it comes from: a formula, a key of a config, the name of a file."""
    finding = Finding("E605", f"there is no key `{letter}`", Span(Source(f"{letter}.ein", "z"), 0, 1), (letter,), f"`{letter}`")
    assert str(finding).replace("\n", "").isprintable()
    assert all(text.isprintable() for text in (finding.message, *finding.facts, finding.fix))
    assert fail("E605", "\n::error::forged").findings[0].message == r"\n::error::forged"


def test_parts_of_a_message() -> None:
    finding = Finding("E301", "`d` occurs once", Span(Source("a.ein", "axes\n  d: D"), 7, 8), ("d: D", "e: H"), "`e`")
    rule = catalogue()["E301"].rule
    assert str(finding).split("\n") == [
        "E301 `d` occurs once",
        "  a.ein:2:3",
        "  2 |   d: D",
        "    |   ^",
        "  d: D",
        "  e: H",
        f"  rule: {rule}",
        "  write: `e`",
    ]


def test_what_is_built_has_no_place() -> None:
    assert str(Finding("E604", "the size `D` cannot be 0", NOWHERE)).split("\n")[1].startswith("  rule: ")


def test_numbers_of_wide_margins_line_up() -> None:
    (finding,) = examined("\n" * 120 + LAYER + "y_d")
    *_, line, caret = str(finding).split("\n")[:4]
    assert line.index("|") == caret.index("|")
    assert line.strip().startswith("124 |")


def test_findings_are_data() -> None:
    (finding,) = examined(LAYER + "y_d")
    place = {"file": "example.ein", "line": 4, "column": 10}
    assert finding.as_data().items() >= {"code": "E204", "message": finding.message, "fix": finding.fix, **place}.items()


def test_several_findings_stand_in_the_order_of_the_text() -> None:
    lines = ["layer Two(z_d) -> z_d:", "  y_d = 2 u_d", "  return y_d", "layer One(z_d) -> z_d:", "  return z_d v_d w_d"]
    found = examined("\n".join(["axes", "  d: D", *lines]))
    assert [(finding.span.line, pointed(str(finding))) for finding in found] == [(4, "u_d"), (7, "v_d"), (7, "w_d")]


def test_syntax_is_told_before_meaning() -> None:
    found = examined("axes\n  d: D\nlayer Same(z_d) -> z_d:\n  y_d = u_d\n  return 2y_d z_e")
    assert [finding.code for finding in found] == ["E103"]


def test_errors_survive_a_process() -> None:
    error = fail("E604", "the size `D` cannot be 0", fix="a positive whole number")
    again = pickle.loads(pickle.dumps(error))
    assert again.findings == error.findings
    assert str(again) == str(error)


def test_the_name_that_was_meant() -> None:
    """By its look, across alphabets, or a letter away."""
    legend = "axes\n  d: D\nscalars\n  alpha = 2\nlayer Same(z_d) -> z_d:\n  weights γ_d, gate_d\n  return gate_d "
    for written, meant in {"g_d": "γ", "gat_d": "gate", "z_d γ_d alhpa": "alpha", "z_d γ_d Alpha": "alpha"}.items():
        (finding,) = examined(legend + written)
        assert (finding.code, finding.fix) == ("E204", f"`{meant}`?")


def test_sizes_are_said_with_their_origin() -> None:
    model = einformer.parse("axes\n  a: A\n  d: D\n  e: H = D / A\nlayer Merge(z_ae) -> y_d:\n  y_{(ae)} = z_ae", "m.ein")
    with pytest.raises(EinformerError) as refusal:
        bind_from(model, {"D": 12, "A": 3, "H": 5}, "config.json")
    (finding,) = refusal.value.findings
    assert finding.code == "E308"
    assert finding.facts == (
        "defined as `y_d` (m.ein:5)",
        "`(ae)` has 15, `d` has 12",
        "d: D (m.ein:3), here 12 (config.json)",
        "a: A (m.ein:2), here 3 (config.json)",
        "e: H = D / A (m.ein:4), here 5 (config.json)",
    )


# ---------------------------------------------------------------------------------------------- one slip, one message

SLIPS = [
    ("  d: D                # hidden\n", "", "E201"),
    ("  p = 0.1             # dropout\n", "", "E204"),
    ("  weights W_df, U_fd, ω_f?, υ_d?\n", "  weights W_df, U_fd, ω_f?\n", "E204"),
    ("weights Q_dea, K_dea", "weights Q_dea, K_dea, K_dea", "E202"),
    ("E_vd, P_kd", "E_vd, P_kd, U_vd", "E206"),
    ("+ α_ea", "", "E206"),
    ("q_bsea  = ", "q_bse   = ", "E301"),
    ("z_bsd K_dea", "z_bsd K_dfa", "E307"),
    ("q_bsea k_bs'ea", "q_bsea k_bs'e", "E304"),
    ("q_bsea k_bs'ea", "q_bsea q_bs'ea", "E203"),
    ("q_bsea k_bs'ea", "q_bsea k_bs'ae", "E307"),
    ("where(s' <= s, 0, -inf)", "where(s <= s', 0, -inf)", "E501"),
    (" + m_ss')", ")", "E501"),
    ("Sm_s'(", "Sm_s(", "E503"),
    ("Sm_s'(", "Sm_d(", "E306"),
    ("Sm_s'(", "Sm(", "E405"),
    ("w_bss'a = ", "w_bs'sa = ", "E505"),
    ("u_{bs(ae)}", "u_{bs(aa)}", "E305"),
    ("u_{bs(ae)}", "u_{bs(ef)}", "E302"),
    ("  return Dr(u_bsd' O_d'd + ω_d)                                  @ goon 1.1.2 eq 10\n", "", "E105"),
    ("  return Dr(u_bsd' O_d'd + ω_d)", "", "E107"),
    ("gelutanh(z_bsd W_df + ω_f)", "gelutanh(z_bsd W_df + ω_f", "E102"),
    ("gelutanh", "gelutahn", "E204"),
    ("CausalAttention_l(LayerNorm_l(z_bsd))", "CausalAttention_l(LayerNorm(z_bsd))", "E403"),
    ("MLP_l(LayerNorm_l(z_bsd))", "MLP_l(LayerNorm_l(z_bsd), z_bsd)", "E401"),
    ("z_bsd <- z_bsd + MLP", "z_bsd = z_bsd + MLP", "E202"),
    ("for l < L:", "for l < N:", "E204"),
    ("causal in s", "causal in t", "E201"),
]


@pytest.mark.parametrize(("old", "new", "code"), SLIPS)
def test_one_slip_is_one_message(old: str, new: str, code: str) -> None:
    assert GPT2.count(old) == 1
    assert [finding.code for finding in examined(GPT2.replace(old, new))] == [code]


def test_a_mask_that_the_scores_lack_is_told_beside_the_leak() -> None:
    """To delete its line would hide what is wrong."""
    (finding,) = examined(GPT2.replace(" + m_ss')", ")"))
    assert finding.code == "E501"
    assert any("`m` is never used" in fact for fact in finding.facts)


def test_what_a_layer_of_the_library_lacks_is_told_at_the_call() -> None:
    text = "axes\n  d: D\nlayer Same(z_d) -> z_d:\n  return RMSNorm(z_d) + GatedMLP(z_d)"
    found = examined(text)
    assert [(finding.code, finding.span.line, finding.span.text) for finding in found] == [
        ("E204", 4, "RMSNorm(z_d)"),
        ("E201", 4, "GatedMLP(z_d)"),
    ]
    assert [finding.fix for finding in found] == ["`scalars …, ε`, as the library has it", "`axes …, f`, as the library has it"]
    assert any(fact.startswith("`RMSNorm` needs it (") for fact in found[0].facts)


def test_letters_that_look_alike_are_shown_where_they_stand() -> None:
    (finding,) = examined(
        "# о\n" + LAYER.replace("d: D", "d: D  # ο") + "z_d @ о\n  # о\nlayer Two(o_d) -> z_d:\n  return о_d o_d"
    )
    assert (finding.code, pointed(str(finding)), finding.span.line) == ("E004", "о", 8)


def test_a_size_of_documents_is_no_tensor() -> None:
    (finding,) = examined(LAYER + "z_d / sqrt(d_model)")
    assert (finding.code, finding.fix) == ("E204", "a size: `D`")


@pytest.mark.parametrize("name", ["M", "O", "R"])
def test_a_name_of_one_letter_is_never_a_word_of_the_language(name: str) -> None:
    """Neither `Sm` nor `or` nor `Dr`."""
    (finding,) = examined(LAYER + f"z_d {name}_d")
    assert finding.fix == f"`weights {name}_d`, or its definition on a line before"


def test_a_position_that_is_not_before_is_named() -> None:
    frame = "axes\n  s: S\n  d: D\nmodel M(z_sd) -> y_sd causal in s:\n  h_sd = h_{{{0}d}} / 2 + z_sd\n  return h_sd"
    said = {"(s + 1)": "at `s + 1`", "(s - d)": "at `s - d`", "s": "at the same position"}
    for slot, where in said.items():
        (finding,) = examined(frame.format(slot))
        assert finding.code == "E507"
        assert where in finding.message


def test_a_layer_that_claims_causality_is_told_that_a_model_does() -> None:
    (finding,) = examined("axes\n  s: S\n  d: D\nlayer L(z_sd) -> y_sd causal in s:\n  return z_sd")
    assert (finding.code, finding.span.text) == ("E101", "causal")
    assert finding.message == "a model claims causality, and `L` is a layer"
    assert finding.fix == "`model L`, or the head without `causal in …`"


SINGLE = [  # slips of one line that say the rest of the text is something else
    ("axes\n", "", "E101"),
    ("  for l < L:", "  fro l < L:", "E101"),
    ("  e: H = D / A", "  e: e = D / A", "E204"),
]


@pytest.mark.parametrize(("old", "new", "code"), SINGLE)
def test_what_follows_from_a_slip_is_not_told(old: str, new: str, code: str) -> None:
    """A head that is not there, a legend that is wrong: the lines below are examined when they have one."""
    assert GPT2.count(old) == 1
    found = {finding.code for finding in examined(GPT2.replace(old, new))}
    assert found == {code}
    assert len(examined(GPT2.replace(old, new))) <= 2


def test_a_scalar_index_as_a_number_is_suggested_where_it_is_typed_as_one() -> None:
    frame = "axes\n  b: B\n  s: S\n  d: D\n  f: F\n  g: D + F\nmodel M(z_bsd, u_bsf) -> y_bsg causal in s:\n  return "
    for slots in ("z_{bs(g)}", "z_bsg"):
        typed = frame + f"where(g < D, {slots}, u_{{bs(g - D)}})"
        (finding,) = examined(typed)
        (number,) = re.findall(r"`(.*\+ 0\)\})`", finding.fix)
        assert examined(typed.replace(slots, number)) == ()


def test_a_name_before_parentheses_is_a_function_or_layer() -> None:
    """`norm(z_d)` is no product with a scalar; a scalar is told its index, and no tensor that it is a function."""
    told = {line: examined(LAYER + line)[0] for line in ("norm(z_d)", "rellu(z_d)", "pos_d z_d")}
    assert [finding.code for finding in told.values()] == ["E204"] * 3
    assert "no function or layer `norm`" in told["norm(z_d)"].message
    assert told["rellu(z_d)"].fix == "`relu`?"
    assert told["pos_d z_d"].fix.startswith("`weights pos_d`")
    scalar = "axes\n  d: D\nscalars\n  ε = 1e-5\n  θ_d = d\nlayer F(z_d) -> z_d:\n  return z_d "
    assert [examined(scalar + more)[0].fix for more in ("+ ε_d + θ_d", "+ ε + θ")] == ["`ε`", "`θ_d`"]


def test_a_character_that_is_named_is_in_the_text() -> None:
    """Subscripts without braces are tokens with braces."""
    for line in ("E_x_bd", "top_1(z_d)", "h_b(yx)d", "z_d) (", "z_d / _d", "z_{d", "sum_dz (z_d", "where_(z_d)", "Sm_d_d(z_d)"):
        for finding in examined(LAYER + line):
            quoted = re.findall(r"`([^`]+)` where", finding.message)
            assert all(text in line for text in quoted), finding.message


def test_the_page_of_errors_has_each_code() -> None:
    titles = re.findall(r"^### (E\d+): (.*)$", make_page("errors"), re.M)
    assert titles == [(code, rule.title) for code, rule in catalogue().items()]
