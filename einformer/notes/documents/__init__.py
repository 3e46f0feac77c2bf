"""Reads the formulas of notes, with the sections in which they stand. Each format has its own reader."""
