"""Which forms may a text that decodes have? Letters of rows in any place, reads of what a loop changes, digits in states."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, replace

import einformer
from einformer.objects import Model

BATCH = 2
SIZES = {  # all as many as there are rows, or each another number
    "alike": {"D": 2, "A": 2, "E": 2, "C": 2, "L": 2, "K": 13, "X": 3},
    "apart": {"D": 5, "A": 3, "E": 4, "C": 3, "L": 3, "K": 13, "X": 5},
}
FIXED = {"i": "2", "s": "S"}


@dataclass(frozen=True, slots=True)
class Form:
    """The lines of a model of `z_bsd` over these axes; before it scalars and layers."""

    name: str
    axes: str
    output: str
    before: str
    body: str

    @property
    def text(self) -> str:
        """The whole file."""
        fixed = FIXED | ({"s": "S <= K"} if "k" in self.axes else {})
        legend = "".join(f"  {letter}: {fixed.get(letter, letter.upper())}\n" for letter in self.axes)
        body = "".join(f"  {line}\n" for line in self.body.splitlines())
        return f"axes\n{legend}{self.before}model Form(z_bsd) -> {self.output} causal in s:\n{body}"

    def model(self, sizes: str) -> Model:
        """With one of the `SIZES`."""
        return _bind(self, sizes)


@functools.cache
def _bind(form: Form, sizes: str) -> Model:
    """One model for all tests of a form: it writes the files of its modules once."""
    bound = {x.upper(): SIZES[sizes][x.upper()] for x in form.axes if x not in "bsi"}
    return einformer.parse(form.text).bind(**bound)


def read(table: str) -> tuple[Form, ...]:
    """The forms of a table: each has a name, its axes, scalars and layers before a line `model`, and the lines of the model."""
    heads = re.compile(r"^# (.*): (\w+)(?: -> (\w+))?\n", re.MULTILINE)
    _, *parts = heads.split(table)
    forms = []
    for name, axes, output, lines in zip(*(parts[k::4] for k in range(4)), strict=True):
        before, _, body = lines.rpartition("model\n")
        forms.append(Form(name, axes, output or "y_bsd", before, body.strip()))
    return tuple(forms)


# Letters of rows in any place.
PLACES = read("""
# keys whose rows come second: bsd
k_dbs = tanh(z_bsd)
w_bss' = Sm_s'(z_bsd k_dbs' + where(s' <= s, 0, -inf))
return w_bss' k_dbs'

# keys whose rows come after positions: bsd
k_sbd = tanh(z_bsd)
w_bss' = Sm_s'(z_bsd k_s'bd + where(s' <= s, 0, -inf))
return w_bss' k_s'bd

# keys whose rows come last: bsd
k_dsb = tanh(z_bsd)
w_bss' = Sm_s'(z_bsd k_ds'b + where(s' <= s, 0, -inf))
return w_bss' k_ds'b

# heads before rows: bsdae
weights Q_dea, K_dea, V_dea, O_dea
q_abse = z_bsd Q_dea
k_abse = z_bsd K_dea
v_abse = z_bsd V_dea
m_ss' = where(s' <= s, 0, -inf)
w_abss' = Sm_s'(q_abse k_abs'e + m_ss')
y_abse = w_abss' v_abs'e
return y_abse O_dea

# a window of heads before rows: bsdae
weights Q_dea, K_dea, V_dea, O_dea
q_abse = z_bsd Q_dea
k_aebs = z_bsd K_dea
v_seab = z_bsd V_dea
w_abss' = Sm_s'(q_abse k_aebs' + where(s - 3 < s' <= s, 0, -inf))
return w_abss' v_s'eab O_dea

# values of one key head times a factor, of several query heads: bsdae
weights Q_dea, K_de, V_de, G_e, O_dea
q_bsea = z_bsd Q_dea
k_bse = z_bsd K_de
v_bse = z_bsd V_de
m_ss' = where(s' <= s, 0, -inf)
w_bss'a = Sm_s'(q_bsea k_bs'e + m_ss')
y_bsea = w_bss'a (v_bs'e G_e)
return y_bsea O_dea

