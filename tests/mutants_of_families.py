"""Which slips of the shipped texts and of their tables would the tests notice? As `tests/mutants.py`."""

from __future__ import annotations

from tests.mutants import Mutant


def _mutant(name: str, file: str, old: str, new: str, *killers: str) -> Mutant:
    return Mutant(name, f"einformer/{file}", old, new, tuple(f"tests/test_{killer}" for killer in killers))


def _logits(*toys: str) -> tuple[str, ...]:
    return tuple(f"families.py::test_logits_are_theirs[{toy}-fan_in]" for toy in toys)


def _text(name: str, text: str, old: str, new: str, toy: str) -> Mutant:
    """A slip in a text, which the logits of a toy show."""
    return _mutant(name, f"architectures/{text}.ein", old, new, *_logits(toy))


ROPE = "huggingface/rope.toml"
LENGTHS = "rope.py::test_angles_are_those_for_the_length"
DEFAULT = "defaults.py::test_an_absent_key_is_what_it_is_in_transformers"

MUTANTS = (
    # ------------------------------------------------------------------------------------------------------- positions
    _text(
        "rotary pairs are neighbours", "llama",
        "y_{s(ih)} = μ (x_{s(ih)} cos(s θ_h) + (2 i - 1) x_{s((1 - i)h)} sin(s θ_h))",
        "y_{s(hi)} = μ (x_{s(hi)} cos(s θ_h) + (2 i - 1) x_{s(h(1 - i))} sin(s θ_h))", "llama",
    ),
    _text("rotary pairs are halves", "glm", "floor(e / 2) mod (R / 2)", "e mod (R / 2)", "glm"),
    _text("rotation goes the other way", "mistral", "(2 i - 1)", "(1 - 2 i)", "mistral"),
    _text("angles shrink twice as slowly", "llama", "Θ^(-2 h / H)", "Θ^(-h / H)", "llama"),
    _text("the angles of a part are those of the whole head", "phi3", "Θ^(-2 h / R)", "Θ^(-2 h / H)", "phi3"),
    _text(
        "local layers have the angles of global ones", "olmo3",
        "μ sin(s θ_h), sin(s α_h)", "μ sin(s θ_h), sin(s θ_h)", "olmo3",
    ),
    _text("every layer forgets as fast as the first", "minimax", "(1 - l / (L - 1 + 1e-5) + 1e-5)", "1", "minimax_text"),
    _text("slopes begin with 1", "minimax", "2^(-8 (a + 1) / A)", "2^(-8 a / A)", "minimax_text"),
    _text("layers without positions have some", "smollm3", "mod N == 0, 0, 1)", "mod N == 0, 1, 0)", "smollm3"),
    _text("positions of OPT begin at zero", "opt", "P_{(s + 2) d}", "P_{(s + 1) d}", "opt"),
    _mutant(
        "theta is another where none is said", "architectures/smollm3.toml",
        '"Θ" = 2000000', '"Θ" = 10000', DEFAULT + "[smollm3]",
    ),
    _mutant(
        "positions are stretched twice", ROPE,
        "θ_h = Θ^(-2 h / {H}) / ρ", "θ_h = Θ^(-2 h / {H}) / ρ^2", *_logits("llama_linear"),
    ),
    _mutant(
        "the base of dynamic NTK grows without its power", ROPE,
        "^({H} / ({H} - 2))", "", LENGTHS + "[dynamic-83]",
    ),
    _mutant(
        "LongRoPE takes the long factors too soon", ROPE,
        "where(Φ > Λ, Δ_h, Γ_h)", "where(Φ > 0, Δ_h, Γ_h)", LENGTHS + "[longrope-37]",
    ),
    _mutant(
        "LongRoPE turns with another size", ROPE,
        "μ = sqrt(1 + log(max(ρ, 1)) / log(Λ))", "μ = 1 + log(max(ρ, 1)) / log(Λ)", LENGTHS + "[longrope-83]",
    ),
    _mutant(
        "a ramp without length is none", ROPE,
        "where(η == ω, 0.001, ω - η)", "(ω - η)", *_logits("llama_yarn_steep"),
    ),
    _mutant(
        "the ramp of YaRN begins at a whole pair whatever is said", ROPE,
        '"rope.truncate" = true', '"rope.truncate" = false', *_logits("llama_yarn"),
    ),
    # ------------------------------------------------------------------------------------------------ norms and scales
    _mutant(
        "ε stands outside the root", "architectures/prelude.ein",
        "return γ_d z_d / sqrt(mean_d z_d^2 + ε)", "return γ_d z_d / (sqrt(mean_d z_d^2) + ε)", *_logits("llama"),
    ),
    _mutant(
        "ε is another where none is said", "architectures/glm.toml",
        '"ε" = 1.5625e-7', '"ε" = 1e-5', DEFAULT + "[glm]",
    ),
    _text("Gemma's gains are no deviations from one", "gemma2", "(1 + γ_d) z_d", "γ_d z_d", "gemma2"),
    _text("scores are scaled by the hidden size", "qwen3", "/ sqrt(H) + m_ss'", "/ sqrt(D) + m_ss'", "qwen3"),
    _text("scores of GPT-Neo are scaled", "gpt_neo", "k_s'ea + m_ss'", "k_s'ea / sqrt(H) + m_ss'", "gpt_neo"),
    _text("what is added is not scaled", "granitemoe", "β Experts_l", "Experts_l", "granitemoe"),
    _text("scores grow from the first position on", "llama4", "floor((s + 1) / Ω)", "floor(s / Ω)", "llama4_text"),
    _text("squared relu is relu", "nemotron", "relu(z_d W_df)^2", "relu(z_d W_df)", "nemotron"),
    # ------------------------------------------------------------------------------------------------ heads and windows
    _mutant(
        "groups are stored behind their members", "huggingface/grouped.toml",
        'q_proj.weight", "(g j e) d"', 'q_proj.weight", "(j g e) d"', *_logits("llama"),
    ),
    _mutant(
        "keys are stored before queries", "architectures/phi3.toml",
        'Q, K, V", "model.layers.{l}.self_attn.qkv_proj.weight", "(g j e + g e + g e) d"',
        'K, Q, V", "model.layers.{l}.self_attn.qkv_proj.weight", "(g e + g j e + g e) d"', *_logits("phi3"),
    ),
    _mutant(
        "gains of heads lie in another order", "architectures/stablelm.toml",
        'norms.{gj}.weight', 'norms.{jg}.weight', *_logits("stablelm_qk"),
    ),
    _text("a window is one position longer", "mistral", "s - W < s'", "s - W <= s'", "mistral"),
    _text("a window is one position shorter", "gpt_neo", "s - W_l < s'", "s - W_l + 1 < s'", "gpt_neo"),
    _text("a chunk begins one position late", "llama4", "floor(s / W_l)", "floor((s - 1) / W_l)", "llama4_text"),
    # --------------------------------------------------------------------------------------------------------- mixtures
    _text("shares are not normalised", "mixtral", "  p_x <- p_x / sum_x p_x\n", "", "mixtral"),
    _text(
        "shares are those among all", "granitemoe",
        "Sm_x(where(top_{T,x}(r_x), r_x, -inf))", "where(top_{T,x}(r_x), Sm_x(r_x), 0)", "granitemoe",
    ),
    _text("shares are scaled twice", "glm4_moe", "return ζ p_x", "return ζ^2 p_x", "glm4_moe"),
    _text("groups of experts are chosen by their best", "glm4_moe_qk", "top_{2,k}", "top_{1,k}", "glm4_moe_qk"),
    _text(
        "what experts give is scaled, not what they get", "llama4",
        "return silu(g_xf) u_xf O_xfd", "return p_x silu(g_xf) u_xf O_xfd", "llama4_text",
    ),
    _text("the shared expert is forgotten", "deepseek_v3", "O_xmd + GatedMLP_o(z_d)", "O_xmd", "deepseek_v3"),
    _text(
        "the gate of the shared expert is forgotten", "qwen2_moe",
        "σ GatedMLP_o(z_d)", "GatedMLP_o(z_d)", "qwen2_moe",
    ),
    # ------------------------------------------------------------------------------------------------------------ lists
    _mutant(
        "a list of layers is one of all others", "huggingface/keys.py",
        "int(layer in value)", "int(layer not in value)", *_logits("llama4_even"),
    ),
    _mutant(
        "words are not repeated", "huggingface/keys.py",
        "for word in some * times", "for word in some", *_logits("gpt_neo_plain"),
    ),
    _mutant(
        "numbers of tensors count the other way round", "huggingface/weights.py",
        "at[letter], letters, 0)", "at[letter], letters[::-1], 0)", *_logits("stablelm_qk"),
    ),
)  # fmt: skip
