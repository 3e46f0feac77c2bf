"""Derives contracts from a specification: one for each layer and one for each weight."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from torch import nn

from einformer.contracts.reader import name_size
from einformer.contracts.scopes import BoundSize
from einformer.errors import EinformerError
from einformer.language.printer import show
from einformer.language.tree import Axis, Index, Layer, Name, Spec, Tensor, Weight
from einformer.objects import Model, Specification


# Returns contracts by the paths of modules and weights, and the sizes that are bound. A layer is at the path in `names`, or
# wherever a class has its name. A layer with an index in its head, `RMSNorm_d`, has other axes at each call, so it has no
# contract. A weight is watched if the module has one of its name.
def derive(
    model: nn.Module, given: Specification | Model, names: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, BoundSize]]:
    spec = given.spec if isinstance(given, Model) else given
    bound_sizes = _bind_sizes(given) if isinstance(given, Model) else {}
    tensors = model.state_dict()
    contracts: dict[str, str] = {}
    for layer in spec.tree.layers:
        legend = _write_legend(spec.tree)
        if layer.name in names:
            contracts[names[layer.name]] = _write_signature(layer) + legend
        for path, module in model.named_modules():
            if type(module).__name__ == layer.name and not layer.indices:
                contracts.setdefault(path, _write_signature(layer) + legend)
                contracts |= {
                    f"{path}.{w.name}".lstrip("."): text + legend
                    for w, text in _find_weights(layer)
                    if f"{path}.{w.name}".lstrip(".") in tensors
                }
        contracts |= {
            names[f"{layer.name}.{w.name}"]: text + legend
            for w, text in _find_weights(layer)
            if f"{layer.name}.{w.name}" in names
        }
    return contracts, bound_sizes


# `z_{...sd} -> y_{...sd}`: a layer carries every other axis along. A model has all axes.
def _write_signature(layer: Layer) -> str:
    outputs = [layer.output] if isinstance(layer.output, Tensor) else []
    formals, output = (
        ", ".join(map(_write_carrying if layer.kind == "layer" else show, side)) for side in (layer.formals, outputs)
    )
    return f"{formals} -> {output}" if output else formals


def _write_carrying(tensor: Tensor) -> str:
    return show(replace(tensor, slots=(Index("..."), *tensor.slots))).replace("......", "...")


def _find_weights(layer: Layer) -> Iterator[tuple[Weight, str]]:
    for weight in layer.weights:
        if weight.kind != "instance" and weight.indices:
            yield weight, show(Tensor(weight.name, weight.indices))


# The axes whose size has another letter: ` where e: H`.
def _write_legend(spec: Spec) -> str:
    rows = [f"{axis.letter}: {show(axis.size)}" for axis in spec.axes if axis.size != Name(name_size(axis.letter))]
    return f" where {', '.join(rows)}" if rows else ""


# Each size with its origin: `d: D (gpt2.ein:5), here 768 (config.json)`.
def _bind_sizes(model: Model) -> dict[str, BoundSize]:
    return {
        axis.size.name: BoundSize(length, model.legend.describe(axis.letter))
        for axis in model.legend.axes.values()
        if isinstance(axis.size, Name) and (length := _find_length(model, axis)) is not None
    }


def _find_length(model: Model, axis: Axis) -> int | None:
    try:
        return model.legend.length(axis.letter)
    except EinformerError:  # an axis of the inputs
        return None
