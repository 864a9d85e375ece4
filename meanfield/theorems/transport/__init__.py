"""Statements on entropic transport between Gaussians."""
