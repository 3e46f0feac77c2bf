"""Who else knows the answer? Models that were not written here: transformers, lifted to float64, and twins in NumPy."""
