"""Rewrites a formula of notes in the LaTeX of the language: accents and labels become names, `_{i,j}` becomes `_{ij}`.

Anything without a counterpart stays. The reader of the language refuses it, and the formula counts as skipped.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from einformer.language.latex_reader import CASES, LETTERS, NAMED, TEXTS, Mark
from einformer.notes.documents.macros import find_closing
from einformer.notes.documents.parts import OPENING
from einformer.notes.documents.pieces import Passage, join
from einformer.notes.documents.scripts import PRIME, TRANSPOSED, ScriptReader, Scripts, find_letters
from einformer.notes.documents.signs import (
    ACCENTS,
    BOLD,
    DERIVED,
    DOTS,
    LETTERED,
    OF_AUTHOR,
    OPERATORS,
    PARTING,
    RESPELLED,
    TIED,
    WORDS,
)
from einformer.notes.documents.subscripts import ELLIPSIS, replace_marks, rewrite_slots

_SPACED = re.compile(r"(?:[\s,<≤]|\\(?:leq?|leqslant|lt)(?![A-Za-z]))+")
_DEFINED_AS, _STOP = re.compile(r":\s*&?\s*="), re.compile(r"\.(?=\s|\\|$|\})")
_GREEK = rf"\\(?:{'|'.join(sorted(LETTERS))})(?![A-Za-z])"
_INDEX = rf"(?:[^\W\dA-Z_]|{_GREEK})'*"
_LESS, _LISTED = r"(?:<|≤|\\(?:leq?|leqslant|lt)(?![A-Za-z]))", rf"{_INDEX}(?:[\s,]*{_INDEX})*"
_ONE, _PLAIN = re.compile(_INDEX), re.compile(rf"\s*{_LISTED}\s*")
_BOUND = re.compile(  # `j`, `(i, j) \in D`, `\langle i j \rangle`, `0 \leq i < j < n`, `j: j \neq i`, `j \text{ odd}`
    rf"\s*(?:[0-9]+\s*{_LESS}\s*({_INDEX}(?:\s*{_LESS}\s*{_INDEX})*)\s*{_LESS}.*"
    rf"|\\langle\s*({_LISTED})\s*\\rangle"
    rf"|\(?\s*({_LISTED})[\s)]*(?:(?:[=<>:|≤≥≠∈]|\\(?!(?:cdot|times|pm|{_GREEK[2:]})\b)[A-Za-z,;]).*)?)",
    re.DOTALL,
)
_AFTER = re.compile(rf"\s*,\s*({_LISTED})\s*")
_STACKED = re.compile(r"\\substack\s*\{(.*)\}", re.DOTALL)
_FONTS = re.compile(r"(?<![_^])\{\s*\\(rm|bf|it|tt|sf)(?![A-Za-z])\s*([^{}]*)\}")  # `{\rm for}`, but `W_{\rm in}` is a label
_INDEXED = re.compile(r"\s*\{\s*(?:[^\W\d_]|\\[a-z]+)\s*_[^}]*\}?\s*\}")
_ROOT = re.compile(r"√\s*(?:\(([^()]*)\)|\{([^{}]*)\}|((?:[0-9]+|[^\W\d_]'*)(?:_(?:\w|\{[^{}]*\}))?))")
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_\\ -]*")
_CONDITION = re.compile(r"<|>|\\leq?\b|\\geq?\b|\\neq?\b")
_ALONE = re.compile(r"\s*(?:\\[A-Za-z]+\s*)?(?:\{\s*)?[A-Za-z](?:\s*\})?\s*|\s*\\[A-Za-z]+\s*")
_FONT = re.compile(r"\\([A-Za-z]+)\s*\{?\s*([A-Za-z])\s*\}?")
_VECTOR = re.compile(rf"(?:\{{\s*)?\\(?:bf|{'|'.join(BOLD)})(?![A-Za-z])\s*\{{?\s*[A-Za-z]\s*\}}?")
_PARTIAL = re.compile(r"\\partial\b\s*(?:\^\s*(?:\{[^}]*\}|[0-9]))?")
_TOTAL = re.compile(r"^\s*(?:d|\\mathrm\s*\{\s*d\s*\}|\{\\rm d\})(?:\^\s*(?:\{[^}]*\}|[0-9]))?(?=\s*(?:[A-Za-z\\({]|$))")
_TAKING = frozenset(("\\log", "\\exp", "\\sum", "\\min", "\\max"))  # a factor follows them
_FUNCTIONAL = frozenset(("mathcal", "mathscr"))
_HALF = re.compile(
    r"([_^]\s*\{[^(){}\[\]]*)[()\[\]]([^(){}\[\]]*\})"
)  # `T_{(a} v_{b)}`, symmetrised, has the indices of `T_a v_b`
_FACTORS = frozenset((*ACCENTS, *BOLD, *LETTERED, *WORDS, *LETTERS, "frac", "sqrt", "sum", "ell", "partial", "langle"))
_SUMS = {"sum": "sum", "max": "max", "min": "min", "prod": "sum"}  # a product over an index binds it as a sum does
_D = r"(?:d|\\mathrm\s*\{\s*d\s*\}|\{\s*\\rm\s+d\s*\})\s*(?:\^\s*(?:\{[^{}]*\}|[0-9A-Za-z]))?"
_OVER = rf"(?:[A-Za-z]|\\(?:{'|'.join(sorted((*LETTERS, *BOLD)))})(?![A-Za-z]))'*(?:\s*\{{[^{{}}]*\}})?"
_MEASURE = re.compile(rf"(?:{_D}\s*{_OVER}(?!\s*_)(?:\s|\\[,;:!])*)+")  # `dx`, `d^3 x dt`, `\mathrm{d}\Omega`, not `d x_i`
_FENCED = {"\\langle": "(", "|": "\\mathrm{abs}(", "\\vert": "\\mathrm{abs}("}


def rewrite_formula(formula: Passage) -> Passage:
    """Returns the formula in the spelling of the language."""
    plain = formula.sub(_DEFINED_AS, "=").sub(_STOP, " ").sub(_FONTS, "\\text", 1, "{", 2, "}").sub(_HALF, 1, 2)
    return _Speller(plain.sub(_ROOT, "\\sqrt{", 1, 2, 3, "}")).all()


class _Speller(ScriptReader):
    """A cursor over the marks of a formula, which writes pieces of another."""

    def __init__(self, text: Passage) -> None:
        super().__init__(text)
        self.cases = 0
        self.last = dict[int, int]()  # the `&` of the last row of cases, and where the cases end
        self.made: list[Passage] = []

    def all(self) -> Passage:
        while self.at < len(self.marks):
            self.mark(self.marks[self.at])
        return join(self.text.source, self.made)

    def mark(self, mark: Mark) -> None:
        self.at += 1
        if mark.text in OPENING and self.read_brackets(mark):
            return
        if mark.kind == "command":
            _COMMANDS.get(mark.command, _Speller.as_it_is)(self, mark)
        elif mark.kind == "letter":
            self.name(mark.text, mark)
        else:
            self.sign(mark)

    def sign(self, mark: Mark) -> None:
        if mark.text == "{" and "\\over" in self.text.text and (bar := self.find_bar()):
            end = find_closing(self.marks, self.at - 1)
            over, under = self.between(self.at - 1, bar), self.between(bar, end)
            self.at = end + 1
            self.divide(over, under, mark)
        elif mark.text == "{" and self.holds_name():
            del self.marks[find_closing(self.marks, self.at - 1)]
        elif self.cases and (mark.text == ";" or (mark.text == "=" and self.before() == "&")):
            pass  # `-\infty & = s > s';`: the condition follows the sign, and a semicolon ends it
        elif mark.text in ("[", "]"):
            self.put("()"["[]".index(mark.text)], mark)
        elif self.at - 1 in self.last:
            self.otherwise(mark)
        elif mark.kind != "comment":
            self.cases += (mark.kind == "begin") - (mark.kind == "end") if mark.command in CASES else 0
            self.last |= self.last_condition() if mark.kind == "begin" and mark.command in CASES else {}
            self.as_it_is(mark)

    # A brace holds a letter whose scripts follow it, `{k}_{i}`, or a name with a prime, `{f_i}'`.
    def holds_name(self) -> bool:
        end = find_closing(self.marks, self.at - 1)
        inside, after = [mark for mark in self.marks[self.at : end] if not mark.is_space], self.skip(end + 1)
        sign = self.marks[after].text if after < len(self.marks) else ""
        if not inside or not (inside[0].kind == "letter" or inside[0].command in LETTERS):
            return False
        return sign in ("_", "^", "'") if len(inside) == 1 else sign == "'" and inside[1].text == "_"

    # Returns the `\over` of `{a \over b}`, after its brace, or 0.
    def find_bar(self) -> int:
        depth = 0
        for number in range(self.at, find_closing(self.marks, self.at - 1)):
            depth += {"{": 1, "}": -1}.get(self.marks[number].text, 0)
            if not depth and self.marks[number].command == "over":
                return number
        return 0

    # The language has the mark too, or it is not read. A space after `&` is dropped.
    def as_it_is(self, mark: Mark) -> None:
        if not (self.cases and mark.is_space and self.made and self.made[-1].text == "&"):
            self.made.append(self.text.cut(mark.start, mark.end))

    def put(self, text: str, mark: Mark) -> None:
        self.made.append(self.text.put(text, mark.start))

    def write_fenced(self, opening: str, parts: list[Passage], mark: Mark) -> None:
        self.put(opening, mark)
        for number, part in enumerate(parts):
            self.made += [self.text.put(", ", mark.start)] * bool(number) + [self.inner(part)]
        self.put(")", mark)

    def inner(self, part: Passage) -> Passage:
        return _Speller(part).all()

    def before(self) -> str:
        return next((part.text.strip() for part in reversed(self.made) if part.text.strip()), "")

    # A sum continues without being written out: `a + b + …`.
    def goes_on(self) -> bool:
        return self.before() in ("+", "-")

    # Where a factor may begin, a bar opens and dots stand for terms.
    def begins(self) -> bool:
        before = self.before()
        return not before or before[-1] in "+-=(,&{<>/\\" or before in _TAKING or before.startswith("\\begin")

    # The last row of cases holds where no other does.
    def otherwise(self, mark: Mark) -> None:
        end = self.marks[self.last[self.at - 1]].start
        self.depends(self.text.cut(mark.end, end), mark, self.text.text[: mark.start])
        self.put("& \\text{otherwise}", mark)
        self.at = self.last[self.at - 1]

    # ---------------------------------------------------------------------------------------------------- commands

    # `\ell` is another name than `l`.
    def letter(self, mark: Mark) -> None:
        self.name(LETTERS.get(mark.command, "l"), mark, "ell" if mark.command == "ell" else "")

    def respell(self, mark: Mark) -> None:
        self.put(RESPELLED[mark.command], mark)

    def respell_operator(self, mark: Mark) -> None:
        self.operator(OPERATORS[mark.command], mark)

    # `\label{…}` is not part of the formula.
    def drop(self, mark: Mark) -> None:
        self.read_argument()

    def bold(self, mark: Mark) -> None:
        self.unbrace()
        self.read_accent(mark) if self.has_slots() else self.as_it_is(mark)

    # `a_{id} \cdot_d b_{jd}` names the index that both factors have.
    def times(self, mark: Mark) -> None:
        self.depends(self.read_argument(), mark) if self.accepts("_") else self.as_it_is(mark)

    # Dots in a sum stand for terms, in a product for factors with unknown indices.
    def dots(self, mark: Mark) -> None:
        if self.goes_on():
            self.put("\\mathrm{dots}", mark)
        elif self.begins():
            self.as_it_is(mark)
        else:
            self.put(f"\\mathrm{{dots{OF_AUTHOR}}}(0)", mark)

    # `\partial_i` is a factor with that index, and `\partial y / \partial x` a fraction.
    def derivative(self, mark: Mark) -> None:
        if mark.command == "partial" and (sides := self.read_quotient()):
            return self.write_fraction(*sides, mark)
        scripts = self.read_scripts(Scripts())
        parts = [(sign, part) for sign, parts in zip("_^", (scripts.below, scripts.above), strict=True) for part in parts]
        plain = [(sign, match[0]) for sign, part in parts if _PLAIN.fullmatch(part.text) for match in _ONE.finditer(part.text)]
        for part in (part for _, part in parts if not _PLAIN.fullmatch(part.text)):
            self.depends(part, mark)
        scripted = [f"\\mathrm{{{mark.command}}}{sign}{{{letter}}}" for sign, letter in plain]
        return self.put(" ".join(scripted) or f"\\mathrm{{{mark.command}}}", mark)

    # The two sides of `\partial y_i / \partial x_j` stand after its first sign.
    def read_quotient(self) -> tuple[Passage, Passage] | None:
        start = self.at
        over = self.read_operand()
        if self.follows("/"):
            self.at = first = self.skip(self.at) + 1
            while self.follows("\\partial"):
                self.at = self.skip(self.at) + 1
                self.read_operand()
            if self.at > first:
                return over, self.text.cut(self.marks[first].start, self.marks[self.at - 1].end)
        self.at = start
        return None

    # A derivative is of a name or a bracket: `^2 y_i`, `\log p_i`, `(a b)`, or of nothing.
    def read_operand(self) -> Passage:
        if self.accepts("^"):
            self.read_argument()
        self.skip_spaces()
        start = self.at
        while self.at < len(self.marks) and self.marks[self.at].text in ("\\log", "\\ln"):
            self.at = self.skip(self.at + 1)
        if fence := self.fence():
            self.at = fence[1] + 1
        elif self.at < len(self.marks) and self.marks[self.at].text != "/":
            self.at += 1
            if self.marks[self.at - 1].command in {*ACCENTS, *BOLD, *LETTERED, *WORDS}:
                self.read_argument()
            while sign := self.script():
                _ = sign == "'" or self.read_argument()
        return self.text.cut(self.marks[start].start, self.marks[self.at - 1].end) if self.at > start else self.text.cut(0, 0)

    # ------------------------------------------------------------------------------------------------------ names

    # `\hat{x}_i` is the name `xhat` with a subscript, `\mathcal{S}` another name than `S`, `\mathbb{E}` a mean.
    def read_accent(self, mark: Mark) -> None:
        if mark.command in ("bar", "overline") and _INDEXED.match(self.text.text, mark.end):
            return self.put("\\overline", mark)  # `\bar{x_i}` is a name with a bar, or a mean over `i`
        self.unbrace()
        inside = self.read_argument().text.strip()
        command = inside.lstrip("\\")
        letter = inside if len(inside) == 1 and inside.isalpha() else LETTERS.get(command, "") if inside != command else ""
        both = _FONT.fullmatch(inside)
        if both and (both[1] in {*LETTERED, *ACCENTS} or (both[1] in BOLD and self.follows("_"))):  # `\hat{\mathbf{R}}_{ij}`
            self.name(both[2], mark, mark.command + both[1])
        elif mark.command == "mathbb" and inside == "E":
            self.expectation(mark)
        elif mark.command != "mathbb" and (letter or inside == "1"):
            self.name(letter or "one", mark, mark.command)
        else:
            self.made.append(self.text.cut(mark.start, self.marks[self.at - 1].end))

    # `\mathbb{E}_t x_t` is a factor: the scripts say of what is known, or of what the mean is.
    def expectation(self, mark: Mark) -> None:
        start = self.at
        self.read_scripts(Scripts())
        if self.fence():
            self.at = start
            self.name("E", mark)
        else:
            self.put("\\mathrm{mathbbE}", mark)

    # A name has scripts, and a function of the author arguments.
    def name(self, name: str, mark: Mark, tag: str = "") -> None:
        scripts = self.read_scripts(Scripts(tag))
        plain = len(scripts.above) == 1 and _ONE.fullmatch(scripts.above[0].text.strip())  # `v_i e^i`, a vector of a basis
        if name == "e" and scripts.above and not (scripts.below or scripts.tag or plain):
            return self.write_fenced("\\exp(", scripts.above, mark)
        means = name == "E" and self.averages(mark)
        if means and not find_letters(join(self.text.source, scripts.below).text):
            return None
        functional = tag in _FUNCTIONAL and not scripts.below  # `\mathcal{L}(w)`, `\mathcal{O}(t^2)`
        arguments = self.arguments(means or functional or len(name) > 1, bool(scripts.below))
        self.read_scripts(scripts)
        if arguments and (not scripts.below or any("_" in argument.text for argument in arguments)):
            self.depends(join(self.text.source, scripts.below), mark)
            self.write_fenced(f"\\mathrm{{{name}{scripts.tag}{OF_AUTHOR}}}(", arguments, mark)
            return self.powers(scripts, mark)
        for argument in arguments:
            self.depends(argument, mark)
        if self.before() not in ("\\log", "\\exp") or not (fence := self.fence()):
            return self.tensor(name, scripts, mark)
        self.put("{", mark)  # `\log f(x)` takes `f(x)`
        self.tensor(name, scripts, mark)
        self.at = fence[1] + 1
        self.write_fenced("(", [self.between(*fence)], mark)
        return self.put("}", mark)

    def tensor(self, name: str, scripts: Scripts, mark: Mark) -> None:
        whole = f"{name}{scripts.tag}"
        if len(scripts.below) == 1 and (after := _AFTER.fullmatch(scripts.below[0].text)):  # `u_{,i}` is `\partial_i u`
            scripts.below = []
            self.put(" ".join(f"\\mathrm{{partial}}_{{{letter}}}" for letter in _ONE.findall(after[1])), mark)
        self.put(f"\\mathrm{{{whole}}}{scripts.primes}" if len(whole) > 1 else f" {whole}{scripts.primes}", mark)
        if scripts.below:
            space = self.text.put(" ", mark.start)
            slots = [part for below in scripts.below for part in (self.subscript(below), space)]
            self.write_script("_", join(self.text.source, slots[:-1]), mark)
        self.powers(scripts, mark)

    def powers(self, scripts: Scripts, mark: Mark) -> None:
        for power in scripts.above:
            turned = TRANSPOSED.fullmatch(power.text)
            self.write_script("^", self.text.put("\\top", mark.start) if turned else self.inner(power), mark)

    def write_script(self, sign: str, part: Passage, mark: Mark) -> None:
        self.put(sign + "{", mark)
        self.made.append(part)
        self.put("}", self.marks[self.at - 1])

    def subscript(self, part: Passage) -> Passage:
        part = rewrite_slots(part)
        return self.inner(part) if ("_" in part.text or "\\" in part.text) and not ELLIPSIS.search(part.text) else part

    # The letters of a part become numbers: the text does not say how they are used.
    def depends(self, part: Passage, mark: Mark, known: str = "") -> None:
        numbers = dict.fromkeys(letter for letter in find_letters(part.text) if letter not in find_letters(known))
        self.put(f" {' '.join(numbers)} ", mark)

    # ------------------------------------------------------------------------------------------------------ words

    # `\text{ReLU}` is an operator, `\mathrm{d}` a letter; others are names unless they are part of the text.
    def word(self, mark: Mark) -> None:
        word = self.read_argument().text.strip()
        if word in OPERATORS:
            self.operator(OPERATORS[word], mark)
        elif len(word) == 1 and word.isalpha():
            self.name(word, mark, mark.command if mark.command in ("texttt", "mathtt", "textsf") else "")
        elif _IDENTIFIER.fullmatch(word) and word.lower() not in PARTING:
            self.read_word(word, mark)
        else:
            self.unread("if" if self.cases and word in ("for", "when") else word, mark)

    # A word with slots is a tensor, else a function of the brackets or the factor that follow.
    def read_word(self, word: str, mark: Mark) -> None:
        name, start, scripts = "".join(filter(str.isalnum, word)), self.at, self.read_scripts(Scripts())
        below = join(self.text.source, scripts.below)
        slots, upright = len(find_letters(below.text)), mark.command not in TEXTS
        if slots < 2 and (upright or slots) and self.precedes_factor():
            self.depends(below, mark)
            return self.put(f"\\mathrm{{{name}{OF_AUTHOR}}}", mark)
        named = upright or slots or self.opens() >= 0 or (self.begins() and (self.follows("=") or self.follows("&")))
        self.at = start
        return self.name(name, mark) if named else self.unread(word, mark)

    def unread(self, word: str, mark: Mark) -> None:
        command = "operatorname" if mark.command not in TEXTS else "mathrm" if self.goes_on() else "text"
        self.put("\\infty" if word in ("inf", "Inf") else f"\\{command}{{{word}}}", mark)

    def precedes_factor(self) -> bool:
        mark = next((mark for mark in self.marks[self.at :] if not mark.is_space), None)
        return mark is not None and (mark.kind in ("letter", "digit") or mark.text == "{" or mark.command in _FACTORS)

    # --------------------------------------------------------------------------------------- functions and brackets

    # `f(x, y)`, `\mathrm{loss}(x)`, `R(s)_{ij}` are functions of the author.
    def arguments(self, is_word: bool, below: bool) -> list[Passage]:
        start, fence = self.at, self.fence()
        if fence is None:
            return []
        parts, self.at = list(self.split_arguments(*fence)), fence[1] + 1
        if below and all(_VECTOR.fullmatch(part.text.strip()) for part in parts):  # `A_{nm}(\mathbf{k})`
            return []
        defined = self.begins() and (self.follows("=") or self.follows("&"))
        if is_word or len(parts) > 1 or (self.follows("_") and not below) or defined:
            return [part for part in parts if not ELLIPSIS.fullmatch(part.text.strip())]
        self.at = start
        return []

    # `E[x_i x_j]` and `\mathbb{E}(…)` have the indices of their argument. `E(x)` may be an energy.
    def averages(self, mark: Mark) -> bool:
        fence = self.fence()
        return fence is not None and (mark.command == "mathbb" or self.marks[fence[0]].text == "[")

    # Some brackets do more than group: `(A B)_{ij}`, `\langle x_i \rangle`, `|x_i|`, `\| x_{ij} \|`.
    def read_brackets(self, mark: Mark) -> bool:
        opened, closed = self.at - 1, self.find_closing(self.at - 1)
        if mark.text in ("|", "\\vert") and self.follows("_"):
            return self.read_restriction()
        if closed < 0 or mark.text in ("(", "["):
            return closed >= 0 and self.element(opened, closed, mark)
        parts = list(self.split_arguments(opened, closed))
        if len(parts) > 1 or (mark.text in ("|", "\\vert") and not self.begins()):
            return False
        self.at = closed + 1
        if self.accepts("_"):
            self.read_argument()
        if mark.text != "\\langle" and "_" not in parts[0].text:  # a number
            self.depends(parts[0], mark)
            self.put("\\mathrm{norm}", mark)
        else:
            self.write_fenced(_FENCED.get(mark.text, f"\\mathrm{{norm{OF_AUTHOR}}}("), parts, mark)
        return True

    # The condition of `x_{ij}|_{i > j}` does not change the indices.
    def read_restriction(self) -> bool:
        start = self.at
        if self.script() and "=" not in (text := self.read_argument().text) and _CONDITION.search(text):
            return True
        self.at = start
        return False

    # `(A^\top)_{ij}` is a tensor whose name is the text in the brackets.
    def element(self, opened: int, closed: int, mark: Mark) -> bool:
        inside, self.at = self.between(opened, closed), closed + 1
        scripts = self.read_scripts(Scripts())
        if scripts.below and _ALONE.fullmatch(inside.text):
            self.at = opened + 1
            del self.marks[self.find_right(closed) : closed + 1]
        elif scripts.below:
            self.depends(inside, mark)
            self.tensor("of" + "".join(filter(str.isalnum, inside.text.replace("'", "prime"))), scripts, mark)
        elif self.at > closed + 1 and not (scripts.above or scripts.primes):  # a label says nothing of the indices
            self.write_fenced("(", [inside], mark)
        else:
            self.at = opened + 1
        return self.at != opened + 1 or bool(scripts.below)

    # -------------------------------------------------------------------------------------------------- operators

    def operator(self, name: str, mark: Mark) -> None:
        self.put(f"\\mathrm{{{name}}}", mark)
        while sign := self.script():
            self.write_script(
                sign, self.subscript(self.read_argument()) if sign == "_" else self.inner(self.read_argument()), mark
            )

    # `\sum_{j=1}^{N}` is `\sum_{j}`, after the letters of its bounds as numbers, since it depends on them.
    def read_bounds(self, mark: Mark) -> None:
        below = above = None
        while self.at < len(self.marks) and self.marks[self.at].command in ("limits", "nolimits"):
            self.at += 1
        while (sign := self.script()) and sign != "'":
            below, above = (replace_marks(self.read_argument()), above) if sign == "_" else (below, self.read_argument())
        below = below and below.sub(_STACKED, 1)
        bound = _BOUND.fullmatch(PRIME.sub("'", below.text)) if below else None
        if below is None or bound is None:  # `\sum x_i` is read, `\prod x_i` is not
            return self.put("\\substack" if below else f"\\{mark.command}", mark)
        summed = below.cut(*bound.span(bound.lastindex or 0)).sub(_SPACED, " ")
        ends = [below.cut(bound.end(bound.lastindex or 0), len(below.text)), *([above] if above else [])]
        beyond = join(self.text.source, ends)
        takes_sum = self.before() in _TAKING  # `\log \sum_{j=1}^n` takes the sum, not its bound
        if not takes_sum:
            self.depends(beyond, mark, summed.text)
        self.put(f"\\{_SUMS[mark.command]}", mark)
        self.write_script("_", summed, mark)
        if takes_sum:
            self.depends(beyond, mark, summed.text)
        ours, others = set(find_letters(summed.text)), set(find_letters(ends[0].text))
        return self.put(TIED, mark) if ours & others and len(others - ours) > 1 else None

    # `\int_0^1 f_i g_i \, dx` and `\int d^3 x \, f_i` have the indices of the integrand.
    def integral(self, mark: Mark) -> None:
        start = self.at
        while sign := self.script():
            self.depends(self.read_argument(), mark) if sign != "'" else None
        first, depth = self.at, 0
        for number in range(first, len(self.marks)):
            text = self.marks[number].text
            depth += (text in "([{") - (text in ")]}") if len(text) == 1 else 0
            if depth < 0 or text in ("=", "&") or self.marks[number].kind == "row":
                break
            if not depth and (end := self.find_measure(number)):
                inside, self.at = self.text.cut(self.marks[first].start, self.marks[number].start), end
                full = any(not part.is_space for part in self.marks[first:number])
                return self.write_fenced("(", [inside], mark) if full else None
        self.at = start
        return self.as_it_is(mark)

    # The mark after `dx \, dt`, `d^3 x`, `\mathrm{d}\Omega`, or 0. One with a subscript has an index.
    def find_measure(self, at: int) -> int:
        match = _MEASURE.match(self.text.text, self.marks[at].start)
        end = match.end() if match else 0
        return next((n for n, mark in enumerate(self.marks) if mark.start >= end), len(self.marks)) if end else 0

    # `\overset{(1)}{=}` is the sign.
    def stack(self, mark: Mark) -> None:
        start = self.at
        self.read_argument()
        sign = self.read_argument()
        if sign.text.strip() == "=":
            return self.put("=", mark)
        self.at = start
        return self.as_it_is(mark)

    # `\frac{\partial y_i}{\partial x_j}` has the indices of the fraction without its signs.
    def fraction(self, mark: Mark) -> None:
        self.divide(self.read_argument(), self.read_argument(), mark)

    def divide(self, over: Passage, under: Passage, mark: Mark) -> None:
        if "\\partial" in over.text and "\\partial" in under.text:
            return self.write_fraction(over.sub(_PARTIAL, " "), under, mark)
        total = _TOTAL.match(over.text) and _TOTAL.match(under.text) and len(under.text.strip()) > 1
        over, under = (part.sub(_TOTAL, " ") if total else part for part in (over, under))
        return self.write_fraction(over, under, mark)

    def write_fraction(self, over: Passage, under: Passage, mark: Mark) -> None:
        for part, sign in ((over, "\\frac{"), (under.sub(_PARTIAL, DERIVED), "}{")):
            self.put(sign, mark)
            self.made.append(self.inner(part) if part.text.strip() else self.text.put("1", mark.start))
        self.put("}", mark)


_COMMANDS: dict[str, Callable[[_Speller, Mark], None]] = {
    **dict.fromkeys(RESPELLED, _Speller.respell),
    **dict.fromkeys(set(OPERATORS) - set(NAMED), _Speller.respell_operator),
    **dict.fromkeys(WORDS, _Speller.word),
    **dict.fromkeys((*ACCENTS, *LETTERED, "mathbb"), _Speller.read_accent),
    **dict.fromkeys(BOLD, _Speller.bold),
    **dict.fromkeys((*LETTERS, "ell"), _Speller.letter),
    **dict.fromkeys(_SUMS, _Speller.read_bounds),
    **dict.fromkeys(("frac", "dfrac", "tfrac"), _Speller.fraction),
    **dict.fromkeys(("partial", "nabla"), _Speller.derivative),
    **dict.fromkeys(("cdot", "times"), _Speller.times),
    **dict.fromkeys(("overset", "underset", "stackrel"), _Speller.stack),
    "int": _Speller.integral,
    **dict.fromkeys(("label", "tag"), _Speller.drop),
    **dict.fromkeys(DOTS, _Speller.dots),
}
