"""What do our weights hold, in transformers' names? Tables for `names.translate`, one a family.

Ours is an array in the order of the weight's letters, theirs mostly a matrix (out, in) of heads and features merged.
"""

DECODER = """
E                           model.embed_tokens.weight              v d
U                           lm_head.weight                         v d
*.RMSNorm.γ                 *.input_layernorm.weight               d
*.RMSNorm_2.γ               *.post_attention_layernorm.weight      d
RMSNorm_3.γ                 model.norm.weight                      d
"""

GROUPED = """
*.Attention.Q               *.self_attn.q_proj.weight              (g j e) d -> d e g j
*.Attention.K               *.self_attn.k_proj.weight              (g e) d -> d e g
*.Attention.V               *.self_attn.v_proj.weight              (g e) d -> d e g
*.Attention.O               *.self_attn.o_proj.weight              d (g j e) -> e g j d
"""

# Theirs pairs the halves of a head, (i h), ours neighbours, (h i): the same rotation with the features in another order.
NEIGHBOURS = """
*.Attention.Q               *.self_attn.q_proj.weight              (g j i h) d -> d (h i) g j
*.Attention.K               *.self_attn.k_proj.weight              (g i h) d -> d (h i) g
*.Attention.V               *.self_attn.v_proj.weight              (g e) d -> d e g
*.Attention.O               *.self_attn.o_proj.weight              d (g j e) -> e g j d
"""

GATED = """
*.GatedMLP.G                *.mlp.gate_proj.weight                 f d -> d f
*.GatedMLP.U                *.mlp.up_proj.weight                   f d -> d f
*.GatedMLP.O                *.mlp.down_proj.weight                 d f -> f d
"""

LLAMA = DECODER + GROUPED + GATED

LLAMA_INTERLEAVED = DECODER + NEIGHBOURS + GATED

QWEN3 = f"""
{LLAMA}
*.Attention.RMSNorm.γ       *.self_attn.q_norm.weight              e
*.Attention.RMSNorm_2.γ     *.self_attn.k_norm.weight              e
"""

MIXTRAL = f"""
{DECODER + GROUPED}
*.Experts.R                 *.mlp.gate.weight                      x d -> d x
*.Experts.G, U              *.mlp.experts.gate_up_proj             x (f + f) d -> x d f
*.Experts.O                 *.mlp.experts.down_proj                x d f -> x f d
"""

GPT_OSS = f"""
{DECODER + GROUPED}
*.Attention.α               *.self_attn.q_proj.bias                (g j e) -> e g j
*.Attention.κ               *.self_attn.k_proj.bias                (g e) -> e g
*.Attention.ν               *.self_attn.v_proj.bias                (g e) -> e g
*.Attention.ω               *.self_attn.o_proj.bias                d
*.Attention.σ               *.self_attn.sinks                      (g j) -> g j
*.Experts.R                 *.mlp.router.weight                    x d -> d x
*.Experts.ρ                 *.mlp.router.bias                      x
*.Experts.G, U              *.mlp.experts.gate_up_proj             x d (f (1 + 1)) -> x d f
*.Experts.γ, υ              *.mlp.experts.gate_up_proj_bias        x (f (1 + 1)) -> x f
*.Experts.O                 *.mlp.experts.down_proj                x f d
*.Experts.ω                 *.mlp.experts.down_proj_bias           x d
"""

GEMMA2 = f"""
E                           model.embed_tokens.weight              v d
*.pre.γ                     *.input_layernorm.weight               d
*.post.γ                    *.post_attention_layernorm.weight      d
*.pre_prime.γ                    *.pre_feedforward_layernorm.weight     d
*.post_prime.γ                   *.post_feedforward_layernorm.weight    d
*.GeluMLP.G                 *.mlp.gate_proj.weight                 f d -> d f
*.GeluMLP.U                 *.mlp.up_proj.weight                   f d -> d f
*.GeluMLP.O                 *.mlp.down_proj.weight                 d f -> f d
RMSNorm1.γ                  model.norm.weight                      d
{GROUPED}
"""

