r"""How is a formula of notes spelled in the LaTeX of the language? Accents and labels become names, `_{i,j}` is `_{ij}`.

What has no counterpart stays as it is: the reader of the language refuses it, and the formula is counted as skipped.
"""

from __future__ import annotations

import re

from einformer.lint.notes.macros import partner
from einformer.lint.notes.pieces import Passage, joined
from einformer.lint.notes.signs import ACCENTS, BOLD, LABELS, LETTERED, OPERATORS, RESPELLED, WORDS
from einformer.notation.latex_marks import CASES, LETTERS, NAMED, Mark, marks

_PRIMES = re.compile(r"(?:\\prime|'|\s)+")
_WORD = re.compile(r"(?:\\(?:text|textrm|textsf|texttt|mathrm|rm|operatorname|mbox|mathit)\b)?[{\s]*([A-Za-z0-9 \-/]+?)[}\s]*")
_LABEL = re.compile(r"[A-Z][A-Za-z0-9]*'*|[0-9]+|\\[A-Za-z]+|\*|\{\\rm [A-Za-z ]+\}|\\[A-Za-z]+\{[A-Za-z ]+\}")
_LAYER = re.compile(r"\([A-Za-z0-9+\- ]*\)|\\prime|\\star")
_TRANSPOSED = re.compile(r"(?:\\(?:mathrm|text|mathsf)\b)?\{?\s*(?:T|\\top|\\intercal|\\dagger)\s*\}?")
_COMMA = re.compile(r"\s*(?:,|;|\\[,;:!]|~)\s*")
_STEP = re.compile(r"(?<![\w(+\-'])((?:[0-9] ?)?[a-z]'*) *([+-]) *([0-9]+|[a-z]'*)(?![\w(])")
_LAST_STEP = re.compile(r"(?<=[\w'])([a-z]'*) *([+-]) *([0-9]+|[a-z]'*)\s*$")
_BRACES, _PRIME = re.compile(r"\\[{}]"), re.compile(r"\^?\{?\s*\\prime\s*\}?")
_DEFINED_AS, _STOP = re.compile(r":\s*="), re.compile(r"\.(?=\s|\\|$|\})")
_BOUND = re.compile(r"\s*([a-z]'*(?:[\s,]*[a-z]'*)*)\s*(?:(=|\\leq?\b|<|>|\\in\b|\\neq?\b|\\geq?\b).*)?", re.DOTALL)
_SPACED = re.compile(r"[\s,]+")
_LETTER, _COMMAND = re.compile(r"[a-z]'*"), re.compile(r"\\[A-Za-z]+")
_RUN = re.compile(r"\s*\{\s*[A-Za-z]\s*\}\s*_\s*\{\s*[a-z]'*[\s,]*[a-z]")
_OLD = frozenset(("rm", "bf", "it", "tt", "sf"))
_SUMS = {"sum": "sum", "max": "max", "min": "min", "prod": "sum"}  # a product over an index binds it as a sum does


def spelled(formula: Passage) -> Passage:
    """The formula as the reader of the language takes it."""
    return _Speller(formula.sub(_DEFINED_AS, "=").sub(_STOP, " ")).all()


