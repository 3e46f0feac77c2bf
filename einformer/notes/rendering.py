"""How does a text read in the letters of a document? Its sizes are renamed on the tree, and what stands in their way.

A letter that the document uses for something else becomes the next free one, and no index is called as a size is (R1).
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Any

from einformer.notation.calls import axis_of
from einformer.notation.sizes import Legend
from einformer.notation.tree import Axis, Index, Name, Node, Scalar, Spec
from einformer.notes.conventions import written


def rendered(spec: Spec, convention: str) -> Spec:
    """The text in the letters of a document, as far as that has some. Raises EinformerError E605.

    >>> from einformer.architectures.texts import text, understood
    >>> from einformer.interpreters.latex import latex
    >>> print(latex(rendered(understood(text("gpt2"))[0], "megatron").axes[4]))
    e\\colon H = h / a \\qquad \\text{head}
    """
    legend = Legend.of(spec)
    theirs = {ours: letter for ours, letter in written(convention).items() if ours in legend.letters()}
    others = legend.letters() - theirs.keys() | {name for name, scalar in legend.scalars.items() if not scalar.indices}
    names = theirs | _apart(sorted(others), set(theirs.values()))
    result: Spec = _renamed(spec, names, _apart(legend.axes, set(names.values())))
    return result


def _apart(letters: Iterable[str], taken: set[str]) -> dict[str, str]:
    """Each letter as it is, or where that is taken, the next one that is free."""
    found = {letter: letter for letter in letters if letter not in taken}
    for letter in letters:
        if letter in taken:
            alphabet = string.ascii_lowercase if letter.islower() else string.ascii_uppercase
            before, _, after = alphabet.partition(letter)
            found[letter] = next(each for each in after + before if each not in taken and each not in found.values())
    return found


def _renamed(node: Any, names: Mapping[str, str], axes: Mapping[str, str]) -> Any:
    """A node, or a tuple of them, with other letters for names and axes."""
    match node:
        case tuple():
            return tuple(_renamed(each, names, axes) for each in node)
        case Index(letter):
            axis = axis_of(letter)
            return replace(node, letter=axes.get(axis, axis) + letter[len(axis) :])
        case Name(name):
            return replace(node, name=names.get(name, name))
        case Node():
            inner = {each.name: _renamed(getattr(node, each.name), names, axes) for each in fields(node) if each.name != "span"}
            match node:
                case Axis(letter):
                    inner["letter"] = axes[letter]
                case Scalar(name):
                    inner["name"] = names.get(name, name)
                case _:
                    pass
            return replace(node, **inner)
        case _:
            return node
