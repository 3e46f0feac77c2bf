"""Does every text end, soon, in findings of ours or in a specification, and is none of it ever run?

Three kinds: texts made to hurt, each by its own means; sizes and scalars made to hurt; and many random ones.
"""

from __future__ import annotations

import itertools
import random
import re
import string
import sys
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

import einformer
from einformer import EinformerError, parse
from einformer.errors import catalogue
from tests import shipped
from tests.few import FEW_TEXTS, few
from tests.guard import guarded, needs_a_timer
from tests.refusals import findings_of

HEAD = "axes\n  s: S\n  d: D\nlayer Same(z_sd) -> z_sd:\n"
MODEL = "axes\n  s: S\nmodel Same(z_s) -> z_s causal in s:\n"
PYTHON = """import os
os.system("touch pwned")
__import__("os").system("touch pwned")
"""
FORBIDDEN = {"exec", "compile", "os.system", "os.exec", "os.spawn", "os.remove", "subprocess.Popen", "socket.connect"}


def returning(formula: str) -> str:
    return f"{HEAD}  return {formula}\n"


def squared(size: str) -> str:
    """A text in which the square of a size must be found out."""
    return f"axes\n  d: {size}\nlayer Same(z_d) -> z_d:\n  y_{{(dd')}} = z_d z_d'\n  return y_d\n"


def calling(*bodies: str) -> str:
    """Layers of one index."""
    heads = (f"layer {name}(z_d) -> z_d:\n  return {body}\n" for name, body in zip("ABC", bodies, strict=False))
    return "axes\n  d: D\n" + "".join(heads)


def models(count: int, body: str, more: str = "") -> str:
    """As many causal models."""
    heads = (f"model M{k}(z_s) -> z_s causal in s:\n  return {body}\n" for k in range(count))
    return f"axes\n  s: S\n{more}{''.join(heads)}"


LARGE = "layer Large(z_s) -> z_s:\n" + f"  z_s <- {'z_s ' * 800}\n" * 5 + "  return z_s\n"
MASKS = "".join(f"  m{k}_ss' = where(s' <= s, {k}, -inf)\n  z_s <- Sm_s'(m{k}_ss') z_s'\n" for k in range(600))


def tower(count: int, body: str) -> str:
    """Layers of which each calls the next."""
    heads = [f"layer L{k}(z_s) -> z_s:\n  return {body.format(f'L{k + 1}', f'L{k + 2}')}\n" for k in range(count)]
    ends = [f"layer L{k}(z_s) -> z_s:\n  return z_s\n" for k in (count, count + 1)]
    return (
        "axes\n  s: S\n"
        + "".join(heads)
        + ends[0]
        + (ends[1] if "{1}" in body else "")
        + "model M(z_s) -> z_s causal in s:\n  return L0(z_s)\n"
    )


def chain(count: int) -> str:
    """Scalars of which each is twice the next."""
    rows = [f"  a{k} = a{k + 1} + a{k + 1}\n" for k in range(count)]
    return f"axes\n  s: S\n  d: D\nscalars\n{''.join(rows)}  a{count} = 1\nlayer Same(z_sd) -> z_sd:\n  return z_sd a0\n"


ALPHABET = (
    "axes\n"
    + "".join(f"  {letter}: {letter.upper()}\n" for letter in string.ascii_lowercase)
    + f"model Same(z_s) -> z_s causal in s:\n  y_{string.ascii_lowercase} = {' + '.join(string.ascii_lowercase)}\n"
    + f"  return z_s sum_{{{string.ascii_lowercase.replace('s', '')}}}(y_{string.ascii_lowercase})\n"
)
PRIMES = ["s" + "'" * primes for primes in range(1, 9)]
POSITIONS = f"{MODEL}  return z_s sum_{{{''.join(PRIMES)}}}({' + '.join(PRIMES)})\n"


