"""Covariances of order two: the cone, and its disc of trace one."""
