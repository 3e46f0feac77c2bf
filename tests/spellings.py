"""Ways in which one thing is written, by what that is: in each group all texts mean the same, to a number."""

from __future__ import annotations

from dataclasses import dataclass

Lines = tuple[str, ...]

SIZES = {"b": "B", "s": "S", "d": "D", "a": "A", "e": "H = D / A", "f": "F", "x": "X", "v": "V"}
BOUND = {"D": 12, "A": 3, "F": 5, "X": 5, "V": 11}
EXAMPLE = {"B": 2, "S": 5}

MASK = "m_ss' = where(s' <= s, 0, -inf)"
QKV = ("q_bsea = z_bsd Q_dea", "k_bsea = z_bsd K_dea", "v_bsea = z_bsd V_dea")
ENDS = ("y_bsea = w_bss'a v_bs'ea", "return y_bsea O_ead")
SCORES = "q_bsea k_bs'ea / sqrt(H)"
DEFAULTS = {"ε": "ε = 1e-5", "κ": "κ = 3", "T": "T = 2", "p": "p = 0.5", "θ": "θ_a = 2^(-a)"}


@dataclass(frozen=True)
class Group:
    """What is written: the head of its layer, the legend's letters and scalars, and the bodies."""

    head: str
    letters: str
    spellings: tuple[Lines, ...]
    scalars: str = ""

    def text(self, lines: Lines) -> str:
        """The whole text of a spelling."""
        axes = [f"  {letter}: {SIZES[letter]}" for letter in self.letters]
        scalars = ["scalars", *(f"  {DEFAULTS[name]}" for name in self.scalars)] if self.scalars else []
        return "\n".join(["axes", *axes, *scalars, self.head, *(f"  {line}" for line in lines), ""])


def attentions(*middles: Lines, scalars: str = "", weights: str = "") -> Group:
    """Attention between its maps and its output, by what stands between."""
    head = f"model M(z_bsd) -> z_bsd causal in s:\n  weights Q_dea, K_dea, V_dea, O_ead{weights}"
    return Group(head, "bsdae", tuple(some if some[0] == QKV[0] else (*QKV, *some, *ENDS) for some in middles), scalars)


def layers(head: str, letters: str, *spellings: Lines, scalars: str = "") -> Group:
    """A layer of a batch of sequences of features."""
    return Group(f"layer N(z_bsd) -> {head}", letters, spellings, scalars)


def softmax(argument: str) -> str:
    return f"w_bss'a = Sm_s'({argument})"


