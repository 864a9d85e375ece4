"""Figures of the literature, a folder for each idea, made by `meanfield reproduce`.

The folder has an `__init__.py`, so that it is not merged with others of this name.
"""
