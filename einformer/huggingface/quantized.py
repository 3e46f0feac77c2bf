"""Counts the bytes of a file of weights by the `quantization_config` of its config.

A method stores each matrix as several tensors: packed numbers, scales, zeros, places. Tables, norms and modules that
the config leaves out have the dtype of the model.
"""

from __future__ import annotations

import functools
import json
import math
import pathlib
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from einformer.errors import EinformerError, fail
from einformer.huggingface.documents import name, show_value
from einformer.huggingface.families import family
from einformer.huggingface.storage import FileTensor, list_tensors
from einformer.language.weights import Placed

KEY = "quantization_config"
_LINEAR = {"value", "key", "merge", "down", "map", "latent", "fused", "mixer"}
_DTYPES = {"float16": 2, "bfloat16": 2, "float32": 4}
_WORD = 32  # bits of the numbers into which others are packed
_BLOCK, _NESTED = 64, 256  # numbers that share a scale, and scales that share one: bitsandbytes
_FP4_GROUP = 16


@dataclass(frozen=True, slots=True)
class Quantization:
    """How a file stores matrices: `count` returns the bytes of a module with so many outputs and inputs, or None if the config
    leaves it out.

    Routers that no list leaves out are stored like other matrices if `routers` is true, as they are if it is false, and are not
    known if it is None: transformers has them as maps in some versions only.
    """

    title: str
    count: Callable[[str, int, int], int | None]
    routers: bool | None = False
    experts: Callable[[int], int] | None = None  # the bytes of so many numbers of experts that share a tensor


def read_quantization(config: Mapping[str, object]) -> Quantization | None:
    """Returns how the weights of a config are stored, if it has a `quantization_config`.

    >>> read_quantization({"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 64}}).title
    'awq: 4 bits, groups of 64'

    Raises EinformerError E612 to E614, E616.
    """
    values = config.get(KEY)
    if values is None:
        return None
    if not isinstance(values, dict):
        raise fail("E614", f"`{KEY}` cannot be {show_value(values)}", fix="an object, or the config without it")
    keys = _Keys(values)
    method = keys.choose("quant_method", tuple(_METHODS), _guess_method(values))
    quantization = _METHODS[method](keys)
    keys.refuse_unread(method)
    return quantization


def count_quantized(model_type: str, weights: Mapping[str, Placed], config: Mapping[str, object], element: int) -> int:
    """Returns the bytes of the tensors of a quantized file, for weights by path; numbers that are left have `element` bytes
    unless the config has a dtype.

    Raises EinformerError E605 if the method does not say how a tensor is stored, E612 to E614, E616.
    """
    quantization, stated = read_quantization(config), config.get("dtype") or config.get("torch_dtype")
    assert quantization is not None
    plain = _DTYPES.get(stated, element) if isinstance(stated, str) else element
    return sum(
        tensor.times * _count_tensor(tensor, quantization, plain) for tensor in list_tensors(family(model_type), weights)
    )


def _count_tensor(tensor: FileTensor, quantization: Quantization, element: int) -> int:
    numbers, module = math.prod(tensor.shape), tensor.name.replace("{l}", str(tensor.layer)).removesuffix(".weight")
    match tensor.role:
        case "wide":
            return 4 * numbers
        case "small" | "tokens" | "bias" | "convolution":
            return element * numbers
        case "experts" if quantization.experts is not None:
            return quantization.experts(numbers)
        case "router" if quantization.routers is False:
            return element * numbers
        case role if role in _LINEAR | {"output", "router"} and len(tensor.shape) == 2:
            stored = quantization.count(module, *tensor.shape)
            if stored is None or role != "router" or quantization.routers:
                return element * numbers if stored is None else stored
    message = f"`{quantization.title}` does not say how `{tensor.name}` is stored"
    raise fail("E605", message, fix="`--weights` with a kind of file, or the config without `quantization_config`")


# --------------------------------------------------------------------------------------------------------------- keys


