"""Statements on attention: its variants on points, masks and heads."""
