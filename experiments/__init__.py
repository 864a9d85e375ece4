"""Figures of the literature, a folder for each idea, made by `meanfield reproduce`.

Without this file Python would merge the folder with others named `experiments`.
"""
