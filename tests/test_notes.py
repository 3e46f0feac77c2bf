"""Does a text say the same in the letters of a document, and is every equation of the documents accounted for?"""

from __future__ import annotations

import functools
import re
from dataclasses import replace

import numpy as np
import pytest

from einformer import EinformerError
from einformer.architectures.texts import shipped, text, understood
from einformer.interpreters.latex import latex
from einformer.model import load, parse
from einformer.notation import parser
from einformer.notation.parser import parse_expression
from einformer.notation.printer import show
from einformer.notation.sizes import Legend
from einformer.notation.tree import Name, Spec
from einformer.notation.walk import subexpressions
from einformer.notes import quantities
from einformer.notes.claims import claims
from einformer.notes.conventions import conventions, written
from einformer.notes.errata import errata
from einformer.notes.references import documents, references, rows
from einformer.notes.rendering import rendered
from tests.arrays import Array
from tests.examples import ROOT

# Read off the documents themselves.
PRINTED = {
    "kaplan": {"S": "n_ctx", "D": "d_model", "F": "d_ff", "L": "n_layer", "V": "n_vocab"},
    "chinchilla": {"S": "seq_len", "D": "d_model", "A": "num_heads", "H": "key_size", "F": "ffw_size", "L": "num_layers"},
    "megatron": {"B": "b", "S": "s", "D": "h", "A": "a", "L": "l", "V": "V"},
    "palm": {"A": "H", "H": "Q", "S": "T", "L": "L"},
    "scaling-book": {"B": "B", "S": "T", "D": "D", "A": "N", "G": "K", "H": "H", "F": "F"},
    "s000": {"S": "N", "D": "D", "H": "D_head", "A": "h"},
    "s001": {"B": "B", "S": "S", "D": "D", "A": "A", "V": "V"},
    "s002": {"S": "n", "D": "m"},
    "s003": {"S": "L", "D": "d", "A": "h", "H": "d_k", "F": "d_ff", "V": "V"},
    "s004": {"D": "n_embd", "A": "n_head", "H": "head_size", "L": "n_blocks", "V": "vocab_size"},
}


@functools.cache
def spec(name: str) -> Spec:
    return understood(text(name))[0]


def legend(name: str, convention: str) -> list[str]:
    """The axes of a shipped text in the letters of a document."""
    axes = show(rendered(spec(name), convention)).partition("axes\n")[2].partition("\n\n")[0]
    return [line.partition("#")[0].strip() for line in axes.split("\n")]


@pytest.mark.parametrize("name", PRINTED)
def test_letters_are_those_that_the_document_prints(name: str) -> None:
    assert written(name).items() >= PRINTED[name].items()


@pytest.mark.parametrize("name", conventions())
def test_no_document_has_one_letter_for_two_of_ours(name: str) -> None:
    assert len(set(written(name).values())) == len(written(name))


@pytest.mark.parametrize("name", ["gpt2", "llama", "mixtral", "deepseek_v3", "mamba2"])
def test_our_letters_stay(name: str) -> None:
    assert rendered(spec(name), "ours") == spec(name)


def test_an_index_makes_way_for_a_size() -> None:
    """Megatron's sizes are b, s, h, a and l: the indices b, s, a and l of ours go to the next letters that are free."""
    assert legend("gpt2", "megatron") == [
        "c: b", "t: s <= K", "d: h", "g: a", "e: H = h / a", "f: F = E h", "v: V", "k: K", "m: l",
    ]  # fmt: skip


def test_a_size_without_a_letter_makes_way_for_one() -> None:
    """S003 has L positions and does not name layers."""
    assert legend("minimal", "s003") == [
        "b: B", "s: L <= K", "g: d", "a: h", "e: d_k = d / h", "f: d_ff = 4 d", "v: V", "k: K", "l: M",
    ]  # fmt: skip


def test_every_shipped_legend_can_be_written_in_every_convention() -> None:
    """No two letters become one, of axes, or of the names of sizes and scalars in the legend."""
    for name in shipped():
        whole, _ = parser.parse(text(name))
        legend = replace(whole, layers=())
        for convention in conventions():
            theirs = rendered(legend, convention)
            assert len({axis.letter for axis in theirs.axes}) == len(legend.axes), (name, convention)
            assert len(names(theirs)) == len(names(legend)), (name, convention)


def names(legend: Spec) -> set[str]:
    """The names of sizes and scalars."""
    sizes = [e for axis in legend.axes for e in (axis.size, axis.default, axis.bound) if e is not None]
    found = {x.name for size in sizes for x in subexpressions(size) if isinstance(x, Name)}
    return found | {scalar.name for scalar in legend.scalars if not scalar.indices}


@pytest.mark.parametrize(
    ("convention", "sizes"),
    [
        ("palm", {"B": 2, "T": 5, "D": 24, "G": 2, "H": 4, "F": 7, "V": 11, "L": 2, "Q": 6}),
        ("scaling-book", {"B": 2, "T": 5, "D": 24, "K": 2, "N": 4, "F": 7, "V": 11, "L": 2, "H": 6}),
    ],
)
def test_a_model_in_other_letters_is_the_same_function(convention: str, sizes: dict[str, int]) -> None:
    """llama's LaTeX in the letters of a document, read back and bound by these letters, has the value of llama."""
    theirs = parse(load("llama").latex(convention)).bind(**{k: size for k, size in sizes.items() if k not in "BT"})
    ours = load("llama").bind(D=24, A=4, G=2, H=6, F=7, V=11, L=2)
    shapes = ours.weight_shapes()
    assert theirs.weight_shapes() == shapes
    random = np.random.default_rng(1)
    weights = {path: random.normal(size=shape) for path, shape in shapes.items()}
    tokens = random.integers(11, size=(2, 5))
    np.testing.assert_array_equal(theirs.reference(tokens, weights=weights), ours.reference(tokens, weights=weights))


