"""Tokens, or a Gaussian, on their way: as a panel and as a movie."""
