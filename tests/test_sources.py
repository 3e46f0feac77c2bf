"""Does every equation of a shipped text name what it follows, and is that there? Of people's own texts nothing is asked."""

from __future__ import annotations

import functools
import importlib.util
import itertools
import json
import pathlib
import re
from collections import defaultdict
from dataclasses import replace
from typing import Any

import pytest

from einformer.architectures import texts
from einformer.cli import main
from einformer.language import parser
from einformer.language.printer import show
from einformer.language.tree import Equation, Expression, Layer, Scalar, Tensor
from einformer.language.walk import equations, rebuild
from einformer.notes import claims, shelf
from einformer.notes.citations import Noted, find_at, find_noted, normalise_axes, read_citations, shipped
from einformer.notes.errata import errata
from einformer.notes.notations import conventions
from einformer.notes.references import documents, lines, references, strip_remark
from einformer.notes.sources import sources
from tests.examples import ROOT, make_page

FOLDERS = ROOT / "einformer" / "architectures", ROOT / "einformer" / "notes" / "texts"
FILES = [path for folder in FOLDERS for path in sorted(folder.glob("*.ein"))]

# Equations that are one but for the names of their axes, and follow different sources: the map back to the hidden axis of
# attention, of Mamba-2 and of the delta rule.
OTHERWISE = {"return n_acde O_cdeb + ω_b", "return n_abdef O_defc"}


@functools.cache
def all_noted() -> list[Noted]:
    """Of the shipped texts and of those of the documents."""
    own = (path.stem for path in FOLDERS[1].glob("*.ein"))
    return [*shipped(), *(each for name in own for each in find_noted(parser.parse(shelf.source(name))[0], name))]


# ---------------------------------------------------------------------------------------------------------------- notes


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_equation_stands_under_a_note(path: pathlib.Path) -> None:
    """Read as characters: each head of a layer has one; and what the parser finds is all that is written."""
    text = path.read_text(encoding="utf-8").split("\n")
    heads = [line for line in text if line.startswith(("layer ", "model ")) and " = " not in line.partition("(")[0]]
    assert heads
    assert all(" @ " in line for line in heads)
    written = [line.partition("#")[0].partition(" @ ")[2].strip() for line in text if " @ " in line]
    source = shelf.source(path.stem) if path.stem != "library" else texts.text("library")
    spec, _ = parser.parse(source, texts.library())
    noted: tuple[Any, ...] = (*spec.scalars, *(node for layer in spec.layers for node in (layer, *equations(layer.body))))
    own = [node for node in noted if node.span.source == source and " @ " in text[node.span.line - 1]]
    assert [node.note for node in own] == written


def test_notes_name_places_of_sources() -> None:
    assert all(each.cited for each in all_noted())
    assert {citation.words for each in all_noted() for citation in each.cited if not is_there(citation.words)} == set()
    assert len(all_noted()) > 1800


def is_there(words: str) -> bool:
    """Is it a place of a source? Of a document it is one of its equations or claims, of transformers a class."""
    key, _, place = words.partition(" ")
    source = sources()[key]
    if key == "transformers":
        return place in classes(place.partition(".")[0])
    if not source.document:
        return place in source.places or (not place and not source.places)
    (citation,) = read_citations(words)
    claimed = {row.place for row in claims.claims() if row.id.startswith(source.document)}
    return citation.printed is not None if " eq " in place else bool(find_at(source.document, place)) or place in claimed


