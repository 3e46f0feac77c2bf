"""How does a text read in the letters of a document? Its sizes are renamed on the tree, and what stands in their way.

A letter that the document uses for something else becomes the next free one, and no index is called as a size is (R1).
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Any

from einformer.errors import fail
from einformer.interpreters.latex import latex
from einformer.interpreters.latex.matrices import Style, matrices
from einformer.language.calls import axis_of
from einformer.language.sizes import Legend
from einformer.language.tree import Axis, Index, Name, Node, Scalar, Spec, Tensor, Weight
from einformer.language.walk import equations
from einformer.notes.conventions import attends, indices, own, style, written
from einformer.notes.shelf import understood
from einformer.program import check


def rendered(spec: Spec, convention: str) -> Spec:
    """The text in the letters of a document, as far as that has some. Raises EinformerError E605.

    >>> from einformer.interpreters.latex import latex
    >>> print(latex(rendered(understood("gpt2")[0], "megatron").axes[4]))
    e\\colon H = h / a \\qquad \\text{head}
    """
    legend = Legend.of(spec)
    known = written(convention) if "S" in legend.letters else written(convention) | own(convention)
    theirs = {ours: letter for ours, letter in known.items() if ours in legend.letters}
    others = legend.letters - theirs.keys() | _numbers(spec)
    names = theirs | _apart(sorted(others), set(theirs.values()))
    result: Spec = _renamed(spec, names, _indices(legend, convention, set(names.values())))
    return result


def _numbers(spec: Spec) -> set[str]:
    """What stands beside sizes without a subscript: scalars, and tensors of a layer (`m = max_x t_x`)."""
    scalars = {scalar.name for scalar in spec.scalars if not scalar.indices}
    lefts = {each.left for layer in spec.layers for each in equations(layer.body)}
    heads = {each for layer in spec.layers for each in (*layer.formals, layer.output)}
    weights = {w.name for layer in spec.layers for w in layer.weights if w.kind != "instance" and not w.indices}
    return scalars | weights | {each.name for each in lefts | heads if isinstance(each, Name) or not each.slots}


def _indices(legend: Legend, convention: str, taken: set[str]) -> dict[str, str]:
    """The index of each axis: the document's, where that is free, or its own, or the next one that is."""
    sizes = {axis.size.name: axis.letter for axis in legend.axes.values() if isinstance(axis.size, Name)}
    theirs = {sizes[size]: letter for size, letter in indices(convention).items() if size in sizes}
    kept = {axis: letter for axis, letter in theirs.items() if letter not in taken}
    return kept | _apart([axis for axis in legend.axes if axis not in kept], taken | set(kept.values()))


def printed(spec: Spec, convention: str, form: str | None = None, layer: str | None = None) -> str:
    r"""The LaTeX of a text as its author wrote it, or of a layer: in the letters of a document, in its form if none is given.

    >>> r"= \mathrm{softmax}(X X^{T}) \, X" in printed(understood("s002")[0], "s002")
    True

    Raises EinformerError E605.
    """
    text, how = rendered(spec, convention), style(convention)
    match form or ("matrix" if how else "index"):
        case "index" if layer is None:
            return latex(text)
        case "index":
            explicit, _ = check.check(text)  # with the sums that a reader of one layer alone would have to know
            return latex(next(each for each in explicit.layers if each.name == layer))
        case "matrix":
            return matrices(text, how or Style(), layer)
        case _:
            raise fail("E605", f"there is no form `{form}`", fix="`index` or `matrix`")


def attention(convention: str) -> tuple[str, ...]:
    r"""The formulas of attention behind its projections, in the matrices of a document; none if it writes none.

    >>> attention("s002")
    ('\\mathrm{Attention}(X) = \\mathrm{softmax}\\!\\left(\\frac{Q K^{T}}{\\sqrt{D_{K}}}\\right) \\, V',)
    """
    if style(convention) is None:
        return ()
    text, _, layer = attends(convention).partition(".")
    rows = printed(understood(text)[0], convention, layer=layer).splitlines()[1:-1]
    projections = next(at for at, row in enumerate(rows) if "oftmax" in row)
    return tuple(row.removeprefix(r"&\quad ").removesuffix(r" \\").partition(" && ")[0] for row in rows[projections:])


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
                case Scalar(name) | Tensor(name, ()) | Weight(name, ()):
                    inner["name"] = names.get(name, name)
                case _:
                    pass
            return replace(node, **inner)
        case _:
            return node
