"""Reads documents about these models: their formulas, judged or run, and their letters and claims as data, checked."""