# What hurts, how it is written, and the code of the first finding; "" where it is well formed.
TEXTS: dict[str, tuple[str, str]] = {
    "nothing": ("", "E105"),
    "spaces": (" \n\t\n  \n", "E105"),
    "10 MB": ("a" * 10_000_000, "E001"),
    "10 MB of lines": ("  d: D\n" * 1_500_000, "E001"),
    "10 MB of LaTeX": ("\\frac" * 2_000_000, "E001"),
    "a million +": ("+" * 1_000_000, "E001"),
    "a long line": (returning("z_sd" + " + z_sd" * 1_000), "E001"),
    "many lines of nothing": ("\n" * 99_000, "E105"),
    "many lines": ("a\n" * 49_000, "E101"),
    "many signs": (("+" * 3_999 + "\n") * 24, "E101"),
    "many axes": ("axes\n" + "  d: D\n" * 14_000, "E105"),
    "many layers": ("axes\n  d: D\n" + "layer Same(z_d) -> z_d:\n  return z_d\n" * 2_400, "E202"),
    "many models": (models(1_000, "2 z_s"), ""),
    "many models of one large layer": (models(1_000, "Large(z_s)", LARGE), "E002"),
    "many masks": (f"{MODEL}{MASKS}  return z_s\n", ""),
    "many errors": ("axes\n  d: D\nlayer Same(z_d) -> z_d:\n" + "  y_d = u_d\n" * 8_000, "E105"),
    "an open bracket": (returning("(z_sd"), "E102"),
    "a closed bracket": (returning("z_sd)"), "E102"),
    "the wrong bracket": (returning("(z_sd]"), "E102"),
    "a subscript that never ends": (returning("z_{sd"), "E102"),
    "10,000 open brackets": (HEAD + ("  " + "(" * 3_333 + "\n") * 3, "E002"),
    "10,000 closed brackets": (HEAD + ("  " + ")" * 3_333 + "\n") * 3, "E102"),
    "deep brackets": (returning("(" * 1_900 + "z_sd" + ")" * 1_900), "E002"),
    "brackets as deep as may be": (returning("(" * 100 + "z_sd" + ")" * 100), ""),
    "deep subscripts": (returning("z_{" * 900 + "d" + "}" * 900), "E002"),
    "not not not": (returning("not " * 900 + "z_sd"), "E002"),
    "exp exp exp": (returning("exp " * 900 + "z_sd"), "E002"),
    "minus minus minus": (returning("-" * 3_000 + "z_sd"), "E101"),
    "or or or": (returning("z_sd or " * 450 + "z_sd"), "E002"),
    "a long comparison": (returning("z_sd < " * 500 + "z_sd"), "E002"),
    "powers of powers": (returning("z_sd^2^2^2^2"), "E104"),
    "divisions of divisions": (returning("z_sd / 2 / 2 / 2"), "E104"),
    "deep indentation": (HEAD + "".join("  " * k + "for d < D:\n" for k in range(1, 180)), "E002"),
    "a flat product": (HEAD + ("  y_sd = " + "z_sd " * 790 + "\n") * 24 + "  return y_sd\n", "E002"),
    "a product of products": (returning("(z_sd z_sd) " * 300), "E303"),
    "a long sum": (returning("z_sd + " * 560 + "z_sd"), ""),
    "a long name": (returning("a" * 3_900), "E204"),
    "a name of primes": (returning("z" + "'" * 3_900 + "_sd"), "E204"),
    "many digits": (returning("9" * 400 + " z_sd"), "E101"),
    "a number beyond floats": (returning("1e999 z_sd"), ""),
    "a tower of nines": (returning("9^9^9 z_sd"), "E104"),
    "a tower of brackets": (returning("((9^9)^9)^9 z_sd"), ""),
    "a size beyond numbers": (squared("((((9^9)^9)^9)^9)^9"), "E604"),
    "a size beyond memory": (squared("(A + B + C + D + E)^9 (F + G + H)^9"), "E604"),
    "a division by zero": (squared("1 / 0"), "E604"),
    "a division of a letter by zero": (squared("A / 0"), "E604"),
    "a division by what is nothing": (squared("A / (B - B)"), "E604"),
    "a tower of layers": (tower(400, "{0}(z_s)"), "E002"),
    "twice as many calls each": (tower(40, "{0}(z_s) + {0}(z_s)"), "E002"),
    "as many calls as Fibonacci's rabbits": (tower(45, "{0}(z_s) + {1}(z_s)"), "E002"),
    "twice as many terms each": (chain(40), "E002"),
    "a circle of layers": (calling("B(z_d)", "A(z_d)"), "E207"),
    "a circle of scalars": ("axes\n  d: D\nscalars\n  a = b\n  b = a\nlayer Same(z_d) -> z_d:\n  return a z_d\n", "E507"),
    "a circle of sizes": ("axes\n  d: D = E\n  e: E = D\nlayer Same(z_de) -> z_de:\n  return z_de\n", "E507"),
    "an instance of itself": ("axes\n  d: D\nlayer Same(z_d) -> z_d:\n  weights a: Same\n  return a(z_d)\n", "E207"),
    "endless turns": ("axes\n  d: D\nlayer Same(z_d) -> z_d:\n  for d < inf:\n    z_d <- 2 z_d\n  return z_d\n", "E604"),
    "as many indices as letters": (ALPHABET, ""),
    "as many primes as may be": (POSITIONS, "E501"),
    "a null byte": (returning("z_sd\0"), "E003"),
    "control characters": (returning("z_sd # \x1b[2J\x07"), "E003"),
    "a line drawn backwards": (returning("z_sd # \u202e"), "E003"),
    "a lone surrogate": (returning("z_sd # \ud800"), "E003"),
    "emoji": (returning("z_sd 🎉"), "E003"),
    "full-width letters": (returning("ｚ_sd"), ""),
    "a Cyrillic letter": (returning("z_sd + с_sd").replace("z_sd)", "z_sd, с_sd, c_sd)").replace("+ с", "c_sd + с"), "E004"),
    "an Arabic digit": (returning("٣ z_sd"), "E003"),
    "Kelvin, not K": (returning("z_sd").replace("s: S", "s: S <= \u212a\n  k: K"), ""),
    "a separator of lines": (returning("z_sd\u2028  return z_sd"), "E003"),
    "a byte order mark": ("\ufeff" + returning("z_sd"), ""),
    "two byte order marks": ("\ufeff\ufeff" + returning("z_sd"), "E003"),
    "lines of Windows": (returning("z_sd").replace("\n", "\r\n"), ""),
    "lines of an old Macintosh": (returning("z_sd").replace("\n", "\r"), "E003"),
    "tabs between words": (returning("2\tz_sd\t# twice"), ""),
    "tabs for indentation": (returning("z_sd").replace("  ", "\t"), "E105"),
    "Python": (PYTHON, "E101"),
    "Python in a size": ("axes\n  d: __import__('os')\nlayer A(z_d) -> z_d:\n  return z_d\n", "E101"),
    "Python in a formula": (returning("exec(open(pwned)) z_sd"), "E204"),
    "Python in a name": (returning("z_sd.__class__"), "E003"),
    "Python in a string": (returning("'''z_sd'''"), "E003"),
    "a format string": (returning("{0.__class__} z_sd"), "E003"),
    "LaTeX that never ends": ("\\begin{aligned}" * 500, "E102"),
    "deep LaTeX": (returning("\\frac{" * 300 + "z_{sd}" + "}{2}" * 300), "E002"),
    "LaTeX that writes": ("\\immediate\\write18{touch pwned}\n\\input{/etc/passwd}\n", "E101"),
}  # fmt: skip