# taps of what has rows last: bsdc
weights χ_cd
k_sdb = tanh(z_bsd)
return χ_cd k_{(s - c)db}

# a state whose rows come second: bsda
weights A_da
S_abs = S_{a b (s - 1)} / 2 + z_bsd A_da
return z_bsd + S_abs A_da

# a state whose rows come last: bsda
weights A_da
S_sab = tanh(S_{(s - 1) a b}) + z_bsd A_da
return z_bsd + S_sab A_da

# a state of pairs before rows: bsdi
weights α_i
S_ibsd = S_{i b (s - 1) d} / 2 + z_bsd α_i
return S_ibsd α_i

# a running sum whose rows come last: bsda
weights A_da
k_asb = tanh(z_bsd A_da)
t_asb = cumsum_s(k_asb)
return z_bsd / (s + 1) + t_asb A_da

# a position with a name, of what has rows last: bsd
k_dsb = tanh(z_bsd)
n_s = floor(s / 2)
return k_{d n_s b} + z_bsd

# the first position of what has rows second: bsd
k_dbs = tanh(z_bsd)
return k_{d b 0} + z_bsd

# a state that is read again, rows second: bsd
S_dbs = tanh(S_{d b (s - 1)}) / 2 + z_bsd
return S_dbs + S_{d b (s - 2)}

# a layer that is given keys whose rows come second: bsd
layer Mix(q_sd, k_ds) -> q_sd:
  w_ss' = Sm_s'(q_sd k_ds' + where(s' <= s, 0, -inf))
  return w_ss' k_ds'
model
k_dbs = tanh(z_bsd)
return Mix(z_bsd, k_dbs)

# an output whose rows come last: bsd -> y_dsb
y_dsb = z_bsd + z_{b(s - 1)d}
""")

# What is read at other positions before, in and after a loop that changes it.
CHANGED = read("""
# attention that one turn needs: bsdl
for l < L:
  w_bss' = Sm_s'(z_bsd z_bs'd + where(s' <= s, 0, -inf))
  h_bsd = w_bss' z_bs'd
  z_bsd <- z_bsd + where(l == 1, h_bsd, sin(z_bsd))
return z_bsd

# a shift that one turn needs: bsdl
for l < L:
  h_bsd = z_{b(s - 2)d} + 1
  z_bsd <- z_bsd + where(l == 1, h_bsd, sin(z_bsd))
return z_bsd

# attention before a loop that shifts: bsdl
w_bss' = Sm_s'(z_bsd z_bs'd + where(s' <= s, 0, -inf))
h_bsd = w_bss' z_bs'd
for l < L:
  z_bsd <- z_{b(s - 2)d} / 2
return z_bsd + h_bsd

# attention after a loop that shifts: bsdl
for l < L:
  z_bsd <- z_bsd + z_{b(s - 2)d} / 2
h_bsd = tanh(z_bsd)
w_bss' = Sm_s'(h_bsd h_bs'd + where(s' <= s, 0, -inf))
return w_bss' h_bs'd

# attention in a loop before what shifts: bsdl
for l < L:
  w_bss' = Sm_s'(z_bsd z_bs'd + where(s' <= s, 0, -inf))
  z_bsd <- w_bss' z_bs'd
  z_bsd <- z_bsd + z_{b(s - 2)d} / 2
return z_bsd

# taps, then attention, of what is changed between: bsdc
weights χ_c
u_bsd = χ_c z_{b(s - c)d}
z_bsd <- tanh(u_bsd)
w_bss' = Sm_s'(z_bsd z_bs'd + where(s' <= s, 0, -inf))
return w_bss' z_bs'd

# shifts of what is changed to what positions say: bsdl
weights P_d
h_bsd = tanh(z_bsd)
for l < L:
  z_bsd <- z_bsd + h_{b(s - 1)d}
  h_bsd <- h_bsd + z_{b(s - 1)d} P_d
return h_bsd

# a tensor that two loops read and change: bsdl
h_bsd = z_bsd
for l < L:
  h_bsd <- h_bsd + h_{b(s - 1)d} / 2
for l < L:
  w_bss' = Sm_s'(h_bsd h_bs'd + where(s - 3 < s' <= s, 0, -inf))
  h_bsd <- h_bsd + w_bss' h_bs'd
