"""Lists the operators and functions of the language: a row for each, with its facts in columns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Keeps = Literal["input", "output", "both", "mask", "nothing"]


@dataclass(frozen=True, slots=True)
class Primitive:
    """A row of the table. Columns that do not concern a row, or have no value for it, are left out.

    Its meaning. `kind` says how it treats the indices in the subscript: a *function* has none, a *reducing* operator
    consumes them, a *keeping* one leaves them. `arity` counts the arguments in parentheses (the k of `top_{k,x}` is one).
    `condition`: its values are true and false. `numpy` is its value for the arrays x, y, z, of an operator over `axis`.

    Facts for proofs. `at_zero` and `at_minus_infinity` are f(0) and f(-inf); `rising` says that a larger argument
    gives no smaller value; `whole` that its values are whole numbers, *made* of any or *kept* of whole ones; one `of_positive`
    numbers has no value for a negative one. `neutral` is what an operator passes over; one that `looks_back` reads nothing
    later along its index; one that `ignores_shifts` gives the same when something constant along its indices is added; one that
    `weighs` needs a form of its own, `together`, where all numbers may be -inf: torch's has no gradient there.

    Its costs. `keeps` names the values that its backward pass needs: a slope that its output gives (tanh' = 1 - tanh²) needs
    no input. A `flat` one has no gradient; the value or the slope of a `steep` one is somewhere not finite. What is
    `costly` is worth computing once for all layers.

    How it is written. `python` is its value for plain numbers, in the legend too; `torch` that for tensors, of an operator
    over one axis, and `together` over several where that is not the one after the other. `sympy` is its formula. `latex`
    prints it, `fence` around its argument; `reads` are further commands of LaTeX for it.
    """

    name: str
    kind: Literal["function", "reducing", "keeping"] = "function"
    arity: tuple[int, ...] = (1,)
    condition: bool = False
    numpy: str = ""
    at_zero: float | None = None
    at_minus_infinity: float | None = None
    rising: bool = False
    whole: Literal["", "made", "kept"] = ""
    of_positive: bool = False
    neutral: float | None = None
    looks_back: bool = False
    ignores_shifts: bool = False
    weighs: bool = False
    keeps: Keeps = "nothing"
    flat: bool = False
    steep: bool = False
    costly: bool = False
    python: str = ""
    torch: str = ""
    together: str = ""
    sympy: str = ""
    latex: str = ""
    fence: tuple[str, str] = ("", "")
    reads: tuple[str, ...] = ()

    # Where zero maps to zero, zeros pass (R10).
    @property
    def zero(self) -> bool:
        return self.at_zero == 0

    @property
    def infix(self) -> bool:
        return self.torch.startswith("{} ")


_F = Primitive
_ROWS = [
    _F("exp", numpy="np.exp(x)", steep=True, at_zero=1, at_minus_infinity=0, rising=True, keeps="output", costly=True,
       python="math.exp({})", torch="torch.exp({})", sympy="exp(x)", latex=r"\exp"),
    _F("log", numpy="np.log(x)", steep=True, of_positive=True, at_zero=-math.inf, rising=True, keeps="input", costly=True,
       python="math.log({})", torch="torch.log({})", sympy="log(x)", latex=r"\log"),
    _F("log2", numpy="np.log2(x)", steep=True, of_positive=True, at_zero=-math.inf, rising=True, keeps="input", costly=True,
       python="math.log2({})", torch="torch.log2({})", sympy="log(x, 2)", latex=r"\log_{2}"),
    _F("sin", numpy="np.sin(x)", at_zero=0, keeps="input", costly=True,
       python="math.sin({})", torch="torch.sin({})", sympy="sin(x)", latex=r"\sin"),
    _F("cos", numpy="np.cos(x)", at_zero=1, keeps="input", costly=True,
       python="math.cos({})", torch="torch.cos({})", sympy="cos(x)", latex=r"\cos"),
    _F("tanh", numpy="np.tanh(x)", at_zero=0, at_minus_infinity=-1, rising=True, keeps="output", costly=True,
       python="math.tanh({})", torch="torch.tanh({})", sympy="tanh(x)", latex=r"\tanh"),
    _F("erf", numpy="erf(x)", at_zero=0, at_minus_infinity=-1, rising=True, keeps="input", costly=True,
       python="math.erf({})", torch="torch.erf({})", sympy="erf(x)"),
    _F("sqrt", numpy="np.sqrt(x)", steep=True, of_positive=True, at_zero=0, rising=True, keeps="output", costly=True,
       python="math.sqrt({})", torch="torch.sqrt({})", sympy="sqrt(x)", latex=r"\sqrt{}"),
    _F("abs", numpy="np.abs(x)", whole="kept", at_zero=0, at_minus_infinity=math.inf, keeps="input",
       python="abs({})", torch="torch.abs({})", sympy="Abs(x)", fence=(r"\lvert", r"\rvert")),
    _F("floor", numpy="np.floor(x)", whole="made", at_zero=0, at_minus_infinity=-math.inf, rising=True, flat=True,
       python="math.floor({})", torch="torch.floor({})", sympy="floor(x)", fence=(r"\lfloor", r"\rfloor")),
    _F("ceil", numpy="np.ceil(x)", whole="made", at_zero=0, at_minus_infinity=-math.inf, rising=True, flat=True,
       python="math.ceil({})", torch="torch.ceil({})", sympy="ceiling(x)", fence=(r"\lceil", r"\rceil")),
    _F("relu", numpy="np.maximum(x, 0)", whole="kept", at_zero=0, at_minus_infinity=0, rising=True, keeps="output",
       python="max({}, 0)", torch="fn.relu({})", sympy="Max(x, 0)"),
    _F("gelu", numpy="x * (1 + erf(x / math.sqrt(2))) / 2", at_zero=0, keeps="input",
       python="{0} * (1 + math.erf({0} / math.sqrt(2))) / 2", torch="fn.gelu({})", sympy="x * (1 + erf(x / sqrt(2))) / 2"),
    _F("gelutanh", numpy="x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2", at_zero=0, keeps="input",
       python="{0} * (1 + math.tanh(math.sqrt(2 / math.pi) * ({0} + 0.044715 * {0} ** 3))) / 2",
       torch='fn.gelu({}, approximate="tanh")',
       sympy="x * (1 + tanh(sqrt(2 / pi) * (x + Rational('0.044715') * x**3))) / 2"),
    _F("silu", numpy="x * sigmoid(x)", at_zero=0, keeps="input",
       python="{0} * (1 + math.tanh({0} / 2)) / 2", torch="fn.silu({})", sympy="x / (1 + exp(-x))"),
    _F("sigmoid", numpy="sigmoid(x)", at_zero=0.5, at_minus_infinity=0, rising=True, keeps="output", costly=True,
       python="(1 + math.tanh({} / 2)) / 2", torch="torch.sigmoid({})", sympy="1 / (1 + exp(-x))"),
    _F("softplus", numpy="np.logaddexp(x, 0)", at_zero=math.log(2), at_minus_infinity=0, rising=True, keeps="input",
       python="max({0}, 0) + math.log1p(math.exp(-abs({0})))", torch="fn.softplus({})", sympy="log(1 + exp(x))"),
    _F("where", arity=(3,), numpy="np.where(x, y, z)",
       python="{1} if {0} else {2}", torch="torch.where({}, {}, {})"),
    _F("Dr", arity=(1, 2), numpy="x", at_zero=0, at_minus_infinity=-math.inf, keeps="mask",
       torch="fn.dropout({}, {}, self.training)"),
    _F("mod", arity=(2,), numpy="np.mod(x, y)", whole="kept",
       python="{} % {}", torch="{} % {}", sympy="Mod(x, y)", latex=r"\bmod", reads=("mod",)),
    _F("not", condition=True, numpy="np.logical_not(x)", flat=True,
       python="not {}", torch="~({})", latex=r"\lnot", reads=("neg",)),
    _F("and", arity=(2,), condition=True, numpy="np.logical_and(x, y)", flat=True,
       python="{} and {}", torch="{} & {}", latex=r"\land", reads=("wedge",)),
    _F("or", arity=(2,), condition=True, numpy="np.logical_or(x, y)", flat=True,
       python="{} or {}", torch="{} | {}", latex=r"\lor", reads=("vee",)),
    _F("<", arity=(2,), condition=True, numpy="np.less(x, y)", flat=True,
       python="{} < {}", torch="{} < {}", latex="<", reads=("lt",)),
    _F("<=", arity=(2,), condition=True, numpy="np.less_equal(x, y)", flat=True,
       python="{} <= {}", torch="{} <= {}", latex=r"\leq", reads=("le",)),
    _F(">", arity=(2,), condition=True, numpy="np.greater(x, y)", flat=True,
       python="{} > {}", torch="{} > {}", latex=">", reads=("gt",)),
    _F(">=", arity=(2,), condition=True, numpy="np.greater_equal(x, y)", flat=True,
       python="{} >= {}", torch="{} >= {}", latex=r"\geq", reads=("ge",)),
    _F("==", arity=(2,), condition=True, numpy="np.equal(x, y)", flat=True,
       python="{} == {}", torch="{} == {}", latex="=", reads=("equiv",)),
    _F("!=", arity=(2,), condition=True, numpy="np.not_equal(x, y)", flat=True,
       python="{} != {}", torch="{} != {}", latex=r"\neq", reads=("ne",)),
    _F("sum", "reducing", numpy="np.sum(x, axis)", whole="kept", at_zero=0, at_minus_infinity=-math.inf, rising=True, neutral=0,
       torch="torch.sum({}, {})", latex=r"\sum"),
    _F("mean", "reducing", numpy="np.mean(x, axis)", at_zero=0, at_minus_infinity=-math.inf, rising=True,
       torch="torch.mean({}, {})"),
    _F("var", "reducing", numpy="np.var(x, axis)", at_zero=0, ignores_shifts=True, keeps="input",
       torch="torch.var({}, {}, correction=0)"),
    _F("lse", "reducing", numpy="log_sum_exp(x, axis)", at_minus_infinity=-math.inf, rising=True, neutral=-math.inf,
       weighs=True, keeps="both", torch="torch.logsumexp({}, {})", together="log_sum_exp({}, {})"),
    _F("Sm", "keeping", numpy="softmax(x, axis)", at_minus_infinity=0, neutral=-math.inf, ignores_shifts=True, weighs=True,
       keeps="output", torch="torch.softmax({}, {})", together="softmax({}, {})"),
    _F("cumsum", "keeping", numpy="along(np.cumsum, x, axis)", whole="kept", at_zero=0, at_minus_infinity=-math.inf,
       rising=True, neutral=0,
       looks_back=True, torch="torch.cumsum({}, {})"),
    _F("cumprod", "keeping", numpy="along(np.cumprod, x, axis)", whole="kept", at_zero=0, neutral=1, keeps="both",
       looks_back=True, torch="torch.cumprod({}, {})"),
    _F("top", "keeping", (2,), condition=True, numpy="top(x, axis, y)", neutral=-math.inf, ignores_shifts=True, flat=True,
       torch="top({}, {}, {})", together="top_together({}, {}, {})"),
    # With an index they reduce, with two arguments they compare (R3).
    _F("min", "reducing", numpy="np.min(x, axis)", whole="kept", at_zero=0, at_minus_infinity=-math.inf,
       rising=True, neutral=math.inf,
       keeps="input", torch="torch.amin({}, {})", latex=r"\min"),
    _F("max", "reducing", numpy="np.max(x, axis)", whole="kept", at_zero=0, at_minus_infinity=-math.inf,
       rising=True, neutral=-math.inf,
       keeps="input", torch="torch.amax({}, {})", latex=r"\max"),
    _F("min", arity=(2,), numpy="np.minimum(x, y)", whole="kept", rising=True, keeps="input",
       python="min({}, {})", torch="torch.minimum({}, {})", sympy="Min(x, y)", latex=r"\min"),
    _F("max", arity=(2,), numpy="np.maximum(x, y)", whole="kept", rising=True, keeps="input",
       python="max({}, {})", torch="torch.maximum({}, {})", sympy="Max(x, y)", latex=r"\max"),
]  # fmt: skip

PRIMITIVES = {(row.name, row.kind != "function"): row for row in _ROWS}
NAMES = frozenset(name for name, _ in PRIMITIVES)
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
OPPOSITE = {"<": ">=", ">=": "<", "<=": ">", ">": "<=", "==": "!=", "!=": "=="}  # holds where the other does not
MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "==", "!=": "!="}  # the same with its sides exchanged
CONDITIONS = frozenset(row.name for row in _ROWS if row.condition)
CONSTANTS = {"π": math.pi}
NUMERIC = {  # the functions of plain numbers
    row.name: eval(f"lambda *x: {row.python.format('x[0]', *(f'x[{k}]' for k in range(1, row.arity[0])))}", {"math": math})
    for row in _ROWS
    if row.python
}


# The name has a subscript if `with_indices`.
def primitive(name: str, with_indices: bool) -> Primitive | None:
    return PRIMITIVES.get((name, with_indices))


def row_of(name: str, with_indices: bool) -> Primitive:
    return PRIMITIVES[name, with_indices]
