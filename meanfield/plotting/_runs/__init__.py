"""What pictures read in a dataset, and the numbers that they draw."""
