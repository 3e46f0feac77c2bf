"""Counts what a specification costs: its parameters, and the FLOPs of its products, as numbers and as formulas."""
