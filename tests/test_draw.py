"""Does a picture show the equations, what each reads, and nothing on top of anything else? Pictures are read as SVG."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from xml.etree import ElementTree

import pytest

import einformer as ein
from einformer.cli import main
from tests.few import few
from tests.shipped import TEXTS

SVG = "{http://www.w3.org/2000/svg}"
Place = tuple[float, float]


@dataclass(frozen=True)
class Box:
    """A box of one panel, in pixels of the picture."""

    kind: str
    text: str
    left: float
    top: float
    right: float
    bottom: float

    def holds(self, x: float, y: float) -> bool:
        return self.left - 1 <= x <= self.right + 1 and self.top - 1 <= y <= self.bottom + 1

    def overlaps(self, other: Box) -> bool:
        return min(self.right, other.right) > max(self.left, other.left) and min(self.bottom, other.bottom) > max(
            self.top, other.top
        )

    @property
    def name(self) -> str:
        """What the box defines: `w` of `w_bss'a = …`; `z` of an input."""
        return re.split(r"[_ (]", self.text)[0]


@dataclass(frozen=True)
class Picture:
    panels: list[Box]
    loops: list[Box]
    boxes: list[Box]
    arrows: list[tuple[Place, Place]]

    def box(self, place: Place) -> Box:
        """The box that an arrow ends at."""
        return min((box for box in self.boxes if box.holds(*place)), key=lambda box: box.right - box.left)

    def pairs(self) -> set[tuple[str, str]]:
        """Which box reads which; arrows that come out of a loop start at its frame."""
        ends = [(next((b for b in self.boxes if b.holds(*start)), None), self.box(end)) for start, end in self.arrows]
        return {(one.text if one else "loop", other.text) for one, other in ends}


def read(svg: str) -> Picture:
    picture = Picture([], [], [], [])
    _read(ElementTree.fromstring(svg), 0, 0, picture)
    return picture


def _read(element: ElementTree.Element, x: float, y: float, picture: Picture) -> None:
    children = [child for child in element if child.tag != f"{SVG}defs"]
    for child, after in zip(children, [*children[1:], None], strict=True):
        kind = child.get("class", "")
        if child.tag == f"{SVG}g":
            aside, down = map(float, re.findall(r"-?[\d.]+", child.get("transform", "")))
            _read(child, x + aside, y + down, picture)
        elif child.tag == f"{SVG}rect" and kind != "paper" and float(child.get("height", 0)) > 14:
            left, top, width, height = (float(child.get(name, 0)) for name in ("x", "y", "width", "height"))
            text = _text(after) if after is not None and kind not in ("panel", "loop") else ""
            box = Box(kind, text, x + left, y + top, x + left + width, y + top + height)
            (picture.panels if kind == "panel" else picture.loops if kind == "loop" else picture.boxes).append(box)
        elif child.tag == f"{SVG}circle":
            middle, centre, radius = (float(child.get(name, 0)) for name in ("cx", "cy", "r"))
            sides = (middle - radius + x, centre - radius + y, middle + radius + x, centre + radius + y)
            picture.boxes.append(Box("sum", "+", *sides))
        elif child.tag == f"{SVG}path" and kind in ("arrow", "stream"):
            path = child.get("d", "")
            start, end = re.match(r"M([-\d.e]+) ([-\d.e]+)", path), _end(path)
            assert start
            picture.arrows.append(((float(start[1]) + x, float(start[2]) + y), (end[0] + x, end[1] + y)))


def _end(path: str) -> Place:
    x = y = 0.0
    for command, numbers in re.findall(r"([MCV])([^MCV]*)", path):
        values = [float(number) for number in numbers.split()]
        x, y = (x, values[0]) if command == "V" else (values[-2], values[-1])
    return x, y


def _text(element: ElementTree.Element) -> str:
    """`w_bss'a = Sm_s'(…)`: what is written small stands after `_`."""
    parts = groupby(element, lambda part: part.get("class") == "small")
    return "".join("_" * small + "".join(part.text or "" for part in group) for small, group in parts)


@pytest.fixture(scope="module")
def gpt2() -> Picture:
    return read(ein.model("gpt2").draw())


def test_arrows_are_what_equations_read(gpt2: Picture) -> None:
    """The picture of GPT-2, by hand."""
    attention = {
        ("z_bsd", "q_bsea = z_bsd Q_dea + α_ea"),
        ("z_bsd", "k_bsea = z_bsd K_dea + κ_ea"),
        ("z_bsd", "v_bsea = z_bsd V_dea + ν_ea"),
        ("q_bsea = z_bsd Q_dea + α_ea", "w_bss'a = Sm_s'(q_bsea k_bs'ea / √(H) + m_ss')"),
        ("k_bsea = z_bsd K_dea + κ_ea", "w_bss'a = Sm_s'(q_bsea k_bs'ea / √(H) + m_ss')"),
        ("m_ss' = where(s' ≤ s, 0, -∞)", "w_bss'a = Sm_s'(q_bsea k_bs'ea / √(H) + m_ss')"),
        ("w_bss'a = Sm_s'(q_bsea k_bs'ea / √(H) + m_ss')", "y_bsea = Dr(w_bss'a) v_bs'ea"),
        ("v_bsea = z_bsd V_dea + ν_ea", "y_bsea = Dr(w_bss'a) v_bs'ea"),
        ("y_bsea = Dr(w_bss'a) v_bs'ea", "u_bs(ae) = y_bsea"),
        ("u_bs(ae) = y_bsea", "z_bsd = Dr(u_bsd' O_d'd + ω_d)"),
        ("z_bsd = Dr(u_bsd' O_d'd + ω_d)", "z_bsd"),
    }
    mlp = {
        ("z_bsd", "h_bsf = gelutanh(z_bsd W_df + ω_f)"),
        ("h_bsf = gelutanh(z_bsd W_df + ω_f)", "z_bsd = Dr(h_bsf U_fd + υ_d)"),
        ("z_bsd = Dr(h_bsf U_fd + υ_d)", "z_bsd"),
    }
    norm = "z_d = γ_d (z_d - mean_d(z_d)) / √(var_d(z_d) + ε) + β_d"
    model = {
        ("x_bs", "z_bsd = Dr(E_xbs d + P_sd)"),
        ("z_bsd = Dr(E_xbs d + P_sd)", "z_bsd"),
        ("z_bsd", "+"),
        ("z_bsd", "LayerNorm_l"),
        ("LayerNorm_l", "CausalAttention_l"),
        ("CausalAttention_l", "+"),
        ("+", "+"),
        ("+", "LayerNorm_l"),
        ("LayerNorm_l", "MLP_l"),
        ("MLP_l", "+"),
        ("+", "z_bsd"),
        ("loop", "y_bsv = LayerNorm(z_bsd) E_vd"),
        ("y_bsv = LayerNorm(z_bsd) E_vd", "y_bsv"),
    }
    assert gpt2.pairs() == attention | mlp | {("z_d", norm), (norm, "z_d")} | model


def test_the_stream_is_a_straight_line_in_the_middle() -> None:
    root = ElementTree.fromstring(ein.load("gpt2").draw())
    streams = [path.get("d", "") for path in root.iter(f"{SVG}path") if path.get("class") == "stream"]
    assert len(streams) == 3
    assert {abs(float(number)) for path in streams for number in re.findall(r"(?:[MC ])(-?[\d.]+) ", path)} >= {0}
    assert all({float(x) for x in re.findall(r"([-\d.]+) [-\d.]+", path)} == {0} for path in streams)


@pytest.mark.parametrize("text", few(TEXTS, {"gpt2", "deepseek_v3", "gemma3", "qwen3_next", "t5"}))
def test_boxes_stand_apart_in_their_panel(text: str) -> None:
    picture = read(ein.load(text).draw())
    for i, box in enumerate(picture.boxes):
        assert not [other.text for other in picture.boxes[:i] if other.overlaps(box)], box
        assert any(
            panel.left < box.left and box.right < panel.right and box.bottom < panel.bottom for panel in picture.panels
        ), box
    assert not [one for one in picture.panels for other in picture.panels if one is not other and one.overlaps(other)]


@pytest.mark.parametrize("text", few(TEXTS, {"gpt2", "deepseek_v3", "gemma3", "qwen3_next", "t5"}))
def test_an_equation_has_an_arrow_for_each_name_that_it_reads_and_no_other(text: str) -> None:
    """Names are read as letters: those right of `=` that a box of the panel defines."""
    picture = read(ein.load(text).draw())
    for panel in picture.panels:
        boxes = [box for box in picture.boxes if panel.overlaps(box) and box.kind != "sum"]
        names = {box.name for box in boxes if box.kind == "end" or " = " in box.text}
        for box in (box for box in boxes if " = " in box.text):
            right = box.text.partition(" = ")[2]
            named = names.intersection(name for name, _ in re.findall(r"(?<![\w'])([^\W_]+'*)(_[^\s()]*)", right))
            starts = [start for start, end in picture.arrows if box.holds(*end) and abs(end[1] - box.top) < 1]
            sources = [next((b.name for b in boxes if b.holds(*start)), "") for start in starts]  # none of a loop, of a sum
            assert {name for name in sources if name not in right} <= {""}, (box.text, sources)
            assert "" in sources or named <= {*sources}, (box.text, sources)


# --------------------------------------------------------------------------------------------------------- the command


def test_a_file_appears_beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["draw", "gpt2", "--layer", "MLP"]) == 0
    assert capsys.readouterr().out == "gpt2.svg\n"
    picture = read(Path("gpt2.svg").read_text(encoding="utf-8"))
    assert [box.text for box in picture.boxes if "=" in box.text] == [
        "h_bsf = gelutanh(z_bsd W_df + ω_f)",
        "z_bsd = Dr(h_bsf U_fd + υ_d)",
    ]
    with pytest.raises(SystemExit, match="2"):
        main(["draw", "gpt2", "--layer", "MLP"])
    assert "`gpt2.svg` exists already" in capsys.readouterr().err


def test_a_picture_is_as_wide_as_is_said() -> None:
    for width in (600, 1000, 1600):
        root = ElementTree.fromstring(ein.load("gpt2").draw(width))
        widest = max(panel.right - panel.left for panel in read(ein.load("gpt2").draw(width)).panels)
        assert float(root.get("width", 0)) <= max(width, widest) + 2


def test_shapes_are_the_sizes_of_a_model() -> None:
    assert "B × S × 3,072" in ein.model("gpt2").draw()
    assert "B × S × F" in ein.load("gpt2").draw()
    assert ein.load("gpt2")["MLP"].draw()._repr_svg_().startswith("<svg")


# ---------------------------------------------------------------------------------------------------------------- masks

MASKS = """
axes
  s: S
  l: L

