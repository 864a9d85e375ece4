"""Statements on the limits of small bandwidths."""
