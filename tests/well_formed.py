"""Which texts are right? Random ones, written forwards: each equation reads what is there, and defines one tensor more.

`written(random)` writes a whole file: a few layers, then the operator that is tested, a causal model in two of three. One
writer serves Hypothesis (`texts()`) and tables over fixed seeds. What few people write, it writes where it is told to: the
names of `tests/rare.py`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from hypothesis import strategies as st

from tests import rare

Letters = tuple[str, ...]
Template = TypeVar("Template")

THERE = "s'"
LOOPS = "lm"
ALL = "bsdaefguxcvkihlm"  # the order of the legend
FEATURES = tuple("deafgux")
MOST_FEATURES = 3  # of one tensor
TENSORS = tuple("yrtqnowj") + tuple("γδσφψω")
WEIGHTS = tuple("ABCDEFGHIJKLMNOPQRSTUVXYZ") + tuple("αβκμτχ")
HEADS = (  # how the axes of heads and of pairs may hang together
    {"d": "D", "e": "H = 2 P", "h": "P"},
    {"d": "D", "e": "H", "h": "H / 2"},
    {"d": "D = A H", "e": "H", "h": "P"},
    {"d": "D", "e": "H = D / A", "h": "P"},
)
SCALARS = {
    "ε": "ε = 1e-5",
    "p": "p = 0.1",
    "W": "W = 3",
    "N": "N = 2",
    "Θ": "Θ = 100",
    "θ": "θ_d = Θ^(-2 d / D)",
    "λ": "λ_a = 2^(-(a + 1) / A)",
    "η": "η_i = [1, -0.5]",
    "ρ": "ρ_l = where(l mod 2 == 0, 0.5, inf)",
    "υ": "υ_a = 2 a + 1",
    "ν": "ν_l = where(l mod 2 == 0, 2, inf)",
    "ι": "ι_l = l + 1",
    "я": "я_a = 2",
    "ж": "ж_l = [2, inf]",
    "t": "t = 0.5",
}
LIBRARY = "bsdafguxcvklm"  # axes that the library has with the same size
FUNCTIONS = (
    "tanh({0})", "tanh {0}", "erf({0})", "gelu({0})", "gelutanh({0})", "silu({0})", "relu({0})", "sigmoid({0})",
    "softplus({0})", "abs({0})", "sin({0})", "cos({0})", "exp(-abs({0}))", "log(1 + {0}^2)", "log2(2 + {0}^2)",
    "sqrt(1 + {0}^2)",
    "max({0}, 0)", "min({0}, 1)", "{0} / (1 + abs({0}))", "-2 {0}", "(1 - {0}) / 3", "tanh({0})^2", "π {0}", "({0} / 2)^3",
    "Dr({0})", "Dr({0}, 0.5)", "where({0} > 0, {0}, {0} / 7)", "where({0} >= 0, {0}, 0)", "where({0} < 1, {0}, 1)",
)  # fmt: skip
PAIRS = (
    "tanh({0}) {1}", "silu({0}) {1}", "{0} + {1}", "{0} - {1} / 2", "min({0}, {1})", "max({0}, -{1})", "{0} / (1 + {1}^2)",
    "sigmoid({0}) {1} + {0}", "where({0} <= {1}, {0}, {1})", "sin({0} + {1})", "{0} {1} / sqrt(2)", "({0} + 1) tanh({1})",
)  # fmt: skip
NORMS = (
    "{0} / sqrt(mean_{1} {0}^2 + ε)",
    "{0} / sqrt(sum_{1} {0}^2 + ε)",
    "({0} - mean_{1} {0}) / sqrt(var_{1} {0} + ε)",
    "{0} / (1 + max_{1}(abs({0})))",
    "exp({0} - lse_{1} {0})",
    "exp({0}) / sum_{1} exp({0})",
)
KEEPING = ("Sm_{1}({0})", "Sm_{1} {0}", "cumsum_{1} {0}", "cumsum_{1}(tanh({0}))", "cumprod_{1}(tanh({0}))")
REDUCING = ("sum", "mean", "var", "max", "min", "lse")
CONDITIONS = (
    "{0} mod 2 == 0", "{0} < 1", "{0} != 0", "not {0} == 1", "{0} <= 1 or {0} > 2", "{0} >= 1 and {0} != 2",
    "floor({0} / 2) == 0", "ceil({0} / 2) < 2",
)  # fmt: skip
MASKS = (
    "where({1} <= {0}, 0, -inf)",
    "where({0} - W < {1} <= {0}, 0, -inf)",
    "where({1} <= {0} and floor({1} / 2) == floor({0} / 2), 0, -inf)",
    "where({1} <= {0}, ({1} - {0}) / 4, -inf)",
    "where({1} > {0}, -inf, cos({0} - {1}))",
)
ROUTES = ("where(top_{{2,x}}({0}), {0}, 0)", "Sm_x(where(top_{{N,x}}({0}), {0}, -inf))", "where(top_{{1,x}} {0}, 1, 0)")
SPARSE = ("where(top_{{2,{1}}}({0}), {0}, 0)", "where(not top_{{1,{1}}}({0}), {0}, 0)")


@dataclass(frozen=True)
class Text:
    """A text, the kind of operator that its `Main` is, and the size letters that must be bound."""

    text: str
    causal: bool
    tokens: bool
    base: Letters
    forms: frozenset[str] = frozenset()  # those that it has

    def sizes(self, *numbers: int) -> dict[str, int]:
        """A value for every size; the numbers are used in turn, beginning with `B` and `S`."""
        values = dict(zip(self.base, itertools.cycle(numbers), strict=False))
        if "H = D / A" in self.text:
            values["D"] = values["A"] * values.pop("H")
        if "h: H / 2" in self.text:
            values["H"] *= 2
        fixed = {"L": 2, "M": 2, "K": values.get("S", 2)}
        return values | {letter: number for letter, number in fixed.items() if letter in values}


def texts(causal: bool | None = None) -> st.SearchStrategy[Text]:
    """Random well-formed texts, drawn and shrunk by Hypothesis."""
    return st.randoms(use_true_random=False).map(lambda random: written(random, causal))


def written(random: Random, causal: bool | None = None, allowed: Collection[str] = ()) -> Text:
    """A random well-formed text, with some of the forms that are allowed."""
    return _File(random, causal, allowed).written()


@dataclass
class Value:
    """A tensor of a body: its name, the letter over each of its axes, whether something reads it, and what a term may lack."""

    name: str
    letters: Letters
    read: bool = False
    lacking: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Signature:
    """A layer that can be called; `letters` are those of which its body makes use."""

    name: str
    subscript: Letters
    formal: Letters
    output: Letters
    weights: bool = True
    mask: bool = False
    letters: frozenset[str] = frozenset("d")
    other: Letters | None = None  # of a second tensor
    number: bool = False


PRELUDE = (
    Signature("RMSNorm", ("d",), ("d",), ("d",)),
    Signature("LayerNorm", ("d",), ("d",), ("d",)),
    Signature("GatedMLP", ("f",), ("d",), ("d",), letters=frozenset("df")),
)
TAKEN = {  # layers of the library under other names
    "a layer of the library under another name": Signature("Plain", ("d",), ("d",), ("d",)),
    "a layer of the library with another line": Signature("Rooted", ("d",), ("d",), ("d",)),
}
TAKEN_LINES = {
    "Plain": "layer Plain = LayerNorm",
    "Rooted": "layer Rooted = RMSNorm:\n  return γ_d z_d / (1 + sqrt(mean_d (z_d^2)))",
}


class _File:
    """The legend as far as it is in use, and the layers so far."""

    def __init__(self, random: Random, causal: bool | None, allowed: Collection[str]) -> None:
        self.random, self.allowed = random, allowed
        self.forms: set[str] = set()  # those that came up
        self.causal = self.chance(67) if causal is None else causal
        self.heads = random.choice(HEADS)
        self.bounded = self.chance(33)
        self.axes: set[str] = set()
        self.scalars: set[str] = set()
        self.layers: list[str] = []
        self.signatures = list(PRELUDE)
        self.tokens = False  # is there an `x_bs`? In layers there is none
        self.has_t = self.does("a scalar that is called like an index")
        self.timeless = not self.causal and self.does("a text without time")

    def chance(self, percent: int) -> bool:
        return self.random.randrange(100) < percent

    def does(self, form: str) -> bool:
        """Is the form written here?"""
        if form not in self.allowed or not self.chance(rare.ORDERS[form]):
            return False
        self.forms.add(form)
        return True

    def form(self, table: Mapping[str, Template]) -> Template | None:
        """One of a table, if any of them is allowed."""
        names = [name for name in table if name in self.allowed]
        if not names:
            return None
        name = self.random.choice(names)
        self.forms.add(name)
        return table[name]

    def some(self, items: Sequence[str], least: int, most: int) -> Letters:
        """Between `least` and `most` of the items, in random order."""
        return tuple(self.random.sample(list(items), min(len(items), self.random.randint(least, most))))

    def written(self) -> Text:
        for number in range(self.random.randrange(3)):
            name = f"{self.random.choice(['Mix', 'Part', 'Unit'])}{number + 1}"
            if self.does("a layer that is called like a class"):
                taken = {signature.name for signature in self.signatures}
                name = self.random.choice([name for name in rare.LAYERS if name not in taken])
            self.layer(name)
        for form, signature in TAKEN.items():
            if self.does(form):
                self.axes.add("d")
                self.scalars |= {"ε"} if signature.name == "Plain" else set()
                self.layers.append(TAKEN_LINES[signature.name] + "\n")
                self.signatures.append(signature)
        tokens = not self.timeless and self.chance(40)
        self.main(tokens)
        legend = self.legend()
        title = "# drawn.ein: a text that nobody wrote\n" if self.chance(50) else ""
        base = _base(self.size(letter) for letter in ALL if letter in self.axes)
        return Text(title + "\n".join([legend, *self.layers]), self.causal, tokens, base, frozenset(self.forms))

    # ------------------------------------------------------------------------------------------------ the legend

    def spell(self, name: str, slots: Iterable[str]) -> str:
        """`q_bsea`, `u_{bs(ae)}`, `E_{x_bs d}`: a name with its subscript, whose letters are in use from now on."""
        slots = list(slots)
        self.axes |= {letter for slot in slots for letter in re.findall(r"[a-z](?!'*_)", slot) if letter in ALL}
        if all(re.fullmatch("[a-z]'*", slot) for slot in slots):
            return f"{name}_{''.join(slots)}" if slots else name
        spaced = (slot + " " if "_" in slot or slot.isdigit() else slot for slot in slots)
        return f"{name}_{{{''.join(spaced).strip()}}}"

    def scalar(self, name: str) -> str:
        """The name of a scalar, which is in use from now on."""
        self.scalars |= {name, "Θ"} if name == "θ" else {name}
        return name

    def number(self, letter: str) -> str:
        """The size of an axis as one writes it in a formula."""
        return self.size(letter).split()[0]

    def size(self, letter: str) -> str:
        """What the legend says of an axis."""
        sizes = {"i": "2", "s": "S <= K" if self.bounded and "k" in self.axes else "S", **self.heads}
        return sizes.get(letter, letter.upper())

    def derives(self, letters: Iterable[str], letter: str) -> bool:
        """Does the size of one of the letters hang on that of another, `letter`?"""
        return any(self.number(letter) in self.size(other) for other in letters if other != letter)

    def legend(self) -> str:
        """The axes and scalars in use."""
        axes = [self.axis(letter) for letter in ALL if letter in self.axes]
        scalars = [text if name not in "εp" else name for name, text in SCALARS.items() if name in self.scalars]
        if scalars and self.does("scalars on one line"):
            block = f"scalars {', '.join(scalars)}\n"
        else:
            scalars = [text for name, text in SCALARS.items() if name in self.scalars]
            block = (
                "".join(f"{line}\n" for line in ("scalars", *(f"  {text}{self.remark()}" for text in scalars)))
                if scalars
                else ""
            )
        return self.block(axes) + ("\n" + block if block else "")

    def axis(self, letter: str) -> str:
        return f"{letter}: {self.size(letter)}"

    def block(self, axes: list[str]) -> str:
        """The axes, each on a line; or the first of them on one, of which some are as in the library."""
        first = axes[: self.random.randint(1, len(axes))] if axes and self.does("axes on one line") else []
        rest = [f"  {axis}{self.remark()}" for axis in axes[len(first) :]]
        if first:
            plain = [axis for axis in first if axis[0] in LIBRARY and axis == f"{axis[0]}: {axis[0].upper()}"]
            if plain and self.does("an axis of the library by its letter"):
                first = [axis[0] if axis in plain else axis for axis in first]
        return "\n".join([f"axes {', '.join(first)}".strip(), *rest]) + "\n"

    def remark(self) -> str:
        return f"  # {self.random.choice(['of many', 'an axis', 'what runs'])}" if self.chance(10) else ""

    def note(self) -> str:
        return "  @ goon 1.1.2" if self.chance(10) else ""

    # ------------------------------------------------------------------------------------------------ the layers

    def layer(self, name: str) -> None:
        """A layer on few letters, over time in one of two, with a subscript in one of two."""
        time = ("s",) * (not self.timeless and self.chance(50))
        formal = (*time, *self.some(FEATURES, 1, 2))
        body = _Body(self, [Value("z", formal)])
        body.taken |= {"c", "τ"}
        mask = bool(time) and self.chance(50)
        if mask:
            body.masks.append("m_ss'")
            if self.does("a mask changed by the layer that is given it"):
                body.narrow("m_ss'")
            body.attend_with(body.values[0], "s", " + m_ss'")
        other = (
            self.some([f for f in formal if f in FEATURES], 1, 1) if self.does("a layer that is given two tensors") else None
        )
        number = self.does("a layer that is given a number")
        body.values += ([Value("c", other)] if other else []) + [Value("τ", ())] * number
        body.write(self.random.randint(1, 3))
        output = (*time, *self.some(FEATURES, 1, 2)) if self.chance(50) else formal
        named = body.finish(output)
        subscript = formal[-1:] * self.chance(50)
        formals = self.spell("z", formal) + ", m_ss'" * mask
        formals += (f", {self.spell('c', other)}" if other else "") + ", τ" * number
        head = f"layer {self.spell(name, subscript)}({formals}) -> {self.spell(named, output)}:{self.note()}"
        self.layers.append(body.text(head))
        letters = frozenset(re.findall("[a-z]", " ".join(re.findall(r"_\{.*?\}|_[a-z']+", body.text(head)))))
        self.signatures.append(Signature(name, subscript, formal, output, bool(body.weights), mask, letters, other, number))

    def main(self, tokens: bool) -> None:
        """The operator to be tested."""
        rows = () if self.timeless else ("b", "s")
        self.tokens = tokens
        inputs = [Value("x", rows) if tokens else Value("z", (*rows, *self.some(FEATURES, 1, 2)))]
        body = _Body(self, list(inputs))
        if tokens:
            body.embed()
        if self.does("one of several inputs"):
            inputs.append(Value("c", (*rows[: self.random.randrange(3)], *self.some(FEATURES, 1, 2))))
            body.values.append(inputs[-1])
            body.taken.add("c")
            self.random.shuffle(inputs)
        body.write(self.random.randint(2, 6))
        output = (*rows, *self.some(FEATURES, 1, 2)) if self.causal else self.some((*rows, *FEATURES), 0, 3)
        group = [letter for letter in output if letter in FEATURES]
        merged = len(group) == 2 and output[-2:] == tuple(group) and self.does("an output whose axes are merged")
        named = body.finish(output, merged)
        kind = "model" if self.causal else self.random.choice(["model", "layer"])
        formals = ", ".join(self.spell(value.name, value.letters) for value in inputs)
        left = (*output[:-2], f"({''.join(output[-2:])})") if merged else output
        head = f"{kind} Main({formals}) -> {self.spell(named, left)}"
        self.layers.append(body.text(f"{head} causal in s:" if self.causal else f"{head}:"))


def _base(sizes: Iterable[str]) -> Letters:
    """The size letters that must be bound; `H` of `H = D / A` too, from which D is made."""
    sizes = list(sizes)
    letters = dict.fromkeys(letter for size in sizes for letter in re.findall("[A-Z]", size))
    derived = {size[0] for size in sizes if " = " in size and size != "H = D / A"}
    return tuple(letter for letter in letters if letter not in derived)


class _Body:
    """One layer: its tensors, equations and weights so far."""

    def __init__(self, file: _File, values: list[Value]) -> None:
        self.file, self.random, self.values = file, file.random, values
        self.masks: list[str] = []
        self.lines: list[str] = []
        self.weights: list[str] = []
        self.matrices: list[Value] = []
        self.instances: dict[
            str, tuple[Letters, *tuple[object, ...]]
        ] = {}  # the name of each, and what its calls have in common
        self.taken = {value.name for value in values} | {"m", "z"} | ({"t"} if file.has_t else set())
        self.turns: Letters = ()  # the letters of the loops around
        self.lacking = set[str]()  # the letters that a term of the equation that is being written may lack

    def text(self, head: str) -> str:
        return "\n".join([head, *self.weights, *self.lines]) + "\n"

    def write(self, count: int) -> None:
        """That many constructs, each reading what is there."""
        for _ in range(count):
            kinds = (
                self.random.choice((RARE, CONSTRUCTS, (_Body.attend, _Body.attend, _Body.repeat)))
                if self.file.allowed
                else CONSTRUCTS
            )
            self.random.choice(kinds)(self)

    def finish(self, output: Letters, merged: bool = False) -> str:
        """The last equation, which reads all that nothing has read; the name of the output."""
        right = self.collected([value for value in self.values if not value.read], output)
        if not merged and self.file.chance(70):
            self.line(f"return {right}")
            return "z" if output else "ζ"
        name = "ξ"
        left = (*output[:-2], f"({''.join(output[-2:])})") if merged else output
        self.line(f"{self.file.spell(name, left)} = {right}")
        return name

    def collected(self, values: Sequence[Value], output: Letters) -> str:
        """Everything that values say, over the letters of `output`: a sum of products with weights."""
        terms: list[str] = []
        values = values or [self.random.choice(self.values)]
        rows = {"b", "s"} & set(output)
        if self.file.causal and not any(rows <= set(value.letters) for value in values):
            values = [self.random.choice([value for value in self.values if rows <= set(value.letters)]), *values]
        for value in values:
            lost = [letter for letter in value.letters if letter not in output]
            missing = [letter for letter in output if letter not in value.letters and not (self.file.causal and letter in "bs")]
            letters = lost + missing * (not terms or self.file.chance(50))
            terms.append(self.read(value) + (f" {self.read(self.weight(letters))}" if letters else ""))
        return self.random.choice([" + ", " - "]).join(terms)

    # ------------------------------------------------------------------------------------------------- the pieces

    def fresh(self, names: Sequence[str]) -> str:
        """A name that the body does not have yet."""
        if len(names) > 3 and self.file.does("a name that Python or torch has"):
            names = rare.NAMES
        names = self.random.sample(list(names), len(names))
        if len(names) > 3 and self.file.does("a name with a digit"):
            names = [name + digit for name in names for digit in "01"]
        name = next(n for n in (n + "'" * primes for primes in itertools.count() for n in names) if n not in self.taken)
        self.taken.add(name)
        return name

    def pick(self, suits: Callable[[Value], bool] = lambda value: True) -> Value | None:
        """A tensor that suits, if possible one that nothing reads yet."""
        suitable = [value for value in self.values if suits(value)]
        unread = [value for value in suitable if not value.read]
        return self.random.choice(unread or suitable) if suitable else None

    def free(self, value: Value) -> Letters:
        """The letters that may be summed: all but rows and positions of a causal model."""
        return tuple(letter for letter in value.letters if not (self.file.causal and letter in "bs"))

    def new(self, letters: Letters, least: int, most: int) -> Letters:
        """Letters that a tensor does not have yet, as long as it has room."""
        room = MOST_FEATURES - sum(letter not in "bs" for letter in letters)
        return self.file.some([f for f in FEATURES if f not in letters], max(0, min(least, room)), max(0, min(most, room)))

    def read(self, value: Value, slots: Mapping[str, str] | None = None) -> str:
        """A tensor as it stands on the right, some of its letters replaced by other slots."""
        value.read = True
        self.lacking |= value.lacking
        return self.file.spell(value.name, [(slots or {}).get(letter, letter) for letter in value.letters])

    def define(self, letters: Iterable[str], right: str, slots: Mapping[str, str] | None = None) -> Value:
        """A new tensor; on its left side some of the letters may be other slots."""
        ordered = self.ordered(letters, "axes of a tensor in any order")
        name = self.fresh(TENSORS)
        while name.endswith("'") and not ordered:  # with a prime and no subscript, a name is an index
            name = self.fresh(TENSORS)
        value = Value(name, ordered)
        left = self.read(value, slots)
        value.read = False
        value.lacking, self.lacking = frozenset(self.lacking), set()
        self.line(f"{left} = {right}")
        self.values.append(value)
        return value

    def felt(self, value: Value, over: Iterable[str]) -> Value:
        """A tensor each of whose terms an operator can feel (R3)."""
        if value.lacking.isdisjoint(over):
            return value
        inner = self.define(value.letters, f"tanh({self.read(value)})")
        inner.lacking = frozenset()
        return inner

    def ordered(self, letters: Iterable[str], form: str) -> Letters:
        """The letters as they are, or in any order."""
        letters = list(letters)
        if self.file.does(form):
            self.random.shuffle(letters)
        return tuple(letters)

    def line(self, text: str) -> None:
        self.lines.append("  " + "  " * len(self.turns) + text + self.file.note() + self.file.remark())

    def weight(self, letters: Iterable[str]) -> Value:
        """A new weight: trained, optional, a buffer, or tied to another over the same axes."""
        letters = tuple(letters)
        if self.file.chance(20):
            letters = (*(turn for turn in self.turns if turn not in letters), *letters)
        letters = self.ordered(letters, "axes of a weight in any order")
        value = Value(self.fresh(WEIGHTS if letters else "αβκμτχ"), letters)
        text = self.file.spell(value.name, value.letters)
        same = [other for other in self.matrices if sorted(other.letters) == sorted(value.letters)]
        if same and self.file.chance(50):
            text += f"{self.random.choice(['', '?'])} = {self.read(same[0])}"
        else:
            text += self.random.choice(["", "", "", "?"])
        self.matrices.append(value)
        if self.weights and self.weights[-1].startswith("  weights ") and self.file.does("several weights on one line"):
            self.weights[-1] += f", {text}"
        else:
            self.weights.append(f"  {'buffers' if self.file.chance(10) else 'weights'} {text}")
        return value

    def formula(self, template: str, *parts: str) -> str:
        """A template filled; its scalars are in use from now on."""
        for name in ("ε", "W", "N"):
            if name in template:
                self.file.scalar(name)
        if template == "Dr({0})":
            self.file.scalar("p")
        return template.format(*parts)

    # -------------------------------------------------------------------------------- constructs on any axes at all

    def project(self) -> None:
        """`q_bsea = z_bsd Q_dea`, with a bias, under a function."""
        if value := self.pick(lambda value: bool(self.free(value))):
            lost = self.file.some(self.free(value), 1, 2)
            kept = [letter for letter in value.letters if letter not in lost]
            new = self.new(value.letters, 0, 2)
            shared = self.file.some([letter for letter in kept if letter in FEATURES], 0, 1)
            right = f"{self.read(value)} {self.read(self.weight((*lost, *shared, *new)))}"
            if new and self.file.chance(40):
                right += f" + {self.read(self.weight(new))}"
                self.lacking.update(kept)
            self.define((*kept, *new), self.random.choice(["{0}", "gelu({0})", "{0}", "2 ({0})"]).format(right))

    def mix(self) -> None:
        """`y_bsd = z_bsd' O_d'd`: onto the same axis."""
        if value := self.pick(lambda value: bool(set(FEATURES).intersection(value.letters))):
            letter = self.random.choice([letter for letter in value.letters if letter in FEATURES])
            primed = letter + "'"
            weight = self.weight(self.random.choice([(primed, letter), (letter, primed)]))
            slots = {} if weight.letters[-1] == letter else {letter: primed, primed: letter}
            self.define(value.letters, f"{self.read(value, {letter: primed})} {self.read(weight, slots)}")

    def function(self) -> None:
        if value := self.pick():
            self.define(value.letters, self.formula(self.random.choice(FUNCTIONS), self.read(value)))

    def pair(self) -> None:
        """Two tensors, one with the letters of the other and perhaps more."""
        value = self.random.choice(self.values)
        if other := self.pick(lambda other: set(other.letters) <= set(value.letters)):
            self.lacking.update(set(value.letters).difference(other.letters))
            self.define(value.letters, self.random.choice(PAIRS).format(self.read(other), self.read(value)))

    def norm(self) -> None:
        if value := self.pick(lambda value: bool(self.free(value))):
            over = self.over(self.file.some(self.free(value), 1, 2))
            inner = self.define(value.letters, f"tanh({self.read(value)})")
            self.define(value.letters, self.formula(self.random.choice(NORMS), self.read(inner), over))

    def over(self, letters: Letters) -> str:
        """The subscript of an operator."""
        return "".join(letters) if len(letters) == 1 else f"{{{''.join(letters)}}}"

    def keep(self) -> None:
        """A softmax or a running sum; the latter along time too."""
        if value := self.pick(lambda value: bool(value.letters)):
            letters = self.free(value)
            if "s" in value.letters and (not letters or self.file.chance(30)):
                self.define(value.letters, self.random.choice(KEEPING[2:]).format(self.read(value), "s"))
            elif letters:
                template, over = self.random.choice(KEEPING), self.random.choice(letters)
                self.define(value.letters, template.format(self.read(self.felt(value, over)), over))

    def reduce(self) -> None:
        if value := self.pick(lambda value: bool(self.free(value))):
            over = self.file.some(self.free(value), 1, 2)
            right = f"{self.random.choice(REDUCING)}_{self.over(over)} {self.read(self.felt(value, over))}"
            self.define([letter for letter in value.letters if letter not in over], right)

    def thin(self) -> None:
        """All but the largest are zero."""
        if value := self.pick(lambda value: bool(self.free(value))):
            over = "".join(self.file.some(self.free(value), 1, 2))
            template = self.random.choice(SPARSE)
            if self.turns and self.file.does("as many of the largest as a layer has"):
                template = f"where(top_{{{{{self.file.spell(self.file.scalar('ι'), self.turns[0])},{{1}}}}}}({{0}}), {{0}}, 0)"
            self.define(value.letters, template.format(self.read(self.felt(value, over)), over))

    def choose(self) -> None:
        """`where` on the number of an index."""
        if value := self.pick(lambda value: bool(set(value.letters) - {"b"})):
            index = self.random.choice([*(f for f in value.letters if not (self.file.causal and f == "b")), *self.turns])
            condition = self.random.choice(CONDITIONS).format(index)
            otherwise = self.random.choice(["0", "-{0}", "{0} / 5", "1"]).format(self.read(value))
            self.define(value.letters, f"where({condition}, {self.read(value)}, {otherwise})")

    def route(self) -> None:
        """The largest of a few, and what is computed for them."""
        if value := self.pick(lambda value: bool(self.free(value)) and "x" not in value.letters):
            lost = self.random.choice(self.free(value))
            kept = [letter for letter in value.letters if letter != lost]
            scores = self.define((*kept, "x"), f"{self.read(value)} {self.read(self.weight((lost, 'x')))}")
            chosen = self.define(scores.letters, self.formula(self.random.choice(ROUTES), self.read(scores)))
            if self.file.does("experts of square matrices"):
                inner = self.read(value, {lost: lost + "'"})
                right = f"{self.read(chosen)} {inner} {self.read(self.weight(('x', lost + THERE[1:], lost)))}"
            else:
                gate = self.define((*kept, "x"), f"{self.read(value)} {self.read(self.weight((lost, 'x')))}")
                right = f"{self.read(chosen)} silu({self.read(gate)}) {self.read(self.weight(('x', lost)))}"
            if self.file.does("experts over the sum of their weights"):
                right += f" / (1 + sum_x {self.read(chosen)}^2)"
            self.define((*kept, lost), right)

    def bias(self) -> None:
        """One row of a table, or a scalar over an axis."""
        if value := self.pick(lambda value: bool(set(value.letters) & set(FEATURES))):
            letter = self.random.choice([letter for letter in value.letters if letter in FEATURES])
            table = self.weight(("v", letter))
            right = self.read(table, {"v": "0"})
            if letter == "a" and self.file.does("a scalar that does not use its index"):
                right = f"{self.file.spell(self.file.scalar('я'), 'a')} {right}"
            elif letter in "da" and self.file.chance(50):
                right = f"{self.file.spell(self.file.scalar({'d': 'θ', 'a': 'λ'}[letter]), letter)} {right}"
            if self.turns and self.file.chance(50):
                right = f"min({self.file.spell(self.file.scalar('ρ'), 'l')}, 1) {right}"
            if self.file.chance(30):
                self.file.axes.add("l")
                right += f" mean_l {self.read(self.weight(('l',)), {})}"
            self.lacking.update(set(value.letters) - {letter})
            self.define(value.letters, f"{self.read(value)} + {right}")

    def neighbour(self) -> None:
        """Another place on the same axis: under a guard, or by a number that has a name."""
        if value := self.pick(lambda value: bool(set(value.letters) & set(FEATURES))):
            letter = self.random.choice([letter for letter in value.letters if letter in FEATURES])
            size = self.file.number(letter)
            if self.file.chance(50):
                right = f"where({letter} < {size} - 1, {self.read(value, {letter: f'({letter} + 1)'})}, 0)"
            else:
                place = self.fresh("nw")
                self.line(f"{self.file.spell(place, letter)} = ({letter} + 1) mod {size}")
                right = self.read(value, {letter: self.file.spell(place, letter)})
            self.define(value.letters, right)

    def rotate(self) -> None:
        """Pairs of neighbours or of halves, each by its angle."""
        if value := self.pick(lambda value: "e" in value.letters and not {"h", "i"} & set(value.letters)):
            if "A" in self.file.heads["e"] or (self.file.heads["e"] == "H" and self.file.heads["h"] == "P"):
                return
            pair, other = self.random.choice([("(ih)", "((1 - i)h)"), ("(hi)", "(h(1 - i))")])
            turned = self.file.spell(self.file.scalar("η"), "i") if self.file.chance(50) else "(2 i - 1)"
            angle = f"{'s' if 's' in value.letters else '2'} / (h + 1)"
            first, second = self.read(value, {"e": pair}), self.read(value, {"e": other})
            right = f"{first} cos({angle}) + {turned} {second} sin({angle})"
            self.define(value.letters, right, {"e": pair})

    def merge(self) -> None:
        """`u_{bs(ae)} = y_bsea`, read as `u_bsd` where the legend says that it may."""
        value = self.pick(lambda value: {"a", "e"} <= set(value.letters) and "d" not in value.letters)
        if value is None and (flat := self.pick(lambda value: "d" in value.letters and not {"a", "e"} & set(value.letters))):
            heads = [letter for letter in flat.letters if letter != "d"]
            value = self.define((*heads, "a", "e"), f"{self.read(flat)} {self.read(self.weight(('d', 'a', 'e')))}")
        if value is not None:
            rest = [letter for letter in value.letters if letter not in "ae"]
            group = self.random.choice(["(ae)", "(ea)"])
            if "A" in self.file.heads["d"] + self.file.heads["e"]:
                self.define((*rest, "d"), self.read(value), {"d": group})
            else:
                merged = self.define((*rest, group), self.read(value))
                self.values.remove(merged)
                other = {group: "(ae)" if group == "(ea)" else "(ea)"} if self.file.does("a group in another order") else {}
                if self.file.does("a merged axis changed by <-"):
                    self.line(f"{self.read(merged, other)} <- {self.read(merged, other)} / 2 + {self.read(value)}")
                self.define(value.letters, f"tanh({self.read(merged, other)})")

    def split(self) -> None:
        """`q_bsea = p_{bs(ae)}`, where d is a and e."""
        if value := self.pick(lambda value: "d" in value.letters and not {"a", "e"} & set(value.letters)):
            rest = [letter for letter in value.letters if letter != "d"]
            if "A" in self.file.heads["d"] + self.file.heads["e"]:
                self.define((*rest, "e", "a"), self.read(value, {"d": self.random.choice(["(ae)", "(ea)"])}))

    def rebind(self) -> None:
        if value := self.pick():
            template = self.random.choice(["{0} / 2", "{0} + tanh({0})", "tanh({0})"])
            text = self.read(value)
            self.line(f"{text} <- {template.format(text)}")
            value.read = False

    # ----------------------------------------------------------------------------------- constructs over positions

    def embed(self) -> None:
        """`E_{x_bs d}`: a row for each token, and with bounded positions a row for each of those."""
        (tokens,) = self.values
        self.values.remove(tokens)
        letters = self.file.some(FEATURES, 1, 2)
        right = self.read(self.weight(("v", *letters)), {"v": "x_bs"})
        self.define(("b", "s", *letters), f"Dr({right}, 0.2)" if self.file.chance(30) else right)

    def position(self) -> None:
        """A table of positions, or waves."""
        if value := self.pick(lambda value: "s" in value.letters and bool(set(value.letters) & set(FEATURES))):
            letter = self.random.choice([letter for letter in value.letters if letter in FEATURES])
            if self.file.bounded:
                right = f"{self.read(value)} + {self.read(self.weight(('k', letter)), {'k': 's'})}"
                self.lacking.update(set(value.letters) - {"s", letter})
            else:
                right = f"{self.read(value)} cos(s / 10^({letter} / {self.file.number(letter)}))"
            self.define(value.letters, right)

    def attend(self) -> None:
        """Queries, keys and values over positions, or over any axis where nothing is causal."""
        here = "s" if self.file.causal else self.random.choice("sbde")
        value = self.pick(lambda value: here in value.letters and bool(set(self.free(value)) - {here}))
        if value is not None and self.new(value.letters, 1, 1):
            self.attend_with(value, here)

    def mask(self, here: str, there: str, heads: Sequence[str]) -> str:
        """The mask between two indices over one axis: a formula, a name for it, or none where nothing is causal."""
        if not self.file.causal and self.file.chance(60):
            return ""
        if here == "s" and self.masks and self.file.chance(50):
            return f" + {self.random.choice(self.masks)}"
        if "a" in heads and self.file.does("a mask by heads"):
            return f" + where({here} - {self.file.spell(self.file.scalar('υ'), 'a')} < {there} <= {here}, 0, -inf)"
        if self.turns and self.file.does("a mask by layers"):
            window = self.file.scalar("ж" if self.file.does("infinity in a list") else "ν")
            return f" + where({here} - {self.file.spell(window, self.turns[0])} < {there} <= {here}, 0, -inf)"
        if "a" in heads and self.file.chance(50):
            return f" + where({there} <= {here}, {self.file.spell(self.file.scalar('λ'), 'a')} ({there} - {here}), -inf)"
        template = self.file.form(rare.MASKS) if self.file.allowed and self.file.chance(60) else None
        formula = self.formula(template or self.random.choice(MASKS), here, there)
        if self.file.chance(40):
            return f" + {formula}"
        name = self.file.spell(self.fresh("mnw"), (here, there))
        self.line(f"{name} = {formula}")
        if self.file.does("a mask changed by <-"):
            self.narrow(name, here, there)
        self.masks += [name] * (here == "s" and not self.turns)
        return f" + {name}"

    def narrow(self, name: str, here: str = "s", there: str = THERE) -> None:
        """`m_ss' <- m_ss' - (s - s') / 3`"""
        if change := self.file.form(rare.CHANGES):
            self.line(f"{name} <- {change.format(here, there, name)}")

    def attend_with(self, value: Value, here: str, mask: str | None = None) -> None:
        """Scores between `here` and its prime, and what they weigh."""
        there = here + "'"
        lost = self.random.choice([letter for letter in self.free(value) if letter != here])
        base = [letter for letter in value.letters if letter != lost]
        key, *heads = self.new(value.letters, 1, 2)
        shared = heads * self.file.chance(50)
        out = self.random.choice([f for f in FEATURES if f not in (*value.letters, key, *heads)])
        query = self.define((*base, key, *heads), f"{self.read(value)} {self.read(self.weight((lost, key, *heads)))}")
        source = value
        if self.file.does("keys of another tensor"):
            source = (
                self.pick(lambda other: here in other.letters and bool(self.lose(other, base, {here, key, out, *heads})))
                or value
            )
        gone = lost if source is value else self.lose(source, base, {here, key, out, *heads})
        kept = [letter for letter in source.letters if letter != gone]
        keys = self.define((*kept, key, *shared), f"{self.read(source)} {self.read(self.weight((gone, key, *shared)))}")
        values = self.define((*kept, out, *shared), f"{self.read(source)} {self.read(self.weight((gone, out, *shared)))}")
        self.change(query, "queries changed by <-")
        self.change(keys, "keys changed by <-")
        product = f"{self.read(query)} {self.read(keys, {here: there})} / sqrt({self.file.number(key)})"
        scores = self.random.choice(["{0}", "{0}", "2 tanh(({0}) / 2)"]).format(product)
        scores += self.mask(here, there, heads) if mask is None else mask
        scores += self.distance(here, there)
        weigh = self.random.choice([self.weighed, self.weighed_at_once, self.weighed_with_sink, self.weighed_by_hand])
        if weigh in (self.weighed, self.weighed_at_once) and self.file.does("a mask that data decide"):
            scores = f"where(max_{key} {self.read(keys, {here: there})} > 1, {scores}, -inf)"
        right = weigh((*base, there, *heads), scores, there, self.read(values, {here: there}))
        self.change(query, "queries changed after the scores")
        self.define((*base, out, *heads), right)

    def lose(self, value: Value, base: Collection[str], taken: Collection[str]) -> str:
        """The one letter that a tensor has beyond these, if it may be summed."""
        rest = [letter for letter in value.letters if letter not in base]
        return rest[0] if len(rest) == 1 and rest[0] in self.free(value) and rest[0] not in taken else ""

    def change(self, value: Value, form: str) -> None:
        """`q_bse <- 3 q_bse`"""
        if self.file.does(form):
            text = self.read(value)
            self.line(f"{text} <- {self.random.choice(['3 {0}', '{0} / 2 + tanh({0})']).format(text)}")

    def distance(self, here: str, there: str) -> str:
        """`r_{n_ss'}`: a bias for each distance, those that are far alike."""
        if here != "s" or not self.file.causal or not self.file.does("a bias looked up by distance"):
            return ""
        place, weight = self.file.spell(self.fresh("nw"), (here, there)), self.weight(("u",))
        self.line(f"{place} = min(max({here} - {there}, 0), U - 1)")
        return f" + {self.read(weight, {'u': place})}"

    def weighed(self, letters: Letters, scores: str, over: str, values: str) -> str:
        """`w_bss'a = Sm_s'(…)`, then `Dr(w_bss'a) v_bs'ea`"""
        scores = self.choose_keys(letters, scores, over, "keys chosen by top")
        weights = self.passing(letters, f"Sm_{over}({scores})")
        if self.file.does("weights of attention changed by <-"):
            self.line(f"{weights} <- 2 {weights} / 3")
        return f"{self.formula('Dr({0})', weights) if self.file.chance(30) else weights} {values}"

    def choose_keys(self, letters: Letters, scores: str, over: str, form: str) -> str:
        """The scores of the two best keys, or of all."""
        if over != THERE or not self.file.does(form):
            return scores
        logits = self.passing(letters, scores)
        return f"where(top_{{2,{over}}}({logits}), {logits}, -inf)"

    def weighed_at_once(self, letters: Letters, scores: str, over: str, values: str) -> str:
        return f"Sm_{over}({scores}) {values}"

    def weighed_with_sink(self, letters: Letters, scores: str, over: str, values: str) -> str:
        """One more logit, without an axis for it: `Sm_s'(t) sigmoid(lse_s' t - σ)`"""
        logits = self.passing(letters, self.choose_keys(letters, scores, over, "keys chosen by top beside a sink"))
        sink = self.read(self.weight(letter for letter in letters if letter in FEATURES))
        weights = self.passing(letters, f"Sm_{over}({logits}) sigmoid(lse_{over} {logits} - {sink})")
        return f"{weights} {values}"

    def weighed_by_hand(self, letters: Letters, scores: str, over: str, values: str) -> str:
        powers = self.passing(letters, f"exp({scores})")
        return f"{powers} {values} / sum_{over} {powers}"

    def passing(self, letters: Letters, right: str) -> str:
        """A tensor that the next lines read, and nothing else."""
        return self.read(self.values.pop(self.values.index(self.define(letters, right))))

    def recur(self) -> None:
        """A tensor that reads itself at the position before."""
        if value := self.pick(lambda value: "s" in value.letters and self.file.causal):
            name = self.fresh("SZ")
            past = self.file.spell(name, ["(s - 1)" if letter == "s" else letter for letter in value.letters])
            new = f"cumsum_s {self.read(value)}" if self.file.chance(20) else self.read(value)
            called = [one for one in self.file.signatures if one.formal == one.output and set(one.formal) <= set(value.letters)]
            called = [one for one in called if not (one.mask or one.number or one.other)]
            if called and self.file.does("a layer in the step of a state"):
                new = f"{self.callee(self.random.choice(called), (), value.letters, {})}({self.read(value)})"
            letters = [letter for letter in value.letters if letter in FEATURES]
            if letters and self.file.chance(30):
                other = {letters[0]: letters[0] + "'"}
                slots = ["(s - 1)" if letter == "s" else other.get(letter, letter) for letter in value.letters]
                weight = self.read(self.weight((letters[0] + "'", letters[0])))
                right = f"tanh({self.file.spell(name, slots)} {weight}) + {new}"
            else:
                right = f"sigmoid({self.read(self.weight(letters[:1]))}) {past} + {new}"
            self.line(f"{self.file.spell(name, value.letters)} = {right}")
            self.values.append(Value(name, value.letters))

    def convolve(self) -> None:
        """Over the last positions, each with its weight."""
        if value := self.pick(lambda value: "s" in value.letters and self.file.causal):
            taps = self.read(self.weight(("c", *self.file.some([f for f in value.letters if f in FEATURES], 0, 1))))
            right = f"silu({taps} {self.read(value, {'s': '(s - c)'})})"
            self.define(value.letters, right if self.file.chance(50) else f"{self.read(value)} + {right}")

    def shift(self) -> None:
        if value := self.pick(lambda value: "s" in value.letters and self.file.causal):
            past = self.read(value, {"s": self.random.choice(["(s - 1)", "(s - 2)"])})
            self.define(value.letters, self.random.choice(["{0} - {1} / 2", "max({0}, {1})"]).format(self.read(value), past))

    def accumulate(self) -> None:
        """Linear attention as a product under a mask that decays."""
        if value := self.pick(lambda value: "s" in value.letters and self.file.causal):
            decay = self.define(value.letters, f"cumsum_s(-softplus({self.read(value)}))")
            ahead = self.read(decay, {"s": THERE})
            mask = self.passing((*value.letters, THERE), f"exp(where(s' <= s, {self.read(decay)} - {ahead}, -inf))")
            self.define(value.letters, f"{mask} {self.read(value, {'s': THERE})}")

    # ------------------------------------------------------------------------------------------- calls and loops

    def call(self) -> None:
        """A layer on a tensor that has its letters, or on others that it is told; the rest is carried along."""
        signature = self.random.choice(self.file.signatures)
        letters = self.renamed(signature)
        formal = [letters.get(letter, letter) for letter in signature.formal]
        output = [letters.get(letter, letter) for letter in signature.output]
        value = self.pick(
            lambda value: set(formal) <= set(value.letters) and not set(output) & (set(value.letters) - set(formal))
        )
        if value is None or len(set(output)) < len(output):
            return
        carried = [letter for letter in value.letters if letter not in formal]
        primed = {}
        if not letters and self.file.chance(20) and (primable := [f for f in formal if f in FEATURES]):
            primed = {primable[0]: primable[0] + "'"}
        argument = self.random.choice(["{0}", "{0}", "tanh({0})", "{0} / 2"]).format(self.read(value, primed))
        if self.turns and self.file.does("an argument with the letter of a loop"):
            if self.file.chance(50):
                argument = f"({argument}) / ({self.turns[-1]} + 1)"
            else:
                argument += f" + {self.read(self.weight((self.turns[-1], *formal[-1:])), primed)}"
        if signature.mask:
            mask = self.random.choice(self.masks) if self.masks else self.formula(self.random.choice(MASKS), "s", THERE)
            argument += f", {mask}"
        if signature.other is not None:
            second = [letters.get(letter, letter) for letter in signature.other]
            other = self.pick(lambda other: set(second) <= set(other.letters) <= {*second, *carried})
            argument += f", {self.read(other or self.weight(second), primed)}"
        if signature.number:
            argument += f", {self.random.choice(['2', '0.5', *self.turns, *(f'{turn} + 1' for turn in self.turns)])}"
        subscript = list(letters.values())
        right = f"{self.callee(signature, subscript, value.letters, primed)}({argument})"
        if self.turns and self.file.chance(30):
            others = [f"{self.callee(signature, subscript, value.letters, primed)}({argument})"]
            if self.file.does("layers chosen in a choice"):
                others.append(f"{self.callee(signature, subscript, value.letters, primed)}({argument})")
                others = [f"where({self.turns[-1]} == 1, {others[0]}, {others[1]})"]
            right = f"where({self.turns[-1]} < 1, {right}, {others[0]})"
        if output == formal and set(formal) <= set(value.letters) and self.file.does("a layer in a branch that data choose"):
            right = f"where({self.read(value, primed)} > 0, {right}, {self.read(value, primed)})"
        self.define((*carried, *output), right, primed)

    def renamed(self, signature: Signature) -> dict[str, str]:
        """Another letter for that of the subscript, where no size of the body hangs on it (R7)."""
        old = signature.subscript[0] if signature.subscript and self.file.chance(50) else ""
        taken = {*signature.formal, *signature.output} - {old}
        new = [letter for letter in FEATURES if letter not in taken and letter != old]
        return {old: self.random.choice(new)} if old and not self.file.derives(signature.letters, old) else {}

    def callee(self, signature: Signature, subscript: Sequence[str], letters: Letters, primed: Mapping[str, str]) -> str:
        """The name to call, of the layer or of an instance, with what stands below it."""
        self.file.axes |= signature.letters if signature in PRELUDE else set()
        if signature.name in ("RMSNorm", "LayerNorm"):
            self.file.scalar("ε")
        if self.file.chance(30):
            called = (signature.name, tuple(subscript), letters, tuple(primed.items()))
            same = [
                name for name, (turns, *other) in self.instances.items() if tuple(other) == called and turns in ((), self.turns)
            ]
            if same and signature.other is None and self.file.does("an instance that is called twice"):
                name = self.random.choice(same)
            else:
                name = self.fresh(("pre", "post", "part"))
                self.weights.append(f"  weights {name}: {signature.name}")
                self.instances[name] = (self.turns * self.file.chance(50), *called)
            turns = self.instances[name][0]
            return self.file.spell(name, [*turns, *subscript])
        return self.file.spell(signature.name, [*self.turns, *subscript])

    def repeat(self) -> None:
        """A loop that changes one tensor in each turn."""
        if len(self.turns) == len(LOOPS):
            return
        letter = LOOPS[len(self.turns)]
        ours = [value for value in self.values if "s" in value.letters] if self.file.causal else []
        value, around, masks = self.random.choice(ours or self.values), list(self.values), list(self.masks)
        self.file.axes.add(letter)
        count = letter.upper()
        if self.file.does("a loop as often as a sum says"):
            count = self.random.choice(["{0} - 1", "{0} + {0} - 2", "1 + floor({0} / 2)"]).format(count)
        self.lines.append("  " + "  " * len(self.turns) + f"for {letter} < {count}:")
        self.turns += (letter,)
        if self.masks and self.file.does("a mask changed in a loop"):
            self.narrow(self.random.choice(self.masks))
        self.write(self.random.randint(1, 2))
        self.call()
        made = [inner for inner in self.values if inner not in around and not inner.read]
        added = self.collected(made or [value], value.letters)
        text = self.read(value)
        right = f"tanh({added})" if self.file.does("what the next turn overwrites") else f"{text} / 2 + tanh({added})"
        if self.file.does("what a turn keeps"):
            right = f"where({self.random.choice(CONDITIONS).format(letter)}, {right}, {text})"
        self.line(f"{text} <- {right}")
        self.turns, self.values, self.masks, value.read = self.turns[:-1], around, masks, False

    # ------------------------------------------------------------------------------------------- what few people write

    def place(self) -> None:
        """Another place on the same axis, by arithmetic in the slot or by a number that has a name."""
        if value := self.pick(lambda value: bool(set(value.letters) & set(FEATURES))):
            letter = self.random.choice([letter for letter in value.letters if letter in FEATURES])
            size = self.file.number(letter)
            if self.file.chance(50) and (slot := self.file.form(rare.PLACES)):
                text, condition = (part.format(letter, n=size) for part in slot)
                right = self.read(value, {letter: text})
                right = f"where({condition}, {right}, 0)" if condition else right
                letters = value.letters if letter in text else tuple(other for other in value.letters if other != letter)
                self.define(letters, right)
            elif number := self.file.form(rare.NUMBERS):
                self.define(value.letters, self.read(value, {letter: self.named(number, (letter,), n=size)}))

    def earlier(self) -> None:
        """An earlier position, by arithmetic in the slot or by a number that has a name."""
        if value := self.pick(lambda value: "s" in value.letters and self.file.causal):
            if self.turns and self.file.does("as far back as the turn"):
                slot = f"(s - {self.turns[-1]})"
            elif self.file.chance(50):
                slot = (self.file.form(rare.BEFORE) or "s").format("s")
            else:
                slot = self.named(self.file.form(rare.TIMES) or "{0}", ("s",))
            self.define(value.letters, f"{self.read(value)} + {self.read(value, {'s': slot})} / 2")

    def named(self, template: str, letters: Letters, **sizes: str) -> str:
        """A line that defines a number, and how that is read."""
        name = self.file.spell(self.fresh("nw"), letters)
        self.line(f"{name} = {template.format(*letters, **sizes)}")
        return name

    def select(self) -> None:
        """A row of a table, by what is computed of tokens."""
        if self.file.tokens and self.values and not self.turns and self.file.does("a look-up in a look-up"):
            number = self.fresh("nw")
            self.line(f"{self.file.spell(number, 'v')} = (v + 1) mod V")
            letters = self.file.some(FEATURES, 1, 2)
            self.define(("b", "s", *letters), self.read(self.weight(("v", *letters)), {"v": f"{number}_{{x_bs}}"}))
        elif self.file.tokens and self.values and not self.turns and (selected := self.file.form(rare.TOKENS)):
            letters = self.file.some(FEATURES, 1, 2)
            around, number = selected
            slot = number.format() if around else self.named(number, ("b", "s"), n="V")
            row = self.read(self.weight(("v", *letters)), {"v": slot})
            self.define(("b", "s", *letters), around.format(row) if around else row)

    def scale(self) -> None:
        """Times a function of numbers."""
        if value := self.pick(lambda value: bool(value.letters)):
            size = self.file.number(self.random.choice([f for f in FEATURES if f in value.letters] or ["d"]))
            self.file.axes |= {"d"} if size == "D" else set()
            factor = (self.file.form(rare.SCALES) or "2").format(n=size)
            if self.file.has_t:
                factor += f" {self.file.scalar('t')}"
            self.define(value.letters, f"{self.read(value)} {factor}")

    def multiply(self) -> None:
        """Three factors and more."""
        if value := self.pick(lambda value: bool(self.free(value))):
            lost = self.random.choice(self.free(value))
            kept = [letter for letter in value.letters if letter != lost]
            new = self.new(value.letters, 0, 1)
            template = self.file.form(rare.FACTORS) or "{0} {1}"
            weights = [self.read(self.weight((lost, *(new if k == 0 else ())))) for k in range(template.count("{") - 1)]
            self.define((*kept, *new), template.format(self.read(value), *weights))

    def remember(self) -> None:
        """A state, whatever stands in its recurrence."""
        if value := self.pick(lambda value: "s" in value.letters and self.file.causal):
            template = self.file.form(rare.STATES) or "{1} / 2 + {0}"
            name = self.fresh("SZ")
            members = ("i",) * ("i" not in value.letters and self.file.does("digits in a state"))
            state = Value(name, self.ordered((*value.letters, *members), "axes of a tensor in any order"))
            pasts = [[self.read(state, {"s": f"(s - {back})", "i": member}) for back in (1, 2)] for member in "10"]
            first, second = (template.format(self.read(value), *past) for past in pasts)
            if not members and "c" not in state.letters and self.file.does("a state over its taps"):
                taps = self.read(self.weight(("c",)))
                first = f"{taps} {self.read(state, {'s': '(s - c - 1)'})} / 3 + {self.read(value)}"
            self.line(f"{self.read(state)} = {f'where(i == 0, {first}, {second})' if members else first}")
            state.read = False
            self.values.append(state)

    def spare(self) -> None:
        """The largest of fewer, and branches that are nothing where they are not taken."""
        if value := self.pick(lambda value: bool(self.free(value))):
            template = self.file.form(self.random.choice([rare.SPARSE, rare.LAZY, rare.SPELLINGS])) or "{0}"
            self.define(value.letters, self.formula(template, self.read(value), self.random.choice(self.free(value))))

    def cross(self) -> None:
        """Attention over an axis that queries do not have: of another tensor, or of keys that are weights."""
        if value := self.pick(lambda value: bool(self.free(value))):
            lost = self.random.choice(self.free(value))
            base = tuple(letter for letter in value.letters if letter != lost)
            others = [other for other in self.values if len(set(other.letters) - {*base}) == 2 and lost not in other.letters]
            others = [other for other in others if set(other.letters) - {*base} <= {*self.free(other)} & {*FEATURES}]
            if others and self.file.does("attention over another tensor"):
                source = self.random.choice(others)
                over, gone = (letter for letter in source.letters if letter not in base)
                kept = tuple(letter for letter in source.letters if letter != gone)
                key, out = self.file.some([f for f in FEATURES if f not in (*base, over, gone, lost)], 2, 2)
                keys, values = (
                    self.define((*kept, new), f"{self.read(source)} {self.read(self.weight((gone, new)))}")
                    for new in (key, out)
                )
            elif self.file.does("attention over weights"):
                over, key, out = self.file.some([f for f in FEATURES if f not in value.letters], 3, 3)
                keys, values = self.weight((over, key)), self.weight((over, out))
            else:
                return
            query = self.define((*base, key), f"{self.read(value)} {self.read(self.weight((lost, key)))}")
            weights = self.passing(
                (*base, over), f"Sm_{over}({self.read(query)} {self.read(keys)} / sqrt({self.file.number(key)}))"
            )
            self.define((*base, out), f"{weights} {self.read(values)}")

    def branch(self) -> None:
        """A value that is not finite everywhere, with a name, and the branches that read it."""
        if value := self.pick(lambda value: bool(self.free(value))):
            text, over = self.read(self.felt(value, self.free(value))), self.random.choice(self.free(value))
            inner, readers = self.file.form(rare.BRANCHES) or ("{0}", "{1}")
            named = self.passing(value.letters, inner.format(text))
            if "{3}" in readers:
                weight = self.weight((over + "'",))
                later = self.passing(value.letters, f"{text} {self.read(weight)} {self.read(weight)}")
                readers = readers.replace("{3}", later)
            self.define(value.letters, readers.format(text, named, over))


RARE = (
    _Body.place,
    _Body.place,
    _Body.earlier,
    _Body.earlier,
    _Body.select,
    _Body.scale,
    _Body.multiply,
    _Body.remember,
    _Body.spare,
    _Body.spare,
    _Body.branch,
    _Body.cross,
    _Body.merge,
)
CONSTRUCTS = (
    _Body.project, _Body.mix, _Body.function, _Body.function, _Body.function, _Body.pair, _Body.norm, _Body.keep,
    _Body.reduce, _Body.thin, _Body.choose, _Body.route, _Body.bias, _Body.neighbour, _Body.rotate, _Body.merge,
    _Body.split, _Body.rebind, _Body.position, _Body.attend, _Body.attend, _Body.recur, _Body.convolve, _Body.shift,
    _Body.accumulate, _Body.call, _Body.call, _Body.repeat,
)  # fmt: skip
