"""Statements on energies, their gradient flows and the metrics of the flows."""
