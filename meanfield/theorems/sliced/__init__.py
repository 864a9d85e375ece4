"""Statements on ESPFormer: transport along slices, sorting, the attention of both."""
