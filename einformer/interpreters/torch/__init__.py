"""What PyTorch code computes a specification: readable source, and the module made from it."""
