"""The panels `cone` and `disc` of 2 × 2 covariances, and the page of the cone."""