model Masked(z_s) -> z_s causal in s:
  for l < L:
    m_ss' = where(MASK, 0, -inf)
    z_s <- z_s + Sm_s'(z_s z_s' + m_ss') z_s'
  return z_s
"""


def read_masks(drawing: str) -> dict[str, list[set[int]]]:
    """The cells of each row that are filled, by the line above them."""
    grids = {}
    for group in ElementTree.fromstring(drawing).findall(f"{SVG}g"):
        rows: list[set[int]] = [set() for _ in range(32)]
        for run in group.iter(f"{SVG}rect"):
            if run.get("class") == "seen":
                start, count = int(run.attrib["x"]) // 5, int(run.attrib["width"]) // 5
                rows[int(run.attrib["y"]) // 5] |= {*range(start, start + count)}
        grids["".join(group.findall(f"{SVG}text")[1].itertext())] = rows
    return grids


@pytest.mark.parametrize(
    ("mask", "sees"),
    {
        "s' <= s": lambda s, t: t <= s,
        "s - 5 < s' <= s": lambda s, t: s - 5 < t <= s,
        "s' <= s and floor(s / 40) == floor(s' / 40)": lambda s, t: t <= s and s // 40 == t // 40,
        "s' <= s or s' < 0 s": lambda s, t: t <= s,
    }.items(),
)
def test_a_mask_is_drawn_as_positions_see(mask: str, sees: Callable[[int, int], bool]) -> None:
    model = ein.parse(MASKS.replace("MASK", mask)).bind(L=3)
    ((comment, rows),) = read_masks(model.draw_masks()).items()
    step = int(comment.removeprefix("S = ").replace(",", "")) // 32
    assert rows == [{t for t in range(32) if sees(step * s, step * t)} for s in range(32)]
    assert any({*range(s + 1)} != row for s, row in enumerate(rows)) == (mask not in ("s' <= s", "s' <= s or s' < 0 s"))


def test_layers_with_one_mask_share_a_picture() -> None:
    text = MASKS.replace("MASK", "s - W_l < s' <= s").replace("model", "scalars\n  W_l = [4, inf, 4]\n\nmodel")
    grids = read_masks(ein.parse(text).bind(L=3).draw_masks())
    assert [comment.partition("; ")[2] for comment in grids] == ["l = 0, 2", "l = 1"]
    narrow, wide = grids.values()
    assert narrow[31] < wide[31] == {*range(32)}


def test_a_mask_of_data_is_not_drawn() -> None:
    text = MASKS.replace("MASK", "s' <= s and z_s == z_s'")
    assert "no mask that positions decide alone" in ein.parse(text).bind(L=3).draw_masks()


# ----------------------------------------------------------------------------------------------------------- placement

SPLIT = """
axes
  b: B
  s: S
  d: D
  f: F