DEEPSEEK_V3 = f"""
{DECODER + GATED}
*.LatentAttention.A               *.self_attn.q_a_proj.weight            c d -> d c
*.LatentAttention.LatentNorm.γ    *.self_attn.q_a_layernorm.weight       c
*.LatentAttention.Q, P            *.self_attn.q_b_proj.weight            (a (n + e)) c -> c n a | c e a
*.LatentAttention.B, T            *.self_attn.kv_a_proj_with_mqa.weight  (r + e) d -> d r | d e
*.LatentAttention.LatentNorm_2.γ  *.self_attn.kv_a_layernorm.weight      r
*.LatentAttention.K, V            *.self_attn.kv_b_proj.weight           (a (n + u)) r -> r n a | r u a
*.LatentAttention.O               *.self_attn.o_proj.weight              d (a u) -> u a d
*.Experts.Router.R                *.mlp.gate.weight                      x d -> d x
*.Experts.Router.β                *.mlp.gate.e_score_correction_bias     x
*.Experts.G, U                    *.mlp.experts.gate_up_proj             x (m + m) d -> x d m
*.Experts.O                       *.mlp.experts.down_proj                x d m -> x m d
*.Experts.GatedMLP.G              *.mlp.shared_experts.gate_proj.weight  o d -> d o
*.Experts.GatedMLP.U              *.mlp.shared_experts.up_proj.weight    o d -> d o
*.Experts.GatedMLP.O              *.mlp.shared_experts.down_proj.weight  d o -> o d
"""

GPT2 = """
E                           transformer.wte.weight                 v d
P                           transformer.wpe.weight                 k d
*.LayerNorm.γ               *.ln_1.weight                          d
*.LayerNorm.β               *.ln_1.bias                            d
*.CausalAttention.Q, K, V   *.attn.c_attn.weight                   d (a e + a e + a e) -> d e a
*.CausalAttention.α, κ, ν   *.attn.c_attn.bias                     (a e + a e + a e) -> e a
*.CausalAttention.O         *.attn.c_proj.weight                   D d
*.CausalAttention.ω         *.attn.c_proj.bias                     d
*.LayerNorm_2.γ             *.ln_2.weight                          d
*.LayerNorm_2.β             *.ln_2.bias                            d
*.MLP.W                     *.mlp.c_fc.weight                      d f
*.MLP.ω                     *.mlp.c_fc.bias                        f
*.MLP.U                     *.mlp.c_proj.weight                    f d
*.MLP.υ                     *.mlp.c_proj.bias                      d
LayerNorm_3.γ               transformer.ln_f.weight                d
LayerNorm_3.β               transformer.ln_f.bias                  d
"""

BLOOM = """
E                           transformer.word_embeddings.weight             v d
LayerNorm.γ                 transformer.word_embeddings_layernorm.weight   d
LayerNorm.β                 transformer.word_embeddings_layernorm.bias     d
*.LayerNorm_2.γ             *.input_layernorm.weight                       d
*.LayerNorm_2.β             *.input_layernorm.bias                         d
*.Attention.Q, K, V         *.self_attention.query_key_value.weight        (a (e + e + e)) d -> d e a
*.Attention.α, κ, ν         *.self_attention.query_key_value.bias          (a (e + e + e)) -> e a
*.Attention.O               *.self_attention.dense.weight                  d (a e) -> e a d
*.Attention.ω               *.self_attention.dense.bias                    d
*.LayerNorm_3.γ             *.post_attention_layernorm.weight              d
*.LayerNorm_3.β             *.post_attention_layernorm.bias                d
*.MLP.W                     *.mlp.dense_h_to_4h.weight                     f d -> d f
*.MLP.φ                     *.mlp.dense_h_to_4h.bias                       f
*.MLP.U                     *.mlp.dense_4h_to_h.weight                     d f -> f d
*.MLP.υ                     *.mlp.dense_4h_to_h.bias                       d
LayerNorm_4.γ               transformer.ln_f.weight                        d
LayerNorm_4.β               transformer.ln_f.bias                          d
"""

