"""Is a call that keeps its contract let through, and one that does not refused, as jaxtyping with beartype does?"""

from __future__ import annotations

import ast
import asyncio
import copy
import dataclasses
import functools
import inspect
import pickle
import runpy
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Optional

import jaxtyping
import numpy as np
import pytest
import torch
from beartype import beartype
from beartype.roar import BeartypeCallHintViolation
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Float, Shaped, TypeCheckError, jaxtyped
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.checkpoint import checkpoint

import einformer as ein
from einformer import EinformerError
from einformer.contracts import switch
from einformer.contracts.decorator import agree
from einformer.contracts.suffixes import select_suffixed
from tests.refusals import refuses

contract: Any = ein.contract  # of functions that are made on the spot


def t(*shape: int, dtype: torch.dtype | None = None) -> Tensor:
    return torch.zeros(shape, dtype=dtype)


def whole(*shape: int) -> Tensor:
    return t(*shape, dtype=torch.int64)


def returns(value: Any, *_: Any) -> Any:
    """A function whose first argument is its result."""
    return value


def code(call: Callable[[], object]) -> str:
    """The code of the error that a call raises, or nothing; it is one error, with no other behind it."""
    try:
        call()
    except EinformerError as error:
        (finding,) = error.findings
        return finding.code + "!" * bool(error.__cause__ or error.__context__)
    return ""


# text of a contract: arguments that keep it, arguments that break it with the code
CASES: dict[str, tuple[list[tuple[Any, ...]], list[tuple[str, tuple[Any, ...]]]]] = {
    "z_bsd, Q_dea": ([(t(2, 5, 12), t(12, 4, 3))], [("E720", (t(2, 5, 12), t(8, 4, 3))), ("E721", (t(2, 5, 12), t(12, 12)))]),
    "z_bsd -> z_bsd": ([(t(2, 5, 12),)], [("E722", ([1],)), ("E722", (None,)), ("E721", (t(2, 5),))]),
    "q_bs, k_bs'": ([(t(2, 5), t(2, 5))], [("E720", (t(2, 5), t(2, 7)))]),
    "q_bs, k_bs' where s': T": ([(t(2, 5), t(2, 5)), (t(2, 5), t(2, 7))], [("E720", (t(2, 5), t(3, 7)))]),
    "z_b3": ([(t(2, 3),)], [("E720", (t(2, 4),))]),
    "z_{b 16 4}": ([(t(2, 16, 4),)], [("E720", (t(2, 4, 16),))]),
    "z_bd where d: 12": ([(t(2, 12),)], [("E720", (t(2, 13),))]),
    "z_bd, h_bf where f: 4 D": ([(t(2, 3), t(2, 12))], [("E720", (t(2, 3), t(2, 13)))]),
    "z_...d, W_df -> z_...d": (
        [(t(2, 5, 12), t(12, 4)), (t(12), t(12, 4))],
        [("E720", (t(2, 5, 12), t(5, 4))), ("E721", (t(), t(12, 4)))],
    ),
    "z_...d, y_...d": ([(t(2, 5, 3), t(2, 5, 3))], [("E720", (t(2, 5, 3), t(2, 6, 3))), ("E720", (t(2, 5, 3), t(5, 3)))]),
    "z_b...": ([(t(2, 5, 3),), (t(2),)], [("E721", (t(),))]),
    "y_{bs(ae)}, Q_ea": ([(t(2, 5, 12), t(4, 3))], [("E720", (t(2, 5, 11), t(4, 3)))]),
    "y_{bs(ae)}, W_a": ([(t(2, 5, 12), t(3))], [("E720", (t(2, 5, 13), t(3)))]),
    "y_{bs(ae)}": ([], [("E725", (t(2, 5, 12),))]),
    "q_{s(3 d)}, z_d": ([(t(2, 15), t(5))], [("E720", (t(2, 14), t(5)))]),
    "c_{s(e/2)}, q_se": ([(t(2, 3), t(2, 6))], [("E720", (t(2, 3), t(2, 7)))]),
    "k_{(s + 1)}, q_s": ([(t(6), t(5))], [("E720", (t(5), t(5)))]),
    "int x_bs": ([(whole(2, 5),), (t(2, 5).byte(),)], [("E722", (t(2, 5),)), ("E722", (t(2, 5).bool(),))]),
    "bf16 z_d": ([(t(2, dtype=torch.bfloat16),)], [("E722", (t(2),)), ("E722", (t(2, dtype=torch.float16),))]),
    "float z_d": ([(t(2),), (t(2, dtype=torch.float16),)], [("E722", (whole(2),)), ("E722", (t(2, dtype=torch.complex64),))]),
    "bool m_ss'": ([(t(2, 2, dtype=torch.bool),)], [("E722", (t(2, 2),)), ("E720", (t(2, 3, dtype=torch.bool),))]),
    "cpu z_d": ([(t(2),)], [("E722", (t(2).to("meta"),))]),
    "meta f32 z_d": ([(t(2).to("meta"),)], [("E722", (t(2),)), ("E722", (whole(2).to("meta"),))]),
    "z_bs, m_bt?": ([(t(2, 5), t(2, 7)), (t(2, 5), None)], [("E720", (t(2, 5), t(3, 7)))]),
    "z_b, m_bt?, n_bt?": ([(t(2), t(2, 3), t(2, 3)), (t(2), None, t(2, 4))], [("E720", (t(2), t(2, 3), t(2, 4)))]),
    "m_t? -> m_t?": ([(None,), (t(2),)], [("E721", (t(2, 2),))]),
    "z_d, D": ([(t(3), 3)], [("E720", (t(3), 4)), ("E722", (t(3), 3.0)), ("E722", (t(3), True))]),
    "z_d, float p": ([(t(3), 0.1), (t(3), 1), (t(3), t())], [("E722", (t(3), "a")), ("E722", (t(3), whole()))]),
    "z_d, int n": ([(t(3), 2)], [("E722", (t(3), 0.5))]),
    "z_d, bool n": ([(t(3), True)], [("E722", (t(3), 1))]),
    "z_d, ?": ([(t(3), "a"), (t(3), None)], []),
    "(k_bt, v_bt), z_b": (
        [((t(2, 7), t(2, 7)), t(2))],
        [("E720", ((t(2, 7), t(2, 6)), t(2))), ("E723", ((t(2, 7),), t(2))), ("E723", ((t(2, 7),) * 3, t(2)))],
    ),
    "(z_b, ...)": ([((t(2),),), ((t(2), 1, 2),)], [("E723", ((),)), ("E723", (t(2),)), ("E721", ((t(2, 2), 1),))]),
    "[z_bd]": ([([],), ((t(2, 3), t(2, 3)),)], [("E720", ([t(2, 3), t(2, 4)],)), ("E723", (t(2, 3),))]),
    "{logits: y_bv, loss: float l?}": (
        [({"logits": t(2, 3)},), (SimpleNamespace(logits=t(2, 3), loss=t()),), ({"logits": t(2, 3), "loss": None},)],
        [("E723", ({"loss": t()},)), ("E721", ({"logits": t(2)},)), ("E722", ({"logits": t(2, 3), "loss": t(1)},))],
    ),
    "{a: ?}": ([({"a": None},)], [("E723", ({"b": 1},)), ("E723", (2,))]),
    "{a: m_t?, b: k_t}": ([({"a": None, "b": t(2)},), ({"a": t(2), "b": t(2)},)], [("E720", ({"a": t(3), "b": t(2)},))]),
}  # fmt: skip


