"""Parts shared by all figures: style, title, small print, legends, bands."""
