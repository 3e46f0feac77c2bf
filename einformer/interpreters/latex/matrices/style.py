"""How does a document name its matrices? A row of data for each convention."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Style:
    """How matrices are written.

    `weight` and `label` say where the name of a weight stands and where the number of a head: `_Q`, `^Q`, `^(q)` with small
    letters, `_i`, `^(i)`. `columns` says that vectors are columns. `names` are weights by their sizes, `d d_ff` = `W_1`.
    `weights` is the letter of the weights of attention, where these have a line of their own, `attention` the name of the
    formula of one head, `head` that of its value, `heads` the name of a layer that puts heads side by side.
    """

    weight: str = "_Q"
    label: str = "_i"
    transpose: str = r"\top"
    softmax: str = "softmax"
    columns: bool = False
    weights: str = ""
    attention: str = ""
    head: str = ""
    heads: str = ""
    names: Mapping[str, str] = field(default_factory=dict)

    def name_of_weight(self, name: str) -> tuple[str, str]:
        """Where the name of a weight stands, and how."""
        return _script(self.weight, name.lower() if "q" in self.weight else name)

    def label_of(self, text: str) -> tuple[str, str]:
        """Where a label stands, and how."""
        return _script(self.label, text)


def _script(place: str, text: str) -> tuple[str, str]:
    return place[0], f"({text})" if "(" in place and text else text


def scripted(base: str, scripts: list[tuple[str, str]], turned: str = "") -> str:
    """A letter with what stands below and above it, and at last the sign that it is `turned`.

    >>> scripted("W", [("_", "Q"), ("_", "a")], "T")
    'W_{Q,a}^{T}'
    """
    below, above = (",".join(text for side, text in scripts if side == place and text) for place in "_^")
    letter = base.rstrip("'")
    if primes := (len(base) - len(letter)) * r"\prime" if below or above or turned else "":
        base, above = letter, f"{primes} {above}"
    above = (above + turned).strip()
    return base + (f"_{{{below}}}" if below else "") + (f"^{{{above}}}" if above else "")


def raised(text: str, power: str) -> str:
    """A power of what may have something above it already."""
    scripted = not text.endswith(")") and ("^" in text or "'" in text)
    return f"{{{text}}}^{{{power}}}" if scripted else f"{text}^{{{power}}}"
