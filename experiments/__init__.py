"""Figures of the literature, a folder for each idea; `meanfield reproduce` makes them.

A package of its own, so that no other folder of this name on Python's path joins it.
"""
