"""Is every equation of the documents accounted for, does its line say what it says, is its PyTorch where it should be?"""

from __future__ import annotations

import ast
import functools
import itertools
import json
import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch

from einformer import load
from einformer.architectures.texts import elaborate
from einformer.cli import main
from einformer.errors import Source
from einformer.interpreters import reference
from einformer.language import binding
from einformer.language.parser import parse_expression
from einformer.language.tree import Spec
from einformer.notes import shelf
from einformer.notes.claims import claims
from einformer.notes.errata import errata
from einformer.notes.references import Reference, documents, read_sizes, references, rows
from einformer.objects import Model
from tests import arrays
from tests.arrays import Array
from tests.examples import ROOT, make_page

STATUSES = {"a line", "in other words", "computed", "a test", "nothing"}
VERDICTS = {"holds", "holds to leading order", "does not hold", "contradicts itself"}
LINES = [each for document in documents() for each in references(document) if each.layer]
FOLDERS = ROOT / "einformer" / "architectures", ROOT / "einformer" / "notes" / "texts"
SHOWN = tomllib.loads((ROOT / "tests" / "data" / "shown.toml").read_text(encoding="utf-8"))
UNUSED = "E203", "E206"  # a line in other words may need no more what stands before it


@functools.cache
def spec(name: str) -> Spec:
    return elaborate(shelf.source(name))[0]


@functools.cache
def written(file: str) -> str:
    """A file of a text, as characters."""
    (path,) = (folder / file for folder in FOLDERS if (folder / file).exists())
    return path.read_text(encoding="utf-8")


# ------------------------------------------------------------------------------------------------------------- entries


@pytest.mark.parametrize("document", documents())
def test_nothing_is_left_without_an_entry_that_says_where(document: str) -> None:
    """Every equation has a line, numbers, a test or a reason; so has every claim, or it has a verdict."""
    for row in rows(document):
        assert row.status in STATUSES | VERDICTS
        assert all((row.place, row.says)), row
        assert row.line or row.status == "a test" or row.claim or row.found, row


def test_what_a_test_shows_has_one() -> None:
    """And the other way round, but for lines that have one besides."""
    tested = {
        (each.document, each.place, each.says) for document in documents() for each in references(document) if each.tested
    }
    claimed = {row.claim for document in documents() for row in rows(document) if row.claim and row.status == "a test"}
    shown = {(document, each["place"], each["says"]) for document in documents() for each in SHOWN[document]["equations"]}
    lines = {(each.document, each.place, each.says) for each in LINES}
    assert tested == shown - lines
    assert claimed <= {claim for document in documents() for claim in SHOWN[document].get("claims", {})}
    assert {each.layer.partition(".")[0] for each in LINES} <= SHOWN["texts"].keys()


def test_the_tests_that_show_equations_are_there() -> None:
    names = {each["test"] for document in documents() for each in SHOWN[document]["equations"]} | {*SHOWN["texts"].values()}
    names |= {test for document in documents() for test in SHOWN[document].get("claims", {}).values()}
    for name in names:
        file, _, function = name.partition("[")[0].partition("::")
        assert f"def test_{function}(" in (ROOT / "tests" / f"test_{file}.py").read_text(encoding="utf-8"), name


def test_every_display_of_the_full_notes_has_an_entry() -> None:
    """Those of the decoder and its variants, of training and of inference, by the numbers that stand beside them."""
    displays = {(section, n) for section, last in {"1": (1, 32), "3": (89, 107), "9": (145, 148)}.items()
                for n in range(last[0], last[1] + 1)}  # fmt: skip
    found = {(row.place[0], int(n)) for row in rows("S005") for n in re.findall(r"eq (\d+)", row.place)}
    assert found == displays


def test_an_equation_has_one_thing_or_the_other() -> None:
    """What has no line has numbers, a test, or a reason, and not two of them."""
    for each in (each for document in documents() for each in references(document)):
        assert sum(map(bool, (each.layer or each.computed or each.tested, each.why))) == 1, each


@pytest.mark.parametrize("document", documents())
def test_what_entries_say_is_in_our_notation(document: str) -> None:
    """Both sides of it parse, by the letters of its text; and its errata are errata of the document."""
    for each in references(document):
        tree = spec(each.layer.partition(".")[0] or "minimal")
        assert all(parse_expression(side, tree) for side in re.split(" = | != | <- ", each.says)), each
        assert {f"{document}-{erratum}" for erratum in each.errata.split()} <= {row.id for row in errata()}, each