@pytest.mark.parametrize("text", CASES)
def test_verdicts(text: str) -> None:
    kept, broken = CASES[text]
    arguments = ["a", "b", "c"][: len((kept or [broken[0][1]])[0])]
    function = contract(text)(eval(f"lambda {', '.join(arguments)}: a"))
    for values in kept:
        assert function(*values) is values[0]
    for wanted, values in broken:
        assert code(lambda values=values: function(*values)) == wanted  # type: ignore[misc]


RESULTS = {
    "z_bs -> z_bs, w_bt": ((t(2, 5), t(2, 7)), (t(2, 5), t(3, 7)), "E720"),
    "z_bs -> (z_bs, (k_bt, v_bt))": ((t(2, 5), (t(2, 7), t(2, 7))), (t(2, 5), (t(2, 7), t(2, 8))), "E720"),
    "z_bs -> {z: z_bs}": ({"z": t(2, 5)}, {"y": t(2, 5)}, "E723"),
    "z_bs -> [z_bs]": ([t(2, 5)], [t(2, 6)], "E720"),
    "z_bs -> float l": (0.5, "half", "E722"),
    "z_bs -> S": (5, 6, "E720"),
    "z_bs -> m_st?": (None, t(6, 7), "E720"),
    "z_bs -> z_{(bs)}": (t(10), t(11), "E720"),
}


@pytest.mark.parametrize("text", RESULTS)
def test_results(text: str) -> None:
    good, bad, wanted = RESULTS[text]
    function = contract(f"{text.replace('z_bs', 'z_bs, ?', 1)}")(lambda z, result: result)
    assert function(t(2, 5), good) is good
    assert code(lambda: function(t(2, 5), bad)) == wanted


# ------------------------------------------------------------------------------------------------ by parameters and names


