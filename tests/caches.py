"""Which texts keep something that no shipped one keeps, and what? Attention, states and taps as a user may write them."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

import einformer
from einformer.objects import Model

SIZES = {"D": 7, "E": 5, "C": 3, "L": 2, "V": 53}


@dataclass(frozen=True, slots=True)
class Cached:
    """A text with these axes, and how many old positions each tensor is kept at; None is all."""

    name: str
    axes: str
    body: str
    kept: Mapping[str, int | None]

    def model(self) -> Model:
        """With small sizes; `W` is a window of four, `N_l` one in every second turn."""
        axes = "".join(f"  {letter}: {letter.upper()}\n" for letter in self.axes)
        lines = [line for line in ("W = 4", "N_l = where(l mod 2 == 0, 4, inf)") if line[0] in self.body]
        scalars = "".join(f"  {line}\n" for line in lines)
        sizes = (letter.upper() for letter in self.axes if letter not in "bs")
        return _bind(f"axes\n{axes}{'scalars' * bool(lines)}\n{scalars}{self.body}", tuple(sizes))


@functools.cache
def _bind(text: str, letters: tuple[str, ...]) -> Model:
    """One model for all tests of a text: it writes the files of its modules once."""
    return einformer.parse(text).bind(**{letter: SIZES[letter] for letter in letters})


ATTENTION = """layer Attend(z_sd) -> z_sd:
  weights Q_de, K_de, V_de, O_ed
  q_se = z_sd Q_de
  k_se = z_sd K_de
  v_se = z_sd V_de
  m_ss' = where({mask}, 0, -inf)
  w_ss' = Sm_s'(q_se k_s'e + m_ss')
  y_se = w_ss' v_s'e
  return y_se O_ed
"""
MODEL = "model Text(z_bsd) -> y_bsd causal in s:\n  return {body}\n"


def attention(mask: str) -> str:
    """A model of one attention with this condition as its mask."""
    return ATTENTION.format(mask=mask) + MODEL.format(body="z_bsd + Attend(z_bsd)")


CACHES = (
    Cached("a window", "bsde", attention("s - W < s' <= s"), {"Attend.k": 3, "Attend.v": 3}),
    Cached(
        "chunks reach back to their start",
        "bsde",
        attention("s' <= s and floor(s / 4) == floor(s' / 4)"),
        {"Attend.k": 3, "Attend.v": 3},
    ),
    Cached(
        "the first positions and a window",
        "bsde",
        attention("s' <= s and (s' < 2 or s - W < s')"),
        {"Attend.k": None, "Attend.v": None},
    ),
    Cached(
        "what is projected at s' is kept itself",
        "bsdec",
        """layer Attend(z_sd) -> z_sd:
  weights Q_de, B_dc, K_ce, V_ce, O_ed
  q_se = z_sd Q_de
  c_sc = z_sd B_dc
  k_s'e = c_s'c K_ce
  v_s'e = c_s'c V_ce
  w_ss' = Sm_s'(q_se k_s'e + where(s - W < s' <= s, 0, -inf))
  y_se = w_ss' v_s'e
  return y_se O_ed
"""
        + MODEL.format(body="Attend(z_bsd)"),
        {"Attend.c": 3},
    ),
    Cached(
        "a layer that turns keys at s' keeps them unturned",
        "bsde",
        """layer Turn(x_se) -> x_se:
  return x_se cos(s / 7 + e)
layer Attend(z_sd) -> z_sd:
  weights Q_de, K_de, V_de, O_ed
  q_se = Turn(z_sd Q_de)
  k_se = z_sd K_de
  v_se = z_sd V_de
  w_ss' = Sm_s'(q_se Turn(k_s'e) + where(s - W < s' <= s, 0, -inf))
  return w_ss' v_s'e O_ed
"""
        + MODEL.format(body="Attend(z_bsd)"),
        {"Attend.k": 3, "Attend.v": 3},
    ),
    Cached(
        "positions that a layer chooses",
        "bsde",
        """scalars
  T = 3