return h_bsd

# a window of a list, and all positions: bsid
scalars
  W_i = [2, inf]
model
weights α_id
q_bsid = z_bsd α_id
m_ss'i = where(s - W_i < s' <= s, 0, -inf)
w_bss'i = Sm_s'(q_bsid q_bs'id + m_ss'i)
return w_bss'i q_bs'id / (1 + where(W_i < 9, W_i, 0))

# what is read before and after it is changed: bsdc
weights χ_c
z_bsd <- z_bsd + z_{b(s - 1)d} / 2
v_bsd = χ_c z_{b(s - c)d}
w_bss' = Sm_s'(z_bsd z_bs'd + where(s' <= s, 0, -inf))
return w_bss' v_bs'd

# attention, a loop that never turns, and a shift: bsdl
w_bss' = Sm_s'(z_bsd z_bs'd + where(s - 3 < s' <= s, 0, -inf))
h_bsd = w_bss' z_bs'd
for l < L - L:
  z_bsd <- z_bsd + z_{b(s - 2)d}
return h_bsd + z_{b(s - 1)d}

# two loops in a loop, one reads earlier: bsdlc
y_bsd = tanh(z_bsd)
for l < L:
  for c < C:
    y_bsd <- y_bsd / 2 + tanh(z_bsd)
  for c < C:
    y_bsd <- y_bsd / 2 + tanh(y_{b(s - c)d})
return y_bsd

# a shift before two loops, of which one shifts: bsdlc
y_bsd = tanh(z_bsd)
x_bsd = y_{b(s - 1)d}
for l < L:
  y_bsd <- y_bsd / 2 + tanh(z_bsd)
for c < C:
  y_bsd <- y_bsd / 2 + tanh(y_{b(s - 2 c)d})
for l < L:
  y_bsd <- y_bsd / 2 + tanh(y_{b(s - l)d})
return y_bsd + x_bsd

# a shift in the first turn of a loop alone: bsdl
y_bsd = tanh(z_bsd)
for l < L:
  y_bsd <- y_bsd / 2 + tanh(where(l < 1, y_{b(s - 1)d}, y_bsd))
return y_bsd

# a window that is wider in each turn, and loops in it: bsdlc
y_bsd = tanh(z_bsd)
for l < L:
  w_bss' = Sm_s'(where(s - l <= s' <= s, z_bs'd y_bs'd, -inf))
  for c < C - 1:
    y_bsd <- y_bsd / 2 + tanh(w_bss' y_bs'd)
  y_bsd <- y_bsd / 2 + tanh(y_{b(s - l)d})
return y_bsd

# the least of a window, and what is masked by infinity: bsd
m_ss' = where(s - 3 < s' <= s, 0, inf)
w_bss' = Sm_s'(z_bsd z_bs'd - m_ss')
return min_s'(z_bs'd + m_ss') + w_bss' z_bs'd

# a window, then taps in a loop: bsdlc
weights χ_c
w_bss' = Sm_s'(z_bsd z_bs'd + where(s - 3 < s' <= s, 0, -inf))
h_bsd = w_bss' z_bs'd
for l < L:
  z_bsd <- z_bsd + χ_c z_{b(s - 2 c)d}
return h_bsd + z_bsd

# a shift in some turns, attention in others: bsdl
for l < L:
  w_bss' = Sm_s'(z_bsd z_bs'd + where(s' <= s, 0, -inf))
  h_bsd = w_bss' z_bs'd
  z_bsd <- z_bsd + where(l == 1, h_bsd, z_{b(s - 1)d})
return z_bsd
""")

# Digits, numbers and letters in the slots of a recurrence.
STATES = read("""
# two states that read each other: bsid
S_bsid = where(i == 0, S_{b(s - 1) 1 d} + z_bsd, S_{b(s - 1) 0 d} / 2)
return S_{bs 0 d} + S_{bs 1 d}

# two states that read each other, their letter first: bsid
S_ibsd = where(i == 0, S_{1 b(s - 1) d} + z_bsd, S_{0 b(s - 1) d} / 2)
return S_{0 bsd} + S_{1 bsd}

