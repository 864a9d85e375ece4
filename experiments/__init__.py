"""Figures that `meanfield reproduce` computes; each folder holds the figures for one idea.

Without this file Python would merge the folder with others named `experiments`.
"""
