"""Which contracts has a model that is what a specification says? One for each layer of its, and one for each weight."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from torch import nn

from einformer.contracts.reader import size_name
from einformer.contracts.scopes import Bound
from einformer.errors import EinformerError
from einformer.language.printer import show
from einformer.language.tree import Axis, Index, Layer, Name, Spec, Tensor, Weight
from einformer.objects import Model, Specification


def derived(
    model: nn.Module, given: Specification | Model, names: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, Bound]]:
    """Contracts by the paths of modules and weights, and the sizes that are bound.

    A layer is where `names` says, or wherever a class of its name is. One with an index in its head, `RMSNorm_d`, works on
    other axes at each call, so it has no contract. A weight is watched where the module has one of its name.
    """
    spec = given.spec if isinstance(given, Model) else given
    known = _sizes(given) if isinstance(given, Model) else {}
    tensors = model.state_dict()
    found: dict[str, str] = {}
    for layer in spec.tree.layers:
        legend = _legend(spec.tree)
        if layer.name in names:
            found[names[layer.name]] = _signature(layer) + legend
        for path, module in model.named_modules():
            if type(module).__name__ == layer.name and not layer.indices:
                found.setdefault(path, _signature(layer) + legend)
                found |= {
                    f"{path}.{w.name}".lstrip("."): text + legend
                    for w, text in _weights(layer)
                    if f"{path}.{w.name}".lstrip(".") in tensors
                }
        found |= {
            names[f"{layer.name}.{w.name}"]: text + legend for w, text in _weights(layer) if f"{layer.name}.{w.name}" in names
        }
    return found, known


def _signature(layer: Layer) -> str:
    """`z_{...sd} -> y_{...sd}`: a layer carries every other axis along, a model has all of them."""
    outputs = [layer.output] if isinstance(layer.output, Tensor) else []
    formals, output = (", ".join(map(_carrying if layer.kind == "layer" else show, side)) for side in (layer.formals, outputs))
    return f"{formals} -> {output}" if output else formals


def _carrying(tensor: Tensor) -> str:
    return show(replace(tensor, slots=(Index("..."), *tensor.slots))).replace("......", "...")


def _weights(layer: Layer) -> Iterator[tuple[Weight, str]]:
    for weight in layer.weights:
        if weight.kind != "instance" and weight.indices:
            yield weight, show(Tensor(weight.name, weight.indices))


def _legend(spec: Spec) -> str:
    """The axes whose size is not called as the letter is: ` where e: H`."""
    rows = [f"{axis.letter}: {show(axis.size)}" for axis in spec.axes if axis.size != Name(size_name(axis.letter))]
    return f" where {', '.join(rows)}" if rows else ""


def _sizes(model: Model) -> dict[str, Bound]:
    """What is bound, and by what: `d: D (gpt2.ein:5), here 768 (config.json)`."""
    return {
        axis.size.name: Bound(length, model.legend.describe(axis.letter))
        for axis in model.legend.axes.values()
        if isinstance(axis.size, Name) and (length := _length(model, axis)) is not None
    }


def _length(model: Model, axis: Axis) -> int | None:
    try:
        return model.legend.length(axis.letter)
    except EinformerError:  # an axis of the inputs
        return None
