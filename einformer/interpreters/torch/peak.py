"""How much memory does a step of training take at its worst moment? Forward, loss, backward and AdamW, one after another.

The forward pass is run as in `saved`; backward, each recorded step turns the gradient of its result into those of its
operands, and lets go of what it kept.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from einformer.interpreters.torch import strided
from einformer.interpreters.torch.autograd import ROWS
from einformer.interpreters.torch.dtypes import INT64
from einformer.interpreters.torch.operations import cross_entropy
from einformer.interpreters.torch.saved import reached
from einformer.interpreters.torch.standin import Run, run
from einformer.interpreters.torch.strided import Shape
from einformer.interpreters.torch.traced import Node, Storage, Traced, made

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
    gradients = _backward(loss)
    weights = [weight.bytes for weight in ran.weights]
    states = sum(2 * size + _STEP for size in weights)
    # Of each parameter in turn: the last one's denominator, a root, and the quotient that is its denominator.
    update = tape.live + max(before + 2 * size for before, size in itertools.pairwise([0, *weights]))
    return Peak(
        sum(weights), sum(each.bytes for each in gradients), states, forward + states, tape.peak + states, update + states
    )


def _loss(ran: Run, name: str, shapes: Sequence[Shape]) -> Traced:
    logits = ran.result(name, shapes).flatten(0, -2)
    return cross_entropy(logits, ran.new(logits.shape[:1], INT64, "input"))


def _backward(loss: Traced) -> list[Traced]:
    """The gradients of the parameters."""
    assert loss.node
    gradients = {loss.node: [made("clone", (loss,), loss.shape, loss.dtype)]}
    for node in reversed(reached(loss.node)):
        if node.operation != "parameter":
            _step(node, gradients)
    return [gradient for (gradient,) in gradients.values()]


def _step(node: Node, gradients: dict[Node, list[Traced]]) -> None:
    """Go back over one step. Gradients that meet are added up in place; those of parts are put together when all are there."""
    incoming = gradients.pop(node)
    found = [(edge.node, _gradient(node, place, incoming[-1])) for place, edge in enumerate(node.inputs) if edge]
    for to, gradient in found:
        held = gradients.setdefault(to, [])
        if not held or to.operation == "split":
            held.append(gradient)
    node.keeps = ()


def _gradient(node: Node, place: int, incoming: Traced) -> Traced:
    """Of one operand: the incoming one, seen otherwise, or a new one that lies as the operand does."""
    edge, row = node.inputs[place], ROWS[node.operation]
    assert edge
    if node.back:
        return node.back(incoming)
    more = math.prod(edge.shape) - math.prod(incoming.shape)
    if place in row.passes and edge.dtype == incoming.dtype and more >= 0:
        return incoming.expand(*edge.shape) if more else incoming.reshape(*edge.shape)
    strides = strided.elementwise(edge.shape, [(edge.shape, edge.strides)])
    new = made("clone", (incoming,), edge.shape, edge.dtype, strides)
    if place < len(row.scratch):  # taken and let go; a sum over what was broadcast is made of the whole
        Storage(incoming.storage.tape, (row.scratch[place] + (more < 0)) * max(incoming.bytes, new.bytes))
    return new
