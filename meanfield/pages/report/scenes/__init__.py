"""Datasets as the numbers that a page draws."""
