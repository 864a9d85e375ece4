"""Statements on sizes and Lipschitz constants, attacked by gradient ascent."""
