"""The cells of a sweep: phase diagrams."""
