"""What a specification means: one module per interpretation, none imports another."""
