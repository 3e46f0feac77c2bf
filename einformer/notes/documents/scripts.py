"""Reads the scripts of a name, and separates indices from labels, which are part of the name."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from einformer.language.latex_reader import LETTERS
from einformer.notes.documents.parts import Cursor
from einformer.notes.documents.pieces import Passage
from einformer.notes.documents.signs import BOLD, CONTRACTED, OF_COMMA, WORDS

LETTER, COMMAND, PRIME = re.compile(r"[^\W\dA-Z_]'*"), re.compile(r"\\[A-Za-z]+"), re.compile(r"\^?\{?\s*\\prime\s*\}?")
TRANSPOSED = re.compile(r"(?:\\(?:mathrm|text|mathsf)\b)?\{?\s*(?:T|\\top|\\intercal|\\dagger)\s*\}?")
_PRIMES = re.compile(r"(?:\\prime|'|\s)+")
_WORD = re.compile(r"(?:\\(?:text|textrm|textsf|texttt|mathrm|rm|operatorname|mbox|mathit)\b)?[{\s]*([A-Za-z0-9 \-/]+?)[}\s]*")
_LABEL = re.compile(r"[A-Z][A-Za-z0-9]*(?:\s*[-+]\s*[0-9]+)?'*|[0-9]+|\*|\\[A-Za-z]+\{[A-Za-z ]+\}")
_OLD = re.compile(r"\{?\s*\\(?:rm|it|sf|tt|bf)\b")  # a word to the end of its group
_LAYER = re.compile(r"\([A-Za-z0-9+\- ]*\)|\\prime|\\star")
_WORDS = re.compile(rf"\\(?:{'|'.join(sorted(WORDS))})\s*\{{[^{{}}]*\}}")
_DERIVATIVE, _COMMA = re.compile(r"\s*(?:[a-z]\s*){2,},\s*(?:[a-z]\s*)+|\s*[a-z]\s*,\s*(?:[a-z]\s*){2,}"), re.compile(",")
_TOKEN = re.compile(r"[a-z]'*|\\[a-z]+")
_POINT = re.compile(r"\\(?:bullet|cdot)(?![A-Za-z])")
_SLOT = re.compile(rf"{_POINT.pattern}|[a-z]|[0-9]")
_VECTOR = (
    rf"(?:\\(?:{'|'.join(BOLD)})\s*\{{\s*([A-Za-z])\s*\}}|\{{\s*\\(?:bf|{'|'.join(BOLD)})\s+([A-Za-z])\s*\}}"
    rf"|\\(?:bf|{'|'.join(BOLD)})\s+([A-Za-z])(?![A-Za-z]))"
)
_BOLD = re.compile(rf"(?:,\s*{_VECTOR}|{_VECTOR}\s*,?)")  # with the comma that parts it
_PARTED = r",|;|\\[,;:!]|~"
_LABELLED = re.compile(rf"\s*([A-Z](?=\s+[a-z])|[^\s,]+?(?=\s*(?:{_PARTED}))|{_WORDS.pattern})\s*(?:{_PARTED})?\s*")


# Returns the letters in a text that may be indices: not in words, and not in commands.
def find_letters(text: str) -> list[str]:
    return LETTER.findall(COMMAND.sub(" ", _WORDS.sub(" ", PRIME.sub("'", text))))


@dataclass(slots=True)
class Scripts:
    """The scripts of a name: labels, which are part of it, primes, slots and powers. After `{}` all scripts are slots."""

    tag: str = ""
    primes: str = ""
    below: list[Passage] = field(default_factory=list)
    above: list[Passage] = field(default_factory=list)
    staggered: bool = False


class ScriptReader(Cursor):
    """A cursor that reads the scripts of names."""

    def read_scripts(self, scripts: Scripts) -> Scripts:
        while (sign := self.script()) or self.staggers(scripts):
            if sign == "'":
                scripts.primes += "'"
            elif sign:
                self.sort_script(sign, self.read_argument(), scripts)
        if scripts.staggered:
            self.contract(scripts)
        return scripts

    # A script is a prime, a label, a slot or a power.
    def sort_script(self, sign: str, part: Passage, scripts: Scripts) -> None:
        text = PRIME.sub("'", part.text).strip()
        if _PRIMES.fullmatch(part.text):
            scripts.primes += "'" * (part.text.count("\\prime") + part.text.count("'"))
        elif sign == "_" and ("\\sim" in part.text or "\\times" in part.text):
            pass  # a distribution or a shape has no indices
        elif scripts.staggered and (text.removeprefix("\\") in LETTERS or sign == "^"):
            scripts.below.append(part)
        elif sign == "_" and (label := self.find_label(text)):
            scripts.tag += label
        elif sign == "_":
            part = self.remove_label(self.remove_points(part, scripts), scripts)
            if _DERIVATIVE.fullmatch(part.text):  # another tensor, of which the last slots are of the derivative
                scripts.tag, part = f"{scripts.tag}{OF_COMMA}", part.sub(_COMMA, " ")
            scripts.below += [part] if part.text.strip() else []
        elif self.is_tag(text, bool(scripts.below)):
            scripts.tag += "".join(filter(str.isalnum, text.replace("\\rm", "").replace("\\text", "")))
        else:
            scripts.above.append(part)

    # Removes the letters that `\Gamma^c{}_{cb}` has above and below, which are summed. What is left is another
    # tensor.
    def contract(self, scripts: Scripts) -> None:
        count = Counter(token for part in scripts.below for token in _TOKEN.findall(part.text))
        for token in (token for token, times in count.items() if times > 1):
            again = re.compile(re.escape(token) + "(?![A-Za-z])" * token.startswith("\\"))
            scripts.below = [rest for part in scripts.below if (rest := part.sub(again, "")).text.strip()]
            scripts.tag += CONTRACTED

    # After the empty group of `T^i{}_j{}^k` upper scripts are slots too, in the order of the text.
    def staggers(self, scripts: Scripts) -> bool:
        position = self.skip(self.at)
        texts = [mark.text for mark in self.marks[position : position + 3]]
        if texts[:2] != ["{", "}"] or texts[2:] not in (["^"], ["_"]):
            return False
        self.at, scripts.staggered = position + 2, True
        scripts.below, scripts.above = [*scripts.above, *scripts.below], []
        return True

    # A label at the beginning of a subscript, `W_{Q, ij}`, belongs to the name.
    def remove_label(self, part: Passage, scripts: Scripts) -> Passage:
        first = _LABELLED.match(part.text)
        label = self.find_label(first[1]) if first else ""
        if not (first and label) or label[0].isdigit() or first[1].lstrip("\\") in LETTERS:
            return part
        scripts.tag += label
        return part.cut(first.end(), len(part.text))

    # Removes what is not an index: a bold letter, `f_{n\mathbf{k}}`, and the mark of a slot that is summed,
    # `\bar{y}_{i \bullet}`. The name keeps it.
    def remove_points(self, part: Passage, scripts: Scripts) -> Passage:
        marks = [match[0] for match in _SLOT.finditer(part.text)]
        points = "".join(str(number) for number, mark in enumerate(marks, 1) if mark.startswith("\\"))
        vectors = "".join(next(filter(None, match.groups())) for match in _BOLD.finditer(part.text))
        scripts.tag += f"bullet{points}{vectors}" if points else vectors
        return part.sub(_POINT, " ").sub(_BOLD, " ")

    # A label is a word, capitals, Greek or a number.
    def find_label(self, text: str) -> str:
        word = _WORD.fullmatch(text)
        if word and text[0] in "\\{":
            return "".join(filter(str.isalnum, word[1]))
        if old := _OLD.match(text):
            return "".join(filter(str.isalnum, text[old.end() :]))
        return "".join(filter(str.isalnum, text)) if _LABEL.fullmatch(text) else ""

    # A superscript is part of the name if it is capitals, words, stars, `(l)`. A number or a transposition is one if a
    # subscript follows.
    def is_tag(self, text: str, below: bool) -> bool:
        if TRANSPOSED.fullmatch(text):
            return not below and self.follows("_")
        if text in ("0", "1") or _OLD.match(text):  # nobody writes these powers
            return True
        return bool(_LABEL.fullmatch(text) or _LAYER.fullmatch(text)) and not (
            text.isdigit() and (below or not self.follows("_"))
        )

    # `\mathbf{x}_i` has slots. Without slots a bold letter is a vector or a matrix.
    def has_slots(self) -> bool:
        start, below = self.at, ""
        self.read_argument()
        while sign := self.script():
            part = self.read_argument() if sign != "'" else None
            below += part.text if part and sign == "_" else ""
        self.at = start
        return not self.find_label(below.strip()) and bool(find_letters(below))