@dataclass(slots=True)
class _Keys:
    """The keys of a `quantization_config`; those that nothing has read are refused at last."""

    values: Mapping[str, Any]
    path: str = KEY
    read: set[str] = field(default_factory=set)

    def take(self, key: str, default: object = None) -> Any:
        self.read.add(key)
        return self.values.get(key, default)

    def choose(self, key: str, allowed: Iterable[Any], default: Any = None) -> Any:
        value, allowed = self.take(key, default), tuple(allowed)
        if any(value is one or (type(value) is type(one) and value == one) for one in allowed):
            return value
        raise self.refuse(key, value, ", ".join(map(json.dumps, allowed)))

    def whole(self, key: str, default: int) -> int:
        value = self.take(key, default)
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**31:
            return value
        raise self.refuse(key, value, "a positive whole number")

    def group(self, key: str, default: int) -> int:
        """The numbers of a row that share a scale; 0 where all of a row do."""
        return 0 if self.take(key, default) == -1 else self.whole(key, default)

    def names(self, key: str) -> list[str] | None:
        value = self.take(key)
        if value is None or (isinstance(value, list) and all(isinstance(one, str) for one in value)):
            return value
        raise self.refuse(key, value, "a list of names of modules")

    def refuse(self, key: str, value: object, wanted: str) -> EinformerError:
        return fail("E614", f"`{self.path}.{key}` cannot be {show_value(value)}", fix=wanted)

    def refuse_unread(self, method: str) -> None:
        known_keys = self.read | {key for keys in _read_ignored().get(method, {}).values() for key in keys}
        for key in self.values.keys() - known_keys:
            message = f"{name(f'{self.path}.{key}')} is not a known key of the method `{method}`"
            raise fail("E612", message, fix="`--weights` with a kind of file, or the config without `quantization_config`")


@functools.cache
def _read_ignored() -> dict[str, dict[str, list[str]]]:
    return tomllib.loads((pathlib.Path(__file__).parent / "quantized.toml").read_text(encoding="utf-8"))


def _guess_method(values: Mapping[str, Any]) -> str | None:
    return "bitsandbytes" if values.get("load_in_4bit") or values.get("load_in_8bit") else None


# ------------------------------------------------------------------------------------------------------------- modules


def _is_left(module: str, patterns: Iterable[str]) -> bool:
    """Is a module one that transformers does not convert? `quantizers_utils.should_convert_module`."""
    boundary = r"(?:(?<=\.)|(?=\.|$))"
    return any(re.match(rf"(?:{key}){boundary}", module) or module.endswith(key) for key in patterns)


def _is_named(module: str, targets: Iterable[str]) -> bool:
    """Is a module named by compressed-tensors: by its name, its class, or a regular expression after `re:`?"""
    return any(
        re.match(target[3:], module) is not None if target.startswith("re:") else target in (module, "Linear")
        for target in targets
    )


def _list_patterns(keys: _Keys, key: str, names: list[str] | None) -> list[str]:
    """Names of modules as those of the text part alone. Raises EinformerError E614."""
    patterns = [one.replace("language_model.", "") for one in names or ()]
    for pattern in patterns:
        try:
            re.compile(pattern.removeprefix("re:"))
        except re.error:
            raise keys.refuse(key, pattern, "a name, or a regular expression") from None
        if re.search(r"experts\\?\.\\?\d", pattern):
            raise keys.refuse(key, pattern, "all experts or none: those of one tensor are counted together")
    return patterns


def _divide(what: str, length: int, unit: int) -> int:
    if length % unit:
        raise fail("E614", f"`{KEY}` cannot pack {length} {what} by {unit}", fix=f"groups that divide {length}")
    return length // unit


# ------------------------------------------------------------------------------------------------------------- methods