# a state over its own taps: bsdc
weights χ_c
S_bsd = χ_c S_{b(s - c - 1)d} / 3 + z_bsd
return S_bsd

# a state over every second of its taps, and its last: bsdc
weights χ_cd
S_sbd = χ_cd S_{(s - 2 c - 2)bd} / 3 + z_bsd + S_{(s - 1)bd} / 2
w_bss' = Sm_s'(z_bsd S_s'bd + where(s' <= s, 0, -inf))
return w_bss' S_s'bd

# a state as far back as the feature and the turn say: bsdl
for l < L:
  S_bsd = S_{b(s - d - 1)d} / 3 + S_{b(s - l - 1)d} / 5 + z_bsd
  z_bsd <- S_bsd / 2
return z_bsd

# a running sum alone: bsd
r_bsd = cumsum_s z_bsd
return r_bsd

# a running product alone, its rows last: bsd -> y_sdb
return cumprod_s(z_bsd)

# running products of what a product of errors gives: bsd
r_bsd = cumprod_s(erf(z_bsd) + 1)
return r_bsd cumprod_d(z_bsd / 2) + r_{b(s - 1)d}

# states that change places: bsid
weights α_i
S_bsid = S_{b(s - 1)(1 - i)d} / 2 + z_bsd α_i
return S_bsid α_i

# states that change places, their letter first: bsid
weights α_i
S_ibsd = S_{(1 - i)b(s - 1)d} / 2 + z_bsd α_i
return S_ibsd α_i

# a state of one key of several: bsid
weights α_i
k_bsid = tanh(z_bsd) α_i
S_bsd = S_{b(s - 1)d} / 2 + k_{bs 0 d}
return S_bsd

# a state of one key and of another before: bsid
weights α_i
k_bsid = tanh(z_bsd) α_i
S_bsd = S_{b(s - 1)d} / 2 + k_{bs 0 d} + k_{b(s - 1) 1 d}
return S_bsd

# a state of matrices and two keys: bside
weights K_dei, V_de
k_bsei = z_bsd K_dei
v_bse = z_bsd V_de
S_bsee' = S_{b(s - 1)ee'} / 2 + k_{bse 0} v_bse' + k_{b(s - 1)e 1} v_bse'
return S_bsee' V_de v_bse'

# a state of what a number selects: bsid
weights α_i
q_bsid = tanh(z_bsd) α_i
n_s = s mod 2
S_bsd = S_{b(s - 1)d} / 2 + q_{bs n_s d}
return S_bsd

# states of one and of two positions before: bsid
weights α_i
S_bsid = where(i == 0, tanh(S_{b(s - 2) 1 d}) + z_bsd, S_{b(s - 1) 0 d} / 2)
return S_bsid α_i

# a state whose axes are merged: bsid
weights α_i
S_{bs(id)} = S_{b(s - 1)(id)} / 2 + z_bsd α_i
return S_{bs(id)} α_i

# states that change places on a merged axis: bsid
weights α_i
S_{bs(id)} = S_{b(s - 1)((1 - i)d)} / 2 + z_bsd α_i
return S_{bs(id)} α_i

# a state by a matrix: bsd
weights R_dd'
S_bsd = tanh(S_{b(s - 1)d'} R_d'd) + z_bsd
return S_bsd

# a state that a number selects: bsid
weights α_i
n_s = s mod 2
S_bsid = S_{b(s - 1) n_s d} / 2 + z_bsd α_i
return S_bsid α_i

# a state of the first position: bsid
weights α_i
k_bsid = tanh(z_bsd) α_i
S_bsd = S_{b(s - 1)d} / 2 + k_{b 0 1 d}
return S_bsd

# states in a layer without rows: bsid
layer Rec(z_sd) -> z_sd:
  weights α_i, A_i
  S_isd = where(i == 0, S_{1 (s - 1) d} A_i + z_sd, S_{0 (s - 1) d} / 2)
  return S_isd α_i
model
return Rec(z_bsd)

# states and what a number selects at the position before: bsid
weights α_i
k_bsid = tanh(z_bsd) α_i
n_s = s mod 2
S_bsid = S_{b(s - 1)(1 - i)d} / 2 + k_{b (s - 1) n_s d} α_i
return S_bsid α_i

# states of as many positions before as a size says: bsdc
S_bsd = S_{b(s - C)d} / 2 + z_bsd
q_bsd = q_{b(s - 1 - 1)d} / 3 + S_bsd
return q_bsd
""")

# Slots beside those of positions.
SLOTS = read("""
# what a number selects at each position: bsid
weights α_i
q_bsid = z_bsd α_i
n_s = s mod 2
return q_{bs n_s d}

# what a number selects at visible positions: bsid
weights α_i
q_bsid = tanh(z_bsd) α_i
n_s = s mod 2
w_bss' = Sm_s'(z_bsd z_bs'd + where(s' <= s, 0, -inf))
return w_bss' q_{bs' n_s' d}

