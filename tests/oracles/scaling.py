"""How do configs stretch rotary positions? Lines that replace the scalars of a text; theirs is `rope_parameters`."""

LLAMA3 = """
  Λ = 64              # positions before stretching
  ρ = 8               # how far they are stretched
  α = 1               # turns in Λ below which an angle is divided by ρ
  β = 4               # turns in Λ above which it is kept
  φ_h = Θ^(-2 h / H)
  γ_h = (Λ φ_h / (2 π) - α) / (β - α)
  η_h = min(max(γ_h, 0), 1)
  θ_h = (1 - η_h) φ_h / ρ + η_h φ_h
"""

YARN = """
  Λ = 256             # positions before stretching
  ρ = 4               # how far they are stretched
  α = 1               # turns in Λ below which an angle is divided by ρ
  β = 4               # turns in Λ above which it is kept
  λ = max(floor(H log(Λ / (2 π β)) / (2 log(Θ))), 0)
  η = min(ceil(H log(Λ / (2 π α)) / (2 log(Θ))), H - 1)
  ψ_h = min(max((h - λ) / (η - λ), 0), 1)
  θ_h = Θ^(-2 h / H) (1 - ψ_h + ψ_h / ρ)
  μ = 1 + log(ρ) / 10
"""

GPT_OSS_YARN = """
  Λ = 256
  ρ = 32
  δ = 1
  β = 4
  λ = max(H log(Λ / (2 π β)) / (2 log(Θ)), 0)
  η = min(H log(Λ / (2 π δ)) / (2 log(Θ)), H - 1)
  ψ_h = min(max((h - λ) / (η - λ), 0), 1)
  θ_h = Θ^(-2 h / H) (1 - ψ_h + ψ_h / ρ)
  μ = 1 + log(ρ) / 10
"""

DEEPSEEK_YARN = """
  Λ = 256
  ρ = 4
  α = 1
  β = 4
  λ = max(floor(E log(Λ / (2 π β)) / (2 log(Θ))), 0)
  η = min(ceil(E log(Λ / (2 π α)) / (2 log(Θ))), E - 1)
  ψ_h = min(max((h - λ) / (η - λ), 0), 1)
  θ_h = Θ^(-2 h / E) (1 - ψ_h + ψ_h / ρ)
  μ = (1 + 0.07 log(ρ)) / (1 + 0.13 log(ρ))
  τ = (1 + 0.13 log(ρ))^2 / sqrt(N + E)
"""

YARN_PARAMETERS = {
    "rope_type": "yarn",
    "factor": 4.0,
    "beta_fast": 4.0,
    "beta_slow": 1.0,
    "original_max_position_embeddings": 256,
}

PARAMETERS: dict[str, dict[str, object]] = {
    "llama3": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    },
    "yarn": YARN_PARAMETERS,
    "gpt_oss": YARN_PARAMETERS | {"factor": 32.0, "truncate": False},
    "deepseek": YARN_PARAMETERS | {"mscale": 0.7, "mscale_all_dim": 1.3},
}
