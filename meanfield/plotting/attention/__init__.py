"""Attention matrices: of which heads, whole or for one query."""
