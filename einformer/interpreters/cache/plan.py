"""What must decoding keep from one step to the next, and how far back (R10)?

A tensor that depends on the inputs, is defined at s and is read at another position is kept: at s' as far back as its
support says, at `s - j` the last j, its own left the last, and of `cumsum_s` its last sum. So it is the author who decides
what is kept, by where s' is first written: `k_s'ea` keeps keys, a latent that is projected at s' is kept itself.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from einformer.errors import fail
from einformer.interpreters.cache.backwards import EVERYWHERE, FAR, Needs, own_input
from einformer.interpreters.cache.entries import Entry, together
from einformer.interpreters.cache.forwards import Run
from einformer.notation.calls import slot_letters
from einformer.notation.positions import FIRST, lengths_of, sampled_positions
from einformer.notation.sizes import Legend
from einformer.notation.specialise import specialise
from einformer.notation.tree import Layer, Spec, Tensor
from einformer.notation.walk import equations, subexpressions

MANY_TURNS = 1000


def plan(spec: Spec, name: str, legend: Legend, shared: bool = True) -> tuple[Entry, ...]:
    """What the causal model `name` of a checked spec keeps, in the order of the text. Raises EinformerError E508, E601.

    What is passed on to a layer as it stands is kept once, or, where it is not `shared`, by each layer that reads it.
    """
    special = specialise(spec, name)
    layers = {layer.name: layer for layer in special.layers}
    model = layers[name]
    if model.time is None:
        message = f"`{name}` does not say in which axis it is causal, so what comes later may change what was computed"
        raise fail("E508", message, model.span, fix=f"`model {name}(…) -> … causal in s:`")
    time = model.time.letter
    run = Run(legend, layers, time, _samples(special, legend), lengths_of(special, time), rows=rows_of(model))
    read = [e for equation in equations(model.body) for e in subexpressions(equation.right) if isinstance(e, Tensor)]
    whole = frozenset(slot.name for e in read for slot in e.slots if isinstance(slot, Tensor))
    body = run.body(model, tuple(run.input(slot_letters(formal)) for formal in model.formals), whole)
    entries, demands = Needs(shared).of(body, EVERYWHERE)
    return (*(own_input(body, name, demand) for name, demand in demands.items() if demand.reach), *entries)


def held(spec: Spec, name: str, legend: Legend) -> tuple[Entry, ...]:
    """What a module of it keeps: each layer its own, and all it sees equally far."""
    return together(plan(spec, name, legend, shared=False))


def rows_of(model: Layer) -> frozenset[str]:
    """The letters of a batch: those that stand before the time in an input."""
    assert model.time is not None
    found = [slot_letters(formal) for formal in model.formals]
    return frozenset(letter for some in found if model.time.letter in some for letter in some[: some.index(model.time.letter)])


def _samples(spec: Spec, legend: Legend) -> NDArray[np.float64]:
    """Positions that decide every comparison; twice as far, to see whole windows of any kind; and one beyond all."""
    near = {*sampled_positions(spec, legend), *range(2 * FIRST + 2)}
    for scalar in (each for each in spec.scalars if len(each.indices) == 1):
        turns = range(min(legend.length(scalar.indices[0].letter), MANY_TURNS))
        values = {float(legend.element(scalar, [turn])) for turn in turns}
        near |= {v + step for v in values if 0 < v < FAR and v == int(v) for step in (-1, 0, 1)}
    return np.array(sorted({*near, *(2 * v + step for v in near if v >= FIRST for step in (-1, 0, 1)), FAR}))