def test_names_of_several_letters_are_upright() -> None:
    """`d_{model}` and `head\\_size`, as papers and code print them; no bare underscore, which TeX would take for an index."""
    assert r"H = d_{\mathrm{model}} / n_{\mathrm{heads}}" in latex(rendered(spec("llama"), "kaplan"))
    assert r"\sqrt{\mathrm{head\_size}}" in latex(rendered(spec("gpt2"), "s004"))


def test_an_unknown_convention_is_refused() -> None:
    with pytest.raises(EinformerError, match="E605 there is no convention `bourbaki`"):
        load("gpt2").latex("bourbaki")


# ------------------------------------------------------------------------------------------------------ cross-references

STATUSES = {"a line", "in other words", "a test", "nothing"}
VERDICTS = {"holds", "holds to leading order", "does not hold", "contradicts itself"}


@pytest.mark.parametrize("document", documents())
def test_nothing_is_left_without_an_entry_that_says_where(document: str) -> None:
    """Every equation has a line, a test or a reason; so has every claim, or it has a verdict."""
    for row in rows(document):
        assert row["status"] in STATUSES | VERDICTS
        assert all(row[cell] for cell in ("place", "says", "where")), row
        for file, function in re.findall(r"(tests/\w+\.py)::(\w+)", row["where"]):
            assert f"def {function}(" in (ROOT / file).read_text(encoding="utf-8"), row


@pytest.mark.parametrize("document", documents())
def test_lines_are_where_they_are_said_to_be(document: str) -> None:
    """In the file itself, read as characters, spaces and parentheses apart."""
    found = {each: each.where.split()[0].split(":") for each in references(document) if each.layer}
    for each, (file, number) in found.items():
        folders = ROOT / "einformer" / "architectures", ROOT / "einformer" / "notes" / "texts"
        (path,) = (folder / file for folder in folders if (folder / file).exists())
        line = re.split("[@#]", path.read_text(encoding="utf-8").split("\n")[int(number) - 1])[0]
        assert re.sub(r"[ ()]", "", line) == re.sub(r"[ ()]", "", each.line)


@pytest.mark.parametrize("document", documents())
def test_what_entries_say_is_in_our_notation(document: str) -> None:
    """Both sides of it parse, by the letters of its text; and its errata are errata of the document."""
    for each in references(document):
        text = each.layer.partition(".")[0].replace("prelude", "minimal") or "minimal"
        tree = understood(quantities.source(text))[0]
        assert all(parse_expression(side, tree) for side in re.split(" = | <- ", each.says))
        assert {f"{document}-{erratum}" for erratum in each.errata.split()} <= {row.id for row in errata()}


def test_every_erratum_of_indices_is_that_of_an_equation_or_of_a_claim() -> None:
    """So an equation of which a wrong print is known has an entry."""
    entries = {
        f"{each.document}-{row}" for document in documents() for each in references(document) for row in each.errata.split()
    }
    assert {row.id for row in errata() if row.kind == "index"} <= entries | {claim.id for claim in claims()}


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


def value(text: str, layer: str) -> Array:
    """What a layer of a text gives for random inputs, the same ones each time."""
    sizes = {"D": 6, "A": 3, "F": 7, "V": 7, "K": 11, "L": 2, "N": 5, "M": 4, "Q": 3, "U": 2}
    whole = parse(text)
    model = whole[layer].bind(**{letter: size for letter, size in sizes.items() if letter in Legend.of(whole.tree).letters()})
    random = np.random.default_rng(3)
    weights = {path: random.normal(size=shape) for path, shape in sorted(model.weight_shapes().items())}
    (formal,) = model.spec.layer.formals
    axes = {"b": 2, "s": 5, "d": 6, "n": 5, "m": 4}
    return model.reference(random.normal(size=[axes[show(slot)] for slot in formal.slots]), weights=weights)


@pytest.mark.parametrize("whole", WHOLE)
def test_the_equations_of_a_document_are_the_layer(whole: str) -> None:
    """Written one below the other in place of the lines of the layer, they have its value."""
    said, (document, target) = WHOLE[whole], whole.split(" ")
    assert set(said) <= {each.says for each in references(document)}
    name, layer = target.split(".")
    text = quantities.source(name).text
    if document == "S001":  # which leaves biases out
        text = text.replace(", ω_d?", "").replace(" + ω_d)", ")")
    found = re.search(rf"\nlayer {layer}\(.*\n(?:  weights .*\n)?((?:  .*\n)+)", text)
    assert found
    head, body = found[0], found[1]
    lines = [*said[:-1], "return " + said[-1].partition(" = ")[2]]
    theirs = text.replace(head, head.replace(body, "".join(f"  {line}\n" for line in lines)))
    if document == "S004":  # which does not drop anything
        theirs = re.sub(r"  p = .*\n", "", theirs)
    assert theirs != text
    np.testing.assert_allclose(value(theirs, layer), value(text, layer), rtol=1e-12, atol=1e-12)


def test_lines_of_the_documents_decoder_stand_in_its_source() -> None:
    """Each as a comment above the PyTorch that computes it."""
    source = load("minimal").bind(D=6, A=3, V=7, K=11, L=2).source("notation")
    comments = {" ".join(line.split()[1:]) for line in source.split("\n") if line.strip().startswith("# ")}
    said = {each.line for document in ("S001", "S004") for each in references(document) if each.layer.startswith("minimal.")}
    assert len(said) > 12
    assert said <= comments