def test_items_go_by_name_or_in_order() -> None:
    swapped = contract("k_tb, q_sa")(lambda q, k: q)
    assert code(lambda: swapped(t(2, 3), t(4, 5))) == ""
    by_key = contract("mask = m_st, z_sd")(lambda z, past=None, mask=None: z)
    assert by_key(t(5, 2), mask=t(5, 7)).shape == (5, 2)
    assert code(lambda: by_key(t(5, 2), mask=t(6, 7))) == "E720"
    assert code(lambda: contract("y_b, z_b")(lambda z, w: z)) == "E724"


@pytest.mark.parametrize("text", ["a_b, b_b, c_b", "x = a_b", "a = a_b, a_c", "a = z_b, b = z_b, a = z_b"])
def test_what_speaks_of_no_parameter_is_refused(text: str) -> None:
    assert code(lambda: contract(text)(lambda a, b: a)) == "E724"


@pytest.mark.parametrize("text", ["z_bss", "z_b s", "z_{b", "Z_{x_b d}", "z_b ->", "z_(ae)", "z_b²", "{z_b}", "z_...d..."])
def test_a_text_that_is_none_is_refused(text: str) -> None:
    assert code(lambda: contract(text)(lambda a: a)) in {"E003", "E101", "E102", "E106", "E305"}


def test_names_are_a_contract() -> None:
    @ein.contract
    def attend(q_bsea, k_btea, n_head=3, *, m_st=None, dropout_p: float = 0.0) -> ein.contracts.T["bsea"]:  # type: ignore  # noqa: F821, UP037
        return q_bsea

    q, k = t(2, 5, 4, 3), t(2, 7, 4, 3)
    assert attend(q, k, m_st=t(5, 7)) is q
    assert code(lambda: attend(q, t(2, 7, 3, 4))) == "E720"
    assert code(lambda: attend(q, k, m_st=t(7, 5))) == "E720"
    assert code(lambda: attend(t(2, 5, 4), k)) == "E721"
    assert code(lambda: contract(lambda hidden, n_head: hidden)) == "E724"


NAMES = {
    "q_bsea k_btea W_df γ_d scores_bsta y_b": {"q_bsea", "k_btea", "W_df", "γ_d", "scores_bsta", "y_b"},
    "n_head W_q W_o x_in h_t attention_mask input_ids past_key w_gate k_cache last_token_bs x_bb d_model _bs": set(),
    "pixel_values attn_weights return_dict seq_length input_tensor layer_module grid_thw k_nope x_f32": set(),
    "x_b4d z_bd": {"x_b4d", "z_bd"},
    "scores_bsta": set(),
}


@pytest.mark.parametrize("names", NAMES)
def test_which_names_say_their_axes(names: str) -> None:
    assert set(select_suffixed(names.split())) == NAMES[names]


def test_letters_that_are_known_for_axes() -> None:
    assert set(select_suffixed(["scores_bsta", "pixel_values", "y_b", "q_bsr"], "bstar")) == {"scores_bsta", "y_b", "q_bsr"}


LIBRARIES = ("transformers/models/*/modeling_*.py", "torch/nn/modules/*.py")


@pytest.mark.slow
def test_names_of_code_that_knows_no_suffixes() -> None:
    """Of tens of thousands of names in functions that others wrote, hardly any is taken for one that says its axes."""
    site, names, taken = Path(torch.__file__).parents[1], 0, list[str]()
    for path in (path for pattern in LIBRARIES for path in sorted(site.glob(pattern))[::4]):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                found = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)} | {
                    each.arg for each in node.args.args
                }
                names += len(found)
                taken += select_suffixed(found)
    assert names > 10_000
    assert len(taken) < names / 2_000, Counter(taken)


def test_annotations_are_jaxtypings() -> None:
    for ours, theirs in {"bsd": "b s d", "bs(ae)": "b s a*e", "...d": "*batch d", "b3": "b 3", "ss'": "s s"}.items():
        assert ein.contracts.T[ours].dim_str == theirs
    assert ein.contracts.T["bf16 bs"].dtype.__name__ == "BFloat16"
    assert isinstance(t(2, 3), ein.contracts.T["bs"])
    assert not isinstance(t(2, 3), ein.contracts.T["int bs"])

    @jaxtyped(typechecker=beartype)
    def same(z: ein.contracts.T["bs"], y: ein.contracts.T["bs"]) -> ein.contracts.T["bs"]:  # type: ignore  # noqa: F821, UP037
        return z

    with pytest.raises(TypeCheckError):
        same(t(2, 3), t(2, 4))


# ----------------------------------------------------------------------------------------------------- as others judge


