"""What pictures and pages read in a dataset, and the numbers that they draw."""
