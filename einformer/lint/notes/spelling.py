r"""How is a formula of notes spelled in the LaTeX of the language? Accents and labels become names, `_{i,j}` is `_{ij}`.

What has no counterpart stays as it is: the reader of the language refuses it, and the formula is counted as skipped.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from einformer.language.latex_marks import CASES, LETTERS, NAMED, TEXTS, Mark
from einformer.lint.notes.decorated import decorated
from einformer.lint.notes.macros import partner
from einformer.lint.notes.parts import OPENING
from einformer.lint.notes.pieces import Passage, joined
from einformer.lint.notes.scripts import PRIME, TRANSPOSED, Names, Scripts, letters
from einformer.lint.notes.signs import ACCENTS, BOLD, DOTS, LETTERED, OF_AUTHOR, OPERATORS, PARTING, RESPELLED, WORDS
from einformer.lint.notes.slots import ELLIPSIS, slots

_SPACED = re.compile(r"[\s,]+")
_DEFINED_AS, _STOP = re.compile(r":\s*&?\s*="), re.compile(r"\.(?=\s|\\|$|\})")
_INDEX = r"[^\W\dA-Z_]'*"
_BOUND = re.compile(rf"[\s(]*({_INDEX}(?:[\s,]*{_INDEX})*)[\s)]*(?:(=|\\leq?\b|<|>|\\in\b|\\neq?\b|\\geq?\b).*)?", re.DOTALL)
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_\\ -]*")
_CONDITION = re.compile(r"[^=]*(?:<|>|\\leq?\b|\\geq?\b|\\neq?\b)[^=]*")
_ALONE = re.compile(r"\s*(?:\\[A-Za-z]+\s*)?(?:\{\s*)?[A-Za-z](?:\s*\})?\s*|\s*\\[A-Za-z]+\s*")
_FONT = re.compile(r"\\([A-Za-z]+)\s*\{?\s*([A-Za-z])\s*\}?")
_PARTIAL = re.compile(r"\\partial\b\s*(?:\^\s*(?:\{[^}]*\}|[0-9]))?")
_TOTAL = re.compile(r"^\s*(?:d|\\mathrm\s*\{\s*d\s*\}|\{\\rm d\})(?:\^\s*(?:\{[^}]*\}|[0-9]))?(?=\s*(?:[A-Za-z\\({]|$))")
_TAKING = frozenset(("\\log", "\\exp", "\\sum", "\\min", "\\max"))  # a factor follows them
_FUNCTIONAL = frozenset(("mathcal", "mathscr"))
_OLD = frozenset(("rm", "bf", "it", "tt", "sf"))
_FACTORS = frozenset((*ACCENTS, *BOLD, *LETTERED, *WORDS, *LETTERS, "frac", "sqrt", "sum", "ell", "partial", "langle"))
_SUMS = {"sum": "sum", "max": "max", "min": "min", "prod": "sum"}  # a product over an index binds it as a sum does
_FENCED = {"\\langle": "(", "|": "\\mathrm{abs}(", "\\vert": "\\mathrm{abs}("}


def spelled(formula: Passage) -> Passage:
    """The formula as the reader of the language takes it."""
    return _Speller(formula.sub(_DEFINED_AS, "=").sub(_STOP, " ")).all()


class _Speller(Names):
    """A cursor over the marks of a formula, which writes pieces of another."""

    def __init__(self, text: Passage) -> None:
        super().__init__(text)
        self.cases = 0
        self.last = dict[int, int]()  # the `&` of the last row of cases, and where the cases end
        self.made: list[Passage] = []

    def all(self) -> Passage:
        """The whole formula."""
        while self.at < len(self.marks):
            self.mark(self.marks[self.at])
        return joined(self.text.source, self.made)

    def mark(self, mark: Mark) -> None:
        """One mark, or as many as belong to it."""
        self.at += 1
        if mark.text in OPENING and self.bracketed(mark):
            return
        if mark.kind == "command":
            _COMMANDS.get(mark.command, _Speller.as_it_is)(self, mark)
        elif mark.kind == "letter":
            self.name(mark.text, mark)
        else:
            self.sign(mark)

    def sign(self, mark: Mark) -> None:
        """What is no letter and no command."""
        if mark.text == "{" and self.at < len(self.marks) and self.marks[self.at].command in _OLD:
            self.old_font(mark)
        elif self.cases and (mark.text == ";" or (mark.text == "=" and self.before() == "&")):
            pass  # `-\\infty & = s > s';`: the condition follows the sign, and a semicolon ends it
        elif mark.text in ("[", "]"):
            self.put("()"["[]".index(mark.text)], mark)
        elif self.at - 1 in self.last:
            self.otherwise(mark)
        elif mark.kind != "comment":
            self.cases += (mark.kind == "begin") - (mark.kind == "end") if mark.command in CASES else 0
            self.last |= self.last_condition() if mark.kind == "begin" and mark.command in CASES else {}
            self.as_it_is(mark)

    def as_it_is(self, mark: Mark) -> None:
        """A mark that the language has too, or that is not read; a space after `&` is neither."""
        if not (self.cases and mark.is_space and self.made and self.made[-1].text == "&"):
            self.made.append(self.text.cut(mark.start, mark.end))

    def put(self, text: str, mark: Mark) -> None:
        """A text of our own at the place of a mark."""
        self.made.append(self.text.put(text, mark.start))

    def fenced(self, opening: str, parts: list[Passage], mark: Mark) -> None:
        """Parts spelled on their own, with commas between them, in brackets."""
        self.put(opening, mark)
        for number, part in enumerate(parts):
            self.made += [self.text.put(", ", mark.start)] * bool(number) + [self.inner(part)]
        self.put(")", mark)

    def inner(self, part: Passage) -> Passage:
        """A part, spelled on its own."""
        return _Speller(part).all()

    def before(self) -> str:
        """What was written last."""
        return next((part.text.strip() for part in reversed(self.made) if part.text.strip()), "")

    def goes_on(self) -> bool:
        """Does a sum go on without being written out, `a + b + …`?"""
        return self.before() in ("+", "-")

    def begins(self) -> bool:
        """Does no factor stand before, so that a bar opens, and dots are no part of a product?"""
        before = self.before()
        return not before or before[-1] in "+-=(,&{<>/\\" or before in _TAKING or before.startswith("\\begin")

    def otherwise(self, mark: Mark) -> None:
        """The last row of cases holds where no other does, whatever it says."""
        end = self.marks[self.last[self.at - 1]].start
        self.depends(self.text.cut(mark.end, end), mark, self.text.text[: mark.start])
        self.put("& \\text{otherwise}", mark)
        self.at = self.last[self.at - 1]

    # ---------------------------------------------------------------------------------------------------- commands

    def letter(self, mark: Mark) -> None:
        r"""`\beta`; `\ell` is another name than `l`."""
        self.name(LETTERS.get(mark.command, "l"), mark, "ell" if mark.command == "ell" else "")

    def respelled(self, mark: Mark) -> None:
        """A command that the language has under another name."""
        self.put(RESPELLED[mark.command], mark)

    def operated(self, mark: Mark) -> None:
        """An operator of the language under another name."""
        self.operator(OPERATORS[mark.command], mark)

    def dropped(self, mark: Mark) -> None:
        r"""`\label{…}` says nothing of a formula."""
        self.argument()

    def bold(self, mark: Mark) -> None:
        """A tensor by name if it has slots."""
        self.unbrace()
        self.accented(mark) if self.has_slots() else self.as_it_is(mark)

    def times(self, mark: Mark) -> None:
        r"""`a_{id} \cdot_d b_{jd}` names the index that both have."""
        self.depends(self.argument(), mark) if self.accepts("_") else self.as_it_is(mark)

    def dots(self, mark: Mark) -> None:
        """Dots in a sum stand for terms, in a product for factors with indices that nobody knows."""
        if self.goes_on():
            self.put("\\mathrm{dots}", mark)
        elif self.begins():
            self.as_it_is(mark)
        else:
            self.put(f"\\mathrm{{dots{OF_AUTHOR}}}(0)", mark)

    def derivative(self, mark: Mark) -> None:
        """`\\partial_i` is a factor; whether what stands below is an index is not certain."""
        self.depends(joined(self.text.source, self.scripts(Scripts()).below), mark)
        self.put(f"\\mathrm{{{mark.command}}}", mark)

    # ------------------------------------------------------------------------------------------------------ names

    def accented(self, mark: Mark) -> None:
        r"""`\hat{x}_i` is the name `xhat` with a subscript; `\mathcal{S}` is another name than `S`, `\mathbb{E}` a mean."""
        self.unbrace()
        inside = self.argument().text.strip()
        command = inside.lstrip("\\")
        letter = inside if len(inside) == 1 and inside.isalpha() else LETTERS.get(command, "") if inside != command else ""
        both = _FONT.fullmatch(inside)
        if both and (both[1] in LETTERED or (both[1] in BOLD and self.follows("_"))):  # `\\hat{\\mathbf{R}}_{ij}`
            self.name(both[2], mark, mark.command + both[1])
        elif mark.command == "mathbb" and inside == "E":
            self.name("E", mark)
        elif mark.command != "mathbb" and (letter or inside == "1"):
            self.name(letter or "one", mark, mark.command)
        else:
            self.made.append(self.text.cut(mark.start, self.marks[self.at - 1].end))

    def name(self, name: str, mark: Mark, tag: str = "") -> None:
        """A name with its scripts, and the arguments of a function of the author's."""
        found = self.scripts(Scripts(tag))
        if name == "e" and found.above and not (found.below or found.tag):
            return self.fenced("\\exp(", found.above, mark)
        means = name == "E" and self.averages(mark)
        if means and not letters(joined(self.text.source, found.below).text):
            return None
        functional = tag in _FUNCTIONAL and not found.below  # `\\mathcal{L}(w)`, `\\mathcal{O}(t^2)`
        arguments = self.arguments(means or functional or len(name) > 1, bool(found.below))
        self.scripts(found)
        if arguments and (not found.below or any("_" in argument.text for argument in arguments)):
            self.depends(joined(self.text.source, found.below), mark)
            self.fenced(f"\\mathrm{{{name}{found.tag}{OF_AUTHOR}}}(", arguments, mark)
            return self.powers(found, mark)
        for argument in arguments:
            self.depends(argument, mark)
        if self.before() not in ("\\log", "\\exp") or not (fence := self.fence()):
            return self.tensor(name, found, mark)
        self.put("{", mark)  # `\\log f(x)` takes `f(x)`
        self.tensor(name, found, mark)
        self.at = fence[1] + 1
        self.fenced("(", [self.between(*fence)], mark)
        return self.put("}", mark)

    def tensor(self, name: str, found: Scripts, mark: Mark) -> None:
        """A name with what stands below it, and above."""
        whole = f"{name}{found.tag}"
        self.put(f"\\mathrm{{{whole}}}{found.primes}" if len(whole) > 1 else f" {whole}{found.primes}", mark)
        if found.below:
            space = self.text.put(" ", mark.start)
            slots = [part for below in found.below for part in (self.subscript(below), space)]
            self.scripted("_", joined(self.text.source, slots[:-1]), mark)
        self.powers(found, mark)

    def powers(self, found: Scripts, mark: Mark) -> None:
        """What stands above a name and is no part of it."""
        for power in found.above:
            turned = TRANSPOSED.fullmatch(power.text)
            self.scripted("^", self.text.put("\\top", mark.start) if turned else self.inner(power), mark)

    def scripted(self, sign: str, part: Passage, mark: Mark) -> None:
        self.put(sign + "{", mark)
        self.made.append(part)
        self.put("}", self.marks[self.at - 1])

    def subscript(self, part: Passage) -> Passage:
        """Its slots; what stands at a letter in them is spelled in turn."""
        part = slots(part)
        return self.inner(part) if ("_" in part.text or "\\" in part.text) and not ELLIPSIS.search(part.text) else part

    def depends(self, part: Passage, mark: Mark, known: str = "") -> None:
        """The letters that a part depends on, as numbers: what it does with them is not said."""
        found = dict.fromkeys(letter for letter in letters(part.text) if letter not in letters(known))
        self.put(f" {' '.join(found)} ", mark)

    # ------------------------------------------------------------------------------------------------------ words

    def word(self, mark: Mark) -> None:
        r"""`\text{ReLU}` is an operator, `\mathrm{d}` a letter, and other words names, if they are no part of the text."""
        word = self.argument().text.strip()
        if word in OPERATORS:
            self.operator(OPERATORS[word], mark)
        elif len(word) == 1 and word.isalpha():
            self.name(word, mark, mark.command if mark.command in ("texttt", "mathtt", "textsf") else "")
        elif _IDENTIFIER.fullmatch(word) and word.lower() not in PARTING:
            self.named(word, mark)
        else:
            self.unread("if" if self.cases and word in ("for", "when") else word, mark)

    def named(self, word: str, mark: Mark) -> None:
        """A word is a tensor if it has slots, else a function, of what stands in brackets or of the next factor."""
        name, at, found = "".join(filter(str.isalnum, word)), self.at, self.scripts(Scripts())
        below = joined(self.text.source, found.below)
        slots, upright = len(letters(below.text)), mark.command not in TEXTS
        if slots < 2 and (upright or slots) and self.precedes_factor():
            self.depends(below, mark)
            return self.put(f"\\mathrm{{{name}{OF_AUTHOR}}}", mark)
        named = upright or slots or self.opens() >= 0 or (self.begins() and (self.follows("=") or self.follows("&")))
        self.at = at
        return self.name(name, mark) if named else self.unread(word, mark)

    def unread(self, word: str, mark: Mark) -> None:
        """A word that ends a statement, or leaves it unread."""
        command = "operatorname" if mark.command not in TEXTS else "mathrm" if self.goes_on() else "text"
        self.put("\\infty" if word in ("inf", "Inf") else f"\\{command}{{{word}}}", mark)

    def precedes_factor(self) -> bool:
        """Does a factor follow, past spaces?"""
        mark = next((mark for mark in self.marks[self.at :] if not mark.is_space), None)
        return mark is not None and (mark.kind in ("letter", "digit") or mark.text == "{" or mark.command in _FACTORS)

    def old_font(self, mark: Mark) -> None:
        r"""`{\rm for}` is `\text{for}`."""
        end = partner(self.marks, self.at - 1)
        word = self.text.text[self.marks[self.at].end : self.marks[min(end, len(self.marks) - 1)].start].strip()
        self.at = end + 1
        self.put(f"\\text{{{word}}}", mark)

    # --------------------------------------------------------------------------------------- functions and brackets

    def arguments(self, is_word: bool, below: bool) -> list[Passage]:
        r"""What a function of the author's takes, `f(x, y)`, `\mathrm{loss}(x)`, `R(s)_{ij}`; the cursor goes past it."""
        at, fence = self.at, self.fence()
        if fence is None:
            return []
        parts, self.at = list(self.separated(*fence)), fence[1] + 1
        defined = self.begins() and (self.follows("=") or self.follows("&"))
        if is_word or len(parts) > 1 or (self.follows("_") and not below) or defined:
            return [part for part in parts if not ELLIPSIS.fullmatch(part.text.strip())]
        self.at = at
        return []

    def averages(self, mark: Mark) -> bool:
        r"""`E[x_i x_j]`, `\mathbb{E}(…)`: a mean has the indices of what stands inside. `E(x)` may be an energy."""
        fence = self.fence()
        return fence is not None and (mark.command == "mathbb" or self.marks[fence[0]].text == "[")

    def bracketed(self, mark: Mark) -> bool:
        r"""Brackets that say more than what belongs together: `(A B)_{ij}`, `\langle x_i \rangle`, `|x_i|`, `\| x_{ij} \|`."""
        opened, closed = self.at - 1, self.closing(self.at - 1)
        if mark.text in ("|", "\\vert") and self.follows("_"):
            return self.restricted()
        if closed < 0 or mark.text in ("(", "["):
            return closed >= 0 and self.element(opened, closed, mark)
        parts = list(self.separated(opened, closed))
        if len(parts) > 1 or (mark.text in ("|", "\\vert") and not self.begins()):
            return False
        self.at = closed + 1
        if self.accepts("_"):
            self.argument()
        if mark.text != "\\langle" and "_" not in parts[0].text:  # a number
            self.depends(parts[0], mark)
            self.put("\\mathrm{norm}", mark)
        else:
            self.fenced(_FENCED.get(mark.text, f"\\mathrm{{norm{OF_AUTHOR}}}("), parts, mark)
        return True

    def restricted(self) -> bool:
        """`x_{ij}|_{i > j}`: what is said holds there, and what the indices do is not changed by it."""
        at = self.at
        if self.script() and _CONDITION.fullmatch(self.argument().text):
            return True
        self.at = at
        return False

    def element(self, opened: int, closed: int, mark: Mark) -> bool:
        r"""`(A^\top)_{ij}` is an element of what the brackets hold: a tensor whose name is all of it."""
        inside, self.at = self.between(opened, closed), closed + 1
        found = self.scripts(Scripts())
        if found.below and _ALONE.fullmatch(inside.text):
            self.at = opened + 1
            del self.marks[self.stretched(closed) : closed + 1]
        elif found.below:
            self.depends(inside, mark)
            self.tensor("of" + "".join(filter(str.isalnum, inside.text.replace("'", "prime"))), found, mark)
        elif self.at > closed + 1 and not (found.above or found.primes):  # a label says nothing of the indices
            self.fenced("(", [inside], mark)
        else:
            self.at = opened + 1
        return self.at != opened + 1 or bool(found.below)

    # -------------------------------------------------------------------------------------------------- operators

    def operator(self, name: str, mark: Mark) -> None:
        self.put(f"\\mathrm{{{name}}}", mark)
        while sign := self.script():
            self.scripted(sign, self.subscript(self.argument()) if sign == "_" else self.inner(self.argument()), mark)

    def bounded(self, mark: Mark) -> None:
        r"""`\sum_{j=1}^{N}` is `\sum_{j}`; letters of its bounds stand before it as numbers, since it depends on them."""
        below = above = None
        while (sign := self.script()) and sign != "'":
            below, above = (decorated(self.argument()), above) if sign == "_" else (below, self.argument())
        bound = _BOUND.fullmatch(PRIME.sub("'", below.text)) if below else None
        if below is None or bound is None:
            self.put(f"\\{mark.command}", mark)  # `\\prod` as it is, which is not read
            self.made += [below] if below else []
            return
        summed = below.cut(*bound.span(1)).sub(_SPACED, " ")
        beyond = joined(self.text.source, [below.cut(bound.end(1), len(below.text)), *([above] if above else [])])
        taken = self.before() in _TAKING  # `\\log \\sum_{j=1}^n` takes the sum, not its bound
        if not taken:
            self.depends(beyond, mark, summed.text)
        self.put(f"\\{_SUMS[mark.command]}", mark)
        self.scripted("_", summed, mark)
        if taken:
            self.depends(beyond, mark, summed.text)

    def fraction(self, mark: Mark) -> None:
        r"""`\frac{\partial y_i}{\partial x_j}` has the indices of both; so has the fraction without its signs."""
        over, under = self.argument(), self.argument()
        derived = "\\partial" in over.text and "\\partial" in under.text
        total = _TOTAL.match(over.text) and _TOTAL.match(under.text) and len(under.text.strip()) > 1
        for part, sign in ((over, "\\frac{"), (under, "}{")):
            self.put(sign, mark)
            part = part.sub(_PARTIAL, " ") if derived else part.sub(_TOTAL, " ") if total else part
            self.made.append(self.inner(part) if part.text.strip() else self.text.put("1", mark.start))
        self.put("}", mark)


_COMMANDS: dict[str, Callable[[_Speller, Mark], None]] = {
    **dict.fromkeys(RESPELLED, _Speller.respelled),
    **dict.fromkeys(set(OPERATORS) - set(NAMED), _Speller.operated),
    **dict.fromkeys(WORDS, _Speller.word),
    **dict.fromkeys((*ACCENTS, *LETTERED, "mathbb"), _Speller.accented),
    **dict.fromkeys(BOLD, _Speller.bold),
    **dict.fromkeys((*LETTERS, "ell"), _Speller.letter),
    **dict.fromkeys(_SUMS, _Speller.bounded),
    **dict.fromkeys(("frac", "dfrac", "tfrac"), _Speller.fraction),
    **dict.fromkeys(("partial", "nabla"), _Speller.derivative),
    **dict.fromkeys(("cdot", "times"), _Speller.times),
    **dict.fromkeys(("label", "tag"), _Speller.dropped),
    **dict.fromkeys(DOTS, _Speller.dots),
}