@st.composite
def calls(draw: st.DrawFn) -> tuple[list[tuple[str, str]], list[Tensor]]:
    """Up to three tensors and a result: our letters, jaxtyping's, and tensors that fit or nearly do."""
    sizes = {letter: draw(st.integers(1, 3)) for letter in "bsd"}
    written, tensors, bound = [], [], set[str]()
    for _ in range(draw(st.integers(2, 4))):
        letters = draw(st.lists(st.sampled_from(["b", "s", "d", "2", "3"]), min_size=1, max_size=3, unique=True))
        rest = draw(st.sampled_from([None, None, 0, len(letters)]))
        shape = [sizes.get(letter, int(letter) if letter.isdigit() else 0) for letter in letters]
        theirs = list(letters)
        pairs = [pair for pair in ("bs", "sd") if set(pair) <= bound]
        if draw(st.booleans()) and pairs:  # jaxtyping multiplies only what is bound before
            pair = draw(st.sampled_from(pairs))
            letters, theirs, shape = (
                [*letters, f"({pair})"],
                [*theirs, "*".join(pair)],
                [*shape, sizes[pair[0]] * sizes[pair[1]]],
            )
        bound |= set(letters)
        if rest is not None:
            shape[rest:rest] = draw(st.sampled_from([[], [2], [2, 3]]))
            letters.insert(rest, "...")
            theirs.insert(rest, "*batch")
        shape = draw(st.sampled_from([shape, shape, shape, shape[::-1], [*shape, 1], [size + 1 for size in shape]]))
        kind = draw(st.sampled_from(["float ", "", ""]))
        written.append((f"{kind}x_{{{' '.join(letters)}}}", f"{kind}{' '.join(theirs)}"))
        tensors.append(t(*shape, dtype=draw(st.sampled_from([torch.float32, torch.float32, torch.int64]))))
    return written, tensors


def test_jaxtyping_and_beartype_agree() -> None:
    """Three verdicts: of the comparisons, of the checker that explains them, and theirs. Both verdicts come up."""
    seen: set[bool] = set()

    @settings(max_examples=150, deadline=None)
    @given(calls())
    def verdicts_agree(call: tuple[list[tuple[str, str]], list[Tensor]]) -> None:
        written, tensors = call
        names = [f"p{at}" for at in range(len(tensors) - 1)]
        bare = eval(f"lambda {', '.join([*names, 'result'])}: result")
        text = ", ".join(f"{name} = {ours}" for name, (ours, _) in zip(names, written, strict=False)) + f" -> {written[-1][0]}"
        bare.__name__ = "bare"
        bare.__annotations__ = {name: annotation(theirs) for name, (_, theirs) in zip([*names, "return"], written, strict=True)}
        theirs = accepts(lambda: jaxtyped(typechecker=beartype)(bare)(*tensors))
        assert accepts(lambda: contract(text)(bare)(*tensors)) == theirs
        agreed = agree(text, bare)
        assert accepts(lambda: agreed.check_result(tensors[-1], agreed.check(tuple(tensors)))) == theirs
        seen.add(theirs)

    verdicts_agree()
    assert len(seen) == 2


def annotation(theirs: str) -> Any:
    kind, letters = (Float, theirs.removeprefix("float ")) if theirs.startswith("float ") else (Shaped, theirs)
    return kind[Tensor, letters]


def accepts(call: Callable[[], object]) -> bool:
    try:
        call()
    except (EinformerError, TypeCheckError, BeartypeCallHintViolation):
        return False
    return True


# ------------------------------------------------------------------------------------------------------------- scopes


class Heads(nn.Module):
    @ein.contract("D, A")
    def __init__(self, D: int, A: int = 3) -> None:
        super().__init__()
        self.Q = nn.Linear(D, D)
        self.A = A

    @ein.contract("z_bsd -> q_bsea where e: H")
    def forward(self, z: Tensor) -> Tensor:
        q: Tensor = self.Q(z)
        return q.view(*q.shape[:-1], -1, self.A)

    @ein.contract("y_{bs(ae)} -> u_bsae")
    def split(self, y: Tensor) -> Tensor:
        return y.view(*y.shape[:-1], self.A, -1)

    @staticmethod
    @ein.contract("z_b -> z_b")
    def static(z: Tensor) -> Tensor:
        return z

    @ein.contract("z_b -> z_b")
    @classmethod
    def of_class(cls, z: Tensor) -> Tensor:
        return z


def said(call: Callable[[], object]) -> str:
    with pytest.raises(EinformerError) as caught:
        call()
    return str(caught.value)


def test_an_object_binds_its_sizes() -> None:
    heads = Heads(12)
    assert heads(t(2, 5, 12)).shape == (2, 5, 4, 3)
    assert heads.split(t(2, 5, 12)).shape == (2, 5, 3, 4)
    message = said(lambda: Heads(12)(t(2, 5, 8)))
    assert "`z` has 8 along `d`, not 12" in message
    assert "D = 12 by Heads, made at test_contracts.py:" in message
    heads.A = 2
    assert "A = 3 by Heads, made at test_contracts.py:" in said(lambda: heads(t(2, 5, 12)))
    assert heads.static(t(2)).shape == heads.of_class(t(2)).shape == (2,)
    assert code(lambda: heads.static(t(2, 2))) == code(lambda: Heads.of_class(t(2, 2))) == "E721"


