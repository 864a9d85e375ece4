"""Statements on Gaussians: closed forms, their flows, limits and blow-ups."""
