"""Reproductions of published figures by `meanfield reproduce`, a folder for each idea.

Without this file Python would merge the folder with others named `experiments`.
"""