def test_an_object_keeps_its_sizes_where_it_goes() -> None:
    for again in (pickle.loads(pickle.dumps(Heads(12))), copy.deepcopy(Heads(12))):
        assert code(lambda again=again: again(t(2, 5, 8))) == "E720"  # type: ignore[misc]


def test_objects_bind_by_hand() -> None:
    heads = Heads(12)
    ein.contracts.bind(heads, H=4)
    assert code(lambda: ein.contracts.bind(heads, H=5)) == "E726"
    assert code(lambda: ein.contracts.bind(heads, e=4)) == "E726"
    assert code(lambda: ein.contracts.bind(heads, B=-1)) == "E604"


same = contract("z_bd -> z_bd")(returns)


def test_a_block_binds_sizes() -> None:
    with ein.contracts.sizes(D=12):
        assert same(t(2, 12)).shape == (2, 12)
        assert "D = 12 by ein.contracts.sizes at test_contracts.py:" in said(lambda: same(t(2, 13)))
        with ein.contracts.sizes(B=2):
            assert code(lambda: same(t(3, 12))) == "E720"
        assert code(lambda: same(t(3, 12))) == ""
        assert code(lambda: ein.contracts.sizes(D=13).__enter__()) == "E726"
        solved = contract("y_{b(de)}")(returns)
        assert code(lambda: solved(t(2, 24))) == ""
        assert code(lambda: solved(t(2, 25))) == "E720"
    assert code(lambda: same(t(2, 13))) == ""


def test_a_block_holds_for_its_thread_and_its_tasks() -> None:
    found: list[str] = []

    def look() -> None:
        found.append(code(lambda: same(t(2, 13))))

    async def task() -> None:
        look()

    async def tasks() -> None:
        with ein.contracts.sizes(D=12):
            started = asyncio.create_task(task())
        await started

    with ein.contracts.sizes(D=12):
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    asyncio.run(tasks())
    assert found == ["", "E720"]


# ------------------------------------------------------------------------------------------------- whatever runs them


@ein.contract("q_bsea, k_btea, v_btea -> y_bsea")
def attend(q_bsea: Tensor, k_btea: Tensor, v_btea: Tensor) -> Tensor:
    w_bsta = torch.einsum("bsea,btea->bsta", q_bsea, k_btea).softmax(2)
    return torch.einsum("bsta,btea->bsea", w_bsta, v_btea)


QKV = (torch.rand(2, 5, 4, 3), torch.rand(2, 7, 4, 3), torch.rand(2, 7, 4, 3))
SWAPPED = (QKV[0], QKV[1].transpose(2, 3), QKV[2])


class Attends(nn.Module):
    @ein.contract("q_bsea, k_btea, v_btea -> y_bsea")
    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        result: Tensor = attend(q, k, v)
        return result


@pytest.mark.parametrize("function", [attend, Attends()], ids=["function", "module"])
def test_compiled_without_a_break(function: Any) -> None:
    torch.compiler.reset()
    compiled: Any = torch.compile(function, backend="eager", fullgraph=True)
    assert torch.equal(compiled(*QKV), function(*QKV))
    with pytest.raises(Exception, match="E720") as caught:
        compiled(*SWAPPED)
    assert "has 3 along `e`, not 4" in str(caught.value)
    with ein.contracts.sizes(A=3):  # compiled code leaves blocks to the code that is not
        assert compiled(*QKV).shape == (2, 5, 4, 3)


def test_compiled_graphs_hold_no_trace_of_the_checks() -> None:
    """The same nodes with and without a contract."""
    torch.compiler.reset()
    graphs: list[list[str]] = []

    def keep(graph: torch.fx.GraphModule, _: object) -> Callable[..., Any]:
        graphs.append([str(node.target) for node in graph.graph.nodes])
        return graph.forward

    for function in (attend, inspect.unwrap(attend)):
        torch.compile(function, backend=keep, fullgraph=True)(*QKV)
    assert len(graphs) == 2
    assert graphs[0] == graphs[1]


@pytest.mark.parametrize("strict", [True, False])
def test_exported_with_sizes_that_vary(strict: bool) -> None:
    dims = {1: torch.export.Dim("t", min=2)}
    program = torch.export.export(Attends(), QKV, strict=strict, dynamic_shapes={"q": None, "k": dims, "v": dims})
    longer = torch.rand(2, 9, 4, 3)
    assert torch.equal(program.module()(QKV[0], longer, longer), attend(QKV[0], longer, longer))