layer Choose(z_sd, m_ss') -> m_ss':
  weights I_de, J_de
  i_se = z_sd I_de
  j_se = z_sd J_de
  return where(top_{T,s'}(i_se j_s'e + m_ss'), m_ss', -inf)
layer Attend(z_sd) -> z_sd:
  weights Q_de, K_de, V_de, O_ed
  q_se = z_sd Q_de
  k_se = z_sd K_de
  v_se = z_sd V_de
  m_ss' = where(s' <= s, 0, -inf)
  w_ss' = Sm_s'(q_se k_s'e + Choose(z_sd, m_ss'))
  return w_ss' v_s'e O_ed
"""
        + MODEL.format(body="Attend(z_bsd)"),
        {"Attend.Choose.j": None, "Attend.k": None, "Attend.v": None},
    ),
    Cached(
        "positions that a layer chooses for those after it",
        "bsdel",
        """scalars
  T = 3
layer Choose(z_sd, m_ss') -> m_ss':
  weights I_de, J_de
  i_se = z_sd I_de
  j_se = z_sd J_de
  return where(top_{T,s'}(i_se j_s'e + m_ss'), 1, 0)
layer Attend(z_sd, m_ss') -> z_sd:
  weights Q_de, K_de, V_de, O_ed
  q_se = z_sd Q_de
  k_se = z_sd K_de
  v_se = z_sd V_de
  w_ss' = Sm_s'(q_se k_s'e + m_ss')
  return w_ss' v_s'e O_ed
model Text(z_bsd) -> y_bsd causal in s:
  m_ss' = where(s' <= s, 0, -inf)
  t_bss' = where(s' <= s, z_bsd z_bs'd, 0)
  for l < L:
    t_bss' <- where(l mod 2 == 1, Choose_l(z_bsd, m_ss'), t_bss')
    z_bsd <- z_bsd + Attend_l(z_bsd, where(t_bss' > 0, m_ss', -inf))
  return z_bsd
""",
        {
            "z": None,
            **{f"blocks.{turn}.Attend.{name}": None for turn in range(2) for name in "kv"},
            "blocks.1.Choose.j": None,
        },
    ),
    Cached(
        "keys of a layer for those after it",
        "bsdel",
        """layer Keys(z_sd) -> k_se:
  weights K_de
  return z_sd K_de
layer Attend(z_sd, k_se, m_ss') -> z_sd:
  weights Q_de, O_ed
  q_se = z_sd Q_de
  w_ss' = Sm_s'(q_se k_s'e + m_ss')
  return w_ss' k_s'e O_ed
model Text(z_bsd) -> y_bsd causal in s:
  m_ss' = where(s - W < s' <= s, 0, -inf)
  k_bse = Keys(z_bsd)
  for l < L:
    k_bse <- where(l mod 2 == 0, Keys_l(z_bsd), k_bse)
    z_bsd <- z_bsd + Attend_l(z_bsd, k_bse, m_ss')
  return z_bsd
""",
        {"blocks.0.Attend.k": 3},
    ),
    Cached(
        "scores that a layer gives",
        "bsde",
        """layer Score(z_sd) -> t_ss':
  weights Q_de, K_de
  q_se = z_sd Q_de
  k_se = z_sd K_de
  return q_se k_s'e
layer Attend(z_sd) -> z_sd:
  weights V_de, O_ed
  v_se = z_sd V_de
  w_ss' = Sm_s'(Score(z_sd) + where(s - W < s' <= s, 0, -inf))
  return w_ss' v_s'e O_ed
"""
        + MODEL.format(body="Attend(z_bsd)"),
        {"Attend.Score.k": 3, "Attend.v": 3},
    ),
    Cached(
        "a mask that comes after the scores",
        "bsde",
        """layer Attend(z_sd) -> z_sd:
  weights Q_de, K_de, V_de, O_ed
  q_se = z_sd Q_de
  k_se = z_sd K_de
  v_se = z_sd V_de
  t_ss' = q_se k_s'e
  w_ss' = Sm_s'(where(s - W < s' <= s, t_ss', -inf))
  return w_ss' v_s'e O_ed
"""
        + MODEL.format(body="Attend(z_bsd)"),
        {"Attend.k": 3, "Attend.v": 3},
    ),
    Cached(
        "attention that is given keys at s'",
        "bsde",
        """layer Mix(q_se, k_s'e, v_s'e) -> y_se:
  w_ss' = Sm_s'(q_se k_s'e + where(s - W < s' <= s, 0, -inf))
  return w_ss' v_s'e
model Text(z_bsd) -> y_bsd causal in s:
  weights Q_de, K_de, V_de, O_ed
  q_bse = z_bsd Q_de
  k_bse = z_bsd K_de
  v_bse = z_bsd V_de
  y_bse = Mix(q_bse, k_bs'e, v_bs'e)
  return y_bse O_ed
""",
        {"k": 3, "v": 3},
    ),
    Cached(
        "keys that two layers share are kept once",
        "bsde",
        """layer Mix(q_se, k_se, v_se) -> y_se:
  w_ss' = Sm_s'(q_se k_s'e + where(s' <= s, 0, -inf))
  return w_ss' v_s'e
model Text(z_bsd) -> y_bsd causal in s:
  weights Q_de, K_de, V_de, O_ed
  k_bse = z_bsd K_de
  v_bse = z_bsd V_de
  y_bse = Mix(z_bsd Q_de, k_bse, v_bse)
  y'_bse = Mix(y_bse, k_bse, v_bse)
  return y'_bse O_ed
""",
        {"Mix.k": None, "Mix.v": None},
    ),
    Cached(
        "layers in a loop share keys and the last inputs",
        "bsdel",
        """layer Mix(q_sd, k_se, v_sd) -> y_sd:
  weights Q_de
  q'_se = q_sd Q_de
  w_ss' = Sm_s'(q'_se k_s'e + where(s - W < s' <= s, 0, -inf))
  return w_ss' v_s'd + where(s >= 1, q_{(s - 1)d}, 0) / 2
model Text(z_bsd) -> y_bsd causal in s:
  weights K_de
  k_bse = tanh(z_bsd) K_de
  v_bsd = sin(z_bsd)
  for l < L:
    z_bsd <- z_bsd + Mix_l(z_bsd, k_bse, v_bsd)
  return z_bsd
""",
        {"blocks.0.Mix.q": 1, "blocks.0.Mix.k": 3, "blocks.0.Mix.v": 3, "blocks.1.Mix.q": 1},
    ),
    Cached(
        "one block for all layers is kept for each",
        "bsdel",
        ATTENTION.format(mask="s' <= s")
        + """model Text(z_bsd) -> y_bsd causal in s:
  weights block: Attend
  for l < L:
    z_bsd <- z_bsd + block(z_bsd)
  return z_bsd
""",
        {f"blocks.{turn}.block.{name}": None for turn in range(2) for name in "kv"},
    ),
    Cached(
        "two kinds of layers in turn",
        "bsdel",
        ATTENTION.format(mask="s' <= s")
        + """layer Shift(z_sd) -> z_sd:
  weights A_d
  x_sd = A_d z_sd
  return x_{(s - 2)d} + x_sd
model Text(z_bsd) -> y_bsd causal in s:
  for l < L:
    z_bsd <- z_bsd + where(l mod 2 == 0, Attend_l(z_bsd), Shift_l(z_bsd))
  return z_bsd
""",
        {"blocks.0.Attend.k": None, "blocks.0.Attend.v": None, "blocks.1.Shift.x": 2},
    ),
    Cached(
        "a layer without weights keeps what it is given",
        "bsd",
        """layer Shift(x_sd) -> x_sd:
  return x_{(s - 1)d} - x_sd
model Text(z_bsd) -> y_bsd causal in s:
  weights A_d
  y_bsd = Shift(A_d z_bsd)
  return Shift(y_bsd) + Shift(tanh(y_bsd)) z_bsd
""",
        {"Shift.x": 1, "Shift.2.x": 1, "Shift.3.x": 1},
    ),
    Cached(
        "what is changed is kept as it was read",
        "bsdl",
        """model Text(z_bsd) -> y_bsd causal in s:
  weights A_d
  for l < L:
    w_bss' = Sm_s'(z_bsd z_bs'd + where(s' <= s, 0, -inf))
    z_bsd <- tanh(w_bss' A_d z_bs'd) + z_bsd
  return z_bsd
""",
        {"z": None, "blocks.0.z": None},
    ),
    Cached(
        "tokens are kept as tokens",
        "bsdv",
        """model Text(x_bs) -> y_bsd causal in s:
  weights E_vd, A_d
  w_bss' = Sm_s'(E_{x_bs d} A_d E_{x_bs' d} + where(s' <= s, 0, -inf))
  return w_bss' E_{x_bs' d}
""",
        {"x": None},
    ),
    Cached(
        "two kinds of caches in one layer",
        "bsdec",
        """layer Both(z_sd) -> z_sd:
  weights K_de, V_de, χ_ce, A_e, O_ed
  k_se = z_sd K_de
  k'_se = χ_ce k_{(s - c)e}
  v_se = z_sd V_de
  S_se = sigmoid(A_e) S_{(s - 1)e} + v_se
  c_se = cumsum_s(k'_se)
  w_ss' = Sm_s'(k'_se k'_s'e + where(s - W < s' <= s, 0, -inf))
  return (w_ss' S_s'e + tanh(c_se)) O_ed
"""
        + MODEL.format(body="Both(z_bsd)"),
        {"Both.k": 2, "Both.k_prime": 3, "Both.S": 3, "Both.c.sum": 1},
    ),
    Cached(
        "the sum so far",
        "bsd",
        "model Text(z_bsd) -> y_bsd causal in s:\n  c_bsd = cumsum_s(1 + tanh(z_bsd))\n  return c_bsd / (s + 1)\n",
        {"c.sum": 1},
    ),
    Cached(
        "a sum over positions that keeps nothing",
        "bsd",
        "model Text(z_bsd) -> y_bsd causal in s:\n  n_ss' = where(s' <= s, 1 / (s' + 1), 0)\n"
        "  h_s = sum_s' n_ss'\n  return h_s z_bsd\n",
        {},
    ),
    Cached(
        "two loops change one tensor, and a third is in a loop",
        "bsdel",
        """model Text(z_bsd) -> y_bsd causal in s:
  weights A_d
  for l < L:
    z_bsd <- z_bsd + tanh(A_d z_{b(s - 1)d})
  for l < L:
    z_bsd <- z_bsd + tanh(z_{b(s - 2)d})
    for e < E:
      z_bsd <- z_bsd / 2 + sin(z_bsd)
  return z_bsd + z_{b(s - 1)d}
""",
        {
            "z": 1,
            "blocks.0.z": 1,
            "blocks.1.z": 2,
            "blocks.0.blocks.4.z": 2,
            "blocks.1.blocks.4.z": 1,
        },
    ),
    Cached(
        "a state whose last values are read again",
        "bsdc",
        """model Text(z_bsd) -> y_bsd causal in s:
  weights χ_c
  S_bsd = tanh(S_{b(s - 1)d}) / 2 + z_bsd
  return χ_c S_{b(s - c)d}
""",
        {"S": 2},
    ),
    Cached(
        "the first position is read by all",
        "bsd",
        """layer Anchor(x_sd) -> x_sd:
  weights A_d
  k_sd = tanh(A_d x_sd)
  return x_sd + k_{0 d} + where(s >= 2, k_{2 d}, 0)
"""
        + MODEL.format(body="Anchor(z_bsd) + where(s >= 1, z_{b 1 d}, 0)"),
        {"z": None, "Anchor.k": None},
    ),
    Cached(
        "a position with a name",
        "bsd",
        """model Text(z_bsd) -> y_bsd causal in s:
  k_bsd = tanh(z_bsd)
  n_s = floor(s / 2)
  m_s = max(s - 2, 0)
  return k_{b n_s d} + z_bsd k_{b m_s d}
""",
        {"k": None},
    ),
    Cached(
        "a window, and positions before it",
        "bsdc",
        """model Text(z_bsd) -> y_bsd causal in s:
  weights A_d, χ_c
  k_bsd = tanh(A_d z_bsd)
  w_bss' = Sm_s'(z_bsd k_bs'd + where(s - W < s' <= s, 0, -inf))
  return w_bss' k_bs'd + χ_c k_{b(s - 2 c)d}
""",
        {"k": 4},
    ),
    Cached(
        "the position before each that is seen",
        "bsde",
        """layer Mix(q_se, k_s'e, v_s'e) -> y_se:
  w_ss' = Sm_s'(q_se k_{(s' - 1)e} + where(s' <= s, 0, -inf))
  return w_ss' v_{(s' - 1)e} + v_{0 e}
model Text(z_bsd) -> y_bsd causal in s:
  weights Q_de, B_dd', V_d'e, O_ed
  c_bsd = tanh(z_bsd' B_d'd)
  k_bs'e = c_bs'd V_de
  y_bse = Mix(z_bsd Q_de, k_bs'e, k_bs'e)
  return y_bse O_ed
""",
        {"c": None},
    ),
    Cached(
        "two indices see different positions",
        "bsd",
        """model Text(z_bsd) -> y_bsd causal in s:
  w_bss' = Sm_s'(z_bsd z_bs'd + where(s - W < s' <= s, 0, -inf))
  w'_bss'' = Sm_s''(tanh(z_bsd) z_bs''d + where(s'' <= s, s'' - s, -inf))
  return w_bss' z_bs'd + w'_bss'' z_bs''d
