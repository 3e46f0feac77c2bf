"""What do documents say of these models, and is it so? Their letters, and their formulas, as data."""
