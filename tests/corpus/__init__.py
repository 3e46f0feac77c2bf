"""Programs as people write them: right ones. `tests/slips_of_programs.py` says what goes wrong in them."""
