"""What is wrong with the equations of a document, and how many of them are read?"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from einformer.errors import Finding, Source
from einformer.language.calls import axis_of
from einformer.language.tree import Apply, Index
from einformer.language.walk import subexpressions
from einformer.lint.balance import axes_told, regrouped
from einformer.lint.legend import Known, Sizes, declared, fixed, stated, two_sizes
from einformer.lint.letters import Letters, slot_letters
from einformer.lint.notes.decorated import ambiguous, printed
from einformer.lint.notes.pieces import Document, Formula, Section
from einformer.lint.notes.signs import OF_AUTHOR
from einformer.lint.reading import Equation, Side, Told, equations
from einformer.lint.rules import check_section, located
from einformer.lint.sections import Context, Read
from einformer.lint.specifications import check_specification, is_specification

_LABEL = re.compile(r"\^\s*\{?\s*\(\s*([a-z])'*\s*\)")
_STAGGERED = re.compile(r"\{\s*\}\s*[\^_]")
_CAUSAL = ("causal", "autoregressive")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is said of one equation: that it is read, or why not, and what is wrong with it."""

    equation: Equation
    skipped: str
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class Checked:
    """Of a file: its text, its findings in the order of the text, the verdicts on its equations; of Python, its names."""

    source: Source
    findings: tuple[Finding, ...]
    verdicts: tuple[Verdict, ...] = ()
    names: int = 0  # with a suffix that says their axes

    def counts(self) -> Counter[str]:
        """How many equations are read, under the empty reason, and how many are skipped for which reason."""
        return Counter(verdict.skipped for verdict in self.verdicts)


@dataclass(slots=True)
class _Parts:
    """A section with what is read of it."""

    section: Section
    equations: list[Equation]
    known: list[Known]
    reads: list[Read] = field(default_factory=list)


def check_document(source: Source, document: Document, given: Mapping[str, str]) -> Checked:
    """Every equation of a document; `given` are sizes of letters that its reader was told."""
    before: Told = {}
    parts = [_parts(section, document, before) for section in document.sections]
    own = {known.letter: known for part in reversed(parts) for known in part.known}
    told = {letter: Known(letter, size) for letter, size in given.items()}
    names = {known.size for known in (*own.values(), *told.values())}
    everything = [equation for part in parts for equation in part.equations]
    letters = Letters.of(everything, [*own, *told], names)
    primed = any(isinstance(x, Index) and "'" in x.letter for equation in everything for x in equation.nodes())
    causal = any(word in part.section.prose.text.lower() for part in parts if part.section.prose for word in _CAUSAL)
    verdicts, findings = list[Verdict](), list[Finding]()
    for part in parts:
        sizes = Sizes(own | {known.letter: known for known in reversed(part.known)} | told)
        verdicts += map(_specification, filter(is_specification, part.section.formulas))
        found = list(_verdicts(part, letters.within(part.equations, [known.letter for known in part.known] + [*told])))
        check_section(
            part.reads,
            Context(sizes, sizes.legend(), declared(part.section), letters.constant, fixed(part.section), primed, causal),
        )
        by_equation = {id(read.equation): tuple(_told(read)) for read in part.reads}
        verdicts += [Verdict(v.equation, v.skipped, by_equation.get(id(v.equation), ())) for v in found]
        findings += two_sizes(part.known)
    findings += [finding for verdict in verdicts for finding in verdict.findings]
    return Checked(source, tuple(sorted(findings, key=_place)), tuple(v for v in verdicts if v.equation.right is not None))


def _parts(section: Section, document: Document, told: Told) -> _Parts:
    plain = [formula for formula in section.formulas if not is_specification(formula)]
    found = [equation for formula in plain for equation in equations(formula, document.macros, told)]
    return _Parts(section, found, list(stated(section)))


def _specification(formula: Formula) -> Verdict:
    side = Side(formula.latex, formula.latex, None)
    return Verdict(Equation(formula, side, side), "", tuple(check_specification(formula)))


def _verdicts(part: _Parts, letters: Letters) -> Iterator[Verdict]:
    """Each equation with the reason why it is skipped, if it is; the others become the section's trees."""
    for equation in part.equations:
        skipped = equation.skipped
        if not skipped:
            trees = letters.understood(equation)
            skipped = letters.doubt(*trees)
            if not skipped:
                part.reads.append(Read(equation, *regrouped(*trees)) if len(trees) > 1 else Read(equation, trees[0], None))
        yield Verdict(equation, skipped)


def _told(read: Read) -> Iterator[Finding]:
    """What is certain of an equation, in the words of its author."""
    for finding in filter(functools.partial(_is_certain, read), read.findings):
        found = located(read, finding)
        facts = tuple(map(printed, found.facts))
        yield replace(found, message=printed(found.message), facts=facts, fix=printed(found.fix))


def _is_certain(read: Read, finding: Finding) -> bool:
    r"""What a function of the author's does with indices is not known: it may sum those inside it, and make others.

    Nor is known whether `A^{(h)}` has the index `h`, and what `t` and `\bar{t}` in one equation have to do with each other.
    An index twice on `R^l{}_{ilj}` is contracted.
    """
    calls = [x for x in (*subexpressions(read.left), *read.made_of) if isinstance(x, Apply) and x.name.endswith(OF_AUTHOR)]
    inside = {axis_of(x.letter) for call in calls for x in subexpressions(call) if isinstance(x, Index)}
    latex = read.equation.formula.latex.text
    forms = ambiguous({axis for x in read.tensors for axis in map(axis_of, slot_letters(x))})
    unsaid = {"E301", "E302", "E306"} if calls else {"E305"} if _STAGGERED.search(latex) else set[str]()
    return finding.code not in unsaid and not axes_told([finding]) & {*inside, *_LABEL.findall(latex), *forms}


def _place(finding: Finding) -> tuple[str, int]:
    return finding.span.source.name, finding.span.start


def merged(parts: Sequence[Checked], source: Source) -> Checked:
    """Several parts of one file, as the cells of a notebook."""
    findings = tuple(finding for part in parts for finding in part.findings)
    verdicts = tuple(verdict for part in parts for verdict in part.verdicts)
    return Checked(source, findings, verdicts, sum(part.names for part in parts))
