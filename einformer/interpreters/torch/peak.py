"""How much memory does a step of training take at its worst moment? Forward, loss, backward and AdamW, one after another.

The forward pass is run as in `saved`; backward, each recorded step turns the gradient of its result into those of its
operands, and lets go of what it kept.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from einformer.interpreters.torch.autograd import ROWS
from einformer.interpreters.torch.operations import cross_entropy
from einformer.interpreters.torch.saved import reached
from einformer.interpreters.torch.standin import Run, run
from einformer.interpreters.torch.strided import Shape
from einformer.interpreters.torch.traced import INT64, Node, Storage, Tape

_STEP = 4  # bytes of the count of steps that AdamW keeps for each parameter


@dataclass(frozen=True, slots=True)
class Peak:
    """Bytes: what is always there, and the most at once in each part of a step."""

    parameters: int
    gradients: int
    states: int  # of AdamW: two averages of each gradient
    forward: int
    backward: int
    update: int

    @property
    def bytes(self) -> int:
        """The most at once."""
        return max(self.forward, self.backward, self.update)


def peak(source: str, name: str, shapes: Sequence[Shape], dtype: str = "float32") -> Peak:
    """The memory of a training step of the class `name` of an emitted file: logits, their mean loss, and AdamW.

    As torch 2.13 does it on a CPU, one parameter updated after another. Raises EinformerError E605, E620, E701.
    """
    ran = run(source, dtype)
    loss, tape = _loss(ran, name, shapes), ran.tape
    forward, tape.peak = tape.peak, tape.live
    gradients = _backward(loss, tape)
    weights = [weight.bytes for weight in ran.weights]
    states = sum(2 * size + _STEP for size in weights)
    # Of each parameter in turn: the last one's denominator, a root, and the quotient that is its denominator.
    update = tape.live + max(before + 2 * size for before, size in itertools.pairwise([0, *weights]))
    return Peak(
        sum(weights), sum(each.bytes for each in gradients), states, forward + states, tape.peak + states, update + states
    )


def _loss(ran: Run, name: str, shapes: Sequence[Shape]) -> Node:
    logits = ran.result(name, shapes).flatten(0, -2)
    node = cross_entropy(logits, ran.new(logits.shape[:1], INT64, "input")).node
    assert node
    return node


def _backward(loss: Node, tape: Tape) -> list[Storage]:
    """The gradients of the parameters."""
    gradients = {loss: [Storage(tape, loss.bytes)]}
    for node in reversed(reached(loss)):
        if node.operation == "parameter":
            continue
        incoming = gradients.pop(node)
        for made, gradient in _gradients(node, incoming[-1], tape):
            held = gradients.setdefault(made, [])
            if not held or made.operation == "split":  # the gradients of parts are put together when all are there
                held.append(gradient)
        node.keeps = ()
    return [gradient for held in gradients.values() for gradient in held]


def _gradients(node: Node, incoming: Storage, tape: Tape) -> list[tuple[Node, Storage]]:
    """The gradients of the operands of a step, all of which are there at once."""
    passed = ROWS[node.operation].passes
    return [
        (made, incoming if place in passed and size >= node.bytes else Storage(tape, size))
        for place, each in enumerate(node.inputs)
        if each
        for made, size in [each]
    ]