# what a number selects in a window: bsid
weights α_i
q_bsid = tanh(z_bsd) α_i
n_s = s mod 2
w_bss' = Sm_s'(z_bsd z_bs'd + where(s - 3 < s' <= s, 0, -inf))
return w_bss' q_{bs' n_s d}

# a digit at visible positions: bsid
weights α_i
q_bsid = tanh(z_bsd) α_i
w_bss' = Sm_s'(z_bsd z_bs'd + where(s - 3 < s' <= s, 0, -inf))
return w_bss' q_{bs' 1 d}

# a digit in a table of positions: bsidk
weights P_kid, α_i
return z_bsd + P_{s 1 d} + P_sid α_i

# a number in a table of positions: bsidk
weights P_kid
n_s = s mod 2
return z_bsd + P_{s n_s d}

# a digit in a table at visible positions: bsidk
weights P_kid
w_bss' = Sm_s'(z_bsd z_bs'd + where(s' <= s, 0, -inf))
return z_bsd + w_bss' P_{s' 1 d}

# a position and another number with names: bsid
weights α_i
k_bsid = tanh(z_bsd) α_i
n_s = floor(s / 2)
m_s = s mod 2
return z_bsd + k_{b n_s m_s d}

# a position with a name and a digit: bsid
weights α_i
k_bsid = tanh(z_bsd) α_i
n_s = floor(s / 2)
return z_bsd + k_{b n_s 1 d} + k_{b (s - 1) 0 d}

# a number at the position before: bsid
weights α_i
k_bsid = tanh(z_bsd) α_i
n_s = s mod 2
return z_bsd + k_{b (s - 1) n_s d}

# a number that data decide: bsid
weights α_i
k_bsid = tanh(z_bsd) α_i
n_bs = where(z_bsd z_bsd > 1, 1, 0)
return z_bsd + k_{b s n_bs d}
""")

# The letter of a loop in the argument of a call: a number there, and no axis.
CALLED = read("""
# the number of a turn in a call: bsdl
layer Scale(z_sd, τ) -> z_sd:
  return exp(-τ) z_sd + where(τ > 1, sqrt(τ), max(τ, 2)) + max(z_sd, τ) + τ^0.5
model
for l < L:
  z_bsd <- Scale(z_bsd, l + 1) + Scale(z_bsd, 2)
return z_bsd

# a scalar of each turn in a call: bsdl
scalars
  κ_l = 1 / (l + 2)
layer Mix(z_sd, κ) -> z_sd:
  weights Q_dd'
  q_sd = z_sd' Q_d'd
  w_ss' = Sm_s'(κ q_sd z_s'd + where(s' <= s, 0, -inf))
  return w_ss' z_s'd
model
for l < L:
  z_bsd <- Mix_l(z_bsd, κ_l)
return z_bsd

# a weight of each turn in a call of one instance: bsdl
layer Mix(z_sd, κ) -> z_sd:
  weights Q_dd'
  q_sd = z_sd' Q_d'd
  w_ss' = Sm_s'(κ q_sd z_s'd + where(s' <= s, 0, -inf))
  return w_ss' z_s'd
model
weights mix: Mix, κ_l
for l < L:
  z_bsd <- mix(z_bsd, κ_l)
return z_bsd + mix(z_bsd, κ_0)

# a table of each turn, and the first of all, in a call: bsdl
layer One(z_sd) -> z_sd:
  weights W_dd'
  return tanh(z_sd' W_d'd) + z_{(s - 1)d}
