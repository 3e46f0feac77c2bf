"""Holds the letters and formulas of documents about these models as data, and checks them."""
