"""A density on its way: as panels and as a movie."""
