"""Holds the weights of the turns of loops: one list of blocks at each depth, in which turns of equal number share a block.

The path of a weight names the number of the turn, not the loop: `blocks.0.MLP.W`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from einformer.errors import EinformerError
from einformer.interpreters.torch.code import Dims
from einformer.interpreters.torch.context import INDENT, Context, name_block
from einformer.interpreters.torch.emit import code_number
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
        for call, around in _find_calls(context.layer.body):
            if call.name in layers:
                carried = tuple(loop for loop in around if loop.index in call.indices)
                loops = held.get(call.name, carried)
                held[call.name] = tuple(max(pair, key=context.count_turns) for pair in zip(loops, carried, strict=True))
        return cls(context, held, layers, exist)

    @property
    def depth(self) -> int:
        """How deep the lists of blocks stand in each other."""
        return max(map(len, self.held.values()), default=0)

    def find_longest(self, depth: int) -> Loop:
        """The loop that says how many blocks there are at a depth."""
        return max((loops[depth] for loops in self.held.values() if len(loops) > depth), key=self.context.count_turns)

    def name_turns(self, depth: int) -> Dims:
        """What the numbers of the turns are called at a depth, each apart from those around it."""
        names: Dims = ()
        for outer in range(depth):
            letter = self.find_longest(outer).index.letter
            names += (letter + "_" * sum(name.rstrip("_") == letter for name in names),)
        return names

    def lines(self, turns: Dims = ()) -> Iterator[str]:
        """The lines that make the instances of a turn, or those outside of loops; some exist in some turns only."""
        for name, loops in self.held.items():
            if len(loops) == len(turns):
                conditions = self.write_conditions(name, turns)
                condition = " and ".join(f"({condition})" if len(conditions) > 1 else condition for condition in conditions)
                passed = self.context.passed.get(self.layers[name], ())
                called = self.context.reserve_name("layer", self.layers[name], self.layers[name])
                sizes = (
                    self.context.spell_size(size, "config.") if size.isalpha() and size != "config" else size for size in passed
                )
                line = f"self.{key(name)} = {called}({', '.join(sizes)})"
                yield from [f"if {condition}:", INDENT + line] if condition else [line]
        if self.depth > len(turns):
            letter = self.name_turns(len(turns) + 1)[-1] if self.is_numbered else "_"
            count = code_number(self.context, self.find_longest(len(turns)).count).text
            inside = any("config" in line for line in self.lines((*turns, letter)))
            arguments = ", ".join([*["config"] * inside, *((*turns, letter) if self.is_numbered else ())])
            yield f"self.blocks = nn.ModuleList({self.name(len(turns) + 1)}({arguments}) for {letter} in range({count}))"

    @property
    def is_numbered(self) -> bool:
        """Must a block know its number, because some instances exist in some turns only?"""
        names = {name: tuple(loop.index.letter for loop in loops) for name, loops in self.held.items()}
        return any(condition for name, turns in names.items() for condition in self.write_conditions(name, turns))

    def write_conditions(self, name: str, turns: Dims) -> list[str]:
        """When a turn has an instance: as the text says it, or the numbers of the turns."""
        loops = self.held[name]
        longest = map(self.find_longest, range(len(loops)))
        if len(self.exist[name]) == math.prod(map(self.context.count_turns, longest)):
            return []
        still = {loop.index.letter: turn for loop, turn in zip(loops, turns, strict=True)}
        first, *more = self.find_choices(name)
        if more or any(_find_letters(condition) - still.keys() for condition, _ in first):
            return [f"({', '.join(turns)},) in {sorted(self.exist[name])}"]
        choices = (self.write_choice(*pair, still) for pair in first if _find_letters(pair[0]))
        return [*self.write_reached(loops, turns), *choices]

    def write_reached(self, loops: Loops, turns: Dims) -> Iterator[str]:
        """The turns that a shorter loop has."""
        for depth, (loop, turn) in enumerate(zip(loops, turns, strict=True)):
            if self.context.count_turns(loop) < self.context.count_turns(self.find_longest(depth)):
                yield f"{turn} < {code_number(self.context, loop.count).text}"

    def find_choices(self, name: str) -> list[Choices]:
        """For each call of an instance the `where` around it whose conditions are numbers of layers (R8)."""
        around = [choices for q in equations(self.context.layer.body) for choices in _find_conditions(q.right, name)]
        return [[pair for pair in choices if self.is_number(pair[0])] for choices in around]

    def is_number(self, condition: Expression) -> bool:
        """Is a condition known in each turn?"""
        try:
            self.context.legend.number(condition, dict.fromkeys(_find_letters(condition), 0))
        except EinformerError:
            return False
        return True

    def write_choice(self, condition: Expression, holds: bool, still: dict[str, str]) -> str:
        """The condition of one `where`, or that it does not hold."""
        text = code_number(replace(self.context, needs={}), condition, still).text
        return text if holds else f"not ({text})"

    def name(self, depth: int) -> str:
        """The class that holds the weights of one turn."""
        layer = self.context.layer.name
        return self.context.reserve_name("block", f"{layer} {depth}", layer + "Block" * depth)

    def classes(self) -> Iterator[str]:
        """The classes that hold the weights of one turn, inner loops first."""
        for depth in range(self.depth, 0, -1):
            turns = self.name_turns(depth)
            over = dict.fromkeys(loops[depth - 1].index.letter for loops in self.held.values() if len(loops) >= depth)
            yield f"class {self.name(depth)}(nn.Module):"
            yield f'{INDENT}"""The weights of one turn of the loop over {" and of that over ".join(over)}."""'
            yield ""
            lines = list(self.lines(turns))
            config = ["config: Config"] * any("config" in line for line in lines)
            numbers = [f"{turn}: int" for turn in turns] if self.is_numbered else []
            yield f"{INDENT}def __init__({', '.join(['self', *config, *numbers])}) -> None:"
            yield from (2 * INDENT + line for line in ["super().__init__()", *lines])
            yield from ("", "")

    def write_turning(self, loop: Loop, context: Context) -> str:
        """`l, block in enumerate(self.blocks)`: what a loop runs through, in a forward."""
        letter = loop.index.letter
        carried = [self.held[e.name] for e, _ in _find_calls(loop.body) if e.name in self.held and loop.index in e.indices]
        letters = [tuple(loop.index.letter for loop in loops) for loops in carried]
        paths = list(dict.fromkeys(path[: path.index(letter) + 1] for path in letters))
        if not paths:
            return f"{letter} in range({code_number(context, loop.count).text})"
        blocks = [name_block(path, self.context.layer) for path in paths]
        lists = [f"{name_block(path[:-1], self.context.layer)}.blocks" for path in paths]
        if len(paths) > 1 or self.context.count_turns(loop) < self.context.count_turns(self.find_longest(len(paths[0]) - 1)):
            return f"{', '.join([letter, *blocks])} in zip(range({code_number(context, loop.count).text}), {', '.join(lists)})"
        read = context.named or any(x == loop.index for q in equations(loop.body) for x in subexpressions(q.right))
        return f"{letter}, {blocks[0]} in enumerate({lists[0]})" if read else f"{blocks[0]} in {lists[0]}"


def _find_calls(body: tuple[Statement, ...], around: Loops = ()) -> Iterator[tuple[Apply, Loops]]:
    """Every application in a body, in the order of the text, and the loops around it."""
    for statement in body:
        if isinstance(statement, Loop):
            yield from _find_calls(statement.body, (*around, statement))
        else:
            yield from ((e, around) for e in subexpressions(statement.right) if isinstance(e, Apply))


def _find_conditions(e: Expression, name: str, choices: Choices = ()) -> Iterator[Choices]:
    """For each call of an instance in e the conditions around it, and whether it stands where they hold."""
    if isinstance(e, Apply) and e.name == name:
        yield choices
    for place, child in enumerate(children(e)):
        chosen = [(e.arguments[0], place == 1)] if isinstance(e, Apply) and e.name == "where" and place > 0 else []
        yield from _find_conditions(child, name, [*choices, *chosen])


def _find_letters(e: Expression) -> set[str]:
    return {x.letter for x in subexpressions(e) if isinstance(x, Index)}
