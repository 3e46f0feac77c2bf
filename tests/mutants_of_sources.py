"""Which slips of the notes beside equations would the tests notice? One line each, with the tests that must fail."""

from __future__ import annotations

from tests.mutants import Mutant

CITATIONS = "notes/citations.py"


def _mutant(name: str, file: str, old: str, new: str, *killers: str) -> Mutant:
    return Mutant(name, f"einformer/{file}", old, new, tuple(f"tests/test_{killer}" for killer in killers))


MUTANTS = (
    _mutant(
        "an equation does not stand under the note of its layer", CITATIONS,
        "equation.note or layer.note", "equation.note",
        "sources.py::test_notes_name_places_of_sources",
    ),
    _mutant(
        "the note of a layer covers those of its equations", CITATIONS,
        "equation.note or layer.note", "layer.note",
        "sources.py::test_equations_of_a_text_and_what_they_follow",
    ),
    _mutant(
        "a note names one document", CITATIONS,
        'note.split(";")', 'note.split(";")[:1]',
        "sources.py::test_a_note_of_a_user_is_free",
    ),
    _mutant(
        "the equation before the first is the last", CITATIONS,
        "0 < int(number) <= len(found)", "int(number) <= len(found)",
        "sources.py::test_what_is_no_place_is_found",
    ),
    _mutant(
        "equations of a place are counted from zero", CITATIONS,
        "found[int(number) - 1]", "found[int(number) % len(found)]",
        "sources.py::test_equations_of_the_documents_decoder_are_those_that_it_numbers",
    ),
    _mutant(
        "a step of a section is no part of it", CITATIONS,
        ' or each.place.startswith(place + ",")', "",
        "sources.py::test_notes_name_places_of_sources",
    ),
    _mutant(
        "the names of axes tell equations apart", CITATIONS,
        "zip(plain.seen, string.ascii_letters, strict=False)", "zip(plain.seen, plain.seen, strict=False)",
        "sources.py::test_a_form_forgets_the_names_of_axes_only",
    ),
    _mutant(
        "one text names another place than the others", "architectures/llama.ein",
        "goon 1.1.2 eq 3", "goon 1.1.2 eq 4",
        "sources.py::test_equations_that_are_one_but_for_their_axes_name_one_note",
    ),
    _mutant(
        "a note names a place that is not there", "architectures/bloom.ein",
        "@ bloom 3.2", "@ bloom 3.3",
        "sources.py::test_notes_name_places_of_sources",
    ),
    _mutant(
        "a note names a class that is not there", "architectures/bitnet.ein",
        "@ transformers bitnet.BitNetMLP", "@ transformers bitnet.BitnetMLP",
        "sources.py::test_notes_name_places_of_sources",
    ),
    _mutant(
        "a line names a place where its document does not say it", "notes/texts/s003.ein",
        "@ S003 Feed Forward Layer", "@ S003 Predicting",
        "sources.py::test_lines_of_a_document_name_the_place_where_it_says_so",
    ),
    _mutant(
        "the note of a scalar is dropped", "language/parser.py",
        "beside = self.line.note, self.line.comment", 'beside = "", self.line.comment',
        "stray_notes.py::test_the_note_of_a_scalar_is_part_of_the_tree",
    ),
    _mutant(
        "a number that is given follows the document of the formula", "language/binding.py",
        ', note="")', ")",
        "stray_notes.py::test_a_value_that_is_given_follows_no_document",
    ),
    _mutant(
        "a note beside no formula is dropped", "language/parser.py",
        "        if self.line.note:\n", "        if self.line.note and self.loops:\n",
        "stray_notes.py::test_a_note_beside_no_formula_is_refused_at_its_place",
    ),
    _mutant(
        "a note alone is dropped", "language/parser.py",
        "[*findings, *map(_stray_note, alone)]", "findings",
        "stray_notes.py::test_a_note_on_a_line_of_its_own_is_refused",
    ),
    _mutant(
        "a scalar follows no document", CITATIONS,
        "for scalar in spec.scalars if scalar.note)", "for scalar in ())",
        "sources.py::test_equations_of_a_text_and_what_they_follow",
    ),
    _mutant(
        "an equation of several lines leaves its comment", "interpreters/torch/classes.py",
        'written = " ".join(map(str.strip, lines))', 'written = "\\n".join(map(str.strip, lines))',
        "emitted.py::test_what_stands_on_several_lines_of_latex_is_no_code",
    ),
    _mutant(
        "a note of several lines leaves its comment", "language/latex_row.py",
        '(words.replace("\\n", " ") for words in reader.row())', "reader.row()",
        "emitted.py::test_what_stands_on_several_lines_of_latex_is_no_code",
    ),
    _mutant(
        "a long note makes a line long", "interpreters/torch/folding.py",
        "if len(line) <= WIDTH or not note:", "if True:",
        "emitted.py::test_a_note_for_which_there_is_no_room_stands_below_its_equation",
    ),
    _mutant(
        "the text of a document is no target", "model/targets.py",
        "source = shelf.read(target)", "source = texts.read(target)",
        "shelf.py::test_texts_of_documents_are_targets_of_every_command",
    ),
    _mutant(
        "what an equation keeps is told with its note", "interpreters/torch/memory.py",
        'comment.partition("@")[0].strip(" #")', 'comment.strip(" #")',
        "saved.py::test_rows_say_which_equation_keeps_what",
    ),
    _mutant(
        "a note ends its docstring", "interpreters/torch/code.py",
        """.replace('"', '\\\\"')""", "",
        "emitted.py::test_what_a_text_says_beside_its_equations_is_no_code",
    ),
)  # fmt: skip