class _Speller:
    """A cursor over the marks of a formula, which writes pieces of another."""

    def __init__(self, text: Passage) -> None:
        self.text, self.marks = text, list(marks(text.text))
        self.at = self.cases = 0
        self.made: list[Passage] = []

    def all(self) -> Passage:
        """The whole formula."""
        while self.at < len(self.marks):
            self.mark(self.marks[self.at])
        return joined(self.text.source, self.made)

    def mark(self, mark: Mark) -> None:
        """One mark, or as many as belong to it."""
        self.at += 1
        name = mark.command if mark.kind == "command" else ""
        if mark.kind == "letter" or name in LETTERS:
            self.name("" if mark.kind == "letter" else name, mark)
        elif name == "ell":
            self.name("l", mark, name)
        elif name in ACCENTS or name in LETTERED or (name in BOLD and self.has_run()):
            self.accented(mark)
        elif name in WORDS:
            self.word(mark)
        elif name in _SUMS:
            self.bounded(mark)
        elif name in OPERATORS and name not in NAMED:
            self.operator(OPERATORS[name], mark)
        elif name in ("frac", "dfrac", "tfrac"):
            self.fraction(mark)
        elif name in ("label", "tag"):
            self.argument()
        elif mark.text == "{" and self.at < len(self.marks) and self.marks[self.at].command in _OLD:
            self.old_font(mark)
        elif mark.text == "=" and self.cases and self.made and self.made[-1].text == "&":
            pass  # `-\\infty & = s > s'`: the condition follows the sign
        elif name in RESPELLED:
            self.put(RESPELLED[name], mark)
        elif mark.text in ("[", "]"):
            self.put("()"["[]".index(mark.text)], mark)
        elif mark.kind != "comment" and not (self.cases and mark.is_space and self.made and self.made[-1].text == "&"):
            self.cases += (mark.kind == "begin") - (mark.kind == "end") if mark.command in CASES else 0
            self.made.append(self.text.cut(mark.start, mark.end))

    def put(self, text: str, mark: Mark) -> None:
        """A text of our own at the place of a mark."""
        self.made.append(self.text.put(text, mark.start))

    # ------------------------------------------------------------------------------------------------------ parts

    def spaces(self) -> None:
        """The cursor goes past spaces."""
        while self.at < len(self.marks) and self.marks[self.at].kind in ("space", "newline"):
            self.at += 1

    def argument(self) -> Passage:
        """The next argument, without its braces."""
        self.spaces()
        if self.at >= len(self.marks):
            return Passage(self.text.source, "", ())
        start, end = self.at, min(partner(self.marks, self.at), len(self.marks) - 1)
        if start == end and self.marks[start].kind == "command" and self.marks[start].command in WORDS | LETTERED:
            end = min(partner(self.marks, start + 1), len(self.marks) - 1) if start + 1 < len(self.marks) else start
        self.at = end + 1
        braces = self.marks[start].text == "{" and end > start
        return self.text.cut(self.marks[start].start + braces, self.marks[end].end - braces)

    def inner(self, part: Passage) -> Passage:
        """A part, spelled on its own."""
        return _Speller(part).all()

    # ------------------------------------------------------------------------------------------------------ names

    def accented(self, mark: Mark) -> None:
        r"""`\hat{x}_i` is the name `xhat` with a subscript; `\mathcal{S}` is another name than `S`."""
        argument = self.argument()
        inside = argument.text.strip()
        command = inside.lstrip("\\")
        letter = inside if len(inside) == 1 and inside.isalpha() else LETTERS.get(command, "") if inside != command else ""
        if letter:
            self.name(letter, mark, mark.command)
        else:
            self.made.append(self.text.cut(mark.start, self.marks[self.at - 1].end))

    def has_run(self) -> bool:
        r"""Is this `\mathbf{A}_{cc'a}`, a tensor by name? With fewer letters a bold one is a vector or a matrix."""
        return _RUN.match(self.text.text, self.marks[self.at - 1].end) is not None

    def name(self, name: str, mark: Mark, tag: str = "") -> None:
        """A letter with its scripts; labels among them become part of the name."""
        primes, subscripts, powers = "", list[Passage](), list[Passage]()
        letter = LETTERS.get(name, name) or mark.text
        while sign := self.script():
            if sign == "'":
                primes += "'"
                continue
            part = self.argument()
            text = _PRIME.sub("'", part.text).strip()
            if _PRIMES.fullmatch(part.text):
                primes += "'" * (part.text.count("\\prime") + part.text.count("'"))
            elif sign == "_" and (label := self.label(text)):
                tag += label
            elif sign == "_":
                subscripts.append(part)
            elif self.is_tag(text, bool(subscripts)):
                tag += "".join(filter(str.isalnum, text.replace("\\rm", "").replace("\\text", "")))
            else:
                powers.append(part)
        if letter == "e" and powers and not (subscripts or tag):
            return self.exponential(powers[0], mark)
        self.put(f"\\mathrm{{{letter}{tag}}}{primes}" if tag else f" {letter}{primes}", mark)
        for subscript in subscripts:
            self.scripted("_", self.subscript(subscript), mark)
        for power in powers:
            self.scripted(
                "^", self.text.put("\\top", mark.start) if _TRANSPOSED.fullmatch(power.text) else self.inner(power), mark
            )

    def script(self) -> str:
        """The sign of a script that follows, past spaces; the cursor goes past it."""
        at = self.at
        while at < len(self.marks) and self.marks[at].kind in ("space", "newline"):
            at += 1
        sign = self.marks[at].text if at < len(self.marks) else ""
        sign = "'" if sign in ("′", "’") else sign
        if sign in ("'", "^", "_"):
            self.at = at + 1
            return sign
        return ""

    def label(self, text: str) -> str:
        """What a subscript adds to the name if it is a label: a word, capitals, Greek, a number; else nothing."""
        word = _WORD.fullmatch(text)
        if word and (text[0] in "\\{" or word[1] in LABELS):
            return "".join(filter(str.isalnum, word[1]))
        plain = text.removeprefix("{").removesuffix("}") if text.startswith("{\\rm") else text
        return "".join(filter(str.isalnum, plain)) if _LABEL.fullmatch(plain) else ""

    def is_tag(self, text: str, below: bool) -> bool:
        """Is a superscript part of the name? Capitals, words, stars, `(l)`; a number if the subscript follows."""
        if _TRANSPOSED.fullmatch(text):
            return False
        if text in ("0", "1"):  # nobody writes these powers
            return True
        return bool(_LABEL.fullmatch(text) or _LAYER.fullmatch(text)) and not (
            text.isdigit() and (below or not self.follows("_"))
        )

    def follows(self, sign: str) -> bool:
        """Is this the next mark, past spaces?"""
        before = self.at
        found = self.script() == sign
        self.at = before
        return found

    def exponential(self, power: Passage, mark: Mark) -> None:
        """`e^{x}` is `exp(x)`."""
        self.put("\\exp(", mark)
        self.made.append(self.inner(power))
        self.put(")", mark)

    def scripted(self, sign: str, part: Passage, mark: Mark) -> None:
        self.put(sign + "{", mark)
        self.made.append(part)
        self.put("}", self.marks[self.at - 1])

    def subscript(self, part: Passage) -> Passage:
        r"""`i,j` is `ij`, `t-1` is `(t-1)`, `bs+1` is `b(s+1)`, and `\{ij\}` was meant to be `ij`."""
        part = part.sub(_BRACES, "").sub(_PRIME, "'")
        pieces = [piece for piece in _COMMA.split(part.text) if piece]
        if len(pieces) < 2 or all(len(re.sub(r"'|[-+(].*|[0-9]", "", piece).strip()) <= 1 for piece in pieces):
            part = part.sub(_COMMA, " ")
        part = part.sub(_STEP, "(", 1, " ", 2, " ", 3, ")").sub(_LAST_STEP, "(", 1, " ", 2, " ", 3, ")")
        return self.inner(part) if "_" in part.text or "\\" in part.text else part

    # -------------------------------------------------------------------------------------------------- operators

    def word(self, mark: Mark) -> None:
        r"""`\text{ReLU}` is an operator, `\mathrm{d}` a letter; other words stay, and end the statement or leave it unread."""
        argument = self.argument()
        word = argument.text.strip()
        if word in OPERATORS:
            self.operator(OPERATORS[word], mark)
        elif len(word) == 1 and word.isalpha():
            self.name(word, mark, mark.command if mark.command in ("texttt", "mathtt", "textsf") else "")
        else:
            command = "text" if mark.command in ("text", "textrm", "mbox", "textnormal") else "operatorname"
            self.put("\\infty" if word in ("inf", "Inf") else f"\\{command}{{{word}}}", mark)

    def old_font(self, mark: Mark) -> None:
        r"""`{\rm for}` is `\text{for}`."""
        end = partner(self.marks, self.at - 1)
        word = self.text.text[self.marks[self.at].end : self.marks[min(end, len(self.marks) - 1)].start].strip()
        self.at = end + 1
        self.put(f"\\text{{{word}}}", mark)

    def operator(self, name: str, mark: Mark) -> None:
        self.put(f"\\mathrm{{{name}}}", mark)
        while sign := self.script():
            self.scripted(sign, self.subscript(self.argument()) if sign == "_" else self.inner(self.argument()), mark)

    def bounded(self, mark: Mark) -> None:
        r"""`\sum_{j=1}^{N}` is `\sum_{j}`; letters of its bounds stand before it as numbers, since it depends on them."""
        below = above = None
        while (sign := self.script()) and sign != "'":
            below, above = (self.argument(), above) if sign == "_" else (below, self.argument())
        bound = _BOUND.fullmatch(_PRIME.sub("'", below.text)) if below else None
        if below is None or bound is None:
            self.put(f"\\{mark.command}", mark)  # `\\prod` as it is, which is not read
            self.made += [below] if below else []
            return
        summed = below.cut(*bound.span(1)).sub(_SPACED, " ")
        beyond = _COMMAND.sub(" ", " ".join([below.text[bound.end(1) :], above.text if above else ""]))
        outer = [letter for letter in dict.fromkeys(_LETTER.findall(beyond)) if letter not in _LETTER.findall(summed.text)]
        self.put(f" {' '.join(outer)} \\{_SUMS[mark.command]}", mark)
        self.scripted("_", summed, mark)

    def fraction(self, mark: Mark) -> None:
        r"""`\frac{\partial y_i}{\partial x_j}` has the indices of both; so has the fraction without its signs."""
        over, under = self.argument(), self.argument()
        derived = "\\partial" in over.text and "\\partial" in under.text
        for part, sign in ((over, "\\frac{"), (under, "}{")):
            self.put(sign, mark)
            part = part.sub(_PARTIAL, " ") if derived else part
            self.made.append(self.inner(part) if part.text.strip() else self.text.put("1", mark.start))
        self.put("}", mark)


_PARTIAL = re.compile(r"\\partial\b\s*(?:\^\s*(?:\{[^}]*\}|[0-9]))?")
