"""Prints a text as MathML, which browsers show without a script, with the words in which it is read aloud.

The elements are those of MathML Core. The attributes `intent` and `arg` are those of MathML 4: `w_bss'a` is read "w, at b,
s, s prime, a".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from html import escape
from itertools import pairwise

from einformer.language import tree
from einformer.language.primitives import primitive
from einformer.language.printer import PLAIN, Display, Printer, is_apart, number
from einformer.language.tokens import SYNONYMS
from einformer.language.tree import Expression, Index, Layer, Weight

_GLYPHS = {plain: chr(glyph) for glyph, plain in reversed(SYNONYMS.items())}  # `<=` is ≤
_SIGNS = _GLYPHS | {"==": "=", "and": "∧", "or": "∨", "not": "¬"}
_ATTRIBUTES = {
    ":": ' lspace="0" rspace="0.3em"',
    "?": ' lspace="0" rspace="0"',
    "<-": ' intent="_becomes"',
    "->": ' intent="_gives"',
}
_FENCES = {"abs": ("|", "|", "absolute-value"), "floor": ("⌊", "⌋", "floor"), "ceil": ("⌈", "⌉", "ceiling")}
_WORDS = {"Sm": "softmax", "Dr": "dropout", "lse": "log_sum_exp", "var": "variance", "sum": "sum"}
_APPLY, _TIMES, _THIN = "<mo>\N{FUNCTION APPLICATION}</mo>", "\N{INVISIBLE TIMES}", '<mspace width="0.17em"/>'
_PAUSE = ":pause-short"
_TAG = re.compile(r"<(/?)[^<>]*?(/?)>")
_TALL = re.compile(r"<(mfrac|munder|mtable)\b")
_WIDE = re.compile(r"<mrow|(<m\w+[^<>]*>)?<mi[^<>]*>\w\w")  # a call, parentheses, a name of several letters


def mathml(node: tree.Declaration | Expression, block: bool = False) -> str:
    """Returns the MathML of a node. An equation or an expression may stand as a `block` in the middle of a line of its own.

    >>> mathml(tree.Name("H"))
    '<math xmlns="http://www.w3.org/1998/Math/MathML"><mi>H</mi></math>'
    """
    match node:
        case tree.Spec() | Layer() | tree.Loop():
            text = MATHML.page(node)
        case tree.Equation() | tree.Axis() | tree.Scalar() | Weight():
            text = MATHML.separate(*MATHML.cells(MATHML.declaration(node)))
        case _:
            text = MATHML.right(node)
    display = ' display="block"' * block
    return f'<math xmlns="http://www.w3.org/1998/Math/MathML"{display}>{text}</math>'


# A reader of the page refers to an element by its name.
def _name(text: str, name: str) -> str:
    return re.sub(r"^<\w+", rf'\g<0> arg="{name}"', _join(text))


# One element, as most places take.
def _join(text: str) -> str:
    depth = 0
    for tag in _TAG.finditer(text):
        depth += {("", ""): 1, ("/", ""): -1}.get((tag[1], tag[2]), 0)
        if depth == 0:
            return text if tag.end() == len(text) else f"<mrow>{text}</mrow>"
    return f"<mrow>{text}</mrow>"


# As large as what it stands beside, which may be in a subscript.
def _prime(text: str, count: int) -> str:
    sign = f'<mo lspace="0" rspace="0">{_GLYPHS[chr(39)] * count}</mo>'
    return f'<mrow intent="_($t{",_prime" * count})">{_name(text, "t")}{sign}</mrow>' if count else text


# Part of a name.
def _lower(first: str, below: str) -> str:
    return f'<msub intent="_($t,$b)">{_name(first, "t")}{_name(below, "b")}</msub>'


def _fence(text: str, left: str, right: str) -> str:
    stretch = "" if _TALL.search(text) else ' stretchy="false"'
    return f"<mo{stretch}>{left}</mo>{text}<mo{stretch}>{right}</mo>"


def _refer(names: str, count: int, between: str = "") -> str:
    return ",".join(f"${names}{k}" + between * bool(k) for k in range(count))


class MathML(Display):
    """Prints nodes as elements side by side."""

    blank = '<mspace width="0.33em"/>'
    comma = "<mo>,</mo>"

    @cached_property
    def flat(self) -> Printer:
        return self if self.inline else MathML(inline=True)

    def sign(self, name: str) -> str:
        return f"<mo{_ATTRIBUTES.get(name, '')}>{escape(_SIGNS.get(name, name))}</mo>"

    # ----------------------------------------------------------------------------------------------------------- names

    # A power of ten stays a power.
    def number(self, value: float) -> str:
        mantissa, exponential, exponent = number(value).partition("e")
        digits = mantissa.lstrip("-")
        text = f"<mi>{_GLYPHS['inf']}</mi>" if digits == "inf" else f"<mn>{digits}</mn>"
        power = f"<mo>×</mo><msup><mn>10</mn>{_join(self.number(int(exponent)))}</msup>" if exponential else ""
        return self.sign("-") * (digits != mantissa) + text + power

    def symbol(self, name: str) -> str:
        first, _, below = name.partition("_")
        if below and len(first) == 1:
            return _lower(self.symbol(first), self.symbol(below))
        letters = name.rstrip("'")
        return _prime(f"<mi>{letters}</mi>", len(name) - len(letters))

    # The digits above are read before the slots.
    def script(self, base: str, slots: str, at: str, above: str = "") -> str:
        if not slots:
            return base
        tag, words = ("munder" if "∑" in base else "msub") + "sup" * bool(above), ",$u" * bool(above) + f",{at}" * bool(at)
        scripts = _join(slots) + (_name(above, "u") if above else "")
        return f'<{tag} intent="_($t{words})">{_name(base, "t")}{scripts}</{tag}>'

    # `at b, s, s prime`: a slot is read without a pause.
    def place(self, word: str, slots: Sequence[str], between: str = "") -> tuple[str, str]:
        text = between.join(_name(slot.replace(_PAUSE, ""), f"i{k}") for k, slot in enumerate(slots))
        return text, f"_{word}:prefix{_PAUSE}({_refer('i', len(slots), _PAUSE)})" if slots else ""

    # The digits of `W0_d` stand above, as in LaTeX (R11).
    def tensor(self, name: str, slots: Sequence[Expression]) -> str:
        letters = name.rstrip("'")
        place = self.place("at", list(map(self.slot, slots)), _THIN * is_apart(slots))
        if slots and letters[1:].isdigit():
            above = _prime(f"<mn>{letters[1:]}</mn>", len(name) - len(letters))
            return self.script(self.symbol(letters[0]), *place, above)
        return self.script(self.symbol(name), *place)

    def operator(self, name: str, indices: Sequence[Index]) -> str:
        row = primitive(name, bool(indices))
        letters, _, below = row.latex.strip("\\{}").partition("_{") if row and row.latex and not row.infix else (name, "", "")
        base = "<mo>∑</mo>" if row and name == "sum" else self.symbol(letters)
        if row and name in _WORDS:
            base = re.sub(r"^<\w+", rf'\g<0> intent="_{_WORDS[name]}"', base)
        base = _lower(base, f"<mn>{below}</mn>") if below else base
        return self.script(base, *self.place("over" if row else "at", list(map(self.member, indices))))

    def top(self, k: str, indices: Sequence[Index]) -> str:
        slots, over = self.place("over", list(map(self.member, indices)))
        return self.script(self.symbol("top"), _name(k, "k") + self.comma + slots, f"$k,{over}".rstrip(","))

    # -------------------------------------------------------------------------------------------------------- formulas

    def enclose(self, text: str) -> str:
        return f"<mrow>{_fence(text, '(', ')')}</mrow>"

    def enclose_arguments(self, text: str) -> str:
        return _APPLY + self.enclose(text)

    def enclose_slot(self, text: str) -> str:
        return f'<mrow intent="$e">{_fence(_name(text, "e"), "(", ")")}</mrow>'

    def group(self, members: Sequence[str]) -> str:
        letters = "".join(_name(member, f"i{k}") for k, member in enumerate(members))
        return f'<mrow intent="_group:prefix({_refer("i", len(members))})">{_fence(letters, "(", ")")}</mrow>'

    def sequence(self, members: Sequence[str]) -> str:
        return f"<mrow>{_fence(self.comma.join(members), '[', ']')}</mrow>"

    # A dot stands before digits, space beside calls, parentheses and upright names.
    def multiply(self, factors: Sequence[str]) -> str:
        text = factors[0]
        for before, factor in pairwise(factors):
            apart = _THIN * bool(_WIDE.match(before) or _WIDE.match(factor))
            text += ("<mo>⋅</mo>" if factor.startswith("<mn>") else f"<mo>{_TIMES}</mo>{apart}") + factor
        return text

    def fraction(self, above: str, below: str) -> str:
        return f"<mfrac>{_join(above)}{_join(below)}</mfrac>"

    # A power stands behind the slots of a tensor: digits of a name stand above them.
    def write_power(self, base: Expression, text: str, exponent: str) -> str:
        return f"<msup>{_join(text)}{_join(exponent)}</msup>"

    def fence(self, name: str, text: str) -> str:
        left, right, word = _FENCES[name]
        return f'<mrow intent="{word}($x)">{_fence(_name(text, "x"), left, right)}</mrow>'

    def root(self, text: str) -> str:
        return f"<msqrt>{text}</msqrt>"

    def total(self, e: tree.Apply, summand: str) -> str:
        return f'<mrow intent="$f($x)">{_name(self.operator(e.name, e.indices), "f")}{_name(summand, "x")}</mrow>'

    def call(self, head: str, arguments: Sequence[Expression]) -> str:
        texts = list(map(self.expression, arguments))
        inner = self.comma.join(_name(text, f"x{k}") for k, text in enumerate(texts))
        return f'<mrow intent="$f({_refer("x", len(texts))})">{_name(head, "f")}{self.enclose_arguments(inner)}</mrow>'

    def branches(self, rows: Sequence[tuple[str, str]]) -> str:
        ends = (f"<mtext>if</mtext>{self.blank}{end}" if end else "<mtext>otherwise</mtext>" for _, end in rows)
        table = (_row((value, end), 0.2) for (value, _), end in zip(rows, ends, strict=True))
        named = "".join(_name(row, f"r{k}") for k, row in enumerate(table))
        return f'<mrow intent="_({_refer("r", len(rows), _PAUSE)})"><mo>{{</mo><mtable>{named}</mtable></mrow>'

    # ----------------------------------------------------------------------------------------------------------- lines

    def heading(self, word: str) -> str:
        return f'<mtext style="font-weight: bold">{word}</mtext>'

    def keyword(self, word: str) -> str:
        return self.heading(word) + self.blank

    def remark(self, comment: str) -> str:
        return f'<mtext style="font-style: italic">{escape(comment, quote=False)}</mtext>'

    def remarks_beside(self, note: str, comment: str) -> str:
        source, words = (f"<mtext>{escape(text, quote=False)}</mtext>" if text else "" for text in (note, comment))
        return self.separate(f'<mi intent="_source">@</mi>{self.blank}{source}' if source else "", words)

    def separate(self, *parts: str) -> str:
        return '<mspace width="2em"/>'.join(filter(None, parts))

    def signature(self, layer: Layer) -> str:
        formals = self.enclose_arguments(self.comma.join(map(self.left, layer.formals)))
        return f"{self.operator(layer.name, layer.indices)}{formals}{self.sign('->')}{self.left(layer.output)}"

    def fits(self, row: list[Weight], weight: Weight) -> bool:
        return PLAIN.fits(row, weight)

    def align(self, rows: Iterable[tuple[int, Sequence[str]]]) -> str:
        lines = "".join(_row(cells, 2 * indent) for indent, cells in rows)
        return f'<mtable displaystyle="true" intent=":lines" style="white-space: nowrap">{lines}</mtable>'


# A cell alone takes all columns: notes stand beside equations, not behind the longest comment.
def _row(cells: Sequence[str], indent: float = 0) -> str:
    first, *others = (cell or _BLANK for cell in cells)
    alone = "" if others else ' columnspan="2"'
    return f"<mtr>{_CELL.format(alone, indent, first)}{''.join(_CELL.format('', 2, cell) for cell in others)}</mtr>"


_CELL = '<mtd{} style="text-align: left; padding-left: {:g}em">{}</mtd>'
_BLANK = '<mspace height="0.6em"/>'
MATHML = MathML()
