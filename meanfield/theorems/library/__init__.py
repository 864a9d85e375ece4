"""Compiled calls of the library for statements, and random inputs for them."""
