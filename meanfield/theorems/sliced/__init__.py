"""Statements on ESPFormer: transport along slices, sorting, and sliced attention."""
