"""Emits each primitive as PyTorch, given the code of its arguments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from einformer.interpreters.torch.code import (
    ATOM,
    LOOSE,
    POWER,
    SUM,
    Code,
    Dims,
    Kind,
    align,
    combine_kinds,
    number_axis,
    order_dims,
)
from einformer.language.primitives import Primitive, row_of


class Casts(Protocol):
    """What a primitive needs of the context in which it is written; `Context` says what each is."""

    needs: dict[str, None]
    helpers: dict[str, None]

    def cast(self, code: Code, kind: Kind) -> Code:
        """The code in another dtype."""
        ...


def code_function(context: Casts, row: Primitive, argument: Code) -> Code:
    """A function of one argument."""
    kind: Kind = "condition" if row.condition else "number" if argument.plain else argument.kind
    if argument.plain:
        return Code(fill_template(row.python, argument), (), kind, ATOM if row.python.endswith("({})") else LOOSE)
    if argument.kind == "integer":
        argument = context.cast(argument, "number")
        kind = argument.kind
    return Code(fill_template(row.torch, argument), argument.dims, kind)


def fill_template(template: str, argument: Code) -> str:
    """The text of a row with its argument, in parentheses where none stand around it."""
    return template.format(argument.text if "({})" in template or "({}," in template else argument.at(ATOM))


def code_infix(context: Casts, row: Primitive, arguments: list[Code], wanted: Dims | None) -> Code:
    """Comparisons, `and`, `or`, `mod`."""
    name = row.name
    if name == "mod":
        arguments = [context.cast(argument, combine_kinds(arguments)) for argument in arguments]
    dims, plain = order_dims([a.dims for a in arguments], wanted), all(a.plain for a in arguments)
    level = POWER if name in ("mod", "and", "or") else SUM
    text = (row.python if plain else row.torch).format(*(align(argument, dims, level) for argument in arguments))
    if name == "mod":
        return Code(text, dims, combine_kinds(arguments), SUM)  # a minus before it would negate what `%` divides
    return Code(text, dims, "tensor" if any(a.kind == "tensor" for a in arguments) else "condition", LOOSE)


def code_extreme(context: Casts, row: Primitive, arguments: list[Code], wanted: Dims | None) -> Code:
    """Of two: plain numbers clamp."""
    dims, kind = order_dims([a.dims for a in arguments], wanted), combine_kinds(arguments)
    plain = [a for a in arguments if a.plain]
    if len(plain) == 2:
        return Code(row.python.format(*(a.text for a in arguments)), (), kind)
    if plain:
        other, end = context.cast(next(a for a in arguments if not a.plain), kind), "min" if row.name == "max" else "max"
        return replace(other, text=f"{other.at(ATOM)}.clamp({end}={plain[0].text})", level=ATOM)
    left, right = (align(context.cast(a, kind), dims) for a in arguments)
    return Code(row.torch.format(left, right), dims, kind)


def choose(context: Casts, condition: Code, then: Code, otherwise: Code, dims: Dims) -> Code:
    """One of two numbers of Python; those that float32 may not hold need their dtype."""
    kind, chosen = combine_kinds([then, otherwise]), align(condition, dims)
    if all(code.kind == "integer" or code.text in ("math.inf", "-math.inf") for code in (then, otherwise)):
        return Code(f"torch.where({chosen}, {then.text}, {otherwise.text})", dims, kind)
    context.needs["number"] = None
    text = f"torch.full_like({chosen}, {otherwise.text}, dtype=number).masked_fill({chosen}, {then.text})"
    return Code(text, dims, kind)


def code_operator(
    context: Casts, name: str, letters: Sequence[str], argument: Code, counts: list[Code], together: bool = False
) -> Code:
    """A primitive over indices; `together` in the form for several, also over one."""
    row = row_of(name, True)
    axes = [argument.dims.index(letter) for letter in letters]
    if argument.kind != "tensor":  # a tensor without axes is none of Python's numbers
        argument = context.cast(argument, "number" if set(argument.dims) - set(letters) else "tensor")
    dims = argument.dims if row.kind == "keeping" else tuple(d for d in argument.dims if d not in letters)
    kind: Kind = "tensor" if row.condition else argument.kind
    template = row.together if together or (len(axes) > 1 and row.together) else row.torch
    called, text = template.partition("(")[0], argument.text
    context.helpers |= {} if "." in called else {called: None}
    for places in (axes,) if row.kind == "reducing" or row.together else ([axis] for axis in axes):
        place = str(number_axis(places[0], len(argument.dims))) if len(places) == 1 else f"({', '.join(map(str, places))})"
        text = template.format(text, *(count.text for count in counts), place)
    return Code(text, dims, kind)
