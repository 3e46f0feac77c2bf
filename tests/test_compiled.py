"""Does every architecture compile as one graph, and compute the same?"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import pytest
import torch

from tests.few import few
from tests.small import PLANS, SMALL, built, error, inputs, model


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Dynamo forgets what it has compiled."""
    yield
    torch.compiler.reset()


pytestmark = pytest.mark.filterwarnings("ignore:.*script_method:DeprecationWarning")  # torch's own, on its first use

# Forward and backward as one graph each; decomposed, since torch's own softplus and its stand-in differ in layout.
WHOLE = {"fullgraph": True, "backend": "aot_eager_decomp_partition"}


@pytest.mark.slow
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("name", [name for name, small in SMALL.items() if name == small.text])
def test_one_graph(name: str, plan: str) -> None:
    """Values and gradients; a recurrence is unrolled, so the sequence is short."""
    given = list(map(torch.from_numpy, inputs(model(name), {"B": 2, "S": 3})))
    for x in given:
        x.requires_grad_(x.is_floating_point())
    module, compiled = built(model(name), plan), built(model(name), plan)
    compiled.compile(**WHOLE)
    expected, found = module(*given), compiled(*given)
    assert error(found, expected) < 1e-12
    expected.square().sum().backward()
    found.square().sum().backward()
    for (path, ours), theirs in zip(compiled.named_parameters(), module.parameters(), strict=True):
        assert ours.grad is not None, path
        assert theirs.grad is not None, path
        assert error(ours.grad, theirs.grad) < 1e-12, path


@pytest.mark.parametrize("plan", few(PLANS, {"fast"}))
def test_one_graph_serves_every_length(plan: str) -> None:
    """Sizes that no text binds are dynamic: no third compilation."""
    module = built(model("gpt2"), plan)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager", dynamic=True)
    for length in (5, 7, 11):
        given = list(map(torch.from_numpy, inputs(model("gpt2"), {"S": length})))
        with torch.compiler.set_stance("fail_on_recompile" if length > 5 else "default"), torch.no_grad():
            assert error(compiled(*given), module(*given)) < 1e-12


@pytest.mark.slow
def test_inductor() -> None:
    """The compiler that users have, on GPT-2."""
    given = list(map(torch.from_numpy, inputs(model("gpt2"))))
    module = built(model("gpt2"), "fast")
    with torch.no_grad():
        assert error(torch.compile(module, fullgraph=True)(*given), module(*given)) < 1e-12


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # Dynamo looks at the input
@pytest.mark.parametrize("name", ["gpt2", "llama", "gemma2"])
def test_blocks_that_are_alike_share_a_graph(name: str) -> None:
    """Graphs of five blocks are those of two; values and gradients are those of the module without them."""
    counts = []
    for turns in (2, 5):
        torch.compiler.reset()
        windows = {"W": [4, math.inf, 4, math.inf, 4][:turns]} if name == "gemma2" else {}
        bound = model(name).bind(L=turns, **windows)
        graphs, given = list[int](), list(map(torch.from_numpy, inputs(bound)))

        def keep(graph: torch.fx.GraphModule, _: object, graphs: list[int] = graphs) -> Callable[..., object]:
            graphs.append(len(graph.graph.nodes))
            return graph.forward

        module, compiled = built(bound, "fast"), built(bound, "fast")
        compiled.compile_blocks(backend=keep, fullgraph=True)  # type: ignore[operator]
        expected, found = module(*given), compiled(*given)
        assert error(found, expected) < 1e-12
        for result in (expected, found):
            result.square().sum().backward()
        for ours, theirs in zip(compiled.parameters(), module.parameters(), strict=True):
            assert ours.grad is not None
            assert theirs.grad is not None
            assert error(ours.grad, theirs.grad) < 1e-12
        counts.append(graphs)
    assert counts[0] == counts[1] != []


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
def test_gradients_of_compiled_blocks() -> None:
    """By inductor, whose gradients of `nested_compile_region` differ."""
    given = list(map(torch.from_numpy, inputs(model("llama"))))
    module, compiled = built(model("llama"), "fast"), built(model("llama"), "fast")
    compiled.compile_blocks()  # type: ignore[operator]
    for each in (module, compiled):
        each(*given).square().sum().backward()
    for ours, theirs in zip(compiled.parameters(), module.parameters(), strict=True):
        assert ours.grad is not None
        assert theirs.grad is not None
        assert error(ours.grad, theirs.grad) < 1e-11
