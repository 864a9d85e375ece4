"""Statements on Sinkformers: both marginals, layers, kernels and gradients."""
