"""Statements on Gaussians under expected sliced transport attention."""
