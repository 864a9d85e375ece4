"""What every figure shares: its style, title, notes, legends, bands."""
