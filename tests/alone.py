"""The shortest text of each form: what stands in the tables of `tests/rare.py`, with as little as possible around it."""

from __future__ import annotations

import re

from tests import rare
from tests.texts import text

SHORT = {  # lines that many texts have
    "MODEL": "model Main(z_bsd) -> y_bsd causal in s:",
    "TOKENS": "model Main(x_bs) -> y_bsd causal in s:",
    "MASK": "m_ss' = where(s' <= s, 0, -inf)",
    "SCORES": "w_bss' = Sm_s'(z_bsd z_bs'd + m_ss')",
    "ASKED": "w_bss' = Sm_s'(q_bsd z_bs'd + m_ss')",
    "READ": "return w_bss' z_bs'd",
    "STATE": "weights K_de, V_de | k_bse = z_bsd K_de | v_bse = z_bsd V_de | S_bsee' = S_{b(s - 1)ee'} / 2 + k_bse v_bse'",
    "PART": "layer Part(z_d) -> z_d: | weights R_de | h_e = z_d R_de | return tanh(h_e) R_de",
}
LINES = {
    "axes of a tensor in any order": "MODEL | MASK | k_dbs = z_bsd | w_bss' = Sm_s'(z_bsd k_dbs' + m_ss') | READ",
    "axes of a weight in any order": "TOKENS | weights E_dv | h_bsd = E_{d x_bs} | return h_bsd + h_{b(s - 1)d}",
    "a name that Python or torch has": "MODEL | weights type_d, to_d | in_bsd = z_bsd type_d | return tanh(in_bsd to_d)",
    "one of several inputs": "model Main(c_bed, z_bsd) -> y_bsd causal in s: | w_bse = Sm_e(z_bsd c_bed) | return w_bse c_bed",
    "a loop as often as a sum says": "MODEL | for l < D - 1: |   z_bsd <- z_bsd / 2 + tanh(z_{b(s - l)d}) | return z_bsd",
    "an output whose axes are merged": "model Main(z_bsd) -> y_{bs(ae)} causal in s: | weights Q_dae | "
    "y_{bs(ae)} = z_bsd Q_dae",
    "a layer of the library with another line": "layer Norm = RMSNorm: | return γ_d z_d / (1 + sqrt(mean_d (z_d^2))) | "
    "MODEL | return Norm(z_bsd)",
    "axes on one line": "MODEL | weights K_de | k_bse = tanh(z_bsd K_de) | return k_bse K_de",
    "an axis of the library by its letter": "MODEL | weights K_de | k_bse = tanh(z_bsd K_de) | return k_bse K_de",
    "scalars on one line": "MODEL | return Dr(z_bsd, p) ω / (W + 1)",
    "infinity in a list": "MODEL | for l < 3: |   m_ss' = where(s - ж_l < s' <= s, 0, -inf) |   SCORES | "
    "  z_bsd <- w_bss' z_bs'd | return z_bsd",
    "a scalar that does not use its index": "model Main(z_bsda) -> y_bsd causal in s: | weights P_a | return z_bsda я_a P_a",
    "several weights on one line": "MODEL | weights P_d, Q_d?, R_dd' = S_dd', S_d'd | return z_bsd P_d + z_bsd' R_d'd Q_d",
    "a name with a digit": "MODEL | weights P0_d, P1_d | z1_bsd = z_bsd P0_d | return z_bsd + z1_{b(s - 1)d} P1_d",
    "a layer of the library under another name": "layer Plain = LayerNorm | MODEL | return ε Plain(z_bsd)",
    "a layer that is given two tensors": "layer Both(z_sd, c_d) -> z_sd: | return tanh(z_sd c_d) + z_{(s - 1)d} | "
    "MODEL | weights P_d | return Both(z_bsd, P_d)",
    "a layer that is given a number": "layer Times(z_d, τ) -> z_d: | return z_d^2 / (1 + τ) | MODEL | "
    "for l < 3: |   z_bsd <- z_bsd + Times(z_bsd, l) + Times(z_bsd, 2) | return z_bsd",
    "an instance that is called twice": "PART | MODEL | weights one: Part | return one(z_bsd) + one(tanh(one(z_bsd)))",
    "a look-up in a look-up": "TOKENS | weights E_vd | n_v = (v + 1) mod V | return E_{n_{x_bs} d}",
    "keys of another tensor": "model Main(z_bsd, c_bse) -> y_bsd causal in s: | MASK | weights K_de | q_bse = z_bsd K_de | "
    "w_bss' = Sm_s'(q_bse c_bs'e + m_ss') | return w_bss' z_bs'd",
    "attention over weights": "MODEL | weights K_ed, V_ed | w_bse = Sm_e(z_bsd K_ed) | return w_bse V_ed",
    "attention over another tensor": "model Main(z_bsd, c_bea) -> y_bsa causal in s: | weights K_da | q_bsa = z_bsd K_da | "
    "w_bse = Sm_e(q_bsa c_bea) | return w_bse c_bea",
    "a layer in a branch that data choose": "PART | MODEL | return where(z_bsd > 0, Part(z_bsd), z_bsd)",
    "a tied weight beside another of its input": "MODEL | weights P_de = K_de, K_de, V_da, R_e | "
    "k_bse = z_bsd P_de | v_bsa = z_bsd V_da | return (k_bse R_e) (sum_a v_bsa) z_bsd",
    "queries of a norm, keys of the same input, and a sink": "model Main(z_bsda) -> y_bsea causal in s: | "
    "weights Q_de, K_de, V_de, γ_a | h_bsda = z_bsda / sqrt(sum_d z_bsda^2 + ε) | q_bsea = h_bsda Q_de | "
    "v_bsea = z_bsda V_de | k_bsea = z_bsda K_de | t_bss'a = q_bsea k_bs'ea / 2 + where(s' <= s, (s' - s) / 4, -inf) | "
    "w_bss'a = Sm_s'(t_bss'a) sigmoid(lse_s' t_bss'a - γ_a) | return w_bss'a v_bs'ea",
    "a loop changes a group of axes and reads it earlier": "model Main(z_bsae) -> y_bsg causal in s: | "
    "y_{bs(ae)} = z_bsae | for l < 2: |   h_bsg = sum_i y_{b(s - i)g} |   y_bsg <- y_bsg / 2 + tanh(h_bsg) | return y_bsg",
    "a weight that is tied to a buffer": "model Main(z_bsda) -> z_bsda causal in s: | buffers B_ae | "
    "weights P_d, R_a, Q_ea = B_ae | z_bsda <- z_bsda P_d | y_bsde = z_bsda B_ae R_a | return z_bsda / 2 + tanh(y_bsde Q_ea)",
    "attention that a loop reads and overwrites": "MODEL | weights Q_de, K_de, V_de, O_ed | y_bsd = tanh(z_bsd) | MASK | "
    "q_bse = z_bsd Q_de | k_bse = z_bsd K_de | v_bse = z_bsd V_de | w_bss' = Sm_s'(q_bse k_bs'e + m_ss') | "
    "h_bse = w_bss' v_bs'e | o_bsd = h_bse O_ed | for l < 2: |   y_bsd <- y_bsd / 2 + tanh(o_bsd) | "
    "  y_bsd <- tanh(z_bsd) | return y_bsd",
    "another name of an input without positions": "model Main(z_bsg, c_bea) -> y_bsg causal in s: | weights R_ag | "
    "h_ba = lse_e c_bea | t_{b(ea)} = c_bea | k_ba = h_{b(A - 1 - a)} | return z_bsg + t_bg + k_ba R_ag",
    "a sink, and scores of four factors": "model Main(z_bsda) -> y_bsea causal in s: | "
    "weights Q_de, K_de, V_de, γ_a | v_bsea = z_bsda V_de | "
    "t_bss'a = z_bsda Q_de (z_bs'd'a K_d'e) / 2 + where(s' <= s, (s' - s) / 4, -inf) | "
    "w_bss'a = Sm_s'(t_bss'a) sigmoid(lse_s' t_bss'a - γ_a) | return w_bss'a v_bs'ea",
    "a second name of what is the same at every step": "model Main(c_ed, z_bsd) -> y_bse causal in s: | weights V_dai | "
    "k_eai = tanh(c_ed) V_dai | q_{e(ai)} = k_eai | j_eai = tanh(q_{e(ia)}) | return z_bsd j_eai V_dai",
    "numbers beside what is the same at every step": "model Main(c_ed, z_bsd) -> y_bse causal in s: | n_d = 2 d | "
    "j_ed = tanh(c_ed) n_d | return z_bsd n_d j_ed",
    "a loop of what is the same at every step": "model Main(c_ed, z_bsd) -> y_bse causal in s: | j_ed = tanh(c_ed) | "
    "k_ed = j_ed | for l < 3: |   k_ed <- k_ed / 2 + j_ed | return z_bsd k_ed + z_bsd j_ed",
    "a loop that computes what nothing reads": "TOKENS | weights E_vd | for l < 3: |   u_bsd = E_{x_bs d} + l | "
    "  u_bsd <- tanh(u_bsd) | return E_{x_bs d}",
    "a layer in the step of a state": "layer Gate(z_sd) -> g_s: | weights U_d | return sigmoid(z_sd U_d) | MODEL | "
    "S_bsd = Gate(z_bsd) z_bsd + S_{b(s - 1)d} / 2 | return S_bsd",
    "a branch by a running sum": "MODEL | r_bsd = sqrt(abs(z_bsd)) | return z_bsd + where(cumsum_s(z_bsd) > 0, r_bsd, 0)",
    "a state over its taps": "MODEL | weights P_e | S_bsd = P_e S_{b(s - e - 1)d} / 3 + z_bsd | return S_bsd",
    "a factor beside a linear map has an index of its own": "MODEL | weights W_de, γ_a | h_bsea = z_bsd W_de γ_a | "
    "return z_bsd + sum_{ea} h_bsea",
    "a text without time": "model Main(z_d) -> y_e: | weights W_de | return z_d W_de",
    "a mask changed by <-": "MODEL | MASK | m_ss' <- m_ss' - (s - s') / 3 | SCORES | READ",
    "queries changed by <-": "MODEL | MASK | q_bsd = tanh(z_bsd) | q_bsd <- 3 q_bsd | ASKED | READ",
    "keys changed by <-": "MODEL | MASK | k_bsd = z_bsd | k_bsd <- 3 k_bsd | w_bss' = Sm_s'(z_bsd k_bs'd + m_ss') | READ",
    "queries changed after the scores": "MODEL | MASK | q_bsd = z_bsd / 2 | ASKED | q_bsd <- 3 q_bsd | READ + q_bsd",
    "weights of attention changed by <-": "MODEL | MASK | SCORES | w_bss' <- w_bss' / 2 | READ",
    "a mask by heads": "MODEL | weights Q_ade, O_aed | q_bsae = z_bsd Q_ade | m_ss'a = where(s - υ_a < s' <= s, 0, -inf) | "
    "w_bss'a = Sm_s'(q_bsae q_bs'ae + m_ss'a) | y_bsae = w_bss'a q_bs'ae | return y_bsae O_aed",
    "a mask that data decide": "MODEL | m_bss' = where(z_bsd z_bs'd > 3 and s' <= s, 0, -inf) | "
    "w_bss' = Sm_s'(z_bsd z_bs'd + m_bss') | READ",
    "a mask that data decide, beside a sink": "MODEL | weights γ | "
    "t_bss' = z_bsd z_bs'd + where((z_bsd z_bs'd > 3 or s' == s) and s' <= s, 0, -inf) | "
    "w_bss' = Sm_s'(t_bss') sigmoid(lse_s' t_bss' - γ) | READ",
    "what attention beside a sink gives is read twice": "MODEL | weights γ | "
    "t_bss' = z_bsd z_bs'd + where(s' <= s, 0, -inf) | w_bss' = Sm_s'(t_bss') sigmoid(lse_s' t_bss' - γ) | "
    "u_bsd = w_bss' z_bs'd | return silu(u_bsd) u_bsd",
    "a linear map whose rows and columns other weights have, too": "MODEL | weights R_d'd, Q_d | k_bs = z_bsd Q_d | "
    "return z_bsd' R_d'd Q_d Q_d' k_bs",
    "turns of which nothing is read": "MODEL | weights W_ide, U_ed | c_bsd = z_bsd | for l < 3: |   for i < 2: | "
    "    h_bse = tanh(z_bsd W_ide) |     z_bsd <- h_bse U_ed + z_bsd |   z_bsd <- tanh(c_bsd) l | return z_bsd",
    "layers of which nothing is read": "PART | MODEL | c_bsd = z_bsd | for l < 3: |   for i < 2: | "
    "    z_bsd <- z_bsd + Part_i(z_bsd) |   z_bsd <- tanh(c_bsd) l | return z_bsd",
    "weights of one parameter, of a condition alone": "model Main(z_bsd) -> y_bse causal in s: | weights P_de, Q_de, γ_e | "
    "j_bsd = where(z_bsd > 0, 1, -1 / 2) | p_bse = j_bsd P_de | q_bse = j_bsd Q_de | return p_bse tanh(q_bse) + γ_e",
    "a list over the longer of two loops": "MODEL | for l < 2: |   z_bsd <- tanh(z_bsd) | for l < 3: | "
    "  z_bsd <- tanh(z_bsd) + ι_l | return z_bsd",
    "a softmax of numbers alone": "MODEL | w_ss' = Sm_s'(where(s' <= s, 0, -inf)) | return w_ss' z_bs'd + w_ss' s'",
    "a logarithm of a sum of numbers": "MODEL | return z_bsd + lse_s'(where(s' <= s, 0, -inf))",
    "a mask of a layer that data decide": "layer Mask(z_sd) -> m_ss': | return where(z_sd z_s'd > 3 and s' <= s, 0, -inf) | "
    "layer Mix(z_sd, m_ss') -> z_sd: | w_ss' = Sm_s'(z_sd z_s'd - m_ss') | return w_ss' z_s'd | "
    "MODEL | return Mix(z_bsd, -Mask(z_bsd))",
    "a mask that data decide in a turn": "MODEL | m_bss' = where(s' <= s, 0 (sum_d z_bsd), -inf) | for l < 3: | "
    "  w_bss' = Sm_s'(z_bsd z_bs'd + m_bss') |   z_bsd <- z_bsd / 2 + w_bss' z_bs'd | "
    "  m_bss' <- where(z_bsd z_bs'd > 3, m_bss', -inf) | return z_bsd",
    "keys of which data choose by a logarithm": "model Main(x_bs) -> y_bsd causal in s: | weights E_vd | z_bsd = E_{x_bs d} | "
    "w_bss' = Sm_s'(log(relu(3 - x_bs')) + where(s' <= s, 0, -inf)) | READ",
    "a sum of exponentials of which data decide": "MODEL | t_bss' = z_bsd z_bs'd - 9 + where(s' <= s, 0, -inf) | "
    "n_bs = lse_s'(t_bss' + where(t_bss' > 0, 0, -inf)) | return exp(n_bs / 9) z_bsd",
    "a state read by a product of three": "MODEL | STATE | return S_bsee' V_de v_bse'",
    "an input under another name in a turn": "model Main(c_ea, z_bse) -> z_bse causal in s: | weights Q_a | for l < 3: | "
    "  y_{(ae)} = c_ea |   n_ea = tanh(y_{(ae)}) |   z_bse <- where(l == 1, z_bse, z_bse / 2 + n_ea Q_a) | return z_bse",
    "what an input makes, under another name in a turn": "model Main(c_ea, z_bse) -> z_bse causal in s: | weights Q_a | "
    "t_ae = tanh(c_ea) | for l < 3: |   y_{(ae)} = t_ae |   n_ea = tanh(y_{(ae)}) | "
    "  z_bse <- where(l == 1, z_bse, z_bse / 2 + n_ea Q_a) | return z_bse",
    "a product in several numbers beside a state": "MODEL | weights K_de, R_e, V_ed | n_bse = 2 (z_bsd K_de) | "
    "q_bsd = V_ed 2 n_bse R_e / 3 | S_bsd = S_{b(s - 1)d} / 2 + q_bsd | return S_bsd",
    "a state that is mapped on the next line": "MODEL | STATE | y_bse = S_bsee' v_bse' | return y_bse V_de",
    "a state read by three and a gate": "MODEL | STATE | return z_bsd + 2 sigmoid(z_bsd) S_bsee' V_de v_bse'",
    "a mask by layers": "MODEL | for l < 3: |   m_ss' = where(s - ν_l < s' <= s, 0, -inf) |   SCORES | "
    "  z_bsd <- w_bss' z_bs'd | return z_bsd",
    "a mask changed in a loop": "MODEL | MASK | for l < 3: |   SCORES |   m_ss' <- m_ss' - (s - s') / 3 | "
    "  z_bsd <- w_bss' z_bs'd | return z_bsd",
    "a mask changed by the layer that is given it": "layer Mix(z_sd, m_ss') -> z_sd: | "
    "m_ss' <- where(s - 2 < s', m_ss', -inf) | w_ss' = Sm_s'(z_sd z_s'd + m_ss') | return w_ss' z_s'd | "
    "MODEL | return Mix(z_bsd, where(s' <= s, 0, -inf))",
    "a layer that is called like a class": "layer Module(z_d) -> z_d: | return 2 z_d | "
    "layer module(z_d) -> z_d: | return 3 z_d | MODEL | return Module(module(z_bsd)) + module(z_bsd)",
    "as many of the largest as a layer has": "MODEL | for l < 3: | "
    "  z_bsd <- where(top_{ι_l,d} z_bsd, 2, z_bsd) | return z_bsd",
    "digits in a state": "MODEL | S_bsid = where(i == 0, S_{b(s - 1) 1 d} + z_bsd, S_{b(s - 1) 0 d}) | return S_{bs 0 d}",
    "a softmax of what attention gives": "model Main(z_bsda) -> y_bs causal in s: | weights D_de, E_de, V_de, C_ae | "
    "q_sabe = z_bsda D_de | k_sabe = z_bsda E_de | v_asbe = z_bsda V_de | "
    "w_s'bsa = Sm_s'(q_sabe k_s'abe + where(s' <= s, 0, -inf)) | r_asbe = w_s'bsa v_as'be | n_asbe = Sm_a r_asbe | "
    "return n_asbe C_ae",
    "a softmax of what attention gives, with a mask on its own line": "model Main(z_bsda) -> y_bs causal in s: | MASK | "
    "weights D_de, E_de, V_dv, C_av | q_sabe = z_bsda D_de | k_sabe = z_bsda E_de | v_asbv = z_bsda V_dv | "
    "r_asbv = Sm_s'(q_sabe k_s'abe + m_ss') v_as'bv | n_asbv = Sm_a r_asbv | return n_asbv C_av",
    "keys chosen by top": "MODEL | t_bss' = z_bsd z_bs'd + where(s' <= s, 0, -inf) | "
    "w_bss' = Sm_s'(where(top_{2,s'}(t_bss'), t_bss', -inf)) | READ",
    "keys chosen by top beside a sink": "MODEL | weights γ | t_bss' = z_bsd z_bs'd + where(s' <= s, 0, -inf) | "
    "u_bss' = where(top_{2,s'}(t_bss'), t_bss', -inf) | w_bss' = Sm_s'(u_bss') sigmoid(lse_s' u_bss' - γ) | READ",
    "a bias looked up by distance": "MODEL | weights R_e | n_ss' = min(max(s - s', 0), E - 1) | "
    "m_ss' = where(s' <= s, R_{n_ss'}, -inf) | SCORES | READ",
    "an argument with the letter of a loop": "PART | MODEL | weights T_ld | for l < 3: | "
    "  z_bsd <- z_bsd + Part_l((z_bsd + T_ld) / (l + 1)) | return z_bsd",
    "layers chosen in a choice": "PART | MODEL | weights one, two, three: Part | for l < 3: | "
    "  z_bsd <- where(l < 1, one_l(z_bsd), where(l == 1, two_l(z_bsd), three_l(z_bsd))) | return z_bsd",
    "experts of square matrices": "MODEL | weights R_da, W_add' | r_bsa = z_bsd R_da | "
    "p_bsa = where(top_{1,a}(r_bsa), r_bsa, 0) | return p_bsa z_bsd' W_ad'd",
    "experts over the sum of their weights": "MODEL | weights R_da, W_aed | r_bsa = sigmoid(z_bsd R_da) | "
    "p_bsa = where(top_{1,a}(r_bsa), r_bsa, 0) | h_bsae = z_bsd W_aed | return p_bsa h_bsae W_aed / (sum_a p_bsa)",
    "as far back as the turn": "MODEL | for l < 3: |   z_bsd <- z_bsd / 2 + tanh(z_{b(s - l)d}) | return z_bsd",
    "what a turn keeps": "MODEL | weights W_dd' | k_bsd = z_bsd | for l < 3: | "
    "  k_bsd <- where(l mod 2 == 0, tanh(z_bsd), k_bsd) |   z_bsd <- k_bsd' W_d'd + z_bsd | return z_bsd",
    "what the next turn overwrites": "MODEL | weights W_dd' | y_bsd = z_bsd | for l < 3: |   z_bsd <- tanh(z_bsd) | "
    "  y_bsd <- z_bsd' W_d'd | return y_bsd",
    "attention in a branch of some turns": "MODEL | MASK | for l < 3: |   SCORES | "
    "  z_bsd <- where(l == 1, z_bsd / 2, w_bss' z_bs'd) | return z_bsd",
    "attention in a branch of some turns, and its weights": "MODEL | MASK | for l < 3: |   SCORES | "
    "  z_bsd <- where(l == 1, z_bsd / 2, w_bss' z_bs'd) + w_bss' z_bs'd | return z_bsd",
    "a group in another order": "model Main(z_bsae) -> y_bsae causal in s: | y_{bs(ae)} = z_bsae | return y_{bs(ea)}",
    "a merged axis changed by <-": "model Main(z_bsae) -> y_bsae causal in s: | y_{bs(ae)} = z_bsae | "
    "y_{bs(ea)} <- tanh(y_{bs(ea)}) e + z_bsae | return y_{bs(ae)}",
    "a scalar that is called like an index": "MODEL | m_ss' = where(s' <= s, t (s' - s), -inf) | SCORES | READ",
}
AROUND = (
    (rare.MASKS, "MODEL | m_ss' = FORM | SCORES | READ", ("s", "s'")),
    (rare.CHANGES, "MODEL | MASK | m_ss' <- FORM | SCORES | READ", ("s", "s'", "m_ss'")),
    (rare.TIMES, "MODEL | n_s = FORM | return z_bsd + z_{b n_s d}", ("s",)),
    (rare.BEFORE, "model Main(z_bsd) -> z_bsd causal in s: | return z_bsd + z_{b FORM d}", ("s",)),
    (rare.NUMBERS, "MODEL | n_d = FORM | return z_{bs n_d}", ("d",)),
    (rare.SCALES, "MODEL | return z_bsd FORM", ()),
    (rare.FACTORS, "MODEL | weights P_d, Q_d, R_d | y_bs = FORM | return y_bs P_d Q_d R_d", ("z_bsd", "P_d", "Q_d", "R_d")),
    (rare.STATES, "MODEL | S_bsd = FORM | return S_bsd", ("z_bsd", "S_{b(s - 1)d}", "S_{b(s - 2)d}")),
    (rare.SPELLINGS | rare.SPARSE | rare.LAZY, "MODEL | return z_bsd + FORM", ("z_bsd", "d")),
)
LEGEND = ("b: B", "s: S", "d: D", "a: A", "e: E", "g: A E", "v: V", "i: 2", "l: 3")
ONE_LINE = {  # a block of the legend, and the line in its place
    "axes on one line": ("axes", "axes b: B, s: S, d: D, e: E"),
    "an axis of the library by its letter": ("axes", "axes b, s, d, e: E"),
    "scalars on one line": ("scalars", "scalars W = 3, p, ω = 2"),
}
SCALARS = {
    "N": "N = 2",
    "W": "W = 3",
    "ε": "ε = 1e-5",
    "ω": "ω = 2",
    "я": "я_a = 2",
    "ж": "ж_l = [2, inf, 1]",
    "p": "p = 0.1",
    "t": "t = 0.5",
    "υ": "υ_a = 2 a + 1",
    "ι": "ι_l = l + 1",
    "ν": "ν_l = where(l mod 2 == 0, 2, inf)",
}