def test_tensors_without_numbers() -> None:
    with FakeTensorMode():
        fake = [torch.zeros(value.shape) for value in QKV]
        assert attend(*fake).shape == (2, 5, 4, 3)
        assert code(lambda: attend(fake[0], fake[1].transpose(2, 3), fake[2])) == "E720"
    meta = [value.to("meta") for value in QKV]
    assert attend(*meta).device.type == "meta"
    assert code(lambda: attend(*[value.to("meta") for value in SWAPPED])) == "E720"


def test_transformations_of_functions() -> None:
    batched = torch.vmap(attend)(*[value[None] for value in QKV])
    assert torch.equal(batched[0], attend(*QKV))
    inputs = [value.clone().requires_grad_() for value in QKV]
    (plain,) = torch.autograd.grad(attend(*inputs).square().sum(), inputs[:1])
    (again,) = torch.autograd.grad(checkpoint(attend, *inputs, use_reentrant=False).square().sum(), inputs[:1])
    assert torch.equal(plain, again)
    assert torch.equal(torch.func.grad(lambda q: attend(q, *QKV[1:]).square().sum())(QKV[0]), plain)


@pytest.mark.parametrize(
    "name", ["block", "check", "function", "refuse", "Tensor", "isinstance", "len", "getattr", "result", "make"]
)
def test_a_function_may_have_any_name(name: str) -> None:
    """Of those too that the check of a contract uses."""
    scope: dict[str, Any] = {}
    exec(f"def {name}(z, Q):\n    return z @ Q", scope)
    checked = ein.contract("z_bsd, Q_de -> q_bse")(scope[name])
    assert checked(torch.ones(2, 5, 3), torch.ones(3, 4)).shape == (2, 5, 4)
    with refuses("E720", "Q", "2"):
        checked(torch.ones(2, 5, 3), torch.ones(2, 4))


def test_coroutines_are_checked_and_generators_have_no_result() -> None:
    @ein.contract("z_b -> y_b")
    async def later(z: Tensor, n: int) -> Tensor:
        return t(n)

    assert inspect.iscoroutinefunction(later)
    assert asyncio.run(later(t(2), 2)).shape == (2,)
    assert code(lambda: asyncio.run(later(t(2), 3))) == "E720"

    def rows(z: Tensor) -> Any:
        yield from z

    assert len(list(contract("z_bs")(rows)(t(2, 3)))) == 2
    assert "`rows` is a generator" in said(lambda: contract("z_bs -> z_s")(rows))


def test_a_decorated_function_is_still_itself() -> None:
    assert pickle.loads(pickle.dumps(attend)) is attend
    assert attend.__name__ == "attend"
    assert str(inspect.signature(attend)).startswith("(q_bsea: ")

    @ein.contract("a_b, c = c_b")
    def all_kinds(a: Tensor, b: int = 1, /, *rest: int, c: Tensor, d: int = 2, **more: int) -> tuple[Any, ...]:
        return a, b, rest, c, d, more

    assert all_kinds(t(2), 3, 4, c=t(2), e=5)[1:3] == (3, (4,))
    assert all_kinds(t(2), c=t(2), e=5)[4:] == (2, {"e": 5})
    assert code(lambda: all_kinds(t(2), c=t(3))) == "E720"
    with pytest.raises(TypeError, match="positional"):
        all_kinds(a=t(2), c=t(2))  # type: ignore[call-arg, arg-type]

    @ein.contract("function_bs, refuse_bs -> result_bs")
    def shadows(function: Tensor, refuse: Tensor, B: int = 0, Tensor: int = 0) -> Any:
        return function

    assert shadows(t(2, 3), t(2, 3)).shape == (2, 3)
    assert code(lambda: shadows(t(2, 3), t(3, 2))) == "E720"


def test_tracebacks_show_the_comparison() -> None:
    with pytest.raises(EinformerError) as caught:
        attend(*SWAPPED)
    assert "if k_btea_b != B or k_btea_e != E" in str(caught.traceback[-2].statement) + str(inspect.getsource(attend.__code__))


def test_dataclasses_are_read_by_attribute() -> None:
    @dataclasses.dataclass(frozen=True, slots=True)
    class Output:
        logits: Tensor

    wrap = contract("x_bv -> {logits: y_bv}")(lambda x: Output(x))
    assert code(lambda: contract("x_bv")(Output)) == "E724"
    assert wrap(t(2, 3)).logits.shape == (2, 3)


def test_a_partial_application_gets_the_contract_of_its_function() -> None:
    def scale(z: Tensor, by: float) -> Tensor:
        return by * z

    with pytest.raises(EinformerError, match="the contract on `scale`"):
        contract("z_bd -> y_bd")(functools.partial(scale, by=2))
    assert functools.partial(contract("z_bd, by -> y_bd")(scale), by=2)(torch.ones(2, 3)).shape == (2, 3)


