"""Do the comparisons written for a contract, and the checker that explains, judge tuples, fields and the like as one?"""

from __future__ import annotations

import re
from collections import Counter
from random import Random
from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import einformer as ein
from einformer import EinformerError
from einformer.contracts.decorator import agree

SLOTS = ["b", "s", "d", "s'", "2", "(bs)", "(sd)", "(s+d)", "e"]  # every letter has 2, what stands in brackets 4


def tensor(random: Random, slots: list[str]) -> str:
    written = [random.choice(slots) for _ in range(random.randint(1, 3))]
    return f"{random.choice(['', '', 'float '])}x_{{{' '.join(dict.fromkeys(['...'] * (random.random() < 0.2) + written))}}}"


def item(random: Random) -> str:
    """A value of a contract; those within others are tensors."""
    one, two = (tensor(random, ["b", "s", "2"]) + "?" * (random.random() < 0.3) for _ in range(2))
    several = [f"({one}, {two})", f"({one}, {two}, ...)", f"[{one}]", f"{{a: {one}, b: {two}}}", f"{{a: ?, b: {two}}}"]
    written = random.choice([tensor(random, SLOTS), tensor(random, SLOTS), *several, "B", "float p", "?"])
    return written + "?" * (written != "?" and random.random() < 0.3)


def value(random: Random, written: str) -> Any:
    """Something that keeps it, or nearly does."""
    if random.random() < 0.06:
        return random.choice([None, 2, 0.5])
    parts = [value(random, part.removesuffix(", ")) for part in re.findall(r"x_\{[^}]*\}", written)]
    match written[0]:
        case "(":
            return tuple(parts + parts[:1] * (random.random() < 0.2))
        case "[":
            return parts * random.randint(0, 2)
        case "{":
            return dict.fromkeys(random.choice(["ab", "ab", "ab", "b"]), parts[-1])
        case _ if "x_" not in written:
            return random.choice([2, 2, 2, 3])
    slots = written[written.index("{") + 1 : written.index("}")].split()
    return torch.zeros([4 if "(" in slot else random.choice([2] * 20 + [3]) for slot in slots])


def accepts(call: Any) -> bool:
    try:
        call()
    except EinformerError:
        return False
    return True


def test_two_checkers_give_one_verdict() -> None:
    seen: Counter[bool] = Counter()

    @settings(max_examples=200, deadline=None)
    @given(st.randoms(use_true_random=False))
    def verdicts_agree(random: Random) -> None:
        parts = [item(random) for _ in range(3)]
        bare: Any = lambda a, b, result: result  # noqa: E731
        text = f"a = {parts[0]}, b = {parts[1]} -> {parts[2]}"
        if not accepts(lambda: agree(text, bare)):  # an index twice on one tensor
            return
        agreed, function = agree(text, bare), ein.contract(text)(bare)
        for _ in range(5):
            given = [value(random, part) for part in parts]
            slowly = accepts(lambda given=given: agreed.check_result(given[2], agreed.check(tuple(given))))
            assert accepts(lambda given=given: function(*given)) == slowly, text
            seen[slowly] += 1

    verdicts_agree()
    assert min(seen[True], seen[False]) > 20, seen
