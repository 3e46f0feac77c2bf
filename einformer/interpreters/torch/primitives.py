"""Which PyTorch is each primitive, given the code of its arguments?"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from einformer.interpreters.torch.code import ATOM, LOOSE, POWER, SUM, Code, Dims, Kind, aligned, combined, ordered
from einformer.notation.tree import Apply

KEEPING = ("Sm", "cumsum", "top")
INFIX = {"<": "<", "<=": "<=", ">": ">", ">=": ">=", "==": "==", "!=": "!=", "and": "&", "or": "|", "mod": "%"}
PYTHON = {
    "exp": "math.exp", "log": "math.log", "log2": "math.log2", "sin": "math.sin", "cos": "math.cos", "tanh": "math.tanh",
    "sqrt": "math.sqrt", "abs": "abs", "floor": "math.floor", "ceil": "math.ceil", "not": "not ",
}  # fmt: skip
TORCH = {
    "exp": "torch.exp({})", "log": "torch.log({})", "log2": "torch.log2({})", "sin": "torch.sin({})", "cos": "torch.cos({})",
    "tanh": "torch.tanh({})", "sqrt": "torch.sqrt({})", "abs": "torch.abs({})", "floor": "torch.floor({})",
    "ceil": "torch.ceil({})", "relu": "fn.relu({})", "gelu": "fn.gelu({})", "gelutanh": 'fn.gelu({}, approximate="tanh")',
    "silu": "fn.silu({})", "sigmoid": "torch.sigmoid({})", "softplus": "fn.softplus({})", "not": "~({})",
}  # fmt: skip
OPERATORS = {
    "Sm": "torch.softmax({}, {})", "mean": "torch.mean({}, {})",
    "var": "torch.var({}, {}, correction=0)", "max": "torch.amax({}, {})", "min": "torch.amin({}, {})",
    "lse": "torch.logsumexp({}, {})",
}  # fmt: skip


class Casts(Protocol):
    """What a primitive needs of the lowering that it is part of; `Lowering` says what each is."""

    needs: dict[str, None]
    helpers: dict[str, None]

    def cast(self, code: Code, kind: Kind) -> Code:
        """The code in another dtype."""
        ...


def function(low: Casts, name: str, argument: Code) -> Code:
    """A function of one argument."""
    if argument.plain:
        return Code(f"{PYTHON[name]}({argument.text})", (), "number")
    if argument.kind == "integer":
        argument = low.cast(argument, "number")
    kind = "condition" if name == "not" else argument.kind
    return Code(TORCH[name].format(argument.text), argument.dims, kind)


def infix(low: Casts, name: str, arguments: list[Code], wanted: Dims | None) -> Code:
    """Comparisons, `and`, `or`, `mod`."""
    if name == "mod":
        arguments = [low.cast(argument, combined(arguments)) for argument in arguments]
    dims, plain = ordered([a.dims for a in arguments], wanted), all(a.plain for a in arguments)
    symbol = name if plain and name in ("and", "or") else INFIX[name]
    level = POWER if name in ("mod", "and", "or") else SUM
    text = f" {symbol} ".join(aligned(argument, dims, level) for argument in arguments)
    if name == "mod":
        return Code(text, dims, combined(arguments), SUM)  # a minus before it would negate what `%` divides
    return Code(text, dims, "tensor" if any(a.kind == "tensor" for a in arguments) else "condition", LOOSE)


def extreme(low: Casts, name: str, arguments: list[Code], wanted: Dims | None) -> Code:
    """Of two: plain numbers clamp."""
    dims, kind = ordered([a.dims for a in arguments], wanted), combined(arguments)
    plain = [a for a in arguments if a.plain]
    if len(plain) == 2:
        return Code(f"{name}({plain[0].text}, {plain[1].text})", (), kind)
    if plain:
        other = next(a for a in arguments if not a.plain)
        return replace(other, text=f"{other.at(ATOM)}.clamp({'min' if name == 'max' else 'max'}={plain[0].text})", level=ATOM)
    left, right = (aligned(low.cast(a, kind), dims) for a in arguments)
    return Code(f"torch.{name}imum({left}, {right})", dims, kind)


def chosen(low: Casts, condition: Code, then: Code, otherwise: Code, dims: Dims) -> Code:
    """One of two numbers of Python; those that float32 may not hold need their dtype."""
    kind, chosen = combined([then, otherwise]), aligned(condition, dims)
    if all(code.kind == "integer" or code.text in ("math.inf", "-math.inf") for code in (then, otherwise)):
        return Code(f"torch.where({chosen}, {then.text}, {otherwise.text})", dims, kind)
    low.needs["number"] = None
    text = f"torch.full_like({chosen}, {otherwise.text}, dtype=number).masked_fill({chosen}, {then.text})"
    return Code(text, dims, kind)


def operator(low: Casts, e: Apply, argument: Code, counts: list[Code]) -> Code:
    """A primitive over indices."""
    letters = [index.letter for index in e.indices]
    axes = [argument.dims.index(letter) for letter in letters]
    if argument.kind == "integer":
        argument = low.cast(argument, "number")
    dims = argument.dims if e.name in KEEPING else tuple(d for d in argument.dims if d not in letters)
    where = str(axes[0]) if len(axes) == 1 else f"({', '.join(map(str, axes))})"
    if e.name == "top":
        helper = "top" if len(axes) == 1 else "top_together"
        low.helpers |= {"top": None, helper: None}
        return Code(f"{helper}({argument.text}, {counts[0].text}, {', '.join(map(str, axes))})", dims, "tensor")
    if e.name == "Sm" and len(axes) > 1:
        low.helpers["softmax"] = None
        return Code(f"softmax({argument.text}, {where})", dims)
    if e.name == "cumsum":
        code = argument.text
        for axis in axes:
            code = f"torch.cumsum({code}, {axis})"
        return Code(code, dims, argument.kind)
    return Code(OPERATORS[e.name].format(argument.text, where), dims, argument.kind)
