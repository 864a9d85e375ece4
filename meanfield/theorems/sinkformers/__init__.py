"""Statements on Sinkformers: their marginals, layers, kernels and gradients."""
