"""The public objects: a `Specification` is a checked text, a `Model` one whose sizes are bound; and what they are made from."""

from einformer.model.objects import Model, Specification
from einformer.model.targets import examine, from_huggingface, load, parse, target

__all__ = ["Model", "Specification", "examine", "from_huggingface", "load", "parse", "target"]
