"""Which formulas does a file of notes hold, and in which section does each stand? A reader for each format."""
