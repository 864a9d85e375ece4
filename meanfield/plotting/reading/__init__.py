"""Reading of datasets for pictures and pages, and the quantities that they draw."""
