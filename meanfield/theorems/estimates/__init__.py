"""Statements on sizes and Lipschitz constants, tested by gradient ascent."""
