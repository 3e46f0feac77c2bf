"""Is the emitted source a file like any other: does it run alone, show itself in tracebacks, pickle, copy, materialise?"""

from __future__ import annotations

import ast
import copy
import functools
import io
import os
import pickle
import re
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import einformer
from einformer.interpreters.torch import source, writing
from einformer.interpreters.torch.plan import PLANS as PLANS_OF
from einformer.interpreters.torch.source import find_sizes
from einformer.interpreters.torch.writing import romanise
from tests.few import FEW_TEXTS, few
from tests.small import PLANS, SMALL, built, error, inputs, model, weights

ALONE = """
import sys
sys.modules["einformer"] = None  # importing it raises ImportError
import torch, emitted
module = emitted.{name}().double().eval()
module.load_state_dict(torch.load("weights.pt"))
with torch.no_grad():
    torch.save(module(torch.load("tokens.pt")), "logits.pt")
"""


def tokens(name: str) -> Tensor:
    (given,) = inputs(model(name))
    return torch.from_numpy(given)


def same(ours: nn.Module, theirs: nn.Module, given: Tensor) -> bool:
    """The same answer, keys and modes."""
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert ours.training == theirs.training
    assert [p.requires_grad for p in ours.parameters()] == [p.requires_grad for p in theirs.parameters()]
    return torch.equal(ours(given), theirs(given))


QUOTED = '''# own.ein: """
axes
  s: S
  d: D                # hidden " """ + boom()

layer Half(z_d) -> z_d:        @ """; boom()
  return z_d / 2

layer Twice(z_sd) -> z_sd:     @ """ + boom() + """ \\ "
  weights W_dd'
  return Half(z_sd' W_d'd)
'''


@pytest.mark.parametrize("plan", PLANS)
def test_what_a_text_says_beside_its_equations_is_no_code(plan: str) -> None:
    """R13: a note, a title and a comment cannot end the docstring in which they stand."""
    tree = ast.parse(einformer.parse(QUOTED).bind(D=3).source(plan=plan))
    docs = {node.name: ast.get_docstring(node) for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    del docs["Config"]
    assert docs == {"Twice": 'Twice, z_sd -> z_sd (""" + boom() + """ \\ ").', "half": 'Half, z_sd -> z_sd ("""; boom()).'}
    assert 'hidden " """ + boom()' in (ast.get_docstring(tree) or "")
    assert "boom" not in {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


@pytest.mark.parametrize("plan", few(PLANS, {"fast"}))
@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_it_runs_without_einformer(name: str, plan: str, tmp_path: Path) -> None:
    module, given = built(model(name), plan), tokens(name)
    (tmp_path / "emitted.py").write_text(model(name).source(plan=plan), encoding="utf-8")
    torch.save(dict(module.state_dict()), tmp_path / "weights.pt")
    torch.save(given, tmp_path / "tokens.pt")
    script = ALONE.format(name=model(name).spec.name)
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert error(torch.load(tmp_path / "logits.pt"), module(given)) < 1e-12


@pytest.mark.parametrize("plan", PLANS)
def test_golden_source(plan: str, golden: Callable[[str, str], None]) -> None:
    """GPT-2 of 124 million parameters as its reader sees it."""
    golden(f"source/gpt2.{plan}.txt", einformer.model("gpt2").source(plan=plan))


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("name", few(SMALL, FEW_TEXTS))
def test_it_holds_nothing_needless(name: str, plan: str) -> None:
    """No line too long, no import and no number at its head that nothing reads."""
    text = model(name).source(plan=plan)
    assert max(map(len, text.split("\n"))) <= 128
    tree = ast.parse(text)
    heads = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom | ast.Assign)]
    read = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    assert {name for head in heads for name in bound(head)} <= read


def bound(node: ast.stmt) -> list[str]:
    """The names that an import or an assignment binds."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [alias.asname or alias.name for alias in node.names if alias.asname or "." not in alias.name]
    return [target.id for target in ast.walk(node) if isinstance(target, ast.Name) and isinstance(target.ctx, ast.Store)]


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("name", few(SMALL, FEW_TEXTS))
def test_folded_lines_say_the_same(name: str, plan: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """To Python, whose parser is the judge."""
    short = model(name).source(plan=plan)
    monkeypatch.setattr(writing, "WIDTH", 10**6)
    long = model(name).source(plan=plan)
    assert said(short) == said(long)
    monkeypatch.setattr(writing, "WIDTH", 40)
    assert said(model(name).source(plan=plan)) == said(long)


def said(source: str) -> str:
    """The statements, and the letters of docstrings, which are folded between words."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = "".join(node.value.split())
    return ast.dump(tree)


