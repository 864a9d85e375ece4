"""Statements on solutions: existence, supports, stability and limits of many tokens."""
