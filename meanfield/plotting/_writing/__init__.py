"""Figures and other files for readers, written whole or not at all."""