MPT = """
E                           transformer.wte.weight                 v d
*.LayerNorm.γ               *.norm_1.weight                        d
*.Attention.Q, K, V         *.attn.Wqkv.weight                     (a e + a e + a e) d -> d e a
*.Attention.O               *.attn.out_proj.weight                 d (a e) -> e a d
*.LayerNorm_2.γ             *.norm_2.weight                        d
*.MLP.W                     *.ffn.up_proj.weight                   f d -> d f
*.MLP.U                     *.ffn.down_proj.weight                 d f -> f d
LayerNorm_3.γ               transformer.norm_f.weight              d
"""

GPTJ = """
E                           transformer.wte.weight                 v d
*.LayerNorm.γ               *.ln_1.weight                          d
*.LayerNorm.β               *.ln_1.bias                            d
*.Attention.Q               *.attn.q_proj.weight                   (a e) d -> d e a
*.Attention.K               *.attn.k_proj.weight                   (a e) d -> d e a
*.Attention.V               *.attn.v_proj.weight                   (a e) d -> d e a
*.Attention.O               *.attn.out_proj.weight                 d (a e) -> e a d
*.MLP.W                     *.mlp.fc_in.weight                     f d -> d f
*.MLP.φ                     *.mlp.fc_in.bias                       f
*.MLP.U                     *.mlp.fc_out.weight                    d f -> f d
*.MLP.υ                     *.mlp.fc_out.bias                      d
LayerNorm_2.γ               transformer.ln_f.weight                d
LayerNorm_2.β               transformer.ln_f.bias                  d
U                           lm_head.weight                         v d
υ                           lm_head.bias                           v
"""

GPT_NEOX = """
E                           gpt_neox.embed_in.weight               v d
*.LayerNorm.γ               *.input_layernorm.weight               d
*.LayerNorm.β               *.input_layernorm.bias                 d
*.Attention.Q, K, V         *.attention.query_key_value.weight     (a (e + e + e)) d -> d e a
*.Attention.α, κ, ν         *.attention.query_key_value.bias       (a (e + e + e)) -> e a
*.Attention.O               *.attention.dense.weight               d (a e) -> e a d
*.Attention.ω               *.attention.dense.bias                 d
*.LayerNorm_2.γ             *.post_attention_layernorm.weight      d
*.LayerNorm_2.β             *.post_attention_layernorm.bias        d
*.MLP.W                     *.mlp.dense_h_to_4h.weight             f d -> d f
*.MLP.φ                     *.mlp.dense_h_to_4h.bias               f
*.MLP.U                     *.mlp.dense_4h_to_h.weight             d f -> f d
*.MLP.υ                     *.mlp.dense_4h_to_h.bias               d
LayerNorm_3.γ               gpt_neox.final_layer_norm.weight       d
LayerNorm_3.β               gpt_neox.final_layer_norm.bias         d
U                           lm_head.weight                         v d
"""

DELTA_NET = """
Q, K, V, Z                  in_proj_qkvz.weight    (g (e + e + j u + j u)) d -> d e g | d e g | d u g j | d u g j
B, A                        in_proj_ba.weight      (g (j + j)) d -> d g j
χ, ξ, ψ                     conv1d.weight          (g e + g e + g j u) 1 c -> -c e g | -c e g | -c u g j
τ                           dt_bias                (g j) -> g j
λ                           A_log                  (g j) -> g j
γ                           norm.weight            u
O                           out_proj.weight        d (g j u) -> u g j d
"""

MAMBA2 = """
G, X, B, C, T     in_proj.weight    (g j h + g j h + g n + g n + g j) d -> d h g j | d h g j | d g n | d g n | d g j
χ, ξ, ψ           conv1d.weight     (g j h + g n + g n) 1 c -> -c h g j | -c g n | -c g n
α, β, κ           conv1d.bias       (g j h + g n + g n) -> h g j | g n | g n
τ                 dt_bias           (g j) -> g j
λ                 A_log             (g j) -> g j
δ                 D                 (g j) -> g j
γ                 norm.weight       (g j h) -> h g j
O                 out_proj.weight   d (g j h) -> h g j d
"""
