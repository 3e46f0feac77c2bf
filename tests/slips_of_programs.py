"""What goes wrong in the programs of the corpus? A line of one, what stands there instead, and which checks must refuse it."""

from __future__ import annotations

from tests.wrong_programs import Slip


def _slip(name: str, file: str, old: str, new: str, caught: str, says: str = "") -> Slip:
    """`caught` is `check E903, check E911`."""
    return Slip(name, file, old, new, tuple((part[:-5], part[-4:]) for part in caught.split(", ")), says)


NANOGPT = "nanogpt"
EINOPS_ATTENTION = "einops_attention"
SUFFIXED = "suffixed"
GROUPED = "grouped"
INTERLEAVED = "interleaved"
MASKS = "masks"
NORMS = "norms"
GATED = "gated"
EXPERTS = "experts"
TORCH_LAYERS = "torch_layers"
CACHED = "cached"
TRANSFORMERS_LAYERS = "transformers_layers"
STATIC_CACHE = "static_cache"
SCALE = "not scaled"
MASK = "mask is missing"
AXIS = "over another index"
VIEW = "by a view"
SWAPPED = "change places"
ORDER = "axes in another order"

SLIPS = (
    # nanoGPT: attention
    _slip("scores are not scaled", NANOGPT, " * (1.0 / math.sqrt(k.size(-1)))", "", "attention E903, block E903", SCALE),
    _slip("scaled by the model", NANOGPT, "math.sqrt(k.size(-1))", "math.sqrt(C)", "attention E903", "scale is another"),
    _slip("scaled without the root", NANOGPT, "(1.0 / math.sqrt(k.size(-1)))", "(1.0 / k.size(-1))", "attention E903",
          "scale is another"),
    _slip("no mask", NANOGPT, '        att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))\n', "",
          "attention E903, attention is causal E911", MASK),
    _slip("mask inverted", NANOGPT, "T] == 0", "T] == 1", "attention E903, attention is causal E911", "mask is inverted"),
    _slip("mask without the diagonal", NANOGPT, "torch.ones(block_size, block_size))",
          "torch.ones(block_size, block_size), diagonal=-1)", "attention E903", "off by one"),
    _slip("mask with one of the future", NANOGPT, "torch.ones(block_size, block_size))",
          "torch.ones(block_size, block_size), diagonal=1)", "attention E903, attention is causal E911", "off by one"),
    _slip("masked scores are zero", NANOGPT, 'float("-inf")', "0.0", "attention E903, attention is causal E911", "score 0"),
    _slip("masked after the softmax", NANOGPT,
          '        att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))\n        att = F.softmax(att, dim=-1)\n',
          "        att = F.softmax(att, dim=-1)\n        att = att.masked_fill(self.bias[:, :, :T, :T] == 0, 0.0)\n",
          "attention E903, attention is causal E911", "after the softmax"),
    _slip("softmax over the queries", NANOGPT, "F.softmax(att, dim=-1)", "F.softmax(att, dim=-2)",
          "attention E903, attention is causal E911", AXIS),
    _slip("softmax over the heads", NANOGPT, "F.softmax(att, dim=-1)", "F.softmax(att, dim=1)", "attention E903"),
    _slip("scores transposed", NANOGPT, "(q @ k.transpose(-2, -1))", "(k @ q.transpose(-2, -1))", "attention E903",
          "transposed"),
    _slip("heads merged without a transposition", NANOGPT, "y.transpose(1, 2).contiguous()", "y.contiguous()",
          "attention E903, attention is causal E911", VIEW),
    _slip("keys split without a transposition", NANOGPT, "k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)",
          "k = k.reshape(B, self.n_head, T, C // self.n_head)", "attention E903, attention is causal E911", VIEW),
    _slip("queries and keys in the other order", NANOGPT, "q, k, v = self.c_attn", "k, q, v = self.c_attn", "attention E903"),
    _slip("values first", NANOGPT, "q, k, v = self.c_attn", "v, k, q = self.c_attn", "attention E903"),
    _slip("dropout while it does not train", NANOGPT, "self.dropout, self.training)", "self.dropout)", "attention E906"),
    _slip("weights are detached", NANOGPT, "y = att @ v", "y = att.detach() @ v", "attention E904"),
    _slip("the output is not projected", NANOGPT, "        return self.c_proj(y)\n", "        return y\n", "attention E903"),
    # nanoGPT: MLP, blocks, model
    _slip("exact GELU", NANOGPT, 'approximate="tanh"', 'approximate="none"', "mlp E903, block E903", "activation is another"),
    _slip("ReLU", NANOGPT, 'F.gelu(x, approximate="tanh")', "F.relu(x)", "mlp E903", "activation is another"),
    _slip("activation after the projection", NANOGPT,
          '        x = F.gelu(x, approximate="tanh")\n        return self.c_proj(x)\n',
          '        return F.gelu(self.c_proj(x), approximate="tanh")\n', "mlp E903"),
    _slip("no residual", NANOGPT, "x = x + self.mlp(self.ln_2(x))", "x = self.mlp(self.ln_2(x))", "block E903",
          "residual is missing"),
    _slip("norm after", NANOGPT, "x = x + self.attn(self.ln_1(x))", "x = self.ln_1(x + self.attn(x))", "block E903",
          "another place"),
    _slip("norm of the branch", NANOGPT, "x = x + self.mlp(self.ln_2(x))", "x = x + self.ln_2(self.mlp(x))", "block E903",
          "another place"),
    _slip("residual of the norm", NANOGPT, "        x = x + self.mlp(self.ln_2(x))\n",
          "        x = self.ln_2(x)\n        x = x + self.mlp(x)\n", "block E903", "another place"),
    _slip("no norm", NANOGPT, "self.attn(self.ln_1(x))", "self.attn(x)", "block E903", "norm is missing"),
    _slip("one norm for both", NANOGPT, "self.mlp(self.ln_2(x))", "self.mlp(self.ln_1(x))", "block E903",
          "of another call"),
    _slip("ε of another library", NANOGPT, "self.ln_2 = nn.LayerNorm(n_embd, eps=1e-5)",
          "self.ln_2 = nn.LayerNorm(n_embd, eps=1e-6)", "block E903"),
    _slip("no positions", NANOGPT, "self.wte(idx) + self.wpe(pos)", "self.wte(idx)", "gpt E903"),
    _slip("no final norm", NANOGPT, "        x = self.ln_f(x)\n", "", "gpt E903", "norm is missing"),
    _slip("blocks are added twice", NANOGPT, "x = block(x)", "x = x + block(x)", "gpt E903"),
    # einops
    _slip("merged feature-major", EINOPS_ATTENTION, '"b h n d -> b n (h d)"', '"b h n d -> b n (d h)"', "einops E903", ORDER),
    _slip("queries split feature-major", EINOPS_ATTENTION, 'q = rearrange(q, "b n (h d)', 'q = rearrange(q, "b n (d h)',
          "einops E903", ORDER),
    _slip("keys as values", EINOPS_ATTENTION, "attn, v)", "attn, k)", "einops E903", "read for another"),
    _slip("softmax over the wrong axis", EINOPS_ATTENTION, "softmax(dim=-1)", "softmax(dim=-2)",
          "einops E903", AXIS),
    _slip("scores summed over the wrong keys", EINOPS_ATTENTION, '"b h i j, b h j d -> b h i d"',
          '"b h j i, b h j d -> b h i d"', "einops E903", "transposed"),
    _slip("scaled by the whole width", EINOPS_ATTENTION, "(dim // heads) ** -0.5", "dim**-0.5", "einops E903",
          "scale is another"),
    _slip("queries viewed", EINOPS_ATTENTION, 'q = rearrange(q, "b n (h d) -> b h n d", h=self.heads)',
          "q = q.reshape(q.shape[0], self.heads, q.shape[1], -1)", "einops E903, einops is equivariant E913", VIEW),
    # what peers accept
    _slip("scores declared b a s t, computed b a t s", SUFFIXED, '"bsea,btea->bast"', '"btea,bsea->bast"',
          "scores E903, contracts E720", "transposed"),
    _slip("softmax over the query axis", SUFFIXED, "torch.softmax(t_bsta, dim=2)", "torch.softmax(t_bsta, dim=1)",
          "attend E903, suffixes E775", AXIS),
    _slip("a contraction with a typo", SUFFIXED, '"bsd,df->bsf"', '"bsd,ef->bsf"', "suffixed mlp E903, suffixes E772"),
    _slip("size 1 against the width", SUFFIXED, '"bsd,dea->bsea", z_bsd, Q_dea', '"bsd,dea->bsea", z_bsd, Q_dea[:1]',
          "project E903"),
    _slip("(e a) for (a e)", SUFFIXED, "y_bsea.transpose(2, 3).reshape", "y_bsea.reshape",
          "merge E903", "other order"),
    _slip("(e a) split for (a e)", SUFFIXED, "p_bsd.reshape(B, S, A, -1).transpose(2, 3)", "p_bsd.reshape(B, S, -1, A)",
          "split E903", "split in the other"),
    _slip("two arguments of equal size swapped", SUFFIXED, '"bsea,btea->bsta", q_bsea, k_bsea',
          '"bsea,btea->bsta", k_bsea, q_bsea', "attend E903"),
    # masks and biases
    _slip("a window of one more", MASKS, "(dist >= window)", "(dist > window)", "window E903", "off by one"),
    _slip("a window of the future", MASKS, "pos[:, None] - pos[None, :]", "pos[None, :] - pos[:, None]", "window E903",
          "transposed"),
    _slip("a bias that grows", MASKS, "(pos[None, :] - pos[:, None])", "(pos[:, None] - pos[None, :])", "alibi E903",
          "transposed"),
    _slip("slopes from zero", MASKS, "torch.arange(1, heads + 1,", "torch.arange(heads,", "alibi E903"),
    _slip("a softmax over heads", MASKS, "torch.softmax(weights, dim=-1)", "torch.softmax(weights, dim=1)",
          "multi-query E903", AXIS),
    _slip("a shared key is summed over its positions", MASKS, '"bhij,bjd->bhid", weights, v)', '"bhij,bkd->bhid", weights, v)',
          "multi-query E903"),
    _slip("a state that forgets", MASKS, "state = state + k[", "state = k[", "linear E903"),
    _slip("a state read too early", MASKS,
          "        state = state + k[:, t, :, None] * v[:, t, None, :]\n"
          '        out.append(torch.einsum("bd,bde->be", q[:, t], state))\n',
          '        out.append(torch.einsum("bd,bde->be", q[:, t], state))\n'
          "        state = state + k[:, t, :, None] * v[:, t, None, :]\n", "linear E903", "off by one"),
    _slip("a state of what comes", MASKS, "for t in range(q.shape[1]):", "for t in reversed(range(q.shape[1])):",
          "linear E903, linear is causal E911"),
    # shared heads, rotary
    _slip("keys repeated in turn", GROUPED, "x.repeat_interleave(n_rep, dim=1)", "x.repeat(1, n_rep, 1, 1)", "grouped E903",
          "by `repeat`"),
    _slip("values repeated in turn", GROUPED, "repeat_kv(v, self.heads // self.kv_heads)",
          "v.repeat(1, self.heads // self.kv_heads, 1, 1)", "grouped E903", "by `repeat`"),
    _slip("frequencies of half a head", GROUPED, "dtype=torch.float64) / dim)", "dtype=torch.float64) / (dim // 2))",
          "rotary E903, grouped E903", "formula of a scalar"),
    _slip("keys count positions from the end", GROUPED, "        k = rotary(k)\n",
          "        k = rotary(k.flip(-2)).flip(-2)\n", "grouped E903"),
    _slip("keys are not rotated", GROUPED, "        k = rotary(k)\n", "", "grouped E903", "not applied"),
    _slip("values are rotated", GROUPED, "repeat_kv(v, ", "repeat_kv(rotary(v), ", "grouped E903", "leave alone"),
    _slip("not causal", GROUPED, "is_causal=True", "is_causal=False", "grouped E903, grouped is causal E911", MASK),
    _slip("rotation over the heads", GROUPED, "        q = rotary(q)\n",
          "        q = rotary(q.transpose(1, 2)).transpose(1, 2)\n", "grouped E903"),
    _slip("rotation the other way", GROUPED, "torch.cat((-x2, x1), dim=-1)", "torch.cat((x2, -x1), dim=-1)", "rotary E903",
          "other way"),
    _slip("angles of neighbours, pairs of halves", GROUPED, "torch.cat((freqs, freqs), dim=-1)",
          "freqs.repeat_interleave(2, dim=-1)", "rotary E903"),
    _slip("pairs of halves for neighbours", INTERLEAVED, "x.reshape(*x.shape[:-1], -1, 2))",
          "x.unflatten(-1, (2, -1)).mT.contiguous())", "interleaved E903"),
    _slip("halves turned for neighbours", INTERLEAVED,
          "    x_ = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))\n"
          "    return torch.view_as_real(x_ * freqs_cis).flatten(-2)\n",
          "    x_ = torch.complex(*x.chunk(2, dim=-1)) * freqs_cis\n    return torch.cat((x_.real, x_.imag), dim=-1)\n",
          "interleaved E903", "rotary pairs"),
    _slip("positions from one", INTERLEAVED, "t = torch.arange(end, ", "t = torch.arange(1, end + 1, ", "interleaved E903",
          "count from one"),
    # norms
    _slip("ε outside the root", NORMS, "torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)",
          "(1 / (x.pow(2).mean(-1, keepdim=True).sqrt() + self.eps))", "rms E903", "outside the root"),
    _slip("a norm over everything", NORMS, "x.pow(2).mean(-1, keepdim=True)", "x.pow(2).mean()",
          "rms E903, rms rows E912, rms is causal E911"),
    _slip("a norm over the positions", NORMS, "x.pow(2).mean(-1, keepdim=True)", "x.pow(2).mean(1, keepdim=True)",
          "rms E903, rms is causal E911"),
    _slip("a sum for a mean", NORMS, "x.pow(2).mean(-1, keepdim=True)", "x.pow(2).sum(-1, keepdim=True)", "rms E903",
          "is a sum"),
    _slip("the mean is subtracted", NORMS, "x.pow(2).mean(-1, keepdim=True)", "x.var(-1, keepdim=True, unbiased=False)",
          "rms E903", "mean is subtracted"),
    _slip("one plus the gain", NORMS, "self._norm(x) * self.weight", "self._norm(x) * (1 + self.weight)", "rms E903",
          "one is added"),
    _slip("no gain", NORMS, "self._norm(x) * self.weight", "self._norm(x)", "rms E903", "gain is missing"),
    _slip("the mean is added", NORMS, "(x - mean)", "(x + mean)", "layer norm E903", "a sign"),
    _slip("unbiased variance", NORMS, ", unbiased=False", "", "layer norm E903", "torch.var"),
    _slip("no bias", NORMS, " + self.b_2\n", "\n", "layer norm E903", "bias is missing"),
    _slip("the mean stays", NORMS, "(x - mean)", "x", "layer norm E903", "mean is not subtracted"),
    # gated MLP, experts
    _slip("gate and up change places", GATED, "F.silu(self.w1(x)) * self.w3(x)", "F.silu(self.w3(x)) * self.w1(x)",
          "gated E903", SWAPPED),
    _slip("GELU for SiLU", GATED, "F.silu(", "F.gelu(", "gated E903", "activation is another"),
    _slip("not normalised", EXPERTS, "        weights = weights / weights.sum(dim=-1, keepdim=True)\n", "", "experts E903",
          "not normalised"),
    _slip("router over the tokens", EXPERTS, "F.softmax(self.router(x), dim=1)", "F.softmax(self.router(x), dim=0)",
          "experts E903, experts rows E912"),
    _slip("weights of other experts", EXPERTS, "weights[token, slot, None]", "probs[token, slot, None]", "experts E903"),
    _slip("one expert too few", EXPERTS, "torch.topk(probs, self.top_k,", "torch.topk(probs, self.top_k - 1,", "experts E903",
          "one fewer"),
    _slip("softmax before the choice", EXPERTS,
          "    top, chosen = torch.topk(logits, k, dim=-1)\n    top = top.softmax(dim=-1)\n",
          "    top, chosen = torch.topk(logits.softmax(dim=-1), k, dim=-1)\n", "route E903", "over all"),
    # PyTorch's own
    _slip("what may be seen is hidden", TORCH_LAYERS, "torch.triu(", "torch.tril(", "multihead E903"),
    _slip("batch second", TORCH_LAYERS, "nhead, batch_first=True)\n", "nhead)\n", "multihead rows E901, multihead E901"),
    _slip("mask forgotten", TORCH_LAYERS, "attn_mask=mask, ", "", "multihead E903", MASK),
    _slip("norm after, by default", TORCH_LAYERS, ", norm_first=True", "", "encoder E903"),
    _slip("another activation", TORCH_LAYERS, 'activation="relu"', 'activation="gelu"', "encoder E903",
          "activation is another"),
    # caches
    _slip("positions start again", CACHED, "q, k = rotate(q, seen), rotate(k, seen)", "q, k = rotate(q, 0), rotate(k, 0)",
          "cache E914"),
    _slip("old keys after new ones", CACHED, "torch.cat([past[0], k], dim=2)", "torch.cat([k, past[0]], dim=2)", "cache E914"),
    _slip("values are forgotten", CACHED, "            v = torch.cat([past[1], v], dim=2)\n",
          "            v = torch.cat([v, v], dim=2)[:, :, : k.shape[2]]\n", "cache E914"),
    _slip("the last part only", CACHED, "kept = k[:, :, -self.window :], v[:, :, -self.window :]",
          "kept = k[:, :, -t:], v[:, :, -t:]", "cache E914"),
    _slip("a window too short", CACHED, "kept = k[:, :, -self.window :], v[:, :, -self.window :]",
          "kept = k[:, :, 2 - self.window :], v[:, :, 2 - self.window :]", "cache E914"),
    _slip("how many were seen is not counted", CACHED, "return self.out(y), (kept, seen + t)", "return self.out(y), (kept, t)",
          "cache E914"),
    # transformers' own
    _slip("exact GELU for a checkpoint of tanh", TRANSFORMERS_LAYERS, '"gelu_new"', '"gelu"', "hf mlp E903, hf block E903",
          "activation is another"),
    _slip("scores of a config are not scaled", TRANSFORMERS_LAYERS, "scale_attn_weights=True", "scale_attn_weights=False",
          "hf attention E903", SCALE),
    _slip("eager attention without its mask", TRANSFORMERS_LAYERS, '"sdpa"', '"eager"', "hf attention E903", MASK),
    _slip("ε of the config", TRANSFORMERS_LAYERS, "layer_norm_epsilon=1e-5", "layer_norm_epsilon=1e-12", "hf block E903"),
    _slip("ε of the norm", TRANSFORMERS_LAYERS, "eps=1e-5", "eps=1e-6", "hf norm E903", "ε is another"),
    _slip("GELU in a gated MLP", TRANSFORMERS_LAYERS, 'hidden_act="silu"', 'hidden_act="gelu"', "hf gated E903",
          "activation is another"),
    # A cache of fixed length
    _slip("keys and values are written one late", STATIC_CACHE,
          "        self.keys[:, :, positions] = k\n        self.values[:, :, positions] = v\n",
          "        self.keys[:, :, positions + 1] = k\n        self.values[:, :, positions + 1] = v\n",
          "static cache E903", "one position too early"),
    _slip("keys are written one early", STATIC_CACHE, "self.keys[:, :, positions] = k", "self.keys[:, :, positions - 1] = k",
          "static cache E903", "one position too late"),
    _slip("positions start again in each part", STATIC_CACHE, "q, k = rotate(q, positions), rotate(k, positions)",
          "q, k = rotate(q, positions - positions[0]), rotate(k, positions - positions[0])", "static cache E903",
          "do not go on"),
    _slip("the own position is hidden", STATIC_CACHE, "<= positions[:, None]", "< positions[:, None]", "static cache E903",
          "off by one"),
    _slip("keys and values exchanged in the cache", STATIC_CACHE,
          "        self.keys[:, :, positions] = k\n        self.values[:, :, positions] = v\n",
          "        self.keys[:, :, positions] = v\n        self.values[:, :, positions] = k\n", "static cache E903",
          "`k` and `v` change places"),
    _slip("q, k and v of each head", STATIC_CACHE,
          "(y.view(b, t, self.heads, -1).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))",
          "self.qkv(x).view(b, t, self.heads, -1).transpose(1, 2).chunk(3, -1)", "static cache E903", "split in each head"),
    _slip("a sign of one member", STATIC_CACHE, "x2 * angle.cos() + x1", "x2 * angle.cos() - x1", "static cache E903",
          "same sign"),
    _slip("neighbours in, halves out", STATIC_CACHE, "x1, x2 = x.chunk(2, dim=-1)", "x1, x2 = x[..., ::2], x[..., 1::2]",
          "static cache E903", "rotary pairs"),
    _slip("positions from the second on", STATIC_CACHE, "(x + self.positions)",
          "(x + torch.cat((torch.zeros_like(self.positions[:1]), self.positions[:-1])))", "classifier E903", "one too small"),
    _slip("the last token", STATIC_CACHE, "x[:, 0]", "x[:, -1]", "classifier E903", "another place"),
    _slip("a norm over positions", NORMS, "x.pow(2).mean(-1, keepdim=True) + self.eps",
          "x.pow(2).mean(1, keepdim=True) + self.eps", "rms E903, rms is causal E911", "mean or a variance"),
    _slip("halves written as neighbours", INTERLEAVED, "torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))",
          "torch.complex(*x.chunk(2, -1))", "interleaved E903", "pairs in one order"),
    _slip("heads attend to heads", EINOPS_ATTENTION,
          'einsum("b h i d, b h j d -> b h i j", q, k) * self.scale\n        attn = sim.softmax(dim=-1)\n'
          '        out = einsum("b h i j, b h j d -> b h i d", attn, v)',
          'einsum("b h i d, b j i d -> b h i j", q, k) * self.scale\n        attn = sim.softmax(dim=-1)\n'
          '        out = einsum("b h i j, b j i d -> b h i d", attn, v)', "einops E903", "another axis takes the place"),
)  # fmt: skip