@functools.cache
def classes(family: str) -> set[str]:
    """Those of `modeling_granite.py`, as `granite.GraniteAttention`; read as characters."""
    found = importlib.util.find_spec("transformers")
    assert found
    assert found.origin
    path = pathlib.Path(found.origin).parent / "models" / family / f"modeling_{family}.py"
    return {f"{family}.{name}" for name in re.findall(r"^class (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)}


NOWHERE = ["rope 99", "rope", "nope 3", "goon 9.9", "goon 1.1.2 eq 11", "goon 1.1.2 eq 0", "transformers granite.Attention"]


@pytest.mark.parametrize("wrong", NOWHERE)
def test_what_is_no_place_is_found(wrong: str) -> None:
    assert not is_there(wrong)


def test_equations_that_are_one_but_for_their_axes_name_one_note() -> None:
    notes = defaultdict(set)
    for each in shipped():
        notes[normalise_axes(each.equation)].add(each.note)
    assert {equation for equation, found in notes.items() if len(found) > 1} == OTHERWISE


def test_layers_that_are_one_but_for_their_names_name_one_note() -> None:
    """Axes, weights and tensors may all be called something else."""
    notes = defaultdict(set)
    for name in texts.shipped():
        for layer in texts.write_out(name).layers:
            notes[shape(layer)].add(tuple(equation.note or layer.note for equation in equations(layer.body)))
    assert len(notes) > 100
    assert {head: found for head, found in notes.items() if len(found) > 1} == {}


def shape(layer: Layer) -> str:
    """The equations of a layer, whose tensors are called by the order in which they first stand."""
    names: dict[str, str] = {}

    def renamed(e: Expression) -> Expression:
        e = rebuild(e, renamed)
        return replace(e, name=names.setdefault(e.name, f"T{len(names)}")) if isinstance(e, Tensor) else e

    whole = []
    for equation in equations(layer.body):
        left = renamed(equation.left)
        assert isinstance(left, type(equation.left))
        whole.append(normalise_axes(replace(equation, left=left, right=renamed(equation.right))))
    return "\n".join(whole)


# ----------------------------------------------------------------------------------------------------------- documents


@pytest.mark.parametrize("document", documents())
def test_lines_of_a_document_name_the_place_where_it_says_so(document: str) -> None:
    """If they name the document at all."""
    for each in references(document):
        for line in lines(each) if each.layer else ():
            if (isinstance(line, Equation) or (isinstance(line, Scalar) and line.note)) and strip_remark(line) == each.line:
                (found,) = {noted.note for noted in all_noted() if same(noted, each.layer, line)}
                own = [
                    citation
                    for citation in read_citations(found)
                    if (source := citation.source) and source.document == document
                ]
                places = [citation.place.partition(" eq ")[0] for citation in own]
                assert not own or any(within(each.place, place) for place in places), each


def within(place: str, named: str) -> bool:
    """Is it the place that is named, a step of it or a section inside it?"""
    return place == named or place.startswith((f"{named},", f"{named}."))


def same(found: Noted, layer: str, line: Equation | Scalar) -> bool:
    return found.layer == (layer.partition(".")[2] or "scalars") and found.equation.span == line.span


def test_equations_of_the_documents_decoder_are_those_that_it_numbers() -> None:
    """`@ goon 1.1.2 eq 3` stands beside the line that the third equation of the place is."""
    numbered = [each for each in shipped() if each.text == "minimal" and re.match("goon .* eq ", each.note)]
    assert len(numbered) == 12
    for each in numbered:
        (citation,) = each.cited
        assert citation.printed
        assert (citation.printed.line, citation.printed.layer.partition(".")[2]) == (each.says, each.layer)


# ------------------------------------------------------------------------------------------------------------- sources


def test_every_source_and_every_place_is_named() -> None:
    """By a note; a source else by claims, by errata, or as a convention of letters."""
    named = {citation.words for each in all_noted() for citation in each.cited}
    keys = {words.split()[0] for words in named} | {name.replace("s00", "S00") for name in conventions()}
    said = {row.source for row in claims.claims()} | {row.source for row in errata()}
    for key, source in sources().items():
        assert key in keys or str(source) in said
        assert {f"{key} {place}".strip() for place in source.places} <= named


def test_every_convention_is_that_of_a_source() -> None:
    assert {name.replace("s00", "S00") for name in conventions()} - {"ours"} <= sources().keys()


def test_numbers_of_arxiv_agree_with_years() -> None:
    """2104.09864 is a number of April 2021; and no two sources have the same one, or the same title."""
    numbers = {key: source.arxiv for key, source in sources().items() if source.arxiv}
    assert len(set(numbers.values())) == len(numbers) > 25
    for key, number in numbers.items():
        assert re.fullmatch(r"\d\d(0[1-9]|1[0-2])\.(\d{4}|\d{5})", number)
        assert sources()[key].year == 2000 + int(number[:2]), key
        assert sources()[key].url.endswith(number)


def test_the_page_has_each_source() -> None:
    assert re.findall(r"^\| `(\S+)` \|", make_page("sources"), re.M) == list(sources())


# ------------------------------------------------------------------------------------------------------------ commands

OWN = """# own.ein
axes
  d: D                # hidden

layer Twice(z_d) -> z_d:                                         @ my notebook, p. 7; rope 99
  y_d = 2 z_d                                                    @ gelu 2
  return y_d
"""


def test_a_note_of_a_user_is_free(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "own.ein"
    path.write_text(OWN, encoding="utf-8")
    assert main(["notes", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "2 equations, 2 under a note" in shown
    assert "gelu 2: x Φ(x), and what approximates it by tanh" in shown
    assert "\n    my notebook, p. 7\n    rope 99\n" in shown


def test_a_text_without_notes_has_none(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "own.ein"
    path.write_text(re.sub(r" *@.*", "", OWN), encoding="utf-8")
    assert main(["notes", str(path)]) == 0
    assert "2 equations, 0 under a note" in capsys.readouterr().out


def test_equations_of_a_text_and_what_they_follow(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["notes", "llama", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == 17
    assert (rows[0]["layer"], rows[0]["equation"], rows[0]["note"]) == ("scalars", "θ_h = Θ^(-2 h / H)", "rope 3.2.2 eq 15")
    (found,) = [row for row in rows if row["equation"] == "v_seg = z_sd V_deg"]
    assert (found["text"], found["layer"], found["file"]) == ("llama", "Attention", "library.ein")
    assert found["note"] == "goon 1.1.2 eq 3"
    assert found["cited"][0]["there"] == "v_bsea = z_bsd V_dea"
    line = (FOLDERS[0] / found["file"]).read_text(encoding="utf-8").split("\n")[found["line"] - 1]
    assert line.split() == [*found["equation"].split(), "@", *found["note"].split()]


def test_equations_that_follow_a_source(capsys: pytest.CaptureFixture[str]) -> None:
    """All of them, and each form once; counted in the files as characters."""
    assert main(["notes", "--cites", "longformer", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    window = re.compile(r"where\(s - W(_l)? < s' <= s, 0, -inf\)")
    windows = [path.stem for path in FILES if window.search(path.read_text(encoding="utf-8"))]
    assert [row["text"] for row in rows] == windows
    assert main(["notes", "--cites", "longformer"]) == 0
    shown = capsys.readouterr().out
    assert f"{len(rows)} equations, 2 that differ in more than axes" in shown
    assert shown.count("where(") == 2
    assert all(name in shown for name in windows)


def test_all_sources_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["notes", "--cites"]) == 0
    shown = capsys.readouterr().out
    assert all(str(source) in shown for source in sources().values())
    assert main(["notes", "--cites", "--json"]) == 0
    rows = {row["key"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows.keys() == sources().keys()
    cited = itertools.chain.from_iterable(each.cited for each in shipped())
    assert rows["rope"]["equations"] == sum(citation.words.startswith("rope ") for citation in cited)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (["--cites", "bourbaki"], "no source `bourbaki`; there are goon"),
        (["llama", "--cites", "rope"], "either a document or text, or --cites"),
    ],
)
def test_wrong_calls(call: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["notes", *call])
    assert said in capsys.readouterr().err


def test_a_form_forgets_the_names_of_axes_only() -> None:
    one, other, third = (
        next(each.equation for each in shipped() if each.text == name and show(each.equation).startswith("u_x"))
        for name in ("mixtral", "deepseek_v3", "llama4")
    )
    assert normalise_axes(one) == normalise_axes(other) != normalise_axes(third)