# GPTQModel, nn_modules/qlinear: qweight, qzeros, scales, g_idx. AutoGPTQ and GPTQModel leave routers as they are.
def _read_gptq(keys: _Keys) -> Quantization:
    bits: int = keys.choose("bits", (2, 4, 8))
    group = keys.group("group_size", 128)
    keys.choose("checkpoint_format", (None, "", "gptq", "gptq_v2"))
    keys.choose("format", (None, "", "gptq", "gptq_v2"))
    keys.choose("pack_dtype", (None, "int32"))
    output = keys.choose("lm_head", (False, True, None), False)
    blocks, left = _read_blocks(keys), _read_dynamic(keys)

    def count(module: str, outputs: int, inputs: int) -> int | None:
        inside = output if module == "lm_head" else blocks is None or module.endswith(tuple(f".{one}" for one in blocks))
        if not inside or any(re.match(pattern, module) for pattern in left):
            return None
        groups = math.ceil(inputs / group) if group else 1
        words = _divide("inputs", inputs, _WORD) * bits * outputs + groups * _divide("outputs", outputs, _WORD) * bits
        return 4 * words + 2 * groups * outputs + 4 * inputs

    return Quantization(_name("gptq", bits, group), count, routers=blocks is not None)


def _read_blocks(keys: _Keys) -> list[str] | None:
    value = keys.take("modules_in_block_to_quantize")
    if value is None:
        return None
    lists = value if isinstance(value, list) else [None]
    named: list[object] = [one for some in lists for one in (some if isinstance(some, list) else [some])]
    if all(isinstance(one, str) for one in named):
        return list(map(str, named))
    raise keys.refuse("modules_in_block_to_quantize", value, "a list of lists of names of modules")


def _read_dynamic(keys: _Keys) -> list[str]:
    value = keys.take("dynamic") or {}
    if isinstance(value, dict) and all(isinstance(one, str) and one.startswith("-:") for one in value):
        return _list_patterns(keys, "dynamic", [one.removeprefix("-:") for one in value])
    raise keys.refuse("dynamic", value, 'rules that leave modules out, `"-:.*gate.*": {}`')