def finding_codes(text: str) -> list[str]:
    """The codes of the findings, whose messages can be written."""
    with guarded():
        findings = findings_of(text)
        assert all(str(finding).encode() for finding in findings)
    assert len(findings) <= 100
    return [finding.code for finding in findings]


@needs_a_timer
def test_what_never_ends_is_ended() -> None:
    with pytest.raises(TimeoutError), guarded(0.01):
        any(number < 0 for number in itertools.count())


LONG = {"many masks", "many errors", "many lines", "many layers", "many signs"}


@pytest.mark.parametrize("name", few(TEXTS, TEXTS.keys() - LONG))
def test_a_text_ends(name: str) -> None:
    text, code = TEXTS[name]
    assert finding_codes(text)[:1] == [code][: len(code)]


@pytest.mark.parametrize("name", ["Python", "Python in a size", "Python in a formula", "a format string", "LaTeX that writes"])
def test_no_text_is_ever_run(name: str, heard: list[str]) -> None:
    finding_codes(TEXTS[name][0])
    assert heard == []


def test_a_run_would_be_heard(heard: list[str]) -> None:
    exec("1 + 1")
    assert set(heard) == {"compile", "exec"}


EARS: list[list[str]] = []


def _hear(event: str, _: object) -> None:
    if EARS and event in FORBIDDEN:
        EARS[-1].append(event)


