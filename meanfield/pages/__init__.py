"""Pages that a browser plays, one HTML file each, which fetches nothing."""