WINDOW, SLOPES, CAP = "s - 3 < s' <= s", "θ_a (s' - s)", "κ tanh(q_bsea k_bs'ea / (κ sqrt(H)))"
GATES = ("g_bsf = z_bsd G_df", "u_bsf = z_bsd U_df")
ROUTED = ("r_bsx = Sm_x(z_bsd R_dx)", "g_bsxf = z_bsd G_xdf")
SINK = (MASK, f"t_bss'a = {SCORES} + m_ss'")
STATE = ("k_bsx = z_bsd K_dx", "q_bsx = z_bsd Q_dx", "v_bsf = z_bsd V_df", "a_bs = sigmoid(z_bsd A_d)")
GROUPS = {
    "causal attention": attentions(
        (MASK, softmax(f"{SCORES} + m_ss'")),
        ("m_ss' = where(s' < s + 1, 0, -inf)", softmax(f"{SCORES} + m_ss'")),
        ("m_ss' = where(not s' > s, 0, -inf)", softmax(f"m_ss' + {SCORES}")),
        ("m_ss' = where(s' > s, -inf, 0)", softmax("(k_bs'ea q_bsea) / sqrt(H) + m_ss'")),
        (softmax(f"{SCORES} + where(s - s' >= 0, 0, -inf)"),),
        (softmax(f"where(s' <= s, {SCORES}, -inf)"),),
        ("c_ss' = where(s' <= s, 1, 0)", softmax(f"where(c_ss' == 1, {SCORES}, -inf)")),
        (MASK, softmax("H^(-0.5) q_bsea k_bs'ea + m_ss'")),
        (MASK, "n_bsea = q_bsea / sqrt(H)", softmax("n_bsea k_bs'ea + m_ss'")),
        (MASK, f"t_bss'a = {SCORES}", softmax("t_bss'a + m_ss'")),
        (MASK, f"t_bss'a = {SCORES}", "t_bss'a <- t_bss'a + m_ss'", softmax("t_bss'a")),
        (*QKV, MASK, softmax(f"{SCORES} + m_ss'"), "return w_bss'a v_bs'ea O_ead"),
        (*QKV, MASK, "return Sm_s'(q_bse'a k_bs'e'a / sqrt(H) + m_ss') v_bs'ea O_ead"),
    ),
    "attention with slopes": attentions(
        (f"m_ss'a = where(s' <= s, {SLOPES}, -inf)", softmax(f"{SCORES} + m_ss'a")),
        (softmax(f"{SCORES} + where(s' <= s, {SLOPES}, -inf)"),),
        (MASK, softmax(f"{SCORES} + {SLOPES} + m_ss'")),
        (MASK, softmax(f"m_ss' + {SCORES} - θ_a (s - s')")),
        (softmax(f"where(s' <= s, {SCORES} + {SLOPES}, -inf)"),),
        (MASK, f"t_bss'a = {SCORES}", f"t_bss'a <- t_bss'a + {SLOPES}", softmax("t_bss'a + m_ss'")),
        scalars="θ",
    ),
    "a window": attentions(
        (f"m_ss' = where({WINDOW}, 0, -inf)", softmax(f"{SCORES} + m_ss'")),
        ("m_ss' = where(s' <= s and s - s' < 3, 0, -inf)", softmax(f"{SCORES} + m_ss'")),
        (softmax(f"{SCORES} + where({WINDOW}, 0, -inf)"),),
        (softmax(f"where(s' > s or s - s' >= 3, -inf, {SCORES})"),),
        ("m_ss' = where(s' <= s, where(s - s' < 3, 0, -inf), -inf)", softmax(f"{SCORES} + m_ss'")),
        (MASK, "n_ss' = where(s - s' < 3, 0, -inf)", softmax(f"{SCORES} + m_ss' + n_ss'")),
    ),
    "a cap of scores": attentions(
        (MASK, softmax(f"{CAP} + m_ss'")),
        (softmax(f"{CAP} + where(s' <= s, 0, -inf)"),),
        (softmax(f"where(s' <= s, {CAP}, -inf)"),),
        (MASK, f"t_bss'a = {SCORES}", softmax("κ tanh(t_bss'a / κ) + m_ss'")),
        (MASK, f"t_bss'a = {SCORES}", "t_bss'a <- κ tanh(t_bss'a / κ)", softmax("t_bss'a + m_ss'")),
        scalars="κ",
    ),
    "a sink": attentions(
        (*SINK, "n_bsa = lse_s' t_bss'a", "w_bss'a = Sm_s'(t_bss'a) sigmoid(n_bsa - σ_a)"),
        (*SINK, "w_bss'a = Sm_s'(t_bss'a) sigmoid(lse_s' t_bss'a - σ_a)"),
        (*SINK, "n_bsa = lse_s' t_bss'a - σ_a", "w_bss'a = sigmoid(n_bsa) Sm_s'(t_bss'a)"),
        (*SINK, "n_bsa = lse_s' t_bss'a", "w_bss'a = Sm_s'(t_bss'a)", "w_bss'a <- sigmoid(-(σ_a - n_bsa)) w_bss'a"),
        (*QKV, *SINK, "n_bsa = lse_s' t_bss'a", "y_bsea = sigmoid(n_bsa - σ_a) Sm_s'(t_bss'a) v_bs'ea", ENDS[1]),
        (*QKV, *SINK, softmax("t_bss'a"), "n_bsa = lse_s' t_bss'a", "y_bsea = w_bss'a v_bs'ea",
         "y_bsea <- y_bsea sigmoid(n_bsa - σ_a)", ENDS[1]),
        weights=", σ_a",
    ),
    "a linear recurrence": Group("model M(z_bsd) -> y_bsf causal in s:\n  weights K_dx, Q_dx, V_df, A_d", "bsdxf", (
        (*STATE, "S_bsxf = a_bs S_{b(s - 1)xf} + k_bsx v_bsf", "return q_bsx S_bsxf"),
        (*STATE, "S_bsxf = k_bsx v_bsf + S_{b(s - 1)xf} a_bs", "return S_bsxf q_bsx"),
        (*STATE, "S_bsfx = a_bs S_{b(s - 1)fx} + v_bsf k_bsx", "return q_bsx S_bsfx"),
        (*STATE, "S_bsxf = a_bs S_{b(s - 1)xf} + k_bsx v_bsf", "return q_bsx' S_bsx'f"),
        (*STATE, "S_bsxf = a_bs S_{b(s - 1)xf} + k_bsx v_bsf", "y_bsf = q_bsx S_bsxf", "return y_bsf"),
    )),
    "root mean square norm": layers(
        "y_bsd:\n  weights γ_d", "bsd",
        ("return γ_d z_bsd / sqrt(mean_d(z_bsd^2) + ε)",),
        ("return z_bsd γ_d / sqrt(ε + mean_d(z_bsd z_bsd))",),
        ("return γ_d (z_bsd / sqrt(sum_d(z_bsd^2) / D + ε))",),
        ("return γ_d z_bsd (mean_d(z_bsd^2) + ε)^(-0.5)",),
        ("r_bs = sqrt(mean_d(z_bsd^2) + ε)", "return γ_d z_bsd / r_bs"),
        ("r_bs = 1 / sqrt(mean_d(z_bsd^2) + ε)", "return r_bs γ_d z_bsd"),
        ("n_bsd = z_bsd^2", "r_bs = mean_d n_bsd", "return γ_d z_bsd / sqrt(r_bs + ε)"),
        ("r_bs = mean_d(z_bsd^2)", "r_bs <- r_bs + ε", "return γ_d z_bsd / sqrt(r_bs)"),
        ("n_bsd = z_bsd / sqrt(mean_d(z_bsd^2) + ε)", "return n_bsd γ_d"),
        scalars="ε",
    ),
    "layer norm": layers(
        "y_bsd:\n  weights γ_d, β_d", "bsd",
        ("return γ_d (z_bsd - mean_d z_bsd) / sqrt(var_d z_bsd + ε) + β_d",),
        ("return β_d + (z_bsd - mean_d z_bsd) γ_d / sqrt(ε + var_d z_bsd)",),
        ("n_bsd = z_bsd - mean_d z_bsd", "return γ_d n_bsd / sqrt(mean_d n_bsd^2 + ε) + β_d"),
        ("n_bs = mean_d z_bsd", "r_bs = var_d z_bsd", "return γ_d (z_bsd - n_bs) / sqrt(r_bs + ε) + β_d"),
        ("n_bsd = γ_d (z_bsd - mean_d z_bsd) / sqrt(var_d z_bsd + ε)", "return n_bsd + β_d"),
        ("n_bsd = (z_bsd - mean_d z_bsd) / sqrt(var_d z_bsd + ε)", "return n_bsd γ_d + β_d"),
        scalars="ε",
    ),
    "a linear map with a bias": layers(
        "y_bsf:\n  weights W_df, ω_f", "bsdf",
        ("return z_bsd W_df + ω_f",),
        ("return ω_f + W_df z_bsd",),
        ("return sum_d (z_bsd W_df) + ω_f",),
        ("h_bsf = z_bsd W_df", "return h_bsf + ω_f"),
        ("h_bsf = z_bsd W_df", "h_bsf <- h_bsf + ω_f", "return h_bsf"),
        ("h_bsf = W_df z_bsd", "y_bsf = ω_f + h_bsf", "return y_bsf"),
    ),
    "a map beside a residual": layers(
        "z_bsd:\n  weights W_dd', ω_d", "bsd",
        ("return z_bsd + z_bsd' W_d'd + ω_d",),
        ("return z_bsd + (ω_d + z_bsd' W_d'd)",),
        ("z_bsd <- z_bsd + z_bsd' W_d'd + ω_d", "return z_bsd"),
        ("h_bsd = z_bsd' W_d'd", "return z_bsd + h_bsd + ω_d"),
        ("h_bsd = z_bsd' W_d'd", "h_bsd <- h_bsd + ω_d", "return z_bsd + h_bsd"),
    ),
    "a map with a scale": layers(
        "y_bsf:\n  weights W_df", "bsdf",
        ("return z_bsd W_df / sqrt(D)",),
        ("return (z_bsd W_df) / sqrt(D)",),
        ("return D^(-0.5) z_bsd W_df",),
        ("return (z_bsd / sqrt(D)) W_df",),
        ("return z_bsd (W_df / sqrt(D))",),
        ("h_bsf = z_bsd W_df", "return h_bsf / sqrt(D)"),
    ),
    "maps of one input": layers(
        "y_bsf:\n  weights P_df, Q_df, R_df", "bsdf",
        ("p_bsf = z_bsd P_df", "q_bsf = z_bsd Q_df", "r_bsf = z_bsd R_df", "return p_bsf q_bsf r_bsf"),
        ("r_bsf = R_df z_bsd", "p_bsf = z_bsd P_df", "q_bsf = z_bsd Q_df", "return p_bsf q_bsf r_bsf"),
        ("return (z_bsd P_df) (z_bsd' Q_d'f) (z_bsd'' R_d''f)",),
        ("n_bsd = z_bsd", "p_bsf = n_bsd P_df", "q_bsf = z_bsd Q_df", "r_bsf = n_bsd R_df", "return p_bsf q_bsf r_bsf"),
    ),
    "maps with biases": layers(
        "y_bsf:\n  weights P_df, Q_df, ρ_f, ω_f", "bsdf",
        ("p_bsf = z_bsd P_df + ρ_f", "q_bsf = z_bsd Q_df + ω_f", "return silu(p_bsf) q_bsf"),
        ("p_bsf = ρ_f + P_df z_bsd", "q_bsf = z_bsd Q_df", "q_bsf <- q_bsf + ω_f", "return silu(p_bsf) q_bsf"),
        ("p_bsf = P_df z_bsd", "q_bsf = z_bsd Q_df", "return silu(p_bsf + ρ_f) (q_bsf + ω_f)"),
    ),
    "a map in two steps": layers(
        "z_bsd:\n  weights W_df, U_fd", "bsdf",
        ("h_bsf = z_bsd W_df", "return h_bsf U_fd"),
        ("h_bsf = W_df z_bsd", "z_bsd <- U_fd h_bsf", "return z_bsd"),
        ("return z_bsd' W_d'f U_fd",),
    ),
    "a gated MLP": layers(
        "z_bsd:\n  weights G_df, U_df, O_fd", "bsdf",
        (*GATES, "return silu(g_bsf) u_bsf O_fd"),
        (*GATES[::-1], "return u_bsf silu(g_bsf) O_fd"),
        (*GATES, "h_bsf = silu(g_bsf) u_bsf", "return h_bsf O_fd"),
        ("g_bsf = silu(z_bsd G_df)", GATES[1], "return g_bsf u_bsf O_fd"),
        ("return silu(z_bsd' G_d'f) (z_bsd'' U_d''f) O_fd",),
        (GATES[0], "g_bsf <- silu(g_bsf)", GATES[1], "u_bsf <- g_bsf u_bsf", "return u_bsf O_fd"),
    ),
    "an MLP": layers(
        "z_bsd:\n  weights W_df, ω_f, U_fd, ρ_d", "bsdf",
        ("h_bsf = gelu(z_bsd W_df + ω_f)", "return h_bsf U_fd + ρ_d"),
        ("h_bsf = z_bsd W_df + ω_f", "return ρ_d + gelu(h_bsf) U_fd"),
        ("h_bsf = z_bsd W_df", "h_bsf <- gelu(h_bsf + ω_f)", "z_bsd <- h_bsf U_fd", "return ρ_d + z_bsd"),
    ),
    "chosen experts": layers(
        "z_bsd:\n  weights R_dx, G_xdf, O_xfd", "bsdfx",
        (*ROUTED, "p_bsx = where(top_{T,x}(r_bsx), r_bsx, 0)", "return p_bsx silu(g_bsxf) O_xfd"),
        (*ROUTED, "p_bsx = where(not top_{T,x}(r_bsx), 0, r_bsx)", "return p_bsx silu(g_bsxf) O_xfd"),
        (*ROUTED, "c_bsx = where(top_{T,x}(r_bsx), 1, 0)", "return where(c_bsx == 1, r_bsx, 0) silu(g_bsxf) O_xfd"),
        (*ROUTED, "return where(top_{T,x}(r_bsx), r_bsx, 0) silu(g_bsxf) O_xfd"),
        scalars="T",
    ),
    "experts chosen before the softmax": layers(
        "z_bsd:\n  weights R_dx, G_xdf, O_xfd", "bsdfx",
        *((ROUTED[1], "r_bsx = z_bsd R_dx", f"p_bsx = Sm_x({argument})", "return p_bsx silu(g_bsxf) O_xfd") for argument in (
            "where(top_{T,x}(r_bsx), r_bsx, -inf)", "where(not top_{T,x}(r_bsx), -inf, r_bsx)",
            "r_bsx + where(top_{T,x}(r_bsx), 0, -inf)",
        )),
        scalars="T",
    ),
    "cross-entropy": Group("layer N(y_bsv, t_bs) -> r:", "bsv", (
        ("return mean_{bs}(lse_v y_bsv - y_{b s t_bs})",),
        ("n_bs = lse_v y_bsv", "return mean_{bs}(n_bs - y_{b s t_bs})"),
        ("return mean_{bs}(-y_{b s t_bs} + lse_v y_bsv)",),
        ("n_bsv = y_bsv - lse_v y_bsv", "return -mean_{bs} n_{b s t_bs}"),
    )),
}  # fmt: skip
