"""What does the linter read of the many ways to write with indices, and does it see a slip in each?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands import Linted, lint
from tests.refusals import names

LEGEND = dict(zip("abcdefhijklmnst", "ABCDEFHIJKLMNST", strict=True))


def checked(text: str) -> Linted:
    return lint(text, legend=LEGEND)


READ = {
    "a mean in angles": (r"$\langle w_{ij} w_{kl} \rangle_\rho = c \delta_{ik} \delta_{jl}$", "{jl}", "{jt}", "E302"),
    "an expectation": (r"$\mathbb{E}_{x \sim p}[h_{bi} h_{bj}] = K_{ij}$", "K_{ij}", "K_{ik}", "E302"),
    "the element of a product": (r"$[A^\top B]_{ij} = A_{ki} B_{kj}$", "B_{kj}", "B_{lj}", "E301"),
    "the element of one matrix": (r"$\left(\mathbf{H}\right)_{ij} = A_{ik} [B]_{kj}$", "[B]_{kj}", "[B]_{lj}", "E301"),
    "the element of a power": (r"$w_{st} = (I + A)^{-1}_{sk} A_{kt}$", "A_{kt}", "A_{lt}", "E301"),
    "words": (r"$\mathrm{scores}_{st} = q_{se} k_{te}$, $y_{se} = \mathrm{scores}_{st} v_{te}$", "v_{te}", "v_{ae}", "E301"),
    "words with a text command": (r"$\text{out\_proj}_{sd} = \texttt{state}_{sk} C_{kd}$", "C_{kd}", "C_{ld}", "E301"),
    "a word used in two ways": (
        r"$\mathrm{scores}_{sta} = q_{sea} k_{tea}$, $y_{sea} = \mathrm{scores}_{sta} v_{tea}$",
        "{sta} v",
        "{st} v",
        "E304",
    ),
    "numbers as arguments": (r"$R(t)_{ij} x_{bj} = K_{ij}(t, h) x_{bj}$", "K_{ij}(t, h) x_{bj}", "K_{ij}(t, h) x_{bk}", "E302"),
    "ones": (r"$m_b = \frac{1}{D} \mathbf{1}_d x_{bd}$, $y_{bd} = x_{bd} - \mathbf{1}_d m_b$", "d x_{bd}", "d x_{be}", "E301"),
    "total derivatives": (r"$\frac{d f_i}{d x_{jb}} = W_{ik} \frac{d g_k}{d x_{jb}}$", "d g_k", "d g_l", "E302"),
    "a Jacobian": (
        r"$\frac{\partial z_{sd}}{\partial x_{tf}} = \delta_{st} \frac{\partial y_{se}}{\partial x_{sf}} O_{ed}$",
        "O_{ed}",
        "O_{cd}",
        "E302",
    ),
    "a derivative on one line": (r"$J_{ij} = \partial f_i / \partial x_j + W_{ij}$", "x_j +", "x_k +", "E301"),
    "a softmax, derived by a letter of the legend": (
        r"$\partial a_i / \partial s_j = a_i (\delta_{ij} - a_j)$",
        "- a_j",
        "- a_k",
        "E301",
    ),
    "a second derivative": (
        r"$\partial^2 u_i / \partial x_j \partial x_k = H_{ijk}$",
        "H_{ijk}",
        "H_{ijl}",
        "E302",
    ),
    "a derivative after a comma": (r"$\sigma_{ij,j} + f_i = c_{ij} u_{k,kj}$", "c_{ij}", "c_{ik}", "E301"),
    "deltas in Greek": (r"$y_i = δ_{ij} x_j$, $δ_{ij} δ_{jk} = δ_{ik}$", "{ij} x_j", "{ij} x_k", "E301"),
    "the largest under a condition": (r"$m_i = \max_{1 \leq j \leq n} x_{ij}$", "x_{ij}", "x_{ik}", "E306"),
    "a condition after a colon": (r"$y_i = \sum_{j: j \neq i} w_{ij} x_j$", "w_{ij}", "w_{ik}", "E301"),
    "a stacked condition": (
        r"$y_i = \sum_{\substack{j = 1 \\ j \neq i}}^n w_{ij} x_j$",
        "w_{ij} x_j",
        "w_{ik} x_k",
        "E306",
    ),
    "pairs in angles": (r"$E_l = -\sum_{\langle i, j \rangle} J_{ijl} s_i s_j$", "s_i s_j", "s_i s_k", "E301"),
    "a chain of bounds": (r"$y_c = \sum_{0 \leq i < j \leq n} a_{ij} b_c$", "a_{ij}", "a_{ik}", "E306"),
    "a word beside the index": (r"$y_i = \sum\nolimits_{j \text{ odd}} w_{ij} x_j$", "w_{ij}", "w_{ik}", "E301"),
    "a recurrence": (r"$h_{ti} = A_{ij} h_{t-1,j} + B_{ik} x_{tk}$", "h_{t-1,j}", "h_{t-1,l}", "E301"),
    "a root of a size": (r"$w_{st} = q_{sa} k_{ta} / √d_k$, $y_s = x_s / √2$", "k_{ta}", "k_{tb}", "E301"),
    "old fonts": (r"${\rm attn}_{st} = {\bf A}^{\rm in}_{sa} B_{at}$, $y_s = x_{\rm out} x_s$", "B_{at}", "B_{bt}", "E301"),
    "a covariant derivative": (
        r"$\nabla_j A_i = \partial_j A_i - \Gamma_{kij} A_k$, $\partial^j A_i = F_{ij}$, $\partial_i \phi = f_i$",
        "\\phi = f_i",
        "\\phi = f_k",
        "E302",
    ),
    "an integral": (r"$F_i = \int_0^1 w_{ij} x_j + b_i \, dt$", "x_j", "x_k", "E301"),
    "an integral whose measure stands first": (r"$y_i = \int d^3 s \, K_{ij} f_j$", "f_j", "f_k", "E301"),
    "a slot that is summed": (r"$\bar{y}_{i \bullet} = \frac{1}{n} \sum_j y_{ij}$", "y_{ij}", "y_{ik}", "E306"),
    "symmetrised indices": (r"$A_{ij} = \nabla_{(i} v_{j)}$", "v_{j)}", "v_{k)}", "E302"),
    "vectors below": (
        r"$w_{ij}(\mathbf{k}) = \sum_n f_{n \mathbf{k}} \, e_{{\bf k}, nij}(\mathbf{k})$", "nij}", "nil}", "E302"
    ),
    "accents on accents": (r"$\bar{\bar{y}}_i = \ddot{\bar{w}}_{ij} x_j$", "x_j", "x_k", "E301"),
    "a number over the sign": (r"$y_i \overset{(1)}{=} A_{ij} x_j$", "x_j", "x_k", "E301"),
    "letters in braces": (r"${k}_{i} = {A}_{ij} {x}_{j}$", "{x}_{j}", "{x}_{l}", "E301"),
    "a sum over a slash": (r"$t_i = \sum_j x_j / r_{ij}$", "r_{ij}", "r_{kj}", "E302"),
    "a frame": (r"$$\boxed{y_i = A_{ij} x_j}$$", "x_j", "x_k", "E301"),
    "a contraction beside an empty group": (
        r"$R_{ij} = \partial_k \Gamma^k{}_{ij} - \partial_i \Gamma^k{}_{kj}$", "\\partial_i", "\\partial_a", "E301"
    ),
    "a label above on the left": (
        r"$\bar{y}_i^w = \frac{\sum_j w_{ij} y_{ij}}{\sum_j w_{ij}}$", "{\\sum_j w_{ij}}$", "{\\sum_i w_{ij}}$", "E301"
    ),
    "the derivative of a function": (
        r"$\frac{\partial}{\partial y_i} J(W, b) = \sum_j W_{ji} \delta_j$", "\\delta_j", "\\delta_k", "E301"
    ),
    "a bound that depends on an index": (
        r"$d_i = c_i \sum_j \sum_{k=1}^{n_{ij}} a_{ijk}$", "\\sum_j", "\\sum_i", "E301"
    ),
    "a bar of old": (r"${\partial u_i \over \partial x_j} = {1 \over n} ({a_i \over 2} + b_i) c_j$", "c_j", "c_k", "E302"),
    "an upstream gradient": (
        r"$\frac{\partial \mathcal{L}}{\partial W_{de}} = \frac{\partial \mathcal{L}}{\partial z_{se}} x_{sd}$",
        "x_{sd}",
        "x_{sc}",
        "E302",
    ),
    "a derivative by an index": (r"$\partial_i f_{jb} = \delta_{ij} h_b - h_{ib} f_{jb}$", "b} f_{jb}", "b} f_{kb}", "E301"),
    "where a condition holds": (r"$M_{st}|_{s > t} = U_{sa} T_{ta}$", "T_{ta}", "T_{tb}", "E301"),
    "indices above and below": (r"$Q_t{}^e = H_t{}^d W_d{}^e$", "W_d{}^e", "W_c{}^e", "E301"),
    "indices with a mark": (
        r"$z_{\bar{s} d} = y_{\bar{s} e} O_{ed} + u_{\bar{s} j_0} V_{j_0 d}$",
        r"y_{\bar{s} e}",
        r"y_{\tilde{t} e}",
        "E301",
    ),
    "the index of a dot": (r"$g_{id} = h_{ic} \cdot_c W_{dc}$", "W_{dc}", "W_{de}", "E301"),
    "an absolute value": (r"$l_i = \left| x_{ij} w_j \right| / |B|$", "x_{ij}", "x_{ik}", "E301"),
    "a sum over brackets": (r"$s_{ij} = \sum_k (a_{ik} - m_i) (b_{kj} - n_j)$", r"\sum_k", r"\sum_l", "E306"),
    "a sum in a logarithm": (r"$l_{i} = \log \sum_{j=1}^{n} x_{ij} w_j$", "x_{ij}", "x_{ib}", "E301"),
    "a vector for each index": (r"$\mathbf{y}_i = a_{ij} \mathbf{v}_j$", "v}_j", "v}_k", "E301"),
    "a label before indices": (r"$q_{sa} = x_{sd} W_{Q, da} + b_{\mathrm{in}, a}$", "W_{Q, da}", "W_{Q, ea}", "E301"),
    "a product over an index": (r"$P_{ij} = \prod_{k=1}^{n} A_{ik} B_{kj}$", "B_{kj}", "B_{lj}", "E301"),
    "a tuple under a sum": (r"$l_i = \sum_{(j, k) \in \mathcal{D}} x_{ij} x_{ik}$", "x_{ik}", "x_{il}", "E306"),
    "a slot that is computed": (r"$y_{ac} = x_{b} K_{ab, \pi(c)}$", "x_{b}", "x_{d}", "E301"),
    "a step before others": (r"$S_{t-1,ij} = k_{t-1,i} v_{t-1,j} \log p_{t,x_{ti}}$", "v_{t-1,j}", "v_{t-1,l}", "E302"),
    "a negative slot": (r"$S_{-1, de} = k_{-1, d} v_{-1, e}$", "v_{-1, e}", "v_{-1, c}", "E302"),
    "what is transposed has a name": (r"$y_{ij} = A^\top_{ik} x_{kj}$", "x_{kj}", "x_{lj}", "E301"),
    "cases without a rest": (
        r"$x_{ij} = \begin{cases} a_{ij} & i < k; \\ b_{ij} & i > k \\ c_{ij} & \text{when } i = k \end{cases}$",
        "c_{ij}",
        "c_{il}",
        "E301",
    ),
    "a mark over a whole name": (r"$\hat{x_{ij}} := A_{ik} \mathbf{e_{kj}}$, $u_{ij} = \hat{x}_{ij}$", "e_{k", "e_{l", "E301"),
    "a mark over bold": (r"$\hat{\mathbf{R}}_{ij} = A_{ik} \tilde{\mathcal{B}}_{kj}$", "B}}_{k", "B}}_{l", "E301"),
    "a norm of matrices": (r"$\|\mathbf{X} - \mathbf{U}\|_F = \sqrt{\sum_{ij} (x_{ij} - u_{ij})^2}$", "u_{ij", "u_{il", "E301"),
    "a shape": (r"$y_{ij} = [x_{ij}]_{b \times d}$", "x_{ij}", "x_{il}", "E302"),
    "a function of a function": (r"$\mathcal{L} = \sum_{ij} \log \sigma(x_{ij} - y_j)$", "x_{ij}", "x_{ik}", "E301"),
    "cases for": (
        r"$x_{ij} = \begin{cases} a_{ij} & \text{for } i < j \\ b_{ij} & \text{otherwise} \end{cases}$",
        "b_{ij}",
        "b_{ik}",
        "E301",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", READ)
def test_it_is_read_and_a_slip_in_it_is_seen(case: str) -> None:
    text, right, wrong, code = READ[case]
    assert (set(checked(text).counts), list(checked(text).findings)) == ({""}, [])
    assert code in checked(text.replace(right, wrong, 1)).codes


SUBSCRIPT = re.compile(r"(?<=_)(?:\{[^{}\\]*\}|[a-z])")


def strayed(text: str) -> Iterator[str]:
    """The text with one letter of a subscript replaced by one that stands nowhere else."""
    plain = re.sub(r"\\[A-Za-z]+", "", text)
    stray = next(letter for letter in "mfhbkl" if letter not in plain)
    for match in SUBSCRIPT.finditer(text):
        for at in range(*match.span()):
            if text[at] in LEGEND:
                yield text[:at] + stray + text[at + 1 :]


def test_nearly_every_stray_letter_is_seen() -> None:
    texts = [slip for text, *_ in READ.values() for slip in strayed(text)]
    seen = Counter(bool(checked(slip).findings) for slip in texts)
    assert len(texts) > 200
    assert seen[True] >= 0.95 * len(texts)  # not those of labels, `m_i`, and of what only restricts, `|_{s > t}`


def test_an_index_with_a_mark_is_told_as_it_is_printed() -> None:
    (finding,) = checked(r"$z_{\bar{s} d} = y_{\widetilde{t} e} O_{ed} x_{\bar{s} c_{\text{in}}} w_{c_{in}}$").findings
    assert r"\tilde{t}" in names(finding)


UNSAID = {
    "a function of several things": "$y_{bs} = f(x_{bsd}, t)$, $z_{bsdf} = g(x_{bs}, t)$",
    "a function by name": r"$v_{bsd} = \mathrm{Embed}(t_{bs})$, $l_b = \operatorname{loss}\left(x_{bs}\right)$",
    "an operator by name": r"$y_{bsd} = \mathrm{Norm}_d\, x_{bsd}$, $t_{bs} = \operatorname{pick}_k x_{bsd}$",
    "an operator over what it may choose": r"$n_b = \| x_{bss} \|$, $m_b = f(x_{bss}, t)$",
    "a probability": r"$p(x_{ij} = c \mid y_{jl}) = z_{ij}$, $P(a_i | b_{jk}) = c_{ij}$",
    "an energy": r"$E(s_i) = -\sum_{i} J_{ia} s_i$, $f(x_i) = \sum_i x_i^2$",
    "a sum of what is not written out": r"$x_{ij} = \sum_k \ell(a, b)$",
    "a derivative by what is no index here": r"$\partial_t h_{ab} = A_{ac} h_{cb}$, $y_{ta} = x_{tb} \nabla_b h_a$",
    "a contraction": "$S_{ij} = R^l{}_{ilj}$",
    "what is neglected": r"$y_{ij} = x_{ij} + \mathcal{O}(t^2)$, $g_{ij} = h_{ij} \mathcal{F}(x_{ik}) $",
    "a mean over something": r"$m_j = \mathbb{E}_i[x_{ij}]$, $K_{ij} = E_{s}[a_i b_j]$",
    "a norm": r"$n_b = \| x_{bd} \|^2$, $m = \left\Vert a_{ij} - b_{ij} \right\Vert_F$",
    "a product that goes on": r"$y_{ij} = A_{ik} A_{kl} \dots A_{mj} x_{ja}$",
    "a sum that goes on": r"$y_{ij} = A_{ij} + A_{ik} A_{kj} + \dots$, $y_{ij} = x_{ij} + \text{terms}$",
    "what does not depend on all": r"$\mathsf{V}_{ijab} = \mathbf{V}_{ab}$",
    "a time that the legend names": r"$\partial_t h_{ij} = A_{ik} h_{kj}$",
    "a step for each sample": r"$p'_{ik} = p_{ik} + c \frac{\partial}{\partial p_{ik}} e_{ij}^2$",
    "an index that its condition fixes": r"$E = \sum_{i=1, j \neq k \neq i}^3 (a_j b_k - a_k b_j)$",
    "a trace of two slots": r"$E_{ikjl} = C_{ikjl} - C_{mmjl} \delta_{ik} / 3$",
    "the least over numbers": r"$\min_{\alpha,\beta} \sum_i e_i^2 = \min_{\alpha,\beta} \sum_i (y_i - \alpha - \beta x_i)^2$",
    "vectors of a basis": r"$F = \sum_i u_i e^i = u_i e^i$, $-\sigma'_{ij,j} + p_{,i} = F_i$, $u_{,t} = v_i w_i$",
    "a number made of elements": r"$Y = 2 p_t - p_{t-1}$",
    "one index for several": r"$\psi_i = P_{jl} Y_{lm}$",
    "a letter in brackets above": r"$z_{ah} = \sum_s A_{s}^{(h)} v_{sa}$",
    "groups that count by their members": r"$q = \sum_{i=1}^k \sum_{j=1}^{n_i} (\bar{y}_i - \mu)^2$",
    "a sum of as many constants": r"$q = \sum_{i=1}^n \log p(\sum_{j=1}^k u_j)$, $q = \sum_i \log(\sum_j u_j)$",
    "a sum of as many squares": r"$q = \sum_{i=1}^n \sum_{j=1}^k u_i u_i$",
    "a function with a label": r"$y_{jk} = f_a(x_{jk})$, $\frac{\partial y_i}{\partial x_i} = {f_a}'(x_i)$",
    "a name with a label": r"$\sigma_{ij} = \frac{1}{V_c} A_{ij}$, $y_i = \frac{x_i}{V_c}$",
    "a trace on the left": r"$A_{ii} = \sum_{i=0}^{n-1} A_{ii}$",
    "a point from some elements": r"$r = r_k - r_{ij} r_{jk} r_i$",
    "a difference in a text with indices above": r"$v^i v_i = 1$, $r_{ij} = r_i - r_j$",
    "a ratio of elements": r"$r = \frac{r_{jk}}{r_{ij} + r_{jk}}$",
    "a sum over what is contracted": r"$p_j = \sum_k \Gamma^k{}_{kj}$, $\Gamma^i{}_{jk} = u_i v_{jk}$",
    "what does not depend on all, in terms": r"$\hat{y}_{ijk} = m + (a_i - m) + (u_j - m)$",
    "a mean beside those of the groups": (
        r"$y_{ij} = \mu_i + r_{ij}$, $p_i = \mu_i - q_i$, $v_{i} = 2 \mu_i - p_i$, $c_k = 2 \mu_k$, "
        r"$u_{ij} = (y_{ij} - \mu) / 2$"
    ),
    "letters that are fixed": r"For fixed $(h, s)$: $l_t = q_{she} k_{teh}$",
    "an index and the same with a bar": r"$W_{d(ft)} = \bar{W}_{df\bar{t}}$",
    "a definition that leaves slots out": "$u_{sc} = A_{sb} v_{bc}$, $o_{sd} = u_{scd} w_{cd}$, $x_{bd} = v_{bcd} k_c$",
}


@pytest.mark.parametrize("case", UNSAID)
def test_what_is_not_said_is_read_and_no_finding(case: str) -> None:
    assert (set(checked(UNSAID[case]).counts), list(checked(UNSAID[case]).findings)) == ({""}, [])


def test_a_word_below_a_name_is_no_indices() -> None:
    text = r"$T_{hop} = 2 V / W_{link}$, $y_{ij} = x_{ik} w_{kj}$, $h_{an} = o_{ap} l_{pn}$"
    assert checked(text).findings == ()


UNREAD = {
    r"$a = \bar{y_i} - b \overline{x_i}$": "a bar over an index",
    r"$s_{ij} = \langle x_{ik}, y_{jk} \rangle$": "an inner product",
    r"$y_{bs\dots} = x_{bs\dots}$": "dots",
    r"$y_{a \ldots c} = x_{iia \dots c}$": "dots",
    r"$y_{ij} = a b^i c_j$, $f = r^j \exp(-y_{ij} r)$": "`i` above: an index, or a label?",
    r"$v^k u_k = 1$, $y_i = a_0 A^{k-1} b_i + A^k b_i$": "`k` above: an index, or a label?",
    r"$\frac{d v}{d t} = q F^{0i} v_i = q E_i v_i$": "upper indices",
    r"$\mathbf{h}_t = \mathbf{W} \mathbf{x}_t$": "vectors and matrices in bold",
    r"$y_k = \sum_{i + j = k} a_i b_j$": "a condition below a sum",
    r"$y_{sd} = x_{se} W_{ed} / d_{model}$": "`model`: a word, or indices?",
    r"$x_{ij} = y_{ij}|_{j = s}$": "a norm or a condition",
    r"$y_{ij} = x_{ij} \text{ maybe}$": "the operator or word `maybe`",
}


@pytest.mark.parametrize("text", UNREAD)
def test_what_may_be_either_is_not_read(text: str) -> None:
    assert UNREAD[text] in checked(text).counts


@pytest.mark.parametrize("scale", [r"/ \sqrt{d_k}", r"d_k^{-1/2}", r"\frac{1}{√d_k}"])
def test_a_size_below_a_root_is_not_judged_as_an_index(scale: str) -> None:
    """The legend names `k`, and not `d`. Where `k` is an index of the left side, the root is of a tensor."""
    text = rf"$w_{{st}} = q_{{sk}} k_{{tk}} {scale}$"
    assert lint(text, legend=dict.fromkeys("stk", "")).counts == {"`d_k`: a size, or an index?": 1}
    assert lint(r"$y_k = x_k / \sqrt{d_k}$", legend={"k": ""}).counts == {"": 1}


def test_what_follows_another_form_of_a_tensor_is_judged_by_that_form() -> None:
    """`g_{ij} = g_{ii} = …` is said of equal `i` and `j`, and `g_{ij} = g` of a matrix and its elements."""
    found = checked(r"$\Gamma^k_{ij} = \Gamma^k_{ii} = c_k \partial_k h_i$, $g_{ij} = A_{ik} B_{kj} = g$, $c_t = c_0 = a b$")
    assert (found.counts, found.findings) == ({"": 2, "no indices": 1, "another form of the same indices": 3}, ())


def test_an_operator_without_an_index_below_it_is_read() -> None:
    assert checked(r"$\sum f(x_i) = \sum g_{ij}$").findings == ()


def test_letters_above_are_all_indices_or_none() -> None:
    assert lint(r"$y_j = g^{jk} g^{zk} x_k$", legend={"j": "", "k": ""}).counts == {"upper indices": 1}


@pytest.mark.parametrize("sign", [r"\approx", "≈", r"\propto", "∝", r"\to", "→", r"\mapsto", "↦"])
def test_a_row_that_is_no_equality_is_counted(sign: str) -> None:
    found = checked(rf"\begin{{align}} x_i &{sign} y_j \\ z_i &= W_{{ij}} x_j \end{{align}}, $n {sign} 0$")
    assert (found.counts, found.findings) == ({"": 1, f"`{sign}` is not an equality": 1}, ())


def test_indices_above_need_no_index_below() -> None:
    text = r"$\partial_\mu F^{\mu\nu} = J^{\nu\rho} u_\rho$, $g^{\mu\nu} g^{\rho\nu} = h^{\mu\rho}$, $x^2 = y^n$"
    found = lint(text, legend=dict.fromkeys("μνρ", ""))
    assert (found.counts, found.findings) == ({"": 2, "no indices": 1}, ())
    assert lint(text.replace(r"h^{\mu\rho}", r"h^{\mu\nu}"), legend=dict.fromkeys("μνρ", "")).codes


def test_greek_letters_of_a_legend_are_indices() -> None:
    text = r"$x_\nu = T_{\mu\nu} S_{\mu\rho} y_\rho$, $\sigma_\epsilon = x_\nu x_\nu$"
    assert lint(text, legend=dict.fromkeys("μνρ", "")).counts == {"": 2}
    assert lint(text.replace(r"x_\nu =", r"x_\mu ="), legend=dict.fromkeys("μνρ", "")).codes == ["E301"]


def test_nothing_is_found_in_what_people_write() -> None:
    """Recurrent networks, physics, statistics, learning, transformers: with a legend for each, and without one."""
    text = (Path(__file__).parent / "data" / "fields.md").read_text(encoding="utf-8")
    found = lint(text)
    assert found.findings == ()
    assert found.counts[""] > 90  # of 144
    assert lint(re.sub("<!--.*-->", "", text)).findings == ()
