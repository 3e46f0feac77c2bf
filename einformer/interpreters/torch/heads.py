"""Emits the lines before the equations of a forward: sizes of the inputs, dtypes, index numbers, scalars with indices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from einformer.errors import fail
from einformer.interpreters.torch.code import uses
from einformer.interpreters.torch.context import Context, name_tensor
from einformer.language.calls import axis_of, slot_letters
from einformer.language.slots import Whole
from einformer.language.tree import Tensor
from einformer.language.walk import subexpressions
from einformer.language.weights import key, list_stored

NAMES = 5  # that are read off the config in one line


def write_heads(context: Context, body: Sequence[str], scalar: Callable[[str], str]) -> list[str]:
    """The lines for all that a lowered body needs, and for what those need; sizes that it reads in the end."""
    lines: dict[str, str] = {}
    while todo := [need for need in context.needs if need not in lines]:
        lines |= {need: _write_need(context, need, scalar) for need in todo}
    rest = [lines[need] for need in sorted(lines, key=lambda need: _rank_need(context, need)) if lines[need]]
    return [*read_settings(context, [need for need in lines if not lines[need]], context.config, [*rest, *body]), *rest]


def read_settings(context: Context, needs: Iterable[str], config: str, body: Sequence[str]) -> Iterator[str]:
    """`A, H = config.A, config.H`: sizes in the order of the legend, then scalars, a few on a line."""
    split = [need.split(" ") for need in needs]
    sizes = [context.read_constant(letter) for letter in context.legend.axes if ["size", letter] in split]
    names = [*dict.fromkeys(sizes), *(name for what, name in split if what == "config")]
    names = [name for name in names if uses("\n".join(body), name)]
    names = [name for name in names if context.spell_size(name, f"{config}.") != name]
    for some in (names[k : k + NAMES] for k in range(0, len(names), NAMES)):
        yield f"{', '.join(some)} = {', '.join(context.spell_size(name, f'{config}.') for name in some)}"


def _rank_need(context: Context, need: str) -> tuple[int, int]:
    what, _, name = need.partition(" ")
    place = _measure_depth(context, name) if what == "scalar" else 0
    return ["config", "size", "device", "dtype", "number", "index", "scalar"].index(what), place


def _measure_depth(context: Context, name: str) -> int:
    value = context.legend.scalars[name].value
    if isinstance(value, tuple):
        return 0
    read = {x.name for x in subexpressions(value) if isinstance(x, Tensor)}
    return 1 + max((_measure_depth(context, other) for other in read), default=0)


def _write_need(context: Context, need: str, scalar: Callable[[str], str]) -> str:
    what, _, name = need.partition(" ")
    match what:
        case "config":
            return ""
        case "size":
            return _write_size(context, name)
        case "index":
            context.needs["device"] = None
            return f"{context.spell(name)} = torch.arange({context.size(name)}, device=device)"
        case "scalar":
            return scalar(name)
        case "device":
            return f"device = {name_tensor(context, context.layer.formals[0])}.device"
        case "dtype":
            return f"dtype = {_find_floating(context)}.dtype"
        case "number":
            context.needs["dtype"] = None
            return "number = torch.promote_types(dtype, torch.float32)"
        case _:
            raise AssertionError(need)


def _write_size(context: Context, letter: str) -> str:
    shapes = ((formal, [axis_of(i) for i in slot_letters(formal)]) for formal in context.layer.formals)
    formal, letters = next(((formal, letters) for formal, letters in shapes if letter in letters), (None, []))
    if formal is None or (context.layer.weights and context.legend.is_bound(letter)):
        return ""
    axis = letters.index(letter) - (0 if context.layer.weights else len(letters))  # a function may be given more axes in front
    return f"{context.read_constant(letter)} = {name_tensor(context, formal)}.shape[{axis}]"


def _find_floating(context: Context) -> str:
    whole = Whole(context.layer, context.layers, context.legend)
    for formal in context.layer.formals:
        if formal.name not in whole.selecting | whole.either:
            return name_tensor(context, formal)
    if weights := list_stored(context.layer):
        return f"self.{key(weights[0].name)}"
    raise fail("E601", f"`{context.layer.name}` has no floating input or weight", context.layer.span)