# AutoAWQ, modules/linear/gemm.py: qweight, qzeros, scales. It leaves modules out by any part of their names.
def _read_awq(keys: _Keys) -> Quantization:
    bits, group = (
        keys.choose("bits", (4, None), keys.take("w_bit", 4)) or 4,
        keys.group("group_size", keys.take("q_group_size", 128)),
    )
    version = keys.take("version", keys.take("format", "gemm"))
    if not isinstance(version, str) or version.lower() != "gemm":
        raise keys.refuse("version", version, '"gemm"')
    keys.choose("zero_point", (True,), True)
    left = ["lm_head", *_list_patterns(keys, "modules_to_not_convert", keys.names("modules_to_not_convert"))]

    def count(module: str, outputs: int, inputs: int) -> int | None:
        if any(one in module for one in left):
            return None
        groups = _divide("inputs", inputs, group) if group else 1
        return 4 * (inputs + groups) * _divide("outputs", outputs, _WORD // bits) + 2 * groups * outputs

    return Quantization(_name("awq", bits, group), count)


# transformers, integrations/finegrained_fp8.py: weight, weight_scale_inv, activation_scale.
def _read_fp8(keys: _Keys) -> Quantization:
    block = keys.take("weight_block_size", [128, 128])
    if block is not None and not (isinstance(block, list | tuple) and len(block) == 2 and all(map(_is_size, block))):
        raise keys.refuse("weight_block_size", block, "two positive whole numbers, or null")
    fmt = keys.choose("scale_fmt", ("float", "ue8m0", None), "float")
    static = keys.choose("activation_scheme", ("dynamic", "static"), "dynamic") == "static"
    keys.choose("expert_dtype", ("fp8",), "fp8")
    keys.choose("fmt", ("e4m3", "float8_e4m3fn"), "e4m3")
    keys.choose("modules_to_convert", (None,))
    names = keys.names("modules_to_not_convert")
    names = keys.names("ignored_layers") if names is None else names
    left = ["lm_head"] if names is None else _list_patterns(keys, "modules_to_not_convert", names)

    def count(module: str, outputs: int, inputs: int) -> int | None:
        if _is_left(module, left):
            return None
        squares = math.ceil(outputs / block[0]) * math.ceil(inputs / block[1]) if block else 1
        size: int = outputs * inputs + squares * (1 if fmt == "ue8m0" and block else 4) + 4 * static
        return size

    squares = f"scales of {block[0]} by {block[1]}" if block else "a scale of each matrix"
    return Quantization(f"fp8: 8 bits, {squares}", count)


# OCP Microscaling Formats 1.0: 17 bytes for 32 numbers of experts; nothing else is converted.
def _read_mxfp4(keys: _Keys) -> Quantization:
    keys.names("modules_to_not_convert")
    experts = lambda numbers: 17 * _divide("numbers of experts", numbers, 32)  # noqa: E731
    return Quantization("mxfp4: 4 bits, groups of 32 in experts", lambda module, outputs, inputs: None, experts=experts)


# bitsandbytes, nn/modules.py and functional.py: weight, absmax, quant_map, nested_absmax, nested_quant_map; SCB, weight_format.
# The text that describes each matrix of 4 bits is not counted: no device holds it.
def _read_bitsandbytes(keys: _Keys) -> Quantization:
    four = keys.choose("load_in_4bit", (False, True), False)
    eight = keys.choose("load_in_8bit", (False, True), False)
    kind = keys.choose("bnb_4bit_quant_type", ("nf4", "fp4"), "fp4")
    nested = keys.choose("bnb_4bit_use_double_quant", (False, True), False)
    keys.choose("llm_int8_has_fp16_weight", (False,), False)
    names = keys.names("llm_int8_skip_modules")
    left = ["lm_head"] if names is None else _list_patterns(keys, "llm_int8_skip_modules", names)
    if four == eight:
        raise keys.refuse("load_in_4bit", four, "`load_in_4bit` or `load_in_8bit`, one of the two")

    def count(module: str, outputs: int, inputs: int) -> int | None:
        if _is_left(module, left):
            return None
        if eight:
            return outputs * inputs + 4 * outputs + 1
        scales = math.ceil(outputs * inputs / _BLOCK)
        constants = scales + 4 * math.ceil(scales / _NESTED) + 4 * 256 if nested else 4 * scales
        return math.ceil(outputs * inputs / 2) + constants + 4 * 16

    title = "8 bits" if eight else f"4 bits, {kind}" + ", nested" * nested
    return Quantization(f"bitsandbytes: {title}", count, routers=None)


# compressed-tensors, compressors: weight_packed, weight_shape, weight_scale, weight_g_idx, input_scale.
def _read_compressed(keys: _Keys) -> Quantization:
    form, groups = keys.take("format"), keys.take("config_groups")
    keys.choose("kv_cache_scheme", (None,))
    keys.choose("quantization_status", ("compressed", "frozen"), "compressed")
    for key in ("sparsity_config", "transform_config"):
        if (value := keys.take(key)) and not (isinstance(value, dict) and value.get("format") == "dense"):
            raise keys.refuse(key, value, "weights that are neither sparse nor transformed")
    ignored = _list_patterns(keys, "ignore", keys.names("ignore"))
    if not isinstance(groups, dict) or not groups or not all(isinstance(one, dict) for one in groups.values()):
        raise keys.refuse("config_groups", groups, "an object of groups of modules")
    schemes = [_read_scheme(_Keys(one, f"{KEY}.config_groups.{key}"), form) for key, one in groups.items()]

    def count(module: str, outputs: int, inputs: int) -> int | None:
        if _is_named(module, ignored):
            return None
        return next((stored(outputs, inputs) for targets, _, stored in schemes if _is_named(module, targets)), None)

    return Quantization(f"compressed-tensors: {', '.join(title for _, title, _ in schemes)}", count, routers=None)


Stored = Callable[[int, int], int]


def _read_scheme(keys: _Keys, form: object) -> tuple[list[str], str, Stored]:
    targets, form = _list_patterns(keys, "targets", keys.names("targets")), keys.take("format") or form
    keys.choose("output_activations", (None,))
    inputs, weights = keys.take("input_activations"), keys.take("weights")
    if not isinstance(weights, dict) or not isinstance(inputs, dict | None):
        raise keys.refuse("weights", weights, "an object that says how weights are stored")
    keys.refuse_unread("compressed-tensors")
    own = _Keys(weights, f"{keys.path}.weights")
    bits, kind = own.choose("num_bits", (4, 8)), own.choose("type", ("int", "float"))
    strategy, group = own.choose("strategy", ("tensor", "channel", "group", "block", "tensor_group")), own.take("group_size")
    own.choose("symmetric", (True,), True)
    own.choose("dynamic", (False,), False)
    places = 4 * (own.choose("actorder", (None, False, "weight", "static", "group", True)) in ("group", True))
    count = _choose_form(keys, str(form), (kind, bits), _count_scales(own, strategy, group, own.take("block_structure")), group)
    own.refuse_unread("compressed-tensors")
    scale = _count_input_scale(keys, form, inputs)
    return (
        targets,
        f"{kind} of {bits} bits by {strategy}",
        lambda outputs, inputs: count(outputs, inputs) + scale + places * inputs,
    )


# What a call scales itself has no scale in a file.
def _count_input_scale(keys: _Keys, form: object, inputs: Mapping[str, Any] | None) -> int:
    if inputs is None or form == "nvfp4-pack-quantized":
        return 4 * (inputs is not None)
    own = _Keys(inputs, f"{keys.path}.input_activations")
    if own.choose("dynamic", (True, False, "local"), False) is not False:
        return 0
    own.choose("symmetric", (True,), True)
    own.choose("strategy", ("tensor",), "tensor")
    return 2


def _choose_form(keys: _Keys, form: str, number: tuple[str, int], scales: Stored, group: object) -> Stored:
    match form, number:
        case "pack-quantized", ("int", bits):
            return lambda outputs, inputs: 4 * outputs * math.ceil(inputs / (_WORD // bits)) + 2 * scales(outputs, inputs) + 16
        case ("float-quantized" | "naive-quantized", ("float", 8)) | ("int-quantized" | "naive-quantized", ("int", 8)):
            return lambda outputs, inputs: outputs * inputs + 2 * scales(outputs, inputs)
        case "nvfp4-pack-quantized", ("float", 4) if group == _FP4_GROUP:
            return lambda outputs, inputs: outputs * _divide("inputs", inputs, 2) + scales(outputs, inputs) + 4
    raise keys.refuse("format", form, '"pack-quantized", "float-quantized", "int-quantized" or "nvfp4-pack-quantized"')


def _count_scales(keys: _Keys, strategy: str, group: object, block: object) -> Stored:
    match strategy:
        case "tensor":
            return lambda outputs, inputs: 1
        case "channel":
            return lambda outputs, inputs: outputs
        case "block" if isinstance(block, list) and len(block) == 2 and all(map(_is_size, block)):
            return lambda outputs, inputs: math.ceil(outputs / block[0]) * math.ceil(inputs / block[1])
        case "group" | "tensor_group" if _is_size(group):
            return lambda outputs, inputs: outputs * _divide("inputs", inputs, int(str(group)))
    raise keys.refuse("strategy", strategy, "a strategy with its `group_size` or `block_structure`")


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _name(method: str, bits: int, group: int) -> str:
    return f"{method}: {bits} bits, " + (f"groups of {group}" if group else "a scale of each row")


_METHODS: dict[str, Callable[[_Keys], Quantization]] = {
    "gptq": _read_gptq,
    "awq": _read_awq,
    "fp8": _read_fp8,
    "mxfp4": _read_mxfp4,
    "bitsandbytes": _read_bitsandbytes,
    "compressed-tensors": _read_compressed,
}
