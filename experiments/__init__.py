"""Figures that `meanfield reproduce` computes, with one folder for each idea.

Without this file Python would merge the folder with others named `experiments`.
"""
