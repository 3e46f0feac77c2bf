"""What does a note say of its letters outside its blocks, and which block would make a program of a note that has none?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from einformer.language.calls import axis_of
from einformer.language.printer import show
from einformer.language.tree import Index, Tensor
from einformer.language.walk import subexpressions
from einformer.lint.legend import StatedSize, read_sizes
from einformer.lint.notes.pieces import Document, Passage
from einformer.lint.reading import Equation

_DECLARED = re.compile(r"^\s*([a-z]):", re.MULTILINE)
_SUBSCRIPT = re.compile(r"(?<=\w)_\{?([a-z'(){} ]+)")


def axes(document: Document, blocks: Sequence[Passage], lines: Sequence[Equation]) -> Iterator[Passage]:
    """A legend of the letters that no block declares, though blocks or equations use them and the text says their sizes."""
    declared = {letter for block in blocks for letter in _DECLARED.findall(block.text)}
    used = {letter for block in blocks for slots in _SUBSCRIPT.findall(block.text) for letter in slots}
    missing = (used | set(_letters(lines))) - declared
    found = [known for letter, known in _stated(document).items() if letter in missing]
    for number, known in enumerate(found):
        text = "axes\n" * (not number) + f"  {known.letter}: {known.size}\n"
        yield Passage(known.span.source, text, (known.span.start,) * len(text))


def proposed(document: Document, lines: Sequence[Equation], fences: tuple[str, str]) -> str:
    """The block that the equations of a note ask for: its sizes as the text says them, else the capitals of their letters.

    What nothing defines is given where its name is lower-case, learned where that is capital or Greek.
    """
    defined = {line.left.tree.name: line.left.tree for line in lines if isinstance(line.left.tree, Tensor)}
    free = {tensor.name: tensor for tensor in _tensors(lines) if tensor.name not in defined}
    if not defined or not free:
        return "a block of einformer with the legend and the head of a layer, and equations below it"
    said, letters = _stated(document), list(_letters(lines))
    plain = {letter: "H" if letter == "e" and "h" not in letters else letter.upper() for letter in letters}
    legend = [f"  {letter}: {said[letter].size if letter in said else plain[letter]}" for letter in letters]
    given = ", ".join(_plain(tensor) for name, tensor in free.items() if _is_given(name))
    learned = ", ".join(_plain(tensor) for name, tensor in free.items() if not _is_given(name))
    head = f"layer Note({given}) -> {show(list(defined.values())[-1])}:"
    weights = [f"  weights {learned}"] * bool(learned)
    return "\n".join(["above the equations", "", fences[0], "axes", *legend, head, *weights, fences[1]])


def _is_given(name: str) -> bool:
    return name[0].isascii() and name[0].islower()


def _plain(tensor: Tensor) -> str:
    """With the letters without primes, where they then are still different ones."""
    letters = [axis_of(x.letter) for x in subexpressions(tensor) if isinstance(x, Index)]
    return f"{tensor.name}_{''.join(letters)}" if len(set(letters)) == len(letters) else show(tensor)


def _stated(document: Document) -> dict[str, StatedSize]:
    """What is said first of each letter."""
    found = dict[str, StatedSize]()
    for section in document.sections:
        for known in read_sizes(section):
            found.setdefault(known.letter, known)
    return found


def _tensors(lines: Sequence[Equation]) -> Iterator[Tensor]:
    return (node for line in lines for node in line.nodes() if isinstance(node, Tensor))


def _letters(lines: Sequence[Equation]) -> Iterator[str]:
    """Every letter of their subscripts, in the order of the text."""
    nodes = (node for line in lines for node in line.nodes())
    yield from dict.fromkeys(axis_of(node.letter) for node in nodes if isinstance(node, Index))
