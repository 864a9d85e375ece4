"""What `house.py` counts, a module for each kind of count."""
