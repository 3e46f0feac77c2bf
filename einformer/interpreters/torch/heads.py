"""What must stand before the equations of a forward: sizes of the inputs, dtypes, index numbers, scalars with indices?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from einformer.errors import fail
from einformer.interpreters.torch.code import uses
from einformer.interpreters.torch.lower import Lowering, python_name
from einformer.language.calls import axis_of, slot_letters
from einformer.language.slots import Whole
from einformer.language.tree import Tensor
from einformer.language.walk import subexpressions
from einformer.language.weights import key
from einformer.program.roles import stored

NAMES = 5  # that are read off the config in one line


def heads(low: Lowering, body: Sequence[str], scalar: Callable[[str], str]) -> list[str]:
    """The lines for all that a lowered body needs, and for what those need; sizes that it reads in the end."""
    lines: dict[str, str] = {}
    while todo := [need for need in low.needs if need not in lines]:
        lines |= {need: _line(low, need, scalar) for need in todo}
    rest = [lines[need] for need in sorted(lines, key=lambda need: _rank(low, need)) if lines[need]]
    return [*settings(low, [need for need in lines if not lines[need]], low.config, [*rest, *body]), *rest]


def settings(low: Lowering, needs: Iterable[str], config: str, body: Sequence[str]) -> Iterator[str]:
    """`A, H = config.A, config.H`: sizes in the order of the legend, then scalars, a few on a line."""
    split = [need.split(" ") for need in needs]
    sizes = [low.constant(letter) for letter in low.legend.axes if ["size", letter] in split]
    names = [*dict.fromkeys(sizes), *(name for what, name in split if what == "config")]
    names = [name for name in names if uses("\n".join(body), name)]
    names = [name for name in names if low.held(name, f"{config}.") != name]
    for some in (names[k : k + NAMES] for k in range(0, len(names), NAMES)):
        yield f"{', '.join(some)} = {', '.join(low.held(name, f'{config}.') for name in some)}"


def _rank(low: Lowering, need: str) -> tuple[int, int]:
    """Sizes first, then device and dtypes, then index numbers, then scalars, each after those that it reads."""
    what, _, name = need.partition(" ")
    place = _depth(low, name) if what == "scalar" else 0
    return ["config", "size", "device", "dtype", "number", "index", "scalar"].index(what), place


def _depth(low: Lowering, name: str) -> int:
    """How many scalars with indices stand between a scalar and numbers."""
    value = low.legend.scalars[name].value
    if isinstance(value, tuple):
        return 0
    read = {x.name for x in subexpressions(value) if isinstance(x, Tensor)}
    return 1 + max((_depth(low, other) for other in read), default=0)


def _line(low: Lowering, need: str, scalar: Callable[[str], str]) -> str:
    what, _, name = need.partition(" ")
    match what:
        case "config":
            return ""
        case "size":
            return _size(low, name)
        case "index":
            low.needs["device"] = None
            return f"{low.spelling(name)} = torch.arange({low.size(name)}, device=device)"
        case "scalar":
            return scalar(name)
        case "device":
            return f"device = {python_name(low, low.layer.formals[0])}.device"
        case "dtype":
            return f"dtype = {_floating(low)}.dtype"
        case "number":
            low.needs["dtype"] = None
            return "number = torch.promote_types(dtype, torch.float32)"
        case _:
            raise AssertionError(need)


def _size(low: Lowering, letter: str) -> str:
    """A size that is not bound is read off an input; a function, which has no config of its own, reads all that it can."""
    shapes = ((formal, [axis_of(i) for i in slot_letters(formal)]) for formal in low.layer.formals)
    formal, letters = next(((formal, letters) for formal, letters in shapes if letter in letters), (None, []))
    if formal is None or (low.layer.weights and low.legend.is_bound(letter)):
        return ""
    axis = letters.index(letter) - (0 if low.layer.weights else len(letters))  # a function may be given more axes in front
    return f"{low.constant(letter)} = {python_name(low, formal)}.shape[{axis}]"


def _floating(low: Lowering) -> str:
    """A tensor whose dtype is that of the computation."""
    whole = Whole(low.layer, low.layers, low.legend)
    for formal in low.layer.formals:
        if formal.name not in whole.selecting | whole.either:
            return python_name(low, formal)
    if weights := stored(low.layer):
        return f"self.{key(weights[0].name)}"
    raise fail("E601", f"`{low.layer.name}` has no floating input or weight", low.layer.span)