model
weights one: One, T_ld
for l < L:
  z_bsd <- one(z_bsd + T_ld + T_{0 d})
return z_bsd

# a call that runs through the letter of a loop around it: bsdl
layer Norm_l(z_l) -> z_l:
  return z_l / (1 + sum_l z_l^2)
model
weights T_ld
for l < L:
  z_bsd <- z_bsd + Norm(T_ld)
return z_bsd

# a call inside of a sum over the letter of a loop around it: bsdl
layer Scale(z_s, τ) -> z_s:
  return τ z_s
model
weights T_ld
for l < L:
  z_bsd <- z_bsd + T_ld sum_l Scale(z_bsd, T_ld)
return z_bsd

# a layer is chosen by an argument: bsdl
layer Some(z_sd, τ) -> z_sd:
  weights A_d, B_d
  n = τ + 1
  return where(n == 1, A_d z_sd, B_d z_sd) exp(n / 7)
model
for l < L:
  z_bsd <- Some_l(z_bsd, l)
return z_bsd

# what is made of a tensor that changes later: bsdl
layer Mix(z_sd) -> z_sd:
  weights P_d
  c_sd = P_d sin(s + 1)
  h_sd = c_sd
  for l < L:
    h_sd <- h_sd + tanh(c_sd)
    c_sd <- c_sd + z_sd
  return h_sd
model
return Mix(z_bsd)

# a layer with weights at visible positions: bsde
layer Keys(z_sd) -> k_se:
  weights K_de, γ_d
  return (z_sd γ_d) K_de
model
weights O_ed
k_bs'e = Keys(z_bs'd)
w_bss' = Sm_s'(Keys(z_bsd) k_bs'e + where(s' <= s, 0, -inf))
return w_bss' k_bs'e O_ed

# a number without an index: bsdl
n = 2
n <- n + L
for l < L:
  m = l + 1
  n <- n + l
  z_bsd <- z_bsd exp(-m) + sqrt(n)
return z_bsd
""")

# Which layer a turn calls: choices in choices, by what the text says alone, of an instance that is called twice.
LAYERS = """layer P(z_sd) -> z_sd:
  weights A_d
  return A_d z_sd
layer Q(z_sd) -> z_sd:
  weights A_d
  return A_d z_{(s - 1)d}
layer R(z_sd) -> z_sd:
  weights A_d
  return tanh(A_d z_sd)
"""
KINDS = tuple(
    replace(form, before=form.before + LAYERS)
    for form in read("""
# a choice in the other branch: bsdl
for l < L:
  z_bsd <- where(l == 0, P_l(z_bsd), where(l == 1, Q_l(z_bsd), R_l(z_bsd)))
return z_bsd

# a choice in the first branch: bsdl
for l < L:
  z_bsd <- where(l > 0, where(l mod 2 == 0 or l == 5, Q_l(z_bsd), R_l(z_bsd)), P_l(z_bsd)) + Q_l(z_bsd)
return z_bsd

# a choice in a sum in a choice: bsdl
for l < L:
  z_bsd <- z_bsd + where(l > 0, where(l == 1, Q_l(z_bsd), R_l(z_bsd)) + P_l(z_bsd), 0)
return z_bsd

# a choice by a scalar: bsdl
scalars
  κ = 1
model
for l < L:
  z_bsd <- where(κ < 2, P_l(z_bsd), Q_l(z_bsd))
return z_bsd + where(κ < 2, 0, R(z_bsd))

# a choice of instances that all turns share: bsdl
weights p: P, q: Q, r: R
for l < L:
  z_bsd <- where(l == 0, p(z_bsd), where(l < 9, q(z_bsd), r(z_bsd)))
return z_bsd

# an instance in two branches: bsdl
weights p: P
for l < L:
  z_bsd <- where(l == 0, p_l(z_bsd), where(l == 2, p_l(tanh(z_bsd)), R_l(z_bsd)))
return z_bsd

# a choice of what calls are given: bsdl
for l < L:
  z_bsd <- z_bsd + where(l == 0, P_l(z_bsd), 0) + where(l == 1, R_l(Q_l(z_bsd)), 0)