def test_every_erratum_of_indices_is_that_of_an_equation_or_of_a_claim() -> None:
    """So an equation of which a wrong print is known has an entry."""
    entries = {
        f"{each.document}-{row}" for document in documents() for each in references(document) for row in each.errata.split()
    }
    assert {row.id for row in errata() if row.kind == "index"} <= entries | {claim.id for claim in claims()}


def test_what_is_not_equal_is_said() -> None:
    (each,) = (each for each in references("S003") if each.says == "U_dv = E_vd")
    wrong = replace(each, computed={**each.computed, "claim": "y_nv = 2 z_nd E_vd"})
    assert each.status == "computed"
    assert wrong.status == "not equal"
    assert wrong.found[1].startswith("off by ")


def test_source_takes_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    """Beside those that a target has."""
    assert main(["source", "gpt2-xl", "--set", "D=50"]) == 0
    out = capsys.readouterr().out
    assert "\n    D: int = 50 " in out
    assert "\n    L: int = 48 " in out


def test_the_page_has_each_entry() -> None:
    page = make_page("equations")
    assert len(re.findall("^: ", page, re.M)) == sum(len(rows(document)) for document in documents())
    assert re.findall("^## (.*)$", page, re.M) == list(documents())


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    """In a terminal of 100 columns; as data with everything that there is."""
    assert main(["notes"]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.split("\n"))) <= 120
    assert main(["notes", "S005", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    (row,) = (row for row in data if row["says"] == "t_jrc = q_rh k_jch")
    places = {name: re.sub(r":\d+", ":…", row.pop(name)) for name in ("line", "source")}
    assert places == {"line": "s005_flash.ein:…", "source": "s005_flash.py:… Flash"}
    assert row == {
        "document": "S005", "place": "1.2.7.1, algorithm 2", "says": "t_jrc = q_rh k_jch", "status": "a line", "errata": "",
        "claim": "", "found": "",
    }  # fmt: skip


# --------------------------------------------------------------------------------------------------------------- lines


def test_lines_are_where_they_are_said_to_be() -> None:
    """In the file itself, read as characters, spaces and parentheses apart."""
    for each in LINES:
        assert re.sub(r"[ ()]", "", as_written(each)) == re.sub(r"[ ()]", "", each.line)


def as_written(each: Reference) -> str:
    """The line of its file, without what stands beside it; of axes that are named there, the line of the library."""
    file, number = each.where.split(":")
    lines = [re.split(" [@#]", line)[0].strip() for line in written(file).split("\n")]
    return (
        each.line if re.fullmatch(r"axes \w(, \w)+", lines[int(number) - 1]) and each.line in LEGEND else lines[int(number) - 1]
    )


LEGEND = set(re.findall(r"^  (\w: [^#\n]*\w)", written("library.ein").partition("axes\n")[2].partition("\n\n")[0], re.M))


def test_a_line_is_what_is_said_sign_for_sign() -> None:
    """What stands right of the sign; it is in other words that it may not."""
    for each in (each for each in LINES if each.status in ("a line", "in other words")):
        ours, theirs = (re.sub(r"^(\w: )?\S+ (<-|=) +|^return |[ ()]", "", re.sub(r" +", " ", line)) for line in (
            as_written(each), each.says))  # fmt: skip
        assert (ours == theirs) == (each.status == "a line"), each


@pytest.mark.parametrize("layer", sorted({each.layer for each in LINES if type(each.written).__name__ == "Equation"}))
def test_the_pytorch_of_a_line_is_where_it_is_said_to_be(layer: str) -> None:
    """There the file has the line itself as a comment, in the class that is named."""
    lines = [(each, at) for each in LINES if each.layer == layer and (at := each.emitted)]
    assert lines
    for each, at in lines:
        source = pytorch(at.file.removesuffix(".py"))
        assert source[at.line - 1].strip().partition("  @ ")[0] == "# " + as_written(each)
        blocks = (node for node in ast.parse("\n".join(source)).body if isinstance(node, ast.ClassDef | ast.FunctionDef))
        assert [node.name for node in blocks if node.lineno < at.line <= (node.end_lineno or 0)] == [at.name]


@functools.cache
def pytorch(target: str) -> list[str]:
    """The file of a text or of one of its layers, at larger sizes than those by which it was found: no line hangs on them."""
    name, _, layer = target.partition(".")
    whole = load(name)
    sizes = {letter: 2 * size for letter, size in read_sizes(name).items()}
    return (whole[layer] if layer else whole).bind(**sizes).source().split("\n")


def drawn(model: Model) -> tuple[dict[str, Array], list[Array]]:
    """Random weights and inputs of a model, with sizes for the axes that it leaves open."""
    bound = model.spec.bind(**{**model.legend.values, **{letter: OPEN[letter] for letter in model.open if letter in OPEN}})
    return arrays.weights(bound), arrays.inputs(bound)


OPEN = {"B": 2, "S": 3, "N": 4}


LAYERS = sorted({each.layer for each in LINES if each.layer.startswith("s00") and "." in each.layer})


@pytest.mark.parametrize("plan", ["notation", "fast"])
@pytest.mark.parametrize("layer", LAYERS)
def test_what_is_emitted_is_the_reference(layer: str, plan: str) -> None:
    """For the texts of the documents; test_torch has those that ship."""
    name, _, part = layer.partition(".")
    model = load(name)[part].bind(**read_sizes(name))
    weights, inputs = drawn(model)
    module = model.build(dtype=torch.float64, plan=plan).eval()
    module.load_state_dict({path: torch.from_numpy(array) for path, array in weights.items()})
    found = module(*map(torch.from_numpy, inputs)).detach().numpy()
    np.testing.assert_allclose(found, model.reference(*inputs, weights=weights), rtol=1e-10, atol=1e-10)


# ------------------------------------------------------------------------------------------------------ in other words


@pytest.mark.parametrize("document", documents())
def test_numbers_are_equal(document: str) -> None:
    """Of what is computed, and of a line in other words that comes with its own setting."""
    found = {each.says: each.found for each in references(document) if each.computed}
    assert {says: what for says, (right, what) in found.items() if not right} == {}


def together(each: Reference) -> tuple[str, str, str]:
    """The equations that one layer says in other words stand there together, those of a legend one by one."""
    return each.document, each.layer, "" if "." in each.layer else each.place


REWORDED = [each for each in LINES if each.status == "in other words" and not each.computed]
WORDS = {words: tuple(group) for words, group in itertools.groupby(sorted(REWORDED, key=together), key=together)}


@pytest.mark.parametrize("words", WORDS, ids=" ".join)
def test_a_line_in_other_words_gives_the_layer_its_value(words: tuple[str, str, str]) -> None:
    """What a document says, one below the other, in place of the line of the layer; optional weights are left out."""
    text, _, layer = words[1].partition(".")
    ours = shelf.source(text).text
    theirs = reworded(ours, WORDS[words])
    assert theirs != ours
    np.testing.assert_allclose(value(theirs, text, layer), value(ours, text, layer), rtol=1e-12, atol=1e-12)


def reworded(text: str, said: Sequence[Reference]) -> str:
    """The text with other lines; a layer of the library becomes one of the text."""
    (file,) = {each.where.split(":")[0] for each in said}
    lines = written(file).split("\n")
    for number, group in itertools.groupby(said, key=lambda each: int(each.where.split(":")[1])):
        lines[number - 1] = "\n".join("  " + line for line in in_place([*group]))
    if file != "library.ein":
        return "\n".join(lines)
    name = said[0].layer.partition(".")[2]
    (block,) = re.findall(rf"^layer {name}_.*?\n(?:  .*\n)+", "\n".join(lines), re.MULTILINE)
    return text.replace("\nmodel ", f"\n{block}\nmodel ")


def in_place(group: Sequence[Reference]) -> Iterator[str]:
    """What is said, and then what the line defined, where that has another name."""
    left = re.match(r"return|\S+ (?:=|<-)", group[-1].line)
    last = group[-1].says.partition(" = ")[2] if " = " in group[-1].says else ""
    assert left
    if left[0] == "return":
        yield from (each.says for each in group[:-1])
        yield f"return {last}"
        return
    yield from (each.says for each in group)
    if not group[-1].says.startswith(left[0].split(" ")[0] + " "):
        yield f"{left[0]} {group[-1].says.split(' ')[0]}"


def value(text: str, name: str, layer: str) -> Array:
    """What a layer of a text gives for random inputs and weights, the same ones each time."""
    tree, findings = elaborate(Source(name, text))[1:]
    assert [finding for finding in findings if finding.code not in UNUSED] == []
    whole = load(name)
    model = (whole[layer] if layer in {each.name for each in whole.tree.layers} else whole).bind(**read_sizes(name))
    bound = model.spec.bind(**{**model.legend.values, **{letter: OPEN[letter] for letter in model.open if letter in OPEN}})
    legend = binding.bind(tree, bound.legend.values)[1]
    weights = arrays.weights(bound, absent=1.0)
    return reference.evaluate(tree, bound.spec.name, arrays.inputs(bound), weights, legend)


# ------------------------------------------------------------------------------------------------------- whole layers

# What a document says of a whole layer, equation by equation.
WHOLE = {
    "S001 minimal.Attention": [
        "q_bsea = z_bsd Q_dea", "k_bsea = z_bsd K_dea", "v_bsea = z_bsd V_dea", "m_ss' = where(s' <= s, 0, -inf)",
        "w_bss'a = Sm_s'(q_bsea k_bs'ea / sqrt(H) + m_ss')", "y_bsea = Dr(w_bss'a) v_bs'ea", "u_{bs(ae)} = y_bsea",
        "z_bsd = Dr(u_bsd' O_d'd)",
    ],
    "S004 minimal.Attention": [
        "q_bsea = z_bsd Q_dea", "k_bsea = z_bsd K_dea", "v_bsea = z_bsd V_dea", "r_bss'a = q_bsea k_bs'ea",
        "r_bss'a <- r_bss'a / sqrt(H)", "m_ss' = where(s' <= s, 0, -inf)", "r_bss'a <- Sm_s'(r_bss'a + m_ss')",
        "y_bsea = r_bss'a v_bs'ea", "u_{bs(ae)} = y_bsea", "z_bsd = u_bsd' O_d'd + ω_d",
    ],
    "S002 s002.Similarity": ["y_nm = Sm_n'(x_nm'' x_n'm'') x_n'm"],
    "S002 s002.Learned": ["t_nm' = x_nm U_mm'", "y_nm = Sm_n'(t_nm'' t_n'm'') t_n'm"],
    "S002 s002.Attention": [
        "q_nq = x_nm Q_mq", "k_nq = x_nm K_mq", "v_nu = x_nm V_mu", "y_nu = Sm_n'(q_nq k_n'q / sqrt(Q)) v_n'u",
    ],
    "S003 s003.Single": [
        "q_nd' = x_nd Q_dd'", "k_nd' = x_nd K_dd'", "v_nd' = x_nd V_dd'", "z_nd = Sm_n'(q_nd' k_n'd' / sqrt(D)) v_n'd",
    ],
    "S000 s000.Attention": [
        "q_nq = x_nd Q_dq", "k_nq = x_nd K_dq", "s_nn' = q_nq k_n'q", "a_nn' = Sm_n'(s_nn' / sqrt(Q))", "v_nu = x_nd V_du",
        "y_nu = a_nn' v_n'u",
    ],
}  # fmt: skip


@pytest.mark.parametrize("whole", WHOLE)
def test_the_equations_of_a_document_are_the_layer(whole: str) -> None:
    """Written one below the other in place of the lines of the layer, they have its value."""
    said, (document, target) = WHOLE[whole], whole.split(" ")
    assert set(said) <= {each.says for each in references(document)}
    name, layer = target.split(".")
    text = shelf.source(name).text
    if document == "S001":  # which leaves biases out
        text = text.replace(", ω_d?", "").replace(" + ω_d)", ")")
    found = re.search(rf"\nlayer {layer}\(.*\n(?:  weights .*\n)?((?:  .*\n)+)", text)
    assert found
    head, body = found[0], found[1]
    lines = [*said[:-1], "return " + said[-1].partition(" = ")[2]]
    theirs = text.replace(head, head.replace(body, "".join(f"  {line}\n" for line in lines)))
    assert theirs != text
    np.testing.assert_allclose(value(theirs, name, layer), value(text, name, layer), rtol=1e-12, atol=1e-12)
