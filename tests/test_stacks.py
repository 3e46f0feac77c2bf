"""Are tensors that are stored one by one and are one of ours read whole, and missed one by one?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

import einformer
from einformer import EinformerError
from tests.toys import config_of

NORM = "model.layers.1.self_attn.q_layernorm.norms.{}.weight"


def module() -> Any:
    return einformer.from_huggingface(config_of("stablelm_qk")).build().eval()


def test_a_number_is_a_place_on_the_first_axis(tmp_path: Path) -> None:
    """Heads in their order, from a file that is read lazily."""
    state = module().to_huggingface()
    for head in range(15):
        state[NORM.format(head)] = torch.full((8,), float(head))
    save_file(state, tmp_path / "model.safetensors")
    loaded = module()
    loaded.load_huggingface(tmp_path)
    expected = torch.arange(15.0).view(1, 3, 5).expand(8, 3, 5)  # e g j
    assert torch.equal(loaded.state_dict()["blocks.1.Attention.γ"], expected)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({NORM.format(7): None}, f"{NORM.format(7)}`, 8"),
        ({NORM.format(15): torch.ones(8)}, NORM.format(15)),
        ({NORM.format(7): torch.ones(9)}, NORM.format(7)),
    ],
    ids=["missing", "too many", "another shape"],
)
def test_what_does_not_fit_is_named(change: dict[str, torch.Tensor | None], told: str) -> None:
    state = module().to_huggingface() | change
    with pytest.raises(EinformerError) as error:
        module().load_huggingface({name: tensor for name, tensor in state.items() if tensor is not None})
    assert told in str(error.value)