return z_bsd

# a choice by two loops: bsdla
weights p: P, q: Q
for l < L:
  for a < A:
    z_bsd <- where(l == 0 and a == 1, p_l(z_bsd), where(a == 0, q_a(z_bsd), R_la(z_bsd)))
return z_bsd

# a choice by numbers that are data: bsdl
for l < L:
  z_bsd <- where(l == 0 and z_bsd > 0, Q_l(z_bsd), R_l(z_bsd))
return z_bsd
""")
)

# Fewer numbers than `top` takes.
CHOSEN = read("""
# the largest of fewer positions: bsd
u_bss' = z_bsd z_bs'd + where(s' <= s, 0, -inf)
w_bss' = Sm_s'(where(top_{3,s'}(u_bss'), u_bss', -inf))
return w_bss' z_bs'd

# the largest of fewer experts: bsdxe
weights R_dx, G_xde, O_xed
p_bsx = z_bsd R_dx
r_bsx = Sm_x(where(top_{7,x}(p_bsx), p_bsx, -inf))
h_bsxe = silu(z_bsd G_xde)
return r_bsx h_bsxe O_xed

# the largest of fewer pairs: bsdax
weights R_dax, V_axd
p_bsax = z_bsd R_dax
r_bsax = where(top_{99,ax}(p_bsax), p_bsax, 0)
return r_bsax V_axd

# more of them in each turn: bsdxel
scalars
  T_l = 3 l
model
weights R_dx, G_xde, O_xed
for l < L:
  p_bsx = z_bsd R_dx
  r_bsx = where(top_{T_l + 1,x}(p_bsx), p_bsx, 0)
  h_bsxe = silu(z_bsd G_xde)
  z_bsd <- z_bsd + r_bsx h_bsxe O_xed
return z_bsd
""")

# What some turn alone would need, or what hangs on no input at first: whole as the reference, and not decoded.
# What no input decides, or a position that stands still, read from another position.
ELSEWHERE = read("""
# attention, also to numbers that take the place of what is kept: bsd
weights P_d
w_bss' = Sm_s'(z_bsd z_bs'd + where(s' <= s, 0, -inf))
h_bsd = w_bss' z_bs'd
z_bsd <- 0 z_bsd + P_d sin(s + 1)
w'_bss' = Sm_s'(h_bsd z_bs'd + where(s' <= s, 0, -inf))
return w'_bss' z_bs'd

# attention to numbers of positions, then to more: bsdl
layer Mix(z_sd) -> z_sd:
  weights P_d
  c_sd = P_d sin(s + 1)
  for l < L:
    w_ss' = Sm_s'(z_sd c_s'd + where(s' <= s, 0, -inf))
    c_sd <- c_sd + w_ss' z_s'd
  return c_sd
model
return Mix(z_bsd)

# shifts of numbers of positions, then of more: bsdl
layer Mix(z_sd) -> z_sd:
  weights P_d
  c_sd = P_d sin(s + 1)
  for l < L:
    c_sd <- c_sd + z_sd c_{(s - 1)d}
  return c_sd
model
return Mix(z_bsd)

# numbers of positions that a layer makes: bsd
layer Turn(x_sd) -> x_sd:
  return sin((s + 1) x_sd)
model
weights P_d
n_sd = P_d (s + 1)
h_sd = Turn(n_sd)
w_bss' = Sm_s'(z_bsd z_bs'd + where(s' <= s, 0, -inf))
return w_bss' h_s'd

# numbers of positions that a layer is given: bsd
layer Mix(z_sd, n_s) -> z_sd:
  w_ss' = Sm_s'(z_sd z_s'd + where(s' <= s, n_s' / (n_s + 1), -inf))
  return w_ss' z_s'd
model
return Mix(z_bsd, s mod 3)

# an input times zero: bsd
weights P_d
c_bsd = 0 z_bsd + P_d sin(s + 1)
w_bss' = Sm_s'(z_bsd c_bs'd + where(s' <= s, 0, -inf))
return w_bss' c_bs'd

# numbers of positions of numbers of positions: bsd
weights P_d
c_sd = P_d sin(s + 1)
e_sd = c_sd c_{(s - 1)d}
w_bss' = Sm_s'(z_bsd e_s'd + where(s' <= s, 0, -inf))
return w_bss' z_bs'd

