"""What does a specification cost: its parameters, and the FLOPs of its products, as numbers and as formulas?"""
