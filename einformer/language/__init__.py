"""What is a specification: its tree, its text, its rules."""