# ---------------------------------------------------------------------------------------------------------------- off


def test_off_is_free() -> None:
    def plain(z_bsd: Tensor) -> Tensor:
        return z_bsd

    ein.contracts.off()
    try:
        assert contract(plain) is plain
        assert contract("z_bs")(plain) is plain
    finally:
        ein.contracts.on()
    assert contract(plain) is not plain


def test_off_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for value, active in {"0": False, "off": False, "1": True}.items():
        monkeypatch.setenv("EINFORMER_CONTRACTS", value)
        assert runpy.run_path(switch.__file__)["active"]() is active


def test_letters_may_be_those_of_sizes() -> None:
    """nanoGPT's: `B, T, C = x.size()`."""

    @ein.contract("x_BTC, W_CD -> y_BTD")
    def project(x: torch.Tensor, W: torch.Tensor) -> torch.Tensor:
        return x @ W

    @ein.contract
    def add(x_BTC: torch.Tensor, y_BTC: torch.Tensor, n_GPU: object = None) -> torch.Tensor:
        return x_BTC + y_BTC

    assert project(t(2, 3, 4), t(4, 5)).shape == (2, 3, 5)
    assert code(lambda: project(t(2, 3, 4), t(5, 5))) == "E720"
    assert add(t(2, 3, 4), t(2, 3, 4)).shape == (2, 3, 4)
    assert code(lambda: add(t(2, 3, 4), t(2, 3, 5))) == "E720"


@pytest.mark.parametrize("letters", ["batch seq", "int batch seq", "b seq"])
def test_an_annotation_of_words_is_refused(letters: str) -> None:
    """`T["batch seq"]` would be eight axes."""
    assert code(lambda: ein.contracts.T[letters]) == "E724"
    assert ein.contracts.T["b s"].dim_str == ein.contracts.T["bs"].dim_str == "b s"


@pytest.mark.parametrize("text", ["z_bsd -> y_b,s,d", "z_b,s,d -> y_bsd", "z_bs -> (y_b, s)"])
def test_a_comma_inside_a_subscript_is_refused(text: str) -> None:
    """It would end the tensor: three results, of which two are numbers."""
    assert code(lambda: ein.contract(text)(lambda z, s=0, d=0: z)) == "E724"
    ein.contract("z_bsd -> (y_bd, float s)")(lambda z: z)  # a number that is said to be one


def test_arrays_of_numpy_are_arrays() -> None:
    @ein.contract("float x_bs, W_sd -> y_bd")
    def project(x: Any, W: Any) -> Any:
        return x @ W

    assert project(np.ones((2, 3)), np.ones((3, 4))).shape == (2, 4)
    assert project(np.ones((2, 3), np.float16), np.ones((3, 4))).shape == (2, 4)
    assert code(lambda: project(np.ones((2, 3)), np.ones((4, 4)))) == "E720"
    assert code(lambda: project(np.ones(2), np.ones((4, 4)))) == "E721"
    assert code(lambda: project(np.ones((2, 3), int), np.ones((3, 4)))) == "E722"
    assert code(lambda: project([[1.0]], np.ones((1, 4)))) == "E722"
    for word, dtype in {"int": np.int32, "bool": np.bool_, "f32": np.float32, "cpu": np.float64}.items():
        assert ein.contract(f"{word} x_b -> y_b")(lambda x: x)(np.ones(2, dtype)).shape == (2,)
    assert code(lambda: ein.contract("cuda x_b")(lambda x: x)(np.ones(2))) == "E722"


def test_an_annotation_says_what_a_parameter_may_be() -> None:
    """`None` where it says so; a list of tensors is not a tensor."""

    @ein.contract
    def first(z_bsd: Tensor | None, y_bsd: Optional[Tensor], x_bsd: list[Tensor]) -> int:  # noqa: UP045
        return len(x_bsd)

    assert first(None, None, [torch.zeros(2)]) == 1
    assert first(torch.zeros(2, 3, 4), torch.zeros(2, 3, 4), []) == 0
    assert code(lambda: first(torch.zeros(2, 3, 4), torch.zeros(2, 3, 5), [])) == "E720"


@pytest.mark.parametrize("name", ["_", "__z", "None_", "z_", "a__b", "_1", "γ_"])
def test_a_parameter_may_have_any_name(name: str) -> None:
    scope: dict[str, Any] = {}
    exec(f"def same({name}): return {name}", scope)
    same = contract(f"{name} = z_bsd -> y_bsd where s: 3")(scope["same"])
    assert same(torch.zeros(2, 3, 4)).shape == (2, 3, 4)
    assert code(lambda: same(torch.zeros(2, 4, 4))) == "E720"


# ---------------------------------------------------------------------------------------------------------- long names

LONG = {"batch": "b", "seq": "s", "dim": "d", "heads": "a"}


