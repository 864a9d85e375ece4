"""Panel and movies of tokens or of a Gaussian."""