model Twice(z_bsd) -> z_bsd:
  weights W_df, U_fd, γ_d
  h_bsf = relu(z_bsd W_df)
  return h_bsf U_fd γ_d
"""


def read_placement(drawing: str, layer: str) -> dict[str, list[tuple[float, ...]]]:
    """The part of its frame that each device fills, by tensor of a layer: from left, from above, wide, high."""
    panels = ElementTree.fromstring(drawing).findall(f"{SVG}g")
    (panel,) = (each for each in panels if "".join(each.findall(f"{SVG}text")[0].itertext()).startswith(layer))
    names = [_text(text) for text in panel.findall(f"{SVG}text") if not text.get("class")]
    parts = []
    for group in panel.findall(f"{SVG}g"):
        frame, part = ([float(rect.get(name, 0)) for name in ("x", "y", "width", "height")] for rect in group)
        parts.append(tuple(part[k] / frame[2 + k % 2] for k in range(4)))
    devices = len(parts) // len(names)
    return {name: parts[k * devices : (k + 1) * devices] for k, name in enumerate(names)}


def test_a_tensor_is_filled_where_a_device_has_it() -> None:
    """Columns of `W` and rows of `U` over tp, rows of values over dp, by hand."""
    drawing = ein.parse(SPLIT).bind(D=8, F=4).draw_placement("dp=2,tp=2", "tp: f; dp: b")
    halves = [(0, 0, 0.5, 1), (0.5, 0, 0.5, 1)]
    assert read_placement(drawing, "Twice") == {
        "W_df": halves * 2,
        "U_fd": halves * 2,
        "γ_d": [(0, 0, 1, 1)] * 4,
        "z_bsd": [halves[0]] * 2 + [halves[1]] * 2,
        "h_bsf": [(0, 0, 0.5, 0.5), (0, 0.5, 0.5, 0.5), (0.5, 0, 0.5, 0.5), (0.5, 0.5, 0.5, 0.5)],
    }
    assert re.findall("[dt]p . [dt]p .", drawing) == ["dp 0 tp 0", "dp 0 tp 1", "dp 1 tp 0", "dp 1 tp 1"]


def test_positions_are_split_between_sums() -> None:
    halves, whole = [(0, 0, 0.5, 1), (0.5, 0, 0.5, 1)], [(0, 0, 1, 1)] * 2
    drawing = ein.model("llama-3-8b").draw_placement("tp=2", "tp: g f v (s)")
    assert read_placement(drawing, "RMSNorm") == {"γ_d": whole, "z_bsd": halves}
    assert read_placement(drawing, "Llama") == {
        "E_vd": halves, "U_vd": halves, "x_bs": whole, "m_ss'": whole, "z_bsd": halves, "y_bsv": halves
    }  # fmt: skip


def test_placement_is_drawn_by_the_command(tmp_path: Path) -> None:
    path, shard = tmp_path / "placement.svg", ["--mesh", "tp=16", "--shard", "tp: v"]
    assert main(["draw", "llama-3-8b", *shard, "--out", str(path)]) == 0
    assert path.read_text(encoding="utf-8") == ein.model("llama-3-8b").draw_placement("tp=16", "tp: v")
    assert path.read_text(encoding="utf-8").count(">tp ") == 5 * 8  # the first eight devices, in each of five panels
    with pytest.raises(SystemExit):
        main(["draw", "llama-3-8b", *shard, "--layer", "Attention", "--out", str(path)])
    assert main(["draw", "llama-3-8b", "--mesh", "tp=16", "--shard", "tp: g", "--out", str(path)]) == 1  # E742


def test_masks_are_drawn_by_the_command(tmp_path: Path) -> None:
    path = tmp_path / "masks.svg"
    assert main(["draw", "gpt2", "--masks", "--out", str(path)]) == 0
    assert path.read_text(encoding="utf-8") == ein.load("gpt2").bind().draw_masks()
    with pytest.raises(SystemExit):
        main(["draw", "gpt2", "--masks", "--layer", "MLP", "--out", str(path)])


def test_a_mask_may_say_what_is_hidden() -> None:
    shown, hidden = ("where(s' <= s, 0, -inf)", "where(s' > s, -inf, 0)")
    text = MASKS.replace("MASK", "s' <= s")
    pictures = [ein.parse(text.replace(shown, mask)).bind(L=3).draw_masks() for mask in (shown, hidden)]
    assert read_masks(pictures[0]) == read_masks(pictures[1])
    assert "not (s' > s)" in pictures[1].replace("&gt;", ">")
