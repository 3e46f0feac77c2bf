"""Holds the weights of the turns of loops: one list of blocks at each depth, in which turns of equal number share a block.

The path of a weight names the number of the turn, not the loop: `blocks.0.MLP.W`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from einformer.errors import EinformerError
from einformer.interpreters.torch.code import Dims
from einformer.interpreters.torch.context import INDENT, Context, block_name
from einformer.interpreters.torch.emit import number
from einformer.language.tree import Apply, Expression, Index, Loop, Statement
from einformer.language.walk import children, equations, subexpressions
from einformer.language.weights import key, turns_of

Loops = tuple[Loop, ...]
Choices = Sequence[tuple[Expression, bool]]  # conditions, and whether they hold


@dataclass(slots=True)
class Blocks:
    """The instances of one layer: in which turns of which loops each is another, and the lines that make them."""

    context: Context
    held: dict[str, Loops]  # an instance: the loops in each turn of which it is another set of weights
    layers: dict[str, str]  # an instance: its layer
    exist: dict[str, set[tuple[int, ...]]]  # an instance: the turns of those loops in which it is called

    @classmethod
    def of(cls, context: Context) -> Blocks:
        """Where an instance is called in several loops over one letter, the longest says how many sets there are."""
        exist = turns_of(context.layer, context.legend)
        layers = {w.name: w.layer for w in context.layer.weights if exist.get(w.name) and context.layers[w.layer].weights}
        held: dict[str, Loops] = {}
        for call, around in _calls(context.layer.body):
            if call.name in layers:
                carried = tuple(loop for loop in around if loop.index in call.indices)
                known = held.get(call.name, carried)
                held[call.name] = tuple(max(pair, key=context.turns) for pair in zip(known, carried, strict=True))
        return cls(context, held, layers, exist)

    @property
    def depth(self) -> int:
        """How deep the lists of blocks stand in each other."""
        return max(map(len, self.held.values()), default=0)

    def longest(self, depth: int) -> Loop:
        """The loop that says how many blocks there are at a depth."""
        return max((loops[depth] for loops in self.held.values() if len(loops) > depth), key=self.context.turns)

    def numbers(self, depth: int) -> Dims:
        """What the numbers of the turns are called at a depth, each apart from those around it."""
        names: Dims = ()
        for each in range(depth):
            letter = self.longest(each).index.letter
            names += (letter + "_" * sum(name.rstrip("_") == letter for name in names),)
        return names

    def lines(self, turns: Dims = ()) -> Iterator[str]:
        """The lines that make the instances of a turn, or those outside of loops; some exist in some turns only."""
        for name, loops in self.held.items():
            if len(loops) == len(turns):
                conditions = self.conditions(name, turns)
                condition = " and ".join(f"({each})" if len(conditions) > 1 else each for each in conditions)
                passed = self.context.passed.get(self.layers[name], ())
                called = self.context.called("layer", self.layers[name], self.layers[name])
                sizes = (self.context.held(each, "config.") if each.isalpha() and each != "config" else each for each in passed)
                line = f"self.{key(name)} = {called}({', '.join(sizes)})"
                yield from [f"if {condition}:", INDENT + line] if condition else [line]
        if self.depth > len(turns):
            letter = self.numbers(len(turns) + 1)[-1] if self.numbered else "_"
            count = number(self.context, self.longest(len(turns)).count).text
            inside = any("config" in line for line in self.lines((*turns, letter)))
            arguments = ", ".join([*["config"] * inside, *((*turns, letter) if self.numbered else ())])
            yield f"self.blocks = nn.ModuleList({self.name(len(turns) + 1)}({arguments}) for {letter} in range({count}))"

    @property
    def numbered(self) -> bool:
        """Must a block know its number, because some instances exist in some turns only?"""
        names = {name: tuple(loop.index.letter for loop in loops) for name, loops in self.held.items()}
        return any(condition for name, turns in names.items() for condition in self.conditions(name, turns))

    def conditions(self, name: str, turns: Dims) -> list[str]:
        """When a turn has an instance: as the text says it, or the numbers of the turns."""
        loops = self.held[name]
        if len(self.exist[name]) == math.prod(self.context.turns(self.longest(depth)) for depth in range(len(loops))):
            return []
        still = {loop.index.letter: turn for loop, turn in zip(loops, turns, strict=True)}
        first, *more = self.choices(name)
        if more or any(_letters(condition) - still.keys() for condition, _ in first):
            return [f"({', '.join(turns)},) in {sorted(self.exist[name])}"]
        return [*self.reached(loops, turns), *(self.choice(*each, still) for each in first if _letters(each[0]))]

    def reached(self, loops: Loops, turns: Dims) -> Iterator[str]:
        """The turns that a shorter loop has."""
        for depth, (loop, turn) in enumerate(zip(loops, turns, strict=True)):
            if self.context.turns(loop) < self.context.turns(self.longest(depth)):
                yield f"{turn} < {number(self.context, loop.count).text}"

    def choices(self, name: str) -> list[Choices]:
        """For each call of an instance the `where` around it whose conditions are numbers of layers (R8)."""
        around = [choices for q in equations(self.context.layer.body) for choices in _around(q.right, name)]
        return [[each for each in choices if self.is_number(each[0])] for choices in around]

    def is_number(self, condition: Expression) -> bool:
        """Is a condition known in each turn?"""
        try:
            self.context.legend.number(condition, dict.fromkeys(_letters(condition), 0))
        except EinformerError:
            return False
        return True

    def choice(self, condition: Expression, taken: bool, still: dict[str, str]) -> str:
        """The condition of one `where`, or that it does not hold."""
        text = number(replace(self.context, needs={}), condition, still).text
        return text if taken else f"not ({text})"

    def name(self, depth: int) -> str:
        """The class that holds the weights of one turn."""
        return self.context.called("block", f"{self.context.layer.name} {depth}", self.context.layer.name + "Block" * depth)

    def classes(self) -> Iterator[str]:
        """The classes that hold the weights of one turn, inner loops first."""
        for depth in range(self.depth, 0, -1):
            turns = self.numbers(depth)
            over = dict.fromkeys(loops[depth - 1].index.letter for loops in self.held.values() if len(loops) >= depth)
            yield f"class {self.name(depth)}(nn.Module):"
            yield f'{INDENT}"""The weights of one turn of the loop over {" and of that over ".join(over)}."""'
            yield ""
            lines = list(self.lines(turns))
            config = ["config: Config"] * any("config" in line for line in lines)
            numbers = [f"{turn}: int" for turn in turns] if self.numbered else []
            yield f"{INDENT}def __init__({', '.join(['self', *config, *numbers])}) -> None:"
            yield from (2 * INDENT + line for line in ["super().__init__()", *lines])
            yield from ("", "")

    def turning(self, loop: Loop, context: Context) -> str:
        """`l, block in enumerate(self.blocks)`: what a loop runs through, in a forward."""
        letter = loop.index.letter
        carried = [self.held[e.name] for e, _ in _calls(loop.body) if e.name in self.held and loop.index in e.indices]
        letters = [tuple(each.index.letter for each in loops) for loops in carried]
        paths = list(dict.fromkeys(path[: path.index(letter) + 1] for path in letters))
        if not paths:
            return f"{letter} in range({number(context, loop.count).text})"
        blocks = [block_name(path, self.context.layer) for path in paths]
        lists = [f"{block_name(path[:-1], self.context.layer)}.blocks" for path in paths]
        if len(paths) > 1 or self.context.turns(loop) < self.context.turns(self.longest(len(paths[0]) - 1)):
            return f"{', '.join([letter, *blocks])} in zip(range({number(context, loop.count).text}), {', '.join(lists)})"
        read = context.named or any(x == loop.index for q in equations(loop.body) for x in subexpressions(q.right))
        return f"{letter}, {blocks[0]} in enumerate({lists[0]})" if read else f"{blocks[0]} in {lists[0]}"


def _calls(body: tuple[Statement, ...], around: Loops = ()) -> Iterator[tuple[Apply, Loops]]:
    """Every application in a body, in the order of the text, and the loops around it."""
    for statement in body:
        if isinstance(statement, Loop):
            yield from _calls(statement.body, (*around, statement))
        else:
            yield from ((e, around) for e in subexpressions(statement.right) if isinstance(e, Apply))


def _around(e: Expression, name: str, choices: Choices = ()) -> Iterator[Choices]:
    """For each call of an instance in e the conditions around it, and whether it stands where they hold."""
    if isinstance(e, Apply) and e.name == name:
        yield choices
    for place, child in enumerate(children(e)):
        chosen = [(e.arguments[0], place == 1)] if isinstance(e, Apply) and e.name == "where" and place > 0 else []
        yield from _around(child, name, [*choices, *chosen])


def _letters(e: Expression) -> set[str]:
    return {x.letter for x in subexpressions(e) if isinstance(x, Index)}
