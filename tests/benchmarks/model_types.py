"""Prints the table of `docs/families.md`: each model type beside transformers, at the sizes of its toy of the tests."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import torch

import einformer
from tests.oracles.lifted import COMPUTED, run
from tests.oracles.of_toys import BATCH, LENGTH, filled, modeling, ours, theirs, tokens
from tests.test_sparse import MIXTURES, work
from tests.test_toys import COUNTED, STEPS
from tests.test_toys import theirs as count_theirs
from tests.toys import TOYS, architecture_of

TEXTS = Path(einformer.__file__).parent / "architectures"
HEAD = ("type", "text", "lines", "parameters", "FLOPs", "logits", "weights", "decoding", "sparse layers")


def rows() -> Iterator[tuple[str, ...]]:
    """One toy of each type: the first of the tests."""
    first = {kind: name for name, (kind, _) in reversed(TOYS.items())}
    counts = {parameter.values[0] if hasattr(parameter, "values") else parameter for parameter in COUNTED}
    for kind, name in sorted(first.items()):
        yield kind, *measure(name, name in counts and not name.startswith("llama4"))  # theirs computes all experts


def measure(name: str, same_products: bool) -> Iterator[str]:
    """The cells of a row. A number stands where ours is theirs to the unit, a distance is that of the largest logit."""
    toy, their_module, module = ours(name), theirs(name, "fan_in"), filled(name, "fan_in")
    text = (TEXTS / f"{architecture_of(name)}.ein").read_text(encoding="utf-8")
    yield f"`{architecture_of(name)}`"
    yield str(len([line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]))
    yield agree(toy.num_parameters, sum(p.numel() for p in their_module.parameters()))
    flops = toy.flops(B=BATCH, S=LENGTH)
    yield agree(flops, count_theirs(name)) if same_products else f"{flops:,}, theirs takes other products"
    expected, sequence = run(modeling(name), their_module, tokens()), torch.from_numpy(tokens())
    size = max(1.0, abs(expected).max())
    with torch.no_grad():
        whole, cache = module(sequence), module.cache()
        parts = torch.cat([module.decode(part, cache=cache) for part in torch.split(sequence, STEPS, 1)], 1)
    yield f"{abs(whole.numpy() - expected).max() / size:.0e}"
    state, back = their_module.state_dict(), module.to_huggingface()
    kept = {key for key in state if key.rpartition(".")[2] not in COMPUTED}
    yield agree(len([key for key in kept if key in back and torch.equal(back[key], state[key])]), max(len(kept), len(back)))
    yield f"{(parts - whole).abs().max().item() / size:.0e}"
    yield find_sparse(name)


def agree(ours_: int, theirs_: int) -> str:
    """The number, or both of them where they differ."""
    return f"{ours_:,}" if ours_ == theirs_ else f"**{ours_:,}, theirs {theirs_:,}**"


def find_sparse(name: str) -> str:
    """What the plan `fast` computes of what all experts would take, by torch's counter."""
    toy = ours(name)
    if name not in MIXTURES or "routed(" not in toy.source():
        return ""
    numbers = torch.arange(2 * 11).reshape(2, 11)
    chosen = work(toy.build().eval(), numbers)
    return f"{agree(chosen, toy.flops(B=2, S=11, convention='fast'))} of {work(toy.build(plan='notation').eval(), numbers):,}"


def main() -> None:
    """Prints the rows as they are measured."""
    warnings.simplefilter("ignore")
    print(f"| {' | '.join(HEAD)} |\n|{'---|' * len(HEAD)}")
    for row in rows():
        print(f"| `{row[0]}` | {' | '.join(row[1:])} |", flush=True)


if __name__ == "__main__":
    main()
