"""Statements on sparse Sinkhorn attention: blocks, their sorting, causality, counts."""
