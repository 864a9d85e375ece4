"""Figures that `meanfield reproduce` computes; each folder holds those of one idea.

Without this file Python would merge the folder with others named `experiments`.
"""
