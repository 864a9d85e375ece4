"""Ours against what a user would pick instead: time, memory, error, in one run."""
