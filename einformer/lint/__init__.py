"""Checks the equations of notes, and the names of tensors in Python, against what they compute."""
