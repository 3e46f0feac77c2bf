"""Which slips of the linter would the tests notice?"""

from __future__ import annotations

from tests.mutants import Mutant


def _mutant(name: str, file: str, old: str, new: str, *killers: str) -> Mutant:
    return Mutant(name, f"einformer/lint/{file}", old, new, tuple(f"tests/test_lint{killer}" for killer in killers))


RULES, BALANCE, LETTERS, LEGEND = "rules.py", "balance.py", "letters.py", "legend.py"
MASKS, SECTIONS = "masks.py", "sections.py"
READING, SPELLING, SCRIPTS, PIECES = "reading.py", "notes/spelling.py", "notes/scripts.py", "notes/pieces.py"
DOCUMENTS = "documents.py"
SAID = "_reading.py::test_it_is_read_and_a_slip_in_it_is_seen[{}]"
UNSAID = "_reading.py::test_what_is_not_said_is_read_and_no_finding[{}]"
UNREAD = "_reading.py::test_what_may_be_either_is_not_read"

MUTANTS = (
    # ---------------------------------------------------------------------------------------------- suffixes of names
    _mutant(
        "a suffix of the texts is a word", "python/suffixes.py",
        "style sub sum sym", "style sd sub sum sym",
        "_python.py::test_no_suffix_of_a_shipped_text_is_a_word",
    ),
    _mutant(
        "no suffix is a word", "python/suffixes.py",
        " and (suffix in known or suffix.lower() not in _WORDS)", "",
        "_python.py::test_kinds_of_numbers_are_words",
    ),
    # --------------------------------------------------------------------------------------------------- the rules
    _mutant(
        "a mask may show the future", MASKS,
        "key_is_less != (_number(then) == 0):", "key_is_less == (_number(then) == 0):",
        ".py::test_a_mask_shows_the_past",
    ),
    _mutant(
        "the primed index is the key, whatever the softmax says", MASKS,
        "                return x.indices[0].letter\n", "                break\n",
        ".py::test_a_mask_shows_the_past",
    ),
    _mutant(
        "what lacks an index lacks it everywhere", RULES,
        "told = (dropped & others and not added)", "told = (dropped and not added)",
        ".py::test_what_people_mean_is_no_finding[a dropped batch index]",
    ),
    _mutant(
        "a letter defined by itself is a definition", SECTIONS,
        "return None if any(not _earlier(x) for x in own) else self.left", "return self.left",
        ".py::test_what_people_mean_is_no_finding[an overloaded letter]",
    ),
    _mutant(
        "a softmax is over any index of its axis", MASKS,
        "return alike and bool(left) and here.get(over) in left", "return False and here.get(over) in left",
        ".py::test_a_slip_is_found_where_it_is[a softmax over the queries]",
    ),
    _mutant(
        "weights may vanish on the past", MASKS,
        "if key_is_less and key != query and", "if not key_is_less and key != query and",
        "_rules.py::test_weights_vanish_on_the_future",
    ),
    _mutant(
        "two uses of two forms are a slip", RULES,
        "if len(few) == 1 and len(", "if len(",
        "_rules.py::test_what_may_be_meant_is_no_finding[twice]",
    ),
    _mutant(
        "more slots than before are a slip", RULES,
        " and len(most[0][0].slots) >= len(few[0][0].slots):", ":",
        "_rules.py::test_what_may_be_meant_is_no_finding[with more than before]",
    ),
    _mutant(
        "a stated shape is one of several", RULES,
        "((alone and added & others) or stated)", "(alone and added & others)",
        "_rules.py::test_a_tensor_has_the_slots_of_the_shape_that_is_stated",
    ),
    _mutant(
        "a form that is made of another is a slip", RULES,
        "form not in other and _is_slip(", "_is_slip(",
        "_rules.py::test_what_may_be_meant_is_no_finding[as a sum of itself]",
    ),
    _mutant(
        "a range from 0 ends before its end", LEGEND,
        "else f\"{_plain(match['last'])} + 1\"", "else _plain(match['last'])",
        "_rules.py::test_a_range_that_includes_its_end_has_one_more",
    ),
    _mutant(
        "D is not A H", RULES,
        "return len(left) == 1 and factor == divisor", "return bool(left)",
        ".py::test_a_legend_is_given",
    ),
    _mutant(
        "an equation with a finding defines as well", RULES,
        "if read.defines is not None and not read.findings and whole:", "if read.defines is not None and whole:",
        ".py::test_the_errors_of_a_published_note_are_found_and_nothing_else",
    ),
    _mutant(
        "a diagonal is a slip", BALANCE,
        'if f.message.split("`")[1] not in kept)', "if kept is not None)",
        ".py::test_what_people_mean_is_no_finding[a diagonal]",
    ),
    _mutant(
        "a trace has an index that occurs once", BALANCE,
        "doubled = {letter for x, _ in twice for letter in _repeats(x)}", "doubled = set[str]()",
        ".py::test_what_people_mean_is_no_finding[a trace]",
    ),
    # ------------------------------------------------------------------------------------- indices, labels, legends
    _mutant(
        "every letter is an index", LETTERS,
        "if len(having) > 1}", "if having}",
        ".py::test_a_letter_on_one_tensor_only_may_be_a_label",
    ),
    _mutant(
        "a matrix is a number", LETTERS,
        'return f"`{matrices[0]}` has no indices: a matrix?" if matrices else ""', 'return ""',
        ".py::test_what_people_mean_is_no_finding[a matrix]",
    ),
    _mutant(
        "a letter with two sizes has the first", LEGEND,
        "if before.size != known.size and", "if before.size == known.size and",
        ".py::test_a_slip_is_found_where_it_is[two stated sizes]",
    ),
    _mutant(
        "shapes are read backwards", LEGEND,
        "for letter, size in zip(letters, sizes, strict=True):", "for letter, size in zip(letters, sizes[::-1], strict=True):",
        ".py::test_a_legend_is_read_from_the_text",
    ),
    # ----------------------------------------------------------------------------------------------------- readers
    _mutant(
        "a bound is no index", SPELLING,
        "        if not taken:\n            self.depends(", "        if False:\n            self.depends(",
        ".py::test_what_people_mean_is_no_finding[a bound that is an index]",
    ),
    _mutant(
        "a label is an index", SCRIPTS,
        'elif sign == "_" and (label := self.label(text)):', 'elif sign == "-" and (label := self.label(text)):',
        "_notes.py::test_notes_are_spelled_as_the_language_is",
    ),
    _mutant(
        "a place is one to the right", PIECES,
        "return Span(self.source, min(part), max(part) + 1)", "return Span(self.source, min(part) + 1, max(part) + 1)",
        "_notes.py::test_a_finding_has_its_place_in_the_file",
    ),
    _mutant(
        "a row that goes on has no left side", READING,
        "            sides[0] = before\n", "            pass\n",
        ".py::test_a_row_goes_on_with_the_left_side_before",
    ),
    _mutant(
        "a letter that is on the right alone is nothing", "python/operations.py",
        "if not any(letter in term for term in terms)]:", "if False]:",
        "_python_corpus.py::test_a_slip_is_found_or_known_not_to_be[keys read at the queries]",
    ),
    _mutant(
        "a letter that stands once is another index", "python/axes.py",
        " and named.count(letter) > 1 < named.count(own)", "",
        "_python_primes.py::test_a_slip_in_a_letter_is_found[an index that stands once]",
    ),
    _mutant(
        "what a file says of its primes is not read", "python/suffixes.py",
        "part + SECOND if part + SECOND in known else part,", "part,",
        "_python_primes.py::test_emitted_sources_are_right[a state of keys and values-notation]",
    ),
    _mutant(
        "a linear module keeps its last axis", "python/modules.py",
        "Value((*call.value.shape[:-1], None))", "Value(call.value.shape)",
        "_python_corpus.py::test_an_idiom_is_left_alone[modules of torch]",
    ),
    _mutant(
        "a mask looks rows up", "python/indexing.py",
        "mask = rows and table and rows[0] is not None and rows[0] == table[0]", "mask = False",
        "_python_corpus.py::test_an_idiom_is_left_alone[rows of a table]",
    ),
    _mutant(
        "what is unknown is of length 1", "python/axes.py",
        "(left is None and right != ONE)", "left is None",
        "_python_corpus.py::test_an_idiom_is_left_alone[an unknown axis times one of length 1]",
    ),
    _mutant(
        "a long axis may be called 1", "python/axes.py",
        "if _is_long(*pair) or not agree(*pair)", "if not agree(*pair)",
        "_python_corpus.py::test_a_slip_is_found_or_known_not_to_be[a mean over positions]",
    ),
    _mutant(
        "a place ends where it begins", "findings.py",
        "max(span.end, span.start + 1)", "span.start",
        "_programs.py::test_sarif_is_as_the_standard_has_it",
    ),
    _mutant(
        "a reference holds spaces", "findings.py",
        "urllib.parse.quote(path.as_posix())", "path.as_posix()",
        "_programs.py::test_sarif_is_as_the_standard_has_it",
    ),
    _mutant(
        "the document that names a file is another", "notes/inputs.py",
        "for each in sorted(folder.glob(\"*.tex\")) if path in _named(each)]", "for each in sorted(folder.glob(\"*.tem\"))]",
        "_formats.py::test_macros_are_those_of_the_document",
    ),
    _mutant(
        "a file takes its macros from others first", "files.py",
        "**taken(source.name), **given, **document.macros", "**document.macros, **taken(source.name), **given",
        "_formats.py::test_a_file_defines_macros_anew",
    ),
    _mutant(
        "a name of Typst takes its arguments as they are called", "notes/typst_lets.py",
        "parts += [body.cut(at, match.start()), arguments[name]]", "parts += [body.cut(at, match.end())]",
        "_formats.py::test_a_slip_is_found_in_its_line[a function of Typst]",
    ),
    _mutant(
        "a backslash of a docstring is two", "python/docstrings.py",
        'if "r" not in opening["prefix"].lower():', 'if opening["prefix"] == "b":',
        "_formats.py::test_two_backslashes_of_a_docstring_are_one",
    ),
    _mutant(
        "all docstrings are one section", "python/docstrings.py",
        "(?P<title> \\f )", "(?P<title> \\v )",
        "_formats.py::test_a_docstring_is_a_section",
    ),
    _mutant(
        "what is said again stands where it stood first", READING,
        "return [_again(each, formula, places) for each in found]", "return found",
        "_rules.py::test_a_formula_that_is_said_again_has_a_place_of_its_own",
    ),
    _mutant(
        "another form of an index is an equation", READING,
        "isinstance(one, Tensor) and isinstance(other, Tensor) and one.name == other.name", "one is other",
        ".py::test_what_people_mean_is_no_finding[a split index]",
    ),
    # ------------------------------------------------------------------------------- what is read, and what is unsaid
    _mutant(
        "a function of the author's sums nothing", DOCUMENTS,
        'unsaid = {"E301", "E302", "E306"} if calls else', 'unsaid = {"E301", "E302", "E306"} if None in calls else',
        UNSAID.format("a function of several things"),
    ),
    _mutant(
        "a letter in brackets above is no index", DOCUMENTS,
        "{*inside, *_LABEL.findall(latex), *forms}", "{*inside, *forms}",
        UNSAID.format("a letter in brackets above"),
    ),
    _mutant(
        "a bar makes another axis", DOCUMENTS,
        "{*inside, *_LABEL.findall(latex), *forms}", "{*inside, *_LABEL.findall(latex)}",
        UNSAID.format("an index and the same with a bar"),
    ),
    _mutant(
        "what stands in a norm is checked", DOCUMENTS,
        "{*inside, *_LABEL.findall(latex), *forms}", "{*_LABEL.findall(latex), *forms}",
        UNSAID.format("an operator over what it may choose"),
    ),
    _mutant(
        "a definition that leaves slots out is one", RULES,
        "and not read.findings and whole:", "and not read.findings:",
        UNSAID.format("a definition that leaves slots out"),
    ),
    _mutant(
        "what does not depend on an index lacks it", BALANCE,
        "or (left.name[0] == right.name[0] and needed(right) < needed(left))", "",
        UNSAID.format("what does not depend on all"),
    ),
    _mutant(
        "only one letter is fixed", LEGEND,
        "for letter in _LETTERS.findall(match[1]))", "for letter in _LETTERS.findall(match[1])[:1])",
        UNSAID.format("letters that are fixed"),
    ),
    _mutant(
        "vectors in bold are numbers", LETTERS,
        "return sum(map(bool, slots)) > 1 and 1 in slots", "return 1 in slots[:0]",
        UNREAD,
    ),
    _mutant(
        "a Greek label is no index", LETTERS,
        "return bool(command) and any(", "return bool(command) and all(",
        UNREAD,
    ),
    _mutant(
        "a letter on both sides is an index or a label", LETTERS,
        "known = self.indices | (", "known = self.indices & (",
        "_reading.py::test_a_letter_on_both_sides_is_right_as_either",
    ),
    _mutant(
        "a sum takes its bracket", READING,
        'if self.peek().text != "sum":', 'if self.peek().text:',
        SAID.format("a sum over brackets"),
    ),
    _mutant(
        "a function takes the bound of a sum", SPELLING,
        "taken = self.before() in _TAKING", "taken = False",
        SAID.format("a sum in a logarithm"),
    ),
    _mutant(
        "what stands above is a power", SCRIPTS,
        "self.at, found.staggered = at + 2, True", "self.at, found.staggered = at + 2, False",
        SAID.format("indices above and below"),
    ),
    _mutant(
        "a contraction is a slip", DOCUMENTS,
        '{"E305"} if _STAGGERED.search(latex) else', '{"E305"} if None else',
        UNSAID.format("a contraction"),
    ),
    _mutant(
        "an energy is a mean", SPELLING,
        'self.marks[fence[0]].text == "[")', 'self.marks[fence[0]].text)',
        UNSAID.format("an energy"),
    ),
    _mutant(
        "a derivative has a slot", SPELLING,
        "        self.depends(joined(self.text.source, self.scripts(Scripts()).below), mark)\n", "",
        UNSAID.format("a derivative by what is no index here"),
    ),
    _mutant(
        "a word is made of indices", LETTERS,
        "return frozenset(words if len(tensors) > 1 else words - {left})", "return frozenset()",
        "_reading.py::test_a_word_below_a_name_is_no_indices",
    ),
    _mutant(
        "a matrix of a vector is an index", LETTERS,
        "            yield other.name\n\n\ndef _letters_of", "            yield from ()\n\n\ndef _letters_of",
        UNREAD,
    ),
    _mutant(
        "a shape has indices", SCRIPTS,
        'or "\\\\times" in part.text):', 'or "\\\\no" in part.text):',
        SAID.format("a shape"),
    ),
)  # fmt: skip
