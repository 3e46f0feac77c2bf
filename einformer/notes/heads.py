"""Builds the legend of a note from its words, and the block that would make a program of a note without one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from einformer.architectures.texts import library
from einformer.language.calls import axis_of
from einformer.language.printer import show
from einformer.language.tree import Index, Name, Tensor
from einformer.language.walk import find_all
from einformer.notes.documents.pieces import Document, Passage
from einformer.notes.legend import StatedSize, read_sizes
from einformer.notes.reading import DocumentEquation

_DECLARED = re.compile(r"^\s*([a-z]):", re.MULTILINE)
_SUBSCRIPT = re.compile(r"(?<=\w)_\{?([a-z'(){} ]+)")


# Letters that blocks or equations use, that no block declares, and whose sizes the text states.
def declare_axes(document: Document, blocks: Sequence[Passage], lines: Sequence[DocumentEquation]) -> Iterator[Passage]:
    declared = {letter for block in blocks for letter in _DECLARED.findall(block.text)}
    used = {letter for block in blocks for slots in _SUBSCRIPT.findall(block.text) for letter in slots}
    missing = (used | set(_list_letters(lines))) - declared
    missing_sizes = [size for letter, size in _read_first_sizes(document).items() if letter in missing]
    for number, size in enumerate(missing_sizes):
        text = "axes\n" * (not number) + f"  {size.letter}: {size.size}\n"
        yield Passage(size.span.source, text, (size.span.start,) * len(text))


# Returns the block that the equations of a note need: sizes as the text states them, else capitals of the letters. Undefined
# tensors are inputs if their name is lower-case, and weights if it is capital or Greek; scalars of the library are named.
def propose(document: Document, lines: Sequence[DocumentEquation], fences: tuple[str, str]) -> str:
    defined = {line.left.tree.name: line.left.tree for line in lines if isinstance(line.left.tree, Tensor)}
    free = {tensor.name: tensor for tensor in _list_tensors(lines) if tensor.name not in defined}
    if not defined or not free:
        return "a block of einformer with the legend and the head of a layer, and equations below it"
    sizes, letters = _read_first_sizes(document), list(_list_letters(lines))
    bare = dict.fromkeys(node.name for line in lines for node in line.nodes() if isinstance(node, Name))
    clash = letters.count("h") or "E" in bare
    plain = {letter: "H" if letter == "e" and not clash else letter.upper() for letter in letters}
    legend = [f"  {letter}: {sizes[letter].size if letter in sizes else plain[letter]}" for letter in letters]
    inputs = ", ".join(_drop_primes(tensor) for name, tensor in free.items() if _is_given(name))
    learned = ", ".join(_drop_primes(tensor) for name, tensor in free.items() if not _is_given(name))
    shared = bare.keys() - defined.keys() - set(re.findall(r"\w+", " ".join(legend)))
    scalars = ", ".join(scalar.name for scalar in library().scalars if scalar.name in shared and not scalar.indices)
    head = f"layer Note({inputs}) -> {show(list(defined.values())[-1])}:"
    weights = [f"  weights {learned}"] * bool(learned)
    return "\n".join(
        [
            "above the equations",
            "",
            fences[0],
            "axes",
            *legend,
            *([f"scalars {scalars}"] if scalars else []),
            head,
            *weights,
            fences[1],
        ]
    )


def _is_given(name: str) -> bool:
    return name[0].isascii() and name[0].islower()


# Without primes, unless two letters would be equal.
def _drop_primes(tensor: Tensor) -> str:
    letters = [axis_of(x.letter) for x in find_all(Index, tensor)]
    return f"{tensor.name}_{''.join(letters)}" if len(set(letters)) == len(letters) else show(tensor)


# The first size of each letter.
def _read_first_sizes(document: Document) -> dict[str, StatedSize]:
    sizes = dict[str, StatedSize]()
    for section in document.sections:
        for size in read_sizes(section):
            sizes.setdefault(size.letter, size)
    return sizes


def _list_tensors(lines: Sequence[DocumentEquation]) -> Iterator[Tensor]:
    return (node for line in lines for node in line.nodes() if isinstance(node, Tensor))


def _list_letters(lines: Sequence[DocumentEquation]) -> Iterator[str]:
    nodes = (node for line in lines for node in line.nodes())
    yield from dict.fromkeys(axis_of(node.letter) for node in nodes if isinstance(node, Index))
