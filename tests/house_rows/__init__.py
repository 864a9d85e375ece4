"""The counts of `house.py`, a module for each kind."""