def alone(form: str) -> str:
    """The whole text of a form."""
    body = re.sub(r"\b[A-Z]{4,}\b", lambda short: SHORT[short[0]], LINES.get(form) or _around(form))
    letters = set("".join(re.findall(r"_\{.*?\}|_[a-z']+|for l", body)))
    axes = [axis for axis in LEGEND if axis[0] in letters]
    scalars = [line for name, line in SCALARS.items() if re.search(rf"(?<![A-Za-z_']){name}(?![A-Za-z'(])", body)]
    whole = text(", ".join(axes), *body.split(" | "), scalars="; ".join(scalars))
    block, line = ONE_LINE.get(form, ("axes", "axes"))
    return (
        re.sub(rf"^{block}\n(?:  \w+: .*\n|  \w+ = .*\n)+", f"{line}\n", whole, flags=re.MULTILINE)
        if form in ONE_LINE
        else whole
    )


def _around(form: str) -> str:
    """The lines of a template."""
    if form in rare.PLACES:
        slot, condition = (part.format("d", n="D") for part in rare.PLACES[form])
        read = f"z_{{bs {slot}}}"
        return f"MODEL | return z_bsd + {f'where({condition}, {read}, 0)' if condition else read}"
    if form in rare.TOKENS:
        around, number = rare.TOKENS[form]
        row = "return " + around.format(f"E_{{{number.format()} d}}") if around else ""
        return "TOKENS | weights E_vd | " + (row or f"n_bs = {number.format(n='V')} | return E_{{n_bs d}}")
    if form in rare.BRANCHES:
        value, readers = (part.format("z_bsd", "r_bsd", "d", "q_bsd") for part in rare.BRANCHES[form])
        later = " | q_bsd = z_bsd W_d' W_d'" * ("q_bsd" in readers)
        return f"MODEL{' | weights W_d' * bool(later)} | r_bsd = {value}{later} | return z_bsd + {readers}"
    table, lines, parts = next(row for row in AROUND if form in row[0])
    return lines.replace("FORM", table[form].format(*parts, n="D"))
