r"""Which scripts has a name, and which of them are no indices but part of it?"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from einformer.language.latex_marks import LETTERS
from einformer.lint.notes.parts import Parts
from einformer.lint.notes.pieces import Passage
from einformer.lint.notes.signs import LABELS, WORDS

LETTER, COMMAND, PRIME = re.compile(r"[^\W\dA-Z_]'*"), re.compile(r"\\[A-Za-z]+"), re.compile(r"\^?\{?\s*\\prime\s*\}?")
TRANSPOSED = re.compile(r"(?:\\(?:mathrm|text|mathsf)\b)?\{?\s*(?:T|\\top|\\intercal|\\dagger)\s*\}?")
_PRIMES = re.compile(r"(?:\\prime|'|\s)+")
_WORD = re.compile(r"(?:\\(?:text|textrm|textsf|texttt|mathrm|rm|operatorname|mbox|mathit)\b)?[{\s]*([A-Za-z0-9 \-/]+?)[}\s]*")
_LABEL = re.compile(
    r"(?:[A-Z][A-Za-z0-9]*|\\[A-Za-z]+)(?:\s*[-+]\s*[0-9]+)?'*|[0-9]+|\*|\{\\rm [A-Za-z ]+\}|\\[A-Za-z]+\{[A-Za-z ]+\}"
)
_LAYER = re.compile(r"\([A-Za-z0-9+\- ]*\)|\\prime|\\star")
_WORDS = re.compile(rf"\\(?:{'|'.join(sorted(WORDS))})\s*\{{[^{{}}]*\}}")
_PARTED = r",|;|\\[,;:!]|~"
_LABELLED = re.compile(rf"\s*([A-Z](?=\s+[a-z])|[^\s,]+?(?=\s*(?:{_PARTED}))|{_WORDS.pattern})\s*(?:{_PARTED})?\s*")


def letters(text: str) -> list[str]:
    """The letters in a text that may be indices: those of no word and of no command."""
    return LETTER.findall(COMMAND.sub(" ", _WORDS.sub(" ", PRIME.sub("'", text))))


@dataclass(slots=True)
class Scripts:
    """What stands at a name: labels, which are part of it, primes, slots, powers; after `{}` all scripts are slots."""

    tag: str = ""
    primes: str = ""
    below: list[Passage] = field(default_factory=list)
    above: list[Passage] = field(default_factory=list)
    staggered: bool = False


class Names(Parts):
    """A cursor that reads the scripts of names."""

    def scripts(self, found: Scripts) -> Scripts:
        """The scripts that follow, added to those found before."""
        while (sign := self.script()) or self.staggers(found):
            if sign == "'":
                found.primes += "'"
            elif sign:
                self.sort(sign, self.argument(), found)
        return found

    def sort(self, sign: str, part: Passage, found: Scripts) -> None:
        """A script: a prime, a label, a slot, a power."""
        text = PRIME.sub("'", part.text).strip()
        if _PRIMES.fullmatch(part.text):
            found.primes += "'" * (part.text.count("\\prime") + part.text.count("'"))
        elif sign == "_" and ("\\sim" in part.text or "\\times" in part.text):
            pass  # what is drawn from where, or a shape, says nothing of indices
        elif found.staggered and (text.removeprefix("\\") in LETTERS or sign == "^"):
            found.below.append(part)
        elif sign == "_" and (label := self.label(text)):
            found.tag += label
        elif sign == "_":
            found.below.append(self.unlabelled(part, found))
        elif self.is_tag(text, bool(found.below)):
            found.tag += "".join(filter(str.isalnum, text.replace("\\rm", "").replace("\\text", "")))
        else:
            found.above.append(part)

    def staggers(self, found: Scripts) -> bool:
        """`T^i{}_j{}^k`: an empty group says that what stands above are slots as well, in the order of the text."""
        at = self.past(self.at)
        texts = [mark.text for mark in self.marks[at : at + 3]]
        if texts[:2] != ["{", "}"] or texts[2:] not in (["^"], ["_"]):
            return False
        self.at, found.staggered = at + 2, True
        found.below, found.above = [*found.above, *found.below], []
        return True

    def unlabelled(self, part: Passage, found: Scripts) -> Passage:
        """A subscript without the label that it begins with, `W_{Q, ij}`; the label becomes part of the name."""
        first = _LABELLED.match(part.text)
        label = self.label(first[1]) if first else ""
        if not (first and label) or label[0].isdigit() or first[1].lstrip("\\") in LETTERS:
            return part
        found.tag += label
        return part.cut(first.end(), len(part.text))

    def label(self, text: str) -> str:
        """What a subscript adds to the name if it is a label: a word, capitals, Greek, a number; else nothing."""
        word = _WORD.fullmatch(text)
        if word and (text[0] in "\\{" or word[1] in LABELS):
            return "".join(filter(str.isalnum, word[1]))
        plain = text.removeprefix("{").removesuffix("}") if text.startswith("{\\rm") else text
        return "".join(filter(str.isalnum, plain)) if _LABEL.fullmatch(plain) else ""

    def is_tag(self, text: str, below: bool) -> bool:
        """Is a superscript part of the name? Capitals, words, stars, `(l)`; a number or a transposition before a subscript."""
        if TRANSPOSED.fullmatch(text):
            return not below and self.follows("_")
        if text in ("0", "1"):  # nobody writes these powers
            return True
        return bool(_LABEL.fullmatch(text) or _LAYER.fullmatch(text)) and not (
            text.isdigit() and (below or not self.follows("_"))
        )

    def has_slots(self) -> bool:
        r"""Is this `\mathbf{x}_i`, a tensor by name? Without a slot a bold letter is a vector or a matrix as a whole."""
        at = self.at
        self.argument()
        text = self.argument().text if self.accepts("_") else ""
        self.at = at
        return not self.label(text.strip()) and bool(letters(text))