sys.addaudithook(_hear)


@pytest.fixture
def heard() -> Iterator[list[str]]:
    """What Python was asked to compile, to run or to start meanwhile."""
    einformer.load("gpt2")  # all that is imported late is imported now
    EARS.append([])
    yield EARS[-1]
    EARS.pop()


# ---------------------------------------------------------------------------------------------- sizes and scalars

SIZES = (
    "axes\n  s: S\n  d: D\n  l: L\n  f: F = 2^D\nscalars\n  c = 1\n  θ_d = c^d\n"
    + """
layer Power(z_sd) -> y_sf:
  weights W_df
  for l < L:
    z_sd <- θ_d z_sd
  return z_sd W_df
"""
)
GIVEN: list[tuple[dict[str, object], str]] = [
    ({"D": 10**400}, "E604"),
    ({"D": 10**19}, "E604"),
    ({"D": 1001}, "E604"),
    ({"D": 61}, "E604"),
    ({"D": -1}, "E604"),
    ({"D": float("nan")}, "E604"),
    ({"D": float("inf")}, "E604"),
    ({"D": "__import__('os')"}, "E604"),
    ({"D": None}, "E604"),
    ({"L": 10**12}, "E604"),
    ({"__class__": 1}, "E605"),
    ({"c": "exec(1)"}, "E204"),
    ({"c": "__import__('os').system('touch pwned')"}, "E101"),
    ({"c": "9^9^9"}, "E104"),
    ({"c": "(" * 3_000}, "E002"),
    ({"c": "c"}, "E507"),
    ({"c": "not " * 900 + "1"}, "E002"),
    ({"c": "\0"}, "E003"),
    ({"c": "sum_d d"}, "E604"),
    ({"c": "d"}, "E301"),
    ({"c": "1\n2"}, "E101"),
    ({"c": ""}, "E101"),
    ({"c": [1, 2]}, "E606"),
    ({"θ": [1, 2, 3], "D": 2}, "E606"),
    ({"θ": "θ_d"}, "E507"),
]


@pytest.mark.parametrize(("given", "code"), GIVEN, ids=[ascii(given)[:40] for given, _ in GIVEN])
def test_a_value_ends(given: dict[str, object], code: str, heard: list[str]) -> None:
    with pytest.raises(EinformerError) as refusal, guarded():
        parse(SIZES).bind(**given)  # type: ignore[arg-type]
    assert str(refusal.value)
    assert refusal.value.findings[0].code == code
    assert heard == []