""",
        {"z": None},
    ),
    Cached(
        "a state that reads the first position",
        "bsd",
        """model Text(z_bsd) -> y_bsd causal in s:
  k_bsd = tanh(z_bsd)
  S_bsd = tanh(S_{b(s - 1)d}) + k_{b 0 d} k_bsd
  return S_bsd
""",
        {"k": None, "S": 1},
    ),
    Cached(
        "a window beside all positions",
        "bsd",
        """model Text(z_bsd) -> y_bsd causal in s:
  k_bsd = tanh(z_bsd)
  v_bsd = sin(z_bsd)
  w_bss' = Sm_s'(z_bsd k_bs'd + where(s - W < s' <= s, 0, -inf))
  w'_bss' = Sm_s'(z_bsd v_bs'd + where(s' <= s, 0, -inf))
  return w_bss' k_bs'd + w'_bss' v_bs'd
""",
        {"k": None, "v": None},
    ),
    Cached(
        "a wide window beside a narrow one",
        "bsd",
        """layer Attend(z_sd) -> z_sd:
  weights K_d, V_d
  k_sd = K_d z_sd
  v_sd = V_d z_sd
  w_ss' = Sm_s'(z_sd k_s'd + where(s - 2 < s' <= s, 0, -inf))
  w'_ss' = Sm_s'(z_sd v_s'd + where(s - W < s' <= s, 0, -inf))
  return w_ss' k_s'd + w'_ss' v_s'd
"""
        + MODEL.format(body="Attend(z_bsd)"),
        {"Attend.k": 3, "Attend.v": 3},
    ),
    Cached(
        "windows in turn in one layer",
        "bsdl",
        """model Text(z_bsd) -> y_bsd causal in s:
  for l < L:
    w_bss' = Sm_s'(z_bsd z_bs'd + where(s - N_l < s' <= s, 0, -inf))
    z_bsd <- tanh(z_bsd) + w_bss' z_bs'd
  return z_bsd
""",
        {"z": None, "blocks.0.z": None},
    ),
    Cached(
        "one tensor under two names",
        "bsd",
        """model Text(z_bsd) -> y_bsd causal in s:
  k_bsd = z_bsd
  w_bss' = Sm_s'(z_bsd z_bs'd + where(s - 2 < s' <= s, 0, -inf))
  return w_bss' z_bs'd + k_{b(s - 5)d}
""",
        {"z": 1, "k": 5},
    ),
    Cached(
        "nothing is kept", "bsd", "model Text(z_bsd) -> y_bsd causal in s:\n  weights A_d\n  return A_d z_bsd sin(s + 1)\n", {}
    ),
)

NUMBERS = Cached(
    "numbers of positions are computed anew",
    "bsd",
    """model Text(z_bsd) -> y_bsd causal in s:
  weights A_d
  h_s = sin(s + 1)
  f_sd = A_d h_s
  w_bss' = Sm_s'(z_bsd z_bs'd + where(s' <= s, h_s h_s', -inf))
  return w_bss' f_s'd + h_{(s - 1)} z_bsd
""",
    {"z": None},
)
