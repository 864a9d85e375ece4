"""Statements on the pictures of covariances and the steps that drew them."""