@pytest.mark.parametrize(
    "formula", ["((9^9)^9)^99", "1 / (D - D)", "log(-1)", "sqrt(0 - 1)", "(0 - 8)^0.5", "floor(inf)", "inf - inf", "exp(9^9)"]
)
def test_a_size_of_no_number_ends(formula: str) -> None:
    """As a scalar it may be given; the size that is made of it cannot be."""
    model = "axes\n  d: D\n  f: F = D c\nscalars\n  c = 1\nlayer Up(z_d) -> y_f:\n  weights W_df\n  return z_d W_df\n"
    with pytest.raises(EinformerError, match=r"E60[24]"), guarded():
        parse(model).bind(D=2, c=formula)


# ------------------------------------------------------------------------------------------------- random texts

MODELS = [
    """
axes
  b: B
  s: S <= K
  k: K
  d: D
  v: V
  l: L
scalars
  ε = 1e-5
  W_l = where(l mod 2 == 0, 3, inf)
model M(x_bs) -> y_bsv causal in s:
  weights E_vd, P_kd, U_vd? = E_vd
  z_bsd = E_{x_bs d} + P_sd
  for l < L:
    m_ss' = where(s - W_l < s' <= s, 0, -inf)
    z_bsd <- z_bsd + Sm_s'(m_ss') z_bs'd
  return RMSNorm(z_bsd) U_vd
""",
    """
axes
  s: S
  e: H
  i: 2
  h: H / 2
scalars
  θ_h = 10^(-2 h / H)
layer Rotary(x_se) -> y_se:
  y_{s(ih)} = x_{s(ih)} cos(s θ_h) + (2 i - 1) x_{s((1 - i)h)} sin(s θ_h)
model M(x_se) -> y_se causal in s:
  return Rotary(x_se)
""",
    """
axes
  d: D
  x: X
  f: F
scalars
  T = 2
layer Experts(z_d) -> z_d:
  weights R_dx, G_xdf, O_xfd
  r_x = Sm_x(z_d R_dx)
  p_x = where(top_{T,x}(r_x), r_x, 0)
  p_x <- p_x / sum_x p_x
  g_xf = z_d G_xdf
  return p_x silu(g_xf) O_xfd
""",
    """
axes
  s: S
  e: E
  u: U
  l: L
layer Delta(k_se, v_su, a_s) -> y_su:
  S_seu = a_s S_{(s - 1)eu} + k_se (v_su - k_se' S_{(s - 1)e'u})
  return k_se S_seu
layer Norm_u(z_u) -> z_u:
  weights γ_u?
  buffers β_u
  return γ_u z_u + β_u
model M(x_se, v_su, a_s) -> v_su causal in s:
  weights pre: Norm
  for l < L:
    v_su <- pre(v_su) + Norm_l(Delta(x_se, v_su, a_s))
  return v_su
""",
]
RULES = [text.partition(">>> ")[0] for rule in catalogue().values() for text in (rule.bad, rule.good) if text[:1] == "a"]
SEEDS = RULES + MODELS
SIGNS = """
d s s' e h z_d z_sd W_df y_se m_ss' ( ) _{ } { [ ] , : = <- -> <= < == + - / ^ 0 1 2 1e-5 999999 1e999 H D S ε _ inf π exp
not and or mod axes weights where( Sm_s'( mean_d top_{2,d}( max_s min( lse_d cumsum_s( RMSNorm( GatedMLP Dr( ' # @ ? $ & %
\\ \\frac{ \\sqrt{ \\left( é 漢 ο ² ∞ ≤ · 🎉
"""
LINES = "axes\n|scalars\n|layer T(z_d) -> z_d:\n|model M(z_sd) -> z_sd causal in s:\n|return |for l < L:\n|sum_d |(s - 1)"
PIECES = [*SIGNS.split(), *LINES.split("|"), " ", "  ", "\n", "\n  ", "\n    ", "\t", "\r", "\0", "\ud800", "\u202e"]
TOKEN = re.compile(r"[a-zα-ω]'*(?![A-Za-z])|[A-Z][a-z]*|[a-z]+|\d+|[-+/^=<>]+|[(){},]")


