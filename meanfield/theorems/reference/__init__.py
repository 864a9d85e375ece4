"""Formulas of the papers in NumPy, SciPy and POT: references for the library."""