# as far back as the turn: bsdl
for l < L:
  z_bsd <- tanh(z_{b(s - l)d}) + z_bsd / 2
return z_bsd

# visible positions in the first turn alone: bsdl
for l < L:
  w_bss' = Sm_s'(where(l == 0, 1, 0) z_bsd z_bs'd + where(s' <= s, 0, -inf))
  z_bsd <- z_bsd / 2 + tanh(w_bss' z_bs'd) + z_{b(s - l)d}
return z_bsd

# as far back as the turn inside, and changed outside: bsdlc
for l < L:
  for c < C:
    z_bsd <- z_bsd / 2 + tanh(z_{b(s - c)d})
  z_bsd <- z_bsd / 2 + tanh(z_bsd)
return z_bsd

# all positions in the last turns inside, and changed outside: bsdlc
for l < L:
  for c < C:
    w_bss' = Sm_s'(z_bsd z_bs'd + where(s - c <= s' <= s, 0, -inf))
    z_bsd <- z_bsd / 2 + tanh(w_bss' z_bs'd)
  z_bsd <- z_bsd / 2 + tanh(z_bsd)
return z_bsd

# a window beside a layer that is given a mask of all positions: bsd
layer Mix(z_sd, m_ss') -> z_sd:
  w_ss' = Sm_s'(z_sd z_s'd + m_ss')
  return w_ss' z_s'd
model
k_bsd = tanh(z_bsd)
w_bss' = Sm_s'(z_bsd k_bs'd + where(s - 2 < s' <= s, 0, -inf))
h_bsd = w_bss' k_bs'd
return Mix(h_bsd, where(s' <= s, s' / 9, -inf)) + Mix(z_bsd, where(s - 4 < s' <= s, s' / 9, -inf))

# the first position alone, where it is zero: bsd
j_bsd = where(s > 0, z_{b(s - 1)d}, 0)
return j_bsd + j_{b(-s)d} / 2

# a position that is zero in one turn: bsdl
for l < L:
  c_bsd = where(s >= 3 or l == 1, tanh(z_bsd), 0)
  z_bsd <- z_bsd / 2 + where(s >= 2, 1 + c_{b 2 d}, 0)
return z_bsd

# its own position, by a function of it: bsd
n_s = max(s, 0)
return z_bsd + tanh(z_{b n_s d})

# a tensor that is changed under other letters: bsdl
w_bsd' = tanh(z_bsd')
for l < L:
  w_bsd <- w_bsd / 2 + w_{b(s - 1)d}
n_d = floor(d / 2)
return w_{bs n_d}

# a state under another name, in a loop: bsdal
w_bsda = z_bsd (a + 1)
for l < L:
  S_bsda = S_{b(s - 1)da} / 2 + w_bsda
  k_{bs(ad)} = S_bsda
  w_bsda <- w_bsda / 2 + tanh(k_{bs(ad)})
return w_{bs d 0}

# a tensor that is called like the positions: bsd
s_bs = tanh(z_bsd) z_bsd
w_bss' = Sm_s'(s_bs s_bs' + where(s' <= s, 0, -inf))
return w_bss' z_bs'd + z_bsd

# a tensor that is called like all visible positions: bsd
weights P_d
t_bs = P_d z_bsd
w_bss' = where(s' <= s, exp(t_bs - t_bs'), 0)
return w_bss' z_bs'd + z_bsd

# the first position: bsd
w_bss' = Sm_s'(z_bsd z_bs'd + where(s' <= s, 0, -inf))
h_bsd = w_bss' z_bs'd
return h_bsd + h_{b 0 d} + z_{b 0 d}

# a position that stands still, once it is there: bsd
return z_bsd + where(s >= 3, z_{b 3 d}, 0)

# positions before the start, and the first at the first: bsd
return z_bsd + z_{b(-1)d} + z_{b(-s)d}
""")

FORMS = (*PLACES, *CHANGED, *STATES, *SLOTS, *CALLED, *KINDS, *CHOSEN, *ELSEWHERE)