@pytest.mark.parametrize("sizes", [(2, 5, 12, 3), (2, 5, 11, 3), (4, 5, 12, 3), (2, 6, 12, 3)])
@pytest.mark.parametrize("array", [torch.zeros, np.zeros], ids=["torch", "numpy"])
def test_longer_names_are_judged_as_letters_are(sizes: tuple[int, ...], array: Any) -> None:
    """By a table in a text, in annotations with a table and without, and as jaxtyping judges."""
    width, kind = sizes[2], type(array((1,)))
    annotate: Any = Float

    def project(z: Any, W: Any) -> Any:
        return array((sizes[0], 5, 3))

    names = {"z": "batch seq dim", "W": "dim heads", "return": "2 seq heads"}
    project.__annotations__ = {name: annotate[kind, axes] for name, axes in names.items()}
    text = "z_{batch seq dim}, W_{dim heads} -> y_{2 seq heads}"
    ways: list[Any] = [
        contract("z_bsd, W_da -> y_{2 s a}")(project),
        contract(text, axes=LONG)(project),
        contract(axes=LONG)(project),
        contract(project),
    ]
    verdicts = {code(functools.partial(way, array((*sizes[:2], 12)), array((width, sizes[3])))) for way in ways}
    assert verdicts == {"" if sizes == (2, 5, 12, 3) else "E720"}
    try:
        jaxtyped(typechecker=beartype)(project)(array((*sizes[:2], 12)), array((width, sizes[3])))
    except TypeCheckError:
        assert verdicts == {"E720"}
    else:
        assert verdicts == {""}


TOKENS = {  # annotations of two parameters by jaxtyping, and whether the second may have the shape (2, 5) beside (2, 3, 4)
    "one name of several axes": ('Float[torch.Tensor, "*batch dim"]', 'Int[torch.Tensor, "*batch"]', False),
    "whole numbers with a sign": ('Float[torch.Tensor, "batch seq dim"]', 'Int[torch.Tensor, "batch seq"]', False),
    "any numbers": ('Float[torch.Tensor, "batch seq dim"]', 'Num[torch.Tensor, "batch seq"]', False),
    "two names of several axes": ('Float[torch.Tensor, "*batch dim"]', 'Int[torch.Tensor, "*other"]', True),
    "axes without a name": ('Float[torch.Tensor, "... seq dim"]', 'Int[torch.Tensor, "... other"]', True),
}


@pytest.mark.parametrize("case", TOKENS)
def test_several_axes_and_kinds_are_judged_as_jaxtyping_judges(case: str) -> None:
    def embed(x: Any, tokens: Any, bias: Any) -> None: ...

    *annotations, fits = TOKENS[case]
    x, tokens = (eval(annotation, vars(jaxtyping) | {"torch": torch}) for annotation in annotations)
    embed.__annotations__ = {"x": x, "tokens": tokens, "bias": Float[torch.Tensor, "dim"]}
    arguments = t(2, 3, 4), torch.zeros(2, 5, dtype=torch.int64), t(4)
    assert code(lambda: ein.contract(embed)(*arguments)) == ("" if fits else "E720")
    try:
        jaxtyped(typechecker=beartype)(embed)(*arguments)
    except TypeCheckError:
        assert not fits
    else:
        assert fits


def test_sizes_of_longer_names_have_these_names() -> None:
    def add(x: Float[torch.Tensor, "batch_size seq dim"], y: Float[torch.Tensor, "batch_size seq dim"]) -> None:  # noqa: F722
        pass

    with pytest.raises(EinformerError) as error:
        ein.contract(add)(t(2, 5, 12), t(2, 5, 11))
    assert "DIM = 12 by `x.shape[2]`" in str(error.value)
    assert "where s: seq, d: dim" in str(error.value)
    assert code(lambda: ein.contract(add)(t(2, 5, 12), t(3, 5, 12))) == "E720"


@pytest.mark.parametrize(
    ("text", "axes"),
    [
        ("z_{batch seq}", {"batch": "b"}),
        ("z_{batch seq}", {"batch": "b", "seq": "b"}),
        ("z_{batch seq}", {"batch": "bs", "seq": "s"}),
        ("z_{batch seq}", {"batch": "B", "seq": "s"}),
    ],
)
def test_a_table_without_a_letter_for_each_name_is_refused(text: str, axes: dict[str, str]) -> None:
    assert code(lambda: ein.contract(text, axes=axes)(lambda z: z)) == "E724"


def test_a_watched_model_takes_longer_names() -> None:
    model = torch.nn.Linear(12, 3)
    with ein.contracts.watch(model, {"": "z_{batch dim} -> y_{batch heads}", "weight": "W_{heads dim}"}, axes=LONG) as watched:
        model(t(2, 12))
    assert watched.last["A"] == 3
