"""Conversion of datasets to the data that a page draws."""
