"""Are suffixes of Python names read right, and is nothing said that is not so?"""

from __future__ import annotations

import importlib.resources
import json
import re
from collections.abc import Iterator

import pytest

from einformer.contracts.dtypes import EXACT
from einformer.contracts.suffixes import select_suffixed
from tests.commands import lint
from tests.oracles.of_toys import ours
from tests.toys import EACH

ATTENTION = """
import math
import torch
import torch.nn.functional as F
from einops import einsum as contract, rearrange

# b: batch
# s: sequence
# t: sequence
# d: hidden
# a: heads
# e: head
# f: MLP hidden

def attend(q_bsea, k_btea, v_btea):
    w_bsta = torch.einsum("bsea,btea->bsta", q_bsea, k_btea) / math.sqrt(64)
    w_bsta = F.dropout(w_bsta.softmax(dim=2), 0.1)
    y_bsea = torch.einsum("bsta,btea->bsea", w_bsta, v_btea)
    return y_bsea

class Block:
    def forward(self, z_bsd, W_fd):
        B, S, D = z_bsd.shape
        q_bsea = torch.einsum("bsd,dea->bsea", z_bsd, self.Q_dea) + self.bias
        k_bsea = contract(z_bsd, self.K_dea, "b s d, d e a -> b s e a")
        v_bsae = self.v_proj(z_bsd).view(B, S, self.n_head, -1)
        y_bsea = attend(q_bsea, k_bsea, v_bsae.transpose(2, 3))
        q_base, k_base, v_base = (each.permute(0, 3, 1, 2) for each in (q_bsea, k_bsea, y_bsea))
        q_base = q_bsea.permute(0, 3, 1, 2)
        k_base = k_bsea.permute(0, 3, 1, 2)
        v_base = v_bsae.transpose(1, 2)
        att_bast = q_base @ k_base.transpose(-2, -1) * self.scale
        att_bast = att_bast.masked_fill(self.m_st == 0, float("-inf"))
        p = F.softmax(att_bast, dim=-1)
        y = p @ v_base
        y_bsd = y.transpose(1, 2).reshape(B, S, D)
        n_bsd = (y_bsd - y_bsd.mean(-1, keepdim=True)) * y_bsd.var(-1, keepdim=True).rsqrt()
        h_bsf = F.linear(n_bsd, W_fd)
        u_base = rearrange(z_bsd, "b s (a e) -> b a s e", e=64)
        r_bsae = torch.cat((-v_bsae[..., 1::2], v_bsae[..., ::2]), dim=-1)
        return z_bsd + y_bsd
"""
SLIPS = {  # what stands there, what somebody wrote, and what it is called
    "transposed scores": ("btea->bsta", "btea->bats", "E771"),
    "softmax over the queries": ("softmax(dim=2)", "softmax(dim=1)", "E775"),
    "softmax over the queries, in a product": ("F.softmax(att_bast, dim=-1)", "F.softmax(att_bast, dim=-2)", "E775"),
    "heads and positions exchanged": ("q_bsea.permute(0, 3, 1, 2)\n        k", "q_bsea.permute(0, 2, 1, 3)\n        k", "E771"),
    "no transpose after a view": ("v_bsae.transpose(1, 2)\n", "v_bsae\n", "E771"),
    "keys not transposed": ("q_base @ k_base.transpose(-2, -1)", "q_base @ k_base", "E773"),
    "a letter of another axis": ('"b s d, d e a -> b s e a"', '"b s f, d e a -> b s e a"', "E772"),
    "a summed letter left": ("btea->bsea", "btea->bste", "E771"),
    "features before heads": ('"b s (a e) -> b a s e"', '"b s (a e) -> b e s a"', "E771"),
    "a mean that drops its axis": ("y_bsd.mean(-1, keepdim=True)", "y_bsd.mean(-1)", "E773"),
    "joined over an axis that is not there": ("rearrange(z_bsd, ", "rearrange(q_bsea, ", "E772"),
    "a residual of another shape": ("return z_bsd + y_bsd", "return z_bsd + h_bsf", "E773"),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_is_found(slip: str) -> None:
    right, wrong, code = SLIPS[slip]
    assert ATTENTION.count(right) == 1, right
    text = ATTENTION.replace(right, wrong)
    found = lint(text, "model.py")
    assert found.codes[:1] == [code]
    line = text[: text.index(wrong)].count("\n") + 1
    assert any(abs(finding.line - line) <= 2 for finding in found.findings)  # a softmax is found where its weights are summed


def test_what_is_right_is_left_alone() -> None:
    reading = lint(ATTENTION, "model.py")
    assert reading.codes == []
    assert reading.names >= 17


@pytest.mark.parametrize("plan", ["notation", pytest.param("fast", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", EACH)
def test_emitted_sources_are_right(name: str, plan: str) -> None:
    """They name their tensors as the notes do, and are proved elsewhere."""
    reading = lint(ours(name).source(plan), "emitted.py")
    assert reading.codes == []
    assert reading.names > 5


def slips(text: str) -> Iterator[str]:
    """A module with two letters of the output of an equation exchanged, where its value gets a name or is returned."""
    for match in re.finditer(r'(?:= |return )torch\.einsum\("[^"]*->(\w+)"', text):
        output = match[1]
        for k in range(len(output) - 1):
            yield text[: match.start(1)] + output[:k] + output[k + 1] + output[k] + output[k + 2 :] + text[match.end(1) :]


@pytest.mark.parametrize("name", ["llama", "mixtral", "gemma2", "falcon", "gpt_neox"])
def test_slips_in_emitted_sources_are_found(name: str) -> None:
    """All but those in what a module returns that is no function of the file: nothing is known of that."""
    wrong = list(slips(ours(name).source("notation", annotations=True)))
    found = [bool(lint(text, "emitted.py").codes) for text in wrong]
    assert len(found) > 10
    assert all(found)


def shipped() -> Iterator[str]:
    """The suffixes of all tensors of shipped texts, a prime apart."""
    for file in (importlib.resources.files("einformer") / "architectures").iterdir():
        if file.name.endswith(".ein"):
            lines = (line.split("#")[0] for line in file.read_text(encoding="utf-8").splitlines())
            yield from (found.replace("'", "") for line in lines for found in re.findall(r"(?!\d)\w_([a-z']{2,})", line))


def test_no_suffix_of_a_shipped_text_is_a_word() -> None:
    """`z_sd`, `k_seg`, `a_sun`, and `q_base`, as heads stand before features."""
    found = {suffix for suffix in shipped() if len(set(suffix)) == len(suffix) > 1} | {"base"}
    assert {"sd", "seg", "sun", "fn"} <= found
    assert {suffix for suffix in found if not select_suffixed([f"z_{suffix}"], suffix)} == set()


def test_kinds_of_numbers_are_words() -> None:
    assert not select_suffixed([f"x_{word}" for word in EXACT], "".join(EXACT))


UNKNOWN = {
    "words": "n_head = config.n_head\nx_in = einsum('bsd,dn->bsn', z_bsd, W)\nx_in = x_in.sum()\n",
    "one letter": "y_bsd = einsum('bsd,d->bsd', z_bsd, g)\nloss_b = y_bsd.mean()\nloss_d = loss_b.sum()\n",
    "a function of somebody": "B, S, D = z_bsd.shape\ny_bsd = block(z_bsd)\nw_bds = block(z_bsd)\n",
    "sizes of somebody": "B, S, D = z_bsd.shape\nx_bds = z_bsd.view(*sizes)\nx_bds = z_bsd.view(shape)\n",
    "one of two ways": "B, S, D = z_bsd.shape\nx = z_bsd\nif turn:\n    x = x.transpose(1, 2)\nx_bds = x\n",
    "turn after turn": "B, S, D = z_bsd.shape\nx = z_bsd\nfor l in layers:\n    y_bds = x\n    x = l(x)\n",
    "rows of scores": "B, S, T = w_bst.shape\nr = w_bst.softmax(-1) @ w_bst.softmax(-1)\n",
    "groups": "B, S, A, E = y_bsae.shape\ny = y_bsae.flatten(2)\nu_bsae = y_bsae.reshape(B, S, -1)\n",
    "positions twice": "B, S, D = q_bsd.shape\nm_st = torch.ones(S, S)\nw_bst = q_bsd @ q_bsd.transpose(1, 2) + m_st\n",
}


@pytest.mark.parametrize("case", UNKNOWN)
def test_what_is_not_known_is_no_error(case: str) -> None:
    assert lint(f"# axes: b, s t: S, d a e n\nimport torch\nfrom torch import einsum\n{UNKNOWN[case]}", "model.py").codes == []


def test_long_chains_are_read_once() -> None:
    """Each link asks for the one before: read anew each time, forty would take for ever."""
    text = f"# axes: b s d\nw_bds = z_bsd{'.relu()' * 40}\n"
    assert lint(text, "model.py").codes == ["E771"]


def test_a_legend_holds_for_the_cells_below_it() -> None:
    """Imports stand in a cell of their own, and a cell in another language is passed over."""
    cells = ["import numpy as np\n# axes: b s d", "%%bash\nls", "y_bs = np.random.rand(2)\nq_bs = z_bsd"]
    rows = [{"cell_type": "code", "source": [cell]} for cell in cells]
    (finding,) = lint(json.dumps({"cells": rows}), name="n.ipynb").findings
    assert (finding.code, finding.text) == ("E771", "q_bs")
    above = lint(json.dumps({"cells": rows[::-1]}), name="n.ipynb")
    assert (above.findings, above.names) == ((), 0)


def test_columns_are_those_of_letters() -> None:
    (finding,) = lint("# axes: b s d\nβ = 1; w_bds = 2 * z_bsd.relu()\n", "model.py").findings
    assert (finding.line, finding.column) == (2, 8)
