"""Statements about attention: its variants on points, its masks and its heads."""