class Writer:
    """A writer of texts, by chance: of pieces, of a text with other letters, of a text with other words of the same kind."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def text(self) -> str:
        choice = self.random.choices((self.pieces, self.letters, self.words), (1, 2, 3))[0]
        return choice()

    def pieces(self) -> str:
        return "".join(self.random.choices(PIECES, k=self.random.randrange(1, 40)))

    def letters(self) -> str:
        """Characters and pieces put in, left out, repeated."""
        text = self.random.choice(SEEDS)
        for _ in range(self.random.choice((1, 1, 2, 4))):
            start = self.random.randrange(len(text) + 1)
            end = start + self.random.choice((0, 1, 1, 12))
            text = text[:start] + self.random.choice(("", *self.random.choices(PIECES, k=2), text[start:end] * 2)) + text[end:]
        return text

    def words(self) -> str:
        """A letter in the place of a letter, a name of a name, a sign of a sign: often still well formed."""
        text = self.random.choice(SEEDS)
        for _ in range(self.random.choice((1, 1, 2, 3))):
            found = list(TOKEN.finditer(text))
            chosen = self.random.choice(found)
            alike = [other[0] for other in found if kind(other[0]) == kind(chosen[0])]
            text = text[: chosen.start()] + self.random.choice(alike) + text[chosen.end() :]
        return text


def kind(word: str) -> tuple[bool, bool, bool]:
    return word[0].islower(), word.isalnum(), len(word) > 1


def codes_of(seed: int, count: int) -> Counter[str]:
    """The codes of so many random texts; `` counts those that are well formed."""
    writer = Writer(seed)
    codes = Counter[str]()
    for _ in range(count):
        text = writer.text()
        try:
            codes.update(set(finding_codes(text)) or {""})
        except Exception as error:
            raise AssertionError(f"this text ends in {error!r}: {text!r}") from error
    return codes


@pytest.mark.parametrize("seed", few(range(5), {0, 1}))
def test_random_texts_end_in_findings(seed: int) -> None:
    assert len(codes_of(seed, 1_000)) > 25


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 150))
def test_many_random_texts_end_in_findings(seed: int) -> None:
    assert len(codes_of(seed, 2_000)) > 30


@pytest.mark.parametrize("seed", range(4))
def test_what_is_accepted_can_be_evaluated(seed: int) -> None:
    """With small sizes, or with what it says is wrong with them."""
    writer = Writer(1_000 + seed)
    evaluated = sum(evaluate(writer.words(), writer.random) for _ in range(400))
    assert evaluated > 20


def evaluate(text: str, chance: random.Random) -> bool:
    """Does a text have a value at random sizes? EinformerError says why it has none."""
    try:
        spec = parse(text)
        model = spec.bind(**{letter: chance.choice((1, 2, 3, 4, 6)) for letter in sorted(spec.bind().open)})
        if max(map(model.legend.length, model.legend.axes), default=1) > 100:
            return False
        shapes = [[model.legend.length(slot.letter) for slot in formal.slots] for formal in spec.layer.formals]  # type: ignore[union-attr]
        weights = {path: np.ones(shape) for path, shape in model.weight_shapes().items()}
        value = model.reference(*(np.zeros(shape, np.int64) for shape in shapes), weights=weights)
    except EinformerError:
        return False
    except Exception as error:
        raise AssertionError(f"this text ends in {error!r}: {text}") from error
    return value is not None


@pytest.mark.parametrize("name", few(shipped.TEXTS, FEW_TEXTS))
def test_every_cut_of_a_shipped_text_ends(name: str) -> None:
    """As typed: a text that stops anywhere."""
    text = (shipped.FOLDER / f"{name}.ein").read_text(encoding="utf-8")
    for end in range(0, len(text), 37):
        finding_codes(text[:end])
