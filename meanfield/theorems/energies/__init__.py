"""Statements on energies, their gradient flows and the metrics of these."""
