"""The papers' formulas in NumPy, SciPy and POT: what the library is held against."""
