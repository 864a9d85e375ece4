"""Flows in arclength, for clusters that meet after times of hundreds of decades."""
