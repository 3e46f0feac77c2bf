"""Prints a text in the letters of a document. Sizes are renamed on the tree, and so are names that would collide.

A letter that the document uses for something else becomes the next free one. No index has the name of a size (R1).
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Any

from einformer.errors import fail
from einformer.interpreters.latex import latex
from einformer.interpreters.latex.formulas import MatrixStyle
from einformer.interpreters.latex.matrices import print_matrices
from einformer.interpreters.mathml import mathml
from einformer.language.calls import axis_of
from einformer.language.sizes import Legend
from einformer.language.tree import Axis, Index, Name, Node, Scalar, Spec, Tensor, Weight
from einformer.language.walk import equations
from einformer.notes.notations import attends, indices, own_letters, style, translate
from einformer.notes.shelf import elaborate
from einformer.program.causality import check_spec

_GREEK = "γδθλξσφψω"  # after all others: those that look like no Latin letter, small or capital


def render(spec: Spec, convention: str) -> Spec:
    r"""Returns the text in the letters of a document, as far as it has some. Raises EinformerError E605.

    >>> from einformer.interpreters.latex import latex
    >>> print(latex(render(elaborate("gpt2")[0], "megatron").axes[4]))
    e\colon H = h / a \qquad \text{head}
    """
    legend = Legend.of(spec)
    letters = translate(convention) if "S" in legend.letters else translate(convention) | own_letters(convention)
    theirs = {ours: letter for ours, letter in letters.items() if ours in legend.letters}
    others = legend.letters - theirs.keys() | _find_bare_names(spec)
    indexed = {scalar.name for scalar in spec.scalars if scalar.indices}
    names = theirs | _separate(sorted(others), {*theirs.values(), *(indexed - others)})
    result: Spec = _rename(spec, names, _name_indices(legend, convention, set(names.values())))
    return result


# Names that stand beside sizes without a subscript: scalars, and tensors of a layer (`m = max_x t_x`).
def _find_bare_names(spec: Spec) -> set[str]:
    scalars = {scalar.name for scalar in spec.scalars if not scalar.indices}
    lefts = {item.left for layer in spec.layers for item in equations(layer.body)}
    heads = {item for layer in spec.layers for item in (*layer.formals, layer.output)}
    weights = {w.name for layer in spec.layers for w in layer.weights if w.kind != "instance" and not w.indices}
    return scalars | weights | {item.name for item in lefts | heads if isinstance(item, Name) or not item.slots}


# The document's index if it is free, or the text's own, or the next free one.
def _name_indices(legend: Legend, convention: str, taken: set[str]) -> dict[str, str]:
    sizes = {axis.size.name: axis.letter for axis in legend.axes.values() if isinstance(axis.size, Name)}
    theirs = {sizes[size]: letter for size, letter in indices(convention).items() if size in sizes}
    kept = {axis: letter for axis, letter in theirs.items() if letter not in taken}
    return kept | _separate([axis for axis in legend.axes if axis not in kept], taken | set(kept.values()))


def print_latex(spec: Spec, convention: str, form: str | None = None, layer: str | None = None) -> str:
    r"""Prints the LaTeX or the MathML of a text as its author wrote it, or of a layer: in the letters of a document, in its
    form by default.

    >>> r"= \mathrm{softmax}(X X^{T}) \, X" in print_latex(elaborate("s002")[0], "s002")
    True

    Raises EinformerError E605.
    """
    text, how = render(spec, convention), style(convention)
    match form or ("matrix" if how else "index"):
        case "index" | "mathml" as chosen:
            write = latex if chosen == "index" else mathml
            if layer is None:
                return write(text)
            explicit, _ = check_spec(text)  # with the sums that a reader of one layer alone would have to know
            return write(next(candidate for candidate in explicit.layers if candidate.name == layer))
        case "matrix":
            return print_matrices(text, how or MatrixStyle(), layer)
        case _:
            raise fail("E605", f"there is no form `{form}`", fix="`index`, `matrix` or `mathml`")


def attention(convention: str) -> tuple[str, ...]:
    r"""Returns the formulas of attention after its projections, in the matrices of a document. Empty if it has none.

    >>> attention("s002")
    ('\\mathrm{Attention}(X) = \\mathrm{softmax}\\!\\left(\\frac{Q K^{T}}{\\sqrt{D_{K}}}\\right) \\, V',)
    """
    if style(convention) is None:
        return ()
    text, _, layer = attends(convention).partition(".")
    rows = print_latex(elaborate(text)[0], convention, layer=layer).splitlines()[1:-1]
    projections = next(number for number, row in enumerate(rows) if "oftmax" in row)
    return tuple(row.removeprefix(r"&\quad ").removesuffix(r" \\").partition(" && ")[0] for row in rows[projections:])


# A letter that is taken becomes the next free one.
def _separate(letters: Iterable[str], taken: set[str]) -> dict[str, str]:
    names = {letter: letter for letter in letters if letter not in taken}
    for letter in letters:
        if letter in taken:
            alphabet, greek = (string.ascii_lowercase, _GREEK) if letter.islower() else (string.ascii_uppercase, _GREEK.upper())
            before, _, after = alphabet.partition(letter)
            names[letter] = next(free for free in after + before + greek if free not in taken and free not in names.values())
    return names


def _rename(node: Any, names: Mapping[str, str], axes: Mapping[str, str]) -> Any:
    match node:
        case tuple():
            return tuple(_rename(child, names, axes) for child in node)
        case Index(letter):
            axis = axis_of(letter)
            return replace(node, letter=axes.get(axis, axis) + letter[len(axis) :])
        case Name(name):
            return replace(node, name=names.get(name, name))
        case Node():
            inner = {
                child.name: _rename(getattr(node, child.name), names, axes) for child in fields(node) if child.name != "span"
            }
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
