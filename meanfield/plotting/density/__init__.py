"""Panels and movies of densities."""
