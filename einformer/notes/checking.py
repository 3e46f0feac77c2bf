"""Checks the equations of a document, and counts how many of them are read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from einformer.errors import Finding, Source, Span
from einformer.language.tree import Expression, Tensor
from einformer.language.walk import find_all
from einformer.notes.documents.pieces import Document, Formula, Section, Words
from einformer.notes.documents.signs import BOLD, LETTERED
from einformer.notes.documents.subscripts import restore_marks
from einformer.notes.judge import JudgedLine, SectionContext, find_empty_sums, judge_section, regroup
from einformer.notes.legend import (
    Stated,
    StatedSize,
    find_conflicts,
    find_legends,
    print_legend,
    read_fixed,
    read_shapes,
    read_sizes,
)
from einformer.notes.letters import NO_LEGEND, Letters, drop_labels, find_contracted, find_labelled, propose, slot_letters
from einformer.notes.reading import DocumentEquation, Side, Told, read_equations
from einformer.notes.specifications import check_specification, is_specification

_FONT = re.compile(rf"`([^\W\d_])(?:{'|'.join(sorted({*LETTERED, *BOLD}))})")  # the names `Amathcal` and `A` are two
_CAUSAL = ("causal", "autoregressive")


@dataclass(frozen=True, slots=True)
class EquationVerdict:
    """The result for one equation: its findings, or the reason why it is skipped."""

    equation: DocumentEquation
    skipped: str
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class Checked:
    """The result for a file: its text, its findings in order, the verdicts on its equations, and for Python its names."""

    source: Source
    findings: tuple[Finding, ...]
    verdicts: tuple[EquationVerdict, ...] = ()
    names: int = 0  # with a suffix that says their axes
    proposal: str = ""  # a legend with which the equations that have none could be judged

    # The reason is empty for equations that are read.
    def counts(self) -> Counter[str]:
        return Counter(verdict.skipped for verdict in self.verdicts)


@dataclass(slots=True)
class _Parts:
    """A section with the formulas that are read of it, their trees by its legend, and the sizes that hold in it."""

    section: Section
    equations: list[DocumentEquation]
    sizes: list[StatedSize]
    lines: list[JudgedLine] = field(default_factory=list)
    letters: Letters = field(default_factory=lambda: Letters(frozenset(), frozenset(), complete=False))
    trees: list[list[Expression]] = field(default_factory=list)
    known: dict[str, StatedSize] = field(default_factory=dict)


# Checks every equation of a document. `given` holds the letters of the legend from the settings, with their sizes.
def check_document(source: Source, document: Document, given: Mapping[str, str]) -> Checked:
    before: Told = {}
    parts = [_read_section(section, document, before) for section in document.sections]
    own = {bound.letter: bound for part in reversed(parts) for bound in part.sizes}
    settings = {letter: StatedSize(letter, size) for letter, size in given.items()}
    everything = [equation for part in parts for equation in part.equations]
    stated = sorted(own)
    proposed = [*stated, *(letter for letter in propose(everything) if letter not in own)]
    causal = any(word in part.section.prose.text.lower() for part in parts if part.section.prose for word in _CAUSAL)
    _understand_parts(parts, own, settings)
    contracted = _drop_labels(parts)
    uses, verdicts, findings = _count_uses(parts), list[EquationVerdict](), list[Finding]()
    doubts = dict[tuple[int, Letters], tuple[str, str]]()
    for part in parts:
        verdicts += map(_check_whole_text, filter(is_specification, part.section.formulas))
        verdicts_of_part = list(_judge(part, Letters(frozenset(proposed), part.letters.sizes, complete=True), doubts))
        shapes, fixed = read_shapes(part.section), read_fixed(part.section)
        covariant = any(contracted.get(id(trees)) for trees in part.trees)
        judge_section(part.lines, SectionContext(Stated.of_sizes(part.known), shapes, fixed, causal, covariant, uses))
        by_equation = {id(line.written): tuple(_locate(line)) for line in part.lines}
        verdicts += [
            EquationVerdict(v.equation, v.skipped, by_equation.get(id(v.equation), v.findings)) for v in verdicts_of_part
        ]
        findings += find_conflicts(part.sizes)
    findings += [finding for verdict in verdicts for finding in verdict.findings]
    verdicts = [v for v in verdicts if v.equation.right is not None]
    sized = [own.get(letter, StatedSize(letter, "")) for letter in proposed]
    proposal = print_legend(sized) if any(verdict.skipped == NO_LEGEND for verdict in verdicts) else ""
    return Checked(source, tuple(sorted(findings, key=_place_of)), tuple(verdicts), proposal=proposal)


def _understand_parts(parts: Sequence[_Parts], own: dict[str, StatedSize], settings: dict[str, StatedSize]) -> None:
    understood = _Understood()
    for part, legend in zip(parts, _find_legends(parts, settings), strict=True):
        stated_here = {bound.letter: bound for bound in reversed(part.sizes)}
        part.known = own | stated_here | {letter: size for letter, size in legend.items() if size.size}
        names = frozenset(letter for bound in part.known.values() for letter in bound.size if letter.isupper())
        part.letters = Letters(frozenset(legend or stated_here), names, bool(legend))
        part.trees = [
            [] if equation.skipped else _understand(equation, part.letters, understood) for equation in part.equations
        ]


# Returns the letters that each list of trees contracts. A formula that stands again has the same list, examined once.
def _drop_labels(parts: Sequence[_Parts]) -> dict[int, set[str]]:
    distinct = {id(trees): trees for part in parts if part.letters.complete for trees in part.trees}
    labels = find_labelled(distinct.values())
    plain = {number: drop_labels(trees, labels) for number, trees in distinct.items()}
    contracted = {id(trees): find_contracted(trees) for trees in plain.values()}
    everywhere = frozenset[str]().union(*contracted.values())
    for part in parts:
        if part.letters.complete:
            part.letters = replace(part.letters, contracted=everywhere)
            part.trees = [plain[id(trees)] for trees in part.trees]
    return contracted


# Of each tensor with each number of slots. A formula that stands again counts once.
def _count_uses(parts: Sequence[_Parts]) -> Counter[tuple[str, int]]:
    distinct = {id(trees): trees for part in parts for trees in part.trees}
    tensors = (x for trees in distinct.values() for side in trees for x in find_all(Tensor, side))
    places = {(x.name, len(slot_letters(x)), x.span.source.text, x.span.start) for x in tensors}
    return Counter((name, count) for name, count, _, _ in places)


# The legend of each section: the last that a comment or a block gives before its end, else that of the settings.
def _find_legends(parts: Sequence[_Parts], settings: dict[str, StatedSize]) -> Iterator[dict[str, StatedSize]]:
    spans = [[_span_of(piece) for piece in part.section.pieces] for part in parts]
    sources = list({id(span.source): span.source for section in spans for span in section}.values())
    places = {id(source): number for number, source in enumerate(sources)}
    legends = [((number, place), legend) for number, source in enumerate(sources) for place, legend in find_legends(source)]
    for section in spans:
        end = max(((places[id(span.source)], span.end) for span in section), default=(-1, 0))
        before = [legend for place, legend in legends if place < end]
        yield {stated.letter: stated for stated in before[-1]} if before else settings


def _span_of(piece: Words | Formula) -> Span:
    return (piece.latex if isinstance(piece, Formula) else piece.text).span()


def _read_section(section: Section, document: Document, memo: Told) -> _Parts:
    plain = [formula for formula in section.formulas if not is_specification(formula)]
    equations_of_section = [equation for formula in plain for equation in read_equations(formula, document.macros, memo)]
    return _Parts(section, equations_of_section, list(read_sizes(section)))


def _check_whole_text(formula: Formula) -> EquationVerdict:
    side = Side(formula.latex, formula.latex, None)
    return EquationVerdict(DocumentEquation(formula, side, side), "", tuple(check_specification(formula)))


_Understood = dict[tuple[int, int, Letters], list[Expression]]


# Notes write `$z_{bsd}$` on every page, and it means the same under the same legend.
def _understand(equation: DocumentEquation, letters: Letters, understood: _Understood) -> list[Expression]:
    key = id(equation.left.tree), id(equation.right and equation.right.tree), letters
    if key not in understood:
        understood[key] = [] if equation.skipped else letters.understand(equation)
    return understood[key]


# `wider` are the letters of a legend that the document could have.
def _judge(part: _Parts, wider: Letters, doubts: dict[tuple[int, Letters], tuple[str, str]]) -> Iterator[EquationVerdict]:
    letters = part.letters
    for equation, trees in zip(part.equations, part.trees, strict=True):
        if (key := (id(trees), letters)) not in doubts and not equation.skipped:
            doubts[key] = letters.doubt(*trees), letters.find_unknown(*trees)
        skipped, unknown = (equation.skipped, "") if equation.skipped else doubts[key]
        if not skipped and unknown:
            skipped = unknown
            if not letters.complete:
                skipped = wider.doubt(*wider.understand(equation)) or NO_LEGEND
        elif not skipped:
            part.lines.append(
                JudgedLine(equation, *regroup(*trees)) if len(trees) > 1 else JudgedLine(equation, trees[0], None)
            )
        sides = [side for side in equation.sides if side.tree and skipped == NO_LEGEND]
        empty = (replace(f, span=side.place(f.span)) for side in sides if side.tree for f in find_empty_sums(side.tree))
        yield EquationVerdict(equation, skipped, tuple(empty))


# Findings at their places in the file, with the letters as the author wrote them.
def _locate(line: JudgedLine) -> Iterator[Finding]:
    for finding in line.findings:
        message, fix, *facts = (
            restore_marks(_FONT.sub(r"`\1", text)) for text in (finding.message, finding.fix, *filter(None, finding.facts))
        )
        yield replace(finding, message=message, fix=fix, facts=tuple(dict.fromkeys(facts)), span=line.place(finding.span))


def _place_of(finding: Finding) -> tuple[str, int]:
    return finding.span.source.name, finding.span.start


# A notebook is checked in parts, its cells.
def merge(parts: Sequence[Checked], source: Source) -> Checked:
    findings = tuple(finding for part in parts for finding in part.findings)
    verdicts = tuple(verdict for part in parts for verdict in part.verdicts)
    proposal = next((part.proposal for part in parts if part.proposal), "")
    return Checked(source, findings, verdicts, sum(part.names for part in parts), proposal)