def test_a_line_folds_at_its_loosest_operators_then_in_its_longest_brackets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "WIDTH", 24)
    assert list(writing.fold("    y = first(a, b) + second(c, [d, e], long_name) * g")) == [
        "    y = (",
        "        first(a, b)",
        "        + second(",
        "            c,",
        "            [d, e],",
        "            long_name,",
        "        )",
        "        * g",
        "    )",
    ]


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("name", few(SMALL, FEW_TEXTS))
def test_every_equation_stands_above_its_code(name: str, plan: str) -> None:
    text = model(name).source(plan=plan)
    compile(text, name, "exec")
    for layer in model(name).spec.tree.layers:
        for line in layer.span.text.splitlines()[1:]:
            equation, _, note = (part.strip() for part in line.partition("  #")[0].partition(" @ "))
            if " = " in equation and not equation.startswith(("weights", "buffers", "for")):
                assert f"# {equation}  @ {note}\n" in text if note else f"# {equation}\n" in text, line


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("name", few(SMALL, FEW_TEXTS))
def test_the_map_of_equations_is_that_of_the_comments(name: str, plan: str) -> None:
    """Each stands where its text is a comment, first in the file, and in the class or function around that line."""
    whole = model(name)
    file = (whole.spec.tree, whole.spec.name, whole.legend, PLANS_OF[plan])
    lines, found = source.write_source(*file).split("\n"), source.find_places(*file)
    written = {span: f"# {span.source.text[span.start : span.end]}" for span in found if span.source.text}
    bare = (line.partition("  @ ")[0] for line in lines)
    comments = {line.strip() for line in bare if line.startswith("    ") and line.strip().startswith("# ")}
    assert {*written.values()} >= {comment for comment in comments if "_" in comment}
    blocks = [node for node in ast.parse("\n".join(lines)).body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    for span, comment in written.items():
        number, around = found[span]
        assert lines[number - 1].strip().partition("  @ ")[0] == comment
        assert [node.name for node in blocks if node.lineno < number <= (node.end_lineno or 0)] == [around]


@pytest.mark.parametrize("plan", PLANS)
def test_an_output_has_the_letters_of_its_head(plan: str) -> None:
    """Where a line says of what its axes are made; another tensor of that name keeps its own."""
    assert "    return y_se\n" in model("llama").source(plan)
    head = "axes\n  b: B\n  s: S\n  d: D\n  v: V\n"
    body = "model M(x_bsd) -> z_bsv:\n  weights U_dv\n  z_bsd = tanh(x_bsd)\n  return z_bsd U_dv\n"
    assert "        z_bsd = torch.tanh(x_bsd)\n" in einformer.parse(head + body).bind(D=3, V=5).source(plan)


@pytest.mark.parametrize("plan", PLANS)
def test_tracebacks_show_the_equation(plan: str) -> None:
    module, given = built(model("gpt2"), plan), tokens("gpt2")
    module.get_submodule("blocks.1.MLP").register_parameter("U", nn.Parameter(torch.zeros(2, 2)))
    with pytest.raises(RuntimeError) as caught:
        module(given)
    entry = traceback.extract_tb(caught.value.__traceback__)
    (line,) = [each for each in entry if each.name == "forward" and "h_bsf" in (each.line or "")]
    assert "self.U" in (line.line or "")
    assert f": {plan}>" in line.filename


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("name", ["gpt2", "llama_tied", "deepseek_v3", "mamba2"])
def test_copies_are_equal_and_independent(name: str, plan: str) -> None:
    module, given = built(model(name), plan), tokens(name)
    next(module.parameters()).requires_grad_(False)
    for copied in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert same(copied, module, given)
        with torch.no_grad():
            next(copied.parameters()).add_(1)
        assert not torch.equal(next(copied.parameters()), next(module.parameters()))
    assert copy.deepcopy(module.train()).training


@pytest.mark.parametrize("plan", PLANS)
def test_whole_modules_are_saved(plan: str) -> None:
    module, given, file = built(model("gpt2"), plan), tokens("gpt2"), io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    assert same(torch.load(file, weights_only=False), module, given)


@pytest.mark.parametrize("plan", PLANS)
def test_weights_are_saved(plan: str) -> None:
    """As plain tensors, which `torch.load` reads without trusting the file."""
    module, given, file = built(model("gpt2"), plan), tokens("gpt2"), io.BytesIO()
    torch.save(module.state_dict(), file)
    file.seek(0)
    fresh = model("gpt2").build(dtype=torch.float64, plan=plan).eval()
    fresh.load_state_dict(torch.load(file))
    assert same(fresh, module, given)


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("name", ["gpt2", "llama", "gpt_oss", "mamba2", "deepseek_v3"])
def test_it_materialises_from_the_meta_device(name: str, plan: str) -> None:
    """`to_empty` leaves weights undefined; `initialise` gives every parameter and buffer its first values."""
    empty = model(name).build("meta", plan=plan).eval()
    assert {x.device.type for x in (*empty.parameters(), *empty.buffers())} == {"meta"}
    module = empty.to_empty(device="cpu")
    with torch.no_grad():
        for x in (*module.parameters(), *module.buffers()):
            x.fill_(torch.nan)
    torch.manual_seed(0)
    module.initialise()
    torch.manual_seed(0)
    built_here = model(name).build(plan=plan).eval()
    assert module.state_dict().keys() == built_here.state_dict().keys()
    assert all(bool(torch.isfinite(x).all()) for x in module.state_dict().values())
    for path, x in module.state_dict().items():
        assert float(x.std(correction=0)) == pytest.approx(float(built_here.state_dict()[path].std(correction=0)), rel=0.3), (
            path
        )


@pytest.mark.parametrize("plan", PLANS)
def test_weights_materialise_by_assignment(plan: str) -> None:
    module = model("gpt2").build("meta", dtype=torch.float64, plan=plan).eval()
    module.load_state_dict(built(model("gpt2"), plan).state_dict(), assign=True)
    assert same(module, built(model("gpt2"), plan), tokens("gpt2"))


SEVERAL_LINES = r"""axes
  d: D
\begin{aligned}
&\textbf{layer}\ \mathrm{Twice}(z_{d}) \rightarrow z_{d}\colon \\
&\quad y_{d} = 2
z_{d} && @\ \text{a book
boom(1)} \\
&\quad \textbf{return}\ y_{d}
\end{aligned}
"""


@pytest.mark.parametrize("plan", PLANS)
def test_what_stands_on_several_lines_of_latex_is_no_code(plan: str) -> None:
    """R13: neither an equation nor its note leaves the comment in which it stands."""
    text = einformer.parse(SEVERAL_LINES).bind(D=3).source(plan=plan)
    ast.parse(text)
    assert "        # y_{d} = 2 z_{d}  @ a book boom(1)\n" in text


def test_a_note_for_which_there_is_no_room_stands_below_its_equation() -> None:
    note = "a page of a long book that nobody knows by heart, in which there are more equations than lines " * 3
    written = QUOTED.replace("  return Half(z_sd' W_d'd)", f"  return Half(z_sd' W_d'd) @ {note}")
    lines = einformer.parse(written).bind(D=3).source().split("\n")
    at = lines.index("        # return Half(z_sd' W_d'd)")
    below = [line.strip() for line in lines[at + 1 :] if line.startswith("        # @ ")]
    assert " ".join(line.removeprefix("# @ ") for line in below) == note.strip()
    assert max(map(len, lines)) <= 112


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("name", ["llama", "qwen3", "gemma2", "mixtral", "deepseek_v3", "gptj"])
def test_a_layer_of_the_text_is_one_class(name: str, plan: str) -> None:
    """However many axes it is called with; what differs is a size that the class is given."""
    text = model(name).source(plan=plan)
    written = {node.name.lower() for node in ast.parse(text).body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    layers = {layer.name.lower() for layer in model(name).spec.tree.layers}
    helpers = {"config", "stored", "top", "routed", "grouped", "looked_up"}
    assert {each for each in written if not each.endswith("block")} - helpers <= layers


CLASS = """class RMSNorm(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.γ = nn.Parameter(torch.empty(config.D))

    def forward(self, z_bsd: Tensor) -> Tensor:
        D, ε = self.config.D, self.config.ε
        y_bsd = fn.rms_norm(z_bsd, (D,), self.γ, ε)
        y_bsd = torch.einsum("bsd,d->bsd", y_bsd, self.γ)
        return y_bsd + z_bsd
"""


@pytest.mark.parametrize(
    ("changes", "sizes"),
    [
        ({}, {"D": "D", "ε": "ε"}),
        ({"D": "H", "_bsd": "_bsae"}, {"D": "H", "ε": "ε"}),
        ({"D, ε = self.config.D, ": "ε = ", "config.D": "18", "(D,)": "(18,)"}, {"D": "18", "ε": "ε"}),
        ({"bsd,d->bsd": "hkc,c->hkc"}, {"D": "D", "ε": "ε"}),
        ({"+ z_bsd": "- z_bsd"}, None),
        ({"+ z_bsd": "+ y_bsd"}, None),
        ({"(D,)": "(A,)", "D, ε = self.config.D, ": "A, ε = self.config.A, "}, None),
        ({"rms_norm": "layer_norm"}, None),
        ({"self.γ, ε": "self.β, ε"}, None),
        ({"nn.Module": "Stored"}, None),
        ({"bsd,d->bsd": "bsd,d->bds"}, None),
    ],
    ids="itself names number letters sign name two-sizes function weight parent order".split(),  # noqa: SIM905
)
def test_classes_are_one_where_only_names_and_sizes_differ(changes: dict[str, str], sizes: dict[str, str] | None) -> None:
    other = CLASS
    for old, new in changes.items():
        assert old in other
        other = other.replace(old, new)
    assert find_sizes(CLASS.split("\n"), other.split("\n")) == sizes


@pytest.mark.parametrize("name", ["gpt2", "llama-3-8b", "mixtral-8x7b", "gemma-3-270m"])
def test_no_line_of_a_published_model_is_long(name: str) -> None:
    """Neither of the helpers nor of lists over the layers."""
    assert max(map(len, einformer.model(name).source().split("\n"))) <= writing.WIDTH


def test_a_config_may_be_another() -> None:
    """The numbers of the target are defaults: a smaller model is the same classes with another config."""
    names: dict[str, Any] = {"__name__": "pasted"}
    exec(compile(einformer.model("gpt2").source(), "<pasted>", "exec", dont_inherit=True), names)
    config = names["Config"](D=12, A=3, F=20, V=11, K=9, L=2)
    assert config.H == 4  # the features of a head follow
    small = names["GPT2"](config)
    assert small(torch.zeros(2, 9, dtype=torch.long)).shape == (2, 9, 11)
    assert (
        sum(weight.numel() for weight in small.parameters())
        == einformer.model("gpt2").spec.bind(D=12, A=3, F=20, V=11, K=9, L=2).num_parameters
    )


TURNING = """axes
  b: B
  s: S
  d: D
  l: L
scalars
  W_l = [2, 3, 5]
layer Linear(z_bsd) -> z_bsd:
  weights M_dd'
  return M_dd' z_bsd'
model Main(x_bsd) -> y_bsd causal in s:
{weights}
  z_bsd = x_bsd
  n_bsd = 2 x_bsd
  for l < L:
{body}
  return z_bsd + n_bsd
"""


@pytest.mark.parametrize(
    ("body", "call", "head"),
    [
        (  # what the turn had before is not what is read after it
            ["z_bsd <- W_l n_bsd", "n_bsd <- n_bsd + z_bsd", "z_bsd <- Linear_l(n_bsd)"],
            "            z_bsd = block(n_bsd)\n",
            "    def forward(self, n_bsd: Tensor) -> Tensor:\n",
        ),
        (
            ["n_bsd <- n_bsd + z_bsd", "z_bsd <- Linear_l(n_bsd)", "n_bsd <- n_bsd + z_bsd W_l"],
            "            z_bsd, n_bsd = block(n_bsd, l)\n",
            "    def forward(self, n_bsd: Tensor, l: int) -> tuple[Tensor, Tensor]:\n        W = self.config.W\n",
        ),
        (
            ["z_bsd <- Linear_l(W_l z_bsd + x_bsd)", "h_bsd = tanh(z_bsd)", "z_bsd <- z_bsd h_bsd"],
            "            z_bsd = block(z_bsd, x_bsd, l)\n",
            "    def forward(self, z_bsd: Tensor, x_bsd: Tensor, l: int) -> Tensor:\n        W = self.config.W\n",
        ),
        (  # a block has no weights of the model's
            ["weights once: Linear", "n_bsd <- n_bsd W_l", "z_bsd <- Linear_l(once(z_bsd))"],
            "            z_bsd = block.Linear(self.once(z_bsd))\n",
            '    """The weights of one turn of the loop over l."""\n',
        ),
    ],
    ids="before two number outside".split(),  # noqa: SIM905
)
def test_the_forward_of_a_block_is_a_turn_of_the_loop(body: list[str], call: str, head: str) -> None:
    weights = "".join(f"  {line}" for line in body if line.startswith("weights"))
    turn = "\n".join(f"    {line}" for line in body if not line.startswith("weights"))
    bound = einformer.parse(TURNING.format(weights=weights, body=turn)).bind(D=3, L=3)
    random = np.random.default_rng(0)
    x = random.standard_normal((2, 5, 3))
    arrays = {path: random.standard_normal(shape) / 9 for path, shape in bound.weight_shapes().items()}
    for plan in PLANS:
        assert call in bound.source(plan)
        assert head in bound.source(plan)
        module = bound.build(plan=plan, dtype=torch.float64)
        module.load_state_dict({path: torch.from_numpy(array) for path, array in arrays.items()})
        assert module(torch.from_numpy(x)).detach().numpy() == pytest.approx(bound.reference(x, weights=arrays), abs=1e-12)


@pytest.mark.parametrize("name", ["gpt2", "llama", "deepseek_v3"])
def test_a_block_is_computed_again(name: str) -> None:
    """By `torch.utils.checkpoint`, as people wrap blocks: the gradients are those of the whole."""
    module: Any = built(model(name), "fast").train()
    again, given = copy.deepcopy(module), tokens(name)
    for block in again.blocks:
        block.forward = functools.partial(checkpoint, type(block).forward, block, use_reentrant=False)
    for one in (module, again):
        torch.manual_seed(0)
        one(given).square().sum().backward()
    for ours, theirs in zip(module.parameters(), again.parameters(), strict=True):
        assert error(ours.grad, theirs.grad) < 1e-12


def test_no_size_stands_in_the_code_of_another_model() -> None:
    """Half a head of a rotation follows the head, which is a number here; of a rank every size is a number."""
    names: dict[str, Any] = {"__name__": "pasted"}
    exec(compile(einformer.model("llama-3-8b").source(), "<pasted>", "exec", dont_inherit=True), names)
    small = names["Llama"](names["Config"](D=12, G=2, J=3, H=6, F=20, V=11, L=2))
    assert small(torch.zeros(2, 9, dtype=torch.long)).shape == (2, 9, 11)
    assert "    H: int = 64  # head\n" in einformer.model("gpt2").source(mesh="tp=4", shard="tp: a f")


def test_a_size_that_is_a_sum_is_a_factor() -> None:
    """Of the rows of weights in one parameter, of groups of axes and of what a matrix sums."""
    axes = "axes\n  b: B\n  s: S\n  d: D\n  a: A\n  n: N\n  e: E\n  q: N + E\n"
    maps = [f"  {x.lower()}_bsqa = z_bsd {x}_dqa\n" for x in "QKV"]
    head = "model M(z_bsd) -> y_bsd causal in s:\n  weights Q_dqa, K_dqa, V_dqa, O_qad, P_nd, R_ed\n"
    ends = "  w_bss'a = Sm_s'(q_bsqa k_bs'qa + m_ss')\n  y_bsqa = w_bss'a v_bs'qa\n  h_bsn = z_bsd P_nd\n  g_bse = z_bsd R_ed\n"
    ends += "  return y_bsqa O_qad + P_nd h_bsn + R_ed g_bse\n"
    bound = einformer.parse(f"{axes}{head}{''.join(maps)}  m_ss' = where(s' <= s, 0, -inf)\n{ends}").bind(D=7, A=3, N=2, E=5)
    (array,) = inputs(bound, {"B": 2, "S": 3})
    expected = bound.reference(array, weights=weights(bound))
    for plan in PLANS:
        assert error(built(bound, plan)(torch.from_numpy(array)), expected) < 1e-12


@pytest.mark.parametrize("plan", PLANS)
def test_a_size_that_is_a_product_follows_the_config(plan: str) -> None:
    """Shared experts are as large as some of the chosen ones; no axis has how many."""
    names: dict[str, Any] = {"__name__": "pasted"}
    exec(compile(model("deepseek_v3").source(plan), "<pasted>", "exec", dont_inherit=True), names)
    module, bound = names["DeepSeekV3"](names["Config"](M=4, Z=3)), model("deepseek_v3")
    other = bound.spec.bind(**{**bound.legend.values, "M": 4, "Z": 3, "T": 5, "Y": 2, "P": 1})
    assert {name: tuple(weight.shape) for name, weight in module.state_dict().items()} == other.weight_shapes()


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("name", few(SMALL, FEW_TEXTS))
def test_names_may_be_in_ascii(name: str, plan: str) -> None:
    """The same program: in each place another name, and in no two places one name for two."""
    plain, ascii_ = model(name).source(plan), model(name).source(plan, ascii=True)
    assert ascii_.isascii()
    assert max(map(len, ascii_.split("\n"))) <= 128
    pairs = dict[str, str]()
    for ours, theirs in zip(words(plain), words(ascii_), strict=True):
        assert pairs.setdefault(ours, theirs) == theirs
    assert len(set(pairs.values())) == len(pairs)


def words(text: str) -> list[str]:
    """The names, numbers and signs of a file, without docstrings, in the order of its tree."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.Module) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return re.findall(r"\w+|\S", ast.dump(tree))


def test_letters_are_spelled_as_they_are_called() -> None:
    """Apart from what Python has already, and from what another letter is called."""
    names = ["γ", "ακν", "γ0", "zγ", "θ_h", "Θ", "λ", "é", "gamma", "a"]
    assert list(romanise(" ".join(names)).items()) == [
        ("γ", "gamma_"),
        ("ακν", "alpha_kappa_nu"),
        ("γ0", "gamma0"),
        ("zγ", "z_gamma"),
        ("θ_h", "theta_h"),
        ("Θ", "Theta"),
        ("λ", "lambda_"),
        ("é", "e"),
    ]


def test_a_module_in_ascii_computes_the_same() -> None:
    """Its weights are those of the other, in the same order, by other names."""
    names: dict[str, Any] = {"__name__": "pasted"}
    exec(compile(model("gemma2").source(ascii=True), "<pasted>", "exec", dont_inherit=True), names)
    ours, theirs = names["Gemma2"]().double().eval(), built(model("gemma2"), "fast")
    assert all(key.isascii() for key in ours.state_dict())
    ours.load_state_dict(dict(zip(ours.state_dict(), theirs.state_dict().values(), strict=True)))
    assert torch.equal(ours(tokens("gemma2")), theirs(tokens("gemma2")))


@pytest.mark.parametrize("plan", PLANS)
def test_a_fresh_module_is_in_training_mode_like_any_other(plan: str) -> None:
    """So dropout drops, until it is told not to; a copy is in the mode that its original is in."""
    module, given = model("gpt2").build(plan=plan), tokens("gpt2")
    assert all(each.training for each in module.modules())
    assert not torch.equal(module(given), module(given))
    assert torch.equal(module.eval()(given), copy.deepcopy(module)(given))


TAPS = """axes b, s, d, c: C
layer Taps(x_bsd) -> y_bsd:
  weights κ_dc
  return silu(κ_dc x_{b(SLOT)d})
model Convolved(x_bsd) -> y_bsd causal in s:
  return Taps(x_bsd) + x_bsd
"""


@pytest.mark.parametrize(("slot", "turned"), [("s + c - C + 1", False), ("s - c", True)])
def test_a_convolution_over_earlier_positions_gathers_nothing(slot: str, turned: bool) -> None:
    model = einformer.parse(TAPS.replace("SLOT", slot)).bind(D=5, C=3)
    module: Any = model.build(dtype=torch.float64)
    assert ".unfold(1, C, 1)" in model.source()
    assert "clamp" not in model.source()
    x_bsd = torch.randn(2, 7, 5, dtype=torch.float64, requires_grad=True)
    kernel: Tensor = next(module.parameters())
    taps = kernel.flip(-1) if turned else kernel
    theirs = nn.functional.silu(nn.functional.conv1d(nn.functional.pad(x_bsd.mT, (2, 0)), taps[:, None], groups=5)).mT + x_bsd
    ours = module(x_bsd)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
    slopes = (torch.autograd.grad(y.square().sum(), [x_bsd, kernel], retain_graph=True) for y in (ours, theirs))
    for a, b in zip(*slopes, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-11)
    one, another = module(x_bsd[:, :1]), module(x_bsd)[:, :1]  # fewer positions than taps
    torch.testing.assert_close(one, another, rtol=0, atol=1e-12)
