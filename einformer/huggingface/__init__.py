"""Reads files of Hugging Face: a config.json as an architecture with sizes, and its tensors as weights."""
