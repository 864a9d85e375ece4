"""Benchmarks of time, memory and error against other libraries."""
